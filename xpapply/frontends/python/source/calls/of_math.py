"""Functions of ``math`` that are compiled."""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

from .....ir.typed import Literal
from .....ir.typed.function import NOTED, PARTS, Value
from .....library import of_math, of_python
from .. import arrays, numbers, places, whole
from ..kinds import halves
from ..values import EITHER, NUMPY, PYTHON, Arr, Inlined, Leaves, Lst, Num, Tup, Writes
from .common import Call, as_float, as_int, exactly, number, python_int


def _libm(name: str, count: int = 1) -> Call:
    """A function of the C library, which raises where it has no value."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, count)
        given = [as_float(t, [x], {}).value for x in args]
        why = f"math.{name} has no value"
        outside = _OUTSIDE.get(name)
        if outside is not None:  # asked before, one comparison tells, and nothing is noted
            t.mark(outside(t, *given), why, OverflowError if name in _GROWS else ValueError)
        loud = outside is not None or name in _EVERYWHERE  # which notes nothing that counts
        found = numbers.quiet_call(t, name, "float64", *given, loud=loud)
        if outside is not None or name in _EVERYWHERE:
            return Num("float64", PYTHON, found)
        if name in _GROWS and count == 1:
            large = both(t, is_inf(t, found), numbers.is_finite(t, given[0]))
            t.mark(large, why, OverflowError)
            return Num("float64", PYTHON, found)
        ends: Value = Literal(True, "bool")
        whole: Value = Literal(True, "bool")
        for x in given:
            ends = both(t, ends, numbers.is_finite(t, x))
            whole = both(t, whole, t.op("not", "bool", numbers.is_nan(t, x)))
        odd = t.op("not", "bool", numbers.is_finite(t, found))
        t.mark(both(t, numbers.is_nan(t, found), whole), why, ValueError)
        if name == "pow" and t.handles:  # of zero it raises another one
            zero = t.op("eq", "bool", given[0], Literal(0.0, "float64"))
            t.mark(both(t, both(t, odd, ends), zero), why, ValueError)
        t.mark(both(t, odd, ends), why, OverflowError if name in _GROWS else ValueError)
        return Num("float64", PYTHON, found)

    return call


_GROWS = frozenset("exp exp2 expm1 sinh cosh pow".split())
"""Functions that may overflow; others are undefined somewhere."""
_EVERYWHERE = frozenset("atan tanh asinh erf erfc cbrt".split())
"""Functions defined for every float."""


def _beyond(op: str, limit: float, *, size: bool = False) -> Callable[..., Value]:
    """A test whether a float, or its size, is outside a function's domain."""

    def asked(t: Writes, x: Value) -> Value:
        if isinstance(x, Literal):
            value = abs(x.value) if size else x.value
            return Literal(getattr(operator, op)(value, limit), "bool")
        if size:
            x = t.op("abs", "float64", x)
        return t.op(op, "bool", x, Literal(limit, "float64"))

    return asked


def _grown(t: Writes, x: Value) -> Value:
    """A test whether the exponential of a float is none, and that is finite."""
    if isinstance(x, Literal):
        return Literal(_LARGEST < x.value < math.inf, "bool")
    is_large = t.op("gt", "bool", x, Literal(_LARGEST, "float64"))
    return t.op("and", "bool", is_large, t.op("lt", "bool", x, Literal(math.inf, "float64")))


_LARGEST = math.log(sys.float_info.max)
"""The largest number whose exponential is a float: with the next one the logarithm is larger."""
_OUTSIDE: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("exp", "expm1"), _grown),
    **dict.fromkeys(("log", "log2", "log10"), _beyond("le", 0.0)),
    "log1p": _beyond("le", -1.0), "acosh": _beyond("lt", 1.0),
    **dict.fromkeys(("asin", "acos"), _beyond("gt", 1.0, size=True)),
    "atanh": _beyond("ge", 1.0, size=True),
    **dict.fromkeys(("sin", "cos", "tan"), _beyond("eq", math.inf, size=True)),
}  # fmt: skip
"""Tests of arguments outside the domain; for others the result shows it."""


