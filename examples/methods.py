"""Pictures of the methods that `docs/methods.md` shows, one for each.

In the root of the checkout: ``python -m examples.methods --out docs/_static/methods``. It needs
matplotlib and pillow, and draws what the functions of the benchmark `methods` find.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xpapply
from benchmarks import method_models as models
from benchmarks import method_pixels as pixels
from benchmarks import method_series as series
from benchmarks import solver_rows as solvers

RED, BLUE, GREY = "#c0392b", "#2166ac", "#9a9a9a"
DAYS = pixels.TIME + 2000
PICTURES: dict[str, Callable[[Any], None]] = {}


def picture(draw: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register what draws the method of its name."""
    PICTURES[draw.__name__] = draw
    return draw


def some(data: Any, count: int, seed: int = 3) -> tuple[np.ndarray, ...]:
    """The same slices each time."""
    return data(np.random.default_rng(seed), count)


def over(f: Any, v: np.ndarray) -> np.ndarray:
    """What a method finds of some slices."""
    return xpapply.apply_along_axis(f, 1, v)


def _break(ax: Any, f: Any, seed: int) -> None:
    (v,) = some(pixels.greenness, 30, seed)
    found = over(f, v)
    k = int(np.flatnonzero(found > pixels.PAST + 20)[0])
    ax.plot(DAYS, v[k], ".", color=GREY, ms=3)
    ax.axvline(DAYS[pixels.PAST], color="k", lw=0.8, ls=":")
    ax.axvline(DAYS[found[k]], color=RED)
    ax.set_xticks(np.arange(2000, 2021, 5))
    ax.set(ylabel="NDVI", title=f"history until {DAYS[pixels.PAST]:.0f}, a break found")


@picture
def bfast_monitor(ax: Any) -> None:
    _break(ax, pixels.bfast_monitor, 3)


@picture
def ccdc(ax: Any) -> None:
    _break(ax, pixels.ccdc, 4)


@picture
def landtrendr(ax: Any) -> None:
    (v,) = some(pixels.forests, 40)
    found = over(pixels.landtrendr, v)
    k = int(found[:, 0].argmax())
    loss, year, years, count = found[k]
    ax.plot(1985 + np.arange(40), v[k], "o-", color=GREY, ms=3, lw=0.8)
    ax.axvspan(1985 + year, 1985 + year + years, color=RED, alpha=0.25)
    ax.set(ylabel="NBR", title=f"{count:.0f} segments, a loss of {loss:.2f} in {1985 + year:.0f}")


@picture
def mann_kendall(ax: Any) -> None:
    (v,) = some(pixels.yearly, 40)
    found = over(pixels.mann_kendall, v)
    k = int(found[:, 1].argmax())
    t, (_, _, p, slope) = np.arange(40), found[k]
    ax.plot(1985 + t, v[k], ".", color=GREY)
    ax.plot(1985 + t, np.median(v[k]) + slope * (t - 19.5), color=RED)
    ax.set(ylabel="degrees", title=f"{10 * slope:.2f} degrees in ten years, p = {p:.1g}")


@picture
def spi(ax: Any) -> None:
    (v,) = some(pixels.rain, 2)
    z, t = over(pixels.spi, v)[0, -180:], 1985 + np.arange(300, 480) / 12
    ax.bar(t, z, 1 / 12, color=np.where(z < 0, RED, BLUE))
    ax.set(ylabel="SPI", title="three months: dry in red, wet in blue")


def _smooth(ax: Any, f: Any) -> None:
    (v,) = some(pixels.greenness, 1)
    last = slice(-140, None)
    ax.plot(DAYS[last], v[0, last], ".", color=GREY, ms=3)
    ax.plot(DAYS[last], over(f, v)[0, last], color=RED, lw=1.2)
    ax.set(ylabel="NDVI")


@picture
def whittaker(ax: Any) -> None:
    _smooth(ax, pixels.whittaker)


@picture
def moving_median(ax: Any) -> None:
    _smooth(ax, pixels.moving_median)


@picture
def exponential_mean(ax: Any) -> None:
    _smooth(ax, pixels.exponential_mean)


@picture
def baseline(ax: Any) -> None:
    (v,) = some(series.spectra, 1)
    ax.plot(v[0], color=GREY, lw=0.8)
    ax.plot(over(series.baseline, v)[0], color=RED)
    ax.set(xlabel="channel")


@picture
def viterbi(ax: Any) -> None:
    (v,) = some(series.symbols, 1)
    ax.plot(v[0], "|", color=GREY)
    ax.step(np.arange(200), over(series.viterbi, v)[0] + 4.5, color=RED, where="mid", lw=1)
    ax.set(yticks=[1.5, 5.5], yticklabels=["symbols", "states"])


@picture
def dtw(ax: Any) -> None:
    t = np.linspace(0.0, 1.0, 100)
    a, b = np.sin(9 * t**1.0), np.sin(9 * t**1.6)
    apart = float(xpapply.vectorize(series.dtw, signature="(n),(m)->()")(a, b))
    ax.plot(a, color=BLUE)
    ax.plot(b, color=RED)
    ax.set(title=f"{np.abs(a - b).sum():.0f} apart value by value, {apart:.1f} by DTW")


