"""Operations on numbers, as Python and NumPy define them: types by NEP 50, and what is a mark.

A mark stands where Python raises (a division by zero) or where a result has another type (an
integer beyond 64 bits). Of what NumPy warns of floats, the flags of the processor tell afterwards:
an operation whose flags count is ``noted``, so it is done even where its result is unused.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ....errors import TraceError
from ....ir.typed import Literal, Register
from ....ir.typed.function import KEPT, NOTED, PARTS, Value
from .kinds import complexes, halves, integers
from .kinds.integers import BITS, PLAIN
from .values import EITHER, ERRORS, NO_AXES, NUMPY, ON_DEVICE, PYTHON, Errors, Leaves, Num, Writes

EXACT = 1 << 53
"""Integers up to which float64 has all."""


def number(x: Any) -> Num | None:
    """A number of Python's or NumPy's; None: it is something else."""
    if type(x) in _PYTHONS:
        dtype = _PYTHONS[type(x)]
        if type(x) is int and not -(1 << 63) <= x < 1 << 63:
            raise TraceError(f"the integer {x} has more than 64 bits")
        return Num(dtype, PYTHON, Literal(x, dtype))
    if isinstance(x, np.generic) and x.dtype.kind in "biufc" and x.dtype.name in DTYPES:
        return Num(x.dtype.name, NUMPY, Literal(x.item(), x.dtype.name))
    return None


_PYTHONS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_REAL = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
DTYPES = frozenset([*_REAL, *PARTS])
_WEAK: dict[str, Any] = {
    "bool": np.dtype(bool), "int64": int, "float64": float, "complex128": complex
}  # fmt: skip
OF_PYTHON = {"b": "bool", "f": "float64", "c": "complex128"}
"""Dtypes of Python numbers by NumPy's kind; others are integers."""


def kind_of(dtype: str) -> str:
    """NumPy's letter for a kind of numbers: b, i, u, f or c."""
    return np.dtype(dtype).kind


def bits(dtype: str) -> int:
    """Bits of a number."""
    return 8 * np.dtype(dtype).itemsize


def either(*numbers: Num) -> str:
    """Whose number comes of several."""
    kinds = {x.kind for x in numbers}
    return NUMPY if NUMPY in kinds else PYTHON if kinds == {PYTHON} else EITHER


# --- conversions ----------------------------------------------------------------------------


def cast(w: Writes, x: Value, dtype: str) -> Value:
    """A value in another type, as C converts it; it is known to fit."""
    if x.type == dtype:
        return x
    if dtype in PARTS or str(x.type) in PARTS:
        return complexes.cast(w, x, dtype, cast)
    if isinstance(x, Literal):
        with np.errstate(all="ignore"):
            value = np.array(x.value, x.type).astype(dtype).item()
        if dtype in _EXACT and math.isinf(value) and not math.isinf(x.value):
            raise TraceError(f"{x.value} is no {dtype}")  # NumPy warns of it, each time
        return Literal(value, dtype)
    assert isinstance(x.type, str)
    rounds = kind_of(x.type) == "f" and bits(dtype) < bits(x.type)
    what = NOTED if rounds and kind_of(dtype) == "f" else None
    return w.op("cast", dtype, x, what=what)


def operand(w: Writes, x: Num, dtype: str) -> Value:
    """A number as an operand of a loop of NumPy's for a dtype, which it may not fit."""
    if x.dtype == dtype:
        return x.value
    to, from_ = np.dtype(dtype), np.dtype(x.dtype)
    if x.kind != NUMPY and from_.kind == "i" and to.kind in "iu":
        info = np.iinfo(to)
        low, high = int(info.min), min(int(info.max), (1 << 63) - 1)
        if isinstance(x.value, Literal):
            if not info.min <= x.value.value <= info.max:
                raise TraceError(f"{x.value.value} is no {dtype}")
        else:
            below = w.op("lt", "bool", x.value, Literal(low, "int64"))
            w.mark(below, f"an integer is no {dtype}")
            if dtype != "uint64":
                above = w.op("gt", "bool", x.value, Literal(high, "int64"))
                w.mark(above, f"an integer is no {dtype}")
    elif from_.kind in "iu" and dtype in _EXACT and from_.itemsize > 2:
        marked_beyond(w, x.value, _EXACT[dtype])
    return cast(w, x.value, dtype)


