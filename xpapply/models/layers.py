"""Layers of a model as nodes of the graph: one row per kind."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..functions.cache import remembered
from ..ir.builder import Value
from ..ir.ops import OPS, F
from ..ir.tiles import windows
from ..mlp import known_activations, similar

Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer: kind, name in the file, weights, parameters."""

    kind: str
    name: str = ""
    weights: Weights = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [f"{k}={v}" for k, v in self.parameters.items() if v != _defaults(self.kind).get(k)]
        w = self.weights.get("weight")
        if self.kind in ("linear", "conv") and w is not None:
            n, m = w.shape[0], w.shape[1] * self.parameters.get("groups", 1)
            taps = "x".join(map(str, w.shape[2:]))
            shown = [f"{m}-{n}", *([taps] if taps else []), *shown]
        kind = f"conv{w.ndim - 2}d" if self.kind == "conv" and w is not None else self.kind
        return " ".join([kind, *shown])

    def write(self, x: Value) -> Value:
        """Write its nodes."""
        kind = KINDS.get(self.kind)
        if kind is not None:
            return kind.write(x, self)
        return _activation(x, self)


@dataclass(frozen=True)
class LayerKind:
    """A kind of layer: its writer, weights, and parameters with defaults.

    Weights whose names end in "?" may be missing; a parameter whose default is ``...`` may not.
    """

    write: Callable[[Value, Layer], Value]
    weights: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[Callable[[Any], Any], Any]] = field(default_factory=dict)


def made(kind: str, given: Mapping[str, Any], name: str = "", weights: Weights = {}) -> Layer:  # noqa: B006
    """A layer with its parameters checked.

    Raises
    ------
    InputError
        If there is no such kind, or no such parameter of it.
    """
    label = f"layer {name!r} ({kind})" if name else f"layer {kind!r}"
    if kind not in KINDS and kind not in activations():
        hint = similar(kind)
        raise InputError(f"unknown layer {kind!r}{hint or ': known are ' + ', '.join(every())}")
    checks = KINDS[kind].parameters if kind in KINDS else _of_activation(kind)
    unknown = sorted(set(given) - set(checks))
    if unknown:
        has = f"it has {', '.join(checks)}" if checks else "it has none"
        raise InputError(f"{label}: unknown parameter {', '.join(map(repr, unknown))}: {has}")
    found = {}
    for key, (check, default) in checks.items():
        if key not in given:
            if default is ...:
                raise InputError(f"{label} needs the parameter {key!r}")
            found[key] = default
            continue
        try:
            found[key] = check(given[key])
        except (TypeError, ValueError) as error:
            raise InputError(f"{label}: {key}={given[key]!r}: {error}") from None
    wanted = KINDS[kind].weights if kind in KINDS else ()
    names = {n.rstrip("?") for n in wanted}
    missing = [n for n in wanted if not n.endswith("?") and n not in weights]
    if missing or not set(weights) <= names:
        has = ", ".join(f"{k} {x.shape}" for k, x in weights.items()) or "none"
        raise InputError(f"{label} has the weights {', '.join(wanted) or 'none'}: found {has}")
    return _looked_at(Layer(kind, name, weights, found), label)


def every() -> list[str]:
    """The names of all kinds."""
    return [*KINDS, *activations()]


def activations() -> tuple[str, ...]:
    """The names of those that are ops without weights."""
    return _activations(len(OPS))  # one may have come


@remembered(4)
def _activations(_: int) -> tuple[str, ...]:
    return tuple(known_activations())


def _defaults(kind: str) -> dict[str, Any]:
    checks = KINDS[kind].parameters if kind in KINDS else _of_activation(kind)
    return {k: default for k, (_, default) in checks.items()}


# --- parameters ---------------------------------------------------------------------------------


def _number(x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, (int, float)) or not math.isfinite(x):
        raise TypeError("a number was expected")
    return float(x)


def _flag(x: Any) -> bool:
    if not isinstance(x, bool):
        raise TypeError("true or false was expected")
    return x


def _whole(x: Any, least: int, most: int = 1 << 20) -> int:
    if isinstance(x, (bool, str)) or not least <= operator.index(x) <= most:
        raise ValueError(f"an integer from {least} to {most} was expected")
    return operator.index(x)


