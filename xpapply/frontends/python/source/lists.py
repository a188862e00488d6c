"""Lists: what they are made of, and what is done to them.

A list of numbers, of tuples of them (`Rows`: a list for each place of the tuples) or of lists of
numbers. What takes more than an instruction is written in Python, in `xpapply.library.of_lists`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.typed import Literal
from ....ir.typed.function import LISTS, PARTS, Value
from ....library import of_lists, of_python
from ....library.texts import of_texts
from . import numbers
from .keys import changed
from .kinds import complexes, letters
from .places import ZERO, as_index, bounds, described, length, within
from .values import (
    DEVICE,
    EITHER,
    NO_AXES,
    PYTHON,
    Abstract,
    Inlined,
    Inner,
    Known,
    Leaves,
    Letters,
    Lst,
    Num,
    Rows,
    Span,
    Tup,
    Writes,
)


def element(t: Writes, x: Lst | Rows, at: Value) -> Abstract:
    """The element at a place that is there."""
    if isinstance(x, Rows):
        return x.one(tuple(element(t, c, at) for c in x.columns), lambda *p: complexes.made(t, *p))
    if isinstance(x.dtype, Inner):
        return Lst(*x.dtype, t.op("list item", "list", x.value, at))
    return Num(x.dtype, x.kind, t.op("list item", x.dtype, x.value, at))


def is_typed(x: Lst | Rows) -> bool:
    """Whether the element type is known; otherwise the list is empty."""
    return isinstance(x, Rows) or bool(x.dtype)


def item(t: Writes, x: Lst | Rows, index: Abstract) -> Abstract:
    """``x[index]``."""
    if isinstance(index, Span):
        start, step, count = bounds(t, index, length(t, x))
        parts = [Num("int64", PYTHON, n) for n in (start, step, count)]
        return Inlined(of_lists.part, [x, *parts], {})
    if not is_typed(x):
        raise Leaves("an element of an empty list", IndexError)
    return element(t, x, within(t, index, length(t, x)))


def set_item(t: Writes, x: Lst | Rows, index: Abstract, value: Abstract) -> None:
    """``x[index] = value``."""
    if isinstance(index, Span):
        raise t.refuse("it writes a part of a list")
    if not is_typed(x):
        raise Leaves("an element of an empty list", IndexError)
    at = within(t, index, length(t, x))
    for column, one in _columns(t, x, value):
        t.do("set list item", column.value, at, one.value)


def _columns(t: Writes, x: Lst | Rows, value: Abstract) -> list[tuple[Lst, Any]]:
    """The lists that parts of a value are put into, known to hold such."""
    if isinstance(x, Lst):
        return [(of_kind(t, x, value), value)]
    if x.number:
        return _parts_of_text(t, x, value) if x.number == letters.TEXTS else _parts(t, x, value)
    like = isinstance(value, Tup) and value.is_list is x.of_lists
    if not like or len(value.items) != len(x.columns):
        raise t.refuse(f"{described(value)} is put into a list of tuples")
    pairs = zip(x.columns, value.items, strict=True)
    return [(of_kind(t, column, one), one) for column, one in pairs]


def _parts(t: Writes, x: Rows, value: Abstract) -> list[tuple[Lst, Any]]:
    """The lists of complex numbers' parts, and those of one that is put into them."""
    if not isinstance(value, Num) or value.dtype not in PARTS or value.kind != x.number:
        raise t.refuse("a list of complex numbers and others, instead of an array")
    parts = [Num(str(p.type), PYTHON, p) for p in complexes.parts(t, value.value)]
    return [(of_kind(t, c, p), p) for c, p in zip(x.columns, parts, strict=True)]


def _parts_of_text(t: Writes, x: Rows, value: Abstract) -> list[tuple[Lst, Any]]:
    if not letters.is_any(value):
        raise t.refuse(f"{described(value)} is put into a list of texts")
    parts = letters.parts(t, value)
    return [(of_kind(t, c, p), p) for c, p in zip(x.columns, parts, strict=True)]


