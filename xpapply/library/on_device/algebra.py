"""CuPy's linear algebra of small matrices: elimination, rotations, least squares.

`G. H. Golub, C. F. Van Loan, Matrix Computations`: 3.4 (elimination with pivots), 5.2 (modified
Gram-Schmidt), 8.5 (Jacobi's rotations).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_cupy import as_number, room, rooms, zero_of

MOST = 8
"""Rows that a thread takes."""


def norm(v: Any, dtype: Any) -> Any:
    """``cupy.linalg.norm(v)``."""
    found = zero_of(dtype)
    for x in v:
        y = as_number(x, dtype)
        found = found + y * y
    return np.sqrt(found)


def norm_of_sizes(v: Any, dtype: Any) -> Any:
    """``cupy.linalg.norm(v, 1)``."""
    found = zero_of(dtype)
    for x in v:
        found = found + abs(as_number(x, dtype))
    return found


def norm_of_largest(v: Any, dtype: Any) -> Any:
    """``cupy.linalg.norm(v, inf)``; raises for NaN and for an empty array."""
    if len(v) == 0:
        raise ValueError
    found = zero_of(dtype)
    for x in v:
        y = abs(as_number(x, dtype))
        if y != y:
            raise ValueError
        if y > found:
            found = y
    return found


def times_vector(m: Any, v: Any, dtype: Any) -> Any:
    """``m @ v``."""
    if m.shape[1] != len(v):
        raise ValueError
    out = room(m.shape[0], dtype)
    for i in range(m.shape[0]):
        found = zero_of(dtype)
        for k in range(len(v)):
            found = found + as_number(m[i, k], dtype) * as_number(v[k], dtype)
        out[i] = found
    return out


def vector_times(v: Any, m: Any, dtype: Any) -> Any:
    """``v @ m``."""
    return times_vector(m.T, v, dtype)


def times(a: Any, b: Any, dtype: Any) -> Any:
    """``a @ b`` of matrices."""
    if a.shape[1] != b.shape[0]:
        raise ValueError
    out = rooms(a.shape[0], b.shape[1], dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            found = zero_of(dtype)
            for k in range(a.shape[1]):
                found = found + as_number(a[i, k], dtype) * as_number(b[k, j], dtype)
            out[i, j] = found
    return out


def _square(m: Any) -> int:
    """The rows of a matrix that has as many columns; others raise."""
    n = m.shape[0]
    if n != m.shape[1] or n > MOST or n == 0:
        raise ValueError
    return n


def _with_columns(m: Any, more: int, dtype: Any) -> Any:
    """A copy with room for further columns; NaN and infinities raise."""
    n = _square(m)
    out = rooms(n, n + more, dtype)
    is_odd = False
    for i in range(n):
        for j in range(n):
            if is_unknown(m[i, j]):
                is_odd = True
            out[i, j] = as_number(m[i, j], dtype)
    if is_odd:
        raise ValueError
    return out


def is_unknown(x: Any) -> bool:
    """Whether it is NaN or infinite, of which libraries make what they like."""
    return not abs(x) < np.inf


def _pivot(a: Any, k: int, n: int) -> Any:
    """The row that is to be the k-th one: where its element is the largest."""
    at = k
    best = abs(a[k, k])
    for i in range(k + 1, n):
        size = abs(a[i, k])
        if size > best:
            best = size
            at = i
    return at


def _swap(a: Any, k: int, at: int, n: int, width: int) -> None:
    """Swap two rows; which one is known only then, so each is looked at."""
    for i in range(k + 1, n):
        chosen = i == at
        for j in range(k, width):
            x = a[k, j] * 1
            y = a[i, j] * 1
            a[k, j] = y if chosen else x
            a[i, j] = x if chosen else y


def determinant(m: Any, dtype: Any) -> Any:
    """``cupy.linalg.det(m)``."""
    n = _square(m)
    a = _with_columns(m, 0, dtype)
    found = as_number(1, dtype)
    for k in range(n):
        at = _pivot(a, k, n)
        _swap(a, k, at, n, n)
        if at != k:
            found = -found
        found = found * a[k, k]
        if a[k, k] == 0:
            raise ValueError
        for i in range(k + 1, n):
            share = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] = a[i, j] - share * a[k, j]
    return found


def _eliminated(a: Any, n: int, width: int) -> None:
    """Eliminate in place, with all columns on the right; raises for a singular matrix."""
    for k in range(n):
        _swap(a, k, _pivot(a, k, n), n, width)
        if not abs(a[k, k]) > 0:
            raise ValueError
        for i in range(k + 1, n):
            share = a[i, k] / a[k, k]
            for j in range(k + 1, width):
                a[i, j] = a[i, j] - share * a[k, j]
    for j in range(n, width):
        for i in range(n - 1, -1, -1):
            found = a[i, j] * 1
            for k in range(i + 1, n):
                found = found - a[i, k] * a[k, j]
            a[i, j] = found / a[i, i]


def solved(m: Any, b: Any, dtype: Any) -> Any:
    """``cupy.linalg.solve(m, b)`` of one right side."""
    n = _square(m)
    if len(b) != n:
        raise ValueError
    a = _with_columns(m, 1, dtype)
    is_odd = False
    for i in range(n):
        if is_unknown(b[i]):
            is_odd = True
        a[i, n] = as_number(b[i], dtype)
    if is_odd:
        raise ValueError
    _eliminated(a, n, n + 1)
    out = room(n, dtype)
    for i in range(n):
        out[i] = a[i, n]
    return out


def inverse(m: Any, dtype: Any) -> Any:
    """``cupy.linalg.inv(m)``."""
    n = _square(m)
    a = _with_columns(m, n, dtype)
    for i in range(n):
        for j in range(n):
            a[i, n + j] = 1.0 if i == j else 0.0
    _eliminated(a, n, 2 * n)
    out = rooms(n, n, dtype)
    for i in range(n):
        for j in range(n):
            out[i, j] = a[i, n + j]
    return out


_SWEEPS = 16
"""Rounds of rotations, after which what is not done raises: 8 rows take some 6."""


def eigenvalues(m: Any, dtype: Any) -> Any:
    """``cupy.linalg.eigvalsh(m)``: of its lower half, in order; NaN and infinities raise."""
    n = _square(m)
    a = rooms(n, n, dtype)
    is_odd = False
    for i in range(n):
        for j in range(i + 1):
            if is_unknown(m[i, j]):
                is_odd = True
            a[i, j] = as_number(m[i, j], dtype)
            a[j, i] = as_number(m[i, j], dtype)
    if is_odd:
        raise ValueError
    left = _SWEEPS
    while _off(a, n) and left > 0:
        for p in range(n - 1):
            for q in range(p + 1, n):
                _rotated(a, p, q, n, dtype)
        left -= 1
    if left == 0:
        raise ValueError
    out = room(n, dtype)
    for i in range(n):
        out[i] = a[i, i]
    for i in range(n):
        for j in range(n - 1 - i):
            x = out[j] * 1
            y = out[j + 1] * 1
            out[j] = y if y < x else x
            out[j + 1] = x if y < x else y
    return out


def _off(a: Any, n: int) -> bool:
    """Whether elements beside the diagonal are not zero."""
    for i in range(n):
        for j in range(i):
            if a[i, j] != 0:
                return True
    return False


def _rotated(a: Any, p: int, q: int, n: int, dtype: Any) -> None:
    """Turn two axes so that the elements that join them are zero."""
    off = a[p, q] * 1
    tiny = abs(off) * 1e16
    if off == 0 or (tiny <= abs(a[p, p]) and tiny <= abs(a[q, q])):
        a[p, q] = 0.0
        a[q, p] = 0.0
        return
    half = (a[q, q] - a[p, p]) / (2.0 * off)
    size = abs(half) + np.sqrt(half * half + 1.0)
    t = as_number(1, dtype) / size
    if half < 0:
        t = -t
    c = as_number(1, dtype) / np.sqrt(t * t + 1.0)
    s = t * c
    a[p, p] = a[p, p] - t * off
    a[q, q] = a[q, q] + t * off
    a[p, q] = 0.0
    a[q, p] = 0.0
    for k in range(n):
        if k != p and k != q:
            x = a[k, p] * 1
            y = a[k, q] * 1
            a[k, p] = c * x - s * y
            a[k, q] = s * x + c * y
            a[p, k] = a[k, p]
            a[q, k] = a[k, q]


_PARALLEL = 1e-7
"""The threshold for unit columns below which CuPy may call them dependent."""


def fitted(x: Any, y: Any, deg: int) -> Any:
    """``cupy.polyfit(x, y, deg)`` of float64: columns that depend on each other raise."""
    n, m = len(x), deg + 1
    if len(y) != n or n < m or deg < 0 or m > MOST:
        raise ValueError
    a = rooms(n, m + 1, x.dtype)
    is_odd = False
    for i in range(n):
        power = as_number(1, x.dtype)
        for j in range(m):
            a[i, deg - j] = power
            power = power * x[i]
        if is_unknown(x[i]):
            is_odd = True
        if is_unknown(y[i]):
            is_odd = True
        a[i, m] = y[i]
    if is_odd:
        raise ValueError
    before = room(m, x.dtype)
    for j in range(m):
        before[j] = _times(a, j, j, n, x.dtype)
    r = rooms(m, m + 1, x.dtype)
    for j in range(m):
        square = _times(a, j, j, n, x.dtype)
        if not square > _PARALLEL * _PARALLEL * before[j]:
            raise ValueError
        share = as_number(1, x.dtype) / square
        for k in range(j + 1, m + 1):
            found = _times(a, j, k, n, x.dtype) * share
            r[j, k] = found
            for i in range(n):
                a[i, k] = a[i, k] - found * a[i, j]
    out = room(m, x.dtype)
    for j in range(m - 1, -1, -1):
        found = r[j, m] * 1
        for k in range(j + 1, m):
            found = found - r[j, k] * out[k]
        out[j] = found
    return out


def _times(a: Any, j: int, k: int, n: int, dtype: Any) -> Any:
    """The product of two columns."""
    found = zero_of(dtype)
    for i in range(n):
        found = found + a[i, j] * a[i, k]
    return found


def covariances(x: Any, y: Any, dtype: Any) -> Any:
    """``cupy.cov(x, y)``."""
    n = len(x)
    if len(y) != n or n < 2:
        raise ValueError
    a = zero_of(dtype)
    b = zero_of(dtype)
    for k in range(n):
        a = a + x[k]
        b = b + y[k]
    a = a / n
    b = b / n
    xx = zero_of(dtype)
    xy = zero_of(dtype)
    yy = zero_of(dtype)
    for k in range(n):
        far = x[k] - a
        wide = y[k] - b
        xx = xx + far * far
        xy = xy + far * wide
        yy = yy + wide * wide
    out = rooms(2, 2, dtype)
    out[0, 0] = xx / (n - 1)
    out[0, 1] = xy / (n - 1)
    out[1, 0] = xy / (n - 1)
    out[1, 1] = yy / (n - 1)
    return out


def correlations(x: Any, y: Any, dtype: Any) -> Any:
    """``cupy.corrcoef(x, y)``."""
    c = covariances(x, y, dtype)
    a = np.sqrt(c[0, 0])
    b = np.sqrt(c[1, 1])
    out = rooms(2, 2, dtype)
    out[0, 0] = _within(c[0, 0] / a / a)
    out[0, 1] = _within(c[0, 1] / a / b)
    out[1, 0] = _within(c[1, 0] / a / b)
    out[1, 1] = _within(c[1, 1] / b / b)
    return out


def _within(x: Any) -> Any:
    """Clip to -1 and 1."""
    found = x * 1
    if found > 1:
        found = found / found
    if found < -1:
        found = -(found / found)
    return found
