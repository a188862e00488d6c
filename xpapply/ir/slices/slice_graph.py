"""Writing graphs of slices of any length, as functions of their elements.

Between vectors and numbers stand accumulators: what can be computed of a piece of a slice, and
combined with that of another piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import TraceError
from ..builder import Value
from ..graph import VECTOR, Graph, Node, ShapeDtype
from ..numpy_builder import NumPyBuilder, no_array
from ..numpy_ufuncs import known
from ..ops import OPS


@dataclass(frozen=True)
class Accumulator:
    """Several numbers of a slice that are found in one pass, in pieces and in any order.

    Attributes
    ----------
    name : str
        For people.
    chunk : Graph or None
        From vectors to the numbers of a piece, which may look at the piece more than once.
        None: each element has such numbers (the vectors), to be combined.
    combine : Graph
        From the numbers of two pieces (all of the one, then all of the other) to those of both.
    identity : tuple of number or None
        The numbers of an empty piece; None where it has none.
    merge : Graph or None
        What `combine` does, for any number of pieces at once: from vectors, with one element per
        piece, to the numbers of all.
    """

    name: str
    chunk: Graph | None
    combine: Graph
    identity: tuple[Any, ...] | None
    merge: Graph | None = None

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of its numbers."""
        return tuple(self.combine.nodes[o].aval.dtype for o in self.combine.outs)


class Expression(Value):
    """A value of a graph for slices of any length, while that is being written.

    It is one number: of an element, or of a slice.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    builder: SliceBuilder
    _is = "an element"

    @property
    def shape(self) -> Any:
        raise AttributeError  # see __getattr__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"an element has no .{name}: it is one number, not an array. Expressions have "
            "operators, astype, NumPy's ufuncs, numpy.where and numpy.clip; reductions are "
            "written with xpapply.reduction"
        )

    def astype(self, dtype: Any, copy: bool = True) -> Expression:
        """Cast to another dtype."""
        wanted = np.dtype(dtype)
        if wanted.kind not in "biufc":
            raise TraceError(f"astype({wanted}) of an element: elements are numbers")
        found: Expression = self.builder.cast(self, wanted.name)
        return found

    def __iter__(self) -> Any:
        raise TraceError("an element is one number: it cannot be iterated over")

    def __getitem__(self, key: Any) -> Any:
        raise TraceError("an element is one number: it cannot be indexed")

    def __float__(self) -> float:
        raise TraceError("an element is not known yet: use NumPy's functions instead of math's")

    __int__ = __index__ = __complex__ = __round__ = __float__  # type: ignore[assignment]

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other == -1 and self.dtype.kind == "c":
            # NumPy's reciprocal: finite at infinity, as its power is not, and no number at 0
            return np.where(np.equal(self, 0), complex(math.nan, math.nan), np.divide(1, self))
        squares = (2,) if type(other) is int or self.dtype.kind != "c" else ()
        if type(other) not in (int, float) or other not in (0.5, *squares):
            return self.builder.ufunc(np.power, self, other)
        # these are what NumPy's operator makes of them, and its power does not
        x = self.astype(np.result_type(self.dtype, other)) if type(other) is float else self
        return np.square(x) if other == 2 else np.sqrt(x)


class SliceBuilder(NumPyBuilder):
    """Writes a graph for slices of any length."""

    _value = Expression

    @property
    def _hint(self) -> str:  # type: ignore[override]
        return f". There are {', '.join(known())}"

    def const(self, array: np.ndarray) -> Any:
        raise TraceError("expressions take numbers; give arrays as further arguments")

    def length(self, dtype: str) -> Any:
        """The number of elements of a slice: inside an accumulator, of the piece."""
        return self.add(Node("length", (), (), ShapeDtype((), dtype)))

    def ufunc(self, ufunc: np.ufunc, *operands: Any) -> Any:
        for x in map(no_array, operands):
            if not isinstance(x, (Value, int, float, complex, np.generic)):
                raise TraceError(
                    f"numpy.{ufunc.__name__} of an element and {type(x).__name__}: expressions "
                    "take numbers; give arrays as further arguments"
                )
        return super().ufunc(ufunc, *operands)

    def op(self, name: str, *operands: Any, **attrs: Any) -> Any:
        """An op of values and numbers; composites are written out."""
        if OPS[name].define is not None:
            return self.expanded(name, operands, attrs)
        return super().op(name, *operands, **attrs)

    def reduce(self, name: str, x: Expression) -> Any:
        """A reduction of the table, inside an accumulator."""
        return self.node(name, x, axis=(0,), keepdims=False)

    def accumulate(self, by: Accumulator, *vectors: Expression) -> tuple[Any, ...]:
        """The numbers of an accumulator over the slice."""
        args = tuple(v.index for v in vectors)
        return tuple(
            self.add(Node("accumulate", args, (("by", by), ("field", k)), ShapeDtype((), dtype)))
            for k, dtype in enumerate(by.dtypes)
        )

    def graph(self, *outs: Value) -> Graph:
        """The graph with these results, without what they do not need."""
        return Graph(tuple(self.nodes), tuple(o.index for o in outs)).pruned()


def written(function: Callable[..., Any], kinds: Iterable[tuple[str, bool]]) -> tuple[Graph, bool]:
    """The graph of a function of expressions, and whether it returned a tuple.

    `kinds` has the dtype of each argument, and whether it is a vector.
    """
    builder = SliceBuilder()
    given = [builder.input(ShapeDtype(VECTOR if vector else (), d)) for d, vector in kinds]
    result = function(*given)
    return builder.graph(*expressions(builder, result)), isinstance(result, tuple)


def expressions(builder: SliceBuilder, result: Any) -> list[Expression]:
    """The results of a function of expressions, one or a tuple."""
    found = []
    for y in map(no_array, result if isinstance(result, tuple) else (result,)):
        if not isinstance(y, (Expression, int, float, complex, np.generic)):
            raise TraceError(f"an expression returned {type(y).__name__}: return values or numbers")
        if not isinstance(y, Expression):
            dtypes = [n.aval.dtype for n in builder.nodes if n.op == "input" and n.aval.shape]
            # a float takes the dtype of the arrays; a whole number counts, and stays one
            weak = type(y) in (float, complex)
            kind = np.result_type(*dtypes, y) if weak else np.asarray(y).dtype
            y = builder.scalar(y, kind.name)
        found.append(y)
    if not found:
        raise TraceError("an expression returned no values: return at least one")
    return found
