"""Whole kernels as text: what `cupy.ElementwiseKernel` and `cupy.ReductionKernel` take.

No GPU library is imported here: the texts are compiled for real
architectures, and as host C++, on machines without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC, Region
from .cxx import HELPERS, TYPES, literal, statements
from .rows import RowFunction, prepare, row_function
from .rows import why_not as rows_why_not

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


EVEN = 256
"""Slices that kernels take together, at most."""


@dataclass(frozen=True)
class Access:
    """How a kernel finds its slices: what its text depends on.

    Attributes
    ----------
    before, behind : int
        The number of batch dims before and behind the applied axis, after
        dims that lie together were merged.
    vector : bool
        Each slice is contiguous and aligned to 16 bytes.
    wide : bool
        Offsets do not fit in 32 bits.
    grouped : bool
        The results of consecutive slices do not lie at equal distances.
    dense : bool
        There is one batch dim and no gap: the next slice starts one slice further, or,
        along the first axis, one element further.
    even : bool
        Behind the applied axis lies one batch dim without gaps, before it another one, and
        `EVEN` consecutive slices never differ in the one before.
    rows : bool
        With `dense` or `even` and a batch dim behind: elements of consecutive slices that
        lie side by side start at multiples of 16 bytes.
    """

    before: int
    behind: int
    vector: bool = False
    wide: bool = False
    grouped: bool = False
    dense: bool = False
    even: bool = False
    rows: bool = False


def geometry(
    shape: Sequence[int], strides: Sequence[int], itemsize: int, pointer: int, at: int, outputs: int
) -> tuple[Access, tuple[int, ...]]:
    """How a network kernel finds the slices of an array, and the numbers that it gets.

    Parameters
    ----------
    shape, strides : sequence of int
        Of the array in memory order, strides in bytes.
    itemsize, pointer : int
        Size of an element and address of the first.
    at : int
        Position of the applied axis.
    outputs : int
        Numbers in the whole output.

    Returns
    -------
    Access
        What the text of the kernel depends on.
    tuple of int
        The arguments between the weights and the placement of results.
    """
    before = merged(shape[:at], strides[:at])
    behind = merged(shape[at + 1 :], strides[at + 1 :])
    vector = (
        strides[at] == itemsize
        and pointer % 16 == 0
        and all(s % 16 == 0 for _, s in (*before, *behind))
    )
    reach = sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True)) // itemsize
    slices = math.prod(shape) // shape[at]
    # room for one more stride of the grid in 32 bits
    wide = max(reach, outputs, slices) >= (1 << 31) - (1 << 26)
    dims = [v for n, s in (*before, *behind) for v in (n, s // itemsize)]
    numbers = (slices, math.prod(n for n, _ in behind), strides[at] // itemsize, *dims)
    grouped = bool(before and behind)
    apart = [s for _, s in (*before, *behind)]
    step = itemsize if behind else shape[at] * itemsize
    dense = apart == [step] and (behind != [] or strides[at] == itemsize)
    even = len(before) == len(behind) == 1 and apart[1] == itemsize and behind[0][0] % EVEN == 0
    aligned = pointer % 16 == 0 and strides[at] % 16 == 0 and all(s % 16 == 0 for _, s in before)
    rows = (dense or even) and behind != [] and aligned
    access = Access(len(before), len(behind), vector, wide, grouped, dense, even, rows)
    return access, numbers


def placement(access: Access, n_behind: int, numbers: int) -> tuple[int, ...]:
    """Where results of `numbers` numbers go in an output in memory order.

    ``(o_row, o_j)``: result j of slice i lies at ``i * o_row + j * o_j``. Grouped,
    ``(o_row, o_j, n_group, o_group)``: it lies at
    ``i % n_group * o_row + i // n_group * o_group + j * o_j``.
    """
    if access.grouped:
        return 1, n_behind, n_behind, numbers * n_behind
    return (1, n_behind) if access.behind else (numbers, 1)


def merged(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Dims as (length, stride), slowest first, with those that lie together made one."""
    dims: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if dims and dims[-1][1] == n * s:
            dims[-1] = (dims[-1][0] * n, s)
        else:
            dims.append((n, s))
    return dims


def locate(access: Access) -> list[str]:
    """Statements that add to ``at`` where slice ``row`` starts.

    They read the numbers ``n_<dim>`` and ``s_<dim>`` of the batch dims
    ``b0, b1 ...`` before and ``c0, c1 ...`` behind the applied axis.
    """
    lines = []
    # the last dim of each group is the fastest; `rest` is divided from there
    both = access.before and access.behind
    for group, count, start in (
        ("c", access.behind, "row % (I)n_behind" if both else "row"),
        ("b", access.before, "row / (I)n_behind" if both else "row"),
    ):
        if not count:
            continue
        lines.append(f"I {group}_rest = {start};")
        for d in range(count - 1, 0, -1):
            lines += [
                f"at += ({group}_rest % (I)n_{group}{d}) * (I)s_{group}{d};",
                f"{group}_rest /= (I)n_{group}{d};",
            ]
        lines.append(f"at += {group}_rest * (I)s_{group}0;")
    return lines


