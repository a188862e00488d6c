"""SciPy's ufuncs, and the normal distribution, of numbers in typed functions."""

import numpy as np
import pytest
from typed_parity import marked

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.errors import TraceError

special = pytest.importorskip("scipy.special")
norm = pytest.importorskip("scipy.stats").norm

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
RNG = np.random.default_rng(7)


def slices(dtype):
    x = (RNG.normal(size=(40, 6)) * (5 if dtype == "int64" else 1)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[3, 2], x[5, 1], x[6, 0], x[7] = np.nan, np.inf, -np.inf, 0
        x[10] = 0.5
    return x


def several(v):
    s = 0.0
    for x in v:
        s += special.erf(x) + special.gammaln(abs(x) + 1) - special.expit(x)
        s += special.ndtr(x) * special.jv(1, x)
    return s, special.xlogy(v[0], v[1]), special.log1p(v[0])


def whole(v):
    w, s = special.erf(v), 0
    for x in w:
        s += x
    return s


def normal(v):
    s = 0.0
    for x in v:
        s += norm.cdf(x) + norm.pdf(x) - norm.sf(x)
    return s, norm.cdf(abs(v[1])), norm.cdf(2)


def quantile(v):
    s = 0.0
    for x in v:
        s += norm.ppf(float(x)) if 0.1 < x < 0.9 else 1.0
    return s, norm.ppf(float(v[0])), norm.ppf(0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("f", [several, whole, normal, quantile], ids=lambda f: f.__name__)
def test_as_scipy(f, dtype):
    assert marked(f, slices(dtype)) == 0


@pytest.mark.usefixtures("by_source")
def test_scipys_errors_that_are_shown_are_the_loops():
    def f(v):
        s = 0.0
        for x in v:
            s += special.gammaln(x)
        return s

    arr = np.abs(slices("float64")[10:]) + 0.1
    want = np.apply_along_axis(f, 1, arr)
    with xpapply.options(engine="cpu"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)
        assert "one compiled loop" in xpapply.explain(f, 1, arr).kernels[0]
    arr[5, 1] = 0.0
    with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError):
        xpapply.apply_along_axis(f, 1, arr)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda v: norm.ppf(v[0]), "norm.ppf of float32"),
        (lambda v: norm.pdf(v[0], 1.0), "further arguments"),
        (lambda v: special.sici(v[0])[0], "it calls"),
    ],
)
def test_refused(f, why):
    with pytest.raises(TraceError, match=why):
        marked(f, slices("float32"))
