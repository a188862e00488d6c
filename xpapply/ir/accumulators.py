"""The accumulators that `xpapply.special` is made of. A new one is one function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .slicewise import Accumulator, SliceBuilder

Value = Any
"""An `Expression`. NumPy's stubs do not know that its functions take such."""


def _graphs(
    chunk: Callable[..., Sequence[Value]],
    vectors: Sequence[str],
    combine: Callable[..., Sequence[Value]],
    numbers: Sequence[str],
    name: str,
    identity: tuple[Any, ...],
) -> Accumulator:
    pieces = SliceBuilder()
    of_piece = pieces.graph(*chunk(*(pieces.input(d) for d in vectors)))
    pair = SliceBuilder()
    of_pair = pair.graph(*combine(*(pair.input(d, ()) for d in (*numbers, *numbers))))
    return Accumulator(name, of_piece, of_pair, identity)


def largest(dtype: str) -> Any:
    """What no number of a dtype is larger than."""
    kind = np.dtype(dtype).kind
    return math.inf if kind == "f" else True if kind == "b" else int(np.iinfo(dtype).max)


def smallest(dtype: str) -> Any:
    """What no number of a dtype is smaller than."""
    kind = np.dtype(dtype).kind
    return -math.inf if kind == "f" else False if kind == "b" else int(np.iinfo(dtype).min)


_SIMPLE: dict[str, tuple[Callable[[Any, Any], Any], Callable[[str], Any]]] = {
    "sum": (lambda a, b: a + b, lambda dtype: 0),
    "prod": (lambda a, b: a * b, lambda dtype: 1),
    "max": (lambda a, b: np.maximum(a, b), smallest),
    "min": (lambda a, b: np.minimum(a, b), largest),
}


@functools.cache
def simple(name: str, dtype: str) -> Accumulator:
    """A reduction of the table: "sum", "prod", "max" or "min"."""
    combine, identity = _SIMPLE[name]
    return _graphs(
        lambda x: (x.builder.reduce(name, x),),
        [dtype],
        lambda a, b: (combine(a, b),),
        [dtype],
        name,
        (identity(dtype),),
    )


def _shift(top: Value) -> Any:
    """What exponents are shifted by: their maximum, if that is a number to subtract."""
    return np.where(np.isfinite(top), top, 0)


@functools.cache
def exponentials(dtype: str, weighted: bool = False) -> Accumulator:
    """``(top, at_top, below)``: the maximum of x, and sums of ``w * exp(x - top)``.

    `at_top` is the sum where x is the maximum, `below` that of all others: apart, because
    ``log(at_top + below)`` loses a small `below`. Where the maximum is infinite, nothing is
    subtracted. Pieces are combined as in Milakov and Gimelshein 2018, arXiv 1805.02867.
    """

    def chunk(x: Value, w: Any = 1) -> tuple[Value, ...]:
        builder = x.builder
        top = builder.reduce("max", x)
        e = np.exp(x - _shift(top))
        if weighted:  # nothing times infinity is nothing here, as in C's exp of complex numbers
            e = np.where(w == 0, 0, e * w)
        at_top = x == top
        parts = np.where(at_top, e, 0), np.where(at_top, 0, e)
        return top, *(builder.reduce("sum", p) for p in parts)

    def combine(
        top1: Any, at1: Any, below1: Any, top2: Any, at2: Any, below2: Any
    ) -> tuple[Value, ...]:
        top = np.maximum(top1, top2)
        at, below = [], []
        for t, a, b in ((top1, at1, below1), (top2, at2, below2)):
            is_top = t == top
            at.append(np.where(is_top, a, 0))
            # exp only once in two: one of both is at the top
            below.append(np.where(is_top, b, (a + b) * np.exp(t - _shift(top))))
        return top, at[0] + at[1], below[0] + below[1]

    return _graphs(
        chunk,
        [dtype] * (1 + weighted),
        combine,
        [dtype] * 3,
        "sum of exponentials below their maximum",
        (-math.inf, 0, 0),
    )


@functools.cache
def moments(dtype: str) -> Accumulator:
    """``(count, sum, squares)``: `squares` is the sum of squared differences from the mean.

    Each piece in two passes, pieces combined as in Chan, Golub and LeVeque 1983,
    doi 10.1080/00031305.1983.10483115: nothing cancels where the mean is large.
    """

    def chunk(x: Value) -> tuple[Value, ...]:
        builder = x.builder
        count = builder.length(dtype)
        total = builder.reduce("sum", x)
        centred = x - total / np.maximum(count, 1)
        return count, total, builder.reduce("sum", centred * centred)

    def combine(
        count1: Any, sum1: Any, squares1: Any, count2: Any, sum2: Any, squares2: Any
    ) -> tuple[Value, ...]:
        count = count1 + count2
        apart = sum2 / np.maximum(count2, 1) - sum1 / np.maximum(count1, 1)
        between = np.where(
            (count1 == 0) | (count2 == 0), 0, apart * apart * (count1 * (count2 / count))
        )
        return count, sum1 + sum2, squares1 + squares2 + between

    return _graphs(chunk, [dtype], combine, [dtype] * 3, "moments", (0, 0, 0))


@functools.cache
def position(name: str, dtype: str) -> Accumulator:
    """``(value, index)`` for "argmax" or "argmin": of the first NaN, else the first of equals."""
    last = int(np.iinfo("int64").max)

    def chunk(x: Value) -> tuple[Value, ...]:
        return x.builder.reduce(name.removeprefix("arg"), x), x.builder.reduce(name, x)

    def combine(value1: Any, index1: Any, value2: Any, index2: Any) -> tuple[Value, ...]:
        better = value2 > value1 if name == "argmax" else value2 < value1
        nan1, nan2 = value1 != value1, value2 != value2
        equal = (value1 == value2) | (nan1 & nan2)
        takes = ((better | nan2) & ~nan1) | (equal & (index2 < index1))
        return np.where(takes, value2, value1), np.where(takes, index2, index1)

    identity = smallest if name == "argmax" else largest
    return _graphs(chunk, [dtype], combine, [dtype, "int64"], name, (identity(dtype), last))
