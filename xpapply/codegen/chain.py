"""Cut a wide network into stages: products for a BLAS library, and what lies between.

A narrow first layer, and everything after the last wide product to the
result, become one kernel each, so that few large intermediate values are
written and read.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC, between
from . import scalar_network
from .graph_queries import prepare

_WIDE_IN, _WIDE_OUT = 32, 16
"""A product with more inputs and more outputs than this is worth a BLAS call (measured)."""


@dataclass(frozen=True)
class Stage:
    """A piece of a graph, from one value to the next.

    Attributes
    ----------
    kind : str
        "product": a matrix product, the constant `weights` times the value;
        "fused": elementwise, in place; "kernel": one network kernel.
    graph : Graph
        The piece; its input is the value before it.
    weights : int
        For a product: the number of the constant.
    """

    kind: str
    graph: Graph
    weights: int = -1


def stages(graph: Graph) -> list[Stage] | None:
    """The stages of a graph; None if it is no chain, or a piece has no kernel."""
    graph = prepare(graph)
    dependent = graph.dependent()
    last = {a: i for i, n in enumerate(graph.nodes) for a in n.args}
    last[graph.out] = len(graph.nodes)
    start = graph.entry
    cuts = []  # values that everything after them depends on, and on nothing else
    for i in range(len(graph.nodes)):
        alive = [j for j in range(i + 1) if dependent[j] and last.get(j, -1) > i]
        if alive == [i]:
            cuts.append(i)
    found: list[Stage] = []
    at = start
    for i in cuts:
        n = graph.nodes[i]
        if n.op != "einsum" or n.attr("subscripts") != MATVEC or dependent[n.args[0]]:
            continue
        w, x = n.args
        shape = graph.nodes[w].aval.shape
        wide = shape[1] > _WIDE_IN and shape[0] > _WIDE_OUT
        if not wide or graph.nodes[w].op != "const" or (x != start and x not in cuts):
            continue
        if x != at:
            found.append(_piece(graph, at, x))
        elif x == start and graph.input.dtype != n.aval.dtype:
            return None
        found.append(Stage("product", between(graph, [x], i), graph.nodes[w].attr("k")))
        at = i
    if at != graph.out:
        found.append(_piece(graph, at, graph.out))
    runnable = all(s.kind != "kernel" or scalar_network.why_not(s.graph) is None for s in found)
    return found if runnable and any(s.kind == "product" for s in found) else None


def _piece(graph: Graph, start: int, end: int) -> Stage:
    piece = between(graph, [start], end)
    shape = piece.input.shape
    elementwise = all(
        OPS[n.op].kind is Kind.LEAF or (OPS[n.op].c and n.aval.shape == shape) for n in piece.nodes
    )
    same = piece.input == piece.result and start != graph.entry
    return Stage("fused" if elementwise and same else "kernel", piece)
