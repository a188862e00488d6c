"""The passes of a graph over a slice, and the values kept between them.

The graph has its accumulators written out (`ir.subgraph.part`): vectors, numbers, and between them
reductions of the table, and folds of a user's accumulators.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....ir.graph import Graph
from ....ir.ops import OPS, Kind
from .states import in_order


def is_vector(graph: Graph, i: int) -> bool:
    """Whether node `i` has a number per element: all results have if nothing is reduced."""
    if graph.is_vector(i):
        return True
    only_elements = not any(graph.levels()) and any(map(graph.is_vector, range(len(graph.nodes))))
    return only_elements and i in graph.outs


_DEAR = 4.0
"""Instructions from which on a value is kept instead of computed again."""


class Passes:
    """The passes of a graph.

    Attributes
    ----------
    count : int
        How many there are: one for each level of reductions, and one for results.
    last : int
        The pass in which results that are vectors are computed; 0: there are none.
    kept : dict of int to int
        Nodes that a pass keeps for later ones, and in which of several places.
    places : list of str
        The dtypes of these places: what registers have.
    """

    def __init__(self, graph: Graph, copied: Iterable[int] = ()) -> None:
        self.graph, self._copied = graph, frozenset(copied)
        self.levels = graph.levels()
        top = max(self.levels, default=0)
        self.vectors = [k for k, o in enumerate(graph.outs) if is_vector(graph, o)]
        lowest = max((self.levels[graph.outs[k]] + 1 for k in self.vectors), default=0)
        # results go to the last pass: they may be written over what is still to be read
        self.last = max(top, lowest) if self.vectors else 0
        self.count = max(top, self.last)
        self._first: dict[int, int] = {}
        self._until: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        for q in range(1, self.count + 1):
            self._visit(q)
        self.places: list[str] = []
        self._find_places()

    def _find_places(self) -> None:
        """A place for each value that is kept: that of one which is not needed any more."""
        free_after: list[int] = []
        for i in sorted(self.kept, key=lambda i: self._first[i]):
            dtype = self.graph.nodes[i].aval.dtype
            dtype = "float32" if dtype in ("float16", "bfloat16") else dtype
            for k, until in enumerate(free_after):
                if until <= self._first[i] and self.places[k] == dtype:
                    break
            else:
                k = len(free_after)
                self.places.append(dtype)
                free_after.append(0)
            self.kept[i], free_after[k] = k, self._until[i]

    def reductions(self, q: int) -> list[int]:
        """The nodes that pass q reduces vectors to; of a fold that of its first number."""
        found, seen = [], set()
        for i, n in enumerate(self.graph.nodes):
            if self.levels[i] != q:
                continue
            if n.op == "accumulate":
                if (n.attr("by"), n.args) not in seen:
                    seen.add((n.attr("by"), n.args))
                    found.append(i)
            elif OPS[n.op].kind is Kind.REDUCTION:
                found.append(i)
        return found

    def roots(self, q: int) -> list[int]:
        """The vectors that pass q needs in the end."""
        found = [a for i in self.reductions(q) for a in self.graph.nodes[i].args]
        if q == self.last:
            found += [self.graph.outs[k] for k in self.vectors]
        return found

    def is_kept(self, i: int, q: int) -> bool:
        """Whether pass q finds node i in the scratch."""
        return i in self.kept and self._first[i] < q

    def keeps(self, q: int) -> list[int]:
        """The nodes that pass q writes to the scratch."""
        return [i for i in self.kept if self._first[i] == q]

    def _visit(self, q: int) -> None:
        """Note what pass q computes first, and what it computes again."""
        seen: set[int] = set()
        stack = self.roots(q)
        while stack:
            i = stack.pop()
            if i in seen or not self.graph.is_vector(i):
                continue
            seen.add(i)
            self._until[i] = q
            is_input = self.graph.nodes[i].op == "input"
            dear = i in self._copied if is_input else self._cost(i) >= _DEAR
            if self._first.get(i, q) < q and (i in self.kept or dear):
                self.kept.setdefault(i, -1)
                continue
            self._first.setdefault(i, q)
            stack += self.graph.nodes[i].args

    def cost(self, q: int) -> float:
        """Instructions that pass q takes for a vector, at most."""
        return self._cost(*self.roots(q))

    def _cost(self, *nodes: int) -> float:
        """Instructions for a vector, from the inputs."""
        seen: set[int] = set()
        stack, total = [*nodes], 0.0
        while stack:
            k = stack.pop()
            n = self.graph.nodes[k]
            if k in seen or not self.graph.is_vector(k) or n.op == "input":
                continue
            seen.add(k)
            total += OPS[n.op].instructions
            stack += n.args
        return total


def sums(passes: Passes) -> int:
    """The most vectors whose elements a pass adds in order."""
    nodes = passes.graph.nodes
    found = 0
    for q in range(1, passes.count + 1):
        several = [nodes[i] for i in passes.reductions(q)]
        several = [n for n in several if n.op != "accumulate"]
        found = max(found, sum(in_order(n.op, nodes[n.args[0]].aval.dtype) for n in several))
    return found
