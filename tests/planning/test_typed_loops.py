"""Functions with loops over elements run compiled from their source, as the loop would run them."""

import functools
import importlib
import math
import sys
import time
import warnings

import loop_functions
import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.limits import LIMITS

RNG = np.random.default_rng(0)

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]


def numbers(*shape, dtype="float64"):
    """Numbers of a dtype, some of which are special."""
    x = RNG.standard_normal(shape) * 2
    if np.dtype(dtype).kind == "f":
        x[RNG.random(shape) < 0.01] = np.nan
        x[RNG.random(shape) < 0.01] = -0.0
        x[RNG.random(shape) < 0.005] = np.inf
    else:
        x = np.abs(x * 10) if np.dtype(dtype).kind == "u" else x * 10
    return x.astype(dtype)


def caught(call):
    """What a call gives or raises, and what it warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = call()
        except Exception as error:
            found = type(error), str(error)
    return found, [str(w.message) for w in seen]


def same(a, b):
    """Whether two results are the same in each bit, but for NaN's."""
    if isinstance(a, tuple):
        return a == b if not isinstance(a[0], np.ndarray) else all(map(same, a, b))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    signs = np.array_equal(np.signbit(a), np.signbit(b)) if a.dtype.kind == "f" else True
    nan = a.dtype.kind == "f"
    return np.array_equal(a, b, equal_nan=nan) and (signs or bool(np.isnan(a).any()))


def check(f, arr, axis=-1, *args, compiled=True, **kwargs):
    """Compare a function with NumPy's loop, twice; `compiled`: whether it has to be."""
    want, warned = caught(lambda: np.apply_along_axis(f, axis, arr, *args, **kwargs))
    for _ in range(2):
        got, also = caught(lambda: xpapply.apply_along_axis(f, axis, arr, *args, **kwargs))
        assert same(want, got), (want, got)
        assert set(also) == set(warned)
    if compiled and not isinstance(want, tuple):
        with xpapply.options(engine="cpu"):  # functions of whole arrays may run in blocks else
            got = xpapply.apply_along_axis(f, axis, arr, *args, **kwargs)
            plan = xpapply.explain(f, axis, arr, *args, **kwargs)
        assert same(want, got), (want, got)
        assert "one compiled loop" in plan.kernels[0]


@pytest.mark.parametrize("f", loop_functions.FUNCTIONS, ids=lambda f: f.__name__)
def test_as_the_loop(f):
    arr = RNG.standard_normal((7, 5, 12))
    arr = np.abs(arr) if f is loop_functions.logs else arr
    check(f, arr)
    check(f, arr[:, ::-1].transpose(2, 0, 1)[:, ::2], 0)
    check(f, numbers(40, 12), compiled=False)  # NaN's raise in some


