"""Functions of sorted numbers, running sums, counts and searches, in graphs.

Where NumPy's result depends on its algorithm (which of equal numbers comes first), or where it
warns or raises, the slice is marked: NumPy's own calls run for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.builder import Value
from .places import along, joined, number, part, taken, vector

_BEGIN = float(np.mean(np.array([-0.0])))
"""The initial value of NumPy's mean: 0.0 turns -0.0 into 0.0."""
_FEW = 32
"""The number of sorted numbers up to which comparisons are faster than a search."""
MOST = 1 << 13
"""Comparisons for a slice, at most."""


# --- sorting --------------------------------------------------------------------------------


def sorted_(lowering: Any, x: Any) -> Value:
    """The numbers in ascending order; a mark where zeros of both signs are among them."""
    x = vector(x)
    if x.dtype.kind == "f":
        zero, minus = x == 0, lowering.op("signbit", x)
        lowering.mark(_any(lowering, zero & minus) & _any(lowering, zero & ~minus))
    found: Value = lowering.op("sort", x, axis=0)
    return found


def _any(lowering: Any, x: Value) -> Value:
    found: Value = lowering.op("max", x, axis=(0,), keepdims=False)
    return found


def is_nan(x: Value) -> Any:
    """The mask of NaN."""
    return x != x


def _sort(
    lowering: Any, a: Any, axis: Any = -1, kind: Any = None, stable: Any = None, **more: Any
) -> Value:
    along(axis)
    return sorted_(lowering, a)


def _argsort(
    lowering: Any, a: Any, axis: Any = -1, kind: Any = None, stable: Any = None, **more: Any
) -> Value:
    along(axis)
    x = vector(a)
    stable = bool(stable) or kind in ("stable", "mergesort") or x.shape[0] == 1
    if not stable:  # which of equal ones, or of two NaN, comes first
        n, low = x.shape[0], lowering.op("sort", x, axis=0)
        lowering.mark(~(part(lowering, low, 0, n - 1) < part(lowering, low, 1, n)))
    found: Value = lowering.op("argsort", x, axis=0, stable=stable)
    return found


def _half(lowering: Any, a: Any, b: Any) -> Value:
    """The mean of two numbers, as `numpy.mean` computes it."""
    dtype = a.dtype
    if dtype == np.float16:
        a, b = (lowering.operand(x, np.float32) for x in (a, b))
    elif dtype.kind != "f":
        a, b = (lowering.operand(x, np.float64) for x in (a, b))
    found: Value = lowering.operand(
        (_BEGIN + a + b) / 2, dtype if dtype.kind == "f" else np.float64
    )
    return found


