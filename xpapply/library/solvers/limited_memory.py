"""Minima of functions of several numbers within bounds, by their slopes, for the compiler.

Sources: R. H. Byrd, P. Lu, J. Nocedal and C. Zhu, "A limited memory algorithm for bound constrained
optimization", SIAM Journal on Scientific Computing 16 (1995) 1190: the point of Cauchy (section 4)
and the direct primal method (section 5.1); C. Zhu and others, "Algorithm 778: L-BFGS-B", ACM
Transactions on Mathematical Software 23 (1997) 550; J. L. Morales and J. Nocedal, "Remark on
Algorithm 778", there 38 (2011) 7:1 (the projection of the step). Operations are in SciPy's order,
products those of ``of_products``. What is raised is said in ``of_fits``.

Names are the paper's: rows of `s` and `y` are steps and how the slopes changed with them, of which
`m` are kept, in a ring; `sy` is S'Y and `ss` is S'S; ``theta I`` is what the update begins with.
Triangles are held by their columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result
from .fits import spread
from .line_searches import (
    CALLS,
    GOES_ON,
    SEARCHED,
    SLOPES,
    begin,
    looked,
    searched,
)
from .of_odes import anyones
from .of_products import (
    all_solved_below,
    factored,
    fma,
    inner,
    long_length,
    solved_above,
    solved_below,
)

_EPS = float(np.finfo(float).eps)
_FREE, _AT_LOWER, _AT_UPPER, _FIXED = range(4)
"""Where a variable stands; below `_FREE`: it has no bounds, or does not move."""
_HEAD, _COUNT, _UPDATES, _LAST = range(4)
"""Of the ring: where it begins, how many rows it has, how many there were, the last one."""
_NFREE, _ENTER, _LEAVE = range(3)
"""How many variables are free, how many have become so, and where those begin that are no more."""


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


def _middle(sy: Any, t: Any, col: int, v: Any, p: Any) -> None:
    """The product of the middle matrix, (2.13) in the paper, with a vector."""
    for i in range(col):
        total = 0.0
        for k in range(i):
            total += float(sy[i, k]) * float(v[k]) / float(sy[k, k])
        p[col + i] = float(v[col + i]) + total
    solved_below(t, p[col : 2 * col], col)
    for i in range(col):
        p[i] = float(v[i]) / math.sqrt(float(sy[i, i]))
    solved_above(t, p[col : 2 * col], col)
    for i in range(col):
        total = 0.0
        for k in range(i + 1, col):
            total += float(sy[k, i]) * float(p[col + k]) / float(sy[i, i])
        p[i] = -float(p[i]) / math.sqrt(float(sy[i, i])) + total


def _added(x: Any, part: float, y: Any, n: int) -> None:
    """Add a multiple of a vector: ``axpy``."""
    if part != 0.0:
        for j in range(n):
            x[j] = fma(part, y[j], x[j])


def _cauchy(
    x: Any, g: Any, bounds: Any, where: Any, d: Any, breaks: Any, z: Any, memory: Any, ring: Any,
    theta: float, rows: Any,
) -> None:  # fmt: skip
    """The first minimum along the projected direction of steepest descent, in `z`.

    `where` says which variables it leaves at bounds; the first of `rows` is what the paper calls
    W'(z - x).
    """
    lower, upper = bounds
    c, p, w, v = rows[0], rows[1], rows[2], rows[3]
    s, y, sy, _, t = memory
    n = len(x)
    col = int(ring[_COUNT])
    head = int(ring[_HEAD])
    two = 2 * col
    for j in range(two):
        p[j] = 0.0
        c[j] = 0.0
    f1 = 0.0
    count = 0
    moves = False
    is_bounded = True
    for i in range(n):
        down = -float(g[i])
        low = float(x[i]) - float(lower[i])
        high = float(upper[i]) - float(x[i])
        if where[i] != _FIXED and where[i] != -1:
            where[i] = _FREE
            if low <= 0.0:
                if down <= 0.0:
                    where[i] = _AT_LOWER
            elif high <= 0.0:
                if down >= 0.0:
                    where[i] = _AT_UPPER
            elif down == 0.0:
                where[i] = -3
        breaks[i] = -1.0
        d[i] = 0.0
        z[i] = x[i]
        if where[i] == _FREE or where[i] == -1:
            d[i] = down
            f1 -= down * down
            for j in range(col):
                at = (head + j) % len(s)
                p[j] += float(y[at, i]) * down
                p[col + j] += float(s[at, i]) * down
            if low < math.inf and down < 0.0:
                breaks[i] = low / -down
                count += 1
            elif high < math.inf and down > 0.0:
                breaks[i] = high / down
                count += 1
            else:
                moves = True
                if down != 0.0:
                    is_bounded = False
    if theta != 1.0:
        for j in range(col, two):
            p[j] *= theta
    if count == 0 and not moves:
        return
    f2 = -theta * f1
    least = _EPS * f2
    if col > 0:
        _middle(sy, t, col, p, v)
        f2 -= float(inner(v[:two], p[:two]))
    ahead = -f1 / f2
    along = 0.0
    before = 0.0
    while count > 0:
        at = -1
        for i in range(n):
            if float(breaks[i]) >= 0.0 and (at < 0 or float(breaks[i]) < float(breaks[at])):
                at = i
        here = float(breaks[at])
        step = here - before
        if ahead < step:
            break
        before = here
        breaks[at] = -1.0
        count -= 1
        along += step
        down = float(d[at])
        d[at] = 0.0
        if down > 0.0:
            z[at] = upper[at]
            where[at] = _AT_UPPER
        else:
            z[at] = lower[at]
            where[at] = _AT_LOWER
        off = float(z[at]) - float(x[at])
        square = down * down
        f1 = f1 + step * f2 + square - theta * down * off
        f2 -= theta * square
        if col > 0:
            _added(c, step, p, two)
            for j in range(col):
                k = (head + j) % len(s)
                w[j] = y[k, at]
                w[col + j] = theta * float(s[k, at])
            _middle(sy, t, col, w, v)
            for j in range(3):
                part = float(inner(rows[j, :two], v[:two]))
                if j == 0:
                    f1 += down * part
                else:
                    f2 += down * 2.0 * part if j == 1 else -square * part
            _added(p, -down, w, two)
        f2 = max(least, f2)
        if count == 0 and is_bounded:
            ahead = 0.0
        else:
            ahead = -f1 / f2
    if ahead <= 0.0:
        ahead = 0.0
    _added(z, along + ahead, d, n)
    if col > 0:
        _added(c, ahead, p, two)


def _freed(where: Any, order: Any, changed: Any, sets: Any, is_later: bool) -> None:
    """Which variables are free, and which have become free, or are no more."""
    n = len(where)
    sets[_ENTER] = 0
    sets[_LEAVE] = n
    if is_later:
        for i in range(n):
            k = int(order[i])
            if i < sets[_NFREE]:
                if where[k] > _FREE:
                    sets[_LEAVE] -= 1
                    changed[sets[_LEAVE]] = k
            elif where[k] <= _FREE:
                changed[sets[_ENTER]] = k
                sets[_ENTER] += 1
    free = 0
    last = n
    for i in range(n):
        if where[i] <= _FREE:
            order[free] = i
            free += 1
        else:
            last -= 1
            order[last] = i
    sets[_NFREE] = free


def _of_some(a: Any, b: Any, which: Any, first: int, last: int) -> float:
    """The product of two rows, of some of their elements."""
    total = 0.0
    for k in range(first, last):
        j = int(which[k])
        total += float(a[j]) * float(b[j])
    return total


def _products(
    n1: Any, memory: Any, ring: Any, order: Any, changed: Any, sets: Any, updated: bool
) -> None:
    """Keep the products of steps and changes, of free variables and of others."""
    s, y = memory[0], memory[1]
    m, n = s.shape
    col = int(ring[_COUNT])
    head = int(ring[_HEAD])
    free = int(sets[_NFREE])
    old = col
    if updated:
        old = col - 1
        if ring[_UPDATES] > m:
            for j in range(m - 1):
                for i in range(j, m - 1):
                    n1[i, j] = n1[i + 1, j + 1]
                    n1[m + i, m + j] = n1[m + i + 1, m + j + 1]
                for i in range(m - 1):
                    n1[m + i, j] = n1[m + i + 1, j + 1]
    for i in range(col):
        for j in range(col):
            anew = i >= old or j >= old
            for block in range(3):
                if j > i and block < 2:  # a lower triangle
                    continue
                first = y[(head + i) % m] if block == 0 else s[(head + i) % m]
                second = s[(head + j) % m] if block == 1 else y[(head + j) % m]
                low = i + m if block > 0 else i
                high = j + m if block == 1 else j
                inside = block == 0 or (block == 2 and i <= j)
                if anew:
                    begins = 0 if inside else free
                    ends = free if inside else n
                    n1[low, high] = _of_some(first, second, order, begins, ends)
                else:
                    more = _of_some(first, second, changed, 0, int(sets[_ENTER]))
                    less = _of_some(first, second, changed, int(sets[_LEAVE]), n)
                    here = float(n1[low, high])
                    n1[low, high] = here + more - less if inside else here - more + less


def _formed(k: Any, n1: Any, sy: Any, theta: float, col: int) -> bool:
    """The factors of the matrix K of section 5.1: whether there are any."""
    m = len(sy)
    for i in range(col):
        for j in range(i + 1):
            k[i, j] = float(n1[i, j]) / theta
            k[col + i, col + j] = float(n1[m + i, m + j]) * theta
        for j in range(col):
            part = float(n1[m + i, j])
            k[col + i, j] = -part if j < i else part
        k[i, i] += float(sy[i, i])
    if not factored(k, 0, col):
        return False
    all_solved_below(k, col)
    for i in range(col, 2 * col):
        for j in range(i, 2 * col):
            k[j, i] += float(inner(k[i, :col], k[j, :col]))
    return factored(k, col, col)


def _reduced(
    x: Any, g: Any, z: Any, r: Any, memory: Any, ring: Any, theta: float, rows: Any, order: Any,
    free: int, bounded: bool,
) -> None:  # fmt: skip
    """The slopes of the quadratic model at the point of Cauchy, but for their sign."""
    s, y, sy, _, t = memory
    m = len(s)
    col = int(ring[_COUNT])
    if not bounded:
        for i in range(len(x)):
            r[i] = -float(g[i])
        return
    for i in range(free):
        k = int(order[i])
        r[i] = -theta * (float(z[k]) - float(x[k])) - float(g[k])
    p = rows[1]
    _middle(sy, t, col, rows[0], p)
    for j in range(col):
        at = (int(ring[_HEAD]) + j) % m
        a1 = float(p[j])
        a2 = theta * float(p[col + j])
        for i in range(free):
            k = int(order[i])
            r[i] = float(r[i]) + float(y[at, k]) * a1 + float(s[at, k]) * a2


def _in_subspace(
    z: Any, r: Any, x: Any, g: Any, bounds: Any, memory: Any, ring: Any, theta: float, k: Any,
    order: Any, free: int, v: Any, kept: Any,
) -> None:  # fmt: skip
    """Move `z` to the minimum over the free variables, as far as bounds let it."""
    lower, upper = bounds
    s, y = memory[0], memory[1]
    m = len(s)
    col = int(ring[_COUNT])
    head = int(ring[_HEAD])
    for j in range(col):
        at = (head + j) % m
        one = 0.0
        other = 0.0
        for i in range(free):
            q = int(order[i])
            one += float(y[at, q]) * float(r[i])
            other += float(s[at, q]) * float(r[i])
        v[j] = one
        v[col + j] = theta * other
    solved_below(k, v, 2 * col)
    for j in range(col):
        v[j] = -float(v[j])
    solved_above(k, v, 2 * col)
    for j in range(col):
        at = (head + j) % m
        for i in range(free):
            q = int(order[i])
            part = float(y[at, q]) * float(v[j]) / theta
            r[i] = float(r[i]) + part + float(s[at, q]) * float(v[col + j])
    part = 1.0 / theta
    for i in range(free):
        r[i] *= part
    for j in range(len(z)):
        kept[j] = z[j]
    ends = False
    for i in range(free):
        q = int(order[i])
        here = max(float(lower[q]), float(z[q]) + float(r[i]))
        here = min(float(upper[q]), here)
        z[q] = here
        if here == float(lower[q]) or here == float(upper[q]):
            ends = True
    if not ends:
        return
    slope = 0.0
    for j in range(len(z)):
        slope += (float(z[j]) - float(x[j])) * float(g[j])
    if slope <= 0.0:
        return
    for j in range(len(z)):
        z[j] = kept[j]
    alpha = 1.0
    most = 1.0
    last = -1
    for i in range(free):
        q = int(order[i])
        step = float(r[i])
        if step < 0.0:
            off = float(lower[q]) - float(z[q])
            if off >= 0.0:
                most = 0.0
            elif step * alpha < off:
                most = off / step
        elif step > 0.0:
            off = float(upper[q]) - float(z[q])
            if off <= 0.0:
                most = 0.0
            elif step * alpha > off:
                most = off / step
        if most < alpha:
            alpha = most
            last = i
    if last >= 0:
        q = int(order[last])
        if float(r[last]) != 0.0:
            z[q] = upper[q] if float(r[last]) > 0.0 else lower[q]
            r[last] = 0.0
    for i in range(free):
        q = int(order[i])
        z[q] = float(z[q]) + alpha * float(r[i])


def _remembered(
    d: Any, r: Any, memory: Any, ring: Any, theta: float, change: float, square: float
) -> bool:
    """Put a step and a change into the ring; whether the matrix has a factor then."""
    s, y, sy, ss, t = memory
    m = len(s)
    n = len(d)
    ring[_UPDATES] += 1
    if ring[_UPDATES] <= m:
        ring[_COUNT] = ring[_UPDATES]
        ring[_LAST] = (ring[_HEAD] + ring[_UPDATES] - 1) % m
    else:
        ring[_LAST] = (ring[_LAST] + 1) % m
        ring[_HEAD] = (ring[_HEAD] + 1) % m
    col = int(ring[_COUNT])
    for j in range(n):
        s[ring[_LAST], j] = d[j]
        y[ring[_LAST], j] = r[j]
    if ring[_UPDATES] > m:
        for j in range(1, col):
            for i in range(j):
                ss[i, j - 1] = ss[i + 1, j]
            for i in range(j, col):
                sy[i - 1, j - 1] = sy[i, j]
    for j in range(col - 1):
        at = (int(ring[_HEAD]) + j) % m
        sy[col - 1, j] = inner(d, y[at])
        ss[j, col - 1] = inner(s[at], d)
    ss[col - 1, col - 1] = square
    sy[col - 1, col - 1] = change
    for i in range(col):
        for j in range(i, col):
            total = 0.0
            for k in range(i):
                total += float(sy[i, k]) * float(sy[j, k]) / float(sy[k, k])
            t[j, i] = total + theta * float(ss[i, j])
    return factored(t, 0, col)


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
        where[j] = _FREE
        if low == high:  # SciPy leaves it out, where it takes differences
            if jac is None and both is None:
                raise NotImplementedError
            where[j] = _FIXED
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
    sets[_NFREE] = n
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
                lost = not _remembered(d, r, memory, ring, theta, change, square)
        while found or failed or tries == 0:
            if failed:
                for j in range(n):
                    x[j] = before[j]
                    g[j] = r[j]
                value = f_before
                if ring[_COUNT] == 0:
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
            col = int(ring[_COUNT])
            free = n
            if bounded or col == 0:
                _cauchy(x, g, bounds, where, d, breaks, z, memory, ring, theta, rows)
                _freed(where, order, changed, sets, rounds > 0 and bounded)
                anew = updated or sets[_ENTER] > 0 or sets[_LEAVE] < n
            else:
                for j in range(n):
                    z[j] = x[j]
                anew = updated
            free = int(sets[_NFREE])
            if free > 0 and col > 0:
                if anew:
                    _products(n1, memory, ring, order, changed, sets, updated)
                    lost = not _formed(k, n1, memory[2], theta, col)
                    if lost:
                        continue
                _reduced(x, g, z, r, memory, ring, theta, rows, order, free, bounded)
                _in_subspace(
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
