"""Convolutions, pools, padding, norms and upsampling: as graphs, on every engine, against torch."""

import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn

LINES = ("linear", "bilinear", "trilinear")


@st.composite
def layers(draw, n):
    """A layer of slices (channels, n places), and a shape that it takes."""
    kind = draw(st.sampled_from(KINDS))
    channels = draw(st.sampled_from([2, 4]))
    places = [draw(st.integers(6, 9 if n < 3 else 7)) for _ in range(n)]
    several = st.integers(1, 3) | st.tuples(*[st.integers(1, 3)] * n)
    one, groups = st.integers(1, 2), st.sampled_from([1, 2])
    size = draw(several)
    half = min(size if isinstance(size, int) else min(size) for _ in "k") // 2
    made = {
        "conv": lambda: getattr(nn, f"Conv{n}d")(
            channels,
            draw(st.sampled_from([2, 4])),
            size,
            stride=draw(several),
            padding=draw(st.integers(0, 2) | st.just("valid")),
            dilation=draw(one),
            groups=draw(groups),
            bias=draw(st.booleans()),
            padding_mode=draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"])),
        ),
        "same": lambda: getattr(nn, f"Conv{n}d")(
            channels, channels, size, padding="same", dilation=draw(one), groups=channels
        ),
        "transposed": lambda: getattr(nn, f"ConvTranspose{n}d")(
            channels,
            4,
            size,
            stride=2,
            padding=draw(st.integers(0, 1)),
            output_padding=draw(st.integers(0, 1)),
            dilation=draw(one),
            groups=draw(groups),
            bias=draw(st.booleans()),
        ),
        "max": lambda: getattr(nn, f"MaxPool{n}d")(
            size,
            draw(st.none() | several),
            draw(st.integers(0, half)),
            draw(one),
            ceil_mode=draw(st.booleans()),
        ),
        "average": lambda: getattr(nn, f"AvgPool{n}d")(
            size,
            draw(st.none() | several),
            draw(st.integers(0, half)),
            ceil_mode=draw(st.booleans()),
            count_include_pad=draw(st.booleans()),
        ),
        "adaptive average": lambda: getattr(nn, f"AdaptiveAvgPool{n}d")(draw(st.integers(1, 7))),
        "adaptive max": lambda: getattr(nn, f"AdaptiveMaxPool{n}d")(draw(st.integers(1, 7))),
        "batch norm": lambda: nn.Sequential(
            getattr(nn, f"Conv{n}d")(channels, 4, 2), getattr(nn, f"BatchNorm{n}d")(4), nn.ReLU()
        ),
        "group norm": lambda: nn.GroupNorm(draw(groups), channels),
        "instance norm": lambda: getattr(nn, f"InstanceNorm{n}d")(
            channels, affine=draw(st.booleans()), track_running_stats=draw(st.booleans())
        ),
        "upsampling": lambda: nn.Upsample(
            scale_factor=draw(st.sampled_from([2, 3, 1.5, 0.7])),
            mode=draw(st.sampled_from(["nearest", "nearest-exact", LINES[n - 1]])),
        ),
        "upsampling to a size": lambda: nn.Upsample(
            size=draw(st.integers(1, 12)), mode=LINES[n - 1], align_corners=draw(st.booleans())
        ),
        "zeros": lambda: getattr(nn, f"ConstantPad{n}d")(
            tuple(draw(st.integers(-2, 3)) for _ in range(2 * n)), draw(st.floats(-2, 2))
        ),
        "reflection": lambda: getattr(nn, f"ReflectionPad{n}d")(draw(st.integers(0, 3))),
    }[kind]()
    torch.manual_seed(0)
    for name, t in made.state_dict().items():
        if t.is_floating_point():
            t.uniform_(0.5, 2.0) if name.endswith("var") else t.normal_()
    return made.eval(), (channels, *places)


KINDS = (
    *("conv", "same", "transposed", "max", "average", "adaptive average", "adaptive max"),
    *("batch norm", "group norm", "instance norm", "upsampling", "upsampling to a size"),
    *("zeros", "reflection"),
)


