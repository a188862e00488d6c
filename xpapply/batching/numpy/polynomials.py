"""Batching rules of NumPy's polynomials; their fit is in `least_squares`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, constant, flat
from ..rules import aligned, batch_size


def vander(xp: Any, call: Any, x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Powers in the last axis."""
    constant(N, increasing)
    if x.ndim != 1:
        raise Unsupported
    n = x.shape[0] if N is None else N
    found = xp.empty((*x.array.shape, n), np.promote_types(x.dtype, int))
    powers = found if increasing else found[..., ::-1]
    if n > 0:
        powers[..., 0] = 1
    if n > 1:
        powers[..., 1:] = x.array[..., None]
        xp.multiply.accumulate(powers[..., 1:], out=powers[..., 1:], axis=-1)
    return Batched(found)


def polyval(xp: Any, call: Any, p: Any, x: Any) -> Any:
    """Horner's scheme, on all slices."""
    if not isinstance(p, Batched):
        if np.ndim(p) != 1:
            raise Unsupported
        return Batched(call(p, x.array))
    if p.ndim != 1 or isinstance(x, np.poly1d):
        raise Unsupported
    x = as_rows(xp, x, batch_size(p))
    if x.ndim == 0 and x.dtype.kind in "iu" and p.dtype.kind in "iu":
        raise Unsupported  # NumPy warns of single integers that overflow
    found = xp.zeros_like(x.array)
    for k in range(p.shape[0]):
        found = found * x.array + aligned(Batched(p.array[:, k]), x.ndim)
    return Batched(found)


def series_value(xp: Any, call: Any, x: Any, c: Any, tensor: Any = True) -> Any:
    """Values of a series of `numpy.polynomial`: of one, or at one place, for all slices."""
    if (
        tensor is not True
        or np.ndim(c) != 1
        or not isinstance(x, (int, float, np.ndarray, Batched))
    ):
        raise Unsupported
    if not isinstance(x, Batched):
        return Batched(xp.ascontiguousarray(call(x, c.array.T)))
    if isinstance(c, Batched):
        raise Unsupported
    return Batched(call(x.array, c))


def series_derivative(xp: Any, call: Any, c: Any, m: int = 1, scl: Any = 1, axis: int = 0) -> Any:
    """Derivatives of series of `numpy.polynomial`, which go along an axis."""
    constant(m, scl, axis)
    if c.ndim != 1 or axis != 0:
        raise Unsupported
    return Batched(xp.ascontiguousarray(call(c.array.T, m, scl).T))


def series_integral(
    xp: Any,
    call: Any,
    c: Any,
    m: int = 1,
    k: Any = (),
    lbnd: Any = 0,
    scl: Any = 1,
    axis: int = 0,
) -> Any:
    """Integrals of series of `numpy.polynomial`; one of a constant asks whether that is 0."""
    constant(m, k, lbnd, scl, axis)
    if c.ndim != 1 or c.shape[0] < 2 or axis != 0:
        raise Unsupported
    return Batched(xp.ascontiguousarray(call(c.array.T, m, list(np.atleast_1d(k)), lbnd, scl).T))


def polyder(xp: Any, call: Any, p: Any, m: int = 1) -> Any:
    """Coefficients times exponents."""
    constant(m)
    if p.ndim != 1 or m < 0:
        raise Unsupported
    array = p.array
    for _ in range(m):
        array = array[:, :-1] * xp.arange(array.shape[1] - 1, 0, -1)
    return Batched(array)


def polyint(xp: Any, call: Any, p: Any, m: int = 1, k: Any = None) -> Any:
    """Coefficients divided by exponents."""
    constant(m)
    if p.ndim != 1 or m != 1 or (k is not None and np.ndim(k)) or isinstance(k, Batched):
        raise Unsupported
    array = p.array / xp.arange(p.shape[0], 0, -1)
    last = xp.full((len(array), 1), 0.0 if k is None else k)
    return Batched(xp.concatenate([array, last], axis=1))


def _poly_sum(xp: Any, call: Any, a1: Any, a2: Any) -> Any:
    n = batch_size((a1, a2))
    if any(isinstance(a, np.poly1d) for a in (a1, a2)):
        raise Unsupported
    one, other = flat(as_rows(xp, a1, n)), flat(as_rows(xp, a2, n))
    gap = other.shape[1] - one.shape[1]
    if gap > 0:
        one = xp.concatenate([xp.zeros((n, gap), other.dtype), one], axis=1)
    elif gap < 0:
        other = xp.concatenate([xp.zeros((n, -gap), one.dtype), other], axis=1)
    return Batched(one - other if call.__name__ == "polysub" else one + other)


polyadd = polysub = _poly_sum


def roots(xp: Any, call: Any, p: Any) -> Any:
    """Find roots slice by slice, if no zeros are stripped."""
    if p.ndim != 1 or bool((p.array[:, :1] == 0).any()) or bool((p.array[:, -1:] == 0).any()):
        raise NoRule("roots: the number of roots depends on the data")
    raise Unsupported
