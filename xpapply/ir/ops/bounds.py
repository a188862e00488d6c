"""Error propagation: the columns `off` and `error` of the op table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def off_by_both(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    """The error of a sum."""
    return ea + eb


def off_of_product(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    """The error of a product."""
    return abs(a) * eb + (abs(b) + eb) * ea


def off_of_exp(a: Any, e: Any) -> Any:
    """The error of an exponential."""
    return np.exp(a) * np.where(e < 1, 2 * e, math.inf)


def off_of_log(a: Any, e: Any) -> Any:
    """The error of a logarithm."""
    # of what is at least twice as large as it may be off: other operands are looked at
    return 3 * e / abs(a)


def off_of_quotient(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    """The error of a quotient."""
    # of divisors that are at least twice as large as they may be off: others are looked at
    return (ea + abs(a / b) * eb) * 2 / abs(b)


def off_of_power(a: Any, b: Any, ea: Any, eb: Any) -> Any:
    """The error of ``a ** b``: of the exponential of ``b * log(a)``."""
    # of bases that are not twice as large as they may be off nothing is known
    e = 3 * abs(b) * ea / abs(a) + abs(np.log(abs(a))) * eb
    return abs(a**b) * np.where((e < 1) & (abs(a) > 2 * ea), 2 * e, math.inf)


def error_of_exp(x: Any, e: Any, v: Any, near: Any) -> Any:
    """The error of an exponential."""
    return np.where(e < 1, v * np.expm1(np.minimum(e, 1)), np.exp(x + e))


def error_of_expm1(x: Any, e: Any, v: Any, near: Any) -> Any:
    """The error of an exponential less 1."""
    return np.where(e < 1, np.exp(x) * np.expm1(np.minimum(e, 1)), np.exp(x + e))


def error_of_sqrt(x: Any, e: Any, v: Any, near: Any) -> Any:
    """The error of a root."""
    return np.fmin(e / (2 * v), np.sqrt(e))


def error_of_arc(x: Any, e: Any, v: Any, near: Any) -> Any:
    """The error of an inverse sine or cosine."""
    # as far as to an end, where the slope has none
    return np.fmin(e / np.sqrt(np.maximum(1 - x * x, 0)), np.sqrt(2 * e) * 2)


def error_of_erf(x: Any, e: Any, v: Any, near: Any) -> Any:
    """The error of the error function."""
    return np.minimum(2.0, e * (1.13 * np.exp(-near * near)))


def error_of_erfc(x: Any, e: Any, v: Any, near: Any) -> Any:
    """The error of its complement."""
    # torch's float64 GELU, what results are compared with, has 1 + erf(x), which cancels
    return np.minimum(2.0, e * (1.13 * np.exp(-near * near)) + 2.0**-52)
