"""Methods for the suite `methods`: spectra, series, sequences."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from . import method_peers as peers
from .loop_rows import normal, two
from .loop_series import dtw as warped
from .loop_series import pava
from .loop_series import viterbi as most_likely
from .method_pixels import penalized
from .method_rows import method

SERIES = "series and spectra"


def spectra(rng, n):
    """Peaks on a baseline that bends."""
    x = np.linspace(0.0, 1.0, 1000)
    a, b, c = (rng.uniform(low, high, (n, 1)) for low, high in ((2, 6), (-3, 3), (0.5, 2)))
    v = a + b * x + c * np.sin(3 * x) + 0.05 * rng.standard_normal((n, 1000))
    for _ in range(6):
        height, centre, width = rng.uniform(1, 8, n), rng.uniform(0, 1, n), rng.uniform(3, 12, n)
        v += height[:, None] * np.exp(-(((x - centre[:, None]) * 1000 / width[:, None]) ** 2))
    return (v,)


@method(
    SERIES, 10_000, spectra, source="Eilers and Boelens 2005", sample=30,
    package="pybaselines", peer=peers.pybaselines_asls, part=500, near=1e-6,
)  # fmt: skip
def baseline(v, stiff=1e5, asymmetry=0.01, rounds=50, near=1e-3):
    """Asymmetric least squares: the baseline under the peaks of a spectrum."""
    n = len(v)
    w = np.ones(n)
    z = penalized(v, w, stiff)
    for _ in range(rounds):
        moved = weight = 0.0
        for i in range(n):
            new = asymmetry if v[i] > z[i] else 1.0 - asymmetry
            moved += (new - w[i]) ** 2
            weight += w[i] ** 2
            w[i] = new
        if math.sqrt(moved) / math.sqrt(weight) < near:
            break
        z = penalized(v, w, stiff)
    return z


def symbols(rng, n):
    """Sequences of four symbols."""
    return (rng.integers(0, 4, (n, 200)),)


@method(
    SERIES, 100_000, symbols, source="Viterbi 1967, Rabiner 1989", sample=100,
    package="hmmlearn", peer=peers.hmmlearn_viterbi, part=3000, near=1e-12,
    shown=peers.likelihoods,
)  # fmt: skip
def viterbi(seen):
    """Viterbi: the most likely states of a hidden Markov model, three of them."""
    return most_likely(seen)


@method(
    SERIES, 20_000, two(normal(100)), "(n),(m)->()", source="Sakoe and Chiba 1978", sample=20,
    package="dtaidistance", peer=peers.dtaidistance_dtw, part=5000, near=1e-12,
)  # fmt: skip
def dtw(a, b):
    """DTW: how far two series are apart when one may be stretched."""
    return warped(a, b)


def levels(rng, n):
    """Levels whose slopes wander, seen with noise and gaps."""
    slope = np.cumsum(0.02 * rng.standard_normal((n, 500)), 1)
    v = np.cumsum(slope + 0.1 * rng.standard_normal((n, 500)), 1)
    v += 0.5 * rng.standard_normal((n, 500))
    v[rng.random((n, 500)) < 0.1] = np.nan
    return (v,)


@method(
    SERIES, 20_000, levels, source="Kalman 1960, Harvey 1989", sample=100,
    package="simdkalman", peer=peers.simdkalman_filter, part=2000,
)  # fmt: skip
def kalman(z, of_level=0.01, of_slope=0.0004, of_noise=0.25):
    """Kalman's filter: a level and its slope, through a series with gaps."""
    level, slope = 0.0, 0.0
    a, b, c = 100.0, 0.0, 100.0  # their covariance
    out = np.empty((2, len(z)))
    for t in range(len(z)):
        if t > 0:
            level = level + slope
            a, b, c = a + 2 * b + c + of_level, b + c, c + of_slope
        if not np.isnan(z[t]):
            s = a + of_noise
            gain, other = a / s, b / s
            off = z[t] - level
            level += gain * off
            slope += other * off
            a, b, c = a * (1 - gain), b * (1 - gain), c - other * b
        out[0, t], out[1, t] = level, slope
    return out


def returns(rng, n):
    """Four years of daily returns, in per cent, whose variance changes."""
    noise = rng.standard_normal((n, 1000))
    v = np.empty((n, 1000))
    variance = np.full(n, 1.0)
    for t in range(1000):
        v[:, t] = np.sqrt(variance) * noise[:, t]
        variance = 0.05 + 0.08 * v[:, t] ** 2 + 0.87 * variance
    return (v,)


def unlikely(p, r, begin):
    """What is made small: minus the logarithm of the likelihood."""
    omega, alpha, beta = p[0], p[1], p[2]
    if omega <= 0.0 or alpha < 0.0 or beta < 0.0 or alpha + beta >= 1.0:
        return math.inf
    variance = omega + (alpha + beta) * begin
    loss = 0.0
    for x in r:
        loss += math.log(variance) + x * x / variance
        variance = omega + alpha * x * x + beta * variance
    return 0.5 * (loss + len(r) * math.log(2 * math.pi))


