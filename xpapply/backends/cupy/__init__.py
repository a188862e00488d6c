"""CuPy: a whole network in one generated kernel; cuBLAS by blocks where that is too wide.

Nothing here synchronises but the one copy of a model's weights, and the only
allocation of the narrow kernels is the output. Which kernel runs is chosen by
what each would take.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import cupy
from cupy.cuda.compiler import CompileException

from ...cache import BoundedDict, remembered
from ...codegen import chain, cost, scalar_network, tensor_network
from ...codegen.graph_queries import prepare
from ...codegen.reduction import Reduction, reduction_kernel
from ...config import PRECISIONS, current
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.rewrite import without_bfloat16
from ...ir.to_slice_graph import sliced
from ...layout import Layout, boxes, columns, run_blocks
from ...program import Program
from .. import Backend, Lowered
from . import bincount, module, slices
from .runs import Calls, Chain, Network, Tensor, Weights, reduction_function

_FEW_SLICES = 16384
"""Fewer slices than this leave threads idle if each takes whole slices ..."""
_LONG = 64
"""... and slices at least this long keep the threads of a block busy on one slice."""
_BLOCK_BYTES = 1 << 28
"""One buffer of a block: many launches cost more time than small blocks save memory traffic."""


class CuPy(Backend):
    """Generated kernels, or cuBLAS in blocks."""

    name = "cupy"

    def why_not(self, graph: Graph, like: Any) -> str | None:
        if like.dtype.kind not in "fiub":
            return f"no kernels for {like.dtype} input"
        if any(s % like.itemsize for s in like.strides):
            return "elements do not lie on multiples of their size"
        return None

    def lower(self, graph: Graph) -> CuPyLowered:
        return CuPyLowered(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """From CuPy's pool."""
        with _on(like.device.id):
            return cupy.empty(shape, self.result_dtype(dtype))

    def result_dtype(self, dtype: str) -> str:
        return "float32" if dtype == "bfloat16" else dtype  # CuPy has no bfloat16

    def limits(self, like: Any) -> tuple[float, float] | None:
        """By the device's clocks and widths; operations of float32."""
        if not isinstance(like, cupy.ndarray):
            return None
        memory, clock = module.rates(like.device.id)
        rate = 2 * clock * module.device(like.device.id).multiprocessors * 128
        return (memory, rate) if memory and rate else None

    def slices_why_not(self, graph: Graph, arrays: Sequence[Any]) -> str | None:
        return slices.why_not(graph, arrays)

    def lower_slices(self, graph: Graph, layout: Layout, like: Any) -> slices.Run:
        return slices.Run(graph, layout, like)

    def counts(self, x: Any, weights: Any, axes: tuple[int, ...], bins: int) -> Any:
        return bincount.counts(x, weights, axes, bins)

    def on_borrowed(self) -> Backend:
        return _ON_TENSORS


class CuPyOnTensors(CuPy):
    """The same on the memory of tensors, which may be bfloat16."""

    def why_not(self, graph: Graph, like: Any) -> str | None:
        lowered = self.lower(graph)
        if not lowered.by_address:
            return super().why_not(graph, like)
        bound = Weights(graph.consts)
        if not bound.finite:
            return "a weight is not finite"
        return lowered.tensor_refusal(like.device.id, lowered.precision(bound))

    def lower(self, graph: Graph) -> CuPyLowered:
        return CuPyLowered(graph, borrowed=True)


BACKEND, _ON_TENSORS = CuPy(), CuPyOnTensors()


@dataclass(frozen=True)
class _Way:
    """One way to run a graph: what it is, what it would take, or why it cannot."""

    what: str
    seconds: float
    refusal: str | None
    run: Callable[[Any, int, int, Weights, Any], None]


