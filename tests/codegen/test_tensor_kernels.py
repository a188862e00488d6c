"""The kernel on tensor cores: its text, its packed weights, and on a GPU what it computes."""

import functools
import itertools
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensor_packing
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from conftest import Library
from xpapply import frontends, loop, testing
from xpapply.codegen import cost, tensor_network
from xpapply.codegen.access import Access
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.rewrite import compact, fold
from xpapply.layout import MemoryOrder

CORES = ("wgmma", "mma")
SHARED = 232_448
"""Bytes of shared memory that a block may have on an H200."""
H200 = cost.Device(132, 1.78e9, 4.3e12, "wgmma", SHARED)
ROWS, COLUMNS = Access(1, 0, True), Access(0, 1)
DENSE_ROWS, DENSE_COLUMNS = Access(1, 0, True, dense=True), Access(0, 1, dense=True)
GROUPED = Access(2, 1, False, grouped=True)
ALIGNED_COLUMNS = Access(0, 1, dense=True, aligned=True)
EVEN = Access(1, 1, grouped=True, even=True)
ALIGNED_EVEN = replace(EVEN, aligned=True)


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


# --- texts ----------------------------------------------------------------------------

nvrtc_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the NVRTC wheels are for Linux"
)


@functools.cache
def modules():
    """Networks of torch by name, with the number of features."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    skip, concatenation = testing._torch_modules()[:2]
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


WIDE_OFFSETS = Access(1, 1, wide=True, grouped=True)
TEXTS = [
    # every architecture and precision, with one network
    *(
        ("16-64-64-64-4", architecture, precision, "float32", access)
        for architecture in ("sm_80", "sm_90", "sm_90a", "sm_100")
        for precision, access in (("highest", ROWS), ("high", COLUMNS), ("medium", GROUPED))
    ),
    # every network and access
    ("8-16-1", "sm_90a", "highest", "float32", ROWS),
    ("8-16-1", "sm_80", "highest", "float32", WIDE_OFFSETS),
    ("16-32-32-1 tanh", "sm_90a", "highest", "float32", COLUMNS),
    ("16-32-32-1 tanh", "sm_100", "highest", "float32", ROWS),
    ("1-64-64-1", "sm_90a", "highest", "float32", ROWS),
    ("1-64-64-1", "sm_80", "medium", "float32", GROUPED),
    ("2-2-2", "sm_90a", "highest", "float32", ROWS),
    ("100-9", "sm_90a", "highest", "float32", WIDE_OFFSETS),
    ("softmax", "sm_90a", "highest", "float32", ROWS),
    ("softmax", "sm_80", "high", "float32", COLUMNS),
    ("LayerNorm", "sm_90a", "highest", "float32", GROUPED),
    ("LayerNorm", "sm_100", "highest", "float32", ROWS),
    ("skip", "sm_90a", "highest", "float32", ROWS),
    ("skip", "sm_80", "highest", "float32", WIDE_OFFSETS),
    ("concat", "sm_90a", "highest", "float32", ROWS),
    ("concat", "sm_90", "medium", "float32", COLUMNS),
    ("leaky relu", "sm_90a", "highest", "float32", GROUPED),
    ("leaky relu", "sm_80", "high", "float32", ROWS),
    ("GELU", "sm_90a", "highest", "float32", WIDE_OFFSETS),
    ("GELU", "sm_80", "highest", "float32", ROWS),
    ("sigmoid", "sm_90a", "highest", "float32", COLUMNS),
    ("sigmoid", "sm_100", "medium", "float32", ROWS),
    # slices without gaps
    ("8-16-1", "sm_90a", "highest", "float32", DENSE_ROWS),
    ("8-16-1", "sm_80", "highest", "float32", DENSE_COLUMNS),
    ("16-64-64-64-4", "sm_90a", "highest", "float32", DENSE_ROWS),
    ("13-37-21-3", "sm_90a", "highest", "float32", DENSE_COLUMNS),
    ("13-37-21-3", "sm_90", "highest", "uint8", DENSE_ROWS),
    *(
        (name, architecture, "highest", dtype, access)
        for (name, dtype), (architecture, access) in itertools.product(
            (("8-16-1", "float32"), ("13-37-21-3", "uint8"), ("3-24-4", "float64")),
            (("sm_90a", ALIGNED_COLUMNS), ("sm_80", EVEN), ("sm_90a", ALIGNED_EVEN)),
        )
    ),
    # layers that pass by in chunks, weights that stream
    ("7-200-5", "sm_90a", "highest", "float32", DENSE_ROWS),
    ("7-200-5", "sm_80", "medium", "float32", COLUMNS),
    ("32-128-128-8 tanh", "sm_90a", "highest", "float32", ROWS),
    ("256-256-256-10", "sm_90a", "high", "float32", DENSE_ROWS),
    ("256-256-256-10", "sm_90a", "medium", "float32", GROUPED),
    # every dtype of the input; rows read by fours, by twos, one by one, and as whole values
    *(
        (name, architecture, "high", dtype, access)
        for (name, architecture, access), dtype in itertools.product(
            (
                ("16-32-4", "sm_90a", ROWS),
                ("10-24-4", "sm_80", ROWS),
                ("9-24-4", "sm_80", COLUMNS),
                ("3-24-4", "sm_80", ROWS),
            ),
            ("float16", "uint8", "int64", "float64", "bool"),
        )
    ),
]


@nvrtc_only
@pytest.mark.parametrize(
    ("name", "architecture", "precision", "dtype", "access"),
    [pytest.param(*t, id="-".join(t[:4]) + f"-{TEXTS.index(t)}") for t in TEXTS],
)
def test_nvrtc_compiles(cupy, torch, name, architecture, precision, dtype, access):
    import nvrtc

    net, features = network(name)
    core = "wgmma" if architecture == "sm_90a" else "mma"
    text, _ = kernel(net, features, core, precision, access, dtype)
    assert len(nvrtc.compile_plain(text.source, architecture)) > 1000


def bfloat16_net(*widths):
    import torch
    from torch import nn

    torch.manual_seed(1)
    layers = [x for m, n in itertools.pairwise(widths) for x in (nn.Linear(m, n), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).bfloat16()


@nvrtc_only
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("architecture", "core"), [("sm_90a", "wgmma"), ("sm_80", "mma")])
@pytest.mark.parametrize("access", [ROWS, COLUMNS, DENSE_ROWS, ALIGNED_EVEN, ALIGNED_COLUMNS])
def test_nvrtc_compiles_bfloat16(cupy, torch, access, architecture, core, dtype):
    """Inputs and results of tensors in bfloat16, which CuPy does not have."""
    import nvrtc

    for widths in ((16, 64, 4), (10, 24, 3), (3, 24, 2), (2, 1)):
        graph = graph_of(bfloat16_net(*widths), widths[0], dtype)
        assert graph.result.dtype == "bfloat16"
        text = tensor_network.tensor_kernel(graph, access, target(core, "medium"))
        kind = {"bfloat16": "bfloat16", "float32": "float"}[dtype]
        assert f"typedef {kind} IN;" in text.source
        assert "typedef bfloat16 OUT;" in text.source
        assert len(nvrtc.compile_plain(text.source, architecture)) > 1000


@nvrtc_only
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64", "int64", "bfloat16"])
def test_no_vector_is_wider_than_what_rows_are_aligned_to(cupy, dtype):
    """16 bytes; from sm_100 on there are loads of 32."""
    from cupy.cuda import nvrtc

    text, _ = kernel(mlp(16, 32, 4), 16, "mma", "high", ROWS, dtype)
    program = nvrtc.createProgram(text.source, "kernel.cu", (), ())
    nvrtc.compileProgram(program, ("-arch=compute_100", "--std=c++17"))
    loads = set(re.findall(rb"ld\.global\S*\.v(\d)\.[a-z](\d+)", nvrtc.getPTX(program)))
    assert loads
    assert max(int(n) * int(bits) for n, bits in loads) <= 128


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_texts_do_not_depend_on_weights(core, precision):
    """Two models of one architecture share a kernel; the packed bytes differ, not their number."""
    one, two = (mlp(16, 40, 40, 3, seed=seed, bias=10.0**seed) for seed in (0, 5))
    (a, graph), (b, other) = (kernel(net, 16, core, precision) for net in (one, two))
    assert graph == other
    assert a.source == b.source
    packed = [text.pack(g.consts) for text in (a, b) for g in (graph, other)]
    assert len({p.size for p in packed}) == 1
    assert not np.array_equal(packed[0], packed[1])
    np.testing.assert_array_equal(packed[0], packed[2])
    np.testing.assert_array_equal(packed[1], packed[3])


@pytest.mark.parametrize(
    ("access", "other"), [(ROWS, COLUMNS), (COLUMNS, GROUPED), (ROWS, WIDE_OFFSETS)]
)
def test_what_is_packed_alike_says_so(access, other):
    """Weights are kept by the kernel's `packing`: the same must mean the same bytes."""
    for name in ("16-32-4", "13-37-21-3", "3-20-20-4", "8-16-1"):
        net, features = network(name)
        for core in CORES:
            one, graph = kernel(net, features, core, access=access)
            two, _ = kernel(net, features, core, access=other)
            same = np.array_equal(one.pack(graph.consts), two.pack(graph.consts))
            assert same or one.packing != two.packing


