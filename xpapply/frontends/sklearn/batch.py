"""A method of an estimator on blocks of slices: each block is one call."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from ... import arrays
from ...arrays.layout import boxes
from ...errors import InputError, TraceError
from ...functions import samples
from ...functions.estimators import why_singly
from ...ir.graph import Graph, ShapeDtype
from ...limits import LIMITS
from ...loop import reference
from ...runtime.error_state import let_pass
from .. import AllAtOnce
from .rows import back, of_one_sample, result_of


def vectorized(
    f: Any,
    axis: int,
    arr: Any,
    args: tuple,
    kwargs: dict,
    *,
    trusted: bool = False,
    graph: Graph | None = None,
) -> AllAtOnce:
    """The method itself, of many samples at once."""
    of, name = estimator_and_name(f)
    if why := why_singly(of, name):
        raise TraceError(why)
    found = _tried(f, axis, arr, args, kwargs)
    what = f"{type(of).__name__}.{name} of blocks of up to {LIMITS.estimator_slices:,} slices"
    if arrays.library(arr) != "numpy":
        what += ", on a copy on the host"
    core = ShapeDtype(found.shape[1:], found.dtype.name)
    run = functools.partial(along, alive(f), args, kwargs)
    return AllAtOnce("sklearn.batch", (what,), run, core)


def estimator_and_name(f: Any) -> tuple[Any, str]:
    """The estimator, and which of its methods `f` is."""
    while isinstance(f, functools.partial):
        f = f.func
    return f.__self__, f.__func__.__name__


def _tried(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> np.ndarray:
    """The results for two slices: they must be those that each gives alone."""
    first, last = (arrays.on_host(v) for v in samples.ends(axis, arr))
    try:
        alone = f(first.reshape(1, -1), *args, **kwargs)
    except Exception as error:  # as the loop would
        let_pass(error)
        reference.note(error, (0,) * (arr.ndim - 1), axis)
        raise
    a = result_of(alone, 1)
    try:
        b = result_of(f(last.reshape(1, -1), *args, **kwargs), 1)
    except TraceError:
        raise
    except Exception as error:  # of this slice the call will tell
        let_pass(error)
        last, b = first, a
    together = result_of(f(np.stack([first, last]), *args, **kwargs), 2)
    if not samples.alike(np.concatenate([a, b]), together):
        raise TraceError("the result for a sample depends on those beside it")
    return together


def alive(f: Any) -> Callable[[], Any]:
    """A weak reference of a plan to its method."""
    # no WeakMethod: those say on stderr that they are gone when Python ends
    own = isinstance(f, MethodType)
    find: Any = weakref.ref(f.__self__ if own else f)
    function: Any = f.__func__ if own else None

    def method() -> Any:
        found = find()
        if own and found is not None:
            return MethodType(function, found)
        if found is None:
            raise InputError("the estimator that this plan was made for is gone: keep it alive")
        return found

    return method


def along(find: Callable[[], Any], args: tuple, kwargs: dict, arr: Any, axis: int) -> Any:
    """All slices of an array."""
    f, x = find(), arrays.on_host(arr)
    batch = x.shape[:axis] + x.shape[axis + 1 :]
    rows = np.moveaxis(x, axis, -1)
    out = None
    for box in boxes(rows.shape, len(batch), LIMITS.estimator_slices):
        some = rows[box]
        own = some.shape[:-1]
        count = math.prod(own)
        try:
            y = result_of(f(some.reshape(count, -1), *args, **kwargs), count)
        except Exception as error:
            let_pass(error)
            y = _singly(f, some, box, axis, args, kwargs)
        if out is None:
            out = np.empty((*batch, *y.shape[1:]), y.dtype)
        out[box[:-1]] = y.reshape((*own, *y.shape[1:]))
    assert out is not None
    core = range(len(batch), out.ndim)
    return back(np.moveaxis(out, core, range(axis, axis + len(core))), arr)


def _singly(f: Any, some: Any, box: Any, axis: int, args: tuple, kwargs: dict) -> np.ndarray:
    """The slices of a block one by one, after an error: to raise it where it belongs."""
    one, found = of_one_sample(f), []
    for at in np.ndindex(some.shape[:-1]):
        try:
            found.append(np.asanyarray(one(some[at], *args, **kwargs)))
        except Exception as error:
            let_pass(error)
            place = tuple(k + part.start for k, part in zip(at, box[:-1], strict=True))
            reference.note(error, place, axis)
            raise
    return np.stack(found)
