"""A whole network as one elementwise kernel: each thread takes some slices through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.graph import Graph
from ...ir.ops import OPS
from ..access import Access, locate
from ..cxx import TYPES, helpers
from . import register_network as function
from .register_network import RegisterNetwork, register_network

THREADS = 128
"""Threads per block."""

_TYPES = """
typedef {T} T;
typedef {IN} IN;
struct alignas(16) xpapply_t4 {{ T a[16 / sizeof(T)]; }};
struct alignas(16) xpapply_in4 {{ IN a[16 / sizeof(IN)]; }};
#ifndef XPAPPLY_INLINE
#define XPAPPLY_INLINE __device__ __forceinline__
#define XPAPPLY_THREADS {THREADS}
XPAPPLY_INLINE xpapply_in4 xpapply_load(const IN* const p) {{  // nobody writes the input
  const int4 q = __ldg(reinterpret_cast<const int4*>(p));
  return reinterpret_cast<const xpapply_in4&>(q);
}}
#endif
"""


@dataclass(frozen=True)
class NetworkKernel:
    """The text of one elementwise kernel that runs a whole graph.

    The arguments are the array, the packed weights, the number of slices, the
    number of them after the applied axis, the stride along it, length and
    stride of each batch dim, then where results go (see `access.placement`), and the output.
    """

    function: RegisterNetwork
    access: Access
    in_params: str
    out_params: str
    operation: str
    preamble: str
    loop_prep: str

    name = "xpapply_network"
    packing = None
    """Weights are packed alike for every way of access."""

    def pack(self, consts: Sequence[np.ndarray]) -> np.ndarray:
        """The weights in the order in which the kernel reads them."""
        return self.function.pack(consts)


SHARED_BYTES = 48 << 10
"""Shared memory that every kernel may have without asking."""
_REGISTERS = 96
"""Four-byte numbers of one slice that one thread can hold; beyond, cuBLAS is faster (measured)."""
_REGISTERS_WITHOUT_SHARED = 32


def why_not(graph: Graph) -> str | None:
    """Why there is no such kernel for `graph`, or None."""
    refusal = function.why_not(graph)
    if refusal is not None:
        return refusal
    f = register_network(graph, 1)
    words = np.dtype(f.dtype).itemsize // 4
    if f.numbers * words > _REGISTERS:
        return f"{f.numbers} numbers per slice do not fit in a thread's registers"
    shared = f.weights.size * words * 4 <= SHARED_BYTES
    if not shared and f.numbers * words > _REGISTERS_WITHOUT_SHARED:
        return f"{f.weights.size:,} weights do not fit in shared memory"
    return None


def slices_per_thread(graph: Graph, slices: int) -> int:
    """Slices per thread: each weight that is read serves all of them.

    Measured: as many as fit in registers, at most 4; fewer where that would
    leave parts of the device idle.
    """
    f = register_network(graph, 1)
    words = f.numbers * np.dtype(f.dtype).itemsize // 4
    if slices < (4 * THREADS if words > 40 else 40_000):
        return 1
    if words > 16 and any(OPS[n.op].needs_registers for n in f.graph.nodes):
        return 3 if words < 32 else 2
    return 4 if words <= 40 else 3 if words <= 56 else 2


def network_kernel(graph: Graph, access: Access, slices: int) -> NetworkKernel:
    """Write one kernel for the whole graph; each thread runs `slices` at a time.

    For more than one there must be at least ``THREADS * slices`` of them.

    The weights are copied to shared memory once per block, and the blocks are
    as many as the device holds at once, each taking slices until none is left.
    """
    f = register_network(graph, slices)
    size = max(f.weights.size, f.weights.lanes)
    index = "long long" if access.wide else "int"
    lanes = f.weights.lanes
    preamble = _TYPES.format(T=TYPES[f.dtype], IN=TYPES[graph.input.dtype], THREADS=THREADS)
    if access.vector:
        preamble += "#define XPAPPLY_VECTOR\n"
    preamble += helpers(graph) + f.text
    if size * np.dtype(f.dtype).itemsize <= SHARED_BYTES:
        loop_prep = f"""
__shared__ xpapply_t4 xpapply_w[{size // lanes}];
{{
  const xpapply_t4* const from = reinterpret_cast<const xpapply_t4*>(&weights[0]);
  for (int k = threadIdx.x; k < {size // lanes}; k += blockDim.x) xpapply_w[k] = from[k];
}}
__syncthreads();"""
    else:
        loop_prep = """
const xpapply_t4* const xpapply_w = reinterpret_cast<const xpapply_t4*>(&weights[0]);"""
    dims = [f"b{d}" for d in range(access.before)] + [f"c{d}" for d in range(access.after)]
    out = TYPES[graph.result.dtype]
    indent = "\n      "
    stride = "(I)1" if access.vector else "(I)s_m"
    result_at = "row * (I)o_row"
    if access.grouped:
        result_at = "(row % (I)n_group) * (I)o_row + (row / (I)n_group) * (I)o_group"
    # whole tiles only: the last one lies over the one before, and computes the same results again
    last = "if (first > (I)n_slices - XPAPPLY_TILE) first = (I)n_slices - XPAPPLY_TILE;"
    clamp = ""
    if slices == 1:  # there may be fewer slices than threads
        last, clamp = "", "if (first >= (I)n_slices) first = (I)n_slices - 1;"
    operation = f"""
typedef {index} I;
#define XPAPPLY_TILE (XPAPPLY_THREADS * {slices})
const IN* const base = &x[0];
{out}* const target = &y[0];
const I tiles = ((I)n_slices + XPAPPLY_TILE - 1) / XPAPPLY_TILE;
#pragma unroll 1
for (I tile = blockIdx.x; tile < tiles; tile += gridDim.x) {{
  I first = tile * XPAPPLY_TILE;
  {last}
  first += threadIdx.x;
  {clamp}
  const IN* slice[{slices}];
  {out}* result[{slices}];
  #pragma unroll
  for (int r = 0; r < {slices}; ++r) {{
    const I row = first + r * XPAPPLY_THREADS;
    I at = 0;
    {{
      {indent.join(locate(access))}
    }}
    slice[r] = base + at;
    result[r] = target + {result_at};
  }}
  {f.name}<I>(slice, {stride}, reinterpret_cast<const T*>(xpapply_w), result, (I)o_j);
}}"""
    parameters = [
        f"raw {graph.input.dtype} x",
        f"raw {f.dtype} weights",
        "int64 n_slices",
        "int64 n_behind",
        "int64 s_m",
        *(f"int64 {k}_{d}" for d in dims for k in ("n", "s")),
        "int64 o_row",
        "int64 o_j",
        *(["int64 n_group", "int64 o_group"] if access.grouped else []),
    ]
    return NetworkKernel(
        function=f,
        access=access,
        in_params=", ".join(parameters),
        out_params=f"raw {graph.result.dtype} y",
        operation=operation,
        preamble=preamble,
        loop_prep=loop_prep,
    )
