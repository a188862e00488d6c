"""A graph on the elements that vectors hold: pass by pass, from where they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....ir.graph import Graph, number
from .. import operations
from ..writer import DTYPES, INDEX, Register, Type, Writer
from .form import Form
from .passes import Passes
from .states import Folded, Reduction, State, elementwise, joined, over_lanes

_IN_BLOCK = 64
"""Elements that are added one after the other."""


class View(NamedTuple):
    """Where the elements of a vector are: element j begins at ``at + j * step``."""

    at: Register
    step: Register | int
    dtype: str
    single: bool = False
    """Whether all lanes have the same number."""
    back: bool = False
    """Whether they lie in the other direction."""


class Span(NamedTuple):
    """Which elements of the slice are there."""

    length: Register
    first: Register
    """Its place in the whole slice."""


class Elements:
    """Writes what becomes of the slices in lanes, or of the slice along them."""

    def __init__(self, writer: Writer, graph: Graph, form: Form, passes: Passes) -> None:
        self._w, self._graph, self._form, self._passes = writer, graph, form, passes
        self._numbers: dict[int, Register] = {}
        self._inputs: dict[int, View] = {}
        self._outs: list[View] = []
        self._kept: dict[int, View] = {}

    def write(
        self,
        inputs: dict[int, View],
        values: dict[int, Register],
        outs: Sequence[View],
        kept: Sequence[Register],
        span: Span,
        length: Register,
    ) -> None:
        """All passes. `inputs` and `values` are by node; `kept` is memory."""
        w, graph, lanes = self._w, self._graph, self._form.lanes
        self._inputs, self._outs, self._span = inputs, list(outs), span
        self._unit = 1 if self._form.across else lanes
        row = lanes if self._form.across else 1
        nodes = graph.nodes
        places = self._passes.places
        self._kept = {i: View(kept[k], row, places[k]) for i, k in self._passes.kept.items()}
        self._numbers = dict(values)
        for i, view in inputs.items():
            if not graph.is_vector(i):
                self._numbers[i] = self._load(view, w.constant(0, INDEX))
        for i, n in enumerate(nodes):
            if n.op == "length":
                count = length if dict(n.attrs).get("whole") else span.length
                found = operations.cast(w, count, "int64", n.aval.dtype)
                self._numbers[i] = w.broadcast(found, lanes)
        self._follow(0)
        for q in range(1, self._passes.count + 1):
            self._pass(q)
            self._follow(q)
        for k, (view, o) in enumerate(zip(self._outs, graph.outs, strict=True)):
            if k not in self._passes.vectors:
                self._store_number(view, self._numbers[o])

    def _follow(self, q: int) -> None:
        """The numbers that are known after pass q."""
        graph, levels = self._graph, self._passes.levels
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

    # --- one pass -----------------------------------------------------------------------------

    def _pass(self, q: int) -> None:
        w, unit, lanes = self._w, self._unit, self._form.lanes
        graph, count = self._graph, self._span.length
        nodes = self._passes.reductions(q)
        self._folds = [self._fold(i) for i in nodes]
        self._args = [graph.nodes[i].args for i in nodes]
        zero = w.constant(0, INDEX)
        chains, begin = self._form.chains, 0
        if any(f.optional for f in self._folds):  # the first elements are the first states
            chains, begin = 1, unit
            values = self._elements(q, [zero])
            one = self._ones(values[0], zero)
            states = [
                [
                    x if f.optional else f.join(f.start(), x)
                    for f, x in zip(self._folds, one, strict=True)
                ]
            ]
        else:
            states = [[f.start() for f in self._folds] for _ in range(chains)]
        tail = None
        if not self._form.across:  # before anything is written over
            last = count - lanes
            tail = (last, self._loaded(q, last))
        rounds = w.binary("", "udiv", count - begin, chains * unit) * (chains * unit) + begin
        if self._form.across or any(f.optional for f in self._folds):
            states = self._loop(q, states, begin, rounds, chains)
        else:
            states = self._blocks(q, states, rounds, chains)
        end = count
        if not self._form.across:
            end = w.binary("", "udiv", count, unit) * unit
        if chains > 1:
            first = self._loop(q, states[:1], rounds, end, 1)
            states = [first[0], *states[1:]]
        if tail is not None:
            states[0] = self._tail(q, states[0], end, *tail)
        for k, (i, fold) in enumerate(zip(nodes, self._folds, strict=True)):
            state = joined(fold.join, [s[k] for s in states])
            if not self._form.across:
                state = over_lanes(w, fold.join, state)
            self._found(i, fold, state)

    def _fold(self, i: int) -> Any:
        n, lanes = self._graph.nodes[i], self._form.lanes
        if n.op == "accumulate":
            return Folded(self._w, n.attr("by"))
        return Reduction(self._w, n, self._graph.nodes[n.args[0]].aval.dtype, lanes)

    def _found(self, i: int, fold: Any, state: State) -> None:
        """Make the numbers of a state known."""
        n = self._graph.nodes[i]
        if n.op != "accumulate":
            self._numbers[i] = fold.result(state)
            return
        for k, other in enumerate(self._graph.nodes):
            if other.op == "accumulate" and other.args == n.args:
                if other.attr("by") == n.attr("by"):
                    self._numbers[k] = state[other.attr("field")]

    def _loop(
        self, q: int, states: list[list[State]], begin: Any, end: Register, chains: int
    ) -> list[list[State]]:
        """Elements from one to another, `chains` at a time."""
        unit, shape = self._unit, [[len(s) for s in chain] for chain in states]

        def body(j: Register, *carried: Register) -> list[Register]:
            now = _folded(shape, carried)
            places = [j + u * unit if u else j for u in range(chains)]
            found = self._elements(q, places)
            for u, (at, values) in enumerate(zip(places, found, strict=True)):
                where = self._positions(at)
                now[u] = [
                    f.add(s, [values[a] for a in args], where)
                    for f, s, args in zip(self._folds, now[u], self._args, strict=True)
                ]
            return _flat(now)

        carried = self._w.loop(end, body, _flat(states), start=begin, step=chains * unit)
        return _folded(shape, carried)

    def _blocks(
        self, q: int, nothing: list[list[State]], end: Register, chains: int
    ) -> list[list[State]]:
        """Blocks of elements: their sums are added, which is nearly as accurate as by pairs."""
        w, size = self._w, _IN_BLOCK * chains * self._unit
        shape = [[len(s) for s in chain] for chain in nothing]

        def body(start: Register, *carried: Register) -> list[Register]:
            after = start + size
            states = self._loop(q, nothing, start, w.select(after < end, after, end), chains)
            found = [
                [f.join(a, b) for f, a, b in zip(self._folds, total, more, strict=True)]
                for total, more in zip(_folded(shape, carried), states, strict=True)
            ]
            return _flat(found)

        return _folded(shape, w.loop(end, body, _flat(nothing), step=size))

    def _elements(self, q: int, places: Sequence[Register]) -> list[dict[int, Register]]:
        """What a pass computes of some elements; results are written when all are there."""
        loads = [self._loaded(q, j) for j in places]
        found = [self._values(q, known) for known in loads]
        for j, values in zip(places, found, strict=True):
            self._write(q, j, values)
        return found

    def _tail(
        self, q: int, state: list[State], end: Register, last: Register, loads: dict[int, Register]
    ) -> list[State]:
        """The elements behind the last whole vector, in one that ends where they end."""
        w, lanes = self._w, self._form.lanes
        shape = [[len(s) for s in state]]

        def rest() -> list[Register]:
            values = self._values(q, loads)
            where = self._positions(last)
            numbers = w.iota(Type("i64", lanes)) + last
            fresh = w.compare("", "sge", numbers, end)
            now = []
            for f, s, args in zip(self._folds, state, self._args, strict=True):
                more = f.add(s, [values[a] for a in args], where)
                now.append([w.select(fresh, x, y) for x, y in zip(more, s, strict=True)])
            self._write(q, last, values)
            return _flat([now])

        found = w.either(self._span.length.ne(end), rest, lambda: _flat([state]))
        return _folded(shape, found)[0]

    def _ones(self, values: dict[int, Register], at: Register) -> list[State]:
        where = self._positions(at)
        several = zip(self._folds, self._args, strict=True)
        return [f.one([values[a] for a in args], where) for f, args in several]

    def _positions(self, j: Register) -> Register:
        """The places of elements in the slice."""
        w, lanes = self._w, self._form.lanes
        if not any(f.finds for f in self._folds):
            return j
        found = w.broadcast(j + self._span.first, lanes)
        return found if self._form.across else found + w.iota(Type("i64", lanes))

    # --- elements -----------------------------------------------------------------------------

    def _loaded(self, q: int, j: Register) -> dict[int, Register]:
        """What a pass reads of the elements from j on."""
        found: dict[int, Register] = {}
        seen: set[int] = set()
        stack = self._passes.roots(q)
        while stack:
            i = stack.pop()
            if i in seen or not self._graph.is_vector(i):
                continue
            seen.add(i)
            if self._passes.is_kept(i, q):
                found[i] = self._load(self._kept[i], j)
            elif i in self._inputs:
                found[i] = self._load(self._inputs[i], j)
            else:
                stack += self._graph.nodes[i].args
        return found

    def _values(self, q: int, loads: dict[int, Register]) -> dict[int, Register]:
        """The roots of a pass, and all that they are computed from."""
        found = dict(loads)
        stack = self._passes.roots(q)
        wanted: set[int] = set()
        while stack:
            i = stack.pop()
            if i not in wanted and i not in found and self._graph.is_vector(i):
                wanted.add(i)
                stack += self._graph.nodes[i].args
        for i in sorted(wanted):
            n = self._graph.nodes[i]
            given = [found[a] if a in found else self._numbers[a] for a in n.args]
            found[i] = elementwise(self._w, self._graph, n, given)
        for i in self._passes.roots(q):
            if i not in found:
                found[i] = self._numbers[i]
        return found

    def _write(self, q: int, j: Register, values: dict[int, Register]) -> None:
        """Keep what later passes need, and write results."""
        for i in self._passes.keeps(q):
            self._store(self._kept[i], j, values[i])
        if q == self._passes.last:
            for k in self._passes.vectors:
                self._store(self._outs[k], j, values[self._graph.outs[k]])

    # --- memory -------------------------------------------------------------------------------

    def _place(self, view: View, j: Register) -> Register:
        step = view.step
        if view.back:
            return self._w.offset(view.at, 1 - self._form.lanes - j, DTYPES[view.dtype])
        if isinstance(step, int) and step in (0, 1):
            return self._w.offset(view.at, j, DTYPES[view.dtype]) if step else view.at
        return self._w.offset(view.at, j * step, DTYPES[view.dtype])

    def _load(self, view: View, j: Register) -> Register:
        w, lanes = self._w, 1 if view.single else self._form.lanes
        found = w.load(self._place(view, j), Type(DTYPES[view.dtype], lanes))
        if view.back:
            found = w.shuffle(found, found, range(lanes - 1, -1, -1))
        return w.broadcast(operations.from_memory(w, found, view.dtype), self._form.lanes)

    def _store(self, view: View, j: Register, x: Register) -> None:
        x = self._w.broadcast(x, self._form.lanes)
        x = operations.to_memory(self._w, x, view.dtype)
        if view.back:
            x = self._w.shuffle(x, x, range(self._form.lanes - 1, -1, -1))
        self._w.store(x, self._place(view, j))

    def _store_number(self, view: View, x: Register) -> None:
        found = operations.to_memory(self._w, x, view.dtype)
        self._w.store(found if self._form.across else self._w.lane(found, 0), view.at)


def _flat(states: Sequence[Sequence[State]]) -> list[Register]:
    return [x for chain in states for s in chain for x in s]


def _folded(shape: Sequence[Sequence[int]], flat: Sequence[Register]) -> list[list[State]]:
    found: list[list[State]] = []
    at = iter(flat)
    for chain in shape:
        found.append([[next(at) for _ in range(size)] for size in chain])
    return found
