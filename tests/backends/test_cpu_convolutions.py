"""Networks with convolutions as kernels that are compiled for this CPU."""

import copy
import math

import guarded as pages
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.arrays.layout import MemoryOrder

pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import torch
from convolution_cases import OfOne, arrays, by_torch, graph_of, lost_in_float32, networks_of_layers

from xpapply.backends import array_api
from xpapply.backends.cpu import compiler, networks

nn = torch.nn
CPUS = ["AVX-512", "AVX2", "SSE2"]
RNG = np.random.default_rng(7)


def target(name):
    try:
        return compiler.host(name)
    except xpapply.InputError as error:
        pytest.skip(str(error))


def run(lowered, x, axis, make=np.empty):
    """All slices of `x`, into memory that `make` makes."""
    graph = lowered.graph
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    out = make((*before, *graph.result.shape, *behind), graph.result.dtype)
    lowered(x.transpose(order.axes), order.at, lowered.bind(graph.consts, x), out)
    return out, out.transpose(order.result_axes(len(graph.result.shape)))


@pytest.mark.kernels
@pytest.mark.parametrize("name", CPUS)
@given(data=st.data())
def test_as_torch_and_as_the_definition(name, data):
    net, shape = data.draw(networks_of_layers(), label="net")
    dtype = data.draw(st.sampled_from(["float32", "float32", "float64"]), label="dtype")
    net = net.to(getattr(torch, dtype))
    x, axis = data.draw(arrays(math.prod(shape), dtype), label="x")
    graph = graph_of(net, shape, dtype)
    assert networks._refusal(graph, target(name), False) is None
    end = data.draw(st.booleans(), label="end")
    x = pages.guarded(x, end, writable=False)
    outs = []

    def make(given, kind):
        outs.append(pages.guarded(np.zeros(given, kind), end))
        return outs[0]

    _, y = run(networks.NetworkLowered(graph, target(name)), x, axis, make)
    assert pages.intact(outs[0])
    k = len(graph.result.shape)
    y = np.moveaxis(y, range(axis, axis + k), range(-k, 0))
    want = by_torch(net, shape, x, axis)
    scale = max(1, np.abs(want).max())
    most = (1e-5 if dtype == "float32" else 1e-13) * scale
    if dtype == "float32":  # a norm of numbers that hardly differ enlarges what any float32 loses
        most += 4 * lost_in_float32(net, shape, x, axis, want)
    np.testing.assert_allclose(y, want, rtol=0, atol=most)


