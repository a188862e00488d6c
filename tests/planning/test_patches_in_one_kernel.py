"""Functions of slices with two axes as one kernel: what the plain loop gives, and its warnings."""

import warnings

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from xpapply.planning.python import one_kernel

pytest.importorskip("llvmlite")
ndimage = pytest.importorskip("scipy.ndimage")
signal = pytest.importorskip("scipy.signal")
fft = pytest.importorskip("scipy.fft")

TAPS = np.array([[0.5, -1.0, 0.25], [2.0, 0.0, -0.125], [1.0, 3.0, 0.75]])
CROSS = ndimage.generate_binary_structure(2, 1)
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
EXACT |= {
    "padded": lambda p: np.pad(p, 1),
    "padded with a number": lambda p: np.pad(p, ((0, 2), (1, 0)), constant_values=2.5),
    "median filter": lambda p: ndimage.median_filter(p, 3),
    "median filter of an even size": lambda p: ndimage.median_filter(p, (2, 3), mode="nearest"),
    "median of a cross": lambda p: ndimage.median_filter(p, footprint=CROSS, mode="wrap"),
    "median of what is around": lambda p: ndimage.median_filter(p, 3, mode="constant"),
    "medfilt2d": lambda p: signal.medfilt2d(p, (3, 1)),
    "second largest": lambda p: ndimage.rank_filter(p, -2, size=(3, 2)),
    "percentile filter": lambda p: ndimage.percentile_filter(p, 30, size=(2, 4), cval=1.5),
    "smallest around": lambda p: ndimage.minimum_filter(p, 3, mode="constant", cval=-0.0),
    "largest around": lambda p: ndimage.maximum_filter(p, footprint=CROSS),
    "largest of columns": lambda p: ndimage.maximum_filter1d(p, 4, axis=0, mode="mirror"),
    **{
        f"padded by {mode}": lambda p, mode=mode: np.pad(p, 2, mode)
        for mode in ("edge", "reflect", "symmetric", "wrap")
    },
}
WEIGHTS = np.linspace(0.5, 2, 30).reshape(5, 6)
NEAR = {
    "average": lambda p: np.average(p, weights=WEIGHTS),
    "average of columns": lambda p: np.average(p, axis=0, weights=np.abs(p[::-1]) + 0.5),
    "plain average": lambda p: np.average(p, axis=1),
    "covariance": np.cov,
    "covariance of columns": lambda p: np.cov(p, rowvar=False, ddof=0),
    "correlation": np.corrcoef,
    "cosines": lambda p: fft.dctn(p, norm="ortho")[:3, :2],
    "cosines of columns": lambda p: fft.dct(p, 3, axis=0),
    "sines": lambda p: fft.dstn(p, type=1),
    "of cosines": lambda p: fft.idctn(p, axes=1, orthogonalize=True),
    "determinant": lambda p: np.linalg.det(p[:, :5]),
    "inverse": lambda p: np.linalg.inv(p[:4, :4] + 4 * np.eye(4, dtype=p.dtype)),
    "solution": lambda p: np.linalg.solve(p[:3, :3], p[1, :3]),
    "solutions": lambda p: np.linalg.solve(p[:2, :2], p[3:, 2:]),
}
"""Functions of which rounding is another than NumPy's."""


def volume(p):
    """The largest product in a determinant, which its rounding goes by (Hadamard's bound)."""
    with np.errstate(all="ignore"):
        size = np.prod(np.sqrt((p[:, :5].astype(np.longdouble) ** 2).sum(1)))
    return float(min(size, np.finfo(float).max)) if size == size else 0.0


SIZES = {NEAR["determinant"]: volume}
"""How large what is added up may be, where the result does not tell."""
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


@pytest.mark.usefixtures("outs")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", NEAR.values(), ids=NEAR)
def test_other_rounding(f, dtype):
    x = patches(dtype)
    assert xpapply.explain(f, (1, 2), x).kernels[0][:10] == "one kernel"
    compare(f, x, 1e5 * np.finfo(dtype).eps)


