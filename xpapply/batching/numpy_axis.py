"""Batching rules of NumPy functions along an axis: differences, averages, quantiles, orders."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import Batched, NoRule
from .function_rules import Unsupported, as_rows, constant, contiguous, flat, operand_list, plain
from .rules import aligned, batch_size, mapped, results, shifted


def diff(
    xp: Any, call: Any, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Any:
    """With values before and after put there first."""
    constant(n, axis)
    if prepend is None and append is None:
        if a.ndim == 0:
            raise Unsupported
        return Batched(call(a.array, n=n, axis=shifted(axis, a.ndim)))
    if n < 1:
        raise Unsupported
    size = batch_size((a, prepend, append))
    a = as_rows(xp, a, size)
    parts = []
    for x in (prepend, a, append):
        if x is not None:
            x = as_rows(xp, x, size)
            if x.ndim == 0:
                x = Batched(aligned(x, a.ndim))
                shape = list(a.array.shape)
                shape[shifted(axis, a.ndim)] = 1
                x = Batched(xp.broadcast_to(x.array, shape))
            parts.append(x.array)
    if len({p.ndim for p in parts}) > 1 or a.ndim == 0:
        raise Unsupported
    axis = shifted(axis, a.ndim)
    return Batched(call(xp.concatenate(parts, axis), n=n, axis=axis))


def ediff1d(xp: Any, call: Any, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences with values before and after in the dtype of the array."""
    n = batch_size((ary, to_end, to_begin))
    example = call(*mapped(lambda x: x.array[0], (ary, to_end, to_begin)))
    a = flat(as_rows(xp, ary, n))
    parts = [xp.subtract(a[:, 1:], a[:, :-1])]
    if to_begin is not None:
        parts.insert(0, flat(as_rows(xp, to_begin, n)).astype(example.dtype))
    if to_end is not None:
        parts.append(flat(as_rows(xp, to_end, n)).astype(example.dtype))
    return Batched(xp.concatenate(parts, axis=1))


def gradient(
    xp: Any, call: Any, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1
) -> Any:
    """With constant spacings."""
    constant(axis, edge_order)
    plain(varargs)
    if not isinstance(f, Batched) or f.ndim == 0:
        raise Unsupported
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
        raise Unsupported
    axes = shifted((axis1, axis2), a.ndim)
    return Batched(call(contiguous(xp)(a).array, offset, *axes, dtype=dtype))


def _deep(x: Any) -> bool:
    return not isinstance(x, Batched) and np.ndim(x) > 1


def trapezoid(xp: Any, call: Any, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Constants are repeated for each slice."""
    n = batch_size((y, x, dx))
    constant(axis)
    if isinstance(dx, Batched):
        raise Unsupported
    y = as_rows(xp, y, n)
    if y.ndim == 0 or (isinstance(x, Batched) and x.ndim != y.ndim) or _deep(0 if x is None else x):
        raise Unsupported
    axis = shifted(axis, y.ndim)
    x = x.array if isinstance(x, Batched) else x
    return Batched(call(xp.ascontiguousarray(y.array), x, dx=dx, axis=axis))


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
        raise Unsupported
    if weights is not None:
        weights = as_rows(xp, weights, n)
        if weights.shape != a.shape:
            raise Unsupported
        weights = xp.ascontiguousarray(weights.array)
    if axis is not None:
        shifted(axis, 1)
    array = xp.ascontiguousarray(a.array)
    return results(call(array, axis=-1, weights=weights, returned=returned, keepdims=keepdims))


def lexsort(xp: Any, call: Any, keys: Any, axis: int = -1) -> Any:
    """Keys of one axis."""
    n = batch_size(keys)
    listed = [as_rows(xp, k, n) for k in operand_list(keys)]
    if any(k.ndim != 1 for k in listed) or axis not in (-1, 0):
        raise Unsupported
    if xp is np:
        return Batched(call([k.array for k in listed], axis=-1))
    order = xp.broadcast_to(xp.arange(listed[0].shape[0]), listed[0].array.shape)
    for key in listed:  # CuPy's has no axis; its argsort is stable
        place = xp.argsort(xp.take_along_axis(key.array, order, axis=1), axis=1)
        order = xp.take_along_axis(order, place, axis=1)
    return Batched(order)


def packbits(xp: Any, call: Any, a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`packbits` and `unpackbits`."""
    if xp is not np and (axis is None or a.ndim == 1) and not args:  # CuPy's have no axis
        x = flat(a)
        if call.__name__ == "packbits":
            wide = xp.zeros((len(x), -(-x.shape[1] // 8) * 8), x.dtype)
            wide[:, : x.shape[1]] = x
            x = wide
        return Batched(call(x.ravel(), **kwargs).reshape(len(x), -1))
    if axis is None:
        return Batched(call(flat(a), -1, *args, **kwargs))
    return Batched(call(a.array, shifted(axis, a.ndim), *args, **kwargs))


def all_axes(xp: Any, call: Any, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Transforms along all axes of a slice unless told which."""
    if a.ndim == 0:
        raise Unsupported
    if axes is None:
        axes = tuple(range(-a.ndim if s is None else -len(s), 0))
    axes = shifted(tuple(axes), a.ndim)
    return Batched(call(a.array, s=s, axes=axes, norm=norm))


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
        raise Unsupported
    array = flat(a) if axis is None else a.array
    axis = -1 if axis is None else shifted(axis, a.ndim)
    found = call(array, q, axis=axis, method=method, keepdims=keepdims)
    return Batched(xp.ascontiguousarray(xp.moveaxis(found, np.ndim(q), 0)))


def nanquantile(xp: Any, call: Any, a: Any, q: Any, axis: Any = None, **kw: Any) -> Any:
    """Slices with as many NaNs go together through `quantile`, without them."""
    constant(axis)
    plain(q)
    if kw.get("overwrite_input"):
        raise NoRule("quantile in place")
    without = getattr(xp, call.__name__.removeprefix("nan"))
    if kw.keys() - {"method"}:
        raise Unsupported
    return _without_nans(
        xp, lambda x: quantile(xp, without, Batched(x), q, -1, **kw).array, a, axis
    )


def nanmedian(xp: Any, call: Any, a: Any, axis: Any = None, **kw: Any) -> Any:
    """Slices with as many NaNs go together through `median`, without them."""
    if kw.get("overwrite_input"):
        raise NoRule("median in place")
    if kw:
        raise Unsupported
    return _without_nans(xp, lambda x: xp.median(x, axis=-1), a, axis)


def _without_nans(xp: Any, function: Callable[[Any], Any], a: Batched, axis: Any) -> Batched:
    if a.ndim == 0 or a.array.size == 0:
        raise Unsupported
    if axis is None or a.ndim == 1:
        shifted(axis or 0, 1)
        outer, x = a.array.shape[:1], flat(a)
    elif shifted(axis, a.ndim) in (-1, a.ndim):
        outer, x = a.array.shape[:-1], a.array.reshape(-1, a.shape[-1])
    else:
        raise Unsupported
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
            raise Unsupported  # such a result has the dtype of the input
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    if len(outer) > 1 and found.ndim > 1:
        raise Unsupported  # the axis of `q` comes first
    return Batched(found.reshape(*outer, *found.shape[1:]))
