"""Numbers of CuPy's: arrays without axes, what operations on them give, and who holds them.

CuPy has NumPy's types of results, but for a few that are refused. It warns of nothing, integers
keep their lowest bits, and their division by zero gives zero. An operation in place changes what
other names hold too: it is compiled for a number that one name alone has.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from .....errors import TraceError
from .....ir.typed import Literal
from .....ir.typed.function import Value
from .....library import of_python
from .....limits import LIMITS
from .. import numbers
from ..kinds import integers
from ..numbers import kind_of
from ..places import described
from ..reading.steps import Step
from ..values import (
    DEVICE,
    FRESH,
    ON_DEVICE,
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Known,
    Leaves,
    Num,
    Tup,
    Writes,
)
from . import LIBRARY, SOLVERS, of_device_arrays
from . import find as _known
from .of_device_arrays import is_infinite as _is_infinite
from .of_device_arrays import operand as _operand
from .of_device_arrays import plain as _plain


def is_any(*values: Abstract) -> bool:
    """Whether all are numbers, and some are CuPy's."""
    kinds = [x.kind if isinstance(x, Num) else "" for x in values]
    return "" not in kinds and any(k in ON_DEVICE for k in kinds)


# --- who holds a number -------------------------------------------------------------------------

_LOOKS = frozenset(
    "read binary inplace unary compare not branch more item slice attribute global module unpack "
    "part iterator next is round return".split()
)
"""Steps that keep no reference to their operands."""


def note_holders(t: Any, step: Step, at: int) -> None:
    """Note which numbers of CuPy's more than one name may hold after a step."""
    if step.kind in _LOOKS:
        return
    names = _names(step.args[1:] if step.kind in ("call", "set outer") else step.args)
    if step.kind == "call" and _only_looks(t, step):
        return
    depth = len(t.place.callers)
    moves = step.kind in ("copy", "result")
    live = t.place.code.flow.live_after(t.place.part, at + 1) if moves else ()
    for name in names:
        value = t.state.get((depth, name))
        if isinstance(value, Num) and value.kind == FRESH and not (moves and name not in live):
            t.state[depth, name] = value._replace(kind=DEVICE)


def _names(x: Any) -> list[str]:
    if isinstance(x, str):
        return [x]
    return [name for y in x for name in _names(y)] if type(x) is tuple else []


def _only_looks(t: Any, step: Step) -> bool:
    """Whether a call returns a number of its own."""
    called = step.args[1]
    found = t.state.get((len(t.place.callers), called)) if isinstance(called, str) else None
    if not isinstance(found, Known) or found.value is max or found.value is min:
        return False
    return find(found.value) is not None


# --- operations ---------------------------------------------------------------------------------


def binary(t: Writes, op: str, a: Num, b: Num) -> Num:
    """The result of an operation of two numbers, of which one is CuPy's."""
    if op == "**" and kind_of(a.dtype) in "fiu" and b == Num("int64", PYTHON, Literal(2, "int64")):
        return Num(a.dtype, FRESH, t.op("mul", a.dtype, a.value, a.value))
    if op == "**" and "f" in (kind_of(a.dtype), kind_of(b.dtype)):
        # the operator has other bits than `power`, with a number
        t.rounds(LIMITS.typed_rounding)
        return of_cupy(t, "power", [a, b])
    if op in ("@", "**"):
        raise t.refuse(f"{op} of numbers of CuPy's")
    try:
        loop, out, _ = numbers._types(op, _plain(a), _plain(b))
    except TraceError as error:
        raise t.refuse(str(error)) from None
    if kind_of(loop) not in "biuf" or loop == "float16":
        raise t.refuse(f"{op} of numbers of {loop} on a device")
    x, y = _operand(t, a, loop), _operand(t, b, loop)
    if loop == "bool":
        op = {"+": "|", "*": "&"}.get(op, op)
        if op not in _BITS:
            raise t.refuse(f"{op} of truth values of CuPy's")
        return Num("bool", FRESH, t.op(_BITS[op], "bool", x, y))
    of = _of_floats if kind_of(loop) == "f" else _of_integers
    return Num(out, FRESH, of(t, op, x, y, loop))


_PLAIN = {"+": "add", "-": "sub", "*": "mul"}
_BITS = {"&": "and", "|": "or", "^": "xor"}


