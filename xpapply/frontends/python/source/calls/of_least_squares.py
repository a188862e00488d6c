"""Fits of SciPy: their arguments, for ours that are compiled with the model."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_fits
from .....library.solvers import boxes, fits, lengths, linear
from .....library.solvers import trust_regions as regions
from .....limits import LIMITS
from .. import arrays, numbers, places, whole
from ..values import NUMPY, Abstract, Arr, Inlined, Known, Num, Tup, Writes, integer
from .arguments import TRUE, as_array
from .common import Call, as_float, number
from .solving import (
    further_arguments,
    is_none,
    option,
    options_of,
    plainly,
    real,
    taken,
    whole_number,
)

_NOTHING = Known(None)
_EPS = math.ulp(1.0)


def agrees(name: str, solver: Callable[..., Any]) -> bool:
    """Whether this SciPy takes the same steps as ours."""
    if name in ("nnls", "lsq_linear"):
        return _agrees_on_linear(name, solver)
    x = np.arange(6.0)
    for y in (2.0 / (1.0 + c * x) for c in (0.2, 0.7, 3.0)):
        limits = 0, _EPS, (1.49012e-8, 1.49012e-8, 0.0, 100)
        if name == "least_squares":
            if not all(_agrees_by(solver, method, (x, y)) for method in _STEPS):
                return False
            continue
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


def _agrees_by(solver: Callable[..., Any], method: str, args: tuple[Any, Any]) -> bool:
    ends, rest = (-math.inf, math.inf), (None, 1.0, None, 1.0, (1e-8,) * 3, args)
    ours = fits.least_squares(_off, np.ones(2), None, ends, _STEPS[method], *rest)
    theirs = solver(_off, np.ones(2), method=method, args=args)
    near = LIMITS.typed_solving
    return ours.nfev == theirs.nfev and np.allclose(ours.x, theirs.x, near, near)


_STEPS = {"trf": regions.reflective, "dogbox": boxes.rectangular, "lm": fits.free}


@functools.cache
def _agrees_within_bounds(method: str) -> bool:
    """Whether fits within bounds agree, up to rounding."""
    curve_fit = sys.modules["scipy.optimize"].curve_fit
    x, ends = np.arange(6.0), (np.array([0.5, 0.0]), np.array([9.0, 1.0]))
    near = LIMITS.typed_solving
    region = ends, None, np.ones(2), None, 1.0, (1e-8,) * 3
    rest = (1, 1), None, True, None, _STEPS[method], *region
    for y in (2.0 / (1.0 + c * x) for c in (0.2, 0.7, 3.0)):
        ours, _ = fits.best_fit(False, _peak, x, (True, None), y, np.ones(2), *rest)
        theirs, _ = curve_fit(_peak, x, y, (1, 1), bounds=ends, method=method)
        if not np.allclose(ours, theirs, near, near):
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
_REGION = {
    "ftol": 1e-8, "xtol": 1e-8, "gtol": 1e-8, "x_scale": 1.0, "loss": "linear", "f_scale": 1.0,
    "max_nfev": None, "tr_solver": None, "diff_step": None, "verbose": 0,
}  # fmt: skip
_FIT = {
    "f": None, "xdata": None, "ydata": None, "p0": None, "sigma": None, "absolute_sigma": False,
    "check_finite": True, "bounds": None, "method": None, "jac": None, "full_output": False,
    "nan_policy": None,
}  # fmt: skip


def _curve_fit(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    bounds, method = kwargs.get("bounds"), _text(kwargs.get("method"))
    is_free = bounds is None or _is_unbounded(bounds)
    has_region = method in ("trf", "dogbox") or (method is None and not is_free)
    if not has_region and (method not in (None, "lm") or not is_free):
        raise t.refuse(f"scipy.optimize.curve_fit with method={method!r}")
    further = _REGION | {"maxfev": None} if has_region else _MINPACK
    given = taken(t, "curve_fit", _FIT | further, args, kwargs)
    plainly(t, "curve_fit", given, full_output=False, nan_policy=None)
    rest = {name: given.pop(name) for name in further}
    f, x, y, start, sigma, absolute, finite, bounds, _, jac = given.values()
    x = _data(t, x)
    y = doubles(t, y)
    first, n = _start(t, start, t.count_of_parameters(f) - 1)
    weights: Abstract = _NOTHING
    if not is_none(sigma):
        weights = real(t, sigma) if isinstance(sigma, Num) else doubles(t, sigma)
    jac = _slopes(t, "curve_fit", jac, ("2-point",) if has_region else ())
    if isinstance(weights, Num) and jac is not _NOTHING:
        raise t.refuse("scipy.optimize.curve_fit with jac and one sigma for all")
    absolute, finite = (option(t, x) for x in (absolute, finite))
    count = Tup((_NOTHING,) * n)
    ndim = x.type.ndim if isinstance(x, Arr) else 0
    axes = Tup(tuple(TRUE if ndim == n else _NOTHING for n in (1, 2)))
    whole_fit = t.reads_part(1)
    if has_region:
        if not _agrees_within_bounds(method or "trf"):
            raise t.refuse(f"the {method or 'trf'} of this SciPy")
        t.rounds(LIMITS.typed_solving)
        most = rest.pop("maxfev")
        if is_none(rest["max_nfev"]):
            rest["max_nfev"] = most
        if is_none(start):
            first = _NOTHING
        ends = both_ends(t, bounds, n)
        chosen = _NOTHING if method is None else Known(_STEPS[method])
        region = [jac, chosen, ends, *_region(t, "curve_fit", rest, n)]
        ours = fits.curve_fit if whole_fit else fits.best_fit
        return Inlined(ours, [absolute, f, x, axes, y, first, count, weights, finite, *region], {})
    if whole_fit:
        t.rounds(LIMITS.typed_rounding)
    begins = isinstance(first, Tup) and first.items[0].dtype == "int64"
    minpack = [absolute, finite, jac, option(t, begins), *_limits(t, [*rest.values()])]
    ours = of_fits.curve_fit if whole_fit else of_fits.best_fit
    return Inlined(ours, [f, x, axes, y, first, count, weights, *minpack], {})


def _text(x: Any) -> Any:
    """A text that is known, or None."""
    return x.value if isinstance(x, Known) else x


def both_ends(t: Writes, x: Abstract, n: int | None) -> Tup:
    """Lower and upper bounds, as `_many` has them."""
    if isinstance(x, Known) and type(x.value) is sys.modules["scipy.optimize"].Bounds:
        t.watch.kind(x.value)
        ends = (t.watch.look(x.value, "entry", name) for name in ("lb", "ub"))
        x = Tup(tuple(t.constant(end) for end in ends))
    if is_none(x):
        x = Tup((real(t, -math.inf), real(t, math.inf)))
    if not isinstance(x, Tup) or len(x.items) != 2:
        raise t.refuse("bounds that are no pair")
    return Tup(tuple(_many(t, y, n) for y in x.items))


def _many(t: Writes, x: Abstract, n: int | None) -> Abstract:
    """An array; a number stands for as many, and for itself if that is not known."""
    if n is None and isinstance(x, Num):
        return real(t, x)
    return doubles(t, Tup((number(t, x),) * (n or 0)) if isinstance(x, Num) else x)


def _region(t: Writes, name: str, given: dict[str, Any], n: int | None) -> list[Abstract]:
    """Arguments of a trust region: evaluations, scales, loss and its scale, tolerances."""
    plainly(t, name, given, diff_step=None, verbose=0)
    ftol, xtol, gtol, scales, loss, size = (given[k] for k in [*_REGION][:6])
    most, solver = given["max_nfev"], given["tr_solver"]
    if _text(solver) not in (None, "exact"):
        raise t.refuse(f"scipy.optimize.{name} with tr_solver={_text(solver)!r}")
    if isinstance(scales, (float, type(None))) or is_none(scales):
        scales = real(t, 1.0)
    scales = _NOTHING if _text(scales) == "jac" else _many(t, scales, n)
    kind = _text(loss)
    if kind not in _LOSSES:
        raise t.refuse(f"scipy.optimize.{name} with such a loss")
    most = _NOTHING if is_none(most) else whole_number(t, most)
    tolerances = Tup(tuple(real(t, x) for x in (ftol, xtol, gtol)))
    return [most, scales, Known(_LOSSES[kind]), real(t, size), tolerances]


_LOSSES = {
    "linear": None, "soft_l1": regions.soft_l1, "huber": regions.huber, "cauchy": regions.cauchy,
    "arctan": regions.arctan,
}  # fmt: skip


_SQUARES = {
    "fun": None, "x0": None, "jac": None, "bounds": None, "method": None, "ftol": 1e-8,
    "xtol": 1e-8, "gtol": 1e-8, "x_scale": None, "loss": "linear", "f_scale": 1.0,
    "diff_step": None, "tr_solver": None, "tr_options": None, "jac_sparsity": None,
    "max_nfev": None, "verbose": 0, "args": (), "kwargs": None, "callback": None, "workers": None,
}  # fmt: skip


def _least_squares(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    name = "least_squares"
    given = taken(t, name, _SQUARES, args, kwargs)
    plainly(t, name, given, tr_options=None, jac_sparsity=None, kwargs=None)
    plainly(t, name, given, callback=None, workers=None)
    f, start, jac, bounds, method, further = (
        given.pop(k) for k in ("fun", "x0", "jac", "bounds", "method", "args")
    )
    method = "trf" if is_none(method) else _text(method)
    if method not in _STEPS:
        raise t.refuse(f"scipy.optimize.least_squares with method={method!r}")
    is_free = method == "lm"
    if is_free and not (is_none(bounds) or _is_unbounded(bounds)):
        raise t.refuse("scipy.optimize.least_squares by lm with bounds")
    if is_free and not (is_none(given["x_scale"]) or _text(given["x_scale"]) == "jac"):
        raise t.refuse("scipy.optimize.least_squares by lm with x_scale")
    region = _region(t, name, given, None)
    if is_free and region[2] != _NOTHING:
        raise t.refuse("scipy.optimize.least_squares by lm with a loss")
    t.rounds(LIMITS.typed_rounding if is_free else LIMITS.typed_solving)
    start = doubles(t, Tup((start,)) if isinstance(start, Num) else start)
    jac = _slopes(t, name, jac, ("2-point",))
    rest = [
        jac,
        both_ends(t, bounds, None),
        Known(_STEPS[method]),
        *region,
        further_arguments(further),
    ]
    return Inlined(fits.least_squares, [f, start, *rest], {})


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
    return Inlined(of_fits.least_squares, [f, doubles(t, start), *rest], {})


_ROOT = {
    "col_deriv": 0, "xtol": 1.49012e-8, "ftol": 1.49012e-8, "gtol": 0.0, "maxiter": 0, "eps": 0.0,
    "factor": 100, "diag": None,
}  # fmt: skip


def root(
    t: Writes, f: Any, jac: Abstract, start: Arr, further: Tup, tol: Any, options: Any
) -> Inlined:  # fmt: skip
    """A root of several functions as their least squares."""
    said = options_of(t, "root", options, _ROOT if is_none(tol) else _ROOT | {"xtol": tol})
    plainly(t, "root", said, col_deriv=0, diag=None)
    xtol, ftol, gtol, most, eps, factor = said.values()
    limits = Tup(tuple(real(t, x) for x in (ftol, xtol, gtol, factor)))
    known = [x.value.value for x in limits.items if isinstance(x.value, Literal)]
    texts = _texts(*known[:3]) if len(known) == 4 and _root_agrees() else ("",) * 9
    told = Tup(tuple(map(Known, texts)))
    rest = [start, further, whole_number(t, most), real(t, eps), limits, told]
    return Inlined(fits.root, [f, jac, *rest], {})


def _texts(ftol: float, xtol: float, gtol: float) -> tuple[str, ...]:
    """SciPy's messages for the ends of MINPACK; "" where they contain the number of calls."""
    return (
        "",
        "Both actual and predicted relative reductions in the sum of squares\n  are at most "
        f"{ftol:f}",
        f"The relative error between two consecutive iterates is at most {xtol:f}",
        "Both actual and predicted relative reductions in the sum of squares\n  are at most "
        f"{ftol:f} and the relative error between two consecutive iterates is at \n  most {xtol:f}",
        "The cosine of the angle between func(x) and any column of the\n  Jacobian is at most "
        f"{gtol:f} in absolute value",
        "",
        f"ftol={ftol:f} is too small, no further reduction in the sum of squares\n  is possible.",
        f"xtol={xtol:f} is too small, no further improvement in the approximate\n  solution is "
        "possible.",
        f"gtol={gtol:f} is too small, func(x) is orthogonal to the columns of\n  the Jacobian to "
        "machine precision.",
    )


