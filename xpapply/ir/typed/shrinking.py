"""Loops that take bits off an integer until none is left: they end, and no step overflows.

``while n: n &= n - 1`` has 64 rounds at most, unless it begins below zero, where Python's own never
ends. So it is asked once, before the loop, and not in every round: LLVM knows such a loop then, and
counts bits with one instruction.
"""

from __future__ import annotations

from .function import Block, Instruction, Literal, Register, Slot, TypedFunction, Value

_Writes = dict[Value | None, Instruction]


def asked_once(made: TypedFunction) -> None:
    """Hoist checks out of shrinking loops, in place."""
    for k in range(len(made.blocks)):
        loop = _loop(made, k)
        if loop is None:
            continue
        body, slot = loop
        head = made.blocks[k]
        asked = next(x for x in head.instructions if x.op == "round")
        head.instructions.remove(asked)
        _without_checks(made.blocks[body], slot)
        _ask_before(made, k, body, slot, asked)


def _loop(made: TypedFunction, k: int) -> tuple[int, Slot] | None:
    """The body of a loop that begins with a block, and the slot that shrinks; None: it is none."""
    head = made.blocks[k].instructions
    if head[-1].op != "branch" or sum(x.op == "round" for x in head) != 1:
        return None
    writes: _Writes = {x.result: x for x in head}
    asked = writes.get(head[-1].args[0])
    if asked is None or asked.op != "ne" or asked.args[1] != Literal(0, "int64"):
        return None
    held = writes.get(asked.args[0])
    if held is None or held.op != "load" or held.what.type != "int64":
        return None
    slot: Slot = held.what
    body, _ = made.blocks[k].targets
    inside = made.blocks[body]
    if inside.targets != (k,) or any(x.op == "store" and x.what == slot for x in head):
        return None
    if any(x.op == "catch" and x.what in (k, body) for b in made.blocks for x in b.instructions):
        return None
    if any(body in b.targets for b in made.blocks if b is not made.blocks[k]):
        return None
    return (body, slot) if _shrinks(inside, slot) else None


def _shrinks(inside: Block, slot: Slot) -> bool:
    """Whether a block only clears or shifts out bits of a slot."""
    stored = [x.args[0] for x in inside.instructions if x.op == "store" and x.what == slot]
    if len(stored) != 1:
        return False
    writes: _Writes = {x.result: x for x in inside.instructions}
    found = writes.get(stored[0])
    if found is None:
        return False
    if found.op == "shr":
        by = found.args[1]
        return _is_held(found.args[0], writes, slot) and isinstance(by, Literal) and by.value > 0
    if found.op != "and":
        return False
    for a, b in (found.args, found.args[::-1]):
        less = writes.get(b)
        if _is_held(a, writes, slot) and less is not None and _is_less(less, a):
            return True
    return False


def _is_held(x: Value, writes: _Writes, slot: Slot) -> bool:
    """Whether a value is the slot's own."""
    found = writes.get(x)
    return found is not None and found.op == "load" and found.what == slot


def _is_less(x: Instruction, a: Value) -> bool:
    """Whether an instruction subtracts 1 from a value."""
    return x.op == "sub" and x.args == (a, Literal(1, "int64"))


def _without_checks(inside: Block, slot: Slot) -> None:
    """Drop the checks that 1 less than what the slot holds has 64 bits."""
    writes: _Writes = {x.result: x for x in inside.instructions}
    never = {
        x.result
        for x in inside.instructions
        if (x.op, x.what, x.args[1:]) == ("overflows", "sub", (Literal(1, "int64"),))
        and _is_held(x.args[0], writes, slot)
    }
    inside.instructions[:] = [
        x
        for x in inside.instructions
        if x.result not in never and not (x.op == "mark" and x.args[0] in never)
    ]


def _ask_before(made: TypedFunction, k: int, body: int, slot: Slot, asked: Instruction) -> None:
    """A block before a loop, which marks what begins below zero."""
    number = 1 + max(x.result.number for b in made.blocks for x in b.instructions if x.result)
    held, below = Register(number, "int64"), Register(number + 1, "bool")
    zero = Literal(0, "int64")
    before = Block(targets=(k,))
    before.instructions += [
        Instruction("load", held, (), slot, asked.line),
        Instruction("lt", below, (held, zero), None, asked.line),
        Instruction("mark", None, (below,), asked.what, asked.line),
        Instruction("jump", None, ()),
    ]
    at = len(made.blocks)
    for n, b in enumerate(made.blocks):
        if n != body:
            b.targets = tuple(at if t == k else t for t in b.targets)
    made.blocks.append(before)
