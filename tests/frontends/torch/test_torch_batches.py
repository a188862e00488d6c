"""torch modules that are no graph: called on batches where that is proved, else by vmap."""

import gc
import itertools
import subprocess
import sys
import weakref
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.limits import LIMITS
from xpapply.planning import planner
from xpapply.runtime.budget import Budget

torch = library("torch")
chunks = pytest.importorskip("xpapply.frontends.torch.calls.chunks")
batched = pytest.importorskip("xpapply.frontends.torch.calls.batched")
nn = torch.nn


class Net(nn.Module):
    """A forward written in place."""

    def __init__(self, run, **layers):
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.calls = []
        self.eval()

    def forward(self, x):
        calls().append(tuple(x.shape))
        return self.run(self, x)


_CALLS = []


def calls():
    """The shapes that forward was called with: as an attribute they would be a write."""
    return _CALLS


def cnn():
    return nn.Sequential(
        nn.Unflatten(-1, (1, 6, 6)),
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(4),
        nn.Flatten(-3),
        nn.Linear(16, 3),
    ).eval()


BATCHED = {
    "cnn": cnn,
    "images of a batch of one": lambda: Net(
        lambda m, x: m.c(x.reshape(x.shape[0], 1, 6, 6)).mean((2, 3)), c=nn.Conv2d(1, 4, 3)
    ),
    "images with a batch of any size": lambda: Net(
        lambda m, x: m.c(x.reshape(-1, 1, 6, 6)).flatten(1)[:, :5], c=nn.Conv2d(1, 4, 3)
    ),
    "lstm": lambda: Net(
        lambda m, x: m.l(x.unsqueeze(-1))[0][..., -1, :], l=nn.LSTM(1, 5, batch_first=True)
    ),
    "gru of a batch": lambda: Net(
        lambda m, x: m.l(x.reshape(-1, 9, 4))[1][-1], l=nn.GRU(4, 5, batch_first=True)
    ),
    "attention": lambda: Net(
        lambda m, x: m.a(*[m.e(x.reshape(-1, 9, 4))] * 3)[0].mean(1),
        e=nn.Linear(4, 8),
        a=nn.MultiheadAttention(8, 2, batch_first=True),
    ),
    "transformer": lambda: Net(
        lambda m, x: m.t(x.reshape(-1, 9, 4)).mean(1),
        t=nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 16, batch_first=True), 2),
    ),
    "spectrum": lambda: Net(lambda m, x: m.k(torch.fft.rfft(x).abs()), k=nn.Linear(19, 2)),
    "two results": lambda: Net(
        lambda m, x: (m.c(x.unsqueeze(-2)).mean((-1, -2)), x[..., 0]), c=nn.Conv1d(1, 4, 3)
    ),
    "one number": lambda: Net(
        lambda m, x: m.c(x.unsqueeze(-2)).mean((-1, -2)), c=nn.Conv1d(1, 4, 3)
    ),
}


def loop(net, axis, arr):
    with xpapply.options(engine="loop"), torch.no_grad():
        return xpapply.apply_along_axis(net, axis, arr)


def same(got, want):
    assert tuple(got.shape) == tuple(want.shape)
    assert got.dtype == want.dtype
    assert type(got) is type(want)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "uint16", "float16"])
@pytest.mark.parametrize("name", BATCHED)
def test_batches_give_what_the_loop_gives(name, dtype):
    net = BATCHED[name]()
    arr = (10 * np.random.default_rng(0).standard_normal((5, 36, 3))).astype("f")
    arr = abs(arr).astype(dtype) if "int" in dtype else arr.astype(dtype)
    assert xpapply.explain(net, 1, arr).engine == "torch.batch"
    same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))


def layouts():
    x = np.random.default_rng(1).standard_normal((4, 36, 3)).astype("f")
    readonly = x.copy()
    readonly.setflags(write=False)
    return {
        "C": (x, 1),
        "Fortran": (np.asfortranarray(x), 1),
        "backwards": (x[::-1, ::-1], 1),
        "every second": (np.repeat(x, 2, 1)[:, ::2], 1),
        "last axis": (np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1),
        "first axis": (np.ascontiguousarray(np.moveaxis(x, 1, 0)), 0),
        "read only": (readonly, 1),
        "big endian": (x.astype(">f4"), 1),
        "unaligned": (
            np.frombuffer(b"a" + x.tobytes(), np.uint8)[1:].view("f").reshape(x.shape),
            1,
        ),
        "repeated": (np.broadcast_to(x[:1], x.shape), 1),
        "one slice": (x[0, :, 0].copy(), 0),
        "one slice of two axes": (x[:1, :, 0].copy(), 1),
    }