_EXACT = {"float16": 1 << 11, "float32": 1 << 24, "complex64": 1 << 24}
"""Integers up to which a float that is not as long has all."""


def marked_beyond(w: Writes, x: Value, most: int) -> None:
    """A mark where an integer is so large that a float may not have it."""
    if isinstance(x, Literal):
        if abs(x.value) > most:
            raise TraceError(f"the integer {x.value} is too large for a float")
        return
    dtype = str(x.type)
    if np.iinfo(dtype).max <= most:
        return
    if kind_of(dtype) == "i":
        w.mark(w.op("lt", "bool", x, Literal(-most, dtype)), "a large integer becomes a float")
    w.mark(w.op("gt", "bool", x, Literal(most, dtype)), "a large integer becomes a float")


def to_int(w: Writes, x: Value, dtype: str, why: str, *, raises: bool = False) -> Value:
    """A float without its fraction as an integer; a mark where it has none.

    `raises`: whether Python does so, where there is none.
    """
    x = halves.widened(w, x)
    assert isinstance(x.type, str)
    info = np.iinfo(dtype)
    if raises and w.handles:
        w.mark(is_nan(w, x), why, ValueError)
        if isinstance(x, Literal):
            infinite: Value = Literal(math.isinf(x.value), "bool")
        else:
            size = w.op("abs", x.type, x)
            infinite = w.op("eq", "bool", size, Literal(math.inf, x.type))
        w.mark(infinite, why, OverflowError)
    if isinstance(x, Literal):
        fits = math.isfinite(x.value) and info.min <= int(x.value) <= info.max
        w.mark(Literal(not fits, "bool"), why)
        return Literal(int(x.value), dtype)
    # of all types the limits are powers of two, or one less: that is a float's next one
    low = Literal(float(info.min) - (1.0 if bits(dtype) < bits(x.type) else 0.0), x.type)
    high = Literal(float(info.max) + (1.0 if bits(dtype) < 64 else 0.0), x.type)
    below = "gt" if bits(dtype) < bits(x.type) else "ge"
    inside = w.op("and", "bool", w.op(below, "bool", x, low), w.op("lt", "bool", x, high))
    w.mark(w.op("not", "bool", inside), why)
    return w.op("cast", dtype, x)


def stored(w: Writes, x: Num, dtype: str) -> Value:
    """A number as it is put into an array of a dtype."""
    x = scalar(x)
    to, from_ = kind_of(dtype), kind_of(x.dtype)
    if from_ == "c" and to != "c":
        raise Leaves("a complex number is put where a real one has to be")
    if from_ == "f" and to in "iu":
        return to_int(w, x.value, dtype, "a float that is no such integer is put into an array")
    if from_ in "iu" and to in "iu":
        _marked_outside(w, x.value, dtype)  # NumPy raises, but not of all types
        return cast(w, x.value, dtype)
    if from_ in "iu" and dtype in _EXACT:
        marked_beyond(w, x.value, _EXACT[dtype])
    return cast(w, x.value, dtype)


def as_numpy(w: Writes, x: Num, dtype: str) -> Value:
    """A number as one of NumPy's: ``numpy.int8(x)``. Of NumPy's own integers bits are dropped."""
    if x.kind == NUMPY and {kind_of(x.dtype), kind_of(dtype)} <= {"i", "u"}:
        return cast(w, x.value, dtype)
    return stored(w, x, dtype)


def _marked_outside(w: Writes, x: Value, dtype: str) -> None:
    """A mark where an integer is none of a type."""
    own, to = np.iinfo(str(x.type)), np.iinfo(dtype)
    why = "an integer that does not fit is put into an array"
    if own.min < to.min:
        w.mark(compared(w, "lt", x, int(to.min)), why)
    if own.max > to.max:
        w.mark(compared(w, "gt", x, int(to.max)), why)


def compared(w: Writes, op: str, x: Value, limit: int) -> Value:
    """Whether an integer is beyond a limit."""
    if isinstance(x, Literal):
        return Literal(x.value < limit if op == "lt" else x.value > limit, "bool")
    return w.op(op, "bool", x, Literal(limit, str(x.type)))


