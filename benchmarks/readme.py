"""What README.md shows of the results: a sentence, tables, the times before and after, a picture.

    python -m benchmarks.readme     # writes them into README.md and docs/_static

Needs nothing but Python. A test compares README.md and the pictures with what is made here.
"""

from __future__ import annotations

import re
import statistics
from html import escape
from math import floor, log10
from pathlib import Path

from . import (
    cpu_report,
    gpu_functions_report,
    gpu_methods_report,
    gpu_report,
    gpu_solvers_report,
    methods_report,
    never_slower_report,
    pages,
    solvers_report,
)
from .functions_report import geometric_mean
from .pages import digits, milli

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
STATIC = ROOT / "docs" / "_static"
MARKED = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.S)

CPU, GPU, FUNCTIONS = (pages.load(name, pages.RESULTS) for name in ("cpu", "gpu", "functions"))
IDIOMS = FUNCTIONS["idioms"]
FUNCTIONS_ON_GPU = pages.load("gpu_functions", pages.RESULTS)
SOLVERS = pages.load("solvers", pages.RESULTS)
METHODS = pages.load("methods", pages.RESULTS)
SOLVERS_ON_GPU = pages.load("gpu_solvers", pages.RESULTS)
METHODS_ON_GPU = pages.load("gpu_methods", pages.RESULTS)
LOOPED = "numpy.apply_along_axis"


def two(x: float) -> str:
    """Two significant digits."""
    return digits(x, 2)


def sentence() -> str:
    """What it is, and how much it gains: the middle half of the ways that need no loop."""
    fast = [e for e in IDIOMS.values() if e["vectorized"]]
    low, _, high = statistics.quantiles((e[LOOPED] / e["xpapply"] for e in fast), n=4)
    return (
        "**`np.apply_along_axis` is slow because it calls your function once for each pixel.\n"
        f"Change `np` to `xpapply`: the same result, typically {two(low)} to {two(high)} times "
        "faster. Where that cannot be,\nit tells you why.**\n\n"
        f"This was measured on two CPU cores, with [{len(IDIOMS)} functions]"
        "(benchmarks/results/functions.md) as people write them:\n"
        f"{len(fast)} run without the loop, and the middle half of these gain {two(low)} to "
        f"{two(high)} times. {dear()}"
    )


def dear() -> str:
    """What repeated calls cost where nothing is gained."""
    rows = never_slower_report.measured(pages.load("never_slower", pages.RESULTS)["rows"])
    above = never_slower_report.functions_above(rows, (never_slower_report.LATER,))
    share = round(100 * (never_slower_report.SHARE - 1))
    return (
        f"What gains nothing\nloses little: of [{len(rows)} functions]"
        f"(benchmarks/results/never_slower.md), {len(rows) - len(above)} take at most {share} % "
        f"and {never_slower_report.MORE * 1e6:g} us more than\nNumPy's loop when they are called "
        "again, at any size."
    )


TREND = "polyfit"


def before_after() -> str:
    """Four lines: the loop and xpapply."""
    entry = IDIOMS[TREND]
    before, after = f"{milli(entry[LOOPED])} ms", f"{milli(entry['xpapply'])} ms"
    return f"""```python
>>> import numpy as np, xpapply
>>> years = np.arange(1981, 2021)
>>> temperature = np.random.default_rng(0).random((40, 142, 141))  # year, lat, lon
>>> trend = lambda v: np.polyfit(years, v, 1)[0]  # v: the 40 years of one grid cell
>>> slow = np.apply_along_axis(trend, 0, temperature)  # {before}
>>> fast = xpapply.apply_along_axis(trend, 0, temperature)  # {after}
>>> np.allclose(slow, fast)
True

```
"""


TASKS = {
    "`np.median`": "median",
    "`np.polyfit(years, v, 1)[0]`": TREND,
    "`v[v > 0].mean()`": "mean_of_positive",
    "scikit-learn, `model.predict(v.reshape(1, -1))[0]`": "sklearn_predict",
}
NET = "16-64-64-64-4 ReLU"


def cpu() -> str:
    """Five rows."""
    rows = []
    for task, name in TASKS.items():
        e = IDIOMS[name]
        times = (e[LOOPED], e.get("by hand"), e["xpapply"])
        rows.append([task, f"{e['slices']:,}", *map(milli, times), two(times[0] / times[2])])
    net, slices = CPU["networks"][NET], CPU["settings"]["rows"]
    ways = (cpu_report.LOOP, cpu_report.CHUNKS, cpu_report.OURS)
    times = tuple(net[way]["median"] for way in ways)
    last = [f"torch network {NET}", f"{slices:,}", *map(milli, times), two(times[0] / times[2])]
    head = ["function of a slice", "slices", "`np.apply_along_axis`", "whole array, by hand"]
    return pages.table([*head, "xpapply", "times faster"], [*rows, last])


NETS = ("8-16-1 ReLU", "16-64-64-64-4 ReLU", "32-128-128-8 ReLU")


