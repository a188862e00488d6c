"""Fits within bounds, for the compiler: what SciPy's functions do around a trust region.

What is raised is said in ``of_fits``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import of_fits
from ..of_results import Result
from .boxes import rectangular
from .line_searches import gradient
from .trust_regions import differences, dot, inside, is_finite, reflective, singular

_EPS = float(np.finfo(float).eps)


def _is_bounded(lower: Any, upper: Any) -> bool:
    return any(float(lower[j]) > -math.inf or float(upper[j]) < math.inf for j in range(len(lower)))


def start(given: Any, count: Any, lower: Any, upper: Any) -> Any:
    """Where a fit begins, within bounds: given, or as SciPy has it."""
    n = len(count)
    p = np.zeros(n)
    if given is not None and len(given) != n:
        raise NotImplementedError
    if len(lower) != n or len(upper) != n:
        raise ValueError
    for j in range(n):
        low = float(lower[j])
        high = float(upper[j])
        if given is not None:
            p[j] = float(given[j])
        elif low > -math.inf and high < math.inf:
            p[j] = 0.5 * (low + high)
        elif low > -math.inf:
            p[j] = low + 1.0
        elif high < math.inf:
            p[j] = high - 1.0
        else:
            p[j] = 1.0
    return p


def check(x: Any, lower: Any, upper: Any, scales: Any, most: int, limits: Any) -> None:
    """Raise what ``least_squares`` raises for its arguments."""
    if most <= 0 or len(lower) != len(x) or len(upper) != len(x):
        raise ValueError
    for j in range(len(x)):
        if float(lower[j]) >= float(upper[j]):
            raise ValueError
        if not float(lower[j]) <= float(x[j]) <= float(upper[j]):
            raise ValueError
    if scales is not None:
        for j in range(len(x)):
            if not 0.0 < float(scales[j]) < math.inf:
                raise ValueError
    if min(limits) < _EPS:
        raise NotImplementedError  # it warns, or raises


def _fitted(
    f: Any, x: Any, axes: Any, y: Any, given: Any, count: Any, weights: Any, finite: bool, jac: Any,
    chosen: Any, bounds: Any, most: Any, scales: Any, loss: Any, size: float, limits: Any,
) -> Any:  # fmt: skip
    """The best parameters within bounds, and what a trust region says of them.

    `chosen`: the steps, if they are taken without bounds too; None: `reflective` within bounds. The
    last arguments are those of `reflective`, others those of ``of_fits``.
    """
    lower, upper = bounds

    def residuals(p: Any) -> Any:
        found = f(x, *of_fits.parts(p, count)) - y
        return found if weights is None else 1.0 / weights * found

    def columns(p: Any, at: Any, a: Any) -> None:
        if jac is None:
            differences(residuals, p, at, lower, upper, a)
        else:
            of_fits.weighted(jac(x, *of_fits.parts(p, count)), weights, a)

    of_fits.check(x, axes, y, finite)
    p = start(given, count, lower, upper)
    if chosen is None and not _is_bounded(lower, upper):
        raise NotImplementedError
    calls = 100 * len(p) if most is None else most
    check(p, lower, upper, scales, calls, limits)
    if chosen is not rectangular:
        inside(p, lower, upper, 1e-10)
    values = residuals(p)
    if not is_finite(values):
        raise ValueError
    rest = lower, upper, calls, scales, loss, size, limits
    if chosen is rectangular:
        found = rectangular(residuals, columns, p, values, *rest)
    else:
        found = reflective(residuals, columns, p, values, *rest)
    if found[0] == 0:
        raise RuntimeError
    return p, values, found[3], found[5]


def best_fit(*given: Any) -> Any:
    """``scipy.optimize.curve_fit`` within bounds, of which the covariance is not read."""
    p, values, _, _ = _fitted(*given[1:])
    if not given[0] and len(values) <= len(p):
        raise NotImplementedError
    return p, None


def curve_fit(*given: Any) -> Any:
    """``scipy.optimize.curve_fit`` within bounds. The first argument: ``absolute_sigma``."""
    p, values, cost, a = _fitted(*given[1:])
    n = len(p)
    if len(values) < n or (not given[0] and len(values) == n):
        raise NotImplementedError
    sizes = np.zeros(n)
    axes = np.zeros((n, n))
    singular(a, values, sizes, axes, np.zeros((n, n)), np.zeros(n))
    if np.min(sizes) <= 100.0 * _EPS * len(values) * np.max(sizes):
        raise NotImplementedError  # where SciPy counts some as 0
    factor = 1.0 if given[0] else 2.0 * cost / (len(values) - n)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                part = float(sizes[k])
                total += float(axes[k, i]) / (part * part) * float(axes[k, j])
            found[i, j] = total * factor
    return p, found


def spread(x: Any, n: int) -> Any:
    """An array of floats; a number stands for as many."""
    return np.zeros(n) + x


def least_squares(
    f: Any, start: Any, jac: Any, bounds: Any, steps: Any, most: Any, scales: Any, loss: Any,
    size: float, limits: Any, args: Any,
) -> Any:  # fmt: skip
    """``scipy.optimize.least_squares`` by some steps: `reflective`, `rectangular` or `free`."""
    n = len(start)
    lower = spread(bounds[0], n)
    upper = spread(bounds[1], n)

    def residuals(p: Any) -> Any:
        return f(p, *args)

    def columns(p: Any, at: Any, a: Any) -> int:
        if jac is None:
            differences(residuals, p, at, lower, upper, a)
        else:
            of_fits.weighted(jac(p, *args), None, a)
        return 0

    p = spread(start, n)
    rest = 100 * n if most is None else most, scales, loss, size, limits
    if steps is free:
        return free(residuals, columns, p, lower, upper, rest)
    return within(residuals, columns, p, lower, upper, steps, rest)


def within(f: Any, columns: Any, p: Any, lower: Any, upper: Any, steps: Any, rest: Any) -> Any:
    """Steps in a trust region."""
    most, scales, loss, size, limits = rest
    if scales is not None:
        scales = spread(scales, len(p))
    check(p, lower, upper, scales, most, limits)
    if steps is reflective:
        inside(p, lower, upper, 1e-10)
    values = first_values(f, p)
    found = steps(f, columns, p, values, lower, upper, most, scales, loss, size, limits)
    status, calls, slopes, cost, optimality, _, g = found
    return Result(
        x=p, cost=cost, fun=values, grad=g, optimality=optimality, nfev=calls, njev=slopes,
        status=status, success=status > 0, message=_MESSAGES[status],
    )  # fmt: skip


_MESSAGES = (
    "The maximum number of function evaluations is exceeded.",
    "`gtol` termination condition is satisfied.",
    "`ftol` termination condition is satisfied.",
    "`xtol` termination condition is satisfied.",
    "Both `ftol` and `xtol` termination conditions are satisfied.",
)


def first_values(f: Any, p: Any) -> Any:
    """The first residuals, which are finite."""
    values = f(p)
    if values.dtype != np.float64:
        raise NotImplementedError
    if not is_finite(values):
        raise ValueError
    return values.copy()


def free(f: Any, columns: Any, p: Any, lower: Any, upper: Any, rest: Any) -> Any:
    """MINPACK's steps: "lm"."""
    most, _, _, _, limits = rest
    check(p, lower, upper, None, most, limits)
    values = first_values(f, p)
    a = np.zeros((len(p), len(values)))
    if len(values) < len(p):
        raise ValueError
    found = of_fits.levenberg_marquardt(
        f, columns, p, values, a, False, most, (limits[0], limits[1], limits[2], 100.0)
    )
    if found[0] < 1 or found[0] > 5:
        raise NotImplementedError
    columns(p, values, a)
    g = np.zeros(len(p))
    for j in range(len(p)):
        g[j] = dot(a[j], values)
    status = _STATUS[found[0]]
    return Result(
        x=p, cost=0.5 * dot(values, values), fun=values, grad=g, optimality=np.max(np.abs(g)),
        nfev=found[1], status=status, success=status > 0, message=_MESSAGES[status],
    )  # fmt: skip


