"""What the suite `dask` measured, as text: results/dask.md."""

from __future__ import annotations

from typing import Any

from . import pages
from .pages import digits, milli

OURS = "xpapply"
APART = {1: "one after another", 2: "by 2 threads of Python"}
DASK = ("dask, synchronous", "dask, 1 thread", "dask, 2 threads")
TRIVIAL = "map_blocks of nothing"
FORMULA, REDUCTION = "the formula in dask", "da.reduction of SciPy's logsumexp"
LOOP = (
    "da.apply_along_axis",
    "xr.apply_ufunc, vectorize=True",
    "map_blocks of np.apply_along_axis",
)
WANTED = {"overhead": 0.05, "processes": 1.7, "task": 1e-3, "mib": 64}
"""At most 5 % of overhead (blocks of 64 MiB; dask makes them of 128 MiB), 1.7 times as fast by two
processes, and 1 ms added to a task."""


def added(entry: dict[str, Any], k: int, kind: str = "min") -> float:
    """What dask's way `k` takes more than the same calls without it, as a part of these."""
    plain = entry[APART[2 if k == 2 else 1]][kind]
    return entry[DASK[k]][kind] / plain - 1  # type: ignore[no-any-return]


def gain(entry: dict[str, Any], how: str = "", kind: str = "min") -> float:
    """How many times as fast two processes are as one."""
    return entry["1" + how][kind] / entry["2" + how][kind]  # type: ignore[no-any-return]


def per_task(entry: dict[str, Any], kind: str = "min") -> float:
    """Seconds that a task takes more than one that does nothing."""
    return (entry[OURS][kind] - entry[TRIVIAL][kind]) / entry["count"]  # type: ignore[no-any-return]


def line(entry: dict[str, Any]) -> str:
    """What a run says of a part, in a few words."""
    if DASK[0] in entry:
        return ", ".join(f"{name} {added(entry, k):+.1%}" for k, name in enumerate(DASK))
    if "1" in entry:
        return f"{gain(entry):.2f} times as fast, {gain(entry, ', without dask'):.2f} without dask"
    if "count" in entry:
        more = [1e6 * per_task(entry, kind) for kind in ("min", "processor")]
        return f"{more[0]:.0f} us more a task, {more[1]:.0f} of the processor"
    return ", ".join(
        f"{name} {milli(e['min'])} ms"
        for name, e in entry.items()
        if isinstance(e, dict) and "min" in e
    )


def render(data: dict[str, Any]) -> str:
    """The page."""
    settings = data["settings"]
    parts = [
        "# Arrays of dask",
        "`benchmarks/dask.py`, in one run. Blocks are in memory before the clock starts and "
        "results stay as blocks; the making of the graph of tasks is part of each call. Minima of "
        f"{settings['repeats']} calls in turns, fewer of long ones (medians in brackets); *load* "
        "is the average load of the last minute when a part began, this run and its neighbours "
        "together. On a busy machine overheads are smaller and gains larger than what is here.",
        pages.machine_table(data),
        *_overhead(_there(data, "overhead"), settings),
        *_processes(_there(data, "processes"), settings),
        *_tasks(_there(data, "tasks"), settings),
        *_pass(_there(data, "pass")),
        *_peers(_there(data, "peers"), settings),
    ]
    missing = {
        f"{part}, {name}": entry["skipped"]
        for part in ("overhead", "processes", "tasks", "pass", "peers")
        for name, entry in data.get(part, {}).items()
        if "skipped" in entry
    }
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return pages.page(parts)


def _there(data: dict[str, Any], part: str) -> dict[str, Any]:
    return {n: e for n, e in data.get(part, {}).items() if "skipped" not in e}


def _load(entry: dict[str, Any]) -> str:
    return "" if entry.get("load") is None else f"{entry['load']:.2f}"


def _marked(text: str, holds: bool) -> str:
    return text if holds else f"**{text}**"


