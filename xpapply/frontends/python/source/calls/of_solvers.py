"""Solvers of SciPy: their arguments, for ours that are compiled with what they call."""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library import of_integrals, of_results, of_roots
from .....library.solvers import hybrids, of_minima, of_samples, of_xarray
from .. import arrays, places
from ..values import (
    EITHER,
    NUMPY,
    Abstract,
    Arr,
    Inlined,
    Known,
    Num,
    Record,
    Tup,
    Writes,
    integer,
)
from . import of_curves, of_least_squares, of_minimize, of_odes
from .arguments import FALSE, TRUE, as_array, float64, only_axis
from .common import Call, number
from .solving import (
    further_arguments,
    is_none,
    module_of,
    option,
    options_of,
    plainly,
    real,
    taken,
    whole_number,
)


def find(f: Any) -> Call | None:
    """The row of a call of `f`, if it is a solver; None: it is not."""
    if f in of_least_squares.OWN:
        return of_least_squares.OWN[f]
    if f is of_results.Result:
        return lambda t, args, kwargs: Record(tuple(kwargs), tuple(kwargs.values()))
    for where in (of_odes, of_minimize, of_curves):
        if f in where.OURS:
            return where.OURS[f]
    if getattr(f, "__qualname__", "") == "curvefit.<locals>._wrapper":
        return functools.partial(_curvefit, f)
    name = getattr(f, "__name__", "")
    row = _ROWS.get(name)
    if row is None or getattr(sys.modules.get(module_of(name)), name, None) is not f:
        return None
    return row if _agrees(name) else None


_NOTHING = Known(None)
_EPS = math.ulp(1.0)


@functools.cache
def _agrees(name: str) -> bool:
    """Whether this SciPy takes the same steps as ours, which it may change."""
    if name in of_odes.ROWS:
        return name != "solve_ivp" or of_odes.agrees()
    solver = getattr(sys.modules[module_of(name)], name)
    if name == "fixed_quad" or name in _SAMPLES:
        return _agrees_on_samples(name, solver)
    for where in (of_least_squares, of_minimize, of_curves):
        if name in where.ROWS:
            return where.agrees(name, solver)
    if name in ("fsolve", "root"):
        return _hybrid_agrees(name, solver)
    if name in ("minimize_scalar", "fminbound"):
        for end in map(float, _STARTS):
            ours = of_minima.bounded(_bent, -end, end, (), 1e-5, 500)
            if name == "fminbound":
                if solver(_bent, -end, end) != ours.x:
                    return False
                continue
            down = of_minima.brent(of_minima.downhill, (end, 9.0), _bent, (), 1.48e-8, 500)
            theirs = solver(_bent, (end, 9.0)), solver(_bent, bounds=(-end, end))
            if not all(a.items() <= b.items() for a, b in zip((down, ours), theirs, strict=True)):
                return False
        return True
    if name == "quad":
        found = [of_integrals.quad(_bent, -1.0, x, (), _ABOUT, _ABOUT, 50, 0) for x in _STARTS]
        return found == [solver(_bent, -1.0, x) for x in _STARTS]
    if name == "newton":
        steps = [of_roots.secant(_cubic, x, (), 1.48e-8, 50, None, 0.0, False) for x in _STARTS]
        return [x for x, *_ in steps] == [solver(_cubic, x) for x in _STARTS]
    if name == "root_scalar":
        return all(
            of_roots.result(of_roots.brentq, True, x).items()
            <= solver(_cubic, bracket=x[1:3]).items()
            for x in _ENDS
        )
    return _is_like(root_solver(name), solver)


def _is_like(ours: Any, solver: Any) -> bool:
    """Whether roots between two places equal SciPy's."""
    return [ours(*x, False)[0] for x in _ENDS] == [solver(*x[:3]) for x in _ENDS]


@functools.cache
def root_solver(name: str) -> Any:
    """The one of ours that goes as this SciPy does."""
    own = getattr(of_roots, name)
    if name == "ridder" and not _is_like(own, sys.modules["scipy.optimize"].ridder):
        return of_roots.ridder_by_shares
    return own


_STARTS = [np.float64(x) for x in (1.5, 2.0, 3.7)]


def _cubic(x: float) -> float:
    return x * x * x - x - 1.0


