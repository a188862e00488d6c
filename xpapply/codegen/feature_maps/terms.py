"""The terms of a product, four by four: which words of a map a lane of a warp reads at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..geometry import Dim


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


def offsets(dims: Sequence[Dim]) -> np.ndarray:
    """The word of each term."""
    found = np.zeros(1, int)
    for d in dims:
        found = (found[:, None] + d.read * np.arange(d.size)).reshape(-1)
    return found


def fours(dims: Sequence[Dim]) -> Fours:
    """The arrangement of fewest groups. Nothing but terms is read."""
    every = [_along(dims, pair) for pair in _pairs(dims)]
    return min(every, key=lambda f: len(f.starts))


def _pairs(dims: Sequence[Dim]) -> list[tuple[tuple[int, int], ...]]:
    """What a group may reach along: an axis and by how many terms, up to two of them."""
    ones = [((a, 1),) for a, d in enumerate(dims) if d.size > 1]
    twos = [((a, 1), (b, 1)) for (a, _), (b, _) in itertools.combinations([k[0] for k in ones], 2)]
    threes = [((a, 1), (a, 1)) for a, d in enumerate(dims) if d.size == 3]
    long = [((a, 1), (a, 2)) for a, d in enumerate(dims) if d.size > 3]
    return [*long, *twos, *threes, *ones, ()]


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
