"""Python functions of several arrays: whether they run on all slices at once."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config, frontends
from ...backends import choice
from ...errors import TraceError, UnsupportedError, add_note
from ...frontends.python.run.account import Account
from ...frontends.python.run.rows import RowsOfSeveral, results_at
from ...functions import advice
from ...functions.cache import cache_of
from ...functions.estimators import BatchOfOne
from ...functions.purity import has_loop
from ...ir.avals import KINDS
from ...ir.graph import ShapeDtype
from ...limits import LIMITS
from ...loop import processes, reference
from ...loop.arguments import Arguments, Looped
from ...loop.begun import Begun, Users
from ...loop.own_vectorize import note
from ...loop.signature import CoreDim, Dims, Signature, core_last, resolve
from ...loop.thin import Continued
from ...loop.vectorize import LoopedCall
from ...runtime.budget import Quick
from ..application import Application, announce
from ..plan import Plan
from . import python_functions, running
from .python_functions import Decision
from .ready import Ready
from .unplanned import key_of, may_loop, quick_for, until
from .way_out import completed

if TYPE_CHECKING:
    from .traced import TracedFunction
    from .typed_loop import TypedLoop


@dataclass
class Several:
    """A function on slices of several arrays, as `vectorize` applies it.

    Attributes
    ----------
    call : LoopedCall
        The function and its arguments.
    operands : list of arrays
        With their core dims last.
    dims : Dims
        Core and loop dims.
    by_loop : callable
        The plain loop; `f` is what it calls, if that is not the function itself.
    place : callable
        Notes at which slice `f` raised.
    why_loop : str
        Why nothing but the loop runs, where that is known.
    writes : bool
        Whether `f` may write into slices, as `apply_along_axis` lets it.
    ready : Ready or None
        What ran, if that can run again without a further look.
    looped : float
        Up to how many slices the loop runs, if it has run.
    budget : Budget or None
        What loops may take while runs rest.
    first : Begun or None
        What the loop has given, if it has begun.
    varies : bool
        Whether `f` takes slices of other lengths each time, which no trace does.
    """

    call: LoopedCall
    operands: list[Any]
    dims: Dims
    by_loop: Callable[..., Any]
    place: Callable[[Exception, tuple[int, ...]], None] = note
    why_loop: str = ""
    writes: bool = False
    ready: Ready | None = None
    looped: float = 0
    budget: Any = None
    first: Begun | None = None
    varies: bool = False
    is_others = False

    @property
    def f(self) -> Any:
        """The function."""
        return self.call.f

    @property
    def arguments(self) -> Arguments:
        """The arguments of the function."""
        return self.call.arguments

    @property
    def slices(self) -> int:
        """The number of slices."""
        return math.prod(self.dims.loop)

    @property
    def key(self) -> Hashable:
        """The key of traces; None: traces are not kept."""
        return key_of(self.call, self.operands, self.dims)

    @property
    def kind(self) -> Hashable:
        """The same, whatever numbers there are among the arguments."""
        return key_of(self.call, self.operands, self.dims, kinds=True)

    @property
    def slices_of(self) -> tuple[ShapeDtype, ...]:
        """Shape and dtype of a slice of each array."""
        return tuple(ShapeDtype(core, arrays.dtype_name(x)) for core, x in self._with_cores())

    def _with_cores(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        """The arrays, each after the core dims of its slices."""
        cores = map(self.dims.sizes.shape, self.dims.signature.inputs)
        return zip(cores, self.operands, strict=True)

    def rows(self) -> RowsOfSeveral:
        """The slices, in the order of the loop."""
        if self.writes:
            views = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in self.operands]
            return RowsOfSeveral(views, self.dims.loop)
        return self._read_only()

    def _read_only(self) -> RowsOfSeveral:
        loop = self.dims.loop
        views = [arrays.broadcast_to(x, loop + core) for core, x in self._with_cores()]
        return RowsOfSeveral(views, loop)

    def slice_at(self, index: tuple[int, ...]) -> Any:
        """One slice, read-only, as traces take it."""
        return self._read_only()[index]

    def begun(self) -> Begun:
        """The first call."""
        started = time.perf_counter()
        result = self.call(*self.slice_at((0,) * len(self.dims.loop)))
        took = time.perf_counter() - started
        return Begun([result], took, took)

    def why_other(self, found: Any, first: Any) -> str | None:
        """Why the results are none that the signature promises: the loop says it as NumPy does."""
        outputs = self.dims.signature.outputs
        if not outputs:  # which promises nothing
            return None
        if type(first) is tuple and not self.call.arguments.results:
            return f"{len(first)} results instead of one"
        sizes = dict(self.dims.sizes.known)
        for core, x in zip(outputs, found.results, strict=True):
            if len(core) != len(x.shape):
                return f"a result has shape {x.shape}"
            if any(sizes.setdefault(d.name, n) != n for d, n in zip(core, x.shape, strict=True)):
                return f"a result has shape {x.shape}"
        return None

    @property
    def untraced(self) -> str:
        """Why no trace runs it, which may be compiled; "": one may."""
        if self.varies:
            return "it takes slices of many lengths, for which it has to be compiled"
        gives_texts = any(d.kind == "U" for d in self.call.arguments.dtypes or ())
        return "it returns text" * gives_texts

    @property
    def around(self) -> float:
        """Seconds of a turn of the loop beside the call."""
        return 0.0 if self.call.arguments.numbers else LIMITS.signature_loop_turn

    def traced(
        self, slice0: Any, sample: Any, begun: Begun | None = None, limit: float = math.inf
    ) -> TracedFunction:
        """`f` traced on a slice."""
        if why := self.untraced:
            raise TraceError(why)
        from .traced import TracedFunction  # compiled, it is not traced

        more: dict[str, Any] = {"around": self.around, "limit": limit}
        if begun is None:
            step = LIMITS.step_of_numbers if self.call.arguments.numbers else LIMITS.step_of_arrays
            more["per_step"] = LIMITS.planning_share * LIMITS.first_call_share * self.slices * step
        found = TracedFunction(self.f, self.call.arguments, slice0, sample, begun, **more)
        other = self.why_other(found, begun.results[0] if begun else None)
        if other:
            raise TraceError(other)
        if found.library == "numpy" and found.seconds < LIMITS.begun_first * LIMITS.begun_calls:
            found.timed(self.rows(), self.f, LIMITS.begun_calls)
        return found

    def for_batches(self, said: BaseException | str) -> Several | None:
        """The same with `f` for batches of one, if its error asked for them."""
        batched = self.call.for_batches(said, self.dims.signature, self._ends)
        return None if batched is None else replace(self, call=batched)

    def _ends(self) -> tuple[Any, Any]:
        """The first and the last slice of the only array."""
        rows, loop = self.rows(), self.dims.loop
        return rows[(0,) * len(loop)][0], rows[tuple(n - 1 for n in loop)][0]

    @property
    def rules(self) -> str:
        """The library by whose rules `f` is compiled from its source; "": it is not read."""
        views = self.rows().views
        if all(type(x).__name__ == "ndarray" and arrays.library(x) == "cupy" for x in views):
            return "numbers of cupy" if self.arguments.numbers else "cupy"
        return "numpy" * isinstance(views[0], np.ndarray)

    def why_not(self) -> str | None:
        """Why no plan can be made for such arrays."""
        return _why_not(self)

    def run(self, traced: TracedFunction, account: Account | None = None) -> Any:
        """All slices at once."""
        if traced.draws and self.first is not None and account is not None:
            account.known = [*map(self._as_result, self.first.results)]  # all that have drawn
        rows = self.rows()
        axes = _order(self.operands, rows.batch) if traced.draws and self.arguments.numbers else ()
        if [*axes] == sorted(axes):
            return traced(rows, self.f, account)
        views = [np.transpose(x, axes) for x in rows.views]
        try:
            found = traced(RowsOfSeveral(views, views[0].shape), self.f, account)
        except Users as error:
            at = tuple(error.index[axes.index(a)] for a in range(len(axes)))
            raise Users(error.raised, at) from None
        back = np.argsort(axes)
        if isinstance(found, tuple):
            return tuple(x.transpose(back) for x in found)
        return found.transpose(back)

    def _as_result(self, x: Any) -> Any:
        """Convert a result of `f` to what runs take."""
        leaves = self.call.arguments.leaves
        return x if leaves is None else leaves.of(x)

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """The plain loop."""
        if self.first is None:
            return self.by_loop()
        return self.by_loop(f=Continued(self.f, self.first.results))

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Say at which slice an exception was raised."""
        self.place(error, index)

    def announce(self, why: str) -> None:
        """Tell the user that the loop runs."""
        announce(self.f, self.slices, why, self.operands[0] if self.operands else None)


