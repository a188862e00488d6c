"""NumPy's functions of an array in order: places, quantiles, bins and what occurs how often."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .of_numpy import halved, has_both_zeros, in_order, merged, searched, stepped


def places_in_order(a: Any, stable: bool = False) -> Any:
    """``np.argsort(a)``, NaN last. Equal values, whose order only stable kinds say, raise."""
    n = len(a)
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = k
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            at = out[i]
            x = a[at]
            j = i
            while j >= gap:
                other = out[j - gap]
                y = a[other]
                if not (y > x or (y != y and x == x)):
                    alike = y == x or (y != y and x != x)
                    if not alike or other < at:
                        break
                out[j] = other
                j -= gap
            out[j] = at
        gap //= 3
    if not stable:
        for k in range(1, n):
            x = a[out[k - 1]]
            y = a[out[k]]
            if x == y or x != x:
                raise ValueError
    return out


def _between(x: Any, at: Any) -> Any:
    """The value at a place in ordered values that may be between two of them."""
    n = len(x)
    low = np.floor(at)
    if at >= n - 1:
        before = x[n - 1]
        after = before
        share = at + 1.0
    else:
        before = x[int(low)]
        after = x[int(low) + 1]
        share = at - low
    far = after - before
    found = before + far * share
    if share >= 0.5:
        found = after - far * (1 - share)
    last = x[n - 1]
    if last != last:
        return last
    return found


def quantile(a: Any, q: Any) -> Any:
    """``np.quantile(a, q)`` of float64 and a number."""
    if not 0 <= q <= 1:
        raise ValueError
    x = in_order(a)
    return _between(x, (len(x) - 1) * np.float64(q))


def percentile(a: Any, q: Any) -> Any:
    """``np.percentile(a, q)`` of float64 and a number."""
    share = np.true_divide(q, 100)
    if not 0 <= share <= 1:
        raise ValueError
    x = in_order(a)
    return _between(x, (len(x) - 1) * share)


def quantiles(a: Any, q: Any) -> Any:
    """``np.quantile(a, q)`` of float64 and several numbers."""
    x = in_order(a)
    out = np.empty(len(q), np.float64)
    for k in range(len(q)):
        if not 0 <= q[k] <= 1:
            raise ValueError
        out[k] = _between(x, (len(x) - 1) * q[k])
    return out


def percentiles(a: Any, q: Any) -> Any:
    """``np.percentile(a, q)`` of float64 and several numbers."""
    x = in_order(a)
    out = np.empty(len(q), np.float64)
    for k in range(len(q)):
        share = np.true_divide(q[k], 100)
        if not 0 <= share <= 1:
            raise ValueError
        out[k] = _between(x, (len(x) - 1) * share)
    return out


def unlike(ar: Any) -> Any:
    """``np.unique(ar)``; NaN's are one."""
    x = in_order(ar)
    n = 0
    for k in range(len(x)):
        if k == 0 or not (x[k] == x[k - 1] or x[k - 1] != x[k - 1]):
            x[n] = x[k]
            n += 1
    return x[:n]


def unlike_counted(ar: Any, are_read: bool = True) -> Any:
    """``np.unique(ar, return_counts=True)``; `are_read`: whether the values are."""
    x = merged(ar)
    if are_read and has_both_zeros(ar):
        raise ValueError
    counts = np.zeros(len(x), np.int64)
    n = 0
    before = 0
    for k in range(len(x)):
        if k == 0 or not (x[k] == x[k - 1] or x[k - 1] != x[k - 1]):
            if n > 0:
                counts[n - 1] = k - before
            before = k
            x[n] = x[k]
            n += 1
    if n > 0:
        counts[n - 1] = len(x) - before
    return x[:n], counts[:n]


def counted(x: Any, minlength: int = 0) -> Any:
    """``np.bincount(x)`` of integers; negative ones raise."""
    n = minlength
    if n < 0:
        raise ValueError
    for y in x:
        if y < 0:
            raise ValueError
        if y >= n:
            n = int(y) + 1
    out = np.zeros(n, np.int64)
    for y in x:
        out[y] += 1
    return out


def weighed(x: Any, weights: Any, minlength: int = 0) -> Any:
    """``np.bincount(x, weights)`` of integers and float64."""
    n = minlength
    if n < 0 or len(x) != len(weights):
        raise ValueError
    for y in x:
        if y < 0:
            raise ValueError
        if y >= n:
            n = int(y) + 1
    out = np.zeros(n, np.float64)
    for k in range(len(x)):
        out[x[k]] += weights[k]
    return out


