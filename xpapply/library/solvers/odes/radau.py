"""Radau's method of order 5 for stiff differential equations, for the compiler.

Source: E. Hairer and G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5
(the method), IV.8 (how its equations are solved, and the length of steps). Operations are in
SciPy's order; products are those of `of_products`, factors those of `implicit`.

Its three stages are transformed such that one real system and one complex one are left. `z`: what
is added to the solution in each stage, a row each; `w`: the same, transformed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..of_products import added, anyones, chained, fma, length, paired, weighed
from .equations import called, first_step, is_finite, is_too_short, size
from .implicit import (
    complex_factored,
    complex_solved,
    factored,
    first_jacobian,
    jacobian,
    solved,
)
from .runge_kutta import polynomial, polynomials_at

_EPS = float(np.finfo(float).eps)
_MOST_ROUNDS = 6
_LEAST, _ONE, _MOST = np.float64(0.2), np.float64(1.0), np.float64(10.0)
_H, _OLD_H, _OLD_ERROR, _HAS_OLD, _HAS_FACTORS, _IS_CURRENT, _HAS_LAST, _BEFORE, _NOW = range(9)
"""What is remembered in numbers: of steps, and whether something is there."""


def begun(
    f: Any, args: Any, start: Any, end: Any, y: Any, sign: Any, limits: Any, tables: Any, told: Any
) -> Any:  # fmt: skip
    """What is remembered: slopes, numbers, the Jacobian, counts, factors, and the last step.

    `told`: what gives the Jacobian, or None, or one that is constant.
    """
    rtol, atol, max_step, first = limits
    n = len(y)
    counts = np.zeros(3, int)
    slope = called(f, start, y, args)
    counts[0] = 1
    if first is None:
        h = first_step(f, args, start, end, y, slope, sign, 3, rtol, atol, max_step)
        counts[0] = 2
    else:
        h = np.float64(first)
    if h != h:
        raise NotImplementedError
    a = np.zeros((n, n))
    factor = np.full(n, _EPS**0.5)
    first_jacobian(f, args, told, start, y, slope, atol, factor, a, counts)
    numbers = np.zeros(9)
    numbers[_H] = h
    numbers[_IS_CURRENT] = 1.0
    lu = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    swaps = np.zeros(n, int), np.zeros(n, int)
    last = np.zeros((n, 3)), np.zeros(n)
    return slope.copy(), numbers, a, counts, lu, swaps, last, factor


def _mixed(a: Any, b: Any, out: Any) -> None:
    """The product of a matrix of three rows with three rows."""
    n = b.shape[1]
    for i in range(3):
        for j in range(n):
            if n == 1:
                out[i, j] = paired(a[i], b[:, 0], 3)
            else:
                out[i, j] = chained(a[i], b[:, j], 3)


def _of_complex(f: Any, a: Any, j: int) -> Any:
    """A column of three rows times three numbers, as BLAS adds them that are complex."""
    n = f.shape[1]
    if n == 1:
        return added(f[2, j], a[2], added(f[1, j], a[1], f[0, j] * a[0]))
    if j < n // 4 * 4:
        return fma(f[1, j], a[1], f[0, j] * a[0]) + f[2, j] * a[2]
    return f[0, j] * a[0] + f[1, j] * a[1] + f[2, j] * a[2]


def _factor(h: Any, old_h: Any, has_old: bool, error: Any, old_error: Any) -> Any:
    """By how much a step may change, from errors of this one and the one before."""
    if error == 0:
        return np.float64(np.inf)
    part = _ONE
    if has_old:
        part = h / old_h * (old_error / error) ** 0.25
    return min(_ONE, part) * error**-0.25


def stepped(
    f: Any, args: Any, t: Any, end: Any, y: Any, sign: Any, limits: Any, tables: Any, told: Any,
    state: Any, _: Any,
) -> Any:  # fmt: skip
    """A step: whether there is one, and where it ends."""
    rtol, atol, max_step, _ = limits
    jac, constant = told
    inner, outer, errors, values, places, numbers_of = tables
    slope, numbers, a, counts, (lu, real, imaginary), (swaps, swapped), last, factor = state
    q, y_last = last
    n = len(y)
    h_abs = numbers[_H]
    has_old = bool(numbers[_HAS_OLD])
    if h_abs > max_step:
        h_abs = np.float64(max_step)
        has_old = False
    elif is_too_short(h_abs, t, sign):
        h_abs = 10 * abs(np.nextafter(t, sign * np.inf) - t)
        has_old = False
    tol = max(10 * _EPS / rtol, min(0.03, rtol**0.5))
    z = np.zeros((3, n))
    w = np.zeros((3, n))
    begins = np.zeros((n, 3))
    at = np.zeros(3)
    stages = np.zeros((3, n))
    change = np.zeros((3, n))
    flat = np.zeros(3 * n)
    scale = np.empty(n)
    work = np.empty(n)
    other = np.empty(n)
    off = np.empty(n)
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
            scale[i] = atol[i] + abs(y[i]) * rtol
        if numbers[_HAS_LAST] != 0.0:
            for k in range(3):
                at[k] = t + h * places[k]
            polynomials_at(
                q, numbers[_BEFORE], numbers[_NOW], 1.0, y_last, at, 0, 3, begins
            )  # fmt: skip
        rounds = 0
        rate = np.float64(0.0)
        while True:
            if numbers[_HAS_FACTORS] == 0.0:
                part = numbers_of[0] / h
                first, second = numbers_of[1] / h, numbers_of[2] / h
                for i in range(n):
                    for j in range(n):
                        lu[i, j] = (part if i == j else 0.0) - a[i, j]
                        real[i, j] = (first if i == j else 0.0) - a[i, j]
                        imaginary[i, j] = second if i == j else 0.0
                factored(lu, swaps)
                complex_factored(real, imaginary, swapped)
                counts[2] += 2
                numbers[_HAS_FACTORS] = 1.0
            for k in range(3):
                for i in range(n):
                    z[k, i] = begins[i, k] - y[i] if numbers[_HAS_LAST] != 0.0 else 0.0
            _mixed(inner, z, w)
            is_found = False
            before = np.float64(0.0)
            rounds = 0
            while rounds < _MOST_ROUNDS:
                rounds += 1
                for k in range(3):
                    there = np.empty(n)
                    for i in range(n):
                        there[i] = y[i] + z[k, i]
                    found = called(f, t + h * places[k], there, args)
                    for i in range(n):
                        stages[k, i] = found[i]
                counts[0] += 3
                if not is_finite(stages[0]) or not is_finite(stages[1]) or not is_finite(stages[2]):
                    break
                part = numbers_of[0] / h
                first, second = numbers_of[1] / h, numbers_of[2] / h
                for i in range(n):
                    work[i] = weighed(stages, inner[0], 3, i) - part * w[0, i]
                solved(lu, swaps, work)
                for i in range(n):
                    change[0, i] = work[i]
                    along = fma(first, w[1, i], -(second * w[2, i]))
                    across = fma(first, w[2, i], second * w[1, i])
                    work[i] = _of_complex(stages, inner[1], i) - along
                    other[i] = _of_complex(stages, inner[2], i) - across
                complex_solved(real, imaginary, swapped, work, other)
                for i in range(n):
                    change[1, i] = work[i]
                    change[2, i] = other[i]
                for k in range(3):
                    for i in range(n):
                        flat[k * n + i] = change[k, i] / scale[i]
                far = length(flat) / (3 * n) ** 0.5
                if rounds > 1:
                    rate = far / before
                    if rate >= 1:
                        break
                    if rate ** (_MOST_ROUNDS - rounds + 1) / (1 - rate) * far > tol:
                        break
                for k in range(3):
                    for i in range(n):
                        w[k, i] += change[k, i]
                _mixed(outer, w, z)
                if far == 0 or (rounds > 1 and rate / (1 - rate) * far < tol):
                    is_found = True
                    break
                before = far
            if is_found or numbers[_IS_CURRENT] != 0.0:
                break
            jacobian(f, args, jac, t, y, slope, atol, factor, a, counts)
            numbers[_IS_CURRENT] = 1.0
            numbers[_HAS_FACTORS] = 0.0
        if not is_found:
            h_abs *= 0.5
            numbers[_HAS_FACTORS] = 0.0
            continue
        there = np.empty(n)
        for i in range(n):
            there[i] = y[i] + z[2, i]
            other[i] = weighed(z, errors, 3, i) / h
            off[i] = slope[i] + other[i]
            scale[i] = atol[i] + max(abs(y[i]), abs(there[i])) * rtol
        solved(lu, swaps, off)
        error = size(off, scale)
        safety = 0.9 * (2 * _MOST_ROUNDS + 1) / (2 * _MOST_ROUNDS + rounds)
        if rejected and error > 1:
            point = np.empty(n)
            for i in range(n):
                point[i] = y[i] + off[i]
            found = called(f, t, point, args)
            counts[0] += 1
            for i in range(n):
                off[i] = found[i] + other[i]
            solved(lu, swaps, off)
            error = size(off, scale)
        part = _factor(h_abs, numbers[_OLD_H], has_old, error, numbers[_OLD_ERROR])
        if error <= 1:
            break
        h_abs *= max(_LEAST, safety * part)
        numbers[_HAS_FACTORS] = 0.0
        rejected = True
    is_renewed = constant is None and rounds > 2 and rate > 1e-3
    part = min(_MOST, safety * part)
    if not is_renewed and part < 1.2:
        part = _ONE
    else:
        numbers[_HAS_FACTORS] = 0.0
    found = called(f, now, there, args)
    counts[0] += 1
    for i in range(n):
        slope[i] = found[i]
        y_last[i] = y[i]
    if is_renewed:
        jacobian(f, args, jac, now, there, slope, atol, factor, a, counts)
        numbers[_IS_CURRENT] = 1.0
    elif constant is None:
        numbers[_IS_CURRENT] = 0.0
    numbers[_OLD_H] = numbers[_H]
    numbers[_OLD_ERROR] = error
    numbers[_HAS_OLD] = 1.0
    numbers[_H] = h_abs * part
    numbers[_HAS_LAST] = 1.0
    numbers[_BEFORE] = t
    numbers[_NOW] = now
    for i in range(n):
        for j in range(3):
            if n == 1:
                q[i, j] = weighed(values, z[:, i], 3, j)
            else:
                q[i, j] = chained(z[:, i], values[:, j], 3)
    return True, now, there


def collocated(
    f: Any, args: Any, before: Any, now: Any, y_before: Any, y: Any, state: Any, tables: Any
) -> Any:  # fmt: skip
    """What values between steps are made of."""
    return state[6][0].copy()


def of_one(q: Any, before: Any, now: Any, y_before: Any, place: Any) -> Any:
    """Values at one place between two steps."""
    return polynomial(q, before, now, 1.0, y_before, place)


def of_some(
    q: Any, before: Any, now: Any, y_before: Any, places: Any, first: int, last: int, out: Any
) -> None:  # fmt: skip
    """The same at some places."""
    polynomials_at(q, before, now, 1.0, y_before, places, first, last, out)
