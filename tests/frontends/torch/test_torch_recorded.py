"""Batches as straight lines of torch's operations: what runs instead of the layers on a CPU."""

import dis
import gc
import weakref

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.errors import TraceError

torch = library("torch")
from xpapply.frontends.torch.calls import repeated  # noqa: E402
from xpapply.frontends.torch.calls.recorded import recorded  # noqa: E402

nn = torch.nn
CALLS = 10
"""A line is recorded after some of them."""


@pytest.fixture
def lines(monkeypatch):
    """The lines that are recorded."""
    found = []

    def spy(*args):
        found.append(recorded(*args))
        return found[-1]

    monkeypatch.setattr(repeated, "recorded", spy)
    return found


class Written(nn.Module):
    """Writes to what it made, to none that it got."""

    def forward(self, x):
        y = x * 2
        y += 1
        y[..., 0] = 5
        first, second = y.chunk(2, -1)
        return torch.cat([second.relu_(), first], -1)


class Many(nn.Module):
    """Operations with several results, with tensors in lists, without any tensor."""

    def __init__(self):
        super().__init__()
        self.norm, self.gru = nn.LayerNorm(6), nn.GRU(6, 6, batch_first=True)
        self.register_buffer("at", torch.tensor([0, 2, 1]))

    def forward(self, x):
        values, places = torch.sort(self.norm(x), dim=-1)
        values = values + torch.arange(6.0) + torch.tensor([1.0])
        return self.gru(values)[0].index_select(-2, self.at) + torch.stack(
            [values, places.float()]
        ).sum(0)


class Views(nn.Module):
    """Returns a part of what it got."""

    def forward(self, x):
        return x[..., 1:3]


NETWORKS = {
    "written": (Written, (4,)),
    "many": (Many, (3, 6)),
    "views": (Views, (4,)),
    "itself": (nn.Identity, (4,)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (5, 8)),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2)),
        (1, 8, 8),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("n", [2, 7])
def test_results_are_those_of_the_module(name, n, lines):
    make, shape = NETWORKS[name]
    net, kept = make().eval(), []
    for k in range(CALLS):
        x = np.random.default_rng(k).standard_normal((n, *shape)).astype("f")
        with torch.no_grad():
            expected = net(torch.from_numpy(x.copy())).numpy()
        with xpapply.options(engine="torch.batch"):
            got = xpapply.apply_along_axis(net, tuple(range(1, x.ndim)), x)
        kept.append((got, expected, x, x.copy()))
    for got, expected, x, was in kept:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(x, was)
        assert not np.shares_memory(got, x)


def repeat(net, shape, each=lambda k: None):
    axes = tuple(range(1, 1 + len(shape)))
    for k in range(2 * CALLS):
        x = np.random.default_rng(k).standard_normal((5, *shape)).astype("f")
        each(k)
        with torch.no_grad():
            expected = net(torch.from_numpy(x)).numpy()
        got = xpapply.apply_along_axis(net, axes, x)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_line_runs_and_sees_weights_as_they_are(lines):
    net = NETWORKS["images"][0]().eval()

    def each(k):
        if k == CALLS:
            assert len(lines) == 1
            with torch.no_grad():
                net[0].weight.mul_(3.0)
                net[0].bias.data.add_(1.0)
        if k == CALLS + 3:
            net[0].weight.data = torch.ones(3, 1, 3, 3)

    repeat(net, (1, 8, 8), each)


class Offset(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.k, self.parts = nn.GRU(4, 4, batch_first=True), 1.0, [1.0]

    def forward(self, x):
        return self.first(x)[0] * self.k + self.parts[0]


def test_attributes_that_change(lines):
    net = Offset().eval()

    def each(k):
        if k == CALLS:
            net.k = 2.0
        if k == CALLS + 5:
            net.parts[0] = 7.0

    repeat(net, (3, 4), each)


def test_hooks_are_called(lines):
    net, seen = NETWORKS["many"][0]().eval(), []

    def each(k):
        if k == CALLS:
            assert lines
            net.norm.register_forward_hook(lambda m, x, y: seen.append(len(y)))
        if k > CALLS:
            assert len(seen) >= 2 * (k - CALLS)  # ours, and the one to compare with

    repeat(net, (3, 6), each)


def test_what_writes_to_what_was_there_is_not_recorded():
    total = torch.zeros(3)

    def counts(x):
        total.add_(1)
        return x + 1

    def writes(x):
        return x.add_(1)

    def adds_up(x):
        found = torch.tensor([0.0])
        found += x.sum()
        return found * x

    for run in (counts, writes, adds_up):
        with pytest.raises(TraceError, match="writes to a tensor"):
            recorded(run, torch.ones(3))


def test_a_line_keeps_no_intermediate_result():

    def run(x):
        y = x + 1
        for _ in range(5):
            y = y * 2
        return y

    line = recorded(run, torch.ones(4))
    names = line.__code__.co_varnames
    assert len(names) == 1 + 6

    deleted = [i.argval for i in dis.get_instructions(line) if i.opname == "DELETE_FAST"]
    assert sorted(deleted) == sorted({*names} - {"t6"})


def test_the_network_is_not_kept_alive(lines):
    net = NETWORKS["many"][0]().eval()
    repeat(net, (3, 6))
    assert lines
    gone = weakref.ref(net)
    lines.clear()
    del net
    gc.collect()
    assert gone() is None
