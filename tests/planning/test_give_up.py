"""When the loop runs what could run at once: few slices, fast functions, ways that are given up.

conftest switches these limits off for all other tests. Here they are set to what makes each
decide, so that no test depends on the time that anything takes.
"""

import cmath
import itertools
import math
import types
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.stats

import xpapply
from xpapply import config
from xpapply.frontends.python.run import account, in_blocks, record
from xpapply.functions import cache
from xpapply.functions.cache import cache_of
from xpapply.limits import LIMITS
from xpapply.loop import begun, reference
from xpapply.planning.python import python_functions, running, several_arrays
from xpapply.planning.python.traced import TracedFunction

pytestmark = pytest.mark.usefixtures("by_trace")

RNG = np.random.default_rng(0)
ARR = RNG.random((200, 6))
SLOWER, AT_LEAST = LIMITS.given_up_from, LIMITS.paths_at_least
"""As they are without conftest."""


class Counted:
    """A function, and how often `apply_along_axis` calls it for a real slice."""

    def __init__(self, f):
        self.f, self.calls = f, 0
        of_library = reference.of_library

        def counting(g, axis, arr, *given):
            self.calls += arr.size // arr.shape[axis]
            return of_library(g, axis, arr, *given)

        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(reference, "of_library", counting)


@pytest.fixture
def counted():
    """How many slices the loop has run."""
    found = Counted(None)
    yield found
    found.patch.undo()


NUMBERS = itertools.count()


def spread(v, _=None):
    return (v - v.mean()).max()


def fresh(f=spread):
    """A function that does the same as `f`, of which nothing is known."""
    cache._families.pop(f.__code__, None)  # others with the same code count for it as well
    return types.FunctionType(f.__code__, globals(), argdefs=(next(NUMBERS),))


def clock(monkeypatch, step):
    """Clocks for the planner that go on by `step` seconds each time they are looked at."""
    ticks = iter(range(10**9))
    tick = lambda: step * next(ticks)  # noqa: E731
    monkeypatch.setattr(begun, "time", types.SimpleNamespace(perf_counter=tick))
    # whether there is still time is never asked
    fake = types.SimpleNamespace(perf_counter=lambda: 0.0, process_time=tick, thread_time=tick)
    monkeypatch.setattr(account, "time", fake)


def trace_of(f):
    """What is remembered of the only trace of `f`."""
    (found,) = python_functions.cache_of(f)[0].traced.values()
    return found


def slow_from_now_on(monkeypatch):
    monkeypatch.setattr(LIMITS, "given_up_from", 0.0)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)


# --- few slices, fast functions ---------------------------------------------------------


@pytest.mark.parametrize(("slices", "engine"), [(2, "loop"), (16, "loop"), (17, "numpy")])
def test_few_slices_run_in_the_loop(monkeypatch, counted, slices, engine):
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    f, arr = fresh(), ARR[:slices]
    plan = xpapply.explain(f, -1, arr)
    assert plan.engine == engine
    assert plan.vectorized == (engine != "loop")
    assert plan.out_shape == (slices,)
    if engine == "loop":
        assert "up to 16 slices" in str(plan)
    xpapply.apply_along_axis(f, -1, arr)
    assert counted.calls == (slices if engine == "loop" else 0)


def test_explain_says_what_a_refused_call_found():
    """With fallback="raise" nothing runs, and explain knows no less of it."""
    f = lambda v: "".join(map(str, v))  # noqa: E731
    arr = np.random.default_rng(0).integers(0, 10, (20_000, 8))
    for _ in range(2):
        with (
            xpapply.options(fallback="raise"),
            pytest.raises(xpapply.UnsupportedError, match="ways"),
        ):
            xpapply.apply_along_axis(f, -1, arr)
        plan = xpapply.explain(f, -1, arr)
        assert (plan.engine, plan.vectorized) == ("loop", False)
        assert "too many ways" in str(plan)


def test_explain_says_loop_while_slices_go_new_ways(monkeypatch):
    """A call gave up, and the few slices that `explain` tries go ways that it did not find."""
    f = lambda v: "".join(map(str, v))  # noqa: E731
    arr = np.random.default_rng(0).integers(0, 10, (3000, 8))
    with monkeypatch.context() as few, xpapply.options(fallback="silent"):
        few.setattr(LIMITS, "paths", 5)
        xpapply.apply_along_axis(f, -1, arr)
    monkeypatch.setattr(LIMITS, "path_sample", 20)
    for _ in range(2):
        plan = xpapply.explain(f, -1, arr)
        assert (plan.engine, plan.vectorized) == ("loop", False)
        assert "too many ways" in str(plan)


def test_what_takes_no_time_runs_in_the_loop(monkeypatch, counted):
    monkeypatch.setattr(LIMITS, "loops_per_plan", 0)  # each call is decided anew
    f = fresh()
    xpapply.explain(f, -1, ARR)
    monkeypatch.setattr(LIMITS, "blocks_run", 1e9)
    plan = xpapply.explain(f, -1, ARR)
    assert plan.engine == "loop"
    assert "200 slices take less time in the loop" in plan.reasons[0]
    xpapply.apply_along_axis(f, -1, ARR)
    assert counted.calls == 200
    monkeypatch.setattr(LIMITS, "blocks_run", 0.0)
    assert xpapply.explain(f, -1, ARR).engine == "numpy"
    xpapply.apply_along_axis(f, -1, ARR)
    assert counted.calls == 200


@pytest.mark.parametrize(("seconds", "looped"), [(0.9e-5, 200), (1.1e-5, 0)])
def test_a_plan_is_made_from_2_ms_in_the_loop_on(monkeypatch, counted, seconds, looped):
    clock(monkeypatch, seconds)
    monkeypatch.setattr(LIMITS, "loop_turn", 0.0)
    xpapply.apply_along_axis(fresh(), -1, ARR)
    assert counted.calls == looped


