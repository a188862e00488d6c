"""Lengths of arrays without overflow or underflow, as MINPACK has them: see ``of_fits``."""

from __future__ import annotations

import math
from typing import Any

_SMALL = 3.834e-20
_LARGE = 1.304e19
"""Bounds between which squares are summed unscaled."""


def norm(x: Any, first: int) -> float:
    """The length of ``x[first:]``, without overflow or underflow."""
    most = _LARGE / (len(x) - first) if len(x) > first else _LARGE
    total = 0.0
    for i in range(first, len(x)):
        size = abs(float(x[i]))
        if size <= _SMALL and size != 0.0:
            return _scaled_norm(x, first, most)
        total += size * size
    if total < most * most:  # so is each of them
        return math.sqrt(total)
    return _scaled_norm(x, first, most)


def _scaled_norm(x: Any, first: int, most: float) -> float:
    """The length where some of ``x[first:]`` are small, or not below `most`."""
    large = 0.0
    middle = 0.0
    small = 0.0
    largest = 0.0
    smallest = 0.0
    for i in range(first, len(x)):
        size = abs(float(x[i]))
        if _SMALL < size < most:
            middle += size * size
        elif size <= _SMALL:
            if size > smallest:
                ratio = smallest / size
                small = 1.0 + small * (ratio * ratio)
                smallest = size
            elif size != 0.0:
                ratio = size / smallest
                small += ratio * ratio
        elif size > largest:
            ratio = largest / size
            large = 1.0 + large * (ratio * ratio)
            largest = size
        else:
            ratio = size / largest
            large += ratio * ratio
    if large != 0.0:
        return largest * math.sqrt(large + middle / largest / largest)
    if middle == 0.0:
        return smallest * math.sqrt(small)
    if middle >= smallest:
        return math.sqrt(middle * (1.0 + smallest / middle * (smallest * small)))
    return math.sqrt(smallest * (middle / smallest + smallest * small))
