"""A batched graph as a list of library calls into reused buffers.

One block of slices after the other runs through the same few cache-sized
buffers, so the extra memory does not grow with the array. The values of a
graph have the batch axis last; on the CPU it comes *first* in memory, ``(B, *shape)``, so
that products with a weight matrix are row-major BLAS calls, and the arrays in
the graph are transposed views of that.

`backends.numpy.slice_program` shares the plan of buffers and nothing more: its blocks may be pieces
of slices, in any shape, and its calls are bound to their memory, where products and layouts here
need a slice of one shape, and weights that change without another plan.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..ir.batch import LETTER
from ..ir.graph import BATCH, Graph, number
from ..ir.ops import OPS, Kind
from ..ir.rewrite import Region, regions

_K = TypeVar("_K", bound=Hashable)

AFFINE = f"nm,m{LETTER}->n{LETTER}"


class Library(Protocol):
    """Functions of an array library that a program needs. `out` is the target, or None."""

    name: str
    batch_first: bool
    """Whether the batch axis is first in memory."""

    def fuse(self, graph: Graph, region: Region) -> Callable[..., Any] | None:
        """A function for a region (its inputs, then out=); None: there is none."""

    def const(self, array: Any) -> Any: ...
    def scalar(self, value: float, dtype: str) -> Any: ...
    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def elementwise(self, op: str) -> Callable[..., Any]: ...
    def cast(self, x: Any, dtype: str, out: Any) -> Any: ...
    def reduce(self, op: str, x: Any, axis: tuple[int, ...], keepdims: bool, out: Any) -> Any: ...
    def weights(self, w: Any) -> Any: ...
    def bias(self, b: Any) -> Any: ...
    def affine(self, rows: Any, weights: Any, bias: Any, out: Any) -> Any: ...
    def einsum(self, subscripts: str, x: Any, y: Any, out: Any) -> Any: ...
    def concat(self, xs: Sequence[Any], axis: int, out: Any) -> Any: ...
    def transpose(self, x: Any, axes: tuple[int, ...]) -> Any: ...
    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any: ...
    def pad(self, x: Any, widths: Sequence[tuple[int, int]], number: float, out: Any) -> Any: ...
    def take(self, x: Any, places: tuple[int, ...], axis: int, out: Any) -> Any: ...
    def windows(self, x: Any, axis: int, size: int, step: int, dilation: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Step:
    """A call: node `node` from nodes `args`."""

    node: int
    args: tuple[int, ...]
    call: Callable[..., Any]


class Program:
    """The steps of a batched graph, and which buffer each result goes to."""

    def __init__(self, graph: Graph, library: Library) -> None:
        self.graph = graph
        self.library = library
        self.input = graph.entry
        self._batched = [n.aval.shape[-1:] == (BATCH,) for n in graph.nodes]
        found = regions(graph)
        self._fused: dict[int, tuple[Region, Callable[..., Any]]] = {}
        for out, region in found.items():
            call = library.fuse(graph, region) if self._batched[out] else None
            if call is not None:
                self._fused[out] = region, call
        self._inside = {
            i for out, (region, _) in self._fused.items() for i in region.nodes if i != out
        }
        self._bias = {} if self._fused else self._biased_products()
        products = [i for i in range(len(graph.nodes)) if self._is_affine(i)]
        # weights and biases in the form that products want lie after the values of the nodes
        self._packed = {w: len(graph.nodes) + k for k, w in enumerate(products)}
        self._packed_bias = {
            add: len(graph.nodes) + len(products) + k for k, add in enumerate(self._bias)
        }
        self.steps = [
            self._step(i) for i in range(len(graph.nodes)) if self._batched[i] and self._runs(i)
        ]
        self._slots, self._dtypes = self._plan_buffers()
        self.row_bytes = max((_bytes(graph, i) for i in (*self._slots, graph.out)), default=1)

    # --- building ---------------------------------------------------------------------

    def _biased_products(self) -> dict[int, tuple[int, int]]:
        """add nodes that are a product plus a bias: ``{add: (product, bias)}``."""
        nodes = self.graph.nodes
        uses: dict[int, int] = {}
        for n in nodes:
            for a in n.args:
                uses[a] = uses.get(a, 0) + 1
        found = {}
        for i, n in enumerate(nodes):
            if n.op != "add" or not self._batched[i]:
                continue
            for product, bias in (n.args, n.args[::-1]):
                if (
                    self._is_affine(product)
                    and uses[product] == 1
                    and not self._batched[bias]
                    and nodes[bias].aval.shape[-1:] == (1,)
                    and nodes[product].aval.shape == n.aval.shape
                ):
                    found[i] = (product, bias)
        return found

    def _is_affine(self, i: int) -> bool:
        n = self.graph.nodes[i]
        return (
            n.op == "einsum"
            and n.attr("subscripts") == AFFINE
            and not self._batched[n.args[0]]
            and self._batched[n.args[1]]
        )

    def _runs(self, i: int) -> bool:
        products = {p for p, _ in self._bias.values()}
        return i != self.input and i not in products and i not in self._inside

    def _step(self, i: int) -> Step:
        lib, n = self.library, self.graph.nodes[i]
        kind, attrs = OPS[n.op].kind, dict(n.attrs)
        if i in self._fused:
            region, call = self._fused[i]
            return Step(i, region.inputs, call)
        if i in self._bias or self._is_affine(i):
            product = self._bias[i][0] if i in self._bias else i
            x = self.graph.nodes[product].args[1]
            return Step(i, (x, self._packed[product], self._packed_bias.get(i, -1)), self._affine)
        if n.op == "cast":
            return Step(i, n.args, lambda x, out: lib.cast(x, attrs["dtype"], out))
        if kind is Kind.ELEMENTWISE:
            return Step(i, n.args, lib.elementwise(n.op))
        if kind is Kind.COMPOSITE:  # that the library has
            call = lib.elementwise(n.op)
            return Step(i, n.args, functools.partial(call, **attrs) if attrs else call)
        if kind is Kind.REDUCTION:
            axis, keepdims = attrs["axis"], attrs.get("keepdims", False)
            return Step(i, n.args, lambda x, out: lib.reduce(n.op, x, axis, keepdims, out))
        if kind is Kind.CONTRACTION:
            return Step(i, n.args, lambda x, y, out: lib.einsum(attrs["subscripts"], x, y, out))
        if n.op == "concat":
            return Step(i, n.args, lambda *xs, out: lib.concat(xs, attrs["axis"], out))
        if n.op == "pad":
            widths, fill = attrs["widths"], float(attrs["number"])
            return Step(i, n.args, lambda x, out: lib.pad(x, widths, fill, out))
        if n.op == "take":
            places, along = attrs["places"], attrs["axis"]
            return Step(i, n.args, lambda x, out: lib.take(x, places, along, out))
        if n.op == "broadcast_to" and self._batched[i] and not self._batched[n.args[0]]:
            # a constant, once per slice: the input tells how many there are
            shape = attrs["shape"][:-1]
            return Step(
                i,
                (*n.args, self.input),
                lambda x, like, out: lib.broadcast_to(x, (*shape, like.shape[-1])),
            )
        return Step(i, n.args, lambda x, out: layout(lib, n.op, x, attrs))

    def _affine(self, x: Any, weights: Any, bias: Any, out: Any) -> Any:
        if not self.library.batch_first:
            return self.library.affine(x, weights, bias, out)
        # arrays in the graph are (n, B); the product runs on their (B, n) memory
        if out is None:
            return self.library.affine(x.T, weights, bias, None).T
        self.library.affine(x.T, weights, bias, out.T)
        return out

    def is_product(self, step: Step) -> bool:
        """Whether a step is ``rows @ weights + bias``, with packed weights or bias."""
        return step.node in self._packed or step.node in self._packed_bias

    def _nodes(self, step: Step) -> list[int]:
        """The operands of a step that are nodes of the graph."""
        return [a for a in step.args if 0 <= a < len(self.graph.nodes)]

    def _plan_buffers(self) -> tuple[dict[int, int], list[str]]:
        """A buffer for each computed node but the result, and the dtypes of the buffers."""
        nodes = self.graph.nodes
        root = list(range(len(nodes)))  # the node in whose buffer a value is stored
        steps: list[tuple[list[int], list[int]]] = []
        for step in self.steps:
            i, is_view = step.node, _is_view(nodes[step.node].op)
            if is_view:
                root[i] = root[nodes[i].args[0]]
            reads = [root[a] for a in self._nodes(step)]
            steps.append((reads, [] if is_view or i == self.graph.out else [i]))

        def replaceable(step: int, i: int) -> list[int]:
            """Operands of the same shape, if no other operand is a view of their memory."""
            if i in self._bias or OPS[nodes[i].op].kind not in (Kind.ELEMENTWISE, Kind.COMPOSITE):
                return []
            roots, args = steps[step][0], self.steps[step].args
            return [
                r
                for r in roots
                if r in args and roots.count(r) == args.count(r) and nodes[r].aval == nodes[i].aval
            ]

        ends = [root[self.graph.out]]
        return plan_buffers(steps, lambda i: nodes[i].aval.dtype, replaceable, ends)

    # --- running ----------------------------------------------------------------------

    def bind(self, consts: Sequence[Any]) -> list[Any]:
        """Values of all nodes that depend on constants only: once per model state."""
        lib = self.library
        values: list[Any] = [None] * len(self.graph.nodes)
        for i, n in enumerate(self.graph.nodes):
            if self._batched[i]:
                continue
            args: list[Any] = [values[a] for a in n.args]
            attrs = dict(n.attrs)
            if n.op == "const":
                values[i] = lib.const(consts[attrs["k"]])
            elif n.op == "scalar":
                values[i] = lib.scalar(number(n), n.aval.dtype)
            elif _is_view(n.op):
                values[i] = layout(lib, n.op, args[0], attrs, batched=False)
            else:
                values[i] = self._step(i).call(*args, out=None)
        for product in self._packed:
            values.append(lib.weights(values[self.graph.nodes[product].args[0]]))
        for add in self._packed_bias:
            width = self.graph.nodes[add].aval.shape[0]
            bias = values[self._bias[add][1]].reshape(-1)
            values.append(lib.bias(lib.broadcast_to(bias, (width,))))
        return values

    def scratch(self, rows: int) -> Scratch:
        """The buffers for blocks of at most `rows` slices."""
        return Scratch(self, rows)

    def run(self, x: Any, bound: list[Any], scratch: Scratch, out: Any = None) -> Any:
        """Apply to one block, shape ``(*slice shape, B)``; the result may lie in `scratch`."""
        values = bound.copy()
        values[self.input] = x
        outs = scratch.outs(x.shape[-1])
        outs[self.graph.out] = out
        for step in self.steps:
            values[step.node] = step.call(
                *[values[a] if a >= 0 else None for a in step.args], out=outs[step.node]
            )
        return values[self.graph.out]


class Scratch:
    """The buffers of one worker."""

    def __init__(self, program: Program, rows: int) -> None:
        self._program = program
        graph = program.graph
        sizes = [0] * len(program._dtypes)
        for i, slot in program._slots.items():
            sizes[slot] = max(sizes[slot], math.prod(graph.nodes[i].aval.shape[:-1]))
        several = zip(sizes, program._dtypes, strict=True)
        self._flat = [program.library.empty((n * rows,), dtype) for n, dtype in several]
        self._outs: dict[int, list[Any]] = {}

    def outs(self, rows: int) -> list[Any]:
        """The view of each node's result, for a block of `rows` slices."""
        outs = self._outs.get(rows)
        if outs is None:
            graph = self._program.graph
            outs = [None] * len(graph.nodes)
            for i, slot in self._program._slots.items():
                shape = graph.nodes[i].aval.shape[:-1]
                flat = self._flat[slot][: rows * math.prod(shape)]
                if self._program.library.batch_first:
                    axes = (*range(1, len(shape) + 1), 0)
                    memory = flat.reshape((rows, *shape))
                    outs[i] = self._program.library.transpose(memory, axes)
                else:
                    outs[i] = flat.reshape((*shape, rows))
            self._outs = {rows: outs} if len(self._outs) > 2 else self._outs | {rows: outs}
        return outs


