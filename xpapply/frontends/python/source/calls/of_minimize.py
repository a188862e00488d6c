"""Minima of functions of several numbers: their arguments, for ours that are compiled."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library.solvers import directions, limited_memory, line_searches, quasi_newton, simplexes
from .....limits import LIMITS
from .. import arrays, iterators, places
from ..values import Abstract, Arr, Inlined, Known, Num, Tup, Writes
from .arguments import TRUE, as_array
from .common import Call, number
from .of_least_squares import both_ends, doubles
from .of_numpy import array
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
_OPTIONS = {
    "xatol": 1e-4, "fatol": 1e-4, "maxiter": None, "maxfev": None, "adaptive": False,
    "disp": False, "return_all": False, "initial_simplex": None,
}  # fmt: skip


def agrees(name: str, solver: Callable[..., Any]) -> bool:
    """Whether this SciPy takes our steps; other methods check this when compiled."""
    if name not in ("minimize", "fmin"):
        return True
    rest = (), 1e-4, 1e-4, None, None, False, 1
    for start in (np.array([-1.0, 0.0]), np.array([3.0, 1.5]), np.array([0.5, 2.0, -1.0])):
        ours = simplexes.nelder_mead(_valley, start, *rest)
        if name == "fmin":
            theirs = solver(_valley, start, disp=False, full_output=True)
            ours = simplexes.full_fmin(_valley, start, *rest)
            if not all(map(np.array_equal, ours, theirs)):
                return False
            continue
        theirs = solver(_valley, start, method="Nelder-Mead")
        if not all(np.array_equal(x, theirs[k]) for k, x in ours.items()):
            return False
    return True


@functools.cache
def steady() -> int:
    """The length up to which NumPy's sort is stable for all numbers."""
    for k in range(2, 7):
        some = np.array(list(itertools.product(range(k), repeat=k)), float)
        if not np.array_equal(some.argsort(1), some.argsort(1, kind="stable")):
            return k - 1
    return 6


def _valley(x: Any) -> float:
    return float(x[0] * x[0] - x[0] + abs(x[1] * x[-1]) + (x[1] - 0.3) ** 2)


_MINIMIZE = {
    "fun": None, "x0": None, "args": (), "method": None, "jac": None, "hess": None,
    "hessp": None, "bounds": None, "constraints": (), "tol": None, "callback": None,
    "options": None,
}  # fmt: skip


def _minimize(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "minimize", _MINIMIZE, args, kwargs)
    if given["constraints"] == Tup(()):
        given["constraints"] = ()
    plainly(t, "minimize", given, hess=None, hessp=None, constraints=(), callback=None)
    method = given.pop("method")
    name = method.value if isinstance(method, Known) else method
    if is_none(method):
        name = "BFGS" if is_none(given["bounds"]) else "L-BFGS-B"
    row = _METHODS.get(name.lower()) if isinstance(name, str) else None
    if row is None:
        raise t.refuse(f"scipy.optimize.minimize with method={name!r}")
    return row(t, given)


def _by_simplex(t: Writes, given: dict[str, Any]) -> Inlined:
    plainly(t, "minimize", given, jac=None, bounds=None)
    f, start, further, tol, options = given.values()
    usual = _OPTIONS if is_none(tol) else _OPTIONS | {"xatol": tol, "fatol": tol}
    said = options_of(t, "minimize", options, usual)
    plainly(t, "minimize", said, disp=False, return_all=False, initial_simplex=None)
    return Inlined(simplexes.nelder_mead, [f, *_simplex(t, start, further, said)], {})


def _simplex(t: Writes, start: Any, further: Any, said: Mapping[str, Any]) -> list[Abstract]:
    """Arguments of our simplex, after the function."""
    if isinstance(start, Num):
        start = Tup((start,))
    rounds, most = (
        _NOTHING if is_none(said[k]) else whole_number(t, said[k]) for k in ("maxiter", "maxfev")
    )
    near = [real(t, said[k]) for k in ("xatol", "fatol")]
    rest = [*near, rounds, most, option(t, said["adaptive"]), whole_number(t, steady())]
    return [doubles(t, start), further_arguments(further), *rest]


_FMIN = {
    "func": None, "x0": None, "args": (), "xtol": 1e-4, "ftol": 1e-4, "maxiter": None,
    "maxfun": None, "full_output": 0, "disp": 1, "retall": 0, "callback": None,
    "initial_simplex": None,
}  # fmt: skip


