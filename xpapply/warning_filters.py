"""Python's warning filters, which belong to the whole process."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterator

FILTERS = threading.RLock()
"""Held while warning filters are changed."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: FILTERS._at_fork_reinit())  # type: ignore[attr-defined]


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """No warning is shown.

    `warnings.catch_warnings` would also make Python forget what it has shown, so that what the
    default filter shows once would come again.
    """
    mine = ("ignore", None, Warning, None, 0)
    with FILTERS:
        filters = warnings.filters
        filters.insert(0, mine)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            filters.remove(mine)  # type: ignore[attr-defined]
