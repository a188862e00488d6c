"""Networks in several kernels: the same results as in one, whatever is kept between them."""

import functools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from xpapply.arrays.layout import MemoryOrder
from xpapply.backends import array_api
from xpapply.codegen import cost
from xpapply.codegen.graph_queries import prepare
from xpapply.codegen.tensor_network import Refused, Target
from xpapply.loop.reference import first_place
from xpapply.lowering import tiles
from xpapply.lowering.segments import segments

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
RNG = np.random.default_rng(5)


def products(graph):
    return sum(n.op == "einsum" for n in graph.nodes)


def through(found, calls, x, axis, result):
    """The slices of an array, part by part: ``call(x, at, out)``; results along the last axes."""
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    there, at = x.transpose(order.axes), order.at
    before, behind = order.batch(x.shape)
    records = np.full((*before, found.numbers, *behind), np.nan, "f4")
    out = np.full((*before, *result, *behind), np.nan, "f4")

    def part(places):
        return records[(*(slice(None),) * at, slice(*places))]

    if found.copied:
        part((0, found.copied))[...] = there
    for p, call in zip(found.parts, calls, strict=True):
        source = there if p.read is None else part(p.read)
        call(source, at, out if p.written is None else part(p.written))
    k = len(result)
    y = out.transpose(order.result_axes(k))
    return np.moveaxis(y, range(axis, axis + k), range(-k, 0))


def of_part(part, consts):
    """``call(x, at, out)`` of a part, by definition."""
    call = by_definition(part.tiles.graph, consts)
    return lambda x, at, out: tiles.Cutter(part.tiles).run(x, at, out, call, 1 << 20)


def segments_of(graph, why_not, most, numbers=math.inf):
    """Segments of slices that are not large.

    Each part has at most so many products, and so many numbers in each of its values.
    """

    def refusal(tile):
        if products(tile) > most or max(math.prod(n.aval.shape) for n in tile.nodes) > numbers:
            return "too large"
        return why_not(tile)

    with short_tiles():
        return segments(graph, refusal, cost.of_tile, cost.of_reduction)


class Around(nn.Module):
    """A network beside what it gets: later parts read the slice too."""

    def __init__(self, net, channels):
        super().__init__()
        self.net, self.last = net, nn.Conv2d(2 * channels, channels, 3, padding=1)

    def forward(self, x):
        return x - self.last(torch.cat([self.net(x), x], 1))


class Gated(nn.Module):
    """Channels that are multiplied by what follows from their means (squeeze and excitation)."""

    def __init__(self, a, b):
        super().__init__()
        self.conv, self.gate = nn.Conv2d(a, b, 3, padding=1), nn.Linear(b, b)

    def forward(self, x):
        y = self.conv(x)
        return y * torch.sigmoid(self.gate(y.mean((2, 3))))[:, :, None, None]


class OfFloat(nn.Sequential):
    """A network of images of any dtype."""

    def forward(self, x):
        return self[0](x.float())


@st.composite
def networks(draw):
    """A network, and the shape of its slices; deep ones, with what goes around layers."""
    if draw(st.booleans()):
        return draw(networks_of_layers())
    torch.manual_seed(draw(st.integers(0, 99)))
    if draw(st.booleans()):
        layers, shape = [], (draw(st.integers(1, 4)), 9, 14)
        a = shape[0]
        for _ in range(draw(st.integers(1, 3))):
            b = 2 * draw(st.integers(1, 3))
            norms = [nn.InstanceNorm2d(b, affine=True), nn.GroupNorm(2, b), nn.BatchNorm2d(b)]
            norm, act = draw(st.sampled_from(norms)), draw(st.sampled_from([nn.ReLU, nn.Sigmoid]))
            layers += draw(
                st.sampled_from([[nn.Conv2d(a, b, 3, padding=1), norm, act()], [Gated(a, b)]])
            )
            a = b
        if draw(st.booleans()):
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(a, 3)]
        net = nn.Sequential(*layers)
    elif draw(st.booleans()):
        net, shape = Hourglass(draw(st.sampled_from(["transposed", "nearest"]))), (1, 16, 12)
    else:
        c = draw(st.integers(1, 3))
        layers = [
            nn.Conv2d(c, c, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c, c, 5, padding=2),
            nn.Tanh(),
        ]
        net, shape = Around(nn.Sequential(*layers), c), (c, 9, 14)
    if draw(st.booleans()):
        net = nn.Sequential(net, nn.Flatten())
    return OfOne(net).eval().requires_grad_(False), shape


