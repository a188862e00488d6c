"""Linear least squares within bounds, for the compiler.

Sources: C. L. Lawson and R. J. Hanson, Solving Least Squares Problems, Prentice-Hall 1974, chapter
23 (NNLS); P. B. Stark and R. L. Parker, "Bounded-variable least-squares: an algorithm and
applications", Computational Statistics 10 (1995) 129; the source of ``trust_regions``; G. H. Golub
and C. F. Van Loan, Matrix Computations, 4th edition, 5.2 (factors by Gram and Schmidt) and 6.5 (a
column that goes).

Numbers enter the set of those that are free, and leave it, in SciPy's order; factors are those of
the free columns alone, so results are equal to rounding. Where rounding could decide who is free,
the slice is left to SciPy. What is raised is said in ``of_fits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result
from .fits import spread
from .trust_regions import FAR, chosen, inside, scaling

_EPS = float(np.finfo(float).eps)
_NOISE = 16.0 * _EPS
"""What rounding makes of sums, relatively."""
_APART = 1e-7
"""How far a column has to be from those that are free, as a share of its length."""


def _dot(a: Any, b: Any) -> float:
    """The product of two rows of numbers, by four sums."""
    n = len(a)
    fours = n // 4 * 4
    one = two = three = four = 0.0
    for i in range(0, fours, 4):
        one += float(a[i]) * float(b[i])
        two += float(a[i + 1]) * float(b[i + 1])
        three += float(a[i + 2]) * float(b[i + 2])
        four += float(a[i + 3]) * float(b[i + 3])
    for i in range(fours, n):
        one += float(a[i]) * float(b[i])
    return (one + two) + (three + four)


def _products(a: Any, x: Any, out: Any) -> None:
    """``a.T @ x``: of few columns one by one, of more of them four rows at a time."""
    m, n = a.shape
    if n < 8:
        for j in range(n):
            out[j] = _dot(a[:, j], x)
        return
    for j in range(n):
        out[j] = 0.0
    fours = m // 4 * 4
    for i in range(0, fours, 4):
        one = float(x[i])
        two = float(x[i + 1])
        three = float(x[i + 2])
        four = float(x[i + 3])
        for j in range(n):
            here = float(a[i, j]) * one + float(a[i + 1, j]) * two
            there = float(a[i + 2, j]) * three + float(a[i + 3, j]) * four
            out[j] = float(out[j]) + (here + there)
    for i in range(fours, m):
        one = float(x[i])
        for j in range(n):
            out[j] = float(out[j]) + float(a[i, j]) * one


def _orthogonal(part: Any, before: float, q: Any, count: int, r: Any) -> float:
    """Leave of a row of numbers what is at right angles to `count` others: how long that is.

    Parameters
    ----------
    before : float
        How long all of it is.
    r : ndarray
        Where the rest of it goes, along the rows of `q`.
    """
    for i in range(count):
        r[i] = 0.0
    size = before
    while count > 0:
        for k in range(count):
            along = _dot(q[k], part)
            r[k] = float(r[k]) + along
            for i in range(len(part)):
                part[i] = float(part[i]) - along * float(q[k, i])
        size = math.sqrt(_dot(part, part))
        if size >= 0.1 * before or size == 0.0:
            break
        before = size
    return size


def _without(q: Any, r: Any, along: Any, first: int, count: int) -> None:
    """Factors without a column: rotations make those that follow triangular again."""
    m = len(q[0])
    for j in range(first + 1, count):
        for i in range(j + 1):
            r[j - 1, i] = r[j, i]
        here = float(r[j - 1, j - 1])
        size = math.sqrt(here * here + float(r[j - 1, j]) * float(r[j - 1, j]))
        cosine = here / size
        sine = float(r[j - 1, j]) / size
        r[j - 1, j - 1] = size
        for k in range(j + 1, count):
            here = float(r[k, j - 1])
            r[k, j - 1] = cosine * here + sine * float(r[k, j])
            r[k, j] = cosine * float(r[k, j]) - sine * here
        for i in range(m):
            here = float(q[j - 1, i])
            q[j - 1, i] = cosine * here + sine * float(q[j, i])
            q[j, i] = cosine * float(q[j, i]) - sine * here
        here = float(along[j - 1])
        along[j - 1] = cosine * here + sine * float(along[j])
        along[j] = cosine * float(along[j]) - sine * here


def _solved(r: Any, along: Any, count: int, z: Any) -> float:
    """Solve the triangular system; how much of the largest number may be rounding."""
    most = 0.0
    least = math.inf
    for j in range(count):
        z[j] = along[j]
        most = max(most, float(r[j, j]))
        least = min(least, float(r[j, j]))
    largest = 0.0
    for j in range(count - 1, -1, -1):
        here = float(z[j]) / float(r[j, j])
        z[j] = here
        largest = max(largest, abs(here))
        for i in range(j):
            z[i] = float(z[i]) - here * float(r[j, i])
    return _NOISE * (most / least) * largest


def _lengths(a: Any, out: Any) -> None:
    """How long columns are."""
    m, n = a.shape
    if n < 8:
        for j in range(n):
            out[j] = math.sqrt(_dot(a[:, j], a[:, j]))
        return
    for j in range(n):
        out[j] = 0.0
    for i in range(m):
        for j in range(n):
            out[j] = float(out[j]) + float(a[i, j]) * float(a[i, j])
    for j in range(n):
        out[j] = math.sqrt(float(out[j]))


def nnls(a: Any, b: Any, most: int) -> Any:
    """``scipy.optimize.nnls(a, b, maxiter=most)``; 0: as often as SciPy does."""
    if len(b) != len(a):
        raise ValueError
    return _by_active_sets(a, b, math.sqrt(_dot(b, b)), -1.0, most)


def nnls_of(q: Any, a: Any, b: Any, most: int) -> Any:
    """The same of a matrix with more rows than columns, as the factors that all slices have."""
    m, n = q.shape
    if len(b) != m:
        raise ValueError
    short = np.zeros(n)
    _products(q, b, short)
    whole = _dot(b, b)
    beyond = whole - _dot(short, short)
    if not beyond > 1e-4 * whole:  # of a small difference few digits are right
        beyond = 0.0
        for i in range(m):
            here = float(b[i]) - _dot(q[i], short)
            beyond += here * here
    return _by_active_sets(a, short, math.sqrt(whole), math.sqrt(beyond), most)


def _by_active_sets(a: Any, b: Any, size: float, beyond: float, most: int) -> Any:
    """Lawson and Hanson's way.

    Parameters
    ----------
    size : float
        How long all of the right side is.
    beyond : float
        How long the part of it is that no columns reach; below zero where `b` is all of it.
    """
    m, n = a.shape
    if m == 0 or n == 0 or size - size != 0.0:
        raise NotImplementedError
    if most == 0:
        most = 3 * n
    few = min(m, n)
    order = np.arange(n)
    x = np.zeros(n)
    w = np.zeros(n)
    q = np.empty((few, m))
    r = np.empty((few, few))
    along = np.zeros(few)
    lengths = np.zeros(n)
    z = np.zeros(few)
    part = np.zeros(m)
    rest = b.copy()
    _lengths(a, lengths)
    off = size
    spread = 1.0
    is_close = False  # whether rounding may have chosen the way: of several solutions, which one
    count = rounds = 0
    while count < few:
        _products(a, rest, w)
        noise = _NOISE * (size + spread * off)
        at = -1
        largest = 0.0
        another = 0.0
        for k in range(count, n):
            here = float(w[order[k]])
            if here - here != 0.0:
                raise NotImplementedError  # not finite, or too large
            if here > largest:
                another = largest
                largest = here
                at = k
            elif here > another:
                another = here
        if at < 0 or largest <= noise * float(lengths[order[at]]):
            for k in range(count, n):
                j = int(order[k])
                length = float(lengths[j])
                if float(w[j]) > -noise * length:
                    for i in range(m):
                        part[i] = a[i, j]
                    far = _orthogonal(part, length, q, count, z)
                    if is_close or far > _NOISE * length:
                        raise NotImplementedError
            break
        j = int(order[at])
        is_close = is_close or largest - another <= noise * float(lengths[j])
        for i in range(m):
            part[i] = a[i, j]
        length = _orthogonal(part, float(lengths[j]), q, count, r[count])
        if length < _APART * float(lengths[j]):
            raise NotImplementedError
        order[at] = order[count]
        order[count] = j
        r[count, count] = length
        for i in range(m):
            q[count, i] = float(part[i]) / length
        along[count] = _dot(q[count], rest)
        count += 1
        while True:
            near = _solved(r, along, count, z)
            rounds += 1
            if rounds >= most:
                raise RuntimeError
            alpha = 2.0
            first = 0
            for k in range(count):
                here = float(z[k])
                if abs(here) <= near:
                    raise NotImplementedError
                if here <= 0.0:
                    before = float(x[order[k]])
                    share = -before / (here - before)
                    is_close = is_close or abs(alpha - share) < _APART
                    if alpha > share:
                        alpha = share
                        first = k
            if alpha == 2.0:
                break
            for k in range(count):
                before = float(x[order[k]])
                x[order[k]] = before + alpha * (float(z[k]) - before)
            while first < count:
                j = int(order[first])
                x[j] = 0.0
                _without(q, r, along, first, count)
                count -= 1
                for k in range(first, count):
                    order[k] = order[k + 1]
                order[count] = j
                first = 0
                while first < count and float(x[order[first]]) > 0.0:
                    first += 1
        for i in range(m):
            rest[i] = b[i]
        spread = 1.0
        for k in range(count):
            j = int(order[k])
            x[j] = z[k]
            spread = max(spread, float(lengths[j]) / float(r[k, k]))
            for i in range(m):
                rest[i] = float(rest[i]) - float(along[k]) * float(q[k, i])
        off = math.sqrt(_dot(rest, rest) + max(beyond, 0.0) * max(beyond, 0.0))
    if count == m and beyond < 0.0:
        if is_close:
            raise NotImplementedError
        off = 0.0
    elif off < _APART * size:
        raise NotImplementedError
    return x, np.float64(off)


def _factored(part: Any, length: float, q: Any, r: Any, k: int, rest: Any) -> float:
    """Make a row of numbers the k-th of the factors: how much of what is left lies along it."""
    size = _orthogonal(part, length, q, k, r[k])
    if not size > _APART * length:
        raise NotImplementedError
    r[k, k] = size
    for i in range(len(part)):
        q[k, i] = float(part[i]) / size
    along = _dot(q[k], rest)
    for i in range(len(part)):
        rest[i] = float(rest[i]) - along * float(q[k, i])
    return along


def _of_free(a: Any, b: Any, x: Any, held: Any, lengths: Any, q: Any, r: Any, z: Any) -> float:
    """Least squares of numbers that are not held, one after the other in `z`; what is rounding."""
    m, n = a.shape
    rest = b.copy()
    part = np.zeros(m)
    along = np.zeros(n)
    for j in range(n):
        if float(held[j]) != 0.0:
            for i in range(m):
                rest[i] = float(rest[i]) - float(a[i, j]) * float(x[j])
    count = 0
    for j in range(n):
        if float(held[j]) == 0.0:
            for i in range(m):
                part[i] = a[i, j]
            along[count] = _factored(part, float(lengths[j]), q, r, count, rest)
            count += 1
    return _solved(r, along, count, z)


def _system(a: Any, b: Any, x: Any, off: Any, g: Any) -> float:
    """What a place leaves, and the slopes there: half the sum of squares."""
    for i in range(len(b)):
        off[i] = _dot(a[i], x) - float(b[i])
    _products(a, off, g)
    squares = _dot(off, off)
    if math.sqrt(squares) < _APART * math.sqrt(_dot(b, b)):
        raise NotImplementedError  # what is left is rounding
    return 0.5 * squares


def _steepest(g: Any, held: Any) -> float:
    """How much more could be had: by numbers that are free, and by those that are let go."""
    most = -math.inf
    for j in range(len(g)):
        here = float(g[j]) * float(held[j])
        most = max(most, here if float(held[j]) != 0.0 else abs(float(g[j])))
    return most


def _beyond(z: float, low: float, high: float, near: float) -> float:
    """On which side of its bounds a number is; raised is where rounding would decide that."""
    if not (abs(z - low) > near and abs(z - high) > near):
        raise NotImplementedError
    return -1.0 if z < low else 1.0 if z > high else 0.0


def _by_sets(
    a: Any, b: Any, x: Any, held: Any, lower: Any, upper: Any, lengths: Any, tol: float, most: int
) -> Any:  # fmt: skip
    """SciPy's "bvls": numbers that are at a bound, and those that are free."""
    m, n = a.shape
    q = np.empty((n, m))
    r = np.empty((n, n))
    z = np.zeros(n)
    off = np.zeros(m)
    g = np.zeros(n)
    rounds = status = 0
    is_outside = True
    while is_outside:
        is_outside = False
        count = 0
        for j in range(n):
            count += 1 if float(held[j]) == 0.0 else 0
        if count == 0:
            break
        rounds += 1
        near = _of_free(a, b, x, held, lengths, q, r, z)
        count = 0
        for j in range(n):
            if float(held[j]) == 0.0:
                here = float(z[count])
                count += 1
                side = _beyond(here, float(lower[j]), float(upper[j]), near)
                is_outside = is_outside or side != 0.0
                held[j] = side
                x[j] = lower[j] if side < 0.0 else upper[j] if side > 0.0 else here
    cost = _system(a, b, x, off, g)
    most = rounds + (most if most > 0 else n)
    size = math.sqrt(_dot(b, b))
    longest = 0.0
    for j in range(n):
        longest = max(longest, float(lengths[j]))
    while True:
        steepest = _steepest(g, held)
        if rounds == most:
            rounds -= 1
            break
        if abs(steepest - tol) <= _NOISE * size * longest:
            raise NotImplementedError
        if steepest < tol:
            status = 1
        if status != 0:
            break
        at = 0
        for j in range(n):
            if float(g[j]) * float(held[j]) > float(g[at]) * float(held[at]):
                at = j
        held[at] = 0.0
        while True:
            near = _of_free(a, b, x, held, lengths, q, r, z)
            alpha = math.inf
            at = -1
            towards = 0.0
            count = 0
            for j in range(n):
                if float(held[j]) == 0.0:
                    here = float(x[j])
                    there = float(z[count])
                    count += 1
                    side = _beyond(there, float(lower[j]), float(upper[j]), near)
                    if side != 0.0:
                        end = float(lower[j]) if side < 0.0 else float(upper[j])
                        share = (end - here) / (there - here)
                        if share < alpha or (share == alpha and side < towards):
                            alpha = share
                            at = j
                            towards = side
            count = 0
            for j in range(n):
                if float(held[j]) == 0.0:
                    there = float(z[count])
                    x[j] = there if at < 0 else float(x[j]) * (1.0 - alpha) + alpha * there
                    count += 1
            if at < 0:
                break
            held[at] = towards
        before = cost
        cost = _system(a, b, x, off, g)
        if abs(before - cost - tol * before) <= _NOISE * before:
            raise NotImplementedError
        if before - cost < tol * before:
            status = 2
        rounds += 1
    return x, off, cost, steepest, held, rounds + 1, status


