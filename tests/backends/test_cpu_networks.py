"""Networks as kernels that are compiled for this CPU: where slices lie, how many there are."""

import itertools
import math

import guarded as pages
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_threads import in_threads

import xpapply
from xpapply.arrays.layout import MemoryOrder
from xpapply.ir.rewrite import compact, fold
from xpapply.limits import LIMITS

pytest.importorskip("llvmlite")

from xpapply.backends import cpu
from xpapply.backends.cpu import compiler, networks

RNG = np.random.default_rng(5)
CPUS = ["AVX-512", "AVX2", "SSE2"]


def target(name):
    try:
        return compiler.host(name)
    except xpapply.InputError as error:
        pytest.skip(str(error))


def mlp(*widths, dtype="float32", activation="relu"):
    rng = np.random.default_rng(sum(widths))
    pairs = list(itertools.pairwise(widths))
    weights = [rng.normal(size=(n, m)).astype(dtype) / np.sqrt(m) for m, n in pairs]
    biases = [rng.normal(size=n).astype(dtype) for _, n in pairs]
    return xpapply.MLP(weights, biases, activation=activation)


def graph_of(net, features, dtype):
    return compact(fold(xpapply.lift(net, (features,), dtype)))


def by_definition(net, x, axis):
    """In float64."""
    y = np.moveaxis(x, axis, -1).astype("float64")
    for k, (w, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        y = y @ np.asarray(w, "float64").T + b
        if k + 1 < len(net.weights):
            y = np.maximum(y, 0)
    return np.moveaxis(y, -1, axis)


def run(lowered, x, axis, make=np.empty):
    """All slices of `x`, into memory that `make` makes."""
    graph = lowered.graph
    order = MemoryOrder.of(x.strides, x.ndim, axis)
    before, behind = order.batch(x.shape)
    out = make((*before, *graph.result.shape, *behind), graph.result.dtype)
    source = x.transpose(order.axes)
    lowered(source, order.at, lowered.bind(graph.consts, x), out)
    return out, out.transpose(order.result_axes(len(graph.result.shape)))


@st.composite
def layouts(draw, features):
    """Shape, axis and array: in any order, with steps, of any dtype."""
    ndim = draw(st.integers(1, 4))
    sides = [200, 60, 12, 6][ndim - 1] if ndim > 1 else 1
    shape = [draw(st.integers(1, sides)) for _ in range(ndim)]
    axis = draw(st.integers(0, ndim - 1))
    shape[axis] = features
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1])) for _ in shape]
    order = draw(st.permutations(range(ndim)))
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "uint8", "int64", "float16"]))
    whole = np.empty([shape[a] * abs(steps[a]) for a in order], dtype).transpose(np.argsort(order))
    x = whole[tuple(slice(None, None, s) for s in steps)]
    x = x[tuple(slice(0, n) for n in shape)]
    x[...] = np.random.default_rng(1).integers(0, 50, x.shape) / (1 if x.dtype.kind in "iu" else 7)
    return x, axis


@pytest.mark.kernels
@pytest.mark.parametrize("name", CPUS)
@given(data=st.data())
def test_nothing_beside_the_arrays_is_touched(name, data):
    features = data.draw(st.integers(1, 40), label="features")
    hidden = data.draw(st.lists(st.integers(1, 40), max_size=2), label="hidden")
    results = data.draw(st.integers(1, 40), label="results")
    dtype = data.draw(st.sampled_from(["float32", "float64"]), label="dtype")
    net = mlp(features, *hidden, results, dtype=dtype)
    x, axis = data.draw(layouts(features), label="x")
    end, off = data.draw(st.booleans(), label="end"), data.draw(st.integers(0, 3), label="off")
    x = pages.guarded(x, end, misaligned=off, writable=False)
    lowered = networks.NetworkLowered(graph_of(net, features, x.dtype.name), target(name))
    outs = []

    def make(shape, dtype):
        outs.append(pages.guarded(np.zeros(shape, dtype), end, misaligned=off))
        return outs[0]

    _, y = run(lowered, x, axis, make)
    assert pages.intact(outs[0])
    want = by_definition(net, x, axis)
    eps = 2e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(y, want, rtol=eps, atol=eps * max(1, abs(want).max()))


