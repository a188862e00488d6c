"""NumPy's inner loops on whole arrays that a typed function has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.typed import Array, Instruction, Literal, Register
from ....ir.typed.function import KEEP_NOTES, PARTS
from .forms import FUNCTIONS, InRegisters, Pair, alignment, in_memory, literal, machine, size
from .function import FunctionWriter

NUMBER = "alloca [2 x i64], align 16"
"""Room for a number of any type."""


def loop_of(w: FunctionWriter, k: int) -> tuple[str, str]:
    """An inner loop, and the data that it gets."""
    table = w.pointer(FUNCTIONS)
    found = []
    for far in (2 * k, 2 * k + 1):
        at = w.emit(f"getelementptr ptr, ptr {table}, i64 {far}")
        found.append(w.emit(f"load ptr, ptr {at}, align 8, !invariant.load !1"))
    return found[0], found[1]


def call_loop(w: FunctionWriter, k: int, places: list[str], steps: list[str], *counts: str) -> None:
    """Call an inner loop for so many elements of operands, the last of which is the result.

    A loop of arrays has further counts, and further steps within them.
    """
    f, data = loop_of(w, k)
    given = w.at_entry(f"alloca [{len(places)} x ptr], align 8")
    strides = w.at_entry(f"alloca [{len(steps)} x i64], align 8")
    number = w.at_entry(f"alloca [{len(counts)} x i64], align 8")
    for j, count in enumerate(counts):
        here = w.emit(f"getelementptr i64, ptr {number}, i64 {j}")
        w.line(f"store i64 {count}, ptr {here}")
    for j, place in enumerate(places):
        here = w.emit(f"getelementptr ptr, ptr {given}, i64 {j}")
        w.line(f"store ptr {place}, ptr {here}")
    for j, step in enumerate(steps):
        here = w.emit(f"getelementptr i64, ptr {strides}, i64 {j}")
        w.line(f"store i64 {step}, ptr {here}")
    if w.made.externals[k][1] not in KEEP_NOTES:  # to read them waits for all that goes before
        w.keep_notes()
    w.line(f"call void {f}(ptr {given}, ptr {number}, ptr {strides}, ptr {data}) #1")
    name, *types = w.made.externals[k][1:]
    if {*types} <= _LARGE.keys() and (name == "exp" or types[-1] == "float16"):
        _note_overflow(w, places, steps, counts[0], types)


_LARGE = {"float16": 2.0**127, "float32": 2.0**127, "float64": 2.0**1023}
"""A float whose square is none, by the types of results; of the shortest it is a longer one."""


def _many(kind: str, value: int | str, lanes: int) -> str:
    """A type, or a number of it, for so many lanes."""
    if lanes == 1:
        return str(value) or kind
    return f"<{', '.join([f'{kind} {value}'] * lanes)}>" if value else f"<{lanes} x {kind}>"


_INFINITE = {"float16": 0x1F << 10, "float32": 0xFF << 23, "float64": 0x7FF << 52}
"""The bits of what is infinite."""


def _note_overflow(
    w: FunctionWriter, places: list[str], steps: list[str], count: str, types: list[str]
) -> None:
    """Have the processor note an overflow where results are infinite, and what they are of is not.

    Where NumPy's loop says so by the C library, that is noted in a place of its own on x86.
    """
    too_large = w.at_entry("alloca i1, align 1")
    w.line(f"store i1 false, ptr {too_large}")

    def look(i: str, lanes: int) -> None:
        """Loop over so many elements from one on."""
        one = ""
        for k, (base, step, dtype) in enumerate(zip(places, steps, types, strict=True)):
            bits, wide = 8 * size(dtype), lanes if step != "0" else 1
            kind, mask, infinite = (
                _many(f"i{bits}", x, wide) for x in ("", (1 << (bits - 1)) - 1, _INFINITE[dtype])
            )
            far = w.emit(f"mul i64 {i}, {step}")
            at = w.emit(f"getelementptr i8, ptr {base}, i64 {far}")
            word = w.emit(f"load {kind}, ptr {at}, align {size(dtype)}")
            unsigned = w.emit(f"and {kind} {word}, {mask}")
            how = "eq" if k + 1 == len(types) else "ult"
            asked = w.emit(f"icmp {how} {kind} {unsigned}, {infinite}")
            if wide < lanes:
                asked = w.emit(f"select i1 {asked}, i{lanes} -1, i{lanes} 0")
            elif lanes > 1:
                asked = w.emit(f"bitcast <{lanes} x i1> {asked} to i{lanes}")
            one = w.emit(f"and i{lanes} {one}, {asked}") if one else asked
        if lanes > 1:
            one = w.emit(f"icmp ne i{lanes} {one}, 0")
        before = w.emit(f"load i1, ptr {too_large}")
        w.line(f"store i1 {w.emit(f'or i1 {before}, {one}')}, ptr {too_large}")

    done = "0"
    if all(step in ("0", str(size(dtype))) for step, dtype in zip(steps, types, strict=True)):
        groups = w.emit(f"lshr i64 {count}, 3")
        w.loop(groups, lambda j: look(w.emit(f"shl i64 {j}, 3"), 8))
        done = w.emit(f"shl i64 {groups}, 3")
    rest = w.emit(f"sub i64 {count}, {done}")
    w.loop(rest, lambda j: look(w.emit(f"add i64 {j}, {done}"), 1))
    dtype = "float32" if types[-1] == "float16" else types[-1]
    kind, large = machine(dtype), literal(_LARGE[dtype], dtype)
    found = w.emit(f"load i1, ptr {too_large}")
    x = w.emit(f"select i1 {found}, {kind} {large}, {kind} 0.0")
    w.strict("fmul", kind, kind, [x, x])


def one_number(kinds: Sequence[str]) -> list[str]:
    """The steps of a loop for one number of each operand.

    NumPy gives no step for numbers: by that its powers know that an exponent stays 2, or -1.
    """
    return [*("0" for _ in kinds[:-1]), str(size(kinds[-1]))]


def in_memory_of(w: FunctionWriter, x: Register | Literal) -> str:
    """A number, somewhere in memory."""
    place = w.at_entry(NUMBER)
    w.store(w.value(x), place, str(x.type))
    return place


PLAIN = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
"""Functions of floats that are one instruction, whose bits and notes are those of NumPy's loops."""


