"""vectorize on arrays of other libraries: beside numbers, of functions that call it."""

import numpy as np
import pytest
import standin_cupy

import xpapply


@pytest.fixture(params=["stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def cp(request):
    if request.param == "cupy":
        yield pytest.importorskip("cupy")
        return
    with standin_cupy.installed() as module:
        yield module


def same(f, cp, *args, **how):
    """As `numpy.vectorize` of the same function of NumPy has it."""
    own = [cp.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
    want = np.vectorize(lambda *xs: f(np, *xs), **how)(*args)
    made = xpapply.vectorize(lambda *xs: f(cp, *xs), **how)
    for _ in range(3):
        got = made(*own)
        assert type(got) is (tuple if isinstance(want, tuple) else cp.ndarray)
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for x, y in pairs:
            assert isinstance(x, cp.ndarray)
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x.get(), y, rtol=1e-6)


FUNCTIONS = {
    "add": lambda xp, a, b: xp.add(a, b),
    "dtype=": lambda xp, a, b: xp.add(a, b, dtype="float64"),
    "reciprocal": lambda xp, a, b: xp.reciprocal(a + xp.float32(10)) * b,
    "several": lambda xp, a, b: (a + b, xp.maximum(a, b)),
    "some of them": lambda xp, a, b: xp.multiply(a, b) if a > b else a + b,
    "max": lambda xp, a, b: max(a, b) - xp.minimum(a, b),
    "operators": lambda xp, a, b: a * 2 + b,
}


@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_elements_that_call_the_library(cp, name, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 9, (2, 20, 3)).astype(dtype)
    same(FUNCTIONS[name], cp, x, y)
    same(FUNCTIONS[name], cp, x, y[0])


def test_many_elements_run_at_once(cp):
    x = np.random.default_rng(0).normal(size=(200, 30))
    f = FUNCTIONS["add"]
    same(f, cp, x, x)
    made = xpapply.vectorize(lambda a, b: f(cp, a, b))
    with xpapply.options(fallback="raise"):
        made(cp.asarray(x), cp.asarray(x))


@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
@pytest.mark.parametrize("number", [1, 2.5, True, np.float32(1.5), np.int8(3)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16"])
def test_numbers_beside_arrays(cp, number, dtype):
    x = np.arange(1, 61).reshape(20, 3).astype(dtype)
    f = lambda xp, a, b: a + b  # noqa: E731
    same(f, cp, x, number)
    same(f, cp, number, x)
    same(f, cp, x, number, otypes=[np.float64])


def test_numbers_beside_slices(cp):
    x = np.arange(60.0).reshape(20, 3)
    for number in (2, 2.5):
        got = xpapply.vectorize(lambda v, k: v * k, signature="(n),()->(n)")(cp.asarray(x), number)
        np.testing.assert_array_equal(got.get(), x * number)


def test_numbers_beside_slices_in_the_loop(cp):
    x = np.arange(60.0).reshape(20, 3)
    for number in (2, 2.5, np.float32(1.5)):
        seen = []

        def f(v, k, seen=seen):
            seen.append(k)
            return v * k

        with xpapply.options(fallback="silent"):
            made = xpapply.vectorize(f, signature="(n),()->(n)")
            got = made(cp.asarray(x), number)
        np.testing.assert_array_equal(got.get(), x * number)
        assert seen == [number] * 20
        assert all(isinstance(k, np.generic) for k in seen)


def test_containers_of_what_the_library_gives(cp):
    x = np.arange(6.0)
    f = lambda a: {"twice": cp.add(a, a), "one": a}  # noqa: E731
    got = xpapply.vectorize(f, otypes=[float, float])(cp.asarray(x))
    np.testing.assert_array_equal(got["twice"].get(), x * 2)
    np.testing.assert_array_equal(got["one"].get(), x)


def test_lists_beside_arrays_are_refused(cp):
    with pytest.raises(TypeError, match="arrays of different libraries"):
        xpapply.vectorize(lambda a, b: a + b)(cp.asarray(np.arange(3.0)), [1, 2, 3])


def test_numbers_beside_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(60.0).reshape(20, 3)
    got = xpapply.vectorize(lambda a, b: a + b)(x, 1)
    assert got.dtype == torch.float64
    np.testing.assert_array_equal(got, x + 1)
    got = xpapply.vectorize(lambda a: torch.tensor(a) * 2)(x)
    np.testing.assert_array_equal(got, x * 2)
