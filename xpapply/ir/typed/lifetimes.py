"""Lifetimes: arrays and lists that are dead when the next one is made in the same place."""

from __future__ import annotations

from collections.abc import Iterator

from .function import Array, Block, Instruction, Register, Slot, TypedFunction, Value

MADE = frozenset(("new", "map", "as type", "new list"))
"""Instructions whose results are new arrays, or lists."""
_VIEWS = frozenset(
    ("row", "view", "new axis", "reshape", "transpose", "diagonal", "part", "load", "store")
)
"""Instructions whose results are views of their operands."""
_READ = frozenset(
    (
        *("map", "as type", "reduce", "dot", "length", "stride", "element", "set element"),
        *("fill", "copy", "put array", "copy list", "append", "list item", "list length"),
        *("set list item", "pop", "pop first", "clear", "put list", "repeat", "draw", "seed"),
    )
)
"""Instructions that keep no reference to an array or list, except `append` and `set list item`."""


def reused(made: TypedFunction) -> set[Register]:
    """The new arrays and lists that may take the memory of the one before, each time."""
    making = [any(x.op in MADE for x in b.instructions) for b in made.blocks]
    places, kept = _places(made) if any(making) else (None, set())
    if places is None:
        return set()
    before, after = _live(made)
    found: set[Register] = set()
    for block, behind, makes in zip(made.blocks, after, making, strict=True):
        if not makes:
            continue
        last = _last_uses(block)
        known = _known(block, places)
        for k, x, waiting in _backwards(block, behind, before):
            if x.op not in MADE or x.result is None:
                continue
            old = [r for r, of in known.items() if x.result in of and r != x.result]
            begun = {y.result for y in block.instructions[:k]}
            held = any(last.get(r, -1) >= k for r in old if r in begun)
            if (
                not held
                and x.result not in kept
                and not any(x.result in places.get(s, ()) for s in waiting)
            ):
                found.add(x.result)
    return found


def _is_followed(x: Value | Slot) -> bool:
    """Whether a value is allocated memory."""
    return isinstance(x.type, Array) or x.type == "list"


def _places(made: TypedFunction) -> tuple[dict[Slot, set[Register]] | None, set[Value]]:
    """The new arrays and lists that each slot may hold, and those in lists.

    None: some go where that is not followed.
    """
    places: dict[Slot, set[Register]] = {}
    kept: set[Value] = set()
    size = -1
    while size != (size := sum(map(len, places.values()))):
        for block in made.blocks:
            known = _known(block, places)
            for x in block.instructions:
                if x.op == "store" and _is_followed(x.what):
                    places.setdefault(x.what, set()).update(known.get(x.args[0], ()))
                elif x.op in ("append", "set list item") and _is_followed(x.args[-1]):
                    kept |= known.get(x.args[-1], set())
                elif x.op not in _READ and x.op not in _VIEWS:
                    if any(map(_is_followed, x.args)) and not _gives_numbers(made, x):
                        return None, kept
    return places, kept


def _gives_numbers(made: TypedFunction, x: Instruction) -> bool:
    """Whether a function is run that reads arrays, and gives numbers alone."""
    if x.op != "run" or any(a.type == "list" for a in x.args):
        return False
    run = made.functions[x.what] if made.functions else None
    return run is not None and not any(isinstance(y, Array) or y == "list" for y in run.gives)


def _known(block: Block, places: dict[Slot, set[Register]]) -> dict[Value, set[Register]]:
    """The new arrays that each register of a block may be, or view."""
    known: dict[Value, set[Register]] = {}
    for x in block.instructions:
        if x.result is None or not _is_followed(x.result):
            continue
        if x.op in MADE:
            known[x.result] = {x.result}
        elif x.op == "load":
            known[x.result] = set(places.get(x.what, ()))
        elif x.args:
            known[x.result] = set(known.get(x.args[0], ()))
    return known


def _last_uses(block: Block) -> dict[Value, int]:
    """The last instruction that reads each register; who reads a map reads what it is of."""
    last: dict[Value, int] = {}
    for k in reversed(range(len(block.instructions))):
        x = block.instructions[k]
        is_formula = x.op in ("map", "as type")
        until = max(k, last.get(x.result, k)) if is_formula and x.result is not None else k
        for a in x.args:
            last[a] = max(last.get(a, until), until)
    return last


def _live(made: TypedFunction) -> tuple[list[set[Slot]], list[set[Slot]]]:
    """The slots of arrays that are read, before they are written, from and after each block."""
    before: list[set[Slot]] = [set() for _ in made.blocks]
    after: list[set[Slot]] = [set() for _ in made.blocks]
    asked = [[x for x in reversed(b.instructions) if _is_step(x)] for b in made.blocks]
    changes = True
    while changes:
        changes = False
        for k in reversed(range(len(made.blocks))):
            after[k] = now = set().union(*(before[t] for t in made.blocks[k].targets))
            for x in asked[k]:
                now = _step(x, now, before)
            if now != before[k]:
                before[k], changes = now, True
    return before, after


def _is_step(x: Instruction) -> bool:
    """Whether it says something of slots of arrays."""
    return x.op == "catch" or (x.op in ("load", "store") and _is_followed(x.what))


def _step(x: Instruction, waiting: set[Slot], before: list[set[Slot]]) -> set[Slot]:
    """The slots that are waited for before such an instruction, of those after it."""
    if x.op == "store":
        return waiting - {x.what}
    if x.op == "load":
        return waiting | {x.what}
    return waiting | before[x.what]


def _backwards(
    block: Block, after: set[Slot], before: list[set[Slot]]
) -> Iterator[tuple[int, Instruction, set[Slot]]]:
    """The instructions of a block from its end, and the slots that are read after each."""
    waiting = after
    for k in reversed(range(len(block.instructions))):
        x = block.instructions[k]
        yield k, x, waiting
        if _is_step(x):
            waiting = _step(x, waiting, before)
