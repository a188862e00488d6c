"""Products of constants and values, whose sums stay in registers: layers and convolutions alike.

A block is some outputs at some places, for some vectors of slices. Of each term it reads a weight
for every output and a vector for every place, wherever windows have it: nothing is brought
together before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ....ir.ops import OPS
from ...geometry import Dim
from ...schedule import Step
from .. import operations
from ..registers import Register, Type
from .tile import Tile
from .weights import Values

Index = Register | int

_UNROLLED = 240
"""Multiply-adds of vectors in one block: up to so many stand there one after the other."""
_LONG = 32
"""Terms of a sum: one of more is made of several, whose errors are smaller."""
_SEGMENT = 64
"""Terms at most of one sum at many places, where there is no room for several: longer ones are
added up in pieces."""
_AT_ONCE = 8
"""Sums that have to be under way for none to wait for the one before."""
_NEAR_BYTES = 1 << 18
"""Weights of a layer up to this size are read at each place, from the second cache. Of more, a
block is read once, and what it is multiplied with for each block."""


class Products:
    """Writes the product of a step, with what follows it.

    Parameters
    ----------
    tile : Tile
        The slices.
    step : Step
        With a product.
    """

    def __init__(self, tile: Tile, step: Step) -> None:
        assert step.product is not None
        self._tile, self._writer, self._step = tile, tile.writer, step
        schedule = tile.schedule
        self._product = p = schedule.product(step)
        self._bias, self._rest = schedule.bias(step), schedule.rest(step)
        nodes = {step.product, schedule.face(step.product)}
        if step.region is not None:
            nodes |= set(step.region.nodes) - set(self._rest)
        self._sums_of = nodes
        """The nodes that are the sums of a block."""
        self._cheap = schedule.cheap(self._rest)
        self._late = bool(p.joins) and p.joins != "sum" and schedule.rises(step)
        """Whether sums are joined before the tail."""
        self._high, self._far, self._width, self._chains = self._block()

    def _most(self) -> int:
        """Sums that fit in registers, besides what is multiplied."""
        target = self._writer.target
        if not target.fma:  # a product needs a register until it is added
            return 8
        if target.registers >= 32:
            return 24
        return 10 if self._product.places else 12

    def _block(self) -> tuple[int, int, int, int]:
        """Outputs, places and vectors of a block, and how many sums one result is made of."""
        p, t = self._product, self._tile
        taps, n = len(p.taps), p.outputs.size
        most = max(self._most(), taps)
        last = p.places[-1].size if p.places else 1
        if not p.places and taps == n == 1:
            width = min(t.vectors, 4)
        else:
            width = t.wide
        while width > 1 and width * taps > most:
            width //= 2
        alone = not p.places and taps == 1
        # the same for all tiles, so that a slice gives the same numbers wherever it lies
        most_of_one = _LONG // 2 if t.schedule.graph.gathers else _LONG
        several = alone and (p.count > most_of_one or (n == 1 and p.count > 1))
        long = 2 if several else 1
        best: tuple[float, int, int] | None = None
        if alone and not (t.schedule.graph.gathers and self._writer.target.registers >= 32):
            n = min(n, (6 if self._writer.target.fma else 4) // long)
        for high in range(1, n + 1):
            far = min(last, most // (high * taps * width * long))
            if far < 1:
                break
            sizes, fars = shared(p.outputs.size, high), shared(last, far)
            cost = 0.0
            for h in sizes:
                for f in fars:
                    sums, reads = h * f * taps * width * long, h + f * taps * width
                    cost += max(sums / 2, _AT_ONCE / 2, reads / 2) + reads / 20
            if best is None or cost < best[0] - 1e-9:
                best = cost, high, far
        assert best is not None
        _, high, far = best
        return high, far, width, long

    # --- loops --------------------------------------------------------------------------

    def write(self) -> None:
        """All blocks."""
        p, t, w = self._product, self._tile, self._writer
        g, n, k = p.groups.size, p.outputs.size, p.count
        sizes = shared(n, self._high)
        at = t.weights.blocks(self._matrix, self._offsets, (g, n, k), sizes)
        packed = w.offset(t.packed, at, t.element)
        near = g * n * k * t.kind.bits // 8 <= _NEAR_BYTES

        def group(i: Index) -> None:
            record = w.offset(packed, i * (n * (k + 1)), t.element)
            of_group = tuple(i * step for step in p.groups[1:])
            one = functools.partial(block, record, of_group)
            if near:
                self._places(lambda *at: self._outputs(sizes, functools.partial(one, *at)))
            else:
                self._outputs(sizes, lambda *of: self._places(lambda far, at: one(far, at, *of)))

        def block(
            record: Register,
            of_group: tuple[Index, ...],
            far: int,
            at: tuple[Index, ...],
            high: int,
            first: Index,
            skip: Index,
        ) -> None:
            read, write, number = (a + b for a, b in zip(at, of_group, strict=True))
            place = write + first * p.outputs.write, number + first * p.outputs.number
            there = w.offset(record, skip, t.element)
            t.groups(self._width, lambda g: self._one(high, far, there, read, *place, g))

        t.each(g, group)
        if self._rest and not self._cheap:
            self._behind()

    def _outputs(self, sizes: Sequence[int], body: Callable[[int, Index, Index], None]) -> None:
        """``body(outputs, first, skip)`` for blocks of outputs; `skip`: of the weights."""
        first = skip = 0
        for size in dict.fromkeys(sizes):
            count, record = sizes.count(size), size * (self._product.count + 1)

            def each(b: Index, size: int = size, first: int = first, skip: int = skip) -> None:
                body(size, b * size + first, b * (size * (self._product.count + 1)) + skip)

            self._tile.each(count, each)
            first, skip = first + count * size, skip + count * record

    def _places(self, body: Callable[[int, tuple[Index, ...]], None]) -> None:
        """``body(places, (read, write, number))`` for blocks of places, along the last axis."""
        p = self._product
        if not p.places:
            body(1, (0, 0, 0))
            return
        *outer, last = p.places

        def inside(*at: Index) -> None:
            first = 0
            sizes = shared(last.size, self._far)
            for size in dict.fromkeys(sizes):
                count = sizes.count(size)

                def each(b: Index, size: int = size, first: int = first) -> None:
                    begin = b * size + first
                    body(size, tuple(a + begin * s for a, s in zip(at, last[1:], strict=True)))

                self._tile.each(count, each)
                first += count * size

        self._tile.nest(outer, inside)

    # --- one block ----------------------------------------------------------------------

    def _one(
        self,
        high: int,
        far: int,
        record: Register,
        read: Index,
        write: Index,
        number: Index,
        skip: Index,
    ) -> None:
        """A block: its sums, what is computed with them, and where that is stored."""
        p, t, w = self._product, self._tile, self._writer
        last = p.places[-1] if p.places else Dim(1, 0)
        base = t.row(t.schedule.base(p.source), read + p.base)
        source = w.offset(base, skip, t.element)
        target = w.offset(t.row(t.schedule.row(self._step.out), write), skip, t.element)
        spots = [(q * last.read + tap, q, extra) for q in range(far) for tap, extra in p.taps]
        sums = self._sums(high, [at for at, _, _ in spots], record, source)
        taps = len(p.taps)
        for r in range(high):
            for q in range(far):
                row = w.offset(target, (r * p.outputs.write + q * last.write) * t.slices, t.element)
                j = number + (r * p.outputs.number + q * last.number)
                for g in range(self._width):
                    found = [sums[r][q * taps + k][g] for k in range(taps)]
                    if not self._late and self._cheap:
                        found = [
                            self._finished(x, j + extra, skip, g)
                            for x, (_, extra) in zip(found, p.taps, strict=True)
                        ]
                    while len(found) > 1:
                        pairs = zip(found[::2], found[1::2], strict=False)
                        odd = found[len(found) // 2 * 2 :]
                        found = [self._joined(x, y) for x, y in pairs] + odd
                    (x,) = found
                    if self._late and self._cheap:
                        x = self._finished(x, 0, skip, g)
                    t.store_at(t.as_stored(x), row, 0, g)

    def _joined(self, x: Register, y: Register) -> Register:
        join = OPS[self._product.joins].join
        return operations.apply(self._writer, join, [x, y], self._tile.dtype)

    def _finished(self, x: Register, j: Index, skip: Index, g: int) -> Register:
        """Number `j` of what follows the product."""
        if not self._rest:
            return x
        assert self._step.region is not None
        known = dict.fromkeys(self._sums_of, x)
        return self._tile.numbers(self._step.region, self._rest, j, skip, g, known)

    def _behind(self) -> None:
        """Costly elementwise nodes, once all sums are stored."""
        t, step = self._tile, self._step
        assert step.region is not None
        if not self._product.joins:
            t.region(step.region, dict.fromkeys(self._sums_of, step.out))
            return
        target, size = t.schedule.row(step.out), t.schedule.queries.size(step.out)

        def each(j: Index) -> None:
            def group(skip: Index) -> None:
                place = t.row(target, j)
                x = t.load(self._writer.offset(place, skip, t.element), 0)
                t.store_at(t.as_stored(self._finished(x, 0, skip, 0)), place, skip, 0)

            t.groups(1, group)

        t.each(size, each)

    def _sums(
        self, high: int, spots: Sequence[int], record: Register, source: Register
    ) -> list[list[list[Register]]]:
        """The sums of a block: for each output, place and vector."""
        w, t, width = self._writer, self._tile, self._width
        one, chains = Type(t.element), self._chains
        begun = [
            w.broadcast(w.load(w.offset(record, r, t.element), one), t.lanes) for r in range(high)
        ]
        record = w.offset(record, high, t.element)
        zero = w.constant(0.0, t.kind)
        many = len(spots) * width
        state = [x for x in begun for _ in range(many)] + [zero] * ((chains - 1) * high * many)

        def term(
            sums: Sequence[Register], x: Register, c: Register, at: int, k: int
        ) -> list[Register]:
            """Add term `k` to sums, with numbers `at` rows after `x` and weights after `c`."""
            found, chain = list(sums), k % chains
            xs = []
            for s in spots:
                row = w.offset(x, (s + at) * t.slices, t.element)
                xs += [t.load(row, g) for g in range(width)]
            for r in range(high):
                y = w.broadcast(w.load(w.offset(c, k * high + r, t.element), one), t.lanes)
                for i, number in enumerate(xs):
                    place = (chain * high + r) * many + i
                    found[place] = w.fma(y, number, found[place])
            return found

        dims = list(self._product.terms)
        count = self._product.count
        per = max(1, _SEGMENT // (count // dims[0].size)) if dims else 1
        if chains == 1 and count > _SEGMENT and dims[0].size > per:
            state = self._in_pieces(dims, per, state, source, record, high, many, term)
        else:
            state = self._terms(dims, state, source, record, high, many, term)
        while len(state) > high * many:
            half = len(state) // 2
            state = [x + y for x, y in zip(state[:half], state[half:], strict=True)]
        return [
            [
                state[(r * len(spots) + s) * width : (r * len(spots) + s + 1) * width]
                for s in range(len(spots))
            ]
            for r in range(high)
        ]

    def _in_pieces(
        self,
        dims: list[Dim],
        per: int,
        begun: list[Register],
        x: Register,
        c: Register,
        high: int,
        many: int,
        term: Callable[..., list[Register]],
    ) -> list[Register]:
        """Sum in pieces of so many terms of the first axis, added in memory."""
        w, t = self._writer, self._tile
        first, *rest = dims
        inner = math.prod(d.size for d in rest)
        memory = w.scratch(str(t.kind), len(begun))
        places = [w.offset(memory, k, str(t.kind)) for k in range(len(begun))]
        for s, place in zip(begun, places, strict=True):
            w.store(s, place, t.align)
        zeros = [w.constant(0.0, t.kind)] * len(begun)

        def piece(i: Index, size: int = per) -> None:
            there = w.offset(x, i * (first.read * t.slices), t.element)
            weights = w.offset(c, i * (inner * high), t.element)
            part = [first._replace(size=size), *rest] if size > 1 else rest
            sums = self._terms(part, zeros, there, weights, high, many, term)
            for s, place in zip(sums, places, strict=True):
                w.store(w.load(place, t.kind, t.align) + s, place, t.align)

        whole = first.size - first.size % per
        w.loop(whole, lambda i: piece(i), step=per)
        if whole < first.size:
            piece(whole, first.size - whole)
        return [w.load(place, t.kind, t.align) for place in places]

    def _terms(
        self,
        dims: list[Dim],
        state: list[Register],
        x: Register,
        c: Register,
        high: int,
        many: int,
        term: Callable[..., list[Register]],
    ) -> list[Register]:
        """Sums of the terms along some axes: the last ones stand there one after the other."""
        w, t = self._writer, self._tile
        each = high * many
        count = math.prod(d.size for d in dims)
        unrolled = _UNROLLED if self._product.places else _UNROLLED // 2
        if count * each <= max(unrolled, each):
            ends = np.zeros(1, int)
            for d in dims:
                ends = (ends[:, None] + d.read * np.arange(d.size)).reshape(-1)
            for k, at in enumerate(ends.tolist()):
                state = term(state, x, c, at, k)
            return state
        first, *rest = dims
        inner = math.prod(d.size for d in rest)
        step = 1
        if not rest:
            step = min(4 if each < 8 else 2, first.size)

        def several(i: Index, *sums: Register) -> list[Register]:
            there = w.offset(x, i * (first.read * t.slices), t.element)
            weights = w.offset(c, i * (inner * high), t.element)
            part = [first._replace(size=step), *rest]
            return self._terms(
                part[1:] if step == 1 else part, list(sums), there, weights, high, many, term
            )

        whole = first.size - first.size % step
        state = list(w.loop(whole, several, state, step=step))
        if whole < first.size:
            there = w.offset(x, whole * first.read * t.slices, t.element)
            weights = w.offset(c, whole * inner * high, t.element)
            left = [first._replace(size=first.size - whole), *rest]
            state = self._terms(left, state, there, weights, high, many, term)
        return state

    # --- weights ------------------------------------------------------------------------

    def _matrix(self, values: Values) -> np.ndarray:
        p = self._product
        return values[p.matrix].transpose(p.order)

    def _offsets(self, values: Values) -> np.ndarray:
        assert self._step.product is not None
        if self._bias is None:
            return np.zeros((self._product.groups.size, self._product.outputs.size))
        return self._tile.schedule.of_outputs(self._step.product, values[self._bias])


def shared(n: int, most: int) -> list[int]:
    """`n` outputs in as few blocks as possible, of at most two sizes, the larger ones first."""
    blocks = -(-n // most)
    size, larger = divmod(n, blocks)
    return [size + 1] * larger + [size] * (blocks - larger)
