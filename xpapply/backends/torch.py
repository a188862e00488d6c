"""torch: blocks of fused products on the CPU; on a GPU CuPy's kernels, on the same memory.

A tensor that takes part in autograd is not for these: `plan` runs torch's own
operations on it.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from .. import config
from ..blocks import boxes
from ..ir.batch import batch
from ..ir.graph import Graph
from ..ir.ops import OPS
from ..ir.rewrite import Region, expand
from ..program import Program

ENGINE = "torch"

_CPU_BLOCK_BYTES = 1 << 20
_GPU_BLOCK_BYTES = 1 << 28
_NATIVE = ("relu", "sigmoid")
"""Composites that torch has as one operation with ``out=``."""


class _Torch:
    """torch's calls, as `Program` wants them."""

    name = "torch"
    batch_first = True

    def fuse(self, graph: Graph, region: Region) -> None:
        """Elementwise work runs in place, one call after the other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def const(self, array: Any) -> torch.Tensor:
        return torch.tensor(array, device=self._device)

    def scalar(self, value: float, dtype: str) -> torch.Tensor:
        # 0-d tensors stay on the CPU: torch passes them to kernels as numbers
        return torch.tensor(value, dtype=getattr(torch, dtype))

    def empty(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self._device)

    def elementwise(self, op: str) -> Callable[..., Any]:
        if op == "relu":
            return lambda x, out: torch.clamp_min(x, 0, out=out)
        if op in ("maximum", "minimum"):  # the only ones that take no CPU number beside the array
            function, clamp = getattr(torch, op), "min" if op == "maximum" else "max"
            return lambda x, y, out: (
                torch.clamp(x, **{clamp: y.item()}, out=out)
                if y.ndim == 0 and y.device.type == "cpu" and not torch.isnan(y)
                else function(x, y.to(x.device), out=out)
            )
        return getattr(torch, {"equal": "eq"}.get(op, OPS[op].api or op))  # type: ignore[no-any-return]

    def cast(self, x: torch.Tensor, dtype: str, out: torch.Tensor | None) -> torch.Tensor:
        return x.to(getattr(torch, dtype)) if out is None else out.copy_(x)

    def reduce(
        self, op: str, x: torch.Tensor, axis: tuple[int, ...], keepdims: bool, out: Any
    ) -> torch.Tensor:
        if not axis:  # torch takes no axes for all axes
            return x if out is None else out.copy_(x)
        if op in ("max", "min"):
            return getattr(torch, f"a{op}")(x, axis, keepdims, out=out)  # type: ignore[no-any-return]
        if op == "prod":  # one axis at a time
            for a in sorted(axis, reverse=True):
                x = torch.prod(x, a, keepdims)
            return x
        return torch.sum(x, axis, keepdims, dtype=x.dtype, out=out)

    def weights(self, w: torch.Tensor) -> torch.Tensor:
        return w.t()

    def bias(self, b: torch.Tensor) -> torch.Tensor:
        return b

    def affine(
        self, rows: torch.Tensor, weights: torch.Tensor, bias: Any, out: torch.Tensor | None
    ) -> torch.Tensor:
        if bias is None:
            return torch.mm(rows, weights, out=out)
        return torch.addmm(bias, rows, weights, out=out)

    def einsum(self, subscripts: str, x: Any, y: Any, out: Any) -> torch.Tensor:
        return torch.einsum(subscripts, x, y)

    def concat(self, xs: Sequence[Any], axis: int, out: Any) -> torch.Tensor:
        return torch.cat(list(xs), axis, out=out)

    def transpose(self, x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
        return x.permute(axes)

    def broadcast_to(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return x.expand(shape)


def why_not(graph: Graph, like: Any) -> str | None:
    """The reason why torch cannot run `graph`, or None."""
    for node in expand(graph, _NATIVE).nodes:
        if node.op == "index" and any(
            isinstance(k, tuple) and (k[2] or 1) < 0 for k in node.attr("key")
        ):
            return "torch has no slices with negative steps"
    return None


def empty(shape: tuple[int, ...], dtype: str, like: torch.Tensor) -> torch.Tensor:
    """Memory for results, from torch's allocator."""
    return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)


