"""The remainder of a division, which is a float: so whoever finds it has the same bits."""

from __future__ import annotations

from .doubles import Double

_TINY, _COUNT = 1023 - 400, 800
"""Biased exponents of the numbers for which nothing overflows or is denormal meanwhile."""
_MOST = 2.0**52


def fmod(x: Double, y: Double) -> tuple[Double, Double]:
    """``fmod(x, y)``: what is left of `x` after as many times `y` as a quotient says.

    That is rounded, so it may be one too many: then what is left has another sign than `x`.
    """
    are_near = _is_near(x) & _is_near(y)
    v, by = are_near.chosen(x.size(), 1.0), are_near.chosen(y.size(), 1.0)
    count = (v / by).cut()
    rest = (-count).fused(by, v)
    one_less = (-(count - 1.0)).fused(by, v)
    rest = rest.least(0.0).chosen(rest, one_less)
    return rest.signed(x), are_near & count.least(_MOST).opposite()


def _is_near(x: Double) -> Double:
    return (((x.bits() >> 52) & 0x7FF) - _TINY).below(_COUNT)