_ENDS = [(_cubic, 1.0, x, (), 2e-12, 4 * _EPS, 100) for x in (*_STARTS, np.float64(9.0))]
"""Test problems; Ridders' steps have other last bits since SciPy 1.18."""


def _bent(x: float) -> float:
    return abs(x) ** 0.5


# --- roots --------------------------------------------------------------------------------------

_BRACKETS = {
    "f": None, "a": None, "b": None, "args": (), "xtol": 2e-12, "rtol": 4 * _EPS,
    "maxiter": 100, "full_output": False, "disp": True,
}  # fmt: skip


def _bracketed(name: str) -> Call:
    """A root between two places."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = taken(t, name, _BRACKETS, args, kwargs)
        full, quiet = _full(t, given)
        return _solved(name, full, quiet, _between(t, given))

    return call


def _between(t: Writes, given: Mapping[str, Any]) -> list[Abstract]:
    """Arguments of a solver between two places."""
    f, a, b, further, xtol, rtol, maxiter = given.values()
    limits = [real(t, xtol), real(t, rtol), whole_number(t, maxiter)]
    return [f, real(t, a), real(t, b), further_arguments(further), *limits]


def _full(t: Writes, given: dict[str, Any]) -> tuple[bool, Num]:
    """Take out whether a root is not all that is given, and whether a failure is a result."""
    full, disp = (option(t, given.pop(name)) for name in ("full_output", "disp"))
    return full == TRUE, FALSE if disp == TRUE else TRUE


def _solved(name: str, full: bool, quiet: Num, given: list[Abstract]) -> Inlined:
    """A call of one of our solvers of roots."""
    args = [Known(root_solver(name)), quiet, Tup(tuple(given))]
    return Inlined(of_roots.full_root if full else of_roots.root, args, {})


_NEWTON = {
    "func": None, "x0": None, "fprime": None, "args": (), "tol": 1.48e-8, "maxiter": 50,
    "fprime2": None, "x1": None, "rtol": 0.0, "full_output": False, "disp": True,
}  # fmt: skip


def _newton(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "newton", _NEWTON, args, kwargs)
    full, quiet = _full(t, given)
    name, rest = _by_steps(t, **given)
    return _solved(name, full, quiet, rest)


def _by_steps(
    t: Writes, func: Any, x0: Any, fprime: Any, args: Any, tol: Any, maxiter: Any, fprime2: Any,
    x1: Any, rtol: Any,
) -> tuple[str, list[Abstract]]:  # fmt: skip
    """Our solver by steps, and its arguments."""
    start = real(t, _float64(t, x0))._replace(kind=NUMPY)
    limits = [further_arguments(args), real(t, tol), whole_number(t, maxiter)]
    if is_none(fprime):
        x1 = _NOTHING if is_none(x1) else _float64(t, x1)
        return "secant", [func, start, *limits, x1, real(t, rtol)]
    bent = _NOTHING if is_none(fprime2) else fprime2
    return "newton", [func, start, fprime, *limits, bent, real(t, rtol)]


_ROOT = {
    "f": None, "args": (), "method": None, "bracket": None, "fprime": None, "fprime2": None,
    "x0": None, "x1": None, "xtol": None, "rtol": None, "maxiter": None, "options": None,
}  # fmt: skip
_METHODS = {
    **dict.fromkeys(("brentq", "brenth", "bisect", "ridder"), "bracket"),
    **dict.fromkeys(("secant", "newton", "halley"), "x0"),
}
"""Methods of roots, and their starting values."""


def _root_scalar(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "root_scalar", _ROOT, args, kwargs)
    plainly(t, "root_scalar", given, options=None)
    has = {name: not is_none(x) for name, x in given.items()}
    method = given["method"].value if has["method"] else _method(has)
    method = method.lower() if isinstance(method, str) else method
    if method not in _METHODS:
        raise t.refuse(f"scipy.optimize.root_scalar with method={method!r}")
    slopes = [given[name] for name in ("fprime", "fprime2") if has[name]]
    if any(isinstance(x, Num) for x in slopes):
        raise t.refuse("scipy.optimize.root_scalar of a function that gives its derivative too")
    if not has[_METHODS[method]] or len(slopes) < {"newton": 1, "halley": 2}.get(method, 0):
        raise t.refuse(f"scipy.optimize.root_scalar by {method} without what it needs")
    is_between = _METHODS[method] == "bracket"
    name = method if is_between else "newton"
    if not _agrees(name):
        raise t.refuse(f"the {name} of this SciPy")
    own = dict(_BRACKETS if is_between else _NEWTON, f=given["f"], args=given["args"])
    limits = {"xtol": "xtol" if is_between else "tol", "rtol": "rtol", "maxiter": "maxiter"}
    own |= {limits[k]: given[k] for k in limits if has[k]}
    own = {k: x for k, x in own.items() if k not in ("full_output", "disp")}
    if is_between:
        own["a"], own["b"] = (arrays.item(t, given["bracket"], integer(k)) for k in (0, 1))
        return _result(method, _between(t, own))
    own["func"], own["x0"] = own.pop("f"), given["x0"]
    those = {"secant": ["x1"], "newton": ["fprime"], "halley": ["fprime", "fprime2"]}[method]
    return _result(*_by_steps(t, **own | {k: given[k] for k in those}))


def _method(has: Mapping[str, bool]) -> str | None:
    """SciPy's default method."""
    if has["bracket"]:
        return "brentq"
    if not has["x0"]:
        return None
    if has["fprime"]:
        return "halley" if has["fprime2"] else "newton"
    return "secant" if has["x1"] else "newton"


