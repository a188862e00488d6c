"""Reductions of the values of a mask, ``v[v > 0].mean()``, and their kin, in graphs.

A graph has no values of a mask: every number outside it counts as one that changes nothing. Where
no number is in the mask NumPy warns or raises; such a slice gets NaN here, which marks it, and
NumPy's own calls run for it (see `xpapply.ir.unusual`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....errors import UnsupportedError
from ....ir.builder import Value

_MOST = 1 << 24
"""Elements of a slice that float32 can count."""


class Masked(NamedTuple):
    """The values of a mask: those elsewhere are 1, of which no function makes trouble."""

    values: Value
    mask: Value
    closes_up: bool = True
    """Whether NumPy compresses the values, and so adds in another order."""


def _floats(x: Any) -> Value:
    if not isinstance(x, Value) or len(x.shape) != 1 or x.shape[0] > _MOST:
        raise UnsupportedError("the values of a mask of this kind")
    if x.dtype not in ("float32", "float64"):
        raise UnsupportedError(f"a reduction of the values of a mask of {x.dtype}")
    return x


def _selected(lowering: Any, x: Any, mask: Any) -> Masked:
    if not isinstance(mask, Value) or mask.dtype != "bool":
        raise UnsupportedError("an index by an array")
    x = _floats(x)
    return Masked(_where(lowering, mask, x, 1), mask)


def _where(lowering: Any, mask: Value, x: Value, otherwise: float) -> Value:
    filled = lowering.builder.scalar(otherwise, x.dtype.name)
    found: Value = lowering.op("where", mask, x, filled)
    return found


def _elementwise(lowering: Any, row: Any, operands: list[Any]) -> Masked:
    mask = next(x.mask for x in operands if isinstance(x, Masked))
    given = [x.values if isinstance(x, Masked) else x for x in operands]
    ufunc = getattr(np, row.name.removeprefix("numpy."), None)
    if not isinstance(ufunc, np.ufunc):
        raise UnsupportedError(f"{row.name} of the values of a mask")
    closes_up = all(x.closes_up for x in operands if isinstance(x, Masked))
    return Masked(_floats(lowering.builder.ufunc(ufunc, *given)), mask, closes_up)


def _count(lowering: Any, mask: Value, dtype: str) -> Value:
    found: Value = lowering.op("sum", _cast(lowering, mask, dtype), axis=(0,), keepdims=False)
    return found


def _cast(lowering: Any, x: Value, dtype: str) -> Value:
    found: Value = lowering.builder.cast(x, dtype)
    return found


def _counted(lowering: Any, mask: Any) -> Value:
    if not isinstance(mask, Value) or mask.dtype != "bool" or len(mask.shape) != 1:
        raise UnsupportedError("the number of values of a mask")
    return _count(lowering, mask, "int64")


def _reduced(
    lowering: Any, row: Any, before: tuple, x: Masked, after: tuple, kwargs: dict, dtype: Any
) -> Value:
    function = _REDUCTIONS.get(row.name)
    if function is None or before or after or set(kwargs) - {"ddof"}:
        raise UnsupportedError(f"{row.name} of the values of a mask")
    found: Value = function(lowering, x, **kwargs)
    if found.dtype != dtype:
        raise UnsupportedError(f"{row.name} of the values of a mask as {dtype}")
    return found


# --- reductions ------------------------------------------------------------------------------


def _total(lowering: Any, x: Masked) -> Value:
    filled = _where(lowering, x.mask, x.values, 0)
    found: Value = lowering.op("sum", filled, axis=(0,), keepdims=False)
    return lowering.builder.approximate(found) if x.closes_up else found


def _product(lowering: Any, x: Masked) -> Value:
    raise UnsupportedError("a product: it overflows in one order of its factors, not in another")


def _mean(lowering: Any, x: Masked) -> Value:
    count = _count(lowering, x.mask, x.values.dtype.name)
    found: Value = lowering.op("divide", _total(lowering, x), count)
    return found


def _var(lowering: Any, x: Masked, ddof: float = 0) -> Value:
    dtype = x.values.dtype.name
    apart = lowering.op("subtract", x.values, _mean(lowering, x))
    square = lowering.op("multiply", apart, apart)
    squares = _total(lowering, Masked(square, x.mask, x.closes_up))
    left = lowering.op(
        "subtract", _count(lowering, x.mask, dtype), lowering.builder.scalar(float(ddof), dtype)
    )
    found: Value = lowering.op(
        "divide", squares, lowering.op("maximum", left, lowering.builder.scalar(0.0, dtype))
    )
    return found


def _std(lowering: Any, x: Masked, ddof: float = 0) -> Value:
    found: Value = lowering.op("sqrt", _var(lowering, x, ddof))
    return found


def _extreme(op: str, nothing: float) -> Callable[..., Value]:
    def reduced(lowering: Any, x: Masked) -> Value:
        filled = _where(lowering, x.mask, x.values, nothing)
        found = lowering.op(op, filled, axis=(0,), keepdims=False)
        count = _count(lowering, x.mask, x.values.dtype.name)
        # 1, or NaN where there is no number: then NumPy raises
        one = lowering.op("divide", count, count)
        result: Value = lowering.op("multiply", found, one)
        return result

    return reduced


_max, _min = _extreme("max", -np.inf), _extreme("min", np.inf)


def _range(lowering: Any, x: Masked) -> Value:
    found: Value = lowering.op("subtract", _max(lowering, x), _min(lowering, x))
    return found


_REDUCTIONS: dict[str, Callable[..., Value]] = {
    "numpy.sum": _total,
    "numpy.prod": _product,
    "numpy.mean": _mean,
    "numpy.var": _var,
    "numpy.std": _std,
    "numpy.max": _max,
    "numpy.amax": _max,
    "numpy.min": _min,
    "numpy.amin": _min,
    "numpy.ptp": _range,
}
CALLS: dict[str, Callable[..., Any]] = {
    "values of a mask": _selected,
    "of the values of a mask": _elementwise,
    "reduction of the values of a mask": _reduced,
    "count of a mask": _counted,
}
"""Lowerings by names of batching rules."""


# --- NumPy's functions that are the same -----------------------------------------------------


def _without_nan(name: str) -> Callable[..., Value]:
    """``nanmean`` and its kin: of the values that are no NaN."""

    def lowered(lowering: Any, a: Any, axis: Any = None, ddof: float | None = None) -> Value:
        x = _floats(a)
        if axis not in (None, 0, -1):
            raise UnsupportedError(f"nan{name} along axis {axis}")
        mask = lowering.op("equal", x, x)
        given = {} if ddof is None else {"ddof": ddof}
        return _REDUCTIONS[f"numpy.{name}"](
            lowering, Masked(_where(lowering, mask, x, 1), mask, False), **given
        )

    return lowered


def _of_booleans(a: Any) -> Value:
    if not isinstance(a, Value) or len(a.shape) != 1:
        raise UnsupportedError("a count of what is not a condition")
    found: Value = a if a.dtype == "bool" else a.builder.ufunc(np.not_equal, a, 0)
    return found


def _count_nonzero(lowering: Any, a: Any, axis: Any = None) -> Value:
    return _count(lowering, _of_booleans(a), "int64")


def _any_or_all(op: str) -> Callable[..., Value]:
    def lowered(lowering: Any, a: Any, axis: Any = None) -> Value:
        found: Value = lowering.op(op, _of_booleans(a), axis=(0,), keepdims=False)
        return found

    return lowered


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{
        f"numpy.nan{name}": _without_nan(name)
        for name in ("sum", "mean", "var", "std", "max", "min", "prod")
    },
    "numpy.count_nonzero": _count_nonzero,
    "numpy.any": _any_or_all("max"),
    "numpy.all": _any_or_all("min"),
}
"""Lowerings by names of functions."""
