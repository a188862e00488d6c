"""Solvers of SciPy: their arguments, for ours that are compiled with what they call."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_fits, of_integrals, of_roots
from .. import arrays, numbers, places, whole
from ..values import NUMPY, PYTHON, Abstract, Arr, Inlined, Known, Num, Tup, Writes
from .arguments import FALSE, TRUE, as_array
from .common import Call, as_float, number, python_int


def find(f: Any) -> Call | None:
    """What writes a call of `f`, if it is one of these; None: it is not."""
    if f is of_fits.parts:
        return _parts
    name = getattr(f, "__name__", "")
    row = _ROWS.get(name)
    if row is None or getattr(sys.modules.get(_module(name)), name, None) is not f:
        return None
    return row if _agrees(name) else None


def _module(name: str) -> str:
    return "scipy.integrate" if name == "quad" else "scipy.optimize"


def _taken(
    t: Writes, name: str, spec: Mapping[str, Any], args: list[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by name, with SciPy's defaults for those that are not given."""
    given = dict(zip(spec, args, strict=False)) | kwargs
    if len(args) > len(spec) or not given.keys() <= spec.keys():
        odd = next(iter(given.keys() - spec.keys()), "so many arguments")
        raise t.refuse(f"{_module(name)}.{name} with {odd}")
    return {**spec, **given}


def _plainly(t: Writes, name: str, given: dict[str, Any], **usual: Any) -> None:
    """Take out options that are compiled with one value alone."""
    for option, value in usual.items():
        x = given.pop(option)
        known = x.value if isinstance(x, Known) else x
        if isinstance(x, Num):
            known = x.value.value if isinstance(x.value, Literal) else x
        if known is not value and not (isinstance(known, (bool, str)) and known == value):
            raise t.refuse(f"{_module(name)}.{name} with {option}: {option}={value} is compiled")


def _further(x: Any) -> Tup:
    """Further arguments of a function: a tuple, or one."""
    return x if isinstance(x, Tup) and not x.is_list else Tup(() if x == () else (x,))


def _real(t: Writes, x: Any) -> Num:
    """A number of Python's own, with a fraction."""
    if isinstance(x, (int, float)):
        return Num("float64", PYTHON, Literal(float(x), "float64"))
    return as_float(t, [x], {})


def _whole(t: Writes, x: Any) -> Num:
    if isinstance(x, int):
        return Num("int64", PYTHON, Literal(x, "int64"))
    return python_int(t, x)


_NOTHING = Known(None)
_EPS = math.ulp(1.0)


@functools.cache
def _agrees(name: str) -> bool:
    """Whether this SciPy goes as ours does: it may change its ways."""
    solver = getattr(sys.modules[_module(name)], name)
    if name == "curve_fit":
        x = np.arange(6.0)
        rest = (
            np.ones(2),
            (1, 1),
            None,
            False,
            True,
            (1.49012e-8, 1.49012e-8, 0.0, 600, 100, _EPS),
        )
        for y in (2.0 / (1.0 + c * x) for c in (0.2, 0.7, 3.0)):
            ours = of_fits.best_fit(_peak, x, (True, None), y, *rest)
            if not np.array_equal(solver(_peak, x, y)[0], ours[0]):
                return False
        return True
    if name == "quad":
        found = [of_integrals.quad(_bent, -1.0, x, (), _ABOUT, _ABOUT, 50, 0) for x in _STARTS]
        return found == [solver(_bent, -1.0, x) for x in _STARTS]
    if name == "newton":
        found = [of_roots.secant(_cubic, x, (), 1.48e-8, 50, None, 0.0) for x in _STARTS]
        return found == [solver(_cubic, x) for x in _STARTS]
    ours = getattr(of_roots, name)
    found = [ours(_cubic, -1.0, x, (), 2e-12, 4 * _EPS, 100) for x in _STARTS]
    return found == [solver(_cubic, -1.0, x) for x in _STARTS]


_STARTS = [np.float64(x) for x in (1.5, 2.0, 3.7)]


def _cubic(x: float) -> float:
    return x * x * x - x - 1.0


def _bent(x: float) -> float:
    return abs(x) ** 0.5


def _peak(x: Any, a: float, b: float) -> Any:
    return a / (1.0 + b * x * x)


# --- roots --------------------------------------------------------------------------------------

_BRACKETS = {
    "f": None, "a": None, "b": None, "args": (), "xtol": 2e-12, "rtol": 4 * _EPS,
    "maxiter": 100, "full_output": False, "disp": True,
}  # fmt: skip


def _bracketed(name: str) -> Call:
    """A root between two places."""
    ours = getattr(of_roots, name)

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = _taken(t, name, _BRACKETS, args, kwargs)
        _plainly(t, name, given, full_output=False, disp=True)
        f, a, b, further, xtol, rtol, maxiter = given.values()
        numbers_ = [_real(t, x) for x in (a, b)]
        limits = [_real(t, xtol), _real(t, rtol), _whole(t, maxiter)]
        return Inlined(ours, [f, *numbers_, _further(further), *limits], {})

    return call


_NEWTON = {
    "func": None, "x0": None, "fprime": None, "args": (), "tol": 1.48e-8, "maxiter": 50,
    "fprime2": None, "x1": None, "rtol": 0.0, "full_output": False, "disp": True,
}  # fmt: skip


