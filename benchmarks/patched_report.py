"""What the suite `patched` measured, as text: results/patched.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits

ORIGINAL, PATCHED = "original", "patched"
WANTED = 5e-6


def render(data: dict[str, Any]) -> str:
    """The page."""
    settings = data["settings"]
    found = {n: e for n, e in data["cases"].items() if "skipped" not in e}
    parts = [
        "# Calls that fall back while NumPy is patched",
        "`benchmarks/patched.py`: calls of a function that does nothing, by NumPy's own "
        "`apply_along_axis` and `vectorize`, and by what stands in their places under "
        "`xpapply.patch()`, which hands them on as they have too few slices. Microseconds of a "
        f"call; both by turns, {settings['turns']:,} of {settings['group']} calls each: the "
        "shortest turns, and the median of the differences of turns beside each other, of which "
        f"at most {digits(WANTED * 1e6)} is wanted.",
        pages.machine_table(data),
    ]
    rows = [
        [
            name,
            digits(e[ORIGINAL] * 1e6),
            digits(e[PATCHED] * 1e6),
            digits(e["cost"] * 1e6) if e["cost"] <= WANTED else f"**{digits(e['cost'] * 1e6)}**",
        ]
        for name, e in found.items()
    ]
    parts.append(pages.table(["", ORIGINAL, PATCHED, "cost"], rows, full=False))
    doors = {n: e for n, e in data.get("doors", {}).items() if "skipped" not in e}
    if doors:
        parts += [
            "## xarray's own ways",
            f"`benchmarks/patched_doors.py`: {settings['places'] ** 2:,} series of 24 numbers (a "
            "part of them where the loop takes long), by xarray alone, and by the same call under "
            "`xpapply.patch()`. CPU milliseconds, medians; the first call plans and compiles.",
            pages.table(
                ["", "xarray's loop", "first call", "further calls", "times as fast"],
                [
                    [n, *(digits(e[k] * 1e3) for k in (ORIGINAL, "first", PATCHED)), factor(e)]
                    for n, e in doors.items()
                ],
                full=False,
            ),
        ]
    tables = data.get("tables", {})
    if tables:
        parts += [
            "## pandas' own ways",
            "`benchmarks/patched_tables.py`: tables of random numbers by pandas alone, and by the "
            "same call under `xpapply.patch()`. CPU milliseconds, medians; the first call plans, "
            "and compiles what smaller tables have not. pandas' loop is timed for up to "
            f"{settings['most']:,} rows, and extrapolated for more. Where a number of rows "
            "stands beside the name, it is that.",
        ]
    for rows, entries in tables.items():
        done = {n: e for n, e in entries.items() if "skipped" not in e}
        parts += [
            f"### {int(rows):,} rows",
            pages.table(
                ["", "pandas' loop", "first call", "further calls", "times as fast", "ran by"],
                [
                    [
                        n,
                        *(digits(e[k] * 1e3) for k in (ORIGINAL, "first", PATCHED)),
                        factor(e),
                        ", ".join(e["engines"]),
                    ]
                    for n, e in done.items()
                ],
                full=False,
            ),
        ]
    return pages.page(parts)


def factor(entry: dict[str, Any]) -> str:
    """How many times as fast a further call is."""
    return digits(entry[ORIGINAL] / entry[PATCHED])
