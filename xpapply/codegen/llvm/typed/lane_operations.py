"""LLVM text of instructions other than on numbers, where slices go side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.typed import Array, Instruction
from ....ir.typed.function import PARTS, Value
from . import lists
from .beside import copies
from .forms import InRegisters, Pair, in_memory, machine, size
from .lanes import LanesWriter
from .operations import function_at
from .whole_arrays import (
    NUMBER,
    PLAIN,
    as_type,
    call_loop,
    converted,
    mapped,
    one_number,
    over,
    reduced,
)


def _mark(w: LanesWriter, x: Instruction) -> None:
    w.leave(w.wide(x.args[0]))


def _each(
    w: LanesWriter,
    x: Instruction,
    one: Callable[[list[str]], str],
    known: tuple[str, str] | None = None,
) -> None:
    """Call a function for each active lane; `known`: results, and the lanes that have them."""
    assert x.result is not None
    dtype = str(x.result.type)
    vector, lane = f"<{w.lanes} x {in_memory(dtype)}>", f"i{w.lanes}"
    at = w.at_entry(f"alloca {vector}, align 64")
    w.line(f"store {vector} {known[0] if known else 'zeroinitializer'}, ptr {at}, align 64")
    mask = w.mask()
    if known:
        mask = w.both(mask, w.turned(known[1]))
    ask, again, done = w.label(), w.label(), w.label()
    left = w.at_entry(f"alloca {lane}, align 8")
    bits = w.emit(f"bitcast {w.bools} {mask} to {lane}")
    weights = ", !prof !12" if known else ""
    some = w.emit(f"icmp ne {lane} {bits}, 0")
    w.line(f"br i1 {some}, label %{ask}, label %{done}{weights}")
    w.begin(ask)
    places = [_numbers(w, a) for a in x.args]
    w.line(f"store {lane} {bits}, ptr {left}")
    w.line(f"br label %{again}")
    w.begin(again)
    bits = w.emit(f"load {lane}, ptr {left}")
    first = w.plain("cttz", lane, [bits], ["i1 true"])
    k = w.emit(f"zext {lane} {first} to i64")
    values = []
    for a, place in zip(x.args, places, strict=True):
        values.append(w.load(_of_lane(w, place, k, str(a.type)), str(a.type)))
    found = one(values)
    w.store(found, _of_lane(w, at, k, dtype), dtype)
    less = w.emit(f"sub {lane} {bits}, 1")
    others = w.emit(f"and {lane} {bits}, {less}")
    w.line(f"store {lane} {others}, ptr {left}")
    more = w.emit(f"icmp ne {lane} {others}, 0")
    w.line(f"br i1 {more}, label %{again}, label %{done}")
    w.begin(done)
    w.set(x, w.load_wide(at, dtype))


def _call(w: LanesWriter, x: Instruction) -> None:
    from .quick import quick  # which loops without such calls do not need

    assert x.result is not None
    kind = machine(str(x.result.type))

    def one(values: list[str]) -> str:
        f = function_at(w, x.what)
        given = ", ".join(
            f"{machine(str(a.type))} {v}" for a, v in zip(x.args, values, strict=True)
        )
        return w.emit(f"call {kind} {f}({given}) #1")

    _each(w, x, one, quick(w, x))


def _ufunc(w: LanesWriter, x: Instruction) -> None:
    assert x.result is not None
    result = str(x.result.type)
    kinds = [*(str(a.type) for a in x.args), result]
    if not {*kinds}.isdisjoint(PARTS):
        raise UnsupportedError(f"a function of complex numbers, line {x.line}")
    places = [w.at_entry(NUMBER) for _ in kinds]

    def one(values: list[str]) -> str:
        for v, kind, place in zip(values, kinds, places, strict=False):
            w.store(v, place, kind)
        call_loop(w, x.what, places, one_number(kinds), "1")
        return w.load(places[-1], result)

    _each(w, x, one)


# --- whole arrays -------------------------------------------------------------------------------


def _here(w: LanesWriter, body: Callable[[str], None]) -> None:
    """``body(lane)`` for each lane that is here."""
    bits = w.emit(f"bitcast {w.bools} {w.mask()} to i{w.lanes}")

    def each(k: str) -> None:
        lane = w.emit(f"trunc i64 {k} to i{w.lanes}")
        only = w.emit(f"shl i{w.lanes} 1, {lane}")
        asked = w.emit(f"and i{w.lanes} {bits}, {only}")
        is_here = w.emit(f"icmp ne i{w.lanes} {asked}, 0")
        here, after = w.label(), w.label()
        w.line(f"br i1 {is_here}, label %{here}, label %{after}")
        w.begin(here)
        body(k)
        w.line(f"br label %{after}")
        w.begin(after)

    w.loop(str(w.lanes), each)


def _of_lane(w: LanesWriter, base: str, k: str, dtype: str) -> str:
    """The address of a lane's own memory."""
    far = w.emit(f"mul i64 {k}, {size(dtype)}")
    return w.emit(f"getelementptr i8, ptr {base}, i64 {far}")


