"""Functions that move numbers, and those that compare each with its neighbours, in graphs.

What only moves numbers is told by NumPy's own function, which runs on their places: it may be any
that takes arrays and gives an array of the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ....batching.numpy.convolve import windows_of
from ....errors import UnsupportedError
from ....ir.builder import Value
from ....ir.numpy_builder import weak

_MOST_PIECES = 512
"""Pieces that a value is put together of, at most."""


def picked(lowering: Any, sources: Sequence[Any], places: np.ndarray, dtype: Any = None) -> Value:
    """Numbers of some values and constants, all flat, one after the other, by their places."""
    dtype = np.result_type(*map(weak, sources)) if dtype is None else dtype
    values = [lowering.operand(x, dtype) for x in sources]
    flat = [lowering.shaped(v, (int(np.prod(v.shape)),)) for v in values]
    starts = np.cumsum([0, *(v.shape[0] for v in flat)])
    parts = []
    for first, last, step in _runs(places.reshape(-1), starts):
        k = int(np.searchsorted(starts, first, "right")) - 1
        begin, end = first - starts[k], last - starts[k]
        stop = end + (1 if step > 0 else -1)
        key = (int(begin), int(stop) if stop >= 0 else None, int(step))
        whole = key == (0, flat[k].shape[0], 1)
        parts.append(flat[k] if whole else lowering.op("index", flat[k], key=(key,)))
        if len(parts) > _MOST_PIECES:
            raise UnsupportedError("its numbers are mixed in too many pieces")
    if not parts:
        raise UnsupportedError("a value of no numbers")
    found = parts[0] if len(parts) == 1 else lowering.op("concat", *parts, axis=0)
    result: Value = lowering.shaped(found, places.shape)
    return result


def _runs(places: np.ndarray, starts: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Places in a row that are equally far apart, in one source: the first, the last, the step."""
    source = np.searchsorted(starts, places, "right")
    at = 0
    while at < len(places):
        end, step = at + 1, 1
        if end < len(places) and source[end] == source[at] and places[end] != places[at]:
            step = int(places[end] - places[at])
            while (
                end < len(places)
                and source[end] == source[at]
                and places[end] - places[end - 1] == step
            ):
                end += 1
        yield int(places[at]), int(places[end - 1]), step
        at = end


def places_of(x: Any) -> np.ndarray:
    """The place of each number, in the shape of `x`."""
    return np.arange(int(np.prod(x.shape))).reshape(x.shape)


def _numbered(tree: Any, sources: list[Any]) -> Any:
    """Arrays of places for data, which goes to `sources`."""
    if isinstance(tree, (list, tuple)) and any(isinstance(x, (Value, np.ndarray)) for x in tree):
        return type(tree)(_numbered(x, sources) for x in tree)
    x = tree if isinstance(tree, Value) else np.asarray(tree)
    start = sum(int(np.prod(np.shape(s) if not isinstance(s, Value) else s.shape)) for s in sources)
    sources.append(x)
    return start + np.arange(int(np.prod(x.shape))).reshape(x.shape)


def moved(name: str, *data: str) -> Callable[..., Any]:
    """A function of NumPy that only moves the numbers of its parameters `data`."""
    function = getattr(np, name)

    def lowered(lowering: Any, **given: Any) -> Value:
        sources: list[Any] = [np.zeros(1, bool)]  # what functions fill up with
        for k in data:
            if k in given:
                given[k] = _numbered(given[k], sources)
        if any(isinstance(x, Value) for x in given.values()):
            raise UnsupportedError(f"{name} by numbers of the slice")
        if given.get("dtype") is not None:  # what is converted would be the places
            raise UnsupportedError(f"{name} with a dtype")
        places = function(*([given.pop(data[0])] if data[0] in given else []), **given)
        if not isinstance(places, np.ndarray):
            raise UnsupportedError(f"{name} gives several arrays")
        return picked(lowering, sources, places)

    return lowered


