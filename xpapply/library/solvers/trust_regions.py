"""Least squares within bounds, by reflected steps in a trust region, for the compiler.

Sources: M. A. Branch, T. F. Coleman and Y. Li, "A subspace, interior, and conjugate gradient method
for large-scale bound-constrained minimization problems", SIAM Journal on Scientific Computing 21
(1999) 1; J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978 (the step
of a given length); G. H. Golub and C. F. Van Loan, Matrix Computations, 4th edition, 5.2 and 8.6
(Householder's factors, and singular values by rotations of columns).

Steps and constants are those of SciPy's ``least_squares``, which leaves sums and singular values to
the linear algebra of the machine: results are equal to rounding. A matrix of m rows and n columns
is held by its columns, as in ``of_fits``, which also says what is raised.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_fits import change

_EPS = float(np.finfo(float).eps)
_STEP = math.sqrt(_EPS)
FAR = 1e150
"""How long steps may be if nothing but bounds ends them."""
_HALF = 0.5 * _EPS * (1.0 + _EPS)
"""Of a number, a little more than half of what it is to the next one."""


def dot(a: Any, b: Any) -> float:
    """The product of two rows of numbers."""
    total = 0.0
    for i in range(len(a)):
        total += float(a[i]) * float(b[i])
    return total


def differences(f: Any, x: Any, values: Any, lower: Any, upper: Any, a: Any) -> None:
    """Put what `f` changes by near `x` into `a`: one step each, within bounds."""
    for j in range(len(x)):
        here = float(x[j])
        h = _STEP * max(1.0, abs(here))
        if here < 0.0:
            h = -h
        below = here - float(lower[j])
        above = float(upper[j]) - here
        if h > above or -h > below:
            if abs(h) <= max(below, above):
                h = -h
            else:
                h = above if above >= below else -below
        x[j] = here + h
        d = float(x[j]) - here
        there = f(x)
        x[j] = here
        change(there, values, d, a[j])


def singular(a: Any, values: Any, sizes: Any, axes: Any, r: Any, along: Any) -> None:
    """Singular values of a matrix of at least as many rows as columns, which is written over.

    Its first rows become R of its Householder factors, which are turned into orthogonal columns.

    Parameters
    ----------
    values : ndarray
        A right side, which is written over.
    sizes : ndarray, shape (n,)
        The singular values, in any order.
    axes, r : ndarray, shape (n, n)
        The columns of V, and those of R.
    along : ndarray, shape (n,)
        The right side along the columns of U.
    """
    n = len(a)
    m = len(a[0])
    for j in range(n):
        size = 0.0
        for i in range(j, m):
            size += float(a[j, i]) * float(a[j, i])
        size = math.sqrt(size)
        if size != 0.0:
            if float(a[j, j]) > 0.0:
                size = -size
            # the vector of the reflection: its length, squared and halved, is size * (size - first)
            first = float(a[j, j]) - size
            for k in range(j + 1, n + 1):
                total = 0.0
                for i in range(j + 1, m):
                    total += float(a[j, i]) * float(a[k, i] if k < n else values[i])
                total += first * float(a[k, j] if k < n else values[j])
                part = total / (size * first)
                if k < n:
                    a[k, j] += part * first
                    for i in range(j + 1, m):
                        a[k, i] += part * float(a[j, i])
                else:
                    values[j] += part * first
                    for i in range(j + 1, m):
                        values[i] += part * float(a[j, i])
            a[j, j] = size
    for j in range(n):
        for i in range(n):
            axes[j, i] = 1.0 if i == j else 0.0
            r[j, i] = a[j, i] if i <= j else 0.0
            a[j, i] = r[j, i]
    for _ in range(30):
        is_done = True
        for j in range(n - 1):
            for k in range(j + 1, n):
                p = dot(a[j, :n], a[j, :n])
                q = dot(a[k, :n], a[k, :n])
                both = dot(a[j, :n], a[k, :n])
                if abs(both) <= _EPS * math.sqrt(p) * math.sqrt(q):
                    continue
                is_done = False
                part = (q - p) / (2.0 * both)
                tangent = 1.0 / (abs(part) + math.sqrt(1.0 + part * part))
                if part < 0.0:
                    tangent = -tangent
                cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
                sine = cosine * tangent
                for i in range(n):
                    here = float(a[j, i])
                    a[j, i] = cosine * here - sine * float(a[k, i])
                    a[k, i] = sine * here + cosine * float(a[k, i])
                    here = float(axes[j, i])
                    axes[j, i] = cosine * here - sine * float(axes[k, i])
                    axes[k, i] = sine * here + cosine * float(axes[k, i])
        if is_done:
            break
    for j in range(n):
        size = math.sqrt(dot(a[j, :n], a[j, :n]))
        sizes[j] = size
        along[j] = dot(a[j, :n], values[:n]) / size if size != 0.0 else 0.0


def _shortened(sizes: Any, along: Any, alpha: float) -> tuple[float, float]:
    """The length of the step that `alpha` shortens, and how quickly it does, but for its sign."""
    squares = 0.0
    cubes = 0.0
    for j in range(len(sizes)):
        part = float(sizes[j]) * float(along[j])
        damped = float(sizes[j]) * float(sizes[j]) + alpha
        if part != 0.0:
            squares += part / damped * (part / damped)
            cubes += part / damped * (part / damped) / damped
    length = math.sqrt(squares)
    return length, cubes / length if length > 0.0 else 0.0


def _step(
    sizes: Any, along: Any, axes: Any, m: int, delta: float, alpha: float, step: Any
) -> float:
    """Moré's parameter for a step of about a length; the step in `step`."""
    n = len(sizes)
    largest = 0.0
    smallest = math.inf
    slope = 0.0
    for j in range(n):
        largest = max(largest, float(sizes[j]))
        smallest = min(smallest, float(sizes[j]))
        part = float(sizes[j]) * float(along[j])
        slope += part * part
    is_full = m >= n and smallest > _EPS * m * largest
    lower = 0.0
    upper = math.sqrt(slope) / delta
    exact = is_full
    if is_full:
        length, falls = _shortened(sizes, along, 0.0)
        if length <= delta:
            alpha = 0.0
        else:
            exact = False
            lower = (length - delta) / falls
    if not exact:
        if slope == 0.0:
            raise NotImplementedError
        if alpha == 0.0 and not is_full:
            alpha = max(0.001 * upper, math.sqrt(lower * upper))
        for _ in range(10):
            if alpha < lower or alpha > upper:
                alpha = max(0.001 * upper, math.sqrt(lower * upper))
            length, falls = _shortened(sizes, along, alpha)
            over = length - delta
            if over < 0.0:
                upper = alpha
            ratio = -over / falls
            lower = max(lower, alpha - ratio)
            alpha -= (over + delta) * ratio / delta
            if abs(over) < 0.01 * delta:
                break
    for i in range(n):
        step[i] = 0.0
    for j in range(n):
        damped = float(sizes[j]) * float(sizes[j]) + alpha
        part = float(sizes[j]) * float(along[j])
        if part != 0.0:
            part = float(along[j]) / float(sizes[j]) if exact else part / damped
        for i in range(n):
            step[i] -= float(axes[j, i]) * part
    if not exact:
        part = delta / math.sqrt(dot(step, step))
        for i in range(n):
            step[i] *= part
    return alpha


