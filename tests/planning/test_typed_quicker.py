"""What compiled loops are told for the sake of speed: their results stay the loop's."""

import time

import numpy as np
import pytest
from loop_functions import typed_function

import xpapply
from xpapply.backends.cpu import compiler
from xpapply.backends.cpu import typed as backend
from xpapply.codegen.llvm.typed import kernel
from xpapply.frontends.python.run.rows import Rows
from xpapply.functions import cache
from xpapply.limits import LIMITS
from xpapply.loop.arguments import Arguments, Looped
from xpapply.planning.python.typed_loop import TypedLoop

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason="no compiler"),
    pytest.mark.optimised,
]
RNG = np.random.default_rng(0)


def same(f, arr, axis=1):
    want = np.apply_along_axis(f, axis, arr)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, axis, arr)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


# --- bits ---------------------------------------------------------------------------------


def ones(v):
    count = 0
    for n in v.tolist():
        while n:
            n &= n - 1
            count += 1
    return count


def length_in_bits(v):
    found = 0
    n = int(v[0])
    while n != 0:
        n >>= 1
        found += 1
    return found


@pytest.mark.parametrize("f", [ones, length_in_bits])
def test_a_loop_that_takes_bits_off_asks_once(f):
    arr = RNG.integers(0, 1 << 62, (40, 3))
    made, _ = typed_function(f, arr[0])
    loops = [b for b in made.blocks if any(x.op == "and" or x.op == "shr" for x in b.instructions)]
    assert loops
    assert not [x for b in loops for x in b.instructions if x.op == "overflows"]
    assert not [x for b in made.blocks for x in b.instructions if x.op == "round"]
    arr[0] = 0
    arr[1] = (1 << 63) - 1
    same(f, arr)


def test_bits_are_counted_at_once():
    made, _ = typed_function(ones, np.arange(3))
    text = kernel(made, compiler.host(), warns=False, side_by_side=True)
    found = []

    def keep(own, module):
        found.append(str(module))
        return b""

    compiler._emit(text, compiler.host(), keep, passes=True)
    assert "llvm.ctpop" in found[0]


def below_zero_ends(v):
    n = int(v[0])
    rounds = 0
    while n:
        n &= n - 1
        rounds += 1
        if rounds > 5:
            break
    return rounds


def test_a_number_below_zero_is_left_to_the_function():
    arr = RNG.integers(-9, 9, (60, 2))
    same(below_zero_ends, arr)


# --- an integer or a float ----------------------------------------------------------------


def rising(v, k=0.5):
    s = 0
    out = np.zeros(len(v))
    for i in range(len(v)):
        s = max(0, s + v[i] - k)
        out[i] = s
    return out


def high(v):
    s = n = 0
    for x in v:
        s = max(0, s + x)
        if s > 2:
            n += 1
    return n


def clipped(v):
    s = 0
    for x in v:
        s = min(3, max(0, s * 0.5 + x), 2.5)
    return s + 0.0


def where_it_matters(v):
    t = 0.0
    for x in v:
        y = max(0, x)
        t += y // 1 + y % 2 + float(y) + abs(y) + int(y) + (y == 0) - y
        if y:
            t += 1.0 / y
    return t


def _positive(x):
    return max(0, x)


def by_helper(v):
    t = 0.0
    for x in v:
        t += _positive(x) * 2.0 - _positive(-float(x))
    return t


@pytest.mark.parametrize("f", [rising, high, clipped, where_it_matters, by_helper])
def test_the_larger_of_an_integer_and_a_float(f):
    arr = RNG.standard_normal((50, 20))
    arr[1], arr[2] = -0.0, np.inf
    arr[3:6, 4] = np.nan
    with np.errstate(all="ignore"):
        if f is where_it_matters:
            arr = arr[6:]
        same(f, arr)


def test_a_loop_has_one_part_for_both():
    made, _ = typed_function(rising, np.ones(5))
    tests = [x for b in made.blocks for x in b.instructions if x.op == "branch"]
    assert len(tests) <= 2 * 2  # going on, in the first part and in the other


# --- where elements lie ---------------------------------------------------------------------


def changes(v):
    count = 1
    for i in range(1, len(v)):
        if v[i] != v[i - 1]:
            count += 1
    return count


