"""Python functions before they are planned: what their loops take, and what a plan would.

What plans and compiles takes 50 to 200 ms to load. So the loop runs for the first functions of a
process, until loops have taken about as long; nothing that is imported here loads any of it.
"""

from __future__ import annotations

import functools
import math
import struct
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config
from ...functions.cache import arguments, cache_of
from ...functions.purity import (
    has_loop,
    helpers,
    in_cells,
    names,
    opcodes,
    python_function,
    steps_of,
)
from ...limits import LIMITS
from ...loop import reference, thin
from ...loop.begun import Begun, Limited, Over, Users, begun
from ...runtime.budget import Budget, Quick
from ...runtime.registry import generator_kind, method_kind

if TYPE_CHECKING:
    from ...loop.signature import Dims
    from ...loop.vectorize import LoopedCall


def slices(axis: int, arr: Any) -> int:
    """The number of slices along an axis."""
    return math.prod(arr.shape) // max(1, arr.shape[axis])


def trace_key(
    method: Hashable, axis: int, arr: Any, args: tuple, kwargs: dict, kinds: bool = False
) -> Hashable:
    """The key of traces; None: traces are not kept.

    `kinds`: whatever numbers there are among the arguments.
    """
    given = arguments(args, kwargs, kinds)
    if given is None:
        return None
    return (method, arr.shape[axis], _dtype(arr), arrays.library(arr), given)


def key_of(call: LoopedCall, operands: Sequence[Any], dims: Dims, kinds: bool = False) -> Hashable:
    """The key of traces of a function of several arrays; None: traces are not kept.

    `kinds`: whatever numbers there are among the arguments.
    """
    known = call.arguments
    constants = arguments(*known.constants(), kinds)
    if constants is None:
        return None
    cores = map(dims.sizes.shape, dims.signature.inputs)
    slices_of = [
        (core, _dtype(x), arrays.library(x), 0.0 if core or known.numbers else endless(x))
        for core, x in zip(cores, operands, strict=True)
    ]
    return (
        cache_of(call.f)[1],
        dims.signature,  # what results have to be
        known.places(),
        constants,
        known.numbers,
        known.results,
        known.dtypes,
        *slices_of,
    )


def endless(x: Any) -> float:
    """The first number of some, if it is infinite: a bound that there is none."""
    if not isinstance(x, (np.ndarray, np.floating)) or x.dtype.kind != "f" or not x.size:
        return 0.0
    first = float(x.item(0))
    return first if math.isinf(first) else 0.0


def _dtype(x: Any) -> str:
    """The dtype as a key, with a foreign byte order."""
    foreign = not getattr(x.dtype, "isnative", True)
    return x.dtype.str if foreign else arrays.dtype_name(x)  # type: ignore[no-any-return]


# --- what a plan is worth -------------------------------------------------------------


def quick_for(f: Any) -> Quick:
    """The record of loops over a function that has not been called before."""
    if holds_network(f):
        return Quick(LIMITS.plan_worth_of_networks, LIMITS.plan_worth_of_networks)
    # many short calls are worth to compile what goes through loops of its own
    limit = LIMITS.typed_short if is_read(f) else math.inf
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


ENGINES = {"numpy": ("", "cpu"), "cupy": ("",), "numbers of cupy": ("",)}
"""Engines of `xpapply.options` that compile functions, by the rules of a library."""


def is_read(f: Any) -> bool:
    """Whether a function may be read from its source and compiled."""
    return (has_loop(f) or solves(f)) and not why_not_compiled()


def price(f: Any) -> float:
    """CPU seconds of reading a function and compiling it, about, before it is read."""
    own = python_function(f)
    size = 400 if own is None else len(own.__code__.co_code)
    loads = 0.0 if _BACKEND in sys.modules else LIMITS.typed_loading
    llvm = 0.0 if "llvmlite.binding" in sys.modules else LIMITS.llvm_loading
    of_library = _of_solvers(f) + LIMITS.typed_page * _pages(f)
    if draws(f):
        of_library += LIMITS.typed_minimum
    made = LIMITS.typed_compiling + LIMITS.typed_per_byte * size + loads + llvm + of_library
    return min(made, earlier(f) or math.inf)


def earlier(f: Any) -> float:
    """CPU seconds that a dear function takes if its machine code is on disk; 0: not known."""
    return _earlier(_codes(f)) if _of_solvers(f) >= LIMITS.typed_noted else 0.0


