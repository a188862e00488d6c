"""``df.apply(f, axis=1)``: a function of rows, which it gets as Series."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.apply import frame_apply

from ..errors import TraceError
from ..limits import LIMITS
from ..loop.arguments import Looped
from . import applied
from .applied import Host, Job, Own, Refusal
from .elements import nullable, numbers_dtype, numbers_of, plain
from .known import Called, through
from .labels import Labels, Refused
from .lost import but_lost
from .named_rows import Rows
from .results import (
    NOT_SURE,
    OF_MANY_KINDS,
    elements,
    index_of,
    is_sure,
    pair_of,
    pairs_of,
    rows_of,
)
from .returns import Made, made
from .trees import constant

COLUMN = "_xpapply_column_{}"


def apply(
    frame: pd.DataFrame,
    f: Any,
    args: tuple,
    kwargs: dict[str, Any],
    own: Callable[[Any], Any],
    host: Host,
    result_type: str | None = None,
) -> Any:
    """What ``frame.apply(f, axis=1)`` gives; `own` is that, with such a function."""

    def call(k: int) -> Any:
        return f(_row(frame, k), *args, **kwargs)

    if type(frame) is not pd.DataFrame or not all(frame.shape) or applied.is_few(len(frame)):
        return own(f)
    job, expand = Job(f, own, call, len(frame), host=host), result_type == "expand"
    what = through(f, args, kwargs)
    with suppress(TraceError):  # it has no source, or is refused
        by_name = Rows(frame, what, call, result_type)
        job.own, job.call, job.by_pandas = by_name.loop, by_name.call, call
    with Refusal() as refused:
        rest, (values, lost) = _rest(frame, f, args, kwargs), _values(frame)
        if values is not None:
            return _of_arrays(frame, values, lost, job, what, rest, expand)
        return _of_columns(frame, job, what, rest, expand)
    assert refused.why is not None
    return host.by_pandas(job, refused.why)


def _row(frame: pd.DataFrame, k: int) -> pd.Series:
    """A row as pandas' loop hands it on: elements of several kinds are Python's."""
    row = frame.iloc[k]
    if row.dtype != object:
        return row
    values = frame.iloc[k : k + 1].to_numpy()[0]
    return pd.Series(values, frame.columns, name=frame.index[k], dtype=object)


def _values(frame: pd.DataFrame) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The rows, where they are arrays of numbers; None: their elements are of several kinds.

    And which elements nullable rows lack.
    """
    dtypes, dtype = frame.dtypes.tolist(), frame.iloc[0].dtype
    if all(isinstance(d, np.dtype) for d in dtypes):
        return (frame.to_numpy() if dtype.kind in "biuf" else None), None
    if not hasattr(dtype, "numpy_dtype") or isinstance(dtype, pd.ArrowDtype):
        return None, None  # whose elements are Python's
    if (own := dtype.numpy_dtype).char not in "?ld":
        wide = "Float64" if own.kind == "f" else "Int64"
        raise Refused(f"rows are {dtype}: astype({wide!r}) has numbers that are known")
    each = [_numbers(frame.iloc[:, k], True) for k in range(len(dtypes))]
    return np.stack([x.astype(own) for x, _ in each], 1), np.stack([lost for _, lost in each], 1)


def _numbers(column: pd.Series, nullable: bool) -> tuple[np.ndarray, np.ndarray]:
    """Those of a column of numbers, and which are missing: NaN too, where rows are nullable."""
    found = None if isinstance(column.dtype, np.dtype) else numbers_of(column.array)
    if found is not None:
        return found
    values = column.to_numpy()
    return values, np.isnan(values) if nullable else np.zeros(len(values), np.bool_)


def _of_arrays(
    frame: pd.DataFrame, values: np.ndarray, lost: Any, job: Job, what: Called, rest: Any,
    expand: bool,
) -> Any:  # fmt: skip
    f, args, kwargs = what.f, what.args, what.kwargs
    gaps = values.dtype.kind == "f" and bool(np.isnan(values).any())
    labels = Labels(_names(frame), values.dtype.kind.replace("u", "i"), gaps)
    if values.dtype.char not in "?ldf":
        raise Refused(f"rows are {values.dtype}: astype('int64') has numbers that are known")
    is_masked = lost is not None
    if is_masked:
        labels = replace(labels, masked=True, gaps=False)
    classes = is_masked and bool(lost.any())  # what NA becomes may stand among numbers
    of = made(f, labels, expand=expand, classes=classes)
    known = is_masked and (lost == frame.isna().to_numpy()).all()
    if known and of.whole and values.dtype.kind == "f" and lost.any():
        with suppress(Refused):  # then rows that lack something are pandas' own calls
            of = made(f, replace(labels, gaps=True), expand=expand)
            values, lost = np.where(lost, np.nan, values), None
    if values.dtype == np.float32 and (of.whole or of.gives != "numbers"):
        raise Refused("whole rows are float32, which pandas rounds in its own way: astype(float)")
    encode, signature, dtypes = _results(of, frame)
    function = of.of(f)
    rows = None if lost is None else lost[:, _read(of, lost.shape[1])].any(1)
    again = of.gives == "columns" or (rows is not None and rows.any())
    if again and (why := applied.why_impure(function)):
        raise Refused(why)

    def run(job: Job, at: Any) -> Any:
        return applied.results(applied.applied(
            job, function, [values[at]], signature, dtypes, encode, (Looped(0), *args), kwargs,
            whole=of.whole, silent=of.silent and not is_masked,
        ))  # fmt: skip

    found = but_lost(rows, of, job, run, rest)
    if is_masked and of.gives == "slices" and not isinstance(found, Own):
        if found.shape != values.shape or (np.isnan(found) & ~np.isnan(values)).any():
            found = Own(job.host.by_pandas(job, "NaN comes to be in a nullable dtype"))
    return _labelled(found, of, frame, job, is_masked)


