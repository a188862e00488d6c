"""Python's garbage collector rests while functions are read, and is left as it was."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import xpapply
from xpapply.planning.python import typed_results
from xpapply.runtime import warning_filters
from xpapply.runtime.warning_filters import paused


@pytest.fixture(autouse=True)
def collector():
    """It is on and looks often, whatever tests of other libraries have left."""
    was_on, numbers = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*numbers)
    if not was_on:
        gc.disable()


def looks():
    """Whether it looks for garbage where many objects are made."""
    seen = []

    def looked(phase, info):
        seen.append(phase)

    gc.callbacks.append(looked)
    try:
        objects = [[] for _ in range(5000)]
    finally:
        gc.callbacks.remove(looked)
    return len(objects) == 5000 and len(seen) > 0


def test_it_is_left_as_it_was():
    assert looks()
    with pytest.raises(ZeroDivisionError), paused():
        print(1 // looks())
    assert looks()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert gc.get_threshold() == (700, 10, 10)


def test_what_asks_meanwhile_whether_it_is_on_hears_what_the_user_wants():
    """As dask does when it is imported: a function of it turns the collector on no more."""
    with paused():
        assert gc.isenabled()
        gc.disable()
    assert not gc.isenabled()
    gc.enable()


def test_numbers_that_are_set_meanwhile_stay():
    with paused():
        gc.set_threshold(5000, 5, 5)
    assert gc.get_threshold() == (5000, 5, 5)


def test_an_interruption_at_its_end_leaves_it_as_it_was(monkeypatch):
    """It comes where the lock is taken; any line may be the one."""
    lock, turns = threading.Lock(), []

    class Interrupted:
        def __enter__(self):
            turns.append(1)
            if len(turns) == 2:
                raise KeyboardInterrupt
            lock.acquire()

        def __exit__(self, *raised):
            lock.release()

    pause = warning_filters._Pause()
    pause.lock = Interrupted()
    monkeypatch.setattr(warning_filters, "_pause", pause)
    with pytest.raises(KeyboardInterrupt), paused():
        assert not looks()
    assert looks()
    with paused():
        assert not looks()
    assert looks()


def test_it_rests_while_a_function_is_read_and_not_while_it_runs(monkeypatch):
    from xpapply.planning.python import typed_loop

    seen = []
    typed_of = typed_results.typed_of

    def of(*args):
        seen.append(("read", looks()))
        return typed_of(*args)

    def drawdown(v):
        if len(seen) < 1000:
            seen.append(("run", looks()))
        top = worst = 0.0
        for x in v:
            top = max(top, x)
            worst = max(worst, top - x)
        return worst

    for module in (typed_loop, typed_results):
        monkeypatch.setattr(module, "typed_of", of)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(drawdown, 1, np.random.default_rng(0).random((20000, 20)))
    assert ("run", False) not in seen
    assert ("read", True) not in seen


def test_threads_that_pause_it_at_once_leave_it_as_it_was():
    """Whoever comes while it rests does not end the rest, and the last one does."""
    inside, left, done = threading.Event(), threading.Event(), threading.Event()

    def other():
        with paused():
            inside.set()
            left.wait(10)
            assert not looks()
        done.set()

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        assert inside.wait(10)
    assert not looks()
    left.set()
    thread.join(10)
    assert done.is_set()
    assert looks()


FORKED = """
import gc, os
from xpapply.runtime.warning_filters import paused
numbers = gc.get_threshold()
with paused():
    child = os.fork()
    if not child:
        os._exit(gc.get_threshold() != numbers)
    assert os.waitpid(child, 0)[1] == 0
    assert gc.get_threshold() != numbers
assert gc.get_threshold() == numbers
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_looks_for_garbage():
    """In a process of its own: libraries that other tests load warn of forks."""
    subprocess.run([sys.executable, "-c", FORKED], check=True)
