"""Floats between bounds, which may be NaN: divisors that are never zero need not be asked for it.

``spread / (spread + 0.5)`` of what begins at 1, and is only added to and multiplied by numbers that
are not below zero, never divides by zero. Sums, differences, products and quotients are rounded as
they rise and fall, so bounds that are rounded in the same way hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .function import Instruction, Literal, Slot, TypedFunction, Value

_WIDE = (-math.inf, 0.0, 1.0, math.inf)
"""Bounds of what changes from round to round."""
_PATIENCE = 3


class Span(NamedTuple):
    """A float is between these, or is NaN."""

    low: float
    high: float


_ANY = Span(-math.inf, math.inf)


def undivided(made: TypedFunction) -> None:
    """Leave out the questions whether a float is zero that never is, in place."""
    if not any(x.op == "mark" for x in made.instructions):
        return
    slots: dict[Slot, Span] = {}
    changes: dict[Slot, int] = {}
    while True:
        before = dict(slots)
        for block in made.blocks:
            known = _Known(slots)
            for x in block.instructions:
                known.take(x)
                if x.op == "store" and x.what.type == "float64":
                    _widen(slots, changes, x.what, known.of(x.args[0]))
        if slots == before:
            break
    for block in made.blocks:
        known, never = _Known(slots), set[Value]()
        found = []
        for x in block.instructions:
            known.take(x)
            if x.op == "eq" and x.args[1] == Literal(0.0, "float64"):
                span = known.of(x.args[0])
                if span.low > 0 or span.high < 0:
                    assert x.result is not None
                    never.add(x.result)
            if x.op != "mark" or x.args[0] not in never:
                found.append(x)
        block.instructions[:] = found


def _widen(slots: dict[Slot, Span], changes: dict[Slot, int], slot: Slot, span: Span) -> None:
    """Say that a slot may hold such numbers too."""
    old = slots.get(slot)
    if old is None:
        slots[slot] = span
        return
    new = Span(min(old.low, span.low), max(old.high, span.high))
    if new != old:
        changes[slot] = changes.get(slot, 0) + 1
        if changes[slot] > _PATIENCE:
            low, high = new
            if low != old.low:
                low = max(w for w in _WIDE if w <= low)
            if high != old.high:
                high = min(w for w in _WIDE if w >= high)
            new = Span(low, high)
        slots[slot] = new


class _Known:
    """What is known of the floats of a block."""

    def __init__(self, slots: dict[Slot, Span]) -> None:
        self._slots, self._spans = slots, dict[Value, Span]()
        self._sums: dict[Value, tuple[Value, ...]] = {}

    def of(self, x: Value) -> Span:
        """The bounds of an operand."""
        if isinstance(x, Literal):
            value = float(x.value)
            return _ANY if math.isnan(value) else Span(value, value)
        return self._spans.get(x, _ANY)

    def take(self, x: Instruction) -> None:
        """Apply one instruction."""
        if x.result is None or x.result.type != "float64":
            return
        if x.op == "load":
            # what was never written is read by no way that runs
            found = self._slots.get(x.what, Span(math.inf, -math.inf))
        elif x.op in _TWO and all(a.type == "float64" for a in x.args):
            spans = [*map(self.of, x.args)]
            if any(s.low > s.high for s in spans):
                found = Span(math.inf, -math.inf)
            elif x.op == "div":
                found = self._quotient(x, *spans)
            else:
                found = _TWO[x.op](*spans)
        elif x.op in ("abs", "sqrt"):
            found = Span(0.0, math.inf)
        else:
            return
        if x.op == "add":
            self._sums[x.result] = x.args
        if x.op == "mul" and x.args[0] == x.args[1]:
            found = Span(max(found.low, 0.0), found.high)
        self._spans[x.result] = found

    def _quotient(self, x: Instruction, a: Span, b: Span) -> Span:
        """What is not below zero, by itself and more that is not: it is no more than 1."""
        parts = self._sums.get(x.args[1], ())
        if x.args[0] in parts and all(self.of(p).low >= 0 for p in parts):
            return Span(0.0, 1.0)
        return Span(0.0, math.inf) if a.low >= 0 and b.low > 0 else _ANY


def _sum(a: Span, b: Span) -> Span:
    return _between(a.low + b.low, a.high + b.high)


def _difference(a: Span, b: Span) -> Span:
    return _between(a.low - b.high, a.high - b.low)


def _product(a: Span, b: Span) -> Span:
    if a.low < 0 or b.low < 0:
        return _ANY
    # of zero and infinity it is NaN; next to these it may be anything between
    low = a.low * b.low
    high = a.high * b.high
    return Span(0.0 if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def _between(low: float, high: float) -> Span:
    return Span(-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


_TWO = {"add": _sum, "sub": _difference, "mul": _product, "div": _product}
