"""Functions of libraries and of Python's own that are compiled: a row each."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.typed import Array, Literal
from ....ir.typed.function import NOTED, Value
from ....library import of_numpy, of_python
from . import arrays, numbers, whole
from .values import (
    EITHER,
    NO_AXES,
    NUMPY,
    PYTHON,
    Abstract,
    Arr,
    Counted,
    Inlined,
    Known,
    Leaves,
    Lst,
    Num,
    Once,
    Range,
    Span,
    Through,
    Tup,
    Writes,
    Zipped,
    integer,
)

LIBRARY = of_python.__name__.rpartition(".")[0]
"""Where functions of libraries are written in Python, for the compiler."""

Call = Callable[..., Any]


def find(f: Any) -> Call | None:
    """What writes a call of `f`: a function of ours, or one that stands for it; None: nothing."""
    try:
        return _table().get(f)
    except TypeError:  # not hashable
        return None


def _number(t: Writes, x: Abstract) -> Num:
    if not isinstance(x, Num):
        raise t.refuse(f"{arrays.described(x)} where a number has to be")
    return numbers.scalar(x)


def _exactly(t: Writes, args: list[Any], kwargs: dict[str, Any], *counts: int) -> None:
    if kwargs or len(args) not in counts:
        raise t.refuse("a call with further arguments")


# --- Python's own -----------------------------------------------------------------------------


def _len(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1)
    return Num("int64", PYTHON, arrays.length(t, args[0]))


def _abs(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    _exactly(t, args, kwargs, 1)
    if whole.is_array(*args):
        return whole.elementwise(t, np.absolute, args)
    return numbers.absolute(t, _number(t, args[0]))


def _range(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Range:
    _exactly(t, args, kwargs, 1, 2, 3)
    given = [_python_int(t, x) for x in args]
    if len(given) == 1:
        given = [integer(0), *given]
    if len(given) == 2:
        given.append(integer(1))
    step = given[2].value
    if not isinstance(step, Literal):
        t.mark(t.op("eq", "bool", step, arrays.ZERO), "a range with step 0")
    return Range(*given)


def _enumerate(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Counted:
    start = kwargs.pop("start", None) or (args[1] if len(args) == 2 else integer(0))
    _exactly(t, args[:1], kwargs, 1)
    return Counted(arrays.iterator(t, args[0]), _python_int(t, start))


def _zip(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Zipped:
    if kwargs or not args:
        raise t.refuse("zip with further arguments")
    return Zipped(tuple(arrays.iterator(t, x) for x in args))


def _reversed(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    _exactly(t, args, kwargs, 1)
    (x,) = args
    if isinstance(x, Tup):
        return Through(Tup(x.items[::-1]), 0)
    if isinstance(x, Arr):
        back = Span(Known(None), Known(None), integer(-1))
        return arrays.iterator(t, arrays.item(t, x, back))
    if isinstance(x, Range) and isinstance(x.step.value, Literal):
        n, step = arrays.length(t, x), x.step.value.value
        less = t.op("sub", "int64", n, Literal(1, "int64"))
        last = t.op(
            "add", "int64", x.start.value, t.op("mul", "int64", less, Literal(step, "int64"))
        )
        stop = t.op("sub", "int64", x.start.value, Literal(step, "int64"))
        first, end = (Num("int64", PYTHON, y) for y in (last, stop))
        return Once(Range(first, end, integer(-step)))
    raise t.refuse(f"reversed of {arrays.described(x)}")


def _int(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1)
    x = _number(t, args[0])
    return Num("int64", PYTHON, _as_int(t, x))


def _as_int(t: Writes, x: Num) -> Value:
    if numbers.kind_of(x.dtype) == "f":
        return numbers.to_int(t, x.value, "int64", "a float that is no integer of 64 bits")
    return numbers.cast(t, numbers.as_python(t, x).value, "int64")


def _float(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 0, 1)
    if args and isinstance(args[0], Known) and isinstance(args[0].value, str):
        return Num("float64", PYTHON, Literal(float(args[0].value), "float64"))
    x = _number(t, args[0]) if args else integer(0)
    return Num("float64", PYTHON, numbers.cast(t, x.value, "float64"))


def _bool(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1)
    return Num("bool", PYTHON, arrays.truth(t, args[0]))


def _round(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1)
    x = _number(t, args[0])
    _has(t, args[0], "__round__")
    if numbers.kind_of(x.dtype) != "f":
        return Num("int64", PYTHON, _as_int(t, x))
    whole = t.op("rint", x.dtype, x.value)
    return Num("int64", PYTHON, numbers.to_int(t, whole, "int64", "a float that is no integer"))


def _divmod(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Tup:
    _exactly(t, args, kwargs, 2)
    a, b = (_number(t, x) for x in args)
    return Tup((numbers.binary(t, "//", a, b), numbers.binary(t, "%", a, b)))


def _pow(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 2)
    return numbers.binary(t, "**", *(_number(t, x) for x in args))


def _extreme(op: str, of_many: Any) -> Call:
    """Python's ``max`` or ``min``: the first one that no other is beyond."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs or not args:
            raise t.refuse("min or max with further arguments")
        if len(args) == 1:
            if not isinstance(args[0], Tup) or not args[0].items:
                return Inlined(of_many, args, {})
            args = list(args[0].items)
        if any(isinstance(x, Num) and x.kind == NO_AXES for x in args):
            raise t.refuse("min or max of arrays without axes")
        found, *others = (_number(t, x) for x in args)
        for x in others:
            if x.dtype != found.dtype:
                return Inlined(of_many, [Tup(tuple(args))], {})
            beyond = numbers.compare(t, op, x, found)
            kind = x.kind if x.kind == found.kind else EITHER
            value = t.op("select", x.dtype, beyond.value, x.value, found.value)
            found = Num(x.dtype, kind, value)
        return found

    return call


