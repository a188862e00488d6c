"""Slices that go side by side through a typed function: as one after the other, bit for bit."""

import dataclasses
from collections import Counter

import loop_functions
import numpy as np
import pytest
from loop_functions import FUNCTIONS, for_others, machine_code, typed_function

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import NAME, kernel_of_lanes
from xpapply.errors import UnsupportedError
from xpapply.ir.typed.divergence import Divergence
from xpapply.limits import LIMITS

RNG = np.random.default_rng(5)
SIDE_BY_SIDE = [
    getattr(loop_functions, name)
    for name in (
        "any_low bisection collatz cusum divisor drawdown escape garch helped insertion_sort "
        "kalman kepler longest_run mann_kendall rises rolling spikes two_results warping"
    ).split()
]
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def special(*shape, dtype="float64"):
    """Numbers of which some are NaN, infinite, zeros of both signs."""
    x = RNG.standard_normal(shape) * 3
    if np.dtype(dtype).kind == "f":
        for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
            x[RNG.random(shape) < 0.02] = value
    return x.astype(dtype)


def both(f, arr, like):
    """The results and marks, one after the other and side by side."""
    made, parts = typed_function(f, like)
    compiled, found = backend.Compiled(made), []
    batch = arr.ndim - 1
    for form in (ONE, LANES):
        outs = [np.full((*arr.shape[:-1], *p.shape), 77, p.dtype) for p in parts]
        found.append((outs, compiled.run([arr], outs, batch, form=form)))
    return found


def check(f, arr, like=None):
    (outs, marks), (others, again) = both(
        f, arr, arr[(0,) * (arr.ndim - 1)] if like is None else like
    )
    # a comparison may be noted where slices go one by one: side by side none is
    assert not (again.astype(bool) & ~marks.astype(bool)).any()
    done = marks == 0
    for a, b in zip(outs, others, strict=True):
        np.testing.assert_array_equal(a[done], b[done])
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a[done]), np.signbit(b[done]))
    more = (again == 0) & ~done
    for at in np.argwhere(more)[:20]:
        with np.errstate(all="ignore"):
            want = f(arr[tuple(at)])
        for b, w in zip(others, want if len(others) > 1 else (want,), strict=True):
            np.testing.assert_array_equal(b[tuple(at)], w)
    return marks


@needs_cpu
@pytest.mark.parametrize("f", SIDE_BY_SIDE, ids=lambda f: f.__name__)
def test_as_one_after_the_other(f):
    with xpapply.options(threads=1):
        check(f, RNG.standard_normal((61, 20)))
        check(f, special(45, 20), RNG.standard_normal(20))


@needs_cpu
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "int16", "uint8"])
@pytest.mark.parametrize("name", ["longest_run", "drawdown", "rises", "spikes", "warping"])
def test_dtypes(name, dtype):
    arr = special(29, 16, dtype=dtype)
    check(getattr(loop_functions, name), arr, np.ones(16, dtype))


@needs_cpu
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 31])
def test_lanes_that_are_not_filled(count):
    check(loop_functions.kalman, RNG.standard_normal((count, 12)))


@needs_cpu
def test_slices_that_lie_in_any_way():
    x = RNG.standard_normal((6, 14, 9))
    for arr in (
        np.moveaxis(x, 1, -1), np.moveaxis(x, 0, -1), x[:, ::-1], x[..., ::2], x[::2, ::3],
        np.asfortranarray(x), np.broadcast_to(x[:, :1], x.shape),
    ):  # fmt: skip
        check(loop_functions.kalman, arr)
        check(loop_functions.longest_run, arr)


@needs_cpu
def test_a_mark_of_one_lane_leaves_the_others():
    def f(v):
        s = 0
        for x in v:
            if x > 100:
                raise ValueError
            s += int(x * 1e3)
        return s

    arr = RNG.standard_normal((64, 10))
    arr[3, 4] = 500.0
    arr[17, 9] = np.nan
    arr[40, 0] = np.inf
    marks = check(f, arr)
    assert np.flatnonzero(marks).tolist() == [3, 17, 40]