@pytest.mark.parametrize("rows", [1, 2, 5, 1000])
@pytest.mark.parametrize("name", layouts())
def test_layouts_and_chunks(name, rows):
    """However the array lies, and however it is cut."""
    net = BATCHED["cnn"]()
    arr, axis = layouts()[name]
    plan = xpapply.explain(net, axis, arr)
    assert plan.engine == "torch.batch"
    plan._call._batches.rows = lambda device, n: rows
    same(plan(arr, axis), loop(net, axis, arr))
    if name not in ("read only", "big endian", "unaligned", "repeated", "backwards"):
        tensor = torch.from_numpy(arr)
        plan = xpapply.explain(net, axis, tensor)
        plan._call._batches.rows = lambda device, n: rows
        with torch.no_grad():
            same(plan(tensor, axis), loop(net, axis, tensor))


MIXES = {
    "mean of the batch": lambda m, x: x - 1e-6 * x.mean(0, keepdim=x.ndim == 2) * (x.ndim == 2),
    "first of the batch": lambda m, x: x + (x[0] if x.ndim == 2 else x),
    "softmax over the batch": lambda m, x: torch.softmax(x.reshape(-1, 36), 0),
    "steps are slices": lambda m, x: m.l(x.reshape(-1, 36))[0],
    "neighbours": lambda m, x: x.cumsum(0) if x.ndim == 2 else x.clone(),
    "depends on the number": lambda m, x: x * (1 if x.ndim == 1 else x.shape[0]),
}


@pytest.mark.parametrize("values", ["random", "equal"])
@pytest.mark.parametrize("name", MIXES)
def test_slices_that_mix_in_a_batch(name, values):
    """Also where slices are equal, and where what they mix is small."""
    net = Net(
        lambda m, x: m.c(MIXES[name](m, x).reshape(*x.shape[:-1], 1, 36)).mean((-1, -2)),
        c=nn.Conv1d(1, 2, 3),
        l=nn.LSTM(36, 36),
    )
    arr = np.random.default_rng(2).standard_normal((50, 36)).astype("f")
    arr = arr if values == "random" else np.ones_like(arr)
    with xpapply.options(fallback="silent"):
        assert xpapply.explain(net, 1, arr).engine != "torch.batch"
        same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))


LOOKS = {
    "branch": lambda m, x: x if x.max() > 3.5 else -x,
    "item": lambda m, x: x * x.max().item(),
    "numpy": lambda m, x: x * float(x.numpy().max()),
    "array": lambda m, x: x * float(np.asarray(x).max()),
    "tolist": lambda m, x: x * max(x.flatten().tolist()),
    "random": lambda m, x: x + 0 * torch.rand(36),
    "bernoulli": lambda m, x: x * torch.bernoulli(torch.ones(36)),
    "selected": lambda m, x: x.clone().masked_fill_(x == x[x > -9].max(), 0),
    "equal": lambda m, x: x if torch.equal(x, x.abs()) else -x,
}


@pytest.mark.parametrize("name", LOOKS)
def test_forwards_that_look_at_numbers_take_no_batch(name):
    """A branch that the samples do not take may be taken by other slices."""
    net = Net(
        lambda m, x: m.c(LOOKS[name](m, x).unsqueeze(-2)).mean((-1, -2)), c=nn.Conv1d(1, 2, 3)
    )
    arr = np.random.default_rng(3).standard_normal((50, 36)).astype("f")
    arr = np.clip(arr, -3, 3)
    arr[7] = 5
    with xpapply.options(fallback="silent"):
        plan = xpapply.explain(net, 1, arr)
        assert plan.engine != "torch.batch"
        assert "torch.batch: in a batch" in str(plan)
        if name not in ("random", "bernoulli"):
            same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))


def test_indices_are_not_tried_with_nan():
    """An index made of NaN could be anything."""

    def forward(m, x):
        assert torch.isfinite(x).all
        index = x.abs().long()
        assert not x.requires_grad
        return m.l(m.e(index))[0][..., -1, :]

    net = Net(forward, e=nn.Embedding(5, 4), l=nn.LSTM(4, 3, batch_first=True))
    arr = np.random.default_rng(4).integers(0, 5, (20, 36)).astype("f")
    assert xpapply.explain(net, 1, arr).engine == "torch.batch"
    same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))


def test_equal_slices_prove_nothing_without_nan():
    net = Net(
        lambda m, x: m.l(m.e(x.long()))[0][..., -1, :] + (x.mean() - x.mean(-1, keepdim=True)),
        e=nn.Embedding(5, 4),
        l=nn.LSTM(4, 3, batch_first=True),
    )
    arr = np.ones((20, 36), "f")
    with xpapply.options(fallback="silent"):
        assert xpapply.explain(net, 1, arr).engine != "torch.batch"


