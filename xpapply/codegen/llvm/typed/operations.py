"""What each instruction of a typed function is for LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.typed import Array, Instruction, Literal
from ....ir.typed.function import Value
from ....limits import LIMITS
from . import powers
from .function import (
    FUNCTIONS,
    FunctionWriter,
    InRegisters,
    converted,
    machine,
    over,
    suffix,
)
from .whole_arrays import as_type, call_loop, dot, map_, new_axis, one_number, reduce_

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
    w.set(x, w.emit(f"select {', '.join([w.condition(asked), *map(w.typed, values)])}"))


def _overflows(w: FunctionWriter, x: Instruction) -> None:
    a, b = x.args
    kind, truth = w.kind(str(a.type)), w.kind("bool")
    name = f"llvm.{'u' if _kind(a) == 'u' else 's'}{x.what}.with.overflow.{suffix(kind)}"
    w.declared[name] = f"declare {{{kind}, {truth}}} @{name}({kind}, {kind})"
    both = w.emit(f"call {{{kind}, {truth}}} @{name}({w.typed(a)}, {w.typed(b)})")
    w.set(x, w.emit(f"extractvalue {{{kind}, {truth}}} {both}, 1"))


def _cast(w: FunctionWriter, x: Instruction) -> None:
    (a,) = x.args
    assert x.result is not None
    value = w.operand(a, 0, always=True) if _kind(a) == "f" else w.operand(a)
    w.set(x, converted(w, value, str(a.type), str(x.result.type)))


ON_NUMBERS: dict[str, Callable[[FunctionWriter, Instruction], None]] = {
    **{op: _two(op) for op in "add sub mul div rem and or xor shl shr".split()},
    **{op: _compared(op) for op in COMPARED},
    "sqrt": _intrinsic("sqrt"), "abs": _intrinsic("fabs"), "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"), "trunc": _intrinsic("trunc"), "rint": _intrinsic("rint"),
    "copysign": _intrinsic("copysign"), "neg": _neg, "not": _not, "select": _select,
    "overflows": _overflows, "cast": _cast,
}  # fmt: skip
"""Those on numbers alone: of one slice, or of several side by side."""


def _mark(w: FunctionWriter, x: Instruction) -> None:
    w.mark_if(w.value(x.args[0]), x.what)


def _catch(w: FunctionWriter, x: Instruction) -> None:
    on = w.label()
    w.line(f"br i1 {w.value(x.args[0])}, label %b{x.what}, label %{on}")
    w.begin(on)


def _errors(w: FunctionWriter, x: Instruction) -> None:
    w.set_errors(*x.what)


def _round(w: FunctionWriter, x: Instruction) -> None:
    rounds = w.rounds()
    count = w.emit(f"load i64, ptr {rounds}")
    count = w.emit(f"add i64 {count}, 1")
    w.line(f"store i64 {count}, ptr {rounds}")
    w.mark_if(w.emit(f"icmp ugt i64 {count}, {LIMITS.typed_rounds}"), x.what)


def function_at(w: FunctionWriter, k: int) -> str:
    """The address of a library's function."""
    table = w.pointer(FUNCTIONS)
    at = w.emit(f"getelementptr ptr, ptr {table}, i64 {2 * k}")
    return w.emit(f"load ptr, ptr {at}, align 8, !invariant.load !1")


def _call(w: FunctionWriter, x: Instruction) -> None:
    assert x.result is not None
    kind, found = machine(str(x.result.type)), powers.quick(w, x)
    if found is not None:
        known, is_known = found
        at = w.at_entry(f"alloca {kind}, align 8")
        w.line(f"store {kind} {known}, ptr {at}")
        ask, on = w.label(), w.label()
        w.line(f"br i1 {is_known}, label %{on}, label %{ask}")
        w.begin(ask)
    f = function_at(w, x.what)
    value = w.emit(f"call {kind} {f}({', '.join(map(w.typed, x.args))}) #1")
    if found is not None:
        w.line(f"store {kind} {value}, ptr {at}")
        w.line(f"br label %{on}")
        w.begin(on)
        value = w.emit(f"load {kind}, ptr {at}")
    w.set(x, value)


