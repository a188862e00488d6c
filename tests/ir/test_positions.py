"""argmax and argmin: lifted, batched and run everywhere; NaN, ties and signed zeros as in NumPy."""

import itertools
import sys

import host_cxx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import testing
from xpapply.backends import array_api
from xpapply.codegen import chain, reduction, scalar_network
from xpapply.codegen.access import Access
from xpapply.frontends import find
from xpapply.ir.builder import Builder
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.rewrite import compact, fold
from xpapply.testing import assert_parity, error_analysis

POSITIONS = ("argmax", "argmin")
NUMBERS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1.5)
ROWS = np.array(list(itertools.product(NUMBERS, repeat=4)), np.float32)
"""All slices of four such numbers."""


def module(forward):
    """A torch module without parameters."""
    import torch

    class Of(torch.nn.Module):
        def forward(self, x):
            return forward(x)

    return Of()


def classifier(name="argmax", widths=(4, 7, 3)):
    """A network that ends with a class label; its weights are small integers."""
    import torch

    class Label(torch.nn.Module):
        def forward(self, x):
            return getattr(torch, name)(x, -1)

    layers = []
    generator = torch.Generator().manual_seed(sum(widths))
    for m, n in itertools.pairwise(widths):
        layer = torch.nn.Linear(m, n)
        with torch.no_grad():  # sums are exact, and equal ones abound
            layer.weight.copy_(torch.randint(-2, 3, (n, m), generator=generator))
            layer.bias.copy_(torch.randint(-2, 3, (n,), generator=generator))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1], Label()).eval()


def whole_numbers(*shape):
    return np.random.default_rng(len(shape)).integers(-2, 3, shape).astype("f")


def graph_of(f, features, dtype="float32"):
    return compact(fold(find(f).lift(f, ShapeDtype((features,), dtype), (), {})))


def position_graph(name, shape, axis, dtype="float32", keepdims=False):
    builder = Builder()
    x = builder.input(ShapeDtype((int(np.prod(shape)),), dtype))
    y = builder.op("reshape", x, shape=shape)
    return builder.graph(builder.op(name, y, axis=(axis,), keepdims=keepdims))


def on_host(graph, x, axis, rows=1):
    """Slices along the last or the first axis of a matrix, by the text of the CUDA kernel."""
    slices = x.size // x.shape[axis]
    result = graph.result.shape
    shape = (*result, slices) if axis == 0 else (slices, *result)
    out = np.full(shape, -7, np.int64)
    host_cxx.run_network(graph, x, axis, out, rows)
    return out


# --- engines --------------------------------------------------------------------------


@pytest.mark.parametrize("name", POSITIONS)
def test_special_values(xp, torch, name):
    """The first NaN, or else the first of those that are equal, signed zeros among them."""
    net = xp.module(module(lambda x: getattr(torch, name)(x, -1)))
    for arr, axis in ((ROWS, 1), (np.ascontiguousarray(ROWS.T), 0), (ROWS.reshape(64, 64, 4), -1)):
        with xp():
            got = xpapply.apply_along_axis(net, axis, xp.array(arr))
        want = getattr(np, name)(arr, axis)
        np.testing.assert_array_equal(xp.numpy(got), want)
        assert xp.numpy(got).dtype == ("int32" if xp.name == "jax" else "int64")


@pytest.mark.parametrize("name", POSITIONS)
def test_ties_of_a_network(xp, torch, name):
    net = xp.module(classifier(name))
    for axis in range(3):
        shape = [6, 5, 8]
        shape[axis] = 4
        arr = whole_numbers(*shape)
        with xp():
            got = assert_parity(net, axis, xp.array(arr))
        weights = classifier(name).double()
        want = np.apply_along_axis(
            lambda v, f=weights: f(torch.from_numpy(v)), axis, arr.astype(float)
        )
        np.testing.assert_array_equal(xp.numpy(got), want)


# the standard has no float16
@pytest.mark.no_such_case(
    lambda quick_xp, dtype: (quick_xp.name, dtype) == ("array_api_strict", "float16")
)
@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int64", "bool"])
def test_dtypes(quick_xp, torch, dtype):
    """The result is int64, whatever the dtype of the array."""
    arr = whole_numbers(50, 4).astype(dtype)
    net = classifier("argmin")
    net = quick_xp.module(net.double() if dtype == "float64" else net)
    with quick_xp():
        assert quick_xp.numpy(assert_parity(net, 1, quick_xp.array(arr))).dtype == "int64"


