"""The first calls of networks and estimators, which run in the loop.

A plan loads a hundred modules of ours and may compile. It is made once the loops over a function
have taken about as long as that takes, or at once for slices whose loop takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from .. import config, frontends, loop, thin_loop
from ..cache import cache_of, weakly
from .fallback import why_awkward
from .planner import LOOKS, Remembered, key_of, mode
from .quick import Quick

WAITS = 40e-3
"""Seconds of loops that a plan waits for: about what a first plan takes."""
_MOST, _SHARE = 8, 16
"""Slices that tell what one takes: so many, that share of all."""


def result(f: Any, axis: int, arr: Any) -> Any:
    """What the loop gives; None where a plan is to be made."""
    now, frontend = config.current(), frontends.find(f)
    waits = getattr(frontend, "WAITS", False) and WAITS and not now.engine
    if not waits or now.fallback == "raise" or type(arr) is not np.ndarray or not arr.size:
        return None
    known, method = cache_of(f)
    key = key_of(method, axis, arr)
    if key in known.plans or why_awkward(arr):
        return None
    count = arr.size // arr.shape[axis]
    try:
        looped = _Looped(frontend, f, axis, count)
        first = looped.begun(arr)
        if not looped.quick.serves(count):
            return None
        found = looped.quick.timed(count, loop.apply, looped.one, axis, arr, (), {}, first)
    except Exception:  # a plan says what is wrong, and where
        return None
    known.plans[key] = Remembered(looped, None, looped.again)
    return found


class _Looped:
    """The loop over a function, and whether it runs yet for arrays of one kind."""

    def __init__(self, frontend: ModuleType, f: Any, axis: int, count: int) -> None:
        self._make, self._f = frontend.slice_function, weakly(f)
        self._axis, self._count = axis, count
        self.quick = Quick(WAITS, WAITS)
        self._look()

    def _look(self) -> None:
        """Make what runs for a slice: it holds for the mode and the device that `f` has now."""
        began = perf_counter()
        self._mode = mode(self._f)
        self.one: Callable[..., Any] = self._make(self._f)
        self._until = self.quick.in_loop + LOOKS * (perf_counter() - began)

    def begun(self, arr: np.ndarray) -> list[Any]:
        """The results for the first slices, which tell what one takes."""
        axis = self._axis
        view = arr.transpose(*range(axis), *range(axis + 1, arr.ndim), axis)
        results, most = [], max(1, min(_MOST, self._count // _SHARE))
        for k, v in enumerate(thin_loop.rows_of(view, arr.ndim - 1)):
            if k == most:
                break
            began = perf_counter()
            results.append(self.one(v))
            self.quick.seconds = min(self.quick.seconds, perf_counter() - began)
        return results

    def __call__(self) -> bool:
        return mode(self._f) == self._mode and self.quick.serves(self._count)

    def again(self, arr: Any) -> Any:
        """The loop over an array of that kind; None if a slice raises."""
        try:
            if self.quick.in_loop > self._until:
                self._look()
            return self.quick.timed(self._count, loop.apply, self.one, self._axis, arr, (), {})
        except Exception:
            return None


__all__ = ["WAITS", "result"]
