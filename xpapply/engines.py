"""From a graph and an array to a result: choose a backend, bring axes in order, run.

A backend may lend its arrays to another one, which sees the same memory: CUDA
tensors to CuPy's kernels, NumPy arrays to torch's products.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from . import config, extensions, namespace
from .blocks import MemoryOrder
from .errors import InputError, UnsupportedError
from .ir.graph import Graph, ShapeDtype


def backend(library: str) -> ModuleType | None:
    """The backend that serves a library's arrays, or None."""
    return extensions.find("backends", library)


@functools.lru_cache(maxsize=256)
def _lowered(name: str, graph: Graph, precision: str) -> Any:
    """Compiled once per structure: graphs are equal when only their weights differ.

    Backends read `precision` from the options in force.
    """
    module = backend(name)
    assert module is not None
    return module.lower(graph)


class Bound:
    """A graph with its weights, and what the engines made of them, by device."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._weights: dict[tuple[str, Any], Any] = {}

    def weights(self, engine: str, lowered: Any, like: Any) -> Any:
        """The weights as an engine wants them: packed and copied once."""
        key = (engine, namespace.place(like))
        found = self._weights.get(key)
        if found is None:
            found = self._weights[key] = lowered.bind(self.graph.consts, like)
        return found


class Engine:
    """A graph on one backend, for arrays of one library.

    Call it as ``engine(arr, axis)``, the axis not negative.
    """

    def __init__(self, name: str, bound: Bound, library: str) -> None:
        self.name = name
        self.lowered = _lowered(name, bound.graph, config.current().precision)
        self._bound = bound
        self._result = bound.graph.result
        self._own = backend(library)
        dtype = getattr(self._own, "library_dtype", str)(self._result.dtype)
        self.result = ShapeDtype(self._result.shape, dtype)
        self._lends = name != library and name != "array_api"
        self.kernels: tuple[str, ...] = self.lowered.kernels
        if self._lends:
            self.kernels += (f"on the memory of the {library} array ({name} is loaded: faster)",)
        self._orders: dict[Any, tuple[Any, ...]] = {}

    def __call__(self, arr: Any, axis: int) -> Any:
        """Run on all slices; the result axes stand where `axis` was."""
        x = plain(arr)
        own = self._own
        if self.name == "array_api" or own is None:
            self._check(x, axis)
            return self.lowered(x, axis, self._bound.weights(self.name, self.lowered, x))
        inward, at, outward, out_shape = self._order(x, axis)
        out = own.empty(out_shape, self._result.dtype, x)
        source, target = x, out
        context: Any = nullcontext()
        if self._lends:
            loan = own.lend(x, self._result.dtype)
            if loan is None or loan[0] != self.name:  # not the array that this was chosen for
                return chosen(self._bound, arr)(arr, axis)
            source, target = loan[1], own.lend(out, self._result.dtype)[1]
            if hasattr(own, "lending"):
                context = own.lending(x)
        with context:
            weights = self._bound.weights(self.name, self.lowered, source)
            if inward is not None:
                source = namespace.permute(source, inward)
            self.lowered(source, at, weights, target)
        y = out if outward is None else namespace.permute(out, outward)
        if type(arr) is not np.ndarray and isinstance(arr, np.ndarray):
            # what NumPy's own loop does with the type of its input
            return arr.__array_wrap__(y, None, False)
        return y

    def _check(self, x: Any, axis: int) -> None:
        """Plans can be called with any array; a wrong one must not get an answer."""
        found = ShapeDtype((x.shape[axis],), namespace.dtype_name(x))
        if found != self._bound.graph.input:
            raise InputError(
                f"this plan is for slices {self._bound.graph.input}, those along axis {axis} "
                f"are {found}. Compile or explain it for them."
            )

    def _order(self, x: Any, axis: int) -> tuple[Any, ...]:
        """Permutations into and out of memory order (None: none needed), and the output's shape."""
        strides = namespace.strides(x)
        key = (axis, x.shape, strides, x.dtype)
        found = self._orders.get(key)
        if found is None:
            self._check(x, axis)
            order = MemoryOrder.of(strides, x.ndim, axis)
            before, behind = order.batch(x.shape)
            outward = order.result_axes(len(self._result.shape))
            found = (
                None if order.axes == tuple(range(x.ndim)) else order.axes,
                order.at,
                None if outward == tuple(range(len(outward))) else outward,
                (*before, *self._result.shape, *behind),
            )
            if len(self._orders) > 64:
                self._orders.clear()
            self._orders[key] = found
        return found


class AnyLibrary:
    """A graph for arrays of any library, which it chooses an engine for when it is called."""

    def __init__(self, graph: Graph) -> None:
        self._bound = Bound(graph)
        self._engines: dict[Any, Engine] = {}

    def __call__(self, arr: Any, axis: int) -> Any:
        """Run on all slices of `arr` along `axis`."""
        now = config.current()
        key = (namespace.library(arr), now.engine, now.precision, namespace.place(arr))
        if key not in self._engines:
            self._engines[key] = chosen(self._bound, arr)
        return self._engines[key](arr, axis)


def choose(bound: Bound, arr: Any, reasons: list[str]) -> Engine | None:
    """The fastest engine that can run the graph on `arr`; why others cannot goes to `reasons`."""
    library = namespace.library(arr)
    assert library is not None
    forced = config.current().engine
    for name, seen in _candidates(library, arr, bound.graph):
        if forced and name != forced:
            continue
        module = backend(name)
        assert module is not None
        refusal = module.why_not(bound.graph, seen)
        if refusal is None:
            return Engine(name, bound, library)
        reasons.append(f"{name}: {refusal}")
    return None


def chosen(bound: Bound, arr: Any) -> Engine:
    """The fastest engine that can run the graph on `arr`, or `UnsupportedError`."""
    reasons: list[str] = []
    found = choose(bound, arr, reasons)
    if found is None:
        why = "; ".join(reasons) or f"{config.current().engine} cannot read its memory"
        raise UnsupportedError(f"no engine runs this graph: {why}")
    return found


def _candidates(library: str, arr: Any, graph: Graph) -> list[tuple[str, Any]]:
    """Engines to try, fastest first, each with the array as it will see it."""
    own = backend(library)
    found: list[tuple[str, Any]] = []
    if own is not None:
        loan = own.lend(plain(arr), graph.result.dtype) if hasattr(own, "lend") else None
        if loan is not None:
            found.append(loan)
        found.append((library, arr))
    return [*found, ("array_api", arr)]


def limits(name: str, arr: Any) -> tuple[float, float] | None:
    """Bytes and operations per second of the device, where the backend knows them."""
    find: Callable[[Any], tuple[float, float] | None] | None
    find = getattr(backend(name), "limits", None)
    return None if find is None else find(arr)


def plain(arr: Any) -> Any:
    """A NumPy subclass as what it is in memory."""
    subclass = isinstance(arr, np.ndarray) and type(arr) is not np.ndarray
    return arr.view(np.ndarray) if subclass else arr