def in_bins(x: Any, bins: Any, right: bool = False) -> Any:
    """``np.digitize(x, bins)`` of one number and rising bins; others raise."""
    for k in range(1, len(bins)):
        if not bins[k - 1] <= bins[k]:
            raise ValueError
    return searched(bins, x, not right)


def all_in_bins(x: Any, bins: Any, right: bool = False) -> Any:
    """``np.digitize(x, bins)`` of an array."""
    for k in range(1, len(bins)):
        if not bins[k - 1] <= bins[k]:
            raise ValueError
    out = np.empty(len(x), np.int64)
    for k in range(len(x)):
        out[k] = searched(bins, x[k], not right)
    return out


def all_stepped(a: Any, v: Any, right: bool) -> Any:
    """``np.searchsorted(a, v)`` of an array, as NumPy 2.5 looks: each by itself."""
    out = np.empty(len(v), np.int64)
    for k in range(len(v)):
        out[k] = stepped(a, v[k], right)
    return out


@functools.cache
def searches() -> tuple[Any, Any] | None:
    """This NumPy's search for one number, and for several; None: unknown."""
    a, v = np.array(_UNSORTED[:11]), np.array(_UNSORTED[11:])
    sides: tuple[tuple[bool, Any], ...] = (False, "left"), (True, "right")
    for one, several in ((searched, all_searched), (stepped, all_stepped)):
        for right, side in sides:
            found = [one(a, x, right) for x in v]
            if found != [np.searchsorted(a, x, side) for x in v]:
                break
            if not np.array_equal(several(a, v, right), np.searchsorted(a, v, side)):
                break
        else:
            return one, several
    return None


_UNSORTED = (
    4.0, -3.0, 1.0, 0.0, 2.0, -5.0, 3.0, 3.0, -1.0, 5.0, 0.0,
    2.0, -4.0, 0.0, 5.0, 1.0, -2.0, 3.0, 4.0, -1.0, 6.0, -6.0, 0.0,
)  # fmt: skip
"""Values that do not rise, and others that are searched for among them."""


def all_searched(a: Any, v: Any, right: bool) -> Any:
    """``np.searchsorted(a, v)`` of an array, as NumPy looks: from where the last one was.

    In values that do not rise that is another place than halves of all find. NaN raises.
    """
    n = len(a)
    out = np.empty(len(v), np.int64)
    low, high = 0, n
    for k in range(len(v)):
        x = v[k]
        if x != x:
            raise ValueError
        before = v[k - 1] if k > 0 else x
        if before < x or (right and before == x):
            high = n
        else:
            low = 0
            high = high + 1 if high < n else n
        low = high = halved(a, x, right, low, high)
        out[k] = low
    return out


def histogram(a: Any, bins: int, low: Any, high: Any) -> Any:
    """``np.histogram(a, bins, (low, high))`` of float64: counts and edges."""
    if bins < 1 or low > high or not np.isfinite(low) or not np.isfinite(high):
        raise ValueError
    first = np.float64(low)
    last = np.float64(high)
    if first == last:
        first = first - 0.5
        last = last + 0.5
    edges = np.empty(bins + 1, np.float64)
    step = (last - first) / bins
    if step == 0:
        raise ValueError
    for k in range(bins):
        edges[k] = k * step + first
    edges[bins] = last
    for k in range(bins):
        if edges[k] >= edges[k + 1]:
            raise ValueError
    found = np.zeros(bins, np.int64)
    span = last - first
    for x in a:
        if first <= x <= last:
            at = int((x - first) / span * bins)
            if at == bins:
                at -= 1
            if x < edges[at]:
                at -= 1
            if x >= edges[at + 1] and at != bins - 1:
                at += 1
            found[at] += 1
    return found, edges


def histogram_of_all(a: Any, bins: int = 10) -> Any:
    """``np.histogram(a, bins)`` of float64."""
    return histogram(a, bins, np.minimum.reduce(a), np.maximum.reduce(a))


def histogram_of_edges(a: Any, bins: Any) -> Any:
    """``np.histogram(a, edges)`` of edges that rise."""
    n = len(bins) - 1
    if n < 1:
        raise ValueError
    for k in range(n):
        if not bins[k] <= bins[k + 1]:
            raise ValueError
    found = np.zeros(n, np.int64)
    for x in a:
        if bins[0] <= x <= bins[n]:
            at = n - 1
            if x < bins[n]:
                at = int(searched(bins, x, True)) - 1
            found[at] += 1
    return found, bins
