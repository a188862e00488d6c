"""Functions that the user has compiled with numba: a compiled loop, with the loop's results."""

import warnings

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS

numba = pytest.importorskip("numba")
pytest.importorskip("xpapply.frontends.numba")

X = np.random.default_rng(0).normal(size=(6, 5, 7))


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """However few slices there are."""
    monkeypatch.setattr(LIMITS, "numba_worth", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xpapply.options(fallback="raise"):
            yield


def loop(call):
    with xpapply.options(engine="loop"):
        return call()


def same(call):
    want, got = loop(call), call()
    several = isinstance(want, tuple)
    assert isinstance(got, tuple) == several
    for a, b in zip(want if several else (want,), got if several else (got,), strict=True):
        assert (a.shape, a.dtype, type(a)) == (b.shape, b.dtype, type(b))
        np.testing.assert_allclose(b, a, rtol=1e-12)
    return got


@numba.njit
def spread(v):
    return v.max() - v.min()


@numba.njit
def centred(v):
    return v - v.mean()


@numba.njit
def matrix(v):
    return np.zeros((2, 3)) + v[0]


@numba.njit
def largest(v):
    return np.argmax(v)


@numba.njit
def positive(v):
    return v[0] > 0


@numba.njit
def single(v):
    return np.float32(v[0])


@numba.njit
def polynomial(v, a, b=2.0):
    return a * v.sum() + b


RESULTS = [spread, centred, matrix, largest, positive, single]


@pytest.mark.parametrize("f", RESULTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_results(f, dtype):
    x = (X * 5).astype(dtype)
    same(lambda: xpapply.apply_along_axis(f, 1, x))
    assert xpapply.explain(f, 1, x).engine == "numba"


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes(axis):
    same(lambda: xpapply.apply_along_axis(centred, axis, X))
    assert xpapply.explain(centred, axis, X).engine == "numba"


def test_integers_that_python_holds_and_an_array_may_not():
    x = (X**2).astype("u8")
    with xpapply.options(fallback="silent"):
        same(lambda: xpapply.apply_along_axis(spread, 1, x))
    assert "it returns uint64" in str(xpapply.explain(spread, 1, x))


@numba.njit
def corner(p, k=1):
    return p[0, 0] - k * p.sum()


@pytest.mark.parametrize("axes", [(0, 2), (2, 1), (1, 0)])
def test_several_axes(axes):
    same(lambda: xpapply.apply_along_axis(corner, axes, X, k=3))
    assert xpapply.explain(corner, axes, X, 3).engine == "numba"
    same(lambda: xpapply.apply_along_axis(logistic, axes, X))


def test_an_exception_names_the_slice_along_several_axes():
    @numba.njit
    def f(p):
        if p[0, 0] == 5:
            raise ValueError("no")
        return p

    with pytest.raises(ValueError, match="no") as info:
        xpapply.apply_along_axis(f, (1, 2), np.arange(10.0).reshape(10, 1, 1))
    assert info.value.__notes__ == ["raised at the slice arr[5, :, :]"]


@pytest.mark.parametrize("x", [X.T, X[::-1, ::2], np.asfortranarray(X)], ids=["T", "steps", "F"])
def test_layouts_and_arguments(x):
    same(lambda: xpapply.apply_along_axis(polynomial, 1, x, 3, b=1.5))
    same(lambda: xpapply.apply_along_axis(polynomial, 1, x, 3))


def test_an_exception_names_the_slice():
    @numba.njit
    def f(v):
        if v[0] == 17:
            raise ValueError("no")
        return v[0]

    x = np.arange(40.0).reshape(20, 2, 1)
    for call in (lambda: xpapply.apply_along_axis(f, 2, x),):
        with pytest.raises(ValueError, match="no") as info:
            call()
        assert "raised at the slice arr[8, 1, :]" in info.value.__notes__
    with pytest.raises(ValueError, match="no") as info:
        xpapply.vectorize(f, signature="(n)->()")(x)
    assert "index (8, 1)" in info.value.__notes__[0]


def test_results_of_other_shapes_raise_as_in_the_loop():
    @numba.njit
    def f(v):
        return v[v > 0]

    with pytest.raises(ValueError, match="could not broadcast") as want:
        np.apply_along_axis(f, -1, X)
    with (
        pytest.raises(ValueError, match="could not broadcast") as got,
        xpapply.options(fallback="silent"),
    ):
        xpapply.apply_along_axis(f, -1, X)
    assert str(got.value) == str(want.value)


def test_a_function_that_writes_into_its_slice():
    @numba.njit
    def f(v):
        v[0] = 9
        return v.sum()

    a, b = X.copy(), X.copy()
    want = np.apply_along_axis(f, 1, a)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, b), want, rtol=1e-12)
    np.testing.assert_array_equal(a, b)


