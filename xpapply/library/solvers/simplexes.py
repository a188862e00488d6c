"""Minima of functions of several numbers without derivatives, for the compiler.

Sources: J. A. Nelder and R. Mead, "A simplex method for function minimization", The Computer
Journal 7 (1965) 308; F. Gao and L. Han, "Implementing the Nelder-Mead simplex algorithm with
adaptive parameters", Computational Optimization and Applications 51 (2012) 259. Operations are in
SciPy's order, so minima have its bits. What is raised is said in ``of_fits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..of_results import Result

_FIRST, _REFLECTED, _FURTHER, _OUTSIDE, _INSIDE, _SHRINKING = range(6)
"""Why a place is tried."""
_NO_LIMIT = 1 << 62


def _sort(corners: Any, values: Any, steady: int) -> None:
    """Sort corners by their values, the lowest first.

    `steady`: how many NumPy sorts such that what is equal keeps its order.
    """
    n = len(values)
    for k in range(1, n):
        at = k
        while at > 0:
            low = float(values[at - 1])
            high = float(values[at])
            if n > steady and (low == high or (low != low and high != high)):
                raise NotImplementedError
            if not (high < low or (low != low and high == high)):
                break
            values[at - 1] = high
            values[at] = low
            for j in range(n - 1):
                swap = float(corners[at, j])
                corners[at, j] = corners[at - 1, j]
                corners[at - 1, j] = swap
            at -= 1


def _is_small(corners: Any, values: Any, xatol: float, fatol: float) -> bool:
    """Whether all corners, and their values, are near the lowest."""
    for k in range(1, len(values)):
        if not abs(float(values[0]) - float(values[k])) <= fatol:
            return False
        for j in range(len(values) - 1):
            if not abs(float(corners[k, j]) - float(corners[0, j])) <= xatol:
                return False
    return True


def nelder_mead(
    f: Any, start: Any, args: Any, xatol: float, fatol: float, most_rounds: Any, most: Any,
    adaptive: bool, steady: int,
) -> Any:  # fmt: skip
    """``scipy.optimize.minimize(f, start, args, method="Nelder-Mead")``.

    `steady` is that of `_sort`. The function is called in one place: where it is called, it is
    compiled.
    """
    n = len(start)
    both = most_rounds is None and most is None
    rounds_left = (200 * n if both else _NO_LIMIT) if most_rounds is None else most_rounds
    calls_left = (200 * n if both else _NO_LIMIT) if most is None else most
    growth = 2.0
    part = 0.5
    shrinks = 0.5
    if adaptive:
        growth = 1.0 + 2.0 / n
        part = 0.75 - 1.0 / (2.0 * n)
        shrinks = 1.0 - 1.0 / n
    corners = np.zeros((n + 1, n))
    values = np.zeros(n + 1)
    for k in range(n + 1):
        values[k] = math.inf
        for j in range(n):
            here = float(start[j])
            if k == j + 1:
                here = (1.0 + 0.05) * here if here != 0.0 else 0.00025
            corners[k, j] = here
    middle = np.zeros(n)
    point = corners[0].copy()
    reflected = np.zeros(n)
    lower = 0.0
    how = _FIRST
    at = 0
    calls = 0
    rounds = 1
    is_sorted = False
    while calls < calls_left:
        calls += 1
        is_sorted = False
        y = float(f(point.copy(), *args))
        ends = False
        if how in (_FIRST, _SHRINKING):
            values[at] = y
            at += 1
            ends = at > n
        elif how == _REFLECTED:
            lower = y
            for j in range(n):
                reflected[j] = point[j]
            if y < float(values[0]):
                how = _FURTHER
            elif y < float(values[n - 1]):
                ends = True
            else:
                how = _OUTSIDE if y < float(values[n]) else _INSIDE
        else:
            if how == _FURTHER:
                ends = True
                if not y < lower:
                    y = lower
                    for j in range(n):
                        point[j] = reflected[j]
            else:
                ends = y <= lower if how == _OUTSIDE else y < float(values[n])
            if not ends:
                how = _SHRINKING
                at = 1
        if ends:
            if how in (_FIRST, _SHRINKING):
                rounds += how == _SHRINKING
            else:
                rounds += 1
                values[n] = y
                for j in range(n):
                    corners[n, j] = point[j]
            _sort(corners, values, steady)
            is_sorted = True
            if calls >= calls_left or rounds >= rounds_left:
                break
            if _is_small(corners, values, xatol, fatol):
                break
            how = _REFLECTED
            for j in range(n):
                total = float(corners[0, j])
                for k in range(1, n):
                    total += float(corners[k, j])
                middle[j] = total / n
        for j in range(n):
            last = float(corners[n, j])
            if how == _REFLECTED:
                point[j] = 2.0 * float(middle[j]) - last
            elif how == _FURTHER:
                point[j] = (1.0 + growth) * float(middle[j]) - growth * last
            elif how == _OUTSIDE:
                point[j] = (1.0 + part) * float(middle[j]) - part * last
            elif how == _INSIDE:
                point[j] = (1.0 - part) * float(middle[j]) + part * last
            else:
                if how == _SHRINKING:
                    first = float(corners[0, j])
                    corners[at, j] = first + shrinks * (float(corners[at, j]) - first)
                point[j] = corners[at, j]
    if not is_sorted:
        _sort(corners, values, steady)
    status = 0
    if calls >= calls_left:
        status = 1
    elif rounds >= rounds_left:
        status = 2
    return Result(
        x=corners[0].copy(), fun=np.min(values), nit=rounds, nfev=calls, status=status,
        success=status == 0, message=_MESSAGES[status],
    )  # fmt: skip


_MESSAGES = (
    "Optimization terminated successfully.",
    "Maximum number of function evaluations has been exceeded.",
    "Maximum number of iterations has been exceeded.",
)


def fmin(*given: Any) -> Any:
    """``scipy.optimize.fmin``."""
    return nelder_mead(*given).x


def full_fmin(*given: Any) -> Any:
    """The same with ``full_output``."""
    found = nelder_mead(*given)
    return found.x, found.fun, found.nit, found.nfev, found.status
