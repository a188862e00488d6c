"""Networks with convolutions in one kernel: whole slices, or tiles of slices that are too large."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import cupy

from ...cache import remembered
from ...codegen import cost, feature_maps, tensor_network
from ...config import current
from ...ir.graph import Graph
from ...tiles import Cutter, Tiles, choose, shown
from .launch import Tensor
from .ways import Task, Way, target
from .weights import Weights

_BLOCK_BYTES = 1 << 28
"""Windows of so many bytes are cut at a time: passes over memory are few, and long."""
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
        return _why_not(self._graph, target(task)) or (
            None if task.finite else "a weight is not finite"
        )

    def seconds(self, task: Task) -> float:
        return cost.feature_maps(self._graph, task.slices, task.device, task.precision)

    def runner(self, task: Task) -> Any:
        return _maps(self._graph, target(task))


class TiledMapsWay(Way):
    """The same for the tiles of slices whose feature maps do not fit."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def named(self, task: Task) -> str:
        # tiles take a while to choose: not for slices that fit as they are
        chosen = task.device.core and _why_not(self._graph, target(task)) is not None
        found = self._tiles(task) if chosen else ""
        how = "tiles of slices" if isinstance(found, str) else shown(found)
        return f"one kernel, feature maps in shared memory ({_WORDS[task.precision]}), {how}"

    def why_not(self, task: Task) -> str | None:
        if not task.device.core:
            return "needs a device of compute capability 8.0 or later"
        if _why_not(self._graph, target(task)) is None:
            return "whole slices fit"
        if "bfloat16" in (self._graph.input.dtype, self._graph.result.dtype):
            return "CuPy has no bfloat16"
        found = self._tiles(task)
        if isinstance(found, str):
            return found
        return None if task.finite else "a weight is not finite"

    def seconds(self, task: Task) -> float:
        found = self._tiles(task)
        assert isinstance(found, Tiles)
        slices = task.slices * found.count
        return cost.feature_maps(found.graph, slices, task.device, task.precision) + cost.cut(
            found, task.slices, task.device
        )

    def runner(self, task: Task) -> Any:
        found = self._tiles(task)
        assert isinstance(found, Tiles)
        return functools.partial(_in_tiles, _cutter(found), _maps(found.graph, target(task)))

    def _tiles(self, task: Task) -> Tiles | str:
        return _tiles(self._graph, target(task))


def _in_tiles(
    cutter: Cutter, kernel: Tensor, x: Any, at: int, slices: int, bound: Weights, out: Any
) -> None:
    def call(windows: Any, results: Any) -> None:
        kernel(windows, 1, len(windows), bound, results)

    cutter.run(x, at, out, call, current().block_bytes or _BLOCK_BYTES)


@remembered(512)
def _tiles(graph: Graph, on: tensor_network.Target) -> Tiles | str:
    return choose(graph, lambda tile: feature_maps.why_not(tile, on))


@remembered(512)
def _cutter(tiles: Tiles) -> Cutter:
    return Cutter(tiles, cupy)


class Kernel(Tensor):
    """The kernel; few slices have one that keeps a multiprocessor busy with each."""

    def __init__(self, graph: Graph, on: tensor_network.Target) -> None:
        super().__init__(graph, on, feature_maps.map_kernel)

    def _for(self, slices: int, multiprocessors: int) -> tensor_network.Target:
        return replace(self.target, few=slices <= multiprocessors)


@remembered(512)
def _maps(graph: Graph, on: tensor_network.Target) -> Kernel:
    return Kernel(graph, on)


@remembered(512)
def _why_not(graph: Graph, on: tensor_network.Target) -> str | None:
    return feature_maps.why_not(graph, on)
