"""The kernel that holds feature maps in shared memory: its text runs as host C++."""

import copy
import math
import warnings

import host_maps
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpapply.codegen import feature_maps
from xpapply.codegen.access import Access
from xpapply.codegen.feature_maps.maps import Maps
from xpapply.codegen.feature_maps.plan import Plan
from xpapply.codegen.feature_maps.terms import fours, offsets
from xpapply.codegen.feature_maps.weights import packed
from xpapply.codegen.geometry import Dim, strided
from xpapply.codegen.graph_queries import prepare
from xpapply.codegen.tensor_network import Refused, Target
from xpapply.ir.tiles.tile_graph import tiled

pytest.importorskip("torch")

import torch
from convolution_cases import (
    Hourglass,
    Joined,
    OfOne,
    Reordered,
    Residual,
    arrays,
    by_torch,
    graph_of,
    lost_in_float32,
    networks_of_layers,
)

nn = torch.nn
RNG = np.random.default_rng(3)
REFUSED = ("no product", "the result does not depend", "results that lie unevenly")
PLANS = [Plan(1, 1, 1, True), Plan(1, 2, 2, False), Plan(2, 4, 3, True), Plan(1, 8, 2, True)]


def network(*layers):
    """With the same weights whatever was made before."""
    torch.manual_seed(0)
    net = nn.Sequential(*layers)
    for layer in net.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    return OfOne(net).eval().requires_grad_(False)


def classic():
    first = [nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(10, 20, 3), nn.Tanh(), nn.AvgPool2d(2)]
    return network(*first, *second, nn.Flatten(), nn.Linear(20 * 2 * 2, 3)), (1, 14, 14)


# --- terms ----------------------------------------------------------------------------------


@st.composite
def dims(draw):
    found, step = [], 1
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 7))
        found.insert(0, Dim(size, step * draw(st.integers(1, 3))))
        step = found[0].read * size
    return found


def rows():
    """Where eight places begin, for some warps."""
    eight = st.lists(st.integers(0, 500), min_size=8, max_size=8)
    return st.lists(eight, min_size=1, max_size=3).map(np.array)


@given(dims(), rows())
def test_every_term_is_read_once_and_nothing_else_is(loops, places):
    every, found = offsets(loops), fours(loops, places)
    assert sorted(k for k in found.slots.reshape(-1) if k >= 0) == list(range(every.size))
    assert len(found.starts) == len(found.slots)
    assert len(found.starts) % 4 == 0
    words = set(every)
    for start, row in zip(found.starts, found.slots, strict=True):
        reach = [0, found.d1, found.d2, found.d1 + found.d2]
        for k, by in zip(row, reach, strict=True):
            assert start + by in words
            assert k < 0 or every[k] == start + by


def turns(found, places):
    """The reads of each step that are made one after the other, for eight places."""
    counts = []
    for step in np.reshape(found.starts, (-1, 4)):
        words = np.unique(places[:, None] + step)
        counts.append(np.bincount(words % 32).max())
    return np.array(counts)


@pytest.mark.parametrize("pitch", [2475, 1001, 341])
@pytest.mark.parametrize("terms", [64, 100, 500, 780])
def test_terms_of_a_layer_lie_in_different_banks(pitch, terms):
    places = pitch * np.arange(8)
    counts = turns(fours([Dim(terms, 1)], places[None]), places)
    assert np.median(counts) == 1
    assert counts.mean() < 1.3


def test_terms_of_windows_lie_in_different_banks():
    places = np.arange(8)
    assert turns(fours([Dim(16, 900), Dim(3, 30), Dim(3, 1)], places[None]), places).mean() < 1.3


