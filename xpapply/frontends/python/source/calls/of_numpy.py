"""NumPy's ufuncs, its numbers and what makes arrays, for the compiler."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import NOTED, PARTS, Value, name_of
from .....library import of_lists, of_making
from .. import arrays, numbers, places, whole
from ..kinds import halves
from ..values import (
    EITHER,
    NO_AXES,
    NUMPY,
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Inner,
    Known,
    Lst,
    Num,
    Rows,
    Span,
    Starred,
    Tup,
    Writes,
    integer,
)
from .common import Call, exactly, number
from .of_math import asked, is_inf


def _operator(op: str, ufunc: Any) -> Call:
    """A ufunc that an operator stands for."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 2)
        if whole.is_array(*args):
            return whole.elementwise(t, ufunc, args)
        a, b = (number(t, x) for x in args)
        if not {a.dtype, b.dtype}.isdisjoint(PARTS):
            return ufunc_of(ufunc)(t, args, kwargs)
        if a.kind != NUMPY and b.kind != NUMPY:  # Python's numbers are NumPy's here
            a, b = a._replace(kind=NUMPY), b._replace(kind=NUMPY)
        return (numbers.compare if op in _COMPARISONS else numbers.binary)(t, op, a, b)

    return call


def _turned(factor: float) -> Call:
    """``np.deg2rad`` and such, of float64."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        own = Num("float64", NUMPY, Literal(factor, "float64"))
        if whole.is_array(args[0]):
            if args[0].type.dtype != "float64":
                raise t.refuse("angles that are no float64")
            return whole.elementwise(t, np.multiply, [args[0], own])
        x = number(t, args[0])
        if x.dtype not in ("float64", "int64"):
            raise t.refuse("an angle that is no float64")
        return numbers.binary(t, "*", x._replace(kind=NUMPY), own)

    return call


_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def ufunc_of(ufunc: Any) -> Call:
    """A ufunc of numbers: NumPy's own loop, for one of them."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, ufunc.nin)
        if whole.is_array(*args):
            return whole.elementwise(t, ufunc, args)
        given = [number(t, x) for x in args]
        types = _loop(t, ufunc, given)
        if ufunc is np.power and numbers.kind_of(types[0]) not in "fc":  # whose loop may raise
            values = [numbers.operand(t, x, types[0]) for x in given]
            return numbers.binary(t, "**", *(Num(types[0], NUMPY, x) for x in values))
        values = [numbers.operand(t, x, dtype) for x, dtype in zip(given, types, strict=False)]
        if ufunc is np.square and types[0] in PARTS:
            # its loop rounds once where it adds products, or twice, and not always the same way
            raise t.refuse("numpy.square of a complex number, whose last bit NumPy leaves open")
        called = name_of(ufunc)
        own = _NATIVE.get(called)
        if ufunc in (np.maximum, np.minimum) and not _second_of_zeros():
            own = None
        if types[0] == halves.HALF:
            own = None
        if own is not None and numbers.kind_of(types[0]) == "f":
            return Num(types[-1], NUMPY, own(t, types[0], *values))
        name = "ufunc", called, *types
        return Num(types[-1], NUMPY, t.op("ufunc", types[-1], *values, what=t.external(*name)))

    return call


def _loop(t: Writes, ufunc: Any, given: list[Num]) -> tuple[str, ...]:
    """The dtypes of a ufunc's loop."""
    if all(x.kind == PYTHON for x in given):  # none is weak then
        several = {numbers.resolved(ufunc, *[np.dtype(x.dtype) for x in given])}
    else:
        kinds = [(PYTHON, NUMPY) if x.kind == EITHER else (x.kind,) for x in given]
        several = set()
        for chosen in itertools.product(*kinds):
            those = [x._replace(kind=k) for x, k in zip(given, chosen, strict=True)]
            weak = {*chosen} != {PYTHON}
            types = [numbers.as_type(x) if weak else np.dtype(x.dtype) for x in those]
            several.add(numbers.resolved(ufunc, *types))
    if len(several) > 1:
        raise t.refuse("a number that is Python's or NumPy's, as it comes")
    (found,) = several
    if not {*found} <= numbers.DTYPES:
        raise t.refuse(f"numpy.{ufunc.__name__} of {', '.join(found)}")
    return found


