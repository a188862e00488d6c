"""Budgets of seconds: what runs at once may take so long before something better is made.

What is better has to be compiled, planned or looked for first, and it is unknown how often it will
be wanted. So that is deferred until what runs meanwhile has taken about as long: then both together
take at most about twice as long as whichever of them would have been right from the start. What was
tried in vain is tried again later, each time after a wait twice as long.

Compiled code is deferred by costs that are said in advance, not by a clock. Its results differ by
rounding from those of what runs meanwhile, and so are the same whenever a program runs again.
Loops define all results, so that those which wait for something faster go by the clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from .. import config
from ..limits import LIMITS


class Budget:
    """Seconds that something may take before something else is made or tried.

    Parameters
    ----------
    seconds, times : float
        How many there are: their product. `times` is doubled after each try in vain.

    Attributes
    ----------
    limit : float
        How many there are.
    spent : float
        Those that were taken. To add to it is the quickest way to take some.
    """

    __slots__ = ("limit", "spent", "times")

    def __init__(self, seconds: float, times: float = 1.0) -> None:
        self.limit, self.spent, self.times = times * seconds, 0.0, times

    def holds(self, cost: float) -> bool:
        """Whether a cost leaves some of the budget."""
        return self.spent + cost < self.limit

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self.spent >= self.limit

    def spend(self, cost: float) -> bool:
        """Take so many seconds; whether some are left."""
        self.spent += cost
        return self.spent < self.limit

    def end(self) -> None:
        """End the budget, whatever other threads spend at the moment."""
        self.limit = 0.0

    def again(self, seconds: float) -> Budget:
        """The next one, after another try in vain: twice as many times so many seconds."""
        return Budget(seconds, 2 * self.times)


class Quick(Budget):
    """Loops over a function that take less time than a plan, which they are a budget for.

    Parameters
    ----------
    seconds : float
        What loops may take, all together.
    most : float
        What one loop may take.

    Attributes
    ----------
    seconds : float
        The least that a slice has taken.
    counted : float
        Seconds of these loops that have been counted among those of all functions.
    """

    __slots__ = ("counted", "most", "seconds")

    def __init__(self, seconds: float, most: float) -> None:
        super().__init__(seconds)
        self.most, self.seconds, self.counted = most, math.inf, 0.0

    @property
    def slices(self) -> float:
        """A record for up to so many slices."""
        return self.most / self.seconds

    def serves(self, slices: int) -> bool:
        """Whether the loop runs for so many slices."""
        return slices * self.seconds <= self.most and self.spent <= self.limit

    def timed(self, slices: int, loop: Callable[..., Any], *args: Any) -> Any:
        """Run a loop and count its time."""
        started = time.perf_counter()
        result = loop(*args)
        seconds = time.perf_counter() - started
        self.seconds = min(self.seconds, seconds / slices)
        self.spent += seconds
        return result

    def unchanged(self, f: Any) -> bool:
        """Constantly True: the loop is right whatever has changed."""
        return True


class Loops(Budget):
    """A function that runs in the loop, for arguments of some kinds.

    The budget is of loops until the long way is gone again: what the function reaches may have
    changed.

    Attributes
    ----------
    most : float
        For up to so many elements.
    options : Options
        Those that were in force.
    others : Budget or None
        Of loops until something else is tried, by which the long way goes.
    """

    __slots__ = ("__weakref__", "most", "options", "others")

    def __init__(self, seconds: float, most: float, others: Budget | None) -> None:
        super().__init__(seconds)
        self.most, self.options, self.others = most, config.current(), others

    @classmethod
    def after(cls, seconds: float, most: float, others: Budget | None = None) -> Loops | None:
        """The record of a call that took so many seconds to inspect; None: not remembered."""
        if not most or not config.is_plain():
            return None
        return cls(LIMITS.loops_per_plan * min(LIMITS.most_of_plan, seconds), most, others)

    def hold(self, size: float) -> bool:
        """Whether so many elements are looped over without inspection."""
        if size > self.most or self.spent >= self.limit or config.current() is not self.options:
            return False
        others = self.others
        return others is None or others.spent < others.limit

    def timed(self, loop: Callable[..., Any], *args: Any) -> Any:
        """Run a loop and count its time."""
        began = time.perf_counter()
        result = loop(*args)
        self.took(time.perf_counter() - began)
        return result

    def took(self, seconds: float) -> None:
        """Note how long a loop took."""
        self.spent += seconds
        if self.others is not None:
            self.others.spent += seconds


__all__ = ["Budget", "Loops", "Quick"]
