"""Complex numbers have the bits of calls for single ones, where a part is infinite as well."""

import numpy as np
import pytest

import xpapply

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-320, 1e300, 2.5, -3.7]

NUMBERS = {
    "products": lambda a, b: a * b,
    "sums of products": lambda a, b: a * b + a,
    "squares": lambda a, b: np.square(a),
    "a ** 2": lambda a, b: a**2,
    "a ** 3": lambda a, b: a**3,
    "a ** 0.5": lambda a, b: a**0.5,
    "sizes": lambda a, b: abs(a),
    "NumPy's sizes": lambda a, b: np.absolute(a),
    "multiply": lambda a, b: np.multiply(a, b),
    "quotients": lambda a, b: a / b,
    "power": lambda a, b: (a.real * a.conjugate()).real,
    "beside a number": lambda a, b: 2 * a - b * 0.5j,
    "functions": lambda a, b: np.exp(a) + np.sqrt(b),
}
ARRAYS = {
    "squares": np.square,
    "products": lambda v: v * (v + 1),
    "sizes": np.absolute,
    "inverses": np.reciprocal,
    "signs": np.sign,
    "roots": np.sqrt,
    "a ** 2": lambda v: v**2,
}


def numbers(dtype):
    rng = np.random.default_rng(0)
    special = [complex(a, b) for a in SPECIAL for b in SPECIAL]
    with np.errstate(all="ignore"):
        a = np.r_[special, rng.normal(size=(800, 2)) @ [1, 1j]].astype(dtype)
    return np.stack([a, rng.permutation(a)], 1)


def assert_same(got, want):
    assert got.dtype == want.dtype
    for x, y in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_array_equal(x, y)
        known = x == x
        np.testing.assert_array_equal(np.signbit(x[known]), np.signbit(y[known]))


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_slices(plan_always, name, dtype):
    f, x = NUMBERS[name], numbers(dtype)

    def own(v):
        return f(v[0], v[1])

    with np.errstate(all="ignore"):
        want = np.apply_along_axis(own, 1, x)
        for _ in range(3):
            assert_same(xpapply.apply_along_axis(own, 1, x), want)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(plan_always, name, dtype):
    f, x = ARRAYS[name], numbers(dtype)
    with np.errstate(all="ignore"):
        want = np.apply_along_axis(f, 1, x)
        for _ in range(3):
            assert_same(xpapply.apply_along_axis(f, 1, x), want)


@pytest.mark.parametrize("name", ["products", "squares", "a ** 3", "sizes", "beside a number"])
def test_numbers_of_vectorize(plan_always, name):
    f, x = NUMBERS[name], numbers("complex128")
    x = x[np.isfinite(x).all(1) & (abs(x) < 1e9).all(1)]
    with np.errstate(all="ignore"):
        want = np.vectorize(f)(*x.T)
        for _ in range(3):
            assert_same(xpapply.vectorize(f)(*x.T), want)


def test_what_a_size_decides(plan_always):
    x = np.random.default_rng(1).normal(size=4000) + 1j
    z = x * 3.1
    edge = np.array([abs(complex(a)) for a in z])

    def at_the_edge(a, e):
        return 1 if abs(a) == e else 0

    assert np.vectorize(at_the_edge)(z, edge).all()
    for _ in range(3):
        assert xpapply.vectorize(at_the_edge)(z, edge).all()
