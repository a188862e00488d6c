"""Numbers and texts in a format that is written in the source."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .....ir.typed import Literal
from .....library.texts import of_formats
from .. import numbers
from ..places import as_index, described
from ..values import (
    NO_AXES,
    ON_DEVICE,
    PYTHON,
    Abstract,
    Inlined,
    Known,
    Leaves,
    Num,
    Writes,
    integer,
)
from . import letters, texts

_DIGITS = 15
"""After the point, that are computed exactly."""
_SPEC = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>=^]))?(?P<sign>[-+ ])?(?P<hash>#)?(?P<zero>0)?(?P<width>\d+)?"
    r"(?P<between>[,_])?(?:\.(?P<digits>\d+))?(?P<kind>[a-zA-Z%])?",
    re.DOTALL,
)
_BITS = {"b": 1, "o": 3, "x": 4, "X": 4}
_WAYS = {"<": -1, "^": 0, ">": 1}


class _Spec(NamedTuple):
    """A format, as Python says it."""

    fill: str | None
    align: str | None
    sign: str | None
    hash: str | None
    zero: str | None
    width: str | None
    between: str | None
    digits: str | None
    kind: str | None

    @property
    def zeros(self) -> bool:
        """Whether zeros are filled between sign and digits."""
        padded = self.align == "=" and self.fill == "0"
        return padded or (self.zero is not None and self.align is None)

    def room(self, default: str) -> list[Num]:
        """The width, the letter that fills it, and on which side."""
        way = _WAYS[self.align or default]
        return [*map(integer, (int(self.width or 0), ord(self.fill or " "), way))]

    @property
    def plus(self) -> Num:
        """The letter before what is not negative."""
        return integer(ord(self.sign) if self.sign in ("+", " ") else 0)


def formatted(t: Writes, x: Abstract, spec: str) -> Abstract:
    """``format(x, spec)``."""
    if not spec:
        return letters.said(t, x)
    if texts.is_text(x):
        known = texts.of_each(t, x, lambda y: format(y, spec))
        if known is None:
            raise t.refuse(f"a text in the format {spec!r}")
        return known
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise t.refuse(f"the format {spec!r}")
    return _formatted(t, x, _Spec(*found.groups()), spec)


def _formatted(t: Writes, x: Abstract, s: _Spec, spec: str) -> Abstract:
    odd = (s.align == "=" and not s.zeros) or (s.zero is not None and s.align is not None)
    if odd or (s.zeros and s.between):
        raise t.refuse(f"the format {spec!r}")
    if letters.is_any(x):
        if s.kind not in (None, "s") or s.sign or s.hash or s.zero or s.between or s.align == "=":
            raise t.refuse(f"a text in the format {spec!r}")
        most = integer(int(s.digits) if s.digits is not None else 1 << 40)
        return Inlined(of_formats.cut, [letters.of(t, x), most, *s.room("<")], {})
    if not isinstance(x, Num) or x.kind in (NO_AXES, *ON_DEVICE):
        raise t.refuse(f"{described(x)} in a format")
    if x.dtype == "bool":
        x = Num("int64", PYTHON, numbers.cast(t, x.value, "int64"))
    letter = numbers.kind_of(x.dtype)
    if letter == "c":
        raise t.refuse("a complex number in a format")
    if s.kind in ("f", "%"):
        return _decimal(t, x, s, spec)
    if letter == "f":
        if s.kind in ("d", "b", "o", "x", "X", "c", "s"):
            raise Leaves(f"a float in the format {spec!r}", ValueError)
        raise t.refuse(f"a float in the format {spec!r}: as {'{:.6f}'!r}")
    if s.digits is not None or s.kind not in (None, "d", *_BITS):
        raise t.refuse(f"an integer in the format {spec!r}")
    return _integer(t, Num("int64", PYTHON, as_index(t, x)), s, spec)


def _integer(t: Writes, n: Num, s: _Spec, spec: str) -> Inlined:
    width = integer(int(s.width or 0)) if s.zeros else integer(0)
    if s.kind in _BITS:
        if s.between is not None:
            raise t.refuse(f"an integer in the format {spec!r}")
        prefix = letters.of(t, Known(f"0{s.kind}" if s.hash else ""))
        given = [n, integer(_BITS[s.kind]), s.plus]
        ten = integer(ord("A" if s.kind == "X" else "a"))
        if s.zeros or not s.width:
            if s.hash and s.zeros:
                width = integer(int(s.width or 0))
            return Inlined(of_formats.in_bits, [*given, width, prefix, ten], {})
        return Inlined(of_formats.in_bits_within, [*given, prefix, ten, *s.room(">")], {})
    if s.hash is not None:
        raise t.refuse(f"an integer in the format {spec!r}")
    between = integer(ord(s.between) if s.between else 0)
    if s.zeros or not s.width:
        return Inlined(of_formats.integer, [n, s.plus, width, between], {})
    return Inlined(of_formats.integer_within, [n, s.plus, between, *s.room(">")], {})


def _decimal(t: Writes, x: Num, s: _Spec, spec: str) -> Inlined:
    digits = int(s.digits) if s.digits is not None else 6
    if digits > _DIGITS or s.hash is not None:
        raise t.refuse(f"a float in the format {spec!r}")
    if numbers.kind_of(x.dtype) != "f":
        value = numbers.cast(t, as_index(t, x), "float64")
        far = t.op("ge", "bool", t.op("abs", "float64", value), Literal(2.0**53, "float64"))
        t.mark(far, "a large integer in a format of floats")
    else:
        value = numbers.cast(t, x.value, "float64")
    between = integer(ord(s.between) if s.between else 0)
    share = Num("bool", PYTHON, Literal(s.kind == "%", "bool"))
    given = [Num("float64", PYTHON, value), integer(digits), s.plus]
    if s.zeros or not s.width:
        width = integer(int(s.width or 0)) if s.zeros else integer(0)
        return Inlined(of_formats.decimal, [*given, width, between, share], {})
    return Inlined(of_formats.decimal_within, [*given, between, share, *s.room(">")], {})


def percent(t: Writes, x: Abstract, spec: str) -> Abstract:
    """``spec % x``, of a format such as ``%5.2f``."""
    found = re.fullmatch(r"%([-+ 0]*)(\d*)((?:\.\d+)?)([a-zA-Z])", spec)
    assert found is not None
    flags, width, digits, kind = found.groups()
    if kind in "di" and isinstance(x, Num) and x.kind not in (NO_AXES, *ON_DEVICE):
        if numbers.kind_of(x.dtype) == "f" and not digits:
            why = "a float that is no integer of 64 bits"
            wide = numbers.as_float64(t, x)
            x = Num("int64", PYTHON, numbers.to_int(t, wide.value, "int64", why, raises=True))
        kind = "d"
    elif kind == "s" and "0" not in flags:
        x = letters.said(t, x)
        if isinstance(x, Inlined):
            if width or digits:
                raise t.refuse(f"an integer in the format {spec!r}")
            return x
    elif kind != "f" or not isinstance(x, Num):
        raise t.refuse(f"{described(x)} in the format {spec!r}")
    align = "<" if "-" in flags else ">" if "0" not in flags else ""
    sign = "+" if "+" in flags else " " if " " in flags else ""
    if kind == "s":
        sign = ""
    zero = "0" if "0" in flags and width and not align else ""
    return formatted(t, x, f"{align if width else ''}{sign}{zero}{width}{digits}{kind}")


def in_bits(t: Writes, n: Num, bits: int, prefix: str) -> Inlined:
    """``bin(n)`` and such."""
    known: list[Any] = [n, *map(integer, (bits, 0, 0)), letters.of(t, Known(prefix))]
    return Inlined(of_formats.in_bits, [*known, integer(ord("a"))], {})
