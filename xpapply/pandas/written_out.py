"""What a function of rows has elsewhere, written out where it is used.

``row[COLUMNS]`` and ``for c in COLUMNS: ... row[c]`` with a list of names that stands outside of
the function, and ``helper(row)`` of a helper that is nothing but an expression. `meanings` tells
what of all this may be another thing in the next call.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Hashable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..errors import TraceError
from ..frontends.python.source.reading import find
from ..functions.purity import of_library
from ..limits import LIMITS
from .trees import bound, constant, copied

_NONE: Any = object()
_LISTS = (list, tuple)
_READS = frozenset("items keys values get index count".split())
"""Methods that change nothing of a list or dict."""
Held = list[tuple[str, ...]]
"""Names of helpers, each after that of the helper that it stands in."""


def meanings(f: FunctionType, depth: int = 0) -> tuple[Hashable, ...]:
    """Texts in lists and dicts that a function names, and the code of its helpers."""
    found: list[Hashable] = []
    for name in _outer(f.__code__):
        x = value(f, name)
        if type(x) in (*_LISTS, dict) and len(x) <= LIMITS.written_out:
            found.append((name, type(x), tuple(k if type(k) is str else type(k) for k in x)))
        elif type(x) is FunctionType and depth < _DEEP and not of_library(x.__code__.co_filename):
            found.append((name, x.__code__, *meanings(x, depth + 1)))
    return tuple(found)


_DEEP = 3
"""Helpers of helpers."""


def _outer(code: CodeType) -> list[str]:
    """Names that are no variables of a function's own."""
    found = [*code.co_names, *code.co_freevars]
    for x in code.co_consts:
        if isinstance(x, CodeType):
            found += x.co_names
    return found


def value(f: FunctionType, name: str) -> Any:
    """What an outer name means now; `_NONE`: nothing."""
    if name in f.__code__.co_freevars:
        try:
            return (f.__closure__ or ())[f.__code__.co_freevars.index(name)].cell_contents
        except ValueError:  # not yet set
            return _NONE
    return f.__globals__.get(name, _NONE)


def relied_on(f: FunctionType, held: Held) -> list[tuple[FunctionType, ast.expr, Any]]:
    """By which functions and names helpers are found, and what they are now."""
    found: list[tuple[FunctionType, ast.expr, Any]] = []
    for *outer, name in held:
        of = f
        for x in outer:
            of = value(of, x)
        found.append((of, ast.Name(name, ast.Load()), value(of, name)))
    return found


def stays(f: FunctionType, held: Held) -> bool:
    """Whether nothing that a function calls may bind its helpers anew before it gets to them.

    Helpers are Python's functions, and so may be anything else that it calls by a name.
    """
    own: dict[tuple[str, ...], FunctionType] = {(): f}
    own |= {path: at for path, (_, _, at) in zip(held, relied_on(f, held), strict=True)}
    for path, g in own.items():
        inner = {x[len(path)] for x in held if x[: len(path)] == path and len(x) > len(path)}
        tree = find.tree_of(g)
        variables = {x for n in ast.walk(tree) for x in bound(n)}
        if any(isinstance(n, ast.Call) and getattr(n.func, "id", None) in variables
               for n in ast.walk(tree)):  # fmt: skip
            return False
        for name in {*_outer(g.__code__)} - inner:
            x = value(g, name)
            if isinstance(x, (FunctionType, MethodType)):
                if not of_library(x.__code__.co_filename):
                    return False
            elif not isinstance(x, ModuleType):
                if not _is_of_library(x if isinstance(x, type) else type(x)):
                    return False
    return True


def _is_of_library(cls: type) -> bool:
    """Whether a class is Python's, or an installed package's."""
    if getattr(cls, "__module__", "") == "builtins":
        return True
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file is not None and of_library(file)


def written_out(
    tree: Any, f: FunctionType, row: str, columns: tuple[Hashable, ...] | None, held: Held
) -> Any:
    """The tree of a function, which is changed; `held` gets what it relies on in each call.

    `row`: its parameter that is a row; `columns`: its labels.
    """
    if row in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_set(n)}:
        return tree
    writer = _Elsewhere(f, tree, row, columns, held)
    if isinstance(tree, ast.Lambda):
        tree.body = writer.visit(tree.body)
    else:
        tree.body = [x for s in tree.body for x in writer.statements(s)]
    return tree