@needs_cpu
def test_integers_beyond_64_bits_and_divisors_of_zero():
    def grown(v):
        n = 1
        for x in v:
            n = n * 3 + int(x)
        return n

    def divided(v):
        n = 0
        for x in v:
            n += 1000 // int(x)
        return n

    arr = RNG.integers(1, 9, (40, 39)).astype(float)
    arr[5] *= 1e15
    check(grown, arr)
    arr[7, 3] = arr[12, 0] = 0.3
    assert np.flatnonzero(check(divided, arr)).tolist() == [7, 12]


@needs_cpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "float64"])
def test_truth_values_of_numpys_loops(dtype):
    def f(v):
        n = 0
        for x in v:
            if np.ceil(x):
                n += 1
            if np.trunc(x):
                n += 2
        return n

    check(f, (RNG.standard_normal((33, 9)) > 0.2).astype(dtype))


@needs_cpu
def test_what_is_warned_of_is_marked():
    def f(v):
        s = v[0]
        for x in v:
            s = s * 0.5 + (x / v[0] if x > 0.5 else 0.0)
        return s

    arr = RNG.standard_normal((64, 10))
    arr[9, 0] = arr[30, 0] = 0.0
    assert np.flatnonzero(check(f, arr)).tolist() == [9, 30]


@needs_cpu
def test_names_that_differ_after_a_loop_was_left():
    """What all share within a loop differs once they have left it in different rounds."""

    def first(v):
        k = -1
        for k in range(len(v)):
            if v[k] > 1:
                break
        return k

    def found(v):
        seen = False
        for x in v:
            if x > 1.5:
                seen = True
                break
        return seen

    def nested(v):
        n, total = 0, 0.0
        for i in range(len(v)):
            j = 0
            while j < i and v[j] < v[i]:
                j += 1
            if j == i:
                n += j
                total += v[j]
            else:
                k = j + 1
                total -= v[k - 1]
        return n + total

    def turned(v):
        a = b = 0
        for x in v:
            if x > 0:
                a = 1
                for k in range(3):
                    a += k
            else:
                for k in range(2):
                    b += k
            if b > 7:
                return a
        return a + b

    arr = RNG.standard_normal((100, 12))
    for f in (first, found, nested, turned):
        check(f, arr)


@needs_cpu
def test_names_that_are_pythons_at_first_and_numpys_later():
    """One part of the loop for both: slices leave the first round at different places."""

    def worst(v):
        peak, low = v[0], 0.0
        for x in v:
            if x > peak:
                peak = x
            if x - peak < low:
                low = x - peak
        return low

    def filled(v):
        pack = 0.0
        out = np.zeros(len(v))
        for i in range(len(v)):
            if v[i] <= 0:
                pack -= v[i]
            else:
                pack = min(pack, 3.0 * v[i])
            out[i] = pack
        return out

    def divided(v):
        last = 1.0
        total = 0.0
        for x in v:
            total += x / last
            if abs(x) > 0.5:
                last = x
        return total

    arr = special(400, 30)
    for f in (worst, filled, divided):
        made, _ = typed_function(f, np.ones(30))
        loops = [b for b in made.blocks if any(x.op == "element" for x in b.instructions)]
        assert len(loops) <= 4, str(made)
        check(f, arr, np.ones(30))


@needs_cpu
def test_ufuncs_and_reductions_of_whole_arrays():
    weights = np.linspace(0.1, 1.0, 20)

    def centred(v):
        x = v - v.mean()
        s = 0.0
        for y in x:
            s = 0.5 * s + y
        return s / np.std(v)

    def weighted(v):
        out = np.exp(-np.abs(v)) * weights + v.sum() * weights.max()
        for i in range(1, len(v)):
            if v[i] > 0:
                out[i] += v.sum() - out[i - 1]
        return out

    def counted(v):
        big = v > 0.5
        n = 0
        for b in big:
            n = n + 1 if b else 0
        return n + np.sum(v.astype(np.int64) > 1) + np.max(v)

    arr = RNG.standard_normal((203, 20))
    for f in (centred, weighted, counted):
        for a in (arr, arr.astype(np.float32), special(203, 20)):
            check(f, a, np.linspace(-1, 2, 20).astype(a.dtype))