def note(f: Any, reading: float) -> None:
    """Note what reading a dear function has taken, which is compiled now, for other processes."""
    if reading > 0 and _of_solvers(f) >= LIMITS.typed_noted and not earlier(f):
        from ...backends.cpu import disk_cache

        took = struct.pack("d", LIMITS.typed_written * reading)
        disk_cache.write(_entry(_codes(f)), took)


@functools.lru_cache(64)
def _earlier(codes: tuple[CodeType, ...]) -> float:
    from ...backends.cpu import disk_cache

    found = disk_cache.read(_entry(codes)) or b""
    return struct.unpack("d", found)[0] if len(found) == 8 else 0.0  # type: ignore[no-any-return]


def _codes(f: Any) -> tuple[CodeType, ...]:
    return tuple(own.__code__ for own in helpers(f))


def _entry(codes: tuple[CodeType, ...]) -> str:
    """The key on disk of what reading a function takes."""
    from ...functions import identity

    version = sys.modules[__name__.partition(".")[0]].__version__
    return f"took\0{version}\0{identity.of(*codes)}"


def _pages(f: Any) -> int:
    """Estimate the number of library modules that compiling a function reads."""
    codes = [own.__code__ for own in helpers(f)]
    named = frozenset[str]().union(*map(names, codes))
    steps = frozenset[int]().union(*map(opcodes, codes))
    # what puts numbers into texts is longer than another
    texts = 2 * (not _TEXTS.isdisjoint(steps))
    return len(_PAGES & named) + (not _TABLES.isdisjoint(steps)) + texts


_PAGES = frozenset(
    "Counter argsort convolve corrcoef defaultdict deque dict format get groupby heappop heappush "
    "histogram interp join median most_common nanmedian nanpercentile nanquantile nlargest "
    "nsmallest percentile polyfit quantile quantiles repr searchsorted set sort sorted split stdev "
    "str unique".split()
)
_TABLES = steps_of("BUILD_MAP BUILD_SET MAP_ADD SET_ADD")
_TEXTS = steps_of("FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC BUILD_STRING")
"""Opcodes whose steps are written in the library."""


def _of_solvers(f: Any) -> float:
    """The part of the price that is of solvers which a function names; 0: it names none."""
    return max((_of_solver(n, own) for own in helpers(f) for n in _solvers(own)), default=0.0)


def _told(own: FunctionType) -> set[str]:
    """Texts that a function has, and names: methods of solvers, and of their arguments."""
    given = (x for c in own.__code__.co_consts for x in (c if type(c) is tuple else (c,)))
    return {x.lower() for x in (*given, *names(own.__code__)) if isinstance(x, str)}


def solves(f: Any) -> bool:
    """Whether a function names what can only be compiled: solvers, random numbers.

    That is a solver, or a generator of random numbers.
    """
    return _of_solvers(f) > 0 or any(map(_has_generator, helpers(f)))


def _has_generator(own: FunctionType) -> bool:
    """Whether a function names a random generator of NumPy, or one of its methods."""
    named = own.__code__.co_names
    for x in (*map(own.__globals__.get, named), *(x for _, x in in_cells(own))):
        if type(x) is ModuleType:
            if "random" in named and x.__name__ in ("numpy", "random"):
                return True
        elif generator_kind(x) or method_kind(x):
            return True
    return False


def holds_generator(f: Any, depth: int = 4) -> bool:
    """Whether an object reaches a known random generator.

    `depth`: how far: what it holds, and functions that it names, may hold more.
    """
    if depth == 0 or f is None:
        return False
    if generator_kind(f):
        return True
    reached: list[Any] = []
    if type(f) in (MethodType, BuiltinFunctionType):  # others may raise for any attribute
        reached += [f.__self__, getattr(f, "__func__", None)]
    if type(f) is ModuleType:
        return f.__name__ in ("numpy.random", "random")
    if type(f) is FunctionType:
        named = names(f.__code__)
        found = [f.__globals__.get(name) for name in named]
        if "random" in named and any(x is np for x in found):
            return True
        reached += [*found, *(x for _, x in in_cells(f)), *(f.__defaults__ or ())]
        reached += (f.__kwdefaults__ or {}).values()
    elif isinstance(f, functools.partial):
        reached += [f.func, *f.args, *f.keywords.values()]
    elif type(f) in (list, tuple, dict):
        reached += f.values() if type(f) is dict else f
    elif not isinstance(f, type) and not str(type(f).__module__).startswith("scipy."):
        reached.append(vars(type(f)).get("__call__"))
        with suppress(Exception):
            reached += vars(f).values()
    return any(holds_generator(x, depth - 1) for x in reached)


