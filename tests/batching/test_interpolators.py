"""Interpolators and splines that a function makes out of its slice."""

import functools

import numpy as np
import pytest
import scipy.interpolate as si
from calls_of import check

import xpapply

RNG = np.random.default_rng(0)
A = RNG.random((150, 12))
T = np.arange(12.0)
NEW = np.linspace(0, 11, 23)
HOLES = np.where(RNG.random(A.shape) < 0.02, np.nan, A)
HOLES[0] = A[0]


def late(v):
    s = si.CubicSpline(T, v)
    if v[0] > 0.5:
        s = s.derivative()
    return s(NEW[:3]).sum()


@pytest.mark.parametrize(
    "f",
    [
        lambda v: si.interp1d(T, v)(NEW),
        lambda v: si.interp1d(T, v)(T),
        lambda v: si.interp1d(T, v)(1.25),
        lambda v: si.interp1d(T, v, kind="nearest")(NEW),
        lambda v: si.interp1d(T, v, kind="cubic")(3.3),
        lambda v: si.interp1d(T, v, kind="quadratic")(NEW),
        lambda v: si.interp1d(T, v, bounds_error=False)(NEW * 2 - 3),
        lambda v: si.interp1d(T, v, bounds_error=False, fill_value=0.0)(NEW * 2 - 3),
        lambda v: si.interp1d(T, v, fill_value="extrapolate")([12.0, 13.0, 3.0]),
        lambda v: si.interp1d(T, v, bounds_error=False, fill_value=(v[0], v[-1]))(NEW * 2 - 3),
        lambda v: si.interp1d(T, v)(NEW.reshape(1, -1)).ravel(),
        lambda v: si.interp1d(np.cumsum(v + 0.1), v, fill_value="extrapolate")(NEW / 4),
        lambda v: si.interp1d(T, v)(v * 10),
        lambda v: si.CubicSpline(T, v)(NEW),
        lambda v: si.CubicSpline(T, v, bc_type="natural")(NEW, 1),
        lambda v: si.CubicSpline(T, v).derivative()(1.5),
        lambda v: si.CubicSpline(T, v).integrate(0, 5),
        lambda v: si.CubicSpline(T, v).antiderivative(2)(NEW),
        lambda v: si.CubicSpline(T, v).c[0],
        lambda v: si.CubicSpline(T, v)(v.argmax() + 0.5),
        lambda v: si.PchipInterpolator(T, v)(NEW),
        lambda v: si.Akima1DInterpolator(T, v)(NEW),
        lambda v: si.make_interp_spline(T, v, k=2)(NEW),
        lambda v: si.KroghInterpolator(T[:4], v[:4])(NEW[:7]),
        lambda v: si.UnivariateSpline(T, v, s=0.1)(NEW),
        lambda v: si.UnivariateSpline(T, v, s=0.1).derivative()(2.0),
        lambda v: si.UnivariateSpline(T, v, s=0.1).integral(0, 5),
        lambda v: si.InterpolatedUnivariateSpline(T, v)(1.5),
        lambda v: si.make_smoothing_spline(T, v, lam=1.0)(NEW),
        late,
    ],
)
def test_as_in_the_loop(f):
    check(f, A, exact=False)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: si.interp1d(T, v)(NEW),
        lambda v: si.interp1d(T, v)(T),
        lambda v: si.interp1d(T, v, kind="nearest")(NEW),
        lambda v: si.interp1d(T, v, bounds_error=False, fill_value=-1.0)(NEW * 2 - 3),
        lambda v: si.interp1d(T, v, fill_value="extrapolate")(NEW * 2 - 3),
    ],
)
def test_lines_and_steps_bit_for_bit(f):
    check(f, A)
    check(f, HOLES)
    check(f, np.where(A > 0.97, np.inf, A))


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128"])
def test_dtypes(dtype):
    data = (A * 9).astype(dtype)
    check(lambda v: si.interp1d(T, v)(NEW), data)
    check(lambda v: si.CubicSpline(T, v)(NEW), data, exact=False)


def test_one_object_serves_a_block(monkeypatch):
    made = []
    real = si.CubicSpline.__init__

    @functools.wraps(real)
    def counting(self, *args, **kwargs):
        made.append(1)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(si.CubicSpline, "__init__", counting)
    data = np.tile(A, (20, 1))
    xpapply.apply_along_axis(lambda v: si.CubicSpline(T, v)(NEW), -1, data)
    assert len(made) < 40


def test_those_without_an_axis_are_said_to_be_called_slice_by_slice():
    plan = xpapply.explain(lambda v: si.UnivariateSpline(T, v)(NEW), -1, A)
    assert "UnivariateSpline, slice by slice" in plan.kernels[0]


def test_errors_are_those_of_the_loop():
    for f in (
        lambda v: si.interp1d(T, v)(12.5),
        lambda v: si.CubicSpline(T, v)(NEW),
    ):
        data = np.tile(A, (20, 1))
        data[900, 3] = np.nan
        with pytest.raises(ValueError, match=r"finite|range") as theirs:
            np.apply_along_axis(f, -1, data)
        with (
            pytest.raises(ValueError, match=r"finite|range") as ours,
            xpapply.options(fallback="silent"),
        ):
            xpapply.apply_along_axis(f, -1, data)
        assert str(ours.value) == str(theirs.value)


def test_what_changes_the_object_stays_in_the_loop():
    def f(v):
        s = si.UnivariateSpline(T, v)
        s.set_smoothing_factor(0.5)
        return s(1.0)

    check(f, A[:40], vectorized=False)


@pytest.mark.parametrize("huge", [9.97e36, 1e20, -3e13])
def test_no_slice_changes_what_another_takes_for_equal(huge):
    """Akima's slopes are weighed against the largest of all columns: a fill value, say."""
    data = np.random.default_rng(0).normal(size=(400, len(T)))
    data[123, 2] = huge
    for f in (
        lambda v: si.Akima1DInterpolator(T, v)(NEW),
        lambda v: si.Akima1DInterpolator(T, v).derivative()(NEW),
        lambda v: si.PchipInterpolator(T, v)(NEW),
        lambda v: si.CubicSpline(T, v)(NEW),
    ):
        got = xpapply.apply_along_axis(f, -1, data)
        for k in (0, 122, 124, 399):
            np.testing.assert_allclose(got[k], f(data[k]), rtol=1e-9)