def _median(lowering: Any, a: Any, axis: Any = None) -> Value:
    along(axis)
    low = sorted_(lowering, a)
    n = low.shape[0]
    middle = number(lowering, low, n // 2)
    if n % 2:
        found: Value = lowering.operand(middle, low.dtype if low.dtype.kind == "f" else np.float64)
        found = _BEGIN + found
    else:
        found = _half(lowering, number(lowering, low, n // 2 - 1), middle)
    return _nan_if_last(lowering, low, found)


def _nan_if_last(lowering: Any, low: Value, found: Value) -> Value:
    """NaN where there is one, which is the last of the sorted numbers then."""
    if low.dtype.kind != "f":
        return found
    last = number(lowering, low, low.shape[0] - 1)
    kept: Value = lowering.builder.where(is_nan(last), lowering.operand(last, found.dtype), found)
    return kept


# --- quantiles ------------------------------------------------------------------------------

_PLOTTING = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
"""alpha and beta of the continuous methods, see `numpy.quantile`."""
_CHOOSING: dict[str, Callable[[Any], Any]] = {
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.around,
}
"""Methods that give one of the numbers."""


def _between(n: int, q: Any, method: str) -> tuple[int, int, float | None]:
    """The places of the two numbers that a quantile of `n` is between, and the share of the second.

    None: it is the first. As `numpy.quantile` computes them.
    """
    if method in _CHOOSING:
        return int(_CHOOSING[method]((n - 1) * q)), 0, None
    if method == "linear":
        at = (n - 1) * q
        if not isinstance(at, float):
            return int(at), 0, None
    elif method == "midpoint":
        at = 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
    elif method in _PLOTTING:
        alpha, beta = _PLOTTING[method]
        at = n * q + (alpha + q * (1 - alpha - beta)) - 1
    else:
        raise UnsupportedError(f"quantiles by {method!r}")
    first = float(np.floor(at))
    second = first + 1
    if at >= n - 1:
        first = second = -1.0
    elif at < 0:
        first = second = 0.0
    share = float(at - first)
    if method == "midpoint":
        share = 0.0 if at % 1 == 0 else 0.5
    return int(first) % n, int(second) % n, share


def _quantiles(percent: bool, without_nan: bool) -> Callable[..., Value]:
    def lowered(
        lowering: Any, a: Any, q: Any, axis: Any = None, method: str = "linear", **more: Any
    ) -> Value:
        along(axis)
        if isinstance(q, Value) or np.ndim(q) > 1 or more:
            raise UnsupportedError("quantiles of this kind")
        weak = type(q) in (int, float)
        given = np.true_divide(q, 100) if percent else np.asarray(q)
        if given.dtype.kind not in "iuf" or given.dtype.itemsize > 8:
            raise UnsupportedError(f"quantiles as {given.dtype}")
        x = vector(a)
        if x.dtype == bool:
            raise UnsupportedError("quantiles of booleans")
        low = sorted_(lowering, x)
        one = _quantile_without_nan if without_nan and x.dtype.kind == "f" else _quantile
        share = None if weak else given.dtype
        found = [one(lowering, low, each, method, share) for each in given.reshape(-1)]
        if not found:
            raise UnsupportedError("no quantiles")
        return joined(lowering, *found) if given.ndim else found[0]

    return lowered


def _quantile(lowering: Any, low: Value, q: Any, method: str, dtype: Any) -> Value:
    """One quantile. `dtype`: of the shares; None: Python numbers."""
    first, second, share = _between(low.shape[0], _number(q), method)
    a, b = number(lowering, low, first), number(lowering, low, second)
    found = a if share is None else _interpolated(lowering, a, b, share, dtype)
    return _nan_if_last(lowering, low, found)


def _number(q: Any) -> Any:
    if q.dtype.kind in "iu":
        return int(q)
    if q.dtype != np.float64:
        raise UnsupportedError(f"quantiles as {q.dtype}")
    return float(q)


def _interpolated(lowering: Any, a: Value, b: Value, share: float, dtype: Any) -> Value:
    difference = _difference(lowering, a, b)
    t, rest = (x if dtype is None else np.float64(x) for x in (share, 1 - share))
    found: Value = b - difference * rest if share >= 0.5 else a + difference * t
    return found


def _difference(lowering: Any, a: Value, b: Value) -> Value:
    found: Value = b - a
    if found.dtype.kind == "i":
        lowering.mark(found < 0)  # it wraps around, of which NumPy may warn
    return found


def _quantile_without_nan(lowering: Any, low: Value, q: Any, method: str, dtype: Any) -> Value:
    """One quantile of the numbers that are not NaN: the neighbours depend on their count."""
    n, q = low.shape[0], _number(q)
    table = [(0, 0, 0.0), *(_between(k, q, method) for k in range(1, n + 1))]
    count = _count_of(lowering, low)
    shares = [s for _, _, s in table[1:]]
    a = taken(lowering, low, _from_table(lowering, [f for f, _, _ in table], np.int64, count))
    if None in shares:
        return a
    b = taken(lowering, low, _from_table(lowering, [s for _, s, _ in table], np.int64, count))
    difference = b - a
    kind = np.dtype(low.dtype if dtype is None else np.result_type(low.dtype, dtype))
    share = np.array([s for _, _, s in table])
    t = _from_table(lowering, share, kind, count)
    rest = _from_table(lowering, 1 - share, kind, count)
    upper = _from_table(lowering, share >= 0.5, np.int64, count) > 0
    difference = lowering.operand(difference, kind)
    a, b = (lowering.operand(x, kind) for x in (a, b))
    found: Value = lowering.builder.where(upper, b - difference * rest, a + difference * t)
    return found


def _from_table(lowering: Any, table: Any, dtype: Any, place: Value) -> Value:
    table = np.asarray(table).astype(dtype)
    if (table == table[-1]).all() or (table[1:] == table[1]).all():
        return lowering.builder.scalar(table[-1].item(), table.dtype.name)  # type: ignore[no-any-return]
    return taken(lowering, table, place)


def _count_of(lowering: Any, x: Value) -> Value:
    """The count of numbers that are not NaN; a mark for zero, of which NumPy warns."""
    there = lowering.builder.cast(x == x, "int64")
    count: Value = lowering.op("sum", there, axis=(0,), keepdims=False)
    lowering.mark(count == 0)
    return count


def _nanmedian(lowering: Any, a: Any, axis: Any = None) -> Value:
    along(axis)
    if vector(a).dtype.kind != "f":
        return _median(lowering, a, axis)
    low = sorted_(lowering, a)
    count, n = _count_of(lowering, low), low.shape[0]
    lower, upper = (np.maximum(np.arange(n + 1) - k, 0) // 2 for k in (1, 0))
    a, b = (taken(lowering, low, taken(lowering, t, count)) for t in (lower, upper))
    odd = taken(lowering, np.arange(n + 1) % 2, count) > 0
    found: Value = lowering.builder.where(odd, _BEGIN + a, _half(lowering, a, b))
    return found


# --- running sums ---------------------------------------------------------------------------


def _running(op: str, of_nan: float | None = None) -> Callable[..., Value]:
    def lowered(lowering: Any, a: Any, axis: Any = None, dtype: Any = None, **more: Any) -> Value:
        along(axis)
        x = vector(a)
        if more:
            raise UnsupportedError(f"{op} with {', '.join(more)}")
        if of_nan is not None and x.dtype.kind == "f":
            x = lowering.builder.where(is_nan(x), of_nan, x)
        if dtype is None and x.dtype.kind in "biu" and x.dtype.itemsize < 8:
            dtype = np.uint64 if x.dtype.kind == "u" else np.int64
        found: Value = lowering.op(op, lowering.operand(x, dtype or x.dtype), axis=0)
        return found

    return lowered


_ACCUMULATED = {
    "numpy.add": "cumulative_sum",
    "numpy.multiply": "cumulative_prod",
    "numpy.maximum": "cumulative_max",
    "numpy.minimum": "cumulative_min",
}


def accumulated(lowering: Any, name: str, array: Any, axis: Any = 0) -> Value:
    """``numpy.maximum.accumulate`` and its kin."""
    along(axis)
    op, x = _ACCUMULATED.get(name), vector(array)
    if op is None or (x.dtype.kind != "f" and x.dtype.itemsize < 8):
        raise UnsupportedError(f"{name}.accumulate of {x.dtype}")
    found: Value = lowering.op(op, x, axis=0)
    return found


# --- searches and counts --------------------------------------------------------------------


def search(lowering: Any, table: Any, x: Value, right: bool) -> Value:
    """The count of numbers in the sorted `table` below `x`, or not above it; NaN last."""
    flat = lowering.shaped(x, (1, int(np.prod(x.shape))))
    n, m = table.shape[0], flat.shape[1]
    compare = np.greater if right else np.greater_equal
    if n > _FEW and not isinstance(table, Value):
        return _halving(lowering, table, x, compare)
    if n * m > MOST:
        raise UnsupportedError(f"a search for {m} numbers among {n}")
    column = lowering.shaped(table, (n, 1)) if isinstance(table, Value) else table.reshape(n, 1)
    below = ~lowering.builder.ufunc(compare, column, flat)
    count = lowering.op("sum", lowering.builder.cast(below, "int64"), axis=(0,), keepdims=False)
    return lowering.shaped(count, x.shape)  # type: ignore[no-any-return]


def _halving(lowering: Any, table: np.ndarray, x: Value, compare: Any) -> Value:
    n = len(table)
    last = np.inf if table.dtype.kind == "f" else np.iinfo(table.dtype).max
    wide = np.full((1 << n.bit_length()) - 1, last, table.dtype)
    wide[:n] = table
    at: Any = None
    for k in range(n.bit_length() - 1, -1, -1):
        step = 1 << k
        if at is None:
            below = ~lowering.builder.ufunc(compare, table.dtype.type(wide[step - 1]), x)
            at = lowering.builder.where(below, np.int64(step), np.int64(0))
            continue
        below = ~lowering.builder.ufunc(compare, taken(lowering, wide, at + (step - 1)), x)
        at = lowering.builder.where(below, at + step, at)
    found: Value = lowering.builder.ufunc(np.minimum, at, np.int64(n))
    return found


def _searchsorted(lowering: Any, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Value:
    if sorter is not None or side not in ("left", "right"):
        raise UnsupportedError("a search of this kind")
    a, v = (x if isinstance(x, Value) else np.asarray(x) for x in (a, v))
    if a.dtype.kind not in "biuf" or v.dtype.kind not in "biuf" or len(a.shape) != 1:
        raise UnsupportedError(f"a search of {v.dtype} among {a.dtype}")
    dtype = np.promote_types(a.dtype, v.dtype)
    if dtype.kind == "b" or {a.dtype.kind, v.dtype.kind} == {"i", "u"}:
        raise UnsupportedError(f"a search of {v.dtype} among {a.dtype}")
    if isinstance(a, Value):
        a = lowering.operand(a, dtype)
        n = a.shape[0]
        if n > 1:  # NumPy's search depends on where it begins then
            lowering.mark(~(part(lowering, a, 0, n - 1) <= part(lowering, a, 1, n)))
        elif dtype.kind == "f":
            lowering.mark(is_nan(a))
    else:
        a = ascending(a).astype(dtype)
    if not isinstance(v, Value):
        v = lowering.operand(v if v.ndim else v[()], dtype)
        if not a.shape[0]:
            raise UnsupportedError("a search among no numbers")
    return search(lowering, a, lowering.operand(v, dtype), side == "right")


def ascending(a: np.ndarray) -> np.ndarray:
    """The numbers, if they are sorted; others are refused."""
    if not len(a) or not bool((a[1:] >= a[:-1]).all()) or bool((a != a).any()):
        raise UnsupportedError("a search among numbers that are not sorted")
    return a


def _digitize(lowering: Any, x: Any, bins: Any, right: bool = False) -> Any:
    if isinstance(bins, Value) or not isinstance(x, Value):
        raise UnsupportedError("bins that depend on the slice")
    bins, side = np.asarray(bins), "left" if right else "right"
    if bins.ndim == 1 and len(bins) > 1 and bins[0] > bins[-1]:
        return len(bins) - _searchsorted(lowering, bins[::-1], x, side)
    return _searchsorted(lowering, bins, x, side)


def bincount(lowering: Any, x: Any, weights: Any, length: int) -> Value:
    """Count 0, 1 ...; no other values occur."""
    if not isinstance(x, Value):
        x = lowering.operand(np.asarray(x), np.asarray(x).dtype)
    x = vector(x)
    if length * x.shape[0] > MOST or x.dtype.kind not in "iu":
        raise UnsupportedError(f"{length} counts of {x.shape[0]} numbers")
    if weights is not None:
        # to 0.0, where NumPy begins, it is the same which zero is added: -0.0 is left out
        weights = lowering.operand(weights, np.float64) + 0.0
    found = []
    for k in range(length):
        if k > _largest(x.dtype):
            raise UnsupportedError(f"{length} counts of {x.dtype}")
        here = x == k
        if weights is None:
            found.append(_counted(lowering, here))
        else:  # in order, beginning with 0.0
            terms = lowering.op(
                "cumulative_sum", lowering.builder.where(here, weights, 0.0), axis=0
            )
            found.append(number(lowering, terms, x.shape[0] - 1))
    if not found:
        raise UnsupportedError("no counts")
    return joined(lowering, *(lowering.shaped(f, (1,)) for f in found))


def _largest(dtype: Any) -> int:
    return int(np.iinfo(dtype).max)


def _counted(lowering: Any, condition: Value) -> Value:
    found: Value = lowering.op(
        "sum", lowering.builder.cast(condition, "int64"), axis=(0,), keepdims=False
    )
    return found


def _distinct(lowering: Any, x: Value, equal_nan: bool) -> Value:
    """The number of different values."""
    n = int(np.prod(x.shape))
    low = lowering.op("sort", lowering.shaped(x, (n,)), axis=0)
    if n == 1:
        raise UnsupportedError("different values of one number")
    before, after = part(lowering, low, 0, n - 1), part(lowering, low, 1, n)
    new = before != after
    if equal_nan and low.dtype.kind == "f":
        new = new & ~(is_nan(before) & is_nan(after))
    return _counted(lowering, new) + np.int64(1)  # type: ignore[no-any-return]


def _histogram(
    lowering: Any, a: Any, bins: Any = 10, range: Any = None, density: Any = None, **more: Any
) -> Any:
    if more or density or isinstance(bins, (Value, str)):
        raise UnsupportedError("a histogram of this kind")
    if not isinstance(a, Value) or a.dtype.kind not in "iuf" or a.dtype == np.float16:
        raise UnsupportedError("a histogram of this kind")
    x = vector(lowering.shaped(a, (int(np.prod(a.shape)),)))
    if range is None and np.ndim(bins) == 0:
        return _histogram_of_range(lowering, x, int(bins))
    if np.ndim(bins) == 0:
        edges = np.histogram_bin_edges(np.empty(0, x.dtype), bins, range)
        values = lowering.operand(x, edges.dtype)  # as NumPy casts them
        if (edges[1:] <= edges[:-1]).any():
            raise UnsupportedError("bins that are too narrow")
        outside = lowering.builder.ufunc(np.greater, x, edges[-1])
    else:
        edges = np.asarray(bins)
        if edges.dtype.kind not in "iuf" or {edges.dtype.kind, x.dtype.kind} == {"i", "u"}:
            raise UnsupportedError(f"bins of {edges.dtype}")
        ascending(edges)
        dtype = np.promote_types(edges.dtype, x.dtype)
        values, edges_of = lowering.operand(x, dtype), edges.astype(dtype)
        outside = lowering.builder.ufunc(np.greater, values, edges_of[-1])
        return _between_edges(lowering, values, list(edges_of[:-1]), outside), edges
    return _between_edges(lowering, values, list(edges[:-1]), outside), edges


def _between_edges(lowering: Any, values: Value, edges: list[Any], outside: Value) -> Value:
    """Count values between neighbouring edges; `outside`: the number above the last."""
    if len(edges) * values.shape[0] > MOST:
        raise UnsupportedError(f"{len(edges)} bins of {values.shape[0]} numbers")
    reached = [
        _counted(lowering, lowering.builder.ufunc(np.greater_equal, values, e)) for e in edges
    ]
    reached.append(_counted(lowering, outside))
    counts = [a - b for a, b in itertools.pairwise(reached)]
    return joined(lowering, *(lowering.shaped(c, (1,)) for c in counts))


def _histogram_of_range(lowering: Any, x: Value, bins: int) -> Any:
    """Bin edges between the smallest and the largest number."""
    if x.dtype.kind != "f" or bins < 1:
        raise UnsupportedError(f"a histogram of {x.dtype} without limits")
    low, high = (lowering.op(op, x, axis=(0,), keepdims=False) for op in ("min", "max"))
    spread = high - low
    step = spread / bins
    lowering.mark(~lowering.builder.ufunc(np.isfinite, spread) | (step == 0))
    places = [x.dtype.type(k) for k in np.arange(bins)]
    # as numpy.linspace has them
    edges = [*(step * k + low for k in places), high]
    outside = lowering.builder.ufunc(np.greater, x, high)
    wide = joined(lowering, *(lowering.shaped(e, (1,)) for e in edges))
    lowering.mark(part(lowering, wide, 0, bins) >= part(lowering, wide, 1, bins + 1))
    return _between_edges(lowering, x, edges[:-1], outside), wide


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.sort": _sort,
    "numpy.argsort": _argsort,
    "numpy.median": _median,
    "numpy.nanmedian": _nanmedian,
    "numpy.quantile": _quantiles(percent=False, without_nan=False),
    "numpy.percentile": _quantiles(percent=True, without_nan=False),
    "numpy.nanquantile": _quantiles(percent=False, without_nan=True),
    "numpy.nanpercentile": _quantiles(percent=True, without_nan=True),
    "numpy.cumsum": _running("cumulative_sum"),
    "numpy.cumprod": _running("cumulative_prod"),
    "numpy.cumulative_sum": _running("cumulative_sum"),
    "numpy.cumulative_prod": _running("cumulative_prod"),
    "numpy.nancumsum": _running("cumulative_sum", 0.0),
    "numpy.nancumprod": _running("cumulative_prod", 1.0),
    "numpy.searchsorted": _searchsorted,
    "numpy.digitize": _digitize,
    "numpy.histogram": _histogram,
}
"""Lowerings by names of functions."""
CALLS: dict[str, Callable[..., Any]] = {"bincount": bincount, "count of unique": _distinct}
"""Lowerings by names of batching rules."""
