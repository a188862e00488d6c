"""What the suite `pairs` measured, as text: results/pairs.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from . import pages
from .pages import digits, percent, times

OURS, OURS_TORCH = "xpapply", "xpapply, torch tensors"
HAND, TORCH = "CuPy by hand", "torch by hand"
COMPILE, JAX = "torch.compile", "JAX, jit"
OTHERS = (HAND, TORCH, COMPILE, JAX)
OF_COPY = 0.8
"""Wanted: the share of the rate of a copy."""


def key(function: str, shape: Sequence[int], dtype: str, one: bool) -> str:
    name = f"{function} ({', '.join(f'{n:,}' for n in shape)})"
    name += " and one slice" if one else ""
    return name if dtype == "float32" else f"{name} {dtype}"


def render(data: dict[str, Any]) -> str:
    """The page."""
    found = pages.Results(data, {name: case["ways"] for name, case in data["cases"].items()})
    shares = {
        name: sum(case["bytes"]) / data["limits"]["copy"] / seconds
        for name, case in data["cases"].items()
        if (seconds := found.number(name, OURS)) and "bytes" in case
    }
    return pages.page(
        [
            "# Two arrays on a GPU",
            "Functions of one slice of each of two arrays, by `xpapply.vectorize` with a signature "
            "(`benchmarks/pairs.py`), beside the expression of whole arrays that one would write "
            "by hand, in CuPy and torch, and what torch and JAX compile of it. The floor is the "
            "time that a copy of as many bytes takes, measured in the same run.",
            pages.machine_table(data),
            "## In short",
            _short(found, shares),
            "## Time",
            _times(found, shares),
            _host(data),
            found.skipped("everywhere"),
        ]
    )


def _short(found: pages.Results, shares: dict[str, float]) -> str:
    reached = sum(share >= OF_COPY for share in shares.values())
    lines = []
    if shares:
        low = min(shares, key=shares.__getitem__)
        lines.append(
            f"- {reached} of {len(shares)} read and write at {percent(OF_COPY)} of the rate of a "
            f"copy or more; {low} the least ({percent(shares[low])})."
        )
    for other in OTHERS:
        ratios = [r for name in shares if (r := found.ratio(name, other, OURS))]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            lines.append(
                f"- {digits(mean)} times as fast as {other} by the geometric mean of "
                f"{len(ratios)}, from {digits(min(ratios))} to {digits(max(ratios))}."
            )
    return "\n".join(lines)


def _times(found: pages.Results, shares: dict[str, float]) -> str:
    rows = []
    for name, share in shares.items():
        text = percent(share) if share >= OF_COPY else f"**{percent(share)}**"
        row = [name, found.ms(name, OURS), text, found.error(name, OURS)]
        rows.append([*row, *(times(found.ratio(name, p, OURS)) for p in (OURS_TORCH, *OTHERS))])
    head = ["", "xpapply, ms", "of a copy's rate", "error", OURS_TORCH, *OTHERS]
    text = (
        "The error is relative to float64, in the Euclidean norm. Other columns: how many times "
        f"as long as xpapply. In bold what is below {percent(OF_COPY)}."
    )
    return f"{text}\n\n{pages.table(head, rows, full=False)}"


def _host(data: dict[str, Any]) -> str:
    names = (OURS, OURS_TORCH, HAND, TORCH)
    rows = [
        [function, *(digits(entry.get(n, {}).get("median")) for n in names)]
        for function, entry in data.get("host", {}).items()
    ]
    if not rows:
        return ""
    text = "Microseconds of the host for a call on arrays of shape (100, 8), made before:"
    return f"## Small arrays\n\n{text}\n\n{pages.table(['', *names], rows)}"
