"""Where a view lies in the array that it is a part of."""

from __future__ import annotations

import numpy as np


def of(view: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """The places of the elements of `view` as an index of `whole`.

    None where they are not elements of it, each once: then nothing can be written through the view.
    """
    if view.dtype != whole.dtype or not whole.ndim or not view.size:
        return None
    there = _addresses(whole).ravel()
    order = np.argsort(there)
    mine = _addresses(view)
    at = np.minimum(np.searchsorted(there, mine, sorter=order), len(there) - 1)
    found = order[at]
    if (there[found] != mine).any() or len(np.unique(found)) != found.size:
        return None
    return tuple(np.unravel_index(found, whole.shape))


def _addresses(x: np.ndarray) -> np.ndarray:
    """Where each element begins in memory."""
    found = np.array(x.__array_interface__["data"][0], np.int64)
    for n, step in zip(x.shape, x.strides, strict=True):
        found = found[..., None] + np.arange(n) * step
    return found
