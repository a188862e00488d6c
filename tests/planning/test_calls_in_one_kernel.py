"""NumPy's functions as one kernel: what the plain loop gives, with its warnings and exceptions."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply

pytest.importorskip("llvmlite")

TABLE = np.linspace(-3, 3, 12)
GRID = np.linspace(0, 1, 7)
FUNCTIONS = {
    "sort": np.sort,
    "argsort": np.argsort,
    "median": np.median,
    "nanmedian": np.nanmedian,
    "percentiles": lambda v: np.percentile(v, [25, 75]),
    "nanpercentile": lambda v: np.nanpercentile(v, 30),
    "lower": lambda v: np.quantile(v, 0.3, method="lower"),
    "cumsum": np.cumsum,
    "drawdown": lambda v: np.max(1 - v / np.maximum.accumulate(v)),
    "diff": np.diff,
    "gradient": np.gradient,
    "interp": lambda v: np.interp(GRID, np.linspace(0, 1, len(v)), v),
    "searchsorted": lambda v: np.searchsorted(TABLE, v),
    "search in the slice": lambda v: np.searchsorted(v, 0.5),
    "digitize": lambda v: np.digitize(v, TABLE),
    "histogram": lambda v: np.histogram(v, bins=5, range=(-2, 2))[0],
    "histogram of its own range": lambda v: np.histogram(v, 4)[0],
    "above the median": lambda v: (v > np.median(v)).sum(),
    "by order": lambda v: v[np.argsort(v, kind="stable")[:3]],
    "at the largest": lambda v: v[np.argmax(v)] - v[np.argmin(v)],
    "different": lambda v: len(np.unique(v)),
    "nearest": lambda v: np.argmin(np.linalg.norm(TABLE.reshape(6, 2) - v[:2], axis=1)),
}
OF_INTEGERS = {
    "vote": lambda v: np.bincount(v).argmax(),
    "frequencies": lambda v: np.bincount(v, minlength=6) / len(v),
    "a table": lambda v: TABLE[v],
    "median": np.median,
    "percentile": lambda v: np.percentile(v, 40),
    "sum of the first": lambda v: v[0] + v[1] * 2,
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 0.25, 1e30, -1e-30, np.inf, -np.inf, np.nan]


def outcome(run, f, x):
    """What a call gives or raises, and what it warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run(f, 1, x)
        except (ValueError, IndexError) as error:
            return str(error), set()
    return found, {(w.category, str(w.message)) for w in seen}


def compare(f, x):
    want, warned = outcome(np.apply_along_axis, f, x)
    for _ in range(2):
        got, warns = outcome(xpapply.apply_along_axis, f, x)
        if isinstance(want, str):
            assert got == want
            continue
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)
        assert warns == warned


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ordinary_slices(f, dtype):
    x = np.random.default_rng(0).normal(size=(100, 8)).astype(dtype)
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(f, 1, x).engine == "cpu"
        compare(f, x)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@given(data=st.data())
def test_special_numbers(f, data):
    dtype = data.draw(st.sampled_from(["float64", "float32"]))
    rows = st.lists(st.sampled_from(NUMBERS), min_size=8, max_size=8)
    x = np.random.default_rng(1).normal(size=(60, 8))
    special = data.draw(st.lists(rows, min_size=1, max_size=5))
    x[data.draw(st.integers(1, 50)) :][: len(special)] = special
    with xpapply.options(engine="cpu"):
        compare(f, x.astype(dtype))


@pytest.mark.parametrize("f", OF_INTEGERS.values(), ids=OF_INTEGERS)
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_integers(f, dtype):
    x = np.random.default_rng(0).integers(0, 6, (100, 9)).astype(dtype)
    with xpapply.options(engine="cpu"):
        compare(f, x)
        x[50, 3] = 40
        compare(f, x)
        if dtype == "int64":
            x[60, 2] = -20
            compare(f, x)


ZEROS = {
    "counts": lambda v: np.bincount([1] * 8, v, 3),
    "larger": lambda v: np.maximum(v, v[::-1]),
    "clipped": lambda v: np.minimum(np.maximum(v, 0.0), -0.0),
    "clipped between numbers": lambda v: np.clip(np.clip(v, -1, 0.0), -0.0, 2),
    "drawup": lambda v: np.maximum.accumulate(v),
    "angle of the largest": lambda v: np.arctan2(v.max(), -1.0),
    "angle of the smallest": lambda v: np.arctan2(v.min() * 2, -1.0),
    "sign of the first": lambda v: np.signbit(np.sort(v)[0]),
    "sign of the larger": lambda v: np.signbit(np.maximum(v, v[::-1])),
}


@pytest.mark.parametrize("f", ZEROS.values(), ids=ZEROS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_zeros_have_the_signs_of_numpys(f, dtype):
    """Where they do not, as in maxima, NumPy decides what depends on them."""
    x = np.random.default_rng(0).choice([0.0, -0.0, 1.0], (400, 8), p=[0.45, 0.45, 0.1])
    x = x.astype(dtype)
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(f, 1, x).engine == "cpu"
        want = np.apply_along_axis(f, 1, x)
        for _ in range(2):
            got = xpapply.apply_along_axis(f, 1, x)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
