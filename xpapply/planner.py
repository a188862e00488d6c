"""Make plans and remember them: lift, choose an engine, or say why the loop has to run."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from . import config, engines, frontends, loop, namespace
from .errors import FallbackWarning, InputError, TraceError, UnsupportedError
from .ir.graph import ShapeDtype
from .ir.rewrite import compact, fold
from .plan import Plan

_WORTH_A_WARNING = 1000
"""Slices from which a plain Python loop is worth a warning."""
_REMEMBERED = 64
"""Plans kept per function; arrays of ever new shapes must not fill the memory."""

NOT_TRACED = "it is a Python function, and those are not traced yet"


# --- memory ---------------------------------------------------------------------------


@dataclass
class _Lifted:
    """A function's graph, or the reason why there is none, while `unchanged` says so."""

    unchanged: Callable[[], bool]
    bound: engines.Bound | None
    reason: str | None


class _Memory:
    """What is known of one function: graphs by slice, plans by array."""

    def __init__(self) -> None:
        self.lifted: dict[Hashable, _Lifted] = {}
        self.plans: dict[Hashable, tuple[Callable[[], bool], Plan]] = {}
        self.warned: set[Hashable] = set()


_memories: dict[int, tuple[weakref.ref[Any], _Memory]] = {}
"""By identity: objects that compare equal need not be the same function."""


def _memory(f: Any) -> tuple[_Memory, Hashable]:
    """The memory of `f`, and what tells the methods of one object apart."""
    anchor, method = (f.__self__, f.__func__) if type(f) is MethodType else (f, None)
    key = id(anchor)
    found = _memories.get(key)
    if found is not None and found[0]() is anchor:
        return found[1], method
    memory = _Memory()
    try:
        ref = weakref.ref(anchor, lambda gone: _forget(key, gone))
    except TypeError:  # cannot be referenced weakly: remember nothing
        return memory, method
    _memories[key] = ref, memory
    return memory, method


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    """Drop what is known of an object that is gone, unless another one has its identity now."""
    if key in _memories and _memories[key][0] is gone:
        del _memories[key]


def _signature(axis: int, arr: Any) -> Hashable:
    """What the choice of an engine depends on."""
    kind: Hashable = type(arr)  # type: ignore[assignment]
    return (axis, kind, config.current().engine, *namespace.signature(arr))


def recall(f: Any, axis: int, arr: Any) -> Plan | None:
    """The plan of an earlier call with such an array, if `f` has not changed since."""
    memory, method = _memory(f)
    found = memory.plans.get((method, _signature(axis, arr)))
    if found is None:
        return None
    unchanged, p = found
    return p if unchanged() else None


