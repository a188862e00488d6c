"""Networks with convolutions, whose feature maps stay in shared memory.

They run in one kernel, which takes whole slices or tiles of slices that are too large; or in
several, where they are too deep for that.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from ...codegen import cost, feature_maps, tensor_network
from ...codegen.graph_queries import prepare
from ...functions.cache import remembered
from ...ir.graph import Graph
from ...limits import LIMITS
from ...lowering.segments import Segments, segments
from ...lowering.tiles import Tiles, choose, costs, shown
from .launch import Tensor
from .segments import Passes, SegmentsRun
from .ways import Task, Way, target

_WORDS = {"highest": "float32 by split products", "high": "float16", "medium": "bfloat16"}


class MapsWay(Way):
    """One kernel that holds the feature maps of a convolutional network."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def named(self, task: Task) -> str:
        return self._named("one kernel", task)

    def _named(self, kernels: str, task: Task) -> str:
        return f"{kernels}, feature maps in shared memory ({_WORDS[task.precision]})"

    def why_not(self, task: Task) -> str | None:
        if not task.device.core:
            return "needs a device of compute capability 8.0 or later"
        return self._refused(task) or (None if task.finite else "a weight is not finite")

    def _refused(self, task: Task) -> str | None:
        """Why there is no such kernel."""
        return _why_not(self._graph, target(task))

    def seconds(self, task: Task) -> float:
        return cost.feature_maps(self._graph, task.slices, task.device, task.precision)

    def runner(self, task: Task) -> Any:
        return _maps(self._graph, target(task))


class TiledMapsWay(MapsWay):
    """One kernel for tiles of slices whose feature maps do not fit."""

    def named(self, task: Task) -> str:
        # tiles take a while to choose: not for slices that fit as they are
        chosen = task.device.core and _why_not(self._graph, target(task)) is not None
        found = self._tiles(task) if chosen else ""
        how = "tiles of slices" if isinstance(found, str) else shown(found)
        return f"{super().named(task)}, {how}"

    def _refused(self, task: Task) -> str | None:
        if _why_not(self._graph, target(task)) is None:
            return "whole slices fit"
        found = self._tiles(task)
        return found if isinstance(found, str) else None

    def seconds(self, task: Task) -> float:
        found = self._tiles(task)
        assert isinstance(found, Tiles)
        return _seconds(found, task)

    def runner(self, task: Task) -> Any:
        found = self._tiles(task)
        assert isinstance(found, Tiles)
        return _maps(found.graph, target(task), found)

    def _tiles(self, task: Task) -> Tiles | str:
        return _tiles(self._graph, target(task))


class SegmentsWay(MapsWay):
    """Several kernels, of tiles, where one would compute too much for margins, or none fits."""

    def named(self, task: Task) -> str:
        chosen = task.device.core and self._is_wanted(task)
        found = self._segments(task) if chosen else ""
        many = "several" if isinstance(found, str) else str(len(found.parts))
        return self._named(f"{many} kernels", task)

    def _refused(self, task: Task) -> str | None:
        if not self._is_wanted(task):
            return "one kernel does"
        if "bfloat16" in (self._graph.input.dtype, self._graph.result.dtype):
            return "slices or results of bfloat16"
        found = self._segments(task)
        return found if isinstance(found, str) else None

    def _is_wanted(self, task: Task) -> bool:
        """Whether one kernel does not do, as choosing segments takes a while."""
        if _why_not(self._graph, target(task)) is None:
            return False
        tiles = _tiles(self._graph, target(task))
        return isinstance(tiles, str) or costs(tiles, self._graph) > LIMITS.tile_enough

    def seconds(self, task: Task) -> float:
        found = self._segments(task)
        assert isinstance(found, Segments)
        reductions = [p.tiles.graph for p in found.parts if not p.multiplies]
        others = sum(cost.reduction_of_slices(g, task.slices, task.device) for g in reductions)
        return others + sum(_seconds(p.tiles, task) for p in found.parts if p.multiplies)

    def runner(self, task: Task) -> Any:
        return _run(self._graph, target(task))

    def _segments(self, task: Task) -> Segments | str:
        return _segments(self._graph, target(task))


def _seconds(tiles: Tiles, task: Task) -> float:
    return cost.tiles(tiles.graph, task.slices * tiles.count, task.device)


@remembered(512)
def _segments(graph: Graph, on: tensor_network.Target) -> Segments | str:
    def why_not(tile: Graph) -> str | None:
        return feature_maps.why_not(tile, on)

    return segments(prepare(graph), why_not, cost.of_tile, cost.of_reduction)


@remembered(512)
def _run(graph: Graph, on: tensor_network.Target) -> SegmentsRun:
    found = _segments(graph, on)
    assert isinstance(found, Segments)
    return SegmentsRun(found, _runs(found, on))


def _runs(found: Segments, on: tensor_network.Target) -> list[Kernel | Passes]:
    tiles = [(part.multiplies, part.tiles) for part in found.parts]
    return [_maps(t.graph, on, t) if kernel else Passes(t) for kernel, t in tiles]


@remembered(512)
def _tiles(graph: Graph, on: tensor_network.Target) -> Tiles | str:
    return choose(graph, lambda tile: feature_maps.why_not(tile, on))


class Kernel(Tensor):
    """The kernel; few slices have one that keeps a multiprocessor busy with each."""

    def __init__(self, graph: Graph, on: tensor_network.Target, tiles: Tiles | None = None) -> None:
        super().__init__(graph, on, _writer(tiles), tiles)

    def _for(self, slices: int, multiprocessors: int) -> tensor_network.Target:
        # two turns of a single slice take no longer than one of several
        return replace(self.target, few=slices <= 2 * multiprocessors)


@remembered(512)
def _writer(tiles: Tiles | None) -> Any:
    """The writer of a kernel: equal for equal tiles, by which texts are cached."""
    write = feature_maps.map_kernel
    return write if tiles is None else functools.partial(write, tiles=tiles)


@remembered(512)
def _maps(graph: Graph, on: tensor_network.Target, tiles: Tiles | None = None) -> Kernel:
    return Kernel(graph, on, tiles)


@remembered(512)
def _why_not(graph: Graph, on: tensor_network.Target) -> str | None:
    return feature_maps.why_not(graph, on)
