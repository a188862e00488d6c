"""vectorize of modules with several results, and of slices with several axes: all at once."""

from collections import namedtuple
from dataclasses import dataclass, fields

import numpy as np
import pytest

import xpapply
from conftest import library

torch = library("torch")
nn = torch.nn
Pair = namedtuple("Pair", "mean scale")


@dataclass(frozen=True)
class Found:
    """As models of several libraries return it."""

    mean: object
    scale: object


class Heads(nn.Module):
    def __init__(self, returns):
        super().__init__()
        self.mean, self.scale, self.returns = nn.Linear(4, 3), nn.Linear(4, 2), returns

    def forward(self, x):
        return self.returns(self.mean(x), self.scale(x))


class Images(nn.Module):
    """Takes batches alone."""

    def __init__(self):
        super().__init__()
        self.conv, self.a, self.b = nn.Conv2d(1, 4, 3), nn.Linear(36, 3), nn.Linear(36, 2)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv(x)), 2).flatten(1)
        scores = self.a(x)
        return {"scores": scores, "label": scores.argmax(1), "more": Pair(self.b(x), x.sum(1))}


class Scores(Images):
    def forward(self, x):
        return super().forward(x)["scores"]


class States(nn.Module):
    """A batch has the axis of its slices after the layers."""

    def __init__(self, layers):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, layers, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.lstm(x)


NETWORKS = {
    "tuple": (lambda: Heads(lambda a, b: (a, b)), "(m)->(a),(b)", (4,)),
    "list": (lambda: Heads(lambda a, b: [a, b]), "(m)->(a),(b)", (4,)),
    "of one shape": (lambda: Heads(lambda a, b: (a, a + 1)), "(m)->(a),(a)", (4,)),
    "named": (lambda: Heads(Pair), "(m)->(a),(b)", (4,)),
    "dataclass": (lambda: Heads(Found), "(m)->(a),(b)", (4,)),
    "dict": (lambda: Heads(lambda a, b: {"b": b, "a": a}), "(m)->(b),(a)", (4,)),
    "numbers": (lambda: Heads(lambda a, b: (a.sum(-1), b)), "(m)->(),(b)", (4,)),
    "images": (Images, "(c,h,w)->(a),(),(b),()", (1, 8, 8)),
    "images, one result": (Scores, "(c,h,w)->(a)", (1, 8, 8)),
    "images without a channel": (Images, "(h,w)->(a),(),(b),()", (8, 8)),
    "states": (lambda: States(1), "(t,n)->(t,k),(two,l,d)", (6, 4)),
    "states of 2 layers": (lambda: States(2), "(t,n)->(t,k),(two,l,d)", (6, 4)),
}
LIBRARIES = ["numpy", "torch", *(pytest.param(x, marks=pytest.mark.gpu) for x in ("cupy", "cuda"))]


def leaves(x):
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, Found):
        x = tuple(getattr(x, f.name) for f in fields(x))
    return [y for part in x for y in leaves(part)] if isinstance(x, tuple) else [x]


@pytest.fixture(params=LIBRARIES)
def array(request):
    if request.param == "cupy":
        return pytest.importorskip("cupy").asarray
    return {"numpy": np.asarray, "torch": torch.from_numpy}.get(
        request.param, lambda x: torch.from_numpy(x).cuda()
    )


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("loop", [(1,), (7,), (3, 5), (40, 100)])
def test_results_are_those_of_the_loop(name, loop, array):
    make, signature, shape = NETWORKS[name]
    torch.manual_seed(0)
    net = make().eval().requires_grad_(False)
    x = array(np.random.default_rng(0).standard_normal((*loop, *shape)).astype("f"))
    if isinstance(x, torch.Tensor) and x.is_cuda:
        net.cuda()
    f = xpapply.vectorize(net, signature=signature)
    some = x[(slice(0, 3),) * len(loop)]
    with xpapply.options(engine="loop"):
        want = f(some)
    with xpapply.options(fallback="raise" if loop != (1,) else "warn"):
        for _ in range(6):
            got = f(x)
    assert f.explain(x).vectorized
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert list(got) == list(want)
    for g, w in zip(leaves(got), leaves(want), strict=True):
        assert type(g) is type(w)
        assert g.dtype == w.dtype
        g = g[(slice(0, 3),) * len(loop)]
        g, w = (y.get() if hasattr(y, "get") else y for y in (g, w))
        torch.testing.assert_close(torch.as_tensor(g), torch.as_tensor(w), rtol=1e-2, atol=1e-3)


