"""Writing graphs as NumPy computes: every value has the dtype that NumPy would give it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..functions.cache import remembered
from .builder import Builder, Value
from .graph import VECTOR
from .numpy_ufuncs import COMPARISONS, LOGICAL
from .ops import OPS, Kind
from .shapes import broadcast

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
"""NumPy's functions of truth values, for which the array API takes numbers only."""


class NumPyBuilder(Builder):
    """Builds a graph from NumPy's ufuncs, with the casts that they make."""

    def scalar(self, number: Any, dtype: str) -> Any:
        """A number, rounded to a dtype."""
        if type(number) is int and not _fits(number, np.dtype(dtype)):
            raise OverflowError(
                f"Python integer {number} out of bounds for {dtype}: cast the element"
            )
        with np.errstate(over="ignore"):
            return super().scalar(np.asarray(number).astype(dtype), dtype)

    def cast(self, x: Value, dtype: str) -> Any:
        if x.aval.dtype == dtype:
            return x
        if np.dtype(x.aval.dtype).kind == "c" and np.dtype(dtype).kind != "c":
            raise TraceError(
                f"{x.aval.dtype} cannot become {dtype} without losing its imaginary part"
            )
        return self.node("cast", x, dtype=dtype)

    def operand(self, x: Any, dtype: Any) -> Any:
        """A value, number or array in a dtype."""
        name = np.dtype(dtype).name
        if isinstance(x, Value):
            return self.cast(x, name)
        if np.ndim(x):
            return self.const(np.ascontiguousarray(np.asarray(x).astype(dtype)))
        return self.scalar(x, name)

    def op(self, name: str, *operands: Any, **attrs: Any) -> Any:
        """An op of the table; elementwise ones cast their operands."""
        if name == "where":
            return self.where(*operands)
        ufunc = getattr(np, name, None) if OPS[name].kind is Kind.ELEMENTWISE else None
        if isinstance(ufunc, np.ufunc):
            return self.ufunc(ufunc, *operands)
        return super().op(name, *operands, **attrs)

    def where(self, condition: Any, *either: Any) -> Any:
        """`numpy.where` of numbers of any dtypes."""
        rest = tuple(map(no_array, either))
        dtype = np.result_type(*map(weak, rest))
        condition = self.operand(no_array(condition), bool)
        return self.node("where", condition, *(self.operand(x, dtype) for x in rest))

    def ufunc(self, ufunc: np.ufunc, *operands: Any) -> Any:
        """A ufunc of NumPy, with the dtypes that it would choose."""
        operands = tuple(map(no_array, operands))
        kinds = tuple(map(dtype_or_type, operands))
        if ufunc in LOGICAL:
            if any(kind not in (np.dtype(bool), bool) for kind in kinds):
                raise TraceError(f"numpy.{ufunc.__name__} of numbers: it takes truths (x > 0)")
            ufunc = LOGICAL[ufunc]
        name, define = self.op_of(ufunc)
        if ufunc in COMPARISONS and (truth := _out_of_range(ufunc, operands)) is not None:
            return self._everywhere(truth, operands)
        try:
            loop = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
        except TypeError as error:
            raise TraceError(f"numpy.{ufunc.__name__}: {error}") from None
        wanted = loop[: ufunc.nin]
        if ufunc.__name__.startswith("logical"):
            wanted = (np.dtype(bool),) * ufunc.nin
        given = [
            x if k is d and isinstance(x, Value) else self.operand(x, d)
            for x, k, d in zip(operands, kinds, wanted, strict=True)
        ]
        if define is not None:
            return define(*given)
        if OPS[name].kind is Kind.COMPOSITE:
            return self.op(name, *given)
        if loop[0].kind == "b" and name in _OF_TRUTHS:
            return _OF_TRUTHS[name](*given)
        if OPS[name].int_c == "{0}" and loop[0].kind != "f":
            return given[0]
        if name == "isfinite" and loop[0].kind not in "fc":
            return self.ufunc(np.equal, given[0], given[0])
        if loop[0].kind == "c" and not OPS[name].complex:
            raise TraceError(f"numpy.{ufunc.__name__} of {loop[0]}: complex numbers have none")
        if ufunc is np.power and type(operands[1]) in (int, float):
            found = self._power(given[0], operands[1])
            if found is not None:
                return found
        if name == "pow" and loop[0].kind in "iu":
            raise TraceError("whole numbers to a power: make one of them a float")
        return self.node(name, *given)

    def _power(self, x: Value, exponent: float) -> Any:
        """NumPy's substitute for some powers; None: a power."""
        if exponent == 1:
            return x
        if exponent == 2:
            return self.node("multiply", x, x)
        if x.dtype.kind == "f" and x.dtype.itemsize > 2:
            if exponent == 0.5 and _takes_roots():
                return self.node("sqrt", x)
            if exponent == -1:
                return self.op("divide", 1.0, x)
        return None

    def _everywhere(self, truth: bool, operands: Sequence[Any]) -> Any:
        shape = broadcast(*(x.aval.shape for x in operands if isinstance(x, Value)))
        found = self.scalar(truth, "bool")
        known = shape not in ((), VECTOR)
        return self.node("broadcast_to", found, shape=shape) if known else found


@remembered(1)
def _takes_roots() -> bool:
    """Whether powers of 1/2 are roots, as in newer NumPy: NaN of -inf, not inf."""
    with np.errstate(invalid="ignore"):
        return bool(np.isnan(np.power(np.full(1, -np.inf), 0.5)[0]))


def no_array(x: Any) -> Any:
    """NumPy's arrays of no dims, which `numpy.where` makes of numbers, as its numbers."""
    return x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x


def dtype_or_type(x: Any) -> Any:
    """The argument of `numpy.ufunc.resolve_dtypes` for an operand."""
    if isinstance(x, Value):
        return x.dtype
    return type(x) if type(x) in (int, float, complex) else np.asarray(x).dtype


def weak(x: Any) -> Any:
    """The argument of `numpy.result_type` for an operand."""
    return x.dtype if isinstance(x, Value) else x


def _fits(value: int, dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "iu" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def _out_of_range(ufunc: Any, operands: Sequence[Any]) -> bool | None:
    """The comparison with a number outside of the dtype, which is the same for all elements."""
    a, b = operands
    if type(b) is int and isinstance(a, Value) and not _fits(b, a.dtype):
        return bool(ufunc(0, 1 if b > 0 else -1))
    if type(a) is int and isinstance(b, Value) and not _fits(a, b.dtype):
        return bool(ufunc(1 if a > 0 else -1, 0))
    return None
