"""Results: what a function returns goes where the first slice says that results go."""

from __future__ import annotations

import math

import numpy as np

from ....ir.typed import Literal
from . import arrays, numbers
from .calls import of_numpy
from .kinds import fetched, letters, texts
from .places import ZERO, described, length
from .values import (
    LETTERS,
    ON_DEVICE,
    SPECTRUM,
    Abstract,
    Arr,
    Expected,
    Held,
    Inner,
    Leaves,
    Letters,
    Lst,
    Num,
    Record,
    Rows,
    Starred,
    Tup,
    Writes,
)


def returned(t: Writes, value: Abstract) -> None:
    """Put what the function returns where its results are, if it is known what they are like."""
    if t.expected is None and t.guess is not None:
        _guess(t, value)
    if t.expected is None:
        return
    if len(t.expected) == 1:
        _put(t, 0, value)
        return
    is_tuple = isinstance(value, Tup) and not value.is_list
    if not is_tuple or len(value.items) != len(t.expected):
        raise _other()
    for k, x in enumerate(value.items):
        _put(t, k, x)


def _guess(t: Writes, value: Abstract) -> None:
    """Expect results like this one."""
    assert t.guess is not None
    value = arrays.loaded(t, value)
    if isinstance(value, Tup):
        value = value._replace(items=tuple(arrays.loaded(t, x) for x in value.items))
    if isinstance(value, Num):
        found = Expected(value.dtype, ())
    elif isinstance(value, Arr):
        found = Expected(value.type.dtype, (0,) * value.type.ndim)
    elif isinstance(value, Tup) and value.items and all(isinstance(x, Num) for x in value.items):
        named = np.result_type(*{x.dtype for x in value.items}).name
        found = Expected(named, (len(value.items),))
    else:
        t.guess = None
        return
    t.guess[:] = [found]
    t.expect([found])


class PutTogether(fetched.ReadAnew):
    """A result is a text that is put together: its letters are the result then."""


def prepared(t: Writes, value: Abstract) -> Abstract:
    """A result before it is put where results are: letters of texts, where such are expected."""
    value = fetched.result(value)
    if t.expected is None or not any(e.dtype == LETTERS for e in t.expected):
        return value
    if len(t.expected) > 1:
        raise t.refuse("texts that are put together beside other results")
    shape = t.expected[0].shape
    found = letters.result(t, value, 0, shape[0] if len(shape) > 1 else 0)
    if found is None:
        raise _other()
    return found


def _other() -> Exception:
    return Leaves("a result of another kind than that of the first slice")


def _put(t: Writes, k: int, value: Abstract) -> None:
    assert t.expected is not None
    dtype, shape = t.expected[k][:2]
    if dtype == LETTERS:
        dtype, shape = "int64", (math.prod(shape),)
    if dtype == texts.TEXT:
        _put_texts(t, k, value, shape)
        return
    value = of_numpy.array(t, [value], {}) if isinstance(value, Starred) else value
    value = arrays.loaded(t, value)
    if isinstance(value, Tup):
        value = value._replace(items=tuple(arrays.loaded(t, x) for x in value.items))
    if isinstance(value, Tup):
        if t.guess is not None and 0 in shape:  # an array was seen before
            t.guess.clear()
        numbers_ = _flat(value, shape)
        if len({x.kind in ON_DEVICE for x in numbers_}) > 1:
            raise _other()
        if numbers_ and np.result_type(*{x.dtype for x in numbers_}) != dtype:
            t.differs()
        for i, x in enumerate(numbers_):
            t.do("put", Literal(i, "int64"), numbers.stored(t, x, dtype), what=k)
        return
    if isinstance(value, Num):
        if shape:
            raise _other()
        if value.dtype != dtype:
            t.differs()
        t.do("put", ZERO, numbers.stored(t, value, dtype), what=k)
        return
    if isinstance(value, Rows) and value.number and len(shape) == 1:
        value = of_numpy.array(t, [value], {})
    if isinstance(value, Record) and value.names == SPECTRUM:
        raise t.refuse(f"{described(value)} as a result")
    if isinstance(value, (Rows, Held)) or (
        isinstance(value, Lst) and isinstance(value.dtype, Inner)
    ):
        raise t.refuse(f"{described(value)} of tuples or lists as a result")
    if isinstance(value, Lst) and len(shape) == 1:
        if not value.dtype:
            raise _other()
        same = value.dtype
    elif isinstance(value, Arr) and value.type.ndim == len(shape):
        same = value.type.dtype
    else:
        raise _other()
    if same != dtype:
        t.differs()
        if not np.can_cast(same, dtype, "safe"):
            raise t.refuse(f"results of {same} and of {dtype}")
    for axis in range(len(shape)):
        n = length(t, value, axis)
        unlike = t.op("ne", "bool", n, t.op("expected", "int64", what=(k, axis)))
        t.mark(unlike, "a result of another shape than that of the first slice")
    t.do("put list" if isinstance(value, Lst) else "put array", value.value, what=(k, same))


def _put_texts(t: Writes, k: int, value: Abstract, shape: tuple[int, ...]) -> None:
    """Store texts as numbers."""
    several = value.items if isinstance(value, Tup) and len(shape) == 1 else (value,)
    if isinstance(value, (Letters, Rows)) or any(isinstance(x, Letters) for x in several):
        raise PutTogether("texts that are put together")
    if len(several) != (shape[0] if shape else 1) or isinstance(value, Tup) is not bool(shape):
        raise _other()
    if not all(map(texts.is_text, several)):
        raise _other()
    for i, x in enumerate(several):
        code = texts.by_text(t, x, [*map(t.text, texts.texts_of(x))], "int64")
        t.do("put", Literal(i, "int64"), code, what=k)


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
