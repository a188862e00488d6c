"""Methods for the suite `methods`: series of pixels, 500 x 500 of them."""

from __future__ import annotations

import math

import numpy as np

from . import method_peers as peers
from .method_rows import method

PIXELS = "pixels"
ALL = 500 * 500
YEARS, A_YEAR = 20, 23
DATES = YEARS * A_YEAR
"""Twenty years of a composite every 16 days."""
PAST = 15 * A_YEAR
"""The first fifteen years are what the others are compared with."""
TIME = np.arange(DATES) / A_YEAR


def regressors(order):
    """A constant, a trend, and so many harmonics of a year, for each date."""
    columns = [np.ones(DATES), TIME]
    for k in range(1, order + 1):
        columns += [np.cos(2 * np.pi * k * TIME), np.sin(2 * np.pi * k * TIME)]
    return np.stack(columns, 1)


SEASONS = regressors(3)
TWO_SEASONS = regressors(2)


def greenness(rng, n):
    """NDVI with clouds, of which a third of the pixels loses its forest in the last five years."""
    season = 0.6 + 0.15 * np.cos(2 * np.pi * (TIME - 0.45))
    v = season + 0.04 * rng.standard_normal((n, DATES), np.float32)
    cut = np.where(rng.random(n) < 0.33, rng.integers(PAST + 5, DATES - 10, n), DATES)
    v[np.arange(DATES) >= cut[:, None]] -= 0.25
    v[rng.random((n, DATES), np.float32) < 0.3] = np.nan
    return (v.astype(np.float64),)


def least_squares(a, b):
    """What solves the normal equations `a x = b`, by Cholesky's decomposition."""
    n = len(b)
    low = np.zeros((n, n))
    x = np.zeros(n)
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= low[i, k] * low[j, k]
            if i == j:
                low[i, i] = math.sqrt(s)
            else:
                low[i, j] = s / low[j, j]
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= low[i, k] * x[k]
        x[i] = s / low[i, i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s -= low[k, i] * x[k]
        x[i] = s / low[i, i]
    return x


CRITICAL = 1.34182451007628
"""Of a moving sum over a quarter of the history, at most ten times as long, at 5 %."""


@method(
    PIXELS, ALL, greenness, source="Verbesselt, Zeileis and Herold 2012", sample=100,
    package="nrt", peer=peers.nrt_mosum, part=20_000,
)  # fmt: skip
def bfast_monitor(v):
    """BFAST-monitor: harmonics fitted to a history, the moving sum of later residuals."""
    p = SEASONS.shape[1]
    a, b = np.zeros((p, p)), np.zeros(p)
    n = 0
    for t in range(PAST):
        if not np.isnan(v[t]):
            n += 1
            for i in range(p):
                b[i] += SEASONS[t, i] * v[t]
                for j in range(i + 1):
                    a[i, j] += SEASONS[t, i] * SEASONS[t, j]
    if n < 2 * p:
        return -1
    beta = least_squares(a, b)
    rest = []
    squares = 0.0
    for t in range(PAST):
        if not np.isnan(v[t]):
            r = v[t]
            for i in range(p):
                r -= SEASONS[t, i] * beta[i]
            rest.append(r)
            squares += r * r
    scale = math.sqrt(squares / (n - p)) * math.sqrt(n)
    width = n // 4
    moving = 0.0
    for r in rest[n - width :]:
        moving += r
    for t in range(PAST, len(v)):
        if np.isnan(v[t]):
            continue
        r = v[t]
        for i in range(p):
            r -= SEASONS[t, i] * beta[i]
        moving += r - rest[len(rest) - width]
        rest.append(r)
        ratio = len(rest) / n
        bound = CRITICAL * math.sqrt(2.0 * math.log(ratio) if ratio > math.e else 2.0)
        if abs(moving) / scale >= bound:
            return t
    return -1


@method(
    PIXELS, ALL, greenness, source="Zhu and Woodcock 2014", sample=60,
    package="nrt", peer=peers.nrt_ccdc, part=20_000,
)  # fmt: skip
def ccdc(v):
    """CCDC: harmonics fitted to a stable history, then three values in turn beyond 3 RMSE."""
    p = TWO_SEASONS.shape[1]
    there = []
    for t in range(PAST):
        if not np.isnan(v[t]):
            there.append(t)
    first = 0
    while True:  # without the two oldest values until what is left is stable
        count = len(there) - first
        if count < int(1.5 * p):
            return -1
        a, b = np.zeros((p, p)), np.zeros(p)
        for t in there[first:]:
            for i in range(p):
                b[i] += TWO_SEASONS[t, i] * v[t]
                for j in range(i + 1):
                    a[i, j] += TWO_SEASONS[t, i] * TWO_SEASONS[t, j]
        beta = least_squares(a, b)
        squares = begin = end = 0.0
        for t in there[first:]:
            end = v[t]
            for i in range(p):
                end -= TWO_SEASONS[t, i] * beta[i]
            if t == there[first]:
                begin = end
            squares += end * end
        rmse = math.sqrt(squares / count)
        if max(abs(beta[1]), abs(begin), abs(end)) < 3 * rmse:
            break
        if TIME[there[-1]] - TIME[there[first]] < 0.5:
            return -1
        first += 2
    beyond = 0
    for t in range(PAST, len(v)):
        if np.isnan(v[t]):
            continue
        r = v[t]
        for i in range(p):
            r -= TWO_SEASONS[t, i] * beta[i]
        beyond = beyond + 1 if abs(r) > 3 * rmse else 0
        if beyond == 3:
            return t
    return -1


def forests(rng, n):
    """Forty summers: a forest that is cut or burns in some year, and grows again."""
    t = np.arange(40)
    v = 0.7 + 0.03 * rng.standard_normal((n, 40))
    year, loss, speed = rng.integers(5, 33, n), rng.uniform(0.0, 0.5, n), rng.uniform(2, 12, n)
    after = t - year[:, None]
    v -= np.where(after >= 0, loss[:, None] * np.exp(-after / speed[:, None]), 0.0)
    return (v,)


LANCZOS = np.array([
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
])  # fmt: skip
"""Of Lanczos' form of the gamma function."""


def log_gamma(x):
    """The logarithm of the gamma function, of a number above 0.5."""
    s = LANCZOS[0]
    for k in range(1, 9):
        s += LANCZOS[k] / (x - 1.0 + k)
    t = x + 6.5
    return 0.5 * math.log(2.0 * math.pi) + (x - 0.5) * math.log(t) - t + math.log(s)


def beta_below(a, b, x):
    """The incomplete beta function, by Lentz's method for its continued fraction."""
    swapped = x > (a + 1.0) / (a + b + 2.0)
    if swapped:
        a, b, x = b, a, 1.0 - x
    if x <= 0.0:
        return 1.0 if swapped else 0.0
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), 1e-300)
    h = d
    for m in range(1, 200):
        for k in range(2):
            if k == 0:
                of = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
            else:
                of = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
            d = 1.0 / (1.0 + of * d)
            c = 1.0 + of / c
            h *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    scale = log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    found = math.exp(scale + a * math.log(x) + b * math.log(1.0 - x)) * h / a
    return 1.0 - found if swapped else found