@needs_cpu
def test_which_zero_is_the_largest_is_said_by_the_slice_alone():
    def largest(v):
        return np.max(v) + 0.0 * v[0], np.max(v)

    zeros = np.array([-0.0, 0.0])
    arr = zeros[RNG.integers(0, 2, (80, 7))]
    check(largest, arr)
    arr[::3] += 1
    check(largest, arr)

    def clipped(v):
        return np.clip(v, 0, 1)

    made, _ = typed_function(clipped, arr[0])
    with pytest.raises(UnsupportedError, match="zeros of two signs"):
        kernel_of_lanes(made, TARGETS["AVX2"], 8, True)


@needs_cpu
def test_slices_that_wait_at_the_begin_of_a_loop_around():
    """What they have counted stays, while others go on in the inner loop."""

    def largest(v):
        return v[1] and max(v[::-2])

    def counted(v):
        c = i = 0
        n = len(v)
        while True:
            c += 1
            while True:
                if i >= n:
                    return 100 * c + i
                x = v[i]
                i += 1
                if x > 0:
                    break

    arr = np.array([2.0, 1.0, 0.0, -0.0, -1.0])[RNG.integers(0, 5, (64, 12))]
    for f in (largest, counted):
        check(f, arr, np.ones(12))
        check(f, arr.astype(np.float32), np.ones(12, np.float32))


WEIGHTS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
SHARES = (0.5, 0.25, -0.0, 1e300)


@needs_cpu
def test_lists_that_are_as_long_as_each_other():
    def slopes(v):
        found = []
        for i in range(len(v)):
            for j in range(i + 1, len(v)):
                found.append((v[j] - v[i]) / (j - i))
        return np.median(np.array(found))

    def changed(v):
        kept = [v[0]] * len(v)
        for i, x in enumerate(v):
            kept[i] = x
            if x > 0:
                kept[i - 1] += x
                kept[int(x) % len(v)] = -x
        while len(kept) > 3:
            x = kept.pop()
            kept[0] += x + kept.pop(0)
        last = kept[1]
        kept.clear()
        for x in v:
            kept.append(x * last)
        return np.array(kept) * 2.0

    def flagged(v):
        seen = [False] * 10
        for x in v:
            k = int(abs(x)) % 10
            seen[k] = not seen[k]
        n = 0
        for s in seen:
            n = 2 * n + s
        return n

    def filled(v):
        best = [0] * 20
        for i in range(len(v)):
            for c in range(19, WEIGHTS[i % 10] - 1, -1):
                best[c] = max(best[c], best[c - WEIGHTS[i % 10]] + int(v[i]))
        return best[-1] + SHARES[len(v) % 4]

    for dtype in ("float64", "float32", "int64", "int16"):
        arr = (5 * RNG.standard_normal((75, 12))).astype(dtype)
        for f in (slopes, changed, flagged, filled):
            check(f, arr)


def test_lists_that_differ_in_length_do_not_go_side_by_side():
    def positives(v):
        found = []
        for x in v:
            if x > 0:
                found.append(x)
        return len(found)

    made, _ = typed_function(positives, np.ones(3))
    with pytest.raises(UnsupportedError, match="append for some slices"):
        kernel_of_lanes(made, TARGETS["AVX2"], 8, True)


