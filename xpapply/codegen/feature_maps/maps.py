"""Places of a network's feature maps in shared memory.

What is padded or joined to another map is written where it is wanted at once: it has a home in the
padded map, and nothing is copied.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...arrays.layout import first_gap
from ...ir.graph import Graph
from ...ir.rewrite import Region
from ..geometry import strided
from ..schedule import Schedule, Step
from .terms import distances

Homes = dict[int, tuple[int, np.ndarray]]
"""For each value: the map that it lies in, and its places there."""


class Maps(Schedule):
    """The steps of a network, and the words of each map, counted from a slice's first.

    Attributes
    ----------
    homes : Homes
        The values without a map of their own.
    words : int
        The words of a slice.
    pairs : dict of int to int
        The maps whose words are pairs of 16-bit numbers, and how far apart these two lie.
    behind : dict of int to (int, Region)
        Of values that are computed of others which a step has joined, of each number alone and
        before it is written: which others, and how. A mean is so computed of a sum.
    """

    def __init__(self, graph: Graph, homes: Homes | None = None, halves: bool = False) -> None:
        self.homes: Homes = homes or {}
        self.pairs: dict[int, int] = {}
        self.behind: dict[int, tuple[int, Region]] = {}
        self._halves = halves
        super().__init__(graph)
        self.words = self.rows

    @classmethod
    def of(cls, graph: Graph, halves: bool = False) -> Maps:
        """The maps of a graph, with all the homes that there can be.

        With `halves`, 16 bits are enough for what products alone read.
        """
        return cls(graph, _homes(Schedule(graph)), halves)

    def lies(self, i: int) -> tuple[int, np.ndarray]:
        if i not in self._lies and i in self.homes:
            shape = self.graph.nodes[i].aval.shape
            root, places = self.homes[i]
            self._lies[i] = root, places.reshape(shape)
        return super().lies(i)

    def at_home(self, i: int) -> bool:
        """Whether the steps of its parts write a padded or joined map, in part or whole."""
        return any(root == i for root, _ in self.homes.values())

    def parts(self, i: int) -> list[tuple[int, np.ndarray]]:
        """The parts of a padded or joined value, with their numbers in it."""
        return [(a, numbers.reshape(-1)) for a, numbers in _parts(self, i)]

    def is_there(self, a: int, i: int, numbers: np.ndarray) -> bool:
        """Whether a part is written to its place in the whole by its own step."""
        return self.lies(a)[0] == i and np.array_equal(self.places(a), self.places(i)[numbers])

    def is_border(self, i: int) -> bool:
        """Whether only the border of a value is left to be written."""
        if self.graph.nodes[i].op not in ("pad", "concat"):
            return False
        return all(self.is_there(a, i, numbers) for a, numbers in self.parts(i))

    def places(self, i: int) -> np.ndarray:
        """The word of each number of a value, counted from a slice's first."""
        root, places = self.lies(i)
        return self._rows[root] + places.reshape(-1)

    def split(self, i: int) -> bool:
        """Whether the map of a value stores halves: a product reads it."""
        root = self.lies(i)[0]
        return root in self._split

    def cheap(self, nodes: list[int]) -> bool:
        """All elementwise work is done in registers: there is one text for all sums."""
        return True

    def short(self, nodes: list[int]) -> bool:
        """Whether elementwise nodes are few instructions."""
        return super().cheap(nodes)

    def _joined(self, step: Step) -> tuple[Step, set[int]] | None:
        """The step with its joining reduction; only where each number is used alone."""
        assert step.product is not None
        face, rest = self.face(step.product), self.rest(step)
        bias = None if self.bias(step) is None else self.queries.bias(face)
        own = {face, step.product, *rest, *(() if bias is None else (bias[0],))}
        outside = {a for i in rest for a in self.graph.nodes[i].args} - own
        if any(self.graph.nodes[a].op != "scalar" for a in outside):
            return None
        return super()._joined(step)

    def readers(self, i: int) -> list[int]:
        """The products that read the map that a value lies in."""
        root = self.lies(i)[0]
        every = (s.product for s in self.steps if s.product is not None)
        return [p for p in every if self.lies(self._products[p].source)[0] == root]

    def _shortened(self) -> list[Step]:
        """The steps, without those fused into earlier ones before they write."""
        steps: list[Step] = []
        for k, step in enumerate(self.steps):
            before = steps[-1] if steps else None
            if before is not None and self._follows(step, before, self.steps[k + 1 :]):
                assert step.region is not None
                steps[-1] = replace(before, out=step.out)
                self.behind[step.out] = before.out, step.region
                if before.out in self.windows:
                    self.windows[step.out] = self.windows.pop(before.out)
            else:
                steps.append(step)
        return steps

    def _follows(self, step: Step, before: Step, later: list[Step]) -> bool:
        """Whether a step is elementwise in the joined numbers of an earlier one."""
        joins = before.pool is not None or before.out in self.windows
        if not joins or before.out in self.behind or step.product is not None:
            return False
        if step.region is None or any(before.out in super(Maps, self)._reads(k) for k in later):
            return False
        nodes, size = self.graph.nodes, self.queries.size(before.out)
        for i in step.region.nodes:
            if (
                nodes[i].aval.shape != nodes[step.out].aval.shape
                or nodes[i].aval.dtype != "float32"
            ):
                return False
            for a in set(nodes[i].args) - set(step.region.nodes):
                if nodes[a].op == "scalar":
                    continue
                root, places = self.lies(a)
                alike = nodes[a].aval.shape == nodes[i].aval.shape
                whole = root == before.out and np.array_equal(places.reshape(-1), range(size))
                if not (alike and whole):
                    return False
        return self.queries.size(step.out) == size

    def _apart(self, root: int) -> int | None:
        """The best distance of the two numbers of a word, if only products read a map."""
        every: list[dict[int, int]] = []
        for step in self.steps:
            if self._moves_within(step.out, root):
                return None
            if root not in self._reads(step):
                continue
            beside = set() if step.region is None else self._reads(replace(step, product=None))
            if step.product is None or root in beside:
                return None
            every.append(distances(self._products[step.product].terms))
        common = set.intersection(*map(set, every)) if every else set()
        return min(common, key=lambda by: (sum(steps[by] for steps in every), by), default=None)

    def _moves_within(self, i: int, root: int) -> bool:
        """Whether repeated numbers of a joined map are read from their place in it."""
        if i != root or self.graph.nodes[i].op not in ("pad", "concat"):
            return False
        there = ((self.lies(a), numbers) for a, numbers in self.parts(i))
        return any(
            lies == root and not np.array_equal(places.reshape(-1), numbers)
            for (lies, places), numbers in there
        )

    def _reads(self, step: Step) -> set[int]:
        found = super()._reads(step)
        return found - {step.out} if self.at_home(step.out) else found

    def _places(self) -> tuple[dict[int, int], int]:
        """The first word of each map, and the number of words."""
        self.steps = self._shortened()
        out = self.lies(self.graph.out)[0]
        last: dict[int, int] = {}
        first: dict[int, int] = {}
        for k, step in enumerate(self.steps):
            root = self.lies(step.out)[0]
            first.setdefault(root, k)
            last[root] = max(last.get(root, -1), k)
            for r in self._reads(step):
                last[r] = max(last.get(r, -1), k)
        last[out] = len(self.steps)
        sources = (self.lies(p.source)[0] for p in self._products.values())
        self._split = set(sources) - {out}
        if self._halves:
            every = {root: self._apart(root) for root in sorted(self._split)}
            self.pairs = {root: apart for root, apart in every.items() if apart is not None}
        taken: dict[int, tuple[int, int]] = {}
        rows: dict[int, int] = {}
        most = 0
        for k, step in enumerate(self.steps):
            root = self.lies(step.out)[0]
            if root in rows:
                continue
            taken = {i: t for i, t in taken.items() if last[i] >= k}
            ahead = self.pairs.get(root, 0)  # for the other halves of the first numbers
            size = self.queries.size(root) + ahead
            at = first_gap(taken.values(), size)
            rows[root] = at + ahead
            taken[root] = at, at + size
            most = max(most, at + size)
        return rows, most


