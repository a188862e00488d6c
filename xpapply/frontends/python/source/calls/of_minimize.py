"""Minima of functions of several numbers: their arguments, for ours that are compiled."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .....library.solvers import simplexes
from ..values import Abstract, Inlined, Known, Num, Tup, Writes
from .arguments import TRUE
from .common import Call
from .of_least_squares import doubles
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
    """Whether this SciPy goes as ours does."""
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
    """How many numbers NumPy sorts such that what is equal keeps its order, whatever they are."""
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
    plainly(
        t, "minimize", given, jac=None, hess=None, hessp=None, bounds=None, constraints=(),
        callback=None,
    )  # fmt: skip
    f, start, further, method, tol, options = given.values()
    name = method.value if isinstance(method, Known) else None
    if not isinstance(name, str) or name.lower() != "nelder-mead":
        raise t.refuse(f"scipy.optimize.minimize with method={name!r}")
    usual = _OPTIONS if is_none(tol) else _OPTIONS | {"xatol": tol, "fatol": tol}
    said = options_of(t, "minimize", options, usual)
    plainly(t, "minimize", said, disp=False, return_all=False, initial_simplex=None)
    return Inlined(simplexes.nelder_mead, [f, *_simplex(t, start, further, said)], {})


def _simplex(t: Writes, start: Any, further: Any, said: Mapping[str, Any]) -> list[Abstract]:
    """What our simplex is called with, after the function."""
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
    if option(t, bool(disp) if isinstance(disp, int) else disp) == TRUE:
        raise t.refuse("scipy.optimize.fmin that prints: disp=False does not")
    said = {"xatol": xtol, "fatol": ftol, "maxiter": rounds, "maxfev": most, "adaptive": False}
    is_full = option(t, bool(full) if isinstance(full, int) else full) == TRUE
    ours = simplexes.full_fmin if is_full else simplexes.fmin
    return Inlined(ours, [f, *_simplex(t, start, further, said)], {})


ROWS: dict[str, Call] = {"minimize": _minimize, "fmin": _fmin}
