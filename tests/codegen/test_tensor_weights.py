"""Packed weights of the kernel on tensor cores, and what it computes with them, in NumPy."""

import itertools

import numpy as np
import pytest
import tensor_packing
from tensor_cases import (
    COLUMNS,
    CORES,
    ROWS,
    SCALES,
    UNITS,
    assert_same_kind_of_numbers,
    by_feature,
    double,
    error,
    evaluate,
    hidden_biases,
    kernel,
    mlp,
    network,
)

import xpapply

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


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("scale", [*SCALES, 1e34])
def test_emulated_scales(scale, bias):
    net = mlp(16, 32, 32, 4, bias=bias)
    text, graph = kernel(net, 16, "wgmma")
    x = (scale * np.random.default_rng(2).standard_normal((200, 16))).astype("f")
    exact = evaluate(double(net), x.astype(float))
    got = tensor_packing.run(text, graph.consts, net, x)
    assert error(got, exact) < 2 * error(evaluate(net, x), exact) + 1e-7


@pytest.mark.parametrize("scale", UNITS)
def test_emulated_units_of_features(scale):
    net, units = by_feature(mlp(16, 32, 32, 4), scale)
    text, graph = kernel(net, 16, "wgmma")
    x = (units * np.random.default_rng(3).standard_normal((200, 16))).astype("f")
    exact = evaluate(double(net), x.astype(float))
    got = tensor_packing.run(text, graph.consts, net, x)
    assert error(got, exact) < 2 * error(evaluate(net, x), exact) + 1e-7


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
