"""The replacement of `apply_along_axis` of NumPy and CuPy while they are patched."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import arrays, config
from ..errors import UnsupportedError
from ..limits import LIMITS
from ..loop import originals, reference
from ..loop.begun import Begun
from ..loop.thin import Continued
from ..planning.python import python_functions, running
from ..planning.python.applied import Along
from .records import SeenFunction, seen, tell

busy: ContextVar[bool] = ContextVar("xpapply_patched_call", default=False)
"""Whether a patched call is being planned or run. Calls made by NumPy's own code meanwhile, also in
other threads, are left to the originals."""


_perf = time.perf_counter


def along_masked(original: Any, given: tuple, named: dict) -> Any:
    """The replacement of `numpy.ma.apply_along_axis`, which only counts calls.

    What it calls gets masked arrays, and may return masked numbers.
    """
    found = _arguments(given, named)
    if found is None or busy.get() or not callable(found[0]):
        return original(*given, **named)
    f, axis, arr, _, _ = found
    slices, length = 0, 1
    if isinstance(arr, np.ndarray) and type(axis) is int and -arr.ndim <= axis < arr.ndim:
        length = arr.shape[axis]
        slices = arr.size // max(1, length)
    known = seen(f, "numpy.ma.apply_along_axis")
    started = _perf()
    result = original(*given, **named)
    tell(
        known.row, slices, _perf() - started, "loop", "functions of masked arrays are left to NumPy"
    )
    return result


def _arguments(given: tuple, named: dict) -> tuple[Any, Any, Any, tuple, dict] | None:
    """Function, axis, array, and what else the function gets; None where one is missing."""
    if len(given) == 3:
        return *given, (), named
    if len(given) > 3:
        return *given[:3], given[3:], named
    names = ("func1d", "axis", "arr")[len(given) :]
    if any(name not in named for name in names):
        return None
    first = (*given, *(named[name] for name in names))
    return *first, (), {k: x for k, x in named.items() if k not in names}  # type: ignore[return-value]


def _along(name: str, original: Any, given: tuple, named: dict) -> Any:
    found = _arguments(given, named)
    if found is None or not callable(found[0]) or busy.get():
        return original(*given, **named)
    f, axis, arr, args, kwargs = found
    if (device := arrays.elsewhere(arr)) is not None:
        with device:
            return _along(name, original, given, named)
    known = seen(f, name)
    if type(axis) is not int:
        axis = int(axis) if isinstance(axis, np.integer) else None
    mine = type(arr) is np.ndarray or type(arr) is np.memmap
    mine = mine or (name[0] == "c" and arrays.library(arr) == "cupy")
    if not mine or axis is None or not -arr.ndim <= axis < arr.ndim:
        started = _perf()
        result = original(*given, **named)
        why = "" if mine else f"arrays of class {type(arr).__name__} are left to the original"
        tell(known.row, 0, _perf() - started, "loop", why)
        return result
    length = arr.shape[axis]
    slices = arr.size // length if length else 0
    if slices > LIMITS.few_patched and known.python and known.is_worth(slices, length):
        attempt = Attempt(known, slices, length)
        axis %= arr.ndim
        return attempt.run(OfOriginal(f, axis, arr, args, kwargs, attempt, original))
    started = _perf()
    result = original(*given, **named)
    known.fell_back(slices, length, _perf() - started, known.why)
    return result


along_numpy = functools.partial(_along, "numpy.apply_along_axis")
"""The replacement of `numpy.apply_along_axis`."""
along_cupy = functools.partial(_along, "cupy.apply_along_axis")
"""The replacement of `cupy.apply_along_axis`."""


class Attempt:
    """A call under inspection: whether it runs at once, and its entry in the report."""

    def __init__(self, known: SeenFunction, slices: int, length: int) -> None:
        self._known, self._slices, self._length = known, slices, length
        self.why, self.looped = "", 0.0
        self._started = _perf()

    def run(self, what: Any) -> Any:
        """The result; `what`: what a function is applied to."""
        engine = config.current().engine
        if engine == "loop":
            self.why = "options(engine='loop')"
            return self.told(what.loop(), "loop")
        token = busy.set(True)
        try:
            try:
                found = python_functions.decide(what, calls=what.on_host)
                if found.why is None:
                    result = found.what.at_once(found.traced, found.begun)
            except UnsupportedError as error:
                if not engine:
                    raise
                # the engine that was asked for cannot run it
                self.why = str(error)
                return self.told(what.loop(), "loop")
        finally:
            busy.reset(token)
        if found.why is not None:
            self.why = "" if found.quick else found.why
            return self.told(found.what.loop(found.known), "loop", found.begun)
        if self.looped:  # it was tried, and did not work out
            return self.told(result, "loop")
        took = _perf() - self._started
        traced = found.traced
        assert traced is not None
        rows, ran_by, turn = what.rows(), str(traced.library), float(traced.seconds)
        token = busy.set(True)
        try:
            turn = _seconds_of_call(traced, rows, what, took)
            ran_by = traced.run_for(rows).says.engine
        except Exception:  # the result is there, and what is told of it may be less exact
            pass
        finally:
            busy.reset(token)
        looped = self._slices * (turn + what.around_call())
        self._known.ran(self._slices, self._length, took, looped)
        tell(self._known.row, self._slices, took, ran_by, saved=looped - took)
        return result

    def loop(self, run: Any) -> Any:
        """Run the original, in which patched calls are as ever."""
        token = busy.set(False)
        started = _perf()
        try:
            return run()
        finally:
            busy.reset(token)
            self.looped += _perf() - started

    def told(self, result: Any, engine: str = "loop", begun: Begun | None = None) -> Any:
        known, slices = self._known, self._slices
        took = _perf() - self._started
        alone = self.looped + (begun.took if begun else 0.0)
        known.looped(slices, self._length, alone)
        if self.why:
            known.refused(took - alone, self.why)
        tell(known.row, slices, took, engine, self.why)
        return result


@dataclass(slots=True, eq=False)
class OfOriginal(Along):
    """The application of a patched `apply_along_axis`.

    Its loop is the original, with the original's errors: nothing is noted on them, and nothing is
    tried with other arguments.
    """

    attempt: Attempt = field(repr=False)
    original: Any = field(repr=False)

    @property
    def on_host(self) -> bool:
        """Whether the time of a call is that of its work."""
        return isinstance(self.arr, np.ndarray)

    def for_batches(self, said: BaseException | str) -> None:
        """None: no other form is tried."""

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Errors stay as they are."""

    def announce(self, why: str) -> None:
        """Note the reason for the report."""
        self.attempt.why = why

    def at_once(self, traced: Any, begun: Begun | None) -> Any:
        """All slices at once."""
        return running.along(self, traced, begun)

    def around_call(self) -> float:
        """Seconds that a turn of the loop takes beside the call of the function."""
        return _around_call() if self.on_host else 0.0

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """The original's loop; `known`: the results for the first slices."""
        f = Continued(self.f, known) if known else self.f
        if config.current().plain_loop:
            run = lambda: self.original(f, self.axis, self.arr, *self.args, **self.kwargs)  # noqa: E731
        else:
            run = lambda: self._shared(f)  # noqa: E731
        return self.attempt.loop(run)

    def _shared(self, f: Any) -> Any:
        """The loop shared by processes, or shown, as the options say."""
        with config.options(fallback="silent"):  # the report tells where processes do not share it
            return reference.of_library(f, self.axis, self.arr, self.args, self.kwargs)


def _seconds_of_call(traced: Any, rows: Any, what: Any, took: float) -> float:
    """Seconds of a call of the function, by a few calls where all `took` so many seconds."""
    if not what.on_host or not rows.batch:
        return float(traced.seconds)
    return float(traced.timed(rows, what.f, LIMITS.patched_sample * took))


@functools.cache
def _around_call() -> float:
    """Seconds per turn of NumPy's loop, for an empty function."""
    x = np.zeros((64, 1))
    times = []
    for _ in range(3):
        started = _perf()
        originals.apply_along_axis(_nothing, 1, x)
        times.append(_perf() - started)
    return min(times) / len(x)


def _nothing(v: np.ndarray) -> float:
    return 0.0
