"""The text around a product's sums: the places that it has sums of, and what follows them."""

from __future__ import annotations

import math

import numpy as np

from ...ir.ops import OPS
from ..geometry import Product, affine
from ..schedule import Step
from ..tensor_network.packing import Constants
from ..tensor_network.target import Refused
from .weights import Made
from .words import Words

_TAPS = 4
"""Joined sums of split numbers whose text is repeated at most: to read more takes too many
registers."""


class Places:
    """The places of a product: words that they read, and where results go."""

    def __init__(self, steps: Words, step: Step, p: Product) -> None:
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
        """The expression of a number at the place ``q``; also of `write` and `number`."""
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
        """Declare slice and place of row p."""
        rows = self.steps.images * self.count
        return [self.steps.divided("p", self.count, rows, ("s", "q"))]


class Tail:
    """The tail of a product: scale, bias, elementwise work, joining reduction."""

    def __init__(self, steps: Words, step: Step, p: Product, factor: Made | None = None) -> None:
        assert step.product is not None
        self.steps, self.step, self.p = steps, step, p
        maps = steps.maps
        self._rest = maps.rest(step)
        self.times = factor is not None and self._scales()
        """Whether factor and bias include the result's scale for later products."""
        by = steps.scale_of(step.out) if self.times else lambda _: np.ones(1, np.float32)
        self._factor = ""
        if factor is not None:
            # sums have the scale of maps: the factor takes it off, unless results have it too
            power = 0 if self.times or not steps.scaled else -1
            self._factor = self._of_outputs(lambda value: factor(value) * by(value), power)
        self._bias = ""
        self._kept: list[str] = []
        bias = maps.bias(step)
        product = step.product
        if bias is not None:
            shape = maps.queries.graph.nodes[bias].aval.shape

            def added(value: Constants) -> np.ndarray:
                return maps.of_outputs(product, np.broadcast_to(value(bias), shape))

            power = 1 if self.times else 0
            self._bias = self._of_outputs(lambda value: added(value) * by(value), power)
        self.joins = p.joins if len(p.taps) > 1 else ""
        self._late = self.joins in ("max", "min") and maps.rises(step)
        """Whether sums are joined before the tail."""
        self.tapped = "w" if self._rest and self.joins and not self._late else "v"

    def _of_outputs(self, make: Made, power: int = 0) -> str:
        """The number that belongs to output ``k``, as an expression."""
        n = self.p.outputs.size
        at = self.steps.numbers.floats(self.p.groups.size * n, make, power)
        return f"f[{at} + group * {n} + k]"

    def _scales(self) -> bool:
        """Whether scaling sums and bias by a power of two scales the result."""
        maps, step = self.steps.maps, self.step
        if not self.steps.scaled or not maps.split(step.out):
            return False
        nodes, every = self._rest, maps.graph.nodes
        outside = {a for i in nodes for a in every[i].args} - {*nodes, *self._own()}
        if any(every[a].op != "scalar" for a in outside):
            return False
        _, region = maps.behind.get(step.out, (0, None))
        behind = () if region is None else region.nodes
        return maps.queries.homogeneous([*nodes, *behind])

    def _own(self) -> set[int]:
        """The nodes whose numbers are the sums, with their bias or without."""
        maps, product = self.steps.maps, self.step.product
        assert product is not None
        face = maps.face(product)
        bias = maps.queries.bias(face) if maps.bias(self.step) is not None else None
        return {face, product, *(() if bias is None else (bias[0],))}

    @property
    def long(self) -> bool:
        """Whether the text for joined sums is too long to be repeated for each."""
        if len(self.p.taps) > _TAPS and self.steps.precision == "highest":
            return True
        return bool(self.joins) and not self._late and not self.steps.maps.short(self._rest)

    @property
    def result(self) -> str:
        """The name of the value that is written."""
        behind = self.step.out in self.steps.maps.behind
        return f"t{self.step.out}" if behind else self._joined

    @property
    def _joined(self) -> str:
        return "w" if self._rest and (self._late or not self.joins) else "v"

    def join(self, a: str, b: str) -> str:
        """Join two numbers."""
        if not self.joins:
            return b
        if self._late and not self.steps.careful and self.steps.scaled:
            return f"f{self.joins}f({a}, {b})"
        return OPS[self.joins].c.format(a, b)

    def constants(self) -> list[str]:
        """Statements that read what belongs to output ``k``."""
        kept = {name: f"{name}s[n][c]" for name in self._kept}
        both = {"factor": self._factor, "bias": self._bias}
        return [
            f"const float {name} = {kept.get(name, read)};" for name, read in both.items() if read
        ]

    def keep(self, side: int) -> list[str]:
        """Statements that read it for all outputs of a warp, before what it does."""
        both = {"factor": self._factor, "bias": self._bias}
        self._kept = [name for name, read in both.items() if read]
        lines = [f"float {name}s[{side}][2];" for name in self._kept]
        return [
            *lines,
            f"XP_ALL for (int n = 0; n < {side}; ++n) XP_ALL for (int c = 0; c < 2; ++c) {{",
            f"  const int group = 0, k = min(8 * n + 2 * t + c, {self.p.outputs.size - 1});",
            *(f"  {name}s[n][c] = {both[name]};" for name in self._kept),
            "}",
        ]

    def _affine(self) -> list[str]:
        if self._factor and self._bias:
            return ["v = fmaf(v, factor, bias);"]
        if self._factor:
            return ["v *= factor;"]
        return ["v += bias;"] if self._bias else []

    def _region(self, place: Places) -> list[str]:
        if not self._rest:
            return []
        steps, step, p = self.steps, self.step, self.p
        assert step.region is not None
        maps, own = steps.maps, self._own()
        shape = maps.queries.graph.nodes[step.region.out].aval.shape
        number = f"({place.number} + group * {p.groups.number} + k * {p.outputs.number})"
        other = steps._operand(number, shape)
        lines = steps._statements(self._rest, lambda a: "v" if a in own else other(a))
        out = step.region.out
        last = f"t{out}" if out in self._rest else "v"
        return [*lines, f"const float w = {last};"]

    def of_tap(self, place: Places) -> list[str]:
        """Statements for each of the numbers that are joined."""
        if not self.joins or self._late:
            return []
        return [*self._affine(), *self._region(place)]

    def each_tap(self, m: int, side: int, place: Places) -> list[str]:
        """Statements for all sums of a warp, in ``r``."""
        body = self.of_tap(place)
        if not body:
            return []
        return [
            f"XP_ALL for (int n = 0; n < {side}; ++n) XP_ALL for (int c = 0; c < 2; ++c) {{",
            f"  int k = (chunk * {side} + n) * 8 + 2 * t + c;",
            f"  k = k < {self.p.outputs.size} ? k : {self.p.outputs.size - 1};",
            *("  " + b for b in self.constants()),
            f"  XP_ALL for (int m = 0; m < {m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{",
            "    float v = r[m][n][2 * h + c];",
            *("    " + b for b in body),
            f"    r[m][n][2 * h + c] = {self.tapped};",
            "  }",
            "}",
        ]

    def at_last(self, place: Places) -> list[str]:
        """Statements for the joined number."""
        lines = []
        if not self.joins or self._late:
            lines = [*self._affine(), *self._region(place)]
        return lines + self.steps.behind(self.step.out, self._joined)
