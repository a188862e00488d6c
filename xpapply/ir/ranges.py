"""Ranges of whole numbers in a graph, for all slices: at worst all of the dtype."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .graph import Node, ShapeDtype, number
from .ops import OPS, Kind


class Range(NamedTuple):
    """The least and the largest number."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low:,} ... {self.high:,}"

    def is_within(self, other: Range) -> bool:
        """Whether all of its numbers are in another range."""
        return other.low <= self.low and self.high <= other.high


def _products(a: Range, b: Range) -> Range:
    found = [x * y for x, y in itertools.product(a, b)]
    return Range(min(found), max(found))


def _either(*ranges: Range) -> Range:
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


_RULES: dict[str, Callable[..., Range]] = {
    "add": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "subtract": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "multiply": _products,
    "negative": lambda a: Range(-a.high, -a.low),
    "maximum": lambda a, b: Range(max(a.low, b.low), max(a.high, b.high)),
    "minimum": lambda a, b: Range(min(a.low, b.low), min(a.high, b.high)),
    "where": lambda _, a, b: _either(a, b),
    "cast": lambda a: a,
}
"""Rules of elementwise ops; others have no known range."""
_SOME_OF_IT = frozenset(
    "reshape permute_dims broadcast_to index take windows sort take_along_axis "
    "cumulative_max cumulative_min max min".split()
)
"""Ops whose results are numbers of the first operand."""


def of_dtype(dtype: str) -> Range | None:
    """All numbers of a dtype, None of one that has others than whole ones."""
    if dtype == "bool":
        return Range(0, 1)
    if not dtype.startswith(("int", "uint")):
        return None
    limits = np.iinfo(dtype)
    return Range(int(limits.min), int(limits.max))


def range_of(
    n: Node,
    operands: Sequence[ShapeDtype],
    ranges: Sequence[Range | None],
    consts: Sequence[np.ndarray],
) -> Range | None:
    """The numbers that a node may be, from those that its operands may be.

    None: they are not whole ones.
    """
    whole = of_dtype(n.aval.dtype)
    if whole is None:
        return None
    found = _by_rule(n, operands, ranges, consts)
    # what would wrap around may be anything
    return found if found is not None and found.is_within(whole) else whole


def _by_rule(
    n: Node,
    operands: Sequence[ShapeDtype],
    ranges: Sequence[Range | None],
    consts: Sequence[np.ndarray],
) -> Range | None:
    if n.op == "const":
        x = consts[n.attr("k")]
        return Range(int(x.min()), int(x.max())) if x.size else None
    if n.op == "scalar":
        return Range(int(number(n)), int(number(n)))
    row = OPS[n.op]
    if n.op == "argsort" or row.finds_position:
        axis = n.attr("axis")
        return Range(0, operands[0].shape[axis[0] if row.finds_position else axis] - 1)
    known = [r for r in ranges if r is not None]
    if len(known) < len(ranges) or not known:
        return None
    if n.op in _SOME_OF_IT:
        return None if 0 in operands[0].shape else known[0]  # the largest of none is no number
    if n.op == "concat":
        return _either(*known)
    if n.op == "pad":
        value = float(n.attr("number"))
        return _either(known[0], Range(int(value), int(value))) if value.is_integer() else None
    if n.op == "sum" and n.aval.dtype != "bool":
        count = math.prod(operands[0].shape[a] for a in n.attr("axis"))
        return Range(known[0].low * count, known[0].high * count)
    rule = _RULES.get(n.op) if row.kind is Kind.ELEMENTWISE else None
    return None if rule is None else rule(*known)
