"""The op `trees`: its rule, and its definition on every library."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import tree_cases
from hypothesis import given, settings

import xpapply
from conftest import library
from xpapply.backends import array_api
from xpapply.errors import TraceError
from xpapply.ir import saved, trees
from xpapply.ir.batch import batch
from xpapply.ir.builder import Builder
from xpapply.ir.graph import Graph, ShapeDtype
from xpapply.planning.engines import AnyLibrary

needs_llvmlite = pytest.mark.skipif(
    sys.modules.get("llvmlite", "") is None or find_spec("llvmlite") is None,
    reason="kernels for CPUs need llvmlite",
)


def graph_of(dtype, features, consts, before=None, after=None):
    b = Builder()
    x = b.input(ShapeDtype((features,), dtype))
    x = x if before is None else before(x)
    depth = tree_cases.depth_of(consts)
    y = b.node("trees", x, *map(b.const, consts), depth=depth)
    return b.graph(y if after is None else after(y))


def test_shapes():
    consts = tree_cases.drawn(np.random.default_rng(0), 3, 2, 4, "float32")
    graph = graph_of("float32", 4, consts)
    assert graph.result == ShapeDtype((2,), "float64")
    assert batch(graph).result.shape == (2, -1)
    assert graph.descends
    assert "decision trees" in graph.why_not_fused()
    assert graph.flops() == 2 * 3 * tree_cases.depth_of(consts)
    for wrong in ("float64", "int32"):
        with pytest.raises(TraceError, match="trees of"):
            graph_of(wrong, 4, consts)


@given(case=tree_cases.cases())
def test_the_definition(case):
    dtype, features, consts, x = case
    graph = graph_of(dtype, features, consts)
    lowered = array_api.BACKEND.lower(graph)
    got = lowered(x, 1, lowered.bind(graph.consts, x))
    np.testing.assert_array_equal(got, tree_cases.down(x, consts))


@pytest.mark.parametrize("lib", ["numpy", "torch", "array_api_strict", "jax"])
def test_the_definition_on_other_libraries(lib):
    rng = np.random.default_rng(1)
    consts = tree_cases.drawn(rng, 6, 3, 5, "float32", trees=4)
    x = tree_cases.slices(rng, 30, 5, "float32", consts)
    if lib == "jax":  # on a CPU it takes the smallest numbers for 0
        x = np.where(np.abs(x) < 1e-30, x.dtype.type(0.25), x)
    made = library(lib)
    new = {"torch": "from_numpy", "jax": "numpy.asarray"}.get(lib, "asarray")
    for part in new.split("."):
        made = getattr(made, part)
    plan = AnyLibrary(graph_of("float32", 5, consts))
    with xpapply.options(engine="array_api"):
        got = np.asarray(plan(made(x), 1))
    np.testing.assert_allclose(got, tree_cases.down(x, consts), rtol=1e-5)


@settings(max_examples=30)
@given(case=tree_cases.cases())
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.kernels
@needs_llvmlite
def test_on_a_cpu(case, axis):
    dtype, features, consts, x = case
    graph = graph_of(dtype, features, consts, lambda v: v * 2.0, lambda y: y / 3.0)
    with np.errstate(over="ignore"):
        want = tree_cases.down(x * x.dtype.type(2), consts) / 3.0
    arr = np.ascontiguousarray(np.moveaxis(x, -1, axis))
    with xpapply.options(engine="cpu"):
        got = AnyLibrary(graph)(arr, axis)
    np.testing.assert_array_equal(np.moveaxis(got, axis, -1), want)


@pytest.mark.kernels
@needs_llvmlite
def test_threads_and_blocks():
    rng = np.random.default_rng(3)
    consts = tree_cases.drawn(rng, 8, 2, 6, "float32", trees=9, leaning=0.9)
    x = tree_cases.slices(rng, 20_000, 6, "float32", consts)
    graph = graph_of("float32", 6, consts)
    want = AnyLibrary(graph)(x[:, None, :].transpose(1, 2, 0), 1)[0].T
    for count in (1, 2):
        with xpapply.options(engine="cpu", threads=count):
            got = AnyLibrary(graph)(x.reshape(40, 500, 6), 2)
        np.testing.assert_array_equal(got.reshape(-1, 2), want)
    np.testing.assert_array_equal(want[:200], tree_cases.down(x[:200], consts))


@pytest.mark.kernels
@needs_llvmlite
def test_other_byte_orders_and_read_only_memory():
    rng = np.random.default_rng(4)
    consts = tree_cases.drawn(rng, 6, 2, 5, "float32")
    x = tree_cases.slices(rng, 30, 5, "float32", consts)
    graph, want = graph_of("float32", 5, consts), tree_cases.down(x, consts)
    plan = AnyLibrary(graph)
    swapped = x.astype(">f4")
    x.flags.writeable = False
    np.testing.assert_array_equal(plan(x, 1), want)
    np.testing.assert_array_equal(plan(swapped, 1), want)


WRONG = {
    "a child outside": (2, lambda c: c[2].max() + 40),
    "a child in another tree": (2, lambda c: c[5][1]),
    "a child before": (2, lambda c: 0),
    "a child twice": (2, lambda c: c[2][c[2] > np.arange(len(c[2]))].max()),
    "a feature outside": (0, lambda c: 5),
    "a feature below": (0, lambda c: -1),
}


@pytest.mark.parametrize("what", WRONG)
def test_files_with_nodes_that_lead_elsewhere_are_refused(tmp_path, what):
    """Kernels would follow them out of memory, or for ever."""
    rng = np.random.default_rng(5)
    consts = tree_cases.drawn(rng, 4, 2, 5, "float32", leaning=1.0)
    assert trees.why_not(consts, 5, 4) is None
    assert "depth" in trees.why_not(consts, 5, 5)
    x = tree_cases.slices(rng, 20, 5, "float32", consts)
    path = tmp_path / "plan.xpapply"
    saved.write(path, graph_of("float32", 5, consts), {})
    got = xpapply.apply_along_axis(xpapply.load_model(path), -1, x)
    np.testing.assert_array_equal(got, tree_cases.down(x, consts))
    column, wrong = WRONG[what]
    other = [c.copy() for c in consts]
    other[column][1] = wrong(consts)
    graph = graph_of("float32", 5, consts)
    bad = Graph(graph.nodes, graph.outs, tuple(other))
    saved.write(path, bad, {})
    with pytest.raises(xpapply.InputError, match="trees that are not valid"):
        xpapply.load_model(path)


@pytest.mark.parametrize("column", [1, 3])
def test_files_with_leaves_that_lead_on_are_refused(tmp_path, column):
    consts = list(tree_cases.drawn(np.random.default_rng(6), 3, 2, 5, "float32"))
    leaf = np.flatnonzero(consts[2] == np.arange(len(consts[2])))
    consts[column][leaf[-1]] = 1
    graph = graph_of("float32", 5, consts)
    saved.write(tmp_path / "plan.xpapply", graph, {})
    with pytest.raises(xpapply.InputError, match="leads on from a leaf"):
        xpapply.load_model(tmp_path / "plan.xpapply")
