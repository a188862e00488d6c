"""The methods of `methods` on a GPU: xpapply beside NumPy's loop on the host.

Slices are in a CuPy array, and the function fetches its slice and computes on the host's numbers,
which is compiled for the GPU in one launch. What is not is measured for a few slices alone.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import xpapply

from . import gpu_functions, methods, runner
from .gpu_methods_report import FIRST, LOOP, OURS
from .method_rows import Method, rows

FEW, LOOPED = 2000, 40
"""Slices of a quick run, and of a method that is not one launch."""
MOST = 3e8
"""Bytes of slices, at most: more of them take no other time each."""
OF_LOOP = 100
"""Slices that NumPy's loop does, and seconds, after which it does no more."""
SECONDS = 1.0


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    return {"settings": {"of the loop": OF_LOOP}, "methods": {}}


def measure(run: runner.Run) -> None:
    """All methods, one after the other."""
    warnings.simplefilter("ignore")
    with xpapply.options(fallback="silent"):
        data = methods.Data()
        for row in run.chosen(rows()):
            run.part(f"methods/{row.name}", partial(_one, run, row, data), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a method."""
    if "skipped" in found:
        return str(found["skipped"])
    rate = found["slices"] / found[OURS]
    return f"{rate:.2g} a second, {rate * found[LOOP]:,.0f} times the loop; {found['engine']}"


def _one(run: runner.Run, row: Method, data: methods.Data) -> dict[str, Any]:
    xp = run.on.xp
    one = sum(a.nbytes for a in row.data(np.random.default_rng(0), 2)) / 2
    count = FEW if run.quick else min(row.count, int(MOST / one))
    if run.args.slices:
        count = min(count, run.args.slices)
    given = data(row, count)
    begin = time.perf_counter()  # asking for the plan compiles the kernel
    call, plan = _ways(xp, row, [xp.asarray(a) for a in given])
    if plan().engine == "loop":
        count, given = LOOPED, tuple(a[:LOOPED] for a in given)
        call, plan = _ways(xp, row, [xp.asarray(a) for a in given])
    row.begin()
    y = call()
    run.on.synchronize()
    found: dict[str, Any] = {"group": row.group, "says": row.says, "slices": count}
    found[FIRST] = time.perf_counter() - begin
    ran = plan()  # the first call may have told that the host is to take all slices
    reasons = "; ".join(ran.reasons)[:300]
    found["engine"] = "; ".join(ran.kernels) or f"{ran.engine}: {reasons}"
    row.begin()
    want, took = _of_loop(row, given)
    got = gpu_functions._host(y[: len(want)])
    found |= {LOOP: took, "looped": len(want)} | methods.beside_the_loop(want, got)
    found[OURS] = gpu_functions._seconds(run, call)
    return found


def _ways(xp: Any, row: Method, x: list[Any]) -> tuple[Any, Any]:
    """The call of a method for slices on a device, and what gives its plan."""
    f = row.f
    if xp is np:  # a dry run
        alone, pair = f, f
    else:
        alone = lambda v: xp.asarray(f(v.get()))  # noqa: E731
        pair = lambda a, b: xp.asarray(f(a.get(), b.get()))  # noqa: E731
    if row.signature is None:
        along = alone, 1, x[0]
        return partial(xpapply.apply_along_axis, *along), partial(xpapply.explain, *along)
    if row.signature == "":
        made = xpapply.vectorize(row.f)
    else:
        made = xpapply.vectorize(pair, signature=row.signature)
    return partial(made, *x), partial(made.explain, *x)


def _of_loop(row: Method, given: Any) -> tuple[np.ndarray, float]:
    """What NumPy's loop finds of some slices, and seconds of one."""
    results = []
    begin = time.perf_counter()
    for these in zip(*(a[:OF_LOOP] for a in given), strict=True):
        results.append(np.asarray(row.f(*these)))
        if time.perf_counter() - begin > SECONDS:
            break
    return np.stack(results), (time.perf_counter() - begin) / len(results)
