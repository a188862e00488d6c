"""The cost model of GPUs: estimated times for choosing, and for `explain`.

The constants were fitted to times on an H200. For the choice they matter only as ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ..ir.graph import Graph, Node
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC

LAUNCH = 2e-6
"""Seconds until a kernel works."""
_ONE_IMAGE = 2e-5
"""Seconds that a block takes at least for a slice with convolutions: layer by layer."""
_OF_MOVED, _OF_MASKED = 56, 70
"""Instructions for each number of a tile that is read or written, and for each that a mask may
put to 0: fitted to 53 kernels."""
_CALL = 2e-5
"""Seconds of a call of an array library, for a small array."""
_LAYER_SHARE = 0.6
"""Share of float32's rate that convolutions of cuDNN have, from 64 outputs on: measured."""
_SPLITTING = {"highest": 4.5, "high": 3.5, "medium": 2.5}
"""Instructions per value that goes into a product on tensor cores: bias, rounding, moving."""
_OVERHEAD = 50.0
"""Instructions per slice and lane for loads, stores and synchronisation."""
_REDUCTION_SHARE, _REDUCTION_SLICE, _REDUCTION_STEP = 0.42, 9.3, 1230.0
"""Constants of a ReductionKernel: share of the memory's rate, clocks of a multiprocessor per slice,
and clocks of a thread per element.

They were fitted to 60 cases on an H100 while a slice was taken to have a whole block of threads,
however it lies: the last was 2.4 clocks per element then, 512 times less. Most cases took 1.08
times that price, few long slices whose elements lie far apart 30 to 35 times. Such slices share a
block in `reduction`, which makes 32 of it; that was not fitted or measured again, nor are the
sectors. Where CuPy uses CUB it takes half."""
_REDUCTION_THREADS, _REDUCTION_BESIDE = 512, 32
"""Threads of a block of CuPy's, and the most slices that lie side by side and share it."""
_SECTOR = 32
"""Bytes that the memory gives at least, whatever is read of them."""


class Spacing(NamedTuple):
    """Distances in memory of elements that are read.

    Attributes
    ----------
    beside : int
        Slices whose elements lie side by side.
    apart : int
        Bytes from one element of a slice to the next; 0 where these lie side by side.
    """

    beside: int = 1
    apart: int = 0


SIDE_BY_SIDE = Spacing()


class Estimate(NamedTuple):
    """The estimate of a call.

    `kernels` are launched; `refused` says what cannot be, and why; `floor` and
    `expected` are in seconds, None where nothing is chosen by them.
    """

    kernels: tuple[str, ...]
    refused: tuple[str, ...]
    floor: float | None
    expected: float | None


@dataclass(frozen=True)
class Device:
    """The figures of a GPU.

    Attributes
    ----------
    multiprocessors : int
        Their number.
    clock : float
        Hz.
    bandwidth : float
        Bytes per second of its memory.
    core : str
        Kind of tensor core, see `tensor_network.Target`; "" for none that is used.
    shared : int
        Bytes of shared memory that a block may have.
    """

    multiprocessors: int
    clock: float
    bandwidth: float
    core: str
    shared: int

    @property
    def products(self) -> float:
        """Multiply-adds of float16 per second on its tensor cores."""
        return self.multiprocessors * self.clock * {"wgmma": 2048, "mma": 1024}.get(self.core, 0)


def floor(graph: Graph, slices: int, device: Device, precision: str) -> float:
    """Seconds below which no kernel can be: bytes over bandwidth, or operations over rate."""
    bytes_ = slices * (graph.input.nbytes + graph.result.nbytes)
    rate = device.multiprocessors * device.clock * 128
    if device.core and _is_float32(graph):
        rate = max(rate, device.products / (3 if precision == "highest" else 1))
    return max(bytes_ / device.bandwidth, slices * _products(graph) / rate)


