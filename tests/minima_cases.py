"""Random minima and roots of functions of several numbers by their slopes, for `fuzz.solvers`."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from xpapply.frontends.python.source.calls import of_least_squares, of_minimize
from xpapply.library.solvers import directions, fits, hybrids, limited_memory, quasi_newton

BASINS: tuple[tuple[Callable[..., Any], Callable[..., Any] | None], ...] = (
    (lambda x, p, q: float(np.sum((x - p) ** 2)), lambda x, p, q: 2 * (x - p)),
    (
        lambda x, p, q: sum(
            100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in itertools.pairwise([p, *x])
        ),
        None,
    ),
    (
        lambda x, p, q: np.cos(x * p).sum() + q * np.sum(x**2),
        lambda x, p, q: -p * np.sin(x * p) + 2 * q * x,
    ),
    (
        lambda x, p, q: np.sum((x - p) ** 4) + q * x[0] ** 2,
        lambda x, p, q: 4 * (x - p) ** 3 + 2 * q * x[0] * (np.arange(len(x)) == 0),
    ),
    (lambda x, p, q: np.sum(np.exp(p * x) - q * x), lambda x, p, q: p * np.exp(p * x) - q),
    (
        lambda x, p, q: float(np.sum(np.log1p((x - p) ** 2 * q))),
        lambda x, p, q: 2 * q * (x - p) / (1 + q * (x - p) ** 2),
    ),
    (
        lambda x, p, q: float(np.sum(10.0 ** np.arange(len(x)) * x * x)) * p,
        lambda x, p, q: 2 * p * 10.0 ** np.arange(len(x)) * x,
    ),
    (lambda x, p, q: abs(x[0] - p) + np.abs(x).max() * q, None),
    (lambda x, p, q: math.floor(3 * x[0]) + float(np.floor(np.abs(x)).sum()), None),
    (lambda x, p, q: math.nan if x[0] > p else -x[0], None),
    (lambda x, p, q: p * x[0] - q * x[-1], None),  # without a minimum
    (lambda x, p, q: 3.0, None),  # everywhere
)
"""Functions, and their slopes where they are known."""
COUNTS = "nfev", "njev", "nit", "status", "success", "message"


def drawn(r: random.Random) -> tuple[Any, ...]:
    """A function, one that gives slopes or None, whether the first one does, SciPy's `jac` ..."""
    f, jac = r.choice(BASINS)
    n, args = r.choice([1, 2, 2, 3, 3, 4, 5, 6, 8, 9]), (r.uniform(0.3, 3), r.uniform(0.3, 3))
    start = np.array([r.choice([0.0, r.uniform(-3, 3), r.uniform(-3, 3), 1.0]) for _ in range(n)])
    if r.random() < 0.05:
        start = np.full(n, args[0])
    if jac is None or r.random() < 0.5:
        told = "2-point" if r.random() < 0.2 else None
        return f, None, None, told, start, args
    if r.random() < 0.4:
        return lambda x, *p: (f(x, *p), jac(x, *p)), None, True, True, start, args
    return f, jac, None, jac, start, args