def _fmin(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "fmin", _FMIN, args, kwargs)
    plainly(t, "fmin", given, retall=0, callback=None, initial_simplex=None)
    f, start, further, xtol, ftol, rounds, most, full, disp = given.values()
    if is_said(t, disp):
        raise t.refuse("scipy.optimize.fmin that prints: disp=False does not")
    said = {"xatol": xtol, "fatol": ftol, "maxiter": rounds, "maxfev": most, "adaptive": False}
    ours = simplexes.full_fmin if is_said(t, full) else simplexes.fmin
    return Inlined(ours, [f, *_simplex(t, start, further, said)], {})


# --- by slopes ----------------------------------------------------------------------------------

_STEP = math.sqrt(math.ulp(1.0))
_BFGS = {
    "gtol": 1e-5, "norm": math.inf, "eps": _STEP, "maxiter": None, "disp": False,
    "return_all": False, "finite_diff_rel_step": None, "xrtol": 0.0, "c1": 1e-4, "c2": 0.9,
    "hess_inv0": None, "workers": None,
}  # fmt: skip
_CG = {k: x for k, x in _BFGS.items() if k not in ("xrtol", "hess_inv0")} | {"c2": 0.4}
_NORMS = {
    math.inf: quasi_newton.largest, -math.inf: quasi_newton.smallest, 1: quasi_newton.summed,
    2: quasi_newton.euclidean,
}  # fmt: skip


def _by_steps(name: str, ours: Any, usual: dict[str, Any]) -> Callable[..., Inlined]:
    """Minima by steps that an inverse of the Hessian says, or along conjugate directions."""

    def call(t: Writes, given: dict[str, Any]) -> Inlined:
        plainly(t, f"minimize by {name}", given, bounds=None)
        f, start, further, jac, tol, options = given.values()
        said = options_of(t, "minimize", options, usual if is_none(tol) else usual | {"gtol": tol})
        plainly(t, "minimize", said, disp=False, return_all=False, finite_diff_rel_step=None)
        plainly(t, "minimize", said, workers=None)
        if "hess_inv0" in said:
            plainly(t, "minimize", said, hess_inv0=None)
        return Inlined(ours, _of_bfgs(t, f, jac, start, further, **{"xrtol": 0.0, **said}), {})

    return call


def _of_bfgs(
    t: Writes, f: Any, jac: Any, start: Any, further: Any, gtol: Any, norm: Any, eps: Any,
    maxiter: Any, xrtol: Any, c1: Any, c2: Any,
) -> list[Abstract]:  # fmt: skip
    """Arguments of our BFGS."""
    if not _bfgs_agrees():
        raise t.refuse("the BFGS, or the CG, of this SciPy")
    norm = _literal(norm)
    if norm not in _NORMS:
        raise t.refuse("scipy.optimize.minimize with such a norm")
    t.rounds(LIMITS.typed_solving)
    return [
        *_sources(t, f, jac), begins(t, start), further_arguments(further),
        Tup((_difference(t, jac, eps), _NOTHING, _NOTHING)), Known(_NORMS[norm]), real(t, gtol),
        _NOTHING if is_none(maxiter) else whole_number(t, maxiter),
        *(real(t, x) for x in (xrtol, c1, c2)),
    ]  # fmt: skip


_FMIN_CG = {
    "f": None, "x0": None, "fprime": None, "args": (), "gtol": 1e-5, "norm": math.inf,
    "epsilon": _STEP, "maxiter": None, "full_output": 0, "disp": 1, "retall": 0,
    "callback": None, "c1": 1e-4, "c2": 0.4,
}  # fmt: skip
_FMIN_BFGS = {
    **{k: x for k, x in _FMIN_CG.items() if k not in ("c1", "c2")},
    "xrtol": 0.0, "c1": 1e-4, "c2": 0.9, "hess_inv0": None,
}  # fmt: skip


