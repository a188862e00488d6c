"""Calls of a path that may decide by their last bit.

A sum, a product or a sine of a number that is off by a bit is off by some bits. A comparison, a
whole number, an index or an order is another one, or the same; and what ``f`` asks for, it goes on
by. Calls from which a way leads there have to give what they give for one slice, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....batching import Batched, libm, syntax

_SMOOTH = frozenset(
    f"numpy.{name}"
    for name in (
        "add subtract multiply divide true_divide negative positive absolute fabs sqrt square "
        "reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 "
        "sinh cosh tanh arcsinh arccosh arctanh hypot power float_power cbrt degrees radians "
        "deg2rad rad2deg maximum minimum fmax fmin where clip sum mean std var max min amax amin "
        "nansum nanmean nanstd nanvar nanmax nanmin ptp prod cumsum cumprod diff average dot "
        "concatenate stack reshape ravel transpose conjugate"
    ).split()
)
"""Functions without jumps."""

_PARTS = frozenset(
    row.name
    for row in (
        syntax.INDEX,
        syntax.GATHER,
        syntax.COMPRESS,
        syntax.SET,
        syntax.SET_MASKED,
        syntax.STACK,
        syntax.SAME,
        syntax.MATMUL,
        syntax.COMPLEX,
        syntax.PART,
    )
)
"""Steps that split or combine numbers without arithmetic."""

_COMPARES = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))


def deciding(steps: Sequence[Any]) -> set[int]:
    """The numbers of the calls of a path that decide something, and differ from a single one.

    Parameters
    ----------
    steps : sequence of Call or Branch
        The path.
    """
    calls = [step for step in steps if hasattr(step, "row")]
    if not any(map(_differs, calls)):
        return set()
    powers = {number for number, call in enumerate(calls, 1) if is_power(call)}
    wanted = {step.ref.index for step in steps if not hasattr(step, "row")}
    for number in range(len(calls), 0, -1):
        call = calls[number - 1]
        if number in wanted or not _is_smooth(call):
            if not _asks_whether_finite(call):
                wanted |= call.uses
    found = {number for number, call in enumerate(calls, 1) if number in wanted and _differs(call)}
    return found | powers


def is_power(call: Any) -> bool:
    """Whether a call is a power of NumPy's numbers or of Python's floats, which is C's own."""
    if call.row is syntax.PYTHON:
        return bool(call.args[0] == "power" and call.args[3] == "float64")
    return bool(call.of_numbers)


def _differs(call: Any) -> bool:
    """Whether a call for all slices may differ in bits from one for a single slice."""
    if call.row is syntax.MATH:
        return libm.differs(call.args[0])
    return is_power(call)


def _is_smooth(call: Any) -> bool:
    """Whether small errors of operands give small errors of the result."""
    row, args = call.row, call.args
    if row is syntax.MATH:
        return True
    if row is syntax.PYTHON:
        return args[3] == "float64" and f"numpy.{args[0]}" in _SMOOTH
    if row in (syntax.NUMBER, syntax.CAST):
        return np.dtype(args[1]).kind in "fc"
    return row.name in _SMOOTH or row.name in _PARTS


def _asks_whether_finite(call: Any) -> bool:
    """Whether it is a comparison with infinity, which the last bit does not change."""
    if call.row is not syntax.PYTHON or call.args[0] not in _COMPARES:
        return False
    return any(type(x) is float and math.isinf(x) for x in call.args[1:3])


def exactly(call: Any, args: tuple) -> Batched:
    """The result of such a call, by NumPy or Python, to the last bit of those for single slices."""
    if call.row is syntax.MATH:
        return libm.of_floats(*args)
    if call.row is syntax.PYTHON:
        return libm.of_floats("power", *args[1:3])
    return libm.of_numbers(*args)


__all__ = ["deciding", "exactly"]
