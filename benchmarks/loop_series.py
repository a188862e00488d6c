"""Functions for the suite `loops`: recurrences, filters and models of series."""

from __future__ import annotations

import math

import numpy as np

from .loop_rows import normal, row, two, uniform, walks

RECURRENCES, MODELS = "recurrences and filters", "models of series"


@row(RECURRENCES, 2000, normal(500))
def ema(v, alpha=0.2):
    out = np.empty_like(v)
    out[0] = v[0]
    for i in range(1, len(v)):
        out[i] = alpha * v[i] + (1 - alpha) * out[i - 1]
    return out


@row(RECURRENCES, 2000, normal(400))
def autoregression(v):
    y = np.zeros(len(v))
    for t in range(2, len(v)):
        y[t] = 0.6 * y[t - 1] - 0.3 * y[t - 2] + v[t]
    return y


@row(RECURRENCES, 2000, uniform(500))
def leaky_integrator(v):
    s = 0.0
    peak = 0.0
    for x in v:
        s = 0.95 * s + x
        peak = max(peak, s)
    return peak


@row(RECURRENCES, 1200, normal(300))
def biquad(x, b0=0.2066, b1=0.4131, b2=0.2066, a1=-0.3695, a2=0.1958):
    y = np.zeros_like(x)
    z1 = z2 = 0.0
    for n in range(len(x)):
        y[n] = b0 * x[n] + z1
        z1 = b1 * x[n] - a1 * y[n] + z2
        z2 = b2 * x[n] - a2 * y[n]
    return y


@row(RECURRENCES, 40000, normal(20))
def horner(c, x=0.7):
    total = 0.0
    for a in c[::-1]:
        total = total * x + a
    return total


@row(RECURRENCES, 4000, walks(300))
def trapezoid_by_hand(y, dx=0.1):
    area = 0.0
    for i in range(len(y) - 1):
        area += 0.5 * dx * (y[i] + y[i + 1])
    return area


@row(RECURRENCES, 1000, normal(200))
def moving_median(v, width=5):
    half = width // 2
    out = v.copy()
    for i in range(half, len(v) - half):
        out[i] = sorted(v[i - half : i + half + 1])[half]
    return out


@row(RECURRENCES, 2000, normal(300))
def rolling_maximum(v, width=12):
    out = np.empty(len(v))
    best = []  # places of values that fall
    first = 0
    for i in range(len(v)):
        while len(best) > first and v[best[-1]] <= v[i]:
            best.pop()
        best.append(i)
        if best[first] <= i - width:
            first += 1
        out[i] = v[best[first]]
    return out


# --- models -----------------------------------------------------------------------------


def _returns(rng, n):
    return (0.01 * rng.standard_normal((n, 250)),)


@row(MODELS, 1500, _returns)
def garch(r, omega=1e-6, alpha=0.08, beta=0.9):
    variance = np.var(r)
    loss = 0.0
    for x in r:
        loss += math.log(variance) + x * x / variance
        variance = omega + alpha * x**2 + beta * variance
    return 0.5 * loss


def _seasons(rng, n):
    t = np.arange(120)
    return (50 + 0.2 * t + 8 * np.sin(2 * np.pi * t / 12) + rng.standard_normal((n, 120)),)


@row(MODELS, 2500, _seasons)
def holt_winters(y, period=12, alpha=0.3, beta=0.05, gamma=0.2):
    level = y[:period].mean()
    trend = (y[period : 2 * period].mean() - level) / period
    season = np.zeros(period)
    for k in range(period):
        season[k] = y[k] - level
    for t in range(period, len(y)):
        s = season[t % period]
        before = level
        level = alpha * (y[t] - s) + (1 - alpha) * (level + trend)
        trend = beta * (level - before) + (1 - beta) * trend
        season[t % period] = gamma * (y[t] - level) + (1 - gamma) * s
    return level + trend + season[len(y) % period]


def _gaps(rng, n):
    z = np.cumsum(0.1 * rng.standard_normal((n, 200)), 1) + 0.3 * rng.standard_normal((n, 200))
    z[rng.random(z.shape) < 0.1] = np.nan
    z[:, 0] = 0.0
    return (z,)


@row(MODELS, 1500, _gaps)
def kalman(z, q=0.01, r=0.09):
    x, p = z[0], 1.0
    out = np.empty_like(z)
    for k in range(len(z)):
        p = p + q
        if not np.isnan(z[k]):
            gain = p / (p + r)
            x = x + gain * (z[k] - x)
            p = (1 - gain) * p
        out[k] = x
    return out


def _currents(rng, n):
    return (1.5 + rng.standard_normal((n, 400)),)


