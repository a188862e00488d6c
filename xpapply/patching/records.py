"""Records of patched calls: counts, times, engines, reasons."""

from __future__ import annotations

import functools
import threading
from copy import copy
from dataclasses import dataclass, field
from time import perf_counter
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from .. import frontends
from ..errors import line_of
from ..limits import LIMITS
from ..runtime.budget import Budget


@dataclass
class Row:
    """The report of one function.

    Attributes
    ----------
    name, place : str
        The function, and where it begins, "file:line"; "" where it is not of Python.
    loop : str
        What calls it, ``"numpy.apply_along_axis"``.
    calls, slices : int
        How many there were.
    seconds : float
        What these calls took in all.
    engines : dict of str to int
        Calls by what ran them; "loop" is the original.
    reasons : dict of str to int
        Calls that looped by the reason.
    saved : float
        Seconds that the loop would have taken more, by a few calls of the function. An estimate.
    """

    name: str
    place: str
    loop: str
    calls: int = 0
    slices: int = 0
    seconds: float = 0.0
    engines: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    saved: float = 0.0

    def minus(self, before: Row | None) -> Row:
        """The difference to `before`."""
        found = copy(self)
        found.engines, found.reasons = dict(self.engines), dict(self.reasons)
        if before is None:
            return found
        for name in ("calls", "slices", "seconds", "saved"):
            setattr(found, name, getattr(self, name) - getattr(before, name))
        for name in ("engines", "reasons"):
            was = getattr(before, name)
            now = {k: n - was.get(k, 0) for k, n in getattr(self, name).items()}
            setattr(found, name, {k: n for k, n in now.items() if n})
        return found


class SeenFunction:
    """The record of a function: its report, and when to inspect it again.

    Looking takes time, so that calls whose loop is short go to the original at once: by the time
    that the last loop took for a slice.
    """

    __slots__ = (
        "_budget",
        "_length",
        "_per_slice",
        "_slow",
        "_slow_until",
        "_waiting",
        "core_ndim",
        "python",
        "row",
        "stands_for",
        "why",
    )

    def __init__(self, row: Row, python: bool, stands_for: Any) -> None:
        self.row, self.python, self.stands_for = row, python, stands_for
        self._per_slice, self._length = -1.0, 1
        self._budget = Budget(0.0)  # of the loop, until the next look
        self._slow, self._slow_until = 0, 0.0
        self._waiting: list[tuple[int, int, float, str]] = []
        self.core_ndim: tuple[str | None, int] = (None, 0)  # of a signature, the last one
        self.why = "" if python else "it is a model, or compiled: left to the original"

    @property
    def is_known(self) -> bool:
        """Whether the loop's time for a slice is known."""
        return bool(self._waiting) or self._per_slice >= 0

    def is_worth(self, slices: int, length: int) -> bool:
        """Whether so many slices of a length are worth an inspection."""
        if self._waiting:
            last, long, seconds, _ = self._waiting[-1]
            per_slice, long = seconds / (last or 1), long or 1
        else:
            per_slice, long = self._per_slice, self._length
            if per_slice < 0:
                return True
        if length > long:
            per_slice *= length / long
        expected = slices * per_slice
        if expected <= LIMITS.patched_worth:
            return False
        self.count()
        return self._budget.spent + expected > self._budget.limit

    def fell_back(self, slices: int, length: int, seconds: float, why: str) -> None:
        """A call went to the original at once, which took so many seconds.

        It is counted later: such calls may take a few microseconds, and counting takes one.
        """
        self._waiting.append((slices, length, seconds, why))
        if len(self._waiting) >= LIMITS.patched_kept:
            self.count()

    def count(self) -> None:
        """Count the calls that fell back."""
        with _lock:
            self.count_locked()

    def count_locked(self) -> None:
        """Count; the caller holds the lock."""
        found = self._waiting[:]
        del self._waiting[: len(found)]  # others may have come
        for slices, length, seconds, why in found:
            self.looped(slices, length, seconds)
            _add(self.row, slices, seconds, "loop", why, 0.0)

    def looped(self, slices: int, length: int, seconds: float) -> None:
        """The loop ran for so many seconds."""
        self._per_slice, self._length = seconds / max(1, slices), max(1, length)
        self._budget.spent += seconds

    def ran(self, slices: int, length: int, took: float, loop: float) -> None:
        """Record a run of so many seconds, and the loop's estimate.

        Where it takes longer twice, the loop is next: each call has to be planned anew then, as
        with other arguments each time.
        """
        now = perf_counter()
        if took < loop:
            self._slow = 0
        elif now - took >= self._slow_until:  # else threads have waited for the same plan
            self._slow, self._slow_until = self._slow + 1, now
        if self._slow > 1:
            self._slow = 0
            self._per_slice, self._length = loop / max(1, slices), max(1, length)
            self.refused(took, "planned anew for each call it takes longer than its loop")

    def refused(self, cost: float, why: str) -> None:
        """A look, which took so many seconds, said why the loop runs."""
        self.count()
        self._budget, self.why = Budget(cost, LIMITS.patched_again), why


