"""NumPy's functions of arrays of one axis, for the compiler: their results have NumPy's bits.

What is not covered raises, and is so left to NumPy's own function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

COUNTED: Any = type(np.count_nonzero(np.zeros(1)))
"""Whose integer it is how many there are: Python's, or NumPy's own, as it gives it."""


def added(v: Any) -> Any:
    """The sum of floats, and of integers as floats; the compiler calls NumPy's loop."""
    return np.add.reduce(v, dtype=v.dtype if v.dtype.kind == "f" else np.float64)


def mean(v: Any) -> Any:
    """``v.mean()``."""
    return added(v) / len(v)


def variance(v: Any, ddof: int = 0) -> Any:
    """``v.var(ddof=ddof)``."""
    x = v - added(v) / len(v)
    n = len(v) - ddof
    if n <= 0:
        raise ValueError
    return np.add.reduce(x * x) / n


def deviation(v: Any, ddof: int = 0) -> Any:
    """``v.std(ddof=ddof)``."""
    return np.sqrt(variance(v, ddof))


def norm(v: Any) -> Any:
    """``np.linalg.norm(v)`` of floats, which takes a product of BLAS of what lies side by side."""
    x = v.copy()
    return np.sqrt(x.dot(x))


def norm_along(v: Any) -> Any:
    """The same along an axis that is said."""
    return np.sqrt(np.add.reduce(v * v))


def norms_of_rows(table: Any) -> Any:
    """``np.linalg.norm(table, axis=1)``."""
    return np.sqrt((table * table).sum(axis=1))


def norms_of_columns(table: Any) -> Any:
    """``np.linalg.norm(table, axis=0)``."""
    return np.sqrt((table * table).sum(axis=0))


def sum_of_sizes(v: Any) -> Any:
    """``np.linalg.norm(v, 1)``."""
    return np.add.reduce(np.abs(v))


def largest_size(v: Any) -> Any:
    """``np.linalg.norm(v, np.inf)``."""
    return np.maximum.reduce(np.abs(v))


def spread(v: Any) -> Any:
    """``np.ptp(v)``."""
    return np.maximum.reduce(v) - np.minimum.reduce(v)


def argmax(v: Any) -> Any:
    """``v.argmax()``: the first NaN, or else the first that no other is beyond."""
    at = 0
    best = v[0]
    if best == best:
        for k in range(1, len(v)):
            x = v[k]
            if not x <= best:
                at, best = k, x
                if x != x:
                    break
    return np.int64(at)


def argmin(v: Any) -> Any:
    """``v.argmin()``."""
    at = 0
    best = v[0]
    if best == best:
        for k in range(1, len(v)):
            x = v[k]
            if not x >= best:
                at, best = k, x
                if x != x:
                    break
    return np.int64(at)


def cumulated(v: Any, dtype: Any) -> Any:
    """``v.cumsum()``, in the type of its sum: one after the other."""
    out = np.empty(len(v), dtype)
    out[0] = v[0]
    for k in range(1, len(v)):
        out[k] = out[k - 1] + v[k]
    return out


def multiplied(v: Any, dtype: Any) -> Any:
    """``v.cumprod()``."""
    out = np.empty(len(v), dtype)
    out[0] = v[0]
    for k in range(1, len(v)):
        out[k] = out[k - 1] * v[k]
    return out


def differences(v: Any) -> Any:
    """``np.diff(v)``."""
    return v[1:] - v[:-1]


def chosen(v: Any, mask: Any) -> Any:
    """``v[mask]``."""
    if len(mask) != len(v):
        raise IndexError
    out = np.empty_like(v)
    n = 0
    for k in range(len(v)):
        if mask[k]:
            out[n] = v[k]
            n += 1
    return out[:n]


def taken(v: Any, places: Any) -> Any:
    """``v[places]``."""
    out = np.empty(len(places), v.dtype)
    for k in range(len(places)):
        out[k] = v[places[k]]
    return out


def taken_table(v: Any, places: Any) -> Any:
    """``v[places]`` of places of two axes, such as samples of a bootstrap."""
    out = np.empty((len(places), places.shape[1]), v.dtype)
    for k in range(len(places)):
        for j in range(places.shape[1]):
            out[k, j] = v[places[k, j]]
    return out


def chosen_rows(x: Any, mask: Any) -> Any:
    """``x[mask]`` of two axes: rows, side by side in memory however `x` lies there."""
    if len(mask) != len(x):
        raise IndexError
    out = np.empty((len(x), x.shape[1]), x.dtype)
    n = 0
    for k in range(len(x)):
        if mask[k]:
            out[n] = x[k]
            n += 1
    return out[:n]


def taken_rows(x: Any, places: Any) -> Any:
    """``x[places]`` of two axes."""
    out = np.empty((len(places), x.shape[1]), x.dtype)
    for k in range(len(places)):
        out[k] = x[places[k]]
    return out


def set_where(v: Any, mask: Any, value: Any) -> None:
    """``v[mask] = value``."""
    if len(mask) != len(v):
        raise IndexError
    for k in range(len(v)):
        if mask[k]:
            v[k] = value


def set_where_each(v: Any, mask: Any, values: Any) -> None:
    """``v[mask] = values``, of as many."""
    if len(mask) != len(v) or count(mask) != len(values):
        raise ValueError
    n = 0
    for k in range(len(v)):
        if mask[k]:
            v[k] = values[n]
            n += 1


def set_places(v: Any, places: Any, value: Any) -> None:
    """``v[places] = value``."""
    for k in range(len(places)):
        v[places[k]] = value


