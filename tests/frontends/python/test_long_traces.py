"""Tracing ends, however much a function does."""

import time

import numpy as np
import pytest
from many_slices import array

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


def _endless(v):
    return _endless(v + 1)


def _deep(v, n=400):
    return v.sum() if n == 0 else _deep(v + 1, n - 1)


def _long(v):
    total = 0.0
    for _ in range(30_000):
        total = total + v[0]
    return total


def _ever_new(v):
    """Each slice takes its own path."""
    total, x = 0, int(abs(v[0]) * 1e6)
    while x:
        total += x % 2
        x //= 2
    return total


def _squares(v):
    x = v
    for _ in range(25):
        x = np.concatenate([x, x])
    return x.sum()


@pytest.mark.parametrize("f", [_long, _ever_new, _deep], ids=lambda f: f.__name__)
def test_big_traces_end(f):
    arr = array(40)
    started = time.process_time()  # a busy machine changes nothing
    xpapply.explain(f, 1, arr)
    assert time.process_time() - started < 12
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
    )


@pytest.mark.usefixtures("by_trace")
def test_a_long_loop_is_refused():
    def long(v):
        total = 1.0
        for _ in range(30_000):
            total = total + v[0]
        return total

    why = "; ".join(xpapply.explain(long, 1, array(40)).reasons)
    assert "operations" in why


def test_endless_recursion():
    started = time.process_time()  # a busy machine changes nothing
    with pytest.raises(RecursionError):
        xpapply.apply_along_axis(_endless, 1, array(40))
    assert time.process_time() - started < 12
