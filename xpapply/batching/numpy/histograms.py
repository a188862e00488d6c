"""Batching rules of counts and histograms in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, constant, flat, plain, traced
from ..rules import batch_size, leaves


def bincount(xp: Any, call: Any, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """No rule: the length depends on the largest value."""
    raise NoRule("bincount: the length depends on the data")


def bincount_rows(xp: Any, x: Any, weights: Any, length: int, *, within: bool = False) -> Batched:
    """Counts of 0, 1, .. in each slice, `length` of them.

    Parameters
    ----------
    xp : module
        The array namespace.
    x : Batched or array
        Integers of one axis, less than `length`.
    weights : Batched or array or None
        As of `numpy.bincount`; `Batched` where `x` is an array.
    length : int
        The length of the result of each slice.
    within : bool
        It is known that all values are there, which a device need not be asked then.

    Raises
    ------
    ValueError
        If a value is negative or too large.
    TypeError
        If the values are not integers.
    """
    if not isinstance(x, Batched):
        x = as_rows(xp, x, batch_size(weights))
    if x.ndim != 1:
        raise ValueError("object too deep for desired array")
    if not np.can_cast(x.dtype, np.intp, "safe"):
        raise TypeError(f"Cannot cast array data from {x.dtype} to int64 according to 'safe'")
    n, m = x.array.shape
    values = x.array.astype(np.intp)
    if not within and values.size and bool(((values < 0) | (values >= length)).any()):
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
        return Batched(xp.zeros((n, length), np.intp))
    values += xp.arange(n)[:, None] * length
    if xp is not np:  # one kernel, which does not look for the largest value first
        counts = xp.zeros(n * length, np.intp if weights is None else np.float64)
        xp.add.at(counts, values.ravel(), 1 if weights is None else weights.astype(np.float64))
        return Batched(counts.reshape(n, length))
    counts = xp.bincount(values.ravel(), weights, minlength=n * length)
    return Batched(counts.reshape(n, length))


def _limits(xp: Any, a: Any, limits: Any) -> tuple[Any, Any, Any]:
    """First and last edge of each slice, and their distance."""
    if limits is None:
        first, last = a.min(axis=1, keepdims=True), a.max(axis=1, keepdims=True)
    else:
        dtype = next(iter(leaves(limits))).dtype  # Python numbers take the dtype of the others
        limits = [dtype.type(x) if type(x) in (int, float) else x for x in limits]
        first, last = (as_rows(xp, x, len(a)).array for x in limits)
        if first.ndim != 1 or first.dtype.kind != "f" or last.dtype.kind != "f":
            raise Unsupported
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
        raise Unsupported  # `linspace` then computes all of them in another way
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
    if isinstance(bins, Batched) and bins.ndim == 0:
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
            raise Unsupported
    if values.dtype.kind not in "iuf" or not 0 < values.shape[1] <= BLOCK:
        raise Unsupported
    if np.ndim(bins) == 0:
        if not isinstance(bins, (int, np.integer)) or bins < 1:
            raise Unsupported
        index, edges = _uniform(xp, values, int(bins), range)
        counts = _counted(xp, index, weights, int(bins))
    else:
        edges = xp.asarray(bins)
        if edges.ndim != 1 or edges.size < 2 or edges.dtype.kind not in "iuf":
            raise Unsupported
        if bool((edges != edges).any()) or bool((edges[:-1] > edges[1:]).any()):
            raise Unsupported
        if edges.dtype != values.dtype and {edges.dtype.kind, values.dtype.kind} == {"i", "u"}:
            raise Unsupported
        counts = _between(xp, values, edges, weights)
    if density:
        widths = xp.array(xp.diff(edges), float)
        counts = counts / widths / counts.sum(axis=1, keepdims=True)
    return Batched(counts), Batched(edges) if edges.ndim == 2 else edges


def _counted(xp: Any, index: Any, weights: Any, bins: int) -> Any:
    """Counts of each bin in each row; the bin after the last one is dropped."""
    w = None if weights is None else Batched(weights)
    counts = bincount_rows(xp, Batched(index), w, bins + 1).array[:, :bins]
    return xp.ascontiguousarray(counts, None if weights is None else weights.dtype)


def _between(xp: Any, values: Any, edges: Any, weights: Any) -> Any:
    """Counts between given edges; weights are summed up in sorted order, as NumPy does."""
    bins = edges.size - 1
    index = xp.searchsorted(edges, values, side="right")  # 0: below, bins + 1: not below the last
    index = xp.where(values == edges[-1], bins, index)
    if weights is None:
        counts = bincount_rows(xp, Batched(index), None, bins + 2).array
        return xp.ascontiguousarray(counts[:, 1 : bins + 1])
    order = xp.argsort(values, axis=1)
    sums = xp.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    sums = xp.concatenate([xp.zeros((len(sums), 1), weights.dtype), sums], axis=1)
    counts = bincount_rows(xp, Batched(index), None, bins + 2).array
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
