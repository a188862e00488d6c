"""What the suite `loops` measured, as text: results/loops.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .functions_report import geometric_mean
from .pages import digits, milli

LOOP = "NumPy's loop"
OURS, OURS_ALL = "xpapply, one thread", "xpapply, all threads"
NUMBA, NUMBA_ALL = "numba, one thread", "numba, all threads"
NUMBAS = {OURS: NUMBA, OURS_ALL: NUMBA_ALL}
"""Ours, and what each stands beside."""
FIRST, VERY_FIRST = "first call", "first call of a process"

# --- what is wanted

LEAST = 50.0
"""Times as fast as the loop."""
OF_NUMBA = 0.9
"""Of numba's rate, at least."""
MARKED = 1e-3
"""Slices left to the function, at most."""
COMPILING = 0.12
"""CPU seconds of compiling."""
SHARE, MORE, VERY_MORE = 1.3, 20e-3, 40e-3
"""Of the loop's time, and CPU seconds besides, for a first call; more for a process's."""


def allowed(loop: float, kind: str) -> float:
    """CPU seconds that a first call may take."""
    return SHARE * loop + MORE + (VERY_MORE if kind == VERY_FIRST else 0.0)


def render(data: dict[str, Any]) -> str:
    """The page."""
    found = {n: e for n, e in data["functions"].items() if "skipped" not in e}
    first = {n: e for n, e in data["first"].items() if "skipped" not in e}
    head = ["", "slices", *(f"{x}, ms" for x in (LOOP, OURS, NUMBA, OURS_ALL, NUMBA_ALL))]
    head += ["times as fast as the loop", "beside numba, one thread", "all threads", "marked"]
    parts = [
        "# Loops",
        f"{len(data['functions'])} functions with loops over elements (`benchmarks/loop_*.py`) in "
        "one run of `benchmarks/loops.py`: NumPy's loop (`apply_along_axis`, `vectorize`), xpapply "
        "with the same function, and numba, which compiles the function and a loop over the rows "
        f"around it. All threads are {data['settings']['cores']}.",
        pages.machine_table(data),
        "## In short",
        summary(found, first),
        "## Rates",
        "Milliseconds of a call, after a second of calls: the median of turns with numba; of "
        "NumPy's loop the least of two calls. What is more than 1 beside numba is faster than it. "
        "Marked: slices that the "
        "function itself runs for, in per cent.",
    ]
    for group in dict.fromkeys(e["group"] for e in found.values()):
        rows = [rated(n, e) for n, e in found.items() if e["group"] == group]
        parts += [f"### {group}", pages.table(head, rows)]
    remarks = [f"- {n}: {e['why']}" for n, e in found.items() if "why" in e]
    remarks += [f"- {n}: {e['wrong']}" for n, e in found.items() if "wrong" in e]
    remarks += [f"- {n}: not measured: {e['skipped']}" for n, e in data["functions"].items()
                if "skipped" in e]  # fmt: skip
    if remarks:
        parts += ["## Not compiled, or not measured", "\n".join(remarks)]
    told = [f"- {n}: {e['numba differs']}" for n, e in found.items() if "numba differs" in e]
    told += [f"- {n}: it does not compile: {e['numba']}" for n, e in found.items() if "numba" in e]
    if told:
        text = "Results of numba that are not those of the loop, bit for bit:"
        parts += ["## numba", text, "\n".join(told)]
    if first:
        head = ["", "loop", FIRST, "allowed", "loop", VERY_FIRST, "allowed", "compiling"]
        head += ["instructions", "numba"]
        text = (
            "CPU milliseconds of a process: the first call of a function after another one was "
            "compiled, and as the first of all, where libraries are loaded too; what may be spent; "
            "reading and compiling alone; the first call of numba, which is loaded and has "
            "compiled another function. Bold: more than allowed."
        )
        rows = [firsts(n, e, found.get(n, {})) for n, e in first.items()]
        parts += ["## First calls", text, pages.table(head, rows)]
    return pages.page(parts)


