"""Torch networks of every kind that are lifted: layers, forwards, callables, changes."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch_cases import ARR, Of, assert_fast, torch

import xpapply
from xpapply import arrays, testing
from xpapply.planning import engines
from xpapply.testing import assert_parity

# --- layers ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", testing.ACTIVATIONS)
def test_activations(name):
    """Alone, on both sides of every kink and far out."""
    layer = testing.activation(name, 0.5, 6).eval()
    far = np.linspace(-120, 120, 240, dtype=np.float32).reshape(40, 6)
    for arr in (ARR.swapaxes(1, 2), far, far / 100, far.astype(np.float64) * 1e4):
        assert_fast(layer, arr, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name",
    [
        *("logsigmoid", "tanhshrink", "softshrink", "hardshrink", "relu6", "hardswish", "mish"),
        *("softsign", "silu", "gelu", "selu", "celu", "elu", "softplus", "sigmoid", "tanh"),
        *("relu", "leaky_relu", "hardtanh", "hardsigmoid", "softmin"),
    ],
)
def test_functions(name, dtype):
    function = getattr(F, name)
    options = {"dim": -1} if name == "softmin" else {}
    net = Of(lambda self, x: function(x, **options)).to(getattr(torch, dtype))
    arr = np.linspace(-60, 60, 240).reshape(40, 6)
    assert_fast(net, arr, 1)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 1),
        nn.Linear(6, 3, bias=False),
        nn.LayerNorm(6),
        nn.LayerNorm(6, bias=False),
        nn.LayerNorm(6, eps=1.0, elementwise_affine=False),
        nn.BatchNorm1d(6),
        nn.BatchNorm1d(6, affine=False),
        nn.Dropout(0.3),
        nn.AlphaDropout(0.3),
        nn.FeatureAlphaDropout(0.3),
        nn.Flatten(0),
        nn.Unflatten(-1, (2, 3)),
        nn.GLU(),
        nn.Softmin(dim=-1),
        nn.LogSigmoid(),
        nn.Tanhshrink(),
        nn.Softshrink(0.2),
        nn.Hardshrink(0.2),
        nn.PReLU(6),
    ],
    ids=repr,
)
def test_layers(layer):
    assert_fast(layer.eval())


def test_in_place_activations():
    assert_fast(nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.SiLU(inplace=True)).eval())


def test_nested_modules():
    inner = nn.Sequential(nn.Linear(5, 5), nn.Sequential(nn.Tanh(), nn.BatchNorm1d(5)))
    assert_fast(
        nn.Sequential(nn.Sequential(nn.Linear(6, 5)), inner, nn.ModuleList([inner])[0]).eval()
    )


# --- forward in Python ----------------------------------------------------------------


def loop_and_shape_if(self, x):
    for _ in range(3):
        x = torch.tanh(x)
    return x * 2 if x.shape[-1] == 6 else self.missing(x)


FORWARDS = {
    "skip": lambda self, x: x + torch.relu(self.fc(x)).mean(-1, keepdim=True),
    "concat": lambda self, x: torch.cat([x, self.fc(x), x[..., :2]], dim=-1),
    "concat with constants": lambda self, x: torch.cat([x, torch.ones(2)]),
    "shape if, loop": loop_and_shape_if,
    "buffers": lambda self, x: (x - self.mean) / self.std,
    "batch concat": lambda self, x: torch.cat([x, self.fc(x)], dim=1),
    "batch norm": lambda self, x: self.norm(self.fc(x)),
    "batch sizes": lambda self, x: x.view(x.size(0), -1, 2).sum(2),
    "batch flatten": lambda self, x: self.fc(x.flatten(1)).reshape(x.shape[0], 5, 1),
    "methods": lambda self, x: x.mul(2).add(1).sub(0.5).div(3).neg().abs().sqrt().exp(),
    "operators": lambda self, x: (2 * x - 1) / (x * x + 1) - x**2 + (-x) ** 3,
    "reflected": lambda self, x: 1 - (1 / (x.abs() + 1)),
    "matmul": lambda self, x: self.fc.weight @ x + self.fc.bias,
    "rmatmul": lambda self, x: x @ self.fc.weight.T,
    "outer": lambda self, x: x[:, None] * x[None, :],
    "reductions": lambda self, x: torch.stack([x.sum(), x.mean(), x.amax(), x.std(), x.var(0)]),
    "min max prod": lambda self, x: torch.stack([x.min(), x.max(), x.prod(), torch.amin(x)]),
    "where": lambda self, x: torch.where(x > 0.5, x, torch.zeros_like(self.mean)),
    "masks": lambda self, x: torch.where((x > 0) & ~(x > 1) | (x == 0), x, -x),
    "clamp": lambda self, x: x.clamp(-0.5, 0.5) + torch.clamp(x, min=0.1) + x.clip(max=0.2),
    "split": lambda self, x: torch.cat([a * b for a, b in [x.chunk(2)]] + list(x.split([1, 5]))),
    "unbind": lambda self, x: sum(x.unbind()),
    "iteration": lambda self, x: torch.stack([a + b for a, b in zip(x, self.mean, strict=True)]),
    "indexing": lambda self, x: x[1:5:2] * x[-1] + x[..., 0],
    "transposed": lambda self, x: x.reshape(2, 3).T.permute(1, 0).transpose(0, 1).flatten(),
    "expand": lambda self, x: x[:, None].expand(-1, 3) + x.unsqueeze(1).expand_as(torch.ones(6, 3)),
    "in place": lambda self, x: x.clone().add_(1).mul_(x).relu_(),
    "casts": lambda self, x: self.fc(x.double().mul(3).float()).to(torch.float64),
    "tuple": lambda self, x: (x.sum(), x.mean()),
    "addmm": lambda self, x: torch.addmm(self.fc.bias, x[None], self.fc.weight.t())[0],
    "functional": lambda self, x: F.dropout(
        F.linear(x, self.fc.weight), 0.5, training=self.training
    ),
    "softmax": lambda self, x: torch.softmax(x, 0) * x.log_softmax(-1),
    "constant": lambda self, x: self.mean * 2,
    "input": lambda self, x: x,
    "shared constants": lambda self, x: (
        (self.fc(x) * self.fc.bias + self.fc.bias) * self.fc.weight[:, 0] + self.fc.weight.sum()
    ),
    "weight used twice": lambda self, x: (
        torch.cat([self.fc(x), self.fc.weight[0] * x]) + (self.fc.weight @ x).sum()
    ),
    "numbers": lambda self, x: x * np.float32(2) + int(x.shape[0]) / len(x),
    "reciprocal": lambda self, x: x.abs().add(1).reciprocal() + (x * x + 1).rsqrt() + x.square(),
    "sin cos": lambda self, x: torch.cat([torch.sin(x), x.cos(), x.erf(), x.expm1()]),
    "no grad": lambda self, x: torch.no_grad()(self.fc)(x),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_forwards(name):
    net = Of(FORWARDS[name], norm=nn.BatchNorm1d(5))
    net.register_buffer("mean", torch.linspace(-1, 1, 6))
    net.register_buffer("std", torch.linspace(0.5, 2, 6))
    assert_fast(net)


def test_sixteen_bits_written_for_batches():
    """The batch of one is taken out again, and the result is rounded behind that."""
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).half().eval()
    assert assert_fast(net).shape == (3, 3, 4)


@pytest.mark.parametrize("value", [3.0, True, None, [1.0, 2.0], {"a": 1}, "text"], ids=repr)
def test_results_that_are_no_tensors(value):
    """The loop gives what NumPy's gives."""
    with xpapply.options(fallback="silent"):
        result = xpapply.apply_along_axis(Of(lambda self, x: value), 1, ARR)
    expected = np.apply_along_axis(lambda v: value, 1, ARR)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