def _parts(schedule: Schedule, i: int) -> list[tuple[int, np.ndarray]]:
    """The parts of a padded or joined value, with their numbers, in its shape."""
    n, found, start = schedule.graph.nodes[i], [], 0
    attrs = dict(n.attrs)
    whole = np.arange(schedule.queries.size(i)).reshape(n.aval.shape)
    for a in n.args:
        shape = schedule.graph.nodes[a].aval.shape
        cut = [slice(None)] * len(shape)
        if n.op == "pad":
            widths = zip(shape, attrs["widths"], strict=True)
            cut = [slice(before, before + d) for d, (before, _) in widths]
        else:
            cut[attrs["axis"]] = slice(start, start + shape[attrs["axis"]])
            start += shape[attrs["axis"]]
        found.append((a, whole[tuple(cut)]))
    return found


def _homes(schedule: Schedule) -> Homes:
    """Values that their steps can write directly into a padded or joined map."""
    graph, q = schedule.graph, schedule.queries
    made = {s.out for s in schedule.steps}
    homes: Homes = {}
    used: set[int] = set()
    for i, n in enumerate(graph.nodes):
        if i not in made or n.op not in ("pad", "concat"):
            continue
        zero = n.op == "concat" or float(n.attr("number")) == 0
        for a, target in _parts(schedule, i):
            if not q.dependent[a] or not zero:
                continue
            root, places = schedule.lies(a)
            flat = places.reshape(-1)
            if root in homes or root in used or root not in made or i in homes:
                continue
            if flat.size != q.size(root) or (np.bincount(flat, minlength=flat.size) > 1).any():
                continue
            home = np.empty(flat.size, int)
            home[flat] = target.reshape(-1)
            if graph.nodes[root].op in ("pad", "concat") or strided(home) is None:
                continue
            homes[root] = i, home
            used.add(i)
    return homes
