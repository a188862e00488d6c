"""Python functions: whether they run on all slices at once, by what a trace and the time say."""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from .. import arrays, config, error_state, loop, samples
from ..batch_of_one import BatchOfOne
from ..cache import FunctionCache, arguments, cache_of
from ..errors import InputError, TraceError, UnsupportedError
from ..frontends.python.in_blocks import Raises
from ..frontends.python.rows import Rows
from ..frontends.python.runner import Traced
from ..frontends.python.tracing import why_impure
from ..frontends.python.tree import TooManyPaths, Users
from ..looped_arguments import Arguments, Looped
from . import engines, own_apply
from .fallback import announce, in_loop, why_awkward
from .one_kernel import OneKernel
from .plan import Plan

_FEW = 16
"""Up to so many slices NumPy's loop takes less time than looking closer."""
_MOST_TRIES = 3
"""Calls after which a function whose slices go too many ways runs in the loop for good."""
_SLOWER = 1.2
"""Times the loop's time from which a way is given up."""
_PLANNING = 2e-3
"""Seconds that the loop must take for a plan to be worth making."""


# --- deciding -------------------------------------------------------------------------


@dataclass(slots=True)
class Decision:
    """How a Python function runs: what `explain` tells of, and what a call does.

    Attributes
    ----------
    f : callable
        The function, which may be a method for batches of one slice.
    traced : Traced or None
        What runs it on all slices at once.
    why : str or None
        Why the loop runs; None: it does not.
    quick : bool
        Whether that is because the loop takes less time: nobody need hear of it.
    first : tuple or None
        The result for the first slice and the seconds it took, where that was asked for.
    """

    f: Any
    traced: Traced | None = None
    why: str | None = None
    quick: bool = False
    first: tuple[Any, float] | None = None


def decide(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, *, calls: bool = False
) -> Decision:
    """How `f` runs on the slices of `arr`.

    `calls`: whether the result is wanted now, on a NumPy array. Then `f` is not traced if its
    first call tells that the loop is done sooner.
    """
    slices = _slices(axis, arr)
    why = _no_slices_to_trace(arr)
    known, method = cache_of(f)
    key = None if why else _trace_key(method, axis, arr, args, kwargs)
    found: Traced | str | None = None if key is None else known.traced.get(key)
    if isinstance(found, Traced) and not found.unchanged(f):
        found = None
    if found is None or not calls:  # a trace that runs sees that itself
        why = why or error_state.why_per_slice()
    if why:
        return _refusal(f, why, axis, arr, args, kwargs, calls)
    first: tuple[Any, float] | None = None
    if found is None:
        # with fallback="raise", before the first call of f
        if calls and config.current().fallback != "raise":
            started = time.perf_counter()
            try:
                result = f(_first_slice(axis, arr), *args, **kwargs)
            except Exception as error:
                loop.note(error, (0,) * (arr.ndim - 1), axis)
                batched = samples.wanted(f, error, axis, arr, args, kwargs)
                if batched is None:
                    raise
                return decide(batched, axis, arr, args, kwargs, calls=True)
            first = result, time.perf_counter() - started
            if slices * first[1] <= _PLANNING:
                why = "a plan would take longer than the loop"
                return Decision(f, why=why, quick=True, first=first)
        found = _trace(f, axis, arr, args, kwargs, known, key, first)
    if isinstance(found, Traced):
        why = found.refused or _sooner_in_loop(found, slices, key is not None)
        return Decision(f, found, why, not found.refused, first)
    if first is not None:  # it takes a slice
        return Decision(f, why=found, first=first)
    return _refusal(f, found, axis, arr, args, kwargs, calls)


def _refusal(
    f: Any, why: str, axis: int, arr: Any, args: tuple, kwargs: dict, calls: bool
) -> Decision:
    """What to do where `f` cannot be traced: a method may want a batch of one instead."""
    batched = samples.wanted_for(f, why, axis, arr, args, kwargs)
    if batched is None:
        return Decision(f, why=why)
    return decide(batched, axis, arr, args, kwargs, calls=calls)


def _slices(axis: int, arr: Any) -> int:
    return math.prod(arr.shape) // max(1, arr.shape[axis])


