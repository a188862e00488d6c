"""What fails while a function is compiled: exceptions of its own, and faults of the compiler."""

import numpy as np
import pytest

import xpapply
from xpapply.frontends.python.source import typed as source
from xpapply.limits import LIMITS

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def unknown():
    """Nothing is remembered of the functions here."""
    xpapply.functions.cache.clear()


def longest_run(v):
    best = run = 0
    for x in v:
        run = run + 1 if x > 0 else 0
        best = max(best, run)
    return best


def inverse_sum(v):
    total = 0.0
    for x in v:
        if x < -100:
            raise ValueError("too cold")
        total += float(x) * 2
    return total


def broken(*args):
    raise KeyError("a name")


X = np.random.default_rng(0).normal(size=(400, 12))


@pytest.mark.parametrize("known", [True, False])
def test_a_fault_of_the_compiler_is_a_reason(monkeypatch, by_source, known):
    monkeypatch.setattr(source, "typed", broken)
    want = np.apply_along_axis(longest_run, -1, X[:60])
    with LIMITS.set(raised_faults=0, typed_worth=1e-9 if known else 0.0):
        for _ in range(3):
            np.testing.assert_array_equal(xpapply.apply_along_axis(longest_run, -1, X[:60]), want)
        with LIMITS.set(paths=2):  # which leaves no trace
            xpapply.functions.cache.clear()
            xpapply.apply_along_axis(longest_run, -1, X[:60])
            said = str(xpapply.explain(longest_run, -1, X[:60]))
    assert "KeyError in xpapply itself" in said
    assert "please report it" in said


def test_tests_see_it(monkeypatch, by_source):
    monkeypatch.setattr(source, "typed", broken)
    with pytest.raises(KeyError, match="a name"):
        xpapply.apply_along_axis(longest_run, -1, X)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_what_f_raises_for_the_first_slice_says_where(before):
    bad = X.copy()
    bad[0, 3] = -1000
    with LIMITS.set(few_slices=0, typed_worth=1e-4, typed_waits=1e-3):
        for _ in range(before):
            xpapply.apply_along_axis(inverse_sum, -1, X[:40])
        for _ in range(2):
            with pytest.raises(ValueError, match="too cold") as caught:
                xpapply.apply_along_axis(inverse_sum, -1, bad)
            assert "raised at the slice arr[0, :]" in caught.value.__notes__
        want = np.apply_along_axis(inverse_sum, -1, X)
        for _ in range(3):
            np.testing.assert_array_equal(xpapply.apply_along_axis(inverse_sum, -1, X), want)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_and_of_vectorize(before):
    def of_number(x):
        total = 0.0
        while total < 3:
            total += 1 / x
        return total

    x = np.random.default_rng(0).random(400) + 0.5
    bad = x.copy()
    bad[0] = 0
    f = xpapply.vectorize(of_number)
    with LIMITS.set(vectorize_unknown=0, typed_worth=1e-4, typed_waits=1e-3):
        for _ in range(before):
            f(x)
        for _ in range(2):
            with pytest.raises((ZeroDivisionError, RuntimeWarning)) as caught:
                f(bad)
            assert any("(0,)" in note for note in caught.value.__notes__), caught.value.__notes__
        np.testing.assert_array_equal(f(x), np.vectorize(of_number)(x))


def test_functions_of_libraries_that_are_read(by_source):
    x = np.random.default_rng(0).normal(size=400) * (1 + 2j)
    with xpapply.options(fallback="silent"):
        for _ in range(3):
            got = xpapply.vectorize(abs)(x)
    np.testing.assert_array_equal(got, np.vectorize(abs)(x))


def test_results_of_several_numbers_that_are_left_to_the_function(by_source):
    def smoothed(v):
        out = np.zeros_like(v)
        t = 1
        for i, x in enumerate(v):
            t = t * (1 + int(abs(x))) if x > 900 else 1
            out[i] = x + t % 7
        return out

    x = X.copy()
    x[7] = 1e9  # products beyond 64 bits, which are Python's
    own = np.vectorize(smoothed, signature="(n)->(n)")
    f = xpapply.vectorize(smoothed, signature="(n)->(n)")
    with xpapply.options(fallback="raise"):
        for _ in range(3):
            np.testing.assert_array_equal(f(x), own(x))
    assert "compiled loop" in f.explain(x).kernels[0]
