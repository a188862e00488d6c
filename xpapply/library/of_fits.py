"""Least squares by Levenberg and Marquardt, as MINPACK has them, for the compiler.

Source: J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", in Numerical
Analysis, Lecture Notes in Mathematics 630, Springer 1978; J. J. Moré, B. S. Garbow and
K. E. Hillstrom, User Guide for MINPACK-1, Argonne National Laboratory, ANL-80-74, 1980. Order of
operations and constants are those of that guide, so results have the bits of SciPy's.

A matrix of m rows and n columns is held by its columns: ``a[j, i]`` is in row i of column j.

ValueError and RuntimeError are raised where SciPy raises them; NotImplementedError where it warns,
and where it would go on with what is not finite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .solvers.lengths import factored, norm

_EPS = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)


def change(there: Any, values: Any, d: float, to: Any) -> None:
    """What values change by, for each of a step."""
    if len(there) != len(values):
        raise NotImplementedError
    to[:] = (there - values) / d


def change_each(there: Any, values: Any, d: float, to: Any) -> None:
    """`change` for a device."""
    for i in range(len(values)):
        to[i] = (float(there[i]) - float(values[i])) / d


def _damped(r: Any, order: Any, damping: Any, qtb: Any, x: Any, diagonal: Any, work: Any) -> None:
    """Solve R x = Q'b and D x = 0 in the sense of least squares, by Givens' rotations."""
    n = len(order)
    for j in range(n):
        for i in range(j, n):
            r[j, i] = r[i, j]
        x[j] = r[j, j]
        work[j] = qtb[j]
    for j in range(n):
        if float(damping[order[j]]) != 0.0:
            for k in range(j, n):
                diagonal[k] = 0.0
            diagonal[j] = float(damping[order[j]])
            last = 0.0
            for k in range(j, n):
                if float(diagonal[k]) == 0.0:
                    continue
                if abs(float(r[k, k])) < abs(float(diagonal[k])):
                    cotangent = float(r[k, k]) / float(diagonal[k])
                    sine = 0.5 / math.sqrt(0.25 + 0.25 * (cotangent * cotangent))
                    cosine = sine * cotangent
                else:
                    tangent = float(diagonal[k]) / float(r[k, k])
                    cosine = 0.5 / math.sqrt(0.25 + 0.25 * (tangent * tangent))
                    sine = cosine * tangent
                r[k, k] = cosine * float(r[k, k]) + sine * float(diagonal[k])
                part = cosine * float(work[k]) + sine * last
                last = -sine * float(work[k]) + cosine * last
                work[k] = part
                for i in range(k + 1, n):
                    part = cosine * float(r[k, i]) + sine * float(diagonal[i])
                    diagonal[i] = -sine * float(r[k, i]) + cosine * float(diagonal[i])
                    r[k, i] = part
        diagonal[j] = r[j, j]
        r[j, j] = x[j]
    rank = n
    for j in range(n):
        if float(diagonal[j]) == 0.0 and rank == n:
            rank = j
        if rank < n:
            work[j] = 0.0
    for k in range(rank - 1, -1, -1):
        total = 0.0
        for i in range(k + 1, rank):
            total += float(r[k, i]) * float(work[i])
        work[k] = (float(work[k]) - total) / float(diagonal[k])
    for j in range(n):
        x[order[j]] = work[j]


def _parameter(r: Any, order: Any, scale: Any, qtb: Any, delta: float, par: float, x: Any) -> float:
    """The parameter of Levenberg and Marquardt for a step of about a length; the step in `x`."""
    n = len(order)
    work = np.zeros(n)
    scaled = np.zeros(n)
    diagonal = np.zeros(n)
    rank = n
    for j in range(n):
        work[j] = qtb[j]
        if float(r[j, j]) == 0.0 and rank == n:
            rank = j
        if rank < n:
            work[j] = 0.0
    for k in range(rank - 1, -1, -1):
        work[k] /= float(r[k, k])
        part = float(work[k])
        for i in range(k):
            work[i] -= float(r[k, i]) * part
    for j in range(n):
        x[order[j]] = work[j]
    for j in range(n):
        scaled[j] = float(scale[j]) * float(x[j])
    length = norm(scaled, 0)
    over = length - delta
    if over <= 0.1 * delta:
        return 0.0
    lower = 0.0
    if rank >= n:
        for j in range(n):
            work[j] = float(scale[order[j]]) * (float(scaled[order[j]]) / length)
        for j in range(n):
            total = 0.0
            for i in range(j):
                total += float(r[j, i]) * float(work[i])
            work[j] = (float(work[j]) - total) / float(r[j, j])
        part = norm(work, 0)
        lower = over / delta / part / part
    for j in range(n):
        total = 0.0
        for i in range(j + 1):
            total += float(r[j, i]) * float(qtb[i])
        work[j] = total / float(scale[order[j]])
    slope = norm(work, 0)
    upper = slope / delta
    if upper == 0.0:
        upper = _TINY / min(delta, 0.1)
    par = min(max(par, lower), upper)
    if par == 0.0:
        par = slope / length
    for k in range(10):
        if par == 0.0:
            par = max(_TINY, 0.001 * upper)
        part = math.sqrt(par)
        for j in range(n):
            scaled[j] = part * float(scale[j])
        _damped(r, order, scaled, qtb, x, diagonal, work)
        for j in range(n):
            scaled[j] = float(scale[j]) * float(x[j])
        length = norm(scaled, 0)
        before = over
        over = length - delta
        if abs(over) <= 0.1 * delta or (lower == 0.0 and over <= before and before < 0.0):
            return par
        if k == 9:
            return par
        for j in range(n):
            work[j] = float(scale[order[j]]) * (float(scaled[order[j]]) / length)
        for j in range(n):
            work[j] /= float(diagonal[j])
            part = float(work[j])
            for i in range(j + 1, n):
                work[i] -= float(r[j, i]) * part
        part = norm(work, 0)
        change = over / delta / part / part
        if over > 0.0:
            lower = max(lower, par)
        if over < 0.0:
            upper = min(upper, par)
        par = max(lower, par + change)
    return par


def differences(f: Any, x: Any, values: Any, eps: float, a: Any) -> int:
    """Put what `f` changes by near `x` into `a`, as MINPACK does; how often `f` was called."""
    n = len(x)
    h = math.sqrt(max(eps, _EPS))
    for j in range(n):
        here = float(x[j])
        d = h * abs(here)
        if d == 0.0:
            d = h
        x[j] = here + d
        there = f(x)
        x[j] = here
        change(there, values, d, a[j])
    return n


def weighted(found: Any, weights: Any, a: Any) -> int:
    """Put a Jacobian that the user's function gave, a row for each value, into `a`."""
    n = len(a)
    m = len(a[0])
    if found.shape != (m, n):
        raise NotImplementedError
    for i in range(m):
        for j in range(n):
            part = float(found[i, j])
            if weights is not None:
                part *= 1.0 / float(weights[i])
            a[j, i] = part
    return 0


