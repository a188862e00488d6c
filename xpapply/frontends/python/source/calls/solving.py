"""Common parts of rows of solvers: how arguments are bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .....ir.typed import Literal
from .. import held, places
from ..values import PYTHON, Known, Num, Record, Tup, Writes
from .arguments import FALSE, TRUE
from .common import as_float, python_int


def module_of(name: str) -> str:
    """The SciPy module of a solver."""
    if name in _OF_CURVES:
        return "scipy.interpolate"
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    return "scipy.integrate" if name in _OF_INTEGRALS else "scipy.optimize"


_OF_CURVES = frozenset(
    "CubicSpline PchipInterpolator Akima1DInterpolator interp1d splrep splev UnivariateSpline "
    "InterpolatedUnivariateSpline make_interp_spline".split()
)
_ELSEWHERE = {"solve_banded": "scipy.linalg", "gaussian_kde": "scipy.stats"}
_OF_INTEGRALS = frozenset(
    "quad solve_ivp odeint simpson cumulative_simpson trapezoid cumulative_trapezoid fixed_quad "
    "romb".split()
)


def taken(
    t: Writes, name: str, spec: Mapping[str, Any], args: list[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by name, with SciPy's defaults for those that are not given."""
    given = dict(zip(spec, args, strict=False)) | kwargs
    if len(args) > len(spec) or not given.keys() <= spec.keys():
        odd = next(iter(given.keys() - spec.keys()), "so many arguments")
        raise t.refuse(f"{module_of(name)}.{name} with {odd}")
    return {**spec, **given}


def options_of(t: Writes, name: str, x: Any, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name, with SciPy's defaults for those that are not given."""
    given: dict[str, Any] = {}
    if isinstance(x, Record):
        given = dict(zip(map(str, x.names), x.values, strict=True))
    elif isinstance(x, Known) and type(x.value) is dict:
        given = {k: held.known_item(t, x.value, Known(k), None) for k in x.value}
    elif not is_none(x):
        raise t.refuse(f"{module_of(name)}.{name} with options that are computed")
    odd = [*(given.keys() - usual.keys())]
    if odd:
        raise t.refuse(f"{module_of(name)}.{name} with the option {odd[0]}")
    return {**usual, **given}


def plainly(t: Writes, name: str, given: dict[str, Any], **usual: Any) -> None:
    """Take out options that are compiled with one value alone."""
    for option, value in usual.items():
        x = given.pop(option)
        known = x.value if isinstance(x, Known) else x
        if isinstance(x, Num):
            known = x.value.value if isinstance(x.value, Literal) else x
        if known is not value and not (isinstance(known, (bool, str)) and known == value):
            raise t.refuse(f"{module_of(name)}.{name} with {option}: {option}={value} is compiled")


def further_arguments(x: Any) -> Tup:
    """Further arguments of a function: a tuple, or one."""
    return x if isinstance(x, Tup) and not x.is_list else Tup(() if x == () else (x,))


def real(t: Writes, x: Any) -> Num:
    """A number of Python's own, with a fraction."""
    if isinstance(x, (int, float)):
        return Num("float64", PYTHON, Literal(float(x), "float64"))
    return as_float(t, [x], {})


def whole_number(t: Writes, x: Any) -> Num:
    """An integer of Python's."""
    if isinstance(x, int):
        return Num("int64", PYTHON, Literal(x, "int64"))
    return python_int(t, x)


def is_none(x: Any) -> bool:
    """Whether an argument is missing or None."""
    return x is None or places.is_none(x)


def option(t: Writes, x: Any) -> Num:
    """A truth value that is known."""
    if isinstance(x, bool):
        return TRUE if x else FALSE
    if isinstance(x, Num) and isinstance(x.value, Literal):
        return TRUE if x.value.value else FALSE
    raise t.refuse("an option that is computed")