@functools.cache
def _second_of_zeros() -> bool:
    """Whether NumPy's maximum and minimum of two zeros is the second, as on x86."""
    zeros = np.array([0.0, -0.0])
    return all(
        np.signbit(f(a, b)) == np.signbit(b)
        for f in (np.maximum, np.minimum)
        for a in zeros
        for b in zeros
    )


def _maximum(op: str) -> Callable[..., Value]:
    def native(t: Writes, dtype: str, a: Value, b: Value) -> Value:
        first = t.op("or", "bool", t.op(op, "bool", a, b), t.op("ne", "bool", a, a))
        return t.op("select", dtype, first, a, b)

    return native


def _sign(t: Writes, dtype: str, x: Value) -> Value:
    zero = Literal(0.0, dtype)
    below = t.op("select", dtype, t.op("lt", "bool", x, zero), Literal(-1.0, dtype), x)
    found = t.op("select", dtype, t.op("gt", "bool", x, zero), Literal(1.0, dtype), below)
    return t.op("select", dtype, t.op("eq", "bool", x, zero), zero, found)


_NATIVE: dict[str, Callable[..., Value]] = {
    "absolute": lambda t, d, x: t.op("abs", d, x),
    "fabs": lambda t, d, x: t.op("abs", d, x),
    "ceil": lambda t, d, x: t.op("ceil", d, x),
    "floor": lambda t, d, x: t.op("floor", d, x),
    "rint": lambda t, d, x: t.op("rint", d, x),
    "trunc": lambda t, d, x: t.op("trunc", d, x),
    "sqrt": lambda t, d, x: t.op("sqrt", d, x, what=NOTED),
    "square": lambda t, d, x: t.op("mul", d, x, x, what=NOTED),
    "negative": lambda t, d, x: t.op("neg", d, x),
    "copysign": lambda t, d, x, y: t.op("copysign", d, x, y),
    "maximum": _maximum("gt"),
    "minimum": _maximum("lt"),
    "sign": _sign,
}
"""Ufuncs of floats that are a few instructions."""


def _made(how: str, value: Any = None) -> Call:
    """``numpy.zeros`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
        names = ["shape", "fill_value", "dtype"] if how == "full" else ["shape", "dtype"]
        given = dict(zip(names, args, strict=False)) | kwargs
        if not {*given} <= {*names} or len(args) > len(names) or "shape" not in given:
            raise t.refuse(f"numpy.{how} with further arguments")
        filler = given.get("fill_value", value)
        dtype = dtype_of(t, given.get("dtype"), "float64")
        if how == "full" and "dtype" not in given:
            dtype = number(t, filler).dtype
        shape = given["shape"]
        dims = shape.items if isinstance(shape, Tup) else (shape,)
        if isinstance(shape, (Lst, Arr)) or not 1 <= len(dims) <= 2:
            raise t.refuse("an array of more than two axes")
        return _filled(t, dtype, [places.as_index(t, n) for n in dims], filler)

    return call


def _made_like(value: Any = None) -> Call:
    """``numpy.zeros_like`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
        names = ["a", "fill_value", "dtype"] if value == "full" else ["a", "dtype"]
        given = dict(zip(names, args, strict=False)) | kwargs
        like = given.get("a")
        if not {*given} <= {*names} or len(args) > len(names) or not isinstance(like, Arr):
            raise t.refuse("an array like another one, with further arguments")
        dtype = dtype_of(t, given.get("dtype"), like.type.dtype)
        dims = [places.length(t, like, k) for k in range(like.type.ndim)]
        return _filled(t, dtype, dims, given.get("fill_value", None if value == "full" else value))

    return call


def _filled(t: Writes, dtype: str, dims: list[Value], value: Any) -> Arr:
    if isinstance(value, int):
        value = integer(value)
    is_zero = isinstance(value, Num) and value.value == Literal(0, "int64")
    made = arrays.new(t, dtype, dims, "zeros" if is_zero else "empty")
    if value is not None and not is_zero:
        t.do("fill", made.value, numbers.stored(t, number(t, value), dtype))
    return made


def dtype_of(t: Writes, x: Abstract | None, default: str) -> str:
    """The name of a dtype that is said."""
    if x is None or (isinstance(x, Known) and x.value is None):
        return default
    try:
        found = np.dtype(x.value) if isinstance(x, Known) else None
    except TypeError:
        found = None
    if found is None or found.name not in numbers.DTYPES or not found.isnative:
        raise t.refuse("a dtype that is not compiled")
    return found.name


def _as_dtype(dtype: str) -> Call:
    """``numpy.float32(x)`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, 0, 1)
        x = number(t, args[0]) if args else integer(0)
        return Num(dtype, NUMPY, numbers.as_numpy(t, x, dtype))

    return call


