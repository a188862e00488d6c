"""NumPy's masked arrays: the data go through networks and elementwise functions, and the mask too.

Where a masked value takes part, the result is masked, as in the arithmetic of `numpy.ma`. A network
is one function of its whole slice, so that is by slices there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import InputError


def is_masked(x: Any) -> bool:
    """Whether it is a masked array, tested without loading `numpy.ma`."""
    return "numpy.ma" in sys.modules and isinstance(x, np.ma.MaskedArray)


def on_data(run: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """``run(x, axis)`` for masked arrays too, where it only knows plain ones."""

    def call(x: Any, axis: int) -> Any:
        if not is_masked(x):
            return run(x, axis)
        return with_mask(run(np.asarray(x.data), axis), x, axis)

    return call


def with_mask(y: np.ndarray, x: np.ma.MaskedArray, axis: int) -> Any:
    """The results `y` for the slices of `x` along `axis`, of the class of `x`.

    All results of a slice with a masked value are masked. Whether the mask is hard and what
    `filled` puts in its place are as in `x`, as after arithmetic.
    """
    found = _of_class(y, x)
    mask = np.ma.getmask(x)
    if mask is not np.ma.nomask:
        touched = np.any(mask, axis)
        within = y.ndim - touched.ndim
        inside = touched.reshape(touched.shape[:axis] + (1,) * within + touched.shape[axis:])
        found.mask = np.broadcast_to(inside, y.shape)
    return found


def _of_class(y: np.ndarray, x: np.ma.MaskedArray) -> Any:
    """Results with the class of `x`, as hard and filled alike, without its mask."""
    found: Any
    if y.dtype.kind in "fc" or x.dtype.kind not in "fc":
        found = x.__array_wrap__(y, None)  # type: ignore[no-untyped-call]
    else:  # 1e20 fills no index: what its own dtype has
        found = y.view(type(x))
        if x.hardmask:
            found.harden_mask()
    return found


# --- functions of elements ----------------------------------------------------------------------


def given(arrays: Sequence[Any]) -> bool:
    """Whether one of the arguments is a masked array."""
    return any(map(is_masked, arrays))


def data(arrays: Sequence[Any]) -> list[Any]:
    """The arguments without their masks."""
    return [np.asarray(x.data) if is_masked(x) else x for x in arrays]


def union(arrays: Sequence[Any]) -> Any:
    """The union of masks; `numpy.ma.nomask` if none has one."""
    masks = [np.ma.getmask(x) for x in arrays if isinstance(x, np.ma.MaskedArray)]
    masks = [m for m in masks if m is not np.ma.nomask]
    if not masks:
        return np.ma.nomask
    return functools.reduce(np.logical_or, masks)


def dressed(found: Any, mask: Any, arrays: Sequence[Any]) -> Any:
    """A result, or a tuple of them, of the class of the first masked argument, with a mask."""
    if isinstance(found, tuple):
        return tuple(dressed(y, mask, arrays) for y in found)
    like = next(x for x in arrays if isinstance(x, np.ma.MaskedArray))
    y = np.asarray(found)
    if like is np.ma.masked:  # which there is one of
        like = np.ma.masked_array(0.0)
    result = _of_class(y, like).reshape(y.shape)
    if mask is not np.ma.nomask:
        result.mask = np.broadcast_to(mask, y.shape)
    return result


def assigned(name: str, found: Any, out: Any) -> Any:
    """`out`, with the results and their masks in it."""
    several = isinstance(out, tuple)
    for target, y in zip(out if several else (out,), found if several else (found,), strict=True):
        if not isinstance(target, np.ma.MaskedArray):
            raise TypeError(
                f"{name} of a MaskedArray into out={type(target).__name__}, which has no mask: "
                "give a masked array, or fill the input"
            )
        if target.shape != y.shape:
            raise InputError(f"{name}: out has shape {target.shape}, the result {y.shape}")
        target[...] = y
    return out
