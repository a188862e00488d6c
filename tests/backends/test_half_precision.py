"""Networks whose parameters have 16 bits: what runs where the kernel on tensor cores refuses."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import xpapply
from xpapply import frontends
from xpapply.codegen import cost
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.rewrite import compact, fold

H200 = cost.Device(132, 1.78e9, 4.3e12, "wgmma", 233472 - 1024)
HALF = ["float16", "bfloat16"]
WIDE = [(256, 256, 256, 10), (16, 1000, 4)]
"""What does not fit in registers."""


FUNCTIONS = ["elementwise", "sort", "branch", "mask", "net", "net or not", "wider"]


def mlp(torch, *widths, dtype="bfloat16", device="cpu"):
    torch.manual_seed(0)
    pairs = itertools.pairwise(widths)
    layers = [x for m, n in pairs for x in (torch.nn.Linear(m, n), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1]).to(device, getattr(torch, dtype))


def graph_of(net, features, dtype):
    return compact(fold(frontends.find(net).lift(net, ShapeDtype((features,), dtype), (), {})))


@pytest.fixture
def slow_float32(torch, monkeypatch, without_llvmlite):
    """As on a GPU, where products of float32 take longer than those of 16 bits."""
    backend = pytest.importorskip("xpapply.backends.torch")
    monkeypatch.setattr(backend.TorchLowered, "slower_than_half", lambda self, x, consts, at: True)


# --- the choice -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("widths", WIDE)
def test_the_module_itself_runs_in_its_own_dtype(slow_float32, torch, widths, dtype):
    net = mlp(torch, *widths, dtype=dtype)
    x = torch.randn(3, widths[0], 50).to(getattr(torch, dtype))
    with torch.no_grad():
        plan = xpapply.explain(net, 1, x)
        assert plan.engine == "torch.batch"
        assert (plan.out_shape, plan.out_dtype) == ((3, widths[-1], 50), dtype)
        assert f"in float32, which is slower here than {dtype}" in str(plan)
        want = net(x.movedim(1, -1).reshape(-1, widths[0])).reshape(3, 50, -1).movedim(-1, 1)
        for _ in range(2):
            assert torch.equal(xpapply.apply_along_axis(net, 1, x), want)
        net[0].weight.mul_(2)
        want = net(x.movedim(1, -1).reshape(-1, widths[0])).reshape(3, 50, -1).movedim(-1, 1)
        assert torch.equal(xpapply.apply_along_axis(net, 1, x), want)


def test_what_stays_with_the_graphs_own_engine(slow_float32, torch):
    """Parameters of more bits, an engine that is asked for, plans without a module."""
    x = torch.randn(40, 256).bfloat16()
    net = mlp(torch, *WIDE[0])
    mixed = mlp(torch, *WIDE[0])
    mixed[2].float()
    mixed = torch.nn.Sequential(mixed[0], Cast(torch), mixed[2])
    with torch.no_grad():
        assert xpapply.explain(mlp(torch, *WIDE[0], dtype="float32"), 1, x).engine == "torch"
        assert xpapply.explain(mixed, 1, x).engine == "torch"
        with xpapply.options(engine="torch"):
            assert xpapply.explain(net, 1, x).engine == "torch"
            in_float32 = xpapply.apply_along_axis(net, 1, x)
        assert torch.equal(xpapply.compile(net, (256,), "bfloat16")(x), in_float32)
    # autograd records torch's own operations, and that is why
    plan = xpapply.explain(net, 1, x)
    assert (plan.engine, plan.reasons) == (
        "torch.vmap",
        ("autograd records this call; under torch.no_grad() it runs fused",),
    )


def Cast(torch):
    class Cast(torch.nn.Module):
        def forward(self, x):
            return x.relu().float()

    return Cast()


def test_a_module_that_takes_no_batch_stays_with_its_graph(slow_float32, torch):
    """The reason says which way was refused."""

    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp(torch, 256, 300, 4)

        def forward(self, x):
            assert x.shape == (256,)
            return self.inner(x)

    net, x = Sums(), torch.randn(40, 256).bfloat16()
    with torch.no_grad():
        plan = xpapply.explain(net, 1, x)
        assert plan.engine == "torch.vmap"
        assert any("in float32" in reason for reason in plan.reasons)
        assert torch.equal(xpapply.apply_along_axis(net, 1, x), torch.vmap(net)(x))


@pytest.mark.parametrize("dtype", HALF)
def test_on_the_cpu_blocks_of_float32_are_faster(torch, without_llvmlite, dtype):
    x = torch.randn(40, 256).to(getattr(torch, dtype))
    with torch.no_grad():
        assert xpapply.explain(mlp(torch, *WIDE[0], dtype=dtype), 1, x).engine == "torch"


# --- Python functions of tensors ----------------------------------------------------------


def functions(torch, dtype, device="cpu"):
    net = mlp(torch, 24, 32, 5, dtype=dtype, device=device)
    return {
        "elementwise": lambda v: torch.tanh(v) * 2 + v.mean(),
        "sort": lambda v: torch.sort(v).values[:3] + v[0],
        "branch": lambda v: v.sum() if v[0] > 0 else v.max(),
        "mask": lambda v: v[v > 0].mean(),
        "net": lambda v: torch.softmax(net(v), -1),
        "net or not": lambda v: net(v).max() if v[0] > 0 else net(-v).min(),
        "wider": lambda v: v.float().sum(),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("slow", [False, True])
def test_functions_of_tensors(torch, monkeypatch, request, name, dtype, slow):
    """They run for all slices at once, and give what the loop gives, in its dtype."""
    if slow:
        request.getfixturevalue("slow_float32")
    f = functions(torch, dtype)[name]
    x = torch.randn(3, 24, 50).to(getattr(torch, dtype))
    with torch.no_grad():
        with xpapply.options(engine="loop"):
            want = xpapply.apply_along_axis(f, 1, x)
        plan = xpapply.explain(f, 1, x)
        assert plan.vectorized, plan.reasons
        assert plan.out_dtype == str(want.dtype).partition(".")[2]
        assert ("in float32" in str(plan)) == (slow and plan.graph is not None)
        monkeypatch.setattr("xpapply.loop.reference.apply", None)
        for _ in range(2):
            got = xpapply.apply_along_axis(f, 1, x)
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)


def test_results_of_16_bits_that_differ_are_noticed():
    """The tolerance is for rounding: what has other numbers is not the same."""
    from xpapply.frontends.python.run.comparison import close

    a = np.linspace(1, 2, 50, dtype=np.float16)
    assert close(a, a + np.float16(0.01), 2.0**-7)
    assert not close(a, a[::-1], 2.0**-7)
    assert not close(a.astype("f"), a.astype("f")[::-1], 2.0**-7)


# --- prices -----------------------------------------------------------------------------


@pytest.mark.parametrize("widths", WIDE)
def test_16_bits_are_priced_on_cupy(monkeypatch, cupy, torch, widths):
    backend = pytest.importorskip("xpapply.backends.cupy.networks")
    array = SimpleNamespace(size=widths[0] << 20, device=SimpleNamespace(id=0))
    graph = graph_of(mlp(torch, *widths, dtype="float16"), widths[0], "float16")
    for device, slower in ((H200, True), (replace(H200, core=""), False)):
        monkeypatch.setattr(backend.compiler, "device", lambda number, device=device: device)
        lowered = backend.CuPyLowered(graph, borrowed=True)
        assert "in blocks" in lowered.estimate(array, graph.consts).kernels[0]
        assert lowered.slower_than_half(array, graph.consts) == slower


@pytest.mark.parametrize("widths", [(16, 64, 64, 4), (8, 4, 1), (32, 128, 128, 8)])
def test_one_kernel_for_all_layers_is_not_given_up(monkeypatch, cupy, torch, widths):
    backend = pytest.importorskip("xpapply.backends.cupy.networks")
    monkeypatch.setattr(backend.compiler, "device", lambda number: H200)
    array = SimpleNamespace(size=widths[0] << 20, device=SimpleNamespace(id=0))
    graph = graph_of(mlp(torch, *widths, dtype="float16"), widths[0], "float16")
    assert not backend.CuPyLowered(graph, borrowed=True).slower_than_half(array, graph.consts)


def test_the_price_of_16_bits_grows_with_slices_and_layers(torch):
    some, more = (graph_of(mlp(torch, 64, *w, 8), 64, "bfloat16") for w in ((64,), (64, 64)))
    counts = [1, 1000, 10**5, 10**7]
    seconds = [cost.half(some, n, H200) for n in counts]
    assert seconds == sorted(seconds)
    assert all(cost.half(more, n, H200) > t for n, t in zip(counts, seconds, strict=True))


# --- on a GPU ---------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("widths", WIDE)
@pytest.mark.parametrize("dtype", HALF)
def test_cuda_tensors(cupy, torch, widths, dtype):
    net = mlp(torch, *widths, dtype=dtype, device="cuda")
    n = 1 << 15  # of few slices both ways are done as soon as they have started
    x = torch.randn(3, widths[0], n, device="cuda").to(getattr(torch, dtype))
    with torch.no_grad():
        plan = xpapply.explain(net, 1, x)
        assert plan.engine == "torch.batch"
        assert "does not fit in registers" in str(plan)
        want = net(x.movedim(1, -1).reshape(-1, widths[0])).reshape(3, n, -1).movedim(-1, 1)
        for _ in range(3):
            got = xpapply.apply_along_axis(net, 1, x)
            assert got.dtype == x.dtype
            torch.testing.assert_close(got, want, rtol=0.01, atol=0.01)
        net[0].bias.add_(1)
        want = net(x.movedim(1, -1).reshape(-1, widths[0])).reshape(3, n, -1).movedim(-1, 1)
        got = xpapply.apply_along_axis(net, 1, x)
        torch.testing.assert_close(got, want, rtol=0.01, atol=0.01)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", HALF)
def test_functions_of_cuda_tensors(cupy, torch, name, dtype):
    x = torch.randn(3, 24, 1001, device="cuda").to(getattr(torch, dtype))
    f = functions(torch, dtype, "cuda")[name]
    with torch.no_grad():
        with xpapply.options(engine="loop"):
            want = xpapply.apply_along_axis(f, 1, x)
        plan = xpapply.explain(f, 1, x)
        assert plan.vectorized, plan.reasons
        got = xpapply.apply_along_axis(f, 1, x)
        assert xpapply.explain(f, 1, x).vectorized
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALF)
def test_cuda_tensors_without_cupy(cupy, torch, monkeypatch, dtype):
    from xpapply.backends import torch as backend

    monkeypatch.setattr(backend, "_cupy_is_installed", lambda: False)
    net = mlp(torch, *WIDE[0], dtype=dtype, device="cuda")
    x = torch.randn(1001, 256, device="cuda").to(getattr(torch, dtype))
    with torch.no_grad():
        assert xpapply.explain(net, 1, x).engine == "torch.batch"
        got = xpapply.apply_along_axis(net, 1, x)
        torch.testing.assert_close(got, net(x), rtol=0.01, atol=0.01)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALF)
def test_cupy_arrays(cupy, torch, monkeypatch, dtype):
    """A module on the same device computes in its own dtype; one elsewhere stays there."""
    from xpapply.codegen import cost

    monkeypatch.setattr(cost, "half", lambda *_: 0.0)  # whatever the prices on this device are
    net = mlp(torch, *WIDE[1], dtype=dtype, device="cuda")
    host = np.random.default_rng(0).standard_normal((1 << 17, 16)).astype("f")
    x = cupy.asarray(host)
    plan = xpapply.explain(net, 1, x)
    assert plan.engine == "torch.batch"
    got = xpapply.apply_along_axis(net, 1, x)
    assert got.dtype == plan.out_dtype == ("float16" if dtype == "float16" else "float32")
    with torch.no_grad():
        rows = torch.from_numpy(host).cuda().to(getattr(torch, dtype))
        want = net(rows).float().cpu().numpy()
    np.testing.assert_allclose(got.get().astype("f"), want, atol=0.02)
    assert xpapply.explain(net.cpu(), 1, x).engine == "cupy"
