"""Curves that are made on each slice's own places run compiled: with SciPy's bits."""

import math

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.library.solvers import b_splines
from xpapply.planning.python.typed_loop import TypedLoop

interpolate = pytest.importorskip("scipy.interpolate")

from scipy.linalg import solve_banded  # noqa: E402

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
RNG = np.random.default_rng(0)
X = np.array([0.0, 1, 2, 4, 5, 7, 8, 10, 11, 12])
Q = np.linspace(-0.5, 12.5, 30)
KNOTS = np.array([0.0, *X, 12.0])
BANDS = np.ones((3, 10))


def with_gaps(n=80):
    found = RNG.normal(size=(n, 10))
    found[RNG.random(found.shape) < 0.2] = np.nan
    found[:, :5] = np.where(np.isnan(found[:, :5]), 1.0, found[:, :5])
    return found


def by_cubics(v):
    there = ~np.isnan(v)
    return interpolate.CubicSpline(X[there], v[there])(Q)


def natural(v):
    there = ~np.isnan(v)
    curve = interpolate.CubicSpline(X[there], v[there], bc_type=("natural", "clamped"))
    return np.array([curve(3.3), curve(3.3, 1), curve(2.0, nu=2)])


def monotone(v):
    there = ~np.isnan(v)
    return interpolate.PchipInterpolator(X[there], v[there], extrapolate=False)(Q)


def by_akima(v):
    there = ~np.isnan(v)
    x = X[there]
    return interpolate.Akima1DInterpolator(x, v[there], method="makima")(x[0] + 0.3)


def by_akima_beyond(v):
    there = ~np.isnan(v)
    return interpolate.Akima1DInterpolator(X[there], v[there])(Q, extrapolate=True)


def by_lines(v):
    there = ~np.isnan(v)
    return interpolate.interp1d(X[there], v[there], bounds_error=False, fill_value=(-1, 7))(Q)


def lines_that_go_on(v):
    there = ~np.isnan(v)
    line = interpolate.interp1d(X[there], v[there], fill_value="extrapolate")
    return line(Q) + line(20.0)


def caught(v):
    there = ~np.isnan(v)
    try:
        return interpolate.interp1d(X[there], v[there])(11.5)
    except ValueError:
        return -9.0


def by_fitpack(v):
    curve = interpolate.UnivariateSpline(X, np.where(v > 0, v, 0.0), s=0, k=4, ext="const")
    places = X[:4] + v[0]
    return np.array([*curve(Q), *curve(Q, 2), *curve(places), curve(3.3), curve(2.0, nu=4, ext=1)])


def by_fitpack_with_gaps(v):
    there = ~np.isnan(v)
    x = X[there]
    return interpolate.InterpolatedUnivariateSpline(x, v[there], k=2)(Q)


def by_representation(v):
    there = ~np.isnan(v)
    t, c, k = interpolate.splrep(X[there], v[there], s=0)
    return interpolate.splev(Q, (t, c, k), der=1) + c[0]


def by_b_splines(v):
    there = ~np.isnan(v)
    return interpolate.make_interp_spline(X[there], v[there])(Q)


def by_parabolas(v):
    there = ~np.isnan(v)
    curve = interpolate.make_interp_spline(X[there], v[there], k=2, bc_type=None)
    return np.array([curve(3.3), curve(3.3, 1), *curve(X, nu=2, extrapolate=True)])


def not_finite(v):
    try:
        return interpolate.make_interp_spline(np.abs(v).cumsum() + X, v)(X)
    except ValueError:
        return X


def three_diagonals(v):
    bands = BANDS.copy()
    bands[1] = 4 + np.abs(np.where(np.isnan(v), 0.0, v))
    return solve_banded((1, 1), bands, X)


ALL = [
    by_cubics, natural, monotone, by_akima, by_akima_beyond, by_lines, lines_that_go_on, caught,
    three_diagonals, by_fitpack, by_fitpack_with_gaps, by_representation,
]  # fmt: skip


