"""Networks: one kernel for all layers, on addresses and strides of host arrays."""

from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ... import arrays, config
from ...arrays.addresses import address_of, of_array
from ...arrays.layout import merged
from ...codegen.cost import Estimate
from ...codegen.llvm import network
from ...codegen.llvm.target import Target
from ...functions.cache import remembered
from ...ir.graph import Graph, number
from ...limits import LIMITS
from ...runtime import threads
from .. import Later, Lowered, array_api
from . import compiler
from .kernels import NOT_NATIVE


def why_not(graph: Graph, like: Any) -> str | None:
    """Why no kernel runs a graph on arrays like `like`, or None."""
    slices = math.prod(like.shape) // max(1, graph.input.shape[0])
    refusal = _never(graph, like, slices)
    return too_few(graph, slices) if refusal is None else refusal


def _never(graph: Graph, like: Any, slices: int) -> str | None:
    """Why there is no kernel for so many slices, whatever it would save, or None."""
    refusal = why_no_kernel(graph, like)
    if refusal is not None:
        return refusal
    target = compiler.host()
    return _refusal(graph, target, slices < _tile(graph, target))


def why_no_kernel(graph: Graph, like: Any) -> str | None:
    """The reason against kernels of a whole slice and of tiles alike, or None."""
    refusal = compiler.why_not() or graph.why_not_fused(gathers=True)
    if refusal is not None or getattr(like.dtype, "isnative", True):
        return refusal
    return NOT_NATIVE


def too_few(graph: Graph, slices: int) -> str | None:
    """Why a kernel is not worth the time that it takes to compile, or None."""
    if not graph.gathers or config.current().engine == "cpu" or _few_are_over(graph):
        return None
    if slices * graph.flops() / 2 >= LIMITS.network_compiled * _products(graph):
        return None
    return (
        "so few slices with convolutions take less time than a kernel to compile: one is tried "
        f"once such calls have taken about {LIMITS.network_compiling * _products(graph):.1g} s"
    )


def _products(graph: Graph) -> int:
    return sum(n.op == "einsum" for n in graph.nodes)


@remembered(256)
def _few(graph: Graph) -> list[compiler.Deferred[Any]]:
    """Budgets of calls on few slices of a network with convolutions, one per layout.

    Empty until there was one.
    """
    return []


def _few_are_over(graph: Graph) -> bool:
    """Whether some budget is spent, so that compiling has begun."""
    return any(x.is_over for x in _few(graph))


def later(graph: Graph, x: Any, at: int) -> Later | None:
    """The budget of calls on few slices until a kernel for this layout pays.

    None where no kernel takes them, or where one pays already.
    """
    slices = math.prod(x.shape) // x.shape[at]
    return None if _never(graph, x, slices) is not None else counting(graph, x, at, slices)


def counting(graph: Graph, x: Any, at: int, slices: int) -> Later | None:
    """The same where there is one."""
    if _few_are_over(graph):
        return None
    few = _few(graph)
    if not few:
        about = graph, NetworkLowered(graph).access(x, at), compiler.host()
        there = _loaded(*about) is not None
        seconds = LIMITS.network_loading if there else LIMITS.network_compiling * _products(graph)
        few[:] = [compiler.Deferred(seconds, lambda: _kernel(*about).made())]
    return Later(few[0], LIMITS.windows_call + LIMITS.windows_mac * slices * graph.flops() / 2)


@remembered(512)
def _refusal(graph: Graph, target: Target, few: bool) -> str | None:
    return network.why_not(graph, target, few=few)


@remembered(512)
def _tile(graph: Graph, target: Target) -> int:
    """The slices of a tile."""
    return network.tile_slices(network.prepare(graph), target)


_Compiled = tuple[network.NetworkKernel, compiler.Function]


def _key(graph: Graph, access: network.Access) -> str:
    return f"{graph}\n{access}"


def _loaded(graph: Graph, access: network.Access, target: Target) -> compiler.Function | None:
    """The machine code, if it is on disk or was compiled before."""
    return compiler.load(_key(graph, access), network.NAME, target)


@remembered(256)
def _kernel(graph: Graph, access: network.Access, target: Target) -> compiler.Deferred[_Compiled]:
    """A kernel, which may be compiled later: one that is on disk is not deferred."""
    there = _loaded(graph, access, target)

    def make() -> _Compiled:
        kernel = network.network_kernel(graph, access, target)
        key = _key(graph, access)
        found = there or compiler.compile(kernel.text, network.NAME, key, target)
        return kernel, found

    return compiler.Deferred(0.0 if there else LIMITS.network_patience, make)