@pytest.mark.parametrize("core", CORES)
def test_refusals_say_why(torch, core):
    from torch import nn

    def refusal(f, features, shared=SHARED):
        return tensor_network.why_not(graph_of(f, features), target(core, "highest", shared))

    assert refusal(mlp(16, 64, 64, 64, 4), 16) is None
    assert "shared memory" in refusal(mlp(16, 64, 64, 64, 4), 16, 1 << 10)
    assert "registers" in refusal(mlp(16, 1000, 1000, 4), 16)
    assert "registers" in refusal(mlp(3000, 16, 1), 3000)
    assert "float64" in refusal(double(mlp(16, 32, 4)), 16)
    assert refusal(nn.Linear(16, 8).bfloat16(), 16) is None
    assert "product" in refusal(nn.Softmax(-1), 16)
    concatenation = testing._torch_modules()[1]
    assert "joining" in refusal(nn.Sequential(concatenation(nn.Linear(2, 9)), nn.Linear(11, 4)), 2)
    for name in ("softmax", "LayerNorm", "skip", "concat", "leaky relu", "GELU", "sigmoid"):
        net, features = network(name)
        assert refusal(net, features) is None


@pytest.mark.parametrize("core", CORES)
def test_axes_that_change_places_are_refused(torch, core):
    """The kernel has no numbers that move; axes of length 1 move none."""
    from torch import nn

    class Turned(nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.shape = (rows, 32 // rows)
            self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 4)

        def forward(self, x):
            y = torch.relu(self.first(x))
            batch = y.shape[:-1]
            y = y.reshape(*batch, *self.shape).transpose(-1, -2)
            return self.last(y.reshape(*batch, 32))

    for rows, refused in ((4, True), (1, False), (32, False)):
        graph = graph_of(Turned(rows).eval(), 16)
        reason = tensor_network.why_not(graph, target(core))
        assert (reason is not None and "permute_dims" in reason) == refused


# --- packed weights -------------------------------------------------------------------


def one_product(w, core, precision="highest", access=COLUMNS):
    """The product of a single layer, and where its input's features lie."""
    net = xpapply.MLP([np.asarray(w, "f")])
    text, graph = kernel(net, w.shape[1], core, precision, access)
    (found,) = tensor_packing.products(text, graph.consts)
    return found, tensor_packing.features(text, w.shape[1])


def powers_of_two(x):
    return np.all(np.frexp(np.abs(x[x != 0]))[0] == 0.5)


def matrices():
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((37, 29))
    sizes = np.float64(10) ** rng.uniform(-20, 20, 37)
    moderate = np.float64(2) ** rng.integers(-14, 9, 29)
    holes = plain.copy()
    holes[[3, 17, 36]], holes[:, [0, 11, 28]] = 0, 0
    sparse = np.where(rng.random((24, 16)) < 0.9, 0, rng.standard_normal((24, 16)))
    return {
        "plain": plain,
        "rows of all sizes": plain * sizes[:, None],
        "columns of many sizes": plain * moderate,
        "zero rows and columns": holes,
        "sparse": sparse,
        "zero": np.zeros((9, 16)),
        "small": plain[:3, :5],
        "large": rng.standard_normal((128, 128)) / 10,
        "tiny": plain * 1e-30,
        "huge": plain * 1e30,
        "one": np.full((3, 7), 1.0),
    }


@pytest.mark.parametrize("access", [COLUMNS, ROWS])
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", list(matrices()))
def test_packed_weights(name, core, access):
    """hi + lo times the scales is W, to 2**-21 of the largest factor of its row."""
    w = matrices()[name].astype("f").astype(float)
    p, slots = one_product(w, core, access=access)
    rows, used = np.arange(len(p.hi)) < len(w), np.flatnonzero(slots >= 0)
    assert sorted(slots[used]) == list(range(w.shape[1]))
    padding = np.ones(p.hi.shape[1], bool)
    padding[used] = False
    for factor in (p.hi, p.lo):
        assert np.isfinite(factor).all()
        assert not factor[~rows].any()
        assert not factor[:, padding].any()
    assert not p.scale[~rows].any()
    assert not p.bias.any()
    scale = p.scale
    assert powers_of_two(scale)
    assert powers_of_two(p.inputs)
    assert (scale[rows] > 0).all()
    assert (p.inputs[used] > 0).all()
    largest = np.abs(p.hi[rows]).max(1)
    assert ((largest == 0) | (largest >= 4)).all()  # what `lo` needs
    packed = (p.hi + p.lo)[np.ix_(rows, used)]
    wanted = np.zeros((len(w), len(used)))
    wanted[:] = w[:, slots[used]] / p.inputs[used] / scale[rows][:, None]
    assert np.all(np.abs(packed - wanted) <= 2.0**-21 * np.abs(wanted).max(1, keepdims=True))
    assert not (packed[wanted == 0]).any()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("precision", "bits"), [("high", 11), ("medium", 8)])