def _by_reflections(
    a: Any, b: Any, x: Any, lower: Any, upper: Any, tol: float
) -> Any:  # fmt: skip
    """SciPy's "trf": steps that are reflected at bounds."""
    m, n = a.shape
    q = np.empty((n, m + n))
    r = np.empty((n, n))
    off = np.zeros(m)
    g = np.zeros(n)
    v = np.zeros(n)
    dv = np.zeros(n)
    d = np.zeros(n)
    scaled = np.zeros(n)
    along = np.zeros(n)
    step = np.zeros(n)
    part = np.zeros(m + n)
    rest = np.zeros(m + n)
    for j in range(n):
        here = float(x[j])
        low = float(lower[j])
        high = float(upper[j])
        if low > -math.inf and high < math.inf:
            here = (here - low) % (2.0 * (high - low))
            here = low + min(here, 2.0 * (high - low) - here)
        elif low > -math.inf:
            here = max(here, 2.0 * low - here)
        elif high < math.inf:
            here = min(here, 2.0 * high - here)
        x[j] = here
    inside(x, lower, upper, 0.1)
    cost = _system(a, b, x, off, g)
    status = 0
    for _ in range(100):
        steepest = scaling(x, g, lower, upper, v, dv)
        if steepest < tol:
            status = 1
        if status != 0:
            break
        for i in range(m + n):
            rest[i] = float(off[i]) if i < m else 0.0
        for j in range(n):
            d[j] = math.sqrt(float(v[j]))
            scaled[j] = float(d[j]) * float(g[j])
            for i in range(m):
                part[i] = float(a[i, j]) * float(d[j])
            for i in range(n):
                part[m + i] = math.sqrt(float(g[j]) * float(dv[j])) if i == j else 0.0
            along[j] = _factored(part, math.sqrt(_dot(part, part)), q, r, j, rest)
        _solved(r, along, n, step)
        falls = 0.0
        for j in range(n):
            step[j] = -float(step[j])
            falls += float(scaled[j]) * float(step[j])
        if falls > 0.0:
            status = -1
        theta = 1.0 - min(0.005, steepest)
        chosen(x, r, scaled, step, d, FAR, lower, upper, theta)
        change = 0.0
        for j in range(n):
            step[j] = float(d[j]) * float(step[j])
            change -= float(g[j]) * float(step[j])
        for i in range(m):
            here = _dot(a[i], step)
            change -= 0.5 * here * here
        if change < 0.0:
            raise NotImplementedError
        for j in range(n):
            x[j] = float(x[j]) + float(step[j])
        inside(x, lower, upper, 0.0)
        if change < tol * cost:
            status = 2
        cost = _system(a, b, x, off, g)
    return x, off, cost, status


