"""What the suite `slices` measured, as text: results/slices_gpu.md, slices_cpu.md, the docs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import pages
from .pages import digits, milli, percent

OURS = "xpapply"
OURS_TORCH = "xpapply, torch tensors"
SUM = "x.sum"
SCIPY = "SciPy / cupyx"
TORCH = "torch"
LAYER = "torch layer_norm"
NAIVE = "expression by hand"
KERNEL = "CuPy kernel by hand"
SPECIAL = "xpapply.special"
ELEMENTWISE = "xpapply.elementwise"
COMPILE = "torch.compile"
JAX = "JAX, jit"

PEERS = (SCIPY, TORCH, LAYER, COMPILE, JAX, NAIVE, KERNEL)
WAYS = (OURS, OURS_TORCH, ELEMENTWISE, SPECIAL, SUM, *PEERS)

# --- what is wanted -------------------------------------------------------------------

OF_SUM = 0.9
"""logsumexp: of the rate that x.sum reads at."""
OF_LIBRARIES = 3.0
"""logsumexp: times as fast as cupyx and torch."""
OF_COPY = 0.8
"""softmax, standardize and short slices: of the rate of a copy."""
HELD = 32_768
"""Elements of a float32 slice that stays on the chip between its two uses, at most."""
OF_TORCH = 1.5
"""softmax and standardize: times as fast as torch."""
MICROSECONDS = 25.0
"""Of the host for a call that has been made before."""


def key(function: str, shape: Sequence[int], axis: int | None, row: bool = False) -> str:
    name = f"{function} ({', '.join(f'{n:,}' for n in shape)})"
    name += "" if axis is None else f" axis {axis}"
    return name + (" and a row" if row else "")


class Report(pages.Results):
    """Numbers of one file of results."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.cases: dict[str, Any] = data.get("cases", {})
        super().__init__(data, {name: case["ways"] for name, case in self.cases.items()})
        self.copy: float | None = data.get("limits", {}).get("copy")
        self.on_gpu = data.get("device") == "gpu"
        self.kind = "median" if self.on_gpu else "min"
        """Others use a CPU as well."""

    def label(self, way: str) -> str:
        """A column's heading."""
        return ("cupyx" if self.on_gpu else "SciPy") if way == SCIPY else way

    def of(self, section: str, function: str = "") -> list[str]:
        return [
            name
            for name, case in self.cases.items()
            if case["section"] == section and function in ("", case["function"])
        ]

    def seconds(self, name: str, way: str) -> float | None:
        return self.number(name, way, self.kind)

    def extra(self, name: str, way: str) -> float | None:
        """Megabytes; what a process had before and uses again counts as far as it is the result."""
        found = self.number(name, way, "extra")
        least = 0 if way == SUM else self.cases[name].get("bytes", (0, 0))[1]
        return None if found is None else max(found, least) / 1e6

    def faster(self, name: str, way: str) -> float | None:
        """How many times as long as ours it takes."""
        return self.ratio(name, way, OURS, self.kind)

    def floor(self, name: str) -> float | None:
        """Seconds that a copy would need for the same bytes."""
        found = self.cases[name].get("bytes")
        return sum(found) / self.copy if found and self.copy else None

    def share(self, name: str) -> float | None:
        floor, seconds = self.floor(name), self.seconds(name, OURS)
        return floor / seconds if floor and seconds else None

    def rate(self, name: str, way: str = OURS) -> str:
        """GB of input per second."""
        found, seconds = self.cases[name].get("bytes"), self.seconds(name, way)
        return digits(found[0] / seconds / 1e9) if found and seconds else ""

    # what is wanted: what it is, where, what was found, at least

    def wanted(self) -> Iterator[tuple[str, str, float | None, float]]:
        for name in self.of("logsumexp"):
            yield "the rate of x.sum", name, self.faster(name, SUM), OF_SUM
            yield "times as fast as cupyx", name, self.faster(name, SCIPY), OF_LIBRARIES
            yield "times as fast as torch", name, self.faster(name, TORCH), OF_LIBRARIES
        for name in self.of("maps"):
            axis = self.cases[name]["axis"]
            if axis is not None and self.cases[name]["shape"][axis] <= HELD:
                yield "the rate of a copy", name, self.share(name), OF_COPY
            found = (self.faster(name, way) for way in (TORCH, LAYER))
            best = min((f for f in found if f is not None), default=None)
            yield "times as fast as torch", name, best, OF_TORCH
        for name in self.of("short"):
            yield "the rate of a copy", name, self.share(name), OF_COPY


