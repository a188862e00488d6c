"""Kernels of short slices: those in the lanes go through a graph without a loop over elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....functions.cache import remembered
from ....ir.graph import Graph
from ....ir.ops import OPS, Kind
from ....ir.rewrite import expand
from ....ir.shapes import einsum_lengths
from .. import operations
from ..registers import DTYPES, INDEX, POINTER, Register, Type
from ..slice_kernel.elements import View
from ..slice_kernel.form import Form
from ..slice_kernel.tiles import Tiles
from ..target import Target
from ..writer import Writer
from . import along_axis, whole_values
from .elements import Array, Element, Scope, Stored, array_of
from .values import NodeForm, Values

NAME = "unrolled"
"""The name of the kernel."""
MOST = 4000
"""Instructions that a kernel has at most: so many are compiled in 80 to 130 ms."""
_CHEAP = 60
"""Instructions up to which it is not worth to ask whether some slice is on a path."""
_LOAD, _CONSTANT, _STORE = 3, 4, 3
"""Instructions of one number, with those that find where it is."""


def form_of(op: str) -> NodeForm | None:
    """The writer of an op that is not elementwise, or None."""
    place = along_axis if OPS[op].kind is Kind.ALONG else whole_values
    found: NodeForm | None = getattr(place, op, None)
    return found


def prepare(graph: Graph) -> Graph:
    """The graph that a kernel is written for: composites with forms of their own, and no others."""
    return expand(graph, keep=operations.own_composites())


def constants(graph: Graph) -> list[int]:
    """The nodes that depend on no slice and are read from memory, one after the other."""
    dependent = graph.dependent()
    read = {a for i, n in enumerate(graph.nodes) if dependent[i] for a in n.args}
    read |= set(graph.outs)
    return [i for i in sorted(read) if not dependent[i] and graph.nodes[i].op != "scalar"]


@remembered(512)
def why_not(graph: Graph, target: Target) -> str | None:
    """Why there is no such kernel for a graph, or None."""
    graph = prepare(graph)
    for i in _computed(graph):
        n = graph.nodes[i]
        dtypes = [graph.nodes[a].aval.dtype for a in n.args]
        for dtype in (n.aval.dtype, *dtypes):
            if dtype not in DTYPES or dtype == "bfloat16":
                return f"no kernels for {dtype}"
        kind = OPS[n.op].kind
        if kind in (Kind.ELEMENTWISE, Kind.COMPOSITE):
            refusal = operations.why_not(n.op, dtypes[-1], target)
            if refusal is not None:
                return refusal
        elif kind is not Kind.LEAF and form_of(n.op) is None:
            return f"{n.op} of short slices has no form for CPUs"
        elif n.op in ("sum", "prod") and dtypes[0] == "bool":
            return f"{n.op} of booleans"
    count = instructions(graph, target)
    if count > MOST:
        return f"{count:,} instructions for one slice, more than {MOST:,}"
    return None


def _computed(graph: Graph) -> list[int]:
    """The nodes that a kernel computes."""
    dependent = graph.dependent()
    return [i for i in graph.needed(graph.outs) if dependent[i]]


def instructions(graph: Graph, target: Target) -> int:
    """Estimated instructions of a prepared graph."""
    rows = _only_rows(graph)
    total = sum(
        _CONSTANT * math.prod(graph.nodes[i].aval.shape) for i in constants(graph) if i not in rows
    )
    total += sum(_STORE * math.prod(graph.nodes[i].aval.shape) for i in graph.outs)
    for i in _computed(graph):
        n = graph.nodes[i]
        operands = [graph.nodes[a].aval for a in n.args]
        kind, size = OPS[n.op].kind, math.prod(n.aval.shape)
        if n.op == "input":
            total += _LOAD * size
        if kind in (Kind.ELEMENTWISE, Kind.COMPOSITE):
            dtypes = tuple(a.dtype for a in operands)
            total += size * _lines(n.op, dtypes, n.attrs, target)
        elif kind is Kind.REDUCTION:
            total += math.prod(operands[0].shape) * (6 if OPS[n.op].finds_position else 1)
        elif kind is Kind.CONTRACTION:
            sizes = einsum_lengths(n.attr("subscripts"), [a.shape for a in operands])
            total += math.prod(sizes.values())
        elif kind is Kind.ALONG:
            gathers = n.op == "take_along_axis" and n.args[0] in rows
            total += along_axis.instructions(n, operands, gathers=gathers)
        elif kind is not Kind.LAYOUT and kind is not Kind.LEAF:
            total += int(size * OPS[n.op].instructions)
    return total


def _only_rows(graph: Graph) -> set[int]:
    """The constants of one dim that are only read at places that depend on the slice."""
    dependent, rows = graph.dependent(), set()
    for n in graph.nodes:
        if n.op == "take_along_axis" and not dependent[n.args[0]] and dependent[n.args[1]]:
            if len(graph.nodes[n.args[0]].aval.shape) == 1:
                rows.add(n.args[0])
    others = {
        a for n in graph.nodes for k, a in enumerate(n.args) if n.op != "take_along_axis" or k
    }
    return rows - others - set(graph.outs)


@functools.lru_cache(1024)
def _lines(op: str, dtypes: tuple[str, ...], attrs: Any, target: Target) -> int:
    """The instructions of an elementwise op, of a vector."""
    writer, found = Writer(target), []
    lanes = target.bits // 32

    def body(x: Register) -> None:
        given = [Register(writer, "%x", Type(operations.element(d), lanes)) for d in dtypes]
        operations.apply(writer, op, given, dtypes[-1], attrs)
        found.append(writer.written)

    writer.function("f", [("x", POINTER)], body)
    return found[0]


def unrolled_kernel(graph: Graph, form: Form, target: Target) -> str:
    """The text of the kernel that runs a prepared graph in a form.

    Its arrays are the slices, the `constants`, and the results.
    """
    return _Kernel(graph, form, target).text()


class _Kernel(Tiles):
    def __init__(self, graph: Graph, form: Form, target: Target) -> None:
        self._graph = graph
        self._operands = [*graph.inputs, *constants(graph), *graph.outs]
        self._avals = [graph.nodes[i].aval for i in self._operands]
        super().__init__(Writer(target), form, [a.dtype for a in self._avals], form.fields(0))

    def text(self) -> str:
        """The module."""
        self._w.function(NAME, [("arguments", POINTER)], self._body)
        return self._w.text()

    def _begin(self, index: Sequence[Register]) -> None:
        self._never = index[0] < 0

    def _size(self, k: int) -> Register:
        return self._w.constant(math.prod(self._avals[k].shape), INDEX)

    def _write(self, views: dict[int, View]) -> None:
        values, scope = Values(self._w, self._form.lanes, form_of), Scope(self._w, self._never)
        known = {self._operands[k]: self._read(k, views[k]) for k in self._inputs}
        found = values.of(self._graph, known)
        results = range(len(self._inputs), len(self._operands))
        branches, last = self._branches()
        if not branches:
            for k in results:
                for j, x in enumerate(found[self._operands[k]].ravel()):
                    self._store(views[k], j, scope(x))
            return
        registers = self._on_paths(scope, found, branches, last)
        places = [(k, j) for k in results for j in range(math.prod(self._avals[k].shape))]
        for (k, j), x in zip(places, registers, strict=True):
            self._store(views[k], j, x)

    def _branches(self) -> tuple[list[tuple[int, list[int]]], list[int]]:
        """Conditions of slices with the results where they hold, the last one first; the others."""
        nodes, outs = self._graph.nodes, list(self._graph.outs)
        found: list[tuple[int, list[int]]] = []
        while True:
            same = {nodes[o].args[0] if nodes[o].op == "where" else -1 for o in outs}
            condition = same.pop()
            if same or condition < 0 or nodes[condition].aval.shape:
                return found, outs
            found.append((condition, [nodes[o].args[1] for o in outs]))
            outs = [nodes[o].args[2] for o in outs]

    def _on_paths(
        self,
        scope: Scope,
        found: dict[int, Array],
        branches: Sequence[tuple[int, list[int]]],
        last: Sequence[int],
    ) -> list[Register]:
        """All numbers of the results, of which only those that some slice needs are computed."""
        w, shapes = self._w, [self._graph.nodes[o].aval.shape for o in self._graph.outs]

        def elements(nodes: Sequence[int]) -> list[Element]:
            if not found.keys() >= set(nodes):
                raise UnsupportedError("its result does not depend on the slice")
            several = zip(nodes, shapes, strict=True)
            return [x for i, s in several for x in np.broadcast_to(found[i], s).ravel()]

        now = [scope(x) for x in elements(last)]
        for condition, nodes in reversed(branches):
            here = scope(found[condition].item())

            def path(here: Register, nodes: Sequence[int], now: list[Register]) -> list[Register]:
                several = zip(elements(nodes), now, strict=True)
                return [w.select(here, scope(x), y) for x, y in several]

            if self._is_cheap(nodes):
                now = path(here, nodes, now)
                continue

            def taken(here: Register = here, nodes: Any = nodes, now: Any = now) -> list[Register]:
                with scope.block():
                    return path(here, nodes, now)

            def others(now: list[Register] = now) -> list[Register]:
                return now

            now = w.either(w.any_lane(here), taken, others)
        return now

    def _is_cheap(self, nodes: Sequence[int]) -> bool:
        """Whether a path is cheap enough to be computed for slices on others too."""
        graph = self._graph
        part = Graph(graph.nodes, tuple(nodes), graph.consts)
        return instructions(part, self._w.target) < _CHEAP

    def _read(self, k: int, view: View) -> Array:
        """The elements of an array, each loaded when it is needed at first."""
        size, loads = math.prod(self._avals[k].shape), []
        if k < len(self._graph.inputs):
            loads = [Element(lambda j=j: self._load(view, j)) for j in range(size)]
            return array_of(self._avals[k].shape, loads)
        view = view._replace(step=1)  # constants lie one after the other

        def row(places: Register) -> Register:
            return self._gathered(view, places, size)

        loads = [Stored(lambda j=j: self._load(view, j), row) for j in range(size)]
        return array_of(self._avals[k].shape, loads)

    def _place(self, view: View, j: int) -> Register:
        step = view.step
        if not isinstance(step, int) and not step.text.startswith("%"):
            step = int(step.text)
        return self._w.offset(view.at, step * j if j else 0, DTYPES[view.dtype])

    def _load(self, view: View, j: int) -> Register:
        w, lanes = self._w, 1 if view.single else self._form.lanes
        found = w.load(self._place(view, j), Type(DTYPES[view.dtype], lanes))
        return w.broadcast(operations.from_memory(w, found, view.dtype), self._form.lanes)

    def _gathered(self, view: View, places: Register, size: int) -> Register:
        """Numbers of a constant, one for each slice; what is no place reads the first one."""
        w, kind = self._w, Type(DTYPES[view.dtype], self._form.lanes)
        inside = (places >= 0) & (places < size)
        found = w.gather_at(view.at, w.select(inside, places, w.constant(0, places.type)), kind)
        return operations.from_memory(w, found, view.dtype)

    def _store(self, view: View, j: int, x: Register) -> None:
        self._w.store(operations.to_memory(self._w, x, view.dtype), self._place(view, j))
