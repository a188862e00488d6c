"""Python functions before they are planned: what their loops take, and what a plan would.

What plans and compiles takes 50 to 200 ms to load. So the loop runs for the first functions of a
process, until loops have taken about as long; nothing that is imported here loads any of it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config
from ...functions.cache import arguments, cache_of
from ...functions.purity import has_loop, python_function
from ...limits import LIMITS
from ...loop import reference, thin
from ...loop.begun import Begun, Limited, Over, Users, begun
from ...runtime.budget import Budget, Quick

if TYPE_CHECKING:
    from ...loop.signature import Dims
    from ...loop.vectorize import LoopedCall


def slices(axis: int, arr: Any) -> int:
    """How many slices there are along an axis."""
    return math.prod(arr.shape) // max(1, arr.shape[axis])


def trace_key(method: Hashable, axis: int, arr: Any, args: tuple, kwargs: dict) -> Hashable:
    """What traces are remembered by; None: they are not."""
    given = arguments(args, kwargs)
    if given is None:
        return None
    return (method, arr.shape[axis], _dtype(arr), arrays.library(arr), given)


def key_of(call: LoopedCall, operands: Sequence[Any], dims: Dims) -> Hashable:
    """What traces of a function of several arrays are remembered by; None: they are not."""
    known = call.arguments
    constants = arguments(*known.constants())
    if constants is None:
        return None
    cores = map(dims.sizes.shape, dims.signature.inputs)
    kinds = [(core, _dtype(x), arrays.library(x)) for core, x in zip(cores, operands, strict=True)]
    return (
        cache_of(call.f)[1],
        dims.signature,  # what results have to be
        known.places(),
        constants,
        known.numbers,
        known.results,
        known.dtypes,
        *kinds,
    )


def _dtype(x: Any) -> str:
    """The dtype as a key, with a foreign byte order."""
    foreign = not getattr(x.dtype, "isnative", True)
    return x.dtype.str if foreign else arrays.dtype_name(x)  # type: ignore[no-any-return]


# --- what a plan is worth -------------------------------------------------------------


def quick_for(f: Any) -> Quick:
    """What loops over a function are noted in that has not been called before."""
    if holds_network(f):
        return Quick(LIMITS.plan_worth_of_networks, LIMITS.plan_worth_of_networks)
    # many short calls are worth to compile what goes through loops of its own
    limit = LIMITS.typed_short if has_loop(f) and not why_not_compiled() else math.inf
    return Quick(limit, LIMITS.plan_worth)


def holds_network(f: Any, depth: int = 3) -> bool:
    """Whether a function has a network or an estimator in its closure or among its globals.

    `depth`: how far: functions that it reaches may have what these reach, and so on.
    """
    if type(f) is not FunctionType:
        return depth > 0 and any(
            str(cls.__module__).partition(".")[0] in _PACKAGES for cls in type(f).__mro__
        )
    reached = [f.__globals__.get(name) for name in f.__code__.co_names]
    for cell in f.__closure__ or ():
        with suppress(ValueError):  # it is empty
            reached.append(cell.cell_contents)
    return depth > 0 and any(holds_network(x, depth - 1) for x in reached)


_PACKAGES = ("torch", "sklearn")


def price(f: Any) -> float:
    """CPU seconds of reading a function and compiling it, about, before it is read."""
    own = python_function(f)
    size = 400 if own is None else len(own.__code__.co_code)
    loads = 0.0 if _BACKEND in sys.modules else LIMITS.typed_loading
    llvm = 0.0 if "llvmlite.binding" in sys.modules else LIMITS.llvm_loading
    names = () if own is None else own.__code__.co_names
    solver = 0.0 if _SHORT_SOLVERS.isdisjoint(names) else LIMITS.typed_short_solver
    solver = solver if _SOLVERS.isdisjoint(names) else LIMITS.typed_solver
    if own is not None and ("fmin_l_bfgs_b" in names or ("minimize" in names and _is_long(own))):
        solver = LIMITS.typed_long_solver
    return LIMITS.typed_compiling + LIMITS.typed_per_byte * size + loads + llvm + solver


def _is_long(f: FunctionType) -> bool:
    """Whether a minimum is one within bounds, of which most is compiled."""
    told = [x for c in f.__code__.co_consts for x in (c if type(c) is tuple else (c,))]
    return "bounds" in told or any(isinstance(x, str) and x.lower() == "l-bfgs-b" for x in told)


_SOLVERS = frozenset(
    ("curve_fit", "fmin", "fmin_bfgs", "fsolve", "least_squares", "leastsq", "minimize", "root")
)
"""Functions for which much of ours is compiled ..."""
_SHORT_SOLVERS = frozenset(("quad", "solve_ivp", "minimize_scalar", "fminbound", "root_scalar"))
"""... and those for which less is."""


_BACKEND = f"{__name__.partition('.')[0]}.backends.cpu.typed"


def why_not_compiled() -> str:
    """Why no function is compiled from its source now; "": they are."""
    if not config.current().compile:
        return f"compile=False is in force{config.origin('compile')}"
    if sys.gettrace() is not None or _is_monitored():
        return "a debugger or a report of coverage follows its lines"
    return ""


def _is_monitored() -> bool:
    """Whether one of `sys.monitoring` does (Python 3.12)."""
    if sys.version_info < (3, 12):
        return False
    tools = sys.monitoring
    return any(tools.get_tool(t) for t in (tools.DEBUGGER_ID, tools.COVERAGE_ID))


# --- the loop, until that has paid ----------------------------------------------------


_loops = Budget(0.0)
"""What loops have taken while nothing was loaded that plans, of all functions."""
_PLANS = f"{__package__}.python_functions"


def along(
    f: Any, axis: int, arr: np.ndarray, args: tuple, kwargs: dict
) -> tuple[Any, Begun | None]:
    """What the loop gives; else None, and what it has given for the first slices.

    The axis is not negative. What it takes is noted as `decide` notes it.
    """
    if not (_may_wait(f) and thin.takes(arr, axis) and arr.dtype.kind in _KINDS):
        return None, None
    known, method = cache_of(f)
    key = trace_key(method, axis, arr, args, kwargs)
    count, first = slices(axis, arr), None
    quick = None if key is None else known.traced.get(key)
    if quick is None:
        quick, later = quick_for(f), None
        try:
            first = begun(f, axis, arr, args, kwargs, LIMITS.loop_turn)
        except Users as error:
            later = error
        except Exception as error:
            reference.note(error, (0,) * (arr.ndim - 1), axis)
            raise
        if later is not None:  # no exception is handled here, which would become its context
            reference.note(later.raised, later.index, axis)
            raise later.raised
        assert first is not None
        quick.seconds = first.seconds
    left = _left(f, quick)
    if type(quick) is not Quick or count * quick.seconds > left:
        return None, first
    results = () if first is None else first.results
    calls = Limited(f, count - len(results), left)
    try:
        found = reference.apply(calls.call, axis, arr, args, kwargs, results)
    except Over:
        return None, _given_up(calls, quick, first)
    _noted(calls.took, count, quick)
    if key is not None:
        known.traced[key] = quick
    return found, None


def of_several(
    call: LoopedCall, operands: Sequence[Any], dims: Dims, by_loop: Callable[..., Any]
) -> tuple[Any, Begun | None]:
    """The same for slices of several arrays, or numbers; `by_loop` takes what is called as `f`."""
    f, count = call.f, math.prod(dims.loop)
    if not (_may_wait(f) and operands and count) or {np.ndarray} != {*map(type, operands)}:
        return None, None
    dtypes = *(x.dtype for x in operands), *(call.arguments.dtypes or ())
    if any(d.kind not in _KINDS for d in dtypes) or any(0 in x.shape for x in operands):
        return None, None
    known, key = cache_of(f)[0].traced, key_of(call, operands, dims)
    quick = None if key is None else known.get(key)
    quick = quick_for(f) if quick is None else quick
    if type(quick) is not Quick or (
        quick.seconds < math.inf and count * quick.seconds > _left(f, quick)
    ):
        return None, None
    calls = Limited(f, count, _left(f, quick), LIMITS.plan_worth)
    try:
        found = by_loop(f=calls.call)
    except Over:
        return None, _given_up(calls, quick)
    _noted(calls.took, count, quick)
    if key is not None:
        known[key] = quick
    return found, None


_KINDS = "biufc"


def _may_wait(f: Any) -> bool:
    """Whether the loop may run before anything is loaded."""
    now = config.current()
    if now.engine or now.device or now.fallback == "raise" or not now.plain_loop:
        return False
    return type(f) is FunctionType and LIMITS.first_loops > 0 and _PLANS not in sys.modules


def _left(f: Any, quick: Quick) -> float:
    """Seconds that loops may take before anything is loaded: those of loading, or of compiling."""
    left = LIMITS.first_loops - _loops.spent
    if has_loop(f) and not why_not_compiled():
        left = max(left, LIMITS.first_loops + LIMITS.typed_worth * price(f) - quick.spent)
    return max(left, quick.most) if quick.spent <= quick.limit else left


def _noted(took: float, count: int, quick: Quick) -> None:
    """Note what a loop has taken."""
    quick.spend(took)
    quick.seconds = min(quick.seconds, took / count)
    _loops.spend(took)


def _given_up(calls: Limited, quick: Quick, first: Begun | None = None) -> Begun:
    """What a loop has given before it was given up, which tells what a slice takes."""
    results = [*(first.results if first else ()), *calls.results]
    took = calls.took + (first.took if first else 0.0)
    quick.seconds = took / len(results)
    return Begun(results, quick.seconds, took)
