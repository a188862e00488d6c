"""Complex numbers: their operations on the two floats, as Python and NumPy compute them.

Python and NumPy multiply alike, and divide and take powers in ways of their own. Whether this
Python computes as it is written here is asked once: other versions, and compilers that fuse a
product and a sum, may have other last bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from .....errors import TraceError
from .....ir.typed import Literal, Register
from .....ir.typed.function import NOTED, PARTS, Value
from ..values import EITHER, PYTHON, Writes

MOST_POWER = 100
"""The whole exponent up to which Python multiplies."""


def parts(w: Writes, x: Value) -> tuple[Value, Value]:
    """The real and the imaginary part."""
    part = PARTS[str(x.type)]
    if isinstance(x, Literal):
        return Literal(x.value.real, part), Literal(x.value.imag, part)
    return w.op("real", part, x), w.op("imag", part, x)


def made(w: Writes, real: Value, imag: Value) -> Value:
    """The number of two parts."""
    dtype = {part: whole for whole, part in PARTS.items()}[str(real.type)]
    if isinstance(real, Literal) and isinstance(imag, Literal):
        return Literal(complex(real.value, imag.value), dtype)
    return w.op("complex", dtype, real, imag)


def cast(w: Writes, x: Value, dtype: str, cast_part: Callable[..., Value]) -> Value:
    """A number in another type: a complex one becomes no real one."""
    if dtype not in PARTS:
        raise TraceError("a complex number becomes a real one")
    if str(x.type) in PARTS:
        return made(w, *(cast_part(w, p, PARTS[dtype]) for p in parts(w, x)))
    return made(w, cast_part(w, x, PARTS[dtype]), Literal(0.0, PARTS[dtype]))


def both(w: Writes, op: str, a: Value, b: Value) -> Value:
    """Two truth values as one."""
    return w.op(op, "bool", a, b)


def equal(w: Writes, x: Value, y: Value) -> Value:
    """Whether two numbers are the same."""
    one, other = (w.op("eq", "bool", p, q) for p, q in zip(parts(w, x), parts(w, y), strict=True))
    return both(w, "and", one, other)


def differ(w: Writes, x: Value, y: Value) -> Value:
    """Whether two numbers are not the same."""
    one, other = (w.op("ne", "bool", p, q) for p, q in zip(parts(w, x), parts(w, y), strict=True))
    return both(w, "or", one, other)


def binary(w: Writes, op: str, x: Value, y: Value, kind: str, are_real: tuple[bool, bool]) -> Value:
    """The result of an operation of two numbers of one type.

    `are_real`: whether they were real numbers.
    """
    if kind != "numpy" and not _as_written():
        raise TraceError("complex numbers, which this Python computes in another way")
    if kind != "numpy" and any(are_real) and _apart():
        raise TraceError("a complex and a real number, which this Python computes by parts")
    noted = None if kind == PYTHON and not w.handles else NOTED
    if op in ("+", "-"):
        name = "add" if op == "+" else "sub"
        pairs = zip(parts(w, x), parts(w, y), strict=True)
        return made(w, *(w.op(name, str(p.type), p, q, what=noted) for p, q in pairs))
    if op == "*":
        return _product(w, x, y, noted)
    if kind == EITHER:
        raise TraceError(f"{op} of complex numbers that are Python's or NumPy's, as it comes")
    if op == "/":
        return _quotient(w, x, y, kind, noted)
    assert op == "**"
    return _power(w, x, y, kind, is_real=are_real[1])


def _product(w: Writes, x: Value, y: Value, noted: Any) -> Value:
    (a, b), (c, d) = parts(w, x), parts(w, y)
    part = str(a.type)
    ac, bd, ad, bc = (
        w.op("mul", part, p, q, what=noted) for p, q in ((a, c), (b, d), (a, d), (b, c))
    )
    real, imag = w.op("sub", part, ac, bd, what=noted), w.op("add", part, ad, bc, what=noted)
    if noted is None and _recovers():
        _no_nan(w, real, imag)
    return made(w, real, imag)


def _no_nan(w: Writes, real: Value, imag: Value) -> None:
    """A mark where Python may give infinities for what has none by the formula."""
    odd = both(w, "and", *(w.op("ne", "bool", p, p) for p in (real, imag)))
    w.mark(odd, "a complex number that is NaN")


def _quotient(w: Writes, x: Value, y: Value, kind: str, noted: Any) -> Value:
    """Divide, the larger part first: R. L. Smith, Communications of the ACM 5 (1962), 435.

    NumPy multiplies by an inverse, Python divides.
    """
    (a, b), (c, d) = parts(w, x), parts(w, y)
    part = str(a.type)
    zero = Literal(0.0, part)
    none = both(w, "and", *(w.op("eq", "bool", p, zero) for p in (c, d)))
    w.mark(none, "a division by zero", ZeroDivisionError if kind == PYTHON else None)
    if kind != PYTHON:  # whose comparisons note it
        odd = both(w, "or", *(w.op("ne", "bool", p, p) for p in (c, d)))
        w.mark(odd, "a division by a complex NaN")
    sizes = [w.op("abs", part, p) for p in (c, d)]
    first = w.op("ge", "bool", *sizes)

    def chosen(p: Value, q: Value) -> Value:
        return w.op("select", part, first, p, q)

    def op(name: str, p: Value, q: Value) -> Value:
        return w.op(name, part, p, q, what=noted)

    large, small = chosen(c, d), chosen(d, c)
    ratio = op("div", small, large)
    below = op("add", large, op("mul", small, ratio))
    a_ratio, b_ratio = op("mul", a, ratio), op("mul", b, ratio)
    real = op("add", chosen(a, a_ratio), chosen(b_ratio, b))
    imag = op("sub", chosen(b, b_ratio), chosen(a_ratio, a))
    if kind == PYTHON:
        real, imag = (op("div", p, below) for p in (real, imag))
        if _recovers():
            _no_nan(w, real, imag)
    else:
        scale = op("div", Literal(1.0, part), below)
        real, imag = (op("mul", p, scale) for p in (real, imag))
    return made(w, real, imag)


def _power(w: Writes, x: Value, y: Value, kind: str, *, is_real: bool) -> Value:
    dtype = str(x.type)
    if kind != PYTHON:
        name = w.external("ufunc", "power", dtype, dtype, dtype)
        return w.op("ufunc", dtype, x, y, what=name)
    if isinstance(y, Literal) and _is_whole(y.value):
        found = whole_power(w, x, int(y.value.real))
    else:
        found = _power_by_angle(w, x, y, is_real=is_real)
    infinite = [
        w.op("eq", "bool", w.op("abs", "float64", p), Literal(math.inf, "float64"))
        for p in parts(w, found)
    ]
    w.mark(both(w, "or", *infinite), "a power that is no complex number", OverflowError)
    return found


def _is_whole(y: complex) -> bool:
    return not y.imag and abs(y.real) <= MOST_POWER and float(y.real).is_integer()


def _power_by_angle(w: Writes, x: Value, y: Value, *, is_real: bool) -> Value:
    """A power with another exponent; a mark where a computed one may be whole, or x is odd."""
    how = _turns()
    if not how:
        raise TraceError("a complex number to a power, which this Python computes in another way")
    c, d = parts(w, y)
    zero = Literal(0.0, "float64")
    sizes = [w.op("abs", "float64", p) for p in parts(w, x)]
    none = both(w, "and", *(w.op("eq", "bool", p, zero) for p in sizes))
    w.mark(none, "a power of zero")
    ends = both(w, "and", *(w.op("lt", "bool", p, Literal(math.inf, "float64")) for p in sizes))
    w.mark(w.op("not", "bool", ends), "a power of what is not finite")
    if is_real:
        d = zero
    if not isinstance(c, Literal) and is_real:
        few = w.op("le", "bool", w.op("abs", "float64", c), Literal(float(MOST_POWER), "float64"))
        whole = w.op("eq", "bool", c, w.op("trunc", "float64", c))
        w.mark(both(w, "and", few, whole), "a power that may be whole")
    elif not isinstance(d, Literal):
        w.mark(w.op("eq", "bool", d, zero), "a power that may be real")
    return _by_angle(w, x, (c, d), how)


def _by_angle(w: Writes, x: Value, y: tuple[Value, Value], how: str) -> Value:
    """A power by magnitude and angle; `how`: the use of the exponent's imaginary part."""

    def call(name: str, *args: Value) -> Value:
        what = w.external("libm", name, "float64", str(len(args)))
        return w.op("call", "float64", *args, what=what)

    def times(p: Value, q: Value) -> Value:
        return w.op("mul", "float64", p, q)

    (a, b), (c, d) = parts(w, x), y
    far = call("hypot", a, b)
    size_, angle = call("pow", far, c), call("atan2", b, a)
    phase = times(angle, c)
    if not isinstance(d, Literal) or d.value:
        grows = times(angle, d)
        if how == "mul":
            grows = times(_minus(w, angle), d)
        size_ = w.op(how, "float64", size_, call("exp", grows))
        phase = w.op("add", "float64", phase, times(d, call("log", far)))
    return made(w, times(size_, call("cos", phase)), times(size_, call("sin", phase)))


