"""Calls of functions of slices: everything decided for arrays of one layout but the addresses.

The backend of the arrays runs them, or one that borrows their memory (`Backend.slices_borrower`).
What both refuse runs on `backends.array_api`, by one array operation per node.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .. import arrays, config
from ..arrays import as_tuple, outputs
from ..arrays.jitted import KERNEL, program
from ..arrays.layout import Layout, Operand, slowest_first
from ..backends import Backend, array_api, choice
from ..errors import InputError, UnsupportedError
from ..ir.graph import Graph, ShapeDtype
from .arguments import Number, looked_at, typed


class _Result:
    """Shape, dtype and memory of one result."""

    def __init__(
        self, dtype: str, vector: bool, shape: tuple[int, ...], axes: tuple[int, ...], keep: bool
    ) -> None:
        self.dtype = dtype
        self.wide = tuple(1 if a in axes and not vector else n for a, n in enumerate(shape))
        """The shape with length 1 along the reduced axes."""
        self.squeezed = () if keep or vector else axes
        self.kept = [a for a in range(len(shape)) if a not in self.squeezed]
        self.shape = tuple(self.wide[a] for a in self.kept)
        self.order: tuple[int, ...] | None = None

    def laid_out(self, order: Sequence[int]) -> Operand:
        """The layout with axes in the order of the arrays', slowest first."""
        mine = tuple(self.kept.index(a) for a in order if a not in self.squeezed)
        self.order = None if mine == tuple(range(len(mine))) else mine
        strides, step = [0] * len(self.wide), 1
        for a in reversed(mine):
            strides[self.kept[a]] = 0 if self.shape[a] == 1 else step
            step *= self.shape[a]
        return Operand(self.dtype, tuple(strides))

    def empty(self, own: Backend, like: Any) -> Any:
        """Memory for it."""
        if self.order is None:
            return own.empty(self.shape, self.dtype, like)
        y = own.empty(tuple(self.shape[a] for a in self.order), self.dtype, like)
        return arrays.permute(y, tuple(np.argsort(self.order)))