def _of_floats(t: Writes, op: str, x: Value, y: Value, dtype: str) -> Value:
    if op in _PLAIN:
        return t.op(_PLAIN[op], dtype, x, y)
    quotient = t.op("div", dtype, x, y)
    if op == "/":
        return quotient
    whole = t.op("floor", dtype, quotient)
    if op == "//":
        return whole
    assert op == "%"
    return t.op("fma", dtype, t.op("neg", dtype, whole), y, x)  # as CUDA's compiler has it


def _of_integers(t: Writes, op: str, x: Value, y: Value, dtype: str) -> Value:
    if op in _PLAIN or op in _BITS:
        return t.op((_PLAIN | _BITS)[op], dtype, x, y)
    if op in ("<<", ">>"):
        integers.marked_shift(t, y, dtype)
        return t.op("shl" if op == "<<" else "shr", dtype, x, y)
    zero, one = Literal(0, dtype), Literal(1, dtype)
    none = t.op("eq", "bool", y, zero)
    y = t.op("select", dtype, none, one, y)
    signed = kind_of(dtype) == "i"
    if signed:
        least = t.op("eq", "bool", x, Literal(int(np.iinfo(dtype).min), dtype))
        back = t.op("eq", "bool", y, Literal(-1, dtype))
        t.mark(t.op("and", "bool", least, back), "an integer leaves its type")
    rest = t.op("rem", dtype, x, y)
    turned: Value = Literal(False, "bool")
    if signed:
        unlike = t.op("lt", "bool", t.op("xor", dtype, rest, y), zero)
        turned = t.op("and", "bool", t.op("ne", "bool", rest, zero), unlike)
    if op == "%":
        found = t.op("select", dtype, turned, t.op("add", dtype, rest, y), rest) if signed else rest
    else:
        assert op == "//", op
        found = t.op("div", dtype, x, y)
        if signed:
            found = t.op("select", dtype, turned, t.op("sub", dtype, found, one), found)
    return t.op("select", dtype, none, zero, found)


def inplace(t: Writes, op: str, a: Num, b: Abstract) -> Num:
    """An operation that writes into a number of CuPy's."""
    if a.kind != FRESH:
        raise t.refuse(
            f"{op}= of an array without axes that something else may hold, as an element does"
        )
    if not isinstance(b, Num):
        raise t.refuse(f"{op}= with {described(b)}")
    found = binary(t, op, a, b)
    if not np.can_cast(found.dtype, a.dtype, "same_kind"):
        raise Leaves(f"{op}= gives {found.dtype}, which is no {a.dtype}")
    return Num(a.dtype, FRESH, numbers.cast(t, found.value, a.dtype))


def compare(t: Writes, op: str, a: Num, b: Num) -> Num:
    """A comparison of two numbers, of which one is CuPy's."""
    x, y = _plain(a), _plain(b)
    if {kind_of(n.dtype) for n in (a, b)} <= {"i", "u", "b"}:
        return numbers.compare(t, op, x, y)._replace(kind=FRESH)
    loop, _, _ = numbers._types(op, x, y)
    if loop not in ("float32", "float64"):
        raise t.refuse(f"{op} of numbers of {loop} on a device")
    for n in (a, b):  # Python compares it with its own floats as it is, the device rounds it
        if n.kind == PYTHON and kind_of(n.dtype) == "i":
            numbers.marked_beyond(t, n.value, numbers.EXACT)
    values = _operand(t, a, loop), _operand(t, b, loop)
    return Num("bool", FRESH, t.op(numbers._COMPARED[op], "bool", *values))


def unary(t: Writes, op: str, a: Num) -> Num:
    """``-a``, ``+a``, ``~a``."""
    is_float, is_bool = kind_of(a.dtype) == "f", a.dtype == "bool"
    if (op == "~" and is_float) or (op != "~" and is_bool):
        raise Leaves(f"{op} of a number of {a.dtype}", TypeError)
    if op == "+":
        return a._replace(kind=FRESH)
    if op == "~":
        if is_bool:
            return Num("bool", FRESH, t.op("not", "bool", a.value))
        ones = int(np.iinfo(a.dtype).max) if kind_of(a.dtype) == "u" else -1
        return Num(a.dtype, FRESH, t.op("xor", a.dtype, a.value, Literal(ones, a.dtype)))
    if is_float:
        return Num(a.dtype, FRESH, t.op("neg", a.dtype, a.value))
    return Num(a.dtype, FRESH, t.op("sub", a.dtype, Literal(0, a.dtype), a.value))


