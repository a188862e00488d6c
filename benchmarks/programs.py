"""Programs whose inner work is one function per slice: fits, filters, recurrences, texts, solvers.

They are modelled on public code, which calls NumPy's loop for them. Hardly any of their functions
can run for all slices at once: optimisers call back, loops go on to convergence, tables are written
in place, matrices depend on where there are data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .idioms import Idiom, use
from .scalar_functions import Entry

ROWS: list[Idiom | Entry] = []


def along(*needs: str) -> Callable[[Callable], Callable]:
    """Register a builder of a call of apply_along_axis, as those of `idioms` are."""

    def register(build: Callable) -> Callable:
        ROWS.append(Idiom(build.__name__, "programs", build, needs=needs))
        return build

    return register


def numbers(*needs: str, **more: Any) -> Callable[[Callable], Callable]:
    """Register a builder of a call of vectorize, as those of `scalar_functions` are."""

    def register(build: Callable) -> Callable:
        ROWS.append(Entry(build.__name__, "programs", build, needs=needs, **more))
        return build

    return register


# --- fits -----------------------------------------------------------------------------


@along("scipy")
def two_decays(rng, n):
    """Lifetimes of two dyes in a pixel, within bounds."""
    from scipy.optimize import least_squares

    t = np.linspace(0.0, 12.0, 48)
    low, high = [0.0] * 4, [8.0, 25.0, 8.0, 4.0]

    def curve(p):
        return p[0] * np.exp(-t / p[1]) + p[2] * np.exp(-t / p[3])

    def lifetimes(signal):
        fit = least_squares(lambda p: curve(p) - signal, [1.0, 4.0, 0.6, 0.6], bounds=(low, high))
        return fit.x

    true = rng.uniform([0.5, 3.0, 0.3, 0.3], [2.0, 7.0, 1.0, 0.9], (n, 4))
    signals = np.stack([curve(p) for p in true]) + 0.01 * rng.standard_normal((n, t.size))
    return use(lifetimes, -1, signals)


@along("scipy")
def peak_of_counts(rng, n):
    """A Gauss curve through the histogram of a detector's pixel, and its errors."""
    from scipy.optimize import curve_fit

    def bell(x, height, centre, width):
        return height * np.exp(-0.5 * ((x - centre) / width) ** 2)

    def peak(values):
        counts, edges = np.histogram(values, bins=24)
        x = (edges[1:] + edges[:-1]) / 2
        start = (counts.max(), values.mean(), values.std())
        try:
            p, covariance = curve_fit(bell, x, counts, p0=start)
        except RuntimeError:
            return np.full(6, np.nan)
        return np.concatenate([p, np.sqrt(np.abs(np.diag(covariance)))])

    centres, widths = rng.uniform(80, 120, n), rng.uniform(2, 6, n)
    return use(peak, 0, rng.normal(centres, widths, (300, n)))


@along("scipy")
def shared_words(rng, n):
    """Distances of genomes from the shares of words that they have in common."""
    from scipy.optimize import minimize

    lengths = np.array([15, 19, 23, 27, 31])
    turn = -np.column_stack([np.ones(5), lengths])

    def distances(shares, lengths, turn):
        logs = np.log(shares)

        def left(p):
            return logs - (p[0] + lengths * p[1])

        try:
            fit = minimize(
                lambda p: 0.5 * np.dot(left(p), left(p)),
                x0=[0.0, -0.02],
                jac=lambda p: turn.T @ left(p),
                method="L-BFGS-B",
                bounds=[(-np.inf, 0.0)] * 2,
            )
        except ValueError:
            return np.zeros(2)
        return np.flipud(1 - np.exp(fit.x))

    own, core = rng.uniform(0, 0.4, (n, 1)), rng.uniform(0, 0.02, (n, 1))
    shares = (1 - own) * (1 - core) ** lengths * rng.normal(1, 0.01, (n, 5))
    return use(distances, 1, np.clip(shares, 1e-6, 1.0), lengths, turn)


@along("scipy")
def volatility_model(rng, n):
    """The likelihood of an asset's returns, a recurrence, minimised."""
    from scipy.optimize import minimize

    def cost(p, returns):
        base = np.exp(p[0])
        stay, share = 1 / (1 + np.exp(-p[1])), 1 / (1 + np.exp(-p[2]))
        h, total = returns.var(), 0.0
        for x in returns:
            total += np.log(h) + x * x / h
            h = base + stay * (1 - share) * x * x + share * h
        return total / 2

    def fit(returns):
        r = returns - returns.mean()
        begin = [np.log(0.05 * r.var()), -2.0, 2.0]
        return minimize(cost, begin, args=(r,), method="BFGS", options={"maxiter": 8}).x

    return use(fit, 0, 0.01 * rng.standard_t(5, (120, n)))


