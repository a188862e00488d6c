"""Python functions of short slices on a GPU: xpapply, CuPy by hand, JAX and numba.

The rows are in `gpu_function_rows.py`. All of a row is measured in one go: what it takes of the
device, along the last axis and the first one; a call of few slices; the first call; and the
results beside those of CuPy's own loop.
"""

from __future__ import annotations

import compileall
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xpapply

from . import clocks, runner
from .gpu_function_rows import LENGTH, LOOPS, NUMBERS, ROWS, Numbers, Row
from .gpu_functions_report import (
    COPY,
    CUPYS,
    DISK,
    FEW,
    FIRST,
    HAND,
    JAX,
    NUMBA,
    OURS,
    OURS_AXIS0,
    OWN,
)

SLICES, FEW_SLICES, CHECKED = 1_000_000, 8_000, 40
REPEATS = 7
AT_LEAST = 3e-3
"""Seconds of calls between two looks at the clock."""
PATIENCE = 0.25
"""Seconds of a call after which it is not repeated."""
WRONG = 1e-6
"""Of the largest result: what no rounding explains."""
HOST_CALLS = 300


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    # as an installed package has it: what no call of a user waits for
    compileall.compile_dir(str(Path(xpapply.__file__).parent), quiet=2)
    slices = run.args.slices or (FEW_SLICES if run.quick else SLICES)
    settings = {"slices": slices, "length": LENGTH, "few": FEW_SLICES}
    return {"settings": settings, "functions": {}, "numbers": {}}


def measure(run: runner.Run) -> None:
    """All rows, one after the other."""
    xp = run.on.xp
    numbers = np.random.default_rng(0).standard_normal((run.data["settings"]["slices"], LENGTH))
    x = xp.asarray(numbers)
    run.data["settings"]["copy"] = _seconds(run, lambda: x.copy()) / (2 * x.nbytes)
    with xpapply.options(fallback="silent"):
        for row in run.chosen([*ROWS, *map(_as_row, LOOPS)]):
            run.part(f"functions/{row.name}", partial(_one, run, row, x), line)
        for row in run.chosen(NUMBERS):
            run.part(f"numbers/{row.name}", partial(_of_numbers, run, row), line)
    run.part("from disk", partial(_from_disk, run))


def _from_disk(run: runner.Run) -> str:
    """First calls in another process, for which all kernels are on disk by now."""
    kind = "dry" if run.args.dry else "gpu"
    lines, problem = runner.child("gpu_functions_first", run.data["settings"]["slices"], kind)
    if not lines:
        raise RuntimeError(problem)
    for name, seconds in json.loads(lines[-1]).items():
        group, _, own = name.rpartition("/")
        entry = run.data[group or "functions"].get(own)
        if entry is not None and "skipped" not in entry:
            entry[DISK] = seconds
    return "measured"


def line(found: dict[str, Any]) -> str:
    """What a run says of a row."""
    if "skipped" in found:
        return str(found["skipped"])
    said = [f"{1e3 * found[k]:.3f} ms {k}" for k in (OURS, OURS_AXIS0, HAND, JAX, NUMBA, CUPYS)
            if k in found]  # fmt: skip
    return f"{'; '.join(said)}; few {1e6 * found.get(FEW, 0):.0f} us; {found['engine']}" + "".join(
        f"; {found[k]}" for k in ("wrong", "jax fails", "numba fails") if k in found
    )


def _as_row(f: Callable[[Any], Any]) -> Row:
    return Row(f.__name__, "loops with decisions", lambda xp: f)


def _one(run: runner.Run, row: Row, x: Any) -> dict[str, Any]:
    xp = run.on.xp
    f = row.build(xp)
    begin = time.perf_counter()
    with np.errstate(all="ignore"):
        f(x[0])
    run.on.synchronize()
    own = time.perf_counter() - begin
    begin = time.perf_counter()
    y = xpapply.apply_along_axis(f, 1, x)
    run.on.synchronize()
    found: dict[str, Any] = {"group": row.group, FIRST: time.perf_counter() - begin, OWN: own}
    found["engine"] = _said(f, x)
    found[COPY] = (x.nbytes + y.nbytes) * run.data["settings"]["copy"]
    wrong = _wrong(xp, f, x, y)
    if wrong:
        found["wrong"] = wrong
    found[OURS] = _seconds(run, lambda: xpapply.apply_along_axis(f, 1, x))
    turned = xp.ascontiguousarray(x.T)
    found[OURS_AXIS0] = _seconds(run, lambda: xpapply.apply_along_axis(f, 0, turned))
    few = x[:FEW_SLICES].copy()
    found[FEW] = _of_host(run, lambda: xpapply.apply_along_axis(f, 1, few))
    if row.hand is not None:
        hand = row.hand
        found[HAND] = _seconds(run, lambda: hand(xp, x))
    try:
        if row.group != "loops with decisions":
            found |= _jax(run, row, x)
    except Exception as problem:
        found["jax fails"] = clocks.reason(problem)
    try:
        if row.group == "loops with decisions":
            found |= _numba(run, f, x, y)
    except Exception as problem:
        found["numba fails"] = clocks.reason(problem)
    return found


