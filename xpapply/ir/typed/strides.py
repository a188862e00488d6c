"""Slots of arrays whose elements lie side by side along the last axis, whichever way led there."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .function import Array, Instruction, Literal, Register, Slot, TypedFunction, Value

_MADE = frozenset(("new", "map", "as type"))
"""Instructions whose results are new arrays, which lie so."""


def side_by_side(
    made: TypedFunction, slices: bool | Collection[int], constants: bool = True
) -> set[Slot]:
    """Slots of arrays whose elements are contiguous.

    `slices`: whether the elements of slices lie so, or the numbers of inputs whose elements do;
    `constants`: whether those of constants may.
    """
    near: set[Slot] = {
        x.what
        for block in made.blocks
        for x in block.instructions
        if x.op == "store" and isinstance(x.what.type, Array) and x.what.type.ndim
    }
    while True:  # until none is found that another one is left in
        before = len(near)
        for x, known in _known(made, near, slices, constants):
            if x.op == "store" and x.args[0] not in known:
                near.discard(x.what)
        if len(near) == before:
            return near


def given(
    made: TypedFunction, slices: bool | Collection[int], near: set[Slot]
) -> Iterator[tuple[int, list[bool]]]:
    """Callees of a function, with the operands that are contiguous.

    `near`: what `side_by_side` gives.
    """
    for x, known in _known(made, near, slices):
        if x.op == "run":
            yield x.what, [a in known for a in x.args]


def _known(
    made: TypedFunction, near: set[Slot], slices: bool | Collection[int], constants: bool = True
) -> Iterator[tuple[Instruction, set[Value]]]:
    """Each instruction, with the arrays before it in its block that lie so."""
    for block in made.blocks:
        known: set[Value] = set()
        for x in block.instructions:
            yield x, known
            if x.op == "constant" and not constants:
                continue
            if isinstance(x.result, Register) and _is_near(made, x, known, near, slices):
                known.add(x.result)


def _is_near(
    made: TypedFunction,
    x: Instruction,
    known: set[Value],
    near: set[Slot],
    slices: bool | Collection[int],
) -> bool:
    """Whether an instruction's result is a contiguous array."""
    assert x.result is not None
    kind = x.result.type
    if not isinstance(kind, Array) or not kind.ndim:
        return False
    if x.op == "load":
        return x.what in near
    if x.op == "input":
        return slices if isinstance(slices, bool) else x.what in slices
    if x.op == "constant":
        of = made.constants[x.what]
        return of.strides[-1] == of.itemsize
    if x.op == "row":
        return x.args[0] in known and x.what <= kind.ndim - 1
    if x.op == "view":
        steps = x.what == kind.ndim - 1 and x.args[2] != Literal(1, "int64")
        return x.args[0] in known and not steps
    if x.op == "new axis":
        return x.args[0] in known and x.what < kind.ndim - 1
    return x.op in _MADE
