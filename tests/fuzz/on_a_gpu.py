"""Random functions on a real GPU, from end to end, beside CuPy's own loop.

Of slices: what is read and whole arrays, of any layout and axis, with a few slices unlike the many;
of numbers: `vectorize`, beside NumPy's on the host's copies. Without a GPU nothing is run.
"""

from __future__ import annotations

import functools
import random
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
from random_functions.device_loops import DeviceLoops

import xpapply

from .device_arrays import Source
from .loops import Skipped, drawn, limited, made

OF_SLICES = "float64 float64 float64 float32 int64 int32 uint8 bool".split()
OF_NUMBERS = "float64 float64 float64 int64 int64 bool float32 int8 uint8".split()
COUNTS = 1, 2, 17, 300, 4000
counts: Counter[str] = Counter()
reasons: Counter[str] = Counter()


@functools.cache
def cupy() -> Any:
    """The library, if there is a device; else None."""
    try:
        import cupy as found

        return found if found.cuda.runtime.getDeviceCount() else None
    except Exception:
        return None


def case(r: random.Random) -> str | None:
    """Draw a function and its slices, and compare."""
    if cupy() is None:
        counts["no GPU"] += 1
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), limited(10.0):
            warnings.simplefilter("ignore")
            return _of_numbers(r) if r.random() < 0.3 else _of_slices(r)
    except Skipped as why:
        counts[f"skipped: {why}"] += 1
    return None


def _of_slices(r: random.Random) -> str | None:
    cp, dtype = cupy(), r.choice(OF_SLICES)
    if r.random() < 0.5:
        source = DeviceLoops(r, of_numbers=False).draw()
    else:
        source = Source(r).function().replace("import numpy as np", "import cupy as np")
    f = made(source)
    rows = drawn(r, dtype, (16, r.choice([1, 2, 3, 5, 8, 8, 33])))
    good, shape = [], None
    for k, row in enumerate(rows):
        try:
            found = cp.asarray(f(cp.asarray(row)))
        except Exception as error:
            counts[f"a slice raises {type(error).__name__}"] += 1
            continue
        shape = found.shape if shape is None else shape
        if found.shape == shape and found.dtype.kind in "biuf":
            good.append(k)
    if not good:
        raise Skipped("no slice gives a result")
    rows = rows[good]
    written = cp.asarray(rows)  # a number of a slice is a view of it: `x = v[0]; x += 1` writes
    want = cp.apply_along_axis(f, 1, written).get()
    at, layout = _rare(r, len(rows)), r.randrange(5)
    for _ in range(r.choice([1, 2, 3])):
        x, axis, whole = _laid(layout, cp.asarray(rows[at]))
        said = f"{source}\n{dtype} {x.shape} {x.strides}, axis {axis}"
        try:
            with xpapply.options(fallback="raise"):
                got = xpapply.apply_along_axis(f, axis, x)
        except xpapply.UnsupportedError as why:
            return _refused(why)
        found = cp.moveaxis(got, range(axis, axis + want.ndim - 1), range(1 - want.ndim, 0)).get()
        found = found.reshape(whole, *want.shape[1:])
        if (found.dtype, found.shape) != (want.dtype, (whole, *want.shape[1:])):
            return f"{said}: {found.dtype}{found.shape} instead of {want.dtype}{want.shape[1:]}"
        if differs := _differ(found, want[at], rows[at], source):
            return f"{said}: {differs}"
        left = cp.moveaxis(x, axis, -1).reshape(rows[at].shape).get()
        if differs := _differ(left, written.get()[at], rows[at], source):
            return f"{said}: left in its slices: {differs}"
    counts["compared"] += 1
    return None


def _rare(r: random.Random, count: int) -> np.ndarray:
    """Which rows the slices are: most are one of them, in the order of their first use."""
    n = r.choice(COUNTS)
    rng = np.random.default_rng(r.randrange(2**32))
    at = np.where(rng.random(n) < r.choice([0.01, 0.5, 1.0]), rng.integers(0, count, n), 0)
    at[0] = 0  # whose dtype all have
    return at


