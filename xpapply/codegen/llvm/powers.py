"""Powers, by logarithms of more precision than the result has."""

from __future__ import annotations

import math

from .conversions import rint
from .exponentials import exp
from .extended import Pair, pair, product_of, product_of_pairs, sum_of, sum_of_sorted
from .logarithms import fraction_and_exponent, log, normal_numbers
from .polynomials import polynomial
from .writer import Register, Writer

_ATANH = (
    0.40000000000002256, 0.2857142857010004, 0.22222222519828885, 0.1818178437618779,
    0.1538675687957086, 0.13256828969824572, 0.13196218661924594,
)  # fmt: skip
"""``(log(1 + f) / s - 2 - 2 / 3 * s**2) / s**4`` in powers of ``s**2``, ``s = f / (2 + f)``."""
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_LN2 = (0.6931471805598903, 5.497923018708371e-14)
"""As sums of two; products of the first part of the second and of exponents are exact."""


def _precise_log(writer: Writer, x: Register) -> Pair:
    """The logarithm of positive doubles, to 66 bits and more."""
    normal, more = normal_numbers(writer, x)
    f, e, _ = fraction_and_exponent(writer, normal)
    e = e + more
    # s = f / (2 + f)
    below, off = sum_of_sorted(writer.constant(2.0, x.type), f)
    s = f / below
    product, lost = product_of(writer, s, below)
    s_pair = s, (((f - product) - lost) - s * off) / below
    z = product_of_pairs(writer, s_pair, s_pair)
    tail = z[0] * polynomial(writer, z[0], _ATANH)
    upper, lower = pair(writer, *_TWO_THIRDS, x)
    upper, rest = sum_of_sorted(upper, tail)
    series = product_of_pairs(writer, z, (upper, rest + lower))
    series = product_of_pairs(writer, s_pair, series)
    upper, rest = sum_of_sorted(s * 2.0, series[0])
    rest = rest + (s_pair[1] * 2.0 + series[1])
    total, lost = sum_of(e * _LN2[0], upper)
    return sum_of_sorted(total, lost + writer.fma(e, _LN2[1], rest))


def pow(writer: Writer, x: Register, y: Register) -> Register:
    """`x` to the power of `y`; at most 1.2 ulp off."""
    lanes = max(x.type.lanes, y.type.lanes)
    x, y = writer.broadcast(x, lanes), writer.broadcast(y, lanes)
    element = x.type.element
    if element == "float":
        x, y = writer.cast(x, "double"), writer.cast(y, "double")
    size = writer.abs(x)
    lower = None
    if element == "float":
        upper = log(writer, size)
    else:
        upper, lower = _precise_log(writer, size)
        usual = (size > 0.0) & (size < math.inf)
        limit = writer.select(size.eq(0.0), -math.inf, size)
        upper = writer.select(usual, upper, limit)
    power, off = y * upper, None
    if lower is not None:
        # what comes of infinity is NaN, and beyond the range of exp nothing counts
        inside = writer.abs(power) < 800.0
        _, off = product_of(writer, writer.select(inside, y, 0.0), upper)
        off = writer.select(inside, writer.fma(y, lower, off), 0.0)
    found = exp(writer, power, off)
    # signs
    whole = rint(writer, y).eq(y)
    odd = whole & rint(writer, y * 0.5).ne(y * 0.5)
    negative = writer.compare("", "slt", writer.bitcast(x, "i64"), 0)
    found = writer.select(negative & odd, -found, found)
    nothing = (x < 0.0) & ~whole & (size < math.inf)
    found = writer.select(nothing, math.nan, found)
    one = x.eq(1.0) | y.eq(0.0) | (size.eq(1.0) & writer.abs(y).eq(math.inf))
    found = writer.select(one, 1.0, found)
    return writer.cast(found, element)