def _no_slices_to_trace(arr: Any) -> str | None:
    """Why no plan can be made for such an array."""
    if type(arr) is np.memmap:
        return None if arr.ndim > 1 and arr.size else "the slices are empty"
    library = arrays.library(arr)
    if library == "torch" and arr.requires_grad and sys.modules["torch"].is_grad_enabled():
        return "autograd records this call; under torch.no_grad() it runs at once"
    if library in ("numpy", "cupy"):
        if arr.dtype.kind not in "biufc":
            return f"slices of dtype {arr.dtype}"
    if 0 in arr.shape or arr.ndim < 2:
        return "the slices are empty" if arr.ndim > 1 else "there is one slice only"
    return why_awkward(arr)


def _sooner_in_loop(found: Traced, slices: int, kept: bool) -> str | None:
    """Why the loop takes less time than all slices at once.

    `kept`: whether the trace is remembered, so that later calls need not plan.
    """
    if config.current().engine or found.library != "numpy":
        return None
    if slices <= _FEW:
        return f"up to {_FEW} slices take less time in the loop"
    seconds = slices * found.seconds
    if seconds < (found.overhead if kept else max(found.overhead, _PLANNING)):
        return f"{slices:,} slices take less time in the loop, about {seconds * 1e3:.2g} ms"
    return None


# --- tracing --------------------------------------------------------------------------


def _trace(
    f: Any,
    axis: int,
    arr: Any,
    args: tuple,
    kwargs: dict,
    known: FunctionCache,
    key: Hashable,
    first: tuple[Any, float] | None,
) -> Traced | str:
    """How `f` runs on all slices at once, or the reason why it does not; remembered as `key`.

    `first`: the result of `f` for the first slice and how long that took, if it is known.
    """
    why = why_impure(f)
    if why:
        return why
    if first is not None:
        first = _plain(first[0]), first[1]
    try:
        made: Traced | str = _traced(f, axis, arr, args, kwargs, first)
    except TraceError as error:
        made = str(error)
        if first is None and samples.asks_for_rows(f, made):  # which is asked anew each time
            return made
    except Exception as error:
        made = f"it raises {type(error).__name__}: {error}"
        if first is None:  # what it does for a real slice is not known
            return made
    if key is not None:
        known.traced[key] = made
        if isinstance(made, Traced) and made.keeps:
            weakref.finalize(known.function(), known.traced.pop, key, None).atexit = False
    return made


