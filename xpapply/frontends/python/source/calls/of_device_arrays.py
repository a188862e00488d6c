"""Whole arrays of CuPy's, of one axis: functions that are written in `xpapply.library.of_cupy`."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from .....errors import TraceError
from .....ir.typed import Array, Literal
from .....ir.typed.function import Value
from .....library import of_cupy
from .. import arrays, numbers, places, whole
from ..places import described
from ..values import FRESH, NUMPY, ON_DEVICE, PYTHON, Abstract, Arr, Inlined, Known, Num, Writes
from .arguments import bound
from .common import Call, exactly
from .of_numpy import dtype_of

_LETTERS = "biuf"


def plain(x: Num) -> Num:
    """A number as type rules take it: CuPy's as NumPy's."""
    return x._replace(kind=NUMPY) if x.kind in ON_DEVICE else x


def operand(t: Writes, x: Num, dtype: str) -> Value:
    """A number as an operand; a mark where one of Python's is none of the type."""
    found = numbers.operand(t, plain(x), dtype)
    if x.kind == PYTHON and dtype == "float32" and x.dtype == "float64":
        if not isinstance(found, Literal):  # of that the host would warn
            beyond = t.op("and", "bool", numbers.is_finite(t, x.value), is_infinite(t, found))
            t.mark(beyond, "a float is no float32")
    return found


def is_infinite(t: Writes, x: Value) -> Value:
    """Whether a float is infinite."""
    size = t.op("abs", str(x.type), x)
    return t.op("eq", "bool", size, Literal(math.inf, str(x.type)))


def _is_written(dtype: str) -> bool:
    return dtype != "float16" and numbers.kind_of(dtype) in _LETTERS


_OVER = {
    (1,): of_cupy.mapped, (1, 1): of_cupy.mapped_both, (1, 0): of_cupy.mapped_first,
    (0, 1): of_cupy.mapped_second, (2,): of_cupy.mapped_rows, (2, 2): of_cupy.mapped_rows_both,
    (2, 0): of_cupy.mapped_rows_first, (0, 2): of_cupy.mapped_rows_second,
}  # fmt: skip
"""Functions that loop over operands, by their numbers of axes."""


def elementwise(t: Writes, ufunc: Any, args: list[Any]) -> Inlined:
    """A ufunc of arrays and numbers, by NumPy's of the same name."""
    types = []
    for x in args:
        if isinstance(x, Arr) and x.type.ndim:
            types.append(np.dtype(x.type.dtype))
        elif isinstance(x, Num):
            types.append(numbers.as_type(plain(x)))
        else:
            raise t.refuse(f"{ufunc.__name__} of {described(x)} on a device")
    try:
        names = numbers.resolved(ufunc, *types)
    except TraceError as error:
        raise t.refuse(str(error)) from None
    if not all(map(_is_written, names)):
        raise t.refuse(f"{ufunc.__name__} of {names[0]} on a device")
    over = _OVER.get(tuple(x.type.ndim if isinstance(x, Arr) else 0 for x in args))
    if over is None:
        raise t.refuse(f"{ufunc.__name__} of so many arrays on a device")
    return Inlined(over, [Known(ufunc), *args, Known(np.dtype(names[-1]))], {})


def binary(t: Writes, op: str, a: Abstract, b: Abstract) -> Inlined:
    """An operator of arrays."""
    if op == "**" and isinstance(b, Num) and b.kind == PYTHON and isinstance(a, Arr):
        has_square = a.type.dtype != "bool"
        if has_square and b == Num("int64", PYTHON, Literal(2, "int64")):
            return elementwise(t, np.square, [a])
    if op not in whole._OPERATORS:
        raise t.refuse(f"{op} of arrays on a device")
    return elementwise(t, whole._OPERATORS[op], [a, b])


def inplace(t: Writes, op: str, a: Arr, b: Abstract) -> Inlined:
    """An operator that writes into an array that the function has made."""
    t.writes(a)
    if op not in whole._OPERATORS or a.type.ndim != 1 or not isinstance(b, (Arr, Num)):
        raise t.refuse(f"{op}= of an array on a device")
    ufunc, other = whole._OPERATORS[op], b.type if isinstance(b, Arr) else plain(b)
    kind = np.dtype(other.dtype) if isinstance(b, Arr) else numbers.as_type(plain(b))
    try:
        names = numbers.resolved(ufunc, np.dtype(a.type.dtype), kind)
    except TraceError as error:
        raise t.refuse(str(error)) from None
    if names[-1] != a.type.dtype or not all(map(_is_written, names)):
        raise t.refuse(f"{op}= of an array of {a.type.dtype} on a device")
    over = of_cupy.kept_both if isinstance(b, Arr) else of_cupy.kept
    return Inlined(over, [Known(ufunc), a, b], {})