def whole_power(w: Writes, x: Value, n: int) -> Value:
    """A power as Python takes it: a product of squares, or its inverse."""
    one = Literal(1.0 + 0.0j, "complex128")
    found, square, left = one, x, abs(n)
    noted = NOTED if w.handles else None
    found_: Value = found
    while left:
        if left & 1:
            found_ = _product(w, found_, square, noted)
        left >>= 1
        if left:
            square = _product(w, square, square, noted)
    return found_ if n > 0 else _quotient(w, one, found_, PYTHON, noted)


def negative(w: Writes, x: Value) -> Value:
    """``-x``."""
    return made(w, *(_minus(w, p) for p in parts(w, x)))


def conjugate(w: Writes, x: Value) -> Value:
    """``x.conjugate()``."""
    real, imag = parts(w, x)
    return made(w, real, _minus(w, imag))


def _minus(w: Writes, x: Value) -> Value:
    return Literal(-x.value, x.type) if isinstance(x, Literal) else w.op("neg", str(x.type), x)


def size(w: Writes, x: Value, kind: str) -> Register:
    """``abs(x)``."""
    real, imag = parts(w, x)
    part = str(real.type)
    name = "hypot" if part == "float64" else "hypotf"
    found = w.op("call", part, real, imag, what=w.external("libm", name, part, "2"))
    if kind != "numpy":
        inf = Literal(math.inf, part)
        ends = both(
            w, "and", *(w.op("lt", "bool", w.op("abs", part, p), inf) for p in (real, imag))
        )
        over = both(w, "and", ends, w.op("eq", "bool", found, inf))
        w.mark(over, "a size that is no float", OverflowError)
    return found


