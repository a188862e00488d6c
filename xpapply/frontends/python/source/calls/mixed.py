"""Numbers that are an integer or a float as it comes: what ``max(0, x)`` gives.

A float has the same value, and most of what is done with the number needs no more: it is compared,
computed with beside floats, put into an array of floats. So a loop has one part for both. Where it
matters which of them it is, the function goes on in two parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .....ir.typed import Literal
from .. import numbers
from ..frames import Place, State, calls_itself
from ..reading.steps import Step
from ..values import EITHER, NUMPY, PYTHON, Abstract, Arr, Mixed, Num, Writes

_COMPUTED = ("+", "-", "*", "/")
_COMPARED = ("<", "<=", ">", ">=", "==", "!=")
_ZERO, _YES, _NO = Literal(0, "int64"), Literal(True, "bool"), Literal(False, "bool")


def is_some(args: Sequence[Abstract]) -> bool:
    """Whether some are Python integers and others floats, or values that may be either."""
    kinds = {_letter(x) for x in args}
    return kinds in ({"i", "f"}, {"m"}, {"i", "m"}, {"f", "m"}, {"i", "f", "m"}) and not all(
        isinstance(x, Num) and isinstance(x.value, Literal) for x in args
    )


def _letter(x: Abstract) -> str:
    if isinstance(x, Mixed):
        return "m"
    if isinstance(x, Num) and (x.dtype, x.kind) == ("int64", PYTHON):
        return "i"
    return "f" if isinstance(x, Num) and x.dtype == "float64" and x.kind in _FLOATS else ""


_FLOATS = (PYTHON, NUMPY, EITHER)


def extreme(w: Writes, op: str, args: Sequence[Abstract]) -> Mixed:
    """The first one that no other is beyond."""
    found, *others = (_mixed(w, x) for x in args)
    kinds = {x.kind for x in args if isinstance(x, Num) and x.dtype == "float64"}
    kinds |= {x.as_float.kind for x in args if isinstance(x, Mixed)}
    for x in others:
        beyond = numbers.compare(w, op, x.as_float, found.as_float).value
        found = Mixed(
            *(
                a._replace(value=w.op("select", a.dtype, beyond, a.value, b.value))
                for a, b in zip(x, found, strict=True)
            )
        )
    kind = kinds.pop() if len(kinds) == 1 else EITHER
    return found._replace(as_float=found.as_float._replace(kind=kind))


def _mixed(w: Writes, x: Abstract) -> Mixed:
    if isinstance(x, Mixed):
        return x
    whole = x.dtype == "int64"
    if whole:
        numbers.marked_beyond(w, x.value, numbers.EXACT)
    flag = Num("bool", PYTHON, _YES if whole else _NO)
    as_int = x if whole else Num("int64", PYTHON, _ZERO)
    as_float = Num("float64", PYTHON if whole else x.kind, numbers.cast(w, x.value, "float64"))
    return Mixed(flag, as_int, as_float)


def operand(x: Abstract) -> Abstract:
    """A mixed value beside floats: Python's number, or NumPy's if the float may be NumPy's."""
    if not isinstance(x, Mixed):
        return x
    kind = PYTHON if x.as_float.kind == PYTHON else EITHER
    return x.as_float._replace(kind=kind)


def found_in(step: Step, state: State, place: Place) -> tuple[int, str] | None:
    """A name that a step reads, where it matters which of the two it is."""
    depth = len(place.callers)
    for name in _names(step.args):
        value = state.get((depth, name))
        if isinstance(value, Mixed) and not _takes(step, state, place):
            return depth, name
    return None


def _names(args: Any) -> Iterator[str]:
    for x in args:
        if type(x) is str:
            yield x
        elif type(x) is tuple:
            yield from _names(x)


def _takes(step: Step, state: State, place: Place) -> bool:
    """Whether a step treats both alike."""
    depth = len(place.callers)
    values = [state.get((depth, x), x) if type(x) is str else x for x in step.args]
    if step.kind == "copy" or (step.kind == "result" and place.callers):
        return True
    if step.kind == "return":
        return bool(place.callers) and not calls_itself(place.code)
    if step.kind in ("binary", "inplace", "compare"):
        op, *both = values
        letters = {_letter(_number(x)) for x in both}
        if step.kind == "compare":
            return op in _COMPARED and letters <= {"i", "f", "m"}
        return op in _COMPUTED and letters == {"f", "m"}
    if step.kind == "set item":
        x, _, value = values
        is_floats = isinstance(x, Arr) and x.type.dtype == "float64"
        return is_floats and isinstance(value, Mixed)
    if step.kind == "call":
        (names, spread), called, *given = values
        called = getattr(called, "value", called)
        is_own = called is max or called is min
        return is_own and not names and not spread and is_some(list(map(_number, given)))
    return False


def _number(x: Abstract) -> Abstract:
    """A number of the source, or what it is."""
    found = getattr(x, "value", None)
    if isinstance(x, (Num, Mixed)) or type(found) not in (int, float):
        return x
    return numbers.number(found)
