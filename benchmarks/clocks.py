"""Clocks, and what a call takes of memory."""

from __future__ import annotations

import math
import re
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
Contexts = Mapping[str, Callable[[], AbstractContextManager]]


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def summary(times: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(times), "min": min(times), "repeats": len(times)}


def many(call: Call, count: int) -> Call:
    """`count` calls, for those too short for the clock."""

    def calls() -> None:
        for _ in range(count):
            call()

    return calls


def rest(duration: float) -> Call:
    """Threads of the last call may still be spinning."""
    return lambda: time.sleep(duration)


def in_turns(
    calls: Mapping[str, Call],
    repeats: int,
    pause: Call = lambda: None,
    clock: Callable[[Call], float] = seconds,
    contexts: Contexts | None = None,
    patience: float = math.inf,
) -> dict[str, list[float]]:
    """Seconds of every call, one after the other, again and again, with a `pause` before each.

    What disturbs the machine for a while so disturbs all of them. After `patience` seconds
    nothing is repeated more than three times.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    start = time.perf_counter()
    for k in range(repeats):
        if k >= 3 and time.perf_counter() - start > patience:
            break
        for name, call in calls.items():
            with (contexts or {}).get(name, nullcontext)():
                pause()
                times[name].append(clock(call))
    return times


def per_call(
    calls: Mapping[str, Call],
    count: int,
    repeats: int,
    pause: Call,
    contexts: Contexts | None = None,
) -> dict[str, dict[str, Any]]:
    """Microseconds of the host per call, by batches of `count`; why not, for those that fail."""
    found: dict[str, dict[str, Any]] = {}
    batches = {}
    for name, call in calls.items():
        batch = many(call, count)
        try:
            with (contexts or {}).get(name, nullcontext)():
                batch()
                batch()
            batches[name] = batch
        except Exception as problem:
            found[name] = {"skipped": reason(problem)}
    for name, times in in_turns(batches, repeats, pause, contexts=contexts).items():
        found[name] = summary([1e6 * t / count for t in times])
    return found


def reason(error: BaseException) -> str:
    """One line for a table, without paths."""
    text = (str(error).strip().splitlines() or [""])[0]
    text = re.sub(r"(/[\w.+-]+){2,}/?", "...", text)
    return f"{type(error).__name__}: {text}"[:160].rstrip(": ")


# --- memory ---------------------------------------------------------------------------


def traced_peak(call: Call) -> tuple[int, Any]:
    """Bytes that NumPy and Python allocate at the peak of a call, its result included; the result.

    NumPy reports to tracemalloc.
    """
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def resident_peak(call: Call) -> int:
    """Bytes that a call adds to this process at its peak, its result included."""

    def status(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))

    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    result = call()
    return status("VmHWM") - before + 0 * (result is None)
