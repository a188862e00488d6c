"""Sine and cosine, to ten bits more than a float has.

Coefficients are those of the polynomials through Chebyshev's points, in 60 digits.
"""

from __future__ import annotations

import functools
from fractions import Fraction

from ..function import FunctionWriter
from .doubles import Double, entry, in_two, product, rounds_alike, sorted_sum

_OFF = (0.529, (0.25, 0.516), (0.5, 0.511))
"""Units in the last place that glibc's functions are off by at most, also of what is as large as
that, and what is computed here, 0.003. From 2.28 on (sysdeps/ieee754/dbl-64/s_sin.c) they add to a
sine or cosine from a table, which is above 1/8, what is below 2**-8: that is rounded three times,
to 2**-62 each, which is 0.024 units of what is below 1/4, half of that below 1/2, and so on. Below
1/8 they add x**3 / 6 to x, 0.0027 of it, rounded four times: 0.011 units."""
_PARTS = 128
"""Parts of a full turn whose sines are tabulated."""
_SIN = (-0.16666666666666666, 0.008333333332770617, -0.000198410207880214)
"""``(sin(r) / r - 1) / r**2`` in powers of ``r**2`` up to pi / 128, to 2**-65 of sin(r)."""
_COS = (-0.49999999999999983, 0.04166666666160223, -0.0013888664741272228)
"""``(cos(r) - 1) / r**2`` likewise, to 2**-63."""
_LEAST = 2.0**-20
"""Beside multiples of pi / 2 glibc is off by more: it has these to 2**-109."""
_WHOLE = 1.5 * 2.0**52
_TINY, _LARGE = 1023 - 26, 1023 + 15
"""Biased exponents of what they are computed of."""
_PI = Fraction(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
)
_FINE = 10**70


def _turned(k: int) -> tuple[int, int]:
    """Sine and cosine of a part, times `_FINE`."""
    angle = 2 * _PI * k / _PARTS
    sine, cosine, term, n = Fraction(0), Fraction(0), Fraction(1), 0
    while abs(term) * _FINE > 1:
        if n % 2:
            sine += term if n % 4 == 1 else -term
        else:
            cosine += term if n % 4 == 0 else -term
        n += 1
        term = Fraction(round(term * angle / n * _FINE), _FINE)
    return round(sine * _FINE), round(cosine * _FINE)


@functools.cache
def _sines() -> list[tuple[float, float]]:
    """Sines of all parts: the first eighth and its mirror images."""
    eighth = _PARTS // 8
    both = [_turned(k) for k in range(eighth + 1)]
    first = [s for s, _ in both] + [c for _, c in both[-2::-1]]  # to a quarter
    half = first + first[-2:0:-1]
    return [in_two(Fraction(x, _FINE)) for x in [*half, *(-x for x in half)]]


def _sine(w: FunctionWriter, x: Double, ahead: int) -> tuple[Double, Double]:
    """The sine of an argument and so many parts of a turn.

    ``S * cos(r) + C * sin(r)``, where S and C are sine and cosine of the nearest part.
    """
    exponent = (x.bits() >> 52) & 0x7FF
    is_near = (exponent - _TINY).below(_LARGE - _TINY)
    v = is_near.chosen(x, 1.0)
    part = 2 * _PI / _PARTS
    first = Fraction(round(part * 2**36), 2**36)  # multiples of it are exact
    second = Fraction(float(part - first))
    third = float(part - first - second)
    moved = v.fused(float(1 / part), _WHOLE)
    n = moved - _WHOLE
    near = n.fused(-float(first), v)
    far, far_low = product(n, n.constant(float(second)))
    # the difference and what it is off by: either may be the larger one (Knuth 1969)
    r = near - far
    back = r - near
    lost = (near - (r - back)) - (far + back)
    r_low = n.fused(-third, lost - far_low)
    square = r * r
    fourth = square * square
    sine = (square * r).fused(square.polynomial(_SIN, fourth), r_low)
    cosine = square * square.polynomial(_COS, fourth)
    k = moved.bits()
    s, s_low = entry(w, "sines", _sines(), (k + ahead) & (_PARTS - 1))
    if ahead:  # the sine is read in any case, where both are asked for
        c, c_low = (-y for y in entry(w, "sines", _sines(), k & (_PARTS - 1)))
    else:
        c, c_low = entry(w, "sines", _sines(), (k + _PARTS // 4) & (_PARTS - 1))
    most, most_low = product(c, r)
    total, lost = sorted_sum(s, most)
    rest = c.fused(sine, c_low.fused(r, most_low + s_low))
    rest = s.fused(cosine, rest + lost)
    high, low = sorted_sum(total, rest)
    is_near = is_near & high.size().least(_LEAST)
    return high, is_near & rounds_alike(high, low, *_OFF)


def sin(w: FunctionWriter, x: Double) -> tuple[Double, Double]:
    """``sin(x)``."""
    return _sine(w, x, 0)


def cos(w: FunctionWriter, x: Double) -> tuple[Double, Double]:
    """``cos(x)``."""
    return _sine(w, x, _PARTS // 4)
