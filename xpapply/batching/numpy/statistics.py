"""Batching rules of NumPy's averages, percentiles, covariances and correlations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, constant, flat, plain
from ..rules import batch_size, results, shifted


def average(
    xp: Any,
    call: Any,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Average along one axis, with weights of that axis."""
    n = batch_size((a, weights))
    a = as_rows(xp, a, n)
    if weights is None and axis is not None and a.ndim > 0:
        array = xp.ascontiguousarray(a.array)
        axis = shifted(axis, a.ndim)
        return results(call(array, axis=axis, returned=returned, keepdims=keepdims))
    if a.ndim != 1:
        raise Unsupported
    if weights is not None:
        weights = as_rows(xp, weights, n)
        if weights.shape != a.shape:
            raise Unsupported
        weights = xp.ascontiguousarray(weights.array)
    if axis is not None:
        shifted(axis, 1)
    array = xp.ascontiguousarray(a.array)
    return results(call(array, axis=-1, weights=weights, returned=returned, keepdims=keepdims))


def quantile(
    xp: Any,
    call: Any,
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: Any = None,
) -> Any:
    """`percentile` and `quantile`: the axis of a vector `q` comes first in each slice's result."""
    constant(axis, method)
    plain(q)
    if out is not None or overwrite_input or interpolation is not None:
        raise NoRule("quantile in place")
    if weights is not None or a.ndim == 0 or (axis is None and a.ndim > 1 and keepdims):
        raise Unsupported
    array = flat(a) if axis is None else a.array
    if xp is np and array.ndim == 2 and np.ndim(q) == 0 and _may_wrap(array):
        raise Unsupported  # NumPy warns of one number that wraps, and not of several
    axis = -1 if axis is None else shifted(axis, a.ndim)
    found = call(array, q, axis=axis, method=method, keepdims=keepdims)
    if xp.__name__ == "cupy" and array.dtype.kind == "f" and method in ("linear", "midpoint"):
        found = _of_largest(xp, call, array, q, axis, keepdims, found)
    return Batched(xp.ascontiguousarray(xp.moveaxis(found, np.ndim(q), 0)))


def _of_largest(
    xp: Any, call: Any, array: Any, q: Any, axis: int, keepdims: bool, found: Any
) -> Any:
    """`found`, but for the quantiles that are the largest numbers of their slices.

    CuPy's kernel adds 0 times the difference to the number after. After the largest is the next
    slice's smallest, whose NaN or infinity makes NaN of it; of one slice it is the largest itself.
    """
    shares = np.asarray(q.get() if hasattr(q, "get") else q)
    shares = np.true_divide(shares, 100) if call.__name__ == "percentile" else shares
    n = array.shape[axis]
    at = np.flatnonzero(np.floor(shares * (n - 1.0)) >= n - 1)
    if not at.size:
        return found
    largest = xp.max(array, axis=axis, keepdims=keepdims)
    largest = (largest + (largest - largest) * 0).astype(found.dtype)
    if shares.ndim == 0:
        return largest
    found[at] = largest
    return found


def _may_wrap(rows: np.ndarray) -> bool:
    """Whether differences of sorted neighbours may overflow the dtype."""
    if rows.dtype.kind != "i" or rows.size == 0:
        return False
    if int(rows.max()) - int(rows.min()) <= np.iinfo(rows.dtype).max:
        return False
    return bool((np.diff(np.sort(rows)) < 0).any())


def nanquantile(xp: Any, call: Any, a: Any, q: Any, axis: Any = None, **kw: Any) -> Any:
    """Slices with as many NaNs go together through `quantile`, without them."""
    constant(axis)
    plain(q)
    if kw.get("overwrite_input"):
        raise NoRule("quantile in place")
    without = getattr(xp, call.__name__.removeprefix("nan"))
    if kw.keys() - {"method"}:
        raise Unsupported
    return _without_nans(
        xp, lambda x: quantile(xp, without, Batched(x), q, -1, **kw).array, a, axis
    )


def nanmedian(xp: Any, call: Any, a: Any, axis: Any = None, **kw: Any) -> Any:
    """Slices with as many NaNs go together through `median`, without them."""
    if kw.get("overwrite_input"):
        raise NoRule("median in place")
    if kw:
        raise Unsupported
    return _without_nans(xp, lambda x: xp.median(x, axis=-1), a, axis)


def _without_nans(xp: Any, function: Callable[[Any], Any], a: Batched, axis: Any) -> Batched:
    if a.ndim == 0 or a.array.size == 0:
        raise Unsupported
    if axis is None or a.ndim == 1:
        shifted(axis or 0, 1)
        outer, x = a.array.shape[:1], flat(a)
    elif shifted(axis, a.ndim) in (-1, a.ndim):
        outer, x = a.array.shape[:-1], a.array.reshape(-1, a.shape[-1])
    else:
        raise Unsupported
    missing = xp.isnan(x)
    counts = (~missing).sum(axis=1)
    found: Any = None
    if not missing.any():
        found = function(x)
    else:
        x = xp.take_along_axis(x, xp.argsort(missing, axis=1, kind="stable"), axis=1)
    for count in np.unique(np.asarray(counts)) if missing.any() else ():
        if count:
            part = function(x[counts == count, :count])
            if found is None:
                found = xp.full((len(x), *part.shape[1:]), np.nan, part.dtype)
            found[counts == count] = part
    if bool((counts == 0).any()):
        if found is None or found.dtype != x.dtype:
            raise Unsupported  # such a result has the dtype of the input
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    if len(outer) > 1 and found.ndim > 1:
        raise Unsupported  # the axis of `q` comes first
    return Batched(found.reshape(*outer, *found.shape[1:]))


def cov(
    xp: Any,
    call: Any,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """The covariance of variables of each slice."""
    constant(rowvar, bias, ddof)
    if fweights is not None or aweights is not None:
        raise Unsupported
    n = batch_size((m, y))
    given = [as_rows(xp, x, n) for x in (m, y) if x is not None]
    if any(x.ndim not in (1, 2) for x in given):
        raise Unsupported
    dtype = np.result_type(*(x.dtype for x in given), np.float64) if dtype is None else dtype
    variables = []
    for i, x in enumerate(given):
        array = x.array[:, None] if x.ndim == 1 else x.array
        turn = (given[0].ndim != 1) if i == 0 else array.shape[1] != 1
        variables.append(array.swapaxes(1, 2) if not rowvar and turn else array)
    x = xp.array(xp.concatenate(variables, axis=1), dtype=dtype, order="C")
    if x.shape[1] == 0 or x.shape[2] == 0:
        raise Unsupported
    ddof = (0 if bias else 1) if ddof is None else ddof
    if ddof != int(ddof) or x.shape[2] - ddof <= 0:
        raise Unsupported
    x -= x.mean(axis=2, keepdims=True)
    found = x @ x.swapaxes(1, 2).conj()
    found *= np.true_divide(1, x.shape[2] - ddof)
    return Batched(found.reshape(n, *(s for s in found.shape[1:] if s != 1)))


def corrcoef(
    xp: Any, call: Any, x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None
) -> Any:
    """The correlations of variables of each slice."""
    c = cov(xp, xp.cov, x, y, rowvar, dtype=dtype).array
    if c.ndim == 1:
        return Batched(c / c)
    deviation = xp.sqrt(xp.diagonal(c, axis1=1, axis2=2).real)
    c /= deviation[:, :, None]
    c /= deviation[:, None, :]
    xp.clip(c.real, -1, 1, out=c.real)
    if c.dtype.kind == "c":
        xp.clip(c.imag, -1, 1, out=c.imag)
    return Batched(c)
