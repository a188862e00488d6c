"""Small things in kernels' texts and packed weights that change results a little, or rarely."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_cases import COLUMNS, CORES, ROWS, graph_of, kernel, mlp, target

import xpapply
from xpapply.codegen import tensor_network
from xpapply.codegen.cxx import literal
from xpapply.codegen.graph_queries import prepare
from xpapply.codegen.tensor_network.kernel import _Kernel
from xpapply.codegen.tensor_network.packing import _bfloat16, natural


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_literals_are_the_number(x):
    """Nine digits are needed: 8 leave neighbours apart."""
    text = literal(x, "float32").strip("()")
    assert text.endswith("f")
    assert np.float32(text[:-1]).tobytes() == np.float32(x).tobytes()


def test_float32_literals_need_nine_digits():
    x = np.float32(1) + np.float32(2.0**-23)
    assert np.float32(literal(float(x), "float32")[:-1]) == x
    for x in (
        0.1012779250741005,
        0.00010038190521299839,
        105863.0859375,
    ):  # eight digits give a neighbour
        assert np.float32(literal(x, "float32")[:-1]) == np.float32(x)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float64_literals_are_the_number(x):
    assert float(literal(x, "float64").strip("()")) == x


def test_bfloat16_of_weights_is_rounded_to_even(torch):
    """Ties go to the even neighbour, as torch's do."""
    ties = ((np.arange(1 << 16, dtype=np.uint32) << 16) | 0x8000).view(np.float32)
    ties = ties[np.isfinite(ties)]
    around = np.concatenate([ties, np.nextafter(ties, np.float32(0)), -ties])
    finite = around[np.isfinite(around)]
    want = torch.from_numpy(finite).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(_bfloat16(finite), want)
    assert _bfloat16(np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8], "f")).tolist() == [0x3F80, 0x3F82]
    assert np.isnan((_bfloat16(np.array([np.nan], "f")).astype("u4") << 16).view("f")[0])


def decoded(text, consts):
    """The floats of the packed weights."""
    floats = int(re.search(r"factors = \S+(?: \S+\))? \+ (\d+);", text.source)[1])
    return text.pack(consts)[:floats].view(np.float32)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("access", [ROWS, COLUMNS])
@pytest.mark.parametrize("narrow", [1, 2])
def test_biases_around_a_bottleneck(core, access, narrow):
    """Layers to and from one or two numbers are plain multiply-adds, with biases of their own."""
    net = mlp(16, 32, narrow, 24, 4)
    text, graph = kernel(net, 16, core, access=access)
    numbers = decoded(text, graph.consts)
    to, after = net.biases[1], net.biases[2]
    # to a few numbers: added to the sum over the lanes
    sums = set(re.findall(r"= xp_sum4\(s\[p\]\) \+ f\[(\d+)(?: \+ k)?\];", text.source))
    sums |= set(re.findall(r"= s\[q\] \+ f\[(\d+)(?: \+ k)?\];", text.source))
    assert len(sums) == 1, "the bottleneck has a bias"
    at = int(sums.pop())
    np.testing.assert_array_equal(numbers[at : at + narrow], to)
    # from a few: where the sum starts, each feature in its place
    starts = set(
        re.findall(r"float s = f\[(\d+) \+ 8 \* \(?j\)? \+ 2 \* t \+ \(e & 1\)\];", text.source)
    )
    assert len(starts) == 1, "what follows it has one, too"
    at = int(starts.pop())
    np.testing.assert_array_equal(numbers[at : at + 24], after)
    # and their weights
    places = set(re.findall(r"fmaf\(\w+\[m\]\[c\]\[e >> 1\], f\[(\d+) \+ c \* 24 \+ ", text.source))
    assert len(places) == 1
    at = int(places.pop())
    weights = numbers[at : at + 24 * narrow].reshape(narrow, 24)
    np.testing.assert_array_equal(weights, net.weights[2].T)


