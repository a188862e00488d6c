"""Arithmetic of single numbers, NumPy's integers and Python's, in graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching.scalars import SCALING, compensated
from ....errors import UnsupportedError
from ....ir.builder import Value
from ....runtime import c_library


def _integers(lowering: Any, name: str, operands: tuple, dtype: Any) -> Value:
    """Operate on NumPy integers; slices that overflow, of which NumPy warns, are marked."""
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
"""Conditions under which an integer operation has overflowed, or may have."""


def _either(lowering: Any, condition: Value, x: Value, y: Value) -> Any:
    """A condition or another one."""
    return (condition & x) | (~condition & y)


def _python(lowering: Any, name: str, a: Any, b: Any, dtype: str) -> Value:
    """Operate on Python numbers; slices that raise or leave 64 bits are marked."""
    if dtype == "bool":
        found: Value = lowering.builder.ufunc(getattr(np, name), a, b)
        return found
    if dtype not in ("int64", "float64"):
        raise UnsupportedError(f"{name} of Python numbers")
    if name in _DIVISIONS or (name in _BITS and dtype == "int64"):
        if name in _BITS:
            name, b = _as_division(name, b)
        divided = _whole_division if dtype == "int64" else _division
        return divided(lowering, name, a, b)
    given = [lowering.operand(x, dtype) for x in (a, b)]
    if name != "power":
        return lowering.operand(lowering.builder.ufunc(getattr(np, name), *given), dtype)  # type: ignore[no-any-return]
    if type(b) in (int, float) and b in (0, 1):
        return given[0] if b else lowering.operand(1, dtype)  # type: ignore[no-any-return]
    if isinstance(a, Value) and a.dtype.kind in "iu" and type(b) is int and b > 0:
        power: Value = lowering.builder.ufunc(np.power, given[0], b)
        # as a float it only tells whether the integer is too large
        return power if dtype == "int64" else lowering.builder.approximate(power)  # type: ignore[no-any-return]
    return power_of_numbers(lowering, given[0], b)


def power_of_numbers(lowering: Any, a: Any, b: Any) -> Value:
    """A power of NumPy's numbers or of Python's floats, which C's library computes.

    A product, a root or an inverse with twice the bits tells which number that is, where they do
    not lie in the middle between two; else the slice is marked.
    """
    power: Value = lowering.builder.ufunc(np.power, a, b)
    if power.dtype.kind != "f" or not lowering.of_slices:
        return power
    exponent = None if isinstance(b, Value) else float(b)
    if exponent == 1.0:
        return lowering.operand(a, power.dtype)  # type: ignore[no-any-return]
    write = _POWERS.get(exponent) if power.dtype != np.float16 and c_library.is_near() else None
    if write is None or exponent is None:
        raise UnsupportedError("powers of numbers are those of C's library, to the last bit")
    x = lowering.operand(lowering.operand(a, power.dtype), np.float64)
    high, low = write(lowering, x)
    size, most = abs(x), 2.0**63
    if power.dtype == np.float32:
        wide, most = high, 2.0**24
        high = lowering.operand(wide, np.float32)
        near = lowering.operand(high, np.float64)
        alike = lowering.operand(near + (wide - near) * _ALIKE32, np.float32) == high
    else:
        alike = high + low * _alike(exponent) == high
    is_known = alike & (size > 1 / most) & (size < most)
    if exponent > 0:  # of others NumPy warns
        is_known = is_known | (x == 0.0)
    lowering.mark(~(is_known | (x != x)))
    return high  # type: ignore[no-any-return]


def _alike(exponent: float) -> float:
    """The factor of a result's error that must not change it, as other errors may be as large.

    By 0.5108 units in the last place and what the logarithm is off by: for exponents up to 4 and
    numbers from 2**-64 to 2**63 (sysdeps/ieee754/dbl-64/e_pow.c of glibc, from 2.28 on).
    """
    return 0.5 / (1.0 - (0.5108 + 1.5 * 2.0**-15 * 64 * math.log(2) * abs(exponent)))


_ALIKE32 = 0.5 / (1.0 - 0.505)
"""The same for glibc's ``powf``, for exponents of `_POWERS` and numbers from 2**-24 to 2**24: at
most 0.502 ulp, tested for each."""


def _square(lowering: Any, x: Value) -> tuple[Any, Any]:
    return _exact_product(x, x)


def _cube(lowering: Any, x: Value) -> tuple[Any, Any]:
    square, rest = _exact_product(x, x)
    high, low = _exact_product(square, x)
    high, low = _sorted_sum(high, low + rest * x)
    return lowering.builder.where(x == 0.0, x, high), low


def _fourth(lowering: Any, x: Value) -> tuple[Any, Any]:
    square, rest = _exact_product(x, x)
    high, low = _exact_product(square, square)
    return _sorted_sum(high, low + rest * (square + square))


def _root(lowering: Any, x: Value) -> tuple[Any, Any]:
    high = lowering.builder.ufunc(np.sqrt, lowering.builder.where(x == 0.0, 0.0, x))
    product, more = _exact_product(high, high)
    return high, ((x - product) - more) * 0.5 / lowering.builder.where(x == 0.0, 1.0, high)


def _inverse(lowering: Any, x: Value) -> tuple[Any, Any]:
    high = 1.0 / x
    product, more = _exact_product(high, x)
    return high, ((1.0 - product) - more) / x


def _sorted_sum(x: Value, y: Value) -> tuple[Any, Any]:
    total = x + y
    return total, y - (total - x)


_POWERS: dict[float | None, Callable[..., tuple[Any, Any]]] = {
    0.5: _root, -1.0: _inverse, 2.0: _square, 3.0: _cube, 4.0: _fourth,
}  # fmt: skip
"""A power as a sum of two, by the exponent."""


_DIVISIONS, _BITS = ("floor_divide", "remainder"), ("right_shift", "bitwise_and")


def _as_division(name: str, b: Any) -> tuple[str, int]:
    """The bits of an integer, without the last ones or those alone."""
    if type(b) is int and name == "right_shift" and 0 <= b < 52:
        return "floor_divide", 1 << b
    if type(b) is int and name == "bitwise_and" and 0 <= b < 2**52 and b & (b + 1) == 0:
        return "remainder", b + 1
    raise UnsupportedError(f"{name} of Python numbers")


def _whole_division(lowering: Any, name: str, a: Any, b: Any) -> Value:
    """``a // b`` or ``a % b`` of integers, in floats: what these do not hold is marked."""
    a, b = (lowering.operand(x, np.float64) for x in (a, b))
    floor = lowering.builder.ufunc
    lowering.mark(~((abs(a) < 2.0**52) & (abs(b) < 2.0**52) & (b != 0.0)))
    near = floor(np.floor, a / b)
    rest = a - near * b
    # rounding may have made a whole number of a quotient that is just below it
    above = (rest != 0.0) & ((rest < 0.0) != (b < 0.0))
    where = lowering.builder.where
    found = (
        where(above, near - 1.0, near) if name == "floor_divide" else where(above, rest + b, rest)
    )
    return as_integer(lowering, found)


