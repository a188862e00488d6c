"""What the suite `gpu` measured, as text: results/gpu.md, a page of the docs."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import Any

from . import pages
from .pages import digits, milli, percent, times

OURS = "xpapply, CuPy"
OURS_HIGH = 'xpapply, CuPy, "high"'
OURS_MEDIUM = 'xpapply, CuPy, "medium"'
OURS_AXIS0 = "xpapply, CuPy, axis 0"
OURS_MIDDLE = "xpapply, CuPy, middle axis"
OURS_TORCH = "xpapply, CUDA tensors"
OURS_HALF = "xpapply, CuPy, float16"
EAGER = "torch eager, float32"
EAGER_TF32 = "torch eager, TF32"
EAGER_HALF = "torch eager, float16"
JAX_HIGHEST = "JAX, jit(vmap), highest precision"
JAX_DEFAULT = "JAX, jit(vmap), default precision"
CHUNKS = "torch, 262,144-row chunks by hand"
COMPILE = "torch.compile, float32"
MATMUL = "cupy.matmul per layer"
KERNELS = "ElementwiseKernel per layer"
ONNX = "onnxruntime"
CUPY_LOOP = "cupy.apply_along_axis"
NUMPY_LOOP = "numpy.apply_along_axis"

EXACT = (OURS, OURS_AXIS0, OURS_MIDDLE, OURS_TORCH)
"""As accurate as float32, and so are the other ways in `PEERS`."""
PEERS = (EAGER, COMPILE, CHUNKS, JAX_HIGHEST, MATMUL, KERNELS, ONNX, CUPY_LOOP, NUMPY_LOOP)
LOWER = (OURS_HIGH, OURS_MEDIUM, OURS_HALF)
LOWER_PEERS = (EAGER_TF32, JAX_DEFAULT, EAGER_HALF)
WAYS = (*EXACT, *PEERS, *LOWER, *LOWER_PEERS)
FEW = (1, 1000)

# --- what is wanted -------------------------------------------------------------------

ROWS = 1 << 22
MILLISECONDS = {
    "8-16-1 ReLU": 0.039,
    "16-32-32-1 ReLU": 0.11,
    "16-32-32-1 tanh": 0.143,
    "16-64-64-64-4 ReLU": 0.53,
    "16-64-64-64-4 tanh": 0.689,
    "32-128-128-8 ReLU": 1.10,
    "32-128-128-8 tanh": 1.43,
}
"""For `ROWS` slices; of the other networks a third of torch eager's time."""
AXES = 1.15
MEDIUM = ("16-64-64-64-4 ReLU", 0.227)
ERROR = 2.0
MICROSECONDS = {1: 15.0, 1000: 20.0}
FIRST = 1.5


