"""Convolutions, pooling, padding, norms of groups and upsampling, as nodes of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ....errors import InputError, TraceError
from ....ir.builder import Value
from ....ir.ops import F
from ....ir.tiles import windows
from .proxy import Proxy, Recorder
from .shape_functions import like, view


def _derived(r: Recorder, tensor: torch.Tensor, source: torch.Tensor) -> Value:
    """A constant that is made of a tensor, whose changes matter."""
    r.sources.append(source)
    return r.value(tensor)


def _channels(what: Any, input: Proxy, n: int) -> int:
    """The axis of channels: the first of a slice, the second of a batch."""
    if input.ndim not in (n + 1, n + 2):
        wants = "(channels, " + ", ".join(("depth", "height", "width")[3 - n :]) + ")"
        raise InputError(
            f"{what} takes slices {wants if n > 1 else '(channels, length)'}, or a batch of them; "
            f"its input has shape {tuple(input.shape)}"
        )
    return input.ndim - n - 1


def _given(
    r: Recorder, kind: str, input: Proxy, weight: Any, bias: Any, n: int, axis: int, times: int = 1
) -> tuple[Any, int]:
    """The layer as errors name it, and the channel axis of its input.

    Refuses filters that depend on the slice, or have another dtype, and other channels than
    filters have along `axis`, so many times.
    """
    what = r.layer(weight, f"{kind} in {n}-D")
    for t in (weight, bias):
        if isinstance(t, Proxy):
            raise TraceError(f"{what} with filters that depend on the slice")
    if input.dtype != weight.dtype:
        raise TraceError(f"{what} of {input.dtype} values with {weight.dtype} weights")
    at, wants = _channels(what, input, n), weight.shape[axis] * times
    if input.shape[at] != wants:
        raise InputError(
            f"{what} takes {wants} channels, its input has {input.shape[at]} "
            f"(shape {tuple(input.shape)})"
        )
    return what, at


def _with_bias(r: Recorder, input: Proxy, y: Value, bias: Any, n: int) -> Proxy:
    if bias is not None:
        y = y + _derived(r, bias.reshape(-1, *(1,) * n), bias)
    return like(r, y, input.dtype, input.device)


def _convolution(n: int) -> Callable[..., Proxy]:
    def rule(
        r: Recorder,
        input: Proxy,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Proxy:
        what, at = _given(r, "a convolution", input, weight, bias, n, 1, groups)
        steps, apart = windows.each(stride, n), windows.each(dilation, n)
        widths = windows.sides(what, padding, weight.shape[2:], steps, apart)
        w = weight if groups == 1 else weight.reshape(groups, -1, *weight.shape[1:])
        w = r.value(w) if w is weight else _derived(r, w, weight)
        y = windows.convolution(what, input.value, w, at, widths, steps, apart, groups)
        return _with_bias(r, input, y, bias, n)

    return rule


def _transposed(n: int) -> Callable[..., Proxy]:
    def rule(
        r: Recorder,
        input: Proxy,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Proxy:
        _, at = _given(r, "a transposed convolution", input, weight, bias, n, 0)
        steps, apart = windows.each(stride, n), windows.each(dilation, n)
        cut, more = windows.each(padding, n), windows.each(output_padding, n)
        # the filters turned around, as (G, N / G, C / G, *taps)
        w = weight.flip(*range(2, 2 + n)).unflatten(0, (groups, -1)).transpose(1, 2)
        w = _derived(r, w if groups > 1 else w[0], weight)
        widths = [(c, c - m) for c, m in zip(cut, more, strict=True)]
        y = windows.transposed(input.value, w, at, steps, widths, apart, groups)
        return _with_bias(r, input, y, bias, n)

    return rule


def _max_pool(n: int) -> Callable[..., Proxy]:
    def rule(
        r: Recorder,
        input: Proxy,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Proxy:
        if return_indices:
            _with_indices(r, input)
        what = f"a maximum pool in {n}-D"
        at = _channels(what, input, n) + 1
        how = stride or None, padding, dilation, ceil_mode
        y = windows.max_pool(what, input.value, at, kernel_size, *how, n)
        return like(r, y, input.dtype, input.device)

    return rule


def _avg_pool(n: int) -> Callable[..., Proxy]:
    def rule(
        r: Recorder,
        input: Proxy,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Proxy:
        what = f"an average pool in {n}-D"
        at = _channels(what, input, n) + 1
        how = stride or None, padding, ceil_mode, count_include_pad, divisor_override
        y = windows.avg_pool(what, input.value, at, kernel_size, *how, n)
        return like(r, y, input.dtype, input.device)

    return rule


def _adaptive(op: str, n: int) -> Callable[..., Proxy]:
    def rule(r: Recorder, input: Proxy, output_size: Any, return_indices: bool = False) -> Proxy:
        if return_indices:
            _with_indices(r, input)
        what = f"an adaptive pool in {n}-D"
        at = _channels(what, input, n) + 1
        wanted = windows.each(output_size, n) if output_size is not None else (None,) * n
        sizes = [input.shape[at + k] if m is None else m for k, m in enumerate(wanted)]
        if 0 in sizes or 0 in input.shape:
            raise TraceError(f"{what} of no numbers")
        y = windows.adaptive(op, input.value, at, sizes)
        return like(r, y, input.dtype, input.device)

    return rule


def _with_indices(r: Recorder, input: Proxy, *args: Any, **kwargs: Any) -> Proxy:
    raise TraceError("a maximum pool with indices: the graph has no places in windows")


def _pad(
    r: Recorder, input: Proxy, pad: Sequence[int], mode: str = "constant", value: Any = None
) -> Proxy:
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise TraceError(f"pad by {tuple(pad)} of shape {tuple(input.shape)}")
    pairs = [(int(pad[k]), int(pad[k + 1])) for k in range(len(pad) - 2, -1, -2)]  # last dim first
    first = input.ndim - len(pairs)
    if mode == "constant":
        number = 0.0 if value is None else float(value)
        y = windows.padded_axes(input.value, first, pairs, number)
        if y is input.value:
            return view(r, input, y)
        return like(r, y, input.dtype, input.device)
    if mode not in ("reflect", "replicate", "circular"):
        raise TraceError(f"pad with mode={mode!r}")
    y = input.value
    for k, (before, after) in enumerate(pairs):
        most = y.shape[first + k] - (mode == "reflect")
        if min(before, after) < 0:
            raise TraceError(f"pad by {tuple(pad)} with mode={mode!r}")
        if mode != "replicate" and max(before, after) > most:
            raise InputError(
                f"padding of {max(before, after)} with mode={mode!r} takes {most} numbers at "
                f"most from an axis of length {y.shape[first + k]} (shape {tuple(input.shape)})"
            )
        if before or after:
            y = windows.extended(y, first + k, before, after, mode)
    return like(r, y, input.dtype, input.device)


def _affine(r: Recorder, input: Proxy, y: Value, weight: Any, bias: Any) -> Proxy:
    """A factor and a bias for each channel, axis 1."""
    shape = (-1, *(1,) * (input.ndim - 2))
    for t, op in ((weight, "multiply"), (bias, "add")):
        if isinstance(t, Proxy):
            raise TraceError("a norm with weights that depend on the slice")
        if t is not None:
            wide = t.to(input.dtype) if t.dtype != input.dtype else t
            y = r.builder.op(op, y, _derived(r, wide.reshape(shape), t))
    return like(r, y, input.dtype, input.device)


def _group_norm(
    r: Recorder,
    input: Proxy,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Proxy:
    what = r.layer(weight, "a GroupNorm")
    if input.ndim < 2 or input.shape[1] % num_groups:
        raise InputError(
            f"{what} has {num_groups} groups of channels, its input the shape {tuple(input.shape)}"
        )
    if weight is not None and len(weight) != input.shape[1]:
        raise InputError(f"{what} takes {len(weight)} channels, its input has {input.shape[1]}")
    shape = tuple(input.shape)
    apart = (shape[0], num_groups, math.prod(shape[1:]) // num_groups)
    y = F.standardize(F.reshape(input.value, shape=apart), axis=(2,), eps=eps)
    return _affine(r, input, F.reshape(y, shape=shape), weight, bias)


def _instance_norm(
    r: Recorder,
    input: Proxy,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Proxy:
    if not use_input_stats:
        batch_norm = r.find("batch_norm")
        assert batch_norm is not None
        result: Proxy = batch_norm(
            r, input, running_mean, running_var, weight, bias, False, momentum, eps
        )
        return result
    if running_mean is not None:
        raise InputError(
            "an InstanceNorm in training mode writes its running statistics. Call .eval() first."
        )
    if input.ndim < 3:
        raise TraceError(f"instance_norm of shape {tuple(input.shape)}")
    y = F.standardize(input.value, axis=tuple(range(2, input.ndim)), eps=eps)
    return _affine(r, input, y, weight, bias)


def _interpolate(
    r: Recorder,
    input: Proxy,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Proxy:
    n = input.ndim - 2
    lines = {"linear": 1, "bilinear": 2, "trilinear": 3}
    if antialias or (mode not in ("nearest", "nearest-exact", "area") and lines.get(mode) != n):
        raise TraceError(f"interpolate with mode={mode!r} of shape {tuple(input.shape)}")
    if n < 1 or not input.dtype.is_floating_point:
        raise TraceError(f"interpolate of {input.dtype} values of shape {tuple(input.shape)}")
    old = tuple(input.shape[2:])
    scales: tuple[float | None, ...] = (None,) * n
    if size is not None:
        sizes = windows.each(size, n)
    else:
        factors = (scale_factor,) * n if isinstance(scale_factor, (int, float)) else scale_factor
        sizes = tuple(math.floor(m * f) for m, f in zip(old, factors, strict=True))
        if not recompute_scale_factor:
            scales = tuple(1 / f for f in factors)
    if len(sizes) != n or min(sizes) < 1:
        raise TraceError(f"interpolate of shape {tuple(input.shape)} to {sizes}")
    y = input.value
    if mode == "area":
        return like(r, windows.adaptive("mean", y, 2, sizes), input.dtype, input.device)
    for k in range(n):
        scale = scales[k] or old[k] / sizes[k]
        if mode.startswith("nearest"):
            places = _nearest(old[k], sizes[k], scale_factor if scales[k] else None, mode, k)
            y = windows.taken(y, 2 + k, places)
            continue
        at = np.arange(sizes[k], dtype=float)
        if align_corners:
            at = at * ((old[k] - 1) / max(1, sizes[k] - 1))
        else:
            at = np.maximum((at + 0.5) * scale - 0.5, 0.0)
        y = windows.interpolated(y, 2 + k, at, r.builder)
    return like(r, y, input.dtype, input.device)


def _nearest(old: int, new: int, factor: Any, mode: str, k: int) -> list[int]:
    """The places that torch takes, as it rounds them."""
    ramp = torch.arange(old, dtype=torch.float64).reshape(1, 1, -1)
    if factor is None:
        found = torch.nn.functional.interpolate(ramp, size=new, mode=mode)
    else:
        one = factor if isinstance(factor, (int, float)) else factor[k]
        found = torch.nn.functional.interpolate(ramp, scale_factor=one, mode=mode)
    return [int(i) for i in found.flatten().tolist()]


def _shuffle(r: Recorder, input: Proxy, upscale_factor: int) -> Proxy:
    """(..., C f f, H, W) to (..., C, H f, W f)."""
    f, (*lead, c, h, w) = upscale_factor, input.shape
    if input.ndim < 3 or c % (f * f):
        raise InputError(f"pixel_shuffle by {f} of shape {tuple(input.shape)}")
    y = F.reshape(input.value, shape=(*lead, c // (f * f), f, f, h, w))
    n = len(lead)
    y = F.permute_dims(y, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    y = F.reshape(y, shape=(*lead, c // (f * f), h * f, w * f))
    return like(r, y, input.dtype, input.device)


WINDOW_RULES: dict[str, Callable[..., Any]] = {
    "pad": _pad,
    "constant_pad_nd": lambda r, input, pad, value=0: _pad(r, input, pad, "constant", value),
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "interpolate": _interpolate,
    "pixel_shuffle": _shuffle,
}
"""Rules by names in torch."""
for _n in (1, 2, 3):
    WINDOW_RULES |= {
        f"conv{_n}d": _convolution(_n),
        f"conv_transpose{_n}d": _transposed(_n),
        f"max_pool{_n}d": _max_pool(_n),
        f"avg_pool{_n}d": _avg_pool(_n),
        f"adaptive_max_pool{_n}d": _adaptive("max", _n),
        f"adaptive_avg_pool{_n}d": _adaptive("mean", _n),
        f"max_pool{_n}d_with_indices": _with_indices,
        f"adaptive_max_pool{_n}d_with_indices": _with_indices,
    }
