"""Rounding to whole numbers, and numbers of other types, where a CPU has no instruction for it."""

from __future__ import annotations

from .registers import Register, Type
from .writer import Writer

# --- rounding ---------------------------------------------------------------------------


def floor(writer: Writer, x: Register) -> Register:
    """The largest whole number not above `x`."""
    if writer.target.fma:
        return writer.intrinsic("floor", x)
    near = rint(writer, x)
    return writer.copysign(writer.select(near > x, near - 1.0, near), x)


def ceil(writer: Writer, x: Register) -> Register:
    """The smallest whole number not below `x`."""
    if writer.target.fma:
        return writer.intrinsic("ceil", x)
    near = rint(writer, x)
    return writer.copysign(writer.select(near < x, near + 1.0, near), x)


def rint(writer: Writer, x: Register) -> Register:
    """The nearest whole number, the even one of two."""
    if writer.target.fma:
        return writer.intrinsic("rint", x)
    # numbers beyond this have no fraction, and what is added to it loses its own
    whole = 2.0**23 if x.type.element == "float" else 2.0**52
    size = writer.abs(x)
    near = writer.copysign((size + whole) - whole, x)
    return writer.select(size < whole, near, x)


# --- other types ------------------------------------------------------------------------


def to_uint64(writer: Writer, x: Register) -> Register:
    """Floats without their fractions, as whole numbers without a sign."""
    half = 2.0**63
    below = writer.cast(x, "i64")
    above = writer.cast(x - half, "i64") ^ -(2**63)
    return writer.select(x >= half, above, below)


def from_half(writer: Writer, x: Register) -> Register:
    """float16 or bfloat16 as float."""
    lanes = x.type.lanes
    bits = writer.cast(writer.bitcast(x, "i16"), "i32", signed=False)
    if x.type.element == "bfloat":
        return writer.bitcast(bits << 16, "float")
    if writer.target.fma:
        return writer.cast(x, "float")
    # the exponent moves by a product, which makes numbers of denormals, too
    size = writer.bitcast((bits & 0x7FFF) << 13, "float") * 2.0**112
    infinite = writer.constant(0x7F800000, Type("i32", lanes))
    found = writer.bitcast(size, "i32")
    found = writer.select(size >= 65536.0, found | infinite, found)
    return writer.bitcast(found | ((bits & 0x8000) << 16), "float")


def to_half(writer: Writer, x: Register, element: str) -> Register:
    """Floats as float16 ("half") or bfloat16 ("bfloat"), to the nearest."""
    if element == "half" and writer.target.fma:
        return writer.cast(x, "half")
    bits = writer.bitcast(x, "i32")
    found = _as_bfloat(writer, x) if element == "bfloat" else _as_half(writer, x)
    if element == "half":
        found = found | (writer.binary("", "lshr", bits, 16) & 0x8000)
    return writer.bitcast(writer.cast(found, "i16"), element)


def _as_bfloat(writer: Writer, x: Register) -> Register:
    """The bits of bfloat16, in the lower half."""
    bits = writer.bitcast(x, "i32")
    odd = writer.binary("", "lshr", bits, 16) & 1
    near = writer.binary("", "lshr", bits + odd + 0x7FFF, 16)
    quiet = writer.binary("", "lshr", bits, 16) | 0x40
    return writer.select(writer.is_nan(x), quiet, near)


def _as_half(writer: Writer, x: Register) -> Register:
    """The bits of float16 without the sign, in the lower half."""
    size = writer.abs(x)
    bits = writer.bitcast(size, "i32")
    odd = writer.binary("", "lshr", bits, 13) & 1
    usual = writer.binary("", "lshr", bits + odd + (0xFFF - (112 << 23)), 13)
    # adding 0.5 leaves no more bits than denormals have
    small = writer.bitcast(size + 0.5, "i32") - 0x3F000000
    found = writer.select(size < 2.0**-14, small, usual)
    found = writer.select(size >= 65520.0, writer.constant(0x7C00, bits.type), found)
    return writer.select(writer.is_nan(x), writer.constant(0x7E00, bits.type), found)


def rounded_to_half(writer: Writer, x: Register, element: str) -> Register:
    """Floats with the precision of "half" or "bfloat"."""
    if element == "bfloat":
        return writer.bitcast(_as_bfloat(writer, x) << 16, "float")
    return from_half(writer, to_half(writer, x, element))


def rounded_to_odd(writer: Writer, x: Register) -> Register:
    """Doubles as floats that, rounded once more, are what one rounding would have made."""
    near = writer.cast(x, "float")
    size = writer.abs(near)
    above = writer.abs(writer.cast(near, "double")) > writer.abs(x)
    inexact = writer.cast(near, "double").ne(x)
    bits = writer.bitcast(size, "i32")
    bits = writer.select(above, bits - 1, bits)
    bits = writer.select(inexact, bits | 1, bits)
    odd = writer.copysign(writer.bitcast(bits, "float"), near)
    return writer.select(writer.is_nan(near), near, odd)
