"""Options: how a call may run, and how precisely; never what it computes.

They ride in a context manager because every extra argument of
`apply_along_axis` belongs to ``f`` (NumPy's contract).
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

from .errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

FALLBACKS = ("warn", "silent", "raise")
PRECISIONS = ("highest", "high", "medium")
RECHUNK = ("warn", "silent", "raise")


@dataclass(frozen=True, slots=True)
class Options:
    """The options in force. Each has an environment variable ``XPAPPLY_<NAME>``."""

    fallback: str = "warn"
    """The reaction to a slow loop: "warn", "silent" or "raise"."""
    threads: int = 0
    """CPU threads to use; 0 means every CPU that this process may use."""
    block_bytes: int = 0
    """Size of one block of rows on the CPU, in bytes; 0 lets the backend choose."""
    engine: str = ""
    """Force one engine ("loop", "numpy", "array_api", ...); "" picks the fastest that can run."""
    precision: str = "highest"
    """Least precision of float32 products on a GPU: "highest", "high" or "medium"."""
    workers: int = 1
    """Processes that share the slices of a loop; -1 means as many as CPUs may be used."""
    progress: bool = False
    """Whether runs of more than a second show their progress on stderr."""
    output_dims: tuple[Hashable, ...] = ()
    """Names of the dims that results of a slice have, in labelled arrays; () for the usual ones."""

    rechunk: str = "warn"
    """The reaction to slices of a dask array in several chunks: "warn", "silent", "raise"."""
    memory: int = 0
    """Bytes that blocks of arrays in files may take; 0 means a part of what is free."""
    resume: bool = False
    """Whether a run into a file continues an interrupted one."""
    device: str = ""
    """The device for arrays of the host: "cuda", "cuda:1"; "": where they are."""
    compile: bool = True
    """Whether Python functions with loops may be compiled from their source."""
    fill: Any = None
    """The fill for results shorter than the longest; None: all have one length."""

    def __post_init__(self) -> None:
        choices = (("fallback", FALLBACKS), ("precision", PRECISIONS), ("rechunk", RECHUNK))
        for name, known in choices:
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise InputError(f"{name}={value!r}: use one of {', '.join(known)}")
        if not isinstance(self.engine, str):
            raise InputError(
                f"engine={self.engine!r}: use the name of an engine, '' for the fastest"
            )
        for name in ("threads", "block_bytes"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        object.__setattr__(self, "workers", _workers(self.workers))
        for name in ("progress", "resume", "compile"):
            value = getattr(self, name)
            if type(value) not in (bool, int) or value not in (0, 1):
                raise InputError(f"{name}={value!r}: use True or False")
            object.__setattr__(self, name, bool(value))
        object.__setattr__(self, "memory", _bytes(self.memory))
        if not isinstance(self.device, str) or not re.fullmatch(_DEVICE, self.device):
            raise InputError(
                f"device={self.device!r}: use 'cuda', 'cuda:1' ..., or '' for where arrays are"
            )
        object.__setattr__(self, "output_dims", dim_names(self.output_dims))
        object.__setattr__(self, "fill", _number(self.fill))

    @property
    def plain_loop(self) -> bool:
        """Whether a loop runs in this process, without a progress bar."""
        return self.workers == 1 and not self.progress

    @property
    def has_few(self) -> bool:
        """Whether no option is set that calls on plain arrays hardly ever need."""
        return not self.device and self.fill is None

    def worker_count(self) -> int:
        """The number of processes that share a loop."""
        return cpus() if self.workers == -1 else self.workers

    def thread_count(self) -> int:
        """The number of CPU threads to use."""
        if self.threads:
            return self.threads
        return cpus()


def cpus() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def dim_names(value: Any) -> tuple[Hashable, ...]:
    """Names of dims as a tuple: given as one, or as text with commas between them."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(","))
    if not isinstance(value, (tuple, list)) or not all(isinstance(d, Hashable) for d in value):
        raise InputError(f"output_dims={value!r}: use the name of a dim, or a tuple of names")
    return tuple(value)


_DEVICE = r"(cuda(:\d+)?)?"
_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{u}b": n for u, n in _UNITS.items() if len(u) == 1 and u != "b"}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def _bytes(value: Any) -> int:
    """A size in bytes: given as a number, or as text with a unit."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if found and found[2].lower() in _UNITS:
            return round(float(found[1]) * _UNITS[found[2].lower()])
    else:
        with suppress(TypeError):
            number = operator.index(value)
            if number >= 0 and not isinstance(value, bool):
                return number
    raise InputError(
        f"memory={value!r}: use a number of bytes, or text such as '500 MB'; 0 for automatic"
    )


def _number(value: Any) -> Any:
    """A number of Python's, or None; given as one, or as text."""
    with suppress(ValueError, TypeError):
        value = float(value) if isinstance(value, str) else value
        value = value.item() if hasattr(value, "item") else value  # NumPy's numbers
    if value is None or isinstance(value, (bool, int, float, complex)):
        return value
    raise InputError(f"fill={value!r}: use a number, such as float('nan'), or None")