def _result(name: str, given: list[Abstract]) -> Inlined:
    return Inlined(of_roots.result, [Known(root_solver(name)), TRUE, Tup(tuple(given))], {})


def _float64(t: Writes, x: Abstract) -> Num:
    found = number(t, x)
    if found.dtype not in ("float64", "int64"):
        raise t.refuse(f"a solver of SciPy's from a {found.dtype}")
    return found


_HYBRID = {
    "xtol": 1.49012e-8, "maxfev": 0, "eps": None, "factor": 100.0, "col_deriv": 0, "band": None,
    "diag": None,
}  # fmt: skip
_FSOLVE = {
    "func": None, "x0": None, "args": (), "fprime": None, "full_output": 0, "col_deriv": 0,
    "xtol": 1.49012e-8, "maxfev": 0, "band": None, "epsfcn": None, "factor": 100.0, "diag": None,
}  # fmt: skip


def _fsolve(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "fsolve", _FSOLVE, args, kwargs)
    page = (
        hybrids.fsolve_told if of_minimize.is_said(t, given.pop("full_output")) else hybrids.fsolve
    )
    plainly(t, "fsolve", given, col_deriv=0, band=None, diag=None)
    f, start, further, jac, xtol, most, eps, factor = given.values()
    own = _of_hybrid(t, f, jac, start, further, xtol, most, eps, factor)
    return Inlined(page, own, {})


_SYSTEM = {
    "fun": None, "x0": None, "args": (), "method": "hybr", "jac": None, "tol": None,
    "callback": None, "options": None,
}  # fmt: skip


def _root(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "root", _SYSTEM, args, kwargs)
    plainly(t, "root", given, callback=None)
    f, start, further, method, jac, tol, options = given.values()
    name = method.value if isinstance(method, Known) else method
    name = name.lower() if isinstance(name, str) else name
    if name not in ("hybr", "lm"):
        raise t.refuse(f"scipy.optimize.root with method={name!r}")
    jac = _slopes(t, jac)
    if name == "lm":
        start = of_minimize.begins(t, start)
        return of_least_squares.root(t, f, jac, start, further_arguments(further), tol, options)
    usual = _HYBRID if is_none(tol) else _HYBRID | {"xtol": tol}
    said = options_of(t, "root", options, usual)
    plainly(t, "root", said, col_deriv=0, band=None, diag=None)
    own = _of_hybrid(t, f, jac, start, further, *said.values())
    return Inlined(hybrids.hybrid, own, {})


def _of_hybrid(
    t: Writes, f: Any, jac: Any, start: Any, further: Any, xtol: Any, most: Any, eps: Any,
    factor: Any,
) -> list[Abstract]:  # fmt: skip
    """Arguments of Powell's hybrid method."""
    eps = _EPS if is_none(eps) else eps
    return [
        f, _slopes(t, jac), of_minimize.begins(t, start),
        further_arguments(further), real(t, xtol), whole_number(t, most), real(t, eps),
        real(t, factor),
    ]  # fmt: skip


