"""Reading, computing and writing blocks side by side.

A thread reads what comes next, another one writes what is done, the caller computes: its engine has
threads of its own. What goes to a device and back takes several threads each.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import Any, Protocol

from .stores import Block


class Ways(Protocol):
    """The stages of a block.

    Attributes
    ----------
    threads : int
        That read, and as many that write.
    """

    @property
    def threads(self) -> int:
        """Number of reader threads; as many write."""

    def read(self, block: Block) -> Any:
        """Bring it here, in the thread that reads."""

    def compute(self, block: Block, x: Any) -> Any:
        """The results of a block."""

    def write(self, index: int, block: Block, y: Any) -> None:
        """Put them where they belong, in the thread that writes."""


def at_a_time(threads: int) -> int:
    """Blocks that are there at a time: some are read, one is computed, some are written."""
    return 2 * (threads + 1) + 1


def through(ways: Ways, blocks: Iterable[tuple[int, Block]], step: Callable[[], None]) -> None:
    """Read, compute and write blocks; `step` is called after each.

    When something fails, no further block is begun, and those that are computed are written.
    """
    left, threads = iter(blocks), ways.threads
    reading: deque[tuple[int, Block, Future[Any]]] = deque()
    writing: deque[Future[None]] = deque()
    context, stopped = copy_context(), threading.Event()

    def write(index: int, block: Block, y: Any) -> None:
        if stopped.is_set():
            return
        try:
            ways.write(index, block, y)
        except BaseException:  # no block is written after a gap
            stopped.set()
            raise

    with (
        ThreadPoolExecutor(threads, "xpapply-read") as reader,
        ThreadPoolExecutor(threads, "xpapply-write") as writer,
    ):

        def ahead(count: int) -> None:
            for index, block in islice(left, count):
                task = reader.submit(context.copy().run, ways.read, block)
                reading.append((index, block, task))

        try:
            ahead(threads + 1)
            while reading:
                index, block, task = reading.popleft()
                x = task.result()
                ahead(1)
                y = ways.compute(block, x)
                del x, task
                while len(writing) >= threads + 1:
                    writing.popleft().result()
                    step()
                writing.append(writer.submit(context.copy().run, write, index, block, y))
                del y
            while writing:
                writing.popleft().result()
                step()
        finally:
            for _, _, task in reading:
                task.cancel()
