"""The error function, and what it lacks of 1.

Coefficients are those of the least largest error, by Remez's algorithm in 45 digits.
"""

from __future__ import annotations

from .exponentials import clipped, expm1_of_rest, half_of_expm1, reduced
from .extended import product_of, sum_of
from .polynomials import BIAS, polynomial, scaled
from .registers import Register
from .writer import Writer

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
"""Coefficients up to 1, for doubles."""
_ERFC = {
    "float": (
        2.0,
        1.0215827086805491, -0.6871606970525092, 0.27947177081639524, -0.0364417838867503,
        -0.021505722276780898, 0.006475879549676624, 0.003062605768221781,
        -0.0008320638567139522, -0.0005925621165060512, 4.69398226343178e-05,
        6.948059302876834e-05,
    ),
    "double": (
        4.0,
        1.095995661000491, -0.9765487290808821, 0.7732087022652369, -0.540853831313225,
        0.3308515878780232, -0.17401093724028915, 0.07638151490915387, -0.026370053334627944,
        0.006112055656709144, -0.00028095891582256225, -0.0004550526883849079,
        0.00017681308655815588, -3.6351516575878153e-06, -1.8861784512381173e-05,
        4.6943368483844165e-06, 1.4260927684617539e-06, -8.460175298958714e-07,
        -7.797857865580581e-08, 1.2394806711997864e-07, 2.611357648428634e-09,
        -1.5395359060992935e-08, -3.838413851451679e-10, 1.0173069206698707e-09,
    ),
}  # fmt: skip
"""`k`, and ``exp(a**2) * erfc(a) * (a + k)`` up to 10.1 and 27.3 in powers of
``(a - k) / (a + k)``."""


def erf(writer: Writer, x: Register) -> Register:
    """Error function; at most 3 ulp off."""
    if x.type.element == "float":
        size = clipped(writer, writer.abs(x), None, 3.93)
        half = half_of_expm1(writer, size * polynomial(writer, size, _ERF))
        return writer.copysign(half + half, x)
    size = writer.abs(x)
    small = x * polynomial(writer, x * x, _ERF_SMALL)
    large = writer.copysign(1.0 - _erfc_of_positive(writer, size), x)
    return writer.select(size < 1.0, small, large)


def erfc(writer: Writer, x: Register) -> Register:
    """``1 - erf(x)`` without cancellation; at most 4 ulp off."""
    found = _erfc_of_positive(writer, writer.abs(x))
    return writer.select(x < 0.0, 2.0 - found, found)


def _erfc_of_positive(writer: Writer, x: Register) -> Register:
    """erfc of what is not negative."""
    element = x.type.element
    x = clipped(writer, x, None, 10.1 if element == "float" else 27.3)
    square, off = product_of(writer, x, x)
    power = -square
    k, *coefficients = _ERFC[element]
    # 1 / (x + k) and what that is off by: t and the factor before it would both be off
    total, lost = sum_of(x, writer.constant(k, x.type))
    w = 1.0 / total
    one, rest = product_of(writer, w, total)
    more = w * (((1.0 - one) - rest) - w * lost)
    t = writer.fma(w, -2 * k, 1.0) - more * (2 * k)
    tail = polynomial(writer, t, coefficients)
    factor, more = w * tail, more * tail
    if element == "float":
        small = x < 1.0
        power = writer.select(small, x * polynomial(writer, x, _ERF), power)
        off, more = writer.select(small, 0.0, off), writer.select(small, 0.0, more)
        factor = writer.select(small, 1.0, factor)
    rest, n, bits = reduced(writer, power, 2 * BIAS[element])
    # all that is small first; rounded once where it is denormal
    found = factor + writer.fma(expm1_of_rest(writer, rest - off), factor + more, more)
    return scaled(writer, found, n, bits)
