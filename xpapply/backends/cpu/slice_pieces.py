"""Long slices on CPUs, level by level: numbers of pieces, combined by pairs, then what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.layout import Dim
from ...ir.graph import VECTOR, Graph, Node, ShapeDtype
from ...ir.slices.slice_graph import Accumulator
from ...ir.subgraph import completed, part
from .kernels import Kernel
from .slice_forms import PIECE, Slices, power_of_two


class Pieces:
    """Long slices, level by level: numbers of pieces, combined by pairs, then what follows."""

    def __init__(self, graph: Graph, slices: Slices, count: int) -> None:
        graph = self._graph = completed(graph)
        self._slices, self._count = slices, count
        levels = graph.levels()
        self._numbers = {
            i: level for i, level in enumerate(levels) if level and not graph.is_vector(i)
        }
        self._levels = [_Level(self, k) for k in range(1, max(levels) + 1)]
        self._mapped = [k for k, o in enumerate(graph.outs) if o not in self._numbers]
        self._map: Kernel | None = None
        self._given: list[int] = []
        if self._mapped:
            outs = [graph.outs[k] for k in self._mapped]
            self._given = self.used(outs, self._numbers)
            places = [len(graph.inputs) + k for k in self._mapped]
            found = self.arranged(places, len(self._given), 0, PIECE)
            self._map = Kernel(part(graph, outs, self._given, None), found)
        self._copies = [k for k, o in enumerate(graph.outs) if o in self._numbers]

    @property
    def graph(self) -> Graph:
        """The graph, with all numbers of its accumulators."""
        return self._graph

    def used(self, nodes: Sequence[int], known: Any) -> list[int]:
        """The known numbers that nodes are computed from."""
        live = self._graph.needed(nodes, known)
        return sorted(set(known) & {a for i in live for a in self._graph.nodes[i].args})

    def at_level(self, level: int) -> list[int]:
        """The numbers of a level."""
        return [i for i, k in self._numbers.items() if k == level]

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

    def __init__(self, whole: Pieces, level: int) -> None:
        graph = whole.graph
        self._groups: list[tuple[Accumulator, list[int]]] = []
        numbers = whole.at_level(level)
        for (by, _), nodes in graph.accumulations().items():
            if nodes[0] in numbers:
                ordered = sorted(nodes, key=lambda i: graph.nodes[i].attr("field"))
                self._groups.append((by, ordered))
        self._found = [i for _, nodes in self._groups for i in nodes]
        earlier = [i for k in range(1, level) for i in whole.at_level(k)]
        self._given = whole.used(self._found, earlier)
        self._follow = [i for i in numbers if i not in self._found]
        self._known = whole.used(self._follow, earlier + self._found)
        slices = whole.arranged([], len(self._given), len(self._found))
        self.pieces = Kernel(part(graph, self._found, self._given, None), slices)
        self._count, self._slices = whole.count, whole.slices.count
        self._dtypes = [graph.nodes[i].aval.dtype for i in self._found]
        self._follow_dtypes = [graph.nodes[i].aval.dtype for i in self._follow]
        self._after: Kernel | None = None
        self._values: list[int] = []
        if self._follow:
            after = part(graph, self._follow, self._known, whole.slices.length)
            arrays = len(graph.inputs)
            # vectors are none of its operands: they are unused numbers by value
            self._values = [k for k in range(arrays) if whole.slices.steps[k] is None]
            after, _ = _of_numbers(after)
            steps = (None,) * arrays + (1,) * (len(self._known) + len(self._follow))
            line = tuple(s or 0 for s in steps)
            self._after = Kernel(
                after,
                Slices(
                    1,
                    tuple(None if s is None else 0 for s in steps),
                    (Dim(self._slices, line, -1),),
                ),
            )
        self._inputs = [graph.nodes[i].aval.dtype for i in graph.inputs]
        self._folds = [_Fold(by) for by, _ in self._groups]

    def __call__(self, arrays: Sequence[Any], known: dict[int, np.ndarray]) -> None:
        """Make the numbers of the level known."""
        states = [np.empty((self._count, self._slices), d) for d in self._dtypes]
        self.pieces([*arrays, *(known[i] for i in self._given)], states)
        done = 0
        for fold, (by, nodes) in zip(self._folds, self._groups, strict=True):
            mine = states[done : done + len(by.dtypes)]
            known.update(zip(nodes, fold(mine), strict=True))
            done += len(by.dtypes)
        if self._after is not None:
            found = [np.empty(self._slices, d) for d in self._follow_dtypes]
            given = [
                x if k in self._values else np.dtype(self._inputs[k]).type(0)
                for k, x in enumerate(arrays)
            ]
            self._after([*given, *(known[i] for i in self._known)], found)
            known.update(zip(self._follow, found, strict=True))


def _of_numbers(graph: Graph) -> tuple[Graph, list[int]]:
    """A graph of numbers, whose unused arrays become numbers too."""
    nodes = tuple(
        Node(n.op, n.args, n.attrs, ShapeDtype((), n.aval.dtype)) if n.op == "input" else n
        for n in graph.nodes
    )
    vectors = [k for k, i in enumerate(graph.inputs) if graph.nodes[i].aval.shape == VECTOR]
    return Graph(nodes, graph.outs, graph.consts), vectors


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