@along("scipy")
def recovery_with_signs(rng, n):
    """T1 of a voxel from magnitudes: the signs of the first echoes are tried in turn."""
    from scipy.optimize import curve_fit

    times = np.array([60, 160, 320, 550, 900, 1300, 2200, 3600.0])

    def recovery(t, a, b, t1):
        return a - b * np.exp(-t / t1)

    def t1_of(signal):
        best, smallest = np.full(3, np.nan), np.inf
        turn = int(signal.argmin())
        for k in (turn, turn + 1):
            y = signal.copy()
            y[:k] *= -1
            try:
                p, _ = curve_fit(
                    recovery, times, y, p0=(signal.max(), 2 * signal.max(), 700.0), maxfev=300
                )
            except RuntimeError:
                continue
            left = np.sum((y - recovery(times, *p)) ** 2)
            if left < smallest:
                best, smallest = p, left
        return best

    t1 = rng.uniform(300, 1800, (n, 1))
    signals = np.abs(100 * (1 - 1.9 * np.exp(-times / t1)) + rng.standard_normal((n, 8)))
    return use(t1_of, -1, signals)


# --- roots, integrals, equations ------------------------------------------------------


def _below(x):
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


@numbers("scipy", otypes=[float])
def implied_volatility(rng, n):
    """Of options whose kind is a text, by a bracketing solver; NaN where there is none."""
    from scipy.optimize import brentq

    def worth(spot, strike, years, rate, sigma, kind):
        root = sigma * math.sqrt(years)
        d = (math.log(spot / strike) + (rate + sigma**2 / 2) * years) / root
        call = spot * _below(d) - strike * math.exp(-rate * years) * _below(d - root)
        return call if kind == "call" else call - spot + strike * math.exp(-rate * years)

    def implied(price, spot, strike, years, rate, kind):
        if years <= 0 or not np.isfinite(price):
            return np.nan
        later = strike * math.exp(-rate * years)
        least = max(0.0, spot - later if kind == "call" else later - spot)
        if price <= least:
            return np.nan

        def left(sigma):
            return worth(spot, strike, years, rate, sigma, kind) - price

        if left(1e-4) > 0 or left(4.0) < 0:
            return np.nan
        return brentq(left, 1e-4, 4.0, xtol=1e-12)

    spot, strike = np.full(n, 50.0), rng.uniform(40, 60, n)
    years, kinds = rng.uniform(0.1, 2.0, n), np.where(rng.random(n) < 0.5, "call", "put")
    sigmas = rng.uniform(0.1, 0.6, n)
    given = zip(spot, strike, years, np.full(n, 0.03), sigmas, kinds, strict=True)
    prices = np.array([worth(*one) for one in given])
    prices[1::40] = np.nan
    return implied, (prices, spot, strike, years, np.full(n, 0.03), kinds)


@numbers()
def newton_with_other_starts(rng, n):
    """The volatility by Newton's steps, from other starts where these leave the domain."""

    def implied(price, strike, years):
        for begin in (0.25, 0.7, 1.5):
            sigma, rounds = begin, 0
            while rounds < 40:
                root = sigma * math.sqrt(years)
                d = (math.log(80.0 / strike) + sigma * sigma * years / 2) / root
                slope = 80.0 * math.exp(-d * d / 2) * math.sqrt(years / (2 * math.pi))
                if slope < 1e-10:
                    break
                step = (80.0 * _below(d) - strike * _below(d - root) - price) / slope
                sigma = max(sigma - step, 1e-4)
                if abs(step) < 1e-10:
                    return min(sigma, 5.0)
                rounds += 1
        return float("nan")

    strikes = rng.uniform(50, 120, n)
    prices = np.maximum(80.0 - strikes, 0) + rng.uniform(0, 10, n)
    return implied, (prices, strikes, rng.uniform(0.1, 2.0, n))


