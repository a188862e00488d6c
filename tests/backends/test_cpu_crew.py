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
from xpapply.backends.cpu import compiler, crew
from xpapply.codegen.llvm import helpers as text
from xpapply.codegen.llvm.target import TARGETS
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
        LIMITS.set(typed_alone=0.0, typed_alone_first=0.0),
        xpapply.options(threads=4, engine="cpu"),
    ):
        yield


def _begun(monkeypatch):
    """The teams that begin something, and how many work, in a list."""
    seen = []
    order = crew._Team.order

    def noted(self, work, workers, is_short):
        seen.append((self, workers))
        order(self, work, workers, is_short)

    monkeypatch.setattr(crew._Team, "order", noted)
    return seen


def _are_idle(teams):
    """Whether no helper has anything to do."""
    return all(
        team._words[text.slot(k) + text._STATE] in (text.IDLE, text.ASLEEP)
        for team in teams
        for k in range(1, team.helpers + 1)
    )


def test_helpers_do_a_part_and_are_kept(arr, monkeypatch):
    seen = _begun(monkeypatch)
    expected = np.apply_along_axis(_mixed, 1, arr)
    for _ in range(40):
        np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)
    assert max(workers for _, workers in seen) == 4
    assert len({id(team) for team, _ in seen}) <= len(crew._free)
    assert _are_idle(crew._free)


WAYS = {
    "as it is": {},
    "one slice at a time": {"typed_share": 0.0, "typed_pieces": 10**9},
    "turn by turn": {"typed_turn": 1e-7},
    "asleep at once": {"typed_spin": 0.0},
    "awake for long": {"typed_spin": 0.01},
}


@pytest.mark.parametrize("threads", [2, 3, 7, 40, 300])
@pytest.mark.parametrize("way", WAYS)
def test_any_number_of_helpers_called_again_and_again(way, threads, monkeypatch):
    """Also those who come when all is done."""
    monkeypatch.setattr(crew.Crowd, "chosen", lambda self, guess, most: most)
    arr = np.random.default_rng(3).standard_normal((3001, 5))
    expected = np.apply_along_axis(_mixed, 1, arr)
    with LIMITS.set(typed_alone=0.0, **WAYS[way]), xpapply.options(threads=threads):
        for k in range(60):
            some = arr[: 3001 - k]
            found = xpapply.apply_along_axis(_mixed, 1, some)
            np.testing.assert_array_equal(found, expected[: 3001 - k])
            if k % 20 == 19:  # so that some sleep, and some do not
                time.sleep(1e-3)
    assert _are_idle(crew._free)


def test_more_helpers_than_a_team_may_have():
    team = crew._taken(10 * text.MOST_WORKERS)
    assert team.helpers == text.MOST_WORKERS - 1
    crew._free.append(team)


def test_numbers_of_threads_that_take_longer_are_left():
    crowd, took = crew.Crowd(), {1: 1.0, 2: 0.8, 4: 0.5, 8: 0.9, 16: 3.0}
    chosen = []
    for _ in range(400):
        chosen.append(crowd.chosen(16, 16))
        crowd.add(chosen[-1], took[chosen[-1]])
    assert chosen[0] == 16
    assert chosen.count(4) > 300
    assert 2 in chosen[-100:]  # which may have become better
    took = {1: 0.2, 2: 0.8, 4: 0.9, 8: 0.9, 16: 3.0}
    for _ in range(2000):
        chosen.append(crowd.chosen(16, 16))
        crowd.add(chosen[-1], took[chosen[-1]])
    assert chosen[-100:].count(1) > 80


@pytest.mark.parametrize("most", [1, 2, 3, 12])
def test_no_more_threads_are_tried_than_there_may_be(most):
    crowd = crew.Crowd()
    chosen = set()
    for _ in range(100):
        chosen.add(count := crowd.chosen(100, most))
        crowd.add(count, 1.0 / count)
    assert max(chosen) == most
    assert min(chosen) >= 1


