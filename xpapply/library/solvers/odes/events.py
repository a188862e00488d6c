"""Events on the way of a differential equation, for the compiler: where functions of it are zero.

Source: L. F. Shampine and S. Thompson, "Event location for ordinary differential equations",
Computers & Mathematics with Applications 39 (2000) 43. A change of sign over a step is looked for
between its ends by Brent's method.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...of_roots import brentq
from .equations import lent

_EPS = float(np.finfo(float).eps)


def value(x: Any) -> Any:
    """The value of a function whose zeros are looked for: a number."""
    return x


def listed(found: tuple[Any, ...]) -> Any:
    """A list of arrays, one for each function."""
    return list(found)


def tabled(found: tuple[Any, ...]) -> Any:
    """A list of tables, one for each function; one without rows has no columns in SciPy."""
    return [x if len(x) else np.empty(0) for x in found]


def evaluate(functions: Any, t: Any, y: Any, args: Any, out: Any) -> None:
    """Put the values of all functions into `out`."""
    for k, function in enumerate(functions):
        out[k] = float(value(function(t, lent(y), *args)))


def active(g: Any, after: Any, ways: Any, out: Any) -> int:
    """How many functions change their sign in the way that is asked for; which ones in `out`."""
    count = 0
    for k in range(len(g)):
        up = g[k] <= 0.0 <= after[k] and ways[k] >= 0.0
        down = g[k] >= 0.0 >= after[k] and ways[k] <= 0.0
        out[k] = 1 if up or down else 0
        count += out[k]
    return count


def happened(
    functions: Any, args: Any, between: Any, parts: Any, before: Any, now: Any, y_before: Any,
    most: Any, seen: Any, which: Any, count: int, order: Any, roots: Any,
) -> Any:  # fmt: skip
    """Where the functions `which` are zero within a step: how many count, and whether it ends.

    Parameters
    ----------
    between : callable
        ``between(parts, before, now, y_before, place)`` gives values within the step.
    most, seen : ndarray
        After how many zeros it ends, and how many there were.
    order, roots : ndarray
        Get the functions, and their zeros.
    """
    done = 0
    stops = False
    for k, function in enumerate(functions):

        def at(x: Any) -> Any:
            y = between(parts, before, now, y_before, x)
            return value(function(x, lent(y), *args))  # noqa: B023

        if which[k] == 1:
            order[done] = k
            roots[done] = brentq(at, before, now, (), 4 * _EPS, 4 * _EPS, 100, False)[0]
            done += 1
            seen[k] += 1
            stops = stops or bool(seen[k] >= most[k])
    if not stops:
        return count, False
    sign = 1.0 if now > before else -1.0
    for i in range(1, count):
        root = roots[i]
        own = order[i]
        j = i
        while j > 0 and sign * roots[j - 1] >= sign * root:
            if roots[j - 1] == root:  # which one is first?
                raise NotImplementedError
            roots[j] = roots[j - 1]
            order[j] = order[j - 1]
            j -= 1
        roots[j] = root
        order[j] = own
    done = 0
    while seen[order[done]] < most[order[done]]:
        done += 1
    return done + 1, True


def gathered(functions: Any, which: Any, when: Any, where: Any, n: int) -> Any:
    """Times and values of all zeros, those of each function."""
    times: Any = ()
    values: Any = ()
    for k, _ in enumerate(functions):
        count = 0
        for w in which:
            count += 1 if w == k else 0
        t = np.empty(count)
        y = np.empty((count, n))
        done = 0
        for p in range(len(which)):
            if which[p] == k:
                t[done] = when[p]
                for i in range(n):
                    y[done, i] = where[p * n + i]
                done += 1
        times = times + (t,)  # noqa: RUF005  # a star would take the array apart
        values = values + (y,)  # noqa: RUF005
    return listed(times), tabled(values)