def backwards(v):
    total = 0.0
    for i in range(-len(v), len(v)):
        total += v[i] * i
    return total


def outside(v):
    return v[int(v[0])]


def copied(v):
    a = v.copy()
    a[0] = v[1]
    b = a
    b[1:] = a[:-1].copy()
    return b


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64, bool])
@pytest.mark.parametrize("f", [changes, copied])
def test_elements_side_by_side_or_not(f, dtype):
    arr = RNG.integers(0, 2, (30, 24)).astype(dtype)
    for part in (arr, arr[:, ::3], arr[:, ::-1], np.asfortranarray(arr), arr[:, :1].repeat(9, 1)):
        same(f, part)
        same(f, part, 0)


def test_indices_from_the_end_and_beyond():
    arr = RNG.standard_normal((20, 7))
    same(backwards, arr)
    same(backwards, np.asfortranarray(arr))
    arr = np.repeat(np.arange(-3.0, 3.0), 3).reshape(6, 3)
    same(outside, arr)
    arr[2:4, 0] = 3.0, -4.0
    with xpapply.options(engine="cpu"), pytest.raises(IndexError):
        xpapply.apply_along_axis(outside, 1, arr)


# --- what is measured -------------------------------------------------------------------------


@pytest.mark.parametrize("is_quicker", [False, True])
def test_numbers_that_go_several_ways_are_compiled_if_that_is_quicker(monkeypatch, is_quicker):
    def year_of(year, month):
        if month <= 2:
            year -= 1
            month += 12
        return int(365.25 * (year + 4716)) + int(30.6001 * (month + 1))

    for name in ("typed_rival", "typed_waits", "typed_gain"):
        monkeypatch.setattr(LIMITS, name, 0.0)
    cache.clear()  # of the same function, with the other answer
    monkeypatch.setattr(TypedLoop, "is_quicker", lambda *_: is_quicker)
    a, b = RNG.integers(1800, 2100, 90_000), RNG.integers(1, 13, 90_000)
    want = np.vectorize(year_of)(a, b)
    call = xpapply.vectorize(year_of)
    with xpapply.options(fallback="silent"):
        for _ in range(12):
            np.testing.assert_array_equal(call(a, b), want)
    kinds = {type(x) for x in cache.cache_of(year_of)[0].traced.values()}
    assert (TypedLoop in kinds) is is_quicker


def test_a_function_without_a_loop_is_compiled_where_its_trace_is_refused(monkeypatch):
    def centred(v):
        v -= v.mean()
        return np.median(v)

    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    arr = RNG.standard_normal((5_000, 9))
    left = arr.copy()
    want = np.apply_along_axis(centred, 1, left)
    with xpapply.options(fallback="silent"):
        for _ in range(4):
            mine = arr.copy()
            np.testing.assert_array_equal(xpapply.apply_along_axis(centred, 1, mine), want)
            np.testing.assert_array_equal(mine, left)
    assert TypedLoop in {type(x) for x in cache.cache_of(centred)[0].traced.values()}


T = np.arange(12.0)


def through_gaps(v):
    there = ~np.isnan(v)
    return np.interp(T, T[there], v[there])


def on_a_grid_of_its_own(v):
    return np.interp(T, np.cumsum(np.abs(v)), v)


def filled(v):
    """As gaps are usually filled, by the places of what is there, which are integers."""
    v = v.copy()
    gap = np.isnan(v)
    v[gap] = np.interp(np.flatnonzero(gap), np.flatnonzero(~gap), v[~gap])
    return v


@pytest.mark.parametrize("f", [through_gaps, on_a_grid_of_its_own, filled])
@pytest.mark.parametrize("is_quicker", [None, False, True])
def test_slices_are_compiled_where_their_trace_is_hardly_quicker_than_the_loop(
    monkeypatch, f, is_quicker
):
    """Places of its own for each slice are a call for each slice, in blocks."""
    hardly = is_quicker is not None
    for name, number in (("rival", 0.0), ("waits", 0.0), ("gain", 1e9 if hardly else 1e-9)):
        monkeypatch.setattr(LIMITS, f"typed_{name}", number)
    cache.clear()
    monkeypatch.setattr(TypedLoop, "is_quicker", lambda *_: bool(is_quicker))
    arr = RNG.standard_normal((3_000, 12))
    arr[RNG.random(arr.shape) < 0.2] = np.nan
    want = np.apply_along_axis(f, 1, arr)
    by_place = xpapply.vectorize(f, signature="(n)->(n)")
    with xpapply.options(fallback="silent"):
        for _ in range(6):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)
            np.testing.assert_array_equal(by_place(arr), want)
    kinds = [type(x) for x in cache.cache_of(f)[0].traced.values()]
    assert kinds.count(TypedLoop) == (2 if is_quicker else 0)