def plan_buffers(
    steps: Sequence[tuple[Sequence[int], Sequence[int]]],
    kind: Callable[[int], _K],
    replaceable: Callable[[int, int], Sequence[int]],
    ends: Iterable[int],
) -> tuple[dict[int, int], list[_K]]:
    """Assign buffers to values; a buffer is reused once its value is dead.

    Parameters
    ----------
    steps : sequence of (reads, results)
        The values that a step reads, and those that it needs buffers for.
    kind : callable
        ``kind(value)``: only values of one kind have one buffer.
    replaceable : callable
        ``replaceable(step, result)``: the values in whose place a result may be written, if it is
        the last time that they are read.
    ends : iterable of int
        Values that are read after the last step.

    Returns
    -------
    dict of int to int
        The buffer of each value.
    list
        The kind of each buffer.
    """
    last = {a: n for n, (reads, _) in enumerate(steps) for a in reads}
    last |= dict.fromkeys(ends, len(steps))
    buffers: dict[int, int] = {}
    kinds: list[_K] = []
    free: dict[_K, list[int]] = {}
    for n, (reads, results) in enumerate(steps):
        dying = [a for a in dict.fromkeys(reads) if last[a] == n and a in buffers]
        for i in results:
            mine = kind(i)
            there = [a for a in replaceable(n, i) if a in dying and kind(a) == mine]
            if there:
                buffers[i] = buffers[there[0]]
                dying.remove(there[0])
            elif free.get(mine):
                buffers[i] = free[mine].pop()
            else:
                buffers[i] = len(kinds)
                kinds.append(mine)
        dying += [i for i in results if i not in last]
        for a in dying:
            free.setdefault(kind(a), []).append(buffers[a])
    return buffers, kinds