def both(t: Writes, a: Value, b: Value) -> Value:
    """Conjunction of two truth values."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Literal):
            return y if x.value else x
    return t.op("and", "bool", a, b)


def _math_log(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1, 2)
    found: Num = _libm("log")(t, args[:1], {})
    if len(args) == 1:
        return found
    return numbers.binary(t, "/", found, _libm("log")(t, args[1:], {}))


def _math_sqrt(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    x = as_float(t, args, {}).value
    t.mark(t.op("lt", "bool", x, Literal(0.0, "float64")), "math.sqrt has no value", ValueError)
    noted = NOTED if t.handles else None  # never before that was asked
    return Num("float64", PYTHON, t.op("sqrt", "float64", x, what=noted))


def has_method(t: Writes, x: Num, name: str) -> None:
    """Leave, where a number has no such method, which a function calls."""
    if all(hasattr(c, name) for c in arrays.classes(x)):
        return
    if x.kind == EITHER:
        raise t.refuse(f"{name} of a number that is Python's or NumPy's, as it comes")
    raise Leaves(f"{places.described(x)} has no {name}")


def _math_whole(op: str) -> Call:
    """``math.floor`` and such: of a float an integer."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, 1)
        x = numbers.as_float64(t, number(t, args[0]))
        if op == "trunc":
            has_method(t, args[0], "__trunc__")
        if numbers.kind_of(x.dtype) != "f":
            if x.kind != PYTHON and x.dtype != "bool":  # it is made a float
                numbers.marked_beyond(t, x.value, numbers.EXACT)
            return Num("int64", PYTHON, as_int(t, x))
        value = halves.widened(t, x.value)
        whole = value if op == "trunc" else t.op(op, str(value.type), value)
        why = "a float that is no integer"
        return Num("int64", PYTHON, numbers.to_int(t, whole, "int64", why, raises=True))

    return call


def asked(question: Callable[[Any, Value], Value], kind: str, ufunc: Any = None) -> Call:
    """``isnan`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        if ufunc is not None and whole.is_array(*args):
            return whole.elementwise(t, ufunc, args)
        x = number(t, args[0])
        if x.dtype in PARTS and ufunc is not None:
            name = t.external("ufunc", ufunc.__name__, x.dtype, "bool")
            return Num("bool", kind, t.op("ufunc", "bool", x.value, what=name))
        if numbers.kind_of(x.dtype) != "f":
            x = as_float(t, args, {})
        return Num("bool", kind, question(t, x.value))

    return call


def is_inf(t: Any, x: Value) -> Value:
    """Whether a float is infinite."""
    x = halves.widened(t, x)
    dtype = str(x.type)
    return t.op("eq", "bool", t.op("abs", dtype, x), Literal(math.inf, dtype))  # type: ignore[no-any-return]


def _integers(inlined: Any, count: int) -> Call:
    """A function of integers."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, count)
        return Inlined(inlined, [python_int(t, x) for x in args], {})

    return call


