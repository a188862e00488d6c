"""What implicit methods for differential equations need: Jacobians and factors, for the compiler.

Sources: D. E. Salane, "Adaptive routines for forming Jacobians numerically", Sandia National
Laboratories, SAND86-1319, 1986; L. F. Shampine and M. W. Reichelt, "The MATLAB ODE suite", SIAM
Journal on Scientific Computing 18 (1997) 1 (differences whose steps are remembered); G. H. Golub
and C. F. Van Loan, Matrix Computations, 4th edition, 3.4 (factors with pivots). Of up to five rows
real factors have LAPACK's bits, of more they are equal to rounding.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import of_products
from ..of_products import added, short
from .equations import called, lent

_EPS = float(np.finfo(float).eps)
_REJECT, _SMALL, _BIG = _EPS**0.875, _EPS**0.75, _EPS**0.25
_LEAST, _GROWS, _FALLS = 1000.0 * _EPS, 10.0, 0.1
"""Bounds of how much a function changes, and the least factor of a step, and how that changes."""


def rows(x: Any) -> Any:
    """A matrix as an array of float64, which may be the user's."""
    return np.asarray(x, float)


def matrix(x: Any, n: int) -> Any:
    """A Jacobian that a user's function gives, or that is given."""
    found = rows(x)
    if found.shape != (n, n):
        raise ValueError
    return found


def _column(
    f: Any, args: Any, t: Any, y: Any, slope: Any, j: int, h: Any, out: Any
) -> tuple[float, float]:
    """What slopes change by where one of `y` does, in `out`; the largest change, and of what."""
    n = len(y)
    there = y.copy()
    there[j] = y[j] + h
    found = called(f, t, there, args)
    most = -1.0
    at = 0
    for i in range(n):
        out[i] = found[i] - slope[i]
        if out[i] - out[i] != 0.0:
            raise NotImplementedError
        if abs(float(out[i])) > most:
            most = abs(float(out[i]))
            at = i
    return most, max(abs(float(slope[at])), abs(float(found[at])))


def differences(
    f: Any, args: Any, t: Any, y: Any, slope: Any, threshold: Any, factor: Any, out: Any
) -> None:
    """The Jacobian, in `out`; `factor`: of steps, which are changed for the next time."""
    n = len(y)
    one = np.empty(n)
    other = np.empty(n)
    for j in range(n):
        sign = 1.0 if slope[j] >= 0.0 else -1.0
        scale = sign * max(float(threshold[j]), abs(float(y[j])))
        here = float(y[j])
        h = (here + float(factor[j]) * scale) - here
        if scale == 0.0 or scale - scale != 0.0:
            raise NotImplementedError
        while h == 0.0:
            factor[j] *= 10.0
            h = (here + float(factor[j]) * scale) - here
        most, size = _column(f, args, t, y, slope, j, h, one)
        if most < _REJECT * size:
            wider = _GROWS * float(factor[j])
            further = (here + wider * scale) - here
            found, found_size = _column(f, args, t, y, slope, j, further, other)
            if most * found_size < found * size:
                factor[j] = wider
                h = further
                most = found
                size = found_size
                for i in range(n):
                    one[i] = other[i]
        for i in range(n):
            out[i, j] = one[i] / h
        if most < _SMALL * size:
            factor[j] *= _GROWS
        if most > _BIG * size:
            factor[j] *= _FALLS
        factor[j] = max(float(factor[j]), _LEAST)


def jacobian(
    f: Any, args: Any, jac: Any, t: Any, y: Any, slope: Any, threshold: Any, factor: Any,
    out: Any, counts: Any,
) -> None:  # fmt: skip
    """The Jacobian, of the user's function or by `differences`, in `out`; it is counted."""
    n = len(y)
    counts[1] += 1
    if jac is None:
        differences(f, args, t, y, slope, threshold, factor, out)
        return
    found = matrix(jac(t, lent(y), *args), n)
    for i in range(n):
        for j in range(n):
            out[i, j] = found[i, j]


def first_jacobian(
    f: Any, args: Any, told: Any, t: Any, y: Any, slope: Any, threshold: Any, factor: Any,
    out: Any, counts: Any,
) -> None:  # fmt: skip
    """The same where it begins; `told`: what gives it, or None, or one that is constant."""
    jac, constant = told
    n = len(y)
    if constant is None:
        if jac is None:
            several(f(t, lent(y), *args))
        jacobian(f, args, jac, t, y, slope, threshold, factor, out, counts)
        return
    given = matrix(constant, n)
    for i in range(n):
        for j in range(n):
            out[i, j] = given[i, j]


def several(x: Any) -> None:
    """Raise for a number: SciPy's differences want an array, or a list."""
    if np.ndim(x) == 0:
        raise NotImplementedError