def test_numbers_of_a_list_that_is_known_are_a_table():
    def f(v):
        return WEIGHTS[int(v[0])] + SHARES[int(v[1])]

    made, _ = typed_function(f, np.ones(2))
    assert [x.tolist() for x in made.constants] == [WEIGHTS, list(SHARES)]
    arr = np.array([[0.0, 3], [9, 2], [-1, -1], [10, 0], [0, 4], [-10, -4], [-11, 0]])
    if backend.why_not() is None:
        out = np.zeros(len(arr))
        marks = backend.Compiled(made).run([arr], [out], 1)
        assert (marks != 0).tolist() == [False, False, False, True, True, False, True]
        for k in np.flatnonzero(marks == 0):
            assert out[k] == f(arr[k])


def test_what_differs_and_what_is_shared():
    made, _ = typed_function(loop_functions.cusum, np.ones(5))
    ways = Divergence(made)
    names = {slot.name.split(".")[0] for slot in ways.varying}
    assert {"up", "down", "i"} <= names  # i is returned by slices that leave in different rounds
    counters = [s for s in _slots(ways) if s.type == "int64" and s not in ways.varying]
    assert counters


def _slots(ways):
    return {x.what for b in ways.blocks for x in b.instructions if x.op == "store"}


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_blocks_are_ordered(f):
    """Each block of a part stands in its order once, after those that lead to it."""
    made, _ = typed_function(f, np.abs(RNG.standard_normal(12)))
    try:
        ways = Divergence(made)
    except UnsupportedError:
        return

    def flat(items):
        for x in items:
            yield from [x] if isinstance(x, int) else flat(x.items)

    for group in ways.groups():
        assert sorted(flat(ways.order(group))) == group


@pytest.mark.parametrize("f", SIDE_BY_SIDE, ids=lambda f: f.__name__)
def test_blocks_that_follow_each_other_are_one(f):
    ways = Divergence(typed_function(f, np.abs(RNG.standard_normal(12)))[0])
    before = Counter(t for b in ways.blocks for t in b.targets)
    only = [b.targets[0] for b in ways.blocks if len(b.targets) == 1]
    assert all(before[t] > 1 for t in only if t)


@for_others
@pytest.mark.parametrize("f", SIDE_BY_SIDE[::4], ids=lambda f: f.__name__)
def test_texts_compile_for_other_cpus(f, name):
    made, _ = typed_function(f, np.abs(RNG.standard_normal(12)))
    text = kernel_of_lanes(made, TARGETS[name], LIMITS.typed_lanes, True)
    assert NAME.encode() in machine_code(text, name)


@needs_cpu
def test_lanes_stay_where_they_pay():
    made, parts = typed_function(loop_functions.bisection, np.ones(4))
    arr = RNG.standard_normal((4000, 4))
    with xpapply.options(threads=1), LIMITS.set(typed_lanes_price=0.0):
        compiled = backend.Compiled(made)
        for gain, width in ((0.0, 1), (1e9, backend.widths()[0])):
            with LIMITS.set(typed_lanes_gain=gain):
                compiled = backend.Compiled(made)
                for _ in range(LIMITS.typed_lanes_most):
                    outs = [np.zeros((4000, *p.shape), p.dtype) for p in parts]
                    marks = compiled.run([arr], outs, 1)
                    assert not marks.any()
                    want = [loop_functions.bisection(v) for v in arr[::97]]
                    np.testing.assert_array_equal(outs[0][::97], want)
                assert compiled.width == width


@needs_cpu
@pytest.mark.parametrize("count", [100, 4000])
def test_both_ways_are_timed_before_one_stays(monkeypatch, count):
    """Each form runs several times, on few slices by turns; all have their results each time."""
    made, parts = typed_function(loop_functions.bisection, np.ones(4))
    arr = RNG.standard_normal((count, 4))
    want = [loop_functions.bisection(v) for v in arr[::9]]
    compiled, ran = backend.Compiled(made), []
    add = backend.Lanes.add

    def noted(self, form, seconds):
        ran.append(form)
        add(self, form, seconds)

    monkeypatch.setattr(backend.Lanes, "add", noted)
    looks = dict.fromkeys(("typed_lanes_looks", "typed_lanes_most"), 3)
    with xpapply.options(threads=1), LIMITS.set(typed_lanes_price=0.0, **looks):
        for k in range(7):
            outs = [np.full((count, *p.shape), 7, p.dtype) for p in parts]
            assert not compiled.run([arr], outs, 1).any()
            np.testing.assert_array_equal(outs[0][::9], want)
            (lanes,) = compiled._lanes.values()
            assert (lanes.is_good is None) == (ran.count(LANES) < 3), k
    assert ran.count(LANES) == 3
    assert ran.count(ONE) >= 3


