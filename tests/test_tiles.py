"""Slices cut into tiles: the same results as those of whole slices, whatever the tiles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.arrays.layout import MemoryOrder
from xpapply.codegen.tensor_network import Refused, Target
from xpapply.ir.builder import Builder
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.ops import F
from xpapply.ir.tiles.extents import NoTiles
from xpapply.ir.tiles.tile_graph import axes_of, tiled
from xpapply.ir.tiles.windows import padded
from xpapply.loop.reference import first_place
from xpapply.lowering import tiles

pytest.importorskip("torch")

import torch
from convolution_cases import (
    Hourglass,
    OfOne,
    arrays,
    by_definition,
    by_torch,
    graph_of,
    lost_in_float32,
    networks_of_layers,
    short_tiles,
)

nn = torch.nn
RNG = np.random.default_rng(8)


def through(found, call, x, axis, block_bytes=1 << 20, result=None):
    """The slices of an array cut, computed by `call`, and joined, results along the last axes.

    `result` is the shape of one, if not that of the tiles.
    """
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    shape = found.result_shape if result is None else result
    out = np.full((*before, *shape, *behind), np.nan, found.graph.result.dtype)
    tiles.Cutter(found).run(x.transpose(order.axes), order.at, out, call, block_bytes)
    k = len(shape)
    y = out.transpose(order.result_axes(k))
    return np.moveaxis(y, range(axis, axis + k), range(-k, 0))


@st.composite
def cut(draw, graph):
    """Some tiles of a graph, or None."""
    axes = axes_of(graph)
    some = draw(st.lists(st.sampled_from([*axes]), unique=True, min_size=1)) if axes else []
    sizes = {a: draw(st.integers(1, axes[a])) for a in some}
    try:
        return tiled(graph, sizes) if sizes else None
    except NoTiles:
        return None


@given(data=st.data())
def test_as_torch(data):
    net, shape = data.draw(networks_of_layers(), label="net")
    graph = graph_of(net, shape)
    found = data.draw(cut(graph), label="tiles")
    if found is None:
        return
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    block_bytes = data.draw(st.sampled_from([1, 3000, 1 << 20]), label="block_bytes")
    call = by_definition(found.graph, graph.consts)
    y = through(found, call, x, axis, block_bytes, graph.result.shape)
    want = by_torch(net, shape, x, axis)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))


@given(data=st.data())
def test_infinities_and_nan_stay_where_they_are(data):
    net, shape = data.draw(networks_of_layers(), label="net")
    graph = graph_of(net, shape)
    found = data.draw(cut(graph), label="tiles")
    if found is None:
        return
    x = RNG.standard_normal((5, math.prod(shape))).astype("f4")
    for value in data.draw(st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), max_size=4)):
        x[data.draw(st.integers(0, 4)), data.draw(st.integers(0, x.shape[1] - 1))] = value
    call = by_definition(found.graph, graph.consts)
    y = through(found, call, x, 1, result=graph.result.shape)
    want = np.empty((5, *graph.result.shape), "f4")
    by_definition(graph, graph.consts)(x, want)
    scale = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(y, want, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("up", ["transposed", "nearest"])
@pytest.mark.parametrize("sizes", [{1: 8, 2: 16}, {1: 2, 2: 40}, {2: 6}])
def test_networks_that_go_down_and_up(up, sizes):
    torch.manual_seed(1)
    net = OfOne(Hourglass(up)).eval().requires_grad_(False)
    graph = graph_of(net, (1, 24, 40))
    x = RNG.standard_normal((3, 960)).astype("f4")
    found = tiled(graph, sizes)
    y = through(found, by_definition(found.graph, graph.consts), x, 1)
    assert np.abs(y - by_torch(net, (1, 24, 40), x, 1)).max() < 1e-5


def test_steps_that_tiles_do_not_fit():
    graph = graph_of(OfOne(Hourglass("nearest")).eval(), (1, 24, 40))
    with pytest.raises(NoTiles, match="5 places of the result are 5/2 of"):
        tiled(graph, {1: 5})


@pytest.mark.parametrize(
    ("layers", "axes"),
    [
        ([nn.Conv2d(1, 2, 3)], [1, 2]),
        ([nn.Conv2d(1, 2, 3), nn.Flatten()], [2, 3]),  # of a batch of one
        ([nn.Conv2d(1, 2, 3), nn.Softmax(2)], [2]),
        ([nn.Conv2d(1, 2, 3), nn.Softmax(1)], [1, 2]),
        ([nn.Conv2d(1, 2, 3), nn.InstanceNorm2d(2)], []),
        ([nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1)], []),
        ([nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")], []),
        ([nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 8 * 8, 5)], []),
        ([nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.AvgPool2d(2)], [1, 2]),
        # what the border leaves out differs from place to place
        ([nn.Conv2d(1, 2, 3), nn.AvgPool2d(3, 1, 1, count_include_pad=False)], []),
    ],
)
def test_what_depends_on_what_is_near(layers, axes):
    net = OfOne(nn.Sequential(*layers)).eval().requires_grad_(False)
    assert [*axes_of(graph_of(net, (1, 10, 10)))] == axes


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "float16", "float64"])
def test_dtypes_of_slices(dtype):
    net = OfOne(nn.Sequential(nn.Conv1d(1, 3, 5, padding=2), nn.ReLU())).eval()
    net = net.requires_grad_(False)
    x = (RNG.standard_normal((4, 60)) * 50).astype(dtype)
    graph = graph_of(net, (1, 60), dtype)
    found = tiled(graph, {1: 7})
    assert found.graph.input.dtype == dtype
    y = through(found, by_definition(found.graph, graph.consts), x, 1)
    want = by_torch(net, (1, 60), x.astype("f8"), 1)
    assert np.abs(y - want).max() < 1e-6 * max(1, np.abs(want).max())


def test_memory_has_a_fixed_size():
    """Whatever is longer, the windows or their results: here 32 channels of one."""
    net = OfOne(nn.Sequential(nn.Conv2d(1, 32, 3, padding=1))).eval().requires_grad_(False)
    graph = graph_of(net, (1, 64, 96))
    found = tiled(graph, {1: 8, 2: 16})
    most = []

    def call(windows, results):
        most.append(windows.nbytes + results.nbytes)
        by_definition(found.graph, graph.consts)(windows, results)

    x = RNG.standard_normal((9, 64 * 96)).astype("f4")
    for block_bytes in (200_000, 2_000_000):
        y = through(found, call, x, 1, block_bytes)
        assert max(most) <= block_bytes
        assert np.abs(y - by_torch(net, (1, 64, 96), x, 1)).max() < 1e-5


class Padded(nn.Module):
    """What a threshold says, or which channel is the largest, with a border of some number."""

    def __init__(self, kind, number):
        super().__init__()
        self.kind, self.number = kind, number

    def forward(self, x):
        found = x > 0 if self.kind == "bool" else x.argmax(1)
        return nn.functional.pad(found, (1, 1), value=self.number)


@pytest.mark.parametrize(("kind", "number"), [("bool", -1), ("bool", 0), ("int", 2.5), ("int", -3)])
def test_borders_of_other_dtypes(kind, number):
    graph = graph_of(OfOne(Padded(kind, number)).eval(), (2, 8, 9))
    found = tiled(graph, {len(graph.result.shape) - 1: 4})
    x = RNG.standard_normal((3, 144)).astype("f4")
    y = np.empty((3, *graph.result.shape), graph.result.dtype)
    call = by_definition(found.graph, graph.consts)
    tiles.Cutter(found).run(x, 1, y, call, 1 << 20)
    want = Padded(kind, number)(torch.from_numpy(x.reshape(3, 2, 8, 9))).numpy()
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(("kind", "number"), [("int", math.inf), ("int", 1e300)])
def test_borders_that_no_number_is(kind, number):
    x = Builder().input(ShapeDtype((9,), "int64"))
    y = padded(x, 0, 1, 1, number)
    with pytest.raises(NoTiles, match="among int64 numbers"):
        tiled(y.builder.graph(y), {0: 4})


def test_nothing_but_the_slice():
    x = Builder().input(ShapeDtype((12,), "float32"))
    y = F.reshape(x, shape=(3, 4))
    assert tiled(y.builder.graph(y), {0: 1}).count == 3
    flat = F.reshape(y, shape=(12,))
    assert tiled(flat.builder.graph(flat), {}).result_shape == (3, 4)


def test_what_is_chosen():
    net = OfOne(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 5)))
    graph = graph_of(net.eval().requires_grad_(False), (1, 100, 200))
    found = tiles.choose(graph, lambda tile: None)
    assert [a.tile for a in found.axes] == [8, 8]
    deeper = nn.Sequential(*net, *(nn.Conv2d(1, 1, 5, padding=2) for _ in range(4)))
    deeper = graph_of(OfOne(deeper).eval().requires_grad_(False), (1, 100, 200))
    found = tiles.choose(deeper, lambda tile: None)
    assert [a.tile for a in found.axes] == [32, 32]
    small = tiles.choose(deeper, lambda tile: "too large" if tile.input.shape[0] > 2000 else None)
    assert [a.tile for a in small.axes] == [16, 16]
    assert tiles.choose(graph, lambda tile: "no kernel") == "of a tile: no kernel"
    deep = [nn.Conv2d(1, 1, 31, padding=15) for _ in range(3)]
    graph = graph_of(OfOne(nn.Sequential(*deep)).eval().requires_grad_(False), (1, 300, 300))
    some = tiles.choose(graph, lambda tile: "too large" if tile.input.shape[0] > 20000 else None)
    assert some.startswith("the margins of tiles would take")


# --- engines --------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["AVX-512", "AVX2", "SSE2"])
@given(data=st.data())
def test_kernels_of_this_cpu(name, data):
    pytest.importorskip("llvmlite")
    from xpapply.backends.cpu import compiler, networks

    try:
        target = compiler.host(name)
    except xpapply.InputError as error:
        pytest.skip(str(error))
    net, shape = data.draw(networks_of_layers(), label="net")
    graph = graph_of(net, shape)
    found = data.draw(cut(graph), label="tiles")
    if found is None:
        return
    inner = networks.NetworkLowered(found.graph, target)
    weights = inner.bind(graph.consts, np.empty(0))
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")

    def call(windows, results):
        inner(windows, 1, weights, results)

    y = through(found, call, x, axis, result=graph.result.shape)
    want = by_torch(net, shape, x, axis)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))


@pytest.mark.kernels
@given(data=st.data())
def test_kernels_of_feature_maps(data):
    """As host C++, which reads tiles where they lie, and has masks among the numbers of a slice."""
    import host_maps

    from xpapply.codegen import feature_maps

    net, shape = data.draw(networks_of_layers(), label="net")
    factor = data.draw(st.sampled_from([1, 300]), label="factor")
    for first in [*net.parameters()][:1]:  # large ones are scaled for float16
        first.mul_(factor)
    graph = graph_of(net, shape)
    found = data.draw(cut(graph), label="tiles")
    if found is None or feature_maps.why_not(found.graph, Target("mma", "highest")) is not None:
        return
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    x = x[tuple(slice(None) if a == axis else slice(3) for a in range(x.ndim))]
    how = {k: data.draw(st.booleans(), label=k) for k in ("careful", "few", "backwards")}
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    there = x.transpose(order.axes)
    try:
        y = host_maps.run_maps(found.graph, there, order.at, tiles=found, **how)
    except Refused:  # what was drawn does not fit in shared memory
        return
    k = len(found.result_shape)
    y = np.moveaxis(y.transpose(order.result_axes(k)), range(axis, axis + k), range(-k, 0))
    want = by_torch(net, shape, x, axis).reshape(y.shape)
    scale = max(0.1, np.abs(want).max())
    lost = lost_in_float32(net, shape, x, axis, want)
    # what is small of differences between large numbers has their errors
    most = 5e-6 * scale * (1 if factor == 1 else 4)
    np.testing.assert_allclose(y, want, rtol=0, atol=most + 4 * lost)


@pytest.mark.kernels
@pytest.mark.parametrize("largest", [1e-11, 65, 1e6])
@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_masks_are_in_range_whatever_the_weights(largest, precision):
    """They lie beside numbers that are scaled for the weights of the first layer."""
    import host_maps

    torch.manual_seed(0)
    layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)
    net = OfOne(nn.Sequential(*layers)).eval().requires_grad_(False)
    layers[0].weight.mul_(largest / layers[0].weight.abs().max())
    layers[0].bias.zero_()
    graph = graph_of(net, (1, 16, 16))
    found = tiled(graph, {1: 8, 2: 8})
    x = (RNG.random((2, 256)) / largest).astype("f4")
    y = host_maps.run_maps(found.graph, x, 1, precision, tiles=found)
    want = by_torch(net, (1, 16, 16), x, 1)
    most = {"highest": 2e-6, "high": 3e-3, "medium": 3e-2}[precision]
    assert np.abs(y - want).max() < most * np.abs(want).max()


def denoiser(n=200):
    torch.manual_seed(0)
    first = [nn.Unflatten(0, (1, n)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()]
    second = [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)]
    return nn.Sequential(*first, *second, nn.Flatten(0, 1)).eval().requires_grad_(False)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("axes", [(1, 2), (0, 2), (0, 1), (2, 0)])
def test_large_images_on_this_cpu(as_tensor, axes):
    pytest.importorskip("llvmlite")
    net = denoiser()
    images = RNG.standard_normal((5, 200, 200)).astype("f4")
    x = np.moveaxis(images, (1, 2), axes)
    given_ = torch.from_numpy(x) if as_tensor else x
    with xpapply.options(engine="cpu"):
        y = np.asarray(xpapply.apply_along_axis(net, axes, given_))
        said = str(xpapply.explain(net, axes, given_))
    assert "slices in tiles: 16 x 16 numbers of a result from 22 x 22 of a slice" in said
    with torch.no_grad():
        want = np.stack([net(torch.from_numpy(image)).numpy() for image in images])
    first = first_place(axes)
    want = np.moveaxis(want, (1, 2), (first, first + 1))
    assert np.abs(y - want).max() < 1e-5


class Flat(nn.Module):
    """The denoiser as a function of a vector, as NumPy's `apply_along_axis` wants it."""

    def __init__(self, n):
        super().__init__()
        self.net, self.n = denoiser(n), n

    def forward(self, x):
        return self.net(x.reshape(self.n, self.n)).reshape(-1)