class _Weights:
    """The constants of a model, and where they are packed."""

    def __init__(self, consts: tuple[Any, ...]) -> None:
        self.consts = consts
        self._packed: dict[int, tuple[network.NetworkKernel, np.ndarray]] = {}
        self._lock = threading.Lock()

    def address(self, kernel: network.NetworkKernel) -> int:
        """The address of weights in a kernel's own order."""
        with self._lock, np.errstate(all="ignore"):  # other threads have the address, too
            found = self._packed.get(id(kernel))
            if found is None:
                packed = kernel.pack(values_of_constants(kernel.graph, self.consts))
                found = self._packed[id(kernel)] = kernel, packed
        assert found[1].size == max(1, kernel.weights.size)
        return of_array(found[1])


def values_of_constants(graph: Graph, consts: tuple[Any, ...]) -> dict[int, np.ndarray]:
    """The values of all nodes that depend on no slice."""
    found: dict[int, np.ndarray] = {}
    dependent = graph.dependent()
    for i, n in enumerate(graph.nodes):
        if dependent[i]:
            continue
        if n.op == "const":
            found[i] = np.asarray(consts[n.attr("k")])
        elif n.op == "scalar":
            found[i] = np.asarray(number(n), n.aval.dtype)
        else:
            found[i] = np.asarray(array_api.apply(np, n, [found[a] for a in n.args], 1))
    return found


class _Layout(NamedTuple):
    """The layout of slices and results.

    Attributes
    ----------
    access : Access
        What the text of the kernel depends on.
    tiles : int
        How many there are.
    numbers : tuple of int
        The kernel's arguments from `x_step` to `dims`.
    sizes : tuple of int
        The lengths and steps of the axes that slices are along.
    """

    access: network.Access
    tiles: int
    numbers: tuple[int, ...]
    sizes: tuple[int, ...]


def serves(graph: Graph) -> bool:
    """Whether there are kernels of networks for a graph."""
    return _refusal(graph, compiler.host(), False) is None


