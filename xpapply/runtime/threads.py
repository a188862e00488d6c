"""Threads: our own, and torch's where a fork has lost them.

A child process that `os.fork` makes has one thread, the one that forked. Pools of threads that
the parent had are gone there, but look as if they were not: work that is handed to them waits
for ever. Our own are made anew. torch's cannot be, so torch computes with one thread there.
"""

from __future__ import annotations

import contextvars
import functools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .. import config
from ..errors import TraceError
from . import progress

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_P = ParamSpec("_P")
_R = TypeVar("_R")

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
torch_is_lost = False
"""Whether this process was forked from one that had loaded torch."""


def pool(threads: int) -> ThreadPoolExecutor:
    """The executor with so many threads, of this process."""
    with _lock:
        found = _pools.get(threads)
        if found is None:
            from concurrent.futures import ThreadPoolExecutor

            found = ThreadPoolExecutor(threads, thread_name_prefix="xpapply")
            _pools[threads] = found
        return found


def worth(seconds: float, waking: float) -> int:
    """The number of threads worth `seconds` of work; `waking`: seconds until one begins.

    With n they take ``seconds / n``, after n times that: least for their root.
    """
    return max(1, int(math.sqrt(seconds / waking)))


def in_threads(
    work: Callable[[Iterator[Any]], None], pieces: Iterator[Any], count: int, short: bool = False
) -> None:
    """Run `work` in `count` threads, which draw from the same pieces.

    They have the caller's context: the options, NumPy's error state. What already runs in such
    a thread stays in it, as the other threads may all be waiting for it.

    `short`: a piece takes a few milliseconds at most. Then the caller is one of the threads, as
    others may wake when all is done already. It hears Ctrl-C between two pieces.
    """
    if not config.current().progress or progress.is_shown():
        return _in_threads(work, pieces, count, short)
    blocks = [*pieces]
    with progress.shown(len(blocks), "blocks") as bar:
        _in_threads(work, iter(blocks) if bar is None else bar.through(blocks), count, short)


def _in_threads(
    work: Callable[[Iterator[Any]], None], pieces: Iterator[Any], count: int, short: bool
) -> None:
    if count == 1 or is_within():
        return work(pieces)
    from concurrent.futures import FIRST_EXCEPTION, wait

    shared, stop = _Shared(pieces), threading.Event()
    token = _stop.set(stop)
    contexts = [contextvars.copy_context() for _ in range(count)]
    _stop.reset(token)
    futures: list[Future[None]] = []

    def run() -> None:
        try:
            work(iter(shared))
        except BaseException:  # at once: the caller may take a while to hear of it
            end()
            raise

    def end() -> None:
        """The others end with the call, or the block, that they are at."""
        stop.set()
        shared.stop()

    try:
        for context in contexts[short:]:
            futures.append(pool(count).submit(context.run, run))
        if short:
            here = _called(contexts[0].run, run)
            # who has not begun would find nothing left
            futures = [here, *(future for future in futures if not future.cancel())]
        error = _error(wait(futures, return_when=FIRST_EXCEPTION).done)
        if isinstance(error, Stopped):  # the one that stopped this thread has not told yet
            error = _error(wait(futures).done)
        if error is not None:
            raise error
    except BaseException as error:
        end()
        if isinstance(error, Exception):  # who interrupts does not wait
            wait(futures)
        raise


def _called(f: Callable[..., None], *args: Any) -> Future[None]:
    """Run the call in this thread; keep its exception. Interrupts are raised."""
    from concurrent.futures import Future

    found: Future[None] = Future()
    try:
        f(*args)
        found.set_result(None)
    except Exception as error:
        found.set_exception(error)
    return found


def _error(done: Iterable[Future[Any]]) -> BaseException | None:
    """The error of the threads; one that was stopped counts least."""
    found = [e for e in (future.exception() for future in done) if e is not None]
    return next((e for e in found if not isinstance(e, Stopped)), found[0] if found else None)


class _Shared:
    """An iterator that several threads draw from."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Any]:
        return self

    def stop(self) -> None:
        """Stop drawing pieces."""
        with self._lock:
            self._pieces = iter(())

    def __next__(self) -> Any:
        with self._lock:
            return next(self._pieces)


_stop: ContextVar[threading.Event | None] = ContextVar("xpapply_stop", default=None)
"""The flag of our threads by which their work is no longer wanted."""


class Stopped(TraceError):
    """Raised in a thread whose result is no longer wanted."""


def is_within() -> bool:
    """Whether this is one of our threads, so that others may be waiting for it."""
    return _stop.get() is not None


def check() -> None:
    """Raise `Stopped` if this thread's work is no longer wanted."""
    event = _stop.get()
    if event is not None and event.is_set():
        raise Stopped


def _in_child() -> None:
    global _lock, torch_is_lost
    _lock = threading.Lock()  # another thread of the parent may have held it
    _pools.clear()
    torch_is_lost = torch_is_lost or "torch" in sys.modules


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)


@contextmanager
def of_torch() -> Iterator[None]:
    """torch's calls in here wait for no thread that a fork has lost."""
    if not torch_is_lost:
        yield
        return
    torch = sys.modules["torch"]
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def forkable(f: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that calls torch, as one that works in a forked process as well."""

    @functools.wraps(f)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not torch_is_lost:
            return f(*args, **kwargs)
        with of_torch():
            return f(*args, **kwargs)

    return call