ROUNDED = [by_b_splines, by_parabolas, not_finite]
"""Which SciPy leaves to LAPACK."""


def compiled(f):
    return [x for x in cache_of(f)[0].traced.values() if isinstance(x, TypedLoop)]


@pytest.mark.parametrize("f", ALL + ROUNDED, ids=lambda f: f.__name__)
def test_as_the_loop(f):
    arr = with_gaps()
    if f is not_finite:
        arr[:40] = np.where(np.isnan(arr[:40]), 2.0, arr[:40])
        arr[50, 3] = np.inf
    want = np.apply_along_axis(f, 1, arr)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    near = {"rtol": 1e-10, "atol": 1e-12} if f in ROUNDED else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(got, want, **near)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_b_splines_are_scipys_but_for_rounding(k):
    rng = np.random.default_rng(k)
    for _ in range(100):
        m = rng.integers(k + 1, 30)
        x, y = np.cumsum(rng.choice([0.1, 1.0, 1.0, 5.0], m)), rng.normal(size=m)
        at, nu = np.concatenate([rng.uniform(x[0] - 1, x[-1] + 1, 9), x]), int(rng.integers(k + 1))
        want = interpolate.make_interp_spline(x, y, k)(at, nu)
        got = b_splines.interpolating(x, y, k)(at, nu)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * abs(want).max())


def test_where_all_have_the_same_places_they_are_made_at_once():
    """Which is quicker than compiling, for a few slices."""

    def f(v):
        return interpolate.CubicSpline(X, v)(Q)

    arr = RNG.normal(size=(200, 10))
    want = np.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)
    assert not compiled(f)


def test_exceptions_are_scipys():
    """Of places that do not increase, and of values that are not finite."""

    def f(v):
        return interpolate.CubicSpline(np.cumsum(v), X)(1.0)

    arr = RNG.uniform(0.1, 1, (60, 10))
    with xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, 1, arr)
        assert compiled(f)
        for bad in (-1.0, math.nan):
            arr[31, 4] = bad
            with pytest.raises(ValueError, match="must") as theirs:
                np.apply_along_axis(f, 1, arr)
            with pytest.raises(ValueError, match="must") as ours:
                xpapply.apply_along_axis(f, 1, arr)
            assert str(ours.value) == str(theirs.value)


def test_places_that_are_written_to_are_noticed():
    """What is computed of them beforehand is computed anew."""
    x = X.copy()

    def f(v):
        return interpolate.InterpolatedUnivariateSpline(x, v)(Q)

    arr = RNG.normal(size=(60, 10))
    for _ in range(2):
        with xpapply.options(engine="cpu"):
            got = xpapply.apply_along_axis(f, 1, arr)
        np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))
        x[3] += 0.5
    assert compiled(f)


REFUSED = {
    "with s: s=0 is compiled": lambda v: interpolate.UnivariateSpline(X, v)(1.0),
    "splrep with s: s=0": lambda v: interpolate.splev(1.0, interpolate.splrep(X, v, s=2)),
    "knots that are given": lambda v: interpolate.make_interp_spline(X + 0 * v, v, 1, t=KNOTS)(X),
    "that ends where its points do": lambda v: interpolate.make_interp_spline(X + v, v)(
        X, 0, False
    ),
    "such a bc_type": lambda v: interpolate.CubicSpline(
        np.cumsum(v), np.cos(v * 0), bc_type="periodic"
    )(1.0),
    "kind: kind=linear is compiled": lambda v: interpolate.interp1d(
        np.cumsum(v), X, kind="nearest"
    )(v[0] + v[1]),
    "other than three diagonals": lambda v: solve_banded((0, 1), BANDS[:2] + v, X),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused_says_so(why):
    f, arr = REFUSED[why], RNG.uniform(0.1, 1, (30, 10))
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))
    assert not compiled(f)
    with pytest.raises(xpapply.UnsupportedError), xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, 1, arr)
    reasons = [getattr(x, "why", "") for x in cache_of(f)[0].traced.values()]
    assert any(why in x for x in reasons), reasons
