"""Helpers: threads that stay in machine code, and run kernels beside the caller.

A thread of Python's has to get the interpreter's lock twice to run a kernel, which takes 0.1 ms
where many do. A helper never asks for it: it waits for a semaphore, calls a kernel with arguments
that lie in its own memory, says that this is done, and waits again. On Linux alone: elsewhere
`threads.in_threads` serves.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...errors import CompilerError
from . import compiler
from .machine_code import Function

_NAME = "stay"
# words of the memory of a helper: the semaphore it waits for, that of who waits for it (32 bytes
# each), then these and the arguments of a kernel
_SAID, _WAIT, _POST, _KERNEL, _DONE, _ARGUMENTS = 4, 8, 9, 10, 11, 12
_WORDS = 64
MOST = _WORDS - _ARGUMENTS
"""The most arguments of a kernel for helpers."""

_TEXT = f"""
define void @{_NAME}(ptr %helper) nounwind {{
entry:
  %p.said = getelementptr i64, ptr %helper, i64 {_SAID}
  %p.wait = getelementptr i64, ptr %helper, i64 {_WAIT}
  %p.post = getelementptr i64, ptr %helper, i64 {_POST}
  %p.kernel = getelementptr i64, ptr %helper, i64 {_KERNEL}
  %p.done = getelementptr i64, ptr %helper, i64 {_DONE}
  %p.arguments = getelementptr i64, ptr %helper, i64 {_ARGUMENTS}
  %wait = load ptr, ptr %p.wait, align 8
  %post = load ptr, ptr %p.post, align 8
  br label %waits
waits:
  %failed = call i32 %wait(ptr %helper)
  %is.called = icmp eq i32 %failed, 0
  br i1 %is.called, label %works, label %waits
works:
  %kernel = load ptr, ptr %p.kernel, align 8
  call void %kernel(ptr %p.arguments)
  %done = load i64, ptr %p.done, align 8
  %done.now = add i64 %done, 1
  store atomic i64 %done.now, ptr %p.done release, align 8
  %posted = call i32 %post(ptr %p.said)
  br label %waits
}}
"""


class _Helper:
    """A thread that waits for kernels.

    Its memory is never given back, nor the code that it runs: when the interpreter ends, it still
    waits.
    """

    def __init__(self, libc: ctypes.CDLL, stay: int) -> None:
        at = libc.calloc(_WORDS, 8)
        if not at:
            raise MemoryError("no memory for another thread")
        self._at, self._said = at, at + 8 * _SAID
        self._libc, self._begun = libc, 0
        self._words = (ctypes.c_int64 * _WORDS).from_address(at)
        for semaphore in (self._at, self._said):
            libc.sem_init(semaphore, 0, 0)
        for word, of in ((_WAIT, libc.sem_wait), (_POST, libc.sem_post)):
            self._words[word] = ctypes.cast(of, ctypes.c_void_p).value or 0
        thread = ctypes.c_ulong()
        # signals are for Python's threads
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            failed = libc.pthread_create(ctypes.byref(thread), None, stay, at)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if failed:
            libc.free(at)
            raise OSError(failed, os.strerror(failed))
        libc.pthread_detach(thread)

    def begin(self, kernel: int, arguments: tuple[int, ...]) -> None:
        """Run a kernel with these arguments."""
        self._words[_KERNEL] = kernel
        struct.pack_into(f"{len(arguments)}q", self._words, 8 * _ARGUMENTS, *arguments)
        self._begun += 1
        self._libc.sem_post(self._at)

    def wait(self) -> None:
        """Wait until that is done. What interrupts this is raised; it can be called again."""
        while self._words[_DONE] != self._begun:
            self._libc.sem_wait(self._said)


_free: list[_Helper] = []
_lock = threading.Lock()


@functools.cache
def _start() -> tuple[ctypes.CDLL, int] | None:
    """The C library and where helpers begin; None: there are none here."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    libc = ctypes.CDLL(None)
    try:
        libc.calloc.restype = ctypes.c_void_p
        libc.calloc.argtypes = [ctypes.c_size_t] * 2
        libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
        for name in ("sem_wait", "sem_post", "free"):
            getattr(libc, name).argtypes = [ctypes.c_void_p]
        libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
        libc.pthread_detach.argtypes = [ctypes.c_ulong]
        stay = compiler.compile(_TEXT, _NAME)
    except (AttributeError, CompilerError):
        return None
    _kept.append(stay)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stay))  # longer than the interpreter
    return libc, stay.address


_kept: list[Function] = []


def _taken(count: int) -> list[_Helper]:
    """Reserve free helpers, as many as wanted where threads can be made."""
    start = _start()
    found: list[_Helper] = []
    if start is None:
        return []
    with _lock:
        while _free and len(found) < count:
            found.append(_free.pop())
    try:
        while len(found) < count:
            found.append(_Helper(*start))
    except (OSError, MemoryError):  # fewer do as well
        pass
    return found


def is_there() -> bool:
    """Whether helpers are available."""
    return _start() is not None


@contextmanager
def beside(
    kernel: Function,
    count: int,
    arguments: Callable[[], tuple[int, ...]],
    stop: Callable[[], None],
) -> Iterator[None]:
    """Have so many helpers run a kernel until the caller is through, and they are too.

    Parameters
    ----------
    kernel : Function
        What they run.
    count : int
        How many helpers.
    arguments : callable
        Gives those of the next helper.
    stop : callable
        Lets helpers come to their end soon: after an interruption, or an error of the caller's.
    """
    working: list[_Helper] = []
    helpers = _taken(count)
    try:
        for helper in helpers:
            working.append(helper)
            helper.begin(kernel.address, arguments())
        yield
    except BaseException:
        stop()
        raise
    finally:
        _wait(working, stop)
        with _lock:
            _free.extend(helpers)


def _wait(helpers: list[_Helper], stop: Callable[[], None]) -> None:
    """Wait for all, whatever interrupts this."""
    error: BaseException | None = None
    while True:
        try:
            for helper in helpers:
                helper.wait()
            break
        except BaseException as raised:
            error = raised
            stop()
    if error is not None:
        raise error


def _in_child() -> None:
    """Reset in a forked process, which has no threads and may have a locked lock."""
    global _lock
    _lock = threading.Lock()
    _free.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)