def _is_python(letters: str) -> Call:
    """Whether it is a number of Python's own, of such a kind."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        (x,) = args
        if isinstance(x, Num) and x.kind == EITHER:
            raise t.refuse("a sum of numbers that are Python's or NumPy's, as it comes")
        found = isinstance(x, Num) and x.kind == PYTHON and numbers.kind_of(x.dtype) in letters
        return Num("bool", PYTHON, Literal(found, "bool"))

    return call


def _list(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    _exactly(t, args, kwargs, 0, 1)
    if not args:
        return arrays.new_list(t, ())
    return Inlined(of_python.listed, args, {})


def _tuple(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    _exactly(t, args, kwargs, 1)
    if isinstance(args[0], Tup):
        return args[0]
    raise t.refuse(f"a tuple of {arrays.described(args[0])}")


# --- math ---------------------------------------------------------------------------------------


def _libm(name: str, count: int = 1) -> Call:
    """A function of the C library, which raises where it has no value."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        _exactly(t, args, kwargs, count)
        given = [_float(t, [x], {}).value for x in args]
        found = numbers.call(t, name, "float64", *given)
        ends: Value = Literal(True, "bool")
        whole: Value = Literal(True, "bool")
        for x in given:
            ends = _and(t, ends, numbers.is_finite(t, x))
            whole = _and(t, whole, t.op("not", "bool", numbers.is_nan(t, x)))
        odd = t.op("not", "bool", numbers.is_finite(t, found))
        t.mark(_and(t, odd, ends), f"math.{name} has no value")
        t.mark(_and(t, numbers.is_nan(t, found), whole), f"math.{name} has no value")
        return Num("float64", PYTHON, found)

    return call


def _and(t: Writes, a: Value, b: Value) -> Value:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Literal):
            return y if x.value else x
    return t.op("and", "bool", a, b)


def _math_log(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1, 2)
    found: Num = _libm("log")(t, args[:1], {})
    if len(args) == 1:
        return found
    return numbers.binary(t, "/", found, _libm("log")(t, args[1:], {}))


