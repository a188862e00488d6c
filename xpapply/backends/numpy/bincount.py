"""Counts of numbers in slices of NumPy arrays, block by block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays.layout import boxes
from ...limits import LIMITS


def counts(x: np.ndarray, weights: Any, axes: tuple[int, ...], bins: int) -> np.ndarray:
    """Counts, or sums of weights, of shape ``(batch..., bins)``."""
    batch = tuple(a for a in range(x.ndim) if a not in axes)
    shape = tuple(x.shape[a] for a in batch)
    found = np.zeros((*shape, bins), np.int64 if weights is None else np.float64)
    if not x.size or not bins:
        return found
    # slices in pieces, if they are long: the batch dims first, then those of the slice
    order = (*batch, *axes)
    x = x.transpose(order)
    weights = None if weights is None else weights.transpose(order)
    for piece in boxes((*x.shape, 1), x.ndim, LIMITS.bincount_block):
        index = piece[: x.ndim]
        block = x[index]
        rows = math.prod(block.shape[: len(batch)])
        flat = block.reshape(rows, -1)
        given = None if weights is None else weights[index].reshape(rows, -1)
        if flat.shape[1] >= LIMITS.bincount_long:
            each = (None,) * rows if given is None else given
            counted = np.stack([np.bincount(v, w, bins) for v, w in zip(flat, each, strict=True)])
        else:
            flat = flat.astype(np.int64) + np.arange(rows, dtype=np.int64)[:, None] * bins
            counted = np.bincount(
                flat.ravel(), None if given is None else given.ravel(), rows * bins
            )
        found[index[: len(batch)]] += counted.reshape(*block.shape[: len(batch)], bins)
    return found
