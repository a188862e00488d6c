"""Every function beside NumPy's loop, in CPU time: no call of any may be dearer than a bound.

Each function is measured in processes of its own, forked from one that has loaded the libraries
and run other functions: as many slices as the loop takes 1, 20 and 200 ms for, and single calls of
1, 10 and 100 slices. The first call, and then seven in turns with NumPy; the time is that of the
process, threads that compile included. What is above a bound is measured again in a new process,
in three times as many turns, and counts if it is above it there too.
"""

from __future__ import annotations

import compileall
import contextlib
import gc
import math
import multiprocessing
import os
import random
import re
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import numpy as np

import xpapply
from xpapply.limits import LIMITS

from . import clocks, runner
from .never_slower_report import BESIDE, FIRST, LOOPS, OURS, SINGLE, SIZES, THEIRS, above
from .never_slower_rows import RANDOM, Case, Row, rows

REPEATS = 7
AGAIN = 3
"""Times as many for what was above a bound."""
WAITING = "of other threads"
"""The share of the loop's time that threads take which it did not begin."""
BATCH = 10e-3
"""Seconds of calls between two looks at the clock."""
CLEAR = 0.95
"""What has been below this share of the loop in three turns needs no more of them."""
PROBE = 5e-3
LATE = 60.0
"""Seconds after which a size is given up, and the function counts as above."""
FORK = multiprocessing.get_context("fork")


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    repeats = 3 if run.quick else run.args.repeats or REPEATS
    compileall.compile_dir(str(runner.ROOT / "xpapply"), quiet=2)  # as an installed package is
    warm_up(libraries=True)
    return {"settings": {"repeats": repeats, "seed": run.args.seed}, "rows": {}}


