"""NumPy's functions of arrays, which are written in Python in `xpapply.library`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.typed import Array, Literal
from .....library import of_numpy
from .. import numbers, places, whole
from ..values import NUMPY, PYTHON, Arr, Inlined, Known, Lst, Num, Writes, integer
from .common import Call, exactly, python_int
from .of_numpy import array


def _of_floats(inlined: Any, *names: str) -> Call:
    """A function of an array of floats that is written in Python; of others it is left to NumPy."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not args or not isinstance(args[0], Arr) or args[0].type.ndim != 1:
            raise t.refuse(f"a function of {places.described(args[0]) if args else 'nothing'}")
        if not {*kwargs} <= {*names} or len(args) > 1:
            raise t.refuse("a function of an array with further arguments")
        if numbers.kind_of(args[0].type.dtype) != "f":
            raise t.refuse(f"a function of {places.described(args[0])}")
        return Inlined(inlined, args, kwargs)

    return call


def _of_array(inlined: Any, count: int = 1) -> Call:
    """A function of arrays of any numbers that is written in Python."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, count)
        if not all(isinstance(x, Arr) and x.type.ndim == 1 for x in args[:1]):
            raise t.refuse(f"a function of {places.described(args[0])}")
        return Inlined(inlined, args, {})

    return call


def _reduction(ufunc: Any) -> Call:
    """``numpy.sum`` and such, of an array of one axis."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        if isinstance(args[0], Lst):
            args = [array(t, args, {})]
        if not isinstance(args[0], Arr):
            raise t.refuse(f"a sum of {places.described(args[0])}")
        return whole.reduced(t, ufunc, args[0])

    return call


def _arange(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1, 2)
    bounds = [python_int(t, x) for x in args]
    return Inlined(of_numpy.steps, [integer(0), *bounds][-2:], {})


def _searchsorted(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    side = kwargs.pop("side", Known("left"))
    exactly(t, args, kwargs, 2)
    if not isinstance(args[0], Arr) or not isinstance(args[1], Num) or not isinstance(side, Known):
        raise t.refuse("numpy.searchsorted of several numbers")
    right = Num("bool", PYTHON, Literal(side.value == "right", "bool"))
    return Inlined(of_numpy.searched, [*args, right], {})


def _interp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 3)
    x, xp, fp = args
    if not isinstance(x, Num) or not all(
        isinstance(a, Arr) and a.type == Array("float64", 1) for a in (xp, fp)
    ):
        raise t.refuse("numpy.interp of several numbers")
    x = Num("float64", NUMPY, numbers.cast(t, x.value, "float64"))
    return Inlined(of_numpy.interpolated, [x, xp, fp], {})


METHODS: dict[str, Call] = {
    "sum": _reduction(np.add), "prod": _reduction(np.multiply), "max": _reduction(np.maximum),
    "min": _reduction(np.minimum), "mean": _of_floats(of_numpy.mean),
    "var": _of_floats(of_numpy.variance, "ddof"), "std": _of_floats(of_numpy.deviation, "ddof"),
    "argmax": _of_array(of_numpy.argmax), "argmin": _of_array(of_numpy.argmin),
    "cumsum": _of_floats(of_numpy.cumulated), "any": _of_array(of_numpy.any_true),
    "all": _of_array(of_numpy.all_true),
}  # fmt: skip
"""Methods of arrays."""
ROWS: dict[Any, Call] = {
    np.arange: _arange, np.diff: _of_array(of_numpy.differences),
    np.sort: _of_floats(of_numpy.in_order), np.median: _of_floats(of_numpy.median),
    np.flatnonzero: _of_array(of_numpy.places), np.count_nonzero: _of_array(of_numpy.count),
    np.searchsorted: _searchsorted, np.interp: _interp, np.add.reduce: _reduction(np.add),
    np.amax: METHODS["max"], np.amin: METHODS["min"],
}  # fmt: skip
"""A row each."""
ROWS |= {getattr(np, name): row for name, row in METHODS.items()}
