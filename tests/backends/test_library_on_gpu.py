"""CuPy's library of short slices in one launch: what CuPy's loop gives, to rounding."""

import warnings

import device_library
import numpy as np
import pytest

import xpapply

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(7)
SLICES = 3000
MISSING = {"trapezoid"}


def numbers(dtype, special=False):
    x = RNG.standard_normal((SLICES, 12)) * (1 if dtype[0] == "f" else 4)
    if special:
        x[RNG.random(x.shape) < 0.01] = np.nan
        x[RNG.random(x.shape) < 0.01] = np.inf
        x[RNG.random(x.shape) < 0.02] = -0.0
    return x.astype(dtype)


def far(got, want):
    """How far results are from each other, relative to the largest of a slice."""
    got, want = (x.get().astype(float).reshape(len(x), -1) for x in (got, want))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    same = (got == want) | np.isnan(want)
    sizes = np.abs(np.where(np.isfinite(want), want, 0)).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # where both are the same infinity
        return np.where(same, 0, np.abs(got - want) / np.maximum(sizes, 1e-300)).max()


def compared(cupy, f, x, axis, dtype, some=40):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        got = xpapply.apply_along_axis(f, axis, x)
        said = str(xpapply.explain(f, axis, x))
    piece = x[:some] if axis else cupy.ascontiguousarray(x[:, :some])
    want = cupy.apply_along_axis(f, axis, piece)
    along = -1 if not axis and got.ndim > 1 else 0
    got, want = (cupy.moveaxis(y, along, 0)[:some] for y in (got, want))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert far(got, want) <= device_library.tolerance(dtype)
    return said


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize(("name", "dtype"), device_library.CASES)
def test_one_launch(cupy, name, dtype, axis):
    """Well-behaved numbers: the loop's results, by one launch."""
    f = device_library.BUILDERS[name](cupy, dtype)
    x = cupy.asarray(numbers(dtype))
    x = x if axis else cupy.ascontiguousarray(x.T)
    try:
        f(x[0] if axis else x[:, 0])
    except Exception as problem:
        with pytest.raises(type(problem)):
            xpapply.apply_along_axis(f, axis, x)
        pytest.skip(f"CuPy raises: {type(problem).__name__}: {problem}")
    said = compared(cupy, f, x, axis, dtype)
    assert "on the GPU, one launch" in said, said


@pytest.mark.parametrize(("name", "dtype"), [c for c in device_library.CASES if c[1] == "float64"])
def test_special_values(cupy, name, dtype):
    """NaN, infinities and zeros of both signs in some slices, but not in the first one."""
    f = device_library.BUILDERS[name](cupy, dtype)
    x = numbers(dtype, special=True)
    x[0] = numbers(dtype)[0]
    x = cupy.asarray(x)
    try:
        want = [f(v) for v in x[:40]]
    except Exception as problem:
        pytest.skip(f"CuPy raises: {type(problem).__name__}: {problem}")
    del want
    compared(cupy, f, x, 1, dtype)


def test_a_constant_is_read_when_it_runs(cupy):
    """Numbers that are written into an array of the closure later are seen; another array too."""
    w = cupy.arange(12.0)
    x = cupy.asarray(numbers("float64"))
    held = [w]

    def f(v):
        return v @ held[0]

    def g(v):
        return v @ w

    for h in (g, f):
        got = xpapply.apply_along_axis(h, 1, x)
        assert cupy.allclose(got, x @ w)
    w[:] = cupy.arange(12.0)[::-1]
    for h in (g, f):
        assert cupy.allclose(xpapply.apply_along_axis(h, 1, x), x @ w)
    held[0] = cupy.ones(12)
    assert cupy.allclose(xpapply.apply_along_axis(f, 1, x), x.sum(axis=1))
    w = cupy.ones(12)
    assert cupy.allclose(xpapply.apply_along_axis(g, 1, x), x.sum(axis=1))


def test_matrices_without_an_inverse_are_cupys(cupy):
    """What a thread does not solve CuPy's own function does."""
    x = numbers("float64")
    x[17, :9] = 1.0
    x = cupy.asarray(x)

    def f(v):
        return cupy.linalg.solve(v[:9].reshape(3, 3), v[9:])

    got = xpapply.apply_along_axis(f, 1, x)
    want = f(x[17])
    assert cupy.array_equal(cupy.isfinite(got[17]), cupy.isfinite(want))


def found_in_itself(cupy, v):
    return cupy.searchsorted(v[:6], v[4:]) + 20 * cupy.searchsorted(v[:6], v[4:], side="right")


def between_itself(cupy, v):
    return cupy.interp(v[6:], v[:6], v[2:8])


@pytest.mark.parametrize("f", [found_in_itself, between_itself])
def test_tables_that_do_not_rise(cupy, f):
    """CuPy looks at no order: what its steps come to is what it finds."""
    x = numbers("float64", special=True)
    x[::2, :6].sort(axis=1)
    x[1::7] = np.round(x[1::7])
    x = cupy.asarray(x)
    said = compared(cupy, lambda v: f(cupy, v), x, 1, "float64", some=400)
    assert "on the GPU, one launch" in said, said
