"""Torch networks of every kind: lifted where that is right, refused with a reason elsewhere."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import arrays, testing
from xpapply.planning import engines
from xpapply.testing import assert_parity

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

ARR = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32)


def engine(f, arr=ARR, axis=1, *args, **kwargs):
    return xpapply.explain(f, axis, arr, *args, **kwargs).engine


def assert_fast(f, arr=ARR, axis=1, *args, **kwargs):
    """Vectorised, and right on every library's slices."""
    plan = xpapply.explain(f, axis, arr, *args, **kwargs)
    assert plan.vectorized, plan.reasons
    assert not [r for r in plan.reasons if r.startswith("no graph")], plan.reasons
    result = assert_parity(f, axis, arr, *args, **kwargs)
    assert_parity(f, axis, torch.from_numpy(arr.copy()), *args, **kwargs)  # autograd: torch's ops
    with torch.no_grad():
        assert_parity(f, axis, torch.from_numpy(arr.copy()), *args, **kwargs)
    return result


def assert_unlifted(f, reason, arr=ARR, axis=1, *args, **kwargs):
    """Not lifted, for the reason given; the answer of torch itself is still right."""
    plan = xpapply.explain(f, axis, arr, *args, **kwargs)
    assert plan.engine in ("loop", "torch.batch", "torch.vmap")
    assert plan.graph is None
    assert reason in "; ".join(plan.reasons)
    with xpapply.options(fallback="silent"):
        return assert_parity(f, axis, arr, *args, **kwargs)


class Of(nn.Module):
    """A module whose forward is a given function; layers by name."""

    def __init__(self, forward, **layers):
        super().__init__()
        self._f = forward
        self.fc = nn.Linear(6, 5)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.eval()

    def forward(self, x, *args, **kwargs):
        return self._f(self, x, *args, **kwargs)


# --- layers ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", testing.ACTIVATIONS)
def test_activations(name):
    """Alone, on both sides of every kink and far out."""
    layer = testing.activation(name, 0.5, 6).eval()
    far = np.linspace(-120, 120, 240, dtype=np.float32).reshape(40, 6)
    for arr in (ARR.swapaxes(1, 2), far, far / 100, far.astype(np.float64) * 1e4):
        assert_fast(layer, arr, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name",
    [
        *("logsigmoid", "tanhshrink", "softshrink", "hardshrink", "relu6", "hardswish", "mish"),
        *("softsign", "silu", "gelu", "selu", "celu", "elu", "softplus", "sigmoid", "tanh"),
        *("relu", "leaky_relu", "hardtanh", "hardsigmoid", "softmin"),
    ],
)
def test_functions(name, dtype):
    function = getattr(F, name)
    options = {"dim": -1} if name == "softmin" else {}
    net = Of(lambda self, x: function(x, **options)).to(getattr(torch, dtype))
    arr = np.linspace(-60, 60, 240).reshape(40, 6)
    assert_fast(net, arr, 1)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 1),
        nn.Linear(6, 3, bias=False),
        nn.LayerNorm(6),
        nn.LayerNorm(6, bias=False),
        nn.LayerNorm(6, eps=1.0, elementwise_affine=False),
        nn.BatchNorm1d(6),
        nn.BatchNorm1d(6, affine=False),
        nn.Dropout(0.3),
        nn.AlphaDropout(0.3),
        nn.FeatureAlphaDropout(0.3),
        nn.Flatten(0),
        nn.Unflatten(-1, (2, 3)),
        nn.GLU(),
        nn.Softmin(dim=-1),
        nn.LogSigmoid(),
        nn.Tanhshrink(),
        nn.Softshrink(0.2),
        nn.Hardshrink(0.2),
        nn.PReLU(6),
    ],
    ids=repr,
)
def test_layers(layer):
    assert_fast(layer.eval())


def test_in_place_activations():
    assert_fast(nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.SiLU(inplace=True)).eval())


def test_nested_modules():
    inner = nn.Sequential(nn.Linear(5, 5), nn.Sequential(nn.Tanh(), nn.BatchNorm1d(5)))
    assert_fast(
        nn.Sequential(nn.Sequential(nn.Linear(6, 5)), inner, nn.ModuleList([inner])[0]).eval()
    )