@picture
def kalman(ax: Any) -> None:
    (z,) = some(series.levels, 1)
    ax.plot(z[0, :150], ".", color=GREY, ms=3)
    ax.plot(over(series.kalman, z)[0, 0, :150], color=RED, lw=1)


@picture
def garch(ax: Any) -> None:
    (r,) = some(series.returns, 1)
    omega, alpha, beta, _ = over(series.garch, r)[0]
    variance = np.full(1000, omega / (1 - alpha - beta))
    for t in range(1, 1000):
        variance[t] = omega + alpha * r[0, t - 1] ** 2 + beta * variance[t - 1]
    ax.plot(r[0], color=GREY, lw=0.5)
    for sign in (-2, 2):
        ax.plot(sign * np.sqrt(variance), color=RED, lw=0.8)
    ax.set(ylabel="%", title=f"alpha {alpha:.2f}, beta {beta:.2f}; two deviations in red")


@picture
def smoothed_level(ax: Any) -> None:
    (v,) = some(series.months, 1)
    level, alpha = over(series.smoothed_level, v)[0]
    ax.plot(v[0], color=GREY)
    ax.plot(120, level, "o", color=RED)
    ax.set(xlabel="month", title=f"a weight of {alpha:.2f} is fitted; the forecast in red")


@picture
def pelt(ax: Any) -> None:
    (v,) = some(series.steps, 1)
    ax.plot(v[0], color=GREY, lw=0.7)
    for t in np.flatnonzero(over(series.pelt, v)[0]):
        ax.axvline(t, color=RED)


@picture
def isotonic(ax: Any) -> None:
    (y,) = some(series.growing, 1)
    ax.plot(y[0], ".", color=GREY)
    ax.plot(over(series.isotonic, y)[0], color=RED)
    ax.set(xlabel="dose", ylabel="effect")


@picture
def bootstrap(ax: Any) -> None:
    (v,) = some(series.skewed, 24)
    series.again()
    low, high = np.apply_along_axis(series.bootstrap, 1, v).T
    ax.vlines(np.arange(24), low, high, color=np.where((low < 2) & (high > 2), BLUE, RED))
    ax.axhline(2.0, color="k", lw=0.8, ls=":")
    ax.set(xlabel="sample", title="intervals of 24 means, and the truth")


def _decay(ax: Any, f: Any, data: Any, t: np.ndarray, model: Any, seconds: str) -> None:
    (v,) = some(data, 1)
    at = np.linspace(0.0, t[-1], 200)
    p = over(f, v)[0]
    ax.plot(t, v[0], "o", color=GREY, ms=4)
    ax.plot(at, model(at, *p), color=RED)
    ax.set(xlabel=seconds)


@picture
def t1(ax: Any) -> None:
    _decay(ax, models.t1, models._T1, solvers.INVERSIONS, solvers.inversion, "inversion time, s")


@picture
def t2(ax: Any) -> None:
    model = lambda t, m, t2: solvers.decay(t, m, 1 / t2)  # noqa: E731
    _decay(ax, models.t2, models._T2, solvers.ECHOES, model, "echo time, s")


@picture
def ivim(ax: Any) -> None:
    _decay(ax, models.ivim, models._IVIM, solvers.WEIGHTINGS, solvers.diffusion, "b, s/mm2")
    ax.set(yscale="log")


@picture
def kepler(ax: Any) -> None:
    m = np.linspace(0.0, 2 * math.pi, 300)
    solve = xpapply.vectorize(models.kepler)
    for e, colour in ((0.0, GREY), (0.5, BLUE), (0.95, RED)):
        ax.plot(m, solve(m, e), color=colour, label=f"e = {e}")
    ax.set(xlabel="mean anomaly", ylabel="eccentric")
    ax.legend(fontsize=7, frameon=False)


@picture
def implied_volatility(ax: Any) -> None:
    strike = np.linspace(75.0, 130.0, 40)
    smile = 0.2 + 1.5 * np.log(strike / 103) ** 2
    price = models.peers.black(strike, np.full(40, 0.5), smile)
    ax.plot(strike, 100 * smile, color=GREY, lw=4)
    ax.plot(strike, 100 * xpapply.vectorize(models.implied_volatility)(price, strike, 0.5), RED)
    ax.set(xlabel="strike", ylabel="%", title="a smile, and what its prices give back")


def main() -> None:
    """All pictures, or those that are named, into a folder."""
    from matplotlib.figure import Figure
    from PIL import Image

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", default=[*PICTURES])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        fig = Figure((6.4, 2.0), dpi=90, layout="constrained", facecolor="white")
        ax = fig.add_subplot()
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        PICTURES[name](ax)
        ax.title.set_fontsize(9)
        path = args.out / f"{name}.png"
        fig.savefig(path, metadata={"Software": None})
        with Image.open(path) as drawn:  # few colours make a small file
            few = drawn.convert("RGB").quantize(64)
        few.save(path, optimize=True)
        print(path)


if __name__ == "__main__":
    main()
