"""Random networks of windows, skips, steps and attention on every engine, against torch itself."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xpapply
from conftest import GATHERING, Library, library, present

torch = library("torch")

from convolution_cases import Reordered  # noqa: E402

nn = torch.nn
DTYPES = ("float64", "float32", "float16", "uint8", "int32", "int64")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e30)
OWN_WAYS = [
    *(Library(name, "torch.batch") for name in ("numpy", "torch", "cupy", "cuda")),
    *(Library(name, "torch.vmap") for name in ("numpy", "torch")),
]
WINDOWS = [x for x in (*GATHERING, *OWN_WAYS) if x.name != "jax"]


def parameters(engines):
    return [
        pytest.param(
            x,
            id=f"{x.name}-{x.engine}",
            marks=[pytest.mark.gpu] if x.name in ("cupy", "cuda") else [],
        )
        for x in engines
    ]


class Batches(nn.Module):
    """A module that takes nothing but batches."""

    def __init__(self, inner, ndim):
        super().__init__()
        self.inner, self.ndim = inner, ndim

    def forward(self, x):
        if x.ndim != self.ndim:
            raise ValueError(f"wants {self.ndim} axes")
        return self.inner(x)


class Around(nn.Module):
    """What a layer gives beside its input, or added to it."""

    def __init__(self, inner, how):
        super().__init__()
        self.inner, self.how = inner, how

    def forward(self, x):
        y = self.inner(x)
        return x + y if self.how == "add" else torch.cat([x, y, -x], 1)


def of_windows(draw, n, channels, places):
    """A layer of images (channels, n places)."""
    one = st.integers(1, 3)
    size = draw(one | st.tuples(*[one] * n))
    small = size if isinstance(size, int) else min(size)
    modes = ["zeros", "reflect", "replicate", "circular"]
    new = draw(st.integers(1, 4))
    kinds = {
        "conv": lambda: getattr(nn, f"Conv{n}d")(
            channels,
            new,
            size,
            stride=draw(st.integers(1, 2)),
            padding=draw(st.integers(0, 2)),
            dilation=draw(st.integers(1, 2)),
            bias=draw(st.booleans()),
            padding_mode=draw(st.sampled_from(modes)),
        ),
        "depthwise": lambda: getattr(nn, f"Conv{n}d")(
            channels, 2 * channels, size, groups=channels, padding="same"
        ),
        "transposed": lambda: getattr(nn, f"ConvTranspose{n}d")(
            channels, new, size, stride=2, output_padding=draw(st.integers(0, 1))
        ),
        "max": lambda: getattr(nn, f"MaxPool{n}d")(
            size, draw(st.integers(1, 2)), draw(st.integers(0, small // 2)), ceil_mode=True
        ),
        "average": lambda: getattr(nn, f"AvgPool{n}d")(
            size, 2, draw(st.integers(0, small // 2)), ceil_mode=draw(st.booleans())
        ),
        "powers": lambda: getattr(nn, f"LPPool{n}d")(2, size, ceil_mode=draw(st.booleans())),
        "adaptive": lambda: getattr(nn, f"AdaptiveAvgPool{n}d")(draw(st.integers(1, 5))),
        "batch norm": lambda: getattr(nn, f"BatchNorm{n}d")(channels),
        "group norm": lambda: nn.GroupNorm(1, channels),
        "instance norm": lambda: getattr(nn, f"InstanceNorm{n}d")(channels, affine=True),
        "layer norm": lambda: nn.LayerNorm((channels, *places)),
        "norm of the last": lambda: nn.LayerNorm(places[-1:]),
        "activation": lambda: draw(
            st.sampled_from([nn.ReLU(), nn.Tanh(), nn.GELU(), nn.PReLU(channels), nn.Softmax(1)])
        ),
        "upsampling": lambda: nn.Upsample(scale_factor=2, mode="nearest"),
        "turn": lambda: Reordered("turn"),
        "mean": lambda: Reordered("mean"),
        "narrow": lambda: Reordered("narrow"),
        "flat": lambda: Reordered("flat"),
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]()


@st.composite
def of_places(draw, n):
    """A network of images with n axes of places, and the shape of its slices."""
    shape = (draw(st.integers(1, 3)), *(draw(st.integers(4, 7)) for _ in range(n)))
    x, layers = torch.ones(2, *shape), []
    for _ in range(draw(st.integers(1, 4))):
        layer = of_windows(draw, n, x.shape[1], tuple(x.shape[2:])).eval()
        try:
            y = layer(x)
        except (RuntimeError, ValueError, TypeError, AssertionError):  # too few places for it
            continue
        if y.numel() > 4000 or not y.numel():
            continue
        if y.shape == x.shape and draw(st.booleans()):
            layer = Around(layer, draw(st.sampled_from(["add", "cat"])))
            y = layer(x)
        layers.append(layer)
        x = y
    ends = ["as it is", "linear", "mean"]
    end = draw(st.sampled_from(ends))
    if end == "linear":
        layers += [nn.Flatten(), nn.Linear(x[0].numel(), 2)]
    elif end == "mean":
        layers += [nn.Flatten(2), Reordered("mean")]
    return with_weights(nn.Sequential(*layers), draw), shape


class Last(nn.Module):
    """The first of several results, in its last step."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0][..., -1, :]


class Patches(nn.Module):
    """A vision transformer of one block."""

    def __init__(self, width, heads):
        super().__init__()
        self.cut = nn.Conv2d(1, width, 2, 2)
        self.first = nn.Parameter(torch.ones(1, 1, width))
        self.block = nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True)
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
        return self.out(self.block(x)[:, 0])