@functools.cache
def _root_agrees() -> bool:
    """Whether this SciPy has the same messages."""
    solver: Any = sys.modules["scipy.optimize"].root
    theirs = solver(lambda p: p * p - 2.0, [1.0], method="lm", options={"ftol": 0.1})
    return theirs.message == _texts(0.1, 1.49012e-8, 0.0)[theirs.status]


_NNLS = {"A": None, "b": None, "maxiter": None}


def _nnls(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    a, b, most = taken(t, "nnls", _NNLS, args, kwargs).values()
    if len(args) > 2:
        raise t.refuse("scipy.optimize.nnls with so many arguments")
    most = whole_number(t, 0 if is_none(most) else most)
    t.rounds(LIMITS.typed_solving)
    known = t.content(a)
    if known is not None and known.ndim == 2 and known.dtype.kind in "biuf":
        known = known.astype(float)
        if len(known) > known.shape[1] > 0 and np.isfinite(known).all():
            made = [np.ascontiguousarray(x) for x in np.linalg.qr(known)]
            factors = [t.constant(x, is_own=True) for x in made]
            return Inlined(linear.nnls_of, [*factors, doubles(t, b), most], {})
    return Inlined(linear.nnls, [_table(t, "nnls", a), doubles(t, b), most], {})


_LINEAR = {
    "A": None, "b": None, "bounds": None, "method": "trf", "tol": 1e-10, "lsq_solver": None,
    "lsmr_tol": None, "max_iter": None, "verbose": 0, "lsmr_maxiter": None,
}  # fmt: skip


def _lsq_linear(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    name = "lsq_linear"
    given = taken(t, name, _LINEAR, args, kwargs)
    plainly(t, name, given, lsmr_tol=None, verbose=0, lsmr_maxiter=None)
    a, b, bounds, method, tol, solver, most = given.values()
    method = _text(method) if isinstance(method, Known) else method
    if method not in ("trf", "bvls") or _text(solver) not in (None, "exact"):
        raise t.refuse("scipy.optimize.lsq_linear by such a method")
    t.rounds(LIMITS.typed_solving if method == "trf" else LIMITS.typed_rounding)
    most = whole_number(t, 0 if is_none(most) else most)
    by = TRUE if method == "bvls" else _NOTHING
    rest = [both_ends(t, bounds, None), by, real(t, tol), most]
    return Inlined(linear.lsq_linear, [_table(t, name, a), doubles(t, b), *rest], {})


def _table(t: Writes, name: str, x: Abstract) -> Arr:
    """A matrix, as float64."""
    if not isinstance(x, Arr) or x.type.ndim != 2 or numbers.kind_of(x.type.dtype) not in "biuf":
        raise t.refuse(f"scipy.optimize.{name} of {places.described(x)}")
    return whole.as_type(t, x, "float64")


def _agrees_on_linear(name: str, solver: Callable[..., Any]) -> bool:
    a = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0], [2.0, 1.0, 1.0], [0.1, 0.4, -1.0]])
    near, ends = LIMITS.typed_rounding, (-0.1, 0.5)
    for b in (np.array([1.0, -2.0, 0.3, c]) for c in (0.5, -3.0, 9.0)):
        if name == "nnls":
            pairs = [*zip(linear.nnls(a, b, 0), solver(a, b), strict=True)]
        else:
            pairs = [
                (linear.lsq_linear(a, b, ends, by, 1e-10, 0)[k], solver(a, b, ends, method)[k])
                for by, method, more in ((None, "trf", ()), (True, "bvls", _COUNTS))
                for k in ("x", "success", *more)
            ]
        if not all(
            ours == theirs if isinstance(ours, str) else np.allclose(ours, theirs, near, near)
            for ours, theirs in pairs
        ):
            return False
    return True


