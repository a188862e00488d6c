"""Functions that decide by the data as one kernel: each slice has the result of its own path."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.planning import python_functions

pytest.importorskip("llvmlite")


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


FUNCTIONS = [normalized, root, three_ways, or_zero, clamped, raises]
OTHERS = [caught, chained]
"""What catches exceptions, or decides by a number, has no kernel yet."""
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
        except ValueError as error:
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
    traced = python_functions.decide(f, 1, x, (), {}).traced
    call = traced.kernel_for(x, 1)
    assert call is not None, traced.no_kernel
    assert call.engine == "cpu"
    _, marked = traced._kernel(call, x, 1)
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
    want, got = np.apply_along_axis(f, 1, x), xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(got, want)


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
