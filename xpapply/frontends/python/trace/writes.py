"""NumPy's functions that write into an array which ``f`` made, as assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching.rules import signature
from .arrays import Elements
from .recorder import Recorder
from .stand_ins import values
from .tracer import Tracer


def _vector(recorder: Recorder, x: Any, name: str) -> Tracer:
    if not isinstance(x, Tracer) or np.ndim(x.value) != 1:
        raise recorder.refuse(f"numpy.{name} into something that is not a vector")
    return x


def _put(recorder: Recorder, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    places = np.size(values(ind))
    if mode != "raise" or np.size(values(v)) not in (1, places):
        raise recorder.refuse("numpy.put with these arguments")
    if not isinstance(a, Tracer):
        raise recorder.refuse("numpy.put into something that is not an array")
    Elements(a).flat()[ind] = np.ravel(v) if np.ndim(values(v)) else v


def _putmask(recorder: Recorder, a: Any, mask: Any, values: Any) -> None:
    x = _vector(recorder, a, "putmask")
    if np.ndim(getattr(values, "value", values)):
        if np.shape(getattr(values, "value", values)) != x.value.shape:
            raise recorder.refuse("numpy.putmask of values of another shape")
        x[...] = np.where(mask, values, x)
    else:
        x[mask] = values


def _place(recorder: Recorder, arr: Any, mask: Any, vals: Any) -> None:
    if np.size(values(vals)) != 1:
        raise recorder.refuse("numpy.place of several values")
    _vector(recorder, arr, "place")[mask] = vals if np.ndim(values(vals)) == 0 else vals[0]


def _put_along_axis(
    recorder: Recorder, arr: Any, indices: Any, values: Any, axis: Any = -1
) -> None:
    if axis not in (0, -1):
        raise recorder.refuse("numpy.put_along_axis along several axes")
    _vector(recorder, arr, "put_along_axis")[indices] = values


WRITES: dict[str, Callable[..., None]] = {
    "put": _put,
    "putmask": _putmask,
    "place": _place,
    "put_along_axis": _put_along_axis,
}
"""Functions of `numpy` that write, as assignments."""


def find(name: str, args: tuple, kwargs: dict) -> Callable[..., None] | None:
    """The function for ``numpy.name``, or None where these arguments are none of its own."""
    own = WRITES.get(name.removeprefix("numpy."))
    try:
        return None if own is None or not signature(own).bind(None, *args, **kwargs) else own
    except TypeError:
        return None