def test_a_batch_of_another_size_that_takes_another_path():
    """It is noticed when such a batch first runs, and said."""

    def forward(m, x):
        y = m.c(x.unsqueeze(-2)).mean((-1, -2))
        return y if x.ndim == 1 or len(x) < 30 else y + 1

    net = Net(forward, c=nn.Conv1d(1, 2, 3))
    arr = np.random.default_rng(5).standard_normal((40, 36)).astype("f")
    with pytest.warns(xpapply.FallbackWarning, match="in a batch of 40 slices"):
        got = xpapply.apply_along_axis(net, 1, arr)
    same(got, loop(net, 1, arr))
    with xpapply.options(fallback="raise"), pytest.raises(xpapply.UnsupportedError, match="of 40"):
        xpapply.apply_along_axis(Net(forward, c=nn.Conv1d(1, 2, 3)), 1, arr)


def test_chunks_are_cut_by_bytes():
    """What a slice has alive between its layers decides, not the slice and its result."""
    net = Net(lambda m, x: m.c(x.unsqueeze(-2)).amax((-1, -2)), c=nn.Conv1d(1, 512, 3, padding=1))
    arr = np.random.default_rng(6).standard_normal((3000, 36)).astype("f")
    with xpapply.options(engine="torch.batch"):
        plan = xpapply.explain(net, 1, arr)
    alive = 512 * 36 * 4
    assert alive <= plan._call._batches.bytes_per_slice <= 1.1 * alive
    with xpapply.options(block_bytes=1 << 22, engine="torch.batch"):
        net = Net(net.run, c=net.c)
        plan = xpapply.explain(net, 1, arr)
        _CALLS.clear()
        got = plan(arr, 1)
    largest = max(shape[0] for shape in calls() if len(shape) == 2)
    assert 0.9 * (1 << 22) / alive <= largest <= (1 << 22) / alive
    assert f"chunks of {largest:,} slices" in str(plan)
    same(got[:3], loop(net, 1, arr[:3]))


def test_weights_are_no_memory_of_slices():
    """A layer's weights are there before: they hide nothing of what few slices take."""
    net = nn.Sequential(
        nn.Unflatten(-1, (1, 36)), nn.Conv1d(1, 64, 3), nn.Flatten(-2), nn.Linear(64 * 34, 500)
    ).eval()
    arr = np.ones((50, 36), "f")
    assert xpapply.explain(net, 1, arr)._call._batches.bytes_per_slice >= 64 * 34 * 4


@pytest.mark.parametrize("shape", [(50, 36), (5, 10, 36), (36, 5, 10)])
def test_chunks_of_one_size(shape):
    """The rest is not much smaller, and dims of the batch are no limits."""
    net = Net(lambda m, x: m.c(x.unsqueeze(-2)).amax((-1, -2)), c=nn.Conv1d(1, 4, 3))
    arr = np.random.default_rng(0).standard_normal(shape).astype("f")
    axis = shape.index(36)
    plan = xpapply.explain(net, axis, arr)
    plan._call._batches.rows = lambda device, n: 24
    _CALLS.clear()
    got = plan(arr, axis)
    sizes = {s[0] for s in calls() if len(s) == 2}
    assert sizes == {17, 16}
    same(got, loop(net, axis, arr))


def test_numpy_arrays_are_run_in_inference_mode():

    def forward(m, x):
        calls().append(torch.is_inference_mode_enabled())
        return m.c(x.unsqueeze(-2)).amax((-1, -2))

    with pytest.warns(FutureWarning):
        conv = nn.utils.weight_norm(nn.Conv1d(1, 4, 3))
    net = Net(forward, c=conv)
    arr = np.random.default_rng(0).standard_normal((20, 36)).astype("f")
    for _ in range(3):
        same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))
    _CALLS.clear()
    xpapply.apply_along_axis(net, 1, arr)
    assert calls()[-1] is True
    result = xpapply.apply_along_axis(net, 1, torch.from_numpy(arr))
    assert not result.is_inference()
    result.sum().backward()  # weights are not tensors of inference


def test_what_every_call_takes_is_no_matter_of_slices():
    """A table that is made anew does not make chunks small."""
    net = Net(
        lambda m, x: m.c(x.unsqueeze(-2)).mean((-1, -2)) + torch.ones(1 << 20).mean(),
        c=nn.Conv1d(1, 2, 3),
    )
    arr = np.ones((50, 36), "f")
    assert xpapply.explain(net, 1, arr)._call._batches.bytes_per_slice < 4096


