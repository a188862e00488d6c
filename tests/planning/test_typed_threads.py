"""Threads draw slices of a compiled loop by themselves: the same results, whoever draws which."""

import threading

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import crew
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.limits import LIMITS
from xpapply.planning.python.typed_loop import TypedLoop

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]

MANY = {
    "typed_alone": 0.0,
    "typed_thread": 1e-12,
    "typed_helper": 1e-12,
    "typed_piece": 0.0,
    "typed_pieces": 10**9,
}
"""A thread for each slice, and pieces of one, or as many as there are lanes."""


@pytest.fixture(autouse=True, params=["helpers", "threads of Python"])
def compiled(request, monkeypatch):
    if request.param != "helpers":
        monkeypatch.setattr(crew, "_start", lambda: None)
    elif not crew.is_there():
        pytest.skip("there are no helpers here")
    with xpapply.options(engine="cpu"), LIMITS.set(**MANY):
        yield


def settled(v):
    """Some slices are left: to a warning, or as integers that are too large."""
    s, n = 0.0, 1
    for x in v:
        if x > 2.5:
            n = n * 3037000500
        while x > 1:
            x = x / 2
        s += 1 / x
    return s + n % 7


def loop_of(f):
    return next(x for x in cache_of(f)[0].traced.values() if type(x) is TypedLoop)


def numbers(count, n=7):
    arr = np.random.default_rng(0).random((count, n)) + 0.5
    arr[::29, 3] = 0.0
    arr[5::31, 2:5] = 3.0
    return arr


@pytest.mark.parametrize("form", [backend.ONE, backend.QUIET, backend.LANES])
@pytest.mark.parametrize("count", [1, 200, 4001])
def test_any_number_of_threads(form, count):
    arr = numbers(4001)
    with np.errstate(divide="ignore"):
        want = np.apply_along_axis(settled, 1, arr[:count])
        xpapply.apply_along_axis(settled, 1, arr)
    run, seen = loop_of(settled).compiled.run, []
    for threads in (1, 2, 5, 40):
        out = np.zeros(count)
        with xpapply.options(threads=threads):
            marks = run([arr[:count]], [out], 1, form=form)
        good = marks == 0
        np.testing.assert_array_equal(out[good], want[good])
        seen.append((marks.tobytes(), out[good].tobytes()))
        assert good.mean() > 0.5 or count == 1
    assert len(set(seen)) == 1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_whole_call(threads):
    arr = numbers(3000).reshape(30, 100, 7)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        want = np.apply_along_axis(settled, 2, arr)
    for x in (arr, arr[:, ::-1], arr.transpose(1, 0, 2), np.asfortranarray(arr)):
        with pytest.warns(RuntimeWarning), xpapply.options(threads=threads, fallback="silent"):
            got = xpapply.apply_along_axis(settled, 2, x)
        with np.errstate(divide="ignore"):
            want = np.apply_along_axis(settled, 2, x)
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_slice_is_drawn_once(threads):
    def f(v):
        for k in range(len(v)):
            v[k] += 1
        return v[0]

    arr = np.zeros((5000, 3))
    with xpapply.options(threads=threads):
        for k in range(1, 6):
            got = xpapply.apply_along_axis(f, 1, arr)
            assert (got == k).all()
            assert (arr == k).all()


def test_turns_end_where_others_begin():
    """However short they are, and whoever is at the last one."""
    arr = numbers(4001)
    with np.errstate(divide="ignore"):
        want = xpapply.apply_along_axis(settled, 1, arr)
        for pieces in (1, 3, 10**9):
            with LIMITS.set(typed_turn=1e-7, typed_pieces=pieces), xpapply.options(threads=3):
                np.testing.assert_array_equal(xpapply.apply_along_axis(settled, 1, arr), want)


def test_progress_counts_turns(capsys):
    arr = numbers(4001)
    with np.errstate(divide="ignore"):
        want = xpapply.apply_along_axis(settled, 1, arr)
        with LIMITS.set(typed_turn=1e-5), xpapply.options(threads=2, progress=True):
            np.testing.assert_array_equal(xpapply.apply_along_axis(settled, 1, arr), want)


@pytest.mark.parametrize("compiled", ["threads of Python"], indirect=True)
def test_an_error_in_a_thread_ends_the_call(monkeypatch):
    arr = numbers(4001)
    with np.errstate(divide="ignore"):
        want = xpapply.apply_along_axis(settled, 1, arr)
    real, here = backend.Compiled._memory, threading.current_thread()

    def memory(self, tile, workers=1):
        if threading.current_thread() is not here:
            raise MemoryError("none left")
        return real(self, tile, workers)

    loop = loop_of(settled)
    out = np.zeros(4001)

    def often():  # threads that wake late find nothing to do
        for _ in range(1000):
            loop.compiled.run([arr], [out], 1, form=backend.ONE)

    with LIMITS.set(typed_turn=1e-5), xpapply.options(threads=3):
        with monkeypatch.context() as patched:
            patched.setattr(backend.Compiled, "_memory", memory)
            with pytest.raises(MemoryError, match="none left"):
                often()
        marks = loop.compiled.run([arr], [out], 1, form=backend.ONE)
    np.testing.assert_array_equal(out[marks == 0], want[marks == 0])


def test_an_interrupt_ends_the_call(monkeypatch):
    """It is raised between two turns of the caller; the others end with theirs."""
    arr = numbers(4001)
    with np.errstate(divide="ignore"):
        want = xpapply.apply_along_axis(settled, 1, arr)
    loop, out, calls = loop_of(settled), np.zeros(4001), []
    helped = crew.is_there()
    of, name = (crew._Team, "turn") if helped else (backend.Compiled, "_memory")
    real = getattr(of, name)

    def taken(self, *args):
        calls.append(threading.current_thread())
        if calls.count(threading.main_thread()) == 3:
            raise KeyboardInterrupt
        return real(self, *args)

    with LIMITS.set(typed_turn=1e-6), xpapply.options(threads=3):
        with monkeypatch.context() as patched:
            patched.setattr(of, name, taken)
            with pytest.raises(KeyboardInterrupt):
                loop.compiled.run([arr], [out], 1, form=backend.ONE)
        assert len(calls) < 1000
        marks = loop.compiled.run([arr], [out], 1, form=backend.ONE)
    np.testing.assert_array_equal(out[marks == 0], want[marks == 0])
