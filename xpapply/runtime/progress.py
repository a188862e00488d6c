"""Progress: a bar on stderr for runs of more than a second.

tqdm draws it where that is installed; otherwise it is a plain line.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from .. import config
from ..limits import LIMITS

T = TypeVar("T")


class Bar:
    """Slices that are done, of all."""

    def __init__(self, total: int, unit: str) -> None:
        self._total, self._unit, self._done, self._shown = total, unit, 0, 0
        self._began = time.perf_counter()
        self._next = self._began + LIMITS.progress_after
        self._lock = threading.Lock()
        self._bar: Any = None

    def step(self, slices: int) -> None:
        """So many more are done."""
        self._done += slices  # without the lock: this is called for every slice
        if time.perf_counter() > self._next and self._lock.acquire(blocking=False):
            try:
                self._show()
            finally:
                self._lock.release()

    def through(self, pieces: Iterable[T]) -> Iterator[T]:
        """Iterate over pieces; each is done when the next one is requested."""
        for piece in pieces:
            yield piece
            self.step(1)

    def _show(self) -> None:
        now = time.perf_counter()
        self._next = now + LIMITS.progress_every
        if self._bar is None:
            self._bar = _bar(self._total, self._unit, now - self._began)
        done = min(self._done, self._total)
        self._bar.update(done - self._shown)
        self._shown = done

    def close(self) -> None:
        """End the bar."""
        with self._lock:
            self._next = float("inf")
            if self._bar is not None:
                self._bar.update(min(self._done, self._total) - self._shown)
                self._bar.close()


def _bar(total: int, unit: str, seconds: float) -> Any:
    """Something to see, for a run that began so many seconds ago."""
    if importlib.util.find_spec("tqdm") is None:
        return _StatusLine(total, unit, seconds)
    from tqdm import tqdm

    made = tqdm(
        total=total,
        unit=f" {unit}",
        unit_scale=True,
        file=sys.stderr,
        mininterval=LIMITS.progress_every,
    )
    made.start_t -= seconds
    return made


class _StatusLine:
    """A status line, where tqdm is not installed."""

    def __init__(self, total: int, unit: str, seconds: float) -> None:
        self._total, self._unit, self._done = total, unit, 0
        self._began = time.perf_counter() - seconds

    def update(self, slices: int) -> None:
        self._done += slices
        took = time.perf_counter() - self._began
        left = took * (self._total - self._done) / max(1, self._done)
        sys.stderr.write(
            f"\r{self._done:,} of {self._total:,} {self._unit}, {took:.0f} s, {left:.0f} s to go "
        )
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()


_bars: ContextVar[Bar | None] = ContextVar("xpapply_progress", default=None)
"""The bar of the outermost run."""


def is_shown() -> bool:
    """Whether this is within a run with a bar."""
    return _bars.get() is not None


@contextlib.contextmanager
def shown(total: int, unit: str = "slices") -> Iterator[Bar | None]:
    """A bar for a run, if the option is on and no outer run has one."""
    if not config.current().progress or is_shown():
        yield None
        return
    bar = Bar(total, unit)
    token = _bars.set(bar)
    try:
        yield bar
    finally:
        _bars.reset(token)
        bar.close()