def test_overhead_grows_with_the_calls(monkeypatch):
    monkeypatch.setattr(LIMITS, "blocks_call", 1.0)
    monkeypatch.setattr(LIMITS, "blocks_run", 0.5)
    f = fresh()
    xpapply.explain(f, -1, ARR)
    assert trace_of(f).overhead == 0.5 + 3


@pytest.mark.parametrize(("overhead", "engine"), [(0.39, "numpy"), (0.41, "loop")])
def test_what_the_loop_takes_is_that_of_all_slices(monkeypatch, overhead, engine):
    f = fresh()
    xpapply.explain(f, -1, ARR)
    found = trace_of(f)
    found.blocks.seconds = 0.002
    monkeypatch.setattr(LIMITS, "blocks_run", overhead)
    plan = xpapply.explain(f, -1, ARR)
    assert plan.engine == engine
    assert ("200 slices take less time in the loop, about 4e+02 ms" in str(plan)) == (
        engine == "loop"
    )


def test_explain_and_apply_decide_the_same_for_arguments_that_are_not_remembered(
    monkeypatch, counted
):
    unhashable = {"weights": np.ones(6)}  # a dict is not a key of the memory
    f = lambda v, how: (v * how["weights"]).sum()  # noqa: E731
    for limit in (1e9, 0.0):
        counted.calls = 0
        monkeypatch.setattr(LIMITS, "plan_worth", limit)
        plan = xpapply.explain(f, -1, ARR, unhashable)
        xpapply.apply_along_axis(f, -1, ARR, unhashable)
        assert plan.engine == ("loop" if limit else "numpy")
        assert counted.calls == (200 if limit else 0)


def test_a_forced_engine_has_no_limits(counted):
    with xpapply.options(engine="numpy"):
        assert xpapply.explain(spread, -1, ARR[:2]).engine == "numpy"
        xpapply.apply_along_axis(spread, -1, ARR[:2])
    assert counted.calls == 0


def test_no_slices():
    for f in (spread, xpapply.MLP([np.ones((2, 6))])):
        for call in (xpapply.explain, xpapply.apply_along_axis):
            with pytest.raises(ValueError, match="iteration dimensions are 0"):
                call(f, -1, np.zeros((0, 6)))
        plan = xpapply.compile(f, (6,), "float64")
        for engine in ("", "numpy", "array_api"):
            with xpapply.options(engine=engine):
                for shape in ((0, 6), (3, 0, 6)):
                    out = plan(np.zeros(shape))
                    assert out.shape == (*shape[:-1], *plan.result.shape)
                    assert out.dtype == plan.result.dtype


# --- ways that are given up -------------------------------------------------------------


def test_two_slow_runs_one_after_the_other_end_in_the_loop(monkeypatch, counted):
    f = fresh()
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    plan = xpapply.explain(f, -1, ARR)
    want = xpapply.apply_along_axis(f, -1, ARR)
    monkeypatch.setattr(LIMITS, "given_up_from", 0.0)
    xpapply.apply_along_axis(f, -1, ARR)
    monkeypatch.setattr(LIMITS, "given_up_from", 1e9)
    xpapply.apply_along_axis(f, -1, ARR)  # one that is not slow in between
    monkeypatch.setattr(LIMITS, "given_up_from", 0.0)
    xpapply.apply_along_axis(f, -1, ARR)
    assert plan.engine == "numpy"
    xpapply.apply_along_axis(f, -1, ARR)
    assert plan.engine == xpapply.explain(f, -1, ARR).engine == "loop"
    assert not plan.vectorized
    assert counted.calls == 0
    for p in (plan, xpapply.explain(f, -1, ARR)):
        assert p.reasons == ("all at once it takes longer than the loop",)
        assert "one call per slice" in str(p)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, ARR), want)
    np.testing.assert_array_equal(plan(ARR), want)
    assert counted.calls == 400


def test_what_took_longer_than_the_loop_is_the_loops_for_so_many_slices(monkeypatch, counted):
    monkeypatch.setattr(LIMITS, "loops_per_plan", 0)  # each call is decided anew
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "run_tells", 1.0)
    monkeypatch.setattr(LIMITS, "loops_per_run", 20.0)
    f = fresh()
    xpapply.apply_along_axis(f, -1, ARR)
    found = trace_of(f)
    found.record.runs = 3  # the second one alone tells nothing
    for seconds, looped in ((1e-2, 0), (1e-6, 200), (1e-2, 200)):
        found.record._least = {len(ARR).bit_length(): 1e-3}  # runs are noted when they end
        found.blocks.seconds = seconds
        xpapply.apply_along_axis(f, -1, ARR)
        assert counted.calls == looped
    found.blocks.seconds = 1e-6
    xpapply.apply_along_axis(f, -1, np.resize(ARR, (20_000, 6)))  # of more it is not known
    assert counted.calls == 200


@pytest.mark.usefixtures("counted")
def test_what_is_slow_runs_on_an_engine_that_is_asked_for(monkeypatch):
    f = fresh()
    want = np.apply_along_axis(f, -1, ARR)
    slow_from_now_on(monkeypatch)
    with xpapply.options(fallback="silent"):
        for _ in range(3):
            xpapply.apply_along_axis(f, -1, ARR)
    assert xpapply.explain(f, -1, ARR).engine == "loop"
    with xpapply.options(engine="numpy"):
        assert xpapply.explain(f, -1, ARR).engine == "numpy"
        np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARR), want)


def test_runs_that_find_paths_are_not_called_slow(monkeypatch):
    def f(v):
        return v.sum() if v[0] > 0.5 else -v.max()

    slow_from_now_on(monkeypatch)
    arr = ARR.copy()
    arr[:, 0] = 1
    xpapply.apply_along_axis(f, -1, arr)
    found = trace_of(f)
    assert found.record.slow == 1
    xpapply.apply_along_axis(f, -1, ARR)
    assert found.record.slow == 1
    assert not found.record.refused


def many_ways(v, _=None):
    total = 0.0
    for x in v:
        if x > 0.5:
            total += x
    return total


@pytest.fixture
def few_paths(monkeypatch):

    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "paths", 5)
    monkeypatch.setattr(LIMITS, "paths", 5)


