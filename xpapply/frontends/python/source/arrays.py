"""Arrays and tuples: elements, views, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.typed import Array, Literal
from ....ir.typed.function import Value
from . import lists, numbers
from .places import ONE, ZERO, as_index, described, length, within
from .values import (
    EITHER,
    NO_AXES,
    NUMPY,
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Known,
    Leaves,
    Lst,
    Method,
    Num,
    Span,
    Tup,
    Writes,
    integer,
)


def _is_none(x: Abstract) -> bool:
    return isinstance(x, Known) and x.value is None


def _bounds(t: Writes, s: Span, n: Value) -> tuple[Value, Value, Value]:
    """Where a slice starts, its step, and how many elements it has."""
    step: Value = ONE if _is_none(s.step) else as_index(t, s.step)
    if not isinstance(step, Literal):
        raise t.refuse("a slice whose step is computed")
    if step.value == 0:
        raise t.refuse("a slice with step 0")
    up = step.value > 0
    low: Value = ZERO if up else Literal(-1, "int64")
    high: Value = n if up else t.op("sub", "int64", n, ONE)

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
                raise Leaves("an index is out of bounds", IndexError) from None
        if isinstance(index, Span):
            parts = [_literal(t, b) for b in index]
            return Tup(x.items[slice(*parts)])
        items = lists.as_list(t, x)
        return item(t, items, index)
    if isinstance(x, Lst):
        return lists.item(t, x, index)
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


def set_item(t: Writes, x: Abstract, index: Abstract, value: Abstract) -> Inlined | None:
    """``x[index] = value``."""
    if isinstance(x, Lst):
        lists.set_item(t, x, index, value)
        return None
    if not isinstance(x, Arr):
        raise t.refuse(f"it writes into {described(x)}")
    t.writes(x)
    if not isinstance(value, (Num, Arr)):
        raise t.refuse(f"{described(value)} is put into an array")
    if isinstance(index, Arr):
        return _set_chosen(t, x, index, value)
    indices = list(index.items) if isinstance(index, Tup) else [index]
    if len(indices) == x.type.ndim and all(isinstance(i, Num) for i in indices):
        if not isinstance(value, Num):
            raise t.refuse("an array is put into an element")
        at = [within(t, i, length(t, x, k)) for k, i in enumerate(indices)]
        t.do("set element", x.value, *at, numbers.stored(t, value, x.type.dtype))
        return None
    part = item(t, x, index)
    if isinstance(value, Num):
        t.do("fill", part.value, numbers.stored(t, value, x.type.dtype))
        return None
    if value.type != part.type:
        raise t.refuse(f"{described(value)} is put into {described(part)}")
    for k in range(part.type.ndim):
        unlike = t.op("ne", "bool", length(t, part, k), length(t, value, k))
        t.mark(unlike, "arrays of different lengths")
    t.do("copy", part.value, value.value, what=t.mark_number("its arrays need much memory"))
    return None


def _set_chosen(t: Writes, x: Arr, index: Arr, value: Abstract) -> Inlined:
    """``x[mask] = value``, or ``x[places] = value``."""
    from ....library import of_numpy

    is_mask = index.type.dtype == "bool"
    dtype = value.type.dtype if isinstance(value, Arr) else value.dtype
    kinds = numbers.kind_of(dtype) + numbers.kind_of(x.type.dtype)
    known = value.value.value if isinstance(value.value, Literal) else 0.5
    cut = kinds in ("fi", "fu", "fb") and known not in range(100)  # which may be said of none
    if x.type.ndim != 1 or index.type.ndim != 1 or cut:
        raise t.refuse(f"{described(value)} is put into chosen elements of {described(x)}")
    if isinstance(value, Arr):
        if value.type.ndim != 1 or not is_mask:
            raise t.refuse("an array is put into chosen elements")
        return Inlined(of_numpy.set_where_each, [x, index, copied(t, value)], {})
    return Inlined(of_numpy.set_where if is_mask else of_numpy.set_places, [x, index, value], {})


def attribute(t: Writes, x: Abstract, name: str) -> Abstract:
    """An attribute of a value."""
    if isinstance(x, Arr):
        dims = range(x.type.ndim)
        if name == "shape":
            return Tup(tuple(Num("int64", PYTHON, length(t, x, k)) for k in dims))
        if name == "strides":
            strides = [t.op("stride", "int64", x.value, what=k) for k in dims]
            return Tup(tuple(Num("int64", PYTHON, n) for n in strides))
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
        raise Leaves(f"{described(x)} has no attribute {name}", AttributeError)
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
_HOLDERS: dict[type, tuple[type, ...]] = {Arr: (np.ndarray,), Lst: (list,), Tup: (tuple, list)}


def method(
    t: Writes, x: Abstract, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if isinstance(x, Lst):
        return lists.method(t, x, name, args, kwargs)
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
