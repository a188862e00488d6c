"""The kernel that holds feature maps in shared memory, on a GPU."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.arrays.layout import MemoryOrder
from xpapply.codegen import feature_maps
from xpapply.codegen.tensor_network import Target

pytest.importorskip("torch")

import torch
from convolution_cases import OfOne, arrays, by_torch, graph_of, lost_in_float32, networks_of_layers

nn = torch.nn
RNG = np.random.default_rng(5)
MARGIN = 64


def through(cupy, graph, x, axis, few, precision="highest"):
    """The kernel on an array, into an output that holds NaN; None where there is no kernel."""
    from xpapply.backends.cupy import compiler, launch

    device = compiler.device(x.device.id)
    target = Target(device.core, precision, device.shared, few)
    if not device.core or feature_maps.why_not(graph, target) is not None:
        return None
    runner = launch.Tensor(graph, target, feature_maps.map_kernel)
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    shape = (*before, *graph.result.shape, *behind)
    memory = cupy.full(int(np.prod(shape)) + 2 * MARGIN, 77, graph.result.dtype)
    out = memory[MARGIN:-MARGIN].reshape(shape)
    out[...] = np.nan
    weights = launch.Weights(graph.consts)
    runner(x.transpose(order.axes), order.at, x.size // x.shape[axis], weights, out)
    assert bool((memory[:MARGIN] == 77).all())
    assert bool((memory[-MARGIN:] == 77).all())
    k = len(graph.result.shape)
    y = out.transpose(order.result_axes(k)).get()
    return np.moveaxis(y, range(axis, axis + k), range(-k, 0))


@pytest.mark.gpu
@given(data=st.data())
def test_as_torch(cupy, data):
    net, shape = data.draw(networks_of_layers(), label="net")
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    few = data.draw(st.booleans(), label="few")
    y = through(cupy, graph_of(net, shape), cupy.asarray(x, order="K"), axis, few)
    if y is None:
        return
    want = by_torch(net, shape, x, axis)
    scale = max(1, np.abs(want).max())
    lost = lost_in_float32(net, shape, x, axis, want)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * scale + 4 * lost)


@pytest.mark.gpu
@given(data=st.data())
def test_infinities_and_nan(cupy, data):
    net, shape = data.draw(networks_of_layers(), label="net")
    graph = graph_of(net, shape)
    x = RNG.standard_normal((40, math.prod(shape))).astype("f4")
    odd = [np.nan, np.inf, -np.inf, 1e-30, 1e30]
    for value in data.draw(st.lists(st.sampled_from(odd), min_size=1, max_size=9)):
        x[data.draw(st.integers(0, 39)), data.draw(st.integers(0, x.shape[1] - 1))] = value
    y = through(cupy, graph, cupy.asarray(x), 1, data.draw(st.booleans(), label="few"))
    if y is None:
        return
    with np.errstate(all="ignore"), xpapply.options(engine="numpy"):
        want = xpapply.apply_along_axis(_Flat(net, shape).eval(), 1, x)
    want = want.reshape(y.shape)
    assert np.array_equal(np.isnan(y), np.isnan(want))
    finite = np.isfinite(want)
    assert np.array_equal(y[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)])
    for mine, other, good in zip(y, want, finite, strict=True):
        scale = max(1, np.abs(other[good]).max(initial=0))
        np.testing.assert_allclose(mine[good], other[good], rtol=0, atol=2e-5 * scale)


@pytest.mark.gpu
@given(data=st.data())
def test_as_torch_in_16_bits(cupy, data):
    net, shape = data.draw(networks_of_layers(), label="net")
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    precision, bits = data.draw(st.sampled_from([("high", 11), ("medium", 8)]), label="precision")
    few = data.draw(st.booleans(), label="few")
    graph = graph_of(net, shape)
    y = through(cupy, graph, cupy.asarray(x, order="K"), axis, few, precision)
    if y is None:
        return
    want = by_torch(net, shape, x, axis)
    # what float32 loses, with so many bits less
    scale = max(1, np.abs(want).max())
    lost = lost_in_float32(net, shape, x, axis, want)
    most = 2.0**-bits * 16 * scale + 2 ** (24 - bits) * lost
    np.testing.assert_allclose(y, want, rtol=0, atol=most)


class _Flat(nn.Module):
    """A network that takes flat slices."""

    def __init__(self, net, shape):
        super().__init__()
        self.net, self.shape = net, shape

    def forward(self, x):
        return self.net(x.reshape(self.shape)).reshape(-1)


def classic():
    torch.manual_seed(0)
    first = [nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(10, 20, 3), nn.ReLU(), nn.MaxPool2d(2)]
    layers = [*first, *second, nn.Flatten(), nn.Linear(500, 10)]
    return OfOne(nn.Sequential(*layers)).eval().requires_grad_(False), (1, 28, 28)


@pytest.mark.gpu
@pytest.mark.parametrize("slices", [1, 3, 1000, 20_000])
@pytest.mark.parametrize(
    ("precision", "most"), [("highest", 2e-6), ("high", 3e-3), ("medium", 3e-2)]
)
def test_a_call(cupy, slices, precision, most):
    """`apply_along_axis` takes the kernel by itself, for arrays of any size."""
    net, shape = classic()
    flat = _Flat(net, shape).eval()
    x = RNG.standard_normal((slices, 784)).astype("f4")
    with xpapply.options(precision=precision):
        said = str(xpapply.explain(flat, 1, cupy.asarray(x)))
        y = xpapply.apply_along_axis(flat, 1, cupy.asarray(x)).get()
    assert "feature maps in shared memory" in said
    want = by_torch(net, shape, x, 1)
    assert np.abs(y - want).max() <= most * np.abs(want).max()


@pytest.mark.gpu
@torch.no_grad()
def test_weights_that_change(cupy):
    net, shape = classic()
    flat = _Flat(net, shape).eval()
    x = RNG.standard_normal((40, 784)).astype("f4")
    for k in range(6):
        if k == 2:
            net[0][0].weight.mul_(-2.0)
        if k == 4:
            net[0][7].bias.add_(1.0)
        y = xpapply.apply_along_axis(flat, 1, cupy.asarray(x)).get()
        want = by_torch(net, shape, x, 1)
        assert np.abs(y - want).max() <= 2e-6 * np.abs(want).max()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float64"])
def test_dtypes(cupy, dtype):
    net, shape = classic()
    x = (RNG.standard_normal((50, 784)) * 20).astype(dtype)
    y = xpapply.apply_along_axis(_Flat(net, shape).eval(), 1, cupy.asarray(x)).get()
    want = by_torch(net, shape, x.astype("f4"), 1)
    assert np.abs(y - want).max() <= 2e-6 * np.abs(want).max()


@pytest.mark.gpu
def test_large_layers_are_left_to_torch(cupy):
    torch.manual_seed(0)
    net = OfOne(nn.Sequential(nn.Conv2d(64, 64, 3, padding=1))).eval().requires_grad_(False)
    x = cupy.zeros((2, 64 * 64 * 64), "f4")
    said = str(xpapply.explain(_Flat(net, (64, 64, 64)).eval(), 1, x))
    assert "do not fit in" in said
