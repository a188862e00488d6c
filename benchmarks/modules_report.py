"""What the suite `modules` measured, as text: results/modules_cpu.md, modules_gpu.md."""

from __future__ import annotations

import math
import statistics
from typing import Any

from . import pages
from .pages import digits, milli

OURS, OURS_TENSOR, TORCH = "xpapply", "xpapply, CUDA tensor", "torch"
HIGH = "xpapply, high"
"""With ``precision="high"``."""
COMPILED, LAST = "torch.compile", "torch, channels last"
FEW = (1, 16, 64)
WANTED = {True: 0.95, False: 1.0}
"""Of the rate of torch's batched forward, on a GPU and on a CPU."""


def render(data: dict[str, Any]) -> str:
    """The page."""
    results = {n: e for n, e in data["networks"].items() if "skipped" not in e}
    on_gpu = any(OURS_TENSOR in c for e in results.values() for c in e["counts"].values())
    where = "CuPy arrays and CUDA tensors" if on_gpu else "NumPy arrays"
    parts = [
        "# Convolutional, recurrent and attending networks",
        f"`apply_along_axis` of torch modules (`benchmarks/modules.py`) on {where}, beside torch's "
        "own forward of a batch by hand: of the whole stack, or in chunks of the size that takes "
        "the least time. float32, milliseconds, median of calls that follow each other. The "
        "ratio is the time of torch's fastest way over xpapply's: above 1 xpapply is faster.",
        pages.machine_table(data),
    ]
    if results:
        parts += ["## In short", _short(results, WANTED[on_gpu])]
    wrong = {n: e["wrong"] for n, e in results.items() if "wrong" in e}
    parts.append(f"**Wrong results: {wrong}.**" if wrong else "All results agree.")
    less = [HIGH] * any(HIGH in c for c in _counts(results))
    floors = ["floor"] * any("floor" in e for e in results.values())
    further = [w for w in (COMPILED, LAST) if any(w in c for c in _counts(results))]
    head = ["", "slices", "of shape", "xpapply", *([OURS_TENSOR] * on_gpu), "torch", "its chunk"]
    rows, few = [], []
    for name, e in results.items():
        for count, c in e["counts"].items():
            times = [milli(c.get(OURS)), *([milli(c.get(OURS_TENSOR))] * on_gpu), milli(c[TORCH])]
            shape = " x ".join(map(str, e["shape"]))
            row = [name, f"{int(count):,}", shape, *times, f"{c['chunk']:,}"]
            if int(count) in FEW:
                few.append([*row, _ratio(c)])
            else:
                more = [
                    *(milli(c.get(w)) for w in (*further, *less)),
                    *[milli(e.get("floor"))] * len(floors),
                ]
                rows.append([*row, *more, _ratio(c)])
    if rows:
        parts += ["## Many slices", pages.table([*head, *further, *less, *floors, "ratio"], rows)]
        parts += _notes(results, less, floors)
        before = data["settings"].get("before")
        after = f"Measured after {before:g} s of such calls in each way." if before else ""
        parts += ["## One to 64 slices", *[after] * bool(before)]
        parts += [pages.table([*head, "ratio"], few)]
        how = "\n".join(f"- {n}: {e['how']}" for n, e in results.items())
        parts += ["## What ran", how]
        without = [f"- {n}: {e['without']}" for n, e in results.items() if "without" in e]
        parts += ["## Ways of torch that do not run", "\n".join(without)] if without else []
    missing = {n: e["skipped"] for n, e in data["networks"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)


def _notes(results: dict[str, Any], less: list[str], floors: list[str]) -> list[str]:
    """What the columns that not all pages have are, and how exact each way is."""
    notes = []
    if less:
        notes.append('"high": with `precision="high"`, which multiplies in 16 bits.')
    if floors:
        notes.append("The floor: bytes by the memory's rate, or products by that of tensor cores.")
    parts = [" ".join(notes)] if notes else []
    found = {n: e["errors"] for n, e in results.items() if "errors" in e}
    if found:
        ways = list(dict.fromkeys(way for e in found.values() for way in e))
        rows = [[n, *(f"{e[w]:.1e}" if w in e else "" for w in ways)] for n, e in found.items()]
        what = "The largest error, relative to the largest result, by torch in float64."
        parts += ["## Errors", what, pages.table(["", *ways], rows)]
    return parts


def _counts(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [c for e in results.values() for c in e["counts"].values()]


def best_of_torch(c: dict[str, Any]) -> float:
    """Seconds of the fastest way of torch."""
    return float(min(c[way] for way in (TORCH, COMPILED, LAST) if way in c))


def _of(c: dict[str, Any]) -> float:
    return best_of_torch(c) / float(c.get(OURS, c.get(OURS_TENSOR)))


def _ratio(c: dict[str, Any]) -> str:
    return digits(_of(c))


def _short(results: dict[str, Any], wanted: float) -> str:
    lines = []
    for what, few in (("Many slices", False), ("One to 64 slices", True)):
        ratios = {
            (n, k): _of(c)
            for n, e in results.items()
            for k, c in e["counts"].items()
            if (int(k) in FEW) == few
        }
        if not ratios:
            continue
        limit = 1 / 1.1 if few else wanted
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        low = min(ratios, key=ratios.__getitem__)
        reached = sum(r >= limit for r in ratios.values())
        lines.append(
            f"- {what}: {reached} of {len(ratios)} at {digits(limit, 2)} or more of torch's rate, "
            f"as wanted; geometric mean {digits(mean)}, the least {digits(ratios[low])} "
            f"({low[0]}, {int(low[1]):,})."
        )
    return "\n".join(lines)
