"""What each instruction of a typed function is for LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.typed import Array, Instruction
from ....ir.typed.function import Value
from ....limits import LIMITS
from .function import (
    FUNCTIONS,
    FunctionWriter,
    InRegisters,
    converted,
    machine,
    over,
    size,
)
from .whole_arrays import as_type, call_loop, dot, map_, new_axis, reduce_

_INTEGERS = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOATS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARED = {
    "lt": ("olt", "slt", "ult"), "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"), "eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"),
}  # fmt: skip


def _kind(x: Value) -> str:
    return np.dtype(str(x.type)).kind


def _noted(w: FunctionWriter, name: str, x: Instruction) -> str:
    """An operation whose flags count: LLVM neither drops it nor moves or computes it beforehand."""
    kind = machine(str(x.args[0].type))
    return w.strict(name, kind, kind, [w.value(a) for a in x.args])


def _two(op: str) -> Callable[[FunctionWriter, Instruction], None]:
    def write(w: FunctionWriter, x: Instruction) -> None:
        a, b = x.args
        kind = _kind(a)
        if kind == "f" and x.what is not None:
            w.set(x, _noted(w, _FLOATS[op], x))
            return
        if kind == "f":
            name = _FLOATS[op]
        elif op in ("div", "rem"):
            name = f"{'u' if kind == 'u' else 's'}{op}"
        elif op == "shr":
            name = "lshr" if kind == "u" else "ashr"
        else:
            name = _INTEGERS.get(op, op) + " nsw" * (x.what == "within")
        w.set(x, w.emit(f"{name} {w.typed(a)}, {w.value(b)}"))

    return write


def _compared(op: str) -> Callable[[FunctionWriter, Instruction], None]:
    def write(w: FunctionWriter, x: Instruction) -> None:
        a, b = x.args
        floats, signed, unsigned = _COMPARED[op]
        kind = _kind(a)
        if kind == "f" and w.is_quiet:
            w.set(x, w.compared(floats, a, b))
            return
        how = f"fcmp {floats}" if kind == "f" else f"icmp {signed if kind == 'i' else unsigned}"
        w.set(x, w.emit(f"{how} {w.typed(a)}, {w.value(b)}"))

    return write


def _intrinsic(name: str) -> Callable[[FunctionWriter, Instruction], None]:
    def write(w: FunctionWriter, x: Instruction) -> None:
        if x.what is not None:
            w.set(x, _noted(w, name, x))
            return
        kind = machine(str(x.args[0].type))
        full = f"llvm.{name}.{'f64' if kind == 'double' else 'f32'}"
        kinds = ", ".join([kind] * len(x.args))
        w.declared[full] = f"declare {kind} @{full}({kinds})"
        w.set(x, w.emit(f"call {kind} @{full}({', '.join(map(w.typed, x.args))})"))

    return write


def _neg(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.emit(f"fneg {w.typed(x.args[0])}"))


def _not(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.emit(f"xor {w.typed(x.args[0])}, true"))


def _select(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, w.emit(f"select {', '.join(map(w.typed, x.args))}"))


def _overflows(w: FunctionWriter, x: Instruction) -> None:
    a, b = x.args
    kind, letter = machine(str(a.type)), "u" if _kind(a) == "u" else "s"
    name = f"llvm.{letter}{x.what}.with.overflow.{kind}"
    w.declared[name] = f"declare {{{kind}, i1}} @{name}({kind}, {kind})"
    both = w.emit(f"call {{{kind}, i1}} @{name}({w.typed(a)}, {w.typed(b)})")
    w.set(x, w.emit(f"extractvalue {{{kind}, i1}} {both}, 1"))


def _cast(w: FunctionWriter, x: Instruction) -> None:
    (a,) = x.args
    assert x.result is not None
    if (a.type, x.result.type) == ("float32", "float64"):
        w.set(x, w.widened(w.value(a)))
        return
    w.set(x, converted(w, w.value(a), str(a.type), str(x.result.type)))


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


def _function(w: FunctionWriter, k: int) -> str:
    """The address of a library's function."""
    table = w.pointer(FUNCTIONS)
    at = w.emit(f"getelementptr ptr, ptr {table}, i64 {2 * k}")
    return w.emit(f"load ptr, ptr {at}, align 8, !invariant.load !1")


def _call(w: FunctionWriter, x: Instruction) -> None:
    assert x.result is not None
    f, kind = _function(w, x.what), machine(str(x.result.type))
    w.set(x, w.emit(f"call {kind} {f}({', '.join(map(w.typed, x.args))}) #1"))


def _ufunc(w: FunctionWriter, x: Instruction) -> None:
    """NumPy's inner loop, for one number of each operand."""
    assert x.result is not None
    result = str(x.result.type)
    kinds = [*(str(a.type) for a in x.args), result]
    places = [w._at_entry("alloca i64, align 8") for _ in kinds]
    for a, place in zip(x.args, places, strict=False):
        w.store(w.value(a), place, str(a.type))
    call_loop(w, x.what, places, [str(size(k)) for k in kinds], "1")
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
    return w.emit(f"load {kind}, ptr {at}, align 8")


