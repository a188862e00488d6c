"""A whole convolutional network as one CUDA kernel: the loop over slices around its steps."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from dataclasses import replace

from ...ir.graph import Graph
from ...ir.rewrite import without_bfloat16
from ...ir.tiles.tiles import Tiles
from .. import ptx
from ..access import Access
from ..cxx import HELPERS
from ..graph_queries import prepare
from ..tensor_network import Refused, Target, TensorKernel
from ..tensor_network.transfers import CTYPES, Transfers
from .fit import check, planned
from .library import LIBRARY, part
from .maps import Maps
from .plan import Plan
from .products import FEW
from .slices import Slices
from .steps import Steps
from .tiled import TiledSlices

_TRIES = 4
"""The most scales that a slice is tried with."""


def why_not(graph: Graph, target: Target) -> str | None:
    """Why there is no such kernel for `graph`, or None."""
    try:
        map_kernel(graph, Access(0, 0), target)
    except Refused as refusal:
        return str(refusal)
    return None


def map_kernel(
    graph: Graph,
    access: Access,
    target: Target,
    plan: Plan | None = None,
    tiles: Tiles | None = None,
) -> TensorKernel:
    """The kernel of a graph for one way of access.

    With `tiles`, of which `graph` is that of one, the array has whole slices, and the kernel takes
    each tile of them as a slice.

    Raises
    ------
    Refused
        If there is none; see `why_not`.
    """
    result = graph.result.dtype
    graph = prepare(without_bfloat16(graph))
    check(graph, target)
    if tiles is not None:  # windows do not follow each other
        access = replace(access, dense=False)
    made = functools.partial(_Kernel, access, target, result, tiles)
    maps = Maps.of(graph, halves=target.precision != "highest")
    if maps.pairs:  # they want some room
        with contextlib.suppress(Refused):
            return _fitting(maps, target, plan, made)
        maps = Maps.of(graph)
    return _fitting(maps, target, plan, made)


def _fitting(
    maps: Maps, target: Target, plan: Plan | None, made: Callable[[Maps, Plan], _Kernel]
) -> TensorKernel:
    """The kernel by a plan, or by the first that fits."""
    if not any(s.product is not None for s in maps.steps):
        raise Refused("no product with a matrix of weights")
    if plan is not None:
        return made(maps, plan).kernel()
    plan = planned(maps, target)
    while True:
        try:
            return made(maps, plan).kernel()
        except _TooLarge:  # tables are known once all of the text is written
            smaller = plan.smaller()
            if smaller is None:
                raise
            plan = smaller


class _TooLarge(Refused):
    """Refusal of a plan where a smaller one may fit."""


class _Kernel:
    """The frame of the kernel around its steps."""

    def __init__(
        self,
        access: Access,
        target: Target,
        result: str,
        tiles: Tiles | None,
        maps: Maps,
        plan: Plan,
    ) -> None:
        self._graph, self._access, self._target, self._result = maps.graph, access, target, result
        self._maps, self._plan, self._tiles = maps, plan, tiles
        room = min(255, 65536 // (32 * plan.warps * plan.blocks)) // 8 * 8  # registers of a thread
        sums = max(16, room - 48 if room < 128 else 72)
        self._steps = Steps(maps, target.precision, plan, sums)
        self._slices = Slices(maps.graph, access, self._steps)
        if tiles is not None:
            self._slices = TiledSlices(maps.graph, access, self._steps, tiles)

    def kernel(self) -> TensorKernel:
        """The text and its launch."""
        graph, access, target, plan = self._graph, self._access, self._target, self._plan
        steps, maps = self._steps, self._maps
        scaled = steps.scaled
        watch = steps.numbers.floats(1, steps.watch)
        quick = self._body()
        steps.careful = True
        careful, store = self._body(), self._slices.store()
        floats = -(-steps.numbers.bytes // 128) * 128
        weights_end = floats + steps.weights.bytes
        staged = weights_end if plan.staged else floats
        tops = -(-8 * len(steps.watched) * plan.images // 16) * 16
        scratch = -(-steps.scratch // 16) * 16
        shared = staged + tops + scratch + 4 * steps.pitch * plan.images
        room = plan.room(target.shared)
        if shared > room:
            raise _TooLarge(f"{shared:,} bytes do not fit in {room:,} of shared memory")
        kind = "f16" if scaled else "bf16"
        base = "(const unsigned char*)shared" if plan.staged else "(const unsigned char*)weights"
        looked = len(steps.watched) * plan.images
        ranges = steps.numbers.scaled()
        turn = _turn(quick, careful, looked, watch, bool(ranges))
        body = f"""
  extern __shared__ __align__(128) unsigned char shared[];
  #pragma unroll 4
  for (int k = threadIdx.x; k < {staged // 16}; k += XP_THREADS) ((uint4*)shared)[k] = weights[k];
  int* const xp_large = (int*)(shared + {staged});
  int* const xp_small = xp_large + {looked};
  unsigned char* const xp_scratch = shared + {staged + tops};
  u32* const maps = (u32*)(shared + {staged + tops + scratch});
  for (int k = threadIdx.x; k < {tops // 4}; k += XP_THREADS) xp_large[k] = 0;
  float* const f = (float*)shared;
  const unsigned char* const weights_at = {base} + {floats};
  const unsigned char* const plain_at = (const unsigned char*)weights + {weights_end};
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  __syncthreads();
  bool watching = f[{watch}] != 0;
  #pragma unroll 1
  for (I first = (I)blockIdx.x * {plan.images}; first < (I)n_slices;
       first += (I)gridDim.x * {plan.images}) {{
    {_indented(self._slices.ahead(), 4)}
    {_indented(turn, 4)}
    {_indented(store, 4)}
    __syncthreads();
  }}
"""
        transfers = Transfers(maps.queries, access, target, 1, in_order=True, result=self._result)
        numbers, fixed = transfers.numbers()
        if self._tiles is not None and not access.after:
            fixed["o_row"] = self._tiles.row
        used = [p for p in numbers if p not in fixed and re.search(rf"\b{p}\b", body)]
        name = "xpapply_maps"
        source = f"""
#define XP_LEAST {ptx.LEAST}f
#define XP_SMALL 1  // what was seen of slices: only small numbers in a map, too large ones, NaN
#define XP_LARGE 2
#define XP_NEVER 4
#define XP_FEW {FEW}
#define XP_WARPS {plan.warps}
#define XP_THREADS {32 * plan.warps}
{ptx.LIBRARY}{HELPERS}{ptx.mma(kind)}{part(target.precision)}{LIBRARY}
typedef {CTYPES[graph.input.dtype]} IN;
typedef {CTYPES[self._result]} OUT;
typedef {"long long" if access.wide else "int"} I;
{chr(10).join(f"#define {k} {v}" for k, v in fixed.items())}
{_rescaling(ranges)}
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
        lines = ["{", *begin, *self._slices.load(), "}", "__syncthreads();"]
        for step in self._maps.steps:
            if step.out == self._graph.entry:
                continue
            text = self._steps.write(step)
            if text:
                if self._maps.is_border(step.out):  # no barrier: no other value lies there
                    lines.pop()
                begin = self._steps.begin(step.out)
                lines += ["{", *begin, *text, "}", "__syncthreads();"]
        return lines


def _turn(
    quick: list[str], careful: list[str], looked: int, watch: int, rescales: bool
) -> list[str]:
    """Statements that take slices through the network.

    Where numbers leave float16's range, the quick text runs again with all maps scaled by other
    powers of two: by 1/64 each time where some were too large, or by 2^5, 2^10, 2^20 and 2^30. What
    that does not help is left to the careful text, as are NaN and infinities.
    """
    lines = [
        "float odd = 0;",
        "int seen = 0;",
        *quick,
        f"for (int k = threadIdx.x; k < {looked}; k += XP_THREADS) {{",
        "  if (xp_small[k] && !xp_large[k]) seen |= XP_SMALL;",
        "  xp_large[k] = xp_small[k] = 0;",
        "}",
        "if (!(odd == 0)) seen |= XP_LARGE;",
    ]
    if not rescales:
        return [*lines, "if (__syncthreads_or(seen)) {", *("  " + k for k in careful), "}"]
    return [
        "float scaled = 1;",
        "#pragma unroll 1",
        "for (int tried = 0;; ++tried) {",
        *("  " + k for k in lines),
        "  if (!__syncthreads_or(seen)) break;",
        "  const bool large = __syncthreads_or(seen & XP_LARGE);",
        "  const bool never = __syncthreads_or(seen & XP_NEVER);",
        "  // some are too large for what others are too small for",
        "  const bool both = large ? scaled > 1 : scaled < 1;",
        f"  if (never || both || tried == {_TRIES}) {{",
        *("    " + k for k in careful),
        "    break;",
        "  }",
        "  scaled *= large ? 1.f / 64 : scaled < 1024 ? 32 : 1024;",
        "  watching = true;  // biases that hide what small numbers lose may be small now",
        "  xp_rescale(f, (const float*)weights, scaled);",
        "  __syncthreads();",
        "}",
        "if (scaled != 1) {",
        f"  watching = f[{watch}] != 0;",
        "  xp_rescale(f, (const float*)weights, 1);",
        "}",
    ]


def _rescaling(ranges: list[tuple[int, int, int]]) -> str:
    """A function that makes the scales of all maps others: from `from`, the packed ones."""
    if not ranges:
        return ""
    table = ", ".join(f"{{{at}, {n}, {power}}}" for at, n, power in ranges)
    return f"""__constant__ const int xp_ranges[][3] = {{{table}}};
XP_FN void xp_rescale(float* const f, const float* const from, const float by) {{
  #pragma unroll 1
  for (int r = 0; r < {len(ranges)}; ++r)
    #pragma unroll 1
    for (int k = threadIdx.x; k < xp_ranges[r][1]; k += XP_THREADS) {{
      const int at = xp_ranges[r][0] + k;
      f[at] = from[at] * (xp_ranges[r][2] > 0 ? by : 1 / by);
    }}
}}"""


def _indented(lines: list[str], by: int) -> str:
    return ("\n" + " " * by).join(lines)
