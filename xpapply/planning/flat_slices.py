"""Networks of slices with several axes: these lie flat along one, for which there are plans."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import arrays, frontends, loop
from ..bound_call import as_tuple
from ..errors import InputError
from ..ir.graph import ShapeDtype
from . import planner
from .plan import Plan


class FlatSlices:
    """`f` applied to the slices along several axes, as another function of flat slices.

    Parameters
    ----------
    f, axes, arr, args, kwargs
        As of `apply_along_axis`.
    flat : FlatFunction
        `f` for flat slices.

    Attributes
    ----------
    network : Plan
        What runs for the flat slices.
    """

    def __init__(
        self,
        f: Any,
        flat: frontends.FlatFunction,
        axes: tuple[int, ...],
        arr: Any,
        args: tuple,
        kwargs: dict,
    ) -> None:
        self._given = f, flat, axes, arr, args, kwargs
        self._lay = _Lay(axes, tuple(arr.shape))
        self._rows = self._lay.flat(arr)
        self.network = planner.plan(flat.call, self._lay.at, self._rows, args, kwargs)

    def results(self) -> Any:
        """All of them."""
        f, flat, axes, arr, args, kwargs = self._given
        lay, rows = self._lay, self._rows
        if args or kwargs:
            found = self.network(rows, lay.at)
            return lay.back(found) if flat.alike else found
        run = planner.remember(f, axes, arr, (flat.call, lay.at, rows), lay.through(flat.alike))
        if run is not None:
            return run(arr)
        found = self.network(rows, lay.at)
        return lay.back(found) if flat.alike else found

    def plan(self, name: str) -> Plan:
        """What runs; `name`: what the function is called."""
        f, flat, axes, arr, args, kwargs = self._given
        result = self.network.result
        if flat.alike and result is not None:
            result = ShapeDtype((*result.shape[:-1], *self._lay.slice), result.dtype)

        def call(x: Any, axes: Any) -> Any:
            if tuple(x.shape[a] for a in as_tuple(axes)) != self._lay.slice:
                raise InputError(f"this plan is for slices {self._lay.slice}")
            return FlatSlices(f, flat, axes, x, args, kwargs).results()

        return replace(
            self.network,
            name=name,
            slice=ShapeDtype(self._lay.slice, arrays.dtype_name(arr)),
            result=result,
            arr_shape=tuple(arr.shape),
            axis=axes,
            _call=call,
        )


class _Lay:
    """How slices along some axes of arrays of one shape are laid flat: along the axis `at`."""

    def __init__(self, axes: tuple[int, ...], given: tuple[int, ...]) -> None:
        self.slice = tuple(given[a] for a in axes)
        rest = [a for a in range(len(given)) if a not in axes]
        self.at = at = loop.first_place(axes)
        order = (*rest[:at], *axes, *rest[at:])
        shape = tuple(given[a] for a in order)
        self._order = None if order == tuple(range(len(given))) else order
        self._whole = (*shape[:at], math.prod(self.slice), *shape[at + len(axes) :])

    def flat(self, x: Any) -> Any:
        """An array with its slices laid flat."""
        moved = x if self._order is None else arrays.permute(x, self._order)
        # axes that stand together in their order are flat already: nothing is copied
        return _reshape(moved, self._whole)

    def back(self, found: Any) -> Any:
        """Results that are flat too, as slices of the same shape."""
        at = self.at + found.ndim - len(self._whole)
        return _reshape(found, (*found.shape[:at], *self.slice, *found.shape[at + 1 :]))

    def through(self, alike: bool) -> Callable[[Any, Callable[[Any], Any]], Any]:
        """``through(x, run)``: what `run` makes of the flat slices of `x`."""
        if alike:
            return lambda x, run: self.back(run(self.flat(x)))
        return lambda x, run: run(self.flat(x))


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    if arrays.library(x) in ("numpy", "cupy", "torch"):
        return x.reshape(shape)
    return arrays.compat(x).reshape(x, shape)