@pytest.mark.parametrize("f", NEAR.values(), ids=NEAR)
@settings(max_examples=max(8, settings().max_examples // 3))
@given(data=st.data())
def test_special_numbers_of_other_rounding(f, data):
    x = special(data, "float64")
    want, warned = outcome(looped, f, x)
    for _ in range(3):
        got, warns = outcome(at_once, f, x)
        if isinstance(want, str):
            assert got == want
            continue
        for p, a, b in zip(x, got, want, strict=True):
            size = max(np.abs(b[np.isfinite(b)]).max(initial=0), SIZES.get(f, lambda p: 0.0)(p))
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * size)
        assert warns == warned


def test_weights_that_sum_to_zero_raise():
    x = patches("float64")
    x[40, 1] = 0
    with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
        at_once(lambda p: np.average(p[0], weights=p[1] ** 2), x)


def hilbert(n):
    return 1 / (np.arange(n)[:, None] + np.arange(n) + 1)


SINGULAR = {
    "zeros": np.zeros((4, 4)),
    "of a lower rank": np.arange(16.0).reshape(4, 4),
    "nearly": np.eye(4) * [1, 1, 1, 1e-12],
    "badly determined": hilbert(4),
    "large": np.full((4, 4), 1e300) + np.eye(4) * 1e290,
    "with NaN": np.diag([1.0, np.nan, 1, 1]),
    "with infinity": np.diag([1.0, np.inf, 1, 1]),
    "one row of zeros": np.eye(4) * [1, 1, 1, 0],
    "swapped": np.eye(4)[[1, 0, 3, 2]] * 2.5,
}


@pytest.mark.parametrize("matrix", SINGULAR.values(), ids=SINGULAR)
@pytest.mark.parametrize("f", [np.linalg.det, np.linalg.inv], ids=["det", "inv"])
def test_matrices_of_which_rounding_decides_are_left_to_numpy(f, matrix):
    x = np.random.default_rng(0).normal(size=(100, 4, 4)) + 4 * np.eye(4)
    x[70] = matrix
    with np.errstate(all="ignore"):
        try:
            want = np.stack([f(p) for p in x])
        except np.linalg.LinAlgError as error:
            with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                at_once(f, x)
            return
        got = at_once(f, x)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14 * np.abs(want[:70]).max())
    np.testing.assert_allclose(got[70], want[70], rtol=1e-13)


def test_what_a_determinant_decides_is_numpys():
    """Whether it is zero: rounding leaves others of these."""
    x = np.random.default_rng(1).integers(-2, 3, (2000, 3, 3)).astype(float)
    for f in (
        lambda p: np.linalg.det(p) == 0,
        lambda p: np.linalg.det(p) > 6,
        lambda p: 1.0 if abs(np.linalg.det(p)) < 1e-12 else 2.0,
    ):
        compare(f, x)


@pytest.mark.parametrize("f", EXACT.values(), ids=EXACT)
@settings(max_examples=max(8, settings().max_examples // 3))
@given(data=st.data())
def test_special_numbers(f, data):
    compare(f, special(data, data.draw(st.sampled_from(["float64", "float32"]))))


def special(data, dtype):
    """Patches of which some have odd numbers, or the same ones."""
    x = patches(dtype, 60)
    for _ in range(data.draw(st.integers(1, 5))):
        k = data.draw(st.integers(1, 59))
        some = st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4)
        with np.errstate(over="ignore"):
            x[k, data.draw(st.integers(0, 4)), 1:5] = data.draw(some)
        if data.draw(st.booleans()):
            x[k] = x[k, 2]
    return x


@given(data=st.data())
def test_ranks_in_windows_of_any_size(data):
    window = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    rank = data.draw(st.integers(0, window[0] * window[1] - 1))
    x = np.random.default_rng(rank).integers(-3, 4, (40, 4, 5)) + 0.5
    f = lambda p: ndimage.rank_filter(p, rank, size=window)  # noqa: E731
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
                lambda p: ndimage.median_filter(p, (2, 3), **how),
                lambda p: ndimage.minimum_filter(p, (3, 2), **how),
            ]
        )
    )
    compare(f, patches("float64", 40, shape))
