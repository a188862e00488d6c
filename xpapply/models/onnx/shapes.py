"""Operators that join, cut and rearrange values, and those that say how long things are."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from ...errors import TraceError
from ...ir.builder import Value
from ...ir.ops import F
from ...ir.tiles import windows
from .program import DecodedNode, ints
from .writer import Given, OnnxWriter, axis_of, row

_ALL = (None, None, None)
"""The key of a whole axis in an index."""


def _given_ints(n: DecodedNode, x: Given, name: str, since: int) -> tuple[int, ...] | None:
    """Whole numbers that are an input, and before a version an attribute."""
    if n.version < since:
        found: tuple[int, ...] | None = n.attr(name)
        return found
    return None if x is None else ints(x, name)


# --- other shapes -----------------------------------------------------------------------------


@row("Identity", "Dropout")
def _identity(w: OnnxWriter, n: DecodedNode, x: Given, *more: Given) -> Given:
    training = more[1] if len(more) > 1 else None
    if training is not None and w.known(training, "training_mode").any():
        raise TraceError("dropout in training mode draws random numbers")
    return x


@row("Reshape")
def _reshape(w: OnnxWriter, n: DecodedNode, x: Given, shape: Given) -> Value:
    v = w.value(x)
    zero = bool(n.attr("allowzero", 0))
    wanted = [
        v.shape[k] if m == 0 and not zero else m for k, m in enumerate(ints(shape, "a shape"))
    ]
    if wanted.count(-1) == 1:
        rest = math.prod(m for m in wanted if m != -1)
        if rest <= 0 or math.prod(v.shape) % rest:
            raise TraceError(f"{v.shape} as {tuple(wanted)}")
        wanted[wanted.index(-1)] = math.prod(v.shape) // rest
    return F.reshape(v, shape=w.room(*wanted))  # type: ignore[no-any-return]


@row("Flatten")
def _flatten(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    axis = n.attr("axis", 1)
    axis = axis + len(v.shape) if axis < 0 else axis
    shape = (math.prod(v.shape[:axis]), math.prod(v.shape[axis:]))
    return F.reshape(v, shape=shape)  # type: ignore[no-any-return]


@row("Squeeze")
def _squeeze(w: OnnxWriter, n: DecodedNode, x: Given, axes: Given = None) -> Value:
    v = w.value(x)
    found = _given_ints(n, axes, "axes", 13)
    if found is None:
        if not isinstance(x, np.ndarray):
            raise TraceError("without axes, so that it would take the axis of batches of one away")
        found = tuple(a for a, m in enumerate(v.shape) if m == 1)
    gone = {axis_of(a, len(v.shape)) for a in found}
    if any(v.shape[a] != 1 for a in gone):
        raise TraceError(f"axes {tuple(found)} of shape {v.shape}")
    return F.reshape(v, shape=tuple(m for a, m in enumerate(v.shape) if a not in gone))  # type: ignore[no-any-return]


@row("Unsqueeze")
def _unsqueeze(w: OnnxWriter, n: DecodedNode, x: Given, axes: Given = None) -> Value:
    v = w.value(x)
    found = _given_ints(n, axes, "axes", 13) or ()
    ndim = len(v.shape) + len(found)
    new = {axis_of(a, ndim) for a in found}
    old = iter(v.shape)
    return F.reshape(v, shape=tuple(1 if a in new else next(old) for a in range(ndim)))  # type: ignore[no-any-return]


@row("Transpose")
def _transpose(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    axes = n.attr("perm") or tuple(range(len(v.shape)))[::-1]
    if sorted(axes) != list(range(len(v.shape))):
        raise TraceError(f"perm={axes} of shape {v.shape}")
    return F.permute_dims(v, axes=tuple(axes))  # type: ignore[no-any-return]


@row("Expand")
def _expand(w: OnnxWriter, n: DecodedNode, x: Given, shape: Given) -> Value:
    v = w.value(x)
    wanted = w.room(*ints(shape, "a shape"))
    whole = w.room(*np.broadcast_shapes(v.shape, wanted))
    if whole == v.shape:
        return v
    v = F.reshape(v, shape=(1,) * (len(whole) - len(v.shape)) + v.shape)
    return F.broadcast_to(v, shape=whole)  # type: ignore[no-any-return]


@row("Tile")
def _tile(w: OnnxWriter, n: DecodedNode, x: Given, repeats: Given) -> Value:
    v = w.value(x)
    times = w.room(*ints(repeats, "repeats"))
    shape = v.shape
    if len(times) != len(shape):
        raise TraceError(f"{times} repeats of shape {shape}")
    w.room(*(m * k for m, k in zip(shape, times, strict=True)))
    for axis, k in enumerate(times):
        if k != 1:
            before, rest = v.shape[:axis], v.shape[axis:]
            v = F.reshape(v, shape=(*before, 1, *rest))
            v = F.broadcast_to(v, shape=(*before, k, *rest))
            v = F.reshape(v, shape=(*before, k * rest[0], *rest[1:]))
    return v


@row("DepthToSpace", "SpaceToDepth")
def _blocks(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    b, k, h, s = n.attr("blocksize"), *v.shape[1:]
    lead = v.shape[:1]
    if n.op == "SpaceToDepth":
        v = F.reshape(v, shape=(*lead, k, h // b, b, s // b, b))
        v = F.permute_dims(v, axes=(0, 3, 5, 1, 2, 4))
        return F.reshape(v, shape=(*lead, k * b * b, h // b, s // b))  # type: ignore[no-any-return]
    if n.attr("mode", "DCR") == "DCR":
        v = F.reshape(v, shape=(*lead, b, b, k // (b * b), h, s))
        v = F.permute_dims(v, axes=(0, 3, 4, 1, 5, 2))
    else:
        v = F.reshape(v, shape=(*lead, k // (b * b), b, b, h, s))
        v = F.permute_dims(v, axes=(0, 1, 4, 2, 5, 3))
    return F.reshape(v, shape=(*lead, k // (b * b), h * b, s * b))  # type: ignore[no-any-return]


# --- parts ------------------------------------------------------------------------------------


@row("Concat")
def _concat(w: OnnxWriter, n: DecodedNode, *parts: Given) -> Value:
    values = [w.value(x) for x in parts]
    axis = axis_of(n.attr("axis"), len(values[0].shape))
    return values[0] if len(values) == 1 else w.op("concat", *values, axis=axis)  # type: ignore[no-any-return]


def cut(v: Value, axis: int, start: int, stop: int) -> Value:
    """A part of an axis."""
    return F.index(v, key=(*(_ALL,) * axis, (start, stop, 1)))  # type: ignore[no-any-return]


@row("Slice")
def _slice(
    w: OnnxWriter,
    n: DecodedNode,
    x: Given,
    starts: Given = None,
    ends: Given = None,
    axes: Given = None,
    steps: Given = None,
) -> Value:
    v = w.value(x)
    begin, end = (_given_ints(n, k, s, 10) for k, s in ((starts, "starts"), (ends, "ends")))
    along = _given_ints(n, axes, "axes", 10)
    by = None if steps is None else ints(steps, "steps")
    assert begin is not None
    assert end is not None
    along = tuple(range(len(begin))) if along is None else along
    by = (1,) * len(begin) if by is None else by
    for start, stop, a, step in zip(begin, end, along, by, strict=True):
        axis = axis_of(a, len(v.shape))
        places = range(*slice(start, stop, step).indices(v.shape[axis]))
        if step < 0:
            v = windows.taken(v, axis, places)
        elif len(places) < v.shape[axis]:
            key = (*(_ALL,) * axis, (places.start, max(places.start, places.stop), step))
            v = F.index(v, key=key)
    return v


@row("Gather")
def _gather(w: OnnxWriter, n: DecodedNode, x: Given, indices: Given) -> Value:
    v = w.value(x)
    axis = axis_of(n.attr("axis", 0), len(v.shape))
    length = v.shape[axis]
    places = w.known(indices, "a place that is looked up")
    flat = ints(places, "places")
    if any(not -length <= k < length for k in flat):
        raise TraceError(f"places outside an axis of length {length}")
    w.room(*v.shape[:axis], len(flat), *v.shape[axis + 1 :])
    flat = tuple(k % length for k in flat)
    if places.ndim == 0:
        return F.index(v, key=(*(_ALL,) * axis, flat[0]))  # type: ignore[no-any-return]
    if flat and flat == tuple(range(flat[0], flat[0] + len(flat))):
        y = cut(v, axis, flat[0], flat[0] + len(flat))
    else:
        y = windows.taken(v, axis, flat)
    shape = (*v.shape[:axis], *places.shape, *v.shape[axis + 1 :])
    return y if places.ndim == 1 else F.reshape(y, shape=shape)  # type: ignore[no-any-return]


@row("Split")
def _split(w: OnnxWriter, n: DecodedNode, x: Given, split: Given = None) -> list[Value]:
    v = w.value(x)
    axis = axis_of(n.attr("axis", 0), len(v.shape))
    sizes = _given_ints(n, split, "split", 13)
    if sizes is None:
        each = -(-v.shape[axis] // len(n.outputs))
        sizes = (each,) * (len(n.outputs) - 1)
        sizes = (*sizes, v.shape[axis] - sum(sizes))
    ends = np.cumsum((0, *sizes)).tolist()
    if ends[-1] != v.shape[axis] or min(sizes) < 0:
        raise TraceError(f"an axis of length {v.shape[axis]} in parts of {sizes}")
    return [cut(v, axis, a, b) for a, b in itertools.pairwise(ends)]


@row("Pad")
def _pad(
    w: OnnxWriter,
    n: DecodedNode,
    x: Given,
    pads: Given = None,
    number: Given = None,
    axes: Given = None,
) -> Value:
    v = w.value(x)
    ndim, mode = len(v.shape), n.attr("mode", "constant")
    widths = _given_ints(n, pads, "pads", 11) or ()
    along = [axis_of(a, ndim) for a in (range(ndim) if axes is None else ints(axes, "axes"))]
    if len(widths) != 2 * len(along):
        raise TraceError(f"{len(widths)} pads of {len(along)} axes")
    pairs = [(0, 0)] * ndim
    for k, a in enumerate(along):
        pairs[a] = (widths[k], widths[k + len(along)])
    w.room(*(max(0, m + sum(pair)) for m, pair in zip(v.shape, pairs, strict=True)))
    if mode == "constant":
        with_ = n.attr("value", 0.0) if n.version < 11 or number is None else number
        value = w.known(with_, "a padding").item() if hasattr(with_, "shape") else with_
        return windows.padded_axes(v, 0, pairs, float(value))
    names = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    for axis, (before, after) in enumerate(pairs):
        most = v.shape[axis] - (mode == "reflect")
        if min(before, after) < 0 or (mode != "edge" and max(before, after) > most):
            raise TraceError(f"pads of {before} and {after} with mode={mode!r}")
        if before or after:
            v = windows.extended(v, axis, before, after, names[mode])
    return v


# --- what is known while the graph is written -------------------------------------------------


@row("Shape")
def _shape(w: OnnxWriter, n: DecodedNode, x: Given) -> np.ndarray:
    return np.array(x.shape[n.attr("start", 0) : n.attr("end")], np.int64)


@row("Size")
def _size(w: OnnxWriter, n: DecodedNode, x: Given) -> np.ndarray:
    return np.array(math.prod(x.shape), np.int64)


@row("Constant")
def _constant(w: OnnxWriter, n: DecodedNode) -> np.ndarray:
    for name, value in n.attrs.items():
        if name == "value" and value is not None:
            return value  # type: ignore[no-any-return]
        if name in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.array(value, np.int64)
    raise TraceError("a constant of texts, or of another dtype than graphs have")


@row("ConstantOfShape")
def _filled(w: OnnxWriter, n: DecodedNode, shape: Given) -> Value:
    value = n.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    number = w.scalar(value.ravel()[0].item(), value.dtype.name)
    return F.broadcast_to(number, shape=w.room(*ints(shape, "a shape")))  # type: ignore[no-any-return]


@row("Range")
def _range(w: OnnxWriter, n: DecodedNode, start: Given, limit: Given, delta: Given) -> np.ndarray:
    first, last, step = (w.known(x, "a range").item() for x in (start, limit, delta))
    w.room(max(0, math.ceil((last - first) / step)))
    return np.arange(first, last, step, dtype=start.dtype)


@row("Einsum")
def _einsum(w: OnnxWriter, n: DecodedNode, *operands: Given) -> Value:
    equation = n.attr("equation").replace(" ", "")
    if not re.fullmatch(r"[a-z]+(,[a-z]+)*->[a-z]*", equation):
        raise TraceError(f"the equation {equation!r}: letters and an arrow are known")
    sources = equation.partition("->")[0].split(",")
    if any(len(set(s)) < len(s) for s in sources):
        raise TraceError(f"the equation {equation!r} takes a diagonal")
    return w.op("einsum", *map(w.value, operands), subscripts=equation)  # type: ignore[no-any-return]
