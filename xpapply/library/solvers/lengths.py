"""Lengths of arrays and factors of matrices, as MINPACK has them: see ``of_fits``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_EPS = float(np.finfo(float).eps)
_SMALL = 3.834e-20
_LARGE = 1.304e19
"""Bounds between which squares are summed unscaled."""


def norm(x: Any, first: int) -> float:
    """The length of ``x[first:]``, without overflow or underflow."""
    most = _LARGE / (len(x) - first) if len(x) > first else _LARGE
    total = 0.0
    for i in range(first, len(x)):
        size = abs(float(x[i]))
        if size <= _SMALL and size != 0.0:
            return _scaled_norm(x, first, most)
        total += size * size
    if total < most * most:  # so is each of them
        return math.sqrt(total)
    return _scaled_norm(x, first, most)


def _scaled_norm(x: Any, first: int, most: float) -> float:
    """The length where some of ``x[first:]`` are small, or not below `most`."""
    large = 0.0
    middle = 0.0
    small = 0.0
    largest = 0.0
    smallest = 0.0
    for i in range(first, len(x)):
        size = abs(float(x[i]))
        if _SMALL < size < most:
            middle += size * size
        elif size <= _SMALL:
            if size > smallest:
                ratio = smallest / size
                small = 1.0 + small * (ratio * ratio)
                smallest = size
            elif size != 0.0:
                ratio = size / smallest
                small += ratio * ratio
        elif size > largest:
            ratio = largest / size
            large = 1.0 + large * (ratio * ratio)
            largest = size
        else:
            ratio = size / largest
            large += ratio * ratio
    if large != 0.0:
        return largest * math.sqrt(large + middle / largest / largest)
    if middle == 0.0:
        return smallest * math.sqrt(small)
    if middle >= smallest:
        return math.sqrt(middle * (1.0 + smallest / middle * (smallest * small)))
    return math.sqrt(smallest * (middle / smallest + smallest * small))


def factored(a: Any, order: Any, diagonal: Any, norms: Any, b: Any) -> None:
    """Householder's factors of a matrix, its columns by falling length, and Q'b in `b`.

    Above the diagonal of `a` stands R, whose diagonal is in `diagonal`; below it the vectors.
    """
    n = len(a)
    m = len(a[0])
    left = np.zeros(n)
    for j in range(n):
        norms[j] = norm(a[j], 0)
        diagonal[j] = norms[j]
        left[j] = norms[j]
        order[j] = j
    for j in range(min(m, n)):
        longest = j
        for k in range(j, n):
            if float(diagonal[k]) > float(diagonal[longest]):
                longest = k
        if longest != j:
            for i in range(m):
                swap = float(a[j, i])
                a[j, i] = a[longest, i]
                a[longest, i] = swap
            diagonal[longest] = diagonal[j]
            left[longest] = left[j]
            at = int(order[j])
            order[j] = order[longest]
            order[longest] = at
        size = norm(a[j], j)
        if size != 0.0:
            if float(a[j, j]) < 0.0:
                size = -size
            column = a[j, j:]
            divide(column, size)
            a[j, j] += 1.0
            first = float(a[j, j])
            for k in range(j, n, 3):  # three at a time, and `b`: a sum waits for each of its parts
                one = min(k + 1, n - 1)
                two = min(k + 2, n - 1)
                three = min(k + 3, n - 1)
                of_one = 0.0
                of_two = 0.0
                of_three = 0.0
                of_b = 0.0
                for i in range(j, m):
                    part = float(a[j, i])
                    of_one += part * float(a[one, i])
                    of_two += part * float(a[two, i])
                    of_three += part * float(a[three, i])
                    of_b += part * float(b[i])
                if k == j:
                    less(column, of_b / first, b[j:])
                if k + 1 < n:
                    less(column, of_one / first, a[one, j:])
                if k + 2 < n:
                    less(column, of_two / first, a[two, j:])
                if k + 3 < n:
                    less(column, of_three / first, a[three, j:])
            anew = 0
            for k in range(j + 1, n):
                if float(diagonal[k]) != 0.0:
                    part = float(a[k, j]) / float(diagonal[k])
                    diagonal[k] *= math.sqrt(max(0.0, 1.0 - part * part))
                    part = float(diagonal[k]) / float(left[k])
                    if j + 2 < n and 0.05 * (part * part) <= _EPS:  # else nobody reads it
                        if anew > 0:
                            raise NotImplementedError
                        anew = k
            if anew > 0:
                _measure(a, j, anew, diagonal)
                left[anew] = diagonal[anew]
        diagonal[j] = -size


def _measure(a: Any, j: int, k: int, diagonal: Any) -> None:
    """Compute anew how long a column is of which next to nothing is left below row `j`.

    SciPy 1.17 takes one number more: the first of the next column, or what lies behind the matrix.
    So the length is between two, and the column may only be compared with those that it is longer
    than, or shorter, for both.
    """
    n = len(diagonal)
    least = norm(a[k], j + 1)
    longest = 0.0
    for i in range(j + 1, n):
        if i != k:
            longest = max(longest, float(diagonal[i]))
    if not least > 1.000001 * longest:
        if j == 0 or j + 3 < n or k + 1 == n:  # it is compared again, or with what is not known
            raise NotImplementedError
        beyond = float(a[k + 1, 0])
        if not 1.000001 * math.sqrt(least * least + beyond * beyond) < longest:
            raise NotImplementedError
    diagonal[k] = least


def less(x: Any, part: float, y: Any) -> None:
    """Subtract a part of an array from another one."""
    y -= part * x


def divide(x: Any, by: float) -> None:
    """Divide an array."""
    x /= by


def less_each(x: Any, part: float, y: Any) -> None:
    """`less` for a device, where an array that is between two loops lies in memory."""
    for i in range(len(x)):
        y[i] -= part * float(x[i])


def divide_each(x: Any, by: float) -> None:
    """`divide` for a device."""
    for i in range(len(x)):
        x[i] /= by