def _fmin_by_steps(name: str, spec: dict[str, Any], ours: tuple[Any, Any]) -> Call:
    """Minima by these steps, by an older name; `ours`: what gives the place, and what all."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = taken(t, name, spec, args, kwargs)
        plainly(t, name, given, retall=0, callback=None)
        if "hess_inv0" in given:
            plainly(t, name, given, hess_inv0=None)
        page = _quiet(t, name, given, ours)
        f, start, jac, further = (given.pop(k) for k in ("f", "x0", "fprime", "args"))
        given["eps"] = given.pop("epsilon")
        whole = _NOTHING if _starts(t, start).type.dtype == "float64" else TRUE
        own = [whole, *_of_bfgs(t, f, jac, start, further, **{"xrtol": 0.0, **given})]
        return Inlined(page, own, {})

    return call


def _quiet(t: Writes, name: str, given: dict[str, Any], ours: tuple[Any, Any]) -> Any:
    """Take out whether it prints, and whether all is given: which of ours that is."""
    if is_said(t, given.pop("disp")):
        raise t.refuse(f"scipy.optimize.{name} that prints: disp=False does not")
    return ours[1 if is_said(t, given.pop("full_output")) else 0]


# --- along directions ---------------------------------------------------------------------------

_POWELL = {
    "xtol": 1e-4, "ftol": 1e-4, "maxiter": None, "maxfev": None, "disp": False, "direc": None,
    "return_all": False,
}  # fmt: skip


def _by_powell(t: Writes, given: dict[str, Any]) -> Inlined:
    plainly(t, "minimize", given, jac=None)
    f, start, further, bounds, tol, options = given.values()
    usual = _POWELL if is_none(tol) else _POWELL | {"xtol": tol, "ftol": tol}
    said = options_of(t, "minimize", options, usual)
    plainly(t, "minimize", said, disp=False, return_all=False, direc=None)
    first = begins(t, start)
    own = _of_powell(t, f, first, first, further, bounds, **said)
    return Inlined(directions.powell, own, {})


def _of_powell(
    t: Writes, f: Any, start: Arr, first: Arr, further: Any, bounds: Any, xtol: Any, ftol: Any,
    maxiter: Any, maxfev: Any,
) -> list[Abstract]:  # fmt: skip
    """Arguments of our Powell."""
    if not _powell_agrees():
        raise t.refuse("the method of Powell's in this SciPy")
    limits = (_NOTHING if is_none(x) else whole_number(t, x) for x in (maxiter, maxfev))
    return [
        f, start, first, further_arguments(further), _bounds(t, bounds), real(t, xtol),
        real(t, ftol), *limits,
    ]  # fmt: skip


_FMIN_POWELL = {
    "func": None, "x0": None, "args": (), "xtol": 1e-4, "ftol": 1e-4, "maxiter": None,
    "maxfun": None, "full_output": 0, "disp": 1, "retall": 0, "callback": None, "direc": None,
}  # fmt: skip


def _fmin_powell(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    name = "fmin_powell"
    given = taken(t, name, _FMIN_POWELL, args, kwargs)
    plainly(t, name, given, retall=0, callback=None, direc=None)
    page = _quiet(t, name, given, (directions.fmin_powell, directions.full_fmin_powell))
    f, start, further, xtol, ftol, rounds, most = given.values()
    said = {"xtol": xtol, "ftol": ftol, "maxiter": rounds, "maxfev": most}
    own = _of_powell(t, f, begins(t, start), _starts(t, start), further, None, **said)
    return Inlined(page, own, {})


@functools.cache
def _powell_agrees() -> bool:
    """Whether this SciPy takes the same steps as ours."""
    solver = sys.modules["scipy.optimize"].minimize
    for start in (np.array([-1.0, 0.0]), np.array([0.5, 2.0, -1.0])):
        for ends in (None, (-2.0, math.inf), (-2.0, 2.5)):
            ours = directions.powell(_valley, start, start, (), ends, 1e-4, 1e-4, None, None)
            how = None if ends is None else [ends] * len(start)
            theirs = solver(_valley, start, method="Powell", bounds=how)
            if not all(np.array_equal(x, theirs[k]) for k, x in ours.items()):
                return False
    return True


_L_BFGS_B = {
    "maxcor": 10, "ftol": 2.220446049250313e-09, "gtol": 1e-5, "eps": 1e-8, "maxfun": 15000,
    "maxiter": 15000, "maxls": 20, "finite_diff_rel_step": None, "workers": None,
}  # fmt: skip


def _by_l_bfgs_b(t: Writes, given: dict[str, Any]) -> Inlined:
    f, start, further, jac, bounds, tol, options = given.values()
    usual = _L_BFGS_B if is_none(tol) else _L_BFGS_B | {"ftol": tol, "gtol": tol}
    said = options_of(t, "minimize", options, usual)
    plainly(t, "minimize", said, finite_diff_rel_step=None, workers=None)
    own = _of_l_bfgs_b(t, f, jac, start, further, bounds, **said)
    return Inlined(limited_memory.anywhere, own, {})


def _of_l_bfgs_b(
    t: Writes, f: Any, jac: Any, start: Any, further: Any, bounds: Any, maxcor: Any, ftol: Any,
    gtol: Any, eps: Any, maxfun: Any, maxiter: Any, maxls: Any,
) -> list[Abstract]:  # fmt: skip
    """Arguments of our L-BFGS-B."""
    if not _l_bfgs_b_agrees():
        raise t.refuse("the L-BFGS-B of this SciPy")
    t.rounds(LIMITS.typed_solving)
    limits = (whole_number(t, x) for x in (maxfun, maxiter, maxls))
    return [
        *_sources(t, f, jac), begins(t, start), further_arguments(further),
        _difference(t, jac, eps), _bounds(t, bounds), whole_number(t, maxcor),
        Tup((real(t, ftol), real(t, gtol))), Tup(tuple(limits)),
        Tup(tuple(map(Known, _texts()))),
    ]  # fmt: skip


def _bounds(t: Writes, x: Any) -> Abstract:
    """Lower and upper bounds, each for all or one of each variable; None: there are none."""
    if is_none(x):
        return _NOTHING
    if isinstance(x, Known) and type(x.value) is sys.modules["scipy.optimize"].Bounds:
        return both_ends(t, x, None)
    if not isinstance(x, Tup) or not x.items:
        raise t.refuse("scipy.optimize.minimize with bounds that are no pairs")
    pairs = [iterators.unpacked(t, y, 2).items for y in x.items]
    usual = -math.inf, math.inf
    given = ([real(t, usual[k] if is_none(p[k]) else p[k]) for p in pairs] for k in (0, 1))
    return Tup(tuple(doubles(t, Tup(tuple(y))) for y in given))


@functools.cache
def _texts() -> tuple[str, ...]:
    """SciPy's messages by the reason of the end; empty: unknown form."""
    module: Any = sys.modules["scipy.optimize._lbfgsb_py"]
    try:
        first, second = module.status_messages, module.task_messages
        return tuple(f"{first[a]}: {second[b]}" for a, b in _ENDS)
    except (AttributeError, KeyError):
        return ()