@pytest.mark.parametrize("name", ["plain", "rows of all sizes", "columns of many sizes", "small"])
def test_packed_weights_of_fewer_bits(name, core, precision, bits):
    w = matrices()[name].astype("f").astype(float)
    p, slots = one_product(w, core, precision)
    assert p.lo is None
    used = np.flatnonzero(slots >= 0)
    got = p.hi[: len(w), used]
    if precision == "high":
        got = got * p.inputs[used] * p.scale[: len(w)][:, None]
    wanted = w[:, slots[used]]
    # what float16 flushes is small beside the largest of the row, after its column's scale
    inputs = np.ones(len(used)) if p.inputs is None else p.inputs[used]
    least = 2.0**-24 * np.abs(wanted / inputs).max(1, keepdims=True) * inputs
    assert np.all(np.abs(got - wanted) <= 2.0**-bits * np.abs(wanted) + least)


@pytest.mark.parametrize("core", CORES)
def test_scales_of_features_are_folded(core):
    """Results of a layer leave it scaled for the next one where that changes nothing else."""
    for activation, folds in (("relu", True), ("tanh", False)):
        net = mlp(16, 24, 24, 5, activation=activation)
        text, graph = kernel(net, 16, core)
        found = tensor_packing.products(text, graph.consts)
        assert [p.inputs is None for p in found] == [False, folds, folds]
        assert all(powers_of_two(p.scale) for p in found)
        ratios = [p.bias[: len(b)] / b for p, b in zip(found, net.biases, strict=True)]
        assert all(powers_of_two(r) for r in ratios)
        assert np.all(ratios[-1] == 1)


def test_every_model_state_has_its_own_scales():
    """Scales are in the packed bytes alone, so weights of any size share a text."""
    one, two = mlp(16, 24, 5), mlp(16, 24, 5)
    two = xpapply.MLP([1e10 * w for w in two.weights], two.biases)
    (a, graph), (b, other) = kernel(one, 16), kernel(two, 16)
    assert a.source == b.source
    x = np.random.default_rng(0).standard_normal((50, 16)).astype("f")
    for net, g in ((one, graph), (two, other)):
        exact = evaluate(double(net), x.astype(float))
        assert error(tensor_packing.run(a, g.consts, net, x), exact) < 3e-7


# --- what the kernel computes, in NumPy -----------------------------------------------

EMULATED = ["8-16-1", "16-32-32-4", "13-37-21-3", "3-20-20-4", "16-64-64-64-4", "1-64-64-1", "40-3"]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("access", [ROWS, COLUMNS])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", EMULATED)
def test_emulated(name, activation, core, access):
    """Packing, scaling and folding give the network, as accurately as float32 does."""
    net, features = network(f"{name} {activation}")
    text, graph = kernel(net, features, core, access=access)
    x = np.random.default_rng(1).standard_normal((200, features)).astype("f")
    exact = evaluate(double(net), x.astype(float))
    got = tensor_packing.run(text, graph.consts, net, x)
    assert error(got, exact) < 2 * error(evaluate(net, x), exact) + 1e-8


