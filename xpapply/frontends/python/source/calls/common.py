"""Common parts of rows of calls: how arguments are bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import Value
from .....library import of_tables
from .. import numbers, places
from ..kinds import halves
from ..values import (
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Known,
    Leaves,
    Num,
    Writes,
    integer,
)

Call = Callable[..., Any]
"""A row: writes a call, from a writer, arguments and keywords."""


def number(t: Writes, x: Abstract) -> Num:
    """A number, also of an array without axes."""
    if not isinstance(x, Num):
        raise t.refuse(f"{places.described(x)} where a number has to be")
    return numbers.scalar(x)


def exactly(t: Writes, args: list[Any], kwargs: dict[str, Any], *counts: int) -> None:
    """Refuse another number of arguments than one of those, and names."""
    if kwargs or len(args) not in counts:
        raise t.refuse("a call with further arguments")


def as_int(t: Writes, x: Num) -> Value:
    """A number as an integer of 64 bits, without its fraction."""
    x = numbers.as_float64(t, x)
    if numbers.kind_of(x.dtype) == "f":
        why = "a float that is no integer of 64 bits"
        return numbers.to_int(t, x.value, "int64", why, raises=True)
    return numbers.cast(t, numbers.as_python(t, x).value, "int64")


def as_float(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """``float(...)``."""
    exactly(t, args, kwargs, 0, 1)
    if args and isinstance(args[0], Known) and isinstance(args[0].value, str):
        try:
            return Num("float64", PYTHON, Literal(float(args[0].value), "float64"))
        except ValueError:
            raise Leaves("a text that is no number", ValueError) from None
    x = numbers.as_float64(t, number(t, args[0])) if args else integer(0)
    return Num("float64", PYTHON, numbers.cast(t, x.value, "float64"))


def python_int(t: Writes, x: Abstract) -> Num:
    """An integer, as Python's."""
    return Num("int64", PYTHON, places.as_index(t, x))


def of_table(
    row: Call, total: Any, columns: Any, rows: Any, *of: Any, floats: bool = False
) -> Call:
    """A reduction that takes arrays of two axes too, along one or both; `of`: what these get."""
    more = [*map(Known, of)]

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not args or not isinstance(args[0], Arr) or args[0].type.ndim != 2:
            return row(t, args, kwargs)
        axis = kwargs.pop("axis", args[1] if len(args) == 2 else Known(None))
        exactly(t, args, kwargs, 1, 2)
        own = args[0].type.dtype
        letter = numbers.kind_of(own)
        if letter in "bc" or own == halves.HALF or (floats and letter != "f"):
            raise t.refuse(f"a function of {places.described(args[0])}")
        if places.is_none(axis):
            return Inlined(total, [args[0], *more], {})
        if not isinstance(axis, Num) or not isinstance(axis.value, Literal):
            raise t.refuse("a function along an axis that is computed")
        if axis.value.value not in (0, 1, -1, -2):
            raise t.refuse("a function along such an axis")
        is_sum = columns is of_tables.column_sums
        dtype = {"i": "int64", "u": "uint64"}.get(letter, own) if is_sum else own
        by = columns if axis.value.value in (0, -2) else rows
        return Inlined(by, [args[0], Known(np.dtype(dtype)), *more], {})

    return call


def placed(row: Call, of: Any) -> Call:
    """The position of an extreme; `row`: of an array of one axis, by the function `of`."""
    return of_table(row, of_tables.place, of_tables.column_places, of_tables.row_places, of)
