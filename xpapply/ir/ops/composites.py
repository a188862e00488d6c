"""Rows of ops that other ops define: activations, softmax, variance."""

from __future__ import annotations

import math

from .row import LINEAR, F, Kind, Op, Value

_C = Kind.COMPOSITE


def _softmax(x: Value, axis: int) -> Value:
    e = F.exp(x - F.max(x, axis=(axis,), keepdims=True))
    return e / F.sum(e, axis=(axis,), keepdims=True)


def _log_softmax(x: Value, axis: int) -> Value:
    shifted = x - F.max(x, axis=(axis,), keepdims=True)
    return shifted - F.log(F.sum(F.exp(shifted), axis=(axis,), keepdims=True))


def _mean(x: Value, axis: tuple[int, ...], keepdims: bool = False) -> Value:
    return F.sum(x, axis=axis, keepdims=keepdims) / math.prod(x.shape[a] for a in axis)


def _var(x: Value, axis: tuple[int, ...], correction: float = 0, keepdims: bool = False) -> Value:
    # two passes: the squares of the differences do not cancel
    n = math.prod(x.shape[a] for a in axis)
    centred = x - F.mean(x, axis=axis, keepdims=True)
    return F.sum(centred * centred, axis=axis, keepdims=keepdims) / (n - correction)


def _standardize(x: Value, axis: tuple[int, ...], eps: float) -> Value:
    centred = x - F.mean(x, axis=axis, keepdims=True)
    variance = F.mean(centred * centred, axis=axis, keepdims=True)
    return centred / F.sqrt(variance + eps)


def _softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    z = x * beta
    return F.where(z > threshold, x, F.log1p(F.exp(z)) / beta)


def _log_sigmoid(x: Value) -> Value:
    return F.minimum(x, 0.0) - F.log1p(F.exp(-F.abs(x)))


def _gelu(x: Value, approximate: str = "none") -> Value:
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (F.tanh(inner) + 1.0)
    # erfc instead of 1 + erf: no cancellation for negative x
    return x * 0.5 * F.erfc(x * -math.sqrt(0.5))


_SELU_ALPHA = 1.6732632423543772848170429916717  # Klambauer et al. 2017, arXiv 1706.02515
_SELU_SCALE = 1.0507009873554804934193349852946

ROWS = [
    # composites: reductions
    Op("mean", _C, "mean", define=_mean),
    Op("var", _C, "variance, two passes", define=_var),
    Op(
        "softmax",
        _C,
        "exp(a) / sum(exp(a)), shifted by the maximum",
        activation="Softmax",
        define=_softmax,
    ),
    Op(
        "log_softmax",
        _C,
        "log(softmax(a)), shifted by the maximum",
        activation="LogSoftmax",
        define=_log_softmax,
    ),
    Op("standardize", _C, "(a - mean) / sqrt(var + eps)", define=_standardize),
    # composites: activations, with the arguments and defaults of torch.nn.functional
    Op("square", _C, "a * a", define=lambda x: x * x),
    Op("reciprocal", _C, "1 / a", define=lambda x: 1.0 / x),
    Op("rsqrt", _C, "1 / sqrt(a)", define=lambda x: 1.0 / F.sqrt(x), domain=(0.01, 1e6)),
    Op(
        "relu",
        _C,
        "max(a, 0)",
        c="xpapply_relu({0})",
        llvm="relu relu same",
        instructions=1.0,
        rising=True,
        **LINEAR,
        activation="ReLU",
        define=lambda x: F.maximum(x, 0.0),
    ),
    Op(
        "leaky_relu",
        _C,
        "a where a > 0, else slope * a",
        activation="LeakyReLU",
        define=lambda x, negative_slope=0.01: F.where(x > 0.0, x, x * negative_slope),
    ),
    Op(
        "prelu",
        _C,
        "leaky_relu with a learnt slope",
        activation="PReLU",
        define=lambda x, weight: F.where(x > 0.0, x, x * weight),
    ),
    Op(
        "elu",
        _C,
        "a where a > 0, else alpha * expm1(a)",
        activation="ELU",
        define=lambda x, alpha=1.0: F.where(x > 0.0, x, F.expm1(x) * alpha),
    ),
    Op(
        "celu",
        _C,
        "a where a > 0, else alpha * expm1(a / alpha)",
        activation="CELU",
        define=lambda x, alpha=1.0: F.where(x > 0.0, x, F.expm1(x / alpha) * alpha),
    ),
    Op(
        "selu",
        _C,
        "scaled elu that keeps mean 0 and variance 1",
        activation="SELU",
        define=lambda x: F.where(x > 0.0, x, F.expm1(x) * _SELU_ALPHA) * _SELU_SCALE,
    ),
    Op(
        "gelu",
        _C,
        "a * normal distribution function of a",
        llvm="gelu",
        activation="GELU",
        define=_gelu,
    ),
    Op(
        "sigmoid",
        _C,
        "1 / (1 + exp(-a))",
        torch=("expit",),
        activation="Sigmoid",
        define=lambda x: 1.0 / (F.exp(-x) + 1.0),
    ),
    Op(
        "log_sigmoid",
        _C,
        "log(sigmoid(a))",
        llvm="log_sigmoid",
        torch=("logsigmoid",),
        define=_log_sigmoid,
    ),
    Op("silu", _C, "a * sigmoid(a)", activation="SiLU", define=lambda x: x / (F.exp(-x) + 1.0)),
    Op(
        "mish",
        _C,
        "a * tanh(softplus(a))",
        llvm="mish",
        activation="Mish",
        define=lambda x: x * F.tanh(_softplus(x)),
    ),
    Op(
        "softplus",
        _C,
        "log(1 + exp(beta a)) / beta",
        llvm="softplus",
        activation="Softplus",
        define=_softplus,
    ),
    Op(
        "softsign",
        _C,
        "a / (1 + |a|)",
        activation="Softsign",
        define=lambda x: x / (F.abs(x) + 1.0),
    ),
    Op("tanhshrink", _C, "a - tanh(a)", define=lambda x: x - F.tanh(x)),
    Op(
        "softshrink",
        _C,
        "a moved towards 0 by lambd",
        define=lambda x, lambd=0.5: F.where(
            x > lambd, x - lambd, F.where(x < -lambd, x + lambd, x * 0.0)
        ),
    ),
    Op(
        "hardshrink",
        _C,
        "0 where |a| <= lambd",
        define=lambda x, lambd=0.5: F.where(F.abs(x) <= lambd, 0.0, x),
    ),
    Op(
        "hardtanh",
        _C,
        "a, clipped",
        activation="Hardtanh",
        define=lambda x, min_val=-1.0, max_val=1.0: F.minimum(F.maximum(x, min_val), max_val),
    ),
    Op(
        "relu6",
        _C,
        "a, clipped to 0 ... 6",
        activation="ReLU6",
        define=lambda x: F.minimum(F.maximum(x, 0.0), 6.0),
    ),
    Op(
        "hardsigmoid",
        _C,
        "(a + 3) / 6, clipped to 0 ... 1",
        activation="Hardsigmoid",
        define=lambda x: F.relu6(x + 3.0) / 6.0,
    ),
    Op(
        "hardswish",
        _C,
        "a * hardsigmoid(a)",
        activation="Hardswish",
        define=lambda x: x * F.relu6(x + 3.0) / 6.0,
    ),
]
