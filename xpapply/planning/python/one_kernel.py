"""Traced functions of NumPy arrays as functions of slices, which run as one kernel.

What NumPy would warn of a kernel does not report. It marks the slices that NumPy may have warned
of, and those are left to NumPy's own calls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import config
from ...arrays.layout import Dim, Layout, MemoryOrder, Operand, merged, side_by_side, slowest_first
from ...backends import choice
from ...errors import UnsupportedError
from ...frontends.python.run.rows import Rows
from ...functions.cache import BoundedDict
from ...ir.branches import Paths, joined
from ...ir.graph import Node, ShapeDtype
from ...ir.slices.to_slice_graph import Sliced, sliced
from ...limits import LIMITS
from ...slice_functions.call import BoundKernel


class OneKernel:
    """The paths of one function of slices as one kernel, for NumPy arrays.

    Call it as ``one_kernel(call, rows)``, with what `call_for` gave: it gives the results, each
    ``(*batch, *result shape)``, and which slices are marked.

    Parameters
    ----------
    paths : Paths
        See `xpapply.ir.branches`.
    results : int
        How many results there are.

    Raises
    ------
    UnsupportedError
        If there is no such kernel; the message says why.
    """

    def __init__(self, paths: Paths, results: int = 1) -> None:
        self._graph = joined(paths, results)
        self._sliced = sliced(self._graph, as_numpy=True)
        compiled = choice.backend("cpu")
        self._why_not_short = "no CPU" if compiled is None else compiled.why_not(self._graph, ())
        if self._sliced is None and self._why_not_short is not None:
            raise UnsupportedError(self._why_not_short)
        self._known = BoundedDict()
        self._short: Any = None
        self._consts: list[np.ndarray] = []
        self.not_compiled = ""
        """The compiler's message, if it refused."""
        self.waits = False
        """Whether some arrays are left to NumPy until compiling has paid."""
        self.compiles = False
        """Whether the last call compiled something."""
        self._most = math.inf

    def call_for(self, rows: Rows, most: float = math.inf) -> Any:
        """The compiled kernel for this layout; None: run NumPy's calls.

        They do until compiling is worth it: no other engine adds as NumPy does. `most`: CPU seconds
        that compiling may take.
        """
        self._most, self.compiles = most, False
        now = config.current()
        if now.engine not in ("", "cpu") or np.geterr()["under"] != "ignore":
            return None  # of underflows no number tells
        key = (now.engine, _lie(rows), *[x.ctypes.data % x.itemsize for x in rows.views])
        found = self._known.get(key, "")
        if isinstance(found, str):
            found = self._known[key] = self._made(rows)
        if found is not None:
            if not (found.is_worth and found.compiling <= most):
                self.waits = True
                return None
            self.compiles = found.compiling > 0
            try:
                found.make()
            except UnsupportedError as error:
                found = self._known[key] = None
                self.not_compiled = f"cpu: {error}"
        return found

    def forget(self) -> None:
        """Let go of what it made, which knows of it: a cycle."""
        self._known.clear()

    def waited(self, rows: Rows, seconds: float = 0.0) -> None:
        """NumPy's own calls ran on such slices, or a loop that took so many seconds."""
        like = _lie(rows)
        for found in self._known.values():
            if found is not None and found.like == like and found.compiling <= self._most:
                self.compiles |= found.waited(seconds)
        self.waits = any(
            x is not None and not (x.is_worth and x.compiling <= self._most)
            for x in self._known.values()
        )

    def _made(self, rows: Rows) -> Any:
        compiled = choice.backend("cpu")
        if not all(x.flags.aligned and x.dtype.isnative for x in rows.views):
            return None
        if compiled is None:
            return None
        if self._sliced is not None:  # as fast, and compiled once for slices of all lengths
            return self._in_loops(compiled, self._sliced, rows)
        if self._why_not_short:
            return None
        if compiled.why_not(self._graph, rows.views) is not None:
            return None
        if self._short is None:
            self._short = compiled.lower(self._graph)
            self._consts = self._short.bind(self._graph.consts, rows.like)
        try:
            return _Short(self, rows)
        except UnsupportedError:  # of how these lie
            return None

    # --- slices of any length -----------------------------------------------------------------

    def _in_loops(self, compiled: Any, found: Sliced, rows: Rows) -> Any:
        if compiled.why_not(found.graph, rows.views) is not None:
            return None
        given = self._operands(found, rows)
        shape = (*rows.batch, self._length)
        with config.options(engine="cpu"):
            call = BoundKernel(
                "f",
                found.graph,
                True,
                given,
                [True] * len(given),
                shape,
                (len(rows.batch),),
                False,
                None,
            )
        return _Loops(self, call, rows)

    @property
    def _length(self) -> int:
        """Elements of a slice."""
        (n,) = self._graph.nodes[self._graph.inputs[0]].aval.shape
        return n

    def _operands(self, found: Sliced, rows: Rows) -> list[Any]:
        """The arrays and the constants, as they stand beside them."""
        given: list[Any] = [*rows.views]
        for i, k in zip(found.graph.inputs[len(given) :], found.consts, strict=True):
            x, is_vector = self._graph.consts[k], found.graph.is_vector(i)
            given.append(x.reshape(-1) if is_vector else x.reshape(())[()])
        return given

    def __call__(self, call: Any, rows: Rows) -> tuple[list[np.ndarray], np.ndarray]:
        """The results of all slices, and which slices NumPy may have warned of."""
        if isinstance(call, _Short):
            return call(self._consts, rows)
        assert self._sliced is not None
        *found, marked = call.call(self._operands(self._sliced, rows))
        graph, several = self._sliced.graph, zip(found, self.results, strict=True)
        for k, (y, (shape, _)) in enumerate(several):
            if not graph.is_vector(graph.outs[k]) and shape:
                found[k] = y[..., None]
        return found, marked

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the graph."""
        return self._graph.nodes

    @property
    def results(self) -> list[ShapeDtype]:
        """Shapes and dtypes of the results."""
        return [self._graph.nodes[o].aval for o in self._graph.outs[:-1]]

    @property
    def short(self) -> Any:
        """The kernel that has all numbers in registers."""
        return self._short


def _seconds(calls: int, numbers: int) -> float:
    """Estimate the time of NumPy's calls for all slices."""
    return calls * LIMITS.numpy_call + numbers * LIMITS.numpy_number