def gpu() -> str:
    """Three rows."""
    r = gpu_report.Report(GPU)
    ways = (gpu_report.EAGER, gpu_report.JAX_HIGHEST, gpu_report.OURS)
    rows = [
        [
            net,
            f"{digits(r.number(net, gpu_report.CUPY_LOOP))} s",
            *(r.ms(net, way) for way in ways),
            milli(r.floor(net)),
        ]
        for net in NETS
    ]
    head = ["network", "`cupy.apply_along_axis`", "torch eager", "JAX, `jit(vmap)`", "xpapply"]
    return pages.table([*head, "floor"], rows)


def gpu_functions() -> str:
    """Python functions on a GPU, in a sentence."""
    found = {n: e for n, e in FUNCTIONS_ON_GPU["functions"].items() if "skipped" not in e}
    some = [e for e in found.values() if e["group"] != gpu_functions_report.LOOPS]
    ratios = [
        geometric_mean([e[peer] / e[gpu_functions_report.OURS] for e in some if peer in e])
        for peer in (gpu_functions_report.HAND, gpu_functions_report.JAX)
    ]
    one = sum(e["engine"] == "one launch" for e in some)
    return (
        f"[{one} of {len(some)} Python functions](benchmarks/results/gpu_functions.md) run in one "
        f"launch on that GPU, {two(ratios[0])} times as fast as CuPy by hand and {two(ratios[1])} "
        "times as JAX."
    )


def solvers() -> str:
    """Solvers of a slice, in a sentence."""
    faster = two(geometric_mean(list(solvers_report.gains(SOLVERS).values())))
    many, of = solvers_report.reached(SOLVERS)
    return (
        f"[{of} fits, roots, integrals and equations](benchmarks/results/solvers.md) run {faster} "
        f"times as fast as SciPy in the loop; {many} of them gain {solvers_report.WANTED:g} times "
        "or more. [On the GPU](benchmarks/results/gpu_solvers.md) it is "
        f"{two(gpu_solvers_report.mean_gain(SOLVERS_ON_GPU))} times."
    )


def methods() -> str:
    """Whole methods of fields, in a sentence."""
    found = methods_report.measured(METHODS)
    beside = [
        methods_report.gain(e, methods_report.PEER)
        for e in found.values()
        if methods_report.PEER in e
    ]
    loop = two(geometric_mean([methods_report.gain(e) for e in found.values()]))
    faster = sum(x > 1 for x in beside)
    launched = sum(map(gpu_methods_report.launched, METHODS_ON_GPU["methods"].values()))
    by = two(geometric_mean(beside))
    return (
        f"[{len(found)} whole methods](docs/methods.md) (SPI, Viterbi, GARCH ...) run {loop} times "
        f"as fast as the loop. Packages have {len(beside)} of them: {faster} are faster here, "
        f"{by} times\non average. [On the GPU](benchmarks/results/gpu_methods.md) {launched} run "
        "in one launch."
    )


def machines() -> str:
    """Where the tables were measured."""
    return (
        f"CPU: {FUNCTIONS['machine']['processor'].split(', load')[0]}. "
        f"GPU: {GPU['machine']['GPU'].split(',')[0]}, {GPU['settings']['rows']:,} slices of "
        f"float32 in a CuPy array.\n{gpu_functions()}\n{solvers()}\n{methods()}"
    )


def shown() -> str:
    """The picture, for light and dark pages."""
    return (
        "<picture>\n"
        '<source media="(prefers-color-scheme: dark)" srcset="docs/_static/time-dark.svg">\n'
        f'<img src="docs/_static/time-light.svg" alt="{escape(words())}">\n'
        f"</picture>\n\n{caption()}"
    )


def caption() -> str:
    """What the picture shows of what."""
    return (
        "A torch network on float32 slices of 16 numbers, on two CPU cores and on an H200. "
        '"loop" is the time of one slice times\ntheir number; "torch" is called once on the whole '
        "array (in chunks that fit the CPU's cache "
        f"{duration(CPU['networks'][CURVE][cpu_report.CHUNKS]['median'])} instead of "
        f"{duration(CPU['networks'][CURVE][cpu_report.EAGER]['median'])})."
    )


# --- the picture ----------------------------------------------------------------------

CURVE = "16-32-32-1 tanh"
"""The network, which both suites have."""
LOOP, TORCH, OURS = "loop, CPU", "torch, CPU", "xpapply, CPU"
TORCH_GPU, OURS_GPU = "torch, GPU", "xpapply, GPU"


def curves() -> dict[str, list[tuple[int, float]]]:
    """Numbers of slices and seconds, by ways.

    The loop is a straight line through what a slice takes. On a GPU few slices take what the host
    takes, and then the device.
    """
    net, many = CPU["networks"][CURVE], CPU["settings"]["rows"]
    looped = net[cpu_report.LOOP]["median"] / many
    found = {LOOP: [(n, looped * n) for n in (1, many)]}
    for way, few, all_at_once in (
        (TORCH, cpu_report.ARRAY, cpu_report.EAGER),
        (OURS, cpu_report.OURS, cpu_report.OURS),
    ):
        points = [(int(n), 1e-6 * t) for n, t in CPU["small"][CURVE][few].items()]
        found[way] = [*points, (many, net[all_at_once]["median"])]
    for way, name in ((TORCH_GPU, gpu_report.EAGER), (OURS_GPU, gpu_report.OURS)):
        host, device = (GPU[part][CURVE][name] for part in ("host", "device"))
        points = [(int(n), 1e-6 * (t + device[n])) for n, t in host.items()]
        found[way] = [*points, (GPU["rows"][CURVE], GPU["networks"][CURVE][name]["median"])]
    return found


WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 74, 172, 48, 52
UNITS = {-6: "1 µs", -5: "10 µs", -4: "100 µs", -3: "1 ms", -2: "10 ms", -1: "100 ms"}
UNITS |= {0: "1 s", 1: "10 s", 2: "100 s"}
LIGHT = {"paper": "#ffffff", "ink": "#1f2328", "quiet": "#59636e", "grid": "#d8dee4"}
LIGHT |= {LOOP: "#b3261e", TORCH: "#8a6d00", OURS: "#0a5bd3", TORCH_GPU: "#8a6d00"}
LIGHT |= {OURS_GPU: "#0a5bd3"}
DARK = {"paper": "#0d1117", "ink": "#f0f6fc", "quiet": "#9da7b3", "grid": "#2b323b"}
DARK |= {LOOP: "#ff8a80", TORCH: "#e3b341", OURS: "#79b8ff", TORCH_GPU: "#e3b341"}
DARK |= {OURS_GPU: "#79b8ff"}
MARKS = {LOOP: "circle", TORCH: "square", OURS: "circle", TORCH_GPU: "square", OURS_GPU: "circle"}
LINE = 17
"""Between labels, at least."""


def picture(dark: bool = False) -> str:
    """Time against the number of slices, both logarithmic, as SVG."""
    colours, found = DARK if dark else LIGHT, curves()
    points = [point for curve in found.values() for point in curve]
    right = log10(max(n for n, _ in points))
    low = floor(log10(min(t for _, t in points)))
    high = log10(max(t for _, t in points)) + 0.15

    def x(n: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log10(n) / right

    def y(t: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - log10(t)) / (high - low)

    title = f"Time for one network ({CURVE}) on every slice of an array"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(words())}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colours["paper"]}"/>',
        f'<text x="{LEFT}" y="26" font-size="15" font-weight="600" fill="{colours["ink"]}">'
        f"{escape(title)}</text>",
    ]
    quiet = f'fill="{colours["quiet"]}"'
    for power in range(low, floor(high) + 1):
        at = f"{y(10.0**power):.1f}"
        out.append(
            f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="{colours["grid"]}"/>'
            f'<text x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end" {quiet}>{UNITS[power]}</text>'
        )
    for power in range(floor(right) + 1):
        out.append(
            f'<text x="{x(10**power):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" '
            f"{quiet}>{10**power:,}</text>"
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle" {quiet}>number of slices</text>'
    )
    ends = {}
    for way, curve in found.items():
        if not curve:
            continue
        colour, dash = colours[way], ' stroke-dasharray="7 4"' if way.endswith("GPU") else ""
        path = "L".join(f"{x(n):.1f} {y(t):.1f}" for n, t in curve)
        out.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}>'
            f"<title>{escape(way)}</title></path>"
        )
        out += [_mark(MARKS[way], x(n), y(t), colour) for n, t in curve]
        n, t = curve[-1]
        ends[way] = (x(n) + 10, y(t) + 4, f"{way}: {duration(t)}")
    place = 0.0
    for way, (at, height, text) in sorted(ends.items(), key=lambda item: item[1][1]):
        # labels of neighbouring curves do not lie upon each other
        place = max(height, place + LINE)
        out.append(
            f'<text x="{at:.1f}" y="{place:.1f}" font-weight="600" fill="{colours[way]}">'
            f"{escape(text)}</text>"
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def _mark(kind: str, x: float, y: float, colour: str) -> str:
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}"/>'


def duration(t: float) -> str:
    """Seconds with the unit that fits: ``"23 ms"``."""
    unit, scale = next((u, s) for u, s in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if t * s >= 1)
    return f"{digits(t * scale, 2)} {unit}"


def words() -> str:
    """What the picture shows, for those who do not see it."""
    ends = (f"{way} {duration(c[-1][1])} for {c[-1][0]:,}" for way, c in curves().items())
    return (
        "Time against the number of slices, both axes logarithmic. One slice takes 15 to 90 "
        "microseconds in each; the loop grows at once, the others later. "
        f"Last points: {'; '.join(ends)} slices."
    )


# --- into the files -------------------------------------------------------------------

PARTS = {f.__name__: f for f in (sentence, before_after, cpu, gpu, machines, shown)}


def filled(text: str) -> str:
    """A page with what is measured between its marks."""
    return MARKED.sub(lambda m: f"{m[1]}{PARTS[m[2]]().strip()}\n{m[3]}", text)


def pictures() -> dict[Path, str]:
    """The files of the picture."""
    return {STATIC / "time-light.svg": picture(), STATIC / "time-dark.svg": picture(dark=True)}


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
    for file, text in pictures().items():
        file.write_text(text, encoding="utf-8")
