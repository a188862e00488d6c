"""Accounts: the CPU time that a try of anything faster than the loop may cost.

The loop takes so many seconds for a slice. Whatever else is done must be paid for: by a fixed sum
for the first call of a function, by slices whose results are there, by what earlier calls saved.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import config
from ....limits import LIMITS
from ....runtime import registry


def loading() -> float:
    """The allowance of the first function of a process; 0 for all others."""
    if _loaded:
        return 0.0
    _loaded.append(True)
    return LIMITS.process_loading


_loaded: list[bool] = []


def planning(loop: float) -> float:
    """CPU seconds that planning a first call may take; `loop`: those of the loop."""
    return LIMITS.planning_share * (LIMITS.first_call + LIMITS.first_call_share * loop)


def per_call(
    called: Callable[..., Any], given: Sequence[Sequence[Any]], least: int, limit: float
) -> float:
    """Seconds of a call in a loop: the median of `least` calls, or of calls for so many seconds."""
    looks = [time.perf_counter() for _ in range(8)]
    look = min(b - a for a, b in itertools.pairwise(looks))  # as long as the shortest functions
    times: list[float] = []
    for one in given:
        started = time.perf_counter()
        called(*one)
        times.append(time.perf_counter() - started - look)
        if len(times) > least and sum(times) > limit:
            break
    # the first call brings back to the cache what a run has driven out
    return float(np.median(times[1:] or times))


class Account:
    """The account of one call, from its creation.

    Parameters
    ----------
    slices : int
        How many there are.
    seconds : float
        What one of them takes in the loop.
    most : float
        Seconds that may be lost in any case.
    known : sequence
        Results of `f` itself for the first slices.
    tries : bool
        Whether it has yet to be seen what a run takes.

    Attributes
    ----------
    done : int
        Slices whose results are there.
    is_spent : bool
        Whether the loop runs for the others, since all else would cost more than it saves.
    keeps : bool
        Whether it runs for no others than these; False: for all slices, once more.
    more : float
        Seconds of the loop for slices that go ways on which it takes longer than for the first.
    """

    def __init__(
        self,
        slices: int,
        seconds: float,
        most: float,
        known: Sequence[Any] = (),
        *,
        tries: bool = False,
    ) -> None:
        self.slices, self.seconds, self.most, self.known = slices, seconds, most, known
        self.tries = tries
        self.done, self.is_spent, self.keeps, self.more = 0, False, True, 0.0
        self._blocks, self._each = 0, math.inf
        threads = config.current().thread_count()
        # what others do meanwhile does not count where one thread does all, as in dask's tasks
        self._clock = time.thread_time if threads == 1 else time.process_time
        self._threads = threads
        self._started = self._clock() - registry.seconds()
        self._look = time.perf_counter()

    @property
    def loop(self) -> float:
        """Seconds of the loop for all slices."""
        return self.slices * self.seconds + self.more

    def adds(self, slices: int, seconds: float) -> None:
        """So many slices go a way on which the loop takes so many seconds for each.

        The first ones may lie outside what is looked at, and return at once.
        """
        self.more += slices * max(0.0, seconds - self.seconds)
        self._look = 0.0

    @property
    def took(self) -> float:
        """CPU seconds so far, without those that modules took to load."""
        return self._clock() - registry.seconds() - self._started

    @property
    def left(self) -> float:
        """CPU seconds that may still be lost."""
        left = self.most + self.done * self.seconds + self.more - self.took
        # until then it need not be asked: that takes a microsecond
        self._look = time.perf_counter() + max(0.0, left) / self._threads
        return left

    def noted(self, slices: int, seconds: float) -> None:
        """A block of slices is done, and took a thread so many seconds."""
        self.done += slices
        self._blocks += 1
        self._each = min(self._each, seconds / max(1, slices))

    def spends(self, slices: int) -> bool:
        """Whether `slices` more, at the least cost so far, exceed the allowed loss.

        The first block tells nothing: it finds the ways that slices go.
        """
        loss = (self._each - self._price) * slices * self._threads
        if self._blocks > 1 and loss > 0 and not self.is_spent:
            self.is_spent = self.left < loss and (self.keeps or self._is_worse)
        return self.is_spent

    @property
    def is_overdrawn(self) -> bool:
        """Whether the loop takes over; checked before each call."""
        if not self.is_spent and time.perf_counter() > self._look:
            self.is_spent = self.left < 0 and (self.keeps or self._is_worse)
        return self.is_spent

    @property
    def _is_worse(self) -> bool:
        """Whether the remaining slices take longer than the loop over all of them."""
        return (self.slices - self.done) * self._each > self.slices * self._price

    @property
    def _price(self) -> float:
        """Seconds of the loop for a slice, by those that are done."""
        return self.seconds + self.more / max(1, self.done)
