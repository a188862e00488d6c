"""The slices of a loop shared by several processes, for functions that only compute.

The loop stays what it is, NumPy's own as a rule, in this process: what it calls in the place of
``f`` is `SharedCalls`, which gives it the results in its order, wherever they were found. So
shapes, dtypes, the order of exceptions and what is noted on them are the loop's. Where ``f`` raises
in another process, it is called here for the same slice, and raises here.

joblib keeps the processes (loky), and the arrays in memory that they share.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import math
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .. import config
from ..errors import warn
from ..functions import pickles
from ..functions.cache import cache_of
from ..functions.estimators import BatchOfOne
from ..limits import LIMITS
from ..runtime import error_state, progress
from .arguments import Arguments

_SHARED = "/dev/shm"
"""The folder of files in memory, on Linux."""


class SharedSlices(NamedTuple):
    """The slices of a loop.

    Attributes
    ----------
    views : sequence of arrays
        Each with the loop dims first.
    loop : tuple of int
        The loop dims.
    """

    views: Sequence[np.ndarray]
    loop: tuple[int, ...]

    def between(self, start: int, end: int, numbers: bool) -> Iterator[list[Any]]:
        """Arguments of ``f`` for a range of calls."""
        if not self.loop:
            places: Any = [()] * (end - start)
        else:
            places = np.unravel_index(np.arange(start, end), self.loop)
            places = zip(*(p.tolist() for p in places), strict=True)
        for index in places:
            if numbers:
                yield [x[index].item() for x in self.views]
            else:
                yield [x[index] for x in self.views]


def _why_not(f: Any, arguments: Arguments, arrays: Sequence[Any]) -> str:
    """The reason why processes do not share a loop; "": they do."""
    if any(type(x) not in (np.ndarray, np.memmap) for x in arrays):
        return "slices of NumPy arrays only are sent to other processes"
    if any(x.dtype.hasobject for x in arrays):
        return "slices of objects are not sent to other processes"
    process = sys.modules.get("multiprocessing.process")  # one of a pool has it
    if process is not None and process.current_process().daemon:
        return "this process is one of a pool, which starts none itself"
    return _look(f, arguments)[0] or error_state.why_per_slice() or ""


def _look(f: Any, arguments: Arguments) -> tuple[str, set[str]]:
    """Why a function should stay here, and the user's modules that it needs."""
    from ..functions.repeatable import why_not_elsewhere

    f = f.func if type(f) is BatchOfOne else f
    args, kwargs = arguments.constants()
    return why_not_elsewhere((f, *args, *kwargs.values()))


def in_words(f: Any, arguments: Arguments, arrays: Sequence[Any]) -> tuple[str, str]:
    """A description of the loop, and why it is in one process, for plans; "" if neither."""
    count = config.current().worker_count()
    if count == 1:
        return "", ""
    why = _why_not(f, arguments, arrays)
    if why:
        return "", f"workers={count} does not hold: {why}"
    return f"one call per slice, in {count} processes", ""


def called(
    call: Callable[..., Any],
    f: Callable[..., Any],
    arguments: Arguments,
    arrays: Sequence[Any],
    slices: Callable[[], SharedSlices],
    count: int,
    extra: int = 0,
) -> SharedCalls:
    """A context with the function that a loop calls, under the options in force.

    Parameters
    ----------
    call : callable
        What it would call otherwise.
    f : callable
        The function that this calls.
    arguments : Arguments
        What `f` gets.
    arrays : sequence of arrays
        What the slices are of.
    slices : callable
        They, in the order of the loop.
    count : int
        How many there are.
    extra : int
        SharedCalls before the first slice.

    Raises
    ------
    ImportError
        If there is no joblib.
    TypeError
        If `f` cannot be sent to other processes.
    """
    now = config.current()
    processes = min(now.worker_count(), count)
    task: _LoopTask | None = None
    if processes > 1:
        why = _why_not(f, arguments, arrays)
        if why:
            _say(f, f"workers={processes} is not heeded: {why}")
        else:
            # containers are taken apart here, in the order of the first one
            packed = _packed(f, replace(arguments, leaves=None))
            task = _LoopTask(f, packed, slices(), arguments, processes)
    return SharedCalls(call, task, count, extra)


