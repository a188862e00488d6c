"""Rules of `scipy.stats` for shares of values, and for tests by Kolmogorov and Smirnov."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...limits import LIMITS
from .. import Batched
from ..rules import batch_size, bound, leaves
from .axis import _usual, by_rows, not_finite, repeated, result_type, split, with_nan

# --- shares -------------------------------------------------------------------------------

_COUNTED = {
    "rank": ("<=+", 50.0),
    "strict": ("<", 100.0),
    "weak": ("=", 100.0),
    "mean": ("<=", 50.0),
}
"""What is counted by the kinds of `percentileofscore`, and what a share is multiplied by.

``<``: values below; ``=``: values that are not above; ``+``: one more, if these differ.
"""


def percentileofscore(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Counts of all slices."""
    given = bound(call, args, kwargs)
    a, score = given.get("a"), given.get("score")
    kind, policy = given.get("kind", "rank"), given.get("nan_policy", "propagate")
    if xp is not np or kind not in _COUNTED or policy != "propagate" or not _usual(a):
        return by_rows(xp, call, args, kwargs)
    n = batch_size((args, kwargs))
    values, scores = repeated(np, a, n), repeated(np, score, n)
    if any(x.dtype.kind not in "fiub" for x in (values, scores)) or values.ndim != 2:
        return by_rows(xp, call, args, kwargs)
    count = values.shape[1]
    if count == 0 or scores.ndim > 2:
        return by_rows(xp, call, args, kwargs)
    several = scores.reshape(n, -1)
    found = np.empty(several.shape)
    step = max(1, LIMITS.pairs_at_once // (count * max(1, several.shape[1])))
    parts, factor = _COUNTED[kind]
    for k in range(0, n, step):
        each, of = values[k : k + step, None, :], several[k : k + step, :, None]
        below = np.count_nonzero(each < of, axis=-1) if "<" in parts else 0
        within = np.count_nonzero(each <= of, axis=-1) if "=" in parts else 0
        more = below < within if "+" in parts else 0
        found[k : k + step] = (below + within + more) * (factor / count)
    found[with_nan(np, values)] = np.nan
    found[several != several] = np.nan
    return Batched(found.reshape(scores.shape))


def scoreatpercentile(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along an axis."""
    given = bound(call, args, kwargs)
    a, per = given.pop("a"), given.pop("per")
    known = given.keys() <= {"interpolation_method"} and not any(leaves([per, given]))
    if xp is not np or not known or not isinstance(a, Batched) or a.array.ndim != 2:
        return by_rows(xp, call, args, kwargs)
    if a.array.shape[1] == 0 or a.array.dtype.kind not in "fiu":
        return by_rows(xp, call, args, kwargs)

    def run(a: Any) -> Any:
        found = call(a, per, axis=1, **given)
        return found if np.isscalar(per) else np.ascontiguousarray(np.moveaxis(found, -1, 0))

    return split(xp, call, args, kwargs, run, [a.array], not_finite)


# --- tests by Kolmogorov and Smirnov ------------------------------------------------------


_EXACT = 10_000
"""The longest samples whose p-values SciPy computes by counting."""
_FIRST = {"greater": True, "less": False}
"""Whether the statistic is how far a sample is above, where that is not the larger of two."""


def kstest(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Of one sample or of two, which the second argument tells."""
    given = bound(call, args, kwargs)
    rvs, cdf = given.pop("rvs"), given.pop("cdf")
    stats = sys.modules["scipy.stats"]
    known = given.keys() <= {"args", "alternative", "method"} and _usual(rvs)
    if known and (isinstance(cdf, str) or callable(cdf)):
        cdf = getattr(getattr(stats, cdf, None), "cdf", None) if isinstance(cdf, str) else cdf
        return _one_sample(xp, call, args, kwargs, rvs, cdf, given)
    if known and "args" not in given and _usual(cdf):
        return _two_samples(xp, call, args, kwargs, [rvs, cdf], given)
    return by_rows(xp, call, args, kwargs)


def ks_1samp(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """All slices by the distribution at once."""
    given = bound(call, args, kwargs)
    x, cdf = given.pop("x"), given.pop("cdf")
    if not given.keys() <= {"args", "alternative", "method"} or not _usual(x):
        return by_rows(xp, call, args, kwargs)
    return _one_sample(xp, call, args, kwargs, x, cdf, given)


def ks_2samp(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """By the largest differences of counts, on which all depends."""
    given = bound(call, args, kwargs)
    samples = [given.pop(k) for k in ("data1", "data2")]
    if not given.keys() <= {"alternative", "method"} or not all(map(_usual, samples)):
        return by_rows(xp, call, args, kwargs)
    return _two_samples(xp, call, args, kwargs, samples, given)


def _one_sample(
    xp: Any, call: Any, args: tuple, kwargs: dict, x: Any, cdf: Any, given: dict
) -> Any:
    """SciPy's formulas, with a distribution of its own, whose parameters may be those of slices."""
    alternative, method = given.get("alternative", "two-sided"), given.get("method", "auto")
    parameters = given.get("args", ())
    stats = sys.modules["scipy.stats"]
    own = isinstance(getattr(cdf, "__self__", None), (stats.rv_continuous, stats.rv_discrete))
    known = own and alternative in ("two-sided", "less", "greater") and isinstance(x, Batched)
    known = known and method in ("auto", "exact") and isinstance(parameters, tuple)
    if xp is not np or not known or x.array.ndim != 2 or x.array.dtype != np.float64:
        return by_rows(xp, call, args, kwargs)
    n, count = x.array.shape
    numbers = [repeated(np, p, n) for p in parameters]
    if count == 0 or any(p.ndim != 1 or p.dtype.kind not in "fiu" for p in numbers):
        return by_rows(xp, call, args, kwargs)

    def run(x: Any, *numbers: Any) -> Any:
        x = np.sort(x, axis=-1)
        below = cdf(x, *(p[:, None] for p in numbers))
        upper, lower = np.arange(1.0, count + 1) / count - below, below - np.arange(count) / count
        plus, where_plus = _largest(upper, x)
        minus, where_minus = _largest(lower, x)
        first = np.broadcast_to(_FIRST.get(alternative, plus > minus), len(x))
        d, where = np.where(first, plus, minus), np.where(first, where_plus, where_minus)
        tail = stats.kstwo if alternative == "two-sided" else stats.ksone
        p = tail.sf(d, count)
        made = result_type("KstestResult", ("statistic", "pvalue"))(
            d, np.clip(p, 0.0, 1.0) if alternative == "two-sided" else p
        )
        made.statistic_location = where
        made.statistic_sign = np.where(first, 1, -1).astype(np.int8)
        return made

    return split(xp, call, args, kwargs, run, [x.array, *numbers], not_finite)


def _largest(a: Any, x: Any) -> tuple[Any, Any]:
    """The largest value of each slice, and what `x` has in its place."""
    at = np.argmax(a, axis=-1)[:, None]
    return np.take_along_axis(a, at, -1)[:, 0], np.take_along_axis(x, at, -1)[:, 0]


def _two_samples(
    xp: Any, call: Any, args: tuple, kwargs: dict, samples: list[Any], given: dict
) -> Any:
    """By the largest difference of counts: SciPy is asked once for each.

    The result has no place of the statistic: where several are as large, rounding chooses one.
    """
    n = batch_size((args, kwargs))
    known = xp is np and given.get("method", "auto") in ("auto", "exact")
    known = known and given.get("alternative", "two-sided") in ("two-sided", "less", "greater")
    arrays = [repeated(np, s, n) for s in samples]
    if not known or any(a.ndim != 2 or a.dtype != np.float64 for a in arrays):
        return by_rows(xp, call, args, kwargs)
    sizes = [a.shape[1] for a in arrays]
    if min(sizes) == 0 or max(sizes) > _EXACT:
        return by_rows(xp, call, args, kwargs)

    def run(x: Any, y: Any) -> Any:
        above, below = _differences(x, y)
        largest = {"less": below, "greater": above}.get(
            given.get("alternative", "two-sided"), np.maximum(above, below)
        )
        _, firsts, places = np.unique(largest, return_index=True, return_inverse=True)
        told = [call(x[k], y[k], **given) for k in firsts]
        numbers = np.array([(t.statistic, t.pvalue) for t in told])
        return result_type("KstestResult", ("statistic", "pvalue"))(*numbers[places].T.copy())

    return split(xp, call, args, kwargs, run, arrays, not_finite)


def _differences(x: Any, y: Any) -> tuple[Any, Any]:
    """How far the counts of one sample are above those of the other, and below, at most.

    They are multiplied by the length of the other sample, and so whole numbers.
    """
    both = np.concatenate([x, y], axis=-1)
    order = np.argsort(both, axis=-1)
    both = np.take_along_axis(both, order, -1)
    is_first, (m, n) = order < x.shape[1], (x.shape[1], y.shape[1])
    first = np.cumsum(is_first, axis=-1)
    apart = first * n - (np.arange(1, m + n + 1) - first) * m
    apart[:, :-1][both[:, 1:] == both[:, :-1]] = 0  # equal numbers are counted together
    return apart.max(-1), -apart.min(-1)
