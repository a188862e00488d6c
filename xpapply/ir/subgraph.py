"""Parts of a slice graph, with its accumulators written out: what runs in one go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .graph import Graph, Node, ShapeDtype
from .slices.slice_graph import Accumulator, Expression, SliceBuilder


def part(
    graph: Graph, outs: Sequence[int], given: Sequence[int] = (), length: int | None = 1
) -> Graph:
    """The part of a graph that leads to some nodes, from its arrays and from known numbers.

    Accumulators are written out as their chunk; one without a chunk stays an ``accumulate``.

    Parameters
    ----------
    graph : Graph
        The whole.
    outs : sequence of int
        The nodes that are results of the part.
    given : sequence of int
        Nodes that are numbers and known: inputs after the arrays.
    length : int or None
        Elements of a slice. With 0 accumulators are their identity. None: not known, so that a
        ``length`` with the attribute `whole` stands for it, as one without stands for the length
        of a piece.
    """
    builder = SliceBuilder()
    avals = [graph.nodes[i].aval for i in graph.inputs]
    arrays = [builder.input(aval) for aval in avals]
    found = {g: builder.input(ShapeDtype((), graph.nodes[g].aval.dtype)) for g in given}
    written: dict[Any, Sequence[Expression]] = {}
    for i in graph.needed(outs, given):
        node = graph.nodes[i]
        if node.op == "input":
            found[i] = arrays[node.attr("k")]
        elif node.op == "length":
            if length is None:
                found[i] = builder.add(Node("length", (), (("whole", True),), node.aval))
            else:
                found[i] = builder.scalar(length, node.aval.dtype)
        elif node.op == "accumulate":
            by, key = node.attr("by"), (node.attr("by"), node.args)
            if key not in written:
                args = [found[a] for a in node.args]
                if length == 0:
                    numbers = zip(by.identity, by.dtypes, strict=True)
                    written[key] = [builder.scalar(*number) for number in numbers]
                elif by.chunk is None:
                    written[key] = builder.accumulate(by, *args)
                else:
                    written[key] = _written_out(builder, by.chunk, args)
            found[i] = written[key][node.attr("field")]
        else:
            found[i] = _again(builder, graph, i, found)
    return builder.graph(*(found[o] for o in outs))


class Level(NamedTuple):
    """One pass over the pieces of slices: accumulations, and the numbers derived from them."""

    groups: list[tuple[Accumulator, list[int]]]
    """Accumulators, and the nodes of all of their numbers."""
    found: list[int]
    """These nodes."""
    given: list[int]
    """Numbers of earlier levels that the pass reads."""
    follow: list[int]
    known: list[int]
    """The numbers that others follow from."""


class InLevels:
    """A graph whose slices are gone through in pieces, level after level of accumulations.

    Attributes
    ----------
    graph : Graph
        With a node for every number of its accumulators: pieces need all of them.
    numbers : dict of int to int
        The level of each node that is a number.
    levels : list of Level
        What is found before the results for each element.
    mapped : list of int
        Results that are no numbers.
    given : list of int
        The numbers that these are computed from.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = _completed(graph)
        levels = self.graph.levels()
        every = enumerate(levels)
        self.numbers = {i: k for i, k in every if k and not self.graph.is_vector(i)}
        self.levels = [self._level(k) for k in range(1, max(levels) + 1)]
        self.mapped = [k for k, o in enumerate(self.graph.outs) if o not in self.numbers]
        self.given = self._used([self.graph.outs[k] for k in self.mapped], self.numbers)

    def _used(self, nodes: Sequence[int], known: Iterable[int]) -> list[int]:
        """The known numbers that nodes are computed from."""
        live = self.graph.needed(nodes, known)
        return sorted(set(known) & {a for i in live for a in self.graph.nodes[i].args})

    def _level(self, level: int) -> Level:
        groups = []
        for (by, _), nodes in self.graph.accumulations().items():
            if self.numbers[nodes[0]] == level:
                groups.append((by, sorted(nodes, key=lambda i: self.graph.nodes[i].attr("field"))))
        found = [i for _, nodes in groups for i in nodes]
        earlier = [i for i, k in self.numbers.items() if k < level]
        follow = [i for i, k in self.numbers.items() if k == level and i not in found]
        given, known = self._used(found, earlier), self._used(follow, earlier + found)
        return Level(groups, found, given, follow, known)


def _completed(graph: Graph) -> Graph:
    nodes = list(graph.nodes)
    for (by, args), found in graph.accumulations().items():
        fields = {graph.nodes[i].attr("field") for i in found}
        for k, dtype in enumerate(by.dtypes):
            if k not in fields:
                attrs = (("by", by), ("field", k))
                nodes.append(Node("accumulate", args, attrs, ShapeDtype((), dtype)))
    return Graph(tuple(nodes), graph.outs)


def _written_out(
    builder: SliceBuilder, graph: Graph, args: Sequence[Expression]
) -> list[Expression]:
    """The results of a graph of operands that are nodes of another."""
    found: dict[int, Expression] = {}
    for i, node in enumerate(graph.nodes):
        found[i] = args[node.attr("k")] if node.op == "input" else _again(builder, graph, i, found)
    return [found[o] for o in graph.outs]


def _again(builder: SliceBuilder, graph: Graph, i: int, found: dict[int, Expression]) -> Expression:
    """A node of `graph` in the graph that is being written."""
    node = graph.nodes[i]
    args = tuple(found[a].index for a in node.args)
    return builder.add(Node(node.op, args, node.attrs, node.aval))
