"""Exponentials and hyperbolic functions.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

import math
from decimal import Decimal

from . import avx512
from .polynomials import BIAS, MANTISSA, nearest_multiple, polynomial, power_of_two, scaled
from .registers import Register
from .tables import entry
from .writer import Writer

_LN2 = {
    "float": (0.693359375, -2.12194440e-4),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}
"""The logarithm of 2 as a sum: products of the first part and of exponents are exact."""
_EXPM1 = {
    "float": (0.4999999814148879, 0.16666543064964814, 0.04166720226679107,
              0.008366595612963965, 0.001388250782878935),
    "double": (0.5, 0.16666666666666677, 0.041666666666666505, 0.008333333333321586,
               0.0013888888888962995, 0.00019841269886270875, 2.480158717173628e-05,
               2.7557244034177e-06, 2.7557402961713987e-07, 2.510910791587687e-08,
               2.0875343807100984e-09),
}  # fmt: skip
"""``(exp(r) - 1 - r) / r**2`` up to ln(2) / 2."""
_EXPM1_SMALL = (
    0.5000000000000006, 0.16666666664417007, 0.04166666665961532, 0.008333471950374063,
    0.0013889129580020882,
)  # fmt: skip
"""Coefficients up to ln(2) / 32, for doubles."""
_SIXTEENTHS = [Decimal(2) ** (Decimal(k) / 16) for k in range(16)]
_POWERS_OF_2 = [float(p) for p in _SIXTEENTHS]
_LOST_OF_THEM = [float(p - Decimal(float(p))) for p in _SIXTEENTHS]
_EXP_RANGE = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
"""The bound beyond which the exponential is 0 or infinite."""


def clipped(writer: Writer, x: Register, low: float | None, high: float | None) -> Register:
    """`x` within limits; NaN stays."""
    if high is not None:
        x = writer.select(x > high, high, x)
    return x if low is None else writer.select(x < low, low, x)


def reduced(
    writer: Writer, x: Register, more: int = 0, factor: float = 1.0, parts: int = 1
) -> tuple[Register, Register, Register]:
    """``x - n * ln(2) / factor``, the least of them, `n`, and `n` + `more` in low bits.

    `parts`: as `nearest_multiple` has it.
    """
    n, bits = nearest_multiple(writer, x, factor / math.log(2), more, parts)
    for part in _LN2[x.type.element]:
        x = writer.fma(n, -part / factor, x)
    return x, n, bits


def expm1_of_rest(writer: Writer, rest: Register) -> Register:
    """``exp(rest) - 1`` up to ln(2) / 2."""
    return writer.fma(rest * rest, polynomial(writer, rest, _EXPM1[rest.type.element]), rest)


def exp(writer: Writer, x: Register, off: Register | None = None) -> Register:
    """The exponential of `x`, or of ``x + off`` for a small `off`; at most 1.2 ulp off.

    With `off` nearly rounded correctly.
    """
    element = x.type.element
    x = clipped(writer, x, *_EXP_RANGE[element])
    by_table = element == "double" and avx512.is_whole(writer, x.type)
    rest, n, bits = reduced(writer, x, 2 * BIAS[element], parts=16 if by_table else 1)
    rest = rest if off is None else rest + off
    if by_table:
        power = entry(writer, _POWERS_OF_2, bits)
        more = writer.fma(rest * rest, polynomial(writer, rest, _EXPM1_SMALL), rest)
        lost = entry(writer, _LOST_OF_THEM, bits)
        return avx512.scaled(writer, power + writer.fma(power, more, lost), n)
    found = polynomial(writer, rest, (1.0, 1.0, *_EXPM1[element]))
    return scaled(writer, found, n, bits)


def half_of_expm1(writer: Writer, x: Register) -> Register:
    """``(exp(x) - 1) / 2``, for what does not overflow; 0 has no sign."""
    element = x.type.element
    rest, _, bits = reduced(writer, x, BIAS[element] - 1)
    half = power_of_two(writer, bits, element)
    return writer.fma(half, expm1_of_rest(writer, rest), half - 0.5)


def expm1(writer: Writer, x: Register) -> Register:
    """``exp(x) - 1`` without cancellation; at most 2 ulp off."""
    element = x.type.element
    low = -(MANTISSA[element] + 3) * math.log(2)
    half = half_of_expm1(writer, clipped(writer, x, low, _EXP_RANGE[element][1]))
    tiny = 2.0 ** -(MANTISSA[element] + 2)
    return writer.select(writer.abs(x) < tiny, x, half + half)


def _half_of_exp(writer: Writer, x: Register) -> Register:
    """``exp(x) / 2`` for positive numbers; that of infinity is infinite."""
    element = x.type.element
    x = clipped(writer, x, None, _EXP_RANGE[element][1] + 1.5)
    rest, n, bits = reduced(writer, x, 2 * BIAS[element])
    found = polynomial(writer, rest, (1.0, 1.0, *_EXPM1[element]))
    return scaled(writer, found, n - 1.0, bits - 1)


_SINH = {
    "float": (0.1666666649756116, 0.008333350058157078, 0.0001983615978081321,
              2.8169512104615564e-06),
    "double": (0.16666666666666666, 0.008333333333333333, 0.000198412698412696,
               2.755731922411629e-06, 2.5052108346509154e-08, 1.6059050601252225e-10,
               7.646482895809086e-13, 2.848233020140584e-15),
}  # fmt: skip
"""sinh up to 1, like sin."""


def sinh(writer: Writer, x: Register) -> Register:
    """Hyperbolic sine; at most 1.7 ulp off."""
    size = writer.abs(x)
    half = _half_of_exp(writer, size)
    large = writer.copysign(half - 0.25 / half, x)
    small = x * polynomial(writer, x * x, (1.0, *_SINH[x.type.element]))
    return writer.select(size < 1.0, small, large)


def cosh(writer: Writer, x: Register) -> Register:
    """Hyperbolic cosine; at most 1.6 ulp off."""
    half = _half_of_exp(writer, writer.abs(x))
    return half + 0.25 / half


def tanh(writer: Writer, x: Register) -> Register:
    """Hyperbolic tangent; at most 2.5 ulp off."""
    element = x.type.element
    size = clipped(writer, writer.abs(x), None, 9.5 if element == "float" else 19.5)
    # (exp(2 x) - 1) / 2, with the factor in the constants
    rest, _, bits = reduced(writer, size, BIAS[element], 2.0)
    power = power_of_two(writer, bits, element)
    coefficients = [2.0 ** (k + 1) * c for k, c in enumerate(_EXPM1[element])]
    small = writer.fma(rest * rest, polynomial(writer, rest, coefficients), rest)
    half = writer.fma(power, small, writer.fma(power, 0.5, -0.5))
    return writer.copysign(half / (half + 1.0), x)
