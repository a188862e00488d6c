"""A whole graph as one C++ function of R slices, activations in registers.

The function reads R slices in place, keeps every intermediate value in
registers and returns the results, so that a kernel reads the input once and
writes the output once. Register arrays need compile-time indices, that is
unrolled loops; a network unrolled in full overflows the instruction cache. So
products come in three forms:

lead
    ``y += W[:, k] * x[k]`` with a loop over k that is *not* unrolled: for the
    first layer, whose x[k] are read from memory one by one.
pair
    two layers at once, with a loop over the hidden features j that is not
    unrolled: ``s = act(W[j] @ x + b[j]); y += V[:, j] * s``. The hidden
    values are never stored.
stream
    the last layer, if no pair takes it: results are stored as they come.
dense
    everything unrolled: for what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.graph import Graph
from ...ir.ops import OPS, Kind
from ..cxx import TYPES
from ..graph_queries import GraphQueries, prepare
from .forms import forms
from .products import Products
from .values import Values
from .weights import Weights


@dataclass(frozen=True)
class RegisterNetwork:
    """The text of the function, and how to pack its weights.

    `numbers` is the size of the largest value of one slice that it keeps in registers.
    """

    text: str
    graph: Graph
    name: str
    slices: int
    weights: Weights
    dtype: str
    numbers: int

    def pack(self, consts: Sequence[np.ndarray]) -> np.ndarray:
        """The weights in the order in which the function reads them."""
        return self.weights.packed(self.graph, consts, self.dtype)


_MOST_NUMBERS = 512
"""No value of more numbers is worth trying to keep in registers."""


def why_not(graph: Graph) -> str | None:
    """Why there is no such function, or None."""
    graph = prepare(graph)
    dependent = graph.dependent()
    for i, n in enumerate(graph.nodes):
        kind = OPS[n.op].kind
        if n.aval.dtype not in TYPES:
            return f"dtype {n.aval.dtype} has no C++ type"
        if not dependent[i]:
            if kind is not Kind.LEAF and n.op != "reshape":
                return f"{n.op} of constants"
            continue
        if math.prod(n.aval.shape) > _MOST_NUMBERS and n.op != "input":
            return f"a value of {math.prod(n.aval.shape)} numbers does not fit in registers"
        if kind is Kind.ELEMENTWISE and not OPS[n.op].c:
            return f"{n.op} has no C++ expression"
    if not dependent[graph.out]:
        return "the result does not depend on the slice"
    compute = {n.aval.dtype for n in graph.nodes if n.op == "einsum"}
    if len(compute) > 1:
        return "products in several dtypes"
    return None


def compute_dtype(graph: Graph) -> str:
    """The dtype of the arithmetic: float32 or float64."""
    wide = any(n.aval.dtype == "float64" for n in graph.nodes if n.op not in ("input", "cast"))
    return "float64" if wide or graph.result.dtype == "float64" else "float32"


def register_network(graph: Graph, slices: int, *, name: str = "xpapply_rows") -> RegisterNetwork:
    """Write the function of so many slices.

    ``void name(const IN* const (&x)[R], const I xs, const T* w, OUT* const (&y)[R], const I ys)``:
    ``x[r]`` points at a slice, whose elements are ``xs`` apart, ``y[r]`` at its
    result; ``XPAPPLY_VECTOR`` says that slices are contiguous and aligned to 16 bytes.
    """
    graph = prepare(graph)
    queries = GraphQueries(graph)
    values = Values(queries, slices, compute_dtype(graph))
    products = Products(queries, values)
    how = forms(queries)
    firsts = {first for first, _ in how.pairs.values()}
    for i, n in enumerate(graph.nodes):
        if not queries.dependent[i] or i in how.skipped or i in firsts:
            continue
        if how.stream is not None and i == how.stream[0]:
            products.stream(*how.stream)
        elif i in how.pairs:
            products.pair(*how.pairs[i], i)
        elif i == how.lead:
            products.lead(i, how.source)
        elif i in queries.regions:
            values.region(queries.regions[i])
        elif i in queries.region_of:
            continue
        elif queries.affine(i):
            products.dense(i)
        elif n.op == "input":
            read = [u for u in queries.uses.get(i, []) if u not in how.skipped and u != how.lead]
            if read or i == graph.out:
                values.load(i)
        else:
            values.other(i)
    if how.stream is None:
        stored = f"y[r][j * ys] = {values.at(graph.out, 'j')};"
        values.loop(queries.size(graph.out), [stored])
    out, R = TYPES[graph.result.dtype], slices
    text = f"""
template <typename I>
XPAPPLY_INLINE void {name}(
    const IN* const (&x)[{R}], const I xs, const T* w, {out}* const (&y)[{R}], const I ys) {{
{chr(10).join("  " + line for line in values.lines)}
}}
"""
    return RegisterNetwork(text, graph, name, slices, values.weights, values.dtype, values.numbers)