def array(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.array`` of numbers: a new array of one axis, or of two of lists of lists."""
    given = dict(zip(["object", "dtype"], args, strict=False)) | kwargs
    given = {"object" if k == "a" else k: x for k, x in given.items()}
    x = given.get("object")
    if not {*given} <= {"object", "dtype"} or len(args) > 2:
        raise t.refuse("numpy.array with further arguments")
    if isinstance(x, Arr):
        dtype, own = dtype_of(t, given.get("dtype"), x.type.dtype), x.type.dtype
        if dtype == own:
            return arrays.copied(t, x)
        if x.type.ndim != 1 or numbers.kind_of(own) == "c" or own == halves.HALF:
            raise t.refuse(f"numpy.array of {places.described(x)} as {dtype}")
        return Inlined(of_making.as_type, [x, Known(np.dtype(dtype))], {})
    if isinstance(x, Lst) and not x.dtype:  # a loop that has not been gone through
        return arrays.new(t, dtype_of(t, given.get("dtype"), "float64"), [places.ZERO], "empty")
    if isinstance(x, Lst) and isinstance(x.dtype, Inner):
        own = x.dtype.dtype
        if not own or isinstance(own, Inner) or dtype_of(t, given.get("dtype"), own) != own:
            raise t.refuse(f"numpy.array of {places.described(x)} of lists")
        return Inlined(of_lists.as_table, [x, Known(np.dtype(own))], {})
    if isinstance(x, Lst):
        dtype = dtype_of(t, given.get("dtype"), x.dtype)
        if dtype != x.dtype:
            return Inlined(of_lists.as_array, [x, Known(np.dtype(dtype))], {})
        count = places.length(t, x)
        if dtype != "float64" and "dtype" not in given:  # of nothing NumPy makes an array of floats
            none = t.op("eq", "bool", count, places.ZERO)
            t.mark(none, "an empty list becomes an array")
        made = arrays.new(t, dtype, [count], "empty")
        t.do("copy list", made.value, x.value)
        return made
    if isinstance(x, Rows) and x.number:
        dtype = next(c for c, p in PARTS.items() if p == x.columns[0].dtype)
        if dtype_of(t, given.get("dtype"), dtype) != dtype:
            raise t.refuse("an array of another dtype than that of its list")
        made = arrays.new(t, dtype, [places.length(t, x)], "empty")
        for column, name in zip(x.columns, ("real", "imag"), strict=True):
            t.do("copy list", arrays.part_of_all(t, made, name).value, column.value)
        return made
    if isinstance(x, Starred):
        return _with_starred(t, x, given.get("dtype"))
    if isinstance(x, Tup) and x.items and all(isinstance(y, Num) for y in x.items):
        named = np.result_type(*{np.dtype(y.dtype) for y in x.items}).name
        dtype = dtype_of(t, given.get("dtype"), named)
        made = arrays.new(t, dtype, [Literal(len(x.items), "int64")], "empty")
        for k, y in enumerate(x.items):
            t.do("set element", made.value, Literal(k, "int64"), numbers.stored(t, y, dtype))
        return made
    if isinstance(x, Tup) and x.items and all(isinstance(y, (Lst, Tup)) for y in x.items):
        return _table(t, [array(t, [y], {}) for y in x.items], given.get("dtype"))
    raise t.refuse(f"numpy.array of {places.described(x)}")


def in_a_row(t: Writes, items: tuple[Any, ...]) -> Arr:
    """``np.r_[a, 0, b]``, of dtypes of which it makes no difference that numbers are Python's."""
    found: list[Abstract] = []
    for x in items:
        x = arrays.loaded(t, x)
        of = x.type.dtype if isinstance(x, Arr) and x.type.ndim == 1 else getattr(x, "dtype", "")
        if not isinstance(x, (Arr, Num)) or of not in ("float64", "int64", "bool"):
            raise t.refuse(f"numpy.r_ of {places.described(x)}")
        found.append(Starred((x,)) if isinstance(x, Arr) else x)
    if not any(isinstance(x, Starred) for x in found):
        raise t.refuse("numpy.r_ of numbers")
    made = displayed(t, tuple(found), Tup)
    return array(t, [made], {})  # type: ignore[return-value]


def displayed(t: Writes, items: tuple[Any, ...], made: Callable[[Any], Any]) -> Any:
    """Make a container of items; starred ones are spread, or copied from arrays."""
    if not any(isinstance(x, Starred) for x in items):
        return made(items)
    found: list[Abstract] = []
    for x in items:
        one = x.items[0] if isinstance(x, Starred) else x
        if isinstance(x, Starred) and isinstance(one, Tup):
            found += one.items
        elif isinstance(one, Num):
            if isinstance(x, Starred):
                raise t.refuse("a number with *")
            found.append(one)
        elif isinstance(x, Starred) and isinstance(one, Arr) and one.type.ndim == 1:
            found.append(arrays.copied(t, one))
        else:
            raise t.refuse(
                f"{places.described(one)} {'with' if isinstance(x, Starred) else 'beside'} *"
            )
    is_spread = all(isinstance(x, Num) for x in found)
    return made(tuple(found)) if is_spread else Starred(tuple(found))


def _with_starred(t: Writes, x: Starred, dtype: Any) -> Arr:
    """An array of numbers and of what starred arrays hold."""
    kinds = {y.type.dtype if isinstance(y, Arr) else y.dtype for y in x.items}
    named = np.result_type(*map(np.dtype, kinds)).name
    count: Value = places.ZERO
    for y in x.items:
        n: Value = places.length(t, y) if isinstance(y, Arr) else places.ONE
        if kinds != {"float64"} and isinstance(y, Arr):  # of nothing the dtype does not count
            t.mark(t.op("eq", "bool", n, places.ZERO), "a starred array is empty")
        count = t.op("add", "int64", count, n)
    named = dtype_of(t, dtype, named)
    made = arrays.new(t, named, [count], "empty")
    at: Value = places.ZERO
    for y in x.items:
        if isinstance(y, Num):
            t.do("set element", made.value, at, numbers.stored(t, y, named))
            at = t.op("add", "int64", at, places.ONE)
            continue
        far = t.op("add", "int64", at, places.length(t, y))
        span = Span(Num("int64", PYTHON, at), Num("int64", PYTHON, far), Known(None))
        arrays.set_item(t, made, span, whole.as_type(t, y, named))
        at = far
    return made


def _table(t: Writes, rows: list[Any], named: Any) -> Arr:
    """An array of rows, which are lists of several types."""
    if any(not isinstance(y, Arr) or y.type.ndim != 1 for y in rows):
        raise t.refuse("numpy.array of lists of several types")
    dtype = dtype_of(t, named, np.result_type(*{np.dtype(y.type.dtype) for y in rows}).name)
    counts = [places.length(t, y) for y in rows]
    made = arrays.new(t, dtype, [Literal(len(rows), "int64"), counts[0]], "empty")
    for k, (y, count) in enumerate(zip(rows, counts, strict=True)):
        t.mark(t.op("ne", "bool", count, counts[0]), "rows of different lengths")
        row = y if y.type.dtype == dtype else whole.as_type(t, y, dtype)
        arrays.set_item(t, made, integer(k), row)
    return made


def _as_array(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.asarray``: of an array of that dtype itself."""
    if args and isinstance(args[0], Arr) and len(args) < 3 and kwargs.keys() <= {"dtype"}:
        said = args[1] if len(args) == 2 else kwargs.get("dtype")
        if dtype_of(t, said, args[0].type.dtype) == args[0].type.dtype:
            return args[0]
    return array(t, args, kwargs)


def where(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """``numpy.where`` of numbers."""
    exactly(t, args, kwargs, 3)
    condition, a, b = (number(t, x) for x in args)
    if any(x.kind == EITHER for x in (a, b)) and a.dtype != b.dtype:
        raise t.refuse("numpy.where of numbers of several types")
    weak = NUMPY in (a.kind, b.kind)
    kinds = [_WEAK[x.dtype] if weak and x.kind == PYTHON else np.dtype(x.dtype) for x in (a, b)]
    dtype = np.result_type(*kinds).name
    if dtype not in numbers.DTYPES:
        raise t.refuse(f"numpy.where of {a.dtype} and {b.dtype}")
    x, y = (numbers.operand(t, z, dtype) for z in (a, b))
    return Num(dtype, NO_AXES, t.op("select", dtype, numbers.truth(t, condition), x, y))


_WEAK: dict[str, Any] = {"bool": False, "int64": 0, "float64": 0.0, "complex128": 0j}
"""Stand-ins of Python numbers in type resolution."""


def _dtype(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Known:
    """``numpy.dtype(...)``."""
    exactly(t, args, kwargs, 1)
    return Known(np.dtype(dtype_of(t, args[0], "float64")))


ROWS: dict[Any, Call] = {
    np.dtype: _dtype,
    np.isnan: asked(numbers.is_nan, NUMPY, np.isnan),
    np.isinf: asked(is_inf, NUMPY, np.isinf),
    np.isfinite: asked(numbers.is_finite, NUMPY, np.isfinite),
    np.zeros: _made("zeros", 0), np.empty: _made("empty"), np.ones: _made("ones", 1),
    np.full: _made("full"), np.zeros_like: _made_like(0), np.empty_like: _made_like(),
    np.ones_like: _made_like(1), np.full_like: _made_like("full"),
    np.array: array, np.asarray: _as_array,
}  # fmt: skip
"""A row each."""
ROWS |= {getattr(np, d if d != "bool" else "bool_"): _as_dtype(d) for d in numbers.DTYPES}
_UFUNCS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh cbrt absolute fabs ceil floor rint trunc sqrt square negative "
    "sign copysign maximum minimum hypot arctan2 power float_power logaddexp fmod conjugate "
    "reciprocal nextafter"
).split()
ROWS |= {getattr(np, name): ufunc_of(getattr(np, name)) for name in _UFUNCS}
_OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
ROWS |= {getattr(np, n): _operator(op, getattr(np, n)) for n, op in _OPERATORS.items()}
ROWS |= {
    np.deg2rad: _turned(np.pi / 180.0), np.radians: _turned(np.pi / 180.0),
    np.rad2deg: _turned(180.0 / np.pi), np.degrees: _turned(180.0 / np.pi),
}  # fmt: skip