def test_too_many_paths_are_tried_three_times(few_paths, counted):
    f = fresh(many_ways)
    plan = xpapply.explain(f, -1, ARR)
    with xpapply.options(fallback="silent"):
        for k in range(1, 6):
            assert plan.engine == "loop"
            assert "too many ways" in plan.reasons[0]
            got = xpapply.apply_along_axis(f, -1, ARR)
            assert counted.calls == 200 * k
            if k < 4:
                assert "the last call ran in the loop" in xpapply.explain(f, -1, ARR).reasons[0]
    np.testing.assert_allclose(got, [many_ways(v) for v in ARR])
    assert "too many ways" in plan.reasons[0]
    assert xpapply.explain(f, -1, ARR).reasons == plan.reasons


def test_the_loop_takes_as_long_as_a_run_in_vain_before_the_next(few_paths, counted, monkeypatch):
    monkeypatch.setattr(LIMITS, "loops_per_run", 1.0)
    runs, run = [], TracedFunction.__call__
    monkeypatch.setattr(TracedFunction, "__call__", lambda *given: (runs.append(1), run(*given))[1])
    f = fresh(many_ways)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, ARR)
        found = trace_of(f)
        loops = found.record.loops
        assert loops.limit > 0
        loops.limit, loops.spent = 1e9, 0.0
        for _ in range(5):
            got = xpapply.apply_along_axis(f, -1, ARR)
            p = xpapply.explain(f, -1, ARR)
            assert p.engine == "loop"
            assert "too many ways" in p.reasons[0]
        assert len(runs) == 1
        assert loops.spent > 0
        np.testing.assert_allclose(got, [many_ways(v) for v in ARR])
        loops.limit = loops.spent
        xpapply.apply_along_axis(f, -1, ARR)
        assert len(runs) == 2


def test_loops_with_no_further_look_count_as_rest(few_paths, monkeypatch):
    """Those of `vectorize`: the next run would come ever so much later."""
    monkeypatch.setattr(LIMITS, "loops_per_run", 1.0)
    runs, run = [], TracedFunction.__call__
    monkeypatch.setattr(TracedFunction, "__call__", lambda *given: (runs.append(1), run(*given))[1])
    v = xpapply.vectorize(fresh(many_ways), signature="(n)->()")
    short, straight = [], v._straight
    v._straight = lambda *given: (short.append(1), straight(*given))[1]
    with xpapply.options(fallback="silent"):
        v(ARR)
        assert len(runs) == 1
        found = trace_of(v.pyfunc).record
        found.loops.limit, found.loops.spent = 1e9, 0.0
        for _ in range(3):
            v(ARR)
        assert len(short) == 3
        assert len(runs) == 1
        assert found.loops.spent > 0


def test_what_other_threads_run_meanwhile_does_not_decide(few_paths, counted, monkeypatch):
    """A run that finds too many paths counts as one, whatever the last run of all threads was."""
    timed = running._timed

    def meanwhile(record, *given):
        result = timed(record, *given)
        record.lost = False  # one that found none, in another thread
        return result

    monkeypatch.setattr(running, "_timed", meanwhile)
    f = fresh(many_ways)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, ARR)
    assert trace_of(f).record.given_up == 1
    assert not trace_of(f).record.refused


def test_no_kernel_is_made_of_paths_that_are_not_all(few_paths, counted, monkeypatch):
    pytest.importorskip("llvmlite")
    from xpapply.planning.python.kernel_of_paths import KernelOfPaths

    made, as_graphs = [], KernelOfPaths._as_graphs
    monkeypatch.setattr(
        KernelOfPaths, "_as_graphs", lambda self: (made.append(1), as_graphs(self))[1]
    )
    f = fresh(many_ways)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, ARR)
        before = len(made)
        for _ in range(2):
            xpapply.apply_along_axis(f, -1, ARR)
    assert trace_of(f).record.given_up == 3
    assert len(made) == before


def catches(v):
    try:
        return 1 / int(v[0] > 0.5)
    except ZeroDivisionError:
        return -1


@pytest.mark.usefixtures("plan_always")
def test_finding_what_raises_is_not_called_ways():
    f = fresh(catches)
    xpapply.apply_along_axis(f, -1, ARR)
    why = trace_of(f).tree.too_many_in_time
    assert why.startswith("it raises ZeroDivisionError: division by zero (test_give_up.py:")
    assert why.endswith("for some slices, and to find out for which takes longer than the loop")


@pytest.mark.usefixtures("plan_always")
def test_the_loop_is_timed_by_the_calls_that_are_made_anyway():
    """The first call takes long; so many others tell better what the loop takes."""
    f = fresh(catches)
    arr = np.tile(ARR, (20, 1))
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, arr)
    found = trace_of(f)
    assert found.blocks.looped > 1000
    found.blocks.seconds = 1.0
    xpapply.apply_along_axis(f, -1, arr)
    assert found.seconds < 0.01


@pytest.mark.usefixtures("plan_always")
@pytest.mark.parametrize("place", [0, 1, 2, 3, 100, 139, 199])
def test_traced_on_a_slice_that_does_not_raise(place):
    """Wherever there are some."""

    def f(v):
        try:
            return v[np.nonzero(v > 2)[0][0]]
        except IndexError:
            return np.nan

    arr = ARR.copy()
    arr[place // 2 :: 2] += 2 * (ARR[place // 2 :: 2] > 0.3)
    p = xpapply.explain(f, -1, arr)
    assert p.engine == "numpy", p
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(f, -1, arr), np.apply_along_axis(f, -1, arr)
    )


@pytest.mark.usefixtures("plan_always")
def test_what_raises_for_all_slices_that_are_tried():
    def f(v):
        try:
            return v[np.nonzero(v > 2)[0][0]]
        except IndexError:
            return np.nan

    p = xpapply.explain(f, -1, ARR)
    assert p.engine == "loop"
    assert p.reasons[0].startswith("for each slice that was tried it raises IndexError: ")


