"""Slice graphs that also tell for which slices NumPy may have warned.

NumPy reports divisions by zero, overflows and invalid values. A kernel reports nothing; but where
NumPy would have, some number is infinite or NaN that was not asked to be. So a further result
says of each slice whether there is such a number. It is enough to look at those which later
numbers do not show: the columns `shows` and `silent` of the op table tell.

A kernel adds in another order than NumPy. Functions that compare sums, as in ``v.std() == 0``, have
no kernel, since rounding alone could decide; and slices are marked whose sums overflow in some
order, or of which a root, a logarithm or a divisor is left that may be rounding alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from . import accumulators
from .graph import Graph, Node
from .ops import OPS, Kind
from .slice_graph import Expression, SliceBuilder

_ROUNDING = 64.0
"""Times the precision of a number that sums may be off, of the magnitudes that they add."""


def with_unusual(graph: Graph) -> Graph:
    """The same graph with one more result: whether NumPy may have warned of the slice.

    Raises
    ------
    UnsupportedError
        If no number tells of what NumPy would have reported.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.ir.slice_graph import written
    >>> graph, _ = written(lambda x: np.exp(np.log(x)), [("float32", True)])
    >>> print(with_unusual(graph).nodes[-1].aval)
    bool[]
    """
    builder = SliceBuilder()
    outs = copied(builder, graph, [], graph.outs)
    # accumulators hide what they compute
    shown = SliceBuilder()
    plain = shown.graph(*copied(shown, graph, [], graph.outs, in_the_open=True))
    made = copied(builder, plain, [], range(len(plain.nodes)))
    found = []
    for i in _looked_at(plain):
        found.append(builder.op("logical_not", builder.op("isfinite", made[i])))
    found += _rounded(builder, plain, made)
    vectors = [x for x in found if x.aval.shape]
    numbers = [x for x in found if not x.aval.shape]
    either = functools.partial(builder.op, "logical_or")
    if vectors:
        both = functools.reduce(either, vectors)
        numbers += builder.accumulate(accumulators.simple("max", "bool"), both)
    unusual = functools.reduce(either, numbers) if numbers else builder.scalar(False, "bool")
    return builder.graph(*outs, unusual)


def copied(
    builder: SliceBuilder,
    graph: Graph,
    given: Sequence[Expression],
    nodes: Iterable[int],
    in_the_open: bool = False,
) -> list[Expression]:
    """Nodes of a graph, written into another one; `given` are its inputs, if they are there.

    `in_the_open`: with one accumulator for each reduction that they are made of.
    """
    made: list[Expression] = []
    fields: dict[Any, list[Expression]] = {}
    for n in graph.nodes:
        args = [made[a] for a in n.args]
        if n.op == "input" and given:
            made.append(given[n.attr("k")])
        elif _reduces(n):
            made.append(builder.accumulate(accumulators.simple(n.op, args[0].aval.dtype), *args)[0])
        elif n.op == "accumulate" and in_the_open and (chunk := _parts(n)) is not None:
            key = n.attr("by"), n.args
            if key not in fields:
                fields[key] = copied(builder, chunk, args, chunk.outs, in_the_open)
            made.append(fields[key][n.attr("field")])
        else:
            node = Node(n.op, tuple(x.index for x in args), n.attrs, n.aval)
            made.append(builder.add(node))
    return [made[i] for i in nodes]


def _parts(n: Node) -> Graph | None:
    """What an accumulator computes of a slice, if it is more than one reduction."""
    chunk: Graph | None = n.attr("by").chunk
    if chunk is None:
        raise UnsupportedError("a fold of a user's own")
    reductions = [m for m in chunk.nodes if _reduces(m)]
    if len(chunk.nodes) == 2 or any(OPS[m.op].finds_position for m in reductions):
        return None
    return chunk


def _reduces(n: Node) -> bool:
    return n.op != "accumulate" and OPS[n.op].kind is Kind.REDUCTION


def _looked_at(graph: Graph) -> list[int]:
    """The nodes that must be finite for NumPy to have said nothing."""
    users: dict[int, list[int]] = {}
    for i, n in enumerate(graph.nodes):
        for a in n.args:
            users.setdefault(a, []).append(i)
    found: set[int] = set()
    visible: set[int] = set()
    for i in range(len(graph.nodes) - 1, -1, -1):
        n = graph.nodes[i]
        if any(u in visible and _shows(graph, u, i) for u in users.get(i, ())):
            visible.add(i)
        elif _may_warn(graph, n):
            visible.add(i)
            found.add(i)
    return sorted(found)


def _rounded(
    builder: SliceBuilder, graph: Graph, made: Sequence[Expression]
) -> Iterator[Expression]:
    """Where the order of a sum decides: it overflows, or what is left of it may be rounding."""
    sums: list[frozenset[int]] = []  # those that a node depends on
    linear: list[frozenset[int]] = []  # those that it is a sum, or difference, of
    sizes: dict[int, Any] = {}
    for i, n in enumerate(graph.nodes):
        before: frozenset[int] = frozenset().union(*(sums[a] for a in n.args))
        adds = n.op == "accumulate" and _may_warn(graph, n)
        sums.append(before | {i} if adds else before)
        single = [a for a in n.args if sums[a]]
        kept = n.op in ("add", "subtract", "negative", "cast", "abs", "where")
        kept = kept or (n.op in ("multiply", "divide") and single == [n.args[0]])
        kept = kept or (n.op == "multiply" and single == [n.args[1]])
        linear.append(frozenset().union(*(linear[a] for a in n.args)) if kept else frozenset())
        if adds:
            linear[i] = frozenset((i,))
            (of,) = n.args
            magnitudes = builder.op("abs", made[of])
            by = accumulators.simple("sum", magnitudes.aval.dtype)
            (sizes[i],) = builder.accumulate(by, magnitudes)
            yield builder.op("logical_not", builder.op("isfinite", sizes[i]))
        if not before or not _is_float(graph.nodes[n.args[0]]):
            continue
        row = OPS.get(n.op)
        chooses = n.op == "accumulate" and n.attr("by").name in ("argmax", "argmin")
        same = len(set(n.args)) < len(n.args)  # a test for NaN
        if chooses or n.op in ("floor", "ceil", "atan2") or (row and row.compares and not same):
            raise UnsupportedError("it decides by a sum, which another order rounds in another way")
        if n.op not in ("sqrt", "log", "log2", "log10", "divide"):
            continue
        a = n.args[-1]
        x, tolerance = made[a], _ROUNDING * float(np.finfo(made[a].aval.dtype).eps)
        if linear[a]:
            yield np.abs(x) <= _total(builder, sizes, linear[a], x) * tolerance
        if n.op == "sqrt" and sums[a] - linear[a]:  # squares of differences from a mean
            yield made[i] <= _total(builder, sizes, sums[a] - linear[a], x) * tolerance


def _total(builder: SliceBuilder, sizes: dict[int, Any], of: Iterable[int], like: Any) -> Any:
    """What some sums add, by magnitude."""
    given = [builder.cast(sizes[k], like.aval.dtype) for k in sorted(of)]
    return functools.reduce(functools.partial(builder.op, "add"), given)


def _is_float(n: Node) -> bool:
    return n.aval.dtype.startswith("float")


def _may_warn(graph: Graph, n: Node) -> bool:
    """Whether NumPy may report what makes this number."""
    if n.op == "accumulate":
        return _is_float(n) and not _is_selection(n)
    if not n.args:
        return False
    operand = graph.nodes[n.args[0]]
    if n.op == "cast" and _is_float(operand) and not _is_float(n):
        raise UnsupportedError(f"a cast of {operand.aval.dtype} to {n.aval.dtype}")
    return _is_float(n) and not OPS[n.op].silent


def _is_selection(n: Node) -> bool:
    """Whether an accumulator only chooses one of its numbers."""
    graph = n.attr("by").combine
    return all(not m.args or OPS[m.op].silent or OPS[m.op].result == "bool" for m in graph.nodes)


def _shows(graph: Graph, user: int, i: int) -> bool:
    """Whether node `user` is infinite or NaN where its operand `i` is."""
    n = graph.nodes[user]
    if not _is_float(n):
        return False
    if n.op == "accumulate":
        return n.attr("by") == accumulators.simple("sum", n.aval.dtype)
    row = OPS[n.op]
    return any(n.args[k] == i for k in row.shows)
