"""Powers with small exponents."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..function import FunctionWriter
from .doubles import Double, product, rounds_alike, sorted_sum

_EXPONENTIAL = 0.5108
"""Units in the last place that glibc's exponential in ``pow`` is off by at most, and some more."""


def _off(y: float) -> float:
    """Units in the last place that glibc's ``pow`` is off by at most, for exponents of `_FIRST` on.

    0.509 of its exponential, and of its logarithm 1.5 * 2**-68 relative to y * log(x), which is at
    most 64 * log(2) * y (sysdeps/ieee754/dbl-64/e_pow.c, from 2.28 on).
    """
    return _EXPONENTIAL + 1.5 * 2**-15 * 64 * math.log(2) * y


_FIRST, _COUNT = 1023 - 64, 128
"""Biased exponents for which the bound holds, and no intermediate overflows."""


def _near(x: Double, signed: bool) -> tuple[Double, Double]:
    exponent = x.bits() >> 52
    if signed:
        exponent = exponent & 0x7FF
    is_near = (exponent - _FIRST).below(_COUNT)
    return is_near.chosen(x, 1.0), is_near


def _root(w: FunctionWriter, x: Double) -> tuple[Double, Double]:
    v, is_near = _near(x, False)
    high = v.root()
    low = (-high).fused(high, v) * 0.5 / high
    return high, is_near & rounds_alike(high, low, _off(0.5))


def _whole(n: int) -> Callable[[FunctionWriter, Double], tuple[Double, Double]]:
    def write(w: FunctionWriter, x: Double) -> tuple[Double, Double]:
        v, is_near = _near(x, True)
        high, low = square, rest = product(v, v)
        if n > 2:
            high, low = product(square, v if n == 3 else square)
            low = rest.fused(v if n == 3 else square + square, low)
            high, low = sorted_sum(high, low)
        return high, is_near & rounds_alike(high, low, _off(n))

    return write


WITH = {0.5: _root, **{float(n): _whole(n) for n in (2, 3, 4)}}
"""Writers of powers by exponent."""
