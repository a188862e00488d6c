"""Functions of slices that are written once, on arrays of dask: lazy, in one pass over the blocks.

Where a slice lies in one block, the function runs on each block as it does on such an array alone.
Where it lies in several, what the function accumulates is found for each block, merged as the
branches of a tree, and what is computed of it follows: no block is copied to others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import arrays, config
from ..errors import InputError
from ..functions.cache import BoundedDict
from ..ir.graph import VECTOR, Graph, Node, ShapeDtype
from ..ir.ops import OPS
from ..ir.slices.slice_graph import Accumulator, SliceBuilder
from . import call
from .arguments import Number, looked_at, signature, typed


class OnDask:
    """A function of slices for arguments among which there are arrays of dask.

    Attributes
    ----------
    graph : Graph
        What is computed.
    engine : str
        "dask"
    kernels, reasons : tuple of str
        What runs on a block.
    """

    engine, compiled = "dask", None
    kernels = ("chunk by chunk when they are computed",)
    reasons: tuple[str, ...] = ()

    def __init__(
        self, name: str, graph: Graph, several: bool, ndim: int, axes: tuple[int, ...], keep: bool
    ) -> None:
        self.name, self.graph, self.axes = name, graph, axes
        self._several, self._ndim, self._keep = several, ndim, keep

    def __call__(self, operands: Sequence[Any], out: Any = None) -> Any:
        """The results, as arrays of dask: one, or a tuple of them."""
        from ..backends.dask import blocks

        if out is not None:
            raise InputError(f"{self.name}: out= of dask arrays, which nothing is written to")
        numbers: dict[int, Any] = {}
        given: list[tuple[Any, Sequence[int]]] = []
        for k, x in enumerate(looked_at(self.name, x, alone=False) for x in operands):
            if isinstance(x, Number):
                dtype = self.graph.nodes[self.graph.inputs[k]].aval.dtype
                numbers[k] = typed(x.value, np.dtype(dtype).type)
            else:
                x = blocks.lazy(x)
                given.append((x, range(self._ndim - x.ndim, self._ndim)))
        chunks, given = blocks.aligned(given)
        graph, states = self.graph, None
        if any(len(chunks[a]) > 1 for a in self.axes) and graph.accumulations():
            in_pieces = max(graph.levels()) < 2 and 0 not in [
                n for a in self.axes for n in chunks[a]
            ]
            if in_pieces:
                graph = _with_length(graph, math.prod(sum(chunks[a]) for a in self.axes))
                states = self._states(graph, given, numbers, chunks)
                graph = _after(graph)
            else:
                given = [(self._whole(x, own), own) for x, own in given]
        found: list[Any] = [None] * len(graph.outs)
        for vectors in (True, False):
            which = [k for k, o in enumerate(self.graph.outs) if self.graph.is_vector(o) == vectors]
            if not which:
                continue
            one = Graph(graph.nodes, tuple(graph.outs[k] for k in which)).pruned()
            own = given if states is None or vectors else []
            task = _BlockTask(
                self, one, numbers, len(given) if own else 0, states is not None, vectors
            )
            if states is not None:
                own = [*own, (states, range(self._ndim))]
            for k, y in zip(which, self._mapped(task, own, vectors), strict=True):
                found[k] = y
        return tuple(found) if self._several else found[0]

    def _whole(self, x: Any, labels: Sequence[int]) -> Any:
        from ..backends.dask import blocks

        return blocks.whole(x, [k for k, label in enumerate(labels) if label in self.axes])

    def _mapped(self, task: _BlockTask, given: list[Any], vectors: bool) -> list[Any]:
        from ..backends.dask import blocks

        graph = task.graph
        dtypes = [np.dtype(graph.nodes[o].aval.dtype) for o in graph.outs]
        rest = [a for a in range(self._ndim) if vectors or a not in self.axes]
        tuples = len(dtypes) > 1
        every = blocks.mapped(task, given, rest, {}, dtypes[0], self.name, tuples=tuples)
        found = [every]
        if tuples:
            found = [blocks.part(every, k, {}, d) for k, d in enumerate(dtypes)]
        if vectors or not self._keep:
            return found
        kept = tuple(None if a in self.axes else slice(None) for a in range(self._ndim))
        return [y[kept] for y in found]

    def _states(self, graph: Graph, given: list[Any], numbers: dict, chunks: Any) -> Any:
        """Accumulated states of whole slices: an array whose blocks are tuples."""
        from ..backends.dask import blocks

        first, merge = _of_pieces(graph)
        found = any(_positions(by) for by, _ in graph.accumulations())
        starts = []
        if found:
            starts = [(blocks.starts(chunks[a]), (a,)) for a in self.axes]
        lengths = tuple(sum(chunks[a]) for a in self.axes)
        task = _PiecesOfBlocks(
            self, first, numbers, len(given), lengths, _flags(graph) if found else ()
        )
        own = [*given, *starts]
        made = blocks.mapped(
            task, own, range(self._ndim), {}, np.dtype("f8"), f"{self.name}-pieces",
            pieces=dict.fromkeys(self.axes, 1), tuples=True,
        )  # fmt: skip
        return blocks.merged(_Merge(self, merge), made, self.axes, f"{self.name}-merged")


# --- graphs ---------------------------------------------------------------------------------------


def _with_length(graph: Graph, length: int) -> Graph:
    """The graph for slices of a known length."""
    builder = SliceBuilder()
    nodes = []
    for n in graph.nodes:
        if n.op == "length":
            n = builder.nodes[builder.scalar(length, n.aval.dtype).index]
        nodes.append(n)
    return replace(graph, nodes=tuple(nodes))


def _fields(graph: Graph) -> list[tuple[Accumulator, tuple[int, ...], int]]:
    """All numbers that are accumulated, in order: by what, of which nodes, and which of them."""
    groups = graph.accumulations()
    return [(by, args, k) for by, args in groups for k in range(len(by.dtypes))]


def _of_pieces(graph: Graph) -> tuple[Graph, Graph]:
    """Graphs that accumulate over one block, and merge those of several along one more axis."""
    nodes, outs, inputs, merging = list(graph.nodes), [], [], []
    for by, args, k in _fields(graph):
        aval = ShapeDtype((), by.dtypes[k])
        outs.append(len(nodes))
        nodes.append(Node("accumulate", args, (("by", by), ("field", k)), aval))
    at = 0
    for by, _ in graph.accumulations():
        count = len(by.dtypes)
        for k, dtype in enumerate(by.dtypes):
            inputs.append(Node("input", (), (("k", at + k),), ShapeDtype(VECTOR, dtype)))
        merging += [
            (replace(by, chunk=None), tuple(range(at, at + count)), k) for k in range(count)
        ]
        at += count
    merges = [
        Node("accumulate", args, (("by", by), ("field", k)), ShapeDtype((), by.dtypes[k]))
        for by, args, k in merging
    ]
    merge = Graph((*inputs, *merges), tuple(range(at, 2 * at)))
    return Graph(tuple(nodes), tuple(outs)).pruned(), merge


def _after(graph: Graph) -> Graph:
    """The graph of what follows the accumulations, which are further inputs."""
    place = {field: k for k, field in enumerate(_fields(graph))}
    first, nodes = len(graph.inputs), []
    new: list[int] = []
    for by, args, k in place:  # all of them, for inputs to be what tasks have
        shape = ShapeDtype(VECTOR, by.dtypes[k])
        nodes.append(Node("input", (), (("k", first + place[by, args, k]),), shape))
    for n in graph.nodes:
        if n.op == "accumulate":
            new.append(place[n.attr("by"), n.args, n.attr("field")])
            continue
        args = tuple(new[a] for a in n.args)
        vector = n.aval.shape == VECTOR or any(nodes[a].aval.shape == VECTOR for a in args)
        new.append(len(nodes))
        nodes.append(Node(n.op, args, n.attrs, ShapeDtype(VECTOR if vector else (), n.aval.dtype)))
    return Graph(tuple(nodes), tuple(new[o] for o in graph.outs))


def _positions(by: Accumulator) -> list[int]:
    """Indices of an accumulator's numbers that are positions in a slice."""
    if by.chunk is None:
        return []
    ops = [by.chunk.nodes[o].op for o in by.chunk.outs]
    return [k for k, op in enumerate(ops) if op in OPS and OPS[op].finds_position]


