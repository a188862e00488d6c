"""``groupby(...).transform(f)``: a function of groups whose results are as long as these.

What it returns is made element by element of its group and of numbers, such as the mean: these are
computed for all groups, and what is made of them for all rows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

from ..errors import TraceError
from ..frontends.python.source.reading import find
from . import applied
from .applied import Host, Job, Own, Refusal
from .elements import nullable, plain
from .groups import known_as, labels_of
from .labels import LACKING, Refused
from .results import NOT_SURE, is_sure
from .returns import BOOL, FLOAT, INTEGER, KINDS, NUMPYS, TEXT, Made, made, of_part
from .spread import COUNTS, ROWS, number

_DECIDES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.Try,
    ast.BoolOp,
    ast.Assert,
    ast.comprehension,
)


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
) -> Any:
    """The results for all rows in the order of groups, a list of arrays by columns; or an `Own`.

    Parameters as of `groups.apply`. A DataFrame is transformed column by column.
    """
    frame = data if type(data) is pd.DataFrame else None
    columns = [data] if frame is None else [frame.iloc[:, k] for k in range(frame.shape[1])]
    known: dict[int, Any] = {}
    whole = Job(f, own, lambda k: None, len(start), host=host, known=known)
    found: list[Any] = [None] * len(columns)
    alike: dict[str, list[int]] = {}
    for c, column in enumerate(columns):
        alike.setdefault(str(column.dtype), []).append(c)
    with Refusal() as refused:
        if frame is not None and (start == end).any():
            raise Refused("a group has no rows")
        for at in alike.values():
            one = _OfColumns([columns[c] for c in at], at, len(columns), start, end)
            values = one.values(whole, frame, f, args, kwargs, name)
            if isinstance(values, Own):
                return values
            for c, x in zip(at, values, strict=True):
                found[c] = x
        scalars = [x for x in found if x[1]]
        if scalars and len(scalars) < len(found):
            raise Refused("numbers and Series are its results for columns of several dtypes")
        if frame is not None and scalars:  # a row of them has one dtype
            dtype = _common([x for x, _ in found])
            if dtype.hasobject:
                raise Refused("it returns texts for several columns")
            found = [(x.astype(dtype, copy=False), True) for x, _ in found]
    if refused.why is not None:
        return Own(host.by_pandas(whole, refused.why))
    return [x for x, _ in found]


class _OfColumns:
    """Columns of one dtype, one after the other."""

    def __init__(
        self, columns: list[Any], at: list[int], count: int, start: np.ndarray, end: np.ndarray
    ) -> None:
        self._columns, self._at, self._count, self._groups = columns, at, count, len(start)
        self._bounds = start, end
        rows = len(columns[0])
        known = [labels_of(x, bool((start == end).any())) for x in columns]
        if any(lost is not None for *_, lost in known):
            raise Refused(LACKING)
        self._labels, arrays = known[0][0], [x for _, x, _ in known]
        self._labels = replace(self._labels, gaps=any(x.gaps for x, *_ in known))
        self._flat = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        places = rows * np.arange(len(columns))[:, None]
        self._start, self._end = (places + start).ravel(), (places + end).ravel()

    def values(
        self, whole: Job, frame: Any, f: Any, args: tuple, kwargs: dict[str, Any], name: Any
    ) -> Any:
        """An array for each column, and whether numbers became one; or an `Own`."""
        start, end = self._bounds

        def call(j: int) -> Any:
            c, k = divmod(j, self._groups)
            return f(name(self._columns[c].iloc[start[k] : end[k]], k), *args, **kwargs)

        def place(j: int) -> int:
            """The number of pandas' call; others than its first ones, if it may call for tables."""
            c, k = divmod(j, self._groups)
            if frame is None or not k:
                return self._at[c] + k
            return -1 - j * self._count - self._at[c]

        job = Job(f, whole.own, call, len(self._start), place, whole.host, whole.known)
        with Refusal() as refused:
            of = made(f, self._labels, spreads=True)
            if self._flat.dtype.char not in "?ld":
                raise Refused(known_as(self._flat.dtype))
            function = of_part(of.of(f), len(args), tuple(kwargs))
            why = applied.why_impure(f)
            if (
                why is None
                and frame is not None
                and any(isinstance(x, _DECIDES) for x in ast.walk(find.tree_of(f)))
            ):
                why = "it decides by what is in a group, and pandas may hand it whole tables"
            if why is not None:
                raise Refused(why)
        if refused.why is not None:
            return Own(whole.host.by_pandas(job, refused.why))

        def encode(result: Any, again: Any, j: int) -> Any:
            part = self._flat[self._start[j] : self._end[j]]
            pairs = again()
            result = plain(result) if of.masked else result
            index = self._columns[0].index[slice(*(x[j % self._groups] for x in self._bounds))]
            return pairs if _is_so(result, of, part, pairs, index) else None

        count = 1 + max(x.numbers for x in of.spread)
        bounds = self._start, self._end
        if count == 1 and len(of.tree.body) == 1:  # nothing but a Series is made of a group
            what = applied.applied(
                job, _nothing_of(f), bounds, "", (np.float64, np.int64), encode, (), {},
                whole=of.whole or of.masked, silent=of.silent and not of.masked,
            )  # fmt: skip
        else:
            what = applied.of_parts(
                job, function, bounds, (self._flat,), (np.float64, np.int64) * count,
                encode, args, kwargs, whole=of.whole or of.masked,
                silent=of.silent and not of.masked,
            )  # fmt: skip
        found = applied.results(what)
        if isinstance(found, Own):
            return found
        with Refusal() as refused:
            try:
                values, scalar = _spread(of, self._flat, self._end - self._start, found)
            except FloatingPointError:
                raise Refused("NumPy warns of what a function of its gets") from None
        if refused.why is not None:
            return Own(whole.host.by_pandas(job, refused.why))
        parts = np.split(values, len(self._columns))
        if not of.masked or scalar:
            return [(x, scalar) for x in parts]
        if values.dtype.kind == "f" and (np.isnan(values) & ~np.isnan(self._flat)).any():
            return Own(whole.host.by_pandas(job, "NaN comes to be in a nullable dtype"))
        return [(nullable(x), scalar) for x in parts]