class Report(pages.Results):
    """Numbers of one file of results."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data, data.get("networks", {}))
        self.limits: dict[str, float] = data.get("limits", {})

    def rows(self, net: str) -> int:
        return self.data.get("rows", {}).get(net, ROWS)

    # floors, in seconds

    def bytes(self, net: str, way: str = OURS) -> float | None:
        if "copy" not in self.limits:
            return None
        size = pages.traffic(pages.widths(net), self.rows(net))
        return (size / 2 if way == OURS_HALF else size) / self.limits["copy"]

    def products(self, net: str, way: str = OURS) -> float | None:
        """On tensor cores: three float16 products for one that is as accurate as float32."""
        if "half" not in self.limits:
            return None
        factor = 1 if way in LOWER else 3
        return factor * pages.flop(pages.widths(net), self.rows(net)) / self.limits["half"]

    def cores(self, net: str) -> float | None:
        """The multiply-adds of float32, without tensor cores."""
        rate = self.float32()
        return pages.flop(pages.widths(net), self.rows(net)) / rate if rate else None

    def float32(self) -> float:
        return max(self.limits.get("product", 0), self.limits.get("peak", 0))

    def floor(self, net: str, way: str = OURS) -> float | None:
        products = self.products(net, way)
        if products is None and way not in LOWER:
            products = self.cores(net)
        found = [t for t in (self.bytes(net, way), products) if t is not None]
        return max(found, default=None)

    def share(self, net: str, way: str = OURS) -> float | None:
        floor, time = self.floor(net, way), self.number(net, way)
        return floor / time if floor is not None and time else None

    def best(self, net: str, ways: Sequence[str]) -> str | None:
        """The fastest of them; of the exact ones, if it is."""
        most = 1e-5 if ways == PEERS else math.inf
        done = [
            way
            for way in ways
            if self.number(net, way) is not None and (self.number(net, way, "error") or 0) <= most
        ]
        return min(done, key=lambda way: self.number(net, way), default=None)

    # what is wanted: what it is, what was found, at most

    def figures(self, net: str) -> Iterator[tuple[str, float | None, float]]:
        def milliseconds(way: str) -> float | None:
            found = self.number(net, way)
            return None if found is None else 1e3 * found

        eager = milliseconds(EAGER)
        if net in MILLISECONDS:
            if self.rows(net) == ROWS:
                yield "time", milliseconds(OURS), MILLISECONDS[net]
        elif eager is not None:
            yield "time", milliseconds(OURS), eager / 3
        if net == MEDIUM[0] and self.rows(net) == ROWS:
            yield '"medium"', milliseconds(OURS_MEDIUM), MEDIUM[1]
        yield "axis 0 / last axis", self.ratio(net, OURS_AXIS0, OURS), AXES
        yield "middle / last axis", self.ratio(net, OURS_MIDDLE, OURS), AXES
        yield "error / torch's", self.ratio(net, OURS, EAGER, "error"), ERROR
        host = self.data.get("host", {}).get(net, {}).get(OURS, {})
        for n, most in MICROSECONDS.items():
            yield f"{n:,} slice{'s' * (n > 1)}", host.get(str(n)), most
        first = self.data.get("first", {}).get(net, {}).get("cold", {})
        yield "first call", first.get("first"), FIRST


# --- parts of the text ----------------------------------------------------------------


def how(r: Report) -> str:
    data, limits = r.data, r.limits
    settings = data.get("settings", {})
    most = settings.get("rows", ROWS)
    fewer = ", ".join(f"{n:,} for {net}" for net, n in data.get("rows", {}).items() if n != most)
    rates = []
    if "copy" in limits:
        rates.append(f"copies {limits['copy'] / 1e12:.3g} TB/s")
    names = {"half": "float16", "tf32": "TF32", "product": "float32"}
    products = [f"{limits[k] / 1e12:.3g} ({word})" for k, word in names.items() if k in limits]
    if products:
        rates.append(f"multiplies large matrices at {', '.join(products)} TFLOP/s")
    if "peak" in limits:
        rates.append(
            f"has {limits['peak'] / 1e12:.3g} TFLOP/s of float32 by cores and clock, outside of "
            "its tensor cores"
        )
    floor = (
        "The **floor** of a time is the larger of two: the bytes (each slice read once, each "
        "result written once) at the rate of a copy, and the multiply-adds "
    )
    if "half" in limits:
        floor += (
            'at the float16 rate of a large product. As accurate as float32 ("highest") takes '
            'three float16 products for each one; "high", "medium" and float16 parameters take one.'
        )
    else:
        floor += (
            "in float32 without tensor cores. That run did not measure the rate of float16 "
            "products."
        )
    return "\n\n".join(
        [
            f"{most:,} slices of float32{f' ({fewer})' if fewer else ''}, one run of "
            "`benchmarks/gpu.py`. The networks have biases, and no activation at the end. The "
            'input is on the device, (slices, inputs) in C order; "axis 0" has it as (inputs, '
            'slices), "middle axis" as (slices / 1024, inputs, 1024). Times are the median of '
            f"{settings.get('repeats', 15)} pairs of device events around batches of calls of at "
            "least 1 ms, per call, through the public function. JAX and onnxruntime have streams "
            "of their own and are timed by the host around batches ten times as long; loops are "
            "extrapolated from a sample. float16 input had been converted before.",
            f"In the same run, the device {', '.join(rates)}. {floor}" if rates else floor,
            "Errors are against float64 on all slices (of loops: the sample), Euclidean norm of "
            "the difference over that of the truth. Before each way ran, the free memory of CuPy "
            "and torch was filled with NaN, so what is not written is seen.",
        ]
    )


def wanted(r: Report) -> str:
    """The figures that are wanted, and which of them are not met."""
    missed: dict[str, list[str]] = {}
    table, columns = [], {}
    for net in r.entries:
        cells = {}
        for what, found, most in r.figures(net):
            columns[what] = None
            number = "" if found is None else digits(found)
            if what in ("time", '"medium"'):
                number += f" / {digits(most)}" if number else ""
            if found is not None and not found <= most:
                number += " **no**"
                missed.setdefault(what, []).append(net)
            cells[what] = number
        table.append((net, cells))
    order = sorted(columns, key=lambda what: list(_COLUMNS).index(what))
    grid = pages.table(
        ["", *(_COLUMNS[what] for what in order)],
        ([net, *(cells.get(what, "") for what in order)] for net, cells in table),
    )
    if missed:
        nets = {w: "all" if len(m) == len(r.entries) else ", ".join(m) for w, m in missed.items()}
        lines = [f"- {what}: {nets[what]}" for what in order if what in nets]
        verdict = "Not met:\n\n" + "\n".join(lines)
    else:
        verdict = "What was measured of them is met."
    return (
        "What xpapply should reach on one H200: times at most those behind the slash (of networks "
        'without a figure of their own: a third of torch eager\'s, float32; of "medium": 350 '
        "TFLOP/s), other axes "
        f"at most {AXES}x the last one, an error at most {digits(ERROR, 1)}x torch's in float32, "
        "few slices and first calls at most what stands in the head. Missing numbers were not "
        f"measured.\n\n{grid}\n\n{verdict}"
    )


_COLUMNS = {
    "time": "ms / wanted",
    '"medium"': '"medium", ms / wanted',
    "axis 0 / last axis": f"axis 0 / last ({AXES})",
    "middle / last axis": f"middle / last ({AXES})",
    "error / torch's": f"error / torch's ({digits(ERROR, 1)})",
    "1 slice": f"1 slice, µs ({digits(MICROSECONDS[1], 2)})",
    "1,000 slices": f"1,000 slices, µs ({digits(MICROSECONDS[1000], 2)})",
    "first call": f"first call, s ({FIRST})",
}


def overview(r: Report) -> str:
    rows = []
    for net in r.entries:
        exact, lower = r.best(net, PEERS), r.best(net, LOWER_PEERS)
        cells = [milli(r.bytes(net)), milli(r.products(net)), milli(r.cores(net))]
        cells += [r.ms(net, OURS), percent(r.share(net))]
        for way, best in ((OURS, exact), (OURS_HIGH, lower)):
            if way == OURS_HIGH:
                cells += [r.ms(net, OURS_HIGH), r.ms(net, OURS_MEDIUM)]
                cells.append(percent(r.share(net, OURS_MEDIUM)))
            factor = f", {times(r.ratio(net, best, way))}" if r.number(net, way) and best else ""
            cells.append(f"{r.ms(net, best)} ({best}){factor}" if best else "")
        rows.append([net, *cells])
    head = ["", "floor: bytes", "floor: 3 float16 products", "float32 cores", "xpapply"]
    head += ["share of floor", "fastest other", '"high"', '"medium"', "share of its floor"]
    head += ["fastest other, TF32 or float16"]
    return (
        "Milliseconds. Share: floor over time. Other ways with their time as a multiple of "
        'xpapply\'s; those with TF32 or float16 products against "high". "float32 cores": the '
        "multiply-adds without tensor cores.\n\n" + pages.table(head, rows)
    )


def network(r: Report, net: str) -> str:
    """All ways of one network."""
    parts = []
    for title, ours, ways in (
        ("As accurate as float32", OURS, (*EXACT, *PEERS)),
        ("Less precise products", OURS_HIGH, (*LOWER, *LOWER_PEERS)),
    ):
        rows = []
        for way in ways:
            if r.number(net, way) is None:
                continue
            own = way in (*EXACT, *LOWER)
            cells = [r.ms(net, way), r.ms(net, way, "min"), times(r.ratio(net, way, ours))]
            cells += [milli(r.floor(net, way)) if own else ""]
            cells += [percent(r.share(net, way)) if own else "", r.error(net, way)]
            rows.append([way, *cells])
        if rows:
            word = "xpapply" if ours == OURS else '"high"'
            head = [title, "ms", "fastest", f"of {word}", "floor", "share", "error"]
            parts.append(pages.table(head, rows))
    kernel = r.data.get("kernels", {}).get(net)
    if kernel:
        parts.append(f"What runs: {kernel}.")
    return "\n\n".join(parts)


def few(r: Report) -> str:
    host, device = r.data.get("host", {}), r.data.get("device", {})
    names = (OURS, OURS_TORCH, EAGER)
    rows = []
    for net in host:
        for n in FEW:
            cells = [host[net].get(way, {}).get(str(n)) for way in names]
            cells += [device.get(net, {}).get(way, {}).get(str(n)) for way in names]
            if any(c is not None for c in cells):
                rows.append([net, f"{n:,}", *(digits(c) for c in cells)])
    if not rows:
        return ""
    head = ["", "slices", *(f"host: {n}" for n in names), *(f"device: {n}" for n in names)]
    return (
        "Microseconds per call of the public function, which has the plan from an earlier call. "
        "Host: its clock, median over batches of 100 calls that do not wait for the device. "
        "Device: events around 20 calls that queue up behind a busy device, so that the host "
        f"does not count.\n\n{pages.table(head, rows)}"
    )


def first(r: Report) -> str:
    found = r.data.get("first", {})
    rows, other, problems = [], [], []
    for net in (net for net in r.entries if net in found):
        entry = found[net]
        cold, warm = entry.get("cold", {}), entry.get("warm", {})
        for kind in (cold, warm):
            if "skipped" in kind:
                problems.append(f"- {net}: not measured, {kind['skipped']}")
        if "first" not in cold:
            continue
        cells = [cold["first"], warm.get("first"), cold.get("second"), cold.get("new weights")]
        cells += [cold.get("import"), cold.get("start")]
        rows.append([net, *(digits(c) for c in cells)])
        other.append((net, cold.get("others", {})))
    if not rows:
        return "\n".join(problems)
    head = ["", "first call", "with a warm cache", "second call", "new weights"]
    head += ["imports", "start of CUDA, input"]
    ways = list(dict.fromkeys(way for _, calls in other for way in calls))
    parts = [
        "Seconds of the host until the result is there, in a fresh process with an empty kernel "
        "cache; in another fresh process with the cache that the first one left; again in the "
        "first process; and there with another model of the same structure. Imports (NumPy, "
        "torch, CuPy, xpapply) and the start of CUDA come before and are not part of it. Processes "
        f"at a time: {r.data.get('settings', {}).get('jobs', 1)}.",
        pages.table(head, rows),
    ]
    if ways:
        parts += [
            "Then, in the first process, the first calls of the other ways:",
            pages.table(
                ["", *ways],
                ([net, *(_seconds(calls.get(way)) for way in ways)] for net, calls in other),
            ),
        ]
    return "\n\n".join(parts + (["\n".join(problems)] if problems else []))


def _seconds(x: float | str | None) -> str:
    return f"failed ({x})" if isinstance(x, str) else digits(x)


# --- the texts ------------------------------------------------------------------------


def body(r: Report, plots: str = "") -> str:
    parts = [
        how(r),
        pages.machine_table(r.data),
        "## Overview",
        plots,
        overview(r),
        "## Wanted",
        wanted(r),
        "## Each network",
        'Milliseconds, median and fastest of the repeats. "Of xpapply" and \'of "high"\': as a '
        "multiple of that time.",
    ]
    for net in r.entries:
        text = network(r, net)
        if text:
            parts += [f"### {net}", text]
    for title, text in (("Few slices", few(r)), ("First call", first(r))):
        if text:
            parts += [f"## {title}", text]
    remarks = r.skipped("all networks")
    if remarks:
        parts += ["## Remarks", remarks]
    return pages.page(parts)


def render(data: dict[str, Any]) -> str:
    """gpu.md."""
    return f"# GPU\n\n{body(Report(data))}"


def page(data: dict[str, Any]) -> str:
    """What `docs/speed.md` shows, for MyST: `render` with plots."""
    r = Report(data)
    exact = {"floor": None, "xpapply": OURS, JAX_HIGHEST: JAX_HIGHEST, EAGER: EAGER}
    lower = {"floor of one float16 product": None, 'xpapply, "high"': OURS_HIGH}
    lower |= {'xpapply, "medium"': OURS_MEDIUM, JAX_DEFAULT: JAX_DEFAULT, EAGER_HALF: EAGER_HALF}
    plots = [_plot(r, "As accurate as float32", exact, OURS)]
    if any(r.number(net, OURS_HIGH) for net in r.entries):
        plots.append(_plot(r, "Less precise products", lower, OURS_MEDIUM))
    return body(r, "\n\n".join(f"```{{raw}} html\n{svg}\n```" for svg in plots if svg))


# --- the plots ------------------------------------------------------------------------

COLOURS = ("#8c929a", "#1f83d6", "#e69f00", "#2aa876", "#cc6ba5")
OWN_COLOURS = ("#8c929a", "#1f83d6", "#6fb7f2", "#e69f00", "#2aa876")
LEFT, WIDTH, RIGHT, BAR, GAP = 150, 470, 80, 11, 12


def _plot(r: Report, title: str, series: dict[str, str | None], floor_of: str) -> str:
    """Bars of milliseconds on a logarithmic scale, as SVG; "" if there is nothing to show."""

    def value(net: str, way: str | None) -> float | None:
        t = r.floor(net, floor_of) if way is None else r.number(net, way)
        return None if not t or not math.isfinite(t) else 1e3 * t

    shown = {
        net: [(k, name, value(net, way)) for k, (name, way) in enumerate(series.items())]
        for net in r.entries
    }
    values = [v for bars in shown.values() for _, _, v in bars if v]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    colours = COLOURS if len(series) < 5 else OWN_COLOURS

    def along(v: float) -> float:
        return WIDTH * (math.log10(v) - low) / (high - low)

    top = 22 + 16 * len(series) + 14
    y = top + 8
    out = []
    for net, bars in shown.items():
        bars = [bar for bar in bars if bar[2]]
        middle = y + BAR * len(bars) / 2 + 4
        out.append(f'<text x="{LEFT - 8}" y="{middle:.0f}" text-anchor="end">{net}</text>')
        for k, name, v in bars:
            length = max(1.0, along(v))
            out.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" '
                f'fill="{colours[k]}"><title>{html.escape(f"{net}, {name}: {digits(v)} ms")}'
                f"</title></rect>"
                f'<text x="{LEFT + length + 4:.1f}" y="{y + BAR - 3}" font-size="9">'
                f"{digits(v)}</text>"
            )
            y += BAR
        y += GAP
    grid = []
    for power in range(low, high + 1):
        x = LEFT + along(10.0**power)
        grid.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y}" stroke="currentColor" '
            f'stroke-opacity="0.25"/>'
            f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{10.0**power:g} ms</text>'
        )
    legend = []
    for k, name in enumerate(series):
        at = 24 + 16 * k
        legend.append(
            f'<rect x="{LEFT}" y="{at}" width="10" height="10" fill="{colours[k]}"/>'
            f'<text x="{LEFT + 16}" y="{at + 9}">{html.escape(name)}</text>'
        )
    head = f'<text x="{LEFT}" y="14" font-weight="bold">{html.escape(title)}</text>'
    width, height = LEFT + WIDTH + RIGHT, y + 22
    label = html.escape(f"{title}: milliseconds per network, logarithmic scale; numbers below")
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}" '
            f'style="max-width: {width}px; width: 100%; height: auto" fill="currentColor" '
            f'font-family="sans-serif" font-size="11">',
            head,
            *legend,
            *grid,
            *out,
            "</svg>",
        ]
    )
