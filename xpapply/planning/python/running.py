"""Running a Python function on all slices at once, and giving up on it by what that takes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ... import config
from ...errors import Differs, InputError, TooManyPaths, TraceError, UnsupportedError, said
from ...frontends import name_of
from ...frontends.python.run.record import AtOnce, Record
from ...functions.cache import Family, FunctionCache, cache_of, families, parts
from ...functions.estimators import BatchOfOne
from ...functions.purity import python_function
from ...limits import LIMITS
from ...loop.begun import Begun, Users
from ...runtime import error_state
from ...runtime.budget import Budget
from .applied import Along, Applied, plain
from .unplanned import COMPILED, once_taken

if TYPE_CHECKING:
    from .traced import TracedFunction


def always(f: Any) -> bool:
    """A refusal that does not depend on `f`."""
    return True


def is_traced(found: Any) -> TypeGuard[TracedFunction]:
    """Whether it is a trace that can run."""
    return isinstance(found, AtOnce) and found.is_traced


def family_of(what: Applied, is_new: bool = False) -> Family | None:
    """What is known of such a call with other numbers; `is_new`: whether to begin with it."""
    own = python_function(what.f)
    if own is None or any(type(x) is FunctionType for x in parts(own)):
        return None  # what these cost depends on which function that is
    known, kind = families(what.f, is_new), None
    if known is not None:
        kind = what.kind
    if known is None or kind is None:
        return None
    # an engine that is asked for chooses otherwise; places of a partial are not its function's
    key = weakref.ref(type(what.f)), kind, config.current().engine
    found: Family | None = known.get(key)
    if found is None and is_new:
        found = known[key] = Family()
    return found


@dataclass(slots=True)
class Refused:
    """Why a function is not traced.

    Attributes
    ----------
    why : str
        The reason.
    unchanged : callable
        ``unchanged(f)``: whether it still holds, since nothing has changed that `f` reached.
    is_slow : bool
        Whether it could run at once, and only takes longer: an engine that is asked for runs it.
    slices, seconds : int, float
        For how many that was found, and what one takes in the loop: once many more have gone
        through the loop, it may be tried again. 0: it is not.
    """

    why: str
    unchanged: Callable[[Any], bool] = always
    is_slow: bool = False
    slices: int = 0
    seconds: float = 0.0
    _looped: int = 0

    def may_spend(self, slices: int) -> float:
        """CPU seconds that another try may take, now that so many more slices come; 0: none."""
        self._looped += slices
        if not self.slices or self._looped < LIMITS.retry_slices * self.slices:
            return 0.0
        return LIMITS.later_call_share * self._looped * self.seconds


def along(what: Along, traced: Any, begun: Begun | None = None) -> Any:
    """Run in blocks of slices; the result has the class that the loop would give."""
    if type(what.arr) is not np.memmap:
        return at_once(traced, what, begun)
    try:
        with traced.unspent(what.f):
            pass
    except error_state.Handled:  # the loop runs now
        return at_once(traced, what, begun)
    if begun is None and traced.writes:  # which its first calls do, too
        begun = what.begun()
    result = at_once(traced, replace(what, arr=plain(what.arr)), begun)
    with traced.unspent(what.f):
        like = what.begun().results[0] if begun is None else begun.results[0]
    return result.view(np.memmap) if type(like) is np.memmap else result


def at_once(traced: Any, what: Applied, begun: Begun | None = None) -> Any:
    """All slices of `what` at once.

    If that raises, by the loop, for it to raise what `f` would.
    """
    record: Record = traced.record
    known = () if begun is None else begun.results
    if record.refused:  # since the plan was made
        what.announce(record.refused)
        return what.loop(known)
    if record.rests and not config.current().engine:
        _announce(what, record.why)
        return _timed(record, what, known)
    if counts(traced) and record.is_close(what.slices, traced.seconds):
        began = time.thread_time()
        result = looped(what, known)
        record.looped = (time.thread_time() - began) / max(1, what.slices - len(known))
        return result
    error, result = _tried(traced, what, known)
    # here no exception is handled, which would become the context of what f raises
    if isinstance(error, Users):
        what.note(error.raised, error.index)
        raise error.raised
    record.lost = lost = isinstance(error, TooManyPaths)  # other threads have runs of their own
    if error is None:
        return result
    own = isinstance(error, TraceError)
    own = own or isinstance(error, UnsupportedError)
    why = str(error) if own else f"for all slices at once it raises {said(error)}"
    from .way_out import completed

    why = completed(why, what.f)
    if own and config.current().fallback == "raise":
        if lost:
            record.given_up, record.why = record.given_up + 1, why
        what.announce(why)
    # what f raises itself says nothing against its plan, so that is kept then
    if result is _NONE:
        result = _timed(record, what, known or getattr(error, "first", None) or ())
    record.given_up, record.why = record.given_up + lost, why
    # more slices leave more time to look for paths
    may_come = lost or isinstance(error, error_state.Handled)
    if not may_come or record.given_up > LIMITS.path_tries:
        _refused(traced, what, why, for_good=isinstance(error, Differs))
    _announce(what, why)
    return result


def remember(known: FunctionCache, key: Hashable, made: Any) -> None:
    """Remember what runs a function, no longer than there is one if it keeps large arrays alive.

    Loops that are shorter than that wait for nothing any more.
    """
    known.traced[key] = made
    if isinstance(made, AtOnce) and not made.is_traced:
        known.looped.pop(key, None)
        if waits_for(known, key) is not None:
            known.traced.pop((SOURCE, key), None)
    if not isinstance(made, Refused) and made.keeps:
        weakref.finalize(known.function(), known.traced.pop, key, None).atexit = False


SOURCE = "source"
"""The key of the refusal to compile a function from source, or of the budget before it."""


class Awaited(Budget):
    """The budget of loops, or of a trace, before a function is compiled.

    Parameters
    ----------
    cost : float
        Seconds of compiling, which one loop must take for it to pay at once.
    spent : float
        Those that they have taken so far.
    seconds : float
        What a slice takes in the loop, where that is known: a trace that was given up tells only
        how far it got.

    Attributes
    ----------
    cost, seconds : float
    was_read : callable or None
        Whether its source, which can be compiled, is as it was when it was read.
    raised : str
        What `f` raised for the first slice, so that nothing was compiled; "": nothing.
    """

    __slots__ = ("cost", "raised", "seconds", "was_read")

    def __init__(self, cost: float, spent: float, seconds: float = 0.0) -> None:
        super().__init__(cost, LIMITS.typed_waits)
        self.cost, self.spent, self.seconds = cost, spent, seconds
        self.was_read: Callable[[Any], bool] | None = None
        self.raised = ""


def waits_for(known: FunctionCache, key: Any) -> Awaited | None:
    """The budget that a compilation waits for; None: it does not wait."""
    tried = None if key is None else known.traced.get((SOURCE, key))
    return tried if isinstance(tried, Awaited) else None


def looped(what: Applied, known: Sequence[Any]) -> Any:
    """The loop. What it takes counts, where compiling waits for that."""
    tried = waits_for(cache_of(what.f)[0], what.key)
    if tried is None:
        return what.loop(known)
    started = time.perf_counter()
    result = what.loop(known)
    tried.seconds = (time.perf_counter() - started) / max(1, what.slices)
    return result


def awaited(known: FunctionCache, key: Any, surely: bool = False) -> str:
    """The reason of a compilation that waits, as text; "" otherwise.

    `surely`: its source has been read, and can be compiled.
    """
    tried = waits_for(known, key)
    if tried is None:
        return ""
    return once_taken(tried.limit - tried.spent, surely)


def _announce(what: Applied, why: str) -> None:
    """Say that the loop runs, and for how long."""
    until = awaited(cache_of(what.f)[0], what.key)
    what.announce(also(why, until) if until else why)


def also(why: str, said: str) -> str:
    """A reason with something else to know, before what to write instead.

    Who will be compiled as it is need not write anything else.
    """
    known, _, instead = why.rpartition("; ")
    if said.startswith(f"{COMPILED} once"):
        instead = 'use xpapply.options(engine="cpu") to compile it at once'
    return "; ".join([known, said, instead] if known else [why, said])


def rests(traced: Any) -> bool:
    """Whether the loop runs instead of a trace of NumPy arrays, for now or for good."""
    record: Record = traced.record
    return traced.library == "numpy" and bool(record.rests or record.refused)


def _timed(record: Record, what: Applied, known: Sequence[Any]) -> Any:
    """The loop, whose seconds are counted."""
    started = time.perf_counter()
    result = looped(what, known)
    took = time.perf_counter() - started
    record.loops.spent += took
    return result


def counts(traced: Any) -> bool:
    """Whether times of runs are recorded, for the loop to run where it is faster.

    On a device the host's clock does not tell; who wants no loop gets none for a part either.
    """
    now = config.current()
    return not now.engine and traced.library == "numpy" and now.fallback != "raise"


def alive(f: Any) -> Callable[[], Any]:
    """A weak reference to the function of a remembered plan."""
    if type(f) is BatchOfOne:
        method, row = alive(f.func), f.row
        return lambda: BatchOfOne(method(), row)
    if type(f) is FunctionType:
        known = cache_of(f)[0]
        find: Callable[[], Any] = lambda: known.function()  # noqa: E731  # or one made anew
    elif type(f) is MethodType:
        find = weakref.WeakMethod(f)
    else:
        try:
            find = weakref.ref(f)
        except TypeError:
            return lambda: f

    def function() -> Any:
        found = find()
        if found is None:
            raise InputError("the function that this plan was made for is gone: keep it alive")
        return found

    return function


def _tried(traced: Any, what: Applied, known: Sequence[Any]) -> tuple[Exception | None, Any]:
    """Run a trace; return the error, if any, and the result, if any."""
    record: Record = traced.record
    paths, forced = traced.tree.count, bool(config.current().engine)
    account = record.for_run(what.slices, traced.seconds, known)
    is_timed = counts(traced)
    try:
        result = what.run(traced, account if is_timed or traced.writes or traced.draws else None)
    except Exception as error:
        error_state.let_pass(error)
        if forced and isinstance(error, TraceError):
            cannot = f"engine {config.current().engine!r} cannot run {name_of(what.f)}: {error}"
            raise UnsupportedError(cannot) from None
        if forced and isinstance(error, UnsupportedError):
            raise
        if isinstance(error, TooManyPaths):
            record.in_vain(account.took)
        return error, _NONE
    took = account.took
    # those that f was called for have told what one takes: less than the first calls say
    account.seconds = min(account.seconds, traced.seconds)
    if account.more:
        traced.blocks.learn(account.loop / what.slices)
    if is_timed:
        record.ran(account, took, traced.compiles)
        if traced.why_left and traced.looped > what.slices // 2:
            record.in_vain(max(0.0, took - account.loop))
            return TooManyPaths(traced.why_left), result
    if traced.tree.count == paths and not forced and not traced.compiles:
        slow = took > LIMITS.plan_worth + LIMITS.given_up_from * account.loop
        record.slow = record.slow + 1 if slow else 0
        if record.slow > 1:
            why = "all at once it takes longer than the loop"
            if paths > 1:
                why += f" (its slices go {paths} ways)"
            elif traced.looped:
                why += f" ({traced.looped:,} slices are called one by one)"
            _refused(traced, what, why, is_slow=True)
    return None, result


_NONE: Any = object()
"""No result."""


def _refused(
    traced: Any, what: Applied, why: str, *, is_slow: bool = False, for_good: bool = False
) -> None:
    """Remember that `f` runs in the loop, and have its plans say so.

    `for_good`: it gave other results than `f`, so it is not compiled again.
    """
    traced.record.refused = why
    for p in traced.plans:
        p.give_up(why)
    if (key := what.key) is not None:
        known = cache_of(what.f)[0].traced
        known[key] = Refused(why, traced.unchanged, is_slow, seconds=traced.seconds)
        if for_good:
            known[SOURCE, key] = Refused(why, traced.unchanged)