def seldom_another_way(v):
    if v[0] < 0.9:
        return v.sum()
    total = 0.0
    for x in v[1:]:
        if x > 0.5:
            total += x
    return total


@pytest.mark.parametrize("engine", ["", "cpu"])
def test_few_slices_on_ways_that_are_not_known_are_left_to_f(few_paths, engine):
    if engine:
        pytest.importorskip("llvmlite")
    calls = 0

    def f(v):
        if v.max() < 0.99:
            return v.sum()
        nonlocal calls
        calls += 1  # seen by nobody that traces
        return v[0]

    for g in (fresh(seldom_another_way), f):
        arr, calls = np.random.default_rng(2).random((2000, 6)), 0
        arr[0] = 0.25
        if g is f:
            arr[5::20, 2] = 2
        want = np.apply_along_axis(g, -1, arr)
        counted, calls = calls, 0
        with xpapply.options(fallback="silent"):
            for k in range(1, 4):
                got = xpapply.apply_along_axis(g, -1, arr)
                np.testing.assert_allclose(got, want)
                assert calls == k * counted
        assert g is f or not trace_of(g).record.given_up


def raise_often(v):
    try:
        return np.nanargmax(v) if v[1] > 0.5 else max(v[v > 0.9].tolist())
    except ValueError:
        return -1


def several_ways(v):
    return v.sum() if v[0] > v[1] else v.max() if v[2] > 0.5 else v.min()


def tells(v):
    if v[0] > 0.9:
        print(end="")
    return v.sum()


@pytest.mark.parametrize("f", [many_ways, raise_often, several_ways, tells, np.median])
def test_explain_says_before_the_first_call_what_runs(few_paths, f):
    """As far as some of the slices tell."""
    arr = np.random.default_rng(3).random((3000, 24))
    arr[5::3, :], arr[0, 0] = np.nan if f is raise_often else 0.3, 0.1
    f = fresh(f) if f is not np.median else f
    told = xpapply.explain(f, -1, arr)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        xpapply.apply_along_axis(f, -1, arr)
    looped = any(w.category is xpapply.FallbackWarning for w in seen)
    assert told.vectorized != looped, str(told)


def test_a_kernel_that_is_no_more_is_not_told_of(monkeypatch):
    """It was of the first slice's path alone; others decide by what no kernel can."""
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(LIMITS, "slices_compiling", 0.0)  # worth it at once

    def f(v):
        return v.sum() if v.max() < 2 else np.sort(v)[:3].sum() + np.unique(v).sum()

    x = np.random.default_rng(0).random((4000, 8))
    xpapply.apply_along_axis(f, -1, x)
    assert xpapply.explain(f, -1, x).kernels[0].startswith("one kernel")
    x[1::3] *= 5
    xpapply.apply_along_axis(f, -1, x)
    xpapply.apply_along_axis(f, -1, x)
    assert xpapply.explain(f, -1, x).kernels[0].startswith("in blocks of slices")


def test_how_long_new_paths_are_looked_for(monkeypatch, little_time):
    monkeypatch.setattr(LIMITS, "python_block", 1 << 12)
    f = fresh(many_ways)
    want = [many_ways(v) for v in ARR]
    with xpapply.options(fallback="silent"):
        np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARR), want)
        found = trace_of(f)
        assert found.blocks.looped > 150
        assert found.record.given_up == found.tree.count == 1
        found.record.saved = 1e9  # by other calls: there is time
        np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARR), want)
    assert found.tree.count > 10


@pytest.mark.parametrize(("took", "slow"), [(0.241, 0), (0.243, 1)])
def test_slow_is_a_fifth_more_than_the_loop_takes_and_a_plan(monkeypatch, took, slow):
    f = fresh()
    with monkeypatch.context() as patch:
        patch.setattr(LIMITS, "plan_worth", 0.0)
        xpapply.explain(f, -1, ARR)
    found = trace_of(f)
    found.blocks.seconds = 1e-3  # 200 slices: 1.2 * 0.2 s + 2 ms
    monkeypatch.setattr(LIMITS, "given_up_from", SLOWER)
    clock(monkeypatch, took)
    xpapply.apply_along_axis(f, -1, ARR)
    assert found.record.slow == slow


@pytest.mark.parametrize(("threads", "slow"), [(0, 1), (1, 0)])
def test_what_other_threads_do_does_not_count_where_one_does_all(monkeypatch, threads, slow):
    """As in the tasks of dask, which runs as many at once as there are threads."""
    f = fresh()
    with monkeypatch.context() as patch:
        patch.setattr(LIMITS, "plan_worth", 0.0)
        xpapply.explain(f, -1, ARR)
    found = trace_of(f)
    found.blocks.seconds = 1e-3
    monkeypatch.setattr(LIMITS, "given_up_from", SLOWER)
    clock(monkeypatch, 0.3)
    monkeypatch.setattr(account.time, "thread_time", lambda: 0.0)
    with xpapply.options(threads=threads):
        xpapply.apply_along_axis(f, -1, ARR)
    assert found.record.slow == slow


def test_an_engine_that_was_asked_for_is_not_given_up(monkeypatch, counted):
    f = fresh()
    slow_from_now_on(monkeypatch)
    with xpapply.options(engine="numpy"):
        for _ in range(3):
            xpapply.apply_along_axis(f, -1, ARR)
    found = trace_of(f)
    assert found.record.slow == 0
    assert not found.record.refused
    assert counted.calls == 0


def two_ways(v, _=None):
    return v.sum() if v[0] > 0.5 else -v.max()


@pytest.fixture
def little_time(monkeypatch):
    """No call may cost more than the loop, but for what was saved."""
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "first_call", 0.0)
    monkeypatch.setattr(LIMITS, "first_call_share", 0.0)
    monkeypatch.setattr(LIMITS, "planning_share", math.inf)
    monkeypatch.setattr(LIMITS, "lent", 0.0)


