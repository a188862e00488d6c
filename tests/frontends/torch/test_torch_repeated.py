"""Calls after the first: of the same kind of array, with other numbers, weights and streams."""

import math

import numpy as np
import pytest
from in_threads import in_threads

import xpapply
from conftest import library

torch = library("torch")
nn = torch.nn

LIBRARIES = ["numpy", "torch", *(pytest.param(x, marks=pytest.mark.gpu) for x in ("cupy", "cuda"))]
CALLS = 10
"""A CUDA graph is made after some of them."""


@pytest.fixture(params=LIBRARIES)
def place(request):
    """Puts arrays of NumPy and modules where they belong."""
    return Place(request.param)


class Place:
    def __init__(self, name):
        self.name = name
        self.device = "cuda" if name in ("cupy", "cuda") else "cpu"
        if name == "cupy":
            self.cupy = pytest.importorskip("cupy")

    def array(self, x):
        if self.name == "numpy":
            return x
        if self.name == "cupy":  # strides are kept
            order = np.argsort([-s for s in x.strides], kind="stable")
            return self.cupy.asarray(x.transpose(order)).transpose(np.argsort(order))
        return torch.from_numpy(x).to(self.device)

    def back(self, y):
        if self.name == "cupy":
            return y.get()
        return y if self.name == "numpy" else y.detach().cpu().numpy()

    def net(self, make):
        torch.manual_seed(1)
        return make().eval().to(self.device)


