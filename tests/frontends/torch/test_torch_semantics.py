"""Forwards whose meaning is easy to get wrong: every engine gives what the loop gives."""

import functools
import warnings

import numpy as np
import pytest

import xpapply

torch = pytest.importorskip("torch")
nn = torch.nn


class Net(nn.Module):
    """``forward`` is a function of the module and the slice."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = [function]  # in a list: no method, and not watched by accident
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function[0](self, x)


def linear(*shape, **how):
    torch.manual_seed(sum(shape))
    return nn.Linear(*shape, **how)


def batch_norm(n):
    torch.manual_seed(n)
    layer = nn.BatchNorm1d(n).eval()
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.5, 2)
    return layer


def in_place_through_a_cast(m, x):
    h = x.float()  # torch gives x itself
    h *= 2
    return x + h


def in_place_on_a_copy(m, x):
    h = x.to("cpu", copy=True)
    h *= 2
    return x + h


def stacked(m, x):
    return (m.l(torch.tanh(torch.stack([x, m.l(x)]))) + m.l(x)).sum(0)


CASES = {
    "view of a dying buffer": lambda m, x: (h := torch.relu(m.l(x))) - h[:1],
    "element of a dying buffer": lambda m, x: torch.exp((h := torch.tanh(m.l(x))) - h[1]),
    "where of a view": lambda m, x: m.k(torch.where((h := torch.tanh(m.l(x)))[:1] > 0.1, h[:1], h)),
    "sum of one number": lambda m, x: m.one(x).squeeze().sum() * 2,
    "mean of one number": lambda m, x: m.one(x).squeeze().mean() * 2,
    "largest of one number": lambda m, x: m.l(x)[0].amax() * 2,
    "no dims are all dims": lambda m, x: x.sum(dim=()),
    "where of numbers": lambda m, x: torch.where(m.l(x) > 0, 1.0, -1.0),
    "where of halves": lambda m, x: torch.where(m.l(x) > 0, 0.5, -1.0),
    "where as a method": lambda m, x: x.where(x > 0, torch.zeros(())),
    "where as a method of a constant": lambda m, x: torch.ones(4).where(x > 0, x),
    "count": lambda m, x: (m.l(x) > 0).sum(),
    "count times values": lambda m, x: m.l(x) * (m.l(x) > 0).sum(),
    "a layer on vector and stack": stacked,
    "cast that is none": in_place_through_a_cast,
    "copy on request": in_place_on_a_copy,
    "biased deviation": lambda m, x: x.std(False),
    "biased variance": lambda m, x: x.var(unbiased=False),
    "slopes of channels": lambda m, x: m.p(x.reshape(1, 2, 2)),
    "half in between": lambda m, x: (x.half() * 3000).float(),
    "two in a batch of one": lambda m, x: (m.bn(m.l(x)), x[:, :3]),
    "one in a tuple": lambda m, x: (m.bn(m.l(x)),),
    "kept dims in a batch": lambda m, x: m.bn(m.l(x)).mean((0, 1), keepdim=True),
    "largest of a batch of one": lambda m, x: m.one(m.bn4(x).amax(0, keepdim=True)),
    "softmax in another dtype": lambda m, x: torch.softmax(x, -1, torch.float64),
    "power of a tensor": lambda m, x: x ** torch.tensor([2.0]),
    "two matrices": lambda m, x: x.reshape(2, 2) @ m.l(x)[:2].reshape(2, 1),
    "max of two": lambda m, x: torch.maximum(m.l(x), x[:3]),
    "residual in place": lambda m, x: torch.relu(x.clone().add_(1)) + x,
}


@pytest.mark.parametrize("engine", ["", "numpy", "torch", "array_api"])
@pytest.mark.parametrize("name", CASES)
def test_what_the_loop_gives(name, engine):
    net = Net(
        CASES[name],
        l=linear(4, 4, bias=False) if name == "a layer on vector and stack" else linear(4, 3),
        k=linear(3, 2),
        one=linear(4, 1),
        p=nn.PReLU(2),
        bn=batch_norm(3),
        bn4=batch_norm(4),
    )
    arr = np.random.default_rng(0).standard_normal((7, 4)).astype("f")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with xpapply.options(engine="loop"):
            want = xpapply.apply_along_axis(net, 1, arr)
        with xpapply.options(engine=engine, fallback="silent"):
            try:
                got = xpapply.apply_along_axis(net, 1, arr)
            except xpapply.UnsupportedError:
                assert engine  # a forced engine may refuse, the automatic choice may not
                return
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("question", ["is_tensor", "isinstance"])
def test_questions_for_the_class(question):
    """The stand-in is not a tensor: such a forward runs in torch itself, on all slices at once."""

    class Asks(nn.Module):
        def forward(self, x):
            return x * (2 if torch.is_tensor(x) else 3)

    class AsksToo(nn.Module):
        def forward(self, x):
            return x * (2 if isinstance(x, torch.Tensor) else 3)

    net = Asks() if question == "is_tensor" else AsksToo()
    arr = np.ones((5, 4), np.float32)
    plan = xpapply.explain(net, 1, arr)
    assert plan.engine == "torch.batch"
    assert question in plan.reasons[0]
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, arr), 2 * arr)


def test_one_number_of_a_1d_array():
    """0-d results of 1-D arrays whose memory torch cannot borrow."""
    net = Net(lambda m, x: m.l(x).sum(), l=linear(4, 3))
    arr = np.arange(4, dtype="f")[::-1]
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(net, 0, arr)
    for engine in ("", "numpy"):
        with xpapply.options(engine=engine):
            np.testing.assert_allclose(xpapply.apply_along_axis(net, 0, arr), want, rtol=1e-6)


def hidden_list():
    net = Net(lambda m, x: m.layers[0](x))
    net.layers = [linear(4, 3)]
    return net, lambda: net.layers[0].weight.data.mul_(2)


def plain_tensors():
    net = Net(lambda m, x: x * m.t[0])
    net.t = [torch.ones(4)]
    return net, lambda: net.t[0].mul_(2)


def numbers_in_a_list():
    net = Net(lambda m, x: x * m.k[0])
    net.k = [2.0]
    return net, lambda: net.k.__setitem__(0, 5.0)


def array_attribute():
    net = Net(lambda m, x: x * torch.from_numpy(m.a))
    net.a = np.ones(4, np.float32)
    return net, lambda: net.a.__setitem__(slice(None), 3)


def object_attribute():
    class Settings:
        scale = 1.0

    net = Net(lambda m, x: x * m.settings.scale)
    net.settings = Settings()
    net.settings.scale = 2.0
    return net, lambda: setattr(net.settings, "scale", 7.0)


GLOBAL = torch.ones(4)


def global_tensor():
    net = Net(lambda m, x: x * GLOBAL)
    return net, lambda: GLOBAL.mul_(2)


def list_in_a_partial():
    class Scaled(nn.Module):
        def forward(self, x, c):
            return x * c[0]

    f = functools.partial(Scaled(), c=[2.0])
    return f, lambda: f.keywords["c"].__setitem__(0, 9.0)


def transposed_data():
    net = linear(4, 4)
    return net, lambda: setattr(net.weight, "data", net.weight.data.t())


def not_contiguous():
    net = linear(4, 3)
    net.weight = nn.Parameter(torch.randn(4, 3).t())
    return net, lambda: net.weight.data.mul_(2)


def another_class():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    net = linear(4, 3)
    return net, lambda: setattr(net, "__class__", Doubled)


CHANGES = [
    hidden_list,
    plain_tensors,
    numbers_in_a_list,
    array_attribute,
    object_attribute,
    global_tensor,
    list_in_a_partial,
    transposed_data,
    not_contiguous,
    another_class,
]


@pytest.mark.parametrize("make", CHANGES)
def test_changes_are_noticed(make):
    f, change = make()
    arr = np.random.default_rng(1).standard_normal((5, 4)).astype("f")
    before = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), before)
    change()
    after = xpapply.apply_along_axis(f, 1, arr)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, 1, arr)
    assert not np.allclose(before, want)
    np.testing.assert_allclose(after, want, rtol=1e-5, atol=1e-6)


def test_models_that_compare_equal_are_two_models():
    class Same(nn.Linear):
        def __eq__(self, other):
            return isinstance(other, Same)

        def __hash__(self):
            return 1

    arr = np.ones((3, 4), np.float32)
    one, two = Same(4, 2), Same(4, 2)
    assert not np.allclose(
        xpapply.apply_along_axis(one, 1, arr), xpapply.apply_along_axis(two, 1, arr)
    )


def test_the_input_is_not_written_to():
    """torch's own operations on a tensor of the user's, in a module that works in place."""
    net = nn.Sequential(nn.ReLU(inplace=True), linear(4, 2))
    arr = torch.randn(5, 4)
    copy = arr.clone()
    assert xpapply.explain(net, 1, arr).engine == "torch.vmap"
    xpapply.apply_along_axis(net, 1, arr)
    assert torch.equal(arr, copy)


def test_wrong_width_only_alone_is_no_wrong_width():
    """A forward for batches whose batch of one has an operation without a row."""
    net = Net(lambda m, x: torch.cumsum(m.l(x.view(x.size(0), -1)), 1), l=linear(4, 3))
    arr = np.random.default_rng(2).standard_normal((5, 4)).astype("f")
    got = xpapply.apply_along_axis(net, 1, arr)
    want = np.cumsum(arr @ net.l.weight.detach().numpy().T + net.l.bias.detach().numpy(), 1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_slice_that_torch_takes_is_no_batch_of_one():
    """What has no row in the table for a slice must not be lifted as a batch, which it is not."""

    def forward(m, x):
        y = m.l(x)
        return torch.cumsum(y, 0) if y.ndim == 1 else y.sum(0, keepdim=True)

    net = Net(forward, l=linear(4, 3))
    arr = np.random.default_rng(3).standard_normal((5, 4)).astype("f")
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(net, 1, arr)
    np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, arr), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["", "numpy", "torch"])
def test_empty_slices(engine):
    net = Net(lambda m, x: x.sum())
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(net, 1, np.ones((3, 0), np.float32))
    with xpapply.options(engine=engine, fallback="silent"):
        got = xpapply.apply_along_axis(net, 1, np.ones((3, 0), np.float32))
    np.testing.assert_array_equal(got, want)


def test_biases_as_an_array():
    net = xpapply.MLP([np.eye(2), np.eye(2)], np.ones((2, 2)))
    np.testing.assert_array_equal(net(np.zeros(2)), [2, 2])
