"""Functions of the slices of several arrays on CuPy: one generated kernel, one launch.

Which threads share a slice depends on how the arrays lie in memory; the kernels find their way
in any of them, so nothing is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cupy
import numpy as np

from ...arrays.layout import Layout, Operand, merged, slowest_first
from ...codegen import slice_kernels
from ...codegen.slice_kernels import Sharing, SliceKernels, size
from ...functions.cache import BoundedDict, remembered
from ...ir.graph import Graph
from ...ir.slices.to_slice_graph import Sliced, one_function
from .. import Lowered
from . import compiler
from .weights import Weights

_THREADS = 128
_WORDS = 32
"""Four-byte words that a thread holds of its slice, at most."""
_AT_A_TIME = 16
"""Elements that a thread reads at a time: enough in flight to hide the memory's latency."""
_SMALL = 1 << 17
"""Elements of all slices that are read in less time than a further launch takes."""
_SHARED = 48 << 10
"""Bytes of shared memory of a block, at most."""
_LONGEST = 1024
"""Threads of a block, at most."""
_FEWEST, _MOST_LANES = 8, 256
"""Lanes of longer slices in registers, where there are many of them: read once, not in pieces."""
_SHORT = 64
"""Slices up to this length have kernels of their own, without tests for their end."""


def why_not(graph: Graph, arrays: Sequence[Any]) -> str | None:
    """The reason why there is no kernel for `graph`, or None."""
    for x in arrays:
        if isinstance(x, cupy.ndarray) and any(s % x.itemsize for s in x.strides):
            return "elements do not lie on multiples of their size"
    return slice_kernels.why_not(graph)


@dataclass(frozen=True)
class Dims:
    """Dims of the arrays after those that lie together were merged, slowest first.

    `core` and `batch` have, per dim, its length and its stride in every array.
    """

    core: tuple[tuple[int, tuple[int, ...]], ...]
    batch: tuple[tuple[int, tuple[int, ...]], ...]


def dims_of(layout: Layout, in_order: bool) -> Dims:
    """The dims of all arrays together; those of the slice `in_order`, or as memory has them."""
    strides = list(zip(*(o.strides or () for o in _strided(layout)), strict=True))
    found = []
    core = [a for a in layout.axes if layout.shape[a] != 1]
    batch = [a for a in range(len(layout.shape)) if a not in layout.axes and layout.shape[a] != 1]
    for axes in (core if in_order else slowest_first(core, strides), slowest_first(batch, strides)):
        found.append(tuple((d.size, d.steps) for d in merged(layout.shape, strides, axes)))
    return Dims(*found)


