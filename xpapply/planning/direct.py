"""Shortcut for repeated calls: only the numbers in the arrays are new."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays, config, frontends
from . import python


def directly(f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict) -> Any:
    """The result of a call of which all is known but the numbers; None: there is more to do.

    That is a Python function on an array of NumPy, or on lists, along one axis, which is planned by
    `python`; one on an array of CuPy's like one before; and anything else on such an array.
    """
    kind = type(arr)
    if (kind is list or kind is tuple) and type(axis) is int and callable(f):
        arr = np.asanyarray(arr)
    if not frontends.is_python(f):
        if args or kwargs or config.current().fill is not None:
            return None
        return _again(f, axis, arr) if arrays.elsewhere(arr) is None else None
    if type(axis) is tuple and len(axis) == 1:
        (axis,) = axis
    if type(arr) is not np.ndarray:
        if args or kwargs or not callable(f) or arrays.library(arr) != "cupy":
            return None
        if type(axis) is int:
            found = python.again(f, axis if axis >= 0 else axis + arr.ndim, arr)
            if found is not None:
                return found
        return _again(f, axis, arr) if arrays.elsewhere(arr) is None else None
    if type(axis) is not int or not callable(f):
        return None
    now, ndim = config.current(), arr.ndim
    if now.engine or not now.has_few or (kwargs and not kwargs.keys().isdisjoint(_OWN)):
        return None
    if not -ndim <= axis < ndim or 0 in arr.shape:
        return None
    return python.call(f, axis % ndim, arr, args, kwargs)


_OWN = ("out", "func1d")
"""Keywords that need not be the function's."""


def _again(f: Any, axis: Any, arr: Any) -> Any:
    """The result of a repeated call of a network, None where there is more to do."""
    global _again
    from . import planner  # no Python function needs it

    _again = planner.again
    return _again(f, axis, arr)
