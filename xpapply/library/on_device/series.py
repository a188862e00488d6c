"""CuPy's functions of an array as a series."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_cupy import as_number, room, zero_of
from ..of_numpy import halved

FLOAT64 = np.dtype("float64")


def product(v: Any, dtype: Any) -> Any:
    """``v.prod()``."""
    found = as_number(1, dtype)
    for x in v:
        found = found * as_number(x, dtype)
    return found


def cumulated(v: Any, dtype: Any) -> Any:
    """``v.cumsum()``."""
    out = room(len(v), dtype)
    found = zero_of(dtype)
    for k in range(len(v)):
        found = found + as_number(v[k], dtype)
        out[k] = found
    return out


def multiplied(v: Any, dtype: Any) -> Any:
    """``v.cumprod()``."""
    out = room(len(v), dtype)
    found = as_number(1, dtype)
    for k in range(len(v)):
        found = found * as_number(v[k], dtype)
        out[k] = found
    return out


def inner(a: Any, b: Any, dtype: Any) -> Any:
    """``a @ b`` of arrays of one axis."""
    if len(a) != len(b):
        raise ValueError
    found = zero_of(dtype)
    for k in range(len(a)):
        found = found + as_number(a[k], dtype) * as_number(b[k], dtype)
    return found


def convolved(a: Any, v: Any, mode: Any, dtype: Any) -> Any:
    """``cupy.convolve(a, v, mode)``."""
    if len(v) > len(a):
        return _convolved(v, a, mode, dtype)
    return _convolved(a, v, mode, dtype)


def _convolved(a: Any, v: Any, mode: Any, dtype: Any) -> Any:
    """Convolve arrays of which the second is not longer."""
    n, m = len(a), len(v)
    if m == 0:
        raise ValueError
    first, count = 0, n + m - 1
    if mode == "same":
        first, count = (m - 1) // 2, n
    if mode == "valid":
        first, count = m - 1, n - m + 1
    out = room(count, dtype)
    for j in range(count):
        i = first + j
        found = zero_of(dtype)
        for p in range(m):
            if p <= i < p + n:
                found = found + as_number(a[i - p], dtype) * as_number(v[p], dtype)
        out[j] = found
    return out


def correlated(a: Any, v: Any, mode: Any, dtype: Any) -> Any:
    """``cupy.correlate(a, v, mode)`` where the second one is not the longer one."""
    if len(v) > len(a):
        raise ValueError
    return _convolved(a, v[::-1], mode, dtype)


def slopes(f: Any, dx: Any = 1.0) -> Any:
    """``cupy.gradient(f, dx)`` of floats and a number."""
    n = len(f)
    if n < 2:
        raise ValueError
    out = room(n, f.dtype)
    for k in range(1, n - 1):
        out[k] = (f[k + 1] - f[k - 1]) / (2.0 * dx)
    out[0] = (f[1] - f[0]) / dx
    out[n - 1] = (f[n - 1] - f[n - 2]) / dx
    return out


def area(y: Any, dx: Any = 1.0) -> Any:
    """``cupy.trapezoid(y, dx=dx)``."""
    found = zero_of(y.dtype)
    for k in range(1, len(y)):
        found = found + dx * (y[k] + y[k - 1]) / 2.0
    return found


def area_along(y: Any, x: Any) -> Any:
    """``cupy.trapezoid(y, x)``."""
    if len(y) != len(x):
        raise ValueError
    found = zero_of(y.dtype)
    for k in range(1, len(y)):
        found = found + (x[k] - x[k - 1]) * (y[k] + y[k - 1]) / 2.0
    return found


def clipped(v: Any, low: Any, high: Any) -> Any:
    """``cupy.clip(v, low, high)`` of floats."""
    out = room(len(v), v.dtype)
    for k in range(len(v)):
        x = as_number(v[k], v.dtype)
        if x > high:
            x = as_number(high, v.dtype)
        if x < low:
            x = as_number(low, v.dtype)
        out[k] = x
    return out


def clipped_number(x: Any, low: Any, high: Any, dtype: Any) -> Any:
    """``cupy.clip(x, low, high)`` of a number."""
    found = as_number(x, dtype)
    if found > high:
        found = as_number(high, dtype)
    if found < low:
        found = as_number(low, dtype)
    return found


def rising(v: Any) -> None:
    """Raise where values do not rise."""
    for k in range(1, len(v)):
        if not v[k - 1] <= v[k]:
            raise ValueError


def interpolated(x: Any, xp: Any, fp: Any) -> Any:
    """``cupy.interp(x, xp, fp)`` of an array and a table that rises, in float64; NaN raises."""
    n = len(xp)
    if len(fp) != n or n == 0:
        raise ValueError
    rising(xp)
    out = room(len(x), FLOAT64)
    for k in range(len(x)):
        at = as_number(x[k], FLOAT64)
        if at != at:
            raise ValueError
        j = halved(xp, at, True, 0, n)
        if j == 0:
            out[k] = fp[0]
        elif j == n:
            out[k] = fp[n - 1]
        else:
            slope = (as_number(fp[j], FLOAT64) - fp[j - 1]) / (
                as_number(xp[j], FLOAT64) - xp[j - 1]
            )
            found = slope * (at - xp[j - 1]) + fp[j - 1]
            if found != found:
                raise ValueError
            out[k] = found
    return out


def all_searched(a: Any, v: Any, right: bool, dtype: Any) -> Any:
    """``cupy.searchsorted(a, v)`` of values that rise, and an array; NaN raises."""
    rising(a)
    out = room(len(v), dtype)
    for k in range(len(v)):
        x = v[k]
        if x != x:
            raise ValueError
        out[k] = halved(a, x, right, 0, len(a))
    return out