def _slopes(t: Writes, jac: Any) -> Abstract:
    """A function that gives slopes, or None."""
    if isinstance(jac, (Num, bool)):
        if option(t, jac) == TRUE:
            raise t.refuse("scipy.optimize.root of a function that gives its slopes too")
        jac = None
    return _NOTHING if is_none(jac) else jac  # type: ignore[no-any-return]


def _hybrid_agrees(name: str, solver: Any) -> bool:
    """Whether this SciPy takes the same steps as ours."""
    for start in (np.array([1.0, 1.0]), np.array([-0.5, 2.0])):
        for jac in (None, _falls):
            ours = hybrids.hybrid(_system, jac, start, (), 1.49012e-8, 0, _EPS, 100.0)
            if name == "fsolve":
                theirs, told, _, _ = solver(_system, start, fprime=jac, full_output=True)
                if not np.array_equal(ours.x, theirs) or ours.nfev != told["nfev"]:
                    return False
                continue
            theirs = solver(_system, start, jac=jac)
            if not all(np.array_equal(ours[k], theirs[k]) for k in ("x", "fun", "nfev", "status")):
                return False
    return True


def _system(x: Any) -> Any:
    return np.array([x[0] * x[0] + x[1] - 1.5, x[0] - x[1] * x[1] * x[1] + 0.3])


def _falls(x: Any) -> Any:
    return np.array([[2.0 * x[0], 1.0], [1.0, -3.0 * x[1] * x[1]]])


# --- minima -------------------------------------------------------------------------------------

_LEAST = {
    "fun": None, "bracket": None, "bounds": None, "args": (), "method": None, "tol": None,
    "options": None,
}  # fmt: skip
_WITHIN = {
    "func": None, "x1": None, "x2": None, "args": (), "xtol": 1e-5, "maxfun": 500,
    "full_output": 0, "disp": 1,
}  # fmt: skip


def _minimize_scalar(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "minimize_scalar", _LEAST, args, kwargs)
    f, bracket, bounds, further, method, tol, options = given.values()
    name = "brent" if is_none(bounds) else "bounded"
    if not is_none(method):
        name = method.value.lower() if isinstance(method, Known) else "?"
    if name not in ("brent", "golden", "bounded"):
        raise t.refuse("scipy.optimize.minimize_scalar by such a method")
    if is_none(bounds) is (name == "bounded") or not (is_none(tol) or name != "bounded"):
        raise t.refuse(f"scipy.optimize.minimize_scalar by {name} with these arguments")
    usual = {
        "brent": {"xtol": 1.48e-8, "maxiter": 500}, "golden": {"xtol": _ROOT_EPS, "maxiter": 5000},
        "bounded": {"xatol": 1e-5, "maxiter": 500},
    }[name]  # fmt: skip
    if not is_none(tol):
        usual = usual | {"xtol": tol}
    said = options_of(t, "minimize_scalar", options, usual | {"disp": 0})
    plainly(t, "minimize_scalar", said, disp=0)
    near, most = said.values()
    limits = [further_arguments(further), real(t, near), whole_number(t, most)]
    if name == "bounded":
        return Inlined(of_minima.bounded, [f, *_ends(t, bounds), *limits], {})
    search, places_ = _three(t, bracket)
    ours = of_minima.brent if name == "brent" else of_minima.golden
    return Inlined(ours, [Known(search), Tup(tuple(places_)), f, *limits], {})


_ROOT_EPS = math.sqrt(_EPS)


def _ends(t: Writes, bounds: Abstract) -> list[Num]:
    """Two numbers, as Python's floats."""
    if not isinstance(bounds, Tup) or len(bounds.items) != 2:
        raise t.refuse("scipy.optimize.minimize_scalar with bounds that are no pair")
    return [real(t, _float64(t, x)) for x in bounds.items]


def _three(t: Writes, bracket: Any) -> tuple[Any, list[Num]]:
    """The function that brackets a minimum, and its arguments."""
    if is_none(bracket):
        bracket = Tup((real(t, 0.0), real(t, 1.0)))
    if not isinstance(bracket, Tup) or len(bracket.items) not in (2, 3):
        raise t.refuse("scipy.optimize.minimize_scalar with a bracket that is no pair")
    given = [_float64(t, x) for x in bracket.items]
    kinds = {x.kind for x in given}
    kind = NUMPY if len(given) == 2 or kinds == {NUMPY} else EITHER
    reals = [real(t, x)._replace(kind=kind) for x in given]
    if len(given) == 3:
        return of_minima.given_three, [*given, *reals]
    if all(x.dtype == "int64" for x in given):
        return of_minima.from_integers, [*(x._replace(kind=NUMPY) for x in given), *reals]
    return of_minima.downhill, reals


