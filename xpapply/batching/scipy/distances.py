"""Rules of `scipy.spatial.distance`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import Batched
from ..rules import _ndim, batch_size, bound, leaves
from .axis import Rule, by_rows, extreme, not_finite, repeated, split


def nrm2(a: Any) -> Any:
    """The norms of vectors as BLAS returns them: a double of the vector's precision."""
    wide = a.astype(np.float64) if a.dtype.kind in "fiu" else a.astype(np.complex128)
    found = np.sqrt(np.vecdot(wide, wide).real)
    return found.astype(np.float32).astype(np.float64) if a.dtype.char in "fF" else found


def distance(formula: Callable[[Any, Any], Any], odd: Any = not_finite, kinds: str = "fiu") -> Rule:
    """SciPy's formula of two vectors on all slices."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        pair = [given.pop("u"), given.pop("v")]
        if xp is not np or (given.pop("w", None) is not None) or given:
            return by_rows(xp, call, args, kwargs)
        n = batch_size(pair)
        u, v = (repeated(np, x, n) for x in pair)
        kind = {u.dtype.kind, v.dtype.kind} <= {*kinds} and {u.dtype.char, v.dtype.char}
        if u.ndim != 2 or u.shape != v.shape or u.shape[1] == 0 or not kind or "e" in kind:
            return by_rows(xp, call, args, kwargs)
        return split(xp, call, args, kwargs, formula, [u, v], odd)

    return rule


@functools.lru_cache
def _by_blas(call: Any) -> bool:
    """Whether norms are BLAS's, in double precision for all dtypes, as before SciPy 1.18."""
    vector = np.zeros(1, np.float32)
    return np.asarray(call(vector, vector)).dtype == np.float64


def minkowski(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A norm of the difference; euclidean is that of p=2."""
    given = bound(call, args, kwargs)
    u, v, p = given.get("u"), given.get("v"), given.get("p", 2)
    if (
        xp is not np
        or given.get("w") is not None
        or not all(_ndim(x) == 1 for x in (u, v))
        or not isinstance(p, (int, float))
        or p <= 0
    ):
        return by_rows(xp, call, args, kwargs)
    u, v = (x.array if isinstance(x, Batched) else np.asarray(x) for x in (u, v))
    if u.shape[-1] != v.shape[-1] or not {u.dtype.char, v.dtype.char} <= {*"fdilIL"}:
        return by_rows(xp, call, args, kwargs)

    def run(difference: Any) -> Any:
        if p == 2 and _by_blas(call):
            return nrm2(difference)
        return np.linalg.norm(difference, ord=p, axis=-1)

    return split(xp, call, args, kwargs, run, [u - v], extreme)


def correlation(u: Any, v: Any) -> Any:
    """1 less the correlation of two vectors."""
    return cosine(u - u.mean(-1, keepdims=True), v - v.mean(-1, keepdims=True))


def cosine(u: Any, v: Any) -> Any:
    """1 less the cosine of their angle."""
    uv = np.vecdot(u, v)
    return np.clip(1.0 - uv / np.sqrt(np.vecdot(u, u) * np.vecdot(v, v)), 0.0, 2.0)


def sqeuclidean(u: Any, v: Any) -> Any:
    """The square of their distance."""
    u, v = (x if x.dtype.kind == "f" else x.astype(np.float64) for x in (u, v))
    return np.vecdot(u - v, u - v)


def braycurtis(u: Any, v: Any) -> Any:
    """The share of what differs in what is there."""
    v = v.astype(np.float64)
    return abs(u - v).sum(-1) / abs(u + v).sum(-1)


def canberra(u: Any, v: Any) -> Any:
    """The sum of the shares of each."""
    v = v.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.nansum(abs(u - v) / (abs(u) + abs(v)), axis=-1)


def mahalanobis(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """By one matrix for all slices."""
    given = bound(call, args, kwargs)
    u, v = (given[k] for k in ("u", "v"))
    inverse = given["VI"]
    if xp is not np or any(leaves(inverse)) or not all(_ndim(x) == 1 for x in (u, v)):
        return by_rows(xp, call, args, kwargs)
    inverse, n = np.atleast_2d(np.asarray(inverse)), batch_size((args, kwargs))
    arrays = [repeated(np, x, n) for x in (u, v)]
    of_doubles = all(x.dtype == np.float64 for x in (*arrays, inverse))
    if not of_doubles or any(x.shape != (n, len(inverse)) for x in arrays):
        return by_rows(xp, call, args, kwargs)

    def squares(u: Any, v: Any) -> Any:
        return np.vecdot((u - v) @ inverse, u - v)

    def run(u: Any, v: Any) -> Any:
        return np.sqrt(squares(u, v))

    def unsure(u: Any, v: Any) -> Any:
        """Slices whose number may be below 0, by a matrix that is not positive definite."""
        return ~(squares(u, v) > 1e-9 * np.abs(inverse).max() * np.vecdot(u - v, u - v))

    return split(xp, call, args, kwargs, run, arrays, extreme, together=unsure)


_OF_ALL = ("seuclidean", "mahalanobis")
"""Metrics by the variances of all vectors, unless these are given."""


def cdist(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Distances of the vectors of all slices from some that are the same for all."""
    given = bound(call, args, kwargs)
    pair = [given.pop(k) for k in ("XA", "XB")]
    metric = given.get("metric", "euclidean")
    which = [isinstance(x, Batched) for x in pair]
    known = isinstance(metric, str) and metric not in _OF_ALL and given.keys() <= {"metric", "p"}
    if xp is not np or not known or sum(which) != 1 or any(leaves(given)):
        return by_rows(xp, call, args, kwargs)
    x, other = pair[which.index(True)], pair[which.index(False)]
    if x.ndim != 2 or 0 in x.array.shape or any(leaves(other)) or np.ndim(other) != 2:
        return by_rows(xp, call, args, kwargs)
    n, count, width = x.array.shape
    rows = x.array.reshape(n * count, width)
    if which[0]:
        return Batched(call(rows, other, **given).reshape(n, count, -1))
    found = call(other, rows, **given).reshape(-1, n, count)
    return Batched(np.ascontiguousarray(found.transpose(1, 0, 2)))