SCALES = (1e-30, 1e-20, 1e-8, 1.0, 1e8, 1e20, 1e30)


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("scale", [*SCALES, 1e34])
def test_emulated_scales(scale, bias):
    net = mlp(16, 32, 32, 4, bias=bias)
    text, graph = kernel(net, 16, "wgmma")
    x = (scale * np.random.default_rng(2).standard_normal((200, 16))).astype("f")
    exact = evaluate(double(net), x.astype(float))
    got = tensor_packing.run(text, graph.consts, net, x)
    assert error(got, exact) < 2 * error(evaluate(net, x), exact) + 1e-7


def by_feature(net, scale):
    """Every second feature in another unit: the same network with other weights, and the units."""
    units = np.where(np.arange(net.weights[0].shape[1]) % 2, scale, 1.0)
    first = (net.weights[0] / units).astype("f")
    return xpapply.MLP([first, *net.weights[1:]], net.biases, net.activations[:-1]), units


UNITS = (1e-30, 1e-20, 1e-8, 1e-6, 1e-3, 1e3, 1e8, 1e20, 1e30)


@pytest.mark.parametrize("scale", UNITS)
def test_emulated_units_of_features(scale):
    net, units = by_feature(mlp(16, 32, 32, 4), scale)
    text, graph = kernel(net, 16, "wgmma")
    x = (units * np.random.default_rng(3).standard_normal((200, 16))).astype("f")
    exact = evaluate(double(net), x.astype(float))
    got = tensor_packing.run(text, graph.consts, net, x)
    assert error(got, exact) < 2 * error(evaluate(net, x), exact) + 1e-7


def hidden_biases():
    """Large biases of features that ReLU sets to 0; the others have none."""
    net = mlp(16, 24, 24, 1, bias=0.0)
    first = np.r_[-1.0, np.zeros(23)].astype("f")
    return xpapply.MLP(net.weights, [first, first, None], "relu")


@pytest.mark.parametrize("scale", [1e-6, 1e-12])
def test_emulated_small_numbers_beside_large_biases(scale):
    net = hidden_biases()
    text, graph = kernel(net, 16)
    x = (scale * np.random.default_rng(4).standard_normal((200, 16))).astype("f")
    exact = evaluate(double(net), x.astype(float))
    assert error(tensor_packing.run(text, graph.consts, net, x), exact) < 1e-6


INFINITE = ["16-32-32-4", "16-64-64-64-4", "1-64-64-1", "13-37-21-3", "16-13-2", "3-13-4"]


@pytest.mark.parametrize("name", INFINITE)
def test_emulated_special_values(name):
    """NaN and infinities come out where float32 has them; other slices do not notice."""
    widths = tuple(map(int, name.split("-")))
    for activation, positive, bias in itertools.product(
        ("relu", "tanh"), (False, True), (0.0, 1.0)
    ):
        net = mlp(*widths, activation=activation, positive=positive, bias=bias)
        text, graph = kernel(net, widths[0])
        x = np.random.default_rng(5).standard_normal((40, widths[0])).astype("f")
        x[3, 0], x[9, -1], x[20, 0], x[21, :] = np.nan, np.inf, -np.inf, np.inf
        got = tensor_packing.run(text, graph.consts, net, x)
        assert_same_kind_of_numbers(got, evaluate(net, x))
        fine = np.isfinite(x).all(1)
        exact = evaluate(double(net), x[fine].astype(float))
        assert error(got[fine], exact) < 5e-7


def assert_same_kind_of_numbers(got, want):
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got == np.inf, want == np.inf)
    np.testing.assert_array_equal(got == -np.inf, want == -np.inf)


# --- costs ----------------------------------------------------------------------------

COSTED = [
    *("8-16-1", "16-64-64-64-4", "32-128-128-8", "5-100", "300-1", "256-256-256-10", "40-300-60")
]


def estimate(monkeypatch, net, features, slices, dtype="float32", precision="highest"):
    """What `explain` would say of an array on an H200."""
    backend = pytest.importorskip("xpapply.backends.cupy")
    monkeypatch.setattr(backend.module, "device", lambda number: H200)
    with xpapply.options(precision=precision):
        lowered = backend.CuPyLowered(graph_of(net, features, dtype))
    return lowered.estimate(SimpleNamespace(size=features * slices, device=SimpleNamespace(id=0)))


@pytest.mark.parametrize(("dtype", "word"), [("float16", "float16"), ("bfloat16", "bfloat16")])
def test_fewer_bits_only_where_the_weights_have_no_more(monkeypatch, torch, dtype, word):
    """A result that is rounded at the end says nothing about the weights."""
    backend = pytest.importorskip("xpapply.backends.cupy")
    monkeypatch.setattr(backend.module, "device", lambda number: H200)
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    graph = graph_of(net.to(getattr(torch, dtype)), 16)
    lowered = backend.CuPyLowered(graph)
    array = SimpleNamespace(size=16 << 20, device=SimpleNamespace(id=0))
    assert f"({word})" in lowered.estimate(array, graph.consts).kernels[0]
    finer = tuple(c * np.float32(1.0001) for c in graph.consts)
    assert "split" in lowered.estimate(array, finer).kernels[0]


def test_bfloat16_of_tensors_is_for_the_kernel_on_tensor_cores(monkeypatch, torch):
    """What else there is in CuPy takes typed arrays: elsewhere torch itself runs it."""
    backend = pytest.importorskip("xpapply.backends.cupy")
    monkeypatch.setattr(backend.module, "device", lambda number: H200)
    array = SimpleNamespace(size=16 << 20, device=SimpleNamespace(id=0), dtype=np.dtype("u2"))
    array.strides, array.itemsize = (32, 2), 2
    graph = graph_of(bfloat16_net(16, 64, 4), 16, "bfloat16")
    assert backend.BACKEND.on_borrowed().why_not(graph, array) is None
    lowered = backend.CuPyLowered(graph, borrowed=True)
    found = lowered.estimate(array, graph.consts)
    assert found.kernels == ("one kernel on tensor cores for all layers (bfloat16)",)
    assert found.refused == ()
    # on CuPy's own arrays the result is float32, and everything else is there too
    half = graph_of(bfloat16_net(16, 64, 4), 16)
    own = backend.CuPyLowered(half)
    assert own.graph.result.dtype == "float32"
    assert len(own._all_ways(0, 1 << 20, "medium")) > 1
    assert "registers" in backend.BACKEND.on_borrowed().why_not(
        graph_of(bfloat16_net(16, 1000, 1000, 4), 16, "bfloat16"), array
    )
    net = bfloat16_net(16, 64, 4)
    with torch.no_grad():
        net[0].weight[0, 0] = torch.inf
    assert "finite" in backend.BACKEND.on_borrowed().why_not(graph_of(net, 16, "bfloat16"), array)
    monkeypatch.setattr(backend.module, "device", lambda number: replace(H200, core=""))
    assert "compute capability" in backend.BACKEND.on_borrowed().why_not(graph, array)


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


