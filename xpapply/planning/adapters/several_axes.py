"""Slices along several axes: laid flat along one where `f` takes that, else as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import arrays, config, frontends
from ...errors import TraceError
from .. import compared
from ..application import Application
from ..flat_slices import FlatSlices, reshaped
from ..python.several_arrays import AlongAxes
from . import Adapted, Inner

if TYPE_CHECKING:
    from ..plan import Plan, Timed


def adapt(app: Application) -> Adapted:
    """Adapt slices along several axes; a tuple of one axis becomes that axis."""
    app = app.settled()
    return SeveralAxes(app) if isinstance(app.axis, tuple) else Inner(app)


class SeveralAxes(Adapted):
    """The slices along several axes."""

    def __init__(self, app: Application) -> None:
        self._app, self._along = app, _along(app)

    def results(self) -> Any:
        return self._along.results()

    def plan(self) -> Plan:
        return self._along.plan()

    def compared(self) -> tuple[Timed, ...]:
        return compared.compare(self._app)


def _along(app: Application) -> FlatSlices | AlongAxes:
    python, flatten, why = frontends.is_python(app.f), frontends.find(app.f).flattened, ""
    if python and arrays.library(app.arr) == "jax" and not config.current().engine:
        flatten = reshaped  # what runs there takes slices with one axis
    if 0 not in app.arr.shape:
        try:
            flat = flatten(app.f, *app.slice)
            found = None if flat is None else FlatSlices(app, flat)
        except TraceError as error:
            found, why = None, str(error)
        if found is not None:
            if found.network.vectorized:
                return found
            why = "; ".join(found.network.reasons)
    return AlongAxes(app, why)
