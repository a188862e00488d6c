"""Functions that do nothing but hand their row on: ``lambda row: score(row, weights)``."""

from __future__ import annotations

import ast
import builtins
from types import FunctionType, ModuleType
from typing import Any

from ..errors import TraceError
from ..frontends.python.source.reading import find
from ..functions.purity import of_library, opcodes, steps_of
from .trees import constant

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function, and what it gets beside a row."""
_WRITES = steps_of("STORE_GLOBAL DELETE_GLOBAL STORE_DEREF DELETE_DEREF")
_NONE: Any = object()


def through(f: Any, args: tuple, kwargs: dict[str, Any]) -> Call:
    """What is called for each row in the end, if all others only hand the row on."""
    found: Call | None = f, args, kwargs
    for _ in range(4):
        assert found is not None
        f, args, kwargs = found
        found = None if args or kwargs else _handed_on(f)
        if found is None:
            break
    return f, args, kwargs


def _handed_on(f: Any) -> Call | None:
    """What a function calls with its row, and returns; None: it does something else."""
    if type(f) is not FunctionType or f.__defaults__ or f.__kwdefaults__:
        return None
    try:
        tree = find.tree_of(f)
    except TraceError:
        return None
    a, node = tree.args, _returned(tree)
    names = [x.arg for x in (*a.posonlyargs, *a.args)]
    if len(names) != 1 or a.vararg or a.kwarg or a.kwonlyargs or not isinstance(node, ast.Call):
        return None
    (row,), g = names, _value(f, node.func)
    first, *rest = node.args or [ast.Constant(None)]
    if not isinstance(first, ast.Name) or first.id != row or row in f.__code__.co_cellvars:
        return None
    if type(g) is not FunctionType or of_library(g.__code__.co_filename):
        return None
    if not _WRITES.isdisjoint(opcodes(g.__code__)):  # of what it is given in the next call, perhaps
        return None
    given = [*rest, *(k.value for k in node.keywords)]
    values = [_NONE if isinstance(x, ast.Name) and x.id == row else _value(f, x) for x in given]
    if any(x is _NONE for x in values) or any(k.arg is None for k in node.keywords):
        return None
    kwargs = dict(zip((str(k.arg) for k in node.keywords), values[len(rest) :], strict=True))
    return g, tuple(values[: len(rest)]), kwargs


def _returned(tree: Any) -> ast.expr | None:
    """The expression that is all that a function has."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    if not isinstance(tree, ast.FunctionDef):
        return None
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def _value(f: FunctionType, node: ast.expr) -> Any:
    """What a constant, a name of the function's surroundings, or one in a module is now."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        owner = _value(f, node.value)
        return getattr(owner, node.attr, _NONE) if isinstance(owner, ModuleType) else _NONE
    if not isinstance(node, ast.Name):
        found = constant(node)
        return _NONE if found is None else found
    if node.id in f.__code__.co_freevars:
        try:
            return (f.__closure__ or ())[f.__code__.co_freevars.index(node.id)].cell_contents
        except ValueError:  # not yet set
            return _NONE
    return f.__globals__.get(node.id, vars(builtins).get(node.id, _NONE))
