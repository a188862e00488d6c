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


def in_turns(
    calls: Mapping[str, Call],
    repeats: int,
    pause: Call = lambda: None,
    clock: Callable[[Call], float] = seconds,
    contexts: Contexts | None = None,
    patience: float = math.inf,
) -> dict[str, list[float]]:
    """Seconds of every call, one after the other, again and again, with a `pause` before each.

    What disturbs the machine for a while so disturbs all of them. What has taken `patience`
    seconds is not repeated any more, but for the first three times.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(repeats):
        for name, call in calls.items():
            if k >= 3 and sum(times[name]) > patience:
                continue
            with (contexts or {}).get(name, nullcontext)():
                pause()
                times[name].append(clock(call))
    return times


def reason(error: BaseException) -> str:
    """One line for a table, without paths."""
    text = (str(error).strip().splitlines() or [""])[0]
    text = re.sub(r"(/[\w.+-]+){2,}/?", "...", text)
    return f"{type(error).__name__}: {text}"[:160].rstrip(": ")


# --- memory ---------------------------------------------------------------------------


def traced_peak(call: Call) -> int:
    """Bytes that NumPy and Python allocate at the peak of a call, its result included."""
    tracemalloc.start()  # NumPy reports to it
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def resident_peak(call: Call) -> int:
    """Bytes that a call adds to this process at its peak, its result included."""

    def status(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))

    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    call()
    return status("VmHWM") - before