def _say(f: Any, text: str) -> None:
    """Warn once of a function."""
    known, method = cache_of(f)
    if config.current().fallback == "silent" or ("workers", method) in known.warned:
        return
    known.warned.add(("workers", method))
    warn(f"{text}. options(fallback='silent') hides this warning.")


def _joblib() -> Any:
    if importlib.util.find_spec("joblib") is None:
        raise ImportError(
            "options(workers=...) needs joblib: pip install joblib, or pip install "
            "'xpapply[parallel]'"
        )
    import joblib

    return joblib


def _packed(f: Any, arguments: Arguments) -> np.ndarray:
    """A function and its arguments as bytes that another process can make them of."""
    _joblib()
    cloudpickle = pickles.cloudpickle()  # joblib needs it, or has a copy
    # what the user's modules hold may have changed since they were loaded
    modules = [m for name in _look(f, arguments)[1] if (m := sys.modules.get(name)) is not None]
    modules = [m for m in modules if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return np.frombuffer(pickles.dumps(cloudpickle, (f, arguments)), np.uint8)
    except Exception as error:
        raise TypeError(
            f"options(workers=...) sends f and its arguments to other processes, and they cannot "
            f"be pickled: {type(error).__name__}: {error}. Make what cannot be pickled inside f, "
            "or use workers=1"
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


# --- in this process ----------------------------------------------------------------------------


@dataclass
class _LoopTask:
    """The task of other processes."""

    f: Any
    packed: np.ndarray
    slices: SharedSlices
    arguments: Arguments
    processes: int
    quick: bool = True
    """Whether processes finish their chunks at once."""
    ended: bool = False
    """Whether further chunks are not wanted."""

    def results(self, start: int, count: int, seconds: float) -> Iterator[Any]:
        """Results of calls from `start` on, in order; a call takes `seconds`."""
        joblib = _joblib()
        most = math.ceil((count - start) / (LIMITS.workers_chunks * self.processes))
        size = max(1, min(most, round(LIMITS.workers_chunk / max(seconds, 1e-9))))
        self.quick = size * seconds <= LIMITS.workers_quick
        nbytes = sum(x.nbytes for x in self.slices.views) + self.packed.nbytes
        import tempfile

        folder = tempfile.TemporaryDirectory(
            prefix="xpapply-", dir=_room(nbytes), ignore_cleanup_errors=True
        )
        with folder as place:
            yield from self._results(joblib, start, count, size, place)

    def _results(self, joblib: Any, start: int, count: int, size: int, place: str) -> Iterator[Any]:
        views = [
            _in_file(x, f"{place}/{k}") for k, x in enumerate((self.packed, *self.slices.views))
        ]
        state = _State.now()
        parallel = joblib.Parallel(
            self.processes,
            backend="loky",
            return_as="generator",
            batch_size=1,
            max_nbytes=None,
        )
        found = parallel(
            joblib.delayed(_work)(
                views, self.slices.loop, self.arguments.numbers, k, min(k + size, count), state
            )
            for k in range(start, count, size)
            if not self.ended
        )
        left = count - start
        try:
            for results, told in found:
                left -= len(results)
                if not left:  # it ends before its last results are taken, and keeps the processes
                    next(found, None)
                for message in told:
                    message.tell()
                yield from results
        finally:
            if self.ended:  # the processes are at the last chunks, and are kept
                for _ in found:
                    pass
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that not all of it was asked for
                found.close()


class SharedCalls:
    """``f`` for the slices of a loop, in their order: called here, then in other processes.

    It is a context, in which the loop runs.
    """

    def __init__(self, f: Any, task: _LoopTask | None, count: int, extra: int) -> None:
        self._f, self._task, self._count = f, task, count
        self._progress = progress.shown(count)
        self._bar: progress.Bar | None = None
        self._extra, self._done = extra, 0
        self._results: Iterator[Any] | None = None
        self._began = time.perf_counter()
        self._until = self._began + LIMITS.workers_look
        self.__name__ = getattr(f, "__name__", "f")  # which NumPy's warnings name

    def __enter__(self) -> SharedCalls:
        self._bar = self._progress.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        interrupted = bool(raised and raised[0]) and not issubclass(raised[0], Exception)
        self.close(kill=interrupted)
        self._progress.__exit__(*raised)

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self._extra:
            self._extra -= 1
            return self._f(*given, **named)
        self._done += 1
        if self._bar is not None:
            self._bar.step(1)
        if self._results is not None:
            return self._next(given, named)
        result = self._f(*given, **named)
        if self._task is not None and time.perf_counter() > self._until:
            self._share()
        return result

    def _share(self) -> None:
        """Let other processes do the rest, if that takes long."""
        assert self._task is not None
        seconds = (time.perf_counter() - self._began) / self._done
        self._until = math.inf
        if (self._count - self._done) * seconds > LIMITS.workers_worth:
            self._results = self._task.results(self._done, self._count, seconds)

    def _next(self, given: Any, named: Any) -> Any:
        assert self._results is not None
        found = next(self._results)
        if type(found) is not _Failed:
            leaves = None if self._task is None else self._task.arguments.leaves
            return found if leaves is None else leaves.of(found)
        # here it raises the same, with the user's lines in its traceback
        result = self._f(*given, **named)
        if not found.goes_on:
            assert self._task is not None
            self.close()
            _say(self._task.f, f"workers= was given up: {found.why}")
        return result

    def skip(self) -> None:
        """A slice has its result already, or none."""
        self._done += 1

    def close(self, *, kill: bool = False) -> None:
        """Drop what is still being computed."""
        results, self._results = self._results, None
        if results is not None:
            assert self._task is not None
            self._task.ended = self._task.quick and not kill
            results.close()  # type: ignore[attr-defined]  # a generator


def _room(nbytes: int) -> str | None:
    """The folder for what processes share; None: where temporary files are."""
    with contextlib.suppress(OSError, AttributeError):
        found = os.statvfs(_SHARED)
        if os.access(_SHARED, os.W_OK) and 2 * nbytes < found.f_bavail * found.f_frsize:
            return _SHARED
    return None


def _in_file(x: np.ndarray, path: str) -> _OfFile:
    """An array as other processes open it: written to a file, unless it is of one."""
    base: Any = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    if isinstance(base, np.memmap) and base.filename is not None and base.mode != "c":
        first = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        low = sum(s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True) if s < 0)
        start = base.offset + first + low
        return _OfFile(str(base.filename), start, -low, x.dtype, x.shape, x.strides)
    order = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]))
    # broadcast dims are written once
    once = np.asarray(x[tuple(slice(0, 1) if s == 0 else slice(None) for s in x.strides)])
    dense = np.ascontiguousarray(once.transpose(order))
    dense.tofile(path)
    back = np.argsort(order)
    strides = tuple(0 if s == 0 else dense.strides[k] for s, k in zip(x.strides, back, strict=True))
    return _OfFile(path, 0, 0, x.dtype, x.shape, strides)


