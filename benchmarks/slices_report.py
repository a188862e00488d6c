"""What the suite `slices` measured, as text: results/slices_gpu.md, slices_cpu.md, the docs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import pages
from .pages import digits, milli, percent

OURS = "xpapply"
APPLY = "xpapply, apply_along_axis"
OURS_TORCH = "xpapply, torch tensors"
SUM = "x.sum"
SCIPY = "SciPy / cupyx"
TORCH = "torch"
LAYER = "torch layer_norm"
CAREFUL = "NumPy, with care"
NUMBA = "numba, guvectorize"
NAIVE = "expression by hand"
KERNEL = "CuPy kernel by hand"
SPECIAL = "xpapply.special"
ELEMENTWISE = "xpapply.elementwise"
COMPILE = "torch.compile"
JAX = "JAX, jit"

PEERS = (CAREFUL, NUMBA, SCIPY, TORCH, LAYER, COMPILE, JAX, NAIVE, KERNEL)
WAYS = (OURS, APPLY, OURS_TORCH, ELEMENTWISE, SPECIAL, SUM, *PEERS)

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

# on a CPU, of short slices and of the others

SHORT = 64
"""Elements of a short slice, at most."""
SHORT_OF = {CAREFUL: 3.0, NUMBA: 2.0}
"""Times as fast as these."""
SHORT_OF_SCIPY = 10.0
"""logsumexp and softmax: times as fast as SciPy's."""
SHORT_OF_COPY = 0.5
LONG_OF = {CAREFUL: 1.5, TORCH: 1 / 1.1}
FIRST = 0.06
"""Seconds of the first call of a function of one slice, at most."""
AT_MOST = "the error of torch or NumPy"
ERROR = 2.0
"""The error as a multiple of torch's or NumPy's, at most."""


def key(
    function: str,
    shape: Sequence[int],
    axis: int | None,
    row: bool = False,
    dtype: str = "float32",
) -> str:
    name = f"{function} ({', '.join(f'{n:,}' for n in shape)})"
    name += "" if axis is None else f" axis {axis}"
    name += " and a row" if row else ""
    return name if dtype == "float32" else f"{name} {dtype}"


class Report(pages.Results):
    """Numbers of one file of results."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.cases: dict[str, Any] = data.get("cases", {})
        super().__init__(data, {name: case["ways"] for name, case in self.cases.items()})
        self.copy: float | None = data.get("limits", {}).get("copy")
        self.new: float | None = data.get("limits", {}).get("new")
        self.on_gpu = data.get("device") == "gpu"

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
        return self.number(name, way)

    def ours(self, name: str) -> str:
        """What the others are compared with: `special` has not every function."""
        return OURS if self.seconds(name, OURS) is not None else APPLY

    def extra(self, name: str, way: str) -> float | None:
        """Megabytes; what a process had before and uses again counts as far as it is the result."""
        found = self.number(name, way, "extra")
        least = 0 if way == SUM else self.cases[name].get("bytes", (0, 0))[1]
        return None if found is None else max(found, least) / 1e6

    def faster(self, name: str, way: str, ours: str = "") -> float | None:
        """How many times as long as ours it takes."""
        return self.ratio(name, way, ours or self.ours(name))

    def floor(self, name: str) -> float | None:
        """Seconds that a copy would need for the same bytes."""
        found = self.cases[name].get("bytes")
        return sum(found) / self.copy if found and self.copy else None

    def share(self, name: str, ours: str = "") -> float | None:
        """What our rate is of a copy's."""
        floor, seconds = self.floor(name), self.seconds(name, ours or self.ours(name))
        return floor / seconds if floor and seconds else None

    def rate(self, name: str, way: str = "") -> str:
        """GB of input per second."""
        found, seconds = self.cases[name].get("bytes"), self.seconds(name, way or self.ours(name))
        return digits(found[0] / seconds / 1e9) if found and seconds else ""

    # what is wanted: what it is, where, what was found, at least (at most, if it is an error)

    def wanted(self) -> Iterator[tuple[str, str, float | None, float]]:
        for name in self.of("cpu"):
            for way in (OURS, APPLY):
                if self.seconds(name, way) is not None:
                    yield from self.wanted_on_cpu(name, way)
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

    def wanted_on_cpu(self, name: str, way: str) -> Iterator[tuple[str, str, float | None, float]]:
        case = self.cases[name]
        short = case["shape"][case["axis"]] <= SHORT
        where = name if way == OURS else f"{name}, apply_along_axis"
        for other, least in (SHORT_OF if short else LONG_OF).items():
            yield f"times as fast as {other}", where, self.faster(name, other, way), least
        if short:
            if case["function"] in ("logsumexp", "softmax"):
                yield "as SciPy", where, self.faster(name, SCIPY, way), SHORT_OF_SCIPY
            yield "the rate of a copy", where, self.share(name, way), SHORT_OF_COPY
        errors = [self.number(name, other, "error") or 0.0 for other in (CAREFUL, TORCH)]
        found = self.number(name, way, "error")
        if found and max(errors):
            yield AT_MOST, where, found / max(errors), ERROR