# --- forward in Python ----------------------------------------------------------------


def loop_and_shape_if(self, x):
    for _ in range(3):
        x = torch.tanh(x)
    return x * 2 if x.shape[-1] == 6 else self.missing(x)


FORWARDS = {
    "skip": lambda self, x: x + torch.relu(self.fc(x)).mean(-1, keepdim=True),
    "concat": lambda self, x: torch.cat([x, self.fc(x), x[..., :2]], dim=-1),
    "concat with constants": lambda self, x: torch.cat([x, torch.ones(2)]),
    "shape if, loop": loop_and_shape_if,
    "buffers": lambda self, x: (x - self.mean) / self.std,
    "batch concat": lambda self, x: torch.cat([x, self.fc(x)], dim=1),
    "batch norm": lambda self, x: self.norm(self.fc(x)),
    "batch sizes": lambda self, x: x.view(x.size(0), -1, 2).sum(2),
    "batch flatten": lambda self, x: self.fc(x.flatten(1)).reshape(x.shape[0], 5, 1),
    "methods": lambda self, x: x.mul(2).add(1).sub(0.5).div(3).neg().abs().sqrt().exp(),
    "operators": lambda self, x: (2 * x - 1) / (x * x + 1) - x**2 + (-x) ** 3,
    "reflected": lambda self, x: 1 - (1 / (x.abs() + 1)),
    "matmul": lambda self, x: self.fc.weight @ x + self.fc.bias,
    "rmatmul": lambda self, x: x @ self.fc.weight.T,
    "outer": lambda self, x: x[:, None] * x[None, :],
    "reductions": lambda self, x: torch.stack([x.sum(), x.mean(), x.amax(), x.std(), x.var(0)]),
    "min max prod": lambda self, x: torch.stack([x.min(), x.max(), x.prod(), torch.amin(x)]),
    "where": lambda self, x: torch.where(x > 0.5, x, torch.zeros_like(self.mean)),
    "masks": lambda self, x: torch.where((x > 0) & ~(x > 1) | (x == 0), x, -x),
    "clamp": lambda self, x: x.clamp(-0.5, 0.5) + torch.clamp(x, min=0.1) + x.clip(max=0.2),
    "split": lambda self, x: torch.cat([a * b for a, b in [x.chunk(2)]] + list(x.split([1, 5]))),
    "unbind": lambda self, x: sum(x.unbind()),
    "iteration": lambda self, x: torch.stack([a + b for a, b in zip(x, self.mean, strict=True)]),
    "indexing": lambda self, x: x[1:5:2] * x[-1] + x[..., 0],
    "transposed": lambda self, x: x.reshape(2, 3).T.permute(1, 0).transpose(0, 1).flatten(),
    "expand": lambda self, x: x[:, None].expand(-1, 3) + x.unsqueeze(1).expand_as(torch.ones(6, 3)),
    "in place": lambda self, x: x.clone().add_(1).mul_(x).relu_(),
    "casts": lambda self, x: self.fc(x.double().mul(3).float()).to(torch.float64),
    "tuple": lambda self, x: (x.sum(), x.mean()),
    "addmm": lambda self, x: torch.addmm(self.fc.bias, x[None], self.fc.weight.t())[0],
    "functional": lambda self, x: F.dropout(
        F.linear(x, self.fc.weight), 0.5, training=self.training
    ),
    "softmax": lambda self, x: torch.softmax(x, 0) * x.log_softmax(-1),
    "constant": lambda self, x: self.mean * 2,
    "input": lambda self, x: x,
    "shared constants": lambda self, x: (
        (self.fc(x) * self.fc.bias + self.fc.bias) * self.fc.weight[:, 0] + self.fc.weight.sum()
    ),
    "weight used twice": lambda self, x: (
        torch.cat([self.fc(x), self.fc.weight[0] * x]) + (self.fc.weight @ x).sum()
    ),
    "numbers": lambda self, x: x * np.float32(2) + int(x.shape[0]) / len(x),
    "reciprocal": lambda self, x: x.abs().add(1).reciprocal() + (x * x + 1).rsqrt() + x.square(),
    "sin cos": lambda self, x: torch.cat([torch.sin(x), x.cos(), x.erf(), x.expm1()]),
    "no grad": lambda self, x: torch.no_grad()(self.fc)(x),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_forwards(name):
    net = Of(FORWARDS[name], norm=nn.BatchNorm1d(5))
    net.register_buffer("mean", torch.linspace(-1, 1, 6))
    net.register_buffer("std", torch.linspace(0.5, 2, 6))
    assert_fast(net)


def test_sixteen_bits_written_for_batches():
    """The batch of one is taken out again, and the result is rounded behind that."""
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).half().eval()
    assert assert_fast(net).shape == (3, 3, 4)


