"""Minima of functions of several numbers within bounds, by their slopes, for the compiler.

Sources: R. H. Byrd, P. Lu, J. Nocedal and C. Zhu, "A limited memory algorithm for bound constrained
optimization", SIAM Journal on Scientific Computing 16 (1995) 1190: the point of Cauchy (section 4)
and the direct primal method (section 5.1); C. Zhu and others, "Algorithm 778: L-BFGS-B", ACM
Transactions on Mathematical Software 23 (1997) 550; J. L. Morales and J. Nocedal, "Remark on
Algorithm 778", there 38 (2011) 7:1 (the projection of the step). Operations are in SciPy's order,
products those of ``of_products``. What is raised is said in ``of_fits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result
from .fits import spread
from .limited_models import (
    COUNT,
    ENTER,
    FIXED,
    FREE,
    LEAVE,
    NFREE,
    cauchy,
    formed,
    freed,
    in_subspace,
    keep_products,
    reduced,
    remembered,
)
from .line_searches import CALLS, GOES_ON, SEARCHED, SLOPES, begin, looked, searched
from .of_products import anyones, inner, long_length

_EPS = float(np.finfo(float).eps)


def _projected(x: Any, g: Any, lower: Any, upper: Any) -> float:
    """The largest slope, of which what leads out of the bounds is left out."""
    found = 0.0
    for j in range(len(x)):
        here = float(g[j])
        if here < 0.0:
            here = max(float(x[j]) - float(upper[j]), here)
        else:
            here = min(float(x[j]) - float(lower[j]), here)
        found = max(found, abs(here))
    return found


def _longest(x: Any, d: Any, lower: Any, upper: Any) -> float:
    """How often a step may be taken before it ends at a bound."""
    found = 1e10
    for j in range(len(x)):
        step = float(d[j])
        if step < 0.0 and float(lower[j]) > -math.inf:
            off = float(lower[j]) - float(x[j])
            if off >= 0.0:
                found = 0.0
            elif step * found < off:
                found = off / step
        elif step > 0.0 and float(upper[j]) < math.inf:
            off = float(upper[j]) - float(x[j])
            if off <= 0.0:
                found = 0.0
            elif step * found > off:
                found = off / step
    return found


BY_SLOPES, BY_VALUES, ROUNDS, EVALUATIONS, ABNORMAL = range(5)
"""Why it ends."""


def l_bfgs_b(
    f: Any, jac: Any, both: Any, start: Any, args: Any, how: Any, m: int, tolerances: Any,
    limits: Any, texts: Any,
) -> Any:  # fmt: skip
    """``scipy.optimize.minimize(f, start, args, method="L-BFGS-B", jac=jac, bounds=bounds)``.

    Parameters
    ----------
    f, jac, both, how
        Those of `looked`, with bounds.
    m : int
        How many steps are remembered.
    tolerances : tuple of float
        Of values, and of slopes.
    limits : tuple of int
        Of calls, of rounds, and of places along a line.
    texts : tuple of str
        What SciPy says, by why it ends.
    """
    ftol, gtol = tolerances
    most_calls, most_rounds, most_tries = limits
    lower, upper = how[1], how[2]
    n = len(start)
    if n == 0 or m < 1 or most_tries < 1 or ftol < 0.0 or len(lower) != n or len(upper) != n:
        raise NotImplementedError
    x = start.copy()
    where = np.zeros(n, int)
    order = np.zeros(n, int)
    changed = np.zeros(n, int)
    sets = np.zeros(3, int)
    bounded = False
    boxed = True
    fixed = 0
    for j in range(n):
        low = float(lower[j])
        high = float(upper[j])
        if low > high:
            raise ValueError
        if not low <= high or low == math.inf or high == -math.inf or x[j] != x[j]:
            raise NotImplementedError
        x[j] = min(max(float(x[j]), low), high)
        where[j] = FREE
        if low == high:  # SciPy leaves it out, where it takes differences
            if jac is None and both is None:
                raise NotImplementedError
            where[j] = FIXED
            fixed += 1
        if low == -math.inf and high == math.inf:
            where[j] = -1
        else:
            bounded = True
        if low == -math.inf or high == math.inf:
            boxed = False
    if fixed == n:
        raise NotImplementedError
    bounds = lower, upper
    at = x.copy()
    before = x.copy()
    slopes = np.zeros(n)
    g = np.zeros(n)
    z = np.zeros(n)
    d = np.zeros(n)
    r = np.zeros(n)
    breaks = np.zeros(n)
    kept = np.zeros(n)
    rows = np.zeros((4, 2 * m))
    memory = (
        np.zeros((m, n)), np.zeros((m, n)), np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m)),
    )  # fmt: skip
    k = np.zeros((2 * m, 2 * m))
    n1 = np.zeros((2 * m, 2 * m))
    search = np.zeros(SEARCHED)
    ring = np.zeros(4, int)
    seen = np.zeros(4, int)
    sets[NFREE] = n
    limit = ftol / _EPS * _EPS
    theta = 1.0
    step = most = length = slope = first_slope = f_before = 0.0
    rounds = tries = why = 0
    updated = False
    begun = False
    y = anyones(0.0)
    while True:
        y = looked(f, jac, both, args, x, True, how, y, at, slopes, seen)
        value = float(y)
        for j in range(n):
            g[j] = slopes[j]
        found = False
        failed = False
        lost = False
        if not begun:
            begun = True
            if _projected(x, g, lower, upper) <= gtol:
                why = BY_SLOPES
                break
        else:
            slope = float(inner(g, d))
            says, step = searched(search, step, value, slope, (1e-3, 0.9, 0.1, 0.0, most))
            found = says != GOES_ON
            if not found:
                tries += 1
                failed = tries > most_tries
        if found:
            rounds += 1
            if rounds >= most_rounds:
                why = ROUNDS
                break
            if seen[CALLS] > most_calls:
                why = EVALUATIONS
                break
            if _projected(x, g, lower, upper) <= gtol:
                why = BY_SLOPES
                break
            if f_before - value <= limit * max(abs(f_before), abs(value), 1.0):
                why = BY_VALUES
                break
            for j in range(n):
                r[j] = float(g[j]) - float(r[j])
            square = length * length
            change = slope - first_slope
            falls = -first_slope
            if step != 1.0:
                change *= step
                falls *= step
                square *= step * step
                for j in range(n):
                    d[j] *= step
            updated = not change <= _EPS * falls
            if updated:
                long = long_length(r)
                theta = long * long / change
                lost = not remembered(d, r, memory, ring, theta, change, square)
        while found or failed or tries == 0:
            if failed:
                for j in range(n):
                    x[j] = before[j]
                    g[j] = r[j]
                value = f_before
                if ring[COUNT] == 0:
                    why = ABNORMAL
                    break
            if failed or lost:
                found = True
                failed = False
                lost = False
                updated = False
                theta = 1.0
                for j in range(4):
                    ring[j] = 0
            col = int(ring[COUNT])
            free = n
            if bounded or col == 0:
                cauchy(x, g, bounds, where, d, breaks, z, memory, ring, theta, rows)
                freed(where, order, changed, sets, rounds > 0 and bounded)
                anew = updated or sets[ENTER] > 0 or sets[LEAVE] < n
            else:
                for j in range(n):
                    z[j] = x[j]
                anew = updated
            free = int(sets[NFREE])
            if free > 0 and col > 0:
                if anew:
                    keep_products(n1, memory, ring, order, changed, sets, updated)
                    lost = not formed(k, n1, memory[2], theta, col)
                    if lost:
                        continue
                reduced(x, g, z, r, memory, ring, theta, rows, order, free, bounded)
                in_subspace(
                    z, r, x, g, bounds, memory, ring, theta, k, order, free, rows[1], kept
                )  # fmt: skip
            for j in range(n):
                d[j] = float(z[j]) - float(x[j])
            length = long_length(d)
            most = 1e10
            if bounded:
                most = 1.0 if rounds == 0 else _longest(x, d, lower, upper)
            step = min(1.0 / length, most) if rounds == 0 and not boxed else 1.0
            for j in range(n):
                before[j] = x[j]
                r[j] = g[j]
            f_before = value
            first_slope = float(inner(g, d))
            tries = 1
            found = False
            failed = first_slope >= 0.0
            if failed:
                continue
            if step > most:
                raise NotImplementedError
            begin(search, step, value, first_slope, 0.0, most)
        if why == ABNORMAL:
            break
        for j in range(n):
            if step == 1.0:
                x[j] = z[j]
            else:
                here = step * float(d[j]) + float(before[j])
                x[j] = min(max(here, float(lower[j])), float(upper[j]))
    status = 0 if why in (BY_SLOPES, BY_VALUES) else 2
    if status == 2 and (seen[CALLS] > most_calls or rounds >= most_rounds):
        status = 1
    return Result(
        x=x, fun=y, jac=g, nfev=int(seen[CALLS]), njev=int(seen[SLOPES]), nit=rounds,
        status=status, success=status == 0, message=texts[why],
    )  # fmt: skip


def anywhere(
    f: Any, jac: Any, both: Any, start: Any, args: Any, eps: Any, bounds: Any, *rest: Any
) -> Any:
    """The same with bounds that are one for all variables, or None."""
    low, high = (-math.inf, math.inf) if bounds is None else bounds
    lower = spread(low, len(start))
    upper = spread(high, len(start))
    return l_bfgs_b(f, jac, both, start, args, (eps, lower, upper), *rest)


def fmin_l_bfgs_b(*given: Any) -> Any:
    """``scipy.optimize.fmin_l_bfgs_b``."""
    found = anywhere(*given)
    said = Result(
        grad=found.jac, task=found.message, funcalls=found.nfev, nit=found.nit,
        warnflag=found.status,
    )  # fmt: skip
    return found.x, found.fun, said
