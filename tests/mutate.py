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

    python tests/mutate.py codegen/llvm/typed ir/typed frontends/python/source \
        --number 100 --jobs 16 --tests tests/ir tests/frontends/python/source --cases 150

needs no coverage file, since a report of coverage keeps functions from being compiled: all tests
named run for each fault, the quickest of every function first, then `--cases` of the generator of
loops. What they compile without a fault is kept, so that each fault compiles only what it changes.
"""

import argparse
import ast
import functools
import importlib
import json
import os
import random
import selectors
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
PRELOADED = ("scipy.stats", "scipy.signal", "scipy.ndimage", "sklearn", "torch", "llvmlite.binding")
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
        if isinstance(node, ast.Call) and len(node.args) > 1:
            first, second, *rest = node.args
            if not {type(first), type(second)} & {ast.Starred}:
                what = f"{ast.unparse(node.func)}: {ast.unparse(first)} <-> {ast.unparse(second)}"
                value = [second, first, *rest]
                yield node.lineno, what, lambda n=node, v=value: setattr(n, "args", v)


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
        return _by_turns(found, self._seconds, seconds)


def _by_turns(found, known, seconds):
    """Tests for so many seconds: the quickest of every function first."""
    functions = defaultdict(list)
    for test in sorted(found, key=lambda test: (known[test], test)):
        functions[test.partition("[")[0]].append(test)
    chosen, left = [], seconds
    turns = [*functions.values()]
    while turns and left > 0:
        for tests in turns:
            if left > 0:
                chosen.append(tests.pop(0))
                left -= known[chosen[-1]] + 0.005
        turns = [tests for tests in turns if tests]
    return chosen


class Nearest:
    """The tests of some files, with what they take; they have run once, without a fault."""

    def __init__(self, given):
        self._files, self._cases = given.tests, given.cases
        self._cache, self._seconds = tempfile.mkdtemp(), {}
        for found in _in_processes(given.jobs, self._part):
            self._seconds |= found
        print(f"{len(self._seconds)} tests, {sum(self._seconds.values()):.0f} s", flush=True)

    def _part(self, job, jobs):
        """What each test of a part takes; it fills the cache of compiled code."""
        os.chdir(ROOT)
        os.environ |= {"PYTHONPATH": str(ROOT)}
        sys.path[0] = str(ROOT)
        part = _Part(self._cache, lambda items: items[job::jobs])
        status = pytest.main(["-qx", "-p", "no:cacheprovider", *self._files], plugins=[part])
        if status != pytest.ExitCode.OK:
            raise SystemExit(f"the tests fail without a fault: {part.test}")
        yield part.seconds

    def tests(self, path, tree, line, seconds):
        """All of them, whatever the line."""
        del path, tree, line
        return _by_turns(self._seconds, self._seconds, seconds)

    def first_failure(self, tests):
        """What fails first, of the tests and of the random programs; "": nothing does."""
        place = {test: k for k, test in enumerate(tests)}
        ours = lambda items: sorted(  # noqa: E731
            (x for x in items if x.nodeid in place), key=lambda x: place[x.nodeid]
        )
        part = _Part(self._cache, ours)
        status = pytest.main(["-qx", "-p", "no:cacheprovider", *self._files], plugins=[part])
        if part.test or status != pytest.ExitCode.OK:
            return part.test or "its import"
        sys.path.insert(0, str(Path("tests").absolute()))
        import fuzz

        for case, _ in fuzz.finds("loops", 7, range(self._cases)):
            return f"fuzz loops --seed 7 --case {case}"
        return ""


class _Part:
    """A pytest plugin: some of the tests, what each takes, and the first that fails."""

    def __init__(self, cache, choose):
        self._cache, self._choose, self.seconds, self.test = cache, choose, {}, ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = self._choose(items)
        os.environ["XPAPPLY_CACHE_DIR"] = self._cache

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed and not self.test:
            self.test = report.nodeid


def _in_processes(jobs, work):
    """What ``work(job, jobs)`` yields in each process, as it comes."""
    readers = []
    for job in range(jobs):
        read, write = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.close(read)
                out, null = os.fdopen(write, "w"), os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                for found in work(job, jobs):
                    print(json.dumps(found), file=out, flush=True)
                status = 0
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.close(write)
        readers.append(os.fdopen(read))
    with selectors.DefaultSelector() as several:
        for reader in readers:
            several.register(reader, selectors.EVENT_READ)
        while several.get_map():
            for key, _ in several.select():
                line = key.fileobj.readline()
                if line:
                    yield json.loads(line)
                else:
                    several.unregister(key.fileobj)
    for _ in readers:
        if os.wait()[1]:
            sys.exit("a process failed")


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


def _first_failure(folder, tests, reached):
    os.chdir(folder)
    os.setpgid(0, 0)
    os.environ |= {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[0] = folder
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    failed = _Failed()
    if isinstance(reached, Nearest):
        return reached.first_failure(tests)
    try:
        status = pytest.main(["-qx", "-p", "no:cacheprovider", *tests], plugins=[failed])
    except BaseException as error:  # an option of pytest's, say
        return f"? {error!r}"
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return failed.test
    return "its import" if status == pytest.ExitCode.INTERRUPTED else f"? {status!r}"


def _run(folder, tests, limit, reached):
    """The first of the tests that fails in a copy of the repository; "" if none does."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            os.write(write, _first_failure(folder, tests, reached).encode())
            status = 0
        finally:  # whatever happens, the folder is the parent's
            os._exit(status)
    os.close(write)
    until = time.monotonic() + limit
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        time.sleep(0.05)
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read)
            return "too slow"
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with open(read) as said:
        return said.read() or ("it crashes" if ended[1] else "")