def before(r):
    """The variance before the first value: what is near counts more."""
    s = weight = 0.0
    w = 1.0
    for x in r[:75]:
        s += w * x * x
        weight += w
        w *= 0.94
    return s / weight


@method(
    SERIES, 1000, returns, source="Bollerslev 1986", sample=4,
    package="arch", peer=peers.arch_garch, part=50, near=1e-4, loss=True,
    shown=lambda found, r: found[:, 3],
)  # fmt: skip
def garch(r):
    """GARCH(1, 1): three parameters of the greatest likelihood."""
    begin = before(r)
    start = (0.05 * r.var(), 0.1, 0.85)
    found = minimize(
        unlikely, start, args=(r, begin), method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-4, "maxiter": 400, "maxfev": 800},
    )  # fmt: skip
    return np.array([*found.x, found.fun])


def months(rng, n):
    """Ten years of monthly sales."""
    v = 100 + np.cumsum(3 * rng.standard_normal((n, 120)), 1)
    return (v + 8 * rng.standard_normal((n, 120)),)


@method(
    SERIES, 50_000, months, source="Brown 1956, Hyndman and others 2008", sample=40,
    package="statsforecast", peer=peers.statsforecast_ses, part=5000, near=1e-3,
    shown=lambda found, v: found[:, 0],
)  # fmt: skip
def smoothed_level(v):
    """Exponential smoothing whose weight is fitted: the forecast, and the weight."""

    def squares(alpha):
        level, s = v[0], 0.0
        for x in v[1:]:
            off = x - level
            s += off * off
            level += alpha * off
        return s

    alpha = minimize_scalar(squares, bounds=(0.01, 0.99), method="bounded").x
    level = v[0]
    for x in v[1:]:
        level += alpha * (x - level)
    return np.array([level, alpha])


def steps(rng, n):
    """Series with a few changes of their level."""
    v = rng.standard_normal((n, 300))
    for _ in range(4):
        at, by = rng.integers(10, 290, n), rng.uniform(-4, 4, n)
        v += np.where(np.arange(300) >= at[:, None], by[:, None], 0.0)
    return (v,)


@method(
    SERIES, 10_000, steps, source="Killick, Fearnhead and Eckley 2012", sample=10,
    package="ruptures", peer=peers.ruptures_pelt, part=500, near=0.0,
)  # fmt: skip
def pelt(v, penalty=15.0, shortest=2):
    """PELT: the changes of a mean that cost least, as many as a penalty allows."""
    n = len(v)
    total, squares = np.zeros(n + 1), np.zeros(n + 1)
    for t in range(n):
        total[t + 1] = total[t] + v[t]
        squares[t + 1] = squares[t] + v[t] * v[t]
    cost = np.full(n + 1, np.inf)
    cost[0] = -penalty
    last = np.zeros(n + 1, dtype=np.int64)
    places, costs, count = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1), 1
    for t in range(shortest, n + 1):
        best, where = np.inf, 0
        for k in range(count):
            s = places[k]
            apart = total[t] - total[s]
            costs[k] = cost[s] + (squares[t] - squares[s] - apart * apart / (t - s))
            if costs[k] < best:
                best, where = costs[k], s
        cost[t], last[t] = best + penalty, where
        kept = 0
        for k in range(count):
            places[kept] = places[k]
            if costs[k] <= cost[t]:
                kept += 1
        places[kept] = t - shortest + 1
        count = kept + 1
    changes = np.zeros(n, dtype=np.int64)
    t = n
    while t > 0:
        if last[t] > 0:
            changes[last[t]] = 1
        t = last[t]
    return changes


def growing(rng, n):
    """Doses and what they do, with noise."""
    return (0.05 * np.arange(100) + rng.standard_normal((n, 100)),)


@method(
    SERIES, 100_000, growing, source="Ayer and others 1955", sample=500,
    package="scikit-learn", peer=peers.sklearn_isotonic, part=5000, near=1e-12,
)  # fmt: skip
def isotonic(y):
    """Isotonic regression: neighbours that fall are pooled."""
    return pava(y)


def skewed(rng, n):
    """Samples of fifty values."""
    return (rng.gamma(2.0, size=(n, 50)),)


RESAMPLED = 999
DRAWS = np.random.default_rng(1)
BEGIN = DRAWS.bit_generator.state


def again():
    """The generator begins where it began."""
    DRAWS.bit_generator.state = BEGIN


@method(
    SERIES, 10_000, skewed, source="Efron 1979", sample=200,
    package="scipy", peer=peers.scipy_bootstrap, part=1000, near=0.1,
    begin=again,
)  # fmt: skip
def bootstrap(v):
    """A bootstrap interval of a mean, by percentiles of 999 resamples."""
    places = DRAWS.integers(0, len(v), (RESAMPLED, len(v)))
    return np.percentile(v[places].mean(1), [2.5, 97.5])