class CuPyLowered(Lowered):
    """A kernel on tensor cores, one without, a reduction kernel, or cuBLAS in blocks."""

    def __init__(self, graph: Graph, *, borrowed: bool = False) -> None:
        self._asked = current().precision
        self._result = graph.result.dtype
        graph = graph if borrowed else without_bfloat16(graph)
        self.graph = graph
        self.kernels = ("chosen by the array and its device",)
        # CuPy has no bfloat16: only a kernel that gets addresses reads or writes it
        self.by_address = "bfloat16" in (graph.input.dtype, graph.result.dtype)
        self._refusal = scalar_network.why_not(graph)
        self._reduction = None if self.by_address else reduction_kernel(graph)
        self._network = None if self._refusal else Network(graph)
        found = None if self.by_address else sliced(graph)
        able = found is not None and slices.why_not(found.graph, ()) is None
        self._slicewise = slices.OneFunction(found) if found is not None and able else None
        self._chosen = BoundedDict()
        self._failed: dict[tuple[int, str], str] = {}

    @functools.cached_property
    def _chain(self) -> Chain | None:
        stages = chain.stages(self.graph)
        return None if stages is None else Chain(stages)

    def bind(self, consts: tuple[Any, ...], like: Any) -> Weights:
        """The weights, packed and copied to the device as the kernels first want them."""
        return Weights(consts)

    def __call__(self, x: Any, at: int, bound: Weights, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        number = x.device.id
        with _on(number):
            precision = self.precision(bound)
            key = (x.shape, at, number, bound.finite, precision)
            found: list[_Way] | None = self._chosen.get(key)
            slices = x.size // max(1, x.shape[at])
            if not x.shape[at]:
                self._in_blocks(x, at, slices, bound, out)
                return out
            if found is None:
                found = self._chosen[key] = self._ways(number, slices, precision, bound.finite)
            while True:
                try:
                    found[0].run(x, at, slices, bound, out)
                    return out
                except (RuntimeError, CompileException) as error:  # the driver's are RuntimeErrors
                    if len(found) == 1:
                        raise
                    # it does not compile or launch here: the next way from now on
                    self._failed[number, found[0].what] = str(error).strip().partition("\n")[0]
                    found = self._chosen[key] = found[1:]

    def estimate(self, x: Any, consts: tuple[Any, ...] = ()) -> cost.Estimate:
        """What would run on an array, what that takes, and why nothing faster."""
        length = self.graph.input.shape[0]
        slices, number = x.size // max(1, length), x.device.id
        bound = Weights(consts)
        precision, finite = self.precision(bound), bound.finite
        ways = self._all_ways(number, slices, precision)
        able = self._ways(number, slices, precision, finite)
        reasons = {w.what: w.refusal for w in ways if w.refusal is not None}
        if not finite:
            left = [w.what for w in able]
            reasons |= {w.what: "a weight is not finite" for w in ways if w.what not in left}
        refused = tuple(f"{what}: {reason}" for what, reason in reasons.items())
        device = module.device(number)
        least = cost.floor(self.graph, slices, device, precision)
        return cost.Estimate((able[0].what,), refused, least, max(least, able[0].seconds))

    def slower_than_half(self, x: Any, consts: tuple[Any, ...]) -> bool:
        """Whether torch's own operations in 16 bits should take less time than what runs here.

        That is where cuBLAS makes the products: of float32, whatever the parameters are.
        """
        slices, number = x.size // max(1, self.graph.input.shape[0]), x.device.id
        bound = Weights(consts)
        first = self._ways(number, slices, self.precision(bound), bound.finite)[0]
        if first.run != self._in_blocks:
            return False
        return first.seconds > cost.half(self.graph, slices, module.device(number))

    def precision(self, bound: Weights) -> str:
        """The precision that was asked for; less where weights and result have 16 bits."""
        least = {"float16": "high", "bfloat16": "medium"}.get(self._result)
        if least is None or not bound.fit(self._result):
            return self._asked
        return max(self._asked, least, key=PRECISIONS.index)

    def _ways(self, number: int, slices: int, precision: str, finite: bool) -> list[_Way]:
        """The ways that can run on a device, fastest first."""
        ways = [w for w in self._all_ways(number, slices, precision) if w.refusal is None]
        return ways if finite else [w for w in ways if not isinstance(w.run, Tensor)]

    def _all_ways(self, number: int, slices: int, precision: str) -> list[_Way]:
        device, graph = module.device(number), self.graph
        ways = []
        run: Callable[[Any, int, int, Weights, Any], None]
        length = graph.input.shape[0]
        few = slices < _FEW_SLICES and length >= _LONG
        if self._reduction is not None and (few or self._network is None):
            reduction = self._reduction
            run = functools.partial(self._reduce, reduction)
            seconds = cost.LAUNCH if few else 0.5 * cost.library(graph, slices, device)
            ways.append(_Way("one ReductionKernel", seconds, None, run))
        if self._slicewise is not None:
            # read once, written once; a slice too long for registers is read once more
            seconds = cost.LAUNCH + 1.05 * cost.floor(graph, slices, device, "highest")
            what = "one generated kernel for whole slices"
            ways.append(_Way(what, seconds, self._failed.get((number, what)), self._slicewise))
        words = {"highest": "float32 by split products", "high": "float16", "medium": "bfloat16"}
        what = f"one kernel on tensor cores for all layers ({words[precision]})"
        refusal = self._failed.get((number, what)) or self.tensor_refusal(number, precision)
        seconds = 0.0 if refusal else cost.tensor(graph, slices, device, precision)
        run = _tensor(graph, _target(device, precision))
        ways.append(_Way(what, seconds, refusal, run))
        if self.by_address:
            return ways
        what = "one ElementwiseKernel for all layers, activations in registers"
        seconds = cost.scalar(graph, slices, device)
        run = self._network or self._in_blocks
        ways.append(_Way(what, seconds, self._refusal, run))
        if self._network is None:
            what = "in blocks of slices, elementwise work in fused kernels"
            if self._chain is not None:
                what = f"in blocks of slices, {self._chain.what}"
            seconds = cost.library(graph, slices, device)
            ways.append(_Way(what, seconds, None, self._in_blocks))
        return sorted(ways, key=lambda w: (w.refusal is not None, w.seconds))

    def tensor_refusal(self, number: int, precision: str) -> str | None:
        """Why the kernel on tensor cores cannot run it on a device, or None."""
        device = module.device(number)
        if not device.core:
            return "needs a device of compute capability 8.0 or later"
        return _tensor_why_not(self.graph, _target(device, precision))

    def _reduce(
        self, text: Reduction, x: Any, at: int, slices: int, bound: Weights, out: Any
    ) -> None:
        nodes = prepare(self.graph).nodes
        shape = (*(1,) * at, -1, *(1,) * (x.ndim - at - 1))
        arrays = [bound.const(nodes[a].attr("k")).reshape(shape) for a in text.per_slice]
        numbers = [bound.consts[nodes[a].attr("k")].reshape(())[()] for a in text.numbers]
        target = out.reshape((*x.shape[:at], *x.shape[at + 1 :]))
        reduction_function(text)(x, *arrays, *numbers, target, axis=at)

    def _in_blocks(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        """Block by block, in memory that does not grow with the array."""
        runner: Chain | Program = self._chain or self._program
        most = current().block_bytes or _BLOCK_BYTES
        rows = max(1, min(slices, most // runner.row_bytes))
        scratch: Any = runner.scratch(rows)

        def run(block: Any, place: Any) -> Any:
            if isinstance(runner, Chain):
                return runner.run(block, at, bound, scratch, place)
            values = bound.values("program", runner)
            return runner.run(columns(block, at), values, scratch, place)

        run_blocks(run, x, at, out, boxes(x.shape, at, rows))

    @functools.cached_property
    def _program(self) -> Program:
        """The steps of a block, for graphs that are no chain of kernels and products."""
        return Program(batch(prepare(self.graph)), Calls())


def _target(device: cost.Device, precision: str) -> tensor_network.Target:
    return tensor_network.Target(device.core or "mma", precision, device.shared)


@remembered(512)
def _tensor(graph: Graph, target: tensor_network.Target) -> Tensor:
    return Tensor(graph, target)


@remembered(512)
def _tensor_why_not(graph: Graph, target: tensor_network.Target) -> str | None:
    return tensor_network.why_not(graph, target)


_NOTHING = nullcontext()


def _on(number: int) -> Any:
    """A device made current; most often it is."""
    if cupy.cuda.runtime.getDevice() == number:
        return _NOTHING
    return cupy.cuda.Device(number)
