"""Functions of the slices of dask's arrays: the same call on each block, when dask computes it.

What a result is like has to be known before any is computed. The graph of a function tells; where
there is none, its result for the first slice does, as it does in NumPy's loop.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ... import arrays, config, frontends
from ...arrays import as_tuple
from ...backends import choice
from ...errors import InputError
from ...ir.graph import ShapeDtype
from ...limits import LIMITS
from ...loop import reference
from .. import engines
from ..fallback import announce
from ..plan import Plan
from . import block_results
from .on_block import First, OnBlock, mapped

Run = Callable[..., Any]
"""``run(f, axis, arr, *args, **kwargs)``: `xpapply.apply_along_axis` on a block."""


def plan(run: Run, f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict, *, tell: bool) -> Plan:
    """Decide how ``apply_along_axis(f, axis, arr, *args, **kwargs)`` runs on a dask array.

    `axis` is not negative, or a tuple of such. For functions of Python the keywords ``dtype`` and
    ``shape`` say what a result is, as for `dask.array.apply_along_axis`, unless `f` has
    parameters of these names. `tell`: whether to warn if it runs slice by slice.
    """
    from ...backends.dask import blocks

    blocks.check(arr)
    frontend = frontends.find(f)
    forced = config.current().engine
    choice.check_name(forced, frontend.ways)
    axes = as_tuple(axis)
    if 0 in [n for a, n in enumerate(arr.shape) if a not in axes]:
        raise ValueError(reference.EMPTY)
    slice_ = ShapeDtype(tuple(arr.shape[a] for a in axes), arrays.dtype_name(arr))
    library = str(arrays.library(arr._meta))

    def first_slice() -> Any:
        return blocks.first_slice(arr, axes)

    found = block_results.decide(run, f, axis, slice_, args, kwargs, first_slice, library)
    graph, first, kwargs = found.graph, found.first, found.kwargs
    by: Run | None = run
    what = f
    network = frontends.is_network(f)
    alone = graph is not None and not graph.gathers and not frontend.checks
    if network and alone and not forced:
        assert graph is not None
        by, what = None, engines.AnyLibrary(graph)
    elif network:
        what = snapshot(f)
    arr = blocks.whole(arr, axes)
    options = blocks.own_options()
    silent = tell and config.current().fallback == "silent"  # what nobody hears is not asked
    why = None
    if first is not None and not forced and not silent:
        why = _why_looped(f, axis, arr, first, args, kwargs)
    if tell and why is not None and first is not None:
        announce(f, math.prod(arr.shape[a] for a in range(arr.ndim) if a not in axes), why, first.x)
        options["fallback"] = "silent"  # tasks may run where nobody hears of it
    task = OnBlock(by, what, axis, (args, kwargs), (found.shape, found.dtype), first, options)
    count = math.prod(n for a, n in enumerate(arr.numblocks) if a not in axes)
    return Plan(
        name=frontends.name_of(f),
        engine="dask",
        slice=slice_,
        library="dask",
        device=blocks.device(arr),
        reasons=() if why is None else (f"in each chunk the loop runs: {why}",),
        kernels=(
            f"chunk by chunk when they are computed, each as a {blocks.kind(arr)}: {count}",
            *(FIRST,) * (first is not None),
        ),
        graph=None if math.isnan(math.prod(arr.shape)) else graph,
        result=ShapeDtype(found.shape, found.dtype.name),
        arr_shape=tuple(arr.shape),
        axis=axis,
        _call=_Call(run, f, task, slice_),
    )


def snapshot(f: Any) -> Any:
    """A network as it is now, whatever becomes of it until its blocks are computed."""
    with suppress(Exception):
        return copy.deepcopy(f)
    return f


FIRST = "the first slice, of the first block, tells the shape and dtype of results"
"""Where no graph does."""


def _why_looped(f: Any, axis: Any, arr: Any, first: First, args: tuple, kwargs: dict) -> str | None:
    """Why `f` runs slice by slice in the chunks, if its first slice tells."""
    rest = [a for a in range(arr.ndim) if a not in as_tuple(axis)]
    if not (isinstance(first.x, np.ndarray) and isinstance(axis, int) and rest):
        return None
    if not frontends.is_python(f):
        return None
    from ..python import python_functions  # and with it the tracer
    from ..python.applied import Along

    some = np.repeat(first.x, LIMITS.block_decided_by, axis=rest[0])
    found = python_functions.decide(Along(f, axis, some, args, kwargs))
    return None if found.quick else found.why


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
