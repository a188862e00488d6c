"""Operators of networks: products, convolutions, pools, norms, softmax, reductions, resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import TraceError
from ...ir.builder import Value
from ...ir.ops import F
from ...ir.tiles import windows
from .program import DecodedNode, ints
from .writer import Given, OnnxWriter, axis_of, row

_STACK = "abcdefgh"
"""Letters of axes in front of a matrix."""


# --- products ---------------------------------------------------------------------------------


def product(w: OnnxWriter, matrix: np.ndarray, x: Value) -> Value:
    """``matrix @ x`` of the last axis."""
    lead = _STACK[: len(x.shape) - 1]
    return w.op("einsum", w.const(matrix), x, subscripts=f"nm,{lead}m->{lead}n")  # type: ignore[no-any-return]


@row("MatMul")
def _matmul(w: OnnxWriter, n: DecodedNode, a: Given, b: Given) -> Value:
    if isinstance(b, np.ndarray) and b.ndim == 2 and isinstance(a, Value):
        if not a.shape or a.shape[-1] != b.shape[0]:
            raise TraceError(f"a product of {a.shape} and {b.shape}")
        return product(w, w.made(b, "transposed", lambda: np.ascontiguousarray(b.T)), a)
    x, y = w.value(a), w.value(b)
    left, right = "i" * (len(x.shape) > 1) + "j", "j" + "k" * (len(y.shape) > 1)
    stacks = [x.shape[: -len(left)], y.shape[: -len(right)]]
    ndim = max(map(len, stacks))
    names: list[str] = []
    operands: list[Value] = []
    out: set[str] = set()
    for v, stack in zip((x, y), stacks, strict=True):
        letters, key = "", []
        for k, length in enumerate(stack):
            other = stacks[1 - len(operands)]
            at = len(other) - len(stack) + k
            single = length == 1 and at >= 0 and other[at] != 1  # it broadcasts
            key.append(0 if single else (None, None, None))
            letters += "" if single else _STACK[ndim - len(stack) + k]
        operands.append(F.index(v, key=tuple(key)) if 0 in key else v)
        names.append(letters)
        out.update(letters)
    result = "".join(sorted(out)) + left.replace("j", "") + right.replace("j", "")
    subscripts = f"{names[0]}{left},{names[1]}{right}->{result}"
    return w.op("einsum", *operands, subscripts=subscripts)  # type: ignore[no-any-return]


@row("Gemm")
def _gemm(w: OnnxWriter, n: DecodedNode, a: Given, b: Given, c: Given = None) -> Value:
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    x = w.value(a)
    x = F.permute_dims(x, axes=(1, 0)) if n.attr("transA") else x
    if len(x.shape) != 2 or len(b.shape) != 2:
        raise TraceError(f"a product of {x.shape} and {b.shape}")
    if isinstance(b, np.ndarray):
        matrix = b if n.attr("transB") else np.ascontiguousarray(b.T)
        y = product(w, w.made(b, (n.name, "gemm"), lambda: _times(matrix, alpha)), x)
    else:
        y = w.op("einsum", x, b, subscripts="mk,nk->mn" if n.attr("transB") else "mk,kn->mn")
        y = y if alpha == 1 else y * alpha
    if c is None or beta == 0:
        return y
    if isinstance(c, np.ndarray):
        c = w.made(c, (n.name, "bias"), lambda: _times(c, beta))
    elif beta != 1:
        c = c * beta
    return w.op("add", *w.alike(y, c))  # type: ignore[no-any-return]


def _times(x: np.ndarray, factor: float) -> np.ndarray:
    return x if factor == 1 else (x * factor).astype(x.dtype)


# --- windows ----------------------------------------------------------------------------------


class _Windows:
    """Windows of convolutions and pools."""

    def __init__(self, n: DecodedNode, places: Sequence[int], taps: Sequence[int]) -> None:
        count = len(places)
        self.taps = tuple(taps)
        self.steps: tuple[int, ...] = tuple(n.attr("strides") or (1,) * count)
        self.apart: tuple[int, ...] = tuple(n.attr("dilations") or (1,) * count)
        if not count == len(self.taps) == len(self.steps) == len(self.apart) or count > 3:
            raise TraceError(f"windows {self.taps} of places {tuple(places)}")
        if min(*self.taps, *self.steps, *self.apart) < 1:
            raise TraceError(f"windows {self.taps}, strides {self.steps}, dilations {self.apart}")
        self.reach = [d * (k - 1) + 1 for k, d in zip(self.taps, self.apart, strict=True)]
        self.auto = n.attr("auto_pad", "NOTSET")
        pads = tuple(n.attr("pads") or (0,) * (2 * count))
        if len(pads) != 2 * count:
            raise TraceError(f"{len(pads)} pads of {count} axes")
        self.pads = [(pads[k], pads[k + count]) for k in range(count)]
        if self.auto == "VALID":
            self.pads = [(0, 0)] * count
        elif self.auto.startswith("SAME"):
            self.pads = []
            for m, s, r in zip(places, self.steps, self.reach, strict=True):
                self.pads.append(self.halves(max(0, (-(-m // s) - 1) * s + r - m)))

    def halves(self, total: int) -> tuple[int, int]:
        """Split padding in halves; an odd place goes after, or before."""
        less = total // 2
        return (less, total - less) if self.auto != "SAME_LOWER" else (total - less, less)


def _with_bias(w: OnnxWriter, y: Value, bias: Given) -> Value:
    if bias is None:
        return y
    b, n = w.known(bias, "a bias"), len(y.shape) - 2
    return y + w.value(w.made(b, ("bias", n), lambda: b.reshape(-1, *(1,) * n)))  # type: ignore[no-any-return]


def _filters(
    w: OnnxWriter, n: DecodedNode, x: Value, weight: Given, axis: int, times: int
) -> np.ndarray:
    """The filters of a convolution, which fit the channels."""
    filters = w.known(weight, "a filter")
    if len(x.shape) != filters.ndim or not 3 <= filters.ndim <= 5:
        raise TraceError(f"filters {filters.shape} of a value {x.shape}")
    if x.shape[1] != filters.shape[axis] * times or filters.shape[0] % n.attr("group", 1):
        raise TraceError(f"filters {filters.shape} in {n.attr('group', 1)} groups of {x.shape}")
    return filters


@row("Conv")
def _conv(w: OnnxWriter, n: DecodedNode, x: Given, weight: Given, bias: Given = None) -> Value:
    v, groups = w.value(x), n.attr("group", 1)
    filters = _filters(w, n, v, weight, 1, groups)
    of = _Windows(n, v.shape[2:], filters.shape[2:])
    w.room(*v.shape[:2], *(m + sum(p) for m, p in zip(v.shape[2:], of.pads, strict=True)))
    if groups > 1:
        filters = w.made(
            filters, ("groups", groups), lambda: filters.reshape(groups, -1, *filters.shape[1:])
        )
    y = windows.convolution(n, v, w.const(filters), 1, of.pads, of.steps, of.apart, groups)
    return _with_bias(w, y, bias)


@row("ConvTranspose")
def _conv_transpose(
    w: OnnxWriter, n: DecodedNode, x: Given, weight: Given, bias: Given = None
) -> Value:
    v, groups = w.value(x), n.attr("group", 1)
    filters = _filters(w, n, v, weight, 0, 1)
    count = filters.ndim - 2
    of = _Windows(n, v.shape[2:], filters.shape[2:])
    more = tuple(n.attr("output_padding") or (0,) * count)
    wanted = n.attr("output_shape")
    widths = []
    for k in range(count):
        before, after = of.pads[k]
        full = (v.shape[2 + k] - 1) * of.steps[k] + of.reach[k] + more[k]
        if wanted is not None or of.auto.startswith("SAME"):
            to = wanted[-count:][k] if wanted is not None else v.shape[2 + k] * of.steps[k]
            total = full - to
            if total < 0:
                raise TraceError(f"output_shape={wanted} of full results of length {full}")
            # of an odd number one more in front, unless the file says SAME_UPPER
            less = total // 2
            upper = of.auto == "SAME_UPPER"
            before, after = (less, total - less) if upper else (total - less, less)
        w.room(full)
        widths.append((before, after - more[k]))
    w.room(*v.shape[:2], *(m * s for m, s in zip(v.shape[2:], of.steps, strict=True)))

    def turned() -> np.ndarray:
        """Weights as (G, N / G, C / G, *taps)."""
        f = np.flip(filters, tuple(range(2, 2 + count)))
        f = f.reshape(groups, -1, *f.shape[1:]).swapaxes(1, 2)
        return np.ascontiguousarray(f if groups > 1 else f[0])

    f = w.const(w.made(filters, ("turned", groups), turned))
    y = windows.transposed(v, f, 1, of.steps, widths, of.apart, groups)
    return _with_bias(w, y, bias)


@row("MaxPool", "AveragePool")
def _pool(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    if len(n.outputs) > 1 and n.outputs[1]:
        raise TraceError("a maximum pool with indices: the graph has no places in windows")
    if v.dtype.kind != "f":
        raise TraceError(f"pools of {v.aval.dtype}")
    of = _Windows(n, v.shape[2:], n.attr("kernel_shape") or ())
    count, ceil = len(of.taps), bool(n.attr("ceil_mode", 0))
    if any(not 0 <= k < t for pair, t in zip(of.pads, of.reach, strict=True) for k in pair):
        raise TraceError(f"pads {of.pads} of windows {of.taps}")
    if n.op == "MaxPool":
        return windows.max_pool(n, v, 2, of.taps, of.steps, of.pads, of.apart, ceil, count)
    whole = bool(n.attr("count_include_pad", 0))
    return windows.avg_pool(n, v, 2, of.taps, of.steps, of.pads, ceil, whole, None, count, of.apart)


@row("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    op = "mean" if n.op == "GlobalAveragePool" else "max"
    return w.op(op, v, axis=tuple(range(2, len(v.shape))), keepdims=True)  # type: ignore[no-any-return]


# --- norms ------------------------------------------------------------------------------------


def _per_channel(w: OnnxWriter, x: Given, v: Value) -> Value:
    """A constant for each channel, axis 1."""
    c, n = w.known(x, "a parameter of a norm"), len(v.shape) - 2
    if c.shape != (v.shape[1],):
        raise TraceError(f"{c.shape} parameters of a value {v.shape}")
    return w.value(w.made(c, ("channel", n), lambda: c.reshape(-1, *(1,) * n)))


@row("BatchNormalization")
def _batch_norm(
    w: OnnxWriter, n: DecodedNode, x: Given, scale: Given, bias: Given, mean: Given, variance: Given
) -> Value:
    if n.attr("training_mode", 0) or not n.attr("spatial", 1):
        raise TraceError("in training mode, or not per channel")
    v = w.value(x)
    gamma, beta, mu, var = (
        w.known(c, "a parameter of a norm").astype(np.float64)
        for c in (scale, bias, mean, variance)
    )
    # in float64: the scale is folded into the layer before it and rounded once
    factor = gamma / np.sqrt(var + n.number("epsilon", 1e-5))
    parts = [factor.astype(v.dtype), (beta - mu * factor).astype(v.dtype)]
    a, b = (_per_channel(w, part, v) for part in parts)
    return v * a + b  # type: ignore[no-any-return]


@row("LayerNormalization", "RMSNormalization")
def _layer_norm(w: OnnxWriter, n: DecodedNode, x: Given, scale: Given, bias: Given = None) -> Value:
    v = w.value(x)
    axes = tuple(range(axis_of(n.attr("axis", -1), len(v.shape)), len(v.shape)))
    eps = n.number("epsilon", 1e-5)
    if n.op == "LayerNormalization":
        y = w.op("standardize", v, axis=axes, eps=eps)
    else:
        y = v / F.sqrt(F.mean(v * v, axis=axes, keepdims=True) + eps)
    y = w.op("multiply", *w.alike(y, scale))
    return y if bias is None else w.op("add", *w.alike(y, bias))  # type: ignore[no-any-return]


@row("InstanceNormalization")
def _instance_norm(w: OnnxWriter, n: DecodedNode, x: Given, scale: Given, bias: Given) -> Value:
    v = w.value(x)
    axes = tuple(range(2, len(v.shape)))
    y = w.op("standardize", v, axis=axes, eps=n.number("epsilon", 1e-5))
    return y * _per_channel(w, scale, v) + _per_channel(w, bias, v)  # type: ignore[no-any-return]


@row("GroupNormalization")
def _group_norm(w: OnnxWriter, n: DecodedNode, x: Given, scale: Given, bias: Given) -> Value:
    v, groups = w.value(x), n.attr("num_groups")
    shape = v.shape
    apart = (shape[0], groups, math.prod(shape[1:]) // groups)
    y = w.op("standardize", F.reshape(v, shape=apart), axis=(2,), eps=n.number("epsilon", 1e-5))
    y = F.reshape(y, shape=shape)
    return y * _per_channel(w, scale, v) + _per_channel(w, bias, v)  # type: ignore[no-any-return]


@row("Softmax", "LogSoftmax")
def _softmax(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    op = "softmax" if n.op == "Softmax" else "log_softmax"
    axis = axis_of(n.attr("axis", -1 if n.version >= 13 else 1), len(v.shape))
    if n.version >= 13 or axis == len(v.shape) - 1:
        return w.op(op, v, axis=axis)  # type: ignore[no-any-return]
    flat = (math.prod(v.shape[:axis]), math.prod(v.shape[axis:]))
    y = w.op(op, F.reshape(v, shape=flat), axis=1)
    return F.reshape(y, shape=v.shape)  # type: ignore[no-any-return]


# --- reductions -------------------------------------------------------------------------------

_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@row(*(f"Reduce{name}" for name in _REDUCTIONS))
def _reduce(w: OnnxWriter, n: DecodedNode, x: Given, given: Given = None) -> Value:
    v, keep = w.value(x), bool(n.attr("keepdims", 1))
    name = n.op.removeprefix("Reduce")
    since = 13 if name == "Sum" else 18
    axes = n.attr("axes") if n.version < since else None if given is None else ints(given, "axes")
    if not axes:
        if n.attr("noop_with_empty_axes", 0):
            raise TraceError("without axes, and noop_with_empty_axes")
        axes = range(len(v.shape))
    along = tuple(sorted({axis_of(a, len(v.shape)) for a in axes}))
    if 0 in v.shape:
        raise TraceError(f"of no numbers, shape {v.shape}")

    def reduced(op: str, y: Value, keepdims: bool = keep) -> Any:
        return w.op(op, y, axis=along, keepdims=keepdims) if along else y

    if v.dtype.kind != "f" and name not in ("Sum", "Max", "Min", "Prod"):
        raise TraceError(f"of {v.aval.dtype}")
    if name in ("Sum", "Mean", "Max", "Min", "Prod"):
        return reduced(name.lower(), v)  # type: ignore[no-any-return]
    if name == "L1":
        return reduced("sum", F.abs(v))  # type: ignore[no-any-return]
    if name in ("L2", "SumSquare"):
        squares = reduced("sum", v * v)
        return F.sqrt(squares) if name == "L2" else squares
    if name == "LogSum":
        return F.log(reduced("sum", v))  # type: ignore[no-any-return]
    high = reduced("max", v, True)
    high = F.where(F.isfinite(high), high, 0.0)
    y = F.log(reduced("sum", F.exp(v - high), True)) + high
    shape = tuple(m for a, m in enumerate(v.shape) if a not in along)
    return y if keep else F.reshape(y, shape=shape)  # type: ignore[no-any-return]


@row("ArgMax", "ArgMin")
def _position(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    if n.attr("select_last_index", 0):
        raise TraceError("select_last_index")
    v = w.value(x)
    axis = axis_of(n.attr("axis", 0), len(v.shape))
    return w.op(n.op.lower(), v, axis=(axis,), keepdims=bool(n.attr("keepdims", 1)))  # type: ignore[no-any-return]


# --- other sizes ------------------------------------------------------------------------------


@row("Resize", "Upsample")
def _resize(w: OnnxWriter, n: DecodedNode, x: Given, *more: Given) -> Value:
    v, mode = w.value(x), n.attr("mode", "nearest")
    old = n.op == "Upsample" or n.version < 11
    where = n.attr("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = n.attr("nearest_mode", "floor" if old else "round_prefer_floor")
    odd = n.attr("antialias", 0) or n.attr("keep_aspect_ratio_policy", "stretch") != "stretch"
    if mode not in ("nearest", "linear") or where not in _PLACES or odd:
        raise TraceError(f"mode {mode!r} with {where!r}, antialias or a kept aspect ratio")
    if old:
        scales = n.attr("scales") if n.version < 9 else w.known(more[0], "a scale").tolist()
        sizes: Any = None
    else:
        given = (*more, None, None, None)
        scales = None if given[1] is None or not given[1].size else given[1].tolist()
        sizes = None if given[2] is None else ints(given[2], "sizes")
    ndim = len(v.shape)
    along = [axis_of(a, ndim) for a in n.attr("axes") or range(ndim)]
    if not isinstance(sizes or scales, (tuple, list)) or len(sizes or scales) != len(along):
        raise TraceError(f"sizes {sizes}, scales {scales} of {len(along)} axes")
    for k, axis in enumerate(along):
        length = v.shape[axis]
        if sizes is not None:
            new = sizes[k]
            scale = float(np.float32(new) / np.float32(length))
        else:
            scale = scales[k]
            new = math.floor(np.float32(length) * np.float32(scale))
        if new < 1:
            raise TraceError(f"an axis of length {length} to {new}")
        w.room(*v.shape[:axis], new, *v.shape[axis + 1 :])
        if new == length and scale == 1:
            continue
        if old and scale < 1:
            raise TraceError("smaller sizes, in a version that rounds them in another way")
        if mode == "nearest":
            v = windows.taken(v, axis, _nearest(where, rounding, length, new, scale))
        else:
            v = windows.interpolated(v, axis, _PLACES[where](length, new, scale, float), w)
    return v


def _half_pixel(n: int, m: int, scale: float, dtype: Any) -> np.ndarray:
    one = dtype(0.5)
    return (np.arange(m).astype(dtype) + one) / dtype(scale) - one


def _symmetric(n: int, m: int, scale: float, dtype: Any) -> np.ndarray:
    shift = dtype(n / 2) * (dtype(1) - dtype(m) / (dtype(n) * dtype(scale)))
    return shift + _half_pixel(n, m, scale, dtype)


_PLACES: dict[str, Callable[[int, int, float, Any], np.ndarray]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda n, m, s, dtype: (
        _half_pixel(n, m, s, dtype) if m > 1 else np.zeros(1, dtype)
    ),
    "align_corners": lambda n, m, s, dtype: (
        np.arange(m).astype(dtype) * dtype(n - 1) / dtype(max(1, m - 1))
    ),
    "asymmetric": lambda n, m, s, dtype: np.arange(m).astype(dtype) / dtype(s),
}
"""Source positions of a resize from n to m numbers."""

_ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - x.dtype.type(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + x.dtype.type(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _nearest(where: str, rounding: str, n: int, m: int, scale: float) -> np.ndarray:
    if rounding not in _ROUNDED:
        raise TraceError(f"nearest_mode={rounding!r}")
    found = [
        np.clip(_ROUNDED[rounding](_PLACES[where](n, m, scale, dtype)), 0, n - 1).astype(int)
        for dtype in (np.float32, np.float64)
    ]
    if not np.array_equal(*found):
        raise TraceError("nearest neighbours that rounding decides")
    return found[0]