@pytest.mark.parametrize("core", CORES)
def test_without_biases_a_bottleneck_starts_at_zero(core):
    text, _ = kernel(mlp(16, 32, 2, 24, 4, bias=0), 16, core)
    assert "float s = 0;" in text.source
    assert re.search(r"xp_sum4\(s\[p\]\) \+ 0;|s\[q\] \+ 0;", text.source)


def softmax(torch):
    nn = torch.nn
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 13), nn.Softmax(-1), nn.Linear(13, 3)).eval()


@pytest.mark.parametrize("core", CORES)
def test_places_without_a_feature_take_no_part_in_reductions(torch, core):
    """13 features fill a tile of 8 and five places of another."""
    text = tensor_network.tensor_kernel(graph_of(softmax(torch), 16), ROWS, target(core))
    masks = re.findall(
        r"if \((\d+) >> \(2 \* t \+ \(e & 1\)\) & 1\) (\w+)\[m\]\[(\d)\]\[e\] = ([^;]+);",
        text.source,
    )
    of_13 = [(int(bits), number) for bits, _, tile, number in masks if tile == "1"]
    assert {bits for bits, _ in of_13} == {0b11100000}
    identities = [number for _, number in of_13]
    assert "(-1.0f / 0.0f)" in identities  # of the largest
    assert "0.0f" in identities  # of the sum
    # both exchanges between the four lanes of a slice
    for by in (1, 2):
        assert len(re.findall(rf"__shfl_xor_sync\(XP_WARP, s, {by}\)", text.source)) >= 2


@pytest.mark.parametrize("core", CORES)
def test_joined_values_keep_their_places(torch, core):
    """Two values of 12 features: tiles of 8 places each, the last four of each are none."""
    nn = torch.nn

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(16, 12), nn.Linear(16, 12), nn.Linear(24, 3)

        def forward(self, x):
            return self.c(torch.cat([torch.relu(self.a(x)), torch.tanh(self.b(x))], -1))

    graph = graph_of(Both().eval(), 16)
    graph = prepare(graph)
    made = _Kernel(graph, ROWS, target(core))
    source = made.kernel().source
    values = made.fragments.values.items()
    joined = next(v for i, v in values if graph.nodes[i].op == "concat")
    expected = [*range(12), *[-1] * 4, *range(12, 24), *[-1] * 4]
    assert list(joined.slots) == expected
    places = [int(p) for p in re.findall(rf"{joined.name}\[m\]\[(\d) \+ j\]", source)]
    assert places[:2] == [0, 2]
    products = made.products.packing.products
    product = products[max(products)]
    assert list(product.inputs) == expected


def test_values_that_lie_differently_are_refused(torch):
    """A sum of the input, read by fours, and a product would add other features."""
    nn = torch.nn

    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)) + x)

    graph = prepare(graph_of(Skip().eval(), 16))
    with pytest.raises(tensor_network.Refused, match="laid out differently"):
        _Kernel(graph, ROWS, target("mma"), in_order=False).kernel()
    text = tensor_network.tensor_kernel(graph, ROWS, target("mma"))
    assert not text.packing  # read in order instead


def test_natural_places():
    made = _Kernel(prepare(graph_of(mlp(16, 9), 16)), ROWS, target("mma"))
    assert natural(9) == (*range(9), *[-1] * 7)
    assert natural(8) == tuple(range(8))
    assert natural(9, 4) == (*range(9), *[-1] * 23)
    quads = made.transfers.slots
    assert quads[:8] == (0, 1, 4, 5, 8, 9, 12, 13)
    assert quads[8:] == (2, 3, 6, 7, 10, 11, 14, 15)


def test_precision_says_how_many_factors():
    net = xpapply.MLP([np.ones((16, 16), "f")])
    sizes = [kernel(net, 16, "mma", p)[0].pack([net.weights[0]]).size for p in ("highest", "high")]
    assert sizes[0] - sizes[1] == 16 * 16 * 2
