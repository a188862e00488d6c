"""Functions with results of various shapes, on blocks that begin at any slice.

The first slice of the whole array says what all results are, as in NumPy's loop. The blocks of an
array of dask, and those of a file, have first slices of their own: special ones stand anywhere.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np

import xpapply

from .alike import differ, outcome, short

BASES = (
    "np.sort(v)[:2]",
    "np.polyfit(np.arange(4.0), v, 1)",
    "v.sum()",
    "int(v.sum() * 10)",
    "v.argmax()",
    "v * 2",
    "(v.min(), v.max())",
    "np.outer(v[:2], v[:2])",
    "[float(v[0])]",
    "v[:1]",
    "v.max() > 0.9",
    "v[:2].astype('f4')",
)
SPECIAL = (
    "np.nan",
    "0",
    "-1",
    "True",
    "[np.nan]",
    "[1]",
    "[1, 2]",
    "np.zeros(2, 'f4')",
    "np.zeros((1, 2))",
    "np.full((2, 2), 7)",
    "np.full((1, 1, 2), 7)",
    "2**40",
    "1j",
    "v",
    "v[:3]",
)


def _draw(r: random.Random) -> tuple[str, np.ndarray, int]:
    rng = np.random.default_rng(r.randrange(2**32))
    shape = r.choice(((24,), (6, 4), (2, 3, 4)))
    x = rng.random((*shape, 4))
    flat = x.reshape(-1, 4)
    lines = ["def f(v):"]
    for k in range(1, r.choice((1, 1, 2)) + 1):
        start, count = r.randrange(-6, 24), r.choice((1, 2, 6, 12, 24))
        flat[max(0, start) : max(0, start + count), 3] = k
        lines += [f"    if v[3] == {k}:", f"        return {r.choice(SPECIAL)}"]
    lines.append(f"    return {r.choice(BASES)}")
    axis = r.randrange(x.ndim)
    return "\n".join(lines), np.ascontiguousarray(np.moveaxis(x, -1, axis)), axis


def _made(source: str):
    scope = {"np": np}
    exec(source, scope)
    return scope["f"]


def _dask(r: random.Random, x: np.ndarray, axis: int):
    import dask.array as da

    chunks = tuple(n if a == axis else r.randint(1, n) for a, n in enumerate(x.shape))
    lazy = da.from_array(x, chunks=chunks)

    def call(f, axis, x):
        return xpapply.apply_along_axis(f, axis, lazy).compute(scheduler="sync")

    return call, f"dask, chunks {chunks}"


def _file(r: random.Random, want, folder: Path):
    memory = r.choice((1000, 2000, 8000))
    to_file, from_file = r.random() < 0.5, r.random() < 0.5

    def call(f, axis, x):
        if from_file or not to_file:
            np.save(folder / "x.npy", x)
            x = np.load(folder / "x.npy", mmap_mode="r")
        shape, dtype = ((1,), "f8") if isinstance(want, str) else (want.shape, want.dtype)
        out = np.empty(shape, dtype)
        if to_file:
            out = np.lib.format.open_memmap(folder / "out.npy", "w+", dtype, shape)
        with xpapply.options(memory=memory):
            found = xpapply.apply_along_axis(f, axis, x, out=out)
        return np.array(found)

    return call, f"file, memory {memory}, out in a file: {to_file}, arr in a file: {from_file}"


def case(r: random.Random) -> str | None:
    source, x, axis = _draw(r)
    want = outcome(np.apply_along_axis, _made(source), x, axis)
    with tempfile.TemporaryDirectory() as folder:
        by_file = r.random() < 0.5
        call, words = _file(r, want, Path(folder)) if by_file else _dask(r, x, axis)
        got = outcome(call, _made(source), x, axis)
    if isinstance(want, str) and isinstance(got, str):
        # which of the slices that raise is met first depends on the blocks
        got = want if by_file or got.split(":")[0] == want.split(":")[0] else got
    if differ(want, got, True):
        return (
            f"{source}\n{words}, axis {axis}\n{x.tolist()}\nwant {short(want)}\ngot  {short(got)}"
        )
    return None
