"""Instructions that a block has done before: their result is read again.

``e * sin(E)`` and ``e * cos(E)`` both ask whether `E` is finite. LLVM sees that of plain numbers,
but neither of what the processor notes nor behind a check: of slices side by side that leaves fewer
of them, so that all after it would be of other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .function import Instruction, Register, TypedFunction, Value

INDEX = tuple("add lt select lt ge or mark".split())
"""An index from the beginning, as it is written for one that may be below zero."""
_PLAIN = frozenset(
    "add sub mul div rem and or xor shl shr lt le gt ge eq ne sqrt abs floor ceil trunc rint neg "
    "copysign fma not select cast complex real imag overflows length stride".split()
)
"""Instructions whose result depends on their operands alone."""
_READS = frozenset(
    "load store mark catch round input constant row view expected call errors".split()
)
"""Others that write to no array."""


def done_once(made: TypedFunction) -> None:
    """Leave out what a block has computed, or asked, before; in place."""
    pure = {k for k, x in enumerate(made.externals) if x[0] == "libm"}
    for f in (made, *made.functions):
        for block in f.blocks:
            block.instructions[:] = _without(block.instructions, pure)


def _without(instructions: Sequence[Instruction], pure: set[int]) -> list[Instruction]:
    """A block without repetitions; `pure`: numbers of functions that are like instructions."""
    found: list[Instruction] = []
    same: dict[Value, Value] = {}  # by a register the one that has its value
    known: dict[Any, Value] = {}  # by an instruction what it gave
    asked: set[Value] = set()  # what is false from here on
    k, end, writes = 0, len(instructions), 0
    while k < end:
        some = instructions[k : k + 1]
        if some[0].op == "add" and tuple(x.op for x in instructions[k : k + len(INDEX)]) == INDEX:
            some = instructions[k : k + len(INDEX)]  # which is written as one
        k += len(some)
        if not same.keys().isdisjoint(a for x in some for a in x.args):
            some = [x._replace(args=tuple(same.get(a, a) for a in x.args)) for x in some]
        x = some[0]
        if len(some) > 1:
            key: Any = INDEX, x.args
            result: Register | None = some[2].result
        elif x.op == "load" and isinstance(x.result and x.result.type, str):
            # an array would be held for longer, and its memory be taken again later
            key, result = x.what, x.result
        elif x.op in _PLAIN or (x.op == "call" and x.what in pure):
            key, result = (x.op, x.what, x.args, x.result and x.result.type), x.result
        elif x.op == "element":
            key, result = (x.op, writes, x.args), x.result
        else:
            key = result = None
            writes += x.op not in _READS
        if result is not None:
            before = known.setdefault(key, result)
            if before is not result:
                same[result] = before
                continue
        elif x.op == "store":
            known.pop(x.what, None)
            if isinstance(x.args[0].type, str):
                known[x.what] = x.args[0]
        elif x.op in ("mark", "catch"):
            if x.args[0] in asked:
                continue
            asked.add(x.args[0])
        elif x.op == "errors":  # what the processor notes counts otherwise from here on
            known = {key: value for key, value in known.items() if not _may_note(key)}
        found += some
    return found


def _may_note(key: Any) -> bool:
    """Whether an instruction may have set flags of the processor."""
    return isinstance(key, tuple) and key[0] not in ("length", "stride", "element", INDEX)
