"""Functions with loops, compiled from their source: when that pays, and why it is not done."""

from __future__ import annotations

import itertools
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import config
from ...errors import DRAWS, TraceError, said
from ...functions.cache import Family, FunctionCache
from ...functions.guards import Guards, Place
from ...functions.purity import has_loop
from ...limits import LIMITS
from ...loop.begun import Begun
from ...runtime.error_state import let_pass
from . import running
from .applied import Along, Applied
from .running import SOURCE, Awaited, Refused, is_traced
from .unplanned import ENGINES, earlier, note, price, why_not_compiled

if TYPE_CHECKING:
    from .traced import TracedFunction
    from .typed_loop import TypedLoop


def compiled(
    what: Applied, known: FunctionCache, key: Hashable, *given: Any, **named: Any
) -> TypedLoop | None:
    """`f` compiled from its source, where it has loops and that pays now; remembered as `key`.

    `seconds`: what a slice takes in the loop; None: that is not known yet. `traced`: what a trace
    is like, if there is one. Functions of whole arrays run in blocks, if their trace does well; of
    functions of numbers that go several ways it is measured which is quicker.
    `spent`: what loops have taken before anything was planned. `limited`: whether the results are
    wanted now: then nothing is read before loops have told what a slice takes.

    Loops until then count for other numbers as well.
    """
    found = _compiled(what, known, key, *given, **named)
    waits = running.waits_for(known, key)
    if (family := running.family_of(what, is_new=waits is not None)) is not None:
        family.awaited = waits if found is None else None
    return found


