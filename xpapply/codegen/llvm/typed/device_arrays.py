"""Whole arrays of NumPy's on a device, where its loops cannot be called: element by element.

What a ufunc gives is computed where it is read, if that is one place: a formula of arrays is one
loop, and nothing of it lies in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....ir.typed import Array, Instruction, Literal
from ....ir.typed.function import Value
from .forms import InRegisters, literal, machine
from .whole_arrays import converted, spread

Element = Callable[[Sequence[str]], str]


class Formula(NamedTuple):
    """An array that is not in memory: its lengths, and what writes an element of it."""

    dims: tuple[str, ...]
    element: Element
    dtype: str
    mark: int


IN_C = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "power": "pow",
    **{n: n for n in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh".split()},
    "cbrt": "cbrt", "hypot": "hypot", "nextafter": "nextafter",
    "scipy.special.erf": "erf", "scipy.special.erfc": "erfc",
}  # fmt: skip
"""Ufuncs that CUDA has by these names of the C library's."""
_FLOATS = {"float32", "float64"}
_TWO = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_ONE = {
    "sqrt": "sqrt", "fabs": "fabs", "absolute": "fabs", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "rint": "rint",
}  # fmt: skip
_COMPARED = {
    "less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge", "equal": "oeq",
    "not_equal": "une",
}  # fmt: skip
_OF_INTEGERS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "maximum": "max", "minimum": "min",
}  # fmt: skip
"""Operations on integers, which wrap."""
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_MORE = ("negative", "square", "reciprocal", "copysign", "maximum", "minimum", "fmax", "fmin")
_ASKED = ("isfinite", "isnan", "isinf")
_REDUCED = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")


def in_c(external: Sequence[str]) -> tuple[str, ...] | None:
    """The C library's function that a device has for a ufunc; None: it is written out, or not."""
    kind, name, *types = external
    if kind != "ufunc" or name not in IN_C or len({*types}) > 1 or not {*types} <= _FLOATS:
        return None
    return "libm", IN_C[name], types[0], str(len(types) - 1)


def is_written(external: Sequence[str]) -> bool:
    """Whether a ufunc of some types is written for a device."""
    kind, name, *types = external
    if kind != "ufunc":
        return False
    if name in _LOGICAL or name in _BITS or name == "logical_not":
        return {*types} == {"bool"}
    *given, out = types
    if len({*given}) > 1:
        return False
    if np.dtype(given[0]).kind in "iu":
        if name in _COMPARED:
            return out == "bool"
        return name in _OF_INTEGERS and {out} == {*given}
    if not {*given} <= _FLOATS:
        return False
    if name in _COMPARED or name in _ASKED:
        return out == "bool"
    known = name in IN_C or name in _TWO or name in _ONE or name in _MORE
    return known and {out} == {*given}


def is_reduced(external: Sequence[str]) -> bool:
    """Whether a reduction is written for a device."""
    return external[1] in _REDUCED and is_written(external)


def computed(w: Any, k: int, values: Sequence[str], args: Sequence[Value] = ()) -> str:
    """Apply a ufunc to numbers; `args`: their operands, where known."""
    _, name, *types = w.made.externals[k]
    dtype = types[0]
    kind = machine(dtype)
    (a, *rest) = values
    b = rest[0] if rest else ""
    if np.dtype(dtype).kind in "iu":
        return _of_integers(w, name, a, b, dtype)
    if name in _TWO:
        return w.strict(_TWO[name], kind, kind, [a, b])  # type: ignore[no-any-return]
    if name == "power" and args and isinstance(args[1], Literal) and args[1].value == 2:
        name, b = "square", ""
    if name == "square":
        return w.strict("fmul", kind, kind, [a, a])  # type: ignore[no-any-return]
    if name == "reciprocal":
        return w.strict("fdiv", kind, kind, [literal(1.0, dtype), a])  # type: ignore[no-any-return]
    if name in _ONE:
        found: str = w.plain(_ONE[name], kind, [a])
        return w.noted(found, kind, [a]) if name == "sqrt" else found  # type: ignore[no-any-return]
    if name == "negative":
        return w.emit(f"fneg {kind} {a}")  # type: ignore[no-any-return]
    if name == "copysign":
        return w.plain("copysign", kind, [a, b])  # type: ignore[no-any-return]
    if name in _COMPARED:
        return w.emit(f"fcmp {_COMPARED[name]} {kind} {a}, {b}")  # type: ignore[no-any-return]
    if name in _LOGICAL or name in _BITS:
        return w.emit(f"{(_LOGICAL | _BITS)[name]} i1 {a}, {b}")  # type: ignore[no-any-return]
    if name == "logical_not":
        return w.emit(f"xor i1 {a}, true")  # type: ignore[no-any-return]
    if name in _ASKED:
        return _asked(w, name, a, dtype)
    if name in ("maximum", "minimum", "fmax", "fmin"):
        return _chosen(w, name, a, b, kind)
    external = in_c(w.made.externals[k])
    assert external is not None
    found = w.called(external, kind, [f"{kind} {v}" for v in values])
    return w.noted(found, kind, values, True)  # type: ignore[no-any-return]


