"""Functions that draw random numbers, beside others that draw from the same generators."""

import contextlib
import random
import threading
import time
import warnings

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]

X = np.random.default_rng(1).normal(size=(2_000, 3))


def started(*calls):
    found = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in found:
        thread.start()
        time.sleep(0.05)  # each gets as far as it gets
    return found


def test_functions_that_draw_from_generators_in_another_order_each():
    first, second = np.random.default_rng(0), np.random.default_rng(1)

    def f(v):
        return first.normal() + second.normal()

    def g(v):
        return second.normal() + first.normal()

    def call(of):
        with xpapply.options(engine="cpu"):
            for _ in range(20):
                xpapply.apply_along_axis(of, -1, X)

    for of in (f, g):
        call(of)
    for lock in (first.bit_generator.lock, second.bit_generator.lock):
        with lock:
            threads = started(lambda: call(f), lambda: call(g))
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("engine", ["", "cpu"])
def test_no_number_is_drawn_twice_or_lost(make, is_first, engine):
    own, others, found = make(3), [], []

    def f(v):
        x = own.random()
        return x if v[0] > 0 else x / np.float64(v[1])  # NumPy warns of it, so `f` runs itself

    arr = np.abs(X)
    arr[::97, 0], arr[::97, 1] = -1.0, 0.0

    def apply():
        found.append(xpapply.apply_along_axis(f, -1, arr))

    def draw():
        while not is_over.is_set():
            others.append(own.random())

    with xpapply.options(engine=engine), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not is_first:
            apply()
        is_over = threading.Event()
        (thread,) = started(draw)
        try:
            with xpapply.options(engine="" if make is random.Random else engine):
                for _ in range(4):
                    apply()
        finally:
            is_over.set()
            thread.join()
    again, count = make(3), sum(map(np.size, found)) + len(others)
    drawn = np.concatenate([*(x[arr[:, 0] > 0] for x in found), others])
    want = [again.random() for _ in range(count)]
    assert np.unique(drawn).size == drawn.size
    assert np.isin(drawn, want).all()
    assert own.random() == again.random()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("in_file", [False, True])
def test_pythons_generator_is_looped_beside_other_threads_and_then_compiled(in_file, tmp_path):
    own, arr = random.Random(1), X
    if in_file:
        arr = np.memmap(tmp_path / "x", np.float64, "w+", shape=X.shape)
        arr[:] = X

    def f(v):
        return v[0] + own.random()

    with xpapply.options(engine="cpu"):
        want = "one compiled loop"
        assert want in xpapply.explain(f, -1, arr).kernels[0]
        xpapply.apply_along_axis(f, -1, arr)
        is_over = threading.Event()
        (thread,) = started(is_over.wait)
        with pytest.raises(xpapply.errors.UnsupportedError, match="other threads"):
            xpapply.apply_along_axis(f, -1, arr)
        with xpapply.options(engine=""), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = own.getstate()
            got = xpapply.apply_along_axis(f, -1, arr)
            own.setstate(state)
            assert np.array_equal(got, np.apply_along_axis(f, -1, arr))
        is_over.set()
        thread.join()
        assert want in xpapply.explain(f, -1, arr).kernels[0]
        xpapply.apply_along_axis(f, -1, arr)


def test_a_call_within_a_call_draws_from_a_generator_of_its_own():
    arr, more = X[:300].copy(), X[:200].copy()
    arr[100, 2], more[:, 2] = 0.0, 1.0

    def function(own):
        return lambda v: own.normal() / v[2]

    def run(apply):
        outer, inner, found = np.random.default_rng(1), np.random.default_rng(2), []
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda *_: found.append(apply(function(inner), -1, more))
            found.append(apply(function(outer), -1, arr))
        return [x.tolist() for x in found], outer.random(), inner.random()

    want = run(np.apply_along_axis)
    assert len(want[0]) == 2
    for _ in range(2):
        with xpapply.options(engine="cpu"):
            assert run(xpapply.apply_along_axis) == want


class Stop(BaseException):
    """Of a user's own."""


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, KeyboardInterrupt, Stop])
@pytest.mark.parametrize("at", [0, 100])
def test_what_ends_a_thread_leaves_the_generator_as_the_loop_does(kind, at):
    own, arr = np.random.default_rng(5), np.abs(X[:150])
    arr[at, 0] = -1.0

    def f(v):
        x = own.normal()
        if v[0] < 0:
            raise kind("over")
        return x

    def run(apply, x):
        own.bit_generator.state = np.random.PCG64(5).state
        with contextlib.suppress(kind):
            apply(f, -1, x)
        return repr(own.bit_generator.state)

    want = run(np.apply_along_axis, arr)
    with xpapply.options(engine="cpu"):
        assert run(xpapply.apply_along_axis, np.abs(arr)) != want
        for _ in range(2):
            assert run(xpapply.apply_along_axis, arr) == want


def test_no_number_for_the_first_slice_is_no_error_of_ours():
    own, arr = np.random.default_rng(5), np.abs(X[:150])
    arr[0, 0] = -1.0

    def f(v):
        x = own.normal()
        return None if v[0] < 0 else x

    with xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, -1, np.abs(arr))
        state = repr(own.bit_generator.state)
        with pytest.raises(xpapply.errors.UnsupportedError) as found:
            xpapply.apply_along_axis(f, -1, arr)
        assert type(found.value) is xpapply.errors.UnsupportedError
        assert "engine 'cpu' cannot run" in str(found.value)
        assert repr(own.bit_generator.state) == state
