"""Kernels that go down decision trees: CUDA as host C++, LLVM for every CPU, against a loop."""

import host_cxx
import host_llvm
import numpy as np
import pytest
import tree_cases
from hypothesis import given, settings
from hypothesis import strategies as st

from xpapply.backends.cpu import compiler
from xpapply.codegen import trees
from xpapply.codegen.llvm import trees as llvm_trees


def packed(consts, features, large=False):
    found = trees.constants(consts, features)
    if not large or not found.small:
        return found
    nodes = np.empty(len(found.nodes), [("t", "<f8"), ("feature", "<u4"), ("child", "<u4")])
    feature, after = consts[0].astype(np.uint32), consts[3].astype(np.uint32)
    nodes["t"], nodes["feature"] = consts[1], feature | after << trees.WIDE_AFTER
    nodes["child"] = found.nodes["word"] >> trees.CHILD_SHIFT
    return found._replace(nodes=nodes, small=False)


def test_small_nodes_where_they_are_enough():
    rng = np.random.default_rng(0)
    consts = tree_cases.drawn(rng, 5, 2, 4, "float32")
    assert trees.constants(consts, 1024).small
    assert not trees.constants(consts, 1025).small
    double = tree_cases.drawn(rng, 5, 2, 4, "float64")
    assert not trees.constants(double, 4).small
    assert trees.constants(consts, 4).nodes.itemsize == 8
    assert trees.constants(double, 4).nodes.itemsize == 16


def test_steps_to_the_deepest_leaf():
    rng = np.random.default_rng(1)
    for depth in (0, 1, 7):
        consts = tree_cases.drawn(rng, depth, 1, 3, "float32", trees=1, leaning=1.0)
        assert trees.constants(consts, 3).trees.tolist() == [[0, depth]]


@settings(max_examples=25)
@given(case=tree_cases.cases(), large=st.booleans(), order=st.sampled_from("CF"))
def test_the_cuda_kernel_on_the_host(case, large, order):
    dtype, features, consts, x = case
    found = packed(consts, features, large)
    width, count = len(found.start), len(x)
    text = trees.source(dtype, features, width, found.small)
    x = np.array(x, order=order)
    y = np.full((width, count), np.nan)
    run = host_cxx.slice_function(text, trees.NAME)
    step, following = (s // x.itemsize for s in x.strides[::-1])
    given = (x, found.nodes, found.values, found.trees, found.start, y)
    numbers = (count, len(found.trees), step, following)
    run(
        (-(-count // trees.THREADS),),
        (trees.THREADS,),
        (*(a.ctypes.data for a in given), *numbers),
    )
    np.testing.assert_array_equal(y.T, tree_cases.down(x, consts))


def test_many_features_are_read_where_they_are():
    rng = np.random.default_rng(2)
    consts = tree_cases.drawn(rng, 6, 2, 300, "float32")
    x = tree_cases.slices(rng, 10, 300, "float32", consts)
    text = trees.source("float32", 300, 2, True)
    assert "__shared__" not in text
    found, y = trees.constants(consts, 300), np.empty((2, 10))
    given = (x, found.nodes, found.values, found.trees, found.start, y)
    run = host_cxx.slice_function(text, trees.NAME)
    addresses = [a.ctypes.data for a in given]
    run((1,), (trees.THREADS,), (*addresses, 10, len(found.trees), 1, 300))
    np.testing.assert_array_equal(y.T, tree_cases.down(x, consts))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    ("dtype", "features", "width", "small"),
    [("float32", 16, 2, True), ("float64", 300, 20, False), ("float32", 16, 1, False)],
)
def test_the_cuda_kernel_compiles(cupy, architecture, dtype, features, width, small):
    import nvrtc

    text = trees.source(dtype, features, width, small)
    assert len(nvrtc.compile_plain(text, architecture)) > 1000


@pytest.mark.parametrize("target", host_llvm.HOST)
@settings(max_examples=12)
@given(case=tree_cases.cases(), large=st.booleans())
def test_kernels_for_cpus(target, case, large):
    dtype, features, consts, x = case
    found = packed(consts, features, large)
    width = len(found.start)
    for ways in (True, False):
        if not ways:
            x = np.where(np.isnan(x), x.dtype.type(0.5), x)
        text = llvm_trees.trees_kernel(dtype, features, width, found.small, ways, target)
        here = host_llvm.of_this_machine(target, text)
        if here is None or here.name != target.name:
            host_llvm.assembly(text, target)
        if here is None:
            continue
        function = compiler.compile(text, llvm_trees.NAME, target=here)
        y = np.tile(found.start, (len(x), 1))
        given = (np.ascontiguousarray(x), found.nodes, found.values, found.trees, y)
        function(*(a.ctypes.data for a in given), len(x), len(found.trees))
        np.testing.assert_array_equal(y, tree_cases.down(x, consts))
