"""The first functions of a process run in the loop, which is handed on where that takes longer."""

import warnings

import numpy as np
import pytest

import xpapply
from xpapply.errors import UnsupportedError
from xpapply.functions.cache import cache_of, clear
from xpapply.limits import LIMITS
from xpapply.planning import python
from xpapply.planning.python import from_source, python_functions, unplanned
from xpapply.planning.python.typed_loop import TypedLoop
from xpapply.runtime.budget import Budget, Quick

ARR = np.random.default_rng(0).normal(size=(30, 20, 6))
MANY = np.random.default_rng(1).random(100_000)
SHORT = 20e-3
"""Seconds that the loop may take where it is handed on: it takes many more."""


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """As in a process that has not loaded what plans; ``begin()`` is another one."""

    def begin():
        clear()
        monkeypatch.setattr(unplanned, "_PLANS", "not loaded")
        monkeypatch.setattr(unplanned, "_loops", Budget(0.0))
        monkeypatch.setattr(python, "_call", None)

    begin()
    with LIMITS.set(first_loops=60.0):
        yield begin


@pytest.fixture
def planned(monkeypatch):
    """What was planned: how many results of the loop were known by then."""
    found, decide = [], python_functions.decide

    def noted(what, **how):
        begun = how.get("begun")
        found.append(None if begun is None else len(begun.results))
        return decide(what, **how)

    monkeypatch.setattr(python_functions, "decide", noted)
    return found


