"""Networks with convolutions in one kernel: whole slices, or tiles of slices that are too large."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from ...cache import remembered
from ...codegen import cost, feature_maps, tensor_network
from ...ir.graph import Graph
from ...tiles import Tiles, choose, shown
from .launch import Tensor
from .ways import Task, Way, target

_WORDS = {"highest": "float32 by split products", "high": "float16", "medium": "bfloat16"}


class MapsWay(Way):
    """One kernel that holds the feature maps of a convolutional network."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def named(self, task: Task) -> str:
        return f"one kernel, feature maps in shared memory ({_WORDS[task.precision]})"

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
    """The same for the tiles of slices whose feature maps do not fit."""

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
        tiles = task.slices * found.count
        return cost.feature_maps(found.graph, tiles, task.device, task.precision)

    def runner(self, task: Task) -> Any:
        found = self._tiles(task)
        assert isinstance(found, Tiles)
        return _maps(found.graph, target(task), found)

    def _tiles(self, task: Task) -> Tiles | str:
        return _tiles(self._graph, target(task))


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
    """What writes the kernel: the same for equal tiles, by which its texts are remembered."""
    write = feature_maps.map_kernel
    return write if tiles is None else functools.partial(write, tiles=tiles)


@remembered(512)
def _maps(graph: Graph, on: tensor_network.Target, tiles: Tiles | None = None) -> Kernel:
    return Kernel(graph, on, tiles)


@remembered(512)
def _why_not(graph: Graph, on: tensor_network.Target) -> str | None:
    return feature_maps.why_not(graph, on)
