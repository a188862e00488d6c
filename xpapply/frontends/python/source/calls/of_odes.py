"""Differential equations of SciPy's: their arguments, for ours that are compiled."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .....library.solvers import of_odes, of_products
from .....limits import LIMITS
from .. import arrays, iterators, numbers, places, whole
from ..values import EITHER, NUMPY, Abstract, Arr, Inlined, Known, Lst, Num, Tup, Writes, integer
from .arguments import as_array
from .common import Call, number
from .of_numpy import array
from .solving import is_none, plainly, real, taken

_SOLVE = {
    "fun": None, "t_span": None, "y0": None, "method": "RK45", "t_eval": None,
    "dense_output": False, "events": None, "vectorized": False, "args": None, "rtol": 1e-3,
    "atol": 1e-6, "max_step": math.inf, "first_step": None,
}  # fmt: skip
_METHODS = ("RK23", "RK45", "DOP853")


def parts_of(method: str) -> tuple[tuple[Any, ...], tuple[Any, ...], int, tuple[str, str]]:
    """What `of_odes.solved` gets of a method: coefficients, functions, an order, texts."""
    cls: Any = getattr(sys.modules["scipy.integrate"], method)
    ended = sys.modules["scipy.integrate._ivp.ivp"].MESSAGES[0]
    between, rows = of_odes.by_polynomial, cls.n_stages + 1
    of_error: Callable[..., Any] = of_odes.error
    more = ("E", "P")
    if method == "DOP853":
        more = ("E5", "E3", "D", "A_EXTRA", "C_EXTRA")  # type: ignore[assignment]
        of_error, between = of_odes.error_of_two, of_odes.by_further_slopes
        rows += len(cls.A_EXTRA)
    steps = np.zeros((cls.n_stages + 1, cls.n_stages))
    steps[:-1, : cls.A.shape[1]], steps[-1] = cls.A, cls.B
    tables = (cls.C.astype(float), steps, *(getattr(cls, name) for name in more))
    functions = of_error, between, rows, method == "DOP853"
    return tables, functions, cls.error_estimator_order, (ended, cls.TOO_SMALL_STEP)


@functools.cache
def agrees() -> bool:
    """Whether this SciPy goes as ours does."""
    solver = sys.modules["scipy.integrate"].solve_ivp
    for method, far in zip(_METHODS, (1.0, 2.5, -3.0), strict=True):
        limits = 1e-3, np.full(2, 1e-6), math.inf, None
        places_ = np.array([far / 3, far / 2])
        start = 0.0, 0.0, far, np.array([1.0, 0.3])
        parts = parts_of(method)
        ours = of_odes.solved(_swing, (), *start, places_, places_, limits, *parts)
        theirs = solver(_swing, (0.0, far), start[3], method, places_)
        if ours.nfev != theirs.nfev or not np.allclose(ours.y, theirs.y, rtol=1e-9, atol=0):
            return False
    return True


def _swing(t: float, y: Any) -> Any:
    return [y[1], -y[0] * y[0] + 0.1 * t]


def _solve_ivp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "solve_ivp", _SOLVE, args, kwargs)
    plainly(t, "solve_ivp", given, dense_output=False, vectorized=False)
    f, span, y0, method, at, events, further, rtol, atol, max_step, first = given.values()
    if not is_none(events):
        raise t.refuse("scipy.integrate.solve_ivp with events")
    name = method.value if isinstance(method, Known) else method
    name = name if isinstance(name, str) else getattr(name, "__name__", "?")
    if name not in _METHODS:
        raise t.refuse(f"scipy.integrate.solve_ivp by {name}: RK23, RK45 and DOP853 are compiled")
    by_more = name == "DOP853" and not is_none(at)
    if not of_products.are_known() or (by_more and not of_products.are_sixteen_known()):
        t.rounds(LIMITS.typed_rounding)
    begin, end = (real(t, x) for x in iterators.unpacked(t, span, 2).items)
    tables, (of_error, between, rows, turned), order, texts = parts_of(name)
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
    methods = Known(of_error), Known(between), integer(rows), integer(turned)
    return Inlined(
        of_odes.solved,
        [
            f, more, begin, begin._replace(kind=EITHER), end._replace(kind=EITHER), y, own, asked,
            Tup(limits), Tup(ours), Tup(methods), integer(order), Tup(tuple(map(Known, texts))),
        ],
        {},
    )  # fmt: skip


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
    """What an equation gives as an array: its own if it is one of float64."""
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


def _lent(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    return args[0]._replace(own=0)  # type: ignore[no-any-return]


def _fma(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    values = [numbers.cast(t, number(t, x).value, "float64") for x in args]
    return Num("float64", NUMPY, t.op("fma", "float64", *values))


def _odeint(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise t.refuse(
        "scipy.integrate.odeint, which is LSODA: solve_ivp by RK45 or DOP853 is compiled"
    )


ROWS: dict[str, Call] = {"solve_ivp": _solve_ivp, "odeint": _odeint}
OURS: dict[Any, Call] = {
    of_odes.anyones: lambda t, args, kwargs: number(t, args[0])._replace(kind=EITHER),
    of_odes.slopes: _slopes,
    of_odes.lent: _lent,
    of_products.fma: _fma,
}
