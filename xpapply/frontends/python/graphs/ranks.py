"""Filters of SciPy that choose one of the numbers in a window: medians, ranks, extremes; in graphs.

Windows beside each other have columns in common, which are sorted once. Then the rows of such
columns are, as far as they can hold the number that is wanted: each is known to be at least as
large as those above and to the left of it, and at most as large as those below and to the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.builder import Value
from ....ir.slices.sorting import pairs
from .filters import array_of, axis_of, widened

_MOST = 25
"""Numbers in a window, at most."""


def _sorted(lowering: Any, several: Sequence[Value]) -> list[Value]:
    """Sort values elementwise by exchanges; values that are not used cost no time."""
    found, where = list(several), lowering.builder.where
    for i, j in pairs(len(found)):
        a, b = found[i], found[j]
        below = a < b
        found[i], found[j] = where(below, a, b), where(below, b, a)
    return found


def _nth(lowering: Any, columns: Sequence[Sequence[Value]], rank: int) -> Value:
    """The number of a rank among those of sorted columns of one length."""
    height, width = len(columns[0]), len(columns)
    left, before = [], 0
    for i in range(height):
        row = _sorted(lowering, [column[i] for column in columns])
        for j, x in enumerate(row):
            if (height - i) * (width - j) - 1 >= height * width - rank:
                before += 1  # so many are not below it
            elif (i + 1) * (j + 1) - 1 <= rank:
                left.append(x)
    return _sorted(lowering, left)[rank - before]


def _chosen(
    lowering: Any, x: Value, footprint: np.ndarray, rank: int, mode: Any, cval: Any
) -> Value:
    """The number of a rank in each window."""
    if x.dtype not in ("float32", "float64") or footprint.sum() > _MOST:
        raise UnsupportedError(f"ranks of {footprint.sum()} numbers of {x.dtype}")
    wide = widened(lowering, x, footprint.shape, mode, cval, x.dtype)
    _mark_unordered(lowering, x, cval if "constant" in mode else None)

    def below(y: Value, at: Sequence[int], axes: Sequence[int]) -> Value:
        """`y`, seen through one place of the window along some axes."""
        key: list[Any] = [(None, None, None)] * len(y.shape)
        for k, i in zip(axes, at, strict=True):
            key[k] = (int(i), int(i) + x.shape[k], 1)
        found: Value = lowering.op("index", y, key=tuple(key))
        return found

    if not footprint.all():
        whole = range(footprint.ndim)
        places = [below(wide, at, whole) for at in np.argwhere(footprint).tolist()]
        return _nth(lowering, [_sorted(lowering, places)], rank)
    height, *others = footprint.shape
    column = _sorted(lowering, [below(wide, (i,), (0,)) for i in range(height)])
    rest = range(1, footprint.ndim)
    columns = [[below(y, at, rest) for y in column] for at in np.ndindex(*others)]
    return _nth(lowering, columns, rank)


def _mark_unordered(lowering: Any, x: Value, beside: Any) -> None:
    """Mark NaN, and zeros of both signs, of which SciPy chooses by the order of its steps.

    `beside`: a number that is around the slice.
    """
    flat = lowering.shaped(x, (int(np.prod(x.shape)),))
    lowering.mark(flat != flat)
    zero, minus = flat == 0, lowering.op("signbit", flat)
    both = [zero & minus, zero & ~minus]
    if beside is not None and beside == 0:  # of the other sign
        lowering.mark(both[bool(np.signbit(beside))])
        return
    several = [lowering.op("max", y, axis=(0,), keepdims=False) for y in both]
    lowering.mark(several[0] & several[1])


def _window(x: Value, size: Any, footprint: Any) -> np.ndarray:
    if isinstance(footprint, Value) or (size is None) == (footprint is None):
        raise UnsupportedError("a filter of this kind")
    if footprint is None:
        sizes = [size] * len(x.shape) if np.ndim(size) == 0 else size
        footprint = np.ones([int(n) for n in sizes], bool)
    found = np.asarray(footprint, bool)
    if found.ndim != len(x.shape) or not found.any():
        raise UnsupportedError("a filter of this kind")
    return found


def _filter(rank: Callable[[int], int]) -> Callable[..., Value]:
    """A lowering that picks the number with `rank` among so many."""

    def lowered(
        lowering: Any,
        input: Any,
        size: Any = None,
        footprint: Any = None,
        mode: Any = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
    ) -> Value:
        x = array_of(input)
        window = _window(x, size, footprint)
        if np.any(origin) or (len(x.shape) < 2 and 0 < rank(3) < 2):
            raise UnsupportedError("a filter of this kind")
        return _chosen(lowering, x, window, rank(int(window.sum())), mode, cval)

    return lowered


def _rank(lowering: Any, input: Any, rank: int, **more: Any) -> Value:
    def among(count: int) -> int:
        found = int(rank) + count * (rank < 0)
        if not 0 <= found < count:
            raise UnsupportedError(f"rank {rank} of {count}")
        return found

    if len(array_of(input).shape) < 2:
        raise UnsupportedError("ranks along a line")
    return _filter(among)(lowering, input, **more)


def _percentile(lowering: Any, input: Any, percentile: Any, **more: Any) -> Value:
    if isinstance(percentile, Value) or len(array_of(input).shape) < 2:
        raise UnsupportedError("ranks along a line")
    share = percentile + 100.0 * (percentile < 0)

    def among(count: int) -> int:
        return count - 1 if share == 100 else int(float(count) * share / 100.0)

    return _filter(among)(lowering, input, **more)


def _extreme1d(largest: bool) -> Callable[..., Value]:
    def lowered(
        lowering: Any,
        input: Any,
        size: int,
        axis: Any = -1,
        mode: Any = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Value:
        x = array_of(input)
        shape = [1] * len(x.shape)
        shape[axis_of(x, axis)] = int(size)
        if origin:
            raise UnsupportedError("a filter of this kind")
        rank = (int(size) - 1) * largest
        return _chosen(lowering, x, np.ones(shape, bool), rank, mode, cval)

    return lowered


def _medfilt2d(lowering: Any, input: Any, kernel_size: Any = 3) -> Value:
    x = array_of(input)
    window = _window(x, kernel_size, None)
    if len(x.shape) != 2 or any(n % 2 == 0 for n in window.shape):
        raise UnsupportedError("a filter of this kind")
    return _chosen(lowering, x, window, window.size // 2, "constant", 0.0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scipy.ndimage.median_filter": _filter(lambda n: n // 2),
    "scipy.ndimage.minimum_filter": _filter(lambda n: 0),
    "scipy.ndimage.maximum_filter": _filter(lambda n: n - 1),
    "scipy.ndimage.rank_filter": _rank,
    "scipy.ndimage.percentile_filter": _percentile,
    "scipy.ndimage.minimum_filter1d": _extreme1d(largest=False),
    "scipy.ndimage.maximum_filter1d": _extreme1d(largest=True),
    "scipy.signal.medfilt2d": _medfilt2d,
}
"""Lowerings by names of functions."""
