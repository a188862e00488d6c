"""What stands out in a series: a function of the same season in the years around each date.

    pip install ".[examples,cpu]"
    python examples/gallery/series_anomalies.py --out pictures

Both series are real, public domain, and in the wheel of statsmodels:

- CO2 at Mauna Loa, 2,284 weeks from 1958 to 2001, 59 of them missing (C. D. Keeling and
  T. P. Whorf, Scripps Institution of Oceanography);
- the temperature of the sea off Peru (the region Nino 1+2), 732 months from 1950 to 2010 (NOAA).

A slice has one value a year, always of the same week or month, with the date that is asked about in
the middle; before and after the series there is NaN. The function fits a line to the values that
there are, and says how far the middle one is from it, in robust standard deviations (1.48 times
the median of the absolute deviations). The data are small: the loop takes but 0.2 s, and the first
call, which traces the function, half of that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.datasets
from beside_numpy import compare, figure, run, save

import xpapply

LIMIT = 3.0  # robust standard deviations


def anomaly(v: np.ndarray) -> Any:
    """How unusual the middle value of a series is, which may have gaps."""
    good = np.isfinite(v)
    here = len(v) // 2
    if not good[here] or good.sum() <= here:
        return np.nan
    year = np.arange(len(v))
    slope, start = np.polyfit(year[good], v[good], 1)
    rest = v - slope * year - start
    middle = np.median(rest[good])
    return (rest[here] - middle) / (1.4826 * np.median(np.abs(rest[good] - middle)))


def same_season(series: np.ndarray, period: int, years: int) -> np.ndarray:
    """For each date the values one, two, ... years before and after it: a view, one row each."""
    side = years // 2 * period
    padded = np.pad(series, side, constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * side + 1)[:, ::period]


def read() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each series the dates in years, the values, and the windows."""
    weekly = statsmodels.datasets.co2.load_pandas().data["co2"]
    co2 = weekly.to_numpy()
    weeks = weekly.index.year.to_numpy() + weekly.index.day_of_year.to_numpy() / 366
    table = statsmodels.datasets.elnino.load_pandas().data  # a row per year
    sea = table.iloc[:, 1:].to_numpy().ravel()
    months = table["YEAR"].iloc[0] + (np.arange(len(sea)) + 0.5) / 12
    return {
        "CO2 at Mauna Loa, ppm": (weeks, co2, same_season(co2, 52, 11)),
        "sea off Peru, °C": (months, sea, same_season(sea, 12, 21)),
    }


def main(out: Path | None, small: bool = False) -> None:
    del small  # it is small
    found = []
    for name, (dates, values, windows) in read().items():
        print(f"{name}: {windows.shape[0]:,} windows of {windows.shape[1]} years")
        score = compare(
            lambda w=windows: xpapply.apply_along_axis(anomaly, -1, w),
            lambda w=windows: np.apply_along_axis(anomaly, -1, w),
            np.s_[:],
        )
        print(xpapply.explain(anomaly, -1, windows))
        print(f"unusual   {np.sum(score > LIMIT)} high, {np.sum(score < -LIMIT)} low\n")
        found.append((name, dates, values, score))
    if fig := figure(out, 10, 4.8):
        draw(fig, found)
        save(fig, out, "series_anomalies")


def draw(fig: Any, found: list[tuple[str, np.ndarray, np.ndarray, np.ndarray]]) -> None:
    """The series, with what stands out."""
    for ax, (name, dates, values, score) in zip(fig.subplots(2, 1), found, strict=True):
        ax.plot(dates, values, color="0.6", lw=0.8)
        for where, colour, text in (
            (score > LIMIT, "tab:red", "high"),
            (score < -LIMIT, "tab:blue", "low"),
        ):
            ax.plot(dates[where], values[where], ".", color=colour, label=text, ms=5)
        ax.set_title(name, size=11, loc="left")
        ax.legend(fontsize=8, loc="upper left", ncols=2)
        ax.tick_params(labelsize=8)
        ax.margins(x=0.01)


if __name__ == "__main__":
    run(main, __doc__)
