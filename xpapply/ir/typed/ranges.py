"""Integers between bounds: which comparisons are always so, and which checks never find anything.

An integer is between two numbers, and at most so much more, or at least so much less, than values
that stay what they are while a function runs: lengths of arrays, numbers it is called with. So a
loop of ``range(1, n + 1)`` is seen to stay inside arrays of n + 1 elements, and one that falls from
a place inside stays below it. What is found is true of all rounds of loops: bounds that grow from
round to round are given up, and looked at again once all others are known.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterator, Sequence

from ...limits import LIMITS
from .bounds import (
    ANY,
    FAR,
    LEAST,
    LENGTH,
    MIRRORED,
    MOST,
    NONE,
    TURNED,
    TWO,
    Bounds,
    at_least,
    at_most,
    both,
    but,
    compared,
    of_type,
    square,
    summands,
    widened,
)
from .function import Array, Block, Instruction, Literal, Slot, TypedFunction, Value
from .order import in_order, read_later, run_once

_ROOTS = 24
"""The most symbolic values for which relative bounds are kept."""
_ZERO = Literal(0, "int64")
_PATIENCE = 2
"""Visits of a block after which bounds that still grow are given up."""
_COMPARED = frozenset("lt le gt ge eq ne".split())
_ONCE = frozenset("input div rem shr mul select cast element".split()) | {"list length", "expected"}
"""Instructions whose results, where they run once, are values that stay."""
_UNUSED = frozenset(
    "add sub mul and or xor shr select lt le gt ge eq ne not length load cast overflows".split()
)
"""Integer instructions that are removed if their results are unused."""


_State = dict[Slot, Bounds]
_Shape = tuple[Bounds, ...]
_Given = dict[int, list[Bounds]]
"""Bounds of arguments, by the number of the callee."""


def decided(made: TypedFunction) -> None:
    """Leave out the checks and branches whose outcome is known, in place."""
    given: _Given = {}
    _decide(made, given)
    for k in reversed(range(len(made.functions))):  # after all that run it
        _decide(made.functions[k], given, given.get(k, ()))


def _decide(made: TypedFunction, given: _Given, inputs: Sequence[Bounds] = ()) -> None:
    """Decide for one function; `given` collects arguments of its callees, `inputs` are its own."""
    if any(x.op in ("mark", "catch", "run") for b in made.blocks for x in b.instructions):
        found = _Ranges(made, inputs)
        known = found.find()
        for k, block in enumerate(made.blocks):
            if known and found.entries[k] is not None:
                found.rewrite(k, block, given)
        if known:
            made.keep_reachable()
            return
    for x in (x for b in made.blocks for x in b.instructions if x.op == "run"):
        given[x.what] = [ANY] * len(x.args)


class _Ranges:
    """Integer bounds at the begin of blocks."""

    def __init__(self, made: TypedFunction, inputs: Sequence[Bounds] = ()) -> None:
        self.made, self.inputs = made, inputs
        self.entries: list[_State | None] = [None] * len(made.blocks)
        self._after = [made.targets(b) for b in made.blocks]
        self._order = in_order(self._after)
        self._place = {k: n for n, k in enumerate(self._order)}
        self.live = read_later(made.blocks, self._after, self._order)
        self._once = run_once(self._after, self._order, self._place)
        self._limits: list[tuple[int, int]] = []  # of values that stay
        self._roots: dict[object, int] = {}
        self._shapes: dict[Slot, _Shape] = {}
        self._changes: dict[Slot, int] = {}
        # blocks that may find more since shapes, or limits of values that stay, are otherwise
        self._stale: set[int] = set()
        self._loaders: dict[Slot, set[int]] = {}
        for k, block in enumerate(made.blocks):
            for x in block.instructions:
                if x.op == "load" and isinstance(x.what.type, Array):
                    self._loaders.setdefault(x.what, set()).add(k)

    # --- to and fro -----------------------------------------------------------------------

    def find(self) -> bool:
        """Iterate to a fixed point, then again without the bounds that were widened.

        Whether that came to an end soon: else nothing is known.
        """
        self.entries[0] = {}
        visits = [0] * len(self.entries)
        waiting, left = [0], LIMITS.typed_visits * len(self.entries)
        waits = {0}
        while waiting:
            left -= 1
            if left < 0:
                return False
            place = heapq.heappop(waiting)
            waits.remove(place)
            k = self._order[place]
            visits[k] += 1
            changed = []
            for target, state in self._ways(k):
                old = self.entries[target]
                new = state if old is None else self._joined(old, state)
                if old is not None and visits[target] >= _PATIENCE:
                    new = self._widened(old, new)
                if new != old:
                    self.entries[target] = new
                    changed.append(target)
            changed += [j for j in self._stale if self.entries[j] is not None]
            self._stale.clear()
            for place in {self._place[j] for j in changed} - waits:
                heapq.heappush(waiting, place)
                waits.add(place)
        self._again()
        return True

    def _again(self) -> None:
        """Recompute bounds at the begin of blocks, once."""
        known = [k for k in self._order if self.entries[k] is not None]
        ways = {k: dict(self._all_ways(k)) for k in known}
        before: dict[int, list[int]] = {}
        for k, targets in ways.items():
            for t in targets:
                before.setdefault(t, []).append(k)
        for k in 2 * known[1:]:
            states = [ways[j][k] for j in before.get(k, ()) if k in ways[j]]
            if not states:
                continue
            new = functools.reduce(self._joined, states)
            if new != self.entries[k]:
                self.entries[k] = new
                ways[k] = dict(self._all_ways(k))

    def _all_ways(self, k: int) -> Iterator[tuple[int, _State]]:
        """Iterate over `_ways` with each block once."""
        found: dict[int, _State] = {}
        for target, state in self._ways(k):
            found[target] = self._joined(found[target], state) if target in found else state
        yield from found.items()

    def _ways(self, k: int) -> Iterator[tuple[int, _State]]:
        """The blocks that may come after one, with what is known then."""
        block, state = self.made.blocks[k], self.entries[k]
        assert state is not None
        run = _Walk(self, k, state)
        for x in block.instructions[:-1]:
            if x.op == "catch":
                known = run.known(x.args[0])
                if known is not False:
                    yield x.what, run.left(x.what, x.args[0], True)
                run.assume(x.args[0], False)
            else:
                run.take(x)
        last = block.instructions[-1]
        if last.op == "branch":
            known = run.known(last.args[0])
            for target, truth in zip(block.targets, (True, False), strict=True):
                if known is None or known is truth:
                    yield target, run.left(target, last.args[0], truth)
        else:
            for target in block.targets:
                yield target, run.left(target)

    def _joined(self, a: _State, b: _State) -> _State:
        found = dict(a)
        for slot, r in b.items():
            own = a.get(slot)
            if own is not r:
                found[slot] = r if own is None else self.either(own, r)
        return found

    def either(self, a: Bounds, b: Bounds) -> Bounds:
        """The bounds of a value that is one or the other."""
        if a is b or a == b:
            return a
        above = {r: min(c, b.above[r]) for r, c in a.above.items() if r in b.above}
        below = {}
        for r in {**a.below, **b.below}:
            far = max(x.below.get(r, x.high - self._limits[r][0]) for x in (a, b))
            if far < FAR:
                below[r] = far
        return Bounds(min(a.low, b.low), max(a.high, b.high), above, below)

    def _widened(self, old: _State, new: _State) -> _State:
        """Bounds without those that have moved, but for what values that stay say of them."""
        found = dict(new)
        for slot, r in new.items():
            was = old.get(slot, r)
            if was is not r:
                r = widened(was, r)
                lows = [self._limits[n][0] + c for n, c in r.above.items()]
                highs = [self._limits[n][1] + c for n, c in r.below.items()]
                found[slot] = r._replace(low=max([r.low, *lows]), high=min([r.high, *highs]))
        return found

    # --- values that stay -----------------------------------------------------------------

    def root(self, key: object, r: Bounds) -> Bounds:
        """A number with what is known of it, as one that stays."""
        n = self._roots.get(key)
        if n is None:
            if len(self._limits) >= _ROOTS:
                return r
            n = self._roots[key] = len(self._limits)
            self._limits.append((r.low, r.high))
        else:  # it may be found to be less limited in a later look
            low, high = self._limits[n]
            if r.low < low or r.high > high:
                self._limits[n] = min(low, r.low), max(high, r.high)
                self._stale.update(self._order)
        return Bounds(r.low, r.high, {**r.above, n: 0}, {**r.below, n: 0})

    def runs_once(self, k: int) -> bool:
        """Whether a block is outside of loops."""
        return self._once[k]

    def shape_of(self, slot: Slot) -> _Shape:
        """The lengths of the arrays that a slot may hold."""
        return self._shapes.get(slot) or (LENGTH,) * _ndim(slot)

    def note_shape(self, slot: Slot, shape: _Shape) -> None:
        """Say that a slot may hold arrays of such lengths."""
        old = self._shapes.get(slot)
        new = shape
        if old is not None:
            new = tuple(self.either(a, b) for a, b in zip(old, shape, strict=True))
            if new != old and self._changes[slot] > _PATIENCE:
                new = (LENGTH,) * len(shape)
        if new != old:
            self._shapes[slot] = new
            self._changes[slot] = self._changes.get(slot, 0) + 1
            self._stale |= self._loaders.get(slot, set())

    # --- what follows ---------------------------------------------------------------------

    def rewrite(self, k: int, block: Block, given: _Given) -> None:
        """A block without what is known."""
        state = self.entries[k]
        assert state is not None
        run = _Walk(self, k, state)
        same: dict[Value, Value] = {}
        found: list[Instruction] = []
        for x in block.instructions:
            now = run.of_sign(x) if x.op == "lt" else x
            if same and not same.keys().isdisjoint(now.args):
                now = now._replace(args=tuple(same.get(a, a) for a in now.args))
            if now.op in ("mark", "catch", "branch"):
                known = run.known(x.args[0])
                if known is False and now.op != "branch":
                    continue
                if known is not None and now.op == "branch":
                    now = Instruction("jump", None, (), None, x.line)
                    block.targets = (block.targets[not known],)
                if now.op == "catch":
                    run.assume(x.args[0], False)
            run.take(x)
            if x.op == "run":
                new = [run.plainly(a) for a in x.args]
                old = given.get(x.what, new)
                given[x.what] = [*map(self.either, old, new)]
            if x.result is not None and x.result.type == "bool":
                known = run.known(x.result)
                if known is not None and x.op in _UNUSED:
                    same[x.result] = Literal(known, "bool")
                    continue
            if _is_other(now, same):
                continue
            if x.op in ("add", "sub", "mul") and run.is_within(x) and now.what is None:
                now = now._replace(what="within")
            found.append(now)
        block.instructions = _needed(found)


class _Walk:
    """Integer bounds within a block."""

    def __init__(self, ranges: _Ranges, k: int, state: _State) -> None:
        self._of, self._k = ranges, k
        self._state = dict(state)
        self._held: dict[Slot, Value] = {}  # what slots hold
        # by the number of a register
        self._bounds: dict[int, Bounds] = {}
        self._writes: dict[int, Instruction] = {}
        self._truths: dict[int, bool] = {}
        self._mixed: dict[Value, tuple[Value, ...]] = {}  # operands of "xor"
        self._sums: dict[int, Instruction] = {}  # what stays in 64 bits
        self._shapes: dict[int, _Shape] = {}
        self._checked: set[tuple[str, tuple[Value, ...]]] = set()
        self._tries = False  # whether what is assumed holds for a while only

    def bounds(self, x: Value) -> Bounds:
        """The bounds of an operand."""
        if isinstance(x, Literal):
            n = int(x.value)
            return Bounds(n, n, NONE, NONE)
        return self._bounds.get(x.number, ANY)

    def plainly(self, x: Value) -> Bounds:
        """The bounds without relative ones; none for other types."""
        if x.type != "int64":
            return ANY
        return self.bounds(x)._replace(above=NONE, below=NONE)

    def known(self, x: Value) -> bool | None:
        """Whether a truth value is always true, or always false; None: unknown."""
        return bool(x.value) if isinstance(x, Literal) else self._truths.get(x.number)

    def left(self, target: int, asked: Value | None = None, truth: bool = True) -> _State:
        """Bounds of live slots after this block, given a condition's truth."""
        kept, self._tries = self._bounds, True
        if asked is not None:
            self._bounds = dict(kept)
            self.assume(asked, truth)
        live = self._of.live[target]
        found = {slot: r for slot, r in self._state.items() if slot in live}
        for slot, x in self._held.items():
            if slot in live:
                found[slot] = self.bounds(x)
        self._bounds, self._tries = kept, False
        return found

    def take(self, x: Instruction) -> None:
        """Apply one instruction."""
        op, result = x.op, x.result
        if op == "store":
            if x.what.type == "int64":
                self._held[x.what] = x.args[0]
            elif isinstance(x.what.type, Array):
                shape = self._shape_of(x.args[0])
                self._of.note_shape(x.what, shape or (LENGTH,) * _ndim(x.what))
        elif op == "mark":
            self.assume(x.args[0], False)
        elif result is None:
            return
        elif result.type == "int64":
            r = self._of_integer(x)
            if op in _ONCE and self._of.runs_once(self._k):
                r = self._of.root(result.number, r)
            self._bounds[result.number] = r
            if op == "xor":
                self._mixed[result] = x.args
            if op == "load":
                self._held.setdefault(x.what, result)
        elif result.type == "bool":
            self._writes[result.number] = x
            truth = self._is_so(x)
            if truth is not None:
                self._truths[result.number] = truth
        elif isinstance(result.type, Array):
            shape = self._shape(x, result.type.ndim)
            if shape is not None:
                self._shapes[result.number] = shape

    # --- integers -------------------------------------------------------------------------

    def _of_integer(self, x: Instruction) -> Bounds:
        op = x.op
        if op == "load":
            held = self._held.get(x.what)
            return self._state.get(x.what, ANY) if held is None else self.bounds(held)
        if op == "length":
            shape = self._shape_of(x.args[0])
            return LENGTH if shape is None else shape[x.what]
        if op in ("list length", "expected"):
            return LENGTH
        if op == "cast":
            return of_type(str(x.args[0].type))
        if op == "input" and x.what < len(self._of.inputs):
            return self._of.inputs[x.what]
        if op in ("element", "input"):
            return ANY
        if any(a.type != "int64" for a in x.args[-2:]):
            return ANY
        if op == "select":
            return self._chosen(x)
        if op not in TWO or len(x.args) != 2:
            return ANY
        a, b = map(self.bounds, x.args)
        found = square(a) if op == "mul" and x.args[0] == x.args[1] else TWO[op](a, b)
        if found.low < LEAST or found.high > MOST:
            if x.what != "within" and (op, x.args) not in self._checked:
                return ANY
            low, high = max(found.low, LEAST), min(found.high, MOST)
            found = Bounds(low, high, found.above, found.below)
        if op in ("add", "sub") and x.result is not None:
            self._sums[x.result.number] = x
        return found

    def _chosen(self, x: Instruction) -> Bounds:
        """The bounds of a select, whose operands are chosen under known conditions."""
        asked, a, b = x.args
        known = self.known(asked)
        if known is not None:
            return self.bounds(a if known else b)
        kept, found, tried = self._bounds, [], self._tries
        self._tries = True
        for value, truth in ((a, True), (b, False)):
            self._bounds = dict(kept)
            self.assume(asked, truth)
            found.append(self.bounds(value))
        self._bounds, self._tries = kept, tried
        return self._of.either(*found)

    def is_within(self, x: Instruction) -> bool:
        """Whether a sum, difference or product stays in 64 bits."""
        if x.result is None or x.result.type != "int64":
            return False
        a, b = map(self.bounds, x.args)
        found = TWO[x.op](a, b)
        return found.low >= LEAST and found.high <= MOST

    # --- truth ----------------------------------------------------------------------------

    def of_sign(self, x: Instruction) -> Instruction:
        """Whether two signs differ, as a question of one sign, where the other is known.

        So a remainder waits for its dividend alone, in a loop whose divisor stays.
        """
        for one, other in _both_ways(self._mixed.get(x.args[0], ())):
            r = self.bounds(one)
            if x.args[1] == _ZERO and (r.low >= 0 or r.high < 0):
                return x._replace(op="lt" if r.low >= 0 else "ge", args=(other, _ZERO))
        return x

    def _is_so(self, x: Instruction) -> bool | None:
        if x.op == "lt" and self._mixed:
            x = self.of_sign(x)
        op, args = x.op, x.args
        if op in ("and", "or"):
            a, b = map(self.known, args)
            short = op == "or"
            if a is short or b is short:
                return short
            return None if a is None or b is None else not short
        if op == "not":
            a = self.known(args[0])
            return None if a is None else not a
        if op == "select":
            known = self.known(args[0])
            a, b = self.known(args[1]), self.known(args[2])
            if known is not None:
                return a if known else b
            return a if a is b else None
        if not args or args[0].type != "int64":
            return None
        if op == "overflows":
            a_, b_ = map(self.bounds, args)
            found = TWO[x.what](a_, b_)
            return False if found.low >= LEAST and found.high <= MOST else None
        return compared(op, *map(self.bounds, args)) if op in _COMPARED else None

    def assume(self, x: Value, truth: bool) -> None:
        """Assume that a condition is true, or false, from now on."""
        how = None if isinstance(x, Literal) else self._writes.get(x.number)
        if how is None:
            return
        op, args = how.op, how.args
        if op == "not":
            self.assume(args[0], not truth)
        elif op in ("and", "or"):
            if truth is (op == "and"):
                for a in args:
                    self.assume(a, truth)
        elif op == "select":
            known = self.known(args[0])
            if known is not None:
                self.assume(args[1 if known else 2], truth)
        elif op == "overflows":
            if not (truth or self._tries):
                self._checked.add((how.what, args))
        elif op in _COMPARED and args[0].type == "int64":
            self._assume_compared(op if truth else TURNED[op], *args)

    def _assume_compared(self, op: str, a: Value, b: Value) -> None:
        x, y = self.bounds(a), self.bounds(b)
        if op in ("gt", "ge"):
            op, a, b, x, y = MIRRORED[op], b, a, y, x
        if op == "eq":
            x = y = both(x, y)
        elif op == "ne":
            x, y = but(x, y), but(y, x)
        else:
            less = 1 if op == "lt" else 0
            x, y = at_most(x, y, less), at_least(y, x, less)
        for value, r in ((a, x), (b, y)):
            self._learn(value, r)

    def _learn(self, x: Value, r: Bounds) -> None:
        """Set bounds of a number, and of those that it is the sum of."""
        if isinstance(x, Literal) or r == self._bounds.get(x.number):
            return
        self._bounds[x.number] = r
        how = self._sums.get(x.number)
        if how is not None:
            parts = summands(how.op, r, *map(self.bounds, how.args))
            for part, own in zip(how.args, parts, strict=True):
                self._learn(part, own)

    # --- arrays ---------------------------------------------------------------------------

    def _shape_of(self, x: Value) -> _Shape | None:
        return None if isinstance(x, Literal) else self._shapes.get(x.number)

    def _shape(self, x: Instruction, ndim: int) -> _Shape | None:
        """The lengths of an array."""
        op, args = x.op, x.args
        if op == "load":
            return self._of.shape_of(x.what)
        if op == "input":
            return tuple(self._of.root(("in", x.what, n), LENGTH) for n in range(ndim))
        if op == "constant":
            dims = self._of.made.constants[x.what].shape
            return tuple(Bounds(n, n, NONE, NONE) for n in dims)
        if op == "new":
            return tuple(both(self.bounds(n), LENGTH) for n in args)
        shape = self._shape_of(args[0]) if args else None
        if shape is None:
            return None
        if op == "row":
            return (*shape[: x.what], *shape[x.what + 1 :])
        if op == "view":
            count = both(self.bounds(args[3]), LENGTH)
            return (*shape[: x.what], count, *shape[x.what + 1 :])
        return shape if op in ("part", "as type") else None


