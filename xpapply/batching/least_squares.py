"""Batching rules of NumPy's least-squares fits: `numpy.polyfit` and `numpy.linalg.lstsq`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Batched, NoRule
from .function_rules import Unsupported, as_rows, by_rows, constant, traced
from .rules import batch_size, mapped

_WELL_CONDITIONED = 1e5
"""Ratios of singular values up to which two ways to a solution agree to some ten digits."""


def _odd(rows: Any) -> Any:
    """Right-hand sides that LAPACK would scale, and the others along with them."""
    rows = rows if rows.dtype.kind in "fc" else rows.astype(float)
    with np.errstate(all="ignore"):
        largest = abs(rows).max(axis=1, initial=0)
        least = abs(rows).min(axis=1, initial=np.inf, where=rows != 0)
        big, small = (1e100, 1e-100) if rows.dtype.itemsize > 4 else (1e15, 1e-15)
    return ~((largest < big) & ((largest > small) | (largest == 0)) & (least > 0))


def _apart(xp: Any, call: Any, args: tuple, kwargs: dict, odd: Any, run: Any) -> Any:
    """`run` on the slices that are not odd, the call itself on each of those that are."""
    if not bool(odd.any()):
        return run(lambda x: x)
    alone = by_rows(xp, call, *mapped(lambda x: Batched(x.array[odd]), (args, kwargs)))
    if bool(odd.all()):
        return alone
    return _merged(run(lambda x: Batched(x.array[~odd])), alone, odd)


def _merged(most: Any, alone: Any, odd: Any) -> Any:
    if isinstance(alone, (tuple, list)):
        parts = [_merged(m, a, odd) for m, a in zip(most, alone, strict=True)]
        return type(alone)(parts)
    given = most.array if isinstance(most, Batched) else np.asarray(most)[None]
    if given.shape[1:] != alone.shape or given.dtype != alone.dtype:
        raise NoRule("slices have results of different shapes or dtypes")
    found = np.empty((len(odd), *alone.shape), alone.dtype)
    found[odd], found[~odd] = alone.array, given
    return Batched(found)


def polyfit(
    xp: Any,
    call: Any,
    x: Any,
    y: Any,
    deg: Any,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
) -> Any:
    """Places that are the same for all slices: one system with many right-hand sides."""
    constant(deg, rcond, full, cov)
    if traced(w):
        raise Unsupported
    if traced(x):
        if w is not None or rcond is not None or full or cov or xp is not np:
            raise Unsupported
        return _fits(x, y, int(deg))
    if y.ndim != 1 or (full and xp is not np):
        raise Unsupported
    options = {"rcond": rcond, "full": full, "w": w, "cov": cov}

    def run(part: Any) -> Any:
        found = call(x, part(y).array.T, deg, **options)
        if full:
            return _full(found, len(part(y).array))
        if not cov:
            return Batched(xp.ascontiguousarray(found.T))
        base = xp.moveaxis(found[1], -1, 0)  # "unscaled" is the same for all
        base = xp.broadcast_to(base, (len(part(y).array), *base.shape[1:]))
        return Batched(xp.ascontiguousarray(found[0].T)), Batched(xp.ascontiguousarray(base))

    return _apart(xp, call, (x, y, deg), options, _odd(y.array), run)


def _full(found: tuple, n: int) -> tuple:
    """Solutions, squared residuals (of a slice: one, or none), and what is the same for all."""
    solution, residuals, *same = found
    shape = (n, 1) if residuals.size else (n, 0)
    return Batched(np.ascontiguousarray(solution.T)), Batched(residuals.reshape(shape)), *same


def _fits(x: Batched, y: Any, deg: int) -> Any:
    """Places of their own for all slices: a stack of systems, solved as `numpy.polyfit` does."""
    n = batch_size((x, y))
    places, values = as_rows(np, x, n).array, as_rows(np, y, n).array
    if places.ndim != 2 or values.shape != places.shape:
        raise Unsupported
    if not {places.dtype.kind, values.dtype.kind} <= {*"biuf"}:
        raise Unsupported
    places, values = places.astype(float), values.astype(float)
    if not 0 <= deg < places.shape[1]:
        raise Unsupported
    if not (np.abs(places) < 1e30).all() or not (np.abs(values) < 1e100).all():
        raise Unsupported  # also NaN, for which LAPACK raises
    with np.errstate(all="ignore"):
        system = places[:, :, None] ** np.arange(deg, -1, -1)
        scale = np.sqrt((system * system).sum(axis=1))
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise Unsupported
        u, s, vt = np.linalg.svd(system / scale[:, None], full_matrices=False)
        if not (s[:, -1] > 1e3 * places.shape[1] * np.finfo(float).eps * s[:, 0]).all():
            raise Unsupported  # NumPy warns of a poor fit
        inner = _times(u.transpose(0, 2, 1), values) / s
        return Batched(_times(vt.transpose(0, 2, 1), inner) / scale)


def _times(matrices: Any, vectors: Any) -> Any:
    return (matrices @ vectors[:, :, None])[:, :, 0]


def lstsq(xp: Any, call: Any, a: Any, b: Any, rcond: Any = None) -> Any:
    """One matrix for all slices, with a right-hand side of each; or a matrix of each."""
    constant(rcond)
    if xp is not np or not traced((a, b)):
        raise Unsupported
    if not isinstance(a, Batched):
        return _one_matrix(call, a, b, rcond)
    n = batch_size((a, b))
    right = as_rows(xp, b, n)
    if a.ndim != 2 or right.ndim != 1 or right.shape != a.shape[:1] or 0 in a.array.shape:
        raise Unsupported
    if not (rcond is None or (np.ndim(rcond) == 0 and rcond < 1 / _WELL_CONDITIONED)):
        raise Unsupported
    if not {a.dtype.kind, right.dtype.kind} <= {*"biuf"} or a.shape[0] < a.shape[1]:
        raise Unsupported
    example = call(*mapped(lambda x: x.array[0], (a, b)), rcond)
    dtype = example[0].dtype
    rows, columns = a.shape
    matrix, right = a.array.astype(dtype), right.array.astype(dtype)
    odd = _odd(matrix.reshape(n, -1)) | _odd(right)
    with np.errstate(all="ignore"):
        ordinary = np.where(odd[:, None, None], np.eye(rows, columns, dtype=dtype), matrix)
        u, s, vt = np.linalg.svd(ordinary, full_matrices=False)
        odd |= ~(s[:, 0] < _WELL_CONDITIONED * s[:, -1])

    def run(part: Any) -> Any:
        m, r, left, values, v = (part(Batched(x)).array for x in (matrix, right, u, s, vt))
        inner = _times(left.swapaxes(1, 2), r) / values
        x = _times(v.swapaxes(1, 2), inner)
        rest = r - _times(m, x)
        residuals = (rest * rest).sum(axis=1, keepdims=True) if rows > columns else rest[:, :0]
        rank = np.full(len(m), columns, np.asarray(example[2]).dtype)
        return Batched(x), Batched(residuals), Batched(rank), Batched(values)

    return _apart(xp, call, (a, b, rcond), {}, odd, run)


def _one_matrix(call: Any, a: Any, b: Any, rcond: Any) -> Any:
    if b.ndim != 1:
        raise Unsupported

    def run(part: Any) -> Any:
        right = part(b).array
        return _full(call(a, right.T, rcond), len(right))

    return _apart(np, call, (a, b, rcond), {}, _odd(b.array), run)