@dataclass(frozen=True)
class NetworkKernel:
    """The text of one elementwise kernel that runs a whole graph.

    The arguments are the array, the packed weights, the number of slices, the
    number of them behind the applied axis, the stride along it, length and
    stride of each batch dim, then where results go (see `placement`), and the output.
    """

    function: RowFunction
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


def network_why_not(graph: Graph) -> str | None:
    """Why there is no such kernel for `graph`, or None."""
    refusal = rows_why_not(graph)
    if refusal is not None:
        return refusal
    f = row_function(graph, 1)
    words = np.dtype(f.dtype).itemsize // 4
    if f.numbers * words > _REGISTERS:
        return f"{f.numbers} numbers per slice do not fit in a thread's registers"
    shared = f.weights.size * words * 4 <= SHARED_BYTES
    if not shared and f.numbers * words > _REGISTERS_WITHOUT_SHARED:
        return f"{f.weights.size:,} weights do not fit in shared memory"
    return None


def rows_per_thread(graph: Graph, slices: int) -> int:
    """How many slices one thread takes: each weight that is read serves them all.

    Measured: as many as fit in registers, at most 4; fewer where that would
    leave parts of the device idle.
    """
    f = row_function(graph, 1)
    words = f.numbers * np.dtype(f.dtype).itemsize // 4
    if slices < (4 * THREADS if words > 40 else 40_000):
        return 1
    if words > 16 and any(OPS[n.op].needs_registers for n in f.graph.nodes):
        return 3 if words < 32 else 2
    return 4 if words <= 40 else 3 if words <= 56 else 2


def network_kernel(graph: Graph, access: Access, rows: int) -> NetworkKernel:
    """One kernel for the whole graph; each thread runs `rows` slices at a time.

    For more than one there must be at least ``THREADS * rows`` slices.

    The weights are copied to shared memory once per block, and the blocks are
    as many as the device holds at once, each taking slices until none is left.
    """
    f = row_function(graph, rows)
    size = max(f.weights.size, f.weights.lanes)
    index = "long long" if access.wide else "int"
    lanes = f.weights.lanes
    preamble = _TYPES.format(T=TYPES[f.dtype], IN=TYPES[graph.input.dtype], THREADS=THREADS)
    if access.vector:
        preamble += "#define XPAPPLY_VECTOR\n"
    preamble += HELPERS + f.text
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
    dims = [f"b{d}" for d in range(access.before)] + [f"c{d}" for d in range(access.behind)]
    out = TYPES[graph.result.dtype]
    indent = "\n      "
    stride = "(I)1" if access.vector else "(I)s_m"
    result_at = "row * (I)o_row"
    if access.grouped:
        result_at = "(row % (I)n_group) * (I)o_row + (row / (I)n_group) * (I)o_group"
    # whole tiles only: the last one lies over the one before, and computes the same results again
    last = "if (first > (I)n_slices - XPAPPLY_TILE) first = (I)n_slices - XPAPPLY_TILE;"
    clamp = ""
    if rows == 1:  # there may be fewer slices than threads
        last, clamp = "", "if (first >= (I)n_slices) first = (I)n_slices - 1;"
    operation = f"""
typedef {index} I;
#define XPAPPLY_TILE (XPAPPLY_THREADS * {rows})
const IN* const base = &x[0];
{out}* const target = &y[0];
const I tiles = ((I)n_slices + XPAPPLY_TILE - 1) / XPAPPLY_TILE;
#pragma unroll 1
for (I tile = blockIdx.x; tile < tiles; tile += gridDim.x) {{
  I first = tile * XPAPPLY_TILE;
  {last}
  first += threadIdx.x;
  {clamp}
  const IN* slice[{rows}];
  {out}* result[{rows}];
  #pragma unroll
  for (int r = 0; r < {rows}; ++r) {{
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


@dataclass(frozen=True)
class RegionKernel:
    """The text of one elementwise kernel for a region: bias and activation in one pass."""

    in_params: str
    out_params: str
    operation: str
    name: str
    preamble: str = HELPERS


def region_kernel(graph: Graph, region: Region) -> RegionKernel:
    """One pass over arrays that broadcast."""
    nodes = graph.nodes
    operation = "\n".join(
        [
            *statements(graph, region.nodes, lambda a: f"a{a}"),
            f"y = t{region.out};",
        ]
    )
    return RegionKernel(
        in_params=", ".join(f"{nodes[a].aval.dtype} a{a}" for a in region.inputs),
        out_params=f"{nodes[region.out].aval.dtype} y",
        operation=operation,
        name="xpapply_" + "_".join(nodes[i].op for i in region.nodes)[:60],
    )


@dataclass(frozen=True)
class Reduction:
    """The text of one reduction kernel: a graph that maps, reduces to one number, and maps."""

    in_params: str
    out_params: str
    map_expr: str
    reduce_expr: str
    post_expr: str
    identity: str
    reduce_type: str
    preamble: str
    per_slice: tuple[int, ...]
    """const nodes that stand beside the elements of the slice"""
    numbers: tuple[int, ...]
    """const nodes of one number"""

    name = "xpapply_reduction"


def reduction_kernel(graph: Graph) -> Reduction | None:
    """`graph` as map, reduce, post; None if it has another form.

    A product with one row of weights, ``Linear(n, 1)``, is such a graph too.
    """
    graph = prepare(graph)
    nodes = graph.nodes
    if math.prod(graph.result.shape) != 1:
        return None
    dependent = graph.dependent()
    reductions = [
        i
        for i, n in enumerate(nodes)
        if dependent[i] and (n.op == "einsum" or OPS[n.op].kind is Kind.REDUCTION)
    ]
    if len(reductions) != 1:
        return None
    at = reductions[0]
    node = nodes[at]
    row = OPS["sum" if node.op == "einsum" else node.op]
    if not row.join or math.prod(node.aval.shape) != 1:
        return None
    if node.op == "einsum" and node.attr("subscripts") != MATVEC:
        return None
    length = graph.input.shape
    before, behind = _upstream(graph, at, dependent), []
    for i, n in enumerate(nodes):
        if not dependent[i] or i in before or i == at or n.op == "input":
            continue
        if n.op not in ("reshape", "index", "broadcast_to") and not OPS[n.op].c:
            return None
        behind.append(i)
    seen = {at, *behind}  # what is behind the reduction must not look at the slice again
    if any(dependent[a] and a not in seen for i in behind for a in nodes[i].args):
        return None
    source = node.args[1] if node.op == "einsum" else node.args[0]
    if any(nodes[i].aval.shape != length or not OPS[nodes[i].op].c for i in before):
        return None
    if nodes[source].aval.shape != length:
        return None
    per_slice: list[int] = [node.args[0]] if node.op == "einsum" else []
    numbers: list[int] = []
    for i in (*before, *behind):
        for a in nodes[i].args:
            if dependent[a] or nodes[a].op == "scalar" or a in per_slice or a in numbers:
                continue
            if nodes[a].op != "const":
                return None
            if nodes[a].aval.shape == length and i in before and math.prod(length) > 1:
                per_slice.append(a)
            elif math.prod(nodes[a].aval.shape) == 1:
                numbers.append(a)
            else:
                return None
    dtype = nodes[at].aval.dtype
    T = TYPES[dtype]
    start = graph.entry
    assert row.identity is not None

    def name(a: int) -> str:
        return "in0" if a == start else f"c{a}"

    mapped = statements(graph, before, name, "_map")
    value = "in0" if source == start else f"t{source}_map"
    result = f"{value} * c{node.args[0]}" if node.op == "einsum" else value
    arguments = [
        f"{TYPES[graph.input.dtype]} in0",
        *(f"{TYPES[nodes[a].aval.dtype]} c{a}" for a in (*per_slice, *numbers)),
    ]
    passed = ", ".join(["in0", *(f"c{a}" for a in (*per_slice, *numbers))])
    # layouts of one number change nothing
    alias = {
        i: nodes[i].args[0] for i in behind if nodes[i].op in ("reshape", "index", "broadcast_to")
    }

    def post_name(a: int) -> str:
        while a in alias:
            a = alias[a]
        if a == at:
            return "s"
        return f"t{a}_post" if a in behind else f"c{a}"

    lines = [
        line
        for i in behind
        if i not in alias
        for line in statements(graph, [i], post_name, "_post")
    ]
    OUT = TYPES[graph.result.dtype]
    numbers_in = [f"{TYPES[nodes[a].aval.dtype]} c{a}" for a in numbers]
    preamble = f"""{HELPERS}
