"""One tile of slices through a network: each step as loops over rows of scratch memory.

The slices of a tile are the lanes of a few vectors. A product keeps a block of sums in
registers, so many outputs times so many vectors, and reads each weight once for all of them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from ....ir.graph import Node, number
from ....ir.ops import OPS, Kind
from ....ir.rewrite import Region
from ....ir.shapes import einsum_lengths
from .. import operations
from ..registers import INDEX, Register, Type
from ..writer import Writer
from .schedule import Schedule, Step, moved
from .weights import Weights

_UNROLLED = 100
"""Multiply-adds of vectors in one block: up to so many stand there one after the other."""
_AT_ONCE = 4.0
"""Instructions of a region for each number: costlier ones are a loop of their own, because a
block of a product would repeat their text for each of its sums."""
_LONG = 32
"""Terms of a sum: one of more is made of several, whose errors are smaller."""
_CHAINS = 4
"""Of how many, where numbers are joined."""


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
        self._packed, self._scratch, self._weights = packed, scratch, weights
        registers = writer.target.registers
        self._wide = min(vectors, 4 if registers >= 32 else 2)

    # --- memory -------------------------------------------------------------------------

    def row(self, first: int, j: Register | int = 0) -> Register:
        """Where a row of scratch memory begins: `j` rows after another one."""
        base = self.writer.offset(self._scratch, first * self.slices, self.element)
        count = j * self.slices
        return self.writer.offset(base, count, self.element)

    def _load(self, pointer: Register, g: int) -> Register:
        """Vector `g` of a row."""
        at = self.writer.offset(pointer, g * self.lanes, self.element)
        return self.writer.load(at, self.kind, self.align)

    def _store(self, x: Register, pointer: Register, g: int) -> None:
        self.writer.store(x, self.writer.offset(pointer, g * self.lanes, self.element), self.align)

    @property
    def align(self) -> int:
        return self.lanes * self.kind.bits // 8

    def _weight(self, at: int, j: Register | int = 0) -> Register:
        """A number among the weights, in all lanes."""
        w = self.writer
        where = w.offset(w.offset(self._packed, at, self.element), j, self.element)
        return w.broadcast(w.load(where, Type(self.element)), self.lanes)

    def _as_stored(self, x: Register) -> Register:
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
        """Write a step."""
        n = self._graph.nodes[step.out]
        if step.product is not None:
            self._product(step)
        elif step.region is not None:
            self._region(step.region, {})
        elif OPS[n.op].kind is Kind.REDUCTION:
            self._reduction(step.out, n)
        elif OPS[n.op].kind is Kind.CONTRACTION:
            self._contraction(step.out, n)
        elif n.op == "concat":
            self._concat(step.out, n)
        else:
            order = moved(n.op, dict(n.attrs), self._graph.nodes[n.args[0]].aval.shape)
            self._copy(n.args[0], order.reshape(-1), step.out, None)

    # --- products -----------------------------------------------------------------------

    def _product(self, step: Step) -> None:
        assert step.product is not None
        w, x = self._graph.nodes[step.product].args
        n, k = self._graph.nodes[w].aval.shape
        bias = self.schedule.bias(step)
        sizes = _shared(n, self._high(k))
        at = self._weights.blocks(w, bias, (n, k), sizes)
        known = {step.product: step.product}
        if bias is not None:
            known[self._queries.bias(step.product)[0]] = step.product  # type: ignore[index]
        region = step.region
        rest = [] if region is None else [i for i in region.nodes if i not in known]
        fused = sum(OPS[self._graph.nodes[i].op].instructions for i in rest) <= _AT_ONCE
        source, target = self.schedule.row(x), self.schedule.row(step.out)
        done = 0
        for size in dict.fromkeys(sizes):
            count = sizes.count(size)
            first = done

            def block(
                b: Register | int, size: int = size, at: int = at, first: int = first
            ) -> None:
                record = self.writer.offset(self._packed, at, self.element)
                record = self.writer.offset(record, b * (size * (k + 1)), self.element)
                rows = [b * size + (first + r) for r in range(size)]

                def group(skip: Register | int) -> None:
                    sums = self._sums(size, k, record, self.row(source), skip)
                    for r, j in enumerate(rows):
                        place = self.row(target, j)
                        for g, s in enumerate(sums[r]):
                            if rest and fused:
                                s = self._numbers(region, rest, j, skip, g, dict.fromkeys(known, s))  # type: ignore[arg-type]
                            self._store_at(self._as_stored(s), place, skip, g)

                self.groups(self._width(size), group)

            self.each(count, block)
            at += count * size * (k + 1)
            done += count * size
        if rest and not fused:
            assert region is not None
            self._region(region, dict.fromkeys(known, step.out))

    def _high(self, k: int) -> int:
        """Outputs of a block at most, whose sums have so many terms."""
        if not self.writer.target.fma:  # a product needs a register until it is added
            return 2 if k > _LONG else 4
        return 3 if k > _LONG else 6

    def _width(self, size: int) -> int:
        """Vectors that a block of so many outputs has: more of them for one output alone."""
        return min(self.vectors, 4) if size == 1 else self._wide

    def _store_at(self, x: Register, row: Register, skip: Register | int, g: int) -> None:
        self._store(x, self.writer.offset(row, skip, self.element), g)

    def _sums(
        self, size: int, k: int, record: Register, source: Register, skip: Register | int
    ) -> list[list[Register]]:
        """The sums of a block: for each output and each vector."""
        w, width = self.writer, self._width(size)
        one = Type(self.element)
        begun = [
            w.broadcast(w.load(w.offset(record, r, self.element), one), self.lanes)
            for r in range(size)
        ]
        source = w.offset(source, skip, self.element)
        record = w.offset(record, size, self.element)
        # two sums, of even and odd terms: a smaller error, and additions that wait less
        chains = 2 if k > _LONG or (size == 1 and k > 1) else 1
        zero = w.constant(0.0, self.kind)
        state = [x for x in begun for _ in range(width)] + [zero] * ((chains - 1) * width * size)

        def term(sums: Sequence[Register], i: Register | int, chain: int) -> list[Register]:
            row = w.offset(source, i * self.slices, self.element)
            numbers = w.offset(record, i * size, self.element)
            xs = [self._load(row, g) for g in range(width)]
            found = list(sums)
            for r in range(size):
                c = w.broadcast(w.load(w.offset(numbers, r, self.element), one), self.lanes)
                for g in range(width):
                    at = (chain * size + r) * width + g
                    found[at] = w.fma(c, xs[g], found[at])
            return found

        step, whole = 1, k
        if k * size * width > _UNROLLED:
            step = 4 if size * width < 8 else 2
            whole = k - k % step

            def several(i: Register, *sums: Register) -> Sequence[Register]:
                found: Sequence[Register] = sums
                for u in range(step):
                    found = term(found, i + u, u % chains)
                return found

            state = list(w.loop(whole, several, state, step=step))
        else:
            whole = 0
        for i in range(whole, k):
            state = term(state, i, i % chains)
        if chains == 2:
            half = len(state) // 2
            state = [x + y for x, y in zip(state[:half], state[half:], strict=True)]
        return [state[r * width : (r + 1) * width] for r in range(size)]

    # --- elementwise --------------------------------------------------------------------

    def _region(self, region: Region, known: dict[int, int]) -> None:
        """Elementwise nodes, number by number; `known`: nodes that lie where others do."""
        nodes = [i for i in region.nodes if i not in known]
        target = self.schedule.row(region.out)
        width = min(self.vectors, 2)

        def each(j: Register | int) -> None:
            place = self.row(target, j)

            def group(skip: Register | int) -> None:
                for g in range(width):
                    stored = {
                        i: self._load(
                            self.writer.offset(
                                self.row(self.schedule.row(at), j), skip, self.element
                            ),
                            g,
                        )
                        for i, at in known.items()
                    }
                    x = self._numbers(region, nodes, j, skip, g, stored)
                    self._store_at(self._as_stored(x), place, skip, g)

            self.groups(width, group)

        self.each(self._queries.size(region.out), each)

    def _numbers(
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
            at = self._weights.flat(a, () if single else shape)
            x = self._weight(at, 0 if single else j)
        else:
            order = np.arange(self._queries.size(a)).reshape(n.aval.shape)
            index = self._index(np.broadcast_to(order, shape).reshape(-1), j)
            place = self.row(self.schedule.row(a), index)
            x = self._load(self.writer.offset(place, skip, self.element), g)
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

    def _copy(self, a: int, order: np.ndarray, out: int, into: np.ndarray | None) -> None:
        """Numbers of a value, of which `order` says which, to rows `into` of another one."""
        target = self.schedule.row(out)
        dependent = self._queries.dependent[a]
        flat = 0 if dependent else self._weights.flat(a, self._graph.nodes[a].aval.shape)

        def each(j: Register | int) -> None:
            place = self.row(target, j if into is None else self._index(into, j))
            index = self._index(order, j)
            if dependent:
                source = self.row(self.schedule.row(a), index)
                for g in range(self.vectors):
                    self._store(self._load(source, g), place, g)
            else:
                x = self._weight(flat, index)
                for g in range(self.vectors):
                    self._store(x, place, g)

        self.each(order.size, each)

    def _concat(self, out: int, n: Node) -> None:
        axis, start = n.attr("axis"), 0
        whole = np.arange(self._queries.size(out)).reshape(n.aval.shape)
        for a in n.args:
            length = self._graph.nodes[a].aval.shape[axis]
            into = whole[(*(slice(None),) * axis, slice(start, start + length))]
            start += length
            self._copy(a, np.arange(self._queries.size(a)), out, into.reshape(-1))

    def _reduction(self, out: int, n: Node) -> None:
        """Along axes: numbers joined one after the other, long sums in several chains."""
        (a,) = n.args
        shape, axes = self._graph.nodes[a].aval.shape, n.attr("axis")
        kept = [d for d in range(len(shape)) if d not in axes]
        source = np.arange(math.prod(shape)).reshape(shape)
        table = source.transpose(*kept, *axes).reshape(self._queries.size(out), -1)
        count = table.shape[1]
        target, first = self.schedule.row(out), self.schedule.row(a)
        width = min(self.vectors, 2)
        position = OPS[n.op].finds_position
        chains = _CHAINS if count >= _LONG and n.op in ("sum", "prod") else 1

        def each(j: Register | int) -> None:
            place = self.row(target, j)

            def group(skip: Register | int) -> None:
                def at(c: Register | int) -> list[Register]:
                    index = self._index(table.reshape(-1), j * count + c)
                    row = self.writer.offset(self.row(first, index), skip, self.element)
                    return [self._load(row, g) for g in range(width)]

                if position:
                    sums = self._positions(n.op, at, count, width)
                else:
                    sums = self._joined(n.op, at, count, width, chains)
                for g, s in enumerate(sums):
                    self._store_at(s, place, skip, g)

            self.groups(width, group)

        self.each(table.shape[0], each)

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
        """Where the number stands that no later one takes the place of; the first NaN wins."""
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
                    self._store_at(s, place, skip, g)

            self.groups(width, group)

        self.each(size, each)

    def _number(self, a: int, index: Register | int, skip: Register | int, g: int) -> Register:
        """One number of a value, for one vector of slices."""
        if not self._queries.dependent[a]:
            n = self._graph.nodes[a]
            if n.op == "scalar":
                return operations.constant(self.writer, number(n), n.aval.dtype, self.lanes)
            return self._weight(self._weights.flat(a, n.aval.shape), index)
        place = self.row(self.schedule.row(a), index)
        return self._load(self.writer.offset(place, skip, self.element), g)


def _shared(n: int, most: int) -> list[int]:
    """`n` outputs in as few blocks as possible, of at most two sizes, the larger ones first."""
    blocks = -(-n // most)
    size, larger = divmod(n, blocks)
    return [size + 1] * larger + [size] * (blocks - larger)
