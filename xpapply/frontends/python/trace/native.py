"""Calls of the array's own library while ``f`` is traced: what CuPy gives is what the loop gives.

Tracers hold their values on the host, whatever library the slice is of. Functions of CuPy are
called on the device all the same: their dtypes, their NaNs and their last digits are CuPy's own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import Batched, BatchingRule, NoRule, in_namespace, resolve
from ....batching.names import CUPY, root_of
from ....batching.ragged import Ragged
from ....batching.rules import mapped
from .recorder import Recorder
from .stand_ins import replaced


def own(recorder: Recorder, function: Any, row: BatchingRule | None = None) -> Any:
    """The function of the library of the slice, if it is to be called there; else None."""
    if recorder.library != "cupy":
        return None
    if root_of(function) in CUPY:
        return function
    if row is None or isinstance(function, np.ufunc) or row.name.startswith("xpapply."):
        return None  # ufuncs have the same dtypes in both libraries
    if "." not in row.name or resolve(row.name) is not function:
        return None
    try:
        return in_namespace(sys.modules["cupy"], row.name)
    except NoRule as error:
        raise recorder.refuse(str(error)) from None


def call(recorder: Recorder, function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """The result of a call on the device, on the host."""
    xp = sys.modules["cupy"]
    sent: list[tuple[Any, Any]] = []

    def there(t: Any) -> Any:
        if not isinstance(t.value, np.ndarray if t.ref is None else (np.ndarray, np.generic)):
            return t.value  # a number, which may have been one of NumPy's
        array = xp.asarray(t.value)
        sent.append((t, array))
        return array

    started = time.perf_counter()
    result = function(*replaced(there, args), **replaced(there, kwargs))
    recorder.until += time.perf_counter() - started  # a kernel may have been compiled

    def back(array: Any) -> Any:
        value = array.get()
        if value.ndim == 0:
            return value[()]  # a number is a copy, as it is on the host
        for t, given in sent:
            if array is given or (given.ndim and xp.may_share_memory(array, given)):
                recorder.views.append((value, t))
        return value

    return mapped(back, result, xp.ndarray)


def on_device(tree: Any) -> Any:
    """Arguments of a batching rule, with the slices on the device."""
    xp = sys.modules["cupy"]
    tree = mapped(lambda x: Batched(xp.asarray(x.array)), tree)
    return mapped(lambda x: Ragged(xp.asarray(x.flat), x.counts), tree, Ragged)


def on_host(tree: Any) -> Any:
    """Copy the result of a batching rule to the host."""
    xp = sys.modules["cupy"]
    tree = mapped(lambda x: Batched(x.array.get()) if isinstance(x.array, xp.ndarray) else x, tree)
    return mapped(lambda x: x.get(), tree, xp.ndarray)
