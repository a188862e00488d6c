"""Logarithms.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

import math

from . import avx512
from .extended import pair, product_of, product_of_pairs, sum_of, sum_of_sorted
from .polynomials import BIAS, MANTISSA, polynomial, power_of_two
from .registers import Register
from .writer import Writer

LN2 = {
    "float": (0.693145751953125, 1.428606765330187e-06),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}
"""The logarithm of 2 as a sum: products of the first part and of exponents are exact."""
_LOG = (
    0.3333344914091305, -0.25000095954240015, 0.1999085976437309, -0.16647305465089962,
    0.14478405487202606, -0.1316128153393863, 0.10463153237964272, -0.04507530800541688,
)  # fmt: skip
"""``(log(1 + f) - f + f**2 / 2) / f**3`` from -1/4 to 1/2, for floats."""
_ATANH = (
    0.6666666666667271, 0.39999999996160995, 0.2857142939541629, 0.22222138490955629,
    0.18186356512290486, 0.15250179584020526, 0.1536826179110147,
)  # fmt: skip
"""``(log(1 + f) / s - 2) / s**2`` in powers of ``s**2``, of ``s = f / (2 + f)``, for doubles."""
_LOG10_2 = (0.30102999566395283, 2.8363394551044964e-14)
"""The logarithm of 2 to base 10 likewise, for doubles."""
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
"""``1 / log(10)`` as a sum of two doubles."""


def fraction_and_exponent(writer: Writer, x: Register) -> tuple[Register, Register]:
    """`f` from -1/4 to 1/2 and `e` of ``x == (1 + f) * 2**e``, of positive numbers.

    With AVX-512 `e` is infinite where `x` is, -inf of zero, and `f` is NaN of negative numbers.
    """
    m, e = mantissa_and_exponent(writer, x)
    f = m - 1.0
    if avx512.is_whole(writer, x.type):
        e = writer.select(f < 0.0, e + 1.0, e)
    return f, e


def mantissa_and_exponent(
    writer: Writer, x: Register, least: float = 0.75
) -> tuple[Register, Register]:
    """`m` from 0.75 to 1.5, or from 1 to 2, and `e` of ``x == m * 2**e``, of positive numbers.

    With AVX-512 `e` is one too small where `m` is below 1, and infinite as above.
    """
    if avx512.is_whole(writer, x.type):
        return avx512.mantissa(writer, x, least), avx512.exponent(writer, x)
    more = MANTISSA[x.type.element] + 1
    denormal = x < 2.0 ** (1 - BIAS[x.type.element])
    zero = writer.constant(0.0, x.type)
    m, e, _ = _of_normal(writer, writer.select(denormal, x * 2.0**more, x), least)
    return m, e + writer.select(denormal, float(-more), zero)


def _of_normal(
    writer: Writer, x: Register, least: float = 0.75
) -> tuple[Register, Register, Register]:
    """The same for normal numbers, and `e` + the bias as an integer."""
    element, integer = x.type.element, x.type.integer
    digits, bias = MANTISSA[element], BIAS[element]
    lowest = (bias << digits) - ((1 << (digits - 1)) if least < 1 else 0)  # bits of `least`
    bits = writer.bitcast(x, integer.element) + ((bias << digits) - lowest)
    exponent = writer.binary("", "lshr", bits, digits)
    fraction = writer.bitcast((bits & ((1 << digits) - 1)) + lowest, element)
    counted = writer.bitcast(exponent | ((bias + digits) << digits), element)
    return fraction, counted - float((1 << digits) + bias), exponent


def _of_fraction(writer: Writer, f: Register, e: Register | None = None) -> Register:
    """``log(1 + f) + e * log(2)``."""
    high, low = LN2[f.type.element]
    square = f * f
    half = square * 0.5
    if f.type.element == "float":
        found = (f * square) * polynomial(writer, f, _LOG)
    else:
        s = f / (f + 2.0)
        z = s * s
        found = s * writer.fma(z, polynomial(writer, z, _ATANH), half)
    if e is not None:
        found = writer.fma(e, low, found)
    found = f - (half - found)
    return found if e is None else writer.fma(e, high, found)


def _with_limits(writer: Writer, x: Register, found: Register, *, anyway: bool = False) -> Register:
    """The logarithm of `x`, if `found` is that of positive numbers.

    With AVX-512 nothing is left to do, unless `anyway`.
    """
    if avx512.is_whole(writer, x.type) and not anyway:
        return found
    limit = writer.select(x > 0.0, x, writer.constant(math.nan, x.type))
    limit = writer.select(x.eq(0.0), -math.inf, limit)
    return writer.select((x > 0.0) & (x < math.inf), found, limit)


def log(writer: Writer, x: Register) -> Register:
    """Natural logarithm; at most 0.9 ulp off."""
    return _with_limits(writer, x, _of_fraction(writer, *fraction_and_exponent(writer, x)))


def log1p(writer: Writer, x: Register) -> Register:
    """``log(1 + x)`` without cancellation; at most 1.5 ulp off."""
    element = x.type.element
    one = writer.constant(1.0, x.type)
    total, rest = sum_of(one, x)
    # the rest counts as much more as the fraction does
    if avx512.is_whole(writer, x.type):
        f, e = fraction_and_exponent(writer, total)
        f = f + avx512.scaled(writer, rest, -e)
    else:
        m, e, exponent = _of_normal(writer, total)
        f = m - 1.0
        # half of it, as e may be 1 + the bias
        more = power_of_two(writer, 2 * BIAS[element] + 1 - exponent, element)
        f = writer.fma(rest * 0.5, more, f)
    found = _with_limits(writer, total, _of_fraction(writer, f, e), anyway=True)
    # with its sign and all its digits, where it is next to nothing
    return writer.select(writer.abs(x) < 2.0 ** -(MANTISSA[element] + 2), x, found)


def log2(writer: Writer, x: Register) -> Register:
    """Logarithm to base 2; exact for powers of two, at most 1.9 ulp off."""
    f, e = fraction_and_exponent(writer, x)
    natural, factor = _of_fraction(writer, f), writer.constant(1 / math.log(2), x.type)
    found = writer.fma(natural, factor, e)
    if not writer.target.fma:  # the product, rounded, would be more off than the sum
        total, off = product_of(writer, natural, factor)
        found = (e + total) + off
    return _with_limits(writer, x, found)


def log10(writer: Writer, x: Register) -> Register:
    """Logarithm to base 10; exact for powers of ten, at most 0.8 ulp off."""
    if x.type.element == "float":
        f, e = fraction_and_exponent(writer, writer.cast(x, "double"))
        found = _of_fraction(writer, f, e) * (1 / math.log(10))
        return _with_limits(writer, x, writer.cast(found, "float"), anyway=True)
    f, e = fraction_and_exponent(writer, x)
    # log(1 + f) as a sum of two
    s = f / (f + 2.0)
    z = s * s
    half, off = product_of(writer, f, f * 0.5)
    upper, lower = sum_of_sorted(f, -half)
    lower = lower - off + s * writer.fma(z, polynomial(writer, z, _ATANH), half)
    upper, rest = product_of_pairs(writer, (upper, lower), pair(writer, *_LOG10_E, x))
    total, lost = sum_of(e * _LOG10_2[0], upper)
    found = total + (lost + writer.fma(e, _LOG10_2[1], rest))
    return _with_limits(writer, x, found, anyway=True)
