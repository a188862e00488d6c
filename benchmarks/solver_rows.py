"""The rows of the suite `solvers`: what is fitted, solved or integrated for each slice.

They are such as people loop over pixels, voxels, spectra and cells with. They were written down
before the first of them was timed, with the arguments that the fields use; there are as many slices
as SciPy takes some two seconds for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.optimize import (
    bisect,
    brentq,
    curve_fit,
    least_squares,
    lsq_linear,
    minimize,
    minimize_scalar,
    newton,
    nnls,
)

from .loop_rows import Data, Row

FITS, MINIMA, ROOTS = "fits", "minima", "roots"
INTEGRALS, EQUATIONS = "integrals", "differential equations"


@dataclass(frozen=True)
class SolverRow(Row):
    """A function that solves something for each slice.

    Attributes
    ----------
    says : str
        What is solved, by what.
    statuses : int
        So many last numbers of a result count or say how it ended.
    """

    says: str = ""
    statuses: int = 0


ROWS: list[SolverRow] = []


def row(
    group: str, count: int, data: Data, signature: str | None = None, statuses: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, which stays what it is."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        says = (f.__doc__ or "").strip().removesuffix(".")
        ROWS.append(SolverRow(f.__name__, group, f, count, data, signature, says, statuses))
        return f

    return register


def noisy(
    model: Callable[..., Any], at: np.ndarray, noise: float, *ranges: tuple[float, float]
) -> Data:
    """A model at places, of parameters that are drawn from ranges, with noise."""

    def data(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
        drawn = [rng.uniform(low, high, (n, 1)) for low, high in ranges]
        clean = model(at, *drawn)
        return (clean + noise * rng.standard_normal(clean.shape),)

    return data


def drawn(*ranges: tuple[float, float]) -> Data:
    """Slices of a number from each range."""
    return lambda rng, n: (np.stack([rng.uniform(a, b, n) for a, b in ranges], 1),)


# --- fits -----------------------------------------------------------------------------

INVERSIONS = np.array([0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.2, 1.6, 2.4, 3.2, 4.0, 5.0])
ECHOES = np.linspace(0.01, 0.16, 16)
WEIGHTINGS = np.array([0, 10, 20, 40, 60, 80, 100, 150, 200, 300, 400, 600, 800, 1000.0])
LINE = np.linspace(-5.0, 5.0, 40)
DAYS = np.arange(1.0, 366.0, 8.0)
DOSES = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
WAVES = np.geomspace(0.3, 30.0, 20)


def inversion(t, m, a, t1):
    return m * (1.0 - a * np.exp(-t / t1))


@row(FITS, 8000, noisy(inversion, INVERSIONS, 1.0, (60, 140), (1.8, 2.0), (0.3, 2.0)))
def relaxation_t1(v):
    """MRI: T1 of an inversion recovery, three parameters by `curve_fit`."""
    try:
        return curve_fit(inversion, INVERSIONS, v, p0=(v[-1], 1.9, 1.0))[0]
    except RuntimeError:
        return np.full(3, np.nan)


def decay(t, m, rate):
    return m * np.exp(-rate * t)


@row(FITS, 12_000, noisy(decay, ECHOES, 2.0, (60, 140), (8.0, 40.0)))
def relaxation_t2(v):
    """MRI: T2 of an exponential decay, two parameters by `curve_fit`."""
    try:
        p = curve_fit(decay, ECHOES, v, p0=(v[0], 20.0))[0]
    except RuntimeError:
        return np.full(2, np.nan)
    return np.array([p[0], 1.0 / p[1]])


def diffusion(b, s, f, fast, slow):
    return s * (f * np.exp(-b * fast) + (1.0 - f) * np.exp(-b * slow))


_IVIM = noisy(
    diffusion, WEIGHTINGS, 2.0, (80, 120), (0.05, 0.3), (0.01, 0.05), (5e-4, 2e-3)
)  # fmt: skip


@row(FITS, 600, _IVIM)
def diffusion_ivim(v):
    """MRI: IVIM, two exponential decays within bounds, four parameters by `curve_fit`."""
    start = (v[0], 0.1, 0.02, 1e-3)
    try:
        return curve_fit(
            diffusion, WEIGHTINGS, v, p0=start, x_scale=(100.0, 0.1, 0.01, 1e-3),
            bounds=((0.0, 0.0, 3e-3, 0.0), (np.inf, 1.0, 0.2, 3e-3)),
        )[0]  # fmt: skip
    except RuntimeError:
        return np.full(4, np.nan)


def gaussian(x, height, centre, width, a, b):
    return height * np.exp(-0.5 * ((x - centre) / width) ** 2) + a + b * x


@row(
    FITS, 5000,
    noisy(gaussian, LINE, 0.2, (5, 10), (-1, 1), (0.5, 1.5), (0, 2), (-0.2, 0.2)),
)  # fmt: skip
def gaussian_peak(v):
    """Spectra: a Gaussian peak on a line, five parameters by `curve_fit`."""
    start = (v.max() - v.min(), LINE[v.argmax()], 1.0, v.min(), 0.0)
    try:
        return curve_fit(gaussian, LINE, v, p0=start)[0]
    except RuntimeError:
        return np.full(5, np.nan)


def lorentzian(x, height, centre, width):
    return height * width**2 / ((x - centre) ** 2 + width**2)


@row(FITS, 1200, noisy(lorentzian, LINE, 0.2, (5, 10), (-2, 2), (0.4, 1.5)))
def lorentzian_peak(v):
    """Spectra: a Lorentzian peak within bounds, three parameters by `curve_fit`."""
    try:
        return curve_fit(
            lorentzian, LINE, v, p0=(v.max(), LINE[v.argmax()], 1.0),
            bounds=([0.0, -5.0, 0.05], [np.inf, 5.0, 5.0]),
        )[0]  # fmt: skip
    except RuntimeError:
        return np.full(3, np.nan)


def season(t, low, high, spring, rise, autumn, fall):
    up = 1.0 / (1.0 + np.exp(-rise * (t - spring)))
    down = 1.0 / (1.0 + np.exp(-fall * (t - autumn)))
    return low + (high - low) * (up - down)


_NDVI = noisy(
    season, DAYS, 0.02, (0.1, 0.3), (0.6, 0.9), (100, 140), (0.05, 0.12), (260, 300), (0.04, 0.1)
)  # fmt: skip


@row(FITS, 3000, _NDVI)
def double_logistic(v):
    """Phenology: a double logistic, six parameters by `curve_fit`."""
    start = (v.min(), v.max(), 120.0, 0.08, 280.0, 0.06)
    try:
        return curve_fit(season, DAYS, v, p0=start)[0]
    except RuntimeError:
        return np.full(6, np.nan)


def saturating(s, top, half):
    return top * s / (half + s)


@row(FITS, 8000, noisy(saturating, DOSES, 0.03, (1.0, 4.0), (0.5, 8.0)))
def michaelis_menten(v):
    """Chemistry: Michaelis and Menten's curve, two parameters and their errors by `curve_fit`."""
    try:
        p, covariance = curve_fit(saturating, DOSES, v, p0=(v.max(), 2.0))
    except RuntimeError:
        return np.full(4, np.nan)
    return np.concatenate([p, np.sqrt(np.diag(covariance))])