@needs_cpu
@pytest.mark.parametrize("bits", [256, 512])
def test_registers_of_512_bits_are_two_for_each_number(bits, monkeypatch):
    """Few slices, and long ones, take one: so no lane is empty, and all lie in the cache."""
    host = backend.compiler.host()
    if bits > host.bits:
        pytest.skip("shorter registers")
    monkeypatch.setattr(backend.compiler, "host", lambda: dataclasses.replace(host, bits=bits))
    few = LIMITS.typed_lanes
    long = LIMITS.typed_tile // (8 * 2 * few) + 1
    made, parts = typed_function(loop_functions.longest_run, np.ones(4))
    compiled, most = backend.Compiled(made), 2 * few if bits == 512 else few
    assert backend.widths()[0] == most
    for count, length, width in ((40, 4, few), (1003, 4, most), (70, long, few), (7, 4, few)):
        arr = RNG.standard_normal((count, length))
        outs = [np.full((count, *p.shape), 7, p.dtype) for p in parts]
        layout, _ = compiled._lying([arr], outs, 1)
        assert (layout.width, layout.fits) == (width, count > 7), (count, length)
        marks = compiled.run([arr], outs, 1, form=LANES)
        assert not marks.any()
        np.testing.assert_array_equal(outs[0], [loop_functions.longest_run(v) for v in arr])
    assert {key[-1] for key in compiled._forms if key[0] == LANES} == {few, most}


def test_one_slow_timing_does_not_choose():
    looks, most = LIMITS.typed_lanes_looks, LIMITS.typed_lanes_most
    for quick, slow, good in ((1.0, 2.0, True), (2.0, 1.0, False)):
        lanes = backend.Lanes()
        lanes.add(ONE, 0.01)  # when the machine did nothing else, long ago
        for k in range(looks):
            assert lanes.is_good is None
            lanes.add(ONE, slow * (3 if k == 1 else 1))
            lanes.add(LANES, quick * (9 if k == 0 else 1))
        assert lanes.is_good is good
    lanes = backend.Lanes()
    for _ in range(most):  # so close that all looks are needed
        assert lanes.is_good is None
        lanes.add(ONE, 1.0)
        lanes.add(LANES, 0.95 * LIMITS.typed_lanes_gain)
    assert lanes.is_good
    lanes.again()
    assert lanes.is_good is None
    assert lanes.looks == 0


def test_a_clock_that_has_not_moved_decides_nothing():
    """Where one tick of it is longer than a call, both ways may take no time at all."""
    lanes = backend.Lanes()
    for _ in range(20):
        lanes.add(ONE, 0.0)
        lanes.add(LANES, 0.0)
    assert not lanes.is_good


@needs_cpu
def test_lanes_with_other_results_are_not_used(monkeypatch):
    """Whatever a kernel of lanes may get wrong: the first slices are compared."""
    from xpapply.codegen.llvm import typed as text_of

    real = text_of.kernel_of_lanes

    def wrong(*given):
        return real(*given).replace("0x3FE0000000000000", "0x3FE0000000000001")

    def f(v):
        s = 0.0
        for x in v:
            s = 0.5 * s + x
        return s

    monkeypatch.setattr(text_of, "kernel_of_lanes", wrong)
    arr = RNG.standard_normal((4000, 6))
    made, _ = typed_function(f, arr[0])
    out = np.zeros(4000)
    with LIMITS.set(typed_lanes_price=0.0, typed_lanes_gain=1e9), xpapply.options(threads=1):
        compiled = backend.Compiled(made)
        for _ in range(LIMITS.typed_lanes_most):
            assert not compiled.run([arr], [out], 1).any()
            (lanes,) = compiled._lanes.values()
            assert lanes.is_good is False
            np.testing.assert_array_equal(out, np.apply_along_axis(f, 1, arr))


