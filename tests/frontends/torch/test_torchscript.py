"""Scripted, traced, exported and compiled modules: what torch runs in C++, or wraps."""

import warnings

import numpy as np
import pytest

import xpapply
from conftest import FUSED

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 6)).astype("f4")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


@pytest.fixture(scope="module")
def net(torch):
    torch.manual_seed(0)
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
            self.norm, self.layer_norm = nn.BatchNorm1d(8), nn.LayerNorm(8)
            self.drop, self.act = nn.Dropout(), nn.GELU()

        def forward(self, x):
            x = self.drop(self.act(self.norm(self.first(x))))
            x = self.layer_norm(x)
            x = torch.cat([x[..., :4] * 2, x[..., 4:] - 1], -1)
            return torch.softmax(self.last(x), -1)

    found = Net()
    with torch.no_grad():
        found.norm.running_mean.normal_()
        found.norm.running_var.uniform_(0.5, 2)
    return found.eval()


def made(torch, net, how):
    example = torch.zeros(1, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == "script":
            return torch.jit.script(net)
        if how == "trace":
            return torch.jit.trace(net, example)
        if how == "freeze":
            return torch.jit.freeze(torch.jit.script(net))
        if how == "export":
            return torch.export.export(net, (example,)).module()
        if how == "export, any batch":
            some = {0: torch.export.Dim("batch")}
            example = torch.zeros(3, 6)
            return torch.export.export(net, (example,), dynamic_shapes=(some,)).module()
        if how == "loaded":
            import io

            file = io.BytesIO()
            torch.jit.save(torch.jit.script(net), file)
            file.seek(0)
            return torch.jit.load(file)
        return torch.compile(net, backend="eager")


KINDS = ["script", "trace", "freeze", "loaded", "export", "export, any batch", "compile"]


def expected(torch, net, x=X):
    with torch.no_grad():
        return net(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("how", KINDS)
def test_they_run_as_the_module_that_they_were_made_of(torch, net, how):
    model = made(torch, net, how)
    plan = xpapply.explain(model, -1, X)
    assert plan.engine in FUSED
    assert plan.graph is not None
    for _ in range(2):
        y = xpapply.apply_along_axis(model, -1, X)
        np.testing.assert_allclose(y, expected(torch, net), rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        y = xpapply.apply_along_axis(model, 0, torch.from_numpy(X.T.copy()))
    np.testing.assert_allclose(y.T, expected(torch, net), rtol=1e-5, atol=1e-6)
    with xpapply.options(engine="loop"):
        y = xpapply.apply_along_axis(model, -1, X[:3])
    np.testing.assert_allclose(y, expected(torch, net)[:3], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["script", "trace", "export"])
def test_they_are_lifted_once(torch, net, how, monkeypatch):
    from xpapply.frontends import torch as frontend

    model = made(torch, net, how)
    xpapply.apply_along_axis(model, -1, X)
    monkeypatch.setattr(frontend, "lift", lambda *_: pytest.fail("lifted again"))
    xpapply.apply_along_axis(model, -1, X)


@pytest.mark.parametrize("how", ["script", "trace"])
def test_new_weights_are_seen(torch, how):
    net = torch.nn.Sequential(torch.nn.Linear(6, 2)).eval()
    model = made(torch, net, how)
    layer = next(model.children())

    def check():
        with torch.no_grad():
            want = model(torch.from_numpy(X)).numpy()
        np.testing.assert_allclose(xpapply.apply_along_axis(model, -1, X), want, atol=1e-6)

    check()
    with torch.no_grad():
        layer.weight.add_(1.0)
    check()
    layer.weight.data.mul_(2.0)
    check()
    layer.bias = torch.nn.Parameter(torch.ones(2))
    check()


def test_attributes_of_a_script_that_change_are_seen(torch):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.scale, self.flip = torch.nn.Linear(6, 2), 2.0, False

        def forward(self, x):
            y = self.inner(x) * self.scale
            if self.flip:
                y = -y
            return y

    model = torch.jit.script(Scaled().eval())
    for name, value in [("scale", 2.0), ("scale", 3.0), ("flip", True)]:
        setattr(model, name, value)
        y = xpapply.apply_along_axis(model, -1, X)
        np.testing.assert_allclose(y, expected(torch, model), rtol=1e-5, atol=1e-6)
        assert xpapply.explain(model, -1, X).engine in FUSED


def test_a_script_that_counts_runs_once_per_slice_in_order(torch):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def forward(self, x):
            self.count += 1
            return x * self.count

    model = torch.jit.script(Counting())
    with pytest.warns(xpapply.FallbackWarning, match="writes to its attributes"):
        y = xpapply.apply_along_axis(model, -1, X)
    np.testing.assert_allclose(y, X * np.arange(1, 51, dtype="f4")[:, None], rtol=1e-6)
    assert model.count == 50


def test_a_script_that_decides_by_the_data(torch):
    class Branching(torch.nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return x * 2
            return x - 1

    model = torch.jit.script(Branching())
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(model, -1, X)
    np.testing.assert_array_equal(y, np.where(X.sum(-1, keepdims=True) > 0, X * 2, X - 1))
    assert any("needs the numbers" in r for r in xpapply.explain(model, -1, X).reasons)


def test_a_script_inside_a_module_is_run_by_torch_in_batches(torch, net):
    model = torch.nn.Sequential(torch.jit.script(net), torch.nn.Tanh()).eval()
    plan = xpapply.explain(model, -1, X)
    assert plan.vectorized
    y = xpapply.apply_along_axis(model, -1, X)
    np.testing.assert_allclose(y, np.tanh(expected(torch, net)), rtol=1e-5, atol=1e-6)


def test_scripted_functions(torch):
    def twice(v: torch.Tensor, k: float = 2.0) -> torch.Tensor:
        return torch.relu(v) * k

    f = torch.jit.script(twice)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, X), np.maximum(X, 0) * 2)


@pytest.mark.parametrize("layer", ["Dropout", "BatchNorm1d"])
def test_training_mode_is_an_error(torch, layer):
    inner = torch.nn.Dropout() if layer == "Dropout" else torch.nn.BatchNorm1d(6)
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(6, 6), inner))
    with pytest.raises(xpapply.InputError, match=r"training mode.*\.eval\(\)"):
        xpapply.apply_along_axis(model, -1, X)
    xpapply.apply_along_axis(model.eval(), -1, X)