def _ufunc(w: FunctionWriter, x: Instruction) -> None:
    """NumPy's inner loop, for one number of each operand."""
    assert x.result is not None
    result = str(x.result.type)
    kinds = [*(str(a.type) for a in x.args), result]
    places = [w.at_entry("alloca i64, align 8") for _ in kinds]
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
    w.set(x, w.array(x.args[0]).dims[x.what])


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
    stride = w.emit(f"mul i64 {w.value(step)}, {a.strides[axis]}")
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
    """By way of other memory: the arrays may be parts of one."""
    to, from_ = (w.array(y) for y in x.args)
    kind = x.args[0].type
    assert isinstance(kind, Array)
    between = w.fresh(kind.dtype, from_.dims, x.what)
    for target, source in ((between, from_), (to, between)):

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


# --- lists --------------------------------------------------------------------------------------

LENGTH, ROOM, DATA = 0, 8, 16
"""Where a list has its length, how many numbers there is room for, and where they are."""


def _field(w: FunctionWriter, made: str, far: int, kind: str = "i64") -> str:
    at = w.emit(f"getelementptr i8, ptr {made}, i64 {far}")
    return w.emit(f"load {kind}, ptr {at}, align 8, !tbaa !7")


def _set_field(w: FunctionWriter, made: str, far: int, value: str) -> None:
    at = w.emit(f"getelementptr i8, ptr {made}, i64 {far}")
    w.line(f"store {value}, ptr {at}, align 8, !tbaa !7")


def _as_word(w: FunctionWriter, value: str, dtype: str) -> str:
    """A number as 64 bits."""
    if dtype == "list":
        return w.emit(f"ptrtoint ptr {value} to i64")
    kind = machine(dtype)
    if kind == "double":
        return w.emit(f"bitcast double {value} to i64")
    if kind == "float":
        value, kind = w.emit(f"bitcast float {value} to i32"), "i32"
    return value if kind == "i64" else w.emit(f"zext {kind} {value} to i64")


def _of_word(w: FunctionWriter, word: str, dtype: str) -> str:
    if dtype == "list":
        return w.emit(f"inttoptr i64 {word} to ptr")
    kind = machine(dtype)
    if kind == "double":
        return w.emit(f"bitcast i64 {word} to double")
    if kind == "float":
        word = w.emit(f"trunc i64 {word} to i32")
        return w.emit(f"bitcast i32 {word} to float")
    return word if kind == "i64" else w.emit(f"trunc i64 {word} to {kind}")


def _cell(w: FunctionWriter, made: str, index: str) -> str:
    data = _field(w, made, DATA, "ptr")
    return w.emit(f"getelementptr i64, ptr {data}, i64 {index}")


_ROOM = 8
"""Numbers that a new list has room for."""


def _list(w: FunctionWriter, room: str, mark: int) -> str:
    made = w.allocated("24", mark)
    bytes_ = w.emit(f"shl i64 {room}, 3")
    data = w.allocated(bytes_, mark)
    _set_field(w, made, LENGTH, "i64 0")
    _set_field(w, made, ROOM, f"i64 {room}")
    _set_field(w, made, DATA, f"ptr {data}")
    return made


def _new_list(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, _list(w, str(_ROOM), x.what))


def _append(w: FunctionWriter, x: Instruction) -> None:
    made, value = x.args
    word = _as_word(w, w.value(value), str(value.type))
    _append_word(w, w._values[made], word, x.what)  # type: ignore[index]


def _push(w: FunctionWriter, x: Instruction) -> None:
    """Put a value of any type on a stack, which is a list."""
    stack, value = x.args
    at = w._values[stack]  # type: ignore[index]
    if isinstance(value.type, Array):
        array = w.array(value)
        words = [w.emit(f"ptrtoint ptr {array.base} to i64"), *array.dims, *array.strides]
    elif value.type == "list":
        words = [w.emit(f"ptrtoint ptr {w._values[value]} to i64")]  # type: ignore[index]
    else:
        words = [_as_word(w, w.value(value), value.type)]
    for word in words:
        _append_word(w, at, word, x.what)


