"""Calls of vectorize on arrays like those before: what has changed is seen all the same."""

import contextlib
import gc
import pickle
import weakref

import numpy as np
import pytest

import xpapply
from xpapply.functions import cache
from xpapply.planning.python.ready import Ready

pytest.importorskip("llvmlite")

FACTOR = 2.0


@pytest.fixture(autouse=True, scope="module")
def warm():
    """The first call of a function finds its branches, whichever test makes it."""
    with xpapply.options(engine="cpu"):
        xpapply.vectorize(larger)(*numbers())


@pytest.fixture(autouse=True)
def compiled(warm):
    for f in (larger, scaled, both, correlation):
        cache.cache_of(f)[0].ready.clear()
    with xpapply.options(engine="cpu"):
        yield


@pytest.fixture
def quick(monkeypatch):
    """How many calls were quick."""
    found = []
    call = Ready.__call__

    def counted(self, *given):
        result = call(self, *given)
        found.append(result is not None)
        return result

    monkeypatch.setattr(Ready, "__call__", counted)
    return found


def larger(a, b):
    return a - b if a > b else a + b


def scaled(a, b):
    return a * FACTOR + b


def both(a, b):
    return a + b, a > b


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def numbers(shape=100, seed=0):
    return np.random.default_rng(seed).random((2, *np.atleast_1d(shape))) + 0.5


@pytest.mark.parametrize("f", [larger, scaled, both])
@pytest.mark.parametrize("otypes", [None, "d", ["f8"], (np.float32,)])
def test_numbers(f, otypes, quick):
    otypes = otypes * 2 if otypes and f is both else otypes
    ours, theirs = xpapply.vectorize(f, otypes), np.vectorize(f, otypes)
    for seed in range(4):
        a, b = numbers(seed=seed)
        for given in [(a, b), (a[:, None], b[:30]), (a[::-2], b[:50])]:
            got, want = ours(*given), theirs(*given)
            assert type(got) is type(want)
            np.testing.assert_array_equal(got, want, strict=True)
    assert sum(quick) >= 6


def test_numbers_of_python_are_told_apart_by_their_types(quick):
    ours, theirs = xpapply.vectorize(larger), np.vectorize(larger)
    a = np.random.default_rng(2).integers(-50, 50, 100)
    for b in (3, 3, 7, 7.0, 2.5, 2.5, 1, True, True, np.inf, 3, 2.5, np.float64(3), 7, -0.0, False):
        got, want = ours(a, b), theirs(a, b)
        assert type(got) is type(want)
        np.testing.assert_array_equal(got, want, strict=True)
    assert sum(quick) >= 6


@pytest.mark.parametrize("shapes", [((20, 50), (20, 50)), ((20, 50), (50,)), ((4, 1, 5), (6, 5))])
def test_slices(shapes, quick):
    ours = xpapply.vectorize(correlation, signature="(n),(n)->()")
    theirs = np.vectorize(correlation, signature="(n),(n)->()")
    for seed in range(3):
        a, b = (np.random.default_rng([seed, k]).random(s) for k, s in enumerate(shapes))
        got, want = ours(a, b), theirs(a, b)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12)
    assert sum(quick) == 2


def test_results_are_new_arrays(quick):
    a, b = numbers()
    f = xpapply.vectorize(larger)
    f(a, b)
    first = f(a, b)
    kept = first.copy()
    f(b, a)
    assert quick == [True, True]
    np.testing.assert_array_equal(first, kept)


def test_slices_that_numpy_looks_at(quick):
    f, want = xpapply.vectorize(lambda a, b: a / b if a > 0 else b), np.vectorize
    a, b = numbers()
    f(a, b)
    f(a, b)
    b[7] = 0  # as numbers of Python's it raises
    with pytest.raises(ZeroDivisionError):
        f(a, b)
    b[7] = np.nan
    np.testing.assert_array_equal(f(a, b), want(f.pyfunc)(a, b), strict=True)


