"""A whole network as one CUDA kernel on tensor cores.

A group of threads (a warp with mma.sync, four with wgmma) takes a tile of
slices through all layers at once. Values live in registers, either

spread
    over the lanes as tensor cores hold them (see `cores`), or
whole
    in all four lanes of a slice, for values of few numbers.

Weights are packed once per model in the order in which the kernel reads them,
and copied to shared memory once per block.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC, Region, regions
from . import cores
from .cxx import HELPERS, TYPES, literal, statements
from .factors import LONG_SUM, Constants, Packing, Product, Slots, laid_out
from .kernels import EVEN, Access, locate
from .rows import prepare

_WHOLE_INPUT = 4
"""An input of so few numbers is multiplied by plain multiply-adds: no rounding, no tiles."""
_WHOLE_RESULT = 2
"""So is a product of so few results: splitting its factor would take more work."""
_MOST_TILES = 16
"""Tiles of 8 features that a spread value may have whole in registers; wider ones pass by."""
_MOST_STEPS = 16
"""Steps of 16 features that a product's left factor may have: what registers hold."""
_STAGE_BYTES = 32 << 10
"""Bytes of weights that are read at once where all of them do not fit in shared memory."""

_C = {
    "exp": "xp_exp({0})",
    "erfc": "xp_erfc({0})",
    "divide": "xp_divide({0}, {1})",
}
_HOMOGENEOUS = frozenset(("relu", "abs", "negative"))
_FINITE = frozenset(("relu", "tanh", "add", "multiply", "subtract", "abs", "negative"))


_CARE, _TRUST = "/* care */ ", "/* trust */ "
_MOST_FACTORS = 128
"""Registers for the left factors of two products at once."""


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


@dataclass
class TensorKernel:
    """Source and launch of a kernel; `pack` lays the weights out for it.

    The arguments are the array, the weights, the output, and those of the numbers
    of `geometry` and `placement` that `arguments` names, each of 64 bits.
    """

    source: str
    name: str
    target: Target
    slices: int
    """slices per tile"""
    threads: int
    """threads per tile"""
    groups: int
    """most tiles that a block works on at a time; one block per multiprocessor"""
    helpers: int
    """threads of a block beside those that take tiles"""
    shared: int
    """bytes of shared memory per block"""
    arguments: tuple[int, ...]
    """which of the numbers are arguments; the text has the others"""
    packing: bool
    """what `pack` depends on beside the graph: whether four features of the input are one load"""
    _graph: Graph = field(repr=False)
    _size: int = field(repr=False)
    _pieces: list[tuple[int, Callable[[Constants], np.ndarray]]] = field(repr=False)

    def pack(self, consts: Sequence[np.ndarray]) -> np.ndarray:
        """The weights as bytes."""
        nodes = self._graph.nodes

        def value(i: int) -> np.ndarray:
            while nodes[i].op == "reshape":
                i = nodes[i].args[0]
            return consts[nodes[i].attr("k")]

        packed = np.zeros(self._size, np.uint8)
        for at, piece in self._pieces:
            raw = np.ascontiguousarray(piece(value)).view(np.uint8).reshape(-1)
            packed[at : at + raw.size] = raw
        return packed


def why_not(graph: Graph, target: Target) -> str | None:
    """Why there is no such kernel for `graph`, or None."""
    try:
        tensor_kernel(graph, Access(0, 0), target)
    except Refused as refusal:
        return str(refusal)
    return None


def tensor_kernel(graph: Graph, access: Access, target: Target) -> TensorKernel:
    """The kernel of a graph for one way of access.

    Raises
    ------
    Refused
        If there is none; see `why_not`.
    """
    graph = prepare(graph)
    # the fastest first: four features of the input in one load, all weights in shared memory
    for streams in (False, True):
        for natural in (False, True):
            try:
                return _Writer(graph, access, target, natural=natural, streams=streams).kernel()
            except Refused as error:
                refusal = error
    raise refusal


