"""What `xpapply.patch()` costs a call that falls back: the original's time is taken off."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import xpapply
from xpapply.loop import originals

from . import patched_doors, patched_tables, runner
from .patched_report import ORIGINAL, PATCHED, factor

Call = Callable[[], Any]
GROUP = 40
"""Calls between two looks at the clock."""
TURNS = 1000


def nothing(*v: Any) -> float:
    return 0.0


class Case:
    """A call, as the original and as what stands in its place while NumPy is patched."""

    def __init__(self, name: str, original: Call, patched: Call) -> None:
        self.name, self.original, self.patched = name, original, patched


def _along(name: str, arr: Any, f: Any = nothing) -> Case:
    def own() -> Any:
        return originals.apply_along_axis(f, 1, arr)

    return Case(name, own, lambda: np.apply_along_axis(f, 1, arr))


def _vectorize(name: str, *given: Any, **how: Any) -> Case:
    f = np.vectorize(partial(nothing) if how.pop("wrapped", False) else nothing, **how)
    return Case(name, lambda: originals.call_vectorize(f, *given), lambda: f(*given))


FEW, MORE = np.zeros((10, 4)), np.zeros((40, 4))

CASES = [
    _along("apply_along_axis, 10 slices", FEW),
    _along("apply_along_axis, 40 slices", MORE),
    _along("apply_along_axis, numpy.max", FEW, np.max),
    _along("apply_along_axis, functools.partial", FEW, partial(nothing)),
    _along("apply_along_axis, a list", FEW.tolist()),
    _vectorize("vectorize, a number", 1.0, otypes="d"),
    _vectorize("vectorize, 16 numbers", np.zeros(16), otypes="d"),
    _vectorize("vectorize, 160 numbers", MORE),
    _vectorize("vectorize, signature, 10 slices", FEW, FEW, signature="(n),(n)->()"),
    _vectorize("vectorize, signature, 40 slices", MORE, MORE, signature="(n),(n)->()"),
]


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    return {"settings": {"turns": 20 if run.quick else TURNS, "group": GROUP}, "cases": {}}


def measure(run: runner.Run) -> None:
    """All cases, each in a part of its own, and the ways that xarray and pandas have."""
    for case in run.chosen(CASES):
        run.part(f"cases/{case.name}", partial(timed, case, run.data["settings"]["turns"]), line)
    places, turns = (8, 3) if run.quick else (patched_doors.PLACES, patched_doors.TURNS)
    run.data["settings"] |= {"places": places, "most": patched_tables.MOST}
    for name in filter(re.compile(run.args.only).search, patched_doors.doors(2)):
        door = partial(patched_doors.timed, name, places, turns)
        run.part(f"doors/{name}", door, _said)
    for rows in patched_tables.SIZES[: 1 if run.quick else None]:
        for name in filter(re.compile(run.args.only).search, patched_tables.doors(1000)):
            door = partial(patched_tables.timed, name, rows, patched_tables.TURNS)
            run.part(f"tables/{rows}/{name}", door, _said)


def _said(entry: dict[str, Any]) -> str:
    return f"{factor(entry)} times as fast"


def line(found: dict[str, Any]) -> str:
    """What a run says of a case."""
    return f"{found['cost'] * 1e6:.2f} us more than {found[ORIGINAL] * 1e6:.1f}"


def timed(case: Case, turns: int) -> dict[str, Any]:
    """Both by turns; the cost is the median of the differences of turns beside each other."""
    found: dict[str, list[float]] = {ORIGINAL: [], PATCHED: []}
    with xpapply.patch() as patched:
        for _ in range(turns):
            for name, call in ((ORIGINAL, case.original), (PATCHED, case.patched)):
                begin = time.perf_counter()
                for _ in range(GROUP):
                    call()
                found[name].append((time.perf_counter() - begin) / GROUP)
    (row,) = patched.report.rows
    # one that the machine has held up is looked at again
    if row.calls != turns * GROUP or row.engines["loop"] < 0.99 * row.calls:
        raise RuntimeError(f"not all of them fell back: {row}")
    pairs = zip(found[PATCHED], found[ORIGINAL], strict=True)
    least = {name: min(seconds) for name, seconds in found.items()}
    return {**least, "cost": statistics.median(a - b for a, b in pairs)}