def _workers(value: Any) -> int:
    with suppress(TypeError):
        number = operator.index(value)
        if (number >= 1 or number == -1) and not isinstance(value, bool):
            return number
    raise InputError(f"workers={value!r}: use the number of processes, -1 for one per CPU")


def _whole(name: str, value: Any) -> int:
    with suppress(TypeError):
        number = operator.index(value)
        if number >= 0 and not isinstance(value, bool):
            return number
    raise InputError(f"{name}={value!r}: use an integer from 0 on; 0 is automatic")


NAMES = {f.name: f for f in fields(Options)}


def _from_environment() -> Options:
    found: dict[str, Any] = {}
    for name, f in NAMES.items():
        variable = f"XPAPPLY_{name.upper()}"
        text = os.environ.get(variable)
        if not text:  # set, but empty: as if it were not set
            continue
        found[name] = text
        with suppress(ValueError):
            found[name] = text if f.type == "str" else int(text)
        try:
            Options(**{name: found[name]})
        except InputError as error:
            what = str(error).partition(": ")[2]
            raise InputError(f"environment variable {variable}={text!r}: {what}") from None
    return Options(**found)


def origin(name: str) -> str:
    """The origin of an option in force, for a message: "" or the environment variable."""
    value, default = getattr(current(), name), NAMES[name].default
    from_there = _environment is not None and getattr(_environment, name) == value != default
    return f" (environment variable XPAPPLY_{name.upper()})" if from_there else ""


_current: ContextVar[Options | None] = ContextVar("xpapply_options", default=None)
_environment: Options | None = None


def current() -> Options:
    """The options in force here: the innermost ``with options(...)``, else the environment."""
    global _environment
    found = _current.get()
    if found is not None:
        return found
    if _environment is None:
        _environment = _from_environment()
    return _environment


_asked: tuple[Any, bool] = None, False
"""The last options, and whether functions stay in plain loops under them where these are best."""


def is_plain() -> bool:
    """Whether functions stay in plain loops where these are best, under these options."""
    global _asked
    now, asked = current(), _asked  # other threads have options of their own
    if asked[0] is not now:
        is_so = now.plain_loop and now.engine in ("", "loop") and now.fallback != "raise"
        asked = _asked = now, is_so
    return asked[1]


_outer: ContextVar[tuple[Options | None, ...]] = ContextVar("xpapply_outer_options", default=())
"""Options outside each ``with``: held here and not in the objects, which threads may share."""


