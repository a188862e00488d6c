"""CuPy: a whole network in one generated kernel; cuBLAS by blocks where that is too wide.

Nothing here synchronises but the one copy of a model's weights, and the only
allocation of the narrow kernels is the output. Which kernel runs is chosen by
what each would take.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import cupy
from cupy.cuda.compiler import CompileException

from ... import arrays
from ...arrays.layout import boxes, columns, run_blocks
from ...codegen import chain, cost, tensor_network
from ...codegen.graph_queries import prepare
from ...config import PRECISIONS, current
from ...functions.cache import remembered
from ...ir.batch import batch
from ...ir.graph import Graph
from ...ir.rewrite import expand, without_bfloat16
from ...ir.slices.to_slice_graph import sliced
from ...limits import LIMITS
from ...lowering.program import Program
from .. import Backend, Lowered, array_api
from . import bincount, compiler, slices
from .launch import Calls, Chain, Tensor
from .maps import MapsWay, SegmentsWay, TiledMapsWay
from .plain import ElementwiseWay, ReductionWay
from .trees import TreesLowered
from .ways import Task, Way, spacing, target
from .weights import Weights


class CuPy(Backend):
    """Generated kernels, or cuBLAS in blocks."""

    name = "cupy"

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        if graph.any_length:
            return slices.why_not(graph, given)
        refusal = super().why_not(graph, given)
        if refusal is not None:
            return refusal
        (like,) = given
        if like.dtype.kind not in "fiub":
            return f"no kernels for {like.dtype} input"
        if any(s % like.itemsize for s in like.strides):
            return "elements do not lie on multiples of their size"
        if graph.descends and self.name == BACKEND.name:
            return array_api.missing(arrays.compat(like), expand(graph))
        return graph.why_not_fused(gathers=self.name == BACKEND.name)

    def lower(self, graph: Graph, precision: str = "highest") -> Lowered:
        if graph.any_length:
            return slices.OfSlices(graph)
        return TreesLowered(graph) if graph.descends else CuPyLowered(graph, precision)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with _on(like.device.id):
            return cupy.empty(shape, self.result_dtype(dtype))

    def result_dtype(self, dtype: str) -> str:
        return "float32" if dtype == "bfloat16" else dtype  # CuPy has no bfloat16

    def limits(self, like: Any) -> tuple[float, float] | None:
        """Limits by the device's clocks and widths, for float32."""
        if not isinstance(like, cupy.ndarray):
            return None
        memory, clock = compiler.rates(like.device.id)
        rate = 2 * clock * compiler.device(like.device.id).multiprocessors * 128
        return (memory, rate) if memory and rate else None

    def counts(self, x: Any, weights: Any, axes: tuple[int, ...], bins: int) -> Any:
        return bincount.counts(x, weights, axes, bins)

    def on_borrowed(self) -> Backend:
        return _ON_TENSORS

    def way(self, name: str) -> Backend | None:
        return _WAYS.get((name, False))


class CuPyOnTensors(CuPy):
    """The backend on the memory of tensors, which may be bfloat16."""

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        if graph.any_length or graph.is_several:
            return super().why_not(graph, given)
        lowered = self.lower(graph, current().precision)
        if not isinstance(lowered, CuPyLowered) or not lowered.by_address:
            return super().why_not(graph, given)
        return lowered.refusal(given[0], graph.consts)

    def lower(self, graph: Graph, precision: str = "highest") -> Lowered:
        if graph.any_length or graph.descends:
            return super().lower(graph, precision)
        return CuPyLowered(graph, precision, borrowed=True)

    def way(self, name: str) -> Backend | None:
        return _WAYS.get((name, True))


class CuPyWay(CuPy):
    """A single way, on CuPy's arrays or on the memory of tensors."""

    def __init__(self, name: str, borrowed: bool) -> None:
        self.name, self._borrowed = name, borrowed

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        refusal = Backend.why_not(self, graph, given) or super().why_not(graph, given)
        if refusal is not None:
            return refusal
        return self.lower(graph, current().precision).refusal(given[0], graph.consts)

    def lower(self, graph: Graph, precision: str = "highest") -> CuPyLowered:
        return CuPyLowered(graph, precision, borrowed=self._borrowed, way=self.name)


