"""Convolutions, pooling, padding and interpolation, written with a few ops of layout and einsum.

Each function takes a value with the axes ``(..., channels, *places)``, the places after all
others, and returns another. Which of a network's layers means what is the frontends' business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from ..builder import Builder, Value
from ..ops import F

_PLACES, _TAPS, _OTHERS = "pqr", "klm", "abdefhij"
"""einsum letters: places of the result, of a filter, axes before the channels."""


def padded(x: Value, axis: int, before: int, after: int, number: float = 0.0) -> Value:
    """`x` with numbers before and after it along an axis; fewer than none are cut off."""
    if before < 0 or after < 0:
        key = (*((None, None, None),) * axis, (max(0, -before), x.shape[axis] + min(0, after), 1))
        x = F.index(x, key=key)
        before, after = max(0, before), max(0, after)
    if not (before or after):
        return x
    widths = tuple((before, after) if a == axis else (0, 0) for a in range(len(x.shape)))
    return F.pad(x, widths=widths, number=repr(float(number)))


def padded_axes(x: Value, first: int, widths: Sequence[tuple[int, int]], number: float) -> Value:
    """Pad axis `first` and those after it, at once where nothing is cropped."""
    if any(n < 0 for pair in widths for n in pair):
        for k, (before, after) in enumerate(widths):
            x = padded(x, first + k, before, after, number)
        return x
    if not any(n for pair in widths for n in pair):
        return x
    every = [(0, 0)] * len(x.shape)
    every[first : first + len(widths)] = widths
    return F.pad(x, widths=tuple(every), number=repr(float(number)))


def extended(x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """`x` continued along an axis by its own numbers: "reflect", "replicate" or "circular"."""
    n = x.shape[axis]
    places = np.arange(-before, n + after)
    if mode == "replicate":
        places = np.clip(places, 0, n - 1)
    elif mode == "circular":
        places %= n
    else:
        places = (n - 1) - np.abs((n - 1) - np.abs(places))
    return taken(x, axis, places)


def taken(x: Value, axis: int, places: Sequence[int] | np.ndarray) -> Value:
    """The numbers at some places along an axis."""
    return F.take(x, axis=axis, places=tuple(map(int, places)))


def strided(x: Value, axis: int, size: int, step: int = 1, dilation: int = 1) -> Value:
    """Windows along an axis: an axis of windows, followed by that within a window."""
    return F.windows(x, axis=axis, size=size, step=step, dilation=dilation)


def sides(
    what: object,
    padding: Any,
    taps: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    flip: bool = False,
) -> list[tuple[int, int]]:
    """Zeros before and after each axis of places: "valid", "same", "full" or numbers."""
    reach = [d * (k - 1) for k, d in zip(taps, dilation, strict=True)]
    if padding == "valid":
        return [(0, 0)] * len(taps)
    if padding == "full":
        return [(k, k) for k in reach]
    if padding == "same":
        if any(s != 1 for s in stride):
            raise InputError(f'{what}: padding="same" with stride={tuple(stride)}: it needs 1')
        # of an even filter there is no middle: SciPy and torch choose as their filters lie
        return [(k - k // 2, k // 2) if flip else (k // 2, k - k // 2) for k in reach]
    if isinstance(padding, str):
        raise InputError(f'{what}: padding={padding!r}: "valid", "same", "full" or numbers')
    return [(p, p) for p in each(padding, len(taps))]


def convolution(
    what: object,
    x: Value,
    w: Value,
    channels: int,
    widths: Sequence[tuple[int, int]],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Value:
    """Sums of products with the filters at every place: windows and one einsum.

    Parameters
    ----------
    what : object
        What errors name.
    x : Value, shape (..., C, *places)
        What is convolved.
    w : Value
        Filters ``(N, C, *taps)``; of groups ``(G, N / G, C / G, *taps)``.
    channels : int
        The axis of channels of `x`.
    widths : sequence of (int, int)
        Zeros before and after each axis of places.
    stride, dilation : sequence of int
        One for each axis of places.
    groups : int
        G.
    """
    x = padded_axes(x, channels + 1, widths, 0.0)
    shape = x.shape
    for k, m in enumerate(w.shape[-len(stride) :]):
        count_of_windows(what, shape[channels + 1 + k], m, stride[k], dilation[k])
    some = groups > 1
    if some:
        apart = (*shape[:channels], groups, shape[channels] // groups, *shape[channels + 1 :])
        x = F.reshape(x, shape=apart)
    n = len(stride)
    first = channels + some + 1
    for k in reversed(range(n)):
        x = strided(x, first + k, w.shape[k - n], stride[k], dilation[k])
    lead, group = _OTHERS[:channels], "g" * some
    pairs = "".join(p + t for p, t in zip(_PLACES[:n], _TAPS, strict=False))
    y = F.einsum(
        w,
        x,
        subscripts=f"{group}nc{_TAPS[:n]},{lead}{group}c{pairs}->{lead}{group}n{_PLACES[:n]}",
    )
    if some:
        y = F.reshape(
            y, shape=(*y.shape[:channels], groups * y.shape[channels + 1], *y.shape[channels + 2 :])
        )
    return y


def transposed(
    x: Value,
    w: Value,
    channels: int,
    stride: Sequence[int],
    widths: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int = 1,
) -> Value:
    """A transposed convolution: `widths` are cut off its full result, of negative ones added.

    `w`: filters that are turned around, as `convolution` takes them.
    """
    n, filters = len(stride), w.builder.nodes[w.index]
    every = zip(w.shape[-n:], stride, dilation, strict=True)
    whole = all(s == 1 or (d == 1 and k % s == 0) for k, s, d in every)
    if whole and max(stride) > 1 and filters.op == "const":
        of_phases = w.builder.const(_of_phases(w.builder.consts[filters.attr("k")], stride))
        y = _by_phases(x, of_phases, channels, stride, dilation, groups)
        return padded_axes(y, channels + 1, [(-a, -b) for a, b in widths], 0.0)
    pads = []
    for k in range(n):
        x = spread(x, channels + 1 + k, stride[k])
        reach = dilation[k] * (w.shape[k - n] - 1)
        pads.append((reach - widths[k][0], reach - widths[k][1]))
    return convolution("it", x, w, channels, pads, (1,) * n, dilation, groups)


def _by_phases(
    x: Value,
    w: Value,
    channels: int,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """The full result by one convolution of `x` itself, whose filters are those of all phases.

    Along an axis of step s the places ``s i + a`` of the result, its phase a, get each s-th tap of
    the filter: a filter of their own. Nothing is multiplied by zeros between the numbers of `x`.
    """
    n = len(stride)
    outputs = groups * w.shape[-n - 2] // math.prod(stride)
    reach = [d * (k - 1) for k, d in zip(w.shape[-n:], dilation, strict=True)]
    y = convolution("it", x, w, channels, [(r, r) for r in reach], (1,) * n, dilation, groups)
    before, places = y.shape[:channels], y.shape[channels + 1 :]
    y = F.reshape(y, shape=(*before, outputs, *stride, *places))
    between = [a for k in range(n) for a in (channels + 1 + n + k, channels + 1 + k)]
    y = F.permute_dims(y, axes=(*range(channels + 1), *between))
    whole = [p * s for p, s in zip(places, stride, strict=True)]
    return F.reshape(y, shape=(*before, outputs, *whole))


def _of_phases(w: np.ndarray, stride: Sequence[int]) -> np.ndarray:
    """Filters that are turned around, as those of each phase, which are outputs of their own.

    Steps divide the taps: else there would be taps of zero, which make NaN of infinite numbers.
    """
    n = len(stride)
    *lead, outputs, inputs = w.shape[:-n]
    taps = [k // s for k, s in zip(w.shape[-n:], stride, strict=True)]
    # (..., N, C, *(taps, phases)); phases are turned around, too
    w = w.reshape(*lead, outputs, inputs, *(d for p in zip(taps, stride, strict=True) for d in p))
    first = len(lead) + 2
    phases = range(first + 1, first + 2 * n, 2)
    w = np.flip(w, tuple(phases))
    axes = (*range(first - 1), *phases, first - 1, *range(first, first + 2 * n, 2))
    shape = (*lead, outputs * math.prod(stride), inputs, *taps)
    return np.ascontiguousarray(w.transpose(axes).reshape(shape))


def spread(x: Value, axis: int, step: int) -> Value:
    """`x` with ``step - 1`` zeros between neighbours along an axis."""
    n = x.shape[axis]
    if step == 1 or n < 2:
        return x
    x = F.index(x, key=(*((None, None, None),) * (axis + 1), None))
    x = padded(x, axis + 1, 0, step - 1)
    x = F.reshape(x, shape=(*x.shape[:axis], n * step, *x.shape[axis + 2 :]))
    return padded(x, axis, 0, 1 - step)


def each(x: Any, n: int) -> tuple[int, ...]:
    """One number for each of `n` axes."""
    found = (x,) * n if isinstance(x, int) else tuple(x)
    return found * n if len(found) == 1 else found


def _pooled(
    op: str,
    what: object,
    x: Value,
    first: int,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    n: int,
) -> Value:
    """Pool windows ("max" or "sum") along axis `first` and those after it, one by one."""
    sizes, apart, pads = each(size, n), each(dilation, n), _pairs(what, padding, each(size, n))
    steps = sizes if stride is None else each(stride, n)
    widths = []
    for k, (before, after) in enumerate(pads):
        places, reach = x.shape[first + k] + before + after, apart[k] * (sizes[k] - 1) + 1
        if ceil and 0 < reach - places < steps[k]:  # the only window goes beyond the end
            widths.append((before, after + reach - places))
            continue
        count = count_of_windows(what, places, sizes[k], steps[k], apart[k])
        # one more window, which begins inside
        more = ceil and (places - reach) % steps[k] and count * steps[k] < places - after
        widths.append((before, after + more * (count * steps[k] + reach - places)))
    x = padded_axes(x, first, widths, -math.inf if op == "max" else 0.0)
    reduce: Callable[..., Value] = getattr(F, op)
    for k in range(n):
        if not sizes[k] == 1 == steps[k]:
            cut = strided(x, first + k, sizes[k], steps[k], apart[k])
            x = reduce(cut, axis=(first + k + 1,), keepdims=False)
    return x


def _pairs(what: object, padding: Any, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The padding at both ends: pairs, or one number for both."""
    if not isinstance(padding, int) and all(isinstance(p, tuple) for p in padding):
        return list(padding)
    pads = each(padding, len(sizes))
    for p, size in zip(pads, sizes, strict=True):
        if p > size // 2:
            raise InputError(f"{what}: padding {p} is more than half of its window")
    return [(p, p) for p in pads]