def draws(f: Any) -> bool:
    """Whether a function names a curve through points: compiled where a trace does badly."""
    return any(n in _CURVES for own in helpers(f) for n in _solvers(own))


def _solvers(own: FunctionType) -> Iterator[str]:
    """Names of what may be a solver of SciPy's."""
    held = dict(in_cells(own))
    for name in names(own.__code__) | held.keys():
        found = held.get(name, own.__globals__.get(name))
        if found is None:  # an attribute, of SciPy or of one of its modules
            yield name
        elif issubclass(type(found), _NAMED) and str(found.__module__).startswith("scipy."):
            yield getattr(found, "__name__", "")


_NAMED = FunctionType, BuiltinFunctionType, type


def _of_solver(name: str, own: FunctionType) -> float:
    told = _told(own) if name in _TOLD else set()
    for words, row in _TOLD.get(name, ()):
        if not told.isdisjoint(words):
            return getattr(LIMITS, row)  # type: ignore[no-any-return]
    return next((getattr(LIMITS, row) for row, of in _SOLVERS.items() if name in of), 0.0)


_CURVES = frozenset(
    "CubicSpline PchipInterpolator Akima1DInterpolator interp1d solve_banded".split()
)
_BOUNDS = ((("bounds", "loss", "trf", "dogbox"), "typed_bounded_solver"),)
_TOLD: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "curve_fit": _BOUNDS,
    "least_squares": _BOUNDS,
    "minimize": (
        (("bounds", "l-bfgs-b"), "typed_long_solver"),
        (("nelder-mead", "powell"), "typed_minimum"),
    ),
    "solve_ivp": (
        (("radau", "bdf"), "typed_long_solver"),
        (("events", "dense_output"), "typed_bounded_solver"),
    ),
}
"""Words that show what of a solver is compiled, and which row says how much that is."""
_SOLVERS = {
    "typed_long_solver": frozenset(["fmin_l_bfgs_b"]),
    "typed_solver": frozenset("curve_fit least_squares leastsq minimize fmin_bfgs fmin_cg".split()),
    "typed_short_solver": frozenset(
        "quad solve_ivp fsolve root nnls lsq_linear genextreme genpareto weibull_min".split()
    ),
    "typed_minimum": frozenset(
        "fmin fmin_powell minimize_scalar fminbound splrep splev UnivariateSpline "
        "InterpolatedUnivariateSpline make_interp_spline gumbel_r".split()
    ),
    "typed_root": frozenset("brentq brenth bisect ridder newton root_scalar gaussian_kde".split()),
}
"""Functions of SciPy's for which much of ours is compiled, by the rows that say how much."""
_BACKEND = f"{__name__.partition('.')[0]}.backends.cpu.typed"


def why_not_compiled() -> str:
    """Why no function is compiled from its source now; "": they are."""
    if not config.current().compile:
        return f"compile=False is in force{config.origin('compile')}"
    if sys.gettrace() is not None or _is_monitored():
        return "a debugger or a report of coverage follows its lines"
    return ""


def _is_monitored() -> bool:
    """Whether a tool of `sys.monitoring` (Python 3.12) is active."""
    if sys.version_info < (3, 12):
        return False
    tools = sys.monitoring
    return bool(tools.get_tool(tools.DEBUGGER_ID) or tools.get_tool(tools.COVERAGE_ID))


# --- the loop, until that has paid ----------------------------------------------------


_loops = Budget(0.0)
"""The time that loops have taken before the planner was loaded, over all functions."""
_PLANS = f"{__package__}.python_functions"


def along(
    f: Any, axis: int, arr: np.ndarray, args: tuple, kwargs: dict
) -> tuple[Any, Begun | None]:
    """Run the loop within its budget: its result; else None and the results for the first slices.

    The axis is not negative. What it takes is noted as `decide` notes it.
    """
    if not (_may_wait(f) and thin.takes(arr, axis) and arr.dtype.kind in _KINDS):
        return None, None
    known, method = cache_of(f)
    key = trace_key(method, axis, arr, args, kwargs)
    count, first = slices(axis, arr), None
    quick = None if key is None else known.traced.get(key)
    if type(quick) is Quick and quick.serves(count):
        found = quick.timed(count, reference.apply, f, axis, arr, args, kwargs)
        _count(quick)
        return found, None
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
        first = _given_up(calls, first)
        quick.seconds = first.seconds
        return None, first
    _noted(calls.took, count, quick)
    if key is not None:
        known.traced[key] = quick
    return found, None


