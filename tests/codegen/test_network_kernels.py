"""Kernel texts: compiled as host C++ and run, and compiled by NVRTC for real architectures."""

import functools
import itertools
import math
import sys

import host_cxx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xpapply
from xpapply import testing
from xpapply.arrays.layout import MemoryOrder
from xpapply.backends import array_api
from xpapply.codegen import chain, elementwise, reduction, scalar_network
from xpapply.codegen.access import Access, geometry
from xpapply.codegen.cxx import literal
from xpapply.codegen.graph_queries import prepare
from xpapply.frontends import find
from xpapply.ir.batch import batch
from xpapply.ir.builder import Builder
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.rewrite import compact, expand, fold, regions

ON_HOST = ("float32", "float64", "float16", "uint8", "int32", "bool")


def graph_of(f, features, dtype="float32"):
    return compact(fold(find(f).lift(f, ShapeDtype((features,), dtype), (), {})))


def through_kernel(graph, x, axis, rows):
    """What `apply_along_axis` does with the network kernel, on the host (one thread per block)."""
    slices = x.size // x.shape[axis]
    rows = rows if slices >= rows else 1
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    out = np.full((*before, *graph.result.shape, *behind), 7, graph.result.dtype)
    host_cxx.run_network(graph, x.transpose(order.axes), order.at, out, rows)
    return out.transpose(order.result_axes(len(graph.result.shape)))


@settings(max_examples=25)
@given(data=st.data())
def test_network_kernel_on_the_host(torch, data):
    """The text of a kernel gives what the loop gives, whatever the layout of the array."""
    features = data.draw(st.integers(1, 9), label="features")
    net = data.draw(testing.networks(features), label="net")
    ndim = data.draw(st.integers(1, 4), label="ndim")
    axis = data.draw(testing.axes(ndim), label="axis")
    array = testing.arrays(features, axis, ndim=ndim, max_side=4, dtypes=ON_HOST)
    arr = data.draw(array, label="arr")
    rows = data.draw(st.sampled_from((1, 2, 4)), label="rows")
    graph = graph_of(net, features, arr.dtype.name)
    refusal = scalar_network.why_not(graph)
    assert refusal is None or "fit" in refusal  # a network that is drawn may be too wide
    assume(refusal is None)
    got = through_kernel(graph, arr, axis % ndim, rows)
    with xpapply.options(engine="array_api"):
        want = xpapply.apply_along_axis(net, axis, arr)
    assert got.dtype == want.dtype
    scale = np.abs(want.astype(float)).max(initial=1e-30)
    np.testing.assert_allclose(got.astype(float), want.astype(float), atol=2e-5 * scale, rtol=1e-4)


@pytest.mark.parametrize("widths", [(8, 16, 1), (16, 32, 32, 1), (5, 3), (3, 20), (13, 37, 21, 3)])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_forms_of_products(widths, rows):
    """lead, pair, stream and dense against float64, with NaN and inf where the loop has them."""
    rng = np.random.default_rng(sum(widths))
    pairs = list(itertools.pairwise(widths))
    weights = [rng.standard_normal((n, m)).astype("f") for m, n in pairs]
    biases = [rng.standard_normal(n).astype("f") for _, n in pairs]
    net = xpapply.MLP(weights, biases)
    exact = xpapply.MLP([w.astype(float) for w in weights], [b.astype(float) for b in biases])
    x = rng.standard_normal((7, widths[0], 11)).astype("f")
    x[2, 0, 3], x[4, 0, 4] = np.nan, np.inf
    with xpapply.options(engine="array_api"), np.errstate(invalid="ignore"):
        want = xpapply.apply_along_axis(exact, 1, x.astype(float))
    got = through_kernel(graph_of(net, widths[0]), x, 1, rows)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_texts_do_not_depend_on_weights():
    """Weights are arguments: two models of one architecture share a kernel."""
    one, two = (
        xpapply.MLP([np.full((16, 8), v, "f"), np.full((1, 16), v, "f")]) for v in (1.0, 2.0)
    )
    access = Access(1, 0, True)
    texts = [scalar_network.network_kernel(graph_of(net, 8), access, 4) for net in (one, two)]
    assert texts[0].operation == texts[1].operation
    assert texts[0].function.text == texts[1].function.text


