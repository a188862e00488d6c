"""Operations of whole arrays: NumPy's own inner loops, called where the function makes them.

So results have NumPy's bits, and what it would warn of is noted as it does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.typed import Array, Literal
from ....ir.typed.function import PARTS, Value, name_of, ufunc_named
from ....limits import LIMITS
from . import numbers
from .kinds import halves
from .values import (
    NO_AXES,
    NUMPY,
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Num,
    Writes,
)

_MEMORY = "its arrays need much memory"
_ALONE = 8192
"""Elements of a matrix, up to which BLAS uses one thread."""
_BUFFERED = 8192
"""Elements from which NumPy converts an array part by part."""


def is_array(*args: Abstract) -> bool:
    """Whether some argument is an array."""
    return any(isinstance(x, Arr) for x in args)


def elementwise(t: Writes, ufunc: Any, args: Sequence[Abstract]) -> Arr:
    """A ufunc of arrays and numbers."""
    types = []
    for x in args:
        if isinstance(x, Arr):
            types.append(np.dtype(x.type.dtype))
        elif isinstance(x, Num):
            types.append(weak(t, x))
        else:
            raise t.refuse(f"numpy.{ufunc.__name__} of an array and something else")
    names = numbers.resolved(ufunc, *types)
    whole_power = ufunc is np.power and numbers.kind_of(names[0]) != "f"  # which may raise
    if not {*names} <= numbers.DTYPES or whole_power:
        raise t.refuse(f"numpy.{ufunc.__name__} of {names}")
    values: list[Value] = []
    for x, dtype in zip(args, names, strict=False):
        if isinstance(x, Arr):
            values.append(as_type(t, x, dtype).value)
        else:
            values.append(numbers.operand(t, x, dtype))
    kind = Array(names[-1], max(x.type.ndim for x in args if isinstance(x, Arr)))
    if ufunc in (np.floor_divide, np.remainder) and numbers.kind_of(names[-1]) in "iub":
        _no_zero(t, args[1], values[1])
    what = (
        t.external("ufunc", name_of(ufunc), *names),
        t.mark_number("arrays of other lengths"),
        t.mark_number(_MEMORY),
    )
    return Arr(kind, True, t.op("map", kind, *values, what=what))


def _no_zero(t: Writes, x: Abstract, value: Value) -> None:
    """NumPy notes a division of integers by zero in a way of its own: so it is a mark.

    By -1 too, which may overflow.
    """
    if isinstance(x, Arr):
        raise t.refuse("integers are divided by those of an array")
    signed = numbers.kind_of(str(value.type)) == "i"
    for odd in (0, -1) if signed else (0,):
        if not isinstance(value, Literal) or value.value == odd:
            why = f"an array is divided by {odd}"
            t.mark(t.op("eq", "bool", value, Literal(odd, str(value.type))), why)


def weak(t: Writes, x: Num) -> Any:
    """The dtype or Python type of a number beside an array."""
    if x.kind in (NUMPY, NO_AXES):
        return np.dtype(x.dtype)
    if x.kind == PYTHON or x.dtype == "bool":
        return numbers.as_type(x._replace(kind=PYTHON))
    raise t.refuse("an array and a number that is Python's or NumPy's, as it comes")


def as_type(t: Writes, x: Arr, dtype: str) -> Arr:
    """An array in another dtype that has all its numbers."""
    if x.type.dtype == dtype:
        return x
    if not np.can_cast(x.type.dtype, dtype, "same_kind") or (
        numbers.kind_of(dtype) in "iub" and (not np.can_cast(x.type.dtype, dtype, "safe"))
    ):
        raise t.refuse(f"an array of {x.type.dtype} becomes one of {dtype}")
    kind = Array(dtype, x.type.ndim)
    return Arr(kind, True, t.op("as type", kind, x.value, what=t.mark_number(_MEMORY)))


_OPERATORS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide,
    "%": np.remainder, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<<": np.left_shift, ">>": np.right_shift, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def binary(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract | Inlined:
    """An operator of arrays."""
    if op == "**":
        return _power(t, a, b)
    if op == "@" and isinstance(a, Arr) and isinstance(b, Arr) and a.type == b.type:
        is_float = numbers.kind_of(a.type.dtype) == "f" and a.type.dtype != halves.HALF
        if a.type.ndim == 1 and is_float:
            unlike = t.op("ne", "bool", *(t.op("length", "int64", x.value, what=0) for x in (a, b)))
            t.mark(unlike, "arrays of different lengths")
            return dot(t, a, b, quiet=False)
    if op == "@" and isinstance(a, Arr) and isinstance(b, Arr):
        return by_matrix(t, a, b)
    if op not in _OPERATORS:
        raise t.refuse(f"{op} of arrays")
    return elementwise(t, _OPERATORS[op], (a, b))


def _power(t: Writes, a: Abstract, b: Abstract) -> Arr:
    """A power: of floats NumPy squares, and takes roots, where a number as exponent says so."""
    if isinstance(a, Arr) and isinstance(b, Num) and numbers.kind_of(a.type.dtype) == "f":
        if b.kind == PYTHON or not _numbers_of_numpy_are_plain():
            if isinstance(b.value, Literal) and b.value.value in _EXPONENTS:
                return elementwise(t, _EXPONENTS[b.value.value], (a,))
            if numbers.kind_of(b.dtype) == "f":
                half = t.op("eq", "bool", b.value, Literal(0.5, b.dtype))
                t.mark(half, "a root, by an exponent that is computed")
    elif isinstance(a, Arr) and isinstance(b, Num) and b.value == Literal(2, "int64"):
        return elementwise(t, np.multiply, (a, a))
    return elementwise(t, np.power, (a, b))


_EXPONENTS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


@functools.cache
def _numbers_of_numpy_are_plain() -> bool:
    """Whether NumPy's quick powers are for exponents of Python alone, as since NumPy 2.3."""
    return (np.ones(1, np.float32) ** np.float64(0.5)).dtype == np.float64


