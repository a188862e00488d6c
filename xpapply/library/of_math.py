"""Functions of ``math`` and numbers of Python's that take more than an instruction."""

from __future__ import annotations

import math
from typing import Any


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


def rounded(x: float, n: int) -> float:
    """``round(x, n)`` of a float: to the nearest decimal, of two the even one, as they are exactly.

    What the product with a power of ten loses is computed as T. J. Dekker does it (Numerische
    Mathematik 18 (1971), 224).
    """
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
        far = 134217729.0 * x
        x_high = far - (far - x)
        x_low = x - x_high
        far = 134217729.0 * scale
        s_high = far - (far - scale)
        s_low = scale - s_high
        lost = ((x_high * s_high - z) + x_high * s_low + x_low * s_high) + x_low * s_low
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
