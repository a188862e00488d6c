"""NumPy's and CuPy's own loops replaced, for all who call them."""

from __future__ import annotations

import copyreg
import os
import sys
import threading
from typing import Any

import numpy as np

from .. import config
from ..loop import originals
from ..loop.originals import Replaced
from . import along_axis, elements, places, records
from .records import Row
from .report import Report

__all__ = ["Report", "Row", "patch"]

LEFT = (
    "numpy.ma.apply_along_axis runs as ever: what it calls gets masked arrays, and results may be "
    "masked numbers",
)
"""Remarks of the report on functions that are not replaced."""


class patch:  # called as a function
    """Have `numpy.apply_along_axis` and its like run at once, whoever calls them.

    ``xpapply.patch()`` replaces `numpy.apply_along_axis`, `cupy.apply_along_axis` and what calling
    a `numpy.vectorize` does, in this process and in all modules that have loaded them, until
    `undo`; in a ``with`` block until its end. Where xpapply can run a call at once, it does; all
    other calls go to the originals.

    Results, exceptions and warnings are those of the originals, but for rounding. No
    `FallbackWarning` is shown: the report says what looped, and why.

    Attributes
    ----------
    report : Report
        What ran how often, how fast, and why not at once: print it.
    is_active : bool
        Whether it has not been undone.

    Raises
    ------
    InputError
        If an environment variable ``XPAPPLY_...`` has a value out of range.

    See Also
    --------
    apply_along_axis, vectorize : The same, called by their names.

    Notes
    -----
    Taken are Python functions on plain NumPy arrays (and memory maps) of numbers, and on CuPy
    arrays. Lists, masked arrays and other subclasses, models and functions compiled by numba go to
    the originals. So do classes that were made of `numpy.vectorize`. `numpy.ma.apply_along_axis` is
    counted and left as it is.

    It is for the whole process, all threads and child processes that are forked. Several may be
    active at a time: the originals are back when the last is undone.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> x = np.random.default_rng(0).random((20_000, 8))
    >>> with xpapply.patch() as patched:
    ...     y = np.apply_along_axis(np.median, 1, x)
    >>> row = patched.report.rows[0]
    >>> y.shape, row.name, row.slices, "loop" in row.engines
    ((20000,), 'median', 20000, False)
    >>> type(np.apply_along_axis).__name__  # NumPy's own again
    '_ArrayFunctionDispatcher'
    """

    report: Report

    def __init__(self) -> None:
        self.is_active = False
        self._start()

    def _start(self) -> None:
        config.current()  # raises for a wrong environment
        with _lock:
            if not _active:
                records.clear()
                _install()
            self.report = Report(records.rows(), LEFT)
            _active.append(self)
            self.is_active = True

    def undo(self) -> None:
        """Restore the originals, if no other `patch` is active; a second call has no effect."""
        with _lock:
            if not self.is_active:
                return
            self.is_active = False
            self.report.close()
            _active.remove(self)
            if not _active:
                _uninstall()

    def __enter__(self) -> patch:
        if not self.is_active:
            self._start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<xpapply.patch: {'active' if self.is_active else 'undone'}>"


_lock = threading.RLock()
_active: list[patch] = []
_replaced: list[Replaced] = []
"""The replacements of functions."""
_waits: list[places.WhenLoaded] = []


def _install() -> None:
    own: tuple[tuple[Any, Any], ...] = (
        (originals.apply_along_axis, along_axis.along_numpy),
        (originals.masked_apply_along_axis(), along_axis.along_masked),
    )
    _put([*(Replaced(function, call) for function, call in own), *_of_cupy()])
    originals.vectorize.__call__ = elements.call  # type: ignore[method-assign]
    copyreg.pickle(type(np.sum), _reduce)  # type: ignore[arg-type]
    for name, install in (("cupy", _install_cupy), ("pandas", _install_pandas)):
        if name in sys.modules:
            install()
        else:
            _waits.append(places.WhenLoaded(name, install))
            _waits[-1].start()


def _of_cupy() -> list[Replaced]:
    """The replacement of CuPy's function, if it is loaded and not yet replaced."""
    function = getattr(sys.modules.get("cupy"), "apply_along_axis", None)
    if function is None or type(function) is Replaced:
        return []
    originals.keep_cupys(function)
    return [Replaced(function, along_axis.along_cupy)]


def _install_cupy() -> None:
    with _lock:
        if _replaced:
            _put(_of_cupy())


def _install_pandas() -> None:
    with _lock:
        if _replaced:
            from . import tables  # which loads pandas

            tables.install()


def _put(made: list[Replaced]) -> None:
    _replaced.extend(made)
    if made:  # all names of all modules are looked at
        places.put({id(x.original): (x.original, x) for x in made})


def _uninstall() -> None:
    for wait in _waits:
        wait.stop()
    _waits.clear()
    places.put({id(x): (x, x.original) for x in _replaced})
    for x in _replaced:
        x.undo()
    _replaced.clear()
    originals.keep_cupys(None)
    if (tables := sys.modules.get(f"{__name__}.tables")) is not None:
        tables.uninstall()
    if vars(originals.vectorize).get("__call__") is elements.call:
        originals.vectorize.__call__ = originals.call_vectorize  # type: ignore[method-assign]
    if copyreg.dispatch_table.get(type(np.sum)) is _reduce:
        del copyreg.dispatch_table[type(np.sum)]


def _reduce(function: Any) -> Any:
    """Pickles functions of NumPy: those that are replaced by their names as well."""
    if any(x.original is function for x in _replaced):
        return originals.by_name, (function.__module__, function.__name__)
    return function.__reduce__()


def _in_child() -> None:
    """Count anew in a child process, which is patched as its parent was."""
    global _lock
    _lock = threading.RLock()
    records.after_fork()
    for own in _active:
        own.report = Report({}, LEFT)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)
