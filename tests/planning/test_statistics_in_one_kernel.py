"""Correlations, fits, scores and peaks as one kernel: what the plain loop gives, and warns of."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.frontends.python.graphs import statistics

pytest.importorskip("llvmlite")
stats = pytest.importorskip("scipy.stats")
signal = pytest.importorskip("scipy.signal")

N = 12
TIMES = np.arange(N)
TEMPLATE = np.sin(TIMES / 2.0)
OF_NUMPY = {
    "corrcoef": lambda v: np.corrcoef(v, TEMPLATE)[0, 1],
    "corrcoef, all": lambda v: np.corrcoef(TEMPLATE, v),
    "corrcoef of halves": lambda v: np.corrcoef(v[:6], v[6:])[0, 1],
    "cov": lambda v: np.cov(v, TEMPLATE),
    "trend": lambda v: np.polyfit(101 + TIMES, v, 1)[0],
    "parabola": lambda v: np.polyfit(TIMES - 5.5, v, 2),
    "largest but NaN": np.nanargmax,
    "smallest but NaN": np.nanargmin,
    "level": lambda v: np.polyfit(TIMES, v, 0),
}
OF_SCIPY = {
    "slope": lambda v: stats.linregress(TIMES, v).slope,
    "all but the p-value": lambda v: [*stats.linregress(TIMES, v)][:3],
    "slope on the slice": lambda v: stats.linregress(v, TEMPLATE).slope,
    "zscore": stats.zscore,
    "ranks": stats.rankdata,
    "detrend": signal.detrend,
    "peaks": lambda v: len(signal.find_peaks(v)[0]),
    "high peaks": lambda v: len(signal.find_peaks(v, height=0.5)[0]),
    "peaks between": lambda v: len(signal.find_peaks(v, height=(-0.5, 1.0))[0]),
    "heights": lambda v: signal.find_peaks(v, height=0.1)[1]["peak_heights"].sum(),
}
FUNCTIONS = OF_NUMPY | OF_SCIPY
EXACT = {
    "zscore",
    "ranks",
    "largest but NaN",
    "smallest but NaN",
    "peaks",
    "high peaks",
    "peaks between",
}
SCALES = {
    "cov": lambda size: np.maximum(size, size * size),
    "corrcoef": lambda size: 1.0,
    "corrcoef, all": lambda size: 1.0,
    "corrcoef of halves": lambda size: 1.0,
    "slope on the slice": lambda size: 1 / size,
    "all but the p-value": lambda size: np.maximum(size, 1.0),
}
"""Of what results may be off by some bits, if it is not the size of the slice's numbers."""
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e30, 1e200, 1e-200, 5e-324, np.inf, -np.inf, np.nan]


def outcome(run, f, x):
    """What a call gives or raises, and what it warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run(f, 1, x)
        except (ValueError, np.linalg.LinAlgError) as error:
            return f"{type(error)}: {error}", set()
    return found, {(w.category, str(w.message)) for w in seen}


def compare(name, x):
    f = FUNCTIONS[name]
    want, warned = outcome(np.apply_along_axis, f, x)
    for _ in range(2):
        got, warns = outcome(xpapply.apply_along_axis, f, x)
        if isinstance(want, str):
            assert isinstance(got, str)
            assert got == want
            continue
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if name in EXACT:
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
        else:
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            with np.errstate(all="ignore"):
                size = np.max(np.abs(x), axis=1, where=np.isfinite(x), initial=0.0)
                bound = 1e-12 * SCALES.get(name, lambda s: s)(size)
                bound = np.minimum(bound * np.ones(len(x)), 1e290).reshape(
                    -1, *(1,) * (want.ndim - 1)
                )
                least = N * np.finfo(float).smallest_subnormal  # by which rounding is off there
                far = np.abs(got - want) > bound + 1e-11 * np.abs(want) + least
            assert not (far & (got != want)).any()
        assert warns == warned


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ordinary_slices(name):
    x = np.random.default_rng(0).normal(size=(100, N))
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(FUNCTIONS[name], 1, x).engine == "cpu"
        compare(name, x)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
def test_special_numbers(name, data):
    rows = st.lists(st.sampled_from(NUMBERS), min_size=N, max_size=N)
    x = np.random.default_rng(1).normal(size=(24, N))
    special = data.draw(st.lists(rows, min_size=1, max_size=4))
    x[data.draw(st.integers(1, 20)) :][: len(special)] = special
    with xpapply.options(engine="cpu"):
        compare(name, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_flat_and_nearly_flat_slices(name):
    """Where nothing but rounding is left, NumPy's own calls run."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, N))
    x[10] = 1.5
    x[20] = 0.1
    x[30] = 1e9 + 1e-7 * rng.normal(size=N)
    x[40] = 1 + np.arange(N) * np.finfo(float).eps
    x[50] = np.repeat(rng.normal(size=N // 2), 2)
    x[60] = 3 * TEMPLATE
    x[70] = 2.0 * TIMES
    with xpapply.options(engine="cpu"):
        compare(name, x)


@pytest.mark.parametrize("name", ["zscore", "ranks", "peaks", "heights", "trend"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_dtypes(name, dtype):
    x = (10 * np.random.default_rng(3).normal(size=(100, N))).astype(dtype)
    compare(name, x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize("name", ["ranks", "sum of ranks"])
def test_ranks_of_other_dtypes(name, dtype):
    x = (10 * np.random.default_rng(3).normal(size=(100, N))).astype(dtype)
    f = {"ranks": stats.rankdata, "sum of ranks": lambda v: stats.rankdata(v)[2:9].sum()}[name]
    want = np.apply_along_axis(f, 1, x)
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(f, 1, x).engine == "cpu"
        got = xpapply.apply_along_axis(f, 1, x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_a_dtype_that_a_newer_library_has_is_not_that_of_a_kernel(monkeypatch):
    other = {"float64": np.dtype("float32"), "float32": np.dtype("float64")}
    own = statistics._dtype_of_ranks
    monkeypatch.setattr(statistics, "_dtype_of_ranks", lambda d: other[own(d).name])
    f = lambda v: stats.rankdata(v)  # noqa: E731
    x = np.random.default_rng(3).normal(size=(100, N))
    with xpapply.options(engine="cpu"), pytest.raises(xpapply.UnsupportedError, match="as a call"):
        xpapply.apply_along_axis(f, 1, x)
    got = xpapply.apply_along_axis(f, 1, x)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, x))


def test_a_fit_that_is_badly_determined_is_left_to_numpy():
    def steep(v):
        return np.polyfit(1e5 + TIMES, v, 2)

    x = np.random.default_rng(4).normal(size=(50, N))
    assert xpapply.explain(steep, 1, x).engine != "cpu"
    with xpapply.options(engine="cpu"), pytest.raises(xpapply.UnsupportedError, match="a fit of"):
        xpapply.apply_along_axis(steep, 1, x)


def test_squares_of_what_is_left_over_warn_as_in_the_loop():
    x = np.random.default_rng(0).normal(size=(200, N))
    x[7] = 0
    x[7, -1] = 1e200
    with xpapply.options(engine="cpu"):
        compare("detrend", x)
