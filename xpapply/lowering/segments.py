"""Networks too deep for one kernel: in several, each of which keeps its values on chip.

What one hands to the next goes through memory, to a *record* of each slice: the values that are
kept, flat, one after the other. Which values these are is chosen by what is to be computed, with
the margins of tiles, and what is to be moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..arrays.layout import first_gap
from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import between
from ..ir.tiles.tile_graph import tiled
from ..ir.tiles.tiles import Tiles
from ..limits import LIMITS
from .tiles import choose


@dataclass(frozen=True)
class Segment:
    """A segment: one of the kernels.

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

    @property
    def multiplies(self) -> bool:
        """Whether it has a product; otherwise it is a reduction, without a kernel."""
        return _multiplies(self.tiles.graph)


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


def segments(
    graph: Graph,
    why_not: Callable[[Graph], str | None],
    of_tile: Callable[[Graph], float],
    of_reduction: Callable[[Graph], float],
) -> Segments | str:
    """The kernels of a network, or why there are none.

    Parameters
    ----------
    graph : Graph
        Of a slice, with the ops that the engine has kernels for.
    why_not : callable
        Why there is no kernel for the graph of a tile, or None.
    of_tile, of_reduction : callable
        What a kernel takes for a tile, and what a reduction takes for a slice, by their graphs.
    """
    return _Choice(graph, why_not, of_tile, of_reduction).made()


def _multiplies(graph: Graph) -> bool:
    return any(OPS[n.op].kind is Kind.CONTRACTION for n in graph.nodes)


class _Choice:
    """Chooses the values that are kept, from the last to the first.

    A kernel is known by the values that it computes, of those that may be kept: the last of them is
    its result, and the others are `inside`.
    """

    def __init__(
        self,
        graph: Graph,
        why_not: Callable[[Graph], str | None],
        of_tile: Callable[[Graph], float],
        of_reduction: Callable[[Graph], float],
    ) -> None:
        self._graph, self._why_not = graph, why_not
        self._of_tile, self._of_reduction = of_tile, of_reduction
        self._known: dict[frozenset[int], Tiles | str] = {}
        self._dependent = graph.dependent()
        self._slice = _as_it_is_read(graph)
        self._reductions: set[int] = set()
        """Reductions of whole slices."""
        self._values = {self._slice, graph.out}
        kept = self._kept(self._read_by_products()) | self._kept(self._reduced())
        self._values |= kept & self._behind_products()
        self._users: dict[int, set[int]] = {}
        """The values that are computed from one."""
        for value in self._values:
            for source in self._sources([value]):
                self._users.setdefault(source, set()).add(value)

    def made(self) -> Segments | str:
        """The kernels, or why there are none."""
        if len(self._values) > LIMITS.segment_values:
            return f"more than {LIMITS.segment_values} layers"
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
        """Nodes computed with a stored value: what it is derived from, as far as that pays."""
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
        """Work of the kernel of some nodes."""
        found = self._tiles(inside)
        if isinstance(found, str):
            return math.inf
        if not _multiplies(found.graph):
            return self._of_reduction(found.graph)
        return found.count * self._of_tile(found.graph)

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
        part = between(self._graph, sources, value)
        found = choose(part, self._why_not, whole=True)
        if isinstance(found, Tiles) or _multiplies(part):
            return found
        if value in self._reductions:
            return tiled(part, {})
        return "what only follows from a norm of whole slices has no kernel"

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

    def _kept(self, read: Iterable[int]) -> set[int]:
        """Sources of nodes before layout ops: values that may be stored."""
        nodes, found, stack = self._graph.nodes, set(), list(read)
        while stack:
            i = stack.pop()
            if not self._dependent[i] or i == self._slice:
                continue
            if OPS[nodes[i].op].kind is Kind.LAYOUT:
                stack += nodes[i].args
            else:
                found.add(i)
        return {i for i in found if nodes[i].aval.dtype == "float32"}

    def _behind_products(self) -> set[int]:
        """Nodes derived from a product, whose kernel has one."""
        found: set[int] = set()
        for i, n in enumerate(self._graph.nodes):
            product = OPS[n.op].kind is Kind.CONTRACTION and self._dependent[i]
            if product or found & {*n.args}:
                found.add(i)
        return found

    def _read_by_products(self) -> list[int]:
        nodes = self._graph.nodes
        return [a for n in nodes if OPS[n.op].kind is Kind.CONTRACTION for a in n.args]

    def _reduced(self) -> set[int]:
        """Reductions that are no pools of windows, such as norms have, and what they read."""
        nodes = self._graph.nodes
        pools = [n.op == "windows" and n.aval.shape[n.attr("axis")] > 1 for n in nodes]
        behind = [False] * len(nodes)
        found: set[int] = set()
        for i, n in enumerate(nodes):
            kind = OPS[n.op].kind
            if kind is Kind.LAYOUT:
                pools[i] |= any(pools[a] for a in n.args)
            if kind is not Kind.CONTRACTION:
                behind[i] = any(behind[a] for a in n.args)
            if kind is Kind.REDUCTION and self._dependent[i] and not pools[n.args[0]]:
                behind[i] = True
                self._reductions.add(i)
                found |= {i, *self._before(n.args[0], behind)}
        return found

    def _before(self, i: int, behind: list[bool]) -> set[int]:
        """Sources of a value that come from products, but not from a reduction."""
        if not behind[i]:
            return {i}
        if OPS[self._graph.nodes[i].op].kind is Kind.REDUCTION:
            return set()
        return {b for a in self._graph.nodes[i].args for b in self._before(a, behind)}

    def _layer(self, value: int) -> int:
        """The number of products up to a value."""
        nodes = self._graph.nodes[: value + 1]
        return sum(OPS[n.op].kind is Kind.CONTRACTION for n in nodes)

    def _placed(self, kept: dict[int, tuple[Tiles, tuple[int, ...]]]) -> Segments:
        """The kernels in their order, and where in a record the values are."""
        order = sorted(kept)
        last = {a: value for value in order for a in kept[value][1]}
        beside = {a for _, sources in kept.values() if len(sources) > 1 for a in sources}
        copied = self._slice in beside
        places: dict[int, tuple[int, int]] = {}
        for value in [*([self._slice] if copied else []), *order[:-1]]:
            size = self._size(value)
            at = first_gap((p for i, p in places.items() if last[i] >= value), size)
            places[value] = at, at + size
        most = max((stop for _, stop in places.values()), default=0)
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
