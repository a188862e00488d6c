"""Functions of short slices whose numbers are registers: what the plain loop gives, anywhere."""

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slice_ways import numbers_like, places
from unrolled_cases import FUNCTIONS

import xpapply
from xpapply import testing
from xpapply.backends import array_api
from xpapply.codegen.llvm import unrolled as codegen
from xpapply.ir.builder import Builder
from xpapply.ir.graph import Graph, ShapeDtype
from xpapply.ir.rewrite import compact, fold
from xpapply.limits import LIMITS

pytest.importorskip("llvmlite")

from cpu_targets import TARGETS, on

from xpapply.backends.cpu import BACKEND, WEIGHTS, _has_many_weights, compiler, networks, unrolled


def graph_of(f, features, dtype):
    return compact(fold(xpapply.lift(f, (features,), dtype)))


def run(graph, x, axis, make=np.empty):
    """All slices, into memory that `make` makes; the result axes stand where `axis` was."""
    assert unrolled.why_not(graph, (x,)) is None
    lowered = unrolled.Unrolled(graph)
    shape = (*x.shape[:axis], *graph.result.shape, *x.shape[axis + 1 :])
    out = make(shape, graph.result.dtype)
    lowered(x, axis, lowered.bind(graph.consts, x), out)
    return out


def check(f, x, axis, make=np.empty):
    graph = graph_of(f, x.shape[axis], x.dtype.name)
    got = run(graph, x, axis, make)
    with np.errstate(all="ignore"):
        want = np.apply_along_axis(f, axis, x)
    assert got.dtype == want.dtype
    eps = 2e-6 if x.dtype == np.float32 else 1e-14
    finite = np.abs(x[np.isfinite(x)]).max(initial=1) ** 2
    np.testing.assert_allclose(got, want, rtol=20 * eps, atol=20 * eps * finite)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=8)
def test_arrays_that_lie_in_any_way(name, data):
    target = data.draw(st.sampled_from(TARGETS))
    ndim = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(0, ndim - 1))
    sides = st.sampled_from([1, 2, 5, 17, 40])
    shape = [data.draw(sides) for _ in range(ndim)]
    shape[axis] = data.draw(st.integers(6, 20))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    x, _ = data.draw(places(ndim)).array(shape, dtype)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x[...] = numbers_like(rng, shape, dtype, data.draw(st.sampled_from([0, 0.05])))
    with on(target):
        check(FUNCTIONS[name], x, axis)


@pytest.mark.parametrize("name", ["differences", "outer", "matrix", "standardized", "place"])
@pytest.mark.parametrize("length", [6, 7, 8, 9, 16, 17, 31, 70])
def test_lengths(name, length):
    rng = np.random.default_rng(length)
    for count in (1, 9, 100):
        check(FUNCTIONS[name], rng.normal(size=(count, length)), 1)
        check(FUNCTIONS[name], rng.normal(size=(length, count)), 0)


@pytest.mark.skipif(not guarded.HERE, reason="memory is protected on Linux and macOS")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["stacked", "outer", "standardized", "columns", "conditions"])
def test_nothing_beside_the_arrays_is_touched(name, target):
    rng = np.random.default_rng(2)
    for end in (True, False):

        def make(shape, dtype, end=end):
            return guarded.guarded(np.zeros(shape, dtype), end)

        for count in (3, 33):
            for step in (1, 2, -1):
                shapes = ((count, 9), 1), ((9, count), 0), ((2, 9, count), 1)
                for shape, axis in shapes:
                    x = rng.normal(size=(*shape[:-1], shape[-1] * abs(step)))[..., ::step]
                    x = guarded.guarded(x, end, writable=False)
                    with on(target):
                        check(FUNCTIONS[name], x, axis, make)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@settings(max_examples=8)
def test_networks(torch, target, data):
    """Small ones have this form, too."""
    features = data.draw(st.integers(1, 9))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    net = data.draw(testing.networks(features, max_depth=2, max_width=8, dtype=dtype, labels=True))
    x = data.draw(testing.arrays(features, 0, ndim=2, max_side=40, dtypes=[dtype], special=True))
    graph = graph_of(net, features, dtype)
    with on(target):
        if unrolled.why_not(graph, (x,)) is not None:
            return
        got = run(graph, x, 0)
    reference = array_api.BACKEND.lower(graph)
    want = reference(x, 0, reference.bind(graph.consts, x), None)
    eps = 3e-5 if dtype == "float32" else 1e-12
    finite = np.abs(x[np.isfinite(x)]).max(initial=1)
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps * finite)