def _of_integers(w: Any, name: str, a: str, b: str, dtype: str) -> str:
    kind, sign = machine(dtype), "u" if dtype.startswith("u") else "s"
    if name in _COMPARED:
        how = {"oeq": "eq", "une": "ne"}.get(_COMPARED[name], sign + _COMPARED[name][1:])
        return w.emit(f"icmp {how} {kind} {a}, {b}")  # type: ignore[no-any-return]
    op = _OF_INTEGERS[name]
    if op in ("max", "min"):
        return w.plain(f"{sign}{op}", kind, [a, b])  # type: ignore[no-any-return]
    return w.emit(f"{op} {kind} {a}, {b}")  # type: ignore[no-any-return]


def _asked(w: Any, name: str, a: str, dtype: str) -> str:
    kind = machine(dtype)
    if name == "isnan":
        return w.emit(f"fcmp uno {kind} {a}, {a}")  # type: ignore[no-any-return]
    size = w.plain("fabs", kind, [a])
    how = "one" if name == "isfinite" else "oeq"
    return w.emit(f"fcmp {how} {kind} {size}, {literal(float('inf'), dtype)}")  # type: ignore[no-any-return]


def _chosen(w: Any, name: str, a: str, b: str, kind: str) -> str:
    """The larger or smaller one, the second of two alike; of ``maximum`` NaN, if one is."""
    how = "ogt" if name.endswith("x") or name == "maximum" else "olt"
    first = w.emit(f"fcmp {how} {kind} {a}, {b}")
    odd = b if name.startswith("f") else a
    is_odd = w.emit(f"fcmp uno {kind} {odd}, {odd}")
    first = w.emit(f"or i1 {first}, {is_odd}")
    return w.emit(f"select i1 {first}, {kind} {a}, {kind} {b}")  # type: ignore[no-any-return]


def _operand(w: Any, x: Value, steps: Sequence[str], dims: Sequence[str]) -> Element:
    """A reader of elements of a ufunc's operand."""
    if not isinstance(x.type, Array):
        value = w.value(x)
        return lambda at: value  # type: ignore[no-any-return]
    found = w.formula(x)
    if found is not None:
        return found.element  # type: ignore[no-any-return]
    array, dtype = w.array(x), x.type.dtype
    own = InRegisters(array.base, tuple(dims), tuple(steps))
    return lambda at: w.load(w.place(own, at), dtype)  # type: ignore[no-any-return]


def map_(w: Any, x: Instruction) -> None:
    """A ufunc; axes of length 1 are spread."""
    k, unlike, memory = x.what
    assert x.result is not None
    assert isinstance(x.result.type, Array)
    for a in x.args:
        found = w.formula(a)
        if found is not None and any(
            isinstance(b.type, Array) and w.lengths(b) != found.dims for b in x.args
        ):
            w.array(a)  # it may be spread
    dims, steps = spread(w, x, unlike)
    operands = [_operand(w, a, own, dims) for a, own in zip(x.args, steps, strict=True)]

    def element(at: Sequence[str]) -> str:
        return computed(w, k, [read(at) for read in operands], x.args)

    w.set(x, Formula(tuple(dims), element, x.result.type.dtype, memory))


def as_type(w: Any, x: Instruction) -> None:
    """Numbers in another type."""
    (a,) = x.args
    assert x.result is not None
    assert isinstance(x.result.type, Array)
    assert isinstance(a.type, Array)
    dims = w.lengths(a)
    found, old, new = w.formula(a), a.type.dtype, x.result.type.dtype
    read = found.element if found else _operand(w, a, w.array(a).strides, dims)
    w.set(x, Formula(tuple(dims), lambda at: converted(w, read(at), old, new), new, x.what))


