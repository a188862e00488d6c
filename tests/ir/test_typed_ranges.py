"""Bounds of integers in typed functions: which checks are left out, and that no other one is."""

import copy

import numpy as np
import pytest
from loop_functions import FUNCTIONS, insertion_sort, typed_function

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.frontends.python.source import typed as frontend
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array, strides
from xpapply.ir.typed.evaluate import _Run as Evaluator
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.ranges import _Ranges, decided
from xpapply.ir.typed.verify import verify
from xpapply.limits import LIMITS

RNG = np.random.default_rng(3)
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def both(f, first, monkeypatch):
    """A typed function with all of its checks, and one without those that find nothing."""
    with monkeypatch.context() as m:
        m.setattr(frontend, "decided", lambda made: None)
        whole, parts = typed_function(f, first)
    short = copy.deepcopy(whole)
    decided(short)
    verify(short)
    return whole, short, parts


def checks(made):
    return [x for b in made.blocks for x in b.instructions if x.op in ("mark", "catch")]


def neighbours(v):
    n = 0
    for i in range(1, len(v) - 1):
        n += v[i - 1] < v[i] > v[i + 1]
    return n


def table(v):
    n = len(v)
    cost = np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            cost[i, j] = v[i - 1] + min(cost[i - 1, j], cost[i, j - 1]) + v[j - 1]
    return cost[n, n]


def backwards(v):
    s = 0.0
    for i in range(len(v) - 1, -1, -1):
        s = 0.5 * s + v[i]
    return s


def counted(v):
    found = np.zeros(8)
    for i in range(len(v)):
        found[i % 8] += v[i]
    return found[3]


def of_pairs(v):
    s = 0.0
    for i in range(len(v)):
        for j in range(i + 1, len(v)):
            s += v[i] - v[j]
    return s


def in_parts(v):
    half = len(v) // 2
    out = np.zeros(half)
    for i in range(half):
        out[i] = v[2 * i]
    return out[half - 1]


def matched(v):
    """Two places of which sums are below the length, as in the complexity of Lempel and Ziv."""
    n, i, k, start = len(v), 0, 1, 1
    while True:
        if v[i + k - 1] == v[start + k - 1]:
            k += 1
            if start + k > n:
                break
        else:
            i += 1
            if i == start:
                start += k
                if start + 1 > n:
                    break
                i = 0
            k = 1
    return start


def met(v):
    """Two places that come nearer, as far as their difference says."""
    low, high, s = 0, len(v) - 1, 0.0
    while high - low > 1:
        if v[low] < v[high]:
            low += 1
        else:
            high -= 1
        s += v[low] * v[high]
    return s


OTHERS = [in_parts, matched, met]
ALL_KNOWN = [neighbours, insertion_sort, table, backwards, counted, of_pairs]


@pytest.mark.parametrize("f", ALL_KNOWN, ids=lambda f: f.__name__)
def test_no_check_is_left_where_all_is_known(f):
    made, _ = typed_function(f, np.arange(9.0))
    assert [x for x in checks(made) if "bounds" in made.marks[x.what - 1].why] == []


def one_more(v):
    s = 0.0
    for i in range(len(v) + 1):
        s += v[i]
    return s


def one_less(v):
    s = 0.0
    for i in range(len(v)):
        s += v[i - len(v) - 1]
    return s


def begins_outside(v):
    s = 0.0
    i = len(v)
    while i > 2:
        s += v[i]
        i -= 1
    return s


def summed_too_far(v):
    """What the sum says of its parts is not enough."""
    s, i, j = 0.0, 0, 3
    while i + j < len(v) + 4:
        s += v[j]
        i, j = i - 1, j + 2
    return s


def grows(v):
    s, i = 0.0, 0
    while s < 5:
        s += v[i]
        i += 1
    return s


def of_another(v):
    a = np.zeros(len(v) - 1)
    for i in range(len(v)):
        a[i] = v[i]
    return a[0]


def one_of_two(v):
    a = v.copy() if v[0] > 100 else np.zeros(len(v) - 1)
    for i in range(len(v)):
        a[i] = v[i]
    return a[0]


def turned(v):
    low, high = 0, len(v)
    for _ in range(3):
        low, high = high, low
    return v[low]


def looked_up_first(v):
    i = int(v[0])
    if i < len(v):  # it may be far below zero
        return v[i]
    return 0.0


def far_below(v):
    i = int(v[0]) - 20
    return v[i + 11]


OUTSIDE = [
    one_more, one_less, begins_outside, grows, summed_too_far, of_another, one_of_two, turned,
    looked_up_first, far_below,
]  # fmt: skip


