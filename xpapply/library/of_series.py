"""NumPy's functions of an array as a series: products, slopes, areas, and rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .of_middle import median

_FEW = 11
"""The number of coefficients up to which NumPy adds products in order, where all fit."""


def inner(a: Any, b: Any) -> Any:
    """``np.dot(a, b)`` of floats."""
    n = len(a)
    if n != len(b):
        raise ValueError
    if n == 1:
        return a[0] * b[0]
    if a.strides[0] < 0:
        a = a.copy()
    if b.strides[0] < 0:
        b = b.copy()
    return product(a, b)


def product(a: Any, b: Any) -> Any:
    """The sum of products; the compiler calls NumPy's loop, and so BLAS."""
    return np.vecdot(a, b)


def quiet_product(a: Any, b: Any) -> Any:
    """The dot product, without warnings."""
    with np.errstate(all="ignore"):
        return np.vecdot(a, b)


def inner_of_integers(a: Any, b: Any) -> Any:
    """``np.dot(a, b)`` of integers."""
    if len(a) != len(b):
        raise ValueError
    return np.add.reduce(a * b)


def _correlated(a: Any, k: Any, first: int, count: int) -> Any:
    """The elements of ``np.correlate(a, k, "full")`` from one on; `a` is not the shorter one."""
    n, m = len(a), len(k)
    out = np.empty(count, a.dtype)
    for j in range(count):
        i = first + j
        if m <= _FEW and m - 1 <= i < n:
            out[j] = 0
            total = out[j]  # a zero of that type
            for p in range(m):
                total = total + a[i - m + 1 + p] * k[p]
            out[j] = total
        else:
            low = i - m + 1
            begin = m - 1 - i
            if low < 0:
                low = 0
            else:
                begin = 0
            high = i + 1
            if high > n:
                high = n
            out[j] = quiet_product(a[low:high], k[begin : begin + high - low])
    return out


