"""Functions of slices with two axes as one kernel: what the plain loop gives, and its warnings."""

import warnings

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from xpapply.planning import one_kernel

pytest.importorskip("llvmlite")
ndimage = pytest.importorskip("scipy.ndimage")
signal = pytest.importorskip("scipy.signal")

TAPS = np.array([[0.5, -1.0, 0.25], [2.0, 0.0, -0.125], [1.0, 3.0, 0.75]])
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")

EXACT = {
    "median": np.median,
    "median of columns": lambda p: np.median(p, axis=0),
    "nanmedian": lambda p: np.nanmedian(p, 1),
    "quantiles": lambda p: np.quantile(p, [0.25, 0.6]),
    "quantiles of rows": lambda p: np.quantile(p, [0.25, 0.6], axis=1),
    "a quantile of columns": lambda p: np.percentile(p, 30, axis=0),
    "sorted columns": lambda p: np.sort(p, axis=0),
    "all sorted": lambda p: np.sort(p, axis=None),
    "order of rows": lambda p: np.argsort(p, kind="stable"),
    "running sums": np.cumsum,
    "running sums of columns": lambda p: np.cumsum(p, axis=0),
    "differences of columns": lambda p: np.diff(p, axis=0),
    "differences from zero": lambda p: np.diff(p, prepend=0.0),
    "slopes of columns": lambda p: np.gradient(p, axis=0),
    "sobel": ndimage.sobel,
    "sobel of columns": lambda p: ndimage.sobel(p, 0, mode="nearest"),
    "prewitt": lambda p: ndimage.prewitt(p, mode="constant", cval=1.5),
    "laplace": lambda p: ndimage.laplace(p, mode="wrap"),
    "smoothed": lambda p: ndimage.gaussian_filter(p, 0.7),
    "smoothed along one axis": lambda p: ndimage.gaussian_filter(p, (0, 0.6), mode="mirror"),
    "derived": lambda p: ndimage.gaussian_filter(p, 0.5, order=(1, 0)),
    "gaussian laplace": lambda p: ndimage.gaussian_laplace(p, 0.5),
    "gaussian gradient": lambda p: ndimage.gaussian_gradient_magnitude(p, 0.5),
    "columns smoothed": lambda p: ndimage.gaussian_filter1d(p, 0.8, axis=0),
    "columns with taps": lambda p: ndimage.correlate1d(p, [1.0, 2.0, -1.0, 0.5], axis=0),
    "columns convolved": lambda p: ndimage.convolve1d(p, [1.0, 2.0, -1.0], 0),
    "correlated": lambda p: ndimage.correlate(p, TAPS),
    "correlated evenly": lambda p: ndimage.correlate(p, TAPS[:2], mode="nearest"),
    "convolved": lambda p: ndimage.convolve(p, TAPS, mode="constant", cval=-1.0),
    "full": lambda p: signal.convolve2d(p, TAPS[:2].astype(p.dtype)),
    "same": lambda p: signal.convolve2d(p, TAPS.astype(p.dtype), "same"),
    "correlated in full": lambda p: signal.correlate2d(p, TAPS[:, :2].astype(p.dtype)),
    "where all is there": lambda p: signal.correlate2d(p, TAPS.astype(p.dtype), mode="valid"),
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e30, 1e-30, 1e300, np.inf, -np.inf, np.nan]


@pytest.fixture(autouse=True)
def compiled():
    with xpapply.options(engine="cpu", fallback="silent"):
        yield


@pytest.fixture
def outs(monkeypatch):
    """Results between pages that nobody may touch."""
    if guarded.HERE:

        def empty(self):
            return [
                guarded.guarded(np.zeros(shape, dtype), k % 2 == 0)
                for k, (shape, dtype, _) in enumerate(self._outs)
            ]

        monkeypatch.setattr(one_kernel._Short, "_empty", empty)


def outcome(run, f, x):
    """What a call gives or raises, and what it warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run(f, x)
        except ValueError as error:
            return str(error), set()
    return found, {(w.category, str(w.message)) for w in seen}


def looped(f, x):
    first = np.asanyarray(f(x[0]))
    found = np.empty((len(x), *first.shape), first.dtype)
    for k, p in enumerate(x):
        found[k] = f(p)
    return found


def at_once(f, x):
    return xpapply.apply_along_axis(f, (1, 2), x)


def compare(f, x, eps=0.0):
    """Three calls with the loop: the first ones may find paths, or compare with calls of f."""
    want, warned = outcome(looped, f, x)
    if guarded.HERE:
        x = guarded.guarded(x, len(x) % 2 == 0, writable=False)
    for _ in range(3):
        got, warns = outcome(at_once, f, x)
        if isinstance(want, str):
            assert got == want
            continue
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=eps, atol=eps)
        if not eps:
            sign = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[sign]), np.signbit(want[sign]))
        assert warns == warned


def patches(dtype, n=100, shape=(5, 6)):
    return np.random.default_rng(0).normal(size=(n, *shape)).astype(dtype)


@pytest.mark.usefixtures("outs")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", EXACT.values(), ids=EXACT)
def test_ordinary_patches(f, dtype):
    x = patches(dtype)
    p = xpapply.explain(f, (1, 2), x)
    assert (p.engine, p.kernels[0][:10]) == ("cpu", "one kernel")
    compare(f, x)
    compare(f, x[::-2])
    compare(f, np.moveaxis(np.moveaxis(x, 0, 2).copy(), 2, 0))


@pytest.mark.parametrize("f", EXACT.values(), ids=EXACT)
@settings(max_examples=10)
@given(data=st.data())
def test_special_numbers(f, data):
    x = patches(data.draw(st.sampled_from(["float64", "float32"])), 60)
    for _ in range(data.draw(st.integers(1, 5))):
        k = data.draw(st.integers(1, 59))
        some = st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4)
        with np.errstate(over="ignore"):
            x[k, data.draw(st.integers(0, 4)), 1:5] = data.draw(some)
    compare(f, x)


@given(data=st.data())
def test_modes_of_filters(data):
    shape = data.draw(st.integers(3, 6)), data.draw(st.integers(3, 6))
    mode, cval = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from([0.0, 2.5]))
    how = {"mode": mode, "cval": cval}
    taps = np.arange(data.draw(st.integers(1, 4))) - 1.25
    f = data.draw(
        st.sampled_from(
            [
                lambda p: ndimage.sobel(p, **how),
                lambda p: ndimage.gaussian_filter(p, 0.4, **how),
                lambda p: ndimage.correlate1d(p, taps, axis=0, **how),
                lambda p: ndimage.correlate(p, TAPS[:2, :2], **how),
            ]
        )
    )
    compare(f, patches("float64", 40, shape))
