"""Fits by xarray's own doors, and by NumPy's masks, under `xpapply.patch`: what people write.

Each door gives what it gives without the patch, and reaches the compiled solver.
"""

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend

xr = pytest.importorskip("xarray")
pytest.importorskip("scipy.optimize")

from scipy.optimize import curve_fit  # noqa: E402

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
RNG = np.random.default_rng(0)
T = np.linspace(0.0, 5.0, 16)
SIZES = RNG.uniform(0.5, 3.0, (12, 30, 1)), RNG.uniform(0.3, 2.0, (12, 30, 1))
VALUES = SIZES[0] * np.exp(-SIZES[1] * T) + 0.02 * RNG.normal(size=(12, 30, 16))
CUBE = xr.DataArray(VALUES, {"time": T}, ("y", "x", "time"))
WITH_GAPS = CUBE.where(RNG.random(CUBE.shape) > 0.1)
WITH_GAPS[3, 4] = np.nan
BEGINS_EMPTY = WITH_GAPS.copy()
BEGINS_EMPTY[0, :2] = np.nan


def decay(time, a, b):
    return a * np.exp(-b * time)


def fit(v):
    try:
        return curve_fit(decay, T, v, p0=(v[0], 1.0))[0]
    except RuntimeError:
        return np.full(2, np.nan)


def fit_at(v, t):
    return curve_fit(decay, t, v, p0=(v[0], 1.0))[0]


def fit_from(v, a, b):
    p, covariance = curve_fit(decay, T, v, p0=(a, b))
    return p[0], np.sqrt(covariance[0, 0])


def fit_what_there_is(v):
    there = ~np.isnan(v)
    if there.sum() < 3:
        return np.full(2, np.nan)
    return curve_fit(decay, T[there], v[there], p0=(1.0, 1.0))[0]


def ufunc(f, *given, inputs=(["time"],), outputs=(["p"],), **how):
    return xr.apply_ufunc(
        f, *given, input_core_dims=inputs, output_core_dims=outputs, vectorize=True, **how
    )


PARALLEL = {
    "dask": "parallelized",
    "output_dtypes": [float],
    "dask_gufunc_kwargs": {"output_sizes": {"p": 2}},
}
START = {"a": 1.0, "b": 1.0}


def fitted(cube, **how):
    return cube.curvefit("time", decay, **how)


DOORS = {
    "curvefit": lambda: fitted(CUBE, p0=START),
    "from ones": lambda: fitted(CUBE),
    "gaps": lambda: fitted(WITH_GAPS, p0=START),
    "nothing first": lambda: fitted(BEGINS_EMPTY, p0=START),
    "no gaps": lambda: fitted(CUBE, p0=START, skipna=False),
    "failures ignored": lambda: fitted(CUBE, p0=START, errors="ignore"),
    "from a place of each": lambda: fitted(CUBE, p0={"a": CUBE.max("time")}),
    "float32": lambda: fitted(CUBE.astype("f4"), p0=START),
    "of a Dataset": lambda: CUBE.to_dataset(name="z").curvefit("time", decay, p0=START),
    "apply_ufunc": lambda: ufunc(fit, CUBE),
    "apply_ufunc, gaps": lambda: ufunc(fit_what_there_is, WITH_GAPS),
    "apply_ufunc, coordinates": lambda: ufunc(fit_at, CUBE, CUBE.time, inputs=(["time"],) * 2),
    "apply_ufunc, numbers": lambda: ufunc(
        fit_from, CUBE, CUBE.max("time"), 1.0, inputs=(["time"], [], []), outputs=([], [])
    ),
}
WITHIN = {
    "bounds": lambda: fitted(CUBE, p0=START, bounds={"a": (0.0, 10.0), "b": (0.0, 5.0)}),
    "one bound": lambda: fitted(CUBE, p0=START, bounds={"a": (0.0, np.inf)}),
    "bounds of each": lambda: fitted(
        CUBE, p0={"a": 0.6}, bounds={"a": (0.4, CUBE.max("time") + 1.0)}
    ),
}
CHUNKS = {
    "curvefit, chunks": lambda: fitted(CUBE.chunk(y=4), p0=START).compute(),
    "apply_ufunc, chunks": lambda: ufunc(fit, CUBE.chunk(y=4), **PARALLEL).compute(),
}