def _copy(folder):
    """The files of the repository, without what stands in no commit."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True).stdout.decode()
    every = (str(path.relative_to(ROOT)) for path in ROOT.rglob("[!.]*"))
    for name in listed.split("\n") if listed else every:
        if name and (ROOT / name).is_file():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, Path(folder, name))


def _tried(faults, queue, reached, given, until):
    """Put faults into a copy; ``(path, line, what, the test that fails)`` of each."""
    sound = set()
    with tempfile.TemporaryDirectory() as folder:
        _copy(folder)
        while (taken := os.read(queue, 2)) and time.monotonic() < until:
            path, k = faults[int.from_bytes(taken, "big")]
            target = Path(folder, path)
            source = target.read_text()
            tree = ast.parse(source)
            line, what, change = list(mutations(tree))[k]
            tests = reached.tests(path, ast.parse(source), line, given.seconds)
            change()
            faulty, failed = ast.unparse(tree), ""
            while tests:
                target.write_text(faulty)
                failed = _run(folder, tests, given.limit, reached)
                target.write_text(source)
                if failed.startswith("?"):
                    raise SystemExit(f"pytest did not run: {failed}")
                if "::" not in failed or failed in sound or given.tests:
                    break
                if not _run(folder, [failed], given.limit, reached):
                    sound.add(failed)
                    break
                print(f"{failed} fails alone, without a fault", file=sys.stderr)
                tests = tests[: tests.index(failed)] + tests[tests.index(failed) + 1 :]
            yield path, line, what, failed if tests else None, source.split("\n")[line - 1].strip()


def _modules(names):
    """The files of modules, and of all modules in folders."""
    for name in names:
        place = ROOT / "xpapply" / name
        found = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        yield from (str(path.relative_to(ROOT)) for path in found)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="such as planning/planner, or folders")
    parser.add_argument("--number", type=int, default=20, help="faults per module, or in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="of tests for a fault")
    parser.add_argument("--limit", type=float, default=180, help="seconds of a fault's tests")
    parser.add_argument("--within", type=float, default=1e9, help="begin no fault after that long")
    parser.add_argument("--verbose", action="store_true", help="which test notices what")
    parser.add_argument("--coverage", default=ROOT / ".coverage")
    parser.add_argument("--durations", default=ROOT / "durations.xml")
    parser.add_argument("--tests", nargs="+", help="run these, and look at no coverage file")
    parser.add_argument("--cases", type=int, default=0, help="and so many random programs")
    given = parser.parse_args()
    until = time.monotonic() + given.within
    chance = random.Random(given.seed)
    count = lambda path: len(list(mutations(ast.parse((ROOT / path).read_text()))))  # noqa: E731
    faults, each = [], bool(given.modules) and not given.tests
    # what needs a device is left to the tests on one
    paths = [
        p for p in _modules(given.modules or [""]) if given.modules or "backends/cupy" not in p
    ]
    for path in paths if each else ():
        n = count(path)
        faults += [(path, k) for k in chance.sample(range(n), min(given.number, n))]
    if not each:
        faults = chance.sample([(p, k) for p in paths for k in range(count(p))], given.number)
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    reached = Nearest(given) if given.tests else Reached(given.coverage, given.durations)
    queue, write = os.pipe()
    os.write(write, b"".join(k.to_bytes(2, "big") for k in range(len(faults))))
    os.close(write)

    def tried(job, jobs):
        del job, jobs
        return _tried(faults, queue, reached, given, until)

    noticed = defaultdict(list)
    for path, line, what, failed, text in _in_processes(given.jobs, tried):
        noticed[path if each else "in all"].append(bool(failed))
        if not failed:
            unseen = ": no test runs it" * (failed is None)
            print(f"{path}:{line}: {what}{unseen}\n    {text}", flush=True)
        elif given.verbose or failed == "too slow":
            print(f"  {path}:{line}: {what}: {failed}", flush=True)
    for name, found in noticed.items():
        print(f"{name}: {sum(found)} of {len(found)} noticed")


if __name__ == "__main__":
    main()