def _math_sqrt(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1)
    x = _float(t, args, {}).value
    t.mark(t.op("lt", "bool", x, Literal(0.0, "float64")), "math.sqrt has no value")
    return Num("float64", PYTHON, t.op("sqrt", "float64", x))


def _has(t: Writes, x: Num, name: str) -> None:
    """Leave, where a number has no such method, which a function calls."""
    if all(hasattr(c, name) for c in arrays.classes(x)):
        return
    if x.kind == EITHER:
        raise t.refuse(f"{name} of a number that is Python's or NumPy's, as it comes")
    raise Leaves(f"{arrays.described(x)} has no {name}")


def _math_whole(op: str) -> Call:
    """``math.floor`` and such: of a float an integer."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        _exactly(t, args, kwargs, 1)
        x = _number(t, args[0])
        if op == "trunc":
            _has(t, args[0], "__trunc__")
        if numbers.kind_of(x.dtype) != "f":
            if x.kind != PYTHON and x.dtype != "bool":  # it is made a float
                numbers.marked_beyond(t, x.value, numbers.EXACT)
            return Num("int64", PYTHON, _as_int(t, x))
        whole = x.value if op == "trunc" else t.op(op, x.dtype, x.value)
        return Num("int64", PYTHON, numbers.to_int(t, whole, "int64", "a float that is no integer"))

    return call


def _asked(question: Callable[[Any, Value], Value], kind: str, ufunc: Any = None) -> Call:
    """``isnan`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        _exactly(t, args, kwargs, 1)
        if ufunc is not None and whole.is_array(*args):
            return whole.elementwise(t, ufunc, args)
        x = _number(t, args[0])
        if numbers.kind_of(x.dtype) != "f":
            x = _float(t, args, {})
        return Num("bool", kind, question(t, x.value))

    return call


def _is_inf(t: Any, x: Value) -> Value:
    dtype = str(x.type)
    return t.op("eq", "bool", t.op("abs", dtype, x), Literal(math.inf, dtype))  # type: ignore[no-any-return]


def _gcd(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    _exactly(t, args, kwargs, 2)
    return Inlined(of_python.gcd, [_python_int(t, x) for x in args], {})


def _python_int(t: Writes, x: Abstract) -> Num:
    return Num("int64", PYTHON, arrays.as_index(t, x))


def _fabs(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 1)
    return numbers.absolute(t, _float(t, args, {}))


def _copysign(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 2)
    x, y = (_float(t, [a], {}).value for a in args)
    return Num("float64", PYTHON, t.op("copysign", "float64", x, y))


def _times(factor: float) -> Call:
    """``math.radians`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        _exactly(t, args, kwargs, 1)
        x = _float(t, args, {}).value
        return Num("float64", PYTHON, t.op("mul", "float64", x, Literal(factor, "float64")))

    return call


# --- NumPy --------------------------------------------------------------------------------------


def _operator(op: str, ufunc: Any) -> Call:
    """A ufunc that an operator stands for."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        _exactly(t, args, kwargs, 2)
        if whole.is_array(*args):
            return whole.elementwise(t, ufunc, args)
        a, b = (_number(t, x) for x in args)
        if a.kind != NUMPY and b.kind != NUMPY:  # Python's numbers are NumPy's here
            a, b = a._replace(kind=NUMPY), b._replace(kind=NUMPY)
        return (numbers.compare if op in _COMPARISONS else numbers.binary)(t, op, a, b)

    return call


_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def _ufunc(ufunc: Any) -> Call:
    """A ufunc of numbers: NumPy's own loop, for one of them."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        _exactly(t, args, kwargs, ufunc.nin)
        if whole.is_array(*args):
            return whole.elementwise(t, ufunc, args)
        given = [_number(t, x) for x in args]
        types = _loop(t, ufunc, given)
        if ufunc is np.power and numbers.kind_of(types[0]) != "f":  # whose loop may raise
            return numbers.binary(t, "**", *(x._replace(kind=NUMPY) for x in given))
        values = [numbers.operand(t, x, dtype) for x, dtype in zip(given, types, strict=False)]
        own = _NATIVE.get(ufunc.__name__)
        if ufunc in (np.maximum, np.minimum) and not _second_of_zeros():
            own = None
        if own is not None and numbers.kind_of(types[0]) == "f":
            return Num(types[-1], NUMPY, own(t, types[0], *values))
        name = "ufunc", ufunc.__name__, *types
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
    """Whether NumPy's maximum and minimum of both zeros is the second, as it is on x86."""
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
        dtype = _dtype(t, given.get("dtype"), "float64")
        if how == "full" and "dtype" not in given:
            dtype = _number(t, filler).dtype
        shape = given["shape"]
        dims = shape.items if isinstance(shape, Tup) else (shape,)
        if isinstance(shape, (Lst, Arr)) or not 1 <= len(dims) <= 2:
            raise t.refuse("an array of more than two axes")
        return _filled(t, dtype, [arrays.as_index(t, n) for n in dims], filler)

    return call


