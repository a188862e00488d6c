"""Ordinary differential equations, as ``scipy.integrate.solve_ivp`` solves them, for the compiler.

Sources: E. Hairer, S. P. Nørsett and G. Wanner, Solving Ordinary Differential Equations I, Springer
1993, II.4 (steps and their length), II.5 and II.6 (DOP853, with its values between steps);
J. R. Dormand and P. J. Prince, Journal of Computational and Applied Mathematics 6 (1980) 19;
P. Bogacki and L. F. Shampine, Applied Mathematics Letters 2 (1989) 321; L. F. Shampine, Mathematics
of Computation 46 (1986) 135 (values between steps). The coefficients are those that SciPy's classes
have. Operations are in SciPy's order; products of matrices are those of `of_products`.

What is given is named as in the book: `a`, `b`, `c` are the coefficients of a step, `k` the slopes
within it, one in each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_results import Result
from .of_products import chained, length, of_sixteen, paired, weighed


def slopes(value: Any, n: int) -> Any:
    """What the function of an equation gives, as an array of float64, which may be its own."""
    found = np.asarray(value, float)
    return found if found.ndim else np.full(n, found)


def anyones(x: Any) -> Any:
    """A number that is Python's or NumPy's, as it comes."""
    return x


def lent(y: Any) -> Any:
    """An array that the function of an equation gets: one that writes into it is not compiled."""
    return y


def _called(f: Any, t: Any, y: Any, args: Any) -> Any:
    found = slopes(f(t, lent(y), *args), len(y))
    if len(found) != len(y):
        raise NotImplementedError
    return found


def _size(x: Any, scale: Any) -> Any:
    """The root of the mean square of what is divided by a scale."""
    n = len(x)
    part = np.empty(n)
    for i in range(n):
        part[i] = x[i] / scale[i]
    return length(part) / n**0.5


def _checked_places(places: Any, begin: float, end: float) -> None:
    """Raise for places that are not between both ends, or not in their order."""
    low, high = min(begin, end), max(begin, end)
    for x in places:
        if x < low or x > high:
            raise ValueError
    for k in range(1, len(places)):
        step = places[k] - places[k - 1]
        if step <= 0 if end > begin else step >= 0:
            raise ValueError


def _checked(
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


def _first_step(
    f: Any, args: Any, start: Any, end: Any, y: Any, slope: Any, sign: Any, order: int,
    rtol: float, atol: Any, max_step: float,
) -> Any:  # fmt: skip
    """How long the first step is: from the size of a slope, and how fast it changes."""
    n = len(y)
    far = abs(end - start)
    scale = np.empty(n)
    for i in range(n):
        scale[i] = atol[i] + abs(y[i]) * rtol
    d0 = _size(y, scale)
    d1 = _size(slope, scale)
    h = np.float64(1e-6)
    if not (d0 < 1e-5 or d1 < 1e-5):
        h = 0.01 * d0 / d1
    h = min(h, np.float64(far))
    there = np.empty(n)
    for i in range(n):
        there[i] = y[i] + h * sign * slope[i]
    other = _called(f, start + h * sign, there, args)
    change = np.empty(n)
    for i in range(n):
        change[i] = other[i] - slope[i]
    d2 = _size(change, scale) / h
    if d1 <= 1e-15 and d2 <= 1e-15:
        next_one = max(np.float64(1e-6), h * 1e-3)
    else:
        next_one = (0.01 / max(d1, d2)) ** (1 / (order + 1))
    return min(100 * h, next_one, np.float64(far), np.float64(max_step))


def _is_too_short(h: Any, t: Any, sign: Any) -> bool:
    """Whether a step is less than ten times the distance to the next number."""
    if h > 1e-300 and h > 3e-15 * abs(t):
        return False
    return bool(h < 10 * abs(np.nextafter(t, sign * np.inf) - t))


def error(k: Any, h: Any, scale: Any, tables: Any) -> Any:
    """The error of a step of `RK23` or `RK45`, where 1 is the most that it may have."""
    weights = tables[2]
    n = len(scale)
    found = np.empty(n)
    for i in range(n):
        found[i] = weighed(k, weights, len(weights), i) * h
    return _size(found, scale)


def error_of_two(k: Any, h: Any, scale: Any, tables: Any) -> Any:
    """The same of `DOP853`, from errors of the fifth and of the third order."""
    fifth, third = tables[2], tables[3]
    n = len(scale)
    five = np.empty(n)
    three = np.empty(n)
    for i in range(n):
        five[i] = weighed(k, fifth, len(fifth), i) / scale[i]
        three[i] = weighed(k, third, len(third), i) / scale[i]
    five_square = length(five) ** 2
    three_square = length(three) ** 2
    if five_square == 0 and three_square == 0:
        return np.float64(0.0)
    below = five_square + 0.01 * three_square
    return abs(h) * five_square / np.sqrt(below * n)


def by_polynomial(
    f: Any, args: Any, k: Any, before: Any, now: Any, y_before: Any, y: Any, slope: Any,
    tables: Any, places: Any, first: int, last: int, out: Any,
) -> int:  # fmt: skip
    """Values between steps of `RK23` and `RK45`; how often the function was called."""
    table = tables[3]
    n = len(y)
    count, m = table.shape
    q = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            if n == 1:
                q[i, j] = weighed(table, k[:, i], count, j)
            else:
                q[i, j] = chained(k[:, i], table[:, j], count)
    h = now - before
    powers = np.empty((m, last - first))
    for p in range(first, last):
        x = (places[p] - before) / h
        part = x
        for j in range(m):
            powers[j, p - first] = part
            part = part * x
    for p in range(last - first):
        for i in range(n):
            if last - first == 1:
                total = chained(q[i], powers[:, p], m) if n == 1 else paired(q[i], powers[:, p], m)
            elif n == 1:
                total = weighed(powers, q[i], m, p)
            else:
                total = chained(q[i], powers[:, p], m)
            out[i, first + p] = h * total + y_before[i]
    return 0


def by_further_slopes(
    f: Any, args: Any, k: Any, before: Any, now: Any, y_before: Any, y: Any, slope: Any,
    tables: Any, places: Any, first: int, last: int, out: Any,
) -> int:  # fmt: skip
    """The same of `DOP853`, which calls the function thrice more."""
    table, a, c = tables[4], tables[5], tables[6]
    n = len(y)
    h = now - before
    begun = len(k) - len(a)
    for s in range(begun, len(k)):
        there = np.empty(n)
        for i in range(n):
            there[i] = y_before[i] + weighed(k, a[s - begun], s, i) * h
        found = _called(f, before + c[s - begun] * h, there, args)
        for i in range(n):
            k[s, i] = found[i]
    parts = np.empty((7, n))
    for i in range(n):
        delta = y[i] - y_before[i]
        parts[0, i] = delta
        parts[1, i] = h * k[0, i] - delta
        parts[2, i] = 2 * delta - h * (slope[i] + k[0, i])
        for j in range(4):
            parts[3 + j, i] = h * of_sixteen(table[j], k[:, i], i, n)
    for p in range(first, last):
        x = (places[p] - before) / h
        for i in range(n):
            total = np.float64(0.0)
            for j in range(7):
                total = (total + parts[6 - j, i]) * (x if j % 2 == 0 else 1 - x)
            out[i, p] = total + y_before[i]
    return 3


_LEAST, _ONE, _MOST = np.float64(0.2), np.float64(1.0), np.float64(10.0)
"""How a step may change, and one."""


def solved(
    f: Any, args: Any, begin: float, start: Any, end: Any, y: Any, given: Any, places: Any,
    limits: Any, tables: Any, methods: Any, order: int, texts: Any,
) -> Any:  # fmt: skip
    """``scipy.integrate.solve_ivp(f, (begin, end), y, t_eval=given, args=args, ...)``.

    Parameters
    ----------
    start : float
        `begin`, as Python's number or as NumPy's.
    places : ndarray of float64 or None
        `given`.
    limits : tuple
        `rtol`, `atol` (an array), `max_step` and `first_step`.
    tables : tuple of ndarray
        Coefficients: `c`, `a` with `b` as its last row, and those of `methods`.
    methods : tuple of callable
        What gives the error of a step, and values between steps; how many rows it wants for slopes;
        whether SciPy puts values in columns.
    order : int
        Of the estimate of errors.
    texts : tuple of str
        Why it ended: at the end, or where steps get too short.
    """
    rtol, atol, max_step, first = limits
    error_of, between, rows, turned = methods
    c, a = tables[0], tables[1]
    n = len(y)
    _checked(n, begin, end, y, rtol, atol, max_step, first)
    sign = np.float64(1.0 if end > begin else -1.0)
    done = most = 0
    ts = [start]
    ys = [y[0]]
    out = np.empty((n, 0))
    if places is None:
        for i in range(1, n):
            ys.append(y[i])
    else:
        _checked_places(places, begin, end)
        out = np.empty((n, len(places)))
    slope = _called(f, begin, y, args)
    calls = 1
    if first is None:
        size = _first_step(f, args, start, end, y, slope, sign, order, rtol, atol, max_step)
        calls = 2
    else:
        size = np.float64(first)
    if size != size:  # SciPy tries for ever
        raise NotImplementedError
    k = np.empty((rows, n))
    scale = np.empty(n)
    stages = len(c)
    y = y.copy()
    power = -1 / (order + 1)
    t = start
    status = 0
    while status == 0 and sign * (t - end) < 0:
        if size > max_step:
            size = np.float64(max_step)
        elif _is_too_short(size, t, sign):
            size = 10 * abs(np.nextafter(t, sign * np.inf) - t)
        rejected = False
        while True:
            if _is_too_short(size, t, sign):
                status = -1
                break
            now = anyones(t + size * sign)
            if sign * (now - end) > 0:
                now = end
            h = anyones(now - t)
            size = np.float64(abs(h))
            for i in range(n):
                k[0, i] = slope[i]
            there = y
            found = slope
            for s in range(1, stages + 1):
                there = np.empty(n)
                for i in range(n):
                    there[i] = y[i] + weighed(k, a[s], s, i) * h
                moment = anyones(t + c[s] * h if s < stages else t + h)
                found = _called(f, moment, there, args)
                for i in range(n):
                    k[s, i] = found[i]
            calls += stages
            for i in range(n):
                scale[i] = atol[i] + max(abs(y[i]), abs(there[i])) * rtol
            off = error_of(k, h, scale, tables)
            if off < 1:
                factor = _MOST
                if off != 0:
                    factor = min(_MOST, 0.9 * off**power)
                if rejected:
                    factor = min(_ONE, factor)
                size *= factor
                if places is None:
                    ts.append(now)
                    for i in range(n):
                        ys.append(there[i])
                else:
                    last = done
                    while last < len(places) and sign * (places[last] - now) <= 0:
                        last += 1
                    if last > done:
                        calls += between(
                            f, args, k, t, now, y, there, found, tables, places, done, last, out
                        )  # fmt: skip
                    most = max(most, last - done)
                    done = last
                y = there
                slope = found
                t = now
                break
            size *= max(_LEAST, 0.9 * off**power)
            rejected = True
    if places is None:
        out = np.empty((len(ts), n))
        for s in range(len(ts)):
            for i in range(n):
                out[s, i] = ys[s * n + i]
        out = out.T
        when = np.array(ts)
    else:
        if done == 0:
            raise NotImplementedError
        when = given[:done].copy()
        if done < len(places):
            out = out[:, :done].copy()
        if turned and n > 1 and most > 1:  # each step's values are in columns
            out = out.T.copy().T
    return Result(
        t=when, y=out, sol=None, t_events=None, y_events=None, nfev=calls, njev=0, nlu=0,
        status=status, message=texts[0 if status == 0 else 1], success=status >= 0,
    )  # fmt: skip