def _numbers(w: LanesWriter, x: Value) -> str:
    """The numbers of all lanes, in memory."""
    dtype = str(x.type)
    kind = f"<{w.lanes} x {in_memory(dtype)}>"
    at, value = w.at_entry(f"alloca {kind}, align 64"), w.wide(x)
    if dtype == "bool":
        value = w.emit(f"zext {w.bools} {value} to {kind}")
    w.line(f"store {kind} {value}, ptr {at}, align 64")
    return at


def _array_of_lane(w: LanesWriter, x: Value, k: str) -> InRegisters:
    """An array, as one lane has it."""
    assert isinstance(x.type, Array)
    a = w.array(x)
    return a if x in w.shared else a._replace(base=_of_lane(w, a.base, k, x.type.dtype))


_EXTREMES = frozenset("maximum minimum fmax fmin clip".split())
"""Extremes whose choice between zeros depends on layout and length in NumPy's loops."""


def _is_extreme(w: LanesWriter, x: Instruction) -> bool:
    """Whether an instruction may choose between zeros of two signs."""
    assert x.result is not None
    k = x.what if x.op == "reduce" else x.what[0]
    kind = x.result.type.dtype if isinstance(x.result.type, Array) else x.result.type
    return w.made.externals[k][1] in _EXTREMES and np.dtype(kind).kind == "f"


def _of_pairs(x: Instruction) -> bool:
    """Whether an instruction is of complex numbers."""
    types = [y.type for y in (x.result, *x.args) if y is not None]
    return any((y.dtype if isinstance(y, Array) else y) in PARTS for y in types)


def _map(w: LanesWriter, x: Instruction) -> None:
    """All lanes' numbers side by side: NumPy's loops err where results are 64 bytes apart."""
    if _of_pairs(x):
        raise UnsupportedError(f"a function of complex arrays, line {x.line}")
    if w.part is not None:
        raise UnsupportedError("a function of whole arrays for some slices")
    if _is_extreme(w, x):
        raise UnsupportedError(f"zeros of two signs, line {x.line}")
    result, steps = mapped(w, x)
    assert x.result is not None
    assert isinstance(x.result.type, Array)
    if _is_plain(w, x):
        _map_plainly(w, x, result, steps)
        w.set(x, result)
        return
    own = [(a, a.type) for a in x.args if isinstance(a.type, Array) and a not in w.shared]
    numbers = {a: _numbers(w, a) for a in x.args if not isinstance(a.type, Array)}
    bases = [numbers[a] if a in numbers else w.array(a).base for a in x.args]
    dtypes = [a.type.dtype if isinstance(a.type, Array) else a.type for a in x.args]
    apart = [
        str(size(d)) if a not in w.shared else "0" for a, d in zip(x.args, dtypes, strict=True)
    ]
    apart.append(str(size(x.result.type.dtype)))

    def row(at: list[str]) -> None:
        places = []
        for base, own_steps in zip([*bases, result.base], steps, strict=True):
            places.append(w.place(InRegisters(base, (), tuple(own_steps)), at))
        call_loop(w, x.what[0], places, apart, str(w.lanes))

    if len(own) == len(x.args) and len(result.dims) == 1:
        same = "true"  # they are as long as each other: one call for all of them
        for a, kind in own:
            alike = w.emit(f"icmp eq i64 {w.array(a).dims[0]}, {result.dims[0]}")
            beside = w.emit(f"icmp eq i64 {w.array(a).strides[0]}, {w.element_bytes(kind.dtype)}")
            same = w.emit(f"and i1 {same}, {alike}")
            same = w.emit(f"and i1 {same}, {beside}")
        whole, each, after = w.label(), w.label(), w.label()
        w.line(f"br i1 {same}, label %{whole}, label %{each}")
        w.begin(whole)
        count = w.emit(f"mul i64 {result.dims[0]}, {w.lanes}")
        call_loop(w, x.what[0], [*bases, result.base], apart, count)
        w.line(f"br label %{after}")
        w.begin(each)
        over(w, result.dims, row)
        w.line(f"br label %{after}")
        w.begin(after)
    else:
        over(w, result.dims, row)
    w.set(x, result)