def _each(least: int) -> Callable[[Any], Any]:
    """An integer, or one for each axis of places."""

    def check(x: Any) -> Any:
        if not isinstance(x, (list, tuple)):
            return _whole(x, least)
        if not 1 <= len(x) <= 3:
            raise ValueError("one number for each axis of places was expected, 1 to 3 of them")
        return tuple(_whole(e, least) for e in x)

    return check


def _padding(x: Any) -> Any:
    return x if x in ("same", "valid") else _each(0)(x)


def _shape(x: Any) -> tuple[int, ...]:
    if not isinstance(x, (list, tuple)) or not 1 <= len(x) <= 8:
        raise ValueError("a list of 1 to 8 lengths was expected")
    return tuple(_whole(n, 1, 1 << 31) for n in x)


def _axis(x: Any) -> int:
    return _whole(x, -8, 8)


def _approximate(x: Any) -> str:
    if x not in ("none", "tanh"):
        raise ValueError("'none' or 'tanh' was expected")
    return str(x)


def _of_activation(kind: str) -> dict[str, tuple[Callable[[Any], Any], Any]]:
    if kind == "identity":
        return {}
    found: dict[str, tuple[Callable[[Any], Any], Any]] = {}
    for name, p in OPS[kind].parameters.items():
        if name == "axis":
            found[name] = (_axis, None)
        else:
            found[name] = (_approximate if name == "approximate" else _number, p.default)
    return found


# --- weights ------------------------------------------------------------------------------------


def _looked_at(layer: Layer, label: str) -> Layer:
    """The layer, if its weights have shapes that fit each other."""
    shapes = {k: x.shape for k, x in layer.weights.items()}
    weight, first = layer.weights.get("weight"), next(iter(shapes.values()), ())
    fine = True
    if layer.kind == "linear":
        assert weight is not None
        fine = weight.ndim == 2 and shapes.get("bias", shapes["weight"][:1]) == weight.shape[:1]
    elif layer.kind == "conv":
        assert weight is not None
        fine = 3 <= weight.ndim <= 5 and shapes.get("bias", weight.shape[:1]) == weight.shape[:1]
        fine = fine and weight.shape[0] % layer.parameters["groups"] == 0
    elif layer.kind == "layer_norm":
        fine = len(first) >= 1 and len({*shapes.values()}) == 1
    elif shapes:
        fine = len(first) == 1 and len({*shapes.values()}) == 1
    if not fine or any(0 in s for s in shapes.values()):
        found = ", ".join(f"{k} {s}" for k, s in shapes.items())
        raise InputError(f"{label}: weights that do not fit each other: {found}")
    if (layer.weights.get("running_var", np.zeros(1)) < 0).any():
        raise InputError(f"{label}: a variance below zero: the file is damaged")
    return layer


def _const(x: Value, array: np.ndarray, *shape: int) -> Any:
    array = array.astype(x.aval.dtype, copy=False)
    return x.builder.const(array.reshape(shape) if shape else array)


def _scaled(x: Value, layer: Layer, first: int) -> Any:
    """The weight times, and the bias added: along axis `first` of the value."""
    after = (1,) * (len(x.shape) - first - 1)
    for name, op in (("weight", operator.mul), ("bias", operator.add)):
        if name in layer.weights:
            x = op(x, _const(x, layer.weights[name], -1, *after))
    return x


# --- layers -------------------------------------------------------------------------------------


def _linear(x: Value, layer: Layer) -> Value:
    w = layer.weights["weight"]
    if not x.shape or x.shape[-1] != w.shape[1]:
        hint = ""
        if math.prod(x.shape) == w.shape[1]:
            hint = ". A layer 'flatten' before it is missing"
        raise InputError(
            f"{_called(layer)} takes {w.shape[1]} numbers, it gets shape {x.shape}{hint}"
        )
    batch = "abcdefgh"[: len(x.shape) - 1]
    y: Value = F.einsum(_const(x, w), x, subscripts=f"nm,{batch}m->{batch}n")
    return y + _const(y, layer.weights["bias"]) if "bias" in layer.weights else y


