"""LLVM text of each instruction of a typed function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.typed import Array, Instruction, Literal
from ....ir.typed.function import PARTS, Value
from ....ir.typed.sooner import SELDOM
from . import lists
from .forms import FUNCTIONS, InRegisters, Pair, machine, suffix
from .function import FunctionWriter
from .whole_arrays import (
    NUMBER,
    as_type,
    call_loop,
    converted,
    diagonal,
    dot,
    map_,
    new_axis,
    one_number,
    over,
    part,
    reduce_,
    reshape,
    transpose,
)

INTEGERS = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
FLOATS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
COMPARED = {
    "lt": ("olt", "slt", "ult"), "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"), "eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"),
}  # fmt: skip


def _kind(x: Value) -> str:
    return np.dtype(str(x.type)).kind


def _two(op: str) -> Callable[[FunctionWriter, Instruction], None]:
    def write(w: FunctionWriter, x: Instruction) -> None:
        a, b = x.args
        kind, of = _kind(a), w.kind(str(a.type))
        divides = op in ("div", "rem")
        second = w.operand(b, 1, always=kind != "f") if divides else w.operand(b)
        checked = w.checked.get((op, *x.args))
        if checked is not None:
            w.set(x, w.emit(f"extractvalue {{{of}, {w.kind('bool')}}} {checked}, 0"))
            return
        if kind == "f" and x.what is not None:
            w.set(x, w.strict(FLOATS[op], of, of, [w.operand(a), second]))
            return
        if kind == "f":
            name = FLOATS[op]
        elif divides:
            name = f"{'u' if kind == 'u' else 's'}{op}"
        elif op == "shr":
            name = "lshr" if kind == "u" else "ashr"
        else:
            name = INTEGERS.get(op, op) + (w.within if x.what == "within" else "")
            if x.what == SELDOM and x.result is not None:
                w.seldom[x.result] = x.args
        w.set(x, w.emit(f"{name} {w.typed(a)}, {second}"))

    return write


def _compared(op: str) -> Callable[[FunctionWriter, Instruction], None]:
    def write(w: FunctionWriter, x: Instruction) -> None:
        a, b = x.args
        floats, signed, unsigned = COMPARED[op]
        kind = _kind(a)
        if kind == "f" and w.is_quiet:
            w.set(x, w.compared(floats, a, b))
            return
        how = f"fcmp {floats}" if kind == "f" else f"icmp {signed if kind == 'i' else unsigned}"
        w.set(x, w.emit(f"{how} {w.typed(a)}, {w.operand(b)}"))

    return write


def _intrinsic(name: str) -> Callable[[FunctionWriter, Instruction], None]:
    def write(w: FunctionWriter, x: Instruction) -> None:
        kind = w.kind(str(x.args[0].type))
        values = [w.operand(a, 1.0 if name == "sqrt" else None) for a in x.args]
        noted = x.what is not None
        w.set(x, w.strict(name, kind, kind, values) if noted else w.plain(name, kind, values))

    return write


def _neg(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.emit(f"fneg {w.typed(x.args[0])}"))


def _not(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.emit(f"xor {w.typed(x.args[0])}, {w.operand(Literal(True, 'bool'))}"))


def _select(w: FunctionWriter, x: Instruction) -> None:
    asked, *values = x.args
    part = PARTS.get(str(values[0].type))
    if part is not None:
        how, kind = w.condition(asked), w.kind(part)
        pairs = zip(*(w.operand(v) for v in values), strict=True)
        w.set(x, Pair(*(w.emit(f"select {how}, {kind} {a}, {kind} {b}") for a, b in pairs)))
        return
    w.set(x, w.emit(f"select {', '.join([w.condition(asked), *map(w.typed, values)])}"))


def _overflows(w: FunctionWriter, x: Instruction) -> None:
    a, b = x.args
    kind, truth = w.kind(str(a.type)), w.kind("bool")
    name = f"llvm.{'u' if _kind(a) == 'u' else 's'}{x.what}.with.overflow.{suffix(kind)}"
    w.declared[name] = f"declare {{{kind}, {truth}}} @{name}({kind}, {kind})"
    both = w.emit(f"call {{{kind}, {truth}}} @{name}({w.typed(a)}, {w.typed(b)})")
    w.set(x, w.emit(f"extractvalue {{{kind}, {truth}}} {both}, 1"))
    w.checked[x.what, a, b] = both


def _cast(w: FunctionWriter, x: Instruction) -> None:
    (a,) = x.args
    assert x.result is not None
    value = w.operand(a, 0, always=True) if _kind(a) == "f" else w.operand(a)
    w.set(x, converted(w, value, str(a.type), str(x.result.type)))


def _complex(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, Pair(*(w.operand(a) for a in x.args)))


def _part(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, getattr(w.operand(x.args[0]), x.op))


ON_NUMBERS: dict[str, Callable[[FunctionWriter, Instruction], None]] = {
    **{op: _two(op) for op in "add sub mul div rem and or xor shl shr".split()},
    **{op: _compared(op) for op in COMPARED},
    "sqrt": _intrinsic("sqrt"), "abs": _intrinsic("fabs"), "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"), "trunc": _intrinsic("trunc"), "rint": _intrinsic("rint"),
    "copysign": _intrinsic("copysign"), "fma": _intrinsic("fma"), "neg": _neg, "not": _not,
    "select": _select, "overflows": _overflows, "cast": _cast, "complex": _complex, "real": _part,
    "imag": _part,
}  # fmt: skip
"""Instructions on numbers alone: of one slice, or of several side by side."""


def _mark(w: FunctionWriter, x: Instruction) -> None:
    parts = w.seldom.get(x.args[0])
    if parts is None:
        w.mark_if(w.value(x.args[0]), x.what)
    else:
        w.mark_if(w.value(parts[1]), x.what, w.value(parts[0]))


def _catch(w: FunctionWriter, x: Instruction) -> None:
    on = w.label()
    w.line(f"br i1 {w.value(x.args[0])}, label %b{x.what}, label %{on}")
    w.begin(on)


def _errors(w: FunctionWriter, x: Instruction) -> None:
    w.set_errors(*x.what)


def _round(w: FunctionWriter, x: Instruction) -> None:
    rounds = w.rounds()
    count = w.emit(f"load i64, ptr {rounds}")
    count = w.emit(f"add i64 {count}, {w.value(x.args[0]) if x.args else 1}")
    w.line(f"store i64 {count}, ptr {rounds}")
    w.mark_if(w.emit(f"icmp ugt i64 {count}, {w.most_rounds}"), x.what)


def function_at(w: FunctionWriter, k: int) -> str:
    """The address of a library's function."""
    table = w.pointer(FUNCTIONS)
    at = w.emit(f"getelementptr ptr, ptr {table}, i64 {2 * k}")
    return w.emit(f"load ptr, ptr {at}, align 8, !invariant.load !1")