def _is_plain(w: LanesWriter, x: Instruction) -> bool:
    _, name, *types = w.made.externals[x.what[0]]
    return name in PLAIN and set(types) in ({"float64"}, {"float32"})


def _map_plainly(
    w: LanesWriter, x: Instruction, result: InRegisters, steps: list[list[str]]
) -> None:
    """Such a function of arrays, without a call for each element."""
    name, dtype = w.made.externals[x.what[0]][1:3]
    kind = w.wide_type(dtype)
    numbers = {a: w.wide(a) for a in x.args if not isinstance(a.type, Array)}

    def body(at: list[str]) -> None:
        values = []
        for a, own in zip(x.args, steps, strict=False):
            if a in numbers:
                values.append(numbers[a])
                continue
            place = w.place(InRegisters(w.array(a).base, (), tuple(own)), at)
            if a in w.shared:
                values.append(w.spread(machine(dtype), w.load(place, dtype)))
            else:
                values.append(w.load_wide(place, dtype))
        w.store_wide(w.strict(PLAIN[name], kind, kind, values), w.place(result, at), dtype)

    over(w, result.dims, body)


def _reduce(w: LanesWriter, x: Instruction) -> None:
    if _of_pairs(x):
        raise UnsupportedError(f"a reduction of complex numbers, line {x.line}")
    assert x.result is not None
    dtype = str(x.result.type)
    if w.made.externals[x.what][1] in ("maximum", "minimum") and len(x.args) == 1:
        value = _extreme(w, x, dtype)
        w.set(x, value)
        if np.dtype(dtype).kind == "f":
            w.leave(w.emit(f"fcmp oeq {w.wide_type(dtype)} {value}, zeroinitializer"))
        return
    kind = f"<{w.lanes} x {in_memory(dtype)}>"
    found = w.at_entry(f"alloca {kind}, align 64")
    w.line(f"store {kind} zeroinitializer, ptr {found}, align 64")
    given = _numbers(w, x.args[1]) if len(x.args) > 1 else None

    def one(k: str) -> None:
        first = None if given is None else w.load(_of_lane(w, given, k, dtype), dtype)
        place = _of_lane(w, found, k, dtype)
        reduced(w, x, _array_of_lane(w, x.args[0], k), place, first)

    _here(w, one)
    value = w.load_wide(found, dtype)
    w.set(x, value)
    if _is_extreme(w, x):
        kind = w.wide_type(dtype)
        w.leave(w.emit(f"fcmp oeq {kind} {value}, zeroinitializer"))


def _extreme(w: LanesWriter, x: Instruction, dtype: str) -> str:
    """The largest or the smallest number, as NumPy finds it but for the sign of zero: NaN, if any.

    Nothing is noted.
    """
    a, kind = w.array(x.args[0]), w.wide_type(dtype)
    is_largest, of = w.made.externals[x.what][1] == "maximum", np.dtype(dtype).kind
    at = w.at_entry(f"alloca {kind}, align 64")
    w.line(f"store {kind} {w.load_wide(a.base, dtype)}, ptr {at}, align 64")

    def body(k: str) -> None:
        value = w.load_wide(w.place(a, [k]), dtype)
        best = w.emit(f"load {kind}, ptr {at}, align 64")
        if of == "f":
            kept = w.quiet("oge" if is_largest else "ole", kind, best, value)
            kept = w.emit(f"or {w.bools} {kept}, {w.quiet('uno', kind, best, best)}")
        else:
            how = ("s" if of == "i" else "u") + ("ge" if is_largest else "le")
            kept = w.emit(f"icmp {how} {kind} {best}, {value}")
        chosen = w.emit(f"select {w.bools} {kept}, {kind} {best}, {kind} {value}")
        w.line(f"store {kind} {chosen}, ptr {at}, align 64")

    w.loop(a.dims[0], body)
    return w.emit(f"load {kind}, ptr {at}, align 64")


def _as_type(w: LanesWriter, x: Instruction) -> None:
    if x.args[0] in w.shared:
        raise UnsupportedError("another type of what slices share")
    as_type(w, x)


# --- slots, arrays, results ---------------------------------------------------------------------


def _load(w: LanesWriter, x: Instruction) -> None:
    at, dtype = w.slot(x.what), str(x.what.type)
    if dtype in PARTS:
        kind = w.wide_type(PARTS[dtype])
        w.set(x, Pair(*(w.emit(f"load {kind}, ptr {p}, align 64") for p in at)))
    elif dtype == "bool":
        w.set(x, w.load_mask(at))
    else:
        w.set(x, w.emit(f"load {w.wide_type(dtype)}, ptr {at}, align 64"))