def sharing(graph: Graph, layout: Layout, dims: Dims, processors: int) -> tuple[Sharing, int]:
    """The sharing of slices by threads for a layout, and the number of blocks per slice."""
    operands = _strided(layout)
    n_inputs = sum(o.strides is not None for o in layout.inputs)
    every = (*dims.core, *dims.batch)
    reach = [sum(abs(s[k]) * (n - 1) for n, s in every) for k in range(len(operands))]
    length, count = (math.prod(n for n, _ in d) for d in (dims.core, dims.batch))
    steps: tuple[int, ...] = (0,) * len(operands)
    if dims.core:
        steps = tuple(s if s in (0, 1) else -1 for s in dims.core[-1][1])
    frame = Sharing(
        lanes=1,
        slices=_THREADS,
        core=len(dims.core),
        batch=len(dims.batch),
        steps=steps if len(dims.core) < 2 else (),
        # room in 32 bits for what the last of 1024 blocks has less than the others
        wide=max((*reach, length, count)) >= (1 << 31) - (1 << 25),
    )
    words = sum(-(-np.dtype(o.dtype).itemsize // 4) for o in operands[:n_inputs])
    task = _Task(
        length,
        count,
        maps=any(graph.is_vector(o) for o in graph.outs),
        reduces=bool(graph.accumulations()),
        most=max(4, _WORDS // max(1, words)),
        threads=processors * 2048,
        state=max((size(by) for by, _ in graph.accumulations()), default=0),
    )
    if count > 1 and _nearest(dims.batch, n_inputs) < _nearest(dims.core, n_inputs):
        return _across(frame, task)
    return _along(replace(frame, vector=_vector(operands, dims, steps)), task)


@dataclass(frozen=True)
class _Task:
    """The key of the choice.

    `most` is how many elements a thread can hold, `threads` how many the device runs at a time,
    `state` how many bytes of shared memory a thread needs.
    """

    length: int
    count: int
    maps: bool
    reduces: bool
    most: int
    threads: int
    state: int


def _along(frame: Sharing, task: _Task) -> tuple[Sharing, int]:
    """Slices whose elements lie side by side: lanes read them together."""
    length, v = task.length, frame.vector
    if length <= _SHORT:
        # threads that write rows of more than 16 bytes each fill their sectors badly
        each = 16 if not task.maps else 8 if v > 1 else 5
        lanes = min(32, _power(-(-length // min(each, task.most))))
        threads = _THREADS if task.maps else 2 * _THREADS
        return _in_registers(replace(frame, lanes=lanes, slices=threads // lanes), task), 1
    few = task.count * 32 < task.threads // 8
    if length <= 32 * task.most and not (few and length > 256):
        # the fewer lanes, the less they have to tell each other
        lanes = 32 if few else max(_FEWEST, _power(-(-length // task.most)))
        return _in_registers(replace(frame, lanes=lanes, slices=_THREADS // lanes), task), 1
    fills = task.count * min(_LONGEST, length // 8) >= task.threads // 4
    lanes = max(32, _power(-(-length // min(_AT_A_TIME, task.most))))
    if task.reduces and not task.maps and lanes <= _MOST_LANES and fills:
        slices = max(1, _THREADS // lanes)
        return _in_registers(replace(frame, lanes=lanes, slices=slices), task), 1
    if (
        task.maps
        and task.reduces
        and length <= _LONGEST * task.most
        and (fills or length < 1 << 14)
    ):
        lanes = min(_LONGEST, max(128, _power(-(-length // 16))))
        return _in_registers(replace(frame, lanes=lanes, slices=1), task), 1
    lanes = _LONGEST if task.maps and task.reduces else _THREADS
    return _in_tiles(replace(frame, lanes=lanes, slices=1), task, max(1, _AT_A_TIME // v))


def _across(frame: Sharing, task: _Task) -> tuple[Sharing, int]:
    """Slices that lie beside each other: neighbouring threads have neighbouring slices."""
    frame = replace(frame, across=True)
    length = task.length
    if length <= 32 or (task.maps and task.reduces and length <= 32 * task.most):
        lanes = _power(-(-length // task.most))
        threads = 2 * _THREADS if lanes == 1 else 4 * _THREADS
        return _in_registers(
            replace(frame, lanes=lanes, slices=_beside(lanes, threads, task)), task
        ), 1
    lanes = 32 if task.maps else 1
    while lanes < 32 and task.count * lanes < task.threads and length >= _AT_A_TIME * lanes:
        lanes *= 2
    frame = replace(frame, lanes=lanes, slices=_beside(lanes, 2 * _THREADS, task))
    return _in_tiles(frame, task, _AT_A_TIME)


def _in_registers(frame: Sharing, task: _Task) -> Sharing:
    """Slices in the registers of their threads, whose kernel knows the length where that helps."""
    vectors = max(1, -(-task.length // (frame.lanes * frame.vector)))
    fits = task.length == frame.lanes * frame.vector * vectors
    length = task.length if fits or task.length <= _SHORT else 0
    return replace(frame, vectors=vectors, in_registers=True, length=length)


def _in_tiles(frame: Sharing, task: _Task, vectors: int) -> tuple[Sharing, int]:
    """Slices that are too long for registers; several blocks for each, if there are few slices."""
    frame = replace(frame, vectors=max(1, min(vectors, task.most // frame.vector)))
    step = frame.lanes * frame.elements
    threads = task.count * frame.lanes
    if task.reduces and (threads >= task.threads // 2 or task.length * task.count < _SMALL):
        return frame, 1
    loops = 4 if task.reduces else 1
    blocks = -(-task.length // (step * loops))
    if task.reduces:
        blocks = min(blocks, -(-2 * task.threads // threads), 1024)
    if blocks < 2 and task.reduces:
        return frame, 1
    return replace(frame, split=True), min(blocks, 65535)


def _beside(lanes: int, threads: int, task: _Task) -> int:
    """Slices of a block: neighbours enough for whole lines of memory."""
    found = max(min(32, _power(task.count)), threads // lanes)
    while lanes > 1 and lanes * (found + 1) * task.state > _SHARED:
        found //= 2
    return found


def _power(n: int) -> int:
    """The least power of two that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()


def _strided(layout: Layout) -> list[Operand]:
    return [o for o in (*layout.inputs, *layout.outs) if o.strides is not None]


def _nearest(dims: Any, n_inputs: int) -> int:
    """The largest distance of neighbours along these dims in the inputs."""
    if not dims:
        return 1 << 62
    return max((abs(s) for s in dims[-1][1][:n_inputs]), default=0)


def _vector(operands: Sequence[Operand], dims: Dims, steps: Sequence[int]) -> int:
    """The number of elements per load, if arrays are aligned to 16 bytes."""
    side_by_side = [k for k, s in enumerate(steps) if s == 1]
    if len(dims.core) != 1 or not side_by_side:
        return 1
    v = 16 // max(np.dtype(operands[k].dtype).itemsize for k in side_by_side)
    while v > 1 and any(s[k] % v for _, s in dims.batch for k in side_by_side):
        v //= 2
    while v > max(1, dims.core[0][0]):
        v //= 2
    return min(v, 8)


# --- launching --------------------------------------------------------------------------------


@remembered(512)
def _text(graph: Graph, share: Sharing) -> SliceKernels:
    return slice_kernels.slice_kernels(graph, share)


class OfSlices(Lowered):
    """A slice graph, for arrays that lie in any way."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def on(self, layout: Layout, like: Any) -> Run:
        """The launches on the device of `like`, which may be a tensor."""
        return Run(self.graph, layout, like)


class Run:
    """The launches for arrays of one layout: all is decided but the addresses."""

    def __init__(self, graph: Graph, layout: Layout, like: Any) -> None:
        self._graph = graph
        self._is_tensor = hasattr(like, "data_ptr")
        self._number = like.device.index if self._is_tensor else like.device.id
        self._inputs = [o.strides is not None for o in layout.inputs]
        self._layout = layout
        self._kernels: dict[bool, Any] = {}
        share, blocks, _ = self._shared(True)
        self.kernels: tuple[str, ...] = (_described(share, blocks),)

    def _shared(self, aligned: bool) -> tuple[Sharing, int, Dims]:
        layout, graph = self._layout, self._graph
        if not graph.accumulations():  # which axes the slice has makes no difference
            layout = replace(layout, axes=tuple(range(len(layout.shape))))
        in_order = any(by.name in ("argmax", "argmin") for by, _ in graph.accumulations())
        dims = dims_of(layout, in_order)
        if not graph.accumulations() and len(dims.core) > 1:
            dims = Dims(dims.core[-1:], dims.core[:-1])
        share, blocks = sharing(graph, layout, dims, compiler.device(self._number).multiprocessors)
        if not aligned:
            share = replace(share, vector=1, vectors=share.vectors * share.vector)
        return share, blocks, dims

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Start the kernels on the current stream."""
        if self._is_tensor:
            first = [x.data_ptr() if s else x for x, s in zip(arrays, self._inputs, strict=True)]
            last = [y.data_ptr() for y in outs]
        else:
            first = [x.data.ptr if s else x for x, s in zip(arrays, self._inputs, strict=True)]
            last = [y.data.ptr for y in outs]
        aligned = True
        for address, strided in zip(first, self._inputs, strict=True):
            aligned = aligned and not (strided and address & 15)
        for address in last:
            aligned = aligned and not address & 15
        found = self._kernels.get(aligned)
        if found is None:
            found = self._kernels[aligned] = self._launches(aligned)
        functions, grid, block, numbers, scratch = found
        args: tuple[Any, ...] = (*first, *last, *numbers)
        if cupy.cuda.runtime.getDevice() == self._number:
            self._start(functions, grid, block, args, scratch)
        else:
            with cupy.cuda.Device(self._number):
                self._start(functions, grid, block, args, scratch)

    def _start(self, functions: Any, grid: Any, block: Any, args: tuple, scratch: Any) -> None:
        if scratch is not None:
            size, per_block, blocks = scratch
            memory = cupy.cuda.alloc(size) if size else None  # kept until the kernels have started
            args = (*args, memory.ptr if memory else 0, per_block, blocks)
        for function in functions:
            function(grid, block, args)

    def _launches(self, aligned: bool) -> tuple[Any, ...]:
        share, blocks, dims = self._shared(aligned)
        text = _text(self._graph, share)
        with cupy.cuda.Device(self._number):
            functions = [compiler.function(text.source, n, self._number, 0) for n in text.names]
        length, count = (math.prod(n for n, _ in d) for d in (dims.core, dims.batch))
        numbers = [count, length, *(n for n, _ in dims.core), *(n for n, _ in dims.batch)]
        for k in range(len(_strided(self._layout))):
            numbers += [s[k] for _, s in (*dims.core, *dims.batch)]
        grid: tuple[int, ...] = (-(-count // share.slices),)
        scratch = None
        if share.split:
            step = share.lanes * share.elements
            per_block = -(-length // (blocks * step)) * step
            blocks = max(1, -(-length // per_block))
            grid = (*grid, blocks)
            scratch = (text.state_bytes * count * blocks, per_block, blocks)
        return functions, grid, (share.threads,), tuple(numbers), scratch


def _described(share: Sharing, blocks: int) -> str:
    who = "one thread" if share.lanes == 1 else f"{share.lanes} threads"
    if share.split:
        who = f"{blocks} blocks" if blocks > 1 else "one block"
    how = "held in registers: one read" if share.in_registers else "piece by piece"
    if share.split and blocks > 1:
        how = "states combined by a second kernel"
    return f"one generated kernel, {who} per slice, {how}"


class OneFunction:
    """A function of one slice, as `backends.cupy.networks.CuPyLowered` runs it."""

    def __init__(self, sliced: Sliced) -> None:
        self._sliced = sliced
        self._known = BoundedDict()

    def __call__(self, x: Any, at: int, count: int, bound: Weights, out: Any) -> None:
        key = (x.shape, x.strides, at, out.strides, x.device.id)
        run, graph = self._known.get(key), self._sliced.graph
        if run is None:
            run = self._known[key] = Run(graph, one_function(graph, x, at, out), x)
        run((x, *self._constants(bound)), (out,))

    def _constants(self, bound: Weights) -> list[Any]:
        """Constants as long as the slice, on the device; numbers by value."""
        graph, found = self._sliced.graph, []
        for i, k in zip(graph.inputs[1:], self._sliced.consts, strict=True):
            number = not graph.is_vector(i)
            found.append(bound.consts[k].reshape(())[()] if number else bound.const(k))
        return found
