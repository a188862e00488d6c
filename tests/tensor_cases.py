"""What the tests of the kernel on tensor cores have in common: networks, layouts, targets."""

import functools
import itertools

import numpy as np

import xpapply
from xpapply import frontends, testing
from xpapply.codegen import tensor_network
from xpapply.codegen.access import Access
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.rewrite import compact, fold

CORES = ("wgmma", "mma")

SHARED = 232_448
"""Bytes of shared memory that a block may have on an H200."""

ROWS, COLUMNS = Access(1, 0, True), Access(0, 1)


def graph_of(f, features, dtype="float32"):
    return compact(fold(frontends.find(f).lift(f, ShapeDtype((features,), dtype), (), {})))


def mlp(*widths, activation="relu", bias=1.0, seed=0, positive=False):
    """Weights that keep numbers at their size; ``bias=0``: no biases."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(widths))
    weights = [(rng.standard_normal((n, m)) * np.sqrt(2 / m)).astype("f") for m, n in pairs]
    biases = [(bias * rng.standard_normal(n)).astype("f") for _, n in pairs]
    if positive:
        weights, biases = [abs(w) for w in weights], [abs(b) for b in biases]
    return xpapply.MLP(weights, biases if bias else None, activation)


@functools.cache
def benchmarked(name):
    """Networks of the benchmark, with torch's own random weights."""
    import torch

    torch.manual_seed(0)
    sizes, activation = name.split()
    layers = []
    for m, n in itertools.pairwise(map(int, sizes.split("-"))):
        layers += [torch.nn.Linear(m, n), getattr(torch.nn, activation)()]
    return torch.nn.Sequential(*layers[:-1]).eval().requires_grad_(False)


def by_torch(torch, net, x):
    """torch's own float32 on the same device, without TF32."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        y = torch.from_numpy(x).cuda()
        for k, (w, b) in enumerate(zip(net.weights, net.biases, strict=True)):
            bias = None if b is None else torch.from_numpy(b.copy()).cuda()
            y = torch.nn.functional.linear(y, torch.from_numpy(w.copy()).cuda(), bias)
            if k < len(net.weights) - 1:
                y = y.tanh() if net.activations[k] == "tanh" else y.relu()
        return y.cpu().numpy()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def double(net):
    """The same network in float64."""
    weights = [w.astype(float) for w in net.weights]
    biases = [None if b is None else b.astype(float) for b in net.biases]
    return xpapply.MLP(weights, biases, net.activations[:-1], net.activations[-1])


def evaluate(net, x):
    """An `MLP` of ReLU or tanh layers on rows, in the dtype of `x`."""
    with np.errstate(all="ignore"):
        for k, (w, b) in enumerate(zip(net.weights, net.biases, strict=True)):
            x = x @ w.T.astype(x.dtype)
            x = x if b is None else x + b.astype(x.dtype)
            if k < len(net.weights) - 1:
                x = np.tanh(x) if net.activations[k] == "tanh" else np.maximum(x, 0)
    return x


def error(got, exact):
    """Relative, in the Euclidean norm."""
    return float(np.linalg.norm(got.astype(float) - exact) / np.linalg.norm(exact))


def target(core, precision="highest", shared=SHARED):
    return tensor_network.Target(core, precision, shared)


def kernel(net, features, core="mma", precision="highest", access=ROWS, dtype="float32"):
    graph = graph_of(net, features, dtype)
    return tensor_network.tensor_kernel(graph, access, target(core, precision)), graph


@functools.cache
def modules():
    """Networks of torch by name, with the number of features."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    skip, concatenation = testing.strategies._torch_modules()[:2]
    with torch.no_grad():
        made = {
            "softmax": (nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)), 16),
            "LayerNorm": (nn.Sequential(nn.Linear(9, 30), nn.LayerNorm(30), nn.GELU()), 9),
            "skip": (nn.Sequential(skip(nn.Sequential(nn.Linear(16, 16), nn.Tanh()))), 16),
            "concat": (nn.Sequential(concatenation(nn.Linear(13, 21)), nn.SiLU()), 13),
            "leaky relu": (nn.Sequential(nn.Linear(12, 24), nn.LeakyReLU(0.1)), 12),
            "GELU": (nn.Sequential(nn.Linear(13, 37), nn.GELU(), nn.Linear(37, 21)), 13),
            "sigmoid": (nn.Sequential(nn.Linear(8, 24, bias=False), nn.Sigmoid()), 8),
        }
        ends = {
            "softmax": (nn.Softmax(-1),),
            "LayerNorm": (nn.Linear(30, 3),),
            "skip": (nn.Linear(16, 4),),
            "concat": (nn.Linear(34, 3),),
            "leaky relu": (nn.Linear(24, 24, bias=False), nn.LeakyReLU(0.2), nn.Linear(24, 1)),
            "GELU": (nn.GELU(), nn.Linear(21, 3)),
            "sigmoid": (nn.Linear(24, 5), nn.LogSoftmax(-1)),
        }
        return {k: (nn.Sequential(*v, *ends[k]).eval(), m) for k, (v, m) in made.items()}


def network(name):
    """By widths ("16-32-1 tanh") or one of `modules`; with the number of features."""
    if not name[0].isdigit():
        return modules()[name]
    widths, _, activation = name.partition(" ")
    sizes = tuple(map(int, widths.split("-")))
    return mlp(*sizes, activation=activation or "relu"), sizes[0]


def bfloat16_net(*widths):
    import torch
    from torch import nn

    torch.manual_seed(1)
    layers = [x for m, n in itertools.pairwise(widths) for x in (nn.Linear(m, n), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).bfloat16()


SCALES = (1e-30, 1e-20, 1e-8, 1.0, 1e8, 1e20, 1e30)


def by_feature(net, scale):
    """Every second feature in another unit: the same network with other weights, and the units."""
    units = np.where(np.arange(net.weights[0].shape[1]) % 2, scale, 1.0)
    first = (net.weights[0] / units).astype("f")
    return xpapply.MLP([first, *net.weights[1:]], net.biases, net.activations[:-1]), units


UNITS = (1e-30, 1e-20, 1e-8, 1e-6, 1e-3, 1e3, 1e8, 1e20, 1e30)


def hidden_biases():
    """Large biases of features that ReLU sets to 0; the others have none."""
    net = mlp(16, 24, 24, 1, bias=0.0)
    first = np.r_[-1.0, np.zeros(23)].astype("f")
    return xpapply.MLP(net.weights, [first, first, None], "relu")


def assert_same_kind_of_numbers(got, want):
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got == np.inf, want == np.inf)
    np.testing.assert_array_equal(got == -np.inf, want == -np.inf)
