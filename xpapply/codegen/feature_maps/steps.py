"""The text of a network's steps on maps in shared memory, in two versions.

The quick one multiplies on tensor cores and trusts the range of float16; the careful one, which
runs for slices that leave that range, has float32 and one thread for each result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...ir.ops import OPS, Op
from ..cxx import literal, statements
from ..geometry import Product, affine, strided
from ..schedule import Step
from ..tensor_network.packing import Constants
from ..tensor_network.target import Refused
from .maps import Maps
from .ranges import largest_exponent, typical
from .terms import fours, offsets
from .weights import Numbers, Section, input_exponent, output_exponents, packed

PIECE = 2
"""Steps that tensor cores add up; float32 has the sum of those sums."""
_LEAST = 4
"""Steps that a warp should have at least, where warps share the terms of a product."""


def _form(row: Op) -> str:
    return row.c


def _quick_form(row: Op) -> str:
    return "xp_tanh_of({0})" if row.name == "tanh" else row.tensor_c or row.c


class Steps:
    """Writes steps.

    Parameters
    ----------
    maps : Maps
        The network.
    precision : str
        As `xpapply.options` says.
    images, warps : int
        Slices in shared memory, and warps that work on them.
    registers : int
        Registers that a thread has for sums.
    shared : bool
        Whether warps share the terms of a product where they would have nothing to do.
    """

    def __init__(
        self,
        maps: Maps,
        precision: str,
        images: int,
        warps: int,
        registers: int = 48,
        shared: bool = True,
    ) -> None:
        self.maps, self.queries = maps, maps.queries
        self.precision, self.images, self.warps = precision, images, warps
        self.pitch = maps.words + (maps.words % 2 == 0)
        self.registers, self.shared = registers, shared
        self.scaled = precision != "medium"
        self.numbers, self.weights, self.plain = Numbers(), Section(), Section()
        self.careful = False
        self.quick_weights = "weights_at"
        self.products = [s.product for s in maps.steps if s.product is not None]
        self.scratch = 0
        """Bytes for sums of parts of the terms."""
        self.watched: list[int] = []
        """The maps whose slices must have a number that is not small."""
        self._scales: dict[int, int] = {}
        self._inverses: dict[int, int] = {}
        for s in maps.steps:
            root = maps.lies(s.out)[0]
            if self.scaled and maps.readers(s.out) and root not in self._scales:
                self._scales[root] = self.numbers.floats(1, self._scale(root))
                self.watched.append(root)

    # --- constants --------------------------------------------------------------------

    def _matrix(self, i: int) -> Callable[[Constants], np.ndarray]:
        """Weights of a product, ``[group, output, term]``."""
        p = self.maps._products[i]
        shape = (p.groups.size, p.outputs.size, p.count)
        return lambda value: value(p.matrix).transpose(p.order).reshape(shape)

    def _exponent(self, root: int) -> Callable[[Constants], int]:
        reader = self.maps.readers(root)[0]
        matrix, final = self._matrix(reader), reader == self.products[-1]
        graph, most = self.maps.graph, None
        if self.maps.lies(graph.entry)[0] == root:
            most = largest_exponent(graph.input.dtype)

        def exponent(value: Constants) -> int:
            found = input_exponent(matrix(value), final)
            return found if most is None else min(most, found)

        return exponent

    def _scale(self, root: int) -> Callable[[Constants], np.ndarray]:
        exponent = self._exponent(root)
        return lambda value: np.ldexp(np.float32(1), exponent(value)).reshape(1)

    def scale(self, i: int) -> str:
        """What the numbers of a map are multiplied by for products."""
        root = self.maps.lies(i)[0]
        return f"f[{self._scales[root]}]" if root in self._scales else "1"

    def watch(self, value: Constants) -> np.ndarray:
        """Whether small numbers have to be looked for in maps: no bias hides what they lose."""
        maps = self.maps
        for s in maps.steps:
            root = maps.lies(s.out)[0]
            if root not in self._scales or s.out == maps.graph.entry:
                continue
            found = typical(self.queries, s.out, value)
            if found is None:
                return np.array([1], np.float32)
            ordinary = np.ldexp(np.abs(found), self._exponent(root)(value)) >= 4
            if not ordinary.mean() >= 1 / 8:
                return np.array([1], np.float32)
        return np.array([0], np.float32)

    # --- places -----------------------------------------------------------------------

    def index(self, table: np.ndarray, name: str) -> str:
        """The number of a table as an expression."""
        found = strided(table)
        if found is None or len(found[1]) > 6:
            at = self.numbers.table(table)
            return f"((const int*)f)[{at} + {name}]"
        base, loops = found
        terms, below = [str(base)], 1
        for k in reversed(range(len(loops))):
            size, step = loops[k]
            part = name if below == 1 else f"{name} / {below}"
            if k:
                part = f"({part}) % {size}"
            if step:
                terms.append(f"({part}) * {step}")
            below *= size
        return " + ".join(terms)

    def put(self, i: int, at: str, number: str) -> list[str]:
        """Statements that write a number of value `i` at a word of ``map``, of slice ``s``.

        The largest number goes to ``top``, which `look` looks at.
        """
        if self.careful:
            return [f"map[{at}] = __float_as_uint({number});"]
        u = f"const float u = ({number}) * {self.scale(i)};"
        top = ["top = fmaxf(top, fabsf(u));"] if self._seen(i) is not None else []
        if self.maps.split(i) and self.scaled:
            return ["{", u, *top, f"map[{at}] = xp_halves(u, odd);", "}"]
        if not self.scaled and self.maps.readers(i):
            # a NaN that a maximum swallows, an infinity that meets the zeros beside weights
            u = f"const float u = {number};"
            return ["{", u, "odd = fmaf(u, 0, odd);", f"map[{at}] = __float_as_uint(u);", "}"]
        lines = [f"map[{at}] = __float_as_uint({number});"]
        return ["{", u, *top, *lines, "}"] if top else lines

    def _seen(self, i: int) -> int | None:
        """Which of the watched maps a value lies in, in the quick version."""
        root = self.maps.lies(i)[0]
        return None if self.careful or root not in self._scales else self.watched.index(root)

    def look(self, i: int, always: bool = False) -> tuple[list[str], list[str]]:
        """What stands before and behind the statements that write numbers of a slice ``s``."""
        slot = self._seen(i)
        if slot is None:
            return [], []
        at = f"xp_large + {slot * self.images} + s, xp_small + {slot * self.images} + s"
        return ["float top = 0;"], [f"{'' if always else 'if (watching) '}xp_look({at}, top);"]

    def number(self, i: int, at: str) -> str:
        """The number at a word of ``map``, which is one of value `i`."""
        if self.careful or not (self.scaled and self.maps.split(i)):
            return f"__uint_as_float(map[{at}])"
        root = self.maps.lies(i)[0]
        if root not in self._inverses:
            exponent = self._exponent(root)
            self._inverses[root] = self.numbers.floats(
                1, lambda value: np.ldexp(np.float32(1), -exponent(value)).reshape(1)
            )
        return f"(xp_whole(map[{at}]) * f[{self._inverses[root]}])"

    def _operand(self, number: str, shape: Sequence[int]) -> Callable[[int], str]:
        """How a region's operands are read beside number `number` of a value of a shape."""

        def operand(a: int) -> str:
            aval = self.queries.graph.nodes[a].aval
            if not self.queries.dependent[a]:
                size = math.prod(aval.shape)
                at = self._constant(a)
                if size == 1:
                    return f"f[{at}]"
                table = np.broadcast_to(np.arange(size).reshape(aval.shape), shape)
                return f"f[{at} + {self.index(table.reshape(-1), number)}]"
            if aval.dtype not in ("float32", "bool"):
                raise Refused(f"{aval.dtype} values")
            places = self.maps.places(a).reshape(aval.shape)
            table = np.broadcast_to(places, shape).reshape(-1)
            return self.number(a, self.index(table, number))

        return operand

    def _constant(self, a: int) -> int:
        known = self.__dict__.setdefault("_known", {})
        if a not in known:
            known[a] = self.numbers.floats(self.queries.size(a), lambda value: value(a))
        return int(known[a])

    def _statements(self, nodes: list[int], operand: Callable[[int], str]) -> list[str]:
        for i in nodes:
            if not OPS[self.queries.graph.nodes[i].op].c:
                raise Refused(f"{self.queries.graph.nodes[i].op} has no C++ expression")
        quick = not self.careful
        form = _quick_form if quick else _form
        return statements(self.queries.graph, nodes, operand, form=form)

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
        attrs, lines = dict(n.attrs), []
        whole = np.arange(q.size(i)).reshape(n.aval.shape)
        start, axis, places = 0, attrs.get("axis", 0), self.maps.places(i)
        inside = np.zeros(q.size(i), bool)
        for a in n.args:
            shape = q.graph.nodes[a].aval.shape
            if n.op == "pad":
                cut: list[slice] = []
                for d, (before, _) in zip(shape, attrs["widths"], strict=True):
                    cut.append(slice(before, before + d))
            else:
                cut = [slice(None)] * len(shape)
                cut[axis] = slice(start, start + shape[axis])
                start += shape[axis]
            target = whole[tuple(cut)].reshape(-1)
            inside[target] = True
            own = self.maps.places(a)
            if self.maps.lies(a)[0] == i and np.array_equal(own, places[target]):
                continue
            if not q.dependent[a]:
                raise Refused("joining a constant")
            found = self.number(a, self.index(self.maps.places(a), "n"))
            read = [f"const float v = {found};"]
            lines += self._each(i, read, places=places[target])
        border = np.flatnonzero(~inside)
        if border.size:
            fill = literal(float(attrs["number"]), "float32")
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
        place = _Places(self, step, p)
        return self._carefully(step, p, place) if self.careful else self._quickly(step, p, place)

    def _quickly(self, step: Step, p: Product, place: _Places) -> list[str]:
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

    def _carefully(self, step: Step, p: Product, place: _Places) -> list[str]:
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