def absolute(t: Writes, a: Num) -> Num:
    """``abs(a)``."""
    kind = kind_of(a.dtype)
    if kind == "f":
        return Num(a.dtype, FRESH, t.op("abs", a.dtype, a.value))
    if kind != "i":
        return a._replace(kind=FRESH)
    zero = Literal(0, a.dtype)
    minus = t.op("sub", a.dtype, zero, a.value)
    above = t.op("gt", "bool", a.value, zero)
    return Num(a.dtype, FRESH, t.op("select", a.dtype, above, a.value, minus))


# --- calls --------------------------------------------------------------------------------------


def find(f: Any) -> Any:
    """The row of a call; None: unknown."""
    try:
        found = _table().get(f)
    except TypeError:  # not hashable
        return None
    if found is not None:
        return found
    name, module = getattr(f, "__name__", ""), getattr(f, "__module__", None) or ""
    return _known(f) if name in _OF_NUMBERS or module in SOLVERS else None


def _abs(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs and library().is_spectrum(args[0]):
        return library().sizes(args[0])
    if len(args) == 1 and not kwargs and isinstance(args[0], Arr):
        return of_device_arrays.elementwise(t, np.absolute, args)
    if len(args) == 1 and not kwargs and is_any(*args):
        return absolute(t, args[0])
    return _of_python(abs)(t, args, kwargs)


def _of_python(f: Any) -> Callable[..., Any]:
    """A function of Python's numbers alone."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if any(isinstance(x, Num) and x.kind in ON_DEVICE for x in (*args, *kwargs.values())):
            raise t.refuse(f"{f.__name__} of a number of CuPy's")
        return _called(t, f, args, kwargs)

    return call


def _called(t: Writes, f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a function of Python's, as it is compiled elsewhere too."""
    found: Any = _known(f)
    is_ours = isinstance(found, FunctionType) and found.__module__.startswith(LIBRARY)
    return Inlined(found, args, kwargs) if is_ours else found(t, args, kwargs)


def _sum(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``sum``: of CuPy's numbers one after the other."""
    some = args[0].items if args and isinstance(args[0], Tup) else ()
    if len(args) == 1 and not kwargs and (isinstance(args[0], Arr) or (some and is_any(*some))):
        if all(x.kind in ON_DEVICE for x in some):
            return Inlined(of_python.total, args, {})
    return _called(t, sum, args, kwargs)


def _extreme(f: Any, of_many: Any) -> Callable[..., Any]:
    """``max`` or ``min``: one of the operands themselves."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        args = [x._replace(kind=DEVICE) if is_any(x) else x for x in args]
        if len(args) > 1 and any(isinstance(x, Arr) for x in args) and not kwargs:
            return Inlined(of_many, [Tup(tuple(args))], {})
        some = args[0].items if len(args) == 1 and isinstance(args[0], Tup) else args
        alike = len({(x.kind, x.dtype) for x in some if isinstance(x, Num)}) == 1
        if len(some) > 1 and all(isinstance(x, Num) for x in some) and not alike and not kwargs:
            return Inlined(of_many, [Tup(tuple(some))], {})
        return _called(t, f, args, kwargs)

    return call


def _asked(question: Callable[[Any, Value], Value]) -> Callable[..., Any]:
    """``cupy.isnan`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if len(args) != 1 or kwargs or not is_any(*args) or kind_of(args[0].dtype) != "f":
            raise t.refuse("a function of CuPy's of such arguments")
        return Num("bool", FRESH, question(t, args[0].value))

    return call


def _ufunc(name: str) -> Callable[..., Any]:
    """A ufunc of a float of CuPy's that is one instruction."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if len(args) != 1 or kwargs or not is_any(*args):
            raise t.refuse(f"cupy.{name} of such arguments")
        (x,) = args
        if name == "square" and x.dtype != "bool":
            return Num(x.dtype, FRESH, t.op("mul", x.dtype, x.value, x.value))
        if name == "sqrt" and kind_of(x.dtype) in "iu":
            (_, loop) = numbers.resolved(np.sqrt, numbers.as_type(_plain(x)))
            if loop in ("float32", "float64"):
                x = Num(loop, FRESH, _operand(t, x, loop))
        if kind_of(x.dtype) != "f":
            raise t.refuse(f"cupy.{name} of such arguments")
        op = "abs" if name == "fabs" else name
        return Num(x.dtype, FRESH, t.op(op, x.dtype, x.value))

    return call


def of_cupy(t: Writes, name: str, args: list[Num]) -> Num:
    """A ufunc by CuPy's own text of it, for one number of each operand."""
    given = [_plain(x) for x in args]
    try:
        *types, out = numbers.resolved(getattr(np, name), *map(numbers.as_type, given))
    except TraceError as error:
        raise t.refuse(str(error)) from None
    if not {*types, out} <= {"float32", "float64"}:
        raise t.refuse(f"cupy.{name} of {' and '.join(x.dtype for x in args)}")
    values = [_operand(t, x, dtype) for x, dtype in zip(args, types, strict=True)]
    return Num(out, FRESH, t.op("call", out, *values, what=t.external("cupy", name, *types, out)))


def _calledof_cupy(name: str, count: int) -> Callable[..., Any]:
    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if len(args) != count or kwargs or not is_any(*args):
            raise t.refuse(f"cupy.{name} of such arguments")
        return of_cupy(t, name, args)

    return call


def _over(name: str, row: Callable[..., Any]) -> Callable[..., Any]:
    """A ufunc of arrays too."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not kwargs and any(isinstance(x, Arr) for x in args):
            return of_device_arrays.elementwise(t, getattr(np, name), args)
        if name == "absolute" and args and library().is_spectrum(args[0]):
            return _abs(t, args, kwargs)
        return row(t, args, kwargs)

    return call


def _of_any(row: Callable[..., Any]) -> Callable[..., Any]:
    """A ufunc that is CuPy's own: it makes numbers of CuPy's of Python's, if it gets no others."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and all(isinstance(x, Num) and x.kind == PYTHON for x in args):
            args = [x._replace(kind=FRESH) for x in args]
        return row(t, args, kwargs)

    return call


def _of_number(name: str, written: Callable[[Writes, Num], Num]) -> Callable[..., Any]:
    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if len(args) != 1 or kwargs or not is_any(*args):
            raise t.refuse(f"cupy.{name} of such arguments")
        return written(t, args[0])

    return call


def _logical(op: str) -> Callable[..., Any]:
    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if kwargs or not is_any(*args) or len(args) != (1 if op == "not" else 2):
            raise t.refuse(f"cupy.logical_{op} of such arguments")
        return Num("bool", FRESH, t.op(op, "bool", *(numbers.truth(t, _plain(x)) for x in args)))

    return call


def _chosen(op: str) -> Callable[..., Any]:
    """``cupy.maximum`` or ``minimum`` of floats: NaN if one is; -0.0 is less than 0.0."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if len(args) != 2 or kwargs or not is_any(*args):
            raise t.refuse("cupy.maximum or minimum of such arguments")
        loop = numbers.resolved(np.maximum, *(numbers.as_type(_plain(x)) for x in args))[-1]
        if kind_of(loop) not in "iuf" or loop == "float16":
            raise t.refuse(f"cupy.maximum or minimum of numbers of {loop}")
        a, b = (_operand(t, x, loop) for x in args)
        found = t.op("select", loop, t.op(op, "bool", b, a), b, a)
        if kind_of(loop) == "f":
            signed = [t.op("neg", loop, x) if op == "lt" else x for x in (a, b)]
            zero = t.op("add", loop, *signed)
            zero = t.op("neg", loop, zero) if op == "lt" else zero
            none = t.op("eq", "bool", a, Literal(0.0, loop))
            none = t.op("and", "bool", none, t.op("eq", "bool", b, Literal(0.0, loop)))
            found = t.op("select", loop, none, zero, found)
            found = t.op("select", loop, t.op("ne", "bool", b, b), b, found)
            found = t.op("select", loop, t.op("ne", "bool", a, a), a, found)
        return Num(loop, FRESH, found)

    return call


def _operator(op: str) -> Callable[..., Any]:
    """A ufunc that an operator stands for."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        if len(args) != 2 or kwargs or not is_any(*args):
            raise t.refuse("a function of CuPy's of such arguments")
        return (compare if op in numbers._COMPARED else binary)(t, op, *args)

    return call


_OF_ONE = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh cbrt sign"
).split()
_UFUNCS: dict[str, Callable[..., Any]] = {
    **{n: _ufunc(n) for n in "sqrt fabs floor ceil trunc rint square".split()},
    "isnan": _asked(numbers.is_nan), "isfinite": _asked(numbers.is_finite),
    "isinf": _asked(_is_infinite),
    "add": _operator("+"), "subtract": _operator("-"), "multiply": _operator("*"),
    "true_divide": _operator("/"), "floor_divide": _operator("//"), "remainder": _operator("%"),
    "less": _operator("<"), "less_equal": _operator("<="), "greater": _operator(">"),
    "greater_equal": _operator(">="), "equal": _operator("=="), "not_equal": _operator("!="),
    "bitwise_and": _operator("&"), "bitwise_or": _operator("|"), "bitwise_xor": _operator("^"),
    "left_shift": _operator("<<"), "right_shift": _operator(">>"),
    "invert": _of_number("invert", lambda t, x: unary(t, "~", x)),
    "negative": _of_number("negative", lambda t, x: unary(t, "-", x)),
    "absolute": _of_number("absolute", absolute),
    **{f"logical_{op}": _logical(op) for op in ("and", "or", "not")},
    "maximum": _chosen("gt"), "minimum": _chosen("lt"),
    **{n: _calledof_cupy(n, 1) for n in _OF_ONE},
    **{n: _calledof_cupy(n, 2) for n in ("power", "hypot", "arctan2", "copysign")},
}  # fmt: skip
"""Rows by names in CuPy, and in NumPy, which dispatches to CuPy."""
_AS_THEY_ARE = (len, range, enumerate, zip, reversed, int, float, bool)
_MATH = (
    "sqrt fabs floor ceil trunc copysign radians degrees gcd isnan isinf isfinite factorial comb "
    "lcm isqrt"
).split()
_OF_C = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh "
    "acosh atanh cbrt erf erfc pow fmod"
).split()
"""Functions of ``math`` that are the C library's: a device has them with other last bits."""


_LIKE = ("zeros_like", "empty_like", "ones_like", "full_like")
_MADE = ("zeros", "empty", "ones", "full")
"""Functions that make arrays, under NumPy's names only those dispatched to CuPy."""


_OF_NUMBERS = frozenset(
    "brentq brenth bisect ridder newton root_scalar quad minimize_scalar fminbound".split()
)
"""Solvers of SciPy's that have numbers alone between them and the function."""


def _as_numpy(name: str) -> Any:
    """The row of NumPy's function of this name."""
    return _known(getattr(np, name))


@functools.cache
def _rows(cupy: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {f: _known(f) for f in _AS_THEY_ARE}
    of_c = (f for n in (*_MATH, *_OF_C) if (f := getattr(math, n, None)) is not None)
    found |= {f: _known(f) for f in of_c}
    found |= {f: _of_python(f) for f in (round, divmod, pow, isinstance)}
    found |= {abs: _abs, sum: _sum, any: of_python.any_of, all: of_python.all_of}
    found |= {max: _extreme(max, of_python.largest), min: _extreme(min, of_python.smallest)}
    named: dict[str, Any] = {n: _over(n, row) for n, row in _UFUNCS.items()}
    more = library()
    named |= of_device_arrays.FUNCTIONS | more.FUNCTIONS
    found |= of_device_arrays.PARTS | more.PARTS
    found |= {getattr(np, n): row for n, row in named.items()}
    found |= {getattr(np.linalg, n): row for n, row in more.LINALG.items()}
    found |= {getattr(np.fft, n): row for n, row in more.FFT.items()}
    found |= {getattr(np, n): _as_numpy(n) for n in _LIKE}
    if cupy is not None:
        found |= {getattr(cupy, n): _as_numpy(n) for n in (*_LIKE, *_MADE)}
        own = {n: _of_any(row) if n in _UFUNCS else row for n, row in named.items()}
        found |= {getattr(cupy, n): row for n, row in own.items() if hasattr(cupy, n)}
        found |= {getattr(cupy.linalg, n): row for n, row in more.LINALG.items()}
        found |= {getattr(cupy.fft, n): row for n, row in more.FFT.items()}
    return found


@functools.cache
def methods() -> dict[str, Any]:
    """Rows of array methods."""
    found: dict[str, Any] = of_device_arrays.ALL_METHODS | library().METHODS
    return found


def library() -> Any:
    """The rows of CuPy's library, which functions of NumPy's slices do not need."""
    from . import of_device_library

    return of_device_library


def _table() -> dict[Any, Any]:
    return _rows(sys.modules.get("cupy"))