def as_float64(w: Writes, x: Num) -> Num:
    """A float of CuPy's as Python has it, which does not take small ones for zero."""
    if x.kind not in ON_DEVICE or x.dtype != "float32" or isinstance(x.value, Literal):
        return x
    return Num("float64", PYTHON, w.op("cast", "float64", x.value, what=KEPT))


def as_python(w: Writes, x: Num) -> Num:
    """A number as one of Python's: ``x.item()``."""
    x = as_float64(w, x)
    if x.dtype == "uint64" and not isinstance(x.value, Literal):
        w.mark(w.op("gt", "bool", x.value, Literal((1 << 63) - 1, "uint64")), integers.OVERFLOWS)
    dtype = OF_PYTHON.get(kind_of(x.dtype), "int64")
    return Num(dtype, PYTHON, cast(w, x.value, dtype))


def truth(w: Writes, x: Num) -> Value:
    """Whether a number is not zero."""
    if x.dtype == "bool":
        return x.value
    if x.kind in ON_DEVICE:
        x = as_float64(w, x)
    if isinstance(x.value, Literal):
        return Literal(bool(x.value.value), "bool")
    if x.dtype in PARTS:
        return complexes.differ(w, x.value, Literal(0j, x.dtype))
    value = halves.widened(w, x.value)
    return w.op("ne", "bool", value, Literal(0, str(value.type)))


# --- two operands -----------------------------------------------------------------------------


_UFUNCS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide,
    "%": np.remainder, "**": np.power, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
    "!=": np.not_equal,
}  # fmt: skip
_COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


@functools.lru_cache(1024)
def resolved(ufunc: Any, *types: Any) -> tuple[str, ...]:
    """The dtypes of the loop that NumPy chooses: of operands and result."""
    try:
        found = ufunc.resolve_dtypes((*types, *(None,) * ufunc.nout))
    except TypeError:
        raise TraceError(f"numpy.{ufunc.__name__} does not take such numbers") from None
    return tuple(x.name for x in found)


def as_type(x: Num) -> Any:
    """A number as `resolved` takes it."""
    return _WEAK[x.dtype] if x.kind == PYTHON else np.dtype(x.dtype)


def _python_types(op: str, a: str, b: str) -> tuple[str, str]:
    """The dtypes of operands and result between Python's numbers."""
    kinds = kind_of(a) + kind_of(b)
    if "c" in kinds:
        if op not in ("==", "!=", "+", "-", "*", "/", "**"):
            raise Leaves(f"{op} of complex numbers", TypeError)
        return "complex128", "bool" if op in _COMPARED else "complex128"
    if op in _COMPARED:
        return ("float64" if "f" in kinds else "int64"), "bool"
    if "f" in kinds:
        if op in BITS or op in ("<<", ">>"):
            raise TraceError(f"{op} of floats")
        return "float64", "float64"
    if op == "/":
        return "float64", "float64"
    if kinds == "bb" and op in BITS:
        return "bool", "bool"
    return "int64", "int64"


def _types(op: str, a: Num, b: Num) -> tuple[str, str, str]:
    """The dtypes of operands and result of an operation, and whose number that is."""
    found = set()
    for x, y in itertools.product(_kinds(a), _kinds(b)):
        if x.kind == y.kind == PYTHON:
            found.add((*_python_types(op, a.dtype, b.dtype), PYTHON))
        else:
            one, other, out = resolved(_UFUNCS[op], as_type(x), as_type(y))
            if one != other:
                raise TraceError(f"{op} of {a.dtype} and {b.dtype}")
            found.add((one, out, NUMPY))
    if len({f[:2] for f in found}) > 1:
        raise TraceError(f"{op} of a number that is Python's or NumPy's, as it comes")
    loop, out, kind = found.pop()
    return loop, out, EITHER if found else kind


def _kinds(x: Num) -> list[Num]:
    if x.kind != EITHER:
        return [x]
    return [x._replace(kind=PYTHON), x._replace(kind=NUMPY)]


