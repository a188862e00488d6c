"""Functions with loops over elements of CuPy's arrays: for tests of what compiles them.

They call nothing of CuPy's by its module, so that tests without it read them too: NumPy's ufuncs
are CuPy's where their arrays are.
"""

import math

import numpy as np
from loop_functions import longest_run


def recurrence(v):
    s = 0.0
    for x in v:
        s = 0.9 * s + x if x > s else 0.5 * s - x
    return s


def added(v):
    s = 0
    for x in v:
        s += x
    return s


def states(v):
    u, n, rest = 0.0, 0, 0
    for i in range(len(v)):
        if rest > 0:
            rest -= 1
            continue
        u = u + 0.4 * (v[i] - u)
        if u > 0.5:
            n += 1
            u = 0.0
            rest = 3
    return n


def drawdown(v):
    peak = v[0]
    worst = v[0] - v[0]
    for x in v:
        peak = max(peak, x)
        worst = max(worst, peak - x)
    return worst


def collatz(v):
    n, steps = abs(int(v[0])) + 1, 0
    while n != 1 and steps < 10_000:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def divisor(v):
    a, b = abs(int(v[0])), abs(int(v[1]))
    while b:
        a, b = b, a % b
    return a


def bisected(v):
    low, high = 0.0, 4.0
    while high - low > 1e-12:
        x = 0.5 * (low + high)
        if x * x * x > abs(float(v[0])) + 1.0:
            high = x
        else:
            low = x
    return low


def wholes(v):
    """Divisions and rests, also by zero."""
    s = v[0] * 0
    for i in range(1, len(v)):
        s = s + v[i] // v[i - 1] + v[i - 1] % v[i]
    return s


def smoothed(v):
    """Two results in a tuple."""
    level, trend = v[0], v[0] * 0
    for x in v[1:]:
        before = level
        level = level + (x - level) / 4
        trend = trend + (level - before) / 2
    return level, trend


def crossings(v):
    n = 0
    for a, b in zip(v, v[1:], strict=False):  # noqa: RUF007  # which is not compiled
        if (a < 0) != (b < 0) and not (a == 0 or b == 0):
            n += 1
    return n


def first_above(v):
    for i, x in enumerate(v):
        if x > 1:
            return i
    return -1


def raises(v):
    """For few slices."""
    s = 0.0
    for x in v:
        if x > 3.2:
            raise ValueError("too large")
        s = s + x
    return s


def rarely_by_zero(v):
    n = 0
    for x in v:
        n += int(x > -2.5)
    return 1 / n


def root(v):
    s = 0.0
    for x in v:
        s = s + math.sqrt(abs(float(x)))
    return s


def inversions(v):
    n = 0
    for i in range(len(v)):
        for j in range(i):
            if v[j] > v[i]:
                n += 1
    return n


def whole_numbers(v):
    s = 0
    for x in v:
        s += math.floor(float(x) * 4) % 7
    return s


def bits(v):
    s = v[0] & 1
    for x in v:
        s = (s ^ x) | (x >> 1)
        s = ~s + (-x)
    return s


def horner(v, c):
    s = 0.0
    for x in v:
        s = s * c + x
    return s


def smallest_gap(v):
    best = abs(v[1] - v[0])
    for i in range(2, len(v)):
        best = min(best, abs(v[i] - v[i - 1]))
    return best


def on_both(v):
    return helper(v, 0.25), helper(v, -0.25)


def helper(v, limit):
    n = 0
    for x in v:
        if x > limit:
            n += 1
    return n


def activated(v):
    s = 0.0
    for x in v:
        if x > 0:
            s = s + np.exp(-x) * np.tanh(x)
        else:
            s = s + np.log1p(x * x) + np.sign(x) + np.hypot(x, 0.5)
    return s


def sorted_copy(v):
    """Elements are parts of the array: a number that is kept has to be copied."""
    a = np.zeros_like(v)
    for i in range(len(v)):
        a[i] = v[i]
    for i in range(1, len(a)):
        x = a[i].copy()
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x
    return a