def _to_bound(x: Any, step: Any, lower: Any, upper: Any) -> float:
    """How far one may go along a step until the first bound, in steps."""
    least = math.inf
    for j in range(len(x)):
        least = min(least, _to_own_bound(x, step, lower, upper, j))
    return least


def _to_own_bound(x: Any, step: Any, lower: Any, upper: Any, j: int) -> float:
    part = float(step[j])
    if part == 0.0:
        return math.inf
    return max((float(lower[j]) - float(x[j])) / part, (float(upper[j]) - float(x[j])) / part)


def _product(r: Any, s: Any, k: int) -> float:
    """A row of R times a step."""
    total = 0.0
    for j in range(k, len(s)):
        total += float(r[j, k]) * float(s[j])
    return total


def _along(r: Any, g: Any, base: Any, s: Any) -> tuple[float, float, float]:
    """The model of the costs as a polynomial of t, on ``base + t * s``: its coefficients."""
    a = 0.0
    b = dot(g, s)
    c = dot(g, base)
    for k in range(len(s)):
        there = _product(r, s, k)
        here = _product(r, base, k)
        a += 0.5 * there * there
        b += here * there
        c += 0.5 * here * here
    return a, b, c


def _least(a: float, b: float, c: float, low: float, high: float) -> tuple[float, float]:
    """Where a polynomial is least between two places, and its value there."""
    t = low
    y = low * (a * low + b) + c
    there = high * (a * high + b) + c
    if there < y:
        t = high
        y = there
    if a != 0.0:
        best = -0.5 * b / a
        if low < best < high:
            there = best * (a * best + b) + c
            if there < y:
                t = best
                y = there
    return t, y