def _lie(rows: Rows) -> tuple[Any, ...]:
    """The layout of slices: shapes and strides."""
    return tuple((x.shape, x.strides) for x in rows.views)


class _OnRows:
    """A kernel on slices that lie alike.

    Attributes
    ----------
    like : tuple
        How the slices lie that it was made for.
    addresses_only : bool
        Whether it looks at nothing of arrays but where they are.
    """

    addresses_only, limits = False, None
    like: tuple[Any, ...]

    def fits(self, rows: Rows) -> bool:
        """Whether it was made for slices of this layout."""
        return self.like == _lie(rows)


class _Loops(_OnRows):
    """A kernel with loops over elements, on slices that lie alike.

    Attributes
    ----------
    kernel : OneKernel
        Whose it is: a later one has other constants.
    call : BoundKernel
        What runs it, of `graph`.
    """

    def __init__(self, kernel: OneKernel, call: BoundKernel, rows: Rows) -> None:
        self.kernel, self.call, self.graph = kernel, call, call.graph
        self.engine, self.reasons, self.kernels = call.engine, call.reasons, call.kernels
        self.like = _lie(rows)
        self._deferred = None if config.current().engine else call.compiled
        if self._deferred is not None:
            nodes = kernel.nodes
            numbers = sum(math.prod(n.aval.shape) for n in nodes) * math.prod(rows.batch)
            self._deferred.instead_of(LIMITS.eager_compiling * _seconds(len(nodes), numbers))

    @property
    def is_worth(self) -> bool:
        """Whether NumPy's calls would have taken a good part of the time to compile."""
        return self._deferred is None or not self._deferred.is_deferred

    @property
    def compiling(self) -> float:
        """Seconds that compiling takes, if that has yet to be done."""
        return 0.0 if self._deferred is None else float(self._deferred.compiling)

    def waited(self, seconds: float) -> bool:
        """Something else ran, which takes so many seconds: whether another thread compiles now."""
        if self._deferred is None:
            return False
        if seconds:
            self._deferred.instead_of(seconds)
        return self._deferred.defer() and self._deferred.is_begun

    def make(self) -> None:
        """Compile it, if that has not been done."""
        if self.call.compiled is not None:
            self.call.compiled.make()


