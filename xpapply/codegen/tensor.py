"""A whole network as one CUDA kernel on tensor cores.

A group of threads (a warp with mma.sync, four with wgmma) takes a tile of
slices through all layers at once. What is in registers is written in `spread`,
products in `products`; here is the frame around them: reading, storing, the loops
over tiles, and the launch.

Weights are packed once per model in the order in which the kernel reads them.
They are copied to shared memory once per block or, where they do not all fit,
stream from L2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import without_bfloat16
from . import cores
from .cxx import HELPERS, TYPES
from .factors import Piece
from .kernels import EVEN, Access, locate
from .products import Products
from .rows import prepare
from .spread import CARE, TRUST, Refused, Target, Value

__all__ = ["Refused", "Target", "TensorKernel", "tensor_kernel", "why_not"]


_TYPES = {**TYPES, "bfloat16": "bfloat16"}
"""C++ types of what is read and written; in between there is float32."""


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
    _pieces: list[tuple[int, Piece]] = field(repr=False)

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
    result = graph.result.dtype
    graph = prepare(without_bfloat16(graph))
    # the fastest first: four features of the input in one load, all weights in shared memory
    for streams in (False, True):
        for natural in (False, True):
            try:
                how = {"natural": natural, "streams": streams}
                return _Kernel(graph, access, target, result=result, **how).kernel()
            except Refused as error:
                refusal = error
    raise refusal


class _Kernel(Products):
    """The frame of the kernel: what a block does around the values of a tile.

    Adds reading and storing, the loops over tiles, the copying of weights, and the
    numbers of the launch.
    """

    def kernel(self) -> TensorKernel:
        self._check()
        self.m = self._arrangement()[0]  # tiles that a group takes at once
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
        size = self.graph.input.itemsize
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
        out, n = _TYPES[self.result], v.size
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
        trusting = [s.removeprefix(TRUST) for s in self.lines if not s.startswith(CARE)]
        careful = [s.removeprefix(CARE) for s in self.lines if not s.startswith(TRUST)]
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

        def copy(table: str) -> list[str]:
            return [
                "  if (threadIdx.x % XP_THREADS == 0)",
                "    for (int round = 0; round < rounds; ++round)",
                f"      for (const auto& c : {table}) xp_copy(ring, from, c, stage, phase);",
            ]

        twice = [
            f"if (((const u32*)f)[{watch}] == 0) {{",
            *copy("xp_trusting"),
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
            *copy("xp_careful"),
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
typedef {_TYPES[graph.input.dtype]} IN;
typedef {_TYPES[self.result]} OUT;
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
