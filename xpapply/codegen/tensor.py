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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC, Region, regions
from . import cores
from .cxx import HELPERS, TYPES, literal, statements
from .kernels import Access, locate
from .rows import prepare

Slots = tuple[int, ...]
"""The feature in each place of a spread value, 8 per tile; -1 for none."""

_WHOLE_INPUT = 4
"""An input of so few numbers is multiplied by plain multiply-adds: no rounding, no tiles."""
_WHOLE_RESULT = 2
"""So is a product of so few results: splitting its factor would take more work."""
_MOST_TILES = 16
"""Features of 8 that a spread value may have: what registers hold."""

_C = {
    "exp": "xp_exp({0})",
    "erfc": "xp_erfc({0})",
    "divide": "__fdividef({0}, {1})",
}
_HOMOGENEOUS = frozenset(("relu", "abs", "negative"))
_FINITE = frozenset(("relu", "tanh", "add", "multiply", "subtract", "abs", "negative"))


_CARE = "/* care */ "


class _Refused(Exception):
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
    """

    core: str
    precision: str

    @property
    def warps(self) -> int:
        """Warps that take a tile together."""
        return 4 if self.core == "wgmma" else 1


@dataclass(frozen=True)
class Value:
    """Where a value of the graph is: the name of its array, and how it is laid out.

    `slots` is None for whole values, which have `size` numbers.
    """

    name: str
    size: int
    slots: Slots | None

    @property
    def tiles(self) -> int:
        """Tiles of a spread value."""
        assert self.slots is not None
        return len(self.slots) // 8


@dataclass
class _Product:
    """One product on tensor cores, as packing wants it."""

    node: int
    weights: int
    inputs: Slots
    outputs: Slots
    bias: int | None
    follows: _Product | None = None
    """the product whose results this one's input scale was multiplied into"""
    factor_at: int = -1
    """bytes where the factors lie"""
    affine_at: int = -1
    """float where scales and biases lie"""
    scale_at: int = -1
    """float where the input's scale lies; -1 if the product before has it"""


@dataclass
class TensorKernel:
    """Source and launch of a kernel; `pack` lays the weights out for it.

    The arguments are the array, the weights, the output, and the same numbers
    as for a `NetworkKernel`, each of 64 bits.
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
    shared: int
    """bytes of shared memory per block, and of packed weights"""
    packing: Slots | None
    """what `pack` depends on beside the graph: where the input's features lie"""
    _graph: Graph = field(repr=False)
    _pieces: list[tuple[int, Callable[[Callable[[int], np.ndarray]], np.ndarray]]] = field(
        repr=False
    )

    def pack(self, consts: Sequence[np.ndarray]) -> np.ndarray:
        """The weights as bytes."""
        nodes = self._graph.nodes

        def value(i: int) -> np.ndarray:
            while nodes[i].op == "reshape":
                i = nodes[i].args[0]
            return consts[nodes[i].attr("k")]

        packed = np.zeros(self.shared, np.uint8)
        for at, piece in self._pieces:
            raw = np.ascontiguousarray(piece(value)).view(np.uint8).reshape(-1)
            packed[at : at + raw.size] = raw
        return packed


def why_not(graph: Graph, target: Target, shared: int) -> str | None:
    """Why there is no such kernel for `graph` on a device with so much shared memory, or None."""
    try:
        kernel = _Writer(prepare(graph), Access(0, 0), target, natural=True).kernel()
    except _Refused as refusal:
        return str(refusal)
    if kernel.shared > shared:
        return f"{kernel.shared:,} bytes of weights do not fit in {shared:,} of shared memory"
    return None


def tensor_kernel(graph: Graph, access: Access, target: Target) -> TensorKernel:
    """The kernel of a graph for one way of access."""
    graph = prepare(graph)
    try:
        return _Writer(graph, access, target).kernel()
    except _Refused:
        return _Writer(graph, access, target, natural=True).kernel()


