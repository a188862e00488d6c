"""The terms of a product, four by four: which words of a map a lane of a warp reads at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...functions.cache import remembered
from ..geometry import Dim

_BANKS = 32
"""Banks of shared memory: words a multiple of so many apart are read one after the other."""
_TRIED = 16
"""Orders that are tried, and steps up to which groups change places: planning has to be quick."""


@dataclass(frozen=True)
class Fours:
    """Terms as groups of four words: at a start, and `d1`, `d2` and ``d1 + d2`` further.

    Attributes
    ----------
    d1, d2 : int
        The distances.
    starts : list of int
        The first word of each group; four groups make a step.
    slots : ndarray of int, of shape (groups, 4)
        Which term each word is; -1 where a group has it already that came before.
    """

    d1: int
    d2: int
    starts: list[int]
    slots: np.ndarray

    @property
    def steps(self) -> int:
        """Steps of 16 terms."""
        return len(self.starts) // 4

    def multiple(self, of: int) -> Fours:
        """Pad with empty steps to a multiple."""
        more = -self.steps % of * 4
        slots = np.concatenate([self.slots, np.full((more, 4), -1)])
        return replace(self, starts=self.starts + self.starts[:1] * more, slots=slots)


def offsets(dims: Sequence[Dim]) -> np.ndarray:
    """The word of each term."""
    found = np.zeros(1, int)
    for d in dims:
        found = (found[:, None] + d.read * np.arange(d.size)).reshape(-1)
    return found


def distances(dims: Sequence[Dim]) -> dict[int, int]:
    """Possible distances of two terms in a group, and the number of steps for each."""
    found: dict[int, int] = {}
    for f in map(partial(_along, dims), _pairs(dims)):
        if f.d1 > 0:
            found[f.d1] = min(f.steps, found.get(f.d1, f.steps))
    return found


def fours(dims: Sequence[Dim], rows: np.ndarray, apart: int | None = None) -> Fours:
    """The arrangement of fewest steps, and of these that which is read fastest.

    Nothing but terms is read.

    Parameters
    ----------
    rows : ndarray of int, of shape (warps, 8)
        Words at which the eight places that a warp reads at once begin.
    apart : int, optional
        What `Fours.d1` has to be, one of `distances`.
    """
    return _fours(tuple(dims), tuple(map(tuple, rows.tolist())), apart)


@remembered(256)
def _fours(dims: tuple[Dim, ...], rows: tuple[tuple[int, ...], ...], apart: int | None) -> Fours:
    every = [_along(dims, pair) for pair in _pairs(dims)]
    if apart is not None:
        every = [f for f in every if f.d1 == apart]
    least = min(f.steps for f in every)
    found = [_spread(f, np.array(rows)) for f in every if f.steps == least]
    return min(found, key=lambda pair: pair[0])[1]


def _pairs(dims: Sequence[Dim]) -> list[tuple[tuple[int, int], ...]]:
    """Axes and extents of a group: up to two."""
    ones = [((a, 1),) for a, d in enumerate(dims) if d.size > 1]
    twos = [((a, 1), (b, 1)) for (a, _), (b, _) in itertools.combinations([k[0] for k in ones], 2)]
    threes = [((a, 1), (a, 1)) for a, d in enumerate(dims) if d.size == 3]
    long = [((a, 1), (a, 2)) for a, d in enumerate(dims) if d.size > 3]
    return [*long, *twos, *(pair[::-1] for pair in twos), *threes, *ones, ()]


def _along(dims: Sequence[Dim], pair: tuple[tuple[int, int], ...]) -> Fours:
    reach = [0] * len(dims)
    for a, by in pair:
        reach[a] += by
    corners = []
    for d, r in zip(dims, reach, strict=True):
        starts = range(0, d.size, r + 1)
        corners.append([min(k, d.size - r - 1) for k in starts])
    sizes = [d.size for d in dims]
    below = [int(np.prod(sizes[k + 1 :])) for k in range(len(sizes))]
    move = [(by * below[a], by * dims[a].read) for a, by in pair]
    move += [(0, 0)] * (2 - len(move))
    seen: set[int] = set()
    firsts, slots = [], []
    for corner in itertools.product(*corners):
        term = sum(k * b for k, b in zip(corner, below, strict=True))
        firsts.append(sum(k * d.read for k, d in zip(corner, dims, strict=True)))
        row = []
        for j in range(4):
            own = term + (j & 1) * move[0][0] + (j >> 1) * move[1][0]
            row.append(-1 if own in seen else own)
            seen.add(own)
        slots.append(row)
    while len(firsts) % 4:
        firsts.append(firsts[0])
        slots.append([-1] * 4)
    return Fours(move[0][1], move[1][1], firsts, np.array(slots))


def _spread(found: Fours, rows: np.ndarray) -> tuple[float, Fours]:
    """Arrange groups, four to a step in different banks, and the cost of reading them."""
    starts = np.array(found.starts)

    known: dict[tuple[int, ...], float] = {}

    def of(apart: tuple[int, ...]) -> float:
        words = np.sort((rows[:, :, None] + np.array(apart)).reshape(len(rows), -1), axis=1)
        first = np.diff(words, axis=1, prepend=words[:, :1] - 1) != 0  # one word is read once
        banks = np.arange(len(rows))[:, None] * _BANKS + words % _BANKS
        counts = np.bincount(banks[first], minlength=len(rows) * _BANKS)
        return float(counts.reshape(len(rows), _BANKS).max(1).mean())

    def turns(groups: Sequence[int]) -> float:
        """The number of serialized reads of a step."""
        apart = tuple(sorted((starts[groups] - starts[groups].min()).tolist()))
        if apart not in known:
            known[apart] = of(apart)
        return known[apart]

    used = [k for k in range(len(starts)) if (found.slots[k] >= 0).any()]
    orders = []
    for by in range(1, 1 + min(_TRIED, -(-len(used) // 4))):
        parts = [used[k : k + 4 * by] for k in range(0, len(used), 4 * by)]
        flat = [k for part in parts for q in range(by) for k in part[q::by]]
        orders.append([flat[k : k + 4] for k in range(0, len(flat), 4)])
    order = min(orders, key=lambda steps: sum(map(turns, steps)))
    cost = [turns(groups) for groups in order]
    for a, b in itertools.combinations(range(len(order) if len(order) <= _TRIED else 0), 2):
        for i, j in itertools.product(range(len(order[a])), range(len(order[b]))):
            if cost[a] + cost[b] <= 2.25:  # hardly to be bettered
                break
            one, other = [*order[a]], [*order[b]]
            one[i], other[j] = other[j], one[i]
            both = turns(one), turns(other)
            if sum(both) < cost[a] + cost[b]:
                order[a], order[b] = one, other
                cost[a], cost[b] = both
    # where there are fewer than four, a word is read that another lane reads
    padding = [4 - len(groups) for groups in order]
    every = [[*groups, *groups[:1] * more] for groups, more in zip(order, padding, strict=True)]
    slots = found.slots[every]
    for step, more in zip(slots, padding, strict=True):
        step[4 - more :] = -1
    placed = replace(found, starts=starts[every].reshape(-1).tolist(), slots=slots.reshape(-1, 4))
    return sum(cost), placed
