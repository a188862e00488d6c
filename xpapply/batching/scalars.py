"""Functions of Python numbers, such as those of `math`: called for one slice after the other.

What they give is Python's to the last bit, and they raise where Python raises. A call of such a
function takes less time than anything else that ``f`` does for a slice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from . import Batched, BatchingRule
from .rules import leaves, mapped

LARGEST = 2.0**53
"""Integers up to here are the same as Python's, as int64 and as float64."""


def _each(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`plain`: which of the values are Python's numbers; `kinds`: the classes of the results."""
    function, operands, named, plain, kinds = args
    rows = list(leaves((operands, named)))
    device = next((x.array for x in rows if hasattr(x.array, "get")), None)
    columns = [_column(x.array, p) for x, p in zip(rows, plain, strict=True)]
    simple = not named and all(isinstance(x, Batched) or not _nested(x) for x in operands)
    found: Any
    if simple:
        todo = iter(columns)
        given = [next(todo) if isinstance(x, Batched) else itertools.repeat(x) for x in operands]
        found = list(map(function, *given))
    else:
        streams = [iter(c) for c in columns]
        found = [_one(function, operands, named, streams) for _ in range(len(rows[0].array))]
    return _gathered(found, kinds, (lambda x: x) if device is None else xp.asarray)


def _one(function: Any, operands: tuple, named: dict, streams: list[Iterator[Any]]) -> Any:
    todo = iter(streams)
    given = mapped(lambda _: next(next(todo)), (operands, named))
    return function(*given[0], **given[1])


def _nested(x: Any) -> bool:
    return isinstance(x, (list, tuple, dict)) and any(True for _ in leaves(x))


def _column(array: Any, plain: bool) -> list[Any]:
    """Arguments slice by slice: Python's numbers, NumPy's numbers or arrays."""
    array = array.get() if hasattr(array, "get") else array
    return array.tolist() if plain else list(array)


def _gathered(found: list[Any], kinds: Any, made: Any) -> Any:
    if isinstance(kinds, tuple):
        if any(type(x) is not tuple or len(x) != len(kinds) for x in found):
            raise TraceError("a Python function returns another number of values for some slices")
        columns = zip(*found, strict=True)
        return tuple(_gathered(list(c), k, made) for c, k in zip(columns, kinds, strict=True))
    if any(type(x) is not kinds for x in found):
        raise TraceError("a Python function returns another class of number for some slices")
    if kinds is int and any(abs(x) > LARGEST for x in found):
        raise TraceError("a large Python integer")
    return Batched(made(np.array(found, np.dtype(kinds))))


EACH = BatchingRule("Python function of numbers, slice by slice", _each, exact=True, fresh=True)


def _rounded(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``round(x, digits)`` of Python floats, which rounds the decimal number.

    Where scaling could decide, Python is asked.
    """
    x, digits = args
    scale = 10.0**digits
    with np.errstate(all="ignore"):
        scaled = x.array * scale
        near = xp.rint(scaled)
        sure = abs(scaled - near) <= 0.5 - abs(scaled) * SCALING
        found = near / scale
        doubtful = ~sure & (x.array == x.array)
    if bool(doubtful.any()):
        found[doubtful] = xp.asarray([round(v, digits) for v in x.array[doubtful].tolist()])
    return Batched(found)


SCALING = 2.0**-51
"""More than what rounding adds to a number that is multiplied, as a share of it."""

ROUND = BatchingRule("Python round", _rounded, exact=True, fresh=True)


COMPENSATED: tuple[type, ...] = tuple(
    kind for kind in (float, complex) if sum(map(kind, (1e16, 1.0, -1e16))) == 1.0
)
"""Numbers that Python's `sum` adds and makes up for what is lost where it rounds: floats from
Python 3.12 on, complex numbers from 3.14 on."""
OF_INTEGERS = sum([1e16, 1, -1e16]) == 1.0
"""Whether it does so with integers among the floats."""


def compensated(
    numbers: Sequence[Any], floats: Sequence[bool], where: Callable, isfinite: Callable
) -> Any:
    """The sum of floats as Python adds them, one after the other.

    What each addition loses is kept apart and added in the end (Neumaier, "Rundungsfehleranalyse
    einiger Verfahren zur Summation endlicher Summen", ZAMM 54 (1974), 39).

    Parameters
    ----------
    numbers : sequence of arrays
        All of float64.
    floats : sequence of bool
        Which were floats: what integers lose, Python does not see.
    where, isfinite : callable
        Of the arrays.
    """
    total, lost = numbers[0], 0.0
    for x, is_float in zip(numbers[1:], floats[1:], strict=True):
        found = total + x
        if is_float or OF_INTEGERS:
            low = where(abs(total) >= abs(x), (total - found) + x, (x - found) + total)
            lost = lost + low
        total = found
    return where((lost != 0.0) & isfinite(lost), total + lost, total)


def _summed(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    numbers, floats = args
    given = [xp.asarray(getattr(x, "array", x), dtype=xp.float64) for x in numbers]
    with np.errstate(all="ignore"):
        return Batched(compensated(given, floats, xp.where, xp.isfinite))


SUM = BatchingRule("Python sum", _summed, exact=True, fresh=True)
