"""Random differential equations, with events and solutions at any place, for `fuzz.solvers`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpapply.frontends.python.source.calls import of_odes
from xpapply.library.solvers.odes import driver, implicit

EQUATIONS: tuple[tuple[int, Callable[..., Any]], ...] = (
    (1, lambda t, y, p, q: -p * y),
    (1, lambda t, y, p, q: p * y[0] * (1 - y[0] / q)),
    (1, lambda t, y, p, q: [math.sqrt(abs(y[0])) - t * q]),
    (1, lambda t, y, p, q: [-y[0] if t < 0.2 else p]),
    (2, lambda t, y, p, q: [y[1], -p * y[0] - 0.1 * q * y[1]]),
    (2, lambda t, y, p, q: np.array([y[0] * (p - y[1]), y[1] * (y[0] - q)])),
    (2, lambda t, y, p, q: (p * math.cos(3 * t), 0)),
    (3, lambda t, y, p, q: [-p * y[0] * y[1], p * y[0] * y[1] - q * y[1], q * y[1]]),
    (4, lambda t, y, p, q: [y[1], -p * y[0] + y[2], y[3], -q * y[2] + y[0]]),
    (5, lambda t, y, p, q: p * np.roll(y, 1) - q * y),
)
EVENTS: tuple[Callable[..., Any], ...] = (
    lambda t, y, p, q: y[0] - 0.7,
    lambda t, y, p, q: y[-1] - q * 0.5,
    lambda t, y, p, q: t - 0.3,
    lambda t, y, p, q: math.sin(9 * t * p),
    lambda t, y, p, q: y.sum() - 1.0 if isinstance(y, np.ndarray) else 0,
    lambda t, y, p, q: y[0] > 0.7,
    lambda t, y, p, q: 1.0 if t > 0.31 else -1,  # with a jump
    lambda t, y, p, q: 0.0,
    lambda t, y, p, q: math.nan if t > 0.5 else t - 0.2,
)


class Moved(NamedTuple):
    """What is compared: counts and texts, and arrays."""

    counts: tuple[Any, ...]
    arrays: list[Any]

    def is_like(self, theirs: Moved) -> bool:
        """Whether all bits are the same; to rounding where BLAS is another one."""
        same: Any = np.array_equal if implicit.are_known() else np.allclose
        if self.counts != theirs.counts or len(self.arrays) != len(theirs.arrays):
            return False
        pairs = zip(self.arrays, theirs.arrays, strict=True)
        return all(x.shape == y.shape and same(x, y) for x, y in pairs)


def _marked(f: Callable[..., Any], r: random.Random) -> Callable[..., Any]:
    """An event, with attributes or without."""

    def event(t: Any, y: Any, p: Any, q: Any) -> Any:
        return f(t, y, p, q)

    if r.random() < 0.5:
        event.terminal = r.choice([True, False, 1, 2, 3, 0])  # type: ignore[attr-defined]
    if r.random() < 0.5:
        event.direction = r.choice([1, -1, 0, 0.5])  # type: ignore[attr-defined]
    return event


def _slopes_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """About the Jacobian of an equation."""

    def slopes(t: Any, y: Any, p: Any, q: Any) -> Any:
        here, n = np.array(f(t, y, p, q)), len(y)
        steps = 1e-5 * np.eye(n)
        return np.stack([(np.array(f(t, y + h, p, q)) - here) * 1e5 for h in steps], axis=-1)

    return slopes


def moved(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """What ours and SciPy's give."""
    from scipy.integrate import solve_ivp

    n, f = r.choice(EQUATIONS)
    args = r.uniform(0.3, 3), r.uniform(0.3, 3)
    method = r.choice(["RK23", "RK45", "RK45", "DOP853", "Radau", "BDF"])
    span = r.choice([(0.0, r.uniform(0.1, 2)), (r.uniform(0.1, 1), 0.0), (-1.0, 0.5)])
    y = np.array([r.uniform(0.1, 2) for _ in range(n)])
    at = r.choice([None, np.linspace(*span, r.choice([2, 5, 25])), np.array([sum(span) / 2])])
    if at is not None and r.random() < 0.1:
        at = r.choice([at[::-1], at + 1])
    some: dict[str, Any] = {"rtol": r.choice([1e-3, 1e-3, 1e-5]), "atol": r.choice([1e-6, 1e-2])}
    if r.random() < 0.3:
        some["atol"] = np.full(n, 1e-4) * np.arange(1, n + 1)
    if r.random() < 0.2:
        some["max_step"] = r.choice([0.1, 0.5, 0.0])
    if r.random() < 0.2:
        some["first_step"] = r.choice([1e-3, 0.05, 9.0])
    looked = None
    if r.random() < 0.6:
        looked = [_marked(r.choice(EVENTS), r) for _ in range(r.choice([1, 1, 1, 2, 3, 4]))]
    dense = r.random() < 0.3
    wanted = np.array([r.uniform(min(span) - 0.2, max(span)) for _ in range(r.choice([1, 2, 5]))])
    each = np.broadcast_to(some["atol"], (n,))
    limits = some["rtol"], each, some.get("max_step", math.inf), some.get("first_step")
    parts: Any = of_odes.parts_of(method)
    if method in ("Radau", "BDF") and r.random() < 0.4:
        given_jac = r.choice([_slopes_of(f), np.diag(np.full(n, -args[0]))])
        some["jac"] = given_jac
        is_constant = isinstance(given_jac, np.ndarray)
        parts = *parts[:2], (None, given_jac) if is_constant else (given_jac, None), parts[3]
    until = None
    if looked is not None:
        most = [float(getattr(x, "terminal", 0) or math.inf) for x in looked]
        ways = [float(getattr(x, "direction", 0)) for x in looked]
        until = tuple(looked), y, np.array(most), np.array(ways)
    given = (
        f, args, span[0], *span, y, at, at, limits, *parts, until,
        True if dense else None,
    )  # fmt: skip
    names = ("nfev", "njev", "nlu", "status", "message", "success")

    def told(x: Any) -> Moved:
        found = [x.t, x.y, *(x.t_events or ()), *(x.y_events or ())]
        if dense:
            found += [x.sol(wanted), x.sol(wanted[0])]
        return Moved(tuple(x[k] for k in names), found)

    return (
        outcome(lambda: told(driver.solved(*given))),
        outcome(lambda: told(solve_ivp(
            f, span, y, method, at, args=args, events=looked, dense_output=dense, **some
        ))),
    )  # fmt: skip
