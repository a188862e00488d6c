"""Instructions of AVX-512 that LLVM has no name for that all CPUs know."""

from __future__ import annotations

from collections.abc import Sequence

from .registers import Register, Type
from .writer import Writer

_ROUND_AS_EVER = 4


def is_whole(writer: Writer, kind: Type) -> bool:
    """Whether vectors of a type are whole registers, or halves or quarters of one."""
    size = kind.lanes * kind.bits
    return writer.target.bits == 512 and (size in (128, 256) or size % 512 == 0)


def scaled(writer: Writer, x: Register, n: Register) -> Register:
    """``x * 2**n`` for whole numbers `n`."""
    return _call(writer, "scalef", [x, n])


def exponent(writer: Writer, x: Register) -> Register:
    """The largest whole number not above ``log2(|x|)``; -inf of zeros, inf of infinities."""
    return _call(writer, "getexp", [x])


def mantissa(writer: Writer, x: Register, least: float = 0.75) -> Register:
    """`x` by that power of two which makes it 0.75 ... 1.5, or 1 ... 2.

    1 of zeros and of infinity, NaN of negative numbers.
    """
    how = {0.75: 0b1111, 1.0: 0b1100}[least]
    return _call(writer, "getmant", [x], [writer.constant(how, Type("i32"))])


def _call(
    writer: Writer, name: str, operands: Sequence[Register], more: Sequence[Register] = ()
) -> Register:
    kind = operands[0].type
    size = min(512, kind.lanes * kind.bits)
    one = Type(kind.element, size // kind.bits)
    letters = "ps" if kind.element == "float" else "pd"
    rest = [*more, Register(writer, "poison", one)]
    rest.append(writer.constant(-1, Type(f"i{max(8, one.lanes)}")))
    if size == 512:
        rest.append(writer.constant(_ROUND_AS_EVER, Type("i32")))
    found = []
    for first in range(0, kind.lanes, one.lanes):
        lanes = range(first, first + one.lanes)
        parts = [x if one == kind else writer.shuffle(x, x, lanes) for x in operands]
        full = f"llvm.x86.avx512.mask.{name}.{letters}.{size}"
        found.append(writer.call(full, one, *parts, *rest))
    return writer.concatenated(found)