class _Elsewhere(ast.NodeTransformer):
    def __init__(
        self, f: FunctionType, tree: Any, row: str, columns: Any, held: Held,
        within: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._f, self._row, self._columns, self._within = f, row, columns, within
        self._held, self._tree = held, tree
        self._own = {x for n in ast.walk(tree) for x in bound(n)}

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    # --- what is known ----------------------------------------------------------------------

    def _known(self, node: ast.expr) -> Any:
        """The list or dict of an outer name that nothing changes here; `_NONE`: it is none."""
        if not isinstance(node, ast.Name) or node.id in self._own:
            return _NONE
        found = value(self._f, node.id)
        if type(found) not in (*_LISTS, dict) or len(found) > LIMITS.written_out:
            return _NONE
        return found if self._is_read(node.id) else _NONE

    def _is_read(self, name: str) -> bool:
        """Whether a name is only read, and goes to nothing that may change what it stands for."""
        read: list[Any] = []
        for n in ast.walk(self._tree):
            if isinstance(n, ast.Attribute) and n.attr in _READS:
                read.append(n.value)
            elif isinstance(n, ast.Call) and self._is_builtin(n.func):
                read += n.args if getattr(n.func, "id", None) in _LOOKS else []
            elif isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load):
                read += [n.value, n.slice]
            elif isinstance(n, (ast.For, ast.comprehension)):
                read.append(n.iter)
            elif isinstance(n, ast.Compare):
                read += n.comparators
        places = {*map(id, read)}
        return all(id(n) in places for n in ast.walk(self._tree) if _is(n, name))

    def _is_builtin(self, node: ast.expr) -> bool:
        """Whether a name means what it means in Python."""
        if not isinstance(node, ast.Name) or node.id in self._own:
            return False
        return value(self._f, node.id) is _NONE and hasattr(builtins, node.id)

    def _items(self, node: ast.expr) -> list[ast.expr] | None:
        """What a loop goes through, if it has texts; tuples of expressions among them."""
        known = self._known(node)
        if known is not _NONE and all(type(x) is str for x in known):
            return [ast.Constant(x) for x in known]
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
            every = all(type(constant(x)) is str for x in node.elts)
            return list(node.elts) if every else None
        if isinstance(node, ast.Attribute) and node.attr == "index" and _is(node.value, self._row):
            if self._columns and all(type(x) is str for x in self._columns):
                return [ast.Constant(x) for x in self._columns]
        if not isinstance(node, ast.Call):
            return None
        of, said = node.func, [(k.arg, constant(k.value)) for k in node.keywords]
        if said and (said != [("strict", False)] or not _is(of, "zip")):
            return None
        if isinstance(of, ast.Attribute) and of.attr == "items" and not node.args:
            known = self._known(of.value)
            if type(known) is dict and all(type(x) is str for x in known):
                return [_pair(ast.Constant(k), _part(of.value, k)) for k in known]
        if not self._is_builtin(of):
            return None
        name = of.id  # type: ignore[attr-defined]
        if name == "range" and all(type(constant(x)) is int for x in node.args):
            turns = range(*(constant(x) for x in node.args))
            return [ast.Constant(k) for k in turns] if len(turns) <= LIMITS.written_out else None
        if name == "enumerate" and len(node.args) == 1:
            inner = self._items(node.args[0])
            return inner and [_pair(ast.Constant(k), x) for k, x in enumerate(inner)]
        if name == "zip" and len(node.args) == 2:
            both = [self._items(x) or self._places(x) for x in node.args]
            if both[0] and both[1]:
                return [_pair(a, b) for a, b in zip(*both, strict=False)]  # type: ignore[arg-type]
        return None

    def _places(self, node: ast.expr) -> list[ast.expr] | None:
        """The elements of an outer list that are no texts."""
        known = self._known(node)
        return [_part(node, k) for k in range(len(known))] if type(known) in _LISTS else None

    # --- what is written --------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node  # whose names are others

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if _is(node.value, self._row) and isinstance(node.ctx, ast.Load):
            known = self._known(node.slice)
            if type(known) is list and known and all(type(x) is str for x in known):
                labels: list[ast.expr] = [ast.Constant(x) for x in known]
                node.slice = ast.copy_location(ast.List(labels, ast.Load()), node)
            else:
                node.slice = _folded(node.slice)
        return ast.fix_missing_locations(node)

    def visit_For(self, node: ast.For) -> Any:
        items = self._items(node.iter)
        names = _targets(node.target)
        inner = [n for s in node.body for n in ast.walk(s)]
        if (
            items is None
            or not names
            or node.orelse
            or not _labels(inner, self._row, names)
            or any(isinstance(n, _STOPS) or set(bound(n)) & {*names} for n in inner)
            or len(items) * len(inner) > LIMITS.written_out_nodes
            or self._reads_beyond(node, names)
        ):
            return self.generic_visit(node)
        found = []
        for x in items:
            for s in node.body:
                put = _Put(dict(zip(names, _elements(x, node.target), strict=True)))
                found += self.statements(put.visit(copied(s)))
        return found or ast.copy_location(ast.Pass(), node)

    def _reads_beyond(self, loop: ast.For, names: list[str]) -> bool:
        """Whether a variable of a loop is read elsewhere."""
        inside = {*map(id, ast.walk(loop))}
        return any(
            isinstance(n, ast.Name) and n.id in names and id(n) not in inside
            for n in ast.walk(self._tree)
        )

    def visit_Call(self, node: ast.Call) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        each = self._each(node)
        if each is not None:
            name = getattr(node.func, "id", "")
            if name in ("any", "all") and each:
                whole = ast.BoolOp(ast.And() if name == "all" else ast.Or(), each)
                one = whole if len(each) > 1 else each[0]
                node.args = [one]
                node.func = ast.Name("bool", ast.Load())
            else:
                node.args = [ast.List(each, ast.Load())]
            return ast.fix_missing_locations(ast.copy_location(node, node))
        found = self._inlined(node)
        return node if found is None else found

    def _each(self, node: ast.Call) -> list[ast.expr] | None:
        """The elements of the generator that is an argument."""
        if len(node.args) != 1 or not isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp)):
            return None
        made = node.args[0]
        if isinstance(made, ast.GeneratorExp):
            if getattr(node.func, "id", None) not in _GOES or not self._is_builtin(node.func):
                return None
            if node.keywords:
                return None
        (one, *more), inner = made.generators, [*ast.walk(made.elt)]
        items, names = self._items(one.iter), _targets(one.target)
        if items is None or more or one.ifs or one.is_async or not names:
            return None
        if not _labels(inner, self._row, names) or any(isinstance(n, _STOPS) for n in inner):
            return None
        if len(items) * len(inner) > LIMITS.written_out_nodes:
            return None
        if any(set(bound(n)) & {*names} for n in inner):
            return None
        return [
            self.visit(_Put(dict(zip(names, _elements(x, one.target), strict=True))).visit(
                copied(made.elt)
            ))
            for x in items
        ]  # fmt: skip

    def _inlined(self, node: ast.Call) -> ast.expr | None:
        """``helper(row)``: what the helper returns; None: it is more than an expression."""
        f = self._f
        if not isinstance(node.func, ast.Name) or node.func.id in self._own or node.keywords:
            return None
        if len(self._within) >= _DEEP or not any(_is(x, self._row) for x in node.args):
            return None
        helper = value(f, node.func.id)
        if type(helper) is not FunctionType or of_library(helper.__code__.co_filename):
            return None
        if helper.__globals__ is not f.__globals__ or node.func.id in _stored(f.__code__):
            return None
        try:
            tree = copied(find.tree_of(helper))
        except TraceError:
            return None
        a = tree.args
        names = [x.arg for x in (*a.posonlyargs, *a.args)]
        if a.vararg or a.kwarg or a.kwonlyargs or len(names) != len(node.args):
            return None
        if not all(isinstance(x, (ast.Name, ast.Constant)) for x in node.args):
            return None
        expr = tree.body if isinstance(tree, ast.Lambda) else _expression(tree.body)
        if expr is None or any(isinstance(n, _STOPS) or [*bound(n)] for n in ast.walk(expr)):
            return None
        free = {n.id for n in ast.walk(expr) if isinstance(n, ast.Name)} - {*names}
        if not all(self._means_the_same(x, helper) for x in free):
            return None
        given = dict(zip(names, node.args, strict=True))
        row = next(k for k, x in given.items() if _is(x, self._row))
        if sum(_is(x, self._row) for x in node.args) > 1:
            return None
        within = (*self._within, node.func.id)
        inner = _Elsewhere(helper, tree, row, self._columns, self._held, within)
        made = _Put(given).visit(inner.visit(expr))
        for n in ast.walk(made):
            ast.copy_location(n, node)
        self._held.append(within)
        return ast.fix_missing_locations(made)  # type: ignore[no-any-return]

    def _means_the_same(self, name: str, helper: FunctionType) -> bool:
        """Whether a name of a helper is the same thing in the function."""
        f, of = self._f.__code__, helper.__code__
        if name in self._own or name in f.co_cellvars:
            return False
        if name in of.co_freevars:
            cells = dict(zip(f.co_freevars, self._f.__closure__ or (), strict=True))
            own = (helper.__closure__ or ())[of.co_freevars.index(name)]
            return cells.get(name) is own
        return name not in f.co_freevars


