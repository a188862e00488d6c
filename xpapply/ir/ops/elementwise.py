"""Rows of ops that broadcast as NumPy does: arithmetic, functions, comparisons, choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import bounds
from .row import LARGER, LINEAR, SMALLER, Kind, Op

_E = Kind.ELEMENTWISE


def _short(name: str, doc: str, c: str, **columns: Any) -> Op:
    """A row of an op of one or two instructions."""
    return Op(name, _E, doc, c, instructions=1.0, **columns)


def _sum(name: str, doc: str, c: str, **columns: Any) -> Op:
    """A sum, difference or product."""
    usual: dict[str, Any] = {"keeps_finite": True, "shows": (0, 1), "complex": True}
    return _short(name, doc, c, **usual | {"off": bounds.off_by_both} | columns)


def _comparison(name: str, doc: str, c: str, **columns: Any) -> Op:
    """A comparison of two numbers."""
    return _short(name, doc, c, result="bool", compares=True, jumps=True, **columns)


def _function(name: str, doc: str, **columns: Any) -> Op:
    """A function of one number that C calls by the same name; NumPy has it of complex ones."""
    usual: dict[str, Any] = {"complex": True, "llvm": name, "inexact": True}
    return Op(name, _E, doc, f"{name}({{0}})", **usual | columns)


def _inverse(torch: str) -> dict[str, Any]:
    """A row of an inverse sine or cosine."""
    usual = {"shows": (0,), "torch": (torch,), "error": bounds.error_of_arc, "domain": (-1, 1)}
    return {**usual, "edges": (-1.0, 1.0)}


def _series(name: str, doc: str, **columns: Any) -> Op:
    """Such a function that C computes by a series of many terms."""
    return _function(name, doc, needs_registers=True, **columns)


ROWS = [
    # arithmetic
    _sum(
        "add",
        "a + b",
        "({0} + {1})",
        llvm="fadd add",
        sign="positive",
        positive="operands",
    ),
    _sum("subtract", "a - b", "({0} - {1})", llvm="fsub sub", torch=("sub",)),
    _sum(
        "multiply",
        "a * b",
        "({0} * {1})",
        llvm="fmul mul",
        torch=("mul",),
        off=bounds.off_of_product,
        sign="operands",
    ),
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
        off=bounds.off_of_quotient,
        edges=(0.0,),
        sign="operands",
        positive="operands",
    ),
    _short(
        "negative",
        "-a",
        "(-{0})",
        llvm="negative negative",
        torch=("neg",),
        off=lambda a, e: e,
        **LINEAR,
        shows=(0,),
        silent=True,
        complex=True,
        sign="operands",
    ),
    _short(
        "abs",
        "|a|",
        "fabs({0})",
        int_c="({0} < 0 ? -{0} : {0})",
        llvm="absolute absolute same",
        torch=("absolute",),
        off=lambda a, e: e,
        **LINEAR,
        shows=(0,),
        silent=True,
        complex=True,
        sign="operands",
        positive="always",
    ),
    _function(
        "sqrt",
        "square root",
        shows=(0,),
        inexact=False,
        off=lambda a, e: np.sqrt(e),
        edges=(0.0,),
        instructions=8.0,
        error=bounds.error_of_sqrt,
        domain=(0, 1e6),
        sign="operands",
        positive="always",
    ),
    # a < b is false for NaN on either side, so NaN is asked for by its own
    _short(
        "maximum",
        "larger one, NaN wins",
        LARGER,
        slice_c="xp_max({0}, {1})",
        llvm="maximum smax umax",
        silent=True,
        either_zero=True,
        off=bounds.off_by_both,
    ),
    _short(
        "minimum",
        "smaller one, NaN wins",
        SMALLER,
        slice_c="xp_min({0}, {1})",
        llvm="minimum smin umin",
        silent=True,
        either_zero=True,
        off=bounds.off_by_both,
    ),
    # transcendental
    _series(
        "exp",
        "exponential",
        tensor_c="xp_exp({0})",
        instructions=6.0,
        off=bounds.off_of_exp,
        error=bounds.error_of_exp,
        positive="always",
    ),
    _series("expm1", "exp(a) - 1", off=bounds.off_of_exp, error=bounds.error_of_expm1),
    _series(
        "log",
        "natural logarithm",
        shows=(0,),
        edges=(0.0,),
        off=bounds.off_of_log,
        error=lambda x, e, v, near: e / x,
        domain=(0, 1e6),
    ),
    _series(
        "log1p",
        "log(1 + a)",
        shows=(0,),
        edges=(-1.0,),
        off=lambda a, e: bounds.off_of_log(1 + a, e),
        error=lambda x, e, v, near: e / (1 + x),
        domain=(-1, 1e6),
    ),
    _series(
        "tanh",
        "hyperbolic tangent",
        instructions=8.0,
        rising=True,
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
        sees_zeros=True,
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
        off=bounds.off_of_power,
        domain=(0.01, 10),
    ),
    _series(
        "erf",
        "error function",
        silent=True,
        complex=False,
        in_special=True,
        error=bounds.error_of_erf,
    ),
    _series(
        "erfc",
        "1 - erf(a), without cancellation",
        tensor_c="xp_erfc({0})",
        instructions=20.0,
        silent=True,
        complex=False,
        in_special=True,
        error=bounds.error_of_erfc,
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
        sees_zeros=True,
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
    _short(
        "cast",
        "another dtype",
        "T({0})",
        result="attr",
        off=lambda a, e: e,
        sign="operands",
        positive="operands",
    ),
    _short(
        "solved",
        "a, of a system of equations whose condition is good",
        "{0}",
        llvm="same same same",
        api="positive",
        shows=(0,),
        silent=True,
        inexact=1e4,
    ),
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
        **LINEAR,
        sign="positive",
        positive="operands",
    ),
]
