"""Python's own functions of several values."""

from __future__ import annotations

from typing import Any


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)``."""
    if b > a:
        return b
    return a


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)``."""
    if b < a:
        return b
    return a


def largest(values: Any) -> Any:
    """``max(values)``."""
    found = values[0]
    for x in values:
        if x > found:
            found = x
    return found


def smallest(values: Any) -> Any:
    """``min(values)``."""
    found = values[0]
    for x in values:
        if x < found:
            found = x
    return found


def total(values: Any, start: Any = 0) -> Any:
    """``sum(values)``, added up one after the other."""
    found = start
    for x in values:
        found = found + x
    return found


def exact_total(values: Any) -> Any:
    """``sum(values)`` of Python's floats since Python 3.12: Neumaier's sum, which CPython names.

    A. Neumaier, Zeitschrift für angewandte Mathematik und Mechanik 54 (1974), 39.
    """
    if len(values) == 0:
        return 0
    found = 0.0
    rest = 0.0
    for x in values:
        further = found + x
        if abs(found) >= abs(x):
            rest += (found - further) + x
        else:
            rest += (x - further) + found
        found = further
    if rest and abs(rest) < float("inf"):
        found += rest
    return found


def any_of(values: Any) -> bool:
    """``any(values)``."""
    for x in values:  # noqa: SIM110  # this is what any is
        if x:
            return True
    return False


def all_of(values: Any) -> bool:
    """``all(values)``."""
    for x in values:  # noqa: SIM110  # this is what all is
        if not x:
            return False
    return True


def listed(values: Any) -> Any:
    """``list(values)``."""
    found = []
    for x in values:
        found.append(x)
    return found


def in_order(values: Any) -> Any:
    """``sorted(values)``, by insertion: equal values stay in their order. NaN raises.

    Where NaN is, the order depends on how Python sorts.
    """
    found = []
    for x in values:
        if x != x:
            raise ValueError
        found.append(x)
        k = len(found) - 1
        while k > 0 and found[k - 1] > x:
            found[k] = found[k - 1]
            k -= 1
        found[k] = x
    return found


def gcd(a: int, b: int) -> int:
    """``math.gcd(a, b)``."""
    while b:
        a, b = b, a % b
    return abs(a)