@pytest.mark.parametrize("value", [3.0, True, None, [1.0, 2.0], {"a": 1}, "text"], ids=repr)
def test_results_that_are_no_tensors(value):
    """The loop gives what NumPy's gives."""
    with xpapply.options(fallback="silent"):
        result = xpapply.apply_along_axis(Of(lambda self, x: value), 1, ARR)
    expected = np.apply_along_axis(lambda v: value, 1, ARR)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


# --- callables ------------------------------------------------------------------------


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 3)

    def forward(self, x, scale=1.0):
        return self.a(x) * scale

    def encode(self, x, shift=None):
        y = self.b(x)
        return y if shift is None else y + shift


def test_methods_partials_and_arguments():
    net = TwoHeads().eval()
    assert assert_fast(net.encode).shape == (3, 3, 4)
    assert assert_fast(net).shape == (3, 5, 4)
    assert_fast(functools.partial(net, scale=3.0))
    assert_fast(functools.partial(net.encode, shift=torch.ones(3)))
    assert_fast(net, ARR, 1, scale=2.0)
    one = xpapply.apply_along_axis(net, 1, ARR, 1.0)
    np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR, 2.0), 2 * one, atol=1e-6)
    np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR, scale=3.0), 3 * one, atol=1e-6)


def test_a_changed_tensor_argument_is_noticed():
    net, shift = TwoHeads().eval(), torch.zeros(3)
    f = functools.partial(net.encode, shift=shift)
    before = assert_fast(f)
    shift += 1
    np.testing.assert_allclose(assert_fast(f), before + 1, rtol=1e-5, atol=1e-6)


def test_methods_of_one_module_do_not_mix():
    net = TwoHeads().eval()
    for _ in range(2):
        assert xpapply.apply_along_axis(net, 1, ARR).shape[1] == 5
        assert xpapply.apply_along_axis(net.encode, 1, ARR).shape[1] == 3


@pytest.mark.parametrize("spectral", [False, True])
def test_parametrizations(spectral):
    norm = nn.utils.parametrizations
    layer = (norm.spectral_norm if spectral else norm.weight_norm)(nn.Linear(6, 5))
    net = nn.Sequential(layer, nn.Tanh()).eval()
    before = assert_fast(net)
    with torch.no_grad():
        next(iter(layer.parametrizations.weight.parameters())).mul_(2)
    if not spectral:
        assert not np.allclose(assert_fast(net), before)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_the_old_weight_norm_hook():
    layer = nn.utils.weight_norm(nn.Linear(6, 5))
    net = nn.Sequential(layer, nn.Tanh()).eval()
    before = assert_fast(net)
    with torch.no_grad():
        layer.weight_g.mul_(2)
    assert not np.allclose(assert_fast(net), before)


# --- what changes is noticed ----------------------------------------------------------


def replace(net):
    net[0].weight = nn.Parameter(torch.ones(5, 6))