def reduce_(w: Any, x: Instruction) -> None:
    """A ufunc's reduction, one element after the other; sums of floats in NumPy's order."""
    a = x.args[0]
    assert x.result is not None
    assert isinstance(a.type, Array)
    if w.made.externals[x.what][1] == "add" and a.type.dtype in _FLOATS:
        w.set(x, _sum(w, x, a.type.dtype))
        return
    found, dims = w.formula(a), w.lengths(a)
    read = found.element if found else _operand(w, a, w.array(a).strides, dims)
    dtype = a.type.dtype
    kind = machine(dtype)
    place = w.at_entry(f"alloca {kind}, align 8")
    begin = "0"
    if len(x.args) > 1:
        first = w.value(x.args[1])
    else:
        first, begin = read(["0"]), "1"
    w.line(f"store {kind} {first}, ptr {place}")

    def body(i: str) -> None:
        at = w.emit(f"add i64 {i}, {begin}")
        before = w.emit(f"load {kind}, ptr {place}")
        after = computed(w, x.what, [before, read([at])])
        w.line(f"store {kind} {after}, ptr {place}")

    w.loop(w.emit(f"sub i64 {dims[0]}, {begin}"), body)
    w.set(x, w.emit(f"load {kind}, ptr {place}"))


def _sum(w: Any, x: Instruction, dtype: str) -> str:
    array, kind = w.array(x.args[0]), machine(dtype)
    (count,), (step,), base = array.dims, array.strides, array.base
    if len(x.args) > 1:
        first = w.value(x.args[1])
    else:
        first = w.load(base, dtype)
        base = w.emit(f"getelementptr i8, ptr {base}, i64 {step}")
        count = w.emit(f"sub i64 {count}, 1")
    name = f"pairwise.{kind}"
    w.declared[name] = _PAIRWISE.replace("NAME", name).replace("KIND", kind)
    rest = w.emit(f"call {kind} @{name}(ptr {base}, i64 {step}, i64 {count})")
    # of what is not finite it is not known here whether all that was added is
    return w.noted(w.strict("fadd", kind, kind, [first, rest]), kind, [])  # type: ignore[no-any-return]


_HALVES = 64
"""More than there can be: each is of at least 64 numbers, or twice as long as the next one."""


