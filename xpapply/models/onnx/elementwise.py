"""Operators that work on each number: arithmetic, activations, comparisons, dtypes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...errors import TraceError
from ...ir.ops import F
from .program import DTYPES, HALVES, DecodedNode
from .writer import Given, OnnxWriter, Row, row

_SAME = {
    "Abs": "abs",
    "Neg": "negative",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Erf": "erf",
    "Tanh": "tanh",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Floor": "floor",
    "Ceil": "ceil",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "HardSwish": "hardswish",
    "Mish": "mish",
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "not_equal",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Where": "where",
}
"""Operators that are rows of the op table, by their names there."""


def _same(name: str) -> Row:
    def write(w: OnnxWriter, n: DecodedNode, *operands: Given) -> Any:
        return w.op(name, *w.alike(*operands))

    return write


for _onnx, _name in _SAME.items():
    row(_onnx)(_same(_name))


def _integers(*operands: Given) -> bool:
    return any(x.dtype.kind in "iu" for x in operands)


@row("Div", "Mod")
def _div(w: OnnxWriter, n: DecodedNode, a: Given, b: Given) -> Any:
    """Divide; integers, which are shapes and so constants, are truncated."""
    if n.op == "Div" and not _integers(a, b):
        return w.op("divide", *w.alike(a, b))
    x, y = w.known(a, "a quotient of integers"), w.known(b, "a quotient of integers")
    if not (y != 0).all():
        raise TraceError("a division by zero")
    w.room(*np.broadcast_shapes(x.shape, y.shape))
    if n.op == "Mod":
        return np.asarray(np.fmod(x, y) if n.attr("fmod") else np.mod(x, y))
    q = np.floor_divide(x, y)
    return np.asarray(q + ((q < 0) & (q * y != x)), x.dtype)


@row("Pow")
def _pow(w: OnnxWriter, n: DecodedNode, x: Given, y: Given) -> Any:
    if _integers(x):
        base, exponent = w.known(x, "a power of integers"), w.known(y, "a power of integers")
        w.room(*np.broadcast_shapes(base.shape, exponent.shape))
        return np.asarray(np.power(base.astype(float), exponent), base.dtype)
    if isinstance(y, np.ndarray) and y.size == 1:
        k, v = float(y.item()), w.value(x)
        if y.ndim <= len(v.shape) and k in (1, 2, 3, -1):
            return 1.0 / v if k == -1 else functools.reduce(lambda a, b: a * b, [v] * int(k))
    if isinstance(y, np.ndarray):
        y = w.made(y, x.dtype.name, lambda: y.astype(x.dtype))
    a, b = w.alike(x, y)
    return w.op("pow", a, b if a.aval.dtype == b.aval.dtype else _cast(w, b, a.aval.dtype))


def _cast(w: OnnxWriter, x: Any, dtype: str) -> Any:
    if x.aval.dtype == dtype:
        return x
    if dtype == "bool":
        return w.op("not_equal", x, 0)
    return w.op("cast", x, dtype=dtype)


@row("Cast", "CastLike")
def _to(w: OnnxWriter, n: DecodedNode, x: Given, like: Given = None) -> Any:
    if n.op == "CastLike":
        dtype = like.dtype.name
    else:
        dtype = DTYPES.get(n.attr("to"), "")
    if not dtype:
        raise TraceError(f"a cast to the dtype {n.attr('to')}")
    if dtype in HALVES:
        if not w.half:
            raise TraceError(f"rounding to {dtype} inside a model")
        dtype = "float32"
    if isinstance(x, np.ndarray):
        with np.errstate(all="ignore"):
            return x.astype(dtype)
    return _cast(w, x, dtype)


@row("Clip")
def _clip(w: OnnxWriter, n: DecodedNode, x: Given, low: Given = None, high: Given = None) -> Any:
    y = w.value(x)
    if n.version < 11:
        low, high = n.attr("min"), n.attr("max")
    for limit, op in ((low, "maximum"), (high, "minimum")):
        if limit is not None:
            y = w.op(op, *(w.alike(y, limit) if hasattr(limit, "shape") else (y, limit)))
    return y


@row("Min", "Max", "Sum", "Mean")
def _of_several(w: OnnxWriter, n: DecodedNode, *operands: Given) -> Any:
    op = {"Min": "minimum", "Max": "maximum"}.get(n.op, "add")
    if not operands:
        raise TraceError("without any input")
    values = w.alike(*operands)
    y = functools.reduce(lambda a, b: w.op(op, a, b), values)
    return y / len(values) if n.op == "Mean" else y


@row("IsNaN")
def _is_nan(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = w.value(x)
    return v != v


@row("IsInf")
def _is_inf(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = w.value(x)
    if not n.attr("detect_negative", 1):
        return v == math.inf
    return v == -math.inf if not n.attr("detect_positive", 1) else F.abs(v) == math.inf


@row("Sign")
def _sign(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = w.value(x)
    return F.where(v > 0, 1, F.where(v < 0, -1, F.where(v == v, 0, v)))  # NaN stays


@row("LeakyRelu")
def _leaky(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    return w.op("leaky_relu", w.value(x), negative_slope=n.number("alpha", 0.01))


@row("PRelu")
def _prelu(w: OnnxWriter, n: DecodedNode, x: Given, slope: Given) -> Any:
    return w.op("prelu", *w.alike(x, slope))


@row("Elu", "Celu")
def _elu(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    return w.op(n.op.lower(), w.value(x), alpha=n.number("alpha", 1.0))


@row("Selu")
def _selu(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = w.value(x)
    alpha, gamma = n.number("alpha", 1.67326319217681884765625), n.number("gamma", 1.0507010221)
    return F.where(v > 0.0, v, F.expm1(v) * alpha) * gamma


@row("ThresholdedRelu")
def _thresholded(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = w.value(x)
    return F.where(v > n.number("alpha", 1.0), v, 0.0)


@row("Shrink")
def _shrink(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v, bias, by = w.value(x), n.number("bias", 0.0), n.number("lambd", 0.5)
    return F.where(v < -by, v + bias, F.where(v > by, v - bias, 0.0))


@row("HardSigmoid")
def _hard_sigmoid(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    y = w.value(x) * n.number("alpha", 0.2) + n.number("beta", 0.5)
    return F.minimum(F.maximum(y, 0.0), 1.0)


@row("Gelu")
def _gelu(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    return w.op("gelu", w.value(x), approximate=n.attr("approximate", "none"))


@row("Swish")
def _swish(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v, alpha = w.value(x), n.number("alpha", 1.0)
    return w.op("silu", v) if alpha == 1 else v / (F.exp(v * -alpha) + 1.0)