@pytest.mark.parametrize("f", OUTSIDE, ids=lambda f: f.__name__)
def test_an_index_that_may_be_outside_is_checked(f):
    """Some of its slices raise: it is compiled for another one."""
    first = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8])
    made = of(f, first)
    assert [x for x in checks(made) if "bounds" in made.marks[x.what - 1].why]
    outs = [np.zeros(())]
    for v in (first, -first - 40, first[:1] - 4):
        try:
            want = f(v)
        except IndexError:
            assert evaluate(made, [v], outs) > 0
        else:
            assert evaluate(made, [v], outs) == 0
            assert outs[0] == want


def of(f, first):
    """The typed function of a float, though it raises for the first slice."""
    watch = Guards()
    watch.start(f)
    kind = Array(first.dtype.name, first.ndim)
    return frontend.typed(
        f, [frontend.Input(0)], {}, [kind], [frontend.Expected("float64", ())], watch
    )


def slices(f):
    """Slices for a function of the corpus: usual ones, short ones, and special numbers."""
    yield RNG.standard_normal(12) * 3
    yield np.abs(RNG.standard_normal(12)) * 40
    yield np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, -1e300, 3, 3, 3, -7, 2])
    yield RNG.integers(-3, 20, 12).astype(float)


@pytest.mark.parametrize("f", [*FUNCTIONS, *ALL_KNOWN, *OTHERS], ids=lambda f: f.__name__)
def test_what_is_left_does_the_same(f, monkeypatch):
    """Results and marks, and no bound is wrong in any block that is come to."""
    first = np.abs(RNG.standard_normal(12)) + 1
    whole, short, parts = both(f, first, monkeypatch)
    assert short.size <= whole.size
    found = _Ranges(whole)
    assert found.find()
    for v in slices(f):
        outs = [[np.zeros(p.shape, p.dtype) for p in parts] for _ in range(2)]
        try:
            was = evaluate(whole, [v], outs[0], 200_000)
        except RuntimeError:
            continue
        assert evaluate(short, [v], outs[1], 200_000) == was
        if not was:
            for a, b in zip(*outs, strict=True):
                np.testing.assert_array_equal(a, b)
        _look(whole, found, v, parts)


def _look(made, found, v, parts):
    """That the slots of integers are within their bounds where each block begins."""
    run = Evaluator(made, [v], [np.zeros(p.shape, p.dtype) for p in parts])
    lengths = {n: v.shape[key[2]] for key, n in found._roots.items() if isinstance(key, tuple)}
    k = 0
    with np.errstate(all="ignore"):
        for _ in range(20_000):
            entry = found.entries[k]
            assert entry is not None, f"block {k} is come to"
            for slot, r in entry.items():
                x = int(run.slots[slot])
                assert r.low <= x <= r.high, (k, slot)
                for n, far in r.above.items():
                    assert n not in lengths or lengths[n] + far <= x, (k, slot)
                for n, far in r.below.items():
                    assert n not in lengths or x <= lengths[n] + far, (k, slot)
            k = run.block(made.blocks[k])
            if k < 0:
                return


def test_what_a_sum_is_below_bounds_its_parts():
    made, _ = typed_function(matched, np.arange(9.0))
    assert [x for b in made.blocks for x in b.instructions if x.op == "overflows"] == []


def sums(v):
    a = np.int64(2) ** 62 if v[0] > 100 else 1
    n = 0
    for _ in range(3):
        n = n + a
    return n


def test_sums_that_may_leave_64_bits_are_checked():
    made, _ = typed_function(sums, np.ones(3))
    assert [x for b in made.blocks for x in b.instructions if x.op == "overflows"]
    assert evaluate(made, [np.array([101.0, 1, 1])], [np.zeros((), np.int64)]) > 0


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64"])
def test_small_integers_are_known_by_their_types(dtype):
    def histogram(v):
        found = np.zeros(256)
        for x in v:
            found[x] += 1
        return found[7]

    made, _ = typed_function(histogram, np.array([1, 7, 7], dtype))
    assert bool(checks(made)) is (dtype != "uint8")


def test_quotients_of_what_is_not_negative_need_no_turning():
    def f(v):
        n = 0
        for i in range(len(v)):
            n += i // 3 + i % 5
        return n

    made, _ = typed_function(f, np.ones(9))
    assert "select" not in [x.op for b in made.blocks for x in b.instructions]


