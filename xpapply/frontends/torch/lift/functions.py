"""Rules of torch functions: the nodes that they add.

Functions whose op is a row of the table need nothing here; the others have a few lines below,
and those that change shapes in `shape_functions.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ....errors import InputError, TraceError
from ....ir.ops import OPS, Kind
from ....ir.rewrite import MATVEC
from .proxy import Proxy, Recorder, refuse
from .shape_functions import SHAPE_RULES, axes_of, axis_of, chunk, device_among, joined, like
from .windows import WINDOW_RULES


def _meta(x: Any) -> Any:
    """`x` for torch's own promotion rules."""
    if isinstance(x, Proxy):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    if isinstance(x, torch.Tensor):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    return x


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """`torch.broadcast_shapes` without SymPy, whose import takes half a second."""
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def _promoted(*operands: Any) -> torch.dtype:
    """torch's own promotion, which looks at the number of dims too."""
    metas = [_meta(x) for x in operands]
    first: Any = metas[0]
    if not any(isinstance(x, torch.Tensor) for x in metas):  # where(condition, 1.0, 2.0)
        whole = all(isinstance(x, (bool, int)) for x in metas)
        return torch.int64 if whole else torch.get_default_dtype()
    for other in metas[1:]:
        shapes = [getattr(x, "shape", ()) for x in (first, other)]
        shape = _broadcast(*shapes)
        first = torch.empty(shape, dtype=torch.result_type(first, other), device="meta")
    return first.dtype  # type: ignore[no-any-return]


def _elementwise(name: str) -> Callable[..., Proxy]:
    """A row of the table as a torch function of tensors."""

    def rule(r: Recorder, *operands: Any) -> Proxy:
        chosen = operands[1:] if name == "where" else operands
        dtype = _promoted(*chosen)
        if not dtype.is_floating_point and OPS[name].result != "bool":
            raise TraceError(f"{name} of {dtype} values inside a network")
        values: list[Any] = []
        for i, x in enumerate(operands):
            if isinstance(x, (bool, int, float)):
                values.append(r.number(x, dtype))
            elif isinstance(x, Proxy) and x.dtype == torch.int64 == dtype:
                values.append(x.value)  # positions are compared with each other
            else:
                condition = name == "where" and i == 0
                values.append(r.value(x, torch.bool if condition else dtype))
        result = r.builder.op(name, *values)
        return like(
            r, result, torch.bool if OPS[name].result == "bool" else dtype, device_among(operands)
        )

    return rule


def _composite(name: str) -> Callable[..., Proxy]:
    """A composite row as a torch function: same arguments, same defaults."""
    parameters = OPS[name].parameters

    def rule(r: Recorder, input: Any, *args: Any, **kwargs: Any) -> Proxy:
        attrs = dict(zip(parameters, args, strict=False)) | kwargs
        tensors = {k: v for k, v in attrs.items() if isinstance(v, (torch.Tensor, Proxy))}
        operands = [input, *tensors.values()]
        values = [r.value(x, input.dtype) for x in operands]
        rest = {k: v for k, v in attrs.items() if k not in tensors}
        unknown = set(rest) - set(parameters)
        if unknown:
            raise TraceError(f"{name} with {', '.join(sorted(unknown))}")
        return like(r, r.builder.op(name, *values, **rest), input.dtype, input.device)

    return rule


def _rows() -> dict[str, Callable[..., Proxy]]:
    """The rows of the table that are torch functions as they stand."""
    return _rows_of(len(OPS))  # one may have come


@functools.cache
def _rows_of(_: int) -> dict[str, Callable[..., Proxy]]:
    found: dict[str, Callable[..., Proxy]] = {}
    for row in OPS.values():
        if row.kind is Kind.ELEMENTWISE and row.name != "cast":
            rule = _elementwise(row.name)
        elif row.kind is Kind.REDUCTION:
            rule = (_position if row.finds_position else _reduction)(row.name)
        elif row.kind is Kind.COMPOSITE and row.name not in _RULES:
            along = _reduction if "keepdims" in row.parameters else _along
            rule = (along if "axis" in row.parameters else _composite)(row.name)
        else:
            continue
        found |= dict.fromkeys((row.name, *row.torch), rule)
    return found


# --- functions that need more than a row ---------------------------------------------


