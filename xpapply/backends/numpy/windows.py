"""Windows and their products with filters, on arrays whose last axis is that of the slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.batch import LETTER
from ...ir.ops import OPS
from ...ir.shapes import as_product
from ...limits import LIMITS


def taken(x: np.ndarray, places: Sequence[int], axis: int, out: np.ndarray | None) -> np.ndarray:
    """The numbers at places along an axis."""
    found: np.ndarray = np.take(x, np.array(places, np.intp), axis=axis)
    if out is None:
        return found
    np.copyto(out, found)
    return out


def reduced(op: str, x: np.ndarray, axis: int, out: np.ndarray) -> None:
    """A reduction of a few numbers: one after the other, each of all windows at once.

    NumPy's own goes through them slice by slice.
    """
    join = getattr(np, OPS[op].join)
    before: tuple[Any, ...] = (slice(None),) * axis
    parts = [x[(*before, k, ...)] for k in range(x.shape[axis])]
    into = out[(*before, 0, ...)]
    join(parts[0], parts[1], out=into)
    for part in parts[2:]:
        join(into, part, out=into)


def rows_product(rows: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """``rows @ weights``: a stack of products, each small enough for one thread."""
    size = max(1, min(256, LIMITS.windows_stack // weights.size))
    whole = len(rows) - len(rows) % size
    if whole:
        np.matmul(
            rows[:whole].reshape(-1, size, rows.shape[1]),
            weights,
            out=out[:whole].reshape(-1, size, out.shape[1]),
        )
    if whole < len(rows):
        np.matmul(rows[whole:], weights, out=out[whole:])


def _columns_product(filters: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """``filters @ columns`` of stacks: of some columns at a time, as few as one thread takes."""
    n = columns.shape[-1]
    most = LIMITS.windows_stack // max(1, math.prod(filters.shape[-2:]))
    size = n if most < LIMITS.windows_least else -(-n // -(-n // most))  # of one size
    for k in range(0, n, size):
        part = slice(k, k + size)
        np.matmul(filters, columns[..., part], out=out[..., part])


def product(subscripts: str, w: np.ndarray, x: np.ndarray, out: np.ndarray) -> bool:
    """Filters times the windows of a block, as products of matrices; whether it is one.

    Windows overlap: they are brought together for a few slices at a time.
    """
    found = as_product(subscripts)
    of_w, _, of_x = subscripts.partition("->")[0].partition(",")
    letters = subscripts.partition("->")[2]
    if found is None or not found.inner or of_x[-1:] != LETTER or LETTER in of_w:
        return False
    stack, rows, inner, columns = found
    columns = columns.replace(LETTER, "")
    sizes = dict(zip(of_w + of_x, (*w.shape, *x.shape), strict=True))

    def length(names: str) -> int:
        return math.prod(sizes[k] for k in names)

    filters = w.transpose([of_w.index(k) for k in stack + rows + inner])
    filters = filters.reshape(length(stack), length(rows), length(inner))
    together = length(columns) <= LIMITS.windows_few and not stack
    # slices first; the places of windows last, or what is in them
    order = columns + inner if together else stack + inner + columns
    x = x.transpose([of_x.index(k) for k in LETTER + order])
    out = out.transpose([letters.index(k) for k in LETTER + stack + rows + columns])
    size = max(1, LIMITS.windows_copy // max(1, length(order) * x.itemsize))
    memory = np.empty((min(size, len(x)), *x.shape[1:]), x.dtype)
    if together:
        products = np.empty((len(memory) * length(columns), length(rows)), x.dtype)
        filters = filters[0].T
    for k in range(0, len(x), size):
        part, place = x[k : k + size], out[k : k + size]
        b = len(part)
        copy = memory[:b]
        np.copyto(copy, part)
        if together:
            n = b * length(columns)
            rows_product(copy.reshape(n, -1), filters, products[:n])
            by_place = products[:n].reshape(b, length(columns), length(rows)).swapaxes(1, 2)
            place[...] = by_place.reshape(place.shape)
            continue
        target = place.reshape(b, length(stack), length(rows), length(columns))
        _columns_product(filters, copy.reshape(b, length(stack), length(inner), -1), target)
        if not np.may_share_memory(target, place):
            place[...] = target.reshape(place.shape)
    return True
