"""Batching rules of NumPy's least-squares fits: `numpy.polyfit` and `numpy.linalg.lstsq`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, by_rows, cache_parts, constant, traced
from ..rules import batch_size, mapped

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


def series_fit(
    xp: Any,
    call: Any,
    x: Any,
    y: Any,
    deg: Any,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
) -> Any:
    """Fits of `numpy.polynomial`, at places that are the same for all slices."""
    constant(deg, rcond, full)
    if full or traced(x) or traced(w) or y.ndim != 1:
        raise Unsupported

    def run(part: Any) -> Any:
        found = call(x, part(y).array.T, deg, rcond=rcond, w=w)
        return Batched(np.ascontiguousarray(found.T))

    return _apart(xp, call, (x, y, deg), {"rcond": rcond, "w": w}, _odd(y.array), run)


def _full(found: tuple, n: int) -> tuple:
    """Solutions, squared residuals (of a slice: one, or none), and what is the same for all."""
    solution, residuals, *same = found
    shape = (n, 1) if residuals.size else (n, 0)
    return Batched(np.ascontiguousarray(solution.T)), Batched(residuals.reshape(shape)), *same


def _fits(x: Batched, y: Any, deg: int) -> Any:
    """Places of their own for all slices."""
    n = batch_size((x, y))
    places, values = as_rows(np, x, n).array, as_rows(np, y, n).array
    if places.ndim != 2 or values.shape != places.shape or places.shape[1] == 0:
        raise Unsupported
    return Batched(fits(places, values, np.ones(places.shape, bool), deg))


def fits(places: Any, values: Any, within: Any, deg: int, weights: Any = None) -> Any:
    """The coefficients of `numpy.polyfit` for each row, of the numbers `within` alone.

    By the modified Gram-Schmidt process on the system and the values together, which is as stable
    as Householder's (Bjorck, "Solving linear least squares problems by Gram-Schmidt
    orthogonalization", BIT 7, 1967), and works on all slices at once. Where NumPy may warn or
    raise it is called itself.
    """
    given = [x for x in (places, values, weights) if x is not None]
    kinds = {x.dtype.kind for x in given}
    if not kinds <= {*"biuf"} or deg < 0 or np.float16 in [x.dtype for x in given[1:]]:
        raise Unsupported
    found = np.empty((len(values), deg + 1))
    for part in cache_parts(len(values), 8 * values.shape[1]):
        found[part] = _fits_of_part(within[part], deg, *(x[part] for x in given))
    return found


def _fits_of_part(within: Any, deg: int, *given: Any) -> Any:
    x, y, *weights = (np.where(within, v, 0.0) for v in given)
    counts = np.count_nonzero(within, axis=1)
    with np.errstate(all="ignore"):
        # also NaN, for which LAPACK raises
        usual = (np.abs(x).max(axis=1) < 1e30) & (np.abs(y).max(axis=1) < 1e100)
        columns = _powers(x, within, deg)
        for w in weights:
            columns, y = [c * w for c in columns], y * w
            usual &= np.abs(w).max(axis=1) < 1e100
        found, condition = _solved(columns, y)
        # beyond that NumPy leaves out what it takes for rounding, and warns
        dtype = given[0].dtype if given[0].dtype.kind == "f" else float
        least = max(1e3 * np.finfo(float).eps, 10 * float(np.finfo(dtype).eps))
        usual &= condition * least * counts < 1
    for k in np.flatnonzero(~usual | (counts <= deg)):
        places, values, *own = (v[k][within[k]] for v in given)
        found[k] = np.polyfit(places, values, deg, w=own[0] if own else None)
    return found


def of_rows(a: Any, values: Any, within: Any, roots: Any, rcond: Any) -> Any:
    """What `numpy.linalg.lstsq` finds for each row, of the rows of `a` that are `within`.

    `values` are zeros beside them. Rows of an orthogonal basis of the columns are nearly
    orthogonal: their normal equations, solved twice, give as many digits as Householder's process
    (Bjorck, "Stability analysis of the method of seminormal equations for linear least squares
    problems", Linear Algebra and its Applications 88/89, 1987). What is badly conditioned has
    NumPy's own.
    """
    basis, above = _factors(a.tobytes(), a.shape[1])
    to, found = np.linalg.inv(above).T, np.empty((len(values), a.shape[1]))
    with np.errstate(all="ignore"):
        usual = good_roots(roots) & (np.abs(values).max(axis=1) < 1e100)
        for part in cache_parts(len(values), 8 * a.shape[1] ** 2):
            root, rest = np.moveaxis(roots[part], 0, -1), values[part].astype(float)
            first = _times_square(root, small_products(rest, basis))
            rest = (rest - small_products(first, basis.T)) * within[part]
            found[part] = (first + _times_square(root, small_products(rest, basis))) @ to
    for i in np.flatnonzero(~usual):
        found[i] = np.linalg.lstsq(a[within[i]], values[i][within[i]], rcond)[0]
    return found


def sizes_of_rows(a: Any, within: Any, roots: Any) -> Any:
    """The singular values of ``a[rows]`` for each row of `within`, most of small triangles."""
    good, found = good_roots(roots), np.empty((len(within), a.shape[1]))
    small = np.linalg.inv(roots[good]).swapaxes(1, 2) @ _factors(a.tobytes(), a.shape[1])[1]
    for part, some in ((good, small), (~good, np.where(within[~good][:, :, None], a, 0.0))):
        found[part] = np.linalg.svd(some, compute_uv=False)
    return found


def conditions_of_rows(a: Any, within: Any, roots: Any) -> Any:
    """At least the ratios of the largest of these to the smallest."""
    whole = np.linalg.cond(_factors(a.tobytes(), a.shape[1])[1])
    found, bad = whole * np.sqrt(np.einsum("bij,bij->b", roots, roots)), ~good_roots(roots)
    sizes = sizes_of_rows(a, within[bad], roots[bad])
    found[bad] = sizes[:, 0] / sizes[:, -1]
    return found


def products_of_rows(a: Any, b: Any, within: Any, roots: Any) -> Any:
    """``a[rows].T @ b[rows]`` for each row of `within`; `b` may be values, zeros beside them.

    Of rows that do not determine as many numbers as there are columns what is solved with them is
    rounding, or raises: then it has NumPy's bits.
    """
    k, of_values = a.shape[1], b.shape == within.shape
    if of_values:
        found = small_products(b, a)
    else:
        each = (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
        found = small_products(within.astype(float), each).reshape(len(within), k, -1)
    for i in np.flatnonzero(~good_roots(roots)):
        rows = within[i]
        found[i] = a[rows].T @ (b[i][rows] if of_values else b[rows])
    return found


def small_products(a: Any, b: Any) -> Any:
    """``a @ b`` in products of so few numbers that OpenBLAS takes one thread for each.

    Its threads, once awake, turn until the next product: those that run other blocks wait for them.
    """
    half = len(b) // 2
    if b.size > 2**14 and half:
        return small_products(a[:, :half], b[:half]) + small_products(a[:, half:], b[half:])
    few = 2**18 if b.shape[1] > 1 else 2**13  # from there on, by its source, it has threads
    parts = np.array_split(a, len(a) // max(4, few // b.size) + 1)
    return np.concatenate([part @ b for part in parts])


def roots_of_rows(a: Any, within: Any) -> Any:
    """The inverse roots of normal equations: of rows of an orthogonal basis that are `within`.

    NaN where they are not good: too few rows, or badly conditioned.
    """
    k = a.shape[1]
    basis, low = _factors(a.tobytes(), k)[0], np.tril_indices(k)
    pairs, found = basis[:, low[0]] * basis[:, low[1]], np.empty((k, k, len(within)))
    with np.errstate(all="ignore"):
        for part in cache_parts(len(within), 8 * k * k):
            squares = np.zeros((k, k, len(within[part])))
            squares[low] = small_products(within[part].astype(float), pairs).T
            root, condition = _inverse_root(squares)
            is_good = np.count_nonzero(within[part], axis=1) > k
            found[..., part] = np.where(is_good & (condition < _WELL_CONDITIONED), root, np.nan)
    return np.moveaxis(found, -1, 0)


@functools.lru_cache(16)
def _factors(a: bytes, columns: int) -> Any:
    """The factors of a matrix, which all blocks have in common: LAPACK's threads may wait long."""
    return np.linalg.qr(np.frombuffer(a).reshape(-1, columns))


def good_roots(roots: Any) -> Any:
    """Which are good."""
    return roots[:, 0, 0] == roots[:, 0, 0]


def _inverse_root(squares: Any) -> tuple[Any, Any]:
    """The inverse of Cholesky's factors of matrices, the last axis is theirs, and its square."""
    k = len(squares)
    low, found = np.zeros_like(squares), np.zeros_like(squares)
    for j in range(k):
        low[j:, j] = squares[j:, j] - np.einsum("ijb,jb->ib", low[j:, :j], low[j, :j])
        low[j:, j] /= np.sqrt(low[j, j])
        found[j, j] = 1.0
        found[j, :j] = -np.einsum("jb,jib->ib", low[j, :j], found[:j, :j])
        found[j, : j + 1] /= low[j, j]
    return found, np.einsum("ijb,ijb->b", found, found)


def _times_square(root: Any, right: Any) -> Any:
    """``root.T @ root @ right`` of each."""
    return np.einsum("ijb,ib->bj", root, np.einsum("ijb,bj->ib", root, right))


def _powers(x: Any, within: Any, deg: int) -> list[Any]:
    """The columns of the systems, the highest power first."""
    columns = [within.astype(float)]
    for _ in range(deg):
        columns.append(columns[-1] * x)
    return columns[::-1]


def _solved(columns: list[Any], y: Any) -> tuple[Any, Any]:
    """The solutions of all systems, and at least the condition of each with scaled columns."""
    n = len(columns)
    scales = [np.sqrt(_dot(c, c)) for c in columns]
    columns = [c / s[:, None] for c, s in zip(columns, scales, strict=True)]
    above = np.zeros((n, n + 1, len(y)))  # of the triangle, with the values as one more column
    columns.append(y)
    for j in range(n):
        above[j, j] = np.sqrt(_dot(columns[j], columns[j]))
        unit = columns[j] / above[j, j][:, None]
        for k in range(j + 1, n + 1):
            above[j, k] = _dot(unit, columns[k])
            columns[k] = columns[k] - above[j, k][:, None] * unit
    right = np.zeros((n, n + 1, len(y)))  # of the identity and the values
    right[:, n] = above[:, n]
    right[range(n), range(n)] = 1.0
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            right[j] -= above[j, k] * right[k]
        right[j] /= above[j, j]
    size = np.sqrt((above[:, :n] ** 2).sum(axis=(0, 1)))
    inverse = np.sqrt((right[:, :n] ** 2).sum(axis=(0, 1)))
    return np.stack([right[j, n] / scales[j] for j in range(n)], axis=1), size * inverse


def _dot(a: Any, b: Any) -> Any:
    """The products of rows."""
    return np.einsum("ij,ij->i", a, b)


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
