"""Engines: choose a backend for a graph, bring axes in order, run.

Another library's backend may borrow the memory of arrays: CuPy's kernels that of CUDA
tensors, torch's products that of NumPy arrays.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arrays, config
from ..arrays import masked
from ..backends import Backend, Borrower, Later, Lowered, choice
from ..errors import CompilerError, InputError, UnsupportedError
from ..functions.cache import BoundedDict, remembered
from ..ir.avals import ShapeDtype
from ..limits import LIMITS
from ..runtime.budget import Budget

if TYPE_CHECKING:
    from ..ir.graph import Graph


@remembered(256)
def _lowered(runner: Backend, graph: Graph, precision: str) -> Lowered:
    """Compiled once per structure: graphs are equal when only their weights differ."""
    return runner.lower(graph, precision)


class Bound:
    """A graph with its weights, and what the engines made of them, by device."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._weights: dict[tuple[str, Any], Any] = {}
        self.failed: dict[str, str] = {}
        """Messages of compilers that refused the graph, by engine."""
        self.small = Budget(LIMITS.small_patience)
        """The budget of NumPy's engine for small arrays, before kernels are compiled."""

    def weights(self, engine: str, lowered: Lowered, like: Any) -> Any:
        """The weights as an engine wants them: packed and copied once."""
        key = (engine, arrays.place(like))
        found = self._weights.get(key)
        if found is None:
            found = self._weights[key] = lowered.bind(self.graph.consts, like)
        return found