class _Writer:
    def __init__(
        self,
        graph: Graph,
        access: Access,
        target: Target,
        *,
        natural: bool = False,
        streams: bool = False,
    ) -> None:
        self.graph, self.access, self.target, self.natural = graph, access, target, natural
        self.dependent = graph.dependent()
        self.regions = regions(graph)
        self.region_of = {i: r for r in self.regions.values() for i in r.nodes}
        self.uses: dict[int, list[int]] = {}
        for i, n in enumerate(graph.nodes):
            for a in n.args:
                self.uses.setdefault(a, []).append(i)
        self.values: dict[int, Value] = {}
        self.packing = Packing(target.core, target.precision)
        self.ready: set[int] = set()  # products whose left factor is there already
        self.pieces: list[tuple[int, Callable]] = []  # floats, by number
        self.floats = 0
        self.factors = 0  # bytes of factors, which lie behind the floats
        self.factor_pieces: list[tuple[int, Callable]] = []
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

    def _size(self, i: int) -> int:
        return math.prod(self.graph.nodes[i].aval.shape)

    def _affine(self, i: int) -> bool:
        n = self.graph.nodes[i]
        return (
            n.op == "einsum"
            and n.attr("subscripts") == MATVEC
            and not self.dependent[n.args[0]]
            and self.dependent[n.args[1]]
        )

    def _check(self) -> None:
        graph = self.graph
        if not self.dependent[graph.out]:
            raise Refused("the result does not depend on the slice")
        if not any(self._affine(i) for i in range(len(graph.nodes))):
            raise Refused("no product with a matrix of weights")
        for i, n in enumerate(graph.nodes):
            if n.aval.dtype not in TYPES:
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
            inner = n.op not in ("input",) and i != graph.out
            if inner and n.aval.dtype not in ("float32", "bool"):
                raise Refused(f"{n.aval.dtype} values")
            if kind is Kind.ELEMENTWISE and not OPS[n.op].c:
                raise Refused(f"{n.op} has no C++ expression")
        if graph.result.dtype not in ("float32", "float16"):
            raise Refused(f"{graph.result.dtype} results")

    def _input_slots(self) -> Slots:
        n = self._size(self.graph.entry)
        tiles = -(-n // 8)
        slots = [k if k < n else -1 for k in range(8 * tiles)]
        if self._quads():
            # one load of four numbers: lane t has features 4 t ... 4 t + 3 of 16
            order = [
                16 * (j // 2) + 4 * t + 2 * (j % 2) + c
                for j in range(tiles)
                for t in range(4)
                for c in range(2)
            ]
            slots = order
        return tuple(slots)

    def _quads(self) -> bool:
        entry = self.graph.input
        narrow = np.dtype(entry.dtype).itemsize <= 4  # four of them in 16 bytes
        return self.access.vector and narrow and entry.shape[0] % 16 == 0 and not self.natural

    # --- constants --------------------------------------------------------------------

    def _floats(self, n: int, piece: Callable, align: int = 4) -> int:
        self.floats = -(-self.floats // align) * align
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

            def piece(value: Callable[[int], np.ndarray]) -> np.ndarray:
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
        self.lines += [_CARE + line for line in lines]

    def _trusting(self, *lines: str) -> None:
        """Lines for tiles whose range is not looked at."""
        self.lines += [_TRUST + line for line in lines]

    def _declare(self, i: int, size: int, slots: Slots | None, *, dealt: bool = False) -> Value:
        v = Value(f"v{i}", size, slots, self.window if slots is not None else 0, dealt)
        self.values[i] = v
        if dealt:
            self._emit(f"float {v.name}[{self.m // 2}][{size}];")
        elif slots is None:
            self._emit(f"float {v.name}[{self.m}][{size}][2];")
        else:
            most = 2 * _MOST_TILES if self.graph.nodes[i].op == "input" else _MOST_TILES
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

    def kernel(self) -> TensorKernel:
        self._check()
        self.m = self._m_tiles()
        graph = self.graph
        in_products = {i for i in range(len(graph.nodes)) if self._affine(i)}
        for i, n in enumerate(graph.nodes):
            if not self.dependent[i]:
                continue
            if n.op == "input":
                self._input(i)
            elif i in in_products:
                self._product(i)
            elif i in self.passed:
                continue
            elif i in self.regions:
                self._region(self.regions[i])
            elif i in self.region_of:
                continue
            elif OPS[n.op].kind is Kind.REDUCTION:
                self._reduce(i)
            else:
                self._layout(i)
        return self._finish()

    def _m_tiles(self) -> int:
        """Tiles that a group takes at once; fewer where they are wide."""
        return self._arrangement()[0]

    def _arrangement(self) -> tuple[int, int]:
        """Tiles per group and groups per multiprocessor: what was fastest on an H200."""
        widest = max(self._size(i) for i in range(len(self.graph.nodes)) if self.dependent[i])
        table: tuple[tuple[int, int, int], ...]
        if self.target.core == "mma":
            table = ((32, 2, 16), (64, 1, 12))
            rest = 1, 8
        elif self.streams:
            table, rest = ((64, 1, 4),), (1, 2)
        else:
            table, rest = ((16, 4, 4), (32, 2, 5), (64, 1, 5), (96, 1, 4), (256, 1, 3)), (1, 2)
        return next(((m, groups) for width, m, groups in table if widest <= width), rest)

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
        compared = {"greater", "greater_equal", "less", "less_equal", "equal"}
        for i, n in enumerate(nodes):
            if not self.dependent[i] or (n.aval.dtype != "bool" and n.op != "where"):
                continue
            if n.op == "where":  # a comparison with NaN is false
                if nodes[n.args[0]].op not in compared or not self.dependent[n.args[2]]:
                    return False
            elif n.op not in compared:
                return False
        return True

    def _bias(self, product: int) -> tuple[int, int] | None:
        users = self.uses.get(product, [])
        if len(users) != 1 or self.graph.nodes[users[0]].op != "add":
            return None
        a, b = self.graph.nodes[users[0]].args
        other = b if a == product else a
        same = self.graph.nodes[users[0]].aval == self.graph.nodes[product].aval
        if self.dependent[other] or not same or self.graph.nodes[other].op == "scalar":
            return None
        return users[0], other

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
        body = statements(graph, nodes, operand, forms=_C)
        result = f"t{region.out}" if region.out in nodes else operand(region.out)
        self._each(out, [*body, f"{self._element(out, out)} = {result};"])
        if any(graph.nodes[i].op not in _FINITE for i in nodes):
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

    # --- products ---------------------------------------------------------------------

    def _product(self, i: int) -> None:
        node = self.graph.nodes[i]
        if self.graph.nodes[node.args[0]].op != "const":
            raise Refused("weights that are not a constant")
        n = self._size(i)
        if i in self.ready:
            self._tensor(i)
            return
        x = self.values[node.args[1]]
        if x.slots is None:
            self._from_whole(i, x, n)
        elif n <= _WHOLE_RESULT:
            self._to_whole(i, x, n)
        else:
            self._left(i, x, self._make(i, x.slots))
            self._tensor(i)

    def _natural(self, n: int) -> Slots:
        return tuple(k if k < n else -1 for k in range(-(-n // 8) * 8))

    def _final(self, i: int) -> bool:
        """Whether no other product reads what comes of a value."""
        reached = {i}
        for j, n in enumerate(self.graph.nodes):
            if any(a in reached for a in n.args):
                if self._affine(j):
                    return False
                reached.add(j)
        return True

    def _from_whole(self, i: int, x: Value, n: int) -> None:
        """Plain multiply-adds from few numbers."""
        w = self.graph.nodes[i].args[0]
        bias = self._bias(i)
        slots = None if n <= _WHOLE_RESULT else self._natural(n)
        v = self._declare(i, n, slots)
        count = n if slots is None else len(slots)

        def piece(value: Callable[[int], np.ndarray]) -> np.ndarray:
            columns = value(w).T.astype(np.float32)
            return columns if slots is None else np.stack([laid_out(c, slots) for c in columns])

        at = self._floats(x.size * count, piece)
        start = "0" if bias is None else self._number(bias[1], v)
        place = "k" if slots is None else "8 * j + 2 * t + (e & 1)"
        half = "h" if slots is None else "e >> 1"
        self._each(
            v,
            [
                f"float s = {start};",
                f"XP_ALL for (int c = 0; c < {x.size}; ++c)",
                f"  s = fmaf({x.name}[m][c][{half}], f[{at} + c * {count} + {place}], s);",
                f"{self._element(v, v)} = s;",
            ],
        )
        self._mask_infinity(v)

    def _to_whole(self, i: int, x: Value, n: int) -> None:
        """Plain multiply-adds to few numbers, summed over the lanes of a slice.

        At the end of a network the sums are dealt to the lanes, which then share what is
        left to do.
        """
        w = self.graph.nodes[i].args[0]
        bias, m = self._bias(i), self.m
        dealt = m % 2 == 0 and self._ends(i)
        v = self._declare(i, n, None, dealt=dealt)
        slots = x.slots
        assert slots is not None

        def piece(value: Constants) -> np.ndarray:
            return np.stack([laid_out(row, slots) for row in value(w).astype(np.float32)])

        at = self._floats(n * len(slots), piece)
        start = "0" if bias is None else self._number(bias[1], v)
        self._emit(
            f"XP_ALL for (int k = 0; k < {n}; ++k) {{",
            f"  float s[{2 * m}] = {{}};",
            f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j) {{",
            f"    const float2 w = *(const float2*)(f + {at} + k * {len(slots)} + 8 * j + 2 * t);",
            f"    XP_ALL for (int p = 0; p < {2 * m}; ++p)",
            f"      s[p] = fmaf({x.name}[p / 2][j][p % 2 * 2 + 1], w.y, "
            f"fmaf({x.name}[p / 2][j][p % 2 * 2], w.x, s[p]));",
            "  }",
        )
        if dealt:
            self._emit(
                f"  xp_deal<{2 * m}>(s, t);",
                f"  XP_ALL for (int q = 0; q < {m // 2}; ++q) {v.name}[q][k] = s[q] + {start};",
                "}",
            )
            return
        self._emit(
            f"  XP_ALL for (int p = 0; p < {2 * m}; ++p)",
            f"    {v.name}[p / 2][k][p % 2] = xp_sum4(s[p]) + {start};",
            "}",
        )

    def _ends(self, i: int) -> bool:
        """Whether a product is the result, but for elementwise work on it alone."""
        if i == self.graph.out:
            return True
        region = self.region_of.get(self.graph.out)
        return (
            region is not None
            and region.out == self.graph.out
            and [a for a in region.inputs if self.dependent[a]] == [i]
            and all(u in region.nodes for u in self.uses[i])
        )

    def _make(self, i: int, inputs: Slots) -> Product:
        """A product on tensor cores: where its weights lie, and how they come."""
        packing, n = self.packing, self._size(i)
        inputs += (-1,) * (-len(inputs) % 16)
        steps, tiles = len(inputs) // 16, -(-n // 8)
        if steps > _MOST_STEPS:
            raise Refused(f"a product of {len(inputs)} numbers does not fit in registers")
        most = tiles
        if tiles > _MOST_TILES:
            most = 8 if steps <= 8 else 4  # results that registers hold beside the left factor
        if self.streams and self.target.core == "wgmma":
            most = min(most, _STAGE_BYTES // (256 * packing.parts * steps))
        chunk = tiles
        if tiles > most:  # in whole steps of the next product; what is padded is computed too
            padded = {c: -(-tiles // c) * (c + 0.5) for c in range(2, most + 1, 2)}
            chunk = min(padded, key=padded.__getitem__)
        slots = tuple(k if k < n else -1 for k in range(chunk * -(-tiles // chunk) * 8))
        bias = self._bias(i)
        weights = self.graph.nodes[i].args[0]
        product = Product(
            weights,
            None if bias is None else bias[1],
            inputs,
            slots,
            chunk,
            final=self._final(i),
            rectified=self._rectified(i),
        )
        source = self._folds(self.graph.nodes[i].args[1])
        packing.products[i] = product
        self.factors = -(-self.factors // 128) * 128
        product.factors_at = self.factors
        self.factors += packing.bytes_of(product)
        self.stage = max(self.stage, packing.bytes_of(product) // product.chunks)
        self.factor_pieces.append((product.factors_at, partial(packing.factors, product)))
        per = 2 if packing.scaled else 1
        product.affine_at = self._floats(per * len(slots), partial(packing.affine, product))
        if packing.scaled and source in packing.products:
            product.follows = packing.products[source]
        elif packing.scaled:
            product.scale_at = self._floats(len(inputs), partial(packing.scale, product))
        return product

    def _declare_left(self, i: int, product: Product) -> None:
        """Registers for the left factor of a product."""
        both = self.packing.parts == 2
        shape = f"[{self.m}][{product.steps}][4]"
        self._emit(f"u32 p{i}_hi{shape}" + (f", p{i}_lo{shape};" if both else ";"))
        if self.packing.scaled:
            self._care(f"float p{i}_back[{self.m}][2];")

    def _left(self, i: int, x: Value, product: Product) -> None:
        """Round or split a value that is there as a whole."""
        self._declare_left(i, product)
        self._emit(f"XP_ALL for (int m = 0; m < {self.m}; ++m) {{")
        hi, lo = f"p{i}_hi[m]", f"p{i}_lo[m]"
        source = self._rounded(x, product, hi, lo)
        if self.packing.scaled:
            both = self.packing.parts == 2
            self._care(
                f"xp_into_range<{x.tiles}, {str(both).lower()}>"
                f"({source}, {hi}, {lo if both else hi}, p{i}_back[m]);",
            )
        self._emit("}")

    def _rounded(self, x: Value, product: Product, hi: str, lo: str, *, care: bool = True) -> str:
        """Write factors of what is there of a value; the name of its numbers, scaled."""
        source = f"{x.name}[m]"
        if product.scale_at >= 0:
            self._emit(
                f"float scaled[{x.tiles}][4];",
                f"XP_ALL for (int j = 0; j < {x.tiles}; ++j)",
                "  XP_ALL for (int e = 0; e < 4; ++e)",
                f"    scaled[j][e] = {source}[j][e] * f[{product.scale_at} + {self._place}];",
            )
            source = "scaled"
        write = self._emit if care else self._trusting
        if self.packing.parts == 2:
            write(f"xp_split<{x.tiles}>({source}, {hi}, {lo});")
        else:
            bf16 = str(not self.packing.scaled).lower()
            write(f"xp_round<{x.tiles}, {bf16}>({source}, {hi});")
            if self.packing.scaled:  # of one product, infinity need not become NaN
                self._trusting(f"xp_see<{-(-x.tiles // 2)}>(seen, {hi});")
        return source

    def _tensor(self, i: int) -> None:
        """The product itself, when its left factor is there."""
        product, n = self.packing.products[i], self._size(i)
        if -(-n // 8) > _MOST_TILES:
            self._wide(i, product)
            return
        v = self._declare(i, n, product.outputs)
        for c in range(product.chunks):
            d = f"{v.name}[m]"
            if product.chunks > 1:
                d = f"(*(float (*)[{product.chunk}][4])&{v.name}[m][{c * product.chunk}])"
            self._multiply(i, product, d, str(c))
        self._finish_product(i, product, v)

    def _multiply(self, i: int, product: Product, d: str, chunk: str) -> None:
        """A chunk of results: sums on tensor cores, the small terms first."""
        parts, all_m = self.packing.parts, f"XP_ALL for (int m = 0; m < {self.m}; ++m)"
        dtype = "f16" if self.packing.scaled else "bf16"
        T, K = product.chunk, product.steps
        if self.target.core == "mma":
            vector = "uint4" if parts == 2 else "uint2"
            half = -(-K // 2) if K > LONG_SUM and parts == 2 else K
            self._emit(
                f"XP_ALL for (int j = 0; j < {T}; ++j) {{",
                f"  float big[{self.m}][4] = {{}}, small[{self.m}][4] = {{}};",
                f"  float rest[{self.m}][4] = {{}};",
                f"  const {vector}* const w = (const {vector}*)(factors + {product.factors_at})"
                f" + ({chunk} * {T} + j) * {K * 32} + lane;",
                f"  XP_ALL for (int s = 0; s < {K}; ++s) {{",
                f"    const {vector} q = w[s * 32];",
                f"    {all_m} {{",
            )
            if parts == 2:
                self._emit(
                    f"      xp_mma_{dtype}(small[m], p{i}_lo[m][s], q.x, q.y);",
                    f"      xp_mma_{dtype}(small[m], p{i}_hi[m][s], q.z, q.w);",
                )
            self._emit(
                f"      xp_mma_{dtype}(s < {half} ? big[m] : rest[m], p{i}_hi[m][s], q.x, q.y);",
                "    }",
                "  }",
                f"  {all_m} XP_ALL for (int e = 0; e < 4; ++e)",
                f"    {d}[j][e] = big[m][e] + (small[m][e] + rest[m][e]);",
                "}",
            )
            return
        self.instructions.add(T)
        part, step = K * T * 256 >> 4, T * 256 >> 4  # in units of 16 bytes
        start = f"factors_at + {product.factors_at >> 4} + {chunk} * {part * parts}"
        if self.streams:
            start = "ring_at + stage * (XP_STAGE_BYTES >> 4)"
        # name of the left factor, where the right one is, steps, the sum, whether it starts anew
        terms = [("hi", 0, 0, K, d, True)]
        halves = K > LONG_SUM and parts == 2
        if parts == 2:
            terms = [("lo", 0, 0, K, d, True), ("hi", part, 0, K, d, False)]
            terms.append(("hi", 0, 0, K // 2 if halves else K, d, False))
            if halves:
                terms.append(("hi", 0, K // 2, K, "rest[m]", True))
        self._emit("{", f"const u64 w = {start};")
        if halves:
            self._emit(f"float rest[{self.m}][{T}][4];")
        if self.streams:
            self._emit("xp_await(xp_full + stage, phase);")
        self._emit("xp_begin();", f"{all_m} {{")
        for name, offset, first, stop, total, anew in terms:
            more = f"s > {first}" if anew else "1"
            self._emit(
                f"XP_ALL for (int s = {first}; s < {stop}; ++s) xp_wgmma_{dtype}("
                f"{total}, p{i}_{name}[m][s], w + {offset} + s * {step}, {more});"
            )
        self._emit("}", "xp_commit();", "xp_wait<0>();", f"{all_m} xp_hold({d});")
        if halves:
            self._emit(
                f"{all_m} {{",
                "xp_hold(rest[m]);",
                f"XP_ALL for (int j = 0; j < {T}; ++j)",
                f"  XP_ALL for (int e = 0; e < 4; ++e) {d}[j][e] += rest[m][j][e];",
                "}",
            )
        if self.streams:
            self._emit(
                "if (lane == 0) xp_release(xp_empty + stage);", "xp_next<XP_STAGES>(stage, phase);"
            )
        self._emit("}")

    def _finish_product(self, i: int, product: Product, v: Value) -> None:
        """Take the scales out of results, and add the bias."""
        all_m = f"XP_ALL for (int m = 0; m < {self.m}; ++m)"
        tile = "(j + first)" if self.window else "j"
        at, name = product.affine_at, v.name
        if self.packing.scaled:
            scale = "e & 1 ? c.y : c.x"
            self._emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j) {{",
                f"  const float4 c = *(const float4*)(f + {at} + 16 * {tile} + 4 * t);",
                f"  {all_m} XP_ALL for (int e = 0; e < 4; ++e) {{",
                f"    float s = {name}[m][j][e], b = e & 1 ? c.w : c.z;",
            )
            self._trusting(f"    {name}[m][j][e] = fmaf(s, {scale}, b);")
            # first the scale, then the way back: the other order could overflow
            self._care(f"    {name}[m][j][e] = fmaf(s * ({scale}), p{i}_back[m][e >> 1], b);")
            self._emit("  }", "}")
        elif product.bias is not None:
            self._emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j) {{",
                f"  const float2 c = *(const float2*)(f + {at} + 8 * {tile} + 2 * t);",
                f"  {all_m} XP_ALL for (int e = 0; e < 4; ++e)",
                f"    {name}[m][j][e] += e & 1 ? c.y : c.x;",
                "}",
            )
        self._mask_infinity(v)

    def _mask_infinity(self, v: Value) -> None:
        """Infinity times the 0 of a place without a feature is NaN, and would spread."""
        self._mask(v, "0", self._care if self.packing.scaled else self._emit)

    def _wide(self, i: int, product: Product) -> None:
        """A product whose results registers do not hold: each chunk goes on as it comes.

        It becomes a part of the next product's left factor, or is stored.
        """
        region, following = self._onward(i)
        n, T = self._size(i), product.chunk
        packing, spilled = self.packing, False
        both = packing.parts == 2
        following_product: Product | None = None
        if following is not None:
            following_product = self._make(following, product.outputs)
            self.ready.add(following)
            numbers = 4 * packing.parts * (product.steps + following_product.steps)
            spilled = numbers > _MOST_FACTORS
            if spilled:
                self.spill = max(self.spill, 16 * packing.parts * following_product.steps)
                if packing.scaled:
                    q = f"p{following}"
                    self._care(f"float {q}_back[1][2];")
            else:
                self._declare_left(following, following_product)
        twice = following_product is not None and packing.scaled
        self.wide[i] = twice
        if twice:
            self._care(
                "{ float top[2] = {}, factor[2];",
                "bool infinite[2];",
                "#pragma unroll 1\nfor (int pass = 0; pass < 2; ++pass) {",
            )
        unroll = "XP_ALL " if following_product is not None and not spilled else ""
        unroll = unroll or "#pragma unroll 1\n"
        self._emit(f"{unroll}for (int chunk = 0; chunk < {product.chunks}; ++chunk) {{")
        self._emit(f"const int first = chunk * {T}, m = 0;")
        self.window = T
        v = self._declare(i, n, product.outputs)
        self._multiply(i, product, f"{v.name}[0]", "chunk")
        self._finish_product(i, product, v)
        if region is not None:
            self._region(region)
            self.passed.add(region.out)
            v = self.values[region.out]
        if following_product is None:
            self._trusting(
                f"XP_ALL for (int j = 0; j < {T}; ++j)",
                f"  XP_ALL for (int e = 0; e < 4; ++e) odd = fmaf({v.name}[0][j][e], 0, odd);",
            )
            self._emit(*self._store(v))
            self.stored = True
        else:
            half = f"[{T // 2}][4]"
            self._emit(f"u32 hi{half}" + (f", lo{half};" if both else ";"))
            source = self._rounded(v, following_product, "hi", "lo", care=not twice)
            if twice:
                self._care(
                    "if (pass == 0) {",
                    f"  xp_top<{T}>({source}, top);",
                    "  continue;",
                    "}",
                    f"xp_split_by<{T}, {str(both).lower()}>"
                    f"({source}, hi, {'lo' if both else 'hi'}, factor, infinite);",
                )
            for part, name in enumerate(("hi", "lo")[: packing.parts]):
                self._emit(f"XP_ALL for (int s = 0; s < {T // 2}; ++s)")
                if spilled:
                    place = (
                        f"((first / 2 + s) * {packing.parts} + {part}) * XP_TAKERS + threadIdx.x"
                    )
                    self._emit(
                        f"  spill[{place}] = "
                        f"make_uint4({name}[s][0], {name}[s][1], {name}[s][2], {name}[s][3]);"
                    )
                else:
                    self._emit(
                        "  XP_ALL for (int c = 0; c < 4; ++c)",
                        f"    p{following}_{name}[0][first / 2 + s][c] = {name}[s][c];",
                    )
        self.window = 0
        self._emit("}")
        if twice:
            q = f"p{following}"
            self._care(
                "if (pass == 0) {",
                "  xp_over_lanes(top);",
                f"  xp_factor(top, factor, {q}_back[0], infinite);",
                "}",
                "} }",
            )
        if following_product is not None and spilled:
            steps, parts = following_product.steps, packing.parts
            shape = f"[1][{steps}][4]"
            names = ("hi", "lo")[:parts]
            self._emit("u32 " + ", ".join(f"p{following}_{name}{shape}" for name in names) + ";")
            self._emit(f"XP_ALL for (int s = 0; s < {steps}; ++s) {{")
            for part, name in enumerate(names):
                q = f"p{following}_{name}[0][s]"
                self._emit(
                    f"{{ const uint4 c = spill[(s * {parts} + {part}) * XP_TAKERS + threadIdx.x];",
                    f"{q}[0] = c.x; {q}[1] = c.y; {q}[2] = c.z; {q}[3] = c.w; }}",
                )
            self._emit("}")

    def _onward(self, i: int) -> tuple[Region | None, int | None]:
        """Where a wide product's results go: the region behind it, and the product behind that."""
        region: Region | None = None
        out, users = i, self.uses.get(i, [])
        reason = f"a value of {self._size(i)} numbers does not fit in registers"
        found = {self.region_of[u].out for u in users if u in self.region_of}
        if users and len(found) == 1 and all(u in self.region_of for u in users):
            region = self.regions[found.pop()]
            out = region.out
            if [a for a in region.inputs if self.dependent[a]] != [i]:
                raise Refused(reason)
        if out == self.graph.out:
            return region, None
        behind = self.uses.get(out, [])
        if len(behind) != 1 or not self._affine(behind[0]):
            raise Refused(reason)
        return region, behind[0]

    def _folds(self, x: int) -> int | None:
        """The product whose results, times powers of two, give `x` times the same: its node."""
        if self.uses[x] and len(self.uses[x]) != 1:
            return None
        if self._affine(x):
            return x
        region = self.regions.get(x)
        if region is None:
            return None
        inputs = [a for a in region.inputs if self.dependent[a]]
        if len(inputs) != 1 or not self._affine(inputs[0]):
            return None
        nodes = set(region.nodes)
        bias = self._bias(inputs[0])
        if bias is not None:
            nodes.discard(bias[0])
        allowed = all(self.graph.nodes[i].op in _HOMOGENEOUS or self._slope(i) for i in nodes)
        if any(u not in region.nodes for u in self.uses[inputs[0]]):
            return None
        return inputs[0] if allowed else None

    def _rectified(self, i: int) -> bool:
        """Whether nothing but ReLU follows a product and its bias."""
        users = [u for u in self.uses.get(i, []) if u in self.region_of]
        regions = {self.region_of[u].out for u in users}
        bias = self._bias(i)
        for out in regions:
            nodes = set(self.regions[out].nodes) - ({bias[0]} if bias is not None else set())
            return [self.graph.nodes[k].op for k in nodes] == ["relu"]
        return False

    def _slope(self, i: int) -> bool:
        """A part of ``where(x > 0, x, slope * x)``, or a bound of 0."""
        n = self.graph.nodes[i]

        def number(a: int) -> float | None:
            s = self.graph.nodes[a]
            return float(s.attr("value")) if s.op == "scalar" else None

        if n.op in ("greater", "greater_equal", "less", "less_equal", "maximum", "minimum"):
            return any(number(a) == 0 for a in n.args)
        if n.op == "multiply":
            return any(number(a) is not None for a in n.args)
        return n.op == "where" and all(number(a) in (None, 0.0) for a in n.args)

    # --- reductions and layouts -------------------------------------------------------

    def _reduce(self, i: int) -> None:
        node = self.graph.nodes[i]
        x = self.values[node.args[0]]
        if self._size(i) != 1:
            raise Refused(f"{node.op} along one of several axes")
        step = OPS[node.op].c
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
        identity = literal(
            {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[node.op], "float32"
        )
        self._mask(x, identity)
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

    def _layout(self, i: int) -> None:
        n = self.graph.nodes[i]
        if n.op == "reshape" or (
            n.op in ("broadcast_to", "permute_dims") and self._size(i) == self._size(n.args[0])
        ):
            x = self.values[n.args[0]]
            self.values[i] = replace(x)
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

    # --- the frame --------------------------------------------------------------------

    @property
    def _slice(self) -> str:
        """Which of a lane's slices number (m, h) is, after the first."""
        return "2 * m + h" if self.access.rows else "m * XP_STEP + 8 * h"

    @property
    def _even(self) -> bool:
        """Whether all slices of a tile have the batch dims before the axis in common."""
        return self.access.even and EVEN % (16 * self.target.warps * self.m) == 0

    def _fetch(self) -> list[str]:
        """Statements that read the input of a tile into `ahead`."""
        access, n = self.access, self._size(self.graph.entry)
        x = self.values[self.graph.entry]
        # where the lane's own features start: added before the one multiplication by the item size
        stride = "(I)1" if access.vector else "(I)s_m"
        start = "0"
        if x.slots is not None:
            start = "4 * t" if self._quads() else f"2 * t * {stride}"
        loop = f"XP_ALL for (int m = 0; m < {self.m}; ++m) XP_ALL for (int h = 0; h < 2; ++h)"
        anywhere = [
            f"{loop} {{",
            f"  I row = tile * XP_SLICES + own + {self._slice};",
            "  row = row < (I)n_slices ? row : (I)n_slices - 1;",
            f"  I at = {start};",
            *("  " + s for s in locate(access)),
            "  const IN* const p = x + at;",
            *self._read(x, n, stride),
            "}",
        ]
        small = x.slots is None or x.tiles <= 8  # twice the text is compiled twice as long
        if self._even and small:
            return [
                "const I before = tile * XP_SLICES / (I)n_behind;",
                "const I behind = tile * XP_SLICES - before * (I)n_behind + own;",
                "if (tile < tiles) {",
                f"const IN* const corner = x + (before * (I)s_b0 + behind + (I)({start}));",
                *self._side_by_side(loop, x, n, stride),
                "}",
            ]
        if not access.dense or not small:
            return anywhere
        # of whole tiles the addresses differ by constants
        inside = "if ((tile + 1) * XP_SLICES <= (I)n_slices) {"
        if access.behind:
            corner = f"const IN* const corner = x + (tile * XP_SLICES + own + (I)({start}));"
            whole = [corner, *self._side_by_side(loop, x, n, stride)]
        else:
            whole = [
                f"const IN* const corner = x + ((tile * XP_SLICES + own) * (I){n} + (I)({start}));",
                f"{loop} {{",
                f"  const IN* const p = corner + ({self._slice}) * {n};",
                *self._read(x, n, stride),
                "}",
            ]
        return [inside, *whole, "} else {", *anywhere, "}"]

    def _side_by_side(self, loop: str, x: Value, n: int, stride: str) -> list[str]:
        """Statements that read a whole tile, of slices whose elements lie side by side."""
        if not self.access.rows:
            return [
                f"{loop} {{",
                f"  const IN* const p = corner + ({self._slice});",
                *self._read(x, n, stride),
                "}",
            ]
        count = 2 * self.m
        guard = other = ""
        if x.slots is None:
            head, feature = f"XP_ALL for (int k = 0; k < {n}; ++k) {{", "k"
            to = "ahead[r / 2][k][r % 2]"
        else:
            head = (
                f"XP_ALL for (int j = 0; j < {x.tiles}; ++j) XP_ALL for (int c = 0; c < 2; ++c) {{"
            )
            feature, to = "8 * j + c", "ahead[r / 2][j][r % 2 * 2 + c]"
            if n % 8:
                guard, other = f"if (8 * j + 2 * t + c < {n}) ", " = {}"
        size = np.dtype(self.graph.input.dtype).itemsize
        vector = min(count, 16 // size)
        return [
            head,
            f"  xp_vector<IN, {vector}> q[{count // vector}]{other};",
            f"  {guard}XP_ALL for (int r = 0; r < {count // vector}; ++r)",
            f"    q[r] = xp_read<{vector}>(corner + ({feature}) * {stride} + r * {vector});",
            f"  XP_ALL for (int r = 0; r < {count}; ++r) {to} = q[r / {vector}].a[r % {vector}];",
            "}",
        ]

    def _read(self, x: Value, n: int, stride: str) -> list[str]:
        """Statements that read one slice's features, from `p` on."""
        if x.slots is None:
            return [
                f"  XP_ALL for (int k = 0; k < {n}; ++k) ahead[m][k][h] = "
                f"xp_read<1>(p + k * {stride}).a[0];"
            ]
        if self._quads():
            return [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; j += 2) {{",
                "    const xp_vector<IN, 4> q = xp_read<4>(p + 8 * j);",
                "    ahead[m][j][2 * h] = q.a[0]; ahead[m][j][2 * h + 1] = q.a[1];",
                "    ahead[m][j + 1][2 * h] = q.a[2]; ahead[m][j + 1][2 * h + 1] = q.a[3];",
                "  }",
            ]
        if self.access.vector and n % 2 == 0:
            guard = "" if n % 8 == 0 else f"if (8 * j + 2 * t < {n}) "
            return [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j) {{",
                "    xp_vector<IN, 2> q = {};",
                f"    {guard}q = xp_read<2>(p + 8 * j);",
                "    ahead[m][j][2 * h] = q.a[0]; ahead[m][j][2 * h + 1] = q.a[1];",
                "  }",
            ]
        guard = "" if n % 8 == 0 else f"8 * j + 2 * t + c < {n} ? "
        other = "" if n % 8 == 0 else " : IN(0)"
        return [
            f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j)",
            "    XP_ALL for (int c = 0; c < 2; ++c) ahead[m][j][2 * h + c] =",
            f"      {guard}xp_read<1>(p + (8 * j + c) * {stride}).a[0]{other};",
        ]

    def _store(self, v: Value) -> list[str]:
        """Statements that write the results of tile `now`, or what is there of them."""
        out, n = TYPES[self.graph.result.dtype], v.size
        row, group = "row * (I)o_row", []
        if self._even:
            group = [
                "const I before = now * XP_SLICES / (I)n_behind;",
                "const I apart = before * (I)o_group - before * (I)n_behind;",
            ]
            row = "row + apart"
        elif self.access.grouped:
            row = "row % (I)n_group * (I)o_row + row / (I)n_group * (I)o_group"
        loop = f"XP_ALL for (int m = 0; m < {self.m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{"
        if v.dealt:
            loop = (
                f"XP_ALL for (int q = 0; q < {self.m // 2}; ++q) {{"
                "  const int m = 2 * q + t / 2, h = t % 2;"
            )
        lines = [
            "{",
            *group,
            loop,
            f"  const I row = now * XP_SLICES + own + {self._slice};",
            "  if (row < (I)n_slices) {",
            f"    {out}* const r = y + {row};",
        ]
        tile = "(j + first)" if v.window else "j"
        whole = v.slots is None or -1 not in v.slots
        if v.dealt:
            lines.append(
                f"    XP_ALL for (int k = 0; k < {n}; ++k) r[k * (I)o_j] = {out}({v.name}[q][k]);"
            )
        elif v.slots is None:
            for k in range(n):
                lines.append(f"    if (t == {k % 4}) r[{k} * (I)o_j] = {out}({v.name}[m][{k}][h]);")
        elif v.slots != self._natural(n) and not v.window:  # joined from pieces, or the input
            for j in range(v.tiles):
                for c, k in enumerate(v.slots[8 * j : 8 * j + 8]):
                    if k >= 0:
                        lines.append(
                            f"    if (t == {c // 2}) r[{k} * (I)o_j] = "
                            f"{out}({v.name}[m][{j}][2 * h + {c % 2}]);"
                        )
        elif n % 2 == 0 and not self.access.behind:
            guard = "" if whole else f"if (8 * {tile} + 2 * t < {n}) "
            lines += [
                f"    XP_ALL for (int j = 0; j < {v.tiles}; ++j) {guard}{{",
                f"      xp_vector<{out}, 2> q;",
                f"      q.a[0] = {out}({v.name}[m][j][2 * h]);",
                f"      q.a[1] = {out}({v.name}[m][j][2 * h + 1]);",
                f"      *(xp_vector<{out}, 2>*)(r + 8 * {tile} + 2 * t) = q;",
                "    }",
            ]
        else:
            guard = "" if whole else f"if (8 * {tile} + 2 * t + c < {n}) "
            lines += [
                f"    XP_ALL for (int j = 0; j < {v.tiles}; ++j)",
                "      XP_ALL for (int c = 0; c < 2; ++c)",
                f"        {guard}r[(8 * {tile} + 2 * t + c) * (I)o_j] =",
                f"          {out}({v.name}[m][j][2 * h + c]);",
            ]
        return [*lines, "  }", "}", "}"]

    def _loops(self, prefetch: bool, watch: int) -> list[str]:
        """Statements that take all tiles of a group through the network.

        The first loop trusts that numbers stay in range. The second one, which
        looks, starts where that went wrong: at a result that is not finite.
        """
        v = self.values[self.graph.out]
        trusting, careful = self._versions()
        store = [] if self.stored else self._store(v)
        done = "--rounds == 0" if self._copies else "tile >= tiles"
        # the input of a tile is read one tile ahead
        head, tail = ["#pragma unroll 1\nfor (;;) {"], "}"
        take = ["const I now = tile;", "tile += stride;", *self.take]
        first: list[str] = []
        if prefetch:
            first, take = ["fetch();"], [*take, "fetch();"]
        else:
            head = [*head, "fetch();"]
        end = [f"if ({done}) break;", tail]
        last = [*first, *head, *take, *careful, *store, *end]
        if not self._twice:
            return last
        if not self.stored:
            self.lines = []
            self._each(v, [f"odd = fmaf({self._element(v, v)}, 0, odd);"])
            trusting += self.lines
        meet = ["int& first_wrong = xp_first[threadIdx.x / XP_THREADS];"]
        if self._copies:
            meet = ["int& first_wrong = xp_first[0];"]
        return [
            "const I start = tile;",
            f"if (((const u32*)f)[{watch}] == 0) {{",
            "int round = 0, wrong = 0x7fffffff;",
            *first,
            *head,
            *take,
            "float odd = 0;  // infinity does become NaN in here, or is seen",
            "u32 seen = 0;",
            *trusting,
            *store,
            "if (odd != 0 || xp_infinite(seen)) wrong = wrong < round ? wrong : round;",
            "++round;",
            *end,
            "wrong = __reduce_min_sync(XP_WARP, wrong);",
            *meet,
            "if (lane == 0) atomicMin(&first_wrong, wrong);",
            "__syncthreads();" if self._copies else "xp_meet();",
            "if (first_wrong == 0x7fffffff) return;",
            "tile = start + first_wrong * stride;",
            *(["rounds = all_rounds - first_wrong;"] if self._copies else []),
            "}",
            *last,
        ]

    def _versions(self) -> tuple[list[str], list[str]]:
        """The lines of the network without and with a look at the range."""
        trusting = [s.removeprefix(_TRUST) for s in self.lines if not s.startswith(_CARE)]
        careful = [s.removeprefix(_CARE) for s in self.lines if not s.startswith(_TRUST)]
        return trusting, careful if self.packing.scaled else trusting

    @property
    def _twice(self) -> bool:
        """Whether there is a loop that trusts."""
        return bool(self.packing.products) and self.packing.scaled

    @property
    def _copies(self) -> bool:
        """Whether a warp of its own copies weights."""
        return self.streams and self.target.core == "wgmma"

    def _chunks(self) -> list[str]:
        """Tables of what to copy, in order: start and size in bytes, without and with care."""
        lists: list[list[tuple[int, int]]] = [[], []]
        for i, p in self.packing.products.items():
            size = self.packing.bytes_of(p) // p.chunks
            own = [(p.factors_at + c * size, size) for c in range(p.chunks)]
            lists[0] += own
            lists[1] += own * (2 if self.wide.get(i) else 1)
        if not self.packing.scaled:
            lists[1] = lists[0]
        lines = []
        for name, rows in zip(("xp_trusting", "xp_careful"), lists, strict=True):
            text = ", ".join(f"{{{at}, {size}}}" for at, size in rows)
            lines.append(f"__constant__ int {name}[{len(rows)}][2] = {{{text}}};")
        return lines

    def _copying(self, floats: int, watch: int) -> list[str]:
        """What the warp that copies does."""
        twice = [
            f"if (((const u32*)f)[{watch}] == 0) {{",
            "  if (threadIdx.x % XP_THREADS == 0)",
            "    for (int round = 0; round < rounds; ++round)",
            "      for (const auto& c : xp_trusting) xp_copy(ring, from, c, stage, phase);",
            "  __syncthreads();",
            "  if (xp_first[0] == 0x7fffffff) return;",
            "  rounds -= xp_first[0];",
            "}",
        ]
        return [
            "if (threadIdx.x >= XP_GROUPS * XP_THREADS) {",
            *(['asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");'] if self._lends else []),
            f"  const unsigned char* const from = (const unsigned char*)weights + {floats};",
            "  phase = 1;",
            *(twice if self._twice else []),
            "  if (threadIdx.x % XP_THREADS == 0)",
            "    for (int round = 0; round < rounds; ++round)",
            "      for (const auto& c : xp_careful) xp_copy(ring, from, c, stage, phase);",
            "  return;",
            "}",
            *(['asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");'] if self._lends else []),
        ]

    @property
    def _lends(self) -> bool:
        """Whether the warps that copy give registers away."""
        return self._arrangement()[1] == 2

    def _numbers(self) -> tuple[list[str], dict[str, int]]:
        """Names of the numbers of `geometry` and `placement`, and the values that are known."""
        access, n = self.access, self._size(self.graph.entry)
        names = ["n_slices", "n_behind", "s_m"]
        for d, count in (("b", access.before), ("c", access.behind)):
            names += [f"{k}_{d}{i}" for i in range(count) for k in "ns"]
        names += ["o_row", "o_j", *(["n_group", "o_group"] if access.grouped else [])]
        fixed: dict[str, int] = {}
        if access.behind:
            fixed["o_row"] = 1
        else:
            fixed |= {"n_behind": 1, "o_row": math.prod(self.graph.result.shape), "o_j": 1}
        if access.dense:
            fixed |= {"s_c0": 1} if access.behind else {"s_b0": n, "s_m": 1}
        return names, fixed

    def _finish(self) -> TensorKernel:
        graph, access, target, m = self.graph, self.access, self.target, self.m
        watch = 0
        if self._twice:
            watch = self._floats(1, partial(self.packing.watch, self._shows_nan))
        entry = self.values[graph.entry]
        held = f"[{m}][{entry.size}][2]" if entry.slots is None else f"[{m}][{entry.tiles}][4]"
        floats = -(-self.floats * 4 // 128) * 128
        size = floats + self.factors
        threads, groups = 32 * target.warps, self._arrangement()[1]
        # registers are given to warps by fours; those that only copy leave theirs to the others
        helpers = 128 if self._copies else 0
        spill = self.spill * threads * groups
        staged = floats if self.streams else size  # bytes copied at the start
        shared, stages = staged + spill, 0
        stage = -(-self.stage // 128) * 128
        if self._copies:
            stages = min(4, (target.shared - 1024 - shared) // stage)
            shared += stages * stage
        if shared > target.shared - 1024 or (self._copies and stages < 2):
            shared += max(0, 2 - stages) * stage
            raise Refused(f"{shared:,} bytes do not fit in {target.shared:,} of shared memory")
        ahead = entry.size * 2 if entry.slots is None else entry.tiles * 4
        prefetch = ahead * m <= 64  # more would not fit in registers
        kind = "f16" if self.packing.scaled else "bf16"
        core = [cores.MMA, cores.mma(kind)]
        factors = "shared" if not self.streams else "(const unsigned char*)weights"
        setup = [f"const unsigned char* const factors = {factors} + {floats};"]
        if target.core == "wgmma":
            core = [cores.WGMMA, *(cores.wgmma(T, kind) for T in sorted(self.instructions))]
            setup += [
                "const u64 factors_at = xp_descriptor(factors);",
                'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
            ]
        if spill:
            setup.append(f"uint4* const spill = (uint4*)(shared + {staged});")
        begin = ["if (tile >= tiles) return;"]
        if self._copies:
            core += [cores.STREAM, *self._chunks()]
            setup += [
                f"unsigned char* const ring = shared + {staged + spill};",
                "const u64 ring_at = xp_descriptor(ring);",
                "if (threadIdx.x < XP_STAGES) {",
                "  xp_barrier(xp_full + threadIdx.x, 1);",
                f"  xp_barrier(xp_empty + threadIdx.x, XP_GROUPS * {target.warps});",
                "}",
                'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");',
            ]
            begin = [
                "const int all_rounds = (tiles + stride - 1) / stride;",
                "int rounds = all_rounds;",
                "u32 stage = 0, phase = 0;",
                *self._copying(floats, watch),
            ]
        name = "xpapply_tensor"
        body = f"""
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ int xp_first[32];
  #pragma unroll 8
  for (int k = threadIdx.x; k < {staged // 16}; k += blockDim.x) ((uint4*)shared)[k] = weights[k];
  if (threadIdx.x < 32) xp_first[threadIdx.x] = 0x7fffffff;
  const float* const f = (const float*)shared;
  {_indented(setup, 2)}
  __syncthreads();
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int own = (threadIdx.x & {threads - 1}) / 32 * {16 * m if access.rows else 16}
    + g * {2 * m if access.rows else 1};
  const I tiles = ((I)n_slices + XP_SLICES - 1) / XP_SLICES;
  const I stride = gridDim.x * XP_GROUPS;
  I tile = threadIdx.x / XP_THREADS * gridDim.x + blockIdx.x;
  {_indented(begin, 2)}
  IN ahead{held};
  const auto fetch = [&]() {{
    {_indented(self._fetch(), 4)}
  }};
  {_indented(self._loops(prefetch, watch), 2)}
"""
        numbers, fixed = self._numbers()
        used = [p for p in numbers if p not in fixed and re.search(rf"\b{p}\b", body)]
        source = f"""
#define XP_LEAST {cores.LEAST}f
#define XP_SLICES {16 * target.warps * m}
#define XP_STEP {16 * target.warps}
#define XP_THREADS {threads}
#define XP_TAKERS {threads * groups}
#define XP_GROUPS ((blockDim.x - {helpers}) / XP_THREADS)
#define XP_STAGES {stages}
#define XP_STAGE_BYTES {stage}
{cores.LIBRARY}{HELPERS}{chr(10).join(core)}
typedef {TYPES[graph.input.dtype]} IN;
typedef {TYPES[graph.result.dtype]} OUT;
typedef {"long long" if access.wide else "int"} I;
template <int N> XP_FN xp_vector<IN, N> xp_read(const IN* const p) {{
  return *(const xp_vector<IN, N>*)p;
}}
{chr(10).join(f"#define {k} {v}" for k, v in fixed.items())}
extern "C" __global__ void __launch_bounds__({groups * threads + helpers}, 1)
{name}(
  const IN* __restrict__ const x, const uint4* __restrict__ const weights,
  OUT* __restrict__ const y, {", ".join(f"const long long {p}" for p in used)}) {{
{body}}}
"""
        pieces = [(4 * at, piece) for at, piece in self.pieces]
        pieces += [(floats + at, piece) for at, piece in self.factor_pieces]
        return TensorKernel(
            source=source,
            name=name,
            target=target,
            slices=16 * target.warps * m,
            threads=threads,
            groups=groups,
            helpers=helpers,
            shared=shared,
            arguments=tuple(numbers.index(p) for p in used),
            packing=self._quads(),
            _graph=graph,
            _size=-(-size // 16) * 16,
            _pieces=pieces,
        )


def _indented(lines: Sequence[str], by: int) -> str:
    return ("\n" + " " * by).join(lines)
