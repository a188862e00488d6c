"""Decision trees: a kernel for them, array operations for what comes before and after.

Slices run in blocks which stay in the cache while tree after tree takes them down. What else the
graph has (a scaler, the mean of a forest) takes little beside that, and is computed as it is
defined.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import arrays, config
from ...arrays.addresses import of_array
from ...arrays.layout import boxes
from ...codegen import trees as packing
from ...codegen.cost import Estimate
from ...codegen.llvm import trees
from ...codegen.llvm.target import Target
from ...functions.cache import remembered
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.rewrite import expand
from ...limits import LIMITS
from ...runtime import threads
from .. import Lowered, array_api
from . import compiler
from .function_of_slice import as_numpy


def why_not(graph: Graph, like: Any) -> str | None:
    """Why no kernel runs a graph with trees on arrays like `like`, or None."""
    refusal = compiler.why_not()
    if refusal is not None:
        return refusal
    if "bfloat16" in (n.aval.dtype for n in graph.nodes):
        return "NumPy has no bfloat16"
    return array_api.missing(arrays.compat(np.empty(0)), expand(graph))


@remembered(64)
def _function(
    dtype: str, features: int, width: int, small: bool, ways: bool, target: Target
) -> compiler.Function:
    key = f"trees {dtype} {features} {width} {small} {ways}"
    write = functools.partial(trees.trees_kernel, dtype, features, width, small, ways, target)
    return compiler.compile(write, trees.NAME, key, target)


class _Trees:
    """The trees of a node, packed: the sums for slices that lie along the last axis."""

    def __init__(self, packed: packing.Packed, features: int) -> None:
        self._packed, self._features = packed, features
        self._addresses = [of_array(a) for a in (packed.nodes, packed.values, packed.trees)]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        packed, own = self._packed, x.dtype.newbyteorder("=")
        rows = np.ascontiguousarray(x.T, own)
        sums = np.empty((len(rows), len(packed.start)))
        sums[...] = packed.start
        # it takes longer to ask each number; NaN is seen in a sum
        ways = packed.ways and bool(np.isnan(rows.sum()))
        function = _function(
            x.dtype.name, self._features, len(packed.start), packed.small, ways, compiler.host()
        )
        count = len(packed.trees)
        function.call(
            compiler.packed(of_array(rows), *self._addresses, of_array(sums), len(rows), count)
        )
        return sums.T


class _Bound:
    """The constants of a model, and its trees."""

    def __init__(self, batched: Graph, consts: tuple[Any, ...]) -> None:
        self.consts = consts
        self.own: dict[int, Callable[[Any], Any]] = {}
        for i, n in enumerate(batched.nodes):
            if n.op == "trees":
                features = batched.nodes[n.args[0]].aval.shape[0]
                operands = [consts[batched.nodes[a].attr("k")] for a in n.args[1:]]
                self.own[i] = _Trees(packing.constants(operands, features), features)


class TreesLowered(Lowered):
    """A graph with trees, in blocks of slices."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._batched = batch(expand(graph))
        self._steps, self._bytes = graph.flops() / 2, 8
        for n in graph.nodes:
            if n.op == "trees":
                self._bytes += n.aval.nbytes + graph.nodes[n.args[0]].aval.nbytes
        self.kernels = (f"one kernel for all trees, {compiler.host().name}",)

    def bind(self, consts: tuple[Any, ...], like: Any) -> _Bound:
        """The constants, and the nodes of the trees packed."""
        return _Bound(self._batched, tuple(map(np.asarray, consts)))

    def __call__(self, x: Any, at: int, bound: _Bound, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        source, target = as_numpy(x), as_numpy(out)
        slices = math.prod(source.shape) // max(1, source.shape[at])
        steps = slices * self._steps
        count = config.current().thread_count() if steps >= LIMITS.trees_pool else 1
        rows = max(LIMITS.trees_fewest, min(LIMITS.trees_block // self._bytes, -(-slices // count)))
        run = functools.partial(self._block, source, at, bound, target)

        def work(blocks: Iterator[tuple[Any, ...]]) -> None:
            for box in blocks:
                run(box)

        threads.in_threads(work, boxes(source.shape, at, rows), count, steps < LIMITS.trees_short)
        return out

    def _block(
        self, x: np.ndarray, at: int, bound: _Bound, out: np.ndarray, box: tuple[Any, ...]
    ) -> None:
        n = out.ndim - x.ndim + 1
        y = array_api.run_block(self._batched, at, x[box], bound.consts, bound.own)
        out[(*box[:at], *(slice(None),) * n, *box[at + 1 :], ...)] = y

    def estimate(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> Estimate:
        """The kernel, and how many threads run it."""
        slices = math.prod(x.shape) // max(1, self.graph.input.shape[0])
        steps = slices * self._steps
        count = config.current().thread_count() if steps >= LIMITS.trees_pool else 1
        shown = f"{self.kernels[0]}, {count} thread{'s' * (count > 1)}"
        return Estimate((shown,), (), None, None)