def _conv(x: Value, layer: Layer) -> Value:
    w, p = layer.weights["weight"], layer.parameters
    n, groups = w.ndim - 2, p["groups"]
    if len(x.shape) == n and w.shape[1] * groups == 1:
        x = F.reshape(x, shape=(1, *x.shape))  # an image without its one channel
    if len(x.shape) != n + 1 or x.shape[0] != w.shape[1] * groups:
        places = ", ".join(("depth", "height", "width")[3 - n :]) if n > 1 else "length"
        raise InputError(
            f"{_called(layer)} takes slices ({w.shape[1] * groups} channels, {places}), it gets "
            f"shape {x.shape}"
        )
    steps, apart = _for_each(layer, "stride", n), _for_each(layer, "dilation", n)
    pads = p["padding"] if isinstance(p["padding"], str) else _for_each(layer, "padding", n)
    what = _called(layer)
    widths = windows.sides(what, pads, w.shape[2:], steps, apart)
    filters = _const(x, w if groups == 1 else w.reshape(groups, -1, *w.shape[1:]))
    y = windows.convolution(what, x, filters, 0, widths, steps, apart, groups)
    if "bias" in layer.weights:
        y = y + _const(y, layer.weights["bias"], -1, *(1,) * n)
    return y


def _for_each(layer: Layer, name: str, n: int) -> tuple[int, ...]:
    found = windows.each(layer.parameters[name], n)
    if len(found) != n:
        raise InputError(f"{_called(layer)}: {name}={found} for {n} axes of places")
    return found


def _called(layer: Layer) -> str:
    return f"layer {layer.name!r} ({layer})" if layer.name else f"layer {layer}"


def _batch_norm(x: Value, layer: Layer) -> Value:
    of = layer.weights
    if not x.shape or x.shape[0] != len(of["running_mean"]):
        raise InputError(
            f"{_called(layer)} takes {len(of['running_mean'])} channels, it gets shape {x.shape}"
        )
    # in float64: the scale is folded into the layer before it and rounded once
    wide = {k: v.astype(np.float64) for k, v in of.items()}
    scale = wide.get("weight", 1.0) / np.sqrt(wide["running_var"] + layer.parameters["eps"])
    shift = wide.get("bias", 0.0) - wide["running_mean"] * scale
    after = (1,) * (len(x.shape) - 1)
    y: Value = x * _const(x, scale, -1, *after) + _const(x, shift, -1, *after)
    return y


def _layer_norm(x: Value, layer: Layer) -> Value:
    shape = next((w.shape for w in layer.weights.values()), x.shape)
    axes = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    if x.shape[len(x.shape) - len(shape) :] != shape:
        raise InputError(f"{_called(layer)} takes shape {shape}, it gets {x.shape}")
    y: Value = F.standardize(x, axis=axes, eps=layer.parameters["eps"])
    for name, op in (("weight", operator.mul), ("bias", operator.add)):
        if name in layer.weights:
            y = op(y, _const(y, layer.weights[name]))
    return y


