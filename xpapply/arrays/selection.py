"""Slices that booleans choose: where they are among all, and their results."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays


def spread(found: Any, mask: Any, rest: Any) -> Any:
    """Results of the chosen slices among all of them; `rest` stands elsewhere."""
    core = (None,) * (found.ndim - 1)
    if isinstance(found, np.ndarray):
        full = np.empty_like(found, shape=(*mask.shape, *found.shape[1:]))
        full[...] = rest
        full[mask] = found
        return full
    xp = arrays.compat(found)
    if not found.shape[0]:
        return xp.full((*mask.shape, *found.shape[1:]), rest, dtype=found.dtype)
    at = xp.reshape(xp.cumulative_sum(xp.astype(xp.reshape(mask, (-1,)), xp.int64)), mask.shape)
    every = xp.take(found, xp.reshape(xp.where(mask, at - 1, 0), (-1,)), axis=0)
    every = xp.reshape(every, (*mask.shape, *found.shape[1:]))
    return xp.where(mask[(..., *core)], every, xp.full_like(every, rest))


def nth(mask: Any, index: tuple[int, ...]) -> tuple[int, ...]:
    """The index of one of the slices chosen by a mask."""
    return nth_of(np.nonzero(np.asarray(arrays.on_host(mask))), index) if mask.ndim else ()


def nth_of(places: tuple[np.ndarray, ...], index: tuple[int, ...]) -> tuple[int, ...]:
    """The same by the indices of all of them."""
    return tuple(int(p[index[0]]) for p in places)


def first(x: Any) -> Any:
    """The first element, as a number of NumPy's: an array on a device is not copied for it."""
    if arrays.library(x) == "numpy":
        return x.flat[0]
    return arrays.on_host(x[(0,) * x.ndim])[()]
