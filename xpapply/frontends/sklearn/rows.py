"""Results of methods for samples in rows: of one sample, and of the slices of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import arrays
from ...errors import InputError, TraceError


def of_one_sample(method: Any) -> Callable[..., Any]:
    """`method` as a function of a slice."""

    def call(v: Any, *args: Any, **kwargs: Any) -> Any:
        found = _first(method(arrays.on_host(v).reshape(1, -1), *args, **kwargs))
        return found if isinstance(v, np.ndarray) else back(np.asanyarray(found), v)

    return call


def _first(found: Any) -> Any:
    """The only row. Numbers and labels keep their dtype: '<U4' of the classes, not of one."""
    if isinstance(found, (tuple, list)):
        return tuple(map(_first, found))
    return found[0] if _is_sparse(found) else np.asarray(found)[0, ...]


def _is_sparse(found: Any) -> bool:
    return type(found).__module__.startswith("scipy.sparse")


def result_of(found: Any, samples: int) -> np.ndarray:
    """Combine a method's results for samples in rows as the loop would."""
    if isinstance(found, (tuple, list)):
        each = [result_of(y, samples) for y in found]
        if len({y.shape for y in each}) > 1:
            raise TraceError(f"its {len(each)} results have several shapes")
        return np.stack(each, axis=1)
    if _is_sparse(found):
        raise TraceError("its result is sparse (it may have a parameter sparse_output)")
    y = np.asarray(found)
    if y.shape[:1] != (samples,):
        raise TraceError(f"it gives shape {y.shape} for {samples} samples")
    return y


def back(y: np.ndarray, like: Any) -> Any:
    """`y` as an array of the library that `like` is of."""
    if isinstance(like, np.ndarray):
        return y
    if y.dtype.kind not in "biufc":
        raise InputError(
            f"labels of dtype {y.dtype} for {arrays.describe(like)}, whose library has no such "
            "arrays: fit with numbers as labels, or take decision_function or predict_proba"
        )
    return arrays.asarray(y, like)
