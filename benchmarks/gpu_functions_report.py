"""What the suite `gpu_functions` measured, as text: results/gpu_functions.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .functions_report import geometric_mean
from .pages import digits, milli

OURS, OURS_AXIS0 = "xpapply", "xpapply, first axis"
FEW, FIRST, COPY = "few slices", "first call", "copy"
HAND, JAX, NUMBA, CUPYS = "CuPy by hand", "JAX", "numba.cuda", "cupy.vectorize"
OWN, DISK = "CuPy's first slice", "first call from disk"

# --- what is wanted

MOST_COPIES, MOST_OF_SORTS = 3.0, 4.0
"""Times the copy of what is read and written."""
SORTS = ("median", "sort", "percentile", "gap", "mad")
OF_NUMBA = 0.8
"""Of numba's rate, at least."""
FEW_SECONDS = 40e-6
FIRST_SECONDS, DISK_SECONDS = 0.3, 0.05
AXES = 1.3
"""Times the last axis that another one may take."""
LOOPS = "loops with decisions"


def render(data: dict[str, Any]) -> str:
    """The page."""
    found = {n: e for n, e in data["functions"].items() if "skipped" not in e}
    settings = data["settings"]
    head = ["", f"{OURS}, ms", "times the copy", "first axis, ms", HAND, JAX, NUMBA]
    head += [f"{settings['few']:,} slices, us", "first call, ms", "from disk, ms", ""]
    parts = [
        "# Functions on a GPU",
        f"{len(data['functions'])} functions of {settings['length']} numbers of float64 "
        f"(`benchmarks/gpu_function_rows.py`), {settings['slices']:,} slices, in one run of "
        "`benchmarks/gpu_functions.py`: xpapply with the function; CuPy with an expression for the "
        "whole array, as a careful user writes it; JAX's `jit(vmap(f))`; for loops with decisions "
        "numba.cuda with the same function, a thread for each slice.",
        pages.machine_table(data),
        "## In short",
        "\n".join(f"- {text}" for text in summary(found)),
        "## Rates",
        "Milliseconds of a call, the median of several. The copy: what copying as many bytes takes "
        "as are read and written. (h): JAX does not take the function, but the expression by hand. "
        "A first call comes after CuPy's own first call of the function, on one slice. From disk: "
        "the same in another process, for which all kernels are there; its first one also loads "
        "what reads functions. Bold: more than is wanted.",
    ]
    for group in dict.fromkeys(e["group"] for e in found.values()):
        rows = [row(n, e) for n, e in found.items() if e["group"] == group]
        parts += [f"### {group}", pages.table(head, rows, full=False)]
    numbers = {n: e for n, e in data.get("numbers", {}).items() if "skipped" not in e}
    if numbers:
        parts += [
            "## Functions of numbers",
            f"`xpapply.vectorize` of {settings['slices']:,} elements, which `cupy.vectorize` takes "
            "too where it compiles them. Sums and products of Python's integers, which grow, are "
            "looked at; those of CuPy's wrap.",
            pages.table(_HEAD, [_of_numbers(n, e) for n, e in numbers.items()], full=False),
        ]
    remarks = [f"- {n}: {e[k]}" for n, e in found.items()
               for k in ("wrong", "jax fails", "numba fails") if k in e]  # fmt: skip
    remarks += [f"- {n}: the results of numba differ" for n, e in found.items()
                if "numba differs" in e]  # fmt: skip
    remarks += [f"- {n}: not measured: {e['skipped']}" for n, e in data["functions"].items()
                if "skipped" in e]  # fmt: skip
    if remarks:
        parts += ["## Remarks", "\n".join(remarks)]
    return pages.page(parts)


def most(name: str) -> float:
    """Times the copy that a function may take."""
    return MOST_OF_SORTS if name in SORTS else MOST_COPIES


