"""Convolutional networks of all kinds, drawn by hypothesis, and what torch computes of them."""

import contextlib
import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import xpapply
from xpapply.backends import array_api
from xpapply.ir.rewrite import compact, fold, with_input
from xpapply.limits import LIMITS
from xpapply.lowering import tiles

nn = torch.nn


def graph_of(net, shape, dtype="float32"):
    """Of flat slices, as calls along several axes have it."""
    return with_input(compact(fold(xpapply.lift(net, shape, dtype))), (math.prod(shape),))


class Residual(nn.Module):
    def __init__(self, inner, after):
        super().__init__()
        self.inner, self.after = inner, after

    def forward(self, x):
        return self.after(x + self.inner(x))


class Joined(nn.Module):
    """A map beside others made of it, and beside parts of itself."""

    def __init__(self, inner, how):
        super().__init__()
        self.inner, self.how = inner, how

    def forward(self, x):
        if self.how == "twice":
            return torch.cat([x, x], 1)
        if self.how == "around":  # a circular border along the last axis
            return torch.cat([x[..., -1:], x, x[..., :1]], -1)
        if self.how == "part":
            return torch.cat([self.inner(x), x[:, :1]], 1)
        return torch.cat([x, self.inner(x)], 1)


class Reordered(nn.Module):
    """Axes of places in another order, or as more channels, or one as the mean of it."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        if self.how == "turn":
            return x.flip(-1).transpose(-1, 1)
        if self.how == "mean":
            return x.mean(-1, keepdim=True)
        if self.how == "narrow":
            return x[..., 1:] * x[..., :-1]
        return x.flatten(2).unflatten(2, x.shape[2:])


class Hourglass(nn.Module):
    """Down, and up again beside what was there: a small U-Net."""

    def __init__(self, up):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 8, 3, padding=1)
        self.last = nn.Conv2d(12, 1, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2) if up == "transposed" else nn.Upsample(None, 2)

    def forward(self, x):
        y = torch.relu(self.first(x))
        z = self.up(torch.relu(self.second(nn.functional.max_pool2d(y, 2))))
        return self.last(torch.cat([z, y], 1))


class OfOne(nn.Sequential):
    """A network for batches, of one image."""

    def forward(self, x):
        return self[0](x[None])[0]


def Leaks(numbers=1):
    """PReLU, whose slopes are weights."""
    return nn.PReLU(numbers, 0.3)


ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.LeakyReLU, nn.GELU, nn.Sigmoid, nn.Identity, Leaks)


@st.composite
def layers(draw, n, shape):
    """A layer that images of this shape, with the channels first, can go through."""
    channels, *places = shape
    small = min(places)

    def each(values):
        return tuple(draw(values) for _ in range(n))

    convs, others = ["conv"] * 3, ["max", "mean", "transposed", "skip", "join", "move"]
    kind = draw(st.sampled_from(convs + others))
    if kind == "move":
        return Reordered(draw(st.sampled_from(["mean", "narrow", "flat"])))
    if kind in ("max", "mean"):
        size = each(st.integers(1, min(3, small)))
        pads = tuple(draw(st.integers(0, s // 2)) for s in size)
        step = draw(st.none() | st.integers(1, 3))
        if kind == "max":
            if draw(st.booleans()):
                pads = (0,) * n
            return getattr(nn, f"MaxPool{n}d")(size, step, pads)
        return getattr(nn, f"AvgPool{n}d")(size, step, pads)
    groups = draw(st.sampled_from([g for g in (1, 1, 2, channels) if channels % g == 0]))
    outputs = groups * draw(st.integers(1, 9 if groups == 1 else 3))
    bias, dilation = draw(st.booleans()), each(st.integers(1, 2))
    pads = draw(st.just((0,) * n) | st.tuples(*[st.integers(0, 2)] * n))
    room = [(p + 2 * e - 1) // d + 1 for p, e, d in zip(places, pads, dilation, strict=True)]
    size = tuple(draw(st.integers(1, max(1, min(5, r)))) for r in room)
    if kind == "transposed":
        made = getattr(nn, f"ConvTranspose{n}d")
        return made(channels, outputs, each(st.integers(1, 3)), draw(st.integers(1, 2)), bias=bias)
    if kind == "skip":
        made = getattr(nn, f"Conv{n}d")(channels, channels, 3, padding=1, groups=groups)
        return Residual(made, draw(st.sampled_from([nn.ReLU, nn.Identity]))())
    if kind == "join":
        made = getattr(nn, f"Conv{n}d")(channels, outputs, 3, padding=1, groups=groups, bias=bias)
        return Joined(made, draw(st.sampled_from(["twice", "around", "part", "all"])))
    stride = each(st.integers(1, 2))
    made = getattr(nn, f"Conv{n}d")
    return made(channels, outputs, size, stride, pads, dilation, groups, bias)


@st.composite
def networks_of_layers(draw):
    """A network, and the shape of its slices."""
    n = draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 4)), *(draw(st.integers(3, [30, 9, 5][n - 1])) for _ in range(n)))
    torch.manual_seed(draw(st.integers(0, 99)))
    made, x = [], torch.zeros(2, *shape)
    for _ in range(draw(st.integers(1, 4))):
        layer = draw(layers(n, tuple(x.shape[1:])))
        try:
            after = layer(x)
        except RuntimeError:  # nothing is left
            continue
        if 0 in after.shape or after[0].numel() > 4000:
            continue
        made.append(layer)
        x = after
        if draw(st.booleans()):
            made.append(draw(st.sampled_from(ACTIVATIONS))())
        # torch refuses the norm of a single number
        if draw(st.integers(0, 3)) == 0 and n > 1 and x[0].numel() > 1:
            norms = [lambda c: getattr(nn, f"BatchNorm{n}d")(c), lambda c: nn.GroupNorm(1, c)]
            made.append(draw(st.sampled_from(norms))(x.shape[1]))
    end = draw(st.sampled_from(["linear", "linear", "flat", "as it is"]))
    if end != "as it is":
        made.append(nn.Flatten())
    if end == "linear":
        made.append(nn.Linear(x[0].numel(), draw(st.integers(1, 5))))
    return OfOne(nn.Sequential(*made)).eval().requires_grad_(False), shape


@st.composite
def arrays(draw, features, dtype):
    """Flat slices in some order of memory, and their axis."""
    ndim = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, [1, 70, 7][ndim - 1])) for _ in range(ndim)]
    axis = draw(st.integers(0, ndim - 1))
    shape[axis] = features
    order = draw(st.permutations(range(ndim)))
    x = np.empty([shape[a] for a in order], dtype).transpose(np.argsort(order))
    x[...] = np.random.default_rng(draw(st.integers(0, 9))).standard_normal(x.shape)
    return x, axis


def by_definition(graph, consts):
    """``call(windows, results)`` of a tile's graph, one array operation per node."""
    lowered = array_api.BACKEND.lower(graph)
    weights = lowered.bind(consts, np.empty(0, "f4"))

    def call(windows, results):
        with np.errstate(all="ignore"):
            lowered(windows, 1, weights, results)

    return call


