"""The kernel of a network: tiles of slices, one after the other, through all steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ....ir.graph import EMPTY, Graph
from ....ir.ops import OPS, Kind
from ....ir.rewrite import expand, prune
from ....ir.shapes import einsum_lengths
from ...geometry import letters_of
from ...schedule import Schedule
from .. import operations
from ..registers import INDEX, POINTER, Register
from ..target import Target
from ..writer import Writer
from .products import Products
from .tile import Tile
from .transfers import Transfers
from .weights import Values, Weights

NAME = "xpapply_network"
ARGUMENTS = (
    *("x", "w", "y", "scratch", "start", "stop"),
    *("x_step", "y_step", "length", "tiles", "dims", "sizes"),
)
"""Arguments of the kernel, 64 bits each.

x, w, y, scratch : addresses
    Of the array, the packed weights, the output, and of memory for a tile, at a multiple of 64.
start, stop
    The tiles that are computed, of those that the kernel counts.
x_step, y_step
    Bytes from one number of a slice, or of a result, to the next.
length, tiles
    Slices in a run, and how many tiles they are: a run is an axis along which slices are an even
    step apart. A tile at its end begins where it ends there.
dims, sizes
    The number of axes that slices are along, and an address where there are three numbers for each,
    the fastest first: its length, and bytes from one slice to the next in x and in y.
