"""What each instruction is for LLVM where slices go side by side: one of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.typed import Array, Instruction
from ....ir.typed.function import NOTED, Value
from .function import converted, machine, over, size
from .lanes import LanesWriter, short
from .operations import COMPARED, FLOATS, INTEGERS, function_at
from .whole_arrays import call_loop


def _kind(x: Value) -> str:
    return np.dtype(str(x.type)).kind


def _two(op: str) -> Callable[[LanesWriter, Instruction], None]:
    def write(w: LanesWriter, x: Instruction) -> None:
        a, b = x.args
        kind = _kind(a)
        of = w.wide_type(str(a.type))
        if kind == "f":
            second = w.safe(b, 1.0) if op == "div" else w.wide(b)
            if x.what == NOTED:
                short = machine(str(a.type))
                values = [w.wide(a), second]
                w.set(x, w.intrinsic(FLOATS[op], short, short, values, True))
                return
            w.set(x, w.emit(f"{FLOATS[op]} {of} {w.wide(a)}, {second}"))
            return
        second = w.safe(b, 1, always=True) if op in ("div", "rem") else w.wide(b)
        if op in ("div", "rem"):
            name = f"{'u' if kind == 'u' else 's'}{op}"
        elif op == "shr":
            name = "lshr" if kind == "u" else "ashr"
        else:
            name = INTEGERS.get(op, op)
        w.set(x, w.emit(f"{name} {of} {w.wide(a)}, {second}"))

    return write


def _compared(op: str) -> Callable[[LanesWriter, Instruction], None]:
    def write(w: LanesWriter, x: Instruction) -> None:
        a, b = x.args
        floats, signed, unsigned = COMPARED[op]
        kind = _kind(a)
        if kind != "f":
            how = signed if kind == "i" else unsigned
            w.set(x, w.emit(f"icmp {how} {w.wide_typed(a)}, {w.wide(b)}"))
        elif not w.warns:
            w.set(x, w.emit(f"fcmp {floats} {w.wide_typed(a)}, {w.wide(b)}"))
        else:
            of = w.wide_type(str(a.type))
            full = f"llvm.experimental.constrained.fcmp.{short(machine(str(a.type)), w.lanes)}"
            w.declared[full] = f"declare {w.bools} @{full}({of}, {of}, metadata, metadata)"
            how = f'metadata !"{floats}", metadata !"fpexcept.strict"'
            given = f"{of} {w.wide(a)}, {of} {w.wide(b)}, {how}"
            w.set(x, w.emit(f"call {w.bools} @{full}({given}) #2"))

    return write


def _intrinsic(name: str) -> Callable[[LanesWriter, Instruction], None]:
    def write(w: LanesWriter, x: Instruction) -> None:
        kind = machine(str(x.args[0].type))
        values = [w.safe(a, 1.0) if name == "sqrt" else w.wide(a) for a in x.args]
        w.set(x, w.intrinsic(name, kind, kind, values, x.what == NOTED))

    return write


def _neg(w: LanesWriter, x: Instruction) -> None:
    w.set(x, w.emit(f"fneg {w.wide_typed(x.args[0])}"))


def _not(w: LanesWriter, x: Instruction) -> None:
    w.set(x, w.turned(w.wide(x.args[0])))


def _select(w: LanesWriter, x: Instruction) -> None:
    asked, a, b = x.args
    condition = w.wide_typed(asked) if asked in w.differs else w.typed(asked)
    w.set(x, w.emit(f"select {condition}, {w.wide_typed(a)}, {w.wide_typed(b)}"))


def _overflows(w: LanesWriter, x: Instruction) -> None:
    a, b = x.args
    of, letter = w.wide_type(str(a.type)), "u" if _kind(a) == "u" else "s"
    name = f"llvm.{letter}{x.what}.with.overflow.{short(machine(str(a.type)), w.lanes)}"
    w.declared[name] = f"declare {{{of}, {w.bools}}} @{name}({of}, {of})"
    both = w.emit(f"call {{{of}, {w.bools}}} @{name}({of} {w.wide(a)}, {of} {w.wide(b)})")
    w.set(x, w.emit(f"extractvalue {{{of}, {w.bools}}} {both}, 1"))


def _cast(w: LanesWriter, x: Instruction) -> None:
    (a,) = x.args
    assert x.result is not None
    w.set(x, _converted(w, w.safe(a, 0, always=_kind(a) == "f"), str(a.type), str(x.result.type)))


def _converted(w: LanesWriter, value: str, from_: str, to: str) -> str:
    """Numbers in another type, as C does it."""
    return converted(w, value, from_, to, w.wide_type, w.other_floats)


def _mark(w: LanesWriter, x: Instruction) -> None:
    w.leave(w.wide(x.args[0]))


def _each(w: LanesWriter, x: Instruction, one: Callable[[list[str]], str]) -> None:
    """The same call for each lane that is here."""
    assert x.result is not None
    dtype = str(x.result.type)
    kind, vector = machine(dtype), w.wide_type(dtype)
    at = w.at_entry(f"alloca {vector}, align 64")
    w.line(f"store {vector} zeroinitializer, ptr {at}, align 64")
    mask, values = w.mask(), [w.wide_typed(a) for a in x.args]
    for k in range(w.lanes):
        here, after = w.label(), w.label()
        is_here = w.emit(f"extractelement {w.bools} {mask}, i64 {k}")
        w.line(f"br i1 {is_here}, label %{here}, label %{after}")
        w.begin(here)
        found = one([w.emit(f"extractelement {v}, i64 {k}") for v in values])
        old = w.emit(f"load {vector}, ptr {at}, align 64")
        new = w.emit(f"insertelement {vector} {old}, {kind} {found}, i64 {k}")
        w.line(f"store {vector} {new}, ptr {at}, align 64")
        w.line(f"br label %{after}")
        w.begin(after)
    w.set(x, w.emit(f"load {vector}, ptr {at}, align 64"))


def _call(w: LanesWriter, x: Instruction) -> None:
    assert x.result is not None
    kind = machine(str(x.result.type))

    def one(values: list[str]) -> str:
        f = function_at(w, x.what)
        given = ", ".join(
            f"{machine(str(a.type))} {v}" for a, v in zip(x.args, values, strict=True)
        )
        return w.emit(f"call {kind} {f}({given}) #1")

    _each(w, x, one)


def _ufunc(w: LanesWriter, x: Instruction) -> None:
    assert x.result is not None
    result = str(x.result.type)
    kinds = [*(str(a.type) for a in x.args), result]
    places = [w.at_entry("alloca i64, align 8") for _ in kinds]

    def one(values: list[str]) -> str:
        for v, kind, place in zip(values, kinds, places, strict=False):
            w.store(v, place, kind)
        call_loop(w, x.what, places, [str(size(k)) for k in kinds], "1")
        return w.load(places[-1], result)

    _each(w, x, one)


# --- slots, arrays, results ---------------------------------------------------------------------


def _load(w: LanesWriter, x: Instruction) -> None:
    at, dtype = w.slot(x.what), str(x.what.type)
    if dtype == "bool":
        w.set(x, w.load_mask(at))
    else:
        w.set(x, w.emit(f"load {w.wide_type(dtype)}, ptr {at}, align 64"))


def _store(w: LanesWriter, x: Instruction) -> None:
    at, dtype = w.slot(x.what), str(x.what.type)
    value, kind = w.wide(x.args[0]), machine(dtype)
    if dtype == "bool":
        value, kind = w.emit(f"sext {w.bools} {value} to {w.words}"), "i64"
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
    kind = x.args[0].type
    assert isinstance(kind, Array)
    if x.args[1] in w.shared or x.args[0] in w.shared:
        raise UnsupportedError("a copy of what slices share")
    between = w.fresh(kind.dtype, from_.dims, x.what)
    for target, source in ((between, from_), (to, between)):

        def body(at: list[str], target: Any = target, source: Any = source) -> None:
            w.store_wide(
                w.load_wide(w.place(source, at), kind.dtype), w.place(target, at), kind.dtype
            )

        over(w, from_.dims, body)


def _put(w: LanesWriter, x: Instruction) -> None:
    at, value = x.args
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
    array, result = w.array(x.args[0]), w.result(k)
    to, shared = w.made.results[k].dtype, x.args[0] in w.shared
    begin = w.outs(k)

    def body(at: list[str]) -> None:
        place = w.place(array, at)
        if shared:
            value = w.spread(machine(dtype), w.load(place, dtype))
        else:
            value = w.load_wide(place, dtype)
        far = "0"
        for i, stride in zip(at, result.strides, strict=True):
            one = w.emit(f"mul i64 {i}, {stride}")
            far = w.emit(f"add i64 {far}, {one}")
        spread = w.spread("i64", far)
        places = w.emit(f"getelementptr i8, <{w.lanes} x ptr> {begin}, {w.words} {spread}")
        w.scatter(_converted(w, value, dtype, to), places, to)

    over(w, array.dims, body)


LANE_OPERATIONS: dict[str, Callable[[LanesWriter, Instruction], None]] = {
    **{op: _two(op) for op in "add sub mul div rem and or xor shl shr".split()},
    **{op: _compared(op) for op in COMPARED},
    "sqrt": _intrinsic("sqrt"), "abs": _intrinsic("fabs"), "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"), "trunc": _intrinsic("trunc"), "rint": _intrinsic("rint"),
    "copysign": _intrinsic("copysign"), "neg": _neg, "not": _not, "select": _select,
    "overflows": _overflows, "cast": _cast, "mark": _mark, "call": _call, "ufunc": _ufunc,
    "load": _load, "store": _store, "input": _input, "element": _element,
    "set element": _set_element, "fill": _fill, "copy": _copy, "put": _put,
    "put array": _put_array,
}  # fmt: skip
"""What instructions are on values that differ between slices."""
