"""Python functions of NumPy arrays as one kernel: what the loop gives, with NumPy's warnings."""

import contextlib
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.errors import UnsupportedError
from xpapply.frontends.python.run.rows import Rows
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

pytest.importorskip("llvmlite")

W = np.linspace(-1, 2, 9)
FUNCTIONS = {
    "standardize": lambda v: (v - v.mean()) / v.std(),
    "softmax": lambda v: np.exp(v - v.max()) / np.exp(v - v.max()).sum(),
    "logsumexp": lambda v: np.log(np.exp(v - v.max()).sum()) + v.max(),
    "norm": lambda v: np.sqrt((v * v).sum()),
    "weighted": lambda v: (v * W).sum() / W.sum(),
    "tanh": lambda v: np.tanh(1 / v),
    "chosen": lambda v: np.where(v > 0, np.log(v), 0),
    "kept": lambda v: v.sum(keepdims=True) / 3,
    "place": lambda v: v.argmax(),
    "range": lambda v: (v.max() - v.min()) / (v.max() + v.min()),
    "mean of positive": lambda v: v[v > 0].mean(),
    "deviation of finite": lambda v: v[np.isfinite(v)].std(),
    "deviation of a sample": lambda v: v[v > 1].std(ddof=1),
    "extremes": lambda v: v[v > 1.5].max() - v[v < 5].min(),
    "logarithms": lambda v: np.log(v[v > 0]).sum(),
    "how many": lambda v: v[v > 0].size,
    "share": lambda v: v[v > 1].sum() / len(v[v > 1]),
    "count": lambda v: np.count_nonzero(v > 1),
    "sum of conditions": lambda v: (v > 1).sum(),
    "any": lambda v: (v > 2).any(),
    "all": lambda v: np.all(v > 0),
    "nanmean": lambda v: np.nanmean(v),
    "nanstd": lambda v: np.nanstd(v, ddof=1),
    "nanmax": lambda v: np.nanmax(v),
    "nansum": np.nansum,
}
SUMS = [
    FUNCTIONS[n] for n in ("weighted", "kept", "mean of positive", "share", "nansum", "nanmean")
]
OF_INTEGERS = {
    "sum": lambda v: v.sum(),
    "product": lambda v: v.prod(),
    "mean": lambda v: v.mean(),
    "extremes": lambda v: v.max() - v.min(),
    "squares": lambda v: (v * v).sum(),
    "distances": lambda v: np.abs(v - v[0]),
    "scaled": lambda v: v / 7,
    "minus": lambda v: -v,
    "compared": lambda v: (v > 3).sum() + (v == 2).sum(),
    "beyond": lambda v: (v < 300).sum(),
    "below": lambda v: (v > -1).sum(),
    "chosen": lambda v: np.where(v > 2, v, 0),
    "clipped": lambda v: np.clip(v, 1, 5),
    "place": lambda v: v.argmin(),
    "centred": lambda v: v - v.mean(),
    "halves": lambda v: v * 0.5,
    "both": lambda v: ((v > 1) & (v < 4)).any(),
    "cubes": lambda v: v**3,
    "fourth powers": lambda v: v**4,
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 3.5, 1e-30, 1e20, -3e38, 3e38, np.inf, -np.inf, np.nan, 100.0]


def both(f, axis, x):
    """What the loop gives and what the kernel gives, each with its warnings."""
    found = []
    for run in (np.apply_along_axis, xpapply.apply_along_axis):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                result = run(f, axis, x)
            except ValueError as error:
                result = str(error)
            except UnsupportedError as error:  # where its first slice raises, and it was forgotten
                result = str(error).partition("it raises ValueError: ")[2] or str(error)
            found.append((result, {(w.category, str(w.message)) for w in seen}))
    return found


