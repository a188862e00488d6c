"""Powers with small exponents: what the C library's ``pow`` gives, mostly without calling it.

The power is computed with some 100 bits. Where it lies so far from the middle between two floats
that whoever is off by less than `OFF` rounds it as it is rounded here, that is the answer.
"""

from __future__ import annotations

from ....ir.typed import Instruction, Literal
from .function import FunctionWriter

OFF = 0.519
"""Units in the last place that glibc's ``pow`` is off by at most, where the exponent of the number
is small: 0.509 of its exponential, and of its logarithm 1.5 * 2**-68 relative to y * log(x), which
is less than 178 (sysdeps/ieee754/dbl-64/e_pow.c, from 2.28 on)."""
_FARTHER = 0.5 / (1.0 - OFF)
"""What is added may be so many times as large, and must not change the rounded number."""
_EXPONENTS = (2.0, 3.0, 4.0, 0.5)
_FIRST, _COUNT = 1023 - 64, 128
"""Biased exponents of the numbers for which this holds, and nothing overflows meanwhile."""


def quick(w: FunctionWriter, x: Instruction) -> tuple[str, str] | None:
    """The power, and whether it is the one that ``pow`` gives; None: ``pow`` is to be called."""
    y = x.args[-1]
    if not w.near_pow or w.made.externals[x.what][1] != "pow" or not isinstance(y, Literal):
        return None
    if y.value not in _EXPONENTS:
        return None
    double, word = w.kind("float64"), w.kind("int64")

    def number(value: float) -> str:
        return w.operand(Literal(value, "float64"))

    def whole(value: int) -> str:
        return w.operand(Literal(value, "int64"))

    def fma(a: str, b: str, c: str) -> str:
        return w.plain("fma", double, [a, b, c])

    def two(op: str, a: str, b: str) -> str:
        return w.emit(f"{op} {double} {a}, {b}")

    def minus(a: str) -> str:
        return w.emit(f"fneg {double} {a}")

    given = w.operand(x.args[0], 1.0)
    bits = w.emit(f"bitcast {double} {given} to {word}")
    exponent = w.emit(f"lshr {word} {bits}, {whole(52)}")
    if y.value != 0.5:  # without the sign
        exponent = w.emit(f"and {word} {exponent}, {whole(0x7FF)}")
    above = w.emit(f"sub {word} {exponent}, {whole(_FIRST)}")
    is_near = w.emit(f"icmp ult {word} {above}, {whole(_COUNT)}")
    truth = w.kind("bool")
    v = w.emit(f"select {truth} {is_near}, {double} {given}, {double} {number(1.0)}")
    if y.value == 0.5:
        high = w.plain("sqrt", double, [v])
        left = fma(minus(high), high, v)
        low = two("fdiv", two("fmul", left, number(0.5)), high)
    else:
        high = two("fmul", v, v)
        low = fma(v, v, minus(high))
    if y.value > 2:
        square, rest = high, low
        other = v if y.value == 3 else square
        high = two("fmul", square, other)
        left = fma(square, other, minus(high))
        factor = v if y.value == 3 else two("fadd", square, square)
        low = fma(rest, factor, left)
        total = two("fadd", high, low)
        low = two("fsub", low, two("fsub", total, high))
        high = total
    moved = fma(low, number(_FARTHER), high)
    same = w.emit(f"fcmp oeq {double} {moved}, {high}")
    return high, w.emit(f"and {truth} {is_near}, {same}")