@given(dims(), rows(), st.sampled_from(["highest", "high", "medium"]), st.integers(1, 3))
def test_packed_weights_are_the_weights(loops, places, precision, groups):
    found, n = fours(loops, places), 11
    w = RNG.standard_normal((groups, n, offsets(loops).size)).astype("f4")
    raw = packed(w, found.slots, 2, precision, 0)
    parts = 2 if precision == "highest" else 1
    steps = raw.view(np.uint16).reshape(groups, 2, found.steps, 8, 4, parts, 2, 2)
    if precision == "medium":
        numbers = (steps.astype(np.uint32) << 16).view(np.float32)
    else:
        numbers = steps.view(np.float16).astype(np.float64)
    # group, tile, output of the tile, step, lane, half, term of the pair
    total = numbers.sum(5).transpose(0, 1, 3, 2, 4, 5, 6).reshape(groups, 16, -1)
    slots = found.slots.reshape(-1)
    assert not total[:, n:].any()
    assert not total[:, :, slots < 0].any()
    got = np.empty((groups, n, offsets(loops).size))
    got[:, :, slots[slots >= 0]] = total[:, :n, slots >= 0]
    if precision != "medium":  # each output has a scale of its own
        scale = np.abs(w).max(-1) / np.abs(got).max(-1)
        scale = 2.0 ** np.round(np.log2(scale))
        got *= scale[..., None]
    error = {"highest": 2**-21, "high": 2**-10, "medium": 2**-8}[precision]
    assert np.abs(got - w).max() <= error * np.abs(w).max()


@given(dims())
def test_loops_that_count_words(loops):
    table = offsets(loops)
    base, found = strided(table)
    assert (offsets([Dim(size, step) for size, step in found]) + base == table).all()


def test_no_loops_for_words_here_and_there():
    assert strided(np.array([0, 1, 5, 7, 8])) is None


def maps_of(graph, halves=False):
    return Maps.of(prepare(graph), halves)


# --- the kernel -----------------------------------------------------------------------------


def error_of(got, want):
    return np.abs(got - want).max(initial=0) / max(1e-30, np.abs(want).max(initial=0))


def problem(data):
    """A network, the shape of its slices, some of them along an axis, and a plan."""
    net, shape = data.draw(networks_of_layers(), label="net")
    x, axis = data.draw(arrays(math.prod(shape), "float32"), label="x")
    x = x[tuple(slice(None) if a == axis else slice(6) for a in range(x.ndim))]
    return net, shape, np.ascontiguousarray(x), axis, data.draw(st.sampled_from(PLANS), "plan")


def results_last(graph, y, axis):
    """Results with their own axes behind those of the slices."""
    k = len(graph.result.shape)
    return np.moveaxis(y, range(axis, axis + k), range(-k, 0))


@pytest.mark.kernels
@settings(deadline=None)
@given(data=st.data())
def test_as_torch(data):
    net, shape, x, axis, plan = problem(data)
    careful, backwards = (data.draw(st.booleans(), label=k) for k in ("careful", "backwards"))
    graph = graph_of(net, shape)
    reason = feature_maps.why_not(graph, Target("mma", "highest"))
    if reason is not None:
        if "do not fit" in reason:
            assert maps_of(graph).words > 30_000
        else:
            assert reason.startswith(REFUSED)
        return
    try:
        y = host_maps.run_maps(graph, x, axis, plan=plan, careful=careful, backwards=backwards)
    except Refused:  # what was drawn does not fit in shared memory
        y = host_maps.run_maps(graph, x, axis, careful=careful, few=backwards)
    y = results_last(graph, y, axis)
    want = by_torch(net, shape, x, axis)
    # relative to the largest, and to what biases and weights of about one make; a norm of numbers
    # that hardly differ enlarges what any float32 loses
    scale = max(0.1, np.abs(want).max())
    lost = lost_in_float32(net, shape, x, axis, want)
    np.testing.assert_allclose(y, want, rtol=0, atol=5e-6 * scale + 4 * lost)


@pytest.mark.parametrize("pool", [nn.AvgPool1d(1, 2), nn.MaxPool1d(1, 2), nn.AvgPool1d(3)])
@pytest.mark.parametrize("after", [nn.Identity(), nn.Sigmoid()])
@pytest.mark.parametrize("careful", [False, True])
def test_pools(pool, after, careful):
    """Those of one number have no numbers to join."""
    net = network(nn.Conv1d(1, 3, 2), after, pool)
    x = RNG.standard_normal((4, 9)).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 9)), x, 1, careful=careful)
    assert error_of(y, by_torch(net, (1, 9), x, 1)) < 2e-6


@pytest.mark.kernels
@settings(deadline=None)
@given(data=st.data())
def test_as_torch_in_16_bits(data):
    net, shape, x, axis, plan = problem(data)
    precision, bits = data.draw(st.sampled_from([("high", 11), ("medium", 8)]), label="precision")
    graph = graph_of(net, shape)
    if feature_maps.why_not(graph, Target("mma", precision)) is not None:
        return
    try:
        y = host_maps.run_maps(graph, x, axis, precision, plan)
    except Refused:
        y = host_maps.run_maps(graph, x, axis, precision)
    y = results_last(graph, y, axis)
    want = by_torch(net, shape, x, axis)
    # what float32 loses, with so many bits less
    scale = max(1, np.abs(want).max())
    lost = lost_in_float32(net, shape, x, axis, want)
    np.testing.assert_allclose(
        y, want, rtol=0, atol=2.0**-bits * 16 * scale + 2 ** (24 - bits) * lost
    )


