"""The idioms of idioms.py: xpapply, NumPy's loop, and the array expression by hand.

    python benchmarks/functions.py            # measures, writes results/functions.md and .json
    python benchmarks/functions.py --quick    # 2000 slices, no files: does everything run?
    python benchmarks/functions.py --only ^np # those whose names match, no files
    python benchmarks/functions.py --render   # writes functions.md again from functions.json

Idioms that need SciPy, torch or scikit-learn are measured where these are
installed. Leave the machine alone while it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import re
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import timing
from idioms import IDIOMS, SHARES, SLICES, Idiom
from timing import digits

import xpapply

QUICK = 2000
SAMPLE = 3000
SLOW = 50e-6
"""Seconds per slice from which the loop runs over a sample only."""
PROBE = 200
REPEATS = 9
PATIENCE = 1.0
"""Seconds after which a call is not repeated any more than `AT_LEAST` times."""
AT_LEAST = 3
REST = 0.003
FALLBACK_SECONDS = 0.06
FALLBACK_REPEATS = 11
FEW = 10

SMALL = (
    *("argmax", "norm", "vote", "standardize", "grey", "distance", "builtin_range"),
    *("first_above", "clamp", "torch_lambda", "join_digits", "counter"),
)
"""Cheap functions, for calls with hardly any slices."""
MEMORY = (
    *("convolve_same", "moving_average", "interp", "polyfit", "corrcoef", "standardize"),
    *("softmax", "smoothing", "diffusion_tensor", "mean_of_positive", "join_digits"),
)

OURS = "xpapply"
LOOP = "numpy.apply_along_axis"
HAND = "by hand"


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


def in_turns(
    calls: dict[str, Callable[[np.ndarray], Any]], arr: np.ndarray, repeats: int
) -> dict[str, list[float]]:
    """Seconds of each, interleaved; fewer repeats of what takes long."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    start = time.perf_counter()
    for k in range(repeats):
        if k >= AT_LEAST and time.perf_counter() - start > PATIENCE * len(calls):
            break
        for name, call in calls.items():
            time.sleep(REST)
            times[name].append(timed(call, arr)[0])
    return times


def measure(idiom: Idiom, slices: int) -> dict[str, Any]:
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
    calls: dict[str, Callable[[np.ndarray], Any]] = {OURS: case.ours}
    if idiom.by_hand:
        calls[HAND] = case.hand
        timed(case.hand, case.arr)
    times = in_turns(calls, case.arr, REPEATS)
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


def small(idioms: Iterable[Idiom], repeats: int) -> dict[str, dict[str, float]]:
    """Seconds per call on `FEW` slices, in turns; the ratio is the median of the ratios."""
    found = {}
    for idiom in idioms:
        case = Case(idiom, FEW)
        calls = {
            OURS: timing.many(lambda c=case: c.ours(c.arr), 20),
            LOOP: timing.many(lambda c=case: c.loop(c.arr), 20),
        }
        timing.interleaved(calls, 2, 0)
        times = timing.interleaved(calls, repeats, 0)
        ratios = [a / b for a, b in zip(times[OURS], times[LOOP], strict=True)]
        found[idiom.name] = {name: statistics.median(t) / 20 for name, t in times.items()}
        found[idiom.name]["ratio"] = statistics.median(ratios)
    return found


def memory(idioms: Iterable[Idiom], slices: int) -> dict[str, dict[str, float]]:
    """Bytes at the peak of a call, its result included (tracemalloc, to which NumPy reports)."""
    found = {}
    for idiom in idioms:
        case = Case(idiom, slices)
        calls = {OURS: case.ours} | ({HAND: case.hand} if idiom.by_hand else {})
        entry: dict[str, float] = {"input": case.arr.nbytes}
        for name, call in calls.items():
            result = call(case.arr.copy())  # plans and tables are there from now on
            entry["output"] = result.nbytes
            del result
            arr = case.arr.copy()
            tracemalloc.start()
            call(arr)
            entry[name] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        found[idiom.name] = entry
    return found


# --- the text -------------------------------------------------------------------------


def geometric_mean(x: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, x))) if x else math.nan


