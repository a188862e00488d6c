"""Networks of slices with several axes: these lie flat along one, for which there are plans."""

from __future__ import annotations

import math
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
        self._shape = tuple(arr.shape[a] for a in axes)
        rest = [a for a in range(arr.ndim) if a not in axes]
        self._at = at = loop.first_place(axes)
        order = (*rest[:at], *axes, *rest[at:])
        shape = tuple(arr.shape[a] for a in order)
        moved = arr if order == tuple(range(arr.ndim)) else arrays.permute(arr, order)
        whole = (*shape[:at], math.prod(self._shape), *shape[at + len(axes) :])
        # axes that stand together in their order are flat already: nothing is copied
        self._rows = _reshape(moved, whole)
        self.network = planner.plan(flat.call, at, self._rows, args, kwargs)

    def results(self) -> Any:
        """All of them."""
        _, flat, _, _, args, kwargs = self._given
        found = None if args or kwargs else planner.again(flat.call, self._at, self._rows)
        if found is None:
            found = self.network(self._rows, self._at)
        if not flat.alike:
            return found
        at = self._at + found.ndim - self._rows.ndim
        return _reshape(found, (*found.shape[:at], *self._shape, *found.shape[at + 1 :]))

    def plan(self, name: str) -> Plan:
        """What runs; `name`: what the function is called."""
        f, flat, axes, arr, args, kwargs = self._given
        result = self.network.result
        if flat.alike and result is not None:
            result = ShapeDtype((*result.shape[:-1], *self._shape), result.dtype)

        def call(x: Any, axes: Any) -> Any:
            if tuple(x.shape[a] for a in as_tuple(axes)) != self._shape:
                raise InputError(f"this plan is for slices {self._shape}")
            return FlatSlices(f, flat, axes, x, args, kwargs).results()

        return replace(
            self.network,
            name=name,
            slice=ShapeDtype(self._shape, arrays.dtype_name(arr)),
            result=result,
            arr_shape=tuple(arr.shape),
            axis=axes,
            _call=call,
        )


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    if arrays.library(x) in ("numpy", "cupy", "torch"):
        return x.reshape(shape)
    return arrays.compat(x).reshape(x, shape)