@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("widths", [(8, 16, 1), (70, 67, 1, 3), (1, 1), (3, 130, 70)])
def test_a_slice_gives_the_same_beside_any_others(name, widths):
    """Few slices or many, in rows or columns, at the end of a tile or not: bit for bit."""
    net = mlp(*widths)
    lowered = networks.NetworkLowered(graph_of(net, widths[0], "float32"), target(name))
    x = RNG.normal(size=(197, widths[0])).astype("f4")
    _, want = run(lowered, x, 1)
    for n in (1, 2, 15, 16, 17, 63, 64, 65, 130):
        for axis, part in ((1, x[:n]), (0, np.ascontiguousarray(x[:n].T))):
            _, y = run(lowered, part, axis)
            np.testing.assert_array_equal(y if axis else y.T, want[:n])
    _, y = run(lowered, np.repeat(x, 2, 1)[:, ::2], 1)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_threads_take_parts(axis, monkeypatch):
    monkeypatch.setattr(LIMITS, "network_pool", 0)
    net = mlp(12, 20, 3)
    shape = [70, 50, 9]
    shape[axis] = 12
    x = RNG.normal(size=shape).astype("f4")
    with xpapply.options(engine="cpu", threads=1):
        want = xpapply.apply_along_axis(net, axis, x)
    for threads in (2, 3):
        with xpapply.options(engine="cpu", threads=threads):
            np.testing.assert_array_equal(xpapply.apply_along_axis(net, axis, x), want)
            plan = xpapply.explain(net, axis, x)
            assert f"{threads} threads" in plan.kernels[0]


def test_explain_names_the_kernel():
    x = np.zeros((100, 8), "f4")
    plan = xpapply.explain(mlp(8, 16, 1), 1, x)
    assert plan.engine == "cpu"
    assert plan.kernels == (f"one kernel, {compiler.host().name}, 1 thread",)
    assert plan.reasons == ()


def test_tensors_are_computed_in_place(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    x = torch.randn(8, 300, 5, dtype=torch.float64)
    with torch.no_grad():
        plan = xpapply.explain(net, 0, x)
        assert plan.engine == "cpu"
        y = xpapply.apply_along_axis(net, 0, x)
        assert isinstance(y, torch.Tensor)
        want = net.double()(x.movedim(0, -1)).movedim(-1, 0)
        torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-5)


def odd_nets(torch):
    """Values of several axes, products of two values, reductions, positions, booleans."""
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(12, 12) for _ in range(3)])

        def forward(self, x):
            q, k, v = (part(x).reshape(3, 4) for part in self.parts)
            return (torch.softmax(q @ k.T / 2, -1) @ v).T.reshape(-1)

    class Statistics(nn.Linear):
        def forward(self, x):
            h = torch.tanh(super().forward(x))
            top = h.max(-1).values
            return torch.stack([h.sum(-1), top, h.mean(-1), h.var(-1), h.prod(-1)], -1)

    class Largest(nn.Linear):
        def forward(self, x):
            return super().forward(x).argmax(-1)

    class Between(nn.Linear):
        def forward(self, x):
            h = super().forward(x)
            return (h > 0) & (h < 1)

    return {
        "attention": Attention(),
        "statistics": Statistics(12, 40),
        "largest": Largest(12, 40),
        "between": Between(12, 7),
        "bits": nn.Sequential(nn.Linear(12, 8), nn.Softplus(), nn.LayerNorm(8), nn.LogSoftmax(-1)),
    }


