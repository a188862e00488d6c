"""Python functions: tried out on slices, traced, and run on all slices at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import config
from ...limits import LIMITS
from ...loop import reference

if TYPE_CHECKING:
    from ...loop.begun import Begun

_call: Callable[..., Any] | None = None
"""The function that runs calls, once it is loaded."""


def again(f: Any, axis: int, arr: Any) -> Any:
    """The result on an array of CuPy's that lies like one before; None: there is more to do."""
    ready = sys.modules.get(f"{__name__}.ready")  # until something is, nothing loads it
    return None if ready is None else ready.again(f, axis, arr)


def call(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """A Python function on a NumPy array, along an axis that is not negative.

    What plans takes 50 ms to load: it is for the first array whose loop takes about as long.
    """
    global _call
    if _call is not None:
        return _call(f, axis, arr, args, kwargs)
    first: Begun | None = None
    if config.current().fallback != "raise":
        if math.prod(arr.shape) <= LIMITS.few_slices * arr.shape[axis]:
            return reference.apply(f, axis, arr, args, kwargs)
        from . import unplanned

        found, first = unplanned.along(f, axis, arr, args, kwargs)
        if found is not None:
            return found
    from . import python_functions

    _call = python_functions.call
    return _call(f, axis, arr, args, kwargs, first)
