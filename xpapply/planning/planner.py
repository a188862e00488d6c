"""Make plans and remember them: lift, choose an engine, or say why the loop has to run."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod, ref

import numpy as np

from .. import arrays, config, frontends
from ..arrays import masked
from ..backends import choice
from ..errors import InputError, TraceError, UnsupportedError
from ..frontends import Frontend
from ..functions.cache import cache_of
from ..ir.avals import ShapeDtype
from ..limits import LIMITS
from ..loop import reference
from ..runtime.budget import Budget, Quick
from . import engines
from .application import Application, announce, why_awkward
from .own_loop import OwnLoop

if TYPE_CHECKING:
    from ..backends import Later
    from ..ir.graph import Graph
    from . import measured
    from .measured import Measured
    from .plan import Plan

# --- memory ---------------------------------------------------------------------------


@dataclass
class _Lifted:
    """A function's graph, or the reason why there is none, while `unchanged` says so."""

    unchanged: Callable[[], bool]
    bound: engines.Bound | None
    reason: str | None
    checked: frontends.Checked | None = None


@dataclass(slots=True)
class Remembered:
    """The plan for arrays of one kind, and what runs it on one, while `unchanged` says so.

    None: there is no plan yet. Where the loop runs, ``looped(f, arr)`` is it, which may give None
    where there is more to do; `told`: the options under which this was announced. `loops`: what
    first calls were counted in, if these ran in the loop; `beside`: what times calls beside it.
    """

    unchanged: Callable[[], bool]
    plan: Plan | None
    run: Callable[[Any], Any] | None = None
    ahead: bool = False
    looped: Callable[[Any, Any], Any] | None = None
    told: config.Options | None = None
    loops: Quick | None = None
    beside: measured.BesideLoop | None = None


class _Rests:
    """A refusal that holds until the loop has taken many times as long as the try did.

    What `f` depends on is looked at again once loops have taken many times what a look takes.
    `later`: what calls are counted in until something is compiled, which ends it too. `quick`:
    whether the loop takes less time, so that who wants none gets none.
    """

    def __init__(
        self,
        own: OwnLoop,
        unchanged: Callable[[], bool],
        seconds: float,
        later: Later | None = None,
        quick: bool = False,
    ) -> None:
        self._loop, self._unchanged, self._later, self._quick = own, unchanged, later, quick
        self._look, self._seconds = False, 0.0
        self.budget = Budget(LIMITS.loops_per_refusal * seconds)

    def follows(self, before: _Rests) -> None:
        """Double the wait after another try in vain."""
        if before.budget.is_over:
            self.budget = before.budget.again(self.budget.limit)

    def __call__(self) -> bool:
        budget, unseen = self.budget, self._loop.unseen
        rests = budget.spent < budget.limit
        rests = rests and (self._later is None or not self._later.budget.is_over)
        rests = rests and not (self._quick and config.current().fallback == "raise")
        if rests and unseen.spent < unseen.limit:
            return self._loop.holds
        began = perf_counter()
        self._look = rests and self._unchanged()
        self._seconds = perf_counter() - began
        return self._look

    def looped(self, f: Any, arr: Any) -> Any:
        """The loop, whose seconds are counted."""
        began = perf_counter()
        if self._look:
            self._look = False
            self._loop.look(f, self._seconds)
        if self._later is not None:
            self._later.budget.spend(self._later.cost)
        try:
            if masked.is_masked(arr):
                return masked.on_data(lambda x, _: self._loop(f, x))(arr, self._loop.axis)
            return self._loop(f, arr)
        finally:
            self.budget.spent += perf_counter() - began


def key_of(method: Hashable, axis: int | tuple[int, ...], arr: Any) -> Hashable:
    """The key of a remembered choice of engine."""
    now = config.current()
    how = now.engine, now.precision, now.threads, now.device
    return (method, axis, *how, *arrays.signature(arr))