def _laid(kind: int, x: Any) -> tuple[Any, int, int]:
    """The slices in some layout, their axis, and how many there are."""
    cp, n = cupy(), len(x)
    if kind == 0:
        return cp.asfortranarray(x), 1, n
    if kind == 1:
        return cp.ascontiguousarray(x.T), 0, n
    if kind == 2:
        wide = cp.zeros((n, 2 * x.shape[1]), x.dtype)
        wide[:, ::2] = x
        return wide[:, ::2], 1, n
    if kind == 3 and n % 4 == 0:
        return cp.moveaxis(x.reshape(4, n // 4, -1), 2, 1).copy(), 1, n
    return x, 1, n


def _of_numbers(r: random.Random) -> str | None:
    cp, dtypes = cupy(), [r.choice(OF_NUMBERS) for _ in "ab"]
    source = DeviceLoops(r, of_numbers=True).draw()
    f = made(source)
    x = [drawn(r, d, (16, 1))[:, 0] for d in dtypes]
    kept: list[int] = []
    for k in range(16):
        try:
            np.vectorize(f)(*(a[k : k + 1] for a in x))
            many = _many(f(*(a[k].item() for a in x)))
            if not kept or many == _many(f(*(a[kept[0]].item() for a in x))):
                kept.append(k)  # NumPy's leaves all that follow undone otherwise
        except Exception as error:
            counts[f"a number raises {type(error).__name__}"] += 1
    if not kept:
        raise Skipped("no element gives a result")
    x = [a[kept] for a in x]
    try:
        want = np.vectorize(f)(*x)
    except Exception as error:  # a later one does not fit the first
        raise Skipped(type(error).__name__) from None
    at = _rare(r, len(kept))
    said = f"{source}\n{dtypes}, {len(at)}"
    for _ in range(r.choice([1, 2, 3])):
        try:
            with xpapply.options(fallback="raise"):
                got = xpapply.vectorize(f)(*(cp.asarray(a[at]) for a in x))
        except xpapply.UnsupportedError as why:
            return _refused(why)
        several = isinstance(want, tuple)
        if isinstance(got, tuple) != several:
            return f"{said}: {type(got)} instead of {type(want)}"
        for w, g in zip(want if several else [want], got if several else [got], strict=True):
            if g.dtype != w.dtype:
                return f"{said}: {g.dtype} instead of {w.dtype}"
            if differs := _differ(g.get(), w[at], np.stack(np.broadcast_arrays(*x), 1)[at], source):
                return f"{said}: {differs}"
    counts["compared"] += 1
    return None


def _many(result: Any) -> int:
    return len(result) if type(result) is tuple else 0


def _refused(why: Exception) -> None:
    counts["refused"] += 1
    reasons[re.sub(r"\(line \d+\)|-?\d[\d.e+]*|\b[a-z]\d+\b", "", str(why)).strip()[:400]] += 1


def _differ(got: np.ndarray, want: np.ndarray, rows: np.ndarray, source: str) -> str:
    """Where results differ by more than another order of additions may make of it."""
    if got.dtype.kind != "f":
        wrong = got != want
    else:
        short = {x.name for x in (got.dtype, rows.dtype)} & {"float32", "uint8", "bool"}
        eps = 1e4 * np.finfo("float32" if short or "32" in source else "float64").eps
        scale = 1 + np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=0)
        wrong = ~np.isclose(got, want, rtol=eps, atol=eps * scale, equal_nan=True)
    if not wrong.any():
        return ""
    k = int(np.flatnonzero(wrong.reshape(len(got), -1).any(1))[0])
    some = int(wrong.reshape(len(got), -1).any(1).sum())
    return (
        f"slice {k} of {len(got)} ({some} differ), {rows[k]!r}: {got[k]!r} instead of {want[k]!r}"
    )


def report() -> str:
    """What was compared, and why the rest was not."""
    lines = [f"{n:8} {what}" for what, n in counts.most_common()]
    return "\n".join([*lines, *(f"{n:8} {why}" for why, n in reasons.most_common(12))])
