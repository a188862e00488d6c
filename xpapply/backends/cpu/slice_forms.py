"""How a kernel goes through the slices of some arrays: chosen by where their elements are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...codegen.llvm.slice_kernel import Form
from ...codegen.llvm.slice_kernel.passes import is_vector
from ...ir.graph import Graph
from ...layout import Dim

SHORT = 64
"""Elements of a slice up to which slices lie in lanes, wherever their elements are."""
PIECE = 8192
"""Elements of a piece, where each stands for itself."""
_SCRATCH = 3 << 17
"""Bytes of the scratch at most: it stays in the second cache."""
_SMALL_SCRATCH = 1 << 14
"""Bytes of it that stay in the first."""
_NEAR = 8
"""Elements of a slice that are read from memory again, if they are so few."""
_REGISTER = 16
"""Bytes that are loaded of one slice at a time, where slices are contiguous."""


@dataclass(frozen=True)
class Slices:
    """The slices of some arrays: inputs, then results.

    Attributes
    ----------
    length : int
        Elements of a slice.
    steps : tuple of int or None
        In each array, from one element of a slice to the next. None: a number by value.
    batch : tuple of Dim
        Slowest first; their `steps` are those in each array.
    cut : int
        Which of these counts pieces of a slice; -1: none. The last piece has what is left.
    """

    length: int
    steps: tuple[int | None, ...]
    batch: tuple[Dim, ...]
    cut: int = -1

    @property
    def count(self) -> int:
        """The number of slices."""
        return math.prod(d.size for k, d in enumerate(self.batch) if k != self.cut)

    @property
    def piece(self) -> int:
        """Elements of a piece."""
        return self.length if self.cut < 0 else self.length // self.batch[self.cut].size

    @property
    def longest(self) -> int:
        """Elements of the last piece."""
        count = 1 if self.cut < 0 else self.batch[self.cut].size
        return self.length - (count - 1) * self.piece


@dataclass(frozen=True)
class Way:
    """A form, and the numbers that go with it.

    Attributes
    ----------
    form : Form
        What the kernel is written for.
    geometry : dict of str to int
        Its integers, but those of the scratch.
    tiles : int
        How many there are.
    rows : tuple of int
        For each array the elements of a tile that may be in the scratch; 0: none are.
    kept : int
        Elements of each value that is kept.
    """

    form: Form
    geometry: dict[str, int]
    tiles: int
    rows: tuple[int, ...]
    kept: int


def itemsize(dtype: str) -> int:
    """Bytes of a number in a register."""
    return 4 if dtype == "float16" else np.dtype(dtype).itemsize


def lanes_of(graph: Graph, bits: int) -> int:
    """Numbers in a vector: as many as a register has of the widest elements."""
    vectors = [n for i, n in enumerate(graph.nodes) if graph.is_vector(i)]
    widest = max(itemsize(n.aval.dtype) for n in vectors or graph.nodes)
    return bits // 8 // widest


def way(graph: Graph, slices: Slices, bits: int, passes: int, kept: int) -> Way:
    """How a kernel for `graph` goes through slices: `passes` over each, of `kept` values."""
    return _Choice(graph, slices, bits, passes, kept).way()


def pieces(graph: Graph, slices: Slices, bits: int, passes: int, kept: int) -> int:
    """Into how many pieces slices are cut, whose numbers are then combined.

    They are so long that what is kept of one stays in cache, and that sums of it are as accurate
    as those by pairs. How many threads there are makes no difference.
    """
    return _Choice(graph, slices, bits, passes, kept).pieces()


class _Choice:
    def __init__(self, graph: Graph, slices: Slices, bits: int, passes: int, kept: int) -> None:
        self.graph, self.slices, self.passes, self.kept = graph, slices, passes, kept
        self.lanes, self.chains = lanes_of(graph, bits), 4
        self.operands = [*graph.inputs, *graph.outs]
        self.inputs = len(graph.inputs)
        self.vectors = [is_vector(graph, i) for i in self.operands]
        self.sizes = [np.dtype(graph.nodes[i].aval.dtype).itemsize for i in self.operands]
        self.only_elements = not any(graph.levels()) and all(self.vectors[self.inputs :])

    def way(self) -> Way:
        lane = self._lane()
        return self._across(lane) if self._is_across(lane) else self._along()

    def pieces(self) -> int:
        if self.only_elements:
            return 1
        n, lane = self.slices.length, self._lane()
        most = 4 * (self.chains * self.lanes) ** 2
        if self._is_across(lane):
            staged = [k for k, v in enumerate(self.vectors) if v]
            row = sum(self.sizes[k] for k in staged) if self.passes > 1 else 0
            most = min(4096, 2 * _SCRATCH // max(1, self.lanes * (row + 8 * self.kept)))
        return max(1, n // min(most, 1 << 15))

    def _is_across(self, lane: Dim | None) -> bool:
        slices, steps = self.slices, self.slices.steps
        arrays = [k for k, v in enumerate(self.vectors) if v and steps[k] is not None]
        contiguous = sum(self.sizes[k] for k in arrays if steps[k] == 1)
        beside = sum(self.sizes[k] for k in arrays if lane is not None and lane.steps[k] == 1)
        wide = lane is not None and lane.size >= self.lanes // 2
        if not any(self.vectors) or slices.length < self.lanes:
            return True
        if self.only_elements:
            return False
        return wide and (beside > contiguous or slices.length <= SHORT)

    def _lane(self) -> Dim | None:
        """The dim of the batch whose slices lie in lanes: side by side, or else many."""
        batch = [d for k, d in enumerate(self.slices.batch) if k != self.slices.cut]
        if not batch:
            return None

        def worth(d: Dim) -> tuple[int, int]:
            beside = sum(size for s, size in zip(d.steps, self.sizes, strict=True) if s == 1)
            return (beside if d.size >= self.lanes // 2 else 0, d.size)

        return max(batch, key=worth)

    # --- slices in lanes ----------------------------------------------------------------------

    def _across(self, lane: Dim | None) -> Way:
        slices, n = self.slices, self.slices.length
        nest = list(slices.batch)
        if lane is None:
            lane = Dim(1, (0,) * len(self.operands), -1)
            nest.append(lane)
        at = nest.index(lane)
        moves, widths = [], []
        for k, step in enumerate(slices.steps):
            move, width = self._move_across(k, step, lane, n)
            moves.append(move)
            widths.append(width)
        row = sum(s for s, m in zip(self.sizes, moves, strict=True) if m in _STAGED)
        limit = _SCRATCH if "copied" in moves else _SMALL_SCRATCH
        groups = max(1, min(16, limit // max(1, slices.piece * self.lanes * max(1, row))))
        groups = 1 << (groups.bit_length() - 1)
        groups = max(1, min(groups, -(-lane.size // self.lanes)))
        tile = groups * self.lanes
        form = Form(
            True,
            self.lanes,
            tuple(moves[: self.inputs]),
            tuple(moves[self.inputs :]),
            tuple(widths),
            len(nest),
            lane=at,
            piece=slices.cut,
        )
        geometry = {"n": n, "piece": slices.piece, "size": lane.size, "tile": tile}
        counts = []
        for d, dim in enumerate(nest):
            here = -(-dim.size // tile) if d == at else dim.size
            counts.append(here)
            geometry[f"count {d}"] = here
            for k in range(len(self.operands)):
                geometry[f"nest {k} {d}"] = dim.steps[k] * (tile if d == at else 1)
        rows = []
        for k, move in enumerate(moves):
            elements = slices.longest if self.vectors[k] else 1
            per = self.lanes if move == "direct" else tile
            rows.append(0 if move in ("same", "value") else elements * per)
            geometry[f"step {k}"] = slices.steps[k] or 0
            geometry[f"lane {k}"] = lane.steps[k]
        return Way(form, geometry, math.prod(counts), tuple(rows), slices.longest * self.lanes)

    def _move_across(self, k: int, step: int | None, lane: Dim, n: int) -> tuple[str, int]:
        is_input, size = k < self.inputs, self.sizes[k]
        if step is None:
            return "value", 1
        if is_input and lane.steps[k] == 0:
            return "same", 1
        if lane.steps[k] == 1:
            near = n <= _NEAR or not self.vectors[k] or self.passes == 1
            return "direct" if near else "copied", 1
        width = min(_REGISTER // size, self.lanes, n)
        width = 1 << (width.bit_length() - 1) if width else 1
        if step == 1 and self.vectors[k] and width > 1 and lane.size >= self.lanes:
            return "transposed", width
        return "gathered", 1

    # --- elements in lanes --------------------------------------------------------------------

    def _along(self) -> Way:
        slices, n = self.slices, self.slices.length
        nest = list(slices.batch) or [Dim(1, (0,) * len(self.operands), -1)]
        moves = []
        for k, step in enumerate(slices.steps):
            if step is None:
                moves.append("value")
            elif not self.vectors[k] or (k < self.inputs and step == 0):
                moves.append("same")
            else:
                moves.append("direct" if step == 1 else "gathered")
        form = Form(
            False,
            self.lanes,
            tuple(moves[: self.inputs]),
            tuple(moves[self.inputs :]),
            (1,) * len(moves),
            len(nest),
            piece=slices.cut,
        )
        geometry = {"n": n, "piece": slices.piece, "size": 1, "tile": 1}
        for d, dim in enumerate(nest):
            geometry[f"count {d}"] = dim.size
            for k in range(len(self.operands)):
                geometry[f"nest {k} {d}"] = dim.steps[k]
        most = slices.longest
        rows = []
        for k, move in enumerate(moves):
            rows.append(most if move == "gathered" else 0)
            geometry[f"step {k}"] = slices.steps[k] or 0
            geometry[f"lane {k}"] = 0
        tiles = math.prod(d.size for d in nest)
        return Way(form, geometry, tiles, tuple(rows), most)


_STAGED = ("copied", "transposed", "gathered")
