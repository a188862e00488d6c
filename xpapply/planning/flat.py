"""Slices along several axes, laid flat along one; graphs of them for arrays of any library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import arrays
from ..errors import InputError
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import with_input
from ..loop import reference
from . import engines


class Lay:
    """Layout of slices along several axes flattened to one axis, `at`."""

    def __init__(self, axes: tuple[int, ...], given: tuple[int, ...]) -> None:
        self.slice = tuple(given[a] for a in axes)
        rest = [a for a in range(len(given)) if a not in axes]
        self.at = at = reference.first_place(axes) if axes else len(given)
        order = (*rest[:at], *axes, *rest[at:])
        shape = tuple(given[a] for a in order)
        self._order = None if order == tuple(range(len(given))) else order
        self._whole = (*shape[:at], math.prod(self.slice), *shape[at + len(axes) :])

    def flat(self, x: Any) -> Any:
        """An array with its slices laid flat."""
        moved = x if self._order is None else arrays.permute(x, self._order)
        # axes that stand together in their order are flat already: nothing is copied
        return reshape(moved, self._whole)

    def back(self, found: Any) -> Any:
        """Results that are flat too, as slices of the same shape."""
        at = self.at + found.ndim - len(self._whole)
        return reshape(found, (*found.shape[:at], *self.slice, *found.shape[at + 1 :]))

    def through(self, alike: bool) -> Callable[[Any, Callable[[Any], Any]], Any]:
        """``through(x, run)``: what `run` makes of the flat slices of `x`."""
        if alike:
            return lambda x, run: self.back(run(self.flat(x)))
        return lambda x, run: run(self.flat(x))


def reshape(x: Any, shape: tuple[int, ...]) -> Any:
    """An array of any library in another shape."""
    if arrays.library(x) in ("numpy", "cupy", "torch"):
        return x.reshape(shape)
    return arrays.compat(x).reshape(x, shape)


class FlatGraph:
    """A graph of slices with any number of axes, for arrays of any library.

    Parameters
    ----------
    graph : Graph
        Of slices, or of the same slices laid flat.
    of : ShapeDtype
        The slices.
    """

    def __init__(self, graph: Graph, of: ShapeDtype) -> None:
        self._of = of
        self._flat = engines.AnyLibrary(with_input(graph, (math.prod(of.shape),)))

    def __call__(self, arr: Any, axes: tuple[int, ...]) -> Any:
        """Run on all slices of `arr` along `axes`."""
        found = ShapeDtype(tuple(arr.shape[a] for a in axes), arrays.dtype_name(arr))
        if found != self._of:
            raise InputError(
                f"this plan is for slices {self._of}, those along the axes {axes} are {found}. "
                "Compile or explain it for them."
            )
        lay = Lay(axes, tuple(arr.shape))
        return self._flat(lay.flat(arr), lay.at)
