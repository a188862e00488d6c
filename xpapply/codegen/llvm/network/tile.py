"""One tile of slices through a network: each step is a loop over rows of scratch memory.

The slices of a tile are the lanes of a few vectors. A product keeps a block of sums in
registers, so many outputs times so many vectors, and reads each weight once for all of them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

import numpy as np

from ....ir.graph import Node, number
from ....ir.ops import OPS, Kind
from ....ir.rewrite import Region
from ....ir.shapes import einsum_lengths
from ...geometry import Dim, affine, contiguous, merged
from ...schedule import Schedule, Step
from .. import operations
from ..registers import INDEX, Register, Type
from ..writer import Writer
from .weights import Weights

_LONG = 32
"""Terms of a sum: one of more is made of several, whose errors are smaller."""
_CHAINS = 4
"""Chains of a joining reduction."""
_FEW = 16
"""Numbers that are joined without a loop."""


class Tile:
    """Writes the steps for so many slices.

    Parameters
    ----------
    writer : Writer
        Of the function that is written.
    schedule : Schedule
        The steps.
    vectors : int
        How many vectors the slices of a tile fill.
    dtype : str
        Of the arithmetic.
    packed : Register
        Where the weights are.
    scratch : Register
        Where the rows are.
    weights : Weights
        Is told which constant lies where.
    """

    def __init__(
        self,
        writer: Writer,
        schedule: Schedule,
        vectors: int,
        dtype: str,
        packed: Register,
        scratch: Register,
        weights: Weights,
    ) -> None:
        self.writer, self.schedule, self.dtype = writer, schedule, dtype
        self.element = operations.element(dtype)
        self.lanes = writer.lanes(self.element)
        self.vectors, self.slices = vectors, vectors * self.lanes
        self.kind = Type(self.element, self.lanes)
        self._graph, self._queries = schedule.graph, schedule.queries
        self.packed, self._scratch, self.weights = packed, scratch, weights
        registers = writer.target.registers
        self.wide = min(vectors, 4 if registers >= 32 else 2)

    # --- memory -------------------------------------------------------------------------

    def row(self, first: int, j: Register | int = 0) -> Register:
        """The address of a row of scratch memory: `j` rows after another one."""
        base = self.writer.offset(self._scratch, first * self.slices, self.element)
        count = j * self.slices
        return self.writer.offset(base, count, self.element)

    def load(self, pointer: Register, g: int) -> Register:
        """Vector `g` of a row."""
        at = self.writer.offset(pointer, g * self.lanes, self.element)
        return self.writer.load(at, self.kind, self.align)

    def _store(self, x: Register, pointer: Register, g: int) -> None:
        self.writer.store(x, self.writer.offset(pointer, g * self.lanes, self.element), self.align)

    def store_at(self, x: Register, row: Register, skip: Register | int, g: int) -> None:
        """Store vector `g`, after the first `skip` numbers of a row."""
        self._store(x, self.writer.offset(row, skip, self.element), g)

    @property
    def align(self) -> int:
        return self.lanes * self.kind.bits // 8

    def _weight(self, at: int, j: Register | int = 0) -> Register:
        """A number among the weights, in all lanes."""
        w = self.writer
        where = w.offset(w.offset(self.packed, at, self.element), j, self.element)
        return w.broadcast(w.load(where, Type(self.element)), self.lanes)

    def as_stored(self, x: Register) -> Register:
        """Masks are numbers in scratch memory."""
        return self.writer.cast(x, self.element) if x.type.element == "i1" else x

    def groups(self, most: int, body: Callable[[Register | int], object]) -> None:
        """`body` for every `most` vectors of a tile, of a number of numbers to skip."""
        step = most * self.lanes
        if step == self.slices:
            body(0)
        else:

            def inside(g: Register) -> None:
                body(g * step)

            self.writer.loop(self.slices // step, inside)

    def each(self, count: int, body: Callable[[Register | int], object]) -> None:
        """`body` for every row of so many."""
        if count == 1:
            body(0)
        else:

            def inside(j: Register) -> None:
                body(j)

            self.writer.loop(count, inside)

    # --- steps --------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        """Write a step that is no product."""
        n = self._graph.nodes[step.out]
        every = np.arange(self._queries.size(step.out)).reshape(n.aval.shape)
        if step.region is not None:
            self.region(step.region, {})
        elif step.out in self.schedule.copies:
            self._copy(n.args[0], self.schedule.copies[step.out][1], step.out, every)
        elif OPS[n.op].kind is Kind.REDUCTION:
            self._reduction(step.out, n)
        elif OPS[n.op].kind is Kind.CONTRACTION:
            self._contraction(step.out, n)
        elif n.op == "concat":
            self._concat(step.out, n, every)
        else:
            self._pad(step.out, n, every)

    # --- elementwise --------------------------------------------------------------------

    def region(self, region: Region, known: dict[int, int]) -> None:
        """Elementwise nodes, number by number; `known`: nodes that lie where others do."""
        nodes = [i for i in region.nodes if i not in known]
        target = self.schedule.row(region.out)
        width = min(self.vectors, 2)

        def each(j: Register | int) -> None:
            place = self.row(target, j)

            def group(skip: Register | int) -> None:
                for g in range(width):
                    stored = {
                        i: self.load(
                            self.writer.offset(
                                self.row(self.schedule.row(at), j), skip, self.element
                            ),
                            g,
                        )
                        for i, at in known.items()
                    }
                    x = self.numbers(region, nodes, j, skip, g, stored)
                    self.store_at(self.as_stored(x), place, skip, g)

            self.groups(width, group)

        self.each(self._queries.size(region.out), each)

    def numbers(
        self,
        region: Region,
        nodes: Sequence[int],
        j: Register | int,
        skip: Register | int,
        g: int,
        known: dict[int, Register],
    ) -> Register:
        """Number `j` of a region's result, for one vector of slices."""
        shape = self._graph.nodes[region.out].aval.shape
        values = dict(known)
        for i in nodes:
            n = self._graph.nodes[i]
            for a in n.args:
                if a not in values:
                    values[a] = self._operand(a, shape, j, skip, g)
            given = [values[a] for a in n.args]
            dtype = self._graph.nodes[n.args[-1]].aval.dtype
            values[i] = operations.apply(self.writer, n.op, given, dtype, n.attrs)
        return values[region.out]

    def _operand(
        self, a: int, shape: tuple[int, ...], j: Register | int, skip: Register | int, g: int
    ) -> Register:
        """Number `j` of a value that is broadcast to a shape, for one vector of slices."""
        n = self._graph.nodes[a]
        if n.op == "scalar":
            return operations.constant(self.writer, number(n), n.aval.dtype, self.lanes)
        if not self._queries.dependent[a]:
            single = self._queries.size(a) == 1
            at = self.weights.flat(a, () if single else shape)
            x = self._weight(at, 0 if single else j)
        else:
            _, places = self.schedule.lies(a)
            index = self._index(np.broadcast_to(places, shape).reshape(-1), j)
            place = self.row(self.schedule.base(a), index)
            x = self.load(self.writer.offset(place, skip, self.element), g)
        return self.writer.compare("une", "ne", x, 0) if n.aval.dtype == "bool" else x

    def _index(self, order: np.ndarray, j: Register | int) -> Register | int:
        """``order[j]``: computed where it grows evenly, else from a table."""
        if isinstance(j, int):
            return int(order[j])
        step = int(order[1] - order[0]) if order.size > 1 else 0
        if np.array_equal(order, order[0] + step * np.arange(order.size)):
            return j * step + int(order[0]) if step else int(order[0])
        table = self.writer.table(order.tolist(), "i64")
        return self.writer.load(self.writer.offset(table, j, "i64"), INDEX)

    # --- all else -----------------------------------------------------------------------

    def nest(self, dims: Sequence[Dim], body: Callable[..., object]) -> None:
        """``body(read, write, number)`` for all of these loops, one inside the other."""

        self._level(dims, body, (0, 0, 0))

    def _level(
        self, dims: Sequence[Dim], body: Callable[..., object], at: tuple[Register | int, ...]
    ) -> None:
        if not dims:
            body(*at)
            return
        first, *rest = dims

        def each(i: Register | int) -> None:
            there = tuple(p + i * s for p, s in zip(at, first[1:], strict=True))
            self._level(rest, body, there)

        self.each(first.size, each)

    def _copy(self, a: int, source: np.ndarray, out: int, target: np.ndarray) -> None:
        """Numbers of a value, by their positions in its rows, to rows of another one."""
        first = self.schedule.row(out)
        dependent = self._queries.dependent[a]
        flat = 0 if dependent else self.weights.flat(a, self._graph.nodes[a].aval.shape)

        def one(read: Register | int, write: Register | int, _: Register | int = 0) -> None:
            place = self.row(first, write)
            row = self.row(self.schedule.base(a), read) if dependent else None
            x = None if dependent else self._weight(flat, read)
            for g in range(self.vectors):
                self._store(x if row is None else self.load(row, g), place, g)  # type: ignore[arg-type]

        from_, to = affine(source), affine(target)
        if from_ is not None and to is not None:
            steps = zip(source.shape, from_[1], to[1], strict=True)
            dims = merged([Dim(n, r, w) for n, r, w in steps])
            self.nest(dims, lambda r, w, _: one(r + from_[0], w + to[0]))
        else:
            tables = source.reshape(-1), target.reshape(-1)
            self.each(source.size, lambda j: one(*(self._index(t, j) for t in tables)))

    def _concat(self, out: int, n: Node, every: np.ndarray) -> None:
        axis, start = n.attr("axis"), 0
        for a in n.args:
            aval = self._graph.nodes[a].aval
            length = aval.shape[axis]
            into = every[(*(slice(None),) * axis, slice(start, start + length))]
            start += length
            flat = np.arange(self._queries.size(a)).reshape(aval.shape)
            source = self.schedule.lies(a)[1] if self._queries.dependent[a] else flat
            self._copy(a, source, out, into)

    def _pad(self, out: int, n: Node, every: np.ndarray) -> None:
        """Copy the interior and write the borders, axis by axis."""
        (a,) = n.args
        value = self.writer.constant(float(n.attr("number")), self.kind)
        first, inside = self.schedule.row(out), every

        def fill(places: np.ndarray) -> None:
            even = affine(places)
            if even is None:  # nothing
                return
            dims = merged([Dim(size, k) for size, k in zip(places.shape, even[1], strict=True)])

            def one(read: Register | int, *_: Register | int) -> None:
                for g in range(self.vectors):
                    self._store(value, self.row(first, read + even[0]), g)

            self.nest(dims, one)

        for axis, (before, after) in enumerate(n.attr("widths")):
            length = inside.shape[axis]
            low, middle, high = np.split(inside, [before, length - after], axis)
            fill(low)
            fill(high)
            inside = middle
        self._copy(a, self.schedule.lies(a)[1], out, inside)

    def _reduction(self, out: int, n: Node) -> None:
        """Numbers joined one after the other, long sums in several chains."""
        a, table = self.schedule.windows[out]
        places = self.schedule.lies(a)[1].reshape(-1)[table]
        count = places.shape[-1]
        target, base = self.schedule.row(out), self.schedule.base(a)
        width = min(self.vectors, 2)
        chains = _CHAINS if count >= _LONG and n.op in ("sum", "prod") else 1
        first, apart = places[..., 0], (places - places[..., :1]).reshape(-1, count)
        even = affine(first) if (apart == apart[0]).all() else None

        def one(index: Callable[..., Register | int], write: Register | int) -> None:
            place = self.row(target, write)

            def group(skip: Register | int) -> None:
                def at(c: Register | int) -> list[Register]:
                    row = self.writer.offset(self.row(base, index(c)), skip, self.element)
                    return [self.load(row, g) for g in range(width)]

                if OPS[n.op].finds_position:
                    found = self._positions(n.op, at, count, width)
                else:
                    found = self._joined(n.op, at, count, width, chains)
                for g, s in enumerate(found):
                    self.store_at(s, place, skip, g)

            self.groups(width, group)

        if even is None:
            flat = places.reshape(-1)
            self.each(first.size, lambda j: one(lambda c: self._index(flat, j * count + c), j))
            return
        steps = zip(first.shape, even[1], contiguous(first.shape), strict=True)
        self.nest(
            merged([Dim(*given) for given in steps]),
            lambda r, w, _: one(lambda c: r + (self._index(apart[0], c) + even[0]), w),
        )

    def _joined(
        self,
        op: str,
        at: Callable[[Register | int], list[Register]],
        count: int,
        width: int,
        chains: int,
    ) -> list[Register]:
        def join(x: Register, y: Register) -> Register:
            return operations.apply(self.writer, OPS[op].join, [x, y], self.dtype)

        if count <= _FEW:
            return _in_halves(at, join, 0, count)
        state = [x for c in range(chains) for x in at(c)]
        whole = chains + (count - chains) // chains * chains

        def several(c: Register, *sums: Register) -> list[Register]:
            numbers = [x for u in range(chains) for x in at(c + u)]
            return [join(s, x) for s, x in zip(sums, numbers, strict=True)]

        state = list(self.writer.loop(whole, several, state, start=chains, step=chains))
        for c in range(whole, count):
            state[:width] = [join(s, x) for s, x in zip(state, at(c), strict=False)]
        while len(state) > width:
            half = len(state) // 2
            state = [join(x, y) for x, y in zip(state[:half], state[half:], strict=True)]
        return state

    def _positions(
        self, op: str, at: Callable[[Register | int], list[Register]], count: int, width: int
    ) -> list[Register]:
        """The position of the extreme; the first one of equals and the first NaN win."""
        w = self.writer
        zero = w.constant(0.0, self.kind)

        def better(c: Register, *state: Register) -> list[Register]:
            best, where = state[:width], state[width:]
            position = w.broadcast(w.cast(c, self.element), self.lanes)
            found, places = [], []
            for s, p, x in zip(best, where, at(c), strict=True):
                takes = (x > s if op == "argmax" else x < s) | (w.is_nan(x) & s.eq(s))
                found.append(w.select(takes, x, s))
                places.append(w.select(takes, position, p))
            return [*found, *places]

        return w.loop(count, better, [*at(0), *[zero] * width], start=1)[width:]

    def _contraction(self, out: int, n: Node) -> None:
        """Sums of products of two values, both of which may depend on the slice."""
        letters, _, result = n.attr("subscripts").partition("->")
        names = letters.split(",")
        shapes = [self._graph.nodes[a].aval.shape for a in n.args]
        sizes = einsum_lengths(n.attr("subscripts"), shapes)
        order = [*result, *(k for k in sizes if k not in result)]
        grid = np.indices([sizes[k] for k in order]).reshape(len(order), -1)
        size = self._queries.size(out)
        count = grid.shape[1] // max(1, size)
        where = [
            np.ravel_multi_index([grid[order.index(k)] for k in ks], shape)
            if ks
            else np.zeros(grid.shape[1], int)
            for ks, shape in zip(names, shapes, strict=True)
        ]
        where = [
            self.schedule.lies(a)[1].reshape(-1)[k] if self._queries.dependent[a] else k
            for a, k in zip(n.args, where, strict=True)
        ]
        target = self.schedule.row(out)
        width = min(self.vectors, 2)

        def each(j: Register | int) -> None:
            place = self.row(target, j)

            def group(skip: Register | int) -> None:
                def term(c: Register | int, *sums: Register) -> list[Register]:
                    found = []
                    indices = [self._index(o, j * count + c) for o in where]
                    for g in range(width):
                        factors = [
                            self._number(a, index, skip, g)
                            for a, index in zip(n.args, indices, strict=True)
                        ]
                        product = functools.reduce(operator.mul, factors[:-1], 1.0)
                        found.append(self.writer.fma(product, factors[-1], sums[g]))
                    return found

                zero = self.writer.constant(0.0, self.kind)
                for g, s in enumerate(self.writer.loop(count, term, [zero] * width)):
                    self.store_at(s, place, skip, g)

            self.groups(width, group)

        self.each(size, each)

    def _number(self, a: int, index: Register | int, skip: Register | int, g: int) -> Register:
        """One number of a value, for one vector of slices."""
        if not self._queries.dependent[a]:
            n = self._graph.nodes[a]
            if n.op == "scalar":
                return operations.constant(self.writer, number(n), n.aval.dtype, self.lanes)
            return self._weight(self.weights.flat(a, n.aval.shape), index)
        place = self.row(self.schedule.base(a), index)
        return self.load(self.writer.offset(place, skip, self.element), g)


def _in_halves(
    at: Callable[[int], list[Register]],
    join: Callable[[Register, Register], Register],
    first: int,
    end: int,
) -> list[Register]:
    """Numbers joined in pairs, and these in pairs."""
    if end - first == 1:
        return at(first)
    middle = (first + end) // 2
    halves = (_in_halves(at, join, *part) for part in ((first, middle), (middle, end)))
    return [join(x, y) for x, y in zip(*halves, strict=True)]
