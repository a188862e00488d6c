"""Sums, means, extremes and norms along axes, in graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.builder import Value

FLOATS = ("float16", "float32", "float64")


def of_integers(lowering: Any, dtype: Any) -> bool:
    """Whether a graph of slices has integers or booleans."""
    return bool(lowering.of_slices) and np.dtype(dtype).kind in "biu"


def _axes(x: Value, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(len(x.shape)))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(int(a) % len(x.shape) for a in axes))


def _floats(lowering: Any, x: Any) -> Value:
    """An operand of a mean: integers become float64, as in NumPy."""
    if not isinstance(x, Value):
        raise UnsupportedError("a reduction of a constant")
    return x if x.dtype in FLOATS else lowering.operand(x, np.float64)


def _reduction(op: str) -> Callable[..., Value]:
    def lowered(
        lowering: Any, a: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None
    ) -> Value:
        if dtype is not None and op != "sum":
            raise UnsupportedError(f"{op} as {dtype}")
        if dtype is not None and isinstance(a, Value):
            x = _as(lowering, a, dtype)
            total: Value = lowering.op("sum", x, axis=_axes(x, axis), keepdims=bool(keepdims))
            return lowering.builder.approximate(total) if x is not a and _buffered(x) else total
        if lowering.of_slices and isinstance(a, Value) and a.dtype.kind in "biu":
            if op in ("sum", "prod"):  # as NumPy: in 64 bits, which wrap in any order
                a = lowering.builder.cast(a, "uint64" if a.dtype.kind == "u" else "int64")
        elif not isinstance(a, Value) or a.dtype not in FLOATS:
            raise UnsupportedError(f"{op} of integers")
        elif lowering.of_slices and op == "prod":
            raise UnsupportedError("a product: it overflows in one order of its factors alone")
        return lowering.op(op, a, axis=_axes(a, axis), keepdims=bool(keepdims))

    return lowered


def _position(op: str) -> Callable[..., Value]:
    def lowered(lowering: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Value:
        if not isinstance(a, Value) or not (a.dtype in FLOATS or of_integers(lowering, a.dtype)):
            raise UnsupportedError(f"{op} of integers")
        if axis is None or not a.shape:
            flat = lowering.shaped(a, (int(np.prod(a.shape)),))
            found = lowering.op(op, flat, axis=(0,), keepdims=False)
            return lowering.shaped(found, (1,) * len(a.shape)) if keepdims else found
        return lowering.op(op, a, axis=_axes(a, int(axis)), keepdims=bool(keepdims))

    return lowered


def _as(lowering: Any, x: Value, dtype: Any) -> Value:
    """Cast for a sum in another dtype."""
    if np.dtype(dtype).name not in FLOATS[1:]:
        raise UnsupportedError(f"a sum of {x.dtype} as {np.dtype(dtype)}")
    found: Value = lowering.operand(x, dtype)
    return found


def _mean(
    lowering: Any, a: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None
) -> Value:
    x = _floats(lowering, a) if dtype is None else _as(lowering, a, dtype)
    attrs: dict[str, Any] = {"axis": _axes(x, axis), "keepdims": bool(keepdims)}
    if lowering.of_slices and x.dtype == np.float16:
        total = lowering.op("sum", lowering.operand(x, np.float32), **attrs)
        found = lowering.operand(total, np.float64) / _count(x, attrs["axis"])
        found = lowering.operand(found, np.float16)
        return lowering.builder.approximate(found) if keepdims or _buffered(x) else found
    found = lowering.op("mean", x, **attrs)
    exact = (x is a or not _buffered(x)) and _divides(x, _count(x, attrs["axis"]))
    return found if exact else lowering.builder.approximate(found)


def _count(x: Value, axes: Sequence[int]) -> int:
    """The number of elements along some axes."""
    return math.prod(x.shape[k] for k in axes)


def _buffered(x: Value) -> bool:
    """Whether NumPy sums in parts, since it casts so many elements at a time."""
    return math.prod(x.shape) > 8192


def _divides(x: Value, count: float) -> bool:
    """Whether a quotient by a number is rounded once: NumPy divides in float64."""
    return float(x.dtype.type(count)) == count


def _average(
    lowering: Any,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    if weights is None:
        if returned:
            raise UnsupportedError("an average with what it was divided by")
        return _mean(lowering, a, axis, keepdims)
    a, w = (x if isinstance(x, Value) else np.asarray(x) for x in (a, weights))
    dtype = np.result_type(a.dtype, w.dtype, *["f8"] * (a.dtype.kind in "biu"))
    if w.shape != a.shape or dtype.name not in FLOATS[1:] or not lowering.of_slices:
        raise UnsupportedError(f"an average with weights of shape {w.shape}")
    added = {"axis": axis, "keepdims": keepdims, "dtype": dtype}
    if isinstance(w, Value):
        total = _reduction("sum")(lowering, w, **added)
        lowering.mark(lowering.builder.ufunc(np.equal, total, 0.0))  # of which NumPy raises
    else:
        total = w.sum(**added)
    x, w = (lowering.operand(y, dtype) for y in (a, w))
    found = _reduction("sum")(lowering, x * w, axis, keepdims) / total
    return (found, total) if returned else found


def _var(lowering: Any, a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Value:
    x = _floats(lowering, a)
    count = _count(x, _axes(x, axis))
    if lowering.of_slices and (ddof >= count or x.dtype == np.float16):
        raise UnsupportedError(f"a variance of {count} numbers of {x.dtype} with ddof={ddof}")
    found: Value = lowering.op(
        "var", x, axis=_axes(x, axis), correction=float(ddof), keepdims=bool(keepdims)
    )
    exact = x is a or not _buffered(x)
    exact = exact and _divides(x, count) and _divides(x, count - float(ddof))
    return found if exact else lowering.builder.approximate(found)


def _std(lowering: Any, **given: Any) -> Value:
    return lowering.op("sqrt", _var(lowering, **given))


def _ptp(lowering: Any, a: Any, axis: Any = None) -> Value:
    low = _reduction("min")(lowering, a, axis)
    return lowering.op("subtract", _reduction("max")(lowering, a, axis), low)


def _norm(lowering: Any, x: Any, axis: Any = None, ord: Any = None) -> Value:
    if not isinstance(x, Value) or (len(x.shape) != 1 and not isinstance(axis, (int, np.integer))):
        raise UnsupportedError("this norm")
    x, axes = _floats(lowering, x), _axes(x, axis)
    if ord in (None, 2):
        square = lowering.op("multiply", x, x)
        total = lowering.op("sum", square, axis=axes, keepdims=False)  # BLAS has its own order
        return lowering.op("sqrt", lowering.builder.approximate(total))
    if ord not in (np.inf, -np.inf):
        raise UnsupportedError("this norm")
    size = lowering.op("abs", x)
    return lowering.op("max" if ord > 0 else "min", size, axis=axes, keepdims=False)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.sum": _reduction("sum"),
    "numpy.prod": _reduction("prod"),
    "numpy.max": _reduction("max"),
    "numpy.min": _reduction("min"),
    "numpy.argmax": _position("argmax"),
    "numpy.argmin": _position("argmin"),
    "numpy.mean": _mean,
    "numpy.average": _average,
    "numpy.var": _var,
    "numpy.std": _std,
    "numpy.ptp": _ptp,
    "numpy.linalg.norm": _norm,
}
"""Lowerings by names of functions."""
