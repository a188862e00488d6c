"""Hoisting of checks from short branches, so that no side exit depends on a guess.

``3 * n + 1 if n % 2 else n // 2`` looks in one of two ways whether an integer leaves its 64 bits.
As long as that is so, compiled code jumps there, and a processor that guesses wrong waits. Where
the sums and products are of one number of a name and numbers of the source, it is the same as to
ask before whether that number is between two others; both ways can be computed then.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

from .function import Block, Instruction, Literal, Register, Slot, TypedFunction, Value

SELDOM = "seldom"
"""A flag of ``and``: the second operand is seldom true and is evaluated first."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_SHORT = 12
_PLAIN = frozenset("load store add sub mul and or xor shr overflows mark jump".split())


class _Line(NamedTuple):
    """``times * (what a slot held) + more``."""

    slot: Slot | None
    times: int
    more: int


def asked_sooner(made: TypedFunction) -> None:
    """Hoist checks before branches part, in place."""
    before = [0] * len(made.blocks)
    for block in made.blocks:
        for t in made.targets(block):
            before[t] += 1
    caught = {x.what for b in made.blocks for x in b.instructions if x.op == "catch"}
    used = [x.result.number for b in made.blocks for x in b.instructions if x.result]
    numbers = itertools.count(1 + max(used, default=0))
    for block in made.blocks:
        if block.instructions[-1].op != "branch" or len(set(block.targets)) < 2:
            continue
        for truth, t in zip((True, False), block.targets, strict=True):
            if before[t] == 1 and t not in caught and t > 0:
                _ask(block, made.blocks[t], truth, numbers)


def _ask(block: Block, way: Block, truth: bool, numbers: itertools.count[int]) -> None:
    """Ask at the end of a block what one of the ways after it asks."""
    code = way.instructions
    marks = [x for x in code if x.op == "mark"]
    if not marks or len(code) > _SHORT or any(x.op not in _PLAIN for x in code):
        return
    limits = _limits(code)
    if limits is None:
        return
    slot, low, high = limits
    line, end = marks[0].line, block.instructions.pop()

    def new(op: str, dtype: str, *args: Value, what: object = None) -> Register:
        found = Register(next(numbers), dtype)
        block.instructions.append(Instruction(op, found, args, what, line))
        return found

    asked = end.args[0] if truth else new("not", "bool", end.args[0])
    held = new("load", "int64", what=slot)
    outside = [
        new(op, "bool", held, Literal(limit, "int64"))
        for op, limit in (("lt", low), ("gt", high))
        if limit not in (_LEAST, _MOST)
    ]
    if outside:
        beyond = outside[0] if len(outside) == 1 else new("or", "bool", *outside)
        both = new("and", "bool", asked, beyond, what=SELDOM)
        block.instructions.append(Instruction("mark", None, (both,), marks[0].what, line))
    block.instructions.append(end)
    checked = {(x.what, x.args) for x in code if x.op == "overflows"}
    way.instructions = [
        x._replace(what="within") if (x.op, x.args) in checked else x
        for x in code
        if x.op not in ("mark", "overflows")
    ]


def _limits(code: list[Instruction]) -> tuple[Slot, int, int] | None:
    """The slot that checks depend on, and the range they allow; None: several slots."""
    lines: dict[Value, _Line] = {}
    written: set[Slot] = set()
    checked: set[tuple[str, tuple[Value, ...]]] = set()
    asked = {x.args[0] for x in code if x.op == "mark"}
    slots: set[Slot] = set()
    low, high = _LEAST, _MOST
    for x in code:
        if x.op == "load" and x.what.type == "int64" and x.what not in written:
            assert x.result is not None
            lines[x.result] = _Line(x.what, 1, 0)
        elif x.op == "store":
            written.add(x.what)
        elif x.op == "overflows":
            found = _line(x.what, x.args, lines)
            if found is None or found.slot is None or not found.times or x.result not in asked:
                return None
            checked.add((x.what, x.args))
            slots.add(found.slot)
            ends = sorted(Fraction(end - found.more, found.times) for end in (_LEAST, _MOST))
            low, high = max(low, math.ceil(ends[0])), min(high, math.floor(ends[1]))
        elif x.op in ("add", "sub", "mul") and x.result is not None and x.result.type == "int64":
            found = _line(x.op, x.args, lines)
            if found is not None and ((x.op, x.args) in checked or x.what == "within"):
                lines[x.result] = found
    if len(slots) != 1 or len(asked) != sum(x.op == "overflows" for x in code):
        return None
    return slots.pop(), low, high


def _line(op: str, args: tuple[Value, ...], lines: dict[Value, _Line]) -> _Line | None:
    """A sum, difference or product of what is known."""
    a, b = (_Line(None, 0, int(x.value)) if isinstance(x, Literal) else lines.get(x) for x in args)
    if a is None or b is None:
        return None
    if op == "mul":
        if a.slot is not None and b.slot is not None:
            return None
        one, factor = (b, a.more) if a.slot is None else (a, b.more)
        return _Line(one.slot, one.times * factor, one.more * factor)
    if a.slot is not None and b.slot is not None and a.slot != b.slot:
        return None
    sign = 1 if op == "add" else -1
    return _Line(a.slot or b.slot, a.times + sign * b.times, a.more + sign * b.more)
