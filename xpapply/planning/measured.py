"""Choose the faster of two ways by timing both on some slices, where no cost model tells.

It takes a small part of what all slices take, once for a network's structure: what was found is
remembered as what is compiled for it is. Of few slices, whose calls take less time than a kernel to
compile, the calls are counted first. Only ways on the host are compared, whose time is that of the
call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import arrays, config
from ..arrays.layout import boxes
from ..backends import Later
from ..functions.cache import BoundedDict, remembered
from ..ir.graph import Graph
from ..limits import LIMITS
from .engines import Engine, in_memory_order, prepared


class Measured(NamedTuple):
    """Seconds per slice of an engine and of another way, and on how many slices."""

    own: float
    other: float
    slices: int

    @property
    def own_is_faster(self) -> bool:
        """Whether the engine is faster by more than the error of such times."""
        return self.own < LIMITS.sample_better * self.other

    def said(self, name: str, kernels: Sequence[str], other: str) -> str:
        """Why the way `name` does not run, but another one."""
        took, less = (self.other, self.own) if self.own_is_faster else (self.own, self.other)
        return (
            f"{name} ({'; '.join(kernels)}): {took * 1e6:.3g} us per slice, {other} "
            f"{less * 1e6:.3g}, measured on {self.slices:,} slices; "
            f"options(engine={name!r}) takes it"
        )


def compare(
    engine: Engine, other: Callable[[Any, int], Any], arr: Any, axis: int
) -> Measured | None:
    """Both on some slices of an array.

    None where there are too few, on a device, or if the engine turned out not to compile.
    """
    size = engine.lowered.fair_sample()
    slices = math.prod(arr.shape) // max(1, arr.shape[axis])
    many = slices >= LIMITS.sample_share * size
    if not size or not (many or engine.backend == "cpu"):
        return None
    now = config.current()
    known = _known(engine.graph)
    size = min(size, slices)
    few = 0 if many else size.bit_length()
    key = (engine.name, arrays.place(arr), now.threads, now.block_bytes, few)
    if key not in known:
        x, at = in_memory_order(arr, axis)
        x = x[next(boxes(x.shape, at, size))]
        count = math.prod(x.shape) // x.shape[at]
        own, its = _seconds((engine, other), x, at)
        if engine.failed:
            return None
        known[key] = Measured(own / count, its / count, count)
    return known[key]  # type: ignore[no-any-return]


def counted(
    run: Callable[[Any], Any], unchanged: Callable[[], bool], later: Later
) -> tuple[Callable[[Any], Any], Callable[[], bool]]:
    """Count calls on few slices, which an interim way serves until a kernel pays."""

    budget, cost = later

    def call(arr: Any) -> Any:
        budget.spend(cost)
        return run(arr)

    return call, lambda: not budget.is_over and unchanged()


class BesideLoop:
    """Calls on few slices, timed until it is known whether the loop takes less time than they do.

    Call it as what it runs. What looking at the dependencies takes is a part of a call: of large
    weights it may take longer than a slice.

    Parameters
    ----------
    run, unchanged : callable
        What runs on an array, and whether it still may.
    loop : float
        Seconds of the loop over as many slices.

    Attributes
    ----------
    guard : callable
        What looks at the dependencies.
    loop, least, took : float
        Seconds of the loop, and those of calls: the least, and all together.
    """

    def __init__(
        self, run: Callable[[Any], Any], unchanged: Callable[[], bool], loop: float
    ) -> None:
        self._run, self.guard, self.loop = run, unchanged, loop
        self.least, self.took, self._looking = math.inf, 0.0, 0.0
        self._left = int(LIMITS.loop_looks)

    @property
    def is_slower(self) -> bool:
        """Whether the loop is known to take less time."""
        return not self._left and self.least > LIMITS.loop_less * self.loop

    def unchanged(self) -> bool:
        """Whether it runs again."""
        if not self._left:
            return not self.is_slower and self.guard()
        began = time.perf_counter()
        same = self.guard()
        self._looking = time.perf_counter() - began
        return same

    def __call__(self, arr: Any) -> Any:
        if not self._left:
            return self._run(arr)
        began = time.perf_counter()
        result = self._run(arr)
        seconds = self._looking + time.perf_counter() - began
        self.least = min(self.least, seconds)
        self.took += seconds
        self._left -= 1
        return result


def _seconds(calls: Sequence[Callable[[Any, int], Any]], x: Any, axis: int) -> list[float]:
    """The least that each takes, by turns: what else the machine does at a time slows all."""
    least = [math.inf] * len(calls)
    runs = [prepared(call, x, axis) for call in calls]
    for turn in range(LIMITS.sample_turns):
        for k, run in enumerate(runs):
            if turn:
                time.sleep(LIMITS.sample_pause)
            begin = now = time.perf_counter()
            while now - begin < LIMITS.sample_turn:
                before = now
                run(x)
                now = time.perf_counter()
                if turn == 0:
                    break
                least[k] = min(least[k], now - before)
    return least


@remembered(256)
def _known(graph: Graph) -> BoundedDict:
    """The times measured for networks of this structure."""
    return BoundedDict()