def test_memory_that_runs_out(monkeypatch):
    """A chunk is halved until it fits, and later ones are no larger."""
    limit = 11

    def forward(m, x):
        if x.ndim == 2 and len(x) > limit:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")
        return m.c(x.unsqueeze(-2)).mean((-1, -2))

    net = Net(forward, c=nn.Conv1d(1, 2, 3))
    arr = np.random.default_rng(7).standard_normal((100, 36)).astype("f")
    _CALLS.clear()
    got = xpapply.apply_along_axis(net, 1, arr)
    same(got, loop(net, 1, arr))
    together = [s[0] for s in itertools.takewhile(lambda s: len(s) < 3, calls()) if len(s) == 2]
    tried = [n for n in together if n > limit]
    assert tried == [100, 50, 25, 12]
    plan = xpapply.explain(net, 1, arr)
    limit = 0  # which another call would notice: not one slice fits now
    with pytest.raises(RuntimeError, match="allocate"):
        plan(arr, 1)


def test_what_is_written_to():
    """The array keeps its numbers; the result is no view of it, nor of the weights."""
    writes = nn.Sequential(nn.ReLU(inplace=True), cnn())
    arr = np.random.default_rng(8).standard_normal((30_000, 36)).astype("f")
    copy = arr.copy()
    assert xpapply.explain(writes, 1, arr).engine == "torch.batch"
    xpapply.apply_along_axis(writes, 1, arr)
    np.testing.assert_array_equal(arr, copy)
    view = Net(lambda m, x: x.unfold(-1, 4, 4).flatten(-2))
    for x in (arr, torch.from_numpy(arr)):
        plan = xpapply.explain(view, 1, x)
        assert plan.engine == "torch.batch"
        with torch.no_grad():
            got = plan(x, 1)
        got[...] = 0
        np.testing.assert_array_equal(arr, copy)


def test_a_gradient_through_batches():
    net = BATCHED["lstm"]().double()
    x = torch.randn(3, 6, 2, dtype=torch.float64, requires_grad=True)
    plan = xpapply.explain(net, 1, x)
    assert plan.engine == "torch.batch"
    assert torch.autograd.gradcheck(lambda v: xpapply.apply_along_axis(net, 1, v), (x,))
    want = loop(net, 1, x.detach())
    same(xpapply.apply_along_axis(net, 1, x).detach(), want)


@pytest.mark.parametrize("engine", ["torch.batch", "torch.vmap"])
def test_a_way_that_is_forced(engine):
    net = BATCHED["cnn"]()
    arr = np.random.default_rng(9).standard_normal((20, 36)).astype("f")
    with xpapply.options(engine=engine):
        assert xpapply.explain(net, 1, arr).engine == engine
        got = xpapply.apply_along_axis(net, 1, arr)
    same(got, loop(net, 1, arr))
    branches = Net(lambda m, x: x if x.max() > 0 else -x)
    with xpapply.options(engine=engine), pytest.raises(xpapply.UnsupportedError):
        xpapply.explain(branches, 1, arr)


def test_models_with_16_bits():
    """Results in NumPy's arrays have the dtype that the loop gives them."""
    net = BATCHED["cnn"]().bfloat16()
    arr = np.random.default_rng(10).standard_normal((20, 36)).astype("f")
    plan = xpapply.explain(net, 1, arr)
    assert (plan.engine, plan.out_dtype) == ("torch.batch", "float32")
    got, want = xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr)
    assert got.dtype == want.dtype == np.float32
    np.testing.assert_allclose(got, want, atol=0.05)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_follows_from_the_layout_is_decided_once(monkeypatch, library):
    """A repeated call looks at the array's strides once, when it looks up the plan."""
    net = BATCHED["cnn"]()
    arr = np.random.default_rng(12).standard_normal((4, 36, 5)).astype("f")
    want = loop(net, 1, arr)
    arr = torch.from_numpy(arr) if library == "torch" else arr
    with torch.no_grad():
        xpapply.apply_along_axis(net, 1, arr)
        order = mock.Mock(side_effect=AssertionError("decided again"))
        monkeypatch.setattr(chunks.MemoryOrder, "of", order)
        for _ in range(3):
            same(np.asarray(xpapply.apply_along_axis(net, 1, arr)), want)