def _division(lowering: Any, name: str, a: Any, b: Any) -> Value:
    """``a // b`` or ``a % b`` of floats, as C's ``fmod`` has the rest: exact.

    Quotients beyond 52 bits are marked, and what over- or underflows on the way.
    """
    a, b = (lowering.operand(x, np.float64) for x in (a, b))
    where, size = lowering.builder.where, abs(b)
    quotient = a / b
    lowering.mark(
        ~((abs(quotient) < 2.0**52) & (abs(a) < 2.0**900) & (size < 2.0**900) & (size > 2.0**-900))
    )
    times = lowering.builder.ufunc(np.trunc, quotient)
    product, more = _exact_product(times, b)
    rest = (a - product) - more
    # rounding may have made a whole number of a quotient that is just below it
    beyond = (rest != 0.0) & ((rest < 0.0) != (a < 0.0))
    rest = where(beyond, where(a < 0.0, rest - size, rest + size), rest)
    other_sign = (rest != 0.0) & ((rest < 0.0) != (b < 0.0))
    if name == "remainder":
        none = where(b < 0.0, -0.0, 0.0)
        return where(rest == 0.0, none, where(other_sign, rest + b, rest))  # type: ignore[no-any-return]
    ratio = (a - rest) / b
    ratio = where(other_sign, ratio - 1.0, ratio)
    below = lowering.builder.ufunc(np.floor, ratio)
    below = where(ratio - below > 0.5, below + 1.0, below)
    none = where(quotient == 0.0, quotient, 0.0)
    return where(ratio == 0.0, none, below)  # type: ignore[no-any-return]


def _exact_product(x: Value, y: Value) -> tuple[Any, Any]:
    """A product as rounded, and what rounding took: Dekker's, without fused operations."""
    (x1, x2), (y1, y2) = ((high, z - high) for z in (x, y) for high in [_upper_half(z)])
    product = x * y
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


def _upper_half(x: Value) -> Any:
    """The upper 26 bits of a number."""
    large = x * 134217729.0
    return large - (large - x)


def _math(lowering: Any, name: str, *numbers: Any) -> Value:
    """A function of Python's `math`; slices that raise are marked."""
    given = [lowering.operand(x, np.float64) for x in numbers]
    if not hasattr(np, name):  # SciPy's
        return lowering.op(name, *given)  # type: ignore[no-any-return]
    found: Value = lowering.builder.ufunc(getattr(np, name), *given)
    return found


def _round(lowering: Any, x: Value, digits: int) -> Value:
    """Round Python floats; slices where scaling could decide are marked."""
    scaled = lowering.operand(x, np.float64) * 10.0**digits
    near = lowering.builder.ufunc(np.rint, scaled)
    lowering.mark(~(abs(scaled - near) <= 0.5 - abs(scaled) * SCALING))
    return near / 10.0**digits  # type: ignore[no-any-return]


def _sum(lowering: Any, numbers: list[Any], floats: tuple[bool, ...]) -> Value:
    def isfinite(x: Value) -> Value:
        return lowering.op("isfinite", x)  # type: ignore[no-any-return]

    given = [lowering.operand(x, np.float64) for x in numbers]
    found: Value = compensated(given, floats, lowering.builder.where, isfinite)
    return found


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
    "Python sum": _sum,
}
"""Lowerings by names of batching rules."""
