"""`special.bincount`: counts of each integer in every slice."""

from __future__ import annotations

import importlib
import operator
from contextlib import nullcontext
from typing import Any

import numpy as np

from .. import arrays, config, labelled
from ..backends import array_api, choice
from ..errors import InputError
from ..ir.slices import accumulators
from .arguments import looked_at, normalize_axes, same_place
from .function import Slicewise


def _least_and_largest(x: Any) -> tuple[Any, Any]:
    by = (accumulators.simple(name, x.aval.dtype) for name in ("min", "max"))
    low, high = (x.builder.accumulate(of, x)[0] for of in by)
    return low, high


_extent = Slicewise("bincount", _least_and_largest)


def bincount(x: Any, axis: Any, weights: Any, minlength: int) -> Any:
    """Counts along `axis`, with the bins in the place of its first axis."""
    try:
        x = looked_at("bincount", x, alone=True)
        weights = None if weights is None else looked_at("bincount", weights, alone=True)
    except labelled.Labelled:
        return _of_labelled(x, axis, weights, minlength)
    own = [x] if weights is None else [x, weights]
    lazy = any(arrays.library(a) == "dask" for a in own)
    if not lazy:  # NumPy's arrays among dask's become dask's
        same_place("bincount", own)
    least = operator.index(minlength)
    if least < 0:
        raise InputError(f"minlength={least}: use an integer that is not negative")
    if not _is_whole(arrays.dtype_name(x)):
        raise TypeError(
            f"bincount of dtype {x.dtype}: it counts integers. Cast the array first: x.astype(int)"
        )
    axes = normalize_axes(axis, x.ndim)
    if weights is not None:
        _check(x, weights)
    if lazy:
        from .bincount_on_dask import counts

        return counts(bincount, x, weights, axes, least)
    if weights is not None:
        weights = _weights(x, weights)
    bins = max(least, _bins(x))
    found = _counts(x, weights, axes, bins)
    at = min(axes, default=x.ndim)
    order = (*range(at), found.ndim - 1, *range(at, found.ndim - 1))
    return arrays.permute(found, order)


def _of_labelled(x: Any, axis: Any, weights: Any, minlength: int) -> Any:
    def run(given: Any, axes: Any) -> Any:
        return bincount(given[0], axes, given[1] if len(given) > 1 else None, minlength)

    operands = (x,) if weights is None else (x, weights)
    return labelled.given(operands).sliced(run, operands, axis, ("bin",))


def _is_whole(dtype: str) -> bool:
    return dtype == "bool" or "int" in dtype


def _check(x: Any, weights: Any) -> None:
    """Refuse weights that are not real, or do not go with `x`."""
    if "complex" in arrays.dtype_name(weights):
        raise TypeError("bincount with complex weights: take the real and the imaginary part apart")
    if any(n != n for n in x.shape):  # chunks of dask of unknown length, which blocks will tell
        return
    try:
        if np.broadcast_shapes(tuple(x.shape), tuple(weights.shape)) != tuple(x.shape):
            raise ValueError
    except ValueError:
        raise InputError(
            f"bincount: weights of shape {tuple(weights.shape)} do not broadcast to those of x, "
            f"{tuple(x.shape)}"
        ) from None


def _weights(x: Any, weights: Any) -> Any:
    """The weights as float64, as NumPy has them, and of the shape of `x`."""
    xp = arrays.compat(x)
    dtype = arrays.dtype_of(xp, "float64")
    weights = weights if weights.dtype == dtype else xp.astype(weights, dtype)
    return xp.broadcast_to(weights, tuple(x.shape))


def _bins(x: Any) -> int:
    """The largest number plus one."""
    if 0 in x.shape or arrays.dtype_name(x) == "bool":
        return 0 if 0 in x.shape else 1 + int(arrays.compat(x).any(x))
    low, high = (int(v) for v in _extent((x,)))
    if low < 0:
        raise InputError(f"bincount of {low}: it counts numbers that are not negative")
    return high + 1


def _counts(x: Any, weights: Any, axes: tuple[int, ...], bins: int) -> Any:
    """Counts by the backend of `x`, or by the one that borrows its memory."""
    own = choice.backend(arrays.library(x) or "numpy")
    given = [x] if weights is None else [x, weights]
    borrower = None if own is None else own.slices_borrower(given)
    if own is None or isinstance(borrower, str) or config.current().engine == "array_api":
        return array_api.counts(x, weights, axes, bins)
    if borrower is None:
        found = own.counts(x, weights, axes, bins)
        return array_api.counts(x, weights, axes, bins) if found is None else found
    backend = choice.backend(borrower.engine)
    assert backend is not None
    view = importlib.import_module(borrower.engine).from_dlpack
    with nullcontext() if borrower.context is None else borrower.context(x):
        seen, *others = [view(v.detach()) for v in given]
        found = backend.counts(seen, others[0] if others else None, axes, bins)
        return arrays.compat(x).from_dlpack(found)
