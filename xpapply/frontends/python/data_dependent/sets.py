"""Functions of sets, and others whose results have a length that depends on the data.

They are put together of what is known: `numpy.unique`, `isin`, masks.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace.functions import function_call
from ..trace.indexing import setitem
from ..trace.recorder import Recorder
from ..trace.stand_ins import tracers, values
from ..trace.tracer import Tracer
from . import ragged


def _unique(recorder: Recorder, x: Any) -> Any:
    return function_call(recorder, np.unique, (x,), {})


def _in(recorder: Recorder, x: Any, other: Any) -> Any:
    return function_call(recorder, np.isin, (x, other), {})


def _joined(recorder: Recorder, *parts: Any) -> Any:
    flat = [function_call(recorder, np.ravel, (x,), {}) for x in parts]
    return function_call(recorder, np.concatenate, (flat,), {})


def _promoted(recorder: Recorder, x: Any, *others: Any) -> Any:
    dtype = np.result_type(*(np.asarray(values(y)) for y in (x, *others)))
    return x if x.dtype == dtype else x.astype(dtype)


def _array(x: Any) -> Any:
    """A list of numbers as an array."""
    listed = isinstance(x, (list, tuple)) and not any(True for _ in tracers(x))
    return np.asarray(x) if listed else x


def _plain(ar1: Any, ar2: Any) -> bool:
    """Whether both are arrays, and one depends on the slice."""
    return isinstance(ar1, (Tracer, np.ndarray)) and isinstance(ar2, (Tracer, np.ndarray))


def intersect1d(recorder: Recorder, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values of one that are in the other, too, sorted."""
    ar1, ar2 = _array(ar1), _array(ar2)
    if assume_unique or not _plain(ar1, ar2):
        return NotImplemented
    one = _unique(recorder, _promoted(recorder, ar1, ar2))
    return one[_in(recorder, one, ar2)]


def setdiff1d(recorder: Recorder, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values of one that are not in the other, sorted."""
    ar1, ar2 = _array(ar1), _array(ar2)
    if assume_unique or not _plain(ar1, ar2):
        return NotImplemented
    one = _unique(recorder, ar1)
    return one[~_in(recorder, one, ar2)]


def setxor1d(recorder: Recorder, ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values that are in one of both only, sorted."""
    ar1, ar2 = _array(ar1), _array(ar2)
    if assume_unique or not _plain(ar1, ar2):
        return NotImplemented
    one = setdiff1d(recorder, _promoted(recorder, ar1, ar2), ar2)
    other = setdiff1d(recorder, _promoted(recorder, ar2, ar1), ar1)
    return function_call(recorder, np.sort, (_joined(recorder, one, other),), {})


def union1d(recorder: Recorder, ar1: Any, ar2: Any) -> Any:
    """The values of both, sorted."""
    ar1, ar2 = _array(ar1), _array(ar2)
    if not _plain(ar1, ar2):
        return NotImplemented
    return _unique(recorder, _joined(recorder, ar1, ar2))


def in1d(
    recorder: Recorder, ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False
) -> Any:
    """`numpy.isin` of the values in one axis."""
    found = _in(recorder, function_call(recorder, np.ravel, (ar1,), {}), ar2)
    return ~found if invert else found


def trim_zeros(recorder: Recorder, filt: Any, trim: str = "fb") -> Any:
    """Trim zeros at the ends: slices that begin and end alike go together."""
    if not isinstance(filt, Tracer) or filt.ndim != 1 or not set(trim.lower()) <= {"f", "b"}:
        return NotImplemented
    mask, n = filt != 0, filt.shape[0]
    if not mask.any():
        return filt[:0]
    first = int(mask.argmax()) if "f" in trim.lower() else 0
    last = n - int(mask[::-1].argmax()) if "b" in trim.lower() else n
    return filt[first:last]


def fill_diagonal(recorder: Recorder, a: Any, val: Any, wrap: bool = False) -> Any:
    """A write to the places of the diagonal."""
    places = np.arange(min(a.shape))
    shape = np.shape(values(val))
    if not isinstance(a, Tracer) or a.ndim != 2 or wrap or shape not in ((), places.shape):
        raise recorder.refuse("numpy.fill_diagonal with these arguments")
    setitem(a, (places, places), val)


def argrelextrema(
    recorder: Recorder,
    data: Any,
    comparator: Any,
    axis: int = 0,
    order: int = 1,
    mode: str = "clip",
) -> Any:
    """Places where a value compares so with `order` neighbours on both sides."""
    if not isinstance(data, Tracer) or data.ndim != 1 or axis not in (0, -1):
        return NotImplemented
    if type(order) is not int or order < 1 or mode not in ("clip", "wrap"):
        return NotImplemented
    n = data.shape[0]
    places = np.arange(n)
    found = []
    for shift in range(1, order + 1):
        for neighbour in (places + shift, places - shift):
            other = data[neighbour % n if mode == "wrap" else np.clip(neighbour, 0, n - 1)]
            found.append(comparator(data, other))
    return (ragged.positions(functools.reduce(operator.and_, found)),)


def argrelmax(
    recorder: Recorder, data: Any, axis: int = 0, order: int = 1, mode: str = "clip"
) -> Any:
    """`argrelextrema` of larger values."""
    return argrelextrema(recorder, data, np.greater, axis, order, mode)


def argrelmin(
    recorder: Recorder, data: Any, axis: int = 0, order: int = 1, mode: str = "clip"
) -> Any:
    """`argrelextrema` of smaller values."""
    return argrelextrema(recorder, data, np.less, axis, order, mode)


SPECIAL: dict[str, Callable[..., Any]] = {
    f"numpy.{f.__name__}": f
    for f in (intersect1d, setdiff1d, setxor1d, union1d, in1d, trim_zeros, fill_diagonal)
}
SPECIAL |= {
    f"scipy.signal.{module}{f.__name__}": f
    for f in (argrelextrema, argrelmax, argrelmin)
    for module in ("", "_peak_finding.")  # SciPy's name for it, and where SciPy has it
}
"""By the names of NumPy's and SciPy's functions, for `functions.SPECIAL`."""
