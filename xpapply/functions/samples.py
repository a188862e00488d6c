"""Methods of models that take samples in rows: called with a batch of one for each slice.

``model.predict`` of scikit-learn, Keras and others wants an array ``(samples, features)``, and
raises for a slice. There it gets ``v[None]``, and what it gives for this one row is the result.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from .. import arrays
from ..errors import add_note
from ..limits import LIMITS
from .cache import cache_of
from .estimators import BatchOfOne

_NAMES = frozenset("transform inverse_transform decision_function score_samples apply".split())
"""Methods with a result for each sample and no side effects, beside ``predict...``; others, such as
``fit_transform``, are never tried."""

_WANTS_ROWS = (
    r"(?i)\b(2|two)[ -]?d(im\w*)?\b"  # scikit-learn, LightGBM, XGBoost
    r"|ndim ?={1,2} ?2\b|\(None, |\brank:? 2\b|Expected: 2\b"  # Keras, ONNX Runtime
)
"""Error texts that ask for data of two dimensions."""


Ends = Callable[[], tuple[Any, Any]]


def wanted(
    f: Any, error: BaseException, ends: Ends, args: tuple, kwargs: dict
) -> BatchOfOne | None:
    """`f` for batches of one, if that is what it said when it raised `error` for a slice.

    Only methods and callable objects are tried with a batch, never plain functions, and only if
    what they give for a sample is the same whichever sample is beside it. `ends` gives the first
    slice and the last one.
    """
    if not asks_for_rows(f, str(error)):
        return None
    first, last = ends()
    known, method = cache_of(f)
    key = (method, len(first), arrays.dtype_name(first))
    if key in known.batched:
        return BatchOfOne(f)
    try:
        alone = f(first[None], *args, **kwargs)
        together = _beside(f, first, last, args, kwargs)
        if not _is_row(alone, together):
            return None
    except Exception as another:
        text = str(another).strip().partition("\n")[0]
        add_note(error, f"a batch of one slice raises {type(another).__name__}: {text}")
        return None
    known.batched[key] = True
    return BatchOfOne(f)


def wanted_for(
    f: Any, said: BaseException | str, ends: Ends, args: tuple, kwargs: dict
) -> BatchOfOne | None:
    """The batch of one after a failed trace, by its reason; then `f` is called again."""
    if isinstance(said, BaseException):
        return wanted(f, said, ends, args, kwargs)
    if not asks_for_rows(f, said):
        return None
    try:
        f(ends()[0], *args, **kwargs)
    except Exception as error:
        return wanted(f, error, ends, args, kwargs)
    return None


def asks_for_rows(f: Any, text: str) -> bool:
    """Whether an exception's text asks for data of two dimensions."""
    return takes_samples(f) and re.search(_WANTS_ROWS, text) is not None


def takes_samples(f: Any) -> bool:
    """Whether `f` is a method, or an object, that may take samples in rows."""
    while isinstance(f, functools.partial):
        f = f.func
    if type(f) is FunctionType:  # as a rule: a call that loops waits for this
        return False
    if isinstance(f, MethodType):
        name = getattr(f.__func__, "__name__", "")
        return name.startswith("predict") or name in _NAMES
    call = inspect.getattr_static(type(f), "__call__", None)
    of_python = isinstance(call, FunctionType) and not hasattr(f, "__wrapped__")
    return of_python and type(f) is not BatchOfOne


def ends(axis: int, arr: Any) -> tuple[Any, Any]:
    """The first and the last slice."""
    x = arr if arrays.library(arr) is not None else np.asanyarray(arr)
    axis %= x.ndim
    at = [tuple(slice(None) if k == axis else end for k in range(x.ndim)) for end in (0, -1)]
    return x[at[0]], x[at[1]]


def _beside(f: Any, first: Any, last: Any, args: tuple, kwargs: dict) -> Any:
    """Results for a batch of two: the first slice, and the last one if `f` takes that."""
    stack = arrays.compat(first).stack
    try:
        return f(stack([first, last]), *args, **kwargs)
    except Exception:  # of this slice the loop will tell
        return f(stack([first, first]), *args, **kwargs)


def _is_row(alone: Any, together: Any) -> bool:
    """Whether results have a row per sample, whose first one equals the single result."""
    if isinstance(alone, tuple):  # predictions and their standard deviations
        several = isinstance(together, tuple) and len(alone) == len(together) > 0
        return several and all(map(_is_row, alone, together))
    alone, together = (np.asarray(y) if type(y) is list else y for y in (alone, together))
    for found, rows in ((alone, 1), (together, 2)):
        if arrays.library(found) is None or not found.ndim or found.shape[0] != rows:
            return False
    return alike(alone[0], together[0])


def alike(a: Any, b: Any) -> bool:
    """Whether two results are equal up to rounding."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    kind = getattr(a.dtype, "kind", "f")
    if kind not in "biufc":  # of labels that are texts or objects
        return np.array_equal(a, b)
    equal = (a == b) | ((a != a) & (b != b))
    if kind != "b":
        equal = equal | (abs(a - b) <= LIMITS.batches_alike * abs(a))
    return bool(equal.all())
