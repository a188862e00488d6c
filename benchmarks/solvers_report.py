"""What the suite `solvers` measured, as text: results/solvers.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .functions_report import geometric_mean
from .loops_report import FIRST, VERY_FIRST, allowed, bold, firsts
from .pages import digits

LOOP, OURS = "SciPy in NumPy's loop", "xpapply"
WALL, CPU = "wall", "CPU"
NEAR = 1e-9
"""How far values may be from SciPy's, relatively, to be called the same."""
WANTED = 60.0
"""Times as fast as the loop."""


def measured(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What there are figures of."""
    return {n: e for n, e in data["functions"].items() if "skipped" not in e}


def gains(data: dict[str, Any], clock: str = WALL) -> dict[str, float]:
    """Times as fast as the loop."""
    return {n: e[LOOP][clock] / e[OURS][clock] for n, e in measured(data).items()}


def reached(data: dict[str, Any]) -> tuple[int, int]:
    """How many of how many are as fast as is wanted."""
    return sum(x >= WANTED for x in gains(data).values()), len(data["functions"])


def render(data: dict[str, Any]) -> str:
    """The page."""
    found, first = measured(data), {n: e for n, e in data["first"].items() if "skipped" not in e}
    loads = [e["load"] for e in found.values() if e.get("load") is not None]
    parts = [
        "# Solvers",
        f"{len(data['functions'])} problems that are solved for each slice "
        "(`benchmarks/solver_rows.py`, written before the first of them was timed) in one run of "
        "`benchmarks/solvers.py`: SciPy in NumPy's loop (`apply_along_axis`, `vectorize`), and "
        f"xpapply with the same function on the same slices, in one process, on "
        f"{data['settings']['cores']} cores. The machine was shared: its load was "
        f"{min(loads, default=0):.2f} to {max(loads, default=0):.2f} after the problems, of which "
        "the run itself makes 1 to 2.",
        pages.machine_table(data),
        "## In short",
        summary(data, found, first),
        "## Rates",
        "Of later calls, the median of turns. Microseconds of a slice by the clock of the wall and "
        "by the time of the process on all cores; slices a second by the wall. Bold: less than "
        f"{WANTED:g} times as fast as the loop.",
    ]
    head = ["", "slices", f"{LOOP}, us", "CPU us", f"{OURS}, us", "CPU us", "slices a second"]
    head += ["times as fast", "by CPU time"]
    for group in dict.fromkeys(e["group"] for e in found.values()):
        rows = [rated(n, e) for n, e in found.items() if e["group"] == group]
        parts += [f"### {group}", pages.table(head, rows)]
    parts += [
        "## Beside SciPy's results",
        f"Values that are farther than {NEAR:g} from SciPy's, relatively; the farthest of all; "
        "slices that end in another way: other values are NaN, or another status or number of "
        "calls; slices that are left to SciPy. Last, the same of SciPy beside SciPy, where each "
        "number of the data is replaced by the next float: what rounding alone decides.",
    ]
    head = ["", "values", "off", "farthest", "other ends", "left to SciPy"]
    head += ["SciPy itself: off", "farthest", "other ends"]
    parts.append(pages.table(head, [parity(n, e) for n, e in found.items()]))
    remarks = [f"- {n}: {e['why']}" for n, e in found.items() if "why" in e]
    remarks += [
        f"- {n}: not measured: {e['skipped']}"
        for n, e in data["functions"].items()
        if "skipped" in e
    ]
    if remarks:
        parts += ["## Not compiled, or not measured", "\n".join(remarks)]
    if first:
        head = ["", "loop", FIRST, "allowed", "loop", VERY_FIRST, "allowed", "compiling"]
        head += ["instructions"]
        text = (
            "CPU milliseconds of a process: the first call of a function after another one was "
            "compiled, and as the first of all, where libraries are loaded too; what may be spent; "
            "reading and compiling alone. Bold: more than allowed."
        )
        rows = [firsts(n, e, {})[:-1] for n, e in first.items()]
        parts += ["## First calls", text, pages.table(head, rows)]
    parts += ["## Problems", "\n".join(f"- {n}: {e['says']}." for n, e in found.items())]
    return pages.page(parts)


def short(data: dict[str, Any]) -> str:
    """What a page of the documentation shows: the problems, and how fast each is."""
    head = ["", f"{LOOP}, us a slice", "xpapply, us", "times as fast", "slices a second"]
    rows = []
    for e in measured(data).values():
        loop, ours = (e[way][WALL] / e["slices"] for way in (LOOP, OURS))
        times = [digits(1e6 * loop), digits(1e6 * ours), digits(loop / ours, 2)]
        rows.append([e["says"], *times, f"{1 / ours:,.0f}"])
    return pages.table(head, rows)


def rated(name: str, e: dict[str, Any]) -> list[str]:
    """A row of rates."""
    times = [1e6 * e[way][clock] / e["slices"] for way in (LOOP, OURS) for clock in (WALL, CPU)]
    faster = [e[LOOP][clock] / e[OURS][clock] for clock in (WALL, CPU)]
    return [
        name,
        f"{e['slices']:,}",
        *map(digits, times),
        f"{e['slices'] / e[OURS][WALL]:,.0f}",
        bold(digits(faster[0]), faster[0] < WANTED),
        digits(faster[1]),
    ]


def parity(name: str, e: dict[str, Any]) -> list[str]:
    """A row of what is not as SciPy has it."""
    own = e["itself"]
    return [
        name, f"{e['values']:,}", f"{e['off']:,}", f"{e['worst']:.1e}", f"{e['other']:,}",
        f"{e['left']:,}" if "left" in e else "all",
        f"{own['off']:,}", f"{own['worst']:.1e}", f"{own['other']:,}",
    ]  # fmt: skip


def summary(data: dict[str, Any], found: dict[str, Any], first: dict[str, Any]) -> str:
    """The sentences that stand first."""
    if not found:
        return "- Nothing has been measured yet."
    faster, (many, of) = gains(data), reached(data)
    below = [f"{n} ({digits(x)})" for n, x in faster.items() if x < WANTED]
    lines = [
        f"{many} of {of} are at least {WANTED:g} times as fast as SciPy in the loop"
        f"{'; less: ' + ', '.join(below) if below else ''}.",
        f"{digits(geometric_mean(list(faster.values())))} times as fast in the geometric mean by "
        f"the wall, {digits(geometric_mean(list(gains(data, CPU).values())))} by CPU time; "
        f"{digits(min(faster.values()))} to {digits(max(faster.values()))} by the wall.",
        f"{sum(e['off'] for e in found.values()):,} of {sum(e['values'] for e in found.values()):,}"
        f" values are farther than {NEAR:g} from SciPy's, in "
        f"{', '.join(n for n, e in found.items() if e['off']) or 'none'}; of SciPy beside itself, "
        f"of data one bit away, {sum(e['itself']['off'] for e in found.values()):,}.",
        f"{sum(e['other'] for e in found.values()):,} of "
        f"{sum(e['slices'] for e in found.values()):,} slices end in another way, "
        f"{sum(e.get('left', e['slices']) for e in found.values()):,} are left to SciPy.",
    ]
    for kind in (FIRST, VERY_FIRST):
        rows = {n: e[kind] for n, e in first.items() if kind in e}
        over = [n for n, (loop, took) in rows.items() if took > allowed(loop, kind)]
        shares = {n: took / loop for n, (loop, took) in rows.items()}
        if shares:
            worst = max(shares, key=lambda n: shares[n])
            lines.append(
                f"{kind[0].upper()}{kind[1:]}: {len(rows) - len(over)} of {len(rows)} within what "
                f"may be spent; {digits(geometric_mean(list(shares.values())))} of the loop's time "
                f"in the geometric mean, {digits(shares[worst])} at most ({worst})."
            )
    return "\n".join(f"- {text}" for text in lines)