def test_globals_and_closures_may_change(monkeypatch, quick):
    a, b = numbers()
    f = xpapply.vectorize(scaled)
    f(a, b)
    np.testing.assert_array_equal(f(a, b), a * 2 + b)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    np.testing.assert_array_equal(f(a, b), a * 5 + b)
    c = 1.0
    g = xpapply.vectorize(lambda x, y: x + y * c)
    for c in (1.0, 1.0, 3.0, 3.0, 4.0):
        np.testing.assert_array_equal(g(a, b), a + b * c)
    assert any(quick)


def test_the_function_may_be_another_one():
    a, b = numbers()
    f = xpapply.vectorize(larger)
    f(a, b)
    f.pyfunc = both
    np.testing.assert_array_equal(f(a, b)[1], a > b)


def test_dtypes_are_asked_for_anew():
    a, b = numbers()
    f = xpapply.vectorize(larger)
    f(a, b)
    (ready,) = cache.cache_of(larger)[0].ready.values()
    assert ready(larger, (a, b), True).dtype == np.float64
    whole = np.arange(100)
    assert ready(larger, (whole, whole), True) is None
    f.otypes = "f"
    assert f(a, b).dtype == np.float32


def test_options_and_the_error_state_are_seen(quick):
    a, b = numbers()
    f = xpapply.vectorize(larger)
    f(a, b)
    f(a, b)
    assert quick == [True]
    with xpapply.options(engine="loop"):
        f(a, b)
    f(a, b)
    with np.errstate(under="raise"), contextlib.suppress(xpapply.UnsupportedError):
        f(a, b)
    assert quick == [True, False, False]
    with np.errstate(all="call", call=lambda *_: None), xpapply.options(engine=""):
        f(a, b)
    assert sum(quick) == 1


def test_what_is_forgotten_is_not_run(quick):
    a, b = numbers()
    f = xpapply.vectorize(larger)
    f(a, b)
    cache.clear()
    f(a, b)
    assert not quick


def test_what_is_made_anew_of_a_function_is_quick_too(quick):
    a, b = numbers()
    for _ in range(3):
        np.testing.assert_array_equal(xpapply.vectorize(larger)(a, b), np.vectorize(larger)(a, b))
    assert quick == [True, True]
    assert xpapply.vectorize(larger, "f")(a, b).dtype == np.float32
    assert xpapply.vectorize(larger, on_error="fill")(a, b).dtype == np.float64
    assert quick == [True, True]
    with xpapply.options(engine="cpu"):  # the same options once more
        xpapply.vectorize(larger)(a, b)
    assert quick == [True, True, True]
    with xpapply.options(threads=1):
        xpapply.vectorize(larger)(a, b)
    assert quick == [True, True, True, False]


def test_signatures_are_told_apart(quick):
    a, b = np.random.default_rng(0).random((2, 20, 20))
    f = lambda a, b: a * 2 + b  # noqa: E731
    for _ in range(2):
        xpapply.vectorize(f)(a, b)
        xpapply.vectorize(f, signature="(n),(n)->(n)")(a, b)
        with pytest.raises((ValueError, xpapply.UnsupportedError), match="shape"):
            xpapply.vectorize(f, signature="(n),(n)->()")(a, b)
    assert quick == [True] * len(quick)


def test_no_function_and_none_of_its_arrays_is_kept_alive():
    a, b = numbers((30, 8))

    def made(table):
        return lambda x, y: (x * y).sum() + table[:8].sum()

    table = np.random.default_rng(0).random(5000)
    f = made(table)
    for _ in range(3):
        xpapply.vectorize(f, signature="(n),(n)->()")(a, b)
    gone = weakref.ref(f), weakref.ref(table)
    del f, table
    gc.collect()
    assert [r() for r in gone] == [None, None]


