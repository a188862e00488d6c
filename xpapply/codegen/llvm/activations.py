"""Composites that are quicker, or nearer, than what defines them.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

import math

from .error_functions import erfc
from .exponentials import clipped, exp, tanh
from .logarithms import log1p
from .polynomials import BIAS, nearest_multiple, polynomial, scaled
from .registers import Register
from .writer import Writer

_TAIL = (
    0.7290836683823834, -0.5093323281803155, 0.23001939881653266, -0.047255286098506356,
    -0.01048009532514434, 0.00692001008499796, 0.0010747369917302148, -0.0008977576574287679,
    -0.0002629033078960274,
)  # fmt: skip
"""``exp(a**2 / 2) * P(X > a) * (a + 3)`` of a normal X up to 14.5, for floats, in powers of
``(a - 3) / (a + 3)``."""
_EXP2 = (
    0.6931472029848335, 0.24022647896804833, 0.055503321632350895, 0.009618438609568828,
    0.00133990033788516, 0.00015353255938041518,
)  # fmt: skip
"""``(2**r - 1) / r`` up to 1 / 2, for floats."""
_LOG1P = (
    0.9999999952876338, -0.4999990242916724, 0.33329962570388794, -0.24954135062900756,
    0.19675945963786412, -0.1530561112292744, 0.10603685631869265, -0.05695983432605447,
    0.019851620996344563, -0.003244060174831608,
)  # fmt: skip
"""``log(1 + e) / e`` up to 1, for floats."""


def relu(writer: Writer, x: Register) -> Register:
    """`x` where that is not negative, else 0; NaN stays."""
    return writer.select(x < 0, 0, x)


def gelu(writer: Writer, x: Register, approximate: str = "none") -> Register:
    """`x` times the share of the normal distribution below it.

    At most 6 + x**2 ulp off where `x` is negative, and 5 ulp elsewhere: the error of the square
    goes into the exponential, as it does where the definition multiplies `x` by a constant.
    """
    if approximate == "tanh":
        inner = writer.fma(x * x * x, 0.044715, x) * math.sqrt(2 / math.pi)
        return x * 0.5 * (tanh(writer, inner) + 1.0)
    if x.type.element == "double":
        return x * 0.5 * erfc(writer, x * -math.sqrt(0.5))
    power = clipped(writer, x * x * (-0.5 / math.log(2)), -152.0, None)
    n, bits = nearest_multiple(writer, power, 1.0, 2 * BIAS["float"])
    rest = power - n
    w = 1.0 / (writer.abs(x) + 3.0)
    tail = w * polynomial(writer, writer.fma(w, -6.0, 1.0), _TAIL)
    more = rest * polynomial(writer, rest, _EXP2)
    below = scaled(writer, writer.fma(more, tail, tail), n, bits)
    return x * writer.select(x < 0.0, below, 1.0 - below)


def _log_of_one_and_exp(writer: Writer, x: Register) -> Register:
    """``log(1 + exp(-|x|))``."""
    e = exp(writer, -writer.abs(x))
    return e * polynomial(writer, e, _LOG1P) if x.type.element == "float" else log1p(writer, e)


def softplus(writer: Writer, x: Register, beta: float = 1.0, threshold: float = 20.0) -> Register:
    """``log(1 + exp(beta x)) / beta``, and `x` beyond the threshold; at most 3 ulp off."""
    z = x * beta
    found = relu(writer, z) + _log_of_one_and_exp(writer, z)
    return writer.select(z > threshold, x, found if beta == 1 else found / beta)


def log_sigmoid(writer: Writer, x: Register) -> Register:
    """``log(1 / (1 + exp(-x)))``; at most 3 ulp off."""
    return writer.select(x > 0.0, 0.0, x) - _log_of_one_and_exp(writer, x)


def mish(writer: Writer, x: Register) -> Register:
    """``x * tanh(softplus(x))``; at most 4 ulp off."""
    # tanh(log(1 + e)) is n / (n + 2)
    e = exp(writer, clipped(writer, x, None, 20.0))
    n = writer.fma(e, e, e + e)
    return x * (n / (n + 2.0))