class _Short(_OnRows):
    """A kernel with all numbers of a slice in registers, on slices that lie alike.

    Attributes
    ----------
    kernel : OneKernel
        Whose it is: a later one has other constants.
    """

    engine, reasons = "cpu", ()
    addresses_only = True

    def __init__(self, kernel: OneKernel, rows: Rows) -> None:
        self.kernel, self.like = kernel, _lie(rows)
        given, batch = _in_line(rows), len(rows.batch)
        steps = zip(*(x.strides for x in given), strict=True)
        axes = slowest_first(range(batch + 1), list(steps))
        order = MemoryOrder(axes, axes.index(batch))
        before, behind = order.batch((*rows.batch, 1))
        outs = self._outs = [
            ((*before, *shape, *behind), dtype, order.result_axes(len(shape)))
            for shape, dtype in (*kernel.results, ShapeDtype((), "bool"))
        ]
        longest = max(given, key=lambda x: x.shape[-1])
        layout = Layout(
            tuple(longest.shape[a] for a in order.axes),
            (order.at,),
            tuple(
                Operand(x.dtype.name, tuple(x.strides[a] // x.itemsize for a in order.axes))
                for x in given
            ),
            tuple(Operand(dtype, side_by_side(shape)) for shape, dtype, _ in outs),
        )
        lowered = kernel.short
        numbers = lowered.instructions * math.prod(rows.batch)
        self._cost = LIMITS.eager_compiling * _seconds(len(lowered.graph.nodes), numbers)
        seconds = 0.0 if config.current().engine else lowered.seconds
        self._compiling = 0.0 if config.current().engine else lowered.compiling
        self._deferred = lowered.deferred(seconds, layout)
        self.kernels = lowered.kernels
        self._run: Any = None

    @property
    def is_worth(self) -> bool:
        """Whether NumPy's calls would have taken a good part of the time to compile."""
        return not self._deferred.holds(self._cost)

    @property
    def compiling(self) -> float:
        """Seconds that compiling takes, if that has yet to be done."""
        return self._compiling if self._run is None else 0.0

    def waited(self, seconds: float) -> bool:
        """Something else ran, which takes so many seconds: whether another thread compiles now."""
        return self._deferred.spend(max(self._cost, seconds)) and self._deferred.is_begun

    def make(self) -> None:
        """Compile it, if that has not been done."""
        if self._run is None:
            self._run = self._deferred.made()

    def _empty(self) -> list[np.ndarray]:
        return [np.empty(shape, dtype) for shape, dtype, _ in self._outs]

    def __call__(self, consts: list[np.ndarray], rows: Rows) -> tuple[list[np.ndarray], np.ndarray]:
        self.make()
        outs = self._empty()
        self._run((*rows.views, *consts), outs)  # whose addresses alone count
        *found, marked = (y.transpose(o[2]) for y, o in zip(outs, self._outs, strict=True))
        return found, marked


def _in_line(rows: Rows) -> list[np.ndarray]:
    """The arrays with the elements of a slice along one axis, the last."""
    found = []
    for x in rows.views:
        n = len(rows.batch)
        own = merged(x.shape, [(s,) for s in x.strides], range(n, x.ndim))
        if len(own) > 1:
            raise UnsupportedError("the elements of a slice are not evenly spaced")
        dim = own[0] if own else Dim(1, (x.itemsize,), -1)
        shape, strides = (*x.shape[:n], dim.size), (*x.strides[:n], *dim.steps)
        found.append(np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False))
    return found
