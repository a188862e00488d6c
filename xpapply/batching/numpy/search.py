"""Batching rules of searches in sorted values: `numpy.searchsorted` and `interp`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched
from ..function_rules import Unsupported, as_rows, cache_parts, flat, plain, traced
from ..ragged import Ragged
from ..rules import batch_size, leaves


def _ascending(x: Any) -> bool:
    """Whether rows are sorted; rows with NaNs are not."""
    return bool((x[:, 1:] >= x[:, :-1]).all()) and not bool((x[:, :1] != x[:, :1]).any())


def _rank(xp: Any, rows: Any, keys: Any, right: bool) -> Any:
    """`searchsorted` of `keys` ``(B, K)`` in sorted `rows` ``(B, N)``; one row may serve all."""
    if rows.shape[0] == 1:
        return xp.searchsorted(rows[0], keys, side="right" if right else "left")
    n = rows.shape[1]
    if xp is np and keys.shape[0] == 1 and keys.size > FEW_KEYS and not (keys != keys).any():
        return _rank_of_shared(rows, keys[0], right)
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


def _rank_of_shared(rows: Any, keys: Any, right: bool) -> Any:
    """The same for keys that all rows share: the count of a row's values before each key.

    The search is the other way round, of all values among the keys, and is no search for rows.
    """
    order = np.argsort(keys, kind="stable")
    places = np.searchsorted(keys[order], rows, side="left" if right else "right")
    width = keys.size + 1
    places += width * np.arange(len(rows))[:, None]
    counts = np.bincount(places.reshape(-1), minlength=width * len(rows)).reshape(-1, width)
    found = np.empty((len(rows), keys.size), np.intp)
    found[:, order] = counts[:, :-1].cumsum(axis=1)
    return found


FEW_KEYS = 16
"""The number of keys up to which a batched search beats NumPy's own for each row."""