def padded(x: Any, widths: Sequence[tuple[int, int]], number: float, out: Any) -> Any:
    """`x` in the middle of `out`, which has more numbers along the first axes."""
    inner: list[slice] = []
    for a, (before, after) in enumerate(widths):
        if before:
            out[(*inner, slice(0, before))] = number
        if after:
            out[(*inner, slice(out.shape[a] - after, None))] = number
        inner.append(slice(before, out.shape[a] - after))
    out[tuple(inner)] = x
    return out


def padded_shape(shape: Sequence[int], widths: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The shape of what is padded along the first axes."""
    more = [before + after for before, after in widths] + [0] * (len(shape) - len(widths))
    return tuple(n + k for n, k in zip(shape, more, strict=True))


def windows_of(
    shape: Sequence[int],
    strides: Sequence[int],
    axis: int,
    size: int,
    step: int,
    dilation: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a view of an axis as windows."""
    n, s = shape[axis], strides[axis]
    count = (n - dilation * (size - 1) - 1) // step + 1
    return (
        (*shape[:axis], count, size, *shape[axis + 1 :]),
        (*strides[:axis], s * step, s * dilation, *strides[axis + 1 :]),
    )


def layout(lib: Library, op: str, x: Any, attrs: dict[str, Any], *, batched: bool = True) -> Any:
    """A view of `x`, or a copy where there is no view."""
    if op == "permute_dims":
        return lib.transpose(x, attrs["axes"])
    if op == "index":
        return x[(*(slice(*k) if isinstance(k, tuple) else k for k in attrs["key"]), ...)]
    if op == "windows":
        return lib.windows(x, **attrs)
    shape = attrs["shape"]
    if op == "broadcast_to":
        return lib.broadcast_to(x, tuple(x.shape[-1] if n == BATCH else n for n in shape))
    if not batched or not lib.batch_first:
        return x.reshape((*shape[:-1], x.shape[-1]) if batched else shape)
    # the batch axis comes first in memory, so that this is a view
    ndim = len(x.shape)
    rows = lib.transpose(x, (ndim - 1, *range(ndim - 1))).reshape((x.shape[-1], *shape[:-1]))
    return lib.transpose(rows, (*range(1, len(shape)), 0))


def _is_view(op: str) -> bool:
    return OPS[op].kind is Kind.LAYOUT and op not in ("concat", "pad", "take")


def _bytes(graph: Graph, i: int) -> int:
    aval = graph.nodes[i].aval
    return math.prod(aval.shape[:-1]) * (8 if aval.dtype.endswith("64") else 4)