def map_(w: FunctionWriter, x: Instruction) -> None:
    """A ufunc; axes of length 1 are spread."""
    result, steps = mapped(w, x)
    arrays = [isinstance(a.type, Array) for a in x.args]
    bases = [
        w.array(a).base if is_array else in_memory_of(w, a)
        for a, is_array in zip(x.args, arrays, strict=True)
    ]
    bases.append(result.base)
    if len(result.dims) == 1:
        call_loop(w, x.what[0], bases, [s[0] for s in steps], result.dims[0])
    else:

        def row(i: str) -> None:
            places = []
            for base, own in zip(bases, steps, strict=True):
                far = w.emit(f"mul i64 {i}, {own[0]}")
                places.append(w.emit(f"getelementptr i8, ptr {base}, i64 {far}"))
            call_loop(w, x.what[0], places, [s[1] for s in steps], result.dims[1])

        w.loop(result.dims[0], row)
    w.set(x, result)


def mapped(w: FunctionWriter, x: Instruction) -> tuple[InRegisters, list[list[str]]]:
    """Memory for what a ufunc gives, and the steps of its operands and of that."""
    _, unlike, memory = x.what
    assert x.result is not None
    kind = x.result.type
    assert isinstance(kind, Array)
    dims, steps = spread(w, x, unlike)
    result = w.fresh(kind.dtype, dims, memory)
    return result, [*steps, list(result.strides)]