def compare(f, axis, x):
    (want, warned), (got, warns) = both(f, axis, x)
    if isinstance(want, str):
        assert got == want
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    eps = np.finfo(x.dtype).eps
    finite = np.abs(x[np.isfinite(x)]).max(initial=0) if f in SUMS else 1
    # numbers that cancel are added in another order
    np.testing.assert_allclose(got, want, rtol=100 * eps, atol=100 * eps * finite)
    assert warns == warned


@pytest.fixture(autouse=True)
def compiled():
    with xpapply.options(engine="cpu"):
        yield


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ordinary_slices(f, axis, dtype):
    shape = [5, 7, 3]
    shape[axis] = 9
    x = np.random.default_rng(0).uniform(0.5, 3, shape).astype(dtype)
    assert xpapply.explain(f, axis, x).engine == "cpu"
    compare(f, axis, x)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@given(data=st.data())
def test_infinities_zeros_and_nan(f, data):
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    rows = st.lists(st.sampled_from(NUMBERS), min_size=9, max_size=9)
    special = data.draw(st.lists(rows, min_size=1, max_size=4))
    many = data.draw(st.sampled_from([0, 3, 40]))
    x = np.array(special + [[*range(1, 10)]] * many, dtype)
    x = x[data.draw(st.permutations(range(len(x))))]
    if len(x) > 1:
        compare(f, 1, x)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "uint64", "bool"])
@pytest.mark.parametrize("f", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_integers(f, dtype, plan_always):
    rng = np.random.default_rng(2)
    limits = np.iinfo(dtype) if dtype != "bool" else None
    x = rng.integers(0, 9, (50, 9)).astype(dtype)
    if limits is not None:
        x[:10] = rng.integers(limits.min, limits.max, (10, 9), dtype=dtype, endpoint=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = np.apply_along_axis(f, 1, x)
    except (TypeError, OverflowError) as error:
        with pytest.raises(type(error)), xpapply.options(engine=""):
            xpapply.apply_along_axis(f, 1, x)
        return
    with xpapply.options(engine=""):  # some have no kernel
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = xpapply.apply_along_axis(f, 1, x)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-12)
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    with xpapply.options(engine="cpu"):
        call = None if traced is None else traced.ways[0].call_for(Rows(x, 1))
        if call is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = traced(Rows(x, 1), f)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["mean of positive", "extremes", "nanmax", "deviation of a sample"]
)
def test_nothing_in_the_mask(name):
    """NumPy warns or raises, at the slice that it is."""
    x = np.random.default_rng(3).uniform(0.5, 3, (60, 9))
    x[23] = np.nan if name == "nanmax" else 1 if name == "extremes" else -1
    compare(FUNCTIONS[name], 1, x)
    if name == "extremes":
        with pytest.raises(ValueError, match="zero-size") as error:
            xpapply.apply_along_axis(FUNCTIONS[name], 1, x)
        assert "arr[23, :]" in "".join(getattr(error.value, "__notes__", []))


def test_errors_are_raised_as_by_the_loop():
    x = np.ones((40, 9))
    x[17, 3] = 0
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as error:
        xpapply.apply_along_axis(lambda v: 1 / v, 1, x)
    assert "arr[17, :]" in "".join(getattr(error.value, "__notes__", []))


def test_where_errors_are_ignored_the_kernel_says_all():
    x = np.zeros((40, 9))
    with np.errstate(all="ignore"):
        got = xpapply.apply_along_axis(lambda v: 1 / v, 1, x)
    assert np.isposinf(got).all()


def test_underflow_that_counts_is_left_to_numpy():
    x = np.full((40, 9), 1e-200)
    state = np.errstate(under="raise")
    with xpapply.options(engine=""), state, pytest.raises(FloatingPointError):
        xpapply.apply_along_axis(lambda v: v * v, 1, x)