def by_bfgs(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """What ours and SciPy's give by BFGS, and along conjugate directions."""
    from scipy.optimize import minimize

    f, jac, both, told, start, args = drawn(r)
    said: dict[str, Any] = {
        "gtol": r.choice([1e-5, 1e-5, 1e-8, 1e-2]), "maxiter": r.choice([None] * 3 + [3, 0]),
        "xrtol": r.choice([0.0] * 8 + [1e-3]), "c2": r.choice([0.9] * 8 + [0.1, 0.5, 1.5]),
        "norm": r.choice([math.inf] * 6 + [2, -math.inf, 1]),
        "eps": r.choice([2**-26] * 4 + [1e-6]),
    }  # fmt: skip
    how = None if told == "2-point" else said["eps"], None, None
    norm = of_minimize._NORMS[said["norm"]]
    rest = norm, said["gtol"], said["maxiter"], said["xrtol"], 1e-4, said["c2"]
    if r.random() < 0.4:
        said.pop("xrtol")
        return (
            outcome(lambda: quasi_newton.conjugate(f, jac, both, start, args, how, *rest)),
            outcome(lambda: minimize(f, start, args, "CG", told, options=said)),
        )
    theirs = outcome(lambda: minimize(f, start, args, "BFGS", told, options=said))
    return outcome(lambda: _plain(quasi_newton.bfgs(f, jac, both, start, args, how, *rest))), theirs


def _plain(found: Any) -> Any:
    """A result, without the inverse of a Hessian that SciPy has as integers."""
    if found.pop("is_new"):
        found.pop("hess_inv")
    return found


def by_l_bfgs_b(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """The same by L-BFGS-B."""
    from scipy.optimize import minimize

    f, jac, both, told, start, args = drawn(r)
    said: dict[str, Any] = {
        "ftol": r.choice([2.2e-9] * 3 + [1e-14, 1e-3]), "gtol": r.choice([1e-5, 1e-5, 1e-8, 1e-2]),
        "maxiter": r.choice([15000] * 3 + [3, 0, 1]), "maxfun": r.choice([15000] * 4 + [20, 3]),
        "maxls": r.choice([20] * 8 + [3, 3, 1, 1, 0]), "maxcor": r.choice([10] * 3 + [3, 1]),
        "eps": r.choice([1e-8] * 4 + [1e-6]),
    }  # fmt: skip
    low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    if r.random() < 0.6:
        for j in range(len(start)):
            if r.random() < 0.6:
                low[j] = r.choice([0.0, r.uniform(-3, 1), -1.0])
            if r.random() < 0.6:
                high[j] = max(low[j], -3) + r.choice([1.0, r.uniform(0.1, 4), 10.0, 0.0])
    pairs: Any = None if np.all(np.isinf([low, high])) else [*zip(low, high, strict=True)]
    eps = None if told == "2-point" else said["eps"]
    rest = (low, high), said["maxcor"], (said["ftol"], said["gtol"])
    limits = said["maxfun"], said["maxiter"], said["maxls"]
    given = f, jac, both, start, args, eps, *rest, limits, of_minimize._texts()
    how: dict[str, Any] = {"bounds": pairs, "options": said}
    theirs = outcome(lambda: minimize(f, start, args, "L-BFGS-B", told, **how))
    return outcome(lambda: limited_memory.anywhere(*given)), theirs


SYSTEMS: tuple[tuple[int, Callable[..., Any], Callable[..., Any] | None], ...] = (
    (2, lambda x, p, q: [x[0] * np.cos(x[1]) - 4 * p, x[1] * x[0] - x[1] - 5 * q], None),
    (0, lambda x, p, q: x**2 - p, lambda x, p, q: np.diag(2 * x)),
    (
        2,
        lambda x, p, q: np.array([10 * (x[1] - x[0] ** 2), p - x[0]]),
        lambda x, p, q: np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]),
    ),
    (0, lambda x, p, q: np.exp(-p * x) - q * x * np.sum(x), None),
    (0, lambda x, p, q: np.sin(x) + q * np.roll(x, 1) - p, None),
    (0, lambda x, p, q: x**2 + p, None),  # without a root
    (
        4,
        lambda x, p, q: np.array(
            [
                x[0] + 10 * x[1],
                p * (x[2] - x[3]),
                (x[1] - 2 * x[2]) ** 2,
                q * (x[0] - x[3]) ** 2,
            ]
        ),
        None,
    ),
    (0, lambda x, p, q: (x - p) ** 3, lambda x, p, q: np.diag(3 * (x - p) ** 2)),
    (0, lambda x, p, q: x * 0 + p, None),
    (0, lambda x, p, q: np.where(x > p, np.nan, x - 2 * p), None),
    (2, lambda x, p, q: np.array([x[0] + x[1] - p, 2 * x[0] + 2 * x[1] - 2 * p]), None),
)
"""How many numbers, functions, and their slopes where they are known."""


