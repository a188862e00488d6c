"""Ops that order, add up or pick numbers along an axis, of values whose numbers are elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.graph import Node, ShapeDtype
from ....ir.ops import OPS
from ....ir.slices.sorting import pairs
from .elements import Array, Element, Stored
from .values import Values

Row = Sequence[Element]
"""The numbers along the axis."""


_FEW = 8
"""Numbers of a constant row from which it is read at a place rather than chosen from."""
_LONG = 4096
"""Numbers of a row that is never sorted in registers."""
_GATHER = 30
"""Instructions of reading one number at a place of its own for each slice."""


def instructions(n: Node, operands: Sequence[ShapeDtype], gathers: bool = False) -> int:
    """Estimated instructions of a node; `gathers`: numbers are read from memory by index."""
    length, size = operands[0].shape[n.attr("axis")], math.prod(n.aval.shape)
    if gathers:
        return _GATHER * size
    if n.op == "take_along_axis":
        return size * (length - 1) + 2 * size * length.bit_length()
    if OPS[n.op].join:
        return size
    each = 3 if n.op == "sort" else 10 if _is_stable(n) else 6
    if length > _LONG:  # too many instructions to count them
        return each * size * length.bit_length()
    return size // max(1, length) * (each * sum(1 for _ in pairs(length)) + 6 * length)


def _is_stable(n: Node) -> bool:
    """Whether equal numbers keep their order."""
    return dict(n.attrs).get("stable", False)


def _rows(values: Array, axis: int) -> Array:
    moved = np.moveaxis(values, axis, -1)
    return moved.reshape(-1, moved.shape[-1])


def _along(n: Node, rows: Sequence[Row]) -> Array:
    """The value of its rows."""
    axis, shape = n.attr("axis"), list(n.aval.shape)
    length = shape.pop(axis)
    found = np.empty((len(rows), length), object)
    for k, row in enumerate(rows):
        found[k] = row
    return np.moveaxis(found.reshape(*shape, length), -1, axis)


# --- sorting --------------------------------------------------------------------------------


def sort(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Sort ascending, NaN last; only elements that are used are computed."""
    return _along(n, [_sorted(values, row, dtypes[0]) for row in _rows(args[0], n.attr("axis"))])


def _sorted(values: Values, row: Row, dtype: str) -> Row:
    if "float" not in dtype:
        low, high = ("minimum", "maximum") if dtype != "bool" else ("logical_and", "logical_or")

        def exchanged(a: Element, b: Element) -> tuple[Element, Element]:
            return values.apply(low, [a, b], dtype), values.apply(high, [a, b], dtype)

        return _exchanged(row, exchanged)
    w, length = values.writer, len(row)
    nan = [values.new(w.is_nan, x) for x in row]
    keys = [_but(values, m, math.inf, x) for x, m in zip(row, nan, strict=True)]

    def ordered(a: Element, b: Element) -> tuple[Element, Element]:
        # of zeros each is in one of the places: they keep their signs
        return (
            values.new(lambda x, y: w.select(x < y, x, y), a, b),
            values.new(lambda x, y: w.select(y > x, y, x), a, b),
        )

    found = _exchanged(keys, ordered)
    ones = [
        values.new(lambda x, m: w.cast(m, x.type.integer.element, signed=False), x, m)
        for x, m in zip(row, nan, strict=True)
    ]
    count = functools.reduce(lambda a, b: values.new(lambda x, y: x + y, a, b), ones)
    return [
        _but(values, values.new(lambda c, k=length - i: c >= k, count), math.nan, x)
        for i, x in enumerate(found)
    ]


def _but(values: Values, mask: Element, number: float, x: Element) -> Element:
    """`x`, but a number where the mask is true."""
    w = values.writer
    return values.new(lambda m, y: w.select(m, w.constant(number, y.type), y), mask, x)


