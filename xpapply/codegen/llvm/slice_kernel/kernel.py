"""Kernels for functions of slices: tile by tile, each element read once and written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.graph import Graph
from ....ir.ops import OPS, Kind
from .. import operations
from ..registers import DTYPES, INDEX, POINTER, Register
from ..target import Target
from ..writer import Writer
from .elements import Elements, Span, View
from .folding import Folding
from .form import Form
from .passes import Passes, is_vector
from .staging import Rows, one_by_one
from .tiles import Tiles

NAME = "slices"
"""The name of the kernel."""


def why_not(graph: Graph, target: Target) -> str | None:
    """Why there is no kernel for a graph of slices, or None."""
    graphs = [graph]
    for by, _ in graph.accumulations():
        graphs += [by.combine] if by.chunk is None else [by.chunk, by.combine]
    for g in graphs:
        for n in g.nodes:
            if n.aval.dtype not in DTYPES:
                return f"no kernels for {n.aval.dtype}"
            kind = OPS[n.op].kind if n.op != "accumulate" else Kind.LEAF
            if kind is Kind.ELEMENTWISE:
                refusal = operations.why_not(n.op, g.nodes[n.args[-1]].aval.dtype, target)
                if refusal is not None:
                    return refusal
            elif kind is Kind.REDUCTION and n.aval.dtype == "bool" and n.op in ("sum", "prod"):
                return f"{n.op} of booleans"
    return None


def slice_kernel(graph: Graph, form: Form, target: Target) -> str:
    """The text of the kernel that runs a graph, with its accumulators written out, in a form."""
    return _Kernel(graph, form, target).text()


class _Kernel(Tiles):
    def __init__(self, graph: Graph, form: Form, target: Target) -> None:
        self._graph = graph
        self._passes = Passes(graph, form.copied(graph))
        nodes = graph.nodes
        self._operands = [*graph.inputs, *graph.outs]
        dtypes = [nodes[i].aval.dtype for i in self._operands]
        super().__init__(Writer(target), form, dtypes, form.fields(len(self._passes.places)))
        self._elements = Elements(self._w, graph, form, self._passes)
        self._folding = Folding(self._w, form, self._elements)
        self._vectors = [is_vector(graph, i) for i in self._operands]

    def text(self) -> str:
        """The module."""
        self._w.function(NAME, [("arguments", POINTER)], self._body)
        return self._w.text()

    def _begin(self, index: Sequence[Register]) -> Register | None:
        w, form = self._w, self._form
        self._length = self._field("n")
        zero = w.constant(0, INDEX)
        self._span = Span(self._length, zero)
        if not form.has_parts:
            return None
        i = index[form.piece] if form.piece >= 0 else zero
        at = w.offset(self._geometry, i * 4 + len(self._fields), "i64")
        first, length, *leaves = (w.load(w.offset(at, k, "i64"), INDEX) for k in range(4))
        self._span = Span(length, first, (self._geometry, *leaves))
        return first if form.piece >= 0 else None

    def _size(self, k: int) -> Register:
        return self._span.length if self._vectors[k] else self._w.constant(1, INDEX)

    def _write(self, views: dict[int, View]) -> None:
        given = {self._operands[k]: v for k, v in views.items() if k in self._inputs}
        values = {self._operands[k]: x for k, x in self._values.items()}
        outs = [views[k] for k in range(len(self._inputs), len(self._operands))]
        kept = [self._memory(f"kept {m}") for m in range(len(self._passes.places))]
        self._elements.begin(given, values, outs, kept, self._span, self._length)
        self._folding.write()

    # --- one slice, its elements in lanes -----------------------------------------------------

    def _along(self) -> None:
        w, form = self._w, self._form
        zero, one = w.constant(0, INDEX), w.constant(1, INDEX)
        views: dict[int, View] = {}
        after: list[Callable[[], None]] = []
        for k, array in self._arrays.items():
            is_input, dtype = k < len(self._graph.inputs), self._dtypes[k]
            if form.moves[k] != "gathered":
                views[k] = View(array.at, 1, dtype, back=form.moves[k] == "reversed")
                if form.moves[k] == "same":
                    views[k] = View(array.at, 0, dtype, single=is_input)
                continue
            mine = Rows(self._memory(f"scratch {k}"), one)
            views[k] = View(mine.at, 1, dtype)
            move = (w, array, mine, self._span.length, (zero, one), is_input)
            if is_input:
                one_by_one(*move)
            else:
                after.append(lambda move=move: one_by_one(*move))  # type: ignore[misc]
        self._write(views)
        for finish in after:
            finish()
