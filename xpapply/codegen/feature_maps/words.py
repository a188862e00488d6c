"""The text that reads, computes and writes numbers of maps in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...ir.ops import OPS, Op
from ..cxx import statements
from ..geometry import strided
from ..tensor_network.packing import Constants
from ..tensor_network.target import Refused
from .maps import Maps
from .plan import Plan
from .ranges import largest_exponent, typical
from .weights import Numbers, Section, input_exponent

_SHORT = 1024
"""Places of which there is a table: to read it takes less than to compute them."""


def _form(row: Op) -> str:
    return row.c


def _quick_form(row: Op) -> str:
    return "xp_tanh_of({0})" if row.name == "tanh" else row.tensor_c or row.c


def loop(head: str) -> list[str]:
    """The head of a loop over numbers, which is not unrolled: that only took longer to compile."""
    return ["#pragma unroll 1", head]


def computed(base: int, loops: list[tuple[int, int]], name: str, ctype: str = "") -> str:
    """The number of a table as an expression, of what `strided` says of it; of a C++ type."""
    terms, below = [str(base)], 1
    for k in reversed(range(len(loops))):
        size, step = loops[k]
        part = name if below == 1 else f"{name} / {below}"
        if k:
            part = f"({part}) % {size}"
        if step:
            terms.append(f"{ctype}({part}) * {step}")
        below *= size
    return " + ".join(terms)


class Words:
    """Writes how numbers of maps are read, computed and written.

    Parameters
    ----------
    maps : Maps
        The network.
    precision : str
        As `xpapply.options` says.
    plan : Plan
        Slices in shared memory, and warps that work on them.
    registers : int
        Registers that a thread has for sums.
    """

    def __init__(self, maps: Maps, precision: str, plan: Plan, registers: int = 48) -> None:
        self.maps, self.queries = maps, maps.queries
        self.precision, self.plan, self.registers = precision, plan, registers
        self.images, self.warps = plan.images, plan.warps
        self.pitch = maps.words + (maps.words % 2 == 0)
        self._short = _SHORT if plan.tables else 0
        self.scaled = precision != "medium"
        self.numbers, self.weights, self.plain = Numbers(), Section(), Section()
        self.careful = False
        self.quick_weights = "weights_at"
        self.products = [s.product for s in maps.steps if s.product is not None]
        self.scratch = 0
        """Bytes for sums of parts of the terms."""
        self.watched: list[tuple[int, int]] = []
        """The maps whose slices must have a number that is not small, or parts of such a map."""
        self._scales: dict[int, int] = {}
        self._inverses: dict[int, int] = {}
        for s in maps.steps:
            root = maps.lies(s.out)[0]
            if self.scaled and maps.readers(s.out) and root not in self._scales:
                self._scales[root] = self.numbers.floats(1, self._scale(root), power=1)
                self.watched.append((root, 0))

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

    def scale_of(self, i: int) -> Callable[[Constants], np.ndarray]:
        """The scale of a map for products, as a function of constants."""
        return self._scale(self.maps.lies(i)[0])

    def scale(self, i: int) -> str:
        """The expression of a map's scale for products."""
        root = self.maps.lies(i)[0]
        return f"f[{self._scales[root]}]" if root in self._scales else "1"

    def watch(self, value: Constants) -> np.ndarray:
        """Maps in which small numbers must be watched: no bias hides their rounding."""
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
        """The number of a table as an expression: read, where it would be long to compute."""
        found = strided(table)
        if found is None or len(found[1]) > (1 if table.size <= self._short else 6):
            return self.numbers.looked_up(table, name)
        return computed(*found, name)

    def divided(self, whole: str, by: int, most: int, names: tuple[str, str]) -> str:
        """A statement that names the quotient and the rest of a number below `most`."""
        quotient, rest = names
        found = f"(int)((u32){whole} / {by})"
        if by & (by - 1) and by * most < 1 << 32:  # exact: the error of the factor is below `by`
            found = f"(int)__umulhi({whole}, {-(-(1 << 32) // by)}u)"
        return f"const int {quotient} = {found}, {rest} = {whole} - {quotient} * {by};"

    def begin(self, i: int) -> list[str]:
        """Statements before those that write numbers of a value."""
        if self.careful or self.scale(i) == "1":
            return []
        return [f"const float scale = {self.scale(i)};"]

    def put(self, i: int, at: str, number: str, times: bool = False) -> list[str]:
        """Statements that write a number of value `i` at a word of ``map``, of slice ``s``.

        The largest number goes to ``top``, which `look` looks at. With `times` it is multiplied by
        the map's `scale` already.
        """
        if self.careful:
            return [f"map[{at}] = __float_as_uint({number});"]
        root = self.maps.lies(i)[0]
        by = "" if times or self.scale(i) == "1" else " * scale"
        u = f"const float u = {number}{by};"
        top = ["top = xp_most(top, u);"] if self._seen(i) is not None else []
        if root in self.maps.pairs:
            return [
                "{",
                u,
                *(top or ["odd = fmaf(u, 0, odd);"]),
                f"unsigned short* const half = (unsigned short*)(map + {at});",
                f"half[0] = half[{1 - 2 * self.maps.pairs[root]}] = xp_half_of(u);",
                "}",
            ]
        if self.maps.split(i) and self.scaled:
            return ["{", u, *top, f"map[{at}] = xp_halves(u);", "}"]
        if not self.scaled and self.maps.readers(i):
            # a NaN that a maximum swallows, an infinity that meets the zeros beside weights
            u = f"const float u = {number};"
            return ["{", u, "odd = fmaf(u, 0, odd);", f"map[{at}] = __float_as_uint(u);", "}"]
        lines = [f"map[{at}] = __float_as_uint({number});"]
        return ["{", u, *top, *lines, "}"] if top else lines

    def _seen(self, i: int, part: int = 0) -> int | None:
        """The index of the watched map of a value, in the fast path."""
        root = self.maps.lies(i)[0]
        if self.careful or root not in self._scales:
            return None
        if (root, part) not in self.watched:
            self.watched.append((root, part))
        return self.watched.index((root, part))

    def look(self, i: int, always: bool = False, part: int = 0) -> tuple[list[str], list[str]]:
        """Statements before and after those that write numbers of slice ``s``, to watch them.

        Of a map with several parts each is looked at by itself.
        """
        slot = self._seen(i, part)
        if slot is None:
            return [], []
        at = f"xp_large + {slot * self.images} + s, xp_small + {slot * self.images} + s"
        behind = [f"{'' if always else 'if (watching) '}xp_look({at}, top);"]
        if self.maps.split(i):
            behind.append("if (!(top <= 65504)) odd = __int_as_float(0x7fc00000);")
        if i == self.maps.graph.entry:
            behind.append("if (!(top < __int_as_float(0x7f800000))) seen |= XP_NEVER;")
        return ["float top = 0;"], behind

    def number(self, i: int, at: str) -> str:
        """The number at a word of ``map``, which is one of value `i`."""
        if self.careful or not (self.scaled and self.maps.split(i)):
            return f"__uint_as_float(map[{at}])"
        root = self.maps.lies(i)[0]
        if root not in self._inverses:
            exponent = self._exponent(root)

            def inverse(value: Constants) -> np.ndarray:
                return np.ldexp(np.float32(1), -exponent(value)).reshape(1)

            self._inverses[root] = self.numbers.floats(1, inverse, power=-1)
        return f"(xp_whole(map[{at}]) * f[{self._inverses[root]}])"

    def behind(self, i: int, number: str) -> list[str]:
        """Statements for what is computed of a joined number before it is written."""
        if i not in self.maps.behind:
            return []
        _, region = self.maps.behind[i]
        return self._statements(list(region.nodes), lambda _: number)

    def _operand(self, number: str, shape: Sequence[int]) -> Callable[[int], str]:
        """The reader of a region's operands at number `number` of a shape."""

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
