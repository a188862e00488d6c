"""The plain loop over the slices of a NumPy array, with less around each call than NumPy has.

It gives what `numpy.apply_along_axis` gives, makes the same calls in the same order, and takes
about half of what NumPy adds to each of them. What it does not know (subclasses, results of other
classes) it leaves to NumPy's own loop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

OTHER_SHAPE = r"could not broadcast input array from shape (\(.*\)) into shape \(.*\)"


class Left:
    """Raised for slices left to NumPy's own loop: `first` is the result for the first slice."""

    def __init__(self, first: Any) -> None:
        self.first = first


class Continued:
    """A function of which the results of the first calls are known.

    Attributes
    ----------
    continues : callable
        The function.
    """

    def __init__(self, f: Any, known: Sequence[Any]) -> None:
        self.continues, self._known = f, list(reversed(known))
        self.__name__ = getattr(f, "__name__", "f")  # which NumPy's warnings name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._known.pop() if self._known else self.continues(*args, **kwargs)


def takes(arr: Any, axis: Any) -> bool:
    """Whether `apply` serves an array: a plain one with several slices."""
    if type(arr) is not np.ndarray or type(axis) is not int or arr.ndim < 2:
        return False
    return -arr.ndim <= axis < arr.ndim and 0 not in arr.shape


def rows_of(view: np.ndarray, depth: int) -> Iterator[Any]:
    """Rows of `view` along its first `depth` axes, in C order."""
    if depth == 1:
        return iter(view)
    return (row for part in view for row in rows_of(part, depth - 1))


def apply(
    f: Callable[..., Any],
    axis: int,
    arr: np.ndarray,
    args: tuple,
    kwargs: dict,
    known: Sequence[Any],
    note: Callable[[Exception, tuple[int, ...], tuple[str, tuple[int, ...]] | None], None],
) -> Any:
    """The results of ``f(slice, *args, **kwargs)`` for all slices; or a `Left`, for NumPy's loop.

    Parameters
    ----------
    f : callable
        The function.
    axis : int
        From 0.
    arr : array
        One that `takes` is true of.
    args, kwargs : tuple, dict
        What `f` gets beside a slice.
    known : sequence
        The results for the first slices; for these `f` is not called.
    note : callable
        ``note(error, index, shapes)`` is called for what `f` raises, with the place of the slice,
        and for what NumPy says of a result that does not fit, with its shape and the first one's.
    """
    view = arr.transpose(*range(axis), *range(axis + 1, arr.ndim), axis)
    batch = view.shape[:-1]
    rows = rows_of(view, len(batch))
    k, first = 0, None
    asanyarray = np.asanyarray
    try:
        v = next(rows)
        first = asanyarray(known[0] if known else f(v, *args, **kwargs))
        if type(first) is not np.ndarray:
            return Left(first)
        n = len(batch)
        if arr.size == arr.shape[axis]:  # it is the only one
            out = first.copy().reshape(batch + first.shape)
            return out.transpose(*range(axis), *range(n, out.ndim), *range(axis, n))
        out = np.zeros_like(first, shape=batch + first.shape)
        flat = out.reshape(math.prod(batch), *first.shape)
        flat[0, ...] = first
        for k, result in enumerate(known[1:], 1):
            next(rows)
            flat[k, ...] = asanyarray(result)
        if args or kwargs:
            for k, v in enumerate(rows, k + 1):  # noqa: B020
                flat[k, ...] = asanyarray(f(v, *args, **kwargs))
        else:
            for k, v in enumerate(rows, k + 1):  # noqa: B020
                flat[k, ...] = asanyarray(f(v))
    except Exception as error:
        shapes = None
        if first is not None and isinstance(error, ValueError) and _is_mine(error):
            found = re.fullmatch(OTHER_SHAPE, str(error))
            shapes = None if found is None else (found[1], first.shape)
        note(error, tuple(map(int, np.unravel_index(k, batch))), shapes)
        raise
    return out.transpose(*range(axis), *range(n, out.ndim), *range(axis, n))


def _is_mine(error: Exception) -> bool:
    """Whether the loop itself raised an error, not a function that it called."""
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None
