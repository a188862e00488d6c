"""Few slices through a network: what is kept from call to call, and what must not be."""

import gc
import itertools
import math
import weakref

import numpy as np
import pytest
from in_threads import in_threads

import xpapply
from xpapply.backends import torch as backend
from xpapply.lowering import program, repeated

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def nets(torch):
    torch.manual_seed(0)
    nn = torch.nn

    def mlp(act, *widths):
        layers = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), act()]
        return nn.Sequential(*layers[:-1]).eval()

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x):
            return x + torch.cat([self.inner(x)[..., 3:], x[..., :3]], -1)

    class Sliced(nn.Module):
        def forward(self, x):
            return x[..., 1:3]

    return {
        "relu": mlp(nn.ReLU, 6, 16, 8, 2),
        "gelu": mlp(nn.GELU, 6, 16, 2),
        "one layer": nn.Linear(6, 3).eval(),
        "ends in an activation": nn.Sequential(nn.Linear(6, 3), nn.Tanh()).eval(),
        "no layer": nn.Tanh(),
        "identity": nn.Identity(),
        "view": Sliced(),
        "residual": Residual().eval(),
        "softmax": nn.Sequential(nn.Linear(6, 4), nn.Softmax(-1)).eval(),
        "norm": nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 2)).eval(),
        "matrix": nn.Sequential(nn.Linear(6, 6), nn.Unflatten(-1, (2, 3))).eval(),
        "float64": mlp(nn.SiLU, 6, 8, 2).double(),
        "float16": mlp(nn.ReLU, 6, 8, 2).half(),
        "bfloat16": mlp(nn.ReLU, 6, 8, 2).bfloat16(),
    }


NAMES = (
    "relu|gelu|one layer|ends in an activation|no layer|identity|view|residual|softmax|norm|"
    "matrix|float64|float16|bfloat16"
)


def expected(torch, net, rows):
    dtype = next((p.dtype for p in net.parameters()), torch.float32)
    with torch.no_grad():
        y = net(torch.from_numpy(rows).to(dtype))
    return (y.float() if dtype == torch.bfloat16 else y).numpy()


@pytest.mark.parametrize("name", NAMES.split("|"))
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_repeated_calls_with_other_data(torch, nets, name, axis, dtype):
    net = nets[name]
    for shape in [(1, 6), (7, 6), (3, 4, 6), (6,)]:
        if axis == 1 and len(shape) == 1:
            continue
        for _ in range(3):
            rows = (RNG.normal(size=shape) * 20).astype(dtype)
            x = np.ascontiguousarray(np.moveaxis(rows, -1, axis))
            y = xpapply.apply_along_axis(net, axis, x)
            flat = rows.reshape(-1, 6).astype("f4" if name != "float64" else "f8")
            want = expected(torch, net, flat)
            want = want.reshape(*shape[:-1], *want.shape[1:])
            for _ in range(want.ndim - (len(shape) - 1)):
                want = np.moveaxis(want, len(shape) - 1, -1)
            at = axis % len(shape)
            inside = want.ndim - len(shape) + 1
            source = range(want.ndim - inside, want.ndim)
            want = np.moveaxis(want, source, range(at, at + inside))
            tolerance = {"float16": 2e-2, "bfloat16": 1e-1}.get(name, 2e-5)
            np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance * 20)


def test_a_repeated_call_looks_nothing_up(torch, nets, monkeypatch):
    x = RNG.normal(size=(100, 6)).astype("f4")
    first = xpapply.apply_along_axis(nets["relu"], -1, x)
    xpapply.apply_along_axis(nets["relu"], -1, x)
    for owner, name in [(program.Program, "run"), (program.Program, "scratch")]:
        monkeypatch.setattr(owner, name, lambda *_: pytest.fail("looked up again"))
    np.testing.assert_array_equal(xpapply.apply_along_axis(nets["relu"], -1, x), first)


def test_results_do_not_share_memory_with_what_is_kept(nets):
    for name in ("relu", "identity", "view", "matrix"):
        x = RNG.normal(size=(5, 6)).astype("f4")
        results = [xpapply.apply_along_axis(nets[name], -1, x + k) for k in range(3)]
        copies = [xpapply.apply_along_axis(nets[name], -1, x + k) for k in range(3)]
        for a, b in zip(results, copies, strict=True):
            np.testing.assert_array_equal(a, b)
            assert not np.may_share_memory(a, b)
            assert not np.may_share_memory(a, x)


