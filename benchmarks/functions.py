"""The idioms of idioms.py: xpapply, NumPy's loop, and the array expression by hand.

Idioms that need SciPy, torch or scikit-learn are measured where these are installed.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xpapply

from . import clocks, devices, runner
from .functions_report import FALLBACK_REPEATS, FALLBACK_SECONDS, FEW, HAND, LOOP, OURS, SLOW
from .idioms import IDIOMS, SLICES, Idiom
from .pages import digits

QUICK = 2000
SAMPLE = 3000
PROBE = 200
REPEATS = 9
PATIENCE = 1.0
"""Seconds after which a call is hardly repeated any more."""

SMALL = (
    *("argmax", "norm", "vote", "standardize", "grey", "distance", "builtin_range"),
    *("first_above", "clamp", "torch_lambda", "join_digits", "counter"),
)
"""Cheap functions, for calls with hardly any slices."""
SHARED = ("curve_fit", "minimize_scalar")
"""Slow functions that stay in the loop, for several processes."""
WORKERS = 2
MEMORY = (
    *("convolve_same", "moving_average", "interp", "polyfit", "corrcoef", "standardize"),
    *("softmax", "smoothing", "diffusion_tensor", "mean_of_positive", "join_digits"),
)


def start(run: runner.Run) -> dict[str, Any]:
    slices = run.args.slices or (QUICK if run.quick else SLICES)
    expected = {idiom.name: idiom.vectorizes for idiom in run.chosen(IDIOMS)}
    return {"settings": {"slices": slices}, "expected": expected, "idioms": {}}


def measure(run: runner.Run) -> None:
    data, slices = run.data, run.data["settings"]["slices"]
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        warm_up(run.chosen(IDIOMS))
        for idiom in run.chosen(IDIOMS):
            run.part(f"idioms/{idiom.name}", partial(measure_idiom, idiom, slices), line)
        works = [i for i in run.chosen(IDIOMS) if "skipped" not in data["idioms"][i.name]]
        for idiom in works:
            if idiom.name in SMALL:
                run.part(f"small/{idiom.name}", partial(small, idiom, 9 if run.quick else 31))
        for idiom in works:
            if idiom.name in SHARED:
                many = slices if run.quick else 10 * slices
                run.part(
                    f"workers/{idiom.name}", partial(shared, idiom, many, 3 if run.quick else 9)
                )
            if idiom.name in MEMORY:
                run.part(f"memory/{idiom.name}", partial(memory, idiom, slices))


def warm_up(idioms: list[Idiom]) -> None:
    """Libraries and parts of xpapply that are imported when they are needed."""
    for idiom in idioms:
        with contextlib.suppress(ImportError):
            Case(idiom, FEW)
    # with functions of no idiom
    for f in (lambda v: v + 1, lambda v: "x", np.trace):
        with contextlib.suppress(Exception):
            xpapply.apply_along_axis(f, 1, np.ones((2000, 3)))


def line(found: dict[str, Any]) -> str:
    if "overhead" in found:
        return f"loop, {found['overhead']:.3f} of NumPy's: {found['why']}"
    wrong = f" WRONG: {found['wrong']}" if "wrong" in found else ""
    return f"{digits(found[LOOP] / found[OURS])} times as fast as the loop{wrong}"


# --- one idiom ------------------------------------------------------------------------


class Case:
    """An idiom made anew, and the calls that are timed."""

    def __init__(self, idiom: Idiom, slices: int) -> None:
        self.idiom = idiom
        self.f, self.axis, self.arr, self.args, self.kwargs = idiom.make(
            np.random.default_rng(0), slices
        )
        self.slices = self.arr.size // self.arr.shape[self.axis]

    def ours(self, arr: np.ndarray) -> Any:
        return xpapply.apply_along_axis(self.f, self.axis, arr, *self.args, **self.kwargs)

    def loop(self, arr: np.ndarray) -> Any:
        f = self.idiom.loop(self.f) if self.idiom.loop else self.f
        return np.apply_along_axis(f, self.axis, arr, *self.args, **self.kwargs)

    def hand(self, arr: np.ndarray) -> Any:
        assert self.idiom.by_hand is not None
        return self.idiom.by_hand(self.f, arr)

    def plan(self) -> Any:
        return xpapply.explain(self.f, self.axis, self.arr, *self.args, **self.kwargs)

    def cut(self, slices: int) -> np.ndarray:
        """About so many slices with the same strides: a part of one dimension."""
        d = self._dimension()
        index = [slice(None)] * self.arr.ndim
        index[d] = slice(-(-slices * self.arr.shape[d] // self.slices))
        return self.arr[tuple(index)]

    def part(self, result: np.ndarray, part: np.ndarray) -> np.ndarray:
        """What of the whole result belongs to the slices of `cut`."""
        d = self._dimension()
        if d > self.axis % self.arr.ndim:
            d += result.ndim - self.arr.ndim
        return result[(slice(None),) * d + (slice(part.shape[self._dimension()]),)]

    def _dimension(self) -> int:
        return 1 if self.axis % self.arr.ndim == 0 else 0


def timed(call: Callable[[np.ndarray], Any], arr: np.ndarray) -> tuple[float, Any]:
    """Seconds and result, on a copy that the function may write into."""
    arr = np.copy(arr, order="K")
    np.random.seed(0)
    random.seed(0)
    start = time.perf_counter()
    result = call(arr)
    return time.perf_counter() - start, result


def measure_idiom(idiom: Idiom, slices: int) -> dict[str, Any]:
    """Everything about one idiom; times in seconds, for all slices."""
    case = Case(idiom, slices)
    found: dict[str, Any] = {"group": idiom.group, "slices": case.slices}
    probe = case.cut(PROBE)
    per_slice = timed(case.loop, probe)[0] * case.arr.shape[case.axis] / probe.size
    sample = case.arr if per_slice < SLOW else case.cut(SAMPLE)
    scale = case.arr.size / sample.size
    seconds, want = timed(case.loop, sample)
    if seconds < PATIENCE / 3:
        seconds = min(seconds, timed(case.loop, sample)[0])
    found[LOOP] = seconds * scale
    if scale > 1:
        found["sample"] = sample.size // sample.shape[case.axis]
    try:
        # to xpapply the function is new: the loop has not told it anything
        with xpapply.options(fallback="raise"):
            first, got = timed(case.ours, case.arr)
    except xpapply.UnsupportedError as error:
        found |= _refusal(Case(idiom, slices), error)
        return found | _fallback(case, seconds * scale / case.slices)
    plan = case.plan()
    found |= {"vectorized": True, "engine": plan.engine, "explained": bool(plan.vectorized)}
    found |= _difference(idiom, case.part(got, sample), want)
    calls: dict[str, Any] = {OURS: case.ours}
    if idiom.by_hand:
        calls[HAND] = case.hand
        timed(case.hand, case.arr)
    times = clocks.in_turns(
        calls,
        REPEATS,
        devices.Cpu().pause,
        clock=lambda call: timed(call, case.arr)[0],
        patience=PATIENCE,
    )
    for name, t in times.items():
        found[name] = statistics.median(t)
    found["first"] = first
    found["planning"] = max(0.0, first - found[OURS])
    found["repeats"] = len(times[OURS])
    return found


def _refusal(fresh: Case, error: Exception) -> dict[str, Any]:
    """Why the loop runs, and how long xpapply looked at a function that is new."""
    start = time.perf_counter()
    plan = fresh.plan()
    planning = time.perf_counter() - start
    why = str(error) if plan.vectorized else "; ".join(plan.reasons)
    return {
        "vectorized": False,
        "explained": bool(plan.vectorized),
        "engine": plan.engine,
        "planning": planning,
        "why": _plain(why),
    }


def _difference(idiom: Idiom, got: np.ndarray, want: np.ndarray) -> dict[str, Any]:
    """What is wrong with a result: nothing, let us hope."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return {"wrong": f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"}
    if want.dtype.kind not in "fc":
        bad = int((got != want).sum())
        return {"wrong": f"{bad} of {want.size} differ"} if bad else {}
    largest = np.abs(want[np.isfinite(want)]).max(initial=0)
    close = np.isclose(got, want, idiom.rtol, idiom.rtol * largest, equal_nan=True)
    return {} if close.all() else {"wrong": f"{int((~close).sum())} of {want.size} differ"}


