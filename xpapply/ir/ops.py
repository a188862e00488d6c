"""THE TABLE: one row per op.

A row says everything that xpapply knows about an op: what kind it is (which
fixes its shape rule, its batching rule and what may be fused with it), what
other libraries call it, how C++ writes it, or how it is composed of other
ops. Frontends find ops by the names, backends run them by the names, code
generation reads `c`, tests draw from `domain`, and the docs print the rows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

Value = Any
"""An `ir.builder.Value`."""


class Kind(Enum):
    """What fixes the shape rule and the batching rule of an op."""

    LEAF = "leaf"  # the input, a constant array, a number
    ELEMENTWISE = "elementwise"  # broadcasts as NumPy does
    REDUCTION = "reduction"  # takes axes away (or keeps them with length 1)
    CONTRACTION = "contraction"  # einsum
    ALONG = "along"  # orders, adds up or picks numbers along an axis, which stays
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
        and argmin whether the number ``{1}`` takes the place of ``{0}``. Functions have
        their names of float64; kernels write those of float32, with an f behind.
    int_c : str
        C++ expression of integers, where it is another.
    slice_c : str
        C++ expression in slice kernels, where these have a function for it.
    tensor_c : str
        The same in kernels on tensor cores, of float32.
    llvm : str or callable
        How kernels for CPUs write it: a word for floats, one for signed integers and one for
        those without a sign and booleans; the last stands for those that are not there, but
        one alone is for floats. A word is an instruction of LLVM, a condition of its
        comparisons, a function of `xpapply.codegen.llvm.functions`, or else one of LLVM's own
        functions. Or a function of the `Writer` and the operands that writes it, of floats.
    api : str
        Name in the array API standard, where it differs.
    torch : tuple of str
        Further names of the op in torch.
    result : str
        dtype of the result: "same" as the operands, "bool", "int64", or "attr": the
        attribute `dtype`.
    define : callable
        For a composite: the definition, on `Value` operands and keyword attributes.
    join : str
        For a reduction, and one whose steps are all kept: the elementwise op that joins two
        numbers.
    identity : float
        For a reduction: the number that changes nothing. In a dtype without infinities its
        smallest or largest number stands for them.
    instructions : float
        What one element takes in a kernel: for choosing between kernels.
    needs_registers : bool
        Its function in C++ needs registers of its own: threads take fewer slices at a time.
    keeps_finite : bool
        Finite operands give finite results, but for overflow.
    homogeneous : bool
        A power of two that multiplies the operand multiplies the result.
    shows : tuple of int
        The operands whose infinities and NaN are seen in the result, which then is one, too.
    silent : bool
        NumPy never warns of it.
    compares : bool
        Compares two numbers.
    complex : bool
        NumPy has it for complex numbers.
    in_special : bool
        Libraries have it in their copy of `scipy.special`, not beside the others.
    activation : str
        Its name in ``torch.nn`` (or in torch, as a function), if `xpapply.testing` is to
        draw networks with it.
    inexact : bool
        Its last bits may be others than NumPy's, of floats.
    jumps : bool
        The smallest change of an operand may change the result by much.
    edges : tuple of float
        Where NumPy begins to warn of operands, of the last one.
    off : callable
        A bound of how far the result may be off, of the operands and then of how far each of
        them may be off: also while an expression is being written. Where it is not given none
        is known.
    error : callable
        How far the result may be off where the operand is off by `e`, of the arrays
        ``(x, e, f(x), near)``; `near` is the least magnitude that the operand may have.
        Where it is not given: by `e`.
    domain : tuple of float
        Where tests draw operands from.
    """

    name: str
    kind: Kind
    doc: str = ""
    c: str = ""
    int_c: str = ""
    slice_c: str = ""
    tensor_c: str = ""
    llvm: str | Callable[..., Any] = ""
    api: str = ""
    torch: tuple[str, ...] = ()
    result: str = "same"
    define: Callable[..., Value] | None = None
    join: str = ""
    identity: float | None = None
    instructions: float = 25.0
    needs_registers: bool = False
    keeps_finite: bool = False
    homogeneous: bool = False
    shows: tuple[int, ...] = ()
    silent: bool = False
    compares: bool = False
    complex: bool = False
    in_special: bool = False
    activation: str = ""
    inexact: bool = False
    jumps: bool = False
    edges: tuple[float, ...] = ()
    off: Callable[..., Any] | None = None
    error: Callable[[Any, Any, Any, Any], Any] | None = None
    domain: tuple[float, float] = (-50.0, 50.0)

    @property
    def finds_position(self) -> bool:
        """Whether it is a reduction to the position of a number."""
        return self.kind is Kind.REDUCTION and self.result == "int64"

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What a composite takes besides its operand."""
        if self.define is None:
            return {}
        _, *found = inspect.signature(self.define).parameters.values()
        return {p.name: p for p in found}


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
_A = Kind.ALONG
_LARGER, _SMALLER = (f"({{0}} {sign} {{1}} || {{0}} != {{0}} ? {{0}} : {{1}})" for sign in "><")
_LINEAR: dict[str, Any] = {"keeps_finite": True, "homogeneous": True}


# --- rows that have columns in common -------------------------------------------------


def _short(name: str, doc: str, c: str, **columns: Any) -> Op:
    """One instruction or two."""
    return Op(name, _E, doc, c, instructions=1.0, **columns)


def _sum(name: str, doc: str, c: str, **columns: Any) -> Op:
    """A sum, difference or product."""
    usual: dict[str, Any] = {"keeps_finite": True, "shows": (0, 1), "complex": True}
    return _short(name, doc, c, **usual | {"off": _off_by_both} | columns)


def _comparison(name: str, doc: str, c: str, **columns: Any) -> Op:
    """A comparison of two numbers."""
    return _short(name, doc, c, result="bool", compares=True, jumps=True, **columns)


def _function(name: str, doc: str, **columns: Any) -> Op:
    """A function of one number that C calls by the same name; NumPy has it of complex ones."""
    usual: dict[str, Any] = {"complex": True, "llvm": name, "inexact": True}
    return Op(name, _E, doc, f"{name}({{0}})", **usual | columns)


def _inverse(torch: str) -> dict[str, Any]:
    """Of an inverse sine or cosine."""
    usual = {"shows": (0,), "torch": (torch,), "error": _error_of_arc, "domain": (-1, 1)}
    return {**usual, "edges": (-1.0, 1.0)}


def _series(name: str, doc: str, **columns: Any) -> Op:
    """Such a function that C computes by a series of many terms."""
    return _function(name, doc, needs_registers=True, **columns)


# --- how errors grow ------------------------------------------------------------------


def _off_by_both(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    return ea + eb


def _off_of_product(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    return abs(a) * eb + (abs(b) + eb) * ea


def _off_of_exp(a: Any, e: Any) -> Any:
    return np.exp(a) * np.where(e < 1, 2 * e, math.inf)


def _off_of_log(a: Any, e: Any) -> Any:
    # of what is at least twice as large as it may be off: other operands are looked at
    return 3 * e / abs(a)


def _off_of_quotient(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    # of divisors that are at least twice as large as they may be off: others are looked at
    return (ea + abs(a / b) * eb) * 2 / abs(b)


def _error_of_exp(x: Any, e: Any, v: Any, near: Any) -> Any:
    return np.where(e < 1, v * np.expm1(np.minimum(e, 1)), np.exp(x + e))


def _error_of_expm1(x: Any, e: Any, v: Any, near: Any) -> Any:
    return np.where(e < 1, np.exp(x) * np.expm1(np.minimum(e, 1)), np.exp(x + e))


def _error_of_sqrt(x: Any, e: Any, v: Any, near: Any) -> Any:
    return np.fmin(e / (2 * v), np.sqrt(e))


def _error_of_arc(x: Any, e: Any, v: Any, near: Any) -> Any:
    # as far as to an end, where the slope has none
    return np.fmin(e / np.sqrt(np.maximum(1 - x * x, 0)), np.sqrt(2 * e) * 2)


def _error_of_erf(x: Any, e: Any, v: Any, near: Any) -> Any:
    return np.minimum(2.0, e * (1.13 * np.exp(-near * near)))


def _error_of_erfc(x: Any, e: Any, v: Any, near: Any) -> Any:
    # torch's float64 GELU, what results are compared with, has 1 + erf(x), which cancels
    return np.minimum(2.0, e * (1.13 * np.exp(-near * near)) + 2.0**-52)


# --- the table ------------------------------------------------------------------------

_ROWS = [
    # leaves
    Op("input", Kind.LEAF, "the slice"),
    Op("length", Kind.LEAF, "how many elements the slice has"),
    Op("const", Kind.LEAF, "a constant array: an argument of every kernel, never baked in"),
    Op("scalar", Kind.LEAF, "a number, part of the graph's structure"),
    # arithmetic
    _sum("add", "a + b", "({0} + {1})", llvm="fadd add"),
    _sum("subtract", "a - b", "({0} - {1})", llvm="fsub sub", torch=("sub",)),
    _sum("multiply", "a * b", "({0} * {1})", llvm="fmul mul", torch=("mul",), off=_off_of_product),
    Op(
        "divide",
        _E,
        "a / b",
        c="({0} / {1})",
        tensor_c="xp_divide({0}, {1})",
        llvm="fdiv",
        torch=("div", "true_divide", "truediv"),
        instructions=4.0,
        shows=(0,),
        complex=True,
        off=_off_of_quotient,
        edges=(0.0,),
    ),
    _short(
        "negative",
        "-a",
        "(-{0})",
        llvm="negative negative",
        torch=("neg",),
        off=lambda a, e: e,
        **_LINEAR,
        shows=(0,),
        silent=True,
        complex=True,
    ),
    _short(
        "abs",
        "|a|",
        "fabs({0})",
        int_c="({0} < 0 ? -{0} : {0})",
        llvm="absolute absolute same",
        torch=("absolute",),
        off=lambda a, e: e,
        **_LINEAR,
        shows=(0,),
        silent=True,
        complex=True,
    ),
    _function(
        "sqrt",
        "square root",
        shows=(0,),
        inexact=False,
        off=lambda a, e: np.sqrt(e),
        edges=(0.0,),
        instructions=8.0,
        error=_error_of_sqrt,
        domain=(0, 1e6),
    ),
    # a < b is false for NaN on either side, so NaN is asked for by its own
    _short(
        "maximum",
        "larger one, NaN wins",
        _LARGER,
        slice_c="xp_max({0}, {1})",
        llvm="maximum smax umax",
        silent=True,
        off=_off_by_both,
    ),
    _short(
        "minimum",
        "smaller one, NaN wins",
        _SMALLER,
        slice_c="xp_min({0}, {1})",
        llvm="minimum smin umin",
        silent=True,
        off=_off_by_both,
    ),
    # transcendental
    _series(
        "exp",
        "exponential",
        tensor_c="xp_exp({0})",
        instructions=6.0,
        off=_off_of_exp,
        error=_error_of_exp,
    ),
    _series("expm1", "exp(a) - 1", off=_off_of_exp, error=_error_of_expm1),
    _series(
        "log",
        "natural logarithm",
        shows=(0,),
        edges=(0.0,),
        off=_off_of_log,
        error=lambda x, e, v, near: e / x,
        domain=(0, 1e6),
    ),
    _series(
        "log1p",
        "log(1 + a)",
        shows=(0,),
        edges=(-1.0,),
        off=lambda a, e: _off_of_log(1 + a, e),
        error=lambda x, e, v, near: e / (1 + x),
        domain=(-1, 1e6),
    ),
    _series(
        "tanh",
        "hyperbolic tangent",
        instructions=8.0,
        keeps_finite=True,
        off=lambda a, e: e,
        activation="Tanh",
        silent=True,
        error=lambda x, e, v, near: np.minimum(2.0, e * (1 / np.cosh(near) ** 2)),
    ),
    _series(
        "sin",
        "sine",
        shows=(0,),
        off=lambda a, e: e,
        error=lambda x, e, v, near: np.minimum(2.0, e),
    ),
    _series(
        "cos",
        "cosine",
        shows=(0,),
        off=lambda a, e: e,
        error=lambda x, e, v, near: np.minimum(2.0, e),
    ),
    _function("tan", "tangent", shows=(0,)),
    _function("asin", "inverse sine", **_inverse("arcsin")),
    _function("acos", "inverse cosine", **_inverse("arccos")),
    _function("atan", "inverse tangent", silent=True, torch=("arctan",), off=lambda a, e: e),
    Op(
        "atan2",
        _E,
        "angle of the point (b, a)",
        c="atan2({0}, {1})",
        llvm="atan2",
        torch=("arctan2",),
        inexact=True,
        jumps=True,
    ),
    _function("sinh", "hyperbolic sine", shows=(0,)),
    _function("cosh", "hyperbolic cosine", shows=(0,)),
    _function("log2", "logarithm to base 2", shows=(0,), edges=(0.0,), domain=(0, 1e6)),
    _function("log10", "logarithm to base 10", shows=(0,), edges=(0.0,), domain=(0, 1e6)),
    Op(
        "pow",
        _E,
        "a to the power of b",
        c="pow({0}, {1})",
        llvm="pow",
        complex=True,
        inexact=True,
        domain=(0.01, 10),
    ),
    _series(
        "erf", "error function", silent=True, complex=False, in_special=True, error=_error_of_erf
    ),
    _series(
        "erfc",
        "1 - erf(a), without cancellation",
        tensor_c="xp_erfc({0})",
        instructions=20.0,
        silent=True,
        complex=False,
        in_special=True,
        error=_error_of_erfc,
    ),
    # rounding
    Op(
        "floor",
        _E,
        "largest integer not above",
        c="floor({0})",
        int_c="{0}",
        llvm="floor same",
        shows=(0,),
        silent=True,
        jumps=True,
    ),
    Op(
        "ceil",
        _E,
        "smallest integer not below",
        c="ceil({0})",
        int_c="{0}",
        llvm="ceil same",
        shows=(0,),
        silent=True,
        jumps=True,
    ),
    # comparison and choice
    _comparison("greater", "a > b", "({0} > {1})", llvm="ogt sgt ugt", torch=("gt",)),
    _comparison("greater_equal", "a >= b", "({0} >= {1})", llvm="oge sge uge", torch=("ge",)),
    _comparison("less", "a < b", "({0} < {1})", llvm="olt slt ult", torch=("lt",)),
    _comparison("less_equal", "a <= b", "({0} <= {1})", llvm="ole sle ule", torch=("le",)),
    _comparison("equal", "a == b", "({0} == {1})", llvm="oeq eq", torch=("eq",), complex=True),
    _comparison("not_equal", "a != b", "({0} != {1})", llvm="une ne", torch=("ne",), complex=True),
    Op(
        "isfinite",
        _E,
        "neither infinite nor NaN",
        c="({0} - {0} == {0} - {0})",
        llvm="isfinite",
        result="bool",
        complex=True,
    ),
    Op(
        "signbit",
        _E,
        "whether the sign is minus, that of zero and NaN too",
        c="(copysign(1.0, double({0})) < 0)",
        llvm="signbit",
        result="bool",
        jumps=True,
        instructions=1.0,
    ),
    _short("logical_and", "a and b", "({0} && {1})", llvm="- and", result="bool"),
    _short("logical_or", "a or b", "({0} || {1})", llvm="- or", result="bool"),
    _short("logical_not", "not a", "(!{0})", llvm="- invert", result="bool"),
    _short(
        "where",
        "b where a, else c",
        "({0} ? {1} : {2})",
        llvm="where where",
        silent=True,
        off=lambda a, b, c, ea, eb, ec: np.where(a, eb, ec),
    ),
    _short("cast", "another dtype", "T({0})", result="attr", off=lambda a, e: e),
    _short(
        "approximate",
        "a, whose last bits may be others than NumPy's",
        "{0}",
        llvm="same same same",
        api="positive",
        shows=(0,),
        silent=True,
        inexact=True,
        off=lambda a, e: e,
        **_LINEAR,
    ),
    # reductions
    Op("sum", _R, "sum", c="({0} + {1})", join="add", identity=0.0),
    Op(
        "prod",
        _R,
        "product",
        c="({0} * {1})",
        join="multiply",
        identity=1.0,
        inexact=True,
        domain=(-2, 2),
    ),
    Op(
        "max",
        _R,
        "largest, NaN wins",
        c=_LARGER,
        slice_c="xp_max({0}, {1})",
        torch=("amax",),
        join="maximum",
        identity=-math.inf,
    ),
    Op(
        "min",
        _R,
        "smallest, NaN wins",
        c=_SMALLER,
        slice_c="xp_min({0}, {1})",
        torch=("amin",),
        join="minimum",
        identity=math.inf,
    ),
    Op(
        "argmax",
        _R,
        "position of the largest: of the first NaN, else of the first of equal ones",
        c="({1} > {0} || ({1} != {1} && {0} == {0}))",
        result="int64",
        jumps=True,
        identity=-math.inf,
    ),
    Op(
        "argmin",
        _R,
        "position of the smallest: of the first NaN, else of the first of equal ones",
        c="({1} < {0} || ({1} != {1} && {0} == {0}))",
        result="int64",
        jumps=True,
        identity=math.inf,
    ),
    # along an axis: `axis` is an attribute
    Op("sort", _A, "in ascending order, NaN last", shows=(0,), silent=True),
    Op(
        "argsort",
        _A,
        "the places of the numbers in that order; `stable`: equal ones as they stand",
        result="int64",
        jumps=True,
        silent=True,
    ),
    Op("cumulative_sum", _A, "sums up to each number, in order", join="add", shows=(0,)),
    Op(
        "cumulative_prod",
        _A,
        "products up to each number, in order",
        join="multiply",
        shows=(0,),
        inexact=True,
        domain=(-2, 2),
    ),
    Op("cumulative_max", _A, "largest up to each number, NaN wins", join="maximum", silent=True),
    Op("cumulative_min", _A, "smallest up to each number, NaN wins", join="minimum", silent=True),
    Op("take_along_axis", _A, "the numbers of a at the places b, which are there", silent=True),
    # contraction
    Op(
        "einsum",
        Kind.CONTRACTION,
        "sum of products; a product with a weight matrix is nm,m->n",
        inexact=True,
    ),
    # layout
    Op("reshape", _L, "another shape, C order"),
    Op("permute_dims", _L, "axes in another order"),
    Op("broadcast_to", _L, "repeat along axes of length 1"),
    Op("concat", _L, "join along an axis"),
    Op("index", _L, "integers, slices and new axes"),
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
        **_LINEAR,
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

OPS: dict[str, Op] = {row.name: row for row in _ROWS}
