"""Functions of ``math`` and numbers of Python's that take more than an instruction."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np


def power(x: int, n: int) -> int:
    """``x ** n`` of integers; a negative exponent raises."""
    if n < 0:
        raise ValueError
    found = 1
    while n:
        if n & 1:
            found = found * x
        n >>= 1
        if n:
            x = x * x
    return found


def complex_power(x: complex, n: int) -> complex:
    """``x ** n`` of a complex number, by products as Python takes them."""
    if n > 100 or n < -100:
        raise ValueError
    found = 1.0 + 0.0j
    left = abs(n)
    while left:
        if left & 1:
            found = found * x
        left >>= 1
        if left:
            x = x * x
    if n <= 0:
        found = (1.0 + 0.0j) / found
    if abs(found.real) == math.inf or abs(found.imag) == math.inf:
        raise OverflowError
    return found


def rest_of_product(a: float, b: float, product: float) -> float:
    """``a * b - product`` exactly, of floats and the product as it is rounded.

    As T. J. Dekker computes it (Numerische Mathematik 18 (1971), 224).
    """
    far = 134217729.0 * a
    a_high = far - (far - a)
    a_low = a - a_high
    far = 134217729.0 * b
    b_high = far - (far - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def rounded(x: float, n: int) -> float:
    """``round(x, n)`` of a float: to the nearest decimal, of two the even one, as they are."""
    if x != x or x in (math.inf, -math.inf):
        return x
    if n < 0 or n > 22:
        raise ValueError
    scale = 1.0
    for _ in range(n):
        scale *= 10.0
    z = x * scale
    if abs(z) >= 2.0**51:
        raise ValueError
    low = float(math.floor(z))
    rest = z - low
    up = rest > 0.5
    if rest == 0.5:
        lost = rest_of_product(x, scale, z)
        up = lost > 0 or (lost == 0 and low % 2.0 == 1.0)
    if up:
        low += 1.0
    return math.copysign(low / scale, x)


def isclose(a: float, b: float, rel_tol: float, abs_tol: float) -> bool:
    """``math.isclose``."""
    if rel_tol < 0 or abs_tol < 0:
        raise ValueError
    if a == b:
        return True
    if abs(a) == math.inf or abs(b) == math.inf:
        return False
    far = abs(b - a)
    return far <= abs(rel_tol * b) or far <= abs(rel_tol * a) or far <= abs_tol


def parts(x: float) -> tuple[float, float]:
    """``math.modf(x)``."""
    if x != x:
        return x, x
    if abs(x) == math.inf:
        return math.copysign(0.0, x), x
    rest = math.fmod(x, 1.0)
    return rest, math.copysign(x - rest, x)


def whole(x: int, n: int) -> int:
    """``round(x, n)`` of an integer."""
    if n < 0:
        raise ValueError
    return x


def product(values: Any, start: Any = 1) -> Any:
    """``math.prod(values, start=start)``."""
    found = start
    for x in values:
        found = found * x
    return found


def factorial(n: int) -> int:
    """``math.factorial(n)``."""
    if n < 0:
        raise ValueError
    found = 1
    for k in range(2, n + 1):
        found *= k
    return found


def comb(n: int, k: int) -> int:
    """``math.comb(n, k)``."""
    if n < 0 or k < 0:
        raise ValueError
    if k > n:
        return 0
    few = min(k, n - k)
    found = 1
    for i in range(few):
        found = found * (n - i) // (i + 1)
    return found


def perm(n: int, k: int) -> int:
    """``math.perm(n, k)``."""
    if n < 0 or k < 0:
        raise ValueError
    if k > n:
        return 0
    found = 1
    for i in range(k):
        found *= n - i
    return found


def root(n: int) -> int:
    """``math.isqrt(n)``."""
    if n < 0:
        raise ValueError
    found = int(math.sqrt(n))
    while found * found > n:
        found -= 1
    while (found + 1) * (found + 1) <= n:
        found += 1
    return found


def lcm(a: int, b: int) -> int:
    """``math.lcm(a, b)``."""
    if a == 0 or b == 0:
        return 0
    x, y = abs(a), abs(b)
    while y:
        x, y = y, x % y
    return abs(a) // x * abs(b)


def exact_sum(values: Any) -> float:
    """``math.fsum(values)``: parts that do not overlap, after J. R. Shewchuk.

    Discrete & Computational Geometry 18 (1997), 305. What is not finite raises.
    """
    parts = [0.0]
    parts.pop()
    for value in values:
        x = float(value)
        if not math.isfinite(x):
            raise ValueError
        n = 0
        for k in range(len(parts)):
            y = parts[k]
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low != 0.0:
                parts[n] = low
                n += 1
            x = high
        if not math.isfinite(x):
            raise OverflowError
        while len(parts) > n:
            parts.pop()
        if x != 0.0:
            parts.append(x)
    n = len(parts)
    if n == 0:
        return 0.0
    n -= 1
    high = parts[n]
    low = 0.0
    while n > 0:
        x = high
        n -= 1
        y = parts[n]
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            break
    if n > 0 and ((low < 0.0 and parts[n - 1] < 0.0) or (low > 0.0 and parts[n - 1] > 0.0)):
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high


def folded(f: Any, values: Any, start: Any) -> Any:
    """``functools.reduce(f, values, start)``."""
    found = start
    for x in values:
        found = f(found, x)
    return found


def folded_all(f: Any, values: Any) -> Any:
    """``functools.reduce(f, values)`` of something that has elements at places."""
    n = len(values)
    if n == 0:
        raise TypeError
    found = values[0]
    for k in range(1, n):
        found = f(found, values[k])
    return found


def bit_length(n: int) -> int:
    """``n.bit_length()``."""
    left = abs(n)
    found = 0
    for step in (32, 16, 8, 4, 2, 1):
        if left >> step > 0:
            left >>= step
            found += step
    return found + left


def bit_count(n: int) -> int:
    """``n.bit_count()``: those of two, four, eight bits, and so on."""
    x = abs(n)
    x -= (x >> 1) & 0x5555555555555555
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    x += x >> 8
    x += x >> 16
    x += x >> 32
    return x & 127


def ulp(x: float) -> float:
    """``math.ulp(x)``."""
    size = abs(x)
    if not size < math.inf:
        return size
    above = math.nextafter(size, math.inf)
    if above == math.inf:
        return size - math.nextafter(size, 0.0)
    return above - size


def mantissa(x: float) -> tuple[float, int]:
    """``math.frexp(x)``."""
    if x == 0.0 or not abs(x) < math.inf:
        return x, 0
    less = 0
    if abs(x) < 2.0**-900:
        x *= 2.0**200
        less = 200
    elif abs(x) > 2.0**900:
        x *= 2.0**-200
        less = -200
    scale = 2.0**-53 / (math.nextafter(abs(x), math.inf) - abs(x))
    return x * scale, -round(math.log2(scale)) - less


def scaled(x: float, n: int) -> float:
    """``math.ldexp(x, n)``: what is too small is rounded once."""
    if x == 0.0 or not abs(x) < math.inf:
        return x
    if n > 2200:
        raise OverflowError
    if n < -2200:
        return math.copysign(0.0, x)
    for _ in range(2):
        if n > 1023:
            x *= 2.0**1023
            n -= 1023
        elif n < -1022:
            x *= 2.0**-969
            n += 969
    if n > 1023:
        raise OverflowError
    found = 0.0 * x if n < -1022 else x * math.pow(2.0, n)
    if abs(found) == math.inf:
        raise OverflowError
    return found


def length(values: Any) -> float:
    """``math.hypot(*values)``, as Python adds squares: what they lose is added up apart.

    What is very large or small raises.
    """
    most = 0.0
    odd = False
    for x in values:
        size = abs(x)
        if size != size:
            odd = True
        elif size > most:
            most = size
    if most == math.inf:
        return most
    if odd:
        return math.nan
    if most == 0.0:
        return most
    if most < 2.0**-900 or most > 2.0**900:
        raise ValueError
    scale = 2.0**-53 / (math.nextafter(most, math.inf) - most)
    total, less, lost = 1.0, 0.0, 0.0
    for x in values:
        y = abs(x) * scale
        square = y * y
        less += rest_of_product(y, y, square)
        both = total + square
        lost += (total - both) + square
        total = both
    root = math.sqrt(total - 1.0 + (less + lost))
    square = root * root
    less -= rest_of_product(root, root, square)
    both = total - square
    lost += (total - both) - square
    root += (both - 1.0 + (less + lost)) / (2.0 * root)
    return root / scale


def distance(p: Any, q: Any) -> float:
    """``math.dist(p, q)``."""
    if len(p) != len(q):
        raise ValueError
    found: list[float] = []
    for k in range(len(p)):
        found.append(float(p[k]) - float(q[k]))
    if len(found) == 1:
        return abs(found[0])
    return length(found)


def _is_as_written() -> bool:
    r = np.random.default_rng(0)
    some = (r.standard_normal((200, 3)) * 10.0 ** r.integers(-9, 9, (200, 1))).tolist()
    return all(length(x[:n]) == math.hypot(*x[:n]) for x in some for n in (2, 3))


@functools.cache
def adds_squares_so() -> bool:
    """Whether this Python adds squares in this way."""
    return _is_as_written()


_GAMMA = 6.024680040776729583740234375
_GAMMA_LESS = 5.524680040776729583740234375
_ABOVE = (
    23531376880.410759688572007674451636754734846804940,
    42919803642.649098768957899047001988850926355848959,
    35711959237.355668049440185451547166705960488635843,
    17921034426.037209699919755754458931112671403265390,
    6039542586.3520280050642916443072979210699388420708,
    1439720407.3117216736632230727949123939715485786372,
    248874557.86205415651146038641322942321632125127801,
    31426415.585400194380614231628318205362874684987640,
    2876370.6289353724412254090516208496135991145378768,
    186056.26539522349504029498971604569928220784236328,
    8071.6720023658162106380029022722506138218516325024,
    210.82427775157934587250973392071336271166969580291,
    2.5066282746310002701649081771338373386264310793408,
)
_BELOW = (
    0.0, 39916800.0, 120543840.0, 150917976.0, 105258076.0, 45995730.0, 13339535.0, 2637558.0,
    357423.0, 32670.0, 1925.0, 66.0, 1.0,
)  # fmt: skip
_WHOLE = tuple(float(math.factorial(n)) for n in range(23))


def _lanczos(x: float) -> float:
    """C. Lanczos's sum for the gamma function, of a positive number, as Python takes it."""
    above = below = 0.0
    if x < 5.0:
        for k in range(12, -1, -1):
            above = above * x + _ABOVE[k]
            below = below * x + _BELOW[k]
    else:
        for k in range(13):
            above = above / x + _ABOVE[k]
            below = below / x + _BELOW[k]
    return above / below


def log_gamma(x: float) -> float:
    """``math.lgamma(x)`` of a positive number."""
    if not 1e-20 <= x <= 1e300:
        raise ValueError
    if x in (1.0, 2.0):
        return 0.0
    found = math.log(_lanczos(x)) - _GAMMA
    return found + (x - 0.5) * (math.log(x + _GAMMA - 0.5) - 1.0)


def gamma(x: float) -> float:
    """``math.gamma(x)`` of a positive number whose gamma function is no large one."""
    if not 1e-20 <= x < 140.0:
        raise ValueError
    if x == math.floor(x) and x <= 23.0:
        return _WHOLE[int(x) - 1]
    y = x + _GAMMA_LESS
    if x > _GAMMA_LESS:
        z = (y - x) - _GAMMA_LESS
    else:
        z = (y - _GAMMA_LESS) - x
    z = z * _GAMMA / y
    found = _lanczos(x) / math.exp(y)
    found += z * found
    return found * math.pow(y, x - 0.5)