def _insert(lowering: Any, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Insert values, which get the dtype of the array."""
    dtype = arr.dtype if isinstance(arr, Value) else np.asarray(arr).dtype
    if not isinstance(values, Value):
        if any(isinstance(x, Value) for x in np.ravel(np.array(values, object))):
            raise UnsupportedError("several numbers of the slice are inserted")
        values = np.asarray(values).astype(dtype)
    elif values.dtype != dtype:
        raise UnsupportedError(f"numbers of {values.dtype} are inserted into an array of {dtype}")
    return _moved_by_insert(lowering, arr=arr, obj=obj, values=values, axis=axis)


_moved_by_insert = moved("insert", "arr", "values")


_MODES_OF_PAD = ("edge", "reflect", "symmetric", "wrap")
"""Modes of pad that only move numbers."""


def _pad(
    lowering: Any, array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0
) -> Value:
    if not isinstance(array, Value) or isinstance(constant_values, Value):
        raise UnsupportedError("padding of a constant")
    places = places_of(array)
    sources: list[Any] = [array]
    if mode == "constant" and np.ndim(constant_values) == 0:
        sources.append(np.asarray(constant_values).astype(array.dtype).reshape(1))
        places = np.pad(places, pad_width, constant_values=places.size)
    elif mode in _MODES_OF_PAD:
        places = np.pad(places, pad_width, mode)
    else:
        raise UnsupportedError(f"padding of mode {mode!r}")
    return picked(lowering, sources, places, array.dtype)


def written(lowering: Any, x: Any, key: tuple, item: Any, ndim: int) -> Value:
    """``x[key] = item``, as a new value."""
    if not isinstance(x, Value):
        x = np.asarray(x)
    if any(isinstance(k, Value) for k in key):
        return _written_at(lowering, x, key, item)
    places = places_of(x)
    shape = item.shape if isinstance(item, Value) else np.shape(item)
    fresh = places.size + np.arange(int(np.prod(shape))).reshape(shape)
    while fresh.ndim > max(ndim, 0) and fresh.shape[0] == 1:
        fresh = fresh[0]
    places[key] = fresh
    dtype = x.dtype
    kind = lowering.operand(item, dtype) if isinstance(item, Value) else np.asarray(item)
    return picked(lowering, [x, kind], places, dtype)


def _written_at(lowering: Any, x: Any, key: tuple, item: Any) -> Value:
    """``x[i] = item`` for one number, at a place that is computed."""
    if len(key) != 1 or len(x.shape) != 1 or key[0].shape or np.shape(item):
        raise UnsupportedError("a write to places that are computed from the slice")
    place = place_of(lowering, key[0], x.shape[0])
    here = lowering.builder.ufunc(np.equal, place, np.arange(x.shape[0]))
    item = lowering.operand(item, x.dtype)
    found: Value = lowering.builder.where(here, item, lowering.operand(x, x.dtype))
    return found


def place_of(lowering: Any, index: Any, length: int) -> Value:
    """A computed index as NumPy has it: negative ones count from the end, others raise."""
    if not isinstance(index, Value) or index.dtype.kind not in "iu" or index.dtype == np.uint64:
        raise UnsupportedError("an index that is not an integer")
    index = lowering.operand(index, np.int64)
    index = lowering.builder.where(index < 0, index + length, index)
    lowering.mark((index < 0) | (index >= length))
    ufunc = lowering.builder.ufunc
    found: Value = ufunc(np.minimum, ufunc(np.maximum, index, 0), length - 1)
    return found


def taken(lowering: Any, x: Any, places: Value) -> Value:
    """The numbers of a flat value or constant at some places, which are there."""
    x = lowering.operand(x, x.dtype)
    flat = lowering.shaped(places, (int(np.prod(places.shape)),))
    found: Value = lowering.op("take_along_axis", x, flat, axis=0)
    return lowering.shaped(found, places.shape)  # type: ignore[no-any-return]


def gathered(lowering: Any, x: Any, key: tuple) -> Value:
    """``x[key]`` by integers that are computed from the slice."""
    x = x if isinstance(x, Value) else np.asarray(x)
    if len(key) != len(x.shape) or any(isinstance(k, (slice, bool)) for k in key):
        raise UnsupportedError("an index that is computed from the slice beside a slice")
    at: Any = 0
    for k, length in zip(key, x.shape, strict=True):
        if isinstance(k, Value):
            k = place_of(lowering, k, length)
        elif np.asarray(k).dtype.kind in "iu":
            k = np.where(np.asarray(k) < 0, np.asarray(k) + length, k)
        else:
            raise UnsupportedError("an index by a mask")
        at = at * length + k
    if isinstance(x, Value):
        x = lowering.shaped(x, (int(np.prod(x.shape)),))
    else:
        x = np.ascontiguousarray(x).reshape(-1)
    return taken(lowering, x, at)


def _take(lowering: Any, a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Value:
    if axis not in (None, 0, -1) or mode != "raise":
        raise UnsupportedError(f"take along axis {axis}, mode {mode!r}")
    a = a if isinstance(a, Value) else np.asarray(a)
    if axis is not None and len(a.shape) != 1:
        raise UnsupportedError(f"take along axis {axis} of {len(a.shape)} axes")
    length = int(np.prod(a.shape))
    flat = lowering.shaped(a, (length,)) if isinstance(a, Value) else a.reshape(-1)
    if not isinstance(indices, Value):
        return picked(
            lowering,
            [flat],
            np.arange(length)[np.asarray(indices, None if np.size(indices) else int)],
        )
    return taken(lowering, flat, place_of(lowering, indices, length))


def _outer(lowering: Any, a: Any, b: Any) -> Value:
    parts = [x if isinstance(x, Value) else np.asarray(x) for x in (a, b)]
    rows, columns = (int(np.prod(x.shape)) for x in parts)
    shapes = ((rows, 1), (1, columns))
    wide = [
        lowering.shaped(x, s) if isinstance(x, Value) else x.reshape(s)
        for x, s in zip(parts, shapes, strict=True)
    ]
    found: Value = lowering.builder.ufunc(np.multiply, *wide)
    return found


def _kron(lowering: Any, a: Any, b: Any) -> Value:
    if any(len(x.shape if isinstance(x, Value) else np.shape(x)) != 1 for x in (a, b)):
        raise UnsupportedError("kron of values of several axes")
    found = _outer(lowering, a, b)
    return lowering.shaped(found, (int(np.prod(found.shape)),))  # type: ignore[no-any-return]


# --- neighbours -----------------------------------------------------------------------------


def vector(x: Any) -> Value:
    """A value of one axis that is not empty."""
    if not isinstance(x, Value) or len(x.shape) != 1 or not x.shape[0]:
        raise UnsupportedError("a value of other than one axis")
    return x


def part(lowering: Any, x: Value, start: int, stop: int | None, step: int = 1) -> Value:
    """``x[start:stop:step]``, of a value of one axis."""
    found: Value = lowering.op("index", x, key=((start, stop, step),))
    return found


def number(lowering: Any, x: Value, k: int) -> Value:
    """``x[k]``."""
    found: Value = lowering.op("index", x, key=(k % x.shape[0],))
    return found


def joined(lowering: Any, *parts: Value) -> Value:
    """Values one after the other; numbers have no axis."""
    wide = [lowering.shaped(p, (1,)) if not p.shape else p for p in parts]
    found: Value = wide[0] if len(wide) == 1 else lowering.op("concat", *wide, axis=0)
    return found


def along(axis: Any) -> None:
    """Refuse axes that a value of one axis does not have."""
    if axis not in (None, 0, -1):
        raise UnsupportedError(f"axis {axis}")


def _diff(
    lowering: Any, a: Any, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None
) -> Value:
    along(axis)
    pieces = [
        x if isinstance(x, Value) or np.ndim(x) else np.asarray(x).reshape(1)
        for x in (prepend, a, append)
        if x is not None
    ]
    if len(pieces) > 1:
        sources: list[Any] = []
        numbered = [_numbered(p, sources).reshape(-1) for p in pieces]
        a = picked(lowering, sources, np.concatenate(numbered))
    x = vector(a)
    for _ in range(int(n)):
        length = x.shape[0]
        if length < 2:
            raise UnsupportedError("differences of too few numbers")
        later, earlier = part(lowering, x, 1, length), part(lowering, x, 0, length - 1)
        ufunc = np.not_equal if x.dtype == bool else np.subtract
        x = lowering.builder.ufunc(ufunc, later, earlier)
    return x


def _gradient(lowering: Any, f: Any, *, axis: Any = None, edge_order: int = 1) -> Any:
    along(axis)
    x = vector(f)
    if edge_order != 1 or x.shape[0] < 2 or x.dtype == bool:
        raise UnsupportedError("a gradient of this kind")
    if x.dtype.kind in "iu":
        x = lowering.operand(x, np.float64)
    n = x.shape[0]
    ends = [
        (number(lowering, x, 1) - number(lowering, x, 0)) / 1.0,
        (number(lowering, x, n - 1) - number(lowering, x, n - 2)) / 1.0,
    ]
    found = [ends[0]]
    if n > 2:
        found.append((part(lowering, x, 2, n) - part(lowering, x, 0, n - 2)) / 2.0)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    return joined(lowering, *(lowering.operand(p, dtype) for p in (*found, ends[1])))


def _trapezoid(lowering: Any, y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Value:
    along(axis)
    y = vector(y)
    if isinstance(x, Value) or y.dtype.kind != "f":
        raise UnsupportedError("an integral of this kind")
    n = y.shape[0]
    d = dx if x is None else np.diff(np.asarray(x))
    terms = d * (part(lowering, y, 1, n) + part(lowering, y, 0, n - 1)) / 2.0
    found: Value = lowering.op("sum", terms, axis=(0,), keepdims=False)
    return found


def windows(lowering: Any, x: Any, taps: int, count: int) -> Value:
    """``(taps, count)``: in row j the numbers of `x` from j on."""
    rows = [lowering.shaped(part(lowering, x, j, j + count), (1, count)) for j in range(taps)]
    found: Value = rows[0] if taps == 1 else lowering.op("concat", *rows, axis=0)
    return found


def padded(lowering: Any, x: Value, before: int, after: int, value: Any = 0) -> Value:
    """`x` with constants on both sides."""
    fill = np.full(before + after, value, x.dtype)
    n = x.shape[0]
    places = [n + np.arange(before), np.arange(n), n + before + np.arange(after)]
    return picked(lowering, [x, fill], np.concatenate(places), x.dtype)


def _correlation(lowering: Any, x: Value, taps: np.ndarray, mode: str, turned: bool) -> Value:
    """Sums of products of `x` and the constants that it slides along; zeros are around it."""
    dtype = np.result_type(x.dtype, taps.dtype)
    m, k = x.shape[0], len(taps)
    if dtype.kind not in "iuf" or k > m:
        raise UnsupportedError(f"a convolution of {m} numbers with {k}, {dtype}")
    inner = np.dtype(np.float32) if dtype == np.float16 else dtype
    if mode not in ("full", "same", "valid"):
        raise UnsupportedError(f"a convolution of mode {mode!r}")
    start, length = windows_of(mode, m, k, turned)
    values = lowering.operand(x, inner)
    low, high = start - (k - 1), start + length  # of the windows, in `values`
    # only products of numbers that are there: no NaN of a tap meets a zero beside the slice
    if not np.isfinite(taps).all():
        raise UnsupportedError("a convolution with what is not finite")
    wide = padded(lowering, values, max(0, -low), max(0, high - m))
    wide = part(lowering, wide, max(0, low), max(0, low) + length + k - 1)
    if inner.kind == "f":
        rows = windows(lowering, wide, k, length)
        found = lowering.op(
            "einsum", rows, lowering.operand(taps.astype(inner), inner), subscripts="km,k->m"
        )
    else:
        found = None
        for j, tap in enumerate(taps.astype(inner)):
            if tap:
                term = part(lowering, wide, j, j + length) * tap
                found = term if found is None else found + term
        if found is None:
            raise UnsupportedError("a convolution with zeros")
    result: Value = lowering.operand(found, dtype)
    return result


def _correlation_of_two(lowering: Any, x: Value, taps: Value, mode: str) -> Value:
    """Correlate two values of the slice: one sum of products per place."""
    dtype = np.result_type(x.dtype, taps.dtype)
    m, k = x.shape[0], taps.shape[0]
    if mode not in ("full", "same", "valid") or dtype.name not in ("float32", "float64"):
        raise UnsupportedError(f"a convolution of mode {mode!r}, {dtype}")
    x, taps = lowering.operand(x, dtype), lowering.operand(taps, dtype)
    start, length = windows_of(mode, m, k, False)
    if length > _MOST_PIECES // 4:
        raise UnsupportedError(f"{length} sums of products")
    found = []
    for first in range(start - (k - 1), start - (k - 1) + length):
        low, high = max(0, -first), min(k, m - first)
        pair = part(lowering, x, first + low, first + high), part(lowering, taps, low, high)
        found.append(lowering.op("einsum", *pair, subscripts="m,m->"))
    return joined(lowering, *found)


def _convolve(lowering: Any, a: Any, v: Any, mode: str = "full") -> Value:
    if isinstance(a, Value) and isinstance(v, Value):
        a, v = (a, v) if vector(a).shape[0] >= vector(v).shape[0] else (v, a)
        taps = part(lowering, v, v.shape[0] - 1, None, -1)
        return _correlation_of_two(lowering, a, taps, mode)
    x, taps = (a, v) if isinstance(a, Value) else (v, a)
    return _correlation(lowering, vector(x), np.atleast_1d(taps)[::-1], mode, False)


def _correlate(lowering: Any, a: Any, v: Any, mode: str = "valid") -> Value:
    if isinstance(a, Value) and isinstance(v, Value):
        if vector(a).shape[0] >= vector(v).shape[0]:
            return _correlation_of_two(lowering, a, v, mode)
        found = _correlation_of_two(lowering, v, a, mode)
        return part(lowering, found, found.shape[0] - 1, None, -1)
    if not isinstance(a, Value) or isinstance(v, Value):
        raise UnsupportedError("a correlation of this kind")
    return _correlation(lowering, vector(a), np.atleast_1d(v), mode, False)


def _ones(value: Any) -> Callable[..., Any]:
    """``zeros_like`` and its kin: a constant."""

    def lowered(lowering: Any, a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Any:
        if shape is not None:
            raise UnsupportedError("another shape")
        return np.full(a.shape, value, a.dtype if dtype is None else dtype)

    return lowered


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"numpy.{name}": moved(name, "m") for name in ("flip", "fliplr", "flipud", "rot90")},
    **{f"numpy.{name}": moved(name, "a") for name in ("roll", "repeat", "resize", "diagonal")},
    **{f"numpy.{name}": moved(name, "v") for name in ("diag", "diagflat")},
    "numpy.tile": moved("tile", "A"),
    "numpy.append": moved("append", "arr", "values"),
    "numpy.insert": _insert,
    "numpy.delete": moved("delete", "arr"),
    "numpy.hstack": moved("hstack", "tup"),
    "numpy.vstack": moved("vstack", "tup"),
    "numpy.column_stack": moved("column_stack", "tup"),
    "numpy.moveaxis": moved("moveaxis", "a"),
    "numpy.swapaxes": moved("swapaxes", "a"),
    "numpy.broadcast_to": moved("broadcast_to", "array"),
    "numpy.pad": _pad,
    "numpy.outer": _outer,
    "numpy.kron": _kron,
    "numpy.take": _take,
    "numpy.diff": _diff,
    "numpy.gradient": _gradient,
    "numpy.trapezoid": _trapezoid,
    "numpy.convolve": _convolve,
    "numpy.correlate": _correlate,
    "numpy.zeros_like": _ones(0),
    "numpy.ones_like": _ones(1),
    "numpy.empty_like": _ones(0),
}
"""Lowerings by names of functions."""
CALLS: dict[str, Callable[..., Any]] = {
    "write": written,
    "index by traced integers": gathered,
}
"""Lowerings by names of batching rules."""
