"""What the suite `cpu` measured, as text: results/cpu.md."""

from __future__ import annotations

import math
from typing import Any

from . import pages
from .pages import digits, milli

CHUNK = 8192
SLICES = 20_000
"""Of the function that cannot be lifted."""
FEW = (1, 10, 100, 1000, 10_000)

OURS = "xpapply"
OURS_NUMPY = 'xpapply, engine="numpy"'
OURS_AXIS0 = "xpapply, axis 0"
OURS_NUMPY_AXIS0 = 'xpapply, engine="numpy", axis 0'
EAGER = "torch eager"
CHUNKS = f"torch, {CHUNK}-row chunks by hand"
COMPILE = "torch.compile"
JAX = "JAX, jit(vmap)"
ONNX = "onnxruntime"
LOOP = "numpy.apply_along_axis"
PEERS = (
    *(OURS, OURS_AXIS0, OURS_NUMPY, OURS_NUMPY_AXIS0),
    *(CHUNKS, EAGER, COMPILE, JAX, ONNX, LOOP),
)
OTHERS = (CHUNKS, EAGER, COMPILE, JAX, ONNX)
"""The best of these is what xpapply is held against."""
OURS_TENSOR = "xpapply, on a tensor"
TENSOR = "torch eager, on a tensor"
ARRAY = "torch eager, from and to NumPy"
SMALL = (OURS, OURS_NUMPY, OURS_TENSOR, TENSOR, ARRAY)
MEMORY = (OURS, OURS_NUMPY, EAGER)

# --- what is wanted -------------------------------------------------------------------

OF_CHUNKS = {
    "8-16-1 ReLU": 3.5,
    "16-32-32-1 ReLU": 1.55,
    "16-32-32-1 tanh": 4.0,
    "16-64-64-64-4 ReLU": 1.35,
    "32-128-128-128-8 ReLU": 1.3,
    "10-50-50-3 GELU": 1.7,
    "13-37-21-3 SiLU": 1.3,
    "16-64-64-4 ReLU float64": 1.3,
}
"""Times as fast as torch in chunks."""
OF_BEST = 1.2
"""Times as fast as the fastest of the others."""
OF_LAST_AXIS = 1.1
"""The time along axis 0, at most."""
OF_ERROR = 2.0
"""The error as a multiple of torch's, at most."""
FIRST = 0.15
"""Seconds of the first call, at most."""
OF_MODULE = 1.0
"""Few slices: the time of the module on a tensor, at most."""


