"""Compiled plan of a graph of several arrays, for any library: a call decides nothing."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import arrays, config
from ..arrays.jitted import program
from ..arrays.layout import boxes
from ..backends import array_api, choice
from ..errors import InputError
from ..ir.batch import batch
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import expand
from ..limits import LIMITS
from ..loop.signature import loop_of


class OfSeveral:
    """Run one array operation per node, in blocks of slices.

    Call it with the arrays, their core dims last; it returns the array of the result, or a tuple
    of them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._batched = batch(expand(graph))
        self._consts = graph.consts
        self._avals = [graph.nodes[i].aval for i in graph.inputs]
        self._results = [graph.nodes[o].aval for o in graph.outs]
        nbytes = sum(math.prod(n.aval.shape[:-1]) * 8 for n in self._batched.nodes)
        self._rows = max(1, LIMITS.compiled_block // max(1, nbytes))
        self._programs: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *given: Any) -> Any:
        """The results for all slices."""
        if len(given) != len(self._avals):
            raise TypeError(f"this plan is for {len(self._avals)} arrays: found {len(given)}")
        if any(arrays.library(x) == "dask" for x in given):
            return self._blockwise(given)
        arrays.get_array_module(*given)  # raises for arrays of different libraries
        like = next((x for x in given if arrays.library(x) not in (None, "numpy")), None)
        xp = arrays.compat(np.empty(0) if like is None else like)
        operands, loops = [], []
        for k, (x, aval) in enumerate(zip(given, self._avals, strict=True)):
            if arrays.library(x) is None or (like is not None and arrays.library(x) == "numpy"):
                x = np.asarray(x) if like is None else arrays.asarray(x, like)
            core = _core(x, aval, k)
            if arrays.dtype_name(x) != aval.dtype:
                x = xp.astype(x, arrays.dtype_of(xp, aval.dtype))
            operands.append(x)
            loops.append(tuple(x.shape)[: x.ndim - core])
        loop = loop_of(loops)
        views = [
            arrays.broadcast_to(x, (*loop, *a.shape))
            for x, a in zip(operands, self._avals, strict=True)
        ]
        consts = [
            arrays.asarray(c if c.flags.writeable else c.copy(), views[0]) for c in self._consts
        ]
        if arrays.library(views[0]) == "jax":  # which cannot be written to
            outs = self._program(len(loop), views[0])(views, consts)
        else:
            own = choice.backend(str(arrays.library(views[0]))) or array_api.BACKEND
            outs = [own.empty((*loop, *x.shape), x.dtype, views[0]) for x in self._results]
            for box in boxes((*loop, 1), len(loop), self._rows):
                at = (*box[: len(loop)], ...)
                found = _block(self._batched, len(loop), [x[at] for x in views], consts)
                for out, y in zip(outs, found, strict=True):
                    out[at] = y
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _program(self, dims: int, like: Any) -> Callable[..., Any]:
        """The program for arrays that cannot be written to, cached by layout."""
        key = dims, arrays.library(like)
        found = self._programs.get(key)
        if found is None:
            found = program(functools.partial(_block, self._batched, dims), like)
            self._programs[key] = found
        return found

    def _blockwise(self, given: Sequence[Any]) -> Any:
        """Build the lazy result of arrays of dask; blocks run when they are computed."""
        from ..backends.dask import blocks

        operands = [blocks.lazy(x) for x in given]
        cores = [_core(x, a, k) for k, (x, a) in enumerate(zip(operands, self._avals, strict=True))]
        pairs = zip(operands, cores, strict=True)
        whole = [blocks.whole(x, range(x.ndim - core, x.ndim)) for x, core in pairs]
        results = [(a.shape, np.dtype(a.dtype)) for a in self._results]
        task = _OnBlocks(self.graph, blocks.own_options())
        found = blocks.looped(task, whole, cores, results, "compiled")
        return tuple(found) if len(found) > 1 else found[0]


def _block(batched: Graph, dims: int, views: list[Any], consts: list[Any]) -> list[Any]:
    """The results of one block, ``(*loop, *core)``."""
    xp = arrays.compat(views[0])
    rows, loop = [], tuple(views[0].shape)[:dims]
    count = math.prod(loop)  # which no -1 stands for where slices have no elements
    for x in views:
        core = tuple(x.shape)[dims:]
        order = (*range(dims, x.ndim), *range(dims))
        rows.append(xp.reshape(arrays.permute(x, order), (*core, count)))
    with np.errstate(all="ignore"):
        found = array_api.evaluate(xp, batched, rows, consts)
    results = []
    for y in found:
        y = xp.reshape(y, (*tuple(y.shape)[:-1], *loop))
        n = y.ndim - dims
        results.append(arrays.permute(y, (*range(n, y.ndim), *range(n))))
    return results


def _core(x: Any, aval: ShapeDtype, k: int) -> int:
    """The number of core dims of argument `k`, after a check of its slice shape."""
    core = len(aval.shape)
    if tuple(x.shape)[x.ndim - core :] != aval.shape or x.ndim < core:
        raise InputError(
            f"this plan is for slices {aval} of argument {k}: found {arrays.describe(x)}"
        )
    return core


class _OnBlocks:
    """The task of one set of corresponding blocks."""

    def __init__(self, graph: Graph, options: dict[str, Any]) -> None:
        self._call, self._options = OfSeveral(graph), options

    def __reduce__(self) -> Any:
        return _OnBlocks, (self._call.graph, self._options)

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        from ..backends.dask import blocks

        own = blocks.token_of_graph(self._call.graph)
        return normalize_token(("xpapply.compile", own, self._options))

    def __call__(self, more: Any, *blocks: Any) -> Any:
        """The results for all slices of some blocks."""
        with config.options(**self._options):
            return self._call(*blocks)