def _store(w: LanesWriter, x: Instruction) -> None:
    at, dtype = w.slot(x.what), str(x.what.type)
    if dtype in PARTS:
        for part, place in zip(w.wide(x.args[0]), at, strict=True):
            _store_part(w, part, machine(PARTS[dtype]), place)
        return
    value, kind = w.wide(x.args[0]), machine(dtype)
    if dtype == "bool":
        value, kind = w.as_held(value), "i1" if w.held == w.bools else "i64"
    _store_part(w, value, kind, at)


def _store_part(w: LanesWriter, value: str, kind: str, at: str) -> None:
    vector = f"<{w.lanes} x {kind}>"
    if w.part is not None:
        old = w.emit(f"load {vector}, ptr {at}, align 64")
        value = w.chosen(kind, value, old)
    w.line(f"store {vector} {value}, ptr {at}, align 64")


def _input(w: LanesWriter, x: Instruction) -> None:
    assert x.result is not None
    w.set(x, w.load_wide(f"%in{x.what}", str(x.result.type)))


def _element(w: LanesWriter, x: Instruction) -> None:
    array, *at = x.args
    assert x.result is not None
    dtype, own = str(x.result.type), array not in w.shared
    a = w.array(array)
    if own and not any(i in w.differs for i in at):
        w.set(x, w.load_wide(w.place(a, [w.value(i) for i in at]), dtype))
    else:
        w.set(x, w.gather(w.places(a, at, own, dtype), dtype))


def _row(w: LanesWriter, x: Instruction) -> None:
    """A row of an array shared by slices, another one for each: a read-only copy."""
    array, at = x.args
    assert isinstance(array.type, Array)
    a, axis, dtype = w.array(array), x.what, array.type.dtype
    dims, strides = (
        [y for k, y in enumerate(z) if k != axis] for z in (list(a.dims), list(a.strides))
    )
    result = w.fresh(dtype, dims, 0)
    begin = w.places(InRegisters(a.base, (), (a.strides[axis],)), [at], False, dtype)

    def body(index: list[str]) -> None:
        far = "0"
        for i, stride in zip(index, strides, strict=True):
            far = w.emit(f"add i64 {far}, {w.emit(f'mul i64 {i}, {stride}')}")
        given = f"<{w.lanes} x ptr> {begin}, {w.words} {w.spread('i64', far)}"
        value = w.gather(w.emit(f"getelementptr i8, {given}"), dtype)
        w.store_wide(value, w.place(result, index), dtype)

    over(w, dims, body)
    w.set(x, result)


def _set_element(w: LanesWriter, x: Instruction) -> None:
    array, *at, value = x.args
    dtype, a = str(value.type), w.array(array)
    if array in w.shared:
        raise UnsupportedError("writing into what slices share")
    if any(i in w.differs for i in at):
        w.scatter(w.wide(value), w.places(a, at, True, dtype), dtype)
    else:
        w.store_wide(w.wide(value), w.place(a, [w.value(i) for i in at]), dtype)


def _fill(w: LanesWriter, x: Instruction) -> None:
    array, value = x.args
    a, text = w.array(array), w.wide(value)
    over(w, a.dims, lambda at: w.store_wide(text, w.place(a, at), str(value.type)))


def _copy(w: LanesWriter, x: Instruction) -> None:
    to, from_ = (w.array(y) for y in x.args)
    kind, (mark, are_apart) = x.args[0].type, x.what
    assert isinstance(kind, Array)
    if x.args[1] in w.shared or x.args[0] in w.shared:
        raise UnsupportedError("a copy of what slices share")
    ways = [(to, from_)]
    if not are_apart:
        between = w.fresh(kind.dtype, from_.dims, mark)
        ways = [(between, from_), (to, between)]
    for target, source in ways:

        def body(at: list[str], target: Any = target, source: Any = source) -> None:
            w.store_wide(
                w.load_wide(w.place(source, at), kind.dtype), w.place(target, at), kind.dtype
            )

        over(w, from_.dims, body)


def _put(w: LanesWriter, x: Instruction) -> None:
    at, value = x.args
    if w.in_rows:
        w.store_wide(w.wide(value), f"%out{x.what}", str(value.type))
        return
    result = w.result(x.what)
    found = w.outs(x.what)
    if result.dims:
        indices = [w.wide(at)]
        if len(result.dims) == 2:
            inner = w.spread("i64", result.dims[1])
            indices = [w.emit(f"{op} {w.words} {w.wide(at)}, {inner}") for op in ("udiv", "urem")]
        for i, stride in zip(indices, result.strides, strict=True):
            far = w.emit(f"mul {w.words} {i}, {w.spread('i64', stride)}")
            found = w.emit(f"getelementptr i8, <{w.lanes} x ptr> {found}, {w.words} {far}")
    w.scatter(w.wide(value), found, str(value.type))


