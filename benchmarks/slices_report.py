"""What `slices.py` measured, as text: results/slices_gpu.md and slices_cpu.md, and for the docs.

Needs nothing but the results, of which any part may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import timing
from timing import digits

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


class Report:
    """Numbers of one file of results."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.cases: dict[str, Any] = data.get("cases", {})
        self.copy: float | None = data.get("limits", {}).get("copy")
        self.on_gpu = data.get("device") == "gpu"

    def label(self, way: str) -> str:
        """A column's heading."""
        return ("cupyx" if self.on_gpu else "SciPy") if way == SCIPY else way

    def of(self, section: str, function: str = "") -> dict[str, Any]:
        return {
            name: case
            for name, case in self.cases.items()
            if case["section"] == section and function in ("", case["function"])
        }

    def seconds(self, name: str, way: str) -> float | None:
        """The median on a GPU; on a CPU, which others use as well, the minimum."""
        found = self.cases.get(name, {}).get("ways", {}).get(way, {})
        if "skipped" in found:
            return None
        return found.get("median" if self.on_gpu else "min")

    def extra(self, name: str, way: str) -> float | None:
        """Megabytes; what a process had before and uses again counts as far as it is the result."""
        found = self.cases.get(name, {}).get("ways", {}).get(way, {})
        if "extra" not in found or "skipped" in found:
            return None
        least = 0 if way == SUM else self.cases[name]["bytes"][1]
        return max(found["extra"], least) / 1e6

    def faster(self, name: str, way: str) -> float | None:
        """How many times as long as ours it takes."""
        ours, theirs = self.seconds(name, OURS), self.seconds(name, way)
        return theirs / ours if ours and theirs else None

    def floor(self, name: str) -> float | None:
        """Seconds that a copy would need for the same bytes."""
        found = self.cases[name].get("bytes")
        return sum(found) / self.copy if found and self.copy else None

    def share(self, name: str, way: str = OURS) -> float | None:
        floor, seconds = self.floor(name), self.seconds(name, way)
        return floor / seconds if floor and seconds else None

    def rate(self, name: str, way: str = OURS) -> float | None:
        """Bytes of input per second."""
        found, seconds = self.cases[name].get("bytes"), self.seconds(name, way)
        return found[0] / seconds if found and seconds else None

    def best(self, name: str, ways: Sequence[str]) -> float | None:
        found = [f for way in ways if (f := self.faster(name, way)) is not None]
        return min(found, default=None)

    # what is wanted: what it is, where, what was found, at least

    def wanted(self) -> Iterator[tuple[str, str, float | None, float]]:
        for name in self.of("logsumexp"):
            yield "the rate of x.sum", name, self.faster(name, SUM), OF_SUM
            yield "times as fast as cupyx", name, self.faster(name, SCIPY), OF_LIBRARIES
            yield "times as fast as torch", name, self.faster(name, TORCH), OF_LIBRARIES
        for name, case in self.of("maps").items():
            held = case["axis"] is not None and case["shape"][case["axis"]] <= HELD
            if held:
                yield "the rate of a copy", name, self.share(name), OF_COPY
            best = self.best(name, (TORCH, LAYER))
            yield "times as fast as torch", name, best, OF_TORCH
        for name in self.of("short"):
            yield "the rate of a copy", name, self.share(name), OF_COPY


# --- parts of the text ----------------------------------------------------------------


def milli(x: float | None) -> str:
    return "" if x is None else digits(1e3 * x)


def times(x: float | None) -> str:
    return "" if x is None else digits(x)


def percent(x: float | None) -> str:
    return "" if x is None else f"{100 * x:.0f} %"


def megabytes(x: float | None) -> str:
    return "" if x is None else digits(x) if x >= 0.1 else "< 0.1"


def tables(r: Report, names: Sequence[str], cell: Callable[[str, str], str], ways: Any) -> str:
    """A row per case, a column per way that has a number in one of them."""
    used = [way for way in ways if any(cell(name, way) for name in names)]
    rows = [[name, *(cell(name, way) for way in used)] for name in names]
    return timing.table(["", *map(r.label, used)], rows) if used else ""


def figures(r: Report) -> str:
    """What was wanted, and in bold what does not hold."""
    if not r.on_gpu:
        return ""
    found: dict[str, dict[str, str]] = {}
    held = []
    for what, name, value, least in r.wanted():
        if value is not None:
            held.append(value >= least)
            text = f"{times(value)} (at least {least:g})"
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
    return f"## What was wanted\n\n{text}\n\n{timing.table(['', *columns], rows)}"


