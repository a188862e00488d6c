"""Functions of the slices of several arrays on NumPy: fused passes over cache-sized blocks.

A block has its axes in the order that reductions are fast in: mostly that of memory, but the
slice first where slices are short and contiguous, because NumPy spends its time between short
rows. Slices that do not fit into a block are gone through in pieces: one pass per level of
accumulations, whose numbers of pieces are combined, and one for results per element.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import config
from ...arrays.layout import Box, Layout, grid
from ...ir.graph import Graph
from ...ir.subgraph import InLevels, Level, part
from ...limits import LIMITS
from ...runtime import threads
from .. import Lowered
from . import kernels
from .slice_program import CONSTANT, NUMBER, VECTOR, Fold, SliceProgram, SliceScratch
from .views import Seen, View


def why_not(graph: Graph, arrays: Sequence[Any]) -> str | None:
    """The reason why NumPy cannot run `graph`, or None."""
    for x in arrays:
        if isinstance(x, np.ndarray) and any(s % x.itemsize for s in x.strides):
            return f"strides {x.strides} are no multiples of the {x.itemsize} bytes of an element"
    graphs = [graph]
    for by, _ in graph.accumulations():
        graphs += [by.combine] if by.chunk is None else [by.chunk, by.combine]
    return kernels.missing(n.op for g in graphs for n in g.nodes)


class OfSlices(Lowered):
    """A slice graph, for arrays that lie in any way."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def on(self, layout: Layout, like: Any) -> LoweredSlices:
        """Blocks that fit how the arrays lie."""
        return LoweredSlices(self.graph, layout)


