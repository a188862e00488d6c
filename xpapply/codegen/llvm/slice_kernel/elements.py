"""A graph on the elements that vectors hold, from where they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....ir.graph import Graph, number
from .. import operations
from ..registers import DTYPES, INDEX, Register, Type
from ..writer import Writer
from .form import Form
from .passes import Passes
from .states import elementwise

_AHEAD = 4096
"""Bytes by which reading is ahead of computing."""


class View(NamedTuple):
    """A vector's elements in memory: element j is at ``at + j * step``."""

    at: Register
    step: Register | int
    dtype: str
    single: bool = False
    """Whether all lanes have the same number."""
    back: bool = False
    """Whether elements are in reverse order."""


class Span(NamedTuple):
    """A range of elements of the slice."""

    length: Register
    first: Register
    """The first index in the whole slice."""
    leaves: tuple[Register, ...] = ()
    """The geometry, and where in it the leaves begin and end."""


class Elements:
    """Writes what is computed of some elements of a slice, or of the slices in lanes.

    Attributes
    ----------
    graph : Graph
        What is computed.
    passes : Passes
        When.
    span : Span
        Which elements are there.
    """

    def __init__(self, writer: Writer, graph: Graph, form: Form, passes: Passes) -> None:
        self._w, self._form, self._lanes = writer, form, form.lanes
        self.graph, self.passes = graph, passes
        self._numbers: dict[int, Register] = {}
        self._inputs: dict[int, View] = {}
        self._outs: list[View] = []
        self._kept: dict[int, View] = {}

    def begin(
        self,
        inputs: dict[int, View],
        values: dict[int, Register],
        outs: Sequence[View],
        kept: Sequence[Register],
        span: Span,
        length: Register,
    ) -> None:
        """Other slices. `inputs` and `values` are by node; `kept` is memory."""
        w, graph, lanes = self._w, self.graph, self._form.lanes
        self._inputs, self._outs, self.span = inputs, list(outs), span
        row = lanes if self._form.across else 1
        places = self.passes.places
        self._kept = {i: View(kept[k], row, places[k]) for i, k in self.passes.kept.items()}
        self._numbers = dict(values)
        for i, view in inputs.items():
            if not graph.is_vector(i):
                self._numbers[i] = self._load(view, w.constant(0, INDEX))
        for i, n in enumerate(graph.nodes):
            if n.op == "length":
                count = length if dict(n.attrs).get("whole") else span.length
                found = operations.cast(w, count, "int64", n.aval.dtype)
                self._numbers[i] = w.broadcast(found, lanes)

    def finish(self) -> None:
        """Write the results that are numbers."""
        for k, (view, o) in enumerate(zip(self._outs, self.graph.outs, strict=True)):
            if k not in self.passes.vectors:
                self._store_number(view, self._numbers[o])

    # --- numbers ------------------------------------------------------------------------------

    def follow(self, q: int) -> None:
        """Compute the numbers that are known after pass q."""
        graph, levels = self.graph, self.passes.levels
        for i, n in enumerate(graph.nodes):
            if i in self._numbers or graph.is_vector(i) or levels[i] > q:
                continue
            if n.op == "scalar":
                self._numbers[i] = operations.constant(
                    self._w, number(n), n.aval.dtype, self._form.lanes
                )
            elif all(a in self._numbers for a in n.args):
                given = [self._numbers[a] for a in n.args]
                self._numbers[i] = elementwise(self._w, graph, n, given)

    def found(self, i: int, state: Sequence[Register]) -> None:
        """Make the numbers known that node i, a reduction or a fold, has."""
        n = self.graph.nodes[i]
        if n.op != "accumulate":
            (self._numbers[i],) = state
            return
        for k, other in enumerate(self.graph.nodes):
            if other.op == "accumulate" and other.args == n.args:
                if other.attr("by") == n.attr("by"):
                    self._numbers[k] = state[other.attr("field")]

    # --- elements -----------------------------------------------------------------------------

    def at(self, q: int, places: Sequence[Register], lanes: int = 0) -> list[dict[int, Register]]:
        """Values of a pass at some elements; results are written when all are known.

        `lanes`: in vectors of so many elements, fewer than all.
        """
        if lanes:
            whole, self._lanes, numbers = self._lanes, lanes, self._numbers
            self._numbers = {i: self._w.shuffle(x, x, range(lanes)) for i, x in numbers.items()}
            found = self.at(q, places)
            self._lanes, self._numbers = whole, numbers
            return found
        loads = [self.loaded(q, j) for j in places]
        found = [self.values(q, known) for known in loads]
        for j, values in zip(places, found, strict=True):
            self.store(q, j, values)
        return found

    def loaded(self, q: int, j: Register) -> dict[int, Register]:
        """Values that a pass loads, from element j on."""
        found: dict[int, Register] = {}
        seen: set[int] = set()
        stack = self.passes.roots(q)
        while stack:
            i = stack.pop()
            if i in seen or not self.graph.is_vector(i):
                continue
            seen.add(i)
            if self.passes.is_kept(i, q):
                found[i] = self._load(self._kept[i], j)
            elif i in self._inputs:
                found[i] = self._load(self._inputs[i], j)
                self._prefetch(self._inputs[i], j)
            else:
                stack += self.graph.nodes[i].args
        return found

    def values(self, q: int, loads: dict[int, Register]) -> dict[int, Register]:
        """The roots of a pass, and all that they are computed from."""
        found = dict(loads)
        stack = self.passes.roots(q)
        wanted: set[int] = set()
        while stack:
            i = stack.pop()
            if i not in wanted and i not in found and self.graph.is_vector(i):
                wanted.add(i)
                stack += self.graph.nodes[i].args
        for i in sorted(wanted):
            n = self.graph.nodes[i]
            given = [found[a] if a in found else self._numbers[a] for a in n.args]
            found[i] = elementwise(self._w, self.graph, n, given)
        for i in self.passes.roots(q):
            if i not in found:
                found[i] = self._numbers[i]
        return found

    def store(self, q: int, j: Register, values: dict[int, Register]) -> None:
        """Keep what later passes need, and write results."""
        for i in self.passes.keeps(q):
            self._store(self._kept[i], j, values[i])
        if q == self.passes.last:
            for k in self.passes.vectors:
                self._store(self._outs[k], j, values[self.graph.outs[k]])

    def _prefetch(self, view: View, j: Register) -> None:
        """Have what comes later read: a leaf is too short for a CPU to see where it goes on."""
        if self._form.leaves and not self._form.across and view.step == 1 and not view.back:
            kind = DTYPES[view.dtype]
            ahead = j + _AHEAD * 8 // Type(kind).bits
            self._w.prefetch(self._w.offset(view.at, ahead, kind))

    # --- memory -------------------------------------------------------------------------------

    def _place(self, view: View, j: Register) -> Register:
        step = view.step
        if view.back:
            return self._w.offset(view.at, 1 - self._lanes - j, DTYPES[view.dtype])
        if isinstance(step, int) and step in (0, 1):
            return self._w.offset(view.at, j, DTYPES[view.dtype]) if step else view.at
        return self._w.offset(view.at, j * step, DTYPES[view.dtype])

    def _load(self, view: View, j: Register) -> Register:
        w, lanes = self._w, 1 if view.single else self._lanes
        found = w.load(self._place(view, j), Type(DTYPES[view.dtype], lanes))
        if view.back:
            found = w.shuffle(found, found, range(lanes - 1, -1, -1))
        return w.broadcast(operations.from_memory(w, found, view.dtype), self._lanes)

    def _store(self, view: View, j: Register, x: Register) -> None:
        x = self._w.broadcast(x, self._lanes)
        x = operations.to_memory(self._w, x, view.dtype)
        if view.back:
            x = self._w.shuffle(x, x, range(self._lanes - 1, -1, -1))
        self._w.store(x, self._place(view, j))

    def _store_number(self, view: View, x: Register) -> None:
        found = operations.to_memory(self._w, x, view.dtype)
        self._w.store(found if self._form.across else self._w.lane(found, 0), view.at)