def rated(name: str, e: dict[str, Any]) -> list[str]:
    """A row of rates."""
    ways = (LOOP, OURS, NUMBA, OURS_ALL, NUMBA_ALL)
    beside = [e.get(f"{a} / {b}") for a, b in NUMBAS.items()]
    faster = e[LOOP] / e[OURS_ALL]
    marked = "" if "marked" not in e else f"{100 * e['marked']:.2g}"
    return [
        name,
        f"{e['slices']:,}",
        *(milli(e.get(way)) for way in ways),
        bold(digits(faster, 3), faster < LEAST),
        *(bold(digits(x), x < OF_NUMBA) if x is not None else "" for x in beside),
        bold(marked, e.get("marked", 0.0) > MARKED),
    ]


def firsts(name: str, e: dict[str, Any], rate: dict[str, Any]) -> list[str]:
    """A row of first calls."""
    cells = [name]
    for kind in (FIRST, VERY_FIRST):
        if kind not in e:
            cells += [""] * 3
            continue
        loop, took = e[kind]
        most = allowed(loop, kind)
        cells += [milli(loop), bold(milli(took), took > most), milli(most)]
    made = e.get("compiling")
    compiling = "" if made is None else bold(milli(made), made > COMPILING)
    return [*cells, compiling, str(e.get("instructions", "")), milli(rate.get("numba first"))]


def bold(text: str, wrong: bool) -> str:
    """Bold where it is not what is wanted."""
    return f"**{text}**" if wrong else text


def summary(found: dict[str, Any], first: dict[str, Any]) -> str:
    """The sentences that stand first."""
    lines, many = [], len(found)
    gains = {n: e[LOOP] / e[OURS_ALL] for n, e in found.items()}
    singly = [e[LOOP] / e[OURS] for e in found.values()]
    compiled = [n for n, e in found.items() if "why" not in e]
    slow = [n for n, x in gains.items() if x < LEAST]
    lines.append(f"{len(compiled)} of {many} functions are compiled.")
    both, one = geometric_mean(list(gains.values())), geometric_mean(singly)
    lines.append(
        f"Times as fast as NumPy's loop: {digits(both)} in the geometric mean with all threads, "
        f"{digits(one)} with one; {many - len(slow)} of {many} at {LEAST:g} or more"
        f"{', but for ' + ', '.join(slow) if slow else ''}."
    )
    for mine, theirs in NUMBAS.items():
        key = f"{mine} / {theirs}"
        ratios = {n: e[key] for n, e in found.items() if key in e}
        if ratios:
            below = [f"{n} ({x:.2f})" for n, x in ratios.items() if x < OF_NUMBA]
            mean = digits(geometric_mean(list(ratios.values())))
            lines.append(
                f"Beside {theirs}: {mean} times its rate in the geometric mean of {len(ratios)}; "
                f"below {OF_NUMBA:g} of it: {', '.join(below) or 'none'}."
            )
    marked = [n for n, e in found.items() if e.get("marked", 0.0) > MARKED]
    lines.append(f"More than {100 * MARKED:g} % of slices marked: {', '.join(marked) or 'none'}.")
    wrong = [n for n, e in found.items() if "wrong" in e]
    lines.append(f"Results that are not the loop's, bit for bit: {', '.join(wrong) or 'none'}.")
    for kind in (FIRST, VERY_FIRST):
        rows = {n: e[kind] for n, e in first.items() if kind in e}
        if rows:
            over = [n for n, (loop, took) in rows.items() if took > allowed(loop, kind)]
            ratios = {n: took / loop for n, (loop, took) in rows.items()}
            worst = max(ratios, key=lambda n: ratios[n])
            lines.append(
                f"{kind[0].upper()}{kind[1:]}: {len(rows) - len(over)} of {len(rows)} within what "
                f"may be spent; the worst, {worst}, takes {digits(ratios[worst])} times the loop."
            )
    made = {n: e["compiling"] for n, e in first.items() if "compiling" in e}
    if made:
        late = [n for n, t in made.items() if t > COMPILING]
        ordered = sorted(made.values())
        lines.append(
            f"Reading and compiling: {milli(ordered[len(ordered) // 2])} ms in the median, "
            f"{milli(ordered[-1])} at most; over {milli(COMPILING)}: {', '.join(late) or 'none'}."
        )
    return "\n".join(f"- {text}" for text in lines)
