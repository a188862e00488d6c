"""Lists of typed functions: a head, which has the length, the room and where the elements are.

An element takes 64 bits; of slices that go side by side it takes as many for each lane. Such lists
are all as long as each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.typed import Array, Instruction
from ....ir.typed.function import PARTS, Value
from .forms import InRegisters, Pair
from .function import FunctionWriter
from .whole_arrays import converted

LENGTH, ROOM, DATA = 0, 8, 16
"""Offsets of a list's length, capacity, and data."""


_SHORT = {"float16": "int16", "float32": "int32"}
"""Floats that are shorter than an element, and integers of their bits."""


def _field(w: FunctionWriter, made: str, far: int, kind: str = "i64") -> str:
    at = w.emit(f"getelementptr i8, ptr {made}, i64 {far}")
    return w.emit(f"load {kind}, ptr {at}, align 8, !tbaa !7")


def _set_field(w: FunctionWriter, made: str, far: int, value: str) -> None:
    at = w.emit(f"getelementptr i8, ptr {made}, i64 {far}")
    w.line(f"store {value}, ptr {at}, align 8, !tbaa !7")


def as_word(w: FunctionWriter, value: str, dtype: str) -> str:
    """A number as 64 bits."""
    word = w.kind("int64")
    if dtype == "list":
        return w.emit(f"ptrtoint ptr {value} to i64")
    kind = w.kind(dtype)
    if dtype in _SHORT:
        half = w.kind(_SHORT[dtype])
        value, kind = w.emit(f"bitcast {kind} {value} to {half}"), half
    elif dtype == "float64":
        return w.emit(f"bitcast {kind} {value} to {word}")
    return value if kind == word else w.emit(f"zext {kind} {value} to {word}")


def of_word(w: FunctionWriter, value: str, dtype: str) -> str:
    """A number of 64 bits."""
    word = w.kind("int64")
    if dtype == "list":
        return w.emit(f"inttoptr i64 {value} to ptr")
    kind = w.kind(dtype)
    if dtype == "float64":
        return w.emit(f"bitcast {word} {value} to {kind}")
    if dtype in _SHORT:
        half = w.kind(_SHORT[dtype])
        value = w.emit(f"trunc {word} {value} to {half}")
        return w.emit(f"bitcast {half} {value} to {kind}")
    return value if kind == word else w.emit(f"trunc {word} {value} to {kind}")


def _words(w: FunctionWriter, value: Any, dtype: str) -> list[str]:
    """A number as one or two times 64 bits."""
    part = PARTS.get(dtype)
    return [as_word(w, value, dtype)] if part is None else [as_word(w, p, part) for p in value]


def cell(w: FunctionWriter, made: str, index: str) -> str:
    """The address of a list's element."""
    data = _field(w, made, DATA, "ptr")
    far = w.emit(f"mul i64 {index}, {w.cell}")
    return w.emit(f"getelementptr i8, ptr {data}, i64 {far}")


def _read(w: FunctionWriter, at: str, dtype: str) -> str:
    """An element."""
    return of_word(w, w.emit(f"load {w.kind('int64')}, ptr {at}, align 8, !tbaa !5"), dtype)


def _write(w: FunctionWriter, word: str, at: str) -> None:
    w.line(f"store {w.kind('int64')} {word}, ptr {at}, align 8, !tbaa !5")


def _head(w: FunctionWriter, x: Instruction, k: int = 0) -> str:
    """The list that an instruction is about."""
    return w._values[x.args[k]]  # type: ignore[index, no-any-return]


_ROOM = 8
"""Numbers that a new list has room for."""


def _list(w: FunctionWriter, room: str, mark: int) -> str:
    made = w.allocated("24", mark)
    data = w.allocated(w.emit(f"mul i64 {room}, {w.cell}"), mark)
    _set_field(w, made, LENGTH, "i64 0")
    _set_field(w, made, ROOM, f"i64 {room}")
    _set_field(w, made, DATA, f"ptr {data}")
    return made


def _new_list(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, _list(w, str(_ROOM), x.what))


def _append(w: FunctionWriter, x: Instruction) -> None:
    value = x.args[1]
    word = as_word(w, _operand(w, value), str(value.type))
    _append_word(w, _head(w, x), word, x.what)


def _operand(w: FunctionWriter, x: Value) -> str:
    """The value put into a list: another list, or a number of each lane."""
    return w._values[x] if x.type == "list" else w.operand(x)  # type: ignore[index, no-any-return]


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
        words = _words(w, w.value(value), value.type)
    for word in words:
        _append_word(w, at, word, x.what)


def _pull(w: FunctionWriter, x: Instruction) -> None:
    """Take one off it."""
    at = w._values[x.args[0]]  # type: ignore[index]
    assert x.result is not None
    kind = x.result.type
    n = 1 + 2 * kind.ndim if isinstance(kind, Array) else 1 + (kind in PARTS)
    first = w.emit(f"sub i64 {_field(w, at, LENGTH)}, {n}")
    words = []
    for k in range(n):
        here = cell(w, at, w.emit(f"add i64 {first}, {k}"))
        words.append(w.emit(f"load i64, ptr {here}, align 8"))
    _set_field(w, at, LENGTH, f"i64 {first}")
    if isinstance(kind, Array) or kind == "list":
        base = w.emit(f"inttoptr i64 {words[0]} to ptr")
        if isinstance(kind, Array):
            dims, strides = words[1 : 1 + kind.ndim], words[1 + kind.ndim :]
            w.set(x, InRegisters(base, tuple(dims), tuple(strides)))
        else:
            w.set(x, base)
    elif kind in PARTS:
        w.set(x, Pair(*(of_word(w, word, PARTS[kind]) for word in words)))
    else:
        w.set(x, of_word(w, words[0], kind))


