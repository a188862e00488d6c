"""A whole convolutional network as one CUDA kernel: the loop over slices, reading and storing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ...ir.graph import Graph
from ...ir.ops import OPS, Kind
from ...ir.rewrite import without_bfloat16
from .. import ptx
from ..access import Access, locate
from ..cxx import HELPERS, TYPES
from ..graph_queries import GraphQueries, prepare
from ..tensor_network import Refused, Target, TensorKernel
from ..tensor_network.transfers import CTYPES, Transfers
from .library import LIBRARY, part
from .maps import Maps
from .steps import FEW, PIECE, Steps

_RESERVED = 1024
"""Bytes of shared memory that a block takes beyond what it asks for."""
_WARPS = 8
_LOADS = 16
"""Numbers that a thread asks for at once."""
_STAGED = 64 << 10
"""Weights of so many bytes are copied to shared memory; more are read from the cache."""


@dataclass(frozen=True)
class Plan:
    """How the slices are spread over a device.

    Attributes
    ----------
    blocks : int
        Blocks of a multiprocessor.
    images : int
        Slices that a block takes at a time.
    warps : int
        Warps of a block.
    staged : bool
        Whether the weights are in shared memory.
    shared : bool
        Whether warps share the terms of a product where they would have nothing to do.
    tables : bool
        Whether there are tables of places that could be computed.
    """

    blocks: int
    images: int
    warps: int
    staged: bool
    shared: bool = True
    tables: bool = True

    def smaller(self) -> Plan | None:
        """The next one that takes less shared memory, if there is one."""
        if self.shared:
            return replace(self, shared=False)
        if self.tables:
            return replace(self, tables=False)
        if self.images > 1:
            return replace(self, images=self.images // 2, shared=True, tables=True)
        return replace(self, staged=False) if self.staged else None


def why_not(graph: Graph, target: Target) -> str | None:
    """Why there is no such kernel for `graph`, or None."""
    try:
        map_kernel(graph, Access(0, 0), target)
    except Refused as refusal:
        return str(refusal)
    return None


def map_kernel(
    graph: Graph, access: Access, target: Target, plan: Plan | None = None
) -> TensorKernel:
    """The kernel of a graph for one way of access.

    Raises
    ------
    Refused
        If there is none; see `why_not`.
    """
    result = graph.result.dtype
    graph = prepare(without_bfloat16(graph))
    _check(graph, target)
    if plan is not None:
        return _Kernel(graph, access, target, plan, result).kernel()
    plan = _Kernel(graph, access, target, None, result).plan
    while True:
        try:
            return _Kernel(graph, access, target, plan, result).kernel()
        except _TooLarge:  # tables are known once all of the text is written
            smaller = plan.smaller()
            if smaller is None:
                raise
            plan = smaller


class _TooLarge(Refused):
    """With a plan, which a smaller one may do without."""


def _check(graph: Graph, target: Target) -> None:
    """Raise `Refused` for what no kernel has a form for, or that is by far too large."""
    queries = GraphQueries(graph)
    largest = 4 * max((queries.size(i) for i in _sources(graph, queries)), default=0)
    if largest > target.shared:
        raise Refused(f"maps of {largest:,} bytes do not fit in {target.shared:,} of shared memory")
    if not queries.dependent[graph.out]:
        raise Refused("the result does not depend on the slice")
    for i, n in enumerate(graph.nodes):
        kind = OPS[n.op].kind
        if n.aval.dtype not in TYPES and n.op != "input":
            raise Refused(f"dtype {n.aval.dtype} has no C++ type")
        if not queries.dependent[i]:
            if kind is not Kind.LEAF and n.op != "reshape":
                raise Refused(f"{n.op} of constants")
            if kind is Kind.LEAF and n.op != "scalar" and n.aval.dtype != "float32":
                raise Refused(f"{n.aval.dtype} constants")
            continue
        last = i == graph.out
        if (
            n.op not in ("input", "reshape")
            and not last
            and n.aval.dtype not in ("float32", "bool")
        ):
            raise Refused(f"{n.aval.dtype} values")
    if graph.result.dtype not in ("float32", "float16"):
        raise Refused(f"{graph.result.dtype} results")


def _sources(graph: Graph, queries: GraphQueries) -> set[int]:
    """The values that products read, before anything moved their numbers."""
    found = set()
    for n in graph.nodes:
        if n.op != "einsum":
            continue
        for i in n.args:
            while OPS[graph.nodes[i].op].kind is Kind.LAYOUT and len(graph.nodes[i].args) == 1:
                (i,) = graph.nodes[i].args
            if queries.dependent[i]:
                found.add(i)
    return found


class _Kernel:
    """The frame of the kernel around its steps."""

    def __init__(
        self, graph: Graph, access: Access, target: Target, plan: Plan | None, result: str
    ) -> None:
        self._graph, self._access, self._target, self._result = graph, access, target, result
        self._maps = Maps.of(graph, halves=target.precision != "highest")
        if not any(s.product is not None for s in self._maps.steps):
            raise Refused("no product with a matrix of weights")
        self.plan = plan or self._planned()
        p = self.plan
        room = min(255, 65536 // (32 * p.warps * p.blocks)) // 8 * 8  # registers of a thread
        sums = max(16, room - 48 if room < 128 else 72)
        self._steps = Steps(
            self._maps, target.precision, p.images, p.warps, sums, p.shared, p.tables
        )

    def _planned(self) -> Plan:
        """What was fastest on an H200: many small slices, or few large ones, or what fits."""
        try:
            return self._which(tables=True)
        except Refused:
            return self._which(tables=False)

    def _which(self, tables: bool) -> Plan:
        trial = Steps(self._maps, self._target.precision, 1, _WARPS, tables=tables)
        for s in self._maps.steps[1:]:
            trial.write(s)
        one, weights = 4 * trial.pitch, trial.weights.bytes
        fixed = trial.numbers.bytes + 2048
        if self._target.few:  # each has a multiprocessor: weights are read once, where they are
            plans = [Plan(1, 1, 2 * _WARPS, False)]
        else:
            most = weights <= _STAGED
            plans = [Plan(4, 32, _WARPS, staged) for staged in (True, False) if most or not staged]
            plans += [Plan(3, 16, _WARPS, most), Plan(2, 8, _WARPS, most)]
            plans += [Plan(1, 1, 2 * _WARPS, most)]
        for plan in plans:
            each = (self._target.shared + _RESERVED) // plan.blocks - _RESERVED
            images = (each - fixed - weights * plan.staged) // (one + 64)
            if images >= plan.images:
                images = min(1 if self._target.few else max(16, plan.images), images)
                return replace(plan, images=1 << (images.bit_length() - 1), tables=tables)
        fixed += weights * plans[-1].staged
        room = self._target.shared - fixed
        raise Refused(f"maps of {one:,} bytes do not fit in {max(0, room):,} of shared memory")

    def kernel(self) -> TensorKernel:
        """The text and its launch."""
        graph, access, target, plan = self._graph, self._access, self._target, self.plan
        steps, maps = self._steps, self._maps
        scaled = steps.scaled
        watch = steps.numbers.floats(1, steps.watch)
        quick = self._body()
        steps.careful = True
        careful, store = self._body(), self._store()
        floats = -(-steps.numbers.bytes // 128) * 128
        weights_end = floats + steps.weights.bytes
        staged = weights_end if plan.staged else floats
        tops = -(-8 * len(steps.watched) * plan.images // 16) * 16
        scratch = -(-steps.scratch // 16) * 16
        shared = staged + tops + scratch + 4 * steps.pitch * plan.images
        room = (target.shared + _RESERVED) // plan.blocks - _RESERVED
        if shared > min(room, target.shared - 1024):
            raise _TooLarge(f"{shared:,} bytes do not fit in {room:,} of shared memory")
        kind = "f16" if scaled else "bf16"
        base = "(const unsigned char*)shared" if plan.staged else "(const unsigned char*)weights"
        looked = len(steps.watched) * plan.images
        again = [
            f"for (int k = threadIdx.x; k < {looked}; k += XP_THREADS) {{",
            "  if (xp_small[k] && !xp_large[k]) odd = __int_as_float(0x7fc00000);",
            "  xp_large[k] = xp_small[k] = 0;",
            "}",
            "if (__syncthreads_or(!(odd == 0))) {",
            *("  " + k for k in careful),
            "}",
        ]
        body = f"""
  extern __shared__ __align__(128) unsigned char shared[];
  #pragma unroll 4
  for (int k = threadIdx.x; k < {staged // 16}; k += XP_THREADS) ((uint4*)shared)[k] = weights[k];
  int* const xp_large = (int*)(shared + {staged});
  int* const xp_small = xp_large + {looked};
  unsigned char* const xp_scratch = shared + {staged + tops};
  u32* const maps = (u32*)(shared + {staged + tops + scratch});
  for (int k = threadIdx.x; k < {tops // 4}; k += XP_THREADS) xp_large[k] = 0;
  const float* const f = (const float*)shared;
  const unsigned char* const weights_at = {base} + {floats};
  const unsigned char* const plain_at = (const unsigned char*)weights + {weights_end};
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  __syncthreads();
  const bool watching = f[{watch}] != 0;
  #pragma unroll 1
  for (I first = (I)blockIdx.x * {plan.images}; first < (I)n_slices;
       first += (I)gridDim.x * {plan.images}) {{
    float odd = 0;
    {_indented(self._ahead(), 4)}
    {_indented(quick, 4)}
    {_indented(again, 4)}
    {_indented(store, 4)}
    __syncthreads();
  }}
"""
        transfers = Transfers(maps.queries, access, target, 1, in_order=True, result=self._result)
        numbers, fixed = transfers.numbers()
        used = [p for p in numbers if p not in fixed and re.search(rf"\b{p}\b", body)]
        name = "xpapply_maps"
        source = f"""
#define XP_LEAST {ptx.LEAST}f
#define XP_PIECE {PIECE if target.precision == "highest" else 0}
#define XP_FEW {FEW}
#define XP_WARPS {plan.warps}
#define XP_THREADS {32 * plan.warps}
{ptx.LIBRARY}{HELPERS}{ptx.mma(kind)}{part(target.precision)}{LIBRARY}
typedef {CTYPES[graph.input.dtype]} IN;
typedef {CTYPES[self._result]} OUT;
typedef {"long long" if access.wide else "int"} I;
{chr(10).join(f"#define {k} {v}" for k, v in fixed.items())}
extern "C" __global__ void __launch_bounds__({32 * plan.warps}, {plan.blocks})
{name}(
  const IN* __restrict__ const x, const uint4* __restrict__ const weights,
  OUT* __restrict__ const y, {", ".join(f"const long long {p}" for p in used)}) {{
{body}}}
"""
        pieces = list(steps.numbers.pieces)
        pieces += [(floats + at, piece) for at, piece in steps.weights.pieces]
        pieces += [(weights_end + at, piece) for at, piece in steps.plain.pieces]
        return TensorKernel(
            source=source,
            name=name,
            target=target,
            slices=plan.images,
            threads=32 * plan.warps,
            groups=1,
            helpers=0,
            shared=shared,
            arguments=tuple(numbers.index(p) for p in used),
            packing=target.few,
            blocks=plan.blocks,
            _graph=graph,
            _size=weights_end + steps.plain.bytes,
            _pieces=pieces,
        )

    def _body(self) -> list[str]:
        """Statements that read slices and take them through all steps."""
        begin = self._steps.begin(self._graph.entry)
        lines = ["{", *begin, *self._load(), "}", "__syncthreads();"]
        for step in self._maps.steps:
            if step.out == self._graph.entry:
                continue
            text = self._steps.write(step)
            if text:
                if self._maps.is_border(step.out):  # nobody has to wait: nothing else lies there
                    lines.pop()
                begin = self._steps.begin(step.out)
                lines += ["{", *begin, *text, "}", "__syncthreads();"]
        return lines

    def _load(self) -> list[str]:
        """Statements that read the slices."""
        steps, entry, access = self._steps, self._graph.entry, self._access
        n, images = self._graph.nodes[entry].aval.shape[0], self.plan.images
        places = self._maps.places(entry)
        before, behind = steps.look(entry, always=True)
        put = steps.put(entry, steps.index(places, "k"), "v")
        row = ["const I row = first + s < (I)n_slices ? first + s : (I)n_slices - 1;"]
        start = ["I at = 0;", *locate(access), f"u32* const map = maps + s * {steps.pitch};"]
        each = ["const float v = (float)x[at + (I)k * (I)s_m];", *put]
        if access.after:
            threads = 32 * self.plan.warps
            return [
                f"const int s = threadIdx.x % {images};",
                *row,
                *start,
                *before,
                "#pragma unroll 4",
                f"for (int k = threadIdx.x / {images}; k < {n}; k += {threads // images}) {{",
                *("  " + k for k in each),
                "}",
                *behind,
            ]
        parts = max(1, self.plan.warps // images)  # warps that share a slice
        count = -(-n // (32 * parts))
        if count <= _LOADS:
            return self._load_several(parts, count)
        return [
            f"for (int w = warp; w < {images * parts}; w += XP_WARPS) {{",
            f"  const int s = w / {parts};",
            *("  " + k for k in (*row, *start, *before)),
            "  #pragma unroll 8",
            f"  for (int k = w % {parts} * 32 + lane; k < {n}; k += {32 * parts}) {{",
            *("    " + k for k in each),
            "  }",
            *("  " + k for k in behind),
            "}",
        ]

    def _load_several(self, parts: int, count: int) -> list[str]:
        """The same for short slices: what a warp reads of several is on its way at once."""
        steps, entry, access = self._steps, self._graph.entry, self._access
        n, images, warps = self._graph.nodes[entry].aval.shape[0], self.plan.images, self.plan.warps
        several = max(1, min(images * parts // warps, 1 << (_LOADS // count).bit_length() - 1))
        before, behind = steps.look(entry, always=True)
        put = steps.put(entry, steps.index(steps.maps.places(entry), "k"), "v[i][c]")
        inside = f"c < {n // (32 * parts)} || k < {n}"
        slice_ = f"const int s = (w + i * XP_WARPS) / {parts};"
        number = f"const int k = (w % {parts} + {parts} * c) * 32 + lane;"
        return [
            f"for (int w = warp; w < {images * parts}; w += {several} * XP_WARPS) {{",
            f"  float v[{several}][{count}];",
            f"  XP_ALL for (int i = 0; i < {several}; ++i) {{",
            f"    {slice_}",
            "    const I row = first + s < (I)n_slices ? first + s : (I)n_slices - 1;",
            *("    " + k for k in ("I at = 0;", *locate(access))),
            f"    XP_ALL for (int c = 0; c < {count}; ++c) {{",
            f"      {number}",
            f"      v[i][c] = {inside} ? (float)x[at + (I)k * (I)s_m] : 0;",
            "    }",
            "  }",
            f"  XP_ALL for (int i = 0; i < {several}; ++i) {{",
            f"    {slice_}",
            f"    u32* const map = maps + s * {steps.pitch};",
            *("    " + k for k in before),
            f"    XP_ALL for (int c = 0; c < {count}; ++c) {{",
            f"      {number}",
            f"      if ({inside}) {{",
            *("        " + k for k in put),
            "      }",
            "    }",
            *("    " + k for k in behind),
            "  }",
            "}",
        ]

    def _ahead(self) -> list[str]:
        """Statements that ask for the slices of the next turn: they come while these are used."""
        access, images, aval = self._access, self.plan.images, self._graph.input
        if not access.dense:
            return []
        n, line = aval.shape[0], 128 // aval.itemsize
        count, at, inside = n, "next + (I)k * (I)s_m", "next < (I)n_slices"
        if not access.after:
            count = -(-images * n // line)
            at, inside = f"next * {n} + (I)k * {line}", f"at < (I)n_slices * {n}"
        return [
            f"const I next = first + (I)gridDim.x * {images};",
            f"for (int k = threadIdx.x; k < {count}; k += XP_THREADS) {{",
            f"  const I at = {at};",
            f"  if ({inside}) xp_fetch(x + at);",
            "}",
        ]

    def _store(self) -> list[str]:
        """Statements that write the results."""
        steps, graph, access = self._steps, self._graph, self._access
        images = self.plan.images
        places = self._maps.places(graph.out)
        n = places.size
        row = "row * (I)o_row"
        if access.grouped:
            row = "row % (I)n_group * (I)o_row + row / (I)n_group * (I)o_group"
        split = f"const int s = e / {n}, k = e - s * {n};"
        if access.after:
            split = f"const int k = e / {images}, s = e - k * {images};"
        word = f"maps[s * {steps.pitch} + {steps.index(places, 'k')}]"
        return [
            f"for (int e = threadIdx.x; e < {images * n}; e += XP_THREADS) {{",
            f"  {split}",
            "  const I row = first + s;",
            "  if (row < (I)n_slices)",
            f"    y[{row} + (I)k * (I)o_j] = OUT(__uint_as_float({word}));",
            "}",
        ]


def _indented(lines: list[str], by: int) -> str:
    return ("\n" + " " * by).join(lines)
