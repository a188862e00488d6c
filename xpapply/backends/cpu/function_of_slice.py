"""Functions of slices of any length, also those written as functions of one slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.layout import Layout
from ...functions.cache import BoundedDict
from ...ir.graph import Graph
from ...ir.slices.to_slice_graph import Sliced, one_function
from .. import Lowered, Run
from . import compiler
from .slices import LoweredSlices


class ByLayout(Lowered):
    """The results of `on` by layout, from one array to one result.

    Parameters
    ----------
    graph : Graph
        What runs.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = self._runs = graph
        self._known = BoundedDict()
        self.kernels = (f"one kernel, {compiler.host().name}",)

    def __call__(self, x: Any, at: int, bound: Sequence[Any], out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        source, target = as_numpy(x), as_numpy(out)
        key = (source.shape, source.strides, at, target.strides)
        run: Run | None = self._known.get(key)
        if run is None:
            layout = one_function(self._runs, source, at, target)
            run = self._known[key] = self.on(layout, source)
        run((source, *bound), (target,))
        return out


class OfSlices(ByLayout):
    """Slices of any length, each element read once."""

    def on(self, layout: Layout, like: Any) -> LoweredSlices:
        """The kernels for arrays that lie so."""
        return LoweredSlices(self._runs, layout)


class OneFunction(OfSlices):
    """A function of one slice that is one of slices of any length."""

    def __init__(self, graph: Graph, found: Sliced) -> None:
        super().__init__(found.graph)
        self.graph, self._consts = graph, found.consts

    def bind(self, consts: tuple[Any, ...], like: Any) -> list[Any]:
        """The constants that it reads: vectors, and numbers by value."""
        given = []
        for i, k in zip(self._runs.inputs[1:], self._consts, strict=True):
            x = np.ascontiguousarray(consts[k])
            given.append(x if self._runs.is_vector(i) else x.reshape(())[()])
        return given


def as_numpy(x: Any) -> np.ndarray:
    """The memory of a CPU tensor as NumPy has it."""
    if isinstance(x, np.ndarray):
        return x
    found: np.ndarray = x.detach().numpy()
    return found
