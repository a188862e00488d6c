"""A function is not looked at for a few slices, whose loop takes less time than that."""

import warnings

import numpy as np
import pytest

import xpapply
from xpapply.functions.cache import cache_of
from xpapply.limits import LIMITS
from xpapply.planning.python import unplanned
from xpapply.planning.python.traced import TracedFunction
from xpapply.runtime.budget import Quick


def kinds(f):
    return {type(x) for x in cache_of(f)[0].traced.values()}


def slices(n):
    return np.random.default_rng(0).normal(size=(n, 5))


def test_short_loops_are_no_reason_for_a_plan(monkeypatch):
    monkeypatch.setattr(LIMITS, "plan_worth", 60.0)
    f, x = lambda v: v[0] if v[1] > 0 else v[2] + 1, slices(100)
    for _ in range(3):
        xpapply.apply_along_axis(f, 1, x)
        assert kinds(f) == {Quick}


def test_loops_over_networks_are_once_they_have_taken_some_time(monkeypatch):
    monkeypatch.setattr(LIMITS, "plan_worth_of_networks", 1e-9)
    monkeypatch.setattr(unplanned, "holds_network", lambda f: True)
    f, x = lambda v: v[0] if v[1] > 0 else v[2] + 1, slices(100)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, x), np.apply_along_axis(f, 1, x))
    assert kinds(f) == {TracedFunction}


def test_more_slices_than_the_loop_is_best_for(monkeypatch):
    f = lambda v: v[0] if v[1] > 0 else v[2] + 1  # noqa: E731
    monkeypatch.setattr(LIMITS, "plan_worth", 1e-2)
    xpapply.apply_along_axis(f, 1, slices(100))
    assert kinds(f) == {Quick}
    xpapply.apply_along_axis(f, 1, slices(200_000))
    assert kinds(f) == {TracedFunction}


@pytest.mark.parametrize("otypes", [None, ["f8"]])
def test_a_few_numbers_are_looped_over_as_numpy_does(monkeypatch, otypes):
    monkeypatch.setattr(LIMITS, "vectorize_unknown", 128)
    monkeypatch.setattr(LIMITS, "plan_worth", 60.0)

    def f(a, b):
        return a if a > b else np.sqrt(b)

    x, y = slices(100).T[:2]
    xpapply.functions.cache.clear()
    results, told = [], []
    for vectorize in (np.vectorize, xpapply.vectorize):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results.append(vectorize(f, otypes)(x, y))
        told.append([str(w.message) for w in seen])
    np.testing.assert_array_equal(*results)
    assert told[0] == told[1]
    assert told[0]
    assert kinds(f) == {Quick}
    xpapply.functions.cache.clear()
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    with np.errstate(all="ignore"):
        xpapply.vectorize(f, otypes)(*slices(1000).T[:2])
    assert kinds(f) == {TracedFunction}


def test_what_raises_tells_where_and_is_looked_at_later(monkeypatch):
    monkeypatch.setattr(LIMITS, "vectorize_unknown", 128)

    def f(a):
        return 1.0 / int(a)

    x = np.arange(50.0) - 7
    with pytest.raises(ZeroDivisionError) as error:
        xpapply.vectorize(f, ["f8"])(x)
    assert any("7" in note for note in error.value.__notes__)
    x[7] = 1
    np.testing.assert_array_equal(xpapply.vectorize(f, ["f8"])(x), np.vectorize(f)(x))


def test_engines_that_are_asked_for_and_no_fallback_wait_for_nothing(monkeypatch):
    monkeypatch.setattr(LIMITS, "vectorize_unknown", 128)
    f, x = lambda a: a * 2 + 1, slices(20)[:, 0]
    with xpapply.options(fallback="raise"):
        xpapply.vectorize(f)(x)
    assert kinds(f) == {TracedFunction}
