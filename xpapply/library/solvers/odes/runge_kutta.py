"""Runge and Kutta's methods for differential equations, for the compiler.

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

from ..of_products import (
    anyones,
    chained,
    inner,
    length,
    of_row,
    of_sixteen,
    paired,
    short,
    weighed,
)
from .equations import called, first_step, is_too_short, size


def error(k: Any, h: Any, scale: Any, tables: Any) -> Any:
    """The error of a step of `RK23` or `RK45`, where 1 is the most that it may have."""
    weights = tables[2]
    n = len(scale)
    found = np.empty(n)
    for i in range(n):
        found[i] = weighed(k, weights, len(weights), i) * h
    return size(found, scale)


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


def polynomials(
    f: Any, args: Any, before: Any, now: Any, y_before: Any, y: Any, state: Any, tables: Any
) -> Any:  # fmt: skip
    """Coefficients of values between steps of `RK23` and `RK45`."""
    table = tables[3]
    k = state[0]
    n = len(y)
    count, m = table.shape
    q = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            if n == 1:
                q[i, j] = weighed(table, k[:, i], count, j)
            else:
                q[i, j] = chained(k[:, i], table[:, j], count)
    return q


def polynomial(q: Any, before: Any, now: Any, by: Any, y_before: Any, place: Any) -> Any:
    """Values at one place between two steps, by coefficients that count so often."""
    n, m = q.shape
    h = now - before
    powers = np.empty(m)
    x = (place - before) / h
    part = x
    for j in range(m):
        powers[j] = part
        part = part * x
    out = np.empty(n)
    for i in range(n):
        total = inner(q[i], powers) if n == 1 else of_row(q[i], powers, i, n)
        out[i] = by * total + y_before[i]
    return out


def of_polynomial(q: Any, before: Any, now: Any, y_before: Any, place: Any) -> Any:
    """Values at one place between two steps, by `polynomials`."""
    return polynomial(q, before, now, now - before, y_before, place)


def polynomials_at(
    q: Any, before: Any, now: Any, by: Any, y_before: Any, places: Any, first: int, last: int,
    out: Any,
) -> None:  # fmt: skip
    """The same as `polynomial` at some places."""
    n, m = q.shape
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
                total = short(q[i], powers[:, p], m) if n == 1 else paired(q[i], powers[:, p], m)
            elif n == 1:
                total = weighed(powers, q[i], m, p)
            else:
                total = chained(q[i], powers[:, p], m)
            out[i, first + p] = by * total + y_before[i]


def of_polynomials(
    q: Any, before: Any, now: Any, y_before: Any, places: Any, first: int, last: int, out: Any
) -> None:  # fmt: skip
    """The same as `of_polynomial` at some places."""
    polynomials_at(q, before, now, now - before, y_before, places, first, last, out)


def further_slopes(
    f: Any, args: Any, before: Any, now: Any, y_before: Any, y: Any, state: Any, tables: Any
) -> Any:  # fmt: skip
    """The same as `polynomials` of `DOP853`, which calls the function thrice more."""
    table, a, c = tables[4], tables[5], tables[6]
    k = state[0]
    n = len(y)
    h = now - before
    begun = len(k) - len(a)
    for s in range(begun, len(k)):
        there = np.empty(n)
        for i in range(n):
            there[i] = y_before[i] + weighed(k, a[s - begun], s, i) * h
        found = called(f, before + c[s - begun] * h, there, args)
        for i in range(n):
            k[s, i] = found[i]
    state[3][0] += 3
    parts = np.empty((7, n))
    for i in range(n):
        delta = y[i] - y_before[i]
        parts[0, i] = delta
        parts[1, i] = h * k[0, i] - delta
        parts[2, i] = 2 * delta - h * (k[begun - 1, i] + k[0, i])
        for j in range(4):
            parts[3 + j, i] = h * of_sixteen(table[j], k[:, i], i, n)
    return parts


def _nested(parts: Any, i: int, x: Any) -> Any:
    total = np.float64(0.0)
    for j in range(7):
        total = (total + parts[6 - j, i]) * (x if j % 2 == 0 else 1 - x)
    return total


def of_seven(parts: Any, before: Any, now: Any, y_before: Any, place: Any) -> Any:
    """Values at one place between two steps, by `further_slopes`."""
    n = parts.shape[1]
    out = np.empty(n)
    x = (place - before) / (now - before)
    for i in range(n):
        out[i] = _nested(parts, i, x) + y_before[i]
    return out


def of_sevens(
    parts: Any, before: Any, now: Any, y_before: Any, places: Any, first: int, last: int, out: Any
) -> None:  # fmt: skip
    """The same at some places."""
    h = now - before
    for p in range(first, last):
        x = (places[p] - before) / h
        for i in range(parts.shape[1]):
            out[i, p] = _nested(parts, i, x) + y_before[i]


def begun(
    f: Any, args: Any, start: Any, end: Any, y: Any, sign: Any, limits: Any, tables: Any, told: Any
) -> Any:  # fmt: skip
    """What is remembered: slopes of a step and at its begin, its length, counts.

    `told`: the order of the estimate of errors, and how many rows there are for slopes.
    """
    rtol, atol, max_step, first = limits
    order, rows = told
    n = len(y)
    counts = np.zeros(3, int)
    slope = called(f, start, y, args)
    counts[0] = 1
    if first is None:
        h = first_step(f, args, start, end, y, slope, sign, order, rtol, atol, max_step)
        counts[0] = 2
    else:
        h = np.float64(first)
    if h != h:  # SciPy tries for ever
        raise NotImplementedError
    k = np.empty((rows, n))
    lengths = np.empty(1)
    lengths[0] = h
    return k, slope.copy(), lengths, counts


_LEAST, _ONE, _MOST = np.float64(0.2), np.float64(1.0), np.float64(10.0)
"""How a step may change, and one."""


def stepped(
    f: Any, args: Any, t: Any, end: Any, y: Any, sign: Any, limits: Any, tables: Any, told: Any,
    state: Any, error_of: Any,
) -> Any:  # fmt: skip
    """A step: whether there is one, and where it ends."""
    rtol, atol, max_step, _ = limits
    k, slope, lengths, counts = state
    c, a = tables[0], tables[1]
    n = len(y)
    stages = len(c)
    power = -1 / (told[0] + 1)
    scale = np.empty(n)
    h_abs = lengths[0]
    if h_abs > max_step:
        h_abs = np.float64(max_step)
    elif is_too_short(h_abs, t, sign):
        h_abs = 10 * abs(np.nextafter(t, sign * np.inf) - t)
    rejected = False
    while True:
        if is_too_short(h_abs, t, sign):
            return False, t, y
        now = anyones(t + h_abs * sign)
        if sign * (now - end) > 0:
            now = end
        h = anyones(now - t)
        h_abs = np.float64(abs(h))
        for i in range(n):
            k[0, i] = slope[i]
        there = y
        for s in range(1, stages + 1):
            there = np.empty(n)
            for i in range(n):
                there[i] = y[i] + weighed(k, a[s], s, i) * h
            moment = anyones(t + c[s] * h if s < stages else t + h)
            found = called(f, moment, there, args)
            for i in range(n):
                k[s, i] = found[i]
        counts[0] += stages
        for i in range(n):
            scale[i] = atol[i] + max(abs(y[i]), abs(there[i])) * rtol
        off = error_of(k, h, scale, tables)
        if off < 1:
            factor = _MOST
            if off != 0:
                factor = min(_MOST, 0.9 * off**power)
            if rejected:
                factor = min(_ONE, factor)
            lengths[0] = h_abs * factor
            for i in range(n):
                slope[i] = k[stages, i]
            return True, now, there
        h_abs *= max(_LEAST, 0.9 * off**power)
        rejected = True
