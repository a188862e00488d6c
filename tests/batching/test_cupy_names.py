"""Functions of CuPy inside `f`, by a stand-in without a GPU: found by name, called "on the device".

`test_cupy_functions` runs CuPy itself.
"""

import gc
import sys
import types
import warnings
from unittest import mock

import cupy_examples
import numpy as np
import pytest
import standin_cupy

import xpapply
from xpapply.batching import Batched, find, names, resolve

ARR = np.random.default_rng(0).gamma(2.0, size=(9, 24, 7))


@pytest.fixture
def cp():
    with standin_cupy.installed() as module, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield module


def compare(cp, f, x=ARR, axis=1):
    """Run for all slices at once, and as CuPy's loop has it; the names of what ran."""
    there = cp.asarray(x)
    want = cp.apply_along_axis(f, axis, there)
    plan = xpapply.explain(f, axis, there)
    assert plan.vectorized, plan.reasons
    with mock.patch("xpapply.loop.reference.apply", side_effect=AssertionError("the loop ran")):
        got = xpapply.apply_along_axis(f, axis, there)
    assert isinstance(got, cp.ndarray)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got.get(), want.get(), rtol=1e-10, atol=1e-12)
    return plan.kernels[0]


def test_another_module_at_the_same_address():
    """The names are those of the module that is there, not of one that was freed."""
    for _ in range(40):
        with standin_cupy.installed() as module:
            assert names.public_names(module.sort)
        del module
        gc.collect()


BARE = "sort median argmax cumsum diff all nanmean argsort gradient trapezoid exp unique_values"


@pytest.mark.parametrize("name", BARE.split())
def test_functions_given_bare(cp, name):
    f = getattr(cp, name)
    x = np.sort(ARR, axis=1) if name == "unique_values" else ARR
    assert name.partition("_")[0] in compare(cp, f, x)


def test_beside_torch_for_cuda(cp, monkeypatch):
    """CuPy's stream is torch's there, where no tensor has made one yet."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert "sort" in compare(cp, cp.sort)
    compare(cp, lambda v: cp.median(v[v > 1]))


def test_functions_of_modules_given_bare(cp):
    import cupyx.scipy.ndimage
    import cupyx.scipy.special

    assert "numpy.linalg.norm" in compare(cp, cp.linalg.norm)
    assert "numpy.fft.rfft" in compare(cp, cp.fft.rfft)
    assert "scipy.ndimage.sobel" in compare(cp, cupyx.scipy.ndimage.sobel)
    assert "scipy.special.expit" in compare(cp, cupyx.scipy.special.expit)  # has no __module__
    assert "scipy.special.logsumexp" in compare(cp, cupyx.scipy.special.logsumexp)


def test_functions_in_f(cp):
    import cupyx.scipy.signal as signal
    from cupyx.scipy.special import gamma

    places, kernel = cp.asarray(np.arange(24.0)), cp.asarray([0.25, 0.5, 0.25])
    compare(cp, lambda v: cp.polyfit(places, v, 2))
    compare(cp, lambda v: cp.convolve(v, kernel))
    compare(cp, lambda v: signal.savgol_filter(v, 5, 2) / gamma(v))
    compare(cp, lambda v: cp.median(v[v > 1]))
    compare(cp, lambda v: v[cp.argmax(v)] + cp.interp(places[2], places, v))
    compare(cp, lambda v: cp.linspace(0, 1, 24) * v)
    compare(cp, lambda v: cp.sort(v) if isinstance(v, cp.ndarray) else v)
    compare(cp, lambda v: cp.bincount((v * 4).astype(int) % 5, minlength=5))
    compare(cp, lambda v: signal.argrelmax(v, order=2)[0].sum())
    compare(cp, lambda v: v[signal.argrelmin(v, mode="wrap")[0]].max())


def test_the_namespace_of_an_array(cp):
    def f(v):
        xp = xpapply.get_array_module(v)
        return xp.sort(v)[xp.array([0, 2])]

    compare(cp, f)


def test_what_the_library_gives_counts(cp):
    """CuPy's dtypes and values while `f` is traced, not NumPy's of the same name."""
    own = cp.sum
    cp.sum = standin_cupy.of(lambda a, axis=None: np.sum(a, axis, dtype="f4") + 1, "cupy")
    cp.sum.__name__ = "sum"
    assert own is not cp.sum
    compare(cp, lambda v: cp.sum(v) * 2)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_the_first_nan(cp, name):
    """CuPy's own may give that of another one."""

    def last(a, axis=None, dtype=None, out=None, keepdims=False):
        nan = np.isnan(a)
        at = a.shape[-1] - 1 - nan[..., ::-1].argmax(-1)
        return np.where(nan.any(-1), at, getattr(np, name)(a, axis=-1))

    x = ARR[:, :, 0].copy()
    x[::2, [5, 9, 20]] = np.nan
    there = standin_cupy.of(last, "cupy")
    there.__name__ = name
    rule = find(getattr(cp, name)).rule
    got = rule(cp, there, (Batched(cp.asarray(x)),), {})
    np.testing.assert_array_equal(got.array.get(), getattr(np, name)(x, axis=1))


