"""What will run, and why: lift, choose an engine, remember.

Everything that decides anything is here. `apply_along_axis` runs a `Plan`,
`explain` shows it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import warnings
import weakref
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from . import config, frontends, loop, namespace
from .blocks import MemoryOrder
from .errors import FallbackWarning, InputError, TraceError, UnsupportedError
from .ir.graph import Graph, ShapeDtype
from .ir.rewrite import compact, fold

_WORTH_A_WARNING = 1000
"""Slices from which a plain Python loop is worth a warning."""


@functools.cache
def backend(library: str) -> ModuleType | None:
    """The backend that serves a library's arrays, or None."""
    if importlib.util.find_spec(f"{__package__}.backends.{library}") is None:
        return None
    return importlib.import_module(f"{__package__}.backends.{library}")


_reference = functools.partial(backend, "array_api")


@functools.lru_cache(maxsize=256)
def _lowered(library: str, graph: Graph) -> Any:
    """Compiled once per structure: graphs are equal when only their weights differ."""
    module = backend(library)
    assert module is not None
    return module.lower(graph)


@dataclass(eq=False)
class Plan:
    """How `f` runs on the slices of an array.

    Call it with an array: ``plan(arr, axis=-1)``.

    Attributes
    ----------
    name : str
        What `f` is.
    engine : str
        What runs: "loop", "numpy", "cupy", "torch", "torch.vmap", "array_api".
    reasons : tuple of str
        Why each faster way was refused.
    kernels : tuple of str
        What the engine calls or launches.
    slice : ShapeDtype
        Shape and dtype of one slice.
    result : ShapeDtype or None
        Shape and dtype of one result; None where only the loop will tell.
    graph : Graph or None
        What `f` does to one slice.
    arr_shape : tuple of int or None
        Shape of the array that was planned for, with `axis`.
    axis : int or None
        The applied axis.
    library : str
        The array library that was planned for.
    """

    name: str
    engine: str
    slice: ShapeDtype
    library: str
    reasons: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    graph: Graph | None = None
    result: ShapeDtype | None = None
    arr_shape: tuple[int, ...] | None = None
    axis: int | None = None
    device: str = "cpu"
    limits: tuple[float, float] | None = None
    """Bytes and floating-point operations per second that the device can do, where known."""
    _call: Callable[[Any, int], Any] | None = field(default=None, repr=False)

    @property
    def vectorized(self) -> bool:
        """False only for the loop."""
        return self.engine != "loop"

    @property
    def slices(self) -> int | None:
        """The number of slices."""
        if self.arr_shape is None or self.axis is None:
            return None
        return math.prod(n for a, n in enumerate(self.arr_shape) if a != self.axis)

    @property
    def out_shape(self) -> tuple[int, ...] | None:
        """Shape of the output, where it is known before running."""
        if self.arr_shape is None or self.axis is None or self.result is None:
            return None
        shape = self.arr_shape
        return (*shape[: self.axis], *self.result.shape, *shape[self.axis + 1 :])

    @property
    def out_dtype(self) -> str | None:
        """dtype of the output, where it is known before running."""
        return None if self.result is None else self.result.dtype

    def __call__(self, arr: Any, axis: int = -1) -> Any:
        """Run on all slices of `arr` along `axis`."""
        axis = namespace.normalize_axis_index(axis, arr.ndim)
        if self.graph is not None and self._call is None:
            return run_graph(self.graph, arr, axis)
        assert self._call is not None
        return self._call(arr, axis)

    def __getstate__(self) -> dict[str, Any]:
        if self.graph is None:
            raise TypeError(f"the plan of {self.name} has no graph to pickle: {self.reasons}")
        return self.__dict__ | {"_call": None}

    def cost(self) -> tuple[int, int] | None:
        """Fewest bytes to move and floating-point operations, for the whole array."""
        if self.graph is None or self.slices is None or self.result is None:
            return None
        one = math.prod(self.slice.shape) * _itemsize(self.slice.dtype)
        one += math.prod(self.result.shape) * _itemsize(self.result.dtype)
        return one * self.slices, self.graph.flops() * self.slices

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        cost = self.cost()
        return {
            "name": self.name,
            "engine": self.engine,
            "vectorized": self.vectorized,
            "reasons": list(self.reasons),
            "kernels": list(self.kernels),
            "library": self.library,
            "device": self.device,
            "slice": str(self.slice),
            "slices": self.slices,
            "result": None if self.result is None else str(self.result),
            "out_shape": self.out_shape,
            "out_dtype": self.out_dtype,
            "bytes": cost and cost[0],
            "flop": cost and cost[1],
        }

    def _lines(self) -> list[tuple[str, str]]:
        where = self.library if self.device == "cpu" else f"{self.library} on {self.device}"
        applied = "" if self.arr_shape is None else f" {self.arr_shape} along axis {self.axis}"
        lines = [
            ("apply", f"{self.name} to {self.slice} slices of a {where} array{applied}"),
            ("engine", f"{self.engine}: {'; '.join(self.kernels) or 'one call per slice'}"),
        ]
        if self.result is None:
            lines.append(("result", "known once the first slice has run"))
        else:
            out = (
                "" if self.out_shape is None else f", {self.slices:,} slices, out {self.out_shape}"
            )
            lines.append(("result", f"{self.result}{out}"))
        cost = self.cost()
        if cost is not None:
            text = f"{_si(cost[0])}B to move, {_si(cost[1])}FLOP"
            if self.limits is not None:
                seconds = max(cost[0] / self.limits[0], cost[1] / self.limits[1])
                text += f": at least {seconds * 1e3:.3g} ms on this device"
            lines.append(("floor", text))
        lines.append(("refused", "; ".join(self.reasons) or "nothing"))
        return lines

    def __str__(self) -> str:
        return "\n".join(f"{name:8}{text}" for name, text in self._lines())

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{escape(text)}</td></tr>"
            for name, text in self._lines()
        )
        return f"<table>{rows}</table>"


