"""Library functions in plain Python give what the libraries give."""

import math

import numpy as np
import pytest

from xpapply.library import of_making, of_math, of_middle, of_numpy, of_order, of_python, of_series

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
        (of_middle.median, np.median), (of_numpy.in_order, np.sort),
        (lambda v: of_numpy.cumulated(v, v.dtype), np.cumsum),
        (of_numpy.differences, np.diff), (of_numpy.argmax, np.argmax), (of_numpy.argmin, np.argmin),
        (of_numpy.any_true, np.any), (of_numpy.all_true, np.all),
        (of_numpy.places, np.flatnonzero),
    ):  # fmt: skip
        assert same(mine(v), theirs(v)), theirs
    assert same(of_numpy.chosen(v, v > 0), v[v > 0])
    assert same(of_numpy.taken(v, np.arange(n)[::-1]), v[::-1])
    two = np.stack([v, -v], 1)
    assert same(of_numpy.chosen_rows(two, v > 0), two[v > 0])
    assert same(of_numpy.taken_rows(two.T, np.array([1, 0, -1])), two.T[[1, 0, -1]])
    assert of_numpy.count(v > 0) == np.count_nonzero(v > 0)


def test_of_numpy_with_nan():
    for at in (0, 3, 8):
        v = RNG.standard_normal(9)
        v[at] = np.nan
        for mine, theirs in (
            (of_numpy.argmax, np.argmax), (of_numpy.argmin, np.argmin),
            (of_middle.median, np.median), (of_numpy.in_order, np.sort),
        ):  # fmt: skip
            assert same(mine(v), theirs(v))


@pytest.mark.parametrize("n", [3, 4, 101, 102, 257, 500])
def test_values_in_the_middle(n):
    some = np.arange(n, dtype=float)
    alike = np.where(some % 3 > 0, 1.0, some % 7)
    for v in (
        some,
        some[::-1],
        np.minimum(some, some[::-1]),
        alike,
        np.ones(n),
        RNG.permutation(n),
    ):
        assert same(of_middle.median(v), np.median(v))
    v = RNG.permutation(np.concatenate([some + 1, -0.0 * np.array([1, -1])]))
    assert same(of_middle.median(v), np.median(v))  # zeros of both signs, but not in the middle
    v[7 % n :: 2] = np.nan
    assert np.isnan(of_middle.median(v))
    with pytest.raises(ValueError):  # noqa: PT011
        of_middle.median(np.array([-0.0, 0.0] * n + [0.0]))


def test_places_and_tables():
    xs = np.array([-1.0, 0.0, 0.5, 2.0])
    ys = np.array([3.0, -1.0, 2.0, 5.0])
    for x in (-2.0, -1.0, -0.3, 0.0, 0.5, 1.99, 2.0, 3.0):
        assert of_numpy.interpolated(x, xs, ys) == np.interp(x, xs, ys)
        for side in ("left", "right"):
            for f in (of_numpy.searched, of_numpy.stepped):  # in what rises they are one
                assert f(xs, x, side == "right") == np.searchsorted(xs, x, side)


@pytest.mark.parametrize("n", [2, 4, 5, 12, 40])
def test_tables_that_do_not_rise(n):
    for _ in range(20):
        xs, ys, v = np.round(RNG.standard_normal((3, n)) * 3)
        assert same(of_numpy.all_interpolated(v, xs, ys), np.interp(v, xs, ys))
        assert same(of_numpy.interpolated(v[0], xs, ys), np.interp(v[0], xs, ys))
        for side in ("left", "right"):
            one, several = of_order.searches()  # as this NumPy does
            assert same(several(xs, v, side == "right"), np.searchsorted(xs, v, side))
            assert one(xs, v[0], side == "right") == np.searchsorted(xs, v[0], side)


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


@pytest.mark.parametrize("n", [2, 7, 12, 40, 300])
def test_of_order(n):
    v = RNG.standard_normal(n)
    v[n // 2 :: 9] = np.nan
    few = np.round(RNG.standard_normal(n) * 2)
    assert same(of_order.places_in_order(few, True), np.argsort(few, kind="stable"))
    for q in (0.0, 0.1, 1 / 3, 0.5, 1.0):
        assert same(of_order.quantile(v, q), np.quantile(v, q))
        assert same(of_order.percentile(few + 0.5, 100 * q), np.percentile(few + 0.5, 100 * q))
    qs = np.array([0.25, 0.5, 0.9])
    assert same(of_order.quantiles(few + 1 / 3, qs), np.quantile(few + 1 / 3, qs))
    assert same(of_order.percentiles(few + 1 / 3, 100 * qs), np.percentile(few + 1 / 3, 100 * qs))
    assert same(of_order.unlike(few + 0.5), np.unique(few + 0.5))
    mine, theirs = of_order.unlike_counted(few + 0.5), np.unique(few + 0.5, return_counts=True)
    assert all(map(same, mine, theirs))
    places = np.abs(few).astype(int)
    assert same(of_order.counted(places, 3), np.bincount(places, minlength=3))
    assert same(of_order.weighed(places, v), np.bincount(places, v))
    edges = np.array([-3.0, -1.0, 0.5, 0.5, 2.0])
    for mine, theirs in (
        (of_order.histogram(v, 7, -1, 2), np.histogram(v, 7, (-1, 2))),
        (of_order.histogram_of_all(few, 4), np.histogram(few, 4)),
        (of_order.histogram_of_edges(v, edges), np.histogram(v, edges)),
    ):
        assert all(map(same, mine, theirs))
    assert same(of_order.all_in_bins(few, edges), np.digitize(few, edges))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [2, 7, 12, 40, 300])
