"""Reductions of arrays of two axes, along one or both, for the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_tables
from .. import numbers, places
from ..kinds import halves
from ..values import Arr, Inlined, Known, Num, Writes
from .common import Call, exactly


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
    """Where an extreme is; `row`: of an array of one axis, by the function `of`."""
    return of_table(row, of_tables.place, of_tables.column_places, of_tables.row_places, of)
