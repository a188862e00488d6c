"""``options(fill=...)``: results that are not equally long, and how long they are."""

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.limits import LIMITS

RNG = np.random.default_rng(0)
ARR = RNG.normal(size=(5, 8, 60))
ARR[2, 3] = -1.0  # nothing is above 0 in it

pytestmark = pytest.mark.usefixtures("plan_always")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No loop runs before a plan is made."""
    monkeypatch.setattr(LIMITS, "first_loops", 0.0)


def above(v):
    return v[v > 0]


def peaks(v):
    return np.flatnonzero((v[1:-1] > v[:-2]) & (v[1:-1] > v[2:])) + 1


def runs(v):
    found = []
    n = 0
    for x in v:
        if x > 0:
            n += 1
        elif n:
            found.append(n)
            n = 0
    if n:
        found.append(n)
    return found


def three_times(v):
    return np.repeat(v[v > 0], 3)


def more_than(v, least, *, scale=1.0):
    return v[v > least] * scale


def distinct(v):
    return np.unique(np.round(v))


def as_loop(f, axis, arr, fill, *args, **kwargs):
    """The same by hand."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(a % arr.ndim for a in axes)
    rest = [a for a in range(arr.ndim) if a not in axes]
    rows = arr.transpose(*rest, *axes)
    batch = rows.shape[: len(rest)]
    found = [np.asarray(f(rows[i], *args, **kwargs)) for i in np.ndindex(batch)]
    longest = max(map(len, found))
    values = np.full((len(found), longest), fill, np.result_type(found[0].dtype, fill))
    for row, one in zip(values, found, strict=True):
        row[: len(one)] = one
    at = sum(a < axes[0] for a in rest)
    values = np.moveaxis(values.reshape(*batch, longest), -1, at)
    return values, np.reshape([*map(len, found)], batch)


@pytest.mark.parametrize("fill", [np.nan, 0, -1.5])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("f", [above, peaks, runs, three_times, distinct])
@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
def test_results_are_filled_up(f, axis, fill):
    arr = ARR if axis == -1 else ARR[..., :12]
    wanted, lengths = as_loop(f, axis, arr, fill)
    with xpapply.options(fill=fill):
        for _ in range(2):
            values, found = xpapply.apply_along_axis(f, axis, arr)
            assert (values.dtype, found.dtype) == (wanted.dtype, np.dtype(np.intp))
            np.testing.assert_array_equal(values, wanted)
            np.testing.assert_array_equal(found, lengths)


def test_several_axes_and_further_arguments():
    wanted, lengths = as_loop(lambda p: p[p > 0], (0, 2), ARR, np.nan)
    with xpapply.options(fill=np.nan, fallback="silent"):
        values, found = xpapply.apply_along_axis(lambda p: p[p > 0], (0, 2), ARR)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(found, lengths)
        values, found = xpapply.apply_along_axis(more_than, -1, ARR, 0.5, scale=2.0)
    wanted, lengths = as_loop(more_than, -1, ARR, np.nan, 0.5, scale=2.0)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(found, lengths)


@pytest.mark.parametrize("f", [above, runs])
def test_they_run_at_once(f, by_source):
    with xpapply.options(fill=np.nan, fallback="raise"):
        assert xpapply.explain(f, -1, ARR).vectorized
        xpapply.apply_along_axis(f, -1, ARR)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex64"])
def test_dtypes(dtype):
    arr = (np.arange(40).reshape(4, 10) % 7).astype(dtype)

    def some(v):
        return v[v != v[0]]

    for fill in (0, np.nan) if dtype != "uint64" else (0,):
        wanted, lengths = as_loop(some, 1, arr, fill)
        with xpapply.options(fill=fill, fallback="silent"):
            values, found = xpapply.apply_along_axis(some, 1, arr)
        assert values.dtype == wanted.dtype
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(found, lengths)


def test_lists_and_nothing_at_all():
    with xpapply.options(fill=0):
        values, lengths = xpapply.apply_along_axis(above, 1, [[1.0, -1.0], [2.0, 3.0]])
        assert values.tolist() == [[1.0, 0.0], [2.0, 3.0]]
        assert lengths.tolist() == [1, 2]
        values, lengths = xpapply.apply_along_axis(above, 1, -np.ones((3, 2)))
        assert values.shape == (3, 0)
        assert lengths.tolist() == [0, 0, 0]


