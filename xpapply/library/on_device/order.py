"""CuPy's functions of an array in order: places, quantiles, bins and what occurs how often."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_cupy import are_short, as_number, in_order, room, zero_of
from ..of_numpy import halved
from .series import rising

_INT64 = np.dtype("int64")
_FLOAT64 = np.dtype("float64")
_FEW = 16
"""Bins that are looked at one by one."""


def places_in_order(v: Any) -> Any:
    """``cupy.argsort(v)``, NaN last: of equal values the first one comes first."""
    n = len(v)
    if n > 32:
        raise ValueError
    out = room(n, _INT64)
    for i in range(n):
        x = v[i]
        at = 0
        for j in range(n):
            y = v[j]
            is_less = y < x or (x != x and y == y)
            alike = x == y or (x != x and y != y)
            if is_less or (j < i and alike):
                at += 1
        out[at] = i
    return out


def _between(x: Any, at: float) -> Any:
    """The value at a place in ordered values that may be between two of them."""
    n = len(x)
    low = int(at)
    share = at - low
    high = low + 1 if low + 1 < n else n - 1
    below = as_number(x[low], _FLOAT64)
    above = as_number(x[high], _FLOAT64)
    far = above - below
    if share < 0.5:
        return below + far * share
    return above - far * (1.0 - share)


def quantile(a: Any, share: float) -> Any:
    """``cupy.quantile(a, share)``."""
    x = in_order(a)
    return _between(x, share * (len(x) - 1))


def quantiles(a: Any, shares: Any) -> Any:
    """Several quantiles."""
    x = in_order(a)
    out = room(len(shares), _FLOAT64)
    for k, share in enumerate(shares):
        out[k] = _between(x, share * (len(x) - 1))
    return out


def unlike(ar: Any) -> Any:
    """``cupy.unique(ar)``; NaN raises."""
    x = in_order(ar)
    out = room(len(x), ar.dtype)
    n = 0
    for k in range(len(x)):
        if x[k] != x[k]:
            raise ValueError
        if k == 0 or x[k] != x[k - 1]:
            out[n] = x[k]
            n += 1
    return out[:n]


def _emptied(x: Any, minlength: int, dtype: Any) -> Any:
    """Zeros for numbers up to the largest of some integers; negative ones raise."""
    n = minlength
    if n < 0 or len(x) == 0:
        raise ValueError
    for y in x:
        at = int(y)
        if at < 0:
            raise ValueError
        if at >= n:
            n = at + 1
    out = room(n, dtype)
    for k in range(n):
        out[k] = 0
    return out


def counted(x: Any, minlength: int = 0) -> Any:
    """``cupy.bincount(x)`` of integers; negative ones raise."""
    out = _emptied(x, minlength, _INT64)
    for y in x:
        at = int(y)
        out[at] = out[at] + 1
    return out


def weighed(x: Any, weights: Any, minlength: int = 0) -> Any:
    """``cupy.bincount(x, weights)`` of integers and floats."""
    if len(x) != len(weights):
        raise ValueError
    out = _emptied(x, minlength, _FLOAT64)
    for k in range(len(x)):
        at = int(x[k])
        out[at] = out[at] + weights[k]
    return out


def _edges(bins: int, low: float, high: float) -> Any:
    """Edges of bins of one width."""
    if bins < 1 or not low < high:
        raise ValueError
    step = (high - low) / bins
    edges = room(bins + 1, _FLOAT64)
    for k in range(bins):
        edges[k] = k * step + low
    edges[bins] = high
    return edges


def histogram(a: Any, bins: int, low: float, high: float) -> Any:
    """``cupy.histogram(a, bins, (low, high))``: counts and edges."""
    return histogram_of_edges(a, _edges(bins, low, high))


def histogram_of_all(a: Any, bins: int = 10) -> Any:
    """``cupy.histogram(a, bins)`` of float64."""
    if len(a) == 0:
        raise ValueError
    low = as_number(a[0], _FLOAT64)
    high = as_number(a[0], _FLOAT64)
    for x in a:
        if not abs(x) < np.inf:
            raise ValueError
        if x < low:
            low = as_number(x, _FLOAT64)
        if x > high:
            high = as_number(x, _FLOAT64)
    return histogram_of_edges(a, _edges(bins, float(low), float(high)))


def histogram_of_edges(a: Any, bins: Any) -> Any:
    """``cupy.histogram(a, edges)`` of edges that rise."""
    n = len(bins) - 1
    if n < 1:
        raise ValueError
    rising(bins)
    if bins[n] + 1.0 == bins[n]:  # CuPy moves the last edge on, where it can
        raise ValueError
    found = room(n, _INT64)
    for k in range(n):
        found[k] = 0
    if n <= _FEW and are_short():
        _count_in_each(a, bins, found)
        return found, bins
    for x in a:
        if x != x:  # which CuPy counts or not, by what it is computed with
            raise ValueError
        if bins[0] <= x <= bins[n]:
            at = halved(bins, x, True, 0, n + 1) - 1
            if at == n:
                at = n - 1
            found[at] = found[at] + 1
    return found, bins


def _count_in_each(a: Any, bins: Any, found: Any) -> None:
    """Count what is in each of few bins, by looking at all of them; NaN raises.

    What is not below an edge, less what is not below the next one: so that is one comparison.
    """
    n = len(found)
    has_nan = False
    for x in a:
        one = 1 if x <= bins[n] else 0
        if x != x:
            has_nan = True
        for k in range(n):
            found[k] = found[k] + (one if bins[k] <= x else 0)
    if has_nan:
        raise ValueError
    for k in range(n - 1):
        found[k] = found[k] - found[k + 1]


def all_in_bins(x: Any, bins: Any, right: bool = False) -> Any:
    """``cupy.digitize(x, bins)`` of bins that rise; NaN raises."""
    rising(bins)
    out = room(len(x), _INT64)
    for k in range(len(x)):
        y = x[k]
        if y != y:
            raise ValueError
        out[k] = halved(bins, y, not right, 0, len(bins))
    return out


def known_sum(v: Any, dtype: Any) -> Any:
    """``cupy.nansum(v)`` of floats."""
    found = zero_of(dtype)
    for x in v:
        if x == x:
            found = found + x
    return found


def known_mean(v: Any, dtype: Any) -> Any:
    """``cupy.nanmean(v)`` of floats."""
    found = zero_of(dtype)
    n = 0
    for x in v:
        if x == x:
            found = found + x
            n += 1
    if n == 0:
        raise ValueError
    return found / n
