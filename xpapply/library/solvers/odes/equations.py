"""An equation, as all methods call it, and the length of their first step, for the compiler.

Source: E. Hairer, S. P. Nørsett and G. Wanner, Solving Ordinary Differential Equations I, Springer
1993, II.4. Operations are in SciPy's order; products of matrices are those of `of_products`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_products import length


def slopes(value: Any, n: int) -> Any:
    """What the function of an equation gives, as an array of float64, which may be its own."""
    found = np.asarray(value, float)
    return found if found.ndim else np.full(n, found)


def lent(y: Any) -> Any:
    """An array that the function of an equation gets: one that writes into it is not compiled."""
    return y


def called(f: Any, t: Any, y: Any, args: Any) -> Any:
    """The slopes at a place."""
    found = slopes(f(t, lent(y), *args), len(y))
    if len(found) != len(y):
        raise NotImplementedError
    return found


def is_finite(x: Any) -> bool:
    """Whether all are."""
    return bool(np.isfinite(x).all())


def size(x: Any, scale: Any) -> Any:
    """The root of the mean square of what is divided by a scale."""
    n = len(x)
    part = np.empty(n)
    for i in range(n):
        part[i] = x[i] / scale[i]
    return length(part) / n**0.5


def check_places(places: Any, begin: float, end: float) -> None:
    """Raise for places that are not between both ends, or not in their order."""
    low, high = min(begin, end), max(begin, end)
    for x in places:
        if x < low or x > high:
            raise ValueError
    for k in range(1, len(places)):
        step = places[k] - places[k - 1]
        if step <= 0 if end > begin else step >= 0:
            raise ValueError


def check(
    n: int, begin: float, end: float, y: Any, rtol: float, atol: Any, max_step: float, first: Any
) -> None:
    """Raise for what SciPy does not take, and for what is left to it."""
    if n == 0 or begin == end or rtol < 100.0 * _EPS:
        raise NotImplementedError
    if max_step <= 0.0 or len(atol) != n:
        raise ValueError
    for i in range(n):
        if y[i] - y[i] != 0.0 or atol[i] < 0.0:
            raise ValueError
    if first is not None and (first <= 0.0 or first > abs(end - begin)):
        raise ValueError


_EPS = float(np.finfo(float).eps)


def first_step(
    f: Any, args: Any, start: Any, end: Any, y: Any, slope: Any, sign: Any, order: int,
    rtol: float, atol: Any, max_step: float,
) -> Any:  # fmt: skip
    """How long the first step is: from the size of a slope, and how fast it changes."""
    n = len(y)
    far = abs(end - start)
    scale = np.empty(n)
    for i in range(n):
        scale[i] = atol[i] + abs(y[i]) * rtol
    d0 = size(y, scale)
    d1 = size(slope, scale)
    h = np.float64(1e-6)
    if not (d0 < 1e-5 or d1 < 1e-5):
        h = 0.01 * d0 / d1
    h = min(h, np.float64(far))
    there = np.empty(n)
    for i in range(n):
        there[i] = y[i] + h * sign * slope[i]
    other = called(f, start + h * sign, there, args)
    change = np.empty(n)
    for i in range(n):
        change[i] = other[i] - slope[i]
    d2 = size(change, scale) / h
    if d1 <= 1e-15 and d2 <= 1e-15:
        next_one = max(np.float64(1e-6), h * 1e-3)
    else:
        next_one = (0.01 / max(d1, d2)) ** (1 / (order + 1))
    return min(100 * h, next_one, np.float64(far), np.float64(max_step))


def is_too_short(h: Any, t: Any, sign: Any) -> bool:
    """Whether a step is less than ten times the distance to the next number."""
    if h > 1e-300 and h > 3e-15 * abs(t):
        return False
    return bool(h < 10 * abs(np.nextafter(t, sign * np.inf) - t))
