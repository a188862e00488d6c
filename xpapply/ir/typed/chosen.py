"""Short branches without branches: what both ways compute, and a choice for each name.

Slices side by side go through both ways anyway, each with a mask of those that are in it: masks are
split at the branch and joined after it, and what comes next waits for that. A choice between two
numbers takes one instruction.
"""

from __future__ import annotations

import itertools

from .function import Block, Instruction, Literal, Register, Slot, Type, Value

_SHORT = 16
"""The most instructions of a way."""
_PLAIN = frozenset(
    "add sub mul and or xor shl shr lt le gt ge eq ne not select abs neg copysign floor ceil trunc "
    "rint fma cast overflows complex real imag load store mark".split()
)
"""Instructions that take little, and nothing where their result is not chosen."""


def with_choices(blocks: list[Block]) -> list[Block]:
    """Blocks in which short ways are done in both cases, those that follow each other as one."""
    blocks = [Block(list(b.instructions), b.targets) for b in blocks]
    used = [x.result.number for b in blocks for x in b.instructions if x.result is not None]
    numbers = itertools.count(1 + max(used, default=0))
    before = [0] * len(blocks)
    before[0] = 1
    for b in blocks:
        for t in b.targets:
            before[t] += 1
    gone: set[int] = set()
    waiting = list(range(len(blocks)))
    while waiting:
        k = waiting.pop()  # the last first: ways in ways are short before those around them
        if k in gone:
            continue
        ways = _ways(k, blocks, before)
        if ways is None:
            continue
        yes, no, end = ways
        sides = [[] if t is None else blocks[t].instructions[:-1] for t in (yes, no)]
        asked = blocks[k].instructions.pop().args[0]
        blocks[k].instructions += _chosen(asked, sides, numbers)
        gone.update(t for t in (yes, no) if t is not None)
        before[end] -= 1  # of two ways there one is left
        if before[end] == 1 and end != k:  # no other way leads there
            blocks[k].instructions += blocks[end].instructions
            blocks[k].targets = blocks[end].targets
            gone.add(end)
        else:
            blocks[k].instructions.append(Instruction("jump", None, ()))
            blocks[k].targets = (end,)
        waiting += [j for j, b in enumerate(blocks) if j not in gone and k in b.targets]
        waiting.append(k)
    kept = [k for k in range(len(blocks)) if k not in gone]
    at = {old: new for new, old in enumerate(kept)}
    return [Block(blocks[k].instructions, tuple(at[t] for t in blocks[k].targets)) for k in kept]


def _ways(
    k: int, blocks: list[Block], before: list[int]
) -> tuple[int | None, int | None, int] | None:
    """The ways of a branch, None where it goes on at once, and where they meet; None: no such."""
    if blocks[k].instructions[-1].op != "branch":
        return None
    yes, no = blocks[k].targets
    ends = [
        blocks[t].targets[0] if before[t] == 1 and t != k and _is_short(blocks[t]) else None
        for t in (yes, no)
    ]
    if yes == no or k in (yes, no):
        return None
    if ends[0] is not None and ends[0] == ends[1]:
        return yes, no, ends[0]
    if ends[0] == no:
        return yes, None, no
    if ends[1] == yes:
        return None, no, yes
    return None


def _is_short(block: Block) -> bool:
    """Whether a block may run where its results are not wanted."""
    *code, last = block.instructions
    return last.op == "jump" and len(code) <= _SHORT and all(map(_is_plain, code))


def _is_plain(x: Instruction) -> bool:
    if x.op == "cast":  # what no integer is would be noted
        assert x.result is not None
        return _kind(x.args[0]) not in "fc" or _kind(x.result) in "fc"
    if x.op in ("load", "store"):
        return isinstance(x.what.type, str) and x.what.type != "list"
    return x.op in _PLAIN


def _kind(x: Value) -> str:
    return "c" if str(x.type).startswith("complex") else "f" if "float" in str(x.type) else "i"


def _chosen(
    asked: Value, sides: list[list[Instruction]], numbers: itertools.count[int]
) -> list[Instruction]:
    """The instructions of both ways, and what names hold then."""
    found: list[Instruction] = []

    def new(op: str, dtype: Type, *args: Value, what: object = None) -> Register:
        result = Register(next(numbers), dtype)
        found.append(Instruction(op, result, args, what))
        return result

    held: list[dict[Slot, Value]] = []
    for code, truth in zip(sides, (True, False), strict=True):
        mine: dict[Slot, Value] = {}
        same: dict[Value, Value] = {}
        for x in code:
            x = x._replace(args=tuple(same.get(a, a) for a in x.args))
            if x.op == "store":
                mine[x.what] = x.args[0]
            elif x.op == "load" and x.what in mine:
                assert x.result is not None
                same[x.result] = mine[x.what]
            elif x.op == "mark":  # what is no number here may be anything
                no = Literal(False, "bool")
                both = (x.args[0], no) if truth else (no, x.args[0])
                found.append(x._replace(args=(new("select", "bool", asked, *both),)))
            else:
                found.append(x)
        held.append(mine)
    for slot in dict.fromkeys([*held[0], *held[1]]):
        values = [
            mine[slot] if slot in mine else new("load", slot.type, what=slot) for mine in held
        ]
        value = values[0]
        if values[0] != values[1]:
            value = new("select", slot.type, asked, *values)
        found.append(Instruction("store", None, (value,), slot))
    return found
