"""A graph as code generation reads it: its products, the biases after them, its regions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir.graph import Graph, number
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC, Region, expand, regions


def prepare(graph: Graph) -> Graph:
    """The graph as writers of kernels take it: composites by their definitions."""
    return expand(
        graph, {name for name, row in OPS.items() if row.kind is Kind.COMPOSITE and row.c}
    )


class GraphQueries:
    """Queries of kernel writers to a graph of one slice."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.dependent = graph.dependent()
        self.regions = regions(graph)
        self.region_of = {i: r for r in self.regions.values() for i in r.nodes}
        self.uses: dict[int, list[int]] = {}
        for i, n in enumerate(graph.nodes):
            for a in n.args:
                self.uses.setdefault(a, []).append(i)

    def size(self, i: int) -> int:
        """The numbers of a value."""
        return math.prod(self.graph.nodes[i].aval.shape)

    def affine(self, i: int) -> bool:
        """Whether a node is a constant matrix times a value of the slice."""
        n = self.graph.nodes[i]
        return (
            n.op == "einsum"
            and n.attr("subscripts") == MATVEC
            and not self.dependent[n.args[0]]
            and self.dependent[n.args[1]]
        )

    def bias(self, product: int) -> tuple[int, int] | None:
        """The add after a product that is its bias: (add, constant)."""
        users = self.uses.get(product, [])
        if len(users) != 1 or self.graph.nodes[users[0]].op != "add":
            return None
        a, b = self.graph.nodes[users[0]].args
        other = b if a == product else a
        same = self.graph.nodes[users[0]].aval == self.graph.nodes[product].aval
        if self.dependent[other] or not same or self.graph.nodes[other].op == "scalar":
            return None
        return users[0], other

    def reader(self, i: int) -> Region | None:
        """The region that alone reads value `i`, and reads no other that depends on the slice."""
        users = self.uses.get(i, [])
        region = self.region_of.get(users[0]) if users else None
        if region is None or any(self.region_of.get(u) is not region for u in users):
            return None
        return region if [a for a in region.inputs if self.dependent[a]] == [i] else None

    def final(self, i: int) -> bool:
        """Whether no later product reads a value derived from this one."""
        reached = {i}
        for j, n in enumerate(self.graph.nodes):
            if any(a in reached for a in n.args):
                if self.affine(j):
                    return False
                reached.add(j)
        return True

    def ends(self, i: int) -> bool:
        """Whether a product is the result, up to elementwise work on it alone."""
        region = self.reader(i)
        return i == self.graph.out or (region is not None and region.out == self.graph.out)

    def folds(self, x: int) -> int | None:
        """The product whose results, times powers of two, give `x` times the same: its node."""
        if self.uses[x] and len(self.uses[x]) != 1:
            return None
        if self.affine(x):
            return x
        region = self.regions.get(x)
        source = None if region is None else next(a for a in region.inputs if self.dependent[a])
        if source is None or not self.affine(source) or self.reader(source) is not region:
            return None
        return source if self.homogeneous(self._behind_bias(source)) else None

    def homogeneous(self, nodes: Sequence[int]) -> bool:
        """Whether scaling the inputs of nodes by a power of two scales their results."""
        return all(OPS[self.graph.nodes[i].op].homogeneous or self._slope(i) for i in nodes)

    def _behind_bias(self, product: int) -> list[int]:
        """The nodes of the region that alone reads a product, but for the sum with its bias."""
        region, bias = self.reader(product), self.bias(product)
        nodes = () if region is None else region.nodes
        return [i for i in nodes if bias is None or i != bias[0]]

    def rectified(self, i: int) -> bool:
        """Whether ReLU alone follows a product and its bias."""
        return [self.graph.nodes[k].op for k in self._behind_bias(i)] == ["relu"]

    def _slope(self, i: int) -> bool:
        """A part of ``where(x > 0, x, slope * x)``, or a bound of 0."""
        n = self.graph.nodes[i]

        def bound(a: int) -> float | None:
            s = self.graph.nodes[a]
            return float(number(s)) if s.op == "scalar" else None

        if n.op in ("greater", "greater_equal", "less", "less_equal", "maximum", "minimum"):
            return any(bound(a) == 0 for a in n.args)
        if n.op == "multiply":
            return any(bound(a) is not None for a in n.args)
        if n.op == "divide":
            return bound(n.args[1]) is not None
        return n.op == "where" and all(bound(a) in (None, 0.0) for a in n.args)

    @property
    def shows_nan(self) -> bool:
        """Whether a NaN inside becomes a NaN in some result: no comparison loses it."""
        nodes = self.graph.nodes

        def false_of_nan(op: str) -> bool:
            return OPS[op].compares and op != "not_equal"

        for i, n in enumerate(nodes):
            if not self.dependent[i] or (n.aval.dtype != "bool" and n.op != "where"):
                continue
            if n.op == "where":
                if not false_of_nan(nodes[n.args[0]].op) or not self.dependent[n.args[2]]:
                    return False
            elif not false_of_nan(n.op):
                return False
        return True