WARNS = frozenset("pow powf hypot hypotf fmod fmodf".split())
"""Functions of the C library that NumPy's numbers call too, and warn of what they note."""


def _is_pure(w: FunctionWriter, k: int) -> bool:
    """Whether a function has no effect but its result, so that LLVM may merge calls."""
    kind, name = w.made.externals[k][:2]
    return kind == "libm" and name not in WARNS and not w.has_pairs


def _call(w: FunctionWriter, x: Instruction) -> None:
    from .quick import quick  # which loops without such calls do not need

    assert x.result is not None
    kind, found = machine(str(x.result.type)), quick(w, x)
    if found is not None:
        known, is_known = found
        at = w.at_entry(f"alloca {kind}, align 8")
        w.line(f"store {kind} {known}, ptr {at}")
        ask, on = w.label(), w.label()
        w.line(f"br i1 {is_known}, label %{on}, label %{ask}")
        w.begin(ask)
    f = function_at(w, x.what)
    how = "#3" if _is_pure(w, x.what) else "#5" if w.made.externals[x.what][0] == "libm" else "#1"
    value = w.emit(f"call {kind} {f}({', '.join(map(w.typed, x.args))}) {how}")
    if found is not None:
        w.line(f"store {kind} {value}, ptr {at}")
        w.line(f"br label %{on}")
        w.begin(on)
        value = w.emit(f"load {kind}, ptr {at}")
    w.set(x, value)


