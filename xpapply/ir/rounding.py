"""How far numbers of a kernel may be from NumPy's, whose sums have another order of terms.

Each number that sums are in has a bound of its error, which is computed beside it where something
depends on it: a comparison that it could turn, a divisor or the operand of a root or a logarithm of
which nothing but rounding may be left. What is nearer than the bound is not usual: NumPy decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .builder import Value
from .graph import Graph, Node
from .numpy_builder import NumPyBuilder
from .ops import OPS, Kind

_ROUNDING = 64.0
"""Times the precision of a number that sums may be off, of the magnitudes that they add."""


class Rounding:
    """The errors of a graph's nodes, without composites; `made` are its values in a builder."""

    def __init__(self, builder: NumPyBuilder, graph: Graph, made: Sequence[Value]) -> None:
        self._builder, self._graph, self._made = builder, graph, made
        self._known: dict[int, Any] = {}
        self._inexact: list[bool] = []
        for n in graph.nodes:
            self._inexact.append(_adds(n) or any(self._inexact[a] for a in n.args))

    def usual(self) -> Iterator[Value]:
        """Conditions that hold where rounding decides nothing."""
        op = self._builder.op
        for i, n in enumerate(self._graph.nodes):
            if _adds(n):
                # it overflows in no order
                yield op("isfinite", self._terms(i))
            inexact = [a for a in n.args if self._inexact[a] and self._is_float(a)]
            if not inexact:
                continue
            row, x = OPS[n.op], self._made[n.args[-1]]
            if row.finds_position:
                yield self._one_is_best(n)
                continue
            if (row.decides and not row.compares) or n.op in ("atan2", "signbit"):
                raise UnsupportedError("it decides by a sum, which is rounded in another way")
            if row.compares and len(set(n.args)) == len(n.args):  # else a test for NaN
                a, b = n.args
                apart = op("abs", op("subtract", self._made[a], self._made[b]))
                yield op("greater", apart, self._sum(self._decided(a), self._decided(b)))
            elif n.op in ("floor", "ceil"):
                off = self._decided(n.args[0])
                below, above = op("subtract", x, off), op("add", x, off)
                yield op("equal", op(n.op, below), op(n.op, above))
            elif n.op in ("sqrt", "log", "log2", "log10"):
                yield op("greater", x, self._decided(n.args[0]))
            elif n.op in ("divide", "pow") and n.args[-1] in inexact:
                yield op("greater", op("abs", x), self._decided(n.args[-1]))

    def _one_is_best(self, n: Node) -> Value:
        """That no other number may be as large, or as small, as the best one."""
        op, x, axes = self._builder.op, self._made[n.args[0]], n.attr("axis")
        largest = n.op == "argmax"
        off = self._decided(n.args[0])
        best = op("max" if largest else "min", x, axis=axes, keepdims=True)
        most = op("multiply", op("max", off, axis=axes, keepdims=True), 2.0)
        apart = op("abs", op("subtract", x, best))
        near = self._builder.cast(op("logical_not", op("greater", apart, most)), "int64")
        count = op("sum", near, axis=axes, keepdims=n.attr("keepdims"))
        return op("equal", count, 1)  # type: ignore[no-any-return]

    # --- bounds -------------------------------------------------------------------------------

    def _is_float(self, i: int) -> bool:
        return self._graph.nodes[i].aval.dtype.startswith("float")

    def _tolerance(self, i: int) -> float:
        return _ROUNDING * float(np.finfo(self._graph.nodes[i].aval.dtype).eps)

    def _sum(self, *several: Any) -> Any:
        """The sum of errors, of which None is none."""
        there = [x for x in several if x is not None]
        found = there[0] if there else None
        for x in there[1:]:
            found = self._builder.op("add", found, x)
        return found

    def _decided(self, i: int) -> Any:
        """The error of a number that something depends on, with that of the last step to it."""
        size = self._builder.op("abs", self._made[i])
        last = self._builder.op("multiply", size, float(np.finfo(size.dtype).eps))
        return self._sum(last, self._error(i))

    def _terms(self, i: int) -> Any:
        """What a sum adds, by magnitude."""
        op, n = self._builder.op, self._graph.nodes[i]
        if n.op == "sum":
            return op("sum", op("abs", self._made[n.args[0]]), **dict(n.attrs))
        if OPS[n.op].kind is not Kind.CONTRACTION:
            raise UnsupportedError(f"{n.op}: it overflows in one order of its factors alone")
        found = None
        for a in n.args:
            x = self._largest(op("abs", self._made[a]))
            found = x if found is None else op("multiply", found, x)
        return op("multiply", found, self._count(n))

    def _count(self, n: Node) -> float:
        """The most terms that a sum of products may have."""
        return float(max(math.prod(self._made[a].shape) for a in n.args))

    def _largest(self, x: Any) -> Any:
        """The largest of all numbers of a value."""
        if not x.shape:
            return x
        return self._builder.op("max", x, axis=tuple(range(len(x.shape))), keepdims=False)

    def _error(self, i: int) -> Any:
        """How far node `i` may be off; None: it is not."""
        if not self._inexact[i]:
            return None
        if i not in self._known:
            found, shape = self._bound(i, self._graph.nodes[i]), self._made[i].shape
            if found is not None and found.shape != shape:
                found = self._builder.op("broadcast_to", found, shape=shape)
            self._known[i] = found
        return self._known[i]

    def _bound(self, i: int, n: Node) -> Any:
        op, attrs = self._builder.op, dict(n.attrs)
        kind, x = OPS[n.op].kind, [self._made[a] for a in n.args]
        errors = [self._error(a) for a in n.args]
        if _adds(n):
            own = op("multiply", self._terms(i), self._tolerance(i))
            if kind is Kind.REDUCTION:
                return own if errors[0] is None else op("add", own, op("sum", errors[0], **attrs))
            return self._sum(own, self._of_products(n, x, errors))
        if not self._is_float(i):
            return None
        if kind is Kind.LAYOUT:
            like = [self._zero(v) if e is None else e for v, e in zip(x, errors, strict=True)]
            return op(n.op, *like, **attrs)
        if n.op in ("max", "min"):
            return op("max", errors[0], **attrs)
        if n.op == "cast":
            return None if errors[0] is None else self._builder.cast(errors[0], attrs["dtype"])
        if n.op in ("negative", "abs"):
            return errors[0]
        if n.op in ("add", "subtract", "maximum", "minimum", "where"):
            return self._sum(*(errors[1:] if n.op == "where" else errors))
        if n.op == "multiply":
            return self._of_product(x, errors)
        if n.op == "divide":
            size = op("abs", x[1])
            left = size if errors[1] is None else op("subtract", size, errors[1])
            quotient = op("abs", self._made[i])
            more = None if errors[1] is None else op("multiply", quotient, errors[1])
            return op("divide", self._sum(errors[0], more), left)
        if n.op == "sqrt":
            return op("divide", errors[0], self._made[i])
        if n.op in ("log", "log2", "log10"):
            return op("divide", op("multiply", errors[0], 2.0), op("subtract", x[0], errors[0]))
        if n.op in ("tanh", "sin", "cos", "atan", "floor", "ceil"):
            return errors[0]
        if n.op == "exp":
            return op("multiply", self._made[i], op("expm1", errors[0]))
        raise UnsupportedError(f"it decides by {n.op} of a sum, which is rounded in another way")

    def _zero(self, like: Value) -> Any:
        return self._builder.op("subtract", like, like)

    def _of_products(self, n: Node, x: Sequence[Any], errors: Sequence[Any]) -> Any:
        """What a sum of products is off for the errors of its factors."""
        if all(e is None for e in errors):
            return None
        if len(x) != 2:
            raise UnsupportedError("it decides by a sum of products of several sums")
        sizes = [self._largest(self._builder.op("abs", v)) for v in x]
        largest = [None if e is None else self._largest(e) for e in errors]
        found = self._of_product(sizes, largest)
        return self._builder.op("multiply", found, self._count(n))

    def _of_product(self, x: Sequence[Any], errors: Sequence[Any]) -> Any:
        op, found = self._builder.op, None
        for k in range(2):
            if errors[k] is not None:
                found = self._sum(found, op("multiply", errors[k], op("abs", x[1 - k])))
        if errors[0] is not None and errors[1] is not None:
            found = self._sum(found, op("multiply", errors[0], errors[1]))
        return found


def _adds(n: Node) -> bool:
    """Whether it adds floats, in an order that need not be NumPy's."""
    row = OPS[n.op]
    adds = row.kind is Kind.CONTRACTION or n.op in ("sum", "prod")
    return adds and n.aval.dtype.startswith("float")