def test_numbers_that_the_results_cannot_be():
    arr = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with xpapply.options(fill=np.int64(255), fallback="silent"):
        values, _ = xpapply.apply_along_axis(lambda v: v[v > 6], 1, arr)
    assert values.dtype == np.uint8
    assert values[0].tolist() == [255] * 4
    with (
        xpapply.options(fill=-1),
        pytest.raises(xpapply.InputError, match=r"fill=-1 .* uint8, the dtype of the results"),
    ):
        xpapply.apply_along_axis(lambda v: v[v > 6], 1, arr)


def test_what_a_function_writes_into_its_slices():
    def doubled(v):
        v *= 2
        return v[v > 2]

    mine, theirs = ARR.copy(), ARR.copy()
    wanted, lengths = as_loop(doubled, -1, theirs, np.nan)
    with xpapply.options(fill=np.nan, fallback="silent"):
        values, found = xpapply.apply_along_axis(doubled, -1, mine)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(found, lengths)
    np.testing.assert_array_equal(mine, theirs)


def test_the_option_ends_with_its_block_and_does_not_reach_into_the_function():
    def inner(v):
        return xpapply.apply_along_axis(np.max, 1, v.reshape(2, -1))[: int(v[0] > 0) + 1]

    with xpapply.options(fill=np.nan, fallback="silent"):
        values, _ = xpapply.apply_along_axis(inner, -1, ARR)
    assert values.shape == (5, 8, 2)
    assert xpapply.apply_along_axis(np.max, -1, ARR).shape == (5, 8)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize(
    ("late", "said"),
    [
        (lambda v: v.sum(), r"ndarray \(\) float64"),
        (lambda v: v[:6].reshape(2, 3), r"ndarray \(2, 3\) float64"),
        (lambda v: None, "None"),
        (lambda v: ["a"], "a list of 1"),
        (lambda v: "abc", "'abc'"),
    ],
)
def test_a_later_slice_for_which_it_is_not_is_told_of(late, said, loops):
    x = np.random.default_rng(0).normal(size=(50, 8))
    x[:, 0] = -1.0
    x[40, 0] = 1.0

    def f(v):
        if v[0] > 0:
            return late(v)
        return v[v > 0]

    text = rf"one axis of numbers: .*f gave {said}"
    with (
        LIMITS.set(**({} if loops else {"few_slices": 0, "plan_worth": 0})),
        xpapply.options(fill=0.0, fallback="silent", engine="loop" if loops else ""),
    ):
        for _ in range(2):
            with pytest.raises(xpapply.InputError, match=text) as caught:
                xpapply.apply_along_axis(f, 1, x)
            assert caught.value.__notes__ == ["raised at the slice arr[40, :]"]


def test_what_f_raises_itself_stays():
    def f(v):
        return v[v > 0] if v[0] < 0 else len(1)

    x = np.random.default_rng(0).normal(size=(50, 8))
    x[0, 0] = -1.0
    with xpapply.options(fill=0.0), pytest.raises(TypeError, match="has no len"):
        xpapply.apply_along_axis(f, 1, x)


def test_what_it_is_not_for():
    net = xpapply.MLP([np.ones((2, 60))])
    with xpapply.options(fill=0.0):
        with pytest.raises(xpapply.InputError, match=r"one axis of numbers: max gave .* \(\)"):
            xpapply.apply_along_axis(np.max, -1, ARR)
        with pytest.raises(xpapply.InputError, match="one axis of numbers"):
            xpapply.apply_along_axis(lambda v: ["a"], -1, ARR)
        with pytest.raises(xpapply.InputError, match=r"plain arrays of NumPy.*MaskedArray"):
            xpapply.apply_along_axis(above, -1, np.ma.masked_less(ARR, 0))
        with pytest.raises(xpapply.InputError, match="without out="):
            xpapply.apply_along_axis(above, -1, ARR, out=ARR)
        with pytest.raises(xpapply.InputError, match=r"plain arrays of NumPy.*Tensor"):
            xpapply.apply_along_axis(above, -1, library("torch").asarray(ARR))
        with pytest.raises(ValueError, match="any iteration dimensions are 0"):
            xpapply.apply_along_axis(above, -1, ARR[:0])
        values, lengths = xpapply.apply_along_axis(net, -1, ARR)
        assert values.shape == (5, 8, 2)
        assert (lengths == 2).all()
    with pytest.raises(xpapply.InputError, match="fill='x': use a number"):
        xpapply.options(fill="x")


