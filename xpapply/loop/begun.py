"""The first calls of a loop, which tell what it takes, and what they gave."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..limits import LIMITS
from . import thin


class Begun(NamedTuple):
    """The first calls of a loop.

    Attributes
    ----------
    results : sequence
        What `f` returned for the first slices.
    seconds : float
        What a call takes.
    took : float
        What these calls took.
    """

    results: Sequence[Any]
    seconds: float
    took: float


class Users(Exception):
    """Holds what ``f`` raised for a slice of its own, and where that slice is."""

    def __init__(self, raised: Exception, index: tuple[int, ...]) -> None:
        self.raised, self.index = raised, index


def begun(
    f: Callable[..., Any],
    axis: int,
    arr: np.ndarray,
    args: tuple,
    kwargs: dict,
    around: float,
    limit: float | None = None,
) -> Begun:
    """Call for the first slices, as many as an estimate of the time needs.

    `around`: seconds of a turn of the loop beside the call. `limit`: seconds after the first call
    that the others may take; None: `LIMITS.begun_seconds`. What `f` raises for the very first
    slice is raised as it is, for others as `Users`.
    """
    view = arr.transpose(*range(axis), *range(axis + 1, arr.ndim), axis)
    count = arr.size // arr.shape[axis]
    rows, results, times, took = thin.rows_of(view, arr.ndim - 1), [], [], 0.0
    like: Any = None
    limit = LIMITS.begun_seconds if limit is None else limit
    most = max(1, min(LIMITS.begun_slices, count // LIMITS.begun_share))
    for k, v in enumerate(itertools.islice(rows, most)):
        started = time.perf_counter()
        try:
            results.append(f(v, *args, **kwargs))
        except Exception as error:
            if k == 0:
                raise
            raise Users(error, tuple(map(int, np.unravel_index(k, view.shape[:-1])))) from None
        times.append(time.perf_counter() - started)
        result = results[-1] = _kept(results[-1])
        took += times[-1]
        if took - times[0] > limit or type(result) not in _KEPT:
            break
        form = _form(result)
        if form is None or form != like:
            if k or form is None:  # NumPy's loop may end here, with no further call
                break
            like = form
    return Begun(results, min(times) + around, took)


class Over(BaseException):
    """The calls of a loop have taken all their seconds; no handler of `f` takes it for its own."""


class Limited:
    """Calls of a loop that end with `Over` once they have taken some seconds.

    They go on as long as the others would take less than that.

    Parameters
    ----------
    f : callable
        The function.
    count : int
        How many calls there are.
    seconds : float
        What they may take.
    look : float
        After how many it is seen what all of them would take.

    Attributes
    ----------
    call : callable
        What stands in the place of `f`.
    results : list
        What it gave.
    """

    def __init__(
        self, f: Callable[..., Any], count: int, seconds: float, look: float = math.inf
    ) -> None:
        self.results: list[Any] = []
        self._count, self._seconds, self._look = count, seconds, min(seconds, look)
        self._began = 0.0
        self._left: int = LIMITS.begun_bytes
        self.call = self._calls(f)

    def _calls(self, f: Callable[..., Any]) -> Callable[..., Any]:
        clock, append, until, kind = time.perf_counter, self.results.append, 0.0, None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal until, kind
            if clock() > until:
                until = self._end()
            result = f(*args, **kwargs)
            if type(result) is kind:
                append(result)
            elif type(result) in _NUMBERS:
                kind = type(result)
                append(result)
            else:
                append(_kept(result))
                if not self._is_kept(result):
                    until = 0.0
            return result

        call.__name__ = getattr(f, "__name__", "f")  # which NumPy's warnings name
        call.__dict__.update(vars(f))
        return call

    def _end(self) -> float:
        """Until when calls go on; raises `Over` if the rest is not short."""
        done = len(self.results)
        if not self._began:  # what the loop does before its first call is none of them
            self._began = time.thread_time()
            return time.perf_counter() + self._look
        if self._left < 0 or (self._count - done) * self.took > done * self._seconds:
            raise Over
        return time.perf_counter() + self._seconds

    def _is_kept(self, result: Any) -> bool:
        """Whether a result is kept: there may be more, and they are not large in total."""
        self._left -= result.nbytes if isinstance(result, np.ndarray) else 0
        if type(result) not in _KEPT:
            self._left = -1
        return self._left >= 0

    @property
    def took(self) -> float:
        """CPU seconds so far: on a busy machine the loop takes no more of them."""
        return time.thread_time() - self._began


_NUMBERS = frozenset((bool, int, float, complex, str, bytes, type(None), np.bool_))
_NUMBERS |= {np.dtype(c).type for c in np.typecodes["AllFloat"] + np.typecodes["AllInteger"]}
_KEPT = _NUMBERS | {list, tuple, np.ndarray}
"""Classes of results that can be kept while `f` is called again."""


def _kept(result: Any, depth: int = 0) -> Any:
    """A result that further calls of `f` do not write into; the objects in it are the same."""
    if isinstance(result, np.ndarray):
        return result.copy()
    if type(result) in (list, tuple) and depth < _DEPTH:
        return type(result)(_kept(x, depth + 1) for x in result)
    return result


def _form(result: Any) -> Any:
    """What results have in common that one array takes; None: no array is made of this one."""
    if type(result) in _NUMBERS and (type(result) is not int or -_LARGE <= result < _LARGE):
        return type(result)  # larger integers are of another dtype, or fit into none
    try:
        made = np.asanyarray(result)
    except Exception:
        return None
    return made.dtype, made.shape


_LARGE = 2**63
_DEPTH = 64
"""Dims that an array may have: of lists in more lists NumPy makes none."""