def test_of_series(n, dtype):
    v = RNG.standard_normal(n).astype(dtype)
    w = RNG.standard_normal(5).astype(dtype)
    assert same(of_series.inner(v, v[::-1]), np.dot(v, v[::-1]))
    for mode in ("full", "same", "valid"):
        assert same(of_series.convolved(v, w, mode), np.convolve(v, w, mode))
        assert same(of_series.correlated(v, v, mode), np.correlate(v, v, mode))
    assert same(of_series.slopes(v), np.gradient(v))
    assert same(of_series.rounded(v, 2), np.round(v, 2))
    v[::3] = np.nan
    for mine, theirs in (
        (of_series.nan_sum, np.nansum), (of_series.nan_mean, np.nanmean),
        (of_series.nan_deviation, np.nanstd), (of_series.nan_max, np.nanmax),
        (of_series.nan_min, np.nanmin), (of_series.nan_median, np.nanmedian),
        (of_series.accumulated_max, np.maximum.accumulate),
        (of_series.accumulated_min, np.minimum.accumulate),
    ):  # fmt: skip
        assert same(mine(v), theirs(v)), theirs
    assert of_series.close(1.0, 1.0 + 1e-6) == np.isclose(1.0, 1.0 + 1e-6)


def test_of_making():
    v = RNG.standard_normal(7)
    for mine, theirs in (
        (of_making.spaced(0.1, 2, 9), np.linspace(0.1, 2, 9)),
        (of_making.spaced(1, 1, 4), np.linspace(1, 1, 4)),
        (of_making.spaced(0, 3, 4, False), np.linspace(0, 3, 4, endpoint=False)),
        (of_making.stepped(0, 1, 0.1), np.arange(0, 1, 0.1)),
        (of_making.steps(7, -2, -2), np.arange(7, -2, -2)),
        (of_making.steps(7, 2, 1), np.arange(7, 2)),
        (of_making.rolled(v, -3), np.roll(v, -3)), (of_making.tiled(v, 2), np.tile(v, 2)),
        (of_making.repeated(v, 2), np.repeat(v, 2)), (of_making.outer(v, v), np.outer(v, v)),
        (of_making.inserted(v, 2, 1.5), np.insert(v, 2, 1.5)),
        (of_making.without(v, -1), np.delete(v, -1)),
    ):  # fmt: skip
        assert same(mine, theirs)


EXTREME = (0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e-310, 2.0**-1022, 1e308)


def drawn_floats(r, n):
    """Ordinary numbers, large and small ones, and special ones."""
    x = r.standard_normal(n) * 10.0 ** (r.integers(-30, 30, n) * (r.random(n) < 0.4))
    return [float(r.choice(EXTREME)) if r.random() < 0.1 else float(y) for y in x]


def alike(mine, theirs, *args):
    """Whether a page gives what Python does, or leaves that to Python."""
    try:
        found = mine(*args)
    except (ValueError, OverflowError):
        return True
    try:
        wanted = theirs(*args)
    except (ValueError, OverflowError):
        return False
    return repr(found) == repr(wanted)


def test_of_floats():
    r = np.random.default_rng(5)
    for _ in range(3000):
        x, y = (drawn_floats(r, 3) for _ in range(2))
        n = int(r.choice([r.integers(-30, 30), r.integers(-2300, 2300)]))
        assert alike(of_math.length, lambda x: math.hypot(*x), x), x
        assert alike(of_math.distance, math.dist, x, y), (x, y)
        assert alike(of_math.scaled, math.ldexp, x[0], n), (x, n)
        assert alike(of_math.mantissa, math.frexp, x[0]), x
        assert alike(of_math.ulp, math.ulp, x[0]), x
        k = int(r.integers(-(2**62), 2**62)) >> int(r.integers(0, 62))
        assert of_math.bit_length(k) == k.bit_length(), k
        assert of_math.bit_count(k) == k.bit_count(), k
    assert of_math.length([3.0, 4.0]) == 5.0
    assert of_math.scaled(1.5, -1074) == math.ldexp(1.5, -1074)