@numba.vectorize
def hypotenuse(a, b):
    return np.sqrt(a * a + b * b)


@numba.vectorize(["float64(float64)", "float32(float32)"])
def logistic(a):
    return 1 / (1 + np.exp(-a))


@numba.guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def total(v, out):
    out[0] = 0
    for x in v:
        out[0] += x


@numba.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),(n)->()")
def distance(a, b, out):
    out[0] = 0
    for k in range(len(a)):
        out[0] += abs(a[k] - b[k])


@numba.njit
def escape(a, b):
    z, c = 0j, complex(a, b)
    for k in range(20):
        z = z * z + c
        if abs(z) > 2:
            return k
    return 20


@numba.njit
def both(v, w):
    return v.sum(), v - w


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("f", [logistic, total], ids=["vectorize", "guvectorize"])
def test_numbas_own_ufuncs(f, axis):
    same(lambda: xpapply.apply_along_axis(f, axis, X))
    assert xpapply.explain(f, axis, X).engine == "numba"


@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("f", [escape, hypotenuse], ids=["njit", "vectorize"])
def test_functions_of_numbers(f, dtype, monkeypatch):
    x, y = (X * 2).astype(dtype), np.linspace(-1, 1, 7).astype(dtype)
    same(lambda: xpapply.vectorize(f)(x, y))
    same(lambda: xpapply.vectorize(f, otypes="d")(x, y))
    monkeypatch.setattr("xpapply.planning.vectorized_call._at_once", None)  # nothing else runs it
    xpapply.vectorize(f, otypes="d")(x, y)


def test_functions_of_slices(monkeypatch):
    same(lambda: xpapply.vectorize(both, signature="(n),(n)->(),(n)")(X, X[:1, :1]))
    same(lambda: xpapply.vectorize(distance, signature="(m),(m)->()")(X, X[0, 0]))
    same(lambda: xpapply.vectorize(spread, signature="(n)->()")(X, axis=0, where=X[0] > 0))
    monkeypatch.setattr("xpapply.planning.vectorized_call._at_once", None)  # nothing else runs it
    xpapply.vectorize(both, signature="(n),(n)->(),(n)")(X, X[:1, :1])
    with pytest.raises(ValueError, match="dim"):
        xpapply.vectorize(both, signature="(n),(n)->(),(m,n)")(X, X)


def test_python_integers_that_numba_would_wrap():
    @numba.njit
    def f(a):
        return a + 1

    x = np.array([1, 2**64 - 1], np.uint64)
    for made in (np.vectorize, xpapply.vectorize):
        with pytest.raises(OverflowError), xpapply.options(fallback="silent"):
            made(f, otypes="d")(x)


def test_few_slices_run_in_the_loop(monkeypatch):
    monkeypatch.undo()
    plan = xpapply.explain(spread, -1, X[:1])
    assert plan.engine == "loop"
    assert "less time than compiling" in str(plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xpapply.options(fallback="warn"):
            xpapply.apply_along_axis(spread, -1, X[:1])