__device__ __forceinline__ {T} xpapply_map({", ".join(arguments)}) {{
  {" ".join(mapped)}
  return {result};
}}
__device__ __forceinline__ {T} xpapply_join({T} s, {T} e) {{
  return {"s + e" if node.op == "einsum" else row.c.format("s", "e")};
}}
__device__ __forceinline__ {OUT} xpapply_post({", ".join([f"{T} s", *numbers_in])}) {{
  {" ".join(lines)}
  return {post_name(graph.out)};
}}
"""
    params = [
        f"{graph.input.dtype} in0",
        *(f"{nodes[a].aval.dtype} c{a}" for a in (*per_slice, *numbers)),
    ]
    post = ", ".join(["a", *(f"c{a}" for a in numbers)])
    return Reduction(
        in_params=", ".join(params),
        out_params=f"{graph.result.dtype} out0",
        map_expr=f"xpapply_map({passed})",
        reduce_expr="xpapply_join(a, b)",
        post_expr=f"out0 = xpapply_post({post})",
        identity=literal(row.identity, dtype),
        reduce_type=T,
        preamble=preamble,
        per_slice=tuple(per_slice),
        numbers=tuple(numbers),
    )


def _upstream(graph: Graph, at: int, dependent: Sequence[bool]) -> list[int]:
    """The nodes between the input and node `at`."""
    found: set[int] = set()
    stack = [a for a in graph.nodes[at].args if dependent[a]]
    while stack:
        i = stack.pop()
        if i in found or graph.nodes[i].op == "input":
            continue
        found.add(i)
        stack += [a for a in graph.nodes[i].args if dependent[a]]
    return sorted(found)
