"""Would the tests notice? Small faults are put into a module, one at a time, and its tests run.

    python tests/mutate.py walk paths --number 20 --seed 0

prints the faults that no test has noticed, and the share of those that were. The faults are a
seeded choice among all comparisons, operators, constants, conditions and calls of a module. A
fault that changes no result is no gap of the tests; what else survives wants a test.
"""

import argparse
import ast
import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

TESTS = {
    "planner": "give_up plan",
    "paths": "walk give_up",
    "walk": "walk give_up",
    "traced": "give_up walk",
    "threads": "give_up threads interrupt",
    "blocks": "blocks walk",
    "plan": "plan give_up apply",
    "memory": "memory plan functions tracer",
    "counting": "special",
    "engines": "plan apply parity",
    "config": "config",
    "frontends/python/watch": "tracer functions",
    "frontends/python/purity": "tracer functions",
    "frontends/python/ragged": "functions tracer walk",
    "known/ragged": "functions tracer walk",
    "frontends/torch/trial": "torch_frontend",
    "codegen/kernels": "codegen",
    "codegen/layers": "tensor codegen",
}
"""The files in tests/ that belong to a module, the quickest first."""

SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


def mutations(tree):
    """Every place in a module that can be changed, as ``(line, what, change)``."""
    for node in ast.walk(tree):
        for name in ("ops", "op"):
            ops = getattr(node, name, None)
            first = ops[0] if isinstance(ops, list) and ops else ops
            other = SWAPS.get(type(first))
            if other is None or not hasattr(node, "lineno"):
                continue
            what = f"{type(first).__name__} -> {other.__name__}"
            value = [other(), *ops[1:]] if isinstance(ops, list) else other()
            yield node.lineno, what, lambda n=node, a=name, v=value: setattr(n, a, v)
        if isinstance(node, ast.Constant) and type(node.value) in (bool, int):
            value = not node.value if type(node.value) is bool else node.value + 1
            what = f"{node.value} -> {value}"
            yield node.lineno, what, lambda n=node, v=value: setattr(n, "value", v)
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            for value in (True, False) if not isinstance(node, ast.While) else (False,):
                test = ast.copy_location(ast.Constant(value), node.test)
                what = f"{ast.unparse(node.test)} -> {value}"
                yield node.lineno, what, lambda n=node, v=test: setattr(n, "test", v)
        for body in ("body", "orelse", "finalbody"):
            statements = getattr(node, body, None)
            for k, statement in enumerate(statements if isinstance(statements, list) else []):
                text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if isinstance(statement, (ast.Expr, ast.AugAssign)) and not text:
                    nothing = ast.copy_location(ast.Pass(), statement)
                    what = f"without {ast.unparse(statement)}"
                    change = functools.partial(statements.__setitem__, k, nothing)
                    yield statement.lineno, what, change


def noticed(copy, tests):
    """Whether a test fails on this copy of the repository."""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *tests]
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=600)
    except subprocess.TimeoutExpired:
        return True
    if ran.returncode > 1:
        sys.exit(ran.stdout.decode() + ran.stderr.decode())
    return ran.returncode == 1


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", choices=[*TESTS, []], default=list(TESTS))
    parser.add_argument("--number", type=int, default=20, help="faults per module")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("xpapply", "tests"):
            shutil.copytree(ROOT / name, Path(folder, name))
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        for module in given.modules:
            target = Path(folder, "xpapply", f"{module}.py")
            source = target.read_text()
            tests = [f"tests/test_{name}.py" for name in TESTS[module].split()]
            tests = [name for name in tests if (ROOT / name).exists()]
            if noticed(folder, tests):
                sys.exit(f"{module}: its tests fail without a fault")
            count = len(list(mutations(ast.parse(source))))
            chosen = random.Random(given.seed).sample(range(count), min(given.number, count))
            found = 0
            for k in chosen:
                tree = ast.parse(source)
                line, what, change = list(mutations(tree))[k]
                change()
                target.write_text(ast.unparse(tree))
                if noticed(folder, tests):
                    found += 1
                else:
                    print(f"{module}.py:{line}: {what}", flush=True)
            target.write_text(source)
            print(f"{module}: {found} of {len(chosen)} noticed", flush=True)


if __name__ == "__main__":
    main()
