"""The text that reads slices into shared memory, and writes results."""

from __future__ import annotations

from ...ir.graph import Graph
from ..access import Access, locate
from .steps import Steps
from .words import loop

_LOADS = 16
"""Numbers that a thread asks for at once."""


class Slices:
    """The slices of a graph, for one way of access."""

    def __init__(self, graph: Graph, access: Access, steps: Steps) -> None:
        self._graph, self._access, self._steps = graph, access, steps
        self._maps, self._plan = steps.maps, steps.plan
        (self._numbers,) = graph.input.shape
        """The number of elements of a slice."""
        self._source, self._at = 0, 0
        """The source of the input, and its first element."""

    def load(self) -> list[str]:
        """Statements that read the slices."""
        steps, entry, n, images = self._steps, self._graph.entry, self._numbers, self._plan.images
        places = self._maps.places(entry)[self._at : self._at + n]
        before, behind = steps.look(entry, always=True, part=self._source)
        put = steps.put(entry, steps.index(places, "k"), "v")
        start = [*self._start(), f"u32* const map = maps + s * {steps.pitch};"]
        each = [f"const float v = {self._number()};", *put]
        if self._access.after:
            threads = 32 * self._plan.warps
            return [
                f"const int s = threadIdx.x % {images};",
                *start,
                *before,
                "#pragma unroll 4",
                f"for (int k = threadIdx.x / {images}; k < {n}; k += {threads // images}) {{",
                *("  " + k for k in each),
                "}",
                *behind,
            ]
        parts = max(1, self._plan.warps // images)  # warps that share a slice
        count = -(-n // (32 * parts))
        if count <= _LOADS:
            return self._load_several(parts, count)
        return [
            *loop(f"for (int w = warp; w < {images * parts}; w += XP_WARPS) {{"),
            f"  const int s = w / {parts};",
            *("  " + k for k in (*start, *before)),
            "  #pragma unroll 8",
            f"  for (int k = w % {parts} * 32 + lane; k < {n}; k += {32 * parts}) {{",
            *("    " + k for k in each),
            "  }",
            *("  " + k for k in behind),
            "}",
        ]

    def _start(self) -> list[str]:
        """Declare the address of slice ``s``."""
        row = "const I row = first + s < (I)n_slices ? first + s : (I)n_slices - 1;"
        return [row, "I at = 0;", *locate(self._access)]

    def _number(self) -> str:
        """Number ``k`` of the slice."""
        return "(float)x[at + (I)k * (I)s_m]"

    def _load_several(self, parts: int, count: int) -> list[str]:
        """Load short slices: reads of a warp for several slices overlap."""
        steps, entry, n = self._steps, self._graph.entry, self._numbers
        images, warps = self._plan.images, self._plan.warps
        several = max(1, min(images * parts // warps, 1 << (_LOADS // count).bit_length() - 1))
        while several > 1 and images * parts % (several * warps):
            several //= 2
        before, behind = steps.look(entry, always=True, part=self._source)
        places = self._maps.places(entry)[self._at : self._at + n]
        put = steps.put(entry, steps.index(places, "k"), "v[i][c]")
        inside = f"c < {n // (32 * parts)} || k < {n}"
        slice_ = f"const int s = (w + i * XP_WARPS) / {parts};"
        number = f"const int k = (w % {parts} + {parts} * c) * 32 + lane;"
        return [
            *loop(f"for (int w = warp; w < {images * parts}; w += {several} * XP_WARPS) {{"),
            f"  float v[{several}][{count}];",
            f"  XP_ALL for (int i = 0; i < {several}; ++i) {{",
            f"    {slice_}",
            *("    " + k for k in self._start()),
            f"    XP_ALL for (int c = 0; c < {count}; ++c) {{",
            f"      {number}",
            f"      v[i][c] = {inside} ? {self._number()} : 0;",
            "    }",
            "  }",
            f"  XP_ALL for (int i = 0; i < {several}; ++i) {{",
            f"    {slice_}",
            f"    u32* const map = maps + s * {steps.pitch};",
            *("    " + k for k in before),
            f"    XP_ALL for (int c = 0; c < {count}; ++c) {{",
            f"      {number}",
            f"      if ({inside}) {{",
            *("        " + k for k in put),
            "      }",
            "    }",
            *("    " + k for k in behind),
            "  }",
            "}",
        ]

    def ahead(self) -> list[str]:
        """Statements that ask for the slices of the next turn: they come while these are used."""
        access, images, aval = self._access, self._plan.images, self._graph.input
        if not access.dense:
            return []
        n, line = aval.shape[0], 128 // aval.itemsize
        count, at, inside = n, "next + (I)k * (I)s_m", "next < (I)n_slices"
        if not access.after:
            count = -(-images * n // line)
            at, inside = f"next * {n} + (I)k * {line}", f"at < (I)n_slices * {n}"
        return [
            f"const I next = first + (I)gridDim.x * {images};",
            f"for (int k = threadIdx.x; k < {count}; k += XP_THREADS) {{",
            f"  const I at = {at};",
            f"  if ({inside}) xp_fetch(x + at);",
            "}",
        ]

    def store(self) -> list[str]:
        """Statements that write the results."""
        steps, images = self._steps, self._plan.images
        places = self._maps.places(self._graph.out)
        n = places.size
        split = f"const int s = e / {n}, k = e - s * {n};"
        if self._access.after:
            split = f"const int k = e / {images}, s = e - k * {images};"
        word = f"maps[s * {steps.pitch} + {steps.index(places, 'k')}]"
        where, result = self._result()
        return [
            f"for (int e = threadIdx.x; e < {images * n}; e += XP_THREADS) {{",
            f"  {split}",
            *("  " + k for k in where),
            f"    {result} = OUT(__uint_as_float({word}));",
            "}",
        ]

    def _result(self) -> tuple[list[str], str]:
        """Statements before result ``k`` of slice ``s``, with its guard; and the result."""
        return [
            "const I row = first + s;",
            "if (row < (I)n_slices)",
        ], f"y[{self._row()} + (I)k * (I)o_j]"

    def _row(self) -> str:
        """The address of the results of slice ``row``."""
        if self._access.grouped:
            return "row % (I)n_group * (I)o_row + row / (I)n_group * (I)o_group"
        return "row * (I)o_row"
