"""Networks inside a function that return several tensors: all slices at once, as in the loop."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import xpapply
from conftest import FUSED, library

torch = library("torch")
ARR = np.random.default_rng(0).normal(size=(40, 6, 30)).astype(np.float32)
Pair = namedtuple("Pair", "first second")


class Heads(torch.nn.Module):
    """`returns` makes the result out of three outputs of unlike shapes and dtypes."""

    def __init__(self, returns=tuple, sizes=(3, 2)):
        super().__init__()
        torch.manual_seed(0)
        self.trunk = torch.nn.Linear(6, 8)
        self.parts = torch.nn.ModuleList(torch.nn.Linear(8, n) for n in sizes)
        self.returns, self.calls = returns, []

    def forward(self, x):
        x = torch.tanh(self.trunk(x))
        outputs = [part(x) for part in self.parts]
        return self.returns([*outputs, outputs[0].argmax(-1)])


def made(net):
    return net.eval().requires_grad_(False)


def check(f, arr=ARR, axis=1, engine="numpy"):
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axis, arr)
    p = xpapply.explain(f, axis, arr)
    assert p.engine in ([engine] if engine else FUSED), p.reasons
    with xpapply.options(fallback="raise"):
        got = xpapply.apply_along_axis(f, axis, arr)
    assert xpapply.explain(f, axis, arr).engine == p.engine
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    return want


RETURNS = {
    "tuple": (tuple, lambda y: y[1]),
    "list": (list, lambda y: y[0]),
    "unpacked": (tuple, lambda y: (lambda a, b, c: a[..., :2] * b)(*y)),
    "argmax": (tuple, lambda y: y[2]),
    "dict": (lambda y: {"a": y[0], "b": y[1]}, lambda y: y["b"]),
    "ordered": (lambda y: OrderedDict(a=y[0], b=y[1]), lambda y: y["a"]),
    "named": (lambda y: Pair(*y[:2]), lambda y: y.second),
    "nested": (lambda y: (y[0], (y[1], [y[2]])), lambda y: y[1][0] + y[1][1][0][..., None]),
    "beside others": (lambda y: (y[0], None, 2.5, "text"), lambda y: y[0] * y[2]),
    "one": (lambda y: (y[0],), lambda y: y[0]),
    "twice": (lambda y: (y[0], y[0]), lambda y: y[0] - y[1]),
    "views": (lambda y: y[0].unbind(-1), lambda y: y[2]),
}


@pytest.mark.parametrize("kind", RETURNS)
def test_what_forward_returns(kind):
    returns, take = RETURNS[kind]
    net = made(Heads(returns))
    check(lambda v: take(net(torch.from_numpy(v))).numpy())
    check(lambda v: take(net(torch.from_numpy(v))))
    check(lambda v: take(net.forward(torch.as_tensor(v))).numpy(), ARR[:, :, 3])


@pytest.mark.parametrize("kind", RETURNS)
def test_batches_of_one(kind):
    returns, take = RETURNS[kind]
    net = made(Heads(returns))
    check(lambda v: take(net(torch.from_numpy(v)[None]))[0].numpy())


@pytest.mark.parametrize("sizes", [(3, 3), (3, 2), (1, 1), (2, 3, 2)])
def test_shapes(sizes):
    net = made(Heads(sizes=sizes))
    for k in range(len(sizes) + 1):
        check(lambda v, k=k: net(torch.from_numpy(v))[k].numpy())
    check(lambda v: torch.cat(net(torch.from_numpy(v))[:-1]).numpy())
    check(lambda v: sum(y.sum() for y in net(torch.from_numpy(v))[:-1]).numpy())


def test_tensors():
    net = made(Heads())
    arr = torch.from_numpy(ARR)
    check(lambda v: net(v)[1], arr, engine="")
    check(lambda v: net(v)[2], arr, engine="")
    check(lambda v: torch.where(net(v)[0][0] > 0, net(v)[0], v[:3].sort()[0]), arr, engine="torch")


def test_modules_that_are_no_graph():
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.lstm = torch.nn.LSTM(1, 4, num_layers=2, batch_first=True)
            self.conv = torch.nn.Conv1d(1, 2, 3)

        def forward(self, x):  # (B, M)
            out, (h, c) = self.lstm(x[..., None])
            return self.conv(x[:, None]), out, (h, c)

    net = made(Recurrent())
    check(lambda v: net(torch.from_numpy(v)[None])[0][0].numpy())
    check(lambda v: net(torch.from_numpy(v)[None])[1][0, -1].numpy())
    check(lambda v: net(torch.from_numpy(v)[None])[2][0][1, 0].numpy())  # after the layers
    check(lambda v: net.lstm(torch.from_numpy(v)[None, :, None])[1][1][:, 0].numpy())


def test_one_call_for_many_slices():
    sizes = []

    class Counted(Heads):
        def forward(self, x):
            _seen(x)
            return super().forward(x)

    def _seen(x):
        sizes.append(1 if x.ndim == 1 else len(x))

    net = made(Counted())
    f = lambda v: net(torch.from_numpy(v))[1].numpy()  # noqa: E731
    p = xpapply.explain(f, 1, ARR)
    assert "torch network in batches" in p.kernels[0]
    p(ARR, 1)
    sizes.clear()
    p(ARR, 1)
    assert sizes == [1200]
    with xpapply.options(block_bytes=1 << 16):
        p(ARR, 1)
    assert max(sizes[1:]) < 1200
    assert sum(sizes[1:]) >= 1200


def test_changes_are_noticed():
    net = made(Heads())
    f = lambda v: net(torch.from_numpy(v))[1].numpy()  # noqa: E731
    before = check(f)
    net.parts[1].weight.mul_(2.0)
    net.parts[1].bias.mul_(2.0)
    np.testing.assert_allclose(check(f), 2 * before, rtol=1e-5)
    net.returns = lambda y: [y[0], y[0] * 3]
    assert check(f).shape == (40, 3, 30)


def test_what_depends_on_other_slices_or_on_numbers():
    class Mixes(Heads):
        def forward(self, x):
            y, *others = super().forward(x)
            return (y - y.mean(0) if x.ndim > 1 else y, *others)

    class Looks(Heads):
        def forward(self, x):
            y, *others = super().forward(x)
            return (y, bool((x > 0).all()), *others)

    class Counts(Heads):
        def forward(self, x):
            return (*super().forward(x), x.shape[0])

    net = made(Mixes())
    check(lambda v: net(torch.from_numpy(v))[0].numpy())  # by torch.vmap, which is one slice each
    net = made(Counts())
    check(lambda v: net(torch.from_numpy(v))[0].numpy() * net(torch.from_numpy(v))[3])
    net = made(Looks())
    f = lambda v: net(torch.from_numpy(v))[0].numpy()  # noqa: E731
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, 1, ARR)
    with pytest.warns(xpapply.FallbackWarning, match="Looks|net"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, ARR), want)


def test_nothing_but_plain_values():
    net = made(Heads(lambda y: (None, 3)))
    p = xpapply.explain(lambda v: v * net(torch.from_numpy(v))[1], 1, ARR)
    assert p.engine == "loop"
    assert "net returns 2 outputs: a NoneType and a int" in p.reasons[0]
