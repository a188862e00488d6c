"""Fits of SciPy: their arguments, for ours that are compiled with the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_fits
from .. import arrays, numbers, whole
from ..values import NUMPY, Abstract, Arr, Inlined, Known, Num, Tup, Writes, integer
from .arguments import FALSE, TRUE, as_array
from .common import Call, as_float, number
from .solving import further_arguments, is_none, option, plainly, real, taken, whole_number

_NOTHING = Known(None)
_EPS = math.ulp(1.0)


def agrees(name: str, solver: Callable[..., Any]) -> bool:
    """Whether this SciPy goes as ours does."""
    x = np.arange(6.0)
    for y in (2.0 / (1.0 + c * x) for c in (0.2, 0.7, 3.0)):
        limits = 0, _EPS, (1.49012e-8, 1.49012e-8, 0.0, 100)
        if name == "leastsq":
            args = x, y
            ours = of_fits.least_squares(_off, np.ones(2), None, args, *limits)
            theirs = solver(_off, np.ones(2), args)
        else:
            rest = np.ones(2), (1, 1), None, False, True, None, False, *limits
            ours = of_fits.best_fit(_peak, x, (True, None), y, *rest)
            theirs = solver(_peak, x, y)
        if not np.array_equal(ours[0], theirs[0]):
            return False
    return True


def _peak(x: Any, a: float, b: float) -> Any:
    return a / (1.0 + b * x * x)


def _off(p: Any, x: Any, y: Any) -> Any:
    return _peak(x, *p) - y


_MINPACK = {
    "ftol": 1.49012e-8, "xtol": 1.49012e-8, "gtol": 0.0, "maxfev": 0, "epsfcn": None,
    "factor": 100,
}  # fmt: skip
_FIT = {
    "f": None, "xdata": None, "ydata": None, "p0": None, "sigma": None, "absolute_sigma": False,
    "check_finite": True, "bounds": None, "method": None, "jac": None, "full_output": False,
    "nan_policy": None, **_MINPACK,
}  # fmt: skip


def _curve_fit(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "curve_fit", _FIT, args, kwargs)
    plainly(t, "curve_fit", given, full_output=False, nan_policy=None)
    method, bounds = given.pop("method"), given.pop("bounds")
    if bounds is not None and not _is_unbounded(bounds):
        raise t.refuse("scipy.optimize.curve_fit with bounds")
    if isinstance(method, Known) and method.value not in (None, "lm"):
        raise t.refuse(f"scipy.optimize.curve_fit with method={method.value!r}")
    f, x, y, start, sigma, absolute, finite, jac, *limits = given.values()
    x = _data(t, x)
    y = _doubles(t, y)
    first, n = _start(t, start, t.count_of_parameters(f) - 1)
    weights: Abstract = _NOTHING
    if not is_none(sigma):
        weights = real(t, sigma) if isinstance(sigma, Num) else _doubles(t, sigma)
    jac = _slopes(t, "curve_fit", jac)
    if isinstance(weights, Num) and jac is not _NOTHING:
        raise t.refuse("scipy.optimize.curve_fit with jac and one sigma for all")
    options = [option(t, x) for x in (absolute, finite)]
    begins = FALSE
    if isinstance(first, Tup) and first.items[0].dtype == "int64":
        begins = TRUE
    count = Tup((_NOTHING,) * n)
    if t.reads_part(1):
        t.rounds()
        ours = of_fits.curve_fit
    else:
        ours = of_fits.best_fit
    ndim = x.type.ndim if isinstance(x, Arr) else 0
    axes = Tup(tuple(TRUE if ndim == n else _NOTHING for n in (1, 2)))
    rest = [*options, jac, begins, *_limits(t, limits)]
    return Inlined(ours, [f, x, axes, y, first, count, weights, *rest], {})


_LEASTSQ = {
    "func": None, "x0": None, "args": (), "Dfun": None, "full_output": False, "col_deriv": False,
    **_MINPACK, "diag": None,
}  # fmt: skip


def _leastsq(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "leastsq", _LEASTSQ, args, kwargs)
    plainly(t, "leastsq", given, full_output=False, col_deriv=False, diag=None)
    f, start, further, jac, *limits = given.values()
    if isinstance(start, Num):
        start = Tup((start,))
    rest = [_slopes(t, "leastsq", jac), further_arguments(further), *_limits(t, limits)]
    return Inlined(of_fits.least_squares, [f, _doubles(t, start), *rest], {})


def _slopes(t: Writes, name: str, jac: Any) -> Abstract:
    """A function that gives a Jacobian, or None."""
    if isinstance(jac, Known) and isinstance(jac.value, str):
        raise t.refuse(f"scipy.optimize.{name} with jac={jac.value!r}")
    return _NOTHING if is_none(jac) else jac


def _start(t: Writes, start: Any, n: int) -> tuple[Abstract, int]:
    """Where a fit starts, and how many parameters it has; `n`: as many as its model."""
    if isinstance(start, Num):
        start = Tup((start,))
    if isinstance(start, Tup):
        return Tup(tuple(_of_array(t, start))), len(start.items)
    if n < 1:
        raise t.refuse("scipy.optimize.curve_fit of so many parameters: p0=(...) says how many")
    if is_none(start):
        return Tup((Num("float64", NUMPY, Literal(1.0, "float64")),) * n), n
    return _doubles(t, start), n


def _limits(t: Writes, limits: list[Any]) -> list[Abstract]:
    """How often a function may be called, what it is exact to, and tolerances."""
    ftol, xtol, gtol, maxfev, epsfcn, factor = limits
    eps = _EPS if is_none(epsfcn) else epsfcn
    tolerances = Tup(tuple(real(t, x) for x in (ftol, xtol, gtol, factor)))
    return [whole_number(t, maxfev), real(t, eps), tolerances]


def _is_unbounded(x: Abstract) -> bool:
    ends = x.items if isinstance(x, Tup) else ()
    values = [e.value.value for e in ends if isinstance(e, Num) and isinstance(e.value, Literal)]
    return values == [-math.inf, math.inf]


def _doubles(t: Writes, x: Abstract) -> Arr:
    """An array of one axis, as float64."""
    found = as_array(t, x, "biuf")
    return found if found.type.dtype == "float64" else whole.as_type(t, found, "float64")


def _data(t: Writes, x: Abstract) -> Abstract:
    """What the model gets: arrays, lists and tuples as float64."""
    if isinstance(x, Arr) and x.type.ndim > 1:
        if x.type.dtype != "float64":
            raise t.refuse("scipy.optimize.curve_fit at several arrays of other numbers")
        return x
    return x if isinstance(x, Known) else _doubles(t, x)


def _of_array(t: Writes, x: Tup) -> list[Num]:
    """Numbers as they are in an array of them: all floats, or all integers."""
    given = [number(t, y) for y in x.items]
    kinds = {numbers.kind_of(y.dtype) for y in given}
    if not kinds <= set("if") or not {y.dtype for y in given} <= {"int64", "float64"}:
        raise t.refuse("scipy.optimize.curve_fit from other numbers than float64")
    if "f" in kinds:
        given = [as_float(t, [y], {}) for y in given]
    return [y._replace(kind=NUMPY) for y in given]


def _parts(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Tup:
    """Elements of an array, as many as is known."""
    x, count = args
    return Tup(tuple(arrays.item(t, x, integer(k)) for k in range(len(count.items))))


OWN: dict[Any, Call] = {of_fits.parts: _parts}
"""Functions of ours that are written here."""
ROWS: dict[str, Call] = {"curve_fit": _curve_fit, "leastsq": _leastsq}
