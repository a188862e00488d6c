"""Rows of what only CuPy has, or has in a form of its own.

All other functions of CuPy have the rows of the NumPy and SciPy functions of the same name.
"""

from __future__ import annotations

from typing import Any

from . import Known
from .names import mirrored
from .rules import elementwise


def elementwise_row(function: Any, names: tuple[str, ...]) -> Known | None:
    """The row of one of CuPy's ufuncs, all of which are elementwise."""
    if type(function).__name__ != "ufunc":
        return None
    if names:
        return Known(mirrored(names[0]), elementwise, "elementwise", exact=True)

    # one that other functions of CuPy call
    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        return elementwise(xp, function, args, kwargs)

    return Known(function.__name__, rule, "elementwise", exact=True)


ROWS: list[Known] = []
