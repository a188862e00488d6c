"""Rules of `scipy.stats` for trends: rank correlation with pairs, slopes of all pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...functions.cache import BoundedDict, kept
from ...limits import LIMITS
from ..rules import batch_size, bound
from .axis import _usual, by_rows, extreme, repeated, result_type, split
from .stats import statistic, tied

_by_count: dict[Any, Any] = kept(BoundedDict())
"""What `kendalltau` gives for so many elements and options, by the pairs in the other order."""


def kendalltau(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """By the number of pairs in the other order, on which all depends where nothing is equal.

    SciPy is asked once for each number, of values that have so many.
    """
    given = bound(call, args, kwargs)
    samples = [given.pop(k, None) for k in ("x", "y")]
    options = tuple(sorted(given.items()))
    known = {*given} <= {"alternative", "method", "variant"}
    known = known and all(type(v) is str for v in given.values())
    arrays = _samples(samples, batch_size((args, kwargs))) if known and xp is np else None
    if arrays is None:
        return statistic("x y", None, least=4)(xp, call, args, kwargs)

    def run(x: Any, y: Any) -> Any:
        n = x.shape[1]
        counts = np.concatenate([_inverted(*part) for part in _parts(n, x, y)])
        some, places = np.unique(counts, return_inverse=True)
        known = _by_count.setdefault((n, options, sys.modules["scipy"].__version__), {})
        for k in some.tolist():
            if k not in known:
                known[k] = _of_count(call, n, k, options)
        told = np.array([known[k] for k in some.tolist()]).reshape(-1, 2)
        made = result_type("SignificanceResult", ("statistic", "pvalue"))(*told[places].T.copy())
        made.correlation = made.statistic
        return made

    return split(xp, call, args, kwargs, run, arrays, _has_equal)


def _samples(samples: list[Any], n: int) -> Any:
    """Two samples of numbers as arrays ``(slices, numbers)``; None: they are something else."""
    if not all(map(_usual, samples)):
        return None
    arrays = [repeated(np, s, n) for s in samples]
    if any(a.ndim != 2 or not _is_plain(a) for a in arrays):
        return None
    return arrays if arrays[0].shape == arrays[1].shape and arrays[0].shape[1] > 3 else None


def _is_plain(a: Any) -> bool:
    """Whether results are doubles in every SciPy: of short floats they are as short since 1.18."""
    return a.dtype.kind in "iu" or a.dtype == np.float64


def _has_equal(xp: Any, a: Any) -> Any:
    """Slices with equal numbers, or some that are not finite."""
    return tied(a) | ~np.isfinite(a).all(-1)


def _parts(n: int, *arrays: Any) -> Iterator[list[Any]]:
    """Arrays of so many slices at a time that their pairs are not too many."""
    step = max(1, LIMITS.pairs_at_once // (n * n))
    for k in range(0, len(arrays[0]), step):
        yield [a[k : k + step] for a in arrays]


def _inverted(x: Any, y: Any) -> Any:
    """How many pairs of each slice are in the other order in `y`."""
    y = np.take_along_axis(y, np.argsort(x, axis=-1), -1)
    n = y.shape[1]
    return sum(np.count_nonzero(y[:, :-k] > y[:, k:], axis=-1) for k in range(1, n))


def _of_count(call: Any, n: int, count: int, options: tuple[Any, ...]) -> tuple[float, float]:
    """Statistic and p-value of `n` numbers with so many pairs in the other order."""
    rest, values = list(range(n)), []
    for k in range(n):
        far = min(count, n - 1 - k)
        values.append(rest.pop(far))
        count -= far
    told = call(np.arange(n), np.array(values), **dict(options))
    return float(told.statistic), float(told.pvalue)


def theilslopes(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """SciPy's formulas on all slices where no values are equal, and `x` is one or increases."""
    given = bound(call, args, kwargs)
    y, x, alpha = given.get("y"), given.get("x"), given.get("alpha", 0.95)
    method = given.get("method", "separate")
    known = {*given} <= {"y", "x", "alpha", "method"} and method in ("separate", "joint")
    usual = _usual(y) and (x is None or _usual(x))
    if xp is not np or not known or not usual or type(alpha) is not float:
        return statistic("y x", None, least=4)(xp, call, args, kwargs)
    count = batch_size((args, kwargs))
    values, own = repeated(np, y, count), hasattr(x, "array")
    n = values.shape[-1]
    given_x = repeated(np, x, count) if own else np.arange(n) if x is None else np.array(x)
    fits = values.ndim == 2 and _is_plain(values) and _is_plain(given_x) and n > 3
    if not fits or given_x.shape != (values.shape if own else (n,)):
        return statistic("y x", None, least=4)(xp, call, args, kwargs)
    given_x = given_x.astype(float)
    places = np.arange(n, dtype=float) if own else given_x  # pairs are those of any that increase
    if not np.isfinite(places).all() or len(np.unique(places)) < 2:
        return statistic("y x", None, least=4)(xp, call, args, kwargs)
    steps = places[:, None] - places
    later, earlier = np.nonzero(steps > 0)
    bounds = _bounds(places, len(later), alpha)
    if bounds is None:
        return by_rows(xp, call, args, kwargs)

    def of_part(y: Any, places: Any) -> Any:
        slopes = (y[:, later] - y[:, earlier]) / (places[..., later] - places[..., earlier])
        slopes.sort(axis=-1)
        middle = np.median(slopes, axis=-1)
        if method == "joint":
            level = np.median(y - middle[:, None] * places, axis=-1)
        else:
            level = np.median(y, axis=-1) - middle * np.median(places, axis=-1)
        return np.stack([middle, level, *slopes[:, bounds].T])

    def run(y: Any, x: Any = given_x) -> Any:
        arrays = (y.astype(float, copy=False), *([x] if own else []))
        parts = [of_part(*part, *([] if own else [x])) for part in _parts(n, *arrays)]
        names = ("slope", "intercept", "low_slope", "high_slope")
        return result_type("TheilslopesResult", names)(*np.concatenate(parts, axis=1))

    def odd(xp: Any, a: Any) -> Any:
        return _has_equal(xp, a) | extreme(xp, a)

    arrays = [values, given_x] if own else [values]
    falls = (lambda _, x: ~(x[:, 1:] > x[:, :-1]).all(-1)) if own else None
    return split(xp, call, args, kwargs, run, arrays, odd, together=falls)


def _bounds(x: Any, count: int, alpha: float) -> list[int] | None:
    """Which of the sorted slopes bound the confidence interval, by (2.6) of Sen (1968)."""
    n, alpha = len(x), 1.0 - alpha if alpha > 0.5 else alpha
    z = sys.modules["scipy.stats"].norm.ppf(alpha / 2.0)
    _, equal = np.unique(x, return_counts=True)
    ties = sum(int(k) * (int(k) - 1) * (2 * int(k) + 5) for k in equal if k > 1)
    try:
        sigma = np.sqrt(1 / 18.0 * (n * (n - 1) * (2 * n + 5) - ties))
        high = min(int(np.round((count - z * sigma) / 2.0)), count - 1)
        low = max(int(np.round((count + z * sigma) / 2.0)) - 1, 0)
    except ValueError:
        return None
    return [low, high] if high >= -count and low < count else None