@pytest.mark.parametrize("dtype", ["float16", "int64", "uint8", "bool"])
def test_other_dtypes(dtype):
    rng = np.random.default_rng(3)
    x = (rng.integers(0, 99, (50, 7)) if dtype != "bool" else rng.random((50, 7)) < 0.5).astype(
        dtype
    )
    for f in (lambda v: v[1:] / 2, lambda v: v[::-1] * 0.25, lambda v: v.mean()):
        graph = graph_of(f, 7, dtype)
        want = np.apply_along_axis(f, 1, x)
        got = run(graph, x, 1)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == "float16" else 1e-15)


def test_threads_take_parts(monkeypatch):
    monkeypatch.setattr(LIMITS, "kernel_pool", 0)
    rng = np.random.default_rng(4)
    with xpapply.options(threads=3):
        check(FUNCTIONS["outer"], rng.normal(size=(1000, 7)), 1)
        check(FUNCTIONS["differences"], rng.normal(size=(3, 7, 500)), 1)


def test_what_has_too_many_instructions_is_refused():
    graph = graph_of(lambda v: v[:, None] * v[None], 60, "float64")
    assert "instructions for one slice, more than" in unrolled.why_not(graph, (np.ones((2, 60)),))


@pytest.mark.parametrize("features", [30, 32])
def test_more_weights_than_a_kernel_has_instructions_for(features):
    """They are refused by their number, before what writes such kernels is loaded."""
    net = xpapply.MLP([np.ones((features, features))])
    graph, x = xpapply.lift(net, (features,), "float64"), np.ones((2, features))
    many = features**2 > WEIGHTS
    assert _has_many_weights(graph) == many
    refusal = unrolled.why_not(graph, (x,))
    twice = Graph(graph.nodes, graph.outs * 2, graph.consts)  # which is no network
    assert BACKEND.why_not(twice, (x,)) == unrolled.why_not(twice, (x,))
    assert refusal is None or "instructions for one slice, more than" in refusal
    assert not many or refusal is not None


def test_the_engine_takes_what_is_no_network():
    f = lambda v: np.tanh(v[:3]).astype(np.float64) / 3  # noqa: E731
    x = np.random.default_rng(5).normal(size=(200, 6)).astype("f4")
    graph = graph_of(f, 6, "float32")
    assert networks.why_not(graph, x) is not None
    assert BACKEND.why_not(graph, (x,)) is None
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(f, 1, x).kernels == (f"one kernel, {compiler.host().name}",)
        got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_allclose(got, np.apply_along_axis(f, 1, x), rtol=1e-6)


def test_constants_are_no_part_of_the_text():
    graphs = [
        graph_of(lambda v, w=w: w @ v, 4, "float64") for w in (np.ones((2, 4)), np.eye(4)[:2])
    ]
    assert graphs[0] == graphs[1]
    assert codegen.constants(codegen.prepare(graphs[0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [2, 3, 8, 9, 10, 17, 24, 70, 129, 130, 140, 300])
def test_sums_are_numpys_to_the_last_bit(length, dtype):
    x = np.random.default_rng(length).normal(size=(100, length)).astype(dtype)
    x[7] = -0.0
    for f in (lambda v: v[1:].sum(), lambda v: v[::-1].mean()):
        got = run(graph_of(f, length, dtype), x, 1)
        want = np.apply_along_axis(f, 1, x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_an_activation_of_constants():
    """What no slice changes is computed once, whatever op it is."""
    builder = Builder()
    x = builder.input(ShapeDtype((4,), "float32"))
    c = builder.const(np.array([-1.0, 2.0, 0.5, -3.0], np.float32))
    graph = builder.graph(x * builder.op("relu", c + c))
    arr = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(run(graph, arr, 1), arr * [0, 4, 1, 0])