def tensor(graph: Graph, slices: int, device: Device, precision: str) -> float:
    """Seconds of the tensor-core kernel: its two kinds of work hardly overlap."""
    times = 3 if precision == "highest" else 1
    padded = sum((-(-n // 8) * 8) * (-(-k // 16) * 16) for n, k in _shapes(graph))
    matrix = slices * padded * times / device.products
    values = graph.input.shape[0] + sum(n for n, _ in _shapes(graph))
    instructions = values * _SPLITTING[precision] + _elementwise(graph) + _OVERHEAD
    issue = slices * instructions / (device.multiprocessors * device.clock * 128 * 0.95)
    return LAUNCH + max(floor(graph, slices, device, precision), matrix + issue)


def scalar(graph: Graph, slices: int, device: Device) -> float:
    """Seconds of the kernel without tensor cores."""
    rate = device.multiprocessors * device.clock * 128
    work = slices * (_products(graph) + _elementwise(graph) + 20) / (rate * 0.6)
    return LAUNCH + max(1.15 * floor(graph, slices, device, "highest"), work)


def reduction(graph: Graph, slices: int, device: Device, spacing: Spacing = SIDE_BY_SIDE) -> float:
    """Seconds of a ReductionKernel: a block of threads per slice, or per several of them.

    Several where they are short or lie side by side. Few long slices cannot be faster than a
    thread with its part of one, one element after the other.
    """
    length = graph.input.shape[0]
    beside, size = max(1, spacing.beside), graph.input.nbytes // max(1, length)
    sectors = max(1.0, min(_SECTOR, spacing.apart) / (beside * size))
    moved = slices * (sectors * graph.input.nbytes + graph.result.nbytes)
    read = moved / (_REDUCTION_SHARE * device.bandwidth)
    joined = slices * _REDUCTION_SLICE / (device.multiprocessors * device.clock)
    shared = max(1, min(beside, _REDUCTION_BESIDE), _REDUCTION_THREADS // max(1, length))
    threads = _REDUCTION_THREADS >> (shared.bit_length() - 1)  # a power of two share a block
    alone = -(-length // threads) * _REDUCTION_STEP / device.clock
    return LAUNCH + max(floor(graph, slices, device, "highest"), read + joined, alone)


def library(graph: Graph, slices: int, device: Device) -> float:
    """Seconds of one call of a BLAS library per product, with kernels in between."""
    rate = device.multiprocessors * device.clock * 128 * 0.7
    moved = sum(4 * (2 * n + k) for n, k in _shapes(graph)) * slices
    calls = 2 * len(_shapes(graph))
    if not calls or graph.gathers:  # passes over memory, about one per node
        nodes = [n for n in graph.nodes if OPS[n.op].kind is not Kind.LEAF]
        calls = len(nodes)
        moved = 2 * slices * sum(n.aval.nbytes for n in nodes)
    host = calls * (_CALL if graph.gathers else LAUNCH)
    return host + slices * _products(graph) / rate + moved / device.bandwidth


def feature_maps(graph: Graph, slices: int, device: Device, precision: str) -> float:
    """Seconds of the kernel that holds feature maps on chip: it is bound by instructions."""
    rate = device.multiprocessors * device.clock * 128 * (1.1 if precision == "highest" else 1.8)
    work = slices * (_products(graph) + 2 * _elementwise(graph)) / rate
    return LAUNCH + _ONE_IMAGE + max(floor(graph, slices, device, precision), work)


def tiles(graph: Graph, tiles: int, device: Device) -> float:
    """Seconds for tiles of slices, at any precision: products are the smaller part."""
    rate = device.multiprocessors * device.clock * 128
    moved = tiles * (graph.input.nbytes + graph.result.nbytes) / device.bandwidth
    return LAUNCH + _ONE_IMAGE + max(moved, tiles * of_tile(graph) / rate)


def of_tile(graph: Graph) -> float:
    """Instructions for a tile: windows and masks count, as little is computed of each."""
    masked = sum(math.prod(n.aval.shape) for n in graph.nodes if n.op == "where")
    moved = math.prod(graph.input.shape) + math.prod(graph.result.shape)
    products = (_products(graph) + 2 * _elementwise(graph)) / 1.1
    return products + _OF_MOVED * moved + _OF_MASKED * masked


def reduction_of_slices(graph: Graph, slices: int, device: Device) -> float:
    """Seconds of a reduction of whole slices by an array library's operations."""
    nodes = [n for n in graph.nodes if OPS[n.op].kind not in (Kind.LEAF, Kind.LAYOUT)]
    rate = device.multiprocessors * device.clock * 128
    return len(nodes) * _CALL + slices * of_reduction(graph) / rate


def of_reduction(graph: Graph) -> float:
    """A reduction as instructions per slice: its intermediate values go through memory."""
    total = 0.0
    for n in graph.nodes:
        if OPS[n.op].kind is Kind.REDUCTION:
            total += math.prod(graph.nodes[n.args[0]].aval.shape)
        elif OPS[n.op].kind in (Kind.ELEMENTWISE, Kind.COMPOSITE):
            total += 8 * math.prod(n.aval.shape)
    return _OF_MOVED * total


def by_layers(graph: Graph, slices: int, device: Device) -> float:
    """Seconds of a network's own library: a call per layer, whose results go through memory."""
    work = [n for n in graph.nodes if OPS[n.op].kind not in (Kind.LEAF, Kind.LAYOUT)]
    moved = 2 * slices * sum(n.aval.nbytes for n in work)
    rate = device.multiprocessors * device.clock * 128
    products = slices * sum(_at_full_rate(graph, n) for n in work) / rate
    return 4 * len(work) * LAUNCH + moved / (0.6 * device.bandwidth) + products


def _at_full_rate(graph: Graph, n: Node) -> float:
    """The products of a layer, as if all had float32's full rate: few outputs use a part of it."""
    if OPS[n.op].kind is not Kind.CONTRACTION:
        return 0
    weights = (graph.nodes[a].aval.shape for a in n.args if graph.nodes[a].op == "const")
    outputs = max((shape[0] for shape in weights if shape), default=1)
    return graph.flops_of(n) / 2 / (_LAYER_SHARE * min(1, math.sqrt(outputs / 64)))


def half(graph: Graph, slices: int, device: Device) -> float:
    """Seconds of an array library's own operations in 16 bits, one after the other."""
    if not device.core:  # float16 and bfloat16 may be emulated there
        return math.inf
    nodes = graph.nodes
    work = [n for n in nodes if OPS[n.op].kind not in (Kind.LEAF, Kind.LAYOUT)]
    weights = {k for k, n in enumerate(nodes) if n.op in ("const", "scalar")}
    read = sum(math.prod(nodes[a].aval.shape) for n in work for a in n.args if a not in weights)
    moved = 2 * slices * (read + sum(math.prod(n.aval.shape) for n in work))
    matrix = slices * _products(graph) / (0.5 * device.products)
    return len(work) * LAUNCH + moved / device.bandwidth + matrix


def _shapes(graph: Graph) -> list[tuple[int, int]]:
    """Outputs and inputs of each product with a matrix of weights."""
    found = []
    for n in graph.nodes:
        if n.op == "einsum" and n.attr("subscripts") == MATVEC:
            rows, columns = graph.nodes[n.args[0]].aval.shape
            found.append((rows, columns))
    return found


def _products(graph: Graph) -> int:
    if graph.gathers:  # convolutions, too
        return graph.flops() // 2
    return sum(n * k for n, k in _shapes(graph))


def _elementwise(graph: Graph) -> float:
    computes = (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.COMPOSITE)
    rows = ((OPS[n.op], math.prod(n.aval.shape)) for n in graph.nodes)
    return sum(row.instructions * size for row, size in rows if row.kind in computes)


def _is_float32(graph: Graph) -> bool:
    return all(n.aval.dtype != "float64" for n in graph.nodes if n.op not in ("input", "cast"))