def test_nearly_equal_float64(quick_xp, torch):
    """Numbers that float32 does not tell apart."""
    arr = np.array([[1.0, 1 + 1e-12, 1.0, 1 - 1e-12]] * 3)
    largest, smallest = (
        quick_xp.module(module(lambda x, f=f: f(x, -1))) for f in (torch.argmax, torch.argmin)
    )
    with quick_xp():
        got = [xpapply.apply_along_axis(f, 1, quick_xp.array(arr)) for f in (largest, smallest)]
    assert [quick_xp.numpy(y).tolist() for y in got] == [[1] * 3, [3] * 3]


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("keepdims", [False, True])
def test_every_axis_of_a_value(quick_xp, torch, name, axis, keepdims):
    arr = whole_numbers(9, 24)
    arr[arr == 2] = np.nan
    net = module(lambda x: getattr(x.reshape(2, 3, 4), name)(axis, keepdim=keepdims))
    with quick_xp():
        got = assert_parity(quick_xp.module(net), 1, quick_xp.array(arr))
    want = getattr(np, name)(arr.reshape(9, 2, 3, 4), axis + 1, keepdims=keepdims)
    np.testing.assert_array_equal(quick_xp.numpy(got), want)


# --- lifting --------------------------------------------------------------------------

FORWARDS = {
    "all": lambda t, x: x.reshape(2, 3).argmax(),
    "all, dims kept": lambda t, x: t.argmin(x.reshape(2, 3), keepdim=True),
    "batch": lambda t, x: t.argmax(x.reshape(1, 6), dim=1),
    "indices of max": lambda t, x: t.max(x, dim=-1).indices,
    "indices of min": lambda t, x: x.reshape(2, 3).min(1, keepdim=True)[1],
    "values of max": lambda t, x: x.reshape(2, 3).max(dim=0).values,
    "both, unpacked": lambda t, x: (lambda v, i: v + i)(*x.reshape(2, 3).max(1)),
    "max of two": lambda t, x: t.max(x, -x) + t.min(x, x * 2),
    "as a number": lambda t, x: x.argmax(-1).float() / 5,
    "long": lambda t, x: x.argmax(-1).long(),
    "two labels": lambda t, x: (x.argmax(-1), x.argmin(-1)),
    "joined": lambda t, x: t.cat([x.reshape(2, 3).argmax(1), x.reshape(3, 2).argmin(1)]),
    "compared": lambda t, x: x[:3].argmax() == x[3:].argmax(),
    "a class": lambda t, x: (x.argmax() == 3) | (x.argmin() < 1.5),
    "chosen by a mask": lambda t, x: t.where(x.argmax() == x.argmin(), x, -x),
    "of labels": lambda t, x: x.reshape(2, 3).argmax(1).argmax(),
    "of softmax": lambda t, x: t.softmax(x, -1).argmax(-1),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_forwards(torch, name):
    net = module(lambda x: FORWARDS[name](torch, x))
    arr = whole_numbers(4, 6, 5)
    for library in (arr, torch.from_numpy(arr)):
        plan = xpapply.explain(net, 1, library)
        assert plan.graph is not None, plan
        assert_parity(net, 1, library)


REFUSED = {
    "truth values": lambda t, x: (x > 0).argmax(),
    "beside other values": lambda t, x: t.max(x.reshape(2, 3), 1),
    "an index": lambda t, x: x[x.argmax()],
    "arithmetic": lambda t, x: x.argmax() + 1,
    "variance": lambda t, x: x.reshape(2, 3).argmax(1).float().var() + (x > 0).var(),
    "several dims": lambda t, x: t.argmax(x.reshape(2, 3), (0, 1)),
    "wrong dim": lambda t, x: x.argmax(2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(torch, name):
    net = module(lambda x: REFUSED[name](torch, x))
    with pytest.raises((xpapply.UnsupportedError, xpapply.InputError)):
        xpapply.lift(net, (6,))


FUNCTIONS = {
    "argmax": (lambda v: np.argmax(v), True),
    "method": (lambda v: v.argmin(), True),
    "axis": (lambda v: np.argmax(v.reshape(2, 3), axis=-1), True),
    "all": (lambda v: v.reshape(2, 3).argmin(), True),
    "dims kept": (lambda v: np.argmax(v.reshape(2, 3), axis=0, keepdims=True), True),
    "all, dims kept": (lambda v: np.argmin(v.reshape(2, 3), keepdims=True), True),
    "of what is computed": (lambda v: np.argmax(np.exp(v) / np.exp(v).sum()), True),
    "in a list": (lambda v: [v.max(), v.argmax()], True),
    "float": (lambda v: v.argmax() * 0.5, True),
    "index": (lambda v: v[v.argmax()], False),
    "slice": (lambda v: v[v.argmax() :].sum(), False),
    "of integers": (lambda v: v.astype(int).argmax(), False),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(torch, name):
    f, lowered = FUNCTIONS[name]
    arr = whole_numbers(5, 6).astype(float)
    arr[1, 2:4] = np.nan
    if name == "of integers":
        arr = np.nan_to_num(arr)
    want = np.apply_along_axis(f, 1, arr)
    got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype
    if not lowered:
        with pytest.raises(xpapply.UnsupportedError):
            xpapply.lift(f, (6,), "float64")
        return
    assert str(xpapply.lift(f, (6,), "float64").result.dtype) == want.dtype
    for engine in ("array_api", "torch"):
        with xpapply.options(engine=engine):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)


# --- parity of positions --------------------------------------------------------------


def nearly(values, error=0.0, dtype="float32", name="argmax"):
    """Which positions parity accepts for these numbers, with errors of their own."""
    x = np.array(values, float).reshape(-1, 1)
    sign = 1 if name == "argmax" else -1
    away = error_analysis._positions(
        sign * x, np.full(x.shape, error), error_analysis.ROUNDOFF[dtype]
    )
    return int(testing.SAFETY * away[0])


def test_positions_that_may_be_found():
    """Only numbers that rounding errors may make the largest; of equal ones, the first."""
    assert nearly([1, 3, 3, 3]) == 0
    assert nearly([1, 3, 2, 3], 0.01) == 2
    assert nearly([3, 2, 1, 2.9]) == 0
    assert nearly([3, 2, 1, 2.9], 0.01) == 3
    assert nearly([np.nan, 3, np.nan], 0.01) == 0
    assert nearly([1, np.inf, 3, np.inf], 0.01) == 0
    assert nearly([-np.inf, -np.inf]) == 0
    assert nearly([1e39, 2e39]) == 1  # infinite in float32, so that the first one wins
    assert nearly([1e39, 2e39], dtype="float64") == 0
    assert nearly([3, 1.1, 1, 2], 0.01, name="argmin") == 1


@given(data=st.data())
def test_positions_that_are_found(data):
    """What noise within the errors finds is accepted."""
    n = data.draw(st.integers(1, 6))
    x = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n)), float)
    e = np.array(data.draw(st.lists(st.sampled_from([0, 0.1, 1]), min_size=n, max_size=n)))
    noise = np.array(data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=n, max_size=n)))
    away = error_analysis._positions(x.reshape(-1, 1), e.reshape(-1, 1), 2.0**-24)[0]
    found = np.argmax(x + noise * e * testing.SAFETY)
    assert abs(found - np.argmax(x)) <= testing.SAFETY * away


