"""Arithmetic of single numbers, NumPy's integers and Python's, in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...batching.scalars import SCALING
from ...errors import UnsupportedError
from ...ir.builder import Value


def _integers(lowering: Any, name: str, operands: tuple, dtype: Any) -> Value:
    """Of NumPy's integers, which warn where they overflow: such a slice is marked."""
    dtype = np.dtype(dtype)
    overflows = _OVERFLOWS.get(name)
    if overflows is None or dtype.kind not in "iu":
        raise UnsupportedError(f"{name} of single integers")
    given = [lowering.operand(x, dtype) for x in operands]
    found: Value = lowering.builder.ufunc(getattr(np, name), *given)
    lowering.mark(overflows(lowering, found, *given))
    return found


def _product(lowering: Any, found: Value, a: Value, b: Value) -> Any:
    wide = lowering.operand(a, np.float64) * lowering.operand(b, np.float64)
    return abs(wide) >= 0.999 * float(np.iinfo(found.dtype).max)


def _negative(lowering: Any, found: Value, a: Value) -> Any:
    return (a != 0) if a.dtype.kind == "u" else (a != 0) & (found == a)


_OVERFLOWS: dict[str, Callable[..., Any]] = {
    "add": lambda _, found, a, b: _either(_, b < 0, found > a, found < a),
    "subtract": lambda _, found, a, b: _either(_, b < 0, found < a, found > a),
    "multiply": _product,
    "negative": _negative,
    "absolute": lambda _, found, a: found < 0,
}
"""Where an operation has overflowed, or may have."""


def _either(lowering: Any, condition: Value, x: Value, y: Value) -> Any:
    """A condition or another one."""
    return (condition & x) | (~condition & y)


def _python(lowering: Any, name: str, a: Any, b: Any, dtype: str) -> Value:
    """Of Python's numbers: where they raise, or are longer than 64 bits, `f` has been asked."""
    if dtype == "bool":
        found: Value = lowering.builder.ufunc(getattr(np, name), a, b)
        return found
    if dtype not in ("int64", "float64"):
        raise UnsupportedError(f"{name} of Python numbers")
    given = [lowering.operand(x, dtype) for x in (a, b)]
    found = lowering.builder.ufunc(getattr(np, name), *given)
    return lowering.operand(found, dtype)  # type: ignore[no-any-return]


def _math(lowering: Any, name: str, *numbers: Any) -> Value:
    """A function of Python's `math`: where it raises, `f` has been asked."""
    found: Value = lowering.builder.ufunc(
        getattr(np, name), *(lowering.operand(x, np.float64) for x in numbers)
    )
    return found


def _round(lowering: Any, x: Value, digits: int) -> Value:
    """Of Python floats: where scaling could decide, `f` is asked."""
    scaled = lowering.operand(x, np.float64) * 10.0**digits
    near = lowering.builder.ufunc(np.rint, scaled)
    lowering.mark(~(abs(scaled - near) <= 0.5 - abs(scaled) * SCALING))
    return near / 10.0**digits  # type: ignore[no-any-return]


def as_integer(lowering: Any, x: Value) -> Value:
    """Floats as int64: what does not fit is marked."""
    whole = lowering.builder.ufunc(np.trunc, x)
    size = abs(whole)
    fits = size < 2.0**63 if x.dtype.itemsize > 2 else lowering.op("isfinite", size)
    lowering.mark(~fits)
    # LLVM leaves open what others become
    return lowering.op("cast", lowering.builder.where(fits, whole, 0.0), dtype="int64")  # type: ignore[no-any-return]


CALLS: dict[str, Callable[..., Any]] = {
    "arithmetic of integers": _integers,
    "Python arithmetic": _python,
    "math": _math,
    "Python round": _round,
}
"""By the names of batching rules."""