def smeared(v):
    """Without a copy: what is kept changes with the array."""
    a = np.zeros_like(v)
    a[:] = 1
    for i in range(len(v)):
        a[i] += v[i]
    first = a[0]
    for i in range(1, len(a)):
        a[i - 1], a[i] = a[i], a[i - 1]
        a[0] *= 2
    return first, a[0], max(a[1], a[2]), a[-1]


def moving(v):
    out = np.empty_like(v[2:])
    for i in range(len(out)):
        out[i] = (v[i] + v[i + 1] + v[i + 2]) / 4
    return out


def accumulated(v):
    out = np.zeros_like(v)
    s = 0.0
    for i in range(len(v)):
        s = s + v[i] if v[i] > 0 else s * 0.5
        out[i] = s
    return out


def edits(v):
    """A row of dynamic programming."""
    row = np.zeros_like(v)
    for j in range(len(v)):
        row[j] = j
    for i in range(len(v)):
        before = row[0].copy()
        row[0] = i
        for j in range(1, len(v)):
            now = min(row[j] + 1, row[j - 1] + 1, before + (v[i] != v[j]))
            before = row[j].copy()
            row[j] = now
    return row[-1]


def squares(v):
    n = 0
    for x in v:
        n = n + x**2
    return n - v.ptp()


FLOATS = (
    squares, longest_run, recurrence, added, states, drawdown, wholes, smoothed, crossings,
    first_above, inversions, smallest_gap, on_both, activated, sorted_copy, smeared, moving, edits,
    accumulated,
)  # fmt: skip
"""Those of all floats, with NaN and infinities."""
OF_FINITE = (collatz, divisor, bisected, rarely_by_zero, root, whole_numbers)
INTEGERS = (
    squares, longest_run, added, drawdown, collatz, divisor, wholes, crossings, first_above,
    inversions, smallest_gap, bits, sorted_copy, smeared, edits,
)  # fmt: skip


# --- whole arrays -------------------------------------------------------------------------------


def standardised(v):
    return (v - v.mean()) / v.std()


def total(v):
    return v.sum()


def mean(v):
    return v.mean() + np.sqrt(v[v > 1] * 1.0).sum() + (v > 0).mean()


def square_sum(v):
    return (v**2).sum()


def square_of_one(v):
    return v[0] ** 2 + v[1]


def spread(v):
    return v.max() - v.min()


def either_end(v):
    return v.max() if v.sum() > 0 else v.min()


def mean_of_some(v):
    return v[v > 0].mean()


def middle(v):
    return np.median(v)


def in_order(v):
    return np.sort(v)


def mad(v):
    return np.median(np.abs(v - np.median(v)))


def two_largest(v):
    s = np.sort(v)
    return s[-1] - s[-2]


def rectified(v):
    return np.maximum(v, 0) + np.minimum(v, 0.5) * 2


def by_where(v):
    return np.where(v > 0.5, v * 2, -v)


def places(v):
    return v.argmax() * 100 + v.argmin()


def counted(v):
    return np.count_nonzero(v > 0) + (v < 0).sum() * 100 + (abs(v) > 1).any() * 10_000


def steps(v):
    return np.diff(v)


def spread_of_steps(v):
    return np.diff(v).std()


def deviations(v):
    return v.var(), v.std(), v.var(ddof=1)


def logsumexp(v):
    m = v.max()
    return m + np.log(np.exp(v - m).sum())


def runs_above_mean(v):
    m = v.mean()
    n = best = 0
    for x in v:
        n = n + 1 if x > m else 0
        best = max(best, n)
    return best


WHOLE = [
    standardised, total, mean, square_sum, square_of_one, spread, either_end, mean_of_some,
    middle, in_order, mad, two_largest, rectified, by_where, places, counted, steps,
    spread_of_steps, deviations, logsumexp, runs_above_mean,
]  # fmt: skip
WHOLE_INTEGERS = [
    total,
    mean,
    square_sum,
    spread,
    in_order,
    two_largest,
    places,
    counted,
    steps,
    by_where,
]