class LoweredSlices:
    """A slice graph for arrays of one layout."""

    def __init__(self, graph: Graph, layout: Layout) -> None:
        self.graph = graph
        self.seen = Seen(layout)
        self.vectors = [graph.is_vector(o) for o in graph.outs]
        self.arrays = [see is not None for see in self.seen.inputs]
        # short rows are computed in cache and copied at once
        good = (
            self.seen.slices == 1
            or self.seen.across
            or self.seen.shape[-1] >= LIMITS.slices_short_copy
        )
        self.good_outs = [
            self.seen.is_good(o) and (good or not v)
            for o, v in zip(layout.outs, self.vectors, strict=True)
        ]
        self._good_inputs = [self.seen.is_good(o) for o in layout.inputs]
        self._results: dict[tuple[int, ...], list[View]] = {}
        self._plans: dict[tuple[int, int], _Whole | _Pieces] = {}
        self.kernels: tuple[str, ...] = (self._plan().kernel,)

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Write the results of the slices of `arrays` into `outs`."""
        plan = self._plan()
        several = zip(self.seen.inputs, arrays, strict=True)
        given = [np.asarray(x) if see is None else see(x) for see, x in several]
        ndims = tuple([y.ndim for y in outs])
        views = self._results.get(ndims)
        if views is None:
            views = [self.seen.result(v, n) for v, n in zip(self.vectors, ndims, strict=True)]
            self._results[ndims] = views
        targets = [see(y) for see, y in zip(views, outs, strict=True)]
        with np.errstate(all="ignore"):  # torch does not warn about inf and NaN either
            plan(given, targets)

    def _plan(self) -> _Whole | _Pieces:
        options = config.current()
        key = options.block_bytes, options.threads
        found = self._plans.get(key)
        if found is None:
            threads, block_bytes = options.thread_count(), options.block_bytes
            block_bytes = block_bytes or (
                LIMITS.slices_block if threads == 1 else LIMITS.slices_shared_block
            )
            whole = _Whole(self, block_bytes, threads)
            found = whole if whole.fits else _Pieces(self, block_bytes, threads)
            self._plans[key] = found
        return found

    def program(
        self,
        graph: Graph,
        outs: Sequence[int],
        given: Sequence[int] = (),
        direct: Sequence[bool] | None = None,
    ) -> SliceProgram:
        """The program of some nodes, from the arrays and known numbers."""
        found = part(graph, outs, given, self.seen.length)
        uses: dict[int, list[str]] = {}
        for n in found.nodes:
            for a in set(n.args):
                uses.setdefault(a, []).append(n.op)
        loads = [
            k
            for k, good in enumerate(self._good_inputs)
            # a cast reads once, as a load would
            if not good and uses.get(found.inputs[k], ["cast"]) != ["cast"]
        ]
        kinds = [VECTOR if array else CONSTANT for array in self.arrays]
        kinds += [NUMBER] * len(given)
        return SliceProgram(found, kinds, self.seen.axes, self.seen.weights, loads, direct)

    def cut(self, arrays: Sequence[Any], box: Box) -> list[Any]:
        """The piece of each array; numbers stay what they are."""
        return [x[box] if array else x for array, x in zip(self.arrays, arrays, strict=True)]


# --- blocks -----------------------------------------------------------------------------------


def _extend(sizes: list[int], seen: Seen, applied: bool, most: int) -> None:
    """Let a box grow along the axes of the slice, or across, fastest first, up to `most`."""
    for k in reversed(seen.memory):
        dim = seen.dims[k]
        if dim.applied == applied and dim.size:
            count = math.ceil(dim.size / max(1, min(dim.size, most)))
            sizes[k] = math.ceil(dim.size / count)  # boxes of much the same size
            most //= sizes[k]


def _shape(box: Box) -> tuple[int, ...]:
    return tuple([b.stop - b.start for b in box])


def _count(shape: Sequence[int], sizes: Sequence[int], dims: Sequence[int]) -> int:
    return math.prod(math.ceil(shape[k] / sizes[k]) for k in dims)


def _kernel(threads: int, blocks: int, how: str) -> str:
    if blocks == 1:
        return "fused in one block that stays in cache"
    several = f"{threads} threads" if threads > 1 else "one thread"
    return f"fused passes over cache-sized blocks{how}, {several}"


# --- slices that fit --------------------------------------------------------------------------


class _Whole:
    """Blocks of whole slices: each element is read once."""

    def __init__(self, lowered: LoweredSlices, block_bytes: int, threads: int) -> None:
        graph, seen = lowered.graph, lowered.seen
        self._lowered, self._shape = lowered, seen.shape
        self._program = lowered.program(graph, graph.outs, (), lowered.good_outs)
        size = block_bytes // self._program.itemsize
        total = seen.slices * seen.length
        least = min(seen.slices, 2 * LIMITS.short_row if seen.across else 1)
        self.fits = seen.length * least <= max(size, 1)
        if total * len(graph.nodes) < LIMITS.slices_pool:
            threads = 1
        else:
            size = min(size, math.ceil(total / (2 * threads)))
        self._sizes = list(seen.shape)
        _extend(self._sizes, seen, False, max(least, size // max(1, seen.length)))
        self._batch = [k for k in seen.memory if not seen.dims[k].applied]
        blocks = _count(seen.shape, self._sizes, self._batch)
        self._single, self._threads = blocks == 1, min(threads, blocks)
        self._kept: list[SliceScratch] = []
        how = ", short slices transposed" if seen.transposed else ""
        self.kernel = _kernel(self._threads, blocks, how)

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        if not self._single:
            boxes = grid(self._shape, self._sizes, self._batch)
            work = functools.partial(self._blocks, arrays, outs)
            return threads.in_threads(work, boxes, self._threads)
        try:
            scratch = self._kept.pop()  # no other thread has it now
        except IndexError:
            scratch = self._program.scratch(self._shape)
        self._program.run(scratch, self._shape, arrays, outs)
        if scratch.nbytes <= LIMITS.slices_kept:
            self._kept.append(scratch)

    def _blocks(self, arrays: Sequence[Any], outs: Sequence[Any], boxes: Iterator[Box]) -> None:
        scratch = self._program.scratch(tuple(self._sizes))
        for box in boxes:
            pieces = self._lowered.cut(arrays, box)
            self._program.run(scratch, _shape(box), pieces, [y[box] for y in outs])


# --- slices that do not -----------------------------------------------------------------------


class _Level(NamedTuple):
    """One pass over the pieces, and the programs of it and of the numbers derived from it."""

    of: Level
    pieces: SliceProgram
    after: SliceProgram

    def folds(self) -> list[Fold]:
        """New folds of pieces: each worker has its own, for the buffers."""
        return [Fold(by) for by, _ in self.of.groups]


class _Pieces:
    """Slices that are longer than a block, level by level."""

    def __init__(self, lowered: LoweredSlices, block_bytes: int, threads: int) -> None:
        seen = self._seen = lowered.seen
        self._lowered = lowered
        parts = InLevels(lowered.graph)
        graph = self._graph = parts.graph
        self._levels = [self._level(x) for x in parts.levels]
        self._mapped, self._given = parts.mapped, parts.given
        outs = [graph.outs[k] for k in self._mapped]
        direct = [lowered.good_outs[k] for k in self._mapped]
        self._map = lowered.program(graph, outs, self._given, direct)
        widest = max(p.itemsize for p in (self._map, *(p.pieces for p in self._levels)))
        size = max(1, block_bytes // widest)
        self._sizes = [1] * len(seen.shape)
        if seen.across or seen.transposed:
            _extend(self._sizes, seen, False, max(1, size // LIMITS.slices_run))
        _extend(self._sizes, seen, True, max(1, size // math.prod(self._sizes)))
        self._batch = [k for k in seen.memory if not seen.dims[k].applied]
        self._along = [k for k in seen.memory if seen.dims[k].applied]
        boxes = _count(seen.shape, self._sizes, self._batch)
        pieces = _count(seen.shape, self._sizes, self._along)
        # enough runs to keep threads busy; not by their number, so that results do not depend on it
        self._per_run = max(1, min(LIMITS.slices_pieces, boxes * pieces // 16))
        self._runs = math.ceil(pieces / self._per_run)
        work = seen.slices * seen.length * len(graph.nodes)
        self._threads = threads if work >= LIMITS.slices_pool else 1
        self.kernel = _kernel(self._threads, boxes * pieces, ", slices in pieces")

    def _level(self, of: Level) -> _Level:
        graph, program = self._graph, self._lowered.program
        return _Level(of, program(graph, of.found, of.given), program(graph, of.follow, of.known))

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        known: dict[int, Any] = {}
        for level in self._levels:
            self._accumulate(level, arrays, known)
        for y, o in zip(outs, self._graph.outs, strict=True):
            if o in known:
                np.copyto(y, known[o])
        if self._mapped:
            numbers, targets = [known[i] for i in self._given], [outs[k] for k in self._mapped]
            boxes = grid(self._seen.shape, self._sizes, self._seen.memory)
            work = functools.partial(self._results, arrays, numbers, targets)
            threads.in_threads(work, boxes, self._threads)

    def _accumulate(self, level: _Level, arrays: Sequence[Any], known: dict[int, Any]) -> None:
        """Make the numbers of a level known."""
        shape = self._seen.numbers
        runs = [np.empty((self._runs, *shape), d) for by, _ in level.of.groups for d in by.dtypes]
        work = functools.partial(
            self._in_runs, level, arrays, [known[i] for i in level.of.given], runs
        )
        threads.in_threads(work, self._tasks(), self._threads)
        known |= zip(level.of.found, _folded(level.folds(), runs), strict=True)
        if level.of.follow:
            given = [None if a else x for a, x in zip(self._lowered.arrays, arrays, strict=True)]
            given += [known[i] for i in level.of.known]
            found = [np.empty(shape, self._graph.nodes[i].aval.dtype) for i in level.of.follow]
            level.after.run(level.after.scratch(shape), shape, given, found)
            known |= zip(level.of.follow, found, strict=True)

    def _tasks(self) -> Iterator[tuple[int, Box, list[Box]]]:
        """Runs of pieces of the slices in a box."""
        shape = self._seen.shape
        for box in grid(shape, self._sizes, self._batch):
            pieces = grid(shape, self._sizes, self._along)
            for run in range(self._runs):
                yield run, box, list(itertools.islice(pieces, self._per_run))

    def _in_runs(
        self,
        level: _Level,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        runs: Sequence[np.ndarray],
        tasks: Iterator[tuple[int, Box, list[Box]]],
    ) -> None:
        """The numbers of each run of pieces, combined."""
        seen = self._seen
        scratch, folds = level.pieces.scratch(tuple(self._sizes)), level.folds()
        for run, box, pieces in tasks:
            at: Any = (run, *self._of_numbers(box))
            states = [np.empty((len(pieces), *x[at].shape), x.dtype) for x in runs]
            given = [x[at[1:]] for x in numbers]
            for k, piece in enumerate(pieces):
                whole = tuple(
                    b if d.applied else a for a, b, d in zip(box, piece, seen.dims, strict=True)
                )
                start = sum(
                    w * piece[a].start for w, a in zip(seen.weights, seen.axes, strict=True)
                )
                cut, targets = self._lowered.cut(arrays, whole), [s[k] for s in states]
                level.pieces.run(scratch, _shape(whole), cut + given, targets, start)
            for x, s in zip(runs, _folded(folds, states), strict=True):
                x[at] = s

    def _results(
        self,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        boxes: Iterator[Box],
    ) -> None:
        scratch = self._map.scratch(tuple(self._sizes))
        for box in boxes:
            of_numbers = self._of_numbers(box)
            given = self._lowered.cut(arrays, box) + [x[of_numbers] for x in numbers]
            targets = [y[box if y.shape == self._seen.shape else of_numbers] for y in outs]
            self._map.run(scratch, _shape(box), given, targets)

    def _of_numbers(self, box: Box) -> Box:
        return tuple(
            slice(None) if d.applied else b for b, d in zip(box, self._seen.dims, strict=True)
        )


def _folded(folds: Sequence[Fold], states: Sequence[np.ndarray]) -> list[Any]:
    """Numbers of pieces along the first axis, combined."""
    found: list[Any] = []
    for fold in folds:
        mine = states[len(found) : len(found) + len(fold.dtypes)]
        found += [s[0] for s in fold(mine, 0)]
    return found