def test_repeated_calls_have_results_of_their_own():
    """Also of a module that gives out what it keeps; and for arrays of which one is read-only."""

    def kept(m, x):
        m.conv(torch.special.i0(x).reshape(-1, 1, 36))
        return m.kept.expand((*x.shape[:-1], 3))

    net = Net(kept, conv=nn.Conv1d(1, 1, 3))
    net.register_buffer("kept", torch.tensor([1.0, 2.0, 3.0]))
    arr = np.random.default_rng(13).standard_normal((1, 36)).astype("f")
    assert xpapply.explain(net, 1, arr).engine == "torch.batch"
    for _ in range(3):
        got = xpapply.apply_along_axis(net, 1, arr)
        np.testing.assert_array_equal(got, [[1, 2, 3]])
        got[...] = 0
    cnn = BATCHED["cnn"]()
    results = []
    for k in range(3):
        arr = np.random.default_rng(k).standard_normal((20, 36)).astype("f")
        arr.flags.writeable = k != 1
        results.append((xpapply.apply_along_axis(cnn, 1, arr), loop(cnn, 1, arr)))
    for got, want in results:
        same(got, want)


def test_blocks_that_are_asked_for_between_calls():
    """The size of a chunk is no part of what is remembered."""
    cnn = BATCHED["cnn"]()
    arr = np.random.default_rng(14).standard_normal((40, 36)).astype("f")
    want = loop(cnn, 1, arr)
    same(xpapply.apply_along_axis(cnn, 1, arr), want)
    with mock.patch.object(chunks, "boxes", wraps=chunks.boxes) as cut:
        same(xpapply.apply_along_axis(cnn, 1, arr), want)
        assert not cut.called
        with xpapply.options(block_bytes=1 << 14):
            same(xpapply.apply_along_axis(cnn, 1, arr), want)
        assert cut.called


def test_changes_between_calls():
    net = BATCHED["cnn"]()
    arr = np.random.default_rng(11).standard_normal((20, 36)).astype("f")
    xpapply.apply_along_axis(net, 1, arr)
    with torch.no_grad():
        net[1].weight.mul_(2)
    same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))


# --- inside functions -------------------------------------------------------------------


def conv():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).eval()


def images():
    layers = [nn.Unflatten(-1, (1, 6, 6)), nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(-3)]
    return nn.Sequential(*layers, nn.Linear(64, 3)).eval()


CNN, CONV, LSTM, SIGNAL = images(), conv(), BATCHED["gru of a batch"](), nn.Conv1d(1, 2, 3).eval()

INSIDE = {
    "a slice": lambda v: CNN(torch.from_numpy(v)).numpy(),
    "an image": lambda v: CONV(torch.from_numpy(v).view(1, 1, 6, 6))[0].numpy(),
    "a batch of one": lambda v: np.asarray(CONV(torch.as_tensor(v).reshape(1, 1, 6, 6))) * 2,
    "a layer of channels": lambda v: SIGNAL(torch.as_tensor(v).unsqueeze(0)).mean(1).numpy(),
    "steps": lambda v: LSTM(torch.as_tensor(v)).numpy(),
    "work around it": lambda v: CNN(torch.from_numpy(v - v.mean())).softmax(-1).argmax().item(),
    "on some slices": lambda v: CNN(torch.from_numpy(v)).numpy() if v[0] > 0 else v[:3],
}


@pytest.mark.parametrize("name", INSIDE)
def test_modules_inside_functions_that_are_no_graph(name):
    f = INSIDE[name]
    arr = np.random.default_rng(12).standard_normal((2000, 36)).astype("f")
    arr[0, 0] = 1
    with torch.no_grad():
        xpapply.explain(f, 1, arr)
        _CALLS.clear()
        got = xpapply.apply_along_axis(f, 1, arr)
        assert len(calls()) < len(arr) // 20  # some of them tell what a call and a batch take
        plan = xpapply.explain(f, 1, arr)
        assert plan.engine == "numpy"
        assert "torch network in batches" in str(plan)
        want = np.apply_along_axis(f, 1, arr)
    same(got, want)


def test_modules_inside_functions_that_name_a_device():
    """As scripts have it: everything goes to the device that there is, and back."""

    def f(v):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        net = CONV.to(device)
        with torch.no_grad():
            return net(torch.from_numpy(v).view(1, 1, 6, 6).to(device)).cpu().numpy()[0]

    arr = np.random.default_rng(12).standard_normal((2000, 36)).astype("f")
    try:
        f(arr[0])
        assert "torch network in batches" in str(xpapply.explain(f, 1, arr))
        same(xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr))
    finally:
        CONV.cpu()


def test_modules_inside_functions_of_tensors():
    arr = torch.randn(60, 36)
    f = lambda v: CONV(v.reshape(1, 1, 6, 6))[0] * 2  # noqa: E731
    with torch.no_grad():
        assert "torch network in batches" in str(xpapply.explain(f, 1, arr))
        same(xpapply.apply_along_axis(f, 1, arr), loop(f, 1, arr))