def optimizer_step(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net(torch.ones(6)).sum().backward()
    optimizer.step()


CHANGES = {
    "optimizer": optimizer_step,
    "data": lambda net: net[0].weight.data.mul_(2),
    "state dict": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    "replaced": replace,
    "slope": lambda net: setattr(net[1], "negative_slope", 0.9),
    "numpy view": lambda net: net[0].weight.detach().numpy().__imul__(2),
    "buffer": lambda net: net[2].running_mean.add_(1),
    "eps": lambda net: setattr(net[2], "eps", 10.0),
    "layer": lambda net: net.__setitem__(1, nn.Sigmoid()),
    "appended": lambda net: net.append(nn.Sigmoid()),
    "removed": lambda net: net.__delitem__(1),
    "class": lambda net: setattr(net[1], "__class__", nn.ReLU),
}


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name, kind, ahead, monkeypatch):
    monkeypatch.setattr(arrays, "is_asynchronous", lambda _: ahead)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.BatchNorm1d(5)).eval()
    net.requires_grad_(name == "optimizer")
    arr = ARR if kind == "numpy" else torch.from_numpy(ARR)
    if name == "optimizer":
        net[2] = nn.Tanh()
    with torch.no_grad():
        before = np.asarray(xpapply.apply_along_axis(net, 1, arr))
    CHANGES[name](net)
    with torch.no_grad():
        after = np.asarray(assert_parity(net, 1, arr))
    assert not np.allclose(before, after)


def test_any_of_many_weights_changed_behind_data():
    net = nn.Sequential(*(nn.Linear(6 if k == 0 else 300, 300) for k in range(6))).eval()
    net.register_parameter("empty", nn.Parameter(torch.empty(0)))
    for layer in net:
        before = xpapply.apply_along_axis(net, 1, ARR)
        np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, ARR), before)
        layer.bias.data += 1
        assert not np.allclose(xpapply.apply_along_axis(net, 1, ARR), before)


@pytest.mark.parametrize(("rows", "wasted"), [(1000, 1), (1 << 20, 0)])
def test_little_work_starts_before_weights_are_looked_at(rows, wasted, monkeypatch):
    monkeypatch.setattr(arrays, "is_asynchronous", lambda _: True)
    calls = []
    run = engines._Prepared._run
    monkeypatch.setattr(engines._Prepared, "_run", lambda *a: calls.append(1) or run(*a))
    net, arr = nn.Linear(6, 1).eval(), np.ones((rows, 6), np.float32)
    for _ in range(3):
        before = xpapply.apply_along_axis(net, -1, arr)
    assert len(calls) == 3
    with torch.no_grad():
        net.bias += 1
    np.testing.assert_allclose(xpapply.apply_along_axis(net, -1, arr), before + 1, rtol=1e-6)
    assert len(calls) == 4 + wasted


# --- hooks ----------------------------------------------------------------------------


def test_forward_hooks_run_torch_itself():
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh()).eval()
    calls = []
    handle = net[0].register_forward_hook(lambda *_: calls.append(1))
    with xpapply.options(fallback="silent"):
        result = xpapply.apply_along_axis(net, 1, ARR)
    assert len(calls) == 3 * 4
    assert engine(net) == "loop"
    assert len(calls) == 3 * 4  # explaining calls nothing
    handle.remove()
    assert engine(net) != "loop"
    np.testing.assert_allclose(assert_fast(net), result, rtol=1e-5, atol=1e-6)
    handle = net.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    assert_unlifted(net, "hook")
    handle.remove()


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: nn.Dropout(0.5), lambda: nn.BatchNorm1d(5)])
@pytest.mark.parametrize("forced", ["", "loop", "numpy"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_training_mode(make, forced, kind):
    layer = make()
    arr = ARR if kind == "numpy" else torch.from_numpy(ARR)
    net = nn.Sequential(nn.Linear(6, 5), layer)
    refused = pytest.raises(xpapply.InputError, match=r"'1'.*\.eval\(\)")
    with xpapply.options(engine=forced, fallback="silent"), refused as caught:
        xpapply.apply_along_axis(net, 1, arr)
    assert type(layer).__name__ in str(caught.value)
    before = xpapply.apply_along_axis(net.eval(), 1, ARR)
    with pytest.raises(xpapply.InputError, match="training mode"):
        xpapply.apply_along_axis(net.train(), 1, ARR)
    np.testing.assert_array_equal(xpapply.apply_along_axis(net.eval(), 1, ARR), before)


def test_training_mode_matters_only_for_some_layers():
    assert_fast(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.0)).train())


def test_wrong_number_of_features():
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU()).eval()
    with pytest.raises(xpapply.InputError, match=r"takes 6 features.*has 4.*axis"):
        xpapply.apply_along_axis(net, -1, ARR)
    with pytest.raises(xpapply.InputError, match=r"6"):
        xpapply.apply_along_axis(nn.LayerNorm(6).eval(), -1, ARR)


