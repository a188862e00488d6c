"""Random curves through points, for `fuzz.solvers`: ours in plain Python against SciPy's bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from xpapply.library.solvers import b_splines, splines

ENDS = "not-a-knot", "natural", "clamped"


def drawn(r: random.Random, outcome: Callable[[Callable[[], Any]], Any]) -> tuple[Any, Any]:
    """What ours and SciPy's give."""
    from scipy import interpolate, linalg

    rng = np.random.default_rng(r.randrange(1 << 30))
    n = r.choice([2, 3, 4, 5, 8, 13])
    x, y = np.cumsum(rng.uniform(0.01, 2, n)), rng.normal(size=n)
    if r.random() < 0.3:
        y = np.round(y)
    if r.random() < 0.05:
        y[r.randrange(n)] = math.nan
    if r.random() < 0.05:
        x = np.sort(np.round(x))
    at = np.concatenate([rng.uniform(x[0] - 1, x[-1] + 1, 6), x[:2], x[-1:]])
    which, nu, goes_on = r.randrange(8), r.choice([0, 0, 1, 2, 3]), r.random() < 0.5
    if which > 5:
        return of_fitpack(r, x, y, at, outcome)
    if which == 4:
        fill: Any = r.choice(["extrapolate", (1.0, -1.0), None])
        how = {"extrapolate": splines.EXTENDS, None: splines.RAISES}.get(fill, splines.FILLS)
        some = {} if fill is None else {"bounds_error": False, "fill_value": fill}
        return (
            outcome(lambda: _bits(splines.lines(x, y, how, fill)(at))),
            outcome(lambda: _bits(interpolate.interp1d(x, y, **some)(at))),
        )
    if which == 5:
        ab = rng.normal(size=(3, n))
        return (
            outcome(lambda: _bits(splines.solve_banded(ab, y, True))),
            outcome(lambda: _bits(linalg.solve_banded((1, 1), ab, y))),
        )
    k, j = r.randrange(3), r.randrange(3)
    ours, ends, cls, some = (
        (splines.cubic, (k, j), interpolate.CubicSpline, {"bc_type": (ENDS[k], ENDS[j])}),
        (splines.monotone, None, interpolate.PchipInterpolator, {}),
        (splines.akima, None, interpolate.Akima1DInterpolator, {}),
        (splines.akima, True, interpolate.Akima1DInterpolator, {"method": "makima"}),
    )[which]
    given = ours, x, y, ends, True if goes_on else None
    return (
        outcome(lambda: _bits(splines.curve(*given)(at, nu))),
        outcome(lambda: _bits(cls(x, y, extrapolate=goes_on, **some)(at, nu))),
    )


def of_fitpack(
    r: random.Random, x: Any, y: Any, at: Any, outcome: Callable[[Callable[[], Any]], Any]
) -> tuple[Any, Any]:
    """The same of a spline that FITPACK puts through points, and its derivatives."""
    from scipy import interpolate

    k, order, beyond = r.randint(1, 5), r.randint(0, 3), r.randrange(4)
    made = r.choice([interpolate.splrep, interpolate.InterpolatedUnivariateSpline])

    def ours() -> list[str]:
        t, c, _ = b_splines.representation(x, y, k)
        return _bits(b_splines.at(t, c, k, beyond, order, at))

    def theirs() -> list[str]:
        found = made(x, y, k=k)
        if isinstance(found, tuple):
            return _bits(interpolate.splev(at, found, order, beyond))
        return _bits(found(at, order, beyond))

    return outcome(ours), outcome(theirs)


def _bits(x: Any) -> list[str]:
    """Numbers, of which NaN is like NaN."""
    return [float(y).hex() for y in x]