def _newton(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = _taken(t, "newton", _NEWTON, args, kwargs)
    _plainly(t, "newton", given, full_output=False, disp=True)
    f, x0, fprime, further, tol, maxiter, fprime2, x1, rtol = given.values()
    start = _real(t, _float64(t, x0))._replace(kind=NUMPY)
    limits = [_real(t, tol), _whole(t, maxiter)]
    if fprime is None or places.is_none(fprime):
        x1 = _NOTHING if x1 is None or places.is_none(x1) else _float64(t, x1)
        rest = [_further(further), *limits, x1, _real(t, rtol)]
        return Inlined(of_roots.secant, [f, start, *rest], {})
    fprime2 = _NOTHING if fprime2 is None else fprime2
    rest = [_further(further), *limits, fprime2, _real(t, rtol)]
    return Inlined(of_roots.newton, [f, start, fprime, *rest], {})


def _float64(t: Writes, x: Abstract) -> Num:
    found = number(t, x)
    if found.dtype not in ("float64", "int64"):
        raise t.refuse(f"scipy.optimize.newton from a {found.dtype}")
    return found


# --- integrals ----------------------------------------------------------------------------------

_ABOUT = 1.49e-8
_QUAD = {
    "func": None, "a": None, "b": None, "args": (), "full_output": 0, "epsabs": _ABOUT,
    "epsrel": _ABOUT, "limit": 50, "points": None, "weight": None, "wvar": None, "wopts": None,
    "maxp1": 50, "limlst": 50, "complex_func": False,
}  # fmt: skip


def _quad(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = _taken(t, "quad", _QUAD, args, kwargs)
    _plainly(t, "quad", given, full_output=0, points=None, weight=None, complex_func=False)
    f, a, b, further, epsabs, epsrel, limit, *_ = given.values()
    a, b = _real(t, a), _real(t, b)
    ends = [x.value.value for x in (a, b) if isinstance(x.value, Literal)]
    side = (math.inf in ends) - (-math.inf in ends)
    if side == 0 and math.inf in ends:
        side = 2
    limits = [_real(t, epsabs), _real(t, epsrel), _whole(t, limit), _whole(t, side)]
    return Inlined(of_integrals.quad, [f, a, b, _further(further), *limits], {})


# --- least squares ------------------------------------------------------------------------------

_FIT = {
    "f": None, "xdata": None, "ydata": None, "p0": None, "sigma": None, "absolute_sigma": False,
    "check_finite": True, "bounds": None, "method": None, "jac": None, "full_output": False,
    "nan_policy": None, "ftol": 1.49012e-8, "xtol": 1.49012e-8, "gtol": 0.0, "maxfev": 0,
    "epsfcn": None, "factor": 100,
}  # fmt: skip


def _curve_fit(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = _taken(t, "curve_fit", _FIT, args, kwargs)
    _plainly(t, "curve_fit", given, full_output=False, nan_policy=None, jac=None)
    method, bounds = given.pop("method"), given.pop("bounds")
    if bounds is not None and not _is_unbounded(bounds):
        raise t.refuse("scipy.optimize.curve_fit with bounds")
    if isinstance(method, Known) and method.value not in (None, "lm"):
        raise t.refuse(f"scipy.optimize.curve_fit with method={method.value!r}")
    f, x, y, start, sigma, absolute, finite, *limits = given.values()
    x = _data(t, x)
    y = _doubles(t, y)
    first, n = _start(t, start, t.count_of_parameters(f) - 1)
    weights: Abstract = _NOTHING
    if sigma is not None and not places.is_none(sigma):
        weights = _real(t, sigma) if isinstance(sigma, Num) else _doubles(t, sigma)
    options = [_option(t, x) for x in (absolute, finite)]
    given_limits = Tup(tuple(_limits(t, limits, n)))
    count = Tup((_NOTHING,) * n)
    if t.reads_part(1):
        t.rounds()
        ours = of_fits.curve_fit
    else:
        ours = of_fits.best_fit
    ndim = x.type.ndim if isinstance(x, Arr) else 0
    axes = Tup(tuple(TRUE if ndim == n else _NOTHING for n in (1, 2)))
    return Inlined(ours, [f, x, axes, y, first, count, weights, *options, given_limits], {})


def _start(t: Writes, start: Any, n: int) -> tuple[Abstract, int]:
    """Where a fit starts, and how many parameters it has; `n`: as many as its model."""
    if isinstance(start, Num):
        start = Tup((start,))
    if isinstance(start, Tup):
        return Tup(tuple(_of_array(t, start))), len(start.items)
    if n < 1:
        raise t.refuse("scipy.optimize.curve_fit of so many parameters: p0=(...) says how many")
    if start is None or places.is_none(start):
        return Tup((Num("float64", NUMPY, Literal(1.0, "float64")),) * n), n
    return _doubles(t, start), n


def _limits(t: Writes, limits: list[Any], n: int) -> list[Num]:
    ftol, xtol, gtol, maxfev, epsfcn, factor = limits
    most = maxfev
    if most == 0 or places.is_none(most):
        most = 200 * (n + 1)
    eps = _EPS if epsfcn is None or places.is_none(epsfcn) else epsfcn
    reals = [_real(t, x) for x in (ftol, xtol, gtol)]
    return [*reals, _whole(t, most), _real(t, factor), _real(t, eps)]


def _option(t: Writes, x: Any) -> Num:
    if isinstance(x, bool):
        return TRUE if x else FALSE
    if isinstance(x, Num) and isinstance(x.value, Literal):
        return TRUE if x.value.value else FALSE
    raise t.refuse("an option that is computed")


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
    places_ = (Num("int64", PYTHON, Literal(k, "int64")) for k in range(len(count.items)))
    return Tup(tuple(arrays.item(t, x, at) for at in places_))


_ROWS: dict[str, Call] = {
    **{name: _bracketed(name) for name in ("brentq", "brenth", "bisect", "ridder")},
    "newton": _newton, "curve_fit": _curve_fit, "quad": _quad,
}  # fmt: skip