def _set_field(w: FunctionWriter, made: str, far: int, value: str) -> None:
    at = w.emit(f"getelementptr i8, ptr {made}, i64 {far}")
    w.line(f"store {value}, ptr {at}, align 8")


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
    at = w._values[made]  # type: ignore[index]
    count, room = _field(w, at, LENGTH), _field(w, at, ROOM)
    full = w.emit(f"icmp sge i64 {count}, {room}")
    grow, on = w.label(), w.label()
    w.line(f"br i1 {full}, label %{grow}, label %{on}, !prof !0")
    w.begin(grow)
    twice = w.emit(f"shl i64 {room}, 1")
    wide = w.emit(f"add i64 {twice}, {_ROOM}")  # room may be none, of what was taken out first
    bytes_ = w.emit(f"shl i64 {wide}, 3")
    data, old = w.allocated(bytes_, x.what), _field(w, at, DATA, "ptr")

    def body(k: str) -> None:
        word = w.emit(f"load i64, ptr {w.emit(f'getelementptr i64, ptr {old}, i64 {k}')}")
        w.line(f"store i64 {word}, ptr {w.emit(f'getelementptr i64, ptr {data}, i64 {k}')}")

    w.loop(count, body)
    _set_field(w, at, ROOM, f"i64 {wide}")
    _set_field(w, at, DATA, f"ptr {data}")
    w.line(f"br label %{on}")
    w.begin(on)
    word = _as_word(w, w.value(value), str(value.type))
    w.line(f"store i64 {word}, ptr {_cell(w, at, count)}, align 8")
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
    word = w.emit(f"load i64, ptr {_cell(w, w._values[made], w.value(at))}, align 8")  # type: ignore[index]
    w.set(x, _of_word(w, word, str(x.result.type)))


def _set_list_item(w: FunctionWriter, x: Instruction) -> None:
    made, at, value = x.args
    word = _as_word(w, w.value(value), str(value.type))
    w.line(f"store i64 {word}, ptr {_cell(w, w._values[made], w.value(at))}, align 8")  # type: ignore[index]


def _pop(w: FunctionWriter, x: Instruction) -> None:
    made = w._values[x.args[0]]  # type: ignore[index]
    assert x.result is not None
    last = w.emit(f"sub i64 {_field(w, made, LENGTH)}, 1")
    word = w.emit(f"load i64, ptr {_cell(w, made, last)}, align 8")
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
        word = w.emit(f"load i64, ptr {_cell(w, made, at)}, align 8")
        value = converted(w, _of_word(w, word, dtype), dtype, to)
        w.store(value, w.place(result, [at]), to)

    w.loop(_field(w, made, LENGTH), body)


def _copy_list(w: FunctionWriter, x: Instruction) -> None:
    to, made = w.array(x.args[0]), w._values[x.args[1]]  # type: ignore[index]
    kind = x.args[0].type
    assert isinstance(kind, Array)

    def body(at: str) -> None:
        word = w.emit(f"load i64, ptr {_cell(w, made, at)}, align 8")
        w.store(_of_word(w, word, kind.dtype), w.place(to, [at]), kind.dtype)

    w.loop(to.dims[0], body)


OPERATIONS: dict[str, Callable[[FunctionWriter, Instruction], None]] = {
    **{op: _two(op) for op in "add sub mul div rem and or xor shl shr".split()},
    **{op: _compared(op) for op in _COMPARED},
    "sqrt": _intrinsic("sqrt"), "abs": _intrinsic("fabs"), "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"), "trunc": _intrinsic("trunc"), "rint": _intrinsic("rint"),
    "copysign": _intrinsic("copysign"), "neg": _neg, "not": _not, "select": _select,
    "overflows": _overflows, "cast": _cast, "mark": _mark, "catch": _catch, "errors": _errors,
    "round": _round, "call": _call,
    "ufunc": _ufunc, "input": _input, "constant": _constant, "load": _load, "store": _store,
    "length": _length, "stride": _stride, "dot": dot,
    "element": _element, "set element": _set_element, "row": _row,
    "view": _view, "new": _new, "fill": _fill, "copy": _copy, "expected": _expected, "put": _put,
    "put array": _put_array, "new list": _new_list, "append": _append, "repeat": _repeat,
    "list length": _list_length, "list item": _list_item, "set list item": _set_list_item,
    "map": map_, "as type": as_type, "reduce": reduce_, "new axis": new_axis,
    "pop": _pop, "pop first": _pop_first, "clear": _clear,
    "put list": _put_list, "copy list": _copy_list,
}  # fmt: skip
