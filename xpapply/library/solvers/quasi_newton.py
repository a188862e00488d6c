"""Minima of functions of several numbers by their slopes, for the compiler.

Sources: J. Nocedal and S. J. Wright, Numerical Optimization, Springer 2006: (6.17), the update of
Broyden, Fletcher, Goldfarb and Shanno; (5.45), the directions of Polak and Ribière; algorithms 3.5
and 3.6, a search along a line, with cubics and quadratics as in section 3.5; J. C. Gilbert and
J. Nocedal, SIAM Journal on Optimization 2 (1992) 21 (that directions lead down). The first search
is that of Moré and Thuente. Operations are in SciPy's order, products those of ``of_products``.
What is raised is said in ``of_fits``.

The function is called in one place: where it is called, it is compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result
from .line_searches import (
    CALLS,
    FOUND,
    GOES_ON,
    ROUNDED,
    SEARCHED,
    SLOPES,
    begin,
    looked,
    searched,
)
from .of_products import anyones, inner, length, of_row, of_square

_START, _FIRST, _ALONG, _ALONG_SLOPES, _WITHIN, _WITHIN_SLOPES, _LAST = range(7)
"""Why a place is looked at."""
_LEAST = 1e-100
_MOST = 1e100
"""Of a step along a line."""
_LARGE = 1e300


def largest(x: Any) -> float:
    """The norm that SciPy takes, where nothing is said."""
    return float(np.max(np.abs(x)))


def smallest(x: Any) -> float:
    """The norm of order minus infinity."""
    return float(np.min(np.abs(x)))


def summed(x: Any) -> float:
    """The norm of order 1."""
    return float(np.sum(np.abs(x)))


def euclidean(x: Any) -> float:
    """The norm of order 2."""
    return float(np.sum(np.abs(x) ** 2) ** 0.5)


def _first_step(fall: float, slope: float) -> float:
    """A step that is as long as the last one's fall lets expect."""
    if slope == 0.0:
        return 1.0
    found = min(1.0, 2.02 * fall / slope)
    return 1.0 if found < 0.0 else found


def _by_cubic(a: float, fa: float, ga: float, b: float, fb: float, c: float, fc: float) -> float:
    """The minimum of a cubic through three values, with a slope at the first one; NaN: none."""
    to_b = b - a
    to_c = c - a
    if max(abs(to_b), abs(to_c)) > 1e60:
        raise NotImplementedError
    below = (to_b * to_c) ** 2 * (to_b - to_c)
    off_b = fb - fa - ga * to_b
    off_c = fc - fa - ga * to_c
    if below == 0.0 or abs(off_b) > _LARGE or abs(off_c) > _LARGE:
        return math.nan
    rows = np.zeros((2, 2))
    rows[0, 0] = to_c**2
    rows[0, 1] = -(to_b**2)
    rows[1, 0] = -(to_c**3)
    rows[1, 1] = to_b**3
    offs = np.zeros(2)
    offs[0] = off_b
    offs[1] = off_c
    third = float(of_row(rows[0], offs, 0, 2)) / below
    second = float(of_row(rows[1], offs, 1, 2)) / below
    inside = second * second - 3.0 * third * ga
    if 3.0 * third == 0.0 or not 0.0 <= inside < math.inf:
        return math.nan
    found = a + (-second + math.sqrt(inside)) / (3.0 * third)
    return found if found - found == 0.0 else math.nan


def _by_quadratic(a: float, fa: float, ga: float, b: float, fb: float) -> float:
    """The minimum of a quadratic through two values, with a slope at the first one; NaN: none."""
    d = b - a
    if d * d == 0.0:
        return math.nan
    bend = (fb - fa - ga * d) / (d * d)
    if 2.0 * bend == 0.0 or bend - bend != 0.0:
        return math.nan
    found = a - ga / (2.0 * bend)
    return found if found - found == 0.0 else math.nan


def _within(
    low: float, f_low: float, g_low: float, high: float, f_high: float, at: float, f_at: float,
    is_first: bool,
) -> float:  # fmt: skip
    """A place between two: by the last three values, by two, or the middle."""
    wide = high - low
    left = min(low, high)
    right = max(low, high)
    if not is_first:
        found = _by_cubic(low, f_low, g_low, high, f_high, at, f_at)
        edge = 0.2 * wide
        if found == found and not found > right - edge and not found < left + edge:
            return found
    found = _by_quadratic(low, f_low, g_low, high, f_high)
    edge = 0.1 * wide
    if found == found and not found > right - edge and not found < left + edge:
        return found
    return low + 0.5 * wide


