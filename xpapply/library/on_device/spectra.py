"""CuPy's Fourier transform of short arrays of real numbers, by the sums that define it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..of_cupy import SHORT, as_number, room, zero_of
from .algebra import is_unknown

FLOAT64 = np.dtype("float64")


class Spectrum(NamedTuple):
    """Complex numbers in two arrays: of a device's functions one reads no others."""

    real: Any
    imag: Any


def transformed(v: Any, dtype: Any) -> Any:
    """``cupy.fft.rfft(v)`` of floats; NaN and infinities raise.

    Numbers as far from the first one as from the last have the same cosines, and sines of the
    other sign. In float64, and then in `dtype`.
    """
    n = len(v)
    if n == 0 or n > SHORT:
        raise ValueError
    is_odd = False
    for k in range(n):
        if is_unknown(v[k]):
            is_odd = True
    if is_odd:
        raise ValueError
    pairs, many = (n - 1) // 2, n // 2 + 1
    cosines = room(n, FLOAT64)
    sines = room(n, FLOAT64)
    for k in range(n):
        cosines[k] = cosine(k, n)
        sines[k] = cosine(4 * k - n, 4 * n)
    both = room(n, FLOAT64)
    apart = room(n, FLOAT64)
    for j in range(1, pairs + 1):
        x, y = as_number(v[j], FLOAT64), as_number(v[n - j], FLOAT64)
        both[j] = x + y
        apart[j] = x - y
    real = room(many, dtype)
    imag = room(many, dtype)
    for k in range(many):
        a, b = as_number(v[0], FLOAT64), zero_of(FLOAT64)
        for j in range(1, pairs + 1):
            at = j * k % n
            a = a + both[j] * cosines[at]
            b = b - apart[j] * sines[at]
        if n % 2 == 0:
            x = as_number(v[n // 2], FLOAT64)
            a = a + x if k % 2 == 0 else a - x
        real[k] = as_number(a, dtype)
        imag[k] = as_number(b, dtype)
    return Spectrum(real, imag)


def cosine(m: int, n: int) -> float:
    """The cosine of a part of a turn, which the compiler works out where it knows the part."""
    a, sign = 2 * (m % n), 1.0
    if a > n:
        a = 2 * n - a
    if 2 * a > n:
        a, sign = n - a, -1.0
    is_late = 4 * a > n  # of what is left to a quarter it is the sine
    x = math.pi * (n - 2 * a) / (2 * n) if is_late else math.pi * a / n
    term = x if is_late else 1.0
    found = 0.0
    first = 2.0 if is_late else 1.0
    for k in range(10):
        found = found + term
        term = -term * x * x / ((first + 2 * k) * (first + 2 * k + 1))
    return sign * found


def sizes(real: Any, imag: Any, dtype: Any) -> Any:
    """``cupy.abs`` of complex numbers: what squares leave the range for is scaled before."""
    out = room(len(real), dtype)
    for k in range(len(real)):
        x, y = abs(as_number(real[k], FLOAT64)), abs(as_number(imag[k], FLOAT64))
        square = x * x + y * y
        found = np.sqrt(square)
        if not 1e-280 < square < 1e300:
            top = x if x > y else y
            rest = y if x > y else x
            share = rest / top
            found = top * np.sqrt(share * share + 1.0)
            if top == 0:
                found = top
        out[k] = as_number(found, dtype)
    return out
