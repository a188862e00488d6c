"""Python functions: whether they run on all slices at once, by what a trace and the time say."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ... import arrays, config, frontends
from ...errors import (
    CALLS_BACK,
    DRAWS,
    TooLong,
    TraceError,
    UnsupportedError,
)
from ...frontends.python.run import account
from ...frontends.python.run.rows import Rows
from ...functions import samples
from ...functions.cache import FunctionCache, cache_of
from ...functions.purity import has_loop
from ...limits import LIMITS
from ...loop import reference
from ...loop.begun import Begun, Users
from ...runtime import error_state
from ...runtime.budget import Budget, Loops, Quick
from ..application import Application
from ..plan import Plan
from . import running
from .applied import Along, Applied, OnHost, layout_of, plain
from .running import SOURCE, Refused, family_of, is_traced
from .unplanned import draws, quick_for, slices, solves, trace_key

if TYPE_CHECKING:
    from .traced import TracedFunction
    from .typed_loop import TypedLoop

_FEW_SLICES = f"up to {LIMITS.few_slices} slices take less time in the loop"
_QUICK = "a plan would take longer than the loop"


# --- deciding -------------------------------------------------------------------------


@dataclass(slots=True)
class Decision:
    """The decision how a Python function runs, for `explain` and calls alike.

    Attributes
    ----------
    what : Applied
        What the function is applied to. It may be a method for batches of one slice.
    traced : TracedFunction or None
        What runs it on all slices at once.
    why : str or None
        Why the loop runs; None: it does not.
    quick : bool
        Whether that is because the loop takes less time: no warning is due.
    begun : Begun or None
        The first calls of the loop, where these were asked for.
    loops : Quick or None
        What loops are noted in, where a plan waits until they have taken some time.
    """

    what: Any
    traced: TracedFunction | TypedLoop | None = None
    why: str | None = None
    quick: bool = False
    begun: Begun | None = None
    loops: Quick | None = None

    @property
    def known(self) -> Sequence[Any]:
        """Results for the first slices."""
        return () if self.begun is None else self.begun.results


def decide(
    what: Applied, *, calls: bool = False, limited: bool = False, begun: Begun | None = None
) -> Decision:
    """Decide how `f` runs on slices.

    `calls`: whether the result is wanted now, on a NumPy array. Then `f` is not traced if its
    first calls tell that the loop is done sooner. `limited`: whether planning may take no longer
    than it can save, though no call has told what the loop takes. `begun`: the first calls, if
    the loop has begun.
    """
    why = what.why_not()
    known, key = cache_of(what.f)[0], None if why else what.key
    remembered = None if key is None else known.traced.get(key)
    if remembered is None and key is not None and (others := family_of(what)) is not None:
        remembered = others.join(known.traced, key, (SOURCE, key))
    quick: Quick | None = None
    if type(remembered) is Quick:
        if calls and remembered.serves(what.slices) and not config.current().engine:
            return _looping(what, known, key, remembered, begun)
        quick, remembered = remembered, None
    found: TracedFunction | TypedLoop | Refused | None = remembered
    tries = 0  # of earlier traces
    if found is not None and not (found.unchanged(what.f) and _is_asked_for(found)):
        record = found.record if is_traced(found) else None
        tries = 0 if record is None else record.given_up
        # while its loop runs, it matters little whether it has changed; what each call makes may
        # be gone at any time
        if record is None or not record.rests or config.current().engine:
            found = None
    if found is None and key is not None and family_of(what) is not None:
        from . import from_source

        found = from_source.with_other_numbers(what, known, key)
    saved = 0.0
    if isinstance(found, Refused) and found.is_slow:
        saved = found.may_spend(what.slices)
        if config.current().engine or saved:
            found = None
    if (isinstance(found, Refused) or is_traced(found)) and not why:
        waits = running.waits_for(known, key) is not None
        if found.seconds or waits or config.current().engine or _is_short(what):
            how: tuple[Any, ...] = begun, found.seconds or None, found, 0.0, limited
            found = _compiled(what, known, key, *how) or found
    if found is None or not calls:  # a trace that runs sees that itself
        why = why or error_state.why_per_slice()
    if why and begun is not None:
        return Decision(what, why=why, begun=begun)
    if why:
        return _refusal(what, why, calls)
    if found is None:
        # with fallback="raise", before the first call of f
        if calls and begun is None and config.current().fallback != "raise":
            later: Users | None = None
            try:
                begun = what.begun()
            except Users as error:
                later = error
            except Exception as error:
                what.note(error, (0,) * len(what.rows().batch))
                batched = what.for_batches(error)
                if batched is None:
                    raise
                return decide(batched, calls=True)
            if later is not None:  # no exception is handled here, which would become its context
                what.note(later.raised, later.index)
                raise later.raised
        if calls and begun is not None:
            quick = quick or quick_for(what.f)
            quick.seconds = min(quick.seconds, begun.seconds)
            if quick.serves(what.slices):
                return _looping(what, known, key, quick, begun)
        seconds = None if begun is None else begun.seconds
        if seconds is None and quick is not None and quick.seconds < math.inf:
            seconds = quick.seconds  # of loops that have ended
        spent = 0.0 if quick is None else quick.spent
        started = time.thread_time()
        found = _compiled(what, known, key, begun, seconds, None, spent, limited)
        reading = time.thread_time() - started
        wait = running.waits_for(known, key)
        if found is None and begun is not None and quick is not None and wait is not None:
            quick.limit = max(quick.limit, quick.spent + wait.limit - wait.spent)
            if quick.serves(what.slices):  # they are as short, and go on until compiling pays
                return _looping(what, known, key, quick, begun)
        if found is None:
            found = _trace(what, known, key, begun, saved, limited)
            if is_traced(found):  # what has been taken already
                found.record.planning += reading
                found.record.given_up = tries
            if wait is None or not _is_first_read(what):  # else it has been asked, and waits
                how = begun, seconds, found, spent, limited
                found = _compiled(what, known, key, *how) or found
    if found is not None and not isinstance(found, Refused):
        why = found.record.refused or _sooner_in_loop(found, what.slices, key is not None)
        if (why or found.record.rests) and (calls or limited) and _has_kernel(found, what):
            why = None
        return Decision(what, found, why, not found.record.refused, begun)
    if (calls or limited) and (until := running.awaited(known, key)):
        why = running.also(found.why, until)
    else:
        why = and_compiled(what, found.why)
    if begun is not None:  # it takes a slice
        return Decision(what, why=why, begun=begun)
    return _refusal(what, why, calls)


def _looping(
    what: Applied, known: FunctionCache, key: Hashable, quick: Quick, begun: Begun | None
) -> Decision:
    """Decide for the loop, which is noted; so are those with other numbers."""
    if key is not None:
        known.traced[key] = quick
        if (others := family_of(what, is_new=True)) is not None:
            others.quick = quick
    return Decision(what, why=_QUICK, quick=True, begun=begun, loops=quick)


def _is_asked_for(found: Any) -> bool:
    """Whether it serves the requested engine: compiled code serves only its own."""
    return (
        is_traced(found) or isinstance(found, Refused) or config.current().engine in found.engines
    )


def _refusal(what: Applied, why: str, calls: bool) -> Decision:
    """Decide for an `f` that cannot be traced: a method may want a batch of one instead."""
    batched = what.for_batches(why)
    return Decision(what, why=why) if batched is None else decide(batched, calls=calls)


def _sooner_in_loop(found: TracedFunction | TypedLoop, slices: int, kept: bool) -> str | None:
    """Why the loop takes less time than all slices at once.

    `kept`: whether the trace is remembered, so that later calls need not plan.
    """
    if config.current().engine or found.library != "numpy":
        return None
    if slices <= LIMITS.few_slices and is_traced(found):
        return _FEW_SLICES
    seconds = slices * min(found.seconds, found.record.looped)
    overhead = found.overhead if kept else max(found.overhead, LIMITS.plan_worth)
    if seconds < overhead or found.record.loops_instead(slices, found.seconds):
        return f"{slices:,} slices take less time in the loop, about {seconds * 1e3:.2g} ms"
    return None


def _has_kernel(found: TracedFunction | TypedLoop, what: Applied) -> bool:
    """Whether a kernel runs it, where blocks of slices take longer than the loop.

    The kernel waits for as many of these loops as it would for runs in blocks.
    """
    record, seconds = found.record, found.seconds
    if not is_traced(found) or record.refused or config.current().engine:
        return False
    if what.slices * seconds < LIMITS.plan_worth:
        return False
    rests = record.rests and found.tree.count == 1  # not since it goes too many ways
    if not (rests or record.is_slower(what.slices, seconds)) or not found.has_kernel(what.rows()):
        return False
    record.given_up = 0
    return True


def _is_short(what: Applied) -> bool:
    """Whether a GPU thread takes a slice, whether `f` has loops or not."""
    return isinstance(what, Along) and what.is_short


def _is_first_read(what: Applied) -> bool:
    """Whether a function is compiled, if it can be, before it is traced."""
    return has_loop(what.f) or bool(what.untraced) or _is_short(what) or solves(what.f)


def _compiled(what: Applied, *given: Any) -> TypedLoop | None:
    """`f` compiled from its source, if that may do better than a trace, and pays now.

    That is so of loops, of functions of numbers that go several ways, of powers of numbers, where a
    trace is refused or does badly, as that of a `try` which catches often, or is not much quicker
    than the loop, and where slices are short on a GPU.
    """
    known, key, _, _, *more = given
    traced = more[0] if more else None
    fails = _is_first_read(what)
    if not fails:
        fails = isinstance(traced, Refused)
        if is_traced(traced):
            record, numbers = traced.record, what.arguments.numbers
            slower = record.is_slower(what.slices, traced.seconds)
            fails = slower or not record.does_well
            # if it goes too many ways, no kernel knows them all
            many = record.given_up > 0 and traced.tree.count > 1
            fails = fails and (numbers or many or traced.stays_in_blocks())
            fails = fails or (traced.tree.goes_singly and draws(what.f))
            fails = fails or (config.current().engine == "cpu" and traced.is_cs())
        if not fails and (not is_traced(traced) or traced.record.expected(what.slices) is None):
            return None
    from . import from_source

    if not fails:
        assert is_traced(traced)
        if not from_source.may_gain(what, known, key, traced):
            return None
    return from_source.compiled(what, *given)


# --- tracing --------------------------------------------------------------------------


def _trace(
    what: Applied,
    known: FunctionCache,
    key: Hashable,
    begun: Begun | None,
    saved: float = 0.0,
    limited: bool = False,
) -> TracedFunction | Refused:
    """Trace `f`, or say why not; remembered as `key`.

    `saved`: CPU seconds that it may take beside those of a first call.
    """
    from ...frontends.python.sandbox.tracing import why_impure  # compiled, it is not traced

    why = why_impure(what.f)
    if why:
        return Refused(_completed(why, what.f))
    if begun is not None:
        begun = begun._replace(results=[plain(x) for x in begun.results])
    loop = 0.0 if begun is None else begun.seconds * what.slices
    limit = account.planning(loop) + saved + account.loading()
    ends = (limited or begun is not None) and not config.current().engine
    started = time.thread_time()  # loading is a part of it
    from .traced import traced

    try:
        made: TracedFunction | Refused = traced(what, begun, limit if ends else math.inf, started)
    except TraceError as error:
        why = str(error) if isinstance(error, TooLong) else _completed(str(error), what.f)
        made = Refused(why, error.unchanged or running.always)
        made.seconds = 0.0 if begun is None else begun.seconds
        if isinstance(error, TooLong):
            made.is_slow, made.slices = True, what.slices
            least = max(1, error.steps) * LIMITS.step_of_numbers
            made.seconds = least if begun is None else begun.seconds
        # which is asked anew each time
        if begun is None and samples.asks_for_rows(what.f, made.why):
            return made
    except Exception as error:
        error_state.let_pass(error)
        made = Refused(f"it raises {type(error).__name__}: {error}")
        if begun is None:  # what it does for a real slice is not known
            return made
        made.seconds = begun.seconds
    if key is not None:
        running.remember(known, key, made)
    return made


# --- calls and plans --------------------------------------------------------------------


def call(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, begun: Begun | None = None) -> Any:
    """The result on a NumPy array with no engine requested.

    `begun`: the first calls, if the loop has begun.
    """
    count, now = slices(axis, arr), config.current()
    if count <= LIMITS.few_slices and now.fallback != "raise":
        return reference.apply(f, axis, arr, args, kwargs)  # as `decide` would say
    (cache, method), layout = cache_of(f), layout_of(f, axis, arr, args, kwargs)
    ready = cache.ready
    known = None if layout is None or begun is not None else ready.get(layout)
    if known is not None:
        result = known.along(f, axis, arr)
        if result is not None:
            return result
        ready.pop(layout, None)
    key = trace_key(method, axis, arr, args, kwargs)
    quick = cache.traced.get(key)
    if type(quick) is Quick and begun is None and quick.serves(count):
        return quick.timed(count, reference.apply, f, axis, arr, args, kwargs)
    if key is not None and begun is None:
        loops = cache.looped.get(key)
        if loops is not None and loops.hold(count):
            return loops.timed(reference.apply, f, axis, arr, args, kwargs)
    began = time.perf_counter()
    found = decide(Along(f, axis, arr, args, kwargs), calls=True, begun=begun)
    looked = time.perf_counter() - began
    if found.why is None:
        result, traced = running.along(found.what, found.traced, found.begun), found.traced
        if key is not None and traced is not None and running.rests(traced):
            others = running.waits_for(cache, key) or traced.record.loops
            cache.looped[key] = Loops.after(looked, count, others)
        if layout is not None and found.what.f is f and traced is not None:
            if not is_traced(traced) and traced.record.runs > 1:
                from .ready import keep  # no first call needs it

                keep(found.what, traced, layout)
        return result
    if found.loops is not None:
        return found.loops.timed(found.what.slices, found.what.loop, found.known)
    if not found.quick:
        found.what.announce(found.why)
    if key is not None and found.what.f is f:
        budget: Budget | None = running.waits_for(cache, key)
        if budget is None and found.quick and found.traced is not None:
            budget = found.traced.record.rested(count)
        cache.looped[key] = Loops.after(looked, count, budget)
    return running.looped(found.what, found.known)


def plan(app: Application) -> tuple[Plan, Callable[[], bool] | None]:
    """The plan of `f`, and how to tell that it still holds (None: not worth remembering)."""
    f, axis, arr, args, kwargs = app.f, app.axis, app.arr, app.args, app.kwargs
    what = Along(f, axis, arr, args, kwargs)
    found = decide(what)
    traced, one = found.traced, found.what.f
    batched = one is not f
    says = (one.says,) if batched else ()
    if traced is None:
        assert found.why is not None
        return _otherwise(app, found.what, found.why, says)
    results = None if traced.differs else traced.results[:1]
    seen: dict[str, Any] = {"results": results, "graph": traced.graph}
    if found.why is not None:
        return app.in_loop((and_compiled(found.what, found.why),), one, **seen), None
    alive = running.alive(one)

    def run(x: Any, a: int) -> Any:
        one = Along(alive(), a, x, args, kwargs)
        result = running.along(one, traced)
        if traced.library == "cupy" and (layout := layout_of(one.f, a, x, args, kwargs)):
            from .ready import keep

            keep(one, traced, layout)
        return result

    reasons: list[str] = []
    if traced.record.given_up:
        reasons.append(f"the last call ran in the loop: {traced.record.why}")
    if why := why_given_up(traced, found.what.rows(), one):
        because = and_compiled(found.what, *(reasons or [why]))
        told: dict[str, Any] = {"reasons": (because,), "kernels": says}
        return app.plan("loop", _call=run, _plans=traced.plans, **told, **seen), None
    # slices that were tried may have told that the loop takes less time
    if (quick := decide(what).why) is not None:
        return app.in_loop((and_compiled(found.what, quick),), one, **seen), None
    ran = traced.run_for(Rows(arr, axis), reasons).says
    p = app.plan(
        ran.engine,
        kernels=(*ran.kernels, *says),
        reasons=tuple(reasons),
        limits=ran.limits,
        _call=run,
        _plans=traced.plans,
        **seen,
    )
    # of batches: whether f takes a slice is asked anew
    if args or kwargs or batched:
        return p, None
    return p, _still(traced, f, axis, arr)


def and_compiled(what: Applied, why: str) -> str:
    """Why the loop runs, with what there is to say of compiling."""
    reads = _is_first_read(what)
    if not (reads or CALLS_BACK in why or DRAWS in why):
        return why
    from . import from_source

    said = from_source.why_not(what, cache_of(what.f)[0], what.key)
    return running.also(why, said) if said else why


def why_given_up(traced: TracedFunction | TypedLoop, rows: Rows, f: Any) -> str:
    """Why a call would give up and run the loop, or "": for `explain`."""
    if traced.library != "numpy" or config.current().engine:
        return ""
    if traced.has_run and not traced.record.given_up:
        return ""
    if traced.record.rests:
        return traced.record.why
    why = traced.why_given_up(rows, f)
    return _completed(why, f) if why else ""


def _completed(why: str, f: Any) -> str:
    """A reason with what to do."""
    from .way_out import completed

    return completed(why, f)


def _otherwise(
    app: Application, what: Along, why: str, says: tuple[str, ...]
) -> tuple[Plan, Callable[[], bool] | None]:
    """The plan of a function that cannot be traced: the array's library may have a way."""
    f, axis, arr, args, kwargs = what.f, what.axis, what.arr, what.args, what.kwargs
    if config.current().engine:
        name = frontends.name_of(app.f)
        waits = running.waits_for(cache_of(f)[0], what.key)
        if waits is not None and waits.raised:
            why = f"for the first slice it raises {waits.raised}"
        raise UnsupportedError(f"engine {config.current().engine!r} cannot run {name}: {why}")
    try:
        known = _agreed(what)
        if known is not None:
            return _on_host(app, what, known)
        from . import own_apply

        own = own_apply.find(f, axis, arr, args, kwargs)
    except TraceError as error:
        if arrays.library(arr) != "jax":
            return app.in_loop((why,), f), None
        try:
            return _on_host(app, what, (why, str(error)))
        except TraceError as further:
            said = dict.fromkeys((why, str(error), str(further)))
            return app.in_loop(tuple(said), f), None
    p = app.plan(
        own.engine,
        kernels=(*own.kernels, *says),
        reasons=(why,),
        results=(own.result,),
        _call=own.call,
    )
    return p, None