class BoundKernel:
    """A function of slices for arguments of one layout.

    Attributes
    ----------
    graph : Graph
        What is computed.
    engine : str
        What runs.
    kernels, reasons : tuple of str
        What it calls or launches; why faster ones were refused.
    """

    limits = None

    def __init__(
        self,
        name: str,
        graph: Graph,
        several: bool,
        given: Sequence[Any],
        as_is: Sequence[bool],
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        keepdims: bool,
        out: Any,
    ) -> None:
        self.name, self.graph, self.shape, self.axes = name, graph, shape, axes
        self._several = several
        own = [x for x in given if not isinstance(x, Number)]
        like = own[0]
        self._library = arrays.library(like) or "numpy"
        half = all(arrays.dtype_name(x) == "bfloat16" for x in own)
        self._results = []
        for o in graph.outs:
            dtype = graph.nodes[o].aval.dtype
            dtype = "bfloat16" if half and dtype == "float32" else dtype
            self._results.append(_Result(dtype, graph.is_vector(o), shape, axes, keepdims))
        self._given_dtypes = [graph.nodes[i].aval.dtype for i in graph.inputs]
        self._numbers = [isinstance(x, Number) for x in given]
        self._first = self._numbers.index(False)
        self._converted = [
            (k, _conversion(name, x, d))
            for k, (x, d) in enumerate(zip(given, self._given_dtypes, strict=True))
            if not as_is[k]
        ]
        self._engine = "array_api"
        self._kernels = (KERNEL if self._library == "jax" else "one array operation per node",)
        self._run: Any = None
        self._program: Callable[..., Any] | None = None
        self._fresh: BoundKernel | None = None
        self._own = choice.backend(self._library)
        reasons: list[str] = []
        found = choice.able_for_slices(graph, own, reasons)
        self.reasons = tuple(reasons)
        borrower = found[0][1]
        self._view = None if borrower is None else borrower.view
        self._context = None if borrower is None else borrower.context
        if out is not None:
            self._check(out, like)
            self._fresh = BoundKernel(
                name, graph, several, given, as_is, shape, axes, keepdims, None
            )
        backends = [b for b, _ in found if not isinstance(b, array_api.ArrayAPI)]
        if backends and (out is None or self._is_direct(out)):
            self._lower(backends, given, like, out)

    @property
    def engine(self) -> str:
        return self._run.engine if type(self._run) is _Deferring else self._engine

    @property
    def kernels(self) -> tuple[str, ...]:
        return self._run.kernels if type(self._run) is _Deferring else self._kernels

    @property
    def compiled(self) -> Any:
        """The run, if it has to be compiled first; otherwise None."""
        return self._run if hasattr(self._run, "make") else None

    def _lower(
        self, backends: Sequence[Backend], given: Sequence[Any], like: Any, out: Any
    ) -> None:
        """Let the first backend that can make what runs on arrays that lie so."""
        operands = tuple(_operand(x, self.shape) for x in given)
        if out is None:
            order = _memory_order(operands, len(self.shape))
            outs = tuple(r.laid_out(order) for r in self._results)
        else:
            several = zip(as_tuple(out), self._results, strict=True)
            outs = tuple(_operand(y, self.shape, r.squeezed) for y, r in several)
        if not any(math.prod(r.shape) for r in self._results):
            self._engine = backends[-1].name
            self._run, self._kernels = _nothing, ("nothing: there are no slices",)
            return
        self._left, self._layout = list(backends), Layout(self.shape, self.axes, operands, outs)
        self._choose(like)

    def _choose(self, like: Any) -> bool:
        """Take the first backend of those that are left; whether there was one."""
        while self._left:
            backend = self._left.pop(0)
            try:
                self._run = backend.lower(self.graph).on(self._layout, like)
            except UnsupportedError as error:
                self.reasons += (f"{backend.name}: {error}",)
                continue
            self._engine = backend.name
            if getattr(self._run, "seconds", 0.0) and not config.current().engine:
                facts = self.graph, self._layout, like
                self._run = _Deferring(self._run, backend, self._left, *facts)
            else:
                self._kernels = self._run.kernels
            return True
        return False

    def __call__(self, operands: Sequence[Any], out: Any = None) -> Any:
        """Run on arguments like those that this was made for."""
        given: Sequence[Any] = operands
        if self._converted:
            given = list(operands)
            for k, convert in self._converted:
                given[k] = convert(given[k])
        if out is not None:
            return self._into(given, operands, out)
        like = given[self._first]
        if self._run is None:
            results = self._on_any_array(given, like)
        else:
            assert self._own is not None
            results = [r.empty(self._own, like) for r in self._results]
            self._start(given, results, like)
        if self._library == "numpy":
            results = [y[()] if y.ndim == 0 else y for y in results]
        return tuple(results) if self._several else results[0]

    @property
    def results(self) -> tuple[ShapeDtype, ...]:
        """Shapes and dtypes of the results, for all slices."""
        return tuple(ShapeDtype(r.shape, r.dtype) for r in self._results)

    def _start(self, given: Sequence[Any], results: Sequence[Any], like: Any) -> None:
        """Run into memory."""
        mine, own = given, results
        if (view := self._view) is not None:
            mine = [x if isinstance(x, np.generic) else view(x) for x in given]
            own = [view(y) for y in results]
        try:
            if self._context is None:
                self._run(mine, own)
            else:
                with self._context(like):
                    self._run(mine, own)
        except UnsupportedError as error:  # it does not compile
            name = self._engine
            if not self._choose(like):
                raise
            self.reasons += (f"{name}: {error}",)
            self._start(given, results, like)

    def _into(self, given: Sequence[Any], operands: Sequence[Any], out: Any) -> Any:
        """Run into `out`: by way of memory of its own, where that is not possible at once."""
        targets = as_tuple(out)
        for y in targets:
            if isinstance(y, np.ndarray) and not y.flags.writeable:
                raise InputError(f"{self.name}: out={arrays.describe(y)} is read-only")
        if self._run is not None and not _overlap(given, targets):
            self._start(given, targets, given[self._first])
            if self._own is not None:
                for y in targets:
                    self._own.written(y)
            return out
        assert self._fresh is not None
        for target, y in zip(targets, as_tuple(self._fresh(operands)), strict=True):
            outputs.copied(target, y)
        return out

    def _on_any_array(self, given: Sequence[Any], like: Any) -> list[Any]:
        """Run one array operation per node: for arrays that cannot be written to."""
        xp = arrays.compat(like)
        inputs = [
            arrays.asarray(x.item(), like, arrays.dtype_of(xp, dtype)) if number else x
            for x, dtype, number in zip(given, self._given_dtypes, self._numbers, strict=True)
        ]
        if self._program is None:
            self._program = program(self._evaluated, like)
        return self._program(inputs)  # type: ignore[no-any-return]

    def _evaluated(self, given: Sequence[Any]) -> list[Any]:
        """Evaluate with arrays, numbers as 0-d ones."""
        xp = arrays.compat(given[self._first])
        ndim = len(self.shape)
        inputs = []
        for x, dtype, number in zip(given, self._given_dtypes, self._numbers, strict=True):
            if number:
                inputs.append(x)
                continue
            if arrays.dtype_name(x) != dtype:  # bfloat16
                x = xp.astype(x, arrays.dtype_of(xp, dtype))
            y = xp.reshape(x, (*(1,) * (ndim - x.ndim), *x.shape))
            wide = tuple(self.shape[a] if a in self.axes else n for a, n in enumerate(y.shape))
            inputs.append(y if wide == tuple(y.shape) else xp.broadcast_to(y, wide))
        with np.errstate(all="ignore"):
            found = array_api.evaluate(xp, self.graph, inputs, axes=self.axes)
        return [
            self._own_array(xp, k, y, result)
            for k, (y, result) in enumerate(zip(found, self._results, strict=True))
        ]

    def _own_array(self, xp: ModuleType, k: int, y: Any, result: _Result) -> Any:
        """Result `k` in its shape and dtype, in memory of its own."""
        graph = self.graph
        shared = graph.nodes[graph.outs[k]].op == "input" or graph.outs[k] in graph.outs[:k]
        if tuple(y.shape) != result.wide:  # it does not depend on all of the arrays
            y, shared = xp.broadcast_to(y, result.wide), True
        y = array_api.fresh(xp, y) if shared else y
        y = xp.reshape(y, result.shape)
        wanted = arrays.dtype_of(xp, result.dtype)
        return y if wanted is None or y.dtype == wanted else xp.astype(y, wanted)

    def _check(self, out: Any, like: Any) -> None:
        """Check that `out` can take the results."""
        targets = as_tuple(out)
        if len(targets) != len(self._results):
            raise InputError(
                f"{self.name} has {len(self._results)} results, out has {len(targets)}"
            )
        if len({id(y) for y in targets}) < len(targets):
            raise InputError(f"{self.name}: out has one array for two results")
        for y, result in zip(targets, self._results, strict=True):
            if arrays.library(y) != self._library:
                raise TypeError(
                    f"{self.name}: out is {arrays.describe(y)}, the arrays are {self._library}'s"
                )
            if arrays.place(y) != arrays.place(like):
                raise InputError(
                    f"{self.name}: out is {arrays.describe(y)}, the arrays are on "
                    f"{arrays.device(like)}"
                )
            if getattr(y, "requires_grad", False) and arrays.compat(y).is_grad_enabled():
                raise InputError(
                    f"{self.name}: out requires grad, and results that are written to it have "
                    "none. Leave out= away, or use torch.no_grad()."
                )
            if tuple(y.shape) != result.shape:
                raise InputError(
                    f"{self.name}: out has shape {tuple(y.shape)}, the result {result.shape}"
                )
            if not np.can_cast(result.dtype, arrays.dtype_name(y), "same_kind"):
                raise TypeError(
                    f"{self.name}: a result of {result.dtype} does not go into out of {y.dtype}"
                )

    def _is_direct(self, out: Any) -> bool:
        """Whether results can be written to `out` directly."""
        return all(
            arrays.dtype_name(y) == r.dtype and _is_plain(y) and getattr(y.dtype, "isnative", True)
            for y, r in zip(as_tuple(out), self._results, strict=True)
        )