def by_hybrid(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """The same of roots by Powell's method: what SciPy's has no words for is left out."""
    from scipy.optimize import root

    n, f, jac = r.choice(SYSTEMS)
    n, args = n or r.choice([1, 2, 2, 3, 4, 6]), (r.uniform(0.3, 3), r.uniform(0.3, 3))
    start = np.array([r.choice([0.0, r.uniform(-3, 3), r.uniform(-3, 3), 1.0]) for _ in range(n)])
    if r.random() < 0.05:
        start = np.full(n, args[0])
    said: dict[str, Any] = {
        "xtol": r.choice([1.49012e-8] * 3 + [1e-13, 1e-3, 0.0]),
        "maxfev": r.choice([0, 0, 0, 5, 20]), "factor": r.choice([100.0, 100.0, 0.5]),
    }  # fmt: skip
    eps = r.choice([None, None, 1e-10])
    told = jac if r.random() < 0.5 else None
    more = said if told is not None else said | {"eps": eps}
    theirs = outcome(lambda: root(f, start, args, "hybr", told, options=more))
    rest = said["xtol"], said["maxfev"], eps or math.ulp(1.0), said["factor"]
    ours = outcome(lambda: hybrids.hybrid(f, told, start, args, *rest))
    if not isinstance(ours, type):
        if not ours.pop("is_said"):
            ours.pop("message")
        if told is None:
            ours.pop("njev")
    return ours, theirs


def by_powell(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """The same along directions, by Powell's method."""
    from scipy.optimize import minimize

    f, _ = r.choice(BASINS)
    n, args = r.choice([1, 2, 2, 3, 4]), (r.uniform(0.3, 3), r.uniform(0.3, 3))
    start = np.array([r.choice([0.0, r.uniform(-3, 3), r.uniform(-3, 3), 1.0]) for _ in range(n)])
    said: dict[str, Any] = {
        "xtol": r.choice([1e-4, 1e-4, 1e-8, 0.1]), "ftol": r.choice([1e-4, 1e-4, 1e-8, 0.1]),
        "maxiter": r.choice([None] * 3 + [3, 0, 1]), "maxfev": r.choice([None] * 3 + [100, 20, 0]),
    }  # fmt: skip
    ends = pairs = None
    if r.random() < 0.5:
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        for j in range(n):
            if r.random() < 0.6:
                low[j] = start[j] - r.choice([0.0, 0.1, 1.0, 10.0])
            if r.random() < 0.6:
                high[j] = start[j] + r.choice([0.05, 0.1, 1.0, 10.0, 0.0])
        ends, pairs = (low, high), list(zip(low, high, strict=True))
    rest = said["xtol"], said["ftol"], said["maxiter"], said["maxfev"]
    return (
        outcome(lambda: directions.powell(f, start, start, args, ends, *rest)),
        outcome(lambda: minimize(f, start, args, "Powell", bounds=pairs, options=said)),
    )


def by_lm(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """Roots by the method of Levenberg and Marquardt."""
    from scipy.optimize import root

    n, f, jac = r.choice(SYSTEMS)
    n, args = n or r.choice([1, 2, 2, 3, 4]), (r.uniform(0.3, 3), r.uniform(0.3, 3))
    start = np.array([r.choice([0.0, r.uniform(-3, 3), r.uniform(-3, 3), 1.0]) for _ in range(n)])
    jac = jac if r.random() < 0.5 else None
    said: dict[str, Any] = {
        "xtol": r.choice([1.49012e-8, 1e-3, 0.0]), "ftol": r.choice([1.49012e-8, 1e-3, 0.0]),
        "gtol": r.choice([0.0, 0.0, 1e-3]), "maxiter": r.choice([0, 0, 5, 30]),
        "eps": r.choice([0.0, 1e-8]), "factor": r.choice([100, 0.5]),
    }  # fmt: skip
    limits = said["ftol"], said["xtol"], said["gtol"], said["factor"]
    texts = of_least_squares._texts(*limits[:3])
    rest = start, args, said["maxiter"], said["eps"], limits, texts

    def plain(found: Any) -> Any:
        if not found.pop("is_said"):
            found.pop("message")
        if jac is None:
            found.pop("njev")
        return found

    return (
        outcome(lambda: plain(fits.root(f, jac, *rest))),
        outcome(lambda: root(f, start, args, "lm", jac, options=said)),
    )