def test_what_slices_that_are_left_to_the_function_take_counts():
    arr = RNG.standard_normal((2_000, 12))
    arr[:900, 3] = np.nan
    first = on_a_grid_of_its_own(arr[-1])
    loop = TypedLoop(on_a_grid_of_its_own, Arguments((Looped(0),), {}), (arr[-1],), first, 1e-9)
    assert loop.is_quicker(Rows(arr, 1), 100.0)
    loop.seconds = 1.0
    assert not loop.is_quicker(Rows(arr, 1), 100.0)
    assert loop.is_quicker(Rows(arr[900:], 1), 100.0)


def test_places_that_are_odd_are_left_to_the_trace(monkeypatch):
    """As blocks of dask that were on disk: a compiled loop is not measured on them."""
    for name, number in (("rival", 0.0), ("waits", 0.0), ("gain", 1e9)):
        monkeypatch.setattr(LIMITS, f"typed_{name}", number)
    cache.clear()
    arr = RNG.standard_normal((3_000, 12))
    odd = np.zeros(arr.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(arr.shape)
    odd[:] = arr
    want = np.apply_along_axis(on_a_grid_of_its_own, 1, arr)
    by_place = xpapply.vectorize(on_a_grid_of_its_own, signature="(n)->(n)")
    with xpapply.options(fallback="silent"):
        for _ in range(6):
            got = xpapply.apply_along_axis(on_a_grid_of_its_own, 1, odd)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(by_place(odd), want)


# --- functions that take longer compiled ----------------------------------------------------


def of_states(v):
    state = 0.0
    for a in v:
        state = 0.5 * state + a if a > 0 else -state
    return state


@pytest.mark.parametrize("share", [0.0, 1e9])
@pytest.mark.parametrize("shape", [(640, 5), (3, 5, 400)])
def test_some_slices_tell_whether_it_takes_longer_than_the_loop(monkeypatch, share, shape):
    monkeypatch.setattr(LIMITS, "given_up_from", share)  # times the loop's time
    for row in ("typed_tried", "first_loops", "plan_worth", "typed_worth"):
        monkeypatch.setattr(LIMITS, row, 0.0)
    runs = []
    run = backend.Compiled.run

    def noted(self, *given, **how):
        runs.append(given[0])
        return run(self, *given, **how)

    monkeypatch.setattr(backend.Compiled, "run", noted)

    def f(v):
        return of_states(v)

    arr = RNG.normal(size=shape)
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))
    slices = [x.size // x.shape[-1] for (x,) in runs]
    all_of_them = arr.size // arr.shape[1]
    assert slices[0] < all_of_them // 16
    assert (slices[-1] == all_of_them) == (share > 0)
    if not share:
        (record,) = {x.record for x in cache.cache_of(f)[0].traced.values() if hasattr(x, "record")}
        assert record.given_up
        assert "compiled it takes longer than the loop" in record.why


def test_one_slow_run_does_not_tell_that_it_takes_longer_than_the_loop(monkeypatch):
    """As the one that loads helpers, or that something else runs beside."""
    for row in ("typed_tried", "first_loops", "plan_worth", "typed_worth"):
        monkeypatch.setattr(LIMITS, row, 0.0)
    monkeypatch.setattr(LIMITS, "given_up_from", 100.0)  # times the loop's time
    runs = []
    run = backend.Compiled.run

    def slow(self, *given, **how):
        runs.append(given[0])
        end = time.process_time() + (1.0 if len(runs) == 2 else 0.0)
        while time.process_time() < end:
            pass
        return run(self, *given, **how)

    monkeypatch.setattr(backend.Compiled, "run", slow)

    def f(v):
        return of_states(v)

    arr = RNG.normal(size=(640, 5))
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))
    assert [x.size for (x,) in runs] == [50, 50, 50, arr.size]
