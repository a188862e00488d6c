"""Functions that decide by the data as one kernel: each slice has the result of its own path."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.frontends.python.run.rows import Rows
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("by_trace")


def normalized(v):
    s = v.std()
    if s == 0:
        return v * 0
    return (v - v.mean()) / s


def root(v):
    total = v.sum()
    if total < 0:
        return -np.sqrt(-total)
    return np.sqrt(total)


def three_ways(v):
    if v.max() > 2:
        if v.min() < -1:
            return v / v.max()
        return np.log1p(np.abs(v))
    return v - v.mean()


def or_zero(v):
    good = np.isfinite(v)
    if not good.any():
        return 0.0
    return v[good].mean()


def clamped(v):
    return v if v.max() < 1 else v / v.max()


def raises(v):
    if v.min() < -2.5:
        raise ValueError("below")
    return v.sum()


def caught(v):
    try:
        return v[v > 1].max()
    except ValueError:
        return v.min()


def chained(v):
    m = v.mean()
    return 1.0 if m > 0.3 and v[v > m].size > 4 else m


FUNCTIONS = [three_ways, or_zero, clamped, raises, normalized, root]
OTHERS = [caught, chained]
"""What catches exceptions, or has results of several kinds, has no kernel."""
NUMBERS = [0.0, -0.0, 1.0, -1.0, 3.5, -3.0, 1e20, np.inf, -np.inf, np.nan, 0.5, 2.0]


@pytest.fixture(autouse=True)
def compiled(request):
    own = "f" in request.fixturenames and request.getfixturevalue("f") in OTHERS
    with xpapply.options(engine="" if own else "cpu", fallback="silent"):
        yield


def outcome(run, f, axis, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run(f, axis, x)
        except (ValueError, FloatingPointError) as error:
            return str(error), getattr(error, "__notes__", None), None
    return found, None, {(w.category, str(w.message)) for w in seen}


def compare(f, axis, x):
    want, _, warned = outcome(np.apply_along_axis, f, axis, x)
    for _ in range(3):  # the kernel is made anew with the paths that were found
        got, notes, warns = outcome(xpapply.apply_along_axis, f, axis, x)
        if isinstance(want, str):
            assert got == want
            assert notes
            continue
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
        assert warns == warned


@pytest.mark.parametrize("f", FUNCTIONS + OTHERS)
@pytest.mark.parametrize("axis", [0, 1])
def test_ordinary_slices(f, axis):
    shape = [400, 8] if axis else [8, 400]
    x = np.random.default_rng(0).normal(size=shape)
    if axis:
        x[::7] = 0.25
        x[3::11] *= 5
        x[5::13] = np.nan if f is or_zero else -1
    compare(f, axis, x)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_kernels_run(f):
    """No slice of an ordinary array is left to NumPy's calls, once its path is known."""
    x = np.random.default_rng(1).normal(size=(600, 8)).clip(-2.4)
    x[::5] *= 0.1
    xpapply.apply_along_axis(f, 1, x)
    xpapply.apply_along_axis(f, 1, x)
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    call = traced.ways[0].call_for(Rows(x, 1))
    assert call is not None, traced.ways[0].why_not(None)
    assert call.engine == "cpu"
    _, marked = call.kernel(call, Rows(x, 1))
    assert marked.mean() < 0.05


@pytest.mark.parametrize("f", FUNCTIONS + OTHERS)
@given(data=st.data())
def test_special_numbers(f, data):
    rows = st.lists(st.sampled_from(NUMBERS), min_size=6, max_size=6)
    x = np.array(data.draw(st.lists(rows, min_size=2, max_size=30)))
    compare(f, 1, x)