def _updated(h: Any, s: Any, y: Any, work: Any, part: Any) -> None:
    """The update of an inverse Hessian by a step, and by how the slopes change with it."""
    n = len(s)
    along = float(inner(y, s))
    rho = 1000.0 if along == 0.0 else 1.0 / along
    for i in range(n):
        for j in range(n):
            here = 1.0 if i == j else 0.0
            part[i, j] = here - float(s[i]) * float(y[j]) * rho
    for i in range(n):
        for j in range(n):
            work[i, j] = of_square(h[i], part[j], i, j, n)
    for i in range(n):
        for j in range(n):
            total = float(of_square(part[i], work[:, j], i, j, n)) + rho * float(s[i]) * float(s[j])
            if total - total != 0.0:
                raise NotImplementedError
            h[i, j] = total


def _falls(slopes: Any, g: Any, p: Any, following: Any, norm: Any, gtol: float) -> bool:
    """The next conjugate direction, and whether it leads down, or nothing is left to do."""
    n = len(g)
    change = np.zeros(n)
    for j in range(n):
        change[j] = float(slopes[j]) - float(g[j])
    beta = max(0.0, float(inner(change, slopes)) / float(inner(g, g)))
    for j in range(n):
        following[j] = -float(slopes[j]) + beta * float(p[j])
    if norm(slopes) <= gtol:
        return True
    return bool(inner(following, slopes) <= -0.01 * float(inner(slopes, slopes)))


def _descended(
    conjugate: Any, f: Any, jac: Any, both: Any, start: Any, args: Any, how: Any, norm: Any,
    gtol: float, most: Any, xrtol: float, c1: float, c2: float,
) -> Any:  # fmt: skip
    """A minimum: where, its value and its slopes, an inverse of a Hessian, how often that changed.

    And counts of calls and slopes, rounds, and why it ended. `conjugate`: None, for steps by that
    inverse, or something, for those along conjugate directions. Others are those of `looked`.
    """
    n = len(start)
    if n == 0:
        raise NotImplementedError
    x = start.copy()
    point = start.copy()
    at = start.copy()
    slopes = np.zeros(n)
    g = np.zeros(n)
    p = np.zeros(n)
    step = np.zeros(n)
    change = np.zeros(n)
    h = np.zeros((n, n))
    for j in range(n):
        h[j, j] = 1.0
    work = np.zeros((n, n))
    part = np.zeros((n, n))
    kept = np.zeros(SEARCHED)
    seen = np.zeros(4, int)
    limits = c1, c2, 1e-14, _LEAST, _MOST
    rounds_left = 200 * n if most is None else most
    best = y = anyones(0.0)
    before = slope = gnorm = 0.0
    alpha = low = f_low = g_low = high = f_high = third = f_third = 0.0
    phase = _START
    rounds = updates = tries = status = 0
    while True:
        sloped = phase not in (_ALONG, _WITHIN)
        y = looked(f, jac, both, args, point, sloped, how, y, at, slopes, seen)
        there = float(y)
        here = float(best)
        accepted = phase in (_START, _LAST)
        again = False
        if phase == _FIRST:
            tries += 1
            says = ROUNDED
            if tries <= 100:
                says, alpha = searched(kept, alpha, there, float(inner(slopes, p)), limits)
            accepted = says == FOUND
            if conjugate is not None and accepted:
                accepted = _falls(slopes, g, p, step, norm, gtol)
            again = not accepted and (says != GOES_ON or alpha - alpha != 0.0)
        elif phase == _ALONG:
            if tries == 10:
                phase = _LAST
            elif alpha == 0.0:
                status = 2
                break
            elif there > here + c1 * alpha * slope or (there >= f_low and tries > 0):
                high = alpha
                f_high = there
                third = 0.0
                f_third = here
                tries = 0
                phase = _WITHIN
                alpha = _within(low, f_low, g_low, high, f_high, third, f_third, True)
            else:
                phase = _ALONG_SLOPES
        elif phase == _WITHIN and not (there > here + c1 * alpha * slope or there >= f_low):
            phase = _WITHIN_SLOPES
        elif phase in (_ALONG_SLOPES, _WITHIN, _WITHIN_SLOPES):
            slanted = 0.0
            if phase != _WITHIN:
                slanted = float(inner(slopes, p))
                accepted = abs(slanted) <= -c2 * slope
                if conjugate is not None and accepted:
                    accepted = _falls(slopes, g, p, step, norm, gtol)
            if accepted:
                pass
            elif phase == _ALONG_SLOPES:
                if slanted >= 0.0:
                    high = low
                    f_high = f_low
                    third = 0.0
                    f_third = here
                    tries = 0
                    phase = _WITHIN
                low = alpha
                f_low = there
                g_low = slanted
                if phase == _WITHIN:
                    alpha = _within(low, f_low, g_low, high, f_high, third, f_third, True)
                else:
                    tries += 1
                    alpha = min(2.0 * alpha, _MOST)
                    phase = _ALONG
            else:
                if phase == _WITHIN or slanted * (high - low) >= 0.0:
                    third = high
                    f_third = f_high
                else:
                    third = low
                    f_third = f_low
                if phase == _WITHIN:
                    high = alpha
                    f_high = there
                else:
                    if slanted * (high - low) >= 0.0:
                        high = low
                        f_high = f_low
                    low = alpha
                    f_low = there
                    g_low = slanted
                tries += 1
                if tries > 10:
                    status = 2
                    break
                phase = _WITHIN
                alpha = _within(low, f_low, g_low, high, f_high, third, f_third, False)
        if accepted:
            if phase == _START:
                before = there + float(length(slopes)) / 2.0
            else:
                if conjugate is not None:
                    _falls(slopes, g, p, change, norm, gtol)
                for j in range(n):
                    step[j] = alpha * float(p[j])
                    x[j] = float(x[j]) + float(step[j])
                    if conjugate is None:
                        change[j] = float(slopes[j]) - float(g[j])
                before = here
                rounds += 1
            best = y
            here = there
            for j in range(n):
                g[j] = slopes[j]
            gnorm = norm(g)
            if conjugate is None and phase != _START:
                if gnorm <= gtol:
                    break
                if alpha * euclidean(p) <= xrtol * (xrtol + euclidean(x)):
                    break
                _updated(h, step, change, work, part)
                updates += 1
            if not gnorm > gtol or rounds >= rounds_left:
                break
            if not 0.0 < c1 < c2 < 1.0:
                raise ValueError
            for i in range(n):
                if conjugate is None:
                    p[i] = -float(of_row(h[i], g, i, n))
                else:
                    p[i] = -float(g[i]) if phase == _START else change[i]
            slope = float(inner(g, p))
            if slope - slope != 0.0:
                raise NotImplementedError
            alpha = _first_step(here - before, slope)
            tries = 1
            phase = _FIRST
            if slope >= 0.0 or alpha < _LEAST:
                again = True
            else:
                begin(kept, alpha, here, slope, _LEAST, _MOST)
        if again:  # the second search
            alpha = _first_step(here - before, slope)
            low = 0.0
            f_low = here
            g_low = slope
            tries = 0
            phase = _ALONG
        if phase not in (_ALONG_SLOPES, _WITHIN_SLOPES, _LAST):
            for j in range(n):
                point[j] = float(x[j]) + alpha * float(p[j])
    if status == 0 and rounds >= rounds_left:
        status = 1
    return x, best, g, h, updates, int(seen[CALLS]), int(seen[SLOPES]), rounds, status


