"""Functions with loops over elements: xpapply beside NumPy's loop and numba.

First calls come first, in processes of their own, forked from one that has run nothing. Then the
rates of all, in one process: numba takes seconds to begin. It compiles the function, and a loop
over the rows around it, for one thread and for all of them.
"""

from __future__ import annotations

import compileall
import gc
import math
import os
import statistics
import tempfile
import time
import types
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

import xpapply
from xpapply.functions import cache

from . import clocks, devices, runner
from .loop_rows import Row, rows
from .loops_report import FIRST, LOOP, NUMBA, NUMBAS, OURS, OURS_ALL, VERY_FIRST
from .never_slower import apart, spent

TURNS = 9
BATCH = 8e-3
"""Seconds of calls between two looks at the clock."""
QUICK = 20
"""One of so many slices."""
LATE = 120.0
"""Seconds after which a function is given up."""
SETTLES = 1.0
"""Seconds of calls, on one thread, before rates are taken: numba has compiled for as long."""
TRIES = 60
"""Calls after which a function that has not been compiled is not."""


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    compileall.compile_dir(str(runner.ROOT / "xpapply"), quiet=2)  # as an installed package is
    return {"settings": {"cores": runner.cores()}, "functions": {}, "first": {}}


def measure(run: runner.Run) -> None:
    """First calls of all, then their rates."""
    part = QUICK if run.quick else 1
    chosen = run.chosen(rows())
    gc.collect()
    gc.freeze()  # so that a collection in a process that is forked copies nothing
    for row in chosen:
        run.part(f"first/{row.name}", partial(first, row, part), line_of_first)
    numba = loaded_numba()
    warnings.simplefilter("ignore")
    for row in chosen:
        task = partial(rates, row, part, 3 if run.quick else TURNS, numba)
        run.part(f"functions/{row.name}", task, line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a function."""
    if "skipped" in found:
        return str(found["skipped"])
    said = f"{found[LOOP] / found[OURS]:.0f} times as fast as the loop"
    if NUMBA in found:
        said += f", {found[NUMBA] / found[OURS]:.2f} as fast as numba"
    return said + "".join(f", {found[k]}" for k in ("why", "wrong") if k in found)


def line_of_first(found: dict[str, Any]) -> str:
    """What a run says of first calls."""
    if "skipped" in found:
        return str(found["skipped"])
    loop, one = found[FIRST]
    return f"{1e3 * one:.0f} ms, the loop {1e3 * loop:.0f} ms"


# --- one function ---------------------------------------------------------------------


class Case:
    """A function, its arrays, and the ways to call it."""

    def __init__(self, row: Row, part: int = 1) -> None:
        self.row = row
        self.count = max(8, row.count // part)
        self.arrays = row.data(np.random.default_rng(0), self.count)

    def loop(self) -> Any:
        """NumPy's."""
        return self._called(np.apply_along_axis, np.vectorize)

    def ours(self) -> Any:
        """The same of xpapply, under the options in force."""
        return self._called(xpapply.apply_along_axis, xpapply.vectorize)

    def plan(self) -> Any:
        """What `explain` says."""
        explained = lambda f, **how: xpapply.vectorize(f, **how).explain  # noqa: E731
        return self._called(xpapply.explain, explained)

    def _called(self, along: Callable[..., Any], vectorize: Callable[..., Any]) -> Any:
        signature = self.row.signature
        if signature is None:
            return along(self.row.f, 1, *self.arrays)
        return vectorize(self.row.f, signature=signature or None)(*self.arrays)

    def compiled(self) -> Any:
        """The compiled loop that is remembered for it; None if there is none."""
        from xpapply.planning.python.typed_loop import TypedLoop

        known = cache.cache_of(self.row.f)[0]
        return next((x for x in known.traced.values() if type(x) is TypedLoop), None)

    def why_not(self) -> str:
        """Why it is not compiled."""
        try:
            with xpapply.options(engine="cpu"):
                plan = self.plan()
        except Exception as problem:
            return clocks.reason(problem)
        return "" if self.compiled() else "; ".join(plan.reasons) or plan.engine


# --- first calls ----------------------------------------------------------------------


def first(row: Row, part: int) -> dict[str, Any]:
    """CPU seconds of the loop and of a first call: after other functions, and as the very first."""
    found = apart(partial(first_of, row, part, False), LATE)
    if "skipped" not in found:
        found |= apart(partial(first_of, row, part, True), LATE)
    return found


def other(v: np.ndarray) -> float:
    """A function with a loop, which is compiled before."""
    s = 0.0
    for x in v:
        s = s + x if x > 0 else 0.5 * s
    return s


def smoothed(v: np.ndarray) -> np.ndarray:
    """A function with a loop for numba, which is compiled before."""
    out, kept = np.zeros_like(v), []
    for i in range(1, len(v)):
        kept.append(v[i])
        out[i] = 0.5 * out[i - 1] + abs(v[i]) + len(kept)
    return out


@xpapply.options(fallback="silent")
def first_of(row: Row, part: int, is_first: bool) -> dict[str, Any]:
    """CPU seconds of a first call beside those of the loop, in this process."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XPAPPLY_CACHE_DIR"] = folder  # no kernel of another process
        if not is_first:
            with xpapply.options(engine="cpu"):
                xpapply.apply_along_axis(other, 1, np.ones((50, 5)))
        case = Case(row, part)
        took = [spent(case.loop), spent(case.ours)]
        if is_first:
            return {VERY_FIRST: took}
        found: dict[str, Any] = {FIRST: took}
        cache.clear()
        os.environ["XPAPPLY_CACHE_DIR"] = ""
        begin = time.process_time()
        why = case.why_not()
        made = case.compiled()
        if not why and made is not None:
            made.compiled.compile()
            found |= {"compiling": time.process_time() - begin}
            found |= {"instructions": made.compiled.made.size}
        return found


# --- rates ----------------------------------------------------------------------------


@xpapply.options(fallback="silent")
def rates(row: Row, part: int, turns: int, numba: Any) -> dict[str, Any]:
    """Seconds of all ways, and whether their results are those of the loop."""
    case = Case(row, part)
    found: dict[str, Any] = {"group": row.group, "slices": case.count}
    took = []
    for _ in range(2):
        begin = time.perf_counter()
        want = case.loop()
        took.append(time.perf_counter() - begin)
    found[LOOP] = min(took)
    got = waited_for(case, part)
    made = case.compiled()
    if made is None:
        found["why"] = case.why_not() or "its loop takes less time than compiling"
        found["why"] = found["why"].replace("|", "\\|")
    else:
        found["marked"] = made.looped / case.count
    if bits(got) != bits(want):
        found["wrong"] = "WRONG: other results than the loop's"
    calls: dict[str, clocks.Call] = dict.fromkeys((OURS, OURS_ALL), case.ours)
    contexts = {OURS: partial(xpapply.options, threads=1)}
    try:
        calls |= numbas(case, want, found, numba)
    except Exception as problem:
        found["numba"] = clocks.reason(problem)
    counts = {}
    for name, call in calls.items():
        with contexts.get(name, nullcontext)():
            call()
            counts[name] = max(1, math.ceil(BATCH / clocks.seconds(call)))
    many = {name: clocks.many(call, counts[name]) for name, call in calls.items()}
    pause = devices.Cpu().pause
    times = clocks.in_turns(many, turns, pause, contexts=contexts, patience=4.0)
    for name, t in times.items():
        found[name] = statistics.median(t) / counts[name]
    for mine, theirs in NUMBAS.items():
        if theirs in times:
            pairs = zip(times[mine], times[theirs], strict=False)
            factor = counts[mine] / counts[theirs]
            found[f"{mine} / {theirs}"] = statistics.median(b / a * factor for a, b in pairs)
    return found


@xpapply.options(threads=1)
def waited_for(case: Case, part: int) -> Any:
    """What a call gives once compiling has paid, and calls have gone on for a while."""
    for _ in range(TRIES):
        got = case.ours()
        if case.compiled() is not None:
            return settled(case, SETTLES / part)
    return got


def settled(case: Case, seconds: float) -> Any:
    """What a call gives once such calls have gone on for a while: slices go side by side then."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        case.ours()
    return case.ours()


def bits(x: Any) -> tuple[Any, ...]:
    """What two results have alike that are equal bit for bit, but for the bits of NaN."""
    x = np.asarray(x)
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), np.nan, x)
    return x.dtype.str, x.shape, x.tobytes()


