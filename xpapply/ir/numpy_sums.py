"""The order in which NumPy adds: by pairs. Kernels for CPUs keep it, where it is that of today."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..functions.cache import remembered

LEAF = 128
"""Numbers that are not cut into two parts."""


def pairwise(x: np.ndarray) -> Any:
    """The sum of numbers, added as ``pairwise_sum`` in NumPy's `loops_utils.h.src` adds them.

    Examples
    --------
    >>> x = np.array([1e16, 1.0, 1.0, -1e16])
    >>> print(pairwise(x), np.sum(x))
    0.0 0.0
    """
    n = len(x)
    if n > LEAF:
        half = n // 16 * 8
        return pairwise(x[:half]) + pairwise(x[half:])
    whole = n // 8 * 8
    eight = np.zeros(8, x.dtype)
    for more in x[:whole].reshape(-1, 8):
        eight = eight + more
    sums = list(eight)
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return functools.reduce(np.add, x[whole:], sums[0])


@remembered(1)
def adds_as_numpy() -> bool:
    """Whether `pairwise` is the order of this NumPy's sums."""
    places = np.arange(2006)
    numbers = np.sin(places) * 10.0 ** (places % 7 - 3)
    for dtype in (np.float32, np.float64):
        for n in (5, 100, 128, 129, 1003):
            x = numbers[: 2 * n].astype(dtype)
            for v in (x[:n], x[::2]):
                if np.sum(v) != pairwise(v):
                    return False
    return True
