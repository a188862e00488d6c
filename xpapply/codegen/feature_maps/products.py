"""The text of products: on tensor cores, and in float32 for slices that leave float16's range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..geometry import Product
from ..schedule import Step
from ..tensor_network.packing import Constants
from .tails import Places, Tail
from .terms import Fours, fours, offsets
from .weights import Made, output_exponents, packed
from .words import Words, loop

_PIECE = 2
"""Steps that tensor cores add up, of long sums with "highest" precision."""
_SHORT = 16
"""Sums of up to so many steps are added up in float32 after each step. Tensor cores cut bits off,
always towards zero. Longer sums lose as much in float32 itself: they take the quicker way."""
FEW = 4
"""Steps of which all are written one after the other."""
_KEPT = 12
"""Registers in which a warp keeps what all its tasks read."""
_CACHED = 64 << 10
"""Bytes of weights of a layer that stay in the cache of a multiprocessor, more or less."""
_LEAST = 4
"""Steps that a warp should have at least, where warps share the terms of a product."""


@dataclass
class _Work:
    """The task of a warp in a product: 16 `m` of `rows`, 8 `side` of `outputs`.

    `start` and `weight` are expressions: where the words of step ``s`` lie, and its weights.
    """

    m: int
    side: int
    chunks: int
    blocks: int
    groups: int
    parts: int
    terms: Fours
    place: Places
    rows: int
    outputs: int
    start: str = ""
    weight: str = ""

    @property
    def exact(self) -> bool:
        """Whether all tasks have the same number of rows."""
        return self.rows == 16 * self.m * self.blocks

    @property
    def alone(self) -> bool:
        """Whether all tasks have the same weights."""
        return self.chunks == self.groups == self.parts == 1

    def again(self, warps: int) -> bool:
        """Whether a warp has several tasks."""
        return self.parts == 1 and self.blocks * self.chunks * self.groups > warps


class Products(Words):
    """Writes products of maps with constants."""

    def product(self, step: Step) -> list[str]:
        p = self.maps.product(step)
        place = Places(self, step, p)
        return self._carefully(step, p, place) if self.careful else self._quickly(step, p, place)

    def _quickly(self, step: Step, p: Product, place: Places) -> list[str]:
        assert step.product is not None
        groups, n = p.groups.size, p.outputs.size
        apart = self.maps.pairs.get(self.maps.lies(p.source)[0])
        terms = fours(p.terms, place.together(self.images, self.pitch), apart)
        tiles = -(-n // 8)
        rows = self.images * place.count
        m, side = self._shape(rows, tiles, groups, terms.steps, len(p.taps), apart is not None)
        chunks = -(-tiles // side)
        blocks = -(-rows // (16 * m))
        tasks = blocks * chunks * groups
        parts = 1  # of the terms, for warps that would have nothing to do
        if self.plan.shared and len(p.taps) == 1 and tasks * 2 <= self.warps:
            parts = max(1, min(self.warps // tasks, terms.steps // _LEAST))
        terms = terms.multiple(parts)
        work = _Work(m, side, chunks, blocks, groups, parts, terms, place, rows, n)
        tail = Tail(self, step, p, self._factors(step.product, p))
        begin = f"for (int task = warp; task < {tasks}; task += XP_WARPS) {{"
        if parts > 1:
            begin = f"{{ const int part = warp / {tasks}, task = warp % {tasks};"
        every = "block" if groups == 1 else f"block % {blocks}"
        return [
            *self._starts(work, step.product, p, tail),
            begin,
            f"  const int chunk = {f'task % {chunks}' if chunks > 1 else 0};",
            f"  int block = task / {chunks};",
            f"  const int group = {f'block / {blocks}' if groups > 1 else 0};",
            f"  block = {every};",
            f"  int slices[{m}][2], places[{m}][2];",
            f"  const u32* at[{m}][2];",
            f"  XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{",
            f"    int p = (block * {m} + m) * 16 + 8 * h + g;",
            *([] if work.exact else [f"    p = p < {rows} ? p : {rows - 1};"]),
            *("    " + k for k in place.where()),
            "    slices[m][h] = s, places[m][h] = q;",
            f"    at[m][h] = maps + (s * {self.pitch} + {place.read} + group * {p.groups.read});",
            "  }",
            *("  " + k for k in self._sums(work, step, p, tail)),
            *("  " + k for k in self._results(work, step, p, tail)),
            "}",
        ]

    def _factors(self, product: int, p: Product) -> Made:
        """The factors of the sums of each output."""
        matrix, exponent = self._matrix(product), self._exponents(p)

        def factor(value: Constants) -> np.ndarray:
            if not self.scaled:
                return np.ones((p.groups.size, p.outputs.size), np.float32)
            return np.ldexp(np.float32(1), -output_exponents(matrix(value), exponent(value)))

        return factor

    def _exponents(self, p: Product) -> Callable[[Constants], int]:
        return self._exponent(self.maps.lies(p.source)[0]) if self.scaled else lambda value: 0

    def _starts(self, work: _Work, product: int, p: Product, tail: Tail) -> list[str]:
        """Statements before the loop over tasks: addresses of words and weights, or themselves.

        A warp keeps the few that it reads again and again.
        """
        matrix, exponent = self._matrix(product), self._exponents(p)
        terms, side, every = work.terms, work.side, work.side * work.chunks

        def weights(value: Constants) -> np.ndarray:
            return packed(matrix(value), terms.slots, every, self.precision, exponent(value))

        words = 4 if self.precision == "highest" else 2
        at = self.weights.add(work.groups * every * terms.steps * 32 * 4 * words, weights)
        starts = self.numbers.looked_up(4 * np.array(terms.starts), "t")
        own = f"(const W*)({self.quick_weights} + {at}) + lane"
        lines = [f"const auto* starts = &{starts};", f"const W* all = {own};"]
        each = f"XP_ALL for (int s = 0; s < {terms.steps}; ++s)"
        work.start, work.weight = "starts[4 * s]", f"own[(n * {terms.steps} + s) * 32]"
        if terms.steps <= FEW and work.again(self.warps):
            lines += [f"int start[{terms.steps}];", f"{each} start[s] = starts[4 * s];"]
            work.start = "start[s]"
            if work.alone and words * terms.steps * side <= _KEPT:
                lines += [
                    f"W kept[{side}][{terms.steps}];",
                    f"XP_ALL for (int n = 0; n < {side}; ++n) {each}"
                    f" kept[n][s] = all[(n * {terms.steps} + s) * 32];",
                ]
                work.weight = "kept[n][s]"
        fits = work.m * side * 4 * (2 if len(p.taps) > 1 else 1) + 4 * side <= self.registers
        if work.alone and fits and work.again(self.warps):
            lines += tail.keep(side)
        return lines

    def _sums(self, work: _Work, step: Step, p: Product, tail: Tail) -> list[str]:
        """The sums of a task, in ``d``."""
        m, side, terms, parts = work.m, work.side, work.terms, work.parts
        form = 2 if not self.scaled else 0 if self.maps.split(p.source) else 1
        if self.maps.lies(p.source)[0] in self.maps.pairs:
            form = 3
        own, tasks = terms.steps // parts, work.blocks * work.chunks * work.groups
        piece = min(own, self._piece(terms.steps, len(p.taps)))
        call = (
            f"xp_products<{m}, {side}, {own}, {piece}, {terms.d1}, {terms.d2}, {form}>"
            f"({{}}, at, [&](int s) {{{{ return {work.start}; }}}},"
            f" [&](int n, int s) {{{{ return {work.weight}; }}}}, {self.scale(p.source)}, odd);"
        )
        each = f"XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int n = 0; n < {side}; ++n)"
        each += " XP_ALL for (int e = 0; e < 4; ++e)"
        place = f"(group * {side * work.chunks} + chunk * {side}) * {terms.steps * 32}"
        lines = [f"const W* own = all + {place};", f"float d[{m}][{side}][4];"]
        if parts > 1:
            numbers = 4 * m * side
            self.scratch = max(self.scratch, 4 * 32 * numbers * tasks * (parts - 1))
            sums = f"{32 * numbers} + ((m * {side} + n) * 4 + e) * 32"
            return [
                *lines,
                "float* const beside = (float*)xp_scratch + lane;",
                f"if (part < {parts}) {{",
                f"  starts += part * {4 * own}, own += part * {32 * own};",
                "  " + call.format("d"),
                "}",
                f"if (part && part < {parts})",
                f"  {each} beside[((part - 1) * {tasks} + task) * {sums}] = d[m][n][e];",
                "__syncthreads();",
                f"if (part == 0) for (int k = 0; k < {parts - 1}; ++k)",
                f"  {each} d[m][n][e] += beside[(k * {tasks} + task) * {sums}];",
            ]
        if len(p.taps) == 1:
            return [*lines, call.format("d")]
        taps = [work.place.tap(k) for k in range(len(p.taps))]
        values = [b - a for a, b in zip(taps, [*taps[1:], 0], strict=True)]
        joined = tail.join("d[m][n][e]", "r[m][n][e]")
        loop, next_ = "XP_ALL", f"const int next[] = {{{', '.join(map(str, values))}}};"
        if tail.long:
            loop, next_ = '_Pragma("unroll 1")', ""
        by = self.index(np.array([*values[:-1], 0]), "tap") if tail.long else "next[tap]"
        return [
            *lines,
            next_,
            f"{loop} for (int tap = 0; tap < {len(taps)}; ++tap) {{",
            f"  float r[{m}][{side}][4];",
            "  " + call.format("r"),
            *("  " + k for k in tail.each_tap(m, side, work.place)),
            f"  {each} d[m][n][e] = tap == 0 ? r[m][n][e] : {joined};",
            f"  XP_ALL for (int m = 0; m < {m}; ++m)",
            f"    XP_ALL for (int h = 0; h < 2; ++h) at[m][h] += {by};",
            "}",
        ]

    def _results(self, work: _Work, step: Step, p: Product, tail: Tail) -> list[str]:
        """Statements after the sums of a task, which write its results."""
        m, side, place = work.m, work.side, work.place
        before, behind = self.look(step.out)
        row = [
            "const int s = slices[m][h], q = places[m][h];",
            f"u32* const map = maps + s * {self.pitch};",
        ]
        is_row = []
        if not work.exact:
            is_row = [f"(block * {m} + m) * 16 + 8 * h + g < {work.rows}"]
        if work.parts > 1:
            is_row.append("part == 0")
        guard = f"if ({' && '.join(is_row)}) " if is_row else ""
        within = "" if work.outputs == 8 * side * work.chunks else f"if (k < {work.outputs}) "
        to = f"{place.write} + group * {place.group}"
        each = f"XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int h = 0; h < 2; ++h)"
        lines = [
            f"int to[{m}][2];",
            f"{each} {{",
            "  const int q = places[m][h];",
            f"  to[m][h] = {to};",
            "}",
        ]
        if before:
            lines.append(f"float tops[{m}][2] = {{}};")
        lines += [
            f"XP_ALL for (int n = 0; n < {side}; ++n) XP_ALL for (int c = 0; c < 2; ++c) {{",
            f"  const int k = (chunk * {side} + n) * 8 + 2 * t + c;",
            f"  {within}{{",
            *("    " + k for k in tail.constants()),
            f"    {each} {guard}{{",
            *("      " + k for k in row),
            *(["      float& top = tops[m][h];"] if before else []),
            "      float v = d[m][n][2 * h + c];",
            *("      " + k for k in tail.at_last(place)),
            *(
                "      " + k
                for k in self.put(
                    step.out, f"to[m][h] + k * {place.output}", tail.result, tail.times
                )
            ),
            "    }",
            "  }",
            "}",
        ]
        if behind:
            lines += [
                f"{each} {guard}{{",
                "  const int s = slices[m][h];",
                "  const float top = tops[m][h];",
                *("  " + k for k in behind),
                "}",
            ]
        return lines

    def _piece(self, steps: int, taps: int) -> int:
        """Steps that tensor cores add up; float32 has the sum of those sums."""
        if self.precision != "highest":
            return steps
        if steps > _SHORT:
            return _PIECE
        # each of the sums that are joined to one needs registers of its own
        return steps if steps <= _PIECE and taps > 1 else 1

    def _shape(
        self, rows: int, tiles: int, groups: int, steps: int, taps: int, pairs: bool
    ) -> tuple[int, int]:
        """Tiles of 16 places and of 8 outputs that a warp has sums of.

        What a step takes was counted in instructions: to find places, for each 16 of them to read
        and order terms, to read weights, and to multiply.
        """
        highest = self.precision == "highest"
        sets = 1 + (steps > self._piece(steps, taps)) + (taps > 1)
        most = max(1, self.registers // (4 * sets))
        read, multiply = 6 if pairs else 18, 7 if highest else 3
        words = 512 if highest else 256
        weigh = 2 if groups * tiles * steps * words <= _CACHED else 8

        def cost(shape: tuple[int, int]) -> tuple[int, int]:
            m, side = shape
            tasks = -(-rows // (16 * m)) * groups * -(-tiles // side)
            turns = -(-tasks // self.warps)
            return turns * (6 + m * (read + multiply * side) + weigh * side), m * side

        shapes = [(m, side) for m in (1, 2) for side in range(1, tiles + 1) if m * side <= most]
        m, side = min(shapes or [(1, 1)], key=cost)
        return m, -(-tiles // -(-tiles // side))

    def _carefully(self, step: Step, p: Product, place: Places) -> list[str]:
        assert step.product is not None
        groups, n, count = p.groups.size, p.outputs.size, p.count
        rows = self.images * place.count
        matrix = self._matrix(step.product)

        def weights(value: Constants) -> np.ndarray:
            return np.ascontiguousarray(matrix(value).transpose(0, 2, 1), np.float32)

        at = self.plain.add(4 * groups * n * count, weights)
        where = self.index(offsets(p.terms), "j")
        tail = Tail(self, step, p)
        taps = [place.tap(k) for k in range(len(p.taps))]
        values = ", ".join(map(str, taps))
        return [
            *loop(f"for (int e = threadIdx.x; e < {groups * n * rows}; e += XP_THREADS) {{"),
            f"  const int k = e % {n}, p = e / {n} % {rows}, group = e / {n * rows};",
            *("  " + k for k in place.where()),
            f"  u32* const map = maps + s * {self.pitch};",
            f"  const u32* from = map + {place.read} + group * {p.groups.read};",
            f"  const float* const own = (const float*)(plain_at + {at})"
            f" + group * {n * count} + k;",
            f"  const int taps[] = {{{values}}};",
            *("  " + k for k in tail.constants()),
            "  float d = 0;",
            *loop(f"  for (int tap = 0; tap < {len(taps)}; ++tap) {{"),
            "    float v = 0;",
            "    #pragma unroll 4",
            f"    for (int j = 0; j < {count}; ++j)",
            f"      v = fmaf(__uint_as_float(from[taps[tap] + {where}]), own[j * {n}], v);",
            *("    " + k for k in tail.of_tap(place)),
            f"    d = tap == 0 ? {tail.tapped} : {tail.join('d', tail.tapped)};",
            "  }",
            f"  const int to = {place.write} + group * {place.group};",
            "  float v = d;",
            *("  " + k for k in tail.at_last(place)),
            *("  " + k for k in self.put(step.out, f"to + k * {place.output}", tail.result)),
            "}",
        ]
