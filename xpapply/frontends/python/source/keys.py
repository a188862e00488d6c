"""Values that blocks pass on.

One is taken apart into a *key*, which says all but the registers, and the registers, which lie in
slots; `built` puts it together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....ir.typed.function import PARTS, Value
from .values import (
    DEVICE,
    EITHER,
    NO_AXES,
    ON_DEVICE,
    Abstract,
    Along,
    Arr,
    Counted,
    Cursor,
    Eager,
    Function,
    Groups,
    Held,
    Inner,
    Keywords,
    Known,
    Letters,
    Lst,
    Method,
    Mixed,
    Num,
    Once,
    OnDevice,
    Range,
    Record,
    Rows,
    Span,
    Starred,
    Text,
    Through,
    Tup,
    Watched,
    Zipped,
)


def taken_apart(x: Abstract, registers: list[Value]) -> Any:
    """The key of a value; its registers go to the end of a list."""
    kind = type(x)
    if kind is Arr:
        registers.append(x.value)
        return (kind, x.type, x.own, x.most, x.is_packed)
    if kind in (Num, Lst, Text):
        registers.append(x.value)
        return (kind, *x[:-1])
    if kind is Known:
        return (kind, id(x.value), x)
    if kind is tuple:
        return (kind, *[taken_apart(y, registers) for y in x])
    if kind in _COMPOUND:
        return (kind, *[taken_apart(y, registers) for y in x])
    return (None, x)


_COMPOUND = (
    Mixed, Rows, Held, Watched, Tup, Starred, Record, Keywords, Letters, Method, Function, Span,
    Range, Along, Through, Counted, Zipped, Once, Eager, Cursor, Groups, OnDevice,
)  # fmt: skip


def built(key: Any, registers: Iterator[Value]) -> Abstract:
    """The value of a key and registers."""
    kind, *parts = key
    if kind is Arr:
        of, own, most, is_packed = parts
        return Arr(of, own, next(registers), most, is_packed)  # type: ignore[arg-type]
    if kind in (Num, Lst, Text):
        return kind(*parts, next(registers))
    if kind is Known:
        return parts[1]
    if kind is None:
        return parts[0]
    found = [built(p, registers) for p in parts]
    return tuple(found) if kind is tuple else kind(*found)


def joined(a: Any, b: Any) -> Any:
    """The key that covers two, if they differ only in whose numbers they are; or None."""
    if a == b:
        return a
    if type(a) is not tuple or type(b) is not tuple or len(a) != len(b) or a[:1] != b[:1]:
        return None
    if a[0] is Num and {a[2], b[2]} & {*ON_DEVICE}:
        return (Num, a[1], DEVICE) if a[1] == b[1] and {a[2], b[2]} <= {*ON_DEVICE} else None
    if a[0] is Num and a[1] in PARTS:
        return None  # Python and NumPy divide them in different ways
    if a[0] is Num:
        return (Num, a[1], EITHER) if a[1] == b[1] and NO_AXES not in (a[2], b[2]) else None
    if a[0] is Lst:
        dtype = _joined_inner(a[1], b[1])
        kind = a[2] if a[2] == b[2] else EITHER
        return (Lst, dtype, kind, a[3]) if dtype is not None and a[3] == b[3] else None
    if a[0] is Arr and a[1:3] == b[1:3]:
        return (*a[:3], a[3] if a[3] == b[3] else 0, a[4] and b[4])
    if a[0] in (Arr, Known, Text, None):
        return None
    of = _joined_empty if a[0] is Held else joined
    parts = [of(x, y) for x, y in zip(a[1:], b[1:], strict=True)]
    return None if None in parts else (a[0], *parts)


def _joined_empty(a: Any, b: Any) -> Any:
    """Join the types of dict or set contents; those of an empty one fit any."""
    if a[0] is b[0] is Lst and a[3:] == b[3:] and "" in (a[1], b[1]):
        return b if a[1] == "" else a
    return joined(a, b)


def _joined_inner(a: Any, b: Any) -> Any:
    """The type of elements that covers two; or None."""
    if a == b:
        return a
    if isinstance(a, Inner) and isinstance(b, Inner) and (a.dtype, a.site) == (b.dtype, b.site):
        return a._replace(kind=EITHER)
    return None


def changed(y: Abstract, change: Callable[[Lst], Any]) -> Abstract:
    """A value in which all lists are changed."""
    if isinstance(y, Lst):
        return change(y)
    if type(y) is tuple or type(y) in _COMPOUND:
        inner = [changed(z, change) if isinstance(z, tuple) else z for z in y]
        return tuple(inner) if type(y) is tuple else type(y)(*inner)
    return y
