"""Integers that only count: no addition takes one of them out of its 64 bits, so none is checked.

A counter begins as a number of the source, a length, or a number of few bits, and changes by small
numbers alone, up to 1024. Before 2**47 instructions, which take a day, it is below 2**58; so sums
of 16 counters are below 2**63. Without the checks, loops that count have no branches for them.
"""

from __future__ import annotations

from .function import Instruction, Literal, Register, Slot, TypedFunction, Value

_SMALL = 1024
"""Classes of integers, as numbers: up to this one, a bound of the magnitude."""
_COUNTER, _SUM, _ANY = _SMALL + 1, _SMALL + 16, _SMALL + 17
"""Further classes: a counter, a sum of 2 to 16 of them, anything."""
_HELD = 256
"""The bound of slots of the first class: others are counters, or anything."""
_BEGINS = 1 << 47
"""The largest start of a counter: no length exceeds it."""
_LENGTHS = frozenset(("length", "list length", "expected"))
_NARROW = {"bool": 1, "int8": 128, "uint8": 255}
_NARROW |= dict.fromkeys(("int16", "uint16", "int32", "uint32"), _COUNTER)


def unchecked(made: TypedFunction) -> None:
    """Drop the checks of sums that stay in 64 bits, in place; such sums say ``within``."""
    slots: dict[Slot, int] = {}
    while True:  # until no slot holds more than was thought
        before = dict(slots)
        for block in made.blocks:
            known: dict[Register, int] = {}
            for x in block.instructions:
                if x.result is not None and x.result.type == "int64":
                    known[x.result] = _kind(x, known, slots)
                elif x.op == "store" and x.what.type == "int64":
                    kind = _of(x.args[0], known)
                    held = next(k for k in (_HELD, _COUNTER, _ANY) if kind <= k)
                    slots[x.what] = max(slots.get(x.what, _HELD), held)
        if slots == before:
            break
    for block in made.blocks:
        block.instructions[:] = _without(block.instructions, slots)


def _without(instructions: list[Instruction], slots: dict[Slot, int]) -> list[Instruction]:
    """A block without the checks that never hold."""
    known: dict[Register, int] = {}
    never: set[Value] = set()
    found = []
    for x in instructions:
        if x.op == "overflows" and _sum(x.what, x.args, known) <= _SUM:
            assert x.result is not None
            never.add(x.result)
            continue
        if x.op in ("mark", "catch") and x.args[0] in never:
            continue
        if never and not never.isdisjoint(x.args):
            no = Literal(False, "bool")
            x = x._replace(args=tuple(no if a in never else a for a in x.args))
        if x.result is not None and x.result.type == "int64":
            known[x.result] = _kind(x, known, slots)
            if x.op in ("add", "sub", "mul") and known[x.result] <= _SUM:
                x = x._replace(what="within")
        found.append(x)
    return found


def _of(x: Value, known: dict[Register, int]) -> int:
    """The class of an operand."""
    if isinstance(x, Literal):
        value = abs(int(x.value))
        return value if value <= _SMALL else _COUNTER if value <= _BEGINS else _ANY
    return known.get(x, _ANY)


def _kind(x: Instruction, known: dict[Register, int], slots: dict[Slot, int]) -> int:
    """The class of an instruction's result."""
    if x.op in ("add", "sub", "mul"):
        return _sum(x.op, x.args, known)
    if x.op == "load":
        return slots.get(x.what, _HELD)
    if x.op in _LENGTHS:
        return _COUNTER
    if x.op == "cast":
        return _NARROW.get(str(x.args[0].type), _ANY)
    if x.op == "select":
        return max(_of(a, known) for a in x.args[1:])
    if x.op in ("div", "rem", "shr"):
        return _parted(x, known)
    if x.op == "and":  # the remainder of a power of two
        return max((_of(a, known) for a in x.args if _is_mask(a)), default=_ANY)
    return _ANY


def _sum(op: str, args: tuple[Value, ...], known: dict[Register, int]) -> int:
    """The class of a sum, difference or product."""
    if any(a.type != "int64" for a in args):
        return _ANY
    a, b = sorted(_of(x, known) for x in args)
    if b == _ANY:
        return _ANY
    if b <= _SMALL:
        return min(a * b if op == "mul" else a + b, _COUNTER)
    if op == "mul":
        return min(_SMALL + (b - _SMALL) * a, _ANY) if 0 < a <= _SMALL else _ANY
    return b if a <= _SMALL else min(a + b - _SMALL, _ANY)  # a counter goes on


def _parted(x: Instruction, known: dict[Register, int]) -> int:
    """The class of a quotient or remainder."""
    of, by = (_of(a, known) for a in x.args)
    if x.op == "rem":
        return min(of, by)
    divisor = x.args[1]
    if isinstance(divisor, Literal) and divisor.value and _SMALL < of < _ANY:
        times = abs(int(divisor.value))
        return _SMALL - (_SMALL - of) // (1 << times if x.op == "shr" else times)
    return of


def _is_mask(x: Value) -> bool:
    """Whether it is a literal that is not negative."""
    return isinstance(x, Literal) and x.value >= 0
