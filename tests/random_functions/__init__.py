"""Random Python functions of one slice, as source code, and arrays to run them on.

`Function.draw(r, ...)` writes a function with a `random.Random`, so Hypothesis (``st.randoms()``)
and a fixed seed can both steer it. Values are typed: shape, kind of number, and whether they are
exact. What depends on the order of rounding (products, powers, transcendental functions) is
never compared, rounded, sorted or branched on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import arrays, positions, scalars, statements  # noqa: F401  each adds its productions
from .several import SeveralWriter
from .writer import DTYPES as DTYPES
from .writer import SKIPPED as SKIPPED
from .writer import THEMES as THEMES
from .writer import Writer


@dataclass
class Function:
    """A function, and what is known of it."""

    source: str
    inexact: bool
    """Whether its results may differ in rounding."""
    used: list[str] = field(repr=False)
    """The names of the productions."""

    def make(self, **namespace: Any) -> Any:
        """The function itself; new every time, so nothing is known of it."""
        space = {"np": np, "math": math, "__name__": "random_function", **namespace}
        exec(compile(self.source, "<random function>", "exec"), space)
        return space["f"]

    @classmethod
    def draw(
        cls, r: Any, length: int, dtype: str, theme: str = "everything", gpu: bool = False
    ) -> Function:
        w = Writer(r, length, dtype, theme, gpu)
        source = w.write()
        return cls(source, w.inexact, w.used)


@dataclass
class FunctionOfSeveral(Function):
    """A function of slices of several arrays."""

    signature: str
    """As `vectorize` takes it."""
    sizes: dict[str, int]
    """Of the core dims."""
    dtypes: list[str]
    """Of the arrays."""

    @classmethod
    def draw(cls, r: Any, theme: str = "everything") -> FunctionOfSeveral:  # type: ignore[override]
        w = SeveralWriter(r, theme)
        source = w.write()
        return cls(source, w.inexact, w.used, w.signature, w.sizes, w.dtypes)


def slices(r: Any, length: int, dtype: str, kinds: int = 4) -> tuple[np.ndarray, int]:
    """An array of more slices than the plain loop would get, and the axis.

    `kinds`: 2 without NaN and infinities, 3 without numbers of all sizes, 4 with everything.
    """
    counts = [(17 + r.randrange(44),), (4 + r.randrange(4), 5 + r.randrange(3))][r.randrange(2)]
    shape = list(counts)
    axis = r.randrange(len(shape) + 1)
    shape.insert(axis, length)
    rng = np.random.default_rng(r.randrange(2**32))
    kind = r.randrange(kinds)
    x = _numbers(rng, shape, np.dtype(dtype), kind)
    order = r.randrange(5)
    if order == 1:
        x = np.asfortranarray(x)
    elif order == 2:
        wide = np.zeros([2 * n for n in shape], x.dtype)
        wide[tuple(slice(None, None, 2) for _ in shape)] = x
        x = wide[tuple(slice(None, None, 2) for _ in shape)]
    elif order == 3:
        x = x[tuple(slice(None, None, -1) for _ in shape)]
    elif order == 4:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, axis, 0)), 0, axis)
    return x, axis - r.choice([0, len(shape)])


def _numbers(rng: Any, shape: list[int], dtype: np.dtype, kind: int) -> np.ndarray:
    """Kinds: 0 ties, 1 numbers, 2 with NaN and infinities, 3 of all sizes."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        if kind == 3:
            info = np.iinfo(dtype)
            x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            return np.where(rng.random(shape) < 0.6, rng.integers(0, 5, shape).astype(dtype), x)
        low = 0 if dtype.kind == "u" else -4
        return rng.integers(low, 5 if kind == 0 else 50, shape).astype(dtype)
    if kind == 0:
        return rng.integers(-3, 4, shape).astype(dtype) / dtype.type(2)
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    if kind >= 2:
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, float(np.finfo(dtype).smallest_subnormal)]
        if kind == 3:
            big = float(np.finfo(dtype).max)
            odd += [big, -big, big / 2, 1e-30, 1e17, -1e17, float(np.finfo(dtype).tiny)]
        some = rng.random(shape) < rng.choice([0.02, 0.15])
        x[some] = rng.choice(np.array(odd, dtype), int(some.sum()))
    return x
