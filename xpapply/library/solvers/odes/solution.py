"""The solution of a differential equation at any place, for the compiler: ``sol`` of SciPy's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def solution(*given: Any) -> Any:
    """What can be called with places."""
    return functools.partial(asked, *given)


def asked(*given: Any) -> Any:
    """The solution at one place, or at several."""
    return at(*given) if np.ndim(given[-1]) else at_one(*given)


def _segment(ts: Any, t: Any, is_turned: bool) -> int:
    """Which step a place belongs to: of two that meet there the one to its left."""
    n = len(ts) - 1
    low = 0
    high = n + 1
    if ts[n] >= ts[0]:
        while low < high:
            k = (low + high) // 2
            if ts[k] < t or (is_turned and ts[k] == t):
                low = k + 1
            else:
                high = k
        return min(max(low - 1, 0), n - 1)
    while low < high:
        k = (low + high) // 2
        if ts[n - k] < t or (not is_turned and ts[n - k] == t):
            low = k + 1
        else:
            high = k
    return n - 1 - min(max(low - 1, 0), n - 1)


def at_one(
    one: Any, some: Any, is_turned: bool, ts: Any, ends: Any, ys: Any, parts: Any, t: Any
) -> Any:
    """The solution at one place.

    Parameters
    ----------
    one, some : callable
        What gives values between two steps.
    is_turned : bool
        Whether a place where two steps meet belongs to the later one.
    ts : ndarray
        Where steps begin, and the last one ends.
    ends : list of float
        Where they begin and end, two for each.
    ys, parts : ndarray
        Values where they begin, and what `one` wants, of one after the other.
    """
    rows = len(parts) // len(ys)
    k = _segment(ts, t, is_turned)
    return one(parts[k * rows : (k + 1) * rows], ends[2 * k], ends[2 * k + 1], ys[k], t)


def at(
    one: Any, some: Any, is_turned: bool, ts: Any, ends: Any, ys: Any, parts: Any, t: Any
) -> Any:
    """The same at several places."""
    n = len(ys[0])
    rows = len(parts) // len(ys)
    count = len(t)
    order = np.argsort(t, kind="stable")
    places = t[order]
    out = np.empty((n, count))
    found = np.empty((n, count))
    first = 0
    while first < count:
        k = _segment(ts, places[first], is_turned)
        last = first + 1
        while last < count and _segment(ts, places[last], is_turned) == k:
            last += 1
        own = parts[k * rows : (k + 1) * rows]
        some(own, ends[2 * k], ends[2 * k + 1], ys[k], places, first, last, out)
        first = last
    for p in range(count):
        for i in range(n):
            found[i, order[p]] = out[i, p]
    return found
