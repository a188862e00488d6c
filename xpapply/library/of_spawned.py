"""Generators that another one spawns.

A family: which one comes next, how many numbers of 32 bits its entropy and its key have, and these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .of_random import made


def _child(family: Any, like: Any, kind: Any) -> Any:
    """The next generator that one spawns."""
    count, n, m = family[0], family[1], family[2]
    family[0] = count + 1
    key = np.empty(m + 1, np.int64)
    for k in range(m):
        key[k] = family[3 + n + k]
    key[m] = count
    return made(family[3 : 3 + n], key, like, kind)


def spawned(family: Any, like: Any, kind: Any) -> Any:
    """``rng.spawn(1)``."""
    return (_child(family, like, kind),)


def two_spawned(family: Any, like: Any, kind: Any) -> Any:
    """``rng.spawn(2)``."""
    one = _child(family, like, kind)
    return one, _child(family, like, kind)


def three_spawned(family: Any, like: Any, kind: Any) -> Any:
    """``rng.spawn(3)``."""
    one = _child(family, like, kind)
    two = _child(family, like, kind)
    return one, two, _child(family, like, kind)
