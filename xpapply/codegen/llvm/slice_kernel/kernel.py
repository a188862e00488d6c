"""Kernels for functions of slices: tile by tile, each element read once and written once."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.graph import Graph
from ....ir.ops import OPS, Kind
from .. import operations
from ..target import Target
from ..writer import DTYPES, INDEX, POINTER, Register, Type, Writer
from .elements import Elements, Span, View
from .form import ARGUMENTS, Form
from .passes import Passes, is_vector
from .staging import Rows, Strided, has_masks, one_by_one, side_by_side, turned

NAME = "slices"
"""What the kernel is called."""

_BESIDE = ("direct", "copied")


def why_not(graph: Graph, target: Target) -> str | None:
    """Why there is no kernel for a graph of slices, or None."""
    graphs = [graph]
    for by, _ in graph.accumulations():
        graphs += [by.combine] if by.chunk is None else [by.chunk, by.combine]
    for g in graphs:
        for n in g.nodes:
            if n.aval.dtype not in DTYPES:
                return f"no kernels for {n.aval.dtype}"
            kind = OPS[n.op].kind if n.op != "accumulate" else Kind.LEAF
            if kind is Kind.ELEMENTWISE:
                refusal = operations.why_not(n.op, g.nodes[n.args[-1]].aval.dtype, target)
                if refusal is not None:
                    return refusal
            elif kind is Kind.REDUCTION and n.aval.dtype == "bool" and n.op in ("sum", "prod"):
                return f"{n.op} of booleans"
    return None


def slice_kernel(graph: Graph, form: Form, target: Target) -> str:
    """The text of the kernel that runs a graph, with its accumulators written out, in a form."""
    return _Kernel(graph, form, target).text()


class _Kernel:
    def __init__(self, graph: Graph, form: Form, target: Target) -> None:
        self._graph, self._form = graph, form
        self._w = Writer(target)
        self._passes = Passes(graph, form.copied(graph))
        self._fields = form.fields(len(self._passes.places))
        self._elements = Elements(self._w, graph, form, self._passes)
        nodes = graph.nodes
        self._operands = [*graph.inputs, *graph.outs]
        self._dtypes = [nodes[i].aval.dtype for i in self._operands]
        self._vectors = [is_vector(graph, i) for i in self._operands]

    def text(self) -> str:
        """The module."""
        self._w.function(NAME, [("arguments", POINTER)], self._body)
        return self._w.text()

    # --- arguments ----------------------------------------------------------------------------

    def _body(self, arguments: Register) -> None:
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
                self._values[self._operands[k]] = w.broadcast(x, self._form.lanes)
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
        self._length = self._field("n")
        self._span = Span(self._length, w.constant(0, INDEX))
        if form.piece >= 0:
            i, size = index[form.piece], self._field("piece")
            first = i * size
            is_last = i.eq(self._field(f"count {form.piece}") - 1)
            self._span = Span(w.select(is_last, self._length - first, size), first)
        self._arrays = {}
        for k, pointer in self._pointers.items():
            element, at = DTYPES[self._dtypes[k]], pointer
            for d, i in enumerate(index):
                at = w.offset(at, i * self._field(f"nest {k} {d}"), element)
            step, lane = self._field(f"step {k}"), self._field(f"lane {k}")
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

    def _write(self, views: dict[int, View]) -> None:
        inputs = len(self._graph.inputs)
        given = {self._operands[k]: v for k, v in views.items() if k < inputs}
        outs = [views[k] for k in range(inputs, len(self._operands))]
        kept = [self._memory(f"kept {m}") for m in range(len(self._passes.places))]
        self._elements.write(given, self._values, outs, kept, self._span, self._length)

    # --- one slice, its elements in lanes -----------------------------------------------------

    def _along(self) -> None:
        w, form = self._w, self._form
        zero, one = w.constant(0, INDEX), w.constant(1, INDEX)
        views: dict[int, View] = {}
        after: list[Callable[[], None]] = []
        for k, array in self._arrays.items():
            is_input, dtype = k < len(self._graph.inputs), self._dtypes[k]
            if form.moves[k] != "gathered":
                views[k] = View(array.at, 1, dtype, back=form.moves[k] == "reversed")
                if form.moves[k] == "same":
                    views[k] = View(array.at, 0, dtype, single=is_input)
                continue
            mine = Rows(self._memory(f"scratch {k}"), one)
            views[k] = View(mine.at, 1, dtype)
            move = (w, array, mine, self._span.length, (zero, one), is_input)
            if is_input:
                one_by_one(*move)
            else:
                after.append(lambda move=move: one_by_one(*move))  # type: ignore[misc]
        self._write(views)
        for finish in after:
            finish()

    # --- several slices, one in each lane -----------------------------------------------------

    def _across(self, i: Register) -> None:
        w, lanes = self._w, self._form.lanes
        tile = self._field("tile")
        left = self._field("size") - i * tile
        count = w.select(tile < left, tile, left)
        whole = w.binary("", "udiv", count, lanes)
        rows = {
            k: Rows(self._memory(f"scratch {k}"), self._row(k, tile))
            for k in self._arrays
            if self._form.moves[k] != "same"
        }
        inputs = range(len(self._graph.inputs))
        for k in rows:
            if k in inputs:
                self._move(k, rows[k], whole, count, load=True)

        def of_group(g: Register) -> None:
            self._write({k: self._view(k, rows.get(k), g, whole) for k in self._arrays})

        w.loop(w.binary("", "udiv", count + (lanes - 1), lanes), of_group)
        for k in rows:
            if k not in inputs:
                self._move(k, rows[k], whole, count, load=False)

    def _row(self, k: int, tile: Register) -> Register:
        """How far apart the elements of a slice are in the scratch."""
        if self._form.moves[k] in _BESIDE:
            return self._w.constant(self._form.lanes, INDEX)
        return tile

    def _view(self, k: int, rows: Rows | None, g: Register, whole: Register) -> View:
        """Where the elements of a group of slices are."""
        w, lanes, array = self._w, self._form.lanes, self._arrays[k]
        if rows is None:
            return View(array.at, array.step, self._dtypes[k], single=True)
        mine = w.offset(rows.at, g * lanes, array.element)
        if self._form.moves[k] not in _BESIDE:
            return View(mine, rows.row, self._dtypes[k])
        place = w.offset(array.at, g * lanes, array.element)
        is_whole = g < whole
        at = w.select(is_whole, place, rows.at)
        return View(at, w.select(is_whole, array.step, rows.row), self._dtypes[k])

    def _move(self, k: int, rows: Rows, whole: Register, count: Register, load: bool) -> None:
        """Move a tile between an array and the scratch."""
        w, lanes, array, move = self._w, self._form.lanes, self._arrays[k], self._form.moves[k]
        n = self._span.length if self._vectors[k] else self._w.constant(1, INDEX)
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
        if move not in _BESIDE:  # there a group of its own is in the scratch
            mine = Rows(w.offset(rows.at, done, array.element), rows.row)
        one_by_one(w, array, mine, n, (done, count), load)
