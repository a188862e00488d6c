"""Building blocks of functions of floats: polynomials, multiples, powers of two."""

from __future__ import annotations

from collections.abc import Sequence

from . import avx512
from .registers import Register
from .writer import Writer

MANTISSA = {"float": 23, "double": 52}
"""Bits of the mantissa."""
BIAS = {"float": 127, "double": 1023}
"""The bias of exponents."""


def polynomial(
    writer: Writer, x: Register, coefficients: Sequence[float], chains: int = 1
) -> Register:
    """Evaluate a polynomial by Horner's rule, coefficients from power 0 up.

    `chains`: 2 for even powers beside odd ones, which is quicker for many, and less accurate.
    """
    if chains == 2:
        square = x * x
        even, odd = (polynomial(writer, square, coefficients[k::2]) for k in range(2))
        return writer.fma(odd, x, even)
    *rest, last = coefficients
    found = writer.constant(last, x.type)
    for c in reversed(rest):
        found = writer.fma(found, x, c)
    return found


def nearest_multiple(
    writer: Writer, x: Register, factor: float, more: int = 0, parts: int = 1
) -> tuple[Register, Register]:
    """The whole number `n` next to ``x * factor``, and ``n + more`` in the low bits of integers.

    For less than a quarter of what floats can count. Adding a number that leaves no bit for
    fractions rounds. With `parts`, a power of two, the nearest multiple of one part, and parts are
    counted.
    """
    shift = 1.5 * 2.0 ** MANTISSA[x.type.element] / parts + more
    moved = writer.fma(x, factor, shift)
    return moved - shift, writer.bitcast(moved, x.type.integer.element)


def power_of_two(writer: Writer, exponent: Register, element: str) -> Register:
    """``2 ** (exponent - bias)``: of integers whose other bits are cut off."""
    return writer.bitcast(exponent << MANTISSA[element], element)


def scaled(writer: Writer, x: Register, n: Register, bits: Register | None = None) -> Register:
    """``x * 2**n`` for whole numbers `n` up to twice the range of exponents.

    `bits`: integers with ``n + 2 * bias`` in the low bits, where they are known.
    """
    if avx512.is_whole(writer, x.type):
        return avx512.scaled(writer, x, n)
    # in two steps: the power itself may be out of range
    element = x.type.element
    if bits is None:
        shift = 1.5 * 2.0 ** MANTISSA[element] + 2 * BIAS[element]
        bits = writer.bitcast(n + shift, x.type.integer.element)
    half = writer.binary("", "lshr", bits, 1)
    x = x * power_of_two(writer, half, element)
    return x * power_of_two(writer, bits - half, element)
