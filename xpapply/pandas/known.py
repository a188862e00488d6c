"""Functions that are known where they get a Series, and what names in a function mean."""

from __future__ import annotations

import builtins
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

BY_METHOD = {
    getattr(np, name): name for name in ("sum", "mean", "prod", "min", "max", "argmax", "argmin")
}
"""Functions of NumPy that call the method of this name."""
OF_ARRAYS = (
    np.median, np.percentile, np.quantile, np.polyfit, np.asarray, np.array, np.diff, np.interp,
    np.nansum, np.nanmean, np.nanmin, np.nanmax, np.nanstd, np.nanvar, np.nanmedian,
    np.corrcoef, np.sort, np.argsort, np.average, np.cov, np.dot, np.inner, np.vdot, np.trapezoid,
    np.convolve, np.nanpercentile, np.nanquantile, np.ptp, np.linalg.norm, np.where,
    np.count_nonzero, np.gradient, np.histogram, np.unique,
)  # fmt: skip
"""Functions of NumPy that make an array of a Series first."""
OF_MASKED = (np.median, np.percentile, np.quantile)
"""Those that are known for nullable dtypes, too."""
SERIES_OF = {np.cumsum: "cumsum", np.cumprod: "cumprod"}
"""Functions of NumPy that call the method of this name, which gives a Series."""
WITHOUT_DDOF = {np.std: "std", np.var: "var"}
"""Those that call a method with ``ddof=0``, if nothing else is said."""
ELEMENT_BY_ELEMENT = (sum, max, min, sorted, list, tuple, enumerate, zip, any, all)
"""Builtins that go through a Series, whose elements are Python's numbers then."""

_MEANT = frozenset(
    {
        *BY_METHOD,
        *OF_ARRAYS,
        *SERIES_OF,
        *WITHOUT_DDOF,
        *ELEMENT_BY_ELEMENT,
        abs,
        float,
        len,
        pd.Series,
    }
    | {pd.isna, pd.isnull, pd.notna, pd.notnull}
)


def known_as_it_is(x: Any) -> Any:
    """`x` if it is a function that is known here, NumPy or pandas; these are for ever."""
    if x is np or x is pd or x is pd.NA or x is np.linalg or isinstance(x, np.ufunc):
        return x
    return x if isinstance(x, _FUNCTIONS) and x in _MEANT else None


_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(np.sum), type)


def meant(f: FunctionType) -> tuple[Any, ...]:
    """What the names in a function mean by now, as far as it is known here."""
    found: list[Any] = []
    codes = [f.__code__]
    for code in codes:
        codes += [x for x in code.co_consts if isinstance(x, CodeType)]
        for name in code.co_names:
            found.append(known_as_it_is(f.__globals__.get(name, vars(builtins).get(name))))
    for cell in f.__closure__ or ():
        try:
            found.append(known_as_it_is(cell.cell_contents))
        except ValueError:  # not yet set
            found.append(None)
    return tuple(found)
