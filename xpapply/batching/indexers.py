"""`numpy.r_` and `numpy.c_`: arrays joined by indexing, as values that are moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import BatchingRule
from .numpy.moves import moves


class _Joiner:
    """``xp.r_[items]`` as a function of the items; `first`: the text that may stand first."""

    def __init__(self, xp: Any, name: str, first: tuple[str, ...]) -> None:
        self._object, self._first = getattr(xp, name), first
        self.__name__ = name

    def __call__(self, *items: Any) -> Any:
        return self._object[(*self._first, *items)]

    @property
    def of_numpy(self) -> Callable[..., Any]:
        """The joiner of NumPy arrays."""
        return _Joiner(np, self.__name__, self._first)


def _join(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    name, *items = args
    first = tuple(x for x in items[:1] if isinstance(x, str))
    return moves("*")(xp, _Joiner(xp, name, first), tuple(items[len(first) :]), {})


JOIN = BatchingRule("numpy.r_ or c_", _join, "moves", exact=True)
