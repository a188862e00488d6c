"""``df.apply(f, axis=1)``: a function of rows, which it gets as Series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ..errors import TraceError
from ..limits import LIMITS
from ..loop.arguments import Looped
from . import applied
from .applied import Host, Job, Own
from .elements import NULLABLE, without_gaps
from .labels import Labels, Refused
from .results import elements, is_sure
from .returns import FLOAT, INTEGER, NONE, TEXT, Made, made, pair_of

COLUMN = "_xpapply_column_{}"


def apply(
    frame: pd.DataFrame,
    f: Any,
    args: tuple,
    kwargs: dict[str, Any],
    own: Callable[[Any], Any],
    host: Host,
    expand: bool = False,
) -> Any:
    """What ``frame.apply(f, axis=1)`` gives; `own` is that, with such a function.

    `expand`: whether lists become columns.
    """

    def call(k: int) -> Any:
        return f(_row(frame, k), *args, **kwargs)

    if type(frame) is not pd.DataFrame or not all(frame.shape) or applied.is_few(len(frame)):
        return own(f)
    job = Job(f, own, call, len(frame), host=host)
    try:
        if (values := _values(frame)) is not None:
            return _of_arrays(frame, values, job, args, kwargs, expand)
        return _of_columns(frame, job, args, kwargs, expand)
    except TraceError as error:
        return host.by_pandas(job, str(error))


def _row(frame: pd.DataFrame, k: int) -> pd.Series:
    """A row as pandas' loop hands it on: elements of several kinds are Python's."""
    row = frame.iloc[k]
    if row.dtype != object:
        return row
    values = frame.iloc[k : k + 1].to_numpy()[0]
    return pd.Series(values, frame.columns, name=frame.index[k], dtype=object)


def _values(frame: pd.DataFrame) -> np.ndarray | None:
    """The rows, where they are arrays of numbers; None: their elements are of several kinds."""
    dtypes = frame.dtypes.tolist()
    if not all(isinstance(d, np.dtype) for d in dtypes) and (dtype := _nullable(frame)):
        return np.stack([_numbers(frame.iloc[:, k]).astype(dtype) for k in range(len(dtypes))], 1)
    if not all(isinstance(d, np.dtype) and d.kind in "biuf" for d in dtypes):
        return None
    if len({d.kind == "b" for d in dtypes}) > 1:
        return None
    found = frame.to_numpy()
    return found if found.dtype.kind in "biuf" else None


def _nullable(frame: pd.DataFrame) -> Any:
    """The dtype of what is in nullable rows; None: these are others."""
    dtype = frame.iloc[0].dtype
    if isinstance(dtype, (np.dtype, pd.StringDtype, pd.CategoricalDtype)):
        return None
    if str(dtype) not in NULLABLE:
        raise Refused(f"rows are {dtype}")
    return NULLABLE[str(dtype)]


def _numbers(column: pd.Series) -> np.ndarray:
    """Those of a column of numbers, nullable or not."""
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    found = without_gaps(column.array)
    if isinstance(found, str):
        raise Refused(f"of the column {column.name!r}, {found}")
    return found


def _of_arrays(
    frame: pd.DataFrame, values: np.ndarray, job: Job, args: tuple, kwargs: Any, expand: bool
) -> Any:
    gaps = values.dtype.kind == "f" and bool(np.isnan(values).any())
    labels = Labels(_names(frame), values.dtype.kind.replace("u", "i"), gaps)
    if values.dtype.char not in "?ld":
        raise Refused(f"rows are {values.dtype}, and what pandas makes of such numbers differs")
    of = made(job.f, labels, expand=expand)
    plain = all(isinstance(d, np.dtype) for d in frame.dtypes)
    if not plain and (of.whole or of.gives == "slices"):
        raise Refused("a whole row of a nullable dtype has a meaning of its own")
    encode, signature, dtypes = _results(of, frame)
    function = of.of(job.f)
    if of.gives == "columns" and (why := applied.why_impure(function)):
        raise Refused(why)
    what = applied.applied(
        job, function, [values], signature, dtypes, encode, (Looped(0), *args), kwargs,
        whole=of.whole, silent=of.silent,
    )  # fmt: skip
    return _labelled(applied.results(what), of, frame, job)


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
        return lambda y, *_: pair_of(y, of.texts), f"(n)->{outputs}", dtypes
    return lambda y, again, _: _pairs(y, of, again), f"(n)->{outputs}", dtypes


def _array(result: Any, of: Made) -> Any:
    """The array of a Series with the labels that it should have."""
    if not isinstance(result, pd.Series) or tuple(result.index.tolist()) != of.names:
        return None
    found = result.to_numpy()
    return found if found.dtype.kind in "biuf" else None


def _pairs(result: Any, of: Made, again: Callable[[], Any]) -> Any:
    """The pairs that became a Series, or a list, whose elements have one dtype."""
    if not isinstance(result, (pd.Series, list, tuple)) or tuple(_index(result)) != of.names:
        return None
    found = again()
    for x, number, kind in zip(pd.Series(result).tolist(), found[::2], found[1::2], strict=True):
        pair = pair_of(x, of.texts)
        if pair is None or not np.allclose(float(pair[0]), float(number), equal_nan=True):
            return None
        if (kind in (TEXT, NONE)) != (pair[1] in (TEXT, NONE)):
            return None
    return found


def _index(result: Any) -> pd.Index:
    """The labels of a Series, or of a list that becomes one."""
    return result.index if isinstance(result, pd.Series) else pd.RangeIndex(len(result))


def _labelled(found: Any, of: Made, frame: pd.DataFrame, job: Job) -> Any:
    """What pandas makes of the results."""
    if isinstance(found, Own):
        return found.result
    made: Any
    if of.gives == "slices":
        columns = job.result(0).index
        made = pd.DataFrame(found, index=frame.index, columns=columns)
        return made.__finalize__(frame, method="apply")
    pairs = [*zip(found[::2], found[1::2], strict=True)]
    if not all(is_sure(*pair) for pair in pairs):
        return job.host.by_pandas(job, "it returns integers beyond 2**53")
    if of.gives == "numbers":
        values = elements(*pairs[0], of.texts)
        made = values.tolist() if values.dtype == object else values
        return pd.Series(made, index=frame.index).__finalize__(frame, method="apply")
    made = _frame(pairs, of, frame, job)
    if made is None:
        return job.host.by_pandas(job, "the elements of a Series that it returns are of many kinds")
    return made.__finalize__(frame, method="apply")


def _frame(pairs: list[Any], of: Made, frame: pd.DataFrame, job: Job) -> pd.DataFrame | None:
    """A DataFrame of Series of results, each of which has a dtype of its own."""
    kinds = np.stack([kind for _, kind in pairs], 1)
    columns, index = _index(job.result(0)), frame.index
    numbers = (kinds == FLOAT) | (kinds == INTEGER)
    if numbers.all():
        dtype = np.int64 if (kinds == INTEGER).all() else np.float64
        values = np.stack([value for value, _ in pairs], 1)
        return pd.DataFrame(values.astype(dtype, copy=False), index=index, columns=columns)
    texts = kinds == TEXT
    if (texts.any(1) & ~texts.all(1)).all():
        each = {
            k: elements(pair[0], pair[1], of.texts).astype(object) for k, pair in enumerate(pairs)
        }
        made = pd.DataFrame(each, index=index, dtype=object)
        made.columns = columns
        return made.infer_objects()
    return None


# --- rows whose elements are of several kinds ---------------------------------------------------


def _of_columns(
    frame: pd.DataFrame, job: Job, args: tuple, kwargs: dict[str, Any], expand: bool
) -> Any:
    """Columns of numbers become arguments; those of texts too, for each set of texts in turn."""
    names = _names(frame)
    known = [COLUMN.format(k) if _is_taken(d) else "" for k, d in enumerate(frame.dtypes)]
    of = made(job.f, Labels(names, "O", columns=tuple(known)), expand=expand)
    if of.gives == "slices":
        raise Refused("it returns a Series of elements of several kinds")
    encode, _, dtypes = _results(of, frame)
    operands: list[np.ndarray] = []
    codes = np.zeros(len(frame), np.int64)
    texts: list[tuple[int, Any]] = []
    given: list[Any] = []
    for name in of.columns:
        column = frame.iloc[:, known.index(name)]
        if column.dtype.kind in "biuf":
            given.append(Looped(len(operands)))
            operands.append(_numbers(column))
            continue
        own, values = _texts(column)
        codes = codes * len(values) + own
        texts.append((len(given), values))
        given.append(None)
    if not operands:
        raise Refused("it reads no column of numbers")
    function = of.of(job.f)
    if (texts or of.gives == "columns") and (why := applied.why_impure(function)):
        raise Refused(why)
    if not texts:
        what = applied.applied(job, function, operands, "", dtypes, encode, (*given, *args), kwargs)
        return _labelled(applied.results(what), of, frame, job)
    found = _by_texts(
        job, function, operands, (dtypes, encode), (codes, texts), (given, args, kwargs)
    )
    return _labelled(found, of, frame, job)


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


def _is_taken(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufO"
    return isinstance(dtype, (pd.StringDtype, pd.CategoricalDtype)) or str(dtype) in NULLABLE


def _texts(column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """The texts of a column, and which of them each element is; NaN among them."""
    kind = "string"
    if column.dtype == object:  # where missing ones may be None, or another NaN
        kind = pd.api.types.infer_dtype(column, skipna=False)
    elif isinstance(column.dtype, pd.CategoricalDtype):
        kind = pd.api.types.infer_dtype(column.cat.categories, skipna=False)
    elif column.dtype.na_value is pd.NA and column.hasnans:
        kind = "missing"
    if kind != "string":
        raise Refused(f"the column {column.name!r} has elements that are no texts")
    codes, found = pd.factorize(column, use_na_sentinel=False)
    values = [x if type(x) is str else float("nan") for x in found]
    return codes.astype(np.int64), values
