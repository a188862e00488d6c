"""What the suite `never_slower` measured, as text: results/never_slower.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import pages
from .pages import digits, milli

THEIRS, OURS, FIRST, LATER = "loop", "xpapply", "first", "later"
BESIDE = "loop beside the first"
"""The loop right after our first call: machines change their speed within a measurement."""
LOOPS = {"1 ms": 1e-3, "20 ms": 20e-3, "200 ms": 200e-3}
"""Seconds of NumPy's loop."""
SINGLE = {"1 slice": 1, "10 slices": 10, "100 slices": 100}
SIZES = (*SINGLE, *LOOPS)

SHARE, MORE = 1.05, 5e-6
"""Of the loop, and seconds besides: calls 2 to n."""
FIRST_SHARE, FIRST_MORE = 1.3, 20e-3
NUMBER = 3e-6
"""Seconds more than the loop: a call of vectorize with one number."""
WORST = 10


def bounds(e: Mapping[str, Any]) -> dict[str, float]:
    """Seconds that calls may take, by kind."""
    later = SHARE * e[THEIRS] + MORE
    if e.get("numbers"):
        later = min(later, e[THEIRS] + NUMBER)
    first = max(e[THEIRS], e.get(BESIDE, 0.0))
    return {LATER: later, FIRST: FIRST_SHARE * first + FIRST_MORE}


def over(e: Mapping[str, Any]) -> dict[str, float]:
    """How many times its bound an entry takes, by kind."""
    limit = bounds(e)
    return {LATER: e[OURS] / limit[LATER], FIRST: e[FIRST] / limit[FIRST]}


def above(e: Mapping[str, Any]) -> list[str]:
    """The bounds that an entry is above, as it was measured once."""
    return [LATER, FIRST] if "skipped" in e else [k for k, times in over(e).items() if times > 1]


Found = tuple[float, str, str, Mapping[str, Any]]
"""Times the bound, function, size, entry."""


def ranked(rows: Mapping[str, Any], kind: str) -> list[Found]:
    """All entries, the worst first; those that ended nowhere before them."""
    found = [
        (float("inf") if "skipped" in e else over(e)[kind], name, size, e)
        for name, row in rows.items()
        for size, e in row.get("sizes", {}).items()
    ]
    return sorted(found, key=lambda entry: (-entry[0], entry[1]))


def counted(rows: Mapping[str, Any], kind: str) -> list[Found]:
    """Those that were above in both runs."""
    return [entry for entry in ranked(rows, kind) if kind in entry[3].get("above", ())]


def functions_above(rows: Mapping[str, Any], kinds: Iterable[str] = (LATER, FIRST)) -> list[str]:
    """Names of functions that are above any of some bounds at any size."""
    return list(dict.fromkeys(entry[1] for kind in kinds for entry in counted(rows, kind)))


def measured(rows: Mapping[str, Any]) -> dict[str, Any]:
    """By groups, without those for which no time was left, or which failed."""
    found = {name: row for name, row in rows.items() if "skipped" not in row}
    groups = list(dict.fromkeys(row["group"] for row in rows.values()))
    return dict(sorted(found.items(), key=lambda item: groups.index(item[1]["group"])))


def render(data: dict[str, Any]) -> str:
    """The page."""
    rows = measured(data["rows"])
    settings = data["settings"]
    groups: dict[str, int] = {}
    for row in rows.values():
        groups[row["group"]] = groups.get(row["group"], 0) + 1
    many = ", ".join(f"{n} of {group}" for group, n in groups.items())
    parts = [
        "# No function dearer than the loop",
        f"`benchmarks/never_slower.py`: {len(rows)} functions ({many}; the random ones with seed "
        f"{settings['seed']}). For each as many slices as NumPy's loop takes 1, 20 and 200 ms for, "
        "and calls of 1, 10 and 100 slices; a process of its own for each size, which has run "
        "other functions before; in turns with NumPy, the median of "
        f"{settings['repeats']} (of three where it is far below the loop). Time is the CPU time of "
        "the process, threads that compile included.",
        f"- Calls 2 to n take at most {SHARE} of the loop and {digits(MORE * 1e6)} us; a call of "
        f"vectorize with one number at most {digits(NUMBER * 1e6)} us more than the loop.\n"
        f"- The first call takes at most {FIRST_SHARE} of the loop and {milli(FIRST_MORE)} ms (of "
        "the loop right after it, if that takes longer than the median: machines change their "
        "speed).",
        "What is above a bound is measured again in a new process, in three times as many turns, "
        "and counts if it is above it there too. Of both the lower one is given. Where the loop's "
        "own calls of BLAS leave threads that wait for more (they take up to a core for some "
        "milliseconds, in whose call is chance), BLAS has one thread there.",
        pages.machine_table(data),
        summary(rows),
        worst(rows, LATER, "Calls 2 to n"),
        worst(rows, FIRST, "First calls"),
        reasons(rows),
        everything(rows),
        _skipped(data["rows"]),
    ]
    return pages.page(parts)