def binary(w: Writes, op: str, a: Num, b: Num) -> Num:
    """The result of an operation of two numbers."""
    if op == "**" and a.kind == NO_AXES:
        raise TraceError("a power of an array without axes")
    b, is_array = _beside_complex(a, b), NO_AXES in (a.kind, b.kind)
    a, b = scalar(a), scalar(b)
    loop, out, kind = _types(op, a, b)
    if loop in PARTS:
        x, y = operand(w, a, loop), operand(w, b, loop)
        if is_array:  # whose loops may fuse products and sums
            name = w.external("ufunc", _UFUNCS[op].__name__, loop, loop, loop)
            return Num(out, kind, w.op("ufunc", loop, x, y, what=name))
        real = a.dtype not in PARTS, b.dtype not in PARTS
        return Num(out, kind, complexes.binary(w, op, x, y, kind, real))
    numpy_only = kind == NUMPY
    if loop == "float64" and not numpy_only and op == "/":
        for n in (a, b):
            if kind_of(n.dtype) == "i":
                marked_beyond(w, n.value, EXACT)
    x, y = operand(w, a, loop), operand(w, b, loop)
    letter = kind_of(loop)
    if op == "**" and letter == "f" and _is_of_ufunc(a, b, loop):
        name = w.external("ufunc", "power", loop, loop, loop)
        return Num(out, kind, w.op("ufunc", loop, x, y, what=name))
    if letter == "f":
        x, y = halves.widened(w, x), halves.widened(w, y)
        found = _of_floats(w, op, x, y, str(x.type), kind)
        if op == "%" and loop == halves.HALF:  # NumPy rounds the quotient too, and may warn
            halves.narrowed(w, _of_floats(w, "//", x, y, str(x.type), kind))
        return Num(out, kind, halves.narrowed(w, found) if loop == halves.HALF else found)
    if loop == "bool":
        if op in ("+", "*"):
            op = {"+": "|", "*": "&"}[op]
        return Num(out, kind, w.op(BITS[op], "bool", x, y))
    if op == "<<" and numpy_only:  # which drops bits and says nothing
        integers.marked_shift(w, y, loop)
        return Num(out, kind, w.op("shl", loop, x, y))
    says = not numpy_only or (op != "**" and not w.ignores("over"))
    raises = ZeroDivisionError if kind == PYTHON else None
    return Num(out, kind, integers.of_two(w, op, x, y, loop, says=says, raises=raises))


def _beside_complex(a: Num, b: Num) -> Num:
    """The second operand: beside a complex number of Python's a float64 is one of Python's."""
    if a.dtype != "complex128" or b.dtype != "float64" or b.kind in (PYTHON, NO_AXES):
        return b
    if a.kind == EITHER and b.kind == NUMPY:
        raise TraceError("a complex number that is Python's or NumPy's, as it comes")
    return b._replace(kind=PYTHON) if a.kind == PYTHON else b


def _is_of_ufunc(a: Num, b: Num, loop: str) -> bool:
    """Whether NumPy's power goes to the ufunc: a NumPy integer with a Python float.

    Or to the power of one of NumPy's that has fewer bits than the result.

    Its loop has other last bits than the C library's function where it is written for AVX-512.
    """
    if a.kind == b.kind == NUMPY and kind_of(a.dtype) != "f" and kind_of(b.dtype) == "f":
        return b.dtype != loop
    kinds = {x.kind: kind_of(x.dtype) for x in (a, b)}
    return kinds.get(PYTHON) == "f" and kinds.get(NUMPY) in ("i", "u", "b")


def _of_floats(w: Writes, op: str, x: Value, y: Value, dtype: str, kind: str) -> Value:
    numpy_only, noted = kind == NUMPY, None if kind == PYTHON else NOTED
    zero = Literal(0.0, dtype)
    if op in PLAIN:
        return w.op(PLAIN[op], dtype, x, y, what=noted)
    noted = NOTED if w.handles else noted  # never before it was asked whether y is zero
    if op == "**":
        return _power(w, x, y, dtype, kind)
    if not isinstance(y, Literal) or y.value == 0:
        if op != "/" or not numpy_only:
            raises = ZeroDivisionError if kind == PYTHON else None
            w.mark(w.op("eq", "bool", y, zero), "a division by zero", raises)
    if op == "/":
        return w.op("div", dtype, x, y, what=noted)
    rest = call(w, "fmod" if dtype == "float64" else "fmodf", dtype, x, y)
    is_rest = w.op("ne", "bool", rest, zero)
    unlike = w.op("ne", "bool", w.op("lt", "bool", y, zero), w.op("lt", "bool", rest, zero))
    turned = w.op("and", "bool", is_rest, unlike)
    if op == "%":
        up = w.op("select", dtype, turned, w.op("add", dtype, rest, y), rest)
        return w.op("select", dtype, is_rest, up, w.op("copysign", dtype, zero, y))
    assert op == "//"
    quotient = w.op("div", dtype, w.op("sub", dtype, x, rest), y, what=noted)
    less = w.op("sub", dtype, quotient, Literal(1.0, dtype))
    quotient = w.op("select", dtype, turned, less, quotient)
    whole = w.op("floor", dtype, quotient)
    over = w.op("gt", "bool", w.op("sub", dtype, quotient, whole), Literal(0.5, dtype))
    whole = w.op("select", dtype, over, w.op("add", dtype, whole, Literal(1.0, dtype)), whole)
    signed = w.op("copysign", dtype, zero, w.op("div", dtype, x, y))
    return w.op("select", dtype, w.op("ne", "bool", quotient, zero), whole, signed)