def segments_apart(y, vertices):
    """The sum of squares between a series and the lines between its vertices."""
    s = 0.0
    for k in range(len(vertices) - 1):
        i, j = vertices[k], vertices[k + 1]
        slope = (y[j] - y[i]) / (j - i)
        for t in range(i + 1, j):
            s += (y[t] - y[i] - slope * (t - i)) ** 2
    return s


@method(PIXELS, ALL, forests, source="Kennedy, Yang and Cohen 2010", sample=150)
def landtrendr(v, most=6, despike=0.9):
    """LandTrendr: lines between vertices, as many as an F test wants; the greatest loss of them."""
    n = len(v)
    y = v.copy()
    for t in range(1, n - 1):
        high = max(abs(y[t] - y[t - 1]), abs(y[t] - y[t + 1]))
        if abs(y[t + 1] - y[t - 1]) < (1 - despike) * high:
            y[t] = 0.5 * (y[t - 1] + y[t + 1])
    vertices = [0, n - 1]
    while len(vertices) <= most:  # where a line is farthest off, another one begins
        farthest, where, place = 0.0, 0, 0
        for k in range(len(vertices) - 1):
            i, j = vertices[k], vertices[k + 1]
            slope = (y[j] - y[i]) / (j - i)
            for t in range(i + 1, j):
                off = abs(y[t] - y[i] - slope * (t - i))
                if off > farthest:
                    farthest, where, place = off, t, k + 1
        if place == 0:
            break
        vertices.insert(place, where)
    total = y.var() * n
    best, chosen = 2.0, vertices.copy()
    while True:  # the vertex goes that is missed least, and the best model stays
        rest = segments_apart(y, vertices)
        used = 2 * (len(vertices) - 1)
        f = ((total - rest) / used) / (max(rest, 1e-12) / (n - used - 1))
        of = n - used - 1
        p = beta_below(0.5 * of, 0.5 * used, of / (of + used * f)) if f > 0.0 else 1.0
        if p <= best:
            best, chosen = p, vertices.copy()
        if len(vertices) == 2:
            break
        least, drop = math.inf, 1
        for k in range(1, len(vertices) - 1):
            off = segments_apart(y, vertices[:k] + vertices[k + 1 :])
            if off < least:
                least, drop = off, k
        del vertices[drop]
    loss, year, years = 0.0, -1, 0
    for k in range(len(chosen) - 1):
        if y[chosen[k]] - y[chosen[k + 1]] > loss:
            loss = y[chosen[k]] - y[chosen[k + 1]]
            year, years = chosen[k], chosen[k + 1] - chosen[k]
    return np.array([loss, year, years, len(chosen) - 1])