def test_wrong_positions_are_noticed(torch, monkeypatch):
    net, arr = classifier(), whole_numbers(40, 4)
    right = xpapply.apply_along_axis
    for wrong in (lambda y: 2 - y, lambda y: np.where(y == 1, 0, y), lambda y: y.astype("i4")):
        monkeypatch.setattr(testing.parity, "apply_along_axis", lambda *a, w=wrong: w(right(*a)))
        with pytest.raises(AssertionError, match="got"):
            assert_parity(net, 1, arr)


# --- generated code -------------------------------------------------------------------


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_special_values_on_the_host(name, dtype):
    graph = position_graph(name, (4,), 0, dtype)
    assert scalar_network.why_not(graph) is None
    with np.errstate(invalid="ignore"):
        rows = ROWS.astype(dtype)
    want = getattr(np, name)(rows, 1)
    for count in (1, 4):
        np.testing.assert_array_equal(on_host(graph, rows, 1, count), want)
    np.testing.assert_array_equal(on_host(graph, np.ascontiguousarray(rows.T), 0), want)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_on_the_host(name, axis, keepdims):
    graph = position_graph(name, (2, 3, 4), axis, keepdims=keepdims)
    arr = whole_numbers(9, 24)
    want = getattr(np, name)(arr.reshape(9, 2, 3, 4), axis + 1, keepdims=keepdims)
    np.testing.assert_array_equal(on_host(graph, arr, 1, 3), want)


