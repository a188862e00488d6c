"""A graph as code generation reads it: its products, the biases behind them, its regions."""

from __future__ import annotations

import math

from ..ir.graph import Graph
from ..ir.rewrite import MATVEC, Region, regions


class Layers:
    """What the writers of kernels ask of a graph of one slice."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.dependent = graph.dependent()
        self.regions = regions(graph)
        self.region_of = {i: r for r in self.regions.values() for i in r.nodes}
        self.uses: dict[int, list[int]] = {}
        for i, n in enumerate(graph.nodes):
            for a in n.args:
                self.uses.setdefault(a, []).append(i)

    def _size(self, i: int) -> int:
        return math.prod(self.graph.nodes[i].aval.shape)

    def _affine(self, i: int) -> bool:
        """Whether a node is a matrix that does not depend on the slice, times a value that does."""
        n = self.graph.nodes[i]
        return (
            n.op == "einsum"
            and n.attr("subscripts") == MATVEC
            and not self.dependent[n.args[0]]
            and self.dependent[n.args[1]]
        )

    def _bias(self, product: int) -> tuple[int, int] | None:
        """The add behind a product that is its bias: (add, constant)."""
        users = self.uses.get(product, [])
        if len(users) != 1 or self.graph.nodes[users[0]].op != "add":
            return None
        a, b = self.graph.nodes[users[0]].args
        other = b if a == product else a
        same = self.graph.nodes[users[0]].aval == self.graph.nodes[product].aval
        if self.dependent[other] or not same or self.graph.nodes[other].op == "scalar":
            return None
        return users[0], other

    def _reader(self, i: int) -> Region | None:
        """The region that alone reads value `i`, and reads no other that depends on the slice."""
        users = self.uses.get(i, [])
        region = self.region_of.get(users[0]) if users else None
        if region is None or any(self.region_of.get(u) is not region for u in users):
            return None
        return region if [a for a in region.inputs if self.dependent[a]] == [i] else None