def unary(t: Writes, op: str, a: Arr) -> Inlined:
    """``-a``, ``~a``."""
    if op == "+":
        raise t.refuse("+ of an array on a device")
    return elementwise(t, np.negative if op == "-" else np.invert, [a])


def item(t: Writes, x: Arr, index: Arr) -> Inlined:
    """``x[mask]``."""
    if index.type.dtype != "bool" or not x.type.ndim == index.type.ndim == 1:
        raise t.refuse("an index that is an array of CuPy's, and no mask")
    return Inlined(of_cupy.chosen, [x, index], {})


# --- functions of an array ----------------------------------------------------------------------

_SUM = {"b": "int64", "i": "int64", "u": "uint64"}
_WIDE = ("int64", "uint64")


def own_dtype(t: Writes, x: Any, letters: str = _LETTERS) -> str:
    """The type of the elements of an array of one axis, of kinds with these letters."""
    if not isinstance(x, Arr) or x.type.ndim != 1 or not _is_written(x.type.dtype):
        raise t.refuse(f"a function of {described(x)} on a device")
    if numbers.kind_of(x.type.dtype) not in letters:
        raise t.refuse(f"a function of {described(x)} on a device")
    return x.type.dtype


def _reduced(of_floats: Any, of_integers: Any = None, out: str = "", more: str = "") -> Call:
    """A reduction: its result's type is `out`, or that of the elements, or of their sum."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = bound(t, f"a>v:array axis:axis{more}", args, kwargs)
        own = own_dtype(t, given["v"])
        is_float = numbers.kind_of(own) == "f"
        written = of_floats if is_float else of_integers
        if written is of_cupy.mean_of_integers and own in _WIDE:
            written = of_cupy.mean_of_long_integers
        if written is None:
            raise t.refuse(f"a function of {described(given['v'])} on a device")
        dtype = own
        if out:
            dtype = out
        elif written is of_cupy.of_integers:
            dtype = _SUM[numbers.kind_of(own)]
        elif written in (of_cupy.mean_of_integers, of_cupy.mean_of_long_integers):
            dtype = "float64"
        return Inlined(written, [], given | {"dtype": Known(np.dtype(dtype))})

    return call


def _one(written: Any, letters: str = _LETTERS, more: str = " axis:axis") -> Call:
    """A function of an array alone."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = bound(t, f"a>v:array{more}", args, kwargs)
        own_dtype(t, given["v"], letters)
        return Inlined(written, [given["v"]], {})

    return call


