"""Texts that are chosen: a number says which one of a few it is, which are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import Value
from ..values import PYTHON, Abstract, Known, Leaves, Num, Text, Tup, Writes

TEXT = "text"
"""The pseudo-dtype of results that are texts."""


def is_text(x: Abstract) -> bool:
    """Whether it is a text."""
    return isinstance(x, Text) or (isinstance(x, Known) and type(x.value) is str)


def texts_of(x: Abstract) -> tuple[str, ...]:
    """The candidates of a text."""
    return x.texts if isinstance(x, Text) else (x.value,)


def by_text(t: Writes, x: Abstract, values: Sequence[Any], dtype: str) -> Value:
    """A number that belongs to each text."""
    if not isinstance(x, Text) or len({*values}) == 1:
        return Literal(values[0], dtype)
    table = t.constant(np.array(values, dtype), is_own=True)
    return t.op("element", dtype, table.value, x.value)


def chosen(t: Writes, texts: Sequence[str], code: Value) -> Abstract:
    """The text that a number says, each of which is there once."""
    once = tuple(dict.fromkeys(texts))
    if len(once) == 1:
        return Known(once[0])
    if len(once) == len(texts):
        return Text(once, code)
    return Text(once, by_text(t, Text(tuple(texts), code), [*map(once.index, texts)], "int64"))


def item(t: Writes, x: Sequence[str], index: Abstract, within: Callable[..., Value]) -> Abstract:
    """An item of several texts, or a letter of one, at a computed index."""
    at = within(t, index, Literal(len(x), "int64"))
    if isinstance(at, Literal):
        return Known(x[at.value])
    return chosen(t, x, at)


def compare(t: Writes, op: str, a: Abstract, b: Abstract) -> Num:
    """A comparison of two texts; the order of two chosen texts is not compiled."""
    asked: Any = {
        "==": lambda x, y: x == y, "!=": lambda x, y: x != y, "<": lambda x, y: x < y,
        "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    }[op]  # fmt: skip
    if isinstance(a, Text) and isinstance(b, Text):
        both = tuple(dict.fromkeys((*a.texts, *b.texts)))
        if op not in ("==", "!="):
            both = tuple(sorted(both))
        codes = [by_text(t, x, [*map(both.index, x.texts)], "int64") for x in (a, b)]
        names = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
        return Num("bool", PYTHON, t.op(names[op], "bool", *codes))
    if isinstance(b, Text):
        (one,) = texts_of(a)
        return Num("bool", PYTHON, by_text(t, b, [asked(one, s) for s in b.texts], "bool"))
    (one,) = texts_of(b)
    return Num("bool", PYTHON, by_text(t, a, [asked(s, one) for s in texts_of(a)], "bool"))


def contains(t: Writes, op: str, a: Abstract, b: Abstract) -> Num | None:
    """``a in b`` of a text, and of texts or of one; None: that is not compiled."""
    if isinstance(b, Tup) and b.items and all(isinstance(x, Known) for x in b.items):
        among: Any = [x.value for x in b.items]
    elif isinstance(b, Known) and isinstance(b.value, (str, frozenset)):
        among = b.value
    else:
        return None
    found = [(s in among) is (op == "in") for s in texts_of(a)]
    return Num("bool", PYTHON, by_text(t, a, found, "bool"))


_AT_ONCE = frozenset(
    "capitalize casefold center count endswith expandtabs find index isalnum isalpha isdecimal "
    "isdigit islower isnumeric isspace istitle isupper ljust lower lstrip partition removeprefix "
    "removesuffix replace rfind rindex rjust rpartition rstrip startswith strip swapcase title "
    "upper zfill".split()
)
_FEW = 16
"""The most candidates for which a method is evaluated."""


def method(t: Writes, x: Abstract, name: str, args: Sequence[Abstract]) -> Abstract | None:
    """``x.name(...)`` of texts and arguments that are known; None: that is not compiled so."""
    given = [y.value for y in args if isinstance(y, (Num, Known))]
    given = [y.value if isinstance(y, Literal) else y for y in given]
    are_known = len(given) == len(args) and all(type(y) in (str, int) for y in given)
    if name not in _AT_ONCE or not is_text(x) or not are_known:
        return None
    return of_each(t, x, lambda s: getattr(s, name)(*given))


def of_each(t: Writes, x: Abstract, function: Callable[[str], Any]) -> Abstract | None:
    """Evaluate a function for each candidate; None: there are many, or it raises."""
    try:
        found = [function(s) for s in texts_of(x)[: _FEW + 1]]
    except (ValueError, TypeError):
        return None
    if not found or len(found) > _FEW:
        return None
    if type(found[0]) is tuple:
        return Tup(tuple(_one_of(t, x, [y[k] for y in found]) for k in range(3)))
    return _one_of(t, x, found)


def _one_of(t: Writes, x: Abstract, values: Sequence[Any]) -> Abstract:
    """A value chosen with the text: a text, an integer or a truth value."""
    if type(values[0]) is str:
        return chosen(t, values, x.value) if isinstance(x, Text) else Known(values[0])
    dtype = "bool" if type(values[0]) is bool else "int64"
    return Num(dtype, PYTHON, by_text(t, x, values, dtype))


def looked_up(
    t: Writes, x: dict[Any, Any], key: Abstract, default: Abstract | None, known: Any
) -> Abstract:
    """The entry of a dict for a text; `known`: makes a value of an object."""
    texts = texts_of(key)
    there = [s in x for s in texts]
    if default is None:
        if not any(there):
            raise Leaves("a key that is not there", KeyError)
        missing = by_text(t, key, [not y for y in there], "bool")
        t.mark(missing, "a key that is not there", KeyError)
    some = next((known(t, x[s]) for s in texts if s in x), default)
    values: list[Any] = [
        known(t, x[s]) if s in x else some if default is None else default for s in texts
    ]
    if len(values) == 1:
        return values[0]
    if all(isinstance(y, Known) and type(y.value) is str for y in values):
        assert isinstance(key, Text)
        return chosen(t, [y.value for y in values], key.value)
    plain = all(isinstance(y, Num) and isinstance(y.value, Literal) for y in values)
    if not plain or len({y[:2] for y in values}) > 1:
        raise t.refuse("a dict whose values are neither numbers of one type nor texts")
    dtype, kind, _ = values[0]
    return Num(dtype, kind, by_text(t, key, [y.value.value for y in values], dtype))
