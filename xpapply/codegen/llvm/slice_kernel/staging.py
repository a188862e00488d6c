"""Moving elements between arrays and the scratch, where those of several slices lie in lanes.

In the scratch element j of slice i is at ``j * row + i``. Groups of as many slices as there are
lanes move in vectors, the rest of a tile number by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..registers import Register, Type
from ..writer import Writer


class Strided(NamedTuple):
    """Elements in an array: where the first is, and how far apart they are."""

    at: Register
    element: str
    step: Register
    """Along a slice."""
    lane: Register
    """The step between slices."""


class Rows(NamedTuple):
    """Elements in the scratch."""

    at: Register
    row: Register
    """The step between elements of a slice."""


def one_by_one(
    w: Writer, array: Strided, rows: Rows, n: Register, lanes: tuple[Register, Register], load: bool
) -> None:
    """Move the slices from one number to another, which are the first of `rows`."""
    kind, (first, last) = Type(array.element), lanes

    def of_slice(i: Register) -> None:
        place = w.offset(array.at, i * array.lane, array.element)
        mine = w.offset(rows.at, i - first, array.element)

        def move(j: Register) -> None:
            outside = w.offset(place, j * array.step, array.element)
            inside = w.offset(mine, j * rows.row, array.element)
            if load:
                w.store(w.load(outside, kind), inside)
            else:
                w.store(w.load(inside, kind), outside)

        w.loop(n, move)

    w.loop(last, of_slice, start=first)


def side_by_side(
    w: Writer, array: Strided, rows: Rows, n: Register, count: Register, lanes: int, load: bool
) -> None:
    """Move the first slices of a group, `count` of them, whose elements lie side by side."""
    kind = Type(array.element, lanes)
    mask = w.first_lanes(count, lanes)

    def of_row(j: Register) -> None:
        outside = w.offset(array.at, j * array.step, array.element)
        inside = w.offset(rows.at, j * rows.row, array.element)
        if load:
            w.store(w.masked_load(outside, mask, w.constant(0, kind)), inside)
        else:
            w.masked_store(w.load(inside, kind), outside, mask)

    w.loop(w.select(count > 0, n, 0), of_row)


def has_masks(w: Writer, element: str) -> bool:
    """Whether one instruction can move some numbers of a vector."""
    return w.target.bits == 512 or (w.target.bits == 256 and Type(element).bits >= 32)


def turned(
    w: Writer,
    array: Strided,
    rows: Rows,
    n: Register,
    groups: Register,
    lanes: int,
    width: int,
    load: bool,
) -> None:
    """Move groups of slices whose elements are contiguous, `width` of them at a time.

    Of each slice so many elements are loaded, those of several slices side by side into vectors,
    and exchanged within. The last ones of a slice may move twice: no byte after it is touched.
    """
    part, count = Type(array.element, width), lanes // width

    def of_group(g: Register) -> None:
        first = w.offset(array.at, g * lanes * array.lane, array.element)
        mine = w.offset(rows.at, g * lanes, array.element)

        def move(column: Register) -> None:
            c = w.select(column < n - width, column, n - width)
            place = w.offset(first, c, array.element)
            inside = w.offset(mine, c * rows.row, array.element)
            outside = [w.offset(place, array.lane * i, array.element) for i in range(lanes)]
            columns = [w.offset(inside, rows.row * k, array.element) for k in range(width)]
            if load:
                found = [
                    w.concatenated([w.load(outside[i + width * k], part) for k in range(count)])
                    for i in range(width)
                ]
                for x, at in zip(_exchanged(w, found), columns, strict=True):
                    w.store(x, at)
            else:
                kind = Type(array.element, lanes)
                found = _exchanged(w, [w.load(at, kind) for at in columns])
                for k in range(count):
                    for i, x in enumerate(found):
                        piece = w.shuffle(x, x, range(width * k, width * k + width))
                        w.store(piece, outside[i + width * k])

        w.loop(n, move, step=width)

    w.loop(groups, of_group)


def _exchanged(w: Writer, vectors: Sequence[Register]) -> list[Register]:
    """Squares of numbers with rows and columns exchanged, all squares side by side.

    Halves of the vectors are zipped, as often as two goes into their number.
    """
    found, width = list(vectors), len(vectors)
    lanes = found[0].type.lanes
    zips = [
        [
            lanes * side + first + start + k
            for first in range(0, lanes, width)
            for k in range(width // 2)
            for side in range(2)
        ]
        for start in (0, width // 2)
    ]
    for _ in range(width.bit_length() - 1):
        pairs = zip(found[: width // 2], found[width // 2 :], strict=True)
        found = [w.shuffle(a, b, order) for a, b in pairs for order in zips]
    return found
