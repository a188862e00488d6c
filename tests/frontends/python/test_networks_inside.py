"""Networks of torch, whole and in parts, inside Python functions: all slices at once."""

import re
from dataclasses import dataclass

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


def _states(layers, n=None):
    shape = (layers, 5) if n is None else (layers, n, 5)
    return torch.linspace(-1, 1, layers * 5).reshape(shape)


ATTENTION = nn.MultiheadAttention(4, 2).eval()
FIRST = nn.MultiheadAttention(4, 2, batch_first=True).eval()
LSTM, GRU = nn.LSTM(3, 5, 2).eval(), nn.GRU(3, 5, 2, batch_first=True).eval()
MEMORY = torch.linspace(-2, 2, 12).reshape(3, 4)
CELL = nn.LSTMCell(3, 5).eval()
MASK = torch.tensor([[False, True, False], [False, False, True], [False, False, False]])
# each takes a tensor (3, 4), or (4, 3) of one slice
SEVERAL = {
    "self-attention": lambda x: ATTENTION(x, x, x)[0],
    "self-attention, batch first": lambda x: FIRST(x, x, x, need_weights=False)[0],
    "weights": lambda x: ATTENTION(x, x, x)[1],
    "attention to other things": lambda x: ATTENTION(x[:1], x, 2 * x)[0],
    "batch of one": lambda x: FIRST(x[None], x[None], x[None])[0][0],
    "batch of one, second": lambda x: ATTENTION(x[:, None], key=x[:, None], value=x[:, None])[0],
    "mask": lambda x: FIRST(x, x, x, attn_mask=MASK)[0],
    "mask of padding": lambda x: FIRST(x, x, x, key_padding_mask=MASK[0])[0],
    "mask of the slice": lambda x: FIRST(x, x, x, key_padding_mask=x[:, 0] > x.max() - 0.1)[0],
    "constant keys": lambda x: ATTENTION(x, MEMORY, MEMORY)[0],
    "LSTM": lambda x: LSTM(x.T)[0],
    "LSTM with states": lambda x: LSTM(x.T, (_states(2), 2 * _states(2)))[0],
    "states": lambda x: torch.cat(LSTM(x.T, (_states(2), _states(2)))[1]),
    "states of the slice": lambda x: LSTM(x.T, (_states(2) * x[0, 0], _states(2) * x[1, 1]))[0],
    "LSTM of a batch of one": lambda x: LSTM(x.T[:, None], (_states(2, 1), _states(2, 1)))[1][0],
    "GRU": lambda x: GRU(x.T, _states(2))[0],
    "GRU of a batch of one": lambda x: GRU(x.T[None], _states(2, 1) * x[0, 0])[0],
    "constants alone": lambda x: GRU(MEMORY.T, _states(2))[0][0, 0] + x,
    "cell": lambda x: CELL(x[:, 0], (_states(1)[0], _states(1)[0] * x[0, 0]))[0],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_tensors(name):
    network = SEVERAL[name]
    assert_at_once(lambda v: network(torch.from_numpy(v).reshape(3, 4)).numpy())


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Bilinear(4, 3, 2), nn.Linear(4, 3), nn.Embedding(5, 4)

    def forward(self, x, y=None, *, scale=1.0, index=None):
        x = x if index is None else self.c(index)
        return {"sum": self.a(x, self.b(x) if y is None else y) * scale, "second": x}


@dataclass
class Pair:
    first: object
    second: object = None


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(1, 4, batch_first=True)

    def forward(self, x):
        found = self.layer(x[..., None])[0][..., -1, :]
        return Pair(found, Pair(found + 1))


PAIRS = Pairs().eval()
TWO = Two().eval()
CUSTOM = {
    "of two": lambda x: TWO(x[:4], x[4:7])["sum"],
    "with a number": lambda x: TWO(x[:4], y=x[4:7], scale=3.0)["sum"],
    "with a constant": lambda x: TWO(x[:4], torch.ones(3))["sum"],
    "of a dataclass": lambda x: (lambda found: found.first * found.second.first)(PAIRS(x)),
    "of None": lambda x: TWO(x[:4], None)["sum"],
    "with a name": lambda x: TWO(x=x[:4])["second"],
    "of integers": lambda x: TWO(None, index=x[:1].abs().long().clamp(0, 4))["second"],
}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_arguments(name):
    network = CUSTOM[name]
    assert_at_once(lambda v: network(torch.from_numpy(v)).numpy())


def test_constants_that_paths_share_or_not():
    def f(v):
        x = torch.from_numpy(v).reshape(4, 3)
        state = _states(2) if v[0] > 0 else 3 * _states(2)
        found = LSTM(x, (state, _states(2)))[0]
        return (found if found[0, 0] > 0 else -found).numpy()

    assert_at_once(f)


class Writes(nn.Module):
    def forward(self, x, y):
        y += x
        return 2 * y


@pytest.mark.parametrize("constant", [False, True])
def test_a_network_that_writes_to_what_it_gets_is_looped_over(constant):
    net, total = Writes(), torch.zeros(12)

    def f(v):
        x = torch.from_numpy(v)
        y = total if constant else x + 1
        return (net(x, y) + y).numpy()

    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, DATA)
    total.zero_()
    np.testing.assert_array_equal(got, np.apply_along_axis(f, -1, DATA))