def levenberg_marquardt(
    f: Any, columns: Any, x: Any, values: Any, a: Any, begun: bool, most: int, limits: Any
) -> tuple[int, int, Any, Any]:
    """MINPACK's lmdif, or lmder. `x` is moved to where the sum of squares of ``f(x)`` is least.

    Parameters
    ----------
    columns : callable
        ``columns(x, values, a)`` puts the Jacobian into `a`, and says how often it called `f`.
    values : ndarray of float, shape (m,)
        ``f(x)``, which is written over by the new one.
    a : ndarray of float, shape (n, m)
        Where Jacobians go; if `begun` the first one stands there.
    most : int
        How often `f` may be called.
    limits : tuple
        Tolerances, and the bound of the first step.

    Returns
    -------
    info, nfev : int
        Why it ended, as MINPACK says it; how often `f` was called.
    r : ndarray of float, shape (n, m)
        Columns of the matrix R of the last Jacobian.
    order : ndarray of int, shape (n,)
        Which parameters its columns are of.
    """
    ftol, xtol, gtol, factor = limits
    n = len(x)
    m = len(values)
    if ftol < 0.0 or xtol < 0.0 or gtol < 0.0 or most <= 0 or factor <= 0.0 or n > m:
        raise NotImplementedError
    calls = 1
    length = norm(values, 0)
    if length - length != 0.0:
        raise NotImplementedError
    order = np.zeros(n, int)
    diagonal = np.zeros(n)
    norms = np.zeros(n)
    scale = np.zeros(n)
    qtf = np.zeros(n)
    step = np.zeros(n)
    moved = np.zeros(n)
    scaled = np.zeros(n)
    work = np.zeros(m)
    par = 0.0
    delta = 0.0
    size = 0.0
    is_first = True
    while True:
        if not begun:
            calls += columns(x, values, a)
        begun = False
        for i in range(m):
            work[i] = values[i]
        factored(a, order, diagonal, norms, work)
        if is_first:
            for j in range(n):
                scale[j] = float(norms[j]) if float(norms[j]) != 0.0 else 1.0
                scaled[j] = float(scale[j]) * float(x[j])
            size = norm(scaled, 0)
            delta = factor * size
            if delta == 0.0:
                delta = factor
        for j in range(n):
            a[j, j] = diagonal[j]
            qtf[j] = work[j]
        slope = 0.0
        if length != 0.0:
            for j in range(n):
                if float(norms[order[j]]) != 0.0:
                    total = 0.0
                    for i in range(j + 1):
                        total += float(a[j, i]) * (float(qtf[i]) / length)
                    slope = max(slope, abs(total / float(norms[order[j]])))
        if slope <= gtol:
            return 4, calls, a, order
        for j in range(n):
            scale[j] = max(float(scale[j]), float(norms[j]))
        ratio = 0.0
        while ratio < 0.0001:
            par = _parameter(a, order, scale, qtf, delta, par, step)
            for j in range(n):
                step[j] = -step[j]
                moved[j] = float(x[j]) + float(step[j])
                scaled[j] = float(scale[j]) * float(step[j])
            walked = norm(scaled, 0)
            if is_first:
                delta = min(delta, walked)
            there = f(moved)
            calls += 1
            after = norm(there, 0)
            if after - after != 0.0:
                raise NotImplementedError
            actual = -1.0
            if 0.1 * after < length:
                part = after / length
                actual = 1.0 - part * part
            for j in range(n):
                scaled[j] = 0.0
                part = float(step[order[j]])
                for i in range(j + 1):
                    scaled[i] += float(a[j, i]) * part
            first = norm(scaled, 0) / length
            second = math.sqrt(par) * walked / length
            predicted = first * first + second * second / 0.5
            slanted = -(first * first + second * second)
            ratio = actual / predicted if predicted != 0.0 else 0.0
            if ratio <= 0.25:
                part = 0.5 if actual >= 0.0 else 0.5 * slanted / (slanted + 0.5 * actual)
                if 0.1 * after >= length or part < 0.1:
                    part = 0.1
                delta = part * min(delta, walked / 0.1)
                par /= part
            elif par == 0.0 or ratio >= 0.75:
                delta = walked / 0.5
                par *= 0.5
            if ratio >= 0.0001:
                for j in range(n):
                    x[j] = moved[j]
                    scaled[j] = float(scale[j]) * float(x[j])
                for i in range(m):
                    values[i] = there[i]
                size = norm(scaled, 0)
                length = after
                is_first = False
            info = 0
            if abs(actual) <= ftol and predicted <= ftol and 0.5 * ratio <= 1.0:
                info = 1
            if delta <= xtol * size:
                info += 2
            if info != 0:
                return info, calls, a, order
            if calls >= most:
                info = 5
            if abs(actual) <= _EPS and predicted <= _EPS and 0.5 * ratio <= 1.0:
                info = 6
            if delta <= _EPS * size:
                info = 7
            if slope <= _EPS:
                info = 8
            if info != 0:
                return info, calls, a, order