class Mine(Exception):
    pass


def test_the_users_own_error_passes():
    def forward(self, x):
        raise Mine("mine")

    with xpapply.options(fallback="silent"), pytest.raises(Mine, match="mine"):
        xpapply.apply_along_axis(Of(forward), 1, ARR)


def test_nan_weights():
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    with torch.no_grad():
        net[0].weight[0, 0] = np.nan
        net[2].bias[0] = np.inf
    assert np.isnan(assert_fast(net)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("source", ["u1", "f2", "f4", "f8"])
def test_dtypes(dtype, source):
    net = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 2)).eval()
    net = net.to(getattr(torch, dtype))
    arr = (ARR * 5).astype(source)
    result = assert_parity(net, 1, arr)
    assert result.dtype == ("float32" if dtype == "bfloat16" else dtype)
    tensor = assert_parity(net, 1, torch.from_numpy(arr))
    assert tensor.dtype == getattr(torch, dtype)
    assert engine(net, arr) != "loop"


# --- refused --------------------------------------------------------------------------


def draws(self, x):
    return x + torch.randn(6)


def draws_numpy(self, x):
    return x * float(np.random.standard_normal())


def test_random_draws_are_refused_and_leave_no_trace():
    for f in (draws, draws_numpy):
        net = Of(f)
        torch.manual_seed(0)
        np.random.seed(0)
        states = torch.get_rng_state(), np.random.get_state()[1].copy()
        plan = xpapply.explain(net, 1, ARR)
        assert plan.engine == "loop"
        assert "random" in "".join(plan.reasons)
        assert torch.equal(states[0], torch.get_rng_state())
        np.testing.assert_array_equal(states[1], np.random.get_state()[1])


def counts(self, x):
    self.calls += 1
    return x * self.calls


def appends(self, x):
    self.seen.append(tuple(x.shape))
    return x * 2


def buffer_in_place(self, x):
    self.count += 1
    return x + 0 * self.count


def buffer_anew(self, x):
    self.count = self.count + 1
    return x + 0 * self.count


@pytest.mark.parametrize("f", [counts, appends, buffer_in_place, buffer_anew])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_side_effects_happen_once_per_slice(f, kind):
    net = Of(f)
    net.register_buffer("count", torch.zeros(()))
    net.seen = []
    net.calls = 0
    arr = ARR if kind == "numpy" else torch.from_numpy(ARR)
    plan = xpapply.explain(net, 1, arr)
    assert plan.engine == "loop"
    assert "writes" in "".join(plan.reasons)
    assert (float(net.count), len(net.seen), net.calls) == (0, 0, 0)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(net, 1, arr)
    assert max(float(net.count), len(net.seen), net.calls) == 3 * 4