def lend(x: torch.Tensor, dtype: str) -> tuple[str, Any] | None:
    """A CUDA tensor goes to CuPy's kernels, if CuPy is there."""
    if x.device.type != "cuda" or not _cupy_is_installed():
        return None
    if torch.bfloat16 in (x.dtype, getattr(torch, dtype)):  # CuPy has no bfloat16
        return None
    return "cupy", _as_cupy(x)


def _as_cupy(x: torch.Tensor) -> Any:
    """The memory of a CUDA tensor as a CuPy array.

    What DLPack would give, in a tenth of its time: both sides are known, and the
    kernels run on torch's own stream, so nothing has to wait.
    """
    import cupy

    dtype = np.dtype(str(x.dtype).partition(".")[2])
    strides = tuple(s * dtype.itemsize for s in x.stride())
    reach = sum((n - 1) * s for n, s in zip(x.shape, strides, strict=True)) + dtype.itemsize
    memory = cupy.cuda.UnownedMemory(x.data_ptr(), reach, x, x.device.index)
    return cupy.ndarray(tuple(x.shape), dtype, cupy.cuda.MemoryPointer(memory, 0), strides)


@functools.cache
def _cupy_is_installed() -> bool:
    return importlib.util.find_spec("cupy") is not None


@functools.lru_cache(maxsize=64)
def _borrowed(stream: torch.cuda.Stream) -> Any:
    """torch's stream as one of CuPy's."""
    import cupy

    try:
        return cupy.cuda.Stream.from_external(stream)
    except (AttributeError, TypeError, ValueError):  # an older CuPy or torch
        return cupy.cuda.ExternalStream(stream.cuda_stream)


@contextmanager
def lending(x: torch.Tensor) -> Iterator[None]:
    """Make the borrowing library work on torch's device and current stream."""
    if x.device.type != "cuda":
        yield
        return
    import cupy

    stream = torch.cuda.current_stream(x.device)
    with cupy.cuda.Device(x.device.index), _borrowed(stream):
        yield


def lower(graph: Graph) -> Lowered:
    """`graph` as a callable on tensors."""
    return Lowered(graph)


class Lowered:
    """Blocks through a `Program`, on torch's own threads."""

    engine = ENGINE

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._batched = batch(expand(graph, _NATIVE))
        self._programs: dict[torch.device, Program] = {}
        self.kernels: tuple[str, ...] = ("addmm(out=) and in-place activation in blocks",)

    def _program(self, device: torch.device) -> Program:
        if device not in self._programs:
            self._programs[device] = Program(self._batched, _Torch(device))
        return self._programs[device]

    def bind(self, consts: tuple[Any, ...], like: torch.Tensor) -> list[Any]:
        """The constants on the device of `like`."""
        with torch.inference_mode():
            return self._program(like.device).bind(consts)

    def __call__(
        self, x: torch.Tensor, at: int, bound: list[Any], out: torch.Tensor
    ) -> torch.Tensor:
        """All slices of `x` into `out`; both in memory order."""
        program = self._program(x.device)
        slices = math.prod(x.shape) // max(1, x.shape[at])
        on_cpu = x.device.type == "cpu"
        most = config.current().block_bytes or (_CPU_BLOCK_BYTES if on_cpu else _GPU_BLOCK_BYTES)
        rows = most // program.row_bytes
        if on_cpu and not config.current().block_bytes:
            rows = max(1024, min(16384, rows))
        rows = max(1, min(slices, rows))
        ndim = out.ndim - x.ndim + 1
        with torch.inference_mode():
            scratch = program.scratch(rows)
            for piece in boxes(x.shape, at, rows):
                block = x[piece]
                batch_shape = (*block.shape[:at], *block.shape[at + 1 :])
                columns = block.movedim(at, 0).reshape(x.shape[at], -1)
                target = out[(*piece[:at], *(slice(None),) * ndim, *piece[at + 1 :])]
                target = target.movedim(tuple(range(at, at + ndim)), tuple(range(ndim)))
                try:
                    flat = target.view((*target.shape[:ndim], -1))
                except RuntimeError:
                    flat = None
                result = program.run(columns, bound, scratch, flat)
                if result is not flat and (flat is None or result.data_ptr() != flat.data_ptr()):
                    target.copy_(result.reshape((*result.shape[:-1], *batch_shape)))
        return out
