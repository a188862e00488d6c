"""Tiles of slices: where the arrays of a kernel begin, and moving several slices into lanes."""

from __future__ import annotations

from collections.abc import Sequence

from .. import operations
from ..registers import DTYPES, INDEX, POINTER, Register, Type
from ..writer import Writer
from .elements import View
from .form import ARGUMENTS, Form
from .staging import Rows, Strided, has_masks, one_by_one, side_by_side, turned

BESIDE = ("direct", "copied")


class Tiles:
    """Goes through the tiles of a form, with the slices of each in lanes.

    What is computed is for classes made from it.

    Parameters
    ----------
    writer : Writer
        What writes the kernel.
    form : Form
        How it goes through slices.
    dtypes : sequence of str
        Of inputs and results.
    fields : sequence of str
        The integers of the geometry.
    """

    def __init__(
        self, writer: Writer, form: Form, dtypes: Sequence[str], fields: Sequence[str]
    ) -> None:
        self._w, self._form = writer, form
        self._dtypes, self._fields = dtypes, fields
        self._inputs = range(len(form.inputs))

    def _begin(self, index: Sequence[Register]) -> Register | None:
        """Begin a tile, given its indices in the nest.

        Returns with which element of its slices it begins; None: the first.
        """
        return None

    def _write(self, views: dict[int, View]) -> None:
        """Compute a group of slices; the views of arrays are by their numbers."""
        raise NotImplementedError

    def _along(self) -> None:
        """Compute a tile that is one slice."""
        raise NotImplementedError

    def _size(self, k: int) -> Register:
        """The number of elements of array k in a slice."""
        raise NotImplementedError

    # --- arguments ----------------------------------------------------------------------------

    def _body(self, arguments: Register) -> None:
        """The whole kernel."""
        w = self._w

        def argument(k: int, kind: Type) -> Register:
            return w.load(w.offset(arguments, k, "i64"), kind)

        self._geometry, self._scratch = argument(0, POINTER), argument(1, POINTER)
        start, stop = argument(2, INDEX), argument(3, INDEX)
        self._pointers: dict[int, Register] = {}
        self._values: dict[int, Register] = {}
        for k, move in enumerate(self._form.moves):
            at = len(ARGUMENTS) + k
            if move == "value":
                dtype = self._dtypes[k]
                x = operations.from_memory(w, argument(at, Type(DTYPES[dtype])), dtype)
                self._values[k] = w.broadcast(x, self._form.lanes)
            else:
                self._pointers[k] = argument(at, POINTER)
        w.loop(stop, self._tile, start=start)

    def _field(self, name: str) -> Register:
        """A number of the geometry."""
        at = self._w.offset(self._geometry, self._fields.index(name), "i64")
        return self._w.load(at, INDEX)

    def _memory(self, name: str) -> Register:
        """A place in the scratch."""
        return self._w.offset(self._scratch, self._field(name), "i8")

    # --- tiles --------------------------------------------------------------------------------

    def _tile(self, t: Register) -> None:
        w, form = self._w, self._form
        index = self._index(t)
        first = self._begin(index)
        self._arrays = {}
        for k, pointer in self._pointers.items():
            element, at = DTYPES[self._dtypes[k]], pointer
            for d, i in enumerate(index):
                at = w.offset(at, i * self._field(f"nest {k} {d}"), element)
            step, lane = self._field(f"step {k}"), self._field(f"lane {k}")
            if first is not None:
                at = w.offset(at, first * step, element)
            self._arrays[k] = Strided(at, element, step, lane)
        if form.across:
            self._across(index[form.lane])
        else:
            self._along()

    def _index(self, t: Register) -> list[Register]:
        """The indices of tile t in the nest."""
        found: list[Register] = []
        for d in range(self._form.nest - 1, 0, -1):
            count = self._field(f"count {d}")
            found.append(self._w.binary("", "urem", t, count))
            t = self._w.binary("", "udiv", t, count)
        return [t, *reversed(found)]

    # --- several slices, one in each lane -----------------------------------------------------

    def _across(self, i: Register) -> None:
        w, form, lanes = self._w, self._form, self._form.lanes
        tile = w.constant(form.tile, INDEX) if form.tile else self._field("tile")
        left = self._field("size") - i * tile
        count = w.select(tile < left, tile, left)
        whole = w.binary("", "udiv", count, lanes)
        rows = {
            k: Rows(self._memory(f"scratch {k}"), self._row(k, tile))
            for k in self._arrays
            if form.moves[k] != "same"
        }
        for k in rows:
            if k in self._inputs:
                self._move(k, rows[k], whole, count, load=True)

        def of_group(g: Register) -> None:
            self._write({k: self._view(k, rows.get(k), g, whole) for k in self._arrays})

        w.loop(w.binary("", "udiv", count + (lanes - 1), lanes), of_group)
        for k in rows:
            if k not in self._inputs:
                self._move(k, rows[k], whole, count, load=False)

    def _row(self, k: int, tile: Register) -> Register:
        """The distance of a slice's elements in the scratch."""
        if self._form.moves[k] in BESIDE:
            return self._w.constant(self._form.lanes, INDEX)
        return tile

    def _view(self, k: int, rows: Rows | None, g: Register, whole: Register) -> View:
        """The elements of a group of slices."""
        w, lanes, array = self._w, self._form.lanes, self._arrays[k]
        if rows is None:
            return View(array.at, array.step, self._dtypes[k], single=True)
        mine = w.offset(rows.at, g * lanes, array.element)
        if self._form.moves[k] not in BESIDE:
            return View(mine, rows.row, self._dtypes[k])
        place = w.offset(array.at, g * lanes, array.element)
        is_whole = g < whole
        at = w.select(is_whole, place, rows.at)
        return View(at, w.select(is_whole, array.step, rows.row), self._dtypes[k])

    def _move(self, k: int, rows: Rows, whole: Register, count: Register, load: bool) -> None:
        """Move a tile between an array and the scratch."""
        w, lanes, array, move = self._w, self._form.lanes, self._arrays[k], self._form.moves[k]
        n = self._size(k)
        done = whole * lanes
        given = (w, array, rows, n)
        if move == "transposed":
            turned(*given, whole, lanes, self._form.widths[k], load)
        elif move == "gathered":
            done = w.constant(0, INDEX)
        elif has_masks(w, array.element):
            first = array._replace(at=w.offset(array.at, done, array.element))
            side_by_side(w, first, rows, n, count - done, lanes, load)
            return
        mine = rows
        if move not in BESIDE:  # there a group of its own is in the scratch
            mine = Rows(w.offset(rows.at, done, array.element), rows.row)
        one_by_one(w, array, mine, n, (done, count), load)