def test_flat_results_of_large_images():
    pytest.importorskip("llvmlite")
    f, x = Flat(200), RNG.standard_normal((40_000, 5)).astype("f4")
    with xpapply.options(engine="cpu"):
        y = xpapply.apply_along_axis(f, 0, x)
        said = str(xpapply.explain(f, 0, x))
    assert "slices in tiles: 16 x 16 numbers of a result from 22 x 22 of a slice" in said
    with torch.no_grad():
        want = np.stack([f(torch.from_numpy(image)).numpy() for image in x.T], 1)
    assert np.abs(y - want).max() < 1e-5


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float64"])
def test_large_images_of_other_dtypes(dtype):
    """They become float32 before they have axes, which are cut all the same."""
    pytest.importorskip("llvmlite")
    net = denoiser()
    x = (RNG.random((5, 200, 200)) * 100).astype(dtype)
    with xpapply.options(engine="cpu"):
        y = xpapply.apply_along_axis(net, (1, 2), x)
        said = str(xpapply.explain(net, (1, 2), x))
    assert "slices in tiles: 16 x 16 numbers of a result from 22 x 22 of a slice" in said
    with torch.no_grad():
        want = np.stack([net(torch.from_numpy(image.astype("f4"))).numpy() for image in x])
    assert np.abs(y - want).max() < 1e-5 * np.abs(want).max()


