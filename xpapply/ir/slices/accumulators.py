"""The accumulators that `xpapply.special` is made of. A new one is one function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import VECTOR, Graph, ShapeDtype, number
from ..ops import OPS
from .slice_graph import Accumulator, SliceBuilder

Value = Any
"""An `Expression`. NumPy's stubs do not know that its functions take such."""


def _graphs(
    name: str,
    chunk: Callable[..., Sequence[Value]],
    vectors: Sequence[str],
    merge: Callable[..., Sequence[Value]],
    numbers: Sequence[str],
    identity: tuple[Any, ...],
) -> Accumulator:
    pieces, states = SliceBuilder(), SliceBuilder()
    of_piece = pieces.graph(*chunk(*(pieces.input(ShapeDtype(VECTOR, d)) for d in vectors)))
    of_states = states.graph(*merge(*(states.input(ShapeDtype(VECTOR, d)) for d in numbers)))
    return Accumulator(name, of_piece, _of_two(of_states), identity, of_states)


def _of_two(merge: Graph) -> Graph:
    """The graph that merges states of two pieces, without a reduction."""
    builder = SliceBuilder()
    avals = [merge.nodes[i].aval for i in merge.inputs]
    inputs = [[builder.input(ShapeDtype((), aval.dtype)) for aval in avals] for _ in range(2)]
    found: list[tuple[Value, Value]] = []
    for n in merge.nodes:
        args = [found[a] for a in n.args]
        pair: tuple[Value, ...]
        if n.op == "input":
            pair = inputs[0][n.attr("k")], inputs[1][n.attr("k")]
        elif n.op == "scalar":
            pair = (builder.scalar(number(n), n.aval.dtype),) * 2
        elif OPS[n.op].join:
            pair = (builder.op(OPS[n.op].join, *args[0]),) * 2
        elif n.op == "cast":
            pair = tuple(builder.cast(x, n.aval.dtype) for x in args[0])
        else:
            pair = tuple(builder.op(n.op, *(x[side] for x in args)) for side in range(2))
        found.append((pair[0], pair[1]))
    return builder.graph(*(found[o][0] for o in merge.outs))


def identity(reduction: str, dtype: str) -> Any:
    """The identity of a reduction in a dtype."""
    value, kind = OPS[reduction].identity, np.dtype(dtype).kind
    assert value is not None
    if math.isfinite(value):
        return int(value)
    if kind in "fb":  # without infinities True is the largest, False the smallest
        return value if kind == "f" else value > 0
    limits = np.iinfo(dtype)
    return int(limits.max if value > 0 else limits.min)


@functools.cache
def simple(name: str, dtype: str) -> Accumulator:
    """A reduction of the table that joins its numbers, such as "sum" or "max"."""

    def reduced(x: Value) -> tuple[Value]:
        return (x.builder.reduce(name, x),)

    return _graphs(name, reduced, [dtype], reduced, [dtype], (identity(name, dtype),))


def shift(top: Value) -> Any:
    """The shift of exponents: their maximum, if it is finite."""
    return np.where(np.isfinite(top), top, 0)


@functools.cache
def exponentials(dtype: str, weighted: bool = False) -> Accumulator:
    """``(top, at_top, below)``: the maximum of x, and sums of ``w * exp(x - top)``.

    `at_top` is the sum where x is the maximum, `below` that of all others: apart, because
    ``log(at_top + below)`` loses a small `below`. Where the maximum is infinite, nothing is
    subtracted; without weights only `top` counts then. Pieces are combined as in Milakov and
    Gimelshein 2018, arXiv 1805.02867.
    """

    def chunk(x: Value, w: Any = 1) -> tuple[Value, ...]:
        builder = x.builder
        top = builder.reduce("max", x)
        e = np.exp(x - shift(top))
        if not weighted:  # 1 at the maximum: cheaper to take off than to choose
            ones = np.floor(e)
            return top, builder.reduce("sum", ones), builder.reduce("sum", e - ones)
        # nothing times infinity is nothing here, as in C's exp of complex numbers
        e = np.where(w == 0, 0, e * w)
        at_top = x == top
        parts = np.where(at_top, e, 0), np.where(at_top, 0, e)
        return top, *(builder.reduce("sum", p) for p in parts)

    def merge(tops: Value, at_tops: Value, belows: Value) -> tuple[Value, ...]:
        reduce = tops.builder.reduce
        top = reduce("max", tops)
        is_top = tops == top
        smaller = (at_tops + belows) * np.exp(tops - shift(top))
        at_top = reduce("sum", np.where(is_top, at_tops, 0))
        return top, at_top, reduce("sum", np.where(is_top, belows, smaller))

    name = "sum of exponentials at and below their maximum"
    return _graphs(name, chunk, [dtype] * (1 + weighted), merge, [dtype] * 3, (-math.inf, 0, 0))


