"""Conversion of a graph of one slice to a slice graph, where its values allow that.

A graph of a function knows the length of its slices and has values of any shape. Where each is
one number per element, or one per slice, kernels for slices of any length run it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays.layout import Layout, Operand
from ...errors import TraceError
from ...functions.cache import remembered
from ..graph import VECTOR, Graph, Node, ShapeDtype, number
from ..ops import OPS, Kind
from ..rewrite import MATVEC, expand
from . import accumulators
from .slice_graph import Accumulator, Expression, SliceBuilder


@dataclass(frozen=True)
class Sliced:
    """A graph as a slice graph.

    Attributes
    ----------
    graph : Graph
        Its inputs are the slices, one of each array, then constants.
    consts : tuple of int
        Which constants, by their ``k``: arrays as long as the slice, or single numbers.
    """

    graph: Graph
    consts: tuple[int, ...]


@remembered(256)
def sliced(graph: Graph, as_numpy: bool = False) -> Sliced | None:
    """`graph` as a slice graph, or None.

    `as_numpy`: of a function of NumPy arrays: means and variances as NumPy computes them, to the
    last bit, instead of in one pass.
    """
    shapes = {graph.nodes[i].aval.shape for i in graph.inputs}
    if len(shapes) > 1 or len(graph.input.shape) != 1:
        return None
    (length,) = graph.input.shape
    if length < 2:  # a number per element would look like one per slice
        return None
    try:
        keep = () if as_numpy else _COMPOSITES
        return _Conversion(expand(graph, keep=keep), length, as_numpy).result()
    except (TraceError, _Refused):
        return None


_ALL = (None, None, None)
"""The slice of a key that takes everything."""


class _Refused(Exception):
    """A value that is neither one number per element nor one per slice."""


class _Conversion:
    """Writes the nodes of a graph into a slice graph."""

    def __init__(self, graph: Graph, length: int, as_numpy: bool) -> None:
        self.graph, self.length, self.as_numpy = graph, length, as_numpy
        self.builder = SliceBuilder()
        self.found: dict[int, Any] = {}
        self.consts: list[int] = []

    def result(self) -> Sliced:
        graph = self.graph
        # the slices are the first of the arrays, wherever their nodes stand
        for i in graph.inputs:
            self.found[i] = self.builder.input(ShapeDtype(VECTOR, graph.nodes[i].aval.dtype))
        for i, n in enumerate(graph.nodes):
            if i not in self.found:
                self.found[i] = self._value(n)
        outs = [self._operand(o) for o in graph.outs]
        for o, found in zip(graph.outs, outs, strict=True):
            shape = graph.nodes[o].aval.shape
            if shape != (self.length,) if found.aval.shape else math.prod(shape) > 1:
                raise _Refused
        computed = self.builder.nodes[len(graph.inputs) :]
        if not any(n.op == "accumulate" or n.aval.shape for n in computed):
            raise _Refused
        return Sliced(self.builder.graph(*outs), tuple(self.consts))

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
            return self.builder.input(ShapeDtype(VECTOR if vector else (), n.aval.dtype))
        if n.op == "scalar":
            return self.builder.scalar(number(n), n.aval.dtype)
        args = [self._operand(a) for a in n.args]
        if kind is Kind.LAYOUT:
            return self._moved(n, args[0])
        if n.op == "cast":
            return self.builder.cast(args[0], attrs["dtype"])
        if kind is Kind.ELEMENTWISE:
            return self.builder.node(n.op, *args)
        if kind in (Kind.ALONG, Kind.TREES):
            raise _Refused
        if kind is Kind.CONTRACTION:
            if attrs["subscripts"] not in ("m,m->", MATVEC) or not all(a.aval.shape for a in args):
                raise _Refused
            found = self._simple("sum", self.builder.node("multiply", *map(_wide, args)))
            return self.builder.cast(found, n.aval.dtype)
        # reductions: of vectors, along their only axis
        x = args[0]
        if self.graph.nodes[n.args[0]].aval.shape != (self.length,) or not x.aval.shape:
            raise _Refused
        if OPS[n.op].finds_position:
            by = accumulators.position(n.op, x.aval.dtype)
            return self.builder.accumulate(by, x)[1]
        if n.op in ("max", "min"):
            return self._simple(n.op, x)
        if n.op in _COMPOSITES:
            found = _COMPOSITES[n.op](self, _wide(x), attrs)
        elif n.op == "sum":
            found = self._sum(x)
        else:
            found = self._simple(n.op, _wide(x))
        return self.builder.cast(found, n.aval.dtype)

    def _simple(self, name: str, x: Expression) -> Expression:
        """A reduction of the table."""
        return self.builder.accumulate(accumulators.simple(name, x.aval.dtype), x)[0]

    def _sum(self, x: Any) -> Any:
        """A sum; of exponentials below their maximum, or of squares, in one pass with that."""
        e, apart = self._made_by(x, "exp", 0), self._made_by(x, "multiply", 0)
        u, top = self._made_by(e, "subtract", 0), self._made_by(e, "subtract", 1)
        if u is not None and self._is(top, accumulators.simple("max", u.aval.dtype), u):
            found, total = self._exponential_sum(_wide(u))
            return np.where(np.isfinite(found), total, math.nan)
        if self.as_numpy:
            return self._simple("sum", _wide(x))
        if apart is not None and apart.index == self.builder.nodes[x.index].args[1]:
            u, mean = self._made_by(apart, "subtract", 0), self._made_by(apart, "subtract", 1)
            total, n = self._made_by(mean, "divide", 0), self._made_by(mean, "divide", 1)
            if u is not None and self._is(total, accumulators.simple("sum", u.aval.dtype), u):
                if self._is_length(n):
                    return self._mean_and_squares(u)[1]
        return self._simple("sum", _wide(x))

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

    def _moved(self, n: Node, x: Expression) -> Expression:
        """A layout that leaves each element where it is."""
        shape, whole = n.aval.shape, (self.length,)
        if n.op not in ("reshape", "broadcast_to", "index"):
            raise _Refused
        if x.aval.shape:
            still = n.op != "index" or all(k in (None, _ALL) for k in n.attr("key"))
            fits = still and shape == whole
        else:
            fits = shape in ((), (1,), whole)
        if not fits:
            raise _Refused
        return x

    def _exponential_sum(self, x: Expression) -> tuple[Any, ...]:
        return self.builder.accumulate(accumulators.exponential_sum(x.aval.dtype), x)

    def _mean_and_squares(self, x: Expression) -> tuple[Any, Any]:
        found = self.builder.accumulate(accumulators.moments(x.aval.dtype), x)
        return accumulators.mean_and_squares(*found)

    # --- composites that have accumulators of their own ---------------------------------------

    def _length(self, x: Expression) -> Any:
        return self.builder.length(x.aval.dtype)

    def mean(self, x: Expression, attrs: dict[str, Any]) -> Any:
        return self._sum(x) / self._length(x)

    def var(self, x: Expression, attrs: dict[str, Any]) -> Any:
        _, squares = self._mean_and_squares(x)
        return squares / (self._length(x) - attrs.get("correction", 0))

    def standardize(self, x: Any, attrs: dict[str, Any]) -> Any:
        mean, squares = self._mean_and_squares(x)
        return (x - mean) / np.sqrt(squares / self._length(x) + attrs["eps"])

    def softmax(self, x: Expression, attrs: dict[str, Any]) -> Any:
        top, total = self._exponential_sum(x)
        return np.exp(x - accumulators.shift(top)) / np.where(np.isfinite(top), total, math.nan)

    def log_softmax(self, x: Any, attrs: dict[str, Any]) -> Any:
        top, total = self._exponential_sum(x)
        return (x - top) - np.log(np.where(np.isfinite(top), total, math.nan))


def _wide(x: Expression) -> Expression:
    """Widen float16 for a sum, as NumPy does."""
    return x.astype("float32") if x.aval.dtype == "float16" else x


_COMPOSITES: dict[str, Callable[[_Conversion, Expression, dict[str, Any]], Any]] = {
    name: getattr(_Conversion, name)
    for name in ("mean", "var", "standardize", "softmax", "log_softmax")
}


def one_function(graph: Graph, x: Any, at: int, out: Any) -> Layout:
    """The layout of a function of one slice, as a slice graph or as any other.

    Its inputs are the slices along axis `at` of `x`, then those of a slice graph for constants:
    vectors that lie one element after the other, and numbers by value. Its result is written to
    `out`, whose axes that it has in the place of `at` begin there.
    """

    def strides(a: Any) -> tuple[int, ...]:
        return tuple(s // a.itemsize for s in a.strides)

    inputs = [Operand(x.dtype.name, strides(x))]
    along = tuple(int(a == at) for a in range(x.ndim))
    for i in graph.inputs[1:]:
        inputs.append(Operand(graph.nodes[i].aval.dtype, along if graph.is_vector(i) else None))
    steps = list(strides(out))
    if graph.any_length and not graph.is_vector(graph.outs[0]):  # one number in place of the slice
        steps[at : at + out.ndim - x.ndim + 1] = [0]
    outs = (Operand(out.dtype.name, tuple(steps)),)
    return Layout(tuple(x.shape), (at,), tuple(inputs), outs)
