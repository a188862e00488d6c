"""Indices, lengths and truth of values of any kind."""

from __future__ import annotations

from types import FunctionType

from ....ir.typed import Literal
from ....ir.typed.function import Value
from . import numbers
from .kinds import texts
from .values import (
    DEVICE,
    ON_DEVICE,
    SPECTRUM,
    Abstract,
    Arr,
    Held,
    Keywords,
    Known,
    Letters,
    Lst,
    Method,
    Num,
    OnDevice,
    Range,
    Record,
    Rows,
    Span,
    Starred,
    Text,
    Tup,
    Writes,
)

ZERO = Literal(0, "int64")
ONE = Literal(1, "int64")


def described(x: Abstract) -> str:
    """A value in words."""
    if isinstance(x, Num):
        return f"a number ({x.dtype})"
    if isinstance(x, Arr):
        return f"an array ({x.type})"
    if isinstance(x, Known):
        value = x.value
        return "None" if value is None else f"a {type(value).__name__}"
    if isinstance(x, Held):
        return f"a {x.what}"
    if isinstance(x, Tup):
        return "a list of several types" if x.is_list else "a tuple"
    if isinstance(x, Rows) and x.number:
        return f"a list of {'texts' if x.number == 'text' else 'complex numbers'}"
    if isinstance(x, Record) and "bit_generator" in x.names:
        return "a generator"
    if isinstance(x, Record) and x.names == SPECTRUM:
        return "complex numbers of CuPy's"
    names = {
        OnDevice: "a slice on the device",
        Lst: "a list",
        Text: "a text",
        Letters: "a text",
        Rows: "a list of tuples",
        Method: "a method",
        Keywords: "the arguments of **",
        Record: "what a solver gives",
        Starred: "a list with starred arrays",
    }
    return names.get(type(x), "an iterator")


def as_index(t: Writes, x: Abstract) -> Value:
    """An integer, as 64 bits."""
    if isinstance(x, Num) and x.kind in ON_DEVICE:
        raise t.refuse("an array of CuPy's where an integer has to be: int(...) makes one of it")
    if not isinstance(x, Num) or numbers.kind_of(x.dtype) not in "iu":
        raise t.refuse(f"{described(x)} where an integer has to be")
    if x.dtype == "uint64":
        raise t.refuse("a number of uint64 where an integer has to be")
    return numbers.cast(t, x.value, "int64")


def within(t: Writes, index: Abstract, length: Value) -> Value:
    """An index from the beginning; a mark where it is outside."""
    i = as_index(t, index)
    why = "an index is out of bounds"
    if isinstance(i, Literal):
        if i.value >= 0:
            t.mark(t.op("ge", "bool", i, length), why, IndexError)
            return i
        i = t.op("add", "int64", length, i)
        t.mark(t.op("lt", "bool", i, ZERO), why, IndexError)
        return i
    back = t.op("add", "int64", i, length)
    i = t.op("select", "int64", t.op("lt", "bool", i, ZERO), back, i)
    low, high = t.op("lt", "bool", i, ZERO), t.op("ge", "bool", i, length)
    t.mark(t.op("or", "bool", low, high), why, IndexError)
    return i


def length(t: Writes, x: Abstract, axis: int = 0) -> Value:
    """The number of elements along an axis."""
    if isinstance(x, Arr):
        found = t.op("length", "int64", x.value, what=axis)
        if x.most:
            t.most[found] = x.most
        return found
    if isinstance(x, Held):
        x = x.items
    if isinstance(x, Rows):
        x = x.columns[0]
    if isinstance(x, Lst):
        return t.op("list length", "int64", x.value)
    if isinstance(x, Tup):
        return Literal(len(x.items), "int64")
    if isinstance(x, Letters):
        return x.size.value
    if texts.is_text(x):
        return texts.by_text(t, x, [*map(len, texts.texts_of(x))], "int64")
    if isinstance(x, Range):
        return _range_length(t, x)
    raise t.refuse(f"the length of {described(x)}")


def _range_length(t: Writes, r: Range) -> Value:
    start, stop, step = (x.value for x in r)
    if not isinstance(step, Literal):
        raise t.refuse("the length of a range whose step is computed")
    up = step.value > 0
    span = t.op("sub", "int64", stop, start) if up else t.op("sub", "int64", start, stop)
    size = abs(step.value)
    count = t.op(
        "div",
        "int64",
        t.op("add", "int64", span, Literal(size - 1, "int64")),
        Literal(size, "int64"),
    )
    return t.op("select", "int64", t.op("gt", "bool", span, ZERO), count, ZERO)


def truth(t: Writes, x: Abstract) -> Value:
    """Whether a value is true."""
    if isinstance(x, Arr) and not x.type.ndim:
        x = Num(x.type.dtype, DEVICE, t.op("element", x.type.dtype, x.value))
    if isinstance(x, Num):
        return numbers.truth(t, x)
    if isinstance(x, Tup):
        return Literal(bool(x.items), "bool")
    if isinstance(x, Text):
        return texts.by_text(t, x, [bool(s) for s in x.texts], "bool")
    if isinstance(x, Known) and (x.value is None or isinstance(x.value, (str, FunctionType))):
        return Literal(bool(x.value), "bool")
    if isinstance(x, (Lst, Rows, Held, Letters)):
        return t.op("ne", "bool", length(t, x), ZERO)
    raise t.refuse(f"the truth of {described(x)}")


def is_none(x: Abstract) -> bool:
    """Whether it is None."""
    return isinstance(x, Known) and x.value is None


def bounds(t: Writes, s: Span, n: Value) -> tuple[Value, Value, Value]:
    """Start, step and number of elements of a slice."""
    step: Value = ONE if is_none(s.step) else as_index(t, s.step)
    if not isinstance(step, Literal):
        raise t.refuse("a slice whose step is computed")
    if step.value == 0:
        raise t.refuse("a slice with step 0")
    up = step.value > 0
    low: Value = ZERO if up else Literal(-1, "int64")
    high: Value = n if up else t.op("sub", "int64", n, ONE)

    def clipped(x: Abstract, default: Value) -> Value:
        if is_none(x):
            return default
        i = as_index(t, x)
        if isinstance(i, Literal) and i.value >= 0:
            return t.op("select", "int64", t.op("gt", "bool", i, high), high, i)
        back = t.op("add", "int64", i, n)
        i = t.op("select", "int64", t.op("lt", "bool", i, ZERO), back, i)
        i = t.op("select", "int64", t.op("lt", "bool", i, low), low, i)
        return t.op("select", "int64", t.op("gt", "bool", i, high), high, i)

    start = clipped(s.start, low if up else high)
    stop = clipped(s.stop, high if up else low)
    size = Literal(abs(step.value), "int64")
    far = t.op("sub", "int64", stop, start) if up else t.op("sub", "int64", start, stop)
    count = far
    if size.value > 1:
        more = t.op("add", "int64", far, Literal(size.value - 1, "int64"))
        count = t.op("div", "int64", more, size)
    return start, step, t.op("select", "int64", t.op("gt", "bool", far, ZERO), count, ZERO)