def power(x, a, b):
    return a * x**b


def _with_outliers(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    (v,) = noisy(power, WAVES, 0.1, (1.0, 3.0), (-1.2, 0.8))(rng, n)
    return (np.where(rng.random(v.shape) < 0.05, v + 5.0, v),)


@row(FITS, 1000, _with_outliers, statuses=2)
def power_law(v):
    """Spectra: a power law with outliers, two parameters by `least_squares` with `soft_l1`."""
    found = least_squares(
        lambda p: power(WAVES, p[0], p[1]) - v, (1.0, 0.0), loss="soft_l1", f_scale=0.3
    )
    return np.array([*found.x, found.cost, found.status, found.nfev])


TRAIN = np.arange(1, 33) * 0.01
TIMES = np.exp(-TRAIN[:, None] / np.geomspace(0.01, 2.0, 40))
"""Decays by 40 times of relaxation, at 32 echoes."""
MATERIALS = np.abs(np.random.default_rng(3).standard_normal((60, 8)).cumsum(0))


def _two_pools(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    times = rng.uniform(((0.015,), (0.06,)), ((0.04,), (0.12,)), (2, n))[..., None]
    v = 0.15 * np.exp(-TRAIN / times[0]) + 0.85 * np.exp(-TRAIN / times[1])
    return (v + 0.005 * rng.standard_normal(v.shape),)


@row(FITS, 20_000, _two_pools)
def spectrum_t2(v):
    """MRI: a spectrum of 40 relaxation times of 32 echoes (myelin water), by `nnls`."""
    x, off = nnls(TIMES, v)
    return np.append(x, off)


def _mixed(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    v = rng.dirichlet(np.full(8, 0.3), n) @ MATERIALS.T
    return (v + 0.05 * rng.standard_normal(v.shape),)


@row(FITS, 60_000, _mixed)
def unmixing(v):
    """Spectra: shares of 8 materials in 60 bands, by `nnls`."""
    return nnls(MATERIALS, v)[0]


@row(FITS, 1000, _mixed, statuses=2)
def bounded_unmixing(v):
    """Spectra: the same shares between 0 and 1, by `lsq_linear` with `bvls`."""
    found = lsq_linear(MATERIALS, v, bounds=(0.0, 1.0), method="bvls")
    return np.array([*found.x, found.cost, found.status, found.nit])


# --- minima ---------------------------------------------------------------------------


def _lines(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    a, b = rng.uniform(-1, 1, (2, n, 1))
    v = a + b * LINE[::2] + 0.1 * rng.standard_normal((n, 20))
    return (np.where(rng.random(v.shape) < 0.1, v + 8.0, v),)


@row(MINIMA, 1200, _lines, statuses=2)
def robust_line(v):
    """A line with the least sum of distances, by `minimize` with Nelder and Mead's simplex."""
    off = lambda p: np.abs(p[0] + p[1] * LINE[::2] - v).sum()  # noqa: E731
    found = minimize(off, (0.0, 0.0), method="Nelder-Mead")
    return np.array([*found.x, found.fun, found.status, found.nfev])


def _counts(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (rng.gamma(rng.uniform(0.5, 5.0, (n, 1)), 2.0, (n, 30)),)


@row(MINIMA, 15_000, _counts, statuses=1)
def shape_of_gamma(v):
    """The likeliest shape of a gamma distribution, by `minimize_scalar` within bounds."""
    mean, logs = v.mean(), np.log(v).mean()
    found = minimize_scalar(
        lambda k: math.lgamma(k) + k * math.log(mean / k) + k - (k - 1.0) * logs,
        bounds=(0.05, 50.0), method="bounded",
    )  # fmt: skip
    return np.array([found.x, found.nfev])


# --- roots ----------------------------------------------------------------------------


def option_price(sigma, spot, strike, years, rate):
    spread = sigma * math.sqrt(years)
    d1 = (math.log(spot / strike) + rate * years) / spread + 0.5 * spread
    first = 0.5 * (1.0 + math.erf(d1 / math.sqrt(2.0)))
    second = 0.5 * (1.0 + math.erf((d1 - spread) / math.sqrt(2.0)))
    return spot * first - strike * math.exp(-rate * years) * second


def _options(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    strikes, years = rng.uniform(80, 120, n), rng.uniform(0.2, 2.0, n)
    sigmas = rng.uniform(0.1, 0.6, n)
    given = zip(sigmas, strikes, years, strict=True)
    return np.array([option_price(s, 100.0, k, t, 0.02) for s, k, t in given]), strikes, years


@row(ROOTS, 60_000, _options, "")
def implied_volatility(price, strike, years):
    """Finance: the implied volatility of an option, by `brentq` in `vectorize`."""
    try:
        return brentq(
            lambda sigma: option_price(sigma, 100.0, strike, years, 0.02) - price, 1e-3, 5.0
        )
    except ValueError:
        return math.nan


@row(ROOTS, 20_000, drawn((0.0, 6.28), (0.0, 0.9)))
def kepler(v):
    """Orbits: Kepler's equation, by `newton` with its derivative."""
    mean, e = v[0], v[1]
    return newton(lambda x: x - e * np.sin(x) - mean, mean, fprime=lambda x: 1.0 - e * np.cos(x))


@row(ROOTS, 20_000, drawn((0.2, 5.0), (0.5, 3.0), (0.01, 0.06)))
def depth_of_flow(v):
    """Hydrology: the depth of a flow by Manning's formula, by `bisect`."""
    flow, width, rough = v[0], v[1], v[2]

    def off(depth):
        area, wet = width * depth, width + 2.0 * depth
        return area * (area / wet) ** (2.0 / 3.0) * math.sqrt(1e-3) / rough - flow

    return bisect(off, 1e-6, 100.0)


# --- integrals, differential equations ------------------------------------------------


@row(INTEGRALS, 10_000, drawn((2.0, 8.0), (1.5, 4.0)))
def part_of_radiation(v):
    """Planck's curve up to a frequency, and all of it: `quad` to a number and to infinity."""
    end, power_ = v[0], v[1]
    curve = lambda x: x**power_ / math.expm1(x) if x > 0.0 else 0.0  # noqa: E731
    tail = lambda x: x**power_ * math.exp(-x) / (1.0 - math.exp(-x - 1e-3))  # noqa: E731
    return np.array([quad(curve, 0.0, end)[0], quad(tail, 0.0, np.inf)[0]])


WEEKS = np.linspace(0.0, 100.0, 21)
YEARS = np.linspace(0.0, 20.0, 41)


@row(EQUATIONS, 1500, drawn((0.2, 0.6), (0.05, 0.15)), statuses=1)
def epidemic(v):
    """An epidemic in each cell, three states for 100 days: `solve_ivp` by RK45."""
    beta, gamma = v[0], v[1]

    def change(t, y):
        caught = beta * y[0] * y[1]
        return [-caught, caught - gamma * y[1], gamma * y[1]]

    found = solve_ivp(change, (0.0, 100.0), (0.99, 0.01, 0.0), t_eval=WEEKS)
    return np.array([*found.y[1], found.nfev])


@row(EQUATIONS, 600, drawn((0.6, 1.2), (0.3, 0.6), (0.2, 0.4), (0.3, 0.8)), statuses=1)
def hunters_and_hunted(v):
    """Lotka and Volterra's equations, two states for 20 years: `solve_ivp` by DOP853."""
    a, b, c, d = v

    def change(t, y):
        return [y[0] * (a - b * y[1]), y[1] * (c * y[0] - d)]

    found = solve_ivp(
        change, (0.0, 20.0), (1.0, 1.0), method="DOP853", t_eval=YEARS, rtol=1e-6
    )  # fmt: skip
    return np.array([*found.y[0], found.nfev])