def _fallback(case: Case, per_slice: float) -> dict[str, Any]:
    """The loop as xpapply runs it, and as NumPy does: pairs of calls, the median of their ratios.

    Which of the two comes first changes from pair to pair.
    """
    part = case.cut(min(case.slices, max(FEW, round(FALLBACK_SECONDS / per_slice))))
    ratios = []
    for k in range(FALLBACK_REPEATS):
        pair = (case.ours, case.loop) if k % 2 else (case.loop, case.ours)
        times = {call: timed(call, part)[0] for call in pair}
        ratios.append(times[case.ours] / times[case.loop])
    return {
        "overhead": statistics.median(ratios),
        "overheads": [min(ratios), max(ratios)],
        "overhead slices": part.size // part.shape[case.axis],
    }


def _plain(text: str) -> str:
    """For a cell of a table."""
    text = re.sub(r"(/[\w.+-]+){2,}/?", "...", " ".join(text.split()))
    text = text.replace("|", "\\|")
    return text if len(text) <= 160 else text[:157] + "..."


# --- few slices, memory ---------------------------------------------------------------


def small(idiom: Idiom, repeats: int) -> dict[str, float]:
    """Seconds per call on `FEW` slices, in turns; the ratio is the median of the ratios."""
    case = Case(idiom, FEW)
    calls = {
        OURS: clocks.many(lambda: case.ours(case.arr), 20),
        LOOP: clocks.many(lambda: case.loop(case.arr), 20),
    }
    clocks.in_turns(calls, 2)
    times = clocks.in_turns(calls, repeats)
    ratios = [a / b for a, b in zip(times[OURS], times[LOOP], strict=True)]
    found = {name: statistics.median(t) / 20 for name, t in times.items()}
    return found | {"ratio": statistics.median(ratios)}