REFUSED = {
    "branch on data": lambda self, x: x if x.sum() > 0 else -x,
    "float": lambda self, x: x * float(x[0]),
    "item": lambda self, x: x * x[0].item(),
    "while": lambda self, x: x if x.max() < 3 else x / 2,
    "sort": lambda self, x: x.sort().values,
    "mask index": lambda self, x: torch.where(x > 0, x, x[x.argmax()]),
    "contains": lambda self, x: x * (3.0 in x),
    "numpy": lambda self, x: torch.from_numpy(x.numpy() * 2),
    "cumsum": lambda self, x: x.cumsum(0),
    "floordiv": lambda self, x: x // 2,
    "mod": lambda self, x: x % 2,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    assert_unlifted(Of(REFUSED[name]), "no graph")


class Remembers(nn.Module):
    """Sets a new attribute, takes one away, or writes none; one of its buffers is None."""

    def __init__(self, what):
        super().__init__()
        self.conv, self.what, self.old = nn.Conv1d(1, 1, 3), what, 1
        self.register_buffer("nothing", None)

    def forward(self, x):
        if self.what == "new":
            self.seen = len(x)
        elif self.what == "gone" and hasattr(self, "old"):
            del self.old
        return self.conv(x[None])[0]


@pytest.mark.parametrize("what", ["new", "gone", ""])
def test_attributes_that_forward_adds_or_takes_away(what):
    net = Remembers(what).eval()
    before = dict(vars(net))
    arr = np.random.default_rng(0).standard_normal((60, 8)).astype("f")
    plan = xpapply.explain(net, -1, arr)
    assert plan.vectorized == (not what)
    assert ("writes to attributes of Remembers" in "".join(plan.reasons)) == bool(what)
    assert vars(net).keys() == before.keys()


def test_writes_into_the_slice():
    def forward(self, x):
        y = x[:3]
        y += 1
        return x

    assert_unlifted(Of(forward), "no graph")


def test_setitem():
    def forward(self, x):
        y = x.clone()
        y[0] = 5.0
        return y

    assert_unlifted(Of(forward), "no graph")


# --- the stand-in ---------------------------------------------------------------------

HARMLESS = {
    # of every Python object, or of the class alone
    *("__class__", "__init__", "__new__", "__init_subclass__", "__subclasshook__", "__doc__"),
    *("__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__dir__", "__module__"),
    *("__weakref__", "__dict__", "__torch_function__", "__annotations__", "__slots__"),
    *("__annotate__", "__annotations_cache__", "__firstlineno__", "__static_attributes__"),
    # identity, as for tensors; text for people; sizes
    *("__hash__", "__repr__", "__str__", "__sizeof__", "__len__", "__iter__", "__format__"),
}


def stand_in():
    from xpapply.frontends.torch.functions import find
    from xpapply.frontends.torch.proxy import Proxy, Recorder
    from xpapply.ir.graph import Builder, ShapeDtype

    recorder = Recorder(Builder(), find)
    value = recorder.builder.input(ShapeDtype((6,), "float32"))
    return Proxy(recorder, value, torch.float32, torch.device("cpu"))


DUNDERS = sorted(
    n for n in dir(torch.Tensor) if n.startswith("__") and n.endswith("__") and n not in HARMLESS
)


@pytest.mark.parametrize("name", DUNDERS)
def test_no_operator_falls_to_objects_default(name):
    """An operator that the stand-in lacks would be answered by Python, silently and wrongly."""
    x = stand_in()
    method = getattr(type(x), name, None)
    if method is None:
        # Python itself raises TypeError, which refuses
        assert not hasattr(object, name)
        return
    assert method is not getattr(object, name, None)
    attempts = [(), (2.0,), (0,), (x,), (slice(None),), (0, 1.0)]
    emitted = []
    for args in attempts:
        try:
            emitted.append(method(x, *args))
        except (xpapply.XpapplyError, TypeError, IndexError):
            continue
    for result in emitted:
        assert type(result) is type(x), (name, result)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: bool(x == 0),
        lambda x: 0.0 in x,
        lambda x: x == [1, 2],
        lambda x: {float(v) for v in x},
        lambda x: range(x),
        lambda x: np.asarray(x),
        lambda x: np.sum(x),
        lambda x: round(x),
        lambda x: [1, 2][x],
        lambda x: reversed(x),
        lambda x: f"{x:.3f}",
        lambda x: complex(x[0]),
        lambda x: x.tolist(),
        lambda x: memoryview(x),
        lambda x: setattr(x, "data", 3),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.__delitem__(0),
        lambda x: torch.equal(x, x),
        lambda x: torch.allclose(x, x),
        lambda x: x is not None and x.any(),
        lambda x: len(torch.unique(x)),
        lambda x: torch.from_dlpack(x),
        lambda x: torch.tensor(x),
        lambda x: torch.as_tensor(x),
        lambda x: copy_of(x),
    ],
)
def test_no_number_comes_out_of_the_stand_in(use):
    with pytest.raises((xpapply.XpapplyError, TypeError, AttributeError, ValueError)):
        use(stand_in())


def copy_of(x):
    import copy

    return copy.deepcopy(x)


# --- random networks ------------------------------------------------------------------


@given(data=st.data())
def test_state_is_complete(data):
    """Whatever parameter or buffer of a random network changes is noticed."""
    net = data.draw(testing.networks(4, max_depth=3))
    arr = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    assert_parity(net, 1, arr)
    for t in [*net.parameters(), *net.buffers()]:
        if t.is_floating_point():
            t.data.mul_(1.5)
            assert_parity(net, 1, arr)