def _compiled(
    what: Applied,
    known: FunctionCache,
    key: Hashable,
    begun: Begun | None,
    seconds: float | None,
    traced: TracedFunction | Refused | None = None,
    spent: float = 0.0,
    limited: bool = False,
) -> TypedLoop | None:
    """The same, for these numbers alone."""
    now = config.current()
    engine = now.engine
    if key is None or engine not in ENGINES.get(what.rules, ()) or why_not_compiled():
        return None
    tried = known.traced.get((SOURCE, key))
    if isinstance(tried, Refused) and tried.unchanged(what.f):
        return None
    if (served := with_other_numbers(what, known, key)) is not None:
        return served
    cost = LIMITS.typed_worth * price(what.f)
    if cost == math.inf:
        return None
    well = is_traced(traced) and traced.record.does_well
    is_made = tried is not None and not isinstance(tried, Awaited | Refused)
    if tried is not None and is_made and tried.unchanged(what.f):
        best = tried.is_best or bool(what.untraced)
        if (well or (traced is None and not best)) and not engine:
            return None
        known.traced[key] = tried
        return tried
    rival = None  # what a trace takes that is measured beside it
    if is_traced(traced) and well and seconds is not None and not engine:
        took = traced.record.expected(what.slices)
        most = what.slices * seconds if has_loop(what.f) else math.inf
        if took is not None and LIMITS.typed_gain * took < most:
            if not may_gain(what, known, key, traced):
                return None
            if not isinstance(tried, Awaited):
                tried = known.traced[SOURCE, key] = Awaited(cost, 0.0)
            if tried.spend(took):  # it takes less than compiling, by now
                return None
            if not all(x.flags.aligned for x in what.rows().views):  # others tell
                return None
            rival = took
    # the loop is not wanted, however short it is; on a device it takes very much longer
    on_device = what.rules != "numpy"
    wanted = bool(engine) or now.fallback == "raise" or rival is not None or on_device
    if wanted:
        cost = 0.0
    if isinstance(tried, Awaited):
        seconds = max(seconds or 0.0, tried.seconds)
        cost = tried.cost if cost else 0.0  # as measured, if it was read before
    elif seconds is None and limited and cost:
        known.traced[SOURCE, key] = Awaited(cost, spent)
        return None
    if seconds is not None and what.slices * seconds < cost:
        if not isinstance(tried, Awaited):
            tried = known.traced[SOURCE, key] = Awaited(cost, spent)
        if tried.spend(what.slices * seconds):
            return None
    rows = what.rows()
    if what.why_not() is not None:
        return None
    loop = _loop(what.rules)
    assert loop is not None
    from . import typed_results  # which what waits does not need
    from .typed_loop import ForNow

    slice0 = what.slice_at((0,) * len(rows.batch))
    ahead: Any = None
    family = running.family_of(what, is_new=True) if what.rules == "numpy" else None
    places = () if family is None else _given(what, family)
    how = (places,) * bool(places)
    reading = 0.0
    try:
        if begun is None:
            started = time.thread_time()
            ahead = typed_results.read(loop, what.f, what.arguments, slice0, *how)
            reading = time.thread_time() - started
            try:
                from ...runtime.generators import Kept

                with Kept(ahead.sources):
                    begun = typed_results.tried(loop, what.f, what.arguments, slice0)
            except Exception as error:  # whatever runs now raises it too, and says where
                let_pass(error)
                tried = Awaited(LIMITS.typed_worth * price(what.f), 0.0, seconds or 0.0)
                tried.raised = said(error)
                known.traced[SOURCE, key] = tried
                return None
            if seconds is None and what.slices * begun.seconds < cost:
                tried = Awaited(cost, spent, begun.seconds)
                if not tried.is_over:
                    known.traced[SOURCE, key] = tried
                    return None
        started = time.thread_time()
        found = typed_results.made(loop, what.f, what.arguments, slice0, begun, ahead, *how)
        reading += time.thread_time() - started
        if why := what.why_other(found, begun.results[0]):
            raise TraceError(why)
        if found.doubt:
            found.settle(rows)
        shared = any(map(_has_array, (*what.arguments.args, *what.arguments.kwargs.values())))
        if found.writes and (shared or found.draws or type(what) is not Along):
            raise TraceError("it writes to its slices")
        if found.draws and what.is_others:
            raise TraceError(DRAWS)
    except ForNow as error:
        known.traced[SOURCE, key] = Refused(str(error), _for_calls(found.unchanged))
        return None
    except TraceError as error:
        if places and family is not None:  # with constants it may be compiled
            family.fix(places)
            return _compiled(what, known, key, begun, seconds, traced, spent, limited)
        known.traced[SOURCE, key] = Refused(str(error), error.unchanged or running.always)
        return None
    except Exception as error:
        known.traced[SOURCE, key] = _faulty(error)
        return None
    if rival is not None:
        if not found.is_quicker(rows, rival):
            known.traced[SOURCE, key] = Refused("its trace is quicker", found.unchanged)
            return None
        return _remembered(known, key, found, family)
    found.seconds = max(found.seconds, seconds or 0.0)  # first slices may take less than others
    # it is longer than it looked; what reading it has taken is gone in any case
    compiling = 0.0 if earlier(what.f) else found.compiling
    if not wanted and what.slices * found.seconds < LIMITS.typed_worth * compiling:
        spent = tried.spent if isinstance(tried, Awaited) else spent
        more = Awaited(LIMITS.typed_worth * (compiling + reading), spent, found.seconds)
        if not more.is_over:
            known.traced[SOURCE, key] = more
            return None
    note(what.f, reading)
    if not (found.is_best or bool(what.untraced) or engine) and (well or traced is None):
        running.remember(known, (SOURCE, key), found)
        # a tracer that has to be loaded waits for the next call
        return found if begun is not None and _TRACES not in sys.modules else None
    return _remembered(known, key, found, family)


def _remembered(
    known: FunctionCache, key: Hashable, found: TypedLoop, family: Family | None
) -> TypedLoop:
    """What runs `f` from now on, and with other numbers, once these come."""
    if family is not None and not found.keeps:
        family.note(found)
    running.remember(known, key, found)
    return found


_TRACES = f"{__package__}.traced"


def with_other_numbers(what: Applied, known: FunctionCache, key: Hashable) -> TypedLoop | None:
    """What runs `f` with other numbers, for these; remembered as `key`. None: nothing does."""
    family, asked = running.family_of(what), config.current().engine
    if family is None or family.loop is None or asked not in family.loop.engines:
        return None
    found: TypedLoop | None = family.loop.with_numbers(what.f, what.arguments)
    if found is None or _is_long(found, what):
        return None
    family.loop = found  # whose record goes on with what its runs take
    running.remember(known, key, found)
    return found


def _given(what: Applied, family: Family) -> Collection[Place]:
    """Which numbers are to be given to what is made now."""
    given = what.arguments
    if family.loop is not None:
        if family.loop.with_numbers(what.f, given) is not None:
            return ()  # but it takes so long that constants pay
        family.loop = None
    return family.places(what.f, given.args, given.kwargs)


def _is_long(found: TypedLoop, what: Applied) -> bool:
    """Whether a run may save more with constants than compiling them takes."""
    took = found.record.expected(what.slices)
    counts = any(issubclass(kind, int | np.integer) for kind in found.kinds)
    share = LIMITS.typed_given_integers if counts else LIMITS.typed_given
    return took is not None and share * took > found.compiled.took