@pytest.mark.parametrize(("precision", "most"), [("high", 3e-3), ("medium", 3e-2)])
def test_precisions(precision, most):
    net, shape = classic()
    x = RNG.standard_normal((5, math.prod(shape))).astype("f4")
    y = host_maps.run_maps(graph_of(net, shape), x, 1, precision)
    assert 1e-6 < error_of(y, by_torch(net, shape, x, 1)) < most


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9, 1e30])
def test_numbers_beyond_the_range_of_float16(scale):
    """One slice leaves the range: its block runs again in float32."""
    net = network(nn.Conv1d(2, 5, 3, bias=False), nn.ReLU(), nn.Conv1d(5, 3, 4, bias=False))
    x = RNG.standard_normal((6, 2 * 20)).astype("f4")
    x[3] *= np.float32(scale)
    y = host_maps.run_maps(graph_of(net, (2, 20)), x, 1, plan=PLANS[1])
    want = by_torch(net, (2, 20), x, 1)
    for k in range(6):
        assert error_of(y[k], want[k]) < 2e-6


def scaled_cases():
    layers = nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3)
    yield "joined sums", network(*layers, nn.LeakyReLU(), nn.Conv2d(4, 2, 1)), (1, 14, 12)
    yield "copies", network(Joined(nn.Conv2d(1, 2, 3, padding=1), "all"), *layers[1:3]), (1, 8, 9)
    mean = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    yield "a mean", network(*layers, nn.GELU(), *mean), (1, 14, 12)


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("scale", [1e-9, 1e-6, 2e-3, 1, 300, 1e4])
@pytest.mark.parametrize("case", [*scaled_cases()], ids=lambda case: case[0])
def test_slices_out_of_range_are_scaled_again(case, scale, precision):
    """All maps are, by the same number: tensor cores multiply them then, and biases count."""
    net, shape = copy.deepcopy(case[1]), case[2]
    x = (np.random.default_rng(0).standard_normal((5, math.prod(shape))) * scale).astype("f4")
    most = 2e-6 if precision == "highest" else 8e-3
    if scale < 1:  # what is small stays small
        for name, p in net.named_parameters():
            if name.endswith("bias"):
                p.mul_(scale)
    y = host_maps.run_maps(graph_of(net, shape), x, 1, precision, careful=None)
    want = by_torch(net, shape, x, 1).reshape(y.shape)
    assert error_of(y, want) < most
    # the next slices of a block find everything as it was
    mixed = np.concatenate([x, x / np.float32(scale), x])
    y = host_maps.run_maps(graph_of(net, shape), mixed, 1, precision, PLANS[1])
    want = by_torch(net, shape, mixed, 1).reshape(y.shape)
    for k in range(len(mixed)):
        assert error_of(y[k], want[k]) < most


@pytest.mark.parametrize("small", [1e-30, 1e-17, 1e12])
def test_what_follows_slices_out_of_range(small):
    """Scales are what they were for the next slices of a block, whatever became of them."""
    last = nn.Conv1d(5, 3, 4, bias=False)
    net = network(nn.Conv1d(2, 5, 3, bias=False), nn.ReLU(), last)
    last.weight.mul_(1e-13)
    x = RNG.standard_normal((16, 40)).astype("f4")
    x[:2] *= np.float32(small)
    y = host_maps.run_maps(graph_of(net, (2, 20)), x, 1, plan=PLANS[1])
    want = by_torch(net, (2, 20), x, 1)
    for k in range(2, 16):
        assert error_of(y[k], want[k]) < 2e-6


