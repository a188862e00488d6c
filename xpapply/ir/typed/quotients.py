"""Quotients and remainders of Python's by numbers of the source, in fewer instructions.

Python rounds down. So ``x // 100`` is that of a number that is not below zero, without a sign, and
all bits of both are turned around where `x` is below zero: ``~(~x // 100)``. No remainder is needed
to tell whether a quotient towards zero is one too many.
"""

from __future__ import annotations

import itertools

from .function import Block, Instruction, Literal, Register, TypedFunction, Value

_ZERO, _ONE = Literal(0, "int64"), Literal(1, "int64")
_KINDS = frozenset("rem div xor lt ne and sub add".split())
_Writes = dict[Value, Instruction]


def rounded_down(made: TypedFunction) -> None:
    """Write such quotients and remainders anew, in place."""
    for f in (made, *made.functions):
        used = (x.result.number for b in f.blocks for x in b.instructions if x.result)
        numbers = itertools.count(1 + max(used, default=0))
        for block in f.blocks:
            _rewrite(block, numbers)


def _rewrite(block: Block, numbers: itertools.count[int]) -> None:
    """Write those of a block anew."""
    writes: _Writes = {}
    quotients: dict[tuple[Value, ...], Value] = {}
    same: dict[Value, Value] = {}
    found: list[Instruction] = []

    def new(x: Instruction, op: str, dtype: str, *args: Value) -> Register:
        register = Register(next(numbers), dtype)
        found.append(Instruction(op, register, args, None, x.line))
        return register

    for x in block.instructions:
        if x.result is not None:
            writes[x.result] = x
        rest = _turned(x, writes) if x.op == "select" else None
        if not same.keys().isdisjoint(x.args):
            x = x._replace(args=tuple(same.get(a, a) for a in x.args))
        if rest is None or x.result is None:
            found.append(x)
            continue
        of, by = (same.get(a, a) for a in rest.args)
        quotient = quotients.get((of, by))
        if quotient is None:
            sign = new(x, "shr", "int64", of, Literal(63, "int64"))
            size = new(x, "cast", "uint64", new(x, "xor", "int64", of, sign))
            part = new(x, "div", "uint64", size, Literal(by.value, "uint64"))  # type: ignore[union-attr]
            quotient = new(x, "xor", "int64", new(x, "cast", "int64", part), sign)
            quotients[of, by] = quotient
        if x.args[2] == rest.result:
            times = new(x, "mul", "int64", quotient, by)  # which may leave 64 bits, and come back
            found.append(Instruction("sub", x.result, (of, times), None, x.line))
        else:
            same[x.result] = quotient
    if quotients:
        block.instructions[:] = _read(found)


def _turned(x: Instruction, writes: _Writes) -> Instruction | None:
    """The remainder of which a select makes Python's, or a quotient of Python's; None: none."""
    asked = writes.get(x.args[0])
    if asked is None or asked.op != "and" or x.result is None or x.result.type != "int64":
        return None
    is_some, unlike = (writes.get(a) for a in asked.args)
    if is_some is None or unlike is None or (is_some.op, unlike.op) != ("ne", "lt"):
        return None
    rest = writes.get(is_some.args[0])
    if rest is None or rest.op != "rem" or {is_some.args[1], unlike.args[1]} != {_ZERO}:
        return None
    of, by = rest.args
    if not isinstance(by, Literal) or by.value <= 0:
        return None
    both = writes.get(unlike.args[0])  # the remainder, or its bits with those of the divisor
    if both is not rest and (both is None or (both.op, both.args) != ("xor", (rest.result, by))):
        return None
    changed, plain = writes.get(x.args[1]), writes.get(x.args[2])
    if changed is None or plain is None:
        return None
    if plain is rest and (changed.op, changed.args) == ("add", (rest.result, by)):
        return rest
    is_less = (changed.op, changed.args) == ("sub", (plain.result, _ONE))
    return rest if is_less and (plain.op, plain.args) == ("div", (of, by)) else None


def _read(instructions: list[Instruction]) -> list[Instruction]:
    """Those that something reads, of the kinds that are no more needed."""
    read: set[Value] = set()
    found = []
    for x in reversed(instructions):
        kind = x.result and x.result.type
        if x.op not in _KINDS or kind not in ("int64", "bool") or x.result in read:
            read.update(x.args)
            found.append(x)
    return found[::-1]