# --- parts of the text ----------------------------------------------------------------


def megabytes(x: float | None) -> str:
    return "" if x is None else digits(x) if x >= 0.1 else "< 0.1"


def figures(r: Report) -> str:
    """What was wanted, and in bold what does not hold."""
    if not r.on_gpu:
        return ""
    found: dict[str, dict[str, str]] = {}
    held = []
    for what, name, value, least in r.wanted():
        if value is not None:
            held.append(value >= least)
            text = f"{digits(value)} (at least {least:g})"
            found.setdefault(name, {})[what] = text if held[-1] else f"**{text}**"
    for name, group in r.data.get("host", {}).items():
        value = group.get(OURS, {}).get("median")
        if value is not None:
            held.append(value <= MICROSECONDS)
            text = f"{digits(value)} (at most {MICROSECONDS:g})"
            what = "microseconds of the host"
            found.setdefault(f"{name} (4, 8)", {})[what] = text if held[-1] else f"**{text}**"
    if not held:
        return ""
    columns = list(dict.fromkeys(what for cells in found.values() for what in cells))
    rows = [[name, *(cells.get(what, "") for what in columns)] for name, cells in found.items()]
    text = f"{sum(held)} of {len(held)} figures hold; those in bold do not."
    return f"## What was wanted\n\n{text}\n\n{pages.table(['', *columns], rows)}"


def section(r: Report, title: str, names: Sequence[str], rate: str) -> str:
    """Times, what they are of a copy's or a sum's, how they compare, memory."""
    if not any(r.entries[name] for name in names):
        return ""
    parts = [f"## {title}"]
    head = ["", "floor", *(way for way in WAYS if any(r.seconds(n, way) for n in names))]
    rows = [
        [name, milli(r.floor(name)), *(milli(r.seconds(name, way)) for way in head[2:])]
        for name in names
    ]
    labels = [*head[:2], *map(r.label, head[2:])]
    parts += ["Milliseconds:", pages.table(labels, rows)]
    columns = ["", "GB/s read", "of a copy"]
    if rate == SUM:
        columns += ["x.sum: GB/s", "of x.sum's rate"]
    columns += [f"{r.label(way)} / ours" for way in PEERS]
    rows = []
    for name in names:
        cells = [name, r.rate(name), percent(r.share(name))]
        if rate == SUM:
            cells += [r.rate(name, SUM), digits(r.faster(name, SUM))]
        rows.append([*cells, *(digits(r.faster(name, way)) for way in PEERS)])
    text = "What xpapply reads per second, and how many times as long the others take:"
    parts += [text, pages.table(columns, rows, full=False)]
    rows = [[name, *(megabytes(r.extra(name, way)) for way in WAYS)] for name in names]
    if any(any(row[1:]) for row in rows):
        head = ["", *map(r.label, WAYS)]
        text = "Memory at the peak of a call, its result included, MB:"
        parts += [text, pages.table(head, rows, full=False)]
    return "\n\n".join(parts)


def accuracy(r: Report) -> str:
    """The largest error of each way."""
    found: dict[str, float] = {}
    for ways in r.entries.values():
        for way, entry in ways.items():
            if "error" in entry and math.isfinite(entry["error"]):
                found[way] = max(found.get(way, 0.0), entry["error"])
    if not found:
        return ""
    rows = [[r.label(way), f"{found[way]:.1e}"] for way in WAYS if way in found]
    text = "The largest error against float64 in any case, in the Euclidean norm:"
    return f"## Errors\n\n{text}\n\n{pages.table(['', 'relative error'], rows)}"


def host(r: Report) -> str:
    groups = r.data.get("host", {})
    ways = [w for w in WAYS if any("median" in g.get(w, {}) for g in groups.values())]
    if not ways:
        return ""
    rows = [[name, *(digits(g.get(w, {}).get(r.kind)) for w in ways)] for name, g in groups.items()]
    text = "Microseconds of the host for a call on an array of shape (4, 8), made before:"
    parts = ["## Small arrays", text, pages.table(["", *map(r.label, ways)], rows)]
    first = r.data.get("first", {})
    if first:
        parts += [
            "First calls, with compilation, none of them in the cache, milliseconds:",
            pages.table(["", "first call"], [[name, milli(s)] for name, s in first.items()]),
        ]
    return "\n\n".join(parts)


