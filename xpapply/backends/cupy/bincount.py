"""Counts of numbers in slices of CuPy arrays: one pass of atomic additions."""

from __future__ import annotations

import math
from typing import Any

import cupy

from ...functions.cache import remembered
from ...limits import LIMITS


@remembered(2)
def _kernel(weighted: bool) -> Any:
    weight = ", float64 w" if weighted else ""
    add = "atomicAdd(at, w)" if weighted else "atomicAdd((unsigned long long*)at, 1ull)"
    dtype = "float64" if weighted else "int64"
    ctype = "double" if weighted else "long long"
    return cupy.ElementwiseKernel(
        f"T x, int64 row{weight}, int64 bins, int64 rows, int64 copies, raw {dtype} found",
        "",
        f"{ctype}* const at = const_cast<{ctype}*>(&found[0])"
        f" + ((i % copies) * rows + row) * bins + (long long)x; {add};",
        "xpapply_counts",
    )


def counts(x: Any, weights: Any, axes: tuple[int, ...], bins: int) -> Any:
    """Counts, or sums of weights, of shape ``(batch..., bins)``."""
    shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    along = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    rows = math.prod(shape)
    with x.device:
        dtype = "int64" if weights is None else "float64"
        if not x.size or not bins:
            return cupy.zeros((*shape, bins), dtype)
        copies = max(1, min(1024, LIMITS.cupy_counters // (rows * bins)))
        found = cupy.zeros((copies, rows, bins), dtype)
        row = cupy.arange(rows, dtype="int64").reshape(along)
        given = () if weights is None else (weights,)
        _kernel(weights is not None)(x, row, *given, bins, rows, copies, found)
        return (found[0] if copies == 1 else found.sum(axis=0)).reshape(*shape, bins)
