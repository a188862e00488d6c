"""Batching rules of single NumPy functions; `numpy` has the rows."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import threads
from . import NoRule, OneByOne, Rows
from .rules import Rule, aligned, batch_size, elementwise, leaves, mapped, results, shifted


class Awkward(Exception):
    """Arguments that are not worth a batched way: the function is called once per slice."""


# -- what the rules share -----------------------------------------------------------------------


def no_output(given: dict) -> None:
    """Refuse to write into an argument."""
    if given.get("out") is not None:
        raise NoRule("out=")


def is_data(name: str, x: Any, axis_name: str) -> bool:
    """Whether a plain argument is numbers that are combined with those of a slice."""
    return name != axis_name and not isinstance(x, (Rows, str, type, np.dtype, tuple))


def contiguous(xp: Any) -> Callable[[Rows], Rows]:
    """Make operands C-contiguous."""
    return lambda x: x if x.array.flags.c_contiguous else Rows(xp.ascontiguousarray(x.array))


def rule(function: Callable[..., Any]) -> Rule:
    """The rule of a function with the parameters of the NumPy function behind `xp` and `call`."""

    def call_rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        no_output(kwargs)
        kwargs = {k: x for k, x in kwargs.items() if k != "out"}
        try:
            return function(xp, call, *args, **kwargs)
        except Awkward:
            return by_rows(xp, call, args, kwargs)

    return call_rule


def by_rows(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Call the function once per slice."""
    no_output(kwargs)
    found = []
    for b in range(batch_size((args, kwargs))):
        threads.check()
        one = functools.partial(mapped, functools.partial(_slice, b))
        found.append(call(*one(args), **one(kwargs)))
    return _stack(xp, found)


def _slice(b: int, x: Rows) -> Any:
    return x.array[b]


