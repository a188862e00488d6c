"""Parts of a slice graph, with its accumulators written out: what runs in one go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import Graph, Node, ShapeDtype
from .slices.slice_graph import Expression, SliceBuilder


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


def completed(graph: Graph) -> Graph:
    """The graph with a node for every number of its accumulators: pieces need all of them."""
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
