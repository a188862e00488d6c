"""Decisions that last bits make, of what is computed with other last bits than a definition says.

A device has a sine of its own. What is computed of it differs by roundings, but where a comparison
or a whole number depends on it, the difference may be as large as one likes. So slices in which
that is close are marked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .function import (
    EXACT,
    Array,
    Instruction,
    Literal,
    Mark,
    Register,
    TypedFunction,
    Value,
    is_rounded,
)

COMPARED = frozenset("lt le gt ge eq ne".split())
_WHOLE = frozenset("floor ceil trunc rint".split())
_WRITES = frozenset(("set element", "fill", "set list item"))
WHY = "the last bit decides"


def with_margins(made: TypedFunction, share: float) -> None:
    """Mark slices that decide by what is so close, relative to what is compared, in place.

    What one that fetches its slice was before is its `of_host`.
    """
    rounded = _rounded(made, is_other)
    if not any(rounded):
        return
    if made.fetches:
        functions = [_copied(f) for f in made.functions]
        made.of_host = replace(_copied(made), marks=[*made.marks], functions=functions)
    coarse = _rounded(made, lambda made, x: x.op == "dot")
    bodies = made, *made.functions
    made.tells = any(
        _tells(made, x, r, c)
        for body, r, c in zip(bodies, rounded, coarse, strict=True)
        for b in body.blocks
        for x in b.instructions
        if x.result not in body.calm
    )
    if any(is_rounded(x) and "float32" in x for x in made.externals):
        share *= 2**29  # as much less is known of what a shorter float is
    used = [x.result.number for x in made.instructions if x.result is not None]
    numbers = itertools.count(1 + max(used, default=0))
    for body, of in zip(bodies, rounded, strict=True):
        for block in body.blocks:
            found: list[Instruction] = []
            before: dict[Any, Instruction] = {}
            for x in block.instructions:
                if x.result not in body.calm:
                    found += _asked(made, x, of, before, share, numbers)
                found.append(x)
                before[x.result] = x
            block.instructions = found


def _copied(made: TypedFunction) -> TypedFunction:
    """A function whose blocks are its own."""
    return replace(made, blocks=[replace(b) for b in made.blocks])


def _tells(made: TypedFunction, x: Instruction, rounded: set[Any], coarse: set[Any]) -> bool:
    """Whether an instruction decides by last bits of arrays or dots, which have no margins."""
    if x.op == "map":
        given = [a for a in x.args if _is_float(a)]
        arrays = any(isinstance(a.type, Array) for a in given) and "arrays" in rounded
        return made.externals[x.what[0]][1] in _DECIDE and (arrays or not rounded.isdisjoint(given))
    if coarse.isdisjoint(x.args) or not _is_float(x.args[0]):
        return False
    is_cast = x.op == "cast" and not _is_float(x.result)
    return x.op in COMPARED or x.op in _WHOLE or x.op == "copysign" or is_cast


_DECIDE = frozenset(
    "less less_equal greater greater_equal equal not_equal floor ceil trunc rint sign copysign "
    "logical_and logical_or logical_xor logical_not floor_divide remainder fmod".split()
)
"""Ufuncs that give something else where last bits are others."""


def _rounded(
    made: TypedFunction, begins: Callable[[TypedFunction, Instruction], bool]
) -> list[set[Any]]:
    """Registers and slots that hold what is rounded in another way, and "arrays" if some may.

    A set for the function, and one for each that it runs. `begins`: whether an instruction rounds
    so.
    """
    bodies = made, *made.functions
    found: list[set[Any]] = [set() for _ in bodies]
    count = -1
    while count != sum(map(len, found)):
        count = sum(map(len, found))
        for body, own in zip(bodies, found, strict=True):
            for block in body.blocks:
                run = set[Any]()  # what is known of the function that has run last
                for x in block.instructions:
                    if x.op == "run":
                        run = found[1 + x.what]
                        run |= {(_GIVEN, k) for k, a in enumerate(x.args) if a in own}
                    elif x.op == "given" and (_GIVES, x.what) in run:
                        own.add(x.result)
                    _follow(made, x, own, begins)
        memory = {x for own in found for x in own if isinstance(x, str)}
        for own in found:
            own |= memory
    return found


_GIVEN, _GIVES = "given", "gives"
"""With their numbers: what a function that is run is given, and what it gives."""


def _follow(
    made: TypedFunction,
    x: Instruction,
    found: set[Any],
    begins: Callable[[TypedFunction, Instruction], bool],
) -> None:
    """Add what an instruction gives to what is rounded in another way, if that is so."""
    if x.result is not None and begins(made, x):
        found.add(x.result)
    if x.op == "load" and x.what in found:
        found.add(x.result)
    if x.op == "input" and (_GIVEN, x.what) in found and _is_float(x.result):
        found.add(x.result)
    if x.op == "return":
        found |= {(_GIVES, k) for k, a in enumerate(x.args) if a in found}
    elif not found.isdisjoint(x.args):
        if x.op == "store":
            found.add(x.what)
        elif x.op == "append":
            found.add("lists")
        elif x.op in _WRITES:
            found.add("arrays")
        elif _is_float(x.result) and x.op not in _WHOLE:  # which then is what it is
            found.add(x.result)
    if x.op in _FROM and _FROM[x.op] in found and _is_float(x.result):
        found.add(x.result)


_FROM = {
    **dict.fromkeys(("element", "reduce", "dot"), "arrays"),
    **dict.fromkeys(("list item", "pop", "pop first"), "lists"),
}
"""Instructions that give numbers of what several have been put into."""


def is_other(made: TypedFunction, x: Instruction) -> bool:
    """Whether an instruction differs in last bits on a device."""
    if x.op in ("call", "map", "ufunc"):
        return is_rounded(made.externals[x.what[0] if x.op == "map" else x.what])
    return x.op == "dot"


def _is_float(x: Any) -> bool:
    return str(getattr(x, "type", "")).startswith("float")


def _asked(
    made: TypedFunction,
    x: Instruction,
    rounded: set[Any],
    before: Mapping[Any, Instruction],
    share: float,
    numbers: Iterator[int],
) -> list[Instruction]:
    """Checks before an instruction that may decide by a last bit; `before`: its block."""
    if rounded.isdisjoint(x.args) or not _is_float(x.args[0]):
        return []
    code: list[Instruction] = []
    dtype = str(x.args[0].type)

    def new(op: str, kind: str, *args: Value) -> Register:
        result = Register(next(numbers), kind)
        code.append(Instruction(op, result, args, None, x.line))
        return result

    def size(value: Value) -> Value:
        return new("abs", dtype, value)

    def parts(value: Value) -> Value | None:
        """The magnitude of a difference's operands: its rounding is relative to that."""
        from_ = before.get(value)
        while from_ is not None and from_.op in ("abs", "neg"):
            from_ = before.get(from_.args[0])
        if from_ is None or from_.op not in ("add", "sub") or rounded.isdisjoint(from_.args):
            return None
        return new("add", dtype, *map(size, from_.args))

    def close(distance: Value, of: Value) -> None:
        near = new("lt", "bool", size(distance), new("mul", dtype, of, Literal(share, dtype)))
        code.append(Instruction("mark", None, (near,), _number(made, x.line), x.line))

    value = x.args[0]
    if x.op in COMPARED:
        ends = [abs(y.value) for y in x.args if isinstance(y, Literal)]
        of = [parts(y) for y in x.args]
        # the sign of what is no difference is right
        if x.args[0] == x.args[1] or math.inf in ends or (0 in ends and not any(of)):
            return []
        sizes = [size(y) if z is None else z for y, z in zip(x.args, of, strict=True)]
        close(new("sub", dtype, *x.args), new("add", dtype, *sizes))
        return code
    is_truth = x.op == "cast" and str(getattr(x.result, "type", "")) == "bool"
    if x.op == "copysign" or is_truth:
        value = x.args[-1]
        scale = parts(value) if value in rounded else None
        if scale is None:
            return []
        close(value, scale)
        return code
    is_whole = x.op in _WHOLE or (x.op == "cast" and not _is_float(x.result))
    is_rest = x.op == "call" and made.externals[x.what][1] in EXACT - {"nextafter"}
    if not (is_whole or is_rest):
        return []
    scale = parts(value)
    if is_rest:
        value = new("div", dtype, *x.args)
        scale = None
    elif x.op == "rint":
        value = new("add", dtype, value, Literal(0.5, dtype))
    close(new("sub", dtype, value, new("rint", dtype, value)), scale or size(value))
    return code


def _number(made: TypedFunction, line: int) -> int:
    """The number of the mark of a line."""
    for k, m in enumerate(made.marks, 1):
        if (m.why, m.line) == (WHY, line):
            return k
    made.marks.append(Mark(line, WHY))
    return len(made.marks)
