"""Sets, where their order does not matter: what is done to two of them, sums, extremes, sorting."""

from __future__ import annotations

from typing import Any

from .....library import of_keys, of_sets
from .. import held, lists
from ..numbers import kind_of
from ..places import ZERO, described, length
from ..values import Abstract, Along, Held, Inlined, Lst, Rows, Writes, integer


def disordered(t: Writes, x: Held) -> Held:
    """A set that does not get its elements one by one: what it goes through is left to Python."""
    held.changes(t, x)
    return x


def gone_through(t: Writes, x: Held) -> Abstract:
    """Iterate over a set in the order of Python's table.

    That is known of integers which were put in one by one, and none taken out.
    """
    items = x.items
    if not lists.is_typed(items):
        return Along(items, integer(0))
    if not isinstance(items, Lst) or items.dtype != "int64" or not of_sets.keeps_order_so():
        raise t.refuse(f"it goes through {described(x)} of others than integers, {SAYS}")
    now = t.op("list item", "int64", x.state.value, ZERO)
    unlike = t.op("ne", "bool", now, length(t, items))
    t.mark(unlike, "a set from which something was taken, or that was made of another one")
    return Inlined(of_sets.in_place_order, [items], {})


SAYS = "whose order Python does not say: sorted(...) says one"
_BINARY: dict[str, Any] = {
    "|": of_sets.either, "&": of_sets.both, "-": of_sets.without, "^": of_sets.one_of,
}  # fmt: skip
_COMPARED: dict[str, Any] = {
    "<=": of_sets.within, ">=": of_sets.around, "<": of_sets.less, ">": of_sets.more,
    "==": of_sets.alike, "!=": of_sets.unlike,
}  # fmt: skip
_METHODS: dict[str, Any] = {
    "union": of_sets.either, "intersection": of_sets.both, "difference": of_sets.without,
    "symmetric_difference": of_sets.one_of, "issubset": of_sets.within,
    "issuperset": of_sets.around, "isdisjoint": of_sets.apart,
}  # fmt: skip


def is_set(x: Abstract) -> bool:
    """Whether it is a set."""
    return isinstance(x, Held) and x.what == "set"


def binary(t: Writes, op: str, a: Held, b: Held) -> Inlined | None:
    """``a | b`` and such; None: it is no such operation."""
    return None if op not in _BINARY else _made(t, _BINARY[op], a, b)


def _made(t: Writes, how: Any, a: Held, b: Held) -> Inlined:
    if how is of_sets.both and _is_of_floats(a.items, b.items):
        how = of_sets.both_of_floats
    return Inlined(how, [disordered(t, held.new(t, "set")), a, b], {})


def _is_of_floats(*some: Abstract) -> bool:
    """Whether lists hold floats, whose zeros have signs."""
    all_ = [c for x in some for c in (x.columns if isinstance(x, Rows) else (x,))]
    return any(type(c.dtype) is str and c.dtype and kind_of(c.dtype) == "f" for c in all_)


def inplace(t: Writes, op: str, a: Held, b: Held) -> Inlined:
    """``a |= b``."""
    if op != "|":
        raise t.refuse(f"{op}= of a set: a = a {op} b")
    return Inlined(of_sets.updated, [disordered(t, a), b], {})


def compared(t: Writes, op: str, a: Held, b: Held) -> Inlined:
    """A comparison of two."""
    return Inlined(_COMPARED[op], [a, b], {})


def method(t: Writes, x: Held, name: str, args: list[Abstract]) -> Abstract:
    """A method with another set or iterable; None: not such a method."""
    if name == "copy" and not args:
        return Inlined(of_sets.copied, [disordered(t, held.new(t, "set")), x], {})
    if len(args) != 1:
        return None
    if name == "update":
        is_own = is_set(args[0])
        if isinstance(args[0], Held):
            disordered(t, x)
        return Inlined(of_sets.updated if is_own else of_keys.updated, [x, args[0]], {})
    how = _METHODS.get(name)
    if how is None:
        return None
    if not is_set(args[0]):
        raise t.refuse(f"{name} of a set and {described(args[0])}: make a set of it")
    if how in (*_BINARY.values(),):
        return _made(t, how, x, args[0])
    return Inlined(how, [x, args[0]], {})


def in_any_order(t: Writes, x: Abstract, kwargs: Any = ()) -> Abstract:
    """A set for functions that do not depend on its order; others unchanged."""
    if not isinstance(x, Held) or x.what != "set":
        return x
    if "key" in kwargs:
        raise t.refuse(f"a key beside a set, {SAYS}")
    return x.items


def summed(t: Writes, x: Held) -> Abstract:
    """``sum(x)`` of integers, whose order makes no difference."""
    items = x.items
    if not lists.is_typed(items):
        return integer(0)
    if not isinstance(items, Lst) or items.dtype not in ("int64", "bool"):
        raise t.refuse(f"the sum of {described(x)} of other numbers than integers, {SAYS}")
    return Inlined(of_sets.total, [items], {})


ROWS: dict[Any, Any] = {of_sets.elements: lambda t, args, kwargs: args[0].items}
"""A row each."""
