"""Lists: what they are made of, and what is done to them."""

from __future__ import annotations

from ....ir.typed import Literal
from ....ir.typed.function import Value
from . import numbers
from .places import ZERO, as_index, described, length, within
from .values import (
    EITHER,
    NO_AXES,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Counted,
    Known,
    Leaves,
    Lst,
    Method,
    Num,
    Span,
    Tup,
    Writes,
    Zipped,
)


def item(t: Writes, x: Lst, index: Abstract) -> Abstract:
    """``x[index]``."""
    if isinstance(index, Span):
        raise t.refuse("a part of a list")
    if not x.dtype:
        raise Leaves("an element of an empty list", IndexError)
    i = within(t, index, length(t, x))
    return Num(x.dtype, x.kind, t.op("list item", x.dtype, x.value, i))


def set_item(t: Writes, x: Lst, index: Abstract, value: Abstract) -> None:
    """``x[index] = value``."""
    if not isinstance(value, Num):
        raise t.refuse(f"{described(value)} is put into a list")
    i = within(t, index, length(t, x))
    x = of_kind(t, x, value)
    t.do("set list item", x.value, i, value.value)


def method(
    t: Writes, x: Lst, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if not kwargs:
        if name == "append" and len(args) == 1:
            append(t, x, args[0])
            return Known(None)
        if name == "pop" and not args:
            if not x.dtype:
                raise Leaves("an empty list is popped", IndexError)
            n = length(t, x)
            t.mark(t.op("le", "bool", n, ZERO), "an empty list is popped", IndexError)
            return Num(x.dtype, x.kind, t.op("pop", x.dtype, x.value))
        if name == "clear" and not args:
            t.do("clear", x.value)
            return Known(None)
    raise t.refuse(f"the method {name} of a list")


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
    x = of_kind(t, x, value)
    t.do("append", x.value, value.value, what=t.mark_number("its lists grow long"))
    return x


def of_kind(t: Writes, x: Lst, value: Num) -> Lst:
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


def as_list(t: Writes, x: Tup) -> Lst:
    """A tuple of numbers of one type as a list, to be read at any place."""
    found = new_list(t, x.items)
    if not isinstance(found, Lst):
        raise t.refuse("a computed index into a tuple of several types")
    return found
