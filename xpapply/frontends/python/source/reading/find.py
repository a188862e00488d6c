"""The syntax tree of a function, from wherever its source is: files, notebooks, doctests."""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import linecache
import types
import weakref
from collections.abc import Iterator

from .....errors import TraceError
from .....functions.cache import BoundedDict
from .....runtime.warning_filters import silent

Tree = ast.FunctionDef | ast.Lambda

_trees: BoundedDict = BoundedDict()
"""Syntax trees of functions in files, by code: of one that ran once."""
_kept: weakref.WeakKeyDictionary[types.CodeType, Tree] = weakref.WeakKeyDictionary()
"""Those of functions that are in no file, where they cannot be found again."""


def tree_of(f: types.FunctionType) -> Tree:
    """The syntax tree of a function, with the lines of its file.

    Raises
    ------
    TraceError
        If there is no source, or if it is another one by now.
    """
    code = f.__code__
    found = _kept.get(code) or _trees.get(code)
    if found is None:
        with silent():  # of what Python has warned of where it read the file
            found = _trees[code] = _found(f)
    return found  # type: ignore[no-any-return]


def keep(code: types.CodeType, tree: Tree) -> None:
    """Know the syntax tree of a function that was made of it, and is in no file."""
    _kept.pop(code, None)  # an equal one, which may be gone before this one
    _kept[code] = tree


def _found(f: types.FunctionType) -> Tree:
    code = f.__code__
    lines = linecache.getlines(code.co_filename, f.__globals__)
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines):
        raise TraceError(f"there is no source of {f.__name__}")
    for candidate in _candidates(lines, first, code):
        if _same(_code_of(candidate, code), code):
            return candidate
    raise TraceError(f"the source of {f.__name__} is not what runs: was the file changed since?")


def _candidates(lines: list[str], first: int, code: types.CodeType) -> Iterator[Tree]:
    """Functions that begin on a line: of the block there, else of what is around it."""
    try:
        block = inspect.getblock(lines[first:])
        text = "".join(block)
        indented = text[:1].isspace()
        tree = ast.parse(f"if 1:\n{text}" if indented else text)
        yield from _functions(ast.increment_lineno(tree, first - indented), code)
    except (SyntaxError, IndentationError, ValueError):
        pass
    if code.co_name != "<lambda>":
        return
    for begin, end in (_around(lines, first), (0, len(lines))):
        try:
            tree = ast.parse("".join(lines[begin:end]))
        except (SyntaxError, ValueError):
            continue
        yield from _functions(ast.increment_lineno(tree, begin), code)


def _around(lines: list[str], first: int) -> tuple[int, int]:
    """Where the statement that a line belongs to begins and ends, by how lines are indented."""
    begin, end = first, first + 1
    while begin > 0 and lines[begin][:1] in _WITHIN:
        begin -= 1
    while end < len(lines) and lines[end][:1] in _WITHIN:
        end += 1
    return begin, end


_WITHIN = ("", *" \t\f\r\n)]}#")
"""How lines begin that no statement of a file begins with."""


def _functions(tree: ast.AST, code: types.CodeType) -> Iterator[Tree]:
    """Functions in a tree with the name and first line of a code object."""
    for n in ast.walk(tree):
        if isinstance(n, ast.Lambda):
            if code.co_name == "<lambda>" and n.lineno == code.co_firstlineno:
                yield n
        elif isinstance(n, ast.FunctionDef) and n.name == code.co_name:
            if min([n.lineno, *(d.lineno for d in n.decorator_list)]) == code.co_firstlineno:
                yield n


def _code_of(tree: Tree, code: types.CodeType) -> types.CodeType | None:
    """Compile a tree, with the free variables of a code object."""
    inner: ast.stmt = ast.Expr(tree) if isinstance(tree, ast.Lambda) else tree
    assigned = "; ".join(f"{name} = None" for name in code.co_freevars if name.isidentifier())
    if code.co_name.isidentifier() and code.co_name not in code.co_freevars:
        assigned = f"global {code.co_name}; {assigned}"  # so it reads itself, if it does
    outer = ast.parse(f"def outer():\n    {assigned or 'pass'}")
    outer.body[0].body.append(inner)  # type: ignore[attr-defined]
    try:
        # annotations of functions inside are texts, where the file says so
        flags = code.co_flags & __future__.annotations.compiler_flag
        made = compile(ast.fix_missing_locations(outer), code.co_filename, "exec", flags, True)
    except (SyntaxError, ValueError):
        return None
    found = [made]
    for c in found:
        inside = [x for x in c.co_consts if isinstance(x, types.CodeType)]
        for x in inside:
            if x.co_name == code.co_name and c.co_name == "outer":
                return x
        found += inside
    return None


def _same(made: types.CodeType | None, code: types.CodeType) -> bool:
    """Whether two code objects are equal, lines included."""
    if made is None or made.co_varnames != code.co_varnames:
        return False
    if made.co_code != code.co_code and _steps(made) != _steps(code):
        return False
    if made.co_names != code.co_names or len(made.co_consts) != len(code.co_consts):
        return False
    if code.co_name != "<lambda>" and {*_lines(made)} != {*_lines(code)}:
        return False
    for a, b in zip(made.co_consts, code.co_consts, strict=True):
        if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
            if not _same(a, b):
                return False
        elif type(a) is not type(b) or repr(a) != repr(b):
            return False
    return True


def _lines(code: types.CodeType) -> list[int]:
    return [line for *_, line in code.co_lines() if line is not None]


def _steps(code: types.CodeType) -> list[tuple[str, object]]:
    """Instructions, but for how methods are called: that depends on what else the file imports."""
    found: list[tuple[str, object]] = []
    for x in dis.get_instructions(code):
        if x.opname in ("PUSH_NULL", "PRECALL", "CACHE", "NOP", "EXTENDED_ARG"):
            continue
        name = "LOAD_ATTR" if x.opname == "LOAD_METHOD" else x.opname
        plain = (
            not isinstance(x.argval, types.CodeType) and "JUMP" not in name and name != "FOR_ITER"
        )
        found.append((name, x.argval if plain else None))
    return found
