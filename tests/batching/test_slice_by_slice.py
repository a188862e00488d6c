"""What is called slice by slice says so; least squares are solved for all slices at once."""

import numpy as np
import pytest

import xpapply

RNG = np.random.default_rng(0)
ARR = RNG.normal(size=(400, 16))
MATRIX = RNG.normal(size=(16, 3))
PLACES = np.arange(16.0)

SINGLY = "called slice by slice"


def kernels(f, arr=ARR):
    plan = xpapply.explain(f, -1, arr)
    assert plan.engine == "numpy", str(plan)
    return plan.kernels[0]


def test_functions_without_a_batched_form():
    assert f"numpy.linalg.multi_dot ({SINGLY})" in kernels(
        lambda v: np.linalg.multi_dot([v.reshape(4, 4)] * 3)
    )
    scipy_stats = pytest.importorskip("scipy.stats")
    assert f"scipy.stats.weightedtau ({SINGLY})" in kernels(
        lambda v: scipy_stats.weightedtau(v, PLACES)[0]
    )


def test_arguments_that_a_rule_has_no_batched_form_for():
    assert f"numpy.pad ({SINGLY})" in kernels(lambda v: np.pad(v, 2, mode="linear_ramp"))
    assert SINGLY not in kernels(lambda v: np.pad(v, 2))
    twice = kernels(lambda v: np.pad(np.pad(v, 2, mode="linear_ramp"), 1, mode="linear_ramp"))
    assert f"numpy.pad (2x, {SINGLY})" in twice


def test_slices_that_a_rule_has_no_batched_form_for():
    f = lambda v: np.interp(0.5, np.sort(v) if v[0] > 1e9 else v, PLACES)  # noqa: E731
    arr = np.sort(ARR, axis=1)
    assert SINGLY not in kernels(f, arr)
    with xpapply.options(engine="numpy"):
        xpapply.apply_along_axis(f, -1, arr)
        assert SINGLY not in kernels(f, arr)
        arr = arr.copy()
        arr[200, 3] = 9.0  # no longer sorted
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, -1, arr), np.apply_along_axis(f, -1, arr)
        )
        assert f"numpy.interp ({SINGLY})" in kernels(f, arr)


FITS = {
    "lstsq": lambda v: np.linalg.lstsq(MATRIX, v)[0],
    "residuals": lambda v: np.linalg.lstsq(MATRIX, v)[1],
    "singular values": lambda v: np.linalg.lstsq(MATRIX, v)[3] * v[0],
    "square": lambda v: np.linalg.lstsq(MATRIX[:3], v[:3])[0],
    "wide": lambda v: np.linalg.lstsq(MATRIX.T[:, :5], v[:3], rcond=1e-10)[0],
    "matrix of the slice": lambda v: np.linalg.lstsq(v[:15].reshape(5, 3), PLACES[:5])[0],
    "its residuals": lambda v: np.linalg.lstsq(v[:15].reshape(5, 3), v[:5])[1],
    "its rank": lambda v: np.linalg.lstsq(v[:15].reshape(5, 3), v[:5])[2],
    "polyfit": lambda v: np.polyfit(PLACES, v, 2),
    "weights": lambda v: np.polyfit(PLACES, v, 1, w=PLACES + 1, cov=True)[1],
    "covariance": lambda v: np.polyfit(PLACES, v, 2, cov=True)[1],
    "its coefficients": lambda v: np.polyfit(PLACES, v, 2, cov=True)[0],
    "unscaled": lambda v: np.polyfit(PLACES, v, 1, cov="unscaled")[1] + v[0],
    "full": lambda v: np.polyfit(PLACES, v, 1, full=True)[1],
    "places of the slice": lambda v: np.polyfit(v[:8], v[8:], 1),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.parametrize("name", FITS)
def test_least_squares_are_solved_for_all_slices_at_once(name, dtype):
    f = FITS[name]
    arr = ARR.astype(dtype) if dtype != "i8" else RNG.integers(-99, 99, ARR.shape)
    assert SINGLY not in kernels(f, arr)
    with xpapply.options(engine="numpy"):
        found = xpapply.apply_along_axis(f, -1, arr)
    assert SINGLY not in kernels(f, arr)
    wanted = np.apply_along_axis(f, -1, arr)
    assert found.dtype == wanted.dtype
    eps = np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0
    scale = abs(wanted).max(axis=tuple(range(1, wanted.ndim)), keepdims=True, initial=1)
    assert (abs(found - wanted) <= 1e5 * eps * scale).all()


@pytest.mark.parametrize("name", ["lstsq", "residuals", "covariance", "full", "polyfit"])
def test_slices_of_very_different_size(name):
    arr = ARR.copy()
    arr[3], arr[7], arr[9] = 0, arr[7] * 1e120, arr[9] * 1e-120
    wanted = np.apply_along_axis(FITS[name], -1, arr)
    with xpapply.options(engine="numpy"), np.errstate(all="ignore"):
        found = xpapply.apply_along_axis(FITS[name], -1, arr)
    for k in (3, 7, 9):
        np.testing.assert_array_equal(found[k], wanted[k])
    scale = abs(wanted).max(axis=tuple(range(1, wanted.ndim)), keepdims=True)
    assert (abs(found - wanted) <= 1e-10 * scale).all()


def test_a_matrix_without_full_rank_is_solved_as_numpy_does():
    arr = RNG.normal(size=(100, 9))
    arr[40, 6:] = arr[40, 3:6] * 2  # two rows of a square matrix
    arr[50] = 0
    for k in (0, 2, 3):
        f = lambda v, k=k: np.linalg.lstsq(v.reshape(3, 3), PLACES[:3])[k]  # noqa: E731
        wanted = np.apply_along_axis(f, -1, arr)
        with xpapply.options(engine="numpy"):
            found = xpapply.apply_along_axis(f, -1, arr)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        np.testing.assert_array_equal(found[[40, 50]], wanted[[40, 50]])
