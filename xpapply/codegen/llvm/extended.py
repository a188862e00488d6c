"""Numbers of twice the precision, as sums of two.

The sums and products are those of Dekker 1971, doi 10.1007/BF01397083, and Knuth, The Art of
Computer Programming 2, 4.2.2.
"""

from __future__ import annotations

from .registers import Register
from .writer import Writer

Pair = tuple[Register, Register]
"""A number and what it is off by."""


def sum_of(x: Register, y: Register) -> Pair:
    """``x + y``."""
    total = x + y
    rest = total - x
    return total, (x - (total - rest)) + (y - rest)


def sum_of_sorted(x: Register, y: Register) -> Pair:
    """``x + y``, where `x` has the larger exponent or is zero."""
    total = x + y
    return total, y - (total - x)


def _halves(x: Register) -> Pair:
    """`x` as a sum of two with half the bits each."""
    large = x * (4097.0 if x.type.element == "float" else 134217729.0)
    upper = large - (large - x)
    return upper, x - upper


def product_of(writer: Writer, x: Register, y: Register) -> Pair:
    """``x * y``; no part may overflow, nor be denormal."""
    total = x * y
    if writer.target.fma:
        return total, writer.fma(x, y, -total)
    (a, b), (c, d) = _halves(x), _halves(y)
    return total, ((a * c - total) + a * d + b * c) + b * d


def product_of_pairs(writer: Writer, x: Pair, y: Pair) -> Pair:
    """The product of two such numbers."""
    total, rest = product_of(writer, x[0], y[0])
    return total, writer.fma(x[0], y[1], writer.fma(x[1], y[0], rest))


def pair(writer: Writer, upper: float, lower: float, like: Register) -> Pair:
    """A constant."""
    return writer.constant(upper, like.type), writer.constant(lower, like.type)
