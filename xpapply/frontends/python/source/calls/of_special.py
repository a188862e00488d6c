"""Ufuncs of ``scipy.special``, and what ``scipy.stats.norm`` computes of numbers with them."""

from __future__ import annotations

import functools
import sys
from types import MethodType
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .. import numbers
from ..values import NUMPY, Num, Writes
from .common import Call, as_float, exactly, number
from .of_numpy import ufunc_of


def find(f: Any) -> Call | None:
    """The row of a call of `f`, if it is one of these; None: it is not."""
    special = sys.modules.get("scipy.special")
    if isinstance(f, np.ufunc):
        is_one = special is not None and getattr(special, f.__name__, None) is f
        return ufunc_of(f) if is_one and f.nout == 1 else None
    stats = sys.modules.get("scipy.stats")
    if stats is None or type(f) is not MethodType or f.__self__ is not stats.norm:
        return None
    return _normal(f.__name__) if f.__name__ in _OF_NORM and _agree() else None


def _normal(name: str) -> Call:
    """``scipy.stats.norm.cdf`` and such, of one number."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, 1)
        if name == "ppf" and number(t, args[0]).dtype != "float64":  # which computes in its type
            raise t.refuse(f"scipy.stats.norm.ppf of {args[0].dtype}")
        x = as_float(t, args, {})._replace(kind=NUMPY)
        return _OF_NORM[name](t, x)

    return call


def _of(t: Writes, name: str, x: Num) -> Num:
    found: Num = ufunc_of(getattr(sys.modules["scipy.special"], name))(t, [x], {})
    return found


def _sf(t: Writes, x: Num) -> Num:
    return _of(t, "ndtr", numbers.unary(t, "-", x))


def _ppf(t: Writes, x: Num) -> Num:
    found = _of(t, "ndtri", x)  # which is moved by nothing: a zero has no sign then
    return numbers.binary(t, "+", found, Num("float64", NUMPY, Literal(0.0, "float64")))


def _pdf(t: Writes, x: Num) -> Num:
    def given(value: float) -> Num:
        return Num("float64", NUMPY, Literal(value, "float64"))

    square = numbers.unary(t, "-", ufunc_of(np.square)(t, [x], {}))
    half = numbers.binary(t, "/", square, given(2.0))
    found = ufunc_of(np.exp)(t, [half], {})
    return numbers.binary(t, "/", found, given(float(np.sqrt(2 * np.pi))))


_OF_NORM: dict[str, Any] = {
    "cdf": lambda t, x: _of(t, "ndtr", x), "sf": _sf, "ppf": _ppf, "pdf": _pdf
}  # fmt: skip


@functools.cache
def _agree() -> bool:
    """Whether this SciPy computes with the same bits."""
    norm, special = sys.modules["scipy.stats"].norm, sys.modules["scipy.special"]
    x = np.array([-9.5, -1.25, -0.3, 0.0, 0.1, 0.5, 0.97, 1.7, 4.4])
    with np.errstate(all="ignore"):
        pairs = [
            (norm.cdf, special.ndtr(x)), (norm.sf, special.ndtr(-x)),
            (norm.ppf, special.ndtri(x) + 0.0),
            (norm.pdf, np.array([np.exp(-(y * y) / 2.0) for y in x]) / np.sqrt(2 * np.pi)),
        ]  # fmt: skip
        return all(np.array_equal([f(y) for y in x], want, equal_nan=True) for f, want in pairs)