def test_a_square_is_not_negative():
    def f(v):
        n = int(v[0])
        return (n * n + 1) % 7

    made, _ = typed_function(f, np.ones(3))
    assert "select" not in [x.op for b in made.blocks for x in b.instructions]
    out = np.zeros((), np.int64)
    for x in (-5.0, 4.0, 0.0):
        assert evaluate(made, [np.array([x, 0, 0])], [out]) == 0
        assert out == f([x])


def rests(v):
    n = int(v[0])
    return (n * n + 1) % int(v[1]) if n < 9 else -1 - n * n % int(v[1])


def below(v):
    n = int(v[0])
    return n % int(v[1]) if n < 0 else 7


def test_whether_signs_differ_is_a_question_of_one_of_them(monkeypatch):
    for f in (rests, below):
        whole, short, _ = both(f, np.array([3, 5]), monkeypatch)
        assert sum(x.op == "xor" for x in whole.instructions) > 0
        left = sum(x.op == "xor" for x in short.instructions)
        assert left == 0 or f is below  # what is left may be zero, which has no sign
        for n in (*range(-60, 61, 7), -(2**63), 2**63 - 1):
            for by in (-7, -1, 0, 1, 5, 50, -(2**63), 2**63 - 1):
                v, outs = np.array([n, by]), [np.zeros((), np.int64), np.zeros((), np.int64)]
                marks = [evaluate(m, [v], [o]) for m, o in zip((whole, short), outs, strict=True)]
                assert marks[0] == marks[1], (n, by)
                assert marks[0] or outs[0] == outs[1] == f(v.tolist()), (n, by)


def caught(v):
    n = 0
    for i in range(len(v)):
        try:
            n += v[i] > v[i + 1]
        except IndexError:
            n += 100
    return n


def test_what_is_handled_stays():
    made, _ = typed_function(caught, np.arange(4.0))
    assert [x.op for x in checks(made) if x.op == "catch"]
    out = np.zeros((), np.int64)
    assert evaluate(made, [np.array([3.0, 2, 1, 5])], [out]) == 0
    assert out == caught(np.array([3.0, 2, 1, 5]))


def test_what_takes_long_to_know_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_visits", 1)
    whole, short, _ = both(table, np.arange(5.0), monkeypatch)
    assert str(short) == str(whole)


# --- strides --------------------------------------------------------------------------------


def parts_of(v):
    a = np.zeros((len(v), 4))
    every = a[:, ::2]
    row = a[1]
    column = a[:, 1]
    some = v[::2]
    s = 0.0
    for i in range(3):
        every[i, 1] = v[i]
        row[i] = s
        column[i] += 1.0
        s += some[i] + a[i, 2] + a[1, i]
    return s


def test_which_elements_lie_side_by_side():
    made, _ = typed_function(parts_of, np.arange(9.0))
    for slices_lie_so in (False, True):
        near = {s.name.partition(".")[0] for s in strides.side_by_side(made, slices_lie_so)}
        assert {"a", "row"} <= near
        assert near.isdisjoint({"every", "column", "some"})
        assert ("v" in near) is slices_lie_so


@needs_cpu
def test_strides_that_are_known_are_those_that_are_there():
    arr = RNG.standard_normal((40, 9))
    for view in (arr, RNG.standard_normal((40, 18))[:, ::2], arr[:, ::-1]):
        made, parts = typed_function(parts_of, view[0])
        for form in (backend.ONE, backend.LANES):
            outs = [np.zeros((40, *p.shape), p.dtype) for p in parts]
            assert not backend.Compiled(made).run([view], outs, 1, form=form).any()
            np.testing.assert_array_equal(outs[0], [parts_of(v) for v in view])


@needs_cpu
@pytest.mark.parametrize("f", [*ALL_KNOWN, in_parts], ids=lambda f: f.__name__)
def test_compiled_they_have_the_results_of_the_loop(f):
    for length in (2, 9):
        arr = RNG.standard_normal((64, length))
        with xpapply.options(engine="cpu", fallback="silent"):
            found = xpapply.apply_along_axis(f, 1, arr)
        np.testing.assert_array_equal(found, np.apply_along_axis(f, 1, arr))


def divisor(a, b=2, *, c=1.5):
    return b


def test_a_sign_is_that_of_what_stands_for_a_choice_of_equals(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_shared", 0)  # what a function gives is known by its bounds

    def f(v):
        found, flag = v[0], 0
        for k in range(3, len(v)):
            found //= np.where(flag, divisor(found, c=0.0), divisor(found, c=0.0))
            flag = k
        return flag

    verify(typed_function(f, np.ones(9, bool))[0])
