"""Running a Python function on all slices at once, and giving up on it by what that takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import config, error_state
from ..cache import cache_of
from ..errors import TraceError, UnsupportedError
from ..frontends.python.record import Record
from ..frontends.python.rows import Rows
from ..frontends.python.runner import Traced
from ..frontends.python.tree import TooManyPaths, Users
from .applied import Along, Applied, plain

PLANNING = 2e-3
"""Seconds that the loop must take for a plan to be worth making."""
SLOWER = 1.2
"""Times the loop's time from which a way is given up."""
_MOST_TRIES = 3
"""Calls after which a function whose slices go too many ways runs in the loop for good."""


def always(f: Any) -> bool:
    """For a reason that does not depend on `f`."""
    return True


class Refused(NamedTuple):
    """Why a function is not traced.

    Attributes
    ----------
    why : str
        The reason.
    unchanged : callable
        ``unchanged(f)``: whether it still holds, since nothing has changed that `f` reached.
    is_slow : bool
        Whether it could run at once, and only takes longer: an engine that is asked for runs it.
    """

    why: str
    unchanged: Callable[[Any], bool] = always
    is_slow: bool = False


def along(what: Along, traced: Any, first: tuple[Any, float] | None = None) -> Any:
    """In blocks of slices; of the class that the loop would give."""
    if type(what.arr) is not np.memmap:
        return at_once(traced, what)
    result = at_once(traced, replace(what, arr=plain(what.arr)))
    like = what.first() if first is None else first[0]
    return result.view(np.memmap) if type(like) is np.memmap else result


def at_once(traced: Any, what: Applied) -> Any:
    """All slices of `what` at once.

    If that raises, by the loop, for it to raise what `f` would.
    """
    record: Record = traced.record
    if record.refused:  # since the plan was made
        what.announce(record.refused)
        return what.loop()
    if record.rests and not config.current().engine:
        what.announce(record.why)
        return _timed(record, what)
    error, result = _tried(traced, what)
    # here no exception is handled, which would become the context of what f raises
    if isinstance(error, Users):
        what.note(error.raised, error.index)
        raise error.raised
    record.lost = lost = isinstance(error, TooManyPaths)  # other threads have runs of their own
    if error is None:
        return result
    own = isinstance(error, TraceError)
    why = str(error) if own else f"for all slices at once it raises {type(error).__name__}: {error}"
    if own and config.current().fallback == "raise":
        if lost:
            record.given_up, record.why = record.given_up + 1, why
        what.announce(why)
    # what f raises itself says nothing against its plan, so that is kept then
    result = _timed(record, what, getattr(error, "first", None))
    record.given_up, record.why = record.given_up + lost, why
    # more slices leave more time to look for paths
    may_come = lost or isinstance(error, error_state.Handled)
    if not may_come or record.given_up > _MOST_TRIES:
        _refused(traced, what, why)
    what.announce(why)
    return result


def _timed(record: Record, what: Applied, first: tuple[Any, ...] | None = None) -> Any:
    """The loop, whose seconds are counted."""
    started = time.perf_counter()
    result = what.loop(first)
    record.in_loop += time.perf_counter() - started
    return result


def engine_of(traced: Traced, rows: Rows) -> str:
    """What runs slices like these, by the name that plans show."""
    run = traced.kernel_for(rows) or traced.launch_for(rows)
    if run is not None:
        return str(run.engine)
    if traced.fused_on(rows) and (engine := traced.engine_for(rows)[0]) is not None:
        return str(engine.name)
    return str(traced.library)


def _tried(traced: Any, what: Applied) -> tuple[Exception | None, Any]:
    """What went wrong, or the result."""
    # where one thread does all of it, as in dask's tasks, what others do meanwhile does not count
    clock = time.thread_time if config.current().threads == 1 else time.perf_counter
    started, paths = clock(), traced.tree.count
    try:
        result = what.run(traced)
    except Exception as error:
        if config.current().engine and isinstance(error, UnsupportedError):
            raise
        if isinstance(error, TooManyPaths):
            traced.record.in_vain += clock() - started
        return error, None
    took = clock() - started
    if traced.tree.count == paths and not config.current().engine:
        slow = took > PLANNING + SLOWER * what.slices * what.seconds(traced, took)
        record = traced.record
        record.slow = record.slow + 1 if slow else 0
        if record.slow > 1:
            why = "all at once it takes longer than the loop"
            if paths > 1:
                why += f" (its slices go {paths} ways)"
            elif traced.looped:
                why += f" ({traced.looped:,} slices are called one by one)"
            _refused(traced, what, why, is_slow=True)
    return None, result


def _refused(traced: Any, what: Applied, why: str, *, is_slow: bool = False) -> None:
    """Remember that `f` runs in the loop, and have its plans say so."""
    traced.record.refused = why
    for p in traced.plans:
        p.give_up(why)
    if (key := what.key) is not None:
        cache_of(what.f)[0].traced[key] = Refused(why, traced.unchanged, is_slow)
