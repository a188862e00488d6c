"""Batching: from a graph of one slice to a graph of many, by one rule per kind.

The batch axis is the *last* one (features first). NumPy's broadcasting aligns
shapes at the end, so batched operands of different rank need no singleton
axes, and elementwise work runs along the batch, where memory is long.
"""

from __future__ import annotations

from .builder import Builder, Value
from .graph import BATCH, Graph, Node, ShapeDtype
from .ops import OPS, Kind

LETTER = "Z"
"""The einsum letter of the batch axis; frontends use lower-case letters."""


def batch(graph: Graph) -> Graph:
    """Batch a graph: the same computation for slices stacked along a new last axis.

    Nodes that depend on constants only stay as they are.
    """
    builder = Builder(graph.consts)
    done: list[Value] = []
    batched: list[bool] = []
    for node in graph.nodes:
        args = [done[a] for a in node.args]
        which = [batched[a] for a in node.args]
        done.append(_rule(builder, node, args, which))
        batched.append(node.op == "input" or any(which))
    return builder.graph(
        *(done[o] if batched[o] else _repeat(builder, done[o]) for o in graph.outs)
    )


def _rule(builder: Builder, node: Node, args: list[Value], which: list[bool]) -> Value:
    kind, attrs = OPS[node.op].kind, dict(node.attrs)
    if node.op == "input":
        aval = ShapeDtype((*node.aval.shape, BATCH), node.aval.dtype)
        return builder.add(Node("input", (), node.attrs, aval))
    if kind is Kind.LEAF:
        return builder.add(node)
    if not any(which):
        return builder.op(node.op, *args, **attrs)
    if kind is Kind.CONTRACTION:
        operands, _, result = attrs["subscripts"].partition("->")
        letters = [o + LETTER * b for o, b in zip(operands.split(","), which, strict=True)]
        return builder.op("einsum", *args, subscripts=f"{','.join(letters)}->{result}{LETTER}")
    if node.op == "concat":
        args = [x if b else _repeat(builder, x) for x, b in zip(args, which, strict=True)]
    elif kind is Kind.TREES:
        pass  # nodes are constants
    elif kind is not Kind.LAYOUT:
        args = [x if b else _singleton(builder, x) for x, b in zip(args, which, strict=True)]
    elif node.op in ("reshape", "broadcast_to"):
        attrs["shape"] = (*attrs["shape"], BATCH)
    elif node.op == "permute_dims":
        attrs["axes"] = (*attrs["axes"], len(attrs["axes"]))
    # reductions, concat and index count their axes from the front: nothing changes
    return builder.op(node.op, *args, **attrs)


def _singleton(builder: Builder, x: Value) -> Value:
    """A constant with an axis of length 1 where the batch axis will be."""
    return builder.op("reshape", x, shape=(*x.shape, 1)) if x.shape else x


def _repeat(builder: Builder, x: Value) -> Value:
    """A constant, the same for every slice."""
    x = builder.op("reshape", x, shape=(*x.shape, 1))
    return builder.op("broadcast_to", x, shape=(*x.shape[:-1], BATCH))