def of_several(
    call: LoopedCall, operands: Sequence[Any], dims: Dims, by_loop: Callable[..., Any]
) -> tuple[Any, Begun | None, Quick | None]:
    """The same for slices of several arrays, or numbers; `by_loop` runs the function it gets.

    What a slice takes is known only from the loop. So once what plans is loaded, the first loop
    over a function that is dear to read runs as well until that pays.

    Returns
    -------
    found, begun : object, Begun or None
        As above.
    quick : Quick or None
        What further loops are noted in, over as many slices, for which nothing is looked at.
    """
    f, count = call.f, math.prod(dims.loop)
    if not (may_loop(f) and operands and count) or {np.ndarray} != {*map(type, operands)}:
        return None, None, None
    dtypes = *(x.dtype for x in operands), *(call.arguments.dtypes or ())
    if any(d.kind not in _KINDS for d in dtypes) or any(0 in x.shape for x in operands):
        return None, None, None
    known, key = cache_of(f)[0].traced, key_of(call, operands, dims)
    quick = None if key is None else known.get(key)
    if type(quick) is Quick and quick.serves(count):
        found = quick.timed(count, by_loop)
        _count(quick)
        return found, None, quick
    if not (quick is None and is_read(f) if _PLANS in sys.modules else _may_wait(f)):
        return None, None, None
    quick = quick_for(f) if quick is None else quick
    if type(quick) is not Quick or (
        quick.seconds < math.inf and count * quick.seconds > _left(f, quick)
    ):
        return None, None, None
    found, first, took = until(f, count, _left(f, quick), by_loop)
    if first is not None:
        quick.seconds = first.seconds
        return None, first, None
    _noted(took, count, quick)
    if key is not None:
        known[key] = quick
    if _PLANS in sys.modules and quick.spent > quick.most:
        _announce(f, count, quick, operands[0])
    return found, None, quick


def until(
    f: Any, count: int, left: float, by_loop: Callable[..., Any]
) -> tuple[Any, Begun | None, float]:
    """Run the loop for some seconds; return its result, or what it had, and the time it took.

    Else what it has given so far.
    """
    calls = Limited(f, count, left, LIMITS.plan_worth)
    try:
        return by_loop(f=calls.call), None, calls.took
    except Over:
        return None, _given_up(calls), calls.took


def _announce(f: Any, count: int, quick: Quick, like: Any) -> None:
    """Say that the loop has run, and for how long it will."""
    from ..application import announce  # which plans

    left = LIMITS.typed_waits * LIMITS.typed_worth * price(f) - quick.spent
    announce(f, count, once_taken(left), like)


def once_taken(seconds: float, surely: bool = False) -> str:
    """The reason of a function that is compiled once loops have taken so many seconds more.

    `surely`: its source has been read, and can be compiled.
    """
    can = "" if surely else ", if it can be,"
    return f"{COMPILED}{can} once loops have taken {max(0.0, seconds):.2g} s more"


COMPILED = "compiled from its source"


_KINDS = "biufc"


def may_loop(f: Any) -> bool:
    """Whether the loop may run before `f` is inspected."""
    now = config.current()
    if now.engine or now.device or now.fallback == "raise" or not now.plain_loop:
        return False
    return type(f) in _CALLED and LIMITS.first_loops > 0


_CALLED = FunctionType, MethodType, functools.partial


def _may_wait(f: Any) -> bool:
    """The same, while the planner is not loaded."""
    return type(f) is FunctionType and may_loop(f) and _PLANS not in sys.modules


def _left(f: Any, quick: Quick) -> float:
    """Seconds that loops may take before anything is loaded: those of loading, or of compiling."""
    loading = 0.0 if _PLANS in sys.modules else LIMITS.first_loops
    left = loading - _loops.spent
    if is_read(f):
        left = max(left, loading + LIMITS.typed_worth * price(f) - quick.spent)
    return max(left, quick.most) if quick.spent <= quick.limit else left


def _noted(took: float, count: int, quick: Quick) -> None:
    """Note what a loop has taken."""
    quick.spend(took)
    quick.seconds = min(quick.seconds, took / count)
    _count(quick)


def _count(quick: Quick) -> None:
    """Count what loops over a function have taken among those of all."""
    _loops.spend(quick.spent - quick.counted)
    quick.counted = quick.spent


def _given_up(calls: Limited, first: Begun | None = None) -> Begun:
    """Results of a loop that was given up, with the time of a slice."""
    results = [*(first.results if first else ()), *calls.results]
    took = calls.took + (first.took if first else 0.0)
    return Begun(results, took / len(results), took)