def bfgs(*given: Any) -> Any:
    """``scipy.optimize.minimize(f, start, args, method="BFGS", jac=jac)``.

    ``is_new``: whether SciPy's ``hess_inv`` is one of integers still.
    """
    x, y, g, h, updates, calls, slopes, rounds, status = _descended(None, *given)
    return Result(
        x=x, fun=y, jac=g, hess_inv=h, is_new=updates == 0, nfev=calls, njev=slopes, nit=rounds,
        status=status, success=status == 0, message=_MESSAGES[status],
    )  # fmt: skip


def conjugate(*given: Any) -> Any:
    """``scipy.optimize.minimize(f, start, args, method="CG", jac=jac)``."""
    x, y, g, _, _, calls, slopes, rounds, status = _descended(True, *given)
    return Result(
        x=x, fun=y, jac=g, nfev=calls, njev=slopes, nit=rounds, status=status,
        success=status == 0, message=_MESSAGES[status],
    )  # fmt: skip


_MESSAGES = (
    "Optimization terminated successfully.",
    "Maximum number of iterations has been exceeded.",
    "Desired error not necessarily achieved due to precision loss.",
)


def fmin_cg(whole: Any, *given: Any) -> Any:
    """``scipy.optimize.fmin_cg``; `whole` is that of `fmin_bfgs`."""
    found = conjugate(*given)
    if whole is not None and found.nit == 0:
        raise NotImplementedError
    return found.x


def full_fmin_cg(whole: Any, *given: Any) -> Any:
    """The same with ``full_output``."""
    found = conjugate(*given)
    if whole is not None and found.nit == 0:
        raise NotImplementedError
    return found.x, found.fun, found.nfev, found.njev, found.status


def fmin_bfgs(whole: Any, *given: Any) -> Any:
    """``scipy.optimize.fmin_bfgs``; `whole`: None, if it does not start from integers."""
    found = bfgs(*given)
    if whole is not None and found.nit == 0:
        raise NotImplementedError  # which it gives then
    return found.x


def full_fmin_bfgs(whole: Any, *given: Any) -> Any:
    """The same with ``full_output``."""
    found = bfgs(*given)
    return (
        found.x, found.fun, found.jac, found.hess_inv, found.nfev, found.njev, found.status,
    )  # fmt: skip
