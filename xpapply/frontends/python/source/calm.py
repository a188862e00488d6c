"""Whether a loop changes what it goes through, as far as its source tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_FRESH = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.Constant)
_MAKES = frozenset(
    "list dict set deque Counter defaultdict zeros empty ones full zeros_like empty_like ones_like "
    "full_like copy".split()
)
"""Functions that give something new."""


def is_calm(iterated: ast.expr, body: Sequence[ast.AST], function: ast.AST) -> bool:
    """Whether a loop over something writes to nothing that it may be made of.

    Names that it gives a value are none that functions read within what is gone through. What it
    writes into is new: it was made by the function, has one name, and is not gone through.
    """
    inside = [n for s in body for n in ast.walk(s)]
    read = {n.id for n in ast.walk(iterated) if isinstance(n, ast.Name)}
    called = [n for n in ast.walk(iterated) if isinstance(n, ast.Lambda)]
    within = {n.id for f in called for n in ast.walk(f) if isinstance(n, ast.Name)}
    stored = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if stored & within or any(isinstance(n, (ast.Nonlocal, ast.Await)) for n in inside):
        return False
    defined = {n.name for n in ast.walk(function) if isinstance(n, ast.FunctionDef)}
    if read & defined:
        return False
    written = list(_written(inside))
    if not all(isinstance(n, ast.Name) for n in written):
        return False
    return all(
        isinstance(n, ast.Name) and n.id not in read and _is_fresh(n.id, function) for n in written
    )


def _written(inside: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """What is written into, or may be by a method or a function."""
    for n in inside:
        if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load):
            yield _root(n.value)
        elif isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load):
            yield n
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            if n.func.attr in _CHANGES:
                yield _root(n.func.value)


_CHANGES = frozenset(
    "append appendleft extend extendleft insert pop popleft popitem remove clear sort reverse fill "
    "add discard update setdefault put resize at itemset partition rotate heappush heappop heapify "
    "heapreplace heappushpop insort insort_left insort_right copyto".split()
)
"""Methods that change what they are of, and functions that change an argument."""


def _root(e: ast.AST) -> ast.AST:
    while isinstance(e, (ast.Subscript, ast.Attribute)):
        e = e.value
    return e


def _is_fresh(name: str, function: ast.AST) -> bool:
    """Whether a name has only what is made for it, and nothing else has that."""
    for n in ast.walk(function):
        if isinstance(n, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and n.value is not None:
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                if not _makes(n.value):
                    return False
            elif any(_names(t, name) for t in targets):
                return False
            some = n.value.elts if isinstance(n.value, (ast.Tuple, ast.List)) else [n.value]
            if any(isinstance(x, ast.Name) and x.id == name for x in some):
                return False
        elif isinstance(n, (ast.For, ast.comprehension)):
            if _names(n.target, name):
                return False
        elif isinstance(n, ast.arg) and n.arg == name:
            return False
    return True


def _names(target: ast.expr, name: str) -> bool:
    """Whether a name gets a value there."""
    return any(
        isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Store)
        for x in ast.walk(target)
    )


def _makes(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return True  # a new list, or array
    if isinstance(value, ast.Call):
        f = value.func
        name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
        return name in _MAKES
    return isinstance(value, _FRESH)
