"""Python's complex numbers: two floats each, with the arithmetic that Python defines.

So they decide, and run in kernels, as floats do. As Python 3.13 and before have it; from 3.14 on,
where a float beside a complex number has no imaginary part, Python itself is called.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import syntax
from ....batching.rules import ufunc_row
from ....batching.scalars import LARGEST
from . import scalars
from .python_builtins import plain
from .recorder import Recorder
from .stand_ins import values
from .tracer import Tracer, must

_AS_FLOATS = sys.version_info < (3, 14)
_MOST_SQUARED = 100
"""Whole exponents up to which Python multiplies."""


class Complex(Tracer):
    """A complex number with known parts; reading its `ref` combines them."""

    __slots__ = ("_made", "im", "re")

    def __init__(self, recorder: Recorder, re: Any, im: Any) -> None:
        for name, x in (("re", re), ("im", im), ("_made", None)):
            object.__setattr__(self, name, x)
        super().__init__(recorder, complex(values(re), values(im)), None)

    @property  # type: ignore[override]
    def ref(self) -> Any:
        if self._made is None:
            value = self.value
            made = self.recorder.call(
                syntax.COMPLEX, lambda *_: value, (self.re, self.im), check=False
            )
            object.__setattr__(self, "_made", made.ref)
        return self._made

    @ref.setter
    def ref(self, ref: Any) -> None:
        object.__setattr__(self, "_made", ref)


def made(recorder: Recorder, re: Any, im: Any) -> Any:
    """``complex(re, im)`` of two floats."""
    if isinstance(re, Tracer) or isinstance(im, Tracer):
        return Complex(recorder, re, im)
    return complex(re, im)


def of_numbers(recorder: Recorder, args: tuple, kwargs: dict) -> Any:
    """``complex(...)`` of numbers that depend on the slice."""
    recorder.real(lambda: complex(*values(args), **values(kwargs)))
    given = dict(zip(("real", "imag"), args, strict=False)) | kwargs
    parts = [given.get("real", 0.0), given.get("imag", 0.0)]
    if any(isinstance(x, complex) or not isinstance(x, (int, float)) for x in values(parts)):
        return scalars.call(recorder, complex, args, kwargs)
    return made(recorder, *(_float(x) for x in parts))


def _float(x: Any) -> Any:
    if not isinstance(x, Tracer):
        return float(x)
    return plain(x, float)


def parts(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of a number."""
    if isinstance(x, Complex):
        return x.re, x.im
    if not isinstance(values(x), complex):
        return _float(x), 0.0
    if not isinstance(x, Tracer):
        return x.real, x.imag
    return _part(x, "real"), _part(x, "imag")


def _part(x: Tracer, name: str) -> Any:
    value = getattr(x.value, name)
    return x.recorder.call(syntax.PART, lambda _: value, (x,), batch=((x, name), {}), check=False)


# --- arithmetic -----------------------------------------------------------------------------------


def arithmetic(recorder: Recorder, python: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """``a + b`` and so on, one of which is complex."""
    by_parts = _ARITHMETIC.get(python)
    recorder.real(python, values(a), values(b))
    large = any(isinstance(x, int) and abs(x) > LARGEST for x in values((a, b)))
    if by_parts is not None and _AS_FLOATS and not large:
        found = by_parts(recorder, a, b)
        if found is not NotImplemented:
            return found
    return scalars.call(recorder, python, (a, b), {})


def _added(recorder: Recorder, a: Any, b: Any) -> Any:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return made(recorder, ar + br, ai + bi)


def _subtracted(recorder: Recorder, a: Any, b: Any) -> Any:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return made(recorder, ar - br, ai - bi)


def _multiplied(recorder: Recorder, a: Any, b: Any) -> Any:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return made(recorder, ar * br - ai * bi, ar * bi + ai * br)


def _divided(recorder: Recorder, a: Any, b: Any) -> Any:
    """Smith's, CACM 5 (1962), algorithm 116, as Python has it."""
    (ar, ai), (br, bi) = parts(a), parts(b)
    if abs(br) >= abs(bi):
        must(br != 0)  # both are then
        ratio = bi / br
        below = br + bi * ratio
        return made(recorder, (ar + ai * ratio) / below, (ai - ar * ratio) / below)
    must(abs(bi) >= abs(br))  # neither is NaN
    ratio = br / bi
    below = br * ratio + bi
    return made(recorder, (ar * ratio + ai) / below, (ai * ratio - ar) / below)


def _power(recorder: Recorder, a: Any, b: Any) -> Any:
    if isinstance(b, (Tracer, complex)):
        return NotImplemented
    if not (b == b // 1 and 0 < b <= _MOST_SQUARED):
        return NotImplemented
    bits, found, square = int(b), 1 + 0j, a
    while True:
        if bits & 1:
            found = _multiplied(recorder, found, square)
        bits >>= 1
        if not bits:
            break
        square = _multiplied(recorder, square, square)
    for x in parts(found):
        must(abs(x) < math.inf)  # Python's raises else
    return found


def _equal(recorder: Recorder, a: Any, b: Any) -> Any:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return (ar == br) & (ai == bi)


def _not_equal(recorder: Recorder, a: Any, b: Any) -> Any:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return (ar != br) | (ai != bi)


_ARITHMETIC: dict[Any, Callable[[Recorder, Any, Any], Any]] = {
    operator.add: _added,
    operator.sub: _subtracted,
    operator.mul: _multiplied,
    operator.truediv: _divided,
    operator.pow: _power,
    operator.eq: _equal,
    operator.ne: _not_equal,
}


def unary(python: Callable[[Any], Any], x: Tracer) -> Any:
    """``-x``, ``+x`` or ``abs(x)``."""
    re, im = parts(x)
    if python is operator.neg:
        return made(x.recorder, -re, -im)
    if python is operator.pos:
        return x
    if python is operator.abs:
        x.recorder.real(abs, x.value)
        value = abs(x.value)  # by C's function, which that of `math` is not
        found = x.recorder.call(ufunc_row(np.hypot), lambda *_: value, (re, im), check=False)
        must(found != math.inf)  # it may be an overflow
        return found
    return scalars.call(x.recorder, python, (x,), {})


def attribute(x: Tracer, name: str) -> Any:
    """``x.name``."""
    if name in ("real", "imag"):
        return parts(x)[name == "imag"]
    if name == "conjugate":
        re, im = parts(x)
        return lambda: made(x.recorder, re, -im)
    return scalars.attribute(x, name)