_COUNTS = "nit", "status", "message"


def _slopes(t: Writes, name: str, jac: Any, usual: tuple[str, ...] = ()) -> Abstract:
    """A function that gives a Jacobian, or None; `usual`: what stands for that."""
    if isinstance(_text(jac), str):
        if _text(jac) not in usual:
            raise t.refuse(f"scipy.optimize.{name} with jac={_text(jac)!r}")
        return _NOTHING
    return _NOTHING if is_none(jac) else jac


def _start(t: Writes, start: Any, n: int) -> tuple[Abstract, int]:
    """The start of a fit, and its number of parameters; `n`: those of the model."""
    if isinstance(start, Num):
        start = Tup((start,))
    if isinstance(start, Tup):
        return Tup(tuple(_of_array(t, start))), len(start.items)
    if n < 1:
        raise t.refuse("scipy.optimize.curve_fit of so many parameters: p0=(...) says how many")
    if is_none(start):
        return Tup((Num("float64", NUMPY, Literal(1.0, "float64")),) * n), n
    return doubles(t, start), n


def _limits(t: Writes, limits: list[Any]) -> list[Abstract]:
    """Arguments of MINPACK: most calls, accuracy, tolerances."""
    ftol, xtol, gtol, maxfev, epsfcn, factor = limits
    eps = _EPS if is_none(epsfcn) else epsfcn
    tolerances = Tup(tuple(real(t, x) for x in (ftol, xtol, gtol, factor)))
    return [whole_number(t, maxfev), real(t, eps), tolerances]