# --- callables ------------------------------------------------------------------------


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 3)

    def forward(self, x, scale=1.0):
        return self.a(x) * scale

    def encode(self, x, shift=None):
        y = self.b(x)
        return y if shift is None else y + shift


def test_methods_partials_and_arguments():
    net = TwoHeads().eval()
    assert assert_fast(net.encode).shape == (3, 3, 4)
    assert assert_fast(net).shape == (3, 5, 4)
    assert_fast(functools.partial(net, scale=3.0))
    assert_fast(functools.partial(net.encode, shift=torch.ones(3)))
    assert_fast(net, ARR, 1, scale=2.0)
    one = xpapply.apply_along_axis(net, 1, ARR, 1.0)
    np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR, 2.0), 2 * one, atol=1e-6)
    np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR, scale=3.0), 3 * one, atol=1e-6)


def test_a_changed_tensor_argument_is_noticed():
    net, shift = TwoHeads().eval(), torch.zeros(3)
    f = functools.partial(net.encode, shift=shift)
    before = assert_fast(f)
    shift += 1
    np.testing.assert_allclose(assert_fast(f), before + 1, rtol=1e-5, atol=1e-6)


def test_methods_of_one_module_do_not_mix():
    net = TwoHeads().eval()
    for _ in range(2):
        assert xpapply.apply_along_axis(net, 1, ARR).shape[1] == 5
        assert xpapply.apply_along_axis(net.encode, 1, ARR).shape[1] == 3


