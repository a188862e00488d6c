"""The way from an application to what runs it, which apply, explain and compare walk alike.

An adapter takes one thing off: labels, a file, chunks, further axes; where the array is on another
device, that is entered first. What is left is a smaller application, which takes the same way; so
does each block of an array. The last one, `one_axis`, plans. Each is a file here, loaded when the
first application needs it, with a function ``adapt(app)``: it gives what stands for the
application, or an application to go on with.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ... import arrays, config, frontends, labelled, storage
from ...errors import InputError
from ..application import Application

if TYPE_CHECKING:
    from ..plan import Plan, Timed


class Adapted:
    """What stands for an application: it has what can be asked for."""

    def results(self) -> Any:
        """The results for all slices."""
        raise NotImplementedError

    def plan(self) -> Plan:
        """What would run."""
        raise NotImplementedError

    def compared(self) -> tuple[Timed, ...]:
        """What each way to run it takes, on some of the slices."""
        raise InputError("compare=True is for arrays in memory: give a part of this one")


def adapted(app: Application) -> Adapted:
    """What stands for an application."""
    if (device := arrays.elsewhere(app.arr)) is not None:
        return _Elsewhere(app, device)
    for name, takes in _CHAIN.items():
        if takes(app):
            found = (_loaded.get(name) or _load(name))(app)
            if isinstance(found, Adapted):
                return found
            app = found
    raise AssertionError("the last adapter takes all")


_loaded: dict[str, Callable[[Application], Any]] = {}
"""The function ``adapt`` of each file that was needed so far."""


def _load(name: str) -> Callable[[Application], Any]:
    found = _loaded[name] = import_module(f"{__name__}.{name}").adapt
    return found


def results(app: Application) -> Any:
    """The results for all slices: by what ran on arrays like this one, where there is such."""
    if not (app.args or app.kwargs or frontends.is_python(app.f)):
        from .. import planner

        if (found := planner.again(app.f, app.axis, app.arr)) is not None:
            return found
    return adapted(app).results()


class _Elsewhere(Adapted):
    """An array on a device that is not the current one, which it is meanwhile."""

    def __init__(self, app: Application, device: AbstractContextManager[Any]) -> None:
        self._app, self._device = app, device

    def results(self) -> Any:
        with self._device:
            return results(self._app)

    def plan(self) -> Plan:
        with self._device:
            return adapted(self._app).plan()

    def compared(self) -> tuple[Timed, ...]:
        with self._device:
            return adapted(self._app).compared()


class Inner(Adapted):
    """Another application in the place of one, whose results may be known from before."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def results(self) -> Any:
        return results(self._app)

    def plan(self) -> Plan:
        return adapted(self._app).plan()

    def compared(self) -> tuple[Timed, ...]:
        return adapted(self._app).compared()


def _is_in_file(app: Application) -> bool:
    return "out" in app.kwargs or bool(config.current().device) or storage.is_stored(app.arr)


_CHAIN: dict[str, Callable[[Application], bool]] = {
    "in_file": _is_in_file,
    "labels": lambda app: labelled.wing(app.arr) is not None,
    "in_chunks": lambda app: arrays.library(app.arr) == "dask",
    "several_axes": lambda app: isinstance(app.axis, tuple),
    "one_axis": lambda app: True,
}
"""The adapters, by their files, and which applications they take."""