def how(r: Report) -> str:
    copy = "" if r.copy is None else f" A copy moves {digits(r.copy / 1e9)} GB/s."
    if r.on_gpu:
        clock = (
            "device events around batches of calls, the median of 15 batches (JAX, which has "
            "streams of its own: the host's clock around longer batches)"
        )
        memory = "Memory is what CuPy's empty pool and torch's take from the device."
    else:
        clock = "the minimum of 9 calls, all ways in turns"
        memory = (
            "Memory is what `tracemalloc` sees of NumPy; of torch the growth of the process at "
            "its peak, at least the result."
        )
    return (
        f"One run of `benchmarks/slices.py`. Input: float32, from a normal distribution of mean 1 "
        f"and standard deviation 2. Times: {clock}. Every result was compared with float64 before "
        f"it was timed.{copy} The floor of a time: the bytes of the arrays, each read or written "
        f"once, at that rate. {memory}"
    )


TITLES = {
    "logsumexp": ("logsumexp", SUM),
    "maps": ("softmax and standardize", ""),
    "short": ("Short slices", ""),
    "own": ("Functions of one's own: squared_diff and l2norm", SUM),
    "plain": ("apply_along_axis of plain Python functions", ""),
}
"""`plain z-score` is ``lambda v: (v - v.mean()) / v.std()``."""


def render(data: Mapping[str, Any]) -> str:
    r = Report(data)
    parts = [
        f"# Functions of slices, {'GPU' if r.on_gpu else 'CPU'}",
        pages.machine_table(data),
        how(r),
        figures(r),
    ]
    for name, (title, rate) in TITLES.items():
        parts.append(section(r, title, r.of(name), rate))
    for function in dict.fromkeys(r.cases[name]["function"] for name in r.of("cpu")):
        parts.append(section(r, function, r.of("cpu", function), SUM))
    remarks = r.skipped("all")
    parts += [host(r), accuracy(r), f"## Not measured\n\n{remarks}" if remarks else ""]
    return pages.page(parts)


# --- for the documentation and the README ---------------------------------------------

PAGE = {
    NAIVE: NAIVE,
    SCIPY: "`special.logsumexp` of {}",
    TORCH: "`torch.logsumexp`",
    COMPILE: "the same, torch.compile",
    JAX: JAX,
}
"""The ways to write logsumexp that stand beside ours."""


def logsumexp(data: Mapping[str, Any]) -> str:
    """logsumexp as an expression, as libraries have it, and ours: milliseconds and MB."""
    r = Report(data)
    names = [name for name, case in r.cases.items() if case["function"] == "logsumexp"]
    names = [name for name in names if r.cases[name]["section"] in ("logsumexp", "cpu")]
    library = "cupyx" if r.on_gpu else "SciPy"
    ways = {way: text.format(library) for way, text in PAGE.items()}
    ways[OURS] = "`xpapply.special.logsumexp`"

    def cell(name: str, way: str) -> str:
        seconds, extra = r.seconds(name, way), r.extra(name, way)
        if seconds is None:
            return ""
        return f"{milli(seconds)} ms" + ("" if extra is None else f", {megabytes(extra)} MB")

    rows = []
    for name in names:
        place = key("", r.cases[name]["shape"], r.cases[name]["axis"]).strip()
        rate = percent(r.faster(name, SUM))
        rows.append([place, *(cell(name, way) for way in ways), rate])
    head = ["float32", *ways.values(), "rate of `x.sum`"]
    date = data.get("machine", {}).get("date", "")
    return f"{where(r)}, {date}:\n\n{pages.table(head, rows, full=False)}"


def where(r: Report) -> str:
    machine = r.data.get("machine", {})
    return machine.get("GPU") or machine.get("processor", "")


def readme(data: Mapping[str, Any]) -> str:
    """A sentence with numbers, in the case that has most slices."""
    r = Report(data)
    name = next(n for n, c in r.cases.items() if c["function"] == "logsumexp" and c["ways"])
    ours = f"{milli(r.seconds(name, OURS))} ms and {megabytes(r.extra(name, OURS))} MB"
    others = [
        f"{r.label(way)} {milli(r.seconds(name, way))} ms and {megabytes(r.extra(name, way))} MB"
        for way in (NAIVE, SCIPY, TORCH)
        if r.seconds(name, way) is not None
    ]
    return f"{name}, float32, {where(r)}: {ours}; {'; '.join(others)}."
