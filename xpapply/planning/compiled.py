"""A graph of slices of several arrays, for arrays of any library: nothing is decided in a call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import arrays
from ..backends import array_api
from ..core_dims import loop_of
from ..errors import InputError
from ..ir.batch import batch
from ..ir.graph import Graph
from ..ir.rewrite import expand
from ..layout import boxes
from . import engines

_BLOCK_BYTES = 1 << 22
"""Bytes of all values of a block."""


class OfSeveral:
    """One array operation per node, in blocks of slices.

    Call it with the arrays, their core dims last; it returns the array of the result, or a tuple
    of them.
    """

    def __init__(self, graph: Graph) -> None:
        self._batched = batch(expand(graph))
        self._consts = graph.consts
        self._avals = [graph.nodes[i].aval for i in graph.inputs]
        self._results = [graph.nodes[o].aval for o in graph.outs]
        nbytes = sum(math.prod(n.aval.shape[:-1]) * 8 for n in self._batched.nodes)
        self._rows = max(1, _BLOCK_BYTES // nbytes)

    def __call__(self, *given: Any) -> Any:
        """The results for all slices."""
        if len(given) != len(self._avals):
            raise TypeError(f"this plan is for {len(self._avals)} arrays: found {len(given)}")
        arrays.get_array_module(*given)  # raises for arrays of different libraries
        like = next((x for x in given if arrays.library(x) not in (None, "numpy")), None)
        xp = arrays.compat(np.empty(0) if like is None else like)
        operands, loops = [], []
        for k, (x, aval) in enumerate(zip(given, self._avals, strict=True)):
            if arrays.library(x) is None or (like is not None and arrays.library(x) == "numpy"):
                x = np.asarray(x) if like is None else arrays.asarray(x, like)
            core = len(aval.shape)
            if tuple(x.shape)[x.ndim - core :] != aval.shape or x.ndim < core:
                raise InputError(
                    f"this plan is for slices {aval} of argument {k}: found {arrays.describe(x)}"
                )
            if arrays.dtype_name(x) != aval.dtype:
                x = xp.astype(x, array_api.dtype_of(xp, aval.dtype))
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
        if arrays.library(views[0]) in ("jax", "dask"):  # which cannot be written to
            outs = self._block(xp, views, consts, len(loop))
        else:
            own = engines.backend(str(arrays.library(views[0]))) or array_api.BACKEND
            outs = [own.empty((*loop, *x.shape), x.dtype, views[0]) for x in self._results]
            for box in boxes((*loop, 1), len(loop), self._rows):
                at = (*box[: len(loop)], ...)
                found = self._block(xp, [x[at] for x in views], consts, len(loop))
                for out, y in zip(outs, found, strict=True):
                    out[at] = y
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _block(self, xp: Any, views: list[Any], consts: list[Any], dims: int) -> list[Any]:
        """The results of one block, ``(*loop, *core)``."""
        rows, loop = [], tuple(views[0].shape)[:dims]
        for x in views:
            core = tuple(x.shape)[dims:]
            order = (*range(dims, x.ndim), *range(dims))
            rows.append(xp.reshape(arrays.permute(x, order), (*core, -1)))
        with np.errstate(all="ignore"):
            found = array_api.evaluate(xp, self._batched, rows, consts)
        results = []
        for y in found:
            y = xp.reshape(y, (*tuple(y.shape)[:-1], *loop))
            n = y.ndim - dims
            results.append(arrays.permute(y, (*range(n, y.ndim), *range(n))))
        return results
