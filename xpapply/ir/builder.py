"""Writing graphs node by node, as functions of values.

Shapes and dtypes are inferred by rule, never by running on dummy data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..functions.cache import remembered
from .graph import Graph, Node, ShapeDtype, scalar_type
from .numpy_ufuncs import op_or_definition
from .ops import OPS, Kind, Op
from .shapes import broadcast, einsum_lengths, gathered_shape, indexed_shape

_MAGNITUDES = {"complex64": "float32", "complex128": "float64"}


def infer(op: str, avals: Sequence[ShapeDtype], attrs: dict[str, Any]) -> ShapeDtype:
    """Shape and dtype of a node: one rule per kind."""
    row = OPS[op]
    if row.kind is Kind.ELEMENTWISE:
        shape = broadcast(*(a.shape for a in avals))
        if row.result == "attr":
            return ShapeDtype(shape, attrs["dtype"])
        operands = avals[1:] if op == "where" else avals
        dtypes = {a.dtype for a in operands}
        if len(dtypes) > 1:
            raise TraceError(f"{op} of {' and '.join(sorted(dtypes))}: cast one of them")
        dtype = "bool" if row.result == "bool" else dtypes.pop()
        return ShapeDtype(shape, _MAGNITUDES.get(dtype, dtype) if op == "abs" else dtype)
    first = avals[0]
    if row.kind is Kind.REDUCTION:
        axes = attrs["axis"]
        if attrs.get("keepdims"):
            shape = tuple(1 if a in axes else n for a, n in enumerate(first.shape))
        else:
            shape = tuple(n for a, n in enumerate(first.shape) if a not in axes)
        if row.result == "same":
            return ShapeDtype(shape, first.dtype)
        if len(axes) != 1:  # positions are counted along an axis
            raise TraceError(f"{op} of shape {first.shape} along axes {axes}: it takes one axis")
        if first.shape[axes[0]] == 0:
            raise TraceError(f"{op} of no numbers, shape {first.shape}")
        return ShapeDtype(shape, row.result)
    if row.kind is Kind.ALONG:
        return _along(row, avals, attrs["axis"])
    if row.kind is Kind.TREES:
        return _trees(avals)
    if row.kind is Kind.CONTRACTION:
        subscripts = attrs["subscripts"]
        sizes = einsum_lengths(subscripts, [a.shape for a in avals])
        return ShapeDtype(tuple(sizes[k] for k in subscripts.partition("->")[2]), first.dtype)
    if row.kind is Kind.COMPOSITE:
        assert row.define is not None, op
        return _of_definition(row.define, tuple(avals), tuple(attrs.items()))
    if op == "reshape" or op == "broadcast_to":
        if op == "reshape" and math.prod(attrs["shape"]) != math.prod(first.shape):
            raise TraceError(f"cannot reshape {first.shape} to {attrs['shape']}")
        return ShapeDtype(attrs["shape"], first.dtype)
    if op == "permute_dims":
        return ShapeDtype(tuple(first.shape[a] for a in attrs["axes"]), first.dtype)
    if op == "concat":
        axis = attrs["axis"]
        rest = {a.shape[:axis] + a.shape[axis + 1 :] for a in avals}
        if len(rest) > 1 or len({a.dtype for a in avals}) > 1:
            raise TraceError(f"cannot join {' and '.join(map(str, avals))} along axis {axis}")
        n = sum(a.shape[axis] for a in avals)
        return ShapeDtype((*first.shape[:axis], n, *first.shape[axis + 1 :]), first.dtype)
    if op == "index":
        return ShapeDtype(indexed_shape(first.shape, attrs["key"]), first.dtype)
    if row.gathers:
        return ShapeDtype(gathered_shape(op, first.shape, attrs), first.dtype)
    raise AssertionError(f"no shape rule for {op}")


def _along(row: Op, avals: Sequence[ShapeDtype], axis: int) -> ShapeDtype:
    """The last operand has the length along the axis; the other axes broadcast."""
    first, last = avals[0], avals[-1]
    if len(first.shape) != len(last.shape) or not 0 <= axis < len(first.shape):
        raise TraceError(f"{row.name} of {' and '.join(map(str, avals))} along axis {axis}")
    rest = broadcast(*(a.shape[:axis] + a.shape[axis + 1 :] for a in avals))
    shape = (*rest[:axis], last.shape[axis], *rest[axis:])
    return ShapeDtype(shape, first.dtype if row.result == "same" else row.result)


def _trees(avals: Sequence[ShapeDtype]) -> ShapeDtype:
    """The shape of all leaves of a slice."""
    x, feature, threshold, child, after, values, roots, start = avals
    nodes, width = values.shape
    given = (feature, threshold, child, after, roots, start)
    lengths = (nodes, nodes, nodes, nodes, *roots.shape[:1], width)
    dtypes = ("int32", x.dtype, "int32", "bool", "int32", values.dtype)
    wanted = [ShapeDtype((n,), dtype) for n, dtype in zip(lengths, dtypes, strict=True)]
    if not 1 <= len(x.shape) <= 2 or list(given) != wanted:
        raise TraceError(f"trees of {' and '.join(map(str, avals))}")
    return ShapeDtype((width, *x.shape[1:]), values.dtype)


@remembered(2048)
def _of_definition(
    define: Callable[..., Any], avals: tuple[ShapeDtype, ...], attrs: tuple[tuple[str, Any], ...]
) -> ShapeDtype:
    """Shape and dtype of what a composite is written with."""
    builder = Builder()
    result: Value = define(*map(builder.input, avals), **dict(attrs))
    return result.aval


def verify(graph: Graph) -> Graph:
    """Check every node of `graph`; return it. Every graph that is built or rewritten is checked."""
    inputs: list[int] = []
    for i, n in enumerate(graph.nodes):
        if any(a >= i for a in n.args):
            raise AssertionError(f"%{i} uses a later node\n{graph}")
        if n.op == "input":
            inputs.append(n.attr("k"))
        elif n.op == "const":
            const = graph.consts[n.attr("k")]
            if (const.shape, const.dtype.name) != n.aval:
                raise AssertionError(f"%{i} is {n.aval}, its value {const.dtype}{const.shape}")
        elif n.op == "accumulate":
            if n.aval != ((), n.attr("by").dtypes[n.attr("field")]):
                raise AssertionError(f"%{i} says {n.aval}, its accumulator does not\n{graph}")
        elif n.op not in ("scalar", "length"):
            found = infer(n.op, [graph.nodes[a].aval for a in n.args], dict(n.attrs))
            if found != n.aval:
                raise AssertionError(f"%{i} says {n.aval}, the rule {found}\n{graph}")
    if not inputs or sorted(inputs) != list(range(len(inputs))):
        raise AssertionError(f"inputs with the numbers {inputs}\n{graph}")
    return graph


def _operator(ufunc: np.ufunc) -> Callable[[Value, Any], Any]:
    return lambda self, other: self.builder.ufunc(ufunc, self, other)


def _swapped(ufunc: np.ufunc) -> Callable[[Value, Any], Any]:
    return lambda self, other: self.builder.ufunc(ufunc, other, self)


class Value:
    """A node while its graph is being built: use it like an array.

    Arithmetic, comparisons, NumPy's ufuncs, `numpy.where` and `numpy.clip` add nodes, with the
    dtypes that the builder gives them.
    """

    __slots__ = ("aval", "builder", "index")
    __hash__ = object.__hash__
    _is = "a value of a graph"

    def __init__(self, builder: Builder, index: int) -> None:
        self.builder = builder
        self.index = index
        self.aval = builder.nodes[index].aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, if it is one of NumPy's; ``aval.dtype`` is the name of any."""
        return np.dtype(self.aval.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            with_ = f" with {', '.join(kwargs)}" if kwargs else ""
            call = "" if method == "__call__" else f".{method}"
            raise TraceError(f"numpy.{ufunc.__name__}{call}{with_} of {self._is}: write it apart")
        return self.builder.ufunc(ufunc, *operands)

    def __array_function__(self, func: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        if func is np.where and len(args) == 3 and not kwargs:
            return self.builder.op("where", *args)
        if func is np.clip:
            return _clip(*args, **kwargs)
        raise TraceError(
            f"numpy.{func.__name__} of {self._is}: expressions have NumPy's ufuncs, numpy.where "
            "and numpy.clip. Reductions are written with xpapply.reduction."
        )

    def __bool__(self) -> bool:
        raise TraceError(
            f"the truth of {self._is} is not known while its expression is being written: use "
            "numpy.where(condition, a, b), and & | ~ for `and`, `or`, `not`"
        )

    __add__, __radd__ = _operator(np.add), _swapped(np.add)
    __sub__, __rsub__ = _operator(np.subtract), _swapped(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply), _swapped(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide), _swapped(np.divide)
    __floordiv__, __rfloordiv__ = _operator(np.floor_divide), _swapped(np.floor_divide)
    __mod__, __rmod__ = _operator(np.remainder), _swapped(np.remainder)
    __pow__, __rpow__ = _operator(np.power), _swapped(np.power)
    __matmul__, __rmatmul__ = _operator(np.matmul), _swapped(np.matmul)
    __lshift__, __rlshift__ = _operator(np.left_shift), _swapped(np.left_shift)
    __rshift__, __rrshift__ = _operator(np.right_shift), _swapped(np.right_shift)
    __and__, __rand__ = _operator(np.bitwise_and), _swapped(np.bitwise_and)
    __or__, __ror__ = _operator(np.bitwise_or), _swapped(np.bitwise_or)
    __xor__, __rxor__ = _operator(np.bitwise_xor), _swapped(np.bitwise_xor)
    __lt__, __le__ = _operator(np.less), _operator(np.less_equal)
    __gt__, __ge__ = _operator(np.greater), _operator(np.greater_equal)
    __eq__, __ne__ = _operator(np.equal), _operator(np.not_equal)

    def __neg__(self) -> Any:
        return self.builder.ufunc(np.negative, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.builder.ufunc(np.absolute, self)

    def __invert__(self) -> Any:
        return self.builder.ufunc(np.invert, self)


def _clip(x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = min if low is None else low, max if high is None else high
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


class Builder:
    """Builds a graph node by node. Equal nodes are built once.

    Operands have the dtypes that an op takes; Python's numbers take that of the array beside
    them. `NumPyBuilder` casts as NumPy does.

    Start with the `consts` of another graph to copy its const nodes by their numbers.
    """

    _value: type[Value] = Value
    _hint = ""
    """A hint for ufuncs that are not ops."""

    def __init__(self, consts: Iterable[np.ndarray] = ()) -> None:
        self.nodes: list[Node] = []
        self.consts: list[np.ndarray] = list(consts)
        self._seen: dict[Node, int] = {}
        self._const_of: dict[int, Any] = {}

    def add(self, node: Node) -> Any:
        """A node as it is: its operands and constants have the numbers that they have here."""
        index = self._seen.get(node)
        if index is None:
            index = self._seen[node] = len(self.nodes)
            self.nodes.append(node)
        return self._value(self, index)

    def input(self, aval: ShapeDtype) -> Any:
        """A slice of the next array."""
        k = sum(n.op == "input" for n in self.nodes)
        return self.add(Node("input", (), (("k", k),), aval))

    def const(self, array: np.ndarray) -> Any:
        """A constant array; the same array object gives the same node."""
        value = self._const_of.get(id(array))
        if value is None:
            aval = ShapeDtype(array.shape, array.dtype.name)
            value = self.add(Node("const", (), (("k", len(self.consts)),), aval))
            self.consts.append(array)  # also keeps the id from being used again
            self._const_of[id(array)] = value
        return value

    def scalar(self, number: Any, dtype: str) -> Any:
        """A number of the given dtype."""
        found = scalar_type(dtype)(number)
        if type(found) in (bool, int) and found != number:
            raise TraceError(f"the number {number} beside {dtype}: cast the array first")
        # repr tells 0.0 from -0.0 and equals itself for NaN, which the number would not
        return self.add(Node("scalar", (), (("value", repr(found)),), ShapeDtype((), dtype)))

    def node(self, name: str, *operands: Value, **attrs: Any) -> Any:
        """An op of operands that have the dtypes it takes."""
        aval = infer(name, [v.aval for v in operands], attrs)
        args = tuple(v.index for v in operands)
        return self.add(Node(name, args, tuple(sorted(attrs.items())), aval))

    def op(self, name: str, *operands: Any, **attrs: Any) -> Any:
        """An op of values and numbers."""
        dtype = next(x.aval.dtype for x in reversed(operands) if isinstance(x, Value))
        values = (x if isinstance(x, Value) else self.scalar(x, dtype) for x in operands)
        return self.node(name, *values, **attrs)

    def ufunc(self, ufunc: np.ufunc, *operands: Any) -> Any:
        """The op that a ufunc of NumPy is, or what it is written with."""
        name, define = self.op_of(ufunc)
        return self.op(name, *operands) if define is None else define(*operands)

    def op_of(self, ufunc: np.ufunc) -> tuple[str, Callable[..., Any] | None]:
        """The op that a ufunc is, or how it is written with others."""
        name, define = op_or_definition(ufunc)
        if name is None and define is None:
            raise TraceError(f"numpy.{ufunc.__name__} is not an op of the table{self._hint}")
        return name or "", define

    def expanded(self, name: str, operands: Iterable[Any], attrs: dict[str, Any]) -> Any:
        """Apply a composite by its definition."""
        define = OPS[name].define
        assert define is not None, name
        return define(*operands, **attrs)

    def graph(self, *outs: Value) -> Graph:
        """The graph with these results, checked."""
        indices = tuple(o.index for o in outs)
        return verify(Graph(tuple(self.nodes), indices, tuple(self.consts)))