def decide(what: Several, *, limited: bool = False) -> Decision:
    """Decide how `f` runs on all slices, or why the loop does.

    `limited`: planning may take no longer than it can save, as the results are wanted now.

    Raises
    ------
    UnsupportedError
        If an engine is asked for that cannot run it.
    """
    engine = config.current().engine
    if engine == "loop":
        return Decision(what, why="the loop was asked for", quick=True)
    choice.check_name(engine)
    begun = what.first
    if begun is not None:
        begun = begun._replace(results=[what._as_result(begun.results[0])])
    found = python_functions.decide(what, limited=limited, begun=begun)
    if engine and found.why is not None:
        name = frontends.name_of(what.f)
        raise UnsupportedError(f"engine {engine!r} cannot run {name}: {found.why}")
    return found


def run(what: Several) -> Any:
    """The results for all slices: one array, or a tuple of them."""
    quick = _quick(what)
    if quick is not None:
        result = quick.timed(what.slices, what.loop)
        what.looped, what.budget = min(quick.slices, LIMITS.vectorize_unknown), quick
        return result
    found = decide(what, limited=True)
    traced = found.traced
    if traced is not None and found.why is None:
        result = running.at_once(traced, found.what, found.begun)
        record = traced.record
        if running.rests(traced):
            others = running.waits_for(cache_of(what.f)[0], what.key) or record.loops
            what.looped, what.budget = what.slices, others
            return result
        # the first run tells nothing, if it is timed; what runs again is not timed
        told = record.runs != 1 or not running.counts(traced)
        told = told and record.is_quicker(what.slices, traced.seconds)
        if told and not _may_gain(what, traced):
            rows, arguments = what.rows(), what.call.arguments
            if (again := traced.ran(rows)) is not None:
                what.ready = Ready(rows, what.operands, arguments, traced, *again)
        return result
    waits = running.waits_for(cache_of(what.f)[0], what.key)
    done: Any = None
    unknown = waits is not None and not waits.seconds and what.first is None
    # calls that make a text without a loop are too short to be watched
    watched = not what.untraced or what.varies or has_loop(what.f)
    if waits is not None and unknown and watched and may_loop(what.f):
        left = waits.cost - waits.spent
        done = until(what.f, what.slices, left, what.by_loop)
        _, what.first, took = done
        waits.seconds = took / what.slices if what.first is None else what.first.seconds
        if what.first is not None:
            return run(what)  # which makes what pays now
        waits.spent += took
    if not found.quick:
        what.announce(found.why or "")
    if waits is not None:
        what.looped, what.budget = what.slices, waits
    elif found.quick and traced is not None:
        what.looped, what.budget = what.slices, traced.record.rested(what.slices)
    else:
        what.looped = math.inf
    return running.looped(what, ()) if done is None else done[0]


