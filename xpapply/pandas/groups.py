"""``groupby(...).agg(f)`` and ``.apply(f)``: a function of groups, which gives a number or a text.

Sorted by their groups the rows of each stand together: a group is a part of each column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from . import applied
from .applied import Host, Job, Own, Refusal
from .elements import MASKED, numbers_of
from .labels import Labels, Refused
from .lost import but_lost
from .results import NOT_SURE, OF_MANY_KINDS, elements, is_sure, pair_of, pairs_of, rows_of
from .returns import made, of_part
from .rows import COLUMN


def apply(
    data: Any,
    start: np.ndarray,
    end: np.ndarray,
    f: Any,
    args: tuple,
    kwargs: dict[str, Any],
    own: Callable[[Any], Any],
    name: Callable[[Any, int], Any],
    host: Host,
    truths: bool = False,
    series: bool = False,
) -> Any:
    """The results for all groups, as an array of objects or a list of Series; or an `Own`.

    Parameters
    ----------
    data : Series or DataFrame
        Sorted by groups.
    start, end : array of int
        Where each of them begins and ends.
    f, args, kwargs
        The function, and what it gets beside a group.
    own : callable
        pandas' loop, with such a function.
    name : callable
        ``name(group, k)`` gives a group the name that pandas gives it.
    host : Host
        Who runs it.
    truths : bool
        Whether nothing else may be returned.
    series : bool
        Whether Series of numbers and texts may be.
    """

    def call(k: int) -> Any:
        return f(name(data.iloc[start[k] : end[k]], k), *args, **kwargs)

    job = Job(f, own, call, len(start), host=host)
    with Refusal() as refused:
        of, columns, lost = _made(f, data, bool((start == end).any()), series)
        if of.gives == "columns" and (why := applied.why_impure(f)):
            raise Refused(why)
        function = of_part(of.of(f), len(args), tuple(kwargs), len(columns))
    if refused.why is not None:
        return Own(host.by_pandas(job, refused.why))

    count = len(of.names or (0,))

    def encode(result: Any, again: Any, k: int) -> Any:
        if of.gives == "columns":
            return None if isinstance(result, (list, tuple)) else pairs_of(result, of, again)
        taken = not truths or isinstance(result, (bool, np.bool_))
        return pair_of(result, of) if taken else None

    masked = of.masked

    def run(job: Job, at: Any) -> Any:
        return applied.results(applied.of_parts(
            job, function, (start[at], end[at]), columns, (np.float64, np.int64) * count,
            lambda y, again, k: encode(y, again, k), args, kwargs,
            whole=of.whole or masked, silent=of.silent and not masked,
        ))  # fmt: skip

    with Refusal() as refused:
        found = but_lost(
            _groups_of(lost, start, end), of, job, run, lambda at: map(call, at), truths
        )
    if refused.why is not None:
        return Own(host.by_pandas(job, refused.why))
    if isinstance(found, Own):
        return found
    pairs = [*zip(found[::2], found[1::2], strict=True)]
    if not all(is_sure(*pair) for pair in pairs):
        return Own(host.by_pandas(job, NOT_SURE))
    if of.gives == "numbers":
        return elements(*pairs[0], of.texts).astype(object)
    made = rows_of(pairs, of.texts)
    if made is None:
        return Own(host.by_pandas(job, OF_MANY_KINDS))
    index, dtype = job.result(0).index, made.dtype
    return [pd.Series(row, index=index, dtype=dtype, copy=False) for row in made]


def _groups_of(lost: Any, start: np.ndarray, end: np.ndarray) -> Any:
    """Groups that have rows that are lost."""
    if lost is None:
        return None
    before = np.concatenate(([0], np.cumsum(lost)))
    return before[end] > before[start]


def _made(f: Any, data: Any, empty: bool, series: bool) -> tuple[Any, list[np.ndarray], Any]:
    """The function written anew, the columns that it reads, and which of their rows are lost."""
    if type(data) is pd.Series:
        labels, *rest = labels_of(data, empty)
        of = made(f, labels)
        found: list[Any] = [rest]
    else:
        if isinstance(data.columns, pd.MultiIndex):
            raise Refused("its columns have labels of several levels")
        each = [data.iloc[:, k] for k in range(data.shape[1])]
        taken = [is_taken(x.dtype) for x in each]
        known = tuple(COLUMN.format(k) if taken[k] else "" for k in range(len(each)))
        parts: list[Any] = [
            labels_of(x, empty) if own else None for x, own in zip(each, taken, strict=True)
        ]
        inner = tuple(part and part[0] for part in parts)
        names = tuple(data.columns.tolist())
        of = made(f, Labels(names, "O", columns=known, inner=inner))
        found = [parts[known.index(name)][1:] for name in of.columns]
    if of.gives != "numbers" and not (series and of.gives == "columns"):
        raise Refused("it returns no single number for a group of numbers")
    if not found:
        raise Refused("it reads no column of numbers")
    lost = [x for _, x in found if x is not None]
    return of, [x for x, _ in found], np.logical_or.reduce(lost) if lost else None


def labels_of(column: pd.Series, empty: bool) -> tuple[Labels, np.ndarray, Any]:
    """What is known of a group's part of a column, its numbers, and which are lost for good.

    `empty`: whether a part may have no elements. NaN stands for missing floats.
    """
    if not is_taken(column.dtype):
        raise Refused(known_as(column.dtype))
    if isinstance(column.dtype, np.dtype):
        values, lost = column.to_numpy(), None
    else:
        values, lost = numbers_of(column.array)  # type: ignore[misc]
        if (lost & ~column.isna().to_numpy()).any():
            raise Refused("NaN is among elements of a nullable dtype, and is not missing")
        if values.dtype.kind == "f":
            values, lost = np.where(lost, np.nan, values), None
        elif not lost.any():
            lost = None
    gaps = values.dtype.kind == "f" and bool(np.isnan(values).any())
    masked = not isinstance(column.dtype, np.dtype)
    kind = values.dtype.kind.replace("u", "i")
    return Labels(None, kind, gaps, empty, masked=masked), values, lost


def known_as(dtype: Any) -> str:
    """What is wrong with elements of a dtype, and what others would do."""
    advice = ": astype('float64') has numbers that are known" * (dtype.kind in "biuf")
    return f"its elements are {dtype}{advice}"


def is_taken(dtype: Any) -> bool:
    """Whether elements are numbers that are known."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biuf"
    return isinstance(dtype, MASKED)
