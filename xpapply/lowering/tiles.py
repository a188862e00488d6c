"""Slices cut into tiles, which run as slices of a graph of their own: `xpapply.ir.tiles`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..arrays.layout import boxes
from ..ir.graph import Graph
from ..ir.tiles.extents import NoTiles
from ..ir.tiles.tile_graph import axes_of, tiled
from ..ir.tiles.tiles import Source, TiledAxis, Tiles
from ..limits import LIMITS

_LENGTHS = {1: (64, 256, 1024, 4096), 2: (8, 16, 32, 64), 3: (4, 8, 16, 32)}
"""Candidates for the length of a tile, by the number of cut axes."""

_Call = Callable[[np.ndarray, np.ndarray], object]


def choose(
    graph: Graph, why_not: Callable[[Graph], str | None], whole: bool = False
) -> Tiles | str:
    """Tiles that an engine has a kernel for, with as little work as there can be; or why not.

    Parameters
    ----------
    graph : Graph
        Of a slice, or of several values.
    why_not : callable
        Why there is no kernel for the graph of a tile, or None.
    whole : bool
        A slice may be one tile.
    """
    found = _cut(graph, why_not)
    if whole and (isinstance(found, str) or found[0] > LIMITS.tile_enough):
        one = tiled(graph, {})
        why = why_not(one.graph)
        if why is None:
            return one
        found = f"{why}, and {found}" if isinstance(found, str) else found
    if isinstance(found, str):
        return found
    if found[0] > LIMITS.tile_most:
        return f"the margins of tiles would take {found[0]:.2g} times the work of whole slices"
    return found[1]


def _cut(graph: Graph, why_not: Callable[[Graph], str | None]) -> tuple[float, Tiles] | str:
    """Tiles, and their work as a multiple of that of whole slices; or why not."""
    lengths = axes_of(graph)
    axes = sorted(lengths, key=lambda a: -lengths[a])[:3]
    if not axes:
        return "each number of a result depends on all of the slice, so it is not cut into tiles"
    best: tuple[float, Tiles] | None = None
    refusal = ""
    for length in _LENGTHS[len(axes)]:
        sizes = {a: length for a in axes if lengths[a] > length}
        if not sizes:
            break
        try:
            found = tiled(graph, sizes)
        except NoTiles as error:
            refusal = refusal or f"tiles of {length}: {error}"
            continue
        work = costs(found, graph)
        if best is not None and work >= best[0]:
            continue
        why = why_not(found.graph)
        if why is not None:
            refusal = refusal or f"of a tile: {why}"
            break  # longer ones need more of everything
        best = work, found
        if work <= LIMITS.tile_enough:
            break
    return best or refusal or "slices are too short to be cut into tiles"


def costs(tiles: Tiles, graph: Graph) -> float:
    """The work of tiles, as a multiple of that of whole slices."""
    return tiles.graph.flops() * tiles.count / max(1, graph.flops())


def shown(tiles: Tiles) -> str:
    """The description in `explain`."""
    sizes = " x ".join(str(a.tile) for a in tiles.axes)
    windows = [a.windows[0] for a in tiles.axes]
    wide = " x ".join(str(w.stop - w.start) for w in windows if w is not None)
    return f"slices in tiles: {sizes} numbers of a result from {wide} of a slice"


class Cutter:
    """Cuts slices into tiles, block by block, and puts the results together: NumPy's arrays.

    Parameters
    ----------
    tiles : Tiles
        How.
    """

    def __init__(self, tiles: Tiles) -> None:
        self._tiles = tiles
        (self._numbers,) = tiles.graph.input.shape

    def rows(self, block_bytes: int) -> tuple[int, int]:
        """The numbers of slices, and of tiles along the first axis, per block."""
        first, graph = self._first(), self._tiles.graph
        row = self._tiles.count // first * (graph.input.nbytes + graph.result.nbytes)
        if first * row <= block_bytes:
            return block_bytes // (first * row), first
        return 1, max(1, block_bytes // row)

    def run(
        self,
        x: np.ndarray,
        at: int,
        out: np.ndarray,
        call: _Call,
        block_bytes: int,
    ) -> None:
        """All slices of `x` into `out`, as `Lowered` has them.

        Parameters
        ----------
        x, out : array
            In memory order.
        at : int
            The applied axis of `x`, and the first axis of results in `out`.
        call : callable
            ``call(windows, results)``, of shapes (tiles, numbers) and (tiles, *result of a tile).
        block_bytes : int
            The memory for windows and their results, if one row of tiles takes no more.
        """
        tiles, ndim = self._tiles, out.ndim - x.ndim + 1
        slices, most = self.rows(block_bytes)
        first = self._first()
        for box in boxes(x.shape, at, slices):
            there = (*box[:at], *(slice(None),) * ndim, *box[at + 1 :])
            block = [self._source(x[box], at, s) for s in tiles.sources]
            target = out[there]
            if ndim == 1:
                target = self._behind(target, at, tiles.result_shape)
            else:
                target = self._moved(target, range(at, at + ndim))
            for start in range(0, first, most):
                self._block(block, target, start, min(start + most, first), call)

    def _first(self) -> int:
        """The number of tiles along the first cut axis, or 1."""
        axes = self._tiles.axes
        return axes[0].count if axes else 1

    def _moved(self, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        """`x` with some axes last."""
        rest = [a for a in range(x.ndim) if a not in axes]
        return x.transpose(*rest, *axes)

    def _source(self, x: np.ndarray, at: int, source: Source) -> np.ndarray:
        """A source of slices in its own shape, after the other axes."""
        stop = source.start + math.prod(source.shape)
        part = x[(*(slice(None),) * at, slice(source.start, stop))]
        return self._behind(part, at, source.shape)

    def _behind(self, x: np.ndarray, at: int, shape: Sequence[int]) -> np.ndarray:
        """Slices in their own shape, after the other axes."""
        x = self._moved(x, [at])
        step = x.strides[-1]
        steps = [step * math.prod(shape[k + 1 :]) for k in range(len(shape))]
        return as_strided(x, (*x.shape[:-1], *shape), (*x.strides[:-1], *steps))

    def _block(
        self,
        sources: list[np.ndarray],
        out: np.ndarray,
        start: int,
        stop: int,
        call: _Call,
    ) -> None:
        """Tiles from `start` to `stop` along the first axis that is cut, and all others."""
        tiles = self._tiles
        lead = out.shape[: out.ndim - len(tiles.result_shape)]
        counts = [count for _, count in self._ranges(start, stop)]
        windows = np.empty((*lead, *counts, self._numbers), sources[0].dtype)
        at = 0
        for k, (x, source) in enumerate(zip(sources, tiles.sources, strict=True)):
            steps = [x.itemsize * math.prod(source.window[j + 1 :]) for j in range(x.ndim)]
            place = as_strided(
                windows[..., at:],
                (*lead, *counts, *source.window),
                (*windows.strides[:-1], *steps[: len(source.window)]),
            )
            place[...] = self._windows(x, k, start, stop)
            at += math.prod(source.window)
        if self._numbers > at:
            windows[..., at:] = self._masks[start:stop]
        total = math.prod((*lead, *counts))
        results = np.empty((total, *tiles.graph.result.shape), out.dtype)
        call(windows.reshape(total, self._numbers), results)
        self._join(results.reshape((*lead, *counts, *tiles.graph.result.shape)), out, start)

    @functools.cached_property
    def _masks(self) -> np.ndarray:
        """The masks of places inside."""
        return self._tiles.inside()

    def _windows(self, x: np.ndarray, k: int, start: int, stop: int) -> np.ndarray:
        """A view of source `k`'s windows, of shape (*lead, *counts, *window).

        Beyond the ends they have zeros.
        """
        tiles, own_source = self._tiles, self._tiles.sources[k]
        ndim = len(own_source.shape)
        lead = x.shape[: x.ndim - ndim]
        shape = list(own_source.shape)
        inside: list[Any] = [slice(None)] * ndim
        target = inside.copy()
        along = [a.windows[k] for a in tiles.axes]
        for w, (first, count) in zip(along, self._ranges(start, stop), strict=True):
            if w is None:
                continue
            low = w.start + first * w.step
            shape[w.axis] = (count - 1) * w.step + w.stop - w.start
            begin = min(max(low, 0), w.size)
            end = max(begin, min(low + shape[w.axis], w.size))
            inside[w.axis], target[w.axis] = slice(begin, end), slice(begin - low, end - low)
        padded = np.zeros((*lead, *shape), x.dtype)
        padded[(..., *target)] = x[(..., *inside)]
        own = padded.strides[len(lead) :]
        counts = [count for _, count in self._ranges(start, stop)]
        apart = [0 if w is None else w.step * own[w.axis] for w in along]
        strides = (*padded.strides[: len(lead)], *apart, *own)
        return as_strided(padded, (*lead, *counts, *own_source.window), strides)

    def _ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        """First tile and count along each cut axis."""
        axes = self._tiles.axes
        return [(start, stop - start), *((0, a.count) for a in axes[1:])] if axes else []

    def _join(self, results: np.ndarray, out: np.ndarray, start: int) -> None:
        """Results of tiles, of shape (*lead, *counts, *result), into their places."""
        tiles = self._tiles
        ndim, cut = len(tiles.graph.result.shape), len(tiles.axes)
        lead = results.ndim - cut - ndim
        for key, target in _pieces(tiles.axes, start, results.shape[lead : lead + cut]):
            index: list[Any] = [slice(None)] * ndim
            for a, places in zip(tiles.axes, target, strict=True):
                index[a.out_axis] = places
            there = out[(..., *index)]
            # of each axis that is cut: which tile, and where in it
            shape, strides, order = [], [], []
            for k in range(ndim):
                n, step = there.shape[lead + k], there.strides[lead + k]
                axis = next((j for j, a in enumerate(tiles.axes) if a.out_axis == k), None)
                if axis is not None:
                    count = key[axis][0].stop - key[axis][0].start
                    shape.append(count)
                    strides.append(step * tiles.axes[axis].tile)
                    order.append(lead + axis)
                    n = key[axis][1].stop
                shape.append(n)
                strides.append(step)
                order.append(lead + cut + k)
            place = as_strided(
                there, (*there.shape[:lead], *shape), (*there.strides[:lead], *strides)
            )
            inner: list[Any] = [slice(None)] * ndim
            for (_, part), a in zip(key, tiles.axes, strict=True):
                inner[a.out_axis] = part
            some = results[(..., *(tile for tile, _ in key), *inner)]
            place[...] = some.transpose(*range(lead), *order)


_Key = list[tuple[slice, slice]]


def _pieces(
    axes: Sequence[TiledAxis], start: int, counts: Sequence[int]
) -> Iterator[tuple[_Key, list[slice]]]:
    """Tiles that lie in the result whole, and those at its ends: which, and what of them.

    With them for each axis the places of the result.
    """
    if not axes:
        yield [], []
        return
    a, count = axes[0], counts[0]
    whole = min(count, a.out_size // a.tile - start)
    parts = [(0, whole, a.tile)] if whole > 0 else []
    if start + count > a.out_size // a.tile:
        parts.append((count - 1, count, a.out_size % a.tile))
    for first, last, length in parts:
        begin = (start + first) * a.tile
        places = slice(begin, begin + (last - first - 1) * a.tile + length)
        for key, others in _pieces(axes[1:], 0, counts[1:]):
            yield [(slice(first, last), slice(0, length)), *key], [places, *others]


__all__ = ["Cutter", "Tiles", "choose", "costs", "shown"]
