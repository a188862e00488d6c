"""``series.map(f)``: a function of elements, which it gets as Python's numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ..errors import TraceError
from ..loop.arguments import Looped
from . import applied
from .applied import Job, Own, Runner
from .results import elements, is_sure
from .returns import FLOAT, made, pair_of


def apply(
    series: pd.Series,
    f: Any,
    args: tuple,
    kwargs: dict[str, Any],
    skip: bool,
    own: Callable[[Any], Any],
    runner: Runner = applied.run,
) -> Any:
    """What ``series.map(f)`` gives; `own` is that, with such a function.

    `skip`: whether NaN stay what they are.
    """
    dtype = series.dtype
    if type(series) is not pd.Series or not isinstance(dtype, np.dtype):
        return own(f)
    if dtype.kind not in "biuf" or applied.is_few(len(series)):
        return own(f)
    values = series.to_numpy()
    mask = np.isnan(values) if skip and dtype.kind == "f" else None
    mask = mask if mask is not None and mask.any() else None
    looped = values if mask is None else values[~mask]
    if not looped.size:
        return own(f)

    def call(k: int) -> Any:
        return f(looped[k].item(), *args, **kwargs)

    job = Job(f, own, call, len(looped))
    try:
        of = made(f, None)
        what = applied.applied(
            job, of.of(f), [looped], "", (np.float64, np.int64),
            lambda y, _: pair_of(y, of.texts), (Looped(0), *args), kwargs,
        )  # fmt: skip
    except TraceError as error:
        return applied.by_pandas(job, str(error))
    found = applied.results(what, runner)
    if isinstance(found, Own):
        return found.result
    numbers, kinds = found
    if not is_sure(numbers, kinds):
        return applied.by_pandas(job, "it returns integers beyond 2**53")
    if mask is not None:
        parts = np.full(len(values), np.nan), np.full(len(values), FLOAT, np.int64)
        parts[0][~mask], parts[1][~mask] = numbers, kinds
        numbers, kinds = parts
    made_of = elements(numbers, kinds, of.texts)
    result = pd.Series(made_of, index=series.index, copy=False)
    if made_of.dtype == object:
        result = pd.Series(made_of, dtype=object).map(_itself)
        result.index = series.index
    return result


def _itself(x: Any) -> Any:
    return x


def bound(f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A function of elements alone, as pandas makes it."""
    return functools.partial(f, **kwargs) if kwargs and not args else f
