"""xarray's own doors to a function of a slice, under `xpapply.patch`: nothing is changed in them.

Fits have their own file, `test_fits_of_xarray`.
"""

import numpy as np
import pytest

import xpapply

xr = pytest.importorskip("xarray")

pytestmark = pytest.mark.usefixtures("always")
RNG = np.random.default_rng(0)
T = np.arange(12.0)
CUBE = xr.DataArray(
    RNG.normal(1.0, 1.0, (6, 8, 12)),
    {"time": T, "season": ("time", np.arange(12) // 3), "x": np.arange(8)},
    ("y", "x", "time"),
    attrs={"units": "K"},
)
WITH_GAPS = CUBE.where(RNG.random(CUBE.shape) > 0.2)
OF_TIME = ["time", "season"]
PARALLEL = {"dask": "parallelized", "output_dtypes": [float]}


def of_positive(v):
    good = v[v > 0]
    if len(good) == 0:
        return np.nan
    return good.mean()


def slope(v):
    there = ~np.isnan(v)
    if there.sum() < 3:
        return np.nan
    return np.polyfit(T[: len(v)][there], v[there], 1)[0]


def spread(window):
    low, high = np.nanpercentile(window, [10, 90])
    return high - low


def ends(v):
    return v.min(), v[[0, -1]]


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def on_a_patch(p):
    return np.nanmax(p) - np.nanmin(p)


def of(f, *given, dims=("time",), **how):
    how = {"input_core_dims": [list(dims)] * len(given), "vectorize": True} | how
    return xr.apply_ufunc(f, *given, **how)


DOORS = {
    "apply_ufunc": lambda: of(of_positive, CUBE, keep_attrs=True),
    "gaps": lambda: of(slope, WITH_GAPS),
    "two arrays": lambda: of(correlation, CUBE, CUBE.mean("x")),
    "two results": lambda: of(ends, CUBE, output_core_dims=[[], ["end"]]),
    "a Dataset": lambda: of(of_positive, xr.Dataset({"a": CUBE, "b": CUBE[::-1] * 2})),
    "kwargs": lambda: of(lambda v, q: np.quantile(v, q), CUBE, kwargs={"q": 0.3}),
    "rolling": lambda: of(spread, CUBE.rolling(time=5).construct("window"), dims=["window"]),
    "rolling in two dims": lambda: of(
        on_a_patch, CUBE.rolling(y=3, x=3, center=True).construct(y="i", x="j"), dims=["i", "j"]
    ),
    "coarsen": lambda: of(
        spread, CUBE.coarsen(time=4).construct(time=("block", "within")), dims=["within"]
    ),
    "groupby.map": lambda: CUBE.groupby("season").map(lambda g: of(of_positive, g)),
    "a slope of each group": lambda: WITH_GAPS.groupby("season").map(lambda g: of(slope, g)),
    "map of a Dataset": lambda: xr.Dataset({"a": CUBE, "b": -CUBE}).map(lambda a: of(spread, a)),
    "map_blocks": lambda: xr.map_blocks(lambda a: of(of_positive, a), CUBE),
}
CHUNKS = {
    "apply_ufunc, chunks": lambda: of(of_positive, CUBE.chunk(y=2), **PARALLEL),
    "gaps, chunks": lambda: of(slope, WITH_GAPS.chunk(y=3), **PARALLEL),
    "rolling, chunks": lambda: of(
        spread, CUBE.chunk(y=3).rolling(time=5).construct("w"), dims=["w"], **PARALLEL
    ),
    "groupby.map, chunks": lambda: (
        CUBE.chunk(y=3)
        .assign_coords(season=CUBE.season)
        .groupby("season")
        .map(lambda g: of(of_positive, g, **PARALLEL))
    ),
    "map_blocks, chunks": lambda: xr.map_blocks(
        lambda a: of(of_positive, a),
        CUBE.chunk(y=2),
        template=CUBE[..., 0].drop_vars(OF_TIME).chunk(y=2),
    ),
}


def same(found, wanted):
    if isinstance(wanted, tuple):
        for mine, theirs in zip(found, wanted, strict=True):
            same(mine, theirs)
        return
    xr.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert found.attrs == wanted.attrs


@pytest.mark.parametrize("name", [*DOORS, *CHUNKS])
def test_doors_run_at_once(name):
    if name in CHUNKS:
        pytest.importorskip("dask.array")
    door = (DOORS | CHUNKS)[name]
    wanted = door()
    if name in CHUNKS:
        wanted = wanted.compute()  # xarray takes lazy arrays of one name for equal
    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        found = [door() for _ in range(2)]
        for one in found:
            if name in CHUNKS:
                assert one.chunks is not None
            same(one, wanted)
    (row,) = patched.report.rows
    assert row.loop == "numpy.vectorize"
    assert set(row.engines) <= {"numpy", "cpu"}, row.reasons


def test_reduce_of_windows_calls_once():
    """There is no loop to replace: the function gets the windows of the whole array."""
    calls = []

    def largest(windows, axis, **_):
        calls.append(windows.shape)
        return np.nanmax(windows, axis=axis)

    with xpapply.patch() as patched:
        found = CUBE.rolling(time=5, min_periods=1).reduce(largest)
    assert calls == [(6, 8, 12, 5)]
    assert not patched.report.rows
    windows = CUBE.rolling(time=5).construct("window")
    same(found, xpapply.apply_along_axis(np.nanmax, "window", windows).assign_attrs(CUBE.attrs))


def test_cubed():
    """Its apply_gufunc asks numpy.vectorize for each of its chunks."""
    cubed = pytest.importorskip("cubed")
    x = cubed.from_array(CUBE.values, chunks=(2, 8, 12))

    def found():
        return np.asarray(
            cubed.apply_gufunc(
                of_positive, "(i)->()", x, vectorize=True, output_dtypes="d"
            ).compute()
        )

    wanted = np.apply_along_axis(of_positive, -1, CUBE.values)
    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        np.testing.assert_allclose(found(), wanted, rtol=1e-12)
    (row,) = patched.report.rows
    assert row.calls == 3
    assert set(row.engines) <= {"numpy", "cpu"}, row.reasons
