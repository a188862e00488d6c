"""Functions of libraries and of Python's own that are compiled: a row each, by what they are of."""

from __future__ import annotations

import functools
from typing import Any

from .....library import of_python as _written
from .. import exceptions
from . import (
    of_arrays,
    of_complex,
    of_iteration,
    of_math,
    of_numpy,
    of_python,
    of_solvers,
    of_special,
)
from .common import Call
from .of_arrays import METHODS
from .of_solvers import SOLVERS

LIBRARY = _written.__name__.rpartition(".")[0]
"""Where functions of libraries are written in Python, for the compiler."""


def find(f: Any) -> Call | None:
    """What writes a call of `f`: a function of ours, or one that stands for it; None: nothing."""
    try:
        return _table().get(f) or of_special.find(f) or of_solvers.find(f)
    except TypeError:  # not hashable
        return None


@functools.cache
def _table() -> dict[Any, Call]:
    """The rows, by the functions themselves."""
    rows = of_python.ROWS | of_math.ROWS | of_numpy.ROWS | of_arrays.ROWS | of_complex.ROWS
    return rows | of_iteration.ROWS | of_solvers.ROWS | exceptions.ROWS


__all__ = ["LIBRARY", "METHODS", "SOLVERS", "find"]
