"""Iterators: what a loop goes through."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....ir.typed import Array, Literal
from ....ir.typed.function import Value
from ....library import of_lists
from . import held, lists
from .arrays import element, item
from .kinds import letters, sets
from .places import ONE, ZERO, described, length
from .values import (
    ITERATORS,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Counted,
    Cursor,
    Eager,
    Groups,
    Held,
    Inlined,
    Known,
    Leaves,
    Letters,
    Lst,
    Num,
    Once,
    Range,
    Rows,
    Through,
    Tup,
    Watched,
    Writes,
    Zipped,
    integer,
)


def unpacked(t: Writes, x: Abstract, count: int) -> Tup:
    """The parts of a value that is given to several names."""
    if isinstance(x, Tup):
        if len(x.items) != count:
            raise Leaves("a tuple of another length is unpacked", ValueError)
        return x
    if isinstance(x, (Arr, Lst, Rows)) or letters.is_any(x):
        n = length(t, x)
        unlike = t.op("ne", "bool", n, Literal(count, "int64"))
        t.mark(unlike, "it unpacks another number of values", ValueError)
        return Tup(tuple(item(t, x, integer(k)) for k in range(count)))
    raise t.refuse(f"it unpacks {described(x)}")


def unpacked_at_ends(t: Writes, x: Abstract, before: int, after: int) -> Tup:
    """The parts of a value that is given to several names and a starred one.

    What that one gets is `rest`: nothing stands in its place.
    """
    few = "it unpacks too few values"
    if isinstance(x, Tup):
        if len(x.items) < before + after:
            raise Leaves(few, ValueError)
        return Tup((*x.items[:before], Known(None), *x.items[len(x.items) - after :]))
    if not isinstance(x, (Arr, Lst, Rows)):
        raise t.refuse(f"it unpacks {described(x)} into a starred name")
    n = length(t, x)
    t.mark(t.op("lt", "bool", n, Literal(before + after, "int64")), few, ValueError)
    first = [item(t, x, integer(k)) for k in range(before)]
    last = [item(t, x, integer(k)) for k in range(-after, 0)]
    return Tup((*first, Known(None), *last))


def rest(t: Writes, x: Abstract, before: int, after: int) -> Abstract | Inlined:
    """The list of a starred name."""
    if isinstance(x, Tup):
        return lists.new_list(t, x.items[before : len(x.items) - after])
    return Inlined(of_lists.between, [x, integer(before), integer(after)], {})


def has_parts(t: Writes, x: Abstract, count: int) -> Num:
    """Whether a value is a sequence of so many parts, as patterns test it."""
    if isinstance(x, Lst):
        same = t.op("eq", "bool", length(t, x), Literal(count, "int64"))
        return Num("bool", PYTHON, same)
    found = isinstance(x, Tup) and len(x.items) == count
    return Num("bool", PYTHON, Literal(found, "bool"))


def iterator(t: Writes, x: Abstract) -> Abstract:
    """``iter(x)``."""
    if isinstance(x, Held):
        return held.iterator(t, x)
    if isinstance(x, (Arr, Lst, Rows)):
        return Along(x, integer(0))
    if isinstance(x, Tup):
        return Through(x, 0)
    if letters.is_any(x):
        return Along(letters.of(t, x), integer(0))
    if isinstance(x, (Range, Counted, Zipped, Along, Through, Watched, Eager, Cursor, Groups)):
        return x
    if isinstance(x, Once):
        return x.inner
    raise t.refuse(f"it goes through {described(x)}")


def gone_through(t: Writes, x: Abstract, calm: bool) -> Abstract | Inlined:
    """``iter(x)`` of a loop; `calm`: whether its body writes to nothing that `x` may be made of."""
    is_set = sets.is_set(x)
    found = sets.gone_through(t, x) if is_set else iterator(t, x)
    if not calm and (is_set or _is_eager(found)):
        raise t.refuse(
            "an iterator of a loop that may change what it goes through: list(...) first"
        )
    return found


def _is_eager(x: Abstract) -> bool:
    if isinstance(x, Eager):
        return True
    inner = x.inner if isinstance(x, (Counted, Zipped, Once)) else ()
    return any(map(_is_eager, inner if type(inner) is tuple else (inner,)))


def cursor(t: Writes, it: Abstract) -> Abstract:
    """An iterator as one that is kept."""
    if isinstance(it, Cursor):
        return it
    it = it.inner if isinstance(it, Once) else it
    if isinstance(it, Along) and not it.down:
        place = lists.new_list(t, (it.at,), part=22)
        return Cursor(it.over, place, None)
    raise t.refuse("an iterator that is kept: list(...) makes a list of it")


def is_fixed(it: Abstract) -> bool:
    """Whether the number of rounds is constant."""
    if isinstance(it, Counted):
        return is_fixed(it.inner)
    if isinstance(it, Zipped):
        return any(map(is_fixed, it.inner))
    return isinstance(it, Through) or (isinstance(it, Range) and isinstance(it.stop.value, Literal))


def is_counted(it: Abstract) -> bool:
    """Whether a bound of the number of rounds is known before the loop."""
    if isinstance(it, Counted):
        return is_counted(it.inner)
    if isinstance(it, Zipped):
        return any(map(is_counted, it.inner))
    if isinstance(it, Along):
        return isinstance(it.over, Arr)
    return isinstance(it, Range)


def is_long(it: Abstract) -> bool:
    """Whether there may be many rounds by the source, so that the loop is not unrolled."""
    inner = it.inner if isinstance(it, (Counted, Zipped)) else ()
    if inner:
        return any(map(is_long, inner if type(inner) is tuple else (inner,)))
    stop = it.stop.value if isinstance(it, Range) else None
    return isinstance(stop, Literal) and abs(stop.value) > _SHORT


_SHORT = 32
"""The end of a range up to which it is no sign of many rounds."""


def most_rounds(t: Writes, it: Abstract) -> Value:
    """The largest number of rounds."""
    if isinstance(it, Counted):
        return most_rounds(t, it.inner)
    if isinstance(it, Zipped):
        return most_rounds(t, next(filter(is_counted, it.inner)))
    if isinstance(it, Along):
        return length(t, it.over)
    start, stop, step = (x.value for x in it)
    up = t.op("gt", "bool", step, ZERO)
    low, high = (t.op("select", "int64", up, *x) for x in ((start, stop), (stop, start)))
    far = t.op("sub", "int64", high, low)
    if isinstance(step, Literal):  # of a distance beyond 64 bits all are too many
        far = t.op("shr", "int64", far, Literal(abs(step.value).bit_length() - 1, "int64"))
    return t.op("select", "int64", t.op("lt", "bool", low, high), far, ZERO)


def spread(t: Writes, x: Abstract, n: int) -> list[Abstract]:
    """Elements of an array as arguments, as many as a function has left."""
    if not isinstance(x, Arr) or x.type.ndim != 1 or n < 1:
        raise t.refuse(f"* of {described(x)}")
    unlike = t.op("ne", "bool", length(t, x), Literal(n, "int64"))
    t.mark(unlike, "a call with a wrong number of arguments", TypeError)
    return [item(t, x, integer(k)) for k in range(n)]


def has_more(t: Writes, it: Abstract) -> Value:
    """Whether an iterator has a further element."""
    if isinstance(it, Watched):
        now = t.op("list item", "int64", it.state.value, ZERO)
        t.mark(t.op("ne", "bool", now, it.seen.value), "it changes while it is gone through")
        return has_more(t, it.inner)
    if isinstance(it, Eager):
        return has_more(t, it.inner)
    if (
        isinstance(it, (Cursor, Along))
        and isinstance(it.over, (Lst, Rows))
        and not lists.is_typed(it.over)
    ):
        return Literal(False, "bool")
    if isinstance(it, Cursor):
        at = here = t.op("list item", "int64", it.place.value, ZERO)
        if it.ahead:
            here = t.op("add", "int64", at, Literal(it.ahead, "int64"))
        n = length(t, it.over) if it.stop is None else it.stop.value
        more = t.op("lt", "bool", here, n)
        if it.stop is None and isinstance(it.over, (Lst, Rows)):  # more will not make it go on
            at = t.op("select", "int64", more, at, Literal(1 << 62, "int64"))
            t.do("set list item", it.place.value, ZERO, at)
        return more
    if isinstance(it, Groups) and not lists.is_typed(it.keys):
        return Literal(False, "bool")
    if isinstance(it, Groups):
        return t.op("lt", "bool", it.at.value, length(t, it.keys))
    if isinstance(it, Along) and it.down:
        inside = t.op("lt", "bool", it.at.value, length(t, it.over))
        return t.op("and", "bool", t.op("ge", "bool", it.at.value, ZERO), inside)
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
    if it.is_strict:
        return _all_have_more(t, it.inner)
    found: Value = Literal(True, "bool")
    taken: list[tuple[Cursor, Value]] = []  # by then, and whether all before have more
    for inner in it.inner:
        one = has_more(t, inner)
        if isinstance(one, Literal):
            if not one.value:
                found = one
                break
        else:
            found = one if isinstance(found, Literal) else t.op("and", "bool", found, one)
        taken += [(x, found) for x in cursors(inner)]
    for x, had_more in taken:
        ended = t.op("and", "bool", had_more, t.op("not", "bool", found))
        at = t.op("list item", "int64", x.place.value, ZERO)
        after = t.op("add", "int64", at, ONE)
        at = t.op("select", "int64", ended, after, at)
        t.do("set list item", x.place.value, ZERO, at)
    return found


def _all_have_more(t: Writes, inner: Sequence[Any]) -> Value:
    """Whether all iterators have a further element, or none of them has."""
    # of what is written in the source it is known, and so of all
    each = sorted((has_more(t, x) for x in inner), key=lambda x: not isinstance(x, Literal))
    first, *others = each
    for one in others:
        if isinstance(one, Literal) and isinstance(first, Literal):
            unlike: Value = Literal(one.value is not first.value, "bool")
        else:
            unlike = t.op("xor", "bool", first, one)
        t.mark(unlike, "zip of arguments of different lengths", ValueError)
    return first


def cursors(x: Abstract) -> list[Cursor]:
    """The iterators that are kept, of all that one goes through."""
    if isinstance(x, Cursor):
        return [x]
    inner = x.inner if isinstance(x, (Counted, Zipped)) else ()
    return [y for one in (inner if type(inner) is tuple else (inner,)) for y in cursors(one)]


def zipped(t: Writes, some: list[Abstract], is_strict: bool) -> Zipped:
    """``zip`` of iterators; of one that is there twice, what is taken before counts."""
    kept = [x for one in some for x in cursors(one)]
    if kept and is_strict:
        raise t.refuse("zip of an iterator that is kept, with strict=True")
    if any(x.place != kept[0].place for x in kept):
        raise t.refuse("zip of several iterators that are kept")
    count = itertools.count()
    return Zipped(tuple(_counted(x, count) for x in some), is_strict)


def _counted(x: Any, count: Iterator[int]) -> Any:
    """The iterator with the number of elements already taken from a kept one."""
    if isinstance(x, Cursor):
        return x._replace(ahead=next(count))
    if isinstance(x, Zipped):
        return x._replace(inner=tuple(_counted(y, count) for y in x.inner))
    return x._replace(inner=_counted(x.inner, count)) if isinstance(x, Counted) else x


def advanced(t: Writes, name: str) -> Abstract:
    """The next element of the iterator in a variable, which goes on."""
    value, further = following(t, t.value(name))
    t.put(name, further)
    return value


def following(t: Writes, it: Abstract) -> tuple[Abstract, Abstract]:
    """The next element, which is there, and the iterator that has gone on."""
    if isinstance(it, Eager):
        value, inner = following(t, it.inner)
        return value, Eager(inner)
    if isinstance(it, Cursor):
        here = t.op("list item", "int64", it.place.value, ZERO)
        value, further = following(t, Along(it.over, Num("int64", PYTHON, here)))
        t.do("set list item", it.place.value, ZERO, further.at.value)
        return value, it
    if isinstance(it, Groups):
        nth = it.at.value
        after = t.op("add", "int64", nth, ONE)
        first, stop = (t.op("list item", "int64", it.bounds.value, k) for k in (nth, after))
        t.do("set list item", it.place.value, ZERO, first)
        group = Cursor(it.values, it.place, Num("int64", PYTHON, stop))
        key = lists.element(t, it.keys, nth)
        return Tup((key, group)), it._replace(at=Num("int64", PYTHON, after))
    if isinstance(it, Watched):
        value, inner = following(t, it.inner)
        return value, it._replace(inner=inner)
    if isinstance(it, Along):
        at = it.at.value
        step: Value = Literal(-1, "int64") if it.down else ONE
        further = it._replace(at=Num("int64", PYTHON, t.op("add", "int64", at, step)))
        over = it.over
        if isinstance(over, (Lst, Rows)):
            return lists.element(t, over, at), further
        if isinstance(over, Letters):
            return letters.one(t, over, at), further
        if over.type.ndim == 1:
            return element(t, over, [at]), further
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
        value, inner = following(t, it.inner)
        at = t.op("add", "int64", it.at.value, ONE)
        return Tup((it.at, value)), Counted(inner, Num("int64", PYTHON, at))
    found = [following(t, x) for x in it.inner]
    return Tup(tuple(v for v, _ in found)), it._replace(inner=tuple(x for _, x in found))


def kept(t: Writes, x: Abstract, is_calm: Callable[[], bool] | None = None) -> Abstract:
    """A value that gets a name, by which it may be gone through again.

    `is_calm`: whether the function writes to nothing that it may be made of.
    """
    if isinstance(x, Eager) and is_calm is not None and is_calm():
        x = x.inner
    if isinstance(x, (Along, Once)):
        return cursor(t, x)
    some = x.items if isinstance(x, Tup) else x if type(x) is tuple else (x,)
    if any(isinstance(y, ITERATORS) for y in some):
        raise t.refuse("an iterator that is kept: list(...) makes a list of it")
    return x