# --- on a GPU -------------------------------------------------------------------------


@pytest.fixture(params=CORES)
def core(request, cupy):
    capability = int(cupy.cuda.Device().compute_capability)
    if capability < 80 or (request.param == "wgmma" and capability != 90):
        pytest.skip(f"compute capability {capability} has no {request.param}")
    return request.param


MARGIN = 64
"""Numbers around the output that must stay as they are."""


def through(cupy, runner, graph, x, axis):
    """What `apply_along_axis` does with the kernel, into an output that holds NaN."""
    from xpapply.backends.cupy import runs

    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    shape = (*before, *graph.result.shape, *behind)
    memory = cupy.full(int(np.prod(shape)) + 2 * MARGIN, 77, graph.result.dtype)
    out = memory[MARGIN:-MARGIN].reshape(shape)
    out[...] = np.nan
    slices = x.size // x.shape[axis]
    runner(x.transpose(order.axes), order.at, slices, runs.Weights(graph.consts), out)
    assert bool((memory[:MARGIN] == 77).all())
    assert bool((memory[-MARGIN:] == 77).all())
    return out.transpose(order.result_axes(len(graph.result.shape))).get()


def tensor_run(graph, core, precision="highest"):
    from xpapply.backends.cupy import runs

    return runs.Tensor(graph, target(core, precision))


def rows_through(cupy, net, x, core, precision="highest"):
    """An `MLP` on rows in host memory."""
    graph = graph_of(net, x.shape[1], x.dtype.name)
    return through(cupy, tensor_run(graph, core, precision), graph, cupy.asarray(x), 1)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("exponents", "width"), [((-2, 2), 40), ((-8, 8), 40), ((-2, 2), 250)], ids=str
)
def test_random_networks(cupy, torch, core, exponents, width):
    """Any network on any array gives what the loop gives, within its rounding errors."""

    @settings(max_examples=20 if width == 40 else 8)
    @given(data=st.data())
    def same(data):
        features = data.draw(st.integers(1, 33), label="features")
        depth = 3 if width == 40 else 2
        networks = testing.networks(features, max_depth=depth, max_width=width)
        net = data.draw(networks, label="net")
        ndim = data.draw(st.integers(1, 4), label="ndim")
        axis = data.draw(testing.axes(ndim), label="axis")
        how = {"special": exponents == (-2, 2), "exponents": exponents}
        array = testing.arrays(features, axis, ndim=ndim, max_side=5, **how)
        arr = data.draw(array, label="arr")
        graph = graph_of(net, features, arr.dtype.name)
        if tensor_network.why_not(graph, target(core, "highest")) is not None:
            return
        there = Library("cupy", "").array(arr)
        got = through(cupy, tensor_run(graph, core), graph, there, axis % ndim)
        assert_like_the_loop(net, axis % ndim, arr, got)

    same()


def assert_like_the_loop(net, axis, arr, got):
    with np.errstate(all="ignore"):
        seen = loop.apply(frontends.find(net).slice_function(net), axis, arr, (), {})
        exact = testing._exact(net, axis, arr, (), {})
        allowed, unordered = testing._allowed(net, axis, arr, (), {})
    allowed = testing._in_place(allowed, axis, arr.shape)
    unordered = testing._in_place(unordered, axis, arr.shape)
    assert got.shape == seen.shape
    assert got.dtype == seen.dtype
    testing._compare(got, exact, testing.SAFETY * allowed, unordered, seen)


SLICES = (1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 41_003)
SHAPES = [
    *("8-16-1", "16-64-64-64-4", "13-37-21-3", "3-20-20-4", "1-64-64-1 tanh", "16-32-32-10"),
    *("7-200-5", "32-128-128-8", "256-256-256-10", "40-150-60", "256-1"),
]


@pytest.mark.gpu
@pytest.mark.parametrize("name", SHAPES)
def test_every_result_is_written(cupy, core, name):
    """Tails that fill no tile, along the last and the first axis; nothing beside the output."""
    net, features = network(name)
    graph = graph_of(net, features)
    runner = tensor_run(graph, core)
    x = np.random.default_rng(1).standard_normal((SLICES[-1], features)).astype("f")
    want = evaluate(double(net), x.astype(float))
    for slices in SLICES:
        few, atol = x[:slices], 2e-6 * np.abs(want).max()
        got = through(cupy, runner, graph, cupy.asarray(few), 1)
        np.testing.assert_allclose(got, want[:slices], rtol=0, atol=atol)
        columns = cupy.asarray(np.ascontiguousarray(few.T))
        got = through(cupy, runner, graph, columns, 0)
        np.testing.assert_allclose(got.T, want[:slices], rtol=0, atol=atol)


