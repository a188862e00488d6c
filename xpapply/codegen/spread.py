"""Values of one tile of slices in registers, and the text that works on them.

Values live in registers, either

spread
    over the lanes as tensor cores hold them (see `cores`), or
whole
    in all four lanes of a slice, for values of few numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import Region
from .cxx import TYPES, literal, statements
from .factors import Constants, Packing, Piece, Slots, laid_out
from .kernels import Access
from .layers import Layers

MOST_TILES = 16
"""Tiles of 8 features that a spread value may have whole in registers; wider ones pass by."""
_WHOLE_INPUT = 4
"""An input of so few numbers is multiplied by plain multiply-adds: no rounding, no tiles."""

CARE, TRUST = "/* care */ ", "/* trust */ "
"""How lines start that only one of the two loops has."""


class Refused(Exception):
    """The graph has something that this kernel has no form for."""


@dataclass(frozen=True)
class Target:
    """What the kernel is written for.

    Attributes
    ----------
    core : str
        "wgmma" (sm_90a) or "mma" (sm_80 and later).
    precision : str
        "highest", "high" or "medium", as `xpapply.options` says.
    shared : int
        Bytes of shared memory that a block may have.
    """

    core: str
    precision: str
    shared: int = 227 << 10

    @property
    def warps(self) -> int:
        """Warps that take a tile together."""
        return 4 if self.core == "wgmma" else 1


@dataclass(frozen=True)
class Value:
    """Where a value of the graph is: the name of its array, and how it is laid out.

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


