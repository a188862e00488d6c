"""Curves through points, made for each slice on its own places, for the compiler.

Sources: C. de Boor, A Practical Guide to Splines, Springer 1978, chapter IV (cubic splines, and
what holds at their ends); F. N. Fritsch and J. Butland, SIAM Journal on Scientific and Statistical
Computing 5 (1984) 300, and C. Moler, Numerical Computing with MATLAB, 2004, 3.6 (`monotone`);
H. Akima, Journal of the ACM 17 (1970) 589; G. H. Golub and C. F. Van Loan, Matrix Computations, 4th
edition, 4.3 (three diagonals, with pivots). Operations are in the order of SciPy's and LAPACK's.

A curve is four rows of coefficients, of the third power first, a column between two places each.
What is raised is said in ``of_fits``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..of_numpy import interpolated

NOT_A_KNOT, NATURAL, CLAMPED = range(3)
"""What holds at an end of a cubic spline."""


def check(x: Any, y: Any) -> None:
    """Raise what SciPy raises for places and values."""
    n = len(x)
    if n < 2 or len(y) != n:
        raise ValueError
    for i in range(n):
        if x[i] - x[i] != 0.0 or y[i] - y[i] != 0.0:
            raise ValueError
    for i in range(1, n):
        if x[i] - x[i - 1] <= 0.0:
            raise ValueError


def three_diagonals(lower: Any, d: Any, upper: Any, b: Any) -> None:
    """Solve a system of three diagonals, in place of the right side: LAPACK's ``gtsv``."""
    n = len(d)
    for i in range(n - 1):
        if abs(d[i]) >= abs(lower[i]):
            if d[i] == 0.0:
                raise NotImplementedError
            part = lower[i] / d[i]
            d[i + 1] = d[i + 1] - part * upper[i]
            b[i + 1] = b[i + 1] - part * b[i]
            lower[i] = 0.0
        else:
            part = d[i] / lower[i]
            d[i] = lower[i]
            here = d[i + 1]
            d[i + 1] = upper[i] - part * here
            if i < n - 2:
                lower[i] = upper[i + 1]
                upper[i + 1] = -part * lower[i]
            upper[i] = here
            here = b[i]
            b[i] = b[i + 1]
            b[i + 1] = here - part * b[i + 1]
    if d[n - 1] == 0.0:
        raise NotImplementedError
    b[n - 1] = b[n - 1] / d[n - 1]
    if n > 1:
        b[n - 2] = (b[n - 2] - upper[n - 2] * b[n - 1]) / d[n - 2]
    for i in range(n - 3, -1, -1):
        b[i] = (b[i] - upper[i] * b[i + 1] - lower[i] * b[i + 2]) / d[i]


def solve_banded(ab: Any, b: Any, finite: bool) -> Any:
    """``scipy.linalg.solve_banded((1, 1), ab, b)``."""
    n = len(b)
    if ab.shape != (3, n):
        raise ValueError
    if finite and not (np.isfinite(ab[0]).all() and np.isfinite(ab[1]).all()):
        raise ValueError
    if finite and not (np.isfinite(ab[2]).all() and np.isfinite(b).all()):
        raise ValueError
    if n < 2:
        raise NotImplementedError
    found = b.copy()
    three_diagonals(ab[2, : n - 1].copy(), ab[1].copy(), ab[0, 1:].copy(), found)
    return found


def _slopes_between(x: Any, y: Any) -> Any:
    out = np.empty(len(x) - 1)
    for i in range(len(out)):
        out[i] = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
    return out


def _hermite(x: Any, y: Any, s: Any) -> Any:
    """Coefficients of the curve through points with slopes."""
    n = len(x) - 1
    c = np.empty((4, n))
    for i in range(n):
        h = x[i + 1] - x[i]
        slope = (y[i + 1] - y[i]) / h
        part = (s[i] + s[i + 1] - 2 * slope) / h
        c[0, i] = part / h
        c[1, i] = (slope - s[i]) / h - part
        c[2, i] = s[i]
        c[3, i] = y[i]
    return c


