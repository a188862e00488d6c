"""Correlations, least-squares fits, scores and peaks, in graphs.

Sums of products that NumPy leaves to BLAS or LAPACK have another order there: they are marked as
approximate. Where NumPy or SciPy warn, raise or take another way, the slice is marked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import resolve
from ....batching.scipy.stats import older
from ....errors import UnsupportedError
from ....ir.builder import Value
from .places import along, joined, part, vector

_MOST_CONDITION = 32
"""Times its numbers. A fit of a worse condition may be off by more than its bound as a product."""
_MOST_RANKS = 32
"""Numbers of a slice that are compared with each other, at most."""
_SQUARES = 1e150
"""Below it sums of squares do not overflow."""
_SMALL, _LARGE = 1e-280, 1e280
"""Bounds between which a product neither overflows nor vanishes."""

# --- moments --------------------------------------------------------------------------------


class _Sample:
    """One of two samples of float64: a value of the slice, or a constant."""

    def __init__(self, lowering: Any, x: Any) -> None:
        self.varies = isinstance(x, Value)
        if self.varies:
            self.x = lowering.operand(vector(x), np.float64)
            self.mean = lowering.op("mean", self.x, axis=(0,), keepdims=False)
        else:
            self.x = np.asarray(x)
            if self.x.ndim != 1 or self.x.dtype.kind not in "biuf":
                raise UnsupportedError("a sample of another kind")
            self.x = self.x.astype(np.float64)
            if not np.isfinite(self.x).all():
                raise UnsupportedError("a sample with NaN or infinity")
            self.mean = self.x.mean()
        self.apart = self.x - self.mean
        self.count = self.x.shape[0]


def _samples(lowering: Any, x: Any, y: Any) -> tuple[_Sample, _Sample]:
    kinds = {np.dtype(a.dtype if isinstance(a, Value) else np.asarray(a).dtype) for a in (x, y)}
    if any(k.kind == "f" and k != np.float64 for k in kinds):
        raise UnsupportedError("samples of another precision")
    both = _Sample(lowering, x), _Sample(lowering, y)
    if both[0].count != both[1].count or both[0].count < 3:
        raise UnsupportedError("samples of different lengths, or of fewer than three numbers")
    return both


def _moment(lowering: Any, a: _Sample, b: _Sample) -> Any:
    """The sum of products of what is apart from the means."""
    if not a.varies and not b.varies:
        return float(a.apart @ b.apart)
    total = lowering.op("sum", a.apart * b.apart, axis=(0,), keepdims=False)
    return lowering.builder.approximate(total)


def _as_matrix(lowering: Any, *numbers: Any) -> Value:
    flat = [lowering.shaped(lowering.operand(x, np.float64), (1,)) for x in numbers]
    return lowering.shaped(joined(lowering, *flat), (2, 2))  # type: ignore[no-any-return]


def _moments(lowering: Any, a: _Sample, b: _Sample, count: int) -> tuple[Any, Any, Any]:
    factor = float(np.true_divide(1, count))
    return tuple(_moment(lowering, *two) * factor for two in ((a, a), (a, b), (b, b)))  # type: ignore[return-value]


def _cov(
    lowering: Any, m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None
) -> Value:
    ddof = int(not bias) if ddof is None else int(ddof)
    if y is None or _ndim(m) > 1:
        return _cov_of_rows(lowering, m, y, rowvar, ddof)
    a, b = _samples(lowering, m, y)
    if a.count <= ddof:
        raise UnsupportedError("a covariance that is not determined")
    aa, ab, bb = _moments(lowering, a, b, a.count - ddof)
    return _as_matrix(lowering, aa, ab, ab, bb)


def _ndim(x: Any) -> int:
    return len(x.shape) if isinstance(x, Value) else np.ndim(x)


def _cov_of_rows(lowering: Any, m: Any, y: Any, rowvar: bool, ddof: int) -> Value:
    """Covariances of all pairs of rows."""
    if not isinstance(m, Value) or y is not None or m.dtype.kind not in "biuf":
        raise UnsupportedError("the covariance of such variables")
    x = lowering.operand(m, np.float64)
    if len(x.shape) == 2 and not rowvar:
        x = lowering.op("permute_dims", x, axes=(1, 0))
    rows, n = (1, *x.shape)[-2:]
    x = lowering.shaped(x, (rows, n))
    if n <= ddof:
        raise UnsupportedError("a covariance that is not determined")
    apart = x - lowering.op("mean", x, axis=(1,), keepdims=True)
    total = lowering.op("einsum", apart, apart, subscripts="km,nm->kn")
    found = total * float(np.true_divide(1, n - ddof))
    return lowering.shaped(found, ()) if rows == 1 else found  # type: ignore[no-any-return]


def _corrcoef_of_rows(lowering: Any, x: Any, y: Any, rowvar: bool) -> Value:
    found = _cov_of_rows(lowering, x, y, rowvar, 1)
    if not found.shape:
        raise UnsupportedError("the correlation of one variable")
    n, builder = found.shape[0], lowering.builder
    flat = lowering.shaped(found, (n * n,))
    sizes = builder.ufunc(np.sqrt, part(lowering, flat, 0, n * n, n + 1))
    found = found / lowering.shaped(sizes, (n, 1)) / lowering.shaped(sizes, (1, n))
    return builder.ufunc(np.minimum, builder.ufunc(np.maximum, found, -1.0), 1.0)  # type: ignore[no-any-return]


def _corrcoef(lowering: Any, x: Any, y: Any = None, rowvar: bool = True) -> Value:
    if y is None or _ndim(x) > 1:
        return _corrcoef_of_rows(lowering, x, y, rowvar)
    a, b = _samples(lowering, x, y)
    aa, ab, bb = _moments(lowering, a, b, a.count - 1)
    ufunc = lowering.builder.ufunc
    sizes = []
    for variance in (aa, bb):
        if not isinstance(variance, Value) and not _SMALL < variance < _LARGE:
            raise UnsupportedError("the correlation with a constant")
        varies = isinstance(variance, Value)
        sizes.append(ufunc(np.sqrt, variance) if varies else float(np.sqrt(variance)))
    found = []
    for c, first, second in ((aa, 0, 0), (ab, 0, 1), (ab, 1, 0), (bb, 1, 1)):
        r = c / sizes[first] / sizes[second]
        limited = ufunc(np.minimum, ufunc(np.maximum, r, -1.0), 1.0)
        found.append(limited if isinstance(r, Value) else float(np.clip(r, -1, 1)))
    return _as_matrix(lowering, *found)


def _linregress(lowering: Any, x: Any, y: Any, alternative: str = "two-sided") -> dict[Any, Any]:
    """All of its result but the p-value."""
    a, b = _samples(lowering, x, y)
    n = a.count
    if alternative not in ("two-sided", "less", "greater"):
        raise UnsupportedError("another alternative")
    if not a.varies and a.x.max() == a.x.min():
        raise UnsupportedError("a regression on one place")
    aa, ab, bb = _moments(lowering, a, b, n)
    ufunc = lowering.builder.ufunc
    for size in (aa, bb, aa * bb, aa + a.mean * a.mean):
        if isinstance(size, Value):
            lowering.mark(~((size > _SMALL) & (size < _LARGE)))
        elif not _SMALL < size < _LARGE:
            raise UnsupportedError("a regression of such numbers")
    slope = ab / aa
    r = ufunc(np.minimum, ufunc(np.maximum, ab / ufunc(np.sqrt, aa * bb), -1.0), 1.0)
    intercept = b.mean - slope * a.mean
    return {"slope": slope, "intercept": intercept, "rvalue": r} | dict(
        enumerate((slope, intercept, r))
    )


# --- fits -----------------------------------------------------------------------------------


def _fit(lowering: Any, solver: np.ndarray, y: Value) -> Value:
    """A product with the matrix that solves the system."""
    lowering.mark(~lowering.builder.ufunc(np.isfinite, y))  # LAPACK raises, or gives NaN
    weights = lowering.operand(np.ascontiguousarray(solver), np.float64)
    found: Value = lowering.op("einsum", weights, y, subscripts="nm,m->n")
    return found


def _polyfit(lowering: Any, x: Any, y: Any, deg: Any) -> Value:
    values = vector(y)
    if isinstance(x, Value) or values.dtype == np.float16 or not isinstance(deg, (int, np.integer)):
        raise UnsupportedError("a fit on places of the slice")
    places = np.asarray(x)
    if places.dtype.kind not in "iu" and places.dtype != np.float64:
        raise UnsupportedError(f"a fit on places of {places.dtype}")
    if places.shape != values.shape or not 0 <= deg < len(places):
        raise UnsupportedError("a fit that is not determined")
    system = np.vander(places.astype(np.float64), int(deg) + 1)
    _check_condition(system)
    solver = np.polyfit(places, np.eye(len(places)), int(deg))
    return _fit(lowering, solver, lowering.operand(values, np.float64))


def _check_condition(system: np.ndarray) -> None:
    size = np.sqrt((system * system).sum(axis=0))
    if not np.isfinite(size).all() or (size == 0).any():
        raise UnsupportedError("a fit that is not determined")
    if np.linalg.cond(system / size) > _MOST_CONDITION * system.size:
        raise UnsupportedError("a fit of which rounding decides")


def _detrend(
    lowering: Any,
    data: Any,
    axis: Any = -1,
    type: str = "linear",
    bp: Any = 0,
    overwrite_data: bool = False,
) -> Value:
    along(axis)
    x = vector(data)
    n = x.shape[0]
    if x.dtype != np.float64 or type not in ("linear", "l") or np.any(bp) or overwrite_data:
        raise UnsupportedError("a trend of another kind")
    if n < 3:
        raise UnsupportedError("the trend of two numbers")
    size = lowering.op("max", abs(x), axis=(0,), keepdims=False)
    lowering.mark(~(size < _SQUARES))  # SciPy squares what is left over, and NumPy warns
    system = np.ones((n, 2))
    system[:, 0] = np.arange(1, n + 1, dtype=np.float64) / n
    coefficients = _fit(lowering, np.linalg.pinv(system), x)
    slope, first = (part(lowering, coefficients, k, k + 1) for k in range(2))
    return x - (slope * system[:, 0] + first)  # type: ignore[no-any-return]


def _all_finite(lowering: Any, x: Any) -> Value:
    if not isinstance(x, Value) or x.dtype not in ("float32", "float64"):
        raise UnsupportedError("whether all of these are finite")
    finite = lowering.builder.ufunc(np.isfinite, x)
    if not x.shape:
        return finite  # type: ignore[no-any-return]
    axes = tuple(range(len(x.shape)))
    return lowering.op("min", finite, axis=axes, keepdims=False)  # type: ignore[no-any-return]


# --- scores and peaks -----------------------------------------------------------------------


def _zscore(lowering: Any, a: Any, axis: Any = 0, ddof: Any = 0) -> Value:
    along(axis)
    x = vector(a)
    if older() or x.dtype not in ("float32", "float64") or ddof:
        raise UnsupportedError(f"scores of {x.dtype} in this version of SciPy")
    builder, eps = lowering.builder, float(np.finfo(x.dtype).eps)
    mean = lowering.op("mean", x, axis=(0,), keepdims=True)
    apart = x - mean
    variance = lowering.op("mean", apart * apart, axis=(0,), keepdims=True)
    size = builder.ufunc(np.sqrt, variance)
    largest = lowering.op("max", abs(apart), axis=(0,), keepdims=True)
    lowering.mark(largest <= abs(mean) * (20 * eps))  # SciPy warns of rounding
    lowering.mark(size <= abs(mean) * (2 * eps))  # and takes them for constant
    return apart / size  # type: ignore[no-any-return]


@functools.lru_cache
def _dtype_of_ranks(dtype: Any) -> np.dtype[Any]:
    """Doubles, or from SciPy 1.18 on the precision of what is ranked: as it says itself."""
    rankdata: Any = resolve("scipy.stats.rankdata")
    return rankdata(np.zeros(1, dtype)).dtype  # type: ignore[no-any-return]


def _rankdata(lowering: Any, a: Any, method: str = "average", axis: Any = None) -> Value:
    """Ranks by counting smaller numbers: as exact as a sort, for few numbers."""
    along(axis)
    x = vector(a)
    n = x.shape[0]
    if older() or method != "average" or not 1 < n <= _MOST_RANKS or x.dtype.kind not in "iuf":
        raise UnsupportedError(f"ranks of {n} numbers of {x.dtype} in this version of SciPy")
    if x.dtype.kind == "f":
        lowering.mark(x != x)
    down, right = lowering.shaped(x, (n, 1)), lowering.shaped(x, (1, n))
    counts = [
        lowering.op("sum", lowering.builder.cast(found, "int64"), axis=(1,), keepdims=False)
        for found in (down > right, down >= right)
    ]
    ranks = (counts[0] + counts[1] + 1) * 0.5
    return lowering.builder.cast(ranks, _dtype_of_ranks(x.dtype).name)  # type: ignore[no-any-return]


def _nanarg(op: str) -> Callable[..., Value]:
    def lowered(lowering: Any, a: Any, axis: Any = None) -> Value:
        along(axis)
        x = vector(a)
        if x.dtype not in ("float32", "float64"):
            raise UnsupportedError(f"nan{op} of {x.dtype}")
        gone = x != x
        lowering.mark(lowering.op("min", gone, axis=(0,), keepdims=False))  # NumPy raises
        filled = lowering.builder.where(gone, -np.inf if op == "argmax" else np.inf, x)
        found: Value = lowering.op(op, filled, axis=(0,), keepdims=False)
        return found

    return lowered


def _peaks(
    lowering: Any, function: Any, x: Any, named: dict[str, Any], names: tuple[str, ...]
) -> tuple[Value, ...]:
    """The mask of peaks, and their heights if a limit is given."""
    values = lowering.operand(vector(x), np.float64)
    n = values.shape[0]
    given = {k: v for k, v in named.items() if v is not None}
    height = given.pop("height", None)
    low, high = height if isinstance(height, tuple) and len(height) == 2 else (height, None)
    numbers = all(v is None or isinstance(v, (int, float, np.number)) for v in (low, high))
    if given or not numbers or n < 3:
        raise UnsupportedError("peaks under other conditions")
    left, right = part(lowering, values, 0, n - 1), part(lowering, values, 1, n)
    lowering.mark(left == right)  # the middle of several equal numbers is the peak
    rises, falls = left < right, left > right
    found = part(lowering, rises, 0, n - 2) & part(lowering, falls, 1, n - 1)
    middle = part(lowering, values, 1, n - 1)
    if low is not None:
        found = found & (middle >= float(low))
    if high is not None:
        found = found & (middle <= float(high))
    ends = lowering.operand(np.zeros(1, bool), bool)
    mask = joined(lowering, ends, found, ends)
    return (mask, *(values for _ in names))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.cov": _cov,
    "numpy.corrcoef": _corrcoef,
    "numpy.polyfit": _polyfit,
    "numpy.nanargmax": _nanarg("argmax"),
    "numpy.nanargmin": _nanarg("argmin"),
    "scipy.stats.rankdata": _rankdata,
    "scipy.stats.linregress": _linregress,
    "scipy.stats.zscore": _zscore,
    "scipy.signal.detrend": _detrend,
}
"""Lowerings by names of functions."""
CALLS: dict[str, Callable[..., Any]] = {
    "scipy.signal.find_peaks": _peaks,
    "whether all are finite": _all_finite,
}
"""Calls that the tracer has in a form of its own."""