@pytest.mark.parametrize("f", [normalized, lambda v: np.where(v > v.mean(), 1.0, 0.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_rounding_decides_numpy_decides(f, dtype):
    """The mean of equal numbers is one of them, or off by a bit: as the order of sums has it."""
    x = np.random.default_rng(3).uniform(-9, 9, (500, 1)) * np.ones(23)
    x = x.astype(dtype)
    want = np.apply_along_axis(f, 1, x)
    with xpapply.options(engine=""):
        for _ in range(3):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, x), want)


def marked_first(v):
    return 1 if v.max() > 100 else v.sum()


def other_shape(v):
    return v.max() if v.max() > 100 else v - v.mean()


def unused(v):
    np.log(v)
    return v.sum()


def unused_on_a_path(v):
    a = np.log(v)
    return 0.0 if v.min() <= 0 else a.sum()


def lost_maximum(v):
    v[v > 0].max()
    return v.sum()


def own_errstate(v):
    with np.errstate(under="raise"):
        return np.exp(v).sum()


def sample_of_few(v):
    return v.var(ddof=10) if v.max() > 1 else v.sum()


def unused_element(v):
    np.log(v)[0]
    return v.sum() if v.max() > 0 else v.min()


TRAPS = {
    "unused element of what warns": (unused_element, {}),
    "dtype of a marked slice": (marked_first, {5: 200, 12: np.nan}),
    "shape of a marked slice": (other_shape, {k: 200 + k for k in range(1, 9)}),
    "unused warning": (unused, {}),
    "unused on one path": (unused_on_a_path, {}),
    "counted, not looked at": (lambda v: (1 / v)[v > -1].size, {5: 0}),
    "unused exception": (lost_maximum, {7: -1}),
    "underflow inside": (own_errstate, {9: -800}),
    "more degrees of freedom than numbers": (sample_of_few, {}),
    "product of a mask": (lambda v: (v[v > 0] * 2).prod(), {0: 2, 399: 3}),
    "place of a rounded number": (lambda v: np.argmax(np.abs(v - v.mean())), {}),
    "angle of sums": (lambda v: np.arctan2(np.sin(v).mean(), np.cos(v).mean()), {}),
    "root of what cancels": (lambda v: np.sqrt((v * v).mean() - v.mean() ** 2), {3: 0.1, 4: 0.7}),
    "logarithm of what cancels": (lambda v: np.log(abs(v.sum())), {}),
    "quotient of what cancels": (lambda v: v / v.sum(), {}),
    "sum that overflows": (lambda v: v.sum(), {}),
    "clipped beyond the dtype": (lambda v: np.clip(v, 0, 300), {}),
}


@pytest.mark.parametrize(("f", "changed"), TRAPS.values(), ids=TRAPS)
def test_what_kernels_must_not_decide(f, changed):
    """Each of these gave another answer than the loop once."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 8))
    near = rng.integers(-4, 4, (400, 4)) / 4
    if "cancels" in str(f.__code__.co_consts) or changed == {}:
        x[::3, :4], x[::3, 4:] = near[::3] + 0.1, -(near[::3] + 0.1)
    x[100] = [1e308] * 4 + [-1e308] * 4
    others = x.copy()
    for k, value in changed.items():
        x[k] = value
    with xpapply.options(engine="", fallback="silent"):
        for y in (others, x, x, x):
            want, _, warned = outcome(np.apply_along_axis, f, 1, y)
            got, _, warns = outcome(xpapply.apply_along_axis, f, 1, y)
            if isinstance(want, str):
                assert got == want
                continue
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
            assert warns == warned


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_constants_that_the_dtype_does_not_have(dtype):
    """NumPy warns of each."""
    x = np.random.default_rng(5).normal(size=(60, 8)).astype(dtype)
    for f in (lambda v: v < 1e300, lambda v: np.where(v > 0, v, -1e300), lambda v: v.clip(-1e300)):
        with xpapply.options(engine=""):
            compare(f, 1, x)


def test_the_first_slice_fixes_the_dtype():
    f = lambda v: 1 if v.sum() > 0 else 2.5  # noqa: E731
    x = np.random.default_rng(2).normal(size=(200, 8))
    for first in (1, -1):
        x[0] = first
        with xpapply.options(engine=""):
            got = xpapply.apply_along_axis(f, 1, x)
        want = np.apply_along_axis(f, 1, x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def steps(v):
    m = v.max()
    for k in range(1, 31):
        if m < k / 31:
            return k * 0.5
    return -1.0


def grown(v):
    """A tree of up to 64 leaves."""
    at = 2 if v.max() > 0.5 else 1
    at = 2 * at if v.min() > 0.1 else 2 * at + 1
    at = 2 * at if (v > 0.3).any() else 2 * at + 1
    at = 2 * at if np.argmax(v) == 0 else 2 * at + 1
    at = 2 * at if np.argmin(v) == 1 else 2 * at + 1
    at = 2 * at if v.max() > 4 * v.min() else 2 * at + 1
    return at + v.sum() * 1e-3


@pytest.mark.parametrize("f", [steps, grown])
def test_many_paths(f):
    rng = np.random.default_rng(6)
    for _ in range(4):
        x = rng.random((3000, 3)) * rng.random((3000, 1))
        x[::50] = rng.integers(0, 32, (60, 1)) / 31  # on the limits
        x[7::100, 1] = np.nan
        compare(f, 1, x)
    assert 16 < python_functions.decide(Along(f, 1, x, (), {})).traced.tree.count <= 64


def test_elements_that_only_some_paths_use():
    def f(v):
        a, b, _ = v
        if a > 0.5:
            return b * 2
        return a

    x = np.random.default_rng(7).random((500, 3))
    for _ in range(3):
        compare(f, 1, x)
    assert (
        python_functions.decide(Along(f, 1, x, (), {})).traced.ways[0].call_for(Rows(x, 1))
        is not None
    )