_STOPS = (ast.Break, ast.Continue, ast.Lambda, ast.FunctionDef, ast.ClassDef, ast.NamedExpr,
          ast.Yield, ast.YieldFrom, ast.Await, ast.Nonlocal, ast.Global)  # fmt: skip
_LOOKS = frozenset("len range enumerate zip sum min max sorted list tuple any all".split())
_GOES = frozenset("sum min max sorted list tuple any all".split())
"""Builtins that go through all that a generator gives, in order."""


class _Put(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._given.get(node.id)
        return node if found is None else ast.copy_location(copied(found), node)


def _is_set(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is(node: Any, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _pair(a: ast.expr, b: ast.expr) -> ast.Tuple:
    return ast.Tuple([a, b], ast.Load())


def _part(node: ast.expr, key: Any) -> ast.expr:
    return ast.Subscript(copied(node), ast.Constant(key), ast.Load())


def _targets(node: ast.expr) -> list[str]:
    """The names that a loop sets: one, or two, or a number and two."""
    if isinstance(node, ast.Name):
        return [node.id]
    found = [x for e in node.elts for x in _targets(e)] if isinstance(node, ast.Tuple) else []
    return found if len({*found}) == len(found) else []


def _elements(x: ast.expr, target: ast.expr) -> list[ast.expr]:
    """What each of these names becomes."""
    if not isinstance(target, ast.Tuple):
        return [x]
    parts = x.elts if isinstance(x, ast.Tuple) else []
    if len(parts) != len(target.elts):
        raise TraceError("a loop over pairs that are none")
    return [y for p, t in zip(parts, target.elts, strict=True) for y in _elements(p, t)]


def _labels(inner: list[ast.AST], row: str, names: list[str]) -> bool:
    """Whether variables of a loop are labels of the row."""
    return any(
        isinstance(n, ast.Subscript)
        and _is(n.value, row)
        and any(_is(x, name) for x in ast.walk(n.slice) for name in names)
        for n in inner
    )


def _folded(node: ast.expr) -> ast.expr:
    """A text that is put together of constants."""
    made = _text(node)
    return node if made is None else ast.copy_location(ast.Constant(made), node)


def _text(node: ast.AST) -> Any:
    """The constant that an expression of texts and integers is; None: it is none."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) in (str, int) else None
    if isinstance(node, ast.BinOp):
        a, b = _text(node.left), _text(node.right)
        if type(a) is type(b) is int and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            return a + b if isinstance(node.op, ast.Add) else (
                a - b if isinstance(node.op, ast.Sub) else a * b
            )  # fmt: skip
        is_text = type(a) is type(b) is str and isinstance(node.op, ast.Add)
        return a + b if is_text else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for x in node.values:
        if isinstance(x, ast.FormattedValue):
            found = _text(x.value) if x.conversion == -1 and x.format_spec is None else None
        else:
            found = _text(x)
        if found is None:
            return None
        parts.append(str(found))
    return "".join(parts)


def _stored(code: CodeType) -> set[str]:
    """The outer names that a function binds anew."""
    import dis

    return {str(x.argval) for x in dis.get_instructions(code) if x.opname in _BINDS}


_BINDS = frozenset(("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF"))


def _expression(body: list[ast.stmt]) -> ast.expr | None:
    """The expression that a body returns, if it has nothing but ``if`` and ``return``."""
    if not body:
        return None
    first, *rest = body
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return _expression(rest)
    if isinstance(first, ast.Return):
        return first.value
    if not isinstance(first, ast.If):
        return None
    then, other = _expression(first.body), _expression([*first.orelse, *rest])
    return None if then is None or other is None else ast.IfExp(first.test, then, other)
