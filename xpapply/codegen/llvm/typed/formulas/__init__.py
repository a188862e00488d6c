"""Formulas of arrays: plain operations on floats side by side, without a call of NumPy's loops.

What an operation gives is computed where it is read, if that is one place: a formula is one loop,
and nothing between lies in memory. Its bits and its notes are those of NumPy's loops. A function of
LLVM's for each formula goes through the elements, as many at once as there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .....ir.typed import Array, Block, Instruction, Register
from .. import whole_arrays
from ..forms import InRegisters, size
from ..function import FunctionWriter
from ..operations import ON_NUMBERS, OPERATIONS
from ..whole_arrays import PLAIN, call_loop, in_memory_of, spread
from .texts import Tree, called, letters_of

_OPERATIONS = {**PLAIN, "square": "square", "negative": "fneg"}
_FLOATS = ({"float64"}, {"float32"})
_MOST = 8
"""Arrays and numbers of a formula."""
_PASSED = frozenset(
    "map,load,store,length,stride,constant,element,row,view,mark,reduce,expected,input".split(",")
) | {*ON_NUMBERS}  # fmt: skip
"""Instructions that write to no array, and after which a block goes on."""
_COPIED = ("float64", "int64")


class Fused(NamedTuple):
    """An array that is not in memory.

    Attributes
    ----------
    tree : Tree
        What is computed.
    operands : tuple of str
        Addresses and numbers.
    asked : tuple of str
        What is true if all elements lie side by side.
    called : callable
        What else leaves it in memory.
    """

    dtype: str
    dims: tuple[str, ...]
    tree: Tree
    operands: tuple[str, ...]
    mark: int
    asked: tuple[str, ...] = ()
    called: Callable[[str], None] | None = None

    def array(self, w: Any) -> InRegisters:
        """It in memory."""
        found: InRegisters = w.fresh(self.dtype, self.dims, self.mark)
        _put(w, self, found.base)
        return found


def waiting(blocks: Sequence[Block], externals: Sequence[tuple[str, ...]]) -> set[Register]:
    """What is read once, but for its length, in its block: by another formula, or by a copy.

    In between nothing is written to arrays.
    """
    uses = Counter(a for b in blocks for x in b.instructions if x.op != "length" for a in x.args)
    found: set[Register] = set()
    for b in blocks:
        open_: set[Register] = set()
        for x in b.instructions:
            if _is_plain(x, externals) or x.op == "copy":
                found.update(open_.intersection(x.args[1:] if x.op == "copy" else x.args))
            if x.op not in _PASSED:
                open_.clear()
            elif _is_plain(x, externals) and uses[x.result] == 1:  # type: ignore[index]
                assert x.result is not None
                open_.add(x.result)
    return found


def _is_plain(x: Instruction, externals: Sequence[tuple[str, ...]]) -> bool:
    """Whether an instruction is one of these operations, along one axis."""
    if x.op != "map" or x.result is None or x.result.type.ndim != 1:  # type: ignore[union-attr]
        return False
    _, name, *types = externals[x.what[0]]
    return name in _OPERATIONS and set(types) in _FLOATS


def map_(w: Any, x: Instruction) -> None:
    """A ufunc: a formula, or NumPy's loop."""
    if not _is_plain(x, w.made.externals):
        whole_arrays.map_(w, x)
        return
    assert x.result is not None
    k, unlike, memory = x.what
    if sum(len(f.operands) if (f := w.formula(a)) else 1 for a in x.args) > _MOST:
        for a in x.args:
            w.formula(a) and w.array(a)
    dims, steps = spread(w, x, unlike)
    _, name, *types = w.made.externals[k]
    one, parts, given, asked = str(size(types[0])), [], [], []
    for a, (step, *_) in zip(x.args, steps, strict=True):
        found = w.formula(a)
        if found is not None:
            parts.append(found.tree)
            given += found.operands
            asked += found.asked
        elif isinstance(a.type, Array):
            parts.append("a")
            given.append(w.array(a).base)
        else:
            parts.append("n")
            given.append(w.value(a))
        if isinstance(a.type, Array) and step != one:
            asked.append(w.emit(f"icmp eq i64 {step}, {one}"))
    tree = (_OPERATIONS[name], *parts)

    def by_numpy(to: str) -> None:
        places = [
            w.array(a).base if isinstance(a.type, Array) else in_memory_of(w, a) for a in x.args
        ]
        call_loop(w, k, [*places, to], [*(step[0] for step in steps), one], dims[0])

    made = Fused(types[0], tuple(dims), tree, tuple(given), memory, tuple(asked), by_numpy)
    w.set(x, made if x.result in w.waiting else made.array(w))
    if x.result in w.waiting:
        w.pending.add(x.result)


def copy(w: Any, x: Instruction) -> None:
    """Write an array to another one: a formula's elements where they go, if that is apart."""
    to, from_ = x.args
    assert isinstance(to.type, Array)
    dtype, made = to.type.dtype, w.formula(from_)
    target = w.array(to)
    is_plain = len(target.dims) == 1 and target.strides == (str(size(dtype)),)
    if made is None and is_plain and dtype in _COPIED:
        source = w.array(from_)
        if source.strides == target.strides:
            made = Fused(dtype, source.dims, "a", (source.base,), 0)
    if made is None or not is_plain or made.dtype != dtype:
        w.array(from_)
        OPERATIONS["copy"](w, x)
        return
    bytes_ = w.emit(f"mul i64 {made.dims[0]}, {size(dtype)}")
    begin = w.emit(f"ptrtoint ptr {target.base} to i64")
    asked = list(made.asked)
    for operand, letter in zip(made.operands, letters_of(made.tree), strict=True):
        if letter != "a" or operand == target.base:  # each element is read before it is written
            continue
        other = w.emit(f"ptrtoint ptr {operand} to i64")
        far = w.emit(f"sub i64 {other}, {begin}")
        # beyond it, before it, or there
        beyond = w.emit(f"icmp uge i64 {far}, {bytes_}")
        before = w.emit(f"icmp ule i64 {far}, {w.emit(f'sub i64 0, {bytes_}')}")
        apart = w.emit(f"and i1 {beyond}, {before}")
        asked.append(w.emit(f"or i1 {apart}, {w.emit(f'icmp eq i64 {far}, 0')}"))

    def copied(to: str) -> None:
        w.array(from_)
        OPERATIONS["copy"](w, x)

    _put(w, made._replace(asked=tuple(asked), called=copied), target.base)


def _put(w: FunctionWriter, made: Fused, to: str) -> None:
    """Leave a formula's elements in memory."""
    after = ""
    if made.asked:
        assert made.called is not None
        asked = made.asked[0]
        for other in made.asked[1:]:
            asked = w.emit(f"and i1 {asked}, {other}")
        here, elsewhere, after = (w.label() for _ in range(3))
        w.line(f"br i1 {asked}, label %{here}, label %{elsewhere}, !prof !11")
        w.begin(elsewhere)
        made.called(to)
        w.line(f"br label %{after}")
        w.begin(here)
    full, kinds = called(w, made.tree, made.dtype)
    given = [f"{of} {x}" for of, x in zip(kinds, made.operands, strict=True)]
    w.line(f"call void {full}({', '.join([*given, f'ptr {to}', f'i64 {made.dims[0]}'])})")
    if after:
        w.line(f"br label %{after}")
        w.begin(after)
