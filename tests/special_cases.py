"""What the tests of xpapply.special have in common."""

import functools

import numpy as np

from conftest import library

scipy_special = library("scipy.special")

FLOATS = ("float16", "float32", "float64")

COMPLEX = ("complex64", "complex128")


def floating(dtype):
    """The dtype that numbers of a dtype are computed in and returned as."""
    return dtype if np.dtype(dtype).kind in "fc" else np.dtype(np.float64)


def of_exp(lib, dtype):
    """The dtype of `numpy.exp`, where NumPy's arrays are; elsewhere that of all integers."""
    of = np.dtype(dtype)
    if lib.name not in ("numpy", "cupy") or of.kind not in "iu":
        return floating(of)
    return np.exp(np.zeros(1, of)).dtype


@functools.cache
def cube(dtype):
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 9, (2, 3, 4)).astype(dtype)
    x = rng.standard_normal((2, 3, 4))
    return (x + 1j * rng.standard_normal(x.shape) if np.dtype(dtype).kind == "c" else x).astype(
        dtype
    )


IN_PLACE = ["softmax", "log_softmax", "standardize", "normalize"]

NUMBERS = ["logsumexp", "norm", "mean_var"]