def _fminbound(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "fminbound", _WITHIN, args, kwargs)
    plainly(t, "fminbound", given, disp=1)
    f, a, b, further, near, most, full = given.values()
    limits = [further_arguments(further), real(t, near), whole_number(t, most)]
    is_full = option(t, bool(full) if isinstance(full, int) else full) == TRUE
    ours = of_minima.full_fminbound if is_full else of_minima.fminbound
    return Inlined(ours, [f, *_ends(t, Tup((a, b))), *limits], {})


# --- integrals ----------------------------------------------------------------------------------

_ABOUT = 1.49e-8
_QUAD = {
    "func": None, "a": None, "b": None, "args": (), "full_output": 0, "epsabs": _ABOUT,
    "epsrel": _ABOUT, "limit": 50, "points": None, "weight": None, "wvar": None, "wopts": None,
    "maxp1": 50, "limlst": 50, "complex_func": False,
}  # fmt: skip


def _quad(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "quad", _QUAD, args, kwargs)
    plainly(t, "quad", given, full_output=0, points=None, weight=None, complex_func=False)
    f, a, b, further, epsabs, epsrel, limit, *_ = given.values()
    a, b = real(t, a), real(t, b)
    ends = [x.value.value for x in (a, b) if isinstance(x.value, Literal)]
    side = (math.inf in ends) - (-math.inf in ends)
    if side == 0 and math.inf in ends:
        side = 2
    limits = [real(t, epsabs), real(t, epsrel), whole_number(t, limit), whole_number(t, side)]
    return Inlined(of_integrals.quad, [f, a, b, further_arguments(further), *limits], {})


# --- integrals of samples -----------------------------------------------------------------------

_SAMPLES: dict[str, tuple[int, dict[str, Any]]] = {
    "trapezoid": (4, {"y": None, "x": None, "dx": 1.0, "axis": -1}),
    "cumulative_trapezoid": (
        5, {"y": None, "x": None, "dx": 1.0, "axis": -1, "initial": None},
    ),
    "simpson": (2, {"y": None, "x": None, "dx": 1.0, "axis": -1}),
    "cumulative_simpson": (
        1, {"y": None, "x": None, "dx": 1.0, "axis": -1, "initial": None},
    ),
    "romb": (4, {"y": None, "dx": 1.0, "axis": -1, "show": False}),
}  # fmt: skip
"""The number of positional arguments, and all arguments with defaults."""


def _of_samples(name: str) -> Call:
    """An integral of samples along their only axis."""
    most, spec = _SAMPLES[name]

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = taken(t, name, spec, args, kwargs)
        if len(args) > most:
            raise t.refuse(f"scipy.integrate.{name} with so many arguments")
        if not isinstance(given["axis"], int):
            only_axis(t, given["axis"])
        plainly(t, name, {"show": False} | given, show=False)
        x, first = given.get("x"), given.get("initial")
        if is_none(x):
            x = _NOTHING
        elif name == "cumulative_simpson":
            x = of_least_squares.doubles(t, x)
        else:
            x = as_array(t, x, "if")
            if x.type.dtype not in ("int64", "float64"):
                raise t.refuse(f"scipy.integrate.{name} along {places.described(x)}")
        more: list[Any] = [] if name == "romb" else [x]
        more.append(real(t, given["dx"]))
        if name == "cumulative_trapezoid":
            if not is_none(first) and not _is_zero(first):
                raise t.refuse("scipy.integrate.cumulative_trapezoid with initial that is not 0")
            more.append(FALSE if is_none(first) else TRUE)
        if name == "cumulative_simpson":
            begins = not is_none(first)
            more += [TRUE, real(t, first)] if begins else [FALSE, real(t, 0.0)]
        return Inlined(getattr(of_samples, name), [float64(t, given["y"]), *more], {})

    return call


