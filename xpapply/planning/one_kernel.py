"""Traced functions of NumPy arrays as functions of slices, which run as one kernel.

What NumPy would warn of a kernel does not report. It marks the slices that NumPy may have warned
of, and those are left to NumPy's own calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config
from ..bound_call import Call
from ..cache import BoundedDict
from ..errors import UnsupportedError
from ..ir.branches import Paths, joined
from ..ir.to_slice_graph import Sliced, sliced
from ..layout import MemoryOrder
from . import engines

_NUMPY_CALL = 2e-5
"""Seconds that a call of NumPy takes, however few slices there are ..."""
_NUMPY_NUMBER = 1e-9
"""... and more of them for each number."""
_EAGER = 4
"""How much longer compiling may take than NumPy's calls before it: another thread does it."""


class OneKernel:
    """The paths of one function of a slice as one kernel, for NumPy arrays.

    Call it as ``one_kernel(call, arr, axis)``, with what `call_for` gave: it gives the results, and
    which slices are marked.

    Raises
    ------
    UnsupportedError
        If there is no such kernel; the message says why.
    """

    def __init__(self, paths: Paths) -> None:
        self._graph = joined(paths)
        self._sliced = sliced(self._graph, as_numpy=True)
        compiled = engines.backend("cpu")
        self._why_not_short = (
            "no CPU" if compiled is None else compiled.several_why_not(self._graph)
        )
        if self._sliced is None and self._why_not_short is not None:
            raise UnsupportedError(self._why_not_short)
        self._known = BoundedDict()
        self._short: Any = None
        self._consts: list[np.ndarray] = []
        self.not_compiled = ""
        """What the compiler said, if it refused."""
        self.waits = False
        """Whether some arrays are left to NumPy until compiling has paid."""

    def call_for(self, arr: np.ndarray, axis: int) -> Any:
        """What runs on arrays that lie like this one; None: NumPy's own calls shall.

        They do until compiling is worth it: no other engine adds as NumPy does.
        """
        now = config.current()
        if now.engine not in ("", "cpu") or np.geterr()["under"] != "ignore":
            return None  # of underflows no number tells
        key = (arr.shape, arr.strides, axis, now.engine, arr.ctypes.data % arr.itemsize)
        found = self._known.get(key, "")
        if isinstance(found, str):
            found = self._known[key] = self._made(arr, axis)
        if found is not None:
            if not found.is_worth:
                self.waits = True
                return None
            try:
                found.make()
            except UnsupportedError as error:
                found = self._known[key] = None
                self.not_compiled = f"cpu: {error}"
        return found

    def forget(self) -> None:
        """Let go of what it made, which knows of it: a cycle."""
        self._known.clear()

    def waited(self, arr: np.ndarray, axis: int) -> None:
        """NumPy's own calls ran on such an array."""
        for found in self._known.values():
            if found is not None and found.is_for(arr, axis):
                found.waited()
        self.waits = any(x is not None and not x.is_worth for x in self._known.values())

    def _made(self, arr: np.ndarray, axis: int) -> Any:
        compiled = engines.backend("cpu")
        if compiled is None or not arr.flags.aligned or not arr.dtype.isnative:
            return None
        if self._sliced is not None:  # as fast, and compiled once for slices of all lengths
            return self._in_loops(compiled, self._sliced, arr, axis)
        if self._why_not_short or compiled.several_why_not(self._graph, arr) is not None:
            return None
        if self._short is None:
            self._short = compiled.lower_several(self._graph)
            self._consts = self._short.bind(self._graph.consts, arr)
        return _Short(self, arr, axis)

    # --- slices of any length -----------------------------------------------------------------

    def _in_loops(self, compiled: Any, found: Sliced, arr: np.ndarray, axis: int) -> Any:
        if compiled.slices_why_not(found.graph, [arr]) is not None:
            return None
        given = self._operands(found, arr, axis)
        as_is = [True] * len(given)
        with config.options(engine="cpu"):
            call = Call(
                "f", found.graph, True, given, as_is, tuple(arr.shape), (axis,), False, None
            )
        return _Loops(self, call, arr, axis)

    def _operands(self, found: Sliced, arr: np.ndarray, axis: int) -> list[Any]:
        """The array and the constants, as they stand beside it."""
        given: list[Any] = [arr]
        along = (-1, *(1,) * (arr.ndim - axis - 1))
        for i, k in zip(found.graph.inputs[1:], found.consts, strict=True):
            x, is_vector = self._graph.consts[k], found.graph.is_vector(i)
            given.append(x.reshape(along) if is_vector else x.reshape(())[()])
        return given

    def __call__(self, call: Any, arr: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """The results of all slices, and which slices NumPy may have warned of."""
        if isinstance(call, _Short):
            return call(self._consts, arr)
        assert self._sliced is not None
        found, marked = call.call(self._operands(self._sliced, arr, axis))
        graph = self._sliced.graph
        if not graph.is_vector(graph.outs[0]) and self.result.shape:
            found = np.expand_dims(found, axis)
        return found, marked

    @property
    def result(self) -> Any:
        """Shape and dtype of the result."""
        return self._graph.nodes[self._graph.outs[0]].aval

    @property
    def short(self) -> Any:
        """The kernel that has all numbers in registers."""
        return self._short


class _Loops:
    """A kernel with loops over elements, on arrays that lie alike.

    Attributes
    ----------
    kernel : OneKernel
        Whose it is: a later one has other constants.
    call : Call
        What runs it, of `graph`.
    """

    def __init__(self, kernel: OneKernel, call: Call, arr: np.ndarray, axis: int) -> None:
        self.kernel, self.call, self.graph = kernel, call, call.graph
        self.engine, self.reasons, self.kernels = call.engine, call.reasons, call.kernels
        self._like = arr.shape, arr.strides, axis
        self._patient = None if config.current().engine else call.compiled

    def is_for(self, arr: np.ndarray, axis: int) -> bool:
        """Whether an array lies like that which this was made for."""
        return self._like == (arr.shape, arr.strides, axis)

    @property
    def is_worth(self) -> bool:
        """Whether NumPy's calls would have taken as long as compiling."""
        return self._patient is None or not self._patient.would_wait

    def waited(self) -> None:
        """NumPy's calls ran instead."""
        if self._patient is not None:
            self._patient.waits()

    def make(self) -> None:
        """Compile it, if that has not been done."""
        if self.call.compiled is not None:
            self.call.compiled.make()


class _Short:
    """A kernel with all numbers of a slice in registers, on arrays that lie alike.

    Attributes
    ----------
    kernel : OneKernel
        Whose it is: a later one has other constants.
    calls : int
        How often NumPy's own calls ran instead, until compiling had paid.
    """

    engine, reasons = "cpu", ()

    def __init__(self, kernel: OneKernel, arr: np.ndarray, axis: int) -> None:
        self.kernel, self.calls = kernel, 0
        order = MemoryOrder.of(arr.strides, arr.ndim, axis)
        before, behind = order.batch(arr.shape)
        shape, dtype = kernel.result
        self._order = order
        self._outs = [
            ((*before, *shape, *behind), dtype, order.result_axes(len(shape))),
            ((*before, *behind), "bool", order.result_axes(0)),
        ]
        self._like = arr.shape, arr.strides, axis
        # one that lies like the array, and is never read
        self._shadow = np.lib.stride_tricks.as_strided(
            np.empty(1, arr.dtype), arr.shape, arr.strides
        ).transpose(order.axes)
        lowered = self._lowered = kernel.short
        numbers = lowered.instructions * math.prod(before) * math.prod(behind)
        self._estimate = len(lowered.graph.nodes) * _NUMPY_CALL + numbers * _NUMPY_NUMBER
        self._seconds = 0.0 if config.current().engine else lowered.seconds
        self.kernels = lowered.kernels
        self._run: Any = None
        self._begun: Callable[[], Any] | None = None

    def is_for(self, arr: np.ndarray, axis: int) -> bool:
        """Whether an array lies like that which this was made for."""
        return self._like == (arr.shape, arr.strides, axis)

    @property
    def is_worth(self) -> bool:
        """Whether NumPy's calls would have taken a good part of what compiling takes."""
        return _EAGER * (self.calls + 1) * self._estimate >= self._seconds

    def waited(self) -> None:
        """NumPy's calls ran instead; after a quarter of them another thread compiles."""
        self.calls += 1
        if self._begun is None and 4 * _EAGER * self.calls * self._estimate >= self._seconds:
            self._begun = self._lowered.begun(self._shadow, self._order.at, self._empty())

    def make(self) -> None:
        """Compile it, if that has not been done."""
        if self._run is None:
            lowered, at = self._lowered, self._order.at
            begun = self._begun or (lambda: lowered.on(self._shadow, at, self._empty()))
            self._run, self._begun = begun(), None

    def _empty(self) -> list[np.ndarray]:
        return [np.empty(shape, dtype) for shape, dtype, _ in self._outs]

    def __call__(self, consts: list[np.ndarray], arr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.make()
        outs = self._empty()
        self._run((arr.transpose(self._order.axes), *consts), outs)
        found, marked = (y.transpose(o[2]) for y, o in zip(outs, self._outs, strict=True))
        return found, marked
