"""Functions of torch that join, cut and rearrange tensors, as nodes of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....errors import TraceError
from ....ir.builder import Value
from .proxy import Proxy, Recorder


def like(r: Recorder, value: Value, dtype: torch.dtype, device: Any = None) -> Proxy:
    """A proxy of `value`."""
    return Proxy(r, value, dtype, device or torch.device("cpu"))


def view(r: Recorder, x: Proxy, value: Value) -> Proxy:
    """A stand-in that may share memory with `x`."""
    result = Proxy(r, value, x.dtype, x.device)
    x.viewed = result.viewed = True
    return result


def joined(tensors: Sequence[Any]) -> torch.dtype:
    """The dtype of tensors put together."""
    return functools.reduce(torch.promote_types, (t.dtype for t in tensors))


def device_among(operands: Sequence[Any]) -> Any:
    """The device of the first proxy among operands."""
    return next(x.device for x in operands if isinstance(x, Proxy))


def axis_of(dim: int, ndim: int) -> int:
    """A `dim` of torch, counted from the front."""
    if isinstance(dim, bool) or not -ndim <= dim < ndim:
        raise TraceError(f"dim={dim} of a tensor with {ndim} axes")
    return dim % ndim


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Axes of `dim`; all if None."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    return tuple(axis_of(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim))


def _in_one(r: Recorder, tensors: Sequence[Any], dtype: torch.dtype) -> list[Value]:
    """Cast values to one dtype; those that have it may be indices, which stay."""
    has = [isinstance(t, Proxy) and t.dtype == dtype for t in tensors]
    return [t.value if h else r.value(t, dtype) for t, h in zip(tensors, has, strict=True)]


def _cat(r: Recorder, tensors: Sequence[Any], dim: int = 0) -> Proxy:
    dtype = joined(tensors)
    values = _in_one(r, tensors, dtype)
    y = r.builder.op("concat", *values, axis=axis_of(dim, len(values[0].shape)))
    return like(r, y, dtype, device_among(tensors))


def _stack(r: Recorder, tensors: Sequence[Any], dim: int = 0) -> Proxy:
    dtype = joined(tensors)
    values = _in_one(r, tensors, dtype)
    shape = values[0].shape
    axis = axis_of(dim, len(shape) + 1)
    key = (*((None, None, None),) * axis, None)
    y = r.builder.op("concat", *(r.builder.op("index", v, key=key) for v in values), axis=axis)
    return like(r, y, dtype, device_among(tensors))


def _shape(sizes: tuple) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else tuple(sizes)


def _reshape(r: Recorder, input: Proxy, *shape: Any) -> Proxy:
    sizes = _shape(shape)
    meta = torch.empty(input.shape, device="meta")
    try:  # torch fills -1 in, and complains about what does not fit
        sizes = tuple(meta.reshape(sizes).shape)
    except RuntimeError as error:
        raise TraceError(str(error)) from None
    return view(r, input, r.builder.op("reshape", input.value, shape=sizes))


def _through_meta(name: str) -> Callable[..., Proxy]:
    """Layouts that only change the shape: torch's shape rule, then a reshape."""

    def rule(r: Recorder, input: Proxy, *args: Any, **kwargs: Any) -> Proxy:
        meta = torch.empty(input.shape, device="meta")
        try:
            shape = tuple(getattr(meta, name)(*args, **kwargs).shape)
        except (RuntimeError, IndexError) as error:
            raise TraceError(str(error)) from None
        return view(r, input, r.builder.op("reshape", input.value, shape=shape))

    return rule


def _permute(r: Recorder, input: Proxy, *dims: Any) -> Proxy:
    axes = tuple(axis_of(d, input.ndim) for d in _shape(dims))
    return view(r, input, r.builder.op("permute_dims", input.value, axes=axes))


def _transpose(r: Recorder, input: Proxy, dim0: int, dim1: int) -> Proxy:
    axes = list(range(input.ndim))
    a, b = axis_of(dim0, input.ndim), axis_of(dim1, input.ndim)
    axes[a], axes[b] = b, a
    return _permute(r, input, axes)


def _t(r: Recorder, input: Proxy) -> Proxy:
    return _transpose(r, input, 0, 1) if input.ndim == 2 else input


def _expand(r: Recorder, input: Proxy, *sizes: Any) -> Proxy:
    shape = _shape(sizes)
    old = (1,) * (len(shape) - input.ndim) + tuple(input.shape)
    new = tuple(o if s == -1 else s for o, s in zip(old, shape, strict=True))
    value = r.builder.op("reshape", input.value, shape=old)
    return view(r, input, r.builder.op("broadcast_to", value, shape=new))


def _getitem(r: Recorder, input: Any, key: Any) -> Proxy:
    if not isinstance(input, Proxy):
        raise TraceError("an index that depends on the slice")
    keys = key if isinstance(key, tuple) else (key,)
    plain: list[Any] = []
    used = sum(k is not None and k is not Ellipsis for k in keys)
    for k in keys:
        if k is Ellipsis:
            plain += [(None, None, None)] * (input.ndim - used)
        elif isinstance(k, slice):
            plain.append((k.start, k.stop, k.step))
        elif k is None or (isinstance(k, int) and not isinstance(k, bool)):
            plain.append(k)
        else:
            what = (
                "a tensor that depends on the slice" if isinstance(k, Proxy) else type(k).__name__
            )
            raise TraceError(f"an index by {what}")
    axis = 0
    for k in plain:
        if k is None:
            continue
        n = input.shape[axis] if axis < input.ndim else 0
        if axis >= input.ndim or (isinstance(k, int) and not -n <= k < n):
            raise IndexError(f"index {key} is out of bounds for shape {tuple(input.shape)}")
        axis += 1
    return view(r, input, r.builder.op("index", input.value, key=tuple(plain)))


def _split(r: Recorder, input: Proxy, split_size: Any, dim: int = 0) -> list[Proxy]:
    axis = axis_of(dim, input.ndim)
    n = input.shape[axis]
    sizes = [split_size] * -(-n // split_size) if isinstance(split_size, int) else split_size
    pieces, start = [], 0
    for size in sizes:
        key = (*(slice(None),) * axis, slice(start, min(start + size, n)))
        pieces.append(_getitem(r, input, key))
        start += size
    return pieces


def chunk(r: Recorder, input: Proxy, chunks: int, dim: int = 0) -> list[Proxy]:
    """Split in equal parts, the last of which may be shorter."""
    n = input.shape[axis_of(dim, input.ndim)]
    return _split(r, input, max(1, -(-n // chunks)), dim)


def _unbind(r: Recorder, input: Proxy, dim: int = 0) -> list[Proxy]:
    axis = axis_of(dim, input.ndim)
    return [_getitem(r, input, (*(slice(None),) * axis, i)) for i in range(input.shape[axis])]


SHAPE_RULES: dict[str, Callable[..., Any]] = {
    "cat": _cat,
    "stack": _stack,
    "reshape": _reshape,
    "view": _reshape,
    "flatten": _through_meta("flatten"),
    "squeeze": _through_meta("squeeze"),
    "unsqueeze": _through_meta("unsqueeze"),
    "unflatten": _through_meta("unflatten"),
    "permute": _permute,
    "transpose": _transpose,
    "t": _t,
    "expand": _expand,
    "expand_as": lambda r, input, other: _expand(r, input, tuple(other.shape)),
    "getitem": _getitem,
    "split": _split,
    "chunk": chunk,
    "unbind": _unbind,
}
"""Rules by names in torch."""