def spread(w: FunctionWriter, x: Instruction, unlike: int) -> tuple[list[str], list[list[str]]]:
    """The lengths of what a ufunc gives, and the steps of its operands; a mark where none fit."""
    assert x.result is not None
    kind = x.result.type
    assert isinstance(kind, Array)
    operands = [w.lengths(a) if isinstance(a.type, Array) else None for a in x.args]
    dims: list[str] = []
    for axis in range(kind.ndim):
        found = ""
        for own in operands:
            at = axis - kind.ndim + (0 if own is None else len(own))
            if own is None or at < 0:
                continue
            n = own[at]
            if not found:
                found = n
            elif found != n:
                one = w.emit(f"icmp eq i64 {found}, 1")
                found = w.emit(f"select i1 {one}, i64 {n}, i64 {found}")
        dims.append(found)
    steps: list[list[str]] = []
    for a, lengths in zip(x.args, operands, strict=True):
        if lengths is None:
            steps.append(["0"] * kind.ndim)
            continue
        mine = ["0"] * (kind.ndim - len(lengths))
        if lengths == tuple(dims):  # of a formula, which has no strides, they all are
            steps.append([*w.strides(a)])
            continue
        for axis, (n, stride) in enumerate(zip(lengths, w.strides(a), strict=True), len(mine)):
            if n == dims[axis]:
                mine.append(stride)
                continue
            same = w.emit(f"icmp eq i64 {n}, {dims[axis]}")
            one = w.emit(f"icmp eq i64 {n}, 1")
            fits = w.emit(f"or i1 {same}, {one}")
            w.mark_if(w.emit(f"xor i1 {fits}, true"), unlike)
            mine.append(w.emit(f"select i1 {same}, i64 {stride}, i64 0"))
        steps.append(mine)
    return dims, steps


def as_type(w: FunctionWriter, x: Instruction) -> None:
    """Numbers in another type, as C converts them."""
    (a,) = x.args
    assert x.result is not None
    kind = x.result.type
    assert isinstance(kind, Array)
    assert isinstance(a.type, Array)
    old, source = a.type.dtype, w.array(a)
    result = w.fresh(kind.dtype, list(source.dims), x.what)

    def body(at: list[str]) -> None:
        value = converted(w, w.load_wide(w.place(source, at), old), old, kind.dtype)
        w.store_wide(value, w.place(result, at), kind.dtype)

    over(w, source.dims, body)
    w.set(x, result)


def reduce_(w: FunctionWriter, x: Instruction) -> None:
    """A ufunc's reduction: its loop, whose result is its first operand too."""
    array = w.array(x.args[0])
    assert x.result is not None
    dtype = str(x.result.type)
    place = w.at_entry(NUMBER)
    first = w.value(x.args[1]) if len(x.args) > 1 else None
    reduced(w, x, array, place, first)
    w.set(x, w.load(place, dtype))


def reduced(
    w: FunctionWriter, x: Instruction, array: InRegisters, place: str, first: str | None
) -> None:
    """Leave a reduction in memory; `first`: what it begins with, if that is not an element."""
    assert x.result is not None
    dtype = str(x.result.type)
    base, (count,), (step,) = array
    if first is not None:
        w.store(first, place, dtype)
    else:
        first = w.emit(f"load {in_memory(dtype)}, ptr {base}, align {alignment(dtype)}")
        w.line(f"store {in_memory(dtype)} {first}, ptr {place}, align {alignment(dtype)}")
        base = w.emit(f"getelementptr i8, ptr {base}, i64 {step}")
        count = w.emit(f"sub i64 {count}, 1")
    call_loop(w, x.what, [place, base, place], ["0", step, "0"], count)


def dot(w: FunctionWriter, x: Instruction) -> None:
    """A sum of products by NumPy's loop, which calls BLAS."""
    k, quiet = x.what
    a, b = (w.array(y) for y in x.args)
    place = w.at_entry(NUMBER)
    steps = ["0", "0", "0", a.strides[0], b.strides[0]]
    call_loop(w, k, [a.base, b.base, place], steps, "1", a.dims[0])
    if quiet:
        w.forget_notes()
    assert x.result is not None
    w.set(x, w.load(place, str(x.result.type)))