@pytest.mark.parametrize("after", [nn.ReLU, nn.Tanh])
def test_small_numbers_are_looked_for_where_maps_are_scaled_down(after):
    """Biases that hide what small numbers lose are small, too, then."""
    torch.manual_seed(0)
    second, third = nn.Conv1d(5, 5, 3), nn.Conv1d(5, 5, 3)
    layers = nn.Conv1d(2, 5, 3), nn.ReLU(), second, after(), third, after()
    net = network(*layers, nn.Conv1d(5, 3, 4, bias=False))
    second.weight.mul_(1e-6)
    for layer in second, third:
        layer.bias.uniform_(0.02, 0.04)
    x = (RNG.standard_normal((4, 40)) * 1e4).astype("f4")
    y = host_maps.run_maps(graph_of(net, (2, 20)), x, 1, plan=PLANS[1])
    want = by_torch(net, (2, 20), x, 1)
    assert error_of(y, want) < 3e-6


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_infinities_and_nan(odd):
    net, shape = classic()
    graph = graph_of(net, shape)
    x = RNG.standard_normal((5, math.prod(shape))).astype("f4")
    x[2, 40] = odd
    y = host_maps.run_maps(graph, x, 1, plan=PLANS[1])
    with torch.no_grad():
        want = net[0](torch.tensor(x).reshape(-1, *shape)).numpy()
    np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-5)
    assert np.isfinite(want[[0, 1, 3, 4]]).all()
    if np.isnan(odd):
        assert np.isnan(want[2]).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_infinities_and_nan_with_the_least_precision(odd):
    """A maximum lets NaN through, and no infinity meets the zeros beside weights."""
    pooled = network(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.MaxPool1d(2))
    short = network(nn.Conv1d(1, 2, 5))
    x = RNG.standard_normal((3, 12)).astype("f4")
    x[1, 5] = odd
    for net in (pooled, short):
        y = host_maps.run_maps(graph_of(net, (1, 12)), x, 1, "medium")
        want = by_torch(net, (1, 12), x, 1)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(y), np.isinf(want))


def biased(conv, bias):
    conv.bias.fill_(bias)
    return conv


SMALL = {
    "sigmoid": lambda: [nn.Conv1d(1, 4, 3), -20.0, nn.Sigmoid()],
    "GELU": lambda: [nn.Conv1d(1, 4, 3), -6.0, nn.GELU()],
    "ReLU": lambda: [nn.Conv1d(1, 4, 3), -9.0, nn.ReLU()],
    "a factor, and a pool": lambda: [
        nn.Conv1d(1, 4, 3),
        0.1,
        nn.ReLU(),
        Times(),
        nn.MaxPool1d(3, 1),
    ],
    "means": lambda: [nn.AvgPool1d(3, 1), None, Times()],
}


class Times(nn.Module):
    def forward(self, x):
        return x * 1e-8


@pytest.mark.parametrize("name", SMALL)
def test_small_numbers_that_layers_make(name):
    """What no bias hides is looked for behind every layer."""
    torch.manual_seed(0)
    first, bias, *rest = SMALL[name]()
    if bias is not None:
        first.requires_grad_(False).bias.fill_(bias)
    net = network(first, *rest, nn.Conv1d(1 if bias is None else 4, 3, 3, bias=False))
    x = RNG.standard_normal((4, 24)).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 24)), x, 1)
    assert error_of(y, by_torch(net, (1, 24), x, 1)) < 5e-6


@pytest.mark.parametrize("shared", [99 << 10, 163 << 10, 227 << 10])
def test_plans_fit_in_less_shared_memory(shared):
    """Tables that are known late make a plan smaller, and are no reason for none."""
    first = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    net = network(*first, *second, nn.Flatten(), nn.Linear(64 * 64, 10))
    graph = graph_of(net, (3, 32, 32))
    target = Target("mma", "highest", shared=shared)
    assert feature_maps.map_kernel(graph, Access(1, 0, dense=True), target).shared <= shared


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_dtypes_of_the_input(dtype):
    net, shape = classic()
    x = (RNG.standard_normal((4, math.prod(shape))) * 9).astype(dtype)
    graph = graph_of(net, shape, dtype)
    y = host_maps.run_maps(graph, x, 1)
    assert error_of(y, by_torch(net, shape, x.astype("f4"), 1)) < 2e-6


@pytest.mark.parametrize("up", ["transposed", "nearest"])
@pytest.mark.parametrize("few", [False, True])
def test_networks_that_go_down_and_up(up, few):
    net = network(Hourglass(up))
    x = RNG.standard_normal((3, 96)).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 8, 12)), x, 1, few=few)
    assert error_of(y, by_torch(net, (1, 8, 12), x, 1)) < 2e-6


