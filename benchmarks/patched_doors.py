"""xarray's own ways to a function of a slice, with its loop and under `xpapply.patch()`."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import xpapply

from .patched_report import ORIGINAL, PATCHED

PLACES = 120
TURNS = 7
T = np.linspace(0.0, 5.0, 24)


def decay(time: Any, a: float, b: float) -> Any:
    return a * np.exp(-b * time)


def of_high(v: Any) -> Any:
    high = v[v > 0.1]
    return high.mean() if len(high) else np.nan


def slope(v: Any) -> Any:
    there = ~np.isnan(v)
    return np.polyfit(T[there], v[there], 1)[0] if there.sum() > 2 else np.nan


def through_gaps(v: Any) -> Any:
    there = ~np.isnan(v)
    return np.interp(T, T[there], v[there])


def spread(window: Any) -> Any:
    low, high = np.nanpercentile(window, [10, 90])
    return high - low


def doors(places: int) -> dict[str, Callable[[], Any]]:
    """Calls of xarray alone, by what they are called here."""
    import xarray as xr

    rng = np.random.default_rng(0)
    size, rate = rng.uniform(0.5, 3.0, (places, places, 1)), rng.uniform(0.3, 2.0, (places, 1, 1))
    values = decay(T, size, rate) + 0.02 * rng.normal(size=(places, places, len(T)))
    cube = xr.DataArray(values, {"time": T}, ("y", "x", "time"))
    gaps = cube.where(rng.random(cube.shape) > 0.1)
    chunks = gaps.chunk(y=max(1, places // 4))
    quarters = cube.assign_coords(quarter=("time", np.arange(len(T)) // 6)).groupby("quarter")
    lazy: dict[str, Any] = {"dask": "parallelized", "output_dtypes": [float]}
    start = {"a": 1.0, "b": 1.0}

    def of(f: Any, x: Any, dim: str = "time", out: tuple[str, ...] = (), **how: Any) -> Any:
        how |= {"input_core_dims": [[dim]], "output_core_dims": [list(out)]}
        return xr.apply_ufunc(f, x, vectorize=True, **how)

    return {
        "apply_ufunc, a mean of high values": lambda: of(of_high, cube),
        "apply_ufunc, a slope through gaps": lambda: of(slope, gaps),
        "apply_ufunc, interpolated gaps": lambda: of(through_gaps, gaps, out=("time",)),
        "apply_ufunc, slopes of 4 chunks": lambda: of(slope, chunks, **lazy).compute(),
        "rolling().construct(), percentiles": lambda: of(
            spread, cube[: max(1, places // 8)].rolling(time=5).construct("w"), "w"
        ),
        "coarsen().construct(), percentiles": lambda: of(
            spread, cube[: max(1, places // 8)].coarsen(time=6).construct(time=("k", "w")), "w"
        ),
        "groupby().map, means": lambda: quarters.map(lambda group: of(of_high, group)),
        "curvefit": lambda: cube[: max(1, places // 4)].curvefit("time", decay, p0=start),
        "curvefit through gaps, 4 chunks": lambda: chunks.curvefit(
            "time", decay, p0=start
        ).compute(),
    }


def timed(name: str, places: int, turns: int) -> dict[str, Any]:
    """CPU seconds of the loop, of the first call without it, and of further ones by turns."""
    call = doors(places)[name]
    took: dict[str, list[float]] = {ORIGINAL: [], PATCHED: []}

    def once(kind: str) -> Any:
        began = time.process_time()
        found = call()
        took[kind].append(time.process_time() - began)
        return found

    wanted = once(ORIGINAL)
    for _ in range(turns):
        with xpapply.patch(), xpapply.options(fallback="silent"):
            found = once(PATCHED)
        if len(took[ORIGINAL]) < 3:
            once(ORIGINAL)
    for mine, theirs in zip(_parts(found), _parts(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)
    first, *later = took[PATCHED]
    return {ORIGINAL: median(took[ORIGINAL]), "first": first, PATCHED: median(later[-3:])}


def _parts(x: Any) -> list[Any]:
    return [np.asarray(v) for v in (x.data_vars.values() if hasattr(x, "data_vars") else (x,))]
