"""NumPy's reductions of arrays of two axes, in the order in which NumPy adds.

It depends on how an array lies in memory: another one than rows after rows raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .of_numpy import added
from .of_series import one_zero


def _in_rows(m: Any) -> None:
    """Raise where an array does not lie row after row, without gaps."""
    n = m.shape[1]
    if n == 0 or m.shape[0] == 0:
        raise ValueError
    size = m.dtype.itemsize
    if m.strides[1] != size or m.strides[0] != n * size:
        raise ValueError


def _in_a_row(m: Any) -> Any:
    """All elements, row after row."""
    n = m.shape[1]
    out = np.empty(m.shape[0] * n, m.dtype)
    for i in range(m.shape[0]):
        for j in range(n):
            out[i * n + j] = m[i, j]
    return out


def total(m: Any) -> Any:
    """``m.sum()``."""
    _in_rows(m)
    return np.add.reduce(_in_a_row(m))


def mean(m: Any) -> Any:
    """``m.mean()``."""
    _in_rows(m)
    return added(_in_a_row(m)) / (m.shape[0] * m.shape[1])


def row_sums(m: Any, dtype: Any) -> Any:
    """``m.sum(axis=1)``."""
    _in_rows(m)
    out = np.empty(m.shape[0], dtype)
    for i in range(m.shape[0]):
        out[i] = np.add.reduce(m[i])
    return out


def column_sums(m: Any, dtype: Any) -> Any:
    """``m.sum(axis=0)``: one row after the other."""
    _in_rows(m)
    out = np.empty(m.shape[1], dtype)
    if m.shape[1] == 1:
        out[0] = np.add.reduce(m[:, 0])
        return out
    for j in range(m.shape[1]):
        found = np.add.reduce(m[:1, j])
        for i in range(1, m.shape[0]):
            found = found + m[i, j]
        out[j] = found
    return out


def row_means(m: Any, dtype: Any) -> Any:
    """``m.mean(axis=1)`` of floats."""
    return row_sums(m, dtype) / m.shape[1]


def column_means(m: Any, dtype: Any) -> Any:
    """``m.mean(axis=0)`` of floats."""
    return column_sums(m, dtype) / m.shape[0]


def extreme(m: Any, of: Any) -> Any:
    """``m.max()``, or ``m.min()``, as a ufunc says."""
    found = of.reduce(_in_a_row(m))
    if found == 0:
        one_zero(_in_a_row(m))
    return found


def row_extremes(m: Any, dtype: Any, of: Any) -> Any:
    """Extremes of rows: ``m.max(axis=1)``."""
    out = np.empty(m.shape[0], dtype)
    for i in range(m.shape[0]):
        out[i] = of.reduce(m[i])
        if out[i] == 0:
            one_zero(m[i])
    return out


def column_extremes(m: Any, dtype: Any, of: Any) -> Any:
    """Extremes of columns: ``m.max(axis=0)``."""
    out = np.empty(m.shape[1], dtype)
    for j in range(m.shape[1]):
        out[j] = of.reduce(m[:, j])
        if out[j] == 0:
            one_zero(m[:, j])
    return out


def place(m: Any, of: Any) -> Any:
    """``m.argmax()``, or ``m.argmin()``, as `of` says of a row."""
    return of(_in_a_row(m))


def row_places(m: Any, dtype: Any, of: Any) -> Any:
    """Places of extremes in rows: ``m.argmax(axis=1)``."""
    out = np.empty(m.shape[0], np.int64)
    for i in range(m.shape[0]):
        out[i] = of(m[i])
    return out


def column_places(m: Any, dtype: Any, of: Any) -> Any:
    """Places of extremes in columns: ``m.argmax(axis=0)``."""
    out = np.empty(m.shape[1], np.int64)
    for j in range(m.shape[1]):
        out[j] = of(m[:, j])
    return out
