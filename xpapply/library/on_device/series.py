"""CuPy's functions of an array as a series."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_cupy import SHORT, are_short, as_number, room, zero_of

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


def rises(v: Any) -> bool:
    """Whether values do not fall, none of which is NaN; none do."""
    found = True
    for k in range(len(v)):
        if v[k] != v[k] or (k > 0 and not v[k - 1] <= v[k]):
            found = False
    return found


def rising(v: Any) -> None:
    """Raise where values do not rise."""
    if not rises(v):
        raise ValueError


def element(v: Any, at: int) -> Any:
    """``v[at]``, of a short array looked for among all, which stay in registers so."""
    if len(v) > SHORT or not are_short():
        return v[at]
    found = as_number(v[0], v.dtype)
    for k in range(1, len(v)):
        found = as_number(v[k], v.dtype) if k == at else found
    return found


def place(a: Any, x: Any, right: bool, is_rising: bool) -> int:
    """The place that CuPy finds for `x`: of short arrays that rise, how many are before it."""
    n = len(a)
    if not is_rising or n > SHORT or not are_short():
        return by_halves(a, x, right)
    if x != x:
        return n
    found = 0
    for k in range(n):
        if a[k] < x or (right and a[k] == x):
            found += 1
    return found


def by_halves(a: Any, x: Any, right: bool) -> int:
    """The place that CuPy finds for `x` in any array, with its steps."""
    n = len(a)
    if n == 0:
        return 0
    if x != x:
        high = n
        while high > 0 and not right:
            y = element(a, high - 1)
            if y == y:
                break
            high -= 1
        return high
    last = as_number(a[n - 1], a.dtype)
    if last < x or (right and last == x):
        return n
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        y = element(a, middle)
        if y < x or (right and y == x):
            low = middle + 1
        else:
            high = middle
    return high


def interpolated(x: Any, xp: Any, fp: Any) -> Any:
    """``cupy.interp(x, xp, fp)``, in float64: what stands in its kernel."""
    n = len(xp)
    if len(fp) != n or n == 0:
        raise ValueError
    out = room(len(x), FLOAT64)
    is_rising = rises(xp)
    for k in range(len(x)):
        out[k] = _between(as_number(x[k], FLOAT64), xp, fp, is_rising)
    return out


def _between(x: Any, xp: Any, fp: Any, is_rising: bool) -> Any:
    n = len(xp)
    at = place(xp, x, True, is_rising) - 1
    low = min(max(at, 0), max(n - 2, 0))
    high = min(low + 1, n - 1)
    first = as_number(xp[low], FLOAT64)
    second = as_number(xp[high], FLOAT64)
    below = as_number(fp[low], FLOAT64)
    above = as_number(fp[high], FLOAT64)
    slope = (above - below) / (second - first)
    found = slope * (x - first) + below
    if found != found:
        found = slope * (x - second) + above
        if found != found and below == above:
            found = below
    if x == first:
        found = below
    if at >= n - 1 or x == xp[n - 1]:
        found = as_number(fp[n - 1], FLOAT64)
    if at < 0:
        found = as_number(fp[0], FLOAT64)
    if x != x:
        found = x
    return found


def all_searched(a: Any, v: Any, right: bool, dtype: Any) -> Any:
    """``cupy.searchsorted(a, v)``, of values that need not rise, and an array."""
    out = room(len(v), dtype)
    is_rising = rises(a)
    for k in range(len(v)):
        out[k] = place(a, v[k], right, is_rising)
    return out
