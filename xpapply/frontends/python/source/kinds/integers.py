"""Integers: their operations, and marks where a result has no place in their bits."""

from __future__ import annotations

import numpy as np

from .....errors import TraceError
from .....ir.typed import Literal
from .....ir.typed.function import Value
from ..values import Num, Writes

PLAIN = {"+": "add", "-": "sub", "*": "mul"}
BITS = {"&": "and", "|": "or", "^": "xor"}
"""Operators, and instructions that do what they say."""
OVERFLOWS = "an integer leaves its type"


def of_two(
    w: Writes,
    op: str,
    x: Value,
    y: Value,
    dtype: str,
    *,
    says: bool = True,
    raises: type | None = None,
) -> Value:
    """An operation on two integers.

    `says`: whether NumPy warns, or Python goes on, beyond 64 bits; `raises`: what a division by
    zero does, if not that NumPy warns.
    """
    zero, ones = Literal(0, dtype), Literal(-1, dtype)
    signed = np.dtype(dtype).kind == "i"
    if op in PLAIN:
        if not says:
            return w.op(PLAIN[op], dtype, x, y)
        w.mark(w.op("overflows", "bool", x, y, what=PLAIN[op]), OVERFLOWS)
        return w.op(PLAIN[op], dtype, x, y)
    if op in BITS:
        return w.op(BITS[op], dtype, x, y)
    if op in ("//", "%"):
        if isinstance(y, Literal) and y.value > 0 and y.value & (y.value - 1) == 0:
            if op == "%":
                return w.op("and", dtype, x, Literal(y.value - 1, dtype))
            return w.op("shr", dtype, x, Literal(y.value.bit_length() - 1, dtype))
        if not isinstance(y, Literal) or y.value == 0:
            w.mark(w.op("eq", "bool", y, zero), "a division by zero", raises)
        if not signed:
            return w.op("div" if op == "//" else "rem", dtype, x, y)
        if not isinstance(y, Literal) or y.value == -1:
            least = w.op("eq", "bool", x, Literal(int(np.iinfo(dtype).min), dtype))
            w.mark(w.op("and", "bool", least, w.op("eq", "bool", y, ones)), OVERFLOWS)
        rest = w.op("rem", dtype, x, y)
        unlike = w.op("lt", "bool", w.op("xor", dtype, rest, y), zero)
        turned = w.op("and", "bool", w.op("ne", "bool", rest, zero), unlike)
        if op == "%":
            return w.op("select", dtype, turned, w.op("add", dtype, rest, y), rest)
        quotient = w.op("div", dtype, x, y)
        less = w.op("sub", dtype, quotient, Literal(1, dtype))
        return w.op("select", dtype, turned, less, quotient)
    if op in ("<<", ">>"):
        marked_shift(w, y, dtype)
        if op == ">>":
            return w.op("shr", dtype, x, y)
        found = w.op("shl", dtype, x, y)
        w.mark(w.op("ne", "bool", w.op("shr", dtype, found, y), x), OVERFLOWS)
        return found
    assert op == "**"
    if isinstance(x, Literal) and x.value == 2 and dtype == "int64":
        far = w.op("ge", "bool", y, Literal(63, dtype))
        w.mark(w.op("or", "bool", w.op("lt", "bool", y, zero), far), "a power that is no integer")
        return w.op("shl", dtype, Literal(1, dtype), y)
    if not isinstance(y, Literal) or not 0 <= y.value <= 64:
        raise TraceError("an integer to a power that is not written in the source")
    power: Value | None = None
    square, left = x, y.value
    while left:
        if left & 1:
            if power is not None:
                power = of_two(w, "*", power, square, dtype, says=says)
            else:
                power = square
        left >>= 1
        square = of_two(w, "*", square, square, dtype, says=says) if left else square
    return Literal(1, dtype) if power is None else power


def marked_shift(w: Writes, y: Value, dtype: str) -> None:
    """A mark where a shift is by no number of bits."""
    signed = np.dtype(dtype).kind == "i"
    outside = w.op("lt", "bool", y, Literal(0, dtype)) if signed else Literal(False, "bool")
    far = w.op("ge", "bool", y, Literal(8 * np.dtype(dtype).itemsize, dtype))
    w.mark(w.op("or", "bool", outside, far), "a shift by less than none or more than all bits")


def marked_least(w: Writes, a: Num) -> None:
    """A mark where the negative of an integer is none of its type."""
    least = Literal(int(np.iinfo(a.dtype).min), a.dtype)
    op = "eq" if np.dtype(a.dtype).kind == "i" else "ne"
    w.mark(w.op(op, "bool", a.value, least), OVERFLOWS)
