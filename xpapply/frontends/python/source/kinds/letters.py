"""Texts that are put together: parts of lists of letters' numbers.

What is done to them is written in Python, in `xpapply.library.of_texts`. A text that is chosen
among known ones is part of a constant; it becomes such a list where something is put to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import Value
from .....library.texts import of_texts
from .. import numbers
from ..places import described
from ..values import (
    NO_AXES,
    ON_DEVICE,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Eager,
    Inlined,
    Known,
    Leaves,
    Letters,
    Lst,
    Num,
    Rows,
    Tup,
    Writes,
    integer,
)
from . import texts

SITE = -1
"""The pseudo-site of a list of letters, whose type never changes."""
_LONG = "its texts grow long"
_MOST = 64
"""Letters of known texts that are written one by one."""


def is_any(x: Abstract) -> bool:
    """Whether it is a text."""
    return isinstance(x, Letters) or texts.is_text(x)


def of(t: Writes, x: Abstract) -> Letters:
    """A text as letters: of known ones, those in a constant."""
    if isinstance(x, Letters):
        return x
    some = texts.texts_of(x)
    table = np.array([ord(c) for s in some for c in s] or [0], np.int64)
    starts = np.cumsum([0, *map(len, some)])[:-1].tolist()
    known = t.constant(table, is_own=True)
    first, count = (texts.by_text(t, x, y, "int64") for y in (starts, [*map(len, some)]))
    return Letters(known, Num("int64", PYTHON, first), Num("int64", PYTHON, count))


def as_lists(t: Writes, x: Abstract) -> Letters:
    """A text whose letters are in a list."""
    if isinstance(x, Letters) and isinstance(x.codes, Lst):
        return x
    if isinstance(x, Letters):
        raise t.refuse(
            "a part of a text that is known is kept in a list: make a list of its letters"
        )
    found = of(t, x)
    made = _new(t)
    all_ = "".join(texts.texts_of(x))
    if len(all_) > _MOST:
        raise t.refuse("long texts are put into a list")
    for c in all_:
        t.do("append", made.value, Literal(ord(c), "int64"), what=t.mark_number(_LONG))
    return found._replace(codes=made)


def _new(t: Writes) -> Lst:
    return Lst("int64", PYTHON, SITE, t.op("new list", "list", what=t.mark_number(_LONG)))


def made(codes: Abstract, first: Num, count: Num) -> Letters:
    """A text of some letters in a list."""
    if isinstance(codes, Lst):
        codes = Lst("int64", PYTHON, SITE, codes.value)
    return Letters(codes, first, count)


def one(t: Writes, x: Letters, at: Value) -> Letters:
    """A letter at a place that is there."""
    first = t.op("add", "int64", x.first.value, at)
    return x._replace(first=Num("int64", PYTHON, first), size=integer(1))


def code(t: Writes, x: Letters, k: Num) -> Num:
    """The number of a letter at a place that is there."""
    at = t.op("add", "int64", x.first.value, k.value)
    op = "element" if isinstance(x.codes, Arr) else "list item"
    return Num("int64", PYTHON, t.op(op, "int64", x.codes.value, at))


def part(t: Writes, x: Letters, start: Value, step: Value, count: Value) -> Abstract:
    """A part of a text."""
    if step == Literal(1, "int64"):
        first = t.op("add", "int64", x.first.value, start)
        return Letters(x.codes, *(Num("int64", PYTHON, y) for y in (first, count)))
    return Inlined(of_texts.part, [x, *(Num("int64", PYTHON, y) for y in (start, step, count))], {})


def added(t: Writes, a: Abstract, b: Abstract) -> Abstract:
    """``a + b``."""
    if isinstance(a, Known) and isinstance(b, Known):
        return Known(a.value + b.value)
    if isinstance(b, Known) and not b.value:
        return a
    return Inlined(of_texts.added, [of(t, a), of(t, b)], {})


def repeated(t: Writes, x: Abstract, count: Num) -> Abstract:
    """``x * count``."""
    if isinstance(x, Known) and isinstance(count.value, Literal):
        return Known(x.value * count.value.value)
    return Inlined(of_texts.repeated, [of(t, x), count], {})


_COMPARED: dict[str, Any] = {
    "==": of_texts.alike, "!=": of_texts.unlike, "<": of_texts.less, "<=": of_texts.not_more,
    ">": of_texts.more, ">=": of_texts.not_less, "in": of_texts.has, "not in": of_texts.has_not,
}  # fmt: skip


def compared(t: Writes, op: str, a: Abstract, b: Abstract) -> Inlined:
    """A comparison of two texts, or whether one is in the other."""
    return Inlined(_COMPARED[op], [of(t, a), of(t, b)], {})


def among(t: Writes, op: str, x: Letters, some: Tup) -> Inlined:
    """``x in some``, of a tuple of texts."""
    return Inlined(of_texts.is_one if op == "in" else of_texts.is_none, [x, some], {})


def looked_up(
    t: Writes, x: dict[Any, Any], key: Letters, default: Abstract | None, known: Any
) -> Inlined:
    """The entry of a dict of the user's for a text."""
    there = {k: known(t, v) for k, v in x.items() if type(k) is str}
    keys, values = Tup(tuple(map(Known, there))), Tup(tuple(there.values()), True)
    if default is None:
        return Inlined(of_texts.looked_up, [key, keys, values], {})
    return Inlined(of_texts.looked_up_or, [key, keys, values, default], {})


