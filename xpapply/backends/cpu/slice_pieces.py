"""Long slices on CPUs, level by level: numbers of pieces, combined by pairs, then what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.layout import Dim
from ...ir.graph import Graph, Node, ShapeDtype
from ...ir.slices.slice_graph import Accumulator
from ...ir.subgraph import InLevels, Level, part
from .kernels import Kernel
from .slice_forms import PIECE, Slices, power_of_two


class Pieces:
    """Long slices, level by level: numbers of pieces, combined by pairs, then what follows."""

    def __init__(self, graph: Graph, slices: Slices, count: int) -> None:
        parts = InLevels(graph)
        graph = self._graph = parts.graph
        self._slices, self._count = slices, count
        self._levels = [_Level(self, x) for x in parts.levels]
        self._mapped, self._given = parts.mapped, parts.given
        self._map: Kernel | None = None
        if self._mapped:
            outs = [graph.outs[k] for k in self._mapped]
            places = [len(graph.inputs) + k for k in self._mapped]
            found = self.arranged(places, len(self._given), 0, PIECE)
            self._map = Kernel(part(graph, outs, self._given, None), found)
        self._copies = [k for k, o in enumerate(graph.outs) if o in parts.numbers]

    @property
    def graph(self) -> Graph:
        """The graph, with all numbers of its accumulators."""
        return self._graph

    def arranged(self, places: Sequence[int], given: int, states: int, piece: int = 0) -> Slices:
        """The arrays, numbers that are known, then results: some of the graph's, and states.

        Numbers lie in the order of the slices, those of pieces one after the other.
        """
        slices, inputs = self._slices, len(self._graph.inputs)
        count = power_of_two(slices.length // piece) if piece else self._count
        of_numbers, step = [], 1
        for d in reversed(slices.batch):
            of_numbers.append(step)
            step *= d.size
        arrays = [*range(inputs)]

        def line(d: tuple[Any, ...], mine: int, along: int) -> tuple[Any, ...]:
            before = (*(d[k] for k in arrays), *(mine,) * given)
            return (*before, *(d[k] for k in places), *(along,) * states)

        batch = [
            Dim(d.size, line(d.steps, own, own), d.axis)
            for d, own in zip(slices.batch, reversed(of_numbers), strict=True)
        ]
        steps = line(slices.steps, 0, 0)
        still = (0,) * (len(steps) - states)
        batch.append(Dim(count, (*still, *(slices.count,) * states), -1))
        return Slices(slices.length, steps, tuple(batch), len(batch) - 1)

    @property
    def slices(self) -> Slices:
        """The whole slices."""
        return self._slices

    @property
    def count(self) -> int:
        """Pieces of a slice."""
        return self._count

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Write results."""
        known: dict[int, np.ndarray] = {}
        for level in self._levels:
            level(arrays, known)
        if self._map is not None:
            targets = [outs[k] for k in self._mapped]
            self._map([*arrays, *(known[i] for i in self._given)], targets)
        if self._copies:
            batch = tuple(d.size for d in self._slices.batch)
            for k in self._copies:
                y = outs[k]
                steps = [d.steps[len(self._graph.inputs) + k] for d in self._slices.batch]
                place = np.lib.stride_tricks.as_strided(y, batch, [s * y.itemsize for s in steps])
                place[...] = known[self._graph.outs[k]].reshape(batch)


class _Level:
    """Accumulations of one level over all pieces, and the numbers that follow from them."""

    def __init__(self, whole: Pieces, of: Level) -> None:
        graph = whole.graph
        self._of, self._count, self._slices = of, whole.count, whole.slices.count
        slices = whole.arranged([], len(of.given), len(of.found))
        self.pieces = Kernel(part(graph, of.found, of.given, None), slices)
        self._dtypes = [n.aval.dtype for n in graph.nodes]
        self._after: Kernel | None = None
        # vectors are none of its operands: they are unused numbers by value
        self._values = [k for k in range(len(graph.inputs)) if whole.slices.steps[k] is None]
        if of.follow:
            after = part(graph, of.follow, of.known, whole.slices.length)
            steps = (None,) * len(graph.inputs) + (1,) * (len(of.known) + len(of.follow))
            line = tuple(s or 0 for s in steps)
            still = tuple(None if s is None else 0 for s in steps)
            self._after = Kernel(
                _of_numbers(after), Slices(1, still, (Dim(self._slices, line, -1),))
            )
        self._inputs = [graph.nodes[i].aval.dtype for i in graph.inputs]
        self._folds = [_Fold(by) for by, _ in of.groups]

    def __call__(self, arrays: Sequence[Any], known: dict[int, np.ndarray]) -> None:
        """Make the numbers of the level known."""
        of = self._of
        states = [np.empty((self._count, self._slices), self._dtypes[i]) for i in of.found]
        self.pieces([*arrays, *(known[i] for i in of.given)], states)
        done = 0
        for fold, (by, nodes) in zip(self._folds, of.groups, strict=True):
            mine = states[done : done + len(by.dtypes)]
            known.update(zip(nodes, fold(mine), strict=True))
            done += len(by.dtypes)
        if self._after is not None:
            found = [np.empty(self._slices, self._dtypes[i]) for i in of.follow]
            given = [
                x if k in self._values else np.dtype(self._inputs[k]).type(0)
                for k, x in enumerate(arrays)
            ]
            self._after([*given, *(known[i] for i in of.known)], found)
            known.update(zip(of.follow, found, strict=True))


def _of_numbers(graph: Graph) -> Graph:
    """A graph of numbers, whose unused arrays become numbers too."""
    nodes = tuple(
        Node(n.op, n.args, n.attrs, ShapeDtype((), n.aval.dtype)) if n.op == "input" else n
        for n in graph.nodes
    )
    return Graph(nodes, graph.outs, graph.consts)


class _Fold:
    """States of pieces along the first axis, combined by pairs of neighbours."""

    def __init__(self, by: Accumulator) -> None:
        self._by, self._pairs = by, dict[int, Kernel]()

    def __call__(self, states: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Fold the states of all pieces, a power of two in number."""
        while (n := len(states[0])) > 1:
            found = [np.empty((n // 2, *s.shape[1:]), s.dtype) for s in states]
            pairs = [s[side::2] for side in (0, 1) for s in states]
            self._of_pairs(n // 2, states[0][0].size)(pairs, found)
            states = found
        return [s[0] for s in states]

    def _of_pairs(self, count: int, slices: int) -> Kernel:
        if count not in self._pairs:
            numbers = len(self._by.dtypes)
            apart = (2 * slices,) * (2 * numbers) + (slices,) * numbers
            dims = Dim(count, apart, -1), Dim(slices, (1,) * 3 * numbers, -1)
            self._pairs[count] = Kernel(self._by.combine, Slices(1, (0,) * 3 * numbers, dims))
        return self._pairs[count]