@pytest.mark.gpu
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("name", ["16-32-32-3", "10-24-4", "3-24-24-1"])
def test_layouts(cupy, core, name, wide, monkeypatch):
    """Vectors, steps, addresses of any alignment, axes in the middle; 64-bit offsets too."""
    from xpapply.backends.cupy import runs

    if wide:

        def geometry(*args):
            access, numbers = runs_geometry(*args)
            return replace(access, wide=True), numbers

        runs_geometry = runs.geometry
        monkeypatch.setattr(runs, "geometry", geometry)
    net, m = network(name)
    graph = graph_of(net, m)
    runner = tensor_run(graph, core)
    rng = np.random.default_rng(2)
    flat = cupy.asarray(rng.standard_normal(200 * m * 12 + 8).astype("f"))
    table = flat[: 200 * m].reshape(200, m)
    arrays = [
        (table, 1),
        (table[::-1], 1),
        (table[::3], 1),
        (table[:, ::-1], 1),
        (flat[1 : 1 + 200 * m].reshape(200, m), 1),
        (flat[2 : 2 + 200 * m].reshape(200, m), 1),
        (flat[: 400 * m].reshape(200, 2 * m)[:, ::2], 1),
        (flat[: 200 * (m + 4)].reshape(200, m + 4)[:, 4:], 1),
        (flat[: 200 * (m + 3)].reshape(200, m + 3)[:, 1:-2], 1),
        (flat[: 210 * m].reshape(7, m, 30), 1),
        (flat[: 210 * m].reshape(m, 7, 30)[:, ::2, 1:], 0),
        (flat[: 1200 * m].reshape(5, 8, m, 3, 10)[:, ::2, :, :, ::3], 2),
        (flat[: 1200 * m].reshape(5, 8, 30, m)[::2, 1:, ::-2], 3),
        (flat[: 200 * m].reshape(m, 200), 0),
        (flat[1 : 1 + 200 * m].reshape(m, 200), 0),
        (flat[: 199 * m].reshape(m, 199), 0),
        (flat[: 2048 * m].reshape(2, m, 1024), 1),
        (flat[: 2304 * m].reshape(3, m, 768), 1),
        (flat[3 : 3 + 2304 * m].reshape(3, m, 768), 1),
        (flat[: 2048 * m].reshape(4, 2 * m, 256)[:, ::2], 1),
        (flat[: 4 * m * 260].reshape(4, m, 260)[:, :, 4:], 1),
        (flat[: 4 * m * 258].reshape(4, m, 258)[:, :, 1:-1], 1),
        (flat[: 2304 * m].reshape(3, m, 3, 256)[:, :, ::2], 1),
        (cupy.broadcast_to(flat[: 512 * m].reshape(1, m, 512), (3, m, 512)), 1),
        (cupy.broadcast_to(table[:1], (100, m)), 1),
        (cupy.broadcast_to(table[:, :1], (200, m)), 1),
    ]
    for array, axis in arrays:
        got = through(cupy, runner, graph, array, axis)
        host = np.moveaxis(array.get().astype(float), axis, -1)
        want = np.moveaxis(evaluate(double(net), host), -1, axis)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "uint8", "int64", "float64", "bool"])
def test_dtypes(cupy, core, dtype):
    rng = np.random.default_rng(3)
    for name in ("16-32-4", "9-24-4", "3-24-4"):
        net, m = network(name)
        graph = graph_of(net, m, dtype)
        x = rng.standard_normal((333, m)) if dtype[0] == "f" else rng.integers(0, 100, (333, m))
        x = x.astype(dtype)
        runner = tensor_run(graph, core)
        want = evaluate(double(net), x.astype("f").astype(float))
        for array, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            got = through(cupy, runner, graph, cupy.asarray(array), axis)
            got = got if axis else got.T
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


# --- accuracy -------------------------------------------------------------------------


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


def assert_accurate(cupy, torch, core, net, x, groups):
    """For each group of slices alike: at most twice the error of torch's float32."""
    got, theirs = rows_through(cupy, net, x, core), by_torch(torch, net, x)
    exact = evaluate(double(net), x.astype(float))
    errors = {}
    for group in np.unique(groups):
        some = groups == group
        ours, allowed = error(got[some], exact[some]), error(theirs[some], exact[some])
        errors[float(group)] = (ours, 2 * allowed + 1e-7)
    # NaN is no error that is small enough
    assert all(ours <= allowed for ours, allowed in errors.values()), errors


@pytest.mark.gpu
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_scales(cupy, torch, core, activation, bias, scale):
    net = mlp(16, 32, 32, 4, activation=activation, bias=bias)
    x = (scale * np.random.default_rng(2).standard_normal((5000, 16))).astype("f")
    assert_accurate(cupy, torch, core, net, x, np.zeros(5000))


@pytest.mark.gpu
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", ["16-32-32-4", "7-200-5", "32-256-256-8"])
def test_scales_of_slices(cupy, torch, core, name, activation, bias):
    """Slices of all scales in one tile: each keeps its own accuracy."""
    widths = tuple(map(int, name.split("-")))
    net = mlp(*widths, activation=activation, bias=bias)
    rng = np.random.default_rng(6)
    scales = rng.choice(np.array(SCALES), 20_000)
    x = (scales[:, None] * rng.standard_normal((20_000, widths[0]))).astype("f")
    assert_accurate(cupy, torch, core, net, x, scales)


@pytest.mark.gpu
@pytest.mark.parametrize("scale", UNITS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_units_of_features(cupy, torch, core, activation, scale):
    net, units = by_feature(mlp(16, 32, 32, 4, activation=activation), scale)
    x = (units * np.random.default_rng(3).standard_normal((5000, 16))).astype("f")
    assert_accurate(cupy, torch, core, net, x, np.zeros(5000))


@pytest.mark.gpu
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-12])
def test_small_numbers_beside_large_biases(cupy, torch, core, scale):
    x = (scale * np.random.default_rng(4).standard_normal((5000, 16))).astype("f")
    assert_accurate(cupy, torch, core, hidden_biases(), x, np.zeros(5000))


