"""``series.map(f)``: a function of elements, which it gets as Python's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas._libs import lib

from ..loop.arguments import Looped
from . import applied
from .applied import Host, Job, Own, Refusal
from .labels import Refused
from .results import NOT_SURE, elements, is_sure, pair_of
from .returns import FLOAT, MISSING, made


def apply(
    values: Any,
    f: Any,
    args: tuple,
    kwargs: dict[str, Any],
    skip: bool,
    own: Callable[[Any], Any],
    host: Host,
) -> Any:
    """The elements of what ``series.map(f)`` gives, by its values; `own` is that with a function.

    `skip`: whether missing ones stay what they are.
    """
    if values.ndim != 1 or applied.is_few(len(values)):
        return own(f)
    lost: Any = None
    given, plain = values, None if isinstance(values, np.ndarray) else numbers_of(values)
    if plain is not None:
        values, lost = plain
    elif values.dtype.kind not in "biuf" or not isinstance(values, np.ndarray):
        why = f"its elements are {values.dtype}"
        why += (
            ": Series.str has methods of texts" if isinstance(values.dtype, pd.StringDtype) else ""
        )
        return host.by_pandas(Job(f, own, _itself, len(values), host=host), why)
    elif skip and values.dtype.kind == "f":
        lost = np.isnan(values)
    lost = lost if lost is not None and lost.any() else None
    at: Any = slice(None) if lost is None else np.flatnonzero(~lost)
    looped = values[at]
    if not looped.size:
        return own(f)

    def call(k: int) -> Any:
        return f(looped[k].item(), *args, **kwargs)

    def number(k: int) -> int:
        return k if skip or lost is None else int(at[k])

    job = Job(f, own, call, len(looped), number, host)
    with Refusal() as refused:
        of = made(f, None, classes=lost is not None)
        function = of.of(f)
        pair: Any = (np.nan, FLOAT) if plain is None else (0.0, MISSING)
        if lost is not None and not skip:  # each of them is pandas' NA
            if impure := applied.why_impure(function):
                raise Refused(impure)
            try:
                pair = pair_of(result := f(pd.NA, *args, **kwargs), of)
            except Exception as error:  # one of the others may raise sooner
                raise Refused(f"it raises {type(error).__name__} for pandas' NA") from None
            if pair is None:
                raise Refused(str(applied.NotTaken(result)))
        what = applied.applied(
            job, function, [looped], "", (np.float64, np.int64),
            lambda y, *_: pair_of(y, of), (Looped(0), *args), kwargs,
        )  # fmt: skip
    if refused.why is not None:
        return host.by_pandas(job, refused.why)
    found = applied.results(what)
    if isinstance(found, Own):
        return found.result
    if not is_sure(*found):
        return host.by_pandas(job, NOT_SURE)
    result = elements(found[0], found[1], of.texts)
    if plain is not None and (whole := _nullable(given, at, pair, result)) is not None:
        return whole
    if lost is not None:
        numbers, kinds = np.full(len(values), float(pair[0])), np.full(len(values), pair[1])
        numbers[at], kinds[at] = found
        result = elements(numbers, kinds, of.texts)
    # of objects pandas makes what it makes of a loop's results
    result = lib.maybe_convert_objects(result) if result.dtype == object else result
    return result if plain is None else given._cast_pointwise_result(result)


def _nullable(given: Any, at: Any, pair: Any, made: np.ndarray) -> Any:
    """The nullable array of results that are numbers, as pandas makes it; None: it is another."""
    if made.dtype.char not in "?ld" or pair[1] != MISSING or str(given.dtype) not in (
        "Int64", "Float64", "boolean"
    ):  # fmt: skip
        return None
    values, mask = np.zeros(len(given), made.dtype), np.ones(len(given), np.bool_)
    values[at], mask[at] = made, np.isnan(made)
    name = {"b": "Boolean", "i": "Integer", "f": "Floating"}[made.dtype.kind]
    return None if mask.all() else getattr(pd.arrays, f"{name}Array")(values, mask)


def numbers_dtype(dtype: Any) -> Any:
    """The dtype of the numbers, Python's, that are elements of a nullable array; None: others."""
    own = getattr(dtype, "numpy_dtype", None)
    if own is None or not hasattr(dtype.construct_array_type(), "_cast_pointwise_result"):
        return None
    return {"b": np.bool_, "i": np.int64, "f": np.float64}.get(own.kind)


def numbers_of(values: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The numbers of a nullable array, and which are missing; None: its elements are others."""
    dtype = numbers_dtype(values.dtype)
    if dtype is None:
        return None
    lost = values.isna()
    found = values.to_numpy(dtype, na_value=0)
    return found, lost | np.isnan(found) if found.dtype.kind == "f" else lost


def _itself(x: Any) -> Any:
    return x


MASKED = (pd.Int64Dtype, pd.Float64Dtype, pd.BooleanDtype)
"""Nullable dtypes whose Series are known."""


def plain(result: Any) -> Any:
    """A nullable Series as one of NumPy's dtypes; what is another result stays what it is."""
    dtype = getattr(result, "dtype", None)
    if not isinstance(result, pd.Series) or not isinstance(dtype, MASKED):
        return None if isinstance(result, pd.Series) else result
    lost = bool(result.isna().any())
    if lost and dtype.kind != "f":
        return None
    plain = result.to_numpy(dtype.numpy_dtype, **({"na_value": np.nan} if lost else {}))
    return pd.Series(plain, result.index)


def nullable(values: np.ndarray) -> Any:
    """An array of a nullable dtype, in which NaN is missing."""
    mask = np.isnan(values)
    if values.dtype.kind == "b":
        return pd.arrays.BooleanArray(values, mask)
    array = pd.arrays.FloatingArray if values.dtype.kind == "f" else pd.arrays.IntegerArray
    return array(values, mask)