class Gates(nn.Module):
    """Not in torch's own classes, and no graph."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0][..., -1, :]


NETWORKS = {
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
        ),
        (1, 8, 8),
    ),
    "images to images": (lambda: nn.Conv2d(2, 3, 3, padding=1), (2, 6, 5)),
    "series": (Gates, (6, 4)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (5, 8)),
    "double": (lambda: nn.Conv1d(2, 3, 3).double(), (2, 9)),
}


def want(net, x):
    with torch.no_grad():
        p = next(net.parameters())
        return net(torch.from_numpy(np.ascontiguousarray(x)).to(p.device, p.dtype)).cpu().numpy()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("layout", ["last", "first", "between", "other order"])
@torch.no_grad()
def test_other_numbers(place, name, layout):
    make, shape = NETWORKS[name]
    net, rng = place.net(make), np.random.default_rng(0)
    k = len(shape)
    axes, to = {
        "last": (tuple(range(1, k + 1)), None),
        "first": (tuple(range(k)), (*range(1, k + 1), 0)),
        "between": ((0, *range(2, k + 1)), (1, 0, *range(2, k + 1))),
        "other order": (tuple(range(1, k + 1)), None),
    }[layout]
    kept = []
    for _ in range(CALLS):
        x = rng.standard_normal((7, *shape)).astype("f")
        given = x if to is None else np.ascontiguousarray(x.transpose(to))
        if layout == "other order":
            given = np.asfortranarray(given)
        got = xpapply.apply_along_axis(net, axes, place.array(given))
        expected = want(net, x)
        kept.append((got, expected if to is None else np.moveaxis(expected, 0, -1)))
    for got, expected in kept:  # none was written over by a later call
        np.testing.assert_allclose(place.back(got), expected, rtol=1e-2, atol=1e-3)


def call(net, shape, place, x):
    got = xpapply.apply_along_axis(net, tuple(range(1, 1 + len(shape))), place.array(x))
    return place.back(got)


def same(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-3)


@torch.no_grad()
def test_weights_that_change(place):
    make, shape = NETWORKS["images"]
    net, rng = place.net(make), np.random.default_rng(0)
    for k in range(3 * CALLS):
        x = rng.standard_normal((5, *shape)).astype("f")
        if k % CALLS == CALLS - 2:
            net[0].weight.add_(1.0)
        if k % CALLS == CALLS - 1:
            net[4].bias.data.mul_(-2.0)  # torch counts no new version
        if k == 2 * CALLS + 3:
            net[0] = nn.Conv2d(1, 4, 3, stride=1).to(place.device)
        if k == 2 * CALLS + 7:
            net.to("cpu").to(place.device)
        with xpapply.options(engine="torch.batch"):
            same(call(net, shape, place, x), want(net, x))


@torch.no_grad()
def test_two_plans_and_two_sizes_in_turns(place):
    make, shape = NETWORKS["series"]
    net, rng = place.net(make), np.random.default_rng(0)
    for _ in range(CALLS):
        for n in (1, 4, 9):
            x = rng.standard_normal((n, *shape)).astype("f")
            same(call(net, shape, place, x), want(net, x))


@torch.no_grad()
def test_threads(place):
    make, shape = NETWORKS["images"]
    net = place.net(make)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with torch.no_grad():
            for _ in range(5 * CALLS):
                x = rng.standard_normal((5, *shape)).astype("f")
                if not np.allclose(call(net, shape, place, x), want(net, x), 1e-2, 1e-3):
                    wrong.append(seed)

    in_threads(work, range(4))
    assert not wrong


@torch.no_grad()
def test_what_numpy_does_not_lend():
    make, shape = NETWORKS["images"]
    net, place = Place("numpy").net(make), Place("numpy")
    for k in range(CALLS):
        x = np.random.default_rng(k).standard_normal((5, *shape)).astype("f")
        x.flags.writeable = k % 3 != 1
        same(call(net, shape, place, x), want(net, x.copy()))


@torch.no_grad()
def test_memory_that_runs_out_later(monkeypatch):
    make, shape = NETWORKS["images"]
    net, place = Place("numpy").net(make), Place("numpy")
    x = np.random.default_rng(0).standard_normal((8, *shape)).astype("f")
    for _ in range(3):  # too few for a line of torch's operations
        call(net, shape, place, x)
    expected, run = want(net, x), torch.conv2d

    def conv2d(x, *args, **kwargs):
        if len(x) > 3:
            raise RuntimeError("CUDA out of memory")
        return run(x, *args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "conv2d", conv2d)
    with xpapply.options(fallback="raise"):
        same(call(net, shape, place, x), expected)
    same(call(net, shape, place, x), expected)


@pytest.mark.no_such_case(lambda place: place not in ("torch", "cuda"))  # autograd is torch's
def test_autograd_after_calls_without(place):
    make, shape = NETWORKS["images"]
    net = place.net(make)
    x = torch.randn(5, *shape, device=place.device)
    with torch.no_grad():
        for _ in range(CALLS):
            xpapply.apply_along_axis(net, (1, 2, 3), x)
    y = xpapply.apply_along_axis(net, (1, 2, 3), x)
    y.sum().backward()
    assert net[0].weight.grad is not None
    for p in net.parameters():
        p.requires_grad_(False)
    for _ in range(CALLS):
        assert not xpapply.apply_along_axis(net, (1, 2, 3), x).requires_grad
    x.requires_grad_(True)
    for _ in range(CALLS):
        assert xpapply.apply_along_axis(net, (1, 2, 3), x).requires_grad


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cupy", "cuda"])
def test_a_graph_is_made_and_notices_streams_and_precision(name, monkeypatch):
    from xpapply.frontends.torch.calls import captured

    place, ran = Place(name), []
    run = captured.Captured.__call__

    def counted(self, arr):
        found = run(self, arr)
        ran.append(found is not None)
        return found

    monkeypatch.setattr(captured.Captured, "__call__", counted)
    make, shape = NETWORKS["images"]
    net, rng = place.net(make), np.random.default_rng(0)

    def calls(n):
        for _ in range(n):
            x = rng.standard_normal((5, *shape)).astype("f")
            same(call(net, shape, place, x), want(net, x))

    # other options begin anew, so there are the same for all calls
    with torch.no_grad(), xpapply.options(engine="torch.batch"):
        calls(2 * CALLS)
        assert ran.count(True) >= CALLS
        ran.clear()
        other = torch.cuda.Stream()
        with torch.cuda.stream(other):
            if name == "cupy":
                with place.cupy.cuda.Stream.from_external(other):
                    calls(3)
            else:
                calls(3)
        assert ran == [False] * 3
        ran.clear()
        before = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = not before
        try:
            calls(2)
        finally:
            torch.backends.cudnn.allow_tf32 = before
        assert ran == [False] * 2
        calls(2)
        assert ran[-1]


@pytest.mark.gpu
def test_a_forward_that_waits_for_the_device_is_not_captured():
    class Waits(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(4, 3)

        def forward(self, x):
            torch.cuda.synchronize()
            return self.line(x) + torch.tensor([1.0, 2.0, 3.0]).to(x.device)

    cupy = pytest.importorskip("cupy")
    net = Waits().eval().cuda()
    with torch.no_grad(), xpapply.options(engine="torch.batch"):
        for k in range(2 * CALLS):
            x = np.random.default_rng(k).standard_normal((6, 4)).astype("f")
            same(xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get(), want(net, x))


@pytest.mark.gpu
def test_a_module_on_the_host_computes_where_the_array_is():
    cupy = pytest.importorskip("cupy")
    for name in ("images", "series", "attention"):
        make, shape = NETWORKS[name]
        net = make().eval()
        axes = tuple(range(1, 1 + len(shape)))
        for k in range(2 * CALLS):
            x = np.random.default_rng(k).standard_normal((6, *shape)).astype("f")
            if k == CALLS:
                with torch.no_grad():
                    next(net.parameters()).mul_(2.0)
            same(xpapply.apply_along_axis(net, axes, cupy.asarray(x)).get(), want(net, x))
        with xpapply.options(engine="torch.batch"):
            p = xpapply.explain(net, axes, cupy.asarray(x))
        assert "a copy of the weights there" in str(p)
        assert next(net.parameters()).device.type == "cpu"


COUNT, LOG = 0, []


class Counts(nn.Module):
    def forward(self, x):
        global COUNT
        COUNT += 1
        return x * 2


class Prints(nn.Module):
    def forward(self, x):
        print(x.shape)
        return x * 2


class Logs(nn.Module):
    def forward(self, x):
        LOG.append(x.shape)
        return x * 2


class Keeps(nn.Module):
    def forward(self, x):
        self.last = x
        return x * 2


class KeepsElsewhere(nn.Module):
    def forward(self, x):
        return self.helper(x)

    def helper(self, x):
        LOG[0] = x
        return x


class HasAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return x


class UsesAClosure(nn.Module):
    def forward(self, x):
        return (lambda y: np.asarray(y))(x)


class Skips(nn.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k, self.lines = k, nn.ModuleList(nn.Linear(4, 4) for _ in range(k))

    def forward(self, x):
        """A user's class, with all that is usual."""
        found = [nn.functional.relu(line(x)) for line in self.lines]
        if len(found) > 1 and x.ndim == 2:
            x = torch.cat(found, dim=-1) if self.k else x
        return self.shift(x)

    def shift(self, x):
        return x + math.pi


@pytest.mark.parametrize(
    "kind", [Counts, Prints, Logs, Keeps, KeepsElsewhere, HasAList, UsesAClosure]
)
def test_what_the_tensors_do_not_show(kind):
    from xpapply.frontends.torch.pure import is_pure

    assert not is_pure(kind())


@pytest.mark.parametrize("kind", [Gates, Skips, nn.Flatten, lambda: nn.LSTM(2, 3)])
def test_what_the_tensors_show(kind):
    from xpapply.frontends.torch.pure import is_pure

    assert all(map(is_pure, kind().modules()))