def test_why_there_are_none():
    """What is said of large images whose results depend on all of them."""
    pytest.importorskip("llvmlite")
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8)]
    net = OfOne(nn.Sequential(*layers)).eval().requires_grad_(False)
    x = np.zeros((9, 1, 300, 300), "f4")
    why = r"do not fit in the cache.*; each number of a result"
    with xpapply.options(engine="cpu"), pytest.raises(xpapply.UnsupportedError, match=why):
        xpapply.apply_along_axis(net, (1, 2, 3), x)


@pytest.mark.gpu
@given(data=st.data())
def test_on_a_gpu(cupy, data):
    from xpapply.backends.cupy import compiler, maps
    from xpapply.backends.cupy.ways import Task
    from xpapply.backends.cupy.weights import Weights

    net, shape = data.draw(networks_of_layers(), label="net")
    graph = graph_of(net, shape)
    task = Task(0, 7, "highest", True)
    way = maps.TiledMapsWay(graph)
    with short_tiles():
        found = way._tiles(task)
    if not compiler.device(0).core or isinstance(found, str):
        return
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    out = cupy.full((*before, *graph.result.shape, *behind), np.nan, "f4")
    there = cupy.asarray(x, order="K").transpose(order.axes)
    way.runner(task)(there, order.at, x.size // x.shape[axis], Weights(graph.consts), out)
    k = len(graph.result.shape)
    y = out.transpose(order.result_axes(k)).get()
    y = np.moveaxis(y, range(axis, axis + k), range(-k, 0))
    want = by_torch(net, shape, x, axis)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))


