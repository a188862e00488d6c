"""Results of another length for each slice: filled up to the longest, with their lengths.

The first result tells the dtype. What runs all slices at once has no effects, and computes that one
anew; the loop goes on after it: `f` is called as often as by hand, and in that order.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config, frontends, labelled, storage
from ...errors import DRAWS, InputError, UnsupportedError, add_note
from ...frontends import name_of
from ...functions.cache import cache_of
from ...limits import LIMITS
from ...loop import reference
from ...loop.thin import Continued
from ...runtime.budget import Budget
from ..application import Application, announce, shown, why_awkward
from ..chunked import streamed
from ..python.unplanned import holds_generator
from . import Adapted, adapted, results

if TYPE_CHECKING:
    from ..plan import Plan


def _of_arrays(f: Any, room: int, fill: Any, dtype: Any) -> Callable[..., Any]:
    """Wrap `f` so that its result is padded to `room`, with its length as the last number.

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
    """The same for lists, whose numbers are stored one by one in compiled code."""

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


def _one_by_one(f: Any, dtype: Any) -> Callable[..., Any]:
    """Wrap `f` so that its result is an object of any length: for the loop."""

    def one(v: Any, *args: Any, **kwargs: Any) -> Any:
        found = f(v, *args, **kwargs)
        row = np.empty(len(found), dtype)
        row[:] = found
        box = np.empty((), object)
        box[()] = row
        return box

    return one


_WRAPPERS = frozenset(("filled", "one"))
"""The names of what `f` is wrapped in."""


def _not_for(f: Any, given: str) -> InputError:
    return InputError(
        f"options(fill=...) is for results with one axis of numbers: {name_of(f)} gave {given}"
    )


