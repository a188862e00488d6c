"""Arguments of functions of arrays, as ours that stand for NumPy's take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....ir.typed import Literal
from .. import numbers, places
from ..kinds import halves
from ..values import (
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Known,
    Lst,
    Num,
    Tup,
    Writes,
)
from .common import Call, number, python_int
from .of_numpy import array

FALSE = Num("bool", PYTHON, Literal(False, "bool"))
TRUE = Num("bool", PYTHON, Literal(True, "bool"))


def as_array(t: Writes, x: Abstract, letters: str) -> Arr:
    """An array of one axis; a list or tuple of numbers becomes one."""
    if isinstance(x, (Lst, Tup)):
        x = array(t, [x], {})
    if not isinstance(x, Arr) or x.type.ndim != 1:
        raise t.refuse(f"a function of {places.described(x)}")
    if numbers.kind_of(x.type.dtype) not in letters or x.type.dtype == halves.HALF:
        raise t.refuse(f"a function of {places.described(x)}")
    return x


def _doubles(t: Writes, x: Abstract) -> Arr:
    found = as_array(t, x, "iuf")
    if found.type.dtype == "float32":
        raise t.refuse(f"a function of {places.described(found)}")
    return found


def float64(t: Writes, x: Abstract) -> Arr:
    """An array of float64."""
    found = as_array(t, x, "f")
    if found.type.dtype != "float64":
        raise t.refuse(f"a function of {places.described(found)}")
    return found


def only_axis(t: Writes, x: Abstract) -> None:
    """Refuse an axis that an array of one axis does not have."""
    if not is_only_axis(x):
        raise t.refuse("a function along such an axis")


def is_only_axis(x: Abstract) -> bool:
    """Whether an axis is that of an array of one axis."""
    if isinstance(x, Known):
        return x.value is None
    return isinstance(x, Num) and isinstance(x.value, Literal) and x.value.value in (0, -1)


def number64(t: Writes, x: Abstract) -> Num:
    """A number of 64 bits."""
    found = number(t, x)
    if found.dtype not in ("float64", "int64"):
        raise t.refuse(f"a function of {places.described(found)}")
    return found


def _flag(t: Writes, x: Abstract) -> Num:
    if not isinstance(x, Num) or not isinstance(x.value, Literal):
        raise t.refuse("an option that is computed")
    return TRUE if x.value.value else FALSE


def _text(t: Writes, x: Abstract) -> Known:
    if not isinstance(x, Known) or not isinstance(x.value, str):
        raise t.refuse("an option that is no text")
    return x


TAKEN: dict[str, Callable[[Writes, Abstract], Any]] = {
    "array": lambda t, x: as_array(t, x, "biuf"), "numbers": lambda t, x: as_array(t, x, "iuf"),
    "integers": lambda t, x: as_array(t, x, "iu"), "floats": lambda t, x: as_array(t, x, "f"),
    "float64": float64, "doubles": _doubles, "number": number, "number64": number64,
    "int": python_int, "flag": _flag, "text": _text, "axis": only_axis,
}  # fmt: skip


def bound(t: Writes, spec: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Abstract]:
    """Arguments by the names that our function has.

    `spec`: NumPy's name of each, after ``>`` ours where it differs, and after ``:`` what it is.
    """
    kinds = dict(part.split(":") for part in spec.split())
    own = {name.partition(">")[0]: name for name in kinds}
    if len(args) > len(own) or not kwargs.keys() <= own.keys():
        raise t.refuse("a function of an array with further arguments")
    given = dict(zip(own, args, strict=False)) | kwargs
    found = {own[k].rpartition(">")[2]: TAKEN[kinds[own[k]]](t, x) for k, x in given.items()}
    return {name: x for name, x in found.items() if x is not None}


def written(inlined: Any, spec: str, at_least: int = 1) -> Call:
    """A function that is written in Python, with NumPy's names of arguments."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        given = bound(t, spec, args, kwargs)
        if len(given) < at_least:
            raise t.refuse("a function of too few arguments")
        return Inlined(inlined, [], given)

    return call