def _pairwise() -> str:
    """NumPy's sum of the elements that are some bytes apart.

    Few one after the other, up to 128 in eight sums, more in two halves. It keeps a list of the
    second halves that are left: of a function that calls itself a device does not know how much
    memory threads need, and they write beyond what they have.
    """
    eight = range(8)

    def at(i: str, to: str) -> list[str]:
        return [
            f"  {to}.far = mul i64 {i}, %step",
            f"  {to}.at = getelementptr i8, ptr %base, i64 {to}.far",
            f"  {to} = load KIND, ptr {to}.at",
        ]

    lines = [
        "define internal KIND @NAME(ptr %whole, i64 %step, i64 %count) nounwind {",
        "entry:",
        f"  %lengths = alloca [{_HALVES} x i64], align 8",
        f"  %sums = alloca [{_HALVES} x KIND], align 8",
        "  br label %begun",
        "begun:",
        "  %base = phi ptr [%whole, %entry], [%beyond, %first.done]",
        "  %n.all = phi i64 [%count, %entry], [%left, %first.done]",
        "  %depth.all = phi i64 [0, %entry], [%e, %first.done]",
        "  br label %whole.or.half",
        "whole.or.half:",
        "  %n = phi i64 [%n.all, %begun], [%first.n, %halves]",
        "  %depth = phi i64 [%depth.all, %begun], [%depth.next, %halves]",
        "  %is.block = icmp sle i64 %n, 128",
        "  br i1 %is.block, label %few.or.block, label %halves",
        "halves:",
        "  %half = lshr i64 %n, 1",
        "  %first.n = and i64 %half, -8",
        "  %second.n = sub i64 %n, %first.n",
        "  %p.length = getelementptr i64, ptr %lengths, i64 %depth",
        "  store i64 %second.n, ptr %p.length, align 8",
        "  %depth.next = add i64 %depth, 1",
        "  br label %whole.or.half",
        "few.or.block:",
        "  %is.few = icmp slt i64 %n, 8",
        "  br i1 %is.few, label %rest, label %block",
        "block:",
        "  %end = and i64 %n, -8",
        *(line for k in eight for line in at(str(k), f"%b{k}")),
        "  br label %head",
        "head:",
        "  %i = phi i64 [8, %block], [%i.next, %body]",
        *(f"  %r{k} = phi KIND [%b{k}, %block], [%s{k}, %body]" for k in eight),
        "  %goes.on = icmp slt i64 %i, %end",
        "  br i1 %goes.on, label %body, label %done",
        "body:",
    ]
    for k in eight:
        lines += [f"  %i{k} = add i64 %i, {k}", *at(f"%i{k}", f"%x{k}")]
        lines.append(f"  %s{k} = fadd KIND %r{k}, %x{k}")
    lines += ["  %i.next = add i64 %i, 8", "  br label %head", "done:"]
    for to, a, b in ("a01", "b23", "c45", "d67"):
        lines.append(f"  %{to} = fadd KIND %r{a}, %r{b}")
    return "\n".join(
        [
            *lines,
            "  %low = fadd KIND %a, %b",
            "  %high = fadd KIND %c, %d",
            "  %sum = fadd KIND %low, %high",
            "  br label %rest",
            "rest:",
            "  %begin = phi i64 [0, %few.or.block], [%end, %done]",
            "  %begin.sum = phi KIND [-0.0, %few.or.block], [%sum, %done]",
            "  br label %rest.head",
            "rest.head:",
            "  %j = phi i64 [%begin, %rest], [%j.next, %rest.body]",
            "  %t = phi KIND [%begin.sum, %rest], [%t.next, %rest.body]",
            "  %has.more = icmp slt i64 %j, %n",
            "  br i1 %has.more, label %rest.body, label %over",
            "rest.body:",
            *at("%j", "%y"),
            "  %t.next = fadd KIND %t, %y",
            "  %j.next = add i64 %j, 1",
            "  br label %rest.head",
            "over:",
            "  %far = mul i64 %n, %step",
            "  %beyond = getelementptr i8, ptr %base, i64 %far",
            "  br label %up",
            "up:",
            "  %s = phi KIND [%t, %over], [%both, %second.done]",
            "  %e = phi i64 [%depth, %over], [%last, %second.done]",
            "  %is.all = icmp eq i64 %e, 0",
            "  br i1 %is.all, label %all, label %some",
            "some:",
            "  %last = sub i64 %e, 1",
            "  %p.left = getelementptr i64, ptr %lengths, i64 %last",
            "  %p.sum = getelementptr KIND, ptr %sums, i64 %last",
            "  %left = load i64, ptr %p.left, align 8",
            "  %is.second = icmp slt i64 %left, 0",
            "  br i1 %is.second, label %second.done, label %first.done",
            "first.done:",
            "  store i64 -1, ptr %p.left, align 8",
            "  store KIND %s, ptr %p.sum",
            "  br label %begun",
            "second.done:",
            "  %first = load KIND, ptr %p.sum",
            "  %both = fadd KIND %first, %s",
            "  br label %up",
            "all:",
            "  ret KIND %s",
            "}",
        ]
    )


_PAIRWISE = _pairwise()


def dot(w: Any, x: Instruction) -> None:
    """A sum of products."""
    a = x.args[0]
    assert x.result is not None
    dtype = str(x.result.type)
    kind, dims = machine(dtype), w.lengths(a)
    both = [w.formula(y) for y in x.args]
    reads = [
        f.element if f else _operand(w, y, w.array(y).strides, dims)
        for f, y in zip(both, x.args, strict=True)
    ]
    place = w.at_entry(f"alloca {kind}, align 8")
    w.line(f"store {kind} {literal(0.0, dtype)}, ptr {place}")

    def body(i: str) -> None:
        before = w.emit(f"load {kind}, ptr {place}")
        parts = [read([i]) for read in reads]
        after = w.plain("fma", kind, [*parts, before])
        w.line(f"store {kind} {w.noted(after, kind, [*parts, before])}, ptr {place}")

    w.loop(dims[0], body)
    w.set(x, w.emit(f"load {kind}, ptr {place}"))


def ufunc(w: Any, x: Instruction) -> None:
    """A ufunc of numbers."""
    w.set(x, computed(w, x.what, [w.value(a) for a in x.args], x.args))