@contextlib.contextmanager
def short_tiles():
    """Tiles of slices that are not large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_LENGTHS", {1: (8,), 2: (4,), 3: (2,)})
        patch.setattr(LIMITS, "tile_most", 1e9)
        yield


def by_torch(net, shape, x, axis, dtype="float64"):
    """Each slice's result, along the last axes."""
    slices = np.moveaxis(x, axis, -1)
    net = copy.deepcopy(net).to(getattr(torch, dtype))
    every = torch.tensor(slices.reshape(-1, *shape), dtype=getattr(torch, dtype))
    y = net[0](every).numpy()
    return y.reshape(*slices.shape[:-1], *y.shape[1:])


def lost_in_float32(net, shape, x, axis, want):
    """The largest error of torch's float32, also with weights that differ in their last bits.

    One run alone may be right by luck: a norm of equal numbers is 0, if their mean is exact.
    """
    rng, found = np.random.default_rng(0), []
    for k in range(4):
        near = copy.deepcopy(net)
        for p in near.parameters() if k else ():
            p.mul_(torch.from_numpy(1 + rng.uniform(-1, 1, p.shape).astype("f4") * 2.0**-23))
        found.append(by_torch(near, shape, x, axis, "float32").reshape(want.shape) - want)
    return np.abs(found).max(initial=0)
