"""Graphs of one slice: what a function computes, node by node.

A function of a slice of known length has values of any shape. What `xpapply.special`,
`xpapply.elementwise` and `xpapply.reduction` do to slices of any length is a graph, too: its
values are one number per element (a *vector*, shape ``(LENGTH,)``) or one per slice (a *number*,
shape ``()``), and between the two stand accumulators (see `slice_graph`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .avals import BATCH as BATCH
from .avals import LENGTH as LENGTH
from .avals import VECTOR as VECTOR
from .avals import ShapeDtype as ShapeDtype
from .ops import OPS, Kind
from .shapes import einsum_lengths

EMPTY = "some of its values have no numbers"
"""Why no kernel runs a graph that `Graph.is_empty_somewhere`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node: an op applied to earlier nodes (`args` are their positions in the graph)."""

    op: str
    args: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...]
    aval: ShapeDtype

    def attr(self, name: str) -> Any:
        """The attribute `name`."""
        return dict(self.attrs)[name]


def scalar_type(dtype: str) -> Callable[[Any], Any]:
    """Python's type for numbers of a dtype."""
    if dtype.startswith(("float", "bfloat")):
        return float
    if dtype.startswith(("int", "uint")):
        return int
    return complex if dtype.startswith("complex") else bool


def number(node: Node) -> Any:
    """The value of a scalar node."""
    text, kind = node.attr("value"), scalar_type(node.aval.dtype)
    return text == "True" if kind is bool else kind(text)