def _is_unbounded(x: Abstract) -> bool:
    ends = x.items if isinstance(x, Tup) else ()
    values = [e.value.value for e in ends if isinstance(e, Num) and isinstance(e.value, Literal)]
    return values == [-math.inf, math.inf]


def doubles(t: Writes, x: Abstract) -> Arr:
    """An array of one axis, as float64."""
    found = as_array(t, x, "biuf")
    return found if found.type.dtype == "float64" else whole.as_type(t, found, "float64")


def _data(t: Writes, x: Abstract) -> Abstract:
    """The data for the model: arrays, lists and tuples as float64."""
    if isinstance(x, Arr) and x.type.ndim > 1:
        if x.type.dtype != "float64":
            raise t.refuse("scipy.optimize.curve_fit at several arrays of other numbers")
        return x
    return x if isinstance(x, Known) else doubles(t, x)


def _of_array(t: Writes, x: Tup) -> list[Num]:
    """Numbers as they are in an array of them: all floats, or all integers."""
    given = [number(t, y) for y in x.items]
    dtypes = {y.dtype for y in given}
    if "float64" in dtypes:  # of which an array is, beside shorter ones
        dtypes -= {"float32"}
    if not dtypes <= {"int64", "float64"}:
        raise t.refuse(
            "scipy.optimize.curve_fit from other numbers than float64: p0=(float(x), ...)"
        )
    if "float64" in dtypes:
        given = [as_float(t, [y], {}) for y in given]
    return [y._replace(kind=NUMPY) for y in given]


def _parts(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Tup:
    """Elements of an array, as many as is known."""
    x, count = args
    return Tup(tuple(arrays.item(t, x, integer(k)) for k in range(len(count.items))))


def _whole(whole: Any, each: Any) -> Call:
    """A function of arrays, by elements on a device."""
    return lambda t, args, kwargs: Inlined(each if t.fetches else whole, args, kwargs)


OWN: dict[Any, Call] = {
    of_fits.parts: _parts, lengths.less: _whole(lengths.less, lengths.less_each),
    lengths.divide: _whole(lengths.divide, lengths.divide_each),
    of_fits.change: _whole(of_fits.change, of_fits.change_each),
}  # fmt: skip
"""Functions of ours that are written here."""
ROWS: dict[str, Call] = {
    "curve_fit": _curve_fit,
    "leastsq": _leastsq,
    "least_squares": _least_squares,
    "nnls": _nnls,
    "lsq_linear": _lsq_linear,
}
