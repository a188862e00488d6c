"""The exponential and the logarithm, to ten bits more than a float has.

Coefficients are those of the polynomials through Chebyshev's points, in 60 digits.
"""

from __future__ import annotations

import functools
from decimal import Decimal, localcontext
from fractions import Fraction

from ..function import FunctionWriter
from .doubles import Double, entry, in_two, rounds_alike, sorted_sum

_OFF_EXP = 0.518
"""Units in the last place that glibc's ``exp`` is off by at most, 0.511 (0.509 where it multiplies
and adds in one instruction; sysdeps/ieee754/dbl-64/e_exp.c, from 2.28 on), and what is computed
here, 0.006 (2**-61.5 for its largest part, and as much for all others)."""
_OFF_LOG, _OFF_FAR = 0.524, 0.508
"""Error bounds of ``log``: 0.520 (e_log.c), and 0.004. The error before the last rounding is as
large for all numbers: an eighth of 0.02 from 1/2 on, where the last place is worth more."""
_PARTS = 128
_EXP = (0.4999999999999907, 0.16666666666666533, 0.041666676850831016, 0.008333334788213917)
"""``(exp(r) - 1 - r) / r**2`` up to ln(2) / 256, to 2**-63.6 of exp(r)."""
_LOG = (
    0.3333333333333353, -0.2500000000000018, 0.19999999957136455, -0.16666666628089405,
    0.14287094557588684, -0.1250124224644051,
)  # fmt: skip
"""``(log(1 + r) - r + r**2 / 2) / r**3`` up to 0.0091, to 2**-69 of a logarithm."""
_INVERSE = (3.9999939991023346, -5.878612187111017, 3.7645673828663146, -0.8872874653039783)
"""``1 / m`` from the square root of 1/2 to that of 2, to 1/400; of 1 to 1/700."""
_WHOLE = 1.5 * 2.0**52
"""The number whose addition rounds to a whole number, held in the low bits."""
_TINY, _LARGE = 1023 - 60, 1023 + 9
"""Biased exponents of arguments for which no intermediate is denormal."""
_SQRT_HALF = 0x3FE6A09E00000000
"""The bits of a number beside the square root of 1/2."""
_FIRST, _LAST = 90, 182
"""Whole numbers near 128 / m, for m from there to twice as much."""


@functools.cache
def _ln2() -> Fraction:
    with localcontext(prec=60):
        return Fraction(Decimal(2).ln())


def _short(x: Fraction, bits: int) -> tuple[float, float]:
    """A number as a multiple of ``2**-bits``, and what that is off by."""
    high = Fraction(round(x * 2**bits), 2**bits)
    return float(high), float(x - high)


@functools.cache
def _powers() -> list[tuple[float, float]]:
    with localcontext(prec=60):
        return [in_two(Fraction(Decimal(2) ** (Decimal(k) / _PARTS))) for k in range(_PARTS)]


@functools.cache
def _logarithms() -> list[tuple[float, float]]:
    """Logarithms of 128 / n, whose first part can be added exactly to multiples of ln(2)'s."""
    with localcontext(prec=60):
        return [
            _short(Fraction((Decimal(128) / n).ln()), 42) if n != 128 else (0.0, 0.0)
            for n in range(_FIRST, _LAST + 1)
        ]


def exp(w: FunctionWriter, x: Double) -> tuple[Double, Double]:
    """``2**(k / 128) * (1 + (exp(r) - 1))``: of what is small the last bits count little."""
    exponent = (x.bits() >> 52) & 0x7FF
    is_near = (exponent - _TINY).below(_LARGE - _TINY)
    v = is_near.chosen(x, 1.0)
    high_part, low_part = _short(_ln2() / _PARTS, 43)
    moved = v.fused(float(_PARTS / _ln2()), _WHOLE)
    n = moved - _WHOLE
    r = n.fused(-low_part, n.fused(-high_part, v))
    square = r * r
    p = r.polynomial(_EXP, square).fused(square, r)
    k = moved.bits()
    part = k & (_PARTS - 1)
    power, rest = entry(w, "powers", _powers(), part)
    high, low = sorted_sum(power, power.fused(p, rest))
    known = is_near & rounds_alike(high, low, _OFF_EXP)
    scaled = high.bits() + ((k - part) << 45)
    return scaled.of_bits(), known


def log(w: FunctionWriter, x: Double) -> tuple[Double, Double]:
    """``k * ln(2) + log(128 / n) + log(1 + r)``, where r has no rounding error.

    n is 128 beside 1, so that nothing else is left there.
    """
    bits = x.bits()
    normal = 1 << 52
    is_near = (bits - normal).below(0x7FE << 52)
    v = is_near.chosen(x, 1.0).bits()
    far = (v - _SQRT_HALF + (1023 << 52)) >> 52
    m = (v - (far << 52) + (1023 << 52)).of_bits()
    # a whole number as the last bits of a float
    k = (far + 0x4330000000000000).of_bits() - (2.0**52 + 1023)
    moved = m.polynomial(_INVERSE, m * m) + _WHOLE / 128
    r = m.fused(moved - _WHOLE / 128, -1.0)
    high_ln2, low_ln2 = _short(_ln2(), 42)
    at = (moved.bits() & 0xFFF) - _FIRST
    high_log, low_log = entry(w, "logarithms", _logarithms(), at)
    first = k.fused(high_ln2, high_log)
    total, lost = sorted_sum(first, r)
    square = r * r
    rest = (square * r).fused(r.polynomial(_LOG, square), lost + k.fused(low_ln2, low_log))
    high, low = sorted_sum(total, (r * -0.5).fused(r, rest))
    return high, is_near & rounds_alike(high, low, _OFF_LOG, (0.5, _OFF_FAR))
