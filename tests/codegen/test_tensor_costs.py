"""What the cost model chooses for networks, asked of a made-up device."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tensor_cases import SHARED, bfloat16_net, double, graph_of, network

from xpapply.codegen import cost

H200 = cost.Device(132, 1.78e9, 4.3e12, "wgmma", SHARED)

COSTED = [
    *("8-16-1", "16-64-64-64-4", "32-128-128-8", "5-100", "300-1", "256-256-256-10", "40-300-60")
]


def estimate(monkeypatch, net, features, slices, dtype="float32", precision="highest"):
    """What `explain` would say of an array on an H200."""
    backend = pytest.importorskip("xpapply.backends.cupy.networks")
    monkeypatch.setattr(backend.compiler, "device", lambda number: H200)
    lowered = backend.CuPyLowered(graph_of(net, features, dtype), precision)
    return lowered.estimate(SimpleNamespace(size=features * slices, device=SimpleNamespace(id=0)))


@pytest.mark.parametrize(("dtype", "word"), [("float16", "float16"), ("bfloat16", "bfloat16")])
def test_fewer_bits_only_where_the_weights_have_no_more(monkeypatch, torch, dtype, word):
    """A result that is rounded at the end says nothing about the weights."""
    backend = pytest.importorskip("xpapply.backends.cupy.networks")
    monkeypatch.setattr(backend.compiler, "device", lambda number: H200)
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    graph = graph_of(net.to(getattr(torch, dtype)), 16)
    lowered = backend.CuPyLowered(graph)
    array = SimpleNamespace(size=16 << 20, device=SimpleNamespace(id=0))
    assert f"({word})" in lowered.estimate(array, graph.consts).kernels[0]
    finer = tuple(c * np.float32(1.0001) for c in graph.consts)
    assert "split" in lowered.estimate(array, finer).kernels[0]


def test_bfloat16_of_tensors_is_for_the_kernel_on_tensor_cores(monkeypatch, torch):
    """What else there is in CuPy takes typed arrays: elsewhere torch itself runs it."""
    backend = pytest.importorskip("xpapply.backends.cupy.networks")
    monkeypatch.setattr(backend.compiler, "device", lambda number: H200)
    array = SimpleNamespace(size=16 << 20, device=SimpleNamespace(id=0), dtype=np.dtype("u2"))
    array.strides, array.itemsize = (32, 2), 2
    graph = graph_of(bfloat16_net(16, 64, 4), 16, "bfloat16")
    assert backend.BACKEND.on_borrowed().why_not(graph, (array,)) is None
    lowered = backend.CuPyLowered(graph, borrowed=True)
    found = lowered.estimate(array, graph.consts)
    assert found.kernels == ("one kernel on tensor cores for all layers (bfloat16)",)
    assert found.refused == ()
    # on CuPy's own arrays the result is float32, and everything else is there too
    half = graph_of(bfloat16_net(16, 64, 4), 16)
    own = backend.CuPyLowered(half)
    assert own.graph.result.dtype == "float32"
    assert len(own._ways) > 1
    assert "registers" in backend.BACKEND.on_borrowed().why_not(
        graph_of(bfloat16_net(16, 1000, 1000, 4), 16, "bfloat16"), (array,)
    )
    net = bfloat16_net(16, 64, 4)
    with torch.no_grad():
        net[0].weight[0, 0] = torch.inf
    assert "finite" in backend.BACKEND.on_borrowed().why_not(
        graph_of(net, 16, "bfloat16"), (array,)
    )
    monkeypatch.setattr(backend.compiler, "device", lambda number: replace(H200, core=""))
    assert "compute capability" in backend.BACKEND.on_borrowed().why_not(graph, (array,))


@pytest.mark.parametrize("name", COSTED)
def test_costs_grow_with_slices(name):
    net, features = network(name)
    graph = graph_of(net, features)
    counts = [1, 10, 1000, 10**5, 10**7, 10**9]
    for precision in ("highest", "high", "medium"):
        for f in (cost.floor, cost.tensor):
            seconds = [f(graph, n, H200, precision) for n in counts]
            assert all(a < b for a, b in itertools.pairwise(seconds))
    for f in (cost.scalar, cost.library):
        seconds = [f(graph, n, H200) for n in counts]
        assert all(a < b for a, b in itertools.pairwise(seconds))


@pytest.mark.parametrize("name", COSTED)
def test_fewer_bits_never_cost_more(name):
    net, features = network(name)
    graph = graph_of(net, features)
    for n in (1000, 10**7):
        for f in (cost.floor, cost.tensor):
            costs = [f(graph, n, H200, p) for p in ("highest", "high", "medium")]
            assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("name", COSTED)
def test_nothing_is_expected_to_be_faster_than_the_floor(cupy, monkeypatch, name, dtype, precision):
    net, features = network(name)
    for slices in (1, 1000, 10**5, 4 * 10**6, 10**8):
        found = estimate(monkeypatch, net, features, slices, dtype, precision)
        assert 0 < found.floor <= found.expected


def test_the_choice(cupy, monkeypatch):
    """Tensor cores where there is much to multiply; each refusal has a reason."""
    net, features = network("16-64-64-64-4")
    for precision, word in (("highest", "split"), ("high", "float16"), ("medium", "bfloat16")):
        found = estimate(monkeypatch, net, features, 4_000_000, precision=precision)
        assert "tensor cores" in found.kernels[0]
        assert word in found.kernels[0]
    found = estimate(monkeypatch, double(net), features, 4_000_000)
    assert "tensor cores" not in found.kernels[0]
    assert any("tensor cores" in r and "float64" in r for r in found.refused)
