"""What the suite `several` measured, as text: results/several.md."""

from __future__ import annotations

import math
import statistics
from typing import Any

from . import pages
from .pages import digits, milli

OURS, LOOP = "xpapply", "loop"
NUMBERS, TWO, AXES = "numbers", "two arrays", "slices with two axes"
WANTED = {NUMBERS: 40.0, TWO: 30.0, AXES: 20.0}
"""Times as fast as the loop, by the geometric mean."""


def render(data: dict[str, Any]) -> str:
    """The page."""
    results = {n: e for n, e in data["functions"].items() if "skipped" not in e}
    parts = [
        "# Several arrays, several axes",
        f"{len(results)} functions (`benchmarks/several.py`, `scalar_functions.py`) in one run: of "
        "numbers by `xpapply.vectorize`, of two arrays by it with a signature, of slices with two "
        "axes by `apply_along_axis` with a tuple. The loop of functions of numbers is "
        "`numpy.vectorize`, over a twentieth of them and scaled; that of the others a list "
        "comprehension that `numpy.stack` makes an array.",
        pages.machine_table(data),
        "## In short",
    ]
    groups = {g: {n: e for n, e in results.items() if e["group"] == g} for g in WANTED}
    parts.append("\n".join(_short(g, found) for g, found in groups.items() if found))
    wrong = [n for n, e in results.items() if "wrong" in e]
    parts.append(f"**Wrong results: {', '.join(wrong)}.**" if wrong else "All results agree.")
    head = ["", "loop, ms", "xpapply, ms", "times faster", "first call, ms", "how"]
    for group, found in groups.items():
        if found:
            slices = data["settings"]["slices"][group]
            text = (
                f"{slices:,} slices; in bold what is slower than wanted ({WANTED[group]:g} times)."
            )
            rows = [_row(n, e, WANTED[group]) for n, e in found.items()]
            parts += [f"## {group.capitalize()}", text, pages.table(head, rows, full=False)]
    missing = {n: e["skipped"] for n, e in data["functions"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)


def _short(group: str, found: dict[str, Any]) -> str:
    ratios = {n: e[LOOP] / e[OURS] for n, e in found.items()}
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    reached = sum(r >= WANTED[group] for r in ratios.values())
    return (
        f"- {group.capitalize()}: {reached} of {len(ratios)} are at least {WANTED[group]:g} times "
        f"as fast as the loop; the geometric mean is {digits(mean)}, {low} the least "
        f"({digits(ratios[low])}), {high} the most ({digits(ratios[high])})."
    )


def _row(name: str, e: dict[str, Any], wanted: float) -> list[str]:
    ratio = e[LOOP] / e[OURS]
    text = digits(ratio) if ratio >= wanted else f"**{digits(ratio)}**"
    name += f" (**wrong**: {e['wrong']})" if "wrong" in e else ""
    how = e.get("how", "").replace("|", "\\|")
    return [name, milli(e[LOOP]), milli(e[OURS]), text, milli(e["first"]), how]
