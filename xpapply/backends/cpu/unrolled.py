"""Any function of short slices as one kernel, all of whose numbers are registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...arrays.layout import Dim, Layout, merged, slowest_first
from ...codegen.llvm import unrolled
from ...codegen.llvm.slice_kernel import Form
from ...codegen.llvm.target import Target
from ...errors import UnsupportedError
from ...ir.graph import Graph
from ...limits import LIMITS
from . import compiler, kernels
from .function_of_slice import ByLayout
from .host import loading
from .kernels import Launch, function
from .networks import values_of_constants
from .slice_forms import STAGED, Choice, Slices, Way, itemsize


def why_not(graph: Graph, given: Sequence[Any]) -> str | None:
    """Why no such kernel runs a graph, on arrays like `given` if there are any; or None."""
    if "bfloat16" in (graph.nodes[i].aval.dtype for i in (*graph.inputs, *graph.outs)):
        return "NumPy has no bfloat16"
    return kernels.why_not(given) or unrolled.why_not(graph, compiler.host())


class OnArrays(Launch):
    """A graph on arrays that lie alike.

    Parameters
    ----------
    graph : Graph
        As `unrolled.prepare` gives it.
    layout : Layout
        Of the longest slices, along one axis: along the others all arrays are alike.
    """

    def __init__(self, graph: Graph, layout: Layout) -> None:
        target = compiler.host()
        operands = [*graph.inputs, *unrolled.constants(graph), *graph.outs]
        avals = [graph.nodes[i].aval for i in operands]
        sizes = [math.prod(a.shape) for a in avals]
        slices = _slices(graph, len(operands) - len(graph.inputs) - len(graph.outs), layout)
        found = _Choice(graph, slices, sizes, [a.dtype for a in avals], target).way()
        per_slice = unrolled.instructions(graph, target)
        cost = per_slice * math.prod(d.size for d in slices.batch) / max(1, found.tiles)
        compiled = function(unrolled.unrolled_kernel, unrolled.NAME, graph, found.form)
        super().__init__(found, compiled, [a.dtype for a in avals], cost)
        self.kernels = (f"one kernel, {target.name}",)


def _slices(graph: Graph, consts: int, layout: Layout) -> Slices:
    """The layout of inputs, constants and results."""
    given = [x.strides for x in layout.inputs if x.strides is not None]
    (at,), inner, beside = layout.axes, [], []
    for o, out in zip(graph.outs, layout.outs, strict=True):
        shape, ys = graph.nodes[o].aval.shape, out.strides or ()
        ndim = len(shape)
        own = merged(shape, [(s,) for s in ys[at : at + ndim]], range(ndim))
        if len(own) > 1:
            raise UnsupportedError("the numbers of a result are not evenly spaced")
        inner.append(own[0].steps[0] if own else 1)
        beside.append([*ys[:at], 0, *ys[at + ndim :]])
    steps = (*(s[at] for s in given), *(1,) * consts, *inner)
    nothing = (0,) * consts
    every = range(len(layout.shape))
    strides = [(*(s[a] for s in given), *nothing, *(ys[a] for ys in beside)) for a in every]
    batch = slowest_first([a for a in every if a != at], strides)
    return Slices(layout.length, steps, tuple(merged(layout.shape, strides, batch)))


class _Choice(Choice):
    """The traversal: slices are always in lanes."""

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


class Unrolled(ByLayout):
    """A function of one slice.

    Attributes
    ----------
    instructions : int
        What it takes for slices in lanes, about.
    seconds : float
        That compiling a kernel takes, about.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(unrolled.prepare(graph))
        self.instructions = unrolled.instructions(self.graph, compiler.host())
        self.seconds = (
            LIMITS.unrolled_compiling + LIMITS.unrolled_per_instruction * self.instructions
        )

    @property
    def compiling(self) -> float:
        """Estimated seconds of compiling, with loading LLVM."""
        return self.seconds + loading()

    def bind(self, consts: tuple[Any, ...], like: Any) -> list[np.ndarray]:
        """The values of what depends on no slice."""
        with np.errstate(all="ignore"):
            values = values_of_constants(self.graph, consts)
        return [np.ascontiguousarray(values[i]) for i in unrolled.constants(self.graph)]

    def on(self, layout: Layout, like: Any = None) -> OnArrays:
        """The kernel for arrays that lie so, compiled."""
        return OnArrays(self.graph, layout)

    def deferred(self, seconds: float, layout: Layout) -> compiler.Deferred[OnArrays]:
        """The kernel, deferred until slower ways have taken so many seconds."""
        return compiler.Deferred(seconds, lambda: self.on(layout))