def test_weights_and_modules_that_change():
    net = Heads(lambda a, b: (a, b)).eval().requires_grad_(False)
    f = xpapply.vectorize(net, signature="(m)->(a),(b)")
    x = np.ones((9, 4), "f")
    f(x)
    net.mean.weight.zero_()
    net.mean.bias.fill_(3.0)
    assert (f(x)[0] == 3.0).all()
    net.returns = lambda a, b: (b, a)
    f = xpapply.vectorize(net, signature="(m)->(b),(a)")
    with xpapply.options(fallback="raise"):
        for _ in range(2):
            assert (f(x)[1] == 3.0).all()


def test_apply_along_axis_is_not_told_of_them():
    net = Heads(lambda a, b: (a, b)).eval()
    x = np.ones((9, 4), "f")
    xpapply.vectorize(net, signature="(m)->(a),(b)")(x)
    for axis in (1, (1,), -1):
        with (
            xpapply.options(fallback="silent"),
            pytest.raises(ValueError, match="forward returns 2 outputs"),
        ):
            xpapply.apply_along_axis(net, axis, x)


def test_results_that_the_signature_does_not_promise():
    net = Heads(lambda a, b: (a, b)).eval()
    x = np.ones((9, 4), "f")
    with pytest.raises(ValueError, match=r"3|three"):
        xpapply.vectorize(net, signature="(m)->(a),(b),(c)")(x)
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        xpapply.vectorize(net, signature="(m)->(a,c),(b)")(x)
    with pytest.raises(ValueError, match="size"):
        xpapply.vectorize(net, signature="(m)->(a),(a)")(x)


def test_otypes_out_and_where():
    net = Heads(lambda a, b: (a, b)).eval().requires_grad_(False)
    f = xpapply.vectorize(net, signature="(m)->(a),(b)")
    x = np.random.default_rng(0).random((9, 4), np.float32)
    a, b = f(x)
    outs = np.empty((9, 3), "f"), np.empty((9, 2))
    assert all(got is own for got, own in zip(f(x, out=outs), outs, strict=True))
    np.testing.assert_allclose(outs[0], a)
    np.testing.assert_allclose(outs[1], b)
    wide = xpapply.vectorize(net, signature="(m)->(a),(b)", otypes="df")(x)
    assert [y.dtype.char for y in wide] == ["d", "f"]
    chosen = f(x, where=np.arange(9) > 4)
    np.testing.assert_allclose(chosen[1][5:], b[5:])
    assert np.isnan(chosen[0][:5]).all()


def test_gradients_go_through():
    net = Heads(lambda a, b: (a, b)).eval()
    x = torch.ones(9, 4, requires_grad=True)
    a, b = xpapply.vectorize(net, signature="(m)->(a),(b)")(x)
    (a.sum() + b.square().sum()).backward()
    y = torch.ones(9, 4, requires_grad=True)
    a, b = net(y)
    (a.sum() + b.square().sum()).backward()
    torch.testing.assert_close(x.grad, y.grad)


