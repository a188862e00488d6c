"""Make plans and remember them: lift, choose an engine, or say why the loop has to run."""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .. import arrays, config, error_state, frontends, loop, masked, samples
from ..batch_of_one import BatchOfOne
from ..batching import Batched, BatchingRule, NoRule
from ..cache import arguments, cache_of
from ..errors import InputError, TraceError, UnsupportedError, warn
from ..frontends.python import Tracing, why_impure
from ..frontends.python.to_graph import to_graph
from ..frontends.python.tree import SideExit, TooManyPaths
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import compact, fold
from . import engines, own_apply
from .plan import Plan
from .runner import Raises, Traced, Users

_WORTH_A_WARNING = 1000
"""Slices from which a plain Python loop is worth a warning."""

_FEW_BYTES, _FEW_FLOP = 1 << 24, 1 << 28
"""What a GPU is done with in about the time that a call takes on the host: 10 to 30 us."""


# --- memory ---------------------------------------------------------------------------


@dataclass
class _Lifted:
    """A function's graph, or the reason why there is none, while `unchanged` says so."""

    unchanged: Callable[[], bool]
    bound: engines.Bound | None
    reason: str | None


@dataclass(slots=True)
class _Remembered:
    """The plan for arrays of one kind, and what runs it on one, while `unchanged` says so."""

    unchanged: Callable[[], bool]
    plan: Plan
    run: Callable[[Any], Any]
    ahead: bool


def _key(method: Hashable, axis: int, arr: Any) -> Hashable:
    """What the choice of an engine depends on."""
    now = config.current()
    return (method, axis, now.engine, now.precision, *arrays.signature(arr))


def again(f: Any, axis: Any, arr: Any) -> Any:
    """The result of a repeated call: with such an array, of an `f` that has not changed since.

    None where there is more to do. This is all that such a call waits for, so it is as short as
    it can be: whether `axis` and `arr` are right is known from finding them in the memory.
    """
    if type(axis) is not int or arrays.library(arr) is None:
        return None
    known, method = cache_of(f)
    found = known.plans.get(_key(method, axis if axis >= 0 else axis + arr.ndim, arr))
    if found is None:
        return None
    if not found.ahead:
        return found.run(arr) if found.unchanged() else None
    # the device is at work while we look; what it made of old weights is thrown away
    result = found.run(arr)
    return result if found.unchanged() else None


def _ahead(p: Plan, arr: Any) -> bool:
    """Whether a plan only starts work on a device, and little of it."""
    cost = p.cost()
    if cost is None or p.engine in ("torch.batch", "torch.vmap", "slicewise", "array_api"):
        return False
    return arrays.is_asynchronous(arr) and cost[0] <= _FEW_BYTES and cost[1] <= _FEW_FLOP