@needs_cpu
def test_a_float_as_a_double_keeps_the_sign_of_zero():
    def f(v):
        y = 0.0
        for x in v:
            y = float(x)
            y = 0.0 if y < 0 else y
        return y

    ends = np.array([-0.0, 0.0, -1.0, 2.0] * 8, np.float32)
    arr = np.stack([ends, ends], 1)
    for form in (ONE, LANES):
        made, (like,) = typed_function(f, arr[0])
        out = np.zeros(len(arr), like.dtype)
        assert not backend.Compiled(made).run([arr], [out], 1, form=form).any()
        np.testing.assert_array_equal(np.signbit(out), [np.signbit(f(v)) for v in arr])


# --- rows of what slices share, extremes, sums of arrays --------------------------------------

OTHERS = np.random.default_rng(8)
TABLE = OTHERS.standard_normal((4, 6))
WHOLE = OTHERS.integers(-9, 9, (3, 6, 2))[..., 0]


def chosen_rows(v):
    total = np.zeros(6)
    for x in v:
        k = int(abs(x)) % 4
        total = total * 0.5 + TABLE[k] * TABLE[(k + 1) % 4, 0]
        total = total - TABLE[(k + 3) % 4]
    return total


def chosen_columns(v):
    d = np.zeros(4)
    for x in v:
        d = d + TABLE[:, int(abs(x)) % 6]
        s = d[:, None] + TABLE[:, :4]
        d = s.max(0) - s.min(1) / 2.0
    return d


def of_integers(v):
    total = 0
    for x in v:
        row = WHOLE[int(abs(x)) % 3]
        total += row.max() * 3 - row.min() + row[int(abs(x)) % 6]
    return total


def extremes(v):
    total = 0.0
    for k in range(1, len(v) // 2):
        part = v[k : k + 3]
        total += part.max() - 2.0 * part.min()
    return total


def plain(v):
    w = v.copy()
    for k in range(1, 4):
        w = (w - v[k]) * 0.5 + v / (k + 1.0)
        w = 1.0 - w / v[0]
    return w


@needs_cpu
@pytest.mark.parametrize(
    "f",
    [chosen_rows, chosen_columns, of_integers, extremes, plain],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_of_lanes(f, dtype):
    with xpapply.options(threads=1):
        marks = check(f, RNG.standard_normal((61, 12)).astype(dtype))
        assert not marks.any()
        usual = RNG.standard_normal(12).astype(dtype)
        check(f, special(45, 12, dtype=dtype), usual)
        zeros = RNG.integers(-1, 2, (45, 12)).astype(dtype)
        check(f, np.copysign(zeros, RNG.standard_normal(zeros.shape)).astype(dtype), usual)


@needs_cpu
@pytest.mark.parametrize("f", [chosen_columns, extremes, plain], ids=lambda f: f.__name__)
def test_arrays_of_lanes_beside_the_loop(f):
    """What lanes give is what the function itself gives, with its warnings."""
    arr = special(45, 12)
    made, parts = typed_function(f, np.ones(12))
    outs = [np.full((45, *p.shape), 77, p.dtype) for p in parts]
    marks = backend.Compiled(made).run([arr], outs, 1, form=LANES)
    for k in np.flatnonzero(marks == 0):
        with np.errstate(all="raise", under="ignore"):
            want = f(arr[k])
        np.testing.assert_array_equal(outs[0][k], want)
        np.testing.assert_array_equal(np.signbit(outs[0][k]), np.signbit(want))