# --- numba ----------------------------------------------------------------------------


def loaded_numba() -> Any:
    """The library, with what its first function loads; the reason where there is none."""
    try:
        import numba
    except ImportError as problem:
        return clocks.reason(problem)
    x = np.ones((4, 4))
    for loops in (False, True):  # the first functions of a process take 4 s
        numba.njit(over_rows(jitted(smoothed, numba), 1, numba), parallel=loops)(x, x)
    return numba


def numbas(case: Case, want: np.ndarray, found: dict[str, Any], numba: Any) -> dict[str, Any]:
    """The same for numba: one thread, and all of them; what compiling takes, and its results."""
    if isinstance(numba, str):
        raise RuntimeError(numba)
    f = jitted(case.row.f, numba)
    calls = {}
    for name, loops in zip(NUMBAS.values(), (False, True), strict=True):
        over = numba.njit(over_rows(f, len(case.arrays), numba), parallel=loops)
        out = np.empty_like(want)
        begin = time.process_time()
        over(out, *case.arrays)
        took = time.process_time() - begin
        found.setdefault("numba first", took)

        def call(over: Any = over) -> np.ndarray:
            result = np.empty_like(want)
            over(result, *case.arrays)
            return result

        if bits(call()) != bits(want):
            differ = np.flatnonzero(~((out == want) | ((out != out) & (want != want))).ravel())
            found["numba differs"] = f"{differ.size:,} of {want.size:,} numbers"
        calls[name] = call
    return calls


def jitted(f: Any, numba: Any) -> Any:
    """A function for numba, with the functions that it calls."""
    used = {n: f.__globals__[n] for n in f.__code__.co_names if n in f.__globals__}
    mine = {n: jitted(g, numba) for n, g in used.items() if isinstance(g, types.FunctionType)}
    again = types.FunctionType(f.__code__, {**f.__globals__, **mine}, f.__name__, f.__defaults__)
    again.__module__ = f.__module__
    return numba.njit(again)


def over_rows(f: Any, arrays: int, numba: Any) -> Any:
    """A loop over the rows of so many arrays."""
    given = [f"x{k}" for k in range(arrays)]
    text = f"def over(out, {', '.join(given)}):\n    for i in prange(len(out)):\n"
    text += f"        out[i] = f({', '.join(f'{x}[i]' for x in given)})\n"
    names = {"f": f, "prange": numba.prange}
    exec(text, names)
    return names["over"]
