"""Functions for the suite `loops`: states, runs and events of series, and statistics of pairs."""

from __future__ import annotations

import math

import numpy as np

from .loop_rows import codes, normal, row, two, uniform, walks

STATES, PAIRS = "states, runs and events", "statistics by loops"


@row(STATES, 6000, normal(300))
def longest_run(v):
    best = run = 0
    for x in v:
        if x > 0:
            run += 1
            if run > best:
                best = run
        else:
            run = 0
    return best


@row(STATES, 6000, normal(400))
def spikes(v, threshold=1.5, pause=10):
    last = -pause
    count = 0
    for i, x in enumerate(v):
        if x > threshold and i - last >= pause:
            count += 1
            last = i
    return count


def _bits(rng, n):
    return ((rng.random((n, 300)) < 0.5).astype(np.int64),)


@row(STATES, 4000, _bits)
def debounce(bits, hold=3):
    state, count = bits[0], 0
    out = np.zeros_like(bits)
    for i in range(len(bits)):
        if bits[i] == state:
            count = 0
        else:
            count += 1
            if count >= hold:
                state = bits[i]
                count = 0
        out[i] = state
    return out


@row(STATES, 6000, walks(300))
def hysteresis(v, low=-1.0, high=1.0):
    on = False
    out = np.zeros(len(v), dtype=bool)
    for i in range(len(v)):
        if v[i] > high:
            on = True
        elif v[i] < low:
            on = False
        out[i] = on
    return out


@row(STATES, 4000, normal(300))
def sleep_stages(v):
    """Changes between awake, drowsy, asleep and dreaming."""
    state, changes, inside = 0, 0, 0
    for x in v:
        new = state
        if state == 0:
            if x < -0.5:
                new = 1
        elif state == 1:
            if x < -1.0:
                new = 2
            elif x > 0.5:
                new = 0
        elif state == 2:
            if inside > 5 and x > 0.0:
                new = 3
        else:
            if x > 1.0 or inside > 20:
                new = 0
        inside = inside + 1 if new == state else 0
        changes += new != state
        state = new
    return changes


def _shifted(rng, n):
    v = rng.standard_normal((n, 300))
    start = rng.integers(50, 300, (n, 1))
    return (v + 1.0 * (np.arange(300) >= start),)


@row(STATES, 3000, _shifted)
def cusum(v, drift=0.5, limit=6.0):
    up = down = 0.0
    for i, x in enumerate(v):
        up = max(0.0, up + x - drift)
        down = max(0.0, down - x - drift)
        if up > limit or down > limit:
            return i
    return -1


def _prices(rng, n):
    return (100 * np.exp(np.cumsum(0.01 * rng.standard_normal((n, 400)), 1)),)


@row(STATES, 5000, _prices)
def drawdown(price):
    peak = price[0]
    worst = 0.0
    for p in price:
        if p > peak:
            peak = p
        loss = (peak - p) / peak
        if loss > worst:
            worst = loss
    return worst


@row(STATES, 5000, codes(300, 3))
def runs(v):
    count = 1
    for i in range(1, len(v)):
        if v[i] != v[i - 1]:
            count += 1
    return count


@row(STATES, 2000, normal(300))
def pick_peaks(v, height=0.5, distance=5):
    found = []
    for i in range(1, len(v) - 1):
        if v[i] > height and v[i - 1] < v[i] >= v[i + 1]:
            if found and i - found[-1] < distance:
                if v[i] > v[found[-1]]:
                    found[-1] = i
            else:
                found.append(i)
    return len(found)


@row(STATES, 5000, walks(300))
def zero_crossings(v, band=0.2):
    sign = 0
    crossings = 0
    for x in v:
        if abs(x) <= band:
            continue
        new = 1 if x > 0 else -1
        if sign != 0 and new != sign:
            crossings += 1
        sign = new
    return crossings


@row(STATES, 300, codes(120, 2))
def lempel_ziv(s):
    """Complexity of a sequence of symbols (Kaspar and Schuster 1987)."""
    n = len(s)
    i, k, start, longest, c = 0, 1, 1, 1, 1
    while True:
        if s[i + k - 1] == s[start + k - 1]:
            k += 1
            if start + k > n:
                c += 1
                break
        else:
            if k > longest:
                longest = k
            i += 1
            if i == start:
                c += 1
                start += longest
                if start + 1 > n:
                    break
                i, k, longest = 0, 1, 1
            else:
                k = 1
    return c


BREAKS = (-0.6745, 0.0, 0.6745)


@row(STATES, 5000, walks(64))
def sax_word(v, parts=8):
    """Symbols of a piecewise mean, as one number."""
    mean, std = v.mean(), v.std()
    width = len(v) // parts
    word = 0
    for p in range(parts):
        total = 0.0
        for i in range(p * width, (p + 1) * width):
            total += (v[i] - mean) / std
        symbol = 0
        for b in BREAKS:
            if total / width > b:
                symbol += 1
        word = word * 4 + symbol
    return word


# --- statistics -------------------------------------------------------------------------


@row(PAIRS, 500, normal(50))
def mann_kendall(v):
    s = 0
    for i in range(len(v) - 1):
        for j in range(i + 1, len(v)):
            if v[j] > v[i]:
                s += 1
            elif v[j] < v[i]:
                s -= 1
    return s


@row(PAIRS, 1000, normal(30))
def theil_sen(v):
    slopes = []
    for i in range(len(v)):
        for j in range(i + 1, len(v)):
            slopes.append((v[j] - v[i]) / (j - i))
    return np.median(np.array(slopes))


@row(PAIRS, 200, normal(80))
def sample_entropy(v, m=2, r=0.3):
    n = len(v)
    a = b = 0
    for i in range(n - m):
        for j in range(i + 1, n - m):
            same = True
            for k in range(m):
                if abs(v[i + k] - v[j + k]) > r:
                    same = False
                    break
            if same:
                b += 1
                if abs(v[i + m] - v[j + m]) <= r:
                    a += 1
    if a == 0 or b == 0:
        return 0.0
    return -math.log(a / b)


@row(PAIRS, 1500, two(normal(40)), "(n),(m)->()")
def dominance(a, b):
    """Cliff's delta."""
    more = less = 0
    for x in a:
        for y in b:
            if x > y:
                more += 1
            elif x < y:
                less += 1
    return (more - less) / (len(a) * len(b))


@row(PAIRS, 500, uniform(40))
def gini(v):
    total = 0.0
    for x in v:
        for y in v:
            total += abs(x - y)
    return total / (2 * len(v) ** 2 * v.mean())


def _pixels(rng, n):
    low, high = 60 + 15 * rng.standard_normal((n, 200)), 160 + 25 * rng.standard_normal((n, 200))
    bright = rng.random((n, 200)) < 0.4
    return (np.clip(np.where(bright, high, low), 0, 255).astype(np.uint8),)


@row(PAIRS, 1000, _pixels)
def otsu(v):
    histogram = np.zeros(256)
    for x in v:
        histogram[x] += 1
    total, below, weight = 0.0, 0.0, 0.0
    for k in range(256):
        total += k * histogram[k]
    best, threshold = -1.0, 0
    for k in range(256):
        weight += histogram[k]
        rest = len(v) - weight
        if weight == 0 or rest == 0:
            continue
        below += k * histogram[k]
        difference = below / weight - (total - below) / rest
        between = weight * rest * difference**2
        if between > best:
            best, threshold = between, k
    return threshold
