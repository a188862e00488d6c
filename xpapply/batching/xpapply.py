"""Rules of `xpapply.special`: functions of a slice that take any axes of an array."""

from __future__ import annotations

from typing import Any

from . import Batched, BatchingRule, NoRule
from .rules import aligned, bound, shifted

_ARRAYS = ("a", "b", "x", "y", "weights")
"""Parameters that are arrays, in all of them."""


def _rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Apply the same function along the axes of the slices."""
    given = bound(call, args, kwargs)
    arrays = [x for name in _ARRAYS if isinstance(x := given.get(name), Batched)]
    rest = [x for name, x in given.items() if name not in _ARRAYS]
    if not arrays or any(isinstance(x, Batched) for x in rest):
        raise NoRule(f"xpapply.special.{call.__name__} with parameters that depend on the slice")
    ndim = max(x.ndim for x in arrays)
    if any(getattr(given.get(name), "ndim", 0) > ndim for name in _ARRAYS):
        raise NoRule(f"xpapply.special.{call.__name__} with an array of more dimensions")
    for name in _ARRAYS:
        if isinstance(given.get(name), Batched):
            given[name] = aligned(given[name], ndim)
    if call.__name__ != "squared_diff":
        axis = given.get("axis")
        given["axis"] = tuple(range(1, ndim + 1)) if axis is None else shifted(axis, ndim)
    if call.__name__ == "bincount":
        raise NoRule("xpapply.special.bincount, whose length depends on the slice")
    found = call(**given)
    if not isinstance(found, tuple):
        return Batched(found)
    values: list[Any] = [Batched(x) for x in found]
    return type(found)(*values) if hasattr(found, "_fields") else tuple(values)


ROWS = [
    BatchingRule(f"xpapply.special.{name}", _rule, "axis")
    for name in (
        "argmax_and_max",
        "bincount",
        "log_softmax",
        "logsumexp",
        "mean_var",
        "norm",
        "normalize",
        "softmax",
        "squared_diff",
        "standardize",
    )
]
