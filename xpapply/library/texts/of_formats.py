"""Numbers as text in a format, and text as numbers, for the compiler: see `of_texts`."""

from __future__ import annotations

import math
from typing import Any

from ..of_math import rest_of_product
from .of_texts import code, justified, letters, padded, put, put_digits, turned


def _sign(found: Any, is_below: bool, plus: int) -> None:
    if is_below:
        found.append(45)
    elif plus != 0:
        found.append(plus)


def integer(n: int, plus: int, width: int, between: int) -> str:
    """``format(n, "d")``: `plus` before what is not negative, zeros up to `width`."""
    found = letters()
    _sign(found, n < 0, plus)
    begun = len(found)
    put_digits(found, abs(n), 1, between)
    return padded(found, begun, width)


def in_bits(n: int, bits: int, plus: int, width: int, prefix: str, ten: int) -> str:
    """``format(n, "b")`` and such: so many bits a digit, `ten` is the letter of that digit."""
    found = letters()
    _sign(found, n < 0, plus)
    put(found, prefix)
    begun = len(found)
    left = abs(n)
    while left > 0 or len(found) == begun:
        digit = left & ((1 << bits) - 1)
        found.append(48 + digit if digit < 10 else ten + digit - 10)
        left >>= bits
    turned(found, begun)
    return padded(found, begun, width)


def decimal(x: float, digits: int, plus: int, width: int, between: int, is_share: bool) -> str:
    """``format(x, ".2f")``, or of percents: the exact number is rounded, of two to the even one.

    Large numbers raise.
    """
    found = letters()
    _sign(found, x == x and math.copysign(1.0, x) < 0, plus)
    begun = len(found)
    size = abs(x)
    if is_share:
        size *= 100.0
    if not size < math.inf:
        if width > 0:
            raise ValueError
        if size == size:
            put(found, "inf")
        else:
            put(found, "nan")
    else:
        if size >= 2.0**62:
            raise ValueError
        whole = int(size)
        rest = size - float(whole)
        scale = 10.0**digits
        z = rest * scale
        last = int(z)
        part = z - float(last)
        up = part > 0.5
        if part == 0.5:
            lost = rest_of_product(rest, scale, z)
            odd = last % 2 == 1 if digits > 0 else whole % 2 == 1
            up = lost > 0 or (lost == 0 and odd)
        if up:
            last += 1
        if float(last) == scale:
            last = 0
            whole += 1
        put_digits(found, whole, 1, between)
        if digits > 0:
            found.append(46)
            put_digits(found, last, digits, 0)
    if is_share:
        found.append(37)
    return padded(found, begun, width)


def to_float(x: str) -> float:
    """``float(x)`` of a sign, up to 15 digits and a point."""
    n = len(x)
    at = 0
    below = False
    if n > 0 and (code(x, 0) == 45 or code(x, 0) == 43):
        at = 1
        below = code(x, 0) == 45
    found, count, after, points = 0, 0, 0, 0
    while at < n:
        letter = code(x, at)
        at += 1
        if letter == 46:
            points += 1
        elif 48 <= letter <= 57:
            count += 1
            after += points
            found = 10 * found + letter - 48
            if found >= 1000000000000000:
                raise ValueError
        else:
            raise ValueError
    if count == 0 or points > 1 or after > 22:
        raise ValueError
    y = float(found) / 10.0**after
    return -y if below else y


def decimal_within(
    x: float, digits: int, plus: int, between: int, is_share: bool, width: int, by: int, way: int
) -> str:
    """``format(x, ">8.2f")``: see `decimal` and `justified`."""
    return justified(decimal(x, digits, plus, 0, between, is_share), width, by, way)


def integer_within(n: int, plus: int, between: int, width: int, by: int, way: int) -> str:
    """``format(n, ">8d")``: see `integer` and `justified`."""
    return justified(integer(n, plus, 0, between), width, by, way)


def in_bits_within(
    n: int, bits: int, plus: int, prefix: str, ten: int, width: int, by: int, way: int
) -> str:
    """``format(n, ">8b")``: see `in_bits` and `justified`."""
    return justified(in_bits(n, bits, plus, 0, prefix, ten), width, by, way)


def cut(x: str, most: int, width: int, by: int, way: int) -> str:
    """``format(x, ">8.3")``: so many letters at most, and at least."""
    return justified(x[:most], width, by, way)