def _group_norm(x: Value, layer: Layer) -> Value:
    groups = layer.parameters["groups"]
    channels = len(next(iter(layer.weights.values()), np.empty(x.shape[:1])))
    if not x.shape or x.shape[0] != channels or channels % groups:
        raise InputError(
            f"{_called(layer)} of {channels} channels in {groups} groups gets shape {x.shape}"
        )
    parts = F.reshape(x, shape=(groups, math.prod(x.shape) // groups))
    parts = F.standardize(parts, axis=(1,), eps=layer.parameters["eps"])
    found: Value = _scaled(F.reshape(parts, shape=x.shape), layer, 0)
    return found


def _prelu(x: Value, layer: Layer) -> Value:
    slope = layer.weights["weight"]
    if len(slope) == 1:
        return F.prelu(x, _const(x, slope))
    if not x.shape or x.shape[0] != len(slope):
        raise InputError(f"{_called(layer)} has {len(slope)} slopes, it gets shape {x.shape}")
    return F.prelu(x, _const(x, slope, -1, *(1,) * (len(x.shape) - 1)))


def _places(x: Value, layer: Layer) -> int:
    if not 2 <= len(x.shape) <= 4:
        raise InputError(f"{_called(layer)} takes (channels, places ...), it gets shape {x.shape}")
    return len(x.shape) - 1


def _pool_sizes(x: Value, layer: Layer, names: tuple[str, ...]) -> tuple[int, Any]:
    n = _places(x, layer)
    given = [layer.parameters[k] for k in names]
    return n, [
        None if g is None else _for_each(layer, k, n) for k, g in zip(names, given, strict=True)
    ]


def _max_pool(x: Value, layer: Layer) -> Value:
    n, (size, step, padding, apart) = _pool_sizes(
        x, layer, ("size", "stride", "padding", "dilation")
    )
    ceil = layer.parameters["ceil_mode"]
    return windows.max_pool(_called(layer), x, 1, size, step, padding, apart, ceil, n)


def _avg_pool(x: Value, layer: Layer) -> Value:
    n, (size, step, padding) = _pool_sizes(x, layer, ("size", "stride", "padding"))
    ceil, counts = layer.parameters["ceil_mode"], layer.parameters["count_include_pad"]
    return windows.avg_pool(_called(layer), x, 1, size, step, padding, ceil, counts, None, n)


def _adaptive(op: str) -> Callable[[Value, Layer], Value]:
    def write(x: Value, layer: Layer) -> Value:
        _, (sizes,) = _pool_sizes(x, layer, ("size",))
        return windows.adaptive(op, x, 1, sizes)

    return write


def _flatten(x: Value, layer: Layer) -> Value:
    return F.reshape(x, shape=(math.prod(x.shape),)) if len(x.shape) != 1 else x


def _reshape(x: Value, layer: Layer) -> Value:
    shape = layer.parameters["shape"]
    if math.prod(shape) != math.prod(x.shape):
        raise InputError(f"{_called(layer)} gets shape {x.shape}")
    return F.reshape(x, shape=shape)


def _activation(x: Value, layer: Layer) -> Value:
    if layer.kind == "identity":
        return x
    attrs = dict(layer.parameters)
    if "axis" in attrs:
        n, axis = len(x.shape), attrs["axis"]
        if axis is None and n != 1:
            raise InputError(f"layer {layer.kind!r} gets shape {x.shape}: say along which axis")
        axis = 0 if axis is None else axis
        if not -n <= axis < n:
            raise InputError(f"layer {layer.kind!r} along axis {axis} gets shape {x.shape}")
        attrs["axis"] = axis % n
    own = OPS[layer.kind].parameters
    attrs = {k: v for k, v in attrs.items() if k == "axis" or v != own[k].default}
    return x.builder.op(layer.kind, x, **attrs)  # type: ignore[no-any-return]


_EPS = {"eps": (_number, 1e-5)}
_WINDOW: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "size": (_each(1), ...),
    "stride": (_each(1), None),
    "padding": (_each(0), 0),
}

KINDS: dict[str, LayerKind] = {
    "linear": LayerKind(_linear, ("weight", "bias?")),
    "conv": LayerKind(
        _conv,
        ("weight", "bias?"),
        {
            "stride": (_each(1), 1),
            "padding": (_padding, 0),
            "dilation": (_each(1), 1),
            "groups": (lambda x: _whole(x, 1), 1),
        },
    ),
    "batch_norm": LayerKind(_batch_norm, ("running_mean", "running_var", "weight?", "bias?"), _EPS),
    "layer_norm": LayerKind(_layer_norm, ("weight?", "bias?"), _EPS),
    "group_norm": LayerKind(
        _group_norm, ("weight?", "bias?"), {"groups": (lambda x: _whole(x, 1), ...), **_EPS}
    ),
    "prelu": LayerKind(_prelu, ("weight",)),
    "max_pool": LayerKind(
        _max_pool, (), {**_WINDOW, "dilation": (_each(1), 1), "ceil_mode": (_flag, False)}
    ),
    "avg_pool": LayerKind(
        _avg_pool,
        (),
        {**_WINDOW, "ceil_mode": (_flag, False), "count_include_pad": (_flag, True)},
    ),
    "adaptive_max_pool": LayerKind(_adaptive("max"), (), {"size": (_each(1), ...)}),
    "adaptive_avg_pool": LayerKind(_adaptive("mean"), (), {"size": (_each(1), ...)}),
    "flatten": LayerKind(_flatten),
    "reshape": LayerKind(_reshape, (), {"shape": (_shape, ...)}),
    "dropout": LayerKind(lambda x, layer: x),
}
"""The rows: what they are called in lists of layers, with torch's names of parameters."""
