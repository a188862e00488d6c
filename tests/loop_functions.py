"""Functions with loops over elements, such as people write: for tests of what compiles them."""

import math
from math import cos, pi, sin

import numpy as np
import pytest

from xpapply.codegen.llvm.target import TARGETS
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array

TEMPLATE = np.sin(np.linspace(0, np.pi, 12))
TRANSITION = np.log(np.full((3, 3), 0.1) + 0.7 * np.eye(3))


def longest_run(v):
    best = n = 0
    for x in v:
        if x > 0:
            n += 1
            if n > best:
                best = n
        else:
            n = 0
    return best


def spikes(v):
    u, n, rest = 0.0, 0, 0
    for i in range(len(v)):
        if rest > 0:
            rest -= 1
            continue
        u += 0.4 * (v[i] - u)
        if u > 0.5:
            n += 1
            u = 0.0
            rest = 3
    return n


def drawdown(v):
    peak, worst = v[0], 0.0
    for x in v:
        if x > peak:
            peak = x
        worst = max(worst, peak - x)
    return worst


def kalman(z, q=1e-3, r=0.05):
    x, p = z[0], 1.0
    out = np.empty_like(z)
    for k in range(len(z)):
        p = p + q
        if not np.isnan(z[k]):
            g = p / (p + r)
            x = x + g * (z[k] - x)
            p = (1 - g) * p
        out[k] = x
    return out


def cusum(v):
    up = down = 0.0
    for i, x in enumerate(v):
        up = max(0.0, up + x - 0.5)
        down = max(0.0, down - x - 0.5)
        if up > 4 or down > 4:
            return i
    return -1


def mann_kendall(v):
    s = 0
    for i in range(len(v) - 1):
        for j in range(i + 1, len(v)):
            if v[j] > v[i]:
                s += 1
            elif v[j] < v[i]:
                s -= 1
    return s


def bisection(v):
    lo, hi = 0.0, 10.0
    for _ in range(60):
        mid = 0.5 * (lo + hi)
        if mid * mid * mid + v[0] * v[0] * mid - abs(v[1]) - 1 > 0:
            hi = mid
        else:
            lo = mid
    return 0.5 * (lo + hi)


def warping(v, band=5):
    n, m = len(v), len(TEMPLATE)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(max(1, i - band), min(m, i + band) + 1):
            c = abs(v[i - 1] - TEMPLATE[j - 1])
            cost[i, j] = c + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


def insertion_sort(v):
    a = v.copy()
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x
    return a


def peaks(v):
    found = []
    for i in range(1, len(v) - 1):
        if v[i - 1] < v[i] > v[i + 1]:
            found.append(v[i])
    return len(found)


def peaks_apart(v):
    n, i = 0, 1
    while i < len(v) - 1:
        if v[i] > v[i - 1] and v[i] > v[i + 1]:
            n += 1
            i += 2
        else:
            i += 1
    return n


def rising(v):
    best = [1] * len(v)
    for i in range(len(v)):
        for j in range(i):
            if v[j] < v[i] and best[j] + 1 > best[i]:
                best[i] = best[j] + 1
    return max(best)


def kepler(v):
    mean, e = v[0] % (2 * pi), abs(v[1]) % 0.9
    x = mean if e < 0.8 else pi
    for _ in range(100):
        d = (x - e * sin(x) - mean) / (1 - e * cos(x))
        x -= d
        if abs(d) < 1e-12:
            return x
    raise RuntimeError("it does not converge")


def collatz(v):
    n, k = int(abs(v[0]) * 100) + 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    return k


def divisor(v):
    a, b = int(abs(v[0]) * 1e6) + 1, int(abs(v[1]) * 1e6) + 1
    while b:
        a, b = b, a % b
    return a


def escape(v):
    x = y = 0.0
    for k in range(50):
        if x * x + y * y > 4:
            return k
        x, y = x * x - y * y + v[0], 2 * x * y + v[1]
    return 50


def rises(v):
    before, n = None, 0
    for x in v:
        if before is not None and x > before:
            n += 1
        before = x
    return n


def rolling(v):
    out = np.zeros(len(v))
    for i in range(len(v)):
        s = 0.0
        for j in range(max(0, i - 4), i + 1):
            s += v[j]
        out[i] = s / min(i + 1, 5)
    return out


def seasons(y, m=4, a=0.3, b=0.05, g=0.2):
    level, trend = y[:m].mean(), (y[m : 2 * m].mean() - y[:m].mean()) / m
    season = [y[i] - level for i in range(m)]
    error = 0.0
    for i in range(m, len(y)):
        s = season[i % m]
        e = y[i] - (level + trend + s)
        last = level
        level = a * (y[i] - s) + (1 - a) * (level + trend)
        trend = b * (level - last) + (1 - b) * trend
        season[i % m] = g * (y[i] - level) + (1 - g) * s
        error += e * e
    return np.array([level, trend, np.sqrt(error / (len(y) - m))])