def again(f: Any, axis: Any, arr: Any) -> Any:
    """The result of a repeated call: with such an array, of an `f` that has not changed since.

    None where there is more to do. This is all that such a call waits for, so it is as short as
    it can be: whether `axis` and `arr` are right is known from finding them in the memory.
    """
    if arrays.library(arr) is None:
        return None
    if type(axis) is int:
        axis = axis if axis >= 0 else axis + arr.ndim
    elif type(axis) is not tuple or {*map(type, axis)} != {int}:
        return None
    elif len(axis) == 1:
        axis = axis[0] if axis[0] >= 0 else axis[0] + arr.ndim
    elif min(axis) < 0:
        axis = tuple([a if a >= 0 else a + arr.ndim for a in axis])
    known, method = cache_of(f)
    found = known.plans.get(key_of(method, axis, arr))
    if found is None:
        return None
    if not found.ahead:
        if not found.unchanged():
            return None
        if found.run is None:
            assert found.looped is not None
            now, p = config.current(), found.plan
            if p is not None and not p._quick and found.told is not now:
                announce(f, p.slices or 0, "; ".join(p.reasons), arr)
                found.told = now
            return found.looped(f, arr)
        return found.run(arr)
    # the device is at work while we look; what it made of old weights is thrown away
    result = found.run(arr)
    return result if found.unchanged() else None


def remember(
    f: Any,
    axes: tuple[int, ...],
    arr: Any,
    flat: tuple[Any, int, Any],
    through: Callable[[Any, Callable[[Any], Any]], Any],
) -> Callable[[Any], Any] | None:
    """Remember the run of `f` along several axes: that of the flattened function.

    ``through(arr, run)`` lays the slices of an array flat, and gives what `run` makes of them.
    None where no plan for `flat` is remembered.
    """
    function, axis, rows = flat
    known, method = cache_of(function)
    found = known.plans.get(key_of(method, axis, rows))
    if found is None or found.run is None:
        return None
    call = found.run

    def run(x: Any) -> Any:
        return through(x, call)

    known, method = cache_of(f)
    known.plans[key_of(method, axes, arr)] = replace(found, run=run)
    return run


def _ahead(p: Plan, arr: Any) -> bool:
    """Whether a plan only starts work on a device, and little of it."""
    cost = p.cost()
    if cost is None or p.engine in ("torch.batch", "torch.vmap", "slicewise", "array_api"):
        return False
    return (
        arrays.is_asynchronous(arr)
        and cost[0] <= LIMITS.launched_bytes
        and cost[1] <= LIMITS.launched_flop
    )


def plan(app: Application) -> Plan:
    """Decide how a function is applied to the slices along one axis."""
    if app.args or app.kwargs:
        return _plan(app)[0]
    axis, arr = app.axis, app.arr
    known, method = cache_of(app.f)
    key = key_of(method, axis, arr)
    found = known.plans.get(key)
    if found is not None and found.plan is not None and found.unchanged():
        return found.plan
    loops = None if found is None else found.loops
    p, unchanged = (found and _slower(app, found)) or _plan(app)
    if unchanged is not None:
        if type(unchanged) is _Rests:
            if found is not None and type(found.unchanged) is _Rests:
                unchanged.follows(found.unchanged)
            known.plans[key] = Remembered(unchanged, p, looped=unchanged.looped, loops=loops)
            return p
        run = p.prepared(arr, axis)
        if p._later is not None or loops is not None:
            from . import measured
        beside = None
        now = config.current()
        if loops is not None and p.vectorized and not now.engine and now.fallback != "raise":
            beside = measured.BesideLoop(run, unchanged, (p.slices or 1) * loops.seconds)
            run, unchanged = beside, beside.unchanged
        if p._later is not None:
            run, unchanged = measured.counted(run, unchanged, p._later)
        ahead = _ahead(p, arr)
        known.plans[key] = Remembered(unchanged, p, run, ahead, loops=loops, beside=beside)
    return p


def _slower(app: Application, found: Remembered) -> tuple[Plan, _Rests] | None:
    """The loop instead of what took longer, until loops have taken many times as long as that."""
    p, beside = found.plan, found.beside
    if p is None or beside is None or not beside.is_slower or config.current().fallback == "raise":
        return None
    frontend, count = frontends.find(app.f), "1 slice" if p.slices == 1 else f"{p.slices:,} slices"
    why = (
        f"{p.engine}: {beside.least * 1e6:.3g} us for {count}, the loop {beside.loop * 1e6:.3g}; "
        f"options(engine={p.engine!r}) takes it"
    )
    try:
        own = OwnLoop(frontend, app.f, app.axis)
    except TypeError:  # of a class without weak references
        return None
    looped = replace(_in_loop(app, frontend, app.f, (why,)), _quick=True)
    return looped, _Rests(own, beside.guard, beside.took, p._later, quick=True)


