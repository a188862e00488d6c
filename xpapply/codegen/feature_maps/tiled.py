"""The text that reads tiles where they lie in their slices, and writes results to their places."""

from __future__ import annotations

import math

import numpy as np

from ...ir.graph import Graph
from ...ir.tiles import TiledAxis, Tiles
from ..access import Access, locate
from ..geometry import contiguous, strided
from .slices import Slices
from .steps import Steps
from .words import computed


class TiledSlices(Slices):
    """The tiles of slices, which the kernel takes as slices of its own.

    Tiles are counted through slice by slice; where slices lie side by side in memory, tile by
    tile, so that what is read together lies together.
    """

    def __init__(self, graph: Graph, access: Access, steps: Steps, tiles: Tiles) -> None:
        super().__init__(graph, access, steps)
        self._tiles = tiles
        self._numbers = math.prod(tiles.window)

    def load(self) -> list[str]:
        """Statements that read the windows, and write the masks behind them."""
        return [*super().load(), *self._masks()]

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
        """Where the window of tile ``s`` begins, which may be before the slice does."""
        axes, apart = self._tiles.axes, contiguous(self._tiles.shape)
        begin = [f"const int o{k} = t{k} * {a.step} + {a.start};" for k, a in enumerate(axes)]
        corner = " + ".join(f"(I)o{k} * {apart[a.axis]}" for k, a in enumerate(axes))
        located = ["I at = 0;", *locate(self._access)]
        return [*self._of_tile(), *located, *begin, f"at += ({corner}) * (I)s_m;"]

    def _number(self) -> str:
        """Number ``k`` of the window, 0 beyond the ends of the slice."""
        tiles = self._tiles
        own = np.indices(tiles.window).reshape(len(tiles.window), -1)
        places = _expression(contiguous(tiles.shape) @ own)
        read = f"(float)x[at + (I)({places}) * (I)s_m]"
        inside = [
            f"(u32)(o{k} + ({_expression(own[a.axis])})) < {a.size}u"
            for k, a in enumerate(tiles.axes)
            if a.start < 0 or _last(a) > a.size
        ]
        return f"({' && '.join(inside)} ? {read} : 0.f)" if inside else read

    def _masks(self) -> list[str]:
        """Statements that write what of the values of a tile is inside."""
        steps, entry, images = self._steps, self._graph.entry, self._plan.images
        places, at, lines = self._maps.places(entry), self._numbers, []
        for k, axis in enumerate(self._tiles.axes):
            for m in axis.masks:
                n = m.stop - m.start
                # no scale of the slice's numbers may take it out of range: what is not 0 is inside
                put = steps.put(entry, steps.index(places[at : at + n], "k"), "v", times=True)
                lines += [
                    *steps.loop(f"for (int e = threadIdx.x; e < {images * n}; e += XP_THREADS) {{"),
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
        """What stands before result ``k`` of tile ``s``, if it is one; and where it lies."""
        axes, shape = self._tiles.axes, self._graph.result.shape
        apart = contiguous(self._tiles.result_shape)
        own = np.indices(shape).reshape(len(shape), -1)
        inside = [
            f"t{k} * {a.tile} + ({_expression(own[a.out_axis])}) < {a.out_size}"
            for k, a in enumerate(axes)
            if a.out_size % a.tile
        ]
        where = [f"(I)(t{k} * {a.tile}) * {apart[a.out_axis]}" for k, a in enumerate(axes)]
        place = " + ".join([*where, f"({_expression(apart @ own)})"])
        return [
            "const I tile = first + s;",
            "if (tile >= (I)n_slices) continue;",
            *self._which(),
            *([f"if ({' && '.join(inside)})"] if inside else []),
        ], f"y[{self._row()} + ({place}) * (I)o_j]"


def _expression(table: np.ndarray) -> str:
    """The number of a table for ``k``; computed, for no plan counts with tables here."""
    found = strided(table)
    assert found is not None
    return computed(*found, "k")


def _last(axis: TiledAxis) -> int:
    """Where the last window ends."""
    return (axis.count - 1) * axis.step + axis.stop
