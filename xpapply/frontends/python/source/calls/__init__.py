"""Functions of libraries and of Python's own that are compiled: a row each, by what they are of."""

from __future__ import annotations

import functools
import operator
from types import FunctionType
from typing import Any

from .....library import of_python as _written
from .. import exceptions
from . import of_arrays, of_complex, of_iteration, of_math, of_numpy, of_python, of_special
from .common import Call
from .of_arrays import METHODS
from .of_math import of_number

LIBRARY = _written.__name__.rpartition(".")[0]
"""The package of library functions in Python, for the compiler."""

_SOLVERS = (
    "of_fits", "of_integrals", "of_results", "of_roots", "solvers.b_splines", "solvers.boxes",
    "solvers.directions", "solvers.fits",
    "solvers.hybrids", "solvers.lengths", "solvers.limited_memory", "solvers.limited_models",
    "solvers.line_searches",
    "solvers.odes.backward", "solvers.odes.driver", "solvers.odes.equations",
    "solvers.odes.events", "solvers.odes.implicit", "solvers.odes.radau",
    "solvers.odes.runge_kutta", "solvers.odes.solution",
    "solvers.linear", "solvers.of_minima", "solvers.of_products", "solvers.of_samples",
    "solvers.of_xarray", "solvers.quasi_newton",
    "solvers.simplexes", "solvers.splines", "solvers.trust_regions",
)  # fmt: skip
SOLVERS = tuple(f"{LIBRARY}.{name}" for name in _SOLVERS)
"""Modules where ``raise`` raises SciPy's exceptions; not NotImplementedError."""


def is_ours(f: Any) -> bool:
    """Whether a function is one of our library's."""
    return (f.__module__ or "").startswith(LIBRARY)


def find(f: Any) -> Call | None:
    """The row of a call of `f`: a function of ours, or its counterpart; None: unknown."""
    if type(type(f).__hash__) is FunctionType:  # a user's, which may do anything
        return None
    try:
        found = _table().get(f) or of_special.find(f)
    except TypeError:  # not hashable
        return None
    if type(f) is operator.itemgetter:
        return of_python.getter(f)
    module = getattr(f, "__module__", None)
    if found is None and module == "statistics":
        return of_math.of_statistics_module(f)
    if found is None and isinstance(module, str) and module.startswith((*_SOLVED, *SOLVERS)):
        from . import of_solvers  # which few functions need

        return of_solvers.find(f)
    return found


_SOLVED = (
    "scipy.optimize.",
    "scipy.integrate.",
    "scipy.interpolate.",
    "scipy.linalg.",
    "scipy.stats._kde",
    "xarray.computation.fit",
)


@functools.cache
def _table() -> dict[Any, Call]:
    """The rows, by the functions themselves."""
    rows = of_python.ROWS | of_math.ROWS | of_numpy.ROWS | of_arrays.ROWS | of_complex.ROWS
    return rows | of_iteration.ROWS | exceptions.ROWS


__all__ = ["LIBRARY", "METHODS", "SOLVERS", "find", "is_ours", "of_number"]
