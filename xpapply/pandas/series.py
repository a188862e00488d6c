"""Expressions of a Series as expressions of the array inside.

A function that gets a Series, such as a row, is read: each expression whose value is a Series by
what pandas says (the argument itself, ``row[["a", "b"]]``, ``row - row.mean()``) becomes one of an
array, and what is asked of it (``row["a"]``, ``row.a``, ``row.sum()``) becomes what NumPy says of
that array. What is not known here refuses.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Hashable
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

from . import methods
from .known import (
    BY_METHOD,
    ELEMENT_BY_ELEMENT,
    OF_ARRAYS,
    OF_MASKED,
    SERIES_OF,
    WITHOUT_DDOF,
    is_stats,
    known_as_it_is,
    of_stats,
)
from .labels import Array, Labels, Refused
from .trees import bound, constant, copied, method

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_ITSELF = ("copy", "to_numpy")
_PLACES = ("iloc", "iat")
_BY_LABEL = ("loc", "at")
_OF_SERIES = frozenset(dir(pd.Series))
_OF_FRAME = frozenset(dir(pd.DataFrame))


class Rewriter(ast.NodeTransformer):
    """Writes the body of a function anew.

    Parameters
    ----------
    f : function
        The function, whose names are looked up.
    name : str
        Its parameter that is a Series; "" where it has none.
    labels : Labels
        What is known of it.
    number : str
        Its parameter that is a number, and is never assigned to; "" where it has none.

    Attributes
    ----------
    whole : bool
        Whether anything but single elements was asked of the Series: warnings may be others then.
    asks_numpy : bool
        Whether functions of NumPy get the array, by the user's own words.
    asked : list of expr
        Elements of which it is asked whether they are there, and perhaps nothing else.
    """

    def __init__(self, f: FunctionType, name: str, labels: Labels, number: str = "") -> None:
        self._f, self.whole, self.asks_numpy, self._number = f, False, False, number
        self.asked: list[ast.expr] = []
        self._series: dict[str, Labels] = {name: labels} if name else {}
        self._own = {*f.__code__.co_varnames, *f.__code__.co_cellvars}

    def learn(self, body: list[ast.stmt]) -> None:
        """Find the names that are nothing but Series."""
        found: dict[str, list[ast.expr | None]] = {}
        plain: set[ast.expr] = set()
        for node in (inner for statement in body for inner in ast.walk(statement)):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
                    plain.add(target)  # which comes later
                    continue
            for name in bound(node) if node not in plain else ():
                found.setdefault(name, []).append(None)
        inner = {
            name
            for name, values in found.items()
            if name in self._series and not all(map(self._is_like(name), values))
        }
        if inner:
            raise Refused(f"{inner.pop()!r} becomes something else than a Series")
        for _ in range(len(found)):
            more = {}
            for name, values in found.items():
                if name in self._series or None in values:
                    continue
                kinds = [self.array(value) for value in values if value is not None]
                if all(x is not None for x in kinds) and kinds:
                    labels = {x.labels for x in kinds if x is not None}
                    if len(labels) == 1:
                        more[name] = labels.pop()
            if not more:
                break
            self._series |= more

    def _is_like(self, name: str) -> Callable[[ast.expr | None], bool]:
        def same(value: ast.expr | None) -> bool:
            found = None if value is None else self.array(value)
            return found is not None and found.labels == self._series[name]

        return same

    # --- what is a Series -------------------------------------------------------------------

    def array(self, node: ast.expr) -> Array | None:
        """The array that stands for a Series; None: the expression is none, or not known to be."""
        if isinstance(node, methods.KnownSeries):
            return node.found
        if isinstance(node, ast.Name):
            labels = self._series.get(node.id)
            return None if labels is None or labels.columns else Array(node, labels)
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            if (some := self._of_some_rows(node)) is not None:
                return some
            owner = node.value
            if isinstance(owner, ast.Name) and owner.id in self._series:
                if (labels := self._series[owner.id]).inner:
                    return self._column(node, labels)
        if isinstance(node, ast.Subscript):
            return self._part(node)
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.UnaryOp):
            inner = self.array(node.operand)
            wanted = {ast.USub: "fi", ast.Invert: "b"}.get(type(node.op), "")
            if inner is None or inner.labels.kind not in wanted:
                return None
            return Array(ast.UnaryOp(node.op, inner.expr), inner.labels)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return None

    def _of_some_rows(self, node: ast.Subscript | ast.Attribute) -> Array | None:
        """``frame[mask].column``, and what else says the same."""
        value, at = node.value, node.slice if isinstance(node, ast.Subscript) else None
        column: ast.expr
        if isinstance(value, ast.Attribute) and value.attr == "loc":
            if not isinstance(at, ast.Tuple) or len(at.elts) != 2 or constant(at.elts[1]) is None:
                return None
            frame, rows = value.value, at.elts[0]
            column = ast.Subscript(frame, at.elts[1], ast.Load())
        elif isinstance(value, ast.Subscript):
            frame, rows, column = value.value, value.slice, copied(node)
            column.value = frame  # type: ignore[attr-defined]
        else:
            return None
        mask = self._rows(frame, rows)
        found = None if mask is None else self.array(column)
        if found is None or mask is None:
            return None
        self.whole = True
        labels = replace(found.labels, names=None, some=True)
        return Array(ast.Subscript(found.expr, mask.expr, ast.Load()), labels)

    def _rows(self, frame: ast.expr, rows: ast.expr) -> Array | None:
        """The mask that chooses rows of a DataFrame; None: it is no mask, or no DataFrame."""
        known = isinstance(frame, ast.Name) and self._series.get(frame.id)
        if not known or not known.inner or constant(rows) is not None:
            return None
        mask = self.array(rows)
        return mask if mask and mask.labels.kind == "b" and not mask.labels.some else None

    def _column(self, node: ast.Subscript | ast.Attribute, frame: Labels) -> Array | None:
        """A column of a DataFrame."""
        label = node.attr if isinstance(node, ast.Attribute) else constant(node.slice)
        by_name = isinstance(node, ast.Attribute)
        if isinstance(node, ast.Subscript) and label is None:
            if self._rows(node.value, node.slice) is not None:
                return None  # rows of it
        if label is None or not isinstance(node.ctx, ast.Load) or (by_name and label in _OF_FRAME):
            raise Refused("something else of a DataFrame than a column")
        place = methods.labels_of_one(frame, label)
        labels = frame.inner[place]
        if labels is None:
            raise Refused(f"elements of the column {label!r} are no numbers")
        return Array(ast.Name(frame.columns[place], ast.Load()), labels)

    def _part(self, node: ast.Subscript) -> Array | None:
        value, at = node.value, node.slice
        if isinstance(value, ast.Attribute) and value.attr in ("iloc", "loc"):
            inner = self.array(value.value)
            if inner is None or not isinstance(at, ast.Slice):
                return None
            bounds = [None if x is None else constant(x) for x in (at.lower, at.upper, at.step)]
            if value.attr == "loc" or any(not isinstance(x, int) for x in bounds if x is not None):
                return None
            names, labels = inner.labels.names, inner.labels
            names = None if names is None else names[slice(*bounds)]
            return Array(ast.Subscript(inner.expr, at, ast.Load()), replace(labels, names=names))
        inner = self.array(value)
        if inner is None:
            return None
        labels, mask = inner.labels, self.array(at)
        if mask is not None:
            if mask.labels.kind != "b" or mask.labels.names != labels.names or labels.some:
                return None
            self.whole = True
            some = replace(labels, names=None, some=True)
            return Array(ast.Subscript(inner.expr, mask.expr, ast.Load()), some)
        if isinstance(at, ast.List) and all(isinstance(x, ast.Constant) for x in at.elts):
            places = [methods.labels_of_one(labels, x.value) for x in at.elts]  # type: ignore[attr-defined]
            chosen = ast.List([ast.Constant(k) for k in places], ast.Load())
            assert labels.names is not None
            names = tuple(labels.names[k] for k in places)
            return Array(
                ast.Subscript(inner.expr, chosen, ast.Load()), replace(labels, names=names)
            )
        return None

    def _operation(self, node: ast.BinOp) -> Array | None:
        left, right = self.array(node.left), self.array(node.right)
        both = [x for x in (left, right) if x is not None]
        if not both:
            return None
        labels = both[0].labels
        if len(both) > 1 and (
            both[1].labels.names != labels.names or labels.some or both[1].labels.some
        ):
            raise Refused("two Series whose labels differ meet")
        kinds = {x.labels.kind for x in both}
        if isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            if kinds != {"b"} or len(both) < 2:
                raise Refused("an operation of Series with a meaning of its own")
        elif not isinstance(node.op, OPERATORS) or "b" in kinds:
            if not (isinstance(node.op, ast.Pow) and kinds == {"f"}):
                raise Refused("an operation of Series with a meaning of its own")
        self.whole = True
        sides = [
            side.expr if side is not None else self.scalar(own)
            for side, own in ((left, node.left), (right, node.right))
        ]
        found = replace(labels, gaps=True) if kinds != {"b"} else labels
        if any(x.labels.masked for x in both):  # without a warning no NaN comes to be
            if any(x.labels.gaps and not x.labels.masked for x in both):
                raise Refused("a Series with NaN meets one of a nullable dtype")
            found = replace(labels, masked=True, gaps=any(x.labels.gaps for x in both))
        alone = [own for own, x in ((node.left, left), (node.right, right)) if x is None]
        if "f" in kinds or isinstance(node.op, ast.Div) or any(map(self._is_float, alone)):
            found = replace(found, kind="f")
        elif kinds == {"i"} and len(both) < 2:
            found = replace(found, kind="n")
        return Array(ast.BinOp(sides[0], node.op, sides[1]), found)

    def _is_float(self, node: ast.expr) -> bool:
        """Whether a number beside a Series is a float, as means are."""
        if isinstance(node, ast.BinOp):
            return self._is_float(node.left) or self._is_float(node.right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func
            return of.attr in methods.FLOATS and self.array(of.value) is not None
        return type(constant(node)) is float

    def scalar(self, node: ast.expr) -> Any:
        """What stands beside a Series: nothing that may be one, or a list."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.ListComp)):
            raise Refused("a Series meets a list")
        return self.visit(copied(node))

    def _comparison(self, node: ast.Compare) -> Array | None:
        sides = [node.left, *node.comparators]
        found = [self.array(x) for x in sides]
        both = [x for x in found if x is not None]
        if not both:
            return None
        wrong = len(sides) != 2 or isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot))
        if wrong or len({x.labels.names for x in both}) > 1:
            raise Refused("a comparison of Series with a meaning of its own")
        if any(x.labels.some for x in both) and len(both) > 1:
            raise Refused("two Series whose labels differ meet")
        self.whole = True
        for x in both:
            methods.of_masked(x)
        masked = any(x.labels.masked for x in both)
        left, right = (
            x.expr if x is not None else self.scalar(own)
            for x, own in zip(found, sides, strict=True)
        )
        compared = replace(both[0].labels, kind="b", masked=masked)
        return Array(ast.Compare(left, node.ops, [right]), compared)

    def _call(self, node: ast.Call) -> Array | None:
        function, args = node.func, node.args
        if isinstance(function, ast.Attribute):
            inner = self.array(function.value)
            if inner is not None:
                return methods.of_series(self, inner, function.attr, args, node.keywords)
            if (found := methods.of_windows(self, function, node)) is not None:
                return found
        known = self.value(function)
        if len(args) == 1 and not node.keywords and (inner := self.array(args[0])) is not None:
            if isinstance(known, np.ufunc) and known.nin == known.nout == 1:
                self.whole = True
                kind = "f" if inner.labels.kind == "f" else "n"
                gaps = inner.labels.gaps or not inner.labels.masked
                labels = replace(inner.labels, kind=kind, gaps=gaps)
                return Array(ast.Call(function, [inner.expr], []), labels)
            if known in SERIES_OF:
                return methods.of_series(self, inner, SERIES_OF[known], [], [])
            if known is abs and inner.labels.kind in "fi":
                return Array(ast.Call(function, [inner.expr], []), inner.labels)
        return None

    # --- what is asked of one ---------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        """The same without Series."""
        return super().visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        """A Series itself goes to what is not known."""
        if node.id in self._series:
            raise Refused(f"{node.id!r} as a whole goes to what is not known")
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Names of Series are names of arrays."""
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id in self._series:
            found = self.array(node.value)
            assert found is not None
            return ast.copy_location(ast.Assign(node.targets, found.expr), node)
        if len(node.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
            node.value = self._quantiles(node.value, len(target.elts)) or node.value
            return self._in_turn(node, "value")
        return self.generic_visit(node)

    def _in_turn(self, node: Any, name: str) -> Any:
        """A node of which a part is gone through: a Series gives Python's numbers."""
        of = getattr(node, name)
        if not self._is_series(of):
            return self.generic_visit(node)
        setattr(node, name, ast.Constant(None))  # what is written by now is not read again
        node = self.generic_visit(node)
        setattr(node, name, self._listed(of))
        return node

    def _quantiles(self, node: ast.expr, count: int) -> ast.expr | None:
        """``x.quantile([0.25, 0.75])`` that is taken apart: several quantiles."""
        at = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
        if not isinstance(node, ast.Call) or node.keywords or not isinstance(at, ast.List):
            return None
        of = node.func
        if not isinstance(of, ast.Attribute) or of.attr != "quantile" or len(at.elts) != count:
            return None
        if self.array(of.value) is None or not all(isinstance(x, ast.Constant) for x in at.elts):
            return None
        each = [ast.Call(copied(of), [x], []) for x in at.elts]
        floats: list[ast.expr] = [ast.Call(ast.Name("float", ast.Load()), [x], []) for x in each]
        return ast.copy_location(ast.Tuple(floats, ast.Load()), node)

    def visit_Starred(self, node: ast.Starred) -> Any:
        """``g(*row)``."""
        return self._in_turn(node, "value")

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """A label of a Series is a place in the array."""
        value, at = node.value, node.slice
        by_place = by_label = False
        if isinstance(value, ast.Attribute) and self._is_series(value.value):
            by_place, by_label = value.attr in _PLACES, value.attr in _BY_LABEL
            value = value.value if by_place or by_label else value
        if (pair := self._of_both(value, at)) is not None:
            return ast.copy_location(pair, node)
        if (mode := self._is_mode(value)) is not None and constant(at) == 0:
            return ast.copy_location(methods.commonest(mode), node)
        if not self._is_series(value):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            raise Refused("it writes into the Series")
        label = constant(at)
        if label is None:
            raise Refused("a label that is no constant")
        if not by_place:
            return self._element(value, label)
        inner = self.array(value)
        if inner is None or type(label) is not int or inner.labels.some:
            raise Refused("a place in a Series that is not there as an array")
        methods.of_masked(inner)
        return ast.copy_location(ast.Subscript(inner.expr, ast.Constant(label), ast.Load()), node)

    def _of_both(self, call: ast.expr, at: ast.expr) -> Any:
        """``np.corrcoef(a, b)[0, 1]``, and the same of `cov`."""
        pair = isinstance(at, ast.Tuple) and [constant(x) for x in at.elts]
        if pair not in ([0, 1], [1, 0]) or not isinstance(call, ast.Call) or call.keywords:
            return None
        name = {np.corrcoef: "corrcoef", np.cov: "cov"}.get(self.value(call.func))
        arrays = [x for x in map(self.array, call.args) if x is not None]
        if name is None or len(call.args) != 2 or len(arrays) != 2:
            return None
        self.whole = self.asks_numpy = True
        return methods.of_both(name, arrays)

    def _is_mode(self, node: ast.expr) -> Array | None:
        """The Series whose `mode` is asked for."""
        if isinstance(node, ast.Attribute) and node.attr in (*_PLACES, "values"):
            node = node.value
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            return None
        of = node.func
        if not isinstance(of, ast.Attribute) or of.attr != "mode":
            return None
        return self.array(of.value)

    def _element(self, value: ast.expr, label: Hashable) -> Any:
        """The element under a label."""
        if isinstance(value, ast.Name) and (labels := self._series[value.id]).columns:
            name = labels.columns[methods.labels_of_one(labels, label)]
            if not name:
                raise Refused(f"elements of the column {label!r} are no numbers or texts")
            return ast.copy_location(ast.Name(name, ast.Load()), value)
        inner = self.array(value)
        assert inner is not None
        methods.of_masked(inner)
        place = ast.Constant(methods.labels_of_one(inner.labels, label))
        return ast.copy_location(ast.Subscript(inner.expr, place, ast.Load()), value)

    def _is_series(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name) and node.id in self._series:
            return True
        return self.array(node) is not None

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """A column by its name, and what arrays have as well."""
        if not self._is_series(node.value):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            raise Refused("it writes into the Series")
        if node.attr not in _OF_SERIES:
            return self._element(node.value, node.attr)
        inner = self.array(node.value)
        if inner is not None and node.attr == "values" and not inner.labels.masked:
            self.asks_numpy = True
            return inner.expr
        if inner is not None and node.attr in ("size", "shape"):
            return ast.copy_location(ast.Attribute(inner.expr, node.attr, ast.Load()), node)
        raise Refused(f"{node.attr!r} of a Series")

    def visit_Call(self, node: ast.Call) -> Any:
        """Methods of Series, and functions that know them."""
        function, args = node.func, node.args
        if isinstance(function, ast.Attribute) and self._is_series(function.value):
            if function.attr == "get" and not node.keywords and len(args) in (1, 2):
                return self._got(function.value, args)
            inner = self.array(function.value)
            if inner is None:
                raise Refused(f"{function.attr!r} of a Series of several kinds of elements")
            return methods.asked(self, inner, function.attr, node)
        known = self.value(function)
        if known in (pd.isna, pd.isnull, pd.notna, pd.notnull) and len(args) == 1:
            return self._is_missing(args[0], known in (pd.notna, pd.notnull))
        if known in ELEMENT_BY_ELEMENT and any(map(self._is_series, args)):
            return self._elements_of(node)
        if known is len and len(args) == 1 and isinstance(args[0], ast.Subscript):
            mask = self._rows(args[0].value, args[0].slice)
            if mask is not None:
                self.whole = True
                return ast.copy_location(method(mask.expr, "sum"), node)
        if known is len and len(args) == 1 and isinstance(args[0], ast.Name):
            frame = self._series.get(args[0].id)
            if frame is not None and frame.inner:
                column = next((x for x in frame.columns if x), None)
                if column is None:
                    raise Refused("it has no column of numbers")
                return ast.copy_location(
                    ast.Call(function, [ast.Name(column, ast.Load())], []), node
                )
        arrays = [self.array(x) for x in (*args, *(k.value for k in node.keywords))]
        if not args or not any(arrays):
            return self.generic_visit(node)
        if known in OF_ARRAYS or of_stats(known):
            self.whole = self.asks_numpy = True
            both = [methods.of_masked(x) for x in arrays if x is not None]
            if any(x.labels.masked for x in both) and known not in OF_MASKED:
                raise Refused("a function of NumPy of a nullable dtype: astype('float64') helps")
            if known is np.average and len(args) == 1 and len(both) == 2:
                if (found := methods.of_both("average", both)) is not None:
                    return ast.copy_location(found, node)
            sides = [
                self.visit(own) if x is None else x.expr
                for own, x in zip((*args, *(k.value for k in node.keywords)), arrays, strict=True)
            ]
            more = zip(node.keywords, sides[len(args) :], strict=True)
            keywords = [ast.keyword(k.arg, x) for k, x in more]
            return ast.copy_location(ast.Call(function, sides[: len(args)], keywords), node)
        if (inner := arrays[0]) is None:
            return self.generic_visit(node)
        if known is len and inner.labels.columns == ():
            return ast.copy_location(ast.Call(function, [inner.expr], []), node)
        if known in BY_METHOD and len(args) == 1 and not node.keywords:
            return methods.asked(self, inner, BY_METHOD[known], node, ())
        if known in WITHOUT_DDOF and len(args) == 1:
            ddof = node.keywords or [ast.keyword("ddof", ast.Constant(0))]
            return methods.asked(self, inner, WITHOUT_DDOF[known], node, (), ddof)
        return self.generic_visit(node)

    def _elements_of(self, node: ast.Call) -> Any:
        """What goes through Series gets Python's numbers."""
        args = [self._listed(x) for x in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        return ast.copy_location(ast.Call(node.func, args, keywords), node)

    def _listed(self, node: ast.expr) -> Any:
        if not self._is_series(node):
            return self.visit(node)
        inner = self.array(node)
        if inner is None:
            raise Refused("it goes through elements of several kinds")
        return ast.copy_location(method(methods.of_masked(inner).expr, "tolist"), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """No element that is handed on is pandas' NA, or None."""
        left, right, op = node.left, node.comparators[0], node.ops[0]
        nothing = right.value is None if isinstance(right, ast.Constant) else False
        if (nothing or self.value(right) is pd.NA) and self._is_element(left):
            if len(node.ops) == 1 and isinstance(op, (ast.Is, ast.IsNot)):
                self.asked.append(self.visit(copied(left)))
                return ast.copy_location(ast.Constant(isinstance(op, ast.IsNot)), node)
        return self.generic_visit(node)

    def _is_element(self, node: ast.expr) -> bool:
        """Whether it is an element that a function gets: of a Series, or its argument."""
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            return self._is_series(node.value)
        return isinstance(node, ast.Name) and node.id == self._number

    def visit_For(self, node: ast.For) -> Any:
        """A loop over the elements."""
        return self._in_turn(node, "iter")

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        """The same in an expression."""
        return self._in_turn(node, "iter")

    def _got(self, value: ast.expr, args: list[ast.expr]) -> Any:
        label = constant(args[0])
        labels = self._series[value.id] if isinstance(value, ast.Name) else None
        if label is None or labels is None or labels.names is None:
            raise Refused("a label that is no constant")
        if label in labels.names:
            return self._element(value, label)
        return self.visit(args[1]) if len(args) > 1 else ast.Constant(None)

    def _is_missing(self, node: ast.expr, not_so: bool) -> Any:
        """Whether a number is NaN; texts are not asked."""
        if self._is_series(node):
            raise Refused("pandas' functions of a Series")
        found = self.visit(node)
        if not isinstance(found, (ast.Name, ast.Subscript)):
            raise Refused("whether a value is missing that is no column")
        op: ast.cmpop = ast.Eq() if not_so else ast.NotEq()
        same = ast.Compare(found, [op], [copied(found)])
        return ast.copy_location(ast.Call(ast.Name("bool", ast.Load()), [same], []), node)

    # --- names ------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """What an expression of global names is by now; None: that is not known."""
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            known = owner is np or owner is pd or owner is np.linalg or is_stats(owner)
            return known_as_it_is(getattr(owner, node.attr, None)) if known else None
        if not isinstance(node, ast.Name) or node.id in self._own:
            return None
        f = self._f
        if node.id in f.__code__.co_freevars:
            cell = (f.__closure__ or ())[f.__code__.co_freevars.index(node.id)]
            try:
                return known_as_it_is(cell.cell_contents)
            except ValueError:
                return None
        return known_as_it_is(f.__globals__.get(node.id, vars(builtins).get(node.id)))