class Engine:
    """A graph on one backend, for arrays of one library.

    Call it as ``engine(arr, axis)``, the axis not negative.
    """

    def __init__(self, name: str, bound: Bound, library: str, runner: Backend) -> None:
        self.name = runner.name
        self.backend = name
        self.lowered = _lowered(runner, bound.graph, config.current().precision)
        self._bound = bound
        self._result = bound.graph.result
        self._own = choice.backend(library)
        dtype = self._result.dtype
        dtype = dtype if self._own is None else self._own.result_dtype(dtype)
        self.result = ShapeDtype(self._result.shape, dtype)
        self._borrows = name not in (library, "array_api")
        self.kernels: tuple[str, ...] = self.lowered.kernels
        if self._borrows and name in sys.modules:  # another library, whose calls are quicker
            self.kernels += (f"on the memory of the {library} array ({name} is loaded: faster)",)
        self._library = library
        self._known = BoundedDict()
        self.floor: float | None = None
        self.expected: float | None = None
        self.slower_than_half = False
        """This engine computes in float32, and the library's own operations would be faster if the
        parameters had 16 bits."""
        self.faster_than_layers = False
        """Feature maps of a convolutional network stay on chip."""
        self.later: Later | None = None
        """The time that calls may take here before another engine serves them."""
        self._slices, self._others = 0, AnyLibrary(bound)

    @property
    def graph(self) -> Graph:
        """The graph of one slice."""
        return self._bound.graph

    @property
    def failed(self) -> str:
        """The compiler's message if it refused the graph; "" otherwise."""
        return self._bound.failed.get(self.backend, "")

    def look_at(self, seen: Any, axis: int, reasons: list[str]) -> None:
        """Learn what would run on an array, from engines that choose by its device and size."""
        consts = self._bound.graph.consts
        self._slices = max(1, math.prod(seen.shape) // max(1, seen.shape[axis]))
        seen, at = in_memory_order(seen, axis)
        found = self.lowered.estimate(seen, consts, at)
        if found is not None:
            self.kernels = (*found.kernels, *self.kernels[len(self.lowered.kernels) :])
            self.floor, self.expected = found.floor, found.expected
            reasons += found.refused
        self.slower_than_half = self.lowered.slower_than_half(seen, consts, at)
        self.faster_than_layers = self.lowered.faster_than_layers(seen, consts, at)

    def __call__(self, arr: Any, axis: int) -> Any:
        """Run on all slices; by the engine that is best from now on, once calls have paid for it.

        What is prepared does not count its calls, nor look how many slices there are.
        """
        if self.later is not None:
            budget, cost = self.later
            slices = math.prod(arr.shape) / max(1, arr.shape[axis])
            if not budget.spend(max(1.0, slices / self._slices) * cost):
                return self._others(arr, axis)
        return self.prepared(arr, axis)(arr)

    def prepared(self, arr: Any, axis: int) -> Callable[[Any], Any]:
        """``call(arr)``: the engine for arrays of one layout, on one device.

        Plans can be called with any array; a wrong one gets an `InputError`.
        """
        key = (axis, *arrays.signature(arr))
        found: Callable[[Any], Any] | None = self._known.get(key)
        if found is not None:
            return found
        if arrays.library(arr) != self._library:  # not the array that this was chosen for
            return chosen(self._bound, arr, axis).prepared(arr, axis)
        x = arrays.plain(arr)
        slice_ = ShapeDtype((x.shape[axis],), arrays.dtype_name(x))
        if slice_ != self._bound.graph.input:
            raise InputError(
                f"this plan is for slices {self._bound.graph.input}, those along axis {axis} "
                f"are {slice_}. Compile or explain it for them."
            )
        if self.backend == "array_api" or self._own is None:
            found = self._on_any_array(axis)
        else:
            borrower: Borrower | None = None
            if self._borrows:
                borrower = self._own.lends_to(self.backend, x, self._result.dtype)
                if borrower is None:  # nor is this one
                    return chosen(self._bound, arr, axis).prepared(arr, axis)
            found = _Prepared(
                self.backend, self.lowered, self._bound, self._own, arr, axis, borrower
            )
        self._known[key] = found
        return found

    def _on_any_array(self, axis: int) -> Callable[[Any], Any]:
        """Arrays of the standard have no memory to write to: the result is made by the call."""
        lowered, bound, name = self.lowered, self._bound, self.backend
        return lambda x: lowered(x, axis, bound.weights(name, lowered, x), None)


def prepared(call: Callable[[Any, int], Any], arr: Any, axis: int) -> Callable[[Any], Any]:
    """``run(arr)``: what a plan calls, with all decided that follows from `arr`."""
    prepare: Callable[[Any, int], Callable[[Any], Any]] | None = getattr(call, "prepared", None)
    return (lambda x: call(x, axis)) if prepare is None else prepare(arr, axis)


def in_memory_order(x: Any, axis: int) -> tuple[Any, int]:
    """An array with its slowest axes first, and where `axis` is then."""
    from ..arrays.layout import MemoryOrder

    order = MemoryOrder.of(arrays.strides(x), x.ndim, axis)
    as_it_is = order.axes == tuple(range(x.ndim))
    return (x if as_it_is else arrays.permute(x, order.axes)), order.at


class _Prepared:
    """An engine for arrays of one layout, on one device: all is decided but the addresses."""

    def __init__(
        self,
        name: str,
        lowered: Lowered,
        bound: Bound,
        own: Backend,
        arr: Any,
        axis: int,
        borrower: Borrower | None,
    ) -> None:
        from ..arrays.layout import MemoryOrder

        self._name, self._lowered, self._bound, self._own = name, lowered, bound, own
        result = bound.graph.result
        self._dtype = result.dtype
        self._wraps = type(arr) is not np.ndarray and isinstance(arr, np.ndarray)
        x = arrays.plain(arr)
        order = MemoryOrder.of(arrays.strides(x), x.ndim, axis)
        before, behind = order.batch(x.shape)
        outward = order.result_axes(len(result.shape))
        # permutations into and out of memory order: None where none is needed
        self._inward = None if order.axes == tuple(range(x.ndim)) else order.axes
        self._at = order.at
        self._outward = None if outward == tuple(range(len(outward))) else outward
        self._shape = (*before, *result.shape, *behind)
        self._view = None if borrower is None else borrower.view or arrays.plain
        self._view_of_result: Callable[[Any], Any] | None = None
        self._context = None if borrower is None else borrower.context
        self._call: Callable[[Any, Any], object] | None = None
        self._axis = axis
        self._instead: Callable[[Any], Any] | None = None

    def __call__(self, arr: Any) -> Any:
        if self._instead is not None:
            return self._instead(arr)
        try:
            return self._result_of(arr)
        except CompilerError as error:
            self._bound.failed[self._name] = str(error)
            self._instead = chosen(self._bound, arr, self._axis).prepared(arr, self._axis)
        return self._instead(arr)

    def _result_of(self, arr: Any) -> Any:
        x = arrays.plain(arr) if self._wraps else arr
        out = self._own.empty(self._shape, self._dtype, x)
        if self._view is None:
            self._run(x, out)
        else:
            as_result = self._view_of_result
            if as_result is None:
                borrower = self._own.lends_to(self._name, out, self._dtype)
                assert borrower is not None
                as_result = self._view_of_result = borrower.view or arrays.plain
            if self._context is None:
                self._run(self._view(x), as_result(out))
            else:
                with self._context(x):
                    self._run(self._view(x), as_result(out))
        y = out if self._outward is None else arrays.permute(out, self._outward)
        # what NumPy's own loop does with the type of its input
        return arr.__array_wrap__(y, None, False) if self._wraps else y

    def _run(self, source: Any, target: Any) -> None:
        if self._inward is not None:
            source = arrays.permute(source, self._inward)
        if self._call is None:
            self._call = self._prepared(source, target)
        self._call(source, target)

    def _prepared(self, source: Any, target: Any) -> Callable[[Any, Any], object]:
        lowered, at = self._lowered, self._at
        weights = self._bound.weights(self._name, lowered, source)
        found = lowered.prepared(source, at, weights, target)
        return found or (lambda x, out: lowered(x, at, weights, out))


class AnyLibrary:
    """A graph for arrays of any library, which it chooses an engine for when it is called."""

    def __init__(self, graph: Graph | Bound) -> None:
        self.bound = graph if isinstance(graph, Bound) else Bound(graph)
        self._engines: dict[Any, Engine] = {}

    def __reduce__(self) -> Any:
        return AnyLibrary, (self.bound.graph,)

    def __dask_tokenize__(self) -> Any:
        from ..backends.dask import blocks

        return blocks.token_of_graph(self.bound.graph)

    def _blockwise(self, arr: Any, axis: int) -> Any:
        """Build the lazy result of an array of dask."""
        from ..backends.dask import blocks

        blocks.check(arr)
        result, own = self.bound.graph.result, choice.backend(str(arrays.library(arr._meta)))
        assert own is not None
        slice_ = ShapeDtype((arr.shape[axis],), arrays.dtype_name(arr))
        if slice_ != self.bound.graph.input:
            raise InputError(f"this plan is for slices {self.bound.graph.input}: found {slice_}")
        like = result.shape, np.dtype(own.result_dtype(result.dtype))
        from .chunked.on_block import OnBlock, mapped

        task = OnBlock(self, axis, ((), {}), like, None, blocks.own_options())
        return mapped(task, arr, "compiled-along-axis")

    def __call__(self, arr: Any, axis: int) -> Any:
        """Run on all slices of `arr` along `axis`."""
        if masked.is_masked(arr):
            return masked.on_data(self)(arr, axis)
        if arrays.library(arr) == "dask":
            return self._blockwise(arr, axis)
        now = config.current()
        # how many slices there are decides what is worth a kernel
        many = self.bound.graph.gathers and math.prod(arr.shape).bit_length()
        key = (arrays.library(arr), now.engine, now.precision, arrays.place(arr), many)
        engine = self._engines.get(key)
        later = None if engine is None else engine.later
        if engine is None or (later is not None and not later.budget.spend(later.cost)):
            engine = self._engines[key] = chosen(self.bound, arr, axis)
        return engine.prepared(arr, axis)(arr)


class Deferring(AnyLibrary):
    """A graph within a function of slices: run by the array's own library until compiling pays."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._budget, self._is_numpys = Budget(LIMITS.engine_patience), not graph.descends
        self._each = LIMITS.engine_per_flop * graph.flops() + LIMITS.engine_per_value * len(
            graph.nodes
        )

    def __reduce__(self) -> Any:
        return Deferring, (self.bound.graph,)

    def __call__(self, arr: Any, axis: int) -> Any:
        """Run on all slices of `arr` along `axis`."""
        cost, library = math.inf, arrays.library(arr)
        if type(arr) is np.ndarray or (library == "torch" and arr.is_cpu):
            cost = self._each * math.prod(arr.shape) / max(1, arr.shape[axis])
        if self._budget.holds(cost) and not config.current().engine:
            self._budget.spend(cost)
            engine = "numpy" if self._is_numpys and library == "numpy" else "array_api"
            try:
                with config.options(engine=engine):
                    return super().__call__(arr, axis)
            except UnsupportedError:
                self._budget.end()
        return super().__call__(arr, axis)


def _seconds(graph: Graph, arr: Any, axis: int) -> float:
    """Estimate the time of NumPy's engine for the slices of an array."""
    slices = math.prod(arr.shape) // max(1, arr.shape[axis])
    values = sum(math.prod(n.aval.shape) for n in graph.nodes)
    each = LIMITS.engine_per_flop * graph.flops() + LIMITS.engine_per_value * values
    return slices * each + LIMITS.engine_per_node * len(graph.nodes) + LIMITS.engine_per_call


def choose(bound: Bound, arr: Any, axis: int, reasons: list[str]) -> Engine | None:
    """The fastest engine that can run the graph on `arr`; why others cannot goes to `reasons`."""
    library = arrays.library(arr)
    assert library is not None
    forced, graph = config.current().engine, bound.graph
    asked: list[tuple[Backend, tuple[str, Any]]] = []
    candidates, cost = choice.candidates(library, arr, graph), math.inf
    if library == "numpy" and not (forced or graph.gathers or graph.descends):
        cost = _seconds(graph, arr, axis)
    is_small = bound.small.holds(cost) and candidates[0][0] == "cpu"
    named = [given for given in candidates if given[0] == forced]  # no other one is loaded
    for name, seen in named or candidates[-2 if is_small else 0 :]:
        runner: Backend | None = choice.runner(name, library)
        if runner is not None and forced and name != forced:
            runner = runner.way(forced)
        if runner is not None:
            asked.append((runner, (name, seen)))
    able = choice.able(
        asked,
        lambda b, given: bound.failed.get(given[0]) or b.why_not(bound.graph, given[1:]),
        reasons,
    )
    found = next(able, None)
    if found is None:
        return None
    runner, (name, seen) = found
    engine = Engine(name, bound, library, runner)
    engine.look_at(seen, axis, reasons)
    if is_small:
        waits = f"{LIMITS.small_patience * 1e3:.3g} ms"
        reasons.append(f"cpu: kernels are compiled after {waits} of calls like this")
        engine.later = Later(bound.small, cost)
    elif not forced:
        passed = itertools.takewhile(lambda given: given[0] is not runner, asked)
        first = ((b, x) for b, (name, x) in passed if name not in bound.failed)
        found_later = (b.later(bound.graph, *in_memory_order(x, axis)) for b, x in first)
        engine.later = next(filter(None, found_later), None)
    return engine


def chosen(bound: Bound, arr: Any, axis: int) -> Engine:
    """The fastest engine that can run the graph on `arr`, or `UnsupportedError`."""
    reasons: list[str] = []
    found = choose(bound, arr, axis, reasons)
    if found is None:
        why = "; ".join(reasons) or f"{config.current().engine} cannot read its memory"
        raise UnsupportedError(f"no engine runs this graph: {why}")
    return found


def in_float32(engine: Engine, half: str) -> str:
    """Why an engine does not run what could run in 16 bits."""
    what = "; ".join(engine.kernels)
    return f"{engine.name} ({what}): in float32, which is slower here than {half}"


def by_windows(engine: Engine) -> str:
    """Why an engine does not run what the network's own library has convolutions for.

    It is what is said where their times are not measured: of few slices, and on devices, where
    those of the library are far ahead (the benchmark of modules has both).
    """
    why = "the network's own come first"
    if engine.backend == "array_api":
        why += ", where only the definition, one array operation per node, can run it"
    elif engine.lowered.fair_sample():
        why += ", where there are too few slices to measure which are faster"
    elif engine.expected is not None:
        why += f", this one would take about {engine.expected * 1e3:.3g} ms"
    how = f"options(engine={engine.name!r}) takes it"
    return f"{engine.name} ({'; '.join(engine.kernels)}): {why}; {how}"


def by_definition(engine: Engine) -> str:
    """Why an engine does not run what an estimator's own method has compiled code for."""
    return (
        f"{engine.name} ({'; '.join(engine.kernels)}): the method itself takes less time on a CPU; "
        f"options(engine={engine.name!r}) takes it"
    )
