"""The problems of `solvers` on a GPU: xpapply beside SciPy in the loop.

Slices are in a CuPy array of float64, and the function fetches its slice, as SciPy wants NumPy's.
SciPy has slices that are on the host already, on one core; so it has data one bit away, which shows
what is lost in any case.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import xpapply

from . import gpu_functions, runner, solvers
from .gpu_solvers_report import FIRST, ITSELF, OURS, SCIPY
from .solver_rows import ROWS, SolverRow

SLICES, FEW = 1_000_000, 2000
OF_SCIPY = 200
"""Slices that SciPy does."""


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    slices = run.args.slices or (FEW if run.quick else SLICES)
    return {"settings": {"slices": slices, "of scipy": OF_SCIPY}, "functions": {}}


def measure(run: runner.Run) -> None:
    """All rows, one after the other."""
    warnings.simplefilter("ignore")
    with xpapply.options(fallback="silent"):
        for row in run.chosen(ROWS):
            run.part(f"functions/{row.name}", partial(_one, run, row), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a row."""
    if "skipped" in found:
        return str(found["skipped"])
    rate = found["slices"] / found[OURS]
    return f"{rate:.2g} a second, {rate * found[SCIPY]:,.0f} times SciPy's loop; {found['engine']}"


def _one(run: runner.Run, row: SolverRow) -> dict[str, Any]:
    xp, count, f = run.on.xp, run.data["settings"]["slices"], row.f
    given = row.data(np.random.default_rng(0), count)
    x = [xp.asarray(a) for a in given]
    if row.signature == "":
        made = xpapply.vectorize(f)
        call = lambda: made(*x)  # noqa: E731
        explained = lambda: made.explain(*x)  # noqa: E731
    else:
        on_device = hasattr(x[0], "get")  # but in a dry run

        def fetched(v: Any) -> Any:
            return xp.asarray(f(v.get() if on_device else v))

        call = lambda: xpapply.apply_along_axis(fetched, 1, x[0])  # noqa: E731
        explained = lambda: xpapply.explain(fetched, 1, x[0])  # noqa: E731
        fetched(x[0][0])
    run.on.synchronize()
    begin = time.perf_counter()
    y = call()
    run.on.synchronize()
    found: dict[str, Any] = {"group": row.group, "says": row.says, "slices": count}
    found[FIRST] = time.perf_counter() - begin
    plan = explained()
    found["engine"] = "; ".join(plan.kernels) or f"{plan.engine}: {plan.reasons[:1]}"
    some = np.linspace(0, count - 1, min(count, OF_SCIPY)).astype(int)
    begin = time.perf_counter()
    want = _of_scipy(f, [a[some] for a in given])
    found[SCIPY] = (time.perf_counter() - begin) / len(some)
    found |= solvers.beside(row, want, gpu_functions._host(y[xp.asarray(some)]))
    moved = [np.nextafter(a[some], np.inf) for a in given]
    found[ITSELF] = solvers.beside(row, want, _of_scipy(f, moved))
    found[OURS] = gpu_functions._seconds(run, call)
    return found


def _of_scipy(f: Any, given: list[np.ndarray]) -> np.ndarray:
    return np.stack([np.asarray(f(*these)) for these in zip(*given, strict=True)])