def test_offsets_beyond_32_bits_are_known():
    """2**31 elements and more need wide indices; a few less do not."""
    shape, strides = ((1 << 28) + 1, 8), (32, 4)
    assert geometry(shape, strides, 4, 0, 1, 1)[0].wide
    assert not geometry((1 << 20, 8), strides, 4, 0, 1, 1 << 20)[0].wide
    assert geometry((1 << 20, 8), strides, 4, 0, 1, 1 << 31)[0].wide


@pytest.mark.parametrize(
    ("strides", "pointer", "vector"),
    [((32, 4), 0, True), ((32, 4), 4, False), ((36, 4), 0, False), ((64, 8), 0, False)],
)
def test_vector_loads_only_where_aligned(strides, pointer, vector):
    assert geometry((10, 8), strides, 4, pointer, 1, 10)[0].vector is vector


def test_refusals_say_why():
    wide = xpapply.MLP([np.ones((200, 300), "f"), np.ones((200, 200), "f")])
    assert "registers" in scalar_network.why_not(graph_of(wide, 300))
    deep = xpapply.MLP([np.ones((64, 64), "f")] * 6)
    assert "shared memory" in scalar_network.why_not(graph_of(deep, 64))


@pytest.mark.parametrize(
    ("widths", "kinds"),
    [
        ((32, 128, 128, 8), ["kernel", "product", "kernel"]),
        ((256, 256, 256, 10), ["product", "fused", "product", "kernel"]),
        ((16, 200, 200, 200), ["kernel", "product", "fused", "product", "fused"]),
    ],
)
def test_chain(widths, kinds):
    """The stages of a wide network, one after the other, give the network."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.pairwise(widths))
    net = xpapply.MLP(
        [rng.standard_normal((n, m)) / math.sqrt(m) for m, n in pairs],
        [rng.standard_normal(n) for _, n in pairs],
    )
    graph = graph_of(net, widths[0], "float64")
    stages = chain.stages(graph)
    assert [s.kind for s in stages] == kinds
    x = rng.standard_normal((widths[0], 5))
    value = x
    for stage in stages:
        if stage.kind == "product":
            value = graph.consts[stage.weights] @ value
        else:
            stacked = batch(expand(stage.graph))
            (value,) = array_api.evaluate(np, stacked, [value], graph.consts)
    want = xpapply.apply_along_axis(net, 0, x)
    np.testing.assert_allclose(value, want, rtol=1e-12)


def test_literals():
    assert literal(0.5, "float32") == "0.5f"
    assert literal(2, "float64") == "2.0"
    assert literal(-1e-30, "float32").startswith("(-1")
    assert float(np.float32(literal(1 / 3, "float32").rstrip("f"))) == float(np.float32(1 / 3))


# --- real architectures ---------------------------------------------------------------

nvrtc_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the NVRTC wheels are for Linux"
)


@functools.cache
def example_networks():
    import torch
    from torch import nn

    torch.manual_seed(0)

    def mlp(*widths, activation=nn.ReLU):
        layers = []
        for m, n in itertools.pairwise(widths):
            layers += [nn.Linear(m, n), activation()]
        return nn.Sequential(*layers[:-1]).eval()

    return {
        "8-16-1": (mlp(8, 16, 1), 8),
        "16-32-32-1 tanh": (mlp(16, 32, 32, 1, activation=nn.Tanh), 16),
        "13-37-21-3 GELU": (mlp(13, 37, 21, 3, activation=nn.GELU), 13),
        "5-100": (mlp(5, 100), 5),
        "softmax": (nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Softmax(-1)).eval(), 6),
        "float64": (mlp(4, 8, 2, activation=nn.Mish).double(), 4),
    }


@nvrtc_only
@pytest.mark.parametrize(
    "name", ["8-16-1", "16-32-32-1 tanh", "13-37-21-3 GELU", "5-100", "softmax", "float64"]
)
def test_nvrtc_compiles_network_kernels(cupy, torch, name, pairs):
    import nvrtc

    net, features = example_networks()[name]
    access, other = Access(1, 0, True), Access(2, 1, False, True, True)
    forms = [("float32", access), ("float32", other), ("float16", access), ("uint8", access)]
    for (dtype, access), architecture in pairs(forms, nvrtc.ARCHITECTURES):
        graph = graph_of(net, features, dtype)
        source = nvrtc.elementwise_source(scalar_network.network_kernel(graph, access, 2))
        assert len(nvrtc.compile_source(source, architecture)) > 1000


@nvrtc_only
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "uint32", "int64", "uint64"])
def test_nvrtc_compiles_results_of_any_dtype(cupy, dtype):
    """C++ has no ``long long(x)``."""
    import nvrtc

    b = Builder()
    v = b.input(ShapeDtype((4,), "float64"))
    scores = b.op("einsum", b.const(np.ones((3, 4))), v, subscripts="nm,m->n")
    best = b.op("cast", b.op("argmax", scores, axis=(0,)), dtype="float64")
    graph = prepare(b.graph(b.op("cast", best, dtype=dtype)))
    access = Access(1, 0, True)
    source = nvrtc.elementwise_source(scalar_network.network_kernel(graph, access, 2))
    assert nvrtc.compile_source(source, "sm_90")


@nvrtc_only
def test_nvrtc_compiles_float16_between_others(cupy):
    """What CuPy's exp of small integers is computed in."""
    import nvrtc

    b = Builder()
    v = b.input(ShapeDtype((4,), "uint8"))
    y = b.op("exp", b.op("cast", v, dtype="float16"))
    graph = prepare(b.graph(b.op("cast", y, dtype="float64")))
    source = nvrtc.elementwise_source(scalar_network.network_kernel(graph, Access(1, 0, True), 2))
    assert nvrtc.compile_source(source, "sm_90")
    for region in regions(batch(graph)).values():
        text = elementwise.region_kernel(batch(graph), region)
        assert nvrtc.compile_source(nvrtc.elementwise_source(text), "sm_90")