def _read(of: Made, count: int) -> Any:
    """Places of a row that are read, if nothing else is."""
    first = (of.tree.args.posonlyargs or of.tree.args.args)[0].arg
    every = [n for x in (of.tree, *of.asked) for n in ast.walk(x)]
    names = [n for n in every if isinstance(n, ast.Name) and n.id == first]
    parts = [n for n in every if isinstance(n, ast.Subscript) and n.value in names]
    places = [constant(n.slice) for n in parts]
    known = len(places) == len(names) and all(k in range(-count, count) for k in places)
    return sorted({*places}) if known else slice(None)


def _rest(frame: pd.DataFrame, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """pandas' own calls for some of the rows."""

    def results(at: np.ndarray) -> Any:
        for row in frame_apply(frame.iloc[at], len, axis=1, kwargs={}).series_generator:
            yield f(row, *args, **kwargs)

    return results


def _names(frame: pd.DataFrame) -> tuple[Any, ...]:
    if isinstance(frame.columns, pd.MultiIndex):
        raise Refused("its columns have labels of several levels")
    return tuple(frame.columns.tolist())


def _results(of: Made, frame: pd.DataFrame) -> tuple[Any, str, Any]:
    """What makes a result of pandas one of the function, its signature, and the dtypes."""
    if of.gives == "slices":
        if len(of.names or ()) == frame.shape[1]:
            return lambda y, *_: _array(y, of), "(n)->(n)", None
        return lambda y, *_: _array(y, of), "(n)->(m)", None
    count = len(of.names or (0,))
    outputs, dtypes = ",".join(["()"] * (2 * count)), (np.float64, np.int64) * count
    if of.gives == "numbers":
        return lambda y, *_: pair_of(y, of), f"(n)->{outputs}", dtypes
    return lambda y, again, _: pairs_of(y, of, again), f"(n)->{outputs}", dtypes


def _array(result: Any, of: Made) -> Any:
    """The array of a Series with the labels that it should have."""
    result = plain(result) if of.masked else result
    if not isinstance(result, pd.Series) or tuple(result.index.tolist()) != of.names:
        return None
    found = result.to_numpy()
    return found if found.dtype.kind in "biuf" else None


def _labelled(found: Any, of: Made, frame: pd.DataFrame, job: Job, masked: bool = False) -> Any:
    """What pandas makes of the results; `masked`: rows are nullable."""
    if isinstance(found, Own):
        return found.result
    made: Any
    if of.gives == "slices":
        columns = job.result(0).index
        if masked:
            found = {k: nullable(found[:, k]) for k in range(found.shape[1])}
            made = pd.DataFrame(found, index=frame.index).set_axis(columns, axis=1)
            return made.__finalize__(frame, method="apply")
        made = pd.DataFrame(found, index=frame.index, columns=columns)
        return made.__finalize__(frame, method="apply")
    pairs = [*zip(found[::2], found[1::2], strict=True)]
    if not all(is_sure(*pair, of.gives == "numbers") for pair in pairs):
        return job.host.by_pandas(job, NOT_SURE)
    if of.gives == "numbers":
        values = elements(*pairs[0], of.texts)
        made = values.tolist() if values.dtype == object else values
        return pd.Series(made, index=frame.index).__finalize__(frame, method="apply")
    made = _frame(pairs, of, frame, job)
    if made is None:
        return job.host.by_pandas(job, OF_MANY_KINDS)
    return made.__finalize__(frame, method="apply")


def _frame(pairs: list[Any], of: Made, frame: pd.DataFrame, job: Job) -> pd.DataFrame | None:
    """A DataFrame of Series of results, each of which has a dtype of its own."""
    columns, index = index_of(job.result(0)), frame.index
    values = rows_of(pairs, of.texts)
    if values is None or values.dtype != object:
        return None if values is None else pd.DataFrame(values, index=index, columns=columns)
    each = {k: values[:, k] for k in range(len(pairs))}
    made = pd.DataFrame(each, index=index, dtype=object)
    made.columns = columns
    return made.infer_objects()


# --- rows whose elements are of several kinds ---------------------------------------------------


def _of_columns(frame: pd.DataFrame, job: Job, what: Called, rest: Any, expand: bool) -> Any:
    """Columns of numbers become arguments; those of texts too, for each set of texts in turn."""
    f, args, kwargs = what.f, what.args, what.kwargs
    names = _names(frame)
    known = [COLUMN.format(k) if _is_taken(d) else "" for k, d in enumerate(frame.dtypes)]
    nullable_ones = [c for c in range(len(known)) if not isinstance(frame.dtypes.iloc[c], np.dtype)]
    classes = bool(nullable_ones) and bool(frame.iloc[:, nullable_ones].isna().to_numpy().any())
    of = made(f, Labels(names, "O", columns=tuple(known)), expand=expand, classes=classes)
    if of.gives == "slices":
        raise Refused("it returns a Series of elements of several kinds")
    encode, _, dtypes = _results(of, frame)
    operands: list[np.ndarray] = []
    codes, lost = np.zeros(len(frame), np.int64), np.zeros(len(frame), np.bool_)
    texts: list[tuple[int, Any]] = []
    given: list[Any] = []
    row = numbers_dtype(frame.iloc[0].dtype)
    for name in of.columns:
        column = frame.iloc[:, known.index(name)]
        if _is_numbers(column.dtype):
            given.append(Looped(len(operands)))
            numbers, missing = _numbers(column, row is not None)
            operands.append(numbers if row is None else numbers.astype(row))
        else:
            own, values, missing = _texts(column)
            codes = codes * len(values) + own
            texts.append((len(given), values))
            given.append(None)
        lost |= missing
    if not operands:
        raise Refused("it reads no column of numbers")
    function = of.of(f)
    again = texts or of.gives == "columns" or lost.any()
    if again and (why := applied.why_impure(function)):
        raise Refused(why)

    def run(job: Job, at: Any) -> Any:
        some = [x[at] for x in operands]
        if texts:
            told = (dtypes, encode), (codes[at], texts), (given, args, kwargs)
            return _by_texts(job, function, some, *told)
        of_all = job, function, some, "", dtypes, encode, (*given, *args), kwargs
        return applied.results(applied.applied(*of_all))

    return _labelled(but_lost(lost, of, job, run, rest), of, frame, job)


def _by_texts(
    job: Job, function: Any, operands: list[np.ndarray], results: Any, told: Any, given: Any,
) -> Any:  # fmt: skip
    """The results for the rows with each set of texts, those of the first row first."""
    (dtypes, encode), (codes, texts), (places, args, kwargs) = results, told, given
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    most = max(1, len(codes) // LIMITS.rows_of_texts)
    if len(first) > most:
        raise Refused(
            f"{len(first):,} sets of texts in {len(codes):,} rows: one may have "
            f"{LIMITS.rows_of_texts:,}"
        )
    found = tuple(np.zeros(len(codes), d) for d in dtypes)
    order = np.argsort(inverse, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    for k in np.argsort(first):
        at = parts[k]
        own = list(places)
        code = codes[at[0]]
        for place, values in reversed(texts):
            own[place] = values[code % len(values)]
            code //= len(values)
        some = job.of_some(at)
        what = applied.applied(
            some, function, [x[at] for x in operands], "", dtypes, encode, (*own, *args), kwargs,
            part=True,
        )  # fmt: skip
        parts_of = applied.results(what)
        if isinstance(parts_of, Own):
            return parts_of
        for x, y in zip(found, parts_of, strict=True):
            x[at] = y
    return found


def _is_numbers(dtype: Any) -> bool:
    return dtype.kind in "biuf" if isinstance(dtype, np.dtype) else numbers_dtype(dtype) is not None


def _is_taken(dtype: Any) -> bool:
    of_texts = isinstance(dtype, (pd.StringDtype, pd.CategoricalDtype)) or dtype == np.dtype(object)
    return of_texts or _is_numbers(dtype)


def _texts(column: pd.Series) -> tuple[np.ndarray, list[Any], Any]:
    """The texts of a column, which of them each element is, and which are missing.

    NaN is one of them, where nothing else is missing.
    """
    kind, lost = "string", False
    if column.dtype == object:  # where missing ones may be None, or another NaN
        kind, lost = pd.api.types.infer_dtype(column, skipna=True), column.isna().to_numpy()
    elif isinstance(column.dtype, pd.CategoricalDtype):
        kind = pd.api.types.infer_dtype(column.cat.categories, skipna=False)
    elif column.dtype.na_value is pd.NA:
        lost = column.isna().to_numpy()
    if kind != "string":
        raise Refused(f"the column {column.name!r} has elements that are no texts")
    codes, found = pd.factorize(column, use_na_sentinel=False)
    values = [x if type(x) is str else float("nan") for x in found]
    return codes.astype(np.int64), values, lost
