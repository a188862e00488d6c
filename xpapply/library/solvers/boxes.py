"""Least squares within bounds, by dogleg steps in a box, for the compiler.

Sources: C. Voglis and I. E. Lagaris, "A rectangular trust region dogleg approach for unconstrained
and bound constrained nonlinear optimization", WSEAS International Conference on Applied
Mathematics, Corfu 2004; J. Nocedal and S. J. Wright, Numerical Optimization, Springer 2006, 4.1.

Steps and constants are those of SciPy's "dogbox". The step of Gauss and Newton, which SciPy leaves
to LAPACK, is of singular values as in ``trust_regions``: results are equal to rounding. What is
raised is said in ``of_fits``, and how matrices are held.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .trust_regions import costs, dot, ended, is_finite, scale_by, singular, weigh

_HALF_EPS = 0.5 * float(np.finfo(float).eps)
_NOTHING, _LOWER, _UPPER = 0, 1, 2
"""Which end of a box is met."""


def _to_end(x: Any, step: Any, low: Any, high: Any, j: int) -> float:
    """How far one may go along a step until an end of the box, in steps."""
    part = float(step[j])
    if part == 0.0:
        return math.inf
    return max((float(low[j]) - float(x[j])) / part, (float(high[j]) - float(x[j])) / part)


def _to_box(x: Any, step: Any, low: Any, high: Any) -> float:
    """The same until the first of all ends."""
    least = math.inf
    for j in range(len(x)):
        least = min(least, _to_end(x, step, low, high, j))
    return least


def _newton(a: Any, values: Any, own: Any, count: int, step: Any) -> None:
    """The step of Gauss and Newton in the variables that are free: the shortest one."""
    m = len(values)
    work = np.zeros((count, m + count))
    right = np.zeros(m + count)
    for i in range(m):
        right[i] = values[i]
        for k in range(count):
            work[k, i] = a[own[k], i]
    sizes = np.zeros(count)
    axes = np.zeros((count, count))
    along = np.zeros(count)
    singular(work, right, sizes, axes, np.zeros((count, count)), along)
    most = float(np.max(sizes))
    for k in range(count):
        step[k] = 0.0
    for j in range(count):
        if float(sizes[j]) > _HALF_EPS * most:
            part = float(along[j]) / float(sizes[j])
            for k in range(count):
                step[k] -= float(axes[j, k]) * part


def _modelled(a: Any, g: Any, own: Any, step: Any) -> tuple[float, float]:
    """Half the square of what residuals change by along a step, and the slope along it."""
    total = 0.0
    slope = 0.0
    for k in range(len(step)):
        slope += float(g[own[k]]) * float(step[k])
    for i in range(len(a[0])):
        part = 0.0
        for k in range(len(step)):
            part += float(a[own[k], i]) * float(step[k])
        total += part * part
    return 0.5 * total, slope


def rectangular(
    f: Any, columns: Any, x: Any, values: Any, lower: Any, upper: Any, most: int, scales: Any,
    loss: Any, size: float, limits: Any,
) -> Any:  # fmt: skip
    """SciPy's "dogbox": arguments and results are those of ``trust_regions.reflective``."""
    n = len(x)
    m = len(values)
    a = np.zeros((n, m))
    g = np.zeros(n)
    inverse = np.zeros(n)
    own = np.zeros(n, int)
    met = np.zeros(n, int)
    on_bound = np.zeros(n, int)
    moved = np.zeros(n)
    whole = np.zeros(n)
    delta = 0.0
    calls = 1
    slopes = 0
    status = 0
    actual = 1.0
    cost = costs(values, loss, size)
    after = 0.0
    tried = values
    weighed = values
    for j in range(n):
        if float(x[j]) == float(lower[j]):
            on_bound[j] = _LOWER
        if float(x[j]) == float(upper[j]):
            on_bound[j] = _UPPER
    while True:
        if actual > 0.0:
            columns(x, values, a)
            slopes += 1
            weighed = weigh(values, a, loss, size)
            for j in range(n):
                g[j] = dot(a[j], weighed)
            scale_by(a, scales, inverse)
            if delta == 0.0:
                for j in range(n):
                    delta = max(delta, abs(float(x[j]) * float(inverse[j])))
                if delta == 0.0:
                    delta = 1.0
        optimality = 0.0
        count = 0
        for j in range(n):
            is_held = (on_bound[j] == _LOWER and float(g[j]) > 0.0) or (
                on_bound[j] == _UPPER and float(g[j]) < 0.0
            )
            if not is_held:
                optimality = max(optimality, abs(float(g[j])))
                own[count] = j
                count += 1
        if optimality < limits[2]:
            status = 1
        if status != 0 or calls == most:
            return status, calls, slopes, cost, optimality, a, g
        newton = np.zeros(count)
        down = np.zeros(count)
        step = np.zeros(count)
        zero = np.zeros(count)
        rest = np.zeros(count)
        edges = np.zeros(count)
        low = np.zeros(count)
        high = np.zeros(count)
        _newton(a, weighed, own, count, newton)
        for k in range(count):
            down[k] = -float(g[own[k]])
        bend, slope = _modelled(a, g, own, down)
        actual = -1.0
        while actual <= 0.0 and calls < most:
            is_inside = True
            for k in range(count):
                j = own[k]
                scale = 1.0 / float(inverse[j]) if scales is None else float(scales[j])
                edges[k] = delta * scale
                low[k] = max(float(lower[j]) - float(x[j]), -float(edges[k]))
                high[k] = min(float(upper[j]) - float(x[j]), float(edges[k]))
                is_inside = is_inside and float(low[k]) <= float(newton[k]) <= float(high[k])
                step[k] = newton[k]
                met[k] = _NOTHING
            is_on_edge = False
            if not is_inside:
                far = _to_box(zero, down, low, high)
                part = far if far * (bend * far + slope) < 0.0 else 0.0
                if bend != 0.0:
                    best = -0.5 * slope / bend
                    least = part * (bend * part + slope)
                    if 0.0 < best < far and best * (bend * best + slope) < least:
                        part = best
                for k in range(count):
                    step[k] = part * float(down[k])
                    rest[k] = float(newton[k]) - float(step[k])
                far = _to_box(step, rest, low, high)
                for k in range(count):
                    if _to_end(step, rest, low, high, k) == far:
                        j = own[k]
                        if float(rest[k]) < 0.0:
                            if float(low[k]) == float(lower[j]) - float(x[j]):
                                met[k] = _LOWER
                            is_on_edge = is_on_edge or float(low[k]) == -float(edges[k])
                        if float(rest[k]) > 0.0:
                            if float(high[k]) == float(upper[j]) - float(x[j]):
                                met[k] = _UPPER
                            is_on_edge = is_on_edge or float(high[k]) == float(edges[k])
                for k in range(count):
                    step[k] += far * float(rest[k])
            square, slanted = _modelled(a, g, own, step)
            predicted = -(square + slanted)
            walked = 0.0
            for j in range(n):
                whole[j] = x[j]
            for k in range(count):
                j = own[k]
                whole[j] = float(x[j]) + float(step[k])
                walked = max(walked, abs(float(step[k]) * float(inverse[j])))
            for j in range(n):
                moved[j] = min(max(float(whole[j]), float(lower[j])), float(upper[j]))
            tried = f(moved)
            calls += 1
            if not is_finite(tried):
                delta = 0.25 * walked
                continue
            after = costs(tried, loss, size)
            actual = cost - after
            ratio = 1.0 if predicted == actual == 0.0 else 0.0
            if predicted > 0.0:
                ratio = actual / predicted
            if ratio < 0.25:
                delta = 0.25 * walked
            elif ratio > 0.75 and is_on_edge:
                delta *= 2.0
            length = math.sqrt(dot(step, step))
            status = ended(actual, cost, length, math.sqrt(dot(x, x)), ratio, limits)
            if status != 0:
                break
        if actual > 0.0:
            for k in range(count):
                on_bound[own[k]] = met[k]
            for j in range(n):
                x[j] = moved[j]
                if on_bound[j] == _LOWER:
                    x[j] = lower[j]
                if on_bound[j] == _UPPER:
                    x[j] = upper[j]
            for i in range(m):
                values[i] = tried[i]
            cost = after
