"""Shapes and dtypes of results for blocks, before any block is computed.

The graph of a function tells; where there is none, its result for the first slice does, as it does
in NumPy's loop; or the caller says it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ... import config, frontends
from ...arrays import as_tuple
from ...backends import choice
from ...errors import TraceError
from ...ir.graph import Graph, ShapeDtype
from ...ir.rewrite import compact, fold
from ...loop import reference
from ...loop.vectorize import not_parameters
from ..adapters import results
from ..application import Application
from .on_block import First, inner


class Smaller:
    """A block as a smaller Application.

    Parameters
    ----------
    f : callable
        The function.
    """

    def __init__(self, f: Any) -> None:
        self._f = f

    def __call__(self, block: Any, axis: Any, /, *args: Any, **kwargs: Any) -> Any:
        return results(Application(self._f, axis, block, args, kwargs))

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        if frontends.is_network(self._f):
            import uuid

            return uuid.uuid4().hex  # not even its pickle stays the same: it is never found again
        return normalize_token(self._f)


class Decided(NamedTuple):
    """Shape and dtype of one result, and how that is known."""

    shape: tuple[int, ...]
    dtype: np.dtype
    first: First | None
    """The first slice and its result, where these tell."""
    graph: Graph | None
    why: str
    """Why there is no graph."""
    kwargs: dict
    """The keywords of the function: the others say what its result is."""


def decide(
    app: Application, slice_: ShapeDtype, first_slice: Callable[[], Any], library: str
) -> Decided:
    """Decide shape and dtype of ``f(slice, *args, **kwargs)``.

    Parameters
    ----------
    app : Application
        For functions of Python the keywords ``dtype`` and ``shape`` say what a result is, as for
        `dask.array.apply_along_axis`, unless `f` has parameters of these names.
    slice_ : ShapeDtype
        Of a slice.
    first_slice : callable
        Gives the first slice, with all dims of the array; None if there is none. It is not called
        where it is not needed.
    library : str
        That of the blocks.
    """
    f, args = app.f, app.args
    given, kwargs = _given(f, app.kwargs)
    graph, result, why = None, None, ""
    if frontends.is_network(f) or not given.whole:
        why = f"slices of dtype {slice_.dtype}"
        if slice_.dtype.rstrip("0123456789") in _NUMBERS:
            graph, result, why = _lifted(f, slice_, args, kwargs)
    if result is not None:
        own = choice.backend(library)
        assert own is not None
        result = ShapeDtype(result.shape, own.result_dtype(result.dtype))
    shape, dtype, first = given.shape, given.dtype, None
    if result is None and not given.whole:
        first = _first(replace(app, arr=first_slice(), kwargs=kwargs))
        result = ShapeDtype(inner(first.y, first.x, app.axes), "")
        dtype = dtype or first.y.dtype
    if result is not None:
        shape = result.shape if shape is None else shape
        dtype = dtype or np.dtype(result.dtype)
    assert shape is not None
    assert dtype is not None
    return Decided(shape, dtype, first, graph, why, kwargs)


_NUMBERS = ("bool", "int", "uint", "float", "complex")
"""dtypes that a graph may have, without their bits."""


def _first(app: Application) -> First:
    """Run `f` on the first slice."""
    if app.arr is None:
        raise ValueError(reference.EMPTY)
    with config.options(fallback="silent"):
        y = results(app)
        y = y if hasattr(y, "ndim") else np.asanyarray(y)
    return First(app.arr, y)


@dataclass(frozen=True)
class _Given:
    """Keywords of a call that describe a result."""

    shape: tuple[int, ...] | None
    dtype: np.dtype | None

    @property
    def whole(self) -> bool:
        return self.shape is not None and self.dtype is not None


def _given(f: Any, kwargs: dict) -> tuple[_Given, dict]:
    """Separate the keywords that describe a result from those of `f`."""
    kwargs, found = dict(kwargs), {}
    if kwargs and not frontends.is_network(f):
        names = tuple(k for k in ("dtype", "shape") if k in kwargs)
        found = {k: kwargs.pop(k) for k in not_parameters(f, names)}
    shape, dtype = found.get("shape"), found.get("dtype")
    if shape is not None:
        shape = as_tuple(shape) if not isinstance(shape, list) else tuple(shape)
    return _Given(shape, None if dtype is None else np.dtype(dtype)), kwargs


def _lifted(
    f: Any, slice_: ShapeDtype, args: tuple, kwargs: dict
) -> tuple[Graph | None, ShapeDtype | None, str]:
    """The graph of `f`, what its result is, and why it has no graph."""
    frontend = frontends.find(f)
    if any(math.isnan(n) for n in slice_.shape):
        return None, None, "the length of a slice is unknown"
    flat = None
    try:
        if len(slice_.shape) > 1:
            flat = frontend.flattened(f, slice_.shape, slice_.dtype)
        if flat is not None:
            f, slice_ = flat.call, ShapeDtype((math.prod(slice_.shape),), slice_.dtype)
        elif not (args or kwargs):
            f = frontend.fitted(f, slice_.shape, slice_.dtype)
        graph = compact(fold(frontend.lift(f, slice_, args, kwargs)))
    except TraceError as error:
        return None, None, str(error)
    except Exception as error:
        if frontends.is_network(f):
            raise
        # what a function of Python does with numbers that are made up says nothing against it
        return None, None, str(error) or type(error).__name__
    if flat is None:
        return graph, graph.result, ""
    if flat.alike:  # its last axis is flat as well
        return None, None, "its results are laid flat"
    return None, graph.result, ""
