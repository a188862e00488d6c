"""Writing graphs of slices of any length, as functions of their elements.

Between vectors and numbers stand accumulators: what can be computed of a piece of a slice, and
combined with that of another piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TraceError
from .graph import VECTOR, Graph, Node, ShapeDtype, infer
from .numpy_ufuncs import COMPARISONS, LOGICAL, known, op_or_definition
from .ops import OPS, Kind


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


class Expression:
    """A value of a slice graph while that is being written: use it like an array.

    Arithmetic, comparisons, NumPy's ufuncs, `numpy.where` and ``astype`` write nodes, with the
    dtypes that NumPy gives.
    """

    __slots__ = ("builder", "index")
    __hash__ = object.__hash__

    def __init__(self, builder: SliceBuilder, index: int) -> None:
        self.builder, self.index = builder, index

    @property
    def aval(self) -> ShapeDtype:
        return self.builder.nodes[self.index].aval

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.aval.dtype)

    def astype(self, dtype: Any, copy: bool = True) -> Expression:
        """The same in another dtype."""
        wanted = np.dtype(dtype)
        if wanted.kind not in "biufc":
            raise TraceError(f"astype({wanted}) of an element: elements are numbers")
        return self.builder.cast(self, wanted.name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"an element has no .{name}: it is one number, not an array. Expressions have "
            "operators, astype, NumPy's ufuncs, numpy.where and numpy.clip; reductions are "
            "written with xpapply.reduction"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            with_ = f" with {', '.join(kwargs)}" if kwargs else ""
            call = "" if method == "__call__" else f".{method}"
            raise TraceError(f"numpy.{ufunc.__name__}{call}{with_} of an element: write it apart")
        return self.builder.ufunc(ufunc, *operands)

    def __array_function__(self, func: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        if func is np.where and len(args) == 3 and not kwargs:
            return self.builder.op("where", *args)
        if func is np.clip:
            return _clip(*args, **kwargs)
        raise TraceError(
            f"numpy.{func.__name__} of an element: expressions have NumPy's ufuncs, numpy.where "
            "and numpy.clip. Reductions are written with xpapply.reduction."
        )

    def __bool__(self) -> bool:
        raise TraceError(
            "the truth of an element is not known while its expression is being written: use "
            "numpy.where(condition, a, b), and & | ~ for `and`, `or`, `not`"
        )

    def __iter__(self) -> Any:
        raise TraceError("an element is one number: it cannot be iterated over")

    def __getitem__(self, key: Any) -> Any:
        raise TraceError("an element is one number: it cannot be indexed")

    def __float__(self) -> float:
        raise TraceError("an element is not known yet: use NumPy's functions instead of math's")

    __int__ = __index__ = __complex__ = __round__ = __float__  # type: ignore[assignment]

    def __neg__(self) -> Any:
        return np.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __invert__(self) -> Any:
        return np.invert(self)

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


def _operator(ufunc: Any, swapped: bool = False) -> Callable[[Expression, Any], Any]:
    def apply(self: Expression, other: Any) -> Any:
        return self.builder.ufunc(ufunc, *((other, self) if swapped else (self, other)))

    return apply


for _name, _ufunc in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "matmul": np.matmul,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}.items():
    if _name != "pow":
        setattr(Expression, f"__{_name}__", _operator(_ufunc))
    setattr(Expression, f"__r{_name}__", _operator(_ufunc, swapped=True))
for _name, _ufunc in {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}.items():
    setattr(Expression, f"__{_name}__", _operator(_ufunc))
del _name, _ufunc


def _clip(x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = min if low is None else low, max if high is None else high
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


_OF_TRUTHS: dict[str, Callable[..., Any]] = {
    "add": np.logical_or,
    "multiply": np.logical_and,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
    "abs": lambda a: a,
    "greater": lambda a, b: a & ~b,
    "greater_equal": lambda a, b: a | ~b,
    "less": lambda a, b: ~a & b,
    "less_equal": lambda a, b: ~a | b,
}
"""What NumPy has for truths, and the array API for numbers only."""


class SliceBuilder:
    """Writes a slice graph node by node. Equal nodes are written once."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._seen: dict[Node, int] = {}

    def _add(self, op: str, args: tuple[int, ...], attrs: tuple, aval: ShapeDtype) -> Expression:
        node = Node(op, args, attrs, aval)
        index = self._seen.get(node)
        if index is None:
            index = self._seen[node] = len(self.nodes)
            self.nodes.append(node)
        return Expression(self, index)

    def input(self, dtype: str, shape: tuple[int, ...] = VECTOR) -> Expression:
        """The next array."""
        k = sum(n.op == "input" for n in self.nodes)
        return self._add("input", (), (("k", k),), ShapeDtype(shape, dtype))

    def length(self, dtype: str) -> Expression:
        """The number of elements of a slice: inside an accumulator, of the piece."""
        return self._add("length", (), (), ShapeDtype((), dtype))

    def scalar(self, value: Any, dtype: str) -> Expression:
        """A number."""
        _check_range(value, dtype)
        with np.errstate(over="ignore"):
            found = np.asarray(value).astype(dtype)
        # longdouble's own repr is none of a number
        number = {"f": float, "c": complex}.get(found.dtype.kind, np.ndarray.item)(found)
        # repr tells 0.0 from -0.0 and equals itself for NaN, which the number would not
        return self._add("scalar", (), (("value", repr(number)),), ShapeDtype((), dtype))

    def cast(self, x: Expression, dtype: str) -> Expression:
        if x.aval.dtype == dtype:
            return x
        if np.dtype(x.aval.dtype).kind == "c" and np.dtype(dtype).kind != "c":
            raise TraceError(
                f"{x.aval.dtype} cannot become {dtype} without losing its imaginary part"
            )
        attrs = (("dtype", dtype),)
        return self._add("cast", (x.index,), attrs, ShapeDtype(x.aval.shape, dtype))

    def operand(self, x: Any, dtype: Any) -> Expression:
        """A value or number in a dtype."""
        name = np.dtype(dtype).name
        return self.cast(x, name) if isinstance(x, Expression) else self.scalar(x, name)

    def ufunc(self, ufunc: Any, *operands: Any) -> Expression:
        """A ufunc of NumPy, with the dtypes that it would choose."""
        operands = tuple(map(_no_array, operands))
        for x in operands:
            if not isinstance(x, (Expression, int, float, complex, np.generic)):
                raise TraceError(
                    f"numpy.{ufunc.__name__} of an element and {type(x).__name__}: expressions "
                    "take numbers; give arrays as further arguments"
                )
        if ufunc in LOGICAL:
            if any(_kind(x) not in (np.dtype(bool), bool) for x in operands):
                raise TraceError(f"numpy.{ufunc.__name__} of numbers: it takes truths (x > 0)")
            ufunc = LOGICAL[ufunc]
        name, define = op_or_definition(ufunc)
        if name is None and define is None:
            there = ", ".join(known())
            raise TraceError(f"numpy.{ufunc.__name__} is no op of the table. There are {there}")
        kinds = [_kind(x) for x in operands]
        if ufunc in COMPARISONS and (known_truth := _out_of_range(ufunc, operands)) is not None:
            return self.scalar(known_truth, "bool")
        try:
            loop = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
        except TypeError as error:
            raise TraceError(f"numpy.{ufunc.__name__}: {error}") from None
        truths = ufunc.__name__.startswith("logical")
        given = [
            self.operand(x, bool if truths else d) for x, d in zip(operands, loop, strict=False)
        ]
        if define is not None:
            return define(*given)  # type: ignore[no-any-return]
        assert name is not None
        if OPS[name].kind is Kind.COMPOSITE:
            return self.op(name, *given)
        if loop[0].kind == "b" and name in _OF_TRUTHS:
            return _OF_TRUTHS[name](*given)  # type: ignore[no-any-return]
        if OPS[name].int_c == "{0}" and loop[0].kind != "f":
            return given[0]
        if name == "isfinite" and loop[0].kind not in "fc":
            return self.ufunc(np.equal, given[0], given[0])
        if loop[0].kind == "c" and not OPS[name].complex:
            raise TraceError(f"numpy.{ufunc.__name__} of {loop[0]}: complex numbers have none")
        if ufunc is np.power and type(operands[1]) in (int, float) and operands[1] in (1, 2):
            return given[0] if operands[1] == 1 else self.node("multiply", [given[0]] * 2)
        if name == "pow" and loop[0].kind in "iu":
            raise TraceError("whole numbers to a power: make one of them a float")
        return self.node(name, given, loop[-1].name)

    def op(self, name: str, *operands: Any, **attrs: Any) -> Expression:
        """An op of the table, or an activation; the op "where" of numbers of any dtypes."""
        if name == "where":
            condition, *rest = map(_no_array, operands)
            dtype = np.result_type(*(_weak(x) for x in rest))
            condition = self.operand(condition, bool)
            return self.node("where", [condition, *(self.operand(x, dtype) for x in rest)])
        define = OPS[name].define
        if define is not None:
            expanded: Any = define(*operands, **attrs)
            return expanded  # type: ignore[no-any-return]
        return self.ufunc(getattr(np, name), *operands)

    def node(self, name: str, given: Sequence[Expression], dtype: str = "") -> Expression:
        """An elementwise op of operands that have the dtypes it takes."""
        aval = infer(name, [v.aval for v in given], {})
        if dtype:  # the magnitude of a complex number is real
            aval = ShapeDtype(aval.shape, dtype)
        return self._add(name, tuple(v.index for v in given), (), aval)

    def reduce(self, name: str, x: Expression) -> Expression:
        """A reduction of the table, inside an accumulator."""
        attrs = (("axis", (0,)), ("keepdims", False))
        return self._add(name, (x.index,), attrs, infer(name, [x.aval], dict(attrs)))

    def accumulate(self, by: Accumulator, *vectors: Expression) -> tuple[Expression, ...]:
        """The numbers of an accumulator over the slice."""
        args = tuple(v.index for v in vectors)
        return tuple(
            self._add("accumulate", args, (("by", by), ("field", k)), ShapeDtype((), dtype))
            for k, dtype in enumerate(by.dtypes)
        )

    def graph(self, *outs: Expression) -> Graph:
        """The graph with these results, without what they do not need."""
        return Graph(tuple(self.nodes), tuple(o.index for o in outs)).pruned()