def test_what_the_function_raises():
    def picky(v):
        if v[0] == -1:
            raise KeyError("this one")
        return v[v > 0]

    with xpapply.options(fill=0.0, fallback="silent"), pytest.raises(KeyError) as raised:
        xpapply.apply_along_axis(picky, -1, ARR)
    assert raised.value.__notes__ == ["raised at the slice arr[2, 3, :]"]


def drawn(rng, seen):
    return lambda v: v[v > v[rng.integers(0, 4)]]


def of_drawn_lengths(rng, seen):
    return lambda v: rng.random(int(rng.integers(1, 4)))


def longer_later(rng, seen):
    return lambda v: rng.random(3 if v.min() < 20 else 50)


def of_an_object(rng, seen):
    class Model:
        def __init__(self):
            self.rng = rng

        def some(self, v):
            n = 1
            for x in v.ravel():
                n += x > self.rng.random() * 400
            return v.ravel()[:n]

    return Model().some


def noted(rng, seen):
    def f(v):
        seen.append(float(v.min()))
        return v.ravel()[: len(seen) % 5]

    return f


def counted(rng, seen):
    n = 0

    def f(v):
        nonlocal n
        n += 1
        seen[:] = [n]
        return v.ravel()[: n % 5]

    return f


def writing(rng, seen):
    def f(v):
        v += rng.random()
        return v[v > 200].tolist()

    return f


MADE = [drawn, of_drawn_lengths, longer_later, of_an_object, noted, counted, writing]
ROWS = np.arange(400.0).reshape(10, 10, 4)


@pytest.mark.parametrize("axis", [-1, 0, (2, 1)])
@pytest.mark.parametrize("make", MADE)
@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
def test_calls_are_those_of_the_loop(make, axis):
    def outcome(apply):
        rng, seen, arr = np.random.default_rng(3), [], ROWS.copy()
        f = make(rng, seen)
        with xpapply.options(fill=np.nan):
            found = [apply(f, axis, arr) for _ in range(3)]
        return [[x.tolist() for x in both] for both in found], seen, rng.random(), arr.tolist()

    wanted = outcome(lambda *given: as_loop(*given, np.nan))
    np.testing.assert_equal(outcome(xpapply.apply_along_axis), wanted)


@pytest.mark.parametrize("make", MADE)
def test_explain_leaves_no_trace(make):
    rng, seen, arr = np.random.default_rng(3), [], ROWS.copy()
    with xpapply.options(fill=np.nan):
        plan = xpapply.explain(make(rng, seen), -1, arr)
    assert not plan.vectorized
    assert rng.random() == np.random.default_rng(3).random()
    assert not seen
    assert (arr == ROWS).all()


class Proxy:
    """One that knows nothing while there is no context, as those of web frameworks."""

    def __getattr__(self, name):
        raise RuntimeError("no context")

    def __call__(self, v):
        return v[0]


class Drawing:
    generator = None

    def some(self, v):
        return DRAWN.random(int(DRAWN.integers(1, 4)))


HELD, DRAWN = [Proxy()], np.random.default_rng(0)
FIRST, SECOND, THIRD, FOURTH, FIFTH = np.ones((5, 4))


def test_whatever_a_function_names():
    x = RNG.standard_normal((40, 4))

    def proxied(v):
        return np.append(v[v > 0], HELD[0](v))

    def seeded(v):  # NumPy may be the last of what it names
        n = int(np.random.default_rng(0).integers(1, 3))
        return v[:n] + FIRST[:n] + SECOND[:n] + THIRD[:n] + FOURTH[:n] + FIFTH[:n]

    for f in (proxied, seeded):
        with xpapply.options(fill=0.0, fallback="silent"):
            values, lengths = xpapply.apply_along_axis(f, 1, x)
        for row, n, v in zip(values, lengths, x, strict=True):
            np.testing.assert_array_equal(row[:n], f(v))


def test_methods_that_draw_are_called_as_often_as_in_the_loop():
    x, state = np.zeros((40, 4)), DRAWN.bit_generator.state
    want = [Drawing().some(v) for v in x]
    after, DRAWN.bit_generator.state = DRAWN.random(), state
    with xpapply.options(fill=0.0, fallback="silent"):
        values, lengths = xpapply.apply_along_axis(Drawing().some, 1, x)
    for row, n, y in zip(values, lengths, want, strict=True):
        np.testing.assert_array_equal(row[:n], y)
    assert DRAWN.random() == after
