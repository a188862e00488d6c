"""NumPy's ufuncs in the op table: an op, or a composition of other ufuncs.

All graphs are written with these, see `builder` and `numpy_builder`. SciPy's ufuncs are known
once `scipy.special` is loaded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import TraceError
from .ops import OPS, Kind, Op

LOGICAL = {
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.invert: np.logical_not,
}
"""Python's bitwise operators on booleans."""

COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}


def op_or_definition(ufunc: np.ufunc) -> tuple[str | None, Callable[..., Any] | None]:
    """The op that a ufunc is, or how it is written with other ufuncs."""
    ufunc = LOGICAL.get(ufunc, ufunc)
    name, define = _op_of(ufunc), DEFINED.get(ufunc)
    # a row says more than a definition, but for one that is a definition itself
    if define is not None and (name is None or OPS[name].kind is Kind.COMPOSITE):
        return None, define
    return name, None


def _op_of(ufunc: np.ufunc) -> str | None:
    found = _found.get(ufunc)
    if found not in OPS:  # rows may come and go
        found = next((row.name for row in OPS.values() if any(_is(ufunc, row))), None)
        if found is not None:
            _found[ufunc] = found
    return found


_found: dict[np.ufunc, str] = {}


def _is(ufunc: np.ufunc, row: Op) -> Iterator[bool]:
    for module in (np, sys.modules.get("scipy.special")):
        for name in (row.name, *row.torch):
            yield getattr(module, name, None) is ufunc


def known() -> list[str]:
    """The names of the ufuncs that can be written in a graph."""
    names = {name for row in OPS.values() for name in (row.name, *row.torch)}
    ufuncs = {f for f in (getattr(np, name, None) for name in names) if isinstance(f, np.ufunc)}
    return sorted(f.__name__ for f in ufuncs | DEFINED.keys())


def _hypot(x: Any, y: Any) -> Any:
    """A hypotenuse without overflow in squares; inf where either operand is, as in C."""
    x, y = np.absolute(x), np.absolute(y)
    large, small = np.maximum(x, y), np.minimum(x, y)
    usual = np.isfinite(large) & (large != 0)
    ratio = small / np.where(usual, large, 1)
    size = np.where(usual, large * np.sqrt(1 + ratio * ratio), large)
    return np.where((x == math.inf) | (y == math.inf), math.inf, size)


def _sign(x: Any) -> Any:
    below = 0 if x.dtype.kind == "u" else -1
    return np.where(x > 0, 1, np.where(x < 0, below, np.where(x == 0, 0, x)))


def _reciprocal(x: Any) -> Any:
    if x.dtype.kind != "f":
        raise TraceError(f"numpy.reciprocal of {x.dtype} is 0 nearly everywhere: write 1 / x")
    return 1 / x


def _trunc(x: Any) -> Any:
    return np.where(x < 0, np.ceil(x), np.floor(x)) if x.dtype.kind == "f" else x


def _rint(x: Any) -> Any:
    """Round to nearest, ties to even; a result of zero keeps the sign."""
    below = np.floor(x)
    rest = x - below
    odd = below != 2 * np.floor(below / 2)
    near = np.where((rest > 0.5) | ((rest == 0.5) & odd), below + 1, below)
    return np.where(near == 0, _trunc(x), near)


def _times(numerator: float, denominator: float) -> Callable[[Any], Any]:
    """A multiple, whose factor is rounded as NumPy's C code rounds it."""

    def multiple(x: Any) -> Any:
        of = x.dtype.type
        if of not in (np.float32, np.float64):
            raise TraceError(f"degrees and radians of {x.dtype}: write the product")
        return x * (of(numerator) / of(denominator))

    return multiple


def _conjugate(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise TraceError("numpy.conjugate of a complex element is not an op of the table")
    return x


DEFINED: dict[np.ufunc, Callable[..., Any]] = {
    np.square: lambda x: x * x,
    np.positive: lambda x: x,
    np.isnan: lambda x: x != x,
    np.isinf: lambda x: (x == x) & ~np.isfinite(x),
    np.reciprocal: _reciprocal,
    np.sign: _sign,
    np.fabs: lambda x: np.absolute(x),
    np.exp2: lambda x: np.power(2, x),
    np.conjugate: _conjugate,
    np.hypot: _hypot,
    np.trunc: _trunc,
    np.rint: _rint,
    np.radians: _times(math.pi, 180),
    np.deg2rad: _times(math.pi, 180),
    np.degrees: _times(180, math.pi),
    np.rad2deg: _times(180, math.pi),
}
"""ufuncs that are written with others, of operands of the dtype that NumPy computes in."""
