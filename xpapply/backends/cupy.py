"""CuPy: a whole network in one generated kernel; cuBLAS by blocks where that is too wide.

Nothing here synchronises, and the only allocation of the narrow kernels is
the output. Kernel objects are made once per graph structure; weights are
arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ..blocks import boxes
from ..codegen.kernels import (
    THREADS,
    Access,
    NetworkKernel,
    Reduction,
    geometry,
    network_kernel,
    network_why_not,
    reduction_kernel,
    region_kernel,
)
from ..codegen.rows import prepare
from ..config import current
from ..ir.batch import batch
from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import Region, expand
from ..program import Program

ENGINE = "cupy"

_BLOCKS_PER_SM = 6
_FEW_SLICES = 16384
"""Fewer slices than this leave threads idle if each takes whole slices ..."""
_LONG = 64
"""... and slices at least this long keep the threads of a block busy on one slice (measured)."""
_BLOCK_BYTES = 1 << 28
"""One buffer of a block: many launches cost more time than small blocks save memory traffic."""


def library_dtype(dtype: str) -> str:
    """The dtype in which CuPy returns results; it has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def why_not(graph: Graph, like: Any) -> str | None:
    """The reason why CuPy cannot run `graph`, or None."""
    if like.dtype.kind not in "fiub":
        return f"no kernels for {like.dtype} input"
    if any(s % like.itemsize for s in like.strides):
        return "elements do not lie on multiples of their size"
    return None


def empty(shape: tuple[int, ...], dtype: str, like: Any) -> Any:
    """Memory for results, from CuPy's pool."""
    with cupy.cuda.Device(like.device.id):
        return cupy.empty(shape, library_dtype(dtype))


def limits(like: Any) -> tuple[float, float] | None:
    """Bytes and float32 operations per second by the device's clocks and widths."""
    if not isinstance(like, cupy.ndarray):
        return None
    found = like.device.attributes
    memory = 2e3 * found["MemoryClockRate"] * found["GlobalMemoryBusWidth"] / 8
    rate = 2e3 * found["ClockRate"] * found["MultiProcessorCount"] * 128
    return (memory, rate) if memory and rate else None


def lower(graph: Graph) -> Lowered:
    """`graph` as a callable on CuPy arrays."""
    return Lowered(graph)