def _pull(w: FunctionWriter, x: Instruction) -> None:
    """Take one off it."""
    at = w._values[x.args[0]]  # type: ignore[index]
    assert x.result is not None
    kind = x.result.type
    n = 1 + 2 * kind.ndim if isinstance(kind, Array) else 1
    first = w.emit(f"sub i64 {_field(w, at, LENGTH)}, {n}")
    words = []
    for k in range(n):
        here = _cell(w, at, w.emit(f"add i64 {first}, {k}"))
        words.append(w.emit(f"load i64, ptr {here}, align 8"))
    _set_field(w, at, LENGTH, f"i64 {first}")
    if isinstance(kind, Array) or kind == "list":
        base = w.emit(f"inttoptr i64 {words[0]} to ptr")
        if isinstance(kind, Array):
            dims, strides = words[1 : 1 + kind.ndim], words[1 + kind.ndim :]
            w.set(x, InRegisters(base, tuple(dims), tuple(strides)))
        else:
            w.set(x, base)
    else:
        w.set(x, _of_word(w, words[0], kind))


def _append_word(w: FunctionWriter, at: str, word: str, mark: int) -> None:
    count, room = _field(w, at, LENGTH), _field(w, at, ROOM)
    full = w.emit(f"icmp sge i64 {count}, {room}")
    grow, on = w.label(), w.label()
    w.line(f"br i1 {full}, label %{grow}, label %{on}, !prof !0")
    w.begin(grow)
    twice = w.emit(f"shl i64 {room}, 1")
    wide = w.emit(f"add i64 {twice}, {_ROOM}")  # room may be none, of what was taken out first
    bytes_ = w.emit(f"shl i64 {wide}, 3")
    data, old = w.allocated(bytes_, mark), _field(w, at, DATA, "ptr")

    def body(k: str) -> None:
        word = w.emit(f"load i64, ptr {w.emit(f'getelementptr i64, ptr {old}, i64 {k}')}")
        w.line(f"store i64 {word}, ptr {w.emit(f'getelementptr i64, ptr {data}, i64 {k}')}")

    w.loop(count, body)
    _set_field(w, at, ROOM, f"i64 {wide}")
    _set_field(w, at, DATA, f"ptr {data}")
    w.line(f"br label %{on}")
    w.begin(on)
    w.line(f"store i64 {word}, ptr {_cell(w, at, count)}, align 8, !tbaa !5")
    _set_field(w, at, LENGTH, f"i64 {w.emit(f'add i64 {count}, 1')}")


def _repeat(w: FunctionWriter, x: Instruction) -> None:
    made, times = x.args
    at = w._values[made]  # type: ignore[index]
    count = _field(w, at, LENGTH)
    n = w.value(times)
    positive = w.emit(f"icmp sgt i64 {n}, 0")
    n = w.emit(f"select i1 {positive}, i64 {n}, i64 0")
    w.mark_if(w.emit(f"icmp ugt i64 {n}, {1 << 28}"), x.what)
    total = w.emit(f"mul i64 {n}, {count}")
    room = w.emit(f"add i64 {total}, {_ROOM}")
    found = _list(w, room, x.what)

    def outer(k: str) -> None:
        first = w.emit(f"mul i64 {k}, {count}")

        def inner(j: str) -> None:
            word = w.emit(f"load i64, ptr {_cell(w, at, j)}")
            w.line(f"store i64 {word}, ptr {_cell(w, found, w.emit(f'add i64 {first}, {j}'))}")

        w.loop(count, inner)

    w.loop(n, outer)
    _set_field(w, found, LENGTH, f"i64 {total}")
    w.set(x, found)


def _list_length(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, _field(w, w._values[x.args[0]], LENGTH))  # type: ignore[index]