def row(name: str, e: dict[str, Any]) -> list[str]:
    """A row of the table."""
    copies = e[OURS] / e[COPY]
    jax = milli(e.get(JAX)) + (" (h)" if e.get("jax by hand") else "")
    numba = e.get(NUMBA)
    return [
        name,
        milli(e[OURS]),
        _bold(digits(copies, 3), copies > most(name)),
        _bold(milli(e.get(OURS_AXIS0)), e.get(OURS_AXIS0, 0) > AXES * e[OURS]),
        milli(e.get(HAND)),
        jax,
        _bold(milli(numba), numba is not None and numba < OF_NUMBA * e[OURS]),
        _bold(digits(1e6 * e[FEW], 3), e[FEW] > FEW_SECONDS),
        _bold(milli(e[FIRST]), e[FIRST] > FIRST_SECONDS),
        _bold(milli(e.get(DISK)), e.get(DISK, 0) > DISK_SECONDS),
        "" if e["engine"] == "one launch" else e["engine"].replace("|", "\\|"),
    ]


_HEAD = [
    *("", f"{OURS}, ms", "elements per second", "times the copy", f"{CUPYS}, ms"),
    *("few, us", f"few, {CUPYS}, us", "first call, ms", "from disk, ms", ""),
]


def _of_numbers(name: str, e: dict[str, Any]) -> list[str]:
    """A row of functions of numbers."""
    few = e.get(f"{CUPYS}, {FEW}")
    return [
        name,
        milli(e[OURS]),
        f"{e['elements'] / e[OURS]:.2g}",
        digits(e[OURS] / e[COPY], 3),
        milli(e.get(CUPYS)),
        digits(1e6 * e[FEW], 3),
        "" if few is None else digits(1e6 * few, 3),
        milli(e[FIRST]),
        milli(e.get(DISK)),
        e.get("wrong", "") or ("" if e["engine"] == "one launch" else e["engine"]),
    ]


def _bold(text: str, is_wrong: bool) -> str:
    return f"**{text}**" if is_wrong else text


def _mean(found: dict[str, Any], peer: str) -> str:
    ratios = [e[peer] / e[OURS] for e in found.values() if peer in e]
    return f"{digits(geometric_mean(ratios))} times ({len(ratios)} functions)" if ratios else "none"


def summary(found: dict[str, Any]) -> list[str]:
    """The sentences that stand first."""
    plain = {n: e for n, e in found.items() if e["group"] != LOOPS}
    loops = {n: e for n, e in found.items() if e["group"] == LOOPS}
    lines = []
    for title, some in (("functions", plain), (LOOPS, loops)):
        one = [n for n, e in some.items() if e["engine"] == "one launch"]
        slow = [n for n, e in some.items() if e[OURS] > most(n) * e[COPY]]
        lines.append(
            f"{len(one)} of {len(some)} {title} run in one launch; {len(some) - len(slow)} within "
            f"{MOST_COPIES:g} times the copy (sorts {MOST_OF_SORTS:g})"
            f"{', but for ' + ', '.join(slow) if slow else ''}."
        )
    lines.append(f"Rate beside {JAX}, geometric mean: {_mean(plain, JAX)}.")
    lines.append(f"Rate beside {HAND}: {_mean(plain, HAND)}.")
    below = [n for n, e in loops.items() if NUMBA in e and e[NUMBA] < OF_NUMBA * e[OURS]]
    lines.append(
        f"Rate beside {NUMBA}: {_mean(loops, NUMBA)}; below {OF_NUMBA:g} of it: "
        f"{', '.join(below) or 'none'}."
    )
    axes = [n for n, e in found.items() if e.get(OURS_AXIS0, 0) > AXES * e[OURS]]
    lines.append(f"More than {AXES:g} times along the first axis: {', '.join(axes) or 'none'}.")
    few = sorted(e[FEW] for e in found.values())
    first = sorted(e[FIRST] for e in found.values())
    if few:
        lines.append(
            f"A call of few slices: {digits(1e6 * few[len(few) // 2])} us in the median, "
            f"{digits(1e6 * few[-1])} at most; a first call {milli(first[len(first) // 2])} ms, "
            f"{milli(first[-1])} at most."
        )
    disk = sorted(e[DISK] for e in found.values() if DISK in e)
    if disk:
        lines.append(
            f"A first call whose kernel is on disk: {milli(disk[len(disk) // 2])} ms in the "
            f"median, {milli(disk[-1])} at most; {sum(s <= DISK_SECONDS for s in disk)} of "
            f"{len(disk)} within {1e3 * DISK_SECONDS:g} ms."
        )
    wrong = [n for n, e in found.items() if "wrong" in e]
    lines.append(f"Other results than CuPy's loop: {', '.join(wrong) or 'none'}.")
    return lines