def scalar(x: Num) -> Num:
    """A number, also of an array without axes."""
    return x._replace(kind=NUMPY) if x.kind == NO_AXES else x


def _power(w: Writes, x: Value, y: Value, dtype: str, kind: str) -> Value:
    name = "pow" if dtype == "float64" else "powf"
    found = quiet_call(w, name, dtype, x, y, loud=kind != PYTHON)
    if kind != NUMPY:  # a complex number, or an error
        odd = w.op("not", "bool", is_finite(w, found))
        ends = w.op("and", "bool", is_finite(w, x), is_finite(w, y))
        if kind == PYTHON and w.handles:
            zero = w.op("eq", "bool", x, Literal(0.0, dtype))
            below = w.op("and", "bool", zero, w.op("lt", "bool", y, Literal(0.0, dtype)))
            w.mark(below, "zero to a negative power", ZeroDivisionError)
            over = w.op("and", "bool", ends, w.op("not", "bool", is_nan(w, found)))
            over = w.op("and", "bool", over, odd)
            w.mark(over, "a power that is no float", OverflowError)
        w.mark(w.op("and", "bool", odd, ends), "a power that is no float")
        if not isinstance(y, Literal) or not float(y.value).is_integer():  # of -inf
            infinite = w.op("eq", "bool", x, Literal(-math.inf, dtype))
            w.mark(infinite, "a power of minus infinity")
    return found


def call(w: Writes, name: str, dtype: str, *args: Value) -> Register:
    """A function of the C library."""
    return w.op("call", dtype, *args, what=w.external("libm", name, dtype, str(len(args))))


def quiet_call(w: Writes, name: str, dtype: str, *args: Value, loud: bool = False) -> Register:
    """Call for Python, which checks results itself: no notes where exceptions are handled.

    `loud`: nothing has to be kept quiet.
    """
    before = w.errors
    quiet = w.handles and not loud
    if quiet:
        w.set_errors(Errors(("ignore",) * len(ERRORS)))
    found = call(w, name, dtype, *args)
    if quiet:
        w.set_errors(before)
    return found


def is_finite(w: Writes, x: Value) -> Value:
    """Whether a float is finite."""
    if isinstance(x, Literal):
        return Literal(math.isfinite(x.value), "bool")
    x = halves.widened(w, x)
    return w.op("lt", "bool", w.op("abs", str(x.type), x), Literal(math.inf, str(x.type)))


def is_nan(w: Writes, x: Value) -> Value:
    """Whether a float is NaN."""
    if isinstance(x, Literal):
        return Literal(x.value != x.value, "bool")
    if str(x.type) in PARTS:
        return complexes.differ(w, x, x)
    x = halves.widened(w, x)
    return w.op("ne", "bool", x, x)


