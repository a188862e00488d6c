"""A lock of llvmlite's that Ctrl-C left locked keeps no other thread from compiling."""

import threading

import pytest

ffi = pytest.importorskip("llvmlite.binding.ffi")

from xpapply.backends.cpu import compiler  # noqa: E402


def test_who_compiles_in_another_thread_does_not_wait_for_it():
    lock = ffi.lib._lock
    lock._lock.acquire()  # as an interruption leaves it that comes where it is released

    def make():
        taken = lock._lock.acquire(timeout=5)
        if taken:
            lock._lock.release()
        return taken, threading.current_thread() is not threading.main_thread()

    try:
        assert compiler.begun(make)() == (True, True)
    finally:
        while lock._lock._is_owned():
            lock._lock.release()