def _no_array(x: Any) -> Any:
    """NumPy's arrays of no dims, which `numpy.where` makes of numbers, as its numbers."""
    return x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x


def _kind(x: Any) -> Any:
    """What decides a dtype, as `numpy.ufunc.resolve_dtypes` takes it."""
    if isinstance(x, Expression):
        return x.dtype
    return type(x) if type(x) in (int, float, complex) else np.asarray(x).dtype


def _fits(value: int, dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "iu" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def _check_range(value: Any, dtype: str) -> None:
    """What NumPy says of Python's whole numbers that a dtype does not have."""
    if type(value) is int and not _fits(value, np.dtype(dtype)):
        raise OverflowError(f"Python integer {value} out of bounds for {dtype}: cast the element")


def _out_of_range(ufunc: Any, operands: Sequence[Any]) -> bool | None:
    """How elements compare with a number that their dtype does not have: all alike."""
    a, b = operands
    if type(b) is int and isinstance(a, Expression) and not _fits(b, a.dtype):
        return bool(ufunc(0, 1 if b > 0 else -1))
    if type(a) is int and isinstance(b, Expression) and not _fits(a, b.dtype):
        return bool(ufunc(1 if a > 0 else -1, 0))
    return None


def _weak(x: Any) -> Any:
    """What decides a dtype, as `numpy.result_type` takes it."""
    return x.dtype if isinstance(x, Expression) else x


def written(function: Callable[..., Any], kinds: Iterable[tuple[str, bool]]) -> tuple[Graph, bool]:
    """The graph of a function of expressions, and whether it returned a tuple.

    `kinds` has the dtype of each argument, and whether it is a vector.
    """
    builder = SliceBuilder()
    given = [builder.input(dtype, VECTOR if vector else ()) for dtype, vector in kinds]
    result = function(*given)
    return builder.graph(*expressions(builder, result)), isinstance(result, tuple)


def expressions(builder: SliceBuilder, result: Any) -> list[Expression]:
    """What a function of expressions returned, one or a tuple, as expressions."""
    found = []
    for y in map(_no_array, result if isinstance(result, tuple) else (result,)):
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