class _Deferring:
    """A run that is compiled first, and the engine that runs until that pays."""

    def __init__(
        self,
        run: Any,
        backend: Backend,
        others: Sequence[Backend],
        graph: Graph,
        layout: Layout,
        like: Any,
    ) -> None:
        self._run, self._name = run, backend.name
        self._other, self._other_name = None, ""
        if others and run.is_deferred:
            self._other = others[0].lower(graph).on(layout, like)
            self._other_name = others[0].name

    def __call__(self, given: Sequence[Any], outs: Sequence[Any]) -> None:
        other = self._other
        if other is not None and self._run.defer():
            other(given, outs)
        else:
            self._other = None
            self._run(given, outs)

    @property
    def engine(self) -> str:
        """The current engine."""
        return self._name if self._other is None else self._other_name

    @property
    def kernels(self) -> tuple[str, ...]:
        """The current kernels."""
        if self._other is None:
            return self._run.kernels  # type: ignore[no-any-return]
        later = f"until it has taken as long as compiling for engine {self._name!r}"
        return (*self._other.kernels, later)


def _conversion(name: str, x: Any, dtype: str) -> Callable[[Any], Any]:
    """The conversion of arguments like `x` for the engine."""
    if isinstance(x, Number):
        return functools.partial(typed, kind=np.dtype(dtype).type)
    return functools.partial(looked_at, name, alone=True)