def max_pool(
    what: object,
    x: Value,
    first: int,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    n: int,
) -> Value:
    """Maximum of windows along axis `first` and those after it; `what` names it in errors."""
    return _pooled("max", what, x, first, size, stride, padding, dilation, ceil, n)


def avg_pool(
    what: object,
    x: Value,
    first: int,
    size: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    count_include_pad: bool,
    divisor: int | None,
    n: int,
    dilation: Any = 1,
) -> Value:
    """Mean of windows along axis `first` and those after it; `what` names it in errors."""
    y = _pooled("sum", what, x, first, size, stride, padding, dilation, ceil, n)
    if divisor is not None:
        return y / divisor
    sizes, apart, pads = each(size, n), each(dilation, n), _pairs(what, padding, each(size, n))
    steps = sizes if stride is None else each(stride, n)
    counts = np.ones((1,) * n)
    for k, (before, after) in enumerate(pads):
        places = x.shape[first + k]
        # what counts: the array, and perhaps its padding, but not what `ceil` adds
        low, high = (-before, places + after) if count_include_pad else (0, places)
        starts = np.arange(y.shape[first + k]) * steps[k] - before
        each_tap = starts[:, None] + np.arange(sizes[k]) * apart[k]
        inside = ((each_tap >= low) & (each_tap < high)).sum(1)
        counts = counts * inside.reshape(-1, *(1,) * (n - 1 - k))
    if (counts == counts.flat[0]).all():
        return y / float(counts.flat[0])
    return y / y.builder.const(counts.astype(y.aval.dtype))