def test_modules_inside_functions_that_write_or_mix():
    writes = nn.Sequential(nn.ReLU(inplace=True), images())
    mixes = Net(
        lambda m, x: m.c(x - (x.mean(0) if len(x) > 1 else 0)).mean((1, 2, 3)),
        c=nn.Conv2d(1, 4, 3),
    )
    arr = np.random.default_rng(13).standard_normal((60, 36)).astype("f")
    functions = (
        lambda v: writes(torch.from_numpy(v)).numpy() + v[:3],
        lambda v: mixes(torch.from_numpy(v).view(1, 1, 6, 6)).numpy(),
    )
    for f, engine in zip(functions, ("loop", "numpy"), strict=True):  # vmap mixes nothing
        with torch.no_grad(), xpapply.options(fallback="silent"):
            assert xpapply.explain(f, 1, arr).engine == engine
            copy = arr.copy()
            got = xpapply.apply_along_axis(f, 1, copy)
            same(got, np.apply_along_axis(f, 1, arr.copy()))


def test_changes_of_modules_inside_functions():
    net = conv()
    f = lambda v: net(torch.from_numpy(v).view(1, 1, 6, 6))[0].numpy()  # noqa: E731
    arr = np.random.default_rng(14).standard_normal((60, 36)).astype("f")
    with torch.no_grad():
        xpapply.apply_along_axis(f, 1, arr)
        net[0].weight.mul_(3)
        same(xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr))


def test_modules_inside_functions_are_freed():
    import gc
    import weakref

    nets = [conv()]
    f = lambda v, net=nets[0]: net(torch.from_numpy(v).view(1, 1, 6, 6))[0].numpy()  # noqa: E731
    with torch.no_grad():
        xpapply.apply_along_axis(f, 1, np.ones((60, 36), "f"))
    gone = weakref.ref(nets.pop())
    del f
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", ["linear", "cnn"])
def test_autocast(kind):
    """torch's own operations run in the precision that it asks for; outside of it as before."""
    net = nn.Sequential(nn.Linear(36, 5), nn.ReLU()).eval() if kind == "linear" else images()
    arr = np.random.default_rng(0).standard_normal((50, 36)).astype("f")
    outside = loop(net, 1, arr)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            assert "torch.autocast is on" in str(xpapply.explain(net, 1, arr))
            got = xpapply.apply_along_axis(net, 1, arr)
            tensor = xpapply.apply_along_axis(net, 1, torch.from_numpy(arr))
            want = net(torch.from_numpy(arr))
        assert tensor.dtype == want.dtype == torch.bfloat16
        np.testing.assert_allclose(got, want.float().numpy(), atol=0.05)
        assert abs(got - outside).max() > 1e-4
        same(xpapply.apply_along_axis(net, 1, arr), outside)


class Inner(nn.Module):
    """Asks for half the precision in its own forward."""

    def __init__(self, to_float):
        super().__init__()
        self.first, self.to_float = nn.Linear(6, 5), to_float

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x):
        found = torch.relu(self.first(x))
        return found.float() if self.to_float else found


@pytest.mark.parametrize("to_float", [False, True])
def test_autocast_in_a_forward(to_float):
    net = Inner(to_float).eval()
    rows = torch.from_numpy(np.random.default_rng(0).standard_normal((50, 6)).astype("f"))
    with torch.no_grad():
        want = torch.stack([net(v) for v in rows])
        plan = xpapply.explain(net, 1, rows)
        assert plan.engine == "torch.batch"
        assert "torch.autocast is on" in str(plan)
        got = xpapply.apply_along_axis(net, 1, rows)
        assert got.dtype == want.dtype
        assert torch.equal(got.float(), got.bfloat16().float())
        torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
        found = xpapply.apply_along_axis(net, 1, rows.numpy())
        np.testing.assert_array_equal(found, got.float().numpy())