@pytest.fixture
def of_two_ways(monkeypatch):
    """A function of whose two ways one is known, and what is known; 1 ms for each slice."""
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "paths_at_least", AT_LEAST)
    f, arr = fresh(two_ways), ARR.copy()
    arr[:, 0] = 1
    xpapply.apply_along_axis(f, -1, arr)
    found = trace_of(f)
    found.blocks.seconds = 1e-3
    with xpapply.options(fallback="silent"):
        yield f, found


@pytest.mark.parametrize("spent", [0.0, 1e9])
def test_ways_are_looked_for_as_long_as_the_account_allows(of_two_ways, little_time, spent):
    f, found = of_two_ways
    found.record.saved, found.blocks._tracing.seconds = 10.0, spent
    arr = ARR.copy()
    arr[:, 0] *= 0.4  # all go the other way
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, arr), [f(v) for v in arr])
    assert found.blocks.looped == (200 if spent else 0)
    assert found.tree.count == (1 if spent else 2)


@pytest.mark.usefixtures("little_time")
def test_what_costs_more_than_it_saves_is_left_to_f_once(of_two_ways, monkeypatch):
    """In the middle of a run: what is there stays, and f is called for each of the others."""
    f, found = of_two_ways
    xpapply.apply_along_axis(f, -1, ARR)
    asked = iter(range(10**9))
    monkeypatch.setattr(account.Account, "is_overdrawn", property(lambda self: next(asked) >= 25))
    monkeypatch.setattr(LIMITS, "python_block", 1 << 8)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARR), [f(v) for v in ARR])
    assert 0 < found.blocks.looped < 200


@pytest.mark.parametrize(("seconds", "singly"), [(1e-3, 0), (1e-6, 1)])
def test_a_way_of_few_slices_runs_slice_by_slice_if_that_is_quicker(of_two_ways, seconds, singly):
    f, found = of_two_ways
    xpapply.apply_along_axis(f, -1, ARR)
    found.blocks.seconds = seconds
    arr = ARR.copy()
    arr[:, 0] = 1
    arr[100, 0] = 0
    got = xpapply.apply_along_axis(f, -1, arr)
    np.testing.assert_allclose(got, [f(v) for v in arr])
    assert found.blocks.looped == singly


def test_calls_that_raise_for_a_block_only_are_not_tried_again(monkeypatch, counted):
    def broken(*args):
        raise ValueError("not for blocks")

    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    f = fresh()
    plan = xpapply.explain(f, -1, ARR)
    monkeypatch.setattr(TracedFunction, "__call__", broken)
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, ARR)
    np.testing.assert_array_equal(got, [f(v) for v in ARR])
    assert plan.engine == "loop"
    assert "raises ValueError: not for blocks" in plan.reasons[0]


def test_what_f_raises_itself_leaves_its_plan(monkeypatch, counted):
    """A slice that it is not made for, once, does not make the calls after it slow."""

    def f(v):
        if v[0] < 0:
            raise ValueError(f"{v[0]} is negative")
        return np.linalg.cholesky(np.outer(v, v) + v[1] * np.eye(6))[0, 0]

    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    arr = np.abs(ARR) + 0.1
    plan = xpapply.explain(f, -1, arr)
    for k, error in enumerate((ValueError, np.linalg.LinAlgError)):
        bad = arr.copy()
        bad[100, k] = -100
        with pytest.raises(error):
            xpapply.apply_along_axis(f, -1, bad)
        assert plan.engine == xpapply.explain(f, -1, arr).engine == "numpy"


# --- fallback="raise": before the work ----------------------------------------------------


def untraceable(v):
    return float(np.frompyfunc(str, 1, 1)(v)[0])


@pytest.mark.parametrize("slices", [2, 20, 2000])
def test_raise_where_only_the_loop_is_left(counted, slices):
    with (
        xpapply.options(fallback="raise"),
        pytest.raises(xpapply.UnsupportedError, match="slice by slice"),
    ):
        xpapply.apply_along_axis(untraceable, -1, RNG.random((slices, 6)))
    assert counted.calls == 0
    with xpapply.options(fallback="raise"):
        xpapply.apply_along_axis(untraceable, -1, ARR[0])  # one slice is one call anyway


def test_raise_after_the_function_was_given_up(monkeypatch, few_paths, counted):
    for f, why in ((fresh(), "takes longer"), (fresh(many_ways), "too many ways")):
        with xpapply.options(fallback="silent"), monkeypatch.context() as patch:
            slow_from_now_on(patch)
            plan = xpapply.explain(f, -1, ARR)
            for _ in range(5):
                xpapply.apply_along_axis(f, -1, ARR)
        before = counted.calls
        for call in (lambda f=f: xpapply.apply_along_axis(f, -1, ARR), lambda p=plan: p(ARR)):
            with (
                xpapply.options(fallback="raise"),
                pytest.raises(xpapply.UnsupportedError, match=why),
            ):
                call()
        assert counted.calls == before


def test_raise_before_the_loop_takes_over(few_paths, counted):
    f = fresh(many_ways)
    with (
        xpapply.options(fallback="raise"),
        pytest.raises(xpapply.UnsupportedError, match="too many ways"),
    ):
        xpapply.apply_along_axis(f, -1, ARR)
    assert counted.calls == 0


def test_raise_keeps_what_f_raises(few_paths):
    def f(v):
        return np.linalg.inv(v.reshape(2, 3)[:, :2])

    arr = ARR.copy()
    arr[150] = 0
    with xpapply.options(fallback="raise"), pytest.raises(np.linalg.LinAlgError):
        xpapply.apply_along_axis(f, -1, arr)


# --- threads ------------------------------------------------------------------------------


@pytest.fixture
def in_threads(monkeypatch):
    """Every block in a worker thread, but the first."""
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "python_threads", 0)
    monkeypatch.setattr(LIMITS, "python_long_call", 0)
    with xpapply.options(threads=2, block_bytes=1000):
        yield


