"""Networks that torch exports: as torch and onnxruntime compute them."""

import logging
import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import by_runtime
from torch import nn

import xpapply
from xpapply.ir.graph import ShapeDtype
from xpapply.models.onnx import load

rng = np.random.default_rng(0)
TOL = {"rtol": 2e-4, "atol": 2e-5}


def exported(net, shape, path, dynamo=False, dtype=torch.float32):
    """The file that torch writes of a network."""
    net = net.eval().to(dtype)
    x = torch.randn(2, *shape).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            torch.onnx.export(
                net,
                (x,),
                path,
                dynamo=True,
                verbose=False,
                external_data=False,
                dynamic_shapes=({0: torch.export.Dim("slices")},),
            )
        else:
            names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "slices"}}}
            torch.onnx.export(net, (x,), path, dynamo=False, **names)
    return path


def with_statistics(net):
    """Its running statistics are not those of a network that was never trained."""
    for m in net.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
    return net


def check(net, shape, path, dynamo=False, dtype=torch.float32, tol=TOL):
    """All engines that can run the graph give what torch and onnxruntime give."""
    path = exported(with_statistics(net), shape, path, dynamo, dtype)
    f = load(path)
    f.lift(ShapeDtype(shape, "float32"))  # there is a graph
    x = rng.normal(size=(5, *shape)).astype(str(dtype)[6:])
    axes = tuple(range(1, x.ndim)) if len(shape) > 1 else 1
    with torch.no_grad():
        want = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(by_runtime(path, x), want, **tol)
    for engine in ("", "numpy", "array_api"):
        with xpapply.options(engine=engine):
            got = xpapply.apply_along_axis(f, axes, x)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, **tol)
    t = torch.from_numpy(x)
    got = xpapply.apply_along_axis(f, axes, t)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), want, **tol)
    np.testing.assert_allclose(f(x[0]), want[0], **tol)
    return f


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), (16,)),
    "norms": (
        lambda: nn.Sequential(
            nn.Linear(9, 12), nn.BatchNorm1d(12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 5)
        ),
        (9,),
    ),
    "residual": (lambda: Residual(), (8,)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, stride=2, groups=2),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 3),
            nn.LogSoftmax(-1),
        ),
        (1, 12, 12),
    ),
    "up": (
        lambda: nn.Sequential(
            nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1),
            nn.Hardswish(),
            nn.Upsample(scale_factor=2),
            nn.AvgPool2d(3, 2, 1),
            nn.Upsample(size=(7, 9), mode="bilinear"),
            nn.GroupNorm(3, 3),
        ),
        (2, 5, 6),
    ),
    "signal": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 5, dilation=2, padding=4),
            nn.PReLU(4),
            nn.InstanceNorm1d(4, affine=True),
            nn.ReflectionPad1d(2),
            nn.MaxPool1d(3, 2, 1, ceil_mode=True),
            nn.Flatten(),
        ),
        (2, 11),
    ),
    "attention": (lambda: Attention(), (6, 8)),
    "shuffle": (lambda: nn.Sequential(nn.Conv2d(2, 8, 1), nn.PixelShuffle(2)), (2, 4, 3)),
}


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(16, 3)

    def forward(self, x):
        h = x + torch.tanh(self.one(x))
        a, b = torch.split(torch.cat([h, x], -1), [4, 12], -1)
        both = torch.cat([a * torch.sigmoid(a), b.clamp(-1, 1)], -1)
        return self.two(both) / (both.pow(2).sum(-1, keepdim=True) + 1e-3).sqrt()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        p = torch.softmax(q @ k.transpose(-1, -2) / (d // 2) ** 0.5, -1)
        return self.out((p @ v).transpose(1, 2).reshape(b, n, d)).mean(1)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(tmp_path, name):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    check(make(), shape, tmp_path / "net.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_by_the_exporter_of_programs(tmp_path, name):
    pytest.importorskip("onnxscript")
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    check(make(), shape, tmp_path / "net.onnx", dynamo=True)


def test_float64(tmp_path):
    net = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 2))
    check(net, (7,), tmp_path / "net.onnx", dtype=torch.float64, tol={"rtol": 1e-12, "atol": 1e-13})


# --- random networks ------------------------------------------------------------------------------

ACTIVATIONS = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.GELU,
    nn.Sigmoid,
    nn.Tanh,
    nn.Softplus,
    nn.Softsign,
    nn.Hardswish,
    nn.Hardsigmoid,
    nn.SiLU,
    nn.Mish,
    nn.PReLU,
    nn.ReLU6,
    nn.Hardtanh,
)
activation = st.sampled_from(ACTIVATIONS).map(lambda a: a())


@st.composite
def dense(draw):
    """Layers of vectors, and their length."""
    n = width = draw(st.integers(1, 12))
    layers = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["linear", "activation", "batch", "layer", "softmax"]))
        if kind == "linear":
            more = draw(st.integers(1, 12))
            layers.append(nn.Linear(width, more, bias=draw(st.booleans())))
            width = more
        elif kind == "activation":
            layers.append(draw(activation))
        elif kind == "softmax":
            layers.append(draw(st.sampled_from([nn.Softmax(-1), nn.LogSoftmax(-1)])))
        elif width > 1:
            layers.append(nn.BatchNorm1d(width) if kind == "batch" else nn.LayerNorm(width))
    return nn.Sequential(*(layers or [nn.Linear(width, 2)])), (n,)


