"""How many slices a chunk has: what takes the least time is found out while chunks run.

What stays in the caches depends on the machine and on the layers: convolutions want tens of
slices, a recurrent layer, which goes through its steps one by one, wants thousands.
"""

from __future__ import annotations

_RUNS = 3
"""Chunks of a size before it is judged; the first of them, which prepares much, does not count."""
_MANY = 4
"""So few chunks tell nothing."""
_BETTER = 0.97
"""Part of the time of another size that is worth a change."""


class ChunkSize:
    """Doubles the size of chunks while that makes them faster; else halves it while that does.

    Parameters
    ----------
    first : int
        Where to begin.
    most : int
        Where to end.
    """

    def __init__(self, first: int, most: int) -> None:
        self._first = self._now = first
        self._most = max(first, most)
        self._best: int | None = None
        self._seconds: dict[int, float] = {}
        """Of a slice, by the size of its chunk."""
        self._runs: list[float] = []
        self._up = True
        self.found = self._most < 2

    def next(self, left: int) -> int:
        """The size of the next chunk, where so many slices are left."""
        if self.found or left < _MANY * self._now:
            return -(-left // -(-left // self._now))  # of one size, if they can be
        return self._now

    def took(self, size: int, seconds: float) -> None:
        """Learn from a chunk."""
        if self.found or size != self._now:
            return
        self._runs.append(seconds / size)
        if len(self._runs) == _RUNS:
            self._judge(min(self._runs[1:]))
            self._runs = []

    def _judge(self, seconds: float) -> None:
        now, best = self._now, self._best
        self._seconds[now] = seconds
        if best is None or seconds < _BETTER * self._seconds[best]:
            self._best = best = now
            following = now * 2 if self._up else now // 2
        else:
            following = 0
        if not 1 <= following <= self._most and self._up and best == self._first:
            self._up, following = False, self._first // 2
        if 1 <= following <= self._most:
            self._now = following
        else:
            self._now, self.found = best, True
