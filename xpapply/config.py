"""Options: how a call may run, and how precisely; never what it computes.

They ride in a context manager because every extra argument of
`apply_along_axis` belongs to ``f`` (NumPy's contract).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

from .errors import InputError

FALLBACKS = ("warn", "silent", "raise")
PRECISIONS = ("highest", "high", "medium")


@dataclass(frozen=True, slots=True)
class Options:
    """The options in force. Each has an environment variable ``XPAPPLY_<NAME>``."""

    fallback: str = "warn"
    """What happens when the slow loop has to run: "warn", "silent" or "raise"."""
    threads: int = 0
    """CPU threads to use; 0 means every CPU that this process may use."""
    block_bytes: int = 0
    """Size of one block of rows on the CPU, in bytes; 0 lets the backend choose."""
    engine: str = ""
    """Force one engine ("loop", "numpy", "array_api", ...); "" picks the fastest that can run."""
    precision: str = "highest"
    """Least precision of float32 products on a GPU: "highest", "high" or "medium"."""

    def __post_init__(self) -> None:
        if self.fallback not in FALLBACKS:
            raise InputError(f"fallback={self.fallback!r}: use one of {', '.join(FALLBACKS)}")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision={self.precision!r}: use one of {', '.join(PRECISIONS)}")
        for name in ("threads", "block_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise InputError(f"{name}={value!r}: use a whole number, 0 for automatic")

    def thread_count(self) -> int:
        """The number of CPU threads to use."""
        if self.threads:
            return self.threads
        if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1


_NAMES = {f.name: f for f in fields(Options)}


def _from_environment() -> Options:
    found: dict[str, Any] = {}
    for name, f in _NAMES.items():
        text = os.environ.get(f"XPAPPLY_{name.upper()}")
        if text is None:
            continue
        try:
            found[name] = int(text) if f.type == "int" else text
        except ValueError:
            raise InputError(f"XPAPPLY_{name.upper()}={text!r}: expected a whole number") from None
    return Options(**found)


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


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Change how calls inside the ``with`` block run.

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
        Force one engine by its name, as `Plan.engine` shows it ("loop", "numpy",
        "cupy", "torch", "array_api"). It is an error if that engine cannot run the call.
    precision : {"highest", "high", "medium"}
        Products of float32 networks on a GPU, in the words of
        ``torch.set_float32_matmul_precision``: as accurate as float32 (the default), with
        factors rounded to TF32's 11 significant bits, or to bfloat16's 8. Sums, biases and
        activations stay float32. Networks of float16 parameters are multiplied as with
        "high" at most, those of bfloat16 parameters on CuPy arrays as with "medium". Nothing
        else heeds the option.

    Yields
    ------
    Options
        The options in force inside the block.

    Raises
    ------
    InputError
        For a name that does not exist, or a value out of range.

    Notes
    -----
    The options are local to the thread and to the asynchronous task
    (`contextvars`). The environment variables ``XPAPPLY_FALLBACK``,
    ``XPAPPLY_THREADS``, ``XPAPPLY_BLOCK_BYTES``, ``XPAPPLY_ENGINE`` and
    ``XPAPPLY_PRECISION`` set the defaults of a process.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> with xpapply.options(fallback="silent", threads=1):
    ...     xpapply.apply_along_axis(sorted, 1, [[3, 1, 2], [9, 8, 7]])
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    unknown = set(changes) - set(_NAMES)
    if unknown:
        raise InputError(f"no option {', '.join(sorted(unknown))}: there are {', '.join(_NAMES)}")
    token = _current.set(replace(current(), **changes))
    try:
        yield current()
    finally:
        _current.reset(token)
