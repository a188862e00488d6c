"""All suites at a glance: how many times faster than what one would take instead.

Needs nothing but Python. The page of performance shows the table and the picture.
"""

from __future__ import annotations

import html
import json
import math
import statistics
from collections.abc import Iterator, Mapping
from math import floor, log10
from typing import Any, NamedTuple

from . import cpu_report, gpu_report, modules_report, onnx_report, pages
from .pages import digits


class Line(NamedTuple):
    """One suite beside one peer.

    Attributes
    ----------
    what, instead : str
        What was measured, and what one would take instead.
    page : str
        The page of the documentation that has the numbers.
    ratios : dict of str to float
        How many times faster, by case.
    """

    what: str
    instead: str
    page: str
    ratios: dict[str, float]


def lines() -> Iterator[Line]:
    """What there is in the files of results."""
    for make in (_functions, _several, _networks, _modules, _files, _pairs):
        yield from (line for line in make() if line.ratios)


def _load(name: str) -> Mapping[str, Any]:
    path = pages.RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _functions() -> Iterator[Line]:
    found = _load("functions").get("idioms", {})
    fast = {name: e for name, e in found.items() if e["vectorized"]}
    loop, hand = "numpy.apply_along_axis", "by hand"
    yield Line(
        "Python functions, CPU",
        "`np.apply_along_axis`",
        "functions",
        {name: e[loop] / e["xpapply"] for name, e in fast.items()},
    )
    yield Line(
        "Python functions, CPU",
        "the whole array, by hand",
        "functions",
        {name: e[hand] / e["xpapply"] for name, e in fast.items() if hand in e},
    )


def _several() -> Iterator[Line]:
    found = _load("several").get("functions", {})
    for group in dict.fromkeys(e["group"] for e in found.values()):
        yield Line(
            {"numbers": "Functions of numbers, CPU"}.get(group, f"{group.capitalize()}, CPU"),
            {"numbers": "`np.vectorize`"}.get(group, "the loop"),
            "several",
            {n: e["loop"] / e["xpapply"] for n, e in found.items() if e["group"] == group},
        )


def _networks() -> Iterator[Line]:
    for name, report, what, peers in (
        (
            "cpu",
            cpu_report,
            "Networks of linear layers, CPU",
            {cpu_report.EAGER: "torch", cpu_report.CHUNKS: "torch, in chunks that fit the cache"},
        ),
        (
            "gpu",
            gpu_report,
            "Networks of linear layers, GPU",
            {gpu_report.EAGER: "torch", gpu_report.JAX_HIGHEST: "JAX, `jit(vmap)`"},
        ),
    ):
        found = _load(name).get("networks", {})
        for peer, instead in peers.items():
            ratios = {
                net: ways[peer]["median"] / ways[report.OURS]["median"]
                for net, ways in found.items()
                if "median" in ways.get(peer, {}) and "median" in ways.get(report.OURS, {})
            }
            yield Line(what, instead, "speed" if name == "gpu" else name, ratios)


def _modules() -> Iterator[Line]:
    for device in ("cpu", "gpu"):
        ratios = {}
        for name, net in _load(f"modules_{device}").get("networks", {}).items():
            at = net["counts"][str(net["slices"])]
            ratios[name] = modules_report.best_of_torch(at) / at["xpapply"]
        yield Line(
            f"Convolutional and other networks, {device.upper()}",
            "torch, in its best chunks",
            f"modules_{device}",
            ratios,
        )


def _files() -> Iterator[Line]:
    instead = {"cpu": "onnxruntime, in its best batches", "gpu": "torch, the network it came from"}
    for device in ("cpu", "gpu"):
        ratios = {}
        for name, model in _load(f"onnx_{device}").get("models", {}).items():
            seconds = model["seconds"]
            theirs = [t for way, t in seconds.items() if way.startswith(onnx_report.PEER[device])]
            if theirs:
                ratios[name] = min(theirs) / seconds["xpapply"]
        what = f"ONNX files, {device.upper()}"
        yield Line(what, instead[device], f"onnx_{device}", ratios)
    for device in ("cpu", "gpu"):
        cases = _load(f"sklearn_{device}").get("cases", {})
        yield Line(
            f"Estimators of scikit-learn, {device.upper()}",
            "their own method, on the CPU",
            f"sklearn_{device}",
            {n: e["seconds"]["own method"] / e["seconds"]["xpapply"] for n, e in cases.items()},
        )


