"""The calls that steps are: they take their operands, and then where the result goes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ir.ops import OPS
from ...limits import LIMITS

ROW = (32, 1024)
"""Lengths of rows whose max NumPy finds faster by its position."""


def missing(ops: Iterable[str]) -> str | None:
    """Why some ops of the table cannot run, or None."""
    needs = [op for op in ops if op in OPS and OPS[op].in_special]
    if needs:
        try:
            import scipy.special  # noqa: F401
        except ImportError:
            return f"NumPy has no {needs[0]}, and SciPy is not installed"
    return None


def ufunc(op: str) -> Any:
    """The function of an elementwise op."""
    if OPS[op].in_special:
        import scipy.special

        return getattr(scipy.special, op)
    return getattr(np, OPS[op].api or op)


def elementwise(op: str) -> Any:
    """The function with `out` as the last argument."""
    call = ufunc(op)
    if op in ("maximum", "minimum"):  # they want `out` by its name
        return lambda x, y, out: call(x, y, out=out)
    return call


def copied(out: np.ndarray, x: np.ndarray) -> None:
    """A copy, in tiles where it is a transposed one: they stay in cache while lines are shared."""
    if out.ndim == 2 and out.shape[0] >= 32 and out.shape[1] > 64 and x.ndim == 2:
        if x.strides[1] > x.strides[0] or out.strides[1] > out.strides[0]:
            width = max(32, LIMITS.transposed_tile // out.shape[0])
            for k in range(0, out.shape[1], width):
                np.copyto(out[:, k : k + width], x[:, k : k + width])
            return
    np.copyto(out, x)


def known(call: Callable[..., Any], given: Sequence[Any]) -> list[Callable[[], Any]]:
    """A step with all that it takes: NumPy's own calls, for what they cost on small arrays."""
    if call is chosen:
        condition, x, y, out = given
        filled = (
            functools.partial(out.fill, y) if y.ndim == 0 else functools.partial(np.copyto, out, y)
        )
        return [filled, functools.partial(put, out, x, condition)]
    if isinstance(call, functools.partial) and call.func is reduced:
        reduce, axes = call.args
        x, out = given
        return [functools.partial(reduce, x, axes, out.dtype, out, True)]
    return [functools.partial(call, *given)]


def load(x: np.ndarray, out: np.ndarray) -> None:
    """An input in a buffer, where inner loops run along memory."""
    copied(out, x)


def cast(x: np.ndarray, out: np.ndarray) -> None:
    """Another dtype."""
    np.copyto(out, x, casting="unsafe")


def chosen(condition: Any, x: Any, y: Any, out: np.ndarray) -> None:
    """`x` where the condition holds, else `y`."""
    np.copyto(out, y)
    put(out, x, condition)


def put(out: np.ndarray, x: Any, condition: Any) -> None:
    """`x` where the condition holds.

    By bits: where nothing tells which way the next one goes, a branch takes four times as long.
    """
    size = out.dtype.itemsize
    if out.size < _FEW or size not in _BITS or x.dtype != out.dtype:
        np.copyto(out, x, where=condition)
        return
    kind = _BITS[size]
    x, condition = np.broadcast_to(x, out.shape), np.broadcast_to(condition, out.shape)
    step = max(1, _AT_A_TIME * len(out) // out.size)
    for start in range(0, len(out), step):  # in pieces: hardly any memory besides
        part = slice(start, start + step)
        bits, mask = out[part].view(kind), condition[part].astype(kind)
        np.negative(mask, mask)
        changes = np.bitwise_xor(bits, x[part].view(kind))
        changes &= mask
        bits ^= changes


_FEW, _AT_A_TIME = 1 << 13, 1 << 14
_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
"""Integers of as many bytes."""


def chosen_in_place(condition: Any, x: Any, y: Any, out: np.ndarray) -> None:
    """Choose, with `out` being `y`."""
    put(out, x, condition)


def reduced(reduce: Any, axes: tuple[int, ...], x: Any, out: np.ndarray) -> None:
    """A reduction by a ufunc."""
    reduce(x, axes, out.dtype, out, True)


def best_of_rows(find: Any, rows: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """max or min of short rows: NumPy is faster in finding where it is."""
    if not (x.flags.c_contiguous and out.flags.c_contiguous):
        best = np.maximum if find is np.argmax else np.minimum
        return reduced(best.reduce, (x.ndim - 1,), x, out)
    at = find(x, -1).reshape(-1)
    at += rows
    np.take(x.reshape(-1), at, out=out.reshape(-1), mode="clip")


def position(find: Any, axis: int, x: np.ndarray, start: int, out: np.ndarray) -> None:
    """The position of a slice's extreme, plus `start`."""
    find(x, axis, out, keepdims=True)
    if start:
        np.add(out, start, out)


def positions(
    block: tuple[int, ...], axes: tuple[int, ...], weights: tuple[int, ...]
) -> np.ndarray:
    """The position of each element of a block, in the order of the slice's own axes."""
    found = np.zeros((1,) * len(block), np.int64)
    for axis, weight in zip(axes, weights, strict=True):
        shape = [1] * len(block)
        shape[axis] = block[axis]
        found = found + weight * np.arange(block[axis]).reshape(shape)
    return found


def position_by_order(
    best: Any, axes: tuple[int, ...], order: np.ndarray, x: Any, start: int, out: np.ndarray
) -> None:
    """The first position of what is best, where the order in memory is another one."""
    found = x == best.reduce(x, axes, keepdims=True)
    found |= x != x  # a NaN is best, and equals nothing
    last = np.iinfo(np.int64).max
    reduced(np.minimum.reduce, axes, np.where(found, order, last), out)
    np.add(out, start, out)