def adaptive(op: str, x: Value, first: int, sizes: Sequence[int]) -> Value:
    """ "max" or "mean" of as many windows as wanted, which share the places evenly."""
    reduce: Callable[..., Value] = getattr(F, op)
    for k, m in enumerate(sizes):
        axis, n = first + k, x.shape[first + k]
        if m == n:
            continue
        starts = [i * n // m for i in range(m)]
        ends = [-(-(i + 1) * n // m) for i in range(m)]
        if n % m == 0:
            x = reduce(strided(x, axis, n // m, n // m), axis=(axis + 1,), keepdims=False)
            continue
        before = ((None, None, None),) * axis
        pieces = [
            reduce(F.index(x, key=(*before, (s, e, 1))), axis=(axis,), keepdims=True)
            for s, e in zip(starts, ends, strict=True)
        ]
        x = F.concat(*pieces, axis=axis)
    return x


def interpolated(x: Value, axis: int, places: np.ndarray, builder: Builder) -> Value:
    """The numbers at places between others along an axis: linear, constant beyond the ends."""
    n = x.shape[axis]
    low = np.clip(np.floor(places).astype(int), 0, n - 1)
    part = np.clip(places - low, 0.0, 1.0).reshape((-1, *(1,) * (len(x.shape) - axis - 1)))
    a, b = taken(x, axis, low), taken(x, axis, np.minimum(low + 1, n - 1))
    dtype = x.aval.dtype
    return a * builder.const((1 - part).astype(dtype)) + b * builder.const(part.astype(dtype))


def count_of_windows(what: object, n: int, size: int, step: int = 1, dilation: int = 1) -> int:
    """The number of windows; `InputError` if there is none."""
    reach = dilation * (size - 1) + 1
    if n < reach:
        raise InputError(f"{what} has windows of {reach} places, its input has {n} (padding too)")
    return (n - reach) // step + 1