def _as_of(f: Any, made: Any) -> Callable[..., Any]:
    """Give a wrapper the name and module of `f`, by which its source is found."""
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
        self._is_list, self._dtype = False, np.dtype(np.float64)
        # most are no longer than the slices; if one is, all are done again
        self._room = max(1, math.prod(self._app.slice.shape))

    def _settle(self, first: Any) -> None:
        """Settle dtype and kind from the first result."""
        self._is_list = isinstance(first, (list, tuple))
        made = np.asanyarray(first)
        if made.ndim != 1 or made.dtype.kind not in "biufc":
            raise _not_for(self._app.f, f"{shown(made)} for the first slice")
        try:
            self._dtype = np.result_type(made.dtype, self._fill)
            np.full(1, self._fill, self._dtype)
        except OverflowError:
            raise InputError(
                f"fill={self._fill} is no number of {made.dtype}, the dtype of the results"
            ) from None
        self._room = max(self._room, 2 * made.size)

    def _slice(self) -> Any:
        """The first one, as the loop has it."""
        app = self._app
        rest = [a for a in range(app.arr.ndim) if a not in app.axes]
        return app.arr.transpose(*rest, *app.axes)[(0,) * len(rest)]

    def _inner(self) -> Application:
        app, make = self._app, _of_lists if self._is_list else _of_arrays
        f = functools.partial(app.f, **app.kwargs) if app.kwargs else app.f
        filled = make(f, self._room, self._fill, _with_lengths(self._dtype))
        return Application(_as_of(app.f, filled), app.axis, app.arr, app.args, {})

    def results(self) -> Any:
        try:
            return self._results()
        except (TypeError, ValueError) as error:
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            # where a wrapper has a result and cannot take it; what `f` raises is the user's
            where = at and at.tb_frame
            if where is None or where.f_code.co_filename != __file__:
                raise
            if where.f_code.co_name not in _WRAPPERS or "found" not in where.f_locals:
                raise
            found = where.f_locals["found"]
            found = np.asanyarray(found) if isinstance(found, np.generic) else found
            told = _not_for(self._app.f, f"{shown(found)} for a later slice")
            for note in getattr(error, "__notes__", ()):
                add_note(told, note)
        raise told

    def _results(self) -> Any:
        app, v = self._app, self._slice()
        before = v.copy() if v.flags.writeable else None
        with config.options(fill=None):
            began = time.perf_counter()
            first = app.f(v, *app.args, **app.kwargs)
            took = time.perf_counter() - began
            self._settle(first)
            if not self._runs_at_once(took * math.prod(app.batch)):
                began = time.perf_counter()
                found = self._looped(first)
                if (budget := self._budget()) is not None:
                    budget.spend(time.perf_counter() - began)
                return found
            if before is not None:
                v[...] = before  # it is run once more, on what it was
        at = reference.first_place(app.axes)  # where results stand
        found, lengths = self._found(at)
        if (longest := int(lengths.max())) > self._room:  # now there is room for all of them
            self._room = longest
            found, lengths = self._found(at)
        values = found[..., :longest].astype(self._dtype)
        return np.moveaxis(values, -1, at), lengths

    def _runs_at_once(self, seconds: float) -> bool:
        """Whether all slices run at once; if not, that is warned of. `seconds`: of the loop."""
        app, budget = self._app, self._budget()
        if budget is not None and not budget.is_over:
            # a first call takes longer than others
            if seconds < max(LIMITS.plan_worth, LIMITS.begun_first * budget.limit):
                return False
        plan = self._why_not_tried() or adapted(self._inner()).plan()
        if not plan.vectorized:
            announce(app.f, plan.slices or 0, "; ".join(plan.reasons), app.arr)
            if budget is not None:
                self._budget(budget.again(LIMITS.first_loops))
        return plan.vectorized

    def _budget(self, new: Budget | None = None) -> Budget | None:
        """The time that loops may take before a plan is sought; None: none."""
        app, now = self._app, config.current()
        if now.engine or now.fallback == "raise":
            return None
        known, method = cache_of(app.f)
        key = __name__, method, app.slice
        found = new or known.traced.get(key) or Budget(LIMITS.first_loops)
        known.traced[key] = found
        return found  # type: ignore[no-any-return]

    def _looped(self, first: Any) -> Any:
        """The loop, which goes on after the first slice."""
        app, wide = self._app, _with_lengths(self._dtype)
        one = _as_of(app.f, _one_by_one(app.f, wide))
        known = [_one_by_one(lambda _: first, wide)(None)]
        if isinstance(app.axis, tuple):
            note = _nothing
            called = Continued(one, known)
            boxes = reference.along(called, app.axes, app.arr, app.args, app.kwargs, note)
        else:
            boxes = reference.apply(one, app.axis, app.arr, app.args, app.kwargs, known)
        lengths = np.array([len(row) for row in boxes.flat], np.intp).reshape(boxes.shape)
        values = np.full((*boxes.shape, lengths.max()), self._fill, wide)
        for index in np.ndindex(boxes.shape):
            values[index][: lengths[index]] = boxes[index]
        at = reference.first_place(app.axes)
        return np.moveaxis(values.astype(self._dtype), -1, at), lengths

    def _found(self, at: int) -> tuple[Any, Any]:
        with config.options(fill=None):
            found = np.moveaxis(results(self._inner()), at, -1)
        return found, found[..., -1].real.astype(np.intp)

    def plan(self) -> Plan:
        with config.options(fill=None):
            found = self._why_not_tried() or self._tried()
            if found is not None:
                return found
            self._settle(self._app.f(self._slice().copy(), *self._app.args, **self._app.kwargs))
            return adapted(self._inner()).plan()

    def _tried(self) -> Plan | None:
        """The plan of the loop; None: `f` has no effects, and may be called for its first result.

        That is so of what runs at once, whatever the dtype is.
        """
        if not frontends.is_python(self._app.f):
            return None
        first: Any = None
        for self._is_list in (False, True):
            plan: Any
            try:
                plan = adapted(self._inner()).plan()
            except UnsupportedError as error:
                plan = error
            if getattr(plan, "vectorized", False):
                return None
            first = first or plan
        with contextlib.suppress(UnsupportedError):
            if adapted(self._app).plan().vectorized:  # another result, which is told of
                return None
        if isinstance(first, UnsupportedError):
            raise first
        return first  # type: ignore[no-any-return]

    def _why_not_tried(self) -> Plan | None:
        """The plan of the loop for what draws random numbers; None: it may be run at once."""
        if not holds_generator(self._app.f):
            return None
        from ..python.way_out import completed

        why = completed(DRAWS, self._app.f)
        if config.current().engine not in ("", "loop"):
            name = name_of(self._app.f)
            raise UnsupportedError(f"engine {config.current().engine!r} cannot run {name}: {why}")
        return self._app.in_loop((why,))


def _nothing(error: Exception, index: tuple[int, ...]) -> None:
    """Errors stay as they are."""


def _with_lengths(dtype: Any) -> Any:
    """A dtype that has all numbers of one, and lengths."""
    if dtype.kind == "f":
        return np.result_type(dtype, np.float32)
    return np.result_type(dtype, np.int64) if dtype.kind in "bi" or dtype.itemsize < 8 else dtype


adapt = OfAnyLength
