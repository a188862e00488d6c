"""CPUs: kernels that are generated as LLVM IR and compiled by llvmlite.

They work on addresses and strides, so on the memory of every array that lies in the host's: NumPy's
and torch's backends lend them theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...ir.to_slice_graph import Sliced, sliced
from ...layout import Layout
from .. import Backend, Later, Lowered
from . import compiler, function_of_slice, networks, slices, tiled, trees, unrolled


class CPU(Backend):
    """Kernels on the memory of host arrays."""

    name = "cpu"

    def why_not(self, graph: Graph, like: Any) -> str | None:
        if graph.descends:
            return trees.why_not(graph, like)
        if _function_of_slices(graph) is not None:
            return function_of_slice.why_not(like)
        refusal = networks.why_not(graph, like)
        if refusal is None:
            return None
        if unrolled.why_not(graph, like) is None:
            return None
        if not graph.gathers or networks.serves(graph):
            return refusal
        apart = tiled.why_not(graph, like)
        if apart is None:
            return None
        return refusal if refusal in apart else f"{refusal}; {apart}"

    def later(self, graph: Graph, x: Any, at: int) -> Later | None:
        if not graph.gathers or compiler.why_not() is not None:
            return None
        if networks.serves(graph):
            return networks.later(graph, x, at)
        return tiled.later(graph, x)

    def lower(self, graph: Graph) -> Lowered:
        if graph.descends:
            return trees.TreesLowered(graph)
        found = _function_of_slices(graph)
        if found is not None:
            return function_of_slice.OneFunction(graph, found)
        if networks.serves(graph):
            return networks.NetworkLowered(graph)
        if graph.gathers and unrolled.why_not(graph, None) is not None:
            return tiled.TiledNetwork(graph)
        return unrolled.Unrolled(graph)

    def several_why_not(self, graph: Graph, like: Any = None) -> str | None:
        return unrolled.why_not(graph, like)

    def lower_several(self, graph: Graph) -> unrolled.Unrolled:
        return unrolled.Unrolled(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def slices_why_not(self, graph: Graph, arrays: Sequence[Any]) -> str | None:
        return slices.why_not(graph, arrays)

    def lower_slices(self, graph: Graph, layout: Layout, like: Any) -> Any:
        return slices.LoweredSlices(graph, layout)


def _function_of_slices(graph: Graph) -> Sliced | None:
    """`graph` as a function of slices, if there is a kernel of such."""
    half = "bfloat16" in (graph.input.dtype, graph.result.dtype)  # NumPy cannot view it
    found = None if half else sliced(graph)
    return None if found is None or slices.why_not(found.graph, ()) is not None else found


BACKEND = CPU()