class Lowered:
    """The network kernel, a reduction kernel, or cuBLAS and fused kernels in blocks."""

    engine = ENGINE

    def __init__(self, graph: Graph) -> None:
        self.graph = _without_bfloat16(graph)
        self.refusal = network_why_not(self.graph)
        self._reduction = reduction_kernel(self.graph)
        self._program: Program | None = None
        if self.refusal is None:
            what = "one ElementwiseKernel for all layers, activations in registers"
        else:
            what = f"cuBLAS in blocks, bias and activation in one kernel ({self.refusal})"
        if self._reduction is not None:
            what += f"; below {_FEW_SLICES:,} long slices one ReductionKernel"
        self.kernels: tuple[str, ...] = (what,)

    def bind(self, consts: tuple[Any, ...], like: Any) -> _Weights:
        """The weights, packed and copied to the device as the kernels first want them."""
        return _Weights(self, consts, like.device.id)

    def __call__(self, x: Any, at: int, bound: _Weights, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        slices = x.size // max(1, x.shape[at])
        with cupy.cuda.Device(x.device.id):
            long = slices < _FEW_SLICES and x.shape[at] >= _LONG
            if self._reduction is not None and (long or self.refusal is not None):
                self._reduce(self._reduction, x, at, bound, out)
            elif self.refusal is None and x.shape[at]:
                self._network(x, at, slices, bound, out)
            else:
                self._in_blocks(x, at, slices, bound, out)
        return out

    # --- one kernel -------------------------------------------------------------------

    def _network(self, x: Any, at: int, slices: int, bound: _Weights, out: Any) -> None:
        access, numbers = geometry(x.shape, x.strides, x.itemsize, x.data.ptr, at, out.size)
        kernel, text = _network_kernel(self.graph, access)
        rows = text.function.rows
        blocks = min(-(-slices // (THREADS * rows)), _BLOCKS_PER_SM * _multiprocessors(x.device.id))
        arguments = (_alias(x), bound.packed(text), *numbers, _alias(out))
        kernel(*arguments, size=blocks * THREADS, block_size=THREADS)

    def _reduce(self, text: Reduction, x: Any, at: int, bound: _Weights, out: Any) -> None:
        shape = (*(1,) * at, -1, *(1,) * (x.ndim - at - 1))
        weights = [bound.const(a).reshape(shape) for a in text.per_slice]
        numbers = [bound.number(a) for a in text.numbers]
        target = out.reshape((*x.shape[:at], *x.shape[at + 1 :]))
        _reduction_kernel(text)(x, *weights, *numbers, target, axis=at)

    # --- blocks -----------------------------------------------------------------------

    def _in_blocks(self, x: Any, at: int, slices: int, bound: _Weights, out: Any) -> None:
        program = self.program()
        most = current().block_bytes or _BLOCK_BYTES
        rows = max(1, min(slices, most // program.row_bytes))
        scratch = program.scratch(rows)
        ndim = out.ndim - x.ndim + 1
        for piece in boxes(x.shape, at, rows):
            block = x[piece]
            batch_shape = block.shape[:at] + block.shape[at + 1 :]
            columns = cupy.moveaxis(block, at, 0).reshape(block.shape[at], -1)
            target = out[(*piece[:at], *(slice(None),) * ndim, *piece[at + 1 :])]
            target = cupy.moveaxis(target, range(at, at + ndim), range(ndim))
            flat = target.reshape((*target.shape[:ndim], -1))
            direct = flat.data.ptr == target.data.ptr
            result = program.run(columns, bound.values(), scratch, flat if direct else None)
            if not direct or result.data.ptr != flat.data.ptr:
                target[...] = result.reshape((*result.shape[:-1], *batch_shape))

    def program(self) -> Program:
        """The steps of a block."""
        if self._program is None:
            graph = expand(
                self.graph, {n for n, r in OPS.items() if r.kind is Kind.COMPOSITE and r.c}
            )
            self._program = Program(batch(graph), _CuPy())
        return self._program


class _Weights:
    """The constants of one model state on one device."""

    def __init__(self, lowered: Lowered, consts: Sequence[np.ndarray], device: int) -> None:
        self._lowered = lowered
        self._consts = consts
        self._device = device
        self._packed: Any = None
        self._values: list[Any] | None = None
        self._arrays: dict[int, Any] = {}

    def packed(self, text: NetworkKernel) -> Any:
        """In the order of the network kernel; the same for every way of access."""
        if self._packed is None:
            self._packed = cupy.asarray(text.function.pack(self._consts))
        return self._packed

    def values(self) -> list[Any]:
        """As the steps of the program want them."""
        if self._values is None:
            self._values = self._lowered.program().bind(self._consts)
        return self._values

    def const(self, node: int) -> Any:
        """One constant."""
        if node not in self._arrays:
            self._arrays[node] = cupy.asarray(self._host(node))
        return self._arrays[node]

    def number(self, node: int) -> Any:
        """A constant of one number: passed by value."""
        return self._host(node).reshape(())[()]

    def _host(self, node: int) -> np.ndarray:
        graph = prepare(self._lowered.graph)
        return np.ascontiguousarray(self._consts[graph.nodes[node].attr("k")])


def _without_bfloat16(graph: Graph) -> Graph:
    """A result that would be rounded to bfloat16 stays float32."""
    last = graph.nodes[graph.out]
    if last.aval.dtype != "bfloat16":
        return graph
    return Graph(graph.nodes, last.args[0], graph.consts)


def _alias(x: Any) -> Any:
    """The first element of `x`: kernels get a pointer and do their own arithmetic."""
    return cupy.ndarray((1,), x.dtype, x.data)


@functools.cache
def _multiprocessors(device: int) -> int:
    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


@functools.lru_cache(maxsize=512)
def _network_kernel(graph: Graph, access: Access) -> tuple[Any, NetworkKernel]:
    text = network_kernel(graph, access)
    kernel = cupy.ElementwiseKernel(
        text.in_params,
        text.out_params,
        text.operation,
        text.name,
        preamble=text.preamble,
        loop_prep=text.loop_prep,
    )
    return kernel, text


@functools.lru_cache(maxsize=512)
def _reduction_kernel(text: Reduction) -> Any:
    return cupy.ReductionKernel(
        text.in_params,
        text.out_params,
        text.map_expr,
        text.reduce_expr,
        text.post_expr,
        text.identity,
        text.name,
        reduce_type=text.reduce_type,
        preamble=text.preamble,
    )


class _CuPy:
    """CuPy's calls, as `Program` wants them."""

    name = "CuPy"
    batch_first = False

    def fuse(self, graph: Graph, region: Region) -> Callable[..., Any]:
        """Bias and activation, or any elementwise region, in one kernel."""
        text = region_kernel(graph, region)
        kernel = cupy.ElementwiseKernel(text.in_params, text.out_params, text.operation, text.name)
        return lambda *args, out: kernel(*args) if out is None else kernel(*args, out)

    def const(self, array: np.ndarray) -> Any:
        return cupy.asarray(array)

    def scalar(self, value: float, dtype: str) -> Any:
        return np.dtype(dtype).type(value)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return cupy.empty(shape, dtype)

    def elementwise(self, op: str) -> Callable[..., Any]:
        if op in ("erf", "erfc"):
            import cupyx.scipy.special as special

            return getattr(special, op)  # type: ignore[no-any-return]
        return getattr(cupy, OPS[op].api or op)  # type: ignore[no-any-return]

    def cast(self, x: Any, dtype: str, out: Any) -> Any:
        if out is None:
            return x.astype(dtype)
        cupy.copyto(out, x, casting="unsafe")
        return out

    def reduce(self, op: str, x: Any, axis: tuple[int, ...], keepdims: bool, out: Any) -> Any:
        return getattr(cupy, op)(x, axis=axis, keepdims=keepdims, out=out)

    def weights(self, w: Any) -> Any:
        return w

    def affine(self, x: Any, weights: Any, bias: Any, out: Any) -> Any:
        return cupy.matmul(weights, x, out=out)

    def einsum(self, subscripts: str, x: Any, y: Any, out: Any) -> Any:
        return cupy.einsum(subscripts, x, y)

    def concat(self, xs: Sequence[Any], axis: int, out: Any) -> Any:
        return cupy.concatenate(xs, axis=axis, out=out)

    def transpose(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.transpose(axes)

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any:
        return cupy.broadcast_to(x, shape)