def chosen(
    x: Any, r: Any, g: Any, step: Any, d: Any, delta: float, lower: Any, upper: Any, theta: float
) -> float:
    """The best of a step that ends at the first bound, one that is reflected, and one downhill.

    `step` is written over; the value is by how much the costs should fall.
    """
    n = len(x)
    zero = np.zeros(n)
    is_inside = True
    for j in range(n):
        there = float(x[j]) + float(d[j]) * float(step[j])
        is_inside = is_inside and float(lower[j]) <= there <= float(upper[j])
    if is_inside:
        a, b, _ = _along(r, g, zero, step)
        return -(a + b)
    moved = d * step
    to_bound = _to_bound(x, moved, lower, upper)
    other = step.copy()
    on_bound = np.zeros(n)
    for j in range(n):
        if _to_own_bound(x, moved, lower, upper, j) == to_bound:
            other[j] = -float(other[j])
        on_bound[j] = float(x[j]) + float(moved[j]) * to_bound
        step[j] *= to_bound
        moved[j] = float(d[j]) * float(other[j])
    a = dot(other, other)
    b = dot(step, other)
    c = dot(step, step) - delta * delta
    if a == 0.0 or c > 0.0 or b * b - a * c < 0.0:
        raise NotImplementedError
    part = -(b + math.copysign(math.sqrt(b * b - a * c), b))
    if part == 0.0:
        raise NotImplementedError
    to_edge = max(part / a, c / part)
    to_other = _to_bound(on_bound, moved, lower, upper)
    most = min(to_other, to_edge)
    low = 0.0
    high = -1.0
    if most > 0.0:
        # of what is linear SciPy's steps end at bounds alone, and begin at a share of themselves
        low = (1.0 - theta) * (to_other if delta == FAR else to_bound / most)
        high = theta * to_other if most == to_other else to_edge
    reflected = math.inf
    if low <= high:
        a, b, c = _along(r, g, step, other)
        part, reflected = _least(a, b, c, low, high)
        for j in range(n):
            other[j] = float(other[j]) * part + float(step[j])
    for j in range(n):
        step[j] *= theta
        moved[j] = -float(d[j]) * float(g[j])
    a, b, _ = _along(r, g, zero, step)
    straight = a + b
    downhill = -g
    high = delta / math.sqrt(dot(g, g))
    to_bound = _to_bound(x, moved, lower, upper)
    if to_bound < high:
        high = theta * to_bound
    a, b, _ = _along(r, g, zero, downhill)
    part, lowest = _least(a, b, 0.0, 0.0, high)
    if straight < reflected and straight < lowest:
        return -straight
    is_reflected = reflected < straight and reflected < lowest
    for j in range(n):
        step[j] = float(other[j]) if is_reflected else float(downhill[j]) * part
    return -reflected if is_reflected else -lowest


def _next(x: float, way: float) -> float:
    """The next number up or down."""
    part = _HALF * abs(x)
    return x + way * (part if part > 0.0 else 5e-324)


