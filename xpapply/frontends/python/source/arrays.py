"""Arrays, lists, tuples and iterators: elements, views, loops, results."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ....ir.typed import Array, Literal
from ....ir.typed.function import Value
from . import numbers
from .values import (
    EITHER,
    ITERATORS,
    NO_AXES,
    NUMPY,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Counted,
    Inlined,
    Known,
    Leaves,
    Lst,
    Method,
    Num,
    Once,
    Range,
    Span,
    Through,
    Tup,
    Writes,
    Zipped,
    integer,
)

ZERO = Literal(0, "int64")
_ONE = Literal(1, "int64")


def described(x: Abstract) -> str:
    """A value in words."""
    if isinstance(x, Num):
        return f"a number ({x.dtype})"
    if isinstance(x, Arr):
        return f"an array ({x.type})"
    if isinstance(x, Known):
        value = x.value
        return "None" if value is None else f"a {type(value).__name__}"
    return {Lst: "a list", Tup: "a tuple", Method: "a method"}.get(type(x), "an iterator")


def as_index(t: Writes, x: Abstract) -> Value:
    """An integer, as 64 bits."""
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
            t.mark(t.op("ge", "bool", i, length), why)
            return i
        i = t.op("add", "int64", length, i)
        t.mark(t.op("lt", "bool", i, ZERO), why)
        return i
    back = t.op("add", "int64", i, length)
    i = t.op("select", "int64", t.op("lt", "bool", i, ZERO), back, i)
    low, high = t.op("lt", "bool", i, ZERO), t.op("ge", "bool", i, length)
    t.mark(t.op("or", "bool", low, high), why)
    return i


def length(t: Writes, x: Abstract, axis: int = 0) -> Value:
    """How many elements there are, along an axis."""
    if isinstance(x, Arr):
        return t.op("length", "int64", x.value, what=axis)
    if isinstance(x, Lst):
        return t.op("list length", "int64", x.value)
    if isinstance(x, Tup):
        return Literal(len(x.items), "int64")
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
    if isinstance(x, Num):
        return numbers.truth(t, x)
    if isinstance(x, Tup):
        return Literal(bool(x.items), "bool")
    if isinstance(x, Known) and (x.value is None or isinstance(x.value, (str, FunctionType))):
        return Literal(bool(x.value), "bool")
    if isinstance(x, Lst):
        return t.op("ne", "bool", t.op("list length", "int64", x.value), Literal(0, "int64"))
    raise t.refuse(f"the truth of {described(x)}")


# --- elements and views ---------------------------------------------------------------------


def _is_none(x: Abstract) -> bool:
    return isinstance(x, Known) and x.value is None


def _bounds(t: Writes, s: Span, n: Value) -> tuple[Value, Value, Value]:
    """Where a slice starts, its step, and how many elements it has."""
    step: Value = _ONE if _is_none(s.step) else as_index(t, s.step)
    if not isinstance(step, Literal):
        raise t.refuse("a slice whose step is computed")
    if step.value == 0:
        raise t.refuse("a slice with step 0")
    up = step.value > 0
    low: Value = ZERO if up else Literal(-1, "int64")
    high: Value = n if up else t.op("sub", "int64", n, _ONE)

    def clipped(x: Abstract, default: Value) -> Value:
        if _is_none(x):
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


def item(t: Writes, x: Abstract, index: Abstract) -> Abstract:
    """``x[index]``."""
    if isinstance(x, Tup):
        if isinstance(index, Num) and isinstance(index.value, Literal):
            try:
                return x.items[index.value.value]
            except IndexError:
                raise Leaves("an index is out of bounds") from None
        if isinstance(index, Span):
            parts = [_literal(t, b) for b in index]
            return Tup(x.items[slice(*parts)])
        items = _as_list(t, x)
        return item(t, items, index)
    if isinstance(x, Lst):
        if isinstance(index, Span):
            raise t.refuse("a part of a list")
        if not x.dtype:
            raise Leaves("an element of an empty list")
        i = within(t, index, length(t, x))
        return Num(x.dtype, x.kind, t.op("list item", x.dtype, x.value, i))
    if not isinstance(x, Arr):
        raise t.refuse(f"an element of {described(x)}")
    if isinstance(index, Arr) and index.type.ndim == x.type.ndim == 1:
        from ....library import of_numpy

        which = of_numpy.chosen if index.type.dtype == "bool" else of_numpy.taken
        return Inlined(which, [x, index], {})
    indices = list(index.items) if isinstance(index, Tup) else [index]
    if len([i for i in indices if not _is_none(i)]) > x.type.ndim:
        raise t.refuse(f"{len(indices)} indices of {described(x)}")
    if len(indices) == x.type.ndim and all(isinstance(i, Num) for i in indices):
        at = [within(t, i, length(t, x, k)) for k, i in enumerate(indices)]
        return Num(x.type.dtype, NUMPY, t.op("element", x.type.dtype, x.value, *at))
    axis = 0
    for i in indices:
        if isinstance(i, Num):
            kind = Array(x.type.dtype, x.type.ndim - 1)
            at_ = within(t, i, length(t, x, axis))
            x = Arr(kind, x.own, t.op("row", kind, x.value, at_, what=axis))
        elif isinstance(i, Span):
            if not all(map(_is_none, i)):
                start, step, count = _bounds(t, i, length(t, x, axis))
                value = t.op("view", x.type, x.value, start, step, count, what=axis)
                x = Arr(x.type, x.own, value)
            axis += 1
        elif _is_none(i) and x.type.ndim == 1:
            kind = Array(x.type.dtype, 2)
            x = Arr(kind, x.own, t.op("new axis", kind, x.value, what=axis))
            axis += 1
        else:
            raise t.refuse(f"{described(i)} as an index")
    return x


def _literal(t: Writes, x: Abstract) -> Any:
    if _is_none(x):
        return None
    if isinstance(x, Num) and isinstance(x.value, Literal):
        return x.value.value
    raise t.refuse("a part of a tuple that is computed")


def _as_list(t: Writes, x: Tup) -> Lst:
    """A tuple of numbers of one type as a list, to be read at any place."""
    found = new_list(t, x.items)
    if not isinstance(found, Lst):
        raise t.refuse("a computed index into a tuple of several types")
    return found


def set_item(t: Writes, x: Abstract, index: Abstract, value: Abstract) -> None:
    """``x[index] = value``."""
    if isinstance(x, Lst):
        if not isinstance(value, Num):
            raise t.refuse(f"{described(value)} is put into a list")
        i = within(t, index, length(t, x))
        x = _of_kind(t, x, value)
        t.do("set list item", x.value, i, value.value)
        return
    if not isinstance(x, Arr):
        raise t.refuse(f"it writes into {described(x)}")
    if not x.own:
        raise t.refuse("it writes into an array that it has not made")
    if not isinstance(value, (Num, Arr)):
        raise t.refuse(f"{described(value)} is put into an array")
    indices = list(index.items) if isinstance(index, Tup) else [index]
    if len(indices) == x.type.ndim and all(isinstance(i, Num) for i in indices):
        if not isinstance(value, Num):
            raise t.refuse("an array is put into an element")
        at = [within(t, i, length(t, x, k)) for k, i in enumerate(indices)]
        t.do("set element", x.value, *at, numbers.stored(t, value, x.type.dtype))
        return
    part = item(t, x, index)
    if isinstance(value, Num):
        t.do("fill", part.value, numbers.stored(t, value, x.type.dtype))
        return
    if value.type != part.type:
        raise t.refuse(f"{described(value)} is put into {described(part)}")
    for k in range(part.type.ndim):
        unlike = t.op("ne", "bool", length(t, part, k), length(t, value, k))
        t.mark(unlike, "arrays of different lengths")
    t.do("copy", part.value, value.value, what=t.mark_number("its arrays need much memory"))


def attribute(t: Writes, x: Abstract, name: str) -> Abstract:
    """An attribute of a value."""
    if isinstance(x, Arr):
        dims = range(x.type.ndim)
        if name == "shape":
            return Tup(tuple(Num("int64", PYTHON, length(t, x, k)) for k in dims))
        if name == "size":
            found = length(t, x)
            for k in dims[1:]:
                found = t.op("mul", "int64", found, length(t, x, k))
            return Num("int64", PYTHON, found)
        if name == "ndim":
            return integer(x.type.ndim)
        if name == "dtype":
            return Known(np.dtype(x.type.dtype))
        if name == "T" and x.type.ndim == 1:
            return x
    if not all(hasattr(c, name) for c in classes(x)):
        raise Leaves(f"{described(x)} has no attribute {name}")
    if isinstance(x, Num) and name == "real":
        return _itself(t, x)
    return Method(x, name)


def classes(x: Abstract) -> tuple[type, ...]:
    """The classes that a value may have."""
    found = _CLASSES[x.kind](x.dtype) if isinstance(x, Num) else _HOLDERS[type(x)]
    return found  # type: ignore[no-any-return]


def _itself(t: Writes, x: Num) -> Num:
    """``x.real``: of a truth value of Python's an integer."""
    if x.kind == NO_AXES or (x.dtype == "bool" and x.kind == EITHER):
        raise t.refuse(f"the real part of {described(x)}")
    return numbers.unary(t, "+", x) if x.dtype == "bool" and x.kind == PYTHON else x


