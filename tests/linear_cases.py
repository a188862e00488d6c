"""Random linear least squares within bounds, for `fuzz.solvers`: ours and SciPy's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from xpapply.library.solvers import linear

NEAR = 1e-7


def drawn(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """What ours and SciPy's give: who is at a bound, what is counted, whether the rest is near."""
    from scipy.optimize import lsq_linear, nnls

    rng = np.random.default_rng(r.randrange(1 << 30))
    if r.random() < 0.6:
        a, b = matrix(r, rng), None
        b = right(r, rng, a)
        most = r.choice([0, 0, 0, 0, 3, 1])
        factors = np.linalg.qr(a) if len(a) > a.shape[1] and r.random() < 0.5 else None
        ours = outcome(
            lambda: linear.nnls_of(*factors, b, most) if factors else linear.nnls(a, b, most)
        )
        theirs = outcome(lambda: nnls(a, b, maxiter=most))
        return beside(ours, theirs, lambda x: {"free": (x[0] > 0).tolist()})
    n = r.randint(1, 7)
    a = rng.normal(size=(n + r.randint(0, 12), n)) + r.choice([0, 1])
    x = rng.normal(size=n)
    b = a @ x + rng.normal(size=len(a)) * 10.0 ** r.randint(-3, 0)
    low = np.where(rng.random(n) < 0.7, x - rng.uniform(-0.3, 1, n), -np.inf)
    high = np.maximum(x, low) + np.where(rng.random(n) < 0.7, rng.uniform(-0.1, 1, n), np.inf)
    by, tol, most = r.choice([None, True]), r.choice([1e-10, 1e-10, 1e-6]), r.choice([0, 0, 0, 3])
    method = "bvls" if by else "trf"
    ours = outcome(lambda: linear.lsq_linear(a, b, (low, high), by, tol, most))
    theirs = outcome(
        lambda: lsq_linear(a, b, (low, high), method, tol, max_iter=most if most else None)
    )
    exact = ("nit", "status", "message", "success") if by else ("success",)
    return beside(
        ours,
        theirs,
        lambda x: {k: x[k] for k in exact} | ({"held": x.active_mask.tolist()} if by else {}),
    )


def matrix(r: random.Random, rng: np.random.Generator) -> np.ndarray:
    """One that may have columns that are zero, alike, or nearly."""
    m, n = r.randint(1, 14), r.randint(1, 14)
    kind = r.randrange(6)
    a = rng.normal(size=(m, n)) if kind < 3 else rng.random((m, n))
    if kind == 1:
        a[:, r.randrange(n)] = 0.0
    if kind == 2:
        a[:, r.randrange(n)] = r.choice([1.0, 1 + 1e-12, 2.0, 3.0]) * a[:, r.randrange(n)]
    if kind == 3:
        a = np.round(3.0 * a)
    if kind == 4:
        a = np.exp(-np.linspace(0.1, 3, m)[:, None] / np.geomspace(0.1, 3, n))
    return np.asfortranarray(a) if r.random() < 0.2 else a


def right(r: random.Random, rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    """A right side, that may be below zero, fit without noise, or be not finite."""
    m, n = a.shape
    kind = r.randrange(8)
    b = rng.normal(size=m) if kind < 4 else a @ np.maximum(rng.normal(size=n), 0.0)
    if kind > 4:
        b = b + rng.normal(size=m) * 10.0 ** r.randint(-6, -1)
    if kind == 0:
        b = -np.abs(b)
    if r.random() < 0.05:
        b[r.randrange(m)] = r.choice([np.nan, np.inf])
    return b * r.choice([1.0, 1.0, 1e6, 1e-9]) if r.random() < 0.98 else 0.0 * b


def beside(ours: Any, theirs: Any, exact: Callable[[Any], dict[str, Any]]) -> tuple[Any, Any]:
    """What has to be equal of two results, and that the rest is near."""
    if isinstance(ours, type) or isinstance(theirs, type):
        return ours, theirs
    pairs = [(x, theirs[k]) for k, x in enumerate(ours)] if isinstance(ours, tuple) else []
    pairs = pairs or [(ours[k], theirs[k]) for k in ("x", "cost", "fun")]
    sizes = [float(np.abs(y).max(initial=0.0)) for _, y in pairs]
    is_near = all(
        np.allclose(x, y, NEAR, NEAR * size) for (x, y), size in zip(pairs, sizes, strict=True)
    )
    return exact(ours) | {"near": is_near}, exact(theirs) | {"near": True}