class _Writer:
    def __init__(
        self, graph: Graph, access: Access, target: Target, *, natural: bool = False
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
        self.products: dict[int, _Product] = {}
        self.pieces: list[tuple[int, Callable]] = []  # floats, by number
        self.floats = 0
        self.factors = 0  # bytes of factors, which lie behind the floats
        self.factor_pieces: list[tuple[int, Callable]] = []
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
            raise _Refused("the result does not depend on the slice")
        if not any(self._affine(i) for i in range(len(graph.nodes))):
            raise _Refused("no product with a matrix of weights")
        for i, n in enumerate(graph.nodes):
            if n.aval.dtype not in TYPES:
                raise _Refused(f"dtype {n.aval.dtype} has no C++ type")
            kind = OPS[n.op].kind
            if not self.dependent[i]:
                if kind is not Kind.LEAF and n.op != "reshape":
                    raise _Refused(f"{n.op} of constants")
                if kind is not Kind.LEAF or n.op == "scalar":
                    continue
                if n.aval.dtype != "float32":
                    raise _Refused(f"{n.aval.dtype} constants")
                continue
            inner = n.op not in ("input",) and i != graph.out
            if inner and n.aval.dtype not in ("float32", "bool"):
                raise _Refused(f"{n.aval.dtype} values")
            if kind is Kind.ELEMENTWISE and not OPS[n.op].c:
                raise _Refused(f"{n.op} has no C++ expression")
        if graph.result.dtype not in ("float32", "float16"):
            raise _Refused(f"{graph.result.dtype} results")

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
        return self.access.vector and self._size(self.graph.entry) % 16 == 0 and not self.natural

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
                return flat if slots is None else _laid_out(flat, slots)

            self.known[key] = self._floats(size, piece)
        return self.known[key]

    def _number(self, i: int, like: Value) -> str:
        """An element of a constant beside an element of a value."""
        if self._size(i) == 1:
            return f"f[{self._constant(i, None)}]"
        if self._size(i) != like.size:
            raise _Refused(f"a constant of {self._size(i)} numbers beside a value of {like.size}")
        at = self._constant(i, like.slots)
        return f"f[{at} + k]" if like.slots is None else f"f[{at} + 8 * j + 2 * t + (e & 1)]"

    # --- text -------------------------------------------------------------------------

    def _emit(self, *lines: str) -> None:
        self.lines += lines

    def _care(self, *lines: str) -> None:
        """Lines for tiles whose range is looked at."""
        self.lines += [_CARE + line for line in lines]

    def _declare(self, i: int, size: int, slots: Slots | None) -> Value:
        v = Value(f"v{i}", size, slots)
        self.values[i] = v
        if slots is None:
            self._emit(f"float {v.name}[{self.m}][{size}][2];")
        else:
            if v.tiles > _MOST_TILES:
                raise _Refused(f"a value of {size} numbers does not fit in registers")
            self._emit(f"float {v.name}[{self.m}][{v.tiles}][4];")
        return v

    def _each(self, v: Value, body: Sequence[str]) -> None:
        """A loop over all numbers of a value: indices m, then j and e, or k and h."""
        self._emit(f"XP_ALL for (int m = 0; m < {self.m}; ++m) {{")
        if v.slots is None:
            self._emit(
                f"XP_ALL for (int k = 0; k < {v.size}; ++k) {{",
                "XP_ALL for (int h = 0; h < 2; ++h) {",
            )
        else:
            self._emit(
                f"XP_ALL for (int j = 0; j < {v.tiles}; ++j) {{",
                "XP_ALL for (int e = 0; e < 4; ++e) {",
            )
        self._emit(*("  " + b for b in body), "}}}")

    @staticmethod
    def _element(v: Value, like: Value) -> str:
        if v.slots is None:
            half = "h" if like.slots is None else "(e >> 1)"
            return f"{v.name}[m][{'0' if v.size == 1 else 'k'}][{half}]"
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
        if self.target.core == "wgmma":
            table: tuple[tuple[int, int, int], ...] = (
                (16, 4, 4),
                (32, 2, 5),
                (64, 1, 5),
                (96, 1, 4),
                (_MOST_TILES * 8, 1, 3),
            )
        else:
            table = ((32, 2, 16), (64, 1, 12), (_MOST_TILES * 8, 1, 8))
        for width, tiles, groups in table:
            if widest <= width:
                return tiles, groups
        raise _Refused(f"a value of {widest} numbers does not fit in registers")

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
            raise _Refused("a value spread out from one number")
        like = full[0]
        for v in full:
            if v.slots != like.slots:
                raise _Refused("operands that are laid out differently")
        for a in operands:
            v = self.values[a]
            if v.size not in (1, size) or (v.size == 1 and v.slots is not None):
                raise _Refused(f"{v.size} numbers beside {size}")
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

        out = self._declare(region.out, size, like.slots)
        body = statements(graph, nodes, operand, forms=_C)
        result = f"t{region.out}" if region.out in nodes else operand(region.out)
        self._each(out, [*body, f"{self._element(out, out)} = {result};"])
        if any(graph.nodes[i].op not in _FINITE for i in nodes):
            self._mask(out, "0")

    def _mask(self, v: Value, number: str) -> None:
        """Places without a feature get a number that does no harm."""
        if v.slots is None or -1 not in v.slots:
            return
        for j in range(v.tiles):
            places = v.slots[8 * j : 8 * j + 8]
            if -1 not in places:
                continue
            bits = sum(1 << c for c, k in enumerate(places) if k < 0)
            self._emit(
                f"XP_ALL for (int m = 0; m < {self.m}; ++m)",
                "XP_ALL for (int e = 0; e < 4; ++e)",
                f"  if ({bits} >> (2 * t + (e & 1)) & 1) {v.name}[m][{j}][e] = {number};",
            )

    # --- products ---------------------------------------------------------------------

    def _product(self, i: int) -> None:
        node = self.graph.nodes[i]
        x = self.values[node.args[1]]
        if self.graph.nodes[node.args[0]].op != "const":
            raise _Refused("weights that are not a constant")
        n = self._size(i)
        if x.slots is None:
            self._from_whole(i, x, n)
        elif n <= _WHOLE_RESULT:
            self._to_whole(i, x, n)
        else:
            self._tensor(i, x, n)

    def _natural(self, n: int) -> Slots:
        return tuple(k if k < n else -1 for k in range(-(-n // 8) * 8))

    def _from_whole(self, i: int, x: Value, n: int) -> None:
        """Plain multiply-adds from few numbers."""
        w = self.graph.nodes[i].args[0]
        bias = self._bias(i)
        slots = None if n <= _WHOLE_RESULT else self._natural(n)
        v = self._declare(i, n, slots)
        count = n if slots is None else len(slots)

        def piece(value: Callable[[int], np.ndarray]) -> np.ndarray:
            columns = value(w).T.astype(np.float32)
            return columns if slots is None else np.stack([_laid_out(c, slots) for c in columns])

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

    def _to_whole(self, i: int, x: Value, n: int) -> None:
        """Plain multiply-adds to few numbers, summed over the lanes of a slice."""
        w = self.graph.nodes[i].args[0]
        bias = self._bias(i)
        v = self._declare(i, n, None)
        slots = x.slots
        assert slots is not None

        def piece(value: Callable[[int], np.ndarray]) -> np.ndarray:
            return np.stack([_laid_out(row, slots) for row in value(w).astype(np.float32)])

        at = self._floats(n * len(slots), piece)
        start = "0" if bias is None else self._number(bias[1], v)
        self._emit(f"XP_ALL for (int k = 0; k < {n}; ++k) {{")
        self._emit(
            f"  float s[{self.m}][2] = {{}};",
            f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j) {{",
            f"    const float2 w = *(const float2*)(f + {at} + k * {len(slots)} + 8 * j + 2 * t);",
            f"    XP_ALL for (int m = 0; m < {self.m}; ++m)",
            "      XP_ALL for (int h = 0; h < 2; ++h)",
            f"        s[m][h] = fmaf({x.name}[m][j][2 * h + 1], w.y, "
            f"fmaf({x.name}[m][j][2 * h], w.x, s[m][h]));",
            "  }",
            f"  XP_ALL for (int m = 0; m < {self.m}; ++m)",
            "    XP_ALL for (int h = 0; h < 2; ++h)",
            f"      {v.name}[m][k][h] = xp_sum4(s[m][h]) + {start};",
            "}",
        )

    def _tensor(self, i: int, x: Value, n: int) -> None:
        target, T, m = self.target, -(-n // 8), self.m
        w = self.graph.nodes[i].args[0]
        bias = self._bias(i)
        assert x.slots is not None
        K = -(-len(x.slots) // 16)
        slots = self._natural(n)
        inputs = x.slots + (-1,) * (16 * K - len(x.slots))
        if target.core == "wgmma" and T * 8 > 256:
            raise _Refused(f"a product of {n} numbers")
        product = _Product(i, w, inputs, slots, None if bias is None else bias[1])
        self.products[i] = product
        passes = 2 if target.precision == "highest" else 1
        dtype = "bf16" if target.precision == "medium" else "f16"
        scaled = target.precision != "medium"
        size = 16 * K * 8 * T * 2  # bytes of one factor
        self.factors = -(-self.factors // 128) * 128
        product.factor_at = self.factors
        self.factors += size * passes
        self.factor_pieces.append((product.factor_at, lambda value: self._pack(product, value)))
        per = 2 if scaled else 1
        product.affine_at = self._floats(
            8 * T * per, lambda value: self._pack_affine(product, value), align=4
        )
        source = self._folds(self.graph.nodes[i].args[1])
        all_m = f"XP_ALL for (int m = 0; m < {m}; ++m)"
        if scaled:
            if source is not None and source in self.products:
                product.follows = self.products[source]
            else:
                product.scale_at = self._floats(
                    len(x.slots), lambda value: self._pack_scale(product, value)
                )
        name = f"p{i}"
        both = target.precision == "highest"
        self._emit(f"u32 {name}_hi[{m}][{K}][4]" + (f", {name}_lo[{m}][{K}][4];" if both else ";"))
        if scaled:
            self._care(f"float {name}_back[{m}][2]; bool {name}_off[{m}];")
        self._emit(f"{all_m} {{")
        source_name = f"{x.name}[m]"
        if product.scale_at >= 0:
            self._emit(
                f"float scaled[{x.tiles}][4];",
                f"XP_ALL for (int j = 0; j < {x.tiles}; ++j)",
                "  XP_ALL for (int e = 0; e < 4; ++e)",
                f"    scaled[j][e] = {source_name}[j][e] * "
                f"f[{product.scale_at} + 8 * j + 2 * t + (e & 1)];",
            )
            source_name = "scaled"
        hi, lo = f"{name}_hi[m]", f"{name}_lo[m]"
        if both:
            self._emit(f"xp_split<{x.tiles}>({source_name}, {hi}, {lo});")
        else:
            bf16 = "false" if scaled else "true"
            self._emit(f"xp_round<{x.tiles}, {bf16}>({source_name}, {hi});")
        if scaled:
            self._care(
                f"{name}_off[m] = !xp_fits<{K}>({hi});",
                f"if ({name}_off[m]) xp_rescale<{x.tiles}, {'true' if both else 'false'}>"
                f"({source_name}, {hi}, {lo if both else hi}, {name}_back[m]);",
            )
        self._emit("}")
        v = self._declare(i, n, slots)
        if target.core == "wgmma":
            self._wgmma(v, name, product, K, T, dtype, both, size)
        else:
            self._mma(v, name, product, K, T, dtype, both)
        at = product.affine_at
        if target.core == "wgmma":
            self._emit("xp_wait<0>();", f"{all_m} xp_hold({v.name}[m]);")
        if scaled:
            self._care(f"{all_m} if ({name}_off[m]) xp_multiply({v.name}[m], {name}_back[m]);")
            self._emit(
                f"XP_ALL for (int j = 0; j < {T}; ++j) {{",
                f"  const float4 c = *(const float4*)(f + {at} + 16 * j + 4 * t);",
                f"  {all_m}",
                "    XP_ALL for (int e = 0; e < 4; ++e)",
                f"      {v.name}[m][j][e] = fmaf({v.name}[m][j][e], "
                "e & 1 ? c.y : c.x, e & 1 ? c.w : c.z);",
                "}",
            )
        elif bias is not None:
            self._emit(
                f"XP_ALL for (int j = 0; j < {T}; ++j) {{",
                f"  const float2 c = *(const float2*)(f + {at} + 8 * j + 2 * t);",
                f"  {all_m}",
                f"    XP_ALL for (int e = 0; e < 4; ++e) {v.name}[m][j][e] += e & 1 ? c.y : c.x;",
                "}",
            )

    def _wgmma(
        self,
        v: Value,
        name: str,
        product: _Product,
        K: int,
        T: int,
        dtype: str,
        both: bool,
        size: int,
    ) -> None:
        self.instructions.add(T)
        step, m = T * 256 >> 4, self.m
        self._emit("{", f"const u64 w = factors_at + {product.factor_at >> 4};", "xp_begin();")
        terms = [("hi", 0)]
        if both:
            terms = [("lo", 0), ("hi", size >> 4), ("hi", 0)]
        self._emit(f"XP_ALL for (int m = 0; m < {m}; ++m) {{")
        first = True
        for part, offset in terms:
            more = "s > 0" if first else "1"
            self._emit(
                f"XP_ALL for (int s = 0; s < {K}; ++s) xp_wgmma_{dtype}("
                f"{v.name}[m], {name}_{part}[m][s], w + {offset} + s * {step}, {more});"
            )
            first = False
        self._emit("}", "xp_commit();", "}")

    def _mma(
        self, v: Value, name: str, product: _Product, K: int, T: int, dtype: str, both: bool
    ) -> None:
        m = self.m
        vector = "uint4" if both else "uint2"
        self._emit(
            f"const {vector}* const {name}_w =",
            f"  (const {vector}*)(factors + {product.factor_at}) + lane;",
            f"XP_ALL for (int j = 0; j < {T}; ++j) {{",
            f"  float big[{m}][4] = {{}};",
            *([f"  float small[{m}][4] = {{}};"] if both else []),
            f"  XP_ALL for (int s = 0; s < {K}; ++s) {{",
            f"    const {vector} w = {name}_w[(j * {K} + s) * 32];",
            f"    XP_ALL for (int m = 0; m < {m}; ++m) {{",
        )
        if both:
            self._emit(
                f"      xp_mma_{dtype}(small[m], {name}_lo[m][s], w.x, w.y);",
                f"      xp_mma_{dtype}(small[m], {name}_hi[m][s], w.z, w.w);",
            )
        self._emit(
            f"      xp_mma_{dtype}(big[m], {name}_hi[m][s], w.x, w.y);",
            "    }",
            "  }",
            f"  XP_ALL for (int m = 0; m < {m}; ++m)",
            f"    XP_ALL for (int e = 0; e < 4; ++e) {v.name}[m][j][e] = big[m][e]"
            + (" + small[m][e];" if both else ";"),
            "}",
        )

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

    # --- packing ----------------------------------------------------------------------

    def _exponents(
        self, product: _Product, value: Callable
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W in float64 with both scales in it, and the exponents of its inputs and outputs."""
        w = value(product.weights).astype(np.float64)
        largest = np.abs(w).max(0)
        p = np.clip(self._base(product, value) + _exponent(largest), -26, 20)
        p[largest == 0] = 0
        w = np.ldexp(w, -p)
        q = np.clip(12 - _exponent(np.abs(w).max(1)), -110, 110)
        q[np.abs(w).max(1) == 0] = 0
        return np.ldexp(w, q[:, None]), p, q

    def _base(self, product: _Product, value: Callable) -> int:
        """Terms of a sum are expected to be around 1: they are scaled by 2 to this power.

        So it is in trained networks, but for the last layer, whose results have any unit;
        there it is the input that is around 1.
        """
        if product is not self._last:
            return 10
        largest = float(np.abs(value(product.weights)).max())
        return 8 - int(_exponent(np.array(largest))) if largest else 10

    @property
    def _last(self) -> _Product:
        return list(self.products.values())[-1]

    def _pack_watch(self, value: Callable) -> np.ndarray:
        """Whether the range has to be looked at from the start.

        Without that, numbers beyond the range become NaN and are noticed; numbers
        below it lose what a bias of ordinary size hides, if there is one.
        """
        watch = not self._shows_nan
        for p in self.products.values():
            bias = 0.0 if p.bias is None else float(np.abs(value(p.bias)).max())
            watch |= not bias >= 2.0 ** (2 - self._base(p, value))
        return np.array([watch], np.uint32)

    def _pack(self, product: _Product, value: Callable) -> np.ndarray:
        bf16 = self.target.precision == "medium"
        w = value(product.weights).astype(np.float64)
        if not bf16:
            w = self._exponents(product, value)[0]
        placed = np.zeros((len(product.outputs), len(product.inputs)))
        rows, columns = np.array(product.outputs), np.array(product.inputs)
        placed[np.ix_(rows >= 0, columns >= 0)] = w[np.ix_(rows[rows >= 0], columns[columns >= 0])]
        if bf16:
            parts = [_bfloat16(placed.astype(np.float32))]
        else:
            hi = placed.astype(np.float16)
            parts = [hi]
            if self.target.precision == "highest":
                parts.append((placed - hi.astype(np.float64)).astype(np.float16))
        parts = [part.view(np.uint16) for part in parts]
        T, K = len(rows) // 8, len(columns) // 16
        if self.target.core == "wgmma":
            # [step][tile][half of the step][row of the tile][8 terms]
            blocks = [p.reshape(T, 8, K, 2, 8).transpose(2, 0, 3, 1, 4) for p in parts]
            return np.concatenate([b.reshape(-1) for b in blocks])
        # [tile][step][lane = 4 g + t][part][half of the step][2 terms]; row g, terms 2 t
        stacked = np.stack([p.reshape(T, 8, K, 2, 4, 2) for p in parts])
        return stacked.transpose(1, 3, 2, 5, 0, 4, 6).reshape(-1)

    def _pack_affine(self, product: _Product, value: Callable) -> np.ndarray:
        n = sum(k >= 0 for k in product.outputs)
        b = np.zeros(n, np.float32)
        if product.bias is not None:
            b = np.broadcast_to(value(product.bias).reshape(-1), (n,)).astype(np.float32)
        if self.target.precision == "medium":
            return _laid_out(b, product.outputs)
        _, _, q = self._exponents(product, value)
        fold = np.zeros(n, int)
        for later in self.products.values():
            if later.follows is product:
                fold = self._exponents(later, value)[1]
        scale = np.ldexp(np.float32(1), fold - q).astype(np.float32)
        pair = [
            _laid_out(a, product.outputs).reshape(-1, 2)
            for a in (scale, np.ldexp(b, fold).astype(np.float32))
        ]
        return np.stack(pair, 1)

    def _pack_scale(self, product: _Product, value: Callable) -> np.ndarray:
        _, p, _ = self._exponents(product, value)
        return _laid_out(np.ldexp(np.float32(1), p).astype(np.float32), product.inputs)

    # --- reductions and layouts -------------------------------------------------------

    def _reduce(self, i: int) -> None:
        node = self.graph.nodes[i]
        x = self.values[node.args[0]]
        if self._size(i) != 1:
            raise _Refused(f"{node.op} along one of several axes")
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
                raise _Refused("joining a constant")
            for p in parts:
                if p.slots is None:
                    raise _Refused("joining a value of few numbers")
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
        raise _Refused(f"{n.op} of a value in registers")

    # --- the frame --------------------------------------------------------------------

    def _fetch(self) -> list[str]:
        """Statements that read the input of a tile into `ahead`."""
        n = self._size(self.graph.entry)
        x = self.values[self.graph.entry]
        access = self.access
        stride = "(I)1" if access.vector else "(I)s_m"
        # where the lane's own features start: added before the one multiplication by the item size
        start = "0"
        if x.slots is not None:
            start = "4 * t" if self._quads() else f"2 * t * {stride}"
        lines = [
            f"XP_ALL for (int m = 0; m < {self.m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{",
            "  I row = tile * XP_SLICES + m * XP_STEP + own + 8 * h;",
            "  row = row < (I)n_slices ? row : (I)n_slices - 1;",
            f"  I at = {start};",
            *("  " + s for s in locate(access)),
            "  const IN* const p = x + at;",
        ]
        if x.slots is None:
            lines.append(
                f"  XP_ALL for (int k = 0; k < {n}; ++k) ahead[m][k][h] = __ldg(p + k * {stride});"
            )
        elif self._quads():
            lines += [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; j += 2) {{",
                "    const xp_vector<IN, 4> q = xp_read<4>(p + 8 * j);",
                "    ahead[m][j][2 * h] = q.a[0]; ahead[m][j][2 * h + 1] = q.a[1];",
                "    ahead[m][j + 1][2 * h] = q.a[2]; ahead[m][j + 1][2 * h + 1] = q.a[3];",
                "  }",
            ]
        elif access.vector and n % 2 == 0:
            guard = "" if n % 8 == 0 else f"if (8 * j + 2 * t < {n}) "
            lines += [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j) {{",
                "    xp_vector<IN, 2> q = {};",
                f"    {guard}q = xp_read<2>(p + 8 * j);",
                "    ahead[m][j][2 * h] = q.a[0]; ahead[m][j][2 * h + 1] = q.a[1];",
                "  }",
            ]
        else:
            guard = "" if n % 8 == 0 else f"8 * j + 2 * t + c < {n} ? "
            other = "" if n % 8 == 0 else " : IN(0)"
            lines += [
                f"  XP_ALL for (int j = 0; j < {x.tiles}; ++j)",
                "    XP_ALL for (int c = 0; c < 2; ++c) ahead[m][j][2 * h + c] =",
                f"      {guard}xp_read<1>(p + (8 * j + c) * {stride}).a[0]{other};",
            ]
        return [*lines, "}"]

    def _store(self) -> list[str]:
        """Statements that write the results of tile `now`."""
        v = self.values[self.graph.out]
        out, n = TYPES[self.graph.result.dtype], v.size
        row = "row * (I)o_row"
        if self.access.grouped:
            row = "row % (I)n_group * (I)o_row + row / (I)n_group * (I)o_group"
        lines = [
            f"XP_ALL for (int m = 0; m < {self.m}; ++m) XP_ALL for (int h = 0; h < 2; ++h) {{",
            "  const I row = now * XP_SLICES + m * XP_STEP + own + 8 * h;",
            "  if (row < (I)n_slices) {",
            f"    {out}* const r = y + {row};",
        ]
        if v.slots is None:
            for k in range(n):
                lines.append(f"    if (t == {k % 4}) r[{k} * (I)o_j] = {out}({v.name}[m][{k}][h]);")
        elif v.slots != self._natural(n):
            raise _Refused("a result that is the input, or joined from pieces")
        elif n % 2 == 0 and not self.access.behind:
            guard = "" if n % 8 == 0 else f"if (8 * j + 2 * t < {n}) "
            lines += [
                f"    XP_ALL for (int j = 0; j < {v.tiles}; ++j) {guard}{{",
                f"      xp_vector<{out}, 2> q;",
                f"      q.a[0] = {out}({v.name}[m][j][2 * h]);",
                f"      q.a[1] = {out}({v.name}[m][j][2 * h + 1]);",
                f"      *(xp_vector<{out}, 2>*)(r + 8 * j + 2 * t) = q;",
                "    }",
            ]
        else:
            guard = "" if n % 8 == 0 else f"if (8 * j + 2 * t + c < {n}) "
            lines += [
                f"    XP_ALL for (int j = 0; j < {v.tiles}; ++j)",
                "      XP_ALL for (int c = 0; c < 2; ++c)",
                f"        {guard}r[(8 * j + 2 * t + c) * (I)o_j] =",
                f"          {out}({v.name}[m][j][2 * h + c]);",
            ]
        return [*lines, "  }", "}"]

    def _loops(self, prefetch: bool, watch: int) -> list[str]:
        """Statements that take all tiles of a group through the network.

        The first loop trusts that numbers stay in range. The second one, which
        looks, starts where that went wrong: at a result that is not finite.
        """
        v = self.values[self.graph.out]
        take = ["const I now = tile;", "tile += stride;", *self.take]
        plain = [line for line in self.lines if not line.startswith(_CARE)]
        careful = [line.removeprefix(_CARE) for line in self.lines]
        head, tail = "#pragma unroll 1\nfor (;;) {", "}"
        ahead = ["fetch();"] if prefetch else []
        end = ["if (tile >= tiles) break;", *([] if prefetch else ["fetch();"]), tail]
        if len(plain) == len(careful) or self.target.precision != "highest":
            return ["fetch();", head, *take, *ahead, *careful, *self._store(), *end]
        self.lines = []
        self._each(v, [f"odd = fmaf({self._element(v, v)}, 0, odd);"])
        return [
            "const I start = tile;",
            f"if (((const u32*)f)[{watch}] == 0) {{",
            "int round = 0, wrong = 0x7fffffff;",
            "fetch();",
            head,
            *take,
            *ahead,
            *plain,
            "float odd = 0;  // infinity does become NaN in here",
            *self.lines,
            *self._store(),
            "if (odd != 0) wrong = wrong < round ? wrong : round;",
            "++round;",
            *end,
            "wrong = __reduce_min_sync(XP_WARP, wrong);",
            "int& first = xp_first[threadIdx.x / XP_THREADS];",
            "if (lane == 0) atomicMin(&first, wrong);",
            "xp_meet();",
            "if (first == 0x7fffffff) return;",
            "tile = start + first * stride;",
            "}",
            "fetch();",
            head,
            *take,
            *ahead,
            *careful,
            *self._store(),
            *end,
        ]

    def _finish(self) -> TensorKernel:
        graph, access, target, m = self.graph, self.access, self.target, self.m
        scaled = bool(self.products) and target.precision != "medium"
        watch = self._floats(1, self._pack_watch) if scaled else 0
        entry = self.values[graph.entry]
        held = f"[{m}][{entry.size}][2]" if entry.slots is None else f"[{m}][{entry.tiles}][4]"
        floats = -(-self.floats * 4 // 128) * 128
        shared = -(-(floats + self.factors) // 16) * 16
        ahead = entry.size * 2 if entry.slots is None else entry.tiles * 4
        prefetch = ahead * m <= 64  # more would not fit in registers
        threads = 32 * target.warps
        groups = self._arrangement()[1]
        numbers = ["n_slices", "n_behind", "s_m"]
        for d, count in (("b", access.before), ("c", access.behind)):
            numbers += [f"{k}_{d}{i}" for i in range(count) for k in "ns"]
        numbers += ["o_row", "o_j", *(["n_group", "o_group"] if access.grouped else [])]
        kind = "bf16" if target.precision == "medium" else "f16"
        core = cores.MMA + cores.mma(kind)
        if target.core == "wgmma":
            core = cores.WGMMA + "".join(cores.wgmma(T, kind) for T in sorted(self.instructions))
        fence = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
        name = "xpapply_tensor"
        source = f"""
#define XP_LEAST {np.float16(cores.LEAST).view(np.uint16)}u
{cores.LIBRARY}{HELPERS}{core}
typedef {TYPES[graph.input.dtype]} IN;
typedef {TYPES[graph.result.dtype]} OUT;
typedef {"long long" if access.wide else "int"} I;
#define XP_SLICES {16 * target.warps * m}
#define XP_STEP {16 * target.warps}
#define XP_THREADS {threads}
template <int N> XP_FN xp_vector<IN, N> xp_read(const IN* const p) {{
  return *(const xp_vector<IN, N>*)p;
}}
extern "C" __global__ void __launch_bounds__({groups * threads}, 1)
{name}(
  const IN* __restrict__ const x, const uint4* __restrict__ const weights,
  OUT* __restrict__ const y, {", ".join(f"const long long {p}" for p in numbers)}) {{
  extern __shared__ __align__(128) unsigned char shared[];
  #pragma unroll 8
  for (int k = threadIdx.x; k < {shared // 16}; k += blockDim.x) ((uint4*)shared)[k] = weights[k];
  const float* const f = (const float*)shared;
  const unsigned char* const factors = shared + {floats};
  {"const u64 factors_at = xp_descriptor(factors);" if target.core == "wgmma" else ""}
  __shared__ int xp_first[32];
  if (threadIdx.x < 32) xp_first[threadIdx.x] = 0x7fffffff;
  {fence if target.core == "wgmma" else ""}
  __syncthreads();
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int own = (threadIdx.x & {threads - 1}) / 32 * 16 + g;
  const I tiles = ((I)n_slices + XP_SLICES - 1) / XP_SLICES;
  const I stride = gridDim.x * (blockDim.x / {threads});
  I tile = threadIdx.x / {threads} * gridDim.x + blockIdx.x;
  if (tile >= tiles) return;
  IN ahead{held};
  const auto fetch = [&]() {{
    {_indented(self._fetch(), 4)}
  }};
  {_indented(self._loops(prefetch, watch), 2)}
}}
"""
        pieces = [(4 * at, piece) for at, piece in self.pieces]
        pieces += [(floats + at, piece) for at, piece in self.factor_pieces]
        return TensorKernel(
            source,
            name,
            target,
            16 * target.warps * m,
            threads,
            groups,
            shared,
            entry.slots,
            graph,
            pieces,
        )


def _indented(lines: Sequence[str], by: int) -> str:
    return ("\n" + " " * by).join(lines)


def _laid_out(a: np.ndarray, slots: Slots) -> np.ndarray:
    places = np.array(slots)
    out = np.zeros(len(slots), np.float32)
    out[places >= 0] = a[places[places >= 0]]
    return out


def _exponent(a: np.ndarray) -> np.ndarray:
    """floor(log2(a)) of positive numbers."""
    return np.frexp(np.asarray(a, np.float64))[1] - 1


def _bfloat16(a: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = a.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(a), 0x7FC0, rounded).astype(np.uint16)
