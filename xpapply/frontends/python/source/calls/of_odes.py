"""Differential equations of SciPy's: their arguments, for ours that are compiled."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from .....functions.snapshots import MISSING
from .....library.solvers import of_products
from .....library.solvers.odes import (
    backward,
    driver,
    equations,
    events,
    implicit,
    radau,
    runge_kutta,
    solution,
)
from .....limits import LIMITS
from .. import arrays, iterators, numbers, places, whole
from ..values import (
    CALLED,
    EITHER,
    NUMPY,
    Abstract,
    Arr,
    Function,
    Inlined,
    Known,
    Lst,
    Num,
    Record,
    Tup,
    Writes,
    integer,
)
from .arguments import TRUE, as_array
from .common import Call, number
from .of_numpy import array
from .solving import is_none, option, plainly, real, taken

_SOLVE = {
    "fun": None, "t_span": None, "y0": None, "method": "RK45", "t_eval": None,
    "dense_output": False, "events": None, "vectorized": False, "args": None, "rtol": 1e-3,
    "atol": 1e-6, "max_step": math.inf, "first_step": None, "jac": None, "jac_sparsity": None,
}  # fmt: skip
_METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF")
_IMPLICIT = ("Radau", "BDF")


def parts_of(method: str) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], Any]:
    """Arguments of `driver.solved` for a method: coefficients, functions, settings, texts."""
    cls: Any = getattr(sys.modules["scipy.integrate"], method)
    said = sys.modules["scipy.integrate._ivp.ivp"].MESSAGES
    texts = said[0], said[1], cls.TOO_SMALL_STEP
    if method == "Radau":
        own: Any = sys.modules["scipy.integrate._ivp.radau"]
        mu = np.array([own.MU_REAL, own.MU_COMPLEX.real, own.MU_COMPLEX.imag])
        coefficients = own.TI, own.T, own.E, own.P, own.C, mu
        by_stages = radau.begun, radau.stepped, None, radau.collocated, radau.of_one, radau.of_some
        return coefficients, (*by_stages, False, False), (None, None), texts
    if method == "BDF":
        kappa = np.array([0, -0.1850, -1 / 9, -0.0823, -0.0415, 0])
        gamma = np.append(0.0, np.cumsum(1 / np.arange(1, 6)))
        tables: Any = (1 - kappa) * gamma, gamma, kappa * gamma + 1 / np.arange(1, 7)
        by = backward
        between: Any = by.differences, by.of_difference, by.of_differences, False, True
        return tables, (by.begun, by.stepped, None, *between), (None, None), texts
    ours = runge_kutta
    further, rows = ("E", "P"), cls.n_stages + 1
    between = ours.polynomials, ours.of_polynomial, ours.of_polynomials, False
    of_error: Callable[..., Any] = ours.error
    if method == "DOP853":
        further = ("E5", "E3", "D", "A_EXTRA", "C_EXTRA")  # type: ignore[assignment]
        between = ours.further_slopes, ours.of_seven, ours.of_sevens, True  # type: ignore[assignment]
        of_error, rows = ours.error_of_two, rows + len(cls.A_EXTRA)
    steps = np.zeros((cls.n_stages + 1, cls.n_stages))
    steps[:-1, : cls.A.shape[1]], steps[-1] = cls.A, cls.B
    tables = (cls.C.astype(float), steps, *(getattr(cls, name) for name in further))
    functions = ours.begun, ours.stepped, of_error, *between, False
    return tables, functions, (cls.error_estimator_order, rows), texts


@functools.cache
def agrees() -> bool:
    """Whether this SciPy takes the same steps as ours."""
    solver = sys.modules["scipy.integrate"].solve_ivp
    for method, far in zip(_METHODS, (1.0, 2.5, -3.0, 1.5, -0.7), strict=True):
        limits = 1e-3, np.full(2, 1e-6), math.inf, None
        at = np.array([far / 3, far / 2])
        start, looked = (0.0, 0.0, far, np.array([1.0, 0.3])), (_low,)
        until = looked, start[3], np.array([math.inf]), np.zeros(1)
        ours = driver.solved(_swing, (), *start, at, at, limits, *parts_of(method), until, None)
        theirs = solver(_swing, (0.0, far), start[3], method, at, events=looked)
        if ours.nfev != theirs.nfev or not np.allclose(ours.y, theirs.y, rtol=1e-9, atol=0):
            return False
        if not np.allclose(ours.t_events[0], theirs.t_events[0], rtol=1e-9, atol=0):
            return False
    return True


def _low(t: float, y: Any) -> Any:
    return y[0] - 0.2


def _swing(t: float, y: Any) -> Any:
    return [y[1], -y[0] * y[0] + 0.1 * t]


def _solve_ivp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "solve_ivp", _SOLVE, args, kwargs)
    plainly(t, "solve_ivp", given, vectorized=False, jac_sparsity=None)
    f, span, y0, method, at, dense, looked, further, rtol, atol, max_step, first, jac = (
        given.values()
    )
    name = method.value if isinstance(method, Known) else method
    name = name if isinstance(name, str) else getattr(name, "__name__", "?")
    if name not in _METHODS:
        raise t.refuse(f"scipy.integrate.solve_ivp by {name}: BDF, Radau and RK45 are compiled")
    known = implicit.are_known() if name == "Radau" else of_products.are_known()
    if name == "DOP853" and not is_none(at):
        known = known and of_products.are_sixteen_known()
    if name in _IMPLICIT and not (isinstance(y0, Tup) and len(y0.items) <= _OF_KNOWN_BITS):
        t.rounds(LIMITS.typed_solving)
    elif not known:
        t.rounds(LIMITS.typed_rounding)
    begin, end = (real(t, x) for x in iterators.unpacked(t, span, 2).items)
    tables, functions, told, texts = parts_of(name)
    if name in _IMPLICIT:
        told = _jacobian(t, jac)
    elif not is_none(jac):
        raise t.refuse(f"scipy.integrate.solve_ivp by {name} with jac, of which it warns")
    y = _doubles(t, y0)
    ours = tuple(t.constant(x, is_own=True) for x in tables)
    limits = (
        real(t, rtol),
        _of_each(t, y, atol),
        real(t, max_step),
        Known(None) if is_none(first) else real(t, first),
    )
    own, asked = Known(None), Known(None)
    if not is_none(at):
        own = as_array(t, at, "if")  # type: ignore[assignment]
        asked = _doubles(t, own)  # type: ignore[assignment]
    if further is not None and not is_none(further) and not isinstance(further, Tup):
        raise t.refuse("scipy.integrate.solve_ivp with args that are no tuple")
    more = Tup(()) if is_none(further) else further
    until = Known(None) if is_none(looked) else _events(t, looked, y0)
    return Inlined(
        driver.solved,
        [
            f, more, begin, begin._replace(kind=EITHER), end._replace(kind=EITHER), y, own, asked,
            Tup(limits), Tup(ours), Tup(tuple(map(_said, functions))), Tup(tuple(map(_said, told))),
            Tup(tuple(map(Known, texts))), until,
            TRUE if option(t, dense) == TRUE else Known(None),
        ],
        {},
    )  # fmt: skip


_OF_KNOWN_BITS = 5
"""The most equations for which factors of matrices have LAPACK's bits."""


