"""The traversal of slices by a kernel: chosen by the layout of the arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays.layout import Dim
from ...codegen.llvm.slice_kernel import Form
from ...codegen.llvm.slice_kernel.form import COUNT
from ...codegen.llvm.slice_kernel.passes import Passes, is_vector, sums
from ...codegen.llvm.target import Target
from ...errors import UnsupportedError
from ...ir.graph import Graph
from ...ir.numpy_sums import LEAF
from ...ir.ops import OPS, Kind

SHORT = 64
"""Elements of a slice up to which slices lie in lanes, wherever their elements are."""
PIECE = 8192
"""Elements of a piece at most, where each stands for itself."""
_SCRATCH = 3 << 17
"""Bytes of the scratch at most: it stays in the second cache."""
_SMALL_SCRATCH = 1 << 14
"""Bytes of it that stay in the first."""
_NEAR = 8
"""Elements of a slice that are read from memory again, if they are so few."""
_REGISTER = 32
"""Bytes that are loaded of one slice at a time, where slices are contiguous."""
STAGED = ("transposed", "gathered")
"""Moves of slices into lanes through the scratch."""


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
        Which of these counts pieces of a slice; -1: none. Its steps are those of numbers: where
        the elements of a piece are its first one says.
    """

    length: int
    steps: tuple[int | None, ...]
    batch: tuple[Dim, ...]
    cut: int = -1

    @property
    def count(self) -> int:
        return math.prod(d.size for k, d in enumerate(self.batch) if k != self.cut)

    @property
    def pieces(self) -> np.ndarray:
        """The number of elements of each piece."""
        return halves(self.length, 1 if self.cut < 0 else self.batch[self.cut].size)

    @property
    def longest(self) -> int:
        return int(self.pieces.max())


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
    places : tuple of str
        The dtypes of what is kept.
    kept : int
        Elements of each.
    slices : Slices
        The slices: what follows the geometry follows from them (`parts`).
    """

    form: Form
    geometry: dict[str, int]
    tiles: int
    rows: tuple[int, ...]
    places: tuple[str, ...]
    kept: int
    slices: Slices


def itemsize(dtype: str) -> int:
    """Bytes of a number in a register."""
    return 4 if dtype == "float16" else np.dtype(dtype).itemsize


def lanes_of(graph: Graph, bits: int) -> int:
    """Numbers in a vector: as many as a register has of the widest elements."""
    return bits // 8 // widest(graph)


def widest(graph: Graph) -> int:
    """Bytes of the widest elements in registers."""
    vectors = [n for i, n in enumerate(graph.nodes) if graph.is_vector(i)]
    return max(itemsize(n.aval.dtype) for n in vectors or graph.nodes)


def way(graph: Graph, slices: Slices, target: Target) -> Way:
    """The traversal of a kernel for `graph`."""
    return Choice(graph, slices, target).way()


def pieces(graph: Graph, slices: Slices, target: Target) -> int:
    """Into how many pieces slices are cut, whose numbers are then combined.

    They are so long that what is kept of one stays in cache, and a power of two: so sums of them
    are those that NumPy makes. How many threads there are makes no difference.
    """
    return power_of_two(Choice(graph, slices, target).pieces())


def power_of_two(n: int) -> int:
    """The smallest that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()


def _chains(graph: Graph, target: Target) -> int:
    """Elements that are worked on at the same time: as many as there are registers for."""
    rows = [OPS[n.op] for n in graph.nodes if n.op in OPS]
    series = any(
        row.needs_registers or (row.kind is Kind.ELEMENTWISE and row.instructions > 20)
        for row in rows
    )
    return 2 if series and target.registers < 32 else 4