class Two(nn.Module):
    """Of a matrix and a vector."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x, query):
        y, weights = self.attention(query[..., None, :], x, x)
        return y.squeeze(-2), weights


@pytest.mark.parametrize("loop", [(7,), (3, 5)])
def test_several_arguments(loop, array):
    net = Two().eval().requires_grad_(False)
    rng = np.random.default_rng(0)
    x = array(rng.standard_normal((*loop, 6, 4)).astype("f"))
    query = array(rng.standard_normal(4).astype("f"))
    if isinstance(x, torch.Tensor) and x.is_cuda:
        net.cuda()
    f = xpapply.vectorize(net, signature="(n,k),(k)->(k),(q,n)")
    with xpapply.options(engine="loop"):
        want = f(x, query)
    with xpapply.options(fallback="raise"):
        got = f(x, query)
    for g, w in zip(got, want, strict=True):
        assert type(g) is type(w)
        g, w = (y.get() if hasattr(y, "get") else y for y in (g, w))
        torch.testing.assert_close(torch.as_tensor(g), torch.as_tensor(w), rtol=1e-2, atol=1e-3)


SECOND = {
    "attention": (lambda: nn.MultiheadAttention(4, 2), "(n,k),(m,k),(m,k)->(n,k),(n,m)", "666"),
    "batch first": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        "(n,k),(m,k),(m,k)->(n,k),(n,m)",
        "666",
    ),
    "states of LSTM": (lambda: nn.LSTM(4, 5, 2), "(t,n)->(t,k),(two,l,k)", "6"),
    "GRU and states": (lambda: nn.GRU(4, 5, 2), "(t,n),(l,k)->(t,k),(l,k)", "62"),
    "GRU, batch first": (
        lambda: nn.GRU(4, 5, 2, batch_first=True),
        "(t,n),(l,k)->(t,k),(l,k)",
        "62",
    ),
    "cell": (lambda: nn.GRUCell(4, 5), "(n),(k)->(k)", "--"),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("loop", [(7,), (3, 5), (40, 30)])
def test_the_axis_of_batches_may_be_the_second(name, loop, array):
    make, signature, lengths = SECOND[name]
    torch.manual_seed(0)
    net = make().eval().requires_grad_(False)
    rng = np.random.default_rng(0)
    widths = [4, 5, 4] if "k" not in signature[:4] else [4, 4, 4]
    given = []
    for length, width in zip(lengths, widths, strict=False):
        core = (width,) if length == "-" else (int(length), width)
        given.append(array(rng.standard_normal((*loop, *core)).astype("f")))
    if isinstance(given[0], torch.Tensor) and given[0].is_cuda:
        net.cuda()
    f = xpapply.vectorize(net, signature=signature)
    some = (slice(0, 3),) * len(loop)
    with xpapply.options(engine="loop"):
        want = f(*(x[some] for x in given))
    assert f.explain(*given).engine == "torch.batch"
    with xpapply.options(fallback="raise"):
        got = f(*given)
    for g, w in zip(leaves(got), leaves(want), strict=True):
        g, w = (y.get() if hasattr(y, "get") else y for y in (g[some], w))
        torch.testing.assert_close(torch.as_tensor(g), torch.as_tensor(w), rtol=1e-2, atol=1e-3)


class Particular(nn.Module):
    """Takes whole numbers up to 3 alone, and says so in its own way."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 5)

    def forward(self, x, y):
        if ((x != x.round()) | (x < 0) | (x > 3)).any():
            raise KeyError("no such row")
        return self.table(x.long()), y + 1


def test_a_module_that_takes_some_numbers_only():
    net = Particular().eval().requires_grad_(False)
    x = np.random.default_rng(0).integers(0, 4, (9, 2, 3)).astype("f")
    f = xpapply.vectorize(net, signature="(a,b),(c)->(a,b,d),(c)")
    with xpapply.options(fallback="silent"):
        got = f(x, x[:, 0])
    np.testing.assert_array_equal(got[0], net(torch.from_numpy(x), torch.zeros(1))[0].numpy())
    np.testing.assert_array_equal(got[1], x[:, 0] + 1)
