"""Runs of a graph on CuPy arrays: one kernel on tensor cores, or a chain.

Nothing here synchronises but the one copy of a model's weights. Kernel objects
are made once per graph structure; weights are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ...codegen import chain
from ...codegen.access import Access, geometry, placement
from ...codegen.elementwise import region_kernel
from ...codegen.tensor_network import Target, TensorKernel, tensor_kernel
from ...functions.cache import BoundedDict, remembered
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.ops import OPS
from ...ir.rewrite import Region
from ...ir.shapes import as_product
from ...ir.tiles.tiles import Tiles
from ...lowering.program import Program, padded, padded_shape, windows_of
from . import compiler
from .plain import Network
from .weights import Weights


class Tensor:
    """Kernels on tensor cores, one per memory access.

    `write` writes it, for a way of access. With `tiles` the array has whole slices, of which
    `graph` is that of a tile.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        write: Callable[[Graph, Access, Target], TensorKernel] = tensor_kernel,
        tiles: Tiles | None = None,
    ) -> None:
        self.graph, self.target, self._write = graph, target, write
        self._parts = 1 if tiles is None else tiles.count
        self._numbers = math.prod(graph.result.shape) if tiles is None else tiles.row
        self._known = BoundedDict()

    def __call__(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        if not slices:  # no kernel is launched for nothing
            return
        start = x.data.ptr
        key = (x.shape, x.strides, at, start % 16, x.device.id)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._launch(x, at, slices, out)
        kernel, text, grid, block, numbers = found
        kernel(grid, block, (start, bound.packed(self, text), out.data.ptr, *numbers), text.shared)

    def _for(self, slices: int, multiprocessors: int) -> Target:
        """The target for so many slices."""
        return self.target

    def text(self, x: Any, at: int, slices: int, out: Any) -> tuple[TensorKernel, tuple[int, ...]]:
        """The kernel for arrays laid out like these, and the numbers of `geometry`."""
        access, numbers = geometry(x.shape, x.strides, x.itemsize, x.data.ptr, at, _reach(out))
        slices *= self._parts
        numbers = (slices, *numbers[1:], *placement(access, numbers[1], self._numbers))
        target = self._for(slices, compiler.device(x.device.id).multiprocessors)
        return _written(self._write, self.graph, access, target), numbers

    def _launch(self, x: Any, at: int, slices: int, out: Any) -> tuple[Any, ...]:
        """A kernel for arrays laid out like these, and all that does not change between calls."""
        number = x.device.id
        text, numbers = self.text(x, at, slices, out)
        kernel = compiler.function(text.source, text.name, number, text.shared)
        turns = -(-slices * self._parts // text.slices)
        # few of them are spread over all multiprocessors
        multiprocessors = compiler.device(number).multiprocessors
        groups = min(text.groups, -(-turns // multiprocessors))
        grid = (min(text.blocks * multiprocessors, -(-turns // groups)),)
        block = (groups * text.threads + text.helpers,)
        return kernel, text, grid, block, tuple(numbers[k] for k in text.arguments)


def _reach(x: Any) -> int:
    """Elements from the first to the last of an array, as it lies in memory."""
    steps = zip(x.shape, x.strides, strict=True)
    return int(sum(abs(s) * (n - 1) for n, s in steps) // x.itemsize + 1)


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
        """Run one block; the result may be in `scratch`."""
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


@remembered(512)
def _written(
    write: Callable[[Graph, Access, Target], TensorKernel],
    graph: Graph,
    access: Access,
    target: Target,
) -> TensorKernel:
    return write(graph, access, target)


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
        found = as_product(subscripts)
        if out is None or found is None or not found.inner:
            return cupy.einsum(subscripts, x, y)
        # windows are brought together for one product by cuBLAS: their places lie side by side
        stack, rows, inner, columns = found
        of_x, of_y = subscripts.partition("->")[0].split(",")
        letters = subscripts.partition("->")[2]
        left = x.transpose([of_x.index(k) for k in stack + rows + inner])
        right = y.transpose([of_y.index(k) for k in stack + inner + columns])
        place = out.transpose([letters.index(k) for k in stack + rows + columns])
        a, b, c = len(stack), len(stack) + len(rows), len(stack) + len(inner)
        depth, n, m = (math.prod(s) for s in (left.shape[:a], left.shape[a:b], left.shape[b:]))
        product = cupy.matmul(left.reshape(depth, n, m), right.reshape(depth, m, -1))
        cupy.copyto(place, product.reshape((*right.shape[:a], *left.shape[a:b], *right.shape[c:])))
        return out

    def concat(self, xs: Sequence[Any], axis: int, out: Any) -> Any:
        return cupy.concatenate(xs, axis=axis, out=out)

    def transpose(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.transpose(axes)

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any:
        return cupy.broadcast_to(x, shape)

    def pad(self, x: Any, widths: Any, number: float, out: Any) -> Any:
        out = cupy.empty(padded_shape(x.shape, widths), x.dtype) if out is None else out
        return padded(x, widths, number, out)

    def take(self, x: Any, places: tuple[int, ...], axis: int, out: Any) -> Any:
        return cupy.take(x, cupy.asarray(np.array(places, np.int64)), axis=axis)

    def windows(self, x: Any, *how: int, **names: int) -> Any:
        shape, strides = windows_of(x.shape, x.strides, *how, **names)
        return cupy.lib.stride_tricks.as_strided(x, shape, strides)