class Greedy(torch.nn.Module):
    """Wants more memory than there is for slices with large numbers."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.GRU(4, 3, batch_first=True)
        self.inner = _Wants()

    def forward(self, x):
        return self.inner(self.layer(x)[0])


class _Wants(torch.nn.Module):
    limit = 1

    def forward(self, x):
        if x.shape[0] > self.limit or (x.ndim < 3 and not self.limit):
            raise RuntimeError("CUDA out of memory. Tried to allocate 3.00 GiB")
        return x.sum(-1)


@pytest.mark.parametrize("first", [True, False])
def test_memory_that_is_too_small_for_one_slice(first, monkeypatch):
    net = Greedy().eval().requires_grad_(False)
    x = np.random.default_rng(0).random((9, 5, 4), np.float32)
    if not first:
        monkeypatch.setattr(_Wants, "limit", 100)
        xpapply.apply_along_axis(net, (1, 2), x)
    monkeypatch.setattr(_Wants, "limit", 0)
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        xpapply.apply_along_axis(net, (1, 2), x)
    notes = "\n".join(caught.value.__notes__)
    assert "not even one slice float32[20] fits" in notes
    assert "net.half()" in notes
    assert "in layer 'inner', _Wants" in notes


class OnlyBesideNone(torch.nn.Module):
    """Finds no memory while CuPy's pool holds some for nobody."""

    def __init__(self, pool):
        super().__init__()
        self.layer = torch.nn.GRU(4, 3, batch_first=True)
        self.pool = [pool]
        self.most = float("inf")

    def forward(self, x):
        if self.pool[0].total_bytes() > self.most:
            raise RuntimeError("CUDA out of memory")
        return self.layer(x)[0].sum(-1)


@pytest.mark.gpu
def test_cupys_pool_is_emptied_before_fewer_slices_run():
    cupy = pytest.importorskip("cupy")
    pool = cupy.get_default_memory_pool()
    net = OnlyBesideNone(pool).eval().requires_grad_(False).cuda()
    arr = cupy.random.default_rng(0).standard_normal((64, 5, 4), cupy.float32)
    want = xpapply.apply_along_axis(net, (1, 2), arr)
    pool.free_all_blocks()  # what stays holds arrays of other tests, too
    net.most = pool.total_bytes() + (1 << 25)
    held = cupy.empty(1 << 26, cupy.uint8)
    del held  # the pool keeps it
    assert pool.total_bytes() > net.most
    got = xpapply.apply_along_axis(net, (1, 2), arr)
    cupy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert pool.total_bytes() <= net.most


@pytest.mark.gpu
def test_more_images_than_fit_on_the_device():
    nn = torch.nn
    layers = [nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1690, 10)]
    net = nn.Sequential(*layers).eval().requires_grad_(False).cuda()
    x = np.random.default_rng(0).random((200_000, 1, 28, 28), np.float32)
    cuda = torch.cuda
    cuda.empty_cache()
    allowed = cuda.memory_reserved() + (400 << 20)  # the images alone take 600 MB
    cuda.set_per_process_memory_fraction(allowed / cuda.get_device_properties(0).total_memory)
    cuda.reset_peak_memory_stats()
    try:
        with xpapply.options(fallback="raise"):
            got = xpapply.apply_along_axis(net, (1, 2, 3), x)
        assert cuda.max_memory_reserved() <= allowed
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    some = slice(None, None, 997)
    want = net.cpu()(torch.from_numpy(x[some])).numpy()
    np.testing.assert_allclose(got[some], want, rtol=1e-2, atol=1e-2)


