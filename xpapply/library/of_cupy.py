"""CuPy's functions of short arrays, for the compiler: their results have CuPy's bits.

Sums are made in the order of CuPy's kernels, which depends on whether elements lie side by side.
What is not covered raises, and is so left to CuPy's own function.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def room(n: int, dtype: Any) -> Any:
    """An array that is filled next; the compiler makes it on the device."""
    return np.empty(n, dtype)


def rooms(n: int, m: int, dtype: Any) -> Any:
    """An uninitialized array of two axes."""
    return np.empty((n, m), dtype)


def zero_of(dtype: Any) -> Any:
    """Zero, as an array without axes."""
    return np.zeros((), dtype)


def as_number(x: Any, dtype: Any) -> Any:
    """A number in another type, as an array without axes."""
    return np.asarray(x).astype(dtype)


def is_packed(v: Any) -> bool:
    """Whether elements are contiguous."""
    return bool(v.flags.c_contiguous)


SHORT = 32
"""The most numbers that loops with places known beforehand go through."""


def bits_of_places(v: Any) -> int:
    """Bits of the places of up to 16 numbers, or of up to 32."""
    return 4 if len(v) <= 16 else 5


def are_short() -> bool:
    """Whether slices are that short: loops over them are written out."""
    return True


def is_short(v: Any) -> bool:
    """Whether an array is that short, and all slices are."""
    return len(v) <= SHORT


# --- element by element -------------------------------------------------------------------------


def mapped(f: Any, v: Any, dtype: Any) -> Any:
    """``f(v)``."""
    out = room(len(v), dtype)
    for k in range(len(v)):
        out[k] = f(v[k])
    return out


def mapped_both(f: Any, a: Any, b: Any, dtype: Any) -> Any:
    """``f(a, b)`` of arrays of one length."""
    if len(a) != len(b):
        raise ValueError
    out = room(len(a), dtype)
    for k in range(len(a)):
        out[k] = f(a[k], b[k])
    return out


def mapped_first(f: Any, a: Any, y: Any, dtype: Any) -> Any:
    """``f(a, y)`` of an array and a number."""
    out = room(len(a), dtype)
    for k in range(len(a)):
        out[k] = f(a[k], y)
    return out


def mapped_second(f: Any, x: Any, b: Any, dtype: Any) -> Any:
    """``f(x, b)`` of a number and an array."""
    out = room(len(b), dtype)
    for k in range(len(b)):
        out[k] = f(x, b[k])
    return out


def in_dtype(v: Any, dtype: Any) -> Any:
    """``v.astype(dtype)``."""
    out = room(len(v), dtype)
    for k in range(len(v)):
        out[k] = as_number(v[k], dtype)
    return out


def either(c: Any, a: Any, b: Any, dtype: Any) -> Any:
    """``cupy.where(c, a, b)`` of numbers ..."""
    out = room(len(c), dtype)
    for k in range(len(c)):
        out[k] = as_number(a, dtype) if c[k] else as_number(b, dtype)
    return out


def either_array(c: Any, a: Any, b: Any, dtype: Any) -> Any:
    """... of arrays ..."""
    if len(a) != len(c) or len(b) != len(c):
        raise ValueError
    out = room(len(c), dtype)
    for k in range(len(c)):
        out[k] = as_number(a[k], dtype) if c[k] else as_number(b[k], dtype)
    return out


def first_array(c: Any, a: Any, b: Any, dtype: Any) -> Any:
    """... of an array and a number ..."""
    if len(a) != len(c):
        raise ValueError
    out = room(len(c), dtype)
    for k in range(len(c)):
        out[k] = as_number(a[k], dtype) if c[k] else as_number(b, dtype)
    return out


def second_array(c: Any, a: Any, b: Any, dtype: Any) -> Any:
    """... of a number and an array."""
    if len(b) != len(c):
        raise ValueError
    out = room(len(c), dtype)
    for k in range(len(c)):
        out[k] = as_number(a, dtype) if c[k] else as_number(b[k], dtype)
    return out


def differences(v: Any) -> Any:
    """``cupy.diff(v)``."""
    n = len(v) - 1
    if n < 0:
        raise ValueError
    out = room(n, v.dtype)
    for k in range(n):
        out[k] = v[k + 1] - v[k]
    return out


def mapped_rows(f: Any, m: Any, dtype: Any) -> Any:
    """``f(m)`` of two axes."""
    out = rooms(m.shape[0], m.shape[1], dtype)
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            out[i, j] = f(m[i, j])
    return out


def mapped_rows_both(f: Any, a: Any, b: Any, dtype: Any) -> Any:
    """``f(a, b)`` of arrays of one shape."""
    if a.shape[0] != b.shape[0] or a.shape[1] != b.shape[1]:
        raise ValueError
    out = rooms(a.shape[0], a.shape[1], dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = f(a[i, j], b[i, j])
    return out


def mapped_rows_first(f: Any, a: Any, y: Any, dtype: Any) -> Any:
    """``f(a, y)`` of an array and a number."""
    out = rooms(a.shape[0], a.shape[1], dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = f(a[i, j], y)
    return out


def mapped_rows_second(f: Any, x: Any, b: Any, dtype: Any) -> Any:
    """``f(x, b)`` of a number and an array."""
    out = rooms(b.shape[0], b.shape[1], dtype)
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = f(x, b[i, j])
    return out


def kept(f: Any, a: Any, b: Any) -> Any:
    """``a += b`` of an array and a number."""
    for k in range(len(a)):
        a[k] = f(a[k], b)
    return a


def kept_both(f: Any, a: Any, b: Any) -> Any:
    """``a += b`` of arrays; the second one may be a part of the first."""
    n = len(a)
    if len(b) != n:
        raise ValueError
    copy = room(n, b.dtype)
    for k in range(n):
        copy[k] = b[k]
    for k in range(n):
        a[k] = f(a[k], copy[k])
    return a


# --- sums ---------------------------------------------------------------------------------------


def total(v: Any, dtype: Any) -> Any:
    """``v.sum()`` of floats: of those that lie side by side warp by warp, else by halves."""
    zero = zero_of(dtype)
    is_straight = is_packed(v)
    if is_short(v):
        return zero + in_a_tree(v, is_straight, zero)
    if not is_straight:
        return by_halves(v, zero)
    n = len(v)
    if n > 1024:  # in several tiles, or blocks
        raise ValueError
    found = zero
    for begin in range(0, min(n, 256), 32):
        found = found + of_a_warp(v, begin, zero)
    return found


def in_a_tree(v: Any, is_straight: bool, zero: Any) -> Any:
    """The sum of up to 32 numbers in pairs, pairs of pairs and so on, but for the sign of zero.

    `is_straight`: in their order; else their second half is added to the first one, until one
    number is left. Each place is known beforehand, so that numbers chosen by a mask stay in
    registers: how many they are is known only then, and those that are not there are zero.
    """
    n = len(v)
    bits = bits_of_places(v)
    a = b = c = d = e = found = zero
    for k in range(1 << bits):
        i = k if is_straight else turned(k, bits)
        x = zero
        if i < n:
            x = x + v[i]
        if k % 2 == 0:
            a = x
        else:
            x = a + x
            if k % 4 == 1:
                b = x
            else:
                x = b + x
                if k % 8 == 3:
                    c = x
                else:
                    x = c + x
                    if k % 16 == 7:
                        d = x
                    else:
                        x = d + x
                        if k == 15:
                            found = e = x
                        else:
                            found = e + x
    return found


def chosen(v: Any, mask: Any) -> Any:
    """``v[mask]``: each number is written to the place that it has then, of all that it may have.

    So those places are known beforehand, and what is chosen stays in registers.
    """
    n = len(v)
    if len(mask) != n:
        raise IndexError
    out = room(len(v), v.dtype)
    many = 0
    if not is_short(v):
        for k in range(n):
            if mask[k]:
                out[many] = v[k]
                many += 1
        return out[:many]
    for k in range(n):
        x = as_number(v[k], v.dtype)
        is_in = bool(mask[k])
        out[k] = x
        for j in range(n):
            if j < k:
                out[j] = x if is_in and j == many else as_number(out[j], v.dtype)
        if is_in:
            many += 1
    return out[: min(many, n)]


def by_halves(v: Any, zero: Any) -> Any:
    """A sum whose second half is added to the first one, until one number is left."""
    if len(v) > SHORT:
        raise ValueError
    return zero + in_a_tree(v, False, zero)


def bits_of(n: int) -> int:
    """Bits of the places of so many numbers."""
    bits = 0
    for _ in range(6):  # a loop that is written out, so that places are known beforehand
        if 1 << bits < n:
            bits += 1
    return bits


def turned(k: int, bits: int) -> int:
    """A place of up to 5 bits with its bits the other way around: in that order halves meet."""
    i = (k & 1) << 4 | (k & 2) << 2 | k & 4 | (k & 8) >> 2 | (k & 16) >> 4
    return i >> (5 - bits)


def of_a_warp(v: Any, begin: int, zero: Any) -> Any:
    """The sum of the numbers from a place on, of which 32 are added as `in_a_tree` does.

    Each of them is the sum of those that lie 256 from each other.
    """
    a = b = c = d = e = found = zero
    for k in range(32):
        x = zero
        for j in range(begin + k, len(v), 256):
            x = x + v[j]
        if k % 2 == 0:
            a = x
        else:
            x = a + x
            if k % 4 == 1:
                b = x
            else:
                x = b + x
                if k % 8 == 3:
                    c = x
                else:
                    x = c + x
                    if k % 16 == 7:
                        d = x
                    else:
                        x = d + x
                        if k == 15:
                            e = x
                        else:
                            found = e + x
    return found


def of_integers(v: Any, dtype: Any) -> Any:
    """``v.sum()`` of integers and truth values."""
    found = zero_of(dtype)
    for x in v:
        found = found + as_number(x, dtype)
    return found


def mean(v: Any, dtype: Any) -> Any:
    """``v.mean()`` of floats."""
    return total(v, dtype) / len(v)


def mean_of_integers(v: Any, dtype: Any) -> Any:
    """``v.mean()`` of short integers, whose sum is exact in floats."""
    return of_integers(v, dtype) / len(v)


def mean_of_long_integers(v: Any, dtype: Any) -> Any:
    """... and of long ones that are no longer than that."""
    if len(v) > 256:
        raise ValueError
    for x in v:
        if x > 1 << 45 or x < -(1 << 45):
            raise ValueError
    return of_integers(v, dtype) / len(v)


def variance(v: Any, dtype: Any, ddof: int = 0) -> Any:
    """``v.var(ddof=ddof)`` of floats."""
    n = len(v)
    if n <= ddof:
        raise ValueError
    middle = total(v, dtype) / n
    squares = room(len(v), dtype)
    for k in range(n):
        x = v[k] - middle
        squares[k] = x * x
    return by_halves(squares, zero_of(dtype)) * (1 / (n - ddof))


def deviation(v: Any, dtype: Any, ddof: int = 0) -> Any:
    """``v.std(ddof=ddof)`` of floats."""
    return np.sqrt(variance(v, dtype, ddof))


# --- extremes and questions ---------------------------------------------------------------------


def largest(v: Any, dtype: Any) -> Any:
    """``v.max()``: NaN if there is one; of zeros of both signs CuPy gives either."""
    best = as_number(v[0], dtype)
    for k in range(1, len(v)):
        x = as_number(v[k], dtype)
        if x > best or x != x:
            best = x
    return best


def smallest(v: Any, dtype: Any) -> Any:
    """``v.min()``."""
    best = as_number(v[0], dtype)
    for k in range(1, len(v)):
        x = as_number(v[k], dtype)
        if x < best or x != x:
            best = x
    return best


def spread(v: Any, dtype: Any) -> Any:
    """``cupy.ptp(v)``."""
    return largest(v, dtype) - smallest(v, dtype)


def place_of_largest(v: Any, dtype: Any) -> Any:
    """``v.argmax()``: a NaN, or else the first that no other is beyond."""
    at = 0
    best = v[0]
    for k in range(1, len(v)):
        x = v[k]
        if x > best:
            at = k
            best = x
    return as_number(place_of_nan(v, at), dtype)


def place_of_smallest(v: Any, dtype: Any) -> Any:
    """``v.argmin()``."""
    at = 0
    best = v[0]
    for k in range(1, len(v)):
        x = v[k]
        if x < best:
            at = k
            best = x
    return as_number(place_of_nan(v, at), dtype)


def place_of_nan(v: Any, at: int) -> int:
    """The place where CuPy finds NaN; `at` if there is none.

    That is the first one, or where elements do not lie side by side the first one in the order in
    which halves meet: 0, 8, 4, 12, 2 and so on of 16.
    """
    n = len(v)
    if v.dtype.kind != "f":
        return at
    if is_packed(v):
        for k in range(n - 1, -1, -1):
            if v[k] != v[k]:
                at = k
        return at
    if n > 32:
        for x in v:
            if x != x:
                raise ValueError
        return at
    bits = bits_of(n)
    for k in range((1 << bits) - 1, -1, -1):
        i = turned(k, bits)
        if i < n and v[i] != v[i]:
            at = i
    return at


def any_true(v: Any, dtype: Any) -> Any:
    """``v.any()``."""
    found = zero_of(dtype)
    for x in v:
        if x != 0:
            found = as_number(1, dtype)
    return found


def all_true(v: Any, dtype: Any) -> Any:
    """``v.all()``."""
    found = as_number(1, dtype)
    for x in v:
        if x == 0:
            found = as_number(0, dtype)
    return found


def count(v: Any, dtype: Any) -> Any:
    """``cupy.count_nonzero(v)``."""
    n = 0
    for x in v:
        if x != 0:
            n += 1
    return as_number(n, dtype)


# --- order --------------------------------------------------------------------------------------


def in_order(v: Any) -> Any:
    """``cupy.sort(v)``, NaN last; zeros of both signs in any order.

    By Batcher's merge exchange: the same places are compared whatever the values are.
    """
    n = len(v)
    if n > 16:  # more comparisons than are compiled in a moment
        raise ValueError
    out = room(len(v), v.dtype)
    unknown = 0
    for i in range(n):
        out[i] = v[i]
        if v.dtype.kind == "f" and v[i] != v[i]:
            out[i] = np.inf
            unknown += 1
    span = 1
    while 2 * span < n:
        span *= 2
    half = span
    while half > 0:
        reach = span
        first = 0
        far = half
        while far > 0:
            for i in range(n - far):
                if i & half == first:
                    x = out[i] * 1
                    y = out[i + far] * 1
                    out[i] = y if y < x else x
                    out[i + far] = x if y < x else y
            far = reach - half
            reach //= 2
            first = half
        half //= 2
    if unknown:
        for i in range(n):
            if i >= n - unknown:
                out[i] = np.nan
    return out


def median(v: Any) -> Any:
    """``cupy.median(v)`` of floats."""
    x = in_order(v)
    n = len(x)
    if n == 0:
        raise ValueError
    last = x[n - 1] * 1
    if last != last:
        return last
    if n % 2 == 1:
        return x[n // 2] * 1
    return (x[n // 2 - 1] + x[n // 2]) / 2
