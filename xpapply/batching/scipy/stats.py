"""Rules of `scipy.stats`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import Batched
from ..rules import batch_size, bound, elementwise, leaves, signature
from .axis import (
    Rule,
    _behind,
    _usual,
    axis_call,
    by_rows,
    extreme,
    flat,
    repeated,
    result_type,
    split,
)


def statistic(
    data: str, default: int | None, *, least: int = 1, odd: Any = None, together: Any = None
) -> Rule:
    """A function of scipy.stats along an axis."""
    rule = axis_call(data, default, least=least, odd=odd or flat, together=together)

    def of_version(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = [x.dtype for x in leaves((args, kwargs))]
        if xp is np and older() and any(dtype != np.float64 for dtype in given):
            return by_rows(xp, call, args, kwargs)
        if any(dtype.kind == "c" for dtype in given):  # SciPy does not support it: rounding decides
            return by_rows(xp, call, args, kwargs)
        return rule(xp, call, args, kwargs)

    return of_version


# --- which slices rank tests treat apart ----------------------------------------------------------


def tied_if(of_lengths: Callable[[int, int], bool]) -> Any:
    """Slices with equal numbers, of samples of such lengths: which p-values are exact depends."""

    def both(x: Any, y: Any) -> Any:
        there = of_lengths(x.shape[-1], y.shape[-1])
        return tied(np.concatenate([x, y], axis=-1)) & there

    return both


def ties_of_differences(x: Any, y: Any = None) -> Any:
    """Slices with equal distances, or none, of 50 or fewer: then no p-value is exact."""
    d = x if y is None else x - y
    if d.shape[-1] > 50:
        return np.zeros(len(d), bool)
    return tied(abs(d)) | (d == 0).any(-1)


def apart(x: Any, y: Any) -> Any:
    """Slices whose samples do not overlap: where there is one, all may be warned of."""
    return (x.max(-1) <= y.min(-1)) | (y.max(-1) <= x.min(-1))


def tied(a: Any) -> Any:
    """Slices with equal numbers."""
    a = np.sort(a, axis=-1)
    return (a[..., 1:] == a[..., :-1]).any(-1)


def trimmed(default: int | None) -> Rule:
    """Statistics within limits, which raise for a slice that has no values there."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        limits = bound(call, args, kwargs).get("limits")
        if limits is None or any(leaves([limits])):
            return statistic("a", default)(xp, call, args, kwargs)
        low, high = (
            end if k is None else k for k, end in zip(limits, (-np.inf, np.inf), strict=True)
        )

        def outside(xp: Any, a: Any) -> Any:
            return flat(xp, a) | ~((a > low) & (a < high)).any(axis=_behind(a))

        return statistic("a", default, odd=outside)(xp, call, args, kwargs)

    return rule