class Report(pages.Results):
    """Numbers of one file of results; those that do not hold are counted."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data, data["networks"])
        self.rows: int = data["settings"]["rows"]
        self.limits: dict[str, Any] = data.get("limits", {})
        self.held: list[bool] = []

    def least(self, net: str) -> tuple[float, float]:
        """Seconds for the bytes alone and for the multiply-adds alone."""
        dtype, widths = pages.dtype(net), pages.widths(net)
        size = 8 if dtype == "float64" else 4
        rate = self.limits.get("fma", {}).get(dtype) or self.limits["product"] * 4 / size
        bytes_ = pages.traffic(widths, self.rows, size)
        return bytes_ / self.limits["copy"], pages.flop(widths, self.rows) / rate

    def best(self, net: str) -> str | None:
        """The fastest of the others."""
        found = {peer: self.number(net, peer) for peer in OTHERS}
        times = {peer: seconds for peer, seconds in found.items() if seconds is not None}
        return min(times, key=times.__getitem__) if times else None

    def wanted(self, x: float | None, text: str, least: float = 0.0, most: float = math.inf) -> str:
        """A cell with what was found, in bold if it is not what was wanted."""
        if x is None:
            return ""
        self.held.append(least <= x <= most)
        cell = f"{text} ({f'at least {least:g}' if least else f'at most {most:g}'})"
        return cell if self.held[-1] else f"**{cell}**"


def render(data: dict[str, Any]) -> str:
    """cpu.md."""
    r = Report(data)
    threads = data["settings"]["torch threads"]
    parts = [
        "# CPU",
        f"{r.rows:,} slices in one run of `benchmarks/cpu.py`, the methods in turns, at most "
        f"{data['settings']['repeats']} times each, and after each call a rest until no thread "
        f"is busy any more; {threads} threads. Networks with biases, float32 where nothing else "
        "is said. The input is (slices, inputs) and the slices lie along the last axis; "
        '"axis 0" has it as (inputs, slices). xpapply is called with a torch module and a NumPy '
        "array.",
        pages.machine_table(data),
        "## xpapply against the others",
        _against(r),
        "## Time",
        "Milliseconds, median; in brackets as a multiple of xpapply's.",
        _grid(r, lambda net, peer: _multiple(r, net, peer, "median")),
        "The fastest of the repeats:",
        _grid(r, lambda net, peer: _multiple(r, net, peer, "min")),
        r.skipped("all networks"),
        "## Error",
        "Against float64 (of float64: long double), Euclidean norm of the difference over that "
        "of the truth.",
        _grid(r, r.error),
        _least(r),
        pages.fresh(data, FIRST),
        _memory(data.get("memory", ())),
        _small(r),
    ]
    if "plain" in data:
        o, n = data["plain"][OURS], data["plain"][LOOP]
        parts += [
            "## Functions that cannot be lifted",
            f"`apply_along_axis` of `lambda v: len(v.tobytes())` over {SLICES:,} slices: xpapply "
            f"{milli(o['median'])} ms, NumPy {milli(n['median'])} ms, "
            f"{digits(o['median'] / n['median'])} times as long (the fastest of each: "
            f"{digits(o['min'] / n['min'])}). Wanted: 1.1 at most.",
        ]
    return pages.page(parts)


def _grid(r: Report, cell: Any) -> str:
    """A row per peer, a column per network."""
    rows = ([peer, *(cell(net, peer) for net in r.entries)] for peer in PEERS)
    return pages.table(["", *r.entries], (row for row in rows if any(row[1:])))


def _multiple(r: Report, net: str, peer: str, kind: str) -> str:
    factor = r.ratio(net, peer, OURS, kind)
    return "" if factor is None else f"{r.ms(net, peer, kind)} ({pages.times(factor)})"


def _against(r: Report) -> str:
    """What is wanted, and what is."""
    rows = []
    for net, entry in r.entries.items():
        seconds = r.number(net, OURS)
        if seconds is None:
            continue
        best, chunks = r.best(net), r.ratio(net, CHUNKS, OURS)
        faster = r.ratio(net, best, OURS) if best else None
        axis0, error = r.ratio(net, OURS_AXIS0, OURS), r.ratio(net, OURS, CHUNKS, "error")
        moved, work = r.least(net) if r.limits else (0.0, 0.0)
        rows.append(
            [
                net,
                entry[OURS].get("engine", ""),
                milli(seconds),
                r.wanted(chunks, digits(chunks), least=OF_CHUNKS.get(net, 1.0)),
                best or "",
                r.wanted(faster, digits(faster), least=OF_BEST),
                r.wanted(axis0, digits(axis0), most=OF_LAST_AXIS),
                pages.percent(work / seconds) if work else "",
                pages.percent(moved / seconds) if moved else "",
                r.wanted(error, digits(error, 2), most=OF_ERROR),
            ]
        )
    head = ["", "engine", "xpapply, ms", "torch in chunks / xpapply", "best of the others"]
    head += ["best / xpapply", "axis 0 / last axis", "of the FMA peak", "of memcpy's rate"]
    head += ["error / torch's"]
    text = (
        "By medians; in brackets what is wanted, and in bold what does not hold "
        f"({sum(r.held)} of {len(r.held)} do). The FMA peak is a loop of multiply-adds on as many "
        "threads (of results without one: a large product); the rate of memcpy is that of "
        "`np.copyto`, each slice read once and each result written once."
    )
    return f"{pages.table(head, rows, full=False)}\n\n{text}"


def _least(r: Report) -> str:
    """Floors of the times."""
    if not r.limits:
        return ""
    lines = []
    for net in r.entries:
        if seconds := r.number(net, OURS):
            moved, work = r.least(net)
            share = f"{digits(seconds / max(moved, work), 2)}x"
            lines.append([net, milli(moved), milli(work), milli(seconds), share])
    rates = r.limits.get("fma", {})
    alone = " and ".join(f"{digits(x / 1e9)} GFLOP/s of {name}" for name, x in rates.items())
    text = (
        f"np.copyto moves {r.limits['copy'] / 1e9:.3g} GB/s here (read and written), a large "
        f"product of float32 makes {r.limits['product'] / 1e9:.3g} GFLOP/s"
        f"{f', multiply-adds alone make {alone}' if alone else ''}. Reading each slice once and "
        "writing each result once, or the products alone (no activations, nothing but "
        "multiply-adds), at these rates, in milliseconds:"
    )
    table = pages.table(["", "bytes", "products", "xpapply", "of the larger"], lines)
    return f"## The least it could take\n\n{text}\n\n{table}"


def _memory(entries: Any) -> str:
    if not entries:
        return ""
    lines = []
    for e in entries:
        cells = [digits(e[m] / 2**20) if m in e else "" for m in ("output", *MEMORY)]
        rest = digits((e[OURS] - e["output"]) / 2**20, 2) if OURS in e else ""
        lines.append([e["network"], f"{e['rows']:,}", *cells, rest])
    text = (
        "MiB that one call adds to the process at its peak (VmHWM, a process of its own for "
        "each number); the output is part of it."
    )
    table = pages.table(["", "slices", "output", *MEMORY, "xpapply without output"], lines)
    return f"## Memory\n\n{text}\n\n{table}"


def _small(r: Report) -> str:
    """Few slices; the module that is called on a tensor is what xpapply is held against."""
    lines, r.held = [], []
    for net, found in r.data.get("small", {}).items():
        for n in map(str, FEW):
            times = [found.get(peer, {}).get(n) for peer in SMALL]
            if any(times):
                ours, hand = times[SMALL.index(OURS)], times[SMALL.index(TENSOR)]
                ratio = ours / hand if ours and hand else None
                cell = r.wanted(ratio, digits(ratio), most=OF_MODULE)
                lines.append([net, f"{int(n):,}", *map(digits, times), cell])
    if not lines:
        return ""
    head = ["", "slices", *SMALL, "xpapply / torch on a tensor"]
    text = (
        "Microseconds per call, median, of calls that have been made before. torch is called "
        "within `torch.inference_mode`, on a tensor that was made before. In bold what takes "
        f"longer than the module ({sum(r.held)} of {len(r.held)} do not)."
    )
    return f"## Small arrays\n\n{text}\n\n{pages.table(head, lines, full=False)}"