def test_worker_threads_have_the_context_of_the_caller(monkeypatch, in_threads):
    import threading

    seen = []
    call = in_blocks.Executor.__call__

    def noted(self, rows, out, start):
        here = threading.current_thread() is threading.main_thread()
        seen.append((here, np.geterr()["under"], config.current().precision))
        return call(self, rows, out, start)

    monkeypatch.setattr(in_blocks.Executor, "__call__", noted)
    with np.errstate(under="raise"), xpapply.options(precision="medium"):
        xpapply.apply_along_axis(fresh(), -1, ARR)
    assert {here for here, *_ in seen} == {True, False}
    assert {what for _, *what in map(tuple, seen) for what in [tuple(what)]} == {
        ("raise", "medium")
    }


def test_errors_in_worker_threads_are_those_of_the_caller(in_threads):
    arr = ARR.copy()
    arr[-1] = -1
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        xpapply.apply_along_axis(lambda v: np.sqrt(v).sum(), -1, arr)
    with np.errstate(invalid="ignore"):
        got = xpapply.apply_along_axis(lambda v: np.sqrt(v).sum(), -1, arr)
    assert np.isnan(got[-1])


def test_other_blocks_end_when_one_raises(monkeypatch, in_threads):
    ran = []
    call = in_blocks.Executor.__call__

    def fails(self, rows, out, start):
        ran.append(start)
        if len(ran) == 2:
            raise RuntimeError("of one block")
        return call(self, rows, out, start)

    monkeypatch.setattr(in_blocks.Executor, "__call__", fails)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(fresh(), -1, RNG.random((3000, 6)))
    assert len(ran) < 30


# --- memory that two values share -----------------------------------------------------------


@pytest.mark.parametrize("swap", [False, True])
def test_where_into_the_memory_of_an_operand(swap):
    """The buffer of a value that is read for the last time takes the result."""

    def f(v):
        h = v * 2 - 1
        if swap:
            return np.where(h > 0, 0.25, np.exp(h))
        return np.where(h > 0, np.exp(h), 0.25)

    plan = xpapply.compile(f, (6,), "float64")
    with xpapply.options(engine="numpy"):
        np.testing.assert_allclose(plan(ARR), np.apply_along_axis(f, -1, ARR), rtol=1e-14)


def test_numbers_that_take_longer_at_once_are_left_to_the_loop(monkeypatch):
    """Calls of `f` are timed when it is traced: the very first one takes many times as long."""
    timed = []

    def quick(self, rows, f, limit):
        timed.append(limit)
        return 1e-9

    monkeypatch.setattr(in_blocks.InBlocks, "timed", quick)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "given_up_from", SLOWER)

    def f(x, y):
        c = complex(x, y)
        return 1.0 if abs(cmath.exp(c)) > 1 else 0.0

    x = np.linspace(-1, 1, 3000)
    v = xpapply.vectorize(f)
    with xpapply.options(fallback="silent"):
        for _ in range(3):
            np.testing.assert_array_equal(v(x, x), np.vectorize(f)(x, x))
        plan = v.explain(x, x)
    assert len(timed) == 1
    assert plan.engine == "loop"
    assert "takes longer than the loop" in plan.reasons[0]


@pytest.mark.parametrize(("seconds", "times"), [(1e-7, 1), (5e-4, 1), (5e-3, 0)])
def test_slow_functions_are_not_called_to_see_what_they_take(monkeypatch, seconds, times):
    """Of those the first call tells enough."""
    timed = []
    monkeypatch.setattr(in_blocks.InBlocks, "timed", lambda self, *_: timed.append(1) or 1e-9)
    first = in_blocks.InBlocks._first_calls
    monkeypatch.setattr(
        in_blocks.InBlocks, "_first_calls", lambda *given: (first(*given)[0], seconds)
    )
    of_begun = begun.Begun
    monkeypatch.setattr(
        several_arrays, "Begun", lambda results, _, took: of_begun(results, seconds, took)
    )
    xpapply.vectorize(fresh(lambda x, _=None: x * x + 1.0))(ARR)
    assert len(timed) == times


@pytest.mark.usefixtures("plan_always")
@pytest.mark.parametrize("warns_at", [50, 150])
def test_no_warning_comes_of_slices_after_one_that_raises(warns_at):
    def f(v):
        if v[0] > 1.5:
            raise ValueError("too large")
        return v.sum()

    arr = ARR.copy()
    arr[100, 0] = 2
    arr[warns_at, 3:5] = np.inf, -np.inf
    for apply in (np.apply_along_axis, xpapply.apply_along_axis, xpapply.apply_along_axis):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match="too large"):
                apply(f, -1, arr)
        assert [str(w.message) for w in seen] == ["invalid value encountered in reduce"] * (
            warns_at < 100
        )


def test_one_long_way_is_given_up_in_the_seconds_that_are_left(monkeypatch):
    """A single slice that goes 30,000 steps is not traced to its end to find that out."""
    monkeypatch.setattr(LIMITS, "first_call", 0.05)
    monkeypatch.setattr(LIMITS, "first_call_share", 0.0)
    monkeypatch.setattr(LIMITS, "lent", 0.0)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)

    def f(v):
        n, total = int(v[0]), 0.0
        while n > 0:
            total, n = total + v[1], n - 1
        return total

    arr = np.ones((3000, 2))
    arr[2000, 0] = 30_000
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, -1, arr))
    assert len(trace_of(f).tree.calls) < 10_000


def test_slices_with_many_answers_are_left_at_once(monkeypatch):
    """After the time for new ways is over nobody looks for one for each answer that is left."""
    monkeypatch.setattr(LIMITS, "paths", 3)
    asked = []
    grow = in_blocks.InBlocks._grow

    def counting(self, f, v, most):
        asked.append(1)
        return grow(self, f, v, most)

    monkeypatch.setattr(in_blocks.InBlocks, "_grow", counting)
    arr = RNG.integers(0, 2000, (4000, 1))
    f = lambda v: len(str(v[0])) + hash(int(v[0]))  # noqa: E731
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, -1, arr))
    assert len(asked) < 30


