"""Traced functions of NumPy arrays as functions of slices, which run as one kernel.

What NumPy would warn of a kernel does not report. It marks the slices that NumPy may have warned
of, and those are left to NumPy's own calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import config
from ..bound_call import Call
from ..cache import BoundedDict
from ..errors import UnsupportedError
from ..ir.branches import Paths, joined
from ..ir.to_slice_graph import sliced
from . import engines


class OneKernel:
    """The paths of one function of a slice as one kernel, for NumPy arrays.

    Call it as ``one_kernel(arr, axis)``: it gives the results, and which slices are marked.

    Raises
    ------
    UnsupportedError
        If there is no such kernel; the message says why.
    """

    def __init__(self, paths: Paths) -> None:
        graph = joined(paths)
        found = sliced(graph)
        if found is None:
            raise UnsupportedError("its values are neither one per element nor one per slice")
        self._graph, self._consts = found.graph, [graph.consts[k] for k in found.consts]
        aval = next(g.nodes[g.outs[0]].aval for _, g in paths if g is not None)  # or any other's
        self._shape, self._is_vector = aval.shape, self._graph.is_vector(self._graph.outs[0])
        self._known = BoundedDict()

    def call_for(self, arr: np.ndarray, axis: int) -> Call | None:
        """What runs on arrays that lie like this one; None: NumPy's own calls shall."""
        now = config.current()
        if now.engine not in ("", "cpu") or np.geterr()["under"] != "ignore":
            return None  # of underflows no number tells
        key = (arr.shape, arr.strides, axis, now.engine, arr.ctypes.data % arr.itemsize)
        found: Call | str | None = self._known.get(key, "")
        if isinstance(found, str):
            found = self._known[key] = self._made(arr, axis)
        return found

    def _made(self, arr: np.ndarray, axis: int) -> Call | None:
        compiled = engines.backend("cpu")
        if compiled is None or not arr.flags.aligned or not arr.dtype.isnative:
            return None
        if compiled.slices_why_not(self._graph, [arr]) is not None:
            return None
        given = self._operands(arr, axis)
        as_is = [True] * len(given)
        shape = tuple(arr.shape)
        call = Call("f", self._graph, True, given, as_is, shape, (axis,), False, None)
        call.kernel = self  # type: ignore[attr-defined]  # a later one has other constants
        return call

    def _operands(self, arr: np.ndarray, axis: int) -> list[Any]:
        """The array and the constants, as they stand beside it."""
        found: list[Any] = [arr]
        along = (-1, *(1,) * (arr.ndim - axis - 1))
        for i, x in zip(self._graph.inputs[1:], self._consts, strict=True):
            is_vector = self._graph.is_vector(i)
            found.append(x.reshape(along) if is_vector else x.reshape(())[()])
        return found

    def __call__(self, call: Call, arr: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """The results of all slices, and which slices NumPy may have warned of."""
        found, marked = call(self._operands(arr, axis))
        if not self._is_vector and self._shape:
            found = np.expand_dims(found, axis)
        return found, marked