def shared(idiom: Idiom, slices: int, repeats: int) -> dict[str, Any]:
    """Seconds per call in one process and in several, in turns; the ratio of their medians.

    `cpu` is what all processes together take of the loop's time on one core: where the machine is
    busy, so many cores would be as many times as fast, divided by this.
    """
    case = Case(idiom, slices)

    def run() -> None:
        with xpapply.options(workers=WORKERS):
            case.ours(case.arr)

    calls = {LOOP: lambda: case.loop(case.arr), OURS: run}
    try:
        run()  # starts the processes
    except ImportError as error:
        return {"skipped": str(error)}
    times = clocks.in_turns(calls, repeats)
    found = {name: statistics.median(t) for name, t in times.items()}
    spent = {name: cpu_seconds(call) for name, call in calls.items()}
    return found | {"ratio": found[LOOP] / found[OURS], "cpu": spent[OURS] / spent[LOOP]}


def cpu_seconds(call: clocks.Call) -> float:
    """What a call takes of the processors, in this process and those that it has started."""
    before = _spent()
    call()
    return _spent() - before


def _spent() -> float:
    """Of this process and its children, which live on; of this process alone but on Linux."""
    total = time.process_time()
    children = Path("/proc/self/task").glob("*/children")
    for pid in {pid for found in children for pid in found.read_text().split()}:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def memory(idiom: Idiom, slices: int) -> dict[str, float]:
    """Bytes at the peak of a call, its result included."""
    case = Case(idiom, slices)
    calls = {OURS: case.ours} | ({HAND: case.hand} if idiom.by_hand else {})
    entry: dict[str, float] = {"input": case.arr.nbytes}
    for name, call in calls.items():
        entry["output"] = call(case.arr.copy()).nbytes  # plans and tables are there from now on
        entry[name] = clocks.traced_peak(partial(call, case.arr.copy()))
    return entry
