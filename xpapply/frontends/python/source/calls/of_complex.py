"""Functions of complex numbers: of Python's own, of ``cmath`` and of NumPy."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import PARTS, Value
from .. import arrays, numbers, whole
from ..kinds import complexes
from ..values import NO_AXES, PYTHON, Known, Num, Tup, Writes
from .common import Call, as_float, exactly, number
from .of_math import both
from .of_numpy import ufunc_of


def _complex(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """``complex(...)``."""
    given = dict(zip(("real", "imag"), args, strict=False)) | kwargs
    if len(args) > 2 or not {*given} <= {"real", "imag"}:
        raise t.refuse("complex with further arguments")
    zero = Literal(0.0, "float64")
    found: dict[str, tuple[Value, Value]] = {}
    for name, x in given.items():
        if isinstance(x, Known) and isinstance(x.value, str):
            raise t.refuse("a complex number of a text")
        if isinstance(x, Num) and x.kind == NO_AXES:
            raise t.refuse("a complex number of an array without axes")
        value = numbers.cast(t, number(t, x).value, "complex128")
        found[name] = complexes.parts(t, value)
    real, imag = found.get("real", (zero, None)), found.get("imag", (zero, None))
    is_complex = {name: number(t, x).dtype in PARTS for name, x in given.items()}
    a: Value = real[0]
    b: Value = imag[0]
    if is_complex.get("imag"):
        assert imag[1] is not None
        a = t.op("sub", "float64", a, imag[1])
    if is_complex.get("real"):
        assert real[1] is not None
        b = t.op("add", "float64", real[1], b) if "imag" in given else real[1]
    return Num("complex128", PYTHON, complexes.made(t, a, b))


def _parts(t: Writes, x: Any) -> tuple[Value, Value]:
    """The parts of an argument of ``cmath``."""
    return complexes.parts(t, numbers.cast(t, number(t, x).value, "complex128"))


def _ends(t: Writes, *values: Value) -> Value:
    """Whether all are finite."""
    found: Value = Literal(True, "bool")
    for x in values:
        found = both(t, found, numbers.is_finite(t, x))
    return found


def _finite(t: Writes, *values: Value) -> None:
    """A mark where one is not, for which ``cmath`` has tables."""
    ends = _ends(t, *values)
    odd: Value = (
        Literal(not ends.value, "bool") if isinstance(ends, Literal) else t.op("not", "bool", ends)
    )
    t.mark(odd, "cmath of what is not finite")


def _call(t: Writes, name: str, *args: Value) -> Value:
    return numbers.quiet_call(t, name, "float64", *args)


def _phase(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    real, imag = _parts(t, args[0])
    _finite(t, real, imag)
    return Num("float64", PYTHON, _call(t, "atan2", imag, real))


def _polar(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Tup:
    exactly(t, args, kwargs, 1)
    real, imag = _parts(t, args[0])
    _finite(t, real, imag)
    size = _call(t, "hypot", real, imag)
    _finite(t, size)
    return Tup((Num("float64", PYTHON, size), _phase(t, args, {})))


def _turned(t: Writes, size: Value, angle: Value, why: str) -> Num:
    parts = [t.op("mul", "float64", size, _call(t, f, angle)) for f in ("cos", "sin")]
    t.mark(t.op("not", "bool", _ends(t, *parts)), why)
    return Num("complex128", PYTHON, complexes.made(t, *parts))


def _rect(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 2)
    size, angle = (as_float(t, [x], {}).value for x in args)
    _finite(t, size, angle)
    return _turned(t, size, angle, "cmath.rect has no value")


def _exp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    real, imag = _parts(t, args[0])
    _finite(t, real, imag)
    large = t.op("gt", "bool", real, Literal(700.0, "float64"))
    t.mark(large, "cmath.exp of a large number")
    return _turned(t, _call(t, "exp", real), imag, "cmath.exp has no value")


def _sqrt(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """The root with half the angle: of the larger half of the size, and what is left over it."""
    exactly(t, args, kwargs, 1)
    real, imag = _parts(t, args[0])
    _finite(t, real, imag)
    a, b = (t.op("abs", "float64", p) for p in (real, imag))
    small = Literal(1e-290, "float64")
    tiny = t.op("and", "bool", t.op("lt", "bool", a, small), t.op("lt", "bool", b, small))
    zero = Literal(0.0, "float64")
    none = t.op("and", "bool", *(t.op("eq", "bool", p, zero) for p in (a, b)))
    tiny = t.op("and", "bool", tiny, t.op("not", "bool", none))
    t.mark(tiny, "cmath.sqrt of a very small number")
    eighth = Literal(8.0, "float64")
    a, high = t.op("div", "float64", a, eighth), t.op("div", "float64", b, eighth)
    size = t.op("add", "float64", a, _call(t, "hypot", a, high))
    two = Literal(2.0, "float64")
    whole_ = t.op("mul", "float64", two, t.op("sqrt", "float64", size))
    below = t.op("mul", "float64", two, whole_)
    below = t.op("select", "float64", none, Literal(1.0, "float64"), below)
    rest = t.op("div", "float64", b, below)
    right = t.op("ge", "bool", real, Literal(0.0, "float64"))
    x = t.op("select", "float64", right, whole_, rest)
    y = t.op("select", "float64", right, rest, whole_)
    y = t.op("copysign", "float64", y, imag)
    return Num("complex128", PYTHON, complexes.made(t, x, y))


def _asked(name: str) -> Call:
    """``cmath.isnan`` and such."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, 1)
        parts = _parts(t, args[0])
        if name == "isfinite":
            return Num("bool", PYTHON, _ends(t, *parts))
        if name == "isnan":
            found = [numbers.is_nan(t, p) for p in parts]
        else:
            inf = Literal(math.inf, "float64")
            found = [t.op("eq", "bool", t.op("abs", "float64", p), inf) for p in parts]
        return Num("bool", PYTHON, t.op("or", "bool", *found))

    return call


def _part(name: str) -> Call:
    """``numpy.real`` and ``numpy.imag`` of a number."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        exactly(t, args, kwargs, 1)
        if not isinstance(args[0], Num) or args[0].dtype == "bool":
            raise t.refuse(f"numpy.{name} of something else than a number")
        return arrays.part(t, args[0], name)

    return call


def _angle(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.angle`` of a number."""
    exactly(t, args, kwargs, 1)
    if whole.is_array(*args) or number(t, args[0]).dtype not in PARTS:
        raise t.refuse("numpy.angle of something else than a complex number")
    x = number(t, args[0])
    # whatever they are Python's or NumPy's: an array is made of it
    real, imag = (Num(PARTS[x.dtype], "numpy", p) for p in complexes.parts(t, x.value))
    return ufunc_of(np.arctan2)(t, [imag, real], {})


ROWS: dict[Any, Call] = {
    complex: _complex, cmath.phase: _phase, cmath.polar: _polar, cmath.rect: _rect,
    cmath.exp: _exp, cmath.sqrt: _sqrt, cmath.isnan: _asked("isnan"),
    cmath.isinf: _asked("isinf"), cmath.isfinite: _asked("isfinite"),
    np.real: _part("real"), np.imag: _part("imag"), np.angle: _angle,
}  # fmt: skip
"""A row each."""
