"""Would the tests notice? Small faults are put into the package, one at a time, and tests run.

    pip install pytest-cov
    pytest -n auto --cov=xpapply --cov-context=test --cov-report= --junitxml=durations.xml tests
    python tests/mutate.py planning/planner batching/ragged --number 20 --jobs 2

prints the faults that no test has noticed, and the share of those that were, of the modules
named or, without a name, of the whole package. The faults are a seeded choice among all
comparisons, operators, constants, conditions and calls. For each, those tests run that reach
its line, as the coverage file of the second command says: the quickest of every function first,
for `--seconds`. A fault that changes no result is no gap of the tests; what else survives wants
a test. Needs ``fork``.
"""

import argparse
import ast
import functools
import importlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
PRELOADED = ("scipy.stats", "scipy.signal", "scipy.ndimage", "sklearn", "torch")
"""What every test run imports: once here, and not again for each fault."""

SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
MEANINGLESS = {"strict", "slots", "frozen", "repr"}
"""Keywords whose values guard against faults elsewhere, and change no result."""


def mutations(tree):
    """Every place in a module that can be changed, as ``(line, what, change)``."""
    skipped = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            hint = getattr(node, name, None)
            skipped |= {id(part) for part in ast.walk(hint)} if hint is not None else set()
        if isinstance(node, ast.keyword) and node.arg in MEANINGLESS:
            skipped |= {id(part) for part in ast.walk(node.value)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
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


class Reached:
    """Which tests reach which lines, and how long they take."""

    def __init__(self, coverage, durations):
        self._rows = sqlite3.connect(coverage)
        self._files = {}
        self._seconds = defaultdict(lambda: 0.1)
        for case in ElementTree.parse(durations).iter("testcase"):
            where = case.get("classname").replace(".", "/")
            self._seconds[f"{where}.py::{case.get('name')}"] = float(case.get("time"))

    def _lines(self, path):
        """The tests of each line of a file."""
        if path in self._files:
            return self._files[path]
        query = """select context.context, line_bits.numbits from line_bits
            join file on file.id = file_id join context on context.id = context_id
            where file.path like '%/' || ?"""
        found = self._files[path] = defaultdict(set)
        for context, bits in self._rows.execute(query, (path,)):
            test = context.rpartition("|")[0]
            for k, byte in enumerate(bits if test else b""):
                for bit in range(8):
                    if byte >> bit & 1:
                        found[8 * k + bit].add(test)
        return found

    def tests(self, path, tree, line, seconds):
        """The tests of a line for so many seconds: the quickest of every function first."""
        lines = self._lines(path)
        found = lines[line] or set().union(*(lines[k] for k in _around(tree, line)))
        functions = defaultdict(list)
        for test in sorted(found, key=lambda test: (self._seconds[test], test)):
            functions[test.partition("[")[0]].append(test)
        chosen, left = [], seconds
        turns = [*functions.values()]
        while turns and left > 0:
            for tests in turns:
                if left > 0:
                    chosen.append(tests.pop(0))
                    left -= self._seconds[chosen[-1]] + 0.005
            turns = [tests for tests in turns if tests]
        return chosen


def _around(tree, line):
    """The lines that tell whether a line that runs at import, or in part, was used."""
    inside = [x for x in ast.walk(tree) if getattr(x, "lineno", line + 1) <= line <= x.end_lineno]
    functions = [x for x in inside if isinstance(x, ast.FunctionDef)]
    if functions and line >= functions[-1].body[0].lineno:
        statement = [x for x in inside if isinstance(x, ast.stmt)][-1]
        yield from range(statement.lineno, statement.end_lineno + 1)
        return
    if functions:  # in what stands before its body: a default, a decorator
        yield from range(functions[-1].lineno, functions[-1].end_lineno + 1)
        return
    names = {x.id for y in inside for x in getattr(y, "targets", ()) if isinstance(x, ast.Name)}
    used = {x.lineno for x in ast.walk(tree) if isinstance(x, ast.Name) and x.id in names}
    yield from used - {line} or range(1, tree.body[-1].end_lineno + 1)


class _Failed:
    """A pytest plugin: the first test that fails."""

    test = ""

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.test:
            self.test = report.nodeid


def _first_failure(folder, tests):
    os.chdir(folder)
    os.setpgid(0, 0)
    os.environ |= {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[0] = folder
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    failed = _Failed()
    try:
        status = pytest.main(["-qx", "-p", "no:cacheprovider", *tests], plugins=[failed])
    except BaseException as error:  # an option of pytest's, say
        return f"? {error!r}"
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return failed.test
    return "its import" if status == pytest.ExitCode.INTERRUPTED else f"? {status!r}"


def _run(folder, tests, seconds):
    """The first of the tests that fails in a copy of the repository; "" if none does."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.write(write, _first_failure(folder, tests).encode())
        finally:  # whatever happens, the folder is the parent's
            os._exit(0)
    os.close(write)
    until = time.monotonic() + 60 + 6 * seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.05)
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read)
            return "too slow"
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with open(read) as said:
        return said.read()


def _copy(folder):
    """The files of the repository, without what stands in no commit."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in names.decode().split("\n"):
        if name and (ROOT / name).is_file():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, Path(folder, name))


def _tried(faults, given):
    """Put each fault into a copy; ``(path, line, what, the test that fails)`` of each."""
    reached = Reached(given.coverage, given.durations)
    sound = set()
    with tempfile.TemporaryDirectory() as folder:
        _copy(folder)
        for path, k in faults:
            target = Path(folder, path)
            source = target.read_text()
            tree = ast.parse(source)
            line, what, change = list(mutations(tree))[k]
            tests = reached.tests(path, ast.parse(source), line, given.seconds)
            change()
            faulty, failed = ast.unparse(tree), ""
            while tests:
                target.write_text(faulty)
                failed = _run(folder, tests, given.seconds)
                target.write_text(source)
                if failed.startswith("?"):
                    sys.exit(f"pytest did not run: {failed}")
                if "::" not in failed or failed in sound:
                    break
                if not _run(folder, [failed], given.seconds):
                    sound.add(failed)
                    break
                print(f"{failed} fails alone, without a fault", flush=True)
                tests = tests[: tests.index(failed)] + tests[tests.index(failed) + 1 :]
            yield path, line, what, failed if tests else None


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="such as planning/planner or batching/ragged")
    parser.add_argument("--number", type=int, default=20, help="faults per module, or in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="of tests for a fault")
    parser.add_argument("--verbose", action="store_true", help="which test notices what")
    parser.add_argument("--coverage", default=ROOT / ".coverage")
    parser.add_argument("--durations", default=ROOT / "durations.xml")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    count = lambda path: len(list(mutations(ast.parse((ROOT / path).read_text()))))  # noqa: E731
    faults = []
    if given.modules:
        for path in [f"xpapply/{name}.py" for name in given.modules]:
            n = count(path)
            faults += [(path, k) for k in chance.sample(range(n), min(given.number, n))]
    else:
        # what needs a device is left to the tests on one
        paths = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "xpapply").rglob("*.py"))
        every = [(p, k) for p in paths if "backends/cupy" not in p for k in range(count(p))]
        faults = chance.sample(every, given.number)
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    workers = []
    for job in range(given.jobs):
        read, write = os.pipe()
        if os.fork() == 0:
            with open(write, "w") as out:
                for fault in _tried(faults[job :: given.jobs], given):
                    print(json.dumps(fault), file=out, flush=True)
            os._exit(0)
        os.close(write)
        workers.append(open(read))  # noqa: SIM115
    noticed = defaultdict(list)
    for worker in workers:
        for path, line, what, failed in map(json.loads, worker):
            noticed[path if given.modules else "the package"].append(bool(failed))
            if not failed:
                print(f"{path}:{line}: {what}" + ": no test runs it" * (failed is None), flush=True)
            elif given.verbose:
                print(f"  {path}:{line}: {what}: {failed}", flush=True)
    for name, found in noticed.items():
        print(f"{name}: {sum(found)} of {len(found)} noticed")


if __name__ == "__main__":
    main()