def part(w: FunctionWriter, x: Instruction) -> None:
    """A view of the real or the imaginary parts."""
    a, kind = w.array(x.args[0]), x.args[0].type
    assert isinstance(kind, Array)
    w.set(x, a._replace(base=w.halves(a.base, kind.dtype)[x.what == "imag"]))


def reshape(w: FunctionWriter, x: Instruction) -> None:
    """A view of an array of one axis as one of two, which has as many elements."""
    a = w.array(x.args[0])
    dims = tuple(w.value(n) for n in x.args[1:])
    far = w.emit(f"mul i64 {dims[1]}, {a.strides[0]}")
    w.set(x, InRegisters(a.base, dims, (far, a.strides[0])))


def diagonal(w: FunctionWriter, x: Instruction) -> None:
    """A view of the elements in whose indices both are the same."""
    a = w.array(x.args[0])
    shorter = w.emit(f"icmp slt i64 {a.dims[0]}, {a.dims[1]}")
    count = w.emit(f"select i1 {shorter}, i64 {a.dims[0]}, i64 {a.dims[1]}")
    w.set(x, InRegisters(a.base, (count,), (w.emit(f"add i64 {a.strides[0]}, {a.strides[1]}"),)))


def transpose(w: FunctionWriter, x: Instruction) -> None:
    """A view with its axes the other way round."""
    a = w.array(x.args[0])
    w.set(x, InRegisters(a.base, a.dims[::-1], a.strides[::-1]))


def new_axis(w: FunctionWriter, x: Instruction) -> None:
    """A view with a further axis of length 1."""
    a, axis = w.array(x.args[0]), x.what
    dims, strides = list(a.dims), list(a.strides)
    dims.insert(axis, "1")
    strides.insert(axis, "0")
    w.set(x, InRegisters(a.base, tuple(dims), tuple(strides)))


def over(
    w: FunctionWriter,
    dims: Sequence[str],
    body: Callable[[list[str]], None],
    at: tuple[str, ...] = (),
) -> None:
    """``body(indices)`` for all elements."""
    if len(at) == len(dims):
        body(list(at))
    else:
        w.loop(dims[len(at)], lambda i: over(w, dims, body, (*at, i)))


def converted(w: FunctionWriter, value: Any, from_: str, to: str) -> Any:
    """A number in another type, as C does it."""
    if from_ == to:
        return value
    if to in PARTS:
        part, own = PARTS[to], PARTS.get(from_)
        if own is not None:
            return Pair(*(converted(w, p, own, part) for p in value))
        return Pair(converted(w, value, from_, part), "zeroinitializer")
    a, b = np.dtype(from_), np.dtype(to)
    old, new = w.kind(from_), w.kind(to)
    if "float16" in (from_, to) and {a.kind, b.kind} != {"f"}:
        return converted(w, converted(w, value, from_, "float32"), "float32", to)
    if to == "bool":
        how = "fcmp une" if a.kind == "f" else "icmp ne"
        return w.emit(f"{how} {old} {value}, zeroinitializer")
    if a.kind == "f":
        if b.kind == "f":
            return w.other_float(value, from_, to)
        return w.emit(f"{'fptoui' if b.kind == 'u' else 'fptosi'} {old} {value} to {new}")
    if b.kind == "f":
        return w.emit(f"{'sitofp' if a.kind == 'i' else 'uitofp'} {old} {value} to {new}")
    if old == new:
        return value
    if from_ != "bool" and b.itemsize < a.itemsize:
        return w.emit(f"trunc {old} {value} to {new}")
    return w.emit(f"{'sext' if a.kind == 'i' else 'zext'} {old} {value} to {new}")