@numbers()
def orbit(rng, n):
    """Kepler's equation: the eccentric anomaly, to convergence."""

    def anomaly(mean, e, tolerance=1e-12):
        mean = mean % (2 * math.pi)
        found = mean if e < 0.8 else math.pi
        for _ in range(60):
            step = (found - e * math.sin(found) - mean) / (1 - e * math.cos(found))
            found -= step
            if abs(step) < tolerance:
                return found
        raise RuntimeError("it does not converge")

    return anomaly, (rng.uniform(-15, 15, n), 0.95 * rng.beta(1, 3, n))


@numbers("scipy")
def integral_up_to(rng, n):
    """Of a density of speeds, by quadrature."""
    from scipy.integrate import quad

    def density(s):
        return 32 / np.pi**2 * s * s * np.exp(-4 * s * s / np.pi)

    return (lambda x: quad(density, 0, x)[0]), (rng.uniform(0, 3, n),)


@along("scipy")
def two_compartments(rng, n):
    """A drug between blood and tissue: an equation with the rates of each voxel."""
    from scipy.integrate import solve_ivp

    times = np.linspace(0, 16, 33)

    def blood(rates):
        into, back, out, dose = rates

        def change(t, c):
            return [back * c[1] - (into + out) * c[0], into * c[0] - back * c[1]]

        return solve_ivp(change, (0, 16), [dose, 0.0], t_eval=times, rtol=1e-6, atol=1e-9).y[0]

    return use(blood, -1, rng.uniform([0.1, 0.1, 0.05, 1.0], [1.0, 1.0, 0.5, 5.0], (n, 4)))


# --- recurrences and tables -----------------------------------------------------------


@along()
def kalman_level(rng, n):
    """The level of a noisy sensor, with gaps."""

    def level(z, drift=1e-3, noise=0.04):
        x, p = z[0], 1.0
        path = np.empty_like(z)
        for k in range(len(z)):
            p = p + drift
            if not np.isnan(z[k]):
                gain = p / (p + noise)
                x = x + gain * (z[k] - x)
                p = (1 - gain) * p
            path[k] = x
        return path

    z = 0.03 * rng.standard_normal((n, 200)).cumsum(1) + 0.2 * rng.standard_normal((n, 200))
    z[:, 1:][rng.random((n, 199)) < 0.02] = np.nan
    return use(level, 1, z)


@along()
def likely_states(rng, n):
    """The most likely land cover of each year, traced back through a table."""
    states = 4
    moves = np.log(np.full((states, states), 0.03) + 0.88 * np.eye(states))
    seen = np.log(np.full((states, states), 0.12) + 0.52 * np.eye(states))

    def path(labels):
        years = len(labels)
        best = np.log(1 / states) + seen[:, labels[0]]
        came = np.zeros((years, states), int)
        for t in range(1, years):
            scores = best[:, None] + moves
            came[t] = scores.argmax(0)
            best = scores.max(0) + seen[:, labels[t]]
        found = np.zeros(years, np.uint8)
        found[-1] = best.argmax()
        for t in range(years - 2, -1, -1):
            found[t] = came[t + 1, found[t + 1]]
        return found

    return use(path, 0, rng.integers(0, states, (16, n)).astype(np.uint8))


@along()
def seasons(rng, n):
    """Exponential smoothing with a trend and a ring of seasonal terms."""

    def smooth(y, period=12, a=0.3, b=0.05, g=0.2):
        level = y[:period].mean()
        trend = (y[period : 2 * period].mean() - level) / period
        ring = [y[k] - level for k in range(period)]
        errors = 0.0
        for k in range(period, len(y)):
            season = ring[k % period]
            errors += (y[k] - (level + trend + season)) ** 2
            before = level
            level = a * (y[k] - season) + (1 - a) * (level + trend)
            trend = b * (level - before) + (1 - b) * trend
            ring[k % period] = g * (y[k] - level) + (1 - g) * season
        return np.array([level, trend, np.sqrt(errors / (len(y) - period))])

    t = np.arange(96)
    return use(smooth, 1, 8 + np.sin(t * np.pi / 6) + 0.3 * rng.standard_normal((n, 96)))


@along()
def warping_distance(rng, n):
    """Of a pixel's year to that of a crop: a band of a table, cell by cell."""
    crop = np.sin(np.linspace(0, np.pi, 24))

    def distance(year, band=4):
        rows, columns = len(year), len(crop)
        table = np.full((rows + 1, columns + 1), np.inf)
        table[0, 0] = 0.0
        for i in range(1, rows + 1):
            for j in range(max(1, i - band), min(columns, i + band) + 1):
                cost = abs(year[i - 1] - crop[j - 1])
                nearest = min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
                table[i, j] = cost + nearest
        return table[rows, columns]

    return use(distance, 0, crop[:, None] + 0.1 * rng.standard_normal((24, n)))


