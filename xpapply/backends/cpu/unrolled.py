"""Any function of short slices as one kernel, all of whose numbers are registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...arrays.layout import Dim, merged, slowest_first
from ...codegen.llvm import unrolled
from ...codegen.llvm.slice_kernel import Form
from ...codegen.llvm.target import Target
from ...errors import UnsupportedError
from ...functions.cache import BoundedDict, Dict, kept
from ...ir.graph import Graph
from ...limits import LIMITS
from .. import Lowered
from . import compiler
from .function_of_slice import as_numpy
from .host import loading
from .kernels import Launch
from .networks import NOT_NATIVE, values_of_constants
from .slice_forms import STAGED, Choice, Slices, Way, itemsize


def why_not(graph: Graph, like: Any) -> str | None:
    """Why no such kernel runs a graph, on arrays like `like` if it is given; or None."""
    refusal = compiler.why_not()
    if refusal is not None:
        return refusal
    if "bfloat16" in (graph.nodes[i].aval.dtype for i in (*graph.inputs, *graph.outs)):
        return "NumPy has no bfloat16"
    if like is not None and not getattr(like.dtype, "isnative", True):
        return NOT_NATIVE
    if isinstance(like, np.ndarray) and any(s % like.itemsize for s in like.strides):
        return f"strides {like.strides} are no multiples of the {like.itemsize} bytes of an element"
    return unrolled.why_not(graph, compiler.host())


class OnArrays(Launch):
    """A graph on arrays that lie alike.

    Parameters
    ----------
    graph : Graph
        As `unrolled.prepare` gives it.
    xs : sequence of array
        Their slices along axis `at` are the inputs; the other axes are alike.
    outs : sequence of array
        The results, with their axes in the place of `at`.
    """

    def __init__(
        self, graph: Graph, xs: Sequence[np.ndarray], at: int, outs: Sequence[np.ndarray]
    ) -> None:
        target = compiler.host()
        operands = [*graph.inputs, *unrolled.constants(graph), *graph.outs]
        avals = [graph.nodes[i].aval for i in operands]
        sizes = [math.prod(a.shape) for a in avals]
        slices = _slices(len(operands) - len(xs) - len(outs), xs, at, outs)
        found = _Choice(graph, slices, sizes, [a.dtype for a in avals], target).way()
        per_slice = unrolled.instructions(graph, target)
        cost = per_slice * math.prod(d.size for d in slices.batch) / max(1, found.tiles)
        super().__init__(found, _function(graph, found.form), [a.dtype for a in avals], cost)


_compiled: Dict = kept(Dict())
"""What was compiled, by graph, form and target."""


def _function(graph: Graph, form: Form) -> compiler.Function:
    """A kernel, compiled."""
    target = compiler.host()
    found = _compiled.get((graph, form, target))
    if found is None:
        key = f"{graph.nodes} {graph.outs} {form}"
        found = compiler.load(key, unrolled.NAME, target)
        if found is None:
            text = unrolled.unrolled_kernel(graph, form, target)
            found = compiler.compile(text, unrolled.NAME, key, target)
        _compiled[graph, form, target] = found
    return found  # type: ignore[no-any-return]


def _slices(consts: int, xs: Sequence[np.ndarray], at: int, outs: Sequence[np.ndarray]) -> Slices:
    """How slices, so many constants, and results lie."""
    given = [[s // x.itemsize for s in x.strides] for x in xs]
    x, inner, beside = xs[0], [], []
    for out in outs:
        ys, ndim = [s // out.itemsize for s in out.strides], out.ndim - x.ndim + 1
        own = merged(out.shape, [(s,) for s in ys], range(at, at + ndim))
        if len(own) > 1:
            raise UnsupportedError("the numbers of a result are not evenly spaced")
        inner.append(own[0].steps[0] if own else 1)
        beside.append([*ys[:at], 0, *ys[at + ndim :]])
    steps = (*(s[at] for s in given), *(1,) * consts, *inner)
    nothing = (0,) * consts
    strides = [(*(s[a] for s in given), *nothing, *(ys[a] for ys in beside)) for a in range(x.ndim)]
    batch = slowest_first([a for a in range(x.ndim) if a != at], strides)
    longest = max(x.shape[at] for x in xs)
    return Slices(longest, steps, tuple(merged(x.shape, strides, batch)))


class _Choice(Choice):
    """How a kernel goes through slices: they are always in lanes."""

    def __init__(
        self,
        graph: Graph,
        slices: Slices,
        counts: Sequence[int],
        dtypes: Sequence[str],
        target: Target,
    ) -> None:
        self.slices, self.counts, self.chains = slices, counts, 1
        self.inputs = len(counts) - len(graph.outs)
        self.sizes = [np.dtype(d).itemsize for d in dtypes]
        self.vectors = [n > 1 for n in counts]
        self.operands = list(range(len(counts)))
        dependent = zip(graph.nodes, graph.dependent(), strict=True)
        widest = max(itemsize(n.aval.dtype) for n, on_slice in dependent if on_slice)
        self.lanes = target.bits // 8 // widest

    def way(self) -> Way:
        found = self.across(self.lane())
        staged = any(m in STAGED for m in found.form.moves)
        return replace(found, form=replace(found.form, tile=found.geometry["tile"] * staged))

    def _length(self, k: int) -> int:
        return self.counts[k]

    def _longest(self, k: int) -> int:
        return self.counts[k]

    def _room(self, k: int) -> int:
        return self.counts[k] * self.sizes[k]

    def _places(self, form: Form) -> tuple[str, ...]:
        return ()

    def _copied(self, lane: Dim) -> list[int]:
        return []

    def _widen(self, lane: Dim, moves: Sequence[str]) -> None:
        """Registers are few as it is."""


class Unrolled(Lowered):
    """A function of one slice.

    Attributes
    ----------
    instructions : int
        What it takes for slices in lanes, about.
    seconds : float
        That compiling a kernel takes, about.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = unrolled.prepare(graph)
        self._known = BoundedDict()
        self.kernels = (f"one kernel, {compiler.host().name}",)
        self.instructions = unrolled.instructions(self.graph, compiler.host())
        self.seconds = (
            LIMITS.unrolled_compiling + LIMITS.unrolled_per_instruction * self.instructions
        )

    @property
    def compiling(self) -> float:
        """The same, with what LLVM takes to be loaded."""
        return self.seconds + loading()

    def bind(self, consts: tuple[Any, ...], like: Any) -> list[np.ndarray]:
        """The values of what depends on no slice."""
        with np.errstate(all="ignore"):
            values = values_of_constants(self.graph, consts)
        return [np.ascontiguousarray(values[i]) for i in unrolled.constants(self.graph)]

    def __call__(self, x: Any, at: int, bound: list[np.ndarray], out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        source, target = as_numpy(x), as_numpy(out)
        key = (source.shape, source.strides, at, target.strides)
        run: OnArrays | None = self._known.get(key)
        if run is None:
            run = self._known[key] = self.on([source], at, [target])
        run((source, *bound), (target,))
        return out

    def on(self, xs: Sequence[np.ndarray], at: int, outs: Sequence[np.ndarray]) -> OnArrays:
        """The kernel for arrays that lie like these, compiled."""
        return OnArrays(self.graph, xs, at, outs)

    def deferred(
        self,
        seconds: float,
        xs: Sequence[np.ndarray],
        at: int,
        outs: Callable[[], Sequence[np.ndarray]],
    ) -> compiler.Deferred[OnArrays]:
        """The same, once what is slower has taken so many seconds."""
        return compiler.Deferred(seconds, lambda: self.on(xs, at, outs()))
