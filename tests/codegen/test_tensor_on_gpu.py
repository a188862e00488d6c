"""The kernel on tensor cores on a GPU: results and accuracy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_cases import (
    CORES,
    SCALES,
    UNITS,
    assert_same_kind_of_numbers,
    benchmarked,
    by_feature,
    by_torch,
    double,
    error,
    evaluate,
    graph_of,
    hidden_biases,
    mlp,
    network,
    target,
)

from conftest import Library
from xpapply import frontends, testing
from xpapply.arrays.layout import MemoryOrder
from xpapply.codegen import tensor_network
from xpapply.loop import reference

# --- results --------------------------------------------------------------------------


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
    from xpapply.backends.cupy import launch

    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    shape = (*before, *graph.result.shape, *behind)
    memory = cupy.full(int(np.prod(shape)) + 2 * MARGIN, 77, graph.result.dtype)
    out = memory[MARGIN:-MARGIN].reshape(shape)
    out[...] = np.nan
    slices = x.size // x.shape[axis]
    runner(x.transpose(order.axes), order.at, slices, launch.Weights(graph.consts), out)
    assert bool((memory[:MARGIN] == 77).all())
    assert bool((memory[-MARGIN:] == 77).all())
    return out.transpose(order.result_axes(len(graph.result.shape))).get()


def tensor_run(graph, core, precision="highest"):
    from xpapply.backends.cupy import launch

    return launch.Tensor(graph, target(core, precision))


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
        seen = reference.apply(frontends.find(net).slice_function(net), axis, arr, (), {})
        exact = testing.parity._exact(net, axis, arr, (), {})
        allowed, unordered = testing.parity._allowed(net, axis, arr, (), {})
    allowed = testing.parity._in_place(allowed, axis, arr.shape)
    unordered = testing.parity._in_place(unordered, axis, arr.shape)
    assert got.shape == seen.shape
    assert got.dtype == seen.dtype
    testing.parity._compare(got, exact, testing.SAFETY * allowed, unordered, seen)


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
    from xpapply.backends.cupy import launch

    if wide:

        def geometry(*args):
            access, numbers = runs_geometry(*args)
            return replace(access, wide=True), numbers

        runs_geometry = launch.geometry
        monkeypatch.setattr(launch, "geometry", geometry)
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


def assert_accurate(cupy, torch, core, net, x, groups):
    """For each group of slices alike: at most twice the error of torch's float32."""
    got, theirs = rows_through(cupy, net, x, core), by_torch(torch, net, x)
    exact = evaluate(double(net), x.astype(float))
    errors = {}
    for group in np.unique(groups):
        some = groups == group
        ours, allowed = error(got[some], exact[some]), error(theirs[some], exact[some])
        errors[float(group)] = (ours, 2 * allowed + 1e-7)
    # NaN is not an error that is small enough
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