def test_blocks_that_would_cost_more_than_may_be_lost_are_not_begun():
    run = account.Account(1000, 1e-6, 1e-3)
    assert not run.spends(500)  # nothing is known yet
    run.noted(10, 1.0)
    assert not run.spends(500)  # the first block finds the ways
    run.noted(10, 1e-3)
    assert run.spends(500)
    assert run.is_spent
    cheap = account.Account(1000, 1e-6, 1e-3)
    for _ in range(2):
        cheap.noted(10, 1e-6)
    assert not cheap.spends(500)


@pytest.mark.parametrize(("each", "given_up"), [(1.2e-6, False), (2.4e-6, True)])
def test_a_loop_that_would_run_for_all_slices_again_must_pay(each, given_up):
    """What is left takes longer than the loop over all of them, or the run goes on."""
    run = account.Account(1000, 1e-6, 60.0)
    run.keeps = False
    for _ in range(2):
        run.noted(100, 100 * each)
    assert not run.spends(100)  # it may lose some more
    run.most = -1.0  # all that may be lost is
    assert run.spends(100) == given_up
    assert run.is_overdrawn == given_up


def steps_of_numbers(x):
    for _ in range(60):
        x = x * 0.75 + 0.25
    return x


def test_planning_of_elements_ends_when_it_has_taken_what_it_may():
    """No call tells what the loop takes: each step that is written down does, at the least."""
    f, x = xpapply.vectorize(steps_of_numbers), RNG.normal(size=1000)
    nothing = {"first_call": 0.0, "process_loading": 0.0, "step_of_numbers": 1e-15}
    with LIMITS.set(**nothing), xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(f(x), np.vectorize(steps_of_numbers)(x))
    (refused,) = cache_of(steps_of_numbers)[0].traced.values()
    assert "longer than it could save" in refused.why
    assert refused.is_slow
    more = {**nothing, "first_call": 0.1, "step_of_numbers": 1.0}
    other = lambda x: steps_of_numbers(x)  # noqa: E731
    with LIMITS.set(**more):
        xpapply.vectorize(other)(x)
    (traced,) = cache_of(other)[0].traced.values()
    assert isinstance(traced, TracedFunction)


def rarely_writes(v, _=None):
    v = v.reshape(-1)
    if v[0] > 0.5:
        return v.max()
    v[2] += 7  # twice would be seen
    return v.min()


@pytest.mark.parametrize("axes", [-1, (-2, -1)])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 30])
@pytest.mark.parametrize("first", [1.0, 0.0])
def test_slices_that_are_left_to_f_are_written_to_once(monkeypatch, axes, after, first):
    """After so many questions the account is overdrawn."""
    asked = itertools.count()
    spent = property(lambda self: next(asked) >= after)
    monkeypatch.setattr(account.Account, "is_overdrawn", spent)
    x = RNG.random((60, 6)) * 0.4
    x[::3] += 1.0
    x[:3] = first
    want = x.copy()
    result = np.apply_along_axis(rarely_writes, -1, want)
    arr = x.copy() if axes == -1 else x.reshape(60, 3, 2).copy()
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(fresh(rarely_writes), axes, arr)
    np.testing.assert_array_equal(got, result)
    np.testing.assert_array_equal(arr.reshape(60, 6), want)


@pytest.fixture
def measured():
    """A record under the numbers that hold for users."""
    with LIMITS.set(lent=0.0, run_tells=1.25, loops_per_run=20.0, first_call=14e-3):
        yield record.Record()


def run_of(found, took, slices=1000, seconds=2.5e-6):
    found.ran(found.for_run(slices, seconds, ()), took, compiles=False)


def test_a_first_run_that_takes_as_long_as_the_loop_tells_nothing(measured):
    run_of(measured, 2.2e-3)  # it has loaded things
    assert not measured.is_slower(1000, 2.5e-6)
    run_of(measured, 0.3e-3)
    assert measured.expected(1000) == 0.3e-3
    run_of(measured, 2.2e-3)  # the machine was busy
    assert measured.expected(1000) == 0.3e-3


def test_a_first_run_is_tried_however_long_planning_took(measured):
    measured.planning = 10.0
    assert measured.most(1000, 2.5e-6) == pytest.approx(LIMITS.first_run * 2.5e-3)
    assert not measured.for_run(1000, 2.5e-6, ()).is_overdrawn


def test_a_first_run_that_is_quick_tells(measured):
    run_of(measured, 0.3e-3)
    assert measured.expected(1000) == 0.3e-3


def test_runs_that_were_slower_are_tried_again_and_ever_more_seldom(measured):
    run_of(measured, 9e-3)
    loops = []
    run_of(measured, 5e-3)
    assert not measured.loops_instead(1000, 2.5e-6)  # the second may take memory yet
    for _ in range(3):
        run_of(measured, 5e-3)
        count = 0
        while measured.loops_instead(1000, 2.5e-6):
            count += 1
        loops.append(count)
    assert loops == pytest.approx([40, 80, 160], abs=1)


@pytest.mark.parametrize("signature", [None, "", "(n)->()"])
def test_where_runs_are_not_much_quicker_a_loop_is_timed(signature):
    """First calls take several times as long as others: they say that the loop takes longer."""
    f, x = fresh(lambda v, _=None: v * 2.5 if v > 0.5 else v + 1.5), RNG.random(1000)
    if signature is None:
        f, x = fresh(lambda v, _=None: v.sum() if v[0] > 0.5 else v.min()), RNG.random((1000, 12))
        call = partial(xpapply.apply_along_axis, f, 1)
    elif signature:
        f, x = fresh(lambda v, _=None: v.sum() if v[0] > 0.5 else v.min()), RNG.random((1000, 12))
        call = xpapply.vectorize(f, signature=signature)
    else:
        call = xpapply.vectorize(f)
    limits = {"run_tells": 1.25, "run_close": 4.0, "plan_worth": 0.0}
    limits |= {"loops_per_plan": 0.0, "loops_per_run": 20.0}
    with LIMITS.set(**limits), xpapply.options(fallback="silent"):
        want = call(x)
        (traced,) = (t for t in cache_of(f)[0].traced.values() if isinstance(t, TracedFunction))
        record, key = traced.record, (1000).bit_length()
        record.runs, record._least[key], traced.blocks.seconds = 3, 2e-3, 4e-6
        np.testing.assert_array_equal(call(x), want)
        assert record.looped < math.inf
        runs, record._least[key] = record.runs, 2000 * record.looped
        np.testing.assert_array_equal(call(x), want)
        assert record.runs == runs  # by the loop
        record._least[key] = 400 * record.looped
        np.testing.assert_array_equal(call(x), want)
        assert record.runs == runs + 1


