"""Straight lines between points, in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.builder import Value
from .order import MOST, ascending, is_nan, search
from .places import number, part, picked, taken, vector


def _interp(
    lowering: Any, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Value:
    """Straight lines between points."""
    ends = left, right
    if period is not None or any(isinstance(e, Value) or np.ndim(e) for e in ends):
        raise UnsupportedError("an interpolation of this kind")
    if isinstance(xp, Value) or isinstance(x, Value) == isinstance(fp, Value):
        return _between_points(lowering, x, xp, fp, left, right)
    places = ascending(np.asarray(xp, np.float64))
    if isinstance(fp, Value):
        return _values_between(lowering, np.asarray(x), places, vector(fp), left, right)
    return _between_constants(lowering, x, places, np.asarray(fp), left, right)


def _values_between(
    lowering: Any, x: np.ndarray, xp: np.ndarray, fp: Value, left: Any, right: Any
) -> Value:
    """Interpolate values of the slice at constant places."""
    if x.dtype.kind not in "iuf" or fp.dtype.kind not in "iuf" or fp.shape != xp.shape:
        raise UnsupportedError("an interpolation of this kind")
    at, values, n = x.astype(np.float64).reshape(-1), lowering.operand(fp, np.float64), len(xp)
    j = np.searchsorted(xp, at, "right") - 1
    inside = (j >= 0) & (j < n - 1) & (at <= xp[-1]) & (at == at)
    below = np.where(inside, j, 0)
    above = np.minimum(below + 1, n - 1)
    exact = np.where(inside, xp[below] == at, True)
    if n > 1:
        y0, y1 = (picked(lowering, [values], k) for k in (below, above))
        width = np.where(exact, 1.0, xp[above] - xp[below])
        slope = (y1 - y0) / width
        found: Any = slope * np.where(exact, 0.0, at - xp[below]) + y0
        # NumPy looks further where that is NaN
        lowering.mark(is_nan(found))
    first = number(lowering, values, 0) if left is None else float(left)
    last = number(lowering, values, n - 1) if right is None else float(right)
    sources = [values, np.full(len(at), np.nan), _one(first), _one(last)]
    start = np.cumsum([0, n, len(at), 1, 1])
    moved = np.where(exact & inside, below, 0)
    moved = np.where(j == n - 1, n - 1, moved)
    moved = np.where(at > xp[-1], start[3], moved)
    moved = np.where(j < 0, start[2], moved)
    moved = np.where(at != at, start[1] + np.arange(len(at)), moved)
    if inside.any() and not (exact | ~inside).all():
        sources.append(found)
        moved = np.where(inside & ~exact, start[4] + np.arange(len(at)), moved)
    return picked(lowering, sources, moved.reshape(x.shape), np.float64)


def _between_points(lowering: Any, x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Value:
    """Interpolate between points of the slice: comparisons bisect the segments."""
    x, xp, fp = (y if isinstance(y, Value) else np.asarray(y) for y in (x, xp, fp))
    if any(y.dtype.kind not in "iuf" for y in (x, xp, fp)) or len(xp.shape) != 1:
        raise UnsupportedError("an interpolation of this kind")
    n, size = xp.shape[0], int(np.prod(x.shape))
    if fp.shape != xp.shape or n < 2 or n * size > MOST:
        raise UnsupportedError(f"an interpolation at {size} places between {n} points")
    shape = x.shape
    at, xp, fp = (lowering.operand(y, np.float64) for y in (x, xp, fp))
    at = lowering.shaped(at, (1, size))
    # NumPy's search depends on where it begins then
    lowering.mark(~(part(lowering, xp, 0, n - 1) <= part(lowering, xp, 1, n)))
    where = lowering.builder.where
    points = [lowering.shaped(y, (n, 1)) for y in (xp, fp)]
    count = n
    while count > 2:  # as many lines as points but one, of which either half is left
        half = count // 2
        beyond = at >= part(lowering, points[0], count - 1 - half, count - half)
        points = [
            where(
                beyond,
                part(lowering, y, count - 1 - half, count),
                part(lowering, y, 0, half + 1),
            )
            for y in points
        ]
        count = half + 1
    (x0, x1), (y0, y1) = ([part(lowering, y, k, k + 1) for k in range(2)] for y in points)
    found = where(at == x0, y0, (y1 - y0) / (x1 - x0) * (at - x0) + y0)
    lowering.mark(is_nan(found))  # NumPy looks further
    first, last = (lowering.shaped(part(lowering, xp, k, k + 1), (1, 1)) for k in (0, n - 1))
    y_first, y_last = (lowering.shaped(part(lowering, fp, k, k + 1), (1, 1)) for k in (0, n - 1))
    found = where(at >= last, y_last, found)
    found = where(at > last, y_last if right is None else float(right), found)
    found = where(at < first, y_first if left is None else float(left), found)
    return lowering.shaped(found, shape)  # type: ignore[no-any-return]


def _one(x: Any) -> Any:
    return x if isinstance(x, Value) else np.array([x])


def _between_constants(
    lowering: Any, x: Value, xp: np.ndarray, fp: np.ndarray, left: Any, right: Any
) -> Value:
    """Interpolate constant values at places of the slice."""
    if fp.dtype.kind not in "biuf" or fp.shape != xp.shape or len(xp) < 2:
        raise UnsupportedError("an interpolation of this kind")
    x, fp, n = lowering.operand(x, np.float64), fp.astype(np.float64), len(xp)
    if not (np.isfinite(fp).all() and np.isfinite(xp).all()) or (np.diff(xp) == 0).any():
        raise UnsupportedError("an interpolation between points that are not finite")
    flat = lowering.shaped(x, (int(np.prod(x.shape)),))
    place = search(lowering, xp, flat, True) - 1
    j = lowering.builder.ufunc(
        np.minimum, lowering.builder.ufunc(np.maximum, place, np.int64(0)), np.int64(n - 2)
    )
    with np.errstate(all="ignore"):
        slopes = np.diff(fp) / np.diff(xp)
    y0, x0, slope = (taken(lowering, t, j) for t in (fp[:-1], xp[:-1], slopes))
    where = lowering.builder.where
    found = where(flat == x0, y0, slope * (flat - x0) + y0)
    found = where(flat >= xp[-1], fp[-1], found)
    found = where(flat > xp[-1], fp[-1] if right is None else float(right), found)
    found = where(flat < xp[0], fp[0] if left is None else float(left), found)
    found = where(is_nan(flat), flat, found)
    return lowering.shaped(found, x.shape)  # type: ignore[no-any-return]


FUNCTIONS: dict[str, Callable[..., Any]] = {"numpy.interp": _interp}
"""Lowerings by names of functions."""
