"""Texts that formats make, as steps: ``f"..."``, ``format``, ``%``, and bits that are counted."""

from __future__ import annotations

import ast
import itertools
import operator
import re
import string
from typing import Any

from .statements import Statements
from .steps import Const, Operand


class Formats(Statements):
    """Writes such expressions."""

    def bits(self, e: ast.Call) -> Operand:
        """``bin(n).count("1")``: its bits."""
        inner: Any = e.func.value  # type: ignore[attr-defined]
        called = self.expression(inner.func)
        self._do("is", e.lineno, called, Const(bin))
        n = self._step(
            "call", e.lineno, ((), ()), Const(operator.index), self.expression(inner.args[0])
        )
        count = self._step("attribute", e.lineno, "bit_count", n)
        return self._step("call", e.lineno, ((), ()), count)

    def _JoinedStr(self, e: ast.JoinedStr) -> Operand:
        return self._of_pieces([self.expression(x) for x in e.values], e.lineno)

    def _FormattedValue(self, e: ast.FormattedValue) -> Operand:
        spec = "" if e.format_spec is None else constant_of(e.format_spec)
        if spec is None or e.conversion not in (-1, ord("s")):
            raise self._refuse("a text in a format that is computed, or by !r", e)
        return self._formatted(self.expression(e.value), spec, e.conversion == ord("s"), e.lineno)

    def _formatted(self, x: Operand, spec: str, as_text: bool, line: int) -> Operand:
        """``format(x, spec)``; `as_text`: of its text."""
        x = self._step("said", line, x) if as_text else x
        return (
            self._step("formatted", line, x, Const(spec)) if spec else self._step("said", line, x)
        )

    def _of_pieces(self, pieces: list[Operand], line: int) -> Operand:
        held: Operand = Const("")
        for x in pieces:
            held = self._step("binary", line, "+", held, x)
        return held

    def in_places(self, e: ast.Call, form: str) -> Operand:
        """``"{:.2f} {}".format(a, b)``."""
        if any(isinstance(a, ast.Starred) for a in e.args) or any(
            k.arg is None for k in e.keywords
        ):
            raise self._refuse("format with *", e)
        given: dict[Any, Operand] = {k: self.expression(a) for k, a in enumerate(e.args)}
        given |= {k.arg: self.expression(k.value) for k in e.keywords}
        pieces: list[Operand] = []
        count = itertools.count()
        for said, name, spec, conversion in string.Formatter().parse(form):
            pieces.append(Const(said))
            if name is None:
                continue
            key = next(count) if not name else int(name) if name.isdigit() else name
            if key not in given or "{" in (spec or "") or conversion not in (None, "s"):
                raise self._refuse("a format of more than its arguments", e)
            pieces.append(self._formatted(given[key], spec or "", conversion == "s", e.lineno))
        return self._of_pieces(pieces, e.lineno)

    def by_percents(self, e: ast.BinOp, form: str) -> Operand:
        """``"%.2f %d" % (a, b)``."""
        some = e.right.elts if isinstance(e.right, ast.Tuple) else [e.right]
        given = [self.expression(x) for x in some]
        said = _PERCENT.split(form)
        specs = [x for x in said[1::2] if x != "%%"]
        if len(specs) != len(given) or any("%" in x for x in said[::2]):
            raise self._refuse("a format by % that is not known", e)
        pieces: list[Operand] = []
        left = iter(given)
        for k, x in enumerate(said):
            if not k % 2:
                pieces.append(Const(x))
            elif x == "%%":
                pieces.append(Const("%"))
            else:
                pieces.append(self._step("percent", e.lineno, next(left), Const(x)))
        return self._of_pieces(pieces, e.lineno)


def constant_of(e: ast.expr) -> str | None:
    """A text that is written in the source, also as a format of ``f"..."``; None: it is none."""
    if isinstance(e, ast.JoinedStr):
        parts = [constant_of(x) for x in e.values]
        return None if None in parts else "".join(x for x in parts if x is not None)
    return e.value if isinstance(e, ast.Constant) and type(e.value) is str else None


_PERCENT = re.compile(r"(%%|%[-+ 0]*\d*(?:\.\d+)?[a-zA-Z])")
"""The conversions of a percent format."""


def counts_bits(e: ast.Call) -> bool:
    """Whether it is ``bin(n).count("1")``."""
    f = e.func
    if not isinstance(f, ast.Attribute) or f.attr != "count" or e.keywords or len(e.args) != 1:
        return False
    inner = f.value
    return (
        constant_of(e.args[0]) == "1"
        and isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Name)
        and inner.func.id == "bin"
        and len(inner.args) == 1
        and not inner.keywords
        and not isinstance(inner.args[0], ast.Starred)
    )