@row(MODELS, 3000, _currents)
def lif_neuron(current, dt=0.5, tau=10.0, threshold=1.0, rest=0.0, refractory=4):
    u, wait, fired = rest, 0, 0
    for i in current:
        if wait > 0:
            wait -= 1
            continue
        u += dt / tau * (rest - u + i)
        if u >= threshold:
            fired += 1
            u = rest
            wait = refractory
    return fired


def _rain(rng, n):
    wet = rng.random((n, 365)) < 0.3
    return (np.where(wet, rng.exponential(8.0, (n, 365)), 0.0),)


@row(MODELS, 1200, _rain)
def bucket(rain, capacity=60.0, evaporation=2.5, k=0.08):
    storage = 20.0
    flow = np.zeros(len(rain))
    for day in range(len(rain)):
        storage += rain[day]
        storage -= min(storage, evaporation)
        over = 0.0
        if storage > capacity:
            over = storage - capacity
            storage = capacity
        slow = k * storage
        storage -= slow
        flow[day] = over + slow
    return flow


def _weather(rng, n):
    season = -10 * np.cos(2 * np.pi * np.arange(365) / 365)
    return (2 + season + 3 * rng.standard_normal((n, 365)), *_rain(rng, n))


@row(MODELS, 2000, _weather, "(n),(n)->(n)")
def snow(temperature, precipitation):
    pack = 0.0
    out = np.zeros(len(temperature))
    for i in range(len(temperature)):
        if temperature[i] <= 0:
            pack += precipitation[i]
        else:
            melt = 3.0 * temperature[i]
            if melt > pack:
                melt = pack
            pack -= melt
        out[i] = pack
    return out


def _tracks(rng, n):
    steps = 0.01 * rng.standard_normal((2, n, 100))
    return tuple(np.array([[[47.0]], [[8.0]]]) + np.cumsum(steps, 2))


@row(MODELS, 2000, _tracks, "(n),(n)->()")
def track_length(lat, lon):
    total = 0.0
    for i in range(1, len(lat)):
        p, q = math.radians(lat[i - 1]), math.radians(lat[i])
        d = math.radians(lon[i] - lon[i - 1])
        h = math.sin((q - p) / 2) ** 2 + math.cos(p) * math.cos(q) * math.sin(d / 2) ** 2
        total += 2 * 6371.0 * math.asin(math.sqrt(h))
    return total


def _symbols(rng, n):
    return (rng.integers(0, 4, (n, 100)),)


START = np.array([0.6, 0.3, 0.1])
CHANGES = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
EMITS = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.1, 0.1, 0.2, 0.6]])
LOG_START, LOG_CHANGES, LOG_EMITS = np.log(START), np.log(CHANGES), np.log(EMITS)


@row(MODELS, 600, _symbols)
def viterbi(seen):
    n, states = len(seen), len(LOG_START)
    score = np.zeros((n, states))
    back = np.zeros((n, states), dtype=np.int64)
    for s in range(states):
        score[0, s] = LOG_START[s] + LOG_EMITS[s, seen[0]]
    for t in range(1, n):
        for s in range(states):
            best, where = -np.inf, 0
            for r in range(states):
                p = score[t - 1, r] + LOG_CHANGES[r, s]
                if p > best:
                    best, where = p, r
            score[t, s] = best + LOG_EMITS[s, seen[t]]
            back[t, s] = where
    path = np.zeros(n, dtype=np.int64)
    path[n - 1] = np.argmax(score[n - 1])
    for t in range(n - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return path


@row(MODELS, 500, _symbols)
def hmm_forward(seen):
    states = len(START)
    p = np.zeros(states)
    for s in range(states):
        p[s] = START[s] * EMITS[s, seen[0]]
    logp = 0.0
    for t in range(1, len(seen)):
        total = 0.0
        for s in range(states):
            total += p[s]
        logp += math.log(total)
        new = np.zeros(states)
        for s in range(states):
            for r in range(states):
                new[s] += p[r] / total * CHANGES[r, s]
            new[s] *= EMITS[s, seen[t]]
        p = new
    return logp + math.log(p.sum())


def _growing(rng, n):
    return (0.05 * np.arange(100) + rng.standard_normal((n, 100)),)


@row(MODELS, 2000, _growing)
def pava(y):
    """Isotonic regression: pool adjacent violators."""
    means, counts = [], []
    for x in y:
        mean, count = x, 1
        while len(means) > 0 and means[-1] > mean:
            m, c = means.pop(), counts.pop()
            mean = (mean * count + m * c) / (count + c)
            count += c
        means.append(mean)
        counts.append(count)
    out = np.empty(len(y))
    k = 0
    for mean, count in zip(means, counts):  # noqa: B905  # as numba takes it
        for _ in range(count):
            out[k] = mean
            k += 1
    return out


@row(MODELS, 200, two(normal(40)), "(n),(m)->()")
def dtw(a, b):
    n, m = len(a), len(b)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = abs(a[i - 1] - b[j - 1])
            cost[i, j] = d + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]