def _both_ways(args: tuple[Value, ...]) -> tuple[tuple[Value, ...], ...]:
    return (args, args[::-1]) if args else ()


def _ndim(slot: Slot) -> int:
    return slot.type.ndim if isinstance(slot.type, Array) else 0


def _is_other(x: Instruction, same: dict[Value, Value]) -> bool:
    """Whether an instruction returns one of its operands: `same`."""
    result = x.result
    if result is None:
        return False
    if x.op == "select" and isinstance(x.args[0], Literal):
        same[result] = x.args[1 if x.args[0].value else 2]
        return True
    if x.op in ("and", "or") and result.type == "bool":
        rest = [a for a in x.args if not isinstance(a, Literal)]
        if len(rest) == 1:  # the other one says nothing
            same[result] = rest[0]
            return True
    return False


def _needed(instructions: list[Instruction]) -> list[Instruction]:
    """Remove instructions with unused results."""
    read: set[Value] = set()
    found = []
    for x in reversed(instructions):
        is_plain = x.op in _UNUSED and x.what != "noted"
        if is_plain and x.result not in read and _of_integers(x):
            continue
        read.update(x.args)
        found.append(x)
    return found[::-1]


def _of_integers(x: Instruction) -> bool:
    """Whether an instruction gives an integer or a truth value and sets no flags."""
    assert x.result is not None
    return x.result.type in ("int64", "bool") and all(a.type != "float16" for a in x.args)