_STATUS = (0, 2, 3, 4, 1, 0)
"""SciPy's numbers of MINPACK's."""


def root(
    f: Any, jac: Any, start: Any, args: Any, most: int, eps: float, limits: Any, texts: Any
) -> Any:  # fmt: skip
    """``scipy.optimize.root(f, start, args, method="lm", jac=jac)``.

    `limits`: those of ``of_fits.levenberg_marquardt``. `texts`: what SciPy says, by why it ends.
    """
    n = len(start)
    slopes = np.zeros(1, int)

    def residuals(p: Any) -> Any:
        return gradient(f(p.copy(), *args))

    def columns(p: Any, at: Any, a: Any) -> int:
        slopes[0] += 1
        if jac is None:
            return of_fits.differences(residuals, p, at, eps, a)
        return of_fits.weighted(jac(p.copy(), *args), None, a)

    p = start.copy()
    values = residuals(p).copy()
    if n == 0 or most < 0:
        raise NotImplementedError
    if n > len(values):
        raise TypeError
    if most == 0:
        most = 200 * (n + 1) if jac is None else 100 * (n + 1)
    a = np.zeros((n, len(values)))
    found = of_fits.levenberg_marquardt(residuals, columns, p, values, a, False, most, limits)
    status = found[0]
    return Result(
        x=p, fun=values, nfev=found[1] + 2, njev=int(slopes[0]), status=status,
        success=1 <= status <= 4, message=texts[status], is_said=texts[status] != "",
    )  # fmt: skip
