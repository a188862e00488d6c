"""Batching rules of NumPy functions that compute: searches, histograms, products, fits, linalg."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import NoRule, Rows
from .numpy_own import (
    Awkward,
    as_rows,
    constant,
    contiguous,
    flat,
    infinite_products,
    plain,
    traced,
)
from .rules import aligned, batch_size, elementwise, leaves, mapped, results, shifted

# -- sorted and counted -------------------------------------------------------------------------


def _ascending(x: Any) -> bool:
    """Whether rows are sorted; rows with NaNs are not."""
    return bool((x[:, 1:] >= x[:, :-1]).all()) and not bool((x[:, :1] != x[:, :1]).any())


def _rank(xp: Any, rows: Any, keys: Any, right: bool) -> Any:
    """`searchsorted` of `keys` ``(B, K)`` in sorted `rows` ``(B, N)``; one row may serve all."""
    if rows.shape[0] == 1:
        return xp.searchsorted(rows[0], keys, side="right" if right else "left")
    n = rows.shape[1]
    shape = np.broadcast_shapes((rows.shape[0], 1), keys.shape)
    low, high = xp.zeros(shape, np.intp), xp.full(shape, n, np.intp)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        at = xp.take_along_axis(rows, xp.minimum(middle, n - 1), axis=1)
        beyond = at <= keys if right else at < keys
        open_ = low < high
        low = xp.where(open_ & beyond, middle + 1, low)
        high = xp.where(open_ & ~beyond, middle, high)
    return low


FEW_KEYS = 16
"""Up to so many keys a batched search is faster than a call of NumPy's own for each row."""


