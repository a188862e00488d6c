"""The dtype of labels, and what stands where there is no result: NaN, where the dtype has it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import InputError

_LABELS = ("uint8", "uint16", "uint32", "int16", "int32", "int64")
"""dtypes of labels, in the order of preference."""


def number(given: str | float) -> float:
    """A number: an int if it is a whole one of 64 bits that a float has not."""
    found = float(given)
    if math.isfinite(found):
        exact = Decimal(given.replace("_", "") if isinstance(given, str) else given)
        if exact != Decimal(found) and abs(exact) < 2**64 and exact == int(exact):
            return int(exact)
    return found


def where(x: np.ndarray, value: float) -> np.ndarray:
    """The mask of a value in an array, without rounding integers to floats."""
    if math.isnan(value):
        return np.isnan(x)
    if x.dtype.kind in "biu":
        if math.isinf(value) or value != int(value):
            return np.zeros(x.shape, bool)
        return np.asarray(x == int(value))
    with np.errstate(over="ignore"):
        same = x.dtype.type(value)
    if np.isinf(same) and not math.isinf(value):  # more than the dtype has
        return np.zeros(x.shape, bool)
    return np.asarray(x == same)


def label_dtype(classes: int, fill: float | None = None) -> np.dtype:
    """The first dtype that has all labels, and the fill too if that is a whole number."""
    wanted = [classes - 1]
    if fill is not None and math.isfinite(fill) and fill == int(fill):
        wanted.append(int(fill))
    for name in _LABELS:
        limits = np.iinfo(name)
        if all(limits.min <= n <= limits.max for n in wanted):
            return np.dtype(name)
    return label_dtype(classes)  # which the fill does not fit


def checked(
    given: float | None, dtype: np.dtype, gaps: bool, classes: int | None, chosen: bool
) -> Any:
    """The fill value, checked.

    Parameters
    ----------
    given : float or None
        What the option says.
    dtype : dtype
        Of what is written.
    gaps : bool
        Whether there may be slices without a result.
    classes : int or None
        How many labels there are; None for results that are none.
    chosen : bool
        Whether an option says the dtype.
    """
    if given is None:
        if dtype.kind in "fc" and (gaps or classes is not None):
            return math.nan
        if not gaps:
            return None
        what = "results are" if classes is None else "--argmax: labels are"
        raise InputError(
            f"{what} {dtype}, which has no NaN for slices that a mask or a nodata value leaves "
            f"out: say {ways(dtype, classes, chosen)}"
        )
    if not gaps and classes is None:
        raise InputError("--fill is for what --mask or --nodata leave out, and there is neither")
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        if not math.isfinite(given) or given != int(given) or not limits.min <= given <= limits.max:
            what = "results" if classes is None else "labels"
            raise InputError(
                f"--fill {given:g} does not fit {what} of {dtype}: say "
                f"{ways(dtype, classes, chosen)}"
            )
        return int(given)
    return given


def ways(dtype: np.dtype, classes: int | None, chosen: bool = False) -> str:
    """Options that say what stands where there is no result, for a dtype without NaN."""
    limits = np.iinfo(dtype)
    if classes is None:
        fill = -1 if limits.min < 0 else limits.max
        return f"--fill {fill}, or --dtype float64 for NaN"
    if limits.min < 0:
        return "--fill -1"
    free = limits.max if limits.max >= classes else None
    wide = label_dtype(classes, -1)
    if chosen:
        other = f"--dtype {wide} --fill -1"
        return other if free is None else f"--fill {free}, or {other}"
    return f"--fill {free or classes}, or --fill -1 for labels of {wide}"