def merged(v: Any) -> Any:
    """``np.sort(v)``, NaN last, but that zeros of both signs come as they do.

    Batcher's merge exchange, which compares the same places whatever the values are: slices go
    side by side through it, and no processor guesses wrong. (Knuth, The Art of Computer
    Programming 3, 5.2.2, algorithm M.)
    """
    out = v.copy()
    n = len(out)
    unknown = 0
    if v.dtype.kind == "f":  # NaN as infinities, which stand last
        for i in range(n):
            if out[i] != out[i]:
                out[i] = np.inf
                unknown += 1
    span = 1
    while 2 * span < n:
        span *= 2
    half = span
    while half > 0:
        reach = span
        first = 0
        far = half
        while far > 0:
            for start in range(first, n - far, 2 * half):
                for i in range(start, min(start + half, n - far)):
                    x = out[i]
                    y = out[i + far]
                    out[i] = y if y < x else x
                    out[i + far] = x if y < x else y
            far = reach - half
            reach //= 2
            first = half
        half //= 2
    for i in range(n - unknown, n):
        out[i] = np.nan
    return out


def has_both_zeros(v: Any) -> bool:
    """Whether there are zeros of both signs, whose order NumPy leaves open."""
    minus = False
    plus = False
    for x in v:
        if x == 0:
            if np.copysign(1.0, x) < 0:
                minus = True
            else:
                plus = True
    return minus and plus


def in_order(v: Any) -> Any:
    """``np.sort(v)``, NaN last. Zeros of both signs raise."""
    out = merged(v)
    if has_both_zeros(v):
        raise ValueError
    return out


def any_true(v: Any) -> Any:
    """``v.any()``."""
    for x in v:
        if x:
            return np.bool_(True)
    return np.bool_(False)


def all_true(v: Any) -> Any:
    """``v.all()``."""
    for x in v:
        if not x:
            return np.bool_(False)
    return np.bool_(True)


def places(v: Any) -> Any:
    """``np.flatnonzero(v)``."""
    out = np.empty(len(v), np.int64)
    n = 0
    for k in range(len(v)):
        if v[k]:
            out[n] = k
            n += 1
    return out[:n]


def nonzero(v: Any) -> Any:
    """``np.nonzero(v)`` of one axis."""
    return (places(v),)


def count(v: Any) -> Any:
    """``np.count_nonzero(v)``."""
    n = 0
    for x in v:
        if x:
            n += 1
    return COUNTED(n)


def halved(a: Any, x: Any, right: bool, low: int, high: int) -> int:
    """The insertion place between two indices of a sorted array, by bisection."""
    while low < high:
        middle = (low + high) // 2
        if a[middle] < x or (right and a[middle] == x):
            low = middle + 1
        else:
            high = middle
    return low


def searched(a: Any, x: Any, right: bool) -> Any:
    """``np.searchsorted(a, x)`` of one number, by halves; NaN raises."""
    if x != x:
        raise ValueError
    return np.int64(halved(a, x, right, 0, len(a)))


def stepped(a: Any, x: Any, right: bool) -> Any:
    """The same with NumPy 2.5's steps, which differ for unsorted values."""
    if x != x:
        raise ValueError
    low, count = 0, len(a)
    while count > 1:
        half = count // 2
        if a[low + half] < x or (right and a[low + half] == x):
            low += half
        count -= half
    if count and (a[low] < x or (right and a[low] == x)):
        low += 1
    return np.int64(low)


def _below(x: Any, xp: Any, guess: int) -> int:
    """The place in a table before a number, as `np.interp` looks for it; `guess`: the last one.

    In tables that do not rise that is another one than halves find.
    """
    n = len(xp)
    if n <= 4:
        at = 1
        while at < n and x >= xp[at]:
            at += 1
        return at - 1
    near = guess
    if near > n - 3:
        near = n - 3
    if near < 1:
        near = 1
    low, high = 0, n
    if x < xp[near]:
        if x >= xp[near - 1]:
            return near - 1
        high = near - 1
        if near > 8 and x >= xp[near - 8]:
            low = near - 8
    else:
        if x < xp[near + 1]:
            return near
        if x < xp[near + 2]:
            return near + 1
        low = near + 2
        if near < n - 9 and x < xp[near + 8]:
            high = near + 8
    while low < high:
        middle = (low + high) // 2
        if x >= xp[middle]:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _place_in(x: Any, xp: Any, guess: int) -> int:
    """The same for any number: -1 before the table, its length after it; NaN raises."""
    n = len(xp)
    if x != x:
        raise ValueError
    if x > xp[n - 1]:
        return n
    if x < xp[0]:
        return -1
    return _below(x, xp, guess)


def _value_at(x: Any, xp: Any, fp: Any, j: int) -> Any:
    """The value for a number whose place in a table is known; NaN raises."""
    n = len(xp)
    if j == -1:
        return fp[0]
    if j >= n - 1:
        return fp[n - 1]
    if xp[j] == x:
        return fp[j]
    slope = (fp[j + 1] - fp[j]) / (xp[j + 1] - xp[j])
    found = slope * (x - xp[j]) + fp[j]
    if found != found:
        raise ValueError
    return found


def interpolated(x: Any, xp: Any, fp: Any) -> Any:
    """``np.interp(x, xp, fp)`` of one number, as NumPy computes it; NaN raises."""
    if len(xp) < 2 or len(fp) != len(xp):
        raise ValueError
    return _value_at(x, xp, fp, _place_in(x, xp, 0))


def all_interpolated(x: Any, xp: Any, fp: Any) -> Any:
    """``np.interp(x, xp, fp)`` of an array that is shorter than the table, or not; NaN raises."""
    if len(xp) < 2 or len(fp) != len(xp):
        raise ValueError
    out = np.empty(len(x), np.float64)
    j = 0
    for k in range(len(x)):
        j = _place_in(x[k], xp, j)
        out[k] = _value_at(x[k], xp, fp, j)
    return out