def garch(v):
    h, like = 1.0, 0.0
    for x in v:
        like += -0.5 * (np.log(h) + x * x / h)
        h = 0.1 + 0.1 * x * x + 0.8 * h
    return like


def larger(a, b):
    return a if a > b else b


def helped(v):
    m = v[0]
    for x in v[1:]:
        m = larger(m, x)
    return m


def mean_run(v):
    out, n = [], 0
    for x in v:
        if x > 0:
            n += 1
        else:
            if n:
                out.append(n)
            n = 0
    if n:
        out.append(n)
    return sum(out) / len(out) if out else 0.0


def monotone(v):
    levels, weights = [], []
    for x in v:
        levels.append(x)
        weights.append(1.0)
        while len(levels) > 1 and levels[-2] > levels[-1]:
            b, wb = levels.pop(), weights.pop()
            a, wa = levels.pop(), weights.pop()
            levels.append((a * wa + b * wb) / (wa + wb))
            weights.append(wa + wb)
    return levels[-1]


def edits(v):
    n = len(v)
    before = list(range(n + 1))
    for i in range(1, n + 1):
        row = [i]
        for j in range(1, n + 1):
            c = 0 if (v[i - 1] > 0) == (v[n - j] > 0) else 1
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + c))
        before = row
    return before[n]


def logs(v):
    s = 0.0
    for x in v:
        try:
            s += math.log(x)
        except ValueError:
            s -= 1
    return s


def positive_sum(v):
    return sum(x for x in v if x > 0)


def any_low(v):
    return any(x < -2 for x in v)


def path(v):
    n = len(v)
    d = TRANSITION[0] - v[0]
    back = np.zeros((n, 3), int)
    for t in range(1, n):
        for j in range(3):
            s = d + TRANSITION[:, j]
            back[t, j] = s.argmax()
        d = d + TRANSITION[int(v[t] > 0)]
    found = np.zeros(n, np.uint8)
    found[-1] = d.argmax()
    for t in range(n - 2, -1, -1):
        found[t] = back[t + 1, found[t + 1]]
    return found


def windows(v):
    out = np.full(len(v), np.nan)
    for i in range(4, len(v)):
        w = v[i - 4 : i + 1]
        out[i] = w.mean() / (w.std() + 1) + np.median(w) - w.max() + w.sum()
    return out


def masked(v):
    n = 0.0
    for k in range(3):
        x = v[v > k * 0.5]
        n += x.sum() + len(x) + np.count_nonzero(v < k)
    return n


def arithmetic(v):
    w = v.copy()
    for k in range(3):
        w = 2.0 * w - v / (1 + abs(w)) + np.tanh(w) ** 2
        w += k
        w[1:] -= 0.5 * w[:-1]
    return w


def looked_up(v):
    s = 0.0
    for x in v:
        s += np.interp(x, TEMPLATE[:6], TEMPLATE[6:]) + np.searchsorted(TEMPLATE[:6], x)
    return s


def two_results(v):
    low = high = v[0]
    for x in v:
        if x < low:
            low = x
        if x > high:
            high = x
    return low, high


FUNCTIONS = [
    longest_run, spikes, drawdown, kalman, cusum, mann_kendall, bisection, warping,
    insertion_sort, peaks, rising, kepler, collatz, divisor, escape, rises, rolling, seasons,
    garch, helped, mean_run, monotone, edits, logs, positive_sum, any_low, path, windows, masked,
    arithmetic, looked_up, two_results,
]  # fmt: skip


def typed_function(f, first):
    """The typed function of one array, for slices like the first."""
    result = f(first)
    parts = result if isinstance(result, tuple) and f is two_results else (result,)
    parts = [np.asarray(p) for p in parts]
    watch = Guards()
    watch.start(f)
    kind = Array(first.dtype.name, first.ndim)
    expected = [Expected(p.dtype.name, p.shape) for p in parts]
    return typed(f, [Input(0)], {}, [kind], expected, watch), parts


def for_others(test):
    """A test for each of some CPUs, by name."""
    names = pytest.mark.parametrize("name", ["AVX2", "AVX-512", "NEON"])
    return pytest.mark.kernels(names(test))


def machine_code(text, name):
    """What a text becomes for another CPU."""
    pytest.importorskip("llvmlite")
    from xpapply.backends.cpu import compiler

    return compiler.object_code(text, TARGETS[name], passes=True)