class Batch(nn.Module):
    """A module of batches, for one slice."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x[None])[0]


def run_on(xp, net, axes, x):
    with xp():
        arr = xp.array(x)
        assert xpapply.explain(net, axes, arr).engine == xp.engine
        return xp.numpy(xpapply.apply_along_axis(net, axes, arr))


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize("n", [1, 2, 3])
@given(data=st.data())
def test_layers(gathering_xp, n, data):
    """Every layer with every parameter, along axes in any place and order of memory."""
    layer, shape = data.draw(layers(n))
    net = Batch(layer).double().eval()
    x = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal((3, *shape, 2))
    whole = torch.from_numpy(x).movedim(-1, 1).reshape(6, *shape)
    with torch.no_grad():
        want = layer(whole).numpy()
    want = np.moveaxis(want.reshape(3, 2, *want.shape[1:]), 1, -1)
    order = data.draw(st.permutations(range(x.ndim)))
    lies = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    got = run_on(gathering_xp, net, tuple(range(1, n + 2)), lies)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


class UNet(nn.Module):
    """Down and up again, with a skip across."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 2, 3, padding="same")

    def forward(self, x):
        first = self.down(x)
        inner = self.inner(nn.functional.max_pool2d(first, 2))
        return self.last(torch.cat([first, self.up(inner)], 1))


