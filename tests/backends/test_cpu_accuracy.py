"""Errors of kernels for CPUs: at most twice those of NumPy's calls, or torch's.

Of all results together, against the same in more bits: long double for float64.
"""

import functools
import itertools

import numpy as np
import pytest
from thresholds import always_plan

import xpapply

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(11)
FUNCTIONS = {
    "standardize": lambda v: (v - v.mean()) / v.std(),
    "softmax": lambda v: np.exp(v - v.max()) / np.exp(v - v.max()).sum(),
    "logsumexp": lambda v: np.log(np.exp(v - v.max()).sum()) + v.max(),
    "norm": lambda v: np.sqrt((v * v).sum()),
    "centred": lambda v: v - v.mean(),
    "entropy": lambda v: -(np.abs(v) * np.log(np.abs(v) + 1)).sum(),
    "waves": lambda v: np.sin(v) * np.exp(-np.abs(v)) + np.tanh(v),
    "angles": lambda v: np.arctan2(np.sin(v), np.cos(v) + 2),
    "chosen": lambda v: np.where(v > 0, np.log1p(np.abs(v)), np.expm1(v)),
    "positive": lambda v: v[v > 0].mean(),
    "deviation": lambda v: v[v > -1].std(),
    "powers": lambda v: np.abs(v) ** 1.5,
    "paths": lambda v: np.exp(v) if v.max() > 2 else np.sqrt(np.abs(v)),
}


def off(found, exact):
    """Root mean square of the relative errors of results, those of one size together."""
    finite = np.isfinite(exact.astype(float))
    scale = np.sqrt(np.mean(exact[finite] ** 2))
    return float(np.sqrt(np.mean(((found - exact)[finite] / scale) ** 2)))


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [5, 16, 1000])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_slices(name, length, dtype, monkeypatch):
    always_plan(monkeypatch)
    f = FUNCTIONS[name]
    x = (2 * RNG.normal(size=(300, length))).astype(dtype)
    x[:, 0] = np.abs(x[:, 0])
    exact = np.apply_along_axis(f, 1, x.astype(np.longdouble))
    numpys = off(np.apply_along_axis(f, 1, x), exact)
    for axis in (1, 0):
        given = x if axis else np.ascontiguousarray(x.T)
        with xpapply.options(engine="cpu"):
            got = xpapply.apply_along_axis(f, axis, given)
            got = xpapply.apply_along_axis(f, axis, given)  # by all of its paths
        mine = off(got if axis or got.ndim == 1 else got.T, exact)
        assert mine <= 2 * numpys + np.finfo(dtype).eps / 8, (mine, numpys)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ["ReLU", "Tanh", "GELU", "SiLU", "ELU", "Softplus"])
@pytest.mark.parametrize("widths", [(8, 16, 1), (13, 37, 21, 3), (16, 64, 64, 4)])
def test_networks(torch, widths, activation, dtype):
    torch.manual_seed(2)
    layers = []
    for a, b in itertools.pairwise(widths):
        layers += [torch.nn.Linear(a, b), getattr(torch.nn, activation)()]
    net = torch.nn.Sequential(*layers[:-1]).eval().to(getattr(torch, dtype))
    x = torch.randn(3000, widths[0], dtype=getattr(torch, dtype))
    with torch.no_grad():
        own = net(x).numpy()
        with xpapply.options(engine="cpu"):
            got = xpapply.apply_along_axis(net, 1, x).numpy()
    exact = functools.reduce(_in_more_bits, net, x.numpy().astype(np.longdouble))
    mine, torchs = off(got, exact), off(own, exact)
    assert mine <= 2 * torchs + np.finfo(dtype).eps / 8, (mine, torchs)


def _in_more_bits(x, layer):
    if hasattr(layer, "weight"):
        w, b = (p.detach().numpy().astype(np.longdouble) for p in (layer.weight, layer.bias))
        return x @ w.T + b
    return {
        "ReLU": lambda: np.maximum(x, 0),
        "Tanh": lambda: np.tanh(x),
        "GELU": lambda: _gelu(x),
        "SiLU": lambda: x / (1 + np.exp(-x)),
        "ELU": lambda: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "Softplus": lambda: np.logaddexp(x, np.longdouble(0)),
    }[type(layer).__name__]()


def _gelu(x):
    """By the series of erf, in long double."""
    z = x / np.sqrt(np.longdouble(2))
    term, total = z, z
    for n in range(1, 120):
        term = -term * z * z / n
        total = total + term / (2 * n + 1)
    return x * (1 + total * 2 / np.sqrt(np.pi * np.longdouble(1))) / 2