def _may_gain(what: Several, traced: TracedFunction | TypedLoop) -> bool:
    """Whether a compiled rival of a trace may be faster."""
    from . import from_source

    return from_source.may_gain(what, cache_of(what.f)[0], what.key, traced)


def _quick(what: Several) -> Quick | None:
    """The record of loops over few slices, for which no look at the function pays.

    To call `f` once more than NumPy does could be seen, as where it warns: so the loop is timed.
    """
    now = config.current()
    most = (
        LIMITS.vectorize_unknown
        if what.call.arguments.numbers
        else min(LIMITS.few_slices, LIMITS.vectorize_unknown)
    )
    if not 0 < what.slices <= most or now.engine or now.fallback == "raise":
        return None
    key = None if what.why_not() is not None else what.key
    if key is None or arrays.library(what.operands[0]) != "numpy":
        return None
    known = cache_of(what.f)[0].traced
    found = known.get(key)
    if found is None:
        found = known[key] = quick_for(what.f)
        return found  # type: ignore[no-any-return]
    return found if type(found) is Quick and found.serves(what.slices) else None


def _order(operands: Sequence[Any], batch: tuple[int, ...]) -> tuple[int, ...]:
    """The loop dims as `numpy.vectorize` goes through them, which heeds how elements lie."""
    if all(x.flags.c_contiguous for x in map(np.asarray, operands)):
        return tuple(range(len(batch)))
    like = [np.empty_like(x, "b", subok=False) for x in operands]  # as it makes objects of them
    walk: Any = np.nditer((*like, None), ("zerosize_ok",), order="K")
    steps = walk.operands[-1].strides
    return tuple(sorted(range(len(batch)), key=lambda a: -steps[a]))