@dataclass(frozen=True)
class Graph:
    """A function of one slice of each of its arrays, as a list of nodes.

    Equality and hash are those of the structure: two models of the same
    architecture have equal graphs, and so share compiled kernels.

    Attributes
    ----------
    nodes : tuple of Node
        In an order in which operands come first. Besides the ops of the table there is
        ``accumulate``: attributes ``by``, the ``Accumulator``, and ``field``, which of its numbers
        this is. ``k`` is the number of an input or of a constant.
    outs : tuple of int
        The nodes that are the results.
    consts : tuple of ndarray
        Values of the const nodes, by their ``k``.
    sources : tuple
        What a frontend made the constants from, for it to notice changes; no pass keeps it.
    """

    nodes: tuple[Node, ...]
    outs: tuple[int, ...]
    consts: tuple[np.ndarray, ...] = field(compare=False, repr=False, default=())
    sources: tuple[Any, ...] = field(compare=False, repr=False, default=())

    @property
    def inputs(self) -> tuple[int, ...]:
        """The input nodes, in the order of the arrays."""
        found = [i for i, n in enumerate(self.nodes) if n.op == "input"]
        return tuple(sorted(found, key=lambda i: self.nodes[i].attr("k")))

    @property
    def entry(self) -> int:
        """The input node of a graph that has one."""
        return next(i for i, n in enumerate(self.nodes) if n.op == "input")

    @property
    def input(self) -> ShapeDtype:
        """Shape and dtype of the slice, if there is one."""
        return self.nodes[self.entry].aval

    @property
    def out(self) -> int:
        """The node that is the result of a graph that has one."""
        (found,) = self.outs
        return found

    @property
    def result(self) -> ShapeDtype:
        """Shape and dtype of the result, if there is one."""
        return self.nodes[self.out].aval

    def dependent(self) -> list[bool]:
        """The dependence of each node on a slice."""
        found: list[bool] = []
        for n in self.nodes:
            found.append(n.op == "input" or any(found[a] for a in n.args))
        return found

    @property
    def any_length(self) -> bool:
        """Whether it is a function of slices of any length."""
        return any(self.is_vector(i) for i in self.inputs)

    @property
    def is_several(self) -> bool:
        """Whether it has several arrays or several results."""
        return len(self.inputs) > 1 or len(self.outs) > 1

    def is_vector(self, i: int) -> bool:
        """Whether node `i` has one number per element of a slice of any length."""
        return self.nodes[i].aval.shape == VECTOR

    def accumulations(self) -> dict[tuple[Any, ...], list[int]]:
        """The accumulate nodes by what they share: ``(accumulator, operands)``."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for i, n in enumerate(self.nodes):
            if n.op == "accumulate":
                found.setdefault((n.attr("by"), n.args), []).append(i)
        return found

    def levels(self) -> list[int]:
        """For each node the number of accumulations or reductions on the longest path to it."""
        found: list[int] = []
        for n in self.nodes:
            reduces = n.op == "accumulate" or OPS[n.op].kind is Kind.REDUCTION
            found.append(max((found[a] for a in n.args), default=0) + reduces)
        return found

    def needed(self, outs: Iterable[int], given: Iterable[int] = ()) -> list[int]:
        """The nodes on the ways from known ones to results, operands first."""
        known, live = set(given), set(outs)
        for i in range(len(self.nodes) - 1, -1, -1):
            if i in live and i not in known:
                live.update(self.nodes[i].args)
        return sorted(live - known)

    def pruned(self) -> Graph:
        """The graph without nodes that no result needs; all inputs stay."""
        keep = sorted({*self.needed(self.outs), *self.inputs})
        new = {i: k for k, i in enumerate(keep)}
        nodes = tuple(
            Node(n.op, tuple(new[a] for a in n.args), n.attrs, n.aval)
            for n in (self.nodes[i] for i in keep)
        )
        return Graph(nodes, tuple(new[o] for o in self.outs), self.consts)

    def __str__(self) -> str:
        lines, one = [], len(self.inputs) == 1
        for i, n in enumerate(self.nodes):
            shown = () if n.op == "input" and one else n.attrs
            attrs = (f"{k}={getattr(v, 'name', v)}" for k, v in shown)
            args = (f"%{a}" for a in n.args)
            lines.append(f"%{i}: {n.aval} = {' '.join((n.op, *args, *attrs))}")
        return "\n".join([*lines, "return " + ", ".join(f"%{o}" for o in self.outs)])

    def why_not_fused(self, *, gathers: bool = False) -> str | None:
        """The reason against kernels and programs for networks, or None.

        `gathers`: convolutions do not.
        """
        for n in self.nodes:
            if n.op in OPS and OPS[n.op].kind is Kind.ALONG:
                return f"{n.op} works along an axis: only the reference has it"
        if self.descends:
            return "it goes down decision trees"
        if self.is_empty_somewhere:
            return EMPTY
        return None if gathers else self.why_not_windows()

    def why_not_windows(self) -> str | None:
        """The reason against gathering numbers, as convolutions do, or None."""
        return "it has no convolutions, pools or padding" if self.gathers else None

    @property
    def is_empty_somewhere(self) -> bool:
        """Whether a value is empty, as ``v[:0]``."""
        return any(0 in n.aval.shape for n in self.nodes)

    @property
    def gathers(self) -> bool:
        """Whether numbers are gathered, as for convolutions."""
        return any(n.op in OPS and OPS[n.op].gathers for n in self.nodes)

    @property
    def descends(self) -> bool:
        """Whether it evaluates decision trees."""
        return any(n.op in OPS and OPS[n.op].kind is Kind.TREES for n in self.nodes)

    @property
    def gathered_bytes(self) -> int:
        """The most that windows of one slice are, once they are brought together."""
        return max((n.aval.nbytes for n in self.nodes if n.op == "windows"), default=1)

    def flops(self) -> int:
        """Floating-point operations for one slice (a multiply-add counts as two)."""
        return sum(map(self.flops_of, self.nodes))

    def flops_of(self, n: Node) -> int:
        """Floating-point operations of one node."""
        kind = OPS[n.op].kind
        if kind is Kind.CONTRACTION:
            shapes = [self.nodes[a].aval.shape for a in n.args]
            return 2 * math.prod(einsum_lengths(n.attr("subscripts"), shapes).values())
        if kind is Kind.REDUCTION:
            return math.prod(self.nodes[n.args[0]].aval.shape)
        if kind is Kind.TREES:  # a comparison and an addition for each step down
            return int(2 * n.attr("depth") * self.nodes[n.args[6]].aval.shape[0])
        return 0 if kind in (Kind.LEAF, Kind.LAYOUT) else math.prod(n.aval.shape)