def _draw(w: FunctionWriter, x: Instruction) -> None:
    """A function of NumPy's that draws: of arrays it gets where they are."""
    from .quick import drawn  # which functions that draw nothing do not need

    if drawn(w, x, lambda: function_at(w, x.what)):
        return
    given = [
        f"ptr {w.array(a).base}" if isinstance(a.type, Array) else f"{machine(a.type)} {w.value(a)}"
        for a in x.args
    ]
    kind = "void" if x.result is None else machine(str(x.result.type))
    called = f"call {kind} {function_at(w, x.what)}({', '.join(given)}) #1"
    if x.result is None:
        w.line(called)
    else:
        w.set(x, w.emit(called))


def _seed(w: FunctionWriter, x: Instruction) -> None:
    """A generator in an array."""
    from .quick import seeded

    words, like, *halves = x.args
    seeded(w, w.array(words).base, w.array(like).base, list(map(w.value, halves)))


def _ufunc(w: FunctionWriter, x: Instruction) -> None:
    """NumPy's inner loop, for one number of each operand."""
    assert x.result is not None
    result = str(x.result.type)
    kinds = [*(str(a.type) for a in x.args), result]
    places = [w.at_entry(NUMBER) for _ in kinds]
    for a, place in zip(x.args, places, strict=False):
        w.store(w.value(a), place, str(a.type))
    call_loop(w, x.what, places, one_number(kinds), "1")
    w.set(x, w.load(places[-1], result))


# --- arrays -------------------------------------------------------------------------------------


def _input(w: FunctionWriter, x: Instruction) -> None:
    assert x.result is not None
    w.set(x, w.input(x.what, x.result.type))


def _constant(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.constant(x.what))


def _load(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.load_slot(x.what))


def _store(w: FunctionWriter, x: Instruction) -> None:
    w.store_slot(x.what, x.args[0])


def _length(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.lengths(x.args[0])[x.what])


def _stride(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.array(x.args[0]).strides[x.what])


def _element(w: FunctionWriter, x: Instruction) -> None:
    array, *at = x.args
    assert x.result is not None
    place = w.place(w.array(array), [w.value(i) for i in at])
    w.set(x, w.load(place, str(x.result.type)))


def _set_element(w: FunctionWriter, x: Instruction) -> None:
    array, *at, value = x.args
    place = w.place(w.array(array), [w.value(i) for i in at])
    w.store(w.value(value), place, str(value.type))


def _row(w: FunctionWriter, x: Instruction) -> None:
    array, at = x.args
    a, axis = w.array(array), x.what
    far = w.emit(f"mul i64 {w.value(at)}, {a.strides[axis]}")
    base = w.emit(f"getelementptr i8, ptr {a.base}, i64 {far}")
    rest = [tuple(y for k, y in enumerate(z) if k != axis) for z in (a.dims, a.strides)]
    w.set(x, InRegisters(base, *rest))


def _view(w: FunctionWriter, x: Instruction) -> None:
    array, start, step, count = x.args
    a, axis = w.array(array), x.what
    far = w.emit(f"mul i64 {w.value(start)}, {a.strides[axis]}")
    base = w.emit(f"getelementptr i8, ptr {a.base}, i64 {far}")
    stride = a.strides[axis]
    if w.value(step) != "1":
        stride = w.emit(f"mul i64 {w.value(step)}, {stride}")
    dims = tuple(w.value(count) if k == axis else y for k, y in enumerate(a.dims))
    strides = tuple(stride if k == axis else y for k, y in enumerate(a.strides))
    w.set(x, InRegisters(base, dims, strides))