def slower_than_its_loop(f, x, most):
    """After how many loops a function runs again whose blocks take twice as long as the loop."""
    limits = {"lent": 0.0, "run_tells": 1.25, "loops_per_run": 20.0, "plan_worth": 0.0}
    limits["loops_per_plan"] = 0.0  # each call is decided anew
    with LIMITS.set(**limits), xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, 1, x)
        (traced,) = (t for t in cache_of(f)[0].traced.values() if isinstance(t, TracedFunction))
        slow = 2 * len(x) * traced.seconds
        traced.record.runs, traced.record._least[len(x).bit_length()] = 3, slow
        before, loops = traced.record.runs, 0
        while traced.record.runs == before and loops < most:
            xpapply.apply_along_axis(f, 1, x)
            loops += 1
    return loops, traced


def test_it_is_so_for_a_function(monkeypatch):
    monkeypatch.setattr(TracedFunction, "has_kernel", lambda *_: False)
    f, x = fresh(lambda v, _=None: v.sum() if v[0] > 0.5 else v.min()), RNG.random((1000, 12))
    loops, _ = slower_than_its_loop(f, x, 100)
    assert loops == pytest.approx(40, abs=2)


@pytest.mark.parametrize("rests", [False, True])
def test_loops_count_for_the_kernel_that_ends_them(rests, monkeypatch):
    """Blocks are slower than the loop, or did not end within their time; one kernel is not."""
    pytest.importorskip("llvmlite")
    f, x = fresh(lambda v, _=None: np.correlate(v, v, "full")[-3:]), RNG.random((3000, 12))
    want = np.apply_along_axis(f, 1, x)
    if rests:
        slow = TracedFunction.has_kernel

        def has_kernel(self, rows):
            self.record.given_up, self.record.loops.limit = 1, 1e9
            return slow(self, rows)

        monkeypatch.setattr(TracedFunction, "has_kernel", has_kernel)
    loops, traced = slower_than_its_loop(f, x, 200)
    assert loops < 200
    assert traced.ways[0].is_made
    assert not traced.record.given_up
    got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_allclose(got, want, rtol=1e-12)


# --- ways that take longer than those of the first slices -----------------------------------------


def test_slices_of_a_dearer_way_count_for_more():
    run = account.Account(1000, 1e-6, 0.0)
    assert run.left < 0
    run.adds(500, 1e-3)
    run.adds(500, 1e-7)  # a cheaper one takes nothing back: the first slices have told that
    assert run.loop == pytest.approx(1e-3 + 500 * (1e-3 - 1e-6))
    assert not run.is_overdrawn
    run.noted(1000, 0.1)
    run.noted(0, 0.1)
    assert not run.spends(10)


def test_the_first_slices_may_return_at_once():
    """Those of the background, which lie at the border of an image, tell no price of the others."""

    def f(v):
        if np.isnan(v).all():
            return np.nan
        v = v[v > 0.1]
        return scipy.stats.kurtosis(v) + scipy.stats.skew(v)

    arr = RNG.random((400, 30))
    arr[:100] = np.nan
    with LIMITS.set(plan_worth=0.0, first_call=0.02, first_call_share=0.0, first_run=0.0):
        got = xpapply.apply_along_axis(f, -1, arr)
        found = trace_of(f)
        assert not found.record.given_up
        assert found.seconds > 20e-6  # a test for NaN takes 2 to 5 of these
        again = xpapply.apply_along_axis(f, -1, arr)
    for result in (got, again):
        np.testing.assert_allclose(result, np.apply_along_axis(f, -1, arr))


def test_what_has_changed_is_not_tried_anew_while_its_loop_runs(monkeypatch):
    """What a call makes, and its trace looks at, may be gone at any time."""

    def f(v):
        return v.max() if v[0] > 0.5 else v.min()

    traces, own = [], python_functions._trace
    monkeypatch.setattr(python_functions, "_trace", lambda *a: traces.append(a) or own(*a))
    quiet = xpapply.options(fallback="silent", compile=False)
    with quiet, LIMITS.set(plan_worth=0.0, first_call=1.0):
        xpapply.apply_along_axis(f, 1, ARR)
        found = trace_of(f)
        monkeypatch.setattr(found, "unchanged", lambda f: False)
        with LIMITS.set(loops_per_run=1.0):
            found.record.in_vain(1e6)
        found.record.given_up = 1
        for _ in range(3):
            xpapply.apply_along_axis(f, 1, ARR)
        assert len(traces) == 1
        found.record.loops.limit = 0.0
        xpapply.apply_along_axis(f, 1, ARR)
    assert len(traces) == 2
    assert trace_of(f).record.given_up == 1  # so that it is tried less and less often


def test_paths_of_short_calls_are_not_dear(monkeypatch):
    """What looks at a short call takes ten times as long as the call."""

    def f(v):
        found = 0.0
        for x in v:
            found += x if x > 0.5 else -1.0
        return found

    arr, dear = RNG.random((3000, 5)), []
    own = account.Account.adds

    def adds(self, slices, seconds):
        own(self, slices, seconds)
        dear.append(seconds > 2 * self.seconds)

    monkeypatch.setattr(account.Account, "adds", adds)
    with LIMITS.set(plan_worth=0.0, first_call=1.0), xpapply.options(compile=False):
        xpapply.apply_along_axis(f, 1, arr)
    assert len(dear) > 10
    assert sum(dear) < len(dear) / 4