def inside(x: Any, lower: Any, upper: Any, far: float) -> None:
    """Move a place off the bounds, by a share of them or to the next number."""
    for j in range(len(x)):
        here = float(x[j])
        low = float(lower[j])
        high = float(upper[j])
        below = here - low
        above = high - here
        near_low = 0.0 if far == 0.0 else far * max(1.0, abs(low))
        near_high = 0.0 if far == 0.0 else far * max(1.0, abs(high))
        if high < math.inf and above <= min(below, near_high):
            here = _next(high, -1.0) if far == 0.0 else high - near_high
        elif low > -math.inf and below <= min(above, near_low):
            here = _next(low, 1.0) if far == 0.0 else low + near_low
        if here < low or here > high:
            here = 0.5 * (low + high)
        x[j] = here


def scaling(x: Any, g: Any, lower: Any, upper: Any, v: Any, dv: Any) -> float:
    """How far it is to the bounds downhill, what that changes by; the largest scaled slope."""
    steepest = 0.0
    for j in range(len(x)):
        v[j] = 1.0
        dv[j] = 0.0
        if float(g[j]) < 0.0 and float(upper[j]) < math.inf:
            v[j] = float(upper[j]) - float(x[j])
            dv[j] = -1.0
        if float(g[j]) > 0.0 and float(lower[j]) > -math.inf:
            v[j] = float(x[j]) - float(lower[j])
            dv[j] = 1.0
        steepest = max(steepest, abs(float(g[j]) * float(v[j])))
    return steepest


def soft_l1(z: float) -> tuple[float, float, float]:
    """A loss, and how it bends: with its first and second derivatives."""
    t = math.sqrt(1.0 + z)
    return 2.0 * (t - 1.0), 1.0 / t, -0.5 / (t * t * t)


def huber(z: float) -> tuple[float, float, float]:
    """The same, linear beyond 1."""
    if z <= 1.0:
        return z, 1.0, 0.0
    t = math.sqrt(z)
    return 2.0 * t - 1.0, 1.0 / t, -0.5 / (t * t * t)


def cauchy(z: float) -> tuple[float, float, float]:
    """The same, a logarithm."""
    t = 1.0 + z
    return math.log1p(z), 1.0 / t, -1.0 / (t * t)


def arctan(z: float) -> tuple[float, float, float]:
    """The same, which ends."""
    t = 1.0 + z * z
    return math.atan(z), 1.0 / t, -2.0 * z / (t * t)


def costs(values: Any, loss: Any, size: float) -> float:
    """Half the sum of squares, or of a loss of them."""
    if loss is None:
        return 0.5 * dot(values, values)
    total = 0.0
    for i in range(len(values)):
        part = float(values[i]) / size
        total += loss(part * part)[0]
    return 0.5 * size * size * total


def weigh(values: Any, a: Any, loss: Any, size: float) -> Any:
    """Residuals, and the Jacobian in place, as squares have them that are like a loss."""
    if loss is None:
        return values
    found = values.copy()
    for i in range(len(values)):
        here = float(values[i])
        part = here / size
        _, slope, bent = loss(part * part)
        part = math.sqrt(max(slope + 2.0 * (bent / (size * size)) * (here * here), _EPS))
        found[i] = here * (slope / part)
        for j in range(len(a)):
            a[j, i] *= part
    return found


def scale_by(a: Any, scales: Any, inverse: Any) -> None:
    """Put one divided by each scale into `inverse`; None: as the Jacobian says, and said before."""
    for j in range(len(a)):
        if scales is not None:
            inverse[j] = 1.0 / float(scales[j])
        else:
            part = math.sqrt(dot(a[j], a[j]))
            inverse[j] = max(part, float(inverse[j]))
            if float(inverse[j]) == 0.0:
                inverse[j] = 1.0


def ended(
    actual: float, cost: float, walked: float, length: float, ratio: float, limits: Any
) -> int:
    """Whether little has changed: of the costs 2, of the place 3, of both 4."""
    ftol, xtol, _ = limits
    status = 0
    if actual < ftol * cost and ratio > 0.25:
        status = 2
    if walked < xtol * (xtol + length):
        status = 4 if status == 2 else 3
    return status


def is_finite(values: Any) -> bool:
    """Whether all are."""
    return bool(np.isfinite(values).all())


