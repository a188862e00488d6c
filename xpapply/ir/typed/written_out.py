"""Functions that a typed function runs, written where it runs them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...limits import LIMITS
from .counters import unchecked
from .ending import counted_before
from .function import Array, Block, Instruction, Register, Slot, TypedFunction, Value
from .positive import undivided
from .ranges import decided


def written_out(made: TypedFunction, whole: bool = False) -> TypedFunction:
    """Inline functions, for targets without calls.

    In a function that fetches its slices, which a GPU runs, those stay that are worth it: what its
    compiler takes grows faster than what it reads. `whole`: none stays.
    """
    blocks = [Block([*b.instructions], b.targets) for b in made.blocks]
    stay = _staying(made) if made.fetches and not whole else set()
    for k in stay:
        unchecked(made.functions[k])
        counted_before(made.functions[k])
        undivided(made.functions[k])
    functions = made.functions if stay else []
    found = replace(made, blocks=blocks, functions=[*functions])
    others = {k: f for k, f in enumerate(made.functions) if k not in stay}
    _write_out(found, others, "=")
    decided(found)
    return found


def _staying(made: TypedFunction) -> set[int]:
    """The numbers of long functions that would be written often, and run no others."""
    functions = made.functions
    times = _runs([made])
    found = set()
    for k in reversed(range(len(functions))):  # after all that run it
        for n, count in _runs([functions[k]]).items():
            times[n] += count * times[k]
        own = [x for b in functions[k].blocks for x in b.instructions]
        if times[k] * len(own) < LIMITS.device_written:
            continue
        if not any(isinstance(x, Array) for x in functions[k].gives) and all(map(_stays, own)):
            found.add(k)
    return found


def _stays(x: Instruction) -> bool:
    """Whether an instruction takes no memory, and has nothing to do with errors or lists."""
    return x.op in _STAY and not any(a.type == "list" for a in x.args)


_STAY = frozenset(
    "input,load,store,length,stride,element,set element,row,view,jump,branch,leave,return,mark,"
    "round,overflows,select,add,sub,mul,div,rem,neg,abs,sqrt,fma,lt,le,gt,ge,eq,ne,and,or,xor,"
    "not,shl,shr,floor,ceil,trunc,rint,copysign,cast,call".split(",")
)


def seldom_run(made: TypedFunction) -> None:
    """Write out what is run in one place alone, and leave out what is run nowhere; in place."""
    functions = made.functions
    for k in reversed(range(len(functions))):
        runners = [f for f in (made, *functions[k + 1 :]) if k in _runs([f])]
        count = _runs(runners)[k]
        if count == 1:
            _write_out(runners[0], {k: functions[k]}, "@")
        if count < 2:  # it has one caller, in which it is inlined
            functions[k] = replace(functions[k], blocks=[])
    left = [k for k, f in enumerate(functions) if f.blocks]
    at = {k: n for n, k in enumerate(left)}
    functions[:] = [functions[k] for k in left]
    for f in (made, *functions):
        for b in f.blocks:
            b.instructions = [
                x._replace(what=at[x.what]) if x.op == "run" else x for x in b.instructions
            ]


def _runs(functions: Iterable[TypedFunction]) -> Counter[int]:
    """The number of call sites of each function."""
    blocks = (b for f in functions for b in f.blocks)
    return Counter(x.what for b in blocks for x in b.instructions if x.op == "run")


def _write_out(made: TypedFunction, functions: dict[int, TypedFunction], sign: str) -> None:
    """Write some functions where one runs them, in place; and where these do so themselves.

    `sign`: the names of their slots begin so, and no others.
    """
    used = [x.result.number for b in made.blocks for x in b.instructions if x.result]
    numbers = itertools.count(1 + max(used, default=0))
    for block in made.blocks:  # which grow meanwhile
        for n, x in enumerate(block.instructions):
            if x.op == "run" and x.what in functions:
                name = f"{sign}{len(made.blocks)}."
                _write(made, block, n, functions[x.what], name, numbers)
                break


def _write(
    made: TypedFunction, block: Block, at: int, f: TypedFunction, name: str, numbers: Iterator[int]
) -> None:
    """Write a function where a block runs it: `name` begins those of its slots."""
    blocks = made.blocks
    first = len(blocks)
    before, (run, *after) = block.instructions[:at], block.instructions[at:]
    given = [Slot(f"{name}given.{n}", t) for n, t in enumerate(f.gives)]
    for n, a in enumerate(run.args):
        before.append(Instruction("store", None, (a,), Slot(f"{name}{n}", a.type), run.line))
    # what is known here and read after it is held in slots
    known = {x.result for x in before}
    kept = dict.fromkeys(a for x in after for a in x.args if isinstance(a, Register) and a in known)
    behind: list[Instruction] = []
    new: dict[Value, Value] = {}
    for n, r in enumerate(kept):
        slot = Slot(f"{name}kept.{n}", r.type)
        before.append(Instruction("store", None, (r,), slot, run.line))
        new[r] = again = Register(next(numbers), r.type)
        behind.append(Instruction("load", again, (), slot, run.line))
    to = first + len(f.blocks)
    for b in f.blocks:
        copied, renamed = _copied(b, first, to, name, given, numbers)
        blocks.append(copied)
        made.calm |= {renamed[x] for x in f.calm if x in renamed}
    for x in after:
        if x.op == "run":
            given = []  # what follows belongs to that one
        if x.op == "given" and given:
            x = x._replace(op="load", what=given[x.what])
        behind.append(x._replace(args=tuple(new.get(a, a) for a in x.args)))
    blocks.append(Block(behind, block.targets))
    block.instructions = [*before, Instruction("jump", None, (), None, run.line)]
    block.targets = (first,)


def _copied(
    block: Block, first: int, to: int, name: str, given: list[Slot], numbers: Iterator[int]
) -> tuple[Block, dict[Value, Register]]:
    """A block of a function that begins at block `first` and goes on at block `to`; new names."""
    found: list[Instruction] = []
    targets = tuple(first + t for t in block.targets)
    new: dict[Value, Register] = {}
    for x in block.instructions:
        x = x._replace(args=tuple(new.get(a, a) for a in x.args))
        if x.op in ("load", "store"):
            x = x._replace(what=Slot(f"{name}own.{x.what.name}", x.what.type))
        elif x.op == "catch":
            x = x._replace(what=first + x.what)
        elif x.op == "return":
            for value, slot in zip(x.args, given, strict=True):
                found.append(Instruction("store", None, (value,), slot, x.line))
            x, targets = x._replace(op="jump", args=()), (to,)
        if x.result is not None:
            result = Register(next(numbers), x.result.type)
            new[x.result] = result
            x = x._replace(result=result)
            if x.op == "input":
                x = x._replace(op="load", what=Slot(f"{name}{x.what}", result.type))
        found.append(x)
    return Block(found, targets), new