def method(
    t: Writes, x: Lst | Rows, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if name == "sort" and not args:
        return sorted_by(t, of_python.sort_in_place, x, kwargs)
    if kwargs:
        raise t.refuse(f"the method {name} of a list")
    if name == "append" and len(args) == 1:
        return put_last(t, x, args[0])
    if name == "pop" and not args:
        return popped(t, x, "pop")
    if name == "clear" and not args:
        for column in x.columns if isinstance(x, Rows) else (x,):
            t.do("clear", column.value)
        return Known(None)
    found = _WRITTEN.get(name)
    if found is None or len(args) != found[1]:
        raise t.refuse(f"the method {name} of a list")
    if not is_typed(x) and name in ("pop", "index", "remove"):
        raise Leaves("an empty list has no such element", ValueError)
    return Inlined(found[0], [x, *args], {})


def sorted_by(t: Writes, how: Any, x: Abstract, kwargs: dict[str, Abstract]) -> Inlined:
    """``sorted(x, ...)`` or ``x.sort(...)``: Python may want an integer of C's for `reverse`."""
    back = kwargs.get("reverse")
    if back is None:
        return Inlined(how, [x], kwargs)
    if not isinstance(back, Num) or back.kind in (EITHER, NO_AXES):
        raise t.refuse(f"{described(back)} says how a list is sorted")
    is_known = isinstance(back.value, Literal)
    if back.dtype not in ("bool", "float32", "float64") and not is_known:
        n = as_index(t, back)
        for op, limit in (("lt", -(1 << 31)), ("gt", (1 << 31) - 1)):
            t.mark(numbers.compared(t, op, n, limit), "a large integer says how to sort")
    one = np.array(back.value.value if is_known else 1, back.dtype)[()]  # type: ignore[union-attr]
    reverse: Any = one.item() if back.kind == PYTHON else one
    try:
        sorted((), reverse=reverse)
    except (TypeError, OverflowError) as error:
        raise Leaves(f"{described(back)} says how a list is sorted", type(error)) from None
    return Inlined(how, [x], kwargs)


_WRITTEN: dict[str, tuple[Any, int]] = {
    "pop": (of_lists.popped, 1), "insert": (of_lists.insert, 2), "extend": (of_lists.extend, 1),
    "remove": (of_lists.remove, 1), "index": (of_lists.index, 1), "count": (of_lists.count, 1),
    "reverse": (of_lists.reverse, 0), "copy": (of_lists.copied, 0),
}  # fmt: skip


def popped(t: Writes, x: Lst | Rows, op: str) -> Abstract:
    """The last element, or by ``pop first`` the first one, which is taken out."""
    if not is_typed(x):
        raise Leaves("an empty list is popped", IndexError)
    t.mark(t.op("le", "bool", length(t, x), ZERO), "an empty list is popped", IndexError)
    if isinstance(x, Rows):
        parts = tuple(_popped(t, c, op) for c in x.columns)
        return x.one(parts, lambda *p: complexes.made(t, *p))
    return _popped(t, x, op)


def _popped(t: Writes, x: Lst, op: str) -> Lst | Num:
    if isinstance(x.dtype, Inner):
        return Lst(*x.dtype, t.op(op, "list", x.value))
    return Num(x.dtype, x.kind, t.op(op, x.dtype, x.value))


def new_list(t: Writes, items: tuple[Abstract, ...], *, grows: bool = False, part: int = 0) -> Any:
    """A new list; one of several types is a read-only tuple.

    `grows`: whether something may be put into it, also if it is of tuples or lists; `part`: which
    one it is of several that are made here.
    """
    are_some = all(isinstance(x, (Num, Tup, Lst)) for x in items) or all(map(letters.is_any, items))
    if items and not (grows and are_some):
        if t.element == DEVICE:  # there are no lists that grow
            return Tup(items, True)
        if not all(isinstance(x, Num) for x in items) or len({x.dtype for x in items}) > 1:
            return Tup(items, True)
        if any(x.kind == NO_AXES for x in items):
            return Tup(items, True)
    made: Lst | Rows = Lst(
        "", "", t.site(part), t.op("new list", "list", what=t.mark_number(LISTS))
    )
    for x in items:
        made = append(t, made, x)
    return made


def put_last(t: Writes, x: Abstract, value: Abstract) -> Abstract:
    """``x.append(value)``."""
    if isinstance(value, Letters) and not isinstance(value.codes, Lst):
        return Inlined(of_texts.appended, [x, value], {})
    append(t, x, value)
    return Known(None)


def append(t: Writes, x: Abstract, value: Abstract) -> Lst | Rows:
    """Put something at the end of a list."""
    if not isinstance(x, (Lst, Rows)):
        raise t.refuse(f"{described(x)} gets a further element")
    if isinstance(x, Lst) and not x.dtype and isinstance(value, Tup):
        x = _as_rows(t, x, value)
    elif isinstance(x, Lst) and not x.dtype and _is_complex(value):
        parts = tuple(Num(str(p.type), PYTHON, p) for p in complexes.parts(t, value.value))
        x = _as_rows(t, x, Tup(parts), value.kind)
    elif isinstance(x, Lst) and not x.dtype and letters.is_any(value):
        x = _as_rows(t, x, Tup(letters.parts(t, value)), letters.TEXTS)
    columns = _columns(t, x, value)
    for column, one in columns:
        t.do("append", column.value, one.value, what=t.mark_number(LISTS))
    found = tuple(c for c, _ in columns)
    return x._replace(columns=found) if isinstance(x, Rows) else found[0]


def _is_complex(x: Abstract) -> bool:
    return isinstance(x, Num) and x.dtype in PARTS and x.kind != NO_AXES


def _as_rows(t: Writes, x: Lst, value: Tup, number: str = "") -> Rows:
    """An empty list that gets its first tuple: a list for each place, the first of which it is."""
    of_texts = number == letters.TEXTS
    if not value.items or not all(of_texts or isinstance(y, Num) for y in value.items):
        raise t.refuse(f"a list of {described(value)}")
    columns = [x]
    for k in range(1, len(value.items)):
        more = t.op("new list", "list", what=t.mark_number(LISTS))
        columns.append(Lst("", "", t.site(k), more))
    found = Rows(tuple(columns), value.is_list, number)
    _renew(t, lambda y: found if y.site == x.site and not y.dtype else y)
    return found


def of_kind(t: Writes, x: Lst, value: Abstract) -> Lst:
    """A list, known to have elements of such a type."""
    if isinstance(value, Lst):
        return _of_lists(t, x, value)
    if not isinstance(value, Num):
        raise t.refuse(f"a list of {described(value)}")
    if x.dtype and x.dtype != value.dtype:
        raise t.refuse("a list of numbers of several types")
    if value.dtype in PARTS:
        raise t.refuse("a list of complex numbers and others, instead of an array")
    if value.kind == NO_AXES:
        raise t.refuse("an array without axes is put into a list")
    return _typed(t, x, value.dtype, value.kind)


def _typed(t: Writes, x: Lst, dtype: Any, kind: str) -> Lst:
    """A list that gets a type, as all that may be the same one do.

    Lists of one site that had another type before are others.
    """
    if (x.dtype, x.kind) != (dtype, _either(x.kind, kind)):
        t.retyped(x)
    new = Inner(dtype, kind, x.site)
    _renew(t, lambda y: _retyped(y, {x.site}, {x.dtype}, new))
    return x._replace(dtype=dtype, kind=_either(x.kind, kind))


def _retyped(y: Any, sites: set[int], old: set[Any], new: Inner) -> Any:
    """A list, or what is in one, that has a type from now on if it is one of those."""
    if isinstance(y.dtype, Inner):
        y = y._replace(dtype=_retyped(y.dtype, sites, old, new))
    if y.site in sites and y.dtype in old:
        return y._replace(dtype=new.dtype, kind=_either(y.kind, new.kind), site=new.site)
    return y


def _either(a: str, b: str) -> str:
    return a if b in ("", a) else b if not a else EITHER


def _of_lists(t: Writes, x: Lst, value: Lst) -> Lst:
    """A list that another one is put into: all that are in it have one type, and one site."""
    if isinstance(value.dtype, Inner) or (x.dtype and not isinstance(x.dtype, Inner)):
        raise t.refuse("a list of numbers and lists, or of lists of lists")
    if not x.dtype:
        return _typed(t, x, Inner(value.dtype, value.kind, value.site), PYTHON)
    inner = x.dtype
    if inner.dtype and value.dtype and inner.dtype != value.dtype:
        raise t.refuse("a list of lists of several types")
    kind = _either(inner.kind, value.kind)
    new = Inner(value.dtype or inner.dtype, kind, inner.site)
    these = {inner.site, value.site}, {inner.dtype, value.dtype}, new
    _renew(t, lambda y: _retyped(y, *these))
    return _retyped(x, *these)  # type: ignore[no-any-return]


def _renew(t: Writes, renewed: Callable[[Any], Any]) -> None:
    """Change all lists that are known now."""
    for at, y in t.state.items():
        if not isinstance(y, (Num, Known)):
            t.state[at] = changed(y, renewed)


def repeated(t: Writes, x: Abstract, count: Num) -> Abstract:
    """``[...] * n``."""
    if isinstance(x, Tup):
        if isinstance(count.value, Literal):
            return x._replace(items=x.items * count.value.value)
        raise t.refuse("a tuple as often as is computed")
    if isinstance(x, Rows):
        raise t.refuse("a list of tuples as often as is said")
    n = as_index(t, count)
    made = t.op("repeat", "list", x.value, n, what=t.mark_number(LISTS))
    return x._replace(site=t.site(), value=made)


def contains(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract:
    """``a in b``: of a few that are written in the source, or of a list or an array."""
    if isinstance(b, (Lst, Rows)):
        if not is_typed(b):
            return Num("bool", PYTHON, Literal(op != "in", "bool"))
        return Inlined(of_lists.has if op == "in" else of_lists.has_not, [b, a], {})
    if not isinstance(a, Num) or not isinstance(b, Tup) or not b.items:
        raise t.refuse(f"{described(a)} {op} {described(b)}")
    found: Value | None = None
    if numbers.kind_of(a.dtype) in "fc" and not isinstance(a.value, Literal):
        t.mark(numbers.is_nan(t, a.value), "a NaN may be the one that is looked for")
    for x in b.items:
        if not isinstance(x, Num):
            raise t.refuse(f"a number {op} a tuple of others")
        one = numbers.compare(t, "==", a, x).value
        found = one if found is None else t.op("or", "bool", found, one)
    assert found is not None
    return Num("bool", PYTHON, found if op == "in" else t.op("not", "bool", found))


def compared(t: Writes, op: str, a: Tup, b: Tup) -> Num:
    """A comparison of two tuples of numbers, place by place. No list is like a tuple."""
    if a.is_list is not b.is_list:
        if op in ("==", "!="):
            return Num("bool", PYTHON, Literal(op == "!=", "bool"))
        raise Leaves("a list is compared with a tuple", TypeError)
    if len(a.items) != len(b.items) or not all(isinstance(x, Num) for x in (*a.items, *b.items)):
        raise t.refuse(f"{described(a)} {op} {described(b)}")
    for x in (*a.items, *b.items):
        if numbers.kind_of(x.dtype) in "fc" and not isinstance(x.value, Literal):
            t.mark(numbers.is_nan(t, x.value), "a NaN may be the one that it is compared with")
    strict = op in ("<", ">")
    found: Value = Literal(op in ("==", "<=", ">="), "bool")
    for x, y in reversed(list(zip(a.items, b.items, strict=True))):
        same = numbers.compare(t, "==", x, y).value
        beyond: Value = Literal(op == "!=", "bool")
        if strict or op in ("<=", ">="):
            beyond = numbers.compare(t, op[0], x, y).value
        found = t.op("select", "bool", same, found, beyond)
    return Num("bool", PYTHON, found)


def as_list(t: Writes, x: Tup) -> Lst | Rows:
    """A tuple of numbers of one type as a list, to be read at any place."""
    found = new_list(t, x.items)
    if not isinstance(found, (Lst, Rows)):
        raise t.refuse("a computed index into a tuple of several types")
    return found
