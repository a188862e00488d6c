"""Error analysis: bounds of a kernel's rounding relative to NumPy, and decisions within them.

Most are NumPy's to the last bit: arithmetic, and sums along a slice, which kernels add in its
order. Others are *inexact*: an exponential, or a product of matrices, which BLAS adds in an order
of its own (columns `inexact`, `off`, `jumps` and `edges` of the op table). Each of these has a
bound of its error, which is computed beside it where something depends on it: a comparison that it
could turn, a divisor or the operand of a root of which nothing but rounding may be left. What is
nearer than the bound is not usual: NumPy decides.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .builder import Value
from .graph import Graph, Node, number
from .numpy_builder import NumPyBuilder
from .numpy_sums import adds_as_numpy
from .ops import OPS, Kind, Op

_ROUNDING = 64.0
"""Times the precision of a number that it may be off, or a sum of the magnitudes that it adds."""


class Rounding:
    """The errors of a graph's nodes, without composites; `made` are its values in a builder."""

    def __init__(self, builder: NumPyBuilder, graph: Graph, made: Sequence[Value]) -> None:
        self._builder, self._graph = builder, graph
        self._made: Sequence[Any] = made
        self._known: dict[int, Any] = {}
        self._sizes: dict[int, Any] = {}
        self._magnitudes: dict[tuple[int, bool], Any] = {}
        self._inexact: list[bool] = []
        for n in graph.nodes:
            found = self._begins(n) or any(self._inexact[a] for a in n.args)
            # what jumps, or is no float, is what NumPy has where it is looked at
            self._inexact.append(found and _is_float(n) and not OPS[n.op].jumps)

    def _begins(self, n: Node) -> bool:
        """Whether a node differs from NumPy in bits though its operands do not."""
        if n.op != "sum":
            return OPS[n.op].inexact > 0
        return len(self._graph.nodes[n.args[0]].aval.shape) > 1 or not adds_as_numpy()

    def usual(self) -> Iterator[Any]:
        """Conditions under which rounding decides nothing."""
        op = self._builder.op
        for i, n in enumerate(self._graph.nodes):
            row = OPS[n.op]
            if self._inexact[i] and self._adds(i) and not self._is_positive(i):
                yield op("isfinite", self._magnitude(i))  # it overflows in no order
            if not any(self._inexact[a] for a in n.args):
                continue
            if n.op == "cast" and not _is_float(n):
                raise UnsupportedError(f"rounding could decide: a cast to {n.aval.dtype}")
            if row.jumps and len(set(n.args)) == len(n.args):  # else it is a test for NaN
                yield self._stays(n, row)
            a = n.args[-1]
            for edge in row.edges if self._inexact[a] else ():
                if edge or not self._keeps_sign(a):
                    apart = self._made[a] - edge if edge else self._made[a]
                    yield abs(apart) > 2 * self._bound(a)

    def _stays(self, n: Node, row: Op) -> Any:
        """The condition that a node is constant while operands vary within their bounds."""
        op, x, e = self._builder.op, self._made[n.args[0]], self._bound(n.args[0])
        if row.compares:
            return abs(x - self._made[n.args[1]]) > e + self._bound(n.args[1])
        if row.finds_position:
            axis = {"axis": n.attr("axis")}
            x = x if n.op == "argmax" else -x
            top = op("max", x - e, **axis, keepdims=True)
            near = self._builder.cast(x + e >= top, "int64")
            return op("sum", near, **axis, keepdims=False) <= 1
        if row.kind is not Kind.ELEMENTWISE or len(n.args) > 1 or row.result == "bool":
            raise UnsupportedError(f"rounding could decide: {n.op} of what may be off by some bits")
        return op("equal", op(n.op, x - e), op(n.op, x + e))

    # --- how far off --------------------------------------------------------------------------

    def _bound(self, i: int) -> Any:
        """The error bound of a node."""
        n = self._graph.nodes[i]
        if not self._inexact[i]:
            return self._builder.scalar(0.0, n.aval.dtype if _is_float(n) else "float64")
        if i not in self._known:
            times = max(1.0, float(OPS[n.op].inexact))
            size = self._magnitude(i) if self._adds(i) else abs(self._made[i])
            size = self._spread(self._largest(size), self._made[i]) if times > 1 else size
            found = size * (times * _ROUNDING * float(np.finfo(n.aval.dtype).eps))
            if any(self._inexact[a] for a in n.args):
                more = self._followed(n, self._bound)
                if more is None:
                    raise UnsupportedError(
                        f"rounding could decide: {n.op} of what may be off by some bits"
                    )
                found = found + more
            self._known[i] = found
        return self._known[i]

    def _magnitude(self, i: int, whole: bool = False) -> Any:
        """The magnitude of a node, as if no terms cancelled that NumPy may add in another order.

        `whole`: nothing at all, since it is not known which of it NumPy does.
        """
        n = self._graph.nodes[i]
        whole = whole or n.op == "approximate"
        if (i, whole) in self._magnitudes:  # the ways to it are many
            return self._magnitudes[i, whole]
        found = None
        # of NumPy's own numbers, and of a function, what they are
        own = OPS[n.op].inexact and not self._adds(i)
        own = own or not (whole or self._inexact[i])
        if not own and all(_is_float(self._graph.nodes[a]) for a in n.args[n.op == "where" :]):
            found = self._followed(n, functools.partial(self._magnitude, whole=whole), True)
        found = abs(self._made[i]) if found is None else found
        self._magnitudes[i, whole] = found
        return found

    def _followed(self, n: Node, of: Callable[[int], Any], sizes: bool = False) -> Any:
        """A bound of a node, of bounds of its operands; None: none is known.

        `sizes`: they are how large the operands are, not how far off.
        """
        op, row, attrs = self._builder.op, OPS[n.op], dict(n.attrs)
        if row.kind is Kind.CONTRACTION:
            return self._of_products(n, of, sizes)
        if not n.args or (row.off is None and row.kind not in (Kind.LAYOUT, Kind.REDUCTION)):
            return None
        zero = self._builder.scalar(0.0, n.aval.dtype)
        bounds = [of(a) if _is_float(self._graph.nodes[a]) else zero for a in n.args]
        if row.off is not None:
            found = row.off(*(self._made[a] for a in n.args), *bounds)
            return self._builder.cast(found, n.aval.dtype)
        several = zip(n.args, bounds, strict=True)
        whole = [self._spread(b, self._made[a]) for a, b in several]
        if row.kind is Kind.LAYOUT:
            return op(n.op, *whole, **attrs)
        if n.op in ("max", "min"):
            return op("max", *whole, **attrs)
        return op("sum", *whole, **attrs) if n.op == "sum" else None

    def _spread(self, x: Any, like: Value) -> Any:
        """A bound for each number of a value."""
        return x if x.shape == like.shape else self._builder.op("where", like == like, x, x)

    def _of_products(self, n: Node, of: Callable[[int], Any], sizes: bool) -> Any:
        """A sum of products: no more than with the largest factors everywhere."""
        largest = [self._largest_of(a) for a in n.args]
        count = float(max(math.prod(self._made[a].shape) for a in n.args))
        if sizes:
            return functools.reduce(operator.mul, largest) * count
        if len(largest) != 2:
            return None
        bounds = [self._largest(of(a)) for a in n.args]
        return OPS["multiply"].off(*largest, *bounds) * count  # type: ignore[misc]

    def _largest_of(self, i: int) -> Any:
        """The largest size of all numbers that a node is taken from."""
        n = self._graph.nodes[i]
        while OPS[n.op].kind is Kind.LAYOUT and len(n.args) == 1:
            (i,) = n.args
            n = self._graph.nodes[i]
        if i not in self._sizes:
            self._sizes[i] = self._largest(abs(self._made[i]))
        return self._sizes[i]

    def _largest(self, x: Any) -> Any:
        """The largest of all numbers of a value."""
        if not x.shape:
            return x
        return self._builder.op("max", x, axis=tuple(range(len(x.shape))), keepdims=False)

    # --- what cannot cancel -------------------------------------------------------------------

    def _adds(self, i: int) -> bool:
        """Whether a node is a sum in an order other than NumPy's."""
        n = self._graph.nodes[i]
        if n.op == "prod":
            raise UnsupportedError("a product: it overflows in one order of its factors alone")
        return n.op in ("sum", "approximate") or OPS[n.op].kind is Kind.CONTRACTION

    def _keeps_sign(self, i: int) -> bool:
        """Whether rounding keeps the sign of a node, however small it is."""
        n = self._graph.nodes[i]
        if not self._inexact[i]:
            return True
        row = OPS[n.op]
        if row.sign:
            certain = row.sign == "operands" or self._is_positive(i)
            return certain and all(self._keeps_sign(a) for a in n.args)
        if row.kind is Kind.LAYOUT:
            return self._keeps_sign(n.args[0]) and len(n.args) == 1
        return row.kind is Kind.ELEMENTWISE and not any(self._inexact[a] for a in n.args)

    def _is_positive(self, i: int) -> bool:
        """Whether a node cannot be below zero."""
        n = self._graph.nodes[i]
        row = OPS[n.op]
        if row.positive:
            return row.positive == "always" or all(self._is_positive(a) for a in n.args)
        if n.op == "scalar":
            return bool(number(n) > 0)
        return n.op == "multiply" and n.args[0] == n.args[1]  # a square


def _is_float(n: Node) -> bool:
    return n.aval.dtype.startswith("float")