def correlated(a: Any, v: Any, mode: Any = "valid") -> Any:
    """``np.correlate(a, v, mode)`` of floats; the shorter array is the second one."""
    n, m = len(a), len(v)
    if m == 0 or n < m:
        raise ValueError
    x = a.copy()
    k = v.copy()
    if mode == "full":
        return _correlated(x, k, 0, n + m - 1)
    if mode == "same":
        return _correlated(x, k, m - 1 - m // 2, n)
    return _correlated(x, k, m - 1, n - m + 1)


def convolved(a: Any, v: Any, mode: Any = "full") -> Any:
    """``np.convolve(a, v, mode)`` of floats."""
    if len(v) > len(a):
        return correlated(v, a[::-1], mode)
    return correlated(a, v[::-1], mode)


def clipped(a: Any, low: Any, high: Any) -> Any:
    """``np.clip(a, low, high)`` of numbers of one type; limits that are NaN raise."""
    if low != low or high != high:
        raise ValueError
    if a < low:
        a = low
    if a > high:
        a = high
    return a


def slopes(f: Any, dx: Any = 1.0) -> Any:
    """``np.gradient(f, dx)`` of floats and a number."""
    n = len(f)
    if n < 2:
        raise ValueError
    out = np.empty_like(f)
    out[1:-1] = (f[2:] - f[:-2]) / (2.0 * dx)
    out[0] = (f[1] - f[0]) / dx
    out[n - 1] = (f[n - 1] - f[n - 2]) / dx
    return out


def area(y: Any, dx: Any = 1.0) -> Any:
    """``np.trapezoid(y, dx=dx)``."""
    return np.add.reduce(dx * (y[1:] + y[:-1]) / 2.0)


def area_along(y: Any, x: Any) -> Any:
    """``np.trapezoid(y, x)``."""
    return np.add.reduce((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0)


def polynomial(p: Any, x: Any) -> Any:
    """``np.polyval(p, x)`` of float64 and a number."""
    found = np.float64(0.0)
    for c in p:
        found = found * x + c
    return found


def polynomial_of_array(p: Any, x: Any) -> Any:
    """``np.polyval(p, x)`` of float64 and an array of them."""
    found = np.zeros_like(x)
    for c in p:
        found = found * x + c
    return found


def rounded(a: Any, decimals: int = 0) -> Any:
    """``np.round(a, decimals)`` of floats, a number or an array."""
    if decimals == 0:
        return np.rint(a)
    far = decimals if decimals > 0 else -decimals
    if far > 22:
        raise ValueError
    scale = 1.0
    for _ in range(far):
        scale *= 10.0
    if decimals > 0:
        return np.rint(a * scale) / scale
    return np.rint(a / scale) * scale


def close(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """``np.isclose(a, b)`` of numbers."""
    x = np.float64(a)
    y = np.float64(b)
    if x == y:
        return np.bool_(True)
    if not np.isfinite(y) or x != x:
        return np.bool_(equal_nan and x != x and y != y)
    return np.bool_(abs(x - y) <= atol + rtol * abs(y))


def closes(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """``np.isclose(a, b)`` of arrays."""
    if len(a) != len(b):
        raise ValueError
    out = np.empty(len(a), np.bool_)
    for k in range(len(a)):
        out[k] = close(a[k], b[k], rtol, atol, equal_nan)
    return out


def closes_to(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """``np.isclose(a, b)`` of an array and a number."""
    out = np.empty(len(a), np.bool_)
    for k in range(len(a)):
        out[k] = close(a[k], b, rtol, atol, equal_nan)
    return out


def close_all(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """``np.allclose(a, b)`` of arrays."""
    return bool(np.logical_and.reduce(closes(a, b, rtol, atol, equal_nan)))


def close_all_to(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """``np.allclose(a, b)`` of an array and a number."""
    return bool(np.logical_and.reduce(closes_to(a, b, rtol, atol, equal_nan)))


def known(v: Any) -> Any:
    """The numbers that are no NaN."""
    out = np.empty_like(v)
    n = 0
    for x in v:
        if x == x:
            out[n] = x
            n += 1
    return out[:n]


def zeroed(v: Any) -> Any:
    """An array with zeros for NaN."""
    out = v.copy()
    for k in range(len(v)):
        if v[k] != v[k]:
            out[k] = 0
    return out


def nan_sum(v: Any) -> Any:
    """``np.nansum(v)`` of floats."""
    return np.add.reduce(zeroed(v))


def nan_mean(v: Any) -> Any:
    """``np.nanmean(v)`` of floats; raises if all are NaN."""
    n = 0
    for x in v:
        if x == x:
            n += 1
    if n == 0:
        raise ValueError
    return np.add.reduce(zeroed(v)) / n


def nan_variance(v: Any, ddof: int = 0) -> Any:
    """``np.nanvar(v)`` of floats."""
    n = 0
    for x in v:
        if x == x:
            n += 1
    if n - ddof <= 0 or n == 0:
        raise ValueError
    far = zeroed(v) - np.add.reduce(zeroed(v)) / n
    for k in range(len(v)):
        if v[k] != v[k]:
            far[k] = 0
    return np.add.reduce(far * far) / (n - ddof)


def nan_deviation(v: Any, ddof: int = 0) -> Any:
    """``np.nanstd(v)`` of floats."""
    return np.sqrt(nan_variance(v, ddof))


def nan_median(v: Any) -> Any:
    """``np.nanmedian(v)`` of floats; raises if all are NaN."""
    return median(known(v))


def nan_max(v: Any) -> Any:
    """``np.nanmax(v)`` of floats; raises if all are NaN, or for zeros of both signs."""
    found = known(v)
    if len(found) == 0:
        raise ValueError
    best = np.maximum.reduce(found)
    if best == 0:
        one_zero(found)
    return best


def nan_min(v: Any) -> Any:
    """``np.nanmin(v)`` of floats."""
    found = known(v)
    if len(found) == 0:
        raise ValueError
    best = np.minimum.reduce(found)
    if best == 0:
        one_zero(found)
    return best


def one_zero(v: Any) -> Any:
    """Raise if there are zeros of both signs: which one is taken NumPy does not say."""
    plus = False
    minus = False
    for x in v:
        if x == 0:
            if np.copysign(1.0, x) < 0:
                minus = True
            else:
                plus = True
    if plus and minus:
        raise ValueError


def accumulated_max(v: Any) -> Any:
    """``np.maximum.accumulate(v)``."""
    one_zero(v)
    out = np.empty_like(v)
    best = v[0]
    out[0] = best
    for k in range(1, len(v)):
        best = np.maximum(best, v[k])
        out[k] = best
    return out


def accumulated_min(v: Any) -> Any:
    """``np.minimum.accumulate(v)``."""
    one_zero(v)
    out = np.empty_like(v)
    best = v[0]
    out[0] = best
    for k in range(1, len(v)):
        best = np.minimum(best, v[k])
        out[k] = best
    return out
