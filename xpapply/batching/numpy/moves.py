"""Batching rules of NumPy functions that move values: copies, padding, rolling, taking."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, constant, flat, no_output, traced
from ..rules import Rule, batch_size, leaves, mapped, shifted


def moves(data: str, names: str | None = None) -> Rule:
    """A rule for functions that only move values of the arguments named `data` around.

    The function runs once, on arrays with the number of each element from 1 on; zeros that it
    fills in stay 0. `names` are the parameters where `data` does not come first; "*" stands for
    all positional arguments.
    """
    moved = data.split()
    order = (names or data).split()

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        no_output(kwargs)
        here = call if xp is np else _of_numpy(call)
        pieces: list[Any] = []

        def taken(name: str, x: Any) -> Any:
            if name in moved or name == "*":
                return _numbered(x, pieces)
            constant(x)
            return x

        every = order if moved != ["*"] else ["*"] * len(args)
        numbered = [taken(n, x) for n, x in zip(every, args, strict=False)]
        rest = args[len(numbered) :]
        constant(rest)
        named = {k: taken("" if moved == ["*"] else k, x) for k, x in kwargs.items()}
        orders = [x for x in (*rest, kwargs.get("order")) if isinstance(x, str)]
        casts = {"dtype", "casting"}.intersection(kwargs)
        matters = {"A", "K"}.intersection(orders) or (casts and "order" in kwargs)
        if matters and any(p.ndim > 1 for p in pieces):
            raise NoRule("the order in memory")
        named = {k: x for k, x in named.items() if k not in casts}
        first = lambda x: x.array[0]  # noqa: E731
        example = call(*mapped(first, args), **mapped(first, kwargs))
        index = here(*numbered, *rest, **named)
        return _moved(xp, index, example, pieces, batch_size((args, kwargs)))

    return rule


def _numbered(x: Any, pieces: list[Any]) -> Any:
    """The numbers of the elements of `x`, after those of `pieces`, which it is added to."""
    if isinstance(x, (list, tuple)) and traced(x):
        return type(x)([_numbered(y, pieces) for y in x])
    piece = x if isinstance(x, Batched) else np.asarray(x)
    start = 1 + sum(_size(p) for p in pieces)
    pieces.append(piece)
    return np.arange(start, start + _size(piece)).reshape(piece.shape)


def _of_numpy(call: Any) -> Any:
    if hasattr(call, "of_numpy"):
        return call.of_numpy
    name = call.__name__
    found = (getattr(m, name) for m in (np, np.fft, np.linalg) if hasattr(m, name))
    # what only CuPy has, with numbers from the host and to it
    return next(found, lambda *args, **kwargs: call(*args, **kwargs).get())


def _size(piece: Any) -> int:
    return int(np.prod(piece.shape))


def _moved(xp: Any, index: Any, example: Any, pieces: list[Any], n: int) -> Any:
    """The values with the numbers `index` (0 is a zero), in the dtype of `example`."""
    if isinstance(index, (tuple, list)):
        pairs = zip(index, example, strict=True)
        return type(index)([_moved(xp, i, e, pieces, n) for i, e in pairs])
    index = np.asarray(index)
    if index.size == 0:
        return Batched(xp.zeros((n, *index.shape), example.dtype))
    low, high = int(index.min()), int(index.max())
    used, start = [], 1
    for piece in pieces:
        if start <= high and start + _size(piece) > low:
            used.append((start, piece))
        start += _size(piece)
    if not any(isinstance(p, Batched) for _, p in used):
        return example  # the same for each slice
    filled = low == 0
    columns = index.ravel() - (0 if filled else used[0][0])
    sources = [flat(as_rows(xp, p, n)) for _, p in used]
    if filled:
        columns = np.where(columns, columns - (used[0][0] - 1), 0)
        sources.insert(0, xp.zeros((n, 1), example.dtype))
    if len(sources) > 1:
        source = xp.concatenate([s.astype(example.dtype, copy=False) for s in sources], axis=1)
    else:
        source = sources[0].astype(example.dtype, copy=False)
    return Batched(_columns(xp, source, columns).reshape(n, *index.shape))


def _columns(xp: Any, source: Any, columns: Any) -> Any:
    """`source[:, columns]`, as a view where the columns follow each other in equal steps."""
    first = int(columns[0])
    step = int(columns[1]) - first if columns.size > 1 else 1
    if step and (columns.size < 2 or bool((np.diff(columns) == step).all())):
        stop = int(columns[-1]) + step
        return source[:, first : stop if stop >= 0 else None : step]
    return xp.take(source, xp.asarray(columns), axis=1)


def copy(xp: Any, call: Any, a: Any, order: Any = "K", subok: bool = False) -> Any:
    """A copy."""
    return Batched(a.array.copy())


def array(xp: Any, call: Any, object: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """`array` and its kin, of a value or of lists of values."""
    constant(dtype, kwargs)
    if kwargs.get("copy", True) is False or kwargs.get("like") is not None:
        raise NoRule("copy=False")
    if not isinstance(object, Batched) and dtype is not None:
        target = np.dtype(dtype).kind
        if any(x.dtype.kind != target for x in leaves(object)):
            raise Unsupported  # numbers in lists are converted one by one
    if dtype is not None:
        kwargs["dtype"] = dtype
    return moves("object")(xp, call, (object,), kwargs)


def astype(xp: Any, call: Any, x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """Another dtype."""
    return Batched(x.array.astype(dtype, copy=copy))


def pad(xp: Any, call: Any, array: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    """All modes that move values, and constants."""
    constant(pad_width, kw)
    if isinstance(pad_width, dict):
        raise Unsupported
    move = moves("array", "array pad_width mode")
    if mode in ("edge", "symmetric", "reflect", "wrap") and kw.get("reflect_type") != "odd":
        return move(xp, call, (array, pad_width, mode), kw)
    if mode in ("maximum", "minimum", "mean", "median"):
        widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
        if np.ndim(kw.get("stat_length", 0)) == 0:
            return Batched(call(array.array, [(0, 0), *map(tuple, widths)], mode, **kw))
    if mode != "constant":
        raise Unsupported
    found = move(xp, call, (array, pad_width), {})
    if np.any(kw.get("constant_values", 0)):
        outside = np.pad(np.zeros(array.shape, bool), pad_width, constant_values=True)
        values = np.pad(np.zeros(array.shape, array.dtype), pad_width, **kw)
        if outside.any():
            found.array[:, xp.asarray(outside)] = xp.asarray(values[outside])
    return found


def roll(xp: Any, call: Any, a: Any, shift: Any, axis: Any = None) -> Any:
    """Roll by one number, or each slice of one axis by its own."""
    if not isinstance(shift, Batched):
        return moves("a", "a shift axis")(xp, call, (a, shift, axis), {})
    if shift.ndim or shift.dtype.kind not in "iu" or (axis not in (None, 0, -1)):
        raise Unsupported
    a = as_rows(xp, a, batch_size(shift))
    if a.ndim != 1 or a.shape[0] == 0:
        raise Unsupported
    n = a.shape[0]
    places = (xp.arange(n) - shift.array.astype(np.intp)[:, None]) % n
    return Batched(xp.take_along_axis(a.array, places, axis=1))


def take(xp: Any, call: Any, a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """Constant places in a slice, places of each slice in a constant, or both."""
    constant(axis, mode)
    others = {} if mode == "raise" else {"mode": mode}  # CuPy has no other
    if not isinstance(indices, Batched):
        return moves("a", "a indices axis")(xp, call, (a, indices, axis), others)
    if not isinstance(a, Batched):
        if axis is None:
            return Batched(call(a, indices.array, **others))
        axis = axis % np.ndim(a)
        return Batched(xp.moveaxis(call(a, indices.array, axis=axis, **others), axis, 0))
    if indices.dtype.kind not in "iu" or mode != "raise" or (axis is not None and a.ndim != 1):
        raise Unsupported
    found = xp.take_along_axis(flat(a), flat(indices), axis=1)
    return Batched(found.reshape(indices.array.shape))


def take_along_axis(xp: Any, call: Any, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Constants are repeated for each slice."""
    n = batch_size((arr, indices))
    arr, indices = as_rows(xp, arr, n), as_rows(xp, indices, n)
    if arr.ndim != indices.ndim or arr.ndim == 0:
        raise Unsupported
    if axis is None:
        if indices.ndim != 1:
            raise Unsupported
        return Batched(call(flat(arr), indices.array, axis=1))
    return Batched(call(arr.array, indices.array, axis=shifted(axis, arr.ndim)))