class _Places:
    """The places of a product: words that they read, and where results go."""

    def __init__(self, steps: Steps, step: Step, p: Product) -> None:
        self.steps, self.p = steps, p
        self.count = math.prod(d.size for d in p.places)
        read = steps.maps._rows[steps.maps.lies(p.source)[0]] + p.base
        reads, writes, numbers = (np.zeros(1, int) for _ in range(3))
        for d in p.places:
            every = np.arange(d.size)
            reads = (reads[:, None] + d.read * every).reshape(-1)
            writes = (writes[:, None] + d.write * every).reshape(-1)
            numbers = (numbers[:, None] + d.number * every).reshape(-1)
        self._reads = reads
        self.read = f"({steps.index(reads + read, 'q')})"
        self.number = f"({steps.index(numbers, 'q')})"
        homes = steps.maps.places(step.out)
        g, n = (d.write * np.arange(d.size) for d in (p.groups, p.outputs))
        table = homes[(g[:, None, None] + n[:, None]) + writes]
        found = affine(table[:, :, 0])
        if found is None:
            raise Refused("results that lie unevenly")
        base, (self.group, self.output) = found
        places = table[0, 0]
        if (table - table[:, :, :1] != places - base).any():
            raise Refused("results that lie unevenly")
        self.write = f"({steps.index(places, 'q')})"

    def tap(self, k: int) -> int:
        """Words from the first number that is joined to another."""
        return self.p.taps[k][0]

    def together(self, images: int, pitch: int) -> np.ndarray:
        """Words of the eight places that a warp reads at once, for some warps."""
        rows = (pitch * np.arange(images)[:, None] + self._reads).reshape(-1)
        eights = np.resize(rows, max(8, rows.size // 8 * 8)).reshape(-1, 8)
        return eights[:: -(-len(eights) // 32)]

    def where(self) -> list[str]:
        """Which slice and place row p is."""
        return [f"const int s = p / {self.count}, q = p - s * {self.count};"]


class Tail:
    """What follows the sums of a product: scale, bias, elementwise work, joining."""

    def __init__(self, steps: Steps, step: Step, p: Product, factor: str) -> None:
        assert step.product is not None
        self.steps, self.step, self.p, self.factor = steps, step, p, factor
        maps = steps.maps
        self._bias = ""
        bias = maps.bias(step)
        product = step.product
        if bias is not None:
            shape = maps.queries.graph.nodes[bias].aval.shape

            def added(value: Constants) -> np.ndarray:
                return maps.of_outputs(product, np.broadcast_to(value(bias), shape))

            n = p.groups.size * p.outputs.size
            at = steps.numbers.floats(n, added)
            self._bias = f"f[{at} + group * {p.outputs.size} + k]"
        self._rest = maps.rest(step)
        self.joins = p.joins if len(p.taps) > 1 else ""
        self._late = self.joins in ("max", "min") and maps.rises(step)
        """Whether sums are joined as they are."""
        self.tapped = "w" if self._rest and self.joins and not self._late else "v"

    @property
    def result(self) -> str:
        """What is written."""
        return "w" if self._rest and (self._late or not self.joins) else "v"

    def join(self, a: str, b: str) -> str:
        """How two of the numbers that are joined become one."""
        if not self.joins:
            return b
        if self._late and not self.steps.careful and self.steps.scaled:
            return f"f{self.joins}f({a}, {b})"
        return OPS[self.joins].c.format(a, b)

    def _affine(self) -> list[str]:
        if self.factor and self._bias:
            return [f"v = fmaf(v, {self.factor}, {self._bias});"]
        if self.factor:
            return [f"v *= {self.factor};"]
        return [f"v += {self._bias};"] if self._bias else []

    def _region(self, place: _Places) -> list[str]:
        if not self._rest:
            return []
        steps, step, p = self.steps, self.step, self.p
        assert step.region is not None
        assert step.product is not None
        maps = steps.maps
        face = maps.face(step.product)
        bias = maps.queries.bias(face) if maps.bias(step) is not None else None
        own = {face, step.product, *(() if bias is None else (bias[0],))}
        shape = maps.queries.graph.nodes[step.region.out].aval.shape
        number = f"({place.number} + group * {p.groups.number} + k * {p.outputs.number})"
        other = steps._operand(number, shape)
        lines = steps._statements(self._rest, lambda a: "v" if a in own else other(a))
        out = step.region.out
        last = f"t{out}" if out in self._rest else "v"
        return [*lines, f"const float w = {last};"]

    def of_tap(self, place: _Places) -> list[str]:
        """Statements for each of the numbers that are joined."""
        if not self.joins or self._late:
            return []
        return [*self._affine(), *self._region(place)]

    def each_tap(self, m: int, side: int, place: _Places) -> list[str]:
        """The same for all sums of a warp, in ``r``."""
        body = self.of_tap(place)
        if not body:
            return []
        return [
            f"XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int n = 0; n < {side}; ++n)",
            "XP_ALL for (int e = 0; e < 4; ++e) {",
            f"  int k = (chunk * {side} + n) * 8 + 2 * t + (e & 1);",
            f"  k = k < {self.p.outputs.size} ? k : {self.p.outputs.size - 1};",
            "  float v = r[m][n][e];",
            *("  " + b for b in body),
            f"  r[m][n][e] = {self.tapped};",
            "}",
        ]

    def at_last(self, place: _Places) -> list[str]:
        """Statements for the joined number."""
        if self.joins and not self._late:
            return []
        return [*self._affine(), *self._region(place)]
