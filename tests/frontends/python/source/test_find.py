"""Source is found wherever a function stands, and is that of what runs."""

import ast
import functools
import gc
import linecache
import weakref

import numpy as np
import pytest

from xpapply.errors import TraceError
from xpapply.frontends.python.source.reading import find
from xpapply.frontends.python.source.reading.find import tree_of
from xpapply.limits import LIMITS


def decorated(f):
    return f


@decorated
@functools.lru_cache
def cached(v):
    return v + 1


def outer():
    k = 3

    def inner(v):
        """With a docstring."""
        return v + k  # of the outer one

    return inner


first, second = (lambda v: v + 1), (lambda v: v + 2)
nested = [lambda v, k=k: v * k for k in (1, 2)]


def text(f):
    tree = tree_of(f)
    return ast.unparse(tree.body if isinstance(tree, ast.Lambda) else tree.body[-1])


def test_where_functions_stand():
    assert text(cached.__wrapped__) == "return v + 1"
    assert text(outer()) == "return v + k"
    assert text(first) == "v + 1"
    assert text(second) == "v + 2"
    assert text(nested[1]) == "v * k"
    assert text(lambda v: np.sqrt(v)) == "np.sqrt(v)"


def test_lines_are_those_of_the_file():
    tree = tree_of(outer())
    assert tree.lineno == outer.__code__.co_firstlineno + 3


def made(source, name, file):
    space = {}
    exec(compile(source, file, "exec"), space)
    return space[name]


def test_source_in_memory_such_as_that_of_a_notebook():
    source = "def f(v):\n    return v * 2\n"
    linecache.cache["<cell 7>"] = len(source), None, source.splitlines(True), "<cell 7>"
    assert text(made(source, "f", "<cell 7>")) == "return v * 2"


def test_source_that_is_not_there_or_another_one():
    with pytest.raises(TraceError, match="there is no source"):
        tree_of(made("def f(v):\n    return v\n", "f", "<nowhere>"))
    source = "def f(v):\n    return v * 5\n"
    linecache.cache["<cell 8>"] = len(source), None, source.splitlines(True), "<cell 8>"
    with pytest.raises(TraceError, match="is not what runs"):
        tree_of(made("def f(v):\n    return v * 7\n", "f", "<cell 8>"))


def test_annotations_of_functions_within_it():
    """They are texts where the file says so, and the compiled function holds them so."""
    text_ = "from __future__ import annotations\n"
    text_ += "def f(v):\n    def g(x: float) -> Unknown:\n        return x\n    return g(v)\n"
    linecache.cache["<annotated>"] = (len(text_), None, text_.splitlines(True), "<annotated>")
    space = {}
    exec(compile(text_, "<annotated>", "exec"), space)
    assert tree_of(space["f"]).body[1].value.func.id == "g"


@pytest.mark.parametrize("is_text", [False, True])
def test_of_a_lambda_only_its_statement_is_read(is_text, monkeypatch):
    """Not the whole file, unless what is around it is a part of something else."""
    lines = ["a = 1"] * 500 + [
        "table = dict(",
        "# and so on",
        "",
        "    x=lambda v: v * 2) if a else a",
    ]
    if is_text:
        lines[500] = 'table = dict(y="""'
        lines.insert(501, 'of two lines""",')
    source, file = "\n".join([*lines, *["b = 2"] * 500, ""]), f"<{is_text} text>"
    monkeypatch.setitem(
        linecache.cache, file, (len(source), None, source.splitlines(keepends=True), file)
    )
    read = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, *a: read.append(len(text)) or parse(text, *a))
    f = made(source, "table", file)["x"]
    tree = tree_of(f)
    assert ast.unparse(tree.body) == "v * 2"
    assert tree.lineno == f.__code__.co_firstlineno
    assert (max(read) > 1000) is is_text


def test_trees_of_what_is_in_no_file_are_kept_for_as_long_as_their_code():
    tree = ast.parse("def made(v):\n    return v + 1").body[0]
    space = {}
    exec(compile(ast.Module([tree], []), __file__, "exec"), space)
    f = space["made"]
    find.keep(f.__code__, tree)
    others = [f.__code__.replace(co_name=f"other_{k}") for k in range(LIMITS.remembered + 1)]
    for other in others:
        find.keep(other, tree)
    assert find.tree_of(f) is tree
    code = weakref.ref(f.__code__)
    del f, space
    gc.collect()  # its globals have it
    assert code() is None