@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("pool", [nn.AvgPool2d(3), nn.MaxPool2d((3, 2)), nn.AvgPool2d((1, 3))])
def test_windows_that_leave_one_place_or_few(name, pool):
    torch.manual_seed(0)
    net = OfOne(nn.Sequential(nn.Conv2d(8, 11, 3), nn.ReLU(), pool)).eval().requires_grad_(False)
    shape = (8, 5, 5)
    x = RNG.standard_normal((70, 200)).astype("f4")
    for axis, arr in ((1, x), (0, np.ascontiguousarray(x.T))):
        _, y = run(networks.NetworkLowered(graph_of(net, shape), target(name)), arr, axis)
        y = y if axis else np.moveaxis(y, -1, 0)
        np.testing.assert_allclose(y, by_torch(net, shape, x, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.kernels
@given(data=st.data())
def test_infinities_and_nan_as_the_definition(data):
    net, shape = data.draw(networks_of_layers(), label="net")
    x = RNG.standard_normal((40, math.prod(shape))).astype("f4")
    odd = data.draw(st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), min_size=1, max_size=9))
    for value in odd:
        x[data.draw(st.integers(0, 39)), data.draw(st.integers(0, x.shape[1] - 1))] = value
    graph = graph_of(net, shape)
    _, y = run(networks.NetworkLowered(graph), x, 1)
    reference, want = array_api.BACKEND.lower(graph), np.empty_like(y)
    with np.errstate(all="ignore"):
        want = np.asarray(reference(x, 1, reference.bind(graph.consts, x), None))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(y), np.isposinf(want))
    np.testing.assert_array_equal(np.isneginf(y), np.isneginf(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(y[finite], want[finite], rtol=1e-4, atol=1e-4)


def images(*layers, after=10):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(after)), (1, 28, 28)


NETS = {
    "the classic": lambda: images(
        *(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(10, 20, 3), nn.ReLU(), nn.MaxPool2d(2)),
    ),
    "LeNet": lambda: images(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh()),
    ),
    "many channels": lambda: (
        nn.Sequential(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Conv2d(64, 32, 3)),
        (64, 8, 8),
    ),
    "long filters": lambda: (
        nn.Sequential(nn.Conv1d(1, 8, 96), nn.Tanh(), nn.MaxPool1d(5), nn.Conv1d(8, 4, 5)),
        (1, 200),
    ),
    "volumes": lambda: (
        nn.Sequential(nn.Conv3d(1, 8, 3), nn.GELU(), nn.Conv3d(8, 16, 3)),
        (1, 6, 6, 6),
    ),
}


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NETS)
def test_errors_are_at_most_twice_those_of_torch(name, dtype):
    torch.manual_seed(0)
    net, shape = NETS[name]()
    net(torch.zeros(2, *shape))
    net = net.eval().requires_grad_(False).to(getattr(torch, dtype))
    x = torch.randn(300, *shape, dtype=net[0].weight.dtype)
    torchs = net(x).numpy()
    flat = x.numpy().reshape(300, -1)
    _, mine = run(networks.NetworkLowered(graph_of(OfOne(net), shape, dtype)), flat, 1)
    if dtype == "float32":
        exact = copy.deepcopy(net).double()(x.double()).numpy()
    else:  # as far from each other as rounding makes them
        np.testing.assert_allclose(mine, torchs, rtol=1e-12, atol=1e-14)
        return
    scale = np.sqrt(np.mean(exact**2))
    errors = [np.sqrt(np.mean((y - exact) ** 2)) / scale for y in (mine, torchs)]
    assert errors[0] <= 2 * errors[1] + np.finfo(dtype).eps / 8, errors


@pytest.mark.parametrize("name", NETS)
def test_a_slice_gives_the_same_beside_any_others(name):
    torch.manual_seed(0)
    net, shape = NETS[name]()
    net(torch.zeros(2, *shape))
    net = OfOne(net).eval().requires_grad_(False)
    lowered = networks.NetworkLowered(graph_of(net, shape))
    x = RNG.standard_normal((75, math.prod(shape)), np.float32)
    _, want = run(lowered, x, 1)
    for n in (1, 15, 16, 17, 33):
        _, y = run(lowered, x[:n], 1)
        np.testing.assert_array_equal(y, want[:n])
    _, y = run(lowered, np.ascontiguousarray(x.T), 0)
    np.testing.assert_array_equal(np.moveaxis(y, -1, 0), want)


@pytest.mark.parametrize("counts", [(16, 1024), (1024, 16), (3, 1024, 3)])
@pytest.mark.parametrize("name", NETS)
def test_kernels_of_few_and_of_many_slices_have_weights_of_their_own(name, counts):
    torch.manual_seed(0)
    net, shape = NETS[name]()
    net(torch.zeros(2, *shape))
    net = OfOne(net).eval().requires_grad_(False)
    lowered = networks.NetworkLowered(graph_of(net, shape))
    bound = lowered.bind(graph_of(net, shape).consts, None)
    for n in counts:
        x = np.random.default_rng(n).standard_normal((n, math.prod(shape))).astype("f4")
        out = np.empty((n, *lowered.graph.result.shape), lowered.graph.result.dtype)
        lowered(x, 1, bound, out)
        want = by_torch(net, shape, x, 1)
        np.testing.assert_allclose(out, want, rtol=0, atol=1e-4 * max(1, np.abs(want).max()))