HALF = torch.autocast("cpu", dtype=torch.bfloat16)
WEIGHTS = torch.linspace(-1, 1, 48).reshape(12, 4)


@HALF
def decorated(net, x):
    return net(x).float()


def disabled(net, x):
    with HALF, torch.autocast("cpu", enabled=False):
        return net(x)


def twice(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
        inside = y.dtype == torch.bfloat16 and torch.is_autocast_enabled("cpu")
    return y.float() + net(x) if inside and not torch.is_autocast_enabled("cpu") else x


def chosen(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(x[0] > 0)):
        return net(x).float()


def of_functions(net, x):
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        return torch.softmax(x @ WEIGHTS, -1) + (WEIGHTS.T @ x).exp().float()


def of_states(net, x):
    with HALF:
        return LSTM(x.reshape(4, 3), (_states(2), _states(2)))[0].float()


def of_layers(net, x):
    with HALF:
        for layer in net:
            x = layer(x)
    return x.float()


AUTOCAST = [decorated, disabled, twice, chosen, of_functions, of_states, of_layers]


@pytest.mark.parametrize("g", AUTOCAST)
@pytest.mark.parametrize("ambient", [False, True])
def test_autocast(net, g, ambient):
    @torch.no_grad()
    def f(v):
        return g(net, torch.from_numpy(v)).numpy()

    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=ambient):
            if ambient and g is twice:
                continue
            try:
                f(DATA[0])
            except RuntimeError as error:  # torch has no LSTM of halves for this CPU
                with pytest.raises(RuntimeError, match=re.escape(str(error)[:40])):
                    xpapply.apply_along_axis(f, -1, DATA)
                continue
            assert xpapply.explain(f, -1, DATA).vectorized
            with xpapply.options(fallback="raise"):
                got = xpapply.apply_along_axis(f, -1, DATA)
            want = np.apply_along_axis(f, -1, DATA)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0.03, atol=0.03)
        if g is disabled:
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_autocast_computes_in_that_precision(net):
    def f(v):
        x = torch.from_numpy(v)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return net(x).float().numpy()

    got = xpapply.apply_along_axis(f, -1, DATA)
    assert xpapply.explain(f, -1, DATA).vectorized
    rounded = torch.from_numpy(got).bfloat16().float().numpy()
    np.testing.assert_array_equal(got, rounded)


def test_autocast_is_looked_at_again(net):
    context = torch.autocast("cpu", dtype=torch.bfloat16)

    @torch.no_grad()
    def f(v):
        with context:
            return net(torch.from_numpy(v)).float().numpy()

    exact = np.apply_along_axis(torch.no_grad()(lambda v: net(torch.from_numpy(v))), -1, DATA)
    assert abs(xpapply.apply_along_axis(f, -1, DATA) - exact).max() > 1e-3
    context._enabled = False
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, DATA), exact, rtol=2e-5, atol=2e-6)


def test_autocast_on_tensors(net):
    rows = torch.from_numpy(DATA)

    @torch.no_grad()
    def f(v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(v)

    assert xpapply.explain(f, -1, rows).vectorized
    got = xpapply.apply_along_axis(f, -1, rows)
    torch.testing.assert_close(got, torch.stack([f(v) for v in rows]), rtol=0.03, atol=0.03)
    assert got.dtype == torch.bfloat16


@pytest.mark.parametrize("first", [False, True])
def test_autocast_around_a_function_is_noticed(first):
    rows = torch.from_numpy(DATA)

    def f(v):
        return torch.tanh(v @ WEIGHTS)

    for on in (first, not first, first):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
            got = xpapply.apply_along_axis(f, -1, rows)
            want = torch.stack([f(v) for v in rows])
        assert got.dtype == want.dtype == (torch.bfloat16 if on else torch.float32)
        torch.testing.assert_close(got, want, rtol=0.03 if on else 2e-5, atol=0.03 if on else 2e-6)