def _for_calls(unchanged: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Hold a refusal for some calls only: then compile again."""
    asked = itertools.count(1)
    return lambda f: next(asked) < LIMITS.typed_again and unchanged(f)


def _faulty(error: Exception) -> Refused:
    """The refusal after an internal error; tests raise it."""
    if LIMITS.raised_faults:
        raise error
    let_pass(error)
    return Refused(
        f"{type(error).__name__} in xpapply itself ({error}): a fault of it, please report it with "
        "the function"
    )


def _loop(rules: str) -> type[TypedLoop] | None:
    """The class of compiled loops for the rules of a library."""
    if "cupy" in rules:
        from ...backends.cpu import for_gpus

        for_gpus.soon()
        from .typed_on_device import NumbersOnDevice, TypedOnDevice

        return TypedOnDevice if rules == "cupy" else NumbersOnDevice
    if not rules:
        return None
    from .typed_loop import TypedLoop

    return TypedLoop


def _read(what: Applied, loop: type[TypedLoop]) -> Guards:
    """Read a function for its first slice, and watch what decides whether it compiles."""
    from . import typed_results

    slice0 = what.slice_at((0,) * len(what.rows().batch))
    found = typed_results.read(loop, what.f, what.arguments, slice0)
    found.made = None  # which may hold arrays
    return found


def is_read(what: Applied, known: FunctionCache, key: Hashable) -> str:
    """Why a function cannot be compiled, by its source; "": no reason found.

    Nothing is called.
    """
    loop, tried = _loop(what.rules), known.traced.get((SOURCE, key))
    assert loop is not None
    if isinstance(tried, Refused) and tried.unchanged(what.f):
        return tried.why
    if isinstance(tried, Guards) and tried(what.f):
        return ""
    try:
        known.traced[SOURCE, key] = _read(what, loop)
    except TraceError as error:
        known.traced[SOURCE, key] = Refused(str(error), error.unchanged or running.always)
    except Exception as error:
        known.traced[SOURCE, key] = _faulty(error)
    else:
        return ""
    return str(known.traced[SOURCE, key].why)


def may_gain(
    what: Applied, known: FunctionCache, key: Hashable, traced: TracedFunction | TypedLoop
) -> bool:
    """Whether a compiled rival of a trace may be faster, and has not been measured.

    A trace of numbers that goes several ways computes all of them for each number. In blocks powers
    of numbers take long, and so do calls that a library has for one slice alone, if no kernel is
    to come.
    """
    if not is_traced(traced) or key is None or config.current().engine:
        return False
    several = what.arguments.numbers and traced.tree.count > 1
    took = traced.record.expected(what.slices)
    if not several and not traced.tree.powers:
        loop = what.slices * traced.seconds
        if what.arguments.numbers or took is None or LIMITS.typed_gain * took < loop:
            return False
    return (
        traced.record.does_well
        and (took is None or took > LIMITS.typed_rival)  # None: the next run tells
        and not isinstance(known.traced.get((SOURCE, key)), Refused)
        and not why_not_compiled()
        and (what.arguments.numbers or traced.tree.powers or traced.is_settled())
    )


def _has_array(x: Any) -> bool:
    """Whether an argument has arrays, which may overlap the array that is written to."""
    return isinstance(x, np.ndarray) or (type(x) in (tuple, list) and any(map(_has_array, x)))


def why_not(what: Applied, known: FunctionCache, key: Hashable) -> str:
    """Why a function with loops is not compiled, or not yet; "": no remark."""
    loop = _loop(what.rules)
    if key is None or loop is None:
        return ""
    if off := why_not_compiled():
        return f"not compiled: {off}"
    tried = known.traced.get((SOURCE, key))
    if isinstance(tried, Awaited) and tried.was_read is not None and tried.was_read(what.f):
        return running.awaited(known, key, surely=True)
    if isinstance(tried, Awaited):
        try:
            tried.was_read = _read(what, loop)
        except TraceError as error:
            tried = Refused(str(error), error.unchanged or running.always)
            known.traced[SOURCE, key] = tried
        except Exception as error:
            tried = known.traced[SOURCE, key] = _faulty(error)
        else:
            return running.awaited(known, key, surely=True)
    if isinstance(tried, Refused) and tried.unchanged(what.f):
        where = re.sub(r" \((line \d+)\)$", r", \1", tried.why)
        return f"not compiled: {where}"
    return ""
