"""Libraries with a way of their own to run a function on all slices: JAX's vmap, dask's chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import arrays, config, loop
from ..errors import TraceError
from ..frontends.python.comparison import close
from ..frontends.python.repeatable import why_not_repeatable
from ..ir.graph import ShapeDtype

Run = Callable[[Any, int, Any, tuple, dict], Any]
"""``run(f, axis, arr, args, kwargs)``: how a function runs on a NumPy array."""


@dataclass(frozen=True)
class OwnWay:
    """How a library itself runs a function: what plans call it, what runs, and the call."""

    engine: str
    kernels: tuple[str, ...]
    result: ShapeDtype
    call: Callable[[Any, int], Any]


def find(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, run: Run) -> OwnWay:
    """The way of the array's own library.

    Raises
    ------
    TraceError
        If it has none, or if `f` should be called for each slice just once.
    """
    make = {"jax": _vmap, "dask": _chunks}.get(str(arrays.library(arr)))
    if make is None:
        raise TraceError(f"{arrays.library(arr)} has no way of its own")
    if 0 in arr.shape or arr.ndim < 2:
        raise TraceError("there is one slice, or none")
    for given in (f, *args, *kwargs.values()):
        why = why_not_repeatable(given) if callable(given) else None
        if why:
            raise TraceError(why)
    return make(f, axis, arr, args, kwargs, run)


# --- JAX --------------------------------------------------------------------------------------


def _vmap(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, run: Run) -> OwnWay:
    """All slices by `jax.vmap`, after a comparison with real calls on three of them."""
    import jax

    if isinstance(arr, jax.core.Tracer):
        raise TraceError("a transform of JAX follows this call")

    def one(v: Any) -> Any:
        return loop.as_array(jax.numpy, f(v, *args, **kwargs), v)

    def call(x: Any, a: int) -> Any:
        batch = x.shape[:a] + x.shape[a + 1 :]
        y = jax.vmap(one)(jax.numpy.moveaxis(x, a, -1).reshape(-1, x.shape[a]))
        y = y.reshape(*batch, *y.shape[1:])
        n = len(batch)
        return jax.numpy.transpose(y, (*range(a), *range(n, y.ndim), *range(a, n)))

    rows = jax.numpy.moveaxis(arr, axis, -1).reshape(-1, arr.shape[axis])
    some = rows[jax.numpy.asarray(sorted({0, len(rows) // 2, len(rows) - 1}))]
    try:
        real = [np.asarray(one(v)) for v in some]
        found = np.asarray(call(some, 1))
    except Exception as error:
        text = str(error).strip().splitlines()[0]
        raise TraceError(f"jax.vmap: {type(error).__name__}: {text}") from None
    for y, want in zip(found, real, strict=True):
        if y.shape != want.shape or y.dtype != want.dtype or not close(y, want):
            raise TraceError("jax.vmap: it gives other results than the slices alone")
    result = ShapeDtype(found.shape[1:], found.dtype.name)
    return OwnWay("jax.vmap", ("jax.vmap of f",), result, call)


# --- dask -------------------------------------------------------------------------------------


class _OnChunk:
    """``f`` on the slices of one chunk, a NumPy array; results as the very first one says."""

    def __init__(
        self, run: Run, f: Any, axis: int, first: np.ndarray, dtype: Any, args: tuple, kwargs: dict
    ) -> None:
        self._run, self._f, self._axis, self._first, self._dtype = run, f, axis, first, dtype
        self._args, self._kwargs = args, kwargs
        # options are local to the thread that set them; dask has threads of its own
        self._options = asdict(config.current()) | {"engine": "", "progress": False}

    def __call__(self, chunk: np.ndarray) -> np.ndarray:
        a = self._axis
        chunk = np.asarray(chunk)
        batch = chunk.shape[:a] + chunk.shape[a + 1 :]
        rows = np.moveaxis(chunk, a, -1).reshape(-1, chunk.shape[a])
        # the first slice of all comes first, so that its result fixes the dtype here as well
        rows = np.concatenate([self._first[None], rows])
        with config.options(**self._options):
            y = np.asarray(self._run(self._f, 1, rows, self._args, self._kwargs))[1:]
        y = y.reshape(*batch, *y.shape[1:])
        n = len(batch)
        return y.transpose(*range(a), *range(n, y.ndim), *range(a, n))


def _chunks(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, run: Run) -> OwnWay:
    """Chunk by chunk, each as a NumPy array, when dask computes them."""
    if type(arr._meta) is not np.ndarray:
        raise TraceError(f"its chunks are {type(arr._meta).__name__}, not NumPy arrays")
    index: list[Any] = [0] * arr.ndim
    index[axis] = slice(None)
    first = np.asarray(arr[tuple(index)])
    try:
        value = f(first.copy(), *args, **kwargs)
    except Exception as error:
        raise TraceError(f"on NumPy slices it raises {type(error).__name__}: {error}") from None
    result = np.asanyarray(value)
    if type(result) is not np.ndarray or result.dtype.hasobject:
        raise TraceError(f"for NumPy slices it returns {type(value).__name__}")
    on_chunk = _OnChunk(run, f, axis, first, result.dtype, args, kwargs)

    def call(x: Any, a: int) -> Any:
        x = x.rechunk({a: -1})
        inside = tuple((n,) for n in result.shape)
        return x.map_blocks(
            on_chunk,
            dtype=result.dtype,
            chunks=(*x.chunks[:a], *inside, *x.chunks[a + 1 :]),
            drop_axis=a,
            new_axis=list(range(a, a + result.ndim)),
            meta=np.empty((0,) * (x.ndim - 1 + result.ndim), result.dtype),
        )

    what = "chunk by chunk when they are computed, each as a NumPy array"
    return OwnWay("dask", (what,), ShapeDtype(result.shape, result.dtype.name), call)
