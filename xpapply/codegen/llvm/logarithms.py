"""Logarithms.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

import math

from .extended import pair, product_of, product_of_pairs, sum_of, sum_of_sorted
from .polynomials import BIAS, MANTISSA, polynomial, power_of_two
from .writer import Register, Writer

_LN2 = {
    "float": (0.693359375, -2.12194440e-4),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}
"""The logarithm of 2 as a sum: products of the first part and of exponents are exact."""
_LOG = (
    0.33333331654906734, -0.2500082269676732, 0.20001233594516052, -0.16623299145408707,
    0.1420154886050945, -0.13160570928641388, 0.12763351195296915, -0.07635714802552762,
)  # fmt: skip
"""``(log(1 + f) - f + f**2 / 2) / f**3`` from ``sqrt(1 / 2)`` to ``sqrt(2)``, for floats."""
_ATANH = (
    0.6666666666666735, 0.39999999999413255, 0.2857142874273559, 0.22222198534486873,
    0.1818356648372235, 0.15313991791854292, 0.1479657167203636,
)  # fmt: skip
"""``(log(1 + f) / s - 2) / s**2`` in powers of ``s**2``, of ``s = f / (2 + f)``, for doubles."""

_LOG10_2 = (0.30102999566395283, 2.8363394551044964e-14)
"""The logarithm of 2 to base 10 likewise, for doubles."""
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
"""``1 / log(10)`` as a sum of two doubles."""


def normal_numbers(writer: Writer, x: Register) -> tuple[Register, float | Register]:
    """`x` without denormals, and what is added to exponents for that."""
    more = MANTISSA[x.type.element] + 1
    small = x < 2.0 ** (1 - BIAS[x.type.element])
    zero = writer.constant(0.0, x.type)
    return writer.select(small, x * 2.0**more, x), writer.select(small, float(-more), zero)


def fraction_and_exponent(writer: Writer, x: Register) -> tuple[Register, Register, Register]:
    """`f` and `e` of ``x == (1 + f) * 2**e``, and `e` + the bias as an integer.

    `f` is between ``sqrt(1 / 2) - 1`` and ``sqrt(2) - 1``; `x` is positive and not denormal.
    """
    element, integer = x.type.element, x.type.integer
    digits, bias = MANTISSA[element], BIAS[element]
    # bits of sqrt(1 / 2)
    lowest = 0x3F3504F3 if element == "float" else 0x3FE6A09E667F3BCD
    bits = writer.bitcast(x, integer.element) + ((bias << digits) - lowest)
    exponent = writer.binary("", "lshr", bits, digits)
    fraction = writer.bitcast((bits & ((1 << digits) - 1)) + lowest, element)
    counted = writer.bitcast(exponent | ((bias + digits) << digits), element)
    return fraction - 1.0, counted - float((1 << digits) + bias), exponent


def _of_fraction(writer: Writer, f: Register, e: Register | None = None) -> Register:
    """``log(1 + f) + e * log(2)``."""
    high, low = _LN2[f.type.element]
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


def _with_limits(writer: Writer, x: Register, found: Register) -> Register:
    """The logarithm of `x`, if `found` is that of positive numbers."""
    limit = writer.select(x > 0.0, x, writer.constant(math.nan, x.type))
    limit = writer.select(x.eq(0.0), -math.inf, limit)
    return writer.select((x > 0.0) & (x < math.inf), found, limit)


def log(writer: Writer, x: Register) -> Register:
    """Natural logarithm; at most 0.9 ulp off."""
    normal, more = normal_numbers(writer, x)
    f, e, _ = fraction_and_exponent(writer, normal)
    return _with_limits(writer, x, _of_fraction(writer, f, e + more))


def log1p(writer: Writer, x: Register) -> Register:
    """``log(1 + x)`` without cancellation; at most 1.5 ulp off."""
    element = x.type.element
    one = writer.constant(1.0, x.type)
    total, rest = sum_of(one, x)
    f, e, exponent = fraction_and_exponent(writer, total)
    # the rest counts as much more as the fraction does; half of it, as e may be 1 + the bias
    more = power_of_two(writer, 2 * BIAS[element] + 1 - exponent, element)
    f = writer.fma(rest * 0.5, more, f)
    found = _with_limits(writer, total, _of_fraction(writer, f, e))
    return writer.select(x.eq(0.0), x, found)


def log2(writer: Writer, x: Register) -> Register:
    """Logarithm to base 2; exact for powers of two, at most 1.8 ulp off."""
    normal, more = normal_numbers(writer, x)
    f, e, _ = fraction_and_exponent(writer, normal)
    found = writer.fma(_of_fraction(writer, f), 1 / math.log(2), e + more)
    return _with_limits(writer, x, found)


def log10(writer: Writer, x: Register) -> Register:
    """Logarithm to base 10; exact for powers of ten, at most 0.7 ulp off."""
    if x.type.element == "float":
        wide = writer.cast(x, "double")
        f, e, _ = fraction_and_exponent(writer, wide)
        found = _of_fraction(writer, f, e) * (1 / math.log(10))
        return _with_limits(writer, x, writer.cast(found, "float"))
    normal, more = normal_numbers(writer, x)
    f, e, _ = fraction_and_exponent(writer, normal)
    e = e + more
    # log(1 + f) as a sum of two
    s = f / (f + 2.0)
    z = s * s
    half, off = product_of(writer, f, f * 0.5)
    upper, lower = sum_of_sorted(f, -half)
    lower = lower - off + s * writer.fma(z, polynomial(writer, z, _ATANH), half)
    upper, rest = product_of_pairs(writer, (upper, lower), pair(writer, *_LOG10_E, x))
    total, lost = sum_of(e * _LOG10_2[0], upper)
    found = total + (lost + writer.fma(e, _LOG10_2[1], rest))
    return _with_limits(writer, x, found)