def _si(n: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} P"


def _itemsize(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


# --- lifting --------------------------------------------------------------------------


@dataclass
class _Lifted:
    """A function's graph, or the reason why there is none, for one state of the function."""

    state: Hashable
    graph: Graph | None
    reason: str | None
    held: list[Any]
    bound: dict[tuple[str, str], Any] = field(default_factory=dict)


_lifted: weakref.WeakKeyDictionary[Any, dict[Hashable, _Lifted]] = weakref.WeakKeyDictionary()
_warned: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()


def _anchor(f: Any) -> tuple[Any, Hashable]:
    """The object that a cache can hang on weakly, and what tells its methods apart."""
    return (f.__self__, f.__func__.__name__) if isinstance(f, MethodType) else (f, None)


def _lift(frontend: ModuleType, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> _Lifted:
    """The graph of `f`, from the cache while nothing that `f` depends on has changed."""
    state = frontend.state(f, args, kwargs)
    anchor, method = _anchor(f)
    key = (method, aval)
    try:
        cache = _lifted.setdefault(anchor, {})
    except TypeError:  # cannot be hashed or referenced weakly
        cache = {}
    found = cache.get(key)
    if found is None or found.state != state:
        try:
            graph, reason = compact(fold(frontend.lift(f, aval, args, kwargs))), None
        except TraceError as error:
            graph, reason = None, str(error)
        # lifting may itself touch the state (weight_norm recomputes its weight)
        state = frontend.state(f, args, kwargs)
        found = cache[key] = _Lifted(state, graph, reason, frontend.held(f, args, kwargs))
    return found


# --- choosing -------------------------------------------------------------------------


def plan(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Plan:
    """Decide how ``apply_along_axis(f, axis, arr, *args, **kwargs)`` runs."""
    library = namespace.library(arr)
    assert library is not None
    shape = tuple(arr.shape)
    aval = ShapeDtype((shape[axis],), namespace.dtype_name(arr))
    common: dict[str, Any] = {
        "name": _name(f),
        "slice": aval,
        "library": library,
        "arr_shape": shape,
        "axis": axis,
        "device": str(namespace.device(arr)),
    }
    frontend = frontends.find(f)
    forced = config.current().engine
    if forced == "loop":
        return _loop_plan(f, frontend, args, kwargs, ("the loop was asked for",), common)
    if frontend is None:
        reason = "it is a Python function, and those are not traced yet"
        return _loop_plan(f, None, args, kwargs, (reason,), common)
    reasons: list[str] = []
    awkward = _awkward(arr)
    if awkward:
        return _loop_plan(f, frontend, args, kwargs, (awkward,), common)
    if 0 in shape[:axis] + shape[axis + 1 :]:
        raise ValueError(loop.EMPTY)
    _same_device(arr, (*args, *kwargs.values()))
    differentiable = getattr(frontend, "differentiates", lambda *_: False)(f, arr, args, kwargs)
    lifted = _lift(frontend, f, aval, args, kwargs)
    if lifted.graph is None:
        reasons.append(f"no graph: {lifted.reason}")
    elif not differentiable:
        chosen = _engine(lifted, arr, forced, reasons)
        if chosen is not None:
            engine, lowered, call = chosen
            limits = getattr(backend(engine), "limits", lambda _: None)(arr)
            return Plan(
                engine=engine,
                kernels=lowered.kernels,
                reasons=tuple(reasons),
                graph=lifted.graph,
                result=lifted.graph.result,
                limits=limits,
                _call=call,
                **common,
            )
    else:
        reasons.append("autograd records this call; under torch.no_grad() it runs fused")
    if lifted.graph is None or differentiable:
        batched = _batched(frontend, f, arr, args, kwargs, forced, reasons)
        if batched is not None:
            kernels = ("torch.vmap: torch's own operations, differentiable",)
            result = None if lifted.graph is None else lifted.graph.result
            return Plan(
                engine="torch.vmap",
                kernels=kernels,
                reasons=tuple(reasons),
                graph=lifted.graph,
                result=result,
                _call=batched,
                **common,
            )
    if forced:
        raise UnsupportedError(
            f"engine {forced!r} cannot run {common['name']}: {'; '.join(reasons)}"
        )
    return _loop_plan(f, frontend, args, kwargs, tuple(reasons), common)


def _name(f: Any) -> str:
    name = getattr(f, "__qualname__", None) or type(frontends.owner(f)).__qualname__
    return str(name)


def _awkward(arr: Any) -> str | None:
    """Why only NumPy's own loop keeps the meaning of this array."""
    if not isinstance(arr, np.ndarray) or type(arr) in (np.ndarray, np.memmap):
        return None
    if type(arr) is np.ma.MaskedArray:
        return None  # a network reads the data; NumPy's loop loses the mask as well
    return f"{type(arr).__name__} is a subclass of ndarray with a meaning of its own"


def _same_device(arr: Any, others: tuple[Any, ...]) -> None:
    for other in others:
        if namespace.library(other) is None or isinstance(other, np.generic):
            continue
        if namespace.library(other) != namespace.library(arr) or namespace.device(
            other
        ) != namespace.device(arr):
            raise InputError(
                f"arr is {namespace.describe(arr)}, an argument of f is "
                f"{namespace.describe(other)}: bring them to one library and device first"
            )


def _engine(
    lifted: _Lifted, arr: Any, forced: str, reasons: list[str]
) -> tuple[str, Any, Callable[[Any, int], Any]] | None:
    """The fastest engine that can run the graph on `arr`."""
    assert lifted.graph is not None
    for name, loan in _candidates(arr, lifted.graph):
        if forced and name != forced:
            continue
        module = backend(name)
        assert module is not None
        refusal = module.why_not(lifted.graph, arr if loan is None else loan[1])
        if refusal is not None:
            reasons.append(f"{name}: {refusal}")
            continue
        lowered = _lowered(name, lifted.graph)
        return name, lowered, functools.partial(_run, name, lowered, lifted)
    return None


def _candidates(arr: Any, graph: Graph) -> list[tuple[str, Any]]:
    """Engines to try, fastest first; with the loan where another library does the work."""
    library = namespace.library(arr)
    assert library is not None
    own = backend(library)
    found: list[tuple[str, Any]] = []
    if own is not None:
        loan = own.lend(_plain(arr), graph.result.dtype) if hasattr(own, "lend") else None
        if loan is not None:
            found.append((loan[0], loan))
        found.append((library, None))
    found.append(("array_api", None))
    return found


def _plain(arr: Any) -> Any:
    return (
        arr.view(np.ndarray) if isinstance(arr, np.ndarray) and type(arr) is not np.ndarray else arr
    )


def _run(engine: str, lowered: Any, lifted: _Lifted, arr: Any, axis: int) -> Any:
    """Bring the axes into memory order, run, and put the result axes where `axis` was."""
    x = _plain(arr)
    own = backend(namespace.library(x) or "")
    if engine == "array_api" or own is None:
        return lowered(x, axis, _bound(engine, lowered, lifted, x))
    order = MemoryOrder.of(namespace.strides(x), x.ndim, axis)
    before, behind = order.batch(x.shape)
    result = lowered.graph.result
    out = own.empty((*before, *result.shape, *behind), result.dtype, x)
    source, target, context = x, out, nullcontext()
    if engine != namespace.library(x):
        source, target = (own.lend(a, result.dtype)[1] for a in (x, out))
        context = (
            getattr(own, "lending", nullcontext)(x) if hasattr(own, "lending") else nullcontext()
        )
    with context:
        bound = _bound(engine, lowered, lifted, source)
        lowered(namespace.permute(source, order.axes), order.at, bound, target)
    y = namespace.permute(out, order.result_axes(len(result.shape)))
    if isinstance(arr, np.ndarray):
        # what NumPy's own loop does with the type of its input
        return arr.__array_wrap__(y, None, False) if type(arr) is not np.ndarray else y
    return y


def _bound(engine: str, lowered: Any, lifted: _Lifted, like: Any) -> Any:
    """The weights as the engine wants them, on the device: once per model state."""
    assert lifted.graph is not None
    key = (engine, str(namespace.device(like)))
    if key not in lifted.bound:
        lifted.bound[key] = lowered.bind(lifted.graph.consts, like)
    return lifted.bound[key]


def run_graph(graph: Graph, arr: Any, axis: int) -> Any:
    """Run a graph on whatever library `arr` is of."""
    lifted = _by_graph.setdefault(id(graph), _Lifted(None, graph, None, [graph]))
    reasons: list[str] = []
    chosen = _engine(lifted, arr, config.current().engine, reasons)
    if chosen is None:
        raise UnsupportedError(f"no engine runs this graph: {'; '.join(reasons)}")
    return chosen[2](arr, axis)


_by_graph: dict[int, _Lifted] = {}


def _batched(
    frontend: ModuleType,
    f: Any,
    arr: Any,
    args: tuple,
    kwargs: dict,
    forced: str,
    reasons: list[str],
) -> Callable[[Any, int], Any] | None:
    """The frontend's own way to run all slices at once, where it has one."""
    make = getattr(frontend, "vectorized", None)
    if make is None or forced not in ("", "torch.vmap"):
        return None
    try:
        call: Callable[[Any, int], Any] = make(f, arr, args, kwargs)
    except TraceError as error:
        reasons.append(f"torch.vmap: {error}")
        return None
    return call


def _loop_plan(
    f: Any,
    frontend: ModuleType | None,
    args: tuple,
    kwargs: dict,
    reasons: tuple[str, ...],
    common: dict[str, Any],
) -> Plan:
    call = f if frontend is None else frontend.slice_function(f)
    return Plan(
        engine="loop",
        reasons=reasons,
        kernels=(),
        _call=lambda arr, axis: loop.apply(call, axis, arr, args, kwargs),
        **common,
    )


def few(shape: tuple[int, ...]) -> bool:
    """Whether an array has too few slices along any axis for a warning about a plain loop."""
    return math.prod(shape) // max(1, min(shape)) < _WORTH_A_WARNING


def announce(p: Plan, f: Any, stacklevel: int) -> None:
    """The slow way is never silent: warn once per function, or raise."""
    how = config.current().fallback
    plain = frontends.find(f) is None
    if how == "silent" or (p.slices or 0) < (_WORTH_A_WARNING if plain else 2):
        return
    if config.current().engine == "loop":
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
    anchor, method = _anchor(f)
    try:
        seen = _warned.setdefault(anchor, set())
    except TypeError:
        seen = set()
    if method not in seen:
        seen.add(method)
        warnings.warn(message, FallbackWarning, stacklevel=stacklevel + 1)
