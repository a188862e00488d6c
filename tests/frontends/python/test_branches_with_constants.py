"""Branches that return constants: each slice gets the whole constant, or what the loop raises."""

import numpy as np
import pytest

import xpapply


def slices(count):
    x = np.random.default_rng(0).random((2000, 4))
    x[:, 0] = 0
    x[[77, 123, 500][:count], 0] = 1
    return x


CASES = {
    "numbers into a number": ([-3.0, 1.0], lambda v: np.median(v) * v.std() + v.sum(), 2),
    "rows into a vector": (np.arange(6.0).reshape(2, 3), lambda v: np.sort(v)[:3], 2),
    "a column into a vector": (np.array([[1.0], [2.0]]), lambda v: np.sort(v)[:3], 2),
    "booleans into one": (np.array([True, False]), lambda v: v.mean() > 0.5, 2),
    "a short vector into a long one": (np.zeros(2), lambda v: np.sort(v)[:3], 3),
    "one number into a vector": ([2.0], lambda v: np.sort(v)[:3], 3),
    "one row into a vector": ([[1.0, 2.0, 3.0]], lambda v: np.sort(v)[:3], 3),
    "a number in two axes into a number": (np.array([[5.0]]), lambda v: v.sum(), 1),
    "a vector into a matrix": ([1.0, 2.0], lambda v: v.reshape(2, 2), 3),
}


def outcome(apply, f, x):
    try:
        return apply(f, -1, x)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("name", CASES)
def test_a_constant_is_the_result_of_each_slice(name):
    constant, other, count = CASES[name]

    def f(v):
        if v[0] == 1:
            return constant
        return other(v)

    x = slices(count)
    want = outcome(np.apply_along_axis, f, x)
    for _ in range(2):  # the second time its paths are known
        got = outcome(xpapply.apply_along_axis, f, x)
        if isinstance(want, str):
            assert got == want
        else:
            np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("constant", [[1.0], [1.0, 2.0, 3.0], [1.0, 2.0], [[1.0], [2.0], [3.0]]])
def test_vectorize_with_a_signature(constant):
    constant = np.array(constant)

    def f(v):
        if v[0] == 1:
            return constant
        return v[:3] * 2

    def outcome(library):
        with xpapply.options(fallback="silent"):
            try:
                return library.vectorize(f, signature="(n)->(k)")(slices(3)).tolist()
            except ValueError as error:
                return str(error)

    assert outcome(xpapply) == outcome(np)