class Values(Layers):
    """The text of a network so far, and where each value of its graph is.

    Holds the graph and what is known about it, the lines that were written, and the
    constants that they read. The methods write all but products: the input, elementwise
    regions, reductions and layouts.
    """

    def __init__(
        self,
        graph: Graph,
        access: Access,
        target: Target,
        *,
        natural: bool = False,
        streams: bool = False,
        result: str = "",
    ) -> None:
        super().__init__(graph)
        self.result = result or graph.result.dtype  # what results are rounded to
        self.access, self.target, self.natural = access, target, natural
        self.values: dict[int, Value] = {}
        self.packing = Packing(target.core, target.precision)
        self.ready: set[int] = set()  # products whose left factor is there already
        self.pieces: list[tuple[int, Piece]] = []  # floats, by number
        self.floats = 0
        self.factors = 0  # bytes of factors, which lie behind the floats
        self.factor_pieces: list[tuple[int, Piece]] = []
        self.window = 0  # tiles of a wide value that are worked on
        self.spill = 0  # bytes per thread for left factors that registers do not hold
        self.stage = 0  # bytes of the largest chunk of weights
        self.stored = False  # results were stored where they were computed
        self.wide: dict[int, bool] = {}  # wide products: whether their chunks come twice with care
        self.passed: set[int] = set()  # regions that wide products took along
        self.streams = streams
        self.known: dict[tuple[int, Slots | None], int] = {}
        self.instructions: set[int] = set()  # tiles of wgmma
        self.lines: list[str] = []
        self.take: list[str] = []  # the part of them that empties `ahead`
        self.m = 1

    # --- shape ------------------------------------------------------------------------

    def _check(self) -> None:
        graph = self.graph
        if not self.dependent[graph.out]:
            raise Refused("the result does not depend on the slice")
        if not any(self._affine(i) for i in range(len(graph.nodes))):
            raise Refused("no product with a matrix of weights")
        for i, n in enumerate(graph.nodes):
            if n.aval.dtype not in TYPES and (n.op != "input" or n.aval.dtype != "bfloat16"):
                raise Refused(f"dtype {n.aval.dtype} has no C++ type")
            kind = OPS[n.op].kind
            if not self.dependent[i]:
                if kind is not Kind.LEAF and n.op != "reshape":
                    raise Refused(f"{n.op} of constants")
                if kind is not Kind.LEAF or n.op == "scalar":
                    continue
                if n.aval.dtype != "float32":
                    raise Refused(f"{n.aval.dtype} constants")
                continue
            inner = n.op != "input" and i != graph.out
            if inner and n.aval.dtype not in ("float32", "bool"):
                raise Refused(f"{n.aval.dtype} values")
            if kind is Kind.ELEMENTWISE and not OPS[n.op].c:
                raise Refused(f"{n.op} has no C++ expression")
        if graph.result.dtype not in ("float32", "float16"):
            raise Refused(f"{graph.result.dtype} results")

    def _input_slots(self) -> Slots:
        n = self._size(self.graph.entry)
        if not self._quads():
            return self._natural(n)
        # one load of four numbers: lane t has features 4 t ... 4 t + 3 of 16
        return tuple(
            16 * (j // 2) + 4 * t + 2 * (j % 2) + c
            for j in range(n // 8)
            for t in range(4)
            for c in range(2)
        )

    def _quads(self) -> bool:
        entry = self.graph.input
        narrow = entry.itemsize <= 4  # four of them in 16 bytes
        return self.access.vector and narrow and entry.shape[0] % 16 == 0 and not self.natural

    # --- constants --------------------------------------------------------------------

    def _floats(self, n: int, piece: Piece) -> int:
        self.floats = -(-self.floats // 4) * 4
        at = self.floats
        self.pieces.append((at, piece))
        self.floats += n
        return at

    def _constant(self, i: int, slots: Slots | None) -> int:
        """Where a constant lies, laid out like a value."""
        if self._size(i) == 1:
            slots = None
        key = (i, slots)
        if key not in self.known:
            size = self._size(i) if slots is None else len(slots)

            def piece(value: Constants) -> np.ndarray:
                flat = value(i).reshape(-1).astype(np.float32)
                return flat if slots is None else laid_out(flat, slots)

            self.known[key] = self._floats(size, piece)
        return self.known[key]

    def _number(self, i: int, like: Value) -> str:
        """An element of a constant beside an element of a value."""
        if self._size(i) == 1:
            return f"f[{self._constant(i, None)}]"
        if self._size(i) != like.size:
            raise Refused(f"a constant of {self._size(i)} numbers beside a value of {like.size}")
        at = self._constant(i, like.slots)
        return f"f[{at} + k]" if like.slots is None else f"f[{at} + {self._place}]"

    @property
    def _place(self) -> str:
        """Where element (j, e) of a spread value lies."""
        return f"8 * (j{' + first' if self.window else ''}) + 2 * t + (e & 1)"

    # --- text -------------------------------------------------------------------------

    def _emit(self, *lines: str) -> None:
        self.lines += lines

    def _care(self, *lines: str) -> None:
        """Lines for tiles whose range is looked at."""
        self.lines += [CARE + line for line in lines]

    def _trusting(self, *lines: str) -> None:
        """Lines for tiles whose range is not looked at."""
        self.lines += [TRUST + line for line in lines]

    def _declare(self, i: int, size: int, slots: Slots | None, *, dealt: bool = False) -> Value:
        v = Value(f"v{i}", size, slots, self.window if slots is not None else 0, dealt)
        self.values[i] = v
        if dealt:
            self._emit(f"float {v.name}[{self.m // 2}][{size}];")
        elif slots is None:
            self._emit(f"float {v.name}[{self.m}][{size}][2];")
        else:
            most = 2 * MOST_TILES if self.graph.nodes[i].op == "input" else MOST_TILES
            if v.tiles > most:
                raise Refused(f"a value of {size} numbers does not fit in registers")
            self._emit(f"float {v.name}[{self.m}][{v.tiles}][4];")
        return v

    def _each(self, v: Value, body: Sequence[str]) -> None:
        """A loop over all numbers of a value: indices q and k, m with k and h, or m, j and e."""
        loops = [("m", self.m)]
        if v.dealt:
            loops = [("q", self.m // 2), ("k", v.size)]
        elif v.slots is None:
            loops += [("k", v.size), ("h", 2)]
        else:
            loops += [("j", v.tiles), ("e", 4)]
        self._emit(*(f"XP_ALL for (int {k} = 0; {k} < {n}; ++{k}) {{" for k, n in loops))
        self._emit(*("  " + b for b in body), "}" * len(loops))

    @staticmethod
    def _element(v: Value, like: Value) -> str:
        k = "0" if v.size == 1 else "k"
        if v.dealt:
            return f"{v.name}[q][{k}]"
        if v.slots is None:
            return f"{v.name}[m][{k}][{'h' if like.slots is None else '(e >> 1)'}]"
        return f"{v.name}[m][j][e]"

    # --- values -----------------------------------------------------------------------

    def _input(self, i: int) -> None:
        n = self._size(i)
        whole = n <= _WHOLE_INPUT
        v = self._declare(i, n, None if whole else self._input_slots())
        element = "ahead[m][k][h]" if whole else "ahead[m][j][e]"
        self._each(v, [f"{self._element(v, v)} = (float){element};"])
        self.take, self.lines = self.lines, []

    @property
    def _shows_nan(self) -> bool:
        """Whether a NaN inside is a NaN in some result: no comparison loses it."""
        nodes = self.graph.nodes

        def false_of_nan(op: str) -> bool:
            return OPS[op].compares and op != "not_equal"

        for i, n in enumerate(nodes):
            if not self.dependent[i] or (n.aval.dtype != "bool" and n.op != "where"):
                continue
            if n.op == "where":
                if not false_of_nan(nodes[n.args[0]].op) or not self.dependent[n.args[2]]:
                    return False
            elif not false_of_nan(n.op):
                return False
        return True

    def _region(self, region: Region) -> None:
        graph = self.graph
        nodes = list(region.nodes)
        alias: dict[int, int] = {}  # a sum with a bias -> the product, which has it already
        for a in region.inputs:
            bias = self._bias(a) if self._affine(a) else None
            if bias is not None and bias[0] in nodes:
                nodes.remove(bias[0])
                alias[bias[0]] = a
        operands = [a for a in region.inputs if self.dependent[a]]
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
        # tanh of whole tiles is faster; it may come first in a region only
        head = nodes[0]
        if like.slots is not None and graph.nodes[head].op == "tanh":
            source = graph.nodes[head].args[0]
            source = alias.get(source, source)
            users = [u for u in self.uses[graph.nodes[head].args[0]] if u != head]
            if self._affine(source) and not users and source in self.values:
                v = self.values[source]
                self._emit(
                    f"XP_ALL for (int m = 0; m < {self.m}; ++m) xp_tanh<{v.tiles}>({v.name}[m]);"
                )
                nodes.remove(head)
                alias[head] = source
                if not nodes:
                    self.values[region.out] = v
                    return

        def operand(a: int) -> str:
            a = alias.get(a, a)
            v = self.values.get(a) if self.dependent[a] else None
            if v is not None:
                return self._element(v, like)
            return self._number(a, like)

        out = self._declare(region.out, size, like.slots, dealt=like.dealt)
        body = statements(graph, nodes, operand, form=lambda row: row.tensor_c or row.c)
        result = f"t{region.out}" if region.out in nodes else operand(region.out)
        self._each(out, [*body, f"{self._element(out, out)} = {result};"])
        if not all(OPS[graph.nodes[i].op].keeps_finite for i in nodes):
            self._mask(out, "0")

    def _mask(self, v: Value, number: str, emit: Callable[..., None] | None = None) -> None:
        """Places without a feature get a number that does no harm."""
        emit = emit or self._emit
        if v.slots is None or -1 not in v.slots:
            return
        if v.window:
            emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j)",
                "  XP_ALL for (int e = 0; e < 4; ++e)",
                f"    if ({self._place} >= {v.size}) {v.name}[0][j][e] = {number};",
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

    def _natural(self, n: int, tiles: int = 0) -> Slots:
        """Features in their order, in as many tiles as they need or as are asked for."""
        return tuple(k if k < n else -1 for k in range(8 * (tiles or -(-n // 8))))

    # --- reductions and layouts -------------------------------------------------------

    def _reduce(self, i: int) -> None:
        node = self.graph.nodes[i]
        x = self.values[node.args[0]]
        if self._size(i) != 1:
            raise Refused(f"{node.op} along one of several axes")
        step, neutral = OPS[node.op].c, OPS[node.op].identity
        v = self._declare(i, 1, None)
        if x.slots is None:
            first, count, element = f"{x.name}[m][0][h]", x.size, f"{x.name}[m][c][h]"
            self._each(
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
        self._mask(x, literal(neutral, "float32"))
        self._each(
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
        self._mask(x, "0")

    def _keeps_order(self, i: int) -> bool:
        """Whether a layout op leaves all numbers where they are, in C order."""
        n = self.graph.nodes[i]
        if n.op == "permute_dims":  # only axes of length 1 may move
            shape = self.graph.nodes[n.args[0]].aval.shape
            moved = [a for a in n.attr("axes") if shape[a] != 1]
            return moved == sorted(moved)
        same = self._size(i) == self._size(n.args[0])
        return n.op == "reshape" or (n.op == "broadcast_to" and same)

    def _layout(self, i: int) -> None:
        n = self.graph.nodes[i]
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
            v = self._declare(i, start, tuple(slots))
            at = 0
            for p in parts:
                self._emit(
                    f"XP_ALL for (int m = 0; m < {self.m}; ++m)",
                    f"XP_ALL for (int j = 0; j < {p.tiles}; ++j)",
                    "XP_ALL for (int e = 0; e < 4; ++e)",
                    f"  {v.name}[m][{at} + j][e] = {p.name}[m][j][e];",
                )
                at += p.tiles
            return
        raise Refused(f"{n.op} of a value in registers")

    def _store(self, v: Value) -> list[str]:
        """Statements that write the results of tile `now`, or what is there of them."""
        raise NotImplementedError
