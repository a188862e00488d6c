"""The dtypes of `xpapply.special` are those of the functions that it stands for."""

import warnings

import numpy as np
import pytest

from xpapply import special

scipy_special = pytest.importorskip("scipy.special")

DTYPES = "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 g F D G >f8 >i4".split()

PAIRS = {
    "softmax": (special.softmax, lambda x, axis: scipy_special.softmax(x, axis=axis)),
    "log_softmax": (special.log_softmax, lambda x, axis: scipy_special.log_softmax(x, axis=axis)),
    "logsumexp": (special.logsumexp, lambda x, axis: scipy_special.logsumexp(x, axis=axis)),
    "norm": (lambda x, axis: special.norm(x, axis=axis), np.linalg.norm),
    "mean": (lambda x, axis: special.mean_var(x, axis)[0], np.mean),
    "var": (lambda x, axis: special.mean_var(x, axis)[1], np.var),
    "standardize": (
        special.standardize,
        lambda x, axis: (x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True),
    ),
    "argmax": (lambda x, axis: special.argmax_and_max(x, axis)[0], np.argmax),
    "max": (lambda x, axis: special.argmax_and_max(x, axis)[1], np.max),
    "squared_diff": (
        lambda x, axis: special.squared_diff(x, x[::-1]),
        lambda x, axis: (x - x[::-1]) ** 2,
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PAIRS)
def test_dtype_and_values(name, dtype):
    if np.dtype(dtype).char in "gG" and np.finfo("g").bits == 64:
        pytest.skip("no longer doubles here")
    ours, theirs = PAIRS[name]
    x = (np.random.default_rng(0).random((4, 6)) * 5).astype(dtype)
    if np.dtype(dtype).kind == "u":
        x = np.sort(x, axis=-1)[:, ::-1]  # SciPy's differences of unsigned integers wrap around
        x = x * 0 if name.endswith("softmax") else x
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = theirs(x, axis=-1)
        except TypeError:  # booleans have no differences
            return
        if name in ("argmax", "max") and x.dtype.kind == "c":
            with pytest.raises(TypeError, match="no order"):
                ours(x, axis=-1)
            return
        found = ours(x, axis=-1)
    assert found.dtype == wanted.dtype
    eps = np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 0
    np.testing.assert_allclose(found, wanted, rtol=20 * eps, atol=20 * eps)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_small_integers_over_their_whole_range(dtype):
    info = np.iinfo(dtype)
    x = np.array([[info.min, info.max, info.max - 1], [info.min, info.min + 1, info.min]], dtype)
    for ours, exact in (
        (special.softmax, scipy_special.softmax),
        (special.log_softmax, scipy_special.log_softmax),
    ):
        found, wanted = ours(x, axis=1), exact(x.astype(float), axis=1)
        assert found.dtype == ("float16" if x.itemsize == 1 else "float32")
        eps = np.finfo(found.dtype).eps
        np.testing.assert_allclose(found, wanted, rtol=2 * eps, atol=eps * 1e-2)