def test_exceptions_come_in_order(arr):
    """Of the slices that are left to the function, the first one raises, whoever found which."""
    arr = np.abs(arr) + 1.0
    arr[1711, 3] = arr[3900, 2] = 0.0

    def inverse(v):
        s = 0.0
        for x in v.tolist():
            s = 1.0 / x if x < 2.0 else s + x
        return s

    good = np.abs(arr) + 1.0
    for _ in range(10):
        xpapply.apply_along_axis(inverse, 1, good)
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            xpapply.apply_along_axis(inverse, 1, arr)
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(inverse, 1, good), np.apply_along_axis(inverse, 1, good)
    )


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_helpers_are_compiled_for_all_cpus(target):
    assert compiler.object_code(text.helpers(target), target)


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
    assert _are_idle(crew._free)


def test_without_helpers_threads_of_python_serve(arr, monkeypatch):
    seen = _begun(monkeypatch)
    monkeypatch.setattr(crew, "_start", lambda: None)
    expected = np.apply_along_axis(_mixed, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)
    assert not seen


@pytest.mark.parametrize("some", [0, 1])
def test_more_threads_than_the_system_has(arr, monkeypatch, some):
    grow = crew._Team.grow
    monkeypatch.setattr(crew, "_free", [])
    monkeypatch.setattr(crew._Team, "grow", lambda self, count: grow(self, min(count, some)))
    expected = np.apply_along_axis(_mixed, 1, arr)
    for _ in range(10):
        np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)
    assert all(team.helpers <= some for team in crew._free)


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
crew.Crowd.chosen = lambda self, guess, most: most
with LIMITS.set(typed_alone=0.0, typed_alone_first=0.0), xpapply.options(threads=4, engine="cpu"):
    expected = xpapply.apply_along_axis(mixed, 1, arr)
    for _ in range(20):
        xpapply.apply_along_axis(mixed, 1, arr)
    assert crew._free
    child = os.fork()
    assert bool(crew._free) is bool(child)
    for _ in range(20):
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
    assert _are_idle(team for team, _ in seen)
    np.testing.assert_array_equal(xpapply.apply_along_axis(slow, 1, arr[:64]), 30_000)


@pytest.mark.parametrize("method", ["turn", "run", "join"])
def test_what_the_caller_raises_waits_for_helpers(arr, monkeypatch, method):
    seen = _begun(monkeypatch)
    expected = np.apply_along_axis(_mixed, 1, arr)
    monkeypatch.setattr(crew.Crowd, "chosen", lambda self, guess, most: most)
    for _ in range(5):
        xpapply.apply_along_axis(_mixed, 1, arr)
    real, raised = getattr(crew._Team, method), []

    def wrong(self, *args):
        if not raised:
            raised.append(1)
            raise KeyboardInterrupt("of the caller")
        real(self, *args)

    before = len(seen)
    with monkeypatch.context() as patched, LIMITS.set(typed_turn=1e-6 * (method == "turn") or 0.1):
        patched.setattr(crew._Team, method, wrong)
        with pytest.raises(KeyboardInterrupt, match="of the caller"):
            xpapply.apply_along_axis(_mixed, 1, arr)
    assert len(seen) > before
    assert _are_idle(team for team, _ in seen)
    np.testing.assert_array_equal(xpapply.apply_along_axis(_mixed, 1, arr), expected)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
def test_an_interruption_while_the_caller_waits_for_helpers(monkeypatch):
    """It sleeps by then; what a helper is at comes to its end first."""

    def slow(v):
        n = 0
        while n < v[0]:
            n += 1 if v[1] > 0 else 2
        return n

    monkeypatch.setattr(crew.Crowd, "chosen", lambda self, guess, most: most)
    arr = np.full((400, 2), 50.0)
    for _ in range(5):
        xpapply.apply_along_axis(slow, 1, arr)
    late = arr.copy()
    late[-1, 0] = 3e8  # the last helper's, or the caller's
    expected = xpapply.apply_along_axis(slow, 1, arr)

    def interrupt(*_):
        raise KeyboardInterrupt("of the timer")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with LIMITS.set(typed_turn=100.0, typed_alone=0.0):
            xpapply.apply_along_axis(slow, 1, arr)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt, match="of the timer"):
                xpapply.apply_along_axis(slow, 1, late)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert _are_idle(crew._free)
    np.testing.assert_array_equal(xpapply.apply_along_axis(slow, 1, arr), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of threads")
def test_helpers_hear_no_signals(arr):
    xpapply.apply_along_axis(_mixed, 1, arr)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    blocked = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as file:
            mask = next(line for line in file if line.startswith("SigBlk"))
        blocked += bool(int(mask.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    assert blocked >= sum(team.helpers for team in crew._free) > 0