@pytest.mark.parametrize("dtype", "float32 int64 int32 int8 uint8 uint16".split())
@pytest.mark.parametrize(
    "f",
    [
        loop_functions.longest_run, loop_functions.spikes, loop_functions.drawdown,
        loop_functions.mann_kendall, loop_functions.insertion_sort, loop_functions.rising,
        loop_functions.positive_sum, loop_functions.helped, loop_functions.garch,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_dtypes(f, dtype):
    check(f, numbers(30, 12, dtype=dtype), compiled=False)


def test_what_raises_is_raised_by_the_function():
    def inverse(v):
        s = 0.0
        for x in v:
            s += 1.0 / float(x)
        return s

    arr = np.ones((20, 4))
    check(inverse, arr)
    arr[13, 2] = 0.0
    with pytest.raises(ZeroDivisionError) as error:
        xpapply.apply_along_axis(inverse, 1, arr)
    assert "[13, :]" in "".join(error.value.__notes__)


def test_what_numpy_warns_of_is_warned_of():
    def inverse(v):
        s = 0.0
        for x in v:
            s += 1.0 / x
        return s

    arr = np.ones((20, 4))
    arr[13, 2] = 0.0
    check(inverse, arr, compiled=False)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        xpapply.apply_along_axis(inverse, 1, arr)
    with np.errstate(all="ignore"):
        check(inverse, arr)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_numpy_warns_of_is_warned_of_where_nobody_uses_it(dtype):
    """LLVM drops no remainder that nobody asks for: NumPy tells that it is invalid."""

    def f(v, k=0.5):
        for x in v:
            x % x.dtype.type(0.7)
        v[-1] // v.dtype.type(0.3)
        return k

    arr = np.ones((40, 6), dtype)
    check(f, arr)
    arr[13, 2] = np.inf
    assert caught(lambda: np.apply_along_axis(f, 1, arr))[1]
    check(f, arr, compiled=False)


def test_integers_grow_beyond_64_bits():
    def product(v):
        n = 1
        for x in v:
            n = n * int(x)
        return n % 1000003

    arr = RNG.integers(1, 9, (30, 10)).astype(float)
    arr[4] = 1e5
    check(product, arr)


def test_results_of_other_shapes_and_types():
    def some(v):
        found = []
        for x in v:
            if x > 0:
                found.append(x)
        return found

    check(some, np.ones((20, 3)))
    arr = np.ones((20, 3))
    arr[7, 1] = -1.0
    check(some, arr, compiled=False)

    def first(v):
        for i, x in enumerate(v):
            if x > 1:
                return i
        return 0.5

    arr = RNG.standard_normal((30, 6))
    arr[0, 0] = 5.0  # the first slice says that results are integers
    check(first, arr)


def test_many_marks_end_it():
    def inverse(v):
        s = 0.0
        for x in v:
            s += 1.0 / x
        return s

    arr = RNG.standard_normal((50, 40))
    arr[5:, 0] = 0.0
    with np.errstate(all="warn"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            want = np.apply_along_axis(inverse, 1, arr)
            assert same(want, xpapply.apply_along_axis(inverse, 1, arr))
        plan = xpapply.explain(inverse, 1, arr)
    assert "left to the function itself" in " ".join(plan.reasons)


def test_what_it_reaches_may_change():
    limit = 1.0
    table = np.array([1.0, 2.0])

    def count(v, factor=1.0):
        n = 0.0
        for x in v:
            if x > limit:
                n += factor * table[0]
        return n

    arr = RNG.standard_normal((40, 9))
    check(count, arr)
    limit = 0.0
    check(count, arr)
    table[0] = 5.0
    check(count, arr)
    table = np.array([7.0])
    check(count, arr)
    count.__defaults__ = (3.0,)
    check(count, arr)
    check(count, arr, -1, 2.0)
    check(count, arr, -1, factor=4.0)


class Counter:
    """Counts what is above a limit."""

    def __init__(self, limit):
        self.limit = limit

    def above(self, v):
        n = 0
        for x in v:
            n += self.is_above(x)
        return n

    def is_above(self, x):
        return 1 if x > self.limit else 0

    __call__ = above


def test_methods_partials_and_objects():
    arr = RNG.standard_normal((40, 9))
    one = Counter(0.5)
    check(one.above, arr)
    check(one, arr)
    one.limit = 1.0
    check(one, arr)
    check(one.above, arr)
    check(functools.partial(loop_functions.kalman, q=0.1), arr)
    first, second = (lambda v: sum(x for x in v if x > 0)), (lambda v: sum(x for x in v if x < 0))
    check(first, arr)
    check(second, arr)


def test_it_is_left_alone_where_it_must_be():
    def writes(v):
        for k in range(len(v)):
            v[k] = 0.0
        return 1.0

    arr, other = np.ones((20, 3)), np.ones((20, 3))
    xpapply.apply_along_axis(writes, 1, arr)
    np.apply_along_axis(writes, 1, other)
    assert same(arr, other)

    seen = []

    def remembers(v):
        for x in v:
            seen.append(x)
        return 1.0

    xpapply.apply_along_axis(remembers, 1, np.ones((20, 3)))
    assert len(seen) == 60


def test_without_source():
    space = {}
    exec("def f(v):\n    n = 0\n    for x in v:\n        n += x > 0\n    return n", space)
    check(space["f"], RNG.standard_normal((30, 5)), compiled=False)


def fraction(a, b):
    while b:
        a, b = b, a % b
    return a


def root(c, tolerance=1e-12):
    x = c
    for _ in range(100):
        d = (x * x - c) / (2 * x)
        x -= d
        if abs(d) < tolerance:
            break
    return x


def both(c, n):
    s = 0.0
    for k in range(n):
        s += c * k
    return s, n // 2


def test_vectorize():
    a, b = RNG.integers(1, 1000, (40, 1)), RNG.integers(1, 1000, 30)
    for f, given in ((fraction, (a, b)), (root, (b / 7,)), (both, (b / 3, b % 11 + 1))):
        want = np.vectorize(f)(*given)
        call = xpapply.vectorize(f)
        for _ in range(3):
            assert same(want, call(*given))
        if f is not both:  # which decides nothing: its trace is a kernel
            assert "one compiled loop" in call.explain(*given).kernels[0]


def test_the_plan_says_what_it_left():
    def logs(v):
        s = 0.0
        for x in v:
            s += math.log(x) if x > -1 else 0.0
        return s

    arr = np.abs(RNG.standard_normal((200, 5))) + 0.1
    check(logs, arr)
    arr[3, 3] = -0.5
    with pytest.raises(ValueError, match=r"math domain|expected a positive"):
        xpapply.apply_along_axis(logs, 1, arr)


def test_long_slices_and_threads():
    arr = RNG.standard_normal((3, 20000))
    check(loop_functions.drawdown, arr)
    many = RNG.standard_normal((30000, 6))
    with xpapply.options(threads=3):
        check(loop_functions.drawdown, many)


def _until(step):
    """A function that takes a step for each pair of neighbours, and may end early."""

    def f(v):
        s = 0.0
        for k in range(len(v) - 1):
            s = step(v[k], v[k + 1])
            if s > 100:
                break
        return s

    return f


def _of_table(x, y):
    return np.interp(x, np.array([-1.0, 0.0, 1.0]), np.array([-0.0, -0.0, y]))


@pytest.mark.parametrize(
    "step",
    [
        lambda x, y: np.maximum(x, y), lambda x, y: np.minimum(x, y), lambda x, y: max(x, y),
        lambda x, y: min(x, y), lambda x, y: np.sign(x), lambda x, y: np.floor(x) + np.rint(y),
        lambda x, y: sorted([x, y, x])[0], _of_table,
        lambda x, y: np.sort(np.array([x, y]))[0], lambda x, y: np.median(np.array([x, y, x])),
        lambda x, y: np.array([x, y]).max(), lambda x, y: np.array([x, y]).min(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeros_of_both_signs_and_nan(step, dtype):
    values = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf])
    with np.errstate(all="ignore"):
        check(_until(step), RNG.choice(values, (60, 4)).astype(dtype), compiled=False)


def test_names_of_one_array():
    def f(v):
        out = np.zeros(len(v))
        same, row = np.asarray(out), out[1:]
        for k in range(len(v)):
            same[k] += v[k]
            if v[k] > 0 and k:
                row[k - 1] = -1.0
        return out

    check(f, RNG.standard_normal((30, 6)))


@pytest.mark.parametrize("name", ["bisection", "cusum", "drawdown", "helped", "warping"])
def test_comparisons_with_nan_are_no_marks(name):
    """LLVM makes one instruction of a comparison and what it chooses, which notes NaN."""
    f, arr = getattr(loop_functions, name), RNG.standard_normal((40, 30))
    arr[:, ::7] = np.nan
    check(f, arr)
    plan = xpapply.explain(f, -1, arr)
    plan(arr)
    assert "of the last call" not in str(plan)


def test_nan_among_what_is_warned_of():
    """What NumPy warns of stays a mark, in slices with NaN too."""

    def f(v):
        best = v[0]
        for x in v:
            best = max(best, x)
            if x > 4:
                best = x - x * np.float64(np.inf) - v[0] * np.float64(np.inf)
        return best

    arr = RNG.standard_normal((200, 30))
    arr[::3, 5] = np.nan
    arr[::7, 9] = 5.0
    check(f, arr, compiled=False)


# --- when it is not compiled ----------------------------------------------------------------


def _halved(v):
    s = 0.0
    for x in v:
        s = s + x if x > 0 else 0.5 * s
    return s


def test_an_option_turns_it_off():
    arr = RNG.standard_normal((100, 6))
    check(_halved, arr)
    with xpapply.options(compile=False):
        plan = xpapply.explain(_halved, -1, arr)
        assert not any("compiled loop" in k for k in plan.kernels)
        assert "not compiled: compile=False is in force" in str(xpapply.explain(_counted, -1, arr))
        assert same(
            np.apply_along_axis(_halved, -1, arr), xpapply.apply_along_axis(_halved, -1, arr)
        )
    check(_halved, arr)


@pytest.mark.parametrize("how", ["settrace", "monitoring"])
def test_whoever_follows_its_lines_sees_them(how):
    arr, code = RNG.standard_normal((40, 20)), _halved.__code__
    check(_halved, arr)
    seen = set()
    if how == "settrace":
        if sys.gettrace() is not None:
            pytest.skip("something else follows lines")

        def follow(frame, event, arg):
            if frame.f_code is code:
                seen.add(id(frame))
            return None

        sys.settrace(follow)
        try:
            xpapply.apply_along_axis(_halved, -1, arr)
        finally:
            sys.settrace(None)
    else:
        tools = pytest.importorskip("sys").__dict__.get("monitoring")
        if tools is None or tools.get_tool(tools.DEBUGGER_ID):
            pytest.skip("needs Python 3.12, and no debugger")
        tools.use_tool_id(tools.DEBUGGER_ID, "ours")
        try:
            assert "compiled loop" not in str(xpapply.explain(_halved, -1, arr))
            assert "follows its lines" in str(xpapply.explain(_counted, -1, arr))
        finally:
            tools.free_tool_id(tools.DEBUGGER_ID)
        return
    assert len(seen) >= 1


def _counted(v):
    found = {}
    for x in v:
        found[str(x)] = found.get(str(x), 0) + 1
    return len(found)


def test_explain_says_what_compiling_waits_for():
    def slow(v):
        s = 0.0
        for x in v:
            s = 0.5 * s + x if x > 0 else s
        return s

    arr = RNG.standard_normal((6000, 14))
    with LIMITS.set(plan_worth=2e-3, typed_worth=100.0, paths=8):
        with xpapply.options(fallback="warn"):
            with pytest.warns(xpapply.FallbackWarning, match="once loops have taken"):
                xpapply.apply_along_axis(slow, -1, arr)
            said = str(xpapply.explain(slow, -1, arr))
            assert "compiled from its source once loops have taken" in said
            assert '; use xpapply.options(engine="cpu") to compile it at once' in said
        with xpapply.options(fallback="raise"):  # who wants no loop waits for none
            xpapply.apply_along_axis(slow, -1, arr)
            assert "compiled loop" in str(xpapply.explain(slow, -1, arr))
    assert "not compiled: " in str(xpapply.explain(_counted, -1, arr))


def test_a_short_loop_waits_no_longer_than_it_says():
    # what compiling takes is known better once the source is read: that begins no new wait
    def short(v):
        s = 0.0
        for x in v:
            s = 0.5 * s + x if x > 0 else s - 1.0
        return s

    arr = RNG.standard_normal((400, 40))
    waits = {"typed_worth": 1.0, "typed_waits": 3.0, "typed_compiling": 0.02}
    with LIMITS.set(plan_worth=0.0, paths=2, **waits), xpapply.options(fallback="silent"):
        began = time.process_time()
        for _ in range(400):
            xpapply.apply_along_axis(short, -1, arr)
            if "compiled loop" in str(xpapply.explain(short, -1, arr)):
                break
        assert "compiled loop" in str(xpapply.explain(short, -1, arr))
    assert time.process_time() - began < 60.0


def _closest(a, b):
    best = 1e9
    for x in a:
        for y in b:
            if abs(x - y) < best:
                best = abs(x - y)
    if best > 1.0:
        raise ValueError("far away")
    return best


def _both(a, b):
    up = down = 0
    for x, y in zip(a, b):  # noqa: B905  # as people write it
        if x > y:
            up += 1
        else:
            down += 1
    return up, down


@pytest.mark.parametrize(("f", "signature"), [(_closest, "(n),(m)->()"), (_both, "(n),(n)->(),()")])
@pytest.mark.parametrize("low", [0.0, 3.0])
def test_functions_of_a_signature(f, signature, low):
    """Whose results might be containers, which those of the first slice are not."""
    a, b = RNG.random((30, 40)), low * (np.arange(30)[:, None] > 20) + RNG.random((30, 40))
    ours = xpapply.vectorize(f, signature=signature)
    theirs = np.vectorize(f, signature=signature)
    with xpapply.options(engine="cpu"):
        assert "compiled loop" in str(ours.explain(a, b))
        found, warned = caught(lambda: ours(a, b))
    wanted, warned_by_loop = caught(lambda: theirs(a, b))
    assert warned == warned_by_loop
    assert same(found, wanted)


def _of_two_dtypes(v):
    count = 0
    for x in v:
        count += x > 1
    return count if v[0] > 0 else count + 0.5


def _of_two_shapes(v):
    n = 2 if v[0] > 0 else 3
    out = np.zeros(n)
    for i in range(n):
        out[i] = v[i]
    return out


def _of_lists(v):
    count = 0
    for x in v:
        count += x > 1
    return [1, count] if v[0] > 0 else [0.5, count]


def _that_writes(v):
    for i in range(len(v)):
        v[i] *= 2
    return 1 if v[0] > 0 else 0.5


@pytest.mark.parametrize("engine", ["", "cpu"])
@pytest.mark.parametrize("f", [_of_two_dtypes, _of_two_shapes, _of_lists, _that_writes])
def test_the_first_slice_of_each_call_says_what_results_are_like(f, engine):
    """Not that of the first call, for which the function was compiled."""
    above, below = np.ones((50, 6)), -np.ones((50, 6))
    arrays = [above, below, above, np.concatenate([above, below]), np.concatenate([below, above])]
    with xpapply.options(engine=engine, fallback="silent"):
        for arr in [*arrays, *arrays]:
            found = []
            for apply in (np.apply_along_axis, xpapply.apply_along_axis):
                mine = arr.copy()
                try:
                    found.append((apply(f, 1, mine), mine))
                except ValueError as error:
                    found.append((str(error), mine))
            (want, written), (got, mine) = found
            assert type(got) is type(want)
            np.testing.assert_array_equal(got, want)
            assert getattr(got, "dtype", 0) == getattr(want, "dtype", 0)
            if not isinstance(want, str):
                np.testing.assert_array_equal(mine, written)
    assert f is _of_two_shapes or "known once" in str(xpapply.explain(f, 1, above)) or not engine


def test_the_first_slice_says_it_of_a_signature_too():
    arr = np.ones((50, 6))
    for engine in ("cpu", ""):
        with xpapply.options(engine=engine, fallback="silent"):
            mine = xpapply.vectorize(_of_two_dtypes, signature="(n)->()")
            loop = np.vectorize(_of_two_dtypes, signature="(n)->()")
            for x in (arr, -arr, arr, -arr):
                got, want = mine(x), loop(x)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)


SETTINGS = ({"scale": 2.0}, {"scale": 3.0})


def test_a_computed_index_into_what_are_no_numbers():
    """It is refused with a reason, and nothing else is raised."""

    def f(v):
        s = 0.0
        for i in range(len(v)):
            s += v[i] * SETTINGS[i % 2]["scale"]
        return s

    arr = np.arange(60.0).reshape(20, 3)
    for engine in ("", "numpy"):
        with xpapply.options(engine=engine, fallback="silent"):
            got = xpapply.apply_along_axis(f, 1, np.repeat(arr, 200, 0))
            np.testing.assert_array_equal(got, np.repeat(np.apply_along_axis(f, 1, arr), 200))
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))


def test_what_a_function_is_tried_on():
    """Numbers stay numbers: what arrays without axes give may be of another type."""
    from xpapply.planning.python.typed_loop import TypedLoop

    row = np.arange(3.0)
    copy, number = TypedLoop.copies((row, np.float32(2)))
    assert type(number) is np.float32
    assert not np.shares_memory(copy, row)
    np.testing.assert_array_equal(copy, row)


@pytest.mark.parametrize("called", ["longest", "helpers.longest"])
def test_loops_of_helpers_in_another_file_of_the_users(called, tmp_path, monkeypatch):
    name = "loops_" + called.replace(".", "_")
    helper = "def longest(v):\n    n = 0\n    for x in v:\n        n = n + 1 if x > 0 else 0\n"
    (tmp_path / f"{name}_helpers.py").write_text(helper + "    return n\n")
    imports = f"import {name}_helpers as helpers\nfrom {name}_helpers import longest\n"
    (tmp_path / f"{name}.py").write_text(f"{imports}def f(v):\n    return {called}(v)\n")
    monkeypatch.syspath_prepend(tmp_path)
    f = importlib.import_module(name).f
    x = RNG.standard_normal((60, 12))
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(f, 1, x).kernels[0].startswith("one compiled loop")
        assert np.array_equal(xpapply.apply_along_axis(f, 1, x), np.apply_along_axis(f, 1, x))


DESIGN = np.stack([np.ones(12), np.arange(12.0), RNG.standard_normal(12)], 1)


def rows_by_a_mask(v):
    there = v > -0.5
    x, y = DESIGN[there], v[there]
    s = 0.0
    for k in range(len(y)):
        s += x[k, 1] * y[k] - x[k, 2]
    return s + x.sum()


def rows_by_places(v):
    last = DESIGN[np.argsort(v)]
    s = 0.0
    for k in range(len(v)):
        s = 0.5 * s + last[k, 2] * v[k]
    return np.array([s, *last[-1]])


@pytest.mark.parametrize("f", [rows_by_a_mask, rows_by_places])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_that_are_chosen(f, order, monkeypatch):
    monkeypatch.setitem(f.__globals__, "DESIGN", np.asarray(DESIGN, order=order))
    x = RNG.standard_normal((60, 12))
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(f, 1, x).kernels[0].startswith("one compiled loop")
        got = xpapply.apply_along_axis(f, 1, x)
    assert np.array_equal(got, np.apply_along_axis(f, 1, x))


def test_a_mask_that_is_too_short():
    def f(v):
        s = 0.0
        for k in range(3):
            s += v[k]
        first = 1 if v[0] > 9 else 0
        return s + DESIGN[v[first:] > 0].sum()

    x = RNG.standard_normal((30, 12))
    x[20, 0] = 10.0
    with xpapply.options(engine="cpu"), pytest.raises(IndexError, match="boolean index"):
        xpapply.apply_along_axis(f, 1, x)
