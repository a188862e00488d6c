"""The benchmarks: pages are those of their results, and one runner measures what is missing."""

import argparse
import dataclasses
import importlib
import math
import time

import numpy as np
import pytest

import xpapply
from benchmarks import devices, pages, runner
from conftest import library

PAGES = {
    "cpu": "cpu",
    "functions": "functions",
    "dask": "dask",
    "files_cpu": "files",
    "files_gpu": "files",
    "gpu": "gpu",
    "loops": "loops",
    "onnx_cpu": "onnx",
    "onnx_gpu": "onnx",
    "patched": "patched",
    "several": "several",
    "sklearn_cpu": "sklearn",
    "sklearn_gpu": "sklearn",
    "methods": "methods",
    "solvers": "solvers",
    "slices_cpu": "slices",
    "slices_gpu": "slices",
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_of_their_results(name):
    report = importlib.import_module(f"benchmarks.{PAGES[name]}_report")
    data = pages.load(name, pages.RESULTS)
    page = (pages.RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert report.render(data) + "\n" == page


@pytest.mark.parametrize("suite", ["cpu", "gpu", "slices"])
def test_every_peer_has_its_place_in_the_page(suite):
    library("torch")
    rows = importlib.import_module(f"benchmarks.{suite}")
    report = importlib.import_module(f"benchmarks.{suite}_report")
    rounds = rows.ROUNDS if hasattr(rows, "ROUNDS") else [rows.PEERS]
    names = [peer.name for peers in rounds for peer in peers]
    assert len(names) == len(set(names))
    assert set(names) == set(report.PEERS if suite == "cpu" else report.WAYS)


class Sum(runner.Case):
    name = "sum"
    on = devices.Cpu()
    wrong = 1e-3
    x = np.arange(5.0)

    def sizes(self):
        return {1}

    def error(self, y, peer):
        return abs(y - 10.0)


def missing(case):
    raise ImportError("no such library")


def fails_later(case):
    """The second call of two."""
    calls = iter([case.x.sum])
    return lambda: next(calls)()


PEERS = (
    runner.Peer("right", lambda case: case.x.sum),
    runner.Peer("wrong", lambda case: case.x.max),
    runner.Peer("remark", lambda case: (lambda: sum(case.x), "a loop"), "sample"),
    runner.Peer("missing", missing),
    runner.Peer("later", fails_later),
    runner.Peer("elsewhere", missing, fits=lambda case: False),
)


def measured(done, seconds=math.inf):
    library("torch")
    args = argparse.Namespace(seconds=seconds, out=None, quick=True, only="", suite="sum")
    run = runner.Run("sum", Sum.on, args, str, time.perf_counter())
    run.measure(Sum(), PEERS, done, repeats=2)
    run.part("part/one", lambda: done["right"])
    return run


def test_what_cannot_be_measured_says_why():
    done = {}
    run = measured(done)
    assert list(done) == ["right", "wrong", "remark", "missing", "later"]
    assert done["right"]["repeats"] == 2
    assert done["right"]["error"] == 0
    assert "a wrong result" in done["wrong"]["skipped"]
    assert done["remark"]["note"] == "a loop"
    assert done["missing"]["skipped"] == "ImportError: no such library"
    assert done["later"]["skipped"] == "StopIteration"
    assert run.data == {"part": {"one": done["right"]}}


def test_a_run_goes_on_where_another_ended():
    done = {}
    assert measured(done, seconds=-1.0).data == {"part": {}}
    assert {entry["skipped"] for entry in done.values()} == {runner.NO_TIME}
    done["wrong"] = {"median": 1.0}
    measured(done)
    assert done["wrong"] == {"median": 1.0}
    assert done["right"]["repeats"] == 2


# --- the rows of functions of slices, by definition ---


def looped(f, dtype, x, axis):
    """A function that is meant for numba, slice by slice in Python."""
    from benchmarks import guvectorized, slices

    kinds, layout = guvectorized.LAYOUTS[f]
    given, results = (side.count("(") for side in layout.split("->"))
    more = [slices.TAPS.astype(dtype)] * (given - 1)
    whole = layout.endswith("(n)")
    kinds = {"v": dtype, "i": np.int64}, kinds[given:]
    moved = np.moveaxis(x, axis, -1)
    shape = moved.shape if whole else (len(moved), 1)
    outs = [np.zeros(shape, kinds[0][kind]) for kind in kinds[1]]
    for k, v in enumerate(moved):
        f(v, *more, *(out[k] for out in outs))
    outs = [np.moveaxis(out, -1, axis) if whole else out[:, 0] for out in outs]
    return outs[0] if results == 1 else tuple(outs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((40, 12), 1), ((13, 9), 0)])
def test_the_ways_of_a_function_of_slices_are_the_same(shape, axis, dtype):
    library("torch")
    from benchmarks import slices

    names = slices.names
    for function in (*slices.OF_CPU, "mean_var"):
        case = slices.Case(devices.Cpu(), "cpu", function, shape, axis, dtype=dtype)
        row, (x,), (t,) = slices.FUNCTIONS[function], case.arrays, case.tensors
        ways = {
            names.CAREFUL: row[names.CAREFUL](x, axis),
            names.TORCH: row[names.TORCH](t, axis),
            names.NUMBA: looped(row[names.NUMBA], dtype, x, axis),
        }
        if names.APPLY in row:
            ways[names.APPLY] = np.apply_along_axis(case.of_one_slice, axis, x)
        for way, found in ways.items():
            error = case.error(found, runner.Peer(way, lambda case: None))
            assert error < 1e3 * np.finfo(dtype).eps, (function, way)


@pytest.mark.parametrize("lanes", [2, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_loop_of_multiply_adds_is_llvms(dtype, lanes):
    library("llvmlite")
    from llvmlite import binding

    from benchmarks import fma

    binding.parse_assembly(fma.text(dtype, lanes)).verify()


# --- no function dearer than the loop ---


def test_two_functions_beside_the_loop(tmp_path, monkeypatch):
    library("torch")
    library("scipy")
    from benchmarks import never_slower, never_slower_report
    from benchmarks.never_slower_rows import rows

    names = ("argmax", "sign (numbers)")
    monkeypatch.setattr(never_slower, "BATCH", 1e-3)
    monkeypatch.setattr(never_slower, "PROBE", 1e-3)
    never_slower.warm_up()
    two = [row for row in rows(1, drawn=0) if row.name in names]
    found = {row.name: never_slower.measured(row, ("10 slices",), 3, tmp_path) for row in two}
    for row in two:
        found[row.name]["group"] = row.group
        entry = found[row.name]["sizes"]["10 slices"]
        assert entry["slices"] == 10
        assert "wrong" not in entry
        assert min(entry["loop"], entry["xpapply"], entry["first"]) > 0
    page = never_slower_report.render({"settings": {"repeats": 3, "seed": 1}, "rows": found})
    assert "sign (numbers)" in page


def test_there_are_functions_of_all_kinds():
    from benchmarks.never_slower_rows import rows

    found = rows(1, drawn=10)
    assert len({row.name for row in found}) == len(found)
    groups = [row.group for row in found]
    assert groups.count("programs") == 20
    assert groups.count("random") == 10
    assert sum(row.numbers for row in found) >= 60
    assert len(found) >= 120 + 60 + 20 + 10


def test_what_is_above_a_bound():
    from benchmarks import never_slower_report as report

    even = {"loop": 1.0, "xpapply": 1.0, "first": 1.3, "numbers": False}
    assert report.above(even) == []
    assert report.above({**even, "xpapply": 1.06}) == ["later"]
    assert report.above({**even, "first": 1.33}) == ["first"]
    few = {"loop": 1e-5, "xpapply": 1.4e-5, "first": 0.01}
    assert report.above(few) == []
    assert report.above({**few, "numbers": True}) == ["later"]
    late = {"skipped": "it took more than 60 s"}
    assert report.above(late) == ["later", "first"]
    rows = {"slow": {"group": "a", "sizes": {"1 ms": {**late, "above": ["later"]}}}}
    assert report.functions_above(rows) == ["slow"]


# --- loops ---


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # JAX's, if other tests have loaded it
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python's own
def test_two_loops_beside_numpys_and_a_page(monkeypatch, by_source):
    from benchmarks import loop_rows, loops, loops_report
    from xpapply.backends.cpu import typed

    if typed.why_not() is not None:
        pytest.skip(str(typed.why_not()))
    monkeypatch.setattr(loops, "BATCH", 1e-4)
    rows = [row for row in loop_rows.rows() if row.name in ("kalman", "gcd")]
    data = {"settings": {"cores": 2}, "functions": {}, "first": {}}
    for row in rows:
        first = data["first"][row.name] = loops.first(row, 50)
        assert "skipped" not in first
        assert min(*first["first call"], *first["first call of a process"]) > 0
        assert 0 < first["compiling"] < 60
        found = data["functions"][row.name] = loops.rates(row, 50, 2, "no numba here")
        assert "wrong" not in found
        assert found["numba"] == "RuntimeError: no numba here"
        assert found["marked"] == 0
    page = loops_report.render(data)
    assert "kalman" in page


def test_loops_are_of_all_kinds():
    from benchmarks.loop_rows import rows

    found = rows()
    assert len({row.name for row in found}) == len(found) >= 45
    assert len({row.group for row in found}) >= 5
    for row in found:
        for x in row.data(np.random.default_rng(0), 3):
            assert len(x) == 3


@pytest.mark.slow
def test_loops_are_compiled():
    from benchmarks.loop_rows import rows
    from benchmarks.loops import Case, bits

    without_loop = {"julian_date"}
    for row in rows():
        case = Case(row, row.count // 12)
        assert case.why_not() == "" or row.name in without_loop, row.name
        assert bits(case.ours()) == bits(case.loop()), row.name


# --- solvers ---


def test_two_solvers_beside_scipys_and_a_page(monkeypatch, by_source):
    library("scipy")
    from benchmarks import solver_rows, solvers, solvers_report
    from xpapply.backends.cpu import typed

    if typed.why_not() is not None:
        pytest.skip(str(typed.why_not()))
    monkeypatch.setattr(solvers, "BATCH", 1e-3)
    data = {"settings": {"cores": 2}, "functions": {}, "first": {}}
    assert "Nothing has been measured" in solvers_report.render(data)
    for row in solver_rows.ROWS:
        if row.name in ("kepler", "robust_line"):
            found = data["functions"][row.name] = solvers.rates(row, 40, 1)
            assert (found["off"], found["other"], found["left"]) == (0, 0, 0)
            assert min(*found["SciPy in NumPy's loop"].values(), *found["xpapply"].values()) > 0
    page = solvers_report.render(data)
    assert "| kepler | 500 |" in page
    assert solvers_report.reached(data)[1] == 2


def test_other_results_of_a_solver_are_counted():
    library("scipy")
    from benchmarks import solver_rows, solvers

    row = solver_rows.SolverRow("some", "fits", max, 3, None, statuses=1)
    want = np.array([[1.0, 2.0, 4.0], [np.nan, 1.0, 2.0], [0.0, 1.0, 3.0], [1.0, 1.0, 1.0]])
    got = want.copy()
    assert solvers.beside(row, want, got) == {"values": 8, "off": 0, "worst": 0.0, "other": 0}
    got[0, 0] += 1e-8  # farther than is allowed
    got[3, 1] += 1e-12  # not so far
    got[1, 0] = 0.0  # another end
    got[2, 2] = 4.0  # another status
    found = solvers.beside(row, want, got)
    assert (found["off"], found["other"]) == (1, 2)
    assert found["worst"] == pytest.approx(1e-8)


def test_problems_are_of_all_kinds():
    library("scipy")
    from benchmarks.solver_rows import ROWS

    assert len({row.name for row in ROWS}) == len(ROWS) == 19
    assert len({row.group for row in ROWS}) == 5
    for row in ROWS:
        assert row.says
        for x in row.data(np.random.default_rng(0), 3):
            assert len(x) == 3


@pytest.mark.slow
def test_problems_are_compiled():
    library("scipy")
    from benchmarks.loops import Case
    from benchmarks.solver_rows import ROWS
    from benchmarks.solvers import beside

    for row in ROWS:
        case = Case(row, row.count // 12)
        assert case.why_not() == "", row.name
        assert beside(row, case.loop(), case.ours())["other"] <= 1, row.name


# --- methods ---


def test_two_methods_beside_the_loop_and_a_package_and_a_page(monkeypatch, by_source):
    library("scipy")
    from benchmarks import method_rows, methods, methods_report

    monkeypatch.setattr(methods, "BATCH", 1e-3)

    def of_package(v):
        return np.stack([method.f(x) for x in v]) * (1.0 + 1e-12)

    data = {"settings": {"cores": 2, "packages": {"its": "1.0", "other": ""}}, "methods": {}}
    assert "Nothing has been measured" in methods_report.render(data)
    for method in method_rows.rows():
        if method.name not in ("exponential_mean", "isotonic"):
            continue
        missing = method.name == "isotonic"
        peer = (lambda v: int("no")) if missing else of_package
        row = dataclasses.replace(method, peer=peer, package="its", part=50, near=1e-9)
        found = data["methods"][row.name] = methods.measured(row, methods.Data(), True)
        assert found["bits"]
        assert min(*found["NumPy's loop"].values(), *found["xpapply"].values()) > 0
        if missing:
            assert found["missing"].startswith("ValueError")
        else:
            assert (found["part"], found["far"]) == (50, 0)
            assert 0 < found["farthest"] < 1e-11
    page = methods_report.render(data)
    assert "| exponential_mean | 1,250 |" in page
    assert "| other | not installed |" in page
    assert "isotonic: beside its: ValueError" in page
    assert "its" in methods_report.said(data, "exponential_mean")
    assert methods_report.said(data, "garch") == ""


def test_results_of_methods_that_differ():
    library("scipy")
    from benchmarks import methods

    want = np.array([1.0, 2.0, np.nan, 0.0])
    assert methods.beside_the_loop(want, want.copy()) == {"bits": True}
    got = np.array([1.0 + 1e-8, 2.0 + 1e-12, np.nan, 0.0])
    found = methods.beside_the_loop(want, got)
    assert (found["bits"], found["off"], found["of"]) == (False, 1, 4)
    far = methods.apart(want, np.array([1.0, np.nan, 2.0, 0.0]))
    assert np.isinf(far).tolist() == [False, True, True, False]


def test_methods_are_of_all_kinds_and_each_has_a_picture():
    library("scipy")
    from benchmarks.method_rows import rows
    from examples.methods import PICTURES

    found = rows()
    assert len({row.name for row in found}) == len(found) == 22
    assert {row.name for row in found} == set(PICTURES)
    assert len({row.package for row in found if row.peer}) >= 18
    for row in found:
        assert row.says
        assert row.source
        for x in row.data(np.random.default_rng(0), 3):
            assert len(x) == 3


@pytest.mark.slow
def test_methods_are_compiled_and_are_those_of_the_loop():
    library("scipy")
    from benchmarks import methods
    from benchmarks.method_rows import rows

    for row in rows():
        if row.name == "bootstrap":
            continue
        case = methods.Case(row, row.data(np.random.default_rng(0), max(4, row.sample // 20)))
        assert case.why_not() == "", row.name
        with xpapply.options(engine="cpu"):
            found = methods.beside_the_loop(np.asarray(case.loop()), np.asarray(case.ours()))
        assert found["bits"] or row.name == "ivim", row.name
