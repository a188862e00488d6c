"""Reductions of the elements that vectors hold: pass by pass, sums in the order of NumPy.

NumPy adds by pairs. Up to 128 elements are a *leaf*: there is a sum of every eighth element; these
eight are added as ``((r0+r1)+(r2+r3)) + ((r4+r5)+(r6+r7))``, then what is left, one after
the other. More elements are cut into two parts, again and again, and the sums of both are added.
So results have NumPy's very bits (``pairwise_sum`` in its `loops_utils.h.src`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..registers import INDEX, Register, Type
from ..writer import Writer
from .elements import Elements
from .form import COUNT, Form
from .states import Folded, Reduction, State, in_order, joined, over_lanes, over_neighbours

States = list[list[State]]
"""States of each fold, several that take vectors in turn."""
_SUMS = 8
"""Sums of a leaf."""
_CHEAP = 16.0
"""Instructions for a vector up to which code is written again to have more sums at a time."""
_DEEPEST = 48
"""Sums of leaves that wait for others, at most."""


class Folding:
    """Writes what becomes of the slices in lanes, or of the slice along them."""

    def __init__(self, writer: Writer, form: Form, elements: Elements) -> None:
        self._w, self._form, self._elements = writer, form, elements
        self._unit = 1 if form.across else form.lanes
        self._chains = form.chains
        self._parts = max(1, _SUMS // self._unit)

    def write(self) -> None:
        """All passes, and the results that are numbers."""
        self._elements.follow(0)
        for q in range(1, self._elements.passes.count + 1):
            self._pass(q)
            self._elements.follow(q)
        self._elements.finish()

    def _pass(self, q: int) -> None:
        elements, graph = self._elements, self._elements.graph
        nodes = elements.passes.reductions(q)
        self._q, self._span = q, elements.span
        self._cheap = elements.passes.cost(q) <= _CHEAP
        self._folds = [self._fold(i) for i in nodes]
        self._args = [graph.nodes[i].args for i in nodes]
        self._last, self._last_loads = self._span.length, dict[int, Register]()
        if not self._form.across:  # before anything is written over
            self._last = self._span.length - self._form.lanes
            self._last_loads = elements.loaded(q, self._last)
        if any(f.optional for f in self._folds):
            states = self._from_first()
        elif any(f.ordered for f in self._folds):
            states = self._in_order()
        else:
            states = self._in_any_order()
        for i, fold, state in zip(nodes, self._folds, states, strict=True):
            elements.found(i, [fold.result(state)] if isinstance(fold, Reduction) else state)

    def _fold(self, i: int) -> Any:
        graph = self._elements.graph
        n = graph.nodes[i]
        if n.op == "accumulate":
            return Folded(self._w, n.attr("by"))
        dtype, lanes = graph.nodes[n.args[0]].aval.dtype, self._form.lanes
        if not self._form.across and in_order(n.op, dtype):
            lanes = min(lanes, _SUMS)
        return Reduction(self._w, n, dtype, lanes)

    # --- in any order -------------------------------------------------------------------------

    def _in_any_order(self) -> list[State]:
        """The states of all elements."""
        zero, end = self._w.constant(0, INDEX), self._span.length
        states = self._loop(self._started(), zero, end, self._chains)
        several = zip(self._folds, states, strict=True)
        return self._completed([joined(f.join, s) for f, s in several])

    def _from_first(self) -> list[State]:
        """Initialize states from the first elements."""
        zero = self._w.constant(0, INDEX)
        values = self._elements.at(self._q, [zero])[0]
        states: States = []
        for f, args in zip(self._folds, self._args, strict=True):
            one = f.one([values[a] for a in args], self._positions(zero))
            states.append([one if f.optional else f.join(f.start(), one)])
        begin = self._w.constant(self._unit, INDEX)
        states = self._loop(states, begin, self._span.length, 1)
        return self._completed([s for (s,) in states])

    def _started(self) -> States:
        """The states of no elements; NumPy's sums have theirs leaf by leaf."""
        return [[] if f.ordered else [f.start() for _ in range(self._chains)] for f in self._folds]

    def _completed(self, states: list[State]) -> list[State]:
        """Complete states of whole vectors with the remaining elements."""
        if self._form.across:
            return states
        lanes = self._form.lanes
        end = self._w.binary("", "udiv", self._span.length, lanes) * lanes
        states = self._tail(states, self._span.length.ne(end), end)
        several = zip(self._folds, states, strict=True)
        return [over_lanes(self._w, f.join, s) for f, s in several]

    # --- in NumPy's order ---------------------------------------------------------------------

    def _in_order(self) -> list[State]:
        """The states of all elements; sums have added them as NumPy does."""
        w, lanes = self._w, self._form.lanes
        zero = w.constant(0, INDEX)
        if self._form.leaves:
            states = self._tree(self._started())
        else:
            states = self._leaf(self._started(), zero, self._span.length)
        found: list[State] = []
        for f, chains in zip(self._folds, states, strict=True):
            if f.ordered:
                found.append([w.broadcast(chains[0][0], lanes)])
            else:
                state = joined(f.join, chains)
                found.append(state if self._form.across else over_lanes(w, f.join, state))
        return found

    def _tree(self, states: States) -> States:
        """All leaves; `states` are those of the other folds."""
        w = self._w
        geometry, begin, end = self._span.leaves
        mask = (1 << COUNT) - 1
        ordered = [k for k, f in enumerate(self._folds) if f.ordered]
        zeros = [self._folds[k].start()[0].type for k in ordered]
        kinds = [t if self._form.across else Type(t.element) for t in zeros]
        waiting = [w.scratch(t.element, _DEEPEST * t.lanes) for t in kinds]

        def place(k: int, depth: Register) -> Register:
            return w.offset(waiting[k], depth * kinds[k].lanes, kinds[k].element)

        def of_leaf(at: Register, first: Register, depth: Register, *others: Register) -> Any:
            leaf = w.load(w.offset(geometry, at, "i64"), INDEX)
            count, joins = leaf & mask, leaf >> COUNT
            found = self._leaf(_folded(states, others), first, count)

            def join(k: Register, *sums: Register) -> list[Register]:
                below = depth - 1 - k
                loaded = [w.load(place(m, below), t) for m, t in enumerate(kinds)]
                return [x + y for x, y in zip(loaded, sums, strict=True)]

            sums = w.loop(joins, join, [found[k][0][0] for k in ordered])
            depth = depth - joins
            for m, x in enumerate(sums):
                w.store(x, place(m, depth))
            return [first + count, depth + 1, *_flat(_without(found, ordered))]

        zero = w.constant(0, INDEX)
        _, _, *others = w.loop(end, of_leaf, [zero, zero, *_flat(states)], start=begin)
        found = _folded(states, others)
        for m, k in enumerate(ordered):
            found[k] = [[w.load(waiting[m], kinds[m])]]
        return found

    def _leaf(self, states: States, first: Register, count: Register) -> States:
        """Fold some elements; each sum is one state, with a number per slice."""
        w = self._w
        whole = first + (count & -_SUMS)
        many = max(self._chains, min(self._parts, self._form.sums) if self._cheap else 1)
        if many >= self._parts:
            states = self._with_sums(states, self._parts)
            states = self._loop(states, first, whole, many, self._parts)
        else:
            states = self._in_groups(states, first, whole, many)
        if self._unit > _SUMS:
            states = self._half(states, whole - _SUMS, (count & _SUMS).ne(0))
        end = first + count
        if self._form.across:
            found = self._sums(states, lambda f, s: [joined(f.join, s)])
            return self._loop(found, whole, end, self._chains if self._cheap else 1)
        found = self._sums(states, lambda _, s: [[over_neighbours(w, [x for (x,) in s])]])
        return self._rest(found, whole, end)

    def _sums(self, states: States, of: Callable[..., Any]) -> States:
        """The states of other folds, and something of those of sums."""
        several = zip(self._folds, states, strict=True)
        return [of(f, chains) if f.ordered else chains for f, chains in several]

    def _with_sums(self, states: States, count: int) -> States:
        """Append states of empty sums to those of other folds."""
        several = zip(self._folds, states, strict=True)
        return [[f.start() for _ in range(count)] if f.ordered else s for f, s in several]

    def _sums_of(self, x: Register) -> list[Register]:
        """Elements in vectors of as many as there are sums, or fewer."""
        lanes = x.type.lanes
        if self._form.across or lanes <= _SUMS:
            return [x]
        parts = (range(k, k + _SUMS) for k in range(0, lanes, _SUMS))
        return [self._w.shuffle(x, x, part) for part in parts]

    def _in_groups(self, states: States, first: Register, whole: Register, many: int) -> States:
        """Fold sums in groups."""
        w, parts = self._w, self._parts
        ordered = [k for k, f in enumerate(self._folds) if f.ordered]
        kinds = [self._folds[k].start()[0].type for k in ordered]
        memory = [w.scratch(t.element, parts * t.lanes) for t in kinds]

        def place(m: int, part: Register) -> Register:
            return w.offset(memory[m], part * kinds[m].lanes, kinds[m].element)

        def of_group(part: Register, *others: Register) -> list[Register]:
            now = self._with_sums(_folded(states, others), many)
            begin = first + part * self._unit
            found = self._loop(now, begin, whole, many, step=_SUMS)
            for m, k in enumerate(ordered):
                for u, (x,) in enumerate(found[k]):
                    w.store(x, place(m, part + u))
            return _flat(_without(found, ordered))

        others = w.loop(parts, of_group, _flat(states), step=many)
        found = _folded(states, others)
        for m, k in enumerate(ordered):
            found[k] = [[w.load(place(m, w.constant(u, INDEX)), kinds[m])] for u in range(parts)]
        return found

    def _half(self, states: States, at: Register, is_there: Register) -> States:
        """Fold eight elements after the last whole vector."""
        first = [s[0] for s in states]
        lanes = self._form.lanes

        def half() -> list[Register]:
            (values,) = self._elements.at(self._q, [at], _SUMS)
            where, found = self._positions(at), list[State]()
            fresh = self._w.iota(Type("i64", lanes)) < _SUMS
            for f, s, args in zip(self._folds, first, self._args, strict=True):
                given = [values[a] for a in args]
                if f.ordered:
                    found.append(f.add(s, given, where))
                    continue
                given = [self._w.shuffle(x, x, [k % _SUMS for k in range(lanes)]) for x in given]
                more = f.add(s, given, where)
                found.append([self._w.select(fresh, x, y) for x, y in zip(more, s, strict=True)])
            return _flat([found])

        (found,) = _folded([first], self._w.either(is_there, half, lambda: _flat([first])))
        return [[x, *s[1:]] for x, s in zip(found, states, strict=True)]

    def _rest(self, states: States, begin: Register, end: Register) -> States:
        """The elements along lanes that no eight others stand beside."""
        w, lanes, first = self._w, self._form.lanes, [[s[0]] for s in states]
        shape = [[s] for (s,) in first]

        def body(j: Register, *carried: Register) -> list[Register]:
            (values,) = self._elements.at(self._q, [j])
            now = [s for (s,) in _folded(shape, carried)]
            return _flat([self._ended(now, values, j, None)])

        whole = begin
        if lanes < _SUMS:
            whole = w.binary("", "udiv", end - begin, lanes) * lanes + begin
            first = _folded(shape, w.loop(whole, body, _flat(first), start=begin, step=lanes))
        found = self._tail([s for (s,) in first], end.ne(whole), whole)
        return [[x, *s[1:]] for x, s in zip(found, states, strict=True)]

    # --- whole vectors, and the last ones -----------------------------------------------------

    def _loop(
        self,
        states: States,
        begin: Register,
        end: Register,
        many: int,
        least: int = 1,
        step: int = 0,
    ) -> States:
        """Elements from one to another: `many` vectors at a time, then `least`.

        With a `step` some between them are left out, and come in another loop.
        """
        w, unit = self._w, self._unit

        def of(count: int) -> Callable[..., list[Register]]:
            def body(j: Register, *carried: Register) -> list[Register]:
                now = _folded(states, carried)
                places = [j + u * unit if u else j for u in range(count)]
                for u, (at, values) in enumerate(zip(places, self._at(places), strict=True)):
                    where = self._positions(at)
                    for f, chain, args in zip(self._folds, now, self._args, strict=True):
                        k, given = u % len(chain), [values[a] for a in args]
                        if f.ordered:
                            for x in self._sums_of(given[0]):
                                chain[k] = f.add(chain[k], [x], where)
                        elif f.finds and step:  # what is there may lie after
                            chain[k] = f.join(chain[k], f.one(given, where))
                        else:
                            chain[k] = f.add(chain[k], given, where)
                return _flat(now)

            return body

        if step:
            found = w.loop(end, of(many), _flat(states), start=begin, step=step)
            return _folded(states, found)
        for count in [many, least] if many > least else [least]:
            size, stop = count * unit, end
            if size > 1:
                stop = w.binary("", "udiv", end - begin, size) * size + begin
            found = w.loop(stop, of(count), _flat(states), start=begin, step=size)
            states, begin = _folded(states, found), stop
        return states

    def _at(self, places: Sequence[Register]) -> Iterator[dict[int, Register]]:
        """Values at elements, as many at a time as there are registers for."""
        for k in range(0, len(places), self._chains):
            yield from self._elements.at(self._q, places[k : k + self._chains])

    def _tail(self, states: list[State], is_there: Register, begin: Register) -> list[State]:
        """Fold the elements after the last whole vector, in one that ends with them."""

        def rest() -> list[Register]:
            values = self._elements.values(self._q, self._last_loads)
            found = self._ended(states, values, self._last, begin)
            self._elements.store(self._q, self._last, values)
            return _flat([found])

        (found,) = _folded([states], self._w.either(is_there, rest, lambda: _flat([states])))
        return found

    def _ended(
        self, states: list[State], values: dict[int, Register], at: Register, begin: Any
    ) -> list[State]:
        """States with a vector of which the elements from `begin` on count."""
        w, lanes = self._w, self._form.lanes
        where, found = self._positions(at), list[State]()
        fresh = None
        if begin is not None:
            fresh = w.compare("", "sge", w.iota(Type("i64", lanes)) + at, begin)
        for f, s, args in zip(self._folds, states, self._args, strict=True):
            given = [values[a] for a in args]
            if f.ordered:
                skipped = w.constant(0, INDEX) if begin is None else begin - at
                found.append([self._one_by_one(s[0], given[0], skipped)])
                continue
            more = f.add(s, given, where)
            if fresh is not None:
                more = [w.select(fresh, x, y) for x, y in zip(more, s, strict=True)]
            found.append(more)
        return found

    def _one_by_one(self, total: Register, x: Register, first: Register) -> Register:
        """A number, and lanes from the first one on added to it."""
        w, kind = self._w, Type(x.type.element)
        memory = w.scratch(kind.element, x.type.lanes)
        w.store(x, memory)

        def body(k: Register, total: Register) -> list[Register]:
            return [total + w.load(w.offset(memory, k, kind.element), kind)]

        end = w.constant(x.type.lanes, INDEX)
        return w.loop(end, body, [total], start=first)[0]

    def _positions(self, j: Register) -> Register:
        """The places of elements in the slice."""
        w, lanes = self._w, self._form.lanes
        if not any(f.finds for f in self._folds):
            return j
        found = w.broadcast(j + self._span.first, lanes)
        return found if self._form.across else found + w.iota(Type("i64", lanes))


def _flat(states: Sequence[Sequence[State]]) -> list[Register]:
    return [x for chain in states for s in chain for x in s]


def _folded(like: Sequence[Sequence[State]], flat: Sequence[Register]) -> States:
    """Registers in the places that they had before `_flat`."""
    at = iter(flat)
    return [[[next(at) for _ in s] for s in chain] for chain in like]


def _without(states: States, folds: Sequence[int]) -> States:
    """The states of all but some folds."""
    return [[] if k in folds else s for k, s in enumerate(states)]