def lsq_linear(a: Any, b: Any, ends: Any, by: Any, tol: float, most: int) -> Any:
    """``scipy.optimize.lsq_linear``; `by`: something for "bvls", else None."""
    m, n = a.shape
    lower = spread(ends[0], n)
    upper = spread(ends[1], n)
    if len(b) != m or len(lower) != n or len(upper) != n:
        raise ValueError
    if m < n or n == 0:
        raise NotImplementedError
    x = np.zeros(n)
    held = np.zeros(n)
    lengths = np.zeros(n)
    _lengths(a, lengths)
    near = _of_free(a, b, x, held, lengths, np.empty((n, m)), np.empty((n, n)), x)
    if near - near != 0.0:
        raise NotImplementedError
    is_inside = True
    for j in range(n):
        if float(lower[j]) >= float(upper[j]):
            raise ValueError
        held[j] = _beyond(float(x[j]), float(lower[j]), float(upper[j]), near)
        is_inside = is_inside and float(held[j]) == 0.0
    if is_inside:
        off = np.zeros(m)
        g = np.zeros(n)
        cost = _system(a, b, x, off, g)
        if by is None:
            return _result_of_trf((x, off, cost, 3))
        return _result((x, off, cost, _steepest(g, held), held, 0, 3))
    if by is None:
        if most != 0:
            raise NotImplementedError  # whether it got there, last bits may decide
        return _result_of_trf(_by_reflections(a, b, x, lower, upper, tol))
    for j in range(n):
        if float(held[j]) != 0.0:
            x[j] = lower[j] if float(held[j]) < 0.0 else upper[j]
    return _result(_by_sets(a, b, x, held, lower, upper, lengths, tol, most))


def _result(found: Any) -> Any:
    x, off, cost, steepest, held, rounds, status = found
    return Result(
        x=x, fun=off, cost=np.float64(cost), optimality=np.float64(steepest), active_mask=held,
        nit=rounds, status=status, success=status > 0, message=_MESSAGES[status],
    )  # fmt: skip


def _result_of_trf(found: Any) -> Any:
    """The part that last bits do not decide: near a bound steps of two kinds cost the same.

    Which of them is taken decides the rounds, what ends them, and which numbers are at a bound.
    """
    x, off, cost, status = found
    return Result(x=x, fun=off, cost=np.float64(cost), success=status > 0)


_MESSAGES = (
    "The maximum number of iterations is exceeded.",
    "The first-order optimality measure is less than `tol`.",
    "The relative change of the cost function is less than `tol`.",
    "The unconstrained solution is optimal.",
    "The algorithm was not able to make progress on the last iteration.",
)
"""By the status; the last one is of -1."""