def _linear(r: Recorder, input: Proxy, weight: Any, bias: Any = None) -> Proxy:
    if type(weight) is Proxy or not isinstance(weight, torch.Tensor):
        raise TraceError("linear with weights that depend on the slice")
    if input.dtype != weight.dtype:
        raise TraceError(f"linear of {input.dtype} values with {weight.dtype} weights")
    m = input.shape[-1] if input.shape else 0
    if m != weight.shape[-1]:
        what = r.layer(weight, "a Linear layer")
        first = r.is_slice(input)
        raise InputError(
            f"{what} takes {weight.shape[-1]} features, its input has {m} (shape "
            f"{tuple(input.shape)}). "
            + ("Is `axis` the feature axis?" if first else "What comes before it gives so many.")
        )
    batch = "abcdefgh"[: input.ndim - 1]
    out = batch + ("n" if weight.ndim == 2 else "")
    subscripts = f"{'n' if weight.ndim == 2 else ''}m,{batch}m->{out}"
    assert batch or weight.ndim == 1 or subscripts == MATVEC
    y = r.builder.op("einsum", r.value(weight), input.value, subscripts=subscripts)
    if bias is not None:
        y = y + r.value(bias, input.dtype)
    return like(r, y, input.dtype, input.device)


def _matmul(r: Recorder, a: Any, b: Any) -> Proxy:
    if not all(isinstance(x, (torch.Tensor, Proxy)) for x in (a, b)):
        raise TypeError(f"matmul of {type(a).__name__} and {type(b).__name__}")
    if type(b) is not Proxy and b.ndim <= 2:
        return _linear(r, a, b.mT if b.ndim == 2 else b)
    if type(a) is not Proxy and b.ndim == 1:
        return _linear(r, b, a)
    left, right = ("ij"[-a.ndim :], "jk"[: b.ndim]) if max(a.ndim, b.ndim) <= 2 else ("", "")
    if not left or not right:
        raise TraceError(f"matmul of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    left = "j" if a.ndim == 1 else left
    dtype = joined((a, b))
    out = "".join(k for k in left + right if k != "j")
    y = r.builder.op(
        "einsum", r.value(a, dtype), r.value(b, dtype), subscripts=f"{left},{right}->{out}"
    )
    return like(r, y, dtype, device_among((a, b)))


def _addmm(r: Recorder, input: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Proxy:
    if beta != 1 or alpha != 1:
        raise TraceError("addmm with beta or alpha")
    return _rows()["add"](r, _matmul(r, a, b), input)


def _batch_norm(
    r: Recorder,
    input: Proxy,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Proxy:
    if training or running_mean is None:
        if running_mean is None:
            why, then = "has no running statistics", "Train it with track_running_stats=True"
        else:
            why, then = "is in training mode", "Call .eval() on the model first"
        raise InputError(
            f"a BatchNorm layer {why}, so it normalises over the batch: slices depend on each "
            f"other. {then}."
        )
    if input.ndim < 2 or input.shape[1] != len(running_mean):
        raise TraceError(
            f"batch_norm of shape {tuple(input.shape)}: expected (1, {len(running_mean)})"
        )
    # in float64: the scale is folded into the layer before it and rounded once
    scale = 1 / torch.sqrt(running_var.double() + eps)
    scale = scale if weight is None else scale * weight.double()
    shift = -running_mean.double() * scale
    shift = shift if bias is None else shift + bias.double()
    shape = (-1, *(1,) * (input.ndim - 2))
    factors = [t.reshape(shape).to(input.dtype) for t in (scale, shift)]
    y = input.value * r.value(factors[0]) + r.value(factors[1])
    return like(r, y, input.dtype, input.device)


def _layer_norm(
    r: Recorder,
    input: Proxy,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Proxy:
    if not input.dtype.is_floating_point:
        raise TraceError(f"layer_norm of {input.dtype} values")
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    if tuple(input.shape[-len(axes) :]) != tuple(normalized_shape):
        raise InputError(
            f"a LayerNorm takes shape {tuple(normalized_shape)}, its input has {tuple(input.shape)}"
        )
    y = r.builder.op("standardize", input.value, axis=axes, eps=eps)
    y = y if weight is None else y * r.value(weight, input.dtype)
    y = y if bias is None else y + r.value(bias, input.dtype)
    return like(r, y, input.dtype, input.device)


def _dropout(r: Recorder, input: Proxy, p: float = 0.5, training: bool = True) -> Proxy:
    if training and p > 0:
        raise InputError(
            f"dropout(p={p}) is in training mode, so its answer is random. Call .eval() on the "
            "model first; where `forward` calls F.dropout, pass it training=self.training."
        )
    return input


def _along(name: str) -> Callable[..., Proxy]:
    """softmax and log_softmax."""

    def rule(
        r: Recorder, input: Proxy, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None
    ) -> Proxy:
        if isinstance(_stacklevel, torch.dtype):  # torch.softmax(x, dim, dtype)
            dtype = _stacklevel
        if dim is None:  # torch's deprecated guess
            dim = 0 if input.ndim in (0, 1, 3) else 1
        dtype = dtype or input.dtype
        y = r.builder.op(name, r.value(input, dtype), axis=axis_of(dim, input.ndim))
        return like(r, y, dtype, input.device)

    return rule


def _reduction(name: str) -> Callable[..., Proxy]:
    def rule(
        r: Recorder, input: Proxy, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Proxy:
        if name in _EXTREMES and isinstance(dim, (torch.Tensor, Proxy)):  # torch.max(a, b)
            return _rows()[f"{name}imum"](r, input, dim)
        if name in _EXTREMES and dim is not None:
            values, indices = (rule(r, input, dim, keepdim) for rule in _EXTREMES[name])
            return getattr(torch.return_types, name)((values, indices))
        dtype = dtype or input.dtype
        if not dtype.is_floating_point and name in ("sum", "prod", "mean"):
            raise TraceError(f"{name} of {dtype} values gives integers")
        axes = axes_of(dim, input.ndim)
        y = r.value(input, dtype)
        if axes:
            y = r.builder.op(name, y, axis=axes, keepdims=keepdim)
        return like(r, y, dtype, input.device)

    return rule


def _amax(name: str) -> Callable[..., Proxy]:
    def rule(r: Recorder, input: Proxy, dim: Any = (), keepdim: bool = False) -> Proxy:
        axes = axes_of(dim, input.ndim)
        y = input.value
        if axes:
            y = r.builder.op(name, y, axis=axes, keepdims=keepdim)
        return like(r, y, input.dtype, input.device)

    return rule


def _position(name: str) -> Callable[..., Proxy]:
    """argmax and argmin; of all numbers where no dim is given."""

    def rule(r: Recorder, input: Proxy, dim: int | None = None, keepdim: bool = False) -> Proxy:
        if input.dtype == torch.bool:
            raise TraceError(f"{name} of truth values")
        if not input.ndim:
            raise TraceError(f"{name} of one number")
        x = input.value
        if dim is None:
            y = r.builder.op("reshape", x, shape=(input.shape.numel(),))
            y = r.builder.op(name, y, axis=(0,), keepdims=False)
            if keepdim:
                y = r.builder.op("reshape", y, shape=(1,) * input.ndim)
        else:
            y = r.builder.op(name, x, axis=(axis_of(dim, input.ndim),), keepdims=keepdim)
        return like(r, y, torch.int64, input.device)

    return rule


_EXTREMES = {k: (_amax(k), _position(f"arg{k}")) for k in ("max", "min")}
"""Rules of ``torch.max(x, dim)`` and min: values and indices."""


def _var(
    r: Recorder,
    input: Proxy,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Proxy:
    if isinstance(dim, bool):  # the overload x.var(unbiased)
        unbiased, dim = dim, None
    correction = float(unbiased) if correction is None else correction
    if not input.dtype.is_floating_point:
        raise TraceError(f"the variance of {input.dtype} values")
    if not axes_of(dim, input.ndim):
        raise TraceError("the variance of one number")
    y = r.builder.op(
        "var", input.value, axis=axes_of(dim, input.ndim), correction=correction, keepdims=keepdim
    )
    return like(r, y, input.dtype, input.device)


def _std(r: Recorder, *args: Any, **kwargs: Any) -> Proxy:
    return _rows()["sqrt"](r, _var(r, *args, **kwargs))


def _pow(r: Recorder, input: Any, exponent: Any) -> Proxy:
    multiply = _rows()["multiply"]
    if not isinstance(exponent, (int, float)):
        raise TraceError(f"a power of a {type(exponent).__name__}: numbers are known")
    if exponent == 2:
        return multiply(r, input, input)
    if exponent == 3:
        return multiply(r, multiply(r, input, input), input)
    if exponent == 0.5:
        return _rows()["sqrt"](r, input)
    if exponent in (-1, -0.5):
        return _rows()["reciprocal" if exponent == -1 else "rsqrt"](r, input)
    raise TraceError(f"a power of {exponent!r}: 2, 3, 0.5, -0.5 and -1 are known")


def _clamp(r: Recorder, input: Proxy, min: Any = None, max: Any = None) -> Proxy:
    if min is not None:
        input = _rows()["maximum"](r, input, min)
    return input if max is None else _rows()["minimum"](r, input, max)


def _prelu(r: Recorder, input: Proxy, weight: Any) -> Proxy:
    """One slope for all, or one per channel: axis 1 of a batch."""
    slopes = weight.numel() if isinstance(weight, torch.Tensor) else 0
    if type(weight) is Proxy or not slopes or (slopes > 1 and input.ndim < 2):
        raise TraceError(f"prelu with {slopes} slopes on shape {tuple(input.shape)}")
    if slopes > 1 and input.shape[1] != slopes:
        raise InputError(f"a PReLU has {slopes} slopes, its input shape {tuple(input.shape)}")
    slope = r.value(weight, input.dtype)
    if slopes > 1 and input.ndim > 2:
        slope = r.builder.op("reshape", slope, shape=(slopes, *(1,) * (input.ndim - 2)))
    return like(r, r.builder.op("prelu", input.value, slope), input.dtype, input.device)


def _glu(r: Recorder, input: Proxy, dim: int = -1) -> Proxy:
    if input.shape[axis_of(dim, input.ndim)] % 2:
        raise TraceError(f"glu of an odd length, shape {tuple(input.shape)}")
    a, b = chunk(r, input, 2, dim)
    return _rows()["multiply"](r, a, _rows()["sigmoid"](r, b))


def _to(r: Recorder, input: Proxy, *args: Any, **kwargs: Any) -> Proxy:
    """.to(...): another dtype is a cast; another device is where everything runs anyway."""
    dtype = input.dtype
    for a in (*args, *kwargs.values()):
        if isinstance(a, (torch.dtype, torch.Tensor)):
            dtype = a if isinstance(a, torch.dtype) else a.dtype
    if dtype == input.dtype:
        # torch returns the very tensor, unless it is asked for a copy
        return _clone(r, input) if kwargs.get("copy") else input
    if dtype in (torch.float16, torch.bfloat16) and input.dtype.is_floating_point:
        raise TraceError(f"rounding to {dtype} inside a network")
    return like(r, r.cast(input.value, dtype), dtype, input.device)


def _to_dtype(dtype: torch.dtype) -> Callable[..., Proxy]:
    return lambda r, input: _to(r, input, dtype)


def _same(r: Recorder, input: Proxy, *args: Any, **kwargs: Any) -> Proxy:
    return input


def _clone(r: Recorder, input: Proxy, **kwargs: Any) -> Proxy:
    return like(r, input.value, input.dtype, input.device)


def _size(r: Recorder, input: Proxy, dim: int | None = None) -> Any:
    return input.shape if dim is None else input.shape[dim]


_RULES: dict[str, Callable[..., Any]] = (
    SHAPE_RULES
    | WINDOW_RULES
    | {
        "linear": _linear,
        "matmul": _matmul,
        "mm": _matmul,
        "mv": _matmul,
        "dot": _matmul,
        "rmatmul": lambda r, a, b: _matmul(r, a, b),
        "addmm": _addmm,
        "batch_norm": _batch_norm,
        "layer_norm": _layer_norm,
        "dropout": _dropout,
        "alpha_dropout": _dropout,
        "feature_dropout": _dropout,
        "feature_alpha_dropout": _dropout,
        "dropout1d": _dropout,
        "prelu": _prelu,
        "softmin": lambda r, input, dim=None, _stacklevel=3, dtype=None: _along("softmax")(
            r, _rows()["negative"](r, input), dim, dtype=dtype
        ),
        "amax": _amax("max"),
        "amin": _amax("min"),
        "var": _var,
        "std": _std,
        "pow": _pow,
        "clamp": _clamp,
        "clip": _clamp,
        "clamp_min": lambda r, input, min: _clamp(r, input, min),
        "clamp_max": lambda r, input, max: _clamp(r, input, None, max),
        # one truth value; the row of that name is torch.eq
        "equal": lambda r, input, other: refuse("torch.equal")(input),
        "glu": _glu,
        "to": _to,
        "type_as": _to,
        "float": _to_dtype(torch.float32),
        "double": _to_dtype(torch.float64),
        "long": _to_dtype(torch.int64),
        "half": _to_dtype(torch.float16),
        "bfloat16": _to_dtype(torch.bfloat16),
        "contiguous": _same,
        "detach": _same,
        "cpu": _same,
        "cuda": _same,
        "requires_grad": _same,
        "clone": _clone,
        "size": _size,
        "dim": lambda r, input: input.ndim,
        "numel": lambda r, input: input.shape.numel(),
        "is_floating_point": lambda r, input: input.dtype.is_floating_point,
    }
)


def find(name: str) -> Callable[..., Any] | None:
    """The rule of the function of this name, or None."""
    return _RULES.get(name) or _rows().get(name)