class Choice:
    """The choice of a traversal for a slice graph."""

    sums = 0
    """The number of vectors whose elements a pass adds."""

    def __init__(self, graph: Graph, slices: Slices, target: Target) -> None:
        self.graph, self.slices = graph, slices
        self.passes = Passes(graph)
        self.lanes, self.chains = lanes_of(graph, target.bits), _chains(graph, target)
        self.sums = sums(self.passes)
        self._target, self._widest = target, widest(graph)
        self.operands = [*graph.inputs, *graph.outs]
        self.inputs = len(graph.inputs)
        self.vectors = [is_vector(graph, i) for i in self.operands]
        self.sizes = [np.dtype(graph.nodes[i].aval.dtype).itemsize for i in self.operands]
        self.only_elements = not any(graph.levels()) and all(self.vectors[self.inputs :])

    def way(self) -> Way:
        lane = self.lane()
        return self.across(lane) if self._is_across(lane) else self._along()

    def pieces(self) -> int:
        if self.only_elements:
            return 1
        n, lane = self.slices.length, self.lane()
        if not self._is_across(lane):
            return max(1, n >> 15)
        lane = lane or self._no_lane()
        return max(1, n // min(4096, _SCRATCH // max(1, self.lanes * self._kept(lane))))

    def _kept(self, lane: Dim) -> int:
        """Bytes that are in the scratch for an element."""
        copied = self._copied(lane)
        moved = [
            size
            for k, size in enumerate(self.sizes)
            if self.vectors[k] and lane.steps[k] not in (0, 1) and self.slices.steps[k] is not None
        ]
        return sum(moved) + sum(map(itemsize, Passes(self.graph, copied).places))

    def _no_lane(self) -> Dim:
        """The dim of a single slice."""
        return Dim(1, (0,) * len(self.operands), -1)

    def _copied(self, lane: Dim) -> list[int]:
        """The inputs that are kept when they are read first."""
        beside = [i for k, i in enumerate(self.graph.inputs) if lane.steps[k] == 1]
        beside = [i for i in beside if self.graph.is_vector(i)]
        return beside if self.passes.count > 1 and self.slices.length > _NEAR else []

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

    def lane(self) -> Dim | None:
        """The dim of the batch whose slices lie in lanes: side by side, or else many."""
        batch = [d for k, d in enumerate(self.slices.batch) if k != self.slices.cut]
        if not batch:
            return None

        def worth(d: Dim) -> tuple[int, int]:
            beside = sum(size for s, size in zip(d.steps, self.sizes, strict=True) if s == 1)
            return (beside if d.size >= self.lanes // 2 else 0, d.size)

        return max(batch, key=worth)

    # --- slices in lanes ----------------------------------------------------------------------

    def across(self, lane: Dim | None) -> Way:
        """Slices in lanes."""
        slices, n = self.slices, self.slices.length
        nest = list(slices.batch)
        if lane is None:
            lane = self._no_lane()
            nest.append(lane)
        at = nest.index(lane)
        moves, widths = [], []
        for k, step in enumerate(slices.steps):
            move, width = self._move_across(k, step, lane, self._length(k))
            moves.append(move)
            widths.append(width)
        row = sum(self._room(k) for k, m in enumerate(moves) if m in STAGED)
        self._widen(lane, moves)
        groups = max(1, min(16, _SMALL_SCRATCH // (self.lanes * max(1, slices.longest, row))))
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
            chains=self.chains,
            sums=self._sums(self.lanes) if self.sums else 8,
            leaves=self.sums > 0 and slices.longest > LEAF,
        )
        geometry = {"n": n, "size": lane.size, "tile": tile}
        counts = []
        for d, dim in enumerate(nest):
            here = -(-dim.size // tile) if d == at else dim.size
            counts.append(here)
            geometry[f"count {d}"] = here
            for k in range(len(self.operands)):
                geometry[f"nest {k} {d}"] = dim.steps[k] * (tile if d == at else 1)
        rows = []
        for k, move in enumerate(moves):
            per = tile if move in STAGED else self.lanes
            rows.append(0 if move in ("same", "value") else self._longest(k) * per)
            geometry[f"step {k}"] = slices.steps[k] or 0
            geometry[f"lane {k}"] = lane.steps[k]
        kept = slices.longest * self.lanes
        places, tiles = self._places(form), math.prod(counts)
        return Way(form, geometry, tiles, tuple(rows), places, kept, slices)

    def _length(self, k: int) -> int:
        """Elements of a slice of array k, if it has several."""
        return self.slices.length

    def _longest(self, k: int) -> int:
        """Elements of array k in the longest piece."""
        return self.slices.longest if self.vectors[k] else 1

    def _room(self, k: int) -> int:
        """Bytes of a piece of array k."""
        return self.slices.longest * self.sizes[k]

    def _places(self, form: Form) -> tuple[str, ...]:
        """The dtypes of what is kept from pass to pass."""
        return tuple(Passes(self.graph, form.copied(self.graph)).places)

    def _widen(self, lane: Dim, moves: Sequence[str]) -> None:
        """Let vectors have the lanes of several registers, instead of several elements at once.

        So neighbouring slices are read together, which memory is best at.
        """
        if any(m in STAGED for m in moves):
            return
        kept = self._kept(lane) * self.slices.longest
        while self.chains > 1:
            wide = 2 * self.lanes
            if lane.size < wide or kept * wide > _SCRATCH:
                return
            if self.slices.length <= SHORT and self._sums(wide) < 8:
                return
            if 4 * self.sums * self._vectors(wide) > self._target.registers:
                return
            self.lanes, self.chains = wide, self.chains // 2

    def _sums(self, lanes: int) -> int:
        """The number of sums of a leaf, of eight, that fit in registers."""
        room = self._target.registers // (2 * self._vectors(lanes) * max(1, self.sums))
        return max(self.chains, min(8, 1 << (max(1, room).bit_length() - 1)))

    def _vectors(self, lanes: int) -> int:
        """Registers that so many lanes take."""
        return lanes * self._widest * 8 // self._target.bits

    def _move_across(self, k: int, step: int | None, lane: Dim, n: int) -> tuple[str, int]:
        is_input, size = k < self.inputs, self.sizes[k]
        if step is None:
            return "value", 1
        if is_input and lane.steps[k] == 0:
            return "same", 1
        if lane.steps[k] == 1:
            copied = is_input and self.operands[k] in self._copied(lane)
            return "copied" if copied else "direct", 1
        width = min(_REGISTER // size, self.lanes, n)
        if not n:
            raise UnsupportedError("its results have no numbers")
        width = 1 << (width.bit_length() - 1)
        if -(-n // width) * width > 1.25 * n:  # too many elements would move twice
            width = max(1, width // 2)
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
                moves.append({1: "direct", -1: "reversed"}.get(step, "gathered"))
        form = Form(
            False,
            self.lanes,
            tuple(moves[: self.inputs]),
            tuple(moves[self.inputs :]),
            (1,) * len(moves),
            len(nest),
            piece=slices.cut,
            chains=self.chains,
            leaves=self.sums > 0 and slices.longest > LEAF,
        )
        geometry = {"n": n, "size": 1, "tile": 1}
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
        places = tuple(self.passes.places)
        return Way(form, geometry, tiles, tuple(rows), places, most, slices)


# --- what NumPy adds first --------------------------------------------------------------------


def halves(n: int, count: int) -> np.ndarray:
    """`n` elements in a power of two of parts, as NumPy's sums cut them: at multiples of 8."""
    found = np.array([n], np.int64)
    while len(found) < count:
        first = found // 16 * 8
        found = np.stack([first, found - first], 1).ravel()
    return found


def parts(form: Form, slices: Slices) -> tuple[np.ndarray, np.ndarray]:
    """The pieces of a slice, and their leaves, counted from the first one: see `Form.fields`."""
    sizes = slices.pieces if form.has_parts else np.empty(0, np.int64)
    found = np.zeros((len(sizes), 4), np.int64)
    found[:, 0], found[:, 1] = np.cumsum(sizes) - sizes, sizes
    if not form.leaves:
        return found, sizes[:0]
    # pieces of one size have the same leaves: those of a long slice are of two or three sizes
    sizes, which = np.unique(sizes, return_inverse=True)
    kinds = np.arange(len(sizes))
    joins, piece = np.zeros_like(sizes), kinds
    while (long := sizes > LEAF).any():
        first = np.where(long, sizes // 16 * 8, 0)
        there = np.stack([long, np.ones_like(long)], 1).ravel()
        sizes = np.stack([first, sizes - first], 1).ravel()[there]
        joins = np.stack([np.zeros_like(joins), joins + long], 1).ravel()[there]
        piece = np.repeat(piece, 2)[there]
    for k, side in ((2, "left"), (3, "right")):
        found[:, k] = np.searchsorted(piece, kinds, side)[which]  # type: ignore[call-overload]
    return found, sizes + (joins << COUNT)
