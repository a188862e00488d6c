"""The plain ways: a network by `cupy.ElementwiseKernel`, one number by `cupy.ReductionKernel`.

They run on any device that CuPy runs on, and can be asked for by name.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import cupy

from ...codegen import cost, scalar_network
from ...codegen.access import Access, geometry, placement
from ...codegen.graph_queries import prepare
from ...codegen.reduction import Reduction, reduction_kernel
from ...codegen.scalar_network import THREADS, NetworkKernel, network_kernel, slices_per_thread
from ...functions.cache import BoundedDict, remembered
from ...ir.graph import Graph
from . import compiler
from .ways import Task, Way
from .weights import Weights

_BLOCKS_PER_SM = 16


class ElementwiseWay(Way):
    """One ElementwiseKernel: each thread computes all layers of some slices."""

    engine = "cupy-elementwise"
    what = "one ElementwiseKernel for all layers, activations in registers"

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph, self._refusal = graph, scalar_network.why_not(graph)
        self._network = Network(graph)

    def why_not(self, task: Task) -> str | None:
        return self._refusal

    def seconds(self, task: Task) -> float:
        return cost.scalar(self._graph, task.slices, task.device)

    def run(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        self._network(x, at, slices, bound, out)


class ReductionWay(Way):
    """One ReductionKernel: a block of threads reduces a slice to a number."""

    engine = "cupy-reduction"
    what = "one ReductionKernel"
    shown = False

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._text = None
        if "bfloat16" not in (graph.input.dtype, graph.result.dtype):
            self._text = reduction_kernel(graph)

    def why_not(self, task: Task) -> str | None:
        if self._text is None:
            return "it is not one reduction to one number, with elementwise work before and after"
        return None

    def seconds(self, task: Task) -> float:
        return cost.reduction(self._graph, task.slices, task.device, task.spacing)

    def run(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        text = self._text
        assert text is not None
        nodes = prepare(self._graph).nodes
        shape = (*(1,) * at, -1, *(1,) * (x.ndim - at - 1))
        arrays = [bound.const(nodes[a].attr("k")).reshape(shape) for a in text.per_slice]
        numbers = [bound.consts[nodes[a].attr("k")].reshape(())[()] for a in text.numbers]
        target = out.reshape((*x.shape[:at], *x.shape[at + 1 :]))
        _reduction_function(text)(x, *arrays, *numbers, target, axis=at)


class Network:
    """Kernels for a whole graph, one per memory access."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._numbers = math.prod(graph.result.shape)
        self._known = BoundedDict()

    def __call__(
        self,
        x: Any,
        at: int,
        slices: int,
        bound: Weights,
        out: Any,
        place: tuple[int, int] | None = None,
    ) -> None:
        key = (x.shape, x.strides, at, x.data.ptr % 16, x.device.id, place is None)
        found = self._known.get(key)
        if found is None:
            access, numbers = geometry(x.shape, x.strides, x.itemsize, x.data.ptr, at, out.size)
            if place is not None:
                access = replace(access, grouped=False)
            text, kernel = _network_kernel(
                self.graph, access, slices_per_thread(self.graph, slices)
            )
            tiles = -(-slices // (THREADS * text.function.slices))
            most = _BLOCKS_PER_SM * compiler.device(x.device.id).multiprocessors
            size = min(tiles, most) * THREADS
            found = (kernel, text, numbers, placement(access, numbers[1], self._numbers), size)
            self._known[key] = found
        kernel, text, numbers, usual, size = found
        weights = bound.packed(self, text)
        kernel(
            _alias(x),
            weights,
            *numbers,
            *(place or usual),
            _alias(out),
            size=size,
            block_size=THREADS,
        )


def _alias(x: Any) -> Any:
    """The first element of `x`: kernels get a pointer and do their own arithmetic."""
    return cupy.ndarray((1,), x.dtype, x.data)


@remembered(512)
def _network_kernel(graph: Graph, access: Access, each: int) -> tuple[NetworkKernel, Any]:
    text = network_kernel(graph, access, each)
    kernel = cupy.ElementwiseKernel(
        text.in_params,
        text.out_params,
        text.operation,
        text.name,
        preamble=text.preamble,
        loop_prep=text.loop_prep,
        no_return=True,
    )
    return text, kernel


@remembered(512)
def _reduction_function(text: Reduction) -> Any:
    """The kernel object of a reduction."""
    return cupy.ReductionKernel(
        text.in_params,
        text.out_params,
        text.map_expr,
        text.reduce_expr,
        text.post_expr,
        text.identity,
        text.name,
        reduce_type=text.reduce_type,
        preamble=text.preamble,
    )