class Normalized(nn.Module):
    """A residual of what was normalized: it follows from no product, and is read twice."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        x = (x - 0.5) / 0.25
        return x - self.net(x)


def test_what_is_normalized_and_read_twice():
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1)]
    net = OfOne(Normalized(nn.Sequential(*layers))).eval().requires_grad_(False)
    graph = prepare(graph_of(net, (1, 20, 24)))
    found = segments_of(graph, lambda tile: None if products(tile) else "no product", 1)
    assert len(found.parts) == 2
    x = RNG.standard_normal((3, 480)).astype("f4")
    calls = [of_part(p, graph.consts) for p in found.parts]
    y = through(found, calls, x, 1, graph.result.shape)
    want = by_torch(net, (1, 20, 24), x, 1)
    assert np.abs(y - want).max() < 1e-5


def test_values_of_more_than_two_billion_numbers():
    """Their places are counted in 64 bits."""
    from xpapply.codegen import feature_maps
    from xpapply.codegen.access import Access

    layers = [nn.Conv2d(1, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 48, 9, padding=4), nn.ReLU()]
    layers += [nn.Conv2d(48, 48, 9, padding=4), nn.ReLU(), nn.Conv2d(48, 1, 3, padding=1)]
    net = OfOne(nn.Sequential(*layers)).eval().requires_grad_(False)
    graph = prepare(graph_of(net, (1, 7168, 7168)))
    on = Target("wgmma", "high")
    found = segments(graph, lambda t: feature_maps.why_not(t, on), cost.of_tile, cost.of_reduction)
    for part in found.parts:
        text = feature_maps.map_kernel(
            part.tiles.graph, Access(1, 0, wide=True), on, tiles=part.tiles
        )
        assert "typedef long long I;" in text.source
        steps = re.findall(r"(.{10}) \* 51380224", text.source)
        assert steps == ["(I)(o + c)"] * len(steps) != []


def limits():
    return st.tuples(st.integers(1, 2), st.sampled_from([400, 1500, 10**9]))


def drawn(data, why_not=lambda tile: None):
    """A network, the shape of its slices, its graph, and segments of it or why there are none."""
    net, shape = data.draw(networks(), label="net")
    graph = prepare(graph_of(net, shape))
    most = data.draw(limits(), label="products, and numbers")
    return net, shape, graph, segments_of(graph, why_not, *most)


@given(data=st.data())
def test_as_torch(data):
    net, shape, graph, found = drawn(data)
    if isinstance(found, str):
        return
    assert [p.written for p in found.parts[-1:]] == [None]
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    calls = [of_part(p, graph.consts) for p in found.parts]
    y = through(found, calls, x, axis, graph.result.shape)
    want = by_torch(net, shape, x, axis).reshape(y.shape)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))


@given(data=st.data())
def test_nan_and_infinities_stay_where_they_are(data):
    _, shape, graph, found = drawn(data)
    if isinstance(found, str):
        return
    x = RNG.standard_normal((5, math.prod(shape))).astype("f4")
    for value in data.draw(st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), max_size=4)):
        x[data.draw(st.integers(0, 4)), data.draw(st.integers(0, x.shape[1] - 1))] = value
    calls = [of_part(p, graph.consts) for p in found.parts]
    y = through(found, calls, x, 1, graph.result.shape)
    want = np.empty((5, *graph.result.shape), "f4")
    lowered = array_api.BACKEND.lower(graph)
    with np.errstate(all="ignore"):
        lowered(x, 1, lowered.bind(graph.consts, np.empty(0, "f4")), want)
    scale = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(y, want, rtol=0, atol=2e-5 * scale)


@pytest.mark.kernels
@settings(max_examples=min(30, settings().max_examples))
@given(data=st.data())
def test_kernels_of_feature_maps(data):
    """As host C++: they read parts of records, and write others."""
    import host_maps

    from xpapply.codegen import feature_maps

    on = Target("mma", "highest")
    net, shape, graph, found = drawn(data, lambda tile: feature_maps.why_not(tile, on))
    if isinstance(found, str):
        return
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    x = x[tuple(slice(None) if a == axis else slice(3) for a in range(x.ndim))]

    def call(part):
        if not part.multiplies:
            return of_part(part, graph.consts)
        return lambda x, at, out: host_maps.run_maps(
            part.tiles.graph, x, at, tiles=part.tiles, out=out
        )

    try:
        y = through(found, [call(p) for p in found.parts], x, axis, graph.result.shape)
    except Refused:  # what was drawn does not fit in shared memory
        return
    want = by_torch(net, shape, x, axis).reshape(y.shape)
    scale = max(0.1, np.abs(want).max())
    lost = lost_in_float32(net, shape, x, axis, want)
    np.testing.assert_allclose(y, want, rtol=0, atol=5e-6 * scale + 4 * lost)


def unet(width=8):
    from benchmarks.modules import UNet

    torch.manual_seed(0)
    return UNet(width).eval().requires_grad_(False)


@functools.cache
def last_of_unet(on):
    from xpapply.codegen import feature_maps

    graph = prepare(graph_of(OfOne(unet()), (1, 60, 72)))
    found = segments(graph, lambda t: feature_maps.why_not(t, on), cost.of_tile, cost.of_reduction)
    return found.parts[-1].tiles


@pytest.mark.kernels
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a", "sm_100"])
def test_nvrtc_compiles(architecture):
    """Kernels that read several sources, in slices side by side and one after the other."""
    pytest.importorskip("cupy")
    import nvrtc

    from xpapply.codegen import feature_maps
    from xpapply.codegen.access import Access

    on = Target("wgmma" if "90" in architecture else "mma", "highest")
    last = last_of_unet(on)
    assert len(last.sources) == 2
    for access in (Access(1, 0), Access(1, 1, grouped=True)):
        text = feature_maps.map_kernel(last.graph, access, on, tiles=last)
        assert nvrtc.compile_plain(text.source, architecture)


@pytest.mark.gpu
@pytest.mark.parametrize("axes", [(1, 2, 3), (0, 1, 2), (3, 1, 2)])
@pytest.mark.parametrize("n", [1, 3, 300])
def test_large_images_on_a_gpu(cupy, axes, n):
    net = unet()
    images = RNG.standard_normal((n, 1, 60, 72)).astype("f4")
    x = cupy.asarray(np.moveaxis(images, (1, 2, 3), axes))
    with xpapply.options(engine="cupy", block_bytes=1 << 26):
        said = str(xpapply.explain(net, axes, x))
        y = xpapply.apply_along_axis(net, axes, x).get()
    assert " kernels, feature maps in shared memory" in said
    with torch.no_grad():
        want = net.double()(torch.from_numpy(images[:3]).double()).numpy()
    first = first_place(axes)
    y = np.moveaxis(y, range(first, first + 3), (-3, -2, -1))[:3]
    assert np.abs(y - want).max() < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("axes", [(1, 2, 3), (0, 1, 2)])
def test_means_of_large_images_on_a_gpu(cupy, axes):
    """Reductions of whole slices are no kernels: their results are kept as well."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
    layers += [nn.ReLU(), Gated(16, 16), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    net = net.eval().requires_grad_(False)
    images = RNG.standard_normal((40, 1, 150, 140)).astype("f4") + 3
    x = cupy.asarray(np.moveaxis(images, (1, 2, 3), axes))
    with xpapply.options(engine="cupy"):
        said = str(xpapply.explain(net, axes, x))
        y = xpapply.apply_along_axis(net, axes, x).get()
    assert " kernels, feature maps in shared memory" in said
    with torch.no_grad():
        want = net.double()(torch.from_numpy(images).double()).numpy()
    y = np.moveaxis(y, first_place(axes), -1)
    assert np.abs(y - want).max() < 1e-5


@pytest.mark.gpu
def test_norms_of_large_images_on_a_gpu(cupy):
    from xpapply.backends.cupy import maps
    from xpapply.backends.cupy.segments import SegmentsRun
    from xpapply.backends.cupy.ways import Task, target
    from xpapply.backends.cupy.weights import Weights

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.ReLU()]
    layers += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3)]
    net = OfOne(nn.Sequential(*layers)).eval().requires_grad_(False)
    graph = prepare(graph_of(net, (1, 150, 140)))
    on = target(Task(0, 7, "highest", True))
    found = maps._segments(graph, on)
    x = (RNG.standard_normal((5, 21_000)) + 3).astype("f4")
    out = cupy.full((5, *graph.result.shape), np.nan, "f4")
    run = SegmentsRun(found, maps._runs(found, on))
    run(cupy.asarray(x), 1, 5, Weights(graph.consts), out)
    want = by_torch(net, (1, 150, 140), x, 1)
    assert np.abs(out.get() - want).max() < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_dtypes_of_slices_on_a_gpu(cupy, dtype):
    """Where a later kernel reads the slices too, they are in the records as float32."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()]
    layers += [nn.Conv2d(16, 16, 9, padding=4), nn.ReLU()] * 3 + [nn.Conv2d(16, 1, 3, padding=1)]
    net = Around(nn.Sequential(*layers), 1).eval().requires_grad_(False)
    x = (RNG.random((5, 1, 90, 80)) * 9).astype(dtype)
    there, f = cupy.asarray(x), OfFloat(net)
    with xpapply.options(engine="cupy"):
        assert " kernels, feature maps" in str(xpapply.explain(f, (1, 2, 3), there))
        y = xpapply.apply_along_axis(f, (1, 2, 3), there).get()
    with torch.no_grad():
        want = net.double()(torch.from_numpy(x).double()).numpy()
    assert np.abs(y - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.gpu
@given(data=st.data())
def test_on_a_gpu(cupy, data):
    from xpapply.backends.cupy import compiler, maps
    from xpapply.backends.cupy.segments import SegmentsRun
    from xpapply.backends.cupy.ways import Task, target
    from xpapply.backends.cupy.weights import Weights
    from xpapply.codegen import feature_maps

    if not compiler.device(0).core:
        return
    on = target(Task(0, 7, "highest", True))
    net, shape, graph, found = drawn(data, lambda tile: feature_maps.why_not(tile, on))
    if isinstance(found, str):
        return
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    out = cupy.full((*before, *graph.result.shape, *behind), np.nan, "f4")
    there = cupy.asarray(x, order="K").transpose(order.axes)
    run = SegmentsRun(found, maps._runs(found, on))
    slices = x.size // x.shape[axis]
    block_bytes = data.draw(st.sampled_from([0, 1, 5 * 4 * found.numbers]), label="block")
    with xpapply.options(block_bytes=block_bytes):
        run(there, order.at, slices, Weights(graph.consts), out)
    k = len(graph.result.shape)
    y = out.transpose(order.result_axes(k)).get()
    y = np.moveaxis(y, range(axis, axis + k), range(-k, 0))
    want = by_torch(net, shape, x, axis).reshape(y.shape)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))