def test_torchs_compiler_is_not_loaded():
    """It takes more than a second, in the first call of a function around a network."""
    code = """
import sys, numpy as np, torch, xpapply
from conftest import PATIENT
from xpapply.limits import LIMITS
nn = torch.nn
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3)).eval()
def f(v):
    with torch.no_grad():
        return net(torch.tensor(v, dtype=torch.float32)[None, None])[0].numpy()
x = np.random.default_rng(0).normal(size=(2000, 8, 8))
with LIMITS.set(**PATIENT):  # on a busy machine, the trace would be given up
    assert xpapply.apply_along_axis(f, (1, 2), x).shape == (2000, 3)
    assert xpapply.explain(f, (1, 2), x).vectorized
print("torch._dynamo" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "False\n", ran.stderr


@pytest.mark.parametrize("scale", [1, 0.1])
def test_small_effects_of_a_batch_axis(scale):
    """Of a slice with three axes the norm takes the second for the channels, of a batch another."""
    x = (np.random.default_rng(0).standard_normal((300, 3, 9, 8)) * scale).astype("f4")
    net = nn.LocalResponseNorm(2).eval()
    got = xpapply.apply_along_axis(net, (1, 2, 3), x)
    want = np.stack([net(torch.from_numpy(v)).numpy() for v in x])
    np.testing.assert_allclose(got, want, rtol=1e-5)


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.limit = nn.Linear(6, 2), nn.Linear(6, 2), 0.0

    def forward(self, v):
        return self.a(v) if v.mean() > self.limit else self.b(v)


def test_modules_that_nothing_runs_at_once_are_tried_once(monkeypatch):
    tried = []
    prove = batched.Batches.prove

    def counting(self, *given):
        tried.append(1)
        return prove(self, *given)

    monkeypatch.setattr(batched.Batches, "prove", counting)
    net, arr = Branch().eval(), np.random.default_rng(0).standard_normal((9, 6)).astype("f")
    with torch.no_grad(), xpapply.options(fallback="silent"):
        for _ in range(5):
            same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))
        assert len(tried) == 1
        net.limit = 100.0  # what it reads may have made it another one
        same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))
        assert len(tried) == 2
        monkeypatch.setattr(LIMITS, "loops_per_refusal", 0.0)
        net.limit = 0.0
        for turn in range(3):  # until the loop has taken long enough
            same(xpapply.apply_along_axis(net, 1, arr), loop(net, 1, arr))
            assert len(tried) == 3 + turn
    with (
        torch.no_grad(),
        xpapply.options(fallback="raise"),
        pytest.raises(xpapply.UnsupportedError, match="slice by slice"),
    ):
        xpapply.apply_along_axis(net, 1, arr)


def test_each_further_try_in_vain_comes_after_twice_as_many_loops():
    own = SimpleNamespace(unseen=Budget(1.0), holds=True)
    first = planner._Rests(own, lambda: True, 1.0)
    waits = [first.budget.limit]
    for _ in range(3):
        first.budget.end()
        later = planner._Rests(own, lambda: True, 1.0)
        later.follows(first)
        waits.append(later.budget.limit)
        first = later
    assert waits == [LIMITS.loops_per_refusal * 2**k for k in range(4)]
    again = planner._Rests(own, lambda: True, 1.0)
    again.follows(first)  # whose rest was not over: the module has changed
    assert again.budget.limit == LIMITS.loops_per_refusal


def test_the_dtype_of_a_module_that_makes_its_layers_as_it_runs():
    class Lazy(nn.Module):
        def forward(self, x):
            if not hasattr(self, "scale"):
                self.scale = nn.Parameter(torch.full((), 0.5))
            return x * self.scale if float(x.sum()) > -1e9 else x

    arr = np.random.default_rng(0).standard_normal((9, 4))
    with torch.no_grad(), xpapply.options(fallback="silent"):
        found = xpapply.apply_along_axis(Lazy().eval(), 1, arr)
        assert xpapply.apply_along_axis(Lazy().eval(), 1, arr[:1]).dtype == found.dtype
    own = Lazy().eval()
    want = [
        own(torch.from_numpy(v) if k == 0 else torch.from_numpy(v).float())
        for k, v in enumerate(arr)
    ]
    same(found, np.stack([np.asarray(w.detach(), found.dtype) for w in want]))


def test_the_dtype_of_a_module_that_puts_a_layer_in_the_place_of_another():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Identity()

        def forward(self, x):
            if isinstance(self.net, nn.Identity):
                self.net = nn.Linear(x.shape[-1], 2)
                return self.net(x.float()) if float(x.sum()) < 1e9 else x[..., :2]
            return self.net(x)

    arr = np.random.default_rng(0).standard_normal((40, 8))
    with torch.no_grad(), xpapply.options(fallback="silent"):
        found = xpapply.apply_along_axis(Late().eval(), 1, arr)
    assert (found.shape, found.dtype) == ((40, 2), np.float32)


@pytest.mark.parametrize("numbers", [False, True])
def test_modules_whose_layers_know_them_are_let_go(numbers):
    class Layer(nn.Module):
        def __init__(self, owner):
            super().__init__()
            object.__setattr__(self, "owner", owner)

        def forward(self, x):
            return torch.relu(x)

    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer(self)
            if numbers:
                self.register_buffer("n", torch.tensor(3))

        def forward(self, x):
            return self.layer(x) if float(x.sum()) > 0 else x * 2

    net, arr = Owner().eval(), np.random.default_rng(0).standard_normal((2000, 8)).astype("f")
    with torch.no_grad(), xpapply.options(fallback="silent"):
        for _ in range(4):
            xpapply.apply_along_axis(net, 1, arr)
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None


def test_modules_that_are_the_loops_are_let_go():
    net = Branch().eval()
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(net, 1, np.ones((9, 6), "f"))
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None


def test_the_loop_that_is_remembered_is_of_the_module_itself():
    """What was fitted to its slices, an image of one channel, is gone by the next call."""

    class Image(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv1d(1, 2, 3)

        def forward(self, x):
            y = self.c(x[:, :])  # two axes only
            return y.sum().reshape(1) if y.mean() > 0 else y.max().reshape(1)

    net, arr = Image().eval(), np.random.default_rng(0).standard_normal((40, 8)).astype("f")
    with torch.no_grad():
        want = np.array([net(torch.from_numpy(v[None])).numpy() for v in arr])
    with xpapply.options(fallback="silent"):
        for _ in range(4):
            same(xpapply.apply_along_axis(net, 1, arr), want)
            gc.collect()
