"""Arrays of xarray and pandas: the array inside, and labels around what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import config, labelled
from ..application import Application
from . import Adapted, adapted, results

if TYPE_CHECKING:
    from ..plan import Plan, Timed


class WithLabels(Adapted):
    """The slices of a labelled array, or of the variables of a Dataset."""

    def __init__(self, app: Application) -> None:
        self._app, self._wing = app, labelled.wing(app.arr)

    def results(self) -> Any:
        run = lambda arr, axis: results(self._app.on(arr, axis))  # noqa: E731
        app = self._app
        return self._wing.along(run, app.arr, app.axis, config.current().output_dims)

    def _inside(self) -> Adapted:
        return adapted(self._app.on(*self._wing.inside(self._app.arr, self._app.axis)))

    def plan(self) -> Plan:
        return self._inside().plan()

    def compared(self) -> tuple[Timed, ...]:
        return self._inside().compared()


adapt = WithLabels
