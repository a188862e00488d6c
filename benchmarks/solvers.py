"""Functions that solve something for each slice: xpapply beside SciPy in NumPy's loop.

First calls come first, in processes of their own, as in `loops`. Then the rates, in turns: the loop
once, xpapply as often as takes a while, on all cores. Both clocks are read, that of the wall and
that of the process: of the first other processes of the machine take their part, of the second
they do not.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import xpapply

from . import clocks, loops, runner
from .solver_rows import ROWS, SolverRow
from .solvers_report import CPU, LOOP, NEAR, OURS, WALL

TURNS = 5
BATCH = 0.3
"""Seconds of calls of ours in a turn."""
QUICK = 20
"""One of so many slices."""


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    return loops.start(run) | {"settings": {"cores": runner.cores(), "near": NEAR}}


def measure(run: runner.Run) -> None:
    """First calls of all, then their rates, with what else the machine does meanwhile."""
    part = QUICK if run.quick else 1
    chosen = run.chosen(ROWS)
    gc.collect()
    gc.freeze()
    for row in chosen:
        run.part(f"first/{row.name}", partial(loops.first, row, part), loops.line_of_first)
    warnings.simplefilter("ignore")
    for row in chosen:
        run.part(f"functions/{row.name}", partial(rates, row, part, 2 if part > 1 else TURNS), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a function."""
    if "skipped" in found:
        return str(found["skipped"])
    said = f"{found[LOOP][WALL] / found[OURS][WALL]:.0f} times as fast as the loop, "
    said += f"{found[LOOP][CPU] / found[OURS][CPU]:.0f} by CPU time"
    return said + "".join(f", {found[k]}" for k in ("why",) if k in found)


@xpapply.options(fallback="silent")
def rates(row: SolverRow, part: int, turns: int) -> dict[str, Any]:
    """Seconds of both ways by both clocks, and how far their results are from each other."""
    case = loops.Case(row, part)
    found: dict[str, Any] = {"group": row.group, "says": row.says, "slices": case.count}
    want = case.loop()
    got = loops.waited_for(case, part)
    made = case.compiled()
    if made is None:
        found["why"] = (case.why_not() or "its loop takes less than compiling").replace("|", "\\|")
    else:
        found["left"] = made.looped
    found |= beside(row, want, got)
    moved = loops.Case(row, part)
    moved.arrays = tuple(np.nextafter(x, np.inf) for x in case.arrays)
    found["itself"] = beside(row, want, moved.loop())
    calls = {LOOP: (case.loop, 1), OURS: (case.ours, math.ceil(BATCH / clocks.seconds(case.ours)))}
    times: dict[str, dict[str, list[float]]] = {n: {WALL: [], CPU: []} for n in calls}
    for _ in range(turns):
        for name, (call, count) in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            clocks.many(call, count)()
            times[name][CPU].append((time.process_time() - cpu) / count)
            times[name][WALL].append((time.perf_counter() - wall) / count)
    for name, both in times.items():
        found[name] = {clock: statistics.median(t) for clock, t in both.items()}
    found["load"] = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return found


def beside(row: SolverRow, want: Any, got: Any) -> dict[str, Any]:
    """How many values, and how many ends, are others.

    An end is which values are NaN, and what a solver says or counts.
    """
    want, got = (np.asarray(x).reshape(len(x), -1) for x in (want, got))
    values = slice(None, want.shape[1] - row.statuses)
    ends = slice(values.stop, None)
    a, b = want[:, values], got[:, values]
    other = (np.isnan(a) != np.isnan(b)).any(1) | (want[:, ends] != got[:, ends]).any(1)
    with np.errstate(all="ignore"):
        off = np.abs(a - b) / np.where(a == 0, 1.0, np.abs(a))
    off = np.where(a == b, 0.0, off)
    off = off[~np.isnan(off)]
    return {
        "values": a.size, "off": int((off > NEAR).sum()), "worst": float(off.max(initial=0.0)),
        "other": int(other.sum()),
    }  # fmt: skip
