"""Bounds of maps in float16, as far as constants imply them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...ir.graph import number
from ...ir.ops import OPS, Kind
from ..graph_queries import GraphQueries
from ..tensor_network.packing import Constants

_LARGEST = 65504
"""The largest number of float16."""
_AFTER: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "abs": np.abs,
    "negative": np.negative,
}
"""Ops of one value whose numbers follow from those of that value."""
_BOTH = {"add": np.add, "multiply": np.multiply, "divide": np.divide}
"""Bounds of binary operations."""


def typical(queries: GraphQueries, i: int, value: Constants) -> np.ndarray | None:
    """Numbers of a value where all products are zero: those of biases; None: not known."""
    graph = queries.graph
    n = graph.nodes[i]
    if n.op == "scalar":
        return np.asarray(number(n), float).reshape(1)
    if not queries.dependent[i]:
        return np.asarray(value(i)).reshape(-1)
    if n.op in ("input", "einsum"):
        return np.zeros(1)
    parts = [typical(queries, a, value) for a in n.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    one = known[0]
    if n.op == "concat":
        sizes = [queries.size(a) for a in n.args]
        return np.concatenate([np.resize(*part) for part in zip(known, sizes, strict=True)])
    if OPS[n.op].kind is Kind.LAYOUT or n.op in ("cast", "max", "min"):
        return one
    if n.op == "sum":
        return one * (queries.size(n.args[0]) / queries.size(i))
    if n.op in _AFTER:
        return _AFTER[n.op](one)
    if n.op in _BOTH:
        other = known[1]
        if one.size in (1, other.size) or other.size == 1:
            with np.errstate(all="ignore"):
                found = np.asarray(_BOTH[n.op](one, other))
            return found if np.isfinite(found).all() else None
    return None


def largest_exponent(dtype: str) -> int | None:
    """The most by which all numbers of a dtype stay in range; None: such numbers may leave it."""
    if dtype == "bfloat16":  # NumPy has none
        return None
    kind = np.dtype(dtype)
    if kind.kind not in "iu" or kind.itemsize > 2:
        return None
    most = max(-int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    return math.floor(math.log2(_LARGEST / most))
