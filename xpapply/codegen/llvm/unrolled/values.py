"""The values of a graph as arrays of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.graph import Graph, Node, number
from ....ir.ops import OPS, Kind
from .. import operations
from ..registers import Register
from ..writer import Writer
from .elements import Array, Element, array_of

NodeForm = Callable[..., Array]
"""``form(values, node, args, dtypes)`` writes an op that is not elementwise."""


class Values:
    """The nodes of a graph; elements are written on first use.

    Parameters
    ----------
    writer : Writer
        What writes the kernel.
    lanes : int
        How many slices are computed at once.
    form_of : callable
        ``form_of(op)`` is its `NodeForm`.
    """

    def __init__(
        self, writer: Writer, lanes: int, form_of: Callable[[str], NodeForm | None]
    ) -> None:
        self.writer, self.lanes, self._form_of = writer, lanes, form_of
        self._seen: dict[Any, Element] = {}

    def of(self, graph: Graph, known: dict[int, Array]) -> dict[int, Array]:
        """All values that results need, of some that are known."""
        found = dict(known)
        for i in graph.needed(graph.outs, known):
            n = graph.nodes[i]
            if n.op == "scalar":
                found[i] = array_of((), [self.constant(number(n), n.aval.dtype)])
            else:
                dtypes = [graph.nodes[a].aval.dtype for a in n.args]
                found[i] = self._value(n, [found[a] for a in n.args], dtypes)
        return found

    def _value(self, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
        kind = OPS[n.op].kind
        if kind is Kind.ELEMENTWISE or kind is Kind.COMPOSITE:
            whole = np.broadcast_arrays(*args)
            several = zip(*(x.ravel() for x in whole), strict=True)
            made = [self.apply(n.op, xs, dtypes[-1], n.attrs) for xs in several]
            return array_of(n.aval.shape, made)
        form = self._form_of(n.op)
        assert form is not None, n.op
        return form(self, n, args, dtypes)

    # --- elements -----------------------------------------------------------------------------

    def constant(self, value: Any, dtype: str) -> Element:
        """A number."""
        return self.new(lambda: operations.constant(self.writer, value, dtype, self.lanes))

    def apply(self, op: str, operands: Sequence[Element], dtype: str, attrs: Any = ()) -> Element:
        """An elementwise op, of operands of a dtype. What was made before is not made again."""
        key = op, tuple(operands), dtype, attrs
        found = self._seen.get(key)
        if found is None:

            def make(*registers: Register) -> Register:
                made = operations.apply(self.writer, op, registers, dtype, attrs)
                return self.writer.broadcast(made, self.lanes)

            found = self._seen[key] = Element(make, operands)
        return found

    def new(self, make: Callable[..., Any], *operands: Element) -> Element:
        """A new element, written by `make` from the registers of operands."""
        return Element(make, operands)

    def several(self, make: Callable[..., Sequence[Register]], x: Array, shape: Any) -> Array:
        """Elements that a function writes at once: ``make(array of registers)`` gives them.

        For ops of which no single element can be computed alone.
        """

        def written(*registers: Register) -> list[Register]:
            given = np.empty(len(registers), object)
            given[:] = registers
            return list(np.ravel(np.array(make(given.reshape(x.shape)), object)))

        whole = Element(written, tuple(x.ravel()))
        size = int(np.prod(shape))
        picks = [Element(lambda found, k=k: found[k], (whole,)) for k in range(size)]
        return array_of(shape, picks)