@pytest.mark.parametrize("spectral", [False, True])
def test_parametrizations(spectral):
    norm = nn.utils.parametrizations
    layer = (norm.spectral_norm if spectral else norm.weight_norm)(nn.Linear(6, 5))
    net = nn.Sequential(layer, nn.Tanh()).eval()
    before = assert_fast(net)
    with torch.no_grad():
        next(iter(layer.parametrizations.weight.parameters())).mul_(2)
    if not spectral:
        assert not np.allclose(assert_fast(net), before)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_the_old_weight_norm_hook():
    layer = nn.utils.weight_norm(nn.Linear(6, 5))
    net = nn.Sequential(layer, nn.Tanh()).eval()
    before = assert_fast(net)
    with torch.no_grad():
        layer.weight_g.mul_(2)
    assert not np.allclose(assert_fast(net), before)


# --- what changes is noticed ----------------------------------------------------------


def replace(net):
    net[0].weight = nn.Parameter(torch.ones(5, 6))


def optimizer_step(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net(torch.ones(6)).sum().backward()
    optimizer.step()


CHANGES = {
    "optimizer": optimizer_step,
    "data": lambda net: net[0].weight.data.mul_(2),
    "state dict": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    "replaced": replace,
    "slope": lambda net: setattr(net[1], "negative_slope", 0.9),
    "numpy view": lambda net: net[0].weight.detach().numpy().__imul__(2),
    "buffer": lambda net: net[2].running_mean.add_(1),
    "eps": lambda net: setattr(net[2], "eps", 10.0),
    "layer": lambda net: net.__setitem__(1, nn.Sigmoid()),
    "appended": lambda net: net.append(nn.Sigmoid()),
    "removed": lambda net: net.__delitem__(1),
    "class": lambda net: setattr(net[1], "__class__", nn.ReLU),
}


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name, kind, ahead, monkeypatch):
    monkeypatch.setattr(arrays, "is_asynchronous", lambda _: ahead)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.BatchNorm1d(5)).eval()
    net.requires_grad_(name == "optimizer")
    arr = ARR if kind == "numpy" else torch.from_numpy(ARR)
    if name == "optimizer":
        net[2] = nn.Tanh()
    with torch.no_grad():
        before = np.asarray(xpapply.apply_along_axis(net, 1, arr))
    CHANGES[name](net)
    with torch.no_grad():
        after = np.asarray(assert_parity(net, 1, arr))
    assert not np.allclose(before, after)


def test_any_of_many_weights_changed_behind_data():
    net = nn.Sequential(*(nn.Linear(6 if k == 0 else 300, 300) for k in range(6))).eval()
    net.register_parameter("empty", nn.Parameter(torch.empty(0)))
    for layer in net:
        before = xpapply.apply_along_axis(net, 1, ARR)
        np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, ARR), before)
        layer.bias.data += 1
        assert not np.allclose(xpapply.apply_along_axis(net, 1, ARR), before)


@pytest.mark.parametrize(("rows", "wasted"), [(1000, 1), (1 << 20, 0)])
def test_little_work_starts_before_weights_are_looked_at(rows, wasted, monkeypatch):
    monkeypatch.setattr(arrays, "is_asynchronous", lambda _: True)
    calls = []
    run = engines._Prepared._run
    monkeypatch.setattr(engines._Prepared, "_run", lambda *a: calls.append(1) or run(*a))
    net, arr = nn.Linear(6, 1).eval(), np.ones((rows, 6), np.float32)
    for _ in range(3):
        before = xpapply.apply_along_axis(net, -1, arr)
    assert len(calls) == 3
    with torch.no_grad():
        net.bias += 1
    np.testing.assert_allclose(xpapply.apply_along_axis(net, -1, arr), before + 1, rtol=1e-6)
    assert len(calls) == 4 + wasted


# --- random networks ------------------------------------------------------------------


@given(data=st.data())
def test_state_is_complete(data):
    """Whatever parameter or buffer of a random network changes is noticed."""
    net = data.draw(testing.networks(4, max_depth=3))
    arr = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    assert_parity(net, 1, arr)
    for t in [*net.parameters(), *net.buffers()]:
        if t.is_floating_point():
            t.data.mul_(1.5)
            assert_parity(net, 1, arr)
