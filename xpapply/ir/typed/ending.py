"""Loops that end: what is asked in every round is asked once, before the first.

``while n: n &= n - 1`` has 64 rounds at most, unless it begins below zero, where Python's own never
ends. LLVM knows such a loop once nothing is asked in it, and counts bits with one instruction.

``while i < len(v) - 1`` whose rounds all add to ``i`` has no more rounds than ``i`` is below the
bound when it begins. They are counted as those of a ``for`` are: of a slice whose length a GPU's
kernel knows nothing is left to ask, so its thread marks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from .function import Block, Instruction, Literal, Register, Slot, Type, TypedFunction, Value

_RISES = {"lt": (0, 1), "le": (0, 1), "gt": (1, 0), "ge": (1, 0)}
"""Of a comparison that goes on, which operand is the smaller one, and which the larger."""
_PURE = frozenset(("load", "length", "add", "sub"))
"""Instructions that a bound is computed with."""
_Writes = dict[Value | None, Instruction]


# --- bits that are taken off an integer ------------------------------------------------------


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


# --- integers that come nearer to a bound ----------------------------------------------------


def counted_before(made: TypedFunction) -> None:
    """Count the rounds of loops that end before they begin, in place."""
    for k in range(len(made.blocks)):
        head = made.blocks[k].instructions
        asked = [x for x in head if x.op == "round"]
        if len(asked) != 1 or asked[0].args or head[-1].op != "branch":
            continue
        blocks = inside(made, k)
        if blocks is None:
            continue
        for small, large in _ends(made.blocks[k], blocks, made):
            head.remove(asked[0])
            _count_before(made, k, blocks, (small, large), asked[0])
            break


def inside(made: TypedFunction, k: int) -> set[int] | None:
    """The blocks of a loop, its head among them; None: it is none, or is come to elsewhere too."""
    before: dict[int, set[int]] = {}
    for j, block in enumerate(made.blocks):
        for t in made.targets(block):
            before.setdefault(t, set()).add(j)
    after, waiting = {k}, [made.blocks[k].targets[0]]
    while waiting:  # what the first way leads to, without the head
        j = waiting.pop()
        if j not in after:
            after.add(j)
            waiting += made.targets(made.blocks[j])
    found, waiting = {k}, [j for j in before.get(k, ()) if j in after and j != k]
    while waiting:
        j = waiting.pop()
        if j not in found:
            found.add(j)
            waiting += [i for i in before[j] if i in after]
    if len(found) == 1 or k not in before:
        return None
    entered = {i for j in found - {k} for i in before[j]}
    return found if entered <= found and made.blocks[k].targets[1] not in found else None


def _ends(head: Block, inside: set[int], made: TypedFunction) -> list[tuple[Value, Value]]:
    """The smaller and the larger operand of the question of a loop that ends; [] of others."""
    writes: dict[Value, Instruction] = {
        x.result: x for x in head.instructions if x.result is not None
    }
    asked = writes.get(head.instructions[-1].args[0])
    if asked is None or asked.op not in _RISES or asked.args[0].type != "int64":
        return []
    small, large = (asked.args[n] for n in _RISES[asked.op])
    stored = {x.what for j in inside for x in made.blocks[j].instructions if x.op == "store"}
    found = []
    for moves, stays, sign in ((small, large, 1), (large, small, -1)):
        own = writes.get(moves) if isinstance(moves, Register) else None
        if own is None or own.op != "load" or own.what not in stored:
            continue
        if _stays(stays, writes, stored) and _comes_nearer(made, head, inside, own.what, sign):
            found.append((small, large))
    return found


def _stays(x: Value, writes: Mapping[Value, Instruction], stored: set[Slot]) -> bool:
    """Whether a bound is the same in all rounds."""
    if isinstance(x, Literal):
        return True
    how = writes.get(x)
    if how is None or how.op not in _PURE or (how.op in ("add", "sub") and how.what != "within"):
        return False
    if how.op == "load":
        return how.what not in stored
    return all(_stays(a, writes, stored) for a in how.args)


def _comes_nearer(
    made: TypedFunction, head: Block, inside: set[int], slot: Slot, sign: int
) -> bool:
    """Whether each round adds to a slot, or takes from it (`sign` -1), and no step does else."""
    blocks = made.blocks
    begins: dict[int, int] = {}  # what has been added at least since the head, by block
    waiting = [(blocks.index(head), 0)]
    top = waiting[0][0]
    while waiting:
        k, added = waiting.pop()
        known: dict[Value, int] = {}
        for x in blocks[k].instructions:
            if x.op == "load" and x.what == slot:
                assert x.result is not None
                known[x.result] = added
            elif x.op in ("add", "sub") and x.what == "within" and x.args[0] in known:
                step = x.args[1]
                if isinstance(step, Literal):
                    by = int(step.value) * (sign if x.op == "add" else -sign)
                    assert x.result is not None
                    known[x.result] = known[x.args[0]] + by
            elif x.op == "store" and x.what == slot:
                now = known.get(x.args[0])
                if now is None or now < added:
                    return False
                added = now
            elif x.op == "catch" and x.what in inside:
                return False
        for t in blocks[k].targets:
            if t == top:
                if added < 1:
                    return False
            elif t in inside and begins.get(t, added + 1) > added:
                begins[t] = added
                waiting.append((t, added))
    return True


def _count_before(
    made: TypedFunction,
    k: int,
    inside: set[int],
    ends: tuple[Value, Value],
    asked: Instruction,
) -> None:
    """A block before a loop, which counts its rounds: as many as its bounds are apart, and one."""
    number = 1 + max(x.result.number for b in made.blocks for x in b.instructions if x.result)
    before, same = Block(targets=(k,)), dict[Value, Value]()

    def new(op: str, dtype: Type, *args: Value, what: object = None) -> Register:
        nonlocal number
        found = Register(number, dtype)
        number += 1
        before.instructions.append(Instruction(op, found, args, what, asked.line))
        return found

    for x in made.blocks[k].instructions:
        if x.op in _PURE and all(isinstance(a, Literal) or a in same for a in x.args):
            assert x.result is not None
            same[x.result] = new(
                x.op, x.result.type, *(same.get(a, a) for a in x.args), what=x.what
            )
    small, large = (same.get(x, x) for x in ends)
    far = new("overflows", "bool", large, small, what="sub")
    before.instructions.append(Instruction("mark", None, (far,), asked.what, asked.line))
    left = new("sub", "int64", large, small, what="within")
    none = new("lt", "bool", left, Literal(0, "int64"))
    count = new("select", "int64", none, Literal(0, "int64"), left)
    before.instructions.append(Instruction("round", None, (count,), asked.what, asked.line))
    before.instructions.append(Instruction("jump", None, ()))
    at = len(made.blocks)
    for n, b in enumerate(made.blocks):
        if n not in inside:
            b.targets = tuple(at if t == k else t for t in b.targets)
    made.blocks.append(before)
