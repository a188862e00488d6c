"""What the suite `functions` measured, as text: results/functions.md."""

from __future__ import annotations

import math
import statistics
from typing import Any

from . import pages
from .pages import digits, milli

OURS = "xpapply"
LOOP = "numpy.apply_along_axis"
HAND = "by hand"
FEW = 10
SLOW = 50e-6
"""Seconds per slice from which the loop runs over a sample only."""
FALLBACK_SECONDS = 0.06
FALLBACK_REPEATS = 11

# --- what is wanted: times as fast as the loop, of what runs without it

MEAN = 75.0
"""Geometric mean of all."""
LEAST = 5.0
"""Each of them."""
GROUPS = {"branches": 30.0}
"""Geometric mean of a group."""


def geometric_mean(x: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, x))) if x else math.nan


def render(data: dict[str, Any]) -> str:
    results = {n: e for n, e in data["idioms"].items() if "skipped" not in e}
    fast = {n: e for n, e in results.items() if e["vectorized"]}
    slow = {n: e for n, e in results.items() if not e["vectorized"]}
    parts = [
        "# Functions",
        f"{len(results)} ways to call apply_along_axis (`benchmarks/idioms.py`) in one run of "
        f"`benchmarks/functions.py`, {data['settings']['slices']:,} slices each: NumPy's loop, "
        "xpapply with the same function, and for some of them what a careful user writes for "
        "the whole array instead.",
        pages.machine_table(data),
        "## In short",
        _summary(results, fast, slow),
        "## By groups",
        _groups(results),
    ]
    if fast:
        parts += [
            "## Without the loop",
            "Milliseconds. xpapply: the median of calls with a function that it has seen; first: "
            "the first call with a new function, planning included. Of functions that take more "
            f"than {SLOW * 1e6:.0f} µs per slice the loop ran over a sample, and its time is "
            "scaled (~).",
        ]
        head = ["", LOOP, OURS, "times faster", "first call", HAND, "xpapply / by hand"]
        for group in dict.fromkeys(e["group"] for e in fast.values()):
            rows = [_row(n, e) for n, e in fast.items() if e["group"] == group]
            if rows:
                parts += [f"### {group}", pages.table(head, rows)]
    if slow:
        rows = [
            [
                n,
                e["group"],
                digits(1e6 * e[LOOP] / e["slices"]),
                f"{e['overhead']:.3f}",
                f"{e['overheads'][0]:.3f} to {e['overheads'][1]:.3f}",
                milli(e["planning"]),
                ("*" if data["expected"][n] else "") + e["why"],
            ]
            for n, e in slow.items()
        ]
        head = ["", "group", "µs per slice", "xpapply / NumPy", "range", "planning, ms", "why"]
        text = (
            "The loop as xpapply runs it against NumPy's own: the median of "
            f"{FALLBACK_REPEATS} ratios of calls one after the other, of about "
            f"{1e3 * FALLBACK_SECONDS:.0f} ms each. Planning is what `explain` takes for a "
            "new function. * was meant to run without the loop."
        )
        parts += ["## In the loop", text, pages.table(head, rows)]
    parts += _planning(fast)
    if data.get("small"):
        rows = [
            [n, digits(1e6 * e[OURS]), digits(1e6 * e[LOOP]), digits(e["ratio"])]
            for n, e in data["small"].items()
        ]
        text = f"{FEW} slices, microseconds per call, functions that xpapply has seen before."
        parts += ["## Few slices", text, pages.table(["", OURS, LOOP, "ratio"], rows)]
    shared = {n: e for n, e in data.get("workers", {}).items() if "ratio" in e}
    if shared:
        rows = [
            [n, *(digits(e[k]) for k in (LOOP, OURS, "ratio", "cpu"))] for n, e in shared.items()
        ]
        text = (
            "Functions that stay in the loop, in two processes: `options(workers=2)`. Seconds; CPU "
            "is what all processes take together, in times of the loop's."
        )
        head = ["", LOOP, OURS, "times as fast", "CPU"]
        parts += ["## In several processes", text, pages.table(head, rows)]
    if data.get("memory"):
        names = ("input", "output", OURS, HAND)
        rows = [
            [n, *(digits(e[k] / 2**20) if k in e else "" for k in names)]
            for n, e in data["memory"].items()
        ]
        text = "MiB that NumPy and Python allocate at the peak of a call, its output included."
        parts += ["## Memory", text, pages.table(["", *names], rows)]
    missing = {n: e["skipped"] for n, e in data["idioms"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)


def _row(name: str, e: dict[str, Any]) -> list[str]:
    hand = e.get(HAND)
    return [
        name + (f" (**wrong**: {e['wrong']})" if "wrong" in e else ""),
        ("~" if "sample" in e else "") + milli(e[LOOP]),
        milli(e[OURS]),
        digits(e[LOOP] / e[OURS]),
        milli(e["first"]),
        milli(hand),
        digits(e[OURS] / hand) if hand else "",
    ]


def _summary(results: dict[str, Any], fast: dict[str, Any], slow: dict[str, Any]) -> str:
    lines = [
        f"{len(fast)} of {len(results)} run without the loop "
        f"({100 * len(fast) / max(1, len(results)):.0f} %)."
    ]
    if fast:
        ratios = {n: e[LOOP] / e[OURS] for n, e in fast.items()}
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        lines.append(
            f"Those are {digits(geometric_mean(list(ratios.values())))} times as fast as the "
            f"loop (geometric mean; wanted: {MEAN:g}), {low} the least ({digits(ratios[low])}), "
            f"{high} the most ({digits(ratios[high])})."
        )
        under = sorted((r, n) for n, r in ratios.items() if r < LEAST)
        if under:
            found = ", ".join(f"{n} ({digits(r)})" for r, n in under)
            lines.append(f"Less than {LEAST:g} times as fast: {found}.")
        slower = [n for n, r in ratios.items() if r < 1]
        if slower:
            lines.append(f"Slower than the loop: {', '.join(slower)}.")
        firsts = {n: e[LOOP] / e["first"] for n, e in fast.items()}
        low = min(firsts, key=firsts.__getitem__)
        lines.append(
            f"The first call, planning included, is "
            f"{digits(geometric_mean(list(firsts.values())))} times as fast as the loop, "
            f"{low} the least ({digits(firsts[low])})."
        )
    hands = {n: e[OURS] / e[HAND] for n, e in fast.items() if HAND in e}
    if hands:
        high = max(hands, key=hands.__getitem__)
        lines.append(
            f"Against the expression by hand ({len(hands)} of them) xpapply takes "
            f"{digits(geometric_mean(list(hands.values())))} times as long (geometric mean), "
            f"{high} the most ({digits(hands[high])})."
        )
    if slow:
        overheads = {n: e["overhead"] for n, e in slow.items()}
        high = max(overheads, key=overheads.__getitem__)
        lines.append(
            f"In the loop xpapply takes {statistics.median(overheads.values()):.3f} times as "
            f"long as NumPy (median), {high} the most ({overheads[high]:.3f})."
        )
    said = [n for n, e in results.items() if e["explained"] != e["vectorized"]]
    if said:
        lines.append(f"`explain` says otherwise than what ran: {', '.join(said)}.")
    wrong = [n for n, e in results.items() if "wrong" in e]
    lines.append(f"**Wrong results: {', '.join(wrong)}.**" if wrong else "All results agree.")
    return "\n".join(f"- {line}" for line in lines)


def _groups(results: dict[str, Any]) -> str:
    """A row per group: how many run without the loop, and how fast those are."""
    rows = []
    for group in dict.fromkeys(e["group"] for e in results.values()):
        of_it = {n: e for n, e in results.items() if e["group"] == group}
        ratios = {n: e[LOOP] / e[OURS] for n, e in of_it.items() if e["vectorized"]}
        mean, least = "", ""
        if ratios:
            low = min(ratios, key=ratios.__getitem__)
            found, wanted = geometric_mean(list(ratios.values())), GROUPS.get(group, 0.0)
            mean = digits(found) + (f" (at least {wanted:g})" if wanted else "")
            mean = mean if found >= wanted else f"**{mean}**"
            least = f"{digits(ratios[low])} ({low})"
        rest = ", ".join(n for n, e in of_it.items() if not e["vectorized"])
        rows.append([group, f"{len(of_it)}", f"{len(ratios)}", mean, least, rest])
    head = ["", "functions", "without the loop", "times faster, geometric mean", "least"]
    return pages.table([*head, "in the loop"], rows)


def _planning(fast: dict[str, Any]) -> list[str]:
    if not fast:
        return []
    by_time = sorted(fast, key=lambda n: -fast[n]["planning"])
    middle = statistics.median(e["planning"] for e in fast.values())
    text = (
        f"The first call with a new function less a later one: {milli(middle)} ms in the "
        "median. The longest, milliseconds:"
    )
    rows = [[n, milli(fast[n]["planning"])] for n in by_time[:10]]
    return ["## Planning", text, pages.table(["", "planning"], rows)]