def warm_up(libraries: bool = False) -> None:
    """Functions that are no row: what is loaded for any function is loaded then."""
    if libraries:
        for name in ("scipy.optimize", "scipy.stats", "scipy.signal", "sklearn", "torch"):
            with contextlib.suppress(ImportError):
                __import__(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.random.default_rng(0).random((3000, 4))
        xpapply.apply_along_axis(lambda v: "x" + str(v[0])[:2], 1, x[:100])
        with LIMITS.set(first_loops=0.0):  # or they are too short for anything to be loaded
            xpapply.apply_along_axis(lambda v: 1 if v[0] > 2 else v.max(), 1, x)
            xpapply.vectorize(lambda a: a * 2 + 1)(x[:, 0])


def measure(run: runner.Run) -> None:
    """All rows, `--jobs` of them at a time."""
    settings, done = run.data["settings"], run.data["rows"]
    sizes = [SIZES[1], SIZES[3]] if run.quick else SIZES
    todo = run.chosen(mixed(rows(settings["seed"], 4 if run.quick else RANDOM)))
    todo = [row for row in todo if done.get(row.name, {"skipped": ""}).get("skipped") is not None]
    gc.collect()
    gc.freeze()  # so that a collection in a process that is forked copies nothing
    going: dict[Any, tuple[Row, Any]] = {}
    while going or (todo and run.left() > 0):
        while todo and len(going) < max(1, run.args.jobs) and run.left() > 0:
            row = todo.pop(0)
            task = partial(measured, row, sizes, settings["repeats"], run.args.kernels)
            process, end = forked(task)
            going[end] = row, process
        for end in wait(list(going)):
            row, process = going.pop(end)
            found = answer(process, end, math.inf)
            done[row.name] = {"group": row.group, **found}
            run.say(f"{row.name}: {line(found)}")
        run.save()
    for row in todo:
        done[row.name] = {"group": row.group, "skipped": runner.NO_TIME}


def mixed(found: list[Row]) -> list[Row]:
    """Rows of all groups in turns, so that a run that ends early has some of each."""
    count = Counter(row.group for row in found)
    seen: Counter[str] = Counter()
    place = {}
    for row in found:
        seen[row.group] += 1
        place[row.name] = seen[row.group] / count[row.group]
    return sorted(found, key=lambda row: place[row.name])


def line(found: dict[str, Any]) -> str:
    """What a run says of a function."""
    if "skipped" in found:
        return str(found["skipped"])
    told = [f"{size} {_times(e)}" for size, e in found["sizes"].items()]
    return ", ".join(told)


def _times(e: dict[str, Any]) -> str:
    if "skipped" in e:
        return f"ABOVE ({e['skipped']})"
    what = f"{e[OURS] / e[THEIRS]:.2f}"
    return what + "".join(f" ABOVE ({kind})" for kind in e.get("above", ()))


# --- processes ------------------------------------------------------------------------


def forked(task: Callable[[], dict[str, Any]]) -> tuple[Any, Any]:
    """A process that does a task, and the end where its answer comes."""
    mine, theirs = FORK.Pipe(duplex=False)

    def run() -> None:
        mine.close()
        try:
            found = task()
        except BaseException as problem:
            found = {"skipped": clocks.reason(problem)}
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            theirs.send(found)
        theirs.close()

    process = FORK.Process(target=run)
    process.start()
    theirs.close()
    return process, mine


def answer(process: Any, end: Any, seconds: float) -> dict[str, Any]:
    """What a process has found; why there is nothing, if there is not."""
    found: dict[str, Any] = {"skipped": f"it took more than {seconds:g} s"}
    if end.poll(None if seconds == math.inf else seconds):
        try:
            found = end.recv()
        except EOFError:
            found = {"skipped": "the process died"}
    else:
        process.kill()
    end.close()
    process.join()
    return found


def apart(task: Callable[[], dict[str, Any]], seconds: float = LATE) -> dict[str, Any]:
    """The answer of a task in a process of its own."""
    return answer(*forked(task), seconds)


# --- one function ---------------------------------------------------------------------


def measured(row: Row, sizes: tuple[str, ...], repeats: int, folder: Any) -> dict[str, Any]:
    """A function at all sizes, in a process that has not given it to xpapply."""
    warnings.simplefilter("ignore")
    # a process that has used torch's threads hangs in those that are forked from it
    probed = apart(lambda: {"seconds": probe(row)})
    if "skipped" in probed:
        return probed
    per_slice = probed["seconds"]
    found: dict[str, Any] = {"sizes": {}}
    for size in sizes:
        n = SINGLE[size] if size in SINGLE else max(1, round(LOOPS[size] / per_slice))
        entry = apart(partial(timed, row, n, size, repeats, folder))
        kinds = above(entry)
        if kinds:
            told = apart(partial(why, row, n))
            alone = _waits(entry) or told.get("engine") == "loop"
            again = apart(partial(timed, row, n, size, AGAIN * repeats, folder, alone))
            entry, kinds = worse(entry, again), [kind for kind in kinds if kind in above(again)]
        if kinds:
            entry |= {"above": kinds, **told}
        found["sizes"][size] = entry
    return found


def _waits(entry: dict[str, Any]) -> bool:
    """Whether threads of BLAS, which wait for more work, take part of the loop's time.

    They do so for milliseconds, and whose call they wait in is chance: neither has them then. Nor
    where the loop is what runs: it calls BLAS as often, and the caller waits for its threads.
    """
    return bool(entry.get(WAITING, 0.0) > 0.02)


def worse(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Of two measurements the one that is nearer to the bounds, which is what it counts by."""
    if "skipped" in a or "skipped" in b:
        return b if "skipped" in a else a
    return min(a, b, key=lambda e: (e[OURS] / e[THEIRS], e[FIRST]))


def probe(row: Row) -> float:
    """Seconds of NumPy's loop for a slice."""
    n = 4
    while True:
        case = row.make(n)
        case.loop(*copies(case))  # what it loads
        seconds = min(spent(partial(case.loop, *copies(case))) for _ in range(2))
        if seconds > PROBE or n >= 1 << 20:
            return seconds / case.slices
        n *= 4


def copies(case: Case) -> list[Any]:
    """The arrays, into which the function may write."""
    return [np.copy(x, order="K") if isinstance(x, np.ndarray) else x for x in case.arrays]


def spent(call: clocks.Call) -> float:
    """Seconds of all threads of this process."""
    np.random.seed(0)
    random.seed(0)
    gc.collect()  # or the one pays for what the other has left
    begin = time.process_time()
    call()
    return time.process_time() - begin


def timed(
    row: Row, n: int, size: str, repeats: int, folder: Any, alone: bool = False
) -> dict[str, Any]:
    """Seconds of the first call, the others, and NumPy's loop; `alone`: BLAS is one thread."""
    os.environ["XPAPPLY_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)  # no kernel of another process
    if alone:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1, "blas")
    case = row.make(n)
    warm_up()
    many = np.ones((256, 256))
    many @ many  # BLAS makes its threads anew in a process that was forked; they turn for a while
    time.sleep(0.1)
    single = size in SINGLE
    given = copies(case)

    def batch(call: Callable[..., Any], count: int) -> float:
        if single:
            return spent(clocks.many(lambda: call(*given), count)) / count
        total = 0.0
        for _ in range(count):
            total += spent(partial(call, *copies(case)))
        return total / count

    results: dict[str, Any] = {}
    looped = partial(_kept, results, THEIRS, case.loop)
    ours = partial(_kept, results, OURS, case.ours)
    gc.collect()
    before = spent(partial(looped, *copies(case)))
    first = spent(partial(ours, *copies(case)))
    found = {"slices": case.slices, FIRST: first}
    found |= {} if row.name in _CHANGING else differs(results)
    counts = {
        case.loop: max(1, math.ceil(BATCH / max(before, 1e-7))),
        case.ours: max(1, math.ceil(BATCH / max(batch(case.ours, 1), 1e-7))),
    }
    if single:  # once more: the first of them may have loaded something
        counts = {call: max(1, math.ceil(BATCH / max(batch(call, 3), 1e-7))) for call in counts}
    times: dict[Any, list[float]] = {case.loop: [], case.ours: []}
    own, whole = time.thread_time(), time.process_time()
    batch(case.loop, counts[case.loop])
    own, whole = time.thread_time() - own, time.process_time() - whole
    for k in range(repeats):
        for call in sorted(times, key=lambda call: (call is case.ours) == bool(k % 2)):
            times[call].append(batch(call, counts[call]))
        pairs = zip(times[case.ours], times[case.loop], strict=True)
        if k == 2 and all(a < CLEAR * b for a, b in pairs):
            break
    found |= {
        THEIRS: statistics.median(times[case.loop]),
        BESIDE: times[case.loop][0],
        OURS: statistics.median(times[case.ours]),
        WAITING: max(0.0, 1 - own / whole),
        "all later": sum(times[case.ours]) / sum(times[case.loop]),
    }
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in found.items()} | {
        "numbers": row.numbers and n == 1
    }


def _kept(results: dict[str, Any], name: str, call: Callable[..., Any], *arrays: Any) -> None:
    results[name] = call(*arrays)


_CHANGING = ("counts_calls", "resampled_interval")
"""Functions that count their calls or draw numbers: no call gives what the one before gave."""


def differs(results: dict[str, Any]) -> dict[str, Any]:
    """What is not as in NumPy's loop, but for rounding, which sums of large numbers tell."""
    got, want = results[OURS], results[THEIRS]
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for a, b in zip(got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return {"wrong": f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"}
        if a.dtype.kind in "fc":
            # also where numbers of torch have become Python's
            single = np.array_equal(b, b.astype("F"), equal_nan=True)
            rtol = 1e-4 if single or a.dtype.itemsize < 8 else 1e-7
            scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            same = np.allclose(a, b, rtol=rtol, atol=rtol * scale, equal_nan=True)
        else:
            same = np.array_equal(a, b)
        if not same:
            return {"wrong": "other values"}
    return {}


def why(row: Row, n: int) -> dict[str, Any]:
    """What explain says of a function that is above a bound."""
    case = row.make(n)
    plan = case.explain(*case.arrays)
    text = " ".join("; ".join(plan.reasons).split())
    text = re.sub(r"(/[\w.+-]+){2,}/?", "...", text).replace("|", "\\|")
    return {"engine": plan.engine, "why": text if len(text) <= 160 else text[:157] + "..."}
