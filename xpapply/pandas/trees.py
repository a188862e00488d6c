"""Parts of functions that are written anew, as trees."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

from .labels import NUMPY

HELPER = "_xpapply_helper_"
"""What the names of helpers begin with in functions that are written anew."""


def constant(node: ast.expr) -> Any:
    """The constant that an expression is; None: it is none."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = constant(node.operand)
        return -inner if type(inner) in (int, float) else None
    return None


def bound(node: ast.AST) -> Iterator[str]:
    """Names that a node of a function's body binds, parameters of functions in it among them."""
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name:
        yield node.name


def copied(node: Any) -> Any:
    """A copy of a tree."""
    return copy.deepcopy(node)


def numpys(name: str, *args: Any, keywords: Any = ()) -> Any:
    """A call of a function of NumPy's."""
    function = ast.Attribute(ast.Name(NUMPY, ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), list(keywords))


def method(expr: Any, name: str, *args: Any) -> Any:
    """A call of a method."""
    return ast.Call(ast.Attribute(expr, name, ast.Load()), list(args), [])


def helped(name: str, *args: Any) -> Any:
    """A call of a helper."""
    return ast.Call(ast.Name(HELPER + name, ast.Load()), [*args], [])


# --- a dict that a function fills item by item and makes a Series of, as names of its items ---

_ITEM = "_xpapply_item_{}"


def without_dict(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function, without a dict that becomes the Series that it returns."""
    name = _returned(body[-1]) if body else None
    return body if name is None else _written(name, copied(body)) or body


def _returned(last: ast.stmt) -> str | None:
    """The name in ``return pandas.Series(name, ...)``."""
    call = last.value if isinstance(last, ast.Return) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        return None
    named = getattr(call.func, "attr", getattr(call.func, "id", None)) == "Series"
    return call.args[0].id if named and isinstance(call.args[0], ast.Name) else None


def _written(name: str, body: list[ast.stmt]) -> list[ast.stmt] | None:
    """The statements with names for the items; None: the dict is used in other ways."""
    items: dict[Any, str] = {}
    made: list[ast.stmt] = []
    begun = False

    def keep(key: Any, value: ast.expr, statement: ast.stmt) -> None:
        target = ast.Name(items.setdefault(key, _ITEM.format(len(items))), ast.Store())
        made.append(ast.copy_location(ast.Assign([target], value), statement))

    for statement in body[:-1]:
        alone = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        target = statement.targets[0] if alone else None  # type: ignore[attr-defined]
        if _is(target, name):
            pairs = _pairs(statement.value)  # type: ignore[attr-defined]
            if begun or pairs is None:
                return None
            begun = True
            for key, value in pairs:
                keep(key, value, statement)
        elif begun and isinstance(target, ast.Subscript) and _is(target.value, name):
            if (key := constant(target.slice)) is None:
                return None
            keep(key, statement.value, statement)  # type: ignore[attr-defined]
        else:
            made.append(statement)
    call = body[-1].value  # type: ignore[attr-defined]
    keys = _keys(call.keywords, items)
    if not keys:
        return None
    values: list[ast.expr] = [ast.Name(items[k], ast.Load()) for k in keys]
    call.args, call.keywords = [ast.Dict([ast.Constant(k) for k in keys], values)], []
    reads = _Reads(name, items)
    made = [reads.visit(x) for x in (*made, body[-1])]
    return None if any(_is(n, name) for x in made for n in ast.walk(x)) else made


def _is(node: Any, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _pairs(value: ast.expr) -> list[tuple[Any, ast.expr]] | None:
    """The items that a dict begins with."""
    if isinstance(value, ast.Call) and _is(value.func, "dict") and not value.args:
        found: list[Any] = [(k.arg, k.value) for k in value.keywords]
    elif isinstance(value, ast.Dict):
        found = [
            (None if key is None else constant(key), x)
            for key, x in zip(value.keys, value.values, strict=True)
        ]
    else:
        return None
    return None if any(key is None for key, _ in found) else found


def _keys(keywords: list[ast.keyword], items: dict[Any, str]) -> list[Any] | None:
    """The labels of the Series, in their order."""
    if not keywords:
        return [*items]
    index = keywords[0].value
    if len(keywords) > 1 or keywords[0].arg != "index" or not isinstance(index, ast.List):
        return None
    found = [*map(constant, index.elts)]
    return found if {*found} <= {*items} and len({*found}) == len(found) else None


class _Reads(ast.NodeTransformer):
    """Items that are read."""

    def __init__(self, name: str, items: dict[Any, str]) -> None:
        self._name, self._items = name, items

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """An item."""
        name = self._items.get(constant(node.slice)) if _is(node.value, self._name) else None
        if name is None or not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return ast.copy_location(ast.Name(name, ast.Load()), node)
