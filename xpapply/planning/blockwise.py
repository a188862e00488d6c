"""Functions of the slices of dask's arrays: the same call on each block, when dask computes it.

What a result is like has to be known before any is computed. The graph of a function tells; where
there is none, its result for the first slice does, as it does in NumPy's loop.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import arrays, config, frontends, loop
from ..errors import InputError, TraceError
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import compact, fold
from ..looped_call import not_parameters
from . import engines
from .fallback import announce
from .on_block import First, OnBlock, as_tuple, inner, mapped
from .plan import Plan

Run = Callable[..., Any]
"""``run(f, axis, arr, *args, **kwargs)``: `xpapply.apply_along_axis` on a block."""


def plan(run: Run, f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict, *, tell: bool) -> Plan:
    """Decide how ``apply_along_axis(f, axis, arr, *args, **kwargs)`` runs on a dask array.

    `axis` is not negative, or a tuple of such. For functions of Python the keywords ``dtype`` and
    ``shape`` say what a result is, as for `dask.array.apply_along_axis`, unless `f` has
    parameters of these names. `tell`: whether to warn if it runs slice by slice.
    """
    from ..backends.dask import blocks

    blocks.check(arr)
    frontend = frontends.find(f)
    forced = config.current().engine
    engines.check_name(forced, getattr(frontend, "VECTORIZED", ()))
    axes = as_tuple(axis)
    if 0 in [n for a, n in enumerate(arr.shape) if a not in axes]:
        raise ValueError(loop.EMPTY)
    given, kwargs = _given(f, kwargs)
    network = frontends.is_network(f)
    slice_ = ShapeDtype(tuple(arr.shape[a] for a in axes), arrays.dtype_name(arr))
    graph, result, why = None, None, ""
    if network or not given.whole:
        why = f"slices of dtype {arr.dtype}"
        if arr.dtype.kind in "biufc":
            graph, result, why = _lifted(f, slice_, args, kwargs)
    if result is not None:
        own = engines.backend(str(arrays.library(arr._meta)))
        assert own is not None
        result = ShapeDtype(result.shape, own.result_dtype(result.dtype))
    by: Run | None = run
    what = f
    if network and graph is not None and not graph.gathers and not forced:
        by, what = None, engines.AnyLibrary(graph)
    elif network:
        what = snapshot(f)
    arr = blocks.whole(arr, axes)
    shape, dtype, first = given.shape, given.dtype, None
    if result is None and not given.whole:
        first = _first(run, f, axis, axes, arr, args, kwargs)
        result = ShapeDtype(inner(first.y, first.x, axes), "")
        dtype = dtype or first.y.dtype
    if result is not None:
        shape = result.shape if shape is None else shape
        dtype = dtype or np.dtype(result.dtype)
    assert shape is not None
    assert dtype is not None
    options = blocks.own_options()
    if tell and first is not None and not forced and _announced(f, axis, arr, first, args, kwargs):
        options["fallback"] = "silent"  # tasks may run where nobody hears of it
    task = OnBlock(by, what, axis, (args, kwargs), (shape, dtype), first, options)
    told = f"the first slice, of the first block, says what results are: {why}"
    count = math.prod(n for a, n in enumerate(arr.numblocks) if a not in axes)
    return Plan(
        name=frontends.name_of(f),
        engine="dask",
        slice=slice_,
        library="dask",
        device=blocks.device(arr),
        reasons=() if first is None else (told,),
        kernels=(f"chunk by chunk when they are computed, each as a {blocks.kind(arr)}: {count}",),
        graph=None if math.isnan(math.prod(arr.shape)) else graph,
        result=ShapeDtype(shape, dtype.name),
        arr_shape=tuple(arr.shape),
        axis=axis,
        _call=_Call(run, f, task, slice_),
    )


@dataclass(frozen=True)
class _Given:
    """What the call says of a result."""

    shape: tuple[int, ...] | None
    dtype: np.dtype | None

    @property
    def whole(self) -> bool:
        return self.shape is not None and self.dtype is not None


def _given(f: Any, kwargs: dict) -> tuple[_Given, dict]:
    """What the keywords say of a result, and the keywords of `f`."""
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
        if len(slice_.shape) > 1 and hasattr(frontend, "flattened"):
            flat = frontend.flattened(f, slice_.shape, slice_.dtype)
            f, slice_ = flat.call, ShapeDtype((math.prod(slice_.shape),), slice_.dtype)
        elif hasattr(frontend, "fitted") and not (args or kwargs):
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


def snapshot(f: Any) -> Any:
    """A network as it is now, whatever becomes of it until its blocks are computed."""
    with suppress(Exception):
        return copy.deepcopy(f)
    return f


def _first(
    run: Run, f: Any, axis: Any, axes: tuple[int, ...], arr: Any, args: tuple, kwargs: dict
) -> First:
    """What `f` makes of the first slice."""
    from ..backends.dask import blocks

    x = blocks.first_slice(arr, axes)
    if x is None:
        raise ValueError(loop.EMPTY)
    with config.options(fallback="silent"):
        y = run(f, axis, x, *args, **kwargs)
        y = y if hasattr(y, "ndim") else np.asanyarray(y)
    return First(x, y)


_ENOUGH = 64
"""Slices of which is decided how a function runs on those of a block."""


def _announced(f: Any, axis: Any, arr: Any, first: First, args: tuple, kwargs: dict) -> bool:
    """Say now that `f` runs slice by slice, if its first slice tells; whether it does."""
    rest = [a for a in range(arr.ndim) if a not in as_tuple(axis)]
    known = isinstance(first.x, np.ndarray) and isinstance(axis, int) and rest
    if config.current().fallback == "silent" or not known or not frontends.is_python(f):
        return False
    from . import python_functions  # and with it the tracer
    from .applied import Along

    some = np.repeat(first.x, _ENOUGH, axis=rest[0])
    found = python_functions.decide(Along(f, axis, some, args, kwargs))
    if found.why is None or found.quick:
        return False
    announce(f, math.prod(arr.shape[a] for a in rest), found.why)
    return True


class _Call:
    """The call of a plan: with another array of dask, or one that is computed already."""

    def __init__(self, run: Run, f: Any, task: OnBlock, slice_: ShapeDtype) -> None:
        self._run, self._f, self._task, self._slice = run, f, task, slice_

    def __call__(self, x: Any, axis: Any) -> Any:
        task, axes = self._task, as_tuple(axis)
        if arrays.library(x) != "dask" or axis != task.axis:
            args, kwargs = task.more
            return self._run(self._f, axis, x, *args, **kwargs)
        found = ShapeDtype(tuple(x.shape[a] for a in axes), arrays.dtype_name(x))
        if str(found) != str(self._slice):
            raise InputError(f"this plan is for slices {self._slice}: found {found}")
        name = frontends.name_of(self._f).rpartition(".")[2].strip("<>")
        return mapped(task, x, f"{name}-along-axis")
