"""Passes over graphs. Each takes a graph and returns a new, checked one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .builder import Builder, Value, verify
from .graph import Graph, Node, number
from .ops import OPS, Kind

MATVEC = "nm,m->n"
"""The subscripts of a product with a weight matrix: ``einsum(W, x)``."""


def _rebuild(
    graph: Graph, rule: Callable[[Builder, int, Node, list[Value]], Value], leaves: bool = False
) -> Graph:
    """Write the live nodes of `graph` again, each through `rule`. Constants keep their numbers.

    `leaves`: inputs and constants go through it too.
    """
    live = set(graph.needed(graph.outs))
    builder = Builder(graph.consts)
    done: dict[int, Value] = {}
    for i, node in enumerate(graph.nodes):
        if OPS[node.op].kind is Kind.LEAF and not leaves:
            if i in live or node.op == "input":
                done[i] = builder.add(node)
        elif i in live or node.op == "input":
            done[i] = rule(builder, i, node, [done[a] for a in node.args])
    return builder.graph(*(done[o] for o in graph.outs))


def _copy(builder: Builder, _: int, node: Node, args: list[Value]) -> Value:
    return builder.op(node.op, *args, **dict(node.attrs))


def prune(graph: Graph) -> Graph:
    """Drop nodes that the result does not depend on."""
    return verify(graph.pruned())


def compact(graph: Graph) -> Graph:
    """Drop constants that no node uses, and number the others anew."""
    graph = prune(graph)
    used = [n.attr("k") for n in graph.nodes if n.op == "const"]
    number = {k: i for i, k in enumerate(used)}
    nodes = tuple(
        replace(n, attrs=(("k", number[n.attr("k")]),)) if n.op == "const" else n
        for n in graph.nodes
    )
    return verify(Graph(nodes, graph.outs, tuple(graph.consts[k] for k in used)))


def between(graph: Graph, starts: Sequence[int], end: int) -> Graph:
    """The graph from some values, its inputs, to another. Constants keep their numbers."""
    builder = Builder(graph.consts)
    done: dict[int, Value] = {i: builder.input(graph.nodes[i].aval) for i in starts}
    for i in graph.needed([end], starts):
        node = graph.nodes[i]
        if OPS[node.op].kind is Kind.LEAF:
            done[i] = builder.add(node)
        else:
            done[i] = _copy(builder, i, node, [done[a] for a in node.args])
    return builder.graph(done[end])


def with_input(graph: Graph, shape: tuple[int, ...]) -> Graph:
    """Reshape the input of a graph to a shape with as many elements in the same order."""
    own = graph.input
    if own.shape == shape:
        return graph

    def rule(builder: Builder, i: int, node: Node, args: list[Value]) -> Value:
        if node.op == "input":
            return builder.op("reshape", builder.input(own._replace(shape=shape)), shape=own.shape)
        leaf = OPS[node.op].kind is Kind.LEAF
        return builder.add(node) if leaf else _copy(builder, i, node, args)

    return _rebuild(graph, rule, leaves=True)


def expand(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """Replace composites by their definitions, except those in `keep` that depend on a slice."""

    def defined(g: Graph) -> list[bool]:
        both = zip(g.nodes, g.dependent(), strict=True)
        return [
            OPS[n.op].kind is Kind.COMPOSITE and not (n.op in keep and depends)
            for n, depends in both
        ]

    def rule(builder: Builder, i: int, node: Node, args: list[Value]) -> Value:
        if which[i]:
            return builder.expanded(node.op, args, dict(node.attrs))
        return _copy(builder, i, node, args)

    # definitions may use composites themselves
    while any(which := defined(graph)):
        graph = _rebuild(graph, rule)
    return prune(graph)


class _Affine(NamedTuple):
    """A product of weights with a value, and what is added: ``einsum(w, x) + b``."""

    w: np.ndarray
    x: Value
    subscripts: str
    b: np.ndarray
    """Weights with an axis for each axis of the result, of length 1 where they have none."""


def _as_weights(c: np.ndarray, w: np.ndarray, subscripts: str) -> np.ndarray:
    """Factors of the results of a product, for its weights."""
    letters, of_w = subscripts.split("->")[1], subscripts.partition(",")[0]
    there = [k for k in letters if k in of_w]
    if c.ndim:
        c = c.transpose(
            [letters.index(k) for k in of_w if k in there]
            + [a for a, k in enumerate(letters) if k not in there]
        ).reshape([c.shape[letters.index(k)] if k in there else 1 for k in of_w])
    return c


def fold(graph: Graph) -> Graph:
    """Fold constant factors and offsets into the affine layer before them (BatchNorm).

    Only after a layer: folding ``(x - mean) * scale`` into the layer that
    *follows* would cancel where the mean is large.
    """
    uses = [0] * len(graph.nodes)
    for node in graph.nodes:
        for a in node.args:
            uses[a] += 1
    affine: dict[int, _Affine] = {}

    def constant(value: Value, offsets: np.ndarray) -> np.ndarray | None:
        """A constant with one number, or one for each of the offsets, in their shape."""
        node = value.builder.nodes[value.index]
        if node.op == "scalar":
            return np.asarray(number(node), node.aval.dtype)
        if node.op != "const":
            return None
        c = value.builder.consts[node.attr("k")]
        lengths = zip(reversed(c.shape), reversed(offsets.shape), strict=False)
        if c.ndim > offsets.ndim or any(n not in (1, m) for n, m in lengths):
            return None
        return c.reshape((1,) * (offsets.ndim - c.ndim) + c.shape)

    def rule(builder: Builder, i: int, node: Node, args: list[Value]) -> Value:
        result = _copy(builder, i, node, args)
        if node.op == "einsum":
            weights = builder.nodes[args[0].index]
            if weights.op == "const" and builder.nodes[args[1].index].op != "const":
                w, subscripts = builder.consts[weights.attr("k")], node.attr("subscripts")
                of_w, letters = subscripts.partition(",")[0], subscripts.split("->")[1]
                shape = [w.shape[of_w.index(k)] if k in of_w else 1 for k in letters]
                affine[result.index] = _Affine(w, args[1], subscripts, np.zeros(shape, w.dtype))
        elif node.op in ("multiply", "add"):
            for j in (0, 1):
                form = affine.get(args[j].index)
                if form is None or result.shape != args[j].shape:
                    continue
                c = constant(args[1 - j], form.b)
                if c is None:
                    continue
                w, x, subscripts, b = form
                if node.op == "multiply":
                    if uses[node.args[j]] > 1:
                        continue
                    w, b = w * _as_weights(c, w, subscripts), b * c
                else:
                    b = b + c
                result = builder.op("einsum", builder.const(w), x, subscripts=subscripts)
                affine[result.index] = _Affine(w, x, subscripts, np.zeros_like(b))
                if b.any() or np.isnan(b).any():
                    result = result + builder.const(b)
                    affine[result.index] = _Affine(w, x, subscripts, b)
                break
        return result

    return compact(_rebuild(graph, rule))


def without_bfloat16(graph: Graph) -> Graph:
    """The graph whose result stays float32 where it would be rounded to bfloat16."""
    last = graph.nodes[graph.out]
    if last.aval.dtype != "bfloat16" or last.op != "cast":
        return graph
    return prune(Graph(graph.nodes, last.args, graph.consts))


def without_batch_of_one(graph: Graph) -> Graph:
    """Take a leading axis of length 1 out of everything that depends on the input.

    A function written for batches is lifted with a batch of one. Without that
    axis it has the same graph as if it had been written for a slice.
    """
    # nodes that are built without their leading axis of length 1: the value with it. Kept by the
    # node's number, because the same new value may also stand for a node that never had the axis.
    whole: dict[int, Value] = {}

    def rule(builder: Builder, i: int, node: Node, args: list[Value]) -> Value:
        result = shortened(builder, i, node, args)
        # the axis of a batch of one is gone from the result already: what leads it is its own
        return whole.get(i, result) if i in graph.outs else result

    def shortened(builder: Builder, i: int, node: Node, args: list[Value]) -> Value:
        leads = node.aval.shape[:1] == (1,)
        short = [a in whole for a in node.args]
        if node.op == "index" and short[0] and node.attr("key")[:1] == (0,):
            rest = node.attr("key")[1:]
            return builder.op("index", args[0], key=rest) if rest else args[0]
        new = _without_leading(node, args, short) if leads else None
        if new is not None:
            operands, attrs = new
            result = builder.op(node.op, *operands, **attrs)
            if result.shape == node.aval.shape[1:]:
                whole[i] = builder.op("reshape", result, shape=node.aval.shape)
                return result
        operands = [whole.get(a, x) for a, x in zip(node.args, args, strict=True)]
        if node.op == "reshape" and short[0]:
            operands = args  # whatever it was, the elements are the same
        if node.op == "reshape" and operands[0].shape == node.aval.shape:
            return operands[0]
        result = _copy(builder, i, node, operands)
        if node.op == "reshape" and leads:
            inner = builder.op("reshape", operands[0], shape=node.aval.shape[1:])
            if operands[0].shape == node.aval.shape[1:]:
                inner = operands[0]
            whole[i] = result
            return inner
        return result

    return prune(_rebuild(graph, rule))


def _without_leading(
    node: Node, args: list[Value], short: list[bool]
) -> tuple[list[Value], dict[str, object]] | None:
    """Operands and attributes of `node` without the leading axis; None where it matters."""
    attrs = dict(node.attrs)
    kind = OPS[node.op].kind
    if not any(short):
        return None
    if kind is Kind.CONTRACTION:
        sources, _, result = attrs["subscripts"].partition("->")
        names = sources.split(",")
        leading = {n[0] for n, s in zip(names, short, strict=True) if s}
        if leading != {result[:1]} or any(
            result[0] in n for n, s in zip(names, short, strict=True) if not s
        ):
            return None
        names = [n[1:] if s else n for n, s in zip(names, short, strict=True)]
        return args, {"subscripts": f"{','.join(names)}->{result[1:]}"}
    if kind is Kind.ELEMENTWISE or (kind is Kind.COMPOSITE and "axis" not in attrs):
        operands = []
        for a, s in zip(args, short, strict=True):
            if not s and len(a.shape) == len(node.aval.shape):
                if a.shape[0] != 1:
                    return None
                a = a.builder.op("reshape", a, shape=a.shape[1:])
            operands.append(a)
        return operands, attrs
    if not all(short):
        return None
    if "axis" in attrs:
        axis = attrs["axis"]
        axes = axis if isinstance(axis, tuple) else (axis,)
        if 0 in axes:
            return None
        moved = tuple(a - 1 for a in axes)
        return args, attrs | {"axis": moved if isinstance(axis, tuple) else moved[0]}
    if node.op == "permute_dims" and attrs["axes"][0] == 0:
        return args, {"axes": tuple(a - 1 for a in attrs["axes"][1:])}
    if node.op == "index" and attrs["key"][:1] == ((None, None, None),):
        return args, {"key": attrs["key"][1:]}
    if node.op == "broadcast_to":
        return args, {"shape": attrs["shape"][1:]}
    if node.op == "pad" and attrs["widths"][:1] == ((0, 0),):
        return args, attrs | {"widths": attrs["widths"][1:]}
    return None


@dataclass(frozen=True, slots=True)
class Region:
    """Elementwise nodes that run in one pass: no other node reads values in between."""

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    out: int


def regions(graph: Graph) -> dict[int, Region]:
    """Group elementwise nodes into regions, by their last node.

    A node joins the region of its consumer when that is its only consumer, has
    the same shape and is elementwise too.
    """
    consumers: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for a in set(node.args):
            consumers.setdefault(a, []).append(i)
    leader: dict[int, int] = {}
    for i in range(len(graph.nodes) - 1, -1, -1):
        if not _fusible(graph, i):
            continue
        users = consumers.get(i, [])
        leaders = {leader.get(u) for u in users}
        shape = graph.nodes[i].aval.shape
        joins = (
            i not in graph.outs
            and len(leaders) == 1
            and None not in leaders
            and all(graph.nodes[u].aval.shape == shape for u in users)
        )
        leader[i] = leaders.pop() if joins else i  # type: ignore[assignment]
    found: dict[int, Region] = {}
    for out in sorted(set(leader.values())):
        nodes = tuple(sorted(i for i, first in leader.items() if first == out))
        inputs = dict.fromkeys(a for i in nodes for a in graph.nodes[i].args if a not in nodes)
        keep = tuple(a for a in inputs if graph.nodes[a].op != "scalar")
        found[out] = Region(nodes, keep, out)
    return found


def _fusible(graph: Graph, i: int) -> bool:
    row = OPS[graph.nodes[i].op]
    return row.kind is Kind.ELEMENTWISE or (row.kind is Kind.COMPOSITE and bool(row.c or row.llvm))