def _said(x: Any) -> Abstract:
    """A setting of a method as a value."""
    if isinstance(x, tuple):
        return x
    return integer(int(x)) if isinstance(x, int) else Known(x)


def _jacobian(t: Writes, x: Any) -> tuple[Abstract, Abstract]:
    """A function that gives a Jacobian, or None, and one that is constant, or None."""
    if is_none(x):
        return Known(None), Known(None)
    if isinstance(x, (Arr, Tup, Lst)):
        return Known(None), x
    return x, Known(None)


def _events(t: Writes, x: Abstract, y: Abstract) -> Tup:
    """Functions whose zeros are looked for, and what they are to do where they are zero."""
    functions = x.items if isinstance(x, Tup) else (x,)
    ways, most = np.empty(len(functions)), np.empty(len(functions))
    for k, f in enumerate(functions):
        way, ends = (held_by(t, f, name) for name in ("direction", "terminal"))
        ways[k] = 0.0 if way is None else way
        if ends is not None and ends != 0 and (ends < 0 or int(ends) != ends):
            raise t.refuse("scipy.integrate.solve_ivp with such an event")
        most[k] = ends or math.inf
    if not functions:
        raise t.refuse("scipy.integrate.solve_ivp with no events in a list of them")
    own = (t.constant(table, is_own=True) for table in (most, ways))
    return Tup((Tup(functions), arrays.loaded(t, y), *own))