def _traced(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, first: Any) -> Traced:
    """Trace on the first slice; on another one, if `f` raises for the first and catches that."""
    arr = _plain(arr)
    shape = arr.shape[:axis] + arr.shape[axis + 1 :]
    places = [(0,) * len(shape), tuple(n // 2 for n in shape), (-1,) * len(shape)]
    slices = [arr[(*at[:axis], slice(None), *at[axis:])] for at in places]
    for k, sample in enumerate(slices):
        try:
            return Traced(
                f,
                Arguments((Looped(0), *args), kwargs),
                slices[0],
                sample,
                engines,
                first,
                OneKernel,
            )
        except Raises:
            if k == len(slices) - 1:
                raise
    raise AssertionError


def _trace_key(method: Hashable, axis: int, arr: Any, args: tuple, kwargs: dict) -> Hashable:
    given = arguments(args, kwargs)
    if given is None:
        return None
    foreign = not getattr(arr.dtype, "isnative", True)
    dtype = arr.dtype.str if foreign else arrays.dtype_name(arr)
    return (method, arr.shape[axis], dtype, arrays.library(arr), given)


# --- calls and plans --------------------------------------------------------------------


def call(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """The result on a NumPy array, under no engine that was asked for."""
    if _slices(axis, arr) <= _FEW and config.current().fallback != "raise":
        return loop.apply(f, axis, arr, args, kwargs)  # as `decide` would say
    found = decide(f, axis, arr, args, kwargs, calls=True)
    if found.why is None:
        return _at_once(found, axis, arr, args, kwargs)
    if not found.quick:
        announce(found.f, _slices(axis, arr), found.why)
    f = found.f if found.first is None else _Continued(found.f, found.first[0])
    return loop.apply(f, axis, arr, args, kwargs)


def plan(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, common: dict[str, Any]
) -> tuple[Plan, Callable[[], bool] | None]:
    """The plan of `f`, and how to tell that it still holds (None: not worth remembering).

    `common`: what every plan says.
    """
    found = decide(f, axis, arr, args, kwargs)
    traced, batched = found.traced, found.f is not f
    says = (found.f.says,) if batched else ()
    if traced is None:
        assert found.why is not None
        return _otherwise(found, axis, arr, args, kwargs, says, common), None
    seen: dict[str, Any] = {"result": traced.results[0], "graph": traced.graph}
    if found.why is not None:
        return in_loop(found.f, arr, args, kwargs, (found.why,), common, **seen), None
    alive = _alive(found.f)

    def run(x: Any, a: int) -> Any:
        return _at_once(Decision(alive(), traced), a, x, args, kwargs)

    reasons: list[str] = []
    if traced.given_up:
        reasons.append(f"the last call ran in the loop: {traced.why}")
    if why := why_given_up(traced, Rows(_plain(arr), axis), found.f):
        because = tuple(reasons or [why])
        told: dict[str, Any] = {"engine": "loop", "reasons": because, "kernels": says}
        return Plan(_call=run, _plans=traced.plans, **told, **seen, **common), None
    # slices that were tried may have told that the loop takes less time
    if (quick := decide(f, axis, arr, args, kwargs).why) is not None:
        return in_loop(found.f, arr, args, kwargs, (quick,), common, **seen), None
    engine = None
    rows = Rows(arr, axis)
    kernel = traced.kernel_for(rows)
    if traced.not_compiled:
        reasons.append(traced.not_compiled)
    if kernel is not None:
        reasons += kernel.reasons
    elif traced.fused_on(rows):
        engine, why_not = traced.engine_for(rows)
        reasons += why_not
    elif (slower := traced.slower_than_half(rows)) is not None:
        reasons.append(engines.in_float32(slower, arrays.dtype_name(arr)))
    runs = kernel or engine
    name = common["library"] if runs is None else kernel.engine if engine is None else engine.name
    p = Plan(
        engine=name,
        kernels=(*(traced.kernels if runs is None else runs.kernels), *says),
        reasons=tuple(reasons),
        limits=None if engine is None else engines.limits(engine.backend, arr),
        _call=run,
        _plans=traced.plans,
        **seen,
        **common,
    )
    # of batches: whether f takes a slice is asked anew
    if args or kwargs or batched:
        return p, None
    return p, _still(traced, f, axis, arr, kernel)


def why_given_up(traced: Traced, rows: Rows, f: Any) -> str:
    """Why a call would give up and run the loop, or "": asked where a person wants to know."""
    if traced.library != "numpy" or config.current().engine:
        return ""
    if traced.has_run and not traced.given_up:
        return ""
    return traced.why_given_up(rows, f)


def _otherwise(
    found: Decision,
    axis: int,
    arr: Any,
    args: tuple,
    kwargs: dict,
    says: tuple[str, ...],
    common: dict[str, Any],
) -> Plan:
    """The plan of a function that cannot be traced: the array's library may have a way."""
    why = found.why or ""
    if config.current().engine:
        raise UnsupportedError(
            f"engine {config.current().engine!r} cannot run {common['name']}: {why}"
        )
    try:
        own = own_apply.find(found.f, axis, arr, args, kwargs, call)
    except TraceError as error:
        also = [str(error)] if common["library"] in ("jax", "dask") else []
        return in_loop(found.f, arr, args, kwargs, (why, *also), common)
    return Plan(
        engine=own.engine,
        kernels=(*own.kernels, *says),
        reasons=(why,),
        result=own.result,
        _call=own.call,
        **common,
    )


def _alive(f: Any) -> Callable[[], Any]:
    """How a plan that is remembered finds the function that it is for, without keeping it."""
    if type(f) is BatchOfOne:
        method = _alive(f.func)
        return lambda: BatchOfOne(method())
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


def _still(traced: Traced, f: Any, axis: int, arr: Any, kernel: Any) -> Callable[[], bool] | None:
    """How to tell that a trace is still what runs: it has not been given up."""
    known, method = cache_of(f)
    key = _trace_key(method, axis, arr, (), {})
    if key is None or traced.given_up:
        return None
    slices = _slices(axis, arr)
    singly = len(traced.tree.singly)  # which `explain` tells of
    engine = getattr(kernel, "engine", None)  # another one while it is being compiled
    made, failed = traced.kernel_made, traced.failed

    def unchanged() -> bool:
        same = known.traced.get(key) is traced and not traced.given_up
        same = same and len(traced.tree.singly) == singly
        same = same and traced.kernel_made is made and traced.failed == failed
        same = same and not traced.refused and getattr(kernel, "engine", None) == engine
        same = same and not _sooner_in_loop(traced, slices, True)
        return same and traced.unchanged(known.function())

    return unchanged


# --- running ----------------------------------------------------------------------------


def _at_once(found: Decision, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """In blocks of slices; of the class that the loop would give."""
    assert found.traced is not None
    result = at_once(found.traced, Along(found.f, axis, _plain(arr), args, kwargs))
    if type(arr) is not np.memmap:
        return result
    first = found.first or (found.f(_first_slice(axis, arr), *args, **kwargs),)
    return result.view(np.memmap) if type(first[0]) is np.memmap else result


@dataclass(slots=True)
class Along:
    """What `apply_along_axis` applies a function to."""

    f: Any
    axis: int
    arr: Any
    args: tuple
    kwargs: dict

    @property
    def slices(self) -> int:
        """How many there are."""
        return _slices(self.axis, self.arr)

    @property
    def key(self) -> Hashable:
        """What the function's traces are remembered by; None: they are not."""
        return _trace_key(cache_of(self.f)[1], self.axis, self.arr, self.args, self.kwargs)

    def seconds(self, traced: Traced, took: float) -> float:
        """What one turn of the loop takes, about."""
        return traced.seconds

    def run(self, traced: Any) -> Any:
        """All slices at once."""
        return traced(Rows(self.arr, self.axis), self.f)

    def loop(self, first: tuple[Any] | None = None) -> Any:
        """The plain loop; `first`: the result for the first slice, if that is known."""
        f = self.f if first is None else _Continued(self.f, first[0])
        return loop.apply(f, self.axis, self.arr, self.args, self.kwargs)

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Say at which slice an exception was raised."""
        loop.note(error, index, self.axis)


def at_once(traced: Any, what: Any) -> Any:
    """All slices of `what`, an `Along` or the like, at once.

    If that raises, by the loop, for it to raise what `f` would.
    """
    if traced.refused:  # since the plan was made
        announce(what.f, what.slices, traced.refused)
        return what.loop()
    error, result = _tried(traced, what)
    # here no exception is handled, which would become the context of what f raises
    if isinstance(error, Users):
        what.note(error.raised, error.index)
        raise error.raised
    if error is None:
        return result
    own = isinstance(error, TraceError)
    why = str(error) if own else f"for all slices at once it raises {type(error).__name__}: {error}"
    if own and config.current().fallback == "raise":
        announce(what.f, what.slices, why)
    # what f raises itself says nothing against its plan, so that is kept then
    result = what.loop(getattr(error, "first", None))
    # more slices leave more time to look for paths
    traced.given_up += isinstance(error, TooManyPaths)
    traced.why = why
    if not isinstance(error, (TooManyPaths, error_state.Handled)) or traced.given_up > _MOST_TRIES:
        _refused(traced, what, why)
    announce(what.f, what.slices, why)
    return result


def _tried(traced: Any, what: Any) -> tuple[Exception | None, Any]:
    """What went wrong, or the result."""
    started, paths = time.perf_counter(), traced.tree.count
    try:
        result = what.run(traced)
    except Exception as error:
        if config.current().engine and isinstance(error, UnsupportedError):
            raise
        return error, None
    took = time.perf_counter() - started
    if traced.tree.count == paths and not config.current().engine:
        slow = took > _PLANNING + _SLOWER * what.slices * what.seconds(traced, took)
        traced.slow = traced.slow + 1 if slow else 0
        if traced.slow > 1:
            why = f"all at once it takes longer than the loop (its slices go {paths} ways)"
            _refused(traced, what, why)
    return None, result


def _refused(traced: Any, what: Any, why: str) -> None:
    """Remember that `f` runs in the loop, and have its plans say so."""
    traced.refused = why
    for p in traced.plans:
        p.give_up(why)
    if (key := what.key) is not None:
        cache_of(what.f)[0].traced[key] = why


def _first_slice(axis: int, arr: Any) -> Any:
    return arr.transpose(*range(axis), *range(axis + 1, arr.ndim), axis)[(0,) * (arr.ndim - 1)]


def _plain(x: Any) -> Any:
    """The numbers of a memory-mapped array; anything else as it is."""
    return x.view(np.ndarray) if type(x) is np.memmap else x


class _Continued:
    """`f`, whose first call has been made already.

    Attributes
    ----------
    continues : callable
        The function.
    """

    def __init__(self, f: Any, first: Any) -> None:
        self.continues, self._first, self._pending = f, first, True

    def __call__(self, v: Any, *args: Any, **kwargs: Any) -> Any:
        if self._pending:
            self._pending, first = False, self._first
            self._first = None
            return first
        return self.continues(v, *args, **kwargs)