def _pairs() -> Iterator[Line]:
    found = {name: e["ways"] for name, e in _load("pairs").get("cases", {}).items()}
    for peer, instead in {
        "CuPy by hand": "CuPy, by hand",
        "torch.compile": "torch.compile",
    }.items():
        yield Line(
            "Functions of two arrays, GPU",
            instead,
            "pairs",
            {
                name: ways[peer]["median"] / ways["xpapply"]["median"]
                for name, ways in found.items()
                if "median" in ways.get(peer, {})
            },
        )


def table(link: str = "measured/{}.md") -> str:
    """A line for each, with the geometric mean, the least and the most."""
    rows = [
        [
            f"[{line.what}]({link.format(line.page).replace('measured/speed', 'speed')})",
            line.instead,
            str(len(line.ratios)),
            digits(statistics.geometric_mean(line.ratios.values())),
            *(digits(which(line.ratios.values())) for which in (min, max)),
        ]
        for line in lines()
    ]
    head = ["what", "instead of", "cases", "times faster, geometric mean", "least", "most"]
    return pages.table(head, rows).replace("| --- | ---: |", "| --- | --- |", 1)


# --- the picture ----------------------------------------------------------------------

LEFT, WIDTH, RIGHT, ROW = 16, 660, 24, 44
OURS = "#3b82f6"


def picture() -> str:
    """Each case as a dot on a logarithmic scale, as SVG for light and dark pages."""
    found = [*lines()]
    values = [v for line in found for v in line.ratios.values()]
    low, high = floor(log10(min(values))), math.ceil(log10(max(values)))

    def x(v: float) -> float:
        return LEFT + WIDTH * (log10(v) - low) / (high - low)

    top, bottom = 34, 34 + ROW * len(found)
    width, height = LEFT + WIDTH + RIGHT, bottom + 26
    title = "Times faster than what one would take instead; each dot is a case"
    label = html.escape(f"{title}, on a logarithmic scale. The numbers are in the table.")
    out = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}" '
        f'style="max-width: {width}px; width: 100%; height: auto" fill="currentColor" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="{LEFT}" y="16" font-weight="bold">{html.escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        at = f"{x(10.0**power):.1f}"
        width_of = 1.5 if power == 0 else 1
        out.append(
            f'<line x1="{at}" x2="{at}" y1="{top - 8}" y2="{bottom}" stroke="currentColor" '
            f'stroke-opacity="{0.7 if power == 0 else 0.2}" stroke-width="{width_of}"/>'
            f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{_times(power)}</text>'
        )
    for k, line in enumerate(found):
        y = top + ROW * k
        text = f"{line.what}: instead of {line.instead.replace('`', '')}"
        out.append(f'<text x="{LEFT}" y="{y + 10}" opacity="0.85">{html.escape(text)}</text>')
        for name, value in sorted(line.ratios.items(), key=lambda item: item[1]):
            out.append(
                f'<circle cx="{x(value):.1f}" cy="{y + 24}" r="4.5" fill="{OURS}" '
                f'fill-opacity="0.45"><title>{html.escape(name)}: {digits(value)}</title></circle>'
            )
        mean = x(statistics.geometric_mean(line.ratios.values()))
        out.append(f'<path d="M{mean:.1f} {y + 16}v16" stroke="currentColor" stroke-width="2.5"/>')
    return "\n".join([*out, "</svg>"])


def _times(power: int) -> str:
    return "the same" if power == 0 else f"{10.0**power:,g}x" if power > 0 else f"{10.0**power:g}x"
