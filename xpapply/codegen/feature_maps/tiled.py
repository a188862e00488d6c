"""The text that reads tiles where they lie in their slices, and writes results to their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.graph import Graph
from ...ir.tiles.tiles import TiledAxis, Tiles, Window
from ..access import Access, locate
from ..geometry import contiguous, strided
from .slices import Slices
from .steps import Steps
from .words import computed, loop

_AT_ONCE = 16
"""Numbers that a thread reads, or writes, one after the other without waiting."""


@dataclass(frozen=True)
class _Layers:
    """Numbers of a window, or of a result, as layers alike: channels, most often.

    Attributes
    ----------
    count, size : int
        How many there are, and the numbers of each.
    words, apart : int
        From one to the next in shared memory, and in the slice.
    at_once : int
        So many are read or written by a thread one after the other.
    parts : int
        Threads that share the layers of a place.
    """

    count: int
    size: int
    words: int
    apart: int
    at_once: int
    parts: int

    def turns(self) -> list[str]:
        """The head of a loop over those of a thread."""
        head = f"for (int o = part * {self.at_once}; o < {self.count};"
        return loop(f"{head} o += {self.parts * self.at_once})")

    def each(self, body: str) -> str:
        """Apply statements to each layer of a turn, ``o + c``."""
        within = f"if (o + c < {self.count}) " if self.count % self.at_once else ""
        return f"XP_ALL for (int c = 0; c < {self.at_once}; ++c) {within}{body}"


class TiledSlices(Slices):
    """The tiles of slices, which the kernel takes as slices of its own.

    Tiles are counted through slice by slice; where slices lie side by side in memory, tile by
    tile, so that what is read together lies together.
    """

    def __init__(self, graph: Graph, access: Access, steps: Steps, tiles: Tiles) -> None:
        super().__init__(graph, access, steps)
        self._tiles = tiles

    def load(self) -> list[str]:
        """Read the windows, and write the masks after them."""
        lines, self._at = [], 0
        for k, source in enumerate(self._tiles.sources):
            self._source, self._numbers = k, math.prod(source.window)
            cut = [w.axis for _, _, w in self._along()]
            places = self._maps.places(self._graph.entry)[self._at :][: self._numbers]
            layers = self._layers(source.window, source.shape, cut, places)
            loaded = super().load() if layers is None else self._load_layers(layers, places)
            lines += ["{", *loaded, "}"]
            self._at += self._numbers
        return [*lines, *self._masks()]

    def store(self) -> list[str]:
        """Statements that write the results."""
        tiles, places = self._tiles, self._maps.places(self._graph.out)
        cut = [a.out_axis for a in tiles.axes]
        layers = self._layers(self._graph.result.shape, tiles.result_shape, cut, places)
        return super().store() if layers is None else self._store_layers(layers, places)

    def _layers(
        self, shape: Sequence[int], whole: Sequence[int], cut: Sequence[int], places: np.ndarray
    ) -> _Layers | None:
        """The axes before those that are cut, if a loop of their own pays."""
        first = min(cut, default=0)
        count, size = math.prod(shape[:first]), math.prod(shape[first:])
        if count < 4:
            return None
        rows = places.reshape(count, size)
        words = int(rows[1, 0] - rows[0, 0])
        if (rows != rows[:1] + words * np.arange(count)[:, None]).any():
            return None
        most = min(_AT_ONCE, count)
        even = max(n for n in range(1, most + 1) if count % n == 0)
        at_once = even if even >= 4 else min(8, most)
        threads = 32 * self._plan.warps
        parts = max(1, min(-(-count // at_once), threads // (size * self._plan.images)))
        return _Layers(count, size, words, math.prod(whole[first:]), at_once, parts)

    def _over(self, layers: _Layers) -> list[str]:
        """The head of a loop over the places of layers, ``q``, of slices ``s``."""
        images, size = self._plan.images, layers.size
        every = layers.parts * images * size
        inner, outer = ("s", "q") if self._access.after else ("q", "s")
        n, m = (images, size) if self._access.after else (size, images)
        return [
            *loop(f"for (int e = threadIdx.x; e < {every}; e += XP_THREADS) {{"),
            "  " + self._steps.divided("e", n, every, ("rest", inner)),
            "  " + self._steps.divided("rest", m, every // n, ("part", outer)),
        ]

    def _load_layers(self, layers: _Layers, places: np.ndarray) -> list[str]:
        """Statements that read the windows of a source: a place of several layers at once."""
        steps, entry = self._steps, self._graph.entry
        source = self._tiles.sources[self._source]
        own = np.indices(source.window).reshape(len(source.window), -1)[:, : layers.size]
        before, behind = steps.look(entry, always=True, part=self._source)
        inside = self._inside(own, "q")
        number = f"x[at + (I)(o + c) * {layers.apart} * (I)s_m]"
        read = f"v[c] = {'inside ? ' if inside else ''}(float){number}{' : 0.f' if inside else ''};"
        put = steps.put(entry, f"to + (o + c) * {layers.words}", "v[c]")
        return [
            *self._over(layers),
            *("  " + k for k in (*self._start(), *before)),
            f"  u32* const map = maps + s * {steps.pitch};",
            f"  const int to = {steps.index(places[: layers.size], 'q')};",
            f"  at += ({_expression(contiguous(source.shape) @ own, 'q', '(I)')}) * (I)s_m;",
            *([f"  const bool inside = {' && '.join(inside)};"] if inside else []),
            *("  " + k for k in (*layers.turns(), "{")),
            f"    float v[{layers.at_once}];",
            f"    {layers.each(read)}",
            f"    {layers.each('{')}",
            *("      " + k for k in put),
            "    }",
            "  }",
            *("  " + k for k in behind),
            "}",
        ]

    def _store_layers(self, layers: _Layers, places: np.ndarray) -> list[str]:
        """Statements that write results: a place of several layers at once."""
        shape = self._graph.result.shape
        own = np.indices(shape).reshape(len(shape), -1)
        where, inside, place = self._placed(own[:, : layers.size], "q")
        number = f"from[(o + c) * {layers.words}]"
        write = f"to[(I)(o + c) * {layers.apart} * (I)o_j] = OUT(__uint_as_float({number}));"
        return [
            *self._over(layers),
            *("  " + k for k in where),
            *([f"  if (!({' && '.join(inside)})) continue;"] if inside else []),
            f"  const u32* const from = maps + s * {self._steps.pitch}"
            f" + {self._steps.index(places[: layers.size], 'q')};",
            f"  OUT* const to = &{place};",
            *("  " + k for k in (*layers.turns(), layers.each(write))),
            "}",
        ]

    def _which(self) -> list[str]:
        """The slice ``row`` that a tile is of, and which one it is along each axis."""
        count = self._tiles.count
        lines = [f"const I row = tile / {count};", f"const int which = (int)(tile % {count});"]
        if self._access.after:
            lines = [
                f"const I whole = (I)n_slices / {count};",
                "const I row = tile % whole;",
                "const int which = (int)(tile / whole);",
            ]
        axes = self._tiles.axes
        for k in range(len(axes)):
            loops = [(a.count, int(j == k)) for j, a in enumerate(axes)]
            lines.append(f"const int t{k} = {computed(0, loops, 'which')};")
        return lines

    def _of_tile(self) -> list[str]:
        last = "first + s < (I)n_slices ? first + s : (I)n_slices - 1"
        return [f"const I tile = {last};", *self._which()]

    def _start(self) -> list[str]:
        """Declare the start of tile ``s``'s window, which may be before its source."""
        source = self._tiles.sources[self._source]
        along, apart = self._along(), contiguous(source.shape)
        begin = [f"const int o{k} = t{k} * {w.step} + {w.start};" for k, _, w in along]
        corner = [f"(I)o{k} * {apart[w.axis]}" for k, _, w in along]
        located = ["I at = 0;", *locate(self._access)]
        first = " + ".join([*corner, *([str(source.start)] if source.start else [])]) or "0"
        return [*self._of_tile(), *located, *begin, f"at += ({first}) * (I)s_m;"]

    def _along(self) -> list[tuple[int, TiledAxis, Window]]:
        """The axes along which the source that is read is cut, and its windows."""
        every = ((k, a, a.windows[self._source]) for k, a in enumerate(self._tiles.axes))
        return [(k, a, w) for k, a, w in every if w is not None]

    def _number(self) -> str:
        """Number ``k`` of the window, 0 beyond the ends of its source."""
        source = self._tiles.sources[self._source]
        own = np.indices(source.window).reshape(len(source.window), -1)
        places = _expression(contiguous(source.shape) @ own, "k", "(I)")
        read = f"(float)x[at + ({places}) * (I)s_m]"
        inside = self._inside(own, "k")
        return f"({' && '.join(inside)} ? {read} : 0.f)" if inside else read

    def _inside(self, own: np.ndarray, name: str) -> list[str]:
        """Conditions for a place of the window to be inside the source."""
        return [
            f"(u32)(o{k} + ({_expression(own[w.axis], name)})) < {w.size}u"
            for k, a, w in self._along()
            if w.start < 0 or w.last(a.count) > w.size
        ]

    def _masks(self) -> list[str]:
        """Statements that write what of the values of a tile is inside."""
        steps, entry, images = self._steps, self._graph.entry, self._plan.images
        places, at, lines = self._maps.places(entry), self._at, []
        for k, axis in enumerate(self._tiles.axes):
            for m in axis.masks:
                n = m.stop - m.start
                # no scale of the slice's numbers may take it out of range: what is not 0 is inside
                put = steps.put(entry, steps.index(places[at : at + n], "k"), "v", times=True)
                lines += [
                    *loop(f"for (int e = threadIdx.x; e < {images * n}; e += XP_THREADS) {{"),
                    f"  const int s = e / {n}, k = e % {n};",
                    *("  " + k for k in self._of_tile()),
                    f"  const float v = (u32)(k + {m.start} + t{k} * {m.step}) < {m.size}u;",
                    "  float top = 0;",
                    f"  u32* const map = maps + s * {steps.pitch};",
                    *("  " + k for k in put),
                    "}",
                ]
                at += n
        return lines

    def _result(self) -> tuple[list[str], str]:
        """Statements before result ``k`` of tile ``s``, with its guard; and its place."""
        shape = self._graph.result.shape
        where, inside, place = self._placed(np.indices(shape).reshape(len(shape), -1), "k")
        return [*where, *([f"if ({' && '.join(inside)})"] if inside else [])], place

    def _placed(self, own: np.ndarray, name: str) -> tuple[list[str], list[str], str]:
        """Statements that find a number's tile, its guard, and its place."""
        axes, apart = self._tiles.axes, contiguous(self._tiles.result_shape)
        inside = [
            f"t{k} * {a.tile} + ({_expression(own[a.out_axis], name)}) < {a.out_size}"
            for k, a in enumerate(axes)
            if a.out_size % a.tile
        ]
        corner = [f"(I)(t{k} * {a.tile}) * {apart[a.out_axis]}" for k, a in enumerate(axes)]
        place = " + ".join([*corner, f"({_expression(apart @ own, name, '(I)')})"])
        where = [
            "const I tile = first + s;",
            "if (tile >= (I)n_slices) continue;",
            *self._which(),
        ]
        return where, inside, f"y[{self._row()} + ({place}) * (I)o_j]"


def _expression(table: np.ndarray, name: str, ctype: str = "") -> str:
    """The number of a table for a place; computed, for no plan counts with tables here."""
    found = strided(table)
    assert found is not None
    return computed(*found, name, ctype)