@pytest.mark.parametrize("name", ["relu", "residual", "identity"])
def test_neither_arrays_nor_results_are_kept_alive(nets, name):
    x = RNG.normal(size=(5, 6)).astype("f4")
    for _ in range(3):
        y = xpapply.apply_along_axis(nets[name], -1, x)
    alive = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_two_threads_do_not_share_buffers(torch, nets):
    net, wrong = nets["gelu"], []
    arrays = [RNG.normal(size=(500, 6)).astype("f4") for _ in range(4)]
    wanted = [xpapply.apply_along_axis(net, -1, a) for a in arrays]

    def work(k):
        for _ in range(100):
            if not np.array_equal(xpapply.apply_along_axis(net, -1, arrays[k]), wanted[k]):
                wrong.append(k)

    in_threads(work, range(4))
    assert not wrong


def test_buffers_that_are_in_use_are_no_one_elses(torch, nets):
    """Another call may come in the midst of a call: from a thread, or a signal's handler."""
    net = nets["relu"]
    x = torch.from_numpy(RNG.normal(size=(5, 6)).astype("f4"))
    graph = xpapply.lift(net, (6,))
    lowered = backend.BACKEND.lower(graph)
    bound, out = lowered.bind(graph.consts, x), torch.empty(5, 2)
    run = lowered.prepared(x, 1, bound, out)
    run(x, out)
    wanted, inner = out.clone(), torch.empty(5, 2)
    original, nested = repeated.Repeated.__call__, []

    def interrupted(self, *args):
        if not nested:
            nested.append(self)
            run(-x, inner)
        else:
            assert self is not nested[0]
        return original(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated.Repeated, "__call__", interrupted)
        run(x, out)
    assert torch.equal(out, wanted)


def test_new_weights_are_seen(torch):
    net = torch.nn.Linear(6, 2).eval()
    x = RNG.normal(size=(5, 6)).astype("f4")
    for _ in range(3):
        np.testing.assert_allclose(
            xpapply.apply_along_axis(net, -1, x), expected(torch, net, x), atol=1e-6
        )
        with torch.no_grad():
            net.weight.add_(1.0)


def test_a_block_size_that_was_asked_for_is_kept(nets, monkeypatch):
    x = RNG.normal(size=(100, 6)).astype("f4")
    whole = xpapply.apply_along_axis(nets["relu"], -1, x)
    blocks = []
    run = program.Program.run
    monkeypatch.setattr(
        program.Program, "run", lambda self, b, *a: blocks.append(b.shape[-1]) or run(self, b, *a)
    )
    with xpapply.options(block_bytes=10 * 16 * 4, engine="numpy"):
        np.testing.assert_allclose(
            xpapply.apply_along_axis(nets["relu"], -1, x), whole, rtol=1e-6, atol=1e-6
        )
    assert max(blocks) == 10


@pytest.mark.parametrize("name", ["elu", "leaky", "softplus", "mish", "clip"])
def test_activations_that_torch_has_run_as_one_operation(torch, name):
    nn = torch.nn
    net = {
        "elu": nn.ELU(1.5),
        "leaky": nn.LeakyReLU(0.3),
        "softplus": nn.Softplus(2.0, 5.0),
        "mish": nn.Mish(),
        "clip": nn.Hardtanh(-0.5, 2.5),
    }[name]
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 50.0, -50.0, 3.0, -3.0, 1e30, -1e30]
    x = np.array([special, np.linspace(-8, 8, 12)], "f4")
    lowered = backend.BACKEND.lower(xpapply.lift(net, (12,)))
    assert len(lowered._batched.nodes) == 2
    with np.errstate(all="ignore"):
        y = xpapply.apply_along_axis(net, -1, x)
    want = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_small_results_of_gelu_keep_their_digits(torch):
    """Which torch's own function in float32 does not: it adds 1 to erf."""
    x = np.linspace(-13, -4, 50, dtype="f4")[:, None]
    y = xpapply.apply_along_axis(torch.nn.GELU(), -1, x)
    exact = [[float(v) * 0.5 * math.erfc(-float(v) / math.sqrt(2))] for v in x[:, 0]]
    np.testing.assert_allclose(y, exact, rtol=1e-3, atol=1e-37)