_seen: dict[Any, SeenFunction] = {}
_lock = threading.Lock()


def seen(f: Any, loop: str) -> SeenFunction:
    """The record of `f` in calls of a loop."""
    # by the code's identity: the hash of code is made anew each time
    key = (loop, id(f.__code__ if type(f) is FunctionType else _key(f)))
    found = _seen.get(key)
    return _made(f, key, loop) if found is None else found


def _key(f: Any) -> Any:
    """A key that is equal for functions made anew for each call."""
    while True:
        if isinstance(f, functools.partial):
            f = f.func
        elif type(f) is MethodType:
            f = f.__func__
        else:
            break
    if type(f) is FunctionType:
        return f.__code__
    if isinstance(f, (type(len), type(np.sum), np.ufunc, type)):
        return f
    return type(f)


def _made(f: Any, key: Any, loop: str) -> SeenFunction:
    if len(_seen) >= LIMITS.patched_functions:
        f, key = None, ("others", loop)
    with _lock:
        if key not in _seen:
            name = "other functions" if f is None else frontends.name_of(f)
            place = "" if f is None else _place(f)
            python = f is None or (callable(f) and frontends.is_python(f))
            _seen[key] = SeenFunction(Row(name, place, loop), python, _key(f))  # which stays alive
        return _seen[key]


def _place(f: Any) -> str:
    key = _key(f)
    if isinstance(key, CodeType):
        while isinstance(f, functools.partial):
            f = f.func
        return line_of(getattr(f, "__func__", f), library=True)
    return ""


def tell(
    row: Row, slices: int, seconds: float, engine: str, why: str = "", saved: float = 0.0
) -> None:
    """Count a call."""
    with _lock:
        _add(row, slices, seconds, engine, why, saved)


def _add(row: Row, slices: int, seconds: float, engine: str, why: str, saved: float) -> None:
    row.calls += 1
    row.slices += slices
    row.seconds += seconds
    row.engines[engine] = row.engines.get(engine, 0) + 1
    if why:
        why = (
            why
            if why in row.reasons or len(row.reasons) < LIMITS.patched_reasons
            else "other reasons"
        )
        row.reasons[why] = row.reasons.get(why, 0) + 1
    if saved > 0:
        row.saved += saved


def clear() -> None:
    """Forget all."""
    with _lock:
        _seen.clear()


def rows() -> dict[Any, Row]:
    """A copy of what was counted so far."""
    with _lock:
        for found in _seen.values():
            found.count_locked()
        return {key: found.row.minus(None) for key, found in _seen.items()}


def after_fork() -> None:
    """Begin anew in a child process."""
    global _lock
    _lock = threading.Lock()
    clear()
