"""SciPy's functions that select values of a slice, another number of them in every slice.

Their rules give a mask of the slice, and what belongs to a selected value in its place, so that
``f`` goes on with the values of a mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Batched, BatchingRule, NoRule
from .ragged import Ragged
from .rules import mapped

_PER_PEAK = frozenset(("height", "threshold", "prominence", "plateau_size"))
"""Conditions that may be an array with a value for each number of the slice."""
_PLACES = frozenset(("left_bases", "right_bases", "left_edges", "right_edges"))
"""Properties that are positions in the slice."""


def _peaks(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`scipy.signal.find_peaks`: where the peaks are, and properties in the places of the peaks.

    All slices are one array, with NaN between them: what is compared with NaN is no peak, and no
    look around a peak goes past it.
    """
    call, x, named, names = args
    if xp is not np or not isinstance(x, Batched) or x.ndim != 1:
        raise NoRule("peaks of something that is no NumPy slice")
    array = np.asarray(x.array, np.float64)
    batch, length = array.shape
    mask = np.zeros((batch, length), bool)
    found: dict[str, Any] = {}
    single = _single(array, named)
    many = np.flatnonzero(~single)
    if len(many):
        gap = max(1, int(np.ceil(named.get("distance") or 1)))
        joined = np.full((len(many), length + gap), np.nan)
        joined[:, :length] = array[many]
        conditions = {k: _repeated(v, many, length + gap) for k, v in named.items()}
        peaks, properties = call(joined.reshape(-1), **conditions)
        rows, columns = np.divmod(peaks, length + gap)
        _place(mask, found, many[rows], columns, properties, rows * (length + gap))
    for b in np.flatnonzero(single):
        one = mapped(lambda v: v.array[b], named)  # noqa: B023
        columns, properties = call(array[b], **one)
        _place(mask, found, np.full(len(columns), b), columns, properties, 0)
    if list(found) != list(names):
        raise NoRule("find_peaks gives other properties for several slices")
    return (Batched(mask), *map(Batched, found.values()))


def _single(array: Any, named: dict[str, Any]) -> Any:
    """Slices that are looked at alone."""
    batch, length = array.shape
    alone = bool(named.get("width") is not None)  # its positions are rounded
    for k, v in named.items():
        parts = v if isinstance(v, (tuple, list)) else (v,)
        numbers = all((p.ndim if isinstance(p, Batched) else np.ndim(p)) == 0 for p in parts)
        moving = any(isinstance(p, Batched) for p in parts)
        alone |= not numbers or (moving and k not in _PER_PEAK)
    single = np.full(batch, alone or length < 3)
    if named.get("distance") is not None and not alone:
        # of equal peaks it depends on a sort which comes first
        ordered = np.sort(array, axis=1)
        single |= (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    return single


def _repeated(condition: Any, rows: Any, times: int) -> Any:
    if isinstance(condition, (tuple, list)):
        return tuple(_repeated(x, rows, times) for x in condition)
    return np.repeat(condition.array[rows], times) if isinstance(condition, Batched) else condition


def _place(
    mask: Any, found: dict[str, Any], rows: Any, columns: Any, properties: Any, start: Any
) -> None:
    """Take up the peaks of some slices; `start`: where the slice of each peak begins."""
    mask[rows, columns] = True
    for name, values in properties.items():
        if name not in found:
            found[name] = np.zeros(mask.shape, values.dtype)
        found[name][rows, columns] = values - start if name in _PLACES else values


PEAKS = BatchingRule("scipy.signal.find_peaks", _peaks, exact=True, fresh=True)


def _clipped(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`scipy.stats.sigmaclip`: which values are left, and the limits."""
    x, low, high = args
    if xp is not np:
        raise NoRule("sigmaclip takes NumPy arrays")
    array = np.ascontiguousarray(x.array)
    mask = np.ones(array.shape, bool)
    limits: Any = None
    active = np.arange(len(array))
    while len(active):
        again = []
        counts = mask[active].sum(axis=1)
        for index, c in Ragged(array[active][mask[active]], counts).batches():
            rows = active[index]
            std, mean = np.std(c, axis=1), np.mean(c, axis=1)
            lower, upper = mean - std * low, mean + std * high
            if limits is None:
                limits = np.zeros((2, len(array)), lower.dtype)
            limits[:, rows] = lower, upper
            keep = (c >= lower[:, None]) & (c <= upper[:, None])
            inner = mask[rows]
            inner[inner] = keep.reshape(-1)
            mask[rows] = inner
            again.append(rows[~keep.all(axis=1)])
        active = np.sort(np.concatenate(again))
    return Batched(mask), Batched(limits[0]), Batched(limits[1])


CLIPPED = BatchingRule("scipy.stats.sigmaclip", _clipped, exact=True, fresh=True)