# --- statistics, texts, matrices ------------------------------------------------------


@along("scipy")
def trend_test(rng, n):
    """Mann and Kendall's test with ties, and the median of all slopes."""
    from scipy.stats import norm

    def trend(y):
        y = y[~np.isnan(y)]
        count = len(y)
        if count < 8:
            return np.array([np.nan, np.nan, 0.0])
        score = 0
        for i in range(count - 1):
            for j in range(i + 1, count):
                score += np.sign(y[j] - y[i])
        _, ties = np.unique(y, return_counts=True)
        variance = count * (count - 1) * (2 * count + 5)
        variance = (variance - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
        z = 0.0
        if score != 0:
            z = (score - np.sign(score)) / np.sqrt(variance)
        p = 2 * (1 - norm.cdf(abs(z)))
        slopes = [(y[j] - y[i]) / (j - i) for i in range(count - 1) for j in range(i + 1, count)]
        return np.array([np.median(slopes), p, float(p < 0.05) * np.sign(z)])

    field = np.round(rng.standard_normal((30, n)) + 0.02 * np.arange(30)[:, None], 2)
    field[3, 1::7] = np.nan
    return use(trend, 0, field)


@along()
def words_of_series(rng, n):
    """A word of eight letters for each series."""
    cuts = np.array([-0.67, 0.0, 0.67])

    def word(v):
        means = ((v - v.mean()) / v.std()).reshape(8, -1).mean(1)
        return "".join("abcd"[k] for k in np.searchsorted(cuts, means))

    return use(word, 1, rng.standard_normal((n, 48)).cumsum(1))


@along()
def complexity(rng, n):
    """Lempel and Ziv's, of a channel of an EEG: the words that it is made of."""

    def words(v):
        text = "".join("1" if high else "0" for high in v > np.median(v))
        begin, length, known = 0, 1, set()
        while begin + length <= len(text):
            piece = text[begin : begin + length]
            if piece in known:
                length += 1
            else:
                known.add(piece)
                begin, length = begin + length, 1
        return len(known) * np.log2(len(text)) / len(text)

    return use(words, -1, rng.standard_normal((n, 200)).cumsum(1))


@along("scipy")
def baseline(rng, n):
    """Of a spectrum: sparse systems, whose weights come from the last solution."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    size = 120
    second = sparse.diags([1.0, -2.0, 1.0], [0, -1, -2], shape=(size, size - 2)).tocsc()
    stiff = 1e4 * (second @ second.T)

    def corrected(y, share=0.02):
        weights = np.ones(size)
        for _ in range(6):
            matrix = sparse.spdiags(weights, 0, size, size) + stiff
            below = spsolve(matrix.tocsc(), weights * y)
            weights = share * (y > below) + (1 - share) * (y < below)
        return y - below

    x = np.arange(size)
    lines = np.exp(-(((x - rng.uniform(30, 90, (n, 1))) / 5) ** 2))
    return use(corrected, 1, lines + 0.01 * x + 0.02 * rng.standard_normal((n, size)))


@along()
def resampled_interval(rng, n):
    """An interval of the mean, by a generator that every slice draws from."""
    draws = np.random.default_rng(3)

    def interval(v, times=150):
        means = draws.choice(v, size=(times, len(v))).mean(axis=1)
        return np.percentile(means, [2.5, 97.5])

    return use(interval, 0, rng.standard_normal((18, n)))


@along()
def smooth_over_gaps(rng, n):
    """A penalised fit of a satellite's series, whose matrix says where there are data."""
    size = 36
    second = np.diff(np.eye(size), 2, axis=0)
    stiff = 8.0 * second.T @ second

    def smooth(y, penalty=stiff):
        good = ~np.isnan(y)
        if good.sum() < 4:
            return np.full(size, np.nan)
        matrix, right = np.diag(good.astype(float)) + penalty, np.where(good, y, 0.0)
        try:
            z = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            z = np.linalg.lstsq(matrix, right, rcond=None)[0]
        return np.clip(z, -1, 1)

    y = 0.5 + 0.3 * np.sin(np.linspace(0, 6, size)) + 0.05 * rng.standard_normal((n, size))
    y[rng.random(y.shape) < 0.3] = np.nan
    y[1::60] = np.nan
    return use(smooth, 1, y)