def _nothing_of(f: Any) -> FunctionType:
    """What is asked of a group: which one of one Series is made of it. It counts as `f`."""
    of = f.__code__
    code = (lambda begin, until: (0, INTEGER)).__code__
    code = code.replace(
        co_name=of.co_name, co_filename=of.co_filename, co_firstlineno=of.co_firstlineno,
        co_qualname=of.co_qualname,
    )  # fmt: skip
    return FunctionType(code, globals(), f.__name__)


def _spread(of: Made, rows: np.ndarray, counts: np.ndarray, found: Any) -> tuple[np.ndarray, bool]:
    """The results for all rows, and whether they are numbers of whole groups."""
    pairs = [*zip(found[::2], found[1::2], strict=True)]
    (sites, _), numbers = pairs[0], pairs[1:]
    parts: list[tuple[np.ndarray, Any]] = []
    for k, spread in enumerate(of.spread):
        here = sites == k
        if not here.any():
            continue
        at = None if here.all() else np.repeat(here, counts)
        known = {ROWS: rows if at is None else rows[at], COUNTS: counts[here], **spread.known}
        alone = spread.numbers == 1 and ROWS not in spread.code.co_names
        for place, (values, kinds) in enumerate(numbers[: spread.numbers]):
            values, kinds = values[here], kinds[here] % NUMPYS
            if not is_sure(values, kinds):
                raise Refused(NOT_SURE)
            own = np.flatnonzero(np.bincount(kinds)).tolist()
            if own == [TEXT] and alone:
                texts = np.array(of.texts, dtype=object)[values.astype(np.intp)]
                known[number(place)] = np.repeat(texts, counts[here])
                continue
            if own not in ([FLOAT], [INTEGER], [BOOL]) and not (alone and own == [FLOAT, INTEGER]):
                raise Refused(
                    "what it computes is of one kind for a group, and of another for others"
                )
            known[number(place)] = np.repeat(values.astype(KINDS[own[0]]), counts[here])
        with np.errstate(all="ignore"):  # as pandas does
            parts.append((eval(spread.code, known), at))
    scalar = [ROWS not in x.code.co_names for x in of.spread]
    if len({*scalar}) > 1:
        raise Refused("it returns Series and numbers")
    if len(parts) == 1:
        return parts[0][0], scalar[0]
    made = np.empty(len(rows), _common([x for x, _ in parts]))
    for x, at in parts:
        made[at] = x
    return made, scalar[0]


def _common(parts: list[np.ndarray]) -> Any:
    dtypes = {x.dtype for x in parts}
    if len(dtypes) > 1 and any(d.kind == "b" for d in dtypes):
        raise Refused("it returns truths and numbers")
    if len(dtypes) > 1 and any(d.kind == "O" for d in dtypes):
        raise Refused("it returns texts and numbers")
    return np.result_type(*dtypes)


def _is_so(result: Any, of: Made, rows: np.ndarray, pairs: Any, index: pd.Index) -> bool:
    """Whether the numbers of a group give what pandas' own call does."""
    arrays = [np.array([x]) for x in pairs]
    try:
        found, scalar = _spread(of, rows, np.array([len(rows)]), arrays)
    except (TraceError, FloatingPointError):
        return False
    if scalar and found.dtype == object:
        return type(result) is str and {*found} <= {result}
    if scalar:
        return bool(
            np.ndim(result) == 0
            and isinstance(result, (float, int, np.bool_, np.integer))
            and (not len(rows) or np.allclose(found, result, rtol=1e-7, atol=1e-12, equal_nan=True))
        )
    if not isinstance(result, pd.Series) or result.dtype != found.dtype:
        return False
    if not result.index.identical(index):
        return False
    values = result.to_numpy()
    return bool(np.allclose(found, values, rtol=1e-7, atol=1e-12, equal_nan=True))
