"""Comparison of a trace's results with those of real calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import arrays
from ....errors import Differs, TraceError
from ....runtime.warning_filters import silent

_MOST_ROUNDING = 0.1
"""The share of the largest number beyond which results of 16 bits differ."""


def check_same(traced: Any, real: Any, lowest: float = 0.0) -> None:
    """Compare a result with that of a real call: shape, dtype and values.

    `lowest`: the lowest precision that they were computed in.

    Raises
    ------
    TraceError
        `Differs` if they differ; otherwise if the real call's is no result to compare with.
    """
    tensors = arrays.library(traced) == arrays.library(real) == "torch"
    if tensors and traced.dtype != real.dtype:  # also those that NumPy does not have
        raise Differs(f"traced it gives {traced.dtype}, a real call gives {real.dtype}")
    traced, real = host(traced), host(real)
    a, b = np.asarray(traced), np.asanyarray(real)
    if type(b) is not np.ndarray or b.dtype.hasobject:
        raise TraceError(f"it returns {type(real).__name__}")
    if a.shape != b.shape or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        raise Differs(f"traced it gives {a.dtype}{a.shape}, a real call gives {b.dtype}{b.shape}")
    if not close(a, b, lowest):
        raise Differs(
            f"its calls one by one give values of its own, {_first(a, b)}, f itself {_first(b, a)}"
        )


def _first(a: np.ndarray, b: np.ndarray) -> Any:
    """The first value that another array has not."""
    with np.errstate(all="ignore"):
        return a.flat[np.flatnonzero((a != b) & ~((a != a) & (b != b)))[0]]


def close(a: Any, b: Any, lowest: float = 0.0) -> bool:
    """Whether results of the same dtype are equal, up to rounding in another order.

    `lowest`: the lowest precision that they were computed in.
    """
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    eps = max(float(np.finfo(a.dtype).eps), lowest)
    tolerance = min(4e3 * eps, _MOST_ROUNDING)
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        return bool(np.isclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True).all())


def cast(result: Any, like: Any) -> Any:
    """A real result in the shape and dtype that the first slice's result fixed."""
    like = np.asarray(host(like))
    found = np.empty(like.shape, like.dtype.newbyteorder("="))
    with np.errstate(all="ignore"), silent():
        found[...] = np.asanyarray(host(result))
    return found


def host(x: Any) -> Any:
    """An array of any library on the CPU, as NumPy's; anything else as it is."""
    if arrays.library(x) is None:
        return [host(y) for y in x] if isinstance(x, (list, tuple)) else x
    return arrays.on_host(x)


def check_holds(result: Any, like: np.ndarray, numbers: bool) -> None:
    """Refuse a result that Python, or NumPy, does not put into such an array.

    Nor is None NaN there, or a text the number that it spells.
    """
    if like.dtype.kind in "fc" and (result is None or isinstance(result, (str, bytes))):
        raise TraceError(f"a result that is {result!r} among numbers")
    try:
        if numbers:
            one = np.empty((), object)
            one[()] = result
            np.asarray(one, dtype=like.dtype)
        else:
            np.empty((1, *like.shape[1:]), like.dtype)[0] = result
    except Exception as error:
        raise TraceError(f"a result that its dtype does not hold: {error}") from None