def _append_word(w: FunctionWriter, at: str, word: str, mark: int) -> None:
    count, room = _field(w, at, LENGTH), _field(w, at, ROOM)
    full = w.emit(f"icmp sge i64 {count}, {room}")
    grow, on = w.label(), w.label()
    w.line(f"br i1 {full}, label %{grow}, label %{on}, !prof !0")
    w.begin(grow)
    twice = w.emit(f"shl i64 {room}, 1")
    wide = w.emit(f"add i64 {twice}, {_ROOM}")  # room may be none, of what was taken out first
    bytes_ = w.emit(f"mul i64 {wide}, {w.cell}")
    data, old = w.allocated(bytes_, mark), _field(w, at, DATA, "ptr")

    def body(k: str) -> None:
        _move(w, old, k, data, k)

    w.loop(count, body)
    _set_field(w, at, ROOM, f"i64 {wide}")
    _set_field(w, at, DATA, f"ptr {data}")
    w.line(f"br label %{on}")
    w.begin(on)
    _write(w, word, cell(w, at, count))
    _set_field(w, at, LENGTH, f"i64 {w.emit(f'add i64 {count}, 1')}")


def _move(w: FunctionWriter, from_: str, k: str, to: str, j: str) -> None:
    """Copy an element."""
    kind = w.kind("int64")
    near, far = (w.emit(f"mul i64 {i}, {w.cell}") for i in (k, j))
    word = w.emit(
        f"load {kind}, ptr {w.emit(f'getelementptr i8, ptr {from_}, i64 {near}')}, align 8"
    )
    w.line(f"store {kind} {word}, ptr {w.emit(f'getelementptr i8, ptr {to}, i64 {far}')}, align 8")


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
    source, data = _field(w, at, DATA, "ptr"), _field(w, found, DATA, "ptr")

    def outer(k: str) -> None:
        first = w.emit(f"mul i64 {k}, {count}")

        def inner(j: str) -> None:
            _move(w, source, j, data, w.emit(f"add i64 {first}, {j}"))

        w.loop(count, inner)

    w.loop(n, outer)
    _set_field(w, found, LENGTH, f"i64 {total}")
    w.set(x, found)


def _list_length(w: FunctionWriter, x: Instruction) -> None:
    w.set(x, _field(w, _head(w, x), LENGTH))


def _list_item(w: FunctionWriter, x: Instruction) -> None:
    assert x.result is not None
    w.set(x, _read(w, cell(w, _head(w, x), w.value(x.args[1])), str(x.result.type)))


def _set_list_item(w: FunctionWriter, x: Instruction) -> None:
    _, at, value = x.args
    word = as_word(w, _operand(w, value), str(value.type))
    _write(w, word, cell(w, _head(w, x), w.value(at)))


def _pop(w: FunctionWriter, x: Instruction) -> None:
    made = _head(w, x)
    assert x.result is not None
    last = w.emit(f"sub i64 {_field(w, made, LENGTH)}, 1")
    found = _read(w, cell(w, made, last), str(x.result.type))
    _set_field(w, made, LENGTH, f"i64 {last}")
    w.set(x, found)


def _pop_first(w: FunctionWriter, x: Instruction) -> None:
    """The first element: what is left begins further on."""
    made = _head(w, x)
    assert x.result is not None
    data = _field(w, made, DATA, "ptr")
    found = _read(w, data, str(x.result.type))
    _set_field(w, made, DATA, f"ptr {w.emit(f'getelementptr i8, ptr {data}, i64 {w.cell}')}")
    for at in (LENGTH, ROOM):
        _set_field(w, made, at, f"i64 {w.emit(f'sub i64 {_field(w, made, at)}, 1')}")
    w.set(x, found)


def _clear(w: FunctionWriter, x: Instruction) -> None:
    _set_field(w, _head(w, x), LENGTH, "i64 0")


def _put_list(w: FunctionWriter, x: Instruction) -> None:
    k, dtype = x.what
    made, to = _head(w, x), w.made.results[k].dtype

    def body(at: str) -> None:
        value = converted(w, _read(w, cell(w, made, at), dtype), dtype, to)
        w.put_at(k, [at], value, to)

    w.loop(_field(w, made, LENGTH), body)


def _copy_list(w: FunctionWriter, x: Instruction) -> None:
    to, made = w.array(x.args[0]), _head(w, x, 1)
    kind = x.args[0].type
    assert isinstance(kind, Array)

    def body(at: str) -> None:
        w.store_wide(_read(w, cell(w, made, at), kind.dtype), w.place(to, [at]), kind.dtype)

    w.loop(to.dims[0], body)


OPERATIONS: dict[str, Callable[[FunctionWriter, Instruction], None]] = {
    "new list": _new_list, "append": _append, "repeat": _repeat,
    "list length": _list_length, "list item": _list_item, "set list item": _set_list_item,
    "push": _push, "pull": _pull, "pop": _pop, "pop first": _pop_first, "clear": _clear,
    "put list": _put_list, "copy list": _copy_list,
}  # fmt: skip