def _layout(x: Any, at: int, out: Any, whole: int, lanes: int) -> _Layout:
    """The layout of `x` and `out`, for tiles of so many slices."""
    ndim = out.ndim - x.ndim + 1
    xs, ys = byte_strides(x), byte_strides(out)
    beside = (*ys[:at], 0, *ys[at + ndim :])  # for each axis of x
    steps = list(zip(xs, beside, strict=True))
    dims = merged(x.shape, steps, [a for a in range(x.ndim) if a != at])[::-1]
    inner = merged(out.shape, [(s,) for s in ys], range(at, at + ndim))
    assert len(inner) <= 1, "the numbers of a result are not evenly spaced"
    x_step = xs[at] if x.shape[at] > 1 else x.itemsize
    y_step = inner[0].steps[0] if inner else out.itemsize
    length, (x_slice, y_slice) = (dims[0].size, dims[0].steps) if dims else (1, (0, 0))
    slices = math.prod(d.size for d in dims)
    if length < whole:
        access = network.Access("slices", "slices")
        tiles = -(-slices // lanes)
        length, per_run = slices, tiles
    else:
        access = network.Access(
            _kind(x_step, x_slice, x.itemsize), _kind(y_step, y_slice, out.itemsize)
        )
        per_run = -(-length // whole)
        tiles = per_run * (slices // length)
    sizes = [n for d in dims for n in (d.size, *d.steps)] or [1, 0, 0]
    numbers = (x_step, y_step, length, per_run, max(1, len(dims)))
    return _Layout(access, tiles, numbers, tuple(sizes))


def _kind(step: int, slice_: int, itemsize: int) -> str:
    if slice_ == itemsize:
        return "columns"
    return "rows" if step == itemsize else "strided"


def byte_strides(x: Any) -> tuple[int, ...]:
    """Strides in bytes."""
    if isinstance(x, np.ndarray):
        return x.strides
    found = arrays.strides(x)
    assert found is not None
    return tuple(s * x.itemsize for s in found)


def _memory(size: int) -> tuple[int, np.ndarray]:
    """So many bytes at a multiple of 64, and what keeps them."""
    memory = np.empty(size + 64, np.uint8)
    start = of_array(memory)
    return start + -start % 64, memory


class NetworkLowered(Lowered):
    """A graph, and its kernels for the ways in which slices lie.

    `target` is a lesser CPU than this one, for tests.
    """

    def __init__(self, graph: Graph, target: Target | None = None) -> None:
        self.graph = graph
        self._target = target or compiler.host()
        self._whole = _tile(graph, self._target)
        self._lanes = network.tile_slices(network.prepare(graph), self._target, whole=False)
        self._macs = graph.flops() / 2
        self.kernels = (f"one kernel, {self._target.name}",)

    def bind(self, consts: tuple[Any, ...], like: Any) -> _Weights:
        """The constants, which are packed for the first kernel."""
        return _Weights(consts)

    def __call__(self, x: Any, at: int, bound: _Weights, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        self.prepared(x, at, bound, out)(x, out)
        return out

    def prepared(self, x: Any, at: int, bound: _Weights, out: Any) -> Callable[[Any, Any], None]:
        """``call(x, out)`` for arrays that lie like these."""
        lies = _layout(x, at, out, self._whole, self._lanes)
        macs = self._macs_of(x, at)
        ready = functools.partial(self._ready, lies, macs, address_of(x), at, bound)
        cost = LIMITS.network_call + LIMITS.network_mac * macs
        if not self._is_deferred(lies, macs):
            return ready()
        deferred = _kernel(self.graph, lies.access, self._target)
        definition = self._by_definition(at, bound)
        found: Callable[[Any, Any], None] | None = None

        def call(x: Any, out: Any) -> None:
            nonlocal found
            if found is None:
                if deferred.spend(cost):
                    definition(x, out)
                    return
                found = ready()
            found(x, out)

        return call

    def _is_deferred(self, lies: _Layout, macs: float) -> bool:
        """Whether a call runs by definition while its kernel is not compiled."""
        if self.graph.gathers or macs >= LIMITS.network_pool or config.current().engine == "cpu":
            return False
        deferred = _kernel(self.graph, lies.access, self._target)
        return deferred.holds(LIMITS.network_call + LIMITS.network_mac * macs)

    def _macs_of(self, x: Any, at: int) -> float:
        return self._macs * math.prod(x.shape) / max(1, x.shape[at])

    def _lies(self, x: Any, at: int) -> _Layout:
        """The layout of slices and results, in memory as `Backend.empty` makes it."""
        shape = (*x.shape[:at], *self.graph.result.shape, *x.shape[at + 1 :])
        return _layout(x, at, np.empty(shape, np.float32), self._whole, self._lanes)

    def access(self, x: Any, at: int) -> network.Access:
        """The access of the kernel for this layout."""
        return self._lies(x, at).access

    def _ready(
        self, lies: _Layout, macs: float, address: Callable[[Any], int], at: int, bound: _Weights
    ) -> Callable[[Any, Any], None]:
        """The kernel for arrays that lie so."""
        for deferred in _few(self.graph):
            if deferred.is_over:
                deferred.made()  # for the thread that compiles, if it does
        kernel, function = _kernel(self.graph, lies.access, self._target).made()
        sizes = np.array(lies.sizes, np.int64)
        weights = bound.address(kernel)
        rest = struct.pack("6q", *lies.numbers, of_array(sizes))
        first = struct.Struct("6q").pack
        idle: list[tuple[int, np.ndarray]] = []  # memory for tiles, of calls that have ended
        tiles = lies.tiles
        run = function.call_with_gil if macs < LIMITS.network_gil else function.call

        def call(x: Any, out: Any, keep: Any = (sizes, bound)) -> None:
            try:
                tile = idle.pop()
            except IndexError:  # the first call, or another thread is at work with it
                tile = _memory(kernel.scratch)
            run(first(address(x), weights, address(out), tile[0], 0, tiles) + rest)
            if kernel.scratch <= LIMITS.network_idle:
                idle.append(tile)

        def threaded(x: Any, out: Any, keep: Any = (sizes, bound)) -> None:
            count = min(config.current().thread_count(), tiles)
            here, there = address(x), address(out)
            size = min(
                -(-tiles // (count * LIMITS.network_pieces)),
                -(-int(LIMITS.network_piece * tiles) // int(macs)),
            )

            def work(starts: Iterator[int]) -> None:
                tile, _ = _memory(kernel.scratch)
                for start in starts:
                    stop = min(start + size, tiles)
                    run(first(here, weights, there, tile, start, stop) + rest)

            threads.in_threads(work, iter(range(0, tiles, size)), count, short=True)

        return call if macs < LIMITS.network_pool else threaded

    def fair_sample(self) -> int:
        """Slices that keep every thread at work; only of networks with convolutions."""
        if not self.graph.gathers:
            return 0
        enough = math.ceil(LIMITS.network_sample_macs / max(1.0, self._macs))
        least = max(
            enough, LIMITS.network_sample_tiles * config.current().thread_count() * self._whole
        )
        return -(-least // self._whole) * self._whole

    def _by_definition(self, at: int, bound: _Weights) -> Callable[[Any, Any], None]:
        reference = array_api.BACKEND.lower(self.graph)
        weights: Any = None

        def call(x: Any, out: Any) -> None:
            nonlocal weights
            if weights is None:
                weights = reference.bind(bound.consts, x)
            reference(x, at, weights, out)

        return call

    def estimate(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> Estimate:
        """The kernel, and how many threads run it."""
        macs = self._macs * math.prod(x.shape) / max(1, self.graph.input.shape[0])
        count = config.current().thread_count() if macs >= LIMITS.network_pool else 1
        shown = f"one kernel, {self._target.name}, {count} thread{'s' * (count > 1)}"
        if at is not None and macs < LIMITS.network_pool:
            if self._is_deferred(self._lies(x, at), macs):
                shown += "; the first calls run layer by layer, while it compiles"
        return Estimate((shown,), (), None, None)