def test_no_zeros_between_numbers():
    """A transposed convolution whose steps divide its taps is one of the numbers as they are."""
    graph = graph_of(network(nn.ConvTranspose2d(4, 3, 4, 2, 1)), (4, 6, 6))
    assert graph.flops() // 2 < 4 * 3 * 4 * 49 * 4 + 1000
    assert maps_of(graph).words < 4 * 8 * 8 + 2 * 3 * 4 * 49 + 1000


@pytest.mark.parametrize("cut", [None, {1: 4}])
def test_slices_of_bfloat16(cut):
    """Which neither NumPy nor CuPy has."""
    net = network(nn.Conv1d(1, 3, 5, padding=2), nn.ReLU(), nn.Conv1d(3, 2, 3, padding=1))
    bits = (RNG.standard_normal((7, 30)).astype("f4").view("u4") >> 16).astype("u2")
    graph = graph_of(net, (1, 30), "bfloat16")
    tiles = None if cut is None else tiled(graph, cut)
    y = host_maps.run_maps(graph if tiles is None else tiles.graph, bits, 1, tiles=tiles)
    x = (bits.astype("u4") << 16).view("f4")
    assert error_of(y, by_torch(net, (1, 30), x, 1)) < 2e-6


def test_padded_maps_are_written_in_place():
    """What is padded is no copy: the padded map alone has words."""
    net = network(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 2, 5, padding=2))
    maps = maps_of(graph_of(net, (1, 50)))
    assert len(maps.homes) == 2
    assert maps.words <= 52 + 4 * 54 + 100


def test_words_are_pairs_where_products_alone_read_them():
    layers = [nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Conv1d(4, 4, 5), nn.Tanh(), nn.Conv1d(4, 2, 2)]
    graph = graph_of(network(*layers), (1, 30))
    assert len(maps_of(graph, halves=True).pairs) == 3
    assert not maps_of(graph).pairs
    beside = Residual(nn.Conv1d(1, 1, 3, padding=1), nn.ReLU())  # the sum reads numbers, too
    first, second = nn.Conv1d(1, 1, 3, padding=1), nn.Conv1d(1, 2, 3)
    pairs = maps_of(graph_of(network(first, beside, second), (1, 30)), halves=True).pairs
    assert len(pairs) == 2


def test_a_division_behind_a_sum_is_no_step_of_its_own():
    net = network(nn.Conv1d(1, 4, 3), nn.Tanh(), nn.AvgPool1d(4), nn.Conv1d(4, 2, 2))
    maps = maps_of(graph_of(net, (1, 30)))
    assert [s.product is not None for s in maps.steps] == [False, True, True]
    assert len(maps.behind) == 1


@pytest.mark.parametrize("pool", [nn.MaxPool1d(2), nn.AvgPool1d(2)])
def test_a_part_of_a_pool_is_not_joined_with_it(pool):
    net = network(nn.Conv1d(1, 3, 2), pool, Reordered("narrow"))
    x = RNG.standard_normal((4, 9)).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 9)), x, 1)
    assert error_of(y, by_torch(net, (1, 9), x, 1)) < 2e-6


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_few_slices_and_threads_in_another_order(few, backwards):
    net, shape = classic()
    graph = graph_of(net, shape)
    x = RNG.standard_normal((3, math.prod(shape))).astype("f4")
    y = host_maps.run_maps(graph, x, 1, few=few, backwards=backwards)
    assert error_of(y, by_torch(net, shape, x, 1)) < 2e-6


def test_long_sums_of_few_results_lose_nothing():
    """A warp adds them up: no thread has thousands of terms one after the other."""
    net = network(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2))
    x = (RNG.standard_normal((2, 48 * 48)) + 3).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 48, 48)), x, 1)
    want = by_torch(net, (1, 48, 48), x, 1)
    assert error_of(y, want) < 2e-6


@pytest.mark.parametrize("how", ["twice", "around"])
def test_maps_that_are_joined_with_themselves_have_no_pairs(how):
    """Numbers of several turns: what memory held before is no NaN by which it would show."""
    last = nn.Conv1d(4, 3, 2) if how == "twice" else nn.Conv1d(2, 3, 3)
    net = network(nn.Conv1d(1, 2, 3), nn.ReLU(), Joined(nn.Identity(), how), last)
    x = RNG.standard_normal((40, 12)).astype("f4")
    want = by_torch(net, (1, 12), x, 1)
    for precision, most in (("highest", 2e-6), ("high", 3e-3), ("medium", 3e-2)):
        y = host_maps.run_maps(graph_of(net, (1, 12)), x, 1, precision, Plan(1, 1, 1, True))
        assert error_of(y, want) < most


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_a_part_of_the_result_that_a_product_reads(precision):
    net = network(nn.Conv1d(1, 2, 3), Joined(nn.Conv1d(2, 2, 1), "all"))
    x = (0.3 * RNG.standard_normal((5, 12))).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 12)), x, 1, precision)
    assert error_of(y, by_torch(net, (1, 12), x, 1)) < (2e-6 if precision == "highest" else 3e-3)


