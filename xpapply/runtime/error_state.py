"""NumPy's floating-point error state (`numpy.errstate`) while slices run all at once.

What NumPy would warn of is only noted then, and so are the warnings of library code. ``f`` itself
is called for one of the slices afterwards, and gives the warning: with its text, at its line, and
as often as the filters let it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import warnings
from collections.abc import Callable, Hashable
from types import CodeType
from typing import Any

import numpy as np

from ..errors import TraceError
from ..limits import LIMITS
from .warning_filters import NOTED, Place, here

KINDS = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}
"""Kinds of errors: NumPy's names in reports, and in `errstate`."""

_PER_SLICE = frozenset(("call", "print", "log"))


class Handled(TraceError):
    """The user's own handler of floating-point errors counts on being called for each slice."""


def why_per_slice() -> str | None:
    """Why no slices can run together now, whatever the function."""
    found = sorted(_PER_SLICE & set(np.geterr().values()))
    if not found:
        return None
    return f"np.errstate says {found[0]!r}, which is done once per slice and error"


def scipy_tells() -> bool:
    """Whether ``scipy.special.errstate`` does more than ignore."""
    special = sys.modules.get("scipy.special")
    if special is None:
        return False
    return any(how != "ignore" for kind, how in special.geterr().items() if kind != "memory")


def for_slices() -> dict[str, str]:
    """The error state, with "call" in the place of "warn".

    Raises
    ------
    Handled
        If errors are printed, logged or given to a function of the user's.
    """
    state = np.geterr()
    if not _PER_SLICE.isdisjoint(state.values()):
        raise Handled(why_per_slice() or "")
    return for_notes(state)


def for_notes(state: Any) -> dict[str, str]:
    """`state` with "call" in the place of "warn"."""
    return {kind: "call" if how == "warn" else how for kind, how in dict(state).items()}


_HUGE = np.array([np.finfo(np.float64).max])


def report_overflow() -> None:
    """Report an overflow to NumPy as a ufunc does: for integers, where ufuncs do not."""
    np.add(_HUGE, _HUGE)


def _at(code: CodeType, instruction: int) -> Hashable:
    """The position of an instruction in its file: Python specializes instructions while they run,
    so the index is not enough."""
    found = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    return instruction if found is None or None in found else found


def _reported(add: Callable[[Place], object] | None, kind: str, _: int) -> None:
    frame = sys._getframe(1)  # of the code that called NumPy
    if add is not None:
        add((kind, frame.f_code, _at(frame.f_code, frame.f_lasti)))


class noting:
    """Record what NumPy reports and Python warns of inside: ``add(place)``.

    Parameters
    ----------
    add : callable or None
        Gets a `Place`, whose text is the kind of error where NumPy reports it. None: nothing is
        noted, and warnings are shown as ever.
    state : dict
        The error state: what is noted has "call".
    """

    __slots__ = ("_add", "_before", "_call", "_filters", "_is_set", "_state")

    def __init__(self, add: Callable[[Place], object] | None, state: dict[str, str]) -> None:
        self._add, self._is_set = add, False
        self._filters: Any = None
        # it does not hold this object, so that `__del__` comes
        self._call: Any = functools.partial(_reported, add)
        self._state: Any = np.errstate(**state, call=self._call)  # type: ignore[arg-type]

    def __enter__(self) -> None:
        self._before, self._filters = here.add, warnings.filters
        self._filters.insert(0, NOTED)  # no lock: it is for this thread alone
        here.add = self._add
        self._state.__enter__()
        self._is_set = True

    def __exit__(self, *error: Any) -> None:
        if self._is_set:
            self._state.__exit__(*error)
            self._is_set = False
        if self._filters is not None:
            filters, self._filters = self._filters, None
            here.add = self._before
            filters.remove(NOTED)

    def __del__(self) -> None:
        """End it where an interruption came before `__exit__`, or in it: a thread that went on
        noting would never show a warning again.
        """
        if self._is_set or self._filters is not None:
            if self._is_set and np.geterrcall() is not self._call:  # one around it has ended
                self._is_set, self._before = False, here.add
            with contextlib.suppress(ValueError):  # of another thread
                self.__exit__()


IGNORED = dict.fromkeys(KINDS.values(), "ignore")


def first_with(place: Place, run: Callable[[Any], Any], n: int) -> int | None:
    """One of `n` slices for which ``run(numbers of slices)`` warns at a place; None: no single one.

    Parameters
    ----------
    place : Place
        As it was noted for all of them.
    run : callable (array of int) -> anything
        Runs some of the slices.
    n : int
        The number of slices.
    """
    kind = KINDS.get(place[0])
    state = IGNORED if kind is None else IGNORED | {kind: "call"}

    def reports(part: Any) -> bool:
        found: set[Place] = set()
        with noting(found.add, state):
            run(part)
        return place in found

    part = np.arange(n)
    if reports(part[:1]):  # as a rule all do, or few
        return 0
    # products of matrices may report what no row alone does: then the other half is looked at, too
    parts, tries = [part], 0
    while parts and tries < LIMITS.warning_parts:
        part, tries = parts.pop(), tries + 1
        if len(part) > 1 and (tries == 1 or reports(part)):
            parts += np.array_split(part, 2)[::-1]
        elif len(part) == 1 and reports(part):
            return int(part[0])
    return None


def let_pass(error: BaseException) -> None:
    """Raise what a signal's handler has raised, such as a time limit: nothing else is to blame."""
    signal: Any = sys.modules.get("signal")
    at, codes = error.__traceback__, set()
    while at is not None:
        codes.add(at.tb_frame.f_code)
        at = at.tb_next
    for number in () if signal is None else signal.valid_signals():
        handler = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # of a partial
        function = getattr(handler, "__func__", handler)
        if not hasattr(function, "__code__"):
            function = getattr(type(handler), "__call__", None)  # noqa: B004
        if getattr(function, "__code__", None) in codes:
            raise error
