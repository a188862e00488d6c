"""What rows of calls have in common: how arguments are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....ir.typed import Literal
from .....ir.typed.function import Value
from .. import numbers, places
from ..values import PYTHON, Abstract, Known, Leaves, Num, Writes, integer

Call = Callable[..., Any]
"""What writes a call: of what it is written to, arguments, and arguments by name."""


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