class _OfFile(NamedTuple):
    """An array in a file.

    Attributes
    ----------
    path, start : str, int
        Where its memory begins.
    first : int
        Where its first element is in that.
    dtype, shape, strides
        As of the array.
    """

    path: str
    start: int
    first: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def open(self) -> np.ndarray:
        """The array; what is written into it stays in this process."""
        ends = [s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)]
        nbytes = self.first + sum(e for e in ends if e > 0) + self.dtype.itemsize
        memory = np.memmap(self.path, np.uint8, "c", self.start, nbytes)
        return np.ndarray(self.shape, self.dtype, memory, self.first, self.strides)


# --- in another process -------------------------------------------------------------------------


class _State(NamedTuple):
    """The state of this process for ``f``: options, NumPy's error state, warning filters."""

    options: dict[str, Any]
    errors: Any
    filters: list[Any]
    number: int

    @classmethod
    def now(cls) -> _State:
        options = asdict(config.current()) | {"workers": 1, "progress": False}
        return cls(options, np.geterr(), [*warnings.filters], next(_numbers))


_numbers = itertools.count()


class _Failed(NamedTuple):
    """A placeholder of a result."""

    why: str
    goes_on: bool


class _Told(NamedTuple):
    """A warning."""

    message: Any
    category: type[Warning]
    file: str
    line: int

    def tell(self) -> None:
        """Give it here."""
        modules = [m for m in [*sys.modules.values()] if getattr(m, "__file__", None) == self.file]
        # what is typed into a notebook or a shell is of no file
        module = modules[0] if modules else sys.modules["__main__"]
        registry = vars(module).setdefault("__warningregistry__", {})
        warnings.warn_explicit(
            self.message, self.category, self.file, self.line, module.__name__, registry
        )