def held_by(t: Writes, f: Abstract, name: str) -> Any:
    """A number that a function has as an attribute; None: it has none."""
    if isinstance(f, Function):
        found = dict(f.attributes).get(name)
    elif isinstance(f, Known) and isinstance(f.value, (FunctionType, MethodType)):
        own = getattr(f.value, "__func__", f.value)
        found = t.watch.look(own, "attribute", name)
    else:
        raise t.refuse("scipy.integrate.solve_ivp with an event that is no function of Python's")
    found = None if found is MISSING else found
    if found is not None and not isinstance(found, (bool, int, float)):
        raise t.refuse("scipy.integrate.solve_ivp with such an event")
    return found


def _doubles(t: Writes, x: Abstract) -> Arr:
    found = as_array(t, x, "biuf")
    return found if found.type.dtype == "float64" else whole.as_type(t, found, "float64")


def _of_each(t: Writes, y: Arr, x: Any) -> Arr:
    """A tolerance of each part."""
    if isinstance(x, (Arr, Tup, Lst)):
        return _doubles(t, x)
    made = arrays.new(t, "float64", [places.length(t, y)], "empty")
    t.do("fill", made.value, real(t, x).value)
    return made


def _slopes(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    """The slopes of an equation as an array; its own if it is one of float64."""
    value, n = args
    value = arrays.loaded(t, value)
    if isinstance(value, Num):
        made = arrays.new(t, "float64", [places.as_index(t, n)], "empty")
        if numbers.kind_of(value.dtype) not in "biuf":
            raise t.refuse(f"an equation that gives {places.described(value)}")
        t.do("fill", made.value, numbers.cast(t, value.value, "float64"))
        return made._replace(own=0)
    if isinstance(value, Tup) and all(isinstance(x, Num) for x in value.items):
        value = array(t, [value, Known(np.dtype("float64"))], {})
    return _doubles(t, value)._replace(own=0)


def _rows(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    """A matrix as an array of float64: the user's if it is one."""
    x = arrays.loaded(t, args[0])
    if isinstance(x, Tup):
        x = array(t, [x, Known(np.dtype("float64"))], {})
    if not isinstance(x, Arr) or x.type.ndim != 2:
        raise t.refuse(f"a Jacobian that is {places.described(x)}")
    if x.type.dtype != "float64":
        x = whole.as_type(t, x, "float64")
    return x._replace(own=0)


def _several(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Known:
    """Refuse an equation of an implicit method that gives a number."""
    if isinstance(arrays.loaded(t, args[0]), Num):
        raise t.refuse("an equation that gives a number: solve_ivp by differences wants a list")
    return Known(None)


def _lent(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    (y,) = args
    return y._replace(own=0) if isinstance(y, Arr) else y


def _value(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """The value of a function whose zeros are looked for."""
    x = arrays.loaded(t, args[0])
    if not isinstance(x, Num) or numbers.kind_of(x.dtype) not in "biuf":
        raise t.refuse(f"an event that gives {places.described(x)}")
    return number(t, x)


def _tabled(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
    """Tables by their numbers, from the first one on and from the last one."""
    own = args[0].items
    names = *range(len(own)), *range(-len(own), 0)
    return Record(names, own * 2)


def _solution(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
    """A callable solution."""
    return Record((CALLED,), (Tup((Known(solution.asked), *args)),))


def _asked(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """The solution at one place, or at several."""
    *own, at = args
    if kwargs:
        raise t.refuse("a solution of solve_ivp with keywords")
    at = arrays.loaded(t, at)
    if isinstance(at, Num):
        return Inlined(solution.at_one, [*own, real(t, at)], {})
    return Inlined(solution.at, [*own, _doubles(t, at)], {})


def _fma(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    values = [numbers.cast(t, number(t, x).value, "float64") for x in args]
    return Num("float64", NUMPY, t.op("fma", "float64", *values))


def _odeint(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise t.refuse("scipy.integrate.odeint, which is LSODA: solve_ivp by BDF or RK45 is compiled")


ROWS: dict[str, Call] = {"solve_ivp": _solve_ivp, "odeint": _odeint}
OURS: dict[Any, Call] = {
    of_products.anyones: lambda t, args, kwargs: number(t, args[0])._replace(kind=EITHER),
    equations.slopes: _slopes,
    equations.lent: _lent,
    implicit.rows: _rows,
    implicit.several: _several,
    events.value: _value,
    events.listed: lambda t, args, kwargs: args[0]._replace(is_list=True),
    events.tabled: _tabled,
    solution.solution: _solution,
    solution.asked: _asked,
    of_products.fma: _fma,
}
