"""NumPy's functions whose result has a shape that depends on the data, or is a plain shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import syntax
from ....errors import TraceError
from ....limits import LIMITS
from ..trace.arrays import as_array, copied
from ..trace.functions import function_call
from ..trace.indexing import as_mask, compressed, counted, nonzero, setitem
from ..trace.recorder import Recorder
from ..trace.stand_ins import tracers, values
from ..trace.tracer import Tracer
from . import ragged


def _where(recorder: Recorder, condition: Any, *others: Any, **kwargs: Any) -> Any:
    if others or kwargs:
        return NotImplemented
    return nonzero(recorder, condition)


def _argwhere(recorder: Recorder, x: Any) -> Any:
    found = nonzero(recorder, x)
    return function_call(recorder, np.stack, (list(found),), {"axis": 1})


def _flatnonzero(recorder: Recorder, x: Any) -> Any:
    return nonzero(recorder, function_call(recorder, np.ravel, (x,), {}))[0]


def _compress(recorder: Recorder, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    condition = as_mask(recorder, condition)
    if out is not None or axis not in (None, 0) or np.ndim(values(a)) != 1:
        return NotImplemented
    if condition.shape != a.shape:
        return NotImplemented
    return compressed(a, condition)


def _extract(recorder: Recorder, condition: Any, arr: Any) -> Any:
    flat = function_call(recorder, np.ravel, (arr,), {})
    return compressed(flat, as_mask(recorder, function_call(recorder, np.ravel, (condition,), {})))


def _delete(recorder: Recorder, arr: Any, obj: Any, axis: Any = None) -> Any:
    if not isinstance(obj, Tracer) or obj.ref is None:
        return NotImplemented
    if arr.ndim != 1 or np.ndim(obj.value) > 1:
        raise recorder.refuse("numpy.delete of positions that depend on the slice")
    if obj.value.dtype == bool:
        return compressed(arr, ~obj)
    recorder.real(np.delete, arr.value, obj.value)
    keep = recorder.constant(np.ones(arr.shape, bool))
    keep.owned = True
    setitem(keep, obj, False)
    return compressed(arr, keep)


def _unique(
    recorder: Recorder,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    ar = as_array(recorder, ar)
    if not isinstance(ar, Tracer) or ar.ref is None:
        return NotImplemented
    if axis is not None and not (axis in (0, -1) and ar.ndim == 1):
        raise recorder.refuse("numpy.unique with axis=")
    if ar.size == 0 or ar.value.dtype.kind == "c":
        raise recorder.refuse("numpy.unique of an empty or complex array")
    if not sorted and recorder.library == "numpy":
        raise recorder.refuse(
            "numpy.unique_values, or numpy.unique with sorted=False: their order is that of a hash "
            "table; numpy.unique sorts"
        )
    flags = tuple(map(bool, (return_index, return_inverse, return_counts)))
    real: Any = np.unique(ar.value, *flags, equal_nan=equal_nan)  # type: ignore[call-overload]
    found = distinct(ar, bool(equal_nan))
    n = recorder.ask(found, int(found.value))
    return recorder.call(
        syntax.UNIQUE, lambda *_: real, (ar,), batch=((ar, n, *flags, bool(equal_nan)), {})
    )


def distinct(x: Tracer, equal_nan: bool = True) -> Any:
    """The number of different values."""
    return x.recorder.call(
        syntax.UNIQUE_COUNT,
        lambda v: np.intp(len(np.unique(v, equal_nan=equal_nan))),
        (x,),
        batch=((x, equal_nan), {}),
        check=False,
    )


def _unique_part(**flags: bool) -> Callable[..., Any]:
    def special(recorder: Recorder, x: Any) -> Any:
        return _unique(recorder, x, **flags)

    return special


def _bincount(recorder: Recorder, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    x, minlength = as_array(recorder, x), int(minlength or 0)  # None in CuPy
    moving = isinstance(x, Tracer) and x.ref is not None and x.size
    within = moving and minlength and bool(((x >= 0) & (x < minlength)).all())
    if moving and not within and x.dtype.kind in "iu":
        if not bool(((x >= 0) & (x <= LIMITS.largest_answer)).all()):
            why = "numpy.bincount of a negative or large number"  # for which memory may not do
            recorder.raised(ValueError(why), decided=True)
            raise TraceError(why)
    real = recorder.real(lambda: np.bincount(values(x), values(weights), minlength))
    if moving and not within:
        top = function_call(recorder, np.max, (x,), {})
        recorder.ask(top, int(top.value))
    if not any(t.ref is not None for t in tracers((x, weights))):
        return recorder.call(syntax.SAME, np.bincount, (x, weights, minlength))
    return recorder.call(
        syntax.BINCOUNT, lambda *_: real, (x, weights), batch=((x, weights, len(real)), {})
    )


def _copy(recorder: Recorder, a: Any, order: str = "K", subok: bool = False) -> Any:
    return copied(a if isinstance(a, Tracer) else as_array(recorder, a))


def _shape(recorder: Recorder, a: Any) -> Any:
    counted(a)
    return np.shape(values(as_array(recorder, a)))


def _ndim(recorder: Recorder, a: Any) -> Any:
    return np.ndim(values(as_array(recorder, a)))


def _size(recorder: Recorder, a: Any, axis: Any = None) -> Any:
    if isinstance(a, ragged.Selected) and axis is None:
        return a.length()
    counted(a)
    return np.size(values(as_array(recorder, a)), axis)


def _spectrum(name: str) -> Callable[..., Any]:
    """A function of `spectra`, which few functions need."""

    def special(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        from . import spectra

        return getattr(spectra, name)(recorder, *args, **kwargs)

    return special


SPECIAL: dict[str, Callable[..., Any]] = {
    "numpy.nonzero": nonzero,
    "numpy.where": _where,
    "numpy.argwhere": _argwhere,
    "numpy.flatnonzero": _flatnonzero,
    "numpy.compress": _compress,
    "numpy.extract": _extract,
    "numpy.delete": _delete,
    "numpy.unique": _unique,
    "numpy.unique_values": _unique_part(sorted=False),
    "numpy.bincount": _bincount,
    "numpy.copy": _copy,
    "numpy.shape": _shape,
    "numpy.ndim": _ndim,
    "numpy.size": _size,
    "numpy.roots": _spectrum("roots"),
    "numpy.linalg.eig": _spectrum("eig"),
    "numpy.linalg.eigvals": _spectrum("eigvals"),
}
"""Functions whose result has a shape that depends on the data, or whose result is plain."""