def cubic(x: Any, y: Any, ends: Any) -> Any:
    """``scipy.interpolate.CubicSpline``; `ends`: what holds at both."""
    check(x, y)
    n = len(x)
    first, last = ends
    slope = _slopes_between(x, y)
    if n == 3 and first == NOT_A_KNOT and last == NOT_A_KNOT:
        raise NotImplementedError  # a parabola, by another solver
    lower = np.zeros(n - 1)
    d = np.zeros(n)
    upper = np.zeros(n - 1)
    b = np.zeros(n)
    for i in range(1, n - 1):
        before = x[i] - x[i - 1]
        after = x[i + 1] - x[i]
        d[i] = 2 * (before + after)
        upper[i] = before
        lower[i - 1] = after
        b[i] = 3 * (after * slope[i - 1] + before * slope[i])
    h = x[1] - x[0]
    if first == CLAMPED or (n == 2 and first == NOT_A_KNOT):
        d[0] = 1.0
        b[0] = 0.0 if first == CLAMPED else slope[0]
    elif first == NATURAL:
        d[0] = 2 * h
        upper[0] = h
        b[0] = -0.5 * 0.0 * h**2 + 3 * (y[1] - y[0])
    else:
        other = x[2] - x[1]
        far = x[2] - x[0]
        d[0] = other
        upper[0] = far
        b[0] = ((h + 2 * far) * other * slope[0] + h**2 * slope[1]) / far
    h = x[n - 1] - x[n - 2]
    if last == CLAMPED or (n == 2 and last == NOT_A_KNOT):
        d[n - 1] = 1.0
        b[n - 1] = 0.0 if last == CLAMPED else slope[0]
    elif last == NATURAL:
        d[n - 1] = 2 * h
        lower[n - 2] = h
        b[n - 1] = 0.5 * 0.0 * h**2 + 3 * (y[n - 1] - y[n - 2])
    else:
        other = x[n - 2] - x[n - 3]
        far = x[n - 1] - x[n - 3]
        d[n - 1] = other
        lower[n - 2] = far
        b[n - 1] = (h**2 * slope[n - 3] + (2 * far + h) * other * slope[n - 2]) / far
    three_diagonals(lower, d, upper, b)
    return _hermite(x, y, b)


def _end(h: Any, other: Any, slope: Any, next_one: Any) -> Any:
    """The slope at an end, from the two that follow, such that the curve keeps its shape."""
    d = ((2 * h + other) * slope - h * next_one) / (h + other)
    if np.sign(d) != np.sign(slope):
        return 0.0 * h
    if np.sign(slope) != np.sign(next_one) and abs(d) > 3.0 * abs(slope):
        return 3.0 * slope
    return d


def monotone(x: Any, y: Any, ends: Any) -> Any:
    """``scipy.interpolate.PchipInterpolator``."""
    check(x, y)
    n = len(x)
    slope = _slopes_between(x, y)
    s = np.zeros(n)
    if n == 2:
        s[0] = slope[0]
        s[1] = slope[0]
        return _hermite(x, y, s)
    for i in range(1, n - 1):
        m = slope[i - 1]
        k = slope[i]
        if np.sign(m) != np.sign(k) or m == 0.0 or k == 0.0:
            continue
        before = x[i] - x[i - 1]
        after = x[i + 1] - x[i]
        one = 2 * after + before
        other = after + 2 * before
        s[i] = 1.0 / ((one / m + other / k) / (one + other))
    s[0] = _end(x[1] - x[0], x[2] - x[1], slope[0], slope[1])
    s[n - 1] = _end(x[n - 1] - x[n - 2], x[n - 2] - x[n - 3], slope[n - 2], slope[n - 3])
    return _hermite(x, y, s)


def akima(x: Any, y: Any, ends: Any) -> Any:
    """``scipy.interpolate.Akima1DInterpolator``; `ends`: something for "makima", else None."""
    check(x, y)
    n = len(x)
    slope = _slopes_between(x, y)
    s = np.zeros(n)
    if n == 2:
        s[0] = slope[0]
        s[1] = slope[0]
        return _hermite(x, y, s)
    m = np.empty(n + 3)
    for i in range(n - 1):
        m[2 + i] = slope[i]
    m[1] = 2.0 * m[2] - m[3]
    m[0] = 2.0 * m[1] - m[2]
    m[n + 1] = 2.0 * m[n] - m[n - 1]
    m[n + 2] = 2.0 * m[n + 1] - m[n]
    before = np.empty(n)
    both = np.empty(n)
    for i in range(n):
        after = abs(m[i + 3] - m[i + 2])
        before[i] = abs(m[i + 1] - m[i])
        if ends is not None:
            after += 0.5 * abs(m[i + 3] + m[i + 2])
            before[i] += 0.5 * abs(m[i + 1] + m[i])
        both[i] = after + before[i]
    most = np.max(both)
    for i in range(n):
        s[i] = 0.5 * (m[i + 3] + m[i])
        if both[i] > 1.0e-9 * most:
            s[i] = m[i + 1] + before[i] / both[i] * (m[i + 2] - m[i + 1])
    return _hermite(x, y, s)