def yearly(rng, n):
    """Forty years of a temperature that rises in some pixels, with tenths of degrees."""
    trend = rng.uniform(-0.02, 0.05, (n, 1)) * np.arange(40)
    return (np.round(10 + trend + 0.6 * rng.standard_normal((n, 40)), 1),)


@method(
    PIXELS, ALL, yearly, source="Mann 1945, Kendall 1975, Sen 1968", sample=150,
    package="pymannkendall", peer=peers.pymannkendall, part=1500, near=1e-7,
)  # fmt: skip
def mann_kendall(v):
    """Mann and Kendall's test of a trend, with ties, and Sen's slope."""
    n = len(v)
    s = 0.0
    slopes = np.empty(n * (n - 1) // 2)
    k = 0
    for i in range(n - 1):
        for j in range(i + 1, n):
            s += np.sign(v[j] - v[i])
            slopes[k] = (v[j] - v[i]) / (j - i)
            k += 1
    variance = n * (n - 1) * (2 * n + 5)
    x = np.sort(v)
    alike = 1
    for i in range(1, n + 1):
        if i < n and x[i] == x[i - 1]:
            alike += 1
        else:
            variance -= alike * (alike - 1) * (2 * alike + 5)
            alike = 1
    z = (s - np.sign(s)) / math.sqrt(variance / 18)
    p = math.erfc(abs(z) / math.sqrt(2))
    return np.array([s, z, p, np.median(slopes)])


MONTHS = 40 * 12
CELLS = 250 * 250
"""Of a grid of the climate, which is coarser."""


def rain(rng, n):
    """Forty years of monthly rain, with dry months."""
    season = 60 + 50 * np.sin(2 * np.pi * np.arange(MONTHS) / 12)
    v = rng.standard_gamma(1.5, (n, MONTHS), np.float32) * (season / 1.5)
    v[rng.random((n, MONTHS), np.float32) < 0.05] = 0.0
    return (v.astype(np.float64),)


def gamma_below(a, x, log_gamma_of_a):
    """The incomplete gamma function, by its series, or by Lentz's method for its fraction."""
    if x <= 0.0:
        return 0.0
    scale = math.exp(a * math.log(x) - x - log_gamma_of_a)
    if x < a + 1.0:
        term = s = 1.0 / a
        k = a
        while term > s * 1e-16:
            k += 1.0
            term *= x / k
            s += term
        return s * scale
    b = x + 1.0 - a
    c, d = 1e300, 1.0 / b
    h = d
    for k in range(1, 500):
        of = -k * (k - a)
        b += 2.0
        d = 1.0 / (of * d + b)
        c = b + of / c
        h *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return 1.0 - scale * h


def deviate(p):
    """The normal deviate below which a part lies: Hastings' form, then a step of Halley's."""
    tail = min(p, 1.0 - p)
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-300)))
    below = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    z = (2.515517 + t * (0.802853 + t * 0.010328)) / below - t
    off = 0.5 * math.erfc(-z / math.sqrt(2.0)) - tail
    u = off * math.sqrt(2.0 * math.pi) * math.exp(0.5 * z * z)
    z -= u / (1.0 + 0.5 * z * u)
    return z if p < 0.5 else -z


