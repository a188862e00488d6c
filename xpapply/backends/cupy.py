"""CuPy: a whole network in one generated kernel; cuBLAS by blocks where that is too wide.

Nothing here synchronises, and the only allocation of the narrow kernels is
the output. Kernel objects are made once per graph structure; weights are
arguments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import cupy
import numpy as np

from ..blocks import boxes
from ..codegen import chain
from ..codegen.kernels import (
    THREADS,
    Access,
    NetworkKernel,
    Reduction,
    geometry,
    network_kernel,
    network_why_not,
    placement,
    reduction_kernel,
    region_kernel,
    rows_per_thread,
)
from ..codegen.rows import prepare
from ..config import current
from ..ir.batch import batch
from ..ir.graph import Graph
from ..ir.ops import OPS
from ..ir.rewrite import Region
from ..program import Program

ENGINE = "cupy"

_BLOCKS_PER_SM = 16
_FEW_SLICES = 16384
"""Fewer slices than this leave threads idle if each takes whole slices ..."""
_LONG = 64
"""... and slices at least this long keep the threads of a block busy on one slice."""
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
    """The network kernel, a reduction kernel, or cuBLAS between fused kernels in blocks."""

    engine = ENGINE

    def __init__(self, graph: Graph) -> None:
        self.graph = _without_bfloat16(graph)
        self.refusal = network_why_not(self.graph)
        self._reduction = reduction_kernel(self.graph)
        self._network = None if self.refusal else _Network(self.graph)
        stages = chain.stages(self.graph) if self.refusal else None
        self._chain = None if stages is None else _Chain(stages)
        self._program: Program | None = None
        if self.refusal is None:
            what = "one ElementwiseKernel for all layers, activations in registers"
        elif stages is not None:
            kinds = [s.kind for s in stages]
            what = (
                f"in blocks of slices {kinds.count('product')} cuBLAS products, "
                f"{len(kinds) - kinds.count('product')} fused kernels ({self.refusal})"
            )
        else:
            what = f"in blocks of slices, elementwise work in fused kernels ({self.refusal})"
        if self._reduction is not None:
            what += f"; below {_FEW_SLICES:,} long slices one ReductionKernel"
        self.kernels: tuple[str, ...] = (what,)

    def bind(self, consts: tuple[Any, ...], like: Any) -> _Weights:
        """The weights, packed and copied to the device as the kernels first want them."""
        return _Weights(consts)

    def __call__(self, x: Any, at: int, bound: _Weights, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        length = x.shape[at]
        slices = x.size // max(1, length)
        with x.device:
            few = slices < _FEW_SLICES and length >= _LONG
            if self._reduction is not None and length and (few or self._network is None):
                self._reduce(self._reduction, x, at, bound, out)
            elif self._network is not None and length:
                self._network(x, at, slices, bound, out)
            else:
                self._in_blocks(x, at, slices, bound, out)
        return out

    def _reduce(self, text: Reduction, x: Any, at: int, bound: _Weights, out: Any) -> None:
        nodes = prepare(self.graph).nodes
        shape = (*(1,) * at, -1, *(1,) * (x.ndim - at - 1))
        arrays = [bound.const(nodes[a].attr("k")).reshape(shape) for a in text.per_slice]
        numbers = [bound.consts[nodes[a].attr("k")].reshape(())[()] for a in text.numbers]
        target = out.reshape((*x.shape[:at], *x.shape[at + 1 :]))
        _reduction_kernel(text)(x, *arrays, *numbers, target, axis=at)

    def _in_blocks(self, x: Any, at: int, slices: int, bound: _Weights, out: Any) -> None:
        """Block by block, in memory that does not grow with the array."""
        runner: _Chain | Program = self._chain or self.program()
        most = current().block_bytes or _BLOCK_BYTES
        rows = max(1, min(slices, most // runner.row_bytes))
        scratch: Any = runner.scratch(rows)
        ndim = out.ndim - x.ndim + 1
        for piece in boxes(x.shape, at, rows):
            block = x[piece]
            batch_shape = block.shape[:at] + block.shape[at + 1 :]
            target = out[(*piece[:at], *(slice(None),) * ndim, *piece[at + 1 :])]
            target = cupy.moveaxis(target, range(at, at + ndim), range(ndim))
            flat = target.reshape((*target.shape[:ndim], -1))
            direct = flat.data.ptr == target.data.ptr
            if isinstance(runner, _Chain):
                result = runner.run(block, at, bound, scratch, flat if direct else None)
            else:
                columns = cupy.moveaxis(block, at, 0).reshape(block.shape[at], -1)
                values = bound.values("program", runner)
                result = runner.run(columns, values, scratch, flat if direct else None)
            if not direct or result.data.ptr != flat.data.ptr:
                target[...] = result.reshape((*result.shape[:-1], *batch_shape))

    def program(self) -> Program:
        """The steps of a block, for graphs that are no chain of kernels and products."""
        if self._program is None:
            self._program = Program(batch(prepare(self.graph)), _CuPy())
        return self._program


class _Network:
    """One kernel for a whole graph: which one depends on how the array lies in memory."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._numbers = math.prod(graph.result.shape)
        self._known: dict[Any, tuple[Any, ...]] = {}

    def __call__(
        self,
        x: Any,
        at: int,
        slices: int,
        bound: _Weights,
        out: Any,
        place: tuple[int, int] | None = None,
    ) -> None:
        key = (x.shape, x.strides, at, x.data.ptr % 16, x.device.id, place is None)
        found = self._known.get(key)
        if found is None:
            access, numbers = geometry(x.shape, x.strides, x.itemsize, x.data.ptr, at, out.size)
            if place is not None:
                access = replace(access, grouped=False)
            text, kernel = _network_kernel(self.graph, access, rows_per_thread(self.graph, slices))
            tiles = -(-slices // (THREADS * text.function.rows))
            size = min(tiles, _BLOCKS_PER_SM * _multiprocessors(x.device.id)) * THREADS
            found = (kernel, text, numbers, placement(access, numbers[1], self._numbers), size)
            if len(self._known) > 64:
                self._known.clear()
            self._known[key] = found
        kernel, text, numbers, usual, size = found
        weights = bound.packed(self, text)
        kernel(
            _alias(x),
            weights,
            *numbers,
            *(place or usual),
            _alias(out),
            size=size,
            block_size=THREADS,
        )


class _Chain:
    """The stages of a wide network, for blocks of slices."""

    def __init__(self, stages: list[chain.Stage]) -> None:
        self._runs: list[tuple[chain.Stage, Any]] = []
        for s in stages:
            run: Any = None
            if s.kind == "fused":
                run = Program(batch(s.graph), _CuPy())
            elif s.kind == "kernel":
                run = _Network(s.graph)
            self._runs.append((s, run))
        self._widths = [math.prod(s.graph.result.shape) for s in stages]
        self._dtype = stages[0].graph.result.dtype
        self.row_bytes = max(self._widths) * np.dtype(self._dtype).itemsize

    def scratch(self, rows: int) -> list[Any]:
        """Two buffers, used in turn."""
        return [cupy.empty(max(self._widths) * rows, self._dtype) for _ in range(2)]

    def run(self, block: Any, at: int, bound: _Weights, scratch: list[Any], out: Any) -> Any:
        """One block; the result may lie in `scratch`."""
        x, rows = block, block.size // block.shape[at]
        turn = 0
        for number, (stage, run) in enumerate(self._runs):
            last = number == len(self._runs) - 1
            if stage.kind == "fused":  # in place
                x = run.run(x, bound.values(id(run), run), run.scratch(rows), x)
                continue
            width = self._widths[number]
            target = out if last else None
            if target is None:
                dtype = stage.graph.result.dtype
                flat = scratch[turn] if dtype == self._dtype else cupy.empty(width * rows, dtype)
                target = flat[: width * rows].reshape((*stage.graph.result.shape, rows))
                turn = 1 - turn
            if stage.kind == "kernel":
                step = target.strides[-1] // target.itemsize
                jump = target.strides[0] // target.itemsize if target.ndim > 1 else 0
                if target.ndim > 2:
                    jump = target.strides[-2] // target.itemsize
                run(x, at, rows, bound, target, (step, jump))
            else:
                if number == 0:
                    x = cupy.moveaxis(x, at, 0).reshape(x.shape[at], -1)
                cupy.matmul(bound.const(stage.weights), x, out=target)
            x, at = target, 0
        if out is not None and x.data.ptr != out.data.ptr:
            out[...] = x
            return out
        return x


class _Weights:
    """The constants of one model state on one device, in every form that a kernel wants."""

    def __init__(self, consts: Sequence[np.ndarray]) -> None:
        self.consts = consts
        self._packed: dict[_Network, Any] = {}
        self._values: dict[Any, list[Any]] = {}
        self._arrays: dict[int, Any] = {}

    def packed(self, network: _Network, text: NetworkKernel) -> Any:
        """In the order of a network kernel; the same for every way of access."""
        found = self._packed.get(network)
        if found is None:
            found = self._packed[network] = cupy.asarray(text.function.pack(self.consts))
        return found

    def values(self, name: Any, program: Program) -> list[Any]:
        """As the steps of a program want them."""
        if name not in self._values:
            self._values[name] = program.bind(self.consts)
        return self._values[name]

    def const(self, k: int) -> Any:
        """One constant."""
        if k not in self._arrays:
            self._arrays[k] = cupy.asarray(np.ascontiguousarray(self.consts[k]))
        return self._arrays[k]


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
def _network_kernel(graph: Graph, access: Access, rows: int) -> tuple[NetworkKernel, Any]:
    text = network_kernel(graph, access, rows)
    kernel = cupy.ElementwiseKernel(
        text.in_params,
        text.out_params,
        text.operation,
        text.name,
        preamble=text.preamble,
        loop_prep=text.loop_prep,
        no_return=True,
    )
    return text, kernel


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
        kernel = cupy.ElementwiseKernel(
            text.in_params, text.out_params, text.operation, text.name, preamble=text.preamble
        )
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

    def bias(self, b: Any) -> Any:
        return b

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
