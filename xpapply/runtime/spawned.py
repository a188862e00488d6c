"""Generators that another one spawns, in the loop's order."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Differs
from .generators import Source


class Children(Source):
    """The generators that one spawns: which comes next, and what they are seeded with.

    Attributes
    ----------
    words : array of int
        The number of the next one, how many numbers of 32 bits are its entropy and its key, these.
    """

    kind = "children"

    def __init__(self, owner: Any, place: Callable[[Any], Any] | None = None) -> None:
        self.owner, self.place, self._how = owner, place, ""
        self._own = self._now()
        self.words, self.gauss = np.zeros(3 + 2 * _SEEDS, np.int64), np.zeros(2)
        self.key: Any = None
        self._is_drawn_from = threading.RLock()
        self._take()

    def _now(self) -> Any:
        return self.owner.bit_generator.seed_seq

    def _take(self) -> None:
        if not may_spawn(self.owner):
            raise Differs("another generator spawns, of another kind")
        self.lock = self.owner.bit_generator.lock
        seeds, key = _numbers_of(self._own.entropy), _numbers_of(self._own.spawn_key)
        if max(len(seeds), len(key)) > _SEEDS:
            raise Differs("a generator that spawns has a seed of many numbers")
        self.words[1:3] = len(seeds), len(key)
        self.words[3 : 3 + len(seeds) + len(key)] = seeds + key

    @property
    def state(self) -> Any:
        """How many there are."""
        return self._own.n_children_spawned

    @state.setter
    def state(self, was: Any) -> None:
        if was != self._own.n_children_spawned:
            own = self._own
            given = {"spawn_key": own.spawn_key, "pool_size": own.pool_size}
            own.__init__(own.entropy, **given, n_children_spawned=was)

    def begin(self, now: Any) -> None:
        """Before compiled code spawns."""
        self.words[0] = now

    def end(self) -> None:
        """After it has spawned."""
        self.state = int(self.words[0])


_SEEDS = 64


def _numbers_of(seed: Any) -> list[int]:
    """A seed, or several, as numbers of 32 bits."""
    if not isinstance(seed, (int, np.integer)):
        return [n for x in seed for n in _numbers_of(x)]
    rest = int(seed)
    found: list[int] = []
    while rest or not found:
        found.append(rest & 0xFFFFFFFF)
        rest >>= 32
    return found


def may_spawn(owner: Any) -> bool:
    """Whether the generators that one spawns are known: of PCG64, and of a seed."""
    module = importlib.import_module("numpy.random")
    bits = owner.bit_generator
    seed: Any = getattr(bits, "seed_seq", None)
    if type(bits) is not module.PCG64 or type(seed) is not module.SeedSequence:
        return False
    return bool(seed.pool_size == 4)