def compare(w: Writes, op: str, a: Num, b: Num) -> Num:
    """A comparison of two numbers."""
    b = _beside_complex(a, b)
    a, b = scalar(a), scalar(b)
    whole = {kind_of(x.dtype) for x in (a, b)} <= {"i", "u", "b"}
    if whole:  # exactly, whatever their types
        names = {a.dtype, b.dtype}
        if "uint64" in names and len(names) > 1:
            return Num("bool", either(a, b), _beside_uint64(w, op, a.value, b.value))
        loop = a.dtype if len(names) == 1 else "int64"
        x, y = cast(w, a.value, loop), cast(w, b.value, loop)
        kind = either(a, b)
    else:
        loop, _, kind = _types(op, a, b)
        for n in (a, b):
            if kind_of(n.dtype) in "iu":
                marked_beyond(w, n.value, _EXACT.get(loop, EXACT))
        x, y = (halves.widened(w, cast(w, n.value, loop)) for n in (a, b))
        if loop in PARTS:
            if op not in ("==", "!="):
                raise TraceError(f"{op} of complex numbers")
            asked = complexes.equal if op == "==" else complexes.differ
            return Num("bool", kind, asked(w, x, y))
    return Num("bool", kind, w.op(_COMPARED[op], "bool", x, y))


def _beside_uint64(w: Writes, op: str, x: Value, y: Value) -> Value:
    """A comparison of a `uint64` with another integer: what is less than zero is less than all."""
    if x.type != "uint64":
        x, y, op = y, x, _TURNED[op]
    low = Literal(op in ("!=", ">", ">="), "bool")
    if isinstance(y, Literal):
        if y.value < 0:
            return low
        return w.op(_COMPARED[op], "bool", x, Literal(int(y.value), "uint64"))
    if kind_of(str(y.type)) != "i":
        return w.op(_COMPARED[op], "bool", x, cast(w, y, "uint64"))
    y = cast(w, y, "int64")
    is_low = w.op("lt", "bool", y, Literal(0, "int64"))
    found = w.op(_COMPARED[op], "bool", x, cast(w, y, "uint64"))
    return w.op("select", "bool", is_low, low, found)


_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


# --- one operand ------------------------------------------------------------------------------


def unary(w: Writes, op: str, a: Num) -> Num:
    """``-a``, ``+a``, ``~a``."""
    a = scalar(a)
    if a.dtype == "bool":
        if a.kind == PYTHON:
            a = Num("int64", PYTHON, cast(w, a.value, "int64"))
        elif op == "~" and a.kind == NUMPY:
            return Num("bool", NUMPY, w.op("not", "bool", a.value))
        else:
            raise TraceError(f"{op} of a truth value")
    if op == "+":
        return a
    if a.dtype in PARTS and op == "-":
        return a._replace(value=complexes.negative(w, a.value))
    if op == "~":
        if kind_of(a.dtype) in "fc":
            raise TraceError("~ of a float")
        ones = int(np.iinfo(a.dtype).max) if kind_of(a.dtype) == "u" else -1
        return a._replace(value=w.op("xor", a.dtype, a.value, Literal(ones, a.dtype)))
    if isinstance(a.value, Literal) and (a.dtype == "float64" or 0 <= a.value.value < 1 << 62):
        if kind_of(a.dtype) != "u":
            return a._replace(value=Literal(-a.value.value, a.dtype))
    if kind_of(a.dtype) == "f":
        return a._replace(value=_of_float(w, "neg", a.value))
    integers.marked_least(w, a)
    return a._replace(value=w.op("sub", a.dtype, Literal(0, a.dtype), a.value))


def _of_float(w: Writes, op: str, x: Value) -> Value:
    """Apply one instruction to a float of any width."""
    wide = halves.widened(w, x)
    found = w.op(op, str(wide.type), wide)
    return halves.narrowed(w, found) if x.type == halves.HALF else found


def absolute(w: Writes, a: Num) -> Num:
    """``abs(a)``."""
    if a.kind == NO_AXES and a.dtype in PARTS:
        raise TraceError("abs of an array without axes")
    a = scalar(a)
    if a.dtype == "bool":
        if a.kind == EITHER:
            raise TraceError("abs of a truth value")
        return unary(w, "+", a) if a.kind == PYTHON else a
    if a.dtype in PARTS:
        return Num(PARTS[a.dtype], a.kind, complexes.size(w, a.value, a.kind))
    if kind_of(a.dtype) == "f":
        return a._replace(value=_of_float(w, "abs", a.value))
    if kind_of(a.dtype) == "u":
        return a
    integers.marked_least(w, a)
    zero = Literal(0, a.dtype)
    minus = w.op("sub", a.dtype, zero, a.value)
    return a._replace(
        value=w.op("select", a.dtype, w.op("lt", "bool", a.value, zero), minus, a.value)
    )
