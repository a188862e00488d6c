"""Python functions: tried out on slices, traced, and run on all slices at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from ... import config
from ...limits import LIMITS
from ...loop import reference

_call: Callable[..., Any] | None = None
"""What calls of more than a few slices run, once that is loaded."""


def call(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """A Python function on a NumPy array, along an axis that is not negative.

    The tracer takes 30 ms to load: it is for the first array with more than a few slices.
    """
    global _call
    if _call is None:
        few = math.prod(arr.shape) <= LIMITS.few_slices * arr.shape[axis]
        if few and _TRACER not in sys.modules and config.current().fallback != "raise":
            return reference.apply(f, axis, arr, args, kwargs)
        from . import python_functions

        _call = python_functions.call
    return _call(f, axis, arr, args, kwargs)


_TRACER = f"{__name__}.python_functions"
