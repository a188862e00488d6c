"""The way from an application to what runs it, which apply, explain and compare walk alike.

An adapter takes one thing off: labels, a file, chunks, further axes; where the array is on another
device, that is entered first. What is left is a smaller application, which takes the same way; so
does each block of an array. The last one, `one_axis`, plans. Each is a file here, loaded when the
first application needs it, with a function ``adapt(app)``: it gives what stands for the
application, or an application to go on with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ... import arrays, config, labelled, storage
from ...errors import InputError
from ..application import Application
from ..direct import directly

if TYPE_CHECKING:
    from ..plan import Plan, Timed


_NOWHERE = nullcontext()


class Adapted:
    """An application ready to be run, explained or compared."""

    def results(self) -> Any:
        """The results for all slices."""
        raise NotImplementedError

    def plan(self) -> Plan:
        """The plan."""
        raise NotImplementedError

    def compared(self) -> tuple[Timed, ...]:
        """Times of all ways on some of the slices."""
        raise InputError("compare=True is for arrays in memory: give a part of this one")


def adapted(app: Application) -> Adapted:
    """Adapt an application: walk along the chain of adapters."""
    if (device := arrays.elsewhere(app.arr)) is not None:
        return Inner(app, device)
    chain = _CHAIN
    if _is_plain(type(app.arr)) and not isinstance(app.axis, tuple):  # type: ignore[arg-type]
        now = config.current()
        chain = _LAST if "out" not in app.kwargs and now.has_few else _CHAIN
    for name, takes in chain.items():
        if takes(app):
            found = (_loaded.get(name) or _load(name))(app)
            if isinstance(found, Adapted):
                return found
            app = found
    raise AssertionError("the last adapter takes all")


@functools.lru_cache(maxsize=1024)
def _is_plain(kind: Any) -> bool:
    """Whether arrays of a class are in memory and have no labels, so that no adapter applies."""
    name = None if hasattr(kind, "read_unit") else arrays._library(kind)
    return name not in (None, "dask") and labelled._library(kind) is None


_loaded: dict[str, Callable[[Application], Any]] = {}
"""The function ``adapt`` of each file that was needed so far."""


def _load(name: str) -> Callable[[Application], Any]:
    found = _loaded[name] = import_module(f"{__name__}.{name}").adapt
    return found


def results(app: Application) -> Any:
    """The results for all slices: by what ran on arrays like this one, where there is such."""
    found = directly(app.f, app.axis, app.arr, app.args, app.kwargs)
    return adapted(app).results() if found is None else found


class Inner(Adapted):
    """Another application in the place of one, whose results may be known from before.

    `within`: a device that is the current one meanwhile.
    """

    def __init__(self, app: Application, within: AbstractContextManager[Any] = _NOWHERE) -> None:
        self._app, self._within = app, within

    def results(self) -> Any:
        with self._within:
            return results(self._app)

    def plan(self) -> Plan:
        with self._within:
            return adapted(self._app).plan()

    def compared(self) -> tuple[Timed, ...]:
        with self._within:
            return adapted(self._app).compared()


def _is_in_file(app: Application) -> bool:
    return "out" in app.kwargs or bool(config.current().device) or storage.is_stored(app.arr)


_CHAIN: dict[str, Callable[[Application], bool]] = {
    "of_any_length": lambda app: config.current().fill is not None,
    "in_file": _is_in_file,
    "labels": lambda app: labelled._library(type(app.arr)) is not None,  # type: ignore[arg-type]
    "in_chunks": lambda app: arrays.library(app.arr) == "dask",
    "several_axes": lambda app: isinstance(app.axis, tuple),
    "one_axis": lambda app: True,
}
"""The adapters, by their files, and which applications they take."""
_LAST = {"one_axis": _CHAIN["one_axis"]}
"""The chain for arrays in memory along one axis."""
