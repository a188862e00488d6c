"""What the suite `methods` measured, as text: results/methods.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .functions_report import geometric_mean
from .loops_report import bold
from .pages import digits

LOOP, OURS, PEER = "NumPy's loop", "xpapply", "its package"
FIRST = "first call"
WALL, CPU = "wall", "CPU"
NEAR = 1e-9
"""How far a value may be from the loop's, relatively, to be called the same."""
WANTED = 50.0
"""Times as fast as the loop, where no package stands beside it."""


def measured(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What there are figures of."""
    return {n: e for n, e in data["methods"].items() if "skipped" not in e}


def gain(e: dict[str, Any], to: str = LOOP, clock: str = WALL) -> float:
    """Times as fast as another way."""
    return float(e[to][clock] / e[OURS][clock])


def held(e: dict[str, Any]) -> bool:
    """Whether a method is faster than its package, or else fast enough beside the loop."""
    return gain(e, PEER) > 1.0 if PEER in e else gain(e) >= WANTED


def render(data: dict[str, Any]) -> str:
    """The page."""
    found, settings = measured(data), data["settings"]
    loads = [e["load"] for e in found.values() if e.get("load") is not None]
    packages = {n: v or "not installed" for n, v in settings["packages"].items() if n}
    parts = [
        "# Methods",
        f"{len(data['methods'])} methods of fields (`benchmarks/method_*.py`, whose list, sizes "
        "and packages were written down before the first of them was timed), each a function of "
        "one pixel, spectrum, series or number as a textbook writes it, in one run of "
        "`benchmarks/methods.py`: NumPy's loop (`apply_along_axis`, `vectorize`) over some slices, "
        "xpapply with the same function over all of them, on "
        f"{settings['cores']} cores, and the package of the field, if there is one, with what "
        "threads it takes. The machine was shared: its load was "
        f"{min(loads, default=0):.2f} to {max(loads, default=0):.2f} after the methods, of which "
        "the run itself makes 1 to 2.",
        pages.machine_table(data),
        pages.table(["package", "version"], [[n, v] for n, v in packages.items()]),
        "## In short",
        summary(data, found),
        "## Rates",
        "Of later calls, the median of turns: microseconds of a slice by the clock of the wall, "
        "and by the time of the process on all cores. The first call of all slices, in which a "
        "method is read and compiled, in seconds. Bold: slower than the package, or, where there "
        f"is none, less than {WANTED:g} times as fast as the loop.",
    ]
    head = ["", "slices", f"{LOOP}, us", f"{OURS}, us", "CPU us", "all slices, s", FIRST]
    head += ["times the loop", "by CPU time", "package", "us", "CPU us", "times it", "by CPU time"]
    for group in dict.fromkeys(e["group"] for e in found.values()):
        rows = [rated(n, e) for n, e in found.items() if e["group"] == group]
        parts += [f"### {group}", pages.table(head, rows)]
    parts += [
        "## Results",
        "How many slices the loop had, and whether ours have its bits, or else how many values "
        f"are farther than {NEAR:g} from its, relatively. How many the package had, and how many "
        "of its values are farther from ours than it may be off; the farthest of all. (Of states "
        "their likelihood is compared, of volatilities the price. Losses, which are to be small, "
        "count where ours are greater.) Slices that the function itself runs for.",
    ]
    head = ["", "slices of the loop", "its bits", "slices of the package", "values", "may be off"]
    head += ["farther", "the farthest", "left to the function"]
    parts.append(pages.table(head, [results(n, e) for n, e in found.items()]))
    remarks = [f"- {n}: {e[k]}" for n, e in found.items() for k in ("why", "wrong") if k in e]
    remarks += [
        f"- {n}: beside {e['package']}: {e['missing']}" for n, e in found.items() if "missing" in e
    ]
    remarks += [
        f"- {n}: not measured: {e['skipped']}" for n, e in data["methods"].items() if "skipped" in e
    ]
    if remarks:
        parts += ["## In the loop, or not measured", "\n".join(remarks)]
    text = [f"- {n}: {e['says']} ({e['source']})." for n, e in found.items()]
    return pages.page([*parts, "## What they compute", "\n".join(text)])


def short(data: dict[str, Any]) -> str:
    """What a page of the documentation shows: the methods, and how fast each is."""
    head = ["", "slices", "all of them, s", "times the loop", "package", "times the package"]
    return pages.table(head, [shortened(e) for e in measured(data).values()])


def shortened(e: dict[str, Any]) -> list[str]:
    """A row of it."""
    beside = [e["package"], digits(gain(e, PEER), 2)] if PEER in e else ["", ""]
    seconds = digits(e[OURS][WALL] * e["slices"], 2)
    return [e["says"], f"{e['slices']:,}", seconds, digits(gain(e), 2), *beside]


def said(data: dict[str, Any], name: str) -> str:
    """What was measured of a method, as a sentence; nothing if it was not."""
    e = measured(data).get(name)
    if e is None:
        return ""
    us = {way: digits(1e6 * e[way][WALL]) for way in WAYS if way in e}
    text = f"{e['slices']:,} of them take {digits(e[OURS][WALL] * e['slices'], 2)} s"
    text += f", the first time {digits(e[FIRST][WALL], 2)} s: {us[OURS]} us each. The loop takes "
    text += f"{us[LOOP]} us, {digits(gain(e), 2)} times as long"
    if PEER in e:
        text += f", {e['package']} {us[PEER]} us, {digits(gain(e, PEER), 2)} times as long"
    return f"{text}."


def rated(name: str, e: dict[str, Any]) -> list[str]:
    """A row of rates."""
    us = {way: [digits(1e6 * e[way][clock]) for clock in (WALL, CPU)] for way in e if way in WAYS}
    faster = digits(gain(e))
    row = [name, f"{e['slices']:,}", us[LOOP][0], *us[OURS], digits(e[OURS][WALL] * e["slices"], 2)]
    row += [digits(e[FIRST][WALL], 2), faster if PEER in e else bold(faster, not held(e))]
    row.append(digits(gain(e, LOOP, CPU)))
    if PEER not in e:
        return [*row, *([e["package"]] if "missing" in e else [""]), *[""] * 4]
    beside = [digits(gain(e, PEER, clock)) for clock in (WALL, CPU)]
    return [*row, e["package"], *us[PEER], bold(beside[0], not held(e)), beside[1]]


WAYS = (LOOP, OURS, PEER)


def results(name: str, e: dict[str, Any]) -> list[str]:
    """A row of how results compare."""
    of_loop = "yes" if e["bits"] else e.get("wrong", "")
    if "off" in e:
        of_loop = f"{e['off']:,} of {e['of']:,} are not, by up to {e['farthest of the loop']:.1e}"
    row = [name, f"{e['sample']:,}", of_loop]
    if "far" in e:
        row += [f"{e['part']:,}", f"{e['values']:,}", f"{e['near']:g}"]
        row += [f"{e['far']:,}", f"{e['farthest']:.1e}"]
    else:
        row += [""] * 5
    return [*row, f"{e['left']:,}" if "left" in e else "all" if "why" in e else ""]


def summary(data: dict[str, Any], found: dict[str, Any]) -> str:
    """The sentences that stand first."""
    if not found:
        return "- Nothing has been measured yet."
    beside = {n: gain(e, PEER) for n, e in found.items() if PEER in e}
    alone = {n: gain(e) for n, e in found.items() if PEER not in e}
    slower = [f"{n} ({digits(x, 2)})" for n, x in beside.items() if x <= 1.0]
    below = [f"{n} ({digits(x)})" for n, x in alone.items() if x < WANTED]
    lines = [
        f"{len(beside) - len(slower)} of {len(beside)} are faster than the package beside them"
        f"{'; not: ' + ', '.join(slower) if slower else ''}"
        + (f"; {mean(beside)} times in the geometric mean." if beside else "."),
        f"{len(alone) - len(below)} of {len(alone)} without a package are at least {WANTED:g} "
        f"times as fast as the loop{'; less: ' + ', '.join(below) if below else ''}.",
        f"{mean({n: gain(e) for n, e in found.items()})} times as fast as the loop in the "
        f"geometric mean of all by the wall, "
        f"{mean({n: gain(e, LOOP, CPU) for n, e in found.items()})} by CPU time.",
        f"{sum(e['bits'] for e in found.values())} of {len(found)} have the bits of the loop; "
        f"{sum(e.get('far', 0) for e in found.values()):,} of "
        f"{sum(e.get('values', 0) for e in found.values()):,} values are farther from a package's "
        "than these may be off.",
    ]
    return "\n".join(f"- {text}" for text in lines)


def mean(values: dict[str, float]) -> str:
    """Their geometric mean."""
    return digits(geometric_mean(list(values.values())))