@st.composite
def of_steps(draw):
    """A network that is not a graph, and the shape of its slices."""
    heads = draw(st.integers(1, 2))
    width, steps = heads * draw(st.integers(1, 3)), draw(st.integers(1, 5))
    how = {
        "num_layers": draw(st.integers(1, 2)),
        "bidirectional": draw(st.booleans()),
        "batch_first": True,
    }
    kinds = {
        "gru": lambda: (Last(nn.GRU(width, 3, **how)), (steps, width)),
        "lstm": lambda: (Last(nn.LSTM(width, 3, **how)), (steps, width)),
        "rnn": lambda: (Last(nn.RNN(width, 3, **how)), (steps, width)),
        "transformer": lambda: (
            nn.TransformerEncoderLayer(
                width, heads, 4, batch_first=True, norm_first=draw(st.booleans())
            ),
            (steps, width),
        ),
        "patches": lambda: (Patches(width, heads), (1, 4, 6)),
    }
    net, shape = kinds[draw(st.sampled_from(sorted(kinds)))]()
    return with_weights(net, draw), shape


def with_weights(net, draw):
    torch.manual_seed(draw(st.integers(0, 99)))
    for name, t in net.state_dict().items():
        if t.is_floating_point():
            t.uniform_(0.5, 2.0) if name.endswith("var") else t.normal_(0, 0.5)
    return net.eval().requires_grad_(False)


@st.composite
def slices(draw, shape, dtypes):
    """An array with such slices along some axes, in any order of memory; and these axes."""
    dtype = draw(st.sampled_from(dtypes))
    batch = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    size = (*batch, *shape)
    x = (rng.normal(0, 2, size) if dtype[0] == "f" else rng.integers(0, 9, size)).astype(dtype)
    if dtype[0] == "f" and draw(st.integers(0, 3)) == 0:
        for value in draw(st.lists(st.sampled_from(SPECIAL), max_size=3)):
            with np.errstate(over="ignore"):
                x.flat[draw(st.integers(0, x.size - 1))] = value
    places = draw(st.permutations(range(x.ndim)))  # where each axis goes
    arr = np.ascontiguousarray(x.transpose([places.index(k) for k in range(x.ndim)]))
    order = draw(st.permutations(range(x.ndim)))
    arr = np.ascontiguousarray(arr.transpose(order)).transpose(np.argsort(order))
    axes = tuple(places[len(batch) + k] for k in range(len(shape)))
    # the batch dims of the result stand in the order of the array's
    kept = sorted(range(len(batch)), key=lambda k: places[k])
    whole = x.transpose(*kept, *range(len(batch), x.ndim)).reshape(-1, *shape)
    at = sum(places[k] < axes[0] for k in range(len(batch)))
    signed = tuple(a - arr.ndim if draw(st.booleans()) else a for a in axes)
    return arr, signed, whole, [batch[k] for k in kept], at


def check(xp, net, data, shape, dtype, calls):
    strict = xp.name == "array_api_strict"
    arr, axes, whole, batch, at = data.draw(slices(shape, DTYPES[:2] if strict else DTYPES))
    net = net.to(getattr(torch, dtype))
    with torch.no_grad():
        given = torch.from_numpy(whole).to(getattr(torch, dtype))
        try:
            want = net.double()(given.double()).numpy()
        except ValueError as error:  # of torch: a norm of one value, in a batch of one slice
            assume("Expected more than 1 value per channel" not in str(error))
            raise
    net = net.to(getattr(torch, dtype))
    want = want.reshape(*batch, *want.shape[1:])
    ends = range(at, at + want.ndim - len(batch))
    want = np.moveaxis(want, range(len(batch), want.ndim), ends)
    if not len(net.state_dict()) and arr.dtype.kind != "f":
        return  # without weights results have the dtype of the slices
    with xp(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if xp.name in ("cuda", "torch") and next(net.parameters(), None) is not None:
            net = net.to("cuda" if xp.name == "cuda" else "cpu")
        x = xp.array(arr)
        try:
            for _ in range(calls):
                got = xpapply.apply_along_axis(net, axes, x)
        except xpapply.UnsupportedError:  # said, not wrong
            return
    got = xp.numpy(got).astype(np.float64)
    assert got.shape == want.shape
    exact = dtype == "float64" and (net.state_dict() or arr.dtype == np.float64)
    tolerance = 1e-8 if exact else 2e-2 if xp.name in ("cuda", "cupy") else 1e-3
    if not exact and not (np.abs(arr.astype(float)) < 1e15).all():
        return  # where float32 overflows, float64 need not
    finite = np.abs(want[np.isfinite(want)])
    scale = max(1.0, finite.max(initial=0))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize("engine", parameters(WINDOWS))
@settings(max_examples=max(8, settings().max_examples // 3))
@given(data=st.data(), n=st.integers(1, 3), dtype=st.sampled_from(["float64", "float32"]))
def test_networks_of_windows(engine, n, data, dtype):
    net, shape = data.draw(of_places(n))
    check(
        present(engine),
        Batches(net, n + 2),
        data,
        shape,
        dtype,
        6 if "torch." in engine.engine else 1,
    )


@pytest.mark.parametrize("engine", parameters(OWN_WAYS))
@settings(max_examples=max(8, settings().max_examples // 3))
@given(data=st.data(), dtype=st.sampled_from(["float64", "float32"]))
def test_networks_of_steps(engine, data, dtype):
    net, shape = data.draw(of_steps())
    check(present(engine), Batches(net, len(shape) + 1), data, shape, dtype, 6)
