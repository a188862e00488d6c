"""Functions of 12 numbers on a GPU: as a user writes them, and by hand for the array at once.

`ROWS` were written down before anything was measured, in the proportions of `idioms.py` (but for
networks and texts): reductions along an axis, functions without an axis, arithmetic, branches, and
linear algebra. `LOOPS` have decisions: no array expression does them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .loop_states import longest_run

LENGTH = 12
TIMES = np.arange(LENGTH) / 4.0
WEIGHTS = np.hanning(LENGTH + 2)[1:-1]
PLACES = np.array([0.1, 0.9, 1.5, 2.2, 2.7])
KERNEL = np.array([0.25, 0.5, 0.25])


@dataclass(frozen=True)
class Row:
    """A function of a slice.

    Attributes
    ----------
    name, group : str
        The group is a proportion of `idioms.py`.
    build : callable ``build(xp)``
        The function, with the module of its arrays and arrays of that module.
    hand : callable ``hand(xp, x)``, optional
        The same of all rows of an array at once; None: there is no such expression.
    """

    name: str
    group: str
    build: Callable[[Any], Callable[[Any], Any]]
    hand: Callable[[Any, Any], Any] | None = None


def _interp(xp: Any) -> Callable[[Any], Any]:
    at, times = xp.asarray(PLACES), xp.asarray(TIMES)
    return lambda v: xp.interp(at, times, v)


def _trend(xp: Any) -> Callable[[Any], Any]:
    times = xp.asarray(TIMES)
    return lambda v: xp.polyfit(times, v, 1)[0]


def _trend_by_hand(xp: Any, x: Any) -> Any:
    t = xp.asarray(TIMES - TIMES.mean())
    return (x * t).sum(1) / (t * t).sum()


def _corr(xp: Any) -> Callable[[Any], Any]:
    times = xp.asarray(TIMES)
    return lambda v: xp.corrcoef(times, v)[0, 1]


def _corr_by_hand(xp: Any, x: Any) -> Any:
    t = xp.asarray(TIMES - TIMES.mean())
    d = x - x.mean(1, keepdims=True)
    return (d * t).sum(1) / xp.sqrt((d * d).sum(1) * (t * t).sum())


def _convolve(xp: Any) -> Callable[[Any], Any]:
    kernel = xp.asarray(KERNEL)
    return lambda v: xp.convolve(v, kernel, "same")


def _convolve_by_hand(xp: Any, x: Any) -> Any:
    y = xp.pad(x, ((0, 0), (1, 1)))
    return 0.25 * y[:, :-2] + 0.5 * y[:, 1:-1] + 0.25 * y[:, 2:]


def _histogram_by_hand(xp: Any, x: Any) -> Any:
    edges = np.linspace(-3.0, 3.0, 5)
    ends = [x < hi if k < 3 else x <= hi for k, hi in enumerate(edges[1:])]
    return xp.stack([((x >= lo) & end).sum(1) for lo, end in zip(edges[:-1], ends, strict=True)], 1)


def _searched(xp: Any) -> Callable[[Any], Any]:
    levels = xp.asarray([2.0, 5.0])
    return lambda v: xp.searchsorted(xp.cumsum(xp.abs(v)), levels)


def _searched_by_hand(xp: Any, x: Any) -> Any:
    c = xp.cumsum(xp.abs(x), axis=1)
    return xp.stack([(c < level).sum(1) for level in (2.0, 5.0)], 1)


def _dot(xp: Any) -> Callable[[Any], Any]:
    weights = xp.asarray(WEIGHTS)
    return lambda v: v @ weights


def _distance(xp: Any) -> Callable[[Any], Any]:
    weights = xp.asarray(WEIGHTS)
    return lambda v: xp.sqrt(((v - weights) ** 2).sum())


def _softmax(xp: Any) -> Callable[[Any], Any]:
    def softmax(v: Any) -> Any:
        e = xp.exp(v - v.max())
        return e / e.sum()

    return softmax


def _softmax_by_hand(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _logsumexp(xp: Any) -> Callable[[Any], Any]:
    def logsumexp(v: Any) -> Any:
        top = v.max()
        return xp.log(xp.exp(v - top).sum()) + top

    return logsumexp


def _logsumexp_by_hand(xp: Any, x: Any) -> Any:
    top = x.max(1, keepdims=True)
    return xp.log(xp.exp(x - top).sum(1)) + top[:, 0]


def _entropy(xp: Any) -> Callable[[Any], Any]:
    def entropy(v: Any) -> Any:
        p = xp.abs(v) / xp.abs(v).sum()
        return -(p * xp.log(p)).sum()

    return entropy


def _entropy_by_hand(xp: Any, x: Any) -> Any:
    p = xp.abs(x) / xp.abs(x).sum(1, keepdims=True)
    return -(p * xp.log(p)).sum(1)


def _skewness(xp: Any) -> Callable[[Any], Any]:
    def skewness(v: Any) -> Any:
        d = v - v.mean()
        return (d * d * d).mean() / (d * d).mean() ** 1.5

    return skewness


def _skewness_by_hand(xp: Any, x: Any) -> Any:
    d = x - x.mean(1, keepdims=True)
    return (d * d * d).mean(1) / (d * d).mean(1) ** 1.5


def _positive_mean_by_hand(xp: Any, x: Any) -> Any:
    m = x > 0
    return xp.where(m, x, 0.0).sum(1) / m.sum(1)


def _without_outliers_by_hand(xp: Any, x: Any) -> Any:
    m = xp.abs(x - x.mean(1, keepdims=True)) < 1.5 * x.std(1, keepdims=True)
    return xp.where(m, x, 0.0).sum(1) / m.sum(1)


def _mad(xp: Any) -> Callable[[Any], Any]:
    return lambda v: xp.median(xp.abs(v - xp.median(v)))


def _mad_by_hand(xp: Any, x: Any) -> Any:
    return xp.median(xp.abs(x - xp.median(x, axis=1, keepdims=True)), axis=1)


def _gap(xp: Any) -> Callable[[Any], Any]:
    def gap(v: Any) -> Any:
        s = xp.sort(v)
        return s[-1] - s[-2]

    return gap


def _gap_by_hand(xp: Any, x: Any) -> Any:
    s = xp.sort(x, axis=1)
    return s[:, -1] - s[:, -2]


def _matrix(x: Any) -> Any:
    return x[:, :9].reshape(-1, 3, 3)


def _eigenvalues(xp: Any) -> Callable[[Any], Any]:
    def eigenvalues(v: Any) -> Any:
        m = v[:9].reshape(3, 3)
        return xp.linalg.eigvalsh(m + m.T)

    return eigenvalues


def _eigenvalues_by_hand(xp: Any, x: Any) -> Any:
    m = _matrix(x)
    return xp.linalg.eigvalsh(m + m.transpose(0, 2, 1))


ROWS = [
    Row("mean", "axis", lambda xp: lambda v: v.mean(), lambda xp, x: x.mean(1)),
    Row("std", "axis", lambda xp: lambda v: v.std(), lambda xp, x: x.std(1)),
    Row("median", "axis", lambda xp: lambda v: xp.median(v), lambda xp, x: xp.median(x, axis=1)),
    Row("range", "axis", lambda xp: lambda v: v.max() - v.min(),
        lambda xp, x: x.max(1) - x.min(1)),
    Row("argmax", "axis", lambda xp: lambda v: v.argmax(), lambda xp, x: x.argmax(1)),
    Row("sort", "axis", lambda xp: lambda v: xp.sort(v), lambda xp, x: xp.sort(x, axis=1)),
    Row("norm", "axis", lambda xp: lambda v: xp.linalg.norm(v),
        lambda xp, x: xp.linalg.norm(x, axis=1)),
    Row("percentile", "axis", lambda xp: lambda v: xp.percentile(v, 90),
        lambda xp, x: xp.percentile(x, 90, axis=1)),
    Row("interp", "no axis", _interp),
    Row("convolve", "no axis", _convolve, _convolve_by_hand),
    Row("trend", "no axis", _trend, _trend_by_hand),
    Row("histogram", "no axis", lambda xp: lambda v: xp.histogram(v, 4, (-3.0, 3.0))[0],
        _histogram_by_hand),
    Row("cumsum", "no axis", lambda xp: lambda v: xp.cumsum(v), lambda xp, x: x.cumsum(1)),
    Row("largest_step", "no axis", lambda xp: lambda v: xp.abs(xp.diff(v)).max(),
        lambda xp, x: xp.abs(xp.diff(x, axis=1)).max(1)),
    Row("gradient", "no axis", lambda xp: lambda v: xp.gradient(v),
        lambda xp, x: xp.gradient(x, axis=1)),
    Row("searchsorted", "no axis", _searched, _searched_by_hand),
    Row("corr", "no axis", _corr, _corr_by_hand),
    Row("autocorrelation", "no axis",
        lambda xp: lambda v: (v[1:] * v[:-1]).sum() / (v * v).sum(),
        lambda xp, x: (x[:, 1:] * x[:, :-1]).sum(1) / (x * x).sum(1)),
    Row("standardize", "arithmetic", lambda xp: lambda v: (v - v.mean()) / v.std(),
        lambda xp, x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)),
    Row("softmax", "arithmetic", _softmax, _softmax_by_hand),
    Row("logsumexp", "arithmetic", _logsumexp, _logsumexp_by_hand),
    Row("scale", "arithmetic", lambda xp: lambda v: (v - v.min()) / (v.max() - v.min()),
        lambda xp, x: (x - x.min(1, keepdims=True))
        / (x.max(1, keepdims=True) - x.min(1, keepdims=True))),
    Row("rms", "arithmetic", lambda xp: lambda v: xp.sqrt((v ** 2).mean()),
        lambda xp, x: xp.sqrt((x ** 2).mean(1))),
    Row("variation", "arithmetic", lambda xp: lambda v: v.std() / xp.abs(v.mean()),
        lambda xp, x: x.std(1) / xp.abs(x.mean(1))),
    Row("dot", "arithmetic", _dot, lambda xp, x: x @ xp.asarray(WEIGHTS)),
    Row("distance", "arithmetic", _distance,
        lambda xp, x: xp.sqrt(((x - xp.asarray(WEIGHTS)) ** 2).sum(1))),
    Row("entropy", "arithmetic", _entropy, _entropy_by_hand),
    Row("skewness", "arithmetic", _skewness, _skewness_by_hand),
    Row("contrast", "arithmetic",
        lambda xp: lambda v: (v.max() - v.min()) / (xp.abs(v).max() + 1e-9),
        lambda xp, x: (x.max(1) - x.min(1)) / (xp.abs(x).max(1) + 1e-9)),
    Row("ratio", "arithmetic", lambda xp: lambda v: v / v[0], lambda xp, x: x / x[:, :1]),
    Row("positive_mean", "branches", lambda xp: lambda v: v[v > 0].mean(),
        _positive_mean_by_hand),
    Row("either_end", "branches", lambda xp: lambda v: v.max() if v.sum() > 0 else v.min(),
        lambda xp, x: xp.where(x.sum(1) > 0, x.max(1), x.min(1))),
    Row("clip", "branches", lambda xp: lambda v: xp.clip(v, -1, 1).sum(),
        lambda xp, x: xp.clip(x, -1, 1).sum(1)),
    Row("without_outliers", "branches",
        lambda xp: lambda v: v[xp.abs(v - v.mean()) < 1.5 * v.std()].mean(),
        _without_outliers_by_hand),
    Row("gap", "branches", _gap, _gap_by_hand),
    Row("mad", "branches", _mad, _mad_by_hand),
    Row("det", "algebra", lambda xp: lambda v: xp.linalg.det(v[:9].reshape(3, 3)),
        lambda xp, x: xp.linalg.det(_matrix(x))),
    Row("solve", "algebra", lambda xp: lambda v: xp.linalg.solve(v[:9].reshape(3, 3), v[9:]),
        lambda xp, x: xp.linalg.solve(_matrix(x), x[:, 9:, None])[..., 0]),
    Row("eigenvalues", "algebra", _eigenvalues, _eigenvalues_by_hand),
    Row("power", "algebra", lambda xp: lambda v: xp.abs(xp.fft.rfft(v)) ** 2,
        lambda xp, x: xp.abs(xp.fft.rfft(x, axis=1)) ** 2),
]  # fmt: skip


# --- loops with decisions -----------------------------------------------------------------------


def drawdown(v: Any) -> Any:
    top, worst = v[0] * 1, v[0] * 0
    for x in v:
        if x > top:
            top = x * 1
        if top - x > worst:
            worst = top - x
    return worst


def recurrence(v: Any) -> Any:
    s = 0.0
    for x in v:
        s = s + x if x > 0 else 0.5 * s
    return s


def states(v: Any) -> Any:
    state = count = 0
    for x in v:
        if state == 0 and x > 1.0:
            state = 1
            count += 1
        elif state == 1 and x < -0.5:
            state = 2
        elif state == 2 and x > 0.0:
            state = 0
    return count


def crossings(v: Any) -> Any:
    n = 0
    for i in range(1, len(v)):
        if (v[i - 1] < 0.0) != (v[i] < 0.0):
            n += 1
    return n


def cusum(v: Any) -> Any:
    s = 0.0
    for i in range(len(v)):
        s = s + v[i] - 0.1
        if s < 0.0:
            s = 0.0
        if s > 4.0:
            return i
    return -1


def bucket(v: Any) -> Any:
    level, lost = 0.0, 0.0
    for x in v:
        level = level + x
        if level > 3.0:
            lost = lost + (level - 3.0)
            level = 3.0
        elif level < 0.0:
            level = 0.0
    return lost


def fires(v: Any) -> Any:
    u, n = 0.0, 0
    for x in v:
        u = 0.8 * u + x
        if u > 1.5:
            n += 1
            u = 0.0
    return n


def root(v: Any) -> Any:
    x = 1.0
    for _ in range(50):
        step = (x * x * x + v[0] * x - v[1]) / (3.0 * x * x + v[0])
        x = x - step
        if step * step < 1e-18:
            break
    return x


def bisection(v: Any) -> Any:
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle * middle * middle + middle > v[0]:
            high = middle
        else:
            low = middle
    return low


def mann_kendall(v: Any) -> Any:
    s = 0
    for i in range(len(v)):
        for j in range(i + 1, len(v)):
            if v[j] > v[i]:
                s += 1
            elif v[j] < v[i]:
                s -= 1
    return s


def smallest_gap(v: Any) -> Any:
    best = 1e300
    for i in range(len(v)):
        for j in range(i + 1, len(v)):
            d = abs(v[i] - v[j])
            if d < best:
                best = d
    return best


def escape(v: Any) -> Any:
    re, im, n = 0.0, 0.0, 0
    while n < 64 and re * re + im * im < 4.0:
        re, im = re * re - im * im + 0.5 * v[0], 2.0 * re * im + 0.5 * v[1]
        n += 1
    return n


def kalman(v: Any) -> Any:
    level, spread = 0.0, 1.0
    for x in v:
        spread = spread + 0.1
        if x > -2.0:
            gain = spread / (spread + 0.5)
            level = level + gain * (x - level)
            spread = (1.0 - gain) * spread
    return level


def peaks(v: Any) -> Any:
    n, i = 0, 1
    while i < len(v) - 1:
        if v[i] > v[i - 1] and v[i] > v[i + 1]:
            n += 1
            i += 2
        else:
            i += 1
    return n


LOOPS = [
    longest_run, drawdown, recurrence, states, crossings, cusum, bucket, fires, root, bisection,
    mann_kendall, smallest_gap, escape, kalman, peaks,
]  # fmt: skip


# --- functions of numbers -----------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """A function of numbers, and what it is applied to: ``draw(rng, count)`` gives its arrays."""

    name: str
    f: Callable[..., Any]
    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]


def _normal(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    return (rng.standard_normal(count),)


def _pairs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    return tuple(rng.standard_normal((2, count)))


def branch(x: Any, y: Any) -> Any:
    return x - y if x > y else x + y * 2


def polynomial(x: Any) -> Any:
    return 3.0 + x * (2.0 + x * (1.5 - x))


def powers(x: Any) -> Any:
    return x**2 + x**3


def bump(x: Any) -> Any:
    return math.exp(-1.0 / (1.0 - x * x)) if -1.0 < x < 1.0 else 0.0


def collatz(n: Any) -> Any:
    k = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    return k


def kepler(e: Any, m: Any) -> Any:
    x = m
    for _ in range(20):
        step = (x - e * math.sin(x) - m) / (1.0 - e * math.cos(x))
        x -= step
        if abs(step) < 1e-13:
            break
    return x


def root(k: Any) -> Any:
    from scipy.optimize import brentq

    return brentq(lambda x: x - 0.5 * math.sin(x) - k, 0.0, 10.0)


def volatility(price: Any) -> Any:
    from scipy.optimize import brentq

    def worth(s: Any) -> Any:
        d = 0.05 / s + 0.5 * s
        of_share = 0.5 * math.erfc(-d / math.sqrt(2.0))
        return of_share - 0.95 * 0.5 * math.erfc(-(d - s) / math.sqrt(2.0)) - price

    return brentq(worth, 1e-3, 5.0)


NUMBERS = [
    Numbers("branch", branch, _pairs),
    Numbers("polynomial", polynomial, _normal),
    Numbers("powers", powers, _normal),
    Numbers("bump", bump, _normal),
    Numbers("collatz", collatz, lambda rng, count: (rng.integers(1, 1_000_000, count),)),
    Numbers("kepler", kepler,
            lambda rng, count: (rng.uniform(0, 0.9, count), rng.uniform(0, 6.28, count))),
    Numbers("root (brentq)", root, lambda rng, count: (rng.uniform(0.1, 5.0, count),)),
    Numbers("implied volatility (brentq)", volatility,
            lambda rng, count: (rng.uniform(0.1, 0.6, count),)),
]  # fmt: skip
"""For `xpapply.vectorize`; `cupy.vectorize` takes the first three and the fifth."""