def reflective(
    f: Any, columns: Any, x: Any, values: Any, lower: Any, upper: Any, most: int, scales: Any,
    loss: Any, size: float, limits: Any,
) -> Any:  # fmt: skip
    """SciPy's "trf". `x` is moved to where the sum of squares of ``f(x)`` is least.

    Parameters
    ----------
    columns : callable
        ``columns(x, values, a)`` puts the Jacobian into `a`.
    values : ndarray of float, shape (m,)
        ``f(x)``, which is written over by the new one.
    scales : ndarray of float or None
        What is about a step of each parameter. None: as the Jacobian says.
    loss, size : callable or None, float
        Of the squares of residuals that are divided by the size.
    limits : tuple
        Tolerances of costs, of steps, and of slopes.

    Returns
    -------
    status, nfev, njev : int
        Why it ended, and how often `f` and the Jacobian were asked for.
    cost, optimality : float
    a, g : ndarray
        The last Jacobian, and the slopes.
    """
    n = len(x)
    m = len(values)
    a = np.zeros((n, m))
    work = np.zeros((n, m + n))
    right = np.zeros(m + n)
    r = np.zeros((n, n))
    axes = np.zeros((n, n))
    sizes = np.zeros(n)
    along = np.zeros(n)
    g = np.zeros(n)
    v = np.zeros(n)
    dv = np.zeros(n)
    d = np.zeros(n)
    scaled = np.zeros(n)
    step = np.zeros(n)
    inverse = np.zeros(n)
    moved = np.zeros(n)
    alpha = 0.0
    delta = 0.0
    calls = 1
    slopes = 0
    status = 0
    actual = 1.0
    cost = costs(values, loss, size)
    after = 0.0
    tried = values
    while True:
        if actual > 0.0:
            columns(x, values, a)
            slopes += 1
            weighed = weigh(values, a, loss, size)
            for j in range(n):
                g[j] = dot(a[j], weighed)
            scale_by(a, scales, inverse)
            for i in range(m + n):
                right[i] = weighed[i] if i < m else 0.0
        optimality = scaling(x, g, lower, upper, v, dv)
        if optimality < limits[2]:
            status = 1
        if status != 0 or calls == most:
            return status, calls, slopes, cost, optimality, a, g
        for j in range(n):
            if float(dv[j]) != 0.0:
                v[j] *= float(inverse[j])
            part = math.sqrt(float(v[j]))
            moved[j] = float(x[j]) * float(inverse[j]) / part
            d[j] = part / float(inverse[j])
            scaled[j] = float(d[j]) * float(g[j])
            part = math.sqrt(float(g[j]) * float(dv[j]) / float(inverse[j]))
            for i in range(m):
                work[j, i] = float(a[j, i]) * float(d[j])
            for i in range(n):
                work[j, m + i] = part if i == j else 0.0
        if delta == 0.0:
            delta = math.sqrt(dot(moved, moved))
            if delta == 0.0:
                delta = 1.0
        singular(work, right, sizes, axes, r, along)
        theta = max(0.995, 1.0 - optimality)
        actual = -1.0
        while actual <= 0.0 and calls < most:
            alpha = _step(sizes, along, axes, m, delta, alpha, step)
            predicted = chosen(x, r, scaled, step, d, delta, lower, upper, theta)
            for j in range(n):
                moved[j] = float(x[j]) + float(d[j]) * float(step[j])
            inside(moved, lower, upper, 0.0)
            tried = f(moved)
            calls += 1
            walked = math.sqrt(dot(step, step))
            if not is_finite(tried):
                delta = 0.25 * walked
                continue
            after = costs(tried, loss, size)
            actual = cost - after
            before = delta
            ratio = 1.0 if predicted == actual == 0.0 else 0.0
            if predicted > 0.0:
                ratio = actual / predicted
            if ratio < 0.25:
                delta = 0.25 * walked
            elif ratio > 0.75 and walked > 0.95 * delta:
                delta *= 2.0
            for j in range(n):
                step[j] *= float(d[j])
            walked = math.sqrt(dot(step, step))
            status = ended(actual, cost, walked, math.sqrt(dot(x, x)), ratio, limits)
            if status != 0:
                break
            alpha *= before / delta
        if actual > 0.0:
            for j in range(n):
                x[j] = moved[j]
            for i in range(m):
                values[i] = tried[i]
            cost = after
