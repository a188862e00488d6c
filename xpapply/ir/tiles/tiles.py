"""Graphs of a tile: of a network each number of whose result depends on what is near it.

A convolutional network computes a piece of its result from a window of the slice, which is larger
by a margin. Where the values of a whole slice do not fit in fast memory, those of a tile do, and a
tile is a slice of a graph of its own: every engine can run it.

Beyond the ends of a slice a window has zeros, and what is computed of them is nothing that a padded
value has there. So a tile has *masks* after its window, which say what lies inside: 1, or 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..graph import Graph


class Mask(NamedTuple):
    """A mask of places inside a value: from 0 to `size`.

    Attributes
    ----------
    start, stop : int
        The places of tile 0.
    step : int
        From one tile to the next.
    size : int
        The length of the axis.
    """

    start: int
    stop: int
    step: int
    size: int


class Window(NamedTuple):
    """The window of a source for a tile, along a cut axis.

    Attributes
    ----------
    axis : int
        Of the source.
    size : int
        Its length.
    start, stop : int
        The places for tile 0, which may begin before the source does.
    step : int
        From one tile to the next.
    """

    axis: int
    size: int
    start: int
    stop: int
    step: int

    def last(self, count: int) -> int:
        """The end of the last tile's window."""
        return (count - 1) * self.step + self.stop


@dataclass(frozen=True)
class TiledAxis:
    """An axis of the result, and how tiles lie along it.

    Attributes
    ----------
    out_axis, out_size : int
        Of the result, and its length.
    tile : int
        Places of the result of a tile; the last one may go beyond the end.
    windows : tuple of Window or None
        Of each source; None of one that each tile needs whole.
    masks : tuple of Mask
        Behind the windows, for each place whether it is inside.
    """

    out_axis: int
    out_size: int
    tile: int
    windows: tuple[Window | None, ...]
    masks: tuple[Mask, ...]

    @property
    def count(self) -> int:
        return -(-self.out_size // self.tile)

    def inside(self) -> np.ndarray:
        """The masks of all tiles, of shape (count, numbers)."""
        rows = [np.zeros((self.count, 0), bool)]
        for m in self.masks:
            places = np.arange(m.start, m.stop) + m.step * np.arange(self.count)[:, None]
            rows.append((places >= 0) & (places < m.size))
        return np.concatenate(rows, 1)


class Source(NamedTuple):
    """A value that tiles have windows of.

    Attributes
    ----------
    start : int
        The place of its first number in a slice; the others follow it.
    shape, window : tuple of int
        Of the value, and of a window of it.
    """

    start: int
    shape: tuple[int, ...]
    window: tuple[int, ...]


@dataclass(frozen=True)
class Tiles:
    """A graph of a tile, and how slices are cut into tiles.

    Attributes
    ----------
    graph : Graph
        Of one tile: the windows, flat, one after the other, then the masks of all axes.
    sources : tuple of Source
        What the windows are of: the slice, or values that a slice is made of.
    axes : tuple of TiledAxis
        Those that are cut.
    row : int
        Numbers from the result of a slice to that of the next, where these lie one by one.
    """

    graph: Graph
    sources: tuple[Source, ...]
    axes: tuple[TiledAxis, ...]
    row: int

    def placed(self, starts: Sequence[int]) -> Tiles:
        """The tiles with sources at other offsets in slices."""
        pairs = zip(self.sources, starts, strict=True)
        return replace(self, sources=tuple(s._replace(start=at) for s, at in pairs))

    @property
    def count(self) -> int:
        """The tiles of a slice."""
        return math.prod(a.count for a in self.axes)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of a slice's result, before it is made flat at the end."""
        shape = list(self.graph.result.shape)
        for a in self.axes:
            shape[a.out_axis] = a.out_size
        return tuple(shape)

    def inside(self) -> np.ndarray:
        """The masks of all tiles, of shape (*counts, numbers)."""
        counts = tuple(a.count for a in self.axes)
        rows = []
        for k, a in enumerate(self.axes):
            own = a.inside()
            shape = tuple(n if j == k else 1 for j, n in enumerate(counts))
            rows.append(np.broadcast_to(own.reshape(*shape, -1), (*counts, own.shape[1])))
        return np.concatenate(rows, -1)