def _new(w: FunctionWriter, x: Instruction) -> None:
    how, mark = x.what
    assert x.result is not None
    assert isinstance(x.result.type, Array)
    dims = [w.value(n) for n in x.args]
    for n in dims:
        w.mark_if(w.emit(f"icmp ugt i64 {n}, {1 << 28}"), mark)
    made = w.fresh(x.result.type.dtype, dims, mark)
    if how == "zeros":
        bytes_ = w.emit(f"mul i64 {dims[0]}, {made.strides[0]}")
        words = w.emit(f"add i64 {bytes_}, 7")
        words = w.emit(f"lshr i64 {words}, 3")

        def body(k: str) -> None:
            here = w.emit(f"getelementptr i64, ptr {made.base}, i64 {k}")
            w.line(f"store i64 0, ptr {here}, align 8")

        w.loop(words, body)
    w.set(x, made)


def _fill(w: FunctionWriter, x: Instruction) -> None:
    array, value = x.args
    a = w.array(array)
    text = w.value(value)
    over(w, a.dims, lambda at: w.store(text, w.place(a, at), str(value.type)))


def _copy(w: FunctionWriter, x: Instruction) -> None:
    """Copy through a buffer, if the arrays may overlap."""
    to, from_ = (w.array(y) for y in x.args)
    kind, (mark, are_apart) = x.args[0].type, x.what
    assert isinstance(kind, Array)
    ways = [(to, from_)]
    if not are_apart:
        between = w.fresh(kind.dtype, from_.dims, mark)
        ways = [(between, from_), (to, between)]
    for target, source in ways:

        def body(at: list[str], target: Any = target, source: Any = source) -> None:
            w.store(w.load(w.place(source, at), kind.dtype), w.place(target, at), kind.dtype)

        over(w, from_.dims, body)


# --- results ------------------------------------------------------------------------------------


def _expected(w: FunctionWriter, x: Instruction) -> None:
    k, axis = x.what
    w.set(x, w.result(k).dims[axis])


def _put(w: FunctionWriter, x: Instruction) -> None:
    at, value = x.args
    result = w.result(x.what)
    place = result.base
    if len(result.dims) == 1:
        place = w.place(result, [w.value(at)])
    elif result.dims:
        inner = result.dims[1]
        indices = [w.emit(f"{op} i64 {w.value(at)}, {inner}") for op in ("udiv", "urem")]
        place = w.place(result, indices)
    w.store(w.value(value), place, str(value.type))


def _put_array(w: FunctionWriter, x: Instruction) -> None:
    k, dtype = x.what
    array, result = w.array(x.args[0]), w.result(k)
    to = w.made.results[k].dtype

    def body(at: list[str]) -> None:
        value = converted(w, w.load(w.place(array, at), dtype), dtype, to)
        w.store(value, w.place(result, at), to)

    over(w, array.dims, body)


OPERATIONS: dict[str, Callable[[FunctionWriter, Instruction], None]] = {
    **ON_NUMBERS,
    "mark": _mark, "catch": _catch, "errors": _errors,
    "round": _round, "call": _call, "draw": _draw, "seed": _seed,
    "ufunc": _ufunc, "input": _input, "constant": _constant, "load": _load, "store": _store,
    "length": _length, "stride": _stride, "dot": dot,
    "element": _element, "set element": _set_element, "row": _row,
    "view": _view, "new": _new, "fill": _fill, "copy": _copy, "expected": _expected, "put": _put,
    "put array": _put_array,
    "map": map_, "as type": as_type, "reduce": reduce_, "new axis": new_axis, "reshape": reshape,
    "part": part, "diagonal": diagonal, "transpose": transpose,
    **lists.OPERATIONS,
}  # fmt: skip