def _of_numbers(run: runner.Run, row: Numbers) -> dict[str, Any]:
    """A function of numbers for all elements, as `cupy.vectorize` runs some of these too."""
    xp, count = run.on.xp, run.data["settings"]["slices"]
    given = row.draw(np.random.default_rng(0), count)
    x = [xp.asarray(a) for a in given]
    made = xpapply.vectorize(row.f)
    run.on.synchronize()
    begin = time.perf_counter()
    y = made(*x)
    run.on.synchronize()
    found: dict[str, Any] = {FIRST: time.perf_counter() - begin}
    found["engine"] = _short(made.explain(*x))
    found[COPY] = (sum(a.nbytes for a in x) + y.nbytes) * run.data["settings"]["copy"]
    some = slice(None, None, max(1, count // 2000))
    want = np.vectorize(row.f)(*(a[some] for a in given))
    far = np.abs(_host(y)[some] - want).max() / max(np.abs(want).max(), 1e-300)
    if y.dtype != want.dtype or far > WRONG:
        found["wrong"] = f"WRONG: other results than numpy.vectorize, by {far:.1e}"
    found["elements"] = count
    found[OURS] = _seconds(run, lambda: made(*x))
    few = [a[:FEW_SLICES].copy() for a in x]
    found[FEW] = _of_host(run, lambda: made(*few))
    try:
        theirs = xp.vectorize(row.f)
        theirs(*x)
        found[CUPYS] = _seconds(run, lambda: theirs(*x))
        found[f"{CUPYS}, {FEW}"] = _of_host(run, lambda: theirs(*few))
    except Exception as problem:
        found["cupy.vectorize fails"] = clocks.reason(problem)
    return found


def _said(f: Callable[[Any], Any], x: Any) -> str:
    return _short(xpapply.explain(f, 1, x))


def _short(plan: Any) -> str:
    return "one launch" if "one launch" in str(plan) else f"{plan.engine}: {plan.reasons[:1]}"


def _wrong(xp: Any, f: Callable[[Any], Any], x: Any, y: Any) -> str:
    """Whether some slices have other results than CuPy's own loop."""
    some = np.linspace(0, len(x) - 1, CHECKED).astype(int)
    loop = getattr(xp, "apply_along_axis", np.apply_along_axis)
    want = np.stack([_host(loop(f, 1, x[k : k + 1]))[0] for k in some])
    got = np.stack([_host(y[int(k)]) for k in some])
    if want.dtype != got.dtype:
        return f"WRONG: {got.dtype}, CuPy's loop gives {want.dtype}"
    far = np.abs(want.astype(float) - got.astype(float)).max() / max(np.abs(want).max(), 1e-300)
    return "" if far <= WRONG else f"WRONG: other results than CuPy's loop, by {far:.1e}"


def _host(x: Any) -> np.ndarray:
    return x.get() if hasattr(x, "get") else np.asarray(x)


def _seconds(run: runner.Run, call: Callable[[], Any]) -> float:
    """Of the device, per call: the median of several times as many calls as are long enough."""
    run.on.synchronize()
    call()
    once = run.on.seconds(call, 1)
    if once > PATIENCE:
        return float(once)
    count = max(1, int(AT_LEAST / max(once, 1e-6)))
    return float(np.median([run.on.seconds(call, count) for _ in range(REPEATS)]))


def _of_host(run: runner.Run, call: Callable[[], Any]) -> float:
    """Of the host, per call, when the device has done all of them."""
    begin = time.perf_counter()
    for _ in range(3):
        call()
    run.on.synchronize()
    once = (time.perf_counter() - begin) / 3
    count = max(1, min(HOST_CALLS, int(PATIENCE / once)))
    times = []
    for _ in range(REPEATS if once < PATIENCE else 1):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        run.on.synchronize()
        times.append((time.perf_counter() - begin) / count)
    return float(np.median(times))


def _jax(run: runner.Run, row: Row, x: Any) -> dict[str, Any]:
    """``jit(vmap(f))``; by hand where it does not take the function."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    given = jnp.asarray(_host(x))
    call, note = jax.jit(jax.vmap(row.build(jnp))), {}
    try:
        call(given).block_until_ready()
    except Exception:
        if row.hand is None:
            raise
        hand = row.hand
        call, note = jax.jit(lambda x: hand(jnp, x)), {"jax by hand": True}
        call(given).block_until_ready()
    begin = time.perf_counter()
    call(given).block_until_ready()
    count = max(1, int(AT_LEAST / max(time.perf_counter() - begin, 1e-6)))
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _ in range(count):
            y = call(given)
        y.block_until_ready()
        times.append((time.perf_counter() - begin) / count)
    return {JAX: float(np.median(times))} | note


def _numba(run: runner.Run, f: Callable[[Any], Any], x: Any, y: Any) -> dict[str, Any]:
    """A kernel of numba, one thread for each slice, with the same function."""
    for name, known in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(np, name):  # which it looks for, though NumPy has them no more
            setattr(np, name, getattr(np, known))
    from numba import cuda

    of_slice = cuda.jit(device=True)(f)

    @cuda.jit
    def kernel(x: Any, out: Any) -> None:
        k = cuda.grid(1)
        if k < x.shape[0]:
            out[k] = of_slice(x[k])

    given, out = cuda.as_cuda_array(x), cuda.as_cuda_array(run.on.xp.empty_like(y))
    compiled = kernel[-(-len(x) // 128), 128]
    compiled(given, out)
    cuda.synchronize()
    found: dict[str, Any] = {}
    if not np.array_equal(out.copy_to_host(), _host(y), equal_nan=y.dtype.kind == "f"):
        found["numba differs"] = True
    begin = time.perf_counter()
    compiled(given, out)
    cuda.synchronize()
    count = max(1, int(AT_LEAST / max(time.perf_counter() - begin, 1e-6)))
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _ in range(count):
            compiled(given, out)
        cuda.synchronize()
        times.append((time.perf_counter() - begin) / count)
    return found | {NUMBA: float(np.median(times))}
