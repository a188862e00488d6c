"""What is refused of torch networks, with a reason, and what the stand-in answers."""

import numpy as np
import pytest
from torch import nn
from torch_cases import ARR, Of, assert_fast, torch

import xpapply
from xpapply.frontends.torch.calls.batched import first_line
from xpapply.testing import assert_parity


def engine(f, arr=ARR, axis=1, *args, **kwargs):
    return xpapply.explain(f, axis, arr, *args, **kwargs).engine


def assert_unlifted(f, reason, arr=ARR, axis=1, *args, **kwargs):
    """Not lifted, for the reason given; the answer of torch itself is still right."""
    plan = xpapply.explain(f, axis, arr, *args, **kwargs)
    assert plan.engine in ("loop", "torch.batch", "torch.vmap")
    assert plan.graph is None
    assert reason in "; ".join(plan.reasons)
    with xpapply.options(fallback="silent"):
        return assert_parity(f, axis, arr, *args, **kwargs)


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
    from xpapply.frontends.torch.lift.functions import find
    from xpapply.frontends.torch.lift.proxy import Proxy, Recorder
    from xpapply.ir.builder import Builder
    from xpapply.ir.graph import ShapeDtype

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "vmap: it looks so. We cannot, please file an issue at https://x.org/y .",
            "vmap: it looks so",
        ),
        (
            "No .item(). Rewrite it. Inside torch, please file a bug report.",
            "No .item(). Rewrite it",
        ),
        ("Please report a bug to https://x.org", "Please report a bug to https://x.org"),
        ("plain\nand more", "plain"),
    ],
)
def test_what_torch_wants_to_be_told_is_not_passed_on(text: str, said: str) -> None:
    assert first_line(RuntimeError(text)) == f"RuntimeError: {said}"


def test_no_reason_asks_for_an_issue_with_torch() -> None:
    class Branches(torch.nn.Module):
        def forward(self, v):
            return v if v.mean() > 0 else -v

    reasons = xpapply.explain(Branches().eval(), 1, np.ones((40, 3), "f4")).reasons
    assert any("torch.vmap" in why for why in reasons)
    assert not any("issue" in why or "http" in why for why in reasons)