_PYTHONS: dict[str, type] = {"b": bool, "i": int, "f": float}
_CLASSES: dict[str, Any] = {
    PYTHON: lambda dtype: (_PYTHONS[numbers.kind_of(dtype)],),
    NUMPY: lambda dtype: (np.dtype(dtype).type,),
    NO_AXES: lambda _: (np.ndarray,),
    EITHER: lambda dtype: (_PYTHONS[numbers.kind_of(dtype)], np.dtype(dtype).type),
}
_HOLDERS: dict[type, tuple[type, ...]] = {Arr: (np.ndarray,), Lst: (list,)}


def method(
    t: Writes, x: Abstract, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if isinstance(x, Lst) and not kwargs:
        if name == "append" and len(args) == 1:
            append(t, x, args[0])
            return Known(None)
        if name == "pop" and not args:
            if not x.dtype:
                raise Leaves("an empty list is popped")
            n = length(t, x)
            t.mark(t.op("le", "bool", n, ZERO), "an empty list is popped")
            return Num(x.dtype, x.kind, t.op("pop", x.dtype, x.value))
        if name == "clear" and not args:
            t.do("clear", x.value)
            return Known(None)
    if isinstance(x, Num) and not args and not kwargs:
        if name == "item":
            return numbers.as_python(t, x)
        if name == "conjugate":
            return _itself(t, x)
    if isinstance(x, Arr):
        if name == "copy" and not args and not kwargs:
            return copied(t, x)
    raise t.refuse(f"the method {name} of {described(x)}")


def copied(t: Writes, x: Arr) -> Arr:
    """An array of the same numbers."""
    made = new(t, x.type.dtype, [length(t, x, k) for k in range(x.type.ndim)], "empty")
    t.do("copy", made.value, x.value, what=t.mark_number("its arrays need much memory"))
    return made


def new(t: Writes, dtype: str, dims: Sequence[Value], how: str) -> Arr:
    """An array that the function makes."""
    for n in dims:
        if not isinstance(n, Literal) or n.value < 0:
            t.mark(t.op("lt", "bool", n, ZERO), "a negative length")
    kind = Array(dtype, len(dims))
    mark = t.mark_number("its arrays need much memory")
    return Arr(kind, True, t.op("new", kind, *dims, what=(how, mark)))


# --- lists ------------------------------------------------------------------------------------


def new_list(t: Writes, items: tuple[Abstract, ...]) -> Abstract:
    """A list; one of several types is a tuple, which nothing is put into."""
    if items and (not all(isinstance(x, Num) for x in items) or len({x.dtype for x in items}) > 1):
        return Tup(items)
    made = Lst(
        "", "", t.site(), t.op("new list", "list", what=t.mark_number("its lists grow long"))
    )
    for x in items:
        made = append(t, made, x)
    return made


def append(t: Writes, x: Abstract, value: Abstract) -> Lst:
    """Put a number at the end of a list."""
    if not isinstance(x, Lst):
        raise t.refuse(f"{described(x)} gets a further element")
    if not isinstance(value, Num):
        raise t.refuse(f"a list of {described(value)}")
    x = _of_kind(t, x, value)
    t.do("append", x.value, value.value, what=t.mark_number("its lists grow long"))
    return x


def _of_kind(t: Writes, x: Lst, value: Num) -> Lst:
    """A list, known to have numbers of such a type."""
    if x.dtype and x.dtype != value.dtype:
        raise t.refuse("a list of numbers of several types")
    if value.kind == NO_AXES:
        raise t.refuse("an array without axes is put into a list")
    kind = value.kind if x.kind in ("", value.kind) else EITHER
    found = x._replace(dtype=value.dtype, kind=kind)

    for at, y in t.state.items():
        if not isinstance(y, (Num, Arr, Known)):
            t.state[at] = _renewed(y, found, x.dtype)
    return found


def _renewed(y: Abstract, found: Lst, before: str) -> Abstract:
    """A value in which what may be that list has the type that it has now.

    Lists of one site that had another type before are others.
    """
    if isinstance(y, Lst) and y.site == found.site and y.dtype == before:
        kind = found.kind if y.kind in ("", found.kind) else EITHER
        return y._replace(dtype=found.dtype, kind=kind)
    if isinstance(y, (Tup, Method, Along, Counted, Zipped, tuple)):
        inner = [_renewed(z, found, before) if isinstance(z, tuple) else z for z in y]
        return tuple(inner) if type(y) is tuple else type(y)(*inner)
    return y


def repeated(t: Writes, x: Abstract, count: Num) -> Abstract:
    """``[...] * n``."""
    if isinstance(x, Tup):
        if isinstance(count.value, Literal):
            return Tup(x.items * count.value.value)
        raise t.refuse("a tuple as often as is computed")
    n = as_index(t, count)
    made = t.op("repeat", "list", x.value, n, what=t.mark_number("its lists grow long"))
    return x._replace(site=t.site(), value=made)


def contains(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract:
    """``a in b``, of a few that are written in the source."""
    if not isinstance(a, Num) or not isinstance(b, Tup) or not b.items:
        raise t.refuse(f"{described(a)} {op} {described(b)}")
    found: Value | None = None
    if numbers.kind_of(a.dtype) == "f" and not isinstance(a.value, Literal):
        t.mark(numbers.is_nan(t, a.value), "a NaN may be the one that is looked for")
    for x in b.items:
        if not isinstance(x, Num):
            raise t.refuse(f"a number {op} a tuple of others")
        one = numbers.compare(t, "==", a, x).value
        found = one if found is None else t.op("or", "bool", found, one)
    assert found is not None
    return Num("bool", PYTHON, found if op == "in" else t.op("not", "bool", found))


# --- iterators ----------------------------------------------------------------------------------


def unpacked(t: Writes, x: Abstract, count: int) -> Tup:
    """The parts of a value that is given to several names."""
    if isinstance(x, Tup):
        if len(x.items) != count:
            raise Leaves("a tuple of another length is unpacked")
        return x
    if isinstance(x, (Arr, Lst)):
        n = length(t, x)
        t.mark(
            t.op("ne", "bool", n, Literal(count, "int64")), "it unpacks another number of values"
        )
        return Tup(tuple(item(t, x, integer(k)) for k in range(count)))
    raise t.refuse(f"it unpacks {described(x)}")


def iterator(t: Writes, x: Abstract) -> Abstract:
    """``iter(x)``."""
    if isinstance(x, (Arr, Lst)):
        return Along(x, integer(0))
    if isinstance(x, Tup):
        return Through(x, 0)
    if isinstance(x, (Range, Counted, Zipped, Along, Through)):
        return x
    if isinstance(x, Once):
        return x.inner
    raise t.refuse(f"it goes through {described(x)}")


def is_fixed(it: Abstract) -> bool:
    """Whether how often an iterator goes on is written in the source."""
    if isinstance(it, Counted):
        return is_fixed(it.inner)
    if isinstance(it, Zipped):
        return any(map(is_fixed, it.inner))
    return isinstance(it, Through) or (isinstance(it, Range) and isinstance(it.stop.value, Literal))


def has_more(t: Writes, it: Abstract) -> Value:
    """Whether an iterator has a further element."""
    if isinstance(it, Along):
        return t.op("lt", "bool", it.at.value, length(t, it.over))
    if isinstance(it, Through):
        return Literal(it.at < len(it.over.items), "bool")
    if isinstance(it, Range):
        start, stop, step = (x.value for x in it)
        if isinstance(step, Literal):
            return t.op("lt" if step.value > 0 else "gt", "bool", start, stop)
        up = t.op("gt", "bool", step, ZERO)
        return t.op(
            "select", "bool", up, t.op("lt", "bool", start, stop), t.op("gt", "bool", start, stop)
        )
    if isinstance(it, Counted):
        return has_more(t, it.inner)
    assert isinstance(it, Zipped), it
    found: Value = Literal(True, "bool")
    for inner in it.inner:
        one = has_more(t, inner)
        if isinstance(one, Literal):
            if not one.value:
                return one
        else:
            found = one if isinstance(found, Literal) else t.op("and", "bool", found, one)
    return found


def advanced(t: Writes, name: str) -> Abstract:
    """The next element of the iterator in a variable, which goes on."""
    value, further = _next(t, t.value(name))
    t.put(name, further)
    return value


def _next(t: Writes, it: Abstract) -> tuple[Abstract, Abstract]:
    if isinstance(it, Along):
        at = it.at.value
        further = it._replace(at=Num("int64", PYTHON, t.op("add", "int64", at, _ONE)))
        over = it.over
        if isinstance(over, Lst):
            if not over.dtype:
                return integer(0), further  # which is never reached
            return Num(
                over.dtype, over.kind, t.op("list item", over.dtype, over.value, at)
            ), further
        if over.type.ndim == 1:
            return Num(
                over.type.dtype, NUMPY, t.op("element", over.type.dtype, over.value, at)
            ), further
        kind = Array(over.type.dtype, over.type.ndim - 1)
        return Arr(kind, over.own, t.op("row", kind, over.value, at, what=0)), further
    if isinstance(it, Through):
        return it.over.items[it.at], it._replace(at=it.at + 1)
    if isinstance(it, Range):
        step = it.step.value
        if not (isinstance(step, Literal) and abs(step.value) == 1):
            over_ = t.op("overflows", "bool", it.start.value, step, what="add")
            t.mark(over_, "a range goes beyond 64 bits")
        start = t.op("add", "int64", it.start.value, step)
        return it.start, it._replace(start=Num("int64", PYTHON, start))
    if isinstance(it, Counted):
        value, inner = _next(t, it.inner)
        at = t.op("add", "int64", it.at.value, _ONE)
        return Tup((it.at, value)), Counted(inner, Num("int64", PYTHON, at))
    found = [_next(t, x) for x in it.inner]
    return Tup(tuple(v for v, _ in found)), Zipped(tuple(x for _, x in found))


def kept(t: Writes, x: Abstract) -> Abstract:
    """A value that gets a name, by which it may be gone through again."""
    some = x.items if isinstance(x, Tup) else x if type(x) is tuple else (x,)
    if any(isinstance(y, ITERATORS) for y in some):
        raise t.refuse("an iterator that is kept")
    return x


# --- results ------------------------------------------------------------------------------------


def returned(t: Writes, value: Abstract) -> None:
    """Put what the function returns where its results are, if it is known what they are like."""
    if t.expected is None:
        return
    if len(t.expected) == 1:
        _put(t, 0, value)
        return
    if not isinstance(value, Tup) or len(value.items) != len(t.expected):
        raise _other()
    for k, x in enumerate(value.items):
        _put(t, k, x)


def _other() -> Exception:
    return Leaves("a result of another kind than that of the first slice")


def _put(t: Writes, k: int, value: Abstract) -> None:
    assert t.expected is not None
    dtype, shape = t.expected[k]
    if isinstance(value, Tup):
        numbers_ = _flat(value, shape)
        for i, x in enumerate(numbers_):
            t.do("put", Literal(i, "int64"), numbers.stored(t, x, dtype), what=k)
        return
    if isinstance(value, Num):
        if shape:
            raise _other()
        t.do("put", ZERO, numbers.stored(t, value, dtype), what=k)
        return
    if isinstance(value, Lst) and len(shape) == 1:
        if not value.dtype:
            raise _other()
        same = value.dtype
    elif isinstance(value, Arr) and value.type.ndim == len(shape):
        same = value.type.dtype
    else:
        raise _other()
    if same != dtype:
        if not np.can_cast(same, dtype, "safe"):
            raise t.refuse(f"results of {same} and of {dtype}")
    for axis in range(len(shape)):
        n = length(t, value, axis)
        unlike = t.op("ne", "bool", n, t.op("expected", "int64", what=(k, axis)))
        t.mark(unlike, "a result of another shape than that of the first slice")
    t.do("put list" if isinstance(value, Lst) else "put array", value.value, what=(k, same))


def _flat(value: Tup, shape: tuple[int, ...]) -> list[Num]:
    """The numbers of a tuple of a shape, which may be of tuples."""
    if not shape or len(value.items) != shape[0]:
        raise _other()
    found: list[Num] = []
    for x in value.items:
        if isinstance(x, Num) and len(shape) == 1:
            found.append(x)
        elif isinstance(x, Tup):
            found += _flat(x, shape[1:])
        else:
            raise _other()
    return found