def parts(x):
    if isinstance(x, tuple):
        return [y for z in x for y in parts(z)]
    return [np.asarray(y) for y in (x.data_vars.values() if hasattr(x, "data_vars") else (x,))]


@pytest.mark.parametrize("name", [*DOORS, *WITHIN, *CHUNKS])
def test_doors_reach_the_compiled_solver(name):
    if name in CHUNKS:
        pytest.importorskip("dask.array")
    door = (DOORS | WITHIN | CHUNKS)[name]
    wanted = door()
    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        found = [door() for _ in range(3)]
    (row,) = patched.report.rows
    assert row.loop == "numpy.vectorize"
    assert set(row.engines) == {"numpy"}, row.reasons
    near = 1e-7 if name in WITHIN else 1e-14
    for one in found:
        for mine, theirs in zip(parts(one), parts(wanted), strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=near, atol=near if name in WITHIN else 0)
    if name in DOORS:  # parameters have SciPy's bits
        assert np.array_equal(parts(found[-1])[0], parts(wanted)[0], equal_nan=True)


def test_options_of_the_fit():
    """They come as a partial that is made anew for each call."""
    door = lambda: fitted(CUBE, p0=START, kwargs={"maxfev": 500})  # noqa: E731
    wanted = door()
    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        found = door()
    assert set(patched.report.rows[0].engines) == {"numpy"}
    assert np.array_equal(parts(found)[0], parts(wanted)[0])


def test_bounds_after_none_and_back():
    """Of one model, which compiled code without bounds has been made for."""
    wanted = {name: (DOORS | WITHIN)[name]() for name in ("curvefit", "bounds")}
    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        for name in ("curvefit", "bounds", "curvefit", "bounds"):
            found = (DOORS | WITHIN)[name]()
            for mine, theirs in zip(parts(found), parts(wanted[name]), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-7)
    assert set(patched.report.rows[0].engines) == {"numpy"}


def test_bounds_of_some_slices_are_left_to_scipy():
    """Without bounds for the first one."""
    end = xr.full_like(CUBE[..., 0], np.inf)
    end[3:] = 10.0
    door = lambda: fitted(CUBE, p0={"a": 1.0}, bounds={"a": (-np.inf, end)})  # noqa: E731
    wanted = door()
    with xpapply.patch(), xpapply.options(fallback="silent"):
        found = door()
    for mine, theirs in zip(parts(found), parts(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-7)


def test_what_cannot_be_fitted_raises_as_ever():
    bad = CUBE.copy()
    bad[2, 3] = np.nan
    with pytest.raises(ValueError, match="infs or NaNs") as wanted:
        fitted(bad, p0=START, skipna=False)
    with xpapply.patch(), pytest.raises(ValueError, match="infs or NaNs") as found:
        fitted(bad, p0=START, skipna=False)
    assert str(found.value) == str(wanted.value)


def test_masked_arrays_are_left_to_numpy_and_filled_ones_are_compiled():
    masked = np.ma.masked_invalid(WITH_GAPS.values[4:])

    def of_masked(v):
        return curve_fit(decay, T[~v.mask], v.compressed(), p0=(1.0, 1.0))[0]

    ways = {
        "masked": lambda: np.ma.apply_along_axis(of_masked, -1, masked),
        "along": lambda: np.apply_along_axis(of_masked, -1, masked),
        "filled": lambda: np.apply_along_axis(fit_what_there_is, -1, masked.filled(np.nan)),
    }
    wanted = {name: way() for name, way in ways.items()}
    for name, way in ways.items():
        with xpapply.patch() as patched, xpapply.options(fallback="silent"):
            found = way()
        assert type(found) is type(wanted[name])
        np.testing.assert_array_equal(found, wanted[name])
        engines = {e for row in patched.report.rows for e in row.engines}
        assert engines == ({"numpy"} if name == "filled" else {"loop"})


def test_a_door_that_calls_again_and_again_from_threads_is_not_slow(monkeypatch):
    """Calls that wait for one compilation are one slow call, not several."""
    from xpapply.patching.records import SeenFunction

    known = SeenFunction(None, True, None)
    clock = iter([10.0, 10.1, 10.2, 25.0])
    monkeypatch.setattr("xpapply.patching.records.perf_counter", lambda: next(clock))
    for _ in range(3):  # three at the same time
        known.ran(100, 10, 9.0, 1.0)
    assert known.why == ""
    known.ran(100, 10, 9.0, 1.0)  # after them
    assert "planned anew" in known.why
