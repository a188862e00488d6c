"""Networks whose values of a whole slice do not fit in the cache: by tiles, in the same kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import config
from ...codegen.cost import Estimate
from ...codegen.llvm import network
from ...codegen.llvm.target import Target
from ...functions.cache import remembered
from ...ir.graph import Graph
from ...limits import LIMITS
from ...lowering.tiles import Cutter, Tiles, choose, shown
from .. import Later, Lowered
from . import compiler, networks
from .function_of_slice import as_numpy


def why_not(graph: Graph, like: Any) -> str | None:
    """Why no kernel of a tile runs a graph on arrays like `like`, or None."""
    found = _served(graph, like)
    if isinstance(found, str):
        return found
    return networks.too_few(found.graph, _windows(found, graph, like))


def later(graph: Graph, x: Any) -> Later | None:
    """The budget of calls on few slices until a kernel pays; None: as in `networks.later`."""
    found = _served(graph, x)
    if isinstance(found, str):
        return None
    windows = np.empty((found.count, found.graph.input.shape[0]), found.graph.input.dtype)
    return networks.counting(found.graph, windows, 1, _windows(found, graph, x))


def _served(graph: Graph, like: Any) -> Tiles | str:
    """The tiles of a graph, or why no kernel runs them, however many slices there are."""
    refusal = networks.why_no_kernel(graph, like)
    if refusal is not None:
        return refusal
    if "bfloat16" in (graph.input.dtype, graph.result.dtype):
        return "NumPy has no bfloat16"
    return _tiles(graph, compiler.host())


def _windows(found: Tiles, graph: Graph, x: Any) -> int:
    """The number of tiles of all slices."""
    return math.prod(x.shape) // max(1, graph.input.shape[0]) * found.count


@remembered(512)
def _tiles(graph: Graph, target: Target) -> Tiles | str:
    return choose(graph, lambda tile: network.why_not(tile, target))


class TiledNetwork(Lowered):
    """A graph, and the kernels of its tiles."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        found = _tiles(graph, compiler.host())
        assert not isinstance(found, str), found
        self._tiles, self._cutter = found, Cutter(found)
        self._inner = networks.NetworkLowered(found.graph)
        self.kernels = (*self._inner.kernels, shown(found))

    def bind(self, consts: tuple[Any, ...], like: Any) -> Any:
        """The constants, which are those of the graph of a tile."""
        return self._inner.bind(consts, like)

    def __call__(self, x: Any, at: int, bound: Any, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""

        def call(windows: np.ndarray, results: np.ndarray) -> None:
            self._inner(windows, 1, bound, results)

        block = config.current().block_bytes or LIMITS.tiles_block
        self._cutter.run(as_numpy(x), at, as_numpy(out), call, block)
        return out

    def fair_sample(self) -> int:
        """Slices whose tiles keep every thread at work."""
        return -(-self._inner.fair_sample() // self._tiles.count)

    def estimate(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> Estimate:
        """The kernel of tiles, and how many threads run it."""
        slices = math.prod(x.shape) // max(1, self.graph.input.shape[0])
        numbers = self._tiles.graph.input.shape[0]
        like = np.broadcast_to(np.empty((), np.float32), (slices * self._tiles.count, numbers))
        found = self._inner.estimate(like, consts)
        return Estimate((*found.kernels, shown(self._tiles)), (), None, None)