def plan(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Plan:
    """Decide how ``apply_along_axis(f, axis, arr, *args, **kwargs)`` runs."""
    if args or kwargs:
        return _plan(f, axis, arr, args, kwargs)[0]
    known, method = cache_of(f)
    key = _key(method, axis, arr)
    found = known.plans.get(key)
    if found is not None and found.unchanged():
        return found.plan
    p, unchanged = _plan(f, axis, arr, args, kwargs)
    if unchanged is not None:
        known.plans[key] = _Remembered(unchanged, p, p.prepared(arr, axis), _ahead(p, arr))
    return p


# --- deciding -------------------------------------------------------------------------


def _plan(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict
) -> tuple[Plan, Callable[[], bool] | None]:
    """A plan, and how to tell that it still holds (None: not worth remembering)."""
    if isinstance(arr, np.ma.MaskedArray) and frontends.is_network(f):
        p, unchanged = _plan(f, axis, np.asarray(arr.data), args, kwargs)
        assert p._call is not None
        return replace(p, _call=masked.on_data(p._call)), unchanged
    library = arrays.library(arr)
    assert library is not None
    shape = tuple(arr.shape)
    aval = ShapeDtype((shape[axis],), arrays.dtype_name(arr))
    common: dict[str, Any] = {
        "name": name_of(f),
        "slice": aval,
        "library": library,
        "arr_shape": shape,
        "axis": axis,
        "device": str(arrays.device(arr)),
    }
    frontend = frontends.find(f)
    forced = config.current().engine
    own_ways = getattr(frontend, "VECTORIZED", ())
    engines.check_name(forced, own_ways)

    def in_loop(*reasons: str, **seen: Any) -> tuple[Plan, None]:
        call = f if frontend is None else frontend.slice_function(f)
        run = lambda x, a: loop.apply(call, a, x, args, kwargs)  # noqa: E731
        kernels = (f"one call per slice, {f.says}",) if type(f) is BatchOfOne else ()
        return Plan(
            engine="loop", kernels=kernels, reasons=reasons, _call=run, **seen, **common
        ), None

    if forced == "loop":
        return in_loop("the loop was asked for")
    if frontend is None:
        if 0 in shape[:axis] + shape[axis + 1 :]:
            raise ValueError(loop.EMPTY)
        traced = trace(f, axis, arr, args, kwargs)
        if isinstance(traced, str):
            batched = samples.wanted_for(f, traced, axis, arr, args, kwargs)
            if batched is not None:
                # not remembered: whether f takes a slice is asked anew
                return _plan(batched, axis, arr, args, kwargs)[0], None
        if isinstance(traced, Traced):
            known_result = traced.result_aval
            why = _why_loop(traced, _slices(axis, arr), arguments(args, kwargs) is not None)
            if why:
                return in_loop(why, result=known_result, graph=traced.graph)
            alive = _alive(f)
            run = lambda x, a: in_blocks(traced, alive(), a, x, args, kwargs)  # noqa: E731
            refused: list[str] = []
            if traced.given_up:
                refused.append(f"the last call ran in the loop: {traced.why}")
            engine = None
            also = (f.says,) if type(f) is BatchOfOne else ()
            if traced.fused_on(arr):
                engine, why_not = traced.engine_for(arr)
                refused += why_not
            elif (slower := traced.slower_than_half(arr)) is not None:
                refused.append(_in_float32(slower, aval.dtype))
            p = Plan(
                engine=library if engine is None else engine.name,
                kernels=(*(traced.kernels if engine is None else engine.kernels), *also),
                reasons=tuple(refused),
                result=known_result,
                graph=traced.graph,
                limits=None if engine is None else engines.limits(engine.name, arr),
                _call=run,
                _plans=traced.plans,
                **common,
            )
            return p, None if args or kwargs else _still(traced, f, axis, arr)
        if forced:
            raise UnsupportedError(f"engine {forced!r} cannot run {common['name']}: {traced}")
        try:
            own = own_apply.find(f, axis, arr, args, kwargs, python_function)
        except TraceError as error:
            return in_loop(traced, *([str(error)] if library in ("jax", "dask") else []))
        return Plan(
            engine=own.engine,
            kernels=own.kernels,
            reasons=(traced,),
            result=own.result,
            _call=own.call,
            **common,
        ), None
    awkward = _awkward(arr)
    if awkward and not (isinstance(arr, np.ma.MaskedArray) and "slicewise" in own_ways):
        return in_loop(awkward)
    if 0 in shape[:axis] + shape[axis + 1 :]:
        raise ValueError(loop.EMPTY)
    _same_device(arr, (*args, *kwargs.values()))
    lifted = _lift(frontend, f, aval, args, kwargs)
    if shape[axis] == 0:
        return in_loop("the slices are empty")
    reasons: list[str] = []
    differentiable = _differentiable(frontend, f, arr, args, kwargs)
    result = None if lifted.bound is None else lifted.bound.graph.result
    graph = None if lifted.bound is None else lifted.bound.graph
    engine, half = None, ""
    if lifted.bound is None:
        reasons.append(f"no graph: {lifted.reason}")
    elif differentiable:
        reasons.append("autograd records this call; under torch.no_grad() it runs fused")
    else:
        engine = engines.choose(lifted.bound, arr, reasons)
    if engine is not None and engine.slower_than_half and not forced:
        half = _half_dtype(frontend, f, arr, args, kwargs)
    may = own_ways and (not forced or forced in own_ways or "slicewise" in own_ways)
    if may and (engine is None or half):
        trusted = graph is not None and not half
        try:
            found = frontend.vectorized(f, axis, arr, args, kwargs, trusted=trusted)
        except TraceError as error:
            if f"no graph: {error}" not in reasons:
                reasons.append(str(error))
        else:
            if engine is not None:
                reasons.append(_in_float32(engine, half))
            p = Plan(
                engine=found.engine,
                kernels=found.kernels,
                reasons=tuple(reasons),
                graph=graph,
                result=found.result or result,
                _call=found.call,
                **common,
            )
            return p, lifted.unchanged
    if engine is not None:
        p = Plan(
            engine=engine.name,
            kernels=engine.kernels,
            reasons=tuple(reasons),
            graph=graph,
            result=engine.result,
            limits=engines.limits(engine.name, arr),
            floor=engine.floor,
            expected=engine.expected,
            _call=engine,
            **common,
        )
        return p, lifted.unchanged
    if forced:
        why = "; ".join(reasons) or "it is no engine for this array"
        raise UnsupportedError(f"engine {forced!r} cannot run {common['name']}: {why}")
    return in_loop(*reasons)


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


def _still(traced: Traced, f: Any, axis: int, arr: Any) -> Callable[[], bool] | None:
    """How to tell that a trace is still what runs: it has not been given up."""
    known, method = cache_of(f)
    key = _trace_key(method, axis, arr, (), {})
    if key is None or traced.given_up:
        return None
    slices = _slices(axis, arr)
    singly = len(traced.tree.singly)  # which `explain` tells of

    def unchanged() -> bool:
        same = known.traced.get(key) is traced and not traced.given_up
        same = same and len(traced.tree.singly) == singly
        same = same and not _why_loop(traced, slices, True)
        return same and traced.unchanged(known.function())

    return unchanged


def _lift(frontend: ModuleType, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> _Lifted:
    """The graph of `f`, from memory while nothing that `f` depends on has changed."""
    known, method = cache_of(f)
    key = (method, aval)
    found: _Lifted | None = None if args or kwargs else known.lifted.get(key)
    if found is None or not found.unchanged():
        bound: engines.Bound | None = None
        reason: str | None = None
        sources: tuple[Any, ...] = ()
        try:
            graph = frontend.lift(f, aval, args, kwargs)
            sources = graph.sources
            bound = engines.Bound(compact(fold(graph)))
        except TraceError as error:
            reason = str(error)
        # watched from now on: lifting itself may write (weight_norm recomputes its weight)
        found = _Lifted(frontend.watch(f, args, kwargs, sources), bound, reason)
        if not (args or kwargs):
            known.lifted[key] = found
    return found


def _differentiable(frontend: ModuleType, f: Any, arr: Any, args: tuple, kwargs: dict) -> bool:
    """Whether autograd records the call."""
    ask = getattr(frontend, "differentiable", None)
    return ask is not None and ask(f, arr, args, kwargs)


def _in_float32(engine: engines.Engine, half: str) -> str:
    """Why an engine does not run what could run in 16 bits."""
    what = "; ".join(engine.kernels)
    return f"{engine.name} ({what}): in float32, which is slower here than {half}"


def _half_dtype(frontend: ModuleType, f: Any, arr: Any, args: tuple, kwargs: dict) -> str:
    """The dtype of 16 bits that the library of `f` itself would compute in; "" for none."""
    ask: Callable[..., str] | None = getattr(frontend, "half_dtype", None)
    return "" if ask is None else ask(f, arr, args, kwargs)


def name_of(f: Any) -> str:
    """What `f` is, in one word."""
    f = f.func if type(f) is BatchOfOne else f
    return str(getattr(f, "__qualname__", None) or type(frontends.owner(f)).__qualname__)


def _awkward(arr: Any) -> str | None:
    """Why only NumPy's own loop keeps the meaning of this array."""
    if not isinstance(arr, np.ndarray) or type(arr) in (np.ndarray, np.memmap):
        return None
    return f"{type(arr).__name__} is a subclass of ndarray with a meaning of its own"


def _same_device(arr: Any, others: tuple[Any, ...]) -> None:
    """Arrays among the arguments of `f` must be where `arr` is."""
    for other in others:
        if arrays.library(other) is None or isinstance(other, np.generic):
            continue
        same = arrays.library(other) == arrays.library(arr)
        if not same or arrays.device(other) != arrays.device(arr):
            raise InputError(
                f"arr is {arrays.describe(arr)}, an argument of f is "
                f"{arrays.describe(other)}: bring them to one library and device first"
            )


# --- Python functions -------------------------------------------------------------------

_FEW = 16
"""Up to so many slices NumPy's loop takes less time than looking closer."""
_MOST_TRIES = 3
"""Calls after which a function whose slices go too many ways runs in the loop for good."""
_SLOWER = 1.2
"""Times the loop's time from which a way is given up."""
_PLANNING = 2e-3
"""Seconds that the loop must take for a plan to be worth making."""


def trace(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, first: Any = None
) -> Traced | str:
    """How `f` runs on all slices at once, or the reason why it does not.

    `first`: the result of `f` for the first slice and how long that took, if it is known.
    """
    why = _no_slices_to_trace(arr) or error_state.why_per_slice() or why_impure(f)
    if why:
        return why
    known, method = cache_of(f)
    key = _trace_key(method, axis, arr, args, kwargs)
    found: Traced | str | None = None if key is None else known.traced.get(key)
    if isinstance(found, str) or (found is not None and found.unchanged(f)):
        return found
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
            return Traced(f, args, kwargs, slices[0], sample, _models, first)
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
    return _awkward(arr)


def _why_loop(found: Traced | str, slices: int, kept: bool) -> str | None:
    """Why the loop runs a function that was traced, or could not be; None: it runs in blocks.

    `kept`: whether the trace is remembered, so that later calls need not plan.
    """
    if isinstance(found, str):
        return found
    if found.refused:
        return found.refused
    if config.current().engine or found.library != "numpy":
        return None
    if slices <= _FEW:
        return f"up to {_FEW} slices take less time in the loop"
    seconds = slices * found.seconds
    if seconds < (found.overhead if kept else max(found.overhead, _PLANNING)):
        return f"{slices:,} slices take less time in the loop, about {seconds * 1e3:.2g} ms"
    return None


def in_blocks(traced: Traced, f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """All slices at once; by the loop if that raises, for it to raise what `f` would."""
    if traced.refused:  # since the plan was made
        announce_loop(f, axis, arr, traced.refused)
        return loop.apply(f, axis, arr, args, kwargs)
    error, result = _tried(traced, f, axis, arr, args, kwargs)
    # here no exception is handled, which would become the context of what f raises
    if isinstance(error, Users):
        loop.note(error.raised, error.index, axis)
        raise error.raised
    if error is None:
        return result
    own = isinstance(error, TraceError)
    why = str(error) if own else f"for all slices at once it raises {type(error).__name__}: {error}"
    if own and config.current().fallback == "raise":
        announce_loop(f, axis, arr, why)
    first = getattr(error, "first", None)
    call = f if first is None else _Continued(f, first[0])
    # what f raises itself says nothing against its plan, so that is kept then
    result = loop.apply(call, axis, arr, args, kwargs)
    # more slices leave more time to look for paths
    traced.given_up += isinstance(error, TooManyPaths)
    traced.why = why
    if not isinstance(error, (TooManyPaths, error_state.Handled)) or traced.given_up > _MOST_TRIES:
        _refused(traced, f, axis, arr, args, kwargs, why)
    announce_loop(f, axis, arr, why)
    return result


def _tried(
    traced: Traced, f: Any, axis: int, arr: Any, args: tuple, kwargs: dict
) -> tuple[Exception | None, Any]:
    """What went wrong, or the result."""
    started, paths = time.perf_counter(), traced.tree.count
    try:
        result = traced(arr, axis, f)
    except Exception as error:
        if config.current().engine and isinstance(error, UnsupportedError):
            raise
        return error, None
    took = time.perf_counter() - started
    if traced.tree.count == paths and not config.current().engine:
        slow = took > _SLOWER * _slices(axis, arr) * traced.seconds + _PLANNING
        traced.slow = traced.slow + 1 if slow else 0
        if traced.slow > 1:
            why = f"all at once it takes longer than the loop (its slices go {paths} ways)"
            _refused(traced, f, axis, arr, args, kwargs, why)
    return None, result


def _refused(
    traced: Traced, f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, why: str
) -> None:
    """Remember that `f` runs in the loop, and have its plans say so."""
    traced.refused = why
    for p in traced.plans:
        p.give_up(why)
    known, method = cache_of(f)
    key = _trace_key(method, axis, arr, args, kwargs)
    if key is not None:
        known.traced[key] = why


def python_function(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """A Python function on a NumPy array.

    NumPy's own loop, unless the time of its first call says that a plan pays.
    """
    slices = arr.size // (arr.shape[axis] or 1)
    options = config.current()
    strict = options.fallback == "raise"
    if slices <= _FEW and not options.engine and not strict:
        return loop.apply(f, axis, arr, args, kwargs)
    if options.engine:
        planned = _plan(f, axis, arr, args, kwargs)[0]
        if type(arr) is not np.memmap or not planned.vectorized:
            return planned(arr, axis)
        return _as_first(f(_first_slice(axis, arr), *args, **kwargs), planned(_plain(arr), axis))
    why = _no_slices_to_trace(arr)
    known, method = cache_of(f)
    key = None if why else _trace_key(method, axis, arr, args, kwargs)
    found: Traced | str | None = None if key is None else known.traced.get(key)
    first: tuple[Any, float] | None = None
    if isinstance(found, Traced) and not found.unchanged(f):
        found = None
    if found is None:
        why = why or error_state.why_per_slice()
    if why:
        announce_loop(f, axis, arr, why)
        return loop.apply(f, axis, arr, args, kwargs)
    if found is None and strict:
        found = trace(f, axis, arr, args, kwargs)  # before the first call of f
    batched = None
    if isinstance(found, str):
        batched = samples.wanted_for(f, found, axis, arr, args, kwargs)
    elif found is None:
        slice0 = _first_slice(axis, arr)
        started = time.perf_counter()
        try:
            result = f(slice0, *args, **kwargs)
        except Exception as error:
            loop.note(error, (0,) * (arr.ndim - 1), axis)
            batched = samples.wanted(f, error, axis, arr, args, kwargs)
            if batched is None:
                raise
    if batched is not None:
        return python_function(batched, axis, arr, args, kwargs)
    if found is None:
        first = result, time.perf_counter() - started
        if slices * first[1] <= _PLANNING:
            return loop.apply(_Continued(f, result), axis, arr, args, kwargs)
        found = trace(f, axis, arr, args, kwargs, (_plain(result), first[1]))
    why = _why_loop(found, slices, key is not None)
    if why is None:
        assert isinstance(found, Traced)
        result = in_blocks(found, f, axis, _plain(arr), args, kwargs)
        if type(arr) is not np.memmap:
            return result
        return _as_first(first[0] if first else f(_first_slice(axis, arr), *args, **kwargs), result)
    if isinstance(found, str):
        announce_loop(f, axis, arr, why)
    call = f if first is None else _Continued(f, first[0])
    return loop.apply(call, axis, arr, args, kwargs)


def _first_slice(axis: int, arr: Any) -> Any:
    return arr.transpose(*range(axis), *range(axis + 1, arr.ndim), axis)[(0,) * (arr.ndim - 1)]


def _plain(x: Any) -> Any:
    """The numbers of a memory-mapped array; anything else as it is."""
    return x.view(np.ndarray) if type(x) is np.memmap else x


def _as_first(first: Any, result: Any) -> Any:
    """A result of the class of the first slice's, as NumPy's loop makes it."""
    return result.view(np.memmap) if type(first) is np.memmap else result


class _Continued:
    """`f`, whose first call has been made already."""

    def __init__(self, f: Any, first: Any) -> None:
        self._f, self._first, self._pending = f, first, True

    def __call__(self, v: Any, *args: Any, **kwargs: Any) -> Any:
        if self._pending:
            self._pending, first = False, self._first
            self._first = None
            return first
        return self._f(v, *args, **kwargs)


def function_graph(f: Any, aval: ShapeDtype) -> Graph:
    """The graph of a Python function, traced on a slice of made-up numbers."""
    why = why_impure(f)
    if why:
        raise UnsupportedError(f"{name_of(f)}: {why}")
    slice0 = np.linspace(0.5, 1.5, math.prod(aval.shape)).reshape(aval.shape).astype(aval.dtype)
    tracing = Tracing((), {}, "numpy", _models)
    try:
        path, _ = tracing(f, slice0)
    except UnsupportedError as error:
        raise UnsupportedError(f"{name_of(f)}: {error}") from None
    if tracing.scratch:
        raise UnsupportedError(f"{name_of(f)}: it sets attributes, which a graph does not")
    if isinstance(path.result, SideExit):
        raise UnsupportedError(f"{name_of(f)}: {path.result.why}")
    return to_graph(path, aval)


def _models(
    model: Any, shape: tuple[int, ...], dtype: Any
) -> tuple[BatchingRule, Callable[..., Any]]:
    """A network inside a Python function: its own plan for all slices."""
    frontend = frontends.find(model)
    assert frontend is not None
    graph = compact(fold(frontend.lift(model, ShapeDtype(shape, np.dtype(dtype).name), (), {})))
    run, name = engines.AnyLibrary(graph), name_of(model)

    def rule(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
        (x,) = args
        if not isinstance(x, Batched) or x.ndim != 1:
            raise NoRule(f"{name} of {x}")
        return Batched(run(x.array, 1))

    return BatchingRule(f"the network {name}", rule), frontend.slice_function(model)


# --- the slow way is never silent -----------------------------------------------------


def announce(f: Any, p: Plan) -> None:
    """Warn once per function that runs slice by slice, or raise."""
    _announce(f, p.name, p.slices or 0, "; ".join(p.reasons))


def announce_loop(f: Any, axis: int, arr: Any, why: str) -> None:
    """The same for an array that has no plan."""
    slices = _slices(axis, arr)
    _announce(f, name_of(f), slices, why)


def _announce(f: Any, name: str, slices: int, why: str) -> None:
    how = config.current().fallback
    if how == "silent" or config.current().engine == "loop":
        return
    plain = frontends.find(f) is None and how != "raise"
    if slices < (_WORTH_A_WARNING if plain else 2):
        return
    message = (
        f"{name} runs slice by slice in Python ({slices:,} calls): {why}. "
        "xpapply.explain(...) shows the plan; options(fallback='silent') hides this warning."
    )
    if how == "raise":
        raise UnsupportedError(message)
    known, method = cache_of(f)
    if method not in known.warned:
        known.warned.add(method)
        warn(message)
