"""NumPy: cache-sized blocks, BLAS products, in-place bias and activation, threads over blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import config
from ...arrays.layout import boxes, columns, run_blocks
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.ops import OPS
from ...ir.rewrite import Region, expand
from ...limits import LIMITS
from ...lowering.program import Program, padded, padded_shape, windows_of
from ...runtime import threads
from .. import Backend, Borrower, Lowered, compiled
from . import bincount, kernels, windows


class NumPyCalls:
    """NumPy's calls, as `Program` wants them."""

    name = "NumPy"
    batch_first = True

    def fuse(self, graph: Graph, region: Region) -> None:
        """Elementwise work runs in place, one call after the other."""

    def const(self, array: np.ndarray) -> np.ndarray:
        return array

    def scalar(self, value: float, dtype: str) -> Any:
        return np.dtype(dtype).type(value)

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.empty(shape, dtype)

    def elementwise(self, op: str) -> Callable[..., Any]:
        return _where if op == "where" else kernels.ufunc(op)

    def cast(self, x: np.ndarray, dtype: str, out: np.ndarray | None) -> np.ndarray:
        if out is None:
            return x.astype(BACKEND.result_dtype(dtype))
        np.copyto(out, x, casting="unsafe")
        return out

    def reduce(
        self, op: str, x: np.ndarray, axis: tuple[int, ...], keepdims: bool, out: Any
    ) -> np.ndarray:
        reduction = getattr(np, op)
        if OPS[op].finds_position:
            return reduction(x, axis[0], out, keepdims=keepdims)  # type: ignore[no-any-return]
        if (
            len(axis) == 1
            and x.ndim > 2
            and 1 < x.shape[axis[0]] <= LIMITS.numpy_few
            and out is not None
        ):
            windows.reduced(op, x, axis[0], out if keepdims else np.expand_dims(out, axis))
            return out  # type: ignore[no-any-return]
        if op in ("sum", "prod"):
            return reduction(x, axis=axis, keepdims=keepdims, out=out, dtype=x.dtype)  # type: ignore[no-any-return]
        return reduction(x, axis=axis, keepdims=keepdims, out=out)  # type: ignore[no-any-return]

    def weights(self, w: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(w.T)

    def bias(self, b: np.ndarray) -> np.ndarray:
        """Repeated: with short rows NumPy spends its time between them, not on additions."""
        return np.tile(b, max(1, LIMITS.numpy_bias // max(1, len(b))))

    def affine(
        self, rows: np.ndarray, weights: np.ndarray, bias: Any, out: np.ndarray | None
    ) -> np.ndarray:
        """``rows @ weights + bias``: a stack of products, each small enough for one thread."""
        if out is None:
            out = np.empty((rows.shape[0], weights.shape[1]), weights.dtype)
        windows.rows_product(rows, weights, out)
        return out if bias is None else self._add_bias(out, bias)

    def _add_bias(self, out: np.ndarray, bias: np.ndarray) -> np.ndarray:
        n = out.shape[1]
        whole = 0
        if out.flags.c_contiguous and out.size:
            whole = len(out) - len(out) % (len(bias) // n)
            flat = out[:whole].reshape(-1, len(bias))
            np.add(flat, bias, out=flat)
        if whole < len(out):
            np.add(out[whole:], bias[:n], out=out[whole:])
        return out

    def einsum(self, subscripts: str, x: Any, y: Any, out: Any) -> np.ndarray:
        if out is None:
            return np.einsum(subscripts, x, y, optimize=True)  # type: ignore[no-any-return]
        if windows.product(subscripts, x, y, out):
            return out  # type: ignore[no-any-return]
        return np.einsum(subscripts, x, y, out=out, optimize=True)  # type: ignore[no-any-return]

    def concat(self, xs: Sequence[Any], axis: int, out: Any) -> np.ndarray:
        return np.concatenate(xs, axis=axis, out=out)

    def transpose(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return x.transpose(axes)

    def broadcast_to(self, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(x, shape)

    def pad(self, x: np.ndarray, widths: Any, number: float, out: Any) -> np.ndarray:
        out = np.empty(padded_shape(x.shape, widths), x.dtype) if out is None else out
        return padded(x, widths, number, out)  # type: ignore[no-any-return]

    def take(self, x: np.ndarray, places: tuple[int, ...], axis: int, out: Any) -> np.ndarray:
        return windows.taken(x, places, axis, out)

    def windows(self, x: np.ndarray, *how: int, **names: int) -> np.ndarray:
        shape, strides = windows_of(x.shape, x.strides, *how, **names)
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _where(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    if out is None:
        return np.where(condition, x, y)
    # x may lie in the memory of out, or y may: choose without a further buffer where possible
    if out is x or (isinstance(x, np.ndarray) and np.may_share_memory(out, x)):
        np.copyto(out, y, where=np.logical_not(condition))
    else:
        np.copyto(out, y)
        np.copyto(out, x, where=condition)
    return out


_CALLS = NumPyCalls()


class NumPy(Backend):
    """Networks in blocks; functions of slices by `slices`."""

    name = "numpy"
    slices_engines = ("cpu",)

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        if graph.any_length:
            from . import slices

            return slices.why_not(graph, given)
        lacks = super().why_not(graph, given) or kernels.missing(n.op for n in expand(graph).nodes)
        return lacks or graph.why_not_fused(gathers=True)

    def lower(self, graph: Graph, precision: str = "highest") -> Lowered:
        if graph.any_length:
            from . import slices

            return slices.OfSlices(graph)
        return NumPyLowered(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> np.ndarray:
        return np.empty(shape, self.result_dtype(dtype))

    def result_dtype(self, dtype: str) -> str:
        return "float32" if dtype == "bfloat16" else dtype  # NumPy has no bfloat16

    def borrowers(self, x: np.ndarray, dtype: str) -> Sequence[Borrower]:
        """Kernels that are compiled here, where that is possible.

        With torch loaded anyway, its fused products and thread pool are faster (measured).
        """
        if dtype == "bfloat16":
            return ()
        here = compiled()
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "from_numpy"):
            return here
        if x.dtype.name not in _TORCH_DTYPES or not x.dtype.isnative:
            return here
        if any(s < 0 or s % x.itemsize for s in x.strides):
            return here
        return (*here, Borrower("torch", lambda y: torch.from_numpy(_writable(y))))

    def counts(self, x: np.ndarray, weights: Any, axes: tuple[int, ...], bins: int) -> np.ndarray:
        return bincount.counts(x, weights, axes, bins)


BACKEND = NumPy()

_TORCH_DTYPES = frozenset(
    ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
)


class _Alias:
    """The memory of an array, without its read-only flag: torch only warns about that."""

    def __init__(self, x: np.ndarray) -> None:
        self._keep = x
        pointer = x.__array_interface__["data"][0]
        self.__array_interface__ = x.__array_interface__ | {"data": (pointer, False)}


def _writable(x: np.ndarray) -> np.ndarray:
    return x if x.flags.writeable else np.asarray(_Alias(x))


class NumPyLowered(Lowered):
    """Blocks through a `Program`, in threads where that pays."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._program = Program(batch(expand(graph)), _CALLS)
        self._macs = graph.flops() / 2
        # an image takes long enough for few of them to be worth the calls
        self._fewest = 1 if graph.gathers else 1024
        how = "blocked sliding windows and " if graph.gathers else "einsum as "
        self.kernels: tuple[str, ...] = (
            f"{how}stacked matmul(out=), in-place bias and activation, threads over blocks",
        )

    def bind(self, consts: tuple[Any, ...], like: Any) -> list[Any]:
        """The constants as the steps want them."""
        return self._program.bind(consts)

    def fair_sample(self) -> int:
        """Slices that keep every thread at work."""
        now = config.current()
        rows = block_rows(self._program.row_bytes, 1 << 20, now.block_bytes, self._fewest)
        return max(LIMITS.numpy_sample, LIMITS.numpy_sample_blocks * now.thread_count() * rows)

    def __call__(self, x: np.ndarray, at: int, bound: list[Any], out: np.ndarray) -> np.ndarray:
        """All slices of `x` into `out`; both in memory order."""
        options = config.current()
        slices = math.prod(x.shape) // max(1, x.shape[at])
        rows = block_rows(self._program.row_bytes, slices, options.block_bytes, self._fewest)

        def work(blocks: Iterator[tuple[Any, ...]]) -> None:
            scratch = self._program.scratch(min(rows, slices))

            def run(block: np.ndarray, place: Any) -> np.ndarray:
                return self._program.run(columns(block, at), bound, scratch, place)

            with np.errstate(all="ignore"):  # torch does not warn about inf and NaN either
                run_blocks(run, x, at, out, blocks)

        count = min(options.thread_count(), -(-slices // rows))
        count = 1 if slices * self._macs < LIMITS.numpy_pool else count
        threads.in_threads(work, boxes(x.shape, at, rows), count)
        return out


def block_rows(row_bytes: int, slices: int, block_bytes: int, fewest: int = 1024) -> int:
    """Slices per block: buffers that stay in cache, not so few that calls dominate."""
    rows = (block_bytes or LIMITS.numpy_block) // row_bytes
    return max(1, min(slices, rows if block_bytes else max(fewest, min(32768, rows))))
