"""Libraries whose own code calls NumPy's loops: what they hand over runs at once."""

import gc
import weakref

import numpy as np
import pytest

import xpapply
from xpapply.loop import originals

X = np.random.default_rng(0).random((4000, 12))


def ran(patched, loop="numpy.apply_along_axis"):
    """What ran the calls of the one function that was called."""
    (row,) = (row for row in patched.report.rows if row.loop == loop)
    return row


def test_filters_of_scipy(patched):
    signal = pytest.importorskip("scipy.signal")
    b = [0.25, 0.5, 0.25]
    with xpapply.options(engine="loop"):
        want = signal.lfilter(b, 1.0, X, axis=1)
    np.testing.assert_allclose(signal.lfilter(b, 1.0, X, axis=1), want, rtol=1e-13)
    row = ran(patched)
    assert row.place.startswith("_signaltools.py:")
    assert set(row.engines) == {"loop", "numpy"} or set(row.engines) == {"loop", "cpu"}


def test_matrices_of_scipy(patched):
    linalg = pytest.importorskip("scipy.linalg")
    found = linalg.fiedler_companion(X[:500])
    np.testing.assert_array_equal(found[7], linalg.fiedler_companion(X[7]))


def test_statistics_of_slices_by_scipy(patched):
    stats = pytest.importorskip("scipy.stats")
    found = stats.bootstrap(
        (X[:, 0],),
        lambda v: np.sort(v)[10:-10].mean(),
        vectorized=False,
        n_resamples=300,
        rng=np.random.default_rng(1),
        method="percentile",
    )
    assert found.standard_error > 0
    assert set(ran(patched).engines) != {"loop"}


def test_xarrays_vectorize(patched):
    xr = pytest.importorskip("xarray")
    da = xr.DataArray(X, dims=("a", "b"))
    found = xr.apply_ufunc(lambda v: v[v > 0.5].sum(), da, input_core_dims=[["b"]], vectorize=True)
    np.testing.assert_allclose(found, [v[v > 0.5].sum() for v in X], rtol=1e-13)
    assert set(ran(patched, "numpy.vectorize").engines) != {"loop"}


def test_dasks_chunks(patched):
    da = pytest.importorskip("dask.array")
    x = da.from_array(X, chunks=(2000, 12))
    f = lambda v: v[v > 0.5].sum()  # noqa: E731
    found = da.apply_along_axis(f, 1, x, dtype=float, shape=()).compute()
    np.testing.assert_allclose(found, originals.apply_along_axis(f, 1, X), rtol=1e-13)
    assert set(ran(patched).engines) != {"loop"}


def made(function):
    """A function as if it were made inside one of SciPy's."""

    weights = np.ones(12)

    def inner(v):
        return function(v) * weights[0]

    inner.__module__ = "scipy.stats._made"
    return inner, weights


def test_functions_that_libraries_make_are_told_apart(patched):
    first, weights = made(np.max)
    second, _ = made(np.min)
    for f, own in ((first, np.max), (second, np.min), (first, np.max)):
        np.testing.assert_array_equal(np.apply_along_axis(f, 1, X), own(X, 1))
    weights[0] = 2.0
    np.testing.assert_array_equal(np.apply_along_axis(first, 1, X), 2 * X.max(1))


def test_functions_that_libraries_make_are_not_kept_alive(patched):
    def used():
        f, weights = made(np.max)
        np.apply_along_axis(f, 1, X)
        np.apply_along_axis(lambda v: f(v) + 1, 1, X)
        return weakref.ref(f), weakref.ref(weights)

    gone = used()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