class Basic(nn.Module):
    """A block of a ResNet, with a smaller way around."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.Conv2d(6, 6, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) for _ in range(3))
        self.around = nn.Conv2d(3, 6, 1, 2, bias=False)

    def forward(self, x):
        y = self.norms[1](self.b(torch.relu(self.norms[0](self.a(x)))))
        return torch.relu(y + self.norms[2](self.around(x)))


NETWORKS = {
    "u-net": (UNet, (1, 8, 8)),
    "residual": (Basic, (3, 8, 8)),
    "classic": (
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(10, 20, 3), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(80, 10)),
        ),
        (1, 14, 14),
    ),
    "spectra": (
        lambda: nn.Sequential(
            *(nn.Conv1d(1, 5, 6), nn.Tanh(), nn.MaxPool1d(5), nn.Flatten(), nn.Linear(45, 4)),
        ),
        (1, 50),
    ),
    "shuffled": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(2, 1, 1)
        ),
        (3, 5, 6),
    ),
}


def network(name):
    torch.manual_seed(1)
    make, shape = NETWORKS[name]
    net = make()
    for key, t in net.state_dict().items():
        if key.endswith("running_var"):
            t.uniform_(0.5, 2.0)
    return net.eval(), shape


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_networks(gathering_xp, name, dtype):
    net, shape = network(name)
    net = net.to(getattr(torch, dtype))
    x = np.random.default_rng(0).standard_normal((40, *shape))
    with torch.no_grad():
        want = net.double()(torch.from_numpy(x)).numpy()
    net = net.to(getattr(torch, dtype))
    got = run_on(gathering_xp, net, tuple(range(1, x.ndim)), x.astype(dtype))
    assert got.dtype == dtype
    close = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got, want, rtol=close * 20, atol=close * np.abs(want).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_itself_runs_what_it_is_faster_in(name):
    net, shape = network(name)
    x = np.random.default_rng(0).standard_normal((40, *shape)).astype("f")
    p = xpapply.explain(net, tuple(range(1, x.ndim)), x)
    assert p.engine == "torch.batch"
    assert "the network's own come first" in str(p)
    assert "torch: it has no convolutions, pools or padding in its blocks of products" in str(p)
    assert "torch.batch runs a module that has them" in str(p)


def test_batch_norms_fold_into_convolutions():
    net, shape = network("residual")
    graph = xpapply.compile(nn.Sequential(nn.Unflatten(-1, shape), net).eval(), (192,)).graph
    ops = [n.op for n in graph.nodes]
    assert ops.count("einsum") == 3
    assert "multiply" not in ops


@pytest.mark.parametrize(
    ("layer", "shape", "says"),
    [
        (nn.Conv2d(3, 4, 3), (2, 8, 8), r"layer '1', Conv2d.* takes 3 channels, its input has 2"),
        (nn.Conv1d(3, 4, 9), (3, 8), r"layer '1', Conv1d.* windows of 9 places.* has 8"),
        (nn.ConvTranspose1d(3, 4, 2), (2, 8), r"layer '1', ConvTranspose1d.* takes 3 channels"),
        (nn.MaxPool2d(9), (1, 8, 8), r"a maximum pool in 2-D has windows of 9 places"),
        (nn.GroupNorm(2, 6), (3, 8), r"layer '1', GroupNorm.* takes 6 channels"),
        (nn.ReflectionPad1d(8), (1, 8), r"mode='reflect' takes 7 numbers"),
    ],
)
def test_wrong_sizes(layer, shape, says):
    """Which layer, what it got and what it takes."""
    net = nn.Sequential(nn.Unflatten(-1, shape), layer).eval()
    with pytest.raises(InputError, match=says):
        xpapply.apply_along_axis(net, 1, np.zeros((5, int(np.prod(shape))), "f"))


def test_indices_are_refused():
    class Indices(nn.Module):
        def forward(self, x):
            return nn.functional.max_pool1d(x[None], 2, return_indices=True)[1][0]

    with pytest.raises(xpapply.UnsupportedError, match="with indices"):
        xpapply.lift(Indices().eval(), (8,))


WITHOUT_TORCH = """
import pickle, sys, tracemalloc
import numpy as np
plan, x = pickle.load(sys.stdin.buffer)
few = plan(x[:8], 1)
tracemalloc.start()
found = plan(x, 1)
peak = tracemalloc.get_traced_memory()[1] - found.nbytes
assert "torch" not in sys.modules
pickle.dump((found, peak, str(plan)), sys.stdout.buffer)
"""


@pytest.mark.parametrize("name", ["classic", "spectra", "u-net"])
def test_without_torch(name):
    """A plan from another process, in memory that does not grow with the array."""
    net, shape = network(name)
    flat = nn.Sequential(nn.Unflatten(-1, shape), net).eval()
    x = np.random.default_rng(0).standard_normal((6000, np.prod(shape))).astype("f")
    plan = xpapply.compile(flat, x.shape[1:])
    given = pickle.dumps((plan, x))
    run = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(run, input=given, capture_output=True, check=True)
    got, peak, _ = pickle.loads(done.stdout)
    with torch.no_grad():
        want = flat(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-5 * np.abs(want).max())
    assert peak < 60e6  # all slices at once would take 200 MB and more


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_every_small_pool_with_ceil_mode(kind, n):
    """Windows that go beyond the end, also where there is no other."""
    torchs = getattr(nn.functional, f"{kind}_pool1d")
    ours = getattr(xpapply, f"{kind}_pool")
    x = np.random.default_rng(0).random((2, 3, 6))
    cases = [(k, s, p) for k in range(1, 6) for s in range(1, 5) for p in range(k // 2 + 1)]
    for size, stride, padding in cases:
        given = x[..., :n]
        try:
            want = torchs(torch.from_numpy(given), size, stride, padding, ceil_mode=True).numpy()
        except RuntimeError:
            with pytest.raises(InputError):
                ours(given, size, stride, padding, ceil_mode=True, layout="bc0")
            continue
        got = ours(given, size, stride, padding, ceil_mode=True, layout="bc0")
        np.testing.assert_allclose(got, want, err_msg=str((n, size, stride, padding)))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_every_small_transposed_convolution(n, groups):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 4, *(5, 6)[:n])).astype("f4")
    x[0, 1, 2], x[1, 2, 3] = np.inf, np.nan
    made = getattr(nn, f"ConvTranspose{n}d")
    sizes = product((1, 2, 3, 4), (1, 2, 3), (0, 1), (0, 1), (1, 2))
    for size, step, cut, more, apart in sizes:
        if more >= max(step, apart) or apart * (size - 1) + more < 2 * cut:
            continue  # torch refuses these
        net = made(4, 6, size, step, cut, more, groups, dilation=apart).eval()
        net = net.requires_grad_(False)
        with torch.no_grad():
            want = net(torch.from_numpy(x)).numpy()
        with xpapply.options(engine="numpy"), np.errstate(invalid="ignore"):
            y = xpapply.apply_along_axis(net, tuple(range(1, 2 + n)), x)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5, err_msg=str(net))
