"""A function of one slice that is elementwise work and reductions: a function of slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...functions.cache import BoundedDict
from ...ir.graph import Graph
from ...ir.slices.to_slice_graph import Sliced, one_function
from .. import Lowered
from . import compiler
from .slices import LoweredSlices


def why_not(like: Any) -> str | None:
    """Why no such kernel runs on arrays like `like`, or None."""
    if not getattr(like.dtype, "isnative", True):
        return "the bytes of the array's numbers are in another order than the CPU's"
    return None


class OneFunction(Lowered):
    """Slices of any length, each element read once."""

    def __init__(self, graph: Graph, found: Sliced) -> None:
        self.graph, self._sliced = graph, found
        self._known = BoundedDict()
        self.kernels = (f"one kernel, {compiler.host().name}",)

    def bind(self, consts: tuple[Any, ...], like: Any) -> list[Any]:
        """The constants that it reads: vectors, and numbers by value."""
        given = []
        for i, k in zip(self._sliced.graph.inputs[1:], self._sliced.consts, strict=True):
            x = np.ascontiguousarray(consts[k])
            given.append(x if self._sliced.graph.is_vector(i) else x.reshape(())[()])
        return given

    def __call__(self, x: Any, at: int, bound: list[Any], out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        source, target = as_numpy(x), as_numpy(out)
        key = (source.shape, source.strides, at, target.strides)
        run: LoweredSlices | None = self._known.get(key)
        if run is None:
            graph = self._sliced.graph
            layout = one_function(graph, source, at, target)
            run = self._known[key] = LoweredSlices(graph, layout)
        run((source, *bound), (target,))
        return out


def as_numpy(x: Any) -> np.ndarray:
    """The memory of a CPU tensor as NumPy has it."""
    if isinstance(x, np.ndarray):
        return x
    found: np.ndarray = x.detach().numpy()
    return found