def _made_like(value: Any = None) -> Call:
    """``numpy.zeros_like`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
        names = ["a", "fill_value", "dtype"] if value == "full" else ["a", "dtype"]
        given = dict(zip(names, args, strict=False)) | kwargs
        like = given.get("a")
        if not {*given} <= {*names} or len(args) > len(names) or not isinstance(like, Arr):
            raise t.refuse("an array like another one, with further arguments")
        dtype = _dtype(t, given.get("dtype"), like.type.dtype)
        dims = [arrays.length(t, like, k) for k in range(like.type.ndim)]
        return _filled(t, dtype, dims, given.get("fill_value", None if value == "full" else value))

    return call


def _filled(t: Writes, dtype: str, dims: list[Value], value: Any) -> Arr:
    if isinstance(value, int):
        value = integer(value)
    is_zero = isinstance(value, Num) and value.value == Literal(0, "int64")
    made = arrays.new(t, dtype, dims, "zeros" if is_zero else "empty")
    if value is not None and not is_zero:
        t.do("fill", made.value, numbers.stored(t, _number(t, value), dtype))
    return made


def _dtype(t: Writes, x: Abstract | None, default: str) -> str:
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
        _exactly(t, args, kwargs, 0, 1)
        x = _number(t, args[0]) if args else integer(0)
        return Num(dtype, NUMPY, numbers.as_numpy(t, x, dtype))

    return call


def _array(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.array`` of numbers: a new array of one axis."""
    given = dict(zip(["object", "dtype"], args, strict=False)) | kwargs
    given = {"object" if k == "a" else k: x for k, x in given.items()}
    x = given.get("object")
    if not {*given} <= {"object", "dtype"} or len(args) > 2:
        raise t.refuse("numpy.array with further arguments")
    if isinstance(x, Arr) and "dtype" not in given:
        return arrays.copied(t, x)
    if isinstance(x, Lst) and not x.dtype:  # a loop that has not been gone through
        return arrays.new(t, _dtype(t, given.get("dtype"), "float64"), [arrays.ZERO], "empty")
    if isinstance(x, Lst):
        dtype = _dtype(t, given.get("dtype"), x.dtype)
        if dtype != x.dtype:
            raise t.refuse("an array of another dtype than that of its list")
        made = arrays.new(t, dtype, [arrays.length(t, x)], "empty")
        t.do("copy list", made.value, x.value)
        return made
    if isinstance(x, Tup) and x.items and all(isinstance(y, Num) for y in x.items):
        named = np.result_type(*{np.dtype(y.dtype) for y in x.items}).name
        dtype = _dtype(t, given.get("dtype"), named)
        made = arrays.new(t, dtype, [Literal(len(x.items), "int64")], "empty")
        for k, y in enumerate(x.items):
            t.do("set element", made.value, Literal(k, "int64"), numbers.stored(t, y, dtype))
        return made
    raise t.refuse(f"numpy.array of {arrays.described(x)}")


