"""Functions of the slices of several arrays on CPUs: one kernel, or a few where slices are long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...arrays.layout import Dim, Layout, merged, slowest_first
from ...codegen.llvm.slice_kernel import why_not as no_kernel
from ...errors import UnsupportedError
from ...functions.cache import BoundedDict, kept
from ...ir.graph import Graph, Node, number
from ...ir.ops import OPS
from ...ir.subgraph import part
from ...limits import LIMITS
from . import compiler, kernels
from .host import loading
from .kernels import Kernel, instructions, is_compiled
from .slice_forms import PIECE, Slices, pieces, power_of_two, way
from .slice_pieces import Pieces


def why_not(graph: Graph, arrays: Sequence[Any]) -> str | None:
    """The reason why kernels for CPUs cannot run `graph`, or None."""
    if (refusal := kernels.why_not(arrays)) is not None:
        return refusal
    return _failed.get((graph, compiler.host())) or no_kernel(graph, compiler.host())


_failed = kept(BoundedDict())
"""Compiler messages of refused graphs, by graph and CPU."""


class LoweredSlices:
    """A slice graph for arrays of one layout. It is compiled when it runs at first.

    Attributes
    ----------
    seconds : float
        What that takes, about; 0 where it has been done for arrays that lie alike.
    """

    def __init__(self, graph: Graph, layout: Layout) -> None:
        refusal = unsupported(graph, layout)
        if refusal is not None:
            raise UnsupportedError(refusal)
        self.graph = graph
        self._constants = _Constants(graph, layout)
        graph, layout = self._constants.others()
        self._rest = graph
        self._slices = _slices(graph, layout)
        self._whole = part(graph, graph.outs, (), None)
        facts = self._whole, self._slices, compiler.host()
        self._pieces = pieces(*facts)
        self._made: Kernel | Pieces | None = None
        cost = sum(map(instructions, self._whole.nodes))
        self._estimate = (
            LIMITS.slices_call + LIMITS.slices_instruction * cost * layout.slices * layout.length
        )
        form = way(*facts).form
        levels = max(graph.levels()) if self._pieces > 1 else 0
        there = not levels and is_compiled(self._whole, form)
        self.seconds = 0.0 if there else LIMITS.slices_compiling * (1 + 2 * levels)
        self._deferred = compiler.Deferred(self.seconds, self._compiled)

    @property
    def is_deferred(self) -> bool:
        """Whether other engines run calls until they have taken as long as compiling."""
        return self._deferred.holds(self._estimate)

    @property
    def compiling(self) -> float:
        """Seconds that compiling takes, if that has yet to be done."""
        is_due = self._made is None and self.seconds
        return self.seconds + loading() if is_due else 0.0

    def defer(self) -> bool:
        """Defer the current call, which is counted."""
        return self._deferred.spend(self._estimate)

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Write the results of the slices of `arrays` into `outs`."""
        outs = self._constants(outs)
        if outs:
            self._run(arrays, outs)

    @property
    def is_begun(self) -> bool:
        return self._deferred.is_begun

    def instead_of(self, seconds: float) -> None:
        """Until then calls run that take so long each, not those of NumPy's engine."""
        self._estimate = seconds

    def make(self) -> None:
        """Compile, if that has not been done."""
        self._run  # noqa: B018

    @property
    def _run(self) -> Kernel | Pieces:
        if self._made is None:
            self._made = self._deferred.made()
        return self._made

    def _compiled(self) -> Kernel | Pieces:
        try:
            if self._pieces > 1:
                return Pieces(self._rest, self._slices, self._pieces)
            return Kernel(self._whole, self._slices)
        except compiler.CompilerError as error:
            _failed[self.graph, compiler.host()] = str(error)
            raise

    @property
    def kernels(self) -> tuple[str, ...]:
        what = f"one kernel, {compiler.host().name}"
        return (what if self._pieces == 1 else f"{what}, slices in {self._pieces} pieces",)


