"""Networks of torch, whole and in parts, inside Python functions: all slices at once."""

import numpy as np
import pytest

import xpapply
from conftest import library

torch = library("torch")
nn = torch.nn
DATA = np.random.default_rng(3).normal(size=(70, 12)).astype(np.float32)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.Linear(12, 3)
        self.features = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(-2))
        self.head, self.by_name = nn.Linear(40, 2), nn.ModuleDict({"a": nn.Linear(2, 3)})
        self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)])

    def forward(self, x):
        return self.head(self.features(x))

    def encode(self, x, scale=1.0):
        return scale * torch.tanh(self.features(x))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3)).eval()


@pytest.fixture
def user():
    torch.manual_seed(0)
    return Network().eval()


def assert_at_once(f, x=DATA):
    """`f`, without gradients, of all slices at once gives what the plain loop does."""
    decorated = torch.no_grad()(f)
    plan = xpapply.explain(decorated, -1, x)
    assert plan.vectorized, plan
    with xpapply.options(fallback="raise"):
        got = xpapply.apply_along_axis(decorated, -1, x)
    want = np.apply_along_axis(decorated, -1, x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    return decorated


def one_after_the_other(x, layers):
    for layer in layers:
        x = layer(x)
    return x


PARTS = {
    "for": lambda net, x: one_after_the_other(x, net),
    "index": lambda net, x: net[2](net[1](net[0](x))),
    "last": lambda net, x: net[-1](net[:-1](x)) * len(net),
    "slices": lambda net, x: one_after_the_other(net[:2](x), net[1:][1:]),
    "children": lambda net, x: one_after_the_other(x, net.children()),
    "named": lambda net, x: one_after_the_other(x, (m for _, m in net.named_children())),
    "reversed names": lambda net, x: dict(net.named_children())["2"](net[:2](x)),
    "kinds": lambda net, x: one_after_the_other(
        x, [m for m in net.modules() if isinstance(m, nn.Linear)][:1]
    ),
    "submodule": lambda net, x: net.get_submodule("0")(x),
    "weights": lambda net, x: nn.functional.linear(x, net[0].weight, net[0].bias),
    "where": lambda net, x: net(x.to(next(net.parameters()).device)),
    "named weights": lambda net, x: x @ dict(net.named_parameters())["0.weight"].T,
}
USERS = {
    "attributes": lambda net, x: net.head(net.features(x[None])),
    "name of a method": lambda net, x: net.values(x),
    "method": lambda net, x: net.encode(x[None], scale=2.0),
    "list": lambda net, x: one_after_the_other(net(x[None]), net.blocks),
    "dict": lambda net, x: net.by_name["a"](net(x[None])),
    "items": lambda net, x: next(m(net(x[None])) for k, m in net.by_name.items() if k == "a"),
    "in": lambda net, x: net(x[None]) if "a" in net.by_name else x,
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_network(net, name):
    part = PARTS[name]
    assert_at_once(lambda v: part(net, torch.from_numpy(v)).numpy())


@pytest.mark.parametrize("name", USERS)
def test_parts_of_a_users_network(user, name):
    part = USERS[name]
    assert_at_once(lambda v: part(user, torch.from_numpy(v)).numpy())


def test_networks_in_containers(net):
    many, several = {"a": net}, [net, nn.Linear(12, 3)]
    assert_at_once(lambda v: many["a"](torch.from_numpy(v)).numpy())
    assert_at_once(lambda v: sum(m(torch.from_numpy(v)) for m in several).numpy())


def test_changed_parts_are_noticed(net, user):
    def in_turn(v):
        return one_after_the_other(torch.from_numpy(v), net).numpy()

    f = assert_at_once(in_turn)
    with torch.no_grad():
        net[2].weight.mul_(3)
    assert_at_once(f)
    net[1] = nn.ReLU()
    assert_at_once(f)
    net.append(nn.Sigmoid())
    assert_at_once(f)

    f = assert_at_once(lambda v: user.encode(torch.from_numpy(v)[None]).numpy())
    user.features[0] = nn.Conv1d(1, 4, 3)
    assert_at_once(f)


def test_a_changed_method_is_noticed(user, monkeypatch):
    f = assert_at_once(lambda v: user.encode(torch.from_numpy(v)[None]).numpy())
    monkeypatch.setattr(Network, "encode", lambda self, x: self.features(x) + 1)
    assert_at_once(f)


def test_a_method_that_writes_is_looped_over(user, monkeypatch):
    def count(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return self(x)

    monkeypatch.setattr(Network, "encode", count)

    @torch.no_grad()
    def f(v):
        return user.encode(torch.from_numpy(v)[None]).numpy()

    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, DATA)
    assert user.calls == len(DATA)
    np.testing.assert_allclose(got, np.apply_along_axis(f, -1, DATA), rtol=2e-5, atol=2e-6)


def test_a_constant_tensor_in_front_of_a_decision():
    w = torch.from_numpy(DATA[:4].T.copy())

    def f(v):
        x = torch.from_numpy(v) @ w
        return (x if x[0] > 0 else -2 * x).numpy()

    assert_at_once(f)


def test_constants_in_inference_mode():
    w = torch.from_numpy(DATA[:4].T.copy())

    def f(v):
        with torch.inference_mode():
            return (torch.from_numpy(v) @ w).numpy()

    assert_at_once(f)