def section(r: Report, title: str, names: Sequence[str], rate: str) -> str:
    """Times, what they are of a copy's or a sum's, how they compare, memory."""
    if not any(r.cases[name]["ways"] for name in names):
        return ""
    parts = [f"## {title}"]
    head = ["", "floor", *(way for way in WAYS if any(r.seconds(n, way) for n in names))]
    rows = [
        [name, milli(r.floor(name)), *(milli(r.seconds(name, way)) for way in head[2:])]
        for name in names
    ]
    labels = [*head[:2], *map(r.label, head[2:])]
    parts += ["Milliseconds:", timing.table(labels, rows)]
    rows = []
    for name in names:
        cells = [name, gigabytes(r.rate(name)), percent(r.share(name))]
        if rate == SUM:
            cells += [gigabytes(r.rate(name, SUM)), times(r.faster(name, SUM))]
        rows.append([*cells, *(times(r.faster(name, way)) for way in PEERS)])
    columns = ["", "GB/s read", "of a copy"]
    if rate == SUM:
        columns += ["x.sum: GB/s", "of x.sum's rate"]
    columns += [f"{r.label(way)} / ours" for way in PEERS]
    used = [k for k in range(len(columns)) if k == 0 or any(row[k] for row in rows)]
    rows = [[row[k] for k in used] for row in rows]
    text = "What xpapply reads per second, and how many times as long the others take:"
    parts += [text, timing.table([columns[k] for k in used], rows)]
    memory = tables(r, names, lambda name, way: megabytes(r.extra(name, way)), WAYS)
    if memory:
        parts += ["Memory at the peak of a call, its result included, MB:", memory]
    return "\n\n".join(parts)


def gigabytes(x: float | None) -> str:
    return "" if x is None else digits(x / 1e9)


def accuracy(r: Report) -> str:
    """The largest error of each way."""
    found: dict[str, float] = {}
    for case in r.cases.values():
        for way, entry in case["ways"].items():
            if "error" in entry and math.isfinite(entry["error"]):
                found[way] = max(found.get(way, 0.0), entry["error"])
    if not found:
        return ""
    rows = [[r.label(way), f"{found[way]:.1e}"] for way in WAYS if way in found]
    text = "The largest error against float64 in any case, in the Euclidean norm:"
    return f"## Errors\n\n{text}\n\n{timing.table(['', 'relative error'], rows)}"


def host(r: Report) -> str:
    groups = r.data.get("host", {})
    ways = [w for w in WAYS if any("median" in g.get(w, {}) for g in groups.values())]
    if not ways:
        return ""
    kind = "median" if r.on_gpu else "min"
    rows = [
        [name, *(digits(g[w][kind]) if kind in g.get(w, {}) else "" for w in ways)]
        for name, g in groups.items()
    ]
    text = "Microseconds of the host for a call on an array of shape (4, 8), made before:"
    parts = ["## Small arrays", text, timing.table(["", *map(r.label, ways)], rows)]
    first = r.data.get("first", {})
    if first:
        parts += [
            "First calls, with compilation, none of them in the cache, milliseconds:",
            timing.table(["", "first call"], [[name, milli(s)] for name, s in first.items()]),
        ]
    return "\n\n".join(parts)


def skipped(r: Report) -> str:
    why = timing.skipped({name: case["ways"] for name, case in r.cases.items()})
    why = why.replace("(all networks)", "(all)")
    return f"## Not measured\n\n{why}" if why else ""


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
        timing.machine_table(data.get("machine", {})),
        how(r),
        figures(r),
    ]
    for name, (title, rate) in TITLES.items():
        if r.of(name):
            parts.append(section(r, title, list(r.of(name)), rate))
    for function in dict.fromkeys(case["function"] for case in r.of("cpu").values()):
        parts.append(section(r, function, list(r.of("cpu", function)), SUM))
    parts += [host(r), accuracy(r), skipped(r)]
    return "\n\n".join(part for part in parts if part)


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

    ways = {way: text for way, text in ways.items() if any(cell(n, way) for n in names)}
    rows = [
        [place(r.cases[name]), *(cell(name, way) for way in ways), percent_of_sum(r, name)]
        for name in names
    ]
    machine = data.get("machine", {})
    where = machine.get("GPU") or machine.get("processor", "")
    head = ["float32", *ways.values(), "rate of `x.sum`"]
    return f"{where}, {machine.get('date', '')}:\n\n{timing.table(head, rows)}"


def percent_of_sum(r: Report, name: str) -> str:
    """Our rate of reading, of that of a sum."""
    return percent(r.faster(name, SUM))


def place(case: Mapping[str, Any]) -> str:
    return key("", case["shape"], case["axis"]).strip()


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
    machine = data.get("machine", {})
    where = machine.get("GPU") or machine.get("processor", "")
    return f"{name}, float32, {where}: {ours}; {'; '.join(others)}."
