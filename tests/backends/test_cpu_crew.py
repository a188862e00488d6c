"""Helpers: threads that run compiled loops beside the caller."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from in_threads import in_threads

import xpapply
from xpapply.backends.cpu import crew
from xpapply.limits import LIMITS

pytestmark = pytest.mark.skipif(not crew.is_there(), reason="there are no helpers here")

SHAPE = (4000, 30)


def _mixed(v):
    s = 0.0
    for x in v:
        s = 0.5 * s + x if x > 0 else s - x
    return s


@pytest.fixture
def arr():
    return np.random.default_rng(3).standard_normal(SHAPE)


@pytest.fixture(autouse=True)
def small_pieces():
    with (
        LIMITS.set(typed_helper=1e-9, typed_piece=1e-9, few_slices=1, plan_worth=0.0),
        xpapply.options(threads=4, engine="cpu"),
    ):
        yield


def _begun(monkeypatch):
    """The helpers that begin something, in a list."""
    seen = []
    begin = crew._Helper.begin

    def noted(self, kernel, arguments):
        seen.append(self)
        begin(self, kernel, arguments)

    monkeypatch.setattr(crew._Helper, "begin", noted)
    return seen


def test_helpers_do_a_part_and_are_kept(arr, monkeypatch):
    seen = _begun(monkeypatch)
    expected = np.apply_along_axis(_mixed, 1, arr)
    for _ in range(5):
        np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)
    assert len(seen) >= 3 * 5
    assert len({*map(id, seen)}) <= len(crew._free)


def test_threads_of_the_user_share_no_helper(arr):
    expected = np.apply_along_axis(_mixed, 1, arr)
    wrong, lock = [], threading.Lock()

    def work():
        for _ in range(20):
            with xpapply.options(threads=4, engine="cpu"):
                found = xpapply.apply_along_axis(_mixed, 1, arr)
            if not np.array_equal(found, expected):
                with lock:
                    wrong.append(1)

    in_threads(work, times=6)
    assert not wrong
    assert len({*map(id, crew._free)}) == len(crew._free)


def test_without_helpers_threads_of_python_serve(arr, monkeypatch):
    seen = _begun(monkeypatch)
    monkeypatch.setattr(crew, "_start", lambda: None)
    expected = np.apply_along_axis(_mixed, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)
    assert not seen


def test_more_threads_than_the_system_has(arr, monkeypatch):
    def refused(self, *args):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(crew, "_free", [])
    monkeypatch.setattr(crew._Helper, "__init__", refused)
    expected = np.apply_along_axis(_mixed, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)


def test_progress_is_shown_as_of_other_threads(arr, capsys):
    with LIMITS.set(typed_turn=1e-6), xpapply.options(progress=True):
        found = xpapply.apply_along_axis(_mixed, 1, arr)
    np.testing.assert_array_equal(found, np.apply_along_axis(_mixed, 1, arr))


FORKS = """
import os
import numpy as np
import xpapply
from xpapply.backends.cpu import crew
from xpapply.limits import LIMITS

def mixed(v):
    s = 0.0
    for x in v:
        s = 0.5 * s + x if x > 0 else s - x
    return s

arr = np.random.default_rng(3).standard_normal((4000, 30))
with LIMITS.set(typed_helper=1e-9, typed_piece=1e-9), xpapply.options(threads=4, engine="cpu"):
    expected = xpapply.apply_along_axis(mixed, 1, arr)
    assert crew._free
    child = os.fork()
    assert bool(crew._free) is bool(child)
    found = xpapply.apply_along_axis(mixed, 1, arr)
    assert crew._free
    same = np.array_equal(found, expected)
    if not child:
        os._exit(0 if same else 1)
    assert same
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_process_makes_its_own(tmp_path):
    """In a process of its own: others may have loaded what a fork breaks."""
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    command = [sys.executable, "-W", "ignore", str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr


def test_an_interruption_ends_helpers_too(monkeypatch):
    # each slice takes a while, so that the caller is at its turn when it is interrupted
    arr = np.ones((100_000, 4))

    def slow(v):
        n = 0
        while n < 30_000 * v[0]:
            n += 1 if v[1] > 0 else 2
        return n

    def often():
        until = time.monotonic() + 100.0
        try:
            while time.monotonic() < until:
                xpapply.apply_along_axis(slow, 1, arr)
        finally:
            heard.set()

    seen = _begun(monkeypatch)
    xpapply.apply_along_axis(slow, 1, arr[:64])
    heard = threading.Event()

    def interrupt():
        while not heard.wait(0.5):  # Python itself loses one that comes within a finalizer
            _thread.interrupt_main()

    began = time.process_time()  # a busy machine changes nothing
    thread = threading.Thread(target=interrupt)
    # a process that a shell has put into the background ignores interruptions
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            often()
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert time.process_time() - began < 20.0
    assert all(helper._words[crew._DONE] == helper._begun for helper in seen)
    np.testing.assert_array_equal(xpapply.apply_along_axis(slow, 1, arr[:64]), 30_000)


def test_what_the_caller_raises_waits_for_helpers(arr, monkeypatch):
    seen = _begun(monkeypatch)
    xpapply.apply_along_axis(_mixed, 1, arr)

    def wrong(*args, **kwargs):
        raise KeyboardInterrupt("of the caller")

    monkeypatch.setattr("xpapply.backends.cpu.typed.threads.in_threads", wrong)
    before = len(seen)
    with pytest.raises(KeyboardInterrupt, match="of the caller"):
        xpapply.apply_along_axis(_mixed, 1, arr)
    assert len(seen) > before
    assert all(helper._words[crew._DONE] == helper._begun for helper in seen)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of threads")
def test_helpers_hear_no_signals(arr):
    xpapply.apply_along_axis(_mixed, 1, arr)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    blocked = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as file:
            mask = next(line for line in file if line.startswith("SigBlk"))
        blocked += bool(int(mask.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    assert blocked >= len(crew._free) > 0