def _put_array(w: LanesWriter, x: Instruction) -> None:
    k, dtype = x.what
    array = w.array(x.args[0])
    to, shared = w.made.results[k].dtype, x.args[0] in w.shared

    def body(at: list[str]) -> None:
        place = w.place(array, at)
        value: Any
        if shared and dtype in PARTS:
            part = machine(PARTS[dtype])
            value = Pair(*(w.spread(part, p) for p in w.load(place, dtype)))
        elif shared:
            value = w.spread(machine(dtype), w.load(place, dtype))
        else:
            value = w.load_wide(place, dtype)
        w.put_at(k, at, converted(w, value, dtype, to), to)

    if shared or dtype != to or array.strides != (str(w.element_bytes(dtype)),):
        over(w, array.dims, body)
        return
    w.declared[f"apart {dtype}"] = copies(dtype, w.lanes, back=True)
    step = w.result(k).strides[0]
    given = f"ptr {array.base}, ptr %out{k}, i64 {array.dims[0]}, i64 {step}"
    if w.part is None:  # what lanes get that are done again counts for nothing
        w.line(f"call void @apart.{dtype}({given})")
        return
    some, all_, after = w.label(), w.label(), w.label()
    w.line(f"br i1 {w.any(w.turned(w.part))}, label %{some}, label %{all_}")
    w.begin(all_)
    w.line(f"call void @apart.{dtype}({given})")
    w.line(f"br label %{after}")
    w.begin(some)
    over(w, array.dims, body)
    w.line(f"br label %{after}")
    w.begin(after)


# --- lists --------------------------------------------------------------------------------------


def _together(op: str) -> Callable[[LanesWriter, Instruction], None]:
    """An instruction that changes a list's length: by all slices, or none."""

    def write(w: LanesWriter, x: Instruction) -> None:
        if w.part is not None:
            raise UnsupportedError(f"{op} for some slices, line {x.line}")
        if op == "repeat" and x.args[1] in w.differs:
            raise UnsupportedError("lists that are not as long as each other")
        lists.OPERATIONS[op](w, x)

    return write


def _cells(w: LanesWriter, x: Instruction) -> str:
    """Addresses of the lanes' elements of a list."""
    first = lists.cell(w, w._values[x.args[0]], "0")  # type: ignore[index]
    far = w.emit(f"mul {w.words} {w.wide(x.args[1])}, {w.all_lanes('i64', str(w.cell))}")
    lanes = ", ".join(f"i64 {8 * k}" for k in range(w.lanes))
    far = w.emit(f"add {w.words} {far}, <{lanes}>")
    return w.emit(f"getelementptr i8, ptr {first}, {w.words} {far}")


def _list_item(w: LanesWriter, x: Instruction) -> None:
    assert x.result is not None
    if x.args[1] not in w.differs:
        lists.OPERATIONS[x.op](w, x)
        return
    w.set(x, lists.of_word(w, w.gather(_cells(w, x), "int64"), str(x.result.type)))


def _set_list_item(w: LanesWriter, x: Instruction) -> None:
    made, at, value = x.args
    word = lists.as_word(w, w.wide(value), str(value.type))
    if at in w.differs:
        w.scatter(word, _cells(w, x), "int64")
    else:
        place = lists.cell(w, w._values[made], w.value(at))  # type: ignore[index]
        w.store_wide(word, place, "int64")


LANE_OPERATIONS: dict[str, Callable[[LanesWriter, Instruction], None]] = {
    "mark": _mark, "call": _call, "ufunc": _ufunc,
    "load": _load, "store": _store, "input": _input, "element": _element, "row": _row,
    "set element": _set_element, "fill": _fill, "copy": _copy, "put": _put,
    **{op: _together(op) for op in lists.OPERATIONS if op not in ("push", "pull")},
    "list length": lists.OPERATIONS["list length"], "put list": lists.OPERATIONS["put list"],
    "copy list": lists.OPERATIONS["copy list"],
    "list item": _list_item, "set list item": _set_list_item,
    "put array": _put_array, "map": _map, "reduce": _reduce, "as type": _as_type,
}  # fmt: skip
"""Instructions on values that differ between slices; `ON_NUMBERS` has the others."""
