"""From the graph of one function of one slice to a slice graph, where its values allow that.

A graph of a function knows the length of its slices and has values of any shape. Where each is
one number per element, or one per slice, kernels for slices of any length run it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TraceError
from . import accumulators
from .graph import Graph, Node
from .ops import OPS, Kind
from .rewrite import MATVEC, expand
from .slicewise import Accumulator, Expression, SliceBuilder, SliceGraph, number


@dataclass(frozen=True)
class Sliced:
    """A graph as a slice graph.

    Attributes
    ----------
    graph : SliceGraph
        Its inputs are the slice, then constants.
    consts : tuple of int
        Which constants, by their ``k``: arrays as long as the slice, or single numbers.
    """

    graph: SliceGraph
    consts: tuple[int, ...]


@functools.lru_cache(maxsize=256)
def sliced(graph: Graph) -> Sliced | None:
    """`graph` as a slice graph, or None."""
    (length,) = graph.input.shape
    if length < 2:  # a number per element would look like one per slice
        return None
    try:
        return _Conversion(expand(graph, keep=_COMPOSITES), length).result()
    except (TraceError, _Refused):
        return None


class _Refused(Exception):
    """A value that is neither one number per element nor one per slice."""


class _Conversion:
    """Writes the nodes of a graph into a slice graph."""

    def __init__(self, graph: Graph, length: int) -> None:
        self.graph, self.length = graph, length
        self.builder = SliceBuilder()
        self.found: dict[int, Any] = {}
        self.consts: list[int] = []

    def result(self) -> Sliced:
        graph = self.graph
        # the slice is the first of the arrays, wherever its node stands
        self.found[graph.entry] = self.builder.input(graph.input.dtype)
        for i, n in enumerate(graph.nodes):
            if i not in self.found:
                self.found[i] = self._value(n)
        out = self._operand(graph.out)
        if bool(out.aval.shape) != (math.prod(graph.result.shape) > 1):
            raise _Refused
        if not any(n.op == "accumulate" or n.aval.shape for n in self.builder.nodes[1:]):
            raise _Refused
        return Sliced(self.builder.graph(out), tuple(self.consts))

    def _operand(self, i: int) -> Expression:
        found: Expression = self.found[i]
        return found

    def _value(self, n: Node) -> Any:
        kind, attrs = OPS[n.op].kind, dict(n.attrs)
        if n.op == "const":
            if n.aval.shape not in ((self.length,), (1, self.length), (1,), ()):
                raise _Refused
            self.consts.append(attrs["k"])
            vector = math.prod(n.aval.shape) > 1
            return self.builder.input(n.aval.dtype, (-2,) if vector else ())
        if n.op == "scalar":
            return self.builder.scalar(float(attrs["value"]), n.aval.dtype)
        args = [self._operand(a) for a in n.args]
        if kind is Kind.LAYOUT:
            return self._moved(n, args)
        if n.op == "cast":
            return self.builder.cast(args[0], attrs["dtype"])
        if kind is Kind.ELEMENTWISE:
            return self.builder.node(n.op, args)
        shapes = [self.graph.nodes[a].aval.shape for a in n.args]
        if kind is Kind.CONTRACTION:
            if attrs["subscripts"] not in ("m,m->", MATVEC) or not all(a.aval.shape for a in args):
                raise _Refused
            product = self.builder.node("multiply", args)
            return self._accumulated(accumulators.simple, "sum", product)[0]
        # reductions: of vectors, along their only axis
        if shapes[0] != (self.length,) or not args[0].aval.shape:
            raise _Refused
        if n.op in _COMPOSITES:
            return _COMPOSITES[n.op](self, args[0], attrs)
        if n.op in ("argmax", "argmin"):
            return self._accumulated(accumulators.position, n.op, args[0])[1]
        if n.op == "sum":
            return self._sum(args[0])
        return self._accumulated(accumulators.simple, n.op, args[0])[0]

    def _sum(self, x: Any) -> Any:
        """A sum; of exponentials below their maximum, or of squares, in one pass with that."""
        e, apart = self._made_by(x, "exp", 0), self._made_by(x, "multiply", 0)
        u, top = self._made_by(e, "subtract", 0), self._made_by(e, "subtract", 1)
        if u is not None and self._is(top, accumulators.simple("max", u.aval.dtype), u):
            found, total = self._accumulated(_exponential_sum, "", u)
            return np.where(np.isfinite(found), total, math.nan)
        if apart is not None and apart.index == self.builder.nodes[x.index].args[1]:
            u, mean = self._made_by(apart, "subtract", 0), self._made_by(apart, "subtract", 1)
            total, n = self._made_by(mean, "divide", 0), self._made_by(mean, "divide", 1)
            if u is not None and self._is(total, accumulators.simple("sum", u.aval.dtype), u):
                if self._is_length(n):
                    return self._mean_and_squares(u)[1]
        return self._accumulated(accumulators.simple, "sum", x)[0]

    def _made_by(self, x: Any, op: str, k: int) -> Any:
        """Operand `k` of the op that made `x`, None if another one did."""
        node = None if x is None else self.builder.nodes[x.index]
        if node is None or node.op != op:
            return None
        return Expression(self.builder, node.args[k])

    def _is(self, x: Any, by: Accumulator, of: Expression) -> bool:
        node = None if x is None else self.builder.nodes[x.index]
        found = node is not None and node.op == "accumulate" and node.attr("by") == by
        return bool(found and node is not None and node.args == (of.index,))

    def _is_length(self, x: Any) -> bool:
        node = self.builder.nodes[x.index]
        return node.op == "length" or (node.op == "scalar" and number(node) == self.length)

    def _accumulated(
        self, of: Callable[[str, str], Accumulator], name: str, x: Expression
    ) -> tuple[Any, ...]:
        return self.builder.accumulate(of(name, x.aval.dtype), x)

    def _moved(self, n: Node, args: list[Expression]) -> Expression:
        """A layout that leaves each element where it is."""
        size = math.prod(n.aval.shape)
        if n.op not in ("reshape", "broadcast_to", "index") or len(args) != 1:
            raise _Refused
        if n.op == "index" and any(
            k != (None, None, None) and k is not None for k in n.attr("key")
        ):
            if args[0].aval.shape:
                raise _Refused
        if size == (self.length if args[0].aval.shape else 1) or not args[0].aval.shape:
            if size not in (1, self.length) or n.aval.shape not in ((), (1,), (self.length,)):
                raise _Refused
            return args[0]
        raise _Refused

    def _mean_and_squares(self, x: Expression) -> tuple[Any, Any]:
        found = self.builder.accumulate(accumulators.moments(x.aval.dtype), x)
        return accumulators.mean_and_squares(*found)

    # --- composites that have accumulators of their own ---------------------------------------

    def _length(self, x: Expression) -> Any:
        return self.builder.length(x.aval.dtype)

    def mean(self, x: Expression, attrs: dict[str, Any]) -> Any:
        return self._accumulated(accumulators.simple, "sum", x)[0] / self._length(x)

    def var(self, x: Expression, attrs: dict[str, Any]) -> Any:
        _, squares = self._mean_and_squares(x)
        return squares / (self._length(x) - attrs.get("correction", 0))

    def standardize(self, x: Any, attrs: dict[str, Any]) -> Any:
        mean, squares = self._mean_and_squares(x)
        return (x - mean) / np.sqrt(squares / self._length(x) + attrs["eps"])

    def softmax(self, x: Expression, attrs: dict[str, Any]) -> Any:
        top, total = self.builder.accumulate(accumulators.exponential_sum(x.aval.dtype), x)
        shift = np.where(np.isfinite(top), top, 0)
        return np.exp(x - shift) / np.where(np.isfinite(top), total, math.nan)

    def log_softmax(self, x: Any, attrs: dict[str, Any]) -> Any:
        top, total = self.builder.accumulate(accumulators.exponential_sum(x.aval.dtype), x)
        return (x - top) - np.log(np.where(np.isfinite(top), total, math.nan))


def _exponential_sum(_: str, dtype: str) -> Accumulator:
    return accumulators.exponential_sum(dtype)


_COMPOSITES: dict[str, Callable[[_Conversion, Expression, dict[str, Any]], Any]] = {
    name: getattr(_Conversion, name)
    for name in ("mean", "var", "standardize", "softmax", "log_softmax")
}