def _why_not(what: Several) -> str | None:
    """Why no plan can be made for such arrays."""
    if what.why_loop:
        return what.why_loop
    if not what.operands:
        return "nothing is looped over"
    for x in what.operands:
        library = arrays.library(x)
        if library not in ("numpy", "cupy", "torch"):
            return f"vectorize runs at once on arrays of NumPy, CuPy and torch, not of {library}"
        if library == "numpy" and type(x) not in (np.ndarray, np.memmap) and not np.isscalar(x):
            return f"{type(x).__name__} is a subclass of ndarray with a meaning of its own"
        if library != "torch" and (x.dtype.kind not in "biufc" or x.dtype.itemsize > 16):
            return f"elements of dtype {x.dtype}"
        if library != "torch" and x.dtype.kind == "f" and x.dtype.itemsize > 8:
            return f"elements of dtype {x.dtype}"
        if library == "torch" and x.requires_grad:
            return "autograd records this call; under torch.no_grad() it runs at once"
    dtypes = what.call.arguments.dtypes
    plain = "biufcU" if library == "numpy" else "biufc"
    there = library == "numpy" or what.rules == "numbers of cupy"
    if dtypes is not None and not (there and all(d.kind in plain for d in dtypes)):
        kinds = dict.fromkeys(KINDS.get(d.kind, str(d)) for d in dtypes)
        return completed(f"it returns {' and '.join(kinds)}", what.f)
    if 0 in what.dims.loop or any(0 in x.shape for x in what.operands):
        return "the slices are empty"
    return None


# --- plans --------------------------------------------------------------------------------------


def _said(decision: Decision) -> tuple[TracedFunction | TypedLoop | None, dict[str, Any]]:
    """The run of a decision, and the description that every plan has."""
    what, why = decision.what, decision.why or ""
    found = None if why else decision.traced
    like = next((x for x in what.operands if arrays.library(x) != "numpy"), np.empty(0))
    library = str(arrays.library(like))
    seen = {"library": library, "device": str(arrays.device(like))}
    reasons, plans = [why] * bool(why), None
    if found is not None:
        plans = found.plans
        if found.record.given_up:
            reasons.append(f"the last call ran in the loop: {found.record.why}")
        elif why := python_functions.why_given_up(found, what.rows(), what.f):
            reasons.append(python_functions.and_compiled(what, why))
            found = None
    if found is None:
        runs, also = processes.in_words(what.f, what.call.arguments, what.operands)
        reasons += [also] * bool(also)
        return None, {
            "engine": "loop",
            "kernels": (runs,) * bool(runs),
            "reasons": tuple(reasons),
            "_plans": plans,
            **seen,
        }
    says = (what.f.says,) if type(what.f) is BatchOfOne else ()
    run = found.run_for(what.rows(), reasons).says
    return found, {
        "engine": run.engine,
        "kernels": (*run.kernels, *says),
        "reasons": tuple(reasons),
        "_plans": plans,
        **seen,
    }