def ordinal(t: Writes, x: Abstract) -> Num:
    """``ord(x)``."""
    if isinstance(x, Known) and len(x.value) == 1:
        return integer(ord(x.value))
    if not is_any(x):
        raise Leaves("ord of something else than a text", TypeError)
    found = of(t, x)
    t.mark(t.op("ne", "bool", found.size.value, Literal(1, "int64")), "ord of no letter", TypeError)
    return code(t, found, integer(0))


def letter(t: Writes, n: Value) -> Abstract:
    """``chr(n)``."""
    if isinstance(n, Literal) and 0 <= n.value < 0x110000:
        return Known(chr(n.value))
    low = t.op("lt", "bool", n, Literal(0, "int64"))
    high = t.op("gt", "bool", n, Literal(0x10FFFF, "int64"))
    t.mark(t.op("or", "bool", low, high), "chr of no letter", ValueError)
    found = _new(t)
    t.do("append", found.value, n, what=t.mark_number(_LONG))
    return Letters(found, integer(0), integer(1))


def said(t: Writes, x: Abstract) -> Abstract:
    """``str(x)``."""
    if is_any(x):
        return x
    if isinstance(x, Num) and x.kind not in (NO_AXES, *ON_DEVICE):
        if x.dtype == "bool":
            return texts.chosen(t, ("False", "True"), t.op("cast", "int64", x.value))
        if x.dtype.startswith(("int", "uint")) and x.dtype != "uint64":
            n = x.value if x.dtype == "int64" else t.op("cast", "int64", x.value)
            return Inlined(of_texts.of_int, [Num("int64", PYTHON, n)], {})
    if isinstance(x, Num):
        raise t.refuse(f"a {x.dtype} as text: return the number, and make the text afterwards")
    raise t.refuse("something else than an integer as text")