class Inverse(nn.Module):
    def forward(self, x):
        return 1e-7 / x


def test_small_numbers_behind_a_division():
    net = network(nn.Conv1d(1, 2, 3, bias=False), Inverse(), nn.Conv1d(2, 3, 3, bias=False))
    for weights in net.parameters():
        weights.abs_()
    x = (np.abs(RNG.standard_normal((5, 12))) + 1).astype("f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = host_maps.run_maps(graph_of(net, (1, 12)), x, 1)
    assert error_of(y, by_torch(net, (1, 12), x, 1)) < 5e-6


def test_room_for_pairs_is_no_reason_for_no_kernel():
    graph = graph_of(network(nn.Conv2d(4, 1, 1)), (4, 100, 100))
    for precision in ("highest", "high", "medium"):
        assert feature_maps.why_not(graph, Target("mma", precision)) is None


@pytest.mark.parametrize("plan", [Plan(1, 8, 3, True), Plan(1, 16, 5, True)])
def test_warps_that_no_power_of_two_counts(plan):
    net = network(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.Conv1d(2, 3, 3))
    x = RNG.standard_normal((20, 12)).astype("f4")
    y = host_maps.run_maps(graph_of(net, (1, 12)), x, 1, plan=plan)
    assert error_of(y, by_torch(net, (1, 12), x, 1)) < 2e-6


def test_blocks_of_residual_networks():
    """What is added before a pool is read place by place."""
    inner = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
    block = Residual(inner, nn.ReLU())
    for pool in (nn.AvgPool2d(2), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)):
        net = network(nn.Conv2d(1, 4, 3, padding=1), nn.PReLU(4), block, pool)
        x = RNG.standard_normal((3, 64)).astype("f4")
        y = host_maps.run_maps(graph_of(net, (1, 8, 8)), x, 1)
        assert error_of(y, by_torch(net, (1, 8, 8), x, 1)) < 2e-6


def test_what_does_not_fit():
    net = network(nn.Conv2d(64, 64, 3, padding=1))
    reason = feature_maps.why_not(graph_of(net, (64, 64, 64)), Target("mma", "highest"))
    assert "do not fit in" in reason


def test_no_kernel_without_a_product():
    reason = feature_maps.why_not(graph_of(network(nn.MaxPool1d(2)), (1, 8)), Target("mma", "high"))
    assert reason == "no product with a matrix of weights"


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a", "sm_100"])
@pytest.mark.parametrize(
    "access", [Access(1, 0, dense=True), Access(0, 1, dense=True), Access(2, 1, wide=True)]
)
def test_compiles(architecture, precision, access):
    pytest.importorskip("cupy")
    import nvrtc

    net, shape = classic()
    text = feature_maps.map_kernel(graph_of(net, shape), access, Target("mma", precision))
    assert nvrtc.compile_plain(text.source, architecture)


def barriers(net, shape):
    """How often a block waits for all its threads."""
    text = feature_maps.map_kernel(
        graph_of(net, shape), Access(1, 0, dense=True), Target("mma", "highest")
    )
    return text.source.count("__syncthreads();")


def test_nobody_waits_before_a_border_is_written():
    def convolutions(padding):
        return network(
            nn.Conv1d(1, 4, 3, padding=padding), nn.ReLU(), nn.Conv1d(4, 3, 3, padding=padding)
        )

    assert barriers(convolutions(1), (1, 20)) == barriers(convolutions(0), (1, 20))


def test_few_slices_have_a_block_each():
    graph, access = graph_of(*classic()), Access(1, 0, dense=True)
    many, few = (
        feature_maps.map_kernel(graph, access, Target("wgmma", "highest", 232448, few))
        for few in (False, True)
    )
    assert (many.slices, few.slices) == (16, 1)
    assert many.packing != few.packing  # weights are packed for each