# --- parts of the text ----------------------------------------------------------------


def megabytes(x: float | None) -> str:
    return "" if x is None else digits(x) if x >= 0.1 else "< 0.1"


def figures(r: Report) -> str:
    """What was wanted, and in bold what does not hold."""
    found: dict[str, dict[str, str]] = {}
    held = []
    for what, name, value, least in r.wanted():
        if value is not None:
            held.append(value <= least if what == AT_MOST else value >= least)
            words = "at most" if what == AT_MOST else "at least"
            text = f"{digits(value)} ({words} {least:.3g})"
            found.setdefault(name, {})[what] = text if held[-1] else f"**{text}**"
    for name, group in r.data.get("host", {}).items() if r.on_gpu else ():
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
    columns = ["", "engine", "GB/s read", "of a copy", "of a copy to new memory"]
    if rate == SUM:
        columns += ["x.sum: GB/s", "of x.sum's rate"]
    columns += [f"{r.label(way)} / ours" for way in PEERS]
    rows = []
    for name in names:
        new = r.share(name)
        new = new * r.copy / r.new if new and r.copy and r.new else None
        engine = r.entries[name].get(APPLY, {}).get("engine", "")
        cells = [name, engine, r.rate(name), percent(r.share(name)), percent(new)]
        if rate == SUM:
            cells += [r.rate(name, SUM), digits(r.faster(name, SUM))]
        rows.append([*cells, *(digits(r.faster(name, way)) for way in PEERS)])
    text = "What xpapply reads per second, and how many times as long the others take:"
    parts += [text, pages.table(columns, rows, full=False)]
    rows = [[name, *(megabytes(r.extra(name, way)) for way in WAYS)] for name in names]
    if any(any(row[1:]) for row in rows):
        head = ["", *map(r.label, WAYS)]
        text = "Memory at the peak of a call, its result included, MB:"
        parts += [text, pages.table(head, [row for row in rows if any(row[1:])], full=False)]
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
    rows = [
        [name, *(digits(g.get(w, {}).get("median")) for w in ways)] for name, g in groups.items()
    ]
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
        clock = (
            "the median of at most 9 calls, all ways in turns, with rests until no thread is busy"
        )
        memory = (
            "Memory is what `tracemalloc` sees of NumPy; of torch the growth of the process at "
            "its peak, at least the result."
        )
    others, long = (
        ("", "") if r.on_gpu else (" where nothing else is said", " (float64: long double)")
    )
    return (
        f"One run of `benchmarks/slices.py`. Input: float32{others}, from a normal distribution of "
        f"mean 1 and standard deviation 2. Times: {clock}. Every result was compared with float64 "
        f"before it was timed{long}.{copy} The floor of a time: the bytes of the arrays, each read "
        f"or written once, at that rate. {memory}"
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
    parts += [
        pages.fresh(data, FIRST),
        host(r),
        accuracy(r),
        f"## Not measured\n\n{remarks}" if remarks else "",
    ]
    return pages.page(parts)


# --- for the documentation ------------------------------------------------------------

PAGE = {
    CAREFUL: CAREFUL,
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
    names = [name for name in names if not name.endswith("float64")]
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
