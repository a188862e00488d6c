"""The definition of `xpapply.vectorize`: a plain loop over several arrays.

It is written to be read, and shares no line with the loop that users' calls fall back to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import arrays, frontends
from ..loop import originals
from ..loop.signature import Places, Signature, places, resolve
from ..vectorized import vectorize


def definition(f: vectorize, *args: Any, **kwargs: Any) -> Any:
    """Evaluate ``f(*args, **kwargs)`` by one call of ``f.pyfunc`` per slice.

    Parameters
    ----------
    f : vectorize
        The function.
    *args, **kwargs
        Those of the call. Keywords of generalized ufuncs are taken from `kwargs`.

    Returns
    -------
    ndarray or tuple of ndarray
        On the host, whatever the library of the arguments. With ``out`` the results, with what
        ``out`` holds where nothing is computed; nothing is written to ``out`` itself.

    Raises
    ------
    Exception
        What `f` raises.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> length = xpapply.vectorize(lambda a: sum(a * a) ** 0.5, signature="(n)->()")
    >>> definition(length, np.array([[3.0, 4.0], [0.0, 2.0]]), axis=0)
    array([3.        , 4.47213595])
    """
    how = {k: kwargs.pop(k) for k in GUFUNC if k in kwargs}
    where, dtype = how.pop("where", None), how.pop("dtype", None)
    mask = (
        None
        if where is None
        else np.asarray(arrays.on_host(where) if arrays.library(where) else where)
    )
    looped, call = _bound(f, args, kwargs)
    out, fill = how.pop("out", None), how.pop("fill", None)
    outs = None if out is None else out if isinstance(out, tuple) else (out,)
    own: Places | None = None
    if f.signature is None:
        parts, several = _of_numbers(f, looped, call, mask, dtype)
    else:
        signature = Signature.parse(f.signature)
        own = places(signature, [x.ndim for x in looped], **how)
        looped = [_core_last(x, a) for x, a in zip(looped, own.inputs, strict=True)]
        parts = _of_slices(f, signature, looped, call, mask, dtype)
        several = len(signature.outputs) > 1
    found = []
    for k, (made, chosen) in enumerate(parts):
        core = () if own is None else own.outputs[k]
        if own is not None and own.keepdims:
            made = made[(..., *(None,) * len(core))]
        target = None if outs is None else outs[k]
        if chosen is not None and (target is None or fill is not None):
            rest = next((x for x in (fill, f._fill) if x is not None), np.nan)
            made = np.where(_wide(chosen, made), made, made.dtype.type(rest))
            chosen = None
        at = np.broadcast_to(True if chosen is None else _wide(chosen, made), made.shape)
        last = range(made.ndim - len(core), made.ndim)
        made, at = np.moveaxis(made, last, core), np.moveaxis(at, last, core)
        if target is not None:
            made, new = np.array(arrays.on_host(target)), made
            np.copyto(made, new, casting="same_kind", where=at)
        found.append(made)
    return tuple(found) if several else found[0]


GUFUNC = ("axis", "axes", "keepdims", "out", "where", "fill", "dtype")
"""Keywords that are the call's, not the function's."""


def _bound(f: vectorize, args: tuple, kwargs: dict) -> tuple[list[Any], Callable[..., Any]]:
    """The arguments that are looped over, and what calls the function for a slice of each."""
    of_slice = f.pyfunc
    if not frontends.is_python(of_slice):
        of_slice = frontends.find(of_slice).slice_function(of_slice)
    positions = [k for k in range(len(args)) if k not in f.excluded]
    names = [n for n in kwargs if n not in f.excluded]

    def call(*slices: Any) -> Any:
        given, named = list(args), dict(kwargs)
        for k, x in zip(positions, slices, strict=False):
            given[k] = x
        for n, x in zip(names, slices[len(positions) :], strict=True):
            named[n] = x
        return of_slice(*given, **named)

    looped = [*(args[k] for k in positions), *(kwargs[n] for n in names)]
    return [x if arrays.library(x) else np.asanyarray(x) for x in looped], call


Part = tuple[Any, Any]
"""Results for the loop dims and the core dims, and for which of the loop dims they are made."""


def _of_numbers(
    f: vectorize, looped: Sequence[Any], call: Callable[..., Any], mask: Any, dtype: Any
) -> tuple[list[Part], bool]:
    """Loop by `numpy.vectorize` over the elements that `where` chooses."""
    hosts = [arrays.on_host(x) for x in looped]
    shape = np.broadcast_shapes(*(x.shape for x in hosts), () if mask is None else mask.shape)
    chosen = hosts
    if mask is not None:
        mask = np.broadcast_to(mask, shape)
        chosen = [np.broadcast_to(x, shape)[mask] for x in hosts]
    otypes: Any = f.otypes
    if dtype is not None:
        first = call(*(x.flat[0] for x in chosen))
        otypes = [dtype] * (len(first) if isinstance(first, tuple) else 1)
    own = originals.vectorize(call, otypes=otypes)
    made = originals.call_vectorize(own, *chosen)
    several = isinstance(made, tuple)
    parts = made if several else (made,)
    return [(_spread(x, mask), mask) for x in parts], several


def _of_slices(
    f: vectorize,
    signature: Signature,
    looped: Sequence[Any],
    call: Callable[..., Any],
    mask: Any,
    dtype: Any,
) -> list[Part]:
    """Loop over slices; the first result decides the dtypes."""
    dims = resolve(signature, [tuple(x.shape) for x in looped])
    loop = np.broadcast_shapes(dims.loop, () if mask is None else mask.shape)
    mask = None if mask is None else np.broadcast_to(mask, loop)
    views = [
        arrays.broadcast_to(x, (*loop, *tuple(x.shape)[x.ndim - len(core) :]))
        for x, core in zip(looped, dims.signature.inputs, strict=True)
    ]
    outputs = dims.signature.outputs
    rows: list[list[np.ndarray]] = [[] for _ in outputs]
    for index in np.ndindex(*loop):
        if mask is not None and not mask[index]:
            continue
        found = call(*(x[index] if isinstance(x, np.ndarray) else x[(*index, ...)] for x in views))
        several = found if isinstance(found, tuple) else (found,)
        if len(several) != len(outputs):
            raise ValueError(f"f has {len(several)} results, {signature} {len(outputs)}")
        for k, (x, core) in enumerate(zip(several, outputs, strict=True)):
            own = _result(x, views)
            dims.sizes.take(core, own.shape, f"result {k}")
            if own.ndim != len(core):
                raise ValueError(f"result {k} has the shape {own.shape}, in {signature}")
            rows[k].append(own)
    parts = []
    for k, made in enumerate(rows):
        promised = dtype if dtype is not None or f.otypes is None else f.otypes[k]
        if not made:
            raise ValueError("no slice tells what the results are")
        block = np.empty((len(made), *made[0].shape), promised or made[0].dtype)
        for n, x in enumerate(made):
            block[n] = x
        whole = block.reshape((*loop, *made[0].shape)) if mask is None else _spread(block, mask)
        parts.append((whole, mask))
    return parts


def _result(x: Any, views: Sequence[Any]) -> np.ndarray:
    """Convert a result of `f` to the library of the arrays."""
    like = next((v for v in views if arrays.library(v) != "numpy"), None)
    if like is not None and arrays.library(x) != arrays.library(like):
        x = arrays.asarray(x, like)
    return np.asanyarray(arrays.on_host(x) if arrays.library(x) else x)


def _spread(x: np.ndarray, mask: Any) -> np.ndarray:
    """Results of chosen slices at their places among all of them."""
    if mask is None:
        return x
    whole = np.zeros((*mask.shape, *x.shape[1:]), x.dtype)
    whole[mask] = x
    return whole


def _wide(mask: np.ndarray, made: np.ndarray) -> np.ndarray:
    return mask[(..., *(None,) * (made.ndim - mask.ndim))]


def _core_last(x: Any, axes: tuple[int, ...]) -> Any:
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    return arrays.permute(x, (*rest, *axes))
