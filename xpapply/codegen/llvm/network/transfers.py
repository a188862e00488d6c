"""Slices from arrays to the rows of a tile, and results from there to arrays.

Three ways, by what lies side by side in memory: the numbers of a slice (``"rows"``, turned into
lanes by shuffles in registers), the same number of neighbouring slices (``"columns"``), or
nothing (``"strided"``). Nothing beyond the slices is read or written, and no alignment is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import operations
from ..registers import DTYPES, Register, Type
from ..writer import Writer
from .tile import Tile


class Transfers:
    """Writes the copies between an array and a tile.

    Parameters
    ----------
    tile : Tile
        Whose rows they are.
    dtype : str
        Of the array.
    """

    def __init__(self, tile: Tile, dtype: str) -> None:
        self._tile, self._writer, self._dtype = tile, tile.writer, dtype
        self._memory = Type(DTYPES[dtype])
        self._bytes = self._memory.bits // 8

    # --- numbers ------------------------------------------------------------------------

    def _read(self, pointer: Register, lanes: int) -> Register:
        """Numbers that lie side by side, as the tile has them."""
        w = self._writer
        x = w.load(pointer, Type(self._memory.element, lanes), align=1)
        x = operations.from_memory(w, x, self._dtype)
        return operations.cast(w, x, self._dtype, self._tile.dtype)

    def _write(self, x: Register, pointer: Register) -> None:
        w = self._writer
        x = operations.cast(w, x, self._tile.dtype, self._dtype)
        w.store(operations.to_memory(w, x, self._dtype), pointer, align=1)

    def _further(self, pointer: Register, count: Register | int) -> Register:
        """So many bytes further."""
        return self._writer.offset(pointer, count, "i8")

    def _at(self, row: Register, skip: Register | int) -> Register:
        return self._writer.offset(row, skip, self._tile.element)

    # --- the same number of neighbouring slices side by side ----------------------------

    def read_columns(self, first: int, count: int, x: Register, step: Register) -> None:
        """`count` rows from `first` on; the numbers of a slice are `step` bytes apart."""
        self._columns(first, count, x, step, reads=True)

    def write_columns(self, first: int, count: int, y: Register, step: Register) -> None:
        """Write columns: the reverse of reading them."""
        self._columns(first, count, y, step, reads=False)

    def _columns(self, first: int, count: int, p: Register, step: Register, reads: bool) -> None:
        t, w = self._tile, self._writer

        def each(k: Register | int) -> None:
            row, there = t.row(first, k), self._further(p, k * step)
            for g in range(t.vectors):
                here = self._at(row, g * t.lanes)
                at = self._further(there, g * t.lanes * self._bytes)
                if reads:
                    w.store(self._read(at, t.lanes), here, t.align)
                else:
                    self._write(w.load(here, t.kind, t.align), at)

        t.each(count, each)

    # --- the numbers of a slice side by side --------------------------------------------

    def read_rows(self, first: int, count: int, x: Register, step: Register) -> None:
        """`count` rows from `first` on; slices are `step` bytes apart."""
        t, w = self._tile, self._writer

        def piece(p: Register, k: Register | int, width: int, skip: Register | int) -> None:
            slices = self._slices(p, step)
            rows = [self._read(self._further(s, k * self._bytes), width) for s in slices]
            vectors = [_joined(w, rows[i::width]) for i in range(width)]
            for i, v in enumerate(w.transpose(vectors)):
                w.store(v, self._at(t.row(first, k + i), skip), t.align)

        self._rows(count, x, step, piece)

    def write_rows(self, first: int, count: int, y: Register, step: Register) -> None:
        """Write rows: the reverse of reading them."""
        t, w = self._tile, self._writer

        def piece(p: Register, k: Register | int, width: int, skip: Register | int) -> None:
            slices = self._slices(p, step)
            vectors = [
                w.load(self._at(t.row(first, k + i), skip), t.kind, t.align) for i in range(width)
            ]
            for i, v in enumerate(w.transpose(vectors)):
                for b, at in enumerate(slices[i::width]):
                    order = range(b * width, (b + 1) * width)
                    x = w.shuffle(v, v, order) if width > 1 else w.lane(v, b)
                    self._write(x, self._further(at, k * self._bytes))

        self._rows(count, y, step, piece)

    def _slices(self, p: Register, step: Register) -> list[Register]:
        """Addresses of the slices of a vector."""
        found = [p]
        for _ in range(1, self._tile.lanes):
            found.append(self._further(found[-1], step))
        return found

    def _rows(
        self,
        count: int,
        p: Register,
        step: Register,
        piece: Callable[[Register, Register | int, int, Register | int], None],
    ) -> None:
        """`piece` for squares of numbers, of each vector of slices."""
        t = self._tile

        def group(skip: Register | int) -> None:
            start = self._further(p, skip * step)
            whole = count // t.lanes
            if whole > 1:
                t.each(whole, lambda k: piece(start, k * t.lanes, t.lanes, skip))
            for k, width in _pieces(count, t.lanes):
                if k + width > whole * t.lanes or whole == 1:
                    piece(start, k, width, skip)

        t.groups(1, group)

    # --- anywhere -----------------------------------------------------------------------

    def read_slice(
        self, first: int, count: int, x: Register, step: Register, lane: Register
    ) -> None:
        """Read one slice, whose numbers are `step` bytes apart."""

        def each(k: Register | int) -> None:
            number = self._read(self._further(x, k * step), 1)
            self._writer.store(number, self._at(self._tile.row(first, k), lane))

        self._tile.each(count, each)

    def write_slice(
        self, first: int, count: int, y: Register, step: Register, lane: Register
    ) -> None:
        """Write one slice: the reverse of reading it."""

        def each(k: Register | int) -> None:
            row = self._at(self._tile.row(first, k), lane)
            number = self._writer.load(row, Type(self._tile.element))
            self._write(number, self._further(y, k * step))

        self._tile.each(count, each)


def _pieces(count: int, lanes: int) -> list[tuple[int, int]]:
    """Starts and lengths of pieces of powers of two; the last may overlap."""
    found = [(k, lanes) for k in range(0, count - lanes + 1, lanes)]
    at = len(found) * lanes
    while at < count:
        rest = count - at
        width = 1 << (rest - 1).bit_length()
        if width <= count and width <= lanes:  # one piece, which begins among what is there
            found.append((count - width, width))
            break
        width = 1 << (rest.bit_length() - 1)
        found.append((at, width))
        at += width
    return found


def _joined(w: Writer, parts: Sequence[Register]) -> Register:
    """Vectors, or numbers, one after the other as one vector."""
    found = list(parts)
    width = found[0].type.lanes
    if width == 1:
        kind = Type(found[0].type.element, len(found))
        vector = Register(w, "poison", kind)
        for k, x in enumerate(found):
            vector = w.with_lane(vector, k, x)
        return vector
    return w.concatenated(found)