@nvrtc_only
def test_nvrtc_compiles_regions(cupy, torch):
    """Bias and activation of every network in one kernel each."""
    import nvrtc

    for net, features in example_networks().values():
        graph = batch(prepare(graph_of(net, features)))
        for region in regions(graph).values():
            source = nvrtc.elementwise_source(elementwise.region_kernel(graph, region))
            assert nvrtc.compile_source(source, "sm_75")


@nvrtc_only
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_nvrtc_compiles_reductions(cupy, architecture):
    import nvrtc

    net = xpapply.MLP([np.ones((1, 300), "f")], [[0.5]], output_activation="sigmoid")
    text = reduction.reduction_kernel(graph_of(net, 300, "uint8"))
    assert nvrtc.compile_source(nvrtc.reduction_source(text), architecture)


def test_reductions_are_recognised(torch):
    from torch import nn

    class Norm(nn.Module):
        def forward(self, x):
            return (x * x).sum(-1).sqrt()

    class TwoSums(nn.Module):
        def forward(self, x):
            return x.sum(-1) / (x * x).sum(-1)

    assert reduction.reduction_kernel(graph_of(Norm(), 7)) is not None
    assert reduction.reduction_kernel(graph_of(nn.Linear(7, 1), 7)) is not None
    assert reduction.reduction_kernel(graph_of(nn.Linear(7, 2), 7)) is None
    assert reduction.reduction_kernel(graph_of(TwoSums(), 7)) is None
