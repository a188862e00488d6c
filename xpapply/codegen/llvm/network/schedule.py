"""What a network's kernel computes, one step after the other, and where each value lies.

A value of n numbers per slice is n rows of the scratch memory, with one number for each slice of
a tile. Rows are used again once what is in them is not needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir.graph import Graph
from ....ir.ops import OPS, Kind
from ....ir.rewrite import Region
from ...graph_queries import GraphQueries


@dataclass(frozen=True)
class Step:
    """One node, or several at once.

    Attributes
    ----------
    out : int
        The node whose value is written.
    product : int or None
        The product with weights that it begins with.
    region : Region or None
        The elementwise nodes that it computes; those of a product follow it.
    """

    out: int
    product: int | None = None
    region: Region | None = None


class Schedule:
    """The steps of a graph whose composites are those that have forms of their own.

    Attributes
    ----------
    steps : list of Step
        In the order in which they run.
    rows : int
        The rows of scratch memory that they need.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.queries = q = GraphQueries(graph)
        self.fused = {p: r for r in q.regions.values() if (p := self._fuses(r)) is not None}
        first_of = {r.out: p for p, r in self.fused.items()}
        self.steps: list[Step] = []
        self._root: dict[int, tuple[int, int]] = {}
        """Of a value that is a part of another one's rows: which, and from which of them on."""
        for i, n in enumerate(graph.nodes):
            if not q.dependent[i] or i in self.fused:
                continue
            region = q.regions.get(i)
            part = self._part(i)
            if part is not None:
                root, row = self._root.get(n.args[0], (n.args[0], 0))
                self._root[i] = root, row + part
            elif region is not None:
                self.steps.append(Step(i, first_of.get(i), region))
            elif i not in q.region_of:
                self.steps.append(Step(i, i if q.affine(i) else None))
        self._rows, self.rows = self._places()

    def row(self, i: int) -> int:
        """The first row of a value."""
        root, offset = self._root.get(i, (i, 0))
        return self._rows[root] + offset

    def bias(self, step: Step) -> int | None:
        """The constant that the sums of a product begin with."""
        found = None if step.product is None else self.queries.bias(step.product)
        if found is None or step.region is None or found[0] not in step.region.nodes:
            return None
        return found[1]

    def _fuses(self, region: Region) -> int | None:
        """The product that a region follows without being stored, if there is one."""
        q = self.queries
        size = q.size(region.out)
        for a in sorted(region.inputs, reverse=True):
            if q.affine(a) and q.size(a) == size and a != self.graph.out:
                if all(u in region.nodes for u in q.uses[a]):
                    return a
        return None

    def _part(self, i: int) -> int | None:
        """From which row of its operand a value lies there already, one row after the other."""
        n = self.graph.nodes[i]
        if n.op == "cast" and self._is_input(n.args[0]):
            return 0
        if OPS[n.op].kind is not Kind.LAYOUT or n.op == "concat":
            return None
        order = moved(n.op, dict(n.attrs), self.graph.nodes[n.args[0]].aval.shape).reshape(-1)
        if not order.size or not np.array_equal(order, order[0] + np.arange(order.size)):
            return None
        return int(order[0])

    def _is_input(self, i: int) -> bool:
        return self.graph.nodes[i].op == "input"

    def _reads(self, step: Step) -> set[int]:
        """The values whose rows a step reads."""
        nodes = (step.out,) if step.region is None else step.region.nodes
        found = {a for i in nodes for a in self.graph.nodes[i].args} - set(nodes)
        if step.product is not None:
            found |= set(self.graph.nodes[step.product].args)
        found.discard(-1 if step.product is None else step.product)
        return {self._root.get(a, (a, 0))[0] for a in found if self.queries.dependent[a]}

    def _places(self) -> tuple[dict[int, int], int]:
        """The first row of each value that has rows of its own, and the number of rows."""
        last: dict[int, int] = {}
        for k, step in enumerate(self.steps):
            last |= dict.fromkeys(self._reads(step), k)
        last[self._root.get(self.graph.out, (self.graph.out, 0))[0]] = len(self.steps)
        taken: dict[int, tuple[int, int]] = {}
        rows: dict[int, int] = {}
        most = 0
        for k, step in enumerate(self.steps):
            taken = {i: t for i, t in taken.items() if last.get(i, -1) >= k}
            size, at = self.queries.size(step.out), 0
            for start, end in sorted(taken.values()):
                if start - at >= size:
                    break
                at = max(at, end)
            rows[step.out] = at
            taken[step.out] = at, at + size
            most = max(most, at + size)
        return rows, most


def moved(op: str, attrs: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """For each number of the result of an op that moves numbers, which of its operand it is."""
    source = np.arange(math.prod(shape)).reshape(shape)
    if op == "permute_dims":
        return source.transpose(attrs["axes"])
    if op == "index":
        return source[tuple(slice(*k) if isinstance(k, tuple) else k for k in attrs["key"])]
    if op == "broadcast_to":
        return np.broadcast_to(source, attrs["shape"])
    assert op == "reshape", op
    return source