def _interval(x: Any, place: Any) -> int:
    """Which two places another one is between, the first of them included; or the nearest two."""
    low = 0
    high = len(x) - 1
    while high - low > 1:
        k = (low + high) // 2
        if place < x[k]:
            high = k
        else:
            low = k
    return low


def _value(x: Any, c: Any, place: Any, extends: Any, order: int) -> Any:
    """A curve, or a derivative of it, at a place."""
    if place != place or (extends is None and not x[0] <= place <= x[len(x) - 1]):
        return np.float64(np.nan)
    k = _interval(x, place)
    off = place - x[k]
    total = np.float64(0.0)
    power = np.float64(1.0)
    for p in range(order, 4):
        part = 1.0
        for j in range(order):
            part *= p - j
        total = total + c[3 - p, k] * power * part
        if p < 3:
            power = power * off
    return total


def at_one(x: Any, c: Any, extends: Any, order: int, place: Any) -> Any:
    """The curve at one place, as an array without axes."""
    return without_axes(_value(x, c, place, extends, order))


def at(x: Any, c: Any, extends: Any, order: int, places: Any) -> Any:
    """The curve at some places."""
    out = np.empty(len(places))
    for i in range(len(places)):
        out[i] = _value(x, c, places[i], extends, order)
    return out


def without_axes(x: Any) -> Any:
    """A number as SciPy gives it."""
    return np.asarray(x)


def curve(made: Any, x: Any, y: Any, ends: Any, extends: Any) -> Any:
    """What can be called with places; `extends`: something, if there is a curve beyond the ends."""
    return called(x, made(x, y, ends), extends)


def called(x: Any, c: Any, extends: Any) -> Any:
    """What can be called with places, and the order of a derivative."""
    return functools.partial(asked, x, c, extends)


def asked(x: Any, c: Any, extends: Any, places: Any, nu: int = 0) -> Any:
    """The curve at one place, or at several."""
    return (at if np.ndim(places) else at_one)(x, c, extends, nu, places)


RAISES, FILLS, EXTENDS, BLENDS = range(4)
"""What is done beyond the ends of lines; `BLENDS`: they go on, by the formula of SciPy 1.18."""


def lines(x: Any, y: Any, beyond: int, fill: Any) -> Any:
    """``scipy.interpolate.interp1d``, by lines; `fill`: values below and above, if it `FILLS`."""
    n = len(x)
    if len(y) != n:
        raise ValueError
    if n < 2:
        raise NotImplementedError
    for i in range(n):
        if y[i] - y[i] != 0.0 or x[i] - x[i] != 0.0 or (i > 0 and x[i] <= x[i - 1]):
            raise NotImplementedError
    return called_on_lines(x.copy(), y.copy(), beyond, fill)


def called_on_lines(x: Any, y: Any, beyond: int, fill: Any) -> Any:
    """What can be called with places."""
    return functools.partial(asked_of_lines, x, y, beyond, fill)


def _on_line(x: Any, y: Any, beyond: int, fill: Any, place: Any) -> Any:
    """The value at a place."""
    n = len(x)
    if place != place:
        raise NotImplementedError
    if beyond >= EXTENDS:
        k = _interval(x, place)
        if k > 0 and place == x[k]:
            k -= 1
        if beyond == BLENDS:
            width = x[k + 1] - x[k]
            return (place - x[k]) / width * y[k + 1] + (x[k + 1] - place) / width * y[k]
        return (y[k + 1] - y[k]) / (x[k + 1] - x[k]) * (place - x[k]) + y[k]
    if place < x[0] or place > x[n - 1]:
        if beyond == RAISES:
            raise ValueError
        return fill[0] if place < x[0] else fill[1]
    return interpolated(place, x, y)


def one_on_lines(x: Any, y: Any, beyond: int, fill: Any, place: Any) -> Any:
    """The value at one place, as an array without axes."""
    return without_axes(np.float64(_on_line(x, y, beyond, fill, place)))


def on_lines(x: Any, y: Any, beyond: int, fill: Any, places: Any) -> Any:
    """The values at some places."""
    out = np.empty(len(places))
    for i in range(len(places)):
        out[i] = _on_line(x, y, beyond, fill, places[i])
    return out


def asked_of_lines(x: Any, y: Any, beyond: int, fill: Any, places: Any) -> Any:
    """The value at one place, or at several."""
    return (on_lines if np.ndim(places) else one_on_lines)(x, y, beyond, fill, places)
