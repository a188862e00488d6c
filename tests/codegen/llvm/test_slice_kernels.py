"""Kernels of slices for all CPUs: their machine code, and what it does not do."""

import re
from types import SimpleNamespace

import host_llvm
import numpy as np
import pytest
from slice_ways import EVERY, case
from thresholds import always_plan

import xpapply
from xpapply.arrays.layout import Dim
from xpapply.backends.cpu.slice_forms import Slices, way
from xpapply.codegen.llvm.slice_kernel import slice_kernel, why_not
from xpapply.codegen.llvm.slice_kernel.passes import Passes
from xpapply.codegen.llvm.target import TARGETS
from xpapply.frontends.python.run.rows import Rows
from xpapply.ir.slices.slice_graph import written
from xpapply.ir.subgraph import part
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

pytest.importorskip("llvmlite")

HOST = [pytest.param(t, id=t.name) for t in TARGETS.values()]
LYING = {
    "short rows": (12, 1, 12),
    "long rows": (1024, 1, 1024),
    "columns": (1000, 5000, 1),
    "every second": (100, 2, 200),
}
"""Elements of a slice, how far apart they are, and how far apart slices are."""
VECTORS = r"[xyz]mm\d|\bv\d+\.[248]|\bq\d"


def text(c, lying, target):
    """The kernel of a case."""
    graph = part(c.graph, c.graph.outs, (), None)
    length, step, apart = LYING[lying]
    given = [vector for _, vector in c.kinds]
    vectors = [c.graph.is_vector(o) for o in c.graph.outs]
    steps = [step if v else None for v in given] + [step if v else 0 for v in vectors]
    slices = [apart if v else 0 for v in given] + [apart if v else 1 for v in vectors]
    found = way(graph, Slices(length, tuple(steps), (Dim(5000, tuple(slices), 0),)), target)
    return slice_kernel(graph, found.form, target)


def check_loops(assembly, name):
    """Vectors are worked on in loops, and stay in registers there."""
    loops = host_llvm.inner_loops(assembly, deepest=6)
    busy = [x for x in loops if sum(bool(re.search(VECTORS, line)) for line in x) > 4]
    assert busy
    for lines in busy:
        # constants, and how far rows are apart, may lie on the stack; what changes must not
        stored = [x for x in lines if re.search(r"-byte Spill", x)]
        loaded = [x for x in lines if re.search(rf"({VECTORS}).*-byte (Folded )?Reload", x)]
        # two of a short loop: LLVM splits what is live through the whole kernel where it likes
        assert len(stored) <= max(2, 0.08 * len(lines)), (name, stored)
        assert len(loaded) <= 0.25 * len(lines), (name, loaded)
        scalar = [x for x in lines if re.match(r"\tv?(add|mul|sub|div)s[sd]\b", x)]
        assert not scalar, name


@pytest.mark.parametrize("target", HOST)
@pytest.mark.parametrize("lying", LYING)
def test_loops_are_of_vectors_in_registers(lying, target):
    for name in (
        "softmax of float32",
        "logsumexp of float32",
        "standardize of float32",
        "log_softmax of float64",
        "norm p of float64",
    ):
        check_loops(host_llvm.assembly(text(case(name), lying, target), target), name)


FUNCTIONS = {
    "standardize": lambda v: (v - v.mean()) / v.std(),
    "softmax": lambda v: np.exp(v - v.max()) / np.exp(v - v.max()).sum(),
    "masked": lambda v: v[v > 0].mean(),
    "chosen": lambda v: np.where(v > 0, np.tanh(v), v * v).max(),
    "paths": lambda v: v / v.max() if v.min() > -1 else np.sqrt(np.abs(v)),
}


@pytest.mark.parametrize("target", HOST)
@pytest.mark.parametrize("lying", LYING)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_their_marks(name, lying, target, monkeypatch):
    """What tells of NumPy's warnings needs vectors alone, too."""
    always_plan(monkeypatch)
    f, x = FUNCTIONS[name], np.random.default_rng(0).normal(size=(60, 400)).astype("float32")
    with xpapply.options(engine="cpu"):
        for _ in range(2):  # all paths
            xpapply.apply_along_axis(f, 1, x)
        graph = (
            python_functions.decide(Along(f, 1, x, (), {}))
            .traced.ways[0]
            .call_for(Rows(x, 1))
            .graph
        )
    kinds = tuple((graph.nodes[i].aval.dtype, graph.is_vector(i)) for i in graph.inputs)
    assert why_not(graph, target) is None
    found = text(SimpleNamespace(graph=graph, kinds=kinds), lying, target)
    check_loops(host_llvm.assembly(found, target), name)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("c", EVERY, ids=lambda c: c.name)
def test_every_function_on_every_cpu(c, pairs):
    for target, lying in pairs(TARGETS.values(), LYING):
        assert why_not(c.graph, target) is None
        host_llvm.assembly(text(c, lying, target), target)  # which calls nothing


def test_what_is_kept_from_one_pass_to_the_next():
    graph = case("softmax of float32").graph
    whole = part(graph, graph.outs, (), None)
    passes = Passes(whole)
    assert passes.count == 3
    assert [whole.nodes[i].op for i in passes.kept] == ["exp"]
    # the input is read twice, and its place is free when exponentials need one
    copied = Passes(whole, whole.inputs)
    assert {whole.nodes[i].op for i in copied.kept} == {"input", "exp"}
    assert copied.places == ["float32"]


def test_results_are_written_when_all_is_read():
    graph, _ = written(lambda x: (x + 1, x.builder.length("float32")), [("float32", True)])
    assert Passes(part(graph, graph.outs, (), None)).last == 1


def test_refusals_say_why():
    graph, _ = written(lambda x: x + 1, [("complex64", True)])
    assert why_not(graph, TARGETS["AVX2"]) == "no kernels for complex64"
