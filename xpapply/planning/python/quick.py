"""Loops that take less time than a plan."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any


class Quick:
    """What the loops over a function have taken so far.

    Parameters
    ----------
    waits : float
        Seconds of loops that a plan waits for.
    most : float
        Seconds of one loop from which it waits no longer.

    Attributes
    ----------
    in_loop : float
        Seconds of loops so far.
    """

    def __init__(self, waits: float, most: float) -> None:
        self.waits, self.most = waits, most
        self.in_loop, self.seconds = 0.0, math.inf

    @property
    def slices(self) -> float:
        """For up to so many slices."""
        return self.most / self.seconds

    def serves(self, slices: int) -> bool:
        """Whether the loop runs for so many slices."""
        return slices * self.seconds <= self.most and self.in_loop <= self.waits

    def noted(self, slices: int, seconds: float) -> None:
        """A loop took so many seconds."""
        self.seconds = min(self.seconds, seconds / slices)
        self.in_loop += seconds

    def timed(self, slices: int, loop: Callable[..., Any], *args: Any) -> Any:
        """What a loop gives; it is noted what it takes."""
        started = time.perf_counter()
        result = loop(*args)
        self.noted(slices, time.perf_counter() - started)
        return result

    def unchanged(self, f: Any) -> bool:
        """Whatever has changed, the loop gives what `f` gives."""
        return True


__all__ = ["Quick"]