def _is_zero(x: Any) -> bool:
    return isinstance(x, Num) and isinstance(x.value, Literal) and x.value.value == 0


_FIXED = {"func": None, "a": None, "b": None, "args": (), "n": 5}


def _fixed_quad(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    f, a, b, further, n = taken(t, "fixed_quad", _FIXED, args, kwargs).values()
    if isinstance(n, Num) and isinstance(n.value, Literal):
        n = n.value.value
    if not isinstance(n, int):
        raise t.refuse("scipy.integrate.fixed_quad with n that is computed")
    table = (t.constant(np.ascontiguousarray(x), is_own=True) for x in _places(n))
    ends = real(t, a), real(t, b)
    return Inlined(of_samples.fixed_quad, [f, *ends, further_arguments(further), *table], {})


def _places(n: int) -> tuple[Any, Any]:
    """Places and weights of so many, as SciPy has them."""
    x, w = importlib.import_module("scipy.special").roots_legendre(n)
    return np.real(x), w


def _agrees_on_samples(name: str, solver: Any) -> bool:
    """Whether SciPy's integrals of samples equal ours."""
    if name == "fixed_quad":
        ours, _ = of_samples.fixed_quad(np.exp, -1.0, 1.5, (), *_places(5))
        return bool(ours == solver(np.exp, -1.0, 1.5)[0])
    with_places = [None] if name == "romb" else [None, np.array([0.0, 0.4, 1.0, 1.3, 2.2, 3.0])]
    for n in (5, 3) if name == "romb" else (6, 5, 3, 2):
        y = np.sin(1.0 + np.arange(n))
        for x in with_places:
            if name == "romb":
                ours = of_samples.romb(y, 0.3)
                theirs = solver(y, 0.3)
            else:
                more = {"cumulative_trapezoid": (False,), "cumulative_simpson": (False, 0.0)}
                at = None if x is None else x[:n]
                ours = getattr(of_samples, name)(y, at, 0.3, *more.get(name, ()))
                theirs = solver(y, x=at, dx=0.3)
            if not np.array_equal(ours, theirs):
                return False
    return True


# --- fits of xarray -----------------------------------------------------------------------------


def _curvefit(f: Any, t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """The row of the function that ``DataArray.curvefit`` calls: a slice, coordinates, start,
    bounds."""
    names = ("curve_fit", "errors", "func", "n_coords", "n_params", "skipna")
    if f.__code__.co_freevars != names:
        raise t.refuse("the curvefit of this xarray")
    solver, errors, model, coords, n, skips = (
        t.watch.look(f, "cell", k) for k in range(len(names))
    )
    if coords != 1 or not isinstance(args[0], Arr) or args[0].type.ndim != 1:
        raise t.refuse("xarray's curvefit along several dimensions")
    given = {k: _literal(t, x) for k, x in kwargs.items()}
    y, x, *numbers = args
    start, lower, upper = (Tup(tuple(numbers[k * n : (k + 1) * n])) for k in range(3))
    ends = [x.value.value for x in (*lower.items, *upper.items) if isinstance(x.value, Literal)]
    is_free = ends == [-math.inf] * n + [math.inf] * n
    rest = [integer(n), *(TRUE if x else _NOTHING for x in (skips, errors == "ignore", is_free))]
    solver = functools.partial(solver, **given) if given else solver
    ours = [Known(solver), Known(model), y, x, start, lower, upper, *rest]
    return Inlined(of_xarray.fitted, ours, {})


def _literal(t: Writes, x: Any) -> Any:
    """An option as it is written."""
    if isinstance(x, Known):
        return x.value
    if isinstance(x, Num) and isinstance(x.value, Literal):
        return x.value.value
    raise t.refuse("xarray's curvefit with such options")


_ROWS: dict[str, Call] = {
    **{name: _of_samples(name) for name in _SAMPLES}, "fixed_quad": _fixed_quad,
    **{name: _bracketed(name) for name in ("brentq", "brenth", "bisect", "ridder")},
    "newton": _newton, "root_scalar": _root_scalar, "fsolve": _fsolve, "root": _root,
    "minimize_scalar": _minimize_scalar, "fminbound": _fminbound, "quad": _quad,
    **of_least_squares.ROWS, **of_minimize.ROWS, **of_odes.ROWS,
    **of_curves.ROWS,
}  # fmt: skip
