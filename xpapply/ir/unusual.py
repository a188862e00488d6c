"""Graphs that also tell for which slices NumPy may have warned, or decided in another way.

NumPy reports divisions by zero, overflows and invalid values. A kernel reports nothing; but where
NumPy would have, some number is infinite or NaN that was not asked to be. So a further result
says of each slice whether there is such a number. It is enough to look at those which later
numbers do not show: the columns `shows` and `silent` of the op table tell.

Sums that NumPy adds in another order are off by rounding. `xpapply.ir.rounding` says how far, and
slices are marked for which that may decide something. So are those where the sign of a zero
decides, of which NumPy's maxima and orders take one or the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

from ..errors import UnsupportedError
from .builder import Value
from .graph import Graph, Node
from .numpy_builder import NumPyBuilder
from .ops import OPS, Kind
from .rewrite import expand
from .rounding import Rounding


def with_unusual(graph: Graph) -> Graph:
    """Add a result to a graph: whether NumPy may have warned of the slice.

    Raises
    ------
    UnsupportedError
        If no number tells of what NumPy would have reported.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> graph = xpapply.lift(lambda x: np.exp(np.log(x)), (4,), "float32")
    >>> print(with_unusual(graph).nodes[-1].aval)
    bool[]
    """
    builder = NumPyBuilder(graph.consts)
    outs = copied(builder, graph, graph.outs)
    plain = expand(graph)
    made = copied(builder, plain, range(len(plain.nodes)))
    usual = [builder.op("isfinite", made[i]) for i in _looked_at(plain)]
    usual += Rounding(builder, plain, made).usual()
    usual += [builder.op("not_equal", made[i], 0.0) for i in _zeros_that_decide(plain)]
    usual += [_fits(builder, made[n.args[0]]) for n in plain.nodes if _makes_whole(plain, n)]
    return builder.graph(*outs, _unusual(builder, usual)).pruned()


def copied(
    builder: NumPyBuilder, graph: Graph, nodes: Iterable[int], consts: Sequence[int] | None = None
) -> list[Value]:
    """Nodes of a graph, written into another one; `consts` are the places of its constants there.

    The input is that of the other graph, if it has one.
    """
    made: list[Value] = []
    for n in graph.nodes:
        attrs = n.attrs
        if n.op == "const" and consts is not None:
            attrs = (("k", consts[n.attr("k")]),)
        made.append(builder.add(Node(n.op, tuple(made[a].index for a in n.args), attrs, n.aval)))
    return [made[i] for i in nodes]


def _unusual(builder: NumPyBuilder, usual: Sequence[Value]) -> Value:
    """Whether some of these conditions, of any shapes, is false."""
    by_size: dict[int, list[Value]] = {}
    for x in usual:
        size = math.prod(x.shape)
        flat = () if size == 1 else (size,)
        by_size.setdefault(size, []).append(
            x if x.shape == flat else builder.op("reshape", x, shape=flat)
        )
    both = functools.partial(builder.op, "logical_and")
    found = []
    for size, several in by_size.items():
        one = functools.reduce(both, several)
        found.append(one if size == 1 else builder.op("min", one, axis=(0,), keepdims=False))
    if not found:
        return builder.scalar(False, "bool")  # type: ignore[no-any-return]
    return builder.op("logical_not", functools.reduce(both, found))  # type: ignore[no-any-return]


def _looked_at(graph: Graph) -> list[int]:
    """The nodes that must be finite for NumPy not to have warned."""
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


def _zeros_that_decide(graph: Graph) -> list[int]:
    """The nodes whose zeros may have another sign than NumPy's where that changes a result."""
    uncertain: list[bool] = []
    found: set[int] = set()
    for n in graph.nodes:
        row = OPS[n.op]
        here = [a for a in n.args if uncertain[a]]
        found.update(here if row.sees_zeros else ())
        uncertain.append(_is_float(n) and (row.either_zero or bool(here)))
    return sorted(found)


def _is_float(n: Node) -> bool:
    return n.aval.dtype.startswith("float")


def _may_warn(graph: Graph, n: Node) -> bool:
    """Whether NumPy may warn of the operation of this node."""
    row = OPS[n.op]
    if not n.args or row.kind is Kind.LAYOUT:
        return False
    if _makes_whole(graph, n) and n.aval.dtype != "int64":
        operand = graph.nodes[n.args[0]]
        raise UnsupportedError(f"a cast of {operand.aval.dtype} to {n.aval.dtype}")
    if row.kind is Kind.REDUCTION and row.join:
        row = OPS[row.join]
    return _is_float(n) and not row.silent


def _makes_whole(graph: Graph, n: Node) -> bool:
    """Whether a node casts a float to an integer: NumPy warns if it does not fit."""
    return n.op == "cast" and _is_float(graph.nodes[n.args[0]]) and not _is_float(n)


def _fits(builder: NumPyBuilder, x: Value) -> Value:
    """Whether floats fit in int64."""
    if x.dtype.itemsize < 4:
        return builder.op("isfinite", x)  # type: ignore[no-any-return]
    return builder.op("less", abs(x), 2.0**63)  # type: ignore[no-any-return]


def _shows(graph: Graph, user: int, i: int) -> bool:
    """Whether node `user` is infinite or NaN wherever its operand `i` is."""
    n = graph.nodes[user]
    row = OPS[n.op]
    if not _is_float(n):
        return False
    if n.op == "index":  # perhaps not of all numbers
        return math.prod(n.aval.shape) == math.prod(graph.nodes[i].aval.shape)
    if n.op == "sum" or row.kind in (Kind.LAYOUT, Kind.CONTRACTION):
        return 0 not in n.aval.shape
    return any(n.args[k] == i for k in row.shows)