def _flags(graph: Graph) -> tuple[bool, ...]:
    return tuple(k in _positions(by) for by, _, k in _fields(graph))


# --- tasks ----------------------------------------------------------------------------------------


_NOT_SAID = ("_known", "_token", "graph")


class _OnBlock:
    """A graph for blocks."""

    def __init__(self, call: OnDask, graph: Graph) -> None:
        from ..backends.dask import blocks

        self.name, self.axes, self.graph = call.name, call.axes, graph
        self._options = blocks.own_options()
        self._known = BoundedDict()
        self._token: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": BoundedDict()}

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        from ..backends.dask import blocks

        if self._token is None:
            said = {k: x for k, x in self.__dict__.items() if k not in _NOT_SAID}
            own = blocks.token_of_graph(self.graph)
            self._token = normalize_token((type(self).__name__, own, sorted(said.items())))
        return self._token

    def _run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """All results, which keep the axes of the slices."""
        with config.options(**self._options):
            key = tuple(map(signature, operands))
            found = self._known.get(key)
            if found is None:
                given = [looked_at(self.name, x, alone=False) for x in operands]
                as_is = [x is y for x, y in zip(operands, given, strict=True)]
                own = [tuple(x.shape) for x in given if not isinstance(x, Number)]
                shape = np.broadcast_shapes(*own)
                about = (self.name, self.graph, True, given, as_is, shape, self.axes, True, None)
                found = self._known[key] = call.BoundKernel(*about)
            return found(operands)  # type: ignore[no-any-return]

    def _with_numbers(self, blocks: Sequence[Any], numbers: dict[int, Any]) -> list[Any]:
        found, given = [], iter(blocks)
        for k in range(len(blocks) + len(numbers)):
            found.append(numbers[k] if k in numbers else next(given))
        return found