def plan(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Plan:
    """Decide how ``apply_along_axis(f, axis, arr, *args, **kwargs)`` runs."""
    if args or kwargs:
        return _plan(f, axis, arr, args, kwargs)[0]
    p = recall(f, axis, arr)
    if p is not None:
        return p
    p, unchanged = _plan(f, axis, arr, args, kwargs)
    if unchanged is not None:
        memory, method = _memory(f)
        if len(memory.plans) >= _REMEMBERED:
            memory.plans.clear()
        memory.plans[method, _signature(axis, arr)] = unchanged, p
    return p


# --- deciding -------------------------------------------------------------------------


def _plan(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict
) -> tuple[Plan, Callable[[], bool] | None]:
    """A plan, and how to tell that it still holds (None: not worth remembering)."""
    library = namespace.library(arr)
    assert library is not None
    shape = tuple(arr.shape)
    aval = ShapeDtype((shape[axis],), namespace.dtype_name(arr))
    common: dict[str, Any] = {
        "name": name_of(f),
        "slice": aval,
        "library": library,
        "arr_shape": shape,
        "axis": axis,
        "device": str(namespace.device(arr)),
    }
    frontend = frontends.find(f)
    forced = config.current().engine

    def in_loop(*reasons: str) -> tuple[Plan, None]:
        call = f if frontend is None else frontend.slice_function(f)
        run = lambda x, a: loop.apply(call, a, x, args, kwargs)  # noqa: E731
        return Plan(engine="loop", reasons=reasons, _call=run, **common), None

    if forced == "loop":
        return in_loop("the loop was asked for")
    if frontend is None:
        if forced:
            raise UnsupportedError(f"engine {forced!r} cannot run {common['name']}: {NOT_TRACED}")
        return in_loop(NOT_TRACED)
    awkward = _awkward(arr)
    if awkward:
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
    if lifted.bound is None:
        reasons.append(f"no graph: {lifted.reason}")
    elif differentiable:
        reasons.append("autograd records this call; under torch.no_grad() it runs fused")
    else:
        engine = engines.choose(lifted.bound, arr, reasons)
        if engine is not None:
            p = Plan(
                engine=engine.name,
                kernels=engine.kernels,
                reasons=tuple(reasons),
                graph=graph,
                result=engine.result,
                limits=engines.limits(engine.name, arr),
                _call=engine,
                **common,
            )
            return p, lifted.unchanged
    if hasattr(frontend, "vectorized") and forced in ("", "torch.vmap"):
        try:
            call = frontend.vectorized(f, axis, arr, args, kwargs, trusted=graph is not None)
        except TraceError as error:
            reasons.append(f"torch.vmap: {error}")
        else:
            kernels = ("torch's own operations on all slices at once",)
            p = Plan(
                engine="torch.vmap",
                kernels=kernels,
                reasons=tuple(reasons),
                graph=graph,
                result=result,
                _call=call,
                **common,
            )
            return p, lifted.unchanged
    if forced:
        why = "; ".join(reasons) or "it is no engine for this array"
        raise UnsupportedError(f"engine {forced!r} cannot run {common['name']}: {why}")
    return in_loop(*reasons)


def _lift(frontend: ModuleType, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> _Lifted:
    """The graph of `f`, from memory while nothing that `f` depends on has changed."""
    memory, method = _memory(f)
    key = (method, aval)
    found = None if args or kwargs else memory.lifted.get(key)
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
            memory.lifted[key] = found
    return found


def _differentiable(frontend: ModuleType, f: Any, arr: Any, args: tuple, kwargs: dict) -> bool:
    """Whether autograd records the call."""
    ask = getattr(frontend, "differentiable", None)
    return ask is not None and ask(f, arr, args, kwargs)


def name_of(f: Any) -> str:
    """What `f` is, in one word."""
    return str(getattr(f, "__qualname__", None) or type(frontends.owner(f)).__qualname__)


def _awkward(arr: Any) -> str | None:
    """Why only NumPy's own loop keeps the meaning of this array."""
    if not isinstance(arr, np.ndarray) or type(arr) in (np.ndarray, np.memmap):
        return None
    if type(arr) is np.ma.MaskedArray:
        return None  # a network reads the data; NumPy's loop loses the mask as well
    return f"{type(arr).__name__} is a subclass of ndarray with a meaning of its own"


def _same_device(arr: Any, others: tuple[Any, ...]) -> None:
    """Arrays among the arguments of `f` must be where `arr` is."""
    for other in others:
        if namespace.library(other) is None or isinstance(other, np.generic):
            continue
        same = namespace.library(other) == namespace.library(arr)
        if not same or namespace.device(other) != namespace.device(arr):
            raise InputError(
                f"arr is {namespace.describe(arr)}, an argument of f is "
                f"{namespace.describe(other)}: bring them to one library and device first"
            )


# --- the slow way is never silent -----------------------------------------------------


def few(shape: tuple[int, ...]) -> bool:
    """Whether an array has too few slices, along any axis, for a warning about a plain loop."""
    return math.prod(shape) < _WORTH_A_WARNING * max(1, min(shape))


def announce(f: Any, p: Plan, stacklevel: int) -> None:
    """Warn once per function that runs slice by slice, or raise."""
    how = config.current().fallback
    if how == "silent" or config.current().engine == "loop":
        return
    plain = frontends.find(f) is None
    if (p.slices or 0) < (_WORTH_A_WARNING if plain else 2):
        return
    advice = (
        "Call it on the whole array if it takes axis=, or pass a torch module or xpapply.MLP"
        if plain
        else "xpapply.explain(...) shows the plan"
    )
    message = (
        f"{p.name} runs slice by slice in Python ({p.slices:,} calls): {'; '.join(p.reasons)}. "
        f"{advice}; options(fallback='silent') hides this warning."
    )
    if how == "raise":
        raise UnsupportedError(message)
    memory, method = _memory(f)
    if method not in memory.warned:
        memory.warned.add(method)
        warnings.warn(message, FallbackWarning, stacklevel=stacklevel + 1)
