"""Minima of functions of several numbers along one direction after the other, for the compiler.

Source: M. J. D. Powell, "An efficient method for finding the minimum of a function of several
variables without calculating derivatives", The Computer Journal 7 (1964) 155; the search along a
direction is Brent's (``of_minima``). Operations are in SciPy's order, so minima have its bits. What
is raised is said in ``of_fits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result
from .fits import spread
from .line_searches import value
from .of_minima import between, brent, downhill
from .of_products import anyones

_ZERO, _ONE = np.float64(0.0), np.float64(1.0)
_ENOUGH = 500


def _reach(x: Any, p: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """How far one may go along a direction, back and forth; nowhere, if that is outside."""
    low = -np.float64(math.inf)
    high = np.float64(math.inf)
    for j in range(len(x)):
        if p[j] != 0.0:
            one = (lower[j] - x[j]) / p[j]
            other = (upper[j] - x[j]) / p[j]
            if p[j] > 0.0:
                low = max(low, one + 0.0)
                high = min(high, other + 0.0)
            else:
                low = max(low, 0.0 + other)
                high = min(high, 0.0 + one)
    if not high >= low:
        return _ZERO, _ZERO
    return low, high


def powell(
    f: Any, start: Any, first: Any, args: Any, ends: Any, xtol: float, ftol: float,
    most_rounds: Any, most: Any,
) -> Any:  # fmt: skip
    """``scipy.optimize.minimize(f, start, args, method="Powell")``.

    `first`: `start` as it is given, where the function is called at first. `ends`: lower and upper
    bounds, or None.
    """
    n = len(start)
    if n == 0:
        raise NotImplementedError
    both = most_rounds is None and most is None
    rounds_left = (1000.0 * n if both else math.inf) if most_rounds is None else float(most_rounds)
    calls_left = (1000.0 * n if both else math.inf) if most is None else float(most)
    x = start.copy()
    before = start.copy()
    p = np.zeros(n)
    lower = np.zeros(0)
    upper = np.zeros(0)
    ways = np.zeros((n, n))
    for j in range(n):
        ways[j, j] = 1.0
    if ends is not None:
        lower = spread(ends[0], n)
        upper = spread(ends[1], n)
        for j in range(n):
            if lower[j] >= upper[j] or x[j] < lower[j] or x[j] > upper[j]:
                raise NotImplementedError
    counts = np.zeros(1, int)

    def along(alpha: Any) -> Any:
        point = np.empty(n)
        for j in range(n):
            point[j] = x[j] + alpha * p[j]
        if float(counts[0]) >= calls_left:
            raise NotImplementedError  # where SciPy ends in the midst of a search
        counts[0] += 1
        return anyones(value(f(point, *args)))

    def bent(angle: Any) -> Any:
        return along(np.tan(angle))

    if calls_left <= 0.0:
        raise NotImplementedError
    counts[0] = 1
    y = anyones(value(f(first.copy(), *args)))
    begun = last = y
    most_off = anyones(0.0)
    steepest = rounds = at = 0
    status = 0
    while True:
        if at < n:
            for j in range(n):
                p[j] = ways[at, j]
            last = y
        if p.any():
            alpha = _ZERO
            if ends is None:
                found = brent(downhill, (_ZERO, _ONE), along, (), xtol * 100, _ENOUGH)
                y = anyones(found.fun)
                alpha = found.x
            else:
                low, high = _reach(x, p, lower, upper)
                if low == -math.inf and high == math.inf:
                    found = brent(downhill, (_ZERO, _ONE), along, (), xtol * 100, _ENOUGH)
                    y = anyones(found.fun)
                    alpha = found.x
                elif low == -math.inf or high == math.inf:
                    low, high = np.arctan(low), np.arctan(high)
                    alpha, y, _, _ = between(bent, low, high, (), xtol * 100 / 100, _ENOUGH)
                    y = anyones(y)
                    alpha = np.tan(alpha)
                else:
                    alpha, y, _, _ = between(along, low, high, (), xtol * 100 / 100, _ENOUGH)
                    y = anyones(y)
            for j in range(n):
                p[j] = alpha * p[j]
                x[j] = x[j] + p[j]
        if at < n:
            if last - y > most_off:
                most_off = anyones(last - y)
                steepest = at
            at += 1
            if at < n:
                continue
            rounds += 1
            near = ftol * (np.abs(begun) + np.abs(y)) + 1e-20
            if 2.0 * (begun - y) <= near or float(counts[0]) >= calls_left:
                break
            if float(rounds) >= rounds_left or (begun != begun and y != y):
                break
            for j in range(n):
                p[j] = x[j] - before[j]
                before[j] = x[j]
            far = _ONE
            if ends is not None:
                if not p.any():
                    raise NotImplementedError
                _, far = _reach(x, p, lower, upper)
                far = min(far, _ONE)
            there = along(far)
            if begun > there:
                part = 2.0 * (begun + there - 2.0 * y)
                off = begun - y - most_off
                part *= off * off
                off = begun - there
                part -= most_off * off * off
                if part < 0.0:
                    continue
        elif p.any():
            for j in range(n):
                ways[steepest, j] = ways[n - 1, j]
                ways[n - 1, j] = p[j]
        at = steepest = 0
        begun = y
        most_off = anyones(0.0)
    if ends is not None:
        for j in range(n):
            if lower[j] > x[j] or x[j] > upper[j]:
                status = 4
    if status == 0:
        if float(counts[0]) >= calls_left:
            status = 1
        elif float(rounds) >= rounds_left:
            status = 2
        elif y != y or np.isnan(x).any():
            status = 3
    return Result(
        x=x, fun=y, direc=ways, nit=rounds, nfev=int(counts[0]), status=status,
        success=status == 0, message=_MESSAGES[status],
    )  # fmt: skip


_MESSAGES = (
    "Optimization terminated successfully.",
    "Maximum number of function evaluations has been exceeded.",
    "Maximum number of iterations has been exceeded.",
    "NaN result encountered.",
    "The result is outside of the provided bounds.",
)


def fmin_powell(*given: Any) -> Any:
    """``scipy.optimize.fmin_powell``."""
    return powell(*given).x


def full_fmin_powell(*given: Any) -> Any:
    """The same with ``full_output``."""
    found = powell(*given)
    return found.x, found.fun, found.direc, found.nit, found.nfev, found.status