# --- deciding -------------------------------------------------------------------------


def _plan(app: Application) -> tuple[Plan, Callable[[], bool] | None]:
    """A plan, and how to tell that it still holds (None: not worth remembering)."""
    f, arr = app.f, app.arr
    if masked.is_masked(arr) and frontends.is_network(f):
        p, unchanged = _plan(app.on(np.asarray(arr.data)))
        assert p._call is not None
        return replace(p, _call=masked.on_data(p._call)), unchanged
    frontend = frontends.find(f)
    forced = config.current().engine
    choice.check_name(forced, frontend.ways)
    if forced == "loop":
        return app.in_loop(("the loop was asked for",), frontend.slice_function(f)), None
    if frontends.is_python(f):
        app.check_any()
        from .python import python_functions  # and with it the tracer, which networks do not need

        if (app.args or app.kwargs) and arrays.library(app.arr) == "cupy":
            from .python import beside_arrays

            if (made := beside_arrays.plan(app)) is not None:
                return made, None
        return python_functions.plan(app)
    return _plan_network(frontend, app)


def _plan_network(frontend: Frontend, app: Application) -> tuple[Plan, Callable[[], bool] | None]:
    """Plan a function that a frontend of its own can lift."""
    f, axis, arr, args, kwargs = app.f, app.axis, app.arr, app.args, app.kwargs
    aval, device, forced = app.slice, str(arrays.device(arr)), config.current().engine
    own_ways = frontend.ways

    rests: _Rests | None = None
    given = f  # what is fitted to slices below lives no longer than this call

    def loop_for(*reasons: str) -> tuple[Plan, _Rests | None]:
        if rests is None:
            return app.in_loop(reasons, frontend.slice_function(f)), None
        return _in_loop(app, frontend, given, reasons, f), rests

    awkward = why_awkward(arr)
    if awkward and not (masked.is_masked(arr) and "slicewise" in own_ways):
        return loop_for(awkward)
    app.check_any()
    _same_device(arr, (*args, *kwargs.values()))
    if not (args or kwargs):
        f = frontend.fitted(f, aval.shape, aval.dtype)
    lifted = _lift(frontend, f, aval, args, kwargs)
    if aval.shape[0] == 0:
        return loop_for("the slices are empty")
    reasons: list[str] = []
    bound, engine = lifted.bound, None
    if bound is None:
        reasons.append(f"no graph: {lifted.reason}")
    elif frontend.differentiable(f, arr, args, kwargs):
        reasons.append("autograd records this call; under torch.no_grad() it runs fused")
    else:
        engine = engines.choose(bound, arr, axis, reasons)
    graph = None if bound is None else bound.graph
    half = ""
    if engine is not None and engine.slower_than_half and not forced:
        half = frontend.half_dtype(f, arr, args, kwargs)
    slower = "" if engine is None or forced else _why_slower(engine, half, device)
    times: Measured | None = None
    may = own_ways and (not forced or forced in own_ways or "slicewise" in own_ways)
    if may and (engine is None or slower):
        trusted = graph is not None and not slower and not graph.gathers
        began = perf_counter()
        try:
            own = frontend.vectorized(f, axis, arr, args, kwargs, trusted=trusted, graph=graph)
        except TraceError as error:
            # of an engine that was asked for, what else there might be is no reason
            if f"no graph: {error}" not in reasons and (not forced or forced in own_ways):
                reasons.append(str(error))
            if error.unchanged is not None:
                seconds = perf_counter() - began
                with suppress(TypeError):  # of a class without weak references
                    own_loop = OwnLoop(frontend, given, axis)
                    rests = _Rests(own_loop, partial(error.unchanged, None), seconds)
        else:
            if engine is not None:
                times, slower = _weighed(engine, own, slower, arr, axis, measure=not half)
            reasons += [slower] * bool(slower)
            if times is None or not times.own_is_faster:
                result = own.result or (None if graph is None else graph.result)
                p = app.plan(
                    own.engine,
                    kernels=own.kernels,
                    reasons=(*reasons, *own.reasons),
                    graph=graph,
                    results=None if result is None else (result,),
                    expected=times and times.other * math.prod(app.batch),
                    _call=own.call,
                    _later=None if engine is None else engine.later,
                )
                return p, own.unchanged or lifted.unchanged
    if engine is not None:
        checked = lifted.checked
        p = app.plan(
            engine.name,
            kernels=engine.kernels,
            reasons=tuple(reasons),
            graph=graph if checked is None else checked.shown,
            results=(engine.result if checked is None else checked.result,),
            limits=choice.limits(engine.backend, arr),
            floor=engine.floor,
            expected=engine.expected if times is None else times.own * math.prod(app.batch),
            _call=engine if checked is None else checked.around(engine),
            _later=engine.later,
        )
        return p, lifted.unchanged
    if forced:
        why = "; ".join(reasons) or f"it is not an engine for {arrays.describe(arr)}"
        raise UnsupportedError(f"engine {forced!r} cannot run {frontends.name_of(app.f)}: {why}")
    return loop_for(*reasons)