_ENDS = (4, 401), (4, 402), (5, 504), (5, 502), (8, 0)


@functools.cache
def _l_bfgs_b_agrees() -> bool:
    """Whether this SciPy takes the same steps as ours."""
    solver, texts = sys.modules["scipy.optimize"].minimize, _texts()
    rest = _STEP, 10, (2.220446049250313e-09, 1e-5), (15000, 15000, 20), texts
    for start, low in (([-1.0, 0.0], -math.inf), ([1.3, 0.7, 0.2], 0.4)):
        for jac in (None, _slanted):
            given = _smooth, jac, None, np.array(start), (), rest[0], (low, 0.9), *rest[1:]
            ours = limited_memory.anywhere(*given)
            pairs, options = [(low, 0.9)] * len(start), {"eps": _STEP}
            how: Any = {"bounds": pairs, "options": options}
            theirs = solver(_smooth, start, method="L-BFGS-B", jac=jac, **how)
            if not _is_near(ours, theirs, ("nit", "nfev", "njev", "status", "message")):
                return False
    return True


_FMIN_L_BFGS_B = {
    "func": None, "x0": None, "fprime": None, "args": (), "approx_grad": 0, "bounds": None,
    "m": 10, "factr": 1e7, "pgtol": 1e-5, "epsilon": 1e-8, "iprint": None, "maxfun": 15000,
    "maxiter": 15000, "disp": None, "callback": None, "maxls": 20,
}  # fmt: skip


def _fmin_l_bfgs_b(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "fmin_l_bfgs_b", _FMIN_L_BFGS_B, args, kwargs)
    plainly(t, "fmin_l_bfgs_b", given, iprint=None, disp=None, callback=None)
    by_steps = is_said(t, given.pop("approx_grad"))
    f, start, jac, further, bounds, m, factr, pgtol, eps, *limits = given.values()
    if by_steps:
        jac = None
    elif is_none(jac):
        jac = True
    factr = _literal(factr)
    if not isinstance(factr, (int, float)):
        raise t.refuse("scipy.optimize.fmin_l_bfgs_b with a factr that is computed")
    rest = [m, factr * math.ulp(1.0), pgtol, eps, *limits]
    own = _of_l_bfgs_b(t, f, jac, start, further, bounds, *rest)
    return Inlined(limited_memory.fmin_l_bfgs_b, own, {})


def is_said(t: Writes, x: Any) -> bool:
    """An option that is known."""
    return option(t, bool(x) if isinstance(x, int) else x) == TRUE


def _literal(x: Any) -> Any:
    """A number that is written in the source."""
    return x.value.value if isinstance(x, Num) and isinstance(x.value, Literal) else x


