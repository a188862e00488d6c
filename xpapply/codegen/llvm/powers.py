"""Powers, by logarithms of more precision than the result has.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal, localcontext

from . import avx512
from .conversions import rint
from .exponentials import clipped, exp
from .extended import Pair, product_of, sum_of_sorted
from .logarithms import mantissa_and_exponent
from .polynomials import MANTISSA, polynomial
from .registers import Register
from .tables import entry
from .writer import Writer

_LOG1P = {
    "float": (0.33333333482308797, -0.24999900676173537, 0.19999779048974745,
              -0.1673986196566251, 0.14376078006909723),
    "double": (0.33333333333333504, -0.25000000000000533, 0.19999999999369325,
               -0.16666666665343483, 0.1428571503116814, -0.12500001182967868,
               0.11110727793286512, -0.09999509561657911, 0.09180163034970958,
               -0.08429262795384708),
}  # fmt: skip
"""``(log(1 + f) - f + f**2 / 2) / f**3`` up to 1/16."""
_INVERSES = [n / 32 for n in (32, 30, 28, 26, 25, 24, 23, 22, 21, 20, 19, 19, 18, 17, 17, 16)]
"""Approximate inverses of each sixteenth from 1 to 2: short enough that products less 1 are exact;
those beside 1 and 2 avoid cancellation."""
_SHORT = {"float": 2.0**15, "double": 2.0**42}
"""Numbers that are multiples of the inverse of this are exact in products with exponents."""


@functools.cache
def _logarithms(element: str) -> list[tuple[float, float]]:
    """Logarithms of `_INVERSES`, without the sign, and of 2: short numbers and their errors."""
    found = []
    with localcontext(prec=60):
        for inverse in [*_INVERSES, 0.5]:
            exact = -Decimal(inverse).ln()
            near = round(float(exact) * _SHORT[element]) / _SHORT[element]
            found.append((near, float(exact - Decimal(near))))
    return found


def _precise_log(writer: Writer, x: Register) -> Pair:
    """The logarithm of what is not negative as a sum of two, with 10 bits more than one has.

    After Tang 1990, doi 10.1145/98267.98294. The second part is NaN where the first is infinite.
    """
    element, integer = x.type.element, x.type.integer.element
    *logarithms, ln2 = _logarithms(element)
    m, e = mantissa_and_exponent(writer, x, least=1.0)
    k = writer.binary("", "lshr", writer.bitcast(m, integer), MANTISSA[element] - 4)
    inverse = entry(writer, _INVERSES, k)
    high, low = (entry(writer, numbers, k) for numbers in zip(*logarithms, strict=True))
    if writer.target.fma:
        f = writer.fma(m, inverse, -1.0)
    else:
        near, rest = product_of(writer, m, inverse)
        f = (near - 1.0) + rest
    total, first = sum_of_sorted(writer.fma(e, ln2[0], high), f)
    square, off = product_of(writer, f, f)
    total, second = sum_of_sorted(total, square * -0.5)
    series = polynomial(writer, f, _LOG1P[element], chains=2)
    rest = writer.fma(off, -0.5, (f * square) * series)
    upper, lower = sum_of_sorted(total, ((first + second) + rest) + writer.fma(e, ln2[1], low))
    if avx512.is_whole(writer, x.type):
        return writer.select(writer.abs(e).eq(math.inf), e, upper), lower
    upper = writer.select(x < math.inf, upper, x)
    return writer.select(x.eq(0.0), -math.inf, upper), lower


def pow(writer: Writer, x: Register, y: Register) -> Register:
    """`x` to the power of `y`; at most 1.4 ulp off."""
    lanes = max(x.type.lanes, y.type.lanes)
    x, y = writer.broadcast(x, lanes), writer.broadcast(y, lanes)
    # what is larger still would be whole, and overflow, too; and its products
    limit = 1e30 if x.type.element == "float" else 1e290
    y = clipped(writer, y, -limit, limit)
    found = _exp_of_product(writer, y, _precise_log(writer, writer.abs(x)))
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
    power, off = product_of(writer, y, upper)
    # what comes of infinity is NaN, and beyond the range of exp nothing counts
    inside = writer.abs(power) < (120.0 if y.type.element == "float" else 800.0)
    return exp(writer, power, writer.select(inside, writer.fma(y, lower, off), 0.0))