def _allowed(most: int, n: int, jac: Any) -> int:
    """The most calls of a function of so many parameters; 0: SciPy's default."""
    if most != 0:
        return most
    return 200 * (n + 1) if jac is None else 100 * (n + 1)


def _is_full(r: Any) -> bool:
    """Whether the inverse of R is certainly finite."""
    return all(1e-150 < abs(float(r[j, j])) < 1e150 for j in range(len(r)))


def _covariance(r: Any, order: Any) -> Any:
    """The inverse of R'R, by the inverse of R."""
    n = len(order)
    inverse = np.zeros((n, n))
    for j in range(n):
        inverse[order[j], j] = 1.0 / float(r[j, j])
        for i in range(j - 1, -1, -1):
            total = 0.0
            for k in range(i + 1, j + 1):
                total += float(r[k, i]) * float(inverse[order[k], j])
            inverse[order[i], j] = -total / float(r[i, i])
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += float(inverse[i, k]) * float(inverse[j, k])
            found[i, j] = total
    return found


def parts(x: Any, count: Any) -> Any:
    """The elements of an array, as many as something has."""
    return tuple(x[: len(count)])


def _check_finite(x: Any) -> None:
    if not np.isfinite(x).all():
        raise ValueError


def _fitted(
    f: Any, x: Any, axes: Any, y: Any, start: Any, count: Any, weights: Any, absolute: bool,
    finite: bool, jac: Any, whole: bool, most: int, eps: float, limits: Any,
) -> Any:  # fmt: skip
    """The best parameters of a model, its residuals, and R with the order of its columns.

    `axes`: something if `x` is an array of one axis, and if it is one of two; else None.
    `whole`: whether it starts from integers. `limits`: those of `levenberg_marquardt`.
    """

    def residuals(p: Any) -> Any:
        found = f(x, *parts(p, count)) - y
        return found if weights is None else 1.0 / weights * found

    def columns(p: Any, at: Any, a: Any) -> int:
        if jac is None:
            return differences(residuals, p, at, eps, a)
        return weighted(jac(x, *parts(p, count)), weights, a)

    check(x, axes, y, finite)
    first = parts(start, count)
    values = f(x, *first) - y
    values = values.copy() if weights is None else 1.0 / weights * values
    p = np.zeros(len(count))
    for k in range(len(count)):
        p[k] = float(start[k])
    if len(start) != len(count) or (len(y) != 1 and len(p) > len(y)):
        raise NotImplementedError
    a = np.zeros((len(p), len(values)))
    begun = False
    if whole and jac is not None:  # which SciPy asks once, and with these
        weighted(jac(x, *first), weights, a)
        begun = True
    most = _allowed(most, len(p), jac)
    found = levenberg_marquardt(residuals, columns, p, values, a, begun, most, limits)
    info, _, r, order = found
    if info < 1 or info > 4:
        raise RuntimeError
    if not _is_full(r) or (len(values) <= len(p) and not absolute):
        raise NotImplementedError
    return p, values, r, order


