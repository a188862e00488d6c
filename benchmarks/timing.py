"""What both scripts share: clocks, the machine, tables, files of results."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
sys.path.insert(0, str(ROOT))  # the checkout, installed or not

Call = Callable[[], Any]


# --- clocks ---------------------------------------------------------------------------


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def summary(times: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(times), "min": min(times), "repeats": len(times)}


def interleaved(calls: Mapping[str, Call], repeats: int, rest: float) -> dict[str, list[float]]:
    """Seconds of every call, one after the other, again and again.

    What disturbs the machine for a while so disturbs all of them. Between two
    calls it rests, because threads of the last one may still be spinning.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            time.sleep(rest)
            times[name].append(seconds(call))
    return times


def many(call: Call, count: int) -> Call:
    """`count` calls, for those too short for the clock."""

    def calls() -> None:
        for _ in range(count):
            call()

    return calls


# --- what a network costs -------------------------------------------------------------


def widths(name: str) -> tuple[int, ...]:
    """Of a network by its name: ``"16-32-32-1 ReLU"``."""
    return tuple(int(n) for n in name.split()[0].split("-"))


def inner(rows: int) -> int:
    """Slices behind a middle axis; the others stand before it."""
    return math.gcd(rows, 1024)


def flop(widths: Sequence[int], rows: int) -> int:
    """Of the products of linear layers alone."""
    return 2 * rows * sum(a * b for a, b in itertools.pairwise(widths))


def traffic(widths: Sequence[int], rows: int) -> int:
    """Bytes, if every slice is read once and every result written once, in float32."""
    return 4 * rows * (widths[0] + widths[-1])


# --- where and with what --------------------------------------------------------------

DISTRIBUTIONS = (
    *("numpy", "scipy", "torch", "cupy", "cupy-cuda12x", "cupy-cuda13x", "jax", "jaxlib"),
    *("onnx", "onnxruntime", "onnxruntime-gpu", "triton"),
)


def machine() -> dict[str, str]:
    """Processor and versions; nothing that names the machine or its user."""
    import xpapply

    found = {
        "date": datetime.date.today().isoformat(),
        "processor": f"{_processor()}, {cores()} cores usable{_load()}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "xpapply": f"{xpapply.__version__}{_commit()}",
    }
    for name in DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    with contextlib.suppress(OSError):
        match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def _load() -> str:
    """What else ran while this began: numbers of a busy machine are worth little."""
    return f", load {os.getloadavg()[0]:.2f} at the start" if hasattr(os, "getloadavg") else ""


def _commit() -> str:
    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "xpapply")
        return f" ({git('rev-parse', '--short', 'HEAD')}{', modified' if changed else ''})"
    except (OSError, subprocess.CalledProcessError):
        return ""


def reason(error: BaseException) -> str:
    """One line for a table, without paths."""
    text = (str(error).strip().splitlines() or [""])[0]
    text = re.sub(r"(/[\w.+-]+){2,}/?", "...", text)
    return f"{type(error).__name__}: {text}"[:160].rstrip(": ")


# --- tables ---------------------------------------------------------------------------


def digits(x: float | None, n: int = 3) -> str:
    """`n` significant digits, no exponent."""
    if x is None:
        return ""
    if not math.isfinite(x) or x == 0:
        return str(x)
    decimals = n - 1 - math.floor(math.log10(abs(x)))
    return f"{round(x, decimals):,.{max(0, decimals)}f}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table: the first column is text, the others are numbers."""
    head = list(head)
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def grid(
    results: Mapping[str, Mapping[str, Mapping[str, Any]]],
    methods: Iterable[str],
    cell: Callable[[str, Mapping[str, Any]], str],
) -> str:
    """A row per method, a column per network; ``cell(network, entry)`` says what stands there."""
    rows = []
    for method in methods:
        cells = [cell(n, found[method]) if method in found else "" for n, found in results.items()]
        if any(cells):
            rows.append([method, *cells])
    return table(["", *results], rows)


def skipped(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """What was not measured or needs a remark, and why; one line per reason."""
    why: dict[tuple[str, str], list[str]] = {}
    for network, found in results.items():
        for method, entry in found.items():
            for kind in ("skipped", "note"):
                if kind in entry:
                    word = "not measured: " if kind == "skipped" else ""
                    why.setdefault((method, word + entry[kind]), []).append(network)
    return "\n".join(
        f"- {method} ({'all networks' if len(nets) == len(results) else ', '.join(nets)}): {text}"
        for (method, text), nets in why.items()
    )


def machine_table(found: Mapping[str, str]) -> str:
    return table(["", ""], ([name, text] for name, text in found.items())).replace("---:", "---")


# --- files ----------------------------------------------------------------------------


def save(name: str, data: Any, render: Callable[[Any], str], folder: Path | None) -> None:
    """``name.json`` and what `render` makes of it, ``name.md``; nothing without a folder."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # the numbers first: a mistake in the text must not lose them
    texts = {".json": lambda: json.dumps(data, indent=1), ".md": lambda: render(data)}
    for suffix, text in texts.items():
        half = folder / f"{name}{suffix}.part"
        half.write_text(text() + "\n", encoding="utf-8")
        half.replace(folder / f"{name}{suffix}")


def load(name: str, folder: Path) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