@pytest.mark.gpu
def test_large_images_on_a_gpu(cupy):
    net = denoiser(512)
    x = RNG.standard_normal((9, 512, 512)).astype("f4")
    there = cupy.asarray(x)
    said = str(xpapply.explain(net, (1, 2), there))
    assert "feature maps in shared memory" in said
    assert "slices in tiles" in said
    y = xpapply.apply_along_axis(net, (1, 2), there).get()
    with torch.no_grad():
        want = np.stack([net.double()(torch.from_numpy(a).double()).numpy() for a in x])
    assert np.abs(y - want).max() < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1])
def test_flat_results_of_large_images_on_a_gpu(cupy, axis):
    f, x = Flat(300), np.moveaxis(RNG.standard_normal((7, 90_000)).astype("f4"), 1, axis)
    there = cupy.asarray(x)
    assert "slices in tiles" in str(xpapply.explain(f, axis, there))
    y = xpapply.apply_along_axis(f, axis, there).get()
    exact = f.double()
    with torch.no_grad():
        want = [exact(torch.from_numpy(a).double()).numpy() for a in np.moveaxis(x, axis, 1)]
    assert np.abs(y - np.stack(want, 1 - axis)).max() < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("axes", [(1, 2), (0, 1)])
def test_large_images_of_bfloat16(cupy, axes):
    """Slices that CuPy has no dtype for: the kernel reads them where they are."""
    net = denoiser(256).cuda()
    x = np.moveaxis(RNG.standard_normal((9, 256, 256)).astype("f4"), (1, 2), axes)
    there = torch.from_numpy(x).to(torch.bfloat16).cuda()
    with xpapply.options(engine="cupy"):
        y = xpapply.apply_along_axis(net, axes, there)
    assert y.dtype == torch.float32
    images = there.double().cpu().movedim(axes, (1, 2))
    with torch.no_grad():
        exact = net.cpu().double()
        want = torch.stack([exact(a) for a in images]).movedim((1, 2), axes)
    assert (y.double().cpu() - want).abs().max() < 1e-5
