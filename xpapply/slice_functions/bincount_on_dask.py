"""`special.bincount` of arrays of dask: lazy, in one pass over the blocks.

The number of bins is unknown before the largest number is found. Each block is counted in as
many as it needs; what is merged gets the more of two, and all at last the most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import arrays, config

Count = Callable[[Any, Any, Any, int], Any]
"""``count(x, axes, weights, minlength)``, with the bins in the place of the first axis."""


def counts(count: Count, x: Any, weights: Any, axes: tuple[int, ...], least: int) -> Any:
    """Counts along `axes`, which are sorted, with the bins in the place of the first one."""
    from ..backends.dask import blocks

    x = blocks.lazy(x)
    given: list[tuple[Any, Sequence[int]]] = [(x, range(x.ndim))]
    if weights is not None:
        weights = blocks.lazy(weights)
        given.append((weights, range(x.ndim - weights.ndim, x.ndim)))
    dtype = np.dtype("i8" if weights is None else "f8")
    _, given = blocks.aligned(given)
    options = blocks.own_options()
    labels = range(x.ndim)
    made = blocks.mapped(
        _Counts(count, axes, options), given, labels, {}, dtype, "bincount-pieces",
        pieces=dict.fromkeys(axes, 1), tuples=True,
    )  # fmt: skip
    at = axes[0] if axes else x.ndim
    if axes:
        made = blocks.merged(_Added(at), made, axes, "bincount-merged")
    bins = _known(x.dtype, least)
    most = []
    if bins is None:
        lengths = blocks.mapped(
            _Length(at), [(made, labels)], labels, {}, np.dtype("i8"), "bincount-bins",
            pieces=dict.fromkeys(labels, 1), tuples=True,
        )  # fmt: skip
        if x.ndim:
            lengths = blocks.merged(max, lengths, tuple(labels), "bincount-most")
        most = [(lengths, range(x.ndim + 1, 2 * x.ndim + 1))]
    rest = [a for a in labels if a not in axes]
    out = [a for a in rest if a < at] + [x.ndim] + [a for a in rest if a >= at]
    sizes = {x.ndim: math.nan if bins is None else bins}
    task = _Padded(at, bins or least)
    return blocks.mapped(task, [(made, labels), *most], out, sizes, dtype, "bincount", tuples=True)


def _known(dtype: Any, least: int) -> int | None:
    """The number of bins, if the dtype bounds it."""
    most = 2 if dtype.kind == "b" else int(np.iinfo(dtype).max) + 1
    return least if least >= most else None


class _Counts:
    """The counts of a block."""

    def __init__(self, count: Count, axes: tuple[int, ...], options: dict[str, Any]) -> None:
        self._count, self._axes, self._options = count, axes, options

    def __call__(self, more: Any, x: Any, weights: Any = None) -> Any:
        with config.options(**self._options):
            return self._count(x, self._axes, weights, 0)


class _Added:
    """The sum of counts in unlike numbers of bins."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, parts: Sequence[Any]) -> Any:
        bins = max(x.shape[self._at] for x in parts)
        total = padded(parts[0], self._at, bins)
        for x in parts[1:]:
            total = total + padded(x, self._at, bins)
        return total


class _Length:
    """The number of bins, as a lazy value."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, more: Any, x: Any) -> int:
        return int(x.shape[self._at])


class _Padded:
    """Counts in as many bins as all have."""

    def __init__(self, at: int, least: int) -> None:
        self._at, self._least = at, least

    def __call__(self, more: Any, x: Any, most: int = 0) -> Any:
        return padded(x, self._at, max(most, self._least))


def padded(x: Any, axis: int, length: int) -> Any:
    """`x` with zeros after its end along an axis."""
    missing = length - x.shape[axis]
    if not missing:
        return x
    xp = arrays.compat(x)
    shape = (*x.shape[:axis], missing, *x.shape[axis + 1 :])
    return xp.concat([x, xp.zeros(shape, dtype=x.dtype)], axis=axis)