def check(x: Any, axes: Any, y: Any, finite: bool) -> None:
    """Raise what ``curve_fit`` raises for data, of `axes` as `_fitted` has them."""
    if finite:
        _check_finite(y)
        if axes[0] is not None:
            _check_finite(x)
        if axes[1] is not None:
            for row in x:
                _check_finite(row)
    if len(y) == 0:
        raise ValueError


def best_fit(*given: Any) -> Any:
    """``scipy.optimize.curve_fit(f, x, y, start)`` of which the covariance is not read."""
    p, _, _, _ = _fitted(*given)
    return p, None


def curve_fit(*given: Any) -> Any:
    """``scipy.optimize.curve_fit(f, x, y, start)``."""
    p, values, r, order = _fitted(*given)
    found = _covariance(r, order)
    if not given[7]:
        found *= np.sum(values**2) / (len(values) - len(p))
    return p, found


def least_squares(
    f: Any, start: Any, jac: Any, args: Any, most: int, eps: float, limits: Any
) -> tuple[Any, int]:
    """``scipy.optimize.leastsq(f, start, args, jac)``."""

    def residuals(p: Any) -> Any:
        return f(p, *args)

    def columns(p: Any, at: Any, a: Any) -> int:
        if jac is None:
            return differences(residuals, p, at, eps, a)
        return weighted(jac(p, *args), None, a)

    p = np.zeros(len(start))
    for k in range(len(start)):
        p[k] = float(start[k])
    values = residuals(p)
    if values.dtype != np.float64:
        raise NotImplementedError
    values = values.copy()
    if len(p) > len(values):
        raise TypeError
    a = np.zeros((len(p), len(values)))
    most = _allowed(most, len(p), jac)
    found = levenberg_marquardt(residuals, columns, p, values, a, False, most, limits)
    info = found[0]
    if info < 1 or info > 4:
        raise NotImplementedError
    return p, info