def render(data: dict[str, Any]) -> str:
    results = {n: e for n, e in data["idioms"].items() if "skipped" not in e}
    fast = {n: e for n, e in results.items() if e["vectorized"]}
    slow = {n: e for n, e in results.items() if not e["vectorized"]}
    parts = [
        "# Functions",
        f"{len(results)} ways to call apply_along_axis (`benchmarks/idioms.py`) in one run of "
        f"`benchmarks/functions.py`, {data['settings']['slices']:,} slices each: NumPy's loop, "
        "xpapply with the same function, and for some of them what a careful user writes for "
        "the whole array instead.",
        timing.machine_table(data["machine"]),
        "## In short",
        _summary(results, fast, slow),
    ]
    if fast:
        parts += [
            "## Without the loop",
            "Milliseconds. xpapply: the median of calls with a function that it has seen; first: "
            "the first call with a new function, planning included. Of functions that take more "
            f"than {SLOW * 1e6:.0f} µs per slice the loop ran over a sample, and its time is "
            "scaled (~).",
        ]
        head = ["", LOOP, OURS, "times faster", "first call", HAND, "xpapply / by hand"]
        for group in SHARES:
            rows = [_row(n, e) for n, e in fast.items() if e["group"] == group]
            if rows:
                parts += [f"### {group}", timing.table(head, rows)]
    if slow:
        rows = [
            [
                n,
                e["group"],
                digits(1e6 * e[LOOP] / e["slices"]),
                f"{e['overhead']:.3f}",
                f"{e['overheads'][0]:.3f} to {e['overheads'][1]:.3f}",
                digits(1e3 * e["planning"]),
                ("*" if data["expected"][n] else "") + e["why"],
            ]
            for n, e in slow.items()
        ]
        head = ["", "group", "µs per slice", "xpapply / NumPy", "range", "planning, ms", "why"]
        text = (
            "The loop as xpapply runs it against NumPy's own: the median of "
            f"{FALLBACK_REPEATS} ratios of calls one after the other, of about "
            f"{1e3 * FALLBACK_SECONDS:.0f} ms each. Planning is what `explain` takes for a "
            "new function. * was meant to run without the loop."
        )
        parts += ["## In the loop", text, timing.table(head, rows)]
    parts += _planning(fast)
    if data.get("small"):
        rows = [
            [n, digits(1e6 * e[OURS]), digits(1e6 * e[LOOP]), digits(e["ratio"])]
            for n, e in data["small"].items()
        ]
        text = f"{FEW} slices, microseconds per call, functions that xpapply has seen before."
        parts += ["## Few slices", text, timing.table(["", OURS, LOOP, "ratio"], rows)]
    if data.get("memory"):
        names = ("input", "output", OURS, HAND)
        rows = [
            [n, *(digits(e[k] / 2**20) if k in e else "" for k in names)]
            for n, e in data["memory"].items()
        ]
        text = "MiB that NumPy and Python allocate at the peak of a call, its output included."
        parts += ["## Memory", text, timing.table(["", *names], rows)]
    missing = {n: e["skipped"] for n, e in data["idioms"].items() if "skipped" in e}
    if missing:
        parts += ["## Not measured", "\n".join(f"- {n}: {why}" for n, why in missing.items())]
    return "\n\n".join(parts)


def _row(name: str, e: dict[str, Any]) -> list[str]:
    hand = e.get(HAND)
    return [
        name + (f" (**wrong**: {e['wrong']})" if "wrong" in e else ""),
        ("~" if "sample" in e else "") + digits(1e3 * e[LOOP]),
        digits(1e3 * e[OURS]),
        digits(e[LOOP] / e[OURS]),
        digits(1e3 * e["first"]),
        digits(1e3 * hand) if hand else "",
        digits(e[OURS] / hand) if hand else "",
    ]


