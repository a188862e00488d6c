"""THE TABLE: one row per op.

A row says everything that xpapply knows about an op: what kind it is (which
fixes its shape rule, its batching rule and what may be fused with it), what
other libraries call it, how C++ writes it, or how it is composed of other
ops. Frontends find ops by the names, backends run them by the names, code
generation reads `c`, tests draw from `domain`, and the docs print the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Value


class Kind(Enum):
    """What fixes the shape rule and the batching rule of an op."""

    LEAF = "leaf"  # the input, a constant array, a number
    ELEMENTWISE = "elementwise"  # broadcasts as NumPy does
    REDUCTION = "reduction"  # takes axes away (or keeps them with length 1)
    CONTRACTION = "contraction"  # einsum
    LAYOUT = "layout"  # moves elements, computes nothing
    COMPOSITE = "composite"  # defined by other ops


@dataclass(frozen=True, slots=True)
class Op:
    """One row of the table.

    Attributes
    ----------
    name : str
        Name in graphs, and in the array API standard unless `api` says otherwise.
    kind : Kind
        Fixes the shape rule and the batching rule.
    doc : str
        One line for the docs.
    c : str
        C++ expression of the operands ``{0}``, ``{1}`` ...; ``T`` is their type. It
        spells NaN out: a comparison with NaN is false in C++ as in NumPy. For a
        reduction: how ``{1}`` joins what has come of the numbers before it; for argmax
        and argmin whether the number ``{1}`` takes the place of ``{0}``.
    api : str
        Name in the array API standard, where it differs.
    torch : tuple of str
        Further names of the op in torch.
    result : str
        dtype of the result: "same" as the operands, "bool", "int64", or "attr": the
        attribute `dtype`.
    define : callable
        For a composite: the definition, on `Value` operands and keyword attributes.
    domain : tuple of float
        Where tests draw operands from.
    """

    name: str
    kind: Kind
    doc: str = ""
    c: str = ""
    api: str = ""
    torch: tuple[str, ...] = ()
    result: str = "same"
    define: Callable[..., Value] | None = None
    domain: tuple[float, float] = (-50.0, 50.0)


class _Calls:
    """``F.exp(x)`` writes the op "exp" into the graph that `x` belongs to."""

    def __getattr__(self, name: str) -> Callable[..., Value]:
        def call(*operands: Any, **attrs: Any) -> Value:
            builder = next(x.builder for x in operands if hasattr(x, "builder"))
            result: Value = builder.op(name, *operands, **attrs)
            return result

        return call


F = _Calls()


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

_E, _R, _L, _C = Kind.ELEMENTWISE, Kind.REDUCTION, Kind.LAYOUT, Kind.COMPOSITE

_ROWS = [
    # leaves
    Op("input", Kind.LEAF, "the slice"),
    Op("length", Kind.LEAF, "how many elements the slice has"),
    Op("const", Kind.LEAF, "a constant array: an argument of every kernel, never baked in"),
    Op("scalar", Kind.LEAF, "a number, part of the graph's structure"),
    # arithmetic
    Op("add", _E, "a + b", c="({0} + {1})"),
    Op("subtract", _E, "a - b", c="({0} - {1})", torch=("sub",)),
    Op("multiply", _E, "a * b", c="({0} * {1})", torch=("mul",)),
    Op("divide", _E, "a / b", c="({0} / {1})", torch=("div", "true_divide", "truediv")),
    Op("negative", _E, "-a", c="(-{0})", torch=("neg",)),
    Op("abs", _E, "|a|", c="fabs({0})", torch=("absolute",)),
    Op("sqrt", _E, "square root", c="sqrt({0})", domain=(0, 1e6)),
    # a < b is false for NaN on either side, so NaN is asked for by its own
    Op("maximum", _E, "larger one, NaN wins", c="({0} > {1} || {0} != {0} ? {0} : {1})"),
    Op("minimum", _E, "smaller one, NaN wins", c="({0} < {1} || {0} != {0} ? {0} : {1})"),
    # transcendental
    Op("exp", _E, "exponential", c="exp({0})"),
    Op("expm1", _E, "exp(a) - 1", c="expm1({0})"),
    Op("log", _E, "natural logarithm", c="log({0})", domain=(0, 1e6)),
    Op("log1p", _E, "log(1 + a)", c="log1p({0})", domain=(-1, 1e6)),
    Op("tanh", _E, "hyperbolic tangent", c="tanh({0})"),
    Op("sin", _E, "sine", c="sin({0})"),
    Op("cos", _E, "cosine", c="cos({0})"),
    Op("tan", _E, "tangent", c="tan({0})"),
    Op("atan", _E, "inverse tangent", c="atan({0})", torch=("arctan",)),
    Op("atan2", _E, "angle of the point (b, a)", c="atan2({0}, {1})", torch=("arctan2",)),
    Op("sinh", _E, "hyperbolic sine", c="sinh({0})"),
    Op("cosh", _E, "hyperbolic cosine", c="cosh({0})"),
    Op("log2", _E, "logarithm to base 2", c="log2({0})", domain=(0, 1e6)),
    Op("log10", _E, "logarithm to base 10", c="log10({0})", domain=(0, 1e6)),
    Op("pow", _E, "a to the power of b", c="pow({0}, {1})", domain=(0.01, 10)),
    Op("erf", _E, "error function", c="erf({0})"),
    Op("erfc", _E, "1 - erf(a), without cancellation", c="erfc({0})"),
    # rounding
    Op("floor", _E, "largest whole number not above", c="floor({0})"),
    Op("ceil", _E, "smallest whole number not below", c="ceil({0})"),
    # comparison and choice
    Op("greater", _E, "a > b", c="({0} > {1})", torch=("gt",), result="bool"),
    Op("greater_equal", _E, "a >= b", c="({0} >= {1})", torch=("ge",), result="bool"),
    Op("less", _E, "a < b", c="({0} < {1})", torch=("lt",), result="bool"),
    Op("less_equal", _E, "a <= b", c="({0} <= {1})", torch=("le",), result="bool"),
    Op("equal", _E, "a == b", c="({0} == {1})", torch=("eq",), result="bool"),
    Op("not_equal", _E, "a != b", c="({0} != {1})", torch=("ne",), result="bool"),
    Op("isfinite", _E, "neither infinite nor NaN", c="({0} - {0} == {0} - {0})", result="bool"),
    Op("logical_and", _E, "a and b", c="({0} && {1})", result="bool"),
    Op("logical_or", _E, "a or b", c="({0} || {1})", result="bool"),
    Op("logical_not", _E, "not a", c="(!{0})", result="bool"),
    Op("where", _E, "b where a, else c", c="({0} ? {1} : {2})"),
    Op("cast", _E, "another dtype", c="T({0})", result="attr"),
    # reductions
    Op("sum", _R, "sum", c="({0} + {1})"),
    Op("prod", _R, "product", c="({0} * {1})", domain=(-2, 2)),
    Op("max", _R, "largest, NaN wins", c="({0} > {1} || {0} != {0} ? {0} : {1})", torch=("amax",)),
    Op("min", _R, "smallest, NaN wins", c="({0} < {1} || {0} != {0} ? {0} : {1})", torch=("amin",)),
    Op(
        "argmax",
        _R,
        "position of the largest: of the first NaN, else of the first of equal ones",
        c="({1} > {0} || ({1} != {1} && {0} == {0}))",
        result="int64",
    ),
    Op(
        "argmin",
        _R,
        "position of the smallest: of the first NaN, else of the first of equal ones",
        c="({1} < {0} || ({1} != {1} && {0} == {0}))",
        result="int64",
    ),
    # contraction
    Op("einsum", Kind.CONTRACTION, "sum of products; a product with a weight matrix is nm,m->n"),
    # layout
    Op("reshape", _L, "another shape, C order"),
    Op("permute_dims", _L, "axes in another order"),
    Op("broadcast_to", _L, "repeat along axes of length 1"),
    Op("concat", _L, "join along an axis"),
    Op("index", _L, "integers, slices and new axes"),
    # composites: reductions
    Op("mean", _C, "mean", define=_mean),
    Op("var", _C, "variance, two passes", define=_var),
    Op("softmax", _C, "exp(a) / sum(exp(a)), shifted by the maximum", define=_softmax),
    Op("log_softmax", _C, "log(softmax(a)), shifted by the maximum", define=_log_softmax),
    Op("standardize", _C, "(a - mean) / sqrt(var + eps)", define=_standardize),
    # composites: activations, with the arguments and defaults of torch.nn.functional
    Op("square", _C, "a * a", define=lambda x: x * x),
    Op("reciprocal", _C, "1 / a", define=lambda x: 1.0 / x),
    Op("rsqrt", _C, "1 / sqrt(a)", define=lambda x: 1.0 / F.sqrt(x), domain=(0.01, 1e6)),
    Op("relu", _C, "max(a, 0)", c="xpapply_relu({0})", define=lambda x: F.maximum(x, 0.0)),
    Op(
        "leaky_relu",
        _C,
        "a where a > 0, else slope * a",
        define=lambda x, negative_slope=0.01: F.where(x > 0.0, x, x * negative_slope),
    ),
    Op(
        "prelu",
        _C,
        "leaky_relu with a learnt slope",
        define=lambda x, weight: F.where(x > 0.0, x, x * weight),
    ),
    Op(
        "elu",
        _C,
        "a where a > 0, else alpha * expm1(a)",
        define=lambda x, alpha=1.0: F.where(x > 0.0, x, F.expm1(x) * alpha),
    ),
    Op(
        "celu",
        _C,
        "a where a > 0, else alpha * expm1(a / alpha)",
        define=lambda x, alpha=1.0: F.where(x > 0.0, x, F.expm1(x / alpha) * alpha),
    ),
    Op(
        "selu",
        _C,
        "scaled elu that keeps mean 0 and variance 1",
        define=lambda x: F.where(x > 0.0, x, F.expm1(x) * _SELU_ALPHA) * _SELU_SCALE,
    ),
    Op("gelu", _C, "a * normal distribution function of a", define=_gelu),
    Op(
        "sigmoid",
        _C,
        "1 / (1 + exp(-a))",
        torch=("expit",),
        define=lambda x: 1.0 / (F.exp(-x) + 1.0),
    ),
    Op("log_sigmoid", _C, "log(sigmoid(a))", torch=("logsigmoid",), define=_log_sigmoid),
    Op("silu", _C, "a * sigmoid(a)", define=lambda x: x / (F.exp(-x) + 1.0)),
    Op("mish", _C, "a * tanh(softplus(a))", define=lambda x: x * F.tanh(_softplus(x))),
    Op("softplus", _C, "log(1 + exp(beta a)) / beta", define=_softplus),
    Op("softsign", _C, "a / (1 + |a|)", define=lambda x: x / (F.abs(x) + 1.0)),
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
        define=lambda x, min_val=-1.0, max_val=1.0: F.minimum(F.maximum(x, min_val), max_val),
    ),
    Op("relu6", _C, "a, clipped to 0 ... 6", define=lambda x: F.minimum(F.maximum(x, 0.0), 6.0)),
    Op(
        "hardsigmoid",
        _C,
        "(a + 3) / 6, clipped to 0 ... 1",
        define=lambda x: F.relu6(x + 3.0) / 6.0,
    ),
    Op(
        "hardswish",
        _C,
        "a * hardsigmoid(a)",
        define=lambda x: x * F.relu6(x + 3.0) / 6.0,
    ),
]

OPS: dict[str, Op] = {row.name: row for row in _ROWS}