def unary(t: Writes, op: str, a: Arr) -> Arr:
    """``-a``, ``~a``."""
    if op == "+":
        return elementwise(t, np.positive, (a,))
    return elementwise(t, np.negative if op == "-" else np.invert, (a,))


AS_WEAK: dict[Any, Any] = {int: 0, float: 0.0}
"""A number in the place of a type of Python's."""


CLIP: Any = ufunc_named("clip")
"""The ufunc that ``numpy.clip`` calls."""


def dot(t: Writes, a: Arr, b: Arr, *, quiet: bool) -> Num:
    """The dot product of two arrays of one length; `quiet`: without notes."""
    dtype = a.type.dtype
    name = t.external("ufunc", "vecdot", dtype, dtype, dtype)
    return Num(dtype, NUMPY, t.op("dot", dtype, a.value, b.value, what=(name, quiet)))


def by_matrix(t: Writes, a: Arr, b: Arr) -> Inlined:
    """The product of a small matrix with a vector, as BLAS adds it up."""
    from ....library.solvers import of_products  # which few functions need

    if (a.type, b.type) != (Array("float64", 2), Array("float64", 1)):
        raise t.refuse("@ of arrays")
    rows, n, other = (
        t.op("length", "int64", x.value, what=axis) for x, axis in ((a, 0), (a, 1), (b, 0))
    )
    t.mark(t.op("ne", "bool", n, other), "arrays of different lengths")
    size = t.op("mul", "int64", rows, n)
    t.mark(t.op("gt", "bool", size, Literal(_ALONE, "int64")), "a product of a large matrix")
    if not of_products.are_known():
        t.rounds(LIMITS.typed_rounding)
    return Inlined(of_products.times, [a, b], {})


# --- reductions ---------------------------------------------------------------------------------


@functools.cache
def _begins_with(kind: type) -> Any:
    """The initial value of NumPy's sums of a kind: a zero whose sign matters."""
    least = complex(-0.0, -0.0) if kind is complex else kind(-0.0)
    return kind(np.add.reduce(np.array([least])))


def reduced(t: Writes, ufunc: Any, x: Arr, dtype: str = "") -> Num:
    """All numbers of an array of one axis as one; a mark where there are none."""
    if x.type.ndim != 1:
        raise t.refuse("an array of two axes is added up")
    n = t.op("length", "int64", x.value, what=0)
    own = x.type.dtype
    if ufunc in (np.add, np.multiply) and not dtype:
        dtype = {"i": "int64", "b": "int64", "u": "uint64"}.get(numbers.kind_of(own), own)
    dtype = dtype or own
    if dtype != own:
        t.mark(t.op("gt", "bool", n, Literal(_BUFFERED, "int64")), "a long array is converted")
        x = as_type(t, x, dtype)
    begins: Value | None = None
    if ufunc is np.add:
        zero = complex if dtype in PARTS else float if numbers.kind_of(dtype) == "f" else int
        begins = Literal(_begins_with(zero), dtype)
    else:
        t.mark(t.op("eq", "bool", n, Literal(0, "int64")), "an empty array is reduced")
    out = "bool" if ufunc in (np.logical_or, np.logical_and) else dtype
    name = t.external("ufunc", ufunc.__name__, dtype, dtype, dtype)
    del out
    args = (x.value,) if begins is None else (x.value, begins)
    return Num(dtype, NUMPY, t.op("reduce", dtype, *args, what=name))