def _list_item(w: FunctionWriter, x: Instruction) -> None:
    made, at = x.args
    assert x.result is not None
    word = w.emit(f"load i64, ptr {_cell(w, w._values[made], w.value(at))}, align 8, !tbaa !5")  # type: ignore[index]
    w.set(x, _of_word(w, word, str(x.result.type)))


def _set_list_item(w: FunctionWriter, x: Instruction) -> None:
    made, at, value = x.args
    word = _as_word(w, w.value(value), str(value.type))
    w.line(f"store i64 {word}, ptr {_cell(w, w._values[made], w.value(at))}, align 8, !tbaa !5")  # type: ignore[index]


def _pop(w: FunctionWriter, x: Instruction) -> None:
    made = w._values[x.args[0]]  # type: ignore[index]
    assert x.result is not None
    last = w.emit(f"sub i64 {_field(w, made, LENGTH)}, 1")
    word = w.emit(f"load i64, ptr {_cell(w, made, last)}, align 8, !tbaa !5")
    _set_field(w, made, LENGTH, f"i64 {last}")
    w.set(x, _of_word(w, word, str(x.result.type)))


def _pop_first(w: FunctionWriter, x: Instruction) -> None:
    """The first element: what is left begins further on."""
    made = w._values[x.args[0]]  # type: ignore[index]
    assert x.result is not None
    data = _field(w, made, DATA, "ptr")
    word = w.emit(f"load i64, ptr {data}, align 8")
    _set_field(w, made, DATA, f"ptr {w.emit(f'getelementptr i64, ptr {data}, i64 1')}")
    for at in (LENGTH, ROOM):
        _set_field(w, made, at, f"i64 {w.emit(f'sub i64 {_field(w, made, at)}, 1')}")
    w.set(x, _of_word(w, word, str(x.result.type)))


def _clear(w: FunctionWriter, x: Instruction) -> None:
    _set_field(w, w._values[x.args[0]], LENGTH, "i64 0")  # type: ignore[index]


def _put_list(w: FunctionWriter, x: Instruction) -> None:
    k, dtype = x.what
    made, result = w._values[x.args[0]], w.result(k)  # type: ignore[index]
    to = w.made.results[k].dtype

    def body(at: str) -> None:
        word = w.emit(f"load i64, ptr {_cell(w, made, at)}, align 8, !tbaa !5")
        value = converted(w, _of_word(w, word, dtype), dtype, to)
        w.store(value, w.place(result, [at]), to)

    w.loop(_field(w, made, LENGTH), body)


def _copy_list(w: FunctionWriter, x: Instruction) -> None:
    to, made = w.array(x.args[0]), w._values[x.args[1]]  # type: ignore[index]
    kind = x.args[0].type
    assert isinstance(kind, Array)

    def body(at: str) -> None:
        word = w.emit(f"load i64, ptr {_cell(w, made, at)}, align 8, !tbaa !5")
        w.store(_of_word(w, word, kind.dtype), w.place(to, [at]), kind.dtype)

    w.loop(to.dims[0], body)


OPERATIONS: dict[str, Callable[[FunctionWriter, Instruction], None]] = {
    **ON_NUMBERS,
    "mark": _mark, "catch": _catch, "errors": _errors,
    "round": _round, "call": _call,
    "ufunc": _ufunc, "input": _input, "constant": _constant, "load": _load, "store": _store,
    "length": _length, "stride": _stride, "dot": dot,
    "element": _element, "set element": _set_element, "row": _row,
    "view": _view, "new": _new, "fill": _fill, "copy": _copy, "expected": _expected, "put": _put,
    "put array": _put_array, "new list": _new_list, "append": _append, "repeat": _repeat,
    "list length": _list_length, "list item": _list_item, "set list item": _set_list_item,
    "map": map_, "as type": as_type, "reduce": reduce_, "new axis": new_axis,
    "push": _push, "pull": _pull, "pop": _pop, "pop first": _pop_first, "clear": _clear,
    "put list": _put_list, "copy list": _copy_list,
}  # fmt: skip
