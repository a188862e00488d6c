"""vectorize of networks: those that apply_along_axis takes, with signatures and keywords."""

import functools

import numpy as np
import pytest

import xpapply
from xpapply import testing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5, 3)).astype(np.float32)
MLP = xpapply.MLP([RNG.normal(size=(2, 3)).astype(np.float32)], output_activation="tanh")


def nets(torch):
    torch.manual_seed(0)
    linear = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()).eval()
    return {"mlp": MLP, "torch": linear, "partial": functools.partial(linear.forward)}


@pytest.mark.parametrize("name", ["mlp", "torch", "partial"])
@pytest.mark.parametrize("lib", ["numpy", "torch"])
def test_as_apply_along_axis(torch, name, lib):
    net = nets(torch)[name]
    x = X if lib == "numpy" else torch.from_numpy(X)
    made = xpapply.vectorize(net, signature="(n)->(m)")
    with torch.no_grad():
        want = xpapply.apply_along_axis(net, -1, x)
        got = made(x)
        assert type(got) is type(want)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        p = made.explain(x)
        plan = xpapply.explain(net, -1, x)
        assert (p.engine, p.kernels, p.vectorized) == (plan.engine, plan.kernels, True)
        assert p.slices == 200
        turned = made(x.swapaxes(0, 2), axes=[0, 0])
        np.testing.assert_array_equal(np.asarray(turned), np.asarray(want.swapaxes(0, 2)))
        testing.assert_parity(made, x)


def test_keywords():
    made = xpapply.vectorize(MLP, signature="(n)->(m)")
    want = xpapply.apply_along_axis(MLP, -1, X)
    chosen = X[..., 0] > 0
    got = made(X, where=chosen, fill=0)
    np.testing.assert_allclose(got, np.where(chosen[..., None], want, 0), rtol=1e-6)
    out = np.zeros(want.shape)
    assert made(X, out=out) is out
    np.testing.assert_allclose(out, want, rtol=1e-6)
    assert made(X, dtype="float64").dtype == "float64"
    assert made(X[0, 0]).shape == (2,)


def test_several_arrays(torch):
    net = torch.nn.Bilinear(3, 2, 4).eval()
    a, b = torch.from_numpy(X), torch.from_numpy(X[:, :, :2].copy())
    made = xpapply.vectorize(net, signature="(n),(m)->(k)")
    with torch.no_grad():
        for x, y in ((a, b), (a, b[0, 0]), (a[:, :1], b)):  # they broadcast
            want = net(*(t.broadcast_to(40, 5, t.shape[-1]) for t in (x, y)))
            np.testing.assert_allclose(made(x, y), want, rtol=1e-5, atol=1e-6)
            p = made.explain(x, y)
            assert (p.engine, p.name) == ("torch.batch", "Bilinear")
    with pytest.warns(xpapply.FallbackWarning, match="of one dtype, not of float32, float64"):
        got = made(X, np.float64(X[0, 0, :2]))
    with torch.no_grad():
        np.testing.assert_allclose(got, net(a, b[:1, :1].expand(40, 5, 2)), rtol=1e-5, atol=1e-6)


def test_results_that_the_signature_does_not_promise():
    with pytest.raises(ValueError, match=r"result 0 of f has the shape \(2,\)"):
        xpapply.vectorize(MLP, signature="(n)->()")(X)
    with pytest.raises(ValueError, match="3 by argument 0, 2 by result 0"):
        xpapply.vectorize(MLP, signature="(n)->(n)")(X)
    with pytest.raises(xpapply.InputError, match="3"):
        xpapply.vectorize(MLP, signature="(n)->(m)")(X[..., :2])


RESULTS = {
    "tuple": lambda y: (y, y.sum(-1)),
    "list": lambda y: [y, y.sum(-1)],
    "dict": lambda y: {"each": y, "sum": y.sum(-1)},
    "equal shapes": lambda y: (y, -y),
}


@pytest.mark.parametrize("how", RESULTS)
@pytest.mark.parametrize("lib", ["numpy", "torch"])
def test_several_results(torch, how, lib):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x):
            return RESULTS[how](self.linear(x))

    net = Net().eval()
    x = X if lib == "numpy" else torch.from_numpy(X)
    signature = "(n)->(m),(m)" if how == "equal shapes" else "(n)->(m),()"
    made = xpapply.vectorize(net, signature=signature)
    with torch.no_grad(), xpapply.options(fallback="raise"):
        got = made(x)
    with torch.no_grad():
        want = net(torch.from_numpy(X))
        assert made.explain(x).engine == "torch.batch"
        few = made(x[0, 0])
    for found, loop in ((got, (40, 5)), (few, ())):
        assert isinstance(found, dict if how == "dict" else tuple)
        parts, wanted = found, want
        if how == "dict":
            assert list(found) == ["each", "sum"]
            parts, wanted = found.values(), want.values()
        for y, z in zip(parts, wanted, strict=True):
            assert type(y) is type(x)
            assert tuple(y.shape)[: len(loop)] == loop
            z = z if loop else z[0, 0]
            np.testing.assert_allclose(np.asarray(y), z.numpy(), rtol=1e-5, atol=1e-6)


def test_equal_results_become_one_where_one_is_promised(torch):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x, -x

    made = xpapply.vectorize(Net().eval(), signature="(n)->(k,n)")
    with xpapply.options(engine="loop"):
        np.testing.assert_array_equal(made(X), np.stack([X, -X], -2))
