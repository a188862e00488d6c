"""Imports go one way, siblings do not know each other, and nothing is imported that is not used."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "xpapply"

ORDER = """
    errors limits config runtime arrays functions ir lowering codegen backends loop batching
    library frontends labelled slice_functions storage planning mlp apply vectorized special custom
    convolution models xarray array_api pandas patching testing . cli __main__
""".split()
"""The rooms, folders and files of the top, from the bottom up; ".": xpapply/__init__.py."""

LEVELS = {"" if room == "." else room: level for level, room in enumerate(ORDER)}
"""A module imports from rooms of lower levels only, or from its own."""

ROOMS = ("backends", "frontends")
"""Their files serve one library each and do not know each other."""

REFERENCE = ("backends", "array_api")
"""What every backend may take from."""


MODULES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def tree_of(path):
    """What a file says: every test asks for it."""
    return ast.parse(path.read_text())


def package_of(path):
    """The dotted path of the package that relative imports in `path` start from."""
    return path.relative_to(PACKAGE).parts[:-1]


def imported(path, source=None, annotations=False):
    """Every module of the package that `path` imports when it is loaded or run.

    `annotations`: those as well that it imports for type checkers alone.
    """
    for target, typing_only in imports_of(path, source):
        if annotations or not typing_only:
            yield target


@functools.cache
def imports_of(path, source):
    """What `path` imports, and whether that is for type checkers alone."""
    tree = ast.parse(source) if source else tree_of(path)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return [
        (target, id(node) in typing_only)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for target in targets_of(node, path)
    ]


def targets_of(node, path):
    if isinstance(node, ast.Import):
        for name in node.names:
            if name.name.partition(".")[0] == "xpapply":
                yield tuple(name.name.split(".")[1:])
        return
    base = package_of(path)
    if node.level:
        base = base[: len(base) - node.level + 1]
    elif (node.module or "").partition(".")[0] != "xpapply":
        return
    else:
        base = ()
    inner = tuple(node.module.split(".")) if node.module else ()
    inner = inner if node.level else inner[1:]
    for name in node.names:
        target = (*base, *inner)
        whole = PACKAGE.joinpath(*target, name.name)
        is_module = whole.is_dir() or whole.with_suffix(".py").exists()
        yield (*target, name.name) if is_module else target


def wrong(path, source=None):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    room = "" if parts == ("__init__",) else parts[0]
    for target in imported(path, source, annotations=True):
        other = target[0] if target else ""
        if LEVELS[other] > LEVELS[room]:
            yield f"{'.'.join(parts)} imports {other}, which is above it"
        siblings = room in ROOMS and other in ROOMS and len(target) > 1 and target != REFERENCE
        if siblings and (room, parts[1]) != target[:2] and parts[1] != "__init__":
            yield f"{'.'.join(parts)} imports its sibling {'.'.join(target)}"


def test_imports_go_down():
    assert [what for path in MODULES for what in wrong(path)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("ir/graph.py", "from ..planning.plan import Plan"),
        ("ir/graph.py", "from .. import planning"),
        ("backends/array_api.py", "from . import torch"),
        ("backends/torch.py", "from .dask import lower"),
        ("backends/array_api.py", "from ..frontends.torch import lift"),
        ("frontends/torch/lift/proxy.py", "from ...xpapply import lift"),
        ("loop/reference.py", "def f():\n    import xpapply.apply"),
        ("planning/plan.py", "from xpapply import apply"),
    ],
)
def test_upward_arrows_are_seen(file, source):
    assert list(wrong(PACKAGE / file, source))


def in_circles(graph):
    """The modules of a graph of imports that import each other, or that lie between such."""
    left = {name: targets - {name} for name, targets in graph.items()}
    while True:
        wanted = set().union(*left.values())
        ends = {n for n, targets in left.items() if not targets & left.keys() or n not in wanted}
        if not ends:
            return left.keys()
        left = {name: targets for name, targets in left.items() if name not in ends}


def between_files(annotations):
    graph = {}
    for path in MODULES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        graph[parts[:-1] if parts[-1] == "__init__" else parts] = set(
            imported(path, annotations=annotations)
        )
    return graph


@pytest.mark.parametrize("annotations", [False, True])
def test_no_circle_between_files(annotations):
    graph = between_files(annotations)
    if annotations:
        del graph[()]  # the package itself names what it loads when it is asked for
    assert in_circles(graph) == set()


def test_circles_are_seen():
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"b", "c"}


def hides_its_file(path, source=None):
    """Names of a package that are those of its files: what imports the file later puts it there."""
    files = {x.stem for x in path.parent.glob("*.py")} | {
        x.parent.name for x in path.parent.glob("*/__init__.py")
    }
    for node in (ast.parse(source) if source else tree_of(path)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [x.id for x in node.targets if isinstance(x, ast.Name)]
        elif isinstance(node, ast.ImportFrom):
            itself = [*files] if node.level == 1 and not node.module else [node.module]
            names = [a.asname or a.name for a in node.names if a.name not in itself]
        else:
            continue
        yield from files.intersection(names)


def test_packages_hide_none_of_their_files():
    for path in PACKAGE.rglob("__init__.py"):
        assert list(hides_its_file(path)) == [], path


def test_hidden_files_are_seen():
    path = PACKAGE / "batching" / "numpy" / "__init__.py"
    assert list(hides_its_file(path, "def axis(): pass\nfrom .moves import moves")) == ["axis"]
    assert list(hides_its_file(path, "from ..rules import elementwise")) == ["elementwise"]


def test_import_loads_nothing_else():
    heavy = ("torch", "cupy", "dask", "jax", "sklearn", "scipy", "array_api_compat", "hypothesis")
    code = (
        "import sys, xpapply, numpy as np\n"
        "xpapply.apply_along_axis(sorted, 0, np.zeros((2, 3)))\n"
        "net = xpapply.MLP([np.ones((2, 3))])\n"
        "xpapply.apply_along_axis(net, 1, np.zeros((2, 3)))\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout.strip() == "[]"


def recursive_closures(tree):
    """Functions inside a function that call themselves: they keep alive what they close over."""
    found = set()  # of several functions around one, once
    for outer in ast.walk(tree):
        if not isinstance(outer, (ast.FunctionDef, ast.Lambda)):
            continue
        for inner in ast.walk(outer):
            if inner is outer or not isinstance(inner, ast.FunctionDef) or inner in found:
                continue
            found.add(inner)
            names = [x for x in ast.walk(inner) if isinstance(x, ast.Name) and x.id == inner.name]
            if names and all(isinstance(x.ctx, ast.Load) for x in names):
                yield inner.name, inner.lineno


def test_no_function_inside_a_function_calls_itself():
    # it is in a reference cycle with what it closes over, e.g. the arrays of a block: they stay
    # until the garbage collector runs, and it counts objects, not bytes
    for path in MODULES:
        assert not list(recursive_closures(tree_of(path))), path


def test_a_recursive_closure_is_found():
    source = "def f(x):\n    found = []\n    def g(y):\n        found.append(g(y))\n    g(x)"
    assert list(recursive_closures(ast.parse(source))) == [("g", 3)]


def test_a_class_name_stands_for_one_thing_in_a_folder():
    names = [
        (path.parent, node.name)
        for path in MODULES
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == set()