def _overhead(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    if not found:
        return []
    most = WANTED["overhead"]
    wanted = [e for n, e in found.items() if _mib(n) >= WANTED["mib"]]
    held = sum(added(e, k) <= most for e in wanted for k in range(3))
    head = ["", f"{APART[1]}, ms", f"{TRIVIAL}, ms", *DASK[:2]]
    head += [f"{APART[2]}, ms", DASK[2], "load"]
    rows = []
    for name, e in found.items():
        cells = [_percent(e, k, _mib(name) >= WANTED["mib"]) for k in range(3)]
        plain = [_both(e[way]) for way in (APART[1], TRIVIAL, APART[2])]
        rows.append([name, *plain[:2], *cells[:2], plain[2], cells[2], _load(e)])
    text = (
        f"{settings['blocks']} blocks, of slices of 16 float32; slices of `logsumexp` lie in all "
        "of the blocks. What dask adds to the same calls of xpapply on the same blocks of NumPy, "
        f"of one thread each. Wanted: at most {100 * most:g} % for blocks of {WANTED['mib']} MiB "
        f"(dask makes them of 128). {held} of {3 * len(wanted)} are within that; in bold what is "
        f"not. *{TRIVIAL}*: what dask itself takes for as many tasks that return their block."
    )
    return ["## Tasks against plain calls", text, pages.table(head, rows)]


def _mib(name: str) -> int:
    return int(name.split()[-2])


def _percent(e: dict[str, Any], k: int, counts: bool) -> str:
    low, middle = added(e, k), added(e, k, "median")
    holds = low <= WANTED["overhead"] or not counts
    return f"{_marked(f'{100 * low:+.1f} %', holds)} ({100 * middle:+.1f} %)"


def _both(e: dict[str, Any]) -> str:
    return f"{milli(e['min'])} ({milli(e['median'])})"


def _processes(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    if not found:
        return []
    blocks, mib = settings["process"]
    head = ["", "1 process, ms", "2 processes, ms", "times faster", "without dask", "load"]
    rows = []
    for name, e in found.items():
        cells = [_both(e["1"]), _both(e["2"])]
        ours = _marked(digits(gain(e)), gain(e) >= WANTED["processes"])
        alone = digits(gain(e, ", without dask"))
        rows.append([name, *cells, f"{ours} ({digits(gain(e, kind='median'))})", alone, _load(e)])
    text = (
        f"A `LocalCluster` of one worker and of two, of one thread each; {blocks} blocks of "
        f"{mib} MiB that the workers have made, and results that stay there. Wanted: two at least "
        f"{WANTED['processes']:g} times as fast as one. *Without dask*: as many processes that "
        "call xpapply on as many blocks in a plain loop, which is what the machine gives to two."
    )
    return ["## Two processes", text, pages.table(head, rows)]


def _tasks(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    if not found:
        return []
    head = ["", "map_blocks, ms", "xpapply, ms", "added a task, us", "by the processor, us"]
    head += ["of it the graph, us", "load"]
    rows = []
    for name, e in found.items():
        more = per_task(e)
        graph = digits(1e6 * per_task({**e["graph"], "count": e["count"]}))
        processor = digits(1e6 * per_task(e, "processor"))
        cell = _marked(digits(1e6 * more), more <= WANTED["task"])
        times = [_both(e[TRIVIAL]), _both(e[OURS])]
        middle = digits(1e6 * per_task(e, "median"))
        rows.append([name, *times, f"{cell} ({middle})", processor, graph, _load(e)])
    text = (
        f"{settings['tasks']:,} blocks of four slices on a `LocalCluster` of two workers, against "
        "`da.map_blocks` of a function that returns its block. Wanted: at most "
        f"{1e6 * WANTED['task']:g} us added to a task. *By the processor*: in seconds that it "
        "worked for any of the processes, which other work on the machine hardly changes."
    )
    return ["## Many small tasks", text, pages.table(head, rows)]


def _pass(found: dict[str, Any]) -> list[str]:
    if not found:
        return []
    ways = (OURS, FORMULA, REDUCTION)
    head = ["", *(f"{way}, ms" for way in ways), *(f"{way}, times read" for way in ways), "load"]
    rows = []
    for name, e in found.items():
        read = [digits(e["read"][way]["bytes"]) for way in ways]
        rows.append([name, *(_both(e[way]) for way in ways), *read, _load(e)])
    text = (
        "`logsumexp` of slices that lie in 8 blocks, by 2 threads. *Times read*: the bytes that "
        "are read of an array outside, over its size. (dask holds the blocks of the formula in "
        "memory between its two passes; what is timed is in memory for all.)"
    )
    return ["## One pass", text, pages.table(head, rows)]


def _peers(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    if not found:
        return []
    head = ["", f"{OURS}, ms", *(f"{name}, ms" for name in LOOP), "times faster", "load"]
    rows = []
    for name, e in found.items():
        best = min(e[way]["min"] for way in LOOP)
        cells = [_both(e[way]) for way in (OURS, *LOOP)]
        rows.append([name, *cells, digits(best / e[OURS]["min"]), _load(e)])
    text = (
        f"{settings['slices']:,} slices of 16 float64 in 4 blocks, by 2 threads; *times faster* "
        "than the fastest of the others."
    )
    return ["## What people take now", text, pages.table(head, rows)]
