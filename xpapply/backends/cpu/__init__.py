"""CPUs: kernels that are generated as LLVM IR and compiled by llvmlite.

They work on addresses and strides, so on the memory of every array that lies in the host's: NumPy's
and torch's backends lend them theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import Backend, Later, Lowered

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from ...ir.slices.to_slice_graph import Sliced
    from .unrolled import Unrolled

# kinds of kernels are loaded by the first graph that may be one; functions that are compiled from
# their source need none of them, which would take 0.1 s


class CPU(Backend):
    """Kernels on the memory of host arrays."""

    name = "cpu"

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        if graph.any_length:
            from . import slices

            return slices.why_not(graph, given)
        if graph.is_several:
            return _short_why_not(graph, given)
        (like,) = given
        if graph.descends:
            from . import trees

            return trees.why_not(graph, like)
        if _function_of_slices(graph) is not None:
            from . import kernels

            return kernels.why_not(given)
        from . import networks

        refusal = networks.why_not(graph, like)
        if refusal is None:
            return None
        if not _has_many_weights(graph) and _short_why_not(graph, given) is None:
            return None
        if not graph.gathers or networks.serves(graph):
            return refusal
        from . import tiled

        apart = tiled.why_not(graph, like)
        if apart is None:
            return None
        return refusal if refusal in apart else f"{refusal}; {apart}"

    def later(self, graph: Graph, x: Any, at: int) -> Later | None:
        from . import compiler, networks

        if not graph.gathers or compiler.why_not() is not None:
            return None
        if networks.serves(graph):
            return networks.later(graph, x, at)
        from . import tiled

        return tiled.later(graph, x)

    def lower(self, graph: Graph, precision: str = "highest") -> Lowered:
        if graph.any_length:
            from . import function_of_slice

            return function_of_slice.OfSlices(graph)
        if graph.is_several:
            return _short(graph)
        if graph.descends:
            from . import trees

            return trees.TreesLowered(graph)
        found = _function_of_slices(graph)
        if found is not None:
            from . import function_of_slice

            return function_of_slice.OneFunction(graph, found)
        from . import networks

        if networks.serves(graph):
            return networks.NetworkLowered(graph)
        if graph.gathers and _short_why_not(graph, ()) is not None:
            from . import tiled

            return tiled.TiledNetwork(graph)
        return _short(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> np.ndarray:
        return np.empty(shape, dtype)


def _short_why_not(graph: Graph, given: Sequence[Any]) -> str | None:
    """Why no kernel has all numbers of a slice in registers, on such arrays; or None."""
    from . import unrolled

    return unrolled.why_not(graph, given)


def _short(graph: Graph) -> Unrolled:
    from .unrolled import Unrolled

    return Unrolled(graph)


def _function_of_slices(graph: Graph) -> Sliced | None:
    """`graph` as a function of slices, if there is a kernel of such."""
    from ...ir.slices.to_slice_graph import sliced

    half = "bfloat16" in (graph.input.dtype, graph.result.dtype)  # NumPy cannot view it
    found = None if half else sliced(graph)
    if found is None:
        return None
    from . import slices

    return found if slices.why_not(found.graph, ()) is None else None


WEIGHTS = 1000
"""Numbers of matrices that are more instructions for one slice than a kernel may have."""


def _has_many_weights(graph: Graph) -> bool:
    """Whether `unrolled.why_not` refuses a graph for its weights, before it is loaded."""
    shapes = [n.aval.shape for n in graph.nodes if n.op == "const"]
    return sum(math.prod(shape) for shape in shapes if len(shape) > 1) > WEIGHTS


BACKEND = CPU()
