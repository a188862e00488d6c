"""Ufuncs of ``scipy.special``, and what ``scipy.stats.norm`` computes of numbers with them."""

from __future__ import annotations

import functools
import sys
from types import MethodType
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .. import numbers
from ..values import NUMPY, Inlined, Known, Num, Writes, integer
from .arguments import TAKEN
from .common import Call, as_float, exactly, number
from .of_numpy import ufunc_of


def find(f: Any) -> Call | None:
    """The row of a call of `f`, if it is one of these; None: it is not."""
    special = sys.modules.get("scipy.special")
    if isinstance(f, np.ufunc):
        is_one = special is not None and getattr(special, f.__name__, None) is f
        return ufunc_of(f) if is_one and f.nout == 1 else None
    stats = sys.modules.get("scipy.stats")
    if stats is None or type(f) is not MethodType:
        return None
    if f.__self__ is stats.gamma and f.__name__ in _OF_GAMMA and _gamma_agrees():
        return _OF_GAMMA[f.__name__]
    if f.__self__ is not stats.norm:
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


def _gamma_fit(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``scipy.stats.gamma.fit(data, floc=0)``."""
    floc = kwargs.get("floc")
    zero = isinstance(floc, Num) and isinstance(floc.value, Literal) and floc.value.value == 0
    if len(args) != 1 or kwargs.keys() != {"floc"} or not zero:
        raise t.refuse("scipy.stats.gamma.fit with other arguments than data and floc=0")
    data = TAKEN["doubles"](t, args[0])
    optimize, special = (sys.modules[f"scipy.{name}"] for name in ("optimize", "special"))
    from .....library import of_statistics

    given = [data, floc, Known(optimize.brentq), Known(special.digamma)]
    return Inlined(of_statistics.gamma_fit, given, {})


def _gamma_cdf(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``scipy.stats.gamma.cdf(x, a, loc=0, scale=1)`` of numbers."""
    names = "x", "a", "loc", "scale"
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or not kwargs.keys() <= {*names} or not {"x", "a"} <= given.keys():
        raise t.refuse("scipy.stats.gamma.cdf with such arguments")
    given = {"loc": integer(0), "scale": integer(1)} | given
    own = [as_float(t, [given[name]], {})._replace(kind=NUMPY) for name in names]
    from .....library import of_statistics

    gammainc = Known(sys.modules["scipy.special"].gammainc)
    return Inlined(of_statistics.gamma_cdf, [*own, gammainc], {})


_OF_GAMMA: dict[str, Call] = {"fit": _gamma_fit, "cdf": _gamma_cdf}


@functools.cache
def _gamma_agrees() -> bool:
    """Whether this SciPy computes with the same bits."""
    from .....library import of_statistics

    gamma, special = sys.modules["scipy.stats"].gamma, sys.modules["scipy.special"]
    brentq, digamma = sys.modules["scipy.optimize"].brentq, special.digamma
    for k in range(1, 4):
        data = np.array([0.3, 1.7, 2.25, 4.1, 0.9, 3.3]) ** k
        if gamma.fit(data, floc=0) != of_statistics.gamma_fit(data, 0, brentq, digamma):
            return False
        x, a, scale = np.float64(1.3 * k), np.float64(0.7 * k), np.float64(1.1)
        found = of_statistics.gamma_cdf(x, a, 0, scale, special.gammainc)
        if gamma.cdf(x, a, scale=scale) != found:
            return False
    return True


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
