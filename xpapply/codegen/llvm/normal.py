"""The error function and its kin.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

import math

from .exponentials import clipped, expm1_of_rest, half_of_expm1, reduced, tanh
from .extended import product_of
from .polynomials import nearest_multiple, polynomial, scaled
from .writer import Register, Writer

_ERF = (
    -1.1283791716108258, -0.6366193819522846, -0.10277783092030443, 0.019153066189454383,
    0.00016039085589499336, -0.001667021434982365, 0.0006328331229704613,
    -0.00011764010159536963, 9.25612086072142e-06,
)  # fmt: skip
"""``log(erfc(a)) / a`` up to 3.95, for floats."""
_ERF_SMALL = (
    1.1283791670955126, -0.3761263890318352, 0.11283791670944185, -0.026866170643111437,
    0.005223977606118096, -0.0008548325929293294, 0.0001205529357621804,
    -1.4924712288447491e-05, 1.6447131401800838e-06, -1.6206312459123388e-07,
    1.3710974808386698e-08, -7.779458151528971e-10,
)  # fmt: skip
"""The same up to 1, for doubles."""
_TAIL = (
    0.7290836683823834, -0.5093323281803155, 0.23001939881653266, -0.047255286098506356,
    -0.01048009532514434, 0.00692001008499796, 0.0010747369917302148, -0.0008977576574287679,
    -0.0002629033078960274,
)  # fmt: skip
"""``exp(a**2 / 2) * P(X > a) * (a + 3)`` of a normal X up to 14.5, for floats, in powers of
``(a - 3) / (a + 3)``."""
_ERFC = (
    1.095995661000491, -0.9765487290808821, 0.7732087022652369, -0.540853831313225,
    0.3308515878780232, -0.17401093724028915, 0.07638151490915387, -0.026370053334627944,
    0.006112055656709144, -0.00028095891582256225, -0.0004550526883849079,
    0.00017681308655815588, -3.6351516575878153e-06, -1.8861784512381173e-05,
    4.6943368483844165e-06, 1.4260927684617539e-06, -8.460175298958714e-07,
    -7.797857865580581e-08, 1.2394806711997864e-07, 2.611357648428634e-09,
    -1.5395359060992935e-08, -3.838413851451679e-10, 1.0173069206698707e-09,
)  # fmt: skip
"""``exp(a**2) * erfc(a) * (a + 4)`` up to 27.3, in powers of ``(a - 4) / (a + 4)``."""


def erf(writer: Writer, x: Register) -> Register:
    """Error function."""
    if x.type.element == "float":
        size = clipped(writer, writer.abs(x), None, 3.93)
        half = half_of_expm1(writer, size * polynomial(writer, size, _ERF))
        return writer.copysign(half + half, x)
    size = writer.abs(x)
    small = x * polynomial(writer, x * x, _ERF_SMALL)
    large = writer.copysign(1.0 - _erfc_of_positive(writer, size), x)
    return writer.select(size < 1.0, small, large)


def erfc(writer: Writer, x: Register) -> Register:
    """``1 - erf(x)`` without cancellation."""
    found = _erfc_of_positive(writer, writer.abs(x))
    return writer.select(x < 0.0, 2.0 - found, found)


def _erfc_of_positive(writer: Writer, x: Register) -> Register:
    """erfc of what is not negative."""
    element = x.type.element
    x = clipped(writer, x, None, 10.1 if element == "float" else 27.3)
    square, off = product_of(writer, x, x)
    rest, n, _ = reduced(writer, -square)
    found = expm1_of_rest(writer, rest - off) + 1.0
    if element == "float":
        w = 1.0 / writer.fma(x, math.sqrt(2), 3.0)
        tail = polynomial(writer, writer.fma(w, -6.0, 1.0), _TAIL)
        found = found * (w * (tail + tail))
    else:
        w = 1.0 / (x + 4.0)
        found = found * (w * polynomial(writer, (x - 4.0) * w, _ERFC))
    return scaled(writer, found, n)


_EXP2 = (
    0.6931472029848335, 0.24022647896804833, 0.055503321632350895, 0.009618438609568828,
    0.00133990033788516, 0.00015353255938041518,
)  # fmt: skip
"""``(2**r - 1) / r`` up to 1 / 2, for floats."""


def gelu(writer: Writer, x: Register, approximate: str = "none") -> Register:
    """``x`` times the share of the normal distribution below it."""
    if approximate == "tanh":
        inner = writer.fma(x * x * x, 0.044715, x) * math.sqrt(2 / math.pi)
        return x * 0.5 * (tanh(writer, inner) + 1.0)
    if x.type.element == "double":
        return x * 0.5 * erfc(writer, x * -math.sqrt(0.5))
    power = clipped(writer, x * x * (-0.5 / math.log(2)), -152.0, None)
    n, _ = nearest_multiple(writer, power, 1.0)
    rest = power - n
    found = writer.fma(rest, polynomial(writer, rest, _EXP2), 1.0)
    w = 1.0 / (writer.abs(x) + 3.0)
    tail = w * polynomial(writer, writer.fma(w, -6.0, 1.0), _TAIL)
    below = scaled(writer, found * tail, n)
    return x * writer.select(x < 0.0, below, 1.0 - below)
