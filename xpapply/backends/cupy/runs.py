"""What runs a graph on CuPy arrays: one kernel without tensor cores, one with, or a chain.

Nothing here synchronises but the one copy of a model's weights. Kernel objects
are made once per graph structure; weights are arguments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import cupy
import numpy as np

from ...cache import BoundedDict, remembered
from ...codegen import chain
from ...codegen.access import Access, geometry, placement
from ...codegen.elementwise import region_kernel
from ...codegen.reduction import Reduction
from ...codegen.scalar_network import THREADS, NetworkKernel, network_kernel, slices_per_thread
from ...codegen.tensor_network import Target, TensorKernel, tensor_kernel
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.ops import OPS
from ...ir.rewrite import Region
from ...program import Program
from . import module

_BLOCKS_PER_SM = 16


class Network:
    """One kernel for a whole graph: which one depends on how the array lies in memory."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._numbers = math.prod(graph.result.shape)
        self._known = BoundedDict()

    def __call__(
        self,
        x: Any,
        at: int,
        slices: int,
        bound: Weights,
        out: Any,
        place: tuple[int, int] | None = None,
    ) -> None:
        key = (x.shape, x.strides, at, x.data.ptr % 16, x.device.id, place is None)
        found = self._known.get(key)
        if found is None:
            access, numbers = geometry(x.shape, x.strides, x.itemsize, x.data.ptr, at, out.size)
            if place is not None:
                access = replace(access, grouped=False)
            text, kernel = _network_kernel(
                self.graph, access, slices_per_thread(self.graph, slices)
            )
            tiles = -(-slices // (THREADS * text.function.slices))
            size = min(tiles, _BLOCKS_PER_SM * module.device(x.device.id).multiprocessors) * THREADS
            found = (kernel, text, numbers, placement(access, numbers[1], self._numbers), size)
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


class Tensor:
    """One kernel on tensor cores: which one depends on how the array lies in memory."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self._known = BoundedDict()

    def __call__(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        start = x.data.ptr
        key = (x.shape, x.strides, at, start % 16, x.device.id)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._launch(x, at, slices, out.size)
        kernel, text, grid, block, numbers = found
        kernel(grid, block, (start, bound.packed(self, text), out.data.ptr, *numbers), text.shared)

    def _launch(self, x: Any, at: int, slices: int, outputs: int) -> tuple[Any, ...]:
        """A kernel for arrays laid out like `x`, and all that does not change between calls."""
        number = x.device.id
        access, numbers = geometry(x.shape, x.strides, x.itemsize, x.data.ptr, at, outputs)
        numbers += placement(access, numbers[1], math.prod(self.graph.result.shape))
        text = _tensor_kernel(self.graph, access, self.target)
        kernel = module.function(text.source, text.name, number, text.shared)
        tiles = -(-slices // text.slices)
        # few tiles spread over all multiprocessors
        multiprocessors = module.device(number).multiprocessors
        groups = min(text.groups, -(-tiles // multiprocessors))
        grid = (min(multiprocessors, -(-tiles // groups)),)
        block = (groups * text.threads + text.helpers,)
        return kernel, text, grid, block, tuple(numbers[k] for k in text.arguments)


class Chain:
    """The stages of a wide network, for blocks of slices."""

    def __init__(self, stages: list[chain.Stage]) -> None:
        self._runs: list[tuple[chain.Stage, Any]] = []
        for s in stages:
            run: Any = None
            if s.kind == "fused":
                run = Program(batch(s.graph), Calls())
            elif s.kind == "kernel":
                run = Network(s.graph)
            self._runs.append((s, run))
        self._widths = [math.prod(s.graph.result.shape) for s in stages]
        kinds = [s.kind for s in stages]
        products = kinds.count("product")
        self.what = f"{products} cuBLAS products, {len(kinds) - products} fused kernels"
        self._dtype = stages[0].graph.result.dtype
        self.row_bytes = max(self._widths) * np.dtype(self._dtype).itemsize

    def scratch(self, rows: int) -> list[Any]:
        """Two buffers, used in turn."""
        return [cupy.empty(max(self._widths) * rows, self._dtype) for _ in range(2)]

    def run(self, block: Any, at: int, bound: Weights, scratch: list[Any], out: Any) -> Any:
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


class Weights:
    """The constants of one model state on one device, in every form that a kernel wants."""

    def __init__(self, consts: Sequence[np.ndarray]) -> None:
        self.consts = consts
        self._packed: dict[Any, Any] = {}
        self._values: dict[Any, list[Any]] = {}
        self._arrays: dict[int, Any] = {}
        self._fit: dict[str, bool] = {}

    @functools.cached_property
    def finite(self) -> bool:
        """Whether no weight is infinite or NaN: splitting takes those apart wrongly."""
        return all(np.isfinite(c).all() for c in self.consts)

    def fit(self, dtype: str) -> bool:
        """Whether all matrices are the same in a dtype of 16 bits."""
        found = self._fit.get(dtype)
        if found is None:
            found = self._fit[dtype] = all(_fits(c, dtype) for c in self.consts if c.ndim > 1)
        return found

    def packed(self, run: Network | Tensor, text: NetworkKernel | TensorKernel) -> Any:
        """In the order of a kernel; the same for every way of access that it packs alike."""
        key = (run, text.packing)
        found = self._packed.get(key)
        if found is None:
            found = self._packed[key] = _uploaded(text.pack(self.consts))
        return found

    def values(self, name: Any, program: Program) -> list[Any]:
        """As the steps of a program want them."""
        if name not in self._values:
            self._values[name] = program.bind(self.consts)
            cupy.cuda.get_current_stream().synchronize()
        return self._values[name]

    def const(self, k: int) -> Any:
        """One constant."""
        if k not in self._arrays:
            self._arrays[k] = _uploaded(np.ascontiguousarray(self.consts[k]))
        return self._arrays[k]


def _fits(a: np.ndarray, dtype: str) -> bool:
    a = np.ascontiguousarray(a, np.float32)
    if dtype == "bfloat16":  # the upper half of float32
        return not (a.view(np.uint32) & 0xFFFF).any()
    with np.errstate(over="ignore"):
        return bool((a.astype(dtype) == a).all())


def _uploaded(a: np.ndarray) -> Any:
    """A constant on the device, there for all streams: they share it from now on."""
    found = cupy.asarray(a)
    cupy.cuda.get_current_stream().synchronize()
    return found


def _alias(x: Any) -> Any:
    """The first element of `x`: kernels get a pointer and do their own arithmetic."""
    return cupy.ndarray((1,), x.dtype, x.data)


@remembered(512)
def _network_kernel(graph: Graph, access: Access, each: int) -> tuple[NetworkKernel, Any]:
    text = network_kernel(graph, access, each)
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


@remembered(512)
def _tensor_kernel(graph: Graph, access: Access, target: Target) -> TensorKernel:
    return tensor_kernel(graph, access, target)


@remembered(512)
def reduction_function(text: Reduction) -> Any:
    """The kernel object of a reduction."""
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


class Calls:
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
        if OPS[op].in_special:
            import cupyx.scipy.special as special

            return getattr(special, op)  # type: ignore[no-any-return]
        return getattr(cupy, OPS[op].api or op)  # type: ignore[no-any-return]

    def cast(self, x: Any, dtype: str, out: Any) -> Any:
        if out is None:
            return x.astype(dtype)
        cupy.copyto(out, x, casting="unsafe")
        return out

    def reduce(self, op: str, x: Any, axis: tuple[int, ...], keepdims: bool, out: Any) -> Any:
        if OPS[op].finds_position:
            # CuPy's own may give a NaN that is not the first: its threads meet them in any order
            best = getattr(cupy, op.removeprefix("arg"))(x, axis=axis, keepdims=True)
            found, nan = (y.view("int8") for y in (x == best, x != x))
            return cupy.argmax(found + 2 * nan, axis=axis[0], out=out, keepdims=keepdims)
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
