"""Random functions with loops by CuPy's rules: of Python's numbers, and of slices.

What is compiled is evaluated in plain Python, and compared: of numbers with Python itself, of
slices with a stand-in for CuPy. Where there is a GPU its kernel is to give what was evaluated.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import standin_cupy
from on_standin import made as of_slices
from on_standin import of_standin
from random_functions.device_loops import DeviceLoops

from xpapply.backends.cpu import host
from xpapply.codegen.llvm.typed import device
from xpapply.errors import TraceError
from xpapply.frontends.python.source.typed import Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.function import ARRAYS, WARNED

from .loops import Skipped, drawn, expected, limited, made, outcome, same, stored

SLICES = 10
NUMBERS = "float64 float64 float64 int64 int64 bool float32 int8 uint8".split()
OF_SLICES = "float64 float64 float64 float32 int64 int32 uint8".split()
counts: Counter[str] = Counter()
reasons: Counter[str] = Counter()


def case(r: random.Random) -> str | None:
    """Draw a function and its slices, and compare."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _of_numbers(r) if r.random() < 0.6 else _of_slices(r)
    except Skipped as why:
        counts[f"skipped: {why}"] += 1
    except TraceError as why:
        counts["refused"] += 1
        reasons[re.sub(r"\(line \d+\)|-?\d[\d.e+]*|\b[a-z]\d+\b|: .*", "", str(why)).strip()] += 1
    return None


def _of_numbers(r: random.Random) -> str | None:
    dtypes = r.choice(NUMBERS), r.choice(NUMBERS)
    source = DeviceLoops(r, of_numbers=True).draw()
    x = [drawn(r, d, (SLICES, 1))[:, 0] for d in dtypes]
    f = made(source)
    with limited(2.0):
        found = [outcome(f, *(a.item() for a in these)) for these in zip(*x, strict=True)]
        good = [y for y, why in found if not why and expected(y)]
        if not good:
            raise Skipped("no element gives a result")
        results = [w for w in [expected(good[0])] if w is not None]
        if results[0].dtype == "text":
            raise Skipped("texts")
        loop = [np.zeros((SLICES, *w.shape), w.dtype) for w in results]
        whys = [why or stored(y, loop, k) for k, (y, why) in enumerate(found)]
    watch = Guards()
    watch.start(f)
    program = typed(f, [Input(0, True), Input(1, True)], {}, dtypes, results, watch, "device")
    return _compared(program, x, loop, whys, f"{source}\n{', '.join(dtypes)}")


def _of_slices(r: random.Random) -> str | None:
    dtype = r.choice(OF_SLICES)
    source = DeviceLoops(r, of_numbers=False).draw()
    x = drawn(r, dtype, (SLICES, r.choice([1, 2, 3, 5, 8])))
    f = made(source)
    with limited(2.0), standin_cupy.installed():
        found = [outcome(lambda v: of_standin(f, v), v) for v in x]
        good = [y for y, why in found if not why and expected(y)]
        if not good:
            raise Skipped("no slice gives a result")
        loop = [np.zeros((SLICES, *good[0].shape), good[0].dtype)]
        # nothing warns there
        whys = [why if y is None else stored(y, loop, k) for k, (y, why) in enumerate(found)]
        program = of_slices(f, dtype, [good[0]])
    return _compared(program, [x], loop, whys, f"{source}\n{dtype}")


def _compared(
    program: Any, x: list[np.ndarray], loop: list[np.ndarray], whys: list[str], said: str
) -> str | None:
    if why := device.why_not(program):
        raise TraceError(why)
    counts["compiled"] += 1
    outs = [np.zeros_like(y) for y in loop]
    marks = np.zeros(SLICES, np.uint16)
    with limited(10.0):
        for k in range(SLICES):
            given = [out[k, ...] for out in outs]
            mark = evaluate(program, [a[k] for a in x], given)
            marks[k] = 0 if mark == WARNED else mark  # nothing warns there
    for k, why in enumerate(whys):
        here = ", ".join(repr(a[k]) for a in x)
        counts["slices"] += 1
        counts["slices marked"] += int(marks[k] != 0)
        if marks[k] or "Warning" in why:
            continue
        if why and "overflow" not in why and "invalid value" not in why:
            return f"{said}: {here} is not marked: {why}"
        if not all(map(_alike, [out[k] for out in outs], [y[k] for y in loop])):
            return (
                f"{said}: {here} gives {[o[k] for o in outs]}, in the loop {[y[k] for y in loop]}"
            )
    return _on_a_gpu(program, x, outs, marks, said)


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return same(a, b) or bool(np.allclose(a, b, rtol=1e-9, equal_nan=True))


def _on_a_gpu(
    program: Any, x: list[np.ndarray], outs: list[np.ndarray], marks: np.ndarray, said: str
) -> str | None:
    """What a kernel gives that is not what was evaluated."""
    cupy = _cupy()
    if cupy is None or program.constants:
        return None
    from xpapply.backends.cpu import for_gpus
    from xpapply.backends.cupy import typed as backend

    if why := backend.why_not(program, 0):
        raise TraceError(why)
    counts["on a GPU"] += 1
    compiled = backend.Compiled(program, for_gpus.ptx, for_gpus.architecture)
    places = [cupy.full(y.shape, 77, y.dtype) for y in outs]
    found = compiled.run([cupy.asarray(a) for a in x], places, 1)
    own = np.zeros(SLICES, np.uint16) if found is None else found
    if device.rounds(program):
        return None  # other bits may decide otherwise
    for k in range(SLICES):
        here = ", ".join(repr(a[k]) for a in x)
        mark = max(own[k], marks[k])
        if own[k] != marks[k] and program.marks[mark - 1].why != ARRAYS:
            return f"{said}: {here} has mark {own[k]} on the GPU, evaluated {marks[k]}"
        if not own[k] and not all(
            same(p[k].get(), y[k]) for p, y in zip(places, outs, strict=True)
        ):
            return (
                f"{said}: {here} gives {[p[k] for p in places]}, evaluated {[y[k] for y in outs]}"
            )
    return None


def _cupy() -> Any:
    try:
        import cupy

        return cupy if cupy.cuda.runtime.getDeviceCount() and host.why_not() is None else None
    except Exception:
        return None


def report() -> str:
    """What became of the functions."""
    lines = [f"{n:8} {what}" for what, n in counts.most_common()]
    return "\n".join([*lines, *(f"{n:8} {why}" for why, n in reasons.most_common(12))])
