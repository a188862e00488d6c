"""Decision trees on a GPU: a thread takes each slice down all trees, one after the other.

What else the graph has is one array operation per node, on blocks of slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ...arrays.layout import boxes
from ...codegen import trees as packing
from ...codegen.cost import Estimate
from ...config import current
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.rewrite import expand
from ...limits import LIMITS
from .. import Lowered, array_api
from . import compiler


class _Trees:
    """The trees of a node on a device: the sums for slices that lie along the last axis."""

    def __init__(self, packed: packing.Packed, features: int) -> None:
        self._features, self._width, self._small = features, len(packed.start), packed.small
        nodes = packed.nodes.view(np.uint8)
        given = (nodes, packed.values, packed.trees, packed.start)
        self._arrays = [cupy.asarray(a) for a in given]
        self._count = len(packed.trees)

    def __call__(self, x: Any) -> Any:
        slices = x.shape[1]
        sums = cupy.empty((self._width, slices))
        text = packing.source(x.dtype.name, self._features, self._width, self._small)
        function = compiler.function(text, packing.NAME, x.device.id, 0)
        steps = [s // x.itemsize for s in x.strides]
        addresses = [a.data.ptr for a in (x, *self._arrays, sums)]
        numbers = map(np.int64, (slices, self._count, *steps))
        grid = (-(-slices // packing.THREADS),)
        function(grid, (packing.THREADS,), (*map(np.uint64, addresses), *numbers))
        return sums


class _Bound:
    """The constants of a model on a device, and its trees."""

    def __init__(self, batched: Graph, consts: Sequence[np.ndarray]) -> None:
        self.own: dict[int, Callable[[Any], Any]] = {}
        of_trees = set()
        for i, n in enumerate(batched.nodes):
            if n.op == "trees":
                features = batched.nodes[n.args[0]].aval.shape[0]
                numbers = [batched.nodes[a].attr("k") for a in n.args[1:]]
                of_trees.update(numbers)
                packed = packing.constants([np.asarray(consts[k]) for k in numbers], features)
                self.own[i] = _Trees(packed, features)
        self.consts = tuple(
            c if k in of_trees else cupy.asarray(c) for k, c in enumerate(map(np.asarray, consts))
        )
        cupy.cuda.get_current_stream().synchronize()  # there for all streams


class TreesLowered(Lowered):
    """A graph with trees, in blocks of slices."""

    kernels = ("one kernel for all trees, a thread per slice",)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._batched = batch(expand(graph))
        self._bytes = 8 + sum(n.aval.nbytes for n in graph.nodes if n.op not in ("const", "input"))

    def bind(self, consts: tuple[Any, ...], like: Any) -> _Bound:
        """The constants, and the nodes of the trees packed."""
        with cupy.cuda.Device(like.device.id):
            return _Bound(self._batched, consts)

    def __call__(self, x: Any, at: int, bound: _Bound, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        most = current().block_bytes or LIMITS.cupy_trees_block
        n = out.ndim - x.ndim + 1
        with cupy.cuda.Device(x.device.id):
            for box in boxes(x.shape, at, max(1, most // self._bytes)):
                y = array_api.run_block(self._batched, at, x[box], bound.consts, bound.own)
                out[(*box[:at], *(slice(None),) * n, *box[at + 1 :], ...)] = y
        return out

    def estimate(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> Estimate:
        """The kernel."""
        return Estimate(self.kernels, (), None, None)