def _as_array(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.asarray``: of an array itself."""
    if len(args) == 1 and not kwargs and isinstance(args[0], Arr):
        return args[0]
    if args and isinstance(args[0], Arr):
        raise t.refuse("numpy.asarray with a dtype")
    return _array(t, args, kwargs)


def _where(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    _exactly(t, args, kwargs, 3)
    condition, a, b = (_number(t, x) for x in args)
    if any(x.kind == EITHER for x in (a, b)) and a.dtype != b.dtype:
        raise t.refuse("numpy.where of numbers of several types")
    weak = NUMPY in (a.kind, b.kind)
    kinds = [_WEAK[x.dtype] if weak and x.kind == PYTHON else np.dtype(x.dtype) for x in (a, b)]
    dtype = np.result_type(*kinds).name
    if dtype not in numbers.DTYPES:
        raise t.refuse(f"numpy.where of {a.dtype} and {b.dtype}")
    x, y = (numbers.operand(t, z, dtype) for z in (a, b))
    return Num(dtype, NO_AXES, t.op("select", dtype, numbers.truth(t, condition), x, y))


_WEAK: dict[str, Any] = {"bool": False, "int64": 0, "float64": 0.0}
"""What stands for a number of Python's where types are told."""


# --- functions of arrays ------------------------------------------------------------------------


def _of_floats(inlined: Any, *names: str) -> Call:
    """A function of an array of floats that is written in Python; of others it is left to NumPy."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not args or not isinstance(args[0], Arr) or args[0].type.ndim != 1:
            raise t.refuse(f"a function of {arrays.described(args[0]) if args else 'nothing'}")
        if not {*kwargs} <= {*names} or len(args) > 1:
            raise t.refuse("a function of an array with further arguments")
        if numbers.kind_of(args[0].type.dtype) != "f":
            raise t.refuse(f"a function of {arrays.described(args[0])}")
        return Inlined(inlined, args, kwargs)

    return call


def _of_array(inlined: Any, count: int = 1) -> Call:
    """A function of arrays of any numbers that is written in Python."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        _exactly(t, args, kwargs, count)
        if not all(isinstance(x, Arr) and x.type.ndim == 1 for x in args[:1]):
            raise t.refuse(f"a function of {arrays.described(args[0])}")
        return Inlined(inlined, args, {})

    return call


def _reduction(ufunc: Any) -> Call:
    """``numpy.sum`` and such, of an array of one axis."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        _exactly(t, args, kwargs, 1)
        if isinstance(args[0], Lst):
            args = [_array(t, args, {})]
        if not isinstance(args[0], Arr):
            raise t.refuse(f"a sum of {arrays.described(args[0])}")
        return whole.reduced(t, ufunc, args[0])

    return call


def _arange(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    _exactly(t, args, kwargs, 1, 2)
    bounds = [_python_int(t, x) for x in args]
    return Inlined(of_numpy.steps, [integer(0), *bounds][-2:], {})


def _searchsorted(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    side = kwargs.pop("side", Known("left"))
    _exactly(t, args, kwargs, 2)
    if not isinstance(args[0], Arr) or not isinstance(args[1], Num) or not isinstance(side, Known):
        raise t.refuse("numpy.searchsorted of several numbers")
    right = Num("bool", PYTHON, Literal(side.value == "right", "bool"))
    return Inlined(of_numpy.searched, [*args, right], {})


def _interp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    _exactly(t, args, kwargs, 3)
    x, xp, fp = args
    if not isinstance(x, Num) or not all(
        isinstance(a, Arr) and a.type == Array("float64", 1) for a in (xp, fp)
    ):
        raise t.refuse("numpy.interp of several numbers")
    x = Num("float64", NUMPY, numbers.cast(t, x.value, "float64"))
    return Inlined(of_numpy.interpolated, [x, xp, fp], {})


METHODS: dict[str, Call] = {
    "sum": _reduction(np.add), "prod": _reduction(np.multiply), "max": _reduction(np.maximum),
    "min": _reduction(np.minimum), "mean": _of_floats(of_numpy.mean),
    "var": _of_floats(of_numpy.variance, "ddof"), "std": _of_floats(of_numpy.deviation, "ddof"),
    "argmax": _of_array(of_numpy.argmax), "argmin": _of_array(of_numpy.argmin),
    "cumsum": _of_floats(of_numpy.cumulated), "any": _of_array(of_numpy.any_true),
    "all": _of_array(of_numpy.all_true),
}  # fmt: skip
"""Methods of arrays."""


@functools.cache
def _table() -> dict[Any, Call]:
    """The rows, by the functions themselves."""
    found: dict[Any, Call] = {
        len: _len, abs: _abs, range: _range, enumerate: _enumerate, zip: _zip,
        reversed: _reversed, int: _int, float: _float, bool: _bool, round: _round,
        divmod: _divmod, pow: _pow, list: _list, tuple: _tuple,
        max: _extreme(">", of_python.largest), min: _extreme("<", of_python.smallest),
        builtins.sum: of_python.compensated_total if of_python.COMPENSATES else of_python.total,
        of_python.is_float: _is_python("f"), of_python.is_int: _is_python("ib"),
        builtins.any: of_python.any_of,
        builtins.all: of_python.all_of, builtins.sorted: of_python.in_order,
        math.log: _math_log, math.sqrt: _math_sqrt, math.fabs: _fabs, math.copysign: _copysign,
        math.floor: _math_whole("floor"), math.ceil: _math_whole("ceil"),
        math.trunc: _math_whole("trunc"), math.radians: _times(math.pi / 180),
        math.degrees: _times(180 / math.pi), math.gcd: _gcd,
        math.isnan: _asked(numbers.is_nan, PYTHON), math.isinf: _asked(_is_inf, PYTHON),
        math.isfinite: _asked(numbers.is_finite, PYTHON),
        np.isnan: _asked(numbers.is_nan, NUMPY, np.isnan),
        np.isinf: _asked(_is_inf, NUMPY, np.isinf),
        np.isfinite: _asked(numbers.is_finite, NUMPY, np.isfinite),
        np.zeros: _made("zeros", 0), np.empty: _made("empty"), np.ones: _made("ones", 1),
        np.full: _made("full"), np.zeros_like: _made_like(0), np.empty_like: _made_like(),
        np.ones_like: _made_like(1), np.full_like: _made_like("full"),
        np.array: _array, np.asarray: _as_array, np.where: _where, np.arange: _arange,
        np.diff: _of_array(of_numpy.differences), np.sort: _of_floats(of_numpy.in_order),
        np.median: _of_floats(of_numpy.median), np.flatnonzero: _of_array(of_numpy.places),
        np.count_nonzero: _of_array(of_numpy.count), np.searchsorted: _searchsorted,
        np.interp: _interp, np.add.reduce: _reduction(np.add), np.amax: METHODS["max"],
        np.amin: METHODS["min"],
    }  # fmt: skip
    found |= {getattr(np, name): row for name, row in METHODS.items()}
    one = (
        "exp log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
        "erf erfc exp2 cbrt"
    ).split()
    found |= {getattr(math, n): _libm(n) for n in one}
    found |= {getattr(math, n): _libm(n, 2) for n in ("pow", "atan2", "fmod")}
    found |= {getattr(np, d if d != "bool" else "bool_"): _as_dtype(d) for d in numbers.DTYPES}
    operators = {
        "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "less": "<",
        "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==",
        "not_equal": "!=",
    }  # fmt: skip
    for name in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
        "arcsinh arccosh arctanh cbrt absolute fabs ceil floor rint trunc sqrt square negative "
        "sign copysign maximum minimum hypot arctan2 power float_power logaddexp fmod"
    ).split():
        found[getattr(np, name)] = _ufunc(getattr(np, name))
    found |= {getattr(np, n): _operator(op, getattr(np, n)) for n, op in operators.items()}
    return found
