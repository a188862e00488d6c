"""The plain loop: one call of ``f`` per slice, in C order.

It is the fallback for every `f` that no engine can run at once, and the oracle
of every parity test. NumPy's and CuPy's own loops are the definition on their
arrays, so they are called, not copied; any other library gets the same
contract here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import namespace

EMPTY = "Cannot apply_along_axis when any iteration dimensions are 0"


def apply(f: Callable[..., Any], axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """``f(slice, *args, **kwargs)`` for every slice of `arr` along `axis`."""
    library = namespace.library(arr)
    if library is None or library == "numpy":
        return np.apply_along_axis(f, axis, arr, *args, **kwargs)
    if library == "cupy":
        import cupy

        return cupy.apply_along_axis(f, axis, arr, *args, **kwargs)
    return _apply(f, axis, arr, args, kwargs)


def _apply(f: Callable[..., Any], axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """The loop for libraries without one: results are collected and stacked.

    Nothing is written in place, so read-only (JAX) and autograd (torch) arrays
    work as well.
    """
    xp = namespace.compat(arr)
    axis = namespace.normalize_axis_index(axis, arr.ndim)
    batch = arr.shape[:axis] + arr.shape[axis + 1 :]
    if 0 in batch:
        raise ValueError(EMPTY)
    rows = xp.moveaxis(arr, axis, -1)
    results: list[Any] = []
    for index in itertools.product(*map(range, batch)):
        result = _as_array(xp, f(rows[(*index, ...)], *args, **kwargs), arr)
        if results and result.shape != results[0].shape:
            raise ValueError(
                f"could not broadcast input array from shape {tuple(result.shape)} "
                f"into shape {tuple(results[0].shape)}"
            )
        # the first result fixes the dtype, as in NumPy
        results.append(xp.astype(result, results[0].dtype, copy=False) if results else result)
    stacked = xp.reshape(xp.stack(results), (*batch, *results[0].shape))
    n = len(batch)
    order = (*range(axis), *range(n, stacked.ndim), *range(axis, n))
    return xp.permute_dims(stacked, order)


def _as_array(xp: Any, value: Any, like: Any) -> Any:
    """A result of `f` as an array beside `like`: scalars, (nested) lists and tuples included."""
    if namespace.library(value) == namespace.library(like):
        return value
    if isinstance(value, (list, tuple)):
        return xp.stack([_as_array(xp, v, like) for v in value])
    return namespace.asarray(value, like)