class _Constants:
    """Results with one number per slice that is the same for all: NumPy writes them.

    Attributes
    ----------
    left : list of int
        The other results.
    """

    def __init__(self, graph: Graph, layout: Layout) -> None:
        self._graph, self._layout = graph, layout
        self._found: dict[int, Any] = {}
        for k, (o, out) in enumerate(zip(graph.outs, layout.outs, strict=True)):
            strides = zip(layout.shape, out.strides or (), strict=False)
            if graph.nodes[o].op == "scalar" and any(n > 1 and not s for n, s in strides):
                self._found[k] = number(graph.nodes[o])
        self.left = [k for k in range(len(graph.outs)) if k not in self._found]

    def others(self) -> tuple[Graph, Layout]:
        """The graph of the other results, and how their arrays lie."""
        graph, layout = self._graph, self._layout
        if not self._found or not self.left:
            return graph, layout
        outs = tuple(graph.outs[k] for k in self.left)
        rest = Graph(graph.nodes, outs, graph.consts).pruned()
        return rest, replace(layout, outs=tuple(layout.outs[k] for k in self.left))

    def __call__(self, outs: Sequence[Any]) -> Sequence[Any]:
        """Write them; what is left."""
        if not self._found:
            return outs
        for k, value in self._found.items():
            outs[k][...] = value
        return [outs[k] for k in self.left]


def unsupported(graph: Graph, layout: Layout) -> str | None:
    """Why arrays that lie so are left to another engine, or None."""
    if not layout.length:
        return "slices of no elements"
    if len(_core(graph, layout)) > 1:
        return "slices along several axes that do not lie one in the other"
    return None


def _strided(layout: Layout) -> list[tuple[int, ...]]:
    """The strides of inputs and results along each axis; numbers by value have none."""
    operands = [*layout.inputs, *layout.outs]
    none = (0,) * len(layout.shape)
    strides = [none if o.strides is None else o.strides for o in operands]
    return [tuple(s[a] for s in strides) for a in range(len(layout.shape))]


def _core(graph: Graph, layout: Layout) -> list[Dim]:
    """The dims of a slice."""
    steps = _strided(layout)
    axes: Sequence[int] = layout.axes
    if not any(n.op in OPS and OPS[n.op].finds_position for n in _all_nodes(graph)):
        axes = slowest_first(axes, steps)
    return merged(layout.shape, steps, axes)


def _all_nodes(graph: Graph) -> Iterator[Node]:
    yield from graph.nodes
    for by, _ in graph.accumulations():
        if by.chunk is not None:
            yield from by.chunk.nodes


def _slices(graph: Graph, layout: Layout) -> Slices:
    """The slices of a layout, along one dim."""
    steps, every = _strided(layout), range(len(layout.shape))
    numbers = [o.strides is None for o in (*layout.inputs, *layout.outs)]
    none = (0,) * len(numbers)
    if not graph.accumulations():  # any dim will do
        dims = merged(layout.shape, steps, slowest_first(every, steps))
        dims = dims or [Dim(1, none, -1)]
        core = max(dims, key=lambda d: (min(d.size, 64), d.steps.count(1), d.size))
        dims.remove(core)
        if core.size >= 2 * PIECE:
            count = power_of_two(core.size // PIECE)
            dims.append(Dim(count, (0,) * len(core.steps), -1))
            return _found(core, dims, numbers, len(dims) - 1)
        return _found(core, dims, numbers)
    cores = _core(graph, layout) or [Dim(1, none, -1)]
    rest = slowest_first([a for a in every if a not in layout.axes], steps)
    return _found(cores[0], merged(layout.shape, steps, rest), numbers)


def _found(core: Dim, batch: Sequence[Dim], numbers: Sequence[bool], cut: int = -1) -> Slices:
    steps = tuple(None if v else s for s, v in zip(core.steps, numbers, strict=True))
    return Slices(core.size, steps, tuple(batch), cut)