def mode(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along an axis."""
    if xp is np and older():
        return by_rows(xp, call, args, kwargs)
    return statistic("a", 0)(xp, call, args, kwargs)


def boxcox(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """By a power that is given; else it is found for one slice after the other."""
    given = bound(call, args, kwargs)
    if xp is not np or given.keys() != {"x", "lmbda"} or given["lmbda"] is None:
        return by_rows(xp, call, args, kwargs)
    ufunc = sys.modules["scipy.special"].boxcox
    return elementwise(xp, ufunc, (given["x"], given["lmbda"]), {})


def older() -> bool:
    """Whether SciPy's dtypes along an axis may differ from those of slices."""
    version = sys.modules["scipy"].__version__.split(".")
    return tuple(map(int, version[:2])) < (1, 17)


def student_p(t: Any, dof: int, alternative: str) -> Any:
    """The p-value of a statistic with Student's distribution."""
    stdtr = sys.modules["scipy.special"].stdtr
    if alternative == "two-sided":
        return 2 * stdtr(dof, -abs(t))
    return stdtr(dof, t if alternative == "less" else -t)


def two_samples(xp: Any, call: Any, args: tuple, kwargs: dict, names: str, more: str) -> Any:
    """Two samples of 1-D values as arrays of all slices, None if a rule should not try."""
    given = bound(call, args, kwargs)
    samples: list[Any] = [given.get(k) for k in names.split()]
    others = set(given) - {*names.split(), *more.split()}
    if xp is not np or others or not all(map(_usual, samples)):
        return None
    if given.get("alternative", "two-sided") not in ("two-sided", "less", "greater"):
        return None
    n = batch_size((args, kwargs))
    arrays = [repeated(np, s, n) for s in samples]
    if any(a.ndim != 2 or a.dtype.kind not in "fiu" for a in arrays):
        return None
    if arrays[0].shape != arrays[1].shape or arrays[0].shape[1] < 3:
        return None
    return arrays, given.get("alternative", "two-sided")


def linregress(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """SciPy's formulas on all slices: along an axis it calls itself for each of them."""
    found = two_samples(xp, call, args, kwargs, "x y", "alternative")
    if found is None and "axis" in signature(call).parameters:
        return statistic("x y", 0, odd=flat_or_extreme)(xp, call, args, kwargs)
    if found is None:
        return by_rows(xp, call, args, kwargs)
    arrays, alternative = found
    if arrays[0].dtype != arrays[1].dtype and older():
        return by_rows(xp, call, args, kwargs)  # means in the precision of each

    def run(x: Any, y: Any) -> Any:
        n = x.shape[1]
        if x.dtype != y.dtype:
            x, y = (a.astype(np.result_type(x, y), copy=False) for a in (x, y))
        xmean, ymean = x.mean(-1), y.mean(-1)
        both = np.empty((len(x), 2, n), np.result_type(x, float))
        for k, a in enumerate((x, y)):
            np.subtract(a, a.mean(-1, keepdims=True, dtype=float), out=both[:, k])
        # the product that numpy.cov takes: sums that cancel have its last digits
        moments = both @ both.swapaxes(-1, -2) * (1 / n)
        ssxm, ssxym, ssym = moments[:, 0, 0], moments[:, 0, 1], moments[:, 1, 1]
        r = np.clip(ssxym / np.sqrt(ssxm * ssym), -1.0, 1.0)
        slope = ssxym / ssxm
        t = r * np.sqrt((n - 2) / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
        stderr = np.sqrt((1 - r**2) * ssym / ssxm / (n - 2))
        result = result_type(
            "LinregressResult", ("slope", "intercept", "rvalue", "pvalue", "stderr")
        )
        made = result(slope, ymean - slope * xmean, r, student_p(t, n - 2, alternative), stderr)
        made.intercept_stderr = stderr * np.sqrt(ssxm + xmean**2)
        return made

    return split(xp, call, args, kwargs, run, arrays, flat_or_extreme)


def flat_or_extreme(xp: Any, a: Any) -> Any:
    """Slices that are constant, not finite, or whose squares overflow or vanish."""
    return flat(xp, a) | extreme(xp, a)


def spearmanr(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """SciPy's formulas on all slices."""
    found = two_samples(xp, call, args, kwargs, "a b", "alternative nan_policy")
    if found is None:
        return by_rows(xp, call, args, kwargs)
    arrays, alternative = found
    rankdata = sys.modules["scipy.stats"].rankdata

    def run(a: Any, b: Any) -> Any:
        n = a.shape[1]
        # SciPy stacks the two first
        dtype = np.result_type(a, b)
        da, db = (rankdata(x.astype(dtype), axis=-1) for x in (a, b))
        # numpy.corrcoef computes with doubles, whatever ranks are
        da, db = (x.astype(np.float64, copy=False) for x in (da, db))
        da, db = (x - x.mean(-1, keepdims=True) for x in (da, db))
        aa, ab, bb = (np.vecdot(x, y) * (1 / (n - 1)) for x, y in ((da, da), (da, db), (db, db)))
        r = np.clip(ab / np.sqrt(bb) / np.sqrt(aa), -1.0, 1.0)
        with np.errstate(divide="ignore"):
            t = r * np.sqrt(((n - 2) / ((r + 1.0) * (1.0 - r))).clip(0))
        made = result_type("SignificanceResult", ("statistic", "pvalue"))(
            r, student_p(t, n - 2, alternative)
        )
        made.correlation = r
        return made

    return split(xp, call, args, kwargs, run, arrays, flat)


def lmoment(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along the axis; SciPy puts the moments first, wherever that is."""
    given = bound(call, args, kwargs)
    x, order = given.pop("sample", None), given.get("order")
    others = any(True for _ in leaves(given))
    if xp is not np or others or not isinstance(x, Batched) or x.ndim != 1:
        return by_rows(xp, call, args, kwargs)
    if given.pop("axis", 0) not in (0, -1) or given.get("keepdims"):
        return by_rows(xp, call, args, kwargs)

    def run(a: Any) -> Any:
        found = call(a, axis=-1, **given)
        return found if order is not None and np.ndim(order) == 0 else np.moveaxis(found, 0, -1)

    return split(xp, call, args, kwargs, run, [x.array], flat)


def chi2_contingency(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Tables of counts, one of each slice: SciPy's formulas, and its statistic along an axis."""
    given = bound(call, args, kwargs)
    tables, correction = given.get("observed"), given.get("correction", True)
    found = _tables(tables) if xp is np and given.keys() <= {"observed", "correction"} else None
    if found is None or not isinstance(correction, (bool, np.bool)) or min(found.shape[1:]) < 2:
        return by_rows(xp, call, args, kwargs)
    _, rows, columns = found.shape
    dof = (rows - 1) * (columns - 1)

    def odd(xp: Any, a: Any) -> Any:
        """Tables of what are no counts, of which sums depend on their order, or with empty rows."""
        whole = (np.abs(a) < 2.0**40) & (a == np.floor(a)) & (a >= 0)
        full = (a.sum(-1) > 0).all(-1) & (a.sum(-2) > 0).all(-1)
        return ~(whole.all((-1, -2)) & full)

    def run(a: Any) -> Any:
        counts = a.astype(np.float64)
        total = counts.sum((-1, -2), keepdims=True)
        expected = counts.sum(-1, keepdims=True) * counts.sum(-2, keepdims=True) / total
        if dof == 1 and correction:
            away = expected - counts
            counts = counts + np.minimum(0.5, np.abs(away)) * np.sign(away)
        flat_ = counts.reshape(len(a), -1), expected.reshape(len(a), -1)
        test = sys.modules["scipy.stats"].power_divergence
        statistic_, p = test(*flat_, ddof=rows * columns - 1 - dof, axis=1)
        result = result_type(
            "Chi2ContingencyResult", ("statistic", "pvalue", "dof", "expected_freq")
        )
        return result(statistic_, p, dof, expected)

    return split(xp, call, args, kwargs, run, [found], odd, plain=(2,))


def _tables(x: Any) -> Any:
    """Tables ``(slices, rows, columns)`` of numbers, also of lists; None: it is something else."""
    if isinstance(x, Batched):
        return x.array if x.array.ndim == 3 and x.array.dtype.kind in "fiu" else None
    if not isinstance(x, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in x):
        return None
    rows = [list(row) for row in x]
    values = [e for row in rows for e in row]
    if not all(isinstance(e, Batched) and e.array.ndim == 1 for e in values):
        return None
    if len({e.array.dtype for e in values}) > 1 or len({*map(len, rows)}) > 1:
        return None
    made = np.stack([e.array for e in values], axis=-1)
    return made.reshape(len(made), len(rows), -1) if made.dtype.kind in "fiu" else None