def _exchanged(row: Sequence[Any], exchange: Callable[..., tuple[Any, Any]]) -> list[Any]:
    """A row sorted by exchanges of pairs."""
    found = list(row)
    for i, j in pairs(len(found)):
        found[i], found[j] = exchange(found[i], found[j])
    return found


def argsort(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """The places of the numbers in ascending order.

    Places are carried along. Where equal numbers are to stay as they stand, they are compared, too;
    NaN then are infinities at places beyond all others.
    """
    rows = _rows(args[0], n.attr("axis"))
    return _along(n, [_places(values, row, dtypes[0], _is_stable(n)) for row in rows])


def _places(values: Values, row: Row, dtype: str, stable: bool) -> Row:
    w, length = values.writer, len(row)
    places = [values.constant(k, "int64") for k in range(length)]
    if "float" in dtype:
        nan = [values.new(w.is_nan, x) for x in row]
        row = [_but(values, m, math.inf, x) for x, m in zip(row, nan, strict=True)]
        beyond = [values.constant(k + length, "int64") for k in range(length)]
        several = zip(nan, beyond, places, strict=True)
        places = [values.apply("where", [m, b, k], "int64") for m, b, k in several]

    def exchange(a: Any, b: Any) -> tuple[Any, Any]:
        swap = values.apply("less", [b[0], a[0]], dtype) if dtype != "bool" else _less(b[0], a[0])
        if stable:
            alike = values.apply("equal", [a[0], b[0]], dtype)
            later = values.apply("less", [b[1], a[1]], "int64")
            swap = values.new(lambda s, e, p: s | (e & p), swap, alike, later)
        pick = functools.partial(values.new, w.select, swap)
        return (pick(b[0], a[0]), pick(b[1], a[1])), (pick(a[0], b[0]), pick(a[1], b[1]))

    def _less(x: Element, y: Element) -> Element:
        return values.new(lambda a, b: ~a & b, x, y)

    found = [k for _, k in _exchanged(list(zip(row, places, strict=True)), exchange)]
    if "float" not in dtype:
        return found
    return [values.new(lambda k: w.select(k >= length, k - length, k), k) for k in found]


# --- running sums ---------------------------------------------------------------------------


def _so_far(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Each number joined with what has come of those before it."""
    found = []
    for row in _rows(args[0], n.attr("axis")):
        made = [row[0]] if len(row) else []
        for x in row[1:]:
            made.append(values.apply(OPS[n.op].join, [made[-1], x], dtypes[0]))
        found.append(made)
    return _along(n, found)


cumulative_sum = cumulative_prod = cumulative_max = cumulative_min = _so_far


# --- places ---------------------------------------------------------------------------------


def take_along_axis(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """The numbers at some places: the bits of each place choose among pairs of numbers.

    Those of a constant row are read from memory.
    """
    axis = n.attr("axis")
    shape = list(n.aval.shape)
    shape[axis] = args[0].shape[axis]
    of = _rows(np.broadcast_to(args[0], shape), axis)
    at = _rows(np.broadcast_to(args[1], n.aval.shape), axis)
    bits: dict[tuple[Element, int], Element] = {}
    found = []
    for row, places in zip(of, at, strict=True):
        found.append([_chosen(values, row, k, bits) for k in places])
    return _along(n, found)


def _chosen(
    values: Values, row: Row, place: Element, bits: dict[tuple[Element, int], Element]
) -> Element:
    w, left, k = values.writer, list(row), 0
    first = left[0]
    if isinstance(first, Stored) and len(left) > _FEW:
        same = all(isinstance(x, Stored) and x.row is first.row for x in left)
        if same:
            return values.new(first.row, place)
    while len(left) > 1:
        if (place, k) not in bits:
            bits[place, k] = values.new(lambda p, k=k: (p & (1 << k)).ne(0), place)
        odd = bits[place, k]
        pairs = [
            values.new(w.select, odd, y, x) for x, y in zip(left[::2], left[1::2], strict=False)
        ]
        left, k = [*pairs, *left[len(left) // 2 * 2 :]], k + 1
    return left[0]