def test_nearly_equal_float64_on_the_host():
    """A float64 input is compared as such, though nothing is computed."""
    arr = np.array([[1.0, 1 + 1e-12, 1.0, 1 - 1e-12]] * 3)
    for name in POSITIONS:
        got = on_host(position_graph(name, (4,), 0, "float64"), arr, 1)
        np.testing.assert_array_equal(got, getattr(np, name)(arr, 1))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("widths", [(4, 3), (4, 7, 3), (4, 7, 7, 5), (4, 9, 1)])
def test_networks_on_the_host(torch, name, widths):
    net, arr = classifier(name, widths), whole_numbers(50, 4)
    arr[7, 2], arr[9, 1] = np.nan, np.inf
    graph = graph_of(net, 4)
    with xpapply.options(engine="array_api"):
        want = xpapply.apply_along_axis(net, 1, arr)
    for rows in (1, 4):
        np.testing.assert_array_equal(on_host(graph, arr, 1, rows), want)


def test_only_the_network_kernel_takes_them(torch):
    """A reduction kernel joins numbers, and a position is none of them."""
    for net in (classifier(), module(lambda x: x.argmax()), module(lambda x: x.argmax().float())):
        graph = graph_of(net, 4)
        assert scalar_network.why_not(graph) is None
        assert reduction.reduction_kernel(graph) is None
    graph = graph_of(module(lambda x: x.sum(0, keepdim=True).argmax()), 4)
    assert reduction.reduction_kernel(graph) is None


def test_wide_classifier_is_a_chain(torch):
    graph = graph_of(classifier("argmax", (64, 200, 200, 10)), 64)
    stages = chain.stages(graph)
    assert stages is not None
    assert stages[-1].kind == "kernel"
    assert stages[-1].graph.result == ((), "int64")
    assert any(n.op == "argmax" for n in stages[-1].graph.nodes)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the NVRTC wheels are for Linux")
@pytest.mark.parametrize("name", POSITIONS)
def test_nvrtc_compiles_them(cupy, torch, name, pairs):
    import nvrtc

    accesses = Access(1, 0, True), Access(2, 1, False, True, True)
    forms = [
        (graph, access)
        for dtype in ("float32", "float16", "float64")
        for graph in (graph_of(classifier(name), 4, dtype), position_graph(name, (2, 4), 1, dtype))
        for access in accesses
    ]
    for (graph, access), architecture in pairs(forms, nvrtc.ARCHITECTURES):
        source = nvrtc.elementwise_source(scalar_network.network_kernel(graph, access, 2))
        assert len(nvrtc.compile_source(source, architecture)) > 1000


# --- GPU ------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", POSITIONS)
def test_long_slices_with_many_nan_on_a_gpu(cupy, name):
    """In blocks, by CuPy's own operations: many threads look at one slice."""
    from xpapply.backends.cupy.launch import Calls

    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (3000, 7)).astype("f")
    x[rng.random(x.shape) < 0.01] = np.nan
    x[:, :2] = np.nan_to_num(x[:, :2])
    want = getattr(np, name)(x, 0)
    out = cupy.full(7, -1)
    for target in (None, out):
        got = Calls().reduce(name, cupy.asarray(x), (0,), False, target)
        np.testing.assert_array_equal(got.get(), want)
        assert got.dtype == "int64"
    got = array_api.position(cupy, name, cupy.asarray(x), 0, True)
    np.testing.assert_array_equal(got.get(), want[None])


@pytest.mark.gpu
@pytest.mark.parametrize("widths", [(4, 7, 3), (16, 32, 32, 10), (64, 200, 200, 10), (3000, 4)])
@pytest.mark.parametrize("slices", [1, 1000, 41_003])
def test_classifiers_on_a_gpu(cupy, torch, widths, slices):
    """The network kernel, cuBLAS in blocks, and few long slices."""
    net, arr = classifier("argmax", widths), whole_numbers(slices, widths[0])
    arr[slices // 2, 1] = np.nan
    with xpapply.options(engine="numpy"):
        want = xpapply.apply_along_axis(net, 1, arr)
    for array, axis in ((arr, 1), (np.ascontiguousarray(arr.T), 0)):
        got = xpapply.apply_along_axis(net, axis, cupy.asarray(array))
        assert got.dtype == "int64"
        np.testing.assert_array_equal(got.get(), want)
    with torch.no_grad():
        tensor = xpapply.apply_along_axis(net.cuda(), 1, torch.from_numpy(arr).cuda())
    np.testing.assert_array_equal(tensor.cpu().numpy(), want)
