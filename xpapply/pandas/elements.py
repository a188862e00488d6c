"""``series.map(f)``: a function of elements, which it gets as Python's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pandas._libs import lib

from ..errors import TraceError
from ..loop.arguments import Looped
from . import applied
from .applied import Host, Job, Own
from .results import elements, is_sure
from .returns import FLOAT, made, pair_of


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

    `skip`: whether NaN stay what they are.
    """
    if values.ndim != 1 or applied.is_few(len(values)):
        return own(f)
    if not isinstance(values, np.ndarray):
        plain = without_gaps(values)
        if isinstance(plain, str):
            return host.by_pandas(Job(f, own, _itself, len(values), host=host), plain)
        found = apply(plain, f, args, kwargs, skip, lambda f: Own(own(f)), host)
        return found.result if isinstance(found, Own) else values._cast_pointwise_result(found)
    if values.dtype.kind not in "biuf":
        why = f"its elements are {values.dtype}"
        return host.by_pandas(Job(f, own, _itself, len(values), host=host), why)
    mask = np.isnan(values) if skip and values.dtype.kind == "f" else None
    mask = mask if mask is not None and mask.any() else None
    looped = values if mask is None else values[~mask]
    if not looped.size:
        return own(f)

    def call(k: int) -> Any:
        return f(looped[k].item(), *args, **kwargs)

    job = Job(f, own, call, len(looped), host=host)
    try:
        of = made(f, None)
        what = applied.applied(
            job, of.of(f), [looped], "", (np.float64, np.int64),
            lambda y, *_: pair_of(y, of.texts), (Looped(0), *args), kwargs,
        )  # fmt: skip
    except TraceError as error:
        return host.by_pandas(job, str(error))
    found = applied.results(what)
    if isinstance(found, Own):
        return found.result
    numbers, kinds = found
    if not is_sure(numbers, kinds):
        return host.by_pandas(job, "it returns integers beyond 2**53")
    if mask is not None:
        parts = np.full(len(values), np.nan), np.full(len(values), FLOAT)
        parts[0][~mask], parts[1][~mask] = numbers, kinds
        numbers, kinds = parts
    found = elements(numbers, kinds, of.texts)
    # of objects pandas makes what it makes of a loop's results
    return lib.maybe_convert_objects(found) if found.dtype == object else found


def without_gaps(values: Any) -> np.ndarray | str:
    """The numbers of a nullable array that lacks none; or why there are none."""
    dtype = values.dtype
    if str(dtype) not in NULLABLE or not hasattr(values, "_cast_pointwise_result"):
        return f"its elements are {dtype}"
    found = values.to_numpy(NULLABLE[str(dtype)]) if not values._hasna else None
    if found is None or (found.dtype.kind == "f" and np.isnan(found).any()):
        return f"some of its elements, {dtype}, are missing"
    return found  # type: ignore[no-any-return]


NULLABLE = {"Int64": np.int64, "Float64": np.float64, "boolean": np.bool_}
"""Nullable dtypes whose elements are numbers of Python's, or None."""


def _itself(x: Any) -> Any:
    return x