def factored(a: Any, order: Any) -> None:
    """Factors of a matrix in its place, and which rows are swapped: LAPACK's ``getrf``."""
    n = len(a)
    for i in range(n):
        for j in range(n):
            if a[i, j] - a[i, j] != 0.0:
                raise ValueError
    for j in range(n):
        for k in range(j):
            p = order[k]
            if p != k:
                part = float(a[k, j])
                a[k, j] = a[p, j]
                a[p, j] = part
        own = a[:, j]
        for i in range(1, n):
            count = min(i, j)
            if count > 0:
                a[i, j] = float(a[i, j]) - float(short(a[i], own, count))
        most = -1.0
        at = j
        for i in range(j, n):
            if abs(float(a[i, j])) > most:
                most = abs(float(a[i, j]))
                at = i
        order[j] = at
        if most < 1e-300:
            raise NotImplementedError  # SciPy warns of what is singular
        if at != j:
            for k in range(j + 1):
                part = float(a[j, k])
                a[j, k] = a[at, k]
                a[at, k] = part
        part = 1.0 / float(a[j, j])
        for i in range(j + 1, n):
            a[i, j] *= part


def solved(a: Any, order: Any, x: Any) -> None:
    """Solve by `factored`, with a right side that is written over: ``getrs``."""
    n = len(x)
    for k in range(n):
        if x[k] - x[k] != 0.0:
            raise ValueError
    for k in range(n):
        p = order[k]
        if p != k:
            part = float(x[k])
            x[k] = x[p]
            x[p] = part
    for i in range(n):
        for k in range(i + 1, n):
            x[k] = added(-x[i], a[k, i], x[k])
    for i in range(n - 1, -1, -1):
        x[i] = x[i] / a[i, i]
        for k in range(i):
            x[k] = added(-x[i], a[k, i], x[k])


def _plain(a: Any, b: Any, c: Any, d: Any) -> tuple[float, float]:
    """The product of ``a + i b`` and ``c + i d``."""
    return float(a) * float(c) - float(b) * float(d), float(a) * float(d) + float(b) * float(c)


def _inverse(a: float, b: float) -> tuple[float, float]:
    """One divided by ``a + i b``."""
    if abs(a) >= abs(b):
        ratio = b / a
        part = 1.0 / (a * (1.0 + ratio * ratio))
        return part, -ratio * part
    ratio = a / b
    part = 1.0 / (b * (1.0 + ratio * ratio))
    return ratio * part, -part


def complex_factored(a: Any, b: Any, order: Any) -> None:
    """The same as `factored` of ``a + i b``; of up to three rows they have LAPACK's bits."""
    n = len(a)
    for j in range(n):
        for k in range(j):
            p = order[k]
            if p != k:
                for x in (a, b):
                    part = float(x[k, j])
                    x[k, j] = x[p, j]
                    x[p, j] = part
        for i in range(1, n):
            real = np.float64(0.0)
            other = np.float64(0.0)
            for k in range(min(i, j)):
                real += added(a[i, k], a[k, j], -(b[i, k] * b[k, j]))
                if i < j:
                    other += added(b[i, k], a[k, j], a[i, k] * b[k, j])
                else:
                    other += added(a[i, k], b[k, j], b[i, k] * a[k, j])
            a[i, j] -= real
            b[i, j] -= other
        most = -1.0
        at = j
        for i in range(j, n):
            part = abs(float(a[i, j])) + abs(float(b[i, j]))
            if part > most:
                most = part
                at = i
        order[j] = at
        if most < 1e-300:
            raise NotImplementedError
        if at != j:
            for k in range(j + 1):
                for x in (a, b):
                    part = float(x[j, k])
                    x[j, k] = x[at, k]
                    x[at, k] = part
        first, second = _inverse(float(a[j, j]), float(b[j, j]))
        for i in range(j + 1, n):
            a[i, j], b[i, j] = _plain(first, second, a[i, j], b[i, j])


def complex_solved(a: Any, b: Any, order: Any, x: Any, y: Any) -> None:
    """Solve by `complex_factored`, with a right side ``x + i y`` that is written over."""
    n = len(x)
    for k in range(n):
        if x[k] - x[k] != 0.0 or y[k] - y[k] != 0.0:
            raise ValueError
    for k in range(n):
        p = order[k]
        if p != k:
            part = float(x[k])
            x[k] = x[p]
            x[p] = part
            part = float(y[k])
            y[k] = y[p]
            y[p] = part
    for i in range(n):
        for k in range(i + 1, n):
            x[k] += added(-x[i], a[k, i], y[i] * b[k, i])
            y[k] += added(-x[i], b[k, i], -(y[i] * a[k, i]))
    for i in range(n - 1, -1, -1):
        first, second = _inverse(float(a[i, i]), float(b[i, i]))
        x[i], y[i] = _plain(first, second, x[i], y[i])
        for k in range(i):
            x[k] += added(-x[i], a[k, i], y[i] * b[k, i])
            y[k] += added(-x[i], b[k, i], -(y[i] * a[k, i]))


@functools.cache
def are_known() -> bool:
    """Whether solutions, complex ones too, have the bits of SciPy's BLAS.

    With one thread it solves complex equations in another way.
    """
    from scipy import linalg

    rng = np.random.default_rng(0)
    for n in (1, 2, 3) * 7:
        a, b, c, d = rng.normal(size=(4, n, n))
        order, x, y = np.zeros(n, int), c[0].copy(), d[0].copy()
        want = linalg.lu_solve(linalg.lu_factor(a + 1j * b), x + 1j * y)
        complex_factored(a, b, order)
        complex_solved(a, b, order, x, y)
        if not np.array_equal(x + 1j * y, want):
            return False
    return of_products.are_known()