def _where(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    exactly(t, args, kwargs, 3)
    condition, *chosen = args
    own_dtype(t, condition, "b")
    of_arrays = isinstance(chosen[0], Arr), isinstance(chosen[1], Arr)
    types = [
        np.dtype(own_dtype(t, x)) if isinstance(x, Arr) else numbers.as_type(plain(x))
        for x in chosen
        if isinstance(x, (Arr, Num))
    ]
    if len(types) < 2:
        raise t.refuse("cupy.where of such arguments")
    dtype = np.result_type(*(whole.AS_WEAK.get(k, k) for k in types))
    if not _is_written(dtype.name):
        raise t.refuse(f"cupy.where of {dtype}")
    written = {
        (False, False): of_cupy.either, (True, True): of_cupy.either_array,
        (True, False): of_cupy.first_array, (False, True): of_cupy.second_array,
    }[of_arrays]  # fmt: skip
    return Inlined(written, [*args, Known(dtype)], {})


def _astype(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    exactly(t, args, kwargs, 2)
    own_dtype(t, args[0])
    dtype = np.dtype(dtype_of(t, args[1], "float64"))
    return Inlined(of_cupy.in_dtype, [args[0], Known(dtype)], {})


# --- what these are written with ----------------------------------------------------------------


def _room(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    n, dtype = args
    count = places.as_index(t, n)
    found = arrays.new(t, dtype.value.name, [count], "empty")
    most = count.value if isinstance(count, Literal) else t.most.get(count, 0)
    return found._replace(most=most, is_packed=True)


def _rooms(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    *dims, dtype = args
    return arrays.new(t, dtype.value.name, [places.as_index(t, n) for n in dims], "empty")


def _zero_of(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    dtype = args[0].value
    zero = 0.0 if dtype.kind == "f" else False if dtype.kind == "b" else 0
    return Num(dtype.name, FRESH, Literal(zero, dtype.name))


def _as_number(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    x, dtype = arrays.loaded(t, args[0]), args[1].value
    assert isinstance(x, Num)
    kinds = numbers.kind_of(x.dtype), dtype.kind
    if not (x.dtype == dtype.name or kinds[1] == "f" or (kinds[0] in "biu" and kinds[1] in "iub")):
        raise t.refuse(f"numbers of {x.dtype} become {dtype} on a device")
    if kinds[1] == "b" and x.dtype != "bool":
        return Num("bool", FRESH, numbers.truth(t, plain(x)))
    if x.kind == PYTHON:  # it may be none of the type
        return Num(dtype.name, FRESH, operand(t, x, dtype.name))
    return Num(dtype.name, FRESH, numbers.cast(t, x.value, dtype.name))


_CUB = 1
"""CuPy's number of it."""


def _accelerators() -> set[int]:
    """CuPy's accelerators of sums, as its user has chosen."""
    found = sys.modules.get("cupy._core._accelerator")
    return {_CUB} if found is None else {*found.get_routine_accelerators()}


def _is_packed(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """Whether CuPy sums an array by CUB: where elements are contiguous."""
    (x,) = args
    chosen = _accelerators()
    if chosen - {_CUB}:
        raise t.refuse("a sum that another library than CUB may make for CuPy")
    if not chosen or x.is_packed:
        return Num("bool", PYTHON, Literal(bool(chosen), "bool"))
    size = Literal(np.dtype(x.type.dtype).itemsize, "int64")
    side_by_side = t.op("eq", "bool", t.op("stride", "int64", x.value, what=0), size)
    short = t.op("le", "bool", places.length(t, x), Literal(1, "int64"))
    return Num("bool", PYTHON, t.op("or", "bool", side_by_side, short))


def _are_short(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """Whether all slices are short, which is known where a kernel is made."""
    found: Value = Literal(True, "bool")
    for k, kind in enumerate(t.made.inputs):
        if isinstance(kind, Array) and not 0 < t.lengths.get(k, 0) <= of_cupy.SHORT:
            v = t.op("input", kind, what=k)
            for axis in range(kind.ndim):
                n = t.op("length", "int64", v, what=axis)
                within = t.op("le", "bool", n, Literal(of_cupy.SHORT, "int64"))
                found = t.op("and", "bool", found, within)
    return Num("bool", PYTHON, found)


def _is_short(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """Whether an array is as short, too."""
    (x,) = args
    found = _are_short(t, [], {})
    if 0 < x.most <= of_cupy.SHORT:
        return found
    within = t.op("le", "bool", places.length(t, x), Literal(of_cupy.SHORT, "int64"))
    return Num("bool", PYTHON, t.op("and", "bool", found.value, within))


def _bits_of_places(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """What is known beforehand: how many numbers a mask leaves is not."""
    (x,) = args
    return Num("int64", PYTHON, Literal(4 if 0 < x.most <= 16 else 5, "int64"))


PARTS: dict[Any, Call] = {
    of_cupy.bits_of_places: _bits_of_places,
    of_cupy.are_short: _are_short, of_cupy.is_short: _is_short,
    of_cupy.room: _room, of_cupy.rooms: _rooms, of_cupy.zero_of: _zero_of,
    of_cupy.as_number: _as_number, of_cupy.is_packed: _is_packed,
}  # fmt: skip
_C = of_cupy
METHODS: dict[str, Call] = {
    "sum": _reduced(_C.total, _C.of_integers), "mean": _reduced(_C.mean, _C.mean_of_integers),
    "var": _reduced(_C.variance, more=" ddof:int"), "std": _reduced(_C.deviation, more=" ddof:int"),
    "max": _reduced(_C.largest, _C.largest), "min": _reduced(_C.smallest, _C.smallest),
    "ptp": _reduced(_C.spread, _C.spread),
    "argmax": _reduced(_C.place_of_largest, _C.place_of_largest, "int64"),
    "argmin": _reduced(_C.place_of_smallest, _C.place_of_smallest, "int64"),
    "any": _reduced(_C.any_true, _C.any_true, "bool"),
    "all": _reduced(_C.all_true, _C.all_true, "bool"),
}  # fmt: skip
"""Functions that are methods too."""
FUNCTIONS: dict[str, Call] = METHODS | {
    "amax": METHODS["max"], "amin": METHODS["min"],
    "count_nonzero": _reduced(_C.count, _C.count, "int64"), "diff": _one(_C.differences, "iuf", ""),
    "sort": _one(_C.in_order, "iuf"), "median": _one(_C.median, "f"), "where": _where,
}  # fmt: skip
"""Rows by names in CuPy and NumPy."""
ALL_METHODS: dict[str, Call] = METHODS | {"astype": _astype}