@method(
    PIXELS, CELLS, rain, source="McKee, Doesken and Kleist 1993, Thom 1958", sample=100,
    package="climate-indices", peer=peers.climate_indices, part=1000, near=1e-6,
)  # fmt: skip
def spi(v):
    """SPI: rain of three months by a gamma distribution for each month, as normal deviates."""
    out = np.full(len(v), np.nan)
    for month in range(12):
        sums = []
        for t in range(month, len(v), 12):
            if t >= 2:
                sums.append(v[t - 2] + v[t - 1] + v[t])
        wet, mean, logs = 0, 0.0, 0.0
        for x in sums:
            if x > 0.0:
                wet += 1
                mean += x
                logs += math.log(x)
        mean /= wet
        a = math.log(mean) - logs / wet
        alpha = (1 + math.sqrt(1 + 4 * a / 3)) / (4 * a)
        of_gamma = log_gamma(alpha)
        dry = (len(sums) - wet) / len(sums)
        for k, x in enumerate(sums):
            below = dry + (1 - dry) * gamma_below(alpha, x * alpha / mean, of_gamma)
            year = k if month >= 2 else k + 1
            out[12 * year + month] = min(max(deviate(min(max(below, 1e-6), 1 - 1e-6)), -3.09), 3.09)
    return out


def penalized(y, w, stiff):
    """Whittaker's smoother of second differences: `(W + stiff D'D) z = W y` by `L D L'`."""
    n = len(y)
    d, c, e, z = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(n):
        ends = min(i, n - 1 - i)
        diagonal = 6.0 if ends > 1 else (5.0 if ends == 1 else 1.0)
        beside = -2.0 if i == 0 or i == n - 2 else -4.0
        d[i] = w[i] + stiff * diagonal
        c[i] = stiff * beside
        z[i] = w[i] * y[i]
        if i > 0:
            d[i] -= c[i - 1] ** 2 * d[i - 1]
            c[i] -= d[i - 1] * c[i - 1] * e[i - 1]
            z[i] -= c[i - 1] * z[i - 1]
        if i > 1:
            d[i] -= e[i - 2] ** 2 * d[i - 2]
            z[i] -= e[i - 2] * z[i - 2]
        c[i] /= d[i]
        e[i] = stiff / d[i]
    z[n - 1] /= d[n - 1]
    z[n - 2] = z[n - 2] / d[n - 2] - c[n - 2] * z[n - 1]
    for i in range(n - 3, -1, -1):
        z[i] = z[i] / d[i] - c[i] * z[i + 1] - e[i] * z[i + 2]
    return z


@method(
    PIXELS, ALL, greenness, source="Eilers 2003", sample=150,
    package="whittaker-eilers", peer=peers.whittaker_eilers, part=5000, near=1e-7,
)  # fmt: skip
def whittaker(v, stiff=100.0):
    """Whittaker's smoother through a series with gaps."""
    y, w = np.zeros(len(v)), np.zeros(len(v))
    for t in range(len(v)):
        if not np.isnan(v[t]):
            y[t], w[t] = v[t], 1.0
    return penalized(y, w, stiff)


@method(
    PIXELS, ALL, greenness, source="Tukey 1977", sample=200,
    package="bottleneck", peer=peers.bottleneck_median, part=ALL, near=0.0,
)  # fmt: skip
def moving_median(v, width=9):
    """The median of the last nine values, without what is missing, from a window in order."""
    out = np.full(len(v), np.nan)
    window = np.empty(width)
    n = 0
    for t in range(len(v)):
        if t >= width and not np.isnan(v[t - width]):
            k = 0
            while window[k] < v[t - width]:
                k += 1
            n -= 1
            while k < n:
                window[k] = window[k + 1]
                k += 1
        if not np.isnan(v[t]):
            k = n
            while k > 0 and window[k - 1] > v[t]:
                window[k] = window[k - 1]
                k -= 1
            window[k] = v[t]
            n += 1
        if n > 0:
            out[t] = (window[(n - 1) // 2] + window[n // 2]) / 2
    return out


@method(
    PIXELS, ALL, greenness, source="Roberts 1959", sample=300,
    package="numbagg", peer=peers.numbagg_mean, part=ALL, near=1e-12,
)  # fmt: skip
def exponential_mean(v, alpha=0.2):
    """A mean with weights that decay, through a series with gaps."""
    out = np.full(len(v), np.nan)
    total = weight = 0.0
    for t in range(len(v)):
        seen = not np.isnan(v[t])
        total = (1.0 - alpha) * total + (v[t] if seen else 0.0)
        weight = (1.0 - alpha) * weight + (1.0 if seen else 0.0)
        if weight > 0.0:
            out[t] = total / weight
    return out
