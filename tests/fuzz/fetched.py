"""Random functions of the host's copies of slices on a GPU: what a thread of it does, run here.

A slice that it has not marked has what the function gives for the copy: the same bits, or up to
roundings where the device computes otherwise.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import standin_cupy
from device_on_host import OnHost
from random_functions.loops import Program

from xpapply.backends.cpu import host
from xpapply.codegen.llvm.typed import device
from xpapply.errors import TraceError
from xpapply.frontends.python.source.typed import Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.function import ARRAYS, LISTS, WARNED
from xpapply.ir.typed.lifetimes import reused
from xpapply.ir.typed.verify import verify

from .loops import SLICES, Skipped, drawn, expected, limited, made, outcome, same, stored

MAY_SKIP = host.why_not()
DTYPES = "float64 float64 float64 float64 float32 int64 int32 uint8 bool".split()
FETCHED = """

_of_copy = f


def f(v):
    return _of_copy(v.get())
"""
counts: Counter[str] = Counter()
reasons: Counter[str] = Counter()


def case(r: random.Random) -> str | None:
    """Draw a function and its slices, and compare."""
    if MAY_SKIP is not None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _case(r)
    except Skipped as why:
        counts[f"skipped: {why}"] += 1
    except TraceError as why:
        counts["refused"] += 1
        reasons[re.sub(r"\(line \d+\)|-?\d[\d.e+]*|\b[a-z]\d+\b|: .*", "", str(why)).strip()] += 1
    return None


def _case(r: random.Random) -> str | None:
    dtype, ndim = r.choice(DTYPES), r.choice([1] * 7 + [2])
    x = drawn(r, dtype, (SLICES, *(r.choice([1, 2, 3, 5, 8, 12]) for _ in range(ndim))))
    return compared(Program(r, ndim, np.dtype(dtype).kind in "iub").draw(), x)


def compared(source: str, x: np.ndarray) -> str | None:
    """What differs between what a device does and Python, for slices along the first axis."""
    try:
        f, of_device = made(source), made(source + FETCHED)
    except SyntaxError:
        raise Skipped("it is no program") from None
    with limited(2.0):
        found = [outcome(f, v.copy()) for v in x]
        good = [y for y, why in found if not why and expected(y)]
        if not good:
            raise Skipped("no slice gives a result")
        wanted = expected(good[0])
        if wanted is None or wanted.dtype == "text":
            raise Skipped("results of no kind that is compiled")
        loop = np.zeros((SLICES, *wanted.shape), wanted.dtype)
        whys = [why or stored(y, [loop], k) for k, (y, why) in enumerate(found)]
    guards = Guards()
    guards.start(of_device)
    with limited(20.0), standin_cupy.installed():
        kinds = [Array(x.dtype.name, x.ndim - 1)]
        program = typed(of_device, [Input(0)], {}, kinds, [wanted], guards, "device")
    verify(program)
    if why := device.why_not(program):
        raise TraceError(why)
    counts["compiled"] += 1
    out = np.full(loop.shape, 77, loop.dtype)
    marks = OnHost(program).run([x], [out])
    rounds = device.rounds(program)
    short = any("float32" in x for x in program.externals)
    for k, why in enumerate(whys):
        counts["slices"] += 1
        counts["slices marked"] += bool(marks[k])
        counts["slices marked without need"] += bool(marks[k] and not why)
        if marks[k]:
            continue
        if why:
            return f"{source}: {x[k]!r} is not marked: {why}"
        if not (_alike(out[k], loop[k], short) if rounds else same(out[k], loop[k])):
            return f"{source}: {x[k]!r} gives {out[k]!r}, in Python {loop[k]!r}"
    return _evaluated(program, x, out, marks, rounds, source)


def _alike(a: np.ndarray, b: np.ndarray, short: bool) -> bool:
    if same(a, b):
        return True
    close = 1e-4 if short or a.dtype == np.float32 else 1e-9
    size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    return a.dtype.kind == "f" and bool(
        np.allclose(a, b, rtol=close, atol=close * size, equal_nan=True)
    )


def _evaluated(
    program: Any, x: np.ndarray, out: np.ndarray, marks: np.ndarray, rounds: bool, source: str
) -> str | None:
    """What the definition gives, where arrays are gone once their memory is taken again."""
    memory = {m for m, why in enumerate(program.marks, 1) if why.why in (ARRAYS, LISTS)}
    for k in sorted({0, len(x) - 1}):
        here = np.zeros(out.shape[1:], out.dtype)
        with limited(5.0):
            m = evaluate(program, [x[k].copy()], [here], gone=reused(program))
        if WARNED in (m, marks[k]) or marks[k] in memory:
            continue
        if m != marks[k] and not rounds:
            return f"{source}: {x[k]!r} has mark {marks[k]}, evaluated {m}"
        if not m and not marks[k] and not _alike(here, out[k], True):
            return f"{source}: {x[k]!r} gives {out[k]!r}, evaluated {here!r}"
    return None


def report() -> str:
    """What became of the programs."""
    lines = [f"{n:8,} {what}" for what, n in counts.most_common()]
    return "\n".join([*lines, *(f"{n:8,} refused: {why}" for why, n in reasons.most_common(12))])
