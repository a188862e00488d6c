"""Branches that return constants, each taken by as many slices as a constant has numbers.

A constant is the same for all slices of a branch. If it were assigned to all of them at once, its
first axis could be taken for that of the slices, where it has as many numbers as there are slices.
"""

from __future__ import annotations

import random
import re

import numpy as np

import xpapply

from .alike import differ, outcome, short

LENGTH = 4
SLICES = 300
BASES = (
    "np.median(v) * v.std() + v.sum()",
    "v.sum()",
    "float(v.max())",
    "v.mean() > 0.5",
    "int(v[1] * 10)",
    "np.sort(v)[:3]",
    "v[1:3] * 2",
    "(v.min(), v.max())",
    "[v.sum()]",
    "v[1:2]",
    "np.outer(v[:2], v[:3])",
    "v.reshape(2, 2)",
    "v[:0]",
    "np.array(v[1] + 1)",
)
SHAPES = ((), (1,), (2,), (3,), (4,), (1, 1), (2, 1), (1, 2), (1, 3), (2, 3), (3, 3), (2, 2))
DTYPES = ("f8", "f4", "i8", "i1", "?", "c16", "U3", "M8[D]")


def _constant(r: random.Random) -> tuple[str, tuple[int, ...]]:
    """The text of a constant, and its shape."""
    shape = r.choice(SHAPES)
    dtype = r.choice(("f8",) * 4 + DTYPES)
    values = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    form = r.choice(("array", "array", "list", "tuple"))
    if form == "array" or dtype not in ("f8", "i8", "?"):
        number = f"np.array({values.tolist()}).astype('{dtype}')"
        return number, shape
    listed = values.astype(dtype).tolist()
    return (repr(tuple(listed)) if form == "tuple" and shape else repr(listed)), shape


def _draw(r: random.Random) -> tuple[str, np.ndarray]:
    """The source of a function of slices, and slices."""
    rng = np.random.default_rng(r.randrange(2**32))
    x = rng.random((SLICES, LENGTH))
    x[:, 0] = 0
    lines = ["def f(v):"]
    for k in range(1, r.choice((1, 1, 2, 3)) + 1):
        text, shape = _constant(r)
        count = r.choice((1, 2, 3, *shape, *shape, int(np.prod(shape)), SLICES // 3, SLICES))
        x[rng.choice(SLICES, min(count, SLICES), replace=False), 0] = k
        lines += [f"    if v[0] == {k}:", f"        return {text}"]
    if r.random() < 0.4:
        x[0, 0] = r.choice((0, 1))
    lines.append(f"    return {r.choice(BASES)}")
    if r.random() < 0.3:
        x = x.reshape(r.choice(((15, 20, LENGTH), (1, SLICES, LENGTH), (SLICES // 2, 2, LENGTH))))
    return "\n".join(lines), x


def _made(source: str):
    scope = {"np": np}
    exec(source, scope)
    return scope["f"]


def _vectorized(module, signature: str):
    return lambda f, axis, x: module.vectorize(f, signature=signature)(x)


def case(r: random.Random) -> str | None:
    source, x = _draw(r)
    loop, mine, where = np.apply_along_axis, xpapply.apply_along_axis, "apply_along_axis"
    if r.random() < 0.3:
        where = r.choice(("(n)->()", "(n)->(k)", "(n)->(k,m)"))
        # NumPy's loop takes no lists there, which is an error that ours has not
        source = re.sub("return (.*)", r"return np.asarray(\1)", source)
        loop, mine = _vectorized(np, where), _vectorized(xpapply, where)
    # twice: the second call knows the paths
    want, f = outcome(loop, _made(source), x), _made(source)
    for turn in range(2):
        got = outcome(mine, f, x)
        if isinstance(want, str) and isinstance(got, str) and where != "apply_along_axis":
            got = want if got.split(":")[0] == want.split(":")[0] else got  # ours says more
        if differ(want, got, True):
            return f"{source}\n{where}, call {turn + 1}\nwant {short(want)}\ngot  {short(got)}"
    return None
