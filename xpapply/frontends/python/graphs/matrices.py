"""Determinants, inverses and solutions of small systems, in graphs.

By elimination with the largest pivot of each column, as LAPACK has it. That chooses among equals,
adds in another order, and has nothing exact: a matrix of which rounding would decide more than the
last digits is marked, and so is what is singular.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.builder import Value
from ....ir.ops import OPS
from .places import part

_MOST = 8
"""Rows of a matrix, at most."""
_CONDITION = OPS["solved"].inexact
"""The largest condition number accepted: how much rounding errors may grow."""


def _matrix(lowering: Any, a: Any) -> Value:
    """A square matrix of floats."""
    if not isinstance(a, Value) or len(a.shape) != 2 or len(set(a.shape)) > 1:
        raise UnsupportedError("a matrix that is not square, or constant")
    if not 0 < a.shape[0] <= _MOST:
        raise UnsupportedError(f"a matrix of {a.shape[0]} rows, more than {_MOST}")
    if a.dtype.kind in "biu":
        return lowering.operand(a, np.float64)  # type: ignore[no-any-return]
    if a.dtype not in ("float32", "float64"):
        raise UnsupportedError(f"a matrix of {a.dtype}")
    return a


def _eliminated(lowering: Any, a: Value, *beside: Value) -> tuple[list[Value], Any]:
    """The rows of a triangular matrix, with those beside, and the sign of how they were swapped.

    Row k has the numbers from column k on.
    """
    n, where = a.shape[0], lowering.builder.where
    wide = lowering.op("concat", a, *beside, axis=1) if beside else a
    columns = wide.shape[1]
    rows = [lowering.op("index", wide, key=(k, (None, None, None))) for k in range(n)]
    found, sign = [], 1.0
    for k in range(n):
        pivot, *others = rows  # each with the numbers from column k on
        for i, row in enumerate(others):
            swap = abs(part(lowering, row, 0, 1)) > abs(part(lowering, pivot, 0, 1))
            others[i], pivot = where(swap, pivot, row), where(swap, row, pivot)
            flip = lowering.shaped(swap, ())
            sign = (
                where(flip, -sign, sign)
                if isinstance(sign, Value)
                else where(flip, lowering.builder.scalar(-1, a.dtype.name), sign)
            )
        first = part(lowering, pivot, 0, 1)
        rest = part(lowering, pivot, 1, columns - k) if columns - k > 1 else None
        rows = []
        for row in others:
            assert rest is not None
            factor = part(lowering, row, 0, 1) / first
            rows.append(part(lowering, row, 1, columns - k) - factor * rest)
        found.append(pivot)
    return found, sign


def _det(lowering: Any, a: Any) -> Value:
    a = _matrix(lowering, a)
    rows, sign = _eliminated(lowering, a)
    pivots = [lowering.shaped(part(lowering, row, 0, 1), ()) for row in rows]
    found = functools.reduce(operator.mul, pivots, sign)
    squares = lowering.op("sum", a * a, axis=(1,), keepdims=False)
    sizes = [lowering.shaped(part(lowering, squares, k, k + 1), ()) for k in range(a.shape[0])]
    # Hadamard's bound: with it as large as rows allow, none of the pivots is what rounding left
    largest = functools.reduce(operator.mul, sizes)
    lowering.mark(~(found * found * _CONDITION**2 > largest))
    return lowering.op("solved", found)  # type: ignore[no-any-return]


def _solved(lowering: Any, a: Value, right: Value) -> Value:
    """The matrix that gives `right` if `a` is multiplied with it."""
    n, columns = a.shape[0], right.shape[1]
    rows, _ = _eliminated(lowering, a, right)
    found: list[Any] = [None] * n
    for k in reversed(range(n)):
        row = rows[k]
        total = part(lowering, row, n - k, n - k + columns)
        for j in range(k + 1, n):
            total = total - part(lowering, row, j - k, j - k + 1) * found[j]
        found[k] = total / part(lowering, row, 0, 1)
    wide = [lowering.shaped(x, (1, columns)) for x in found]
    return wide[0] if n == 1 else lowering.op("concat", *wide, axis=0)  # type: ignore[no-any-return]


def _size(lowering: Any, a: Value) -> Value:
    """The largest sum of sizes in a row."""
    total = lowering.op("sum", abs(a), axis=(1,), keepdims=False)
    return lowering.op("max", total, axis=(0,), keepdims=False)  # type: ignore[no-any-return]


def _identity(lowering: Any, a: Value) -> Value:
    return lowering.operand(np.eye(a.shape[0]), a.dtype)  # type: ignore[no-any-return]


def _checked(lowering: Any, a: Value, inverse: Value, found: Value) -> Value:
    """The solution, marked where the matrix is ill-conditioned."""
    lowering.mark(~(_size(lowering, a) * _size(lowering, inverse) < _CONDITION))
    return lowering.op("solved", found)  # type: ignore[no-any-return]


def _inv(lowering: Any, a: Any) -> Value:
    a = _matrix(lowering, a)
    found = _solved(lowering, a, _identity(lowering, a))
    return _checked(lowering, a, found, found)


def _solve(lowering: Any, a: Any, b: Any) -> Value:
    a = _matrix(lowering, a)
    b = b if isinstance(b, Value) else np.asarray(b)
    n, shape = a.shape[0], b.shape
    if np.result_type(a.dtype, b.dtype) != a.dtype or len(shape) not in (1, 2) or shape[0] != n:
        raise UnsupportedError(f"a system with {b.dtype}{list(shape)}")
    right = lowering.shaped(lowering.operand(b, a.dtype), (n, int(np.prod(shape[1:]))))
    both = lowering.op("concat", right, _identity(lowering, a), axis=1)
    found = _solved(lowering, a, both)
    whole, columns = (None, None, None), right.shape[1]
    inverse = lowering.op("index", found, key=(whole, (columns, columns + n, 1)))
    found = lowering.op("index", found, key=(whole, (0, columns, 1)))
    return _checked(lowering, a, inverse, lowering.shaped(found, shape))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.linalg.det": _det,
    "numpy.linalg.inv": _inv,
    "numpy.linalg.solve": _solve,
}
"""Lowerings by names of functions."""
