"""Interpolators that are made of the slice inside `f`."""

import gc

import numpy as np
import pytest

import xpapply
from xpapply.batching import Batched, instances, resolve
from xpapply.batching.rules import mapped

interpolate = pytest.importorskip("scipy.interpolate")

ARR = np.random.default_rng(0).gamma(2.0, size=(6, 24, 5))
T = np.arange(24.0)
AT = T[:-1] + 0.25
PLANE = np.stack([T, T * T % 7], 1)
INSIDE = np.stack([T[5:10] + 0.5, np.full(5, 2.5)], 1)

MADE = {
    "CubicSpline": lambda c, v: c(T, v)(AT, 1),
    "PchipInterpolator": lambda c, v: c(T, v, extrapolate=True)(T + 0.5),
    "interp1d": lambda c, v: c(T, v, kind="linear", bounds_error=False)(T + 0.5),
    "make_interp_spline": lambda c, v: c(T, v, k=3)(AT),
    "make_lsq_spline": lambda c, v: c(T, v, np.r_[[0.0] * 4, 6.0, 12.0, [23.0] * 4])(AT),
    "NearestNDInterpolator": lambda c, v: c(PLANE, v)(INSIDE),
    "CubicHermiteSpline": lambda c, v: c(T, v, np.ones(24))(AT),
    "KroghInterpolator": lambda c, v: c(T[:5], v[:5])(T[:4] + 0.5),
    "BarycentricInterpolator": lambda c, v: c(T[:5], v[:5])(T[:4] + 0.5),
    "BSpline": lambda c, v: c(np.arange(28.0), v, 3)(T[4:-2] + 0.25),
    "PPoly": lambda c, v: c(v.reshape(4, 6), np.arange(7.0))(T[:6] + 0.25),
    "BPoly": lambda c, v: c(v.reshape(4, 6), np.arange(7.0))(T[:6] + 0.25),
    "NdPPoly": lambda c, v: c(v.reshape(2, 2, 2, 3), (T[:3], T[:4]))(T[:4].reshape(2, 2) / 2),
    "NdBSpline": lambda c, v: c((np.arange(28.0),), v, 3)(T[4:-2, None] + 0.25),
    "RBFInterpolator": lambda c, v: c(T[:, None], v)(AT[:, None]),
    "LinearNDInterpolator": lambda c, v: c(PLANE, v)(INSIDE),
    "CloughTocher2DInterpolator": lambda c, v: c(PLANE, v)(INSIDE),
    "RegularGridInterpolator": lambda c, v: c((T,), v)(AT[:, None]),
}


def test_each_has_an_example():
    assert {f"scipy.interpolate.{name}" for name in MADE} == {r.name for r in instances.ROWS}


def equal(f, arr=ARR):
    want = np.apply_along_axis(f, 1, arr)
    plan = xpapply.explain(f, 1, arr)
    got = xpapply.apply_along_axis(f, 1, arr)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)
    return plan


@pytest.mark.parametrize("name", MADE)
def test_made_in_f(name):
    cls = resolve(f"scipy.interpolate.{name}")
    if cls is None:
        pytest.skip("not in this SciPy")
    plan = equal(lambda v: MADE[name](cls, v))
    if name == "BarycentricInterpolator":  # it may draw the order of its nodes
        return
    assert plan.vectorized, plan.reasons
    assert f"scipy.interpolate.{name}" in plan.kernels[0]


def test_a_slice_that_raises_is_left_to_f():
    arr = ARR.copy()
    arr[2, 3, 1] = np.nan

    def f(v):
        try:
            return interpolate.CubicSpline(T, v)(AT)
        except ValueError:
            return np.zeros(23)

    plan = equal(f, arr)
    assert plan.vectorized, plan.reasons


@pytest.mark.parametrize(
    "name", ["interp1d", "PchipInterpolator", "BSpline", "NearestNDInterpolator"]
)
def test_infinities_stay_in_their_slice(name):
    arr = ARR.copy()
    arr[2, 3, 1], arr[4, 5, 2] = np.inf, np.nan
    cls = resolve(f"scipy.interpolate.{name}")
    f = lambda v: MADE[name](cls, v)  # noqa: E731
    with np.errstate(all="ignore"), xpapply.options(fallback="silent"):
        try:
            want = np.apply_along_axis(f, 1, arr)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:20]):
                xpapply.apply_along_axis(f, 1, arr)
            return
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, arr), want, 1e-9)


def test_made_of_constants_and_called_with_the_slice():
    spline = interpolate.CubicSpline(T, ARR[0, :, 0])
    assert equal(lambda v: interpolate.CubicSpline(T, T**2)(v)).vectorized
    assert equal(lambda v: spline(v)).vectorized


def test_what_f_makes_lives_as_long_as_its_plan():
    """Python's garbage collector may run between the trace and a call."""
    f = lambda v: interpolate.CubicSpline(T, T**2)(v)  # noqa: E731
    plan = xpapply.explain(f, 1, ARR)
    gc.collect()
    got = xpapply.apply_along_axis(f, 1, ARR)
    np.testing.assert_allclose(got, np.apply_along_axis(f, 1, ARR), rtol=1e-12)
    assert plan.vectorized, plan.reasons  # it was not given up


def test_places_that_depend_on_the_slice():
    plan = equal(lambda v: interpolate.interp1d(np.cumsum(v), v)(np.cumsum(v)[3:5]))
    assert plan.vectorized, plan.reasons
    assert "interp1d, slice by slice" in " ".join(plan.kernels)


def test_other_methods():
    plan = equal(lambda v: interpolate.CubicSpline(T, v).integrate(0, 5))
    assert plan.vectorized, plan.reasons
    assert "CubicSpline" in plan.kernels[0]


def test_other_uses_are_refused():
    plan = equal(lambda v: interpolate.CubicSpline(T, v).solve(1.0).sum())
    assert not plan.vectorized
    assert "CubicSpline" in plan.reasons[0]


@pytest.mark.parametrize("name", MADE)
def test_made_and_called_in_one_call_as_on_cupy(name):
    """What CuPy's rows do, with SciPy's classes."""
    row = next(r for r in instances.ROWS if r.name.endswith("." + name))
    cls = resolve(row.name)
    if cls is None:
        pytest.skip("not in this SciPy")
    arr = np.ascontiguousarray(ARR[:, :, 0])

    def both(*made, **named):
        rows = mapped(lambda x: Batched(x) if len(x) == len(arr) else x, (made, named), np.ndarray)
        return lambda *at, **keywords: row.rule(np, cls, (*rows, at, keywords), {})

    def sliced(c):
        class All(np.ndarray):
            """All slices, cut as `MADE` cuts one."""

            def __getitem__(self, key):
                return np.asarray(self)[:, key]

            def reshape(self, *shape):
                return np.asarray(self).reshape(len(self), *shape)

        return MADE[name](c, arr.view(All))

    want = np.stack([MADE[name](cls, v) for v in arr])
    np.testing.assert_allclose(sliced(both).array, want, rtol=1e-8, atol=1e-9)
