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
from xpapply.runtime.warning_filters import paused


@pytest.fixture(autouse=True)
def collector():
    """It is on, whatever tests of other libraries have left."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    if not was_on:
        gc.disable()


def test_it_is_left_as_it_was():
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), paused():
        print(1 // gc.isenabled())
    assert gc.isenabled()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_rests_while_a_function_is_read_and_not_while_it_runs(monkeypatch):
    from xpapply.planning.python import typed_loop

    seen = []
    typed_of = typed_results.typed_of

    def of(*args):
        seen.append(("read", gc.isenabled()))
        return typed_of(*args)

    def drawdown(v):
        seen.append(("run", gc.isenabled()))
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
            assert not gc.isenabled()
        done.set()

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    left.set()
    thread.join(10)
    assert done.is_set()
    assert gc.isenabled()


FORKED = """
import gc, os
from xpapply.runtime.warning_filters import paused
with paused():
    child = os.fork()
    if not child:
        os._exit(not gc.isenabled())
    assert os.waitpid(child, 0)[1] == 0
    assert not gc.isenabled()
assert gc.isenabled()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_looks_for_garbage():
    """In a process of its own: libraries that other tests load warn of forks."""
    subprocess.run([sys.executable, "-c", FORKED], check=True)