@st.composite
def convolutional(draw):
    """Layers of images, and the shape of one."""
    k, h, s = draw(st.integers(1, 3)), draw(st.integers(6, 9)), draw(st.integers(6, 9))
    shape, channels, layers = (k, h, s), k, []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["conv", "up", "max", "avg", "batch", "activation", "group"]))
        if kind == "conv":
            more = draw(st.integers(1, 4))
            layers.append(
                nn.Conv2d(channels, more, draw(st.integers(1, 3)), draw(st.integers(1, 2)), 1)
            )
            channels = more
        elif kind == "up":
            more = draw(st.integers(1, 4))
            layers.append(nn.ConvTranspose2d(channels, more, 3, draw(st.integers(1, 2)), 1))
            channels = more
        elif kind in ("max", "avg"):
            pool = nn.MaxPool2d if kind == "max" else nn.AvgPool2d
            layers.append(pool(2, draw(st.integers(1, 2)), draw(st.integers(0, 1))))
        elif kind == "batch":
            layers.append(nn.BatchNorm2d(channels))
        elif kind == "group":
            layers.append(nn.GroupNorm(1, channels))
        else:
            layers.append(draw(activation))
    if draw(st.booleans()):
        layers += [nn.Flatten(), nn.LazyLinear(3)]
    net = nn.Sequential(*layers)
    with torch.no_grad():
        net.eval()(torch.zeros(1, *shape))
    return net, shape


@pytest.mark.parametrize("dynamo", [False, True])
@given(drawn=dense() | convolutional())
@settings(max_examples=min(25, settings().max_examples))
def test_random_networks(tmp_path_factory, dynamo, drawn):
    if dynamo:
        pytest.importorskip("onnxscript")
    check(*drawn, tmp_path_factory.getbasetemp() / "random.onnx", dynamo)


# --- arrays ---------------------------------------------------------------------------------------


def test_nan_and_infinities_stay_in_their_slice(tmp_path):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    f = load(exported(net, (4,), tmp_path / "net.onnx"))
    x = rng.normal(size=(6, 4)).astype(np.float32)
    x[1, 2], x[4, 0] = np.nan, np.inf
    with torch.no_grad():
        want = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want, **TOL)


def test_any_axis_and_layout(tmp_path):
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    f = load(exported(net, (4,), tmp_path / "net.onnx"))
    x = rng.normal(size=(3, 4, 6))
    want = np.apply_along_axis(f, 1, x)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want, **TOL)
    got = xpapply.apply_along_axis(f, 1, x[::-1, :, ::2])
    np.testing.assert_allclose(got, want[::-1, :, ::2], **TOL)
    got = xpapply.vectorize(f, signature="(n)->(m)")(np.moveaxis(x, 1, -1))
    np.testing.assert_allclose(got, np.moveaxis(want, 1, -1), **TOL)


def test_images_along_any_axes_and_without_their_channel(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 3))
    path = exported(net, (1, 6, 6), tmp_path / "net.onnx")
    f = load(path)
    x = rng.normal(size=(6, 4, 6)).astype(np.float32)
    want = by_runtime(path, np.moveaxis(x, 1, 0)[:, None])
    got = xpapply.apply_along_axis(f, (0, 2), x)
    np.testing.assert_allclose(np.moveaxis(got, 0, -1), want, **TOL)
    with pytest.raises(xpapply.InputError, match=r"takes slices of shape \(1, 6, 6\)"):
        xpapply.apply_along_axis(f, 0, x)


def test_sizes_that_are_open(tmp_path):
    net = nn.Conv2d(1, 2, 3).eval()
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 2: "h", 3: "w"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, (torch.zeros(1, 1, 5, 5),), tmp_path / "f.onnx", dynamo=False, **names
        )
    f = load(tmp_path / "f.onnx")
    assert f.slice_shape == (1, None, None)
    for shape in ((4, 1, 7, 6), (3, 1, 4, 9)):
        x = rng.normal(size=shape).astype(np.float32)
        got = xpapply.apply_along_axis(f, (1, 2, 3), x)
        np.testing.assert_allclose(got, by_runtime(tmp_path / "f.onnx", x), **TOL)


def test_many_images_run_by_the_faster_way(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten())
    path = exported(net, (1, 6, 6), tmp_path / "net.onnx")
    f = load(path)
    x = rng.normal(size=(6000, 1, 6, 6)).astype(np.float32)
    plan = xpapply.explain(f, (1, 2, 3), x)
    assert plan.engine in ("numpy", "onnx.batch")
    got = xpapply.apply_along_axis(f, (1, 2, 3), x)
    np.testing.assert_allclose(got, by_runtime(path, x), **TOL)
    with xpapply.options(engine="onnx.batch"):
        got = xpapply.apply_along_axis(f, (1, 2, 3), x)
        np.testing.assert_array_equal(got, by_runtime(path, x))


def test_pickled(tmp_path):
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    f = load(exported(net, (4,), tmp_path / "net.onnx"))
    again = pickle.loads(pickle.dumps(f))
    x = rng.normal(size=(3, 4)).astype(np.float32)
    want = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(xpapply.apply_along_axis(again, 1, x), want)
    plan = pickle.loads(pickle.dumps(xpapply.compile(f, (4,), np.float32)))
    np.testing.assert_allclose(plan(x, 1), want, **TOL)


def test_masked_arrays_and_jax(tmp_path):
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    f = load(exported(net, (4,), tmp_path / "net.onnx"))
    x = rng.normal(size=(3, 4)).astype(np.float32)
    masked = np.ma.masked_array(x, x > 1.0)
    got = xpapply.apply_along_axis(f, 1, masked)
    assert (got.mask[:, 0] == masked.mask.any(1)).all()
    jnp = pytest.importorskip("jax.numpy")
    got = xpapply.apply_along_axis(f, 1, jnp.asarray(x))
    np.testing.assert_allclose(np.asarray(got), xpapply.apply_along_axis(f, 1, x), **TOL)