def searchsorted(xp: Any, call: Any, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Values of a slice in a constant; few values in each slice."""
    plain(side)
    if not isinstance(a, Batched) and sorter is None:
        if np.ndim(a) != 1 or not _ascending(np.asarray(a)[None]):
            raise Unsupported  # a search in what is not sorted depends on the one before
        return Batched(call(a, v.array, side=side))
    if sorter is not None or side not in ("left", "right") or a.ndim != 1 or a.shape[0] == 0:
        raise Unsupported
    v = as_rows(xp, v, batch_size(a))
    keys = flat(v)
    if a.dtype != v.dtype and {a.dtype.kind, v.dtype.kind} == {"i", "u"}:
        raise Unsupported  # compared exactly by `<`, but not here
    few = keys.shape[1] <= FEW_KEYS or xp is not np
    if not (few and _ascending(a.array)) or bool((keys != keys).any()):
        raise Unsupported
    return Batched(_rank(xp, a.array, keys, side == "right").reshape(v.array.shape))


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
    ordered = np.asarray(xp) if not isinstance(xp, Batched) else None
    if isinstance(x, Batched) and not traced((xp, fp, left, right)):
        if ordered is not None and ordered.ndim == 1 and _ascending(ordered[None]):
            return Batched(call(x.array, xp, fp, left, right, period))
        raise Unsupported  # a search in what is not sorted depends on the one before
    if period is not None or any(y.dtype.kind == "c" for y in leaves((x, xp, fp, left, right))):
        raise Unsupported
    shape = x.shape if isinstance(x, Batched) else np.shape(x)
    at, places, values = (_one_axis(ns, y) for y in (x, xp, fp))
    count = places.shape[1]
    if values.shape[1] != count or count < 2 or np.ndim(left) or np.ndim(right):
        raise Unsupported
    if isinstance(x, Batched) and isinstance(xp, Batched) and at.shape[1] > FEW_KEYS and ns is np:
        raise Unsupported
    if not _ascending(places):
        raise Unsupported
    left = values[:, :1] if left is None else _one_axis(ns, left)
    right = values[:, -1:] if right is None else _one_axis(ns, right)
    found = _interpolated(ns, at, places, values, left, right)
    return Batched(found.reshape(found.shape[0], *shape))


def _one_axis(ns: Any, x: Any) -> Any:
    """Values as float64 ``(B, N)``, or ``(1, N)`` for a constant."""
    array = flat(x) if isinstance(x, Batched) else ns.asarray(x).reshape(1, -1)
    if array.dtype.kind not in "biuf":
        raise Unsupported
    return array.astype(np.float64)


def _interpolated(ns: Any, x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    n = xp.shape[1]
    below = ns.clip(_rank(ns, xp, x, True) - 1, 0, n - 1)  # the last place that is not beyond x
    given = (x, xp, fp, left, right, below)
    rows = max(a.shape[0] for a in given)
    found = ns.empty((rows, x.shape[1]))
    for part in cache_parts(rows, 8 * x.shape[1]) if ns is np else [slice(None)]:
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

    found = _between(
        ns, x, at(xp, below), at(xp, above), at(fp, below), at(fp, above), below == n - 1
    )
    return _outside(ns, x, found, xp[:, :1], xp[:, -1:], left, right)


def _between(ns: Any, x: Any, x0: Any, x1: Any, y0: Any, y1: Any, is_last: Any) -> Any:
    """Interpolate on the lines from (x0, y0) to (x1, y1)."""
    with np.errstate(all="ignore"):
        slope = (y1 - y0) / (x1 - x0)
        found = slope * (x - x0) + y0
        missing = ns.isnan(found)
        if missing.any():  # NumPy tries the other direction, and then whether a piece is level
            other = slope * (x - x1) + y1
            other = ns.where(ns.isnan(other) & (y0 == y1), y0, other)
            found = ns.where(missing, other, found)
    return ns.where(is_last | (x0 == x), y0, found)


def _outside(ns: Any, x: Any, found: Any, first: Any, last: Any, left: Any, right: Any) -> Any:
    """Results for places before the first or after the last one, and for NaN."""
    for where, value in ((x < first, left), (x > last, right), (ns.isnan(x), x)):
        if where.any():
            found = ns.where(where, value, found)
    return found


def interp_of_masks(x: Any, places: Ragged, values: Ragged, left: Any, right: Any) -> Any:
    """`numpy.interp` of places and values that are those of a mask, of at least one in each slice.

    `x`: places of a mask as well, or as many in each slice.
    """
    counts, starts = places.counts, places.starts()
    if not counts.all():
        raise ValueError("array of sample points is empty")  # as NumPy does
    batch = len(counts)
    if isinstance(x, Ragged):
        at, own = x.flat, np.repeat(np.arange(batch), x.counts)
    else:
        wide = as_rows(np, x, batch)
        at, own = (
            flat(wide).reshape(-1),
            np.repeat(np.arange(batch), np.prod(wide.shape, dtype=int)),
        )
    for y in (at, places.flat, values.flat):
        if y.dtype.kind not in "biuf":
            raise Unsupported
    xs, ys, at = (y.astype(np.float64, copy=False) for y in (places.flat, values.flat, at))
    unsorted = ~(xs[1:] >= xs[:-1])
    unsorted[starts[1:] - 1] = False  # from one slice to the next
    if unsorted.any() or np.isnan(xs[starts]).any():
        raise Unsupported  # a search in what is not sorted depends on the one before
    first, last = starts[own], (starts + counts - 1)[own]
    below = np.maximum(_rank_within(xs, at, first, last + 1) - 1, first)
    above = np.minimum(below + 1, last)
    found = _between(np, at, xs[below], xs[above], ys[below], ys[above], below == last)
    single = np.isnan(at) & (first == last)  # NumPy has a way of its own for one place
    before, after = (ys[k] if y is None else y for k, y in ((first, left), (last, right)))
    found = np.where(single, ys[first], _outside(np, at, found, xs[first], xs[last], before, after))
    return (
        Ragged(found, x.counts)
        if isinstance(x, Ragged)
        else Batched(found.reshape(wide.array.shape))
    )


def _rank_within(rows: Any, keys: Any, low: Any, high: Any) -> Any:
    """`searchsorted` from the right of each key in a sorted part of `rows`."""
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        beyond = rows[np.minimum(middle, len(rows) - 1)] <= keys
        open_ = low < high
        low = np.where(open_ & beyond, middle + 1, low)
        high = np.where(open_ & ~beyond, middle, high)
    return low