def plan(
    what: Several,
    shapes: list[tuple[int, ...]],
    out_shape: Callable[[int, tuple[int, ...]], tuple[int, ...]],
    call: Callable[..., Any],
    compiled: str | None,
    known: TypedLoop | None = None,
) -> Plan:
    """The plan of a `vectorize`.

    Parameters
    ----------
    what : Several
        What it applies that to.
    shapes : list of tuple of int
        The arrays' own.
    out_shape : callable
        The shape of the array of a result, by its number and its core dims.
    call : callable
        What the plan calls for arrays.
    compiled : str or None
        What runs a function that the user has compiled; None: the interpreter does.
    known : TypedLoop or None
        What runs it, where that is decided.
    """
    found: TracedFunction | TypedLoop | None = None
    said: dict[str, Any]
    if compiled is not None:
        said = {"engine": "numba", "kernels": (compiled,), "library": "numpy"}
    elif what.why_loop:  # the loop runs then, whatever engine is asked for
        _, said = _said(Decision(what, why=what.why_loop))
    else:
        found, said = _said(decide(what) if known is None else Decision(what, known))
    results: tuple[ShapeDtype, ...] | None = None
    out_shapes, dtypes = None, what.call.arguments.dtypes
    if found is not None and not found.differs:
        results = found.results
        out_shapes = tuple(out_shape(k, x.shape) for k, x in enumerate(results))
        if dtypes is not None:
            pairs = zip(results, dtypes, strict=True)
            results = tuple(x._replace(dtype=d.name) for x, d in pairs)
    return Plan(
        name=frontends.name_of(what.f),
        inputs=what.slices_of,
        shapes=tuple(shapes),
        signature="" if what.call.arguments.numbers else str(what.dims.signature),
        count=what.slices,
        results=results,
        out_shapes=out_shapes,
        _call=call,
        **said,
    )


class AlongAxes:
    """`f` applied to the slices along several axes, which it gets in their order.

    The results stand where the first of the axes was.
    """

    def __init__(self, app: Application, why: str = "") -> None:
        f, args, kwargs = app.f, app.args, app.kwargs
        compiled = frontends.is_compiled(f)
        if not compiled and not frontends.is_python(f):
            f = frontends.find(f).slice_function(f)
            why = why or "networks run at once along one axis; slices with several are looped over"
        self._app, self._f, self._looped = app, f, False
        app.check_any()
        moved = core_last(app.arr, app.axes)
        names = tuple(CoreDim(f"d{k}") for k in range(len(app.axes)))
        dims = resolve(Signature((names,), ()), [tuple(moved.shape)])
        call = LoopedCall(f, Arguments((Looped(0), *args), kwargs))
        self._compiled: tuple[Any, str] | None = None
        if compiled and config.current().engine in ("", "numba"):
            one = Signature((names,), ((),))
            try:
                self._compiled = frontends.find(f).looped(
                    f, call.arguments, [moved], dims.loop, one
                )
            except TraceError as error:
                why = str(error)
        self._what = Several(call, [moved], dims, self._loop, self._note, why, writes=True)

    def _note(self, error: BaseException, index: tuple[int, ...]) -> None:
        inner = iter(index)
        axes, ndim = self._app.axes, self._app.arr.ndim
        parts = [":" if a in axes else str(next(inner)) for a in range(ndim)]
        add_note(error, f"raised at the slice arr[{', '.join(parts)}]")
        advice.note(error)

    def _loop(self, f: Any = None) -> Any:
        """The plain loop; `f`: what it calls, if it is another function."""
        app, f = self._app, self._f if f is None else f
        found = reference.along(f, app.axes, app.arr, app.args, app.kwargs, self._note)
        self._looped = True  # it may have been given up
        return found

    def results(self) -> Any:
        """All of them."""
        if self._compiled is not None:
            with contextlib.suppress(TraceError):  # results of several shapes
                (found,) = self._compiled[0](self._what.operands, self._note)
                return self._placed(found)
            return self._loop()
        found = run(self._what)
        if self._looped:
            return found
        return self._placed(found)

    def _placed(self, found: Any) -> Any:
        return results_at(found, self._what.dims.loop, reference.first_place(self._app.axes))

    def plan(self) -> Plan:
        """The plan."""
        if self._compiled is None:
            found, said = _said(decide(self._what))
        else:
            found, said = _said(Decision(self._what))
            said |= {"engine": "numba", "kernels": self._compiled[1:], "reasons": ()}
        return self._app.plan(
            results=None if found is None else found.results[:1],
            _call=lambda x, axes: AlongAxes(self._app.on(x, axes)).results(),
            **said,
        )
