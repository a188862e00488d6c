"""Python's garbage collector, which looks at all objects of a process."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No garbage is looked for meanwhile.

    For work that makes so many objects that the collector would run several times, over all that
    the process has: where JAX or torch are loaded, one run takes a third of a second.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
