"""Functions written anew: of an array or of several numbers, with results that tell their kind.

A loop that collects results in a list tells what they are when all are there: integers, or floats
with some integers among them, texts, None. So a function that is written anew returns two numbers:
the result, and what it is (`KINDS`); for a text its place in `Made.texts`.
"""

from __future__ import annotations
import __future__

import ast
import types
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

from ..errors import TraceError
from ..frontends.python.source.reading import find
from ..functions.cache import BoundedDict, kept
from ..runtime.warning_filters import silent
from .known import meant
from .labels import NUMPY, Labels, Refused
from .methods import Windows, helper
from .series import Rewriter
from .spread import Spread, number, spread
from .trees import bound, copied, numpys, without_dict
from .written_out import meanings, written_out

FLOAT, INTEGER, BOOL, NONE, TEXT, MISSING, SINGLE, OTHER = range(8)
"""What a result is. MISSING: pandas' NA; SINGLE: a `numpy.float32`."""
NUMPYS = 8
"""This is added to the first ones for a number of NumPy's: among texts and None it stays one."""
KINDS = (np.float64, np.int64, np.bool_)
"""The dtypes of columns of the first ones."""
RESULT = "_xpapply_result"
_EXTREMES = {"idxmax": "argmax", "idxmin": "argmin"}
"""Methods that give the label of an extreme: functions of NumPy that give its place."""
SURE = 1 << 53
"""Integers up to here are floats without loss."""


@dataclass
class Made:
    """A function that is written anew.

    Attributes
    ----------
    code : code
        Its code.
    tree : ast.FunctionDef
        The same as a tree, for who reads it.
    texts : list of str
        Those that it returns, by what it returns for them.
    gives : str
        "numbers": pairs of a number and its kind. "columns": as many pairs as there are `names`.
        "slices": an array as long as the Series. "floats": single numbers, whatever their kind.
        "spread": pairs, of which the first is the place of one of `spread`, and the others are
        what that reads.
    names : tuple
        The labels of what it returns, for "columns" and "slices".
    whole : bool
        Whether NumPy may warn where pandas does not.
    columns : tuple of str
        The parameters that stand for the Series: those of `Labels.columns` that are read.
    silent : bool
        Whether NumPy's own warnings of slices without elements are pandas' silence.
    spread : tuple of Spread
        What a Series that is returned is made of, for each return.
    asked : tuple of expr
        Elements that are read, and not in its code.
    masked : bool
        Whether it gets a Series of a nullable dtype: where NA comes to be NumPy warns.
    classes : bool
        Whether kinds tell NumPy's numbers from Python's.
    """

    code: CodeType
    tree: ast.FunctionDef
    texts: list[str] = field(default_factory=list)
    gives: str = "numbers"
    names: tuple[Hashable, ...] | None = None
    whole: bool = False
    columns: tuple[str, ...] = ()
    silent: bool = False
    spread: tuple[Spread, ...] = ()
    asked: tuple[ast.expr, ...] = ()
    masked: bool = False
    classes: bool = False

    def of(self, f: FunctionType) -> FunctionType:
        """The function, with what `f` reaches."""
        return function_of(self.code, self.tree, f)