def summary(rows: Mapping[str, Any]) -> str:
    """How many are above, by size."""
    lines = []
    for kind, text in ((LATER, "calls 2 to n"), (FIRST, "first call")):
        found = counted(rows, kind)
        counts = [str(sum(entry[2] == size for entry in found)) for size in SIZES]
        lines.append([text, *counts, str(len({entry[1] for entry in found}))])
    head = ["functions above the bound", *SIZES, "at any size"]
    both = len(functions_above(rows))
    return (
        f"## Above the bound\n\n{both} of {len(rows)} functions are above a bound at any size.\n\n"
        + pages.table(head, lines)
    )


def worst(rows: Mapping[str, Any], kind: str, title: str) -> str:
    """The ten that are nearest to the bound or farthest above it."""
    lines = []
    for times, name, size, e in ranked(rows, kind)[:WORST]:
        if "skipped" in e:
            lines.append([name, size, "", "", "", e["skipped"]])
            continue
        ours = e[OURS] if kind == LATER else e[FIRST]
        shown = digits(times) if kind not in e.get("above", ()) else f"**{digits(times)}**"
        lines.append([name, size, milli(e[THEIRS]), milli(ours), digits(ours / e[THEIRS]), shown])
    head = ["", "size", "loop, ms", "xpapply, ms", "of the loop", "of the bound"]
    return f"## {title}: the worst ten\n\n{pages.table(head, lines)}"


def reasons(rows: Mapping[str, Any]) -> str:
    """Every function that is above a bound, and what explain says of it."""
    lines = []
    for name in functions_above(rows):
        sizes = rows[name]["sizes"]
        found = {size: e for size, e in sizes.items() if e.get("above")}
        e = next(iter(found.values()))
        where = "; ".join(f"{size} ({', '.join(e['above'])})" for size, e in found.items())
        lines.append([name, where, str(e.get("engine", "")), str(e.get("why", ""))])
    if not lines:
        return ""
    head = ["above the bound", "where", "engine", "why the loop"]
    return f"## All of them\n\n{pages.table(head, lines).replace('---:', '---')}"


def everything(rows: Mapping[str, Any]) -> str:
    """Times the loop, of every function."""
    parts = ["## Every function"]
    for kind, key, text in (
        (LATER, OURS, "Calls 2 to n, of NumPy's loop"),
        (FIRST, FIRST, "First calls in milliseconds beyond NumPy's loop"),
    ):
        lines = []
        for name, row in rows.items():
            cells = [_cell(row["sizes"].get(size), kind, key) for size in SIZES]
            lines.append([name, *cells])
        parts.append(f"{text}; above the bound in bold.\n\n{pages.table(['', *SIZES], lines)}")
    return pages.page(parts)


def _cell(e: Mapping[str, Any] | None, kind: str, key: str) -> str:
    if e is None:
        return ""
    if "skipped" in e:
        return "**-**"
    text = digits(e[key] / e[THEIRS], 2) if kind == LATER else f"{1e3 * (e[key] - e[THEIRS]):.1f}"
    return f"**{text}**" if kind in e.get("above", ()) else text


def _skipped(rows: Mapping[str, Any]) -> str:
    why: dict[str, list[str]] = {}
    for name, row in rows.items():
        if "skipped" in row:
            why.setdefault(row["skipped"], []).append(name)
    lines = [f"- not measured, {text}: {', '.join(names)}" for text, names in why.items()]
    lines += [
        f"- {name}, {size}: {e['wrong']}"
        for name, row in rows.items()
        for size, e in row.get("sizes", {}).items()
        if "wrong" in e
    ]
    return "## Remarks\n\n" + "\n".join(lines) if lines else ""
