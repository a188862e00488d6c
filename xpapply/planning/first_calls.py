"""The first calls of networks and estimators for a few slices, which run in the loop.

A plan loads a hundred modules of ours and may compile. It is made once the loops over a function
have taken about as long as that takes. Where there are more slices, the first of them tell how long
the loop over all would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import config, frontends
from ..functions.cache import cache_of
from ..limits import LIMITS
from ..loop import reference, thin
from ..runtime.budget import Quick
from .application import why_awkward
from .own_loop import OwnLoop
from .planner import Remembered, key_of


def result(f: Any, axis: int, arr: Any) -> Any:
    """The loop's result, or None where a plan is to be made."""
    now, frontend = config.current(), frontends.find(f)
    waits = frontend.waits and LIMITS.first_plan and not now.engine
    if not waits or now.fallback == "raise" or not thin.takes(arr, axis):
        return None
    if why_awkward(arr):
        return None
    known, method = cache_of(f)
    key = key_of(method, axis, arr)
    if key in known.plans:
        return None
    count = arr.size // arr.shape[axis]
    try:
        looped = _Looped(frontend, f, axis, count)
        begun = looped.begun(f, arr) if count > LIMITS.first_plan_slices else ()
    except Exception:
        return None
    if begun is None:
        return None
    found = looped.result(f, arr, begun)
    if found is not None:
        known.plans[key] = Remembered(looped, None, looped=looped.result, loops=looped.quick)
    return found


class _Looped:
    """The loop over a function, and whether it still runs for arrays of one kind."""

    def __init__(self, frontend: frontends.Frontend, f: Any, axis: int, count: int) -> None:
        self._loop, self._axis, self._count = OwnLoop(frontend, f, axis), axis, count
        self.quick = Quick(LIMITS.first_plan, LIMITS.first_plan)

    def __call__(self) -> bool:
        serves = self.quick.serves(self._count) and config.current().fallback != "raise"
        return serves and self._loop.holds

    def begun(self, f: Any, arr: Any) -> Sequence[Any] | None:
        """Results for the first slices; None where the loop takes longer than a plan may wait."""
        found = self._loop.begun(f, arr, LIMITS.first_plan_tells * self.quick.most)
        return found.results if found.seconds * self._count <= self.quick.most else None

    def result(self, f: Any, arr: Any, begun: Sequence[Any] = ()) -> Any:
        """The loop's result; None if `f` raises for the first slice.

        `begun`: the results for the first slices.
        """
        if (unseen := self._loop.unseen).spent > unseen.limit:
            self._loop.look(f)
        try:
            return self.quick.timed(self._count, self._loop, f, arr, begun)
        except Exception as error:
            if reference.was_first(error, self._axis, arr):
                return None
            raise


__all__ = ["result"]
