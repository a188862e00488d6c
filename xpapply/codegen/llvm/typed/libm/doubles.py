"""Sums, products and remainders of floats of 64 bits, written as Python has them.

They are those of one slice, or of several.

And tables of numbers with more bits than a float has, and the test whether a result that is known
to more bits is the one that the C library gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from ..forms import literal
from ..function import FunctionWriter

_LEAST, _COUNT = 1023 - 400, 800
"""Biased exponents for which no intermediate overflows or is denormal."""
_MOST = 2.0**52


class Double:
    """A value that is written: a float, an integer of 64 bits, or a truth value."""

    def __init__(self, w: FunctionWriter, text: str, dtype: str = "float64") -> None:
        self._w, self.text, self.dtype = w, text, dtype

    def __add__(self, other: Double | float) -> Double:
        return self._two("add", other)

    def __sub__(self, other: Double | float) -> Double:
        return self._two("sub", other)

    def __mul__(self, other: Double | float) -> Double:
        return self._two("mul", other)

    def __truediv__(self, other: Double | float) -> Double:
        return self._two("div", other)

    def __neg__(self) -> Double:
        return self._new(f"fneg {self}")

    def __and__(self, other: Double | int) -> Double:
        return self._new(f"and {self}, {self._like(other).text}")

    def __or__(self, other: Double) -> Double:
        return self._new(f"or {self}, {other.text}")

    def __xor__(self, other: Double | int) -> Double:
        return self._new(f"xor {self}, {self._like(other).text}")

    def __rshift__(self, count: int) -> Double:
        return self._new(f"lshr {self}, {self._like(count).text}")

    def __lshift__(self, count: int) -> Double:
        return self._new(f"shl {self}, {self._like(count).text}")

    def __str__(self) -> str:
        return f"{self._w.kind(self.dtype)} {self.text}"

    def below(self, count: int | Double) -> Double:
        """Unsigned comparison of integers."""
        return self._new(f"icmp ult {self}, {self._like(count).text}", "bool")

    def least(self, other: float) -> Double:
        """Whether a float is at least `other`."""
        return self._new(f"fcmp oge {self}, {self._like(other).text}", "bool")

    def same(self, other: Double) -> Double:
        """Whether two floats are equal."""
        return self._new(f"fcmp oeq {self}, {other.text}", "bool")

    def chosen(self, yes: Double, no: Double | float) -> Double:
        """Select by a truth value."""
        return self._new(f"select {self}, {yes}, {yes._like(no)}", yes.dtype)

    def bits(self) -> Double:
        """The bits of a float."""
        return self._new(f"bitcast {self} to {self._w.kind('int64')}", "int64")

    def of_bits(self) -> Double:
        """The float that has these."""
        return self._new(f"bitcast {self} to {self._w.kind('float64')}", "float64")

    def fused(self, factor: Double | float, more: Double | float) -> Double:
        """``self * factor + more``, rounded once."""
        kind = self._w.kind("float64")
        given = [self.text, self._like(factor).text, self._like(more).text]
        return Double(self._w, self._w.plain("fma", kind, given))

    def size(self) -> Double:
        """A float without its sign."""
        return Double(self._w, self._w.plain("fabs", self._w.kind("float64"), [self.text]))

    def root(self) -> Double:
        return Double(self._w, self._w.plain("sqrt", self._w.kind("float64"), [self.text]))

    def cut(self) -> Double:
        """Truncate a float."""
        return Double(self._w, self._w.plain("trunc", self._w.kind("float64"), [self.text]))

    def signed(self, other: Double) -> Double:
        """A float with the sign of another one."""
        kind = self._w.kind("float64")
        return Double(self._w, self._w.plain("copysign", kind, [self.text, other.text]))

    def opposite(self) -> Double:
        """Negate a truth value."""
        return self._new(f"xor {self}, {self._w.everywhere(True, 'bool')}")

    def constant(self, value: float) -> Double:
        """A number of its type."""
        return Double(self._w, self._w.everywhere(value, self.dtype), self.dtype)

    def _like(self, other: Double | float) -> Double:
        return other if isinstance(other, Double) else self.constant(other)

    def _two(self, op: str, other: Double | float) -> Double:
        letter = "f" if self.dtype == "float64" else ""
        return self._new(f"{letter}{op} {self}, {self._like(other).text}")

    def _new(self, text: str, dtype: str = "") -> Double:
        return Double(self._w, self._w.emit(text), dtype or self.dtype)


def sorted_sum(x: Double, y: Double) -> tuple[Double, Double]:
    """``x + y`` and what that is off by, where `x` is the larger one or zero (Dekker 1971)."""
    total = x + y
    return total, y - (total - x)


def product(x: Double, y: Double) -> tuple[Double, Double]:
    """``x * y`` and what that is off by."""
    total = x * y
    return total, x.fused(y, -total)


def rounds_alike(high: Double, low: Double, off: float) -> Double:
    """Whether all values within `off` units in the last place round to `high`."""
    return low.fused(0.5 / (1.0 - off), high).same(high)


def in_two(x: Fraction) -> tuple[float, float]:
    """A number as a sum of two floats."""
    high = float(x)
    return high, float(x - Fraction(high))


def entry(
    w: Any, name: str, numbers: Sequence[tuple[float, ...]], at: Double
) -> tuple[Double, ...]:
    """Numbers of a table for each lane, two or four of them side by side."""
    count, each = len(numbers) * len(numbers[0]), len(numbers[0])
    text = ", ".join(f"double {literal(x, 'float64')}" for row in numbers for x in row)
    # of the module, once
    w.declared[f"table {name}"] = (
        f"@{name} = internal unnamed_addr constant [{count} x double] [{text}], align 64"
    )
    return tuple(Double(w, x) for x in w.row_at(f"@{name}", at.text, each))


def seldom(w: Any, condition: Double, make: Callable[[], Double], other: Double) -> Double:
    """`make` where a condition holds, which it seldom does for any lane: else it is not done."""
    here, some, on = (w.label() for _ in range(3))
    w.line(f"br label %{here}")
    w.begin(here)
    w.line(f"br i1 {w.any(condition.text)}, label %{some}, label %{on}, !prof !12")
    w.begin(some)
    found = condition.chosen(make(), other)
    last = w.label()
    w.line(f"br label %{last}")
    w.begin(last)
    w.line(f"br label %{on}")
    w.begin(on)
    kind = w.kind(found.dtype)
    text = f"phi {kind} [{other.text}, %{here}], [{found.text}, %{last}]"
    return Double(w, w.emit(text), found.dtype)


def fmod(x: Double, y: Double) -> tuple[Double, Double]:
    """``fmod(x, y)``, which is exact, so every implementation has the same bits.

    It is what is left of `x` after as many times `y` as a quotient says. That is rounded, so it may
    be one too many: then what is left has another sign than `x`.
    """
    are_near = _is_near(x) & _is_near(y)
    v, by = are_near.chosen(x.size(), 1.0), are_near.chosen(y.size(), 1.0)
    count = (v / by).cut()
    rest = (-count).fused(by, v)
    one_less = (-(count - 1.0)).fused(by, v)
    rest = rest.least(0.0).chosen(rest, one_less)
    return rest.signed(x), are_near & count.least(_MOST).opposite()


def _is_near(x: Double) -> Double:
    return (((x.bits() >> 52) & 0x7FF) - _LEAST).below(_COUNT)
