"""Exceptions that compiled code raises and handles itself, and warnings that it ignores."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ....errors import TraceError
from ....ir.typed import Literal
from .values import ERRORS, PYTHON, Abstract, Errors, Known, Leaves, Num, Raised, Tup, Writes


def raised(t: Writes, x: Abstract) -> type:
    """The class of what is raised."""
    if isinstance(x, Raised):
        return x.kind
    if isinstance(x, Known) and _is_class(x.value):
        if not _is_plain(t, x.value):
            raise Leaves(f"it raises {x.value.__name__}")
        return x.value  # type: ignore[no-any-return]
    raise Leaves("it raises")


def _is_class(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, BaseException)


def _is_plain(t: Writes, kind: type) -> bool:
    """Whether an exception class accepts any arguments, without other effects."""
    if issubclass(kind, UnicodeError):
        return False
    for name in ("__init__", "__new__"):
        t.watch.attribute_of_class(kind, name)
        where = next(c for c in kind.__mro__ if name in vars(c))
        if getattr(builtins, where.__name__, None) is not where:
            return False
    return type(kind) is type


def is_own(t: Writes, x: Abstract, f: Any) -> None:
    """Refuse another function of a name than Python's own."""
    if not isinstance(x, Known) or x.value is not f:
        raise t.refuse(f"{f.__name__} is not Python's own")


def catches(t: Writes, x: Abstract, kinds: Abstract) -> Num:
    """Whether a handler catches an exception."""
    some = kinds.items if isinstance(kinds, Tup) and not kinds.is_list else (kinds,)
    if not isinstance(x, Raised) or not all(isinstance(k, Known) for k in some):
        raise TraceError("it catches what is not known before it runs")
    classes = tuple(k.value for k in some)
    if not all(map(_is_class, classes)):
        raise Leaves("it catches what is no exception")
    for c in classes:
        t.watch.bases(c)
    return Num("bool", PYTHON, Literal(issubclass(x.kind, classes), "bool"))


def entered(t: Writes, x: Abstract) -> Errors:
    """Enter a with statement; return the error state before."""
    before = t.errors
    if not isinstance(x, Errors):
        raise TraceError("a with statement of something but numpy.errstate")
    said = [new or old for new, old in zip(x.said, before.said, strict=True)]
    t.set_errors(Errors(tuple(said)))
    return before


def errstate(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Errors:
    """``numpy.errstate(...)``."""
    if args or not {*kwargs} <= {"all", *ERRORS}:
        raise t.refuse("numpy.errstate with further arguments")
    said: dict[str, str] = {}
    for name in sorted(kwargs):  # what is said of all comes first
        how = kwargs[name]
        if not isinstance(how, Known) or how.value not in ("ignore", "warn", "raise", None):
            raise t.refuse("numpy.errstate with further arguments")
        if how.value is not None:
            kinds = ERRORS if name == "all" else (name,)
            said |= dict.fromkeys(kinds, "ignore" if how.value == "ignore" else "mark")
    return Errors(tuple(said.get(k, "") for k in ERRORS))


ROWS: dict[Any, Any] = {np.errstate: errstate}
"""Rows of such calls."""