def function_of(code: CodeType, tree: ast.FunctionDef, f: FunctionType) -> FunctionType:
    """The function of code that is written anew, with what `f` reaches."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    cells[NUMPY] = types.CellType(np)
    for name in code.co_freevars:
        if (known := helper(name)) is not None:
            cells[name] = types.CellType(known)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = f.__kwdefaults__, f.__qualname__
    made.__module__ = f.__module__
    find.keep(code, tree)
    return made


def compiled(written: ast.FunctionDef, f: FunctionType) -> CodeType:
    """The code of `f`, written anew as this tree."""
    code = f.__code__
    names = {n.id for n in ast.walk(written) if isinstance(n, ast.Name)}
    free = [*code.co_freevars, NUMPY, *sorted(filter(helper, names))]
    assigned = "; ".join(f"{name} = None" for name in free if name.isidentifier())
    if written.name not in free:
        assigned = f"global {written.name}; {assigned}"
    outer = ast.parse(f"def outer():\n    {assigned}")
    outer.body[0].body.append(written)  # type: ignore[attr-defined]
    # annotations of functions inside are texts, where the file says so
    flags = code.co_flags & __future__.annotations.compiler_flag
    with silent():  # of constants in the place of names, such as in ``1 is None``
        made = compile(ast.fix_missing_locations(outer), code.co_filename, "exec", flags, True)
    inside: list[CodeType] = [made]
    for c in inside:
        for x in c.co_consts:
            if isinstance(x, CodeType):
                if c.co_name == "outer" and x.co_name == written.name:
                    return x.replace(co_name=code.co_name, co_qualname=code.co_qualname)
                inside.append(x)
    raise AssertionError(written.name)


def elements_of(value: ast.Call) -> dict[Hashable, ast.expr]:
    """The elements of a Series that a call of ``pd.Series`` makes, by their labels.

    Raises
    ------
    Refused
        If its labels are no constants.
    """
    args, more = value.args, {k.arg: k.value for k in value.keywords}
    if len(args) != 1 or {*more} - {"index"}:
        raise Refused("it returns a Series")
    index, data = more.get("index"), args[0]
    keys: list[Any]
    if isinstance(data, ast.Dict) and index is None:
        keys, values = data.keys, data.values
    elif isinstance(data, (ast.List, ast.Tuple)):
        keys, values = [ast.Constant(k) for k in range(len(data.elts))], data.elts
        if isinstance(index, (ast.List, ast.Tuple)):
            keys = index.elts
        elif index is not None:
            raise Refused("it returns a Series")
    else:
        raise Refused("it returns a Series")
    if len(keys) != len(values) or not all(isinstance(k, ast.Constant) for k in keys):
        raise Refused("it returns a Series whose labels are no constants")
    found = {k.value: v for k, v in zip(keys, values, strict=True)}
    if len(found) != len(keys) or not found or any(isinstance(v, ast.Starred) for v in values):
        raise Refused("it returns a Series")
    return found


_made: BoundedDict = kept(BoundedDict())
"""By the code of a function, and what it is applied to."""


def made(
    f: Any, labels: Labels | None, *, floats: bool = False, spreads: bool = False,
    expand: bool = False, classes: bool = False,
) -> Made:  # fmt: skip
    """`f` written anew.

    Parameters
    ----------
    f : function
        The user's.
    labels : Labels or None
        What is known of its first argument, a Series; None: that is a number.
    floats : bool
        Whether results are floats, whatever they are.
    spreads : bool
        Whether results are as long as the Series, or become so.
    expand : bool
        Whether lists become Series.
    classes : bool
        Whether kinds tell NumPy's numbers from Python's, also if it returns numbers alone.

    Raises
    ------
    TraceError
        With the reason, if it cannot be.
    """
    if type(f) is not FunctionType:
        raise Refused("it is no function of Python")
    key = (f.__code__, meant(f), meanings(f), labels, floats, spreads, expand, classes)
    found = _made.get(key)
    if found is None:
        try:
            writer = _Writer(f, labels, floats, spreads, expand, classes)
            found = writer.made()
            if writer.gives_objects and not classes:  # among which a number of NumPy's stays one
                found = _Writer(f, labels, floats, spreads, expand, classes=True).made()
        except TraceError as error:
            found = error
        _made[key] = found
    if isinstance(found, TraceError):
        raise found.with_traceback(None)
    return found  # type: ignore[no-any-return]


class _Writer:
    """Writes one function anew."""

    def __init__(
        self,
        f: FunctionType,
        labels: Labels | None,
        floats: bool,
        spreads: bool,
        expand: bool,
        classes: bool = False,
    ) -> None:
        self.gives_objects, self._classes = False, classes
        self._f, self._labels, self._floats, self._expand = f, labels, floats, expand
        self._spread: list[tuple[Spread, ast.Tuple]] | None = [] if spreads else None
        self._once: dict[str, ast.expr | None] = {}
        self._texts: list[str] = []
        self._gives: set[tuple[str, Any]] = set()
        self._of_texts: set[str] = set()

    def made(self) -> Made:
        f, labels = self._f, self._labels
        tree = copied(find.tree_of(f))
        args = tree.args
        if not (args.posonlyargs or args.args):
            raise Refused("its first argument has no name")
        first = (args.posonlyargs or args.args)[0]
        own = {x for n in ast.walk(tree) if n is not first for x in bound(n)}
        name, number = ("", first.arg) if labels is None else (first.arg, "")
        number = "" if number in own else number
        series = Rewriter(f, name, labels or Labels(None), number)
        if labels is not None and first.arg not in own:
            tree = written_out(tree, f, first.arg, labels.names, [])
        if isinstance(tree, ast.Lambda):
            body: list[ast.stmt] = [ast.copy_location(ast.Return(tree.body), tree.body)]
        else:
            body = tree.body
        kinds = (ast.Yield, ast.YieldFrom, ast.Await)
        if any(isinstance(n, kinds) for statement in body for n in ast.walk(statement)):
            raise Refused("it is a generator")
        body = without_dict(body)
        if labels is not None:
            series.learn(body)
        self._series = series
        if self._spread is not None:
            self._learn_once(args, body)
        if not self._floats:
            self._learn_texts(body)
            body = [*body, ast.Return(ast.Constant(None))] if _may_end(body) else body
        body = [x for statement in body for x in self._statement(statement)]
        columns: tuple[str, ...] = ()
        if labels is not None and labels.columns:
            every = [n for x in (*body, *series.asked) for n in ast.walk(x)]
            read = {n.id for n in every if isinstance(n, ast.Name)}
            columns = tuple(name for name in labels.columns if name in read)
            if len(args.defaults) >= len(args.posonlyargs) + len(args.args):
                raise Refused("its first argument has a default")
            target = args.posonlyargs or args.args
            target[:1] = [ast.arg(name) for name in columns]
        name = f.__name__ if f.__name__.isidentifier() else "function"
        written = ast.FunctionDef(name, args, body, [], lineno=tree.lineno)
        for argument in ast.walk(args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        args.defaults = [ast.Constant(None) for _ in args.defaults]
        args.kw_defaults = [x and ast.Constant(None) for x in args.kw_defaults]
        ast.fix_missing_locations(ast.copy_location(written, tree))
        if len(self._gives) > 1:
            raise Refused("its results are of several forms")
        gives, names = self._gives.pop() if self._gives else ("numbers", None)
        most = max((x.numbers for x, _ in self._spread or ()), default=0)
        for one, returned in self._spread or ():
            returned.elts += [x for _ in range(most - one.numbers) for x in _numbers(0, INTEGER)]
        if any(isinstance(n, Windows) for n in ast.walk(written)):
            raise Refused("windows of a Series within the function")
        code = compiled(written, self._f)
        silent = series.whole and not series.asks_numpy
        sites = tuple(x for x, _ in self._spread or ())
        return Made(
            code, written, self._texts, gives, names, series.whole, columns, silent, sites,
            tuple(series.asked), _is_masked(labels), self._classes,
        )  # fmt: skip

    # --- statements -------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement, of which there may be several in its place."""
        if isinstance(node, ast.Return):
            value = node.value or ast.Constant(None)
            return [ast.fix_missing_locations(ast.copy_location(x, node)) for x in self._of(value)]
        if isinstance(node, ast.FunctionDef):  # what it returns goes nowhere else
            return [self._series.visit(node)]
        inner: dict[str, list[ast.stmt]] = {}
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                inner[name] = [x for s in statements for x in self._statement(s)]
                setattr(node, name, [])
        handlers = getattr(node, "handlers", [])
        for handler in handlers:
            handler.body = [x for s in handler.body for x in self._statement(s)]
        kept_handlers = list(handlers)
        if handlers:
            node.handlers = []  # type: ignore[attr-defined]
        if isinstance(node, ast.Match):
            raise Refused("it has a match statement")
        found = self._series.visit(node)
        for name, statements in inner.items():
            setattr(found, name, statements)
        if kept_handlers:
            found.handlers = kept_handlers
        return [found]

    def _of(self, value: ast.expr) -> list[ast.stmt]:
        """What is returned for an expression that is returned."""
        if self._floats:
            self._gives.add(("floats", None))
            return [ast.Return(self._series.visit(value))]
        if isinstance(value, ast.IfExp):
            test = self._series.visit(value.test)
            return [ast.If(test, self._of(value.body), self._of(value.orelse))]
        array = None if self._labels is None else self._series.array(value)
        if self._spread is not None:
            return self._of_spread(value)
        if array is not None:
            if array.labels.some or array.labels.names is None:
                raise Refused("it returns a Series whose labels are not known")
            self._series.whole = True
            self._gives.add(("slices", array.labels.names))
            return [ast.Return(array.expr)]
        columns = self._columns(value)
        if columns is not None:
            self._gives.add(("columns", tuple(columns)))
            made: list[ast.stmt] = []
            parts: list[ast.expr] = []
            for k, inner in enumerate(columns.values()):
                before, pair = self._pair(inner, f"{RESULT}_{k}")
                made += before
                parts += pair
            return [*made, ast.Return(ast.Tuple(parts, ast.Load()))]
        if isinstance(value, (ast.Tuple, ast.List, ast.Dict, ast.Set)):
            raise Refused("it returns a container")
        self._gives.add(("numbers", None))
        made, pair = self._pair(value, RESULT)
        return [*made, ast.Return(ast.Tuple(pair, ast.Load()))]

    def _of_spread(self, value: ast.expr) -> list[ast.stmt]:
        """What is returned for a Series, or a number that becomes one."""
        assert self._spread is not None
        file = self._f.__code__.co_filename
        one, numbers = spread(self._series, self._once, value, file)
        made: list[ast.stmt] = []
        returned = ast.Tuple(_numbers(len(self._spread), INTEGER), ast.Load())
        for k, inner in enumerate(numbers):
            before, pair = self._pair(inner, number(k))
            made += before
            returned.elts += pair
        self._spread.append((one, returned))
        self._gives.add(("spread", None))
        return [*made, ast.Return(returned)]

    def _learn_once(self, args: ast.arguments, body: list[ast.stmt]) -> None:
        """Find the names that are assigned once, whatever happens, and what; None: others are."""
        for node in (inner for statement in body for inner in ast.walk(statement)):
            for name in bound(node):
                self._once[name] = None
        stores = [name for x in body for n in ast.walk(x) for name in bound(n)]
        given = {x.arg for x in ast.walk(args) if isinstance(x, ast.arg)}
        for statement in body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if len(statement.targets) == 1 and stores.count(name) == 1 and name not in given:
                    self._once[name] = copied(statement.value)

    def _columns(self, value: ast.expr) -> dict[Hashable, ast.expr] | None:
        """The elements of a Series that is made of them, by their labels."""
        if self._expand and isinstance(value, (ast.Tuple, ast.List)) and value.elts:
            if not any(isinstance(x, ast.Starred) for x in value.elts):
                return dict(enumerate(value.elts))
        if not isinstance(value, ast.Call) or self._series.value(value.func) is not pd.Series:
            return None
        return elements_of(value)

    def _pair(self, value: ast.expr, name: str) -> tuple[list[ast.stmt], list[ast.expr]]:
        """Statements, and then a number and its kind."""
        if isinstance(value, ast.Constant):
            x: Any = value.value
            if x is None:
                return [], self._object(0.0, NONE)
            if type(x) is str:
                return [], self._object(float(self._text(x)), TEXT)
            if type(x) in (bool, float):
                return [], _numbers(x, BOOL if type(x) is bool else FLOAT)
            if type(x) is int and abs(x) < SURE:
                return [], _numbers(x, INTEGER)
            raise Refused("it returns a constant that is no number or text")
        if self._series.value(value) is pd.NA:
            return [], self._object(0.0, MISSING)
        if isinstance(value, ast.Name) and value.id in self._of_texts:
            return [], [ast.Name(value.id, ast.Load()), self._object(0.0, TEXT)[1]]
        if isinstance(value, ast.IfExp):
            return self._either(value, name)
        if (label := self._label(value)) is not None:
            return [], [label, self._object(0.0, TEXT)[1]]
        found = self._series.visit(value)
        read = ast.Name(name, ast.Load())
        kind: ast.expr = ast.Constant(OTHER)
        for code, classes in (
            (INTEGER, "int int64"),
            (BOOL, "bool bool_"),
            (FLOAT, "float float64"),
            (SINGLE, "float32"),
        ):
            of_python, _, of_numpy = classes.rpartition(" ")
            if of_python:
                those: list[ast.expr] = [ast.Name(of_python, ast.Load())]
                if not self._classes and code != FLOAT:  # NumPy's doubles are Python's floats too
                    those.append(_numpys(of_numpy))
                test = _is_a(read, those)
                kind = ast.IfExp(test, ast.Constant(code), kind)
            if self._classes or not of_python:
                more = NUMPYS if of_python else 0
                kind = ast.IfExp(_is_a(read, [_numpys(of_numpy)]), ast.Constant(code | more), kind)
        return [ast.Assign([ast.Name(name, ast.Store())], found)], [read, kind]

    def _label(self, value: ast.expr) -> ast.expr | None:
        """The place among texts of the label that ``row.idxmax()`` gives; None: it is no text."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return None
        of = _EXTREMES.get(value.func.attr)
        if of is None or value.args or value.keywords:
            return None
        inner = self._series.array(value.func.value)
        if inner is None or inner.labels.masked or inner.labels.some:
            return None
        names = inner.labels.names or ()
        texts = [ast.Constant(float(self._text(x))) for x in names if type(x) is str]
        if not names or len(texts) < len(names) or inner.labels.kind not in "fi":
            return None
        self._series.whole = True
        place = numpys(f"nan{of}" if inner.labels.gaps else of, inner.expr)
        return ast.Subscript(ast.Tuple([*texts], ast.Load()), place, ast.Load())

    def _object(self, x: float, kind: int) -> list[ast.expr]:
        """A number that stands for an object, and its kind."""
        self.gives_objects = True
        return _numbers(x, kind)

    def _either(self, value: ast.IfExp, name: str) -> tuple[list[ast.stmt], list[ast.expr]]:
        """The same for an expression that is one of two."""
        names = name, f"{name}_kind"
        ways = []
        for inner in (value.body, value.orelse):
            made, pair = self._pair(inner, name)
            for own, x in zip(names, pair, strict=True):
                made.append(ast.Assign([ast.Name(own, ast.Store())], x))
            ways.append(made)
        found = ast.If(self._series.visit(value.test), *ways)
        return [found], [ast.Name(own, ast.Load()) for own in names]

    # --- texts ------------------------------------------------------------------------------

    def _text(self, text: str) -> int:
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text)

    def _learn_texts(self, body: list[ast.stmt]) -> None:
        """Find the names that only hold constant texts, and are only returned."""
        stores: dict[str, list[Any]] = {}
        loads: dict[str, int] = {}
        returned: dict[str, int] = {}
        own = {*self._f.__code__.co_varnames[self._f.__code__.co_argcount :]}
        for node in (inner for statement in body for inner in ast.walk(statement)):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Name):
                    stores.setdefault(target.id, []).append(node)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
                returned[node.value.id] = returned.get(node.value.id, 0) + 1
            if isinstance(node, ast.Name):
                loads[node.id] = loads.get(node.id, 0) + 1
        if any(isinstance(n, (ast.FunctionDef, ast.Lambda)) for x in body for n in ast.walk(x)):
            return  # whose returns are others
        for name, nodes in stores.items():
            texts: list[Any] = [x.value.value for x in nodes if isinstance(x.value, ast.Constant)]
            if name not in own or len(texts) < len(nodes) or not all(type(x) is str for x in texts):
                continue
            if loads[name] == len(nodes) + returned.get(name, 0):
                self._of_texts.add(name)
                for node, text in zip(nodes, texts, strict=True):
                    node.value = ast.copy_location(
                        ast.Constant(float(self._text(text))), node.value
                    )


def _numbers(x: float, kind: int) -> list[ast.expr]:
    return [ast.Constant(x), ast.Constant(kind)]


def _is_a(x: ast.expr, classes: list[ast.expr]) -> ast.expr:
    """``isinstance(x, classes)``."""
    those = classes[0] if len(classes) < 2 else ast.Tuple(classes, ast.Load())
    return ast.Call(ast.Name("isinstance", ast.Load()), [x, those], [])


def _numpys(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(NUMPY, ast.Load()), name, ast.Load())


def _is_masked(labels: Labels | None) -> bool:
    return labels is not None and any(x.masked for x in (labels, *labels.inner) if x)


def _may_end(body: list[ast.stmt]) -> bool:
    """Whether a body may end without a return or an exception."""
    if not body:
        return True
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return False
    if isinstance(last, ast.If):
        return _may_end(last.body) or _may_end(last.orelse)
    return True


def of_part(f: FunctionType, args: int, names: tuple[str, ...], columns: int = 1) -> FunctionType:
    """``f(column[begin:until], *args, **kwargs)`` as a function of ``begin, until, column, *args``.

    It counts as written where `f` is.
    """
    whole = [f"column_{k}" for k in range(columns)]
    more = [f"_{k}" for k in range(args)]
    given = ", ".join(["begin", "until", *whole, *more, *names])
    parts = [f"{x}[begin:until]" for x in whole]
    taken = ", ".join([*parts, *more, *(f"{x}={x}" for x in names)])
    first = f.__code__.co_firstlineno
    key = ("part", f.__code__.co_filename, first, given)
    code_and_tree = _made.get(key)
    if code_and_tree is None:
        text = f"def outer(f):\n    def of_part({given}):\n        return f({taken})\n"
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = first  # type: ignore[attr-defined]
        code = compile(tree, f.__code__.co_filename, "exec", 0, True)
        for _ in range(2):
            code = next(x for x in code.co_consts if isinstance(x, CodeType))
        code_and_tree = _made[key] = code, tree.body[0].body[0]  # type: ignore[attr-defined]
    code, tree = code_and_tree
    find.keep(code, tree)
    return FunctionType(code, f.__globals__, f.__name__, None, (types.CellType(f),))
