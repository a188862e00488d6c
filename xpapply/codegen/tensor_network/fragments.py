"""Values of one tile of slices in registers, and the text that works on them.

Values live in registers, either

spread
    over the lanes as tensor cores hold them (see `ptx`), or
whole
    in all four lanes of a slice, for values of few numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.ops import OPS
from ...ir.rewrite import Region
from ..cxx import literal, statements
from ..graph_queries import GraphQueries
from .packing import Floats, Slots
from .target import Refused
from .text import Text

MOST_TILES = 16
"""Tiles of 8 features that a spread value may have whole in registers; wider ones pass by."""
_WHOLE_INPUT = 4
"""An input of so few numbers is multiplied by plain multiply-adds: no rounding, no tiles."""


@dataclass(frozen=True)
class Value:
    """A value of the graph: the name of its array, and its layout.

    `slots` is None for whole values, which have `size` numbers. They may be dealt:
    then lane t has every fourth of a group's slices, and no lane has the same.
    """

    name: str
    size: int
    slots: Slots | None
    window: int = 0
    """tiles that are there at a time, if not all"""
    dealt: bool = False

    @property
    def tiles(self) -> int:
        """Tiles of a spread value."""
        assert self.slots is not None
        return self.window or len(self.slots) // 8


class Fragments:
    """The values of the graph, and the text that makes them.

    The methods write all but products: the input, elementwise regions, reductions and
    layouts. `m` is how many tiles a group takes at once; of a wide value `window` tiles are
    worked on.
    """

    def __init__(self, queries: GraphQueries, m: int) -> None:
        self.queries, self.m = queries, m
        self.text, self.floats = Text(), Floats()
        self.values: dict[int, Value] = {}
        self.window = 0

    # --- constants --------------------------------------------------------------------

    def number(self, i: int, like: Value) -> str:
        """An element of a constant beside an element of a value."""
        size = self.queries.size(i)
        if size == 1:
            return f"f[{self.floats.constant(i, 1, None)}]"
        if size != like.size:
            raise Refused(f"a constant of {size} numbers beside a value of {like.size}")
        at = self.floats.constant(i, like.size, like.slots)
        return f"f[{at} + k]" if like.slots is None else f"f[{at} + {self.place}]"

    @property
    def place(self) -> str:
        """The feature of element (j, e) of a spread value."""
        return f"8 * (j{' + first' if self.window else ''}) + 2 * t + (e & 1)"

    def declare(self, i: int, size: int, slots: Slots | None, *, dealt: bool = False) -> Value:
        v = Value(f"v{i}", size, slots, self.window if slots is not None else 0, dealt)
        self.values[i] = v
        if dealt:
            self.text.emit(f"float {v.name}[{self.m // 2}][{size}];")
        elif slots is None:
            self.text.emit(f"float {v.name}[{self.m}][{size}][2];")
        else:
            most = 2 * MOST_TILES if self.queries.graph.nodes[i].op == "input" else MOST_TILES
            if v.tiles > most:
                raise Refused(f"a value of {size} numbers does not fit in registers")
            self.text.emit(f"float {v.name}[{self.m}][{v.tiles}][4];")
        return v

    def each(self, v: Value, body: Sequence[str]) -> None:
        """A loop over all numbers of a value: indices q and k, m with k and h, or m, j and e."""
        loops = [("m", self.m)]
        if v.dealt:
            loops = [("q", self.m // 2), ("k", v.size)]
        elif v.slots is None:
            loops += [("k", v.size), ("h", 2)]
        else:
            loops += [("j", v.tiles), ("e", 4)]
        self.text.emit(*(f"XP_ALL for (int {k} = 0; {k} < {n}; ++{k}) {{" for k, n in loops))
        self.text.emit(*("  " + b for b in body), "}" * len(loops))

    @staticmethod
    def element(v: Value, like: Value) -> str:
        k = "0" if v.size == 1 else "k"
        if v.dealt:
            return f"{v.name}[q][{k}]"
        if v.slots is None:
            return f"{v.name}[m][{k}][{'h' if like.slots is None else '(e >> 1)'}]"
        return f"{v.name}[m][j][e]"

    # --- values -----------------------------------------------------------------------

    def input(self, i: int, slots: Slots) -> None:
        """The input, from what was read into `ahead`; its features in these places."""
        n = self.queries.size(i)
        whole = n <= _WHOLE_INPUT
        v = self.declare(i, n, None if whole else slots)
        element = "ahead[m][k][h]" if whole else "ahead[m][j][e]"
        self.each(v, [f"{self.element(v, v)} = (float){element};"])

    def region(self, region: Region) -> None:
        graph = self.queries.graph
        nodes = list(region.nodes)
        alias: dict[int, int] = {}  # a sum with a bias -> the product, which has it already
        for a in region.inputs:
            bias = self.queries.bias(a) if self.queries.affine(a) else None
            if bias is not None and bias[0] in nodes:
                nodes.remove(bias[0])
                alias[bias[0]] = a
        operands = [a for a in region.inputs if self.queries.dependent[a]]
        shape = graph.nodes[region.out].aval.shape
        size = math.prod(shape)
        full = [self.values[a] for a in operands if self.values[a].size == size]
        if not full:
            raise Refused("a value spread out from one number")
        like = full[0]
        for v in full:
            if v.slots != like.slots:
                raise Refused("operands that are laid out differently")
        for a in operands:
            v = self.values[a]
            if v.size not in (1, size) or (v.size < size and v.slots is not None):
                raise Refused(f"{v.size} numbers beside {size}")
        if not nodes:
            self.values[region.out] = self.values[alias[region.out]]
            return
        # tanh of whole tiles is faster; it may come first in a region only. Its error is small
        # beside the largest of a slice, which is enough where products add them up.
        head = nodes[0]
        summed = [graph.nodes[u].op == "einsum" for u in self.queries.uses.get(head, [])]
        if like.slots is not None and graph.nodes[head].op == "tanh" and summed and all(summed):
            source = graph.nodes[head].args[0]
            source = alias.get(source, source)
            users = [u for u in self.queries.uses[graph.nodes[head].args[0]] if u != head]
            if self.queries.affine(source) and not users and source in self.values:
                v = self.values[source]
                self.text.emit(
                    f"XP_ALL for (int m = 0; m < {self.m}; ++m) xp_tanh<{v.tiles}>({v.name}[m]);"
                )
                nodes.remove(head)
                alias[head] = source
                if not nodes:
                    self.values[region.out] = v
                    return

        def operand(a: int) -> str:
            a = alias.get(a, a)
            v = self.values.get(a) if self.queries.dependent[a] else None
            if v is not None:
                return self.element(v, like)
            return self.number(a, like)

        out = self.declare(region.out, size, like.slots, dealt=like.dealt)
        body = statements(graph, nodes, operand, form=lambda row: row.tensor_c or row.c)
        result = f"t{region.out}" if region.out in nodes else operand(region.out)
        self.each(out, [*body, f"{self.element(out, out)} = {result};"])
        if not all(OPS[graph.nodes[i].op].keeps_finite for i in nodes):
            self.mask(out, "0")

    def mask(self, v: Value, number: str, emit: Callable[..., None] | None = None) -> None:
        """Places without a feature get a number that does no harm."""
        emit = emit or self.text.emit
        if v.slots is None or -1 not in v.slots:
            return
        if v.window:
            emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j)",
                "  XP_ALL for (int e = 0; e < 4; ++e)",
                f"    if ({self.place} >= {v.size}) {v.name}[0][j][e] = {number};",
            )
            return
        for j in range(v.tiles):
            places = v.slots[8 * j : 8 * j + 8]
            if -1 not in places:
                continue
            bits = sum(1 << c for c, k in enumerate(places) if k < 0)
            emit(
                f"XP_ALL for (int m = 0; m < {self.m}; ++m)",
                "  XP_ALL for (int e = 0; e < 4; ++e)",
                f"    if ({bits} >> (2 * t + (e & 1)) & 1) {v.name}[m][{j}][e] = {number};",
            )

    # --- reductions and layouts -------------------------------------------------------

    def reduce(self, i: int) -> None:
        node = self.queries.graph.nodes[i]
        x = self.values[node.args[0]]
        if self.queries.size(i) != 1:
            raise Refused(f"{node.op} along one of several axes")
        step, neutral = OPS[node.op].c, OPS[node.op].identity
        v = self.declare(i, 1, None)
        if x.slots is None:
            first, count, element = f"{x.name}[m][0][h]", x.size, f"{x.name}[m][c][h]"
            self.each(
                v,
                [
                    f"float s = {first};",
                    f"XP_ALL for (int c = 1; c < {count}; ++c) {{",
                    f"  const float o = {element}; s = {step.format('s', 'o')};",
                    "}",
                    f"{v.name}[m][0][h] = s;",
                ],
            )
            return
        assert neutral is not None
        self.mask(x, literal(neutral, "float32"))
        self.each(
            v,
            [
                f"float s = {x.name}[m][0][2 * h], o;",
                f"XP_ALL for (int c = 1; c < {2 * x.tiles}; ++c) {{",
                f"  o = {x.name}[m][c / 2][2 * h + c % 2]; s = {step.format('s', 'o')};",
                "}",
                f"o = __shfl_xor_sync(XP_WARP, s, 1); s = {step.format('s', 'o')};",
                f"o = __shfl_xor_sync(XP_WARP, s, 2); s = {step.format('s', 'o')};",
                f"{v.name}[m][0][h] = s;",
            ],
        )
        self.mask(x, "0")

    def _keeps_order(self, i: int) -> bool:
        """Whether a layout op keeps all numbers in C order."""
        n = self.queries.graph.nodes[i]
        if n.op == "permute_dims":  # only axes of length 1 may move
            shape = self.queries.graph.nodes[n.args[0]].aval.shape
            moved = [a for a in n.attr("axes") if shape[a] != 1]
            return moved == sorted(moved)
        same = self.queries.size(i) == self.queries.size(n.args[0])
        return n.op == "reshape" or (n.op == "broadcast_to" and same)

    def layout(self, i: int) -> None:
        n = self.queries.graph.nodes[i]
        if self._keeps_order(i):
            self.values[i] = self.values[n.args[0]]
            return
        if n.op == "concat" and len(n.aval.shape) == 1:
            parts = [self.values[a] for a in n.args if a in self.values]
            slots: list[int] = []
            start = 0
            if len(parts) < len(n.args):
                raise Refused("joining a constant")
            for p in parts:
                if p.slots is None:
                    raise Refused("joining a value of few numbers")
                slots += [k + start if k >= 0 else -1 for k in p.slots]
                start += p.size
            v = self.declare(i, start, tuple(slots))
            at = 0
            for p in parts:
                self.text.emit(
                    f"XP_ALL for (int m = 0; m < {self.m}; ++m)",
                    f"XP_ALL for (int j = 0; j < {p.tiles}; ++j)",
                    "XP_ALL for (int e = 0; e < 4; ++e)",
                    f"  {v.name}[m][{at} + j][e] = {p.name}[m][j][e];",
                )
                at += p.tiles
            return
        raise Refused(f"{n.op} of a value in registers")