# --- how this Python computes -------------------------------------------------------------------

_SOME = (0.1 + 0.7j, -1.3 + 0.3j, 2.1 - 1e-3j, -0.9 - 1.7j, 1e5 + 3.3j)


class _Plainly:
    """A writer that computes at once, with Python floats."""

    handles = False

    def op(self, op: str, dtype: Any, *args: Any, what: Any = None) -> Literal:
        x = [a.value for a in args]
        how: dict[str, Callable[..., Any]] = {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
            "div": lambda a, b: a / b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
            "ne": lambda a, b: a != b, "and": lambda a, b: a and b, "abs": abs,
            "select": lambda c, a, b: a if c else b, "neg": lambda a: -a,
            "call": lambda *given: _LIBM[what](*given),
        }  # fmt: skip
        return Literal(how[op](*x), dtype)

    def external(self, *name: str) -> str:
        """The name of a function."""
        return name[1]

    def mark(self, *_: Any) -> None:
        """Ignore marks."""


@functools.cache
def _as_written() -> bool:
    """Whether this Python's products, quotients and powers have the bits of those here."""
    w: Any = _Plainly()
    for x in _SOME:
        for y in _SOME:
            one, other = Literal(x, "complex128"), Literal(y, "complex128")
            if _product(w, one, other, NOTED).value != x * y:  # type: ignore[union-attr]
                return False
            if _quotient(w, one, other, PYTHON, None).value != x / y:  # type: ignore[union-attr]
                return False
        for n in (-3, -1, 0, 1, 2, 3, 7):
            if whole_power(w, Literal(x, "complex128"), n).value != x**n:  # type: ignore[union-attr]
                return False
    return True


_LIBM: dict[str, Callable[..., float]] = {
    "hypot": lambda a, b: abs(complex(a, b)), "pow": math.pow, "atan2": math.atan2,
    "exp": math.exp, "log": math.log, "cos": math.cos, "sin": math.sin,
}  # fmt: skip


@functools.cache
def _turns() -> str:
    """How this Python's powers use the exponent's imaginary part; "": otherwise."""
    w: Any = _Plainly()
    for how in ("div", "mul"):
        pairs = [(x, y) for x in _SOME for y in (*_SOME[:4], 0.5 + 0j, -1.7 + 0j)]
        one = [_by_angle(w, Literal(x, "complex128"), parts(w, Literal(y, "complex128")), how)
               for x, y in pairs]  # fmt: skip
        if [p.value for p in one] == [x**y for x, y in pairs]:  # type: ignore[union-attr]
            return how
    return ""


@functools.cache
def _recovers() -> bool:
    """Whether this Python recovers infinities where the formula of a product gives NaN."""
    found = complex(math.inf, math.inf) * complex(1.0, 0.0)
    return not (math.isnan(found.real) and math.isnan(found.imag))


@functools.cache
def _apart() -> bool:
    """Whether this Python adds a float to the real part alone."""
    return math.copysign(1.0, (complex(-0.0, -0.0) + 0.0).imag) < 0