BACKEND, _ON_TENSORS = CuPy(), CuPyOnTensors()
_WAYS = {
    (way.engine, borrowed): CuPyWay(way.engine, borrowed)
    for way in (ElementwiseWay, ReductionWay)
    for borrowed in (False, True)
}


class TensorWay(Way):
    """One kernel on tensor cores."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def named(self, task: Task) -> str:
        words = {"highest": "float32 by split products", "high": "float16", "medium": "bfloat16"}
        return f"one kernel on tensor cores for all layers ({words[task.precision]})"

    def why_not(self, task: Task) -> str | None:
        if not task.device.core:
            return "needs a device of compute capability 8.0 or later"
        refusal = _tensor_why_not(self._graph, target(task))
        return refusal or (None if task.finite else "a weight is not finite")

    def seconds(self, task: Task) -> float:
        return cost.tensor(self._graph, task.slices, task.device, task.precision)

    def runner(self, task: Task) -> Any:
        return _tensor(self._graph, target(task))


class SlicesWay(Way):
    """One generated kernel that reads each slice once."""

    what = "one generated kernel for whole slices"

    def __init__(self, graph: Graph, function: slices.OneFunction) -> None:
        super().__init__()
        self._graph, self._function = graph, function

    def seconds(self, task: Task) -> float:
        # read once, written once; a slice too long for registers is read once more
        return cost.LAUNCH + 1.05 * cost.floor(self._graph, task.slices, task.device, "highest")

    def runner(self, task: Task) -> Any:
        return self._function


class BlocksWay(Way):
    """cuBLAS and elementwise kernels, block by block, in memory that does not grow."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def named(self, task: Task) -> str:
        how = "elementwise work in fused kernels" if self._chain is None else self._chain.what
        return f"in blocks of slices, {how}"

    def seconds(self, task: Task) -> float:
        return cost.library(self._graph, task.slices, task.device)

    @functools.cached_property
    def _chain(self) -> Chain | None:
        stages = None if self._graph.gathers else chain.stages(self._graph)
        return None if stages is None else Chain(stages)

    @functools.cached_property
    def _program(self) -> Program:
        """The steps of a block, for graphs that are no chain of kernels and products."""
        return Program(batch(prepare(self._graph)), Calls())

    def run(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        runner: Chain | Program = self._chain or self._program
        most = current().block_bytes or LIMITS.cupy_block
        rows = max(1, min(slices, most // max(runner.row_bytes, self._graph.gathered_bytes)))
        scratch: Any = runner.scratch(rows)

        def run(block: Any, place: Any) -> Any:
            if isinstance(runner, Chain):
                return runner.run(block, at, bound, scratch, place)
            values = bound.values("program", runner)
            return runner.run(columns(block, at), values, scratch, place)

        run_blocks(run, x, at, out, boxes(x.shape, at, rows))


class CuPyLowered(Lowered):
    """A graph, and the ways to run it: which one is chosen by what each would take."""

    def __init__(
        self, graph: Graph, precision: str = "highest", *, borrowed: bool = False, way: str = ""
    ) -> None:
        self._asked = precision
        self._result = graph.result.dtype
        graph = graph if borrowed else without_bfloat16(graph)
        self.graph = graph
        self.kernels = ("chosen by the array and its device",)
        # CuPy has no bfloat16: only a kernel that gets addresses reads or writes it
        self.by_address = "bfloat16" in (graph.input.dtype, graph.result.dtype)
        self._blocks = BlocksWay(graph)
        plain: list[Way] = [ReductionWay(graph), ElementwiseWay(graph)]
        self._ways: list[Way] = [w for w in plain if w.engine == way]
        if not way and not graph.gathers:
            self._ways = [*self._whole_slices(), TensorWay(graph)]
            if not self.by_address:
                self._ways += plain
        elif not way:
            self._ways = [MapsWay(graph), TiledMapsWay(graph), SegmentsWay(graph)]
        self._alone = bool(way)

    def _whole_slices(self) -> list[Way]:
        found = None if self.by_address else sliced(self.graph)
        if found is None or slices.why_not(found.graph, ()) is not None:
            return []
        return [SlicesWay(self.graph, slices.OneFunction(found))]

    def bind(self, consts: tuple[Any, ...], like: Any) -> Weights:
        """The weights, packed and copied to the device as the kernels first want them."""
        return Weights(consts)

    def __call__(self, x: Any, at: int, bound: Weights, out: Any) -> Any:
        """All slices of `x` into `out`; both in memory order."""
        return self.prepared(x, at, bound, out)(x, out)

    def prepared(self, x: Any, at: int, bound: Weights, out: Any) -> Callable[[Any, Any], Any]:
        """``call(x, out)`` for arrays that lie like these: the way is chosen by then."""
        task = self._task(x, bound, at)
        number, slices = task.number, task.slices
        with _on(number):
            ways = [self._blocks] if not x.shape[at] else [way for _, way in self._decided(task)[0]]
            able = [(way, way.runner(task)) for way in ways]

        def call(x: Any, out: Any) -> Any:
            nonlocal able
            with _on(number):
                left = able
                while True:
                    way, run = left[0]
                    try:
                        run(x, at, slices, bound, out)
                        return out
                    except (RuntimeError, CompileException, tensor_network.Refused) as error:
                        # the driver's are the first
                        if len(left) == 1:
                            raise
                        # it does not compile or launch here: the next way from now on
                        way.failed[number, way.named(task)] = str(error).strip().partition("\n")[0]
                        able = left = left[1:]

        return call

    def estimate(
        self, x: Any, consts: tuple[Any, ...] = (), at: int | None = None
    ) -> cost.Estimate:
        """The estimate for an array, with reasons of faster ways."""
        task = self._task(x, Weights(consts), at)
        able, refused = self._decided(task)
        least = cost.floor(self.graph, task.slices, task.device, task.precision)
        seconds, first = able[0]
        return cost.Estimate((first.named(task),), refused, least, max(least, seconds))

    def refusal(self, x: Any, consts: tuple[Any, ...]) -> str | None:
        """Why none of its ways can run, or None."""
        task = self._task(x, Weights(consts))
        refusals = [way.refusal(task) for way in self._ways]
        return None if None in refusals else "; ".join(map(str, refusals))

    def faster_than_layers(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> bool:
        """Whether feature maps fit on chip, and one kernel is faster than layers one by one."""
        if not self.graph.gathers:
            return False
        task = self._task(x, Weights(consts), at)
        seconds, first = self._decided(task)[0][0]
        if not isinstance(first, MapsWay):
            return False
        return seconds <= cost.by_layers(self.graph, task.slices, task.device)

    def slower_than_half(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> bool:
        """Whether torch's own operations in 16 bits should be faster.

        That is where cuBLAS makes the products: of float32, whatever the parameters are.
        """
        task = self._task(x, Weights(consts), at)
        seconds, first = self._decided(task)[0][0]
        if first is not self._blocks:
            return False
        return seconds > cost.half(self.graph, task.slices, task.device)

    def precision(self, bound: Weights) -> str:
        """The requested precision, or less where weights and result have 16 bits."""
        least = {"float16": "high", "bfloat16": "medium"}.get(self._result)
        if least is None or not bound.fit(self._result):
            return self._asked
        return max(self._asked, least, key=PRECISIONS.index)

    def _task(self, x: Any, bound: Weights, at: int | None = None) -> Task:
        """The task of a call; `at` is None where the layout does not matter."""
        slices = x.size // max(1, self.graph.input.shape[0])
        task = Task(x.device.id, slices, self.precision(bound), bound.finite)
        return task if at is None else replace(task, spacing=spacing(x, at))

    def _decided(self, task: Task) -> tuple[list[tuple[float, Way]], tuple[str, ...]]:
        """The ways that can run, with their seconds, fastest first; why the others cannot."""
        able: list[tuple[float, Way]] = []
        refused: list[str] = []
        for way in self._ways:
            refusal = way.refusal(task)
            if refusal is None:
                able.append((way.seconds(task), way))
            elif way.shown or self._alone:
                refused.append(f"{way.named(task)}: {refusal}")
        if not self._alone and not self.by_address:
            if not any(isinstance(way, ElementwiseWay) for _, way in able):
                able.append((self._blocks.seconds(task), self._blocks))
        return sorted(able, key=lambda each: each[0]), tuple(refused)


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
