"""Whole methods of fields: xpapply beside NumPy's loop, and beside the package of the field.

A method runs at its full size by xpapply, on all cores, with the first call apart, in which it is
compiled. NumPy's loop has a part of the slices, and so has a package that takes its time. All three
are timed in turns, by the clock of the wall and by that of the process, and compared: with the loop
bit for bit, with the package within what it differs by itself.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

import xpapply

from . import clocks, loops, runner
from .method_rows import Method, rows
from .methods_report import CPU, FIRST, LOOP, NEAR, OURS, PEER, WALL

TURNS = 3
BATCH = 0.3
"""Seconds of calls in a turn, where one takes less."""
PATIENCE = 2.5
"""Seconds of turns of one way, after which it has no more of them."""
QUICK = 200
"""One of so many slices."""


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    found = loops.start(run)["settings"]
    packages = {}
    for row in rows():
        try:
            packages[row.package] = metadata.version(row.package)
        except (metadata.PackageNotFoundError, ValueError):
            packages[row.package] = ""
    return {"settings": found | {"packages": packages}, "methods": {}}


def measure(run: runner.Run) -> None:
    """All methods, one after the other."""
    warnings.simplefilter("ignore")
    data = Data()
    for row in run.chosen(rows()):
        run.part(f"methods/{row.name}", partial(measured, row, data, run.quick), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a method."""
    if "skipped" in found:
        return str(found["skipped"])
    said = f"{1e6 * found[OURS][WALL]:.3g} us a slice, the loop {1e6 * found[LOOP][WALL]:.3g}"
    if PEER in found:
        said += f", {found['package']} {1e6 * found[PEER][WALL]:.3g}"
    return said + "".join(f"; {found[k]}" for k in ("why", "wrong", "missing") if k in found)


class Data:
    """The arrays of a method, of which neighbours often have the same."""

    def __init__(self) -> None:
        self.of: tuple[Any, int] | None = None
        self.arrays: tuple[np.ndarray, ...] = ()

    def __call__(self, row: Method, count: int) -> tuple[np.ndarray, ...]:
        if self.of != (row.data, count):
            self.of, self.arrays = None, ()  # before there are others
            self.arrays = row.data(np.random.default_rng(0), count)
            self.of = row.data, count
        return self.arrays


class Case(loops.Case):
    """A method with some arrays."""

    def __init__(self, row: Method, arrays: tuple[np.ndarray, ...]) -> None:
        self.row, self.arrays, self.count = row, arrays, len(arrays[0])

    def part(self, count: int) -> Case:
        """The same with the first of the slices."""
        return Case(self.row, tuple(x[:count] for x in self.arrays))


@xpapply.options(fallback="silent")
def measured(row: Method, data: Data, quick: bool) -> dict[str, Any]:
    """Seconds of all ways for a slice, and whether their results are alike."""
    count = max(16, row.count // QUICK) if quick else row.count
    case = Case(row, data(row, count))
    some = case.part(max(4, row.sample // (10 if quick else 1)))
    found: dict[str, Any] = {"group": row.group, "says": row.says, "source": row.source}
    found |= {"slices": count, "sample": some.count, "package": row.package}
    row.begin()
    found[FIRST], got = timed(case.ours)
    row.begin()
    took, want = timed(some.loop)
    found |= beside_the_loop(np.asarray(want), np.asarray(got)[: some.count])
    calls: dict[str, Way] = {LOOP: (some.loop, some.count, took[WALL])}
    calls[OURS] = case.ours, count, found[FIRST][WALL]
    if row.peer is not None:
        try:
            calls[PEER] = of_package(row, case, got, found)
        except Exception as problem:
            found["missing"] = clocks.reason(problem)
    del got
    gc.collect()
    found |= in_turns(calls, 1 if quick else TURNS)
    made = case.compiled()
    if made is None:
        plan = some.plan()
        if not plan.vectorized:
            found["why"] = ("; ".join(plan.reasons) or plan.engine).replace("|", "\\|")
    else:
        found["left"] = made.looped
    found["load"] = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return found


def timed(call: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds of a call by both clocks, and what it gives."""
    wall, cpu = time.perf_counter(), time.process_time()
    got = call()
    return {CPU: time.process_time() - cpu, WALL: time.perf_counter() - wall}, got


Way = tuple[Callable[[], Any], int, float]
"""A call, its slices, and about what it takes."""


def in_turns(calls: dict[str, Way], turns: int) -> dict[str, dict[str, float]]:
    """Seconds of a slice by each way: medians."""
    times: dict[str, dict[str, list[float]]] = {n: {WALL: [], CPU: []} for n in calls}
    spent = dict.fromkeys(calls, 0.0)
    counts = {n: max(1, round(BATCH / took)) for n, (_, _, took) in calls.items()}
    for _ in range(turns):
        for name, (call, slices, _) in calls.items():
            if spent[name] > PATIENCE:
                continue
            took, _ = timed(clocks.many(call, counts[name]))
            spent[name] += took[WALL]
            for clock, t in took.items():
                times[name][clock].append(t / counts[name] / slices)
    return {n: {clock: statistics.median(t) for clock, t in of.items()} for n, of in times.items()}


def beside_the_loop(want: np.ndarray, got: np.ndarray) -> dict[str, Any]:
    """Whether results have the bits of the loop's, and how far they are from these if not."""
    if loops.bits(want) == loops.bits(got):
        return {"bits": True}
    if want.dtype != got.dtype or want.shape != got.shape:
        return {"bits": False, "wrong": "WRONG: other results than the loop's"}
    off = apart(want, got)
    said = {"off": int((off > NEAR).sum()), "of": want.size}
    return {"bits": False, "farthest of the loop": float(off.max(initial=0.0))} | said


def apart(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """How far results are from each other, relatively; infinity where one of them is NaN."""
    want, got = np.asarray(want, float), np.asarray(got, float)
    with np.errstate(all="ignore"):
        off = np.abs(got - want) / np.maximum(np.abs(want), np.finfo(float).tiny)
    off = np.where(got == want, 0.0, off)
    missing = np.isnan(want), np.isnan(got)
    return np.where(missing[0] | missing[1], np.where(missing[0] == missing[1], 0.0, np.inf), off)


def of_package(row: Method, case: Case, got: Any, found: dict[str, Any]) -> Way:
    """The call of a package for some slices, whose results are compared."""
    part = case.part(min(case.count, row.part))
    call = partial(row.peer or tuple, *part.arrays)
    row.peer(*case.part(4).arrays)  # it is loaded and compiled
    took, want = timed(call)
    want = np.asarray(want)
    mine = np.asarray(row.shown(np.asarray(got)[: part.count], *part.arrays))
    if want.shape != mine.shape:
        raise ValueError(f"it gives {want.shape}, not {mine.shape}")
    off = apart(want, mine)
    if row.loss:
        off = np.where(mine <= want, 0.0, off)
    found |= {"part": part.count, "near": row.near, "values": want.size, "loss": row.loss}
    found |= {"far": int((off > row.near).sum()), "farthest": float(off.max(initial=0.0))}
    return call, part.count, took[WALL]