def test_views_are_known(cp):
    """A result that is part of an argument's memory there, is so here."""

    def f(v):
        a = cp.sort(v)
        b = cp.reshape(a, (4, 6))
        b[0, 0] = 100.0
        return a[:3]

    there = cp.asarray(ARR)
    want = cp.apply_along_axis(f, 1, there)
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, there).get(), want.get())


SETS = {
    "intersect1d": lambda cp, v, w: cp.intersect1d(v, w).sum(),
    "setdiff1d": lambda cp, v, w: cp.setdiff1d(v, w).sum(),
    "setxor1d": lambda cp, v, w: cp.setxor1d(v, w).mean(),
    "union1d": lambda cp, v, w: cp.union1d(v, w).sum(),
    "trim_zeros": lambda cp, v, w: cp.trim_zeros(v * (v > 2)).sum(),
    "unique": lambda cp, v, w: cp.unique(v, equal_nan=False).sum(),
}


@pytest.mark.parametrize("name", SETS)
def test_sets(cp, name):
    few = np.round(ARR)
    w = cp.asarray(np.array([0.0, 1.0, 3.0, 9.0]))
    compare(cp, lambda v: SETS[name](cp, v, w), few)


@pytest.mark.parametrize("name", SETS)
def test_sets_of_numpy(name):
    few = np.round(ARR)
    few[3, 2, 1:3] = np.nan
    w = np.array([0.0, 1.0, 3.0, 9.0, np.nan])
    f = lambda v: SETS[name](np, v, w)  # noqa: E731
    assert xpapply.explain(f, 1, few).vectorized
    want = np.apply_along_axis(f, 1, few)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, few), want)


def test_powers_of_arrays():
    exponents = np.arange(24.0) % 5
    f = lambda v: np.power(v, exponents)  # noqa: E731
    assert xpapply.explain(f, 1, ARR).vectorized
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, ARR), np.apply_along_axis(f, 1, ARR))


def test_rows_by_public_name(cp):
    import cupyx.scipy.ndimage as ndimage

    assert names.public_names(cp.linalg.norm) == ("cupy.linalg.norm",)
    assert find(cp.linalg.norm).name == "numpy.linalg.norm"
    assert find(ndimage.sobel).name == "scipy.ndimage.sobel"
    assert find(cp.array2string) is None


def test_random_numbers_and_files_are_refused(cp):
    there = cp.asarray(ARR)
    assert "cupy.save" in xpapply.explain(lambda v: cp.save("x", v), 1, there).reasons[0]


def test_everything_public_has_an_example():
    """What can be imported without a GPU; `test_cupy_functions` asks for all."""
    pytest.importorskip("cupy")
    for module in ("cupy", "cupy.linalg", "cupy.fft", "cupyx.scipy.ndimage", "cupyx.scipy.special"):
        known = {name for m, name, _ in cupy_examples.examples() if m == module}
        left_out = cupy_examples.excluded(module)
        assert cupy_examples.public(module) <= known | left_out
        assert not known & left_out


def test_looking_a_name_up_imports_nothing(monkeypatch):
    """Without CUDA's libraries, what CuPy imports when it is asked ends in an ImportError."""

    def imports(name):
        raise ImportError(f"no library for {name}")

    lazy = types.ModuleType("cupyx.scipy")
    lazy.__getattr__ = imports
    monkeypatch.setitem(sys.modules, "cupyx.scipy", lazy)
    monkeypatch.delitem(sys.modules, "cupyx.scipy.signal", raising=False)
    assert resolve("cupyx.scipy.signal.convolve") is None
    assert resolve("numpy.ndarray.mean") is np.ndarray.mean


def test_images_of_signals(cp):
    """Filters of two axes, one after the other; two structures at once."""
    from cupyx.scipy import ndimage, signal
    from scipy.ndimage import correlate1d

    row, column = cp.asarray([0.25, 0.5, 0.125]), cp.asarray([0.1, 0.2, 0.4, 0.2, 0.3])

    def sepfir2d(input, hrow, hcol):  # SciPy's own has other edges
        once = correlate1d(input, hcol[::-1], 0, mode="reflect")
        return correlate1d(once, hrow[::-1], 1, mode="reflect")

    signal.sepfir2d = standin_cupy.of(sepfir2d, "cupyx.scipy.signal")
    named = compare(cp, lambda v: signal.sepfir2d(v.reshape(4, 6), row, column))
    assert "sepfir2d" in named
    hit = compare(cp, lambda v: ndimage.binary_hit_or_miss(v.reshape(4, 6) > 2))
    assert "binary_hit_or_miss" in hit