class options:  # called as a function
    """Change how calls inside the ``with`` block run, or in a function that this decorates.

    Parameters
    ----------
    fallback : {"warn", "silent", "raise"}
        What to do when `f` can only run slice by slice: warn once per function
        (`FallbackWarning`), say nothing, or raise `UnsupportedError` with the reason.
    threads : int
        CPU threads; 0 (the default) means every CPU that this process may use.
    block_bytes : int
        Bytes of one block of rows on the CPU; 0 (the default) lets the backend choose.
    engine : str
        Force one engine by its name, as `Plan.engine` shows it ("loop", "numpy", "cpu",
        "cupy", "torch", "array_api"). It is an error if that engine cannot run the call.
        "cupy-elementwise" and "cupy-reduction" are the two plain ways of CuPy alone: all of
        it in one ``cupy.ElementwiseKernel`` or one ``cupy.ReductionKernel``.
    precision : {"highest", "high", "medium"}
        Products of float32 networks on a GPU, in the words of
        ``torch.set_float32_matmul_precision``: as accurate as float32 (the default), with
        factors rounded to TF32's 11 significant bits, or to bfloat16's 8. Sums, biases and
        activations stay float32. Networks of float16 parameters are multiplied as with
        "high" at most, those of bfloat16 parameters as with "medium". Nothing
        else heeds the option.
    workers : int
        Processes that share the slices of what has to run in the loop, -1 for one per CPU; 1 (the
        default) is the loop in this process. It needs joblib, ``pip install xpapply[parallel]``.
        Results, exceptions and warnings are those of the loop. A function that may change
        something outside itself runs here all the same; `explain` says why.
    progress : bool
        Whether runs that take longer than a second show on stderr how far they are, with tqdm
        where that is installed.
    output_dims : str or tuple of str
        Names of the dims that the results of a slice have, where `arr` is a labelled array (of
        xarray, of pandas): ``"class"``, ``("row", "column")``. Otherwise a result as long as the
        slice keeps the name and the coordinates of its dim, and other dims are called after it,
        ``"band_out"``.
    rechunk : {"warn", "silent", "raise"}
        What to do where the slices of a dask array lie in several chunks, and all of it has to be
        copied to others: do it and warn what that costs if it is more than a chunk
        (``dask.array.PerformanceWarning``), say nothing, or raise `InputError`.
    memory : int or str
        Bytes that blocks of arrays in files (memmap, zarr, HDF5) may take at a time, ``"500 MB"``;
        0 (the default) means a part of what is free. What `f`, its libraries and arrays in memory
        take comes on top.
    resume : bool
        Whether a call that writes into a file (``out=``) computes only what an earlier call, which
        was interrupted, has left.
    device : str
        Where arrays of the host (NumPy's, and those in files) are computed: ``"cuda"`` or
        ``"cuda:1"`` copies them there in blocks while others are computed, and results back. ""
        (the default) computes arrays where they are.
    compile : bool
        Whether Python functions with loops may be compiled from their source. They are not while
        a debugger or a report of coverage follows their lines.
    fill : number or None
        `apply_along_axis` lets `f` give results of another length for each slice, and returns
        two arrays: the results, those that are shorter than the longest filled up with this
        number, and their lengths. What draws random numbers, or changes something outside, runs in
        the loop, and is called once for each slice. For arrays of NumPy in memory.

    Raises
    ------
    InputError
        For a name that does not exist, or a value out of range.

    Warns
    -----
    RuntimeWarning
        If it is never entered: ``xpapply.options(threads=1)`` alone changes nothing.

    Notes
    -----
    The options are local to the thread and to the asynchronous task
    (`contextvars`). The environment variables ``XPAPPLY_FALLBACK``,
    ``XPAPPLY_THREADS``, ``XPAPPLY_BLOCK_BYTES``, ``XPAPPLY_ENGINE``, ``XPAPPLY_PRECISION``,
    ``XPAPPLY_WORKERS``, ``XPAPPLY_PROGRESS`` (0 or 1), ``XPAPPLY_OUTPUT_DIMS``,
    ``XPAPPLY_RECHUNK``, ``XPAPPLY_MEMORY``, ``XPAPPLY_RESUME`` (0 or 1), ``XPAPPLY_DEVICE`` and
    ``XPAPPLY_FILL`` set the defaults of a process; an empty one counts as not set.
    ``XPAPPLY_CACHE_DIR`` is where kernels for CPUs are kept for other processes; an empty one
    says nowhere.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> with xpapply.options(fallback="silent", threads=1):
    ...     xpapply.apply_along_axis(sorted, 1, [[3, 1, 2], [9, 8, 7]])
    array([[1, 2, 3],
           [7, 8, 9]])

    For all calls in a function:

    >>> @xpapply.options(fallback="silent")
    ... def report(scores):
    ...     return xpapply.apply_along_axis(sorted, 1, scores)
    >>> report([[3, 1, 2]])
    array([[1, 2, 3]])
    """

    def __init__(self, *args: Any, **changes: Any) -> None:
        self._made: tuple[str, int, dict[str, Any]] | None = None  # where, until it is used
        if args:
            raise TypeError("options have names: options(engine='loop'), options(threads=1) ...")
        unknown = set(changes) - set(NAMES)
        if unknown:
            names = ", ".join(sorted(unknown))
            raise InputError(f"no option {names}: there are {', '.join(NAMES)}")
        Options(**changes)  # raises for wrong values
        self._changes = changes
        frame = sys._getframe(1)
        if changes:
            self._made = frame.f_code.co_filename, frame.f_lineno, frame.f_globals

    def __enter__(self) -> Options:
        self._made = None
        now = current()
        _outer.set((*_outer.get(), _current.get()))
        _current.set(replace(now, **self._changes))
        return current()

    def __exit__(self, *raised: object) -> None:
        *outer, last = _outer.get()
        _outer.set(tuple(outer))
        _current.set(last)

    def __call__(self, function: F) -> F:
        """`function`, with these options in force while it runs."""
        self._made = None
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is a generator: put the with inside it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def called(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def called(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return cast(F, called)

    def __repr__(self) -> str:
        changes = ", ".join(f"{name}={value!r}" for name, value in self._changes.items())
        return f"<options({changes}): in force inside 'with' only>"

    def __del__(self) -> None:
        made = getattr(self, "_made", None)  # there is none where an interruption came first
        if made is None or sys.is_finalizing():
            return
        file, line, space = made
        changes = ", ".join(f"{name}={value!r}" for name, value in self._changes.items())
        warnings.warn_explicit(
            f"options({changes}) changed nothing: write 'with xpapply.options({changes}):' "
            "around the calls, or set XPAPPLY_... in the environment for the whole process",
            RuntimeWarning,
            file,
            line,
            module=space.get("__name__"),
            registry=space.setdefault("__warningregistry__", {}),
        )