"""

SCRATCH_BYTES = 1 << 20
"""The most memory for a tile, which should stay in the second cache."""
NEAR_BYTES = 1 << 19
"""The most for two vectors of slices of a network with convolutions, and not one."""
WIDE_BYTES = 3 << 22
"""The most for one. Beyond the second cache all that is near a place is read at once, so that the
third one is read once for each layer."""
WEIGHT_BYTES = 1 << 22
"""The most weights. All of them are read for each tile: from the third cache in that time."""
FEW_WEIGHT_BYTES = 1 << 20
"""The most for fewer slices than a tile has, where BLAS reads them once."""
_TABLE = 1 << 16
"""Entries of a table of positions, which is a part of the kernel."""


@dataclass(frozen=True)
class Access:
    """The layout of slices and results.

    Attributes
    ----------
    reads, writes : str
        "rows", "columns" or "strided"; both "slices": one slice after the other, anywhere, in
        tiles of one vector, which need not be full.
    """

    reads: str
    writes: str

    @property
    def anywhere(self) -> bool:
        """Whether slices may lie in any order, and be as few as one."""
        return self.reads == "slices"


@dataclass(frozen=True)
class NetworkKernel:
    """The text of a kernel that runs a whole graph.

    Attributes
    ----------
    text : str
        In LLVM IR.
    graph : Graph
        As `prepare` makes it.
    slices : int
        Of a tile.
    scratch : int
        Bytes of memory for one.
    dtype : str
        Of the arithmetic, and of the packed weights.
    weights : Weights
        Where each constant lies.
    """

    text: str
    graph: Graph
    slices: int
    scratch: int
    dtype: str
    weights: Weights

    def pack(self, values: Values) -> np.ndarray:
        """The weights as the kernel reads them; `values`: all nodes that depend on no slice."""
        return self.weights.packed(values, self.dtype)


def prepare(graph: Graph) -> Graph:
    """The graph as the kernel has it: without composites, but those with a form of their own."""
    return expand(graph, operations.own_composites())


def compute_dtype(graph: Graph) -> str:
    """The dtype of the arithmetic: float32 or float64."""
    wide = any(
        n.aval.dtype == "float64"
        for i, n in enumerate(graph.nodes)
        if n.op not in ("input", "scalar", "const") and i not in graph.outs
    )
    return "float64" if wide or _computed(graph).result.dtype == "float64" else "float32"


def _computed(graph: Graph) -> Graph:
    """The graph without the last change of dtype, which is made where results are written."""
    last = graph.nodes[graph.out]
    if last.op != "cast" or not graph.dependent()[last.args[0]]:
        return graph
    before = graph.nodes[last.args[0]]
    if before.op == "input" or not before.aval.dtype.startswith("float"):
        return graph
    return prune(replace(graph, outs=last.args))


def why_not(graph: Graph, target: Target, *, few: bool = False) -> str | None:
    """Why there is no kernel for a graph, or None. `few`: of fewer slices than a tile has."""
    if len(graph.inputs) != 1 or len(graph.outs) != 1:
        return "kernels of networks have one input and one result"
    if graph.is_empty_somewhere:
        return EMPTY
    whole = prepare(graph)
    dtype, result = compute_dtype(whole), whole.result.dtype
    graph = _computed(whole)
    dependent = graph.dependent()
    if not dependent[graph.out]:
        return "the result does not depend on the slice"
    for name in (graph.input.dtype, result):
        refusal = operations.why_not("cast", name, target)
        if refusal is not None:
            return refusal
    numbers = (dtype, "bool")
    for i, n in enumerate(graph.nodes):
        if not dependent[i]:
            if n.op in ("erf", "erfc"):
                return f"{n.op} of constants"
            continue
        kind = OPS[n.op].kind
        reads = n.op == "cast" and graph.nodes[n.args[0]].op == "input"
        if n.op == "input":
            if n.aval.dtype != dtype and not all(
                u.op == "cast" for u in graph.nodes if i in u.args
            ):
                return f"{n.aval.dtype} numbers are computed with before they are {dtype}"
        elif n.aval.dtype not in numbers and not _is_kept(graph, i, dtype):
            return f"{n.op} gives {n.aval.dtype} among {dtype} numbers"
        elif not reads:
            for a in n.args:
                found = graph.nodes[a].aval.dtype
                if found not in numbers and not _is_kept(graph, a, dtype):
                    return f"{n.op} takes {found} among {dtype} numbers"
        if kind is Kind.ELEMENTWISE or kind is Kind.COMPOSITE:
            refusal = (
                None
                if reads
                else operations.why_not(n.op, graph.nodes[n.args[-1]].aval.dtype, target)
            )
            if refusal is not None:
                return refusal
        if kind is Kind.REDUCTION and graph.nodes[n.args[0]].aval.dtype != dtype:
            return f"{n.op} of {graph.nodes[n.args[0]].aval.dtype}"
        if kind is Kind.CONTRACTION and letters_of(graph, dependent, i) is None:
            shapes = [graph.nodes[a].aval.shape for a in n.args]
            size = math.prod(einsum_lengths(n.attr("subscripts"), shapes).values())
            if size > _TABLE:
                return f"a product of {size:,} terms that is none with constants"
    weights = sum(math.prod(n.aval.shape) for n in graph.nodes if n.op == "const")
    most = FEW_WEIGHT_BYTES if few else WEIGHT_BYTES
    if weights * np.dtype(dtype).itemsize > most:
        return f"{weights:,} weights do not stay in the cache{' for few slices' if few else ''}"
    rows = Schedule(graph).rows
    slices = tile_slices(whole, target)
    most = WIDE_BYTES if graph.gathers else SCRATCH_BYTES
    if rows * slices * np.dtype(dtype).itemsize > most:
        return f"{rows:,} numbers per slice do not fit in the cache, {slices} slices at a time"
    return None


def _is_kept(graph: Graph, i: int, dtype: str) -> bool:
    """Whether a position is only used as a number of the arithmetic's dtype.

    It is kept as such a number; where it is the result it is cast when it is written.
    """
    if not OPS[graph.nodes[i].op].finds_position:
        return False
    users = [n for n in graph.nodes if i in n.args]
    return i == graph.out or all(n.op == "cast" and n.aval.dtype == dtype for n in users)


def tile_slices(graph: Graph, target: Target, *, whole: bool = True) -> int:
    """The slices of a tile of a graph as `prepare` makes it, or the lanes of a vector."""
    size = np.dtype(compute_dtype(graph)).itemsize
    lanes = target.bits // (8 * size)
    if not whole:
        return lanes
    if not graph.gathers:
        return lanes * (4 if target.registers >= 32 else 8)
    # places fill blocks, too: what counts is that all values stay in the second cache
    two = 2 * lanes * size * Schedule(_computed(graph)).rows <= NEAR_BYTES
    return 2 * lanes if two else lanes


def network_kernel(graph: Graph, access: Access, target: Target) -> NetworkKernel:
    """Write the kernel of a graph for a CPU; see `ARGUMENTS` for how it is called."""
    whole = prepare(graph)
    dtype, result = compute_dtype(whole), whole.result.dtype
    graph = _computed(whole)
    schedule, weights, writer = Schedule(graph), Weights(), Writer(target)
    lanes = writer.lanes(operations.element(dtype))
    slices = tile_slices(whole, target, whole=not access.anywhere)

    def body(*given: Register) -> None:
        arguments = dict(zip(ARGUMENTS, given, strict=True))
        memory = arguments["w"], arguments["scratch"]
        tile = Tile(writer, schedule, slices // lanes, dtype, *memory, weights)
        if access.anywhere:
            _any_slices(tile, arguments, result)
        else:
            _runs(tile, arguments, access, result)

    pointers = ("x", "w", "y", "scratch", "sizes")
    kinds = [POINTER if n in pointers else INDEX for n in ARGUMENTS]
    parameters = list(zip(ARGUMENTS, kinds, strict=True))
    writer.kernel(NAME, parameters, body, noalias=pointers)
    scratch = max(1, schedule.rows) * slices * np.dtype(dtype).itemsize
    return NetworkKernel(writer.text(), graph, slices, scratch, dtype, weights)


def _compute(tile: Tile) -> None:
    """All steps but the first, which is the input."""
    for step in tile.schedule.steps:
        if tile.schedule.graph.nodes[step.out].op != "input":
            if step.product is None:
                tile.step(step)
            else:
                Products(tile, step).write()


def _ends(tile: Tile) -> tuple[int, int, int, int]:
    """First row and number of rows of the input, and of the result."""
    graph, q = tile.schedule.graph, tile.schedule.queries
    entry, out = graph.entry, graph.out
    return tile.schedule.row(entry), q.size(entry), tile.schedule.row(out), q.size(out)


def _runs(tile: Tile, a: dict[str, Register], access: Access, result: str) -> None:
    """Whole tiles, each in a run of slices that are an even step apart."""
    w, T = tile.writer, tile.slices
    x_at, x_count, y_at, y_count = _ends(tile)
    read, write = Transfers(tile, tile.schedule.graph.input.dtype), Transfers(tile, result)
    x_slice, y_slice = (_size(w, a, 0, k) for k in (1, 2))

    def get(s: Register, x: Register) -> None:
        read.read_slice(x_at, x_count, w.offset(x, s * x_slice, "i8"), a["x_step"], s)

    def put(s: Register, y: Register) -> None:
        write.write_slice(y_at, y_count, w.offset(y, s * y_slice, "i8"), a["y_step"], s)

    def each(t: Register) -> None:
        def several() -> list[Register]:
            number, tile_ = _divided(w, t, a["tiles"])
            return [tile_, *_offsets(w, a, number, 1)]

        def one() -> list[Register]:
            zero = w.constant(0, INDEX)
            return [t, zero, zero]

        number, x_run, y_run = w.either(a["dims"] > 1, several, one)
        last = a["length"] - T
        first = number * T
        first = w.select(first < last, first, last)
        x = w.offset(w.offset(a["x"], x_run, "i8"), first * x_slice, "i8")
        y = w.offset(w.offset(a["y"], y_run, "i8"), first * y_slice, "i8")
        if access.reads == "rows":
            read.read_rows(x_at, x_count, x, x_slice)
        elif access.reads == "columns":
            read.read_columns(x_at, x_count, x, a["x_step"])
        else:
            w.loop(T, lambda s: get(s, x))
        _compute(tile)
        if access.writes == "rows":
            write.write_rows(y_at, y_count, y, y_slice)
        elif access.writes == "columns":
            write.write_columns(y_at, y_count, y, a["y_step"])
        else:
            w.loop(T, lambda s: put(s, y))

    w.loop(a["stop"], each, start=a["start"])


def _any_slices(tile: Tile, a: dict[str, Register], result: str) -> None:
    """Tiles of one vector, whose slices are looked up one by one; the last need not be full."""
    w, T = tile.writer, tile.slices
    x_at, x_count, y_at, y_count = _ends(tile)
    read, write = Transfers(tile, tile.schedule.graph.input.dtype), Transfers(tile, result)
    places = w.scratch("i64", T)

    def each(t: Register) -> None:
        first = t * T
        left = a["length"] - first
        count = w.select(left < T, left, T)

        def fetch(s: Register) -> None:
            x_offset, y_offset = _offsets(w, a, first + s, 0)
            w.store(y_offset, w.offset(places, s, "i64"))
            x = w.offset(a["x"], x_offset, "i8")
            read.read_slice(x_at, x_count, x, a["x_step"], s)

        def put(s: Register) -> None:
            y_offset = w.load(w.offset(places, s, "i64"), INDEX)
            y = w.offset(a["y"], y_offset, "i8")
            write.write_slice(y_at, y_count, y, a["y_step"], s)

        w.loop(count, fetch)
        _compute(tile)
        w.loop(count, put)

    w.loop(a["stop"], each, start=a["start"])


def _size(w: Writer, a: dict[str, Register], dim: Register | int, k: int) -> Register:
    """Number `k` of an axis."""
    return w.load(w.offset(a["sizes"], dim * 3 + k, "i64"), INDEX)


def _divided(w: Writer, x: Register, by: Register) -> tuple[Register, Register]:
    """Quotient and remainder of numbers that are not negative."""
    quotient = w.binary("", "udiv", x, by)
    return quotient, x - quotient * by


def _offsets(w: Writer, a: dict[str, Register], number: Register, first: int) -> list[Register]:
    """Bytes to a slice, or to a run, by its number: in x and y, along the axes from `first` on."""
    zero = w.constant(0, INDEX)
    last = a["dims"] - 1

    def along(dim: Register, rest: Register, x: Register, y: Register) -> list[Register]:
        rest, place = _divided(w, rest, _size(w, a, dim, 0))
        return [rest, x + place * _size(w, a, dim, 1), y + place * _size(w, a, dim, 2)]

    rest, x, y = w.loop(last, along, [number, zero, zero], start=first)
    return [x + rest * _size(w, a, last, 1), y + rest * _size(w, a, last, 2)]