def searchsorted(xp: Any, call: Any, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Values of a slice in a constant; few values in each slice."""
    plain(side)
    if not isinstance(a, Rows) and sorter is None:
        if np.ndim(a) != 1 or not _ascending(np.asarray(a)[None]):
            raise Awkward  # a search in what is not sorted depends on the one before
        return Rows(call(a, v.array, side=side))
    if sorter is not None or side not in ("left", "right") or a.ndim != 1 or a.shape[0] == 0:
        raise Awkward
    v = as_rows(xp, v, batch_size(a))
    keys = flat(v)
    if a.dtype != v.dtype and {a.dtype.kind, v.dtype.kind} == {"i", "u"}:
        raise Awkward  # compared exactly by `<`, but not here
    few = keys.shape[1] <= FEW_KEYS or xp is not np
    if not (few and _ascending(a.array)) or bool((keys != keys).any()):
        raise Awkward
    return Rows(_rank(xp, a.array, keys, side == "right").reshape(v.array.shape))


def interp(
    ns: Any,
    call: Any,
    x: Any,
    xp: Any,
    fp: Any,
    left: Any = None,
    right: Any = None,
    period: Any = None,
) -> Any:
    """The arithmetic of NumPy's C code, on all rows; any of the operands may be of each slice."""
    plain(period)
    ordered = np.asarray(xp) if not isinstance(xp, Rows) else None
    if isinstance(x, Rows) and not traced((xp, fp, left, right)):
        if ordered is not None and ordered.ndim == 1 and _ascending(ordered[None]):
            return Rows(call(x.array, xp, fp, left, right, period))
        raise Awkward  # a search in what is not sorted depends on the one before
    if period is not None or any(y.dtype.kind == "c" for y in leaves((x, xp, fp, left, right))):
        raise Awkward
    shape = x.shape if isinstance(x, Rows) else np.shape(x)
    at, places, values = (_one_axis(ns, y) for y in (x, xp, fp))
    count = places.shape[1]
    if values.shape[1] != count or count < 2 or np.ndim(left) or np.ndim(right):
        raise Awkward
    if isinstance(xp, Rows) and at.shape[1] > FEW_KEYS and ns is np:
        raise Awkward
    if not _ascending(places):
        raise Awkward
    left = values[:, :1] if left is None else _one_axis(ns, left)
    right = values[:, -1:] if right is None else _one_axis(ns, right)
    found = _interpolated(ns, at, places, values, left, right)
    return Rows(found.reshape(found.shape[0], *shape))


def _one_axis(ns: Any, x: Any) -> Any:
    """Values as float64 ``(B, N)``, or ``(1, N)`` for a constant."""
    array = flat(x) if isinstance(x, Rows) else ns.asarray(x).reshape(1, -1)
    if array.dtype.kind not in "biuf":
        raise Awkward
    return array.astype(np.float64)


def _parts(n: int, row: int) -> list[slice]:
    """Slices of `n` rows of `row` bytes that stay in the cache from one operation to the next."""
    step = max(1, 2**18 // max(row, 1))
    return [slice(i, i + step) for i in range(0, n, step)]


def _interpolated(ns: Any, x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    n = xp.shape[1]
    below = ns.clip(_rank(ns, xp, x, True) - 1, 0, n - 1)  # the last place that is not beyond x
    given = (x, xp, fp, left, right, below)
    rows = max(a.shape[0] for a in given)
    found = ns.empty((rows, x.shape[1]))
    for part in _parts(rows, 8 * x.shape[1]) if ns is np else [slice(None)]:
        of_part = [a[part] if a.shape[0] > 1 else a for a in given]
        found[part] = _interpolated_part(ns, *of_part)
    return found


def _interpolated_part(ns: Any, x: Any, xp: Any, fp: Any, left: Any, right: Any, below: Any) -> Any:
    n = xp.shape[1]
    above = ns.minimum(below + 1, n - 1)

    def at(table: Any, index: Any) -> Any:
        if index.shape[0] == 1:
            return ns.take(table, index[0], axis=1)
        return ns.take_along_axis(ns.broadcast_to(table, (len(index), n)), index, axis=1)

    x0, x1, y0, y1 = at(xp, below), at(xp, above), at(fp, below), at(fp, above)
    with np.errstate(all="ignore"):
        slope = (y1 - y0) / (x1 - x0)
        found = slope * (x - x0) + y0
        missing = ns.isnan(found)
        if missing.any():  # NumPy tries the other direction, and then whether a piece is level
            other = slope * (x - x1) + y1
            other = ns.where(ns.isnan(other) & (y0 == y1), y0, other)
            found = ns.where(missing, other, found)
    for where, value in (
        ((below == n - 1) | (x0 == x), y0),
        (x < xp[:, :1], left),
        (x > xp[:, -1:], right),
        (ns.isnan(x), x),
    ):
        if where.any():
            found = ns.where(where, value, found)
    return found


def bincount(xp: Any, call: Any, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """No rule: the length depends on the largest value."""
    raise NoRule("bincount: the length depends on the data")


def bincount_rows(xp: Any, x: Rows, weights: Any, length: int) -> Rows:
    """Counts of 0, 1, .. in each slice, `length` of them.

    Parameters
    ----------
    xp : module
        The array namespace.
    x : Rows
        Integers of one axis, less than `length`.
    weights : Rows or array or None
        As of `numpy.bincount`.
    length : int
        The length of the result of each slice.

    Raises
    ------
    ValueError
        If a value is negative or too large.
    TypeError
        If the values are no integers.
    """
    if x.ndim != 1:
        raise ValueError("object too deep for desired array")
    if not np.can_cast(x.dtype, np.intp, "safe"):
        raise TypeError(f"Cannot cast array data from {x.dtype} to int64 according to 'safe'")
    n, m = x.array.shape
    values = x.array.astype(np.intp)
    if values.size and bool(((values < 0) | (values >= length)).any()):
        if int(values.min()) < 0:
            raise ValueError("'list' argument must have no negative elements")
        raise ValueError(f"a value of {int(values.max())} with a length of {length}")
    if weights is not None:
        weights = as_rows(xp, weights, n)
        if weights.shape != x.shape:
            raise ValueError("The weights and list don't have the same length.")
        if not np.can_cast(weights.dtype, np.double, "safe"):
            raise TypeError(f"Cannot cast array data from {weights.dtype} to float64")
        weights = flat(weights).ravel() if m else None
    if not values.size or not length:
        return Rows(xp.zeros((n, length), np.intp))
    if xp is not np:  # one kernel, which does not look for the largest value first
        counts = xp.zeros((n, length), np.intp if weights is None else np.float64)
        one = 1 if weights is None else weights.reshape(n, m).astype(np.float64)
        xp.add.at(counts, (xp.arange(n)[:, None], values), one)
        return Rows(counts)
    values += xp.arange(n)[:, None] * length
    counts = xp.bincount(values.ravel(), weights, minlength=n * length)
    return Rows(counts.reshape(n, length))


# -- histograms ---------------------------------------------------------------------------------


def _limits(xp: Any, a: Any, limits: Any) -> tuple[Any, Any, Any]:
    """First and last edge of each slice, and their distance."""
    if limits is None:
        first, last = a.min(axis=1, keepdims=True), a.max(axis=1, keepdims=True)
    else:
        dtype = next(iter(leaves(limits))).dtype  # Python numbers take the dtype of the others
        limits = [dtype.type(x) if type(x) in (int, float) else x for x in limits]
        first, last = (as_rows(xp, x, len(a)).array for x in limits)
        if first.ndim != 1 or first.dtype.kind != "f" or last.dtype.kind != "f":
            raise Awkward
        first, last = first[:, None], last[:, None]
        if bool((first > last).any()):
            raise ValueError("max must be larger than min in range parameter.")
    if not (xp.isfinite(first).all() and xp.isfinite(last).all()):
        raise ValueError("range is not finite")
    level = first == last
    if first.dtype.kind == "f" and last.dtype.kind == "f":
        first, last = xp.where(level, first - 0.5, first), xp.where(level, last + 0.5, last)
        return first, last, last - first
    if not bool(level.any()):
        return first, last, _spread(first, last)
    low, high = first - 0.5, last + 0.5  # integers of level slices get other edges as floats
    spread = xp.where(level, high - low, _spread(first, last).astype(float))
    return xp.where(level, low, first), xp.where(level, high, last), spread


def _edges(xp: Any, a: Any, bins: int, limits: Any) -> tuple[Any, Any, Any, Any]:
    """First and last edge, all edges in the last axis and the spread, as `numpy.histogram` has."""
    if limits is not None and not traced(limits):
        edges = np.histogram_bin_edges(np.zeros(1, a.dtype), bins, limits)
        first, last = limits
        if first == last:
            first, last = first - 0.5, last + 0.5
        return first, last, xp.asarray(edges), _spread(first, last)
    first, last, spread = _limits(xp, a, limits)
    dtype = np.result_type(first, last, a)
    if dtype.kind in "iu":
        dtype = np.result_type(dtype, float)
    if bool((spread / bins == 0).any()):
        raise Awkward  # `linspace` then computes all of them in another way
    edges = xp.linspace(first[:, 0], last[:, 0], bins + 1, dtype=dtype, axis=1)
    if bool((edges[:, :-1] >= edges[:, 1:]).any()):
        raise ValueError("Too many bins for data range.")
    return first, last, xp.ascontiguousarray(edges), spread


def _spread(first: Any, last: Any) -> Any:
    """`last - first`, in the unsigned dtype for integers."""
    dtype = np.result_type(first, last)
    if dtype.kind != "i":
        return np.subtract(last, first, dtype=dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    last, first = np.asarray(last, dtype), np.asarray(first, dtype)
    return np.subtract(last, first, casting="unsafe", dtype=unsigned)


def _uniform(xp: Any, a: Any, bins: int, limits: Any) -> tuple[Any, Any]:
    """The bin of each value (`bins` for those outside), and the edges."""
    first, last, edges, spread = _edges(xp, a, bins, limits)
    kept = (a >= first) & (a <= last)
    x = xp.where(kept, a.astype(edges.dtype), edges[..., :1])
    place = (xp.subtract(x, first, dtype=np.result_type(x, first)) / spread) * bins
    index = place.astype(np.intp)
    index[index == bins] -= 1
    # `place` is not always on the right side of an edge
    index -= x < _edge(xp, edges, index)
    index += (x >= _edge(xp, edges, index + 1)) & (index != bins - 1)
    index[~kept] = bins
    return index, edges


def _edge(xp: Any, edges: Any, index: Any) -> Any:
    return edges[index] if edges.ndim == 1 else xp.take_along_axis(edges, index, axis=1)


BLOCK = 65536
"""Longer slices are counted in parts by NumPy, which is not repeated here."""


def histogram(
    xp: Any,
    call: Any,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    """Counts by the arithmetic of `numpy.histogram`, on all slices."""
    if isinstance(bins, Rows) and bins.ndim == 0:
        constant(bins)
    plain(bins)
    n = batch_size((a, weights))
    if isinstance(bins, str):
        raise NoRule("the number of bins depends on the data")
    values = flat(as_rows(xp, a, n))
    if weights is not None:
        weights = as_rows(xp, weights, n)
        weights = flat(weights) if flat(weights).shape == values.shape else None
        if weights is None or weights.dtype.kind not in "iuf" or weights.dtype == np.longdouble:
            raise Awkward
    if values.dtype.kind not in "iuf" or not 0 < values.shape[1] <= BLOCK:
        raise Awkward
    if np.ndim(bins) == 0:
        if not isinstance(bins, (int, np.integer)) or bins < 1:
            raise Awkward
        index, edges = _uniform(xp, values, int(bins), range)
        counts = _counted(xp, index, weights, int(bins))
    else:
        edges = xp.asarray(bins)
        if edges.ndim != 1 or edges.size < 2 or edges.dtype.kind not in "iuf":
            raise Awkward
        if bool((edges != edges).any()) or bool((edges[:-1] > edges[1:]).any()):
            raise Awkward
        if edges.dtype != values.dtype and {edges.dtype.kind, values.dtype.kind} == {"i", "u"}:
            raise Awkward
        counts = _between(xp, values, edges, weights)
    if density:
        widths = xp.array(xp.diff(edges), float)
        counts = counts / widths / counts.sum(axis=1, keepdims=True)
    return Rows(counts), Rows(edges) if edges.ndim == 2 else edges


def _counted(xp: Any, index: Any, weights: Any, bins: int) -> Any:
    """How often each bin occurs in each row; the bin after the last one is dropped."""
    w = None if weights is None else Rows(weights)
    counts = bincount_rows(xp, Rows(index), w, bins + 1).array[:, :bins]
    return xp.ascontiguousarray(counts, None if weights is None else weights.dtype)


def _between(xp: Any, values: Any, edges: Any, weights: Any) -> Any:
    """Counts between given edges; weights are summed up in sorted order, as NumPy does."""
    bins = edges.size - 1
    index = xp.searchsorted(edges, values, side="right")  # 0: below, bins + 1: not below the last
    index = xp.where(values == edges[-1], bins, index)
    if weights is None:
        counts = bincount_rows(xp, Rows(index), None, bins + 2).array
        return xp.ascontiguousarray(counts[:, 1 : bins + 1])
    order = xp.argsort(values, axis=1)
    sums = xp.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    sums = xp.concatenate([xp.zeros((len(sums), 1), weights.dtype), sums], axis=1)
    counts = bincount_rows(xp, Rows(index), None, bins + 2).array
    ends = xp.cumsum(counts, axis=1)[:, : bins + 1]
    sums = xp.take_along_axis(sums, ends, axis=1).astype(weights.dtype) + weights.dtype.type(0)
    return xp.diff(sums, axis=1)


def histogram_bin_edges(
    xp: Any, call: Any, a: Any, bins: Any = 10, range: Any = None, weights: Any = None
) -> Any:
    """The edges alone."""
    if isinstance(bins, str):
        raise NoRule("the number of bins depends on the data")
    return histogram(xp, call, a, bins, range)[1]


# -- windows, statistics, polynomials -----------------------------------------------------------


def convolve(xp: Any, call: Any, a: Any, v: Any, mode: Any = "full") -> Any:
    """A sum over the shorter operand, whose products are those of `numpy.convolve`."""
    constant(mode)
    a, v = _signals(xp, a, v)
    if xp is not np and not bool(xp.isfinite(a).all() and xp.isfinite(v).all()):
        raise Awkward  # CuPy may go by an FFT, which spreads them
    if v.shape[1] > a.shape[1]:
        a, v = v, a
    return Rows(_windows(xp, a, v, mode, False))


def correlate(xp: Any, call: Any, a: Any, v: Any, mode: Any = "valid") -> Any:
    """As `convolve`, with the second operand reversed and conjugated."""
    constant(mode)
    a, v = _signals(xp, a, v)
    if xp is not np and not bool(xp.isfinite(a).all() and xp.isfinite(v).all()):
        raise Awkward
    v = v[:, ::-1].conj()
    if v.shape[1] > a.shape[1]:
        return Rows(_windows(xp, v, a, mode, True))
    return Rows(_windows(xp, a, v, mode, False))


def _signals(xp: Any, *xs: Any) -> list[Any]:
    """Operands ``(B, M)``, or ``(1, M)`` for constants."""
    found = []
    for x in xs:
        x = x if isinstance(x, Rows) else Rows(xp.asarray(x)[None])
        if x.ndim > 1 or x.dtype.kind not in "biufc" or flat(x).shape[1] == 0:
            raise Awkward
        found.append(flat(x))
    return found


@np.errstate(all="ignore")  # numpy.convolve does not warn, `@` does
def _windows(xp: Any, a: Any, v: Any, mode: Any, turned: bool) -> Any:
    """Only products of values that meet are summed: no inf or nan gets into other windows."""
    dtype = np.result_type(a, v)
    inner = np.dtype(np.float32) if dtype == np.float16 else dtype
    n, m, k = max(a.shape[0], v.shape[0]), a.shape[1], v.shape[1]
    if mode == "full":
        start, length = 0, m + k - 1
    elif mode == "same":
        start, length = (k // 2 if turned else (k - 1) // 2), m
    elif mode == "valid":
        start, length = k - 1, m - k + 1
    else:
        raise Awkward
    if dtype.kind == "c" and not bool(xp.isfinite(a).all() and xp.isfinite(v).all()):
        raise Awkward  # BLAS has its own products of complex infinities
    a, v = a.astype(inner, copy=False), v.astype(inner, copy=False)
    if xp is np and v.shape[0] == 1 and dtype.kind in "iuf" and np.isfinite(v).all():
        # one convolution of all rows, one behind the other, with room between them
        wide = np.zeros((n, m + k - 1), inner)
        wide[:, :m] = a
        found = np.convolve(wide.reshape(-1), v[0])[: wide.size].reshape(wide.shape)
        return found[:, start : start + length].astype(dtype, copy=False)
    if xp is np and k > MANY_TAPS:
        matrix = _toeplitz(a, v, start, length)
        if matrix is not None:
            rows = a if v.shape[0] == 1 else v
            return (rows @ matrix).astype(dtype, copy=False)
        if k > MOST_TAPS:
            raise Awkward
    found = xp.zeros((n, length), inner)
    for part in _parts(n, 2 * m * inner.itemsize) if xp is np else [slice(None)]:
        x, taps, into = (t[part] if t.shape[0] > 1 else t for t in (a, v, found))
        for i in range(k):  # x[j] * taps[i] goes to place i + j - start
            low, high = max(0, start - i), min(m, start + length - i)
            if low < high:
                into[:, low + i - start : high + i - start] += x[:, low:high] * taps[:, i : i + 1]
    return found.astype(dtype, copy=False)


MANY_TAPS = 4
"""With more taps than these, a matrix product is faster ..."""
MOST_TAPS = 48
"""... and with more than these a call for each row (measured: 120 values, one core)."""


def _toeplitz(a: Any, v: Any, start: int, length: int) -> Any:
    """The matrix of a convolution with the constant one of the operands, if that is of use.

    Zeros in it meet values that are not in the window, which must be finite then.
    """
    m, k = a.shape[1], v.shape[1]
    if a.shape[0] > 1 and v.shape[0] > 1:
        return None
    if a.dtype.kind != "f" or a.dtype.itemsize > 8 or m > 16 * k or m * length > 2**20:
        return None
    if not (np.isfinite(a).all() and np.isfinite(v).all()):
        return None
    taps, n = (v[0], m) if v.shape[0] == 1 else (a[0], k)
    places = np.arange(start, start + length) - np.arange(n)[:, None]  # of taps, for each input
    inside = (places >= 0) & (places < taps.size)
    return np.where(inside, taps[np.where(inside, places, 0)], taps.dtype.type(0))


def cov(
    xp: Any,
    call: Any,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """The covariance of variables of each slice."""
    constant(rowvar, bias, ddof)
    if fweights is not None or aweights is not None:
        raise Awkward
    n = batch_size((m, y))
    given = [as_rows(xp, x, n) for x in (m, y) if x is not None]
    if any(x.ndim not in (1, 2) for x in given):
        raise Awkward
    dtype = np.result_type(*(x.dtype for x in given), np.float64) if dtype is None else dtype
    variables = []
    for i, x in enumerate(given):
        array = x.array[:, None] if x.ndim == 1 else x.array
        turn = (given[0].ndim != 1) if i == 0 else array.shape[1] != 1
        variables.append(array.swapaxes(1, 2) if not rowvar and turn else array)
    x = xp.array(xp.concatenate(variables, axis=1), dtype=dtype, order="C")
    if x.shape[1] == 0 or x.shape[2] == 0:
        raise Awkward
    ddof = (0 if bias else 1) if ddof is None else ddof
    if ddof != int(ddof) or x.shape[2] - ddof <= 0:
        raise Awkward
    x -= x.mean(axis=2, keepdims=True)
    found = x @ x.swapaxes(1, 2).conj()
    found *= np.true_divide(1, x.shape[2] - ddof)
    return Rows(found.reshape(n, *(s for s in found.shape[1:] if s != 1)))


def corrcoef(
    xp: Any, call: Any, x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None
) -> Any:
    """The correlations of variables of each slice."""
    c = cov(xp, xp.cov, x, y, rowvar, dtype=dtype).array
    if c.ndim == 1:
        return Rows(c / c)
    deviation = xp.sqrt(xp.diagonal(c, axis1=1, axis2=2).real)
    c /= deviation[:, :, None]
    c /= deviation[:, None, :]
    xp.clip(c.real, -1, 1, out=c.real)
    if c.dtype.kind == "c":
        xp.clip(c.imag, -1, 1, out=c.imag)
    return Rows(c)


def vander(xp: Any, call: Any, x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Powers in the last axis."""
    constant(N, increasing)
    if x.ndim != 1:
        raise Awkward
    n = x.shape[0] if N is None else N
    found = xp.empty((*x.array.shape, n), np.promote_types(x.dtype, int))
    powers = found if increasing else found[..., ::-1]
    if n > 0:
        powers[..., 0] = 1
    if n > 1:
        powers[..., 1:] = x.array[..., None]
        xp.multiply.accumulate(powers[..., 1:], out=powers[..., 1:], axis=-1)
    return Rows(found)


def polyval(xp: Any, call: Any, p: Any, x: Any) -> Any:
    """Horner's scheme, on all slices."""
    if not isinstance(p, Rows):
        if np.ndim(p) != 1:
            raise Awkward
        return Rows(call(p, x.array))
    if p.ndim != 1 or isinstance(x, np.poly1d):
        raise Awkward
    x = as_rows(xp, x, batch_size(p))
    if x.ndim == 0 and x.dtype.kind in "iu" and p.dtype.kind in "iu":
        raise Awkward  # NumPy warns of single integers that overflow
    found = xp.zeros_like(x.array)
    for k in range(p.shape[0]):
        found = found * x.array + aligned(Rows(p.array[:, k]), x.ndim)
    return Rows(found)


def polyder(xp: Any, call: Any, p: Any, m: int = 1) -> Any:
    """Coefficients times exponents."""
    constant(m)
    if p.ndim != 1 or m < 0:
        raise Awkward
    array = p.array
    for _ in range(m):
        array = array[:, :-1] * xp.arange(array.shape[1] - 1, 0, -1)
    return Rows(array)


def polyint(xp: Any, call: Any, p: Any, m: int = 1, k: Any = None) -> Any:
    """Coefficients divided by exponents."""
    constant(m)
    if p.ndim != 1 or m != 1 or (k is not None and np.ndim(k)) or isinstance(k, Rows):
        raise Awkward
    array = p.array / xp.arange(p.shape[0], 0, -1)
    last = xp.full((len(array), 1), 0.0 if k is None else k)
    return Rows(xp.concatenate([array, last], axis=1))


def _poly_sum(xp: Any, call: Any, a1: Any, a2: Any) -> Any:
    n = batch_size((a1, a2))
    if any(isinstance(a, np.poly1d) for a in (a1, a2)):
        raise Awkward
    one, other = flat(as_rows(xp, a1, n)), flat(as_rows(xp, a2, n))
    gap = other.shape[1] - one.shape[1]
    if gap > 0:
        one = xp.concatenate([xp.zeros((n, gap), other.dtype), one], axis=1)
    elif gap < 0:
        other = xp.concatenate([xp.zeros((n, -gap), one.dtype), other], axis=1)
    return Rows(one - other if call.__name__ == "polysub" else one + other)


polyadd = polysub = _poly_sum


def roots(xp: Any, call: Any, p: Any) -> Any:
    """One slice after the other, if no zeros are stripped."""
    if p.ndim != 1 or bool((p.array[:, :1] == 0).any()) or bool((p.array[:, -1:] == 0).any()):
        raise NoRule("roots: the number of roots depends on the data")
    raise Awkward


# -- products -----------------------------------------------------------------------------------


def _ndims(*xs: Any) -> tuple[int, ...]:
    return tuple(x.ndim if isinstance(x, Rows) else np.ndim(x) for x in xs)


def _multiplied(xp: Any, a: Any, b: Any) -> Any:
    a, b = (x if isinstance(x, Rows) else xp.asarray(x) for x in (a, b))
    return elementwise(xp, xp.multiply, (a, b), {})


def dot(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Sums over the last axis of `a` and the last but one of `b`."""
    ndims = _ndims(a, b)
    if 0 in ndims:
        return _multiplied(xp, a, b)
    return _summed(xp, a, b, [ndims[0] - 1], [max(0, ndims[1] - 2)])


def inner(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Sums over the last axes."""
    ndims = _ndims(a, b)
    if 0 in ndims:
        return _multiplied(xp, a, b)
    return _summed(xp, a, b, [ndims[0] - 1], [ndims[1] - 1])


def vdot(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Sums of all products with the conjugate."""
    n = batch_size((a, b))
    one, other = flat(as_rows(xp, a, n)), flat(as_rows(xp, b, n))
    return _summed(xp, Rows(one.conj()), Rows(other), [0], [0])


def tensordot(xp: Any, call: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums over any axes."""
    constant(axes)
    ndims = _ndims(a, b)
    if np.ndim(axes) == 0:
        pairs = [list(range(-int(axes), 0)), list(range(int(axes)))]
    else:
        pairs = [[int(i) for i in np.atleast_1d(x)] for x in axes]
    return _summed(xp, a, b, *([i % d for i in p] for p, d in zip(pairs, ndims, strict=True)))


def _summed(xp: Any, a: Any, b: Any, of_a: list[int], of_b: list[int]) -> Any:
    """Products of matrices whose inner axes are those of the sums."""
    if infinite_products(xp, a, b):
        raise Awkward
    one, rows, n = _matrix(xp, a, of_a, True)
    other, columns, m = _matrix(xp, b, of_b, False)
    if n != m:
        raise ValueError("shape-mismatch for sum")
    if one.ndim == 3 and other.ndim == 2 and one.shape[1] == 1 and columns:
        found = (one[:, 0] @ other)[:, None]  # one product for all slices
    elif one.ndim == 2 and other.ndim == 3 and other.shape[2] == 1 and rows:
        found = (other[:, :, 0] @ one.T)[:, :, None]
    else:
        found = one @ other
    return Rows(found.reshape(found.shape[0], *rows, *columns))


def _matrix(xp: Any, x: Any, axes: list[int], last: bool) -> tuple[Any, list[int], list[int]]:
    """A matrix of each slice or, of a constant, one; the kept shape and the summed shape."""
    rows = isinstance(x, Rows)
    array = x.array if rows else xp.asarray(x)
    shape = array.shape[1:] if rows else array.shape
    kept = [i for i in range(len(shape)) if i not in axes]
    order = [i + rows for i in (kept + axes if last else axes + kept)]
    left, over = [shape[i] for i in kept], [shape[i] for i in axes]
    sides = [int(np.prod(left)), int(np.prod(over))]
    array = array.transpose([0, *order] if rows else order)
    size = array.shape[:1] if rows else ()
    return array.reshape(*size, *(sides if last else sides[::-1])), left, over


def outer(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """All products."""
    n = batch_size((a, b))
    one, other = flat(as_rows(xp, a, n)), flat(as_rows(xp, b, n))
    return Rows(one[:, :, None] * other[:, None, :])


def einsum(xp: Any, call: Any, *operands: Any, **kwargs: Any) -> Any:
    """One more letter for the slices."""
    constant(kwargs)
    first = operands[0]
    if not isinstance(first, str) or "." in first or infinite_products(xp, *operands[1:]):
        raise Awkward
    inputs, arrow, output = first.replace(" ", "").partition("->")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    batch = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZ" if c not in first)
    terms = inputs.split(",")
    pairs = list(zip(terms, operands[1:], strict=True))
    letters = ",".join(batch + t if isinstance(x, Rows) else t for t, x in pairs)
    arrays = mapped(lambda x: x.array, operands[1:])
    return Rows(call(f"{letters}->{batch}{output}", *arrays, **kwargs))


def kron(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """All products, with the axes of both in turns."""
    n = batch_size((a, b))
    a, b = as_rows(xp, a, n), as_rows(xp, b, n)
    ndim = max(a.ndim, b.ndim)
    one, other = aligned(a, ndim), aligned(b, ndim)
    sides = [x.shape[1:] for x in (one, other)]
    one = one.reshape(n, *(s for d in sides[0] for s in (d, 1)))
    other = other.reshape(n, *(s for d in sides[1] for s in (1, d)))
    return Rows((one * other).reshape(n, *(i * j for i, j in zip(*sides, strict=True))))


def cross(xp: Any, call: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    """Vectors in the last axes."""
    last = set(kwargs) <= {"axis"} and kwargs.get("axis", -1) == -1
    if not last or 0 in _ndims(a, b):
        raise Awkward
    return elementwise(xp, call, (a, b), {})


# -- linear algebra -----------------------------------------------------------------------------


def norm(
    xp: Any, call: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Any:
    """Vectors and matrices; the 2-norm of all values is a dot product, as in NumPy."""
    constant(ord, axis, keepdims)
    if x.ndim == 0:
        raise Awkward
    euclidean = ord is None or (ord == 2 and x.ndim == 1) or (ord in ("f", "fro") and x.ndim == 2)
    array = x.array if x.dtype.kind in "fc" else x.array.astype(float)
    n = array.shape[0]
    if axis is None and euclidean:
        array = array.reshape(n, -1)
        parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
        squares = [(p[:, None, :] @ p[:, :, None]).reshape(n) for p in parts]
        found = xp.sqrt(sum(squares[1:], squares[0]))
        return Rows(found.reshape(n, *(1,) * x.ndim) if keepdims else found)
    if axis is None:
        if x.ndim > 2:
            raise Awkward
        axis = -1 if x.ndim == 1 else (-2, -1)
    array = contiguous(xp)(Rows(array)).array
    return Rows(call(array, ord, shifted(axis, x.ndim), keepdims))


def solve(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Vectors are matrices of one column."""
    ndims = _ndims(a, b)
    if ndims[0] != 2 or ndims[1] not in (1, 2):
        raise Awkward
    n = batch_size((a, b))
    if not isinstance(a, Rows) and ndims[1] == 1:
        return Rows(xp.ascontiguousarray(call(a, b.array.T).T))
    a, b = as_rows(xp, a, n), as_rows(xp, b, n)
    right = b.array[..., None] if ndims[1] == 1 else b.array
    found = call(a.array, right)
    return Rows(found[..., 0] if ndims[1] == 1 else found)


def eig(xp: Any, call: Any, a: Any) -> Any:
    """Stacks, unless some slices have complex results and others have not."""
    if a.ndim != 2:
        raise Awkward
    found = call(a.array)
    values = found if call.__name__ == "eigvals" else found[0]
    is_complex = a.dtype.kind != "c" and values.dtype.kind == "c"
    if xp is not np:  # CuPy's are complex for all
        return results(found)
    if is_complex and not bool((values.imag != 0).any(axis=-1).all()):
        raise NoRule("eigenvalues of some slices are real, of others complex")
    return results(found)
