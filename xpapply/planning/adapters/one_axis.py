"""The end of the way: an array in memory, and slices along one axis of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config, frontends
from ...loop import reference
from .. import compared, python
from ..application import Application, announce
from . import Adapted

if TYPE_CHECKING:
    from ..plan import Plan, Timed


class OneAxis(Adapted):
    """The slices of an array in memory along one axis."""

    def __init__(self, app: Application) -> None:
        self._given, self._app = app.arr, app.settled()

    def results(self) -> Any:
        app = self._app
        f, axis, arr, args, kwargs = app.f, app.axis, app.arr, app.args, app.kwargs
        python_function = frontends.is_python(f)
        if python_function and arrays.library(arr) == "numpy":
            if not config.current().engine:
                if type(arr) in (np.ndarray, np.memmap) and 0 not in arr.shape and arr.ndim:
                    return python.call(f, axis, arr, args, kwargs)
                return reference.apply(f, axis, self._given, args, kwargs)
        from .. import first_calls, planner

        if not (python_function or args or kwargs):
            if (found := first_calls.result(f, axis, arr)) is not None:
                return found
        p = planner.plan(app)
        if not (p.vectorized or p._quick):
            announce(f, p.slices or 0, "; ".join(p.reasons), arr)
        return p(arr, axis) if p._call is None else p._call(arr, axis)  # which asks nothing twice

    def plan(self) -> Plan:
        from .. import planner

        # what is remembered does not keep f alive, what is asked for does
        return replace(planner.plan(self._app), _of=self._app.f)

    def compared(self) -> tuple[Timed, ...]:
        return compared.compare(self._app)


adapt = OneAxis
