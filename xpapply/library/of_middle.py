"""NumPy's median: the values in the middle, which are looked for without sorting the others."""

from __future__ import annotations

from typing import Any

from .of_numpy import added, has_both_zeros, merged

_FEW = 100
"""Values up to which all are sorted, which slices do side by side."""


def _lower(x: Any, low: int, high: int, pivot: Any) -> int:
    """Put what is less than a value first; where that ends. No processor guesses wrong."""
    end = low
    for i in range(low, high):
        y = x[i]
        x[i] = x[end]
        x[end] = y
        if y < pivot:
            end += 1
    return end


def _alike(x: Any, low: int, high: int, pivot: Any) -> int:
    """Put what equals a value first; where that ends."""
    end = low
    for i in range(low, high):
        y = x[i]
        if y == pivot:
            x[i] = x[end]
            x[end] = y
            end += 1
    return end


def _select(x: Any, k: int) -> None:
    """Move values, none of which is NaN, until one stands where it would in order.

    No larger one is before it then. It is Hoare's Find, with the median of three; values that are
    equal are put together.
    """
    low = 0
    high = len(x)
    while high - low > 1:
        a = x[low]
        b = x[(low + high) // 2]
        c = x[high - 1]
        small = b if b < a else a
        large = a if b < a else b
        pivot = small if c < small else large if large < c else c
        end = _lower(x, low, high, pivot)
        if k < end:
            high = end
        else:
            low = _alike(x, end, high, pivot)
            if k < low:
                return


def _of_the_middle(x: Any, v: Any) -> Any:
    """The median of values of which those in the middle are in their places."""
    n = len(v)
    k = n // 2
    if x[k] == 0 and (n % 2 == 1 or x[k - 1] == 0) and has_both_zeros(v):
        raise ValueError
    if n % 2 == 1:
        return added(x[k : k + 1]) / 1
    return added(x[k - 1 : k + 1]) / 2


def _of_many(v: Any) -> Any:
    """The median of many values."""
    for y in v:
        if y != y:
            return y
    x = v.copy()
    k = len(v) // 2
    _select(x, k)
    if len(v) % 2 == 0:
        for i in range(k - 1):
            if x[k - 1] < x[i]:
                x[k - 1] = x[i]
    return _of_the_middle(x, v)


def median(v: Any) -> Any:
    """``np.median(v)``; a zero where there are zeros of both signs raises."""
    n = len(v)
    if n == 0:
        raise ValueError
    if n > _FEW:
        return _of_many(v)
    x = merged(v)
    last = x[n - 1]
    if last != last:
        return last
    return _of_the_middle(x, v)