SPECIAL = [
    *("16-32-32-4", "16-64-64-64-4", "1-64-64-1", "24-256-256-8"),
    *("13-37-21-3", "7-200-5", "3-13-4"),  # with places that have no feature
]


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("positive", [False, True], ids=["any", "positive"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(cupy, torch, core, name, positive, bias, activation):
    """NaN and infinities as torch has them; their neighbours in the tile stay accurate."""
    widths = tuple(map(int, name.split("-")))
    net = mlp(*widths, activation=activation, bias=bias, positive=positive)
    rng = np.random.default_rng(7)
    x = rng.standard_normal((3000, widths[0])).astype("f")
    odd = rng.random(3000) < 0.05
    where = rng.integers(0, widths[0], 3000)
    values = np.array([np.nan, np.inf, -np.inf], "f")
    x[odd, where[odd]] = rng.choice(values, int(odd.sum()))
    x[100:103] = values[:, None]
    x[200, ::2], x[200, 1::2] = np.inf, -np.inf
    x[300] = -0.0
    got = rows_through(cupy, net, x, core)
    fine = np.isfinite(x).all(1)
    exact = evaluate(double(net), x[fine].astype(float))
    theirs = by_torch(torch, net, x)
    allowed = 2 * error(theirs[fine], exact) + 1e-7
    if positive:  # tensor cores cut off bits, which adds up where all terms have one sign
        allowed += 2.0**-23 * sum(0.03 * min(n, 128) for n in widths[:-1])
    assert error(got[fine], exact) <= allowed
    assert_same_kind_of_numbers(got, theirs)


BENCHMARKED = [
    *("8-16-1 ReLU", "16-32-32-1 Tanh", "16-64-64-64-4 ReLU", "32-128-128-8 Tanh"),
    *("13-37-21-3 GELU", "1-64-64-1 Tanh", "7-200-5 SiLU", "256-256-256-10 ReLU"),
]


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


@pytest.mark.gpu
@pytest.mark.parametrize("name", BENCHMARKED)
def test_precisions(cupy, torch, core, name):
    net = benchmarked(name)
    m = net[0].in_features
    graph = graph_of(net, m)
    if tensor_network.why_not(graph, target(core, "highest")) is not None:
        pytest.skip("too wide for this kernel")
    x = np.random.default_rng(8).standard_normal((200_000, m)).astype("f")
    import copy

    there = torch.from_numpy(x).cuda()
    exact = copy.deepcopy(net).double().cuda()(there.double()).cpu().numpy()
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    theirs = copy.deepcopy(net).cuda()(there).cpu().numpy()
    torch.backends.cuda.matmul.allow_tf32 = allowed
    errors = {}
    for precision in ("highest", "high", "medium"):
        runner = tensor_run(graph, core, precision)
        got = through(cupy, runner, graph, cupy.asarray(x), 1)
        errors[precision] = error(got, exact)
    assert errors["highest"] <= 2 * error(theirs, exact) + 1e-8, errors
    assert errors["high"] < 3e-3, errors
    assert errors["medium"] < 3e-2, errors
    if m > 4:  # something is rounded
        assert errors["highest"] < errors["high"] < errors["medium"]


# --- calls ----------------------------------------------------------------------------


def on_tensor_cores(plan):
    return "tensor cores" in "; ".join(plan.kernels)


@pytest.fixture
def needs_tensor_cores(cupy):
    if int(cupy.cuda.Device().compute_capability) < 80:
        pytest.skip("a device without these tensor cores")


MANY = 400_000
"""Slices enough for the kernel to be chosen."""


@pytest.mark.gpu
def test_precision_is_an_option(cupy, needs_tensor_cores):
    net = mlp(16, 64, 64, 64, 4)
    x = cupy.asarray(np.random.default_rng(9).standard_normal((MANY, 16)).astype("f"))
    results, plans = [], []
    for precision in ("highest", "high", "medium", "highest"):
        with xpapply.options(precision=precision):
            plan = xpapply.explain(net, 1, x)
            assert on_tensor_cores(plan)
            plans.append(str(plan))
            results.append(xpapply.apply_along_axis(net, 1, x).get())
    for word, plan in zip(("split", "(float16)", "(bfloat16)", "split"), plans, strict=True):
        assert word in plan
    exact = evaluate(double(net), x.get().astype(float))
    errors = [error(r, exact) for r in results]
    assert errors[0] < 5e-7
    assert errors[0] < errors[1] < 3e-3
    assert errors[1] < errors[2] < 3e-2
    np.testing.assert_array_equal(results[0], results[3])


@pytest.mark.gpu
def test_weights_that_change_in_place(cupy, torch, needs_tensor_cores):
    """They are used by the next call, and nothing is compiled for it."""
    from xpapply.backends.cupy import module, runs

    net = benchmarked("16-64-64-64-4 ReLU")
    x = np.random.default_rng(10).standard_normal((MANY, 16)).astype("f")
    array = cupy.asarray(x)
    assert on_tensor_cores(xpapply.explain(net, 1, array))
    first = xpapply.apply_along_axis(net, 1, array).get()
    compiled = module.function.cache_info().misses
    texts = runs._tensor_kernel.cache_info().misses
    saved = {k: v.clone() for k, v in net.state_dict().items()}
    try:
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(-1.5)
        second = xpapply.apply_along_axis(net, 1, array).get()
        exact = testing._double(net)(torch.from_numpy(x).double()).numpy()
    finally:
        net.load_state_dict(saved)
    third = xpapply.apply_along_axis(net, 1, array).get()
    assert module.function.cache_info().misses == compiled
    assert runs._tensor_kernel.cache_info().misses == texts
    assert error(second, exact) < 5e-7
    assert error(second, first.astype(float)) > 0.1
    np.testing.assert_array_equal(first, third)


@pytest.mark.gpu
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(cupy, torch, needs_tensor_cores, value):
    net = mlp(16, 64, 64, 64, 4)
    weights = [w.copy() for w in net.weights]
    weights[1][5, 7] = value
    net = xpapply.MLP(weights, net.biases, "relu")
    x = np.random.default_rng(11).standard_normal((MANY, 16)).astype("f")
    got = xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get()
    want = by_torch(torch, net, x)
    assert_same_kind_of_numbers(got, want)
    fine = np.isfinite(want)
    np.testing.assert_allclose(got[fine], want[fine], rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_a_kernel_that_cannot_be_built(cupy, monkeypatch, needs_tensor_cores):
    """The next way runs, now and from then on."""
    from xpapply.backends.cupy import module

    net = mlp(16, 72, 56, 72, 5)  # of this test alone
    asked = []

    def function(source, name, number, shared):
        asked.append(name)
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(module, "function", function)
    x = np.random.default_rng(12).standard_normal((MANY, 16)).astype("f")
    exact = evaluate(double(net), x.astype(float))
    assert on_tensor_cores(xpapply.explain(net, 1, cupy.asarray(x)))
    for _ in range(2):
        assert error(xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get(), exact) < 5e-7
        assert len(asked) == 1


SCRIPT = """
import cupy
import numpy as np
import xpapply
rng = np.random.default_rng(0)
shapes = [(64, 16), (64, 64), (64, 64), (4, 64)]
weights = [(rng.standard_normal(s) * (2 / s[1]) ** 0.5).astype("f") for s in shapes]
net = xpapply.MLP(weights)
x = rng.standard_normal((400_000, 16)).astype("f")
got = xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get()
y = x.astype(float)
for w in weights[:-1]:
    y = np.maximum(y @ w.T.astype(float), 0)
y = y @ weights[-1].T.astype(float)
assert np.linalg.norm(got - y) < 5e-7 * np.linalg.norm(y)
"""


ELF = b"\x7fELF"
"""How machine code starts."""


@pytest.mark.gpu
def test_machine_code_that_is_damaged_on_disk(cupy, tmp_path, needs_tensor_cores):
    """It breaks no call of the next process, which compiles it again and keeps that."""

    def call():
        folder = str(Path(xpapply.__file__).parents[1])
        environment = os.environ | {"CUPY_CACHE_DIR": str(tmp_path), "PYTHONPATH": folder}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    call()
    kept = list(tmp_path.glob("xpapply_*.cubin"))
    assert kept
    assert not list(tmp_path.glob("*.tmp"))
    for path in kept:
        assert path.read_bytes().startswith(ELF)
        path.write_bytes(b"This is no machine code. " * 1000)
    call()
    assert sorted(tmp_path.glob("xpapply_*")) == sorted(kept)
    for path in kept:
        assert path.read_bytes().startswith(ELF)


def accurate_calls(net, arrays, want, failures):
    """Calls on arrays of one thread; what is wrong goes to `failures`."""
    try:
        for _ in range(20):
            results = [xpapply.apply_along_axis(net, 1, array) for array in arrays]
        for got in results:
            host = got.cpu().numpy() if hasattr(got, "cpu") else got.get()
            if not error(host, want) < 5e-7:
                failures.append(error(host, want))
    except Exception as problem:
        failures.append(problem)


@pytest.mark.gpu
def test_threads(cupy, needs_tensor_cores):
    """A stream for each thread; two networks of one structure, each in several threads."""
    x = np.random.default_rng(13).standard_normal((MANY, 16)).astype("f")
    nets = [mlp(16, 64, 64, 64, 4, seed=seed) for seed in (0, 1, 0, 1, 2, 3)]
    wants = [evaluate(double(net), x.astype(float)) for net in nets]
    assert on_tensor_cores(xpapply.explain(nets[0], 1, cupy.asarray(x)))
    failures = []

    def work(net, want):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            accurate_calls(net, [cupy.asarray(x)], want, failures)
            stream.synchronize()

    in_threads(work, zip(nets, wants, strict=True))
    assert not failures


def in_threads(work, arguments):
    threads = [threading.Thread(target=work, args=args) for args in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.gpu
def test_threads_and_streams_of_torch(cupy, torch, needs_tensor_cores):
    """CUDA tensors in threads with streams of torch, models on both devices."""
    x = np.random.default_rng(14).standard_normal((MANY, 16)).astype("f")
    net = benchmarked("16-64-64-64-4 ReLU")
    want = testing._double(net)(torch.from_numpy(x).double()).numpy()
    import copy

    nets = [net, copy.deepcopy(net).cuda(), net, copy.deepcopy(net)]
    assert on_tensor_cores(xpapply.explain(net, 1, torch.from_numpy(x).cuda()))
    failures = []

    def work(net):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            tensor = torch.from_numpy(x).cuda()
            accurate_calls(net, [tensor, tensor[::1]], want, failures)
        stream.synchronize()

    in_threads(work, [(n,) for n in nets])
    assert not failures


@pytest.mark.gpu
def test_weights_copied_on_another_stream(cupy, needs_tensor_cores):
    """A stream that is free must not read weights whose copy waits in a busy one."""
    x = np.random.default_rng(15).standard_normal((MANY, 16)).astype("f")
    array, busy = cupy.asarray(x), cupy.ones((6000, 6000), "f")
    xpapply.apply_along_axis(mlp(16, 64, 64, 64, 4, seed=20), 1, array)  # compiles
    busy @ busy
    net = mlp(16, 64, 64, 64, 4, seed=21)
    want = evaluate(double(net), x.astype(float))
    slow, free = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    poison = cupy.full(1 << 20, np.nan, "f")
    del poison
    cupy.cuda.Device().synchronize()
    with slow:
        for _ in range(30):
            busy @ busy
        xpapply.apply_along_axis(net, 1, array)
    with free:
        got = xpapply.apply_along_axis(net, 1, array)
        free.synchronize()
        host = got.get()
    slow.synchronize()
    assert error(host, want) < 5e-7