class _BlockTask(_OnBlock):
    """The results: of blocks, and of what has been accumulated over whole slices."""

    def __init__(
        self, call: OnDask, graph: Graph, numbers: dict, count: int, states: bool, vectors: bool
    ) -> None:
        inputs = [graph.nodes[i] for i in graph.inputs]
        total = len(call.graph.inputs)
        # arrays that are not there have no input
        kept = [k for k in range(len(inputs)) if count or k >= total or k in numbers]
        self._numbers = {kept.index(k): x for k, x in numbers.items()}
        super().__init__(call, _with_inputs(graph, kept))
        self._states, self._vectors = states, vectors

    def __call__(self, more: Any, *blocks: Any) -> Any:
        states: tuple[Any, ...] = ()
        if self._states:
            *blocks, states = blocks  # type: ignore[assignment]
        operands = self._with_numbers([*blocks, *states], self._numbers)
        found = self._run(operands)
        if not self._vectors:
            found = tuple(np.squeeze(y, self.axes) if hasattr(y, "squeeze") else y for y in found)
        return found if len(found) > 1 else found[0]


def _with_inputs(graph: Graph, kept: Sequence[int]) -> Graph:
    """The graph without unused inputs, the others renumbered."""
    new = {k: n for n, k in enumerate(kept)}
    nodes: list[Node] = []
    at: dict[int, int] = {}
    for i, n in enumerate(graph.nodes):
        attrs = n.attrs
        if n.op == "input":
            if n.attr("k") not in new:
                continue
            attrs = (("k", new[n.attr("k")]),)
        at[i] = len(nodes)
        nodes.append(Node(n.op, tuple(at[a] for a in n.args), attrs, n.aval))
    return Graph(tuple(nodes), tuple(at[o] for o in graph.outs))


class _PiecesOfBlocks(_OnBlock):
    """The task that accumulates over a block."""

    def __init__(
        self,
        call: OnDask,
        graph: Graph,
        numbers: dict,
        count: int,
        lengths: tuple[int, ...],
        positions: tuple[bool, ...],
    ) -> None:
        super().__init__(call, graph)
        self._numbers, self._count = numbers, count
        self._lengths, self._positions = lengths, positions

    def __call__(self, more: Any, *blocks: Any) -> Any:
        given, starts = blocks[: self._count], blocks[self._count :]
        found = self._run(self._with_numbers(given, self._numbers))
        if not starts:
            return found
        shape = np.broadcast_shapes(*(x.shape for x in given))
        inner = tuple(shape[a] for a in self.axes)
        several = zip(found, self._positions, strict=True)
        return tuple(self._moved(y, inner, starts) if p else y for y, p in several)

    def _moved(self, y: Any, inner: tuple[int, ...], starts: Sequence[Any]) -> Any:
        """Places in a block as places in a whole slice."""
        xp = arrays.compat(y)
        at = xp.unravel_index(y, inner)
        within = [a + int(s[0]) for a, s in zip(at, starts, strict=True)]
        place = within[0]
        for a, n in zip(within[1:], self._lengths[1:], strict=True):
            place = place * n + a
        return place.astype(y.dtype)


class _Merge(_OnBlock):
    """Joins what was accumulated over several blocks."""

    def __call__(self, states: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        if len(states) == 1:
            return states[0]
        xp, axis = arrays.compat(states[0][0]), self.axes[0]
        joined = [xp.concatenate(parts, axis=axis) for parts in zip(*states, strict=True)]
        return self._run(joined)