def _agreed(what: Along) -> tuple[str, ...] | None:
    """Why other ways were refused, where a trace has run on such an array as NumPy sees it."""
    if arrays.library(what.arr) != "jax":
        return None
    from . import own_apply

    try:
        view = own_apply.on_host(what.arr)
    except TraceError:
        return None
    found = cache_of(what.f)[0].traced.get(replace(what, arr=view).key)
    if not is_traced(found) or not found.unchanged(what.f):
        return None
    known = found.agreed.get((view.shape, what.axis))
    return None if known is None else known[1]


def _on_host(
    app: Application, what: Along, reasons: tuple[str, ...]
) -> tuple[Plan, Callable[[], bool] | None]:
    """The plan of a function that runs on NumPy's view of the array's memory.

    Raises
    ------
    TraceError
        If it does not, or gives other results there.
    """
    if what.slices <= LIMITS.few_slices:
        raise TraceError(_FEW_SLICES)
    from . import own_apply

    args, kwargs = what.args, what.kwargs
    view = own_apply.on_host(what.arr)
    found = decide(OnHost(what.f, what.axis, view, args, kwargs, what.arr))
    mine, traced = found.what, found.traced
    if traced is None or traced.record.refused:
        raise TraceError(str(found.why))
    if why := why_given_up(traced, mine.rows(), mine.f):
        raise TraceError(why)
    if (view.shape, what.axis) not in traced.agreed:
        found_there = own_apply.same_on_host(mine, view, lambda x: traced(Rows(x, 1), mine.f))
        traced.agreed[view.shape, what.axis] = found_there, reasons
    result, reasons = traced.agreed[view.shape, what.axis]
    alive = running.alive(mine.f)

    def run(x: Any, a: int) -> Any:
        return running.at_once(traced, OnHost(alive(), a, own_apply.on_host(x), args, kwargs, x))

    ran = traced.run_for(mine.rows()).says
    p = app.plan(
        ran.engine,
        kernels=(*ran.kernels, own_apply.ON_HOST),
        reasons=reasons,
        results=(result,),
        _call=run,
        _plans=traced.plans,
    )
    if args or kwargs or mine.f is not what.f:
        return p, None
    return p, _still(traced, what.f, what.axis, view, numpys_loop=False)


def _still(
    traced: TracedFunction | TypedLoop, f: Any, axis: int, arr: Any, *, numpys_loop: bool = True
) -> Callable[[], bool] | None:
    """A check that a trace still runs and has not been given up.

    `numpys_loop`: whether it runs where NumPy's loop would else.
    """
    known, method = cache_of(f)
    key = trace_key(method, axis, arr, (), {})
    if key is None or traced.record.given_up:
        return None
    count = slices(axis, arr)
    singly = len(traced.tree.singly)  # which `explain` tells of
    state = traced.state

    def unchanged() -> bool:
        same = known.traced.get(key) is traced and not traced.record.given_up
        same = same and len(traced.tree.singly) == singly
        same = same and traced.state == state and not traced.record.refused
        same = same and not (numpys_loop and _sooner_in_loop(traced, count, True))
        return same and traced.unchanged(known.function())

    return unchanged