def _nothing(operands: Any, outs: Any) -> None:
    """Do nothing: there are no slices."""


def _overlap(given: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether writing results could change inputs that are still to be read."""
    for x in given:
        for y in outs:
            if x is y:  # engines read each element before they write it
                continue
            if hasattr(x, "ndim") and _may_share_memory(x, y):
                return True
    pairs = itertools.combinations(outs, 2)
    return any(_may_share_memory(a, b) and not _interleaved(a, b) for a, b in pairs)


def _interleaved(x: Any, y: Any) -> bool:
    """Whether two arrays interleave, as real and imaginary parts do."""
    if x.shape != y.shape or not isinstance(x, np.ndarray) or x.strides != y.strides:
        return False
    steps = [abs(s) for s, n in zip(x.strides, x.shape, strict=True) if n > 1]
    apart = abs(x.ctypes.data - y.ctypes.data)
    fits = x.itemsize <= apart and apart + x.itemsize <= min(steps, default=2 * apart)
    return fits and all(s % min(steps) == 0 for s in steps)


def _may_share_memory(x: Any, y: Any) -> bool:
    if isinstance(x, np.generic):
        return False
    if isinstance(x, np.ndarray):
        return bool(np.may_share_memory(x, y))
    ends = []
    for a in (x, y):
        size = a.itemsize if hasattr(a, "itemsize") else a.element_size()
        strides = arrays.strides(a) or ()
        unit = 1 if arrays.library(a) == "cupy" else size
        start = a.data.ptr if arrays.library(a) == "cupy" else a.data_ptr()
        reach = [s * unit * (n - 1) for s, n in zip(strides, a.shape, strict=True)]
        low = start + sum(r for r in reach if r < 0)
        ends.append((low, start + sum(r for r in reach if r > 0) + size))
    return ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1]


def _is_plain(x: Any) -> bool:
    """Whether an argument needs no conversion."""
    name = arrays.library(x)
    return type(x) is np.ndarray if name == "numpy" else name is not None


def _operand(x: Any, shape: tuple[int, ...], squeezed: tuple[int, ...] = ()) -> Operand:
    """The layout of an argument in an array of `shape` (without the axes `squeezed`)."""
    if isinstance(x, Number):
        return Operand("" if x.dtype is None else x.dtype.name, None)
    strides = list(arrays.strides(x) or ())
    size = x.itemsize if arrays.library(x) in ("numpy", "cupy") else 1
    steps = [0 if n == 1 else s for s, n in zip(strides, x.shape, strict=True)]
    for a in squeezed:
        steps.insert(a, 0)
    steps = [0] * (len(shape) - len(steps)) + steps
    return Operand(arrays.dtype_name(x), tuple(s // size for s in steps))


def _memory_order(operands: Sequence[Operand], ndim: int) -> tuple[int, ...]:
    """The axes of the arrays, slowest in memory first."""
    steps = [o.strides for o in operands if o.strides is not None]
    strides = [[s[a] for s in steps] for a in range(ndim)]
    slow = [max(map(abs, s), default=0) for s in strides]
    if all(a >= b for a, b in itertools.pairwise(n for n in slow if n)):  # but for length 1
        return tuple(range(ndim))
    return slowest_first(range(ndim), strides)