@functools.cache
def exponential_sum(dtype: str) -> Accumulator:
    """``(top, total)``: the maximum of x, and the sum of ``exp(x - top)``; see `exponentials`."""

    def chunk(x: Value) -> tuple[Value, ...]:
        top = x.builder.reduce("max", x)
        return top, x.builder.reduce("sum", np.exp(x - shift(top)))

    def merge(tops: Value, totals: Value) -> tuple[Value, ...]:
        top = tops.builder.reduce("max", tops)
        moved = np.where(tops == top, totals, totals * np.exp(tops - shift(top)))
        return top, tops.builder.reduce("sum", moved)

    return _graphs("sum of exponentials", chunk, [dtype], merge, [dtype] * 2, (-math.inf, 0))


@functools.cache
def moments(dtype: str) -> Accumulator:
    """``(count, centre, rest, squares)``: sums of ``x - centre`` and of its square.

    `centre` is the mean as far as rounding lets it be, `rest` makes up for that: nothing
    cancels where the mean is large. See `mean_and_squares`. Pieces are merged as in Chan, Golub
    and LeVeque 1983, doi 10.1080/00031305.1983.10483115.
    """

    def chunk(x: Value) -> tuple[Value, ...]:
        reduce = x.builder.reduce
        count = x.builder.length(dtype)
        centre = reduce("sum", x) / np.maximum(count, 1)
        apart = x - centre
        return count, centre, reduce("sum", apart), reduce("sum", apart * apart)

    def merge(counts: Value, centres: Value, rests: Value, squares: Value) -> tuple[Value, ...]:
        reduce = counts.builder.reduce
        count = reduce("sum", counts)
        centre = reduce("sum", counts * centres) / np.maximum(count, 1)
        moved = centres - centre
        rest = rests + counts * moved
        return count, centre, reduce("sum", rest), reduce("sum", squares + moved * (rests + rest))

    return _graphs("moments", chunk, [dtype], merge, [dtype] * 4, (0, 0, 0, 0))


def mean_and_squares(
    count: Value, centre: Value, rest: Value, squares: Value
) -> tuple[Value, Value]:
    """The mean, and the sum of squared differences from it, of `moments`.

    The mean of infinite numbers is NaN here (`centre` has it), that of none is 0.
    """
    more = rest / np.maximum(count, 1)
    return centre + more, np.maximum(squares - rest * more, 0)


@functools.cache
def position(name: str, dtype: str) -> Accumulator:
    """``(value, index)`` for "argmax" or "argmin": of the first NaN, else the first of equals."""
    last = int(np.iinfo("int64").max)

    def chunk(x: Value) -> tuple[Value, ...]:
        return x.builder.reduce(name.removeprefix("arg"), x), x.builder.reduce(name, x)

    def merge(values: Value, indices: Value) -> tuple[Value, ...]:
        best = values.builder.reduce(name.removeprefix("arg"), values)
        is_best = (values == best) | ((values != values) & (best != best))
        return best, values.builder.reduce("min", np.where(is_best, indices, last))

    return _graphs(name, chunk, [dtype], merge, [dtype, "int64"], (identity(name, dtype), last))