def _summary(results: dict[str, Any], fast: dict[str, Any], slow: dict[str, Any]) -> str:
    lines = [
        f"{len(fast)} of {len(results)} run without the loop "
        f"({100 * len(fast) / max(1, len(results)):.0f} %)."
    ]
    if fast:
        ratios = {n: e[LOOP] / e[OURS] for n, e in fast.items()}
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        lines.append(
            f"Those are {digits(geometric_mean(list(ratios.values())))} times as fast as the "
            f"loop (geometric mean), {low} the least ({digits(ratios[low])}), {high} the most "
            f"({digits(ratios[high])})."
        )
        slower = [n for n, r in ratios.items() if r < 1]
        if slower:
            lines.append(f"Slower than the loop: {', '.join(slower)}.")
        firsts = {n: e[LOOP] / e["first"] for n, e in fast.items()}
        low = min(firsts, key=firsts.__getitem__)
        lines.append(
            f"The first call, planning included, is "
            f"{digits(geometric_mean(list(firsts.values())))} times as fast as the loop, "
            f"{low} the least ({digits(firsts[low])})."
        )
    hands = {n: e[OURS] / e[HAND] for n, e in fast.items() if HAND in e}
    if hands:
        high = max(hands, key=hands.__getitem__)
        lines.append(
            f"Against the expression by hand ({len(hands)} of them) xpapply takes "
            f"{digits(geometric_mean(list(hands.values())))} times as long (geometric mean), "
            f"{high} the most ({digits(hands[high])})."
        )
    if slow:
        overheads = {n: e["overhead"] for n, e in slow.items()}
        high = max(overheads, key=overheads.__getitem__)
        lines.append(
            f"In the loop xpapply takes {statistics.median(overheads.values()):.3f} times as "
            f"long as NumPy (median), {high} the most ({overheads[high]:.3f})."
        )
    said = [n for n, e in results.items() if e["explained"] != e["vectorized"]]
    if said:
        lines.append(f"`explain` says otherwise than what ran: {', '.join(said)}.")
    wrong = [n for n, e in results.items() if "wrong" in e]
    lines.append(f"**Wrong results: {', '.join(wrong)}.**" if wrong else "All results agree.")
    return "\n".join(f"- {line}" for line in lines)


def _planning(fast: dict[str, Any]) -> list[str]:
    if not fast:
        return []
    by_time = sorted(fast, key=lambda n: -fast[n]["planning"])
    middle = statistics.median(e["planning"] for e in fast.values())
    text = (
        f"The first call with a new function less a later one: {digits(1e3 * middle)} ms in the "
        "median. The longest, milliseconds:"
    )
    rows = [[n, digits(1e3 * fast[n]["planning"])] for n in by_time[:10]]
    return ["## Planning", text, timing.table(["", "planning"], rows)]


# --- main -----------------------------------------------------------------------------


def machine() -> dict[str, str]:
    found = timing.machine()
    with contextlib.suppress(metadata.PackageNotFoundError):
        found["scikit-learn"] = metadata.version("scikit-learn")
    return found


def available(idioms: Iterable[Idiom]) -> tuple[list[Idiom], dict[str, Any]]:
    """What can be measured here; what cannot, and why."""
    present, missing = [], {}
    for idiom in idioms:
        try:
            Case(idiom, FEW)
            present.append(idiom)
        except ImportError as error:
            missing[idiom.name] = {"group": idiom.group, "skipped": timing.reason(error)}
    return present, missing


def warm_up() -> None:
    """Parts of xpapply that are imported when they are needed; with functions of no idiom."""
    for f in (lambda v: v + 1, lambda v: "x", np.trace):
        with contextlib.suppress(Exception):
            xpapply.apply_along_axis(f, 1, np.ones((2000, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=SLICES)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} slices, no files")
    parser.add_argument("--only", default="", help="idioms whose names match, no files")
    parser.add_argument("--out", type=Path, default=timing.RESULTS)
    parser.add_argument("--render", action="store_true", help="the text again, from the JSON")
    args = parser.parse_args()
    if args.render:
        timing.save("functions", timing.load("functions", args.out), render, args.out)
        return
    slices = QUICK if args.quick else args.slices
    data: dict[str, Any] = {"machine": machine(), "settings": {"slices": slices}}
    chosen = [i for i in IDIOMS if re.search(args.only, i.name)]
    data["expected"] = {i.name: i.vectorizes for i in chosen}
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        present, data["idioms"] = available(chosen)
        warm_up()
        for idiom in present:
            try:
                found = measure(idiom, slices)
            except Exception as error:
                found = {"group": idiom.group, "skipped": timing.reason(error)}
            data["idioms"][idiom.name] = found
            print(f"{idiom.name}: {_line(found)}", flush=True)
        works = [i for i in present if "skipped" not in data["idioms"][i.name]]
        data["small"] = small([i for i in works if i.name in SMALL], 9 if args.quick else 31)
        data["memory"] = memory([i for i in works if i.name in MEMORY], slices)
    partial = args.quick or args.only
    timing.save("functions", data, render, None if partial else args.out)
    print(render(data))


def _line(found: dict[str, Any]) -> str:
    if "skipped" in found:
        return found["skipped"]
    if "overhead" in found:
        return f"loop, {found['overhead']:.3f} of NumPy's: {found['why']}"
    wrong = f" WRONG: {found['wrong']}" if "wrong" in found else ""
    return f"{digits(found[LOOP] / found[OURS])} times as fast as the loop{wrong}"


if __name__ == "__main__":
    main()
