"""Integrals and densities of samples as SciPy takes them, for the compiler, with SciPy's bits.

Sources: SciPy 1.17, ``scipy/integrate/_quadrature.py``; B. W. Silverman, Density Estimation for
Statistics and Data Analysis, Chapman and Hall 1986. Samples are float64.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..of_series import area, area_along


def trapezoid(y: Any, x: Any, dx: Any) -> Any:
    """``trapezoid(y, x, dx)``."""
    if x is None:
        return area(y, dx)
    return area_along(y, x)


def cumulative_trapezoid(y: Any, x: Any, dx: Any, from_zero: bool) -> Any:
    """``cumulative_trapezoid(y, x, dx, initial=0 or None)``."""
    if len(y) == 0:
        raise ValueError
    if x is None:
        parts = dx * (y[1:] + y[:-1]) / 2.0
    else:
        if len(x) != len(y):
            raise ValueError
        parts = (x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0
    if not from_zero:
        return np.cumsum(parts)
    out = np.zeros(len(y))
    out[1:] = np.cumsum(parts)
    return out


def _begun(sums: Any, has_first: bool, first: float) -> Any:
    """Sums that begin with one that is given, if there is one."""
    if not has_first:
        return sums
    out = np.empty(len(sums) + 1)
    out[0] = first
    out[1:] = sums + first
    return out


def _of_pairs(y: Any, stop: int, x: Any, dx: Any) -> Any:
    """Simpson's rule of two intervals each."""
    if x is None:
        total = np.add.reduce(y[0:stop:2] + 4.0 * y[1 : stop + 1 : 2] + y[2 : stop + 2 : 2])
        return total * (dx / 3.0)
    parts = np.zeros((stop + 1) // 2)
    for k in range(len(parts)):
        h0 = np.float64(x[2 * k + 1] - x[2 * k])
        h1 = np.float64(x[2 * k + 2] - x[2 * k + 1])
        both = h0 + h1
        product = h0 * h1
        ratio = np.float64(0.0)
        if h1 != 0:
            ratio = h0 / h1
        over = np.float64(0.0)
        if ratio != 0:
            over = 1.0 / ratio
        part = np.float64(0.0)
        if product != 0:
            part = both / product
        middle = y[2 * k + 1] * (both * part)
        ends = y[2 * k] * (2.0 - over) + middle + y[2 * k + 2] * (2.0 - ratio)
        parts[k] = both / 6.0 * ends
    return np.add.reduce(parts)


def simpson(y: Any, x: Any, dx: Any) -> Any:
    """``simpson(y, x=x, dx=dx)``."""
    n = len(y)
    if x is not None and len(x) != n:
        raise ValueError
    if n == 0:
        raise IndexError
    if n == 1:
        return np.float64(0.0) * (dx / 3.0 if x is None else 1.0)
    if n == 2:
        if x is None:
            return 0.0 + (0.0 + 0.5 * dx * (y[1] + y[0]))
        return 0.0 + (0.0 + 0.5 * (x[1] - x[0]) * (y[1] + y[0]))
    if n % 2 == 1:
        return _of_pairs(y, n - 2, x, dx)
    if x is None:
        h0 = h1 = np.float64(dx)
        square = h1**2
        cube = h1**3
    else:
        h0 = np.float64(x[n - 2] - x[n - 3])
        h1 = np.float64(x[n - 1] - x[n - 2])
        square = np.square(h1)
        cube = np.power(h1, 3)
    alpha = beta = eta = np.float64(0.0)
    below = 6 * (h1 + h0)
    if below != 0:
        alpha = (2 * square + 3 * h0 * h1) / below
    below = 6 * h0
    if below != 0:
        beta = (square + 3.0 * h0 * h1) / below
    below = 6 * h0 * (h0 + h1)
    if below != 0:
        eta = 1 * cube / below
    found = _of_pairs(y, n - 3, x, dx)
    return found + (alpha * y[n - 1] + beta * y[n - 2] - eta * y[n - 3]) + 0.0


def cumulative_simpson(y: Any, x: Any, dx: Any, has_first: bool, first: float) -> Any:
    """``cumulative_simpson(y, x=x, dx=dx, initial=first or None)``."""
    n = len(y)
    if n < 3:
        if n == 0:
            raise ValueError
        return _begun(cumulative_trapezoid(y, x, dx, False), has_first, first)
    if x is not None and len(x) != n:
        raise ValueError
    parts = np.empty(n - 1)
    for i in range(n - 1):
        forth = i % 2 == 0 and i < n - 2
        at = i if forth else i - 1  # the first of three
        f1 = y[at] if forth else y[at + 2]
        f2 = y[at + 1]
        f3 = y[at + 2] if forth else y[at]
        if x is None:
            parts[i] = dx / 3 * (5 * f1 / 4 + 2 * f2 - f3 / 4)
            continue
        here = x[i + 1] - x[i]
        other = x[at + 2] - x[at + 1] if forth else x[at + 1] - x[at]
        if here <= 0 or other <= 0:
            raise ValueError
        of_both = here / (here + other)
        of_other = here / other
        product = of_both * of_other
        sums = (3 - of_both) * f1 + (3 + product + of_both) * f2 + -product * f3
        parts[i] = here / 6 * sums
    return _begun(np.cumsum(parts), has_first, first)


def romb(y: Any, dx: Any) -> Any:
    """``romb(y, dx)``."""
    count = len(y) - 1
    n = 1
    rounds = 0
    while n < count:
        n <<= 1
        rounds += 1
    if n != count:
        raise ValueError
    h = count * np.float64(dx)
    before = np.zeros(rounds + 1)
    now = np.zeros(rounds + 1)
    before[0] = (y[0] + y[count]) / 2.0 * h
    step = count
    for i in range(1, rounds + 1):
        between = np.zeros(count // step)
        for j in range(count // step):
            between[j] = y[j * step + (step >> 1)]
        now[0] = 0.5 * (before[0] + h * np.add.reduce(between))
        step >>= 1
        scale = 1
        for j in range(1, i + 1):
            scale *= 4
            last = now[j - 1]
            now[j] = last + (last - before[j - 1]) / (scale - 1)
        h = h / 2.0
        for j in range(i + 1):
            before[j] = now[j]
    return before[rounds]


def fixed_quad(f: Any, a: Any, b: Any, args: Any, x: Any, w: Any) -> Any:
    """``fixed_quad(f, a, b, args, n)``, of the places and weights for so many."""
    if abs(a) == math.inf or abs(b) == math.inf:
        raise ValueError
    y = (b - a) * (x + 1) / 2.0 + a
    return (b - a) / 2.0 * np.add.reduce(w * f(y, *args)), None


# --- densities by kernels -------------------------------------------------------------------------

SCOTT, SILVERMAN, GIVEN = range(3)
"""Where the width of a kernel comes from."""


def by_kernels(v: Any, rule: int, factor: float) -> Any:
    """``scipy.stats.gaussian_kde(v)``; `factor`: of the width, where it is `GIVEN`.

    A system of one equation is solved as BLAS does: by the reciprocal.
    """
    n = len(v)
    if n < 2:
        raise ValueError
    weights = np.ones(n) / n
    total = np.sum(weights)
    off = v - np.sum(v * weights) / total
    more = total - np.sum(weights * weights) / total
    spread = np.dot(off, off * weights) * (1.0 / more)
    if not 0.0 < spread < math.inf:
        raise NotImplementedError
    many = 1.0 / np.dot(weights, weights)
    if rule == SCOTT:
        factor = float(np.power(many, -1.0 / 5.0))
    if rule == SILVERMAN:
        factor = float(np.power(many * 3.0 / 4.0, -1.0 / 5.0))
    width = math.sqrt(float(spread)) * factor
    if not 0.0 < width < math.inf:
        raise NotImplementedError
    return density(v * (1.0 / width), 1.0 / n, 1.0 / width, _ONE / width)


_ONE = math.pow(2.0 * math.pi, -0.5)


def density(places: Any, weight: float, scale: float, most: float) -> Any:
    """What can be called with places."""
    return functools.partial(density_at, places, weight, scale, most)


def density_at(own: Any, weight: float, scale: float, most: float, places: Any) -> Any:
    """The density at places."""
    return kernels_at(own, weight, scale, most, np.atleast_1d(places))


def kernels_at_one(own: Any, weight: float, scale: float, most: float, place: Any) -> Any:
    """An array, as SciPy gives it."""
    return kernels_at(own, weight, scale, most, np.array([place]))


def kernels_at(own: Any, weight: float, scale: float, most: float, places: Any) -> Any:
    """A sum of kernels at places, one after the other."""
    if not np.isfinite(places).all():
        raise ValueError
    at = places * scale
    found = np.zeros(len(at))
    for i in range(len(own)):
        x = float(own[i])
        for j in range(len(at)):
            far = x - float(at[j])
            found[j] += weight * (math.exp(-(far * far) / 2.0) * most)
    return found