def _sources(t: Writes, f: Any, jac: Any) -> list[Abstract]:
    """The functions of values and slopes, and whether the first gives both, or None."""
    if is_none(jac) or _literal(jac) is False or _is_two_point(jac):
        return [f, _NOTHING, _NOTHING]
    if _literal(jac) is True:
        return [f, _NOTHING, TRUE]
    if isinstance(jac, Num) or (isinstance(jac, Known) and not callable(jac.value)):
        raise t.refuse("scipy.optimize.minimize with such a jac")
    return [f, jac, _NOTHING]


def _is_two_point(jac: Any) -> bool:
    return isinstance(jac, Known) and jac.value == "2-point"


def _difference(t: Writes, jac: Any, eps: Any) -> Abstract:
    """The step of differences; None: relative ones."""
    return _NOTHING if _is_two_point(jac) else real(t, eps)


def begins(t: Writes, x: Any) -> Arr:
    """The start, converted from float64 or integers."""
    return doubles(t, _starts(t, x))


def _starts(t: Writes, start: Any) -> Arr:
    found = as_array(t, Tup((start,)) if isinstance(start, Num) else start, "if")
    if found.type.dtype not in ("float64", "int64"):
        raise t.refuse(f"a minimum from {places.described(found)}")
    return found


@functools.cache
def _bfgs_agrees() -> bool:
    """Whether this SciPy takes the same steps as ours."""
    solver = sys.modules["scipy.optimize"].minimize
    for start in (np.array([-1.0, 0.0]), np.array([1.3, 0.7, 0.2])):
        for jac in (None, _slanted):
            how, rest = (_STEP, None, None), (quasi_newton.largest, 1e-5, None, 0.0, 1e-4, 0.9)
            for name, page in (("BFGS", quasi_newton.bfgs), ("CG", quasi_newton.conjugate)):
                ours = page(_smooth, jac, None, start, (), how, *rest)
                theirs = solver(_smooth, start, method=name, jac=jac, options={"c2": 0.9})
                if not _is_near(ours, theirs, ("nit", "nfev", "njev", "status", "message")):
                    return False
    return True


def _is_near(ours: Any, theirs: Any, counts: tuple[str, ...]) -> bool:
    """Whether two results are equal up to rounding."""
    if not all(ours[k] == theirs[k] for k in counts):
        return False
    return all(np.allclose(ours[k], theirs[k], 1e-5, 1e-6) for k in ("x", "fun", "jac"))


def _smooth(x: Any) -> float:
    return float(np.sum((x - 0.5) ** 4 + x * x) + 3.0 * (x[1] - x[0] * x[0]) ** 2)


def _slanted(x: Any) -> Any:
    found = 4.0 * (x - 0.5) ** 3 + 2.0 * x
    off = 6.0 * (x[1] - x[0] * x[0])
    found[0] -= 2.0 * x[0] * off
    found[1] += off
    return found


def _value(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of a function that is minimised."""
    x = arrays.loaded(t, args[0])
    if isinstance(x, Arr):
        return Inlined(line_searches.only, [as_array(t, x, "f")], {})
    if not isinstance(x, Num) or x.dtype != "float64":
        raise t.refuse(f"a minimum of {places.described(x)}")
    return number(t, x)


def _gradient(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    """The gradient as an array."""
    x = arrays.loaded(t, args[0])
    if isinstance(x, Num):
        x = Tup((x,))
    if isinstance(x, Tup):
        x = array(t, [x], {})
    found = as_array(t, x, "f")
    if found.type.dtype != "float64":
        raise t.refuse(f"slopes that are {places.described(found)}")
    return found._replace(own=0)


OURS: dict[Any, Call] = {line_searches.value: _value, line_searches.gradient: _gradient}
"""Functions of ours that are written here."""
_METHODS: dict[str, Callable[[Writes, dict[str, Any]], Inlined]] = {
    "nelder-mead": _by_simplex, "l-bfgs-b": _by_l_bfgs_b,
    "bfgs": _by_steps("BFGS", quasi_newton.bfgs, _BFGS),
    "cg": _by_steps("CG", quasi_newton.conjugate, _CG), "powell": _by_powell,
}  # fmt: skip
ROWS: dict[str, Call] = {
    "minimize": _minimize, "fmin": _fmin, "fmin_l_bfgs_b": _fmin_l_bfgs_b,
    "fmin_powell": _fmin_powell,
    "fmin_bfgs": _fmin_by_steps(
        "fmin_bfgs", _FMIN_BFGS, (quasi_newton.fmin_bfgs, quasi_newton.full_fmin_bfgs)
    ),
    "fmin_cg": _fmin_by_steps(
        "fmin_cg", _FMIN_CG, (quasi_newton.fmin_cg, quasi_newton.full_fmin_cg)
    ),
}  # fmt: skip
