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