def spin(part=1):
    """A slow call, or a part of one: no loop of Python's."""
    np.sort(MANY[: len(MANY) // part])


def counting(slow_from=None):
    """A function that notes what it is called with, and is slow from some call on."""
    seen = []

    def f(v):
        seen.append(float(np.sum(v)))
        if slow_from is not None and len(seen) > slow_from:
            spin()
        return np.sum(v) + len(seen)

    return f, seen


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_loop_that_ends_is_all_that_runs(planned, axis):
    (f, seen), (g, wanted) = counting(), counting()
    got = xpapply.apply_along_axis(f, axis, ARR)
    np.testing.assert_array_equal(got, np.apply_along_axis(g, axis, ARR))
    assert seen == wanted
    assert planned == []
    assert [type(x) for x in cache_of(f)[0].traced.values()] == [Quick]


@pytest.mark.parametrize("axis", [0, 2])
def test_calls_are_made_once_where_the_loop_is_handed_on(planned, axis):
    (f, seen), (g, wanted) = counting(20), counting()
    with LIMITS.set(first_loops=SHORT, plan_worth=SHORT):
        got = xpapply.apply_along_axis(f, axis, ARR)
    np.testing.assert_array_equal(got, np.apply_along_axis(g, axis, ARR))
    assert seen == wanted
    assert len(planned) == 1
    assert planned[0] > 20


def test_a_loop_that_is_long_is_known_to_be_by_its_first_calls(planned):
    (f, seen), (g, wanted) = counting(0), counting()
    with LIMITS.set(first_loops=SHORT):
        got = xpapply.apply_along_axis(f, 2, ARR)
    np.testing.assert_array_equal(got, np.apply_along_axis(g, 2, ARR))
    assert seen == wanted
    assert planned[0] <= 2


@pytest.mark.parametrize("signature", [None, "(n)->()"])
@pytest.mark.parametrize("slow_from", [None, 0, 300])
def test_vectorize(planned, signature, slow_from):
    (f, seen), (g, wanted) = counting(slow_from), counting()
    arr = ARR[..., 0] if signature is None else ARR
    with LIMITS.set(first_loops=SHORT, plan_worth=SHORT):
        if slow_from is None:
            LIMITS.first_loops = 60.0
        got = xpapply.vectorize(f, signature=signature)(arr)
    np.testing.assert_array_equal(got, np.vectorize(g, signature=signature)(arr))
    assert seen == wanted
    assert len(planned) == (slow_from is not None)


@pytest.mark.parametrize("limit", [60.0, 1e-9])
def test_several_arrays_and_arguments(planned, limit):
    def f(a, b, *, scale):
        best = 0.0
        for x, y in zip(a, b, strict=True):
            best = max(best, scale * abs(x - y))
        return best, np.array([best, a[0]])

    x, y = ARR, ARR[::-1]
    how = {"signature": "(n),(n)->(),(m)", "excluded": {"scale"}}
    with LIMITS.set(first_loops=limit, plan_worth=0.0, typed_worth=0.0):
        got = xpapply.vectorize(f, **how)(x, y, scale=2.0)
    for mine, numpys in zip(got, np.vectorize(f, **how)(x, y, scale=2.0), strict=True):
        np.testing.assert_array_equal(mine, numpys)
    assert len(planned) == (limit < 1)


@pytest.mark.parametrize("slow_from", [None, 40])
def test_what_is_written_into_slices(planned, slow_from):
    def written(slow):
        calls = []

        def f(v):
            calls.append(1)
            v += len(calls)
            if slow is not None and len(calls) > slow:
                spin()
            return v  # which is the slice itself

        return f

    mine, numpys = ARR.copy(), ARR.copy()
    with LIMITS.set(first_loops=60.0 if slow_from is None else SHORT, plan_worth=SHORT):
        got = xpapply.apply_along_axis(written(slow_from), 1, mine)
    np.testing.assert_array_equal(got, np.apply_along_axis(written(None), 1, numpys))
    np.testing.assert_array_equal(mine, numpys)
    assert len(planned) == (slow_from is not None)


BUFFER = np.zeros(3)
RESULTS = {
    "list": lambda v: [v[0], 2],
    "tuple": lambda v: (v[0], v[1]),
    "array": lambda v: v[::-1],
    "one buffer": lambda v: np.add(v[:3], 1.0, out=BUFFER),
    "text": lambda v: "ab" if v[0] > 0 else "c",
    "int, then float": lambda v: 1 if v[0] > 0 else 0.5,
    "masked": lambda v: np.ma.masked_less(v, 0.0),
    "matrix": lambda v: np.matrix(v),
    "object": lambda v: {"a": 1},
}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("limit", [60.0, 1e-9])
@pytest.mark.parametrize("name", RESULTS)
def test_results_of_all_kinds(name, limit):
    f = RESULTS[name]
    with LIMITS.set(first_loops=limit, plan_worth=0.0), xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, ARR)
    wanted = np.apply_along_axis(f, -1, ARR)
    assert type(got) is type(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_results_that_are_large_are_not_kept(planned):
    (f, seen), (g, wanted) = counting(), counting()
    wide = lambda f: lambda v: np.full(1000, f(v))  # noqa: E731
    with LIMITS.set(begun_bytes=50_000):
        got = xpapply.apply_along_axis(wide(f), 2, ARR)
    np.testing.assert_array_equal(got, np.apply_along_axis(wide(g), 2, ARR))
    assert seen == wanted
    assert len(planned) == 1
    assert planned[0] < 20


class Sudden(Exception):
    pass


def raised_by(call):
    with pytest.raises(Sudden) as found:
        call()
    return found.value.__notes__, found.value.__context__, found.value.__cause__


@pytest.mark.parametrize("at", [0, 3, 200, 599])
@pytest.mark.parametrize("vectorized", [False, True])
def test_exceptions(nothing_loaded, at, vectorized):
    def sudden():
        calls = []

        def f(v):
            calls.append(1)
            if len(calls) > at:
                raise Sudden
            return v[0]

        if vectorized:
            return xpapply.vectorize(f, signature="(n)->()")(ARR)
        return xpapply.apply_along_axis(f, 2, ARR)

    found = raised_by(sudden)
    nothing_loaded()
    with LIMITS.set(first_loops=0.0):
        assert found == raised_by(sudden)
    assert found[1:] == (None, None)
    assert "arr[" in found[0][0] or vectorized


def test_warnings_are_those_of_the_loop():
    def f(v):
        return np.log(v[0]) if v[1] > 0 else np.sqrt(v[2])

    def told(apply):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            apply(f, -1, ARR)
        return [str(w.message) for w in found]

    assert told(xpapply.apply_along_axis) == told(np.apply_along_axis)


def test_who_wants_no_loop_gets_none(planned):
    f, seen = counting()
    with xpapply.options(fallback="raise"), pytest.raises(UnsupportedError):
        xpapply.apply_along_axis(f, 1, ARR)
    assert seen == []
    with xpapply.options(engine="numpy"):
        xpapply.apply_along_axis(lambda v: v.max() - v.min(), 1, ARR)
    assert len(planned) > 1


def test_loops_of_all_functions_count(planned):
    def f(v):
        spin(10)
        return v[0]

    def g(v):
        spin(10)
        return v[1]

    with LIMITS.set(plan_worth=0.0):
        xpapply.apply_along_axis(f, -1, ARR)
        LIMITS.first_loops = unplanned._loops.spent
        assert planned == []
        xpapply.apply_along_axis(g, -1, ARR)
    assert len(planned) == 1


def test_functions_with_loops_wait_for_what_compiling_takes(planned):
    def f(v):
        for _ in v:
            spin(100)
        return v[0]

    with LIMITS.set(first_loops=1e-6, typed_compiling=1e3, plan_worth=0.0):
        xpapply.apply_along_axis(f, -1, ARR)
        assert planned == []
        with xpapply.options(compile=False, fallback="silent"):
            xpapply.apply_along_axis(f, -1, ARR)
    assert len(planned) == 1


def test_what_loops_have_taken_is_known_when_it_is_planned(monkeypatch):
    def f(v):
        s = 0.0
        for x in v:
            s += x * x
        return s

    with LIMITS.set(plan_worth=0.0):
        xpapply.apply_along_axis(f, -1, ARR)
    (quick,) = cache_of(f)[0].traced.values()
    known = []
    compiled = python_functions._compiled
    monkeypatch.setattr(
        python_functions, "_compiled", lambda *given: known.append(given[6]) or compiled(*given)
    )
    with LIMITS.set(first_loops=0.0, plan_worth=0.0), xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, ARR)
    assert known[0] == quick.spent > 0


def test_methods_and_other_objects_are_looked_at(planned):
    class Model:
        def predict(self, rows):
            if rows.ndim != 2:
                raise ValueError("Expected 2D array")
            return rows.sum(1)

    got = xpapply.apply_along_axis(Model().predict, -1, ARR)
    np.testing.assert_allclose(got, ARR.sum(-1))
    assert planned


def test_a_loop_that_is_compiled_waits_with_its_trace(monkeypatch):
    """Which might do better, and has to be loaded."""
    pytest.importorskip("llvmlite")

    def f(x):
        y = x
        for k in range(12):
            y = y * 0.5 + k * x
        return y

    x = np.linspace(0.0, 1.0, 3000)
    wanted, traced, trace = np.vectorize(f)(x), [], python_functions._trace
    monkeypatch.setattr(python_functions, "_trace", lambda *a: traced.append(1) or trace(*a))
    monkeypatch.setattr(from_source, "_TRACES", "not loaded")
    limits = {"first_loops": 1e-9, "plan_worth": 0.0, "typed_worth": 0.0}
    with LIMITS.set(**limits), xpapply.options(fallback="silent"):
        for _ in range(2):
            assert traced == []
            np.testing.assert_array_equal(xpapply.vectorize(f)(x), wanted)
            kept = cache_of(f)[0].traced
            assert TypedLoop in {type(found) for found in kept.values()}
    assert traced == [1]