def _reduce(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``functools.reduce``."""
    exactly(t, args, kwargs, 2, 3)
    return Inlined(of_math.folded if len(args) == 3 else of_math.folded_all, args, {})


def _isclose(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = {"rel_tol": Literal(1e-9, "float64"), "abs_tol": Literal(0.0, "float64")}
    if not kwargs.keys() <= given.keys():
        raise t.refuse("a call with further arguments")
    exactly(t, args, {}, 2)
    further = [kwargs.get(n, Num("float64", PYTHON, x)) for n, x in given.items()]
    return Inlined(of_math.isclose, [as_float(t, [x], {}) for x in (*args, *further)], {})


def _fabs(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    return numbers.absolute(t, as_float(t, args, {}))


def _copysign(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 2)
    x, y = (as_float(t, [a], {}).value for a in args)
    return Num("float64", PYTHON, t.op("copysign", "float64", x, y))


def _times(factor: float) -> Call:
    """``math.radians`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, 1)
        x = as_float(t, args, {}).value
        return Num("float64", PYTHON, t.op("mul", "float64", x, Literal(factor, "float64")))

    return call


def _length(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``math.hypot``."""
    exactly(t, args, kwargs, *range(1, 9))
    _adds_squares(t, "hypot")
    given = [as_float(t, [x], {}) for x in args]
    if len(given) == 1:
        return numbers.absolute(t, given[0])
    return Inlined(of_math.length, [Tup(tuple(given))], {})


def _distance(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``math.dist``."""
    exactly(t, args, kwargs, 2)
    _adds_squares(t, "dist")
    p, q = (
        Tup(tuple(as_float(t, [y], {}) for y in x.items)) if isinstance(x, Tup) else x for x in args
    )
    if not (isinstance(p, Tup) and isinstance(q, Tup)):
        return Inlined(of_math.distance, [p, q], {})
    if len(p.items) != len(q.items):
        raise Leaves("the distance of points with other numbers of coordinates", ValueError)
    pairs = zip(p.items, q.items, strict=True)
    return _length(t, [numbers.binary(t, "-", *x) for x in pairs], {})


def _adds_squares(t: Writes, name: str) -> None:
    if not of_math.adds_squares_so():
        raise t.refuse(f"math.{name} of this Python, which adds squares in another way")


def _scaled(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``math.ldexp``."""
    exactly(t, args, kwargs, 2)
    return Inlined(of_math.scaled, [as_float(t, args[:1], {}), python_int(t, args[1])], {})


def _next(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """``math.nextafter``, which has a value everywhere."""
    exactly(t, args, kwargs, 2)
    given = [as_float(t, [x], {}).value for x in args]
    return Num("float64", PYTHON, numbers.quiet_call(t, "nextafter", "float64", *given))


def of_number(t: Writes, x: Num, name: str) -> Any:
    """A method of a number, which its class has; None: it is another one."""
    letter = numbers.kind_of(x.dtype)
    if x.kind not in (PYTHON, NUMPY, EITHER):
        return None
    if name == "is_integer":
        if letter != "f":
            return Num("bool", PYTHON, Literal(True, "bool"))
        value = halves.widened(t, x.value)
        whole = t.op("eq", "bool", t.op("trunc", str(value.type), value), value)
        return Num("bool", PYTHON, both(t, whole, numbers.is_finite(t, value)))
    if name in ("bit_length", "bit_count"):
        return Inlined(getattr(of_math, name), [python_int(t, x)], {})
    return None


def _of_float(inlined: Any) -> Call:
    """A function of a float that is written in Python."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        return Inlined(inlined, [as_float(t, args, {})], {})

    return call


ROWS: dict[Any, Call] = {
    math.gamma: _of_float(of_math.gamma), math.lgamma: _of_float(of_math.log_gamma),
    math.log: _math_log, math.sqrt: _math_sqrt, math.fabs: _fabs, math.copysign: _copysign,
    math.floor: _math_whole("floor"), math.ceil: _math_whole("ceil"),
    math.trunc: _math_whole("trunc"), math.radians: _times(math.pi / 180),
    math.degrees: _times(180 / math.pi), math.gcd: _integers(of_python.gcd, 2),
    math.factorial: _integers(of_math.factorial, 1), math.isqrt: _integers(of_math.root, 1),
    math.comb: _integers(of_math.comb, 2), math.perm: _integers(of_math.perm, 2),
    math.lcm: _integers(of_math.lcm, 2), math.prod: of_math.product, math.fsum: of_math.exact_sum,
    functools.reduce: _reduce, math.isclose: _isclose, math.modf: _of_float(of_math.parts),
    math.frexp: _of_float(of_math.mantissa), math.ulp: _of_float(of_math.ulp),
    math.ldexp: _scaled, math.hypot: _length, math.dist: _distance, math.nextafter: _next,
    math.isnan: asked(numbers.is_nan, PYTHON), math.isinf: asked(is_inf, PYTHON),
    math.isfinite: asked(numbers.is_finite, PYTHON),
}  # fmt: skip
"""A row each."""
_ONE = (
    "exp log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc exp2 cbrt"
).split()
ROWS |= {getattr(math, n): _libm(n) for n in _ONE}
ROWS |= {getattr(math, n): _libm(n, 2) for n in ("pow", "atan2", "fmod", "remainder")}


# --- statistics ---------------------------------------------------------------------------------


def of_statistics_module(f: Any) -> Call | None:
    """The row of a function of ``statistics``."""
    from .....library import of_statistics  # which few functions need

    name = f.__name__
    module = sys.modules["statistics"]
    written = getattr(of_statistics, name, None) if name in _STATISTICS else None
    if written is None or getattr(module, name, None) is not f:
        return None

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        if name in _OF_FLOATS and not _holds_floats(args[0]):
            raise t.refuse(f"statistics.{name} of {places.described(args[0])}")
        return Inlined(written, args, {})

    return call


def _holds_floats(x: Any) -> bool:
    """Whether values are floats of 64 bits; results of others have other types."""
    if isinstance(x, Tup):
        return bool(x.items) and all(isinstance(y, Num) and y.dtype == "float64" for y in x.items)
    if isinstance(x, Arr):
        return bool(x.type.dtype == "float64" and x.type.ndim == 1)
    return isinstance(x, Lst) and x.dtype in ("", "float64")


_OF_FLOATS = frozenset("mean variance pvariance stdev pstdev".split())
_STATISTICS = _OF_FLOATS | frozenset("fmean mode median_low median_high".split())