def test_marked_slices_alone_run_by_calls():
    f = FUNCTIONS["standardize"]
    x = np.random.default_rng(1).normal(size=(1000, 9))
    x[::10] = 3  # no deviation
    (want, warned), (got, warns) = both(f, 1, x)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    assert np.isnan(got[::10]).all()
    assert warns == warned
    assert warned


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeros_that_are_limits_have_the_sign_that_numpy_gives_them(dtype):
    x = np.tile(np.array([0.0, -0.0, 1, -1], dtype), (40, 3))
    for f in (
        lambda v: np.clip(v, 0, 2),
        lambda v: np.clip(v, -1, 0.0),
        lambda v: v.clip(-0.0, 2),
        lambda v: v.clip(0, None),
        lambda v: np.maximum(v, -0.0),
        lambda v: np.minimum(0.0, v),
    ):
        want = np.apply_along_axis(f, 1, x)
        got = xpapply.apply_along_axis(f, 1, x)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("exponent", [3, 4])
def test_powers_of_half_precision_are_rounded_once(exponent):
    x = np.random.default_rng(2).normal(size=(3000, 8)).astype("float16")
    want = np.apply_along_axis(lambda v: v**exponent, 1, x)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(lambda v: v**exponent, 1, x)
    np.testing.assert_array_equal(got, want)


def test_making_a_kernel_warns_of_nothing():
    """70,004 is no float16, but that is no matter of the caller's."""
    x = np.random.default_rng(0).integers(-9, 10, size=(2, 70_004)).astype(np.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            got = xpapply.apply_along_axis(lambda v: v.mean() * 2, 0, x.T)
    np.testing.assert_allclose(got, x.mean(1) * 2, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.insert(v, 0, 0),
        lambda v: np.insert(v, 0, 0.0),
        lambda v: np.insert(v, 2, 2.7),
        lambda v: np.insert(v, [1, 3], [4, 5.5]),
        lambda v: np.insert(v, 1, v[3])[:3],
        lambda v: np.insert(v, 1, v.mean())[:3],
        lambda v: np.insert(v, 1, [v[0], 2])[:3],
        lambda v: np.insert(W, 1, v[0]),
        lambda v: np.append(v, 0),
        lambda v: np.hstack([v, 1.5]),
    ],
)
def test_what_is_inserted_has_the_dtype_of_the_array(f, dtype):
    x = (np.random.default_rng(0).normal(size=(300, 9)) * 50).astype(dtype)
    if dtype == "u8":
        x += np.uint64(2**63)  # which no float64 holds
    want = np.apply_along_axis(f, -1, x)
    for engine in ("cpu", ""):
        with (
            xpapply.options(engine=engine, fallback="silent"),
            contextlib.suppress(xpapply.UnsupportedError),
        ):
            got = xpapply.apply_along_axis(f, -1, x)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("catch", [False, True])
def test_no_kernel_where_numpy_shall_raise(catch):
    def f(v):
        with np.errstate(divide="raise"):
            if not catch:
                return (1 / v).sum()
            try:
                return (1 / v).sum()
            except FloatingPointError:
                return -1.0

    x = np.random.default_rng(0).normal(size=(300, 9)) + 9
    with (
        xpapply.options(engine="cpu"),
        pytest.raises(xpapply.UnsupportedError, match=r"numpy\.errstate"),
    ):
        xpapply.apply_along_axis(f, -1, x)


@pytest.mark.parametrize(
    ("f", "shape", "dtype"),
    [
        (lambda v: all(x > -2 for x in v), (300, 6), "u1"),
        (lambda v: v[: len(v) // 2 * 2].reshape(-1, 2).mean(1), (300, 1), "f8"),
    ],
    ids=["a constant", "nothing"],
)
@pytest.mark.usefixtures("by_trace")
def test_results_that_are_no_work(f, shape, dtype):
    x = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    want = np.apply_along_axis(f, -1, x)
    with xpapply.options(engine=""):
        for _ in range(3):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, x), want)
        assert "raises" not in str(xpapply.explain(f, -1, x))
    with xpapply.options(engine="cpu"), pytest.raises(xpapply.UnsupportedError):
        xpapply.apply_along_axis(f, -1, x)
