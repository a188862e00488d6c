"""A whole network as one CUDA kernel on tensor cores.

A group of threads (a warp with mma.sync, four with wgmma) takes a tile of
slices through all layers at once. What is in registers is written in `fragments`,
products in `products`; here is the frame around them: reading, storing, the loops
over tiles, and the launch.

Weights are packed once per model in the order in which the kernel reads them.
They are copied to shared memory once per block or, where they do not all fit,
stream from L2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...ir.graph import Graph
from ...ir.ops import OPS, Kind
from ...ir.rewrite import without_bfloat16
from .. import ptx
from ..access import Access
from ..cxx import HELPERS, TYPES
from ..graph_queries import GraphQueries, prepare
from .fragments import Fragments
from .packing import Piece
from .products import Products
from .target import Refused, Target
from .transfers import CTYPES, Transfers


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
    """most tiles that a block works on at a time"""
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
    blocks: int = 1
    """blocks that a multiprocessor has at a time"""

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
        for in_order in (False, True):
            try:
                how = {"in_order": in_order, "streams": streams}
                return _Kernel(graph, access, target, result=result, **how).kernel()
            except Refused as error:
                refusal = error
    raise refusal


def _check(queries: GraphQueries) -> None:
    """Raise `Refused` for what no kernel has a form for."""
    graph = queries.graph
    if not queries.dependent[graph.out]:
        raise Refused("the result does not depend on the slice")
    if not any(queries.affine(i) for i in range(len(graph.nodes))):
        raise Refused("no product with a matrix of weights")
    for i, n in enumerate(graph.nodes):
        if n.aval.dtype not in TYPES and (n.op != "input" or n.aval.dtype != "bfloat16"):
            raise Refused(f"dtype {n.aval.dtype} has no C++ type")
        kind = OPS[n.op].kind
        if not queries.dependent[i]:
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


def _arrangement(queries: GraphQueries, target: Target, streams: bool) -> tuple[int, int]:
    """Tiles per group and groups per multiprocessor: what was fastest on an H200."""
    widest = max(queries.size(i) for i, depends in enumerate(queries.dependent) if depends)
    table: tuple[tuple[int, int, int], ...]
    if target.core == "mma":
        table = ((32, 2, 16), (64, 1, 12))
        rest = 1, 8
    elif streams:
        table, rest = ((64, 1, 4),), (1, 2)
    else:
        table, rest = ((16, 4, 4), (32, 2, 5), (64, 1, 5), (96, 1, 4), (256, 1, 3)), (1, 2)
    return next(((m, groups) for width, m, groups in table if widest <= width), rest)


class _Kernel:
    """The frame of the kernel: what a block does around the values of a tile.

    `fragments` are the values, `products` what multiplies them, `transfers` reads and stores;
    here are the loops over tiles, the copying of weights and the numbers of the launch.
    """

    def __init__(
        self,
        graph: Graph,
        access: Access,
        target: Target,
        *,
        in_order: bool = False,
        streams: bool = False,
        result: str = "",
    ) -> None:
        self._graph, self._access, self._target, self._streams = graph, access, target, streams
        self._result = result or graph.result.dtype
        self._queries = GraphQueries(graph)
        self._m, self._groups = _arrangement(self._queries, target, streams)
        self.transfers = Transfers(
            self._queries, access, target, self._m, in_order=in_order, result=self._result
        )
        self.fragments = Fragments(self._queries, self._m)
        self.products = Products(self.fragments, target, streams, self.transfers.store)
        self._packing = self.products.packing
        self._take: list[str] = []  # the lines that empty `ahead`

    def kernel(self) -> TensorKernel:
        _check(self._queries)
        graph, queries, fragments = self._graph, self._queries, self.fragments
        in_products = {i for i in range(len(graph.nodes)) if queries.affine(i)}
        for i, n in enumerate(graph.nodes):
            if not queries.dependent[i]:
                continue
            if n.op == "input":
                fragments.input(i, self.transfers.slots)
                self._take = fragments.text.taken()
            elif i in in_products:
                self.products.write(i)
            elif i in self.products.passed:
                continue
            elif i in queries.regions:
                fragments.region(queries.regions[i])
            elif i in queries.region_of:
                continue
            elif OPS[n.op].kind is Kind.REDUCTION:
                fragments.reduce(i)
            else:
                fragments.layout(i)
        return self._finish()

    def _loops(self, prefetch: bool, watch: int) -> list[str]:
        """Statements that take all tiles of a group through the network.

        The first loop trusts that numbers stay in range. The second one, which
        looks, starts where that went wrong: at a result that is not finite.
        """
        v = self.fragments.values[self._graph.out]
        text, stored = self.fragments.text, self.products.stored
        trusting, careful = text.versions()
        careful = careful if self._packing.scaled else trusting
        store = [] if stored else self.transfers.store(v)
        done = "--rounds == 0" if self._copies else "tile >= tiles"
        # the input of a tile is read one tile ahead
        head, tail = ["#pragma unroll 1\nfor (;;) {"], "}"
        take = ["const I now = tile;", "tile += stride;", *self._take]
        first: list[str] = []
        if prefetch:
            first, take = ["fetch();"], [*take, "fetch();"]
        else:
            head = [*head, "fetch();"]
        end = [f"if ({done}) break;", tail]
        last = [*first, *head, *take, *careful, *store, *end]
        if not self._twice:
            return last
        if not stored:
            text.taken()
            self.fragments.each(v, [f"odd = fmaf({self.fragments.element(v, v)}, 0, odd);"])
            trusting = [*trusting, *text.taken()]
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

    @property
    def _twice(self) -> bool:
        """Whether there is a fast path that does not check ranges."""
        return bool(self._packing.products) and self._packing.scaled

    @property
    def _copies(self) -> bool:
        """Whether a warp of its own copies weights."""
        return self._streams and self._target.core == "wgmma"

    def _chunks(self) -> list[str]:
        """Tables of what to copy, in order: start and size in bytes, without and with care."""
        lists: list[list[tuple[int, int]]] = [[], []]
        for i, p in self._packing.products.items():
            size = self._packing.bytes_of(p) // p.chunks
            own = [(p.factors_at + c * size, size) for c in range(p.chunks)]
            lists[0] += own
            lists[1] += own * (2 if self.products.wide.get(i) else 1)
        if not self._packing.scaled:
            lists[1] = lists[0]
        lines = []
        for name, rows in zip(("xp_trusting", "xp_careful"), lists, strict=True):
            text = ", ".join(f"{{{at}, {size}}}" for at, size in rows)
            lines.append(f"__constant__ int {name}[{len(rows)}][2] = {{{text}}};")
        return lines

    def _copying(self, floats: int, watch: int) -> list[str]:
        """Statements of the copying warp."""

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
        """Whether copying warps give registers to others."""
        return self._groups == 2

    def _finish(self) -> TensorKernel:
        graph, access, target, m = self._graph, self._access, self._target, self._m
        made, fragments, transfers = self.products, self.fragments, self.transfers
        watch = 0
        if self._twice:
            watch = fragments.floats.add(1, partial(self._packing.watch, self._queries.shows_nan))
        entry = fragments.values[graph.entry]
        held = f"[{m}][{entry.size}][2]" if entry.slots is None else f"[{m}][{entry.tiles}][4]"
        floats = -(-fragments.floats.count * 4 // 128) * 128
        size = floats + made.bytes
        threads, groups = 32 * target.warps, self._groups
        # registers are given to warps by fours; those that only copy leave theirs to the others
        helpers = 128 if self._copies else 0
        spill = made.spill * threads * groups
        staged = floats if self._streams else size  # bytes copied at the start
        shared, stages = staged + spill, 0
        stage = -(-made.stage // 128) * 128
        if self._copies:
            stages = min(4, (target.shared - 1024 - shared) // stage)
            shared += stages * stage
        if shared > target.shared - 1024 or (self._copies and stages < 2):
            shared += max(0, 2 - stages) * stage
            raise Refused(f"{shared:,} bytes do not fit in {target.shared:,} of shared memory")
        ahead = entry.size * 2 if entry.slots is None else entry.tiles * 4
        prefetch = ahead * m <= 64  # more would not fit in registers
        kind = "f16" if self._packing.scaled else "bf16"
        core = [ptx.MMA, ptx.mma(kind)]
        factors = "shared" if not self._streams else "(const unsigned char*)weights"
        setup = [f"const unsigned char* const factors = {factors} + {floats};"]
        if target.core == "wgmma":
            core = [ptx.WGMMA, *(ptx.wgmma(T, kind) for T in sorted(made.instructions))]
            setup += [
                "const u64 factors_at = xp_descriptor(factors);",
                'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
            ]
        if spill:
            setup.append(f"uint4* const spill = (uint4*)(shared + {staged});")
        begin = ["if (tile >= tiles) return;"]
        if self._copies:
            core += [ptx.STREAM, *self._chunks()]
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
  const int own = (threadIdx.x & {threads - 1}) / 32 * {16 * m if access.aligned else 16}
    + g * {2 * m if access.aligned else 1};
  const I tiles = ((I)n_slices + XP_SLICES - 1) / XP_SLICES;
  const I stride = gridDim.x * XP_GROUPS;
  I tile = threadIdx.x / XP_THREADS * gridDim.x + blockIdx.x;
  {_indented(begin, 2)}
  IN ahead{held};
  const auto fetch = [&]() {{
    {_indented(transfers.fetch(entry), 4)}
  }};
  {_indented(self._loops(prefetch, watch), 2)}
"""
        numbers, fixed = transfers.numbers()
        used = [p for p in numbers if p not in fixed and re.search(rf"\b{p}\b", body)]
        source = f"""
#define XP_LEAST {ptx.LEAST}f
#define XP_SLICES {16 * target.warps * m}
#define XP_STEP {16 * target.warps}
#define XP_THREADS {threads}
#define XP_TAKERS {threads * groups}
#define XP_GROUPS ((blockDim.x - {helpers}) / XP_THREADS)
#define XP_STAGES {stages}
#define XP_STAGE_BYTES {stage}
{ptx.LIBRARY}{HELPERS}{chr(10).join(core)}
typedef {CTYPES[graph.input.dtype]} IN;
typedef {CTYPES[self._result]} OUT;
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
        pieces = [(4 * at, piece) for at, piece in fragments.floats.pieces]
        pieces += [(floats + at, piece) for at, piece in made.pieces]
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
            packing=transfers.quads,
            _graph=graph,
            _size=-(-size // 16) * 16,
            _pieces=pieces,
        )


def _indented(lines: Sequence[str], by: int) -> str:
    return ("\n" + " " * by).join(lines)
