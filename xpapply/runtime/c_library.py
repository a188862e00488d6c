"""The library of C that this process runs with."""

from __future__ import annotations

import functools
import platform


@functools.cache
def is_near() -> bool:
    """Whether its functions have glibc's documented error bounds.

    Then code that computes more bits knows to which number most of their results round.
    """
    name, version = platform.libc_ver()
    return name == "glibc" and [int(n) for n in version.split(".")[:2]] >= [2, 28]


__all__ = ["is_near"]
