"""Batching rules of NumPy functions along an axis: differences, integrals, orders, transforms.

Sums, `cumsum`, `sort` and the like are rows of `__init__.py`, by the rule `rules.along`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched
from ..function_rules import Unsupported, as_rows, constant, contiguous, flat, operand_list, plain
from ..rules import aligned, batch_size, mapped, results, shifted


def diff(
    xp: Any, call: Any, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Any:
    """Differences with values put before and after."""
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
    """Gradients with constant spacings."""
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
    """Transform along all axes of a slice by default."""
    if a.ndim == 0:
        raise Unsupported
    if axes is None:
        axes = tuple(range(-a.ndim if s is None else -len(s), 0))
    axes = shifted(tuple(axes), a.ndim)
    return Batched(call(a.array, s=s, axes=axes, norm=norm))