def test_what_is_sent_knows_what_it_was_called_with(quick):
    a, b = np.random.default_rng(0).random((2, 20, 50))
    xpapply.vectorize(correlation, signature="(n),(n)->()")(a, b)
    again = xpapply.vectorize(correlation, signature="(n),(n)->()")
    again(a, b)
    assert quick == [True]
    assert [[x.shape for x in kind.slices] for kind in again._kinds.values()] == [[(50,), (50,)]]


def test_excluded_and_further_arguments_go_the_long_way(quick):
    a, b = numbers()
    f = xpapply.vectorize(larger, excluded={1})
    for c in (1.0, 2.0):
        np.testing.assert_array_equal(f(a, c), np.where(a > c, a - c, a + c))
    f = xpapply.vectorize(larger)
    for _ in range(2):
        f(a, b=b)
        f(a, b, out=np.empty(100))
        f(a, b, where=a > 1, fill=0.0)
        f(list(a), b)
    assert not quick


def test_exceptions_for_the_first_element():
    a, b = numbers()
    limit = [9.0]

    def f(x, y):
        if x > limit[0]:
            raise ValueError("too large")
        return x + y

    ours = xpapply.vectorize(f)
    ours(a, b)
    ours(a, b)
    a[0] = 10
    with pytest.raises(ValueError, match="too large"):
        ours(a, b)


def test_pickled():
    a, b = numbers()
    f = xpapply.vectorize(larger)
    f(a, b)
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(a, b), f(a, b))


# --- along an axis ------------------------------------------------------------------------


@pytest.fixture
def along(monkeypatch, by_source):
    """How many calls along an axis were quick."""
    found = []
    call = Ready.along

    def counted(self, *given):
        result = call(self, *given)
        found.append(result is not None)
        return result

    monkeypatch.setattr(Ready, "along", counted)
    with xpapply.options(engine="", fallback="silent"):
        yield found


def longest(v):
    best = run = 0
    for x in v:
        run = run + 1 if x > FACTOR - 2.0 else 0
        if run > best:
            best = run
    return best


def shares(v):
    total = 0.0
    for x in v:
        total += 1.0 / x
    return total


def until_quick(f, axis, arr, found):
    """Calls until one is quick; all give what NumPy's loop gives."""
    want = np.apply_along_axis(f, axis, arr)
    for _ in range(60):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, axis, arr), want, strict=True)
        if found and found[-1]:
            return
    raise AssertionError("no call was quick")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_loops_along_an_axis(along, axis):
    arr = np.random.default_rng(1).standard_normal((60, 70, 50))
    until_quick(longest, axis, arr, along)
    for other in (arr * 2, -arr, arr[::-1].copy()):  # which lie alike
        got = xpapply.apply_along_axis(longest, axis, other)
        np.testing.assert_array_equal(got, np.apply_along_axis(longest, axis, other), strict=True)
    assert along[-3:] == [True] * 3
    for other in (arr[::2], arr.astype("f4"), np.asfortranarray(arr)):
        got = xpapply.apply_along_axis(longest, axis, other)
        want = np.apply_along_axis(longest, axis, other)
        np.testing.assert_array_equal(got, want)


def test_what_changes_is_seen_along_an_axis(along, monkeypatch):
    arr = np.random.default_rng(1).standard_normal((3000, 50))
    until_quick(longest, 1, arr, along)
    monkeypatch.setitem(globals(), "FACTOR", 2.5)
    got = xpapply.apply_along_axis(longest, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(longest, 1, arr), strict=True)


def test_marks_and_warnings_along_an_axis(along):
    arr = np.random.default_rng(1).random((2000, 60)) + 0.5
    until_quick(shares, 1, arr, along)
    arr[7, 3] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        got = xpapply.apply_along_axis(shares, 1, arr)
    assert not along[-1]
    assert np.isinf(got[7])
    with np.errstate(all="ignore"):
        want = np.apply_along_axis(shares, 1, arr)
        np.testing.assert_array_equal(xpapply.apply_along_axis(shares, 1, arr), want, strict=True)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        xpapply.apply_along_axis(shares, 1, arr)