def method(
    t: Writes, x: Abstract, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if name == "join" and len(args) == 1 and not kwargs:
        return _joined(t, x, args[0])
    at_once = None if kwargs else texts.method(t, x, name, args)
    if at_once is not None:
        return at_once
    found = _METHODS.get(name)
    if name in ("strip", "lstrip", "rstrip") and args:
        found = found and (found[0], 1, found[2])
    elif found is not None and name in ("center", "ljust", "rjust") and len(args) == 1:
        args = [*args, Known(" ")]
    if kwargs or found is None or len(args) != found[1]:
        raise t.refuse(f"the method {name} of a text")
    given = [of(t, y) if is_any(y) else _number(t, name, y) for y in args]
    if name in _FILLED:
        given[1:] = [ordinal(t, y) for y in args[1:]]
    elif name in ("strip", "lstrip", "rstrip") and not args:
        given = [of(t, Known(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"))]
    more = [numbers.number(k) for k in found[2]]
    return Inlined(found[0], [of(t, x), *given, *more], {})


def _number(t: Writes, name: str, x: Abstract) -> Num:
    """An argument of a method that is a width."""
    is_width = name in (*_FILLED, "zfill") and isinstance(x, Num)
    if not is_width or x.dtype not in ("int64", "bool") or x.kind != PYTHON:
        raise t.refuse(f"the method {name} of a text and {described(x)}")
    return x if x.dtype == "int64" else Num("int64", PYTHON, t.op("cast", "int64", x.value))


_METHODS: dict[str, tuple[Any, int, tuple[int, ...]]] = {
    "find": (of_texts.place, 1, ()), "index": (of_texts.index, 1, ()),
    "count": (of_texts.count, 1, ()), "startswith": (of_texts.starts, 1, ()),
    "endswith": (of_texts.ends, 1, ()), "split": (of_texts.split, 1, ()),
    "replace": (of_texts.replaced, 2, ()), "upper": (of_texts.letter_changed, 0, (97, 122, -32)),
    "lower": (of_texts.letter_changed, 0, (65, 90, 32)), "rfind": (of_texts.last_place, 1, ()),
    "rindex": (of_texts.last_index, 1, ()), "strip": (of_texts.stripped, 0, (True, True)),
    "lstrip": (of_texts.stripped, 0, (True, False)),
    "rstrip": (of_texts.stripped, 0, (False, True)), "partition": (of_texts.parted, 1, ()),
    "removeprefix": (of_texts.without_prefix, 1, ()),
    "removesuffix": (of_texts.without_suffix, 1, ()), "swapcase": (of_texts.swapped, 0, ()),
    "capitalize": (of_texts.capital, 0, (False,)), "title": (of_texts.capital, 0, (True,)),
    "isalpha": (of_texts.are_within, 0, (65, 90, 97, 122)),
    "isdigit": (of_texts.are_within, 0, (48, 57, 48, 57)),
    "isupper": (of_texts.have_case, 0, (97, 122)), "islower": (of_texts.have_case, 0, (65, 90)),
    "ljust": (of_texts.justified, 2, (-1,)), "rjust": (of_texts.justified, 2, (1,)),
    "center": (of_texts.centered, 2, ()), "zfill": (of_texts.zero_filled, 1, ()),
}  # fmt: skip


_FILLED = ("center", "ljust", "rjust")
"""Methods with a width and a fill character."""


def _joined(t: Writes, x: Abstract, some: Abstract) -> Abstract:
    if isinstance(some, Eager) and isinstance(some.inner, Along):  # of a `map`, all computed
        some = some.inner.over
    if isinstance(some, Lst) and not some.dtype:
        return Known("")
    is_list = isinstance(some, Rows) and some.number == TEXTS
    if isinstance(some, Tup) and all(map(is_any, some.items)):
        if all(isinstance(y, Known) for y in (x, *some.items)):
            return Known(x.value.join(y.value for y in some.items))
        some = some._replace(items=tuple(of(t, y) for y in some.items))
    elif not is_list and not is_any(some):
        raise t.refuse("join of something else than a list of texts")
    return Inlined(of_texts.joined, [of(t, x), of(t, some) if is_any(some) else some], {})


TEXTS = "text"
"""The tag of `Rows` of texts."""


def spell(t: Writes, codes: Lst, x: Abstract) -> Inlined:
    """Put the letters of what is joined at the end of a list."""
    if not is_any(x):
        raise t.refuse("join of something else than texts")
    return Inlined(of_texts.put, [codes, of(t, x)], {})


def whole(t: Writes, codes: Lst) -> Letters:
    """The text of all letters in a list."""
    return made(codes, integer(0), Num("int64", PYTHON, t.op("list length", "int64", codes.value)))


def parts(t: Writes, x: Abstract) -> tuple[Abstract, ...]:
    """The parts of a text as lists store it."""
    return tuple(as_lists(t, x))


def result(t: Writes, x: Abstract, k: int, count: int) -> Inlined | None:
    """The letters of a text, or of a list of so many, that is a result; None: it is neither."""
    width = t.op("expected", "int64", what=(k, 0))
    if count > 0:
        width = t.op("div", "int64", width, Literal(count, "int64"))
    assert t.expected is not None
    whole = t.expected[k].is_whole
    if is_any(x) and not count:
        page = of_texts.spelled_whole if whole else of_texts.spelled
        return Inlined(page, [of(t, x), Num("int64", PYTHON, width)], {})
    if whole:
        raise t.refuse("lists of texts that are put together")
    if isinstance(x, Tup) and len(x.items) == count and all(map(is_any, x.items)):
        x = x._replace(items=tuple(of(t, y) for y in x.items))
    elif not (isinstance(x, Rows) and x.number == TEXTS):
        return None
    return Inlined(of_texts.all_spelled, [x, Num("int64", PYTHON, width)], {})


ROWS: dict[Any, Any] = {
    of_texts.code: lambda t, args, kwargs: code(t, of(t, args[0]), args[1]),
    of_texts.codes: lambda t, args, kwargs: args[0].codes,
    of_texts.begin: lambda t, args, kwargs: args[0].first,
    of_texts.grows: lambda t, args, kwargs: Num(
        "bool", PYTHON, Literal(isinstance(args[0].codes, Lst), "bool")
    ),
    of_texts.text: lambda t, args, kwargs: made(*args),
    of_texts.letters: lambda t, args, kwargs: _new(t),
    ord: lambda t, args, kwargs: ordinal(t, *args),
}
"""Rows of functions that take texts apart, for our functions in Python."""
