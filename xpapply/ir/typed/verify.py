"""The verifier of typed functions: operands of instructions, ends of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InputError
from .function import PARTS, Array, Instruction, Literal, Register, Type, TypedFunction, Value

_FLOATS = "sqrt abs floor ceil trunc rint neg".split()
_TWO = "add sub mul div rem and or xor shl shr copysign".split()
_COMPARED = "lt le gt ge eq ne".split()
_ENDS = {"jump": 1, "branch": 2, "return": 0, "leave": 0}
OPS: dict[str, int | None] = {
    **dict.fromkeys(_FLOATS, 1), **dict.fromkeys(_TWO, 2), **dict.fromkeys(_COMPARED, 2),
    "not": 1, "complex": 2, "real": 1, "imag": 1, "select": 3, "fma": 3, "cast": 1, "overflows": 2,
    "call": None, "draw": None, "seed": None, "ufunc": None, "mark": 1, "differs": 0,
    "push": 2, "pull": 1, "catch": 1, "errors": 0,
    "round": None, "input": 0, "constant": 0, "load": 0, "store": 1, "length": 1, "stride": 1,
    "dot": 2, "element": None,
    "set element": None, "row": 2, "view": 4, "new axis": 1, "reshape": 3, "part": 1, "new": None,
    "diagonal": 1, "transpose": 1, "fill": 2,
    "copy": 2, "as type": 1, "map": None, "reduce": None, "expected": 0, "put": 2, "put array": 1,
    "put list": 1, "new list": 0, "append": 2, "repeat": 2, "list length": 1, "list item": 2,
    "set list item": 3, "pop": 1, "pop first": 1, "clear": 1, "copy list": 2,
    "jump": 0, "branch": 1, "return": None, "leave": 0, "run": None, "given": 0,
}  # fmt: skip
"""Every instruction, and how many operands it has; None: as many as there are."""


def verify(made: TypedFunction) -> None:
    """Raise `InputError` where something is wrong with a typed function, saying where."""
    _verify(made, made.functions)
    for k, f in enumerate(made.functions):
        if f.functions or f.results:
            raise InputError(f"{f.name} is run by {made.name} as one that is not")
        _verify(f, made.functions[:k])


def _verify(made: TypedFunction, others: Sequence[TypedFunction]) -> None:
    """Verify one function, which may run others."""
    for k, block in enumerate(made.blocks):
        known: set[Register] = set()
        given: tuple[Type, ...] = ()  # by the function that has run last
        if not block.instructions:
            raise InputError(f"block {k} of {made.name} is empty")
        for n, x in enumerate(block.instructions):
            is_last = n + 1 == len(block.instructions)
            why = _wrong(made, x, known, is_last) or _wrong_call(made, x, others, given)
            if why:
                raise InputError(f"{made.name}, block {k}: {x}: {why}")
            if x.result is not None:
                known.add(x.result)
            if x.op == "run":
                given = others[x.what].gives
        ends = _ENDS[block.instructions[-1].op]
        if len(block.targets) != ends or not all(0 <= t < len(made.blocks) for t in block.targets):
            raise InputError(f"{made.name}, block {k}: it goes on at {block.targets}")


def _wrong(made: TypedFunction, x: Instruction, known: set[Register], is_last: bool) -> str:
    if x.op not in OPS:
        return "no such instruction"
    if (x.op in _ENDS) is not is_last:
        return "a block ends with one that says where it goes on, and with no other"
    count = OPS[x.op]
    if count is not None and len(x.args) != count:
        return f"it has {count} operands"
    for a in x.args:
        if isinstance(a, Register) and a not in known:
            return f"{a} is not written before"
        if not isinstance(a, (Register, Literal)):
            return f"{a!r} is no operand"
    if x.op in ("mark", "leave", "round") and not 1 <= x.what <= len(made.marks):
        return "no such mark"
    if x.op in ("call", "draw", "ufunc") and not 0 <= x.what < len(made.externals):
        return "no such function"
    if x.op in (*_TWO, *_COMPARED) and len({a.type for a in x.args}) > 1:
        return "its operands differ in type"
    if x.op in (*_FLOATS, *_TWO) and x.result is not None and x.result.type != x.args[0].type:
        return "its result has another type"
    if x.op in ("complex", "real", "imag") and _wrong_parts(x):
        return "no complex number and its parts"
    if x.op == "catch" and not 0 <= x.what < len(made.blocks):
        return "no such block"
    if x.op in ("branch", "mark", "catch", "not") and x.args[0].type != "bool":
        return "it wants a truth value"
    if x.op == "store" and x.what.type != x.args[0].type:
        return "the slot has another type"
    if x.op == "load" and (x.result is None or x.what.type != x.result.type):
        return "the slot has another type"
    if x.op == "put" and x.args[1].type != made.results[x.what].dtype:
        return "the result has another type"
    return _wrong_array(x)


def _wrong_call(
    made: TypedFunction, x: Instruction, others: Sequence[TypedFunction], given: tuple[Type, ...]
) -> str:
    """The fault of a call of another function, or of its results."""
    types = tuple(a.type for a in x.args)
    if x.op == "run" and not 0 <= x.what < len(others):
        return "no such function"
    if x.op == "run" and types != others[x.what].inputs:
        return "the function takes other types"
    if x.op == "given" and not 0 <= x.what < len(given):
        return "nothing is given"
    if x.op == "given" and (x.result is None or x.result.type != given[x.what]):
        return "what is given has another type"
    return "it gives other types" if x.op == "return" and types != made.gives else ""


def _wrong_parts(x: Instruction) -> bool:
    assert x.result is not None
    types = [str(x.result.type), *(str(a.type) for a in x.args)]
    whole, *parts = types if x.op == "complex" else types[::-1]
    return whole not in PARTS or {*parts} != {PARTS[whole]}


_OF_ARRAYS = ("length", "stride", "element", "set element", "row", "view", "fill", "put array")


def _wrong_array(x: Instruction) -> str:
    if x.op not in _OF_ARRAYS:
        return ""
    kind = x.args[0].type
    if not isinstance(kind, Array):
        return "it wants an array"
    indices = {"element": len(x.args) - 1, "set element": len(x.args) - 2}.get(x.op, kind.ndim)
    if indices != kind.ndim:
        return f"an array of {kind.ndim} axes"
    if x.op == "set element" and x.args[-1].type != kind.dtype:
        return "the array has another type"
    axes: tuple[Value, ...] = x.args[1:-1] if x.op == "set element" else x.args[1:]
    if x.op in ("element", "set element") and any(a.type != "int64" for a in axes):
        return "indices have 64 bits"
    return ""
