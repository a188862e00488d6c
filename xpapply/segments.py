"""Networks too deep for one kernel: in several, each of which keeps its values on chip.

What one hands to the next goes through memory, to a *record* of each slice: the values that are
kept, flat, one behind the other. Which values these are is chosen by what is to be computed, with
the margins of tiles, and what is to be moved.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .ir.graph import Graph
from .ir.ops import OPS, Kind
from .ir.rewrite import between
from .ir.tiles import Tiles
from .tiles import choose

_MOVED, _MASKED = 128, 160
"""Floating-point operations that take as long as reading or writing a number of a tile, and as
putting it to 0 where a mask says so: measured on a GPU."""
_MOST = 64
"""More values that might be kept are not looked at: choosing would take too long."""


@dataclass(frozen=True)
class Segment:
    """One of the kernels.

    Attributes
    ----------
    tiles : Tiles
        What it computes.
    read : tuple of int or None
        Start and stop of the part of a record that it reads; None: it reads the slice.
    written : tuple of int or None
        The same of the part that it writes; None: its result is that of the network.
    """

    tiles: Tiles
    read: tuple[int, int] | None
    written: tuple[int, int] | None


@dataclass(frozen=True)
class Segments:
    """The kernels, in their order.

    Attributes
    ----------
    parts : tuple of Segment
        The kernels.
    numbers : int
        Of a record.
    copied : int
        So many numbers of slices are copied to the front of records: a later kernel reads them
        with other values.
    """

    parts: tuple[Segment, ...]
    numbers: int
    copied: int


def segments(graph: Graph, why_not: Callable[[Graph], str | None]) -> Segments | str:
    """The kernels of a network, or why there are none.

    Parameters
    ----------
    graph : Graph
        Of a slice, with the ops that the engine has kernels for.
    why_not : callable
        Why there is no kernel for the graph of a tile, or None.
    """
    return _Choice(graph, why_not).made()


class _Choice:
    """Chooses the values that are kept, from the last to the first."""

    def __init__(self, graph: Graph, why_not: Callable[[Graph], str | None]) -> None:
        self._graph, self._why_not = graph, why_not
        self._dependent = graph.dependent()
        self._slice = _as_it_is_read(graph)
        self._values = {*self._read_by_products(), self._slice, graph.out}
        self._users: dict[int, set[int]] = {}
        for value in self._values:
            for source in self._sources([value]):
                self._users.setdefault(source, set()).add(value)

    def made(self) -> Segments | str:
        """The kernels, or why there are none."""
        if len(self._values) > _MOST:
            return f"more than {_MOST} layers"
        kept: dict[int, tuple[Tiles, tuple[int, ...]]] = {}
        wanted = {self._graph.out}
        while wanted:
            value = max(wanted)  # all that read it have been chosen
            wanted.remove(value)
            inside = self._grown(value)
            found, sources = self._tiles(inside), self._sources(inside)
            if isinstance(found, str):
                return f"of layer {self._layer(value)}: {found}"
            kept[value] = found, sources
            wanted |= {*sources} - {self._slice}
        if len(kept) == 1:
            return "one kernel has all of it"
        return self._placed(kept)

    def _grown(self, value: int) -> frozenset[int]:
        """What is computed with a value that is kept: what it follows from, as far as it pays."""
        inside = frozenset([value])
        grows = True
        while grows:
            grows = False
            for source in sorted(self._sources(inside), reverse=True):
                if source == self._slice or not self._users[source] <= inside:
                    continue
                more = inside | {source}
                apart = self._work(inside) + self._work(frozenset([source]))
                if self._work(more) <= apart and not isinstance(self._tiles(more), str):
                    inside, grows = more, True
                    break
        return inside

    def _work(self, inside: frozenset[int]) -> float:
        """Operations of the kernel of some values."""
        found = self._tiles(inside)
        if isinstance(found, str):
            return math.inf
        nodes, result = found.graph.nodes, found.graph.result
        moved = found.graph.input.shape[0] + math.prod(result.shape)
        masked = sum(math.prod(n.aval.shape) for n in nodes if n.op == "where")
        return found.count * (found.graph.flops() + _MOVED * moved + _MASKED * masked)

    def _tiles(self, inside: frozenset[int]) -> Tiles | str:
        """The tiles of the kernel that computes the last of some values, or why there are none."""
        if inside not in self._known:
            sources = self._sources(inside)
            self._known[inside] = self._chosen(sources, max(inside))
        return self._known[inside]

    def _chosen(self, sources: tuple[int, ...], value: int) -> Tiles | str:
        if sources == (self._slice,):
            sources = (self._graph.entry,)
        elif any(self._graph.nodes[i].aval.dtype != "float32" for i in sources):
            return "slices are read as they are behind other layers"
        return choose(between(self._graph, sources, value), self._why_not, whole=True)

    @functools.cached_property
    def _known(self) -> dict[frozenset[int], Tiles | str]:
        return {}

    def _sources(self, inside: Iterable[int]) -> tuple[int, ...]:
        """The values that some others are computed from."""
        inside = set(inside)
        found: set[int] = set()
        stack, seen = [max(inside)], {max(inside)}
        while stack:
            for a in self._graph.nodes[stack.pop()].args:
                if a in seen or not self._dependent[a]:
                    continue
                seen.add(a)
                if a in self._values and a not in inside:
                    found.add(a)
                else:
                    stack.append(a)
        return tuple(sorted(found))

    def _read_by_products(self) -> set[int]:
        """What products read, before anything moved its numbers."""
        nodes, found = self._graph.nodes, set()
        stack = [a for n in nodes if OPS[n.op].kind is Kind.CONTRACTION for a in n.args]
        while stack:
            i = stack.pop()
            if not self._dependent[i] or i == self._slice:
                continue
            if OPS[nodes[i].op].kind is Kind.LAYOUT:
                stack += nodes[i].args
            else:
                found.add(i)
        return {i for i in found if nodes[i].aval.dtype == "float32"}

    def _layer(self, value: int) -> int:
        """How many products there are up to a value."""
        nodes = self._graph.nodes[: value + 1]
        return sum(OPS[n.op].kind is Kind.CONTRACTION for n in nodes)

    def _placed(self, kept: dict[int, tuple[Tiles, tuple[int, ...]]]) -> Segments:
        """The kernels in their order, and where in a record the values are."""
        order = sorted(kept)
        last = {a: value for value in order for a in kept[value][1]}
        beside = {a for _, sources in kept.values() if len(sources) > 1 for a in sources}
        copied = self._slice in beside
        starts: dict[int, int] = {}
        most = 0
        for value in [*([self._slice] if copied else []), *order[:-1]]:
            size, at = self._size(value), 0
            for i in sorted((i for i in starts if last[i] >= value), key=starts.__getitem__):
                if starts[i] - at >= size:
                    break
                at = max(at, starts[i] + self._size(i))
            starts[value] = at
            most = max(most, at + size)
        places = {i: (at, at + self._size(i)) for i, at in starts.items()}
        parts = []
        for value in order:
            tiles, sources = kept[value]
            read = None
            if sources != (self._slice,):
                own = [places[a] for a in sources]
                read = min(own)[0], max(stop for _, stop in own)
                tiles = tiles.placed([start - read[0] for start, _ in own])
            if value in places:
                tiles = replace(tiles, row=most)
            parts.append(Segment(tiles, read, places.get(value)))
        return Segments(tuple(parts), most, self._size(self._slice) if copied else 0)

    def _size(self, value: int) -> int:
        return math.prod(self._graph.nodes[value].aval.shape)


def _as_it_is_read(graph: Graph) -> int:
    """The slice, in its own shape and in float32 if that is all that is read of it."""
    at = graph.entry
    while True:
        users = [i for i, n in enumerate(graph.nodes) if at in n.args]
        if len(users) != 1 or graph.nodes[users[0]].op not in ("reshape", "cast"):
            return at
        if users[0] == graph.out:
            return at
        (at,) = users
