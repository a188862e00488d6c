"""Backward differentiation formulas for stiff differential equations, for the compiler.

Sources: L. F. Shampine and M. W. Reichelt, "The MATLAB ODE suite", SIAM Journal on Scientific
Computing 18 (1997) 1 (formulas of order 1 to 5 by differences, with a term that makes them
steady); E. Hairer and G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, V.1;
G. D. Byrne and A. C. Hindmarsh, ACM Transactions on Mathematical Software 1 (1975) 71. Operations
are in SciPy's order; products are those of `of_products`, factors those of `implicit`.

`d` holds differences as the sources do: in row k the k-th backward difference of the solution.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_products import anyones, chained, weighed
from .equations import called, first_step, is_finite, is_too_short, size
from .implicit import factored, first_jacobian, jacobian, solved

_EPS = float(np.finfo(float).eps)
_MOST_ORDER, _MOST_ROUNDS = 5, 4
_LEAST, _MOST = np.float64(0.2), np.float64(10.0)
_H, _ORDER, _EQUAL, _HAS_FACTORS = range(4)
"""What is remembered in numbers: the length of a step, the order, how many steps were alike ..."""


def _changes(order: int, factor: Any, out: Any) -> None:
    """A matrix by which differences change where steps do."""
    for j in range(order + 1):
        out[0, j] = 1.0
    for i in range(1, order + 1):
        out[i, 0] = 0.0
        for j in range(1, order + 1):
            out[i, j] = out[i - 1, j] * ((i - 1 - factor * j) / i)


def _rescaled(d: Any, order: int, factor: Any) -> None:
    """Change differences for a step that is longer by a factor."""
    n = d.shape[1]
    m = order + 1
    one = np.empty((m, m))
    other = np.empty((m, m))
    both = np.empty((m, m))
    _changes(order, factor, one)
    _changes(order, 1.0, other)
    for i in range(m):
        for j in range(m):
            both[i, j] = chained(one[i], other[:, j], m)
    found = np.empty((m, n))
    for i in range(m):
        for j in range(n):
            if n == 1:
                found[i, j] = weighed(both, d[:m, 0], m, i)
            else:
                found[i, j] = chained(both[:, i], d[:, j], m)
    for i in range(m):
        for j in range(n):
            d[i, j] = found[i, j]


def begun(
    f: Any, args: Any, start: Any, end: Any, y: Any, sign: Any, limits: Any, tables: Any, told: Any
) -> Any:  # fmt: skip
    """What is remembered: differences, numbers, the Jacobian, counts, factors and their order.

    `told`: what gives the Jacobian, or None, or one that is constant.
    """
    rtol, atol, max_step, first = limits
    n = len(y)
    counts = np.zeros(3, int)
    slope = called(f, start, y, args)
    counts[0] = 1
    if first is None:
        h = first_step(f, args, start, end, y, slope, sign, 1, rtol, atol, max_step)
        counts[0] = 2
    else:
        h = np.float64(first)
    if h != h:
        raise NotImplementedError
    d = np.zeros((_MOST_ORDER + 3, n))
    for i in range(n):
        d[0, i] = y[i]
        d[1, i] = slope[i] * h * sign
    a = np.zeros((n, n))
    factor = np.full(n, _EPS**0.5)
    first_jacobian(f, args, told, start, y, slope, atol, factor, a, counts)
    numbers = np.zeros(4)
    numbers[_H] = h
    numbers[_ORDER] = 1.0
    return d, numbers, a, counts, np.zeros((n, n)), np.zeros(n, int), factor


def stepped(
    f: Any, args: Any, t: Any, end: Any, y: Any, sign: Any, limits: Any, tables: Any, told: Any,
    state: Any, _: Any,
) -> Any:  # fmt: skip
    """A step: whether there is one, and where it ends."""
    rtol, atol, max_step, _ = limits
    jac, constant = told
    alphas, gammas, constants = tables
    d, numbers, a, counts, lu, swaps, factor = state
    n = len(y)
    order = int(numbers[_ORDER])
    h_abs = numbers[_H]
    if h_abs > max_step:
        _rescaled(d, order, max_step / h_abs)
        h_abs = np.float64(max_step)
        numbers[_EQUAL] = 0.0
    elif is_too_short(h_abs, t, sign):
        least = 10 * abs(np.nextafter(t, sign * np.inf) - t)
        _rescaled(d, order, least / h_abs)
        h_abs = np.float64(least)
        numbers[_EQUAL] = 0.0
    tol = max(10 * _EPS / rtol, min(0.03, rtol**0.5))
    is_current = constant is not None
    guess = np.empty(n)
    scale = np.empty(n)
    psi = np.empty(n)
    off = np.empty(n)
    work = np.empty(n)
    while True:
        if is_too_short(h_abs, t, sign):
            return False, t, y
        now = anyones(t + h_abs * sign)
        if sign * (now - end) > 0:
            now = end
            _rescaled(d, order, abs(now - t) / h_abs)
            numbers[_EQUAL] = 0.0
            numbers[_HAS_FACTORS] = 0.0
        h = anyones(now - t)
        h_abs = np.float64(abs(h))
        for i in range(n):
            total = d[0, i]
            for k in range(1, order + 1):
                total += d[k, i]
            guess[i] = total
            scale[i] = atol[i] + rtol * abs(total)
            psi[i] = weighed(d[1:], gammas[1:], order, i) / alphas[order]
        c = h / alphas[order]
        while True:
            if numbers[_HAS_FACTORS] == 0.0:
                for i in range(n):
                    for j in range(n):
                        lu[i, j] = (1.0 if i == j else 0.0) - c * a[i, j]
                factored(lu, swaps)
                counts[2] += 1
                numbers[_HAS_FACTORS] = 1.0
            there = guess.copy()
            for i in range(n):
                off[i] = 0.0
            before = np.float64(0.0)
            rounds = 0
            is_found = False
            while rounds < _MOST_ROUNDS:
                slope = called(f, now, there, args)
                counts[0] += 1
                rounds += 1
                if not is_finite(slope):
                    break
                for i in range(n):
                    work[i] = c * slope[i] - psi[i] - off[i]
                solved(lu, swaps, work)
                length = size(work, scale)
                rate = np.float64(0.0)
                if rounds > 1:
                    rate = length / before
                    if rate >= 1:
                        break
                    if rate ** (_MOST_ROUNDS - rounds + 1) / (1 - rate) * length > tol:
                        break
                there = there.copy()
                for i in range(n):
                    there[i] += work[i]
                    off[i] += work[i]
                if length == 0 or (rounds > 1 and rate / (1 - rate) * length < tol):
                    is_found = True
                    break
                before = length
            if is_found or is_current:
                break
            slope = guess
            if jac is None:
                slope = called(f, now, guess, args)
            jacobian(f, args, jac, now, guess, slope, atol, factor, a, counts)
            numbers[_HAS_FACTORS] = 0.0
            is_current = True
        if not is_found:
            h_abs *= 0.5
            _rescaled(d, order, 0.5)
            numbers[_EQUAL] = 0.0
            numbers[_HAS_FACTORS] = 0.0
            continue
        safety = 0.9 * (2 * _MOST_ROUNDS + 1) / (2 * _MOST_ROUNDS + rounds)
        for i in range(n):
            scale[i] = atol[i] + rtol * abs(there[i])
            work[i] = constants[order] * off[i]
        error = size(work, scale)
        if error <= 1:
            break
        part = max(_LEAST, safety * error ** (-1 / (order + 1)))
        h_abs *= part
        _rescaled(d, order, part)
        numbers[_EQUAL] = 0.0
    numbers[_EQUAL] += 1.0
    numbers[_H] = h_abs
    for i in range(n):
        d[order + 2, i] = off[i] - d[order + 1, i]
        d[order + 1, i] = off[i]
        for k in range(order, -1, -1):
            d[k, i] += d[k + 1, i]
    if numbers[_EQUAL] < order + 1:
        return True, now, there
    best = order
    most = np.float64(math.inf) if error == 0 else np.power(error, -1 / (order + 1))
    if order > 1:
        for i in range(n):
            work[i] = constants[order - 1] * d[order, i]
        error = size(work, scale)
        part = np.float64(math.inf) if error == 0 else np.power(error, -1 / order)
        if part >= most:
            most = part
            best = order - 1
    if order < _MOST_ORDER:
        for i in range(n):
            work[i] = constants[order + 1] * d[order + 2, i]
        error = size(work, scale)
        part = np.float64(math.inf) if error == 0 else np.power(error, -1 / (order + 2))
        if part > most:
            most = part
            best = order + 1
    part = min(_MOST, safety * most)
    numbers[_H] = h_abs * part
    numbers[_ORDER] = float(best)
    _rescaled(d, best, part)
    numbers[_EQUAL] = 0.0
    numbers[_HAS_FACTORS] = 0.0
    return True, now, there


def differences(
    f: Any, args: Any, before: Any, now: Any, y_before: Any, y: Any, state: Any, tables: Any
) -> Any:  # fmt: skip
    """What values between steps are made of: the order, the length of a step, and differences."""
    d, numbers = state[0], state[1]
    n = len(y)
    parts = np.empty((_MOST_ORDER + 3, n))
    for i in range(n):
        parts[0, i] = numbers[_ORDER]
        parts[1, i] = numbers[_H] if now > before else -numbers[_H]
        for k in range(_MOST_ORDER + 1):
            parts[2 + k, i] = d[k, i]
    return parts


def of_difference(parts: Any, before: Any, now: Any, y_before: Any, place: Any) -> Any:
    """Values at one place between two steps, by `differences`."""
    n = parts.shape[1]
    order = int(parts[0, 0])
    powers = np.empty(order)
    _powers(parts, now, place, powers)
    out = np.empty(n)
    for i in range(n):
        out[i] = weighed(parts[3:], powers, order, i) + parts[2, i]
    return out


def _powers(parts: Any, now: Any, place: Any, powers: Any) -> None:
    h = parts[1, 0]
    part = np.float64(1.0)
    for k in range(len(powers)):
        x = (place - (now - h * k)) / (h * (1 + k))
        part = x if k == 0 else part * x
        powers[k] = part


def of_differences(
    parts: Any, before: Any, now: Any, y_before: Any, places: Any, first: int, last: int, out: Any
) -> None:  # fmt: skip
    """The same at some places."""
    n = parts.shape[1]
    order = int(parts[0, 0])
    d = parts[3:]
    powers = np.empty((order, last - first))
    for p in range(last - first):
        _powers(parts, now, places[first + p], powers[:, p])
    for p in range(last - first):
        for i in range(n):
            if last - first == 1:
                total = weighed(d, powers[:, p], order, i)
            elif n == 1:
                total = weighed(powers, d[:, 0], order, p)
            else:
                total = chained(d[:, i], powers[:, p], order)
            out[i, first + p] = total + parts[2, i]
