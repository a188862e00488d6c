"""The trend of green in each pixel of satellite images: a function of a series with gaps.

    pip install ".[examples,cpu]"
    python examples/gallery/ndvi_trend.py --out pictures

The images are real: Sentinel-2 over a forest in Romania, 100 x 100 pixels of 10 m, 140 dates from
2015 to 2021, with the class of each pixel as the ESA's processor sees it (cloud, shadow, plants,
...). They are in the wheel of nrt 0.2, by the Joint Research Centre of the European Commission
(EUPL 1.2; contains modified Copernicus Sentinel data). nrt 0.3 has moved them elsewhere.

NDVI is (near infrared - red) / (near infrared + red), from 0 for bare ground to 0.9 for dense
leaves. Only June to September counts, when the trees have leaves, and clouds become NaN. Clouds
that were not noticed are left in. So the function fits a line to what is there, leaves out what
is far from it, and fits again. The array is one of xarray, and `axis` is the name of its dim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from beside_numpy import compare, figure, run, save
from nrt.data import romania_10m

import xpapply

CLEAR = (4, 5, 7)  # classes: plants, no plants, unclear but no cloud


def slope(v: np.ndarray, years: np.ndarray) -> Any:
    """The trend of one series with gaps, by robust regression."""
    good = np.isfinite(v)
    if good.sum() < 20:
        return np.nan
    a, b = np.polyfit(years[good], v[good], 1)
    far = np.abs(v - a * years - b)
    near = far < 3 * np.median(far[good])  # False for NaN
    return np.polyfit(years[near], v[near], 1)[0]


def main(out: Path | None, small: bool = False) -> None:
    scenes = romania_10m().load()
    scenes = scenes.isel(time=scenes.time.dt.month.isin(range(6, 10)).values)
    if small:
        scenes = scenes.isel(x=slice(50, 100))
    ndvi = (scenes.B8 - scenes.B4) / (scenes.B8 + scenes.B4)
    ndvi = ndvi.where(scenes.SCL.isin(CLEAR)).astype(float)
    days = (ndvi.time.values - np.datetime64("2015-01-01")) / np.timedelta64(1, "D")
    years = 2015 + days / 365.25
    gaps = float(np.isnan(ndvi).mean())
    print(f"{ndvi[0].size:,} series of {ndvi.sizes['time']} dates, {gaps:.0%} of them clouds")

    few = np.s_[::20]
    trend = compare(
        lambda: xpapply.apply_along_axis(slope, "time", ndvi, years),
        lambda: np.apply_along_axis(slope, 0, ndvi.values[:, few], years),
        few,
    )
    print(xpapply.explain(slope, "time", ndvi, years))

    print(f"trend     {np.median(trend):+.3f} a year in the middle,", end=" ")
    print(f"below -0.03 in {np.mean(trend < -0.03):.1%} of the pixels")
    if fig := figure(out, 9, 5.2):
        draw(fig, scenes, ndvi.values, years, trend)
        save(fig, out, "ndvi_trend")


def draw(fig: Any, scenes: Any, ndvi: np.ndarray, years: np.ndarray, trend: np.ndarray) -> None:
    """The forest in the first year and in the last, the trend, and the series of two pixels."""
    above, below = fig.subfigures(2, 1, height_ratios=(1.5, 1))
    axes = above.subplots(1, 3)
    clear = np.flatnonzero(np.isnan(ndvi).mean((1, 2)) < 0.005)
    for ax, k in ((axes[0], clear[0]), (axes[1], clear[-1])):
        colours = np.stack([scenes[name].values[k] for name in ("B4", "B3", "B2")], -1)
        colours = np.clip(colours / np.percentile(colours, 99), 0, 1) ** 0.8
        ax.imshow(colours, interpolation="nearest")
        ax.set_title(str(scenes.time.values[k])[:10], size=11)
    shown = axes[2].imshow(trend, cmap="BrBG", vmin=-0.08, vmax=0.08, interpolation="nearest")
    fig.colorbar(shown, ax=axes, label="NDVI a year", shrink=0.95, pad=0.02)
    axes[2].set_title("trend", size=11)
    for ax in axes:
        ax.axis("off")
    ax = below.subplots()
    steady = np.argsort(np.abs(trend), axis=None)[20]
    for p, colour in ((trend.argmin(), "tab:red"), (steady, "tab:blue")):
        where = np.unravel_index(p, trend.shape)
        ax.plot(years, ndvi[:, *where], ".", color=colour, label=f"{trend[where]:+.3f} a year")
        axes[2].plot(*where[::-1], "s", mfc="none", mec=colour, mew=2, ms=8)
    ax.set_title("NDVI of the two pixels in squares, from June to September", size=11)
    ax.legend(fontsize=8, loc="lower left")
    ax.tick_params(labelsize=8)


if __name__ == "__main__":
    run(main, __doc__)
