"""NumPy's functions that make arrays of others, or of a few numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def spaced(start: Any, stop: Any, num: int = 50, endpoint: bool = True) -> Any:
    """``np.linspace(start, stop, num)`` of numbers, in float64."""
    if num < 0:
        raise ValueError
    parts = num - 1 if endpoint else num
    first = np.float64(start)
    last = np.float64(stop)
    far = last - first
    out = np.empty(num, np.float64)
    if parts > 0:
        step = far / parts
        for k in range(num):
            if step == 0:
                out[k] = k / parts * far + first
            else:
                out[k] = k * step + first
    else:
        for k in range(num):
            out[k] = k * far + first
    if endpoint and num > 1:
        out[num - 1] = last
    return out


def stepped(start: Any, stop: Any, step: Any) -> Any:
    """``np.arange(start, stop, step)`` of floats."""
    if step == 0:
        raise ValueError
    parts = (float(stop) - float(start)) / float(step)
    n = math.ceil(parts)
    if parts == 0 and float(stop) != float(start):  # so little, or so large a step
        n = 1 if math.copysign(1.0, parts) > 0 else 0
    if n < 0:
        n = 0
    out = np.empty(n, np.float64)
    second = float(start) + float(step)
    far = second - float(start)
    for k in range(n):
        if k == 0:
            out[k] = start
        elif k == 1:
            out[k] = second
        else:
            out[k] = float(start) + k * far
    return out


def steps(start: int, stop: int, step: int) -> Any:
    """``np.arange(start, stop, step)`` of integers."""
    if step == 0:
        raise ValueError
    n = -((start - stop) // step)
    if n < 0:
        n = 0
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = start + k * step
    return out


def rolled(a: Any, shift: int) -> Any:
    """``np.roll(a, shift)``."""
    n = len(a)
    out = np.empty(n, a.dtype)
    for k in range(n):
        out[(k + shift) % n] = a[k]
    return out


def tiled(A: Any, reps: int) -> Any:
    """``np.tile(A, reps)``."""
    n = len(A)
    if reps < 0:
        raise ValueError
    out = np.empty(n * reps, A.dtype)
    for j in range(reps):
        for k in range(n):
            out[j * n + k] = A[k]
    return out


def repeated(a: Any, repeats: int) -> Any:
    """``np.repeat(a, repeats)``."""
    n = len(a)
    out = np.empty(n * repeats, a.dtype)
    for k in range(n):
        for j in range(repeats):
            out[k * repeats + j] = a[k]
    return out


def outer(a: Any, b: Any) -> Any:
    """``np.outer(a, b)``."""
    return a[:, None] * b[None, :]


def on_diagonal(v: Any) -> Any:
    """``np.diag(v)``."""
    found = np.zeros((len(v), len(v)), v.dtype)
    for i in range(len(v)):
        found[i, i] = v[i]
    return found


def inserted(arr: Any, obj: int, values: Any) -> Any:
    """``np.insert(arr, obj, number)``."""
    n = len(arr)
    at = obj
    if at < 0:
        at += n
    if at < 0 or at > n:
        raise IndexError
    out = np.empty(n + 1, arr.dtype)
    for k in range(at):
        out[k] = arr[k]
    out[at] = values
    for k in range(at, n):
        out[k + 1] = arr[k]
    return out


def without(arr: Any, obj: int) -> Any:
    """``np.delete(arr, obj)`` of one place."""
    n = len(arr)
    at = obj
    if at < 0:
        at += n
    if at < 0 or at >= n:
        raise IndexError
    out = np.empty(n - 1, arr.dtype)
    for k in range(n - 1):
        out[k] = arr[k] if k < at else arr[k + 1]
    return out


def as_type(v: Any, dtype: Any) -> Any:
    """``v.astype(dtype)``; what does not fit raises."""
    out = np.empty(len(v), dtype)
    for k in range(len(v)):
        out[k] = v[k]
    return out


def flat(v: Any) -> Any:
    """``v.ravel()``: a copy if the elements do not lie side by side."""
    if len(v) > 1 and v.strides[0] != v.dtype.itemsize:
        v = v.copy()
    return v


def as_list(v: Any) -> Any:
    """``v.tolist()``."""
    found = []
    for x in v:
        found.append(x.item())
    return found


def of_either(condition: Any, x: Any, y: Any, dtype: Any) -> Any:
    """``np.where(condition, x, y)`` of a condition that is an array, and numbers."""
    out = np.empty(len(condition), dtype)
    for k in range(len(condition)):
        if condition[k]:
            out[k] = x
        else:
            out[k] = y
    return out


def of_either_arrays(condition: Any, x: Any, y: Any, dtype: Any) -> Any:
    """``np.where`` of two arrays."""
    n = len(condition)
    if len(x) != n or len(y) != n:
        raise ValueError
    out = np.empty(n, dtype)
    for k in range(n):
        if condition[k]:
            out[k] = x[k]
        else:
            out[k] = y[k]
    return out


def of_first_array(condition: Any, x: Any, y: Any, dtype: Any) -> Any:
    """``np.where`` of an array and a number."""
    n = len(condition)
    if len(x) != n:
        raise ValueError
    out = np.empty(n, dtype)
    for k in range(n):
        if condition[k]:
            out[k] = x[k]
        else:
            out[k] = y
    return out


def of_second_array(condition: Any, x: Any, y: Any, dtype: Any) -> Any:
    """``np.where`` of a number and an array."""
    n = len(condition)
    if len(y) != n:
        raise ValueError
    out = np.empty(n, dtype)
    for k in range(n):
        if condition[k]:
            out[k] = x
        else:
            out[k] = y[k]
    return out


def pieces(x: Any, conditions: Any, functions: Any) -> Any:
    """``np.piecewise`` with a function, or a number, for each condition."""
    found = np.zeros_like(x)
    for condition, function in zip(conditions, functions):  # noqa: B905  # as many of both
        _put_piece(found, x, condition, function)
    return found


def pieces_and_rest(x: Any, conditions: Any, functions: Any, last: Any) -> Any:
    """The same with one more, for where no condition holds."""
    found = np.zeros_like(x)
    some = np.zeros(len(x), np.bool_)
    for condition, function in zip(conditions, functions):  # noqa: B905  # as many of both
        _put_piece(found, x, condition, function)
        some |= condition
    _put_piece(found, x, ~some, last)
    return found


def _put_piece(found: Any, x: Any, condition: Any, function: Any) -> None:
    if callable(function):
        values = x[condition]
        if len(values) > 0:
            found[condition] = function(values)
    else:
        found[condition] = function


def selected(conditions: Any, choices: Any, default: Any, dtype: Any) -> Any:
    """``np.select`` of conditions and choices that come backwards."""
    n = 0
    for condition in conditions:
        n = len(condition)
    found = np.empty(n, dtype)
    found[:] = default
    for condition, choice in zip(conditions, choices):  # noqa: B905  # as many of both
        found[:] = np.where(condition, choice, found)
    return found
