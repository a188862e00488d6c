"""Reductions and folds in registers: how they begin, take an element, and become one number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ....ir.graph import Graph, Node, number
from ....ir.ops import OPS
from ....ir.slices.accumulators import identity
from ....ir.slices.slice_graph import Accumulator
from .. import operations
from ..registers import Register, Type
from ..writer import Writer

State = Sequence[Register]
_NOWHERE = (1 << 63) - 1
"""The position of what was not found yet."""


def numbers(writer: Writer, graph: Graph, given: Sequence[Register], lanes: int) -> State:
    """The results of a graph of numbers, of registers for its inputs."""
    found: list[Register] = []
    for n in graph.nodes:
        if n.op == "input":
            found.append(given[n.attr("k")])
        elif n.op == "scalar":
            found.append(operations.constant(writer, number(n), n.aval.dtype, lanes))
        else:
            found.append(elementwise(writer, graph, n, [found[a] for a in n.args]))
    return [found[o] for o in graph.outs]


def elementwise(writer: Writer, graph: Graph, n: Node, args: Sequence[Register]) -> Register:
    """An elementwise node of registers."""
    dtype = graph.nodes[n.args[-1]].aval.dtype
    return operations.apply(writer, n.op, args, dtype, n.attrs)


def in_order(op: str, dtype: str) -> bool:
    """Whether a reduction's result depends on its order: then it is NumPy's."""
    return op == "sum" and dtype in ("float32", "float64")


class Reduction:
    """A reduction of the table: to a number, or to where that is.

    `ordered` says that it adds as NumPy does, see `Elements`: it begins with 0, so that the
    result is 0 where all numbers are -0.0.
    """

    optional = False
    """Whether a state may be empty."""

    def __init__(self, writer: Writer, n: Node, dtype: str, lanes: int) -> None:
        self._writer, self._op, self._dtype, self._lanes = writer, n.op, dtype, lanes
        self.finds = OPS[n.op].finds_position
        self.ordered = in_order(n.op, dtype)
        self._floats = "float" in dtype

    def start(self) -> State:
        """The state of no elements."""
        first = operations.constant(
            self._writer, identity(self._op, self._dtype), self._dtype, self._lanes
        )
        if not self.finds:
            return [first]
        return [first, self._writer.constant(_NOWHERE, Type("i64", self._lanes))]

    def one(self, values: Sequence[Register], at: Register) -> State:
        """The state of one element in each lane."""
        return [values[0], at] if self.finds else [values[0]]

    def add(self, state: State, values: Sequence[Register], at: Register) -> State:
        """Add one more element per lane to the state."""
        if not self.finds:
            return self.join(state, values)
        w, best, x = self._writer, state[0], values[0]
        takes = self._better(x, best)
        return [w.select(takes, x, best), w.select(takes, at, state[1])]

    def join(self, a: State, b: State) -> State:
        """The state of both."""
        w = self._writer
        if not self.finds:
            if self._dtype == "bool":
                return [a[0] | b[0] if OPS[self._op].join == "maximum" else a[0] & b[0]]
            return [operations.apply(w, OPS[self._op].join, [a[0], b[0]], self._dtype)]
        alike = self._compare("equal", a[0], b[0])
        if self._floats:
            alike = alike | (w.is_nan(a[0]) & w.is_nan(b[0]))
        takes = self._better(b[0], a[0]) | (alike & (b[1] < a[1]))
        return [w.select(takes, b[0], a[0]), w.select(takes, b[1], a[1])]

    def result(self, state: State) -> Register:
        """The number; all that equals the identity is nowhere better than at the first place."""
        if not self.finds:
            return state[0]
        return self._writer.select(state[1].eq(_NOWHERE), 0, state[1])

    def _better(self, x: Register, best: Register) -> Register:
        w, is_max = self._writer, self._op == "argmax"
        if not self._floats:
            return self._compare("greater" if is_max else "less", x, best)
        # better or NaN, where the best one is a number: two instructions
        return w.compare("ugt" if is_max else "ult", "", x, best) & ~w.is_nan(best)

    def _compare(self, op: str, x: Register, y: Register) -> Register:
        if self._dtype == "bool":
            return x & ~y if op == "greater" else ~x & y if op == "less" else ~(x ^ y)
        return operations.apply(self._writer, op, [x, y], self._dtype)


class Folded:
    """A user's accumulator: each element is a state, and has to be there for the first one."""

    optional, finds, ordered = True, False, False

    def __init__(self, writer: Writer, by: Accumulator) -> None:
        self._writer, self._by = writer, by

    def one(self, values: Sequence[Register], at: Register) -> State:
        """The state of one element in each lane."""
        return list(values)

    def add(self, state: State, values: Sequence[Register], at: Register) -> State:
        """The state with one more element in each lane."""
        return self.join(state, values)

    def join(self, a: State, b: State) -> State:
        """The state of both."""
        return numbers(self._writer, self._by.combine, [*a, *b], a[0].type.lanes)


def over_lanes(writer: Writer, join: Callable[[State, State], State], state: State) -> State:
    """The state of all lanes, in all lanes.

    Halves are vectors of their own: where LLVM 22 sees by itself that few lanes matter, it may
    compute too few.
    """
    lanes = half = state[0].type.lanes
    while half > 1:
        half //= 2
        state = join(*([_cut(writer, x, at, half) for x in state] for at in (0, half)))
    return [writer.broadcast(x, lanes) for x in state]


def over_neighbours(writer: Writer, vectors: Sequence[Register]) -> Register:
    """The sum of all lanes of vectors: of neighbours, then of these sums, as NumPy adds."""
    w, lanes, found = writer, vectors[0].type.lanes, list(vectors)
    evens, odds = range(0, 2 * lanes, 2), range(1, 2 * lanes, 2)
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [w.shuffle(x, y, evens) + w.shuffle(x, y, odds) for x, y in pairs]
    (x,) = found
    while lanes > 2:
        x = w.shuffle(x, x, evens[: lanes // 2]) + w.shuffle(x, x, odds[: lanes // 2])
        lanes //= 2
    return w.lane(x, 0) + w.lane(x, 1)


def _cut(writer: Writer, x: Register, at: int, count: int) -> Register:
    """Extract some lanes of a vector."""
    return writer.lane(x, at) if count == 1 else writer.shuffle(x, x, range(at, at + count))


def joined(join: Callable[[State, State], State], states: Sequence[State]) -> State:
    """The state of all chains, by pairs."""
    while len(states) > 1:
        odd = states[len(states) // 2 * 2 :]
        states = [join(a, b) for a, b in zip(states[::2], states[1::2], strict=False)] + [*odd]
    return functools.reduce(join, states)
