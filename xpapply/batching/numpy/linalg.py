"""Batching rules of products and of `numpy.linalg`; least squares have a file of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, constant, contiguous, flat, infinite_products
from ..rules import aligned, batch_size, elementwise, mapped, results, shifted


def _ndims(*xs: Any) -> tuple[int, ...]:
    return tuple(x.ndim if isinstance(x, Batched) else np.ndim(x) for x in xs)


def _multiplied(xp: Any, a: Any, b: Any) -> Any:
    a, b = (x if isinstance(x, Batched) else xp.asarray(x) for x in (a, b))
    return elementwise(xp, xp.multiply, (a, b), {})


def dot(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Sums over the last axis of `a` and the last but one of `b`."""
    ndims = _ndims(a, b)
    if 0 in ndims:
        return _multiplied(xp, a, b)
    return _summed(xp, a, b, [ndims[0] - 1], [max(0, ndims[1] - 2)])


def inner(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Sums over the last axes."""
    ndims = _ndims(a, b)
    if 0 in ndims:
        return _multiplied(xp, a, b)
    return _summed(xp, a, b, [ndims[0] - 1], [ndims[1] - 1])


def vdot(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Sums of all products with the conjugate."""
    n = batch_size((a, b))
    one, other = flat(as_rows(xp, a, n)), flat(as_rows(xp, b, n))
    return _summed(xp, Batched(one.conj()), Batched(other), [0], [0])


def tensordot(xp: Any, call: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums over any axes."""
    constant(axes)
    ndims = _ndims(a, b)
    if np.ndim(axes) == 0:
        pairs = [list(range(-int(axes), 0)), list(range(int(axes)))]
    else:
        pairs = [[int(i) for i in np.atleast_1d(x)] for x in axes]
    return _summed(xp, a, b, *([i % d for i in p] for p, d in zip(pairs, ndims, strict=True)))


def _summed(xp: Any, a: Any, b: Any, of_a: list[int], of_b: list[int]) -> Any:
    """Products of matrices whose inner axes are those of the sums."""
    if infinite_products(xp, a, b):
        raise Unsupported
    one, rows, n = _matrix(xp, a, of_a, True)
    other, columns, m = _matrix(xp, b, of_b, False)
    if n != m:
        raise ValueError("shape-mismatch for sum")
    if one.ndim == 3 and other.ndim == 2 and one.shape[1] == 1 and columns:
        found = (one[:, 0] @ other)[:, None]  # one product for all slices
    elif one.ndim == 2 and other.ndim == 3 and other.shape[2] == 1 and rows:
        found = (other[:, :, 0] @ one.T)[:, :, None]
    else:
        found = one @ other
    return Batched(found.reshape(found.shape[0], *rows, *columns))


def _matrix(xp: Any, x: Any, axes: list[int], last: bool) -> tuple[Any, list[int], list[int]]:
    """A matrix of each slice or, of a constant, one; the kept shape and the summed shape."""
    rows = isinstance(x, Batched)
    array = x.array if rows else xp.asarray(x)
    shape = array.shape[1:] if rows else array.shape
    kept = [i for i in range(len(shape)) if i not in axes]
    order = [i + rows for i in (kept + axes if last else axes + kept)]
    left, over = [shape[i] for i in kept], [shape[i] for i in axes]
    sides = [int(np.prod(left)), int(np.prod(over))]
    array = array.transpose([0, *order] if rows else order)
    size = array.shape[:1] if rows else ()
    return array.reshape(*size, *(sides if last else sides[::-1])), left, over


def outer(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """All products."""
    n = batch_size((a, b))
    one, other = flat(as_rows(xp, a, n)), flat(as_rows(xp, b, n))
    return Batched(one[:, :, None] * other[:, None, :])


def einsum(xp: Any, call: Any, *operands: Any, **kwargs: Any) -> Any:
    """Add a letter for the slices."""
    constant(kwargs)
    first = operands[0]
    if not isinstance(first, str) or "." in first or infinite_products(xp, *operands[1:]):
        raise Unsupported
    inputs, arrow, output = first.replace(" ", "").partition("->")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    batch = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZ" if c not in first)
    terms = inputs.split(",")
    pairs = list(zip(terms, operands[1:], strict=True))
    letters = ",".join(batch + t if isinstance(x, Batched) else t for t, x in pairs)
    arrays = mapped(lambda x: x.array, operands[1:])
    return Batched(call(f"{letters}->{batch}{output}", *arrays, **kwargs))


def kron(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """All products, with the axes of both in turns."""
    n = batch_size((a, b))
    a, b = as_rows(xp, a, n), as_rows(xp, b, n)
    ndim = max(a.ndim, b.ndim)
    one, other = aligned(a, ndim), aligned(b, ndim)
    sides = [x.shape[1:] for x in (one, other)]
    one = one.reshape(n, *(s for d in sides[0] for s in (d, 1)))
    other = other.reshape(n, *(s for d in sides[1] for s in (1, d)))
    return Batched((one * other).reshape(n, *(i * j for i, j in zip(*sides, strict=True))))


def cross(xp: Any, call: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    """Vectors in the last axes."""
    last = set(kwargs) <= {"axis"} and kwargs.get("axis", -1) == -1
    if not last or 0 in _ndims(a, b):
        raise Unsupported
    return elementwise(xp, call, (a, b), {})


vecdot = cross
"""Sums of products along the last axes."""


def norm(
    xp: Any, call: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Any:
    """Vectors and matrices; the 2-norm of all values is a dot product, as in NumPy."""
    constant(ord, axis, keepdims)
    if x.ndim == 0:
        raise Unsupported
    euclidean = ord is None or (ord == 2 and x.ndim == 1) or (ord in ("f", "fro") and x.ndim == 2)
    array = x.array if x.dtype.kind in "fc" else x.array.astype(float)
    n = array.shape[0]
    if axis is None and euclidean:
        array = array.reshape(n, -1)
        parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
        squares = [(p[:, None, :] @ p[:, :, None]).reshape(n) for p in parts]
        found = xp.sqrt(sum(squares[1:], squares[0]))
        return Batched(found.reshape(n, *(1,) * x.ndim) if keepdims else found)
    if axis is None:
        if x.ndim > 2:
            raise Unsupported
        axis = -1 if x.ndim == 1 else (-2, -1)
    array = contiguous(xp)(Batched(array)).array
    return Batched(call(array, ord, shifted(axis, x.ndim), keepdims))


def solve(xp: Any, call: Any, a: Any, b: Any) -> Any:
    """Vectors are matrices of one column."""
    ndims = _ndims(a, b)
    if ndims[0] != 2 or ndims[1] not in (1, 2):
        raise Unsupported
    n = batch_size((a, b))
    if not isinstance(a, Batched) and ndims[1] == 1:
        return Batched(xp.ascontiguousarray(call(a, b.array.T).T))
    a, b = as_rows(xp, a, n), as_rows(xp, b, n)
    right = b.array[..., None] if ndims[1] == 1 else b.array
    found = call(a.array, right)
    return Batched(found[..., 0] if ndims[1] == 1 else found)


def _eigenvalues(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


def eig(xp: Any, call: Any, a: Any) -> Any:
    """Stacks, unless some slices have complex results and others have not."""
    if a.ndim != 2:
        raise Unsupported
    found = call(a.array)
    is_complex = a.dtype.kind != "c" and _eigenvalues(found).dtype.kind == "c"
    if xp is np and is_complex:  # CuPy's are complex for all
        real = (_eigenvalues(found).imag == 0).all(axis=-1)
        # as NumPy's are from 2.5 on: it is asked about one that could be real
        if real.any() and _eigenvalues(call(a.array[real.argmax()])).dtype.kind != "c":
            raise NoRule("eigenvalues of some slices are real, of others complex")
    return results(found)
