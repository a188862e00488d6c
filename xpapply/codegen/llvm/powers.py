"""Powers, by logarithms of more precision than the result has."""

from __future__ import annotations

import math

from .conversions import rint
from .exponentials import clipped, exp
from .extended import Pair, pair, product_of, product_of_pairs, sum_of_sorted
from .logarithms import LN2, fraction_and_exponent
from .polynomials import polynomial
from .writer import Register, Writer

_ATANH = {
    "float": (0.4000039007824756, 0.28525717959668745, 0.23870829805534768),
    "double": (
        0.39999999999999725, 0.2857142857157722, 0.22222222191267682, 0.18181821524169559,
        0.15384406741435677, 0.1334114203219456, 0.11592391947383754, 0.1257124604606107,
    ),
}  # fmt: skip
"""``(log(1 + f) / s - 2 - 2 / 3 * s**2) / s**4`` in powers of ``s**2``, ``s = f / (2 + f)``."""
_TWO_THIRDS = {
    "float": (0.6666666865348816, -1.9868215517249155e-08),
    "double": (0.6666666666666666, 3.700743415417188e-17),
}
_LN2 = {
    "float": LN2["float"],
    "double": (0.6931471805598903, 5.497923018708371e-14),
}
"""As sums of two; products of the first part and of exponents are exact."""


def _precise_log(writer: Writer, x: Register) -> Pair:
    """The logarithm of positive numbers as a sum of two, with 10 bits more than one has."""
    element = x.type.element
    f, e = fraction_and_exponent(writer, x)
    # s = f / (2 + f)
    below, off = sum_of_sorted(writer.constant(2.0, x.type), f)
    inverse = 1.0 / below
    s = f * inverse
    product, lost = product_of(writer, s, below)
    s_pair = s, (((f - product) - lost) - s * off) * inverse
    z = product_of_pairs(writer, s_pair, s_pair)
    tail = z[0] * polynomial(writer, z[0], _ATANH[element])
    upper, lower = pair(writer, *_TWO_THIRDS[element], x)
    upper, rest = sum_of_sorted(upper, tail)
    series = product_of_pairs(writer, z, (upper, rest + lower))
    series = product_of_pairs(writer, s_pair, series)
    upper, rest = sum_of_sorted(s + s, series[0])
    rest = rest + writer.fma(s_pair[1], 2.0, series[1])
    high, low = _LN2[element]
    total, lost = sum_of_sorted(e * high, upper)
    return sum_of_sorted(total, lost + writer.fma(e, low, rest))


def pow(writer: Writer, x: Register, y: Register) -> Register:
    """`x` to the power of `y`; at most 1.4 ulp off."""
    lanes = max(x.type.lanes, y.type.lanes)
    x, y = writer.broadcast(x, lanes), writer.broadcast(y, lanes)
    # what is larger still would be whole, and overflow, too; and its parts in products
    limit = 1e30 if x.type.element == "float" else 1e290
    y = clipped(writer, y, -limit, limit)
    size = writer.abs(x)
    upper, lower = _precise_log(writer, size)
    upper = writer.select(size < math.inf, upper, size)
    upper = writer.select(x.eq(0.0), -math.inf, upper)
    found = _exp_of_product(writer, y, (upper, lower))
    # signs, and what has no logarithm
    whole = rint(writer, y).eq(y)
    half = y * 0.5
    odd = whole & rint(writer, half).ne(half)
    negative = writer.compare("", "slt", writer.bitcast(x, x.type.integer.element), 0)
    found = writer.select(negative & odd, -found, found)
    found = writer.select((x < 0.0) & (x > -math.inf) & ~whole, math.nan, found)
    return writer.select(x.eq(1.0) | y.eq(0.0), 1.0, found)


def _exp_of_product(writer: Writer, y: Register, log: Pair) -> Register:
    """``exp(y * log)``."""
    upper, lower = log
    power = y * upper
    # what comes of infinity is NaN, and beyond the range of exp nothing counts
    inside = writer.abs(power) < (120.0 if y.type.element == "float" else 800.0)
    _, off = product_of(writer, writer.select(inside, y, 0.0), upper)
    off = writer.select(inside, writer.fma(y, lower, off), 0.0)
    return exp(writer, power, off)
