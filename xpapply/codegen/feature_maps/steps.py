"""The text of a network's steps on maps in shared memory, in two versions.

The quick one multiplies on tensor cores and trusts the range of float16; the careful one, which
runs for slices that leave that range, has float32 and one thread for each result.
"""

from __future__ import annotations

import numpy as np

from ...ir.ops import OPS
from ..cxx import literal
from ..geometry import Product
from ..schedule import Step
from ..tensor_network.packing import Constants
from ..tensor_network.target import Refused
from .tails import Places, Tail
from .terms import fours, offsets
from .weights import output_exponents, packed
from .words import Words

PIECE = 2
"""Steps that tensor cores add up; float32 has the sum of those sums."""
_LEAST = 4
"""Steps that a warp should have at least, where warps share the terms of a product."""


class Steps(Words):
    """Writes steps."""

    # --- steps ------------------------------------------------------------------------

    def write(self, step: Step) -> list[str]:
        """The text of a step but the input."""
        n = self.queries.graph.nodes[step.out]
        if n.aval.dtype not in ("float32",) and step.out != self.queries.graph.out:
            raise Refused(f"{n.aval.dtype} values")
        if step.product is not None:
            return self._product(step)
        if step.out in self.maps.copies:
            root, places = self.maps.copies[step.out]
            table = places.reshape(-1) + self.maps._rows[root]
            read = self.number(root, self.index(table, "n"))
            return self._each(step.out, [f"const float v = {read};"])
        if step.region is not None:
            operand = self._operand("n", n.aval.shape)
            body = self._statements(list(step.region.nodes), operand)
            return self._each(step.out, [*body, f"const float v = t{step.region.out};"])
        if n.op in ("pad", "concat"):
            return self._joined(step.out)
        if step.out in self.maps.windows:
            return self._reduction(step.out)
        raise Refused(f"{n.op} of a value in shared memory")

    def _each(
        self, i: int, body: list[str], size: int = 0, places: np.ndarray | None = None
    ) -> list[str]:
        """A loop over slices and numbers of a value, of which `body` computes ``v``."""
        places = self.maps.places(i) if places is None else places
        size = size or places.size
        before, behind = self.look(i)
        return [
            f"for (int e = threadIdx.x; e < {self.images * size}; e += XP_THREADS) {{",
            f"  const int s = e / {size}, n = e - s * {size};",
            f"  u32* const map = maps + s * {self.pitch};",
            *("  " + b for b in (*before, *body)),
            *("  " + b for b in (*self.put(i, self.index(places, "n"), "v"), *behind)),
            "}",
        ]

    def _joined(self, i: int) -> list[str]:
        """What of a padded or joined map was not written by what made its parts."""
        n, q = self.queries.graph.nodes[i], self.queries
        lines, places = [], self.maps.places(i)
        inside = np.zeros(q.size(i), bool)
        for a, target in self.maps.parts(i):
            inside[target] = True
            if self.maps.is_there(a, i, target):
                continue
            if not q.dependent[a]:
                raise Refused("joining a constant")
            found = self.number(a, self.index(self.maps.places(a), "n"))
            read = [f"const float v = {found};"]
            lines += self._each(i, read, places=places[target])
        border = np.flatnonzero(~inside)
        if border.size:
            fill = literal(float(n.attr("number")), "float32")
            lines += self._each(i, [f"const float v = {fill};"], places=places[border])
        return lines

    def _reduction(self, i: int) -> list[str]:
        a, table = self.maps.windows[i]
        row = OPS[self.queries.graph.nodes[i].op]
        if not row.c or row.finds_position:
            raise Refused(f"{row.name} of a value in shared memory")
        read = self.maps.places(a)[table.reshape(-1, table.shape[-1])]
        apart = read - read[:, :1]
        if (apart != apart[0]).any():
            raise Refused(f"{row.name} of numbers that lie unevenly")
        count = read.shape[1]
        # lanes that would read from one bank begin at different places of their windows
        turns = np.bincount(read[:32, 0] % 32).max()
        first = f"n % {count}" if turns > 2 and not self.careful else "0"
        number = self.number(a, f"at + {self.index(apart[0], 'k')}")
        body = [
            f"const int at = {self.index(read[:, 0], 'n')};",
            f"int k = {first};",
            f"float v = {number};",
            f"for (int j = 1; j < {count}; ++j) {{",
            f"  if (++k == {count}) k = 0;",
            f"  const float o = {number}; v = {row.c.format('v', 'o')};",
            "}",
        ]
        return self._each(i, body)

    # --- products ---------------------------------------------------------------------

    def _product(self, step: Step) -> list[str]:
        p = self.maps.product(step)
        place = Places(self, step, p)
        return self._carefully(step, p, place) if self.careful else self._quickly(step, p, place)

    def _quickly(self, step: Step, p: Product, place: Places) -> list[str]:
        assert step.product is not None
        groups, n = p.groups.size, p.outputs.size
        terms = fours(p.terms, place.together(self.images, self.pitch))
        tiles = -(-n // 8)
        rows = self.images * place.count
        m, side = self._shape(rows, tiles, groups, terms.steps, len(p.taps))
        chunks = -(-tiles // side)
        form = 2 if not self.scaled else 0 if self.maps.split(p.source) else 1
        blocks = -(-rows // (16 * m))
        tasks = blocks * chunks * groups
        parts = 1  # of the terms, for warps that would have nothing to do
        if self.shared and len(p.taps) == 1 and tasks * 2 <= self.warps:
            parts = max(1, min(self.warps // tasks, terms.steps // _LEAST))
        terms = terms.multiple(parts)
        starts = self.numbers.table(np.array(terms.starts).reshape(-1))
        matrix = self._matrix(step.product)
        scaled = self.scaled
        exponent = self._exponent(self.maps.lies(p.source)[0]) if scaled else lambda value: 0
        every = side * chunks

        def weights(value: Constants) -> np.ndarray:
            return packed(matrix(value), terms.slots, every, self.precision, exponent(value))

        size = groups * every * terms.steps * 32 * 8 * (2 if self.precision == "highest" else 1)
        at = self.weights.add(size, weights)

        def factor(value: Constants) -> np.ndarray:
            if not scaled:
                return np.ones((groups, n), np.float32)
            return np.ldexp(np.float32(1), -output_exponents(matrix(value), exponent(value)))

        factors = f"f[{self.numbers.floats(groups * n, factor)} + group * {n} + k]"
        tail = Tail(self, step, p, factors)
        last = p.outputs.size % 8 == 0 and every == tiles
        taps = [place.tap(k) for k in range(len(p.taps))]
        own = terms.steps // parts
        call = (
            f"xp_products<{m}, {side}, {own}, {terms.steps}, {terms.d1}, {terms.d2}, {form}>"
            f"({{}}, maps, at, starts, own, {self.scale(p.source)}, odd);"
        )
        each = f"XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int n = 0; n < {side}; ++n)"
        each += " XP_ALL for (int e = 0; e < 4; ++e)"
        one = [
            f"float d[{m}][{side}][4];",
            call.format("d"),
        ]
        if len(taps) > 1:
            joined = tail.join("d[m][n][e]", "r[m][n][e]")
            values = ", ".join(str(b - a) for a, b in zip(taps, [*taps[1:], 0], strict=True))
            one = [
                f"float d[{m}][{side}][4];",
                f"const int next[] = {{{values}}};",
                f"XP_ALL for (int tap = 0; tap < {len(taps)}; ++tap) {{",
                f"  float r[{m}][{side}][4];",
                "  " + call.format("r"),
                *("  " + k for k in tail.each_tap(m, side, place)),
                f"  {each} d[m][n][e] = tap == 0 ? r[m][n][e] : {joined};",
                f"  XP_ALL for (int m = 0; m < {m}; ++m)",
                "    XP_ALL for (int h = 0; h < 2; ++h) at[m][h] += next[tap];",
                "}",
            ]
        before, behind = self.look(step.out)
        guard = "" if last else f"if (k < {n}) "
        begin = f"for (int task = warp; task < {tasks}; task += XP_WARPS) {{"
        if parts > 1:
            begin = f"{{ const int part = warp / {tasks}, task = warp % {tasks};"
            size = 4 * m * side
            self.scratch = max(self.scratch, 4 * 32 * size * tasks * (parts - 1))
            sums = f"((m * {side} + n) * 4 + e) * 32"
            one = [
                one[0],
                "float* const beside = (float*)xp_scratch + lane;",
                f"if (part < {parts}) {{",
                f"  starts += part * {4 * own}, own += part * {32 * own};",
                "  " + one[1],
                "}",
                f"if (part && part < {parts})",
                f"  {each} beside[((part - 1) * {tasks} + task) * {32 * size} + {sums}]"
                " = d[m][n][e];",
                "__syncthreads();",
                f"if (part == 0) for (int k = 0; k < {parts - 1}; ++k)",
                f"  {each} d[m][n][e] += beside[(k * {tasks} + task) * {32 * size} + {sums}];",
            ]
        return [
            begin,
            f"  const int chunk = task % {chunks}, block = task / {chunks} % {blocks},"
            f" group = task / {chunks * blocks};",
            f"  int at[{m}][2];",
            f"  XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{",
            f"    int p = (block * {m} + m) * 16 + 8 * h + g;",
            f"    p = p < {rows} ? p : {rows - 1};",
            *("    " + k for k in place.where()),
            f"    at[m][h] = s * {self.pitch} + {place.read} + group * {p.groups.read};",
            "  }",
            f"  const int* starts = (const int*)f + {starts} + t;",
            f"  const W* own = (const W*)({self.quick_weights} + {at})"
            f" + (group * {every} + chunk * {side}) * {terms.steps * 32} + lane;",
            *("  " + k for k in one),
            f"  XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{",
            f"    const int p = (block * {m} + m) * 16 + 8 * h + g;",
            f"    if ({'part == 0 && ' if parts > 1 else ''}p < {rows}) {{",
            *("      " + k for k in place.where()),
            f"      u32* const map = maps + s * {self.pitch};",
            f"      const int to = {place.write} + group * {place.group};",
            *("      " + k for k in before),
            f"      XP_ALL for (int n = 0; n < {side}; ++n) XP_ALL for (int c = 0; c < 2; ++c) {{",
            f"        const int k = (chunk * {side} + n) * 8 + 2 * t + c;",
            f"        {guard}{{",
            "          float v = d[m][n][2 * h + c];",
            *("          " + k for k in tail.at_last(place)),
            *(
                "          " + k
                for k in self.put(step.out, f"to + k * {place.output}", tail.result)
            ),
            "        }",
            "      }",
            *("      " + k for k in behind),
            "    }",
            "  }",
            "}",
        ]

    def _shape(self, rows: int, tiles: int, groups: int, steps: int, taps: int) -> tuple[int, int]:
        """Tiles of 16 places and of 8 outputs that a warp has sums of.

        What a step takes was counted in instructions: to find places, for each 16 of them to read
        and order terms, to read weights, and to multiply.
        """
        sets = 1 + (steps > PIECE) + (taps > 1)
        most = max(1, self.registers // (4 * sets))
        multiply = 7 if self.precision == "highest" else 3

        def cost(shape: tuple[int, int]) -> tuple[int, int]:
            m, side = shape
            tasks = -(-rows // (16 * m)) * groups * -(-tiles // side)
            turns = -(-tasks // self.warps)
            return turns * (6 + m * (18 + multiply * side) + 2 * side), m * side

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
        tail = Tail(self, step, p, "")
        taps = [place.tap(k) for k in range(len(p.taps))]
        values = ", ".join(map(str, taps))
        return [
            f"for (int e = threadIdx.x; e < {groups * n * rows}; e += XP_THREADS) {{",
            f"  const int k = e % {n}, p = e / {n} % {rows}, group = e / {n * rows};",
            *("  " + k for k in place.where()),
            f"  u32* const map = maps + s * {self.pitch};",
            f"  const u32* from = map + {place.read} + group * {p.groups.read};",
            f"  const float* const own = (const float*)(plain_at + {at})"
            f" + group * {n * count} + k;",
            f"  const int taps[] = {{{values}}};",
            "  float d = 0;",
            f"  for (int tap = 0; tap < {len(taps)}; ++tap) {{",
            "    float v = 0;",
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