_known: dict[tuple[str, int], Any] = {}
"""The function that this process has made last, and its arguments."""


def _made(packed: _OfFile, number: int) -> Any:
    key = packed.path, number
    if key not in _known:
        _known.clear()
        _known[key] = pickle.loads(packed.open().tobytes())
    return _known[key]


def _work(
    views: list[_OfFile],
    loop: tuple[int, ...],
    numbers: bool,
    start: int,
    end: int,
    state: _State,
) -> tuple[Any, list[_Told]]:
    """The results of some calls, and the warnings."""
    try:
        f, arguments = _made(views[0], state.number)
        slices = SharedSlices([x.open() for x in views[1:]], loop)
    except Exception as error:
        why = f"another process has no such function: {type(error).__name__}: {error}"
        return [_Failed(why, goes_on=False)] * (end - start), []
    results: list[Any] = []
    with (
        warnings.catch_warnings(record=True) as seen,
        np.errstate(**state.errors),
        config.options(**state.options),
    ):
        filters: Any = warnings.filters
        filters[:] = state.filters
        for given in slices.between(start, end, numbers):
            results.append(_one(f, arguments, given))
    told = dict.fromkeys(
        (str(w.message), w.category, w.filename, w.lineno) for w in seen[: LIMITS.chunk_warnings]
    )
    return _dense(results), [_Told(*t) for t in told]


def _one(f: Any, arguments: Arguments, given: list[Any]) -> Any:
    """Call and check that slices were not written to."""
    before = [x.tobytes() for x in given if isinstance(x, np.ndarray)]
    try:
        result = arguments.call(f, given)
    except Exception as error:
        return _Failed(f"{type(error).__name__}: {error}", goes_on=True)
    after = [x.tobytes() for x in given if isinstance(x, np.ndarray)]
    if before != after:
        return _Failed("it writes into its slices", goes_on=False)
    return _own(result)


def _own(result: Any) -> Any:
    """A result that does not lie in a shared file."""
    if type(result) is np.memmap or (isinstance(result, np.ndarray) and result.base is not None):
        return np.array(result, subok=type(result) is not np.memmap)
    return result


def _dense(results: list[Any]) -> Any:
    """Arrays of one kind as one, which is sent at once."""
    first = results[0]
    if type(first) not in (np.ndarray, np.float64) or first.dtype.hasobject:
        return results
    kind = type(first), first.dtype, first.shape
    if any(type(x) is not kind[0] or (type(x), x.dtype, x.shape) != kind for x in results):
        return results
    return np.array(results)
