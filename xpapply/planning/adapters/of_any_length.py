"""Results of another length for each slice: filled up to the longest, with their lengths."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config, labelled, storage
from ...errors import InputError
from ...frontends import name_of
from ..application import Application, shown, why_awkward
from ..chunked import streamed
from . import Adapted, adapted, results

if TYPE_CHECKING:
    from ..plan import Plan


def _of_arrays(f: Any, room: int, fill: Any, dtype: Any) -> Callable[..., Any]:
    """What gives a result of `f` that is filled up, and its length as the last number.

    Of one for which there is no room, that is all it gives.
    """

    def filled(v: Any, *args: Any) -> Any:
        found = f(v, *args)
        n = len(found)
        out = np.full(room + 1, fill, dtype)
        out[room] = n
        if n <= room:
            out[:n] = found
        return out

    return filled


def _of_lists(f: Any, room: int, fill: Any, dtype: Any) -> Callable[..., Any]:
    """The same for lists: compiled code puts their numbers into arrays one by one."""

    def filled(v: Any, *args: Any) -> Any:
        found = f(v, *args)
        n = len(found)
        out = np.full(room + 1, fill, dtype)
        out[room] = n
        if n <= room:
            for k in range(n):
                out[k] = found[k]
        return out

    return filled


def _as_of(f: Any, made: Any) -> Callable[..., Any]:
    """What was made around `f`, as if the user had written it: that is how it is read."""
    made.__name__ = made.__qualname__ = name_of(f)
    made.__module__ = str(getattr(f, "__module__", None))
    return made  # type: ignore[no-any-return]


class OfAnyLength(Adapted):
    """The results of a function for slices of an array in memory, and how long they are."""

    def __init__(self, app: Application) -> None:
        elsewhere = labelled.wing(app.arr) is not None or storage.is_stored(app.arr)
        elsewhere = elsewhere or arrays.library(app.arr) not in (None, "numpy")
        if elsewhere or why_awkward(app.arr) or streamed.own_out(app.f, app.kwargs)[1] is not None:
            raise InputError(
                f"options(fill=...) is for plain arrays of NumPy in memory, without out=: found "
                f"{shown(app.arr)}"
            )
        self._app, self._fill = app.settled(), config.current().fill
        self._app.check_any()
        with config.options(fill=None):
            first = self._first()
        self._is_list = isinstance(first, (list, tuple))
        made = np.asanyarray(first)
        if made.ndim != 1 or made.dtype.kind not in "biufc":
            raise InputError(
                f"options(fill=...) is for results with one axis of numbers: {name_of(app.f)} "
                f"gave {shown(made)} for the first slice"
            )
        try:
            self._dtype = np.result_type(made.dtype, self._fill)
            np.full(1, self._fill, self._dtype)
        except OverflowError:
            raise InputError(
                f"fill={self._fill} is no number of {made.dtype}, the dtype of the results"
            ) from None
        # most are no longer than the slices; if one is, all are done again
        self._room = max(
            1, math.prod(self._app.arr.shape[a] for a in self._app.axes), 2 * made.size
        )

    def _first(self) -> Any:
        """The result for the first slice, which tells the dtype."""
        app = self._app
        place = tuple(slice(None) if a in app.axes else 0 for a in range(app.arr.ndim))
        v = app.arr[place].copy()  # to which it may write
        order = sorted(app.axes)
        return app.f(v.transpose([order.index(a) for a in app.axes]), *app.args, **app.kwargs)

    def _inner(self) -> Application:
        app, make = self._app, _of_lists if self._is_list else _of_arrays
        f = functools.partial(app.f, **app.kwargs) if app.kwargs else app.f
        filled = make(f, self._room, self._fill, _with_lengths(self._dtype))
        return Application(_as_of(app.f, filled), app.axis, app.arr, app.args, {})

    def results(self) -> Any:
        first = self._app.axes[0]
        at = first - sum(a < first for a in self._app.axes)  # where results stand
        found, lengths = self._found(at)
        if (longest := int(lengths.max())) > self._room:  # now there is room for all of them
            self._room = longest
            found, lengths = self._found(at)
        values = found[..., :longest].astype(self._dtype)
        return np.moveaxis(values, -1, at), lengths

    def _found(self, at: int) -> tuple[Any, Any]:
        with config.options(fill=None):
            found = np.moveaxis(results(self._inner()), at, -1)
        return found, found[..., -1].real.astype(np.intp)

    def plan(self) -> Plan:
        with config.options(fill=None):
            return adapted(self._inner()).plan()


def _with_lengths(dtype: Any) -> Any:
    """A dtype that has all numbers of one, and lengths."""
    if dtype.kind == "f":
        return np.result_type(dtype, np.float32)
    return np.result_type(dtype, np.int64) if dtype.kind in "bi" or dtype.itemsize < 8 else dtype


adapt = OfAnyLength