@pytest.mark.parametrize("cpu_name", CPUS)
@pytest.mark.parametrize("name", ["attention", "statistics", "largest", "between", "bits"])
def test_odd_graphs(torch, name, cpu_name):
    torch.manual_seed(1)
    net = odd_nets(torch)[name].eval()
    x = RNG.normal(size=(133, 12)).astype("f4")
    x[5] = np.nan
    x[7, 3] = np.inf
    with torch.no_grad():
        want = np.stack([net(torch.from_numpy(v)).numpy() for v in x])
    lowered = networks.NetworkLowered(graph_of(net, 12, "float32"), target(cpu_name))
    for n in (133, 70, 9):
        for axis, part in ((1, x[:n]), (0, np.ascontiguousarray(x[:n].T))):
            _, y = run(lowered, part, axis)
            y = y if axis else np.moveaxis(y, -1, 0)
            assert y.dtype == want.dtype
            np.testing.assert_allclose(y, want[:n], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tensors_of_16_bits(torch, dtype):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 5)).eval()
    net = net.to(getattr(torch, dtype))
    x = torch.randn(100, 9).to(getattr(torch, dtype))
    with torch.no_grad(), xpapply.options(engine="cpu"):
        y = xpapply.apply_along_axis(net, 1, x)
        assert y.dtype == getattr(torch, dtype)
        torch.testing.assert_close(y.float(), net.float()(x.float()), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("widths", [(16, 64, 64, 64, 4), (32, 128, 128, 8), (8, 16, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_errors_are_no_larger_than_torchs(torch, widths, seed):
    """At most twice: sums of many terms are made of several."""
    torch.manual_seed(seed)
    nn = torch.nn
    layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    net = nn.Sequential(*layers[:-1]).eval()
    x = torch.randn(20_000, widths[0])
    with torch.no_grad():
        with xpapply.options(engine="cpu"):
            y = xpapply.apply_along_axis(net, 1, x)
        own, want = net(x), net.double()(x.double())
    assert (y - want).norm() <= 2 * (own - want).norm()


@pytest.mark.parametrize(
    ("f", "slices", "why"),
    [
        (mlp(8, 2000, 2000, 1), 1000, "weights do not stay in the cache"),
        (mlp(8, 600, 600, 1), 10, "weights do not stay in the cache for few slices"),
        (mlp(8, 5000, 1), 1000, "numbers per slice do not fit in the cache"),
    ],
)
def test_what_is_too_wide_is_left_to_others(f, slices, why):
    x = np.zeros((slices, 8), "f4")
    assert why in cpu.BACKEND.why_not(graph_of(f, 8, "float32"), (x,))
    assert xpapply.explain(f, 1, x).engine in ("torch", "numpy")


def test_without_llvmlite_it_is_as_before(without_llvmlite, monkeypatch):
    x = np.zeros((100, 8), "f4")
    assert xpapply.explain(mlp(8, 16, 1), 1, x).engine in ("torch", "numpy")
    monkeypatch.setattr(networks.compiler, "why_not", lambda: "llvmlite is not installed: pip ...")
    with (
        xpapply.options(engine="cpu"),
        pytest.raises(xpapply.UnsupportedError, match="llvmlite is not installed"),
    ):
        xpapply.explain(mlp(8, 16, 1), 1, x)


def test_what_does_not_compile_is_computed_all_the_same(monkeypatch):
    """By another engine, and the next plan says why."""

    def broken(*_):
        raise compiler.CompilerError("LLVM is out of sorts")

    monkeypatch.setattr(networks, "_kernel", lambda *_: compiler.Deferred(0.0, broken))
    net, x = mlp(8, 13, 2), RNG.normal(size=(4, 8, 30)).astype("f4")
    y = xpapply.apply_along_axis(net, 1, x)
    np.testing.assert_allclose(y, by_definition(net, x, 1), rtol=1e-5, atol=1e-5)
    plan = xpapply.explain(net, 1, x[:3])
    assert plan.engine in ("torch", "numpy")
    assert "cpu: LLVM is out of sorts" in plan.reasons


@pytest.fixture
def patient(monkeypatch):
    """Twelve calls of few slices run by definition, and no kernel is on disk; after which of
    them another thread begins to compile, and which were the first ones of kernels."""
    monkeypatch.setattr(LIMITS, "network_patience", 12 * LIMITS.network_call)
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", "")
    calls, begun_after, ready_after = [], [], []
    begun, ready = compiler.begun, networks.NetworkLowered._ready

    def recorded(make):
        begun_after.append(len(calls))
        return begun(make)

    def made(*given):
        ready_after.append(len(calls))
        return ready(*given)

    monkeypatch.setattr(compiler, "begun", recorded)
    monkeypatch.setattr(networks.NetworkLowered, "_ready", made)
    return calls, begun_after, ready_after


def called(net, rows, calls):
    x = RNG.normal(size=(rows, 8)).astype("f4")
    y = xpapply.apply_along_axis(net, 1, x)
    calls.append(rows)
    np.testing.assert_allclose(y, by_definition(net, x, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [[5] * 16, range(1, 17)], ids=["alike", "of all sizes"])
def test_few_slices_run_by_definition_while_another_thread_compiles(rows, patient):
    calls, begun_after, ready_after = patient
    net = mlp(8, 11 + len(set(rows)), 3)
    x = np.zeros((5, 8), "f4")
    assert "layer by layer" in xpapply.explain(net, 1, x).kernels[0]
    for n in rows:
        called(net, n, calls)
    assert begun_after == [2]
    assert 8 < ready_after[0] < 12
    xpapply.functions.cache.clear()


def test_many_slices_wait_for_the_kernel(patient):
    calls, begun_after, ready_after = patient
    net = mlp(8, 12, 4)
    called(net, 40_000, calls)
    assert (begun_after, ready_after) == ([], [0])
    called(net, 39_999, calls)


def test_who_asks_for_the_engine_gets_it(patient):
    calls, begun_after, ready_after = patient
    net = mlp(8, 14, 4)
    with xpapply.options(engine="cpu"):
        assert "definition" not in xpapply.explain(net, 1, np.zeros((5, 8), "f4")).kernels[0]
        called(net, 5, calls)
    assert (begun_after, ready_after) == ([], [0])


def test_what_another_thread_cannot_compile_is_computed_all_the_same(patient, monkeypatch):
    def broken(*_):
        raise compiler.CompilerError("LLVM is out of sorts")

    monkeypatch.setattr(compiler, "compile", broken)
    calls, begun_after, _ = patient
    net = mlp(8, 15, 4)
    for _ in range(16):
        called(net, 5, calls)
    assert begun_after == [2]
    plan = xpapply.explain(net, 1, np.zeros((6, 8), "f4"))
    assert plan.engine in ("torch", "numpy")
    assert "cpu: LLVM is out of sorts" in plan.reasons


def test_other_byte_orders_are_left_to_others():
    x = np.zeros((100, 8), ">f4")
    assert "byte order" in cpu.BACKEND.why_not(graph_of(mlp(8, 2), 8, "float32"), (x,))


def test_sizes_are_products():
    """Runs, and tiles in them: none is computed twice by two threads but at ends."""
    lowered = networks.NetworkLowered(graph_of(mlp(8, 2), 8, "float32"))
    for shape, at in (((1000, 8), 1), ((8, 1000), 0), ((7, 8, 300), 1), ((5, 3, 8), 2)):
        x = np.zeros(shape, "f4")
        out = np.zeros([2 if a == at else n for a, n in enumerate(shape)], "f4")
        lies = networks._layout(x, at, out, lowered._whole, lowered._lanes)
        slices = math.prod(shape) // 8
        tile = lowered._lanes if lies.access.anywhere else lowered._whole
        assert slices <= lies.tiles * tile < slices + tile * max(1, slices // 300)


def test_weights_stay_where_the_first_thread_packed_them():
    """Threads that come at once get one address, of memory that is kept."""
    import threading

    graph = graph_of(mlp(8, 200, 4), 8, "float32")
    lowered = networks.NetworkLowered(graph)
    kernel = networks.network.network_kernel(
        graph, networks.network.Access("rows", "rows"), lowered._target
    )
    for _ in range(20):
        bound, found, start = lowered.bind(graph.consts, None), set(), threading.Barrier(8)

        def ask(bound=bound, found=found, start=start):
            start.wait()
            found.add(bound.address(kernel))

        in_threads(ask, times=8)
        assert len(found) == 1
