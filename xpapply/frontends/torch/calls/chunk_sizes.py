"""Chunk sizes: the fastest is found while chunks run.

What stays in the caches depends on the machine and on the layers: convolutions want tens of
slices, a recurrent layer, which goes through its steps one by one, wants thousands.
"""

from __future__ import annotations

from ....limits import LIMITS


class ChunkSize:
    """Doubles the size of chunks while that makes them faster; else halves it while that does.

    Two sizes are compared by turns, chunk after chunk: what else the machine does at a time
    slows down both.

    Parameters
    ----------
    first : int
        Where to begin.
    most : int
        Where to end.
    """

    def __init__(self, first: int, most: int) -> None:
        self._first = self._best = first
        self._most = max(first, most)
        self._runs: dict[int, list[float]] = {}
        """Seconds of a slice, in chunks of the best size and of the other."""
        self._other = 0
        self._up = True
        self._compare(2 * first)

    @property
    def found(self) -> bool:
        """Whether there is no other size to compare with."""
        return not self._other

    def next(self, left: int) -> int:
        """The size of the next chunk, where so many slices are left."""
        best, other = self._best, self._other
        if not other or left < LIMITS.chunk_many * max(best, other):
            return -(-left // -(-left // best))  # of one size, if they can be
        return other if len(self._runs[other]) < len(self._runs[best]) else best

    def took(self, size: int, seconds: float) -> None:
        """Learn from a chunk."""
        if size not in self._runs or not self._other:
            return
        self._runs[size].append(seconds / size)
        if len(self._runs[self._other]) == LIMITS.chunk_runs:
            self._judge()

    def _judge(self) -> None:
        other, best = (min(self._runs[k][1:]) for k in (self._other, self._best))
        if other < LIMITS.chunk_better * best:
            self._best = self._other
            self._compare(self._best * 2 if self._up else self._best // 2)
        elif self._up and self._best == self._first:
            self._compare(0)
        else:
            self._other = 0

    def _compare(self, other: int) -> None:
        """Try another size; half the first one where it is too large, or 0."""
        if not 1 <= other <= self._most and self._up and self._best == self._first:
            self._up, other = False, self._first // 2
        self._other = other if 1 <= other <= self._most else 0
        self._runs = {self._best: [], self._other: []}