def _stack(xp: Any, found: list[Any]) -> Any:
    first = found[0]
    if isinstance(first, (tuple, list)):
        if len({len(x) for x in found}) > 1:
            raise NoRule("results of different lengths")
        parts = [_stack(xp, list(x)) for x in zip(*found, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    arrays = [xp.asarray(x) for x in found]
    if len({(x.shape, x.dtype) for x in arrays}) > 1:
        raise NoRule("results of different shapes or dtypes")
    return OneByOne(xp.stack(arrays))


def as_rows(xp: Any, x: Any, n: int) -> Rows:
    """A constant as the same value for each of `n` slices."""
    if isinstance(x, Rows):
        return x
    x = xp.asarray(x)
    return Rows(xp.broadcast_to(x, (n, *x.shape)))


def infinite_products(xp: Any, *operands: Any) -> bool:
    """Whether there are products of complex infinities or NaN.

    BLAS computes them in another way for vectors than for matrices.
    """
    arrays = [x.array if isinstance(x, Rows) else xp.asarray(x) for x in operands]
    if xp is not np or all(x.dtype.kind != "c" for x in arrays):
        return False
    return not all(bool(np.isfinite(x).all()) for x in arrays)


def flat(x: Rows) -> Any:
    """The values of each slice in one axis."""
    return x.array.reshape(x.array.shape[0], -1)


def traced(x: Any) -> bool:
    """Whether there are `Rows` in arguments."""
    return any(True for _ in leaves(x))


def constant(*xs: Any) -> None:
    """Refuse `Rows` for what may decide on the shape of the result."""
    if traced(xs):
        raise NoRule("an argument that other functions take from the data is not constant")


def plain(*xs: Any) -> None:
    """Take `Rows` only where a rule expects them."""
    if traced(xs):
        raise Awkward


# -- moving values ------------------------------------------------------------------------------


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
        if "dtype" in kwargs or kwargs.get("order") in ("A", "K") or "casting" in kwargs:
            if any(p.ndim > 1 for p in pieces) and "order" in kwargs:
                raise NoRule("the order in memory")
            named = {k: x for k, x in named.items() if k not in ("dtype", "casting")}
        first = lambda x: x.array[0]  # noqa: E731
        example = call(*mapped(first, args), **mapped(first, kwargs))
        index = here(*numbered, *rest, **named)
        return _moved(xp, index, example, pieces, batch_size((args, kwargs)))

    return rule


def _numbered(x: Any, pieces: list[Any]) -> Any:
    """The numbers of the elements of `x`, after those of `pieces`, which it is added to."""
    if isinstance(x, (list, tuple)) and traced(x):
        return type(x)([_numbered(y, pieces) for y in x])
    piece = x if isinstance(x, Rows) else np.asarray(x)
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
        return Rows(xp.zeros((n, *index.shape), example.dtype))
    low, high = int(index.min()), int(index.max())
    used, start = [], 1
    for piece in pieces:
        if start <= high and start + _size(piece) > low:
            used.append((start, piece))
        start += _size(piece)
    if not any(isinstance(p, Rows) for _, p in used):
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
    return Rows(_columns(xp, source, columns).reshape(n, *index.shape))


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
    return Rows(a.array.copy())


def array(xp: Any, call: Any, object: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """`array` and its kin, of a value or of lists of values."""
    constant(dtype, kwargs)
    if kwargs.get("copy", True) is False or kwargs.get("like") is not None:
        raise NoRule("copy=False")
    if not isinstance(object, Rows) and dtype is not None:
        target = np.dtype(dtype).kind
        if any(x.dtype.kind != target for x in leaves(object)):
            raise Awkward  # numbers in lists are converted one by one
    if dtype is not None:
        kwargs["dtype"] = dtype
    return moves("object")(xp, call, (object,), kwargs)


def astype(xp: Any, call: Any, x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """Another dtype."""
    return Rows(x.array.astype(dtype, copy=copy))


def pad(xp: Any, call: Any, array: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    """All modes that move values, and constants."""
    constant(pad_width, kw)
    if isinstance(pad_width, dict):
        raise Awkward
    move = moves("array", "array pad_width mode")
    if mode in ("edge", "symmetric", "reflect", "wrap") and kw.get("reflect_type") != "odd":
        return move(xp, call, (array, pad_width, mode), kw)
    if mode in ("maximum", "minimum", "mean", "median"):
        widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
        if np.ndim(kw.get("stat_length", 0)) == 0:
            return Rows(call(array.array, [(0, 0), *map(tuple, widths)], mode, **kw))
    if mode != "constant":
        raise Awkward
    found = move(xp, call, (array, pad_width), {})
    if np.any(kw.get("constant_values", 0)):
        outside = np.pad(np.zeros(array.shape, bool), pad_width, constant_values=True)
        values = np.pad(np.zeros(array.shape, array.dtype), pad_width, **kw)
        if outside.any():
            found.array[:, xp.asarray(outside)] = xp.asarray(values[outside])
    return found


def roll(xp: Any, call: Any, a: Any, shift: Any, axis: Any = None) -> Any:
    """By the same number, or each slice of one axis by its own."""
    if not isinstance(shift, Rows):
        return moves("a", "a shift axis")(xp, call, (a, shift, axis), {})
    if shift.ndim or shift.dtype.kind not in "iu" or (axis not in (None, 0, -1)):
        raise Awkward
    a = as_rows(xp, a, batch_size(shift))
    if a.ndim != 1 or a.shape[0] == 0:
        raise Awkward
    n = a.shape[0]
    places = (xp.arange(n) - shift.array.astype(np.intp)[:, None]) % n
    return Rows(xp.take_along_axis(a.array, places, axis=1))


def take(xp: Any, call: Any, a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """Constant places in a slice, places of each slice in a constant, or both."""
    constant(axis, mode)
    others = {} if mode == "raise" else {"mode": mode}  # CuPy has no other
    if not isinstance(indices, Rows):
        return moves("a", "a indices axis")(xp, call, (a, indices, axis), others)
    if not isinstance(a, Rows):
        if axis is None:
            return Rows(call(a, indices.array, **others))
        axis = axis % np.ndim(a)
        return Rows(xp.moveaxis(call(a, indices.array, axis=axis, **others), axis, 0))
    if indices.dtype.kind not in "iu" or mode != "raise" or (axis is not None and a.ndim != 1):
        raise Awkward
    found = xp.take_along_axis(flat(a), flat(indices), axis=1)
    return Rows(found.reshape(indices.array.shape))


def take_along_axis(xp: Any, call: Any, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Constants are repeated for each slice."""
    n = batch_size((arr, indices))
    arr, indices = as_rows(xp, arr, n), as_rows(xp, indices, n)
    if arr.ndim != indices.ndim or arr.ndim == 0:
        raise Awkward
    if axis is None:
        if indices.ndim != 1:
            raise Awkward
        return Rows(call(flat(arr), indices.array, axis=1))
    return Rows(call(arr.array, indices.array, axis=shifted(axis, arr.ndim)))


# -- elementwise --------------------------------------------------------------------------------


def where(xp: Any, call: Any, condition: Any, *values: Any) -> Any:
    """With three arguments."""
    if len(values) != 2:
        raise NoRule("where without values: the shape depends on the data")
    return elementwise(xp, call, (condition, *values), {})


def _lined_up(*trees: Any) -> tuple[Any, ...]:
    """Lists of operands with their axes lined up behind the batch axis."""
    ndim = max(x.ndim if isinstance(x, Rows) else np.ndim(x) for tree in trees for x in tree)
    return tuple([aligned(x, ndim) if isinstance(x, Rows) else x for x in t] for t in trees)


def _listed(x: Any) -> list[Any]:
    """The operands in a list, or in an array along its first axis."""
    if isinstance(x, Rows):
        return [Rows(x.array[:, i]) for i in range(x.shape[0])]
    return list(x)


def select(xp: Any, call: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """All operands lined up."""
    conditions, choices, last = _lined_up(_listed(condlist), _listed(choicelist), [default])
    return Rows(call(conditions, choices, last[0]))


def choose(xp: Any, call: Any, a: Any, choices: Any, mode: str = "raise") -> Any:
    """All operands lined up."""
    first, rest = _lined_up([a], _listed(choices))
    if xp is not np:  # CuPy takes one array
        rest = xp.stack(xp.broadcast_arrays(*map(xp.asarray, rest)))
    return Rows(call(first[0], rest, mode=mode))


def piecewise(xp: Any, call: Any, x: Any, condlist: Any, funclist: Any, *args: Any) -> Any:
    """Pieces that are numbers; functions of parts of a slice are not known."""
    constant(funclist)
    if args or any(callable(f) for f in funclist):
        raise NoRule("functions in piecewise")
    if not isinstance(x, Rows) or (isinstance(condlist, Rows) and condlist.ndim <= x.ndim):
        raise Awkward
    conditions = _listed(condlist)
    n = x.array.shape[0]
    if any(as_rows(xp, c, n).shape != x.shape for c in conditions):
        raise Awkward
    conditions = [as_rows(xp, c, n).array for c in conditions]
    return Rows(call(x.array, conditions, funclist))


def isin(
    xp: Any,
    call: Any,
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """One set for all slices, or a small set of each slice."""
    if assume_unique:
        raise NoRule("assume_unique: elements of several slices are not")
    if not isinstance(test_elements, Rows):
        given = {} if kind is None else {"kind": kind}  # which CuPy does not have
        return Rows(call(element.array, test_elements, invert=invert, **given))
    element = as_rows(xp, element, batch_size(test_elements))
    if {element.dtype.kind, test_elements.dtype.kind} == {"i", "u"}:
        raise Awkward
    found = xp.zeros(element.array.shape, bool)
    for k in range(flat(test_elements).shape[1]):
        found |= element.array == aligned(Rows(flat(test_elements)[:, k]), element.ndim)
    return Rows(~found if invert else found)


def digitize(xp: Any, call: Any, x: Any, bins: Any, right: bool = False) -> Any:
    """The same bins for all slices."""
    plain(bins, right)
    if np.isnan(np.asarray(bins)).any():
        raise Awkward
    return Rows(call(x.array, bins, right=right))


def like(xp: Any, call: Any, prototype: Any, *args: Any, **kwargs: Any) -> Any:
    """`zeros_like` and its kin."""
    if kwargs.get("shape") is not None or len(args) > 3:
        raise Awkward
    return Rows(call(prototype.array, *args, **kwargs))


def full_like(xp: Any, call: Any, a: Any, fill_value: Any, *args: Any, **kwargs: Any) -> Any:
    """`full_like` of a value, with a value, or both."""
    if kwargs.get("shape") is not None or len(args) > 3:
        raise Awkward
    a = as_rows(xp, a, batch_size((a, fill_value)))
    fill = aligned(fill_value, a.ndim) if isinstance(fill_value, Rows) else fill_value
    return Rows(call(a.array, fill, *args, **kwargs))


def _all(x: Rows) -> Rows:
    return Rows(x.array.reshape(x.array.shape[0], -1).all(axis=1))


def array_equal(xp: Any, call: Any, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """One bool per slice."""
    n = batch_size((a1, a2))
    a1, a2 = as_rows(xp, a1, n), as_rows(xp, a2, n)
    if a1.shape != a2.shape:
        return False
    same = a1.array == a2.array
    if equal_nan:
        if {a1.dtype.kind, a2.dtype.kind} - set("biufc"):
            raise Awkward
        same |= (a1.array != a1.array) & (a2.array != a2.array)
    return _all(Rows(same))


def array_equiv(xp: Any, call: Any, a1: Any, a2: Any) -> Any:
    """One bool per slice."""
    one, other = _lined_up([a1], [a2])
    a, b = xp.asarray(one[0]), xp.asarray(other[0])
    try:
        np.broadcast_shapes(*(x.shape if isinstance(x, Rows) else np.shape(x) for x in (a1, a2)))
    except ValueError:
        return False
    return _all(Rows(a == b))


def allclose(xp: Any, call: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """One bool per slice."""
    return _all(elementwise(xp, xp.isclose, (a, b, *args), kwargs))


# -- along an axis ------------------------------------------------------------------------------


def diff(
    xp: Any, call: Any, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Any:
    """With values in front and behind put there first."""
    constant(n, axis)
    if prepend is None and append is None:
        if a.ndim == 0:
            raise Awkward
        return Rows(call(a.array, n=n, axis=shifted(axis, a.ndim)))
    if n < 1:
        raise Awkward
    size = batch_size((a, prepend, append))
    a = as_rows(xp, a, size)
    parts = []
    for x in (prepend, a, append):
        if x is not None:
            x = as_rows(xp, x, size)
            if x.ndim == 0:
                x = Rows(aligned(x, a.ndim))
                shape = list(a.array.shape)
                shape[shifted(axis, a.ndim)] = 1
                x = Rows(xp.broadcast_to(x.array, shape))
            parts.append(x.array)
    if len({p.ndim for p in parts}) > 1 or a.ndim == 0:
        raise Awkward
    axis = shifted(axis, a.ndim)
    return Rows(call(xp.concatenate(parts, axis), n=n, axis=axis))


def ediff1d(xp: Any, call: Any, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences with values in front and behind in the dtype of the array."""
    n = batch_size((ary, to_end, to_begin))
    example = call(*mapped(lambda x: x.array[0], (ary, to_end, to_begin)))
    a = flat(as_rows(xp, ary, n))
    parts = [xp.subtract(a[:, 1:], a[:, :-1])]
    if to_begin is not None:
        parts.insert(0, flat(as_rows(xp, to_begin, n)).astype(example.dtype))
    if to_end is not None:
        parts.append(flat(as_rows(xp, to_end, n)).astype(example.dtype))
    return Rows(xp.concatenate(parts, axis=1))


def gradient(
    xp: Any, call: Any, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1
) -> Any:
    """With constant spacings."""
    constant(axis, edge_order)
    plain(varargs)
    if not isinstance(f, Rows) or f.ndim == 0:
        raise Awkward
    axes = tuple(range(-f.ndim, 0)) if axis is None else axis
    if isinstance(axes, tuple):
        axes = shifted(axes, f.ndim)
        axes = axes[0] if len(axes) == 1 else axes
    else:
        axes = shifted(axes, f.ndim)
    return results(call(f.array, *varargs, axis=axes, edge_order=edge_order))


def trace(
    xp: Any, call: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Any:
    """The sums of the diagonals."""
    if a.ndim < 2:
        raise Awkward
    axes = shifted((axis1, axis2), a.ndim)
    return Rows(call(contiguous(xp)(a).array, offset, *axes, dtype=dtype))


def _deep(x: Any) -> bool:
    return not isinstance(x, Rows) and np.ndim(x) > 1


def trapezoid(xp: Any, call: Any, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Constants are repeated for each slice."""
    n = batch_size((y, x, dx))
    constant(axis)
    if isinstance(dx, Rows):
        raise Awkward
    y = as_rows(xp, y, n)
    if y.ndim == 0 or (isinstance(x, Rows) and x.ndim != y.ndim) or _deep(0 if x is None else x):
        raise Awkward
    axis = shifted(axis, y.ndim)
    x = x.array if isinstance(x, Rows) else x
    return Rows(call(xp.ascontiguousarray(y.array), x, dx=dx, axis=axis))


def average(
    xp: Any,
    call: Any,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Of one axis, with weights of that axis."""
    n = batch_size((a, weights))
    a = as_rows(xp, a, n)
    if weights is None and axis is not None and a.ndim > 0:
        array = xp.ascontiguousarray(a.array)
        axis = shifted(axis, a.ndim)
        return results(call(array, axis=axis, returned=returned, keepdims=keepdims))
    if a.ndim != 1:
        raise Awkward
    if weights is not None:
        weights = as_rows(xp, weights, n)
        if weights.shape != a.shape:
            raise Awkward
        weights = xp.ascontiguousarray(weights.array)
    if axis is not None:
        shifted(axis, 1)
    array = xp.ascontiguousarray(a.array)
    return results(call(array, axis=-1, weights=weights, returned=returned, keepdims=keepdims))


def lexsort(xp: Any, call: Any, keys: Any, axis: int = -1) -> Any:
    """Keys of one axis."""
    n = batch_size(keys)
    listed = [as_rows(xp, k, n) for k in _listed(keys)]
    if any(k.ndim != 1 for k in listed) or axis not in (-1, 0):
        raise Awkward
    if xp is np:
        return Rows(call([k.array for k in listed], axis=-1))
    order = xp.broadcast_to(xp.arange(listed[0].shape[0]), listed[0].array.shape)
    for key in listed:  # CuPy's has no axis; its argsort is stable
        place = xp.argsort(xp.take_along_axis(key.array, order, axis=1), axis=1)
        order = xp.take_along_axis(order, place, axis=1)
    return Rows(order)


def packbits(xp: Any, call: Any, a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`packbits` and `unpackbits`."""
    if xp is not np and (axis is None or a.ndim == 1) and not args:  # CuPy's have no axis
        x = flat(a)
        if call.__name__ == "packbits":
            wide = xp.zeros((len(x), -(-x.shape[1] // 8) * 8), x.dtype)
            wide[:, : x.shape[1]] = x
            x = wide
        return Rows(call(x.ravel(), **kwargs).reshape(len(x), -1))
    if axis is None:
        return Rows(call(flat(a), -1, *args, **kwargs))
    return Rows(call(a.array, shifted(axis, a.ndim), *args, **kwargs))


def all_axes(xp: Any, call: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Transforms along all axes of a slice unless told which."""
    if a.ndim == 0:
        raise Awkward
    if axes is None:
        axes = tuple(range(-a.ndim if s is None else -len(s), 0))
    axes = shifted(tuple(axes), a.ndim)
    return Rows(call(a.array, s=s, axes=axes, norm=norm))


def quantile(
    xp: Any,
    call: Any,
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: Any = None,
) -> Any:
    """`percentile` and `quantile`: the axis of a vector `q` comes first in each slice's result."""
    constant(axis, method)
    plain(q)
    if out is not None or overwrite_input or interpolation is not None:
        raise NoRule("quantile in place")
    if weights is not None or a.ndim == 0 or (axis is None and a.ndim > 1 and keepdims):
        raise Awkward
    array = flat(a) if axis is None else a.array
    axis = -1 if axis is None else shifted(axis, a.ndim)
    found = call(array, q, axis=axis, method=method, keepdims=keepdims)
    return Rows(xp.ascontiguousarray(xp.moveaxis(found, np.ndim(q), 0)))


def nanquantile(xp: Any, call: Any, a: Any, q: Any, axis: Any = None, **kw: Any) -> Any:
    """Rows with as many NaNs go together through `quantile`, without them."""
    constant(axis)
    plain(q)
    if kw.get("overwrite_input"):
        raise NoRule("quantile in place")
    without = getattr(xp, call.__name__.removeprefix("nan"))
    if kw.keys() - {"method"}:
        raise Awkward
    return _without_nans(xp, lambda x: quantile(xp, without, Rows(x), q, -1, **kw).array, a, axis)


def nanmedian(xp: Any, call: Any, a: Any, axis: Any = None, **kw: Any) -> Any:
    """Rows with as many NaNs go together through `median`, without them."""
    if kw.get("overwrite_input"):
        raise NoRule("median in place")
    if kw:
        raise Awkward
    return _without_nans(xp, lambda x: xp.median(x, axis=-1), a, axis)


def _without_nans(xp: Any, function: Callable[[Any], Any], a: Rows, axis: Any) -> Rows:
    if a.ndim == 0 or a.array.size == 0:
        raise Awkward
    if axis is None or a.ndim == 1:
        shifted(axis or 0, 1)
        outer, x = a.array.shape[:1], flat(a)
    elif shifted(axis, a.ndim) in (-1, a.ndim):
        outer, x = a.array.shape[:-1], a.array.reshape(-1, a.shape[-1])
    else:
        raise Awkward
    missing = xp.isnan(x)
    counts = (~missing).sum(axis=1)
    found: Any = None
    if not missing.any():
        found = function(x)
    else:
        x = xp.take_along_axis(x, xp.argsort(missing, axis=1, kind="stable"), axis=1)
    for count in np.unique(np.asarray(counts)) if missing.any() else ():
        if count:
            part = function(x[counts == count, :count])
            if found is None:
                found = xp.full((len(x), *part.shape[1:]), np.nan, part.dtype)
            found[counts == count] = part
    if bool((counts == 0).any()):
        if found is None or found.dtype != x.dtype:
            raise Awkward  # such a result has the dtype of the input
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    if len(outer) > 1 and found.ndim > 1:
        raise Awkward  # the axis of `q` comes first
    return Rows(found.reshape(*outer, *found.shape[1:]))


def ravel_multi_index(
    xp: Any, call: Any, multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> Any:
    """`numpy.ravel_multi_index`: the indices may be one array, an axis after the other."""
    if isinstance(multi_index, Rows):
        multi_index = tuple(Rows(multi_index.array[:, k]) for k in range(multi_index.shape[0]))
    ndim = max(k.ndim if isinstance(k, Rows) else np.ndim(k) for k in multi_index)
    given = tuple(aligned(k, ndim) if isinstance(k, Rows) else k for k in multi_index)
    return Rows(call(given, dims, mode=mode, order=order))


def unravel_index(xp: Any, call: Any, indices: Any, shape: Any, order: str = "C") -> Any:
    """`numpy.unravel_index`."""
    return tuple(Rows(k) for k in call(indices.array, shape, order=order))
