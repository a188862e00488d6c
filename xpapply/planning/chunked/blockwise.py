"""Functions of the slices of dask's arrays: the same call on each block, when dask computes it.

What a result is like has to be known before any is computed. The graph of a function tells; where
there is none, its result for the first slice does, as it does in NumPy's loop.
"""

from __future__ import annotations

import copy
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ... import arrays, config, frontends
from ...backends import choice
from ...errors import InputError
from ...ir.graph import ShapeDtype
from ...limits import LIMITS
from .. import engines
from ..adapters import results
from ..application import Application, announce
from ..plan import Plan
from . import block_results
from .block_results import Smaller
from .on_block import First, OnBlock, mapped


def plan(app: Application, *, tell: bool) -> Plan:
    """Decide how a function is applied to the slices of a dask array.

    For functions of Python the keywords ``dtype`` and
    ``shape`` say what a result is, as for `dask.array.apply_along_axis`, unless `f` has
    parameters of these names. `tell`: whether to warn if it runs slice by slice.
    """
    from ...backends.dask import blocks

    f, arr, axes = app.f, app.arr, app.axes
    blocks.check(arr)
    frontend = frontends.find(f)
    forced = config.current().engine
    choice.check_name(forced, frontend.ways)
    app.check_any()
    slice_ = app.slice
    library = str(arrays.library(arr._meta))

    def first_slice() -> Any:
        return blocks.first_slice(arr, axes)

    found = block_results.decide(app, slice_, first_slice, library)
    graph, first, app = found.graph, found.first, replace(app, kwargs=found.kwargs)
    runs: Any = Smaller(f)
    network = frontends.is_network(f)
    alone = graph is not None and not graph.gathers and not frontend.checks
    if network and alone and not forced:
        assert graph is not None
        runs = engines.AnyLibrary(graph)
    elif network:
        runs = Smaller(snapshot(f))
    arr = blocks.whole(arr, axes)
    options = blocks.own_options()
    silent = tell and config.current().fallback == "silent"  # a silent reason is not looked for
    why = None
    if first is not None and not forced and not silent:
        why = _why_looped(app, first)
    if tell and why is not None and first is not None:
        announce(f, math.prod(app.batch), why, first.x)
        options["fallback"] = "silent"  # tasks may run where no warning is seen
    more = app.args, app.kwargs
    task = OnBlock(runs, app.axis, more, (found.shape, found.dtype), first, options)
    count = math.prod(n for a, n in enumerate(arr.numblocks) if a not in axes)
    return app.plan(
        "dask",
        device=blocks.device(arr),
        reasons=() if why is None else (f"in each chunk the loop runs: {why}",),
        kernels=(
            f"chunk by chunk when they are computed, each as a {blocks.kind(arr)}: {count}",
            *(FIRST,) * (first is not None),
        ),
        graph=None if math.isnan(math.prod(arr.shape)) else graph,
        results=(ShapeDtype(found.shape, found.dtype.name),),
        _call=_Call(app, task),
    )


def snapshot(f: Any) -> Any:
    """A network as it is now, whatever becomes of it until its blocks are computed."""
    with suppress(Exception):
        return copy.deepcopy(f)
    return f


FIRST = "the first slice, of the first block, tells the shape and dtype of results"
"""The reason given where no graph determines the result."""


def _why_looped(app: Application, first: First) -> str | None:
    """Why `f` runs slice by slice in the chunks, if its first slice shows that."""
    rest = [a for a in range(app.arr.ndim) if a not in app.axes]
    if not (isinstance(first.x, np.ndarray) and isinstance(app.axis, int) and rest):
        return None
    if not frontends.is_python(app.f):
        return None
    from ..python import python_functions  # and with it the tracer
    from ..python.applied import Along

    some = np.repeat(first.x, LIMITS.block_decided_by, axis=rest[0])
    found = python_functions.decide(Along(app.f, app.axis, some, app.args, app.kwargs))
    return None if found.quick else found.why


class _Call:
    """The call of a plan: with another array of dask, or one that is computed already."""

    def __init__(self, app: Application, task: OnBlock) -> None:
        self._app, self._slice, self._task = app.on(None), app.slice, task

    def __call__(self, x: Any, axis: Any) -> Any:
        app = self._app.on(x, axis)
        if arrays.library(x) != "dask" or axis != self._app.axis:
            return results(app)
        if str(app.slice) != str(self._slice):
            raise InputError(f"this plan is for slices {self._slice}: found {app.slice}")
        name = frontends.name_of(app.f).rpartition(".")[2].strip("<>")
        return mapped(self._task, x, f"{name}-along-axis")
