"""Library functions in plain Python give what the libraries give."""

import math

import numpy as np
import pytest

from xpapply.library import of_numpy, of_python

RNG = np.random.default_rng(0)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 33, 200])
def test_of_numpy(n, dtype):
    v = RNG.standard_normal(n).astype(dtype)
    for mine, theirs in (
        (of_numpy.mean, np.mean), (of_numpy.variance, np.var), (of_numpy.deviation, np.std),
        (of_numpy.median, np.median), (of_numpy.in_order, np.sort), (of_numpy.cumulated, np.cumsum),
        (of_numpy.differences, np.diff), (of_numpy.argmax, np.argmax), (of_numpy.argmin, np.argmin),
        (of_numpy.any_true, np.any), (of_numpy.all_true, np.all),
        (of_numpy.places, np.flatnonzero),
    ):  # fmt: skip
        assert same(mine(v), theirs(v)), theirs
    assert same(of_numpy.chosen(v, v > 0), v[v > 0])
    assert same(of_numpy.taken(v, np.arange(n)[::-1]), v[::-1])
    assert of_numpy.count(v > 0) == np.count_nonzero(v > 0)


def test_of_numpy_with_nan():
    for at in (0, 3, 8):
        v = RNG.standard_normal(9)
        v[at] = np.nan
        for mine, theirs in (
            (of_numpy.argmax, np.argmax), (of_numpy.argmin, np.argmin),
            (of_numpy.median, np.median), (of_numpy.in_order, np.sort),
        ):  # fmt: skip
            assert same(mine(v), theirs(v))


def test_places_and_tables():
    xs = np.array([-1.0, 0.0, 0.5, 2.0])
    ys = np.array([3.0, -1.0, 2.0, 5.0])
    for x in (-2.0, -1.0, -0.3, 0.0, 0.5, 1.99, 2.0, 3.0):
        assert of_numpy.interpolated(x, xs, ys) == np.interp(x, xs, ys)
        for side in ("left", "right"):
            assert of_numpy.searched(xs, x, side == "right") == np.searchsorted(xs, x, side)
    assert same(of_numpy.steps(2, 7), np.arange(2, 7))
    assert same(of_numpy.steps(7, 2), np.arange(7, 2))


def test_of_python():
    values = [3, 1, 2, 1]
    for mine, theirs in (
        (of_python.largest, max), (of_python.smallest, min), (of_python.total, sum),
        (of_python.any_of, any), (of_python.all_of, all), (of_python.in_order, sorted),
        (of_python.listed, list),
    ):  # fmt: skip
        assert mine(values) == theirs(values)
    assert of_python.gcd(-12, 18) == math.gcd(-12, 18)
    assert of_python.larger(1, 2.0) == 2.0
    assert of_python.smaller(1, 2.0) == 1