def _in_loop(
    app: Application, frontend: Frontend, given: Any, reasons: tuple[str, ...], f: Any = None
) -> Plan:
    """The plan of the loop over a function that it does not keep alive.

    `f`: what has been made of it for these slices.
    """
    alive = WeakMethod(given) if isinstance(given, MethodType) else ref(given)
    args, kwargs = app.args, app.kwargs

    def run(x: Any, a: int) -> Any:
        return reference.apply(frontend.slice_function(alive()), a, x, args, kwargs)

    p = app.in_loop(reasons, frontend.slice_function(given if f is None else f))
    return replace(p, _call=run)


def _why_slower(engine: engines.Engine, half: str, device: str) -> str:
    """Why the library of `f` itself may be faster than an engine, or "".

    `half`: the dtype of 16 bits that it would compute in, if any.
    """
    graph = engine.graph
    if half:
        return engines.in_float32(engine, half)
    if graph.gathers:
        return "" if engine.faster_than_layers else engines.by_windows(engine)
    if graph.descends and engine.backend == "array_api" and "cpu" in device.lower():
        return engines.by_definition(engine)
    return ""


def _weighed(
    engine: engines.Engine, own: Any, slower: str, arr: Any, axis: int, *, measure: bool
) -> tuple[Measured | None, str]:
    """Time an engine and the library's own way, and say why the slower one does not run.

    None where that is not measured: then it is `slower` that tells.
    """
    times = None
    if measure:
        from . import measured

        times = measured.compare(engine, own.call, arr, axis)
    if times is not None:
        ways = (engine.name, engine.kernels), (own.engine, own.kernels)
        less, more = ways if times.own_is_faster else ways[::-1]
        slower = times.said(more[0], more[1], less[0])
    return times, f"{engine.name}: {engine.failed}" if engine.failed else slower


def _lift(frontend: Frontend, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> _Lifted:
    """Lift `f`, from memory while its dependencies are unchanged."""
    known, method = cache_of(f)
    key = (method, aval)
    found: _Lifted | None = None if args or kwargs else known.lifted.get(key)
    if found is None or not found.unchanged():
        bound: engines.Bound | None = None
        reason: str | None = None
        sources: tuple[Any, ...] = ()
        checked: frontends.Checked | None = None
        try:
            checked = frontend.checked(f, aval, args, kwargs)
            graph = frontend.lift(f, aval, args, kwargs) if checked is None else checked.graph
            sources = graph.sources
            from ..ir.rewrite import compact, fold

            bound = engines.Bound(compact(fold(graph)))
        except TraceError as error:
            reason = str(error)
        # watched from now on: lifting itself may write (weight_norm recomputes its weight)
        found = _Lifted(frontend.watch(f, args, kwargs, sources), bound, reason, checked)
        if not (args or kwargs):
            known.lifted[key] = found
    return found


def graph_of(frontend: Frontend, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The folded graph of `f`, from memory while its dependencies are unchanged.

    Raises
    ------
    TraceError
        If there is none.
    """
    found = _lift(frontend, f, aval, args, kwargs)
    if found.bound is None:
        raise TraceError(found.reason)
    return found.bound.graph


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