def test_an_exported_program_is_no_function(torch, net):
    program = torch.export.export(net, (torch.zeros(1, 6),))
    with pytest.raises(xpapply.InputError, match=r"pass its module, program\.module\(\)"):
        xpapply.apply_along_axis(program, -1, X)


def test_a_module_exported_for_one_batch_size_does_not_take_slices(torch, net):
    model = torch.export.export(net, (torch.zeros(3, 6),)).module()
    with xpapply.options(fallback="silent"), pytest.raises(AssertionError, match="Guard failed"):
        xpapply.apply_along_axis(model, -1, X)


def test_a_script_that_raises_says_what(torch):
    class Net(torch.nn.Module):
        def forward(self, x):
            if x.shape[-1] != 6:
                raise ValueError("six features")
            return x * 2

    model = torch.jit.script(Net())
    np.testing.assert_allclose(xpapply.apply_along_axis(model, -1, X), X * 2)
    five = X[:, :5].copy()
    with xpapply.options(fallback="silent"), pytest.raises(torch.jit.Error, match="six features"):
        xpapply.apply_along_axis(model, -1, five)
    with pytest.raises(xpapply.TraceError, match=r"forward raises.*six features"):
        xpapply.lift(model, (5,), "float32")


@pytest.mark.parametrize("length", [3, 4, 6, 7, 12])
def test_scripts_that_compute_with_sizes(torch, length):
    """torch.ops would take two integers for booleans: 5 != 6 was false."""

    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[-1]
        if n == 6:
            return x * 2
        if n != 7 and n < 5:
            return x + n
        if n >= 12 or not n > 5:
            x = x - n // 5
        half = n % 4 + max(n - 9, 1) * 2
        return x * half / (n + 0.5) - float(n) ** 0.5

    data = np.random.default_rng(0).random((30, length)).astype("f4")
    want = np.stack([f(torch.from_numpy(row)).numpy() for row in data])
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(torch.jit.script(f), -1, data)
    np.testing.assert_allclose(got, want, rtol=1e-5)
