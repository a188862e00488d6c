"""Python's warning filters and its garbage collector, which belong to the whole process."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from types import CodeType
from typing import Any

from ..errors import warn

Place = tuple[str, CodeType | None, Hashable]
"""The place of a warning: text or kind of floating-point error, code, position."""

FILTERS = threading.RLock()
"""Held while warning filters are changed."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: FILTERS._at_fork_reinit())  # type: ignore[attr-defined]


VMAP_IS_SLOW = "There is a performance drop because we have not yet implemented the batching rule"
"""torch.vmap's warning to its direct callers, which users are not."""


@contextlib.contextmanager
def silent(text: str = "") -> Iterator[None]:
    """No warning is shown; `text`: none that begins so (a regular expression).

    `warnings.catch_warnings` would also make Python forget what it has shown, so that what the
    default filter shows once would come again.
    """
    mine = ("ignore", re.compile(text) if text else None, Warning, None, 0)
    with FILTERS:
        filters = warnings.filters
        filters.insert(0, mine)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            filters.remove(mine)  # type: ignore[attr-defined]


# --- warnings of library code, noted by the thread that runs it ---------------------------------


class _Here(threading.local):
    add: Callable[[Place], object] | None = None


here = _Here()
"""The collector of warnings in this thread, where `NOTED` is a filter; None: they are shown."""


class _NotedWarning:
    """Stands for the pattern of texts in a filter: it matches what is noted.

    Libraries that make filters of another thread's anew (scikit-learn) do so by its `pattern`.
    """

    pattern = "(?!)"  # matches nothing

    @staticmethod
    def match(text: str) -> bool:
        add = here.add
        if add is None:
            return False
        if sys._getframe(1).f_code is warn.__code__:  # one of ours, which is meant to be shown
            return False
        filters = warnings.filters
        if len(filters) < 2 or filters[1] != _EVERYTHING:
            # of some slices a text may have other numbers, and come from other code, than of all
            add((re.sub(r"\d+", "0", text), None, 0))
        return True


NOTED: Any = ("ignore", _NotedWarning(), Warning, None, 0)
"""A filter that suppresses collected warnings, and does nothing in other threads."""
_EVERYTHING = ("ignore", None, Warning, None, 0)
"""The filter of ``simplefilter("ignore")``."""


_NEVER = 100_000_000
"""So many objects are made before garbage is looked for: by nobody while a function is read."""


class _Pause:
    """Who wants no garbage to be looked for, and what the collector's numbers were before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wanted: set[object] = set()
        self.before: tuple[int, int, int] | None = None

    def begin(self, one: object) -> None:
        """Let the collector rest for one more."""
        with self.lock:
            self.wanted.add(one)
            if self.before is None:
                self.before = gc.get_threshold()
                gc.set_threshold(_NEVER, *self.before[1:])

    def end(self, one: object) -> None:
        """Let it be as it was, if this is the last one. It can be called again."""
        with self.lock:
            self.wanted.discard(one)
            if not self.wanted:
                self.undo()

    def undo(self) -> None:
        """Set the numbers from before, unless somebody else has set some meanwhile."""
        if self.before is not None and gc.get_threshold()[0] == _NEVER:
            gc.set_threshold(*self.before)
        self.before = None


_pause = _Pause()


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No garbage is looked for meanwhile.

    For work that makes so many objects that the collector would run several times, over all that
    the process has: where JAX or torch are loaded, one run takes a third of a second. It is not
    turned off, but waits for more objects than are made: a library that is imported by another
    thread may ask whether it is on, to leave it so for good (dask does), and whoever turns it off
    meanwhile finds it off.
    """
    pause, one = _pause, object()
    try:  # what interrupts this may come at any line
        pause.begin(one)
        yield
    finally:
        try:
            pause.end(one)
        except BaseException:  # it came here
            pause.end(one)
            raise


def _in_child() -> None:
    """Look for garbage in a forked process, which lacks the threads that wanted none."""
    global _pause
    _pause.undo()
    _pause = _Pause()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)
