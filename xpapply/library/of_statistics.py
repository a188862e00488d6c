"""Functions of ``statistics``, whose sums are exact. What is not finite raises."""

from __future__ import annotations

import math
from typing import Any

from .of_math import exact_sum, rest_of_product
from .of_python import in_order, listed


def fmean(data: Any) -> float:
    """``statistics.fmean(data)``."""
    n = len(data)
    if n == 0:
        raise ValueError
    return exact_sum(data) / n


def median_low(data: Any) -> Any:
    """``statistics.median_low(data)``."""
    found = in_order(data)
    n = len(found)
    if n == 0:
        raise ValueError
    return found[(n - 1) // 2]


def median_high(data: Any) -> Any:
    """``statistics.median_high(data)``."""
    found = in_order(data)
    n = len(found)
    if n == 0:
        raise ValueError
    return found[n // 2]


def mode(data: Any) -> Any:
    """``statistics.mode(data)``: of those that are as frequent the first one."""
    counts: dict[Any, int] = {}
    for x in data:
        if x != x:
            raise ValueError
        counts[x] = counts.get(x, 0) + 1
    found = None
    most = 0
    for x, n in counts.items():
        if n > most:
            found = x
            most = n
    if found is None:
        raise ValueError
    return found


def settled(high: float, low: float, unsure: float) -> float:
    """``high + low`` to the nearest float, where `low` may be off by `unsure` at the most.

    Raises where that decides.
    """
    found = high + low
    left = low - (found - high)
    if found + (left + unsure) != found or found + (left - unsure) != found:
        raise ValueError
    return found


def product(a: float, b: float) -> tuple[float, float]:
    """``a * b`` exactly, as two floats."""
    high = a * b
    size = abs(high)
    if (size < 2.0**-960 and a != 0.0 and b != 0.0) or max(abs(a), abs(b), size) > 2.0**960:
        raise ValueError
    return high, rest_of_product(a, b, high)


def divided(high: float, low: float, unsure: float, n: int) -> tuple[float, float, float]:
    """``(high + low) / n`` as two floats, and by what it may be off."""
    found = high / n
    back, rest = product(found, float(n))
    left = ((high - back) - rest) + low
    return found, left / n, unsure / n + 1e-15 * abs(left / n)


def mean(data: Any) -> Any:
    """``statistics.mean(data)`` of floats: the exact sum, divided and rounded once."""
    values = listed(data)
    n = len(values)
    if n == 0:
        raise ValueError
    nothing = values[0] - values[0]
    total = exact_sum(values)
    values.append(-total)
    lost = exact_sum(values)
    high, low, unsure = divided(total, lost, 1e-15 * abs(lost), n)
    return settled(high, low, unsure) + nothing


def squares(values: Any) -> tuple[float, float, float]:
    """The squares of the differences from the mean, added up: two floats, and what is unsure."""
    n = len(values)
    centre = exact_sum(values) / n
    high = low = total = lost = 0.0
    for value in values:
        x = float(value)
        d = x - centre
        far = d - x
        e = (x - (d - far)) - (centre + far)
        p, q = product(d, d)
        both = high + p
        far = both - high
        low += ((high - (both - far)) + (p - far)) + (q + 2.0 * d * e)
        high = both
        both = total + d
        far = both - total
        lost += ((total - (both - far)) + (d - far)) + e
        total = both
    total += lost
    return high, low - total * total / n, 1e-30 * n * n * high


def variance_of(values: Any, less: int) -> tuple[float, float, float]:
    """The variance of values, with so many degrees of freedom less than there are."""
    n = len(values)
    if n <= less:
        raise ValueError
    high, low, unsure = squares(values)
    return divided(high, low, unsure, n - less)


def rooted(high: float, low: float, unsure: float) -> float:
    """The root of ``high + low``, rounded once."""
    if high == 0.0 and low == 0.0:
        return 0.0
    found = math.sqrt(high)
    back, rest = product(found, found)
    left = (((high - back) - rest) + low) / (2.0 * found)
    return settled(found, left, unsure / found + 1e-15 * abs(left))


def variance(data: Any) -> Any:
    """``statistics.variance(data)``."""
    values = listed(data)
    high, low, unsure = variance_of(values, 1)
    return settled(high, low, unsure) + (values[0] - values[0])


def pvariance(data: Any) -> Any:
    """``statistics.pvariance(data)``."""
    values = listed(data)
    high, low, unsure = variance_of(values, 0)
    return settled(high, low, unsure) + (values[0] - values[0])


def stdev(data: Any) -> float:
    """``statistics.stdev(data)``."""
    high, low, unsure = variance_of(listed(data), 1)
    return rooted(high, low, unsure)


def pstdev(data: Any) -> float:
    """``statistics.pstdev(data)``."""
    high, low, unsure = variance_of(listed(data), 0)
    return rooted(high, low, unsure)
